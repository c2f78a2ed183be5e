"""Changes and transactions that are put together in one split are those that a plain loop puts together."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, pairwise
from operator import itemgetter
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcwb import model
from cdcwb.errors import CaptureError
from cdcwb.formats.changes import ONLY_ASSEMBLED
from cdcwb.formats.dissector import EVERYTHING, Read, Wanted
from cdcwb.formats.parts import key_of
from cdcwb.formats.summaries import PARTS, summarised
from cdcwb.formats.transactions import (
    AFTER,
    BEFORE,
    CHANGE,
    COMMIT,
    NOTHING,
    OTHER,
    ROLLBACK,
    Crossing,
    Ending,
    Run,
    read_changes,
    read_checked,
    read_transactions,
)
from cdcwb.spark.exchange import received, send
from tests.event_reader import reader

Row = dict[str, Any]
EPOCH = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
OPERATIONS = {"before": "UPDATE", "after": "UPDATE"}

_EVENT = st.tuples(
    st.sampled_from(["change", "before", "after", "before", "after", "begin", "commit", "rollback", "undo", "control"]),
    st.integers(1, 3),
    st.sampled_from(["orders", "goods"]),
    st.integers(0, 6),
    st.sampled_from(["x", "y", None]),
    st.sampled_from(["INSERT", "DELETE", "TRUNCATE"]),
)


def events_of(drawn: list[tuple[Any, ...]]) -> list[Row]:
    found = []
    now: dict[int, str] = {}
    for number, (kind, key, table, position, value, operation) in enumerate(drawn):
        transaction = None
        if kind != "control":  # a transaction lasts to its end, or to the next begin with its id
            if kind == "begin" or key not in now:
                now[key] = f"{key}@{'' if kind == 'begin' else '~'}{number:04}"
            transaction = now.pop(key) if kind in ("commit", "rollback") else now[key]
        row: Row = dict.fromkeys(model.EVENTS.names)
        change = kind in ("change", "before", "after")
        image = [("id", "1"), ("value", value)]
        row |= {
            "format": "gbase8s",
            "file": "a.bin",
            "file_index": 0,
            "offset": 10 * number,
            "length": 10,
            "kind": kind,
            "position": f"{position:016X}",
            "transaction_id": transaction,
        }
        row["headers"] = [("user_id", "7")] if kind == "begin" else []
        if change:
            row |= {"schema_name": "shop", "table_name": table, "operation": OPERATIONS.get(kind, operation)}
            row["before" if kind == "before" or (operation == "DELETE" and kind == "change") else "after"] = image
            row["problems"] = [{"code": "value", "detail": f"of {number}"}] if number % 5 == 0 else None
        if kind in ("begin", "commit"):
            row["changed_at"] = EPOCH + dt.timedelta(seconds=number)
        found.append(row)
    return found


# --- the plain loop ---------------------------------------------------------------------------------------------------


def became(rows: list[Row], name: str) -> tuple[str, Row | None]:
    """The outcome of a transaction, and its commit."""
    kinds = {row["kind"] for row in rows if row["transaction_id"] == name}
    commits = [row for row in rows if row["transaction_id"] == name and row["kind"] == "commit"]
    if "begin" in kinds and "commit" in kinds:
        return "committed", commits[-1]
    last = commits[-1] if commits else None
    return ("rolled_back", last) if "begin" in kinds and "rollback" in kinds else ("open", last)


def expected_changes(rows: list[Row]) -> list[Row]:
    found = []
    groups = defaultdict(list)
    for row in rows:
        if row["kind"] in ("change", "before", "after"):
            groups[row["transaction_id"], row["table_name"]].append(row)
    for group in groups.values():
        for run in runs_of(group):
            alone = run[:1] if len(run) % 2 and run[0]["kind"] == "after" else []
            found += [change_of(rows, alone)] if alone else []
            rest = run[len(alone) :]
            found += [change_of(rows, rest[at : at + 2]) for at in range(0, len(rest), 2)]
    return sorted(found, key=lambda row: row["source_events"][-1]["offset"])


def runs_of(group: list[Row]) -> list[list[Row]]:
    """Halves that alternate; every other change alone."""
    runs: list[list[Row]] = []
    for row in group:
        last = runs[-1][-1]["kind"] if runs else "change"
        if row["kind"] == "change" or last in ("change", row["kind"]):
            runs.append([])
        runs[-1].append(row)
    return runs


def change_of(rows: list[Row], events: list[Row]) -> Row:
    own = next((row for row in events if row["kind"] == "after"), events[0])
    other = next((row for row in events if row is not own), None)
    problems = [*((other["problems"] or []) if other else []), *(own["problems"] or [])]
    half = own["kind"] in ("before", "after")
    if half and other is None:
        lacks = {"before": "after", "after": "before"}[own["kind"]]
        problems.append({"code": "update_half", "detail": f"the {lacks} half is missing"})
    if other is not None and events[0] is own:
        problems.append({"code": "reordered_update", "detail": "the after half precedes the before half"})
    outcome, commit = became(rows, own["transaction_id"])
    undone = any(
        row["kind"] == "undo" and row["transaction_id"] == own["transaction_id"]
        and row["offset"] > events[0]["offset"] and row["position"] <= own["position"]
        for row in rows
    )  # fmt: skip
    before = other["before"] if other else own["before"]
    after = own["after"]
    compared = own["operation"] == "UPDATE" and before is not None and after is not None
    changed = [name for name, value in after if dict(before).get(name) != value] if compared else None
    return {
        "offset": own["offset"],
        "kind": own["kind"] if half and other is None else "change",
        "before": before,
        "after": after,
        "changed_columns": changed,
        "change_source": "images" if compared else None,
        "problems": problems or None,
        "source_events": [{name: row[name] for name in ("file_index", "offset", "length")} for row in events],
        "outcome": "undone" if undone else outcome,
        "commit_position": commit["position"] if commit else None,
        "committed_at": commit["changed_at"] if commit else None,
    }


def plain_changes(rows: list[Row], size: int) -> list[Row]:
    batches = list(read_changes(reader(rows, size), EVERYTHING))
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema == model.CHANGES
    return [row for batch in batches for row in batch.to_pylist()]


@given(st.lists(_EVENT, max_size=40), st.integers(1, 41))
def test_changes_are_those_of_a_plain_loop(drawn: list[tuple[Any, ...]], size: int) -> None:
    rows = events_of(drawn)
    expected = expected_changes(rows)
    found = [{name: row[name] for name in expected[0]} for row in plain_changes(rows, size)]
    assert found == expected


def transactions_of(rows: list[Row], size: int) -> list[Row]:
    return of_parts([*read_transactions(reader(rows, size), EVERYTHING)])


@given(st.lists(_EVENT, max_size=40), st.integers(1, 41))
def test_transactions_are_those_of_a_plain_loop(drawn: list[tuple[Any, ...]], size: int) -> None:
    rows = events_of(drawn)
    found = transactions_of(rows, size)
    names = list(dict.fromkeys(row["transaction_id"] for row in rows if row["transaction_id"]))
    assert [row["transaction_id"] for row in found] == names
    changes = expected_changes(rows)
    by_offset = {row["offset"]: row for row in rows}
    for row in found:
        mine = [one for one in rows if one["transaction_id"] == row["transaction_id"]]
        made = [by_offset[one["offset"]] for one in changes]
        made = [one for one in made if one["transaction_id"] == row["transaction_id"]]
        begin = next((one for one in mine if one["kind"] == "begin"), None)
        end = next((one for one in reversed(mine) if one["kind"] in ("commit", "rollback")), None)
        assert row["outcome"] == became(rows, row["transaction_id"])[0]
        assert row["completeness"] == ("no_begin" if begin is None else "complete" if end else "no_end")
        assert row["changes"] == sorted(Counter(one["operation"] for one in made).items())
        assert row["tables"] == sorted({f"shop.{one['table_name']}" for one in made})
        assert row["bytes"] == 10 * len(mine)
        assert row["begin_position"] == (begin["position"] if begin else None)
        assert row["began_at"] == (begin["changed_at"] if begin else None)
        assert row["user"] == ("7" if begin else None)
        assert row["end_position"] == (end["position"] if end else None)
        assert row["ended_at"] == (end["changed_at"] if end else None)


@given(st.lists(_EVENT, max_size=40), st.integers(1, 41))
def test_one_pass_finds_the_problems_of_events_and_those_of_their_changes(
    drawn: list[tuple[Any, ...]], size: int
) -> None:
    rows = events_of(drawn)
    parts: dict[str, list[Any]] = defaultdict(list)
    for name, batch in read_checked(reader(rows, size), EVERYTHING):
        parts[name] += batch.to_pylist()
    assert problems_of(parts["checked"], parts["changes"]) == expected_problems(rows)
    whole = transactions_of(rows, size)
    names = sorted(row["transaction_id"] for row in whole if row["outcome"] == "open")
    assert sorted(row["transaction_id"] for row in parts["transactions"]) == names


def problems_of(events: list[Row], changes: list[Row]) -> list[tuple[int, str]]:
    of_events = [(row["offset"], one["code"]) for row in events for one in row["problems"]]
    of_changes = [(row["offset"], one["code"]) for row in changes for one in row["problems"] or []]
    return sorted(of_events + [one for one in of_changes if one[1] in ONLY_ASSEMBLED])


def expected_problems(rows: list[Row]) -> list[tuple[int, str]]:
    of_events = [(row["offset"], one["code"]) for row in rows for one in row["problems"] or ()]
    of_changes = [(row["offset"], one["code"]) for row in expected_changes(rows) for one in row["problems"] or ()]
    return sorted(of_events + [one for one in of_changes if one[1] != "value"])


class Cut:
    """Events that are cut into splits, and what each of them needs to know of the others."""

    def __init__(self, rows: list[Row], cuts: list[int], size: int) -> None:
        self.edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
        self.parts = [reader(rows[one:two], size) if one < two else nothing for one, two in pairwise(self.edges)]
        self.crossing = [crossing(rows, one, two, size) for one, two in pairwise(self.edges)]

    def of_each(self, read: Any) -> Iterator[tuple[str, pa.RecordBatch]]:
        for part, known in zip(self.parts, self.crossing, strict=True):
            yield from read(part, EVERYTHING, known)


def crossing(rows: list[Row], first: int, last: int, size: int) -> Crossing:
    """What the rows ``[first, last)`` need to know of the others."""
    endings = {name: ending(rows[last:], name) for name in open_at(rows, last)}
    if not endings and first == 0:
        return NOTHING
    before, after = of_tables(rows[:first]), of_tables(rows[last:])
    return Crossing(
        {},
        frozenset(name for name in open_at(rows, first) if "~" not in name),
        endings,
        {key: Run(CODES[mine[-1]["kind"]], len(runs_of(mine)[-1])) for key, mine in before.items()},
        {key: Run(CODES[mine[0]["kind"]], len(runs_of(mine)[0])) for key, mine in after.items()},
        reader(rows[last:], size),
    )


CODES = {"change": CHANGE, "before": BEFORE, "after": AFTER}


def open_at(rows: list[Row], at: int) -> set[str]:
    """The transactions that have begun before a row and not ended."""
    ended = {row["transaction_id"] for row in rows[:at] if row["kind"] in ("commit", "rollback")}
    return {row["transaction_id"] for row in rows[:at]} - {None} - ended


def ending(rows: list[Row], name: str) -> Ending:
    mine = [row for row in rows if row["transaction_id"] == name]
    undo = min((row["position"] for row in mine if row["kind"] == "undo"), default=None)
    end = next((row for row in mine if row["kind"] in ("commit", "rollback")), None)
    if end is None:
        return Ending(OTHER, None, None, undo)
    time = None if end["changed_at"] is None else int(end["changed_at"].timestamp()) * 1_000_000
    return Ending(COMMIT if end["kind"] == "commit" else ROLLBACK, end["position"], time, undo)


def of_tables(rows: list[Row]) -> dict[Any, list[Row]]:
    """The changes of each transaction and table."""
    found: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        if row["kind"] in CODES:
            found[row["transaction_id"], row["schema_name"], row["table_name"]].append(row)
    return found


def sent(batches: Iterator[tuple[str, pa.RecordBatch]]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The batches as Spark passes them on."""
    each = (send(name, batch, key_of(name), 4, number << 32) for number, (name, batch) in enumerate(batches))
    return received(chain.from_iterable(each))


