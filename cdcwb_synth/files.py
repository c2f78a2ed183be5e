"""Files that grow record by record, and give the place of each; the same content gives the same bytes."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

ENDINGS: Final = {"none": "", "gzip": ".gz", "zstd": ".zst"}
"""What the name of a compressed file ends with."""


class ByteFile:
    """A file of bytes, compressed or not."""

    def __init__(self, path: Path, compression: str) -> None:
        self._stack = ExitStack()
        self._file: Any = self._stack.enter_context(path.open("wb"))
        if compression == "gzip":
            self._file = self._stack.enter_context(gzip.GzipFile("", "wb", 6, self._file, mtime=0))
        elif compression == "zstd":
            self._file = self._stack.enter_context(zstandard.ZstdCompressor().stream_writer(self._file))
        self.size = 0

    def put(self, record: bytes) -> tuple[int, int]:
        """Writes a record; returns its offset and length in bytes of the decompressed file."""
        self._file.write(record)
        self.size += len(record)
        return self.size - len(record), len(record)

    def close(self) -> None:
        """Completes the file. A second call does nothing."""
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


# --- Excel ------------------------------------------------------------------------------------------------------------

MOST_ROWS: Final = 1_048_576
"""Rows of a sheet."""

_PACKAGE: Final = "http://schemas.openxmlformats.org/package/2006"
_OFFICE: Final = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_MAIN: Final = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_KIND: Final = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_RELATED: Final = (
    f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="rId1" Type="{_OFFICE}/%s" Target="%s"/>'
    "</Relationships>"
)
_PARTS: Final = {
    "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels" '
    'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    f'<Override PartName="/xl/workbook.xml" ContentType="{_KIND}.sheet.main+xml"/>'
    f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{_KIND}.worksheet+xml"/></Types>',
    "_rels/.rels": _RELATED % ("officeDocument", "xl/workbook.xml"),
    "xl/_rels/workbook.xml.rels": _RELATED % ("worksheet", "worksheets/sheet1.xml"),
    "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets><sheet name=%s sheetId="1" r:id="rId1"/>'
    "</sheets></workbook>",
    "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{_MAIN}"><sheetData>',
}


class Sheet:
    """Writes rows into the only sheet of a new workbook."""

    def __init__(self, path: Path, title: str) -> None:
        self._zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        for name, content in _PARTS.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            self._file = self._zip.open(entry, "w", force_zip64="sheet1" in name)
            text = content % quoteattr(title) if "%s" in content else content
            self._file.write(f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n{text}'.encode())
            if "sheet1" not in name:
                self._file.close()
        self._count = 0

    def put(self, cells: Iterable[tuple[str | None, bool]]) -> tuple[int, int]:
        """Writes a row of at most 26 cells, each a text (None: an empty cell) and whether it is a number; returns the
        number of the row, from 0."""
        self._count += 1
        parts = [f'<row r="{self._count}">']
        for at, (text, is_number) in enumerate(cells):
            kind, shown = "", f"<v>{text}</v>"
            if not is_number and text is not None:
                kind, content = ' t="inlineStr"', escape(text, {"\r": "&#13;"})
                shown = f'<is><t xml:space="preserve">{content}</t></is>'
            parts.append("" if text is None else f'<c r="{chr(65 + at)}{self._count}"{kind}>{shown}</c>')
        self._file.write("".join([*parts, "</row>"]).encode())
        return self._count - 1, 1

    def close(self) -> None:
        """Complete the workbook."""
        self._file.write(b"</sheetData></worksheet>")
        self._file.close()
        self._zip.close()
