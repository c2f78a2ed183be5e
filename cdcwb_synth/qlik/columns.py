"""Columns as Replicate describes them, their values as it writes them (``docs/formats/qlik-kafka.md §3.2 and §8``), and
what it numbers. Types that only the source has become what comes nearest: an INTERVAL, a DATETIME without a year and a
floating decimal are STRING, so that nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from cdcwb_synth import words
from cdcwb_synth.catalogue import TableVersion
from cdcwb_synth.options import Options, option, same
from cdcwb_synth.values import EPOCH, Column, Memo, Type, formatter
from cdcwb_synth.workload import Row

__all__ = [
    "SERVER", "TASK", "ChangeSequence", "Described", "Image", "Layout", "QlikOptions", "avro_type", "log_position",
    "transaction_id",
]  # fmt: skip

TASK: Final = "shop-load"
"""Name of the task; a hyphen makes a namespace that Avro does not allow."""

SERVER: Final = "replicate-01"
"""Name of the Replicate server."""

_LOBS: Final = ("BLOB", "CLOB")
_NUMBERS: Final = ("INT2", "INT4", "INT8", "REAL4", "REAL8", "BOOLEAN")  # which JSON holds without quotes
_LENGTHS: Final = {
    "INT2": 5, "INT4": 10, "INT8": 19, "REAL4": 7, "REAL8": 14, "BOOLEAN": 1, "BLOB": 32768, "CLOB": 32768,
}  # fmt: skip
_SPELLED: Final = 40  # bytes of what is written as text because no type fits
_FIELDS: Final = ("hour", "minute", "second", "microsecond")
_CONTEXT: Final = Context(prec=80)

Image = tuple[tuple[Any, ...], dict[str, str | None]]
"""A row as it is written, column by column, and as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QlikOptions(Options):
    """What happens, and how Replicate is set up."""

    schema_changes: int = same("schema_changes", default=6)
    refresh_rows: int = option(20, "rows of the full load that every table begins with", 0, 10_000_000)
    lobs: bool = option(True, "large objects are replicated; without, tables lack these columns")
    clock_back: int = option(0, "times the server's clock is set back", 0, 1000)
    clock_back_seconds: float = option(3.0, "how far it is set back each time", 0.01, 86_400)


class Described:
    """A column: Replicate's ``type``, the most bytes of a value (0: does not apply), ``precision`` and ``scale`` of a
    NUMERIC (else 0), ``key``: its place in the key (from 1; 0: not in it). ``place`` is its index in the workload's
    rows, -1 for one that Replicate added."""

    def __init__(self, source: Column, place: int, is_key: bool) -> None:
        self.source, self.name, self.place, self.key = source, source.name, place, int(is_key)
        self.nullable = source.nullable
        self.type = _kind(source)
        self.length = (source.length or _SPELLED) if self.type == "STRING" else _LENGTHS.get(self.type, 0)
        is_numeric = self.type == "NUMERIC"
        self.precision, self.scale = (source.digits, source.places or 0) if is_numeric else (0, 0)

    @property
    def properties(self) -> dict[str, Any]:
        """Everything but the name, as metadata have it."""
        return {
            "type": self.type, "length": self.length, "precision": self.precision, "scale": self.scale,
            "primaryKeyPosition": self.key, "nullable": self.nullable,
        }  # fmt: skip

    def cells(self, form: str, csv: Callable[[str], str] = str) -> Memo:
        """How its values are written and what they are as text, for ``json``, ``csv``, ``parquet``, ``avro`` (with
        logical types) or ``avro text``. ``csv`` quotes a text."""
        typed, plain, text, avro = _writing(self)
        if form == "json" and self.type in _NUMBERS:
            return Memo(lambda value: (msgspec.Raw(plain(value).encode()), plain(value)))
        if form == "csv" and self.type in ("STRING", "CLOB"):
            return Memo(lambda value: (csv(plain(value)), plain(value)))
        is_text = form == "avro text" and self.type in ("DATE", "TIME", "DATETIME", "NUMERIC")
        if form in ("json", "csv") or is_text or (form == "parquet" and self.type == "TIME"):
            return Memo(lambda value: (plain(value),) * 2)
        if form == "parquet":
            return Memo(lambda value: (typed(value), text(typed(value))))
        return Memo(lambda value: (avro(typed(value)), text(typed(value))))