def nothing(_: Wanted) -> Iterator[pa.RecordBatch]:
    return iter(())


def by_name(batches: Iterator[tuple[str, pa.RecordBatch]]) -> dict[str, list[pa.RecordBatch]]:
    found: dict[str, list[pa.RecordBatch]] = defaultdict(list)
    for name, batch in sent(batches):
        found[name].append(batch)
    return found


def of_parts(parts: list[pa.RecordBatch]) -> list[Row]:
    """The transactions of all parts."""
    found = summarised(pa.Table.from_batches(parts, PARTS)).select(model.TRANSACTIONS.names)
    return cast("list[Row]", found.to_pylist())


def parts_of(read: Read, wanted: Wanted, known: Crossing) -> Iterator[tuple[str, pa.RecordBatch]]:
    return (("transactions", rows) for rows in read_transactions(read, wanted, known))


def cut_changes(cut: Cut, wanted: Wanted) -> list[Row]:
    """The changes of all parts, in capture order."""
    parts = zip(cut.parts, cut.crossing, strict=True)
    batches = (batch for part, known in parts for batch in read_changes(part, wanted, known))
    found: list[Row] = [row for batch in batches for row in batch.to_pylist()]
    return sorted(found, key=lambda row: row["source_events"][-1]["offset"])


_CUTS = st.lists(st.integers(0, 40), max_size=5)


