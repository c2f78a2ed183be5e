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

__all__ = ["ENDINGS", "ByteFile", "RowFile", "TableFile"]

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
        self._buffer = bytearray()
        self.size = 0

    def put(self, record: bytes) -> tuple[int, int]:
        """Writes a record; returns its offset and length in bytes of the decompressed file."""
        self._buffer += record
        self.size += len(record)
        if len(self._buffer) > _BUFFERED:
            self._flush()
        return self.size - len(record), len(record)

    def _flush(self) -> None:
        self._file.write(self._buffer)
        self._buffer = bytearray()

    def close(self) -> None:
        """Completes the file. A second call does nothing."""
        if self._buffer:
            self._flush()
        self._stack.close()

    def __del__(self) -> None:
        self._stack.close()


class RowFile:
    """A file of rows, written in blocks of at most ``block`` rows."""

    def __init__(self, block: int) -> None:
        self._block = block
        self._rows: list[Any] = []
        self.size = 0

    def put(self, row: Any) -> tuple[int, int]:
        """Writes a row; returns its number and 1."""
        self._rows.append(row)
        self.size += 1
        if len(self._rows) >= self._block:
            self.close_block()
        return self.size - 1, 1

    def close_block(self) -> None:
        """Writes the rows that wait."""
        if self._rows:
            self.write(self._rows)
        self._rows = []

    def write(self, rows: Sequence[Any]) -> None:
        """Writes a block."""
        raise NotImplementedError


class TableFile(RowFile):
    """A Parquet file."""

    def __init__(self, path: Path, compression: str, schema: pa.Schema, block: int = 10_000) -> None:
        super().__init__(block)
        self._writer = pq.ParquetWriter(path, schema, compression=compression)
        self._schema = schema

    def write(self, rows: Sequence[Sequence[Any]]) -> None:
        """Writes a block."""
        columns = zip(*rows, strict=True)
        arrays = [pa.array(values, one.type) for values, one in zip(columns, self._schema, strict=True)]
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def close(self) -> None:
        """Completes the file."""
        self.close_block()
        self._writer.close()
