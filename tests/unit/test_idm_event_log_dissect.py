"""One row of the event log as a tree: every byte in one leaf, every column with what it means."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcwb.formats.containers.rows import Cell
from cdcwb.formats.dissector import Field
from cdcwb.formats.idm_event_log.events import TypedLog, check
from cdcwb.formats.idm_event_log.layout import COLUMNS, EVENT_TYPES, LOG
from cdcwb.formats.idm_event_log.tree import dissect
from tests.reference.idm_rows import LogSource, rules

VALUES = ["12", "idu=1", "N", "2", "2024-01-02 03:04:05", "SCOTT", "indirect.usr", "fname", "Jack", "John"]


def cut(values: list[str | None], names: tuple[str | None, ...] = COLUMNS) -> tuple[bytes, list[Cell]]:
    """A delimited row of these values, in quotes where they need them, and its columns."""
    record = b""
    cells = []
    for name, value in zip(names, values, strict=True):
        text = "" if value is None else value
        data = ('"' + text.replace('"', '""') + '"' if set(text) & set(',"\r\n') or text == "" else text).encode()
        data = b"" if value is None else data
        at = len(record)
        cells.append(Cell(name or "extra", at, at + len(data) + 1, value))
        record += data + b","
    return record[:-1] + b"\n", cells


def tree(values: list[str | None]) -> Field:
    return of_cells(*cut(values))


def of_cells(record: bytes, cells: list[Cell]) -> Field:
    """The tree of a row whose columns have the vendor's names, or others."""
    row = {cell.name: cell.text for cell in cells if cell.name in COLUMNS}
    values: dict[str, str | None] = dict.fromkeys(COLUMNS) | {"record_id": "1", "status": "N"} | row
    typed = TypedLog(pa.RecordBatch.from_pylist([values], LOG), frozenset(COLUMNS) - row.keys())
    (number,), (time,) = typed.record_id.to_pylist(), typed.event_us.view(pa.timestamp("us", "UTC")).to_pylist()
    event = {
        "headers": row,
        "position": None if number is None else f"{number:019d}",
        "changed_at": time,
        "problems": [{"code": str(one.code), "detail": one.sentence} for one in check(typed)],
    }
    return dissect(record, cells, {name: name for name in row}, event, None)


def child(field: Field, name: str) -> Field:
    (found,) = (one for one in field.children if one.name == name)
    return found


def with_value(column: str, value: str | None) -> Field:
    values: list[str | None] = [*VALUES]
    values[COLUMNS.index(column)] = value
    return child(tree(values), column)


def whole(field: Field, record: bytes) -> None:
    """Children fill their node without holes, and bytes are what stands there."""
    assert field.raw == record[field.offset : field.offset + field.length]
    if field.children:
        at = field.offset
        for one in field.children:
            assert one.offset == at
            at += one.length
            whole(one, record)
        assert at == field.offset + field.length


def test_a_row_says_what_it_is() -> None:
    found = tree([*VALUES])
    assert found.meaning == "update field: the old value and the new one (indirect.usr, column fname)"
    assert [one.name for one in found.children if not one.quiet] == list(COLUMNS)
    assert {one.problem for one in found.walk()} == {None}


@pytest.mark.parametrize(
    ("column", "value", "meaning"),
    [
        (
            "record_id",
            "12",
            "the number of the row, which gives the order of publication: position 0000000000000000012",
        ),
        ("table_key", "idu=1", "the key of the changed row: idu is '1'"),
        ("table_key", "a=1+b= 2", "the key of the changed row: a is '1' and b is ' 2'"),
        ("status", "N", "processing state of the row: new: to be published"),
        ("event_type", "5.0", "what happened: insert row (query-back), XDS add"),
        (
            "event_time",
            "2024-01-02-03.04.05",
            "time at which the event takes effect: 2024-01-02 03:04:05 UTC",
        ),
        ("perpetrator", None, "the database user who made the change: NULL, so not the driver's own user"),
        ("table_name", "lawson.idview", "the table or view that changed: idview of schema lawson"),
        ("old_value", None, "the old value: NULL"),
        ("new_value", "John", "the new value"),
    ],
)
def test_a_column_says_what_it_means(column: str, value: str | None, meaning: str) -> None:
    found = with_value(column, value)
    assert found.value == value
    assert found.meaning.startswith(meaning)