@given(st.lists(_EVENT, max_size=40), _CUTS, st.integers(1, 41))
def test_changes_do_not_depend_on_where_a_capture_is_cut(
    drawn: list[tuple[Any, ...]], cuts: list[int], size: int
) -> None:
    rows = events_of(drawn)
    assert cut_changes(Cut(rows, cuts, size), EVERYTHING) == plain_changes(rows, size)


@given(st.lists(_EVENT, max_size=40), _CUTS, st.integers(1, 41))
def test_the_changes_of_a_table_can_be_read_without_those_of_others(
    drawn: list[tuple[Any, ...]], cuts: list[int], size: int
) -> None:
    rows = events_of(drawn)
    cut = Cut(rows, cuts, size)
    for table in {row["table_name"] for row in rows if row["table_name"]}:
        wanted = replace(EVERYTHING, tables=frozenset([f"shop.{table}"]))
        expected = [row for row in plain_changes(rows, size) if row["table_name"] == table]
        assert cut_changes(cut, wanted) == expected


@given(st.lists(_EVENT, max_size=40), _CUTS, st.integers(1, 41))
def test_transactions_do_not_depend_on_where_a_capture_is_cut(
    drawn: list[tuple[Any, ...]], cuts: list[int], size: int
) -> None:
    rows = events_of(drawn)
    cut = Cut(rows, cuts, size)
    complete, expected = of_parts(by_name(cut.of_each(parts_of))["transactions"]), transactions_of(rows, 7)
    assert sorted(complete, key=itemgetter("transaction_id")) == sorted(expected, key=itemgetter("transaction_id"))


