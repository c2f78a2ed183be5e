"""Values of columns (docs/formats/goldengate.md §4.6): as text, decoded without loss, all values of one coding at once
with NumPy and Arrow; and as values of Arrow types in typed tables.

Bytes that are not a value of their type become lower-case hex with a problem; the type of a column without a definition
is inferred from its bytes, without a problem (§4.7).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import (
    Bools,
    Bytes,
    Ints,
    as_array,
    bytes_of,
    content_of,
    gather,
    hex_digits,
    integers,
    lookup,
    text_array,
)
from cdcwb.formats.dissector import TableRequest, Wanted
from cdcwb.formats.goldengate.contents import Order
from cdcwb.formats.goldengate.definitions import ColumnDef
from cdcwb.formats.goldengate.layout import Coding, How
from cdcwb.formats.goldengate.versions import Version
from cdcwb.formats.requests import FROM_EVENTS, common_types, images_of, no_table, request_schema, versions_of
from cdcwb.formats.text_values import cast_each, parsed
from cdcwb.model import Kind, Operation, Problem

__all__ = [
    "BodyValue", "ColumnTexts", "arrow_type", "column_types", "decoded", "texts", "typed_rows", "typed_texts",
    "value_of", "wanted_for",
]  # fmt: skip


class BodyValue(NamedTuple):
    """One value. ``problem``: its error, or None."""

    text: str
    problem: Problem | None = None
    sentence: str = ""


class ColumnTexts(NamedTuple):
    """The values of a column: ``array`` of strings, null for SQL NULL; ``problems`` as (index in the array, code,
    sentence)."""

    array: pa.Array
    problems: list[tuple[int, Problem, str]]


def texts(
    buffer: Bytes, start: Ints, stop: Ints, is_null: Bools, how: Coding, charset: str = "utf-8", order: Order = "little"
) -> ColumnTexts:
    """The values ``[start, stop)`` of a buffer, all of columns with the same coding, as text. ``is_null``: whether the
    value is SQL NULL. ``order`` is that of the length of a text, ``charset`` the database's, by Python's name.
    """
    if abs(how.scale) > _MOST_SCALE:  # no type has so many digits
        how = Coding(How.UNKNOWN)
    values = _Values(np.ascontiguousarray(buffer), start, stop, ~is_null, how, how.charset or charset, order)
    parts = values.parts() or [pa.nulls(len(start), pa.string())]
    array = parts[0] if len(parts) == 1 else pc.coalesce(*parts)
    if array.null_count == np.count_nonzero(is_null):
        return ColumnTexts(array, [])
    is_unread = values.there & as_array(array.is_null())
    others = {row: values.fallback(row) for row in np.flatnonzero(is_unread).tolist()}
    array = pc.replace_with_mask(array, pa.array(is_unread), text_array([one.text for one in others.values()]))
    return ColumnTexts(array, [(row, one.problem, one.sentence) for row, one in others.items() if one.problem])


def value_of(raw: bytes, how: Coding, order: Order, charset: str = "utf-8") -> BodyValue:
    """One value that is not NULL, from its bytes after the null indicator; see :func:`texts`. Never raises."""
    at = np.zeros(1, dtype=np.int64)
    found = texts(np.frombuffer(raw, np.uint8), at, at + len(raw), at > 0, how, charset, order)
    return BodyValue(found.array[0].as_py(), *(found.problems[0][1:] if found.problems else ()))


_MOST_SCALE: Final = 4096
_SPACE, _TILDE = b" ~"
_MOMENT: Final = r"^\d{4}-\d\d-\d\d(?:[: T].{8,29})?$"
_NUMERIC: Final = (How.INTEGER, How.FLOAT, How.DECIMAL)


class _Values:
    """The bytes of the values of one coding. ``there``: not NULL; ``size``: bytes of each; ``prefixed``: it begins with
    its length; ``begin``: its first byte after that. The arrays that methods return are null where a value is not read
    in that way.
    """

    def __init__(
        self, buffer: Bytes, start: Ints, stop: Ints, there: Bools, how: Coding, charset: str, order: Order
    ) -> None:
        self.buffer, self.start, self.stop, self.there = buffer, start, stop, there
        self.how, self.charset, self.order = how, charset, order
        self.size = stop - start
        self.prefixed = there & (self.size >= 2)
        if self.prefixed.any():
            self.prefixed &= self._numbers(self.prefixed, 2, "<u2" if order == "little" else ">u2") == self.size - 2
        self.begin = start + 2 * self.prefixed

    def parts(self) -> list[pa.Array]:
        """Texts whose union is all valid values."""
        how, there, size = self.how, self.there, self.size
        match how.how:
            case How.GUESS | How.GUESS_FIXED:
                return self._guesses(how.how is How.GUESS_FIXED)
            case How.TEXT:
                return [self._decoded(self._raw(self.prefixed))]
            case How.FIXED_TEXT:
                return [pc.ascii_rtrim(self._decoded(self._raw(self.prefixed | (there & (size == how.size)))), " ")]
            case How.INTEGER:
                return [self._integers(there & (size == how.size), how.size)]
            case How.FLOAT:
                sizes = [(width, where) for width in (4, 8) if (where := there & (size == width)).any()]
                found = [pa.array(self._numbers(where, width, f">f{width}"), mask=~where) for width, where in sizes]
                return [pc.cast(one, pa.string()) for one in found]
            case How.DECIMAL:
                return []
            case How.MOMENT:
                raw = self._raw(there & (self.stop > self.begin))
                return [_only(raw, _within(raw, _SPACE, _TILDE)).cast(pa.string())]
            case How.BINARY:
                return [self._hex(self.prefixed)]
        if not (may_be_text := self.prefixed & (size > 2)).any():
            return [self._hex(there, self.start)]
        text = self._decoded(self._raw(may_be_text))
        return [text, self._hex(there & as_array(text.is_null()), self.start)]

    def fallback(self, row: int) -> BodyValue:
        """A value that is not of its type: a number in text form, or hex with a problem."""
        how = self.how
        raw = self.buffer[self.start[row] : self.stop[row]].tobytes()
        if how.how in _NUMERIC and self.prefixed[row]:
            with suppress(ValueError):
                float(text := raw[2:].decode("latin-1"))
                return BodyValue(text)
        if how.how is How.GUESS_FIXED and (text := decoded(raw, self.charset) or "\0").isprintable():
            return BodyValue(text.rstrip(" "))
        sentence = {
            How.INTEGER: f"expected an integer of {how.size} bytes, found {len(raw)}",
            How.FLOAT: f"expected a number of 4 or 8 bytes, found {len(raw)}",
            How.DECIMAL: "zoned and packed decimals are not decoded; their bytes are in the column raw",
            How.MOMENT: "expected a date or time as text, found other bytes",
            How.GUESS_FIXED: f"expected text, a date or an integer of 2, 4 or 8 bytes, found {raw.hex():.40}",
        }.get(how.how)
        if sentence is None and (self.prefixed[row] or (how.how is How.FIXED_TEXT and len(raw) == how.size)):
            text = raw[self.begin[row] - self.start[row] :].hex()
            return BodyValue(text, Problem.CHARSET, f"expected text in {self.charset}, found other bytes")
        if len(raw) < 2:
            sentence = sentence or f"expected a length of 2 bytes, found {len(raw)}"
        length = int.from_bytes(raw[:2], self.order)
        sentence = sentence or f"expected {length} bytes by their length prefix, found {len(raw) - 2}"
        return BodyValue(raw.hex(), Problem.VALUE, sentence)

    def _guesses(self, fixed: bool) -> list[pa.Array]:
        """Values of columns that have no definition (§4.7); of a NonStop's, ``fixed``, also text without a length, and
        numbers of two bytes (§4.8)."""
        size = self.size
        raw = self._raw(self.prefixed)
        may_be_number = ((size == 4) | (size == 8)) & self.prefixed
        if may_be_number.any():
            raw = _only(raw, ~may_be_number | _within(raw, _SPACE, 255))
        parts = [self._decoded(raw)]
        rest = self.there & as_array(parts[0].is_null())
        if not rest.any():
            return parts
        raw = self._raw(rest, self.start)
        is_moment = as_array(pc.match_substring_regex(raw, _MOMENT).fill_null(False))
        is_text = rest & _within(raw, _SPACE, _TILDE) & (fixed | (size == 0) | is_moment)
        if is_text.any():
            text = _only(raw, is_text).cast(pa.string())
            parts.append(pc.if_else(pa.array(is_moment), text, pc.ascii_rtrim(text, " ")))
            rest &= ~is_text
        for width in (2, 4, 8)[not fixed :]:
            if (where := rest & (size == width)).any():
                parts.append(self._integers(where, width))
                rest &= ~where
        if rest.any() and not fixed:
            parts.append(self._hex(rest, self.start))
        return parts

    def _raw(self, where: Bools, begin: Ints | None = None) -> pa.Array:
        """The bytes of some values, from ``begin`` (None: after their length)."""
        start = self.begin if begin is None else begin
        return gather(pa.binary(), self.buffer, start, self.stop, None if where.all() else where)

    def _hex(self, where: Bools, begin: Ints | None = None) -> pa.Array:
        """Bytes as hex."""
        raw = self._raw(where, begin)
        content, at = content_of(raw)
        offsets, digits = pa.py_buffer(2 * at.astype(np.int32)), pa.py_buffer(hex_digits(content))
        return pa.Array.from_buffers(pa.string(), len(raw), [raw.buffers()[0], offsets, digits])

    def _decoded(self, raw: pa.Array) -> pa.Array:
        """Bytes as text in the character set."""
        if self.charset.lower() in ("utf-8", "utf8", "utf_8"):
            with suppress(pa.ArrowInvalid):
                return raw.cast(pa.string())
        different = raw.dictionary_encode()
        found = text_array([decoded(one, self.charset) for one in different.dictionary.to_pylist()])
        return found.take(different.indices)

    def _numbers(self, where: Bools, size: int, kind: str) -> npt.NDArray[Any]:
        """The first bytes of some values as numbers of a NumPy type; 0 for the others."""
        out = np.zeros(len(where), dtype=np.dtype(kind).newbyteorder("="))
        out[where] = bytes_of(self.buffer, self.start[where], size).view(kind).reshape(-1)
        return out

    def _integers(self, where: Bools, size: int) -> pa.Array:
        """Big-endian numbers of 1, 2, 4 or 8 bytes, with their scale."""
        number, scale = self._numbers(where, size, f">{'i' if self.how.signed else 'u'}{size}"), self.how.scale
        if scale == 0:
            return integers(number, ~where)
        if scale < 0:
            text = integers(number, ~where)
            return pc.if_else(pa.array(number == 0), text, pc.binary_join_element_wise(text, "0" * -scale, ""))
        negative, whole = number < 0, number.astype(np.uint64)
        digits = pc.ascii_lpad(integers(np.where(negative, 0 - whole, whole), ~where), scale + 1, "0")
        sign = pc.if_else(pa.array(negative), "-", "")
        return pc.binary_join_element_wise(sign, pc.binary_replace_slice(digits, -scale, -scale, "."), "")


def _within(raw: pa.Array, low: int, high: int) -> Bools:
    """Values that have no byte outside of a range."""
    content, at = content_of(raw)
    out = np.ones(len(raw), dtype=np.bool_)
    out[np.searchsorted(at, np.flatnonzero(content - np.uint8(low) > high - low), side="right") - 1] = False
    return out


def _only(values: pa.Array, where: Bools) -> pa.Array:
    """Some values; null for the others."""
    return values if where.all() else pc.if_else(pa.array(where), values, None)


def decoded(raw: bytes, charset: str) -> str | None:
    """Text in a character set; None if undecodable."""
    try:  # suppress() would take as long as the decoding
        return raw.decode(charset)
    except (UnicodeError, LookupError):
        return None


# --- typed tables -----------------------------------------------------------------------------------------------------

_DATE, _CLOCK = 10, 19  # characters of a date, and of one with its time
_MICROS: Final = 26  # characters up to the sixth digit of the fraction
_DT_YEAR, _DT_DAY, _DT_HOUR = 0, 2, 3
_KINDS: Final = frozenset(map(str, (Kind.CHANGE, Kind.BEFORE, Kind.AFTER)))
_OPERATIONS: Final = list(map(str, (Operation.INSERT, Operation.UPDATE, Operation.DELETE)))


def arrow_type(column: ColumnDef | None) -> pa.DataType:
    """The type of a column in typed tables.

    Numbers in text form stay text, as their precision is unknown; so do times of day, intervals, times with a zone, and
    columns without a definition.
    """
    how = Coding(How.UNKNOWN) if column is None else column.coding
    match how.how:
        case How.INTEGER if how.scale > 0:
            return pa.decimal128(max({2: 5, 4: 10}.get(how.size, 20), how.scale), how.scale)
        case How.INTEGER if how.scale < 0 or (how.size == 8 and not how.signed):
            return pa.decimal128(38, 0)
        case How.INTEGER:
            return pa.int32() if how.size < 4 or (how.size == 4 and how.signed) else pa.int64()
        case How.FLOAT:
            return pa.float32() if how.size == 4 else pa.float64()
        case How.BINARY:
            return pa.binary()
        case How.LOB if column and not column.is_text_lob:
            return pa.binary()
        case How.MOMENT if column and column.data_type in (191, 192) and column.most_significant_dt == _DT_YEAR:
            if column.external_length == _DATE or (0 < column.least_significant_dt <= _DT_DAY):
                return pa.date32()
            if column.least_significant_dt >= _DT_HOUR and column.external_length <= _CLOCK + 10:
                return pa.timestamp("us")
    return pa.string()


def column_types(known: Sequence[Version], request: TableRequest) -> dict[str, pa.DataType]:
    """The requested columns; text if their type is unknown, or differs between versions. Raises CaptureError, which
    lists the known ones, for an unknown table or column."""
    versions = [one for one in known if request.name in (one.table, one.full_name)]
    if not versions:
        raise no_table(request, (one.full_name for one in known))
    return common_types((one for version in versions_of(versions, request) for one in _typed(version)), request)


def _typed(version: Version) -> Iterator[tuple[str, pa.DataType]]:
    """The columns of a version with their types."""
    definition = version.definition
    names, columns = (version.names, ()) if definition is None else (definition.names, definition.columns)
    for name, column in zip(names, columns or [None] * len(names), strict=True):
        yield name, arrow_type(column)


def wanted_for(request: TableRequest) -> Wanted:
    """The events of a table's rows."""
    return Wanted(kinds=_KINDS, tables=frozenset({request.name}))


