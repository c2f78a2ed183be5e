"""Changes, transactions and problems of a trail whose transactions are in one split each."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cdcwb_synth as synth
from cdcwb import model
from cdcwb.formats import get_format
from cdcwb.formats.changes import ONLY_ASSEMBLED
from cdcwb.formats.dissector import EVERYTHING, Assembling, Named, Pairing, Read, Wanted
from cdcwb.formats.requests import problem_rows, select
from cdcwb.formats.summaries import PARTS, incomplete, summarised
from cdcwb.formats.trail import TrailFormat
from cdcwb.local_tables import LocalTables, ReadingPlan
from tests.event_reader import reader

Row = dict[str, Any]

HEADERS = Wanted(images=False)
GOLDENGATE = get_format("goldengate")
PLAN: Any = SimpleNamespace(facts={})
DATA = Path(__file__).parents[2] / "data" / "goldengate"


def trail(*records: str, **more: Row) -> list[Row]:
    """Events at the positions 10, 20, …: each text is ``kind transaction TransInd table`` (``-``: null), ``more`` are
    columns by position, such as ``p20``."""
    found = []
    for number, record in enumerate(records, 1):
        kind, transaction, place, table = (None if word == "-" else word for word in record.split())
        row: Row = dict.fromkeys(model.EVENTS.names)
        row |= {"format": "goldengate", "file": "a.txt", "file_index": 0, "offset": 100 * number, "length": 100}
        row |= {"kind": kind, "transaction_id": transaction, "position": str(10 * number), "table_name": table}
        row |= {"changed_at": 1_000_000 * number}
        if kind in ("change", "before", "after"):
            row["operation"] = "UPDATE"
        headers = {} if place is None else {"TransInd": place}
        if place is not None:
            row["last_in_transaction"] = place in "23"
            row["commit_position"] = row["position"] if place in "23" else None
        given = dict(more.get(f"p{10 * number}", {}))
        row["headers"] = list((headers | given.pop("headers", {})).items())
        found.append(row | given)
    return found


def read_trail_changes(read: Read, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    assert isinstance(GOLDENGATE, TrailFormat)
    return GOLDENGATE.read_changes(PLAN, 0, wanted, read)


def read_trail_transactions(read: Read, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    assert isinstance(GOLDENGATE, TrailFormat)
    return GOLDENGATE.read_transactions(PLAN, 0, wanted, read)


def read_trail_checked(read: Read, wanted: Wanted) -> Named:
    assert isinstance(GOLDENGATE, TrailFormat)
    return GOLDENGATE.read_checked(PLAN, 0, wanted, read)


def changes(rows: Sequence[Row], size: int = 100) -> list[Row]:
    return [row for batch in read_trail_changes(reader(list(rows), size), EVERYTHING) for row in batch.to_pylist()]


def transactions(rows: Sequence[Row], size: int = 100) -> list[Row]:
    parts = pa.Table.from_batches(read_trail_transactions(reader(list(rows), size), EVERYTHING), PARTS)
    found: list[Row] = summarised(parts).select(model.TRANSACTIONS.names).to_pylist()
    return found


def problems(found: Named) -> list[Row]:
    rows: list[Row] = []
    parts: list[pa.RecordBatch] = []
    for name, batch in found:
        if name == "checked":
            rows += problem_rows(batch).to_pylist()
        elif name == "changes":
            rows += problem_rows(batch, ONLY_ASSEMBLED).to_pylist()
        else:
            parts.append(batch)
    return in_order([*rows, *incomplete(summarised(pa.Table.from_batches(parts, PARTS)))])


def in_order(rows: Sequence[Row]) -> list[Row]:
    """Problems with all columns of the model, in a fixed order."""
    return sorted(({name: row.get(name) for name in model.PROBLEMS.names} for row in rows), key=repr)


def sources(row: Row) -> list[int]:
    return [event["offset"] // 10 for event in row["source_events"]]


SIZES = (1, 2, 3, 100)


# --- changes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
def test_halves_are_paired_by_their_order_in_transaction_and_table(size: int) -> None:
    rows = trail(
        "before a 0 x", "before a 1 y", "after a 1 x", "after a 2 y", "after b 0 x", "before b 2 x", "before c 3 x"
    )  # fmt: skip
    found = changes(rows, size)
    assert [(row["kind"], row["transaction_id"], sources(row)) for row in found] == [
        ("change", "a", [10, 30]), ("change", "a", [20, 40]), ("change", "b", [50, 60]), ("before", "c", [70]),
    ]  # fmt: skip
    assert [[one["code"] for one in row["problems"] or ()] for row in found] == [
        [], [], ["reordered_update"], ["update_half"],
    ]  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
def test_a_change_has_the_facts_from_the_end_of_its_transaction(size: int) -> None:
    rows = trail(
        "change a 0 x", "schema - 3 -", "change a 2 x", "change b 0 x", "rollback b - -", "change c 0 x", "change - - x"
    )  # fmt: skip
    facts = [(row["outcome"], row["commit_position"], row["committed_at"]) for row in changes(rows, size)]
    assert [(outcome, position, time and time.second) for outcome, position, time in facts] == [
        ("committed", "30", 3), ("committed", "30", 3), ("rolled_back", None, None), ("committed", None, None),
        ("committed", None, None),
    ]  # fmt: skip


def test_a_full_load_has_no_outcome() -> None:
    (row,) = changes(trail("change - - x", p10={"operation": "REFRESH"}))
    assert row["outcome"] is None


@pytest.mark.parametrize("size", SIZES)
def test_fragments_are_source_events_of_the_record_that_they_continue(size: int) -> None:
    rows = trail(
        "before a 0 x", "fragment a 1 x", "schema - 3 -", "fragment a 1 x", "after a 1 x", "fragment a 2 x",
        "fragment b 1 x", "change b 2 x",
        p20={"headers": {"continues": "10"}}, p40={"headers": {"continues": "10"}},
        p60={"headers": {"continues": "50"}},
    )  # fmt: skip
    assert [sources(row) for row in changes(rows, size)] == [[10, 20, 40, 50, 60], [80]]


@pytest.mark.parametrize("size", SIZES)
def test_a_record_with_the_position_of_another_one_is_continued_by_its_location(size: int) -> None:
    same = [{"code": "same_position", "detail": "RBA 10 is that of a different record before it too"}]
    rows = trail(
        "change a 0 x", "change a 1 x", "fragment a 2 x", "change - - x", "fragment - - x",
        p20={"position": "10", "problems": same}, p30={"headers": {"continues": "0:200"}},
        p40={"position": None}, p50={"position": None, "headers": {"continues": "0:400"}},
    )  # fmt: skip
    assert [sources(row) for row in changes(rows, size)] == [[10], [20, 30], [40, 50]]


@pytest.mark.parametrize("size", SIZES)
def test_a_record_undoes_the_latest_opposite_change_of_its_row_in_its_transaction(size: int) -> None:
    undo = {"headers": {"UndoFlag": "1"}, "operation": "DELETE", "before": [("id", "1")]}
    insert = {"operation": "INSERT", "after": [("id", "1")]}
    rows = trail(
        "change a 3 x", "change b 0 x", "change b 1 y", "change b 2 x", p10=insert, p20=insert, p30=insert, p40=undo
    )
    assert [row["outcome"] for row in changes(rows, size)] == ["committed", "undone", "committed", "undo"]


@pytest.mark.parametrize("size", SIZES)
def test_records_in_no_transaction_are_changes_by_themselves(size: int) -> None:
    rows = trail("before - - x", "after - - x", "change - - x", "before - - x", "change - - y", "after - - x")
    found = changes(rows, size)
    assert [(row["kind"], sources(row)) for row in found] == [
        ("change", [10, 20]), ("change", [30]), ("before", [40]), ("change", [50]), ("after", [60]),
    ]  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
def test_transactions_of_one_id_each_have_their_own_end(size: int) -> None:
    rows = trail("change a 3 x", "change a 3 x", "change b 3 x", "change a 3 x")
    assert [row["commit_position"] for row in changes(rows, size)] == ["10", "20", "30", "40"]
    assert [(row["transaction_id"], row["end_position"]) for row in transactions(rows, size)] == [
        ("a", "40"),
        ("b", "30"),
    ]


def test_a_change_is_there_when_the_next_transaction_begins() -> None:
    rows = trail("change a 0 x", "schema - 3 -", "change a 2 x", "schema - 3 -", "change b 3 x", "change c 3 x")
    passed = 0

    def read(wanted: Wanted) -> Iterator[pa.RecordBatch]:
        nonlocal passed
        for batch in reader(rows, 1)(wanted):
            passed += 1
            yield batch

    found = read_trail_changes(read, EVERYTHING)
    assert [sources(row) for row in next(found).to_pylist()] == [[10], [30]]
    assert passed == 5
    assert [sources(row) for row in next(found).to_pylist()] == [[50]]
    assert passed == 6


# --- transactions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
def test_a_transaction_is_complete_with_its_first_and_last_record_and_no_gap(size: int) -> None:
    gap = [{"code": "gap", "detail": "9 bytes of the trail are not in the capture"}]
    rows = trail(
        "change a 0 x", "schema - 3 -", "change a 2 x", "change b 2 x", "change c 0 x", "change d 1 x", "change e - x",
        "change f 0 x", "change f 2 x", "change g 0 x", "rollback g - -", "change h 3 x",
        p90={"problems": gap},
    )  # fmt: skip
    found = {row["transaction_id"]: row for row in transactions(rows, size)}
    assert {name: row["completeness"] for name, row in found.items()} == {
        "a": "complete", "b": "no_begin", "c": "no_end", "d": "no_begin", "e": "unknown", "f": "gaps", "g": "complete",
        "h": "complete",
    }  # fmt: skip
    ends = {name: (row["begin_position"], row["end_position"]) for name, row in found.items()}
    assert ends == {
        "a": ("10", "30"), "b": ("40", "40"), "c": ("50", None), "d": ("60", None), "e": ("70", "70"),
        "f": ("80", "90"), "g": ("100", "110"), "h": ("120", "120"),
    }  # fmt: skip
    assert [name for name, row in found.items() if row["outcome"] == "rolled_back"] == ["g"]


@pytest.mark.parametrize("size", SIZES)
def test_a_transaction_counts_updates_once_and_the_bytes_of_all_its_records(size: int) -> None:
    rows = trail("before a 0 x", "fragment a 1 z", "after a 1 x", "change a 2 y", p40={"operation": "INSERT"})
    (row,) = transactions(rows, size)
    assert (dict(row["changes"]), row["tables"], row["bytes"]) == ({"INSERT": 1, "UPDATE": 1}, ["x", "y"], 400)
    assert (row["began_at"].second, row["ended_at"].second) == (1, 4)


def test_transactions_of_several_splits_with_the_same_id_are_merged() -> None:
    splits = [trail("change a 0 x"), trail("change b 3 x", "change a 2 y")]
    found = [one for rows in splits for one in read_trail_transactions(reader(rows, 1), EVERYTHING)]
    together = summarised(pa.Table.from_batches(found))
    assert together.select(model.TRANSACTIONS.names).to_pylist() == [
        *transactions([*splits[0], splits[1][1]]), *transactions(splits[1][:1]),
    ]  # fmt: skip
    assert incomplete(together) == []


# --- problems ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
def test_problems_of_events_halves_and_transactions_are_found_in_one_pass(size: int) -> None:
    odd = [{"code": "value", "detail": "of 10"}]
    rows = trail("change a 1 x", "after b 0 x", "before b 1 x", "before c 3 x", p10={"problems": odd})
    passes = 0

    def read(wanted: Wanted) -> Iterator[pa.RecordBatch]:
        nonlocal passes
        passes += 1
        return reader(rows, size)(wanted)

    found = problems(read_trail_checked(read, EVERYTHING))
    assert passes == 1
    assert sorted((row["code"], row["transaction_id"], row["sentence"]) for row in found) == [
        (
            "no_begin", "a",
            "the begin of this transaction is not in the capture; the end of this transaction is not in the capture",
        ),
        ("open_transaction", "b", "the end of this transaction is not in the capture"),
        ("reordered_update", "b", "the after half precedes the before half"),
        ("update_half", "c", "the after half is missing"),
        ("value", "a", "of 10"),
    ]  # fmt: skip


# --- wherever batches are cut, and as before --------------------------------------------------------------------------

_RECORD = st.tuples(
    st.sampled_from(["change", "before", "after", "fragment", "schema", "control", "rollback"]),
    st.sampled_from(["a", "a", "b", "-"]),
    st.sampled_from(["0", "1", "2", "3", "-"]),
    st.sampled_from(["x", "y"]),
)


@given(st.lists(_RECORD, max_size=25), st.integers(1, 26))
def test_tables_do_not_depend_on_where_batches_are_cut(drawn: list[tuple[str, str, str, str]], size: int) -> None:
    more = {f"p{10 * at}": {"headers": {"continues": str(10 * (at - 1)), "UndoFlag": str(at % 2)}} for at in range(26)}
    rows = trail(*map(" ".join, drawn), **more)
    assert changes(rows, size) == changes(rows)
    assert transactions(rows, size) == transactions(rows)
    found, expected = (problems(read_trail_checked(reader(rows, step), EVERYTHING)) for step in (size, 100))
    assert found == expected


def plan_of_one_split(paths: Sequence[Path]) -> Any:
    return GOLDENGATE.plan(
        sorted(map(str, paths)), {"split_size": 1 << 28}, lambda function, tasks: [function(task) for task in tasks]
    )


def sliced(batches: Sequence[pa.RecordBatch], seed: int) -> Read:
    """Reads the batches in slices of random sizes; 0: as they are."""
    chance = random.Random(seed)

    def read(wanted: Wanted) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            first = 0
            while first < rows.num_rows:
                size = chance.choice((1, 2, 3, 7, 50, 400)) if seed else rows.num_rows
                yield from select(rows.slice(first, size), wanted)
                first += size

    return read


def check_batches(plan: Any) -> set[str]:
    """Checks that tables do not depend on the sizes of batches; returns the outcomes of changes."""
    batches = list(GOLDENGATE.read(plan, 0, EVERYTHING))
    tables = []
    for seed in range(3):
        read = sliced(batches, seed)
        found = summarised(pa.Table.from_batches(read_trail_transactions(read, HEADERS), PARTS))
        tables.append(
            (
                pa.Table.from_batches(read_trail_changes(read, EVERYTHING), model.CHANGES),
                found.select(model.TRANSACTIONS.names),
                in_order(problems(read_trail_checked(read, EVERYTHING))),
            )
        )
    assert tables[0] == tables[1] == tables[2]
    return set(tables[0][0]["outcome"].to_pylist())


def test_tables_of_the_example_do_not_depend_on_batches() -> None:
    assert check_batches(plan_of_one_split(list(DATA.iterdir()))) >= {"committed"}


@pytest.mark.parametrize("updates", ["pairs", "fieldcomp"])
def test_tables_of_generated_captures_do_not_depend_on_batches(updates: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"lobs": True, "undo": 0.4, "abends": 1, "trail_files": 2}
    synth.generate("goldengate", changes=2000, seed=9, to=tmp_path, overwrite=True, updates=updates, **options)
    outcomes = check_batches(plan_of_one_split(list((tmp_path / "capture").iterdir())))
    assert outcomes >= {"committed", "rolled_back", "undone", "undo"}


# --- the interface ----------------------------------------------------------------------------------------------------


class Trail(TrailFormat):
    """Logdump text, as a format of the engine."""

    name = "goldengate"
    pairing = Pairing.TRANSACTION
    compressed_updates = GOLDENGATE.compressed_updates

    def read(self, plan: Any, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        return GOLDENGATE.read(plan, split, wanted)

    def files(self, plan: Any) -> list[dict[str, Any]]:
        return GOLDENGATE.files(plan)

    def problems(self, plan: Any) -> list[dict[str, Any]]:
        return GOLDENGATE.problems(plan)


@pytest.mark.parametrize("images", [True, False])
def test_a_small_capture_of_a_trail_format_has_the_same_tables(images: bool, tmp_path: Path) -> None:
    options: dict[str, Any] = {"lobs": True, "undo": 0.4, "abends": 1, "updates": "pairs"}
    synth.generate("goldengate", changes=300, seed=9, to=tmp_path, overwrite=True, **options)
    plan = plan_of_one_split(list((tmp_path / "capture").iterdir()))
    new, old = (LocalTables(ReadingPlan(form, plan, [], True, "PERMISSIVE", {})) for form in (Trail(), GOLDENGATE))
    assert isinstance(Trail(), Assembling)
    found, expected = (pa.Table.from_batches(one.changes(images), model.CHANGES).to_pylist() for one in (new, old))
    assert found == expected
    assert {"undo", "undone", "rolled_back"} <= {row["outcome"] for row in found}
    assert new.table("transactions") == old.table("transactions")
    assert in_order(new.table("problems").to_pylist()) == in_order(old.table("problems").to_pylist())


class Cut(Trail):
    """The same in splits that begin with the first record of a transaction."""

    def __init__(self, plan: Any, splits: int) -> None:
        events = pa.Table.from_batches(GOLDENGATE.read(plan, 0, EVERYTHING)).combine_chunks()
        places = [dict(headers or ()).get("TransInd") for headers in events["headers"].to_pylist()]
        starts = [
            row
            for row, (place, name) in enumerate(zip(places, events["transaction_id"].to_pylist(), strict=True))
            if place in ("0", "3") and name is not None
        ]
        edges = [0, *starts[1 :: max(1, len(starts) // splits)], events.num_rows]
        self.splits = [events.slice(first, stop - first) for first, stop in pairwise(edges)]

    def read(self, plan: Any, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        for batch in self.splits[split].to_batches(max_chunksize=50):
            yield from select(batch, wanted)


def test_tables_do_not_depend_on_the_number_of_splits(tmp_path: Path) -> None:
    options: dict[str, Any] = {"lobs": True, "undo": 0.4, "abends": 1, "updates": "pairs"}
    synth.generate("goldengate", changes=300, seed=9, to=tmp_path, overwrite=True, **options)
    plan = plan_of_one_split(list((tmp_path / "capture").iterdir()))
    form = Cut(plan, 5)
    of_many = copy.copy(plan)
    of_many.splits = [*form.splits]
    plans = ((form, of_many), (Trail(), plan))
    many, one = (LocalTables(ReadingPlan(*both, [], True, "PERMISSIVE", {})) for both in plans)
    assert len(form.splits) > 4
    for name in ("changes", "transactions"):
        assert many.table(name) == one.table(name)
    assert in_order(many.table("problems").to_pylist()) == in_order(one.table("problems").to_pylist())