@given(st.lists(_EVENT, max_size=40), _CUTS, st.integers(1, 41))
def test_problems_do_not_depend_on_where_a_capture_is_cut(
    drawn: list[tuple[Any, ...]], cuts: list[int], size: int
) -> None:
    rows = events_of(drawn)
    cut = Cut(rows, cuts, size)
    found = by_name(cut.of_each(read_checked))
    shown = ([row for batch in found[name] for row in batch.to_pylist()] for name in ("checked", "changes"))
    assert problems_of(*shown) == expected_problems(rows)
    is_open = of_parts(found["transactions"])
    names = sorted(row["transaction_id"] for row in is_open if row["outcome"] == "open")
    expected = {row["transaction_id"] for row in rows} - {None}
    assert names == sorted(name for name in expected if became(rows, name)[0] == "open")


def test_images_of_different_columns_are_compared_by_name() -> None:
    rows = events_of([("before", 1, "goods", 1, "x", ""), ("after", 1, "goods", 2, "x", "")])
    rows[0]["before"] = [("value", "x"), ("gone", "1"), ("same", None)]
    rows[1]["after"] = [("same", None), ("value", "y"), ("new", None), ("newer", "2")]
    (row,) = plain_changes(rows, 1)
    assert row["changed_columns"] == ["value", "newer"]


def test_images_without_columns_show_no_changed_columns() -> None:
    halves = [("before", 1, "goods", 1, "x", ""), ("after", 1, "goods", 2, "x", "")]
    for before, after in ([], []), ([("value", "x")], []), ([], [("value", "x")]):
        rows = events_of(halves)
        rows[0]["before"], rows[1]["after"] = before, after
        (row,) = plain_changes(rows, 1)
        assert (row["changed_columns"], row["change_source"]) == (None, None)


def test_records_that_are_not_those_of_the_headers_are_refused() -> None:
    rows = events_of([("change", 1, "goods", 1, "x", "INSERT")] * 3)

    def read(wanted: Wanted) -> Iterator[pa.RecordBatch]:
        yield from reader(rows if wanted.images else [*rows[:1], {**rows[1], "offset": 11}, rows[2]], 3)(wanted)

    with pytest.raises(CaptureError, match="the files changed between two passes"):
        list(read_changes(read, EVERYTHING))
