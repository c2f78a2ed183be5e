"""What readers say of a stream of committed work is what a plain loop over its events says."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise, zip_longest
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcwb import model
from cdcwb.formats.bitmask import disagreement
from cdcwb.formats.changes import ONLY_ASSEMBLED, WHOLE, Halved, overlaps
from cdcwb.formats.delivered import (
    ENDS,
    Delivered,
    EndsOfOthers,
    ended,
    ends_elsewhere,
    read_delivered,
    read_elsewhere,
    read_ends_here,
    with_ends,
)
from cdcwb.formats.dissector import EVERYTHING, Format, Named, Read
from cdcwb.formats.summaries import PARTS, SUMMARIES, Groups, incomplete, read_parts, summarised
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
        "begins": None,
        "commits": None,
        "user": None,
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


def summary_of(name: str, rows: list[Row]) -> Row:
    part = part_of(name, rows)
    numbers = sorted({row["event_no"] for row in rows if row["event_no"] is not None})
    lowest, highest = (numbers[0], numbers[-1]) if numbers else (None, None)
    knows = bool(numbers) and part["says_last"]
    gaps = len(numbers) < (highest or 0) - (lowest or 0) + 1 if numbers else False
    completeness = "complete"
    if not knows:
        completeness = "unknown"
    elif (lowest or 0) > 1:
        completeness = "no_begin"
    elif not part["last"]:
        completeness = "no_end"
    elif gaps or part["gaps"]:
        completeness = "gaps"
    same = ("transaction_id", "begin_position", "began_at", "ended_at", "bytes", "changes", "tables", "labels", "last")
    return {name: part[name] for name in same} | {
        "end_position": part["commit_position"] or part["rolled_back_at"] or (None if knows else part["highest"]),
        "outcome": "rolled_back" if part["rolls_back"] else "committed",
        "completeness": completeness,
        "user": None,
        "numbers_seen": len(numbers),
        "lowest_number": lowest,
        "highest_number": highest,
        "begins": None,
    }


@given(st.lists(st.lists(_EVENT, max_size=12), max_size=4), st.integers(1, 30))
def test_what_splits_say_of_a_transaction_is_put_together(drawn: list[list[Row]], size: int) -> None:
    rows = iter(events_of([row for split in drawn for row in split]))
    splits = [[next(rows) for _ in split] for split in drawn]
    parts = [batch for split in splits for batch in read_parts(reader(split, size), EVERYTHING)]
    found = summarised(pa.Table.from_batches(parts, PARTS)).to_pylist()
    every = [row for split in splits for row in split]
    names = list(dict.fromkeys(row["transaction_id"] for row in every if row["transaction_id"] is not None))
    assert found == [summary_of(name, [row for row in every if row["transaction_id"] == name]) for name in names]


@pytest.mark.parametrize(
    ("known", "sentence"),
    [
        ({"lowest_number": 1, "highest_number": 4, "numbers_seen": 4, "last": True, "completeness": "complete"}, None),
        (
            {"lowest_number": 3, "highest_number": 4, "numbers_seen": 2, "last": True, "completeness": "no_begin"},
            "the first event that is there has number 3",
        ),
        (
            {"lowest_number": 1, "highest_number": 4, "numbers_seen": 3, "last": False, "completeness": "no_end"},
            "1 of its events 1 to 4 is missing; the last event is missing; the highest number is 4",
        ),
        (
            {"lowest_number": 1, "highest_number": 9, "numbers_seen": 3, "last": True, "completeness": "gaps"},
            "6 of its events 1 to 9 are missing",
        ),
        (
            {"begins": False, "last": True, "completeness": "no_begin"},
            "the begin of this transaction is not in the capture",
        ),
        (
            {"begins": True, "last": False, "completeness": "no_end"},
            "the end of this transaction is not in the capture",
        ),
        ({"begins": True, "last": True, "completeness": "gaps"}, None),
    ],
)  # fmt: skip
def test_what_is_missing_in_a_transaction(known: Row, sentence: str | None) -> None:
    row = {**dict.fromkeys(SUMMARIES.names), "transaction_id": "7", "labels": ["shop.orders"], **known}
    found = incomplete(pa.RecordBatch.from_pylist([row], schema=SUMMARIES))
    assert [one["sentence"] for one in found] == ([] if sentence is None else [sentence])
    assert all((one["transaction_id"], one["table"]) == ("7", "shop.orders") for one in found)


@given(st.lists(st.lists(_EVENT, max_size=12), min_size=1, max_size=4), st.integers(1, 30))
def test_each_split_gets_the_ends_in_others(drawn: list[list[Row]], size: int) -> None:
    rows = iter(events_of([row for split in drawn for row in split]))
    splits = [[next(rows) for _ in split] for split in drawn]
    every = reader([row for split in splits for row in split], size)
    ends = Groups(pa.Table.from_batches((one.select(ENDS.names) for one in read_ends_here(every, EVERYTHING, 0)), ENDS))
    expected = [row for some in read_delivered(every, EVERYTHING) for row in ended(some, ends).to_pylist()]
    here: list[pa.RecordBatch] = []
    for number, split in enumerate(splits):
        here += read_ends_here(reader(split, size), EVERYTHING, number)
    written: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    every_end = pa.Table.from_batches(here).sort_by("transaction_id").to_pylist() if here else []
    groups = [[row for row in every_end if row["transaction_id"] == name] for name in ("7", "8", "9")]
    for group in filter(None, (groups[0], groups[1] + groups[2])):  # as from two tasks
        for number, some in ends_elsewhere(pa.Table.from_pylist(group, here[0].schema)):
            written[number].append(some)
    known = EndsOfOthers(written).of(range(len(splits)))
    found: list[Row] = []
    for number, split in enumerate(splits):
        for changes in with_ends(reader(split, size), EVERYTHING, known.read(number), WHOLE):
            found += changes.to_pylist()
    assert found == expected
    assert len(splits) > 1 or not written


@given(st.lists(_EVENT, max_size=25), st.integers(1, 30))
def test_what_marks_the_end_of_each_transaction(drawn: list[Row], size: int) -> None:
    rows = events_of(drawn)
    expected = []
    for name in dict.fromkeys(row["transaction_id"] for row in rows if row["transaction_id"] is not None):
        mine = [row for row in rows if row["transaction_id"] == name]
        commits = [row for row in mine if row["kind"] == "commit" and row["changed_at"] is not None]
        marked = [row for row in commits if row["commit_position"] is not None or row["last_in_transaction"]]
        times = [row["changed_at"] for row in marked]
        positions = [row["commit_position"] for row in mine if row["commit_position"] is not None]
        expected.append(
            {
                "transaction_id": name,
                "commit_position": max(positions, default=None),
                "committed_at": max(times, default=None),
                "rolls_back": any(row["kind"] == "rollback" for row in mine),
                "split": 3,
            }
        )
    found = [row for batch in read_ends_here(reader(rows, size), EVERYTHING, 3) for row in batch.to_pylist()]
    assert found == expected


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


# --- halves of updates at one position --------------------------------------------------------------------------------

_HALF = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["before", "after", "after", "change", "control"]),
        "transaction_id": st.sampled_from(["7", "8", None]),
        "operation": st.just("UPDATE"),
        "position": st.one_of(st.none(), st.integers(0, 4).map(str)),
        "table_name": st.just("orders"),
        "changed_columns": st.sampled_from([None, ["state"], ["id", "state"], []]),
        "after": st.sampled_from([None, [("id", "1"), ("state", "paid")], [("id", "1"), ("state", "open")]]),
        "before": st.sampled_from([None, [("id", "1"), ("state", "open")]]),
        "problems": st.sampled_from([None, None, [{"code": "type", "detail": "odd"}]]),
    }
)


def pairs_of(rows: list[Row]) -> list[tuple[Row | None, Row | None]]:
    """Before and after halves: the first at a position with the first, the second with the second; both are there, or
    one; other changes as pairs of themselves."""
    found: list[tuple[Row | None, Row | None]] = [(row, row) for row in rows if row["kind"] == "change"]
    for position in dict.fromkeys(row["position"] for row in rows):
        befores, afters = (
            [row for row in rows if (row["kind"], row["position"]) == (kind, position)] for kind in ("before", "after")
        )
        if position is None:
            found += [(row, None) for row in befores] + [(None, row) for row in afters]
        else:
            found += zip_longest(befores, afters)
    return found


def problems_of(before: Row | None, after: Row | None) -> list[Row]:
    if after is None:
        return [{"code": "update_half", "detail": "the after half is missing"}]
    if before is None or before is after or before["before"] is None or after["after"] is None:
        return []
    mask, images = (
        after["changed_columns"],
        [name for name, value in after["after"] if dict(before["before"])[name] != value],
    )
    if mask is None or set(mask) == set(images):
        return []
    only = [name for name in mask if name not in images], [name for name in images if name not in mask]
    return [{"code": "mask_images", "detail": disagreement(*only)}]


def change_of(before: Row | None, after: Row | None) -> Row:
    row = after or before or {}
    rows = [one for one in (before, after) if one is not None]
    both = before is not None and after is not None and before is not after
    own = [one for half in rows if half is not row or not both for one in half["problems"] or []] if both else []
    own = own + (row["problems"] or [])
    return {
        "offset": row["offset"],
        "kind": "before" if after is None else "change",
        "before": before["before"] if both and before else row["before"],
        "after": row["after"],
        "problems": own + problems_of(before, after) or None,
        "source_events": [one["offset"] for one in ([before, after] if both else [row]) if one],
    }


class Table(Format):
    """A format of change tables whose plan is how the halves of a split are paired."""

    def halved(self, plan: Halved, _split: int) -> Halved:
        return plan


def checked_of(read: Read, halved: Halved) -> Named:
    found = Delivered(Table()).read_checked(halved, 0, EVERYTHING, read)
    return ((name, rows) for name, rows in found if name in ("checked", "changes"))


def changes_of(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    names = ("offset", "kind", "before", "after", "problems", "source_events")
    rows = [{name: row[name] for name in names} for batch in batches for row in batch.to_pylist()]
    for row in rows:
        row["source_events"] = [place["offset"] for place in row["source_events"]]
    return sorted(rows, key=lambda row: row["offset"])


@given(st.lists(_HALF, max_size=25), st.integers(1, 30))
def test_halves_at_one_position_are_one_change(drawn: list[Row], size: int) -> None:
    rows = events_of(drawn)
    halved = Halved(befores=any(row["kind"] == "before" for row in rows))
    expected = [change_of(*pair) for pair in pairs_of(rows)]
    found = changes_of(read_delivered(reader(rows, size), EVERYTHING, halved))
    assert found == sorted(expected, key=lambda row: row["offset"])

    counts = Counter((after or before or {})["transaction_id"] for before, after in pairs_of(rows))
    parts = [row for batch in read_parts(reader(rows, size), EVERYTHING, halved) for row in batch.to_pylist()]
    assert {row["transaction_id"]: dict(row["changes"]).get("UPDATE", 0) for row in parts} == {
        name: counts[name] for name in {row["transaction_id"] for row in rows} - {None}
    }

    checked = checked_of(reader(rows, size), halved)
    told = [
        (row["offset"], one)
        for name, batch in checked
        for row in batch.to_pylist()
        for one in row["problems"] or []
        if name == "checked" or one["code"] in ONLY_ASSEMBLED
    ]
    of_events = [(row["offset"], one) for row in rows for one in row["problems"] or []]
    pairs = [((after or before or {})["offset"], problems_of(before, after)) for before, after in pairs_of(rows)]
    of_halves = [(offset, one) for offset, problems in pairs for one in problems]
    assert sorted(told, key=repr) == sorted(of_events + of_halves, key=repr)


@given(st.lists(st.lists(_HALF, max_size=9), min_size=2, max_size=4), st.integers(1, 30))
def test_halves_that_several_splits_may_have_are_left_out(drawn: list[list[Row]], size: int) -> None:
    rows = iter(events_of([row for split in drawn for row in split]))
    splits = [[next(rows) for _ in split] for split in drawn]
    positions = [[row["position"] for row in split if row["position"] is not None] for split in splits]
    shared = overlaps([(min(some), max(some)) for some in positions if some])
    found, left = [], []
    for split in splits:
        halved = Halved(any(row["kind"] == "before" for row in split), shared)
        found += changes_of(read_delivered(reader(split, size), EVERYTHING, halved))
        left += [row for batch in read_elsewhere(reader(split, size), EVERYTHING, halved) for row in batch.to_pylist()]
    assert all(any(first <= row["position"] <= last for first, last in shared) for row in left)
    expected = [change_of(*pair) for pair in pairs_of([row for split in splits for row in split])]
    together = found + [change_of(*pair) for pair in pairs_of(left)]
    assert sorted(together, key=lambda row: row["offset"]) == sorted(expected, key=lambda row: row["offset"])


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)).map(sorted), max_size=8))
def test_what_ranges_have_in_common(drawn: list[list[int]]) -> None:
    found = overlaps([(str(first), str(last)) for first, last in drawn])
    assert all(one[1] < two[0] for one, two in pairwise(found))
    for point in range(10):
        several = sum(first <= point <= last for first, last in drawn) > 1
        assert any(first <= str(point) <= last for first, last in found) == several


# --- halves of updates that follow each other -------------------------------------------------------------------------

_CONSECUTIVE = Halved(consecutive=True)


def trail_of(*texts: str) -> list[Row]:
    """Events from texts: kind, transaction, TransInd (``-``: none), second of its time."""
    drawn: list[Row] = []
    for kind, name, place, second in (text.split() for text in texts):
        row: Row = {"kind": kind, "transaction_id": name, "operation": "UPDATE", "table_name": "orders"}
        row["changed_at"] = EPOCH + dt.timedelta(seconds=int(second))
        row["headers"] = [("TransInd", place)] if place != "-" else []
        row["last_in_transaction"] = None if place == "-" else place in "23"
        drawn.append(row)
    return events_of(drawn)


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_an_after_half_belongs_to_the_before_half_that_it_follows(size: int) -> None:
    rows = trail_of("before 7 0 0", "before 7 1 1", "after 7 1 2", "change 7 1 3", "before 7 2 4")
    found = changes_of(read_delivered(reader(rows, size), EVERYTHING, _CONSECUTIVE))
    assert [(row["kind"], row["source_events"]) for row in found] == [
        ("before", [0]), ("change", [10, 20]), ("change", [30]), ("before", [40]),
    ]  # fmt: skip
    (parts,) = read_parts(reader(rows, size), EVERYTHING, _CONSECUTIVE)
    assert dict(parts["changes"][0].as_py()) == {"UPDATE": 4}
    checked = [batch for _, batch in checked_of(reader(rows, size), _CONSECUTIVE)]
    codes = [one["code"] for batch in checked for row in batch.to_pylist() for one in row["problems"] or []]
    assert codes == ["update_half", "update_half"]


@pytest.mark.parametrize(
    ("places", "completeness"),
    [("0 1 2", "complete"), ("1 1 2", "no_begin"), ("0 1 1", "no_end"), ("- - -", "unknown"), ("3", "complete")],
)
def test_transind_shows_whether_a_transaction_is_complete_and_its_last_record_is_its_commit(
    places: str, completeness: str
) -> None:
    rows = trail_of(*(f"change 7 {place} {second}" for second, place in enumerate(places.split())))
    parts = [batch for row in rows for batch in read_parts(reader([row], 1), EVERYTHING, _CONSECUTIVE)]
    (found,) = summarised(pa.Table.from_batches(parts, PARTS)).to_pylist()
    last = rows[-1]["changed_at"] if places[-1] in "23" else None
    assert (found["completeness"], found["ended_at"]) == (completeness, last)
    ends = [row for batch in read_ends_here(reader(rows, 2), EVERYTHING, 0, _CONSECUTIVE) for row in batch.to_pylist()]
    assert [row["committed_at"] for row in ends] == [last]
