"""Captures for the explorer, saved as ``Capture.save`` does, but by the formats alone: nothing here starts Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import cdcwb
from cdcwb.explore.model import Explorer

__all__ = ["DATA", "explorer_of", "saved"]

DATA = Path(__file__).parents[1] / "data"


def saved(path: Path, to: Path, parts: int = 1, **options: Any) -> Path:
    """The capture at ``path`` as a folder that ``cdcwb.load`` would open; its events stand in ``parts`` files."""
    cdcwb.load(path, **options).save(to)
    (file,) = (to / "events").glob("*.parquet")
    events = pq.read_table(file)
    size = -(-len(events) // parts)
    for number in range(parts):
        # the last part comes first: Spark does not say in which order it reads files
        piece = events.slice((parts - 1 - number) * size, size)
        pq.write_table(piece, to / "events" / f"part-{number}.parquet", row_group_size=200)
    return to


def explorer_of(name: str, to: Path, **options: Any) -> Explorer:
    """The explorer of a saved copy of a capture in ``data/``."""
    return Explorer.open(saved(DATA / name, to / "saved", **options))
