"""Parquet files: their row groups, and the parts in which these are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cdcwb.errors import CaptureError


def first_line(error: Exception) -> str:
    """The first line of an error of Arrow's."""
    return f"{(str(error).splitlines() or [type(error).__name__])[0]:.200}"


def open_parquet(content: Any, path: str | None = None) -> pq.ParquetFile:
    """A Parquet file. Raises CaptureError for a damaged one."""
    try:
        return pq.ParquetFile(content)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CaptureError(f"the Parquet file cannot be read: {first_line(error)}", path=path) from error


def row_groups(file: pq.ParquetFile) -> list[tuple[int, int]]:
    """Rows and packed bytes of each row group."""
    groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
    return [
        (group.num_rows, sum(group.column(at).total_compressed_size for at in range(group.num_columns)))
        for group in groups
    ]


def group_starts(groups: Sequence[tuple[int, int]], size: int) -> list[int]:
    """The row groups with which parts of about ``size`` packed bytes begin."""
    starts: list[int] = []
    room = 0
    for at, (_, packed) in enumerate(groups):
        if room <= 0:
            starts.append(at)
            room = size
        room -= packed
    return starts
