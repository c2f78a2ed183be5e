"""Columns as Replicate describes them, their values as it writes them (``docs/formats/qlik-kafka.md §3.2 and §8``), and
what it numbers. Types that only the source has become what comes nearest: an INTERVAL, a DATETIME without a year and a
floating decimal are STRING, so that nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final

import msgspec
import numpy as np

from cdcwb_synth.catalogue import TableVersion
from cdcwb_synth.options import Options, option, same
from cdcwb_synth.truth import column_rows
from cdcwb_synth.values import EPOCH, PHRASES, Column, Memo, Type, text_of, unscaled
from cdcwb_synth.workload import Row

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
_KINDS: Final = {
    Type.SMALLINT: "INT2", Type.INTEGER: "INT4", Type.BIGINT: "INT8", Type.INT8: "INT8", Type.DATE: "DATE",
    Type.FLOAT: "REAL8", Type.SMALLFLOAT: "REAL4", Type.BOOLEAN: "BOOLEAN",
}  # fmt: skip
_AVRO: Final = {
    "INT2": "int", "INT4": "int", "INT8": "long", "REAL4": "float", "REAL8": "double", "BOOLEAN": "boolean",
    "BLOB": "bytes",
}  # fmt: skip
_LOGICAL: Final = {
    "DATE": ("int", "date"), "TIME": ("int", "time-millis"), "DATETIME": ("long", "timestamp-micros"),
    "NUMERIC": ("bytes", "decimal"),
}  # fmt: skip
_FIELDS: Final = ("hour", "minute", "second", "microsecond")

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
    NUMERIC (else 0), ``key``: its place in the key (from 1; 0: not in it). ``index`` is that in the workload's rows, -1
    for one that Replicate added."""

    def __init__(self, source: Column, index: int, is_key: bool) -> None:
        self.source, self.name, self.index, self.key = source, source.name, index, int(is_key)
        self.type = _kind(source)
        self.length = (source.length or _SPELLED) if self.type == "STRING" else _LENGTHS.get(self.type, 0)
        self.precision, self.scale = (source.digits, source.places or 0) if self.type == "NUMERIC" else (0, 0)

    @property
    def properties(self) -> dict[str, Any]:
        """Everything but the name, as metadata have it."""
        return {
            "type": self.type, "length": self.length, "precision": self.precision, "scale": self.scale,
            "primaryKeyPosition": self.key, "nullable": self.source.nullable,
        }  # fmt: skip

    def avro(self, logical: bool) -> Any:
        """Its type in Avro, without its null; ``logical``: with a logical type if there is one."""
        if not logical or self.type not in _LOGICAL:
            return _AVRO.get(self.type, "string")
        kind, name = _LOGICAL[self.type]
        numbers = {"precision": self.precision, "scale": self.scale} if self.type == "NUMERIC" else {}
        return {"type": kind, "logicalType": name, **numbers}

    def cells(self, form: str, quote: Callable[[str], str] = str) -> Memo:
        """How its values are written and what they are as text, for ``json``, ``csv``, ``parquet``, ``avro`` (with
        logical types) or ``avro text``. ``quote`` quotes a text of delimited text."""
        typed, plain, text, avro = self._writing()
        if form == "json" and self.type in _NUMBERS:
            return Memo(lambda value: (msgspec.Raw(plain(value).encode()), plain(value)))
        if form == "csv" and self.type in ("STRING", "CLOB"):
            return Memo(lambda value: (quote(plain(value)), plain(value)))
        is_text = form == "avro text" and self.type in _LOGICAL
        if form in ("json", "csv") or is_text or (form == "parquet" and self.type == "TIME"):
            return Memo(lambda value: (plain(value),) * 2)
        written = _same if form == "parquet" else avro
        return Memo(lambda value: (written(typed(value)), text(typed(value))))

    def _writing(self) -> tuple[Callable[[Any], Any], ...]:
        """How values (never None) are written: as Replicate's type (int, float, bool, Decimal, date, datetime, time,
        bytes or str), as text in JSON and in files, as text with all the digits of its type's unit, and in Avro (the
        latter two from the value of Replicate's type)."""
        source, text, days = self.source, text_of(self.source), EPOCH.toordinal()
        day: Callable[[Any], Any] = datetime.date if source.type is Type.DATETIME else _same
        phrases = lambda one: "; ".join(PHRASES[byte % len(PHRASES)] for byte in one[:3])  # noqa: E731
        is_text = source.type in (Type.VARCHAR, Type.LVARCHAR) or self.type != "STRING"
        kinds: dict[str, tuple[Callable[[Any], Any], ...]] = {
            "DATE": (day, lambda one: day(one).isoformat(), date.isoformat, lambda one: one.toordinal() - days),
            "TIME": (
                lambda one: _cut(one, source).time(), lambda one: _cut(one, source).time().isoformat(),
                lambda one: one.isoformat("milliseconds"),
                lambda one: ((one.hour * 60 + one.minute) * 60 + one.second) * 1000,
            ),
            "DATETIME": (
                lambda one: _cut(one, source), lambda one: _cut(one, source).isoformat(" ", "microseconds"),
                lambda one: one.isoformat("T", "microseconds"),
                lambda one: (one - datetime(1970, 1, 1)) // timedelta(microseconds=1),
            ),
            "NUMERIC": (_same, text, text, lambda one: unscaled(one, self.scale)),
            "BLOB": (_same, lambda one: one.hex().upper(), bytes.hex, _same),
            # the shortest text that reads back as the same number of single precision
            "REAL4": (_same, repr, lambda one: repr(float(str(np.float32(one)))), _same),
            "REAL8": (_same, repr, repr, _same),
            "CLOB": (phrases, phrases, str, _same),  # made up from where the object is
        }  # fmt: skip
        return kinds.get(self.type, (_same, text, text, _same) if is_text else (text, text, str, _same))


