"""Rows that are read together: those of one file with the same columns, from whatever holds them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays.texts import hex_digits, slices
from cdcwb.formats.avro import to_text
from cdcwb.formats.tabular.dialect import Dialect
from cdcwb.formats.tabular.framing import Records
from cdcwb.formats.tabular.names import Layout

__all__ = [
    "ColumnRows",
    "CsvRows",
    "Rows",
    "as_strings",
    "hex_text",
    "is_binary",
    "json_column",
    "plain",
    "texts_of",
    "unescape",
]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
L = TypeVar("L", bound=Layout)


class Rows(Protocol[L]):
    """Some rows of one file. ``offset`` and ``length`` are their places in the file's unit."""

    layout: L
    offset: Ints
    length: Ints

    def take(self, index: Ints) -> Rows[L]:
        """Some of them."""
        ...

    def text(self, place: int) -> pa.StringArray:
        """A column as text; null is NULL. What is not in the character set is the hex of its bytes."""
        ...

    def garbled(self, place: int) -> Ints:
        """Which rows of a column are not in the character set."""
        ...

    def content(self, place: int) -> pa.Array:
        """A column as it is: text, or typed values where the source has types."""
        ...

    def raw(self) -> pa.BinaryArray | None:
        """Their bytes; None where the source has none."""
        ...


def hex_text(values: pa.BinaryArray, *, upper: bool = True) -> pa.StringArray:
    """Bytes as hexadecimal digits; null stays null."""
    values = values.cast(pa.binary())
    if values.null_count:
        filled = pc.fill_null(values, b"")
        return pc.if_else(pc.is_null(values), pa.scalar(None, pa.string()), hex_text(filled, upper=upper))
    if not len(values):
        return pa.array([], pa.string())
    _, edges, data = values.buffers()
    offsets = np.frombuffer(edges, np.int32)[values.offset : values.offset + len(values) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    there = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)[first:last]
    digits = hex_digits(there.reshape(1, -1), upper=upper) if len(there) else there
    doubled = ((offsets - first) * 2).astype(np.int32)
    buffers = [None, pa.py_buffer(doubled), pa.py_buffer(np.ascontiguousarray(digits))]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


# --- delimited text ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class CsvRows(Generic[L]):
    """Good records of a delimited file. ``starts`` and ``ends`` have a row for each and a column for each field;
    ``begin`` and ``end`` are those of the records, line ends included, all as places in ``buffer``."""

    layout: L
    offset: Ints
    length: Ints
    buffer: npt.NDArray[np.uint8]
    begin: Ints
    end: Ints
    starts: Ints
    ends: Ints
    dialect: Dialect
    charset: str
    _texts: dict[int, tuple[pa.StringArray, Ints]] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Records, layout: L, dialect: Dialect, charset: str) -> CsvRows[L]:
        """The good ones among the segments."""
        begin, end = records.start[records.good], records.end[records.good]
        return cls(
            *(layout, records.base + begin, end - begin, records.buffer, begin, end, records.starts, records.ends),
            dialect,
            charset,
        )

    def take(self, index: Ints) -> CsvRows[L]:
        """Some of them."""
        return CsvRows(
            self.layout,
            self.offset[index],
            self.length[index],
            self.buffer,
            self.begin[index],
            self.end[index],
            self.starts[index],
            self.ends[index],
            self.dialect,
            self.charset,
        )

    def text(self, place: int) -> pa.StringArray:
        """See :class:`Rows`."""
        return self._column(place)[0]

    def garbled(self, place: int) -> Ints:
        """See :class:`Rows`."""
        return self._column(place)[1]

    def content(self, place: int) -> pa.Array:
        """See :class:`Rows`."""
        return self.text(place)

    def raw(self) -> pa.BinaryArray:
        """See :class:`Rows`."""
        return slices(self.buffer, self.begin, self.end)

    def _column(self, place: int) -> tuple[pa.StringArray, Ints]:
        if place not in self._texts:
            self._texts[place] = as_strings(self._fields(place), self.charset)
        return self._texts[place]

    def _fields(self, place: int) -> pa.BinaryArray:
        """The bytes of a column without quotes and escapes; null where they are the text of NULL
        (docs/formats/qlik-change-table.md §1.3)."""
        start, end = self.starts[:, place], self.ends[:, place]
        if not len(start):
            return pa.array([], pa.binary())
        dialect = self.dialect
        quoted = np.zeros(len(start), dtype=np.bool_)
        if dialect.quote:
            there = np.flatnonzero(end - start >= 2)
            quoted[there] = self.buffer[start[there]] == dialect.quote[0]
        null = ~quoted & (end - start == len(dialect.null))
        for step, byte in enumerate(dialect.null):
            there = np.flatnonzero(null)
            null[there] = self.buffer[start[there] + step] == byte
        fields = slices(self.buffer, start + quoted, end - quoted, null)
        if quoted.any():
            inner = pc.match_substring(fields, dialect.quote)
            inside = quoted & pc.fill_null(inner, False).to_numpy(zero_copy_only=False)
            if inside.any():
                fields = self._unquoted(fields, inside)
        return fields

    def _unquoted(self, fields: pa.BinaryArray, inside: Bools) -> pa.BinaryArray:
        """Takes quotes within quoted fields for what they stand for."""
        quote, escape = self.dialect.quote, self.dialect.escape
        some = fields.filter(pa.array(inside))
        if escape:
            changed = pa.array([unescape(one, quote, escape) for one in some.to_pylist()], pa.binary())
        else:
            changed = pc.replace_substring(some, quote + quote, quote)
        return pc.replace_with_mask(fields, pa.array(inside), changed)


