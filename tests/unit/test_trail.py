"""Changes, parts of transactions and problems of a trail are the same, wherever the borders of splits lie."""

from __future__ import annotations

from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

import cdcwb_synth as synth
from cdcwb import model
from cdcwb.formats import get_format
from cdcwb.formats.assembler import Assembler
from cdcwb.formats.assembly import finished
from cdcwb.formats.base import EVERYTHING, Trailing, Wanted
from cdcwb.formats.halves import WHOLE
from cdcwb.formats.sections import patches
from cdcwb.formats.summaries import PARTS, read_parts, summarised
from cdcwb.formats.trail import read_apart, read_trail, read_trail_checked, read_trail_sections
from cdcwb.model import Outcome
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
    return sorted(found, key=lambda row: repr([row.get(name) for name in ("file_index", "offset", "transaction_id")]))


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
    problems = [batch for read, patch in every for batch in read_trail_checked(read, EVERYTHING, patch)]
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
