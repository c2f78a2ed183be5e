"""Reading a capture in this process, without Spark: what unit tests and benchmarks use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from cdcwb import model
from cdcwb.formats.base import EVERYTHING, Wanted
from cdcwb.formats.files import list_files
from cdcwb.formats.gbase8s.plan import Plan
from cdcwb.formats.gbase8s.planning import Options, make_plan
from cdcwb.formats.gbase8s.reader import read_events


def plan_of(path: str | Path, **options: Any) -> Plan:
    """The plan of a gbase8s capture, as a worker gets it: once to text and back."""
    return Plan.from_text(make_plan(list_files(str(path)), Options.parse(options)).to_text())


def read(path: str | Path, wanted: Wanted = EVERYTHING, **options: Any) -> pa.Table:
    """All events of a gbase8s capture in capture order."""
    plan = plan_of(path, **options)
    batches = [batch for split in plan.splits for batch in read_events(plan, split, wanted)]
    return pa.Table.from_batches(batches, schema=model.EVENTS)


def ledger(table: pa.Table) -> dict[str, int]:
    """Bytes of each file that are in events; raises AssertionError where events leave a hole or overlap."""
    ends: dict[str, int] = {}
    for file, offset, length in zip(
        *(table.column(name).to_pylist() for name in ("file", "offset", "length")), strict=True
    ):
        assert offset == ends.get(file, 0), f"{file}: {offset} follows {ends.get(file, 0)}"
        assert length >= 0
        ends[file] = offset + length
    return ends
