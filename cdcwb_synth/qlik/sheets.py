"""Files of rows: delimited text, JSON lines and Parquet, and how values and header columns are in each
(``docs/formats/qlik-change-table.md §1.2, §5``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from cdcwb_synth.compressed import ENDINGS
from cdcwb_synth.instants import EPOCH
from cdcwb_synth.qlik.avro import double_text, float_text
from cdcwb_synth.qlik.cells import Cell, Cells, csv_cells, json_cells, spelled_cells
from cdcwb_synth.qlik.columns import Described, plain, typed
from cdcwb_synth.qlik.options import ChangeTableOptions
from cdcwb_synth.sinks import ByteFile, TableFile

__all__ = ["CsvStyle", "JsonStyle", "ParquetStyle", "Sheet", "Style", "style_of"]

_QUOTED: Final = frozenset('"\r\n')


class Sheet(ABC):
    """One file that rows are written to, one after another."""

    rows = 0
    heading = 0  # length of the line that names the columns

    @abstractmethod
    def add(self, fields: Sequence[Any]) -> tuple[int, int]:
        """Writes a row; returns its offset and length, in bytes of the decompressed file or in rows."""

    @abstractmethod
    def close(self) -> None:
        """Complete the file."""


class _Lines(Sheet):
    def __init__(self, path: Path, compression: str, begin: str, between: str, end: str) -> None:
        self._file = ByteFile(path, compression)
        self._begin, self._between, self._end = begin, between, end

    def add(self, fields: Sequence[Any]) -> tuple[int, int]:
        self.rows += 1
        return self._file.put((self._begin + self._between.join(fields) + self._end).encode())

    def close(self) -> None:
        self._file.close()


class _Table(Sheet):
    def __init__(self, path: Path, compression: str, schema: pa.Schema) -> None:
        self._file = TableFile(path, compression, schema, kept=10_000)

    def add(self, fields: Sequence[Any]) -> tuple[int, int]:
        self.rows += 1
        return self._file.add(fields)

    def close(self) -> None:
        self._file.close()


class Style(ABC):
    """How one container holds rows: cells of data columns, fields of header columns, and new files."""

    ending: str

    @abstractmethod
    def cells(self, column: Described) -> Cells:
        """The cells of a data column."""

    @abstractmethod
    def text(self, name: str, value: str | None) -> Any:
        """The field of a header column that holds a text."""

    @abstractmethod
    def mask(self, name: str, mask: tuple[str | bytes, str] | None) -> Cell:
        """The field of ``change_mask`` and its text, from a mask and its text; None: a row that has none."""

    @abstractmethod
    def moment(self, name: str, at: int) -> Cell:
        """The field of a time (microseconds since 1970), and its text."""

    @abstractmethod
    def sheet(self, path: Path, headers: Sequence[str], columns: Sequence[Described]) -> Sheet:
        """A new file with header columns of these names and these data columns."""


class CsvStyle(Style):
    """Delimited text: texts of data columns in quotes, header columns bare where they can be."""

    def __init__(self, options: ChangeTableOptions) -> None:
        self._options = options
        self._special = _QUOTED | {options.delimiter} | ({options.escape} if options.escape else set())
        self.compression = "none" if options.container == "parquet" else options.compression
        self.ending = "csv" + ENDINGS[self.compression]

    def cells(self, column: Described) -> Cells:
        """Fields, NULL as ``null_value``."""
        return csv_cells(column, self._options.null_value, self._options.escape)

    def text(self, name: str, value: str | None) -> str:
        """Bare, unless something in it needs quotes or makes it look like NULL."""
        if value is None:
            return self._options.null_value
        if value and value != self._options.null_value and not self._special & set(value):
            return value
        escape = self._options.escape
        inner = value.replace(escape, escape * 2).replace('"', escape + '"') if escape else value.replace('"', '""')
        return f'"{inner}"'

    def mask(self, name: str, mask: tuple[str | bytes, str] | None) -> Cell:
        """As a text; a row without a mask has NULL."""
        text = None if mask is None else mask[1]
        return self.text(name, text), text

    def moment(self, name: str, at: int) -> Cell:
        """Six digits of a second."""
        text = _blank(at)
        return text, text

    def sheet(self, path: Path, headers: Sequence[str], columns: Sequence[Described]) -> Sheet:
        """A file that begins with the names of its columns, if the options say so."""
        sheet = _Lines(path, self.compression, "", self._options.delimiter, "\n")
        if self._options.header_line:
            _, sheet.heading = sheet.add([*headers, *(column.name for column in columns)])
            sheet.rows = 0
        return sheet


class JsonStyle(Style):
    """An object for every row, one a line."""

    def __init__(self, options: ChangeTableOptions) -> None:
        self._compression = options.compression
        self.ending = "json" + ENDINGS[options.compression]

    def cells(self, column: Described) -> Cells:
        """Members."""
        return json_cells(column)

    def text(self, name: str, value: str | None) -> str:
        """A member with a text or null."""
        return f'"{name}":' + ("null" if value is None else encode_basestring(value))

    def mask(self, name: str, mask: tuple[str | bytes, str] | None) -> Cell:
        """A text; that of a row without a mask is empty."""
        text = "" if mask is None else mask[1]
        return self.text(name, text), text

    def moment(self, name: str, at: int) -> Cell:
        """A text with six digits of a second."""
        text = _blank(at)
        return self.text(name, text), text

    def sheet(self, path: Path, headers: Sequence[str], columns: Sequence[Described]) -> Sheet:
        """A file of lines."""
        return _Lines(path, self._compression, "{", ",", "}\n")


class ParquetStyle(Style):
    """Typed columns; a TIME is text."""

    ending = "parquet"

    def __init__(self, options: ChangeTableOptions) -> None:
        self._compression = options.compression
        self._is_binary = options.mask_form == "binary"

    def cells(self, column: Described) -> Cells:
        """Values in their types; their texts have all digits of the types' units."""
        value_of = plain(column) if column.type == "TIME" else typed(column)
        text = _typed_text(column)

        def make(value: Any) -> Cell:
            value = value_of(value)
            return value, text(value)

        return spelled_cells(column, make, (None, None))

    def text(self, name: str, value: str | None) -> str | None:
        """A string."""
        return value

    def mask(self, name: str, mask: tuple[str | bytes, str] | None) -> Cell:
        """Bytes or a string; those of a row without a mask are empty."""
        return mask or (b"" if self._is_binary else "", "")

    def moment(self, name: str, at: int) -> Cell:
        """A timestamp without a zone."""
        return _moment(at), _moment(at).isoformat("T", "microseconds")

    def sheet(self, path: Path, headers: Sequence[str], columns: Sequence[Described]) -> Sheet:
        """A table."""
        kinds = {"timestamp": pa.timestamp("us"), "change_mask": pa.binary() if self._is_binary else pa.string()}
        fields = [(name, next((k for n, k in kinds.items() if name.endswith(n)), pa.string())) for name in headers]
        fields += [(column.name, _arrow(column)) for column in columns]
        return _Table(path, self._compression, pa.schema(fields))