def _kind(column: Column) -> str:
    match column.type:
        case Type.DECIMAL if column.places is not None:
            return "NUMERIC"
        case Type.LOB:
            return "CLOB" if column.keyword == "clob" else "BLOB"
        case Type.DATETIME if column.start == "year" and column.end not in ("year", "month"):
            return "DATE" if column.end == "day" else "DATETIME"
        case Type.DATETIME if column.start == "hour" and column.end in ("minute", "second"):
            return "TIME"
        case kind:
            return _KINDS.get(kind, "STRING")


def _same(value: Any) -> Any:
    return value


def _cut(value: datetime, source: Column) -> datetime:
    """A value with only the fields that its column has."""
    if source.end == "fraction":
        unit = 10 ** (6 - source.fraction)
        return value.replace(microsecond=value.microsecond // unit * unit)
    zeros: dict[str, Any] = dict.fromkeys(_FIELDS[_FIELDS.index(source.end) + 1 :], 0)
    return value.replace(**zeros)


class Layout:
    """The columns of one table version as Replicate has them, in ordinal order, written in the ``form`` of
    :meth:`Described.cells`.

    Masks are integers: bit n is the column with ordinal n + 1. ``everything`` has the bits of all columns, ``inserted``
    those of all but large objects, ``key`` that of the key, whose name is ``key_name``.
    """

    def __init__(self, version: TableVersion, form: str, *, lobs: bool, quote: Callable[[str], str] = str) -> None:
        self.version, self.table = version, version.table
        columns = [Described(c, i, c.name == version.table.key) for i, c in enumerate(version.columns)]
        self.columns = [c for c in columns if lobs or c.type not in _LOBS]
        self.names = tuple(c.name for c in self.columns)
        self._cells = [(c.cells(form, quote), c.index) for c in self.columns]
        self.key_at, self.key_name = self.names.index(version.table.key), version.table.key
        self.everything = (1 << len(self.columns)) - 1
        self.inserted = self.mask(i for i, c in enumerate(self.columns) if c.type not in _LOBS)
        self.key = 1 << self.key_at
        self._marked = Memo(lambda mask: [name for bit, name in enumerate(self.names) if mask >> bit & 1])

    @staticmethod
    def mask(indexes: Iterable[int]) -> int:
        """The mask of the columns at ``indexes``."""
        return sum(1 << index for index in indexes)

    def marked(self, mask: int) -> list[str]:
        """The names of the columns whose bit is set, in ordinal order."""
        names: list[str] = self._marked[mask]
        return names

    def differing(self, before: Iterable[Any], after: Iterable[Any]) -> int:
        """The mask of the columns whose values differ."""
        return self.mask([at for at, (old, new) in enumerate(zip(before, after, strict=True)) if old != new])

    def image(self, row: Row | None) -> Image | None:
        """A row of the workload as it is written, and as text."""
        if row is None:
            return None
        fields, texts = zip(*[of[row[i]] for of, i in self._cells], strict=True)
        return fields, dict(zip(self.names, texts, strict=True))

    def rows(self, **more: Any) -> list[dict[str, Any]]:
        """The columns as the truth has them: what does not apply is null."""
        return column_rows(
            {
                "name": c.name, "type": c.type, "length": c.length or None, "precision": c.precision or None,
                "scale": c.scale if c.type == "NUMERIC" else None, "key_position": c.key or None,
                "nullable": c.source.nullable, **more,
            }
            for c in self.columns
        )  # fmt: skip


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

    def __init__(self, options: QlikOptions, changes: int) -> None:
        times = options.clock_back
        self._due = [(turn + 1) * changes // (times + 1) for turn in range(times)]
        self._step, self._behind = timedelta(seconds=options.clock_back_seconds), timedelta()
        self._number = 0
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
