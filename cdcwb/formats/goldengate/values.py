"""Decodes column values to text without loss (docs/formats/goldengate.md §4.6), all values of one coding at once with
NumPy and Arrow. Bytes that are not a value of their type become lower-case hex with a problem; the type of a column
without a definition is inferred from its bytes, without a problem (§4.7).
"""

from __future__ import annotations

from contextlib import suppress
from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import as_array, bytes_of, content_of, from_matrix, gather, hex_digits, integers, text_array
from cdcwb.formats.goldengate.contents import Bools, Bytes, Ints, Order
from cdcwb.formats.goldengate.layout import Coding, How
from cdcwb.model import Problem

__all__ = ["Kind", "Texts", "Value", "texts", "value_of"]


class Kind(IntEnum):
    """The kinds of decoded values."""

    NULL = 0
    TEXT = 1
    NUMBER = 2
    MOMENT = 3
    BINARY = 4
    """Hex of bytes that are no text by their type."""
    HEX = 5
    """Hex of bytes that could not be read."""


class Value(NamedTuple):
    """One value. ``problem``: its error, or None."""

    text: str
    kind: Kind
    problem: Problem | None = None
    sentence: str = ""


class Texts(NamedTuple):
    """The values of a column: ``array`` of strings, null for SQL NULL; ``kinds``, int8, one of :class:`Kind` for each;
    ``problems`` as (index in the array, code, sentence)."""

    array: pa.Array
    kinds: npt.NDArray[np.int8]
    problems: list[tuple[int, Problem, str]]


def texts(
    buffer: Bytes, start: Ints, stop: Ints, is_null: Bools, how: Coding, charset: str = "utf-8", order: Order = "little"
) -> Texts:
    """The values ``[start, stop)`` of a buffer, all of columns with the same coding, as text. ``is_null``: whether the
    value is SQL NULL. ``order`` is that of the length of a text, ``charset`` the database's, by Python's name.
    """
    if abs(how.scale) > _MOST_SCALE:  # no type has so many digits
        how = Coding(How.UNKNOWN)
    values = _Values(np.ascontiguousarray(buffer), start, stop, ~is_null, how, how.charset or charset, order)
    parts = values.parts() or [(Kind.NULL, pa.nulls(len(start), pa.string()))]
    array = parts[0][1] if len(parts) == 1 else pc.coalesce(*(part for _, part in parts))
    kinds = np.zeros(len(start), dtype=np.int8)
    for kind, part in parts:
        kinds[as_array(part.is_valid()) if part.null_count else slice(None)] = kind
    is_unread = values.there & (kinds == Kind.NULL)
    if not is_unread.any():
        return Texts(array, kinds, [])
    unread = np.flatnonzero(is_unread)
    others = [values.fallback(row) for row in unread.tolist()]
    kinds[unread] = [one.kind for one in others]
    array = pc.replace_with_mask(array, pa.array(is_unread), text_array([one.text for one in others]))
    found = [(row, one.problem, one.sentence) for row, one in zip(unread.tolist(), others, strict=True) if one.problem]
    return Texts(array, kinds, found)


def value_of(raw: bytes, how: Coding, order: Order, charset: str = "utf-8") -> Value:
    """One value that is not NULL, from its bytes after the null indicator; see :func:`texts`. Never raises."""
    at = np.zeros(1, dtype=np.int64)
    found = texts(np.frombuffer(raw, np.uint8), at, at + len(raw), at > 0, how, charset, order)
    (problem, sentence), *_ = *((code, said) for _, code, said in found.problems), (None, "")
    return Value(found.array[0].as_py(), Kind(found.kinds[0]), problem, sentence)