def _kind(column: Column) -> str:
    match column.type:
        case Type.SMALLINT:
            return "INT2"
        case Type.INTEGER:
            return "INT4"
        case Type.BIGINT | Type.INT8:
            return "INT8"
        case Type.DATE:
            return "DATE"
        case Type.FLOAT:
            return "REAL8"
        case Type.SMALLFLOAT:
            return "REAL4"
        case Type.BOOLEAN:
            return "BOOLEAN"
        case Type.DECIMAL if column.places is not None:
            return "NUMERIC"
        case Type.LOB:
            return "CLOB" if column.keyword == "clob" else "BLOB"
        case Type.DATETIME if column.start == "year" and column.end not in ("year", "month"):
            return "DATE" if column.end == "day" else "DATETIME"
        case Type.DATETIME if column.start == "hour" and column.end in ("minute", "second"):
            return "TIME"
        case _:
            return "STRING"


class _Writing(NamedTuple):
    """How values (never None) of a column are written. ``typed`` gives the type that Replicate has for it: int, float,
    bool, Decimal, date, datetime, time, bytes (BLOB) or str; ``plain`` the text in JSON and in files; ``text`` that of
    a typed value, with all the digits of its type's unit; ``avro`` what Avro holds for a typed value."""

    typed: Callable[[Any], Any]
    plain: Callable[[Any], Any]
    text: Callable[[Any], Any]
    avro: Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


def _writing(column: Described) -> _Writing:
    source = column.source
    typed: Callable[[Any], Any] = _same
    match column.type:
        case "DATE":
            typed = datetime.date if source.type is Type.DATETIME else _same
            days = date(1970, 1, 1).toordinal()
            return _Writing(
                typed, lambda value: typed(value).isoformat(), date.isoformat, lambda value: value.toordinal() - days
            )
        case "TIME":
            return _Writing(
                lambda value: _cut(value, source).time(), lambda value: _cut(value, source).time().isoformat(),
                lambda value: value.isoformat("milliseconds"),
                lambda value: ((value.hour * 60 + value.minute) * 60 + value.second) * 1000,
            )  # fmt: skip
        case "DATETIME":
            return _Writing(
                lambda value: _cut(value, source), lambda value: _cut(value, source).isoformat(" ", "microseconds"),
                lambda value: value.isoformat("T", "microseconds"),
                lambda value: (value - datetime(1970, 1, 1)) // timedelta(microseconds=1),
            )  # fmt: skip
        case "NUMERIC":
            spelled = formatter(source)
            return _Writing(_same, spelled, spelled, lambda value: _unscaled(value, column.scale))
        case "BLOB":
            return _Writing(_same, lambda value: value.hex().upper(), bytes.hex, _same)
        case "BOOLEAN":
            spelled = {True: "true", False: "false"}.__getitem__
            return _Writing(_same, spelled, spelled, _same)
        case "REAL4":  # the shortest text that reads back as the same number of single precision
            shortest = partial(np.format_float_scientific, unique=True)
            return _Writing(_same, repr, lambda value: repr(float(shortest(np.float32(value)))), _same)
        case "REAL8":
            return _Writing(_same, repr, repr, _same)
        case "CLOB":  # a text, made up from where the object is
            typed = lambda value: "; ".join(words.PHRASES[byte % len(words.PHRASES)] for byte in value[:3])  # noqa: E731
        case "STRING" if source.type not in (Type.VARCHAR, Type.LVARCHAR):
            typed = formatter(source)
        case "INT2" | "INT4" | "INT8":
            return _Writing(_same, str, str, _same)
    return _Writing(typed, typed, str, _same)


def _cut(value: datetime, source: Column) -> datetime:
    """A value with only the fields that its column has."""
    if source.end == "fraction":
        unit = 10 ** (6 - source.fraction)
        return value.replace(microsecond=value.microsecond // unit * unit)
    zeros: dict[str, Any] = dict.fromkeys(_FIELDS[_FIELDS.index(source.end) + 1 :], 0)
    return value.replace(**zeros)


def avro_type(column: Described, logical: bool) -> Any:
    """The type of a column in Avro, without its null; ``logical``: with logical types where there are some."""
    kinds: dict[str, Any] = {
        "INT2": "int", "INT4": "int", "INT8": "long", "REAL4": "float", "REAL8": "double", "BOOLEAN": "boolean",
        "BLOB": "bytes",
    }  # fmt: skip
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": column.precision, "scale": column.scale}
    if logical:
        kinds |= {
            "DATE": {"type": "int", "logicalType": "date"}, "TIME": {"type": "int", "logicalType": "time-millis"},
            "DATETIME": {"type": "long", "logicalType": "timestamp-micros"}, "NUMERIC": decimal,
        }  # fmt: skip
    return kinds.get(column.type, "string")


def _unscaled(value: Decimal, scale: int) -> bytes:
    """The digits of a decimal as the shortest two's complement, big-endian."""
    number = int(value.scaleb(scale, _CONTEXT))
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)


