"""Tables of a capture as the command line gives them, without Spark."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq

from tests.limits import run

__all__ = ["rows"]


def rows(capture: Path, table: str, *options: str) -> list[dict[str, Any]]:
    """The rows of a table of a capture that ``cdcwb save`` wrote; maps are dictionaries."""
    with TemporaryDirectory() as scratch:
        saved = Path(scratch) / "saved"
        code, text = run(["save", str(capture), "--to", str(saved), *options])
        assert code == 0, text
        found = pq.read_table(saved / table, partitioning=None)
    maps = [field.name for field in found.schema if str(field.type).startswith("map")]
    return [row | {name: dict(row[name]) for name in maps if row[name] is not None} for row in found.to_pylist()]