_MOST_SCALE: Final = 4096
_UTF_8: Final = ("utf-8", "utf8", "utf_8")
_SPACE, _TILDE, _ZERO, _DASH = b" ~0-"
_DATE: Final = 10  # characters of a date
_DASHES: Final = [4, 7]  # where it has a dash
_CLOCK: Final = (19, 40)  # least and most characters of a date with its time
_NUMERIC: Final = (How.INTEGER, How.FLOAT, How.DECIMAL)
_Parts = list[tuple[Kind, pa.Array]]


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
            length = self._numbers(self.prefixed, 2, "<u2" if order == "little" else ">u2")
            self.prefixed &= length == self.size - 2
        self.begin = start + 2 * self.prefixed

    def parts(self) -> _Parts:
        """The kinds of values that occur, with their texts, whose union is all valid values."""
        how, there, size = self.how, self.there, self.size
        match how.how:
            case How.GUESS | How.GUESS_FIXED:
                return self._guesses(how.how is How.GUESS_FIXED)
            case How.TEXT:
                return [(Kind.TEXT, self._decoded(self._raw(self.prefixed)))]
            case How.FIXED_TEXT:
                text = self._decoded(self._raw(self.prefixed | (there & (size == how.size))))
                return [(Kind.TEXT, pc.ascii_rtrim(text, " "))]
            case How.INTEGER:
                return [(Kind.NUMBER, self._integers(there & (size == how.size), how.size))]
            case How.FLOAT:
                widths = [(width, there & (size == width)) for width in (4, 8)]
                return [(Kind.NUMBER, self._floats(where, width)) for width, where in widths if where.any()]
            case How.DECIMAL:
                return []
            case How.MOMENT:
                raw = self._raw(there & (self.stop > self.begin))
                return [(Kind.MOMENT, _only(raw, _within(raw, _SPACE, _TILDE)).cast(pa.string()))]
            case How.BINARY:
                return [(Kind.BINARY, self._hex(self.prefixed))]
        if not (may_be_text := self.prefixed & (size > 2)).any():
            return [(Kind.BINARY, self._hex(there, self.start))]
        text = self._decoded(self._raw(may_be_text))
        return [(Kind.TEXT, text), (Kind.BINARY, self._hex(there & as_array(text.is_null()), self.start))]

    def fallback(self, row: int) -> Value:
        """A value that is not of its type: a number in text form, or hex with a problem."""
        how, order = self.how, self.order
        raw = self.buffer[self.start[row] : self.stop[row]].tobytes()
        if how.how in _NUMERIC and self.prefixed[row] and _is_number(raw[2:]):
            return Value(raw[2:].decode("latin-1"), Kind.NUMBER)
        if how.how is How.GUESS_FIXED and (text := decoded(raw, self.charset) or "\0").isprintable():
            return Value(text.rstrip(" "), Kind.TEXT)
        sentence = {
            How.INTEGER: f"expected an integer of {how.size} bytes, found {len(raw)}",
            How.FLOAT: f"expected a number of 4 or 8 bytes, found {len(raw)}",
            How.DECIMAL: "zoned and packed decimals are not decoded; their bytes are in the column raw",
            How.MOMENT: "expected a date or time as text, found other bytes",
            How.GUESS_FIXED: f"expected text, a date or an integer of 2, 4 or 8 bytes, found {raw.hex():.40}",
        }.get(how.how)
        if sentence is None:
            if self.prefixed[row] or (how.how is How.FIXED_TEXT and len(raw) == how.size):
                sentence = f"expected text in {self.charset}, found other bytes"
                return Value(raw[self.begin[row] - self.start[row] :].hex(), Kind.HEX, Problem.CHARSET, sentence)
            length = int.from_bytes(raw[:2], order)
            sentence = f"expected {length} bytes by their length prefix, found {len(raw) - 2}"
            if len(raw) < 2:
                sentence = f"expected a length of 2 bytes, found {len(raw)}"
        kind = Kind.BINARY if how.how is How.BINARY else Kind.HEX
        return Value(raw.hex(), kind, Problem.VALUE, sentence)

    def _guesses(self, fixed: bool) -> _Parts:
        """Values of columns that have no definition (§4.7); of a NonStop's, ``fixed``, also text without a length, and
        numbers of two bytes (§4.8)."""
        size = self.size
        raw = self._raw(self.prefixed)
        may_be_number = ((size == 4) | (size == 8)) & self.prefixed
        if may_be_number.any():
            raw = _only(raw, ~may_be_number | _within(raw, _SPACE, 255))
        parts = [(Kind.TEXT, self._decoded(raw))]
        rest = self.there & as_array(parts[0][1].is_null())
        if not rest.any():
            return parts
        rows = np.flatnonzero(rest & ((size == _DATE) | ((size >= _CLOCK[0]) & (size <= _CLOCK[1]))))
        date = bytes_of(self.buffer, self.start[rows], _DATE)
        dated = (date[:, _DASHES] == _DASH).all(axis=1)
        date[:, _DASHES] = _ZERO
        dated &= (date - np.uint8(_ZERO) <= 9).all(axis=1)
        clock = self.buffer[np.minimum(self.start[rows] + _DATE, len(self.buffer) - 1)]
        dated &= (size[rows] == _DATE) | np.isin(clock, tuple(b": T"))
        is_moment = np.zeros(len(size), dtype=np.bool_)
        is_moment[rows[dated]] = True
        is_text = rest & (fixed | (size == 0) | is_moment)
        raw = self._raw(is_text, self.start)
        is_text &= _within(raw, _SPACE, _TILDE)
        is_moment &= is_text
        is_text &= ~is_moment
        rest &= ~is_moment & ~is_text
        if is_moment.any():
            parts.append((Kind.MOMENT, _only(raw, is_moment).cast(pa.string())))
        if is_text.any():
            parts.append((Kind.TEXT, pc.ascii_rtrim(_only(raw, is_text).cast(pa.string()), " ")))
        for width in (2, 4, 8)[not fixed :]:
            if (where := rest & (size == width)).any():
                parts.append((Kind.NUMBER, self._integers(where, width)))
                rest &= ~where
        if rest.any() and not fixed:
            parts.append((Kind.HEX, self._hex(rest, self.start)))
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
        if self.charset.lower() in _UTF_8:
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

    def _floats(self, where: Bools, size: int) -> pa.Array:
        return pc.cast(pa.array(self._numbers(where, size, f">f{size}"), mask=~where), pa.string())

    def _integers(self, where: Bools, size: int) -> pa.Array:
        """Big-endian numbers of 1, 2, 4 or 8 bytes, with their scale."""
        number = self._numbers(where, size, f">{'i' if self.how.signed else 'u'}{size}")
        if self.how.scale > 0:
            return _scaled(number, self.how.scale, ~where)
        text = integers(number, ~where)
        if self.how.scale == 0:
            return text
        return pc.if_else(pa.array(number == 0), text, pc.binary_join_element_wise(text, "0" * -self.how.scale, ""))


def _scaled(number: npt.NDArray[Any], scale: int, null: Bools) -> pa.Array:
    """Numbers with ``scale`` digits after the point."""
    negative = number < 0
    rest = np.where(negative, 0 - number.astype(np.uint64), number.astype(np.uint64))
    size = 1 + np.searchsorted(_TENS, rest, side="right")
    shown = np.maximum(size, scale + 1)
    last = int(shown.max(initial=scale)) + 1
    text = np.full((last + 1, len(number)), ord("."), dtype=np.uint8)
    for place in range(last - 1):
        left = rest // np.uint64(10)
        text[last - place - (place >= scale)] = rest - left * np.uint64(10) + _ZERO
        rest = left
    first = last - shown
    text[first[negative] - 1, np.flatnonzero(negative)] = _DASH
    return from_matrix(np.ascontiguousarray(text.T), first - negative, last + 1, null)


_TENS: Final = 10 ** np.arange(1, 20, dtype=np.uint64)


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


def _is_number(raw: bytes) -> bool:
    """Whether it is a number in text form."""
    with suppress(ValueError):
        float(raw.decode("latin-1"))
        return True
    return False
