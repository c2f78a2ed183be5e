"""A record as text to take away: JSON, hex, an XDS document."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cdcwb import xds
from cdcwb.explore.records import Record
from cdcwb.explore.views import COPIES, as_hex, as_json, change_of
from cdcwb.formats.dissector import Field
from cdcwb.model import EVENTS


def record(**event: Any) -> Record:
    whole = dict.fromkeys(EVENTS.names) | {"kind": "change", "schema_name": "HR", "table_name": "EMP"} | event
    data = whole["raw"]
    return Record(0, whole, data, Field("record", 0, len(data or b""), data or b""), "")


def test_the_halves_of_an_update_are_one_change() -> None:
    before = record(kind="before", operation="UPDATE", before={"ID": "1", "A": "x"})
    after = record(
        kind="after", operation="UPDATE", after={"ID": "1", "A": "y"}, key={"ID": "1"}, changed_columns=["A"]
    )
    for one, other in ((before, after), (after, before)):
        change = change_of(one, other)
        assert change is not None
        assert [change[name] for name in ("before", "after", "key", "changed_columns")] == [
            {"ID": "1", "A": "x"},
            {"ID": "1", "A": "y"},
            {"ID": "1"},
            ["A"],
        ]
    assert COPIES["xds"](before, change_of(before, None)) == (
        "<!-- no XDS event: the other half of the update is not in the capture -->"
    )


@pytest.mark.parametrize("kind", ["begin", "commit", "schema", "malformed"])
def test_a_record_that_changes_no_row_has_no_document(kind: str) -> None:
    one = record(kind=kind)
    assert COPIES["xds"](one, change_of(one, None)) == "<!-- no XDS event: this record changes no row -->"


def test_an_xds_document_is_valid() -> None:
    change = change_of(record(operation="INSERT", key={"ID": "1"}, after={"ID": "1", "A": "<script>"}), None)
    document = COPIES["xds"](record(), change)
    assert "&lt;script&gt;" in document
    xds.validate(document.encode())


def test_why_a_change_is_no_event_is_a_comment_that_ends_where_it_should() -> None:
    change = change_of(record(operation="INSERT", table_name="a-->b", schema_name=None, after={"A": "1"}), None)
    comment = COPIES["xds"](record(), change)
    assert comment.startswith("<!-- no XDS event: no key is known of a- ->b")
    assert comment.count("--") == 2


def test_json_has_what_is_there_with_bytes_as_hex() -> None:
    told = json.loads(as_json(record(operation="INSERT", after={"A": None}, raw=b"\x00\xff")))
    assert told == {"kind": "change", "schema_name": "HR", "table_name": "EMP", "operation": "INSERT"} | {
        "after": {"A": None},
        "raw": "00ff",
    }


def test_hex_is_what_xxd_prints() -> None:
    assert as_hex(record(raw=bytes(range(0x30, 0x42)))) == (
        "00000000: 3031 3233 3435 3637 3839 3a3b 3c3d 3e3f  0123456789:;<=>?\n"
        "00000010: 4041                                     @A"
    )
    assert as_hex(record()) == ""