def style_of(options: ChangeTableOptions) -> Style:
    """The style of the options' container."""
    styles: dict[str, type[CsvStyle | JsonStyle | ParquetStyle]]
    styles = {"csv": CsvStyle, "json": JsonStyle, "parquet": ParquetStyle}
    return styles[options.container](options)


def _moment(at: int) -> datetime:
    return (EPOCH + timedelta(microseconds=at)).astimezone(UTC).replace(tzinfo=None)


def _blank(at: int) -> str:
    return _moment(at).isoformat(" ", "microseconds")


def _arrow(column: Described) -> pa.DataType:
    kinds = {
        "INT2": pa.int16(), "INT4": pa.int32(), "INT8": pa.int64(), "REAL4": pa.float32(), "REAL8": pa.float64(),
        "BOOLEAN": pa.bool_(), "DATE": pa.date32(), "DATETIME": pa.timestamp("us"), "BLOB": pa.binary(),
    }  # fmt: skip
    if column.type == "NUMERIC":
        return pa.decimal128(column.precision, column.scale)
    return kinds.get(column.type, pa.string())


def _typed_text(column: Described) -> Any:
    """The text of a value in its type."""
    match column.type:
        case "REAL4":
            return float_text
        case "REAL8":
            return double_text
        case "BOOLEAN":
            return {True: "true", False: "false"}.__getitem__
        case "DATE":
            return date.isoformat
        case "DATETIME":
            return lambda value: value.isoformat("T", "microseconds")
        case "BLOB":
            return bytes.hex
        case "NUMERIC":
            return plain(column)
        case _:
            return str
