"""The files of one table and their ``.dfm`` (``docs/formats/qlik-change-table.md §1.2, §1.3``)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from cdcwb_synth.qlik.columns import Described
from cdcwb_synth.qlik.options import ChangeTableOptions
from cdcwb_synth.qlik.sheets import Sheet, Style
from cdcwb_synth.qlik.truth import Place

__all__ = ["HEADER_TYPES", "Folder", "Structure"]

HEADER_TYPES: Final = {
    "change_seq": ("STRING", 35), "change_oper": ("STRING", 1), "change_mask": ("BYTES", 128),
    "stream_position": ("STRING", 128), "operation": ("STRING", 12), "transaction_id": ("STRING", 32),
    "timestamp": ("DATETIME", 0), "partition_name": ("STRING", 31),
}  # fmt: skip
"""Header columns: type and length (§2.1)."""

_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Structure:
    """What a file's columns are: those of version ``number`` of a table, behind ``headers`` (their names without the
    prefix). ``target`` is the name of the table that the file belongs to."""

    schema: str
    table: str
    target: str
    number: int
    headers: tuple[str, ...]
    columns: tuple[Described, ...]


class Folder:
    """A folder ``name`` below ``root`` with the files of one table. ``new_file`` gives a file of some name its number.
    ``is_load``: a full load, whose files are counted; others are named by the time of their first row. ``described``
    gets what describes the columns of a file: the place of its header line, or the text of its ``.dfm``."""

    def __init__(
        self,
        root: Path,
        name: str,
        style: Style,
        options: ChangeTableOptions,
        new_file: Callable[[str], int],
        *,
        is_load: bool = False,
        described: Callable[[Structure, Place, str], None] | None = None,
    ) -> None:
        self._root, self._name, self._style, self._options = root, name, style, options
        self._new_file, self._is_load, self._told = new_file, is_load, described
        self._count = 0
        self._last: datetime | None = None
        self._sheet: Sheet | None = None
        self._structure: Structure | None = None
        self._part = self._stem = ""
        self._number = -1
        self._times: list[datetime] = []

    def add(self, structure: Structure, fields: Sequence[Any], at: datetime, part: str = "") -> Place:
        """Writes a row that is committed ``at`` some time into the folder ``part`` below this one; returns its place. A
        new file is begun where the columns or the part are others than before, or the last one is full."""
        sheet = self._sheet
        if (
            sheet is None
            or structure is not self._structure
            or part != self._part
            or sheet.rows >= self._options.file_rows
        ):
            self.close()
            sheet = self._begin(structure, at, part)
        self._times[1:] = [at]
        return Place(self._number, *sheet.add(fields))

    def _begin(self, structure: Structure, at: datetime, part: str) -> Sheet:
        self._count += 1
        if self._is_load:
            stem = f"LOAD{self._count:08d}"
        else:
            if self._last is not None and at < self._last + _MILLISECOND:
                at = self._last + _MILLISECOND
            self._last = at.replace(microsecond=at.microsecond // 1000 * 1000)
            stem = f"{at:%Y%m%d-%H%M%S}{at.microsecond // 1000:03d}"
        self._structure, self._part, self._stem, self._times = structure, part, stem, [at]
        place = f"{self._name}/{part}/" if part else f"{self._name}/"
        (self._root / place).mkdir(parents=True, exist_ok=True)
        name = f"{place}{stem}.{self._style.ending}"
        self._number = self._new_file(name)
        headers = [self._options.header_prefix + header for header in structure.headers]
        sheet = self._sheet = self._style.sheet(self._root / name, headers, structure.columns)
        if self._told is not None and not self._options.dfm and sheet.heading:
            self._told(structure, Place(self._number, 0, sheet.heading), "")
        return sheet

    def close(self) -> None:
        """Complete the file that is open, and write its ``.dfm``."""
        if self._sheet is None or self._structure is None:
            return
        self._sheet.close()
        if self._options.dfm:
            place = f"{self._name}/{self._part}/" if self._part else f"{self._name}/"
            text = json.dumps(self._described(self._structure, self._sheet.rows, place), ensure_ascii=False, indent=4)
            (self._root / place / f"{self._stem}.dfm").write_text(text + "\n", encoding="utf-8")
            if self._told is not None:
                self._told(self._structure, Place(self._number, 0, 0), text + "\n")
        self._sheet = None

    def _described(self, structure: Structure, rows: int, place: str) -> dict[str, Any]:
        base, _, packed = self._style.ending.partition(".")
        first, last = (time.isoformat(timespec="milliseconds")[:23] for time in (self._times[0], self._times[-1]))
        columns = [
            {"name": self._options.header_prefix + name, "type": kind, "length": length, "precision": 0, "scale": 0}
            | {"primaryKeyPos": 0}
            for name, (kind, length) in ((name, HEADER_TYPES[name]) for name in structure.headers)
        ]
        columns += [
            {"name": c.name, "type": c.type, "length": c.length, "precision": c.precision, "scale": c.scale}
            | {"primaryKeyPos": c.key}
            for c in structure.columns
        ]
        return {
            "dfmVersion": "1.1",
            "taskInfo": {
                "name": self._options.task,
                "sourceEndpoint": "shop-db",
                "sourceEndpointType": "Informix",
                "sourceEndpointUser": "replicate",
                "replicationServer": self._options.server,
                "operation": "fullLoad" if self._is_load else "storeChanges",
            },
            "fileInfo": {
                "name": f"{self._stem}.{base}",
                "extension": packed,
                "location": place.rstrip("/"),
                "startWriteTimestamp": first,
                "endWriteTimestamp": last,
                "firstTransactionTimestamp": None if self._is_load else first,
                "lastTransactionTimestamp": None if self._is_load else last,
                "content": "data",
                "recordCount": rows,
                "errorCount": 0,
            },
            "formatInfo": self._format(base),
            "dataInfo": {
                "sourceSchema": structure.schema,
                "sourceTable": structure.table,
                "targetSchema": structure.schema,
                "targetTable": structure.target,
                "tableVersion": structure.number,
                "columns": [{"ordinal": ordinal, **column} for ordinal, column in enumerate(columns, 1)],
            },
        }

    def _format(self, base: str) -> dict[str, Any]:
        if base != "csv":
            return {"format": base, "options": {}}
        options = {
            "fieldDelimiter": self._options.delimiter,
            "recordDelimiter": "\n",
            "nullValue": self._options.null_value,
            "quoteChar": '"',
            "escapeChar": self._options.escape,
        }
        return {"format": "delimited", "options": options}
