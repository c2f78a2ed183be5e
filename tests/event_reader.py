"""Events that a test made, read as a format reads those of a split."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from cdcwb import model
from cdcwb.formats.dissector import Wanted
from cdcwb.formats.requests import select

__all__ = ["reader"]

Row = dict[str, Any]


def reader(rows: list[Row], size: int) -> Callable[[Wanted], Iterator[pa.RecordBatch]]:
    """Reads events in batches of ``size``."""

    def read(wanted: Wanted) -> Iterator[pa.RecordBatch]:
        for first in range(0, len(rows), size):
            some = rows[first : first + size]
            if not wanted.images:
                some = [{**row, "before": None, "after": None} for row in some]
            yield from select(pa.RecordBatch.from_pylist(some, model.EVENTS), wanted)

    return read
