"""Statements of an event log from its rows, and the problems that only a whole log shows."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.answers.tables import tables

Row = dict[str, Any]
VERBS = {1: "INSERT", 2: "UPDATE", 3: "UPDATE", 4: "DELETE", 5: "INSERT", 6: "UPDATE", 7: "INSERT", 8: "UPDATE"}
NAMES = ["record_id", "table_key", "status", "event_type", "event_time", "perpetrator", "table_name", "column_name"]
NAMES += ["old_value", "new_value"]


def event(record: int | None, kind: int, key: str = "id=1", column: str | None = None, **more: Any) -> Row:
    """A row of the log; null is an empty field."""
    made = dict.fromkeys(NAMES) | {"record_id": record, "event_type": kind, "table_key": key, "column_name": column}
    return made | {"status": "N", "event_time": "2026-03-01 10:00:00", "table_name": "usr"} | more


class Log:
    """A log in files of at most 50 rows, as ``cdcwb save`` reads it."""

    def __init__(self, folder: Path, rows: Sequence[Row]) -> None:
        self.offsets: list[tuple[int, int]] = []
        for first in range(0, len(rows), 50):
            text = io.StringIO()
            writer = csv.DictWriter(text, NAMES, lineterminator="\n")
            writer.writeheader()
            for row in rows[first : first + 50]:
                self.offsets.append((first // 50, text.tell()))
                writer.writerow(row)
            (folder / f"{first // 50}.csv").write_text(text.getvalue(), encoding="utf-8")
        found = tables(folder, "--format", "idm-event-log")
        self.changes = sorted(found["changes"], key=lambda row: (row["file_index"], row["offset"]))
        self.problems = sorted(found["problems"], key=lambda row: (row["file"], row["offset"]))

    def rows_of(self, change: Row) -> list[int]:
        """The rows of a change by their numbers."""
        return [self.offsets.index((one["file_index"], one["offset"])) for one in change["source_events"]]

    @property
    def statements(self) -> list[list[int]]:
        return list(map(self.rows_of, self.changes))


def plainly(rows: Sequence[Row]) -> list[list[int]]:
    """The statements of rows, one row after the other."""
    found = [[at] for at, row in enumerate(rows) if row["record_id"] is None and row["event_type"] in VERBS]
    last: tuple[Any, ...] | None = None
    columns: set[str] = set()
    for at in sorted(range(len(rows)), key=lambda at: rows[at]["record_id"] or 0):
        row = rows[at]
        if row["record_id"] is None:
            continue
        column, kind = row["column_name"], row["event_type"]
        joins = kind in (1, 2, 3, 7, 8) and column is not None
        same = (row["table_name"], row["table_key"], VERBS.get(kind), row["perpetrator"], row["event_time"])
        if joins and last == same and row["table_name"] is not None and column not in columns:
            found[-1].append(at)
            columns.add(column)
        elif kind in VERBS:
            found.append([at])
            columns = {column}
        last = same if joins else None
    return found


def some_log(size: int, shuffled: bool) -> list[Row]:
    """Rows of few objects, columns, users and times, so that every way to part them occurs; ids have gaps."""
    chance = random.Random(7)
    rows: list[Row] = []
    number, kind, key, user, time = 0, 2, "id=1", None, 0
    for _ in range(size):
        number += chance.choice([1, 1, 1, 2, 90])
        if chance.random() < 0.3:
            kind = chance.choice([1, 2, 2, 2, 3, 4, 5, 6, 7, 8, 9])
        if chance.random() < 0.2:
            key = chance.choice(["id=1", "id=2", "id= 1"])
        if chance.random() < 0.05:
            user, time = chance.choice([None, "ann"]), chance.choice([0, 1])
        column = None if kind in (4, 5, 6, 9) or chance.random() < 0.03 else chance.choice("abcdefgh")
        record = None if chance.random() < 0.03 else number
        more = {"perpetrator": user, "event_time": f"2026-03-01 10:00:0{time}", "old_value": "o", "new_value": "n"}
        table = chance.choice(["usr"] * 30 + ["grp", None])
        rows.append(event(record, kind, key, column, table_name=table, **more))
    if shuffled:
        chance.shuffle(rows)
    return rows


@pytest.mark.parametrize("shuffled", [False, True])
def test_rows_of_one_statement_are_one_change_whatever_their_order(tmp_path: Path, shuffled: bool) -> None:
    rows = some_log(1_500, shuffled)
    found = Log(tmp_path, rows).statements
    assert sorted(map(sorted, found)) == sorted(map(sorted, plainly(rows)))
    assert sum(len(one) > 1 for one in found) > 50


def test_a_joined_change_has_the_images_of_all_rows_and_the_place_of_the_last(tmp_path: Path) -> None:
    rows = [
        event(10, 2, column="fname", old_value="Jack", new_value="John"),
        event(11, 2, column="lname", old_value="Frost", status="s"),
        event(14, 8, column="photo", status="t"),
    ]
    log = Log(tmp_path, rows)
    (change,) = log.changes
    assert log.statements == [[0, 1, 2]]
    assert (change["offset"], change["position"], change["record_type"]) == (
        log.offsets[2][1],
        "0000000000000000014",
        "8",
    )
    assert change["before"] == {"fname": "Jack", "lname": "Frost"}
    assert change["after"] == {"fname": "John", "lname": None}
    assert change["changed_columns"] == ["fname", "lname", "photo"]
    assert (change["change_source"], change["outcome"], change["kind"]) == ("log", None, "change")
    assert [one["code"] for one in change["problems"]] == ["log_status"] * 2
    assert [text in one["detail"] for text, one in zip("st", change["problems"], strict=True)] == [True, True]
    assert (change["headers"]["record_id"], change["key"]) == ("14", {"id": "1"})


def test_rows_for_a_whole_row_stand_alone(tmp_path: Path) -> None:
    log = Log(tmp_path, [event(number, kind) for number, kind in enumerate((4, 4, 5, 5, 6, 6), 1)])
    assert log.statements == [[0], [1], [2], [3], [4], [5]]
    assert {row["change_source"] for row in log.changes} == {None}


def test_a_column_that_comes_again_begins_the_next_statement(tmp_path: Path) -> None:
    log = Log(tmp_path, [event(number, 2, column=column) for number, column in enumerate("abbcacb", 1)])
    assert log.statements == [[0, 1], [2, 3, 4], [5, 6]]


def test_a_row_of_an_unknown_type_parts_what_it_is_between(tmp_path: Path) -> None:
    log = Log(tmp_path, [event(1, 2, column="a"), event(2, 9), event(3, 2, column="b")])
    assert log.statements == [[0], [2]]


def test_record_ids_that_come_again_are_named_with_their_first_place(tmp_path: Path) -> None:
    rows = [event(number, 4, f"id={number}") for number in range(1, 61)]
    rows[2] |= {"record_id": 1}
    rows[3] = rows[0]
    rows[55] |= {"record_id": 1}
    log = Log(tmp_path, rows)
    offsets = [offset for _, offset in log.offsets]
    expected = "expected a record_id that no other row has, found 1, which the row at offset"
    assert [(row["offset"], row["code"], row["sentence"]) for row in log.problems] == [
        (offsets[2], "log_rule", f"{expected} {offsets[0]} has"),
        (
            offsets[3],
            "repeated",
            f"the row is a duplicate of the row at offset {offsets[0]}: record_id 1, and all bytes are equal",
        ),
        (offsets[55], "log_rule", f"{expected} {offsets[0]} of 0.csv has"),
    ]


def test_keys_that_differ_in_spelling_alone_are_one_problem_a_group(tmp_path: Path) -> None:
    keys = ["idu=1", "idu= 1", "idu=1", "IDU=1", "idu=2", 'idu="1"']
    rows = [event(number, 6, key) for number, key in enumerate(keys, 1)]
    log = Log(tmp_path, [*rows, event(7, 6, " idu=2", table_name="grp")])
    offsets = [offset for _, offset in log.offsets]
    (found,) = [row for row in log.problems if "ways" in row["sentence"]]
    assert (found["offset"], found["table"], found["code"]) == (offsets[1], "usr", "key_spelling")
    assert found["sentence"] == (
        f"one key, written in 4 ways, which makes events run out of order: idu=1 (at offset {offsets[0]}), "
        f'idu= 1 (at offset {offsets[1]}), IDU=1 (at offset {offsets[3]}), idu="1" (at offset {offsets[5]})'
    )
