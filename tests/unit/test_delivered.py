"""What readers say of a stream of committed work is what a plain loop over its events says."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cdcwb import model
from cdcwb.formats.base import EVERYTHING
from cdcwb.formats.delivered import read_delivered, read_ends, read_parts
from tests.event_reader import reader

Row = dict[str, Any]
EPOCH = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SEQUENCE = "20260203080000{:02d}0000000000000000001"  # 08:00:00 and so many hundredths of a second

_EVENT = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["change", "change", "change", "commit", "rollback", "control", "malformed"]),
        "transaction_id": st.sampled_from(["7", "8", "9", None]),
        "operation": st.sampled_from(["INSERT", "UPDATE", "REFRESH", "UNKNOWN(x)", None]),
        "position": st.one_of(st.none(), st.integers(0, 99).map(SEQUENCE.format), st.sampled_from(["0001", "0002"])),
        "commit_position": st.sampled_from([None, None, "0005", "0006"]),
        "event_no": st.one_of(st.none(), st.integers(1, 6)),
        "last_in_transaction": st.sampled_from([None, False, True]),
        "changed_at": st.one_of(st.none(), st.integers(0, 5).map(lambda second: EPOCH + dt.timedelta(seconds=second))),
        "schema_name": st.sampled_from(["shop", None]),
        "table_name": st.sampled_from(["orders", "goods", None]),
        "after": st.sampled_from([None, [("id", "1"), ("state", "paid")], [("id", "1"), ("state", "open")]]),
        "before": st.sampled_from([None, [("id", "1"), ("state", "open")]]),
        "problems": st.sampled_from([None, [{"code": "gap", "detail": "2 are missing"}]]),
    }
)


def events_of(drawn: list[Row]) -> list[Row]:
    empty: Row = dict.fromkeys(model.EVENTS.names)
    place = {"format": "qlik-kafka", "file": "a.json", "file_index": 0, "length": 10}
    return [{**empty, **place, "offset": 10 * number, **row} for number, row in enumerate(drawn)]


def sequence_time(row: Row) -> dt.datetime | None:
    position = row["position"] or ""
    if len(position) != 35:
        return None
    return dt.datetime.strptime(position[:14], "%Y%m%d%H%M%S").replace(
        tzinfo=dt.UTC, microsecond=int(position[14:16]) * 10_000
    )


def label(row: Row) -> str | None:
    named = row["schema_name"] is not None and row["table_name"] is not None
    return f"{row['schema_name']}.{row['table_name']}" if named else row["table_name"]


def ranges(numbers: list[int]) -> list[dict[str, int]]:
    found: list[dict[str, int]] = []
    for number in sorted(set(numbers)):
        if found and found[-1]["last"] == number - 1:
            found[-1]["last"] = number
        else:
            found.append({"first": number, "last": number})
    return found


def part_of(name: str, rows: list[Row]) -> Row:
    def known(values: list[Any]) -> list[Any]:
        return [value for value in values if value is not None]

    rolled_back = [row for row in rows if row["kind"] == "rollback"]
    ends = [
        sequence_time(row) or (row["changed_at"] if row["kind"] in ("commit", "rollback") else None) for row in rows
    ]
    changes = [row for row in rows if row["kind"] == "change" and row["operation"] is not None]
    return {
        "transaction_id": name,
        "begin_position": min(known([row["position"] for row in rows]), default=None),
        "highest": max(known([row["position"] for row in rows]), default=None),
        "commit_position": max(known([row["commit_position"] for row in rows]), default=None),
        "began_at": min(known([row["changed_at"] for row in rows]), default=None),
        "ended_at": max(known(ends), default=None),
        "bytes": sum(row["length"] for row in rows),
        "numbers": ranges(known([row["event_no"] for row in rows])),
        "last": any(row["last_in_transaction"] or row["kind"] == "rollback" for row in rows),
        "says_last": any(row["last_in_transaction"] is not None for row in rows),
        "gaps": any(row["problems"] for row in rows),
        "rolls_back": bool(rolled_back),
        "rolled_back_at": max(known([row["position"] for row in rolled_back]), default=None),
        "labels": sorted(set(known(list(map(label, rows))))),
        "changes": sorted(Counter(row["operation"] for row in changes).items()),
        "tables": sorted(set(known(list(map(label, changes))))),
    }


@given(st.lists(_EVENT, max_size=25), st.integers(1, 30))
def test_what_is_counted_of_each_transaction(drawn: list[Row], size: int) -> None:
    rows = events_of(drawn)
    names = list(dict.fromkeys(row["transaction_id"] for row in rows if row["transaction_id"] is not None))
    found = [row for batch in read_parts(reader(rows, size), EVERYTHING) for row in batch.to_pylist()]
    assert found == [part_of(name, [row for row in rows if row["transaction_id"] == name]) for name in names]


@given(st.lists(_EVENT, max_size=25), st.integers(1, 30))
def test_what_marks_the_end_of_each_transaction(drawn: list[Row], size: int) -> None:
    rows = events_of(drawn)
    marks = [
        row
        for row in rows
        if row["transaction_id"] is not None
        and (row["commit_position"] is not None or row["last_in_transaction"] or row["kind"] == "rollback")
    ]
    expected = []
    for name in dict.fromkeys(row["transaction_id"] for row in marks):
        mine = [row for row in marks if row["transaction_id"] == name]
        times = [row["changed_at"] for row in mine if row["kind"] == "commit" and row["changed_at"] is not None]
        positions = [row["commit_position"] for row in mine if row["commit_position"] is not None]
        expected.append(
            {
                "transaction_id": name,
                "commit_position": max(positions, default=None),
                "committed_at": max(times, default=None),
                "rolls_back": any(row["kind"] == "rollback" for row in mine),
            }
        )
    assert [row for batch in read_ends(reader(rows, size), EVERYTHING) for row in batch.to_pylist()] == expected


@given(st.lists(_EVENT, max_size=25), st.integers(1, 30))
def test_changes_are_whole_but_for_the_end_of_their_transaction(drawn: list[Row], size: int) -> None:
    rows = events_of(drawn)
    changes = [row for row in rows if row["kind"] == "change"]
    found = [row for batch in read_delivered(reader(rows, size), EVERYTHING) for row in batch.to_pylist()]
    assert [row["offset"] for row in found] == [row["offset"] for row in changes]
    for row, change in zip(changes, found, strict=True):
        is_full_load = row["operation"] in ("REFRESH", None)
        assert change["outcome"] == (None if is_full_load else "committed")
        assert (change["commit_position"], change["committed_at"]) == (None, sequence_time(row))
        assert change["source_events"] == [{"file_index": 0, "offset": row["offset"], "length": 10}]
        both = row["operation"] == "UPDATE" and row["before"] is not None and row["after"] is not None
        differing = [name for name, value in row["after"] if dict(row["before"])[name] != value] if both else None
        assert change["changed_columns"] == differing
        assert change["change_source"] == ("images" if both else None)