@pytest.mark.parametrize("number", EVENT_TYPES)
def test_what_a_type_does_not_use_is_told(number: int) -> None:
    found = tree([*VALUES[:3], str(number), *VALUES[4:]])
    unused = {name for name in COLUMNS if f"not used by an event of type {number}" in child(found, name).meaning}
    expected = {1: {"old_value"}, 2: set(), 3: {"old_value"}, 4: {"column_name", "old_value", "new_value"}}
    field = {"old_value", "new_value"}
    assert unused == expected.get(number, field if number in (7, 8) else field | {"column_name"})


def test_a_key_is_taken_apart_at_its_bytes() -> None:
    record, cells = cut([VALUES[0], 'a=ü+b="x=y"', *VALUES[2:]])
    key = child(of_cells(record, cells), "table_key")
    assert [(one.name, one.value) for one in key.children] == [
        ("text", 'a=ü+b="x=y"'), ("column", "a"), ("=", None), ("value", "ü"), ("+", None),
        ("column", "b"), ("=", None), ("value", "x=y"),
    ]  # fmt: skip
    record, cells = cut([VALUES[0], "a=ü+b=2", *VALUES[2:]])
    key = child(of_cells(record, cells), "table_key")
    assert [(one.name, one.raw.decode()) for one in key.children] == [
        ("column", "a"), ("=", "="), ("value", "ü"), ("+", "+"), ("column", "b"), ("=", "="), ("value", "2"),
        ("closing", ","),
    ]  # fmt: skip


def test_the_place_of_an_error_in_a_key_is_a_field_of_its_own() -> None:
    key = with_value("table_key", "a=1+photo=qqo=")
    assert key.problem == "table_key"
    so_far, error, _ = key.children[-3:]
    assert (so_far.raw, error.raw) == (b"photo=qqo", b"=")
    assert error.problem == "table_key"
    assert error.meaning.startswith("expected + or the end")


def test_a_broken_rule_stands_at_its_column_and_at_the_row() -> None:
    values: list[str | None] = [*VALUES]
    values[2], values[3] = "n", "9"
    found = tree(values)
    assert found.problem == "log_status"
    assert child(found, "status").meaning.endswith("expected N, S, W, E or F, found 'n'; N is another status")
    assert child(found, "event_type").problem == "log_rule"
    assert child(found, "record_id").problem is None


def test_a_row_without_bytes_has_the_same_meanings() -> None:
    there = tree([*VALUES])
    cells = [Cell(name, 0, 0, value) for name, value in zip(COLUMNS, VALUES, strict=True)]
    found = of_cells(b"", cells)
    whole(found, b"")
    assert [one.meaning for one in found.children] == [one.meaning for one in there.children if not one.quiet]
    assert [one.value for one in child(found, "table_key").children] == ["idu", None, "1"]


def test_a_reduced_row_is_told_nothing_of_what_it_lacks() -> None:
    names = ("event_type", "table_name", "table_key", "column_name", "old_value", "new_value", None)
    found = of_cells(*cut(["1", "usr", "idu=1", "fname", None, "Jack", "?"], names))
    assert found.problem is None
    assert child(found, "extra").meaning == "a column that an event log does not have"


texts = st.none() | st.text('a1=+",;.\n é', max_size=8) | st.sampled_from(VALUES)


@given(st.lists(texts, min_size=len(COLUMNS), max_size=len(COLUMNS)))
def test_any_row_has_every_byte_in_one_leaf_and_every_problem_that_the_rules_find(values: list[str | None]) -> None:
    record, cells = cut(values)
    found = of_cells(record, cells)
    whole(found, record)
    broken = rules(dict(zip(COLUMNS, values, strict=True)), LogSource())
    marked = {one.name for one in found.children if one.problem is not None}
    assert marked == {one.column for one in broken}
    assert (found.problem is None) == (not broken)
