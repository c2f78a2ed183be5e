"""Changes, parts of transactions and problems of a trail are the same, wherever the borders of splits lie."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache, partial
from itertools import chain, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cdcwb_synth as synth
from cdcwb import model
from cdcwb.formats import get_format
from cdcwb.formats.changes import finished
from cdcwb.formats.dissector import EVERYTHING, Wanted
from cdcwb.formats.old.assembler import Assembler
from cdcwb.formats.old.findings import PROBLEMS, across, find
from cdcwb.formats.old.halves import WHOLE
from cdcwb.formats.old.protocols import Trailing
from cdcwb.formats.old.sections import patches
from cdcwb.formats.old.summaries import PARTS, incomplete, read_parts, summarised
from cdcwb.formats.old.trail import read_apart, read_trail, read_trail_sections
from cdcwb.formats.requests import problem_rows, select
from cdcwb.model import Outcome
from cdcwb.planned import Planned
from cdcwb.small import Small
from tests.event_reader import reader
from tests.local import plan_of, read

HEADERS = Wanted(images=False)
OPTIONS: dict[str, Any] = {"lobs": True, "undo": 0.4, "abends": 1, "trail_files": 2, "capture_files": "trail"}

Tables = dict[str, list[dict[str, Any]]]


@cache
def capture(folder: Path, updates: str) -> Path:
    synth.generate("goldengate", changes=30, seed=9, to=folder / updates, updates=updates, **OPTIONS)
    return folder / updates / "capture"


@pytest.fixture(scope="module", params=["pairs", "fieldcomp"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return capture(tmp_path_factory.mktemp("trail"), request.param)


def rows(*batches: pa.RecordBatch) -> list[dict[str, Any]]:
    found = [row for batch in batches for row in batch.to_pylist()]
    names = ("file_index", "offset", "transaction_id", "code")
    return sorted(found, key=lambda row: repr([row.get(name) for name in names]))


def tables(path: Path, split_size: int) -> Tables:
    """What readers make of each split, with what is made of the transactions that cross splits."""
    form, plan = get_format("goldengate"), plan_of(path, "goldengate", split_size=split_size)
    shared = cast(Trailing, form).shared(plan)
    assert cast(Trailing, form).in_splits(plan)
    reads = [partial(form.read, plan, split) for split in range(len(plan.splits))]
    found = (read_trail_sections(read, EVERYTHING, at, shared[at]) for at, read in enumerate(reads))
    known = patches(chain.from_iterable(found))
    every = [(read, known.patch(at, partial(form.read, plan))) for at, read in enumerate(reads)]
    crossing = Assembler(form, {}, [(partial(read_apart, read, patch=patch), WHOLE) for read, patch in every])
    changes = [batch for read, patch in every for batch in read_trail(read, EVERYTHING, patch)]
    changes = [finished(batch, {}, form.compressed_updates) for batch in changes]
    across = list(crossing.changes())
    parts = [batch for read, patch in every for batch in read_parts(read, HEADERS, trail=True, patch=patch)]
    counts = crossing.parts()
    for name in set(PARTS.names) - {"transaction_id", "changes", "tables"}:
        nulls = pa.nulls(len(counts), PARTS.field(name).type)
        counts = counts.set_column(PARTS.get_field_index(name), PARTS.field(name), nulls)
    problems = [*Small(Planned(form, plan, [], True, "PERMISSIVE", {})).problems()]
    together = pa.concat_tables([pa.Table.from_batches(parts, PARTS), counts]).combine_chunks()
    return {
        "changes": rows(*changes, *across),
        "transactions": rows(summarised(together).select(model.TRANSACTIONS.names)),
        "problems": rows(*problems),
    }


def test_a_trail_is_the_same_wherever_it_is_cut(path: Path) -> None:
    expected = tables(path, 1 << 25)
    outcomes = {row["outcome"] for row in expected["changes"]}
    assert outcomes >= {str(one) for one in (Outcome.COMMITTED, Outcome.UNDO, Outcome.UNDONE)}
    assert max(len(row["source_events"]) for row in expected["changes"]) > 2
    events = read(path, HEADERS, "goldengate")
    starts = [row["offset"] for row in events.select(["offset"]).to_pylist() if row["offset"] > 64]
    for size in [64, *starts[::4], *(start + 100 for start in starts[2::4])]:
        found = tables(path, size)
        assert {name: found[name] == expected[name] for name in found} == dict.fromkeys(found, True), size


_RECORD = st.tuples(
    st.integers(0, 3),
    st.sampled_from(["change", "before", "after", "before", "after", "fragment", "malformed"]),
    st.sampled_from(["orders", "goods"]),
    st.sampled_from(["0", "1", "2", "3", None]),
    st.booleans(),
)


def records_of(drawn: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    found = []
    for number, (transaction, kind, table, place, undoes) in enumerate(sorted(drawn, key=itemgetter(0))):
        row: dict[str, Any] = dict.fromkeys(model.EVENTS.names)
        headers = {"TransInd": place, "UndoFlag": "1" if undoes else None}
        headers["continues"] = f"{10 * (number - 1)}" if kind == "fragment" else None
        row |= {"format": "goldengate", "file": "a.txt", "file_index": 0, "offset": 10 * number, "length": 10}
        row |= {"kind": kind, "position": f"{10 * number}", "transaction_id": f"1.{transaction}", "table_name": table}
        row |= {"operation": "UPDATE", "last_in_transaction": place in ("2", "3") if place else None}
        row["headers"] = [(name, text) for name, text in headers.items() if text is not None]
        row["problems"] = [{"code": "value", "detail": f"of {number}"}] if number % 5 == 0 else None
        found.append(row)
    return found


@given(st.lists(_RECORD, max_size=30), st.lists(st.integers(0, 30), max_size=5), st.integers(1, 31))
def test_problems_do_not_depend_on_where_a_trail_is_cut(
    drawn: list[tuple[Any, ...]], cuts: list[int], size: int
) -> None:
    records, form = records_of(drawn), get_format("goldengate")
    edges = [0, *sorted(min(cut, len(records)) for cut in cuts), len(records)]
    parts = [records[one:two] for one, two in pairwise(edges)]
    times = Counter(name for part in parts for name in {row["transaction_id"] for row in part})
    shared = frozenset(name for name, splits in times.items() if splits > 1)
    reads = [reader(part, size) for part in parts]
    known = patches(chain.from_iterable(read_trail_sections(r, EVERYTHING, at, shared) for at, r in enumerate(reads)))
    found: dict[str, list[pa.RecordBatch]] = defaultdict(list)
    for at, split in enumerate(reads):
        patch = known.patch(at, lambda split, wanted: reads[split](wanted))
        for name, batch in find(form, None, at, split, EVERYTHING, patch):
            found[name].append(batch)
    whole = reader(records, size)
    source = Assembler(form, {}, [(whole, WHOLE)])
    expected = [
        *map(problem_rows, whole(EVERYTHING)),
        *source.problems(),
        pa.RecordBatch.from_pylist(incomplete(summarised(source.parts())), model.PROBLEMS),
    ]
    several = {"parts": pa.Table.from_batches(found["parts"])} if found["parts"] else {}
    together = across(form, several, lambda wanted: (rows for part in found["apart"] for rows in select(part, wanted)))
    assert rows(*found[PROBLEMS], *together) == rows(*expected)