def typed_rows(
    events: Iterable[pa.RecordBatch], request: TableRequest, types: Mapping[str, pa.DataType]
) -> Iterator[pa.RecordBatch]:
    """The rows of one table from its events; null if a text is not a value of its column's type, and if a column is not
    in the image."""
    schema = request_schema(types, request)
    for every in events:
        batch = every.filter(pc.is_in(every.column("operation"), value_set=pa.array(_OPERATIONS)))
        arrays = [batch.column(name) for name in FROM_EVENTS]
        arrays += [_struct(batch.column(name), types) for name in images_of(request)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _struct(maps: pa.MapArray, types: Mapping[str, pa.DataType]) -> pa.StructArray:
    columns = [typed_texts(lookup(maps, name), kind) for name, kind in types.items()]
    return pa.StructArray.from_arrays(columns, fields=list(map(pa.field, types, types.values())), mask=pc.is_null(maps))


def typed_texts(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Texts of values as values of a type; null if invalid. Dates in Logdump's form, with a colon between day and hour,
    are truncated to the digits of the type."""
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return parsed(texts, kind)
    if pa.types.is_temporal(kind):
        day = pc.utf8_slice_codeunits(texts, 0, _DATE)
        clock = pc.utf8_slice_codeunits(texts, _DATE + 1, _DATE if pa.types.is_date(kind) else _MICROS)
        texts = pc.if_else(pc.equal(clock, ""), day, pc.binary_join_element_wise(day, clock, " "))
    return cast_each(texts, kind)
