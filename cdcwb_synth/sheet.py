"""Excel workbooks with one sheet, written so that the same content gives the same bytes."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape, quoteattr

__all__ = ["MOST_ROWS", "Sheet"]

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
