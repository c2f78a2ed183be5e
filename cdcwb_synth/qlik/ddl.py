"""The control table ``attrep_ddl_history`` (``docs/formats/qlik-change-table.md §6.1``)."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from cdcwb_synth.qlik.columns import Described, Layout
from cdcwb_synth.qlik.folders import Folder, Structure
from cdcwb_synth.qlik.metadata import column_rows
from cdcwb_synth.qlik.options import ChangeTableOptions
from cdcwb_synth.qlik.sheets import CsvStyle
from cdcwb_synth.qlik.truth import Place
from cdcwb_synth.values import Column, Type

__all__ = ["DdlHistory"]

_NAME: Final = "attrep_ddl_history"
_COLUMNS: Final = (
    ("SERVER_NAME", "STRING", 128), ("TASK_NAME", "STRING", 128), ("TABLE_OWNER", "STRING", 128),
    ("TABLE_NAME", "STRING", 128), ("CHANGE_SEQ", "STRING", 35), ("TIMESTAMP", "DATETIME", 0),
    ("TABLE_VERSION", "INT4", 10), ("DDL_TYPE", "STRING", 15), ("DETAILS", "CLOB", 0),
)  # fmt: skip


class DdlHistory:
    """A row for every table that is made, changed or truncated, always as delimited text."""

    def __init__(self, options: ChangeTableOptions, root: Path, new_file: Callable[[str], int]) -> None:
        self._options = options
        style = CsvStyle(options)
        self._folder = Folder(root, _NAME, style, options, new_file)
        columns = tuple(Described(n, kind, length, 0, 0, 0, True, -1, _SOURCE) for n, kind, length in _COLUMNS)
        self._structure = Structure("", _NAME, _NAME, 1, (), columns)
        self._style = style
        self.rows = 0

    def write(
        self, layout: Layout, old: Layout | None, kind: str, sequence: str, at: datetime, time: int
    ) -> tuple[Place, list[dict[str, Any]], str]:
        """A row about a table that has now the columns of ``layout`` (``old``: those it had before). Returns its place,
        those columns as the truth has them, and the details as text."""
        details = {
            "owner": layout.table.schema,
            "table": layout.table.name,
            "tableNewName": None,
            "version": layout.version.number,
            "columns": _columns(layout, old) if kind != "TRUNCATE_TABLE" else {},
        }
        texts = (
            self._options.server, self._options.task, layout.table.schema, layout.table.name, sequence,
            self._style.moment("", time)[1], str(layout.version.number), kind,
            json.dumps(details, ensure_ascii=False, separators=(",", ":")),
        )  # fmt: skip
        place = self._folder.add(self._structure, [self._style.text("", text) for text in texts], at)
        self.rows += 1
        return place, column_rows(layout), texts[-1]

    def close(self) -> None:
        """Complete the file."""
        self._folder.close()


_SOURCE: Final = Column("", Type.LVARCHAR)


def _columns(layout: Layout, old: Layout | None) -> dict[str, Any]:
    """The columns that changed, by their old names; in a new table all of them."""
    told: dict[str, Any] = {}
    before = {} if old is None else {column.place: (i, column) for i, column in enumerate(old.columns, 1)}
    kept = set()
    for ordinal, column in enumerate(layout.columns, 1):
        origin = layout.version.origin[column.place] if old is not None else None
        if origin is None or origin not in before:
            told[column.name] = _column(column, ordinal, "ADD", None)
            continue
        kept.add(origin)
        place, was = before[origin]
        is_same = (was.type, was.length, was.precision, was.scale) == (
            column.type, column.length, column.precision, column.scale,
        )  # fmt: skip
        if not is_same or was.name != column.name or place != ordinal:
            new_name = column.name if was.name != column.name else None
            told[was.name] = _column(column, ordinal, "ALTER", new_name)
    for origin, (place, was) in before.items():
        if origin not in kept:
            told[was.name] = _column(was, place, "DROP", None)
    return told


def _column(column: Described, ordinal: int, action: str, new_name: str | None) -> dict[str, Any]:
    return {
        "columnNewName": new_name, "action": action, "type": column.type, "length": column.length,
        "precision": column.precision, "scale": column.scale, "primaryKeyPosition": column.key,
        "nullable": column.nullable, "ordinal": ordinal,
    }  # fmt: skip
