"""What the rows of one table version have in common in a change table: columns, bits, and what the truth calls it."""

from __future__ import annotations

import base64
from operator import getitem
from typing import Any

from cdcwb_synth.catalogue import TableVersion
from cdcwb_synth.events import Row
from cdcwb_synth.qlik.columns import Layout
from cdcwb_synth.qlik.folders import Structure
from cdcwb_synth.qlik.metadata import column_rows
from cdcwb_synth.qlik.options import ChangeTableOptions
from cdcwb_synth.qlik.sheets import Style
from cdcwb_synth.qlik.tables import Rendered
from cdcwb_synth.qlik.truth import VersionTruth
from cdcwb_synth.qlik.truth_files import Truth

__all__ = ["Sheets", "StoredTable", "mask_bytes", "spelled_mask"]


def mask_bytes(mask: int) -> bytes:
    """A mask as the bytes of ``docs/formats/qlik-change-table.md §4.2``: byte 0 has bits 0 to 7, zeros at the end are
    left out."""
    return mask.to_bytes((mask.bit_length() + 7) // 8, "little")


def spelled_mask(mask: int, form: str) -> tuple[str | bytes, str]:
    """A mask as it is written in one of the forms (§4.3), and its text: for bytes their upper-case digits."""
    data = mask_bytes(mask)
    match form:
        case "binary":
            return data, data.hex().upper()
        case "number":
            text = data[::-1].hex().upper()
        case "0x":
            text = "0x" + data.hex().upper()
        case "\\x":
            text = "\\x" + data.hex()
        case "base64":
            text = base64.b64encode(data).decode()
        case _:
            text = data.hex().upper()
    return text, text


class StoredTable:
    """One version of a table. ``stored`` and ``loaded`` are the columns of its change table and of the table itself,
    ``number`` is the truth's, ``first_bit`` the bit of the first data column."""

    def __init__(self, layout: Layout, number: int, style: Style, options: ChangeTableOptions) -> None:
        self.layout, self.number = layout, number
        table, columns = layout.table, tuple(layout.columns)
        names = (table.schema, table.name)
        self.loaded = Structure(*names, table.name, layout.version.number, (), columns)
        self.stored = Structure(
            *names, table.name + options.suffix, layout.version.number, options.header_names, columns
        )
        self.first_bit = len(options.header_names)
        self.key_names = (layout.names[layout.key_place],)
        self._form = options.mask_form
        self._cells = [style.cells(column) for column in columns]
        places = [column.place for column in columns]
        self._places = None if places == list(range(len(layout.version.columns))) else places
        self.nothing = tuple([cells[None][0] for cells in self._cells])
        self._masks: dict[int, tuple[str | bytes, str]] = {}
        self._names: dict[int, tuple[str, ...]] = {}

    def render(self, row: Row) -> Rendered:
        """A row of the workload as written in a file, and as text, column by column."""
        if self._places is not None:
            row = tuple([row[place] for place in self._places])
        wires, texts = zip(*map(getitem, self._cells, row), strict=True)
        return wires, texts

    def mask(self, columns: int) -> tuple[str | bytes, str]:
        """The mask of some columns (bit 0 is the first data column) as it is written, and its text."""
        found = self._masks.get(columns)
        if found is None:
            if len(self._masks) > 10_000:
                self._masks.clear()
            found = self._masks[columns] = spelled_mask(columns << self.first_bit, self._form)
        return found

    def names(self, columns: int) -> tuple[str, ...]:
        """The names of some columns."""
        found = self._names.get(columns)
        if found is None:
            if len(self._names) > 10_000:
                self._names.clear()
            found = self._names[columns] = tuple(self.layout.marked(columns))
        return found


class Sheets:
    """Makes a :class:`StoredTable` of every version, and tells the truth of it."""

    def __init__(self, options: ChangeTableOptions, style: Style, truth: Truth) -> None:
        self._options, self._style, self._truth = options, style, truth
        self._known: dict[tuple[Any, ...], int] = {}

    def make(self, version: TableVersion) -> StoredTable:
        """The table version. Without a ``.dfm`` the names of the columns are all that is known of it."""
        layout = Layout(version, lobs=self._options.lobs)
        schema, table = layout.table.schema, layout.table.name
        if self._options.dfm:
            columns = [column | {"nullable": None} for column in column_rows(layout)]
            name = f"{layout.full_name}@{version.number}"
            number = self._truth.version(VersionTruth(name, schema, table, columns, "side file", beside=True))
            return StoredTable(layout, number, self._style, self._options)
        key = (layout.full_name, layout.names)
        if key not in self._known:
            nothing: dict[str, Any] = dict.fromkeys(column_rows(layout)[0])
            columns = [nothing | {"ordinal": i, "name": n} for i, n in enumerate(layout.names, 1)]
            self._known[key] = self._truth.version(VersionTruth(None, schema, table, columns, "inferred"))
        return StoredTable(layout, self._known[key], self._style, self._options)
