"""What assembly makes of event logs: statements from rows, and the problems that only a whole log shows."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from cdcwb import model
from cdcwb.formats.catalogue import get_format
from cdcwb.formats.idm_event_log.changes import keys_of_rows, of_statements
from cdcwb.spark.assemble import findings_of, problems_of
from cdcwb.spark.objects import join_statements, repeated_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = dict[str, Any]
SEED = 7
VERBS = {1: "INSERT", 2: "UPDATE", 3: "UPDATE", 4: "DELETE", 5: "INSERT", 6: "UPDATE", 7: "INSERT", 8: "UPDATE"}
NAMES = (
    *("record_id", "table_key", "status", "event_type", "event_time", "perpetrator"),
    *("table_name", "column_name", "old_value", "new_value"),
)


def event(
    place: int, record: int | None, kind: int, key: str | None = "id=1", column: str | None = None, **more: Any
) -> Row:
    """A row of ``events``; place counts rows, 100 bytes each, 50 a file."""
    old, new = more.pop("old", None), more.pop("new", None)
    header = {
        "record_id": None if record is None else str(record),
        "table_key": key,
        "status": "N",
        "event_type": str(kind),
        "event_time": "2026-03-01 10:00:00",
        "perpetrator": None,
        "table_name": "usr",
        "column_name": column,
        "old_value": old,
        "new_value": new,
    } | more
    row: Row = dict.fromkeys(model.EVENTS.names)
    row |= {
        "format": "idm-event-log",
        "file": f"/logs/{place // 50}.csv",
        "file_index": place // 50,
        "offset": place % 50 * 100,
        "length": 100,
        "offset_unit": "byte",
        "record_type": str(kind),
        "kind": "change" if kind in VERBS else "control",
        "operation": VERBS.get(kind, f"UNKNOWN({kind})"),
        "position": None if record is None else f"{record:019d}",
        "table_name": header["table_name"],
        "key": None if key is None else {"id": key.partition("=")[2]},
        "before": {column: old} if column and kind in (2, 3) else None,
        "after": {column: new} if column and kind in (1, 2, 3) else None,
        "changed_columns": [column] if column is not None and kind in (1, 2, 3, 7, 8) else None,
        "headers": header,
        "raw": f"row {place}".encode(),
    }
    return row


def frame(spark: SparkSession, rows: list[Row], partitions: int = 3) -> DataFrame:
    made = spark.createDataFrame(rows, from_arrow_schema(model.EVENTS))
    return made.repartition(partitions)  # assembly must not lean on where a row lies


def changes(spark: SparkSession, rows: list[Row], in_order: bool = False) -> list[Row]:
    events = frame(spark, rows)
    facts = {"behind": 0 if in_order else 9, "bytes": 100 * len(rows)}
    joined = join_statements(events, events, {}, facts)
    return [row.asDict(recursive=True) for row in joined.orderBy("file_index", "offset").collect()]


def places(row: Row) -> list[int]:
    return [place["file_index"] * 50 + place["offset"] // 100 for place in row["source_events"]]


def plainly(rows: list[Row]) -> list[list[int]]:
    """The statements of rows that are numbered by place, one row after the other."""
    numbers = {id(row): number for number, row in enumerate(rows)}
    found = [[numbers[id(row)]] for row in rows if row["position"] is None and row["kind"] == "change"]
    last: tuple[Any, ...] | None = None
    columns: set[str] = set()
    for row in sorted((row for row in rows if row["position"] is not None), key=lambda row: row["position"]):
        header = row["headers"]
        column = header["column_name"]
        joins = row["kind"] == "change" and row["record_type"] in "12378" and column is not None
        same = (
            header["table_name"],
            header["table_key"],
            row["operation"],
            header["perpetrator"],
            header["event_time"],
        )
        if joins and last == same and None not in same[:2] and column not in columns:
            found[-1].append(numbers[id(row)])
            columns.add(column)
        elif row["kind"] == "change":
            found.append([numbers[id(row)]])
            columns = {column}
        last = same if joins else None
    return found


def some_log(seed: int, size: int, shuffled: bool) -> list[Row]:
    """Rows of few objects, columns, users and times, so that every way to part them occurs; ids have gaps."""
    chance = random.Random(seed)
    numbers: list[int] = []
    while len(numbers) < size:
        numbers.append((numbers[-1] if numbers else 0) + chance.choice([1, 1, 1, 2, 90]))
    where = list(range(size))
    if shuffled:
        chance.shuffle(where)
    rows: list[Row] = []
    kind, key, user, time = 2, "id=1", None, "a"
    for place, number in zip(where, numbers, strict=True):
        if chance.random() < 0.3:
            kind = chance.choice([1, 2, 2, 2, 3, 4, 5, 6, 7, 8, 9])
        if chance.random() < 0.2:
            key = chance.choice(["id=1", "id=2", "id= 1"])
        if chance.random() < 0.05:
            user, time = chance.choice([None, "ann"]), chance.choice("ab")
        column = None if kind in (4, 5, 6, 9) or chance.random() < 0.03 else chance.choice("abcdefgh")
        record = None if chance.random() < 0.03 else number
        table = chance.choice(["usr"] * 30 + ["grp", None])
        rows.append(
            event(
                place, record, kind, key, column, old="o", new="n", perpetrator=user, event_time=time, table_name=table
            )
        )
    return sorted(rows, key=lambda row: (row["file_index"], row["offset"]))


@pytest.mark.oldest
@pytest.mark.parametrize("in_order", [True, False])
def test_rows_of_one_statement_are_one_change_whatever_partition_they_came_from(
    spark: SparkSession, in_order: bool
) -> None:
    rows = some_log(SEED, 1500, shuffled=not in_order)
    found = [places(row) for row in changes(spark, rows, in_order)]
    assert sorted(found) == sorted(map(sorted, plainly(rows)))
    assert sum(len(one) > 1 for one in found) > 50


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_search_takes_the_same_rows_for_one_statement(shuffled: bool) -> None:
    rows = some_log(SEED, 1500, shuffled)
    firsts = of_statements(*keys_of_rows(pa.RecordBatch.from_pylist(rows, model.EVENTS))).tolist()
    found: dict[int, list[int]] = {}
    for number, first in enumerate(firsts):
        if rows[number]["kind"] == "change":
            found.setdefault(first, []).append(number)
    assert sorted(found.values()) == sorted(map(sorted, plainly(rows)))


def test_a_joined_change_has_the_images_of_all_rows_and_the_place_of_the_last(spark: SparkSession) -> None:
    rows = [
        event(0, 10, 2, column="fname", old="Jack", new="John"),
        event(1, 11, 2, column="lname", old="Frost", new=None, problems=None),
        event(2, 14, 8, column="photo"),
    ]
    rows[1]["problems"] = [{"code": "log_status", "detail": "one"}]
    rows[2]["problems"] = [{"code": "log_rule", "detail": "two"}]
    (change,) = changes(spark, rows)
    assert (change["offset"], change["position"], change["record_type"]) == (200, "0000000000000000014", "8")
    assert change["before"] == {"fname": "Jack", "lname": "Frost"}
    assert change["after"] == {"fname": "John", "lname": None}
    assert change["changed_columns"] == ["fname", "lname", "photo"]
    assert (change["change_source"], change["outcome"], change["kind"]) == ("log", None, "change")
    assert [one["detail"] for one in change["problems"]] == ["one", "two"]
    assert change["headers"] == rows[2]["headers"]
    assert change["key"] == {"id": "1"}


def test_rows_for_a_whole_row_stand_alone(spark: SparkSession) -> None:
    rows = [event(number, number + 1, kind) for number, kind in enumerate((4, 4, 5, 5, 6, 6))]
    made = changes(spark, rows)
    assert [places(row) for row in made] == [[0], [1], [2], [3], [4], [5]]
    assert {row["change_source"] for row in made} == {None}


def test_a_column_that_comes_again_begins_the_next_statement(spark: SparkSession) -> None:
    rows = [event(number, number + 1, 2, column=column) for number, column in enumerate("abbcacb")]
    assert [places(row) for row in changes(spark, rows)] == [[0, 1], [2, 3, 4], [5, 6]]


def test_a_row_of_an_unknown_type_parts_what_it_stands_between(spark: SparkSession) -> None:
    rows = [event(0, 1, 2, column="a"), event(1, 2, 9), event(2, 3, 2, column="b")]
    assert [places(row) for row in changes(spark, rows)] == [[0], [2]]


@pytest.mark.oldest
def test_record_ids_that_come_again_are_named_with_their_first_place(spark: SparkSession) -> None:
    rows = [event(0, 5, 4), event(1, 6, 4), event(2, 5, 4), event(60, 5, 4)]
    found = repeated_records(frame(spark, rows)).orderBy("file", "offset").collect()
    assert [(row.file, row.offset, row.code) for row in found] == [
        ("/logs/0.csv", 200, "log_rule"),
        ("/logs/1.csv", 1000, "log_rule"),
    ]
    assert found[0].sentence == ("expected a record_id that no other row has, found 5, which the row at offset 0 has")
    assert found[1].sentence.endswith("which the row at offset 0 of 0.csv has")


def test_a_row_that_comes_again_is_a_duplicate_only_where_all_its_bytes_are_equal(spark: SparkSession) -> None:
    rows = [event(number, 5, 4) | {"raw": raw} for number, raw in enumerate((b"one", b"one", b"two"))]
    found = repeated_records(frame(spark, rows)).orderBy("file", "offset").collect()
    assert [(row.offset, row.code, row.sentence) for row in found] == [
        (100, "repeated", "the row is a duplicate of the row at offset 0: record_id 5, and all bytes are equal"),
        (200, "log_rule", "expected a record_id that no other row has, found 5, which the row at offset 0 has"),
    ]


@pytest.mark.oldest
def test_keys_that_differ_in_spelling_alone_are_one_problem_a_group(spark: SparkSession) -> None:
    keys = ["idu=1", "idu= 1", "idu=1", "IDU=1", "idu=2", 'idu="1"']
    rows = [event(number, number + 1, 6, key) for number, key in enumerate(keys)]
    rows.append(event(6, 7, 6, " idu=2", table_name="grp"))
    form = get_format("idm-event-log")
    (found,) = problems_of(findings_of(frame(spark, rows), form, 3), form).collect()
    assert (found.offset, found.table, found.code) == (100, "usr", "key_spelling")
    assert found.sentence == (
        "one key, written in 4 ways, which makes events run out of order: idu=1 (at offset 0), idu= 1 (at offset 100), "
        'IDU=1 (at offset 300), idu="1" (at offset 500)'
    )