def unescape(content: bytes, quote: bytes, escape: bytes) -> bytes:
    """The text of a quoted field: doubled quotes are one, and escapes before a quote count by pairs."""
    one, other = re.escape(escape), re.escape(quote)
    run = rb"(?<!%b)((?:%b%b)*+)(?:%b%b|%b%b)" % (one, one, one, one, other, other, other)
    return re.sub(run, lambda match: match[1][: len(match[1]) // 2] + quote, content)


def as_strings(fields: pa.BinaryArray, charset: str) -> tuple[pa.StringArray, Ints]:
    """Bytes as text, and which are not in the character set: of those, the hex of their bytes."""
    none: Ints = np.empty(0, dtype=np.int64)
    if charset.lower().replace("_", "-") in ("utf-8", "utf8"):
        try:
            return fields.cast(pa.string()), none
        except pa.ArrowInvalid:
            pass
    elif _is_ascii(fields):
        return fields.view(pa.string()), none
    texts: list[str | None] = []
    garbled = []
    for row, one in enumerate(fields.to_pylist()):
        try:
            texts.append(None if one is None else one.decode(charset))
        except UnicodeDecodeError:
            garbled.append(row)
            texts.append(one.hex())
    return pa.array(texts, pa.string()), np.array(garbled, dtype=np.int64)


def _is_ascii(fields: pa.BinaryArray) -> bool:
    data = fields.buffers()[2]
    return data is None or not (np.frombuffer(data, np.uint8) >= 0x80).any()


# --- columns ----------------------------------------------------------------------------------------------------------


_SMALL_TYPES: Final[Sequence[tuple[Callable[[pa.DataType], bool], pa.DataType]]] = (
    (pa.types.is_large_string, pa.string()),
    (pa.types.is_large_binary, pa.binary()),
    (pa.types.is_null, pa.string()),
    (pa.types.is_float16, pa.float32()),
)


def is_binary(kind: pa.DataType) -> bool:
    """Is this a column of bytes?"""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


@dataclass(slots=True)
class ColumnRows(Generic[L]):
    """Rows that are columns already: of a Parquet file, a table, or JSON. ``source`` are the bytes of each row.
    ``upper``: the columns whose bytes are written as hex in upper case."""

    layout: L
    offset: Ints
    length: Ints
    columns: list[pa.Array]
    source: pa.BinaryArray | None = None
    upper: frozenset[int] = frozenset()

    def take(self, index: Ints) -> ColumnRows[L]:
        """Some of them."""
        chosen = pa.array(index)
        return replace(
            self,
            offset=self.offset[index],
            length=self.length[index],
            columns=[column.take(chosen) for column in self.columns],
            source=None if self.source is None else self.source.take(chosen),
        )

    def text(self, place: int) -> pa.StringArray:
        """See :class:`Rows`."""
        column = self.columns[place]
        if place in self.upper and is_binary(column.type):
            return hex_text(column)
        return texts_of(column)

    def garbled(self, place: int) -> Ints:
        """See :class:`Rows`."""
        return np.empty(0, dtype=np.int64)

    def content(self, place: int) -> pa.Array:
        """See :class:`Rows`."""
        return self.columns[place]

    def raw(self) -> pa.BinaryArray | None:
        """See :class:`Rows`."""
        return self.source


def plain(column: pa.Array) -> pa.Array:
    """The same values, counted from the beginning of their buffers, without the types that Spark's Arrow does not
    know."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_fixed_size_binary(column.type):
        column = column.cast(pa.binary())
    for is_kind, small in _SMALL_TYPES:
        if is_kind(column.type):
            column = column.cast(small)
    return column.take(pa.array(np.arange(len(column)))) if column.offset or _starts_late(column) else column


def _starts_late(column: pa.Array) -> bool:
    if not len(column) or not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
        return False
    return bool(np.frombuffer(column.buffers()[1], dtype=np.int32, count=1)[0])


def texts_of(column: pa.Array) -> pa.StringArray:
    """Any column as the text of the model: what is nested as JSON, what Arrow has no text for as Python's."""
    column = plain(column)
    kind = column.type
    if pa.types.is_string(kind):
        return column
    if is_binary(kind):
        return hex_text(column, upper=False)
    try:
        if pa.types.is_timestamp(kind):
            zoneless = column.cast(pa.timestamp(kind.unit)) if kind.tz else column
            return pc.replace_substring(zoneless.cast(pa.string()), " ", "T", max_replacements=1)
        return to_text(column.cast(pa.date32()) if pa.types.is_date64(kind) else column)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return pa.array([None if one is None else str(one) for one in column.to_pylist()], pa.string())


def json_column(values: Sequence[Any], as_text: Callable[[Any], str | None]) -> pa.StringArray:
    """Parsed JSON values of one column as text."""
    try:
        return pa.array(values, pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError):
        texts = [as_text(value) for value in values]
    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:  # half of a surrogate pair, which is no text
        clean = [None if one is None else one.encode("utf-8", "backslashreplace").decode() for one in texts]
        return pa.array(clean, pa.string())
