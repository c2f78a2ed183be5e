"""Reading a capture in this process, without Spark: what unit tests and benchmarks use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from cdcwb import model
from cdcwb.formats import named_format
from cdcwb.formats.containers.registry import without_login
from cdcwb.formats.dissector import EVERYTHING, Wanted
from cdcwb.formats.files import list_files


def plan_of(path: str | Path, format: str = "gbase8s", **options: Any) -> Any:
    """The plan of a capture, as a worker gets it: once to text and back."""
    paths, options = list_files(str(path)), without_login(options)
    form = named_format(paths, format, options)
    plan = form.plan(paths, options, lambda function, tasks: [function(task) for task in tasks])
    return form.plan_from_text(plan.to_text())


def read(path: str | Path, wanted: Wanted = EVERYTHING, format: str = "gbase8s", **options: Any) -> pa.Table:
    """All events of a capture in capture order."""
    form, plan = named_format(list_files(str(path)), format, options), plan_of(path, format, **options)
    batches = [batch for split in range(len(plan.splits)) for batch in form.read(plan, split, wanted)]
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


def allows(wanted: Wanted, row: dict[str, Any]) -> bool:
    """Whether this event (a row of ``events``) is requested."""
    names = {row["table_name"], f"{row['schema_name']}.{row['table_name']}"}
    return (
        not (wanted.drop_malformed and row["kind"] == model.Kind.MALFORMED)
        and not (wanted.timed and row["changed_at"] is None)
        and (wanted.kinds is None or row["kind"] in wanted.kinds)
        and (wanted.transactions is None or row["transaction_id"] in wanted.transactions)
        and (wanted.tables is None or not wanted.tables.isdisjoint(names))
    )
