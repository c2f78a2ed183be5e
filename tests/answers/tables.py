"""Tables of a capture as the command line gives them, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq

from cdcwb.model import TABLES
from tests.limits import run

__all__ = ["rows", "tables"]

Rows = list[dict[str, Any]]


def rows(capture: Path, table: str, *options: str) -> Rows:
    """The rows of a table of a capture that ``cdcwb save`` wrote; maps are dictionaries."""
    return tables(capture, *options)[table]


def tables(capture: Path, *options: str) -> dict[str, Rows]:
    """The rows of every table, by its name."""
    with TemporaryDirectory() as scratch:
        saved = Path(scratch) / "saved"
        code, text = run(["save", str(capture), "--to", str(saved), *options])
        assert code == 0, text
        return {name: _rows(saved / name, schema.names) for name, schema in TABLES.items()}


def _rows(path: Path, names: Sequence[str]) -> Rows:
    found = pq.read_table(path, partitioning=None).select(names)
    maps = [field.name for field in found.schema if str(field.type).startswith("map")]
    return [row | {name: dict(row[name]) for name in maps if row[name] is not None} for row in found.to_pylist()]
