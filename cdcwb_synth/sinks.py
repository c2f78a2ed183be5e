"""Files that grow piece by piece, and tell the place of each piece."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from cdcwb_synth.compressed import opened

__all__ = ["ByteFile", "TableFile"]

_BUFFERED: Final = 1 << 18


class ByteFile:
    """A file of bytes, compressed or not; about ``buffered`` of them are held before they are written."""

    def __init__(self, path: Path, compression: str, buffered: int = _BUFFERED) -> None:
        self._buffered = buffered
        self._stack = ExitStack()
        self._put = self._stack.enter_context(opened(path, compression))
        self._parts: list[bytes] = []
        self._pending = self._at = 0

    def put(self, part: bytes) -> tuple[int, int]:
        """Writes a piece; returns its offset and length in bytes of the decompressed file."""
        self._parts.append(part)
        self._pending += len(part)
        self._at += len(part)
        if self._pending > self._buffered:
            self._flush()
        return self._at - len(part), len(part)

    def _flush(self) -> None:
        self._put(b"".join(self._parts))
        self._parts.clear()
        self._pending = 0

    def close(self) -> None:
        """Complete the file."""
        self._flush()
        self._stack.close()


class TableFile:
    """A Parquet file; at most ``kept`` rows are held before they are written."""

    def __init__(self, path: Path, compression: str, schema: pa.Schema, kept: int) -> None:
        self._writer = pq.ParquetWriter(path, schema, compression=compression)
        self._schema = schema
        self._kept = kept
        self._rows: list[Sequence[Any]] = []
        self._count = 0

    def add(self, row: Sequence[Any]) -> tuple[int, int]:
        """Writes a row; returns its number and 1."""
        self._rows.append(row)
        self._count += 1
        if len(self._rows) >= self._kept:
            self._flush()
        return self._count - 1, 1

    def _flush(self) -> None:
        if self._rows:
            columns = zip(*self._rows, strict=True)
            arrays = [pa.array(values, one.type) for values, one in zip(columns, self._schema, strict=True)]
            self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self._rows.clear()

    def close(self) -> None:
        """Complete the file."""
        self._flush()
        self._writer.close()
