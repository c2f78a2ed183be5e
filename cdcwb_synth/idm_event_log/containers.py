"""What holds the rows of an event log (``docs/formats/idm-event-log.md §1.5``)."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from cdcwb_synth.compressed import ENDINGS
from cdcwb_synth.idm_event_log.options import EventLogOptions
from cdcwb_synth.idm_event_log.rows import COLUMNS, OLDER_ORDER, LogRow, Place
from cdcwb_synth.idm_event_log.sheet import MOST_ROWS, Sheet
from cdcwb_synth.model import SynthError
from cdcwb_synth.sinks import ByteFile, TableFile

__all__ = ["delimited", "write_rows"]

_NUMBERS: Final = frozenset(("record_id", "event_type"))
_WHOLE: Final = re.compile(r"0|-?[1-9][0-9]{0,14}")
_NAME: Final = "eventlog"


def delimited(values: Sequence[str | None], delimiter: str = ",", null: str = "") -> bytes:
    """A record of delimited text by RFC 4180, with a line feed after it. What is empty or could be taken for NULL
    is in quotes."""
    fields = []
    for value in values:
        if value is None:
            fields.append(null)
        elif not value or value == null or delimiter in value or '"' in value or "\n" in value or "\r" in value:
            fields.append('"' + value.replace('"', '""') + '"')
        else:
            fields.append(value)
    return (delimiter.join(fields) + "\n").encode()


def write_rows(
    rows: Sequence[LogRow], options: EventLogOptions, folder: Path, first_file: int | None = None
) -> list[str]:
    """Writes all rows in order, and sets the place of each; returns the names of the files in natural order.
    ``first_file``: the number of the first one, where files of other parts precede or follow."""
    count = options.files
    names = []
    for number in range(count):
        some = rows[len(rows) * number // count : len(rows) * (number + 1) // count]
        if options.container == "xlsx" and len(some) >= MOST_ROWS:
            raise SynthError(f"a sheet holds {MOST_ROWS:,} rows, not {len(some):,}; files is more than {count}")
        is_numbered = count > 1 or first_file is not None
        name = _NAME + (f"-{(first_file or 0) + number + 1}" if is_numbered else "") + _ending(options)
        names.append(name)
        sink = _sink(folder / name, options, typed=not options.damaged_share)
        for at, row in enumerate(some):
            row.place = Place(number, *sink.add(row, is_last=at == len(some) - 1))
        sink.close()
    return names


def _ending(options: EventLogOptions) -> str:
    match options.container:
        case "parquet" | "xlsx" as name:
            return f".{name}"
        case "csv_older_order":
            return ".csv" + ENDINGS[options.compression]
        case name:
            return f".{name}" + ENDINGS[options.compression]


class _Sink(ABC):
    """A file that rows are written to."""

    @abstractmethod
    def add(self, row: LogRow, is_last: bool) -> tuple[int, int]:
        """Writes a row; returns its offset and length, in bytes of the decompressed file or in rows."""

    @abstractmethod
    def close(self) -> None:
        """Complete the file."""


class _Bytes(_Sink):
    """A file of bytes: ``_head`` and the rows as ``_render`` writes them."""

    def __init__(self, path: Path, options: EventLogOptions) -> None:
        self._file = ByteFile(path, options.compression)
        self._options = options
        self._file.put(self._head())

    def _head(self) -> bytes:
        return b""

    @abstractmethod
    def _render(self, row: LogRow, is_last: bool) -> bytes: ...

    def add(self, row: LogRow, is_last: bool) -> tuple[int, int]:
        return self._file.put(self._render(row, is_last))

    def close(self) -> None:
        self._file.close()


class _Delimited(_Bytes):
    def _head(self) -> bytes:
        options = self._options
        self._delimiter = "\t" if options.container == "tsv" else ","
        self._order = OLDER_ORDER if options.is_older_order else COLUMNS
        return delimited(self._order, self._delimiter) if options.has_header else b""

    def _render(self, row: LogRow, is_last: bool) -> bytes:
        return delimited(row.texts(self._order), self._delimiter, self._options.null_text)


class _Lines(_Bytes):
    """JSON objects; a NULL is null."""

    def _render(self, row: LogRow, is_last: bool) -> bytes:
        members = []
        for name in COLUMNS:
            value = getattr(row, name)
            shown = "null" if value is None else value if _is_number(name, value) else encode_basestring(value)
            members.append(f'"{name}":{shown}')
        return ("{" + ",".join(members) + "}\n").encode()


class _Statements(_Bytes):
    """A script of INSERT statements."""

    def _head(self) -> bytes:
        options = self._options
        self._rows = 0
        named = f" ({', '.join(COLUMNS)})" if options.has_header else ""
        self._begin = f"INSERT INTO {options.log_table}{named} VALUES"
        self._is_odbc = options.time_form == "odbc"
        return f"-- rows of {options.log_table}\n".encode()

    def _render(self, row: LogRow, is_last: bool) -> bytes:
        values = ", ".join([self._literal(name, getattr(row, name), row) for name in COLUMNS])
        is_first = not self._rows
        self._rows = (self._rows + 1) % self._options.sql_rows
        begin = self._begin + (" " if self._options.sql_rows == 1 else "\n") if is_first else ""
        end = ";\n" if is_last or not self._rows else ",\n"
        return f"{begin}({values}){end}".encode()

    def _literal(self, name: str, value: str | None, row: LogRow) -> str:
        if value is None:
            return "NULL"
        if _is_number(name, value):
            return value
        quoted = "'" + value.replace("'", "''") + "'"
        return f"TIMESTAMP {quoted}" if name == "event_time" and self._is_odbc and row.time is not None else quoted


class _Parquet(_Sink):
    """A table of texts; where ``typed``, record_id and event_type are numbers."""

    def __init__(self, path: Path, options: EventLogOptions, typed: bool) -> None:
        kinds = {"record_id": pa.int64(), "event_type": pa.int32()} if typed else {}
        schema = pa.schema([(name, kinds.get(name, pa.string())) for name in COLUMNS])
        self._file = TableFile(path, options.compression, schema, kept=65_536)
        self._typed = typed

    def add(self, row: LogRow, is_last: bool) -> tuple[int, int]:
        values: list[Any] = row.texts()
        if self._typed:
            values[0], values[3] = int(values[0]), int(values[3])
        return self._file.add(values)

    def close(self) -> None:
        self._file.close()


class _Excel(_Sink):
    def __init__(self, path: Path, options: EventLogOptions) -> None:
        self._sheet = Sheet(path, _NAME)
        if options.has_header:
            self._sheet.add([(name, False) for name in COLUMNS])

    def add(self, row: LogRow, is_last: bool) -> tuple[int, int]:
        values = zip(COLUMNS, row.texts(), strict=True)
        at = self._sheet.add([(value, value is not None and _is_number(name, value)) for name, value in values])
        return at, 1

    def close(self) -> None:
        self._sheet.close()


def _sink(path: Path, options: EventLogOptions, *, typed: bool) -> _Sink:
    match options.container:
        case "sql":
            return _Statements(path, options)
        case "jsonl":
            return _Lines(path, options)
        case "parquet":
            return _Parquet(path, options, typed)
        case "xlsx":
            return _Excel(path, options)
        case _:
            return _Delimited(path, options)


def _is_number(name: str, value: str) -> bool:
    """Is it written as a number, where the container has numbers?"""
    return name in _NUMBERS and _WHOLE.fullmatch(value) is not None