class Layout:
    """The columns of one table version as Replicate has them, in ordinal order, written in the ``form`` of
    :meth:`Described.cells`.

    ``added``: a column with this name that holds the table's name in every row comes last; "": none. Masks are
    integers: bit n is the column with ordinal n + 1. ``everything`` has the bits of all columns, ``own`` those of the
    source's columns, ``inserted`` those of all but large objects, ``key`` that of the key.
    """

    def __init__(
        self, version: TableVersion, form: str, *, lobs: bool, added: str = "", csv: Callable[[str], str] = str
    ) -> None:
        self.version, self.table = version, version.table
        self.full_name = f"{version.table.schema}.{version.table.name}"
        columns = [Described(c, i, c.name == version.table.key) for i, c in enumerate(version.columns)]
        self.columns = [c for c in columns if lobs or c.type not in _LOBS]
        if added:
            self.columns.append(Described(Column(added, Type.VARCHAR, length=128, nullable=False), -1, False))
        self.names = tuple(c.name for c in self.columns)
        self._cells = [column.cells(form, csv) for column in self.columns]
        self.key_at = next(i for i, c in enumerate(self.columns) if c.key)
        self.everything = (1 << len(self.columns)) - 1
        self.own = self.mask(i for i, c in enumerate(self.columns) if c.place >= 0)
        self.inserted = self.mask(i for i, c in enumerate(self.columns) if c.type not in _LOBS)
        self.key = 1 << self.key_at

    @staticmethod
    def mask(indexes: Iterable[int]) -> int:
        """The mask of the columns at ``indexes``."""
        return sum(1 << index for index in indexes)

    def marked(self, mask: int) -> list[str]:
        """The names of the columns whose bit is set, in ordinal order."""
        return [name for bit, name in enumerate(self.names) if mask >> bit & 1]

    def image(self, row: Row) -> Image:
        """A row of the workload as it is written, and as text."""
        values = [row[c.place] if c.place >= 0 else self.table.name for c in self.columns]
        cells = [of[value] for of, value in zip(self._cells, values, strict=True)]
        return tuple([cell[0] for cell in cells]), dict(zip(self.names, [cell[1] for cell in cells], strict=True))

    def rows(self, **more: Any) -> list[dict[str, Any]]:
        """The columns as :data:`cdcwb_synth.model.COLUMN` has them: what does not apply is null."""
        return [
            {
                "ordinal": ordinal, "name": c.name, "type": c.type, "length": c.length or None,
                "precision": c.precision or None, "scale": c.scale if c.type == "NUMERIC" else None,
                "key_position": c.key or None, "nullable": c.nullable, **more,
            }
            for ordinal, c in enumerate(self.columns, 1)
        ]  # fmt: skip


def log_position(number: int) -> str:
    """The position of a change in the source's log, in the form of SQL Server."""
    return f"{0x1A4 + (number >> 24):08x}:{(number >> 8) & 0xFFFF:08x}:{number & 0xFF:04x}"


def transaction_id(ordinal: int) -> str:
    """A transaction's id: 128 bits as 32 hexadecimal digits."""
    return f"{0x120000 + ordinal:032X}"


class ChangeSequence:
    """Change sequences (``docs/formats/qlik-kafka.md §5.1``): 16 digits of time, in hundredths of a second, which never
    falls, and 19 of a number that rises with every change of the task. ``changes``: how many the workload has, in which
    the server's clock is set back now and then."""

    def __init__(self, options: QlikOptions, changes: int, number: int) -> None:
        times = options.clock_back
        self._due = [(turn + 1) * changes // (times + 1) for turn in range(times)]
        self._step, self._behind = timedelta(seconds=options.clock_back_seconds), timedelta()
        self._number = number
        self.time = EPOCH
        self.stamp(options.start_time)

    def clock(self, at: datetime, done: int) -> datetime:
        """What the server's clock shows ``at`` a time, when ``done`` changes have happened."""
        while self._due and self._due[0] <= done:
            del self._due[0]
            self._behind += self._step
        return at - self._behind

    def stamp(self, shown: datetime) -> datetime:
        """Sets the time to what the server's clock shows, unless that is earlier; returns the time in force."""
        if shown > self.time:
            self.time = shown.replace(microsecond=shown.microsecond // 10_000 * 10_000)
            self._digits = f"{self.time:%Y%m%d%H%M%S}{self.time.microsecond // 10_000:02d}"
        return self.time

    def take(self, steps: int = 1) -> str:
        """The next sequence; ``steps``: how many numbers it takes."""
        self._number += steps
        return f"{self._digits}{self._number:019d}"
