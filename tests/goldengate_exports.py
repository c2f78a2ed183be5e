"""Exports of trail records, read file by file without a plan."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from cdcwb import model
from cdcwb.formats.dissector import EVERYTHING, Wanted
from cdcwb.formats.goldengate_export import exports

__all__ = ["rows", "table_of"]


def table_of(
    path: str,
    wanted: Wanted = EVERYTHING,
    split_size: int = 1 << 20,
    told: exports.ToUtc | None = None,
    **options: Any,
) -> pa.Table:
    file = exports.probe(path, options)
    batches = []
    for start, stop in exports.parts(file, split_size):
        batches += exports.read(file, 3, start, stop, told, wanted)
    return pa.Table.from_batches(batches, schema=model.EVENTS)


def rows(path: str, **more: Any) -> list[dict[str, Any]]:
    found = table_of(path, **more).to_pylist()
    for row in found:
        for name in ("key", "before", "after", "headers"):
            row[name] = None if row[name] is None else dict(row[name])
    return found
