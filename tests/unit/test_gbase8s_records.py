"""The twelve record types are what the documentation says: numbers, names, headers without holes, and error codes."""

from __future__ import annotations

import pytest

from cdcwb.formats.gbase8s.layout import (
    COMMON_FIELDS,
    COMMON_HEADER,
    RECORD_TYPES,
    explain_error,
    record_name,
)

OUTLINES = [  # number, name, header bytes, kind, operation, payload, fields behind the common header
    (1, "BEGINTX", 40, "begin", None, False, "sequence_number transaction_id start_time user_id"),
    (2, "COMMTX", 36, "commit", None, False, "sequence_number transaction_id commit_time"),
    (3, "RBTX", 28, "rollback", None, False, "sequence_number transaction_id"),
    (40, "INSERT", 36, "change", "INSERT", True, "sequence_number transaction_id user_data flags"),
    (41, "DELETE", 36, "change", "DELETE", True, "sequence_number transaction_id user_data flags"),
    (42, "UPDBEF", 36, "before", "UPDATE", True, "sequence_number transaction_id user_data flags"),
    (43, "UPDAFT", 36, "after", "UPDATE", True, "sequence_number transaction_id user_data flags"),
    (62, "DISCARD", 28, "undo", None, False, "sequence_number transaction_id"),
    (119, "TRUNCATE", 32, "change", "TRUNCATE", False, "sequence_number transaction_id user_data"),
    (200, "TABSCHEM", 36, "schema", None, True, "user_data flags fixed_length_bytes fixed_columns variable_columns"),
    (201, "TIMEOUT", 24, "heartbeat", None, False, "sequence_number"),
    (202, "ERROR", 24, "error", None, False, "flags error_code"),
]


def test_there_are_exactly_twelve_record_types() -> None:
    assert sorted(RECORD_TYPES) == [number for number, *_ in OUTLINES]


@pytest.mark.parametrize(("number", "name", "size", "kind", "operation", "payload", "fields"), OUTLINES)
def test_a_record_type_has_its_outline(
    number: int, name: str, size: int, kind: str, operation: str | None, payload: bool, fields: str
) -> None:
    found = RECORD_TYPES[number]
    assert (found.number, found.name, found.header_size) == (number, f"CDC_REC_{name}", size)
    assert (found.kind, found.operation, found.has_payload) == (kind, operation, payload)
    assert [field.name for field in found.fields] == fields.split()


@pytest.mark.parametrize("number", RECORD_TYPES)
def test_header_fields_follow_each_other_without_holes_up_to_the_header_size(number: int) -> None:
    at = 0
    for field in (*COMMON_FIELDS, *RECORD_TYPES[number].fields):
        assert field.offset == at, field.name
        at += field.size
    assert at == RECORD_TYPES[number].header_size
    assert COMMON_FIELDS[-1].offset + COMMON_FIELDS[-1].size == COMMON_HEADER


def test_a_record_number_that_is_not_known_keeps_its_number_in_its_name() -> None:
    assert record_name(40) == "CDC_REC_INSERT"
    assert record_name(77) == "CDC_REC_77"


@pytest.mark.parametrize(
    ("code", "starts"),
    [
        (0, "0 CDC_E_OK: "),
        (-83701, "-83701 CDC_E_NOCDCDB: "),
        (-83713, "-83713 CDC_E_LSN: "),
        (-83792, "-83792 CDC_E_MUSTCLOSE: "),
        (-19816, "-19816 SQL -19816: "),
        (-83750, "-83750: an error of the CDC interface"),
        (-83803, "-83803: not a documented"),
        (7, "7: not a documented"),
    ],
)
def test_an_error_code_is_explained_as_far_as_it_is_known(code: int, starts: str) -> None:
    assert explain_error(code).startswith(starts)
