"""A record as text to take away: SQL that is quoted, and that never takes what was not captured for NULL."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cdcwb import xds
from cdcwb.explore.records import Record
from cdcwb.explore.views import COPIES, as_hex, as_json, change_of, redo, undo
from cdcwb.formats.dissector import Field
from cdcwb.model import EVENTS

HOSTILE = "O'Neil\"; DROP TABLE x; --"


def record(**event: Any) -> Record:
    whole = dict.fromkeys(EVENTS.names) | {"kind": "change", "schema_name": "HR", "table_name": "EMP"} | event
    data = whole["raw"]
    return Record(0, whole, data, Field("record", 0, len(data or b""), data or b""), "")


def sql(columns: tuple[str, ...] = (), half: Record | None = None, **event: Any) -> tuple[str, str]:
    change = change_of(record(**event), half, columns)
    assert change is not None
    return redo(change), undo(change)


def test_an_insert_is_taken_back_by_its_key() -> None:
    again, back = sql(operation="INSERT", key={"ID": "1"}, after={"ID": "1", "NAME": HOSTILE, "NOTE": None})
    assert again == (
        'INSERT INTO "HR"."EMP" ("ID", "NAME", "NOTE")\nVALUES (\'1\', \'O\'\'Neil"; DROP TABLE x; --\', NULL);'
    )
    assert back == 'DELETE FROM "HR"."EMP"\nWHERE "ID" = \'1\';'


def test_an_update_sets_only_what_changed() -> None:
    images = {"before": {"ID": "1", "A": "x", "B": None}, "after": {"ID": "1", "A": "x", "B": "y"}}
    again, back = sql(operation="UPDATE", key={"ID": "1"}, **images)
    assert again == 'UPDATE "HR"."EMP"\nSET "B" = \'y\'\nWHERE "ID" = \'1\';'
    assert back == 'UPDATE "HR"."EMP"\nSET "B" = NULL\nWHERE "ID" = \'1\';'


def test_an_update_of_the_key_is_found_by_the_old_key_and_taken_back_by_the_new_one() -> None:
    again, back = sql(operation="UPDATE", key={"ID": "2"}, before={"ID": "1"}, after={"ID": "2"})
    assert again.endswith("SET \"ID\" = '2'\nWHERE \"ID\" = '1';")
    assert back.endswith("SET \"ID\" = '1'\nWHERE \"ID\" = '2';")


def test_the_halves_of_an_update_are_one_change() -> None:
    before = record(kind="before", operation="UPDATE", before={"ID": "1", "A": "x"})
    after = record(
        kind="after", operation="UPDATE", after={"ID": "1", "A": "y"}, key={"ID": "1"}, changed_columns=["A"]
    )
    for one, other in ((before, after), (after, before)):
        change = change_of(one, other)
        assert change is not None
        assert (redo(change), undo(change)) == (
            'UPDATE "HR"."EMP"\nSET "A" = \'y\'\nWHERE "ID" = \'1\';',
            'UPDATE "HR"."EMP"\nSET "A" = \'x\'\nWHERE "ID" = \'1\';',
        )
    assert COPIES["undo"](before, change_of(before, None)) == (
        "-- not known: the other half of the update is not in the capture"
    )


def test_what_the_before_image_lacks_is_not_known_and_never_null() -> None:
    _, back = sql(operation="UPDATE", key={"ID": "1"}, before={"ID": "1"}, after={"ID": "1", "A": "y"})
    assert back == "-- not known: the before image has no A"
    _, back = sql(("ID", "A"), operation="DELETE", key={"ID": "1"}, before={"ID": "1"})
    assert back == "-- not known: the before image has no A"
    _, back = sql(operation="DELETE", key={"ID": "1"})
    assert back == "-- not known: no before image"
    again, _ = sql(operation="UPDATE", key={"ID": "1"}, before={"ID": "1"}, after={"ID": "1"}, changed_columns=["A"])
    assert again == "-- not known: the after image has no A"


def test_a_delete_is_taken_back_by_its_whole_before_image() -> None:
    again, back = sql(("ID", "A"), operation="DELETE", key={"ID": "1"}, before={"ID": "1", "A": None})
    assert again == 'DELETE FROM "HR"."EMP"\nWHERE "ID" = \'1\';'
    assert back == 'INSERT INTO "HR"."EMP" ("ID", "A")\nVALUES (\'1\', NULL);'


def test_without_a_key_the_image_stands_in_the_condition_and_that_is_said() -> None:
    again, _ = sql(operation="DELETE", before={"ID": "1", "A": None})
    assert again.splitlines() == [
        "-- no key is known: WHERE has the complete image, which may match several rows",
        'DELETE FROM "HR"."EMP"',
        "WHERE \"ID\" = '1'",
        '  AND "A" IS NULL;',
    ]


def test_columns_that_an_insert_lacks_are_named_in_one_line_whatever_they_are_called() -> None:
    again, _ = sql(("ID", "x\n; DROP TABLE y"), operation="INSERT", after={"ID": "1"})
    comment, *statement = again.splitlines()
    assert comment == r"-- not captured, and so left to their defaults: x\x0a; DROP TABLE y"
    assert statement == ['INSERT INTO "HR"."EMP" ("ID")', "VALUES ('1');"]


def test_names_are_quoted() -> None:
    again, _ = sql(operation="TRUNCATE", table_name='a"b')
    assert again == 'TRUNCATE TABLE "HR"."a""b";'


def test_a_truncate_cannot_be_taken_back() -> None:
    assert sql(operation="TRUNCATE")[1].startswith("-- not known: the rows that a TRUNCATE takes away")


@pytest.mark.parametrize("kind", ["begin", "commit", "schema", "malformed"])
def test_a_record_that_changes_no_row_has_no_sql(kind: str) -> None:
    one = record(kind=kind)
    assert COPIES["redo"](one, change_of(one, None)) == "-- not known: this record changes no row"
    assert COPIES["xds"](one, None) == "<!-- no XDS event: this record changes no row -->"


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
