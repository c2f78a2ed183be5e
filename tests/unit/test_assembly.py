"""Changes and transactions that are put together in one split are those that a plain loop puts together."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcwb import model
from cdcwb.formats.assembly import read_changes, read_checked, read_crossing, read_transactions
from cdcwb.formats.base import EVERYTHING, Wanted
from tests.event_reader import reader

Row = dict[str, Any]
EPOCH = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
OPERATIONS = {"before": "UPDATE", "after": "UPDATE"}

_EVENT = st.tuples(
    st.sampled_from(["change", "before", "after", "before", "after", "begin", "commit", "rollback", "undo", "control"]),
    st.sampled_from(["1@A", "2@B", "3@~C"]),
    st.sampled_from(["orders", "goods"]),
    st.integers(0, 6),
    st.sampled_from(["x", "y", None]),
    st.sampled_from(["INSERT", "DELETE", "TRUNCATE"]),
)


def events_of(drawn: list[tuple[Any, ...]]) -> list[Row]:
    found = []
    for number, (kind, transaction, table, position, value, operation) in enumerate(drawn):
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
            "transaction_id": None if kind == "control" else transaction,
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
        runs: list[list[Row]] = []
        for row in group:
            last = runs[-1][-1]["kind"] if runs else "change"
            if row["kind"] == "change" or last in ("change", row["kind"]):
                runs.append([])
            runs[-1].append(row)
        for run in runs:
            if len(run) % 2 and run[0]["kind"] == "after":
                found.append(change_of(rows, run[:1]))
                run = run[1:]
            found += [change_of(rows, run[at : at + 2]) for at in range(0, len(run), 2)]
    return sorted(found, key=lambda row: row["source_events"][-1]["offset"])


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
        and row["offset"] > own["offset"] and row["position"] <= own["position"]
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


def plain_changes(rows: list[Row], size: int, crossing: frozenset[str] = frozenset()) -> list[Row]:
    batches = list(read_changes(reader(rows, size), EVERYTHING, crossing))
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


@given(st.lists(_EVENT, max_size=40), st.integers(1, 41))
def test_transactions_are_those_of_a_plain_loop(drawn: list[tuple[Any, ...]], size: int) -> None:
    rows = events_of(drawn)
    batches = list(read_transactions(reader(rows, size), EVERYTHING, frozenset()))
    found = [row for batch in batches for row in batch.to_pylist()]
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
    parts: dict[str, list[Any]] = {"checked": [], "events": [], "open": []}
    for name, batch in read_checked(reader(rows, size), EVERYTHING, frozenset({"2@B"})):
        parts[name] += batch.to_pylist()
    found = [(row["offset"], one["code"]) for row in parts["checked"] for one in row["problems"]]
    of_events = [(row["offset"], one["code"]) for row in rows for one in row["problems"] or ()]
    elsewhere = {row["offset"] for row in rows if row["transaction_id"] == "2@B"}
    changes = [row for row in expected_changes(rows) if row["offset"] not in elsewhere]
    of_changes = [(row["offset"], one["code"]) for row in changes for one in row["problems"] or ()]
    assert sorted(found) == sorted(of_events + [one for one in of_changes if one[1] != "value"])
    assert [row["offset"] for row in parts["events"]] == sorted(elsewhere)
    whole = [
        one
        for batch in read_transactions(reader(rows, size), EVERYTHING, frozenset({"2@B"}))
        for one in batch.to_pylist()
    ]
    assert parts["open"] == [{**row, "user": None} for row in whole if row["outcome"] == "open"]


@given(st.lists(_EVENT, max_size=40), st.integers(1, 41))
def test_transactions_that_cross_a_border_are_left_to_others(drawn: list[tuple[Any, ...]], size: int) -> None:
    rows = events_of(drawn)
    crossing = frozenset({"2@B"})
    whole = [row for row in plain_changes(rows, size) if row["transaction_id"] not in crossing]
    assert plain_changes(rows, size, crossing) == whole
    rest = [row for batch in read_crossing(reader(rows, size), EVERYTHING, crossing) for row in batch.to_pylist()]
    assert [row["offset"] for row in rest] == [row["offset"] for row in rows if row["transaction_id"] in crossing]


def test_images_of_different_columns_are_compared_by_name() -> None:
    rows = events_of([("before", "1@A", "goods", 1, "x", ""), ("after", "1@A", "goods", 2, "x", "")])
    rows[0]["before"] = [("value", "x"), ("gone", "1"), ("same", None)]
    rows[1]["after"] = [("same", None), ("value", "y"), ("new", None), ("newer", "2")]
    (row,) = plain_changes(rows, 1)
    assert row["changed_columns"] == ["value", "newer"]


def test_records_that_are_not_those_of_the_headers_are_refused() -> None:
    rows = events_of([("change", "1@A", "goods", 1, "x", "INSERT")] * 3)

    def read(wanted: Wanted) -> Iterator[pa.RecordBatch]:
        yield from reader(rows if wanted.images else [*rows[:1], {**rows[1], "offset": 11}, rows[2]], 3)(wanted)

    with pytest.raises(RuntimeError, match="different records"):
        list(read_changes(read, EVERYTHING, frozenset()))
