"""Files that grow record by record, and give the place of each; the same content gives the same bytes."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

__all__ = ["ENDINGS", "ByteFile", "TableFile"]

ENDINGS: Final = {"none": "", "gzip": ".gz", "zstd": ".zst"}
"""What the name of a compressed file ends with."""

_BUFFERED: Final = 1 << 18


class ByteFile:
    """A file of bytes, compressed or not."""

    def __init__(self, path: Path, compression: str) -> None:
        self._stack = ExitStack()
        file: Any = self._stack.enter_context(path.open("wb"))
        if compression == "gzip":
            file = self._stack.enter_context(gzip.GzipFile("", "wb", 6, file, mtime=0))
        elif compression == "zstd":
            file = self._stack.enter_context(zstandard.ZstdCompressor().stream_writer(file))
        self._file = file
        self._parts: list[bytes] = []
        self._pending = 0
        self.size = 0

    def put(self, part: bytes) -> tuple[int, int]:
        """Writes a record; returns its offset and length in bytes of the decompressed file."""
        self._parts.append(part)
        self._pending += len(part)
        self.size += len(part)
        if self._pending > _BUFFERED:
            self._flush()
        return self.size - len(part), len(part)

    def _flush(self) -> None:
        self._file.write(b"".join(self._parts))
        self._parts.clear()
        self._pending = 0

    def close(self) -> None:
        """Completes the file. A second call does nothing."""
        if self._parts:
            self._flush()
        self._stack.close()

    def __del__(self) -> None:
        self._stack.close()


class TableFile:
    """A Parquet file; at most ``kept`` rows are held before they are written."""

    def __init__(self, path: Path, compression: str, schema: pa.Schema, kept: int = 10_000) -> None:
        self._writer = pq.ParquetWriter(path, schema, compression=compression)
        self._schema, self._kept = schema, kept
        self._rows: list[Sequence[Any]] = []
        self.size = 0

    def put(self, row: Sequence[Any]) -> tuple[int, int]:
        """Writes a row; returns its number and 1."""
        self._rows.append(row)
        self.size += 1
        if len(self._rows) >= self._kept:
            self._flush()
        return self.size - 1, 1

    def _flush(self) -> None:
        if self._rows:
            columns = zip(*self._rows, strict=True)
            arrays = [pa.array(values, one.type) for values, one in zip(columns, self._schema, strict=True)]
            self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self._rows = []

    def close(self) -> None:
        """Completes the file."""
        self._flush()
        self._writer.close()
