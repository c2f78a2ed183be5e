"""Rows of the event log as events: what each column holds, and that many rows say what each says alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cdcwb import model
from cdcwb.formats.containers.rows import ColumnRows, FileProbe, RowSegments, TableName
from cdcwb.formats.dissector import Wanted, get_format
from cdcwb.formats.idm_event_log.events import LogFile, split_name, split_names
from cdcwb.formats.idm_event_log.layout import COLUMNS
from cdcwb.formats.table_rows import Plan
from cdcwb.model import OffsetUnit
from tests.reference.idm_rows import LogSource, event

ROW: dict[str, str | None] = {
    "record_id": "12",
    "table_key": "idu=1",
    "status": "N",
    "event_type": "2",
    "event_time": "2024-01-02 03:04:05.123456789",
    "perpetrator": "SCOTT",
    "table_name": "indirect.usr",
    "column_name": "fname",
    "old_value": "Jack",
    "new_value": "John",
}
FORMAT: Any = get_format("idm-event-log")
FILE = LogSource()
MAPS = ("key", "before", "after", "headers")

Rows = list[dict[str, str | None]]


def events(rows: Rows, source: LogSource = FILE, *, images: bool = True, raw: bool = True) -> list[dict[str, Any]]:
    """The events of rows as Python objects, with maps as lists of pairs. They follow eleven rows in the fourth file of
    a capture."""
    names = tuple(name for name in COLUMNS if name not in source.absent)
    offset, length = np.arange(len(rows)) * 100, np.full(len(rows), 100)
    data = pa.array([b"raw %d" % at for at in range(len(rows))], pa.binary()) if raw else None
    columns = [pa.array([row[name] for row in rows], pa.string()) for name in names]
    table = ColumnRows(names, offset, length, columns, data)
    part = RowSegments(
        offset, length, OffsetUnit.BYTE if raw else OffsetUnit.ROW, [(np.arange(len(rows)), table)], before=11
    )
    labels = dict(zip(names, names, strict=True))
    entry = LogFile(probe=FileProbe("log.csv", "csv", names, len(names)), table=TableName(None, ""), labels=labels)
    entry.options = {"time_zone": source.zone} | ({} if source.schema is None else {"schema": source.schema})
    plan = Plan(None, [None, None, None, entry])
    (found,) = FORMAT.events_of(plan, 3, part, Wanted(images=images))
    found.validate(full=True)
    assert found.schema == model.EVENTS
    return found.to_pylist()


def the_event(source: LogSource = FILE, /, **values: str | None) -> dict[str, Any]:
    (found,) = events([ROW | values], source)
    return found


def test_a_row_is_an_event_with_its_place_and_all_that_it_says() -> None:
    (found,) = events([ROW])
    assert found == dict.fromkeys(model.EVENTS.names) | {
        "format": "idm-event-log",
        "file": "log.csv",
        "file_index": 3,
        "offset": 0,
        "length": 100,
        "offset_unit": "byte",
        "record_type": "2",
        "kind": "change",
        "operation": "UPDATE",
        "position": "0000000000000000012",
        "changed_at": datetime(2024, 1, 2, 3, 4, 5, 123_456, tzinfo=UTC),
        "schema_name": "indirect",
        "table_name": "usr",
        "table_version": "indirect.usr@1",
        "changed_columns": ["fname"],
        "key": [("idu", "1")],
        "before": [("fname", "Jack")],
        "after": [("fname", "John")],
        "headers": list(ROW.items()),
        "raw": b"raw 0",
    }


@pytest.mark.parametrize(
    ("number", "operation", "changed", "before", "after"),
    [
        (1, "INSERT", ["fname"], None, [("fname", "John")]),
        (2, "UPDATE", ["fname"], [("fname", "Jack")], [("fname", "John")]),
        (3, "UPDATE", ["fname"], [("fname", "Jack")], [("fname", "John")]),
        (4, "DELETE", None, [("idu", "1")], None),
        (5, "INSERT", None, None, None),
        (6, "UPDATE", None, None, None),
        (7, "INSERT", ["fname"], None, None),
        (8, "UPDATE", ["fname"], None, None),
    ],
)
def test_the_eight_types_have_the_images_that_the_log_holds(
    number: int, operation: str, changed: Any, before: Any, after: Any
) -> None:
    found = the_event(event_type=str(number))
    assert (found["kind"], found["operation"], found["record_type"]) == ("change", operation, str(number))
    assert (found["changed_columns"], found["before"], found["after"]) == (changed, before, after)


def test_null_values_are_in_the_images_as_null() -> None:
    found = the_event(old_value=None, new_value="")
    assert (found["before"], found["after"]) == ([("fname", None)], [("fname", "")])


@pytest.mark.parametrize(("text", "operation"), [("9", "UNKNOWN(9)"), ("", "UNKNOWN()"), (None, "UNKNOWN()")])
def test_a_type_that_is_not_known_is_a_control_record(text: str | None, operation: str) -> None:
    found = the_event(event_type=text)
    assert (found["kind"], found["operation"], found["record_type"]) == ("control", operation, text)
    assert (found["before"], found["after"], found["changed_columns"]) == (None, None, None)
    assert [problem["code"] for problem in found["problems"]] == ["log_rule"]


def test_a_key_that_is_none_is_null_and_so_is_the_image_of_a_deleted_row() -> None:
    found = the_event(event_type="4", table_key="idu=<1>")
    assert (found["key"], found["before"]) == (None, None)
    assert [problem["code"] for problem in found["problems"]] == ["table_key"]
    compound = the_event(event_type="4", table_key='b="1+1"+a=2')
    assert compound["key"] == compound["before"] == [("b", "1+1"), ("a", "2")]


def test_a_field_event_without_its_column_has_no_images() -> None:
    for column in (None, ""):
        found = the_event(column_name=column)
        assert (found["changed_columns"], found["before"], found["after"]) == (None, None, None)


@pytest.mark.parametrize(
    ("name", "schema", "expected"),
    [
        ("usr", None, (None, "usr")),
        ("usr", "indirect", ("indirect", "usr")),
        ("lawson.idview", "indirect", ("lawson", "idview")),
        ("db.lawson.idview", None, ("db.lawson", "idview")),
        (".usr", "x", ("x", ".usr")),
        ("usr.", None, (None, "usr.")),
        ("", "x", ("x", None)),
        (None, None, (None, None)),
    ],
)
def test_a_table_is_parted_at_the_last_dot(
    name: str | None, schema: str | None, expected: tuple[str | None, str | None]
) -> None:
    assert split_name(name, schema) == expected
    owners, tables, _ = split_names(pa.array([None, name], pa.string()).slice(1), schema)
    assert (owners.to_pylist(), tables.to_pylist()) == ([expected[0]], [expected[1]])
    found = the_event(LogSource(schema=schema), table_name=name)
    label = ".".join(part for part in expected if part) + "@1"
    assert found["table_version"] == (None if expected[1] is None else label)


def test_without_images_the_key_stays_and_values_and_bytes_go() -> None:
    (found,) = events([ROW], images=False)
    assert (found["before"], found["after"], found["raw"]) == (None, None, None)
    assert (found["key"], found["changed_columns"]) == ([("idu", "1")], ["fname"])
    assert [name for name, _ in found["headers"]] == list(COLUMNS[:-2])


def test_what_a_source_lacks_is_in_no_header_and_no_image() -> None:
    lacking = LogSource(frozenset({"record_id", "old_value", "event_time", "perpetrator"}))
    (found,) = events([ROW | {"old_value": None, "event_time": None, "perpetrator": None}], lacking, raw=False)
    assert [name for name, _ in found["headers"]] == [name for name in COLUMNS if name not in lacking.absent]
    assert (found["before"], found["after"], found["problems"]) == (None, [("fname", "John")], None)
    assert (found["position"], found["raw"], found["offset_unit"]) == ("0000000000000000012", None, "row")
    (found,) = events([ROW], LogSource(frozenset({"new_value"})))
    assert (found["before"], found["after"]) == ([("fname", "Jack")], None)


def test_times_are_in_the_zone_of_the_source() -> None:
    found = the_event(LogSource(zone="+02:00"), event_time="2024-01-02 03:04:05")
    assert found["changed_at"] == datetime(2024, 1, 2, 1, 4, 5, tzinfo=UTC)


def plain(found: dict[str, Any]) -> dict[str, Any]:
    return {name: dict(value) if name in MAPS and value is not None else value for name, value in found.items()}


choices = {
    "record_id": ["1", "12", "0", "x", "", None, "9223372036854775807", " 7 "],
    "table_key": ["idu=1", "idu= 1", "a=1+b=2", 'a="x=y"', "a=1+a=2", "a=<", "", None, "ü=é"],
    "status": ["N", "S", "n", "", None],
    "event_type": [*"123456789", "02", "x", "", None],
    "event_time": ["2024-01-02 03:04:05", "2024-01-02-03.04.05.123", "2024-10-27 02:30:00", "x", "", None],
    "perpetrator": ["SCOTT", "", None],
    "table_name": ["usr", "indirect.usr", "", None, "a\x00b"],
    "column_name": ["fname", "", None, "c\uffff"],
    "old_value": ["old", "", None, "\x0b"],
    "new_value": ["new", "", None, "\x1f"],
}
rows = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in choices.items()})
sources = st.builds(
    LogSource,
    st.frozensets(st.sampled_from(COLUMNS), max_size=3),
    st.sampled_from([None, "own"]),
    st.sampled_from(["UTC", "Europe/Berlin", "-03:30"]),
)


@given(st.lists(rows, min_size=1, max_size=8), sources, st.booleans())
@example([ROW, ROW | {"event_type": "4", "table_key": "a=1+b=2"}, ROW | {"event_type": "4"}, ROW], FILE, True)
def test_many_rows_say_what_each_says_alone(many: Rows, source: LogSource, images: bool) -> None:
    for number, (row, found) in enumerate(zip(many, events(many, source, images=images), strict=True), start=12):
        filled = {"record_id": str(number), "status": "N"}
        read = {name: filled.get(name) if name in source.absent else value for name, value in row.items()}
        expected = event(read, source, images)
        assert {name: value for name, value in plain(found).items() if name in expected} == expected
