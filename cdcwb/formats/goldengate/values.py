"""Column values to text, column-wise (docs/formats/goldengate.md §4.6).

:func:`texts` does a whole column without a Python object per value and gives the few values that are not as their type
says to :func:`cdcwb.formats.goldengate.one_value.value_of`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays.texts import as_text, bytes_of, hex_digits, integers, slices
from cdcwb.formats.goldengate.body import Bools, Bytes, Ints, Order
from cdcwb.formats.goldengate.datatypes import GUESS, Coding, How
from cdcwb.formats.goldengate.definitions import ColumnDef
from cdcwb.formats.goldengate.one_value import (
    CLOCK,
    DATE,
    INT32,
    INT64,
    LONGEST_MOMENT,
    Kind,
    Value,
    decoded,
    nullable_value,
    printable,
    scaled,
    value_of,
)
from cdcwb.model import Problem

__all__ = ["Kind", "Texts", "Value", "coding", "nullable_texts", "nullable_value", "texts", "value_of", "whole_numbers"]

Kinds = npt.NDArray[np.int8]

_MOST_SCALE: Final = 18


class Texts(NamedTuple):
    """The values of a column: ``array`` of strings, null for SQL NULL; ``kinds``, int8, one of :class:`Kind` for each;
    ``problems`` as (place in the array, code, sentence)."""

    array: pa.Array
    kinds: Kinds
    problems: list[tuple[int, Problem, str]]


def coding(column: ColumnDef | None) -> Coding:
    """How the values of a column are written; that they are to be guessed, where it has no definition."""
    return GUESS if column is None else column.coding


# --- whole columns ----------------------------------------------------------------------------------------------------


def texts(
    buffer: Bytes,
    start: Ints,
    stop: Ints,
    is_null: Bools,
    column: ColumnDef | Coding | None,
    charset: str = "utf-8",
    order: Order = "little",
) -> Texts:
    """The values ``[start, stop)`` of a buffer, all of one column or of columns that are written alike, as text.

    ``column``: its definition or coding; None: guessed, value by value. ``is_null``: is the value SQL NULL?
    """
    how = column if isinstance(column, Coding) else coding(column)
    if len(start) == 0:
        return Texts(pa.array([], pa.string()), np.zeros(0, dtype=np.int8), [])
    if len(start) > 1 and bool((start[1:] < stop[:-1]).any()):
        return _unsorted(buffer, start, stop, is_null, how, charset, order)
    return _Column(buffer, start, stop, is_null, how, how.charset or charset, order).texts()


def nullable_texts(
    buffer: Bytes, start: Ints, stop: Ints, how: Coding, charset: str = "utf-8", order: Order = "little"
) -> Texts:
    """The same from all bytes of columns that have a null indicator only if they may be NULL, as
    :func:`cdcwb.formats.goldengate.one_value.nullable_value` reads one."""
    rest = np.zeros(len(start), dtype=np.bool_)
    if how.how not in (How.GUESS, How.GUESS_FIXED) and len(buffer) >= 2:
        words = np.ndarray((len(buffer) - 1,), "<u2", np.ascontiguousarray(buffer), strides=(1,))
        size = stop - start
        word = np.where(size >= 2, words[np.minimum(start, len(words) - 1)], 1)
        rest = (word != 0) & (word != 0xFFFF)
        if how.how is How.INTEGER:
            rest |= (size == how.size) & ((size > 2) | (word == 0))
    many, few = np.flatnonzero(rest), np.flatnonzero(~rest)
    found = texts(buffer, start[many], stop[many], np.zeros(len(many), dtype=np.bool_), how, charset, order)
    values = [nullable_value(buffer[start[row] : stop[row]].tobytes(), how, order, charset)[0] for row in few.tolist()]
    back = np.empty(len(start), dtype=np.int64)
    back[many], back[few] = np.arange(len(many)), len(many) + np.arange(len(few))
    one_by_one = _plain([None if one.kind is Kind.NULL else one for one in values])
    problems = [(int(many[at]), code, sentence) for at, code, sentence in found.problems]
    problems += [(int(few[at]), code, sentence) for at, code, sentence in one_by_one.problems]
    array = pa.concat_arrays([found.array, one_by_one.array]).take(pa.array(back))
    return Texts(array, np.concatenate([found.kinds, one_by_one.kinds])[back], sorted(problems))


def _unsorted(buffer: Bytes, start: Ints, stop: Ints, is_null: Bools, how: Coding, charset: str, order: Order) -> Texts:
    """Values that lie in the buffer in another order than in the column, or overlap."""
    by_start = np.argsort(start, kind="stable")
    back = np.empty(len(start), dtype=np.int64)
    back[by_start] = np.arange(len(start))
    first, last, null = start[by_start], stop[by_start], is_null[by_start]
    if bool((first[1:] < last[:-1]).any()):
        values = [
            None if null[k] else value_of(buffer[first[k] : last[k]].tobytes(), how, order, charset)
            for k in range(len(first))
        ]
        found = _plain(values)
    else:
        found = _Column(buffer, first, last, null, how, how.charset or charset, order).texts()
    problems = sorted((int(by_start[place]), code, sentence) for place, code, sentence in found.problems)
    return Texts(found.array.take(pa.array(back)), found.kinds[back], problems)


def _plain(values: Sequence[Value | None]) -> Texts:
    kinds = np.array([Kind.NULL if one is None else one.kind for one in values], dtype=np.int8)
    problems = [(k, one.problem, one.sentence) for k, one in enumerate(values) if one and one.problem is not None]
    return Texts(pa.array([None if one is None else one.text for one in values], pa.string()), kinds, problems)


class _Column:
    """Values of one coding. Parts that are read side by side, and the rows of each, are put together at the end."""

    def __init__(
        self, buffer: Bytes, start: Ints, stop: Ints, is_null: Bools, how: Coding, charset: str, order: Order
    ) -> None:
        self.buffer = buffer
        self.start = start
        self.stop = stop
        self.null = is_null
        self.how = how
        self.charset = charset
        self.order: Order = order
        self.size = np.where(is_null, -1, stop - start)
        self.kinds: Kinds = np.zeros(len(start), dtype=np.int8)
        self.parts: list[tuple[Ints | None, pa.Array]] = []  # rows None: all
        self.problems: list[tuple[int, Problem, str]] = []

    def texts(self) -> Texts:
        how = self.how.how
        rest: Bools
        if how is How.GUESS:
            rest = self._guesses()
        elif how in (How.TEXT, How.FIXED_TEXT):
            rest = self._slice(self._prefixed(), 2, Kind.TEXT)
        elif how is How.INTEGER:
            rest = self._integers(self.size == self.how.size, self.how)
        elif how is How.FLOAT:
            rest = self._floats(4) & self._floats(8)
        elif how is How.MOMENT:
            rest = self._slice((self.size > 2) & ~self._prefixed(), 0, Kind.MOMENT)
        elif how is How.BINARY:
            rest = self._hex(self._prefixed(), 2, Kind.BINARY)
        elif how in (How.LOB, How.UNKNOWN):
            rest = self._hex((self.size >= 0) & ~self._prefixed(), 0, Kind.BINARY)
        else:
            rest = ~self.null
        self._one_by_one(np.flatnonzero(rest & ~self.null))
        return Texts(self._put_together(), self.kinds, self.problems)

    # every step takes the rows that it may read and gives those that are still to be read

    def _prefixed(self) -> Bools:
        """Rows that begin with the length of what follows."""
        if len(self.buffer) < 2:
            return np.zeros(len(self.start), dtype=bool)
        words = np.ndarray(
            (len(self.buffer) - 1,),
            dtype="<u2" if self.order == "little" else ">u2",
            buffer=np.ascontiguousarray(self.buffer),
            strides=(1,),
        )
        fits: Bools = words[np.minimum(self.start, len(words) - 1)] == self.size - 2
        return fits

    def _slice(self, rows: Bools, skip: int, kind: Kind) -> Bools:
        """Text that stands in the buffer behind ``skip`` bytes."""
        if not rows.any():
            return ~rows
        begin = np.where(rows, self.start + skip, self.stop)
        raw = slices(self.buffer, begin, self.stop, ~rows)
        if kind is Kind.MOMENT:
            text, good = _ascii(raw, rows)
        else:
            text, good = _as_charset(raw, rows, self.charset)
        if self.how.how is How.FIXED_TEXT:
            text = pc.ascii_rtrim(text, " ")
        self._add(good, text, kind)
        return ~good

    def _hex(self, rows: Bools, skip: int, kind: Kind) -> Bools:
        if not rows.any():
            return ~rows
        begin = np.where(rows, self.start + skip, self.stop)
        self._add(rows, _hex_of(slices(self.buffer, begin, self.stop, ~rows)), kind)
        return ~rows

    def _bytes(self, rows: Ints, size: int) -> Bytes:
        return bytes_of(np.ascontiguousarray(self.buffer), self.start[rows], size)

    def _integers(self, rows: Bools, how: Coding) -> Bools:
        chosen = np.flatnonzero(rows)
        if not len(chosen):
            return ~rows
        numbers = whole_numbers(self._bytes(chosen, how.size), how.signed)
        self._add(rows, _number_texts(numbers, how.scale), Kind.NUMBER, chosen)
        return ~rows

    def _floats(self, size: int) -> Bools:
        rows: Bools = self.size == size
        chosen = np.flatnonzero(rows)
        if not len(chosen):
            return ~rows
        numbers = self._bytes(chosen, size).view(f">f{size}").reshape(-1).astype(f"f{size}")
        self._add(rows, pc.cast(pa.array(numbers), pa.string()), Kind.NUMBER, chosen)
        return ~rows

    def _guesses(self) -> Bools:
        left = self.size > 0
        text = self._prefixed() & left
        for size in (INT32, INT64):
            doubtful = np.flatnonzero(text & (self.size == size))
            text[doubtful[(self._bytes(doubtful, size)[:, 2:] < 0x20).any(axis=1)]] = False
        left &= self._slice(text, 2, Kind.TEXT)
        moment = self._moments(left)
        left &= self._slice(moment, 0, Kind.MOMENT)
        for size in (INT32, INT64):
            left &= self._integers(left & (self.size == size), Coding(How.INTEGER, size))
        self._hex(left, 0, Kind.HEX)
        empty = self.size == 0
        self._slice(empty, 0, Kind.TEXT)
        return np.zeros(len(left), dtype=bool)

    def _moments(self, rows: Bools) -> Bools:
        """Rows that look like dates: digits and dashes where a date has them."""
        fits: Bools = rows & ((self.size == DATE) | ((self.size >= CLOCK) & (self.size <= LONGEST_MOMENT)))
        chosen = np.flatnonzero(fits)
        there = self._bytes(chosen, DATE)
        digit = (there >= 0x30) & (there <= 0x39)
        good = digit[:, [0, 1, 2, 3, 5, 6, 8, 9]].all(axis=1) & (there[:, [4, 7]] == ord("-")).all(axis=1)
        longer = np.flatnonzero(self.size[chosen] > DATE)
        good[longer] &= np.isin(self.buffer[self.start[chosen[longer]] + DATE], np.frombuffer(b": T", dtype=np.uint8))
        fits[chosen] = good
        return fits

    def _one_by_one(self, rows: Ints) -> None:
        if not len(rows):
            return
        found = [
            value_of(self.buffer[self.start[row] : self.stop[row]].tobytes(), self.how, self.order, self.charset)
            for row in rows
        ]
        self.parts.append((rows, pa.array([one.text for one in found], pa.string())))
        self.kinds[rows] = [one.kind for one in found]
        self.problems += [
            (int(row), one.problem, one.sentence)
            for row, one in zip(rows, found, strict=True)
            if one.problem is not None
        ]

    def _add(self, rows: Bools, text: pa.Array, kind: Kind, chosen: Ints | None = None) -> None:
        """Texts of some rows: of ``chosen`` alone, else one for each row of the column."""
        self.kinds[rows] = kind
        if chosen is None:
            self.parts.append((None if bool((rows | self.null).all()) else np.flatnonzero(rows), text))
        elif len(chosen) == len(self.start):
            self.parts.append((None, text))
        elif len(chosen):
            self.parts.append((-1 - chosen, text))

    def _put_together(self) -> pa.Array:
        count = len(self.start)
        for rows, text in self.parts:
            if rows is None:
                return text
        index = np.full(count, -1, dtype=np.int64)
        size = 0
        arrays = []
        for rows, text in self.parts:
            if rows is None or not len(rows):
                continue
            if rows[0] < 0:
                index[-1 - rows] = size + np.arange(len(rows))
            elif len(text) == count:
                index[rows] = size + rows
            else:
                index[rows] = size + np.arange(len(rows))
            arrays.append(text)
            size += len(text)
        if not arrays:
            return pa.nulls(count, pa.string())
        return pa.concat_arrays(arrays).take(pa.array(index, mask=index < 0))


def whole_numbers(matrix: Bytes, signed: bool) -> npt.NDArray[np.integer]:
    """Rows of 2, 4 or 8 bytes as numbers; unsigned ones of 8 bytes stay unsigned, all others are int64."""
    size = matrix.shape[1]
    numbers = matrix.reshape(-1).view(f">{'i' if signed else 'u'}{size}")
    return numbers.astype(np.uint64 if size == INT64 and not signed else np.int64)


def _number_texts(numbers: npt.NDArray[np.integer], scale: int) -> pa.Array:
    """Whole numbers as text with ``scale`` digits behind the point."""
    if scale == 0:
        if numbers.dtype == np.uint64:
            return pc.cast(pa.array(numbers), pa.string())
        return integers(numbers.astype(np.int64, copy=False))
    if not 0 < scale <= _MOST_SCALE:
        return pa.array([scaled(int(number), scale) for number in numbers], pa.string())
    negative = numbers < 0
    size = np.where(negative, -numbers, numbers).astype(np.uint64)
    power = np.uint64(10**scale)
    whole = pc.cast(pa.array(size // power), pa.string())
    if negative.any():
        minus = pa.array(["", "-"]).take(pa.array(negative.astype(np.int8)))
        whole = pc.binary_join_element_wise(minus, whole, "")
    behind = pc.cast(pa.array(size % power + power), pa.string())  # a one in front keeps the zeros
    return pc.binary_join_element_wise(whole, pc.utf8_slice_codeunits(behind, 1), ".")


def _ascii(raw: pa.Array, rows: Bools) -> tuple[pa.Array, Bools]:
    """Bytes that are all printable ASCII, as text; and which rows are."""
    data = _data(raw)
    if not len(data) or (int(data.min()) >= 0x20 and int(data.max()) < 0x7F):
        return as_text(raw), rows
    wrong = np.array([one is not None and not printable(one) for one in raw.to_pylist()])
    good = rows & ~wrong
    return as_text(pc.if_else(pa.array(good), raw, pa.scalar(None, pa.binary()))), good


def _data(raw: pa.Array) -> Bytes:
    """The bytes of all values of a binary array, one behind the other."""
    offsets = np.frombuffer(raw.buffers()[1], dtype=np.int32)[raw.offset : raw.offset + len(raw) + 1]
    data = raw.buffers()[2]
    if data is None:
        return np.zeros(0, dtype=np.uint8)
    return np.frombuffer(data, dtype=np.uint8)[offsets[0] : offsets[-1]]


def _hex_of(raw: pa.Array) -> pa.Array:
    """A binary array as hexadecimal digits."""
    offsets = np.frombuffer(raw.buffers()[1], dtype=np.int32)[raw.offset : raw.offset + len(raw) + 1]
    digits = hex_digits(_data(raw).reshape(1, -1)).reshape(-1)
    places = (2 * (offsets.astype(np.int64) - offsets[0])).astype(np.int32)
    text = pa.Array.from_buffers(pa.string(), len(raw), [None, pa.py_buffer(places), pa.py_buffer(digits)])
    return pc.if_else(raw.is_valid(), text, pa.scalar(None, pa.string())) if raw.null_count else text


def _as_charset(raw: pa.Array, rows: Bools, charset: str) -> tuple[pa.Array, Bools]:
    """Bytes in a character set as text; and which rows are text in it."""
    codec = charset.lower().replace("_", "-")
    data = _data(raw)
    plain = not len(data) or int(data.max()) < 0x80
    if codec in ("utf-8", "utf8", "ascii", "us-ascii") or (plain and codec in _ASCII_BASED):
        if plain:
            return as_text(raw), rows
        if codec.startswith("utf"):
            try:
                return pc.cast(raw, pa.string()), rows
            except pa.ArrowInvalid:
                pass
    different = pc.dictionary_encode(raw)
    found = [decoded(one, charset) for one in different.dictionary.to_pylist()]
    text = pa.array(found, pa.string()).take(different.indices)
    return text, rows & np.asarray(text.is_valid())


_ASCII_BASED: Final = frozenset(
    {"latin-1", "iso-8859-1", "iso-8859-15", "cp1252", "windows-1252", "gbk", "gb18030", "gb2312", "cp1251", "big5"}
    | {"shift-jis", "cp932", "euc-jp", "euc-kr", "cp949", "koi8-r", "cp1250", "iso-8859-2", "latin-9"}
)
"""Character sets in which bytes below 0x80 are ASCII, wherever they stand alone."""
