"""Excel workbooks with one sheet, written so that the same content gives the same bytes."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape, quoteattr

__all__ = ["MOST_ROWS", "Sheet"]

MOST_ROWS: Final = 1_048_576
"""Rows of a sheet."""

_HEAD: Final = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_PACKAGE: Final = "http://schemas.openxmlformats.org/package/2006"
_OFFICE: Final = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_MAIN: Final = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_KIND: Final = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_PARTS: Final = {
    "[Content_Types].xml": (
        f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{_KIND}.sheet.main+xml"/>'
        f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{_KIND}.worksheet+xml"/></Types>'
    ),
    "_rels/.rels": (
        f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="rId1" '
        f'Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>'
    ),
    "xl/_rels/workbook.xml.rels": (
        f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="rId1" '
        f'Type="{_OFFICE}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>'
    ),
}
_BREAKS: Final = {"\r": "&#13;"}


class Sheet:
    """Writes rows into the only sheet of a new workbook."""

    def __init__(self, path: Path, title: str) -> None:
        self._zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        for name, content in _PARTS.items():
            self._zip.writestr(_entry(name), _HEAD + content)
        sheets = f'<sheets><sheet name={quoteattr(title)} sheetId="1" r:id="rId1"/></sheets>'
        workbook = f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}">{sheets}</workbook>'
        self._zip.writestr(_entry("xl/workbook.xml"), _HEAD + workbook)
        self._file = self._zip.open(_entry("xl/worksheets/sheet1.xml"), "w", force_zip64=True)
        self._file.write(f'{_HEAD}<worksheet xmlns="{_MAIN}"><sheetData>'.encode())
        self._count = 0

    def put(self, cells: Sequence[tuple[str | None, bool]]) -> tuple[int, int]:
        """Writes a row of at most 26 cells, each a text (None: an empty cell) and whether it is a number; returns the
        number of the row, from 0."""
        self._count += 1
        parts = [f'<row r="{self._count}">']
        for at, (text, is_number) in enumerate(cells):
            place = f"{chr(65 + at)}{self._count}"
            if text is None:
                continue
            if is_number:
                parts.append(f'<c r="{place}"><v>{text}</v></c>')
            else:
                shown = escape(text, _BREAKS)
                parts.append(f'<c r="{place}" t="inlineStr"><is><t xml:space="preserve">{shown}</t></is></c>')
        parts.append("</row>")
        self._file.write("".join(parts).encode())
        return self._count - 1, 1

    def close(self) -> None:
        """Complete the workbook."""
        self._file.write(b"</sheetData></worksheet>")
        self._file.close()
        self._zip.close()


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry
