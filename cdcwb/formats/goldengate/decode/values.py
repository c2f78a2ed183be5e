"""Column values to text that loses nothing, one and many at a time (docs/formats/goldengate.md §4.6).

Bytes that are no value of their type come back as lower-case hex with a problem, never as a guess; a column without a
definition is guessed by its bytes, without a problem. :func:`texts` does a whole column without a Python object per
value and gives the few values that are not as their type says to :func:`value_of`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays.texts import as_text, bytes_of, hex_digits, integers, slices
from cdcwb.formats.goldengate.decode import Bools, Bytes, Ints, Order
from cdcwb.formats.goldengate.decode.definitions import ColumnDef
from cdcwb.formats.goldengate.layout import GUESS, GUESS_FIXED, Coding, How
from cdcwb.model import Problem

__all__ = [
    "CLOCK",
    "DATE",
    "INT32",
    "INT64",
    "Kind",
    "Texts",
    "coding",
    "nullable_texts",
    "nullable_value",
    "texts",
    "value_of",
    "whole_numbers",
]


_INDICATOR: Final = 2
INT16: Final = 2
"""Bytes of a short integer."""
INT32: Final = 4
"""Bytes of an integer."""
INT64: Final = 8
"""Bytes of a long one."""
DATE: Final = 10
"""Characters of a date."""
CLOCK: Final = 19
"""Characters of a date with its time, without a fraction."""
LONGEST_MOMENT: Final = 40
"""Characters of a date with its time, fraction and zone, at most."""


class Kind(IntEnum):
    """What a value was read as."""

    NULL = 0
    TEXT = 1
    NUMBER = 2
    MOMENT = 3
    BINARY = 4
    """Hex of bytes that are no text by their type."""
    HEX = 5
    """Hex of bytes that could not be read."""


class Value(NamedTuple):
    """One value. ``problem``: what is wrong with it, None if nothing."""

    text: str
    kind: Kind
    problem: Problem | None = None
    sentence: str = ""


def value_of(raw: bytes, how: Coding, order: Order, charset: str = "utf-8") -> Value:
    """One value that is not NULL, from its bytes behind the null indicator. Never raises.

    ``order`` is that of the length before a text, ``charset`` the database's, as Python calls it.
    """
    charset = how.charset or charset
    prefixed = len(raw) >= 2 and int.from_bytes(raw[:2], order) == len(raw) - 2
    match how.how:
        case How.GUESS:
            return _guess(raw, prefixed, charset)
        case How.GUESS_FIXED:
            return _guess_fixed(raw, prefixed, charset)
        case How.TEXT | How.FIXED_TEXT:
            return _text_value(raw, how, prefixed, charset, order)
        case How.INTEGER:
            if len(raw) == how.size:
                return Value(scaled(int.from_bytes(raw, "big", signed=how.signed), how.scale), Kind.NUMBER)
            return _number_text(raw, prefixed, f"expected an integer of {how.size} bytes, found {len(raw)}")
        case How.FLOAT:
            if len(raw) in (4, 8):
                kind = pa.float32() if len(raw) == 4 else pa.float64()
                number = np.frombuffer(raw, dtype=f">f{len(raw)}")[0]
                return Value(pa.scalar(number.item(), kind).cast(pa.string()).as_py(), Kind.NUMBER)
            return _number_text(raw, prefixed, f"expected a number of 4 or 8 bytes, found {len(raw)}")
        case How.DECIMAL:
            return _zoned(raw, how, prefixed)
        case How.PACKED:
            return _packed(raw, how, prefixed)
        case How.MOMENT:
            there = raw[2:] if prefixed else raw
            if there and printable(there):
                return Value(there.decode("ascii"), Kind.MOMENT)
            return Value(raw.hex(), Kind.HEX, Problem.VALUE, "expected a date or time as text, found other bytes")
        case How.BINARY:
            if prefixed:
                return Value(raw[2:].hex(), Kind.BINARY)
            return Value(raw.hex(), Kind.BINARY, Problem.VALUE, _wrong_length(raw, order))
        case _:
            text = decoded(raw[2:], charset) if prefixed and len(raw) > 2 else None
            return Value(raw.hex(), Kind.BINARY) if text is None else Value(text, Kind.TEXT)


_NULL: Final = Value("", Kind.NULL)


def nullable_value(raw: bytes, how: Coding, order: Order, charset: str = "utf-8") -> tuple[Value, int]:
    """One value from all bytes of a column that has a null indicator only if it may be NULL (§4.8), and how many bytes
    the indicator takes: 0 or 2. Never raises.

    Of the two ways to read the bytes the one that makes a value of the type counts. Where both do and the values
    differ, or neither does, the value comes with a problem.
    """
    if how.how is How.GUESS:
        how = GUESS_FIXED
    bare = _recognised(value_of(raw, how, order, charset), raw)
    head = raw[:_INDICATOR]
    if head == b"\0\0" and len(raw) > _INDICATOR:
        behind = _recognised(value_of(raw[_INDICATOR:], how, order, charset), raw)
    elif head == b"\xff\xff" and len(raw) in (_INDICATOR, _INDICATOR + (how.size or len(raw) - _INDICATOR)):
        behind = _NULL
    else:
        return bare, 0
    if behind.problem is not None or (behind.kind is not Kind.NULL and behind.text == bare.text):
        return bare, 0
    if bare.problem is not None:
        return behind, _INDICATOR
    read = "NULL" if behind.kind is Kind.NULL else f"{behind.text!r} after a null indicator"
    sentence = f"{raw.hex()} is {bare.text!r} or {read}; give a definition of the table (option definitions)"
    return Value(raw.hex(), Kind.HEX, Problem.VALUE, sentence), 0


def _recognised(value: Value, raw: bytes) -> Value:
    """The value; a problem where a guess found nothing in its bytes."""
    if value.kind is not Kind.HEX or value.problem is not None:
        return value
    sentence = f"expected text, a date or an integer of 2, 4 or 8 bytes, found {raw.hex():.40}"
    return Value(value.text, Kind.HEX, Problem.VALUE, sentence)


def _text_value(raw: bytes, how: Coding, prefixed: bool, charset: str, order: Order) -> Value:
    fixed = how.how is How.FIXED_TEXT
    if prefixed:
        raw = raw[2:]
    elif not (fixed and len(raw) == how.size):
        return Value(raw.hex(), Kind.HEX, Problem.VALUE, _wrong_length(raw, order))
    text = decoded(raw, charset)
    if text is None:
        return Value(raw.hex(), Kind.HEX, Problem.CHARSET, f"expected text in {charset}, found other bytes")
    return Value(text.rstrip(" ") if fixed else text, Kind.TEXT)


def _wrong_length(raw: bytes, order: Order) -> str:
    if len(raw) < 2:
        return f"expected a length of 2 bytes, found {len(raw)}"
    return f"expected {int.from_bytes(raw[:2], order)} bytes by their length prefix, found {len(raw) - 2}"


def decoded(raw: bytes, charset: str) -> str | None:
    """Text in a character set; None if the bytes are none in it."""
    try:
        return raw.decode(charset)
    except (UnicodeError, LookupError):
        return None


def printable(raw: bytes) -> bool:
    """Are all bytes printable ASCII?"""
    return all(0x20 <= byte < 0x7F for byte in raw)


def scaled(number: int, scale: int) -> str:
    """A whole number with ``scale`` digits behind the point; zeros behind it for a negative scale."""
    if scale <= 0:
        return str(number * 10**-scale)
    digits = str(abs(number)).rjust(scale + 1, "0")
    return f"{'-' if number < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


def _number_text(raw: bytes, prefixed: bool, sentence: str) -> Value:
    """A number that is written as text all the same."""
    if prefixed:
        text = raw[2:].decode("latin-1")
        try:
            float(text)
        except ValueError:
            pass
        else:
            return Value(text, Kind.NUMBER)
    return Value(raw.hex(), Kind.HEX, Problem.VALUE, sentence)


def _zoned(raw: bytes, how: Coding, prefixed: bool) -> Value:
    """A digit a byte; a sign as a character before or behind them, or as the high bit of the first or last digit."""
    sentence = "expected a decimal of one digit per byte, found other bytes"
    if prefixed:
        return _number_text(raw, prefixed, sentence)
    digits = bytearray(raw)
    negative = False
    for place in (0, -1):
        if digits and digits[place] in b"+-":
            negative = digits.pop(place) == ord("-")
            break
        if digits and digits[place] & 0x80:
            digits[place] &= 0x7F
            negative = True
            break
    if not digits or not bytes(digits).isdigit() or (negative and not how.signed):
        return Value(raw.hex(), Kind.HEX, Problem.VALUE, sentence)
    return Value(scaled(-int(digits) if negative else int(digits), how.scale), Kind.NUMBER)


def _packed(raw: bytes, how: Coding, prefixed: bool) -> Value:
    """A digit in each half byte; the last half byte is the sign: B and D are negative."""
    digits = raw.hex()
    if digits and digits[:-1].isdigit() and digits[-1] in "abcdef":
        number = int(digits[:-1] or "0")
        return Value(scaled(-number if digits[-1] in "bd" else number, how.scale), Kind.NUMBER)
    return _number_text(raw, prefixed, "expected a packed decimal, found other bytes")


def _guess(raw: bytes, prefixed: bool, charset: str) -> Value:
    """A value of a column that has no definition (§4.7)."""
    if not raw:
        return Value("", Kind.TEXT)
    whole = len(raw) in (INT32, INT64)
    if prefixed:
        text = decoded(raw[2:], charset)
        if text is not None and not (whole and any(byte < 0x20 for byte in raw[2:])):
            return Value(text, Kind.TEXT)
    if _looks_like_a_moment(raw):
        return Value(raw.decode("ascii"), Kind.MOMENT)
    if whole:
        return Value(str(int.from_bytes(raw, "big", signed=True)), Kind.NUMBER)
    return Value(raw.hex(), Kind.HEX)


def _guess_fixed(raw: bytes, prefixed: bool, charset: str) -> Value:
    """A value of a column of a NonStop that has no definition: as other guesses, and text without a length (§4.8)."""
    found = _guess(raw, prefixed, charset)
    if found.kind is Kind.TEXT or found.kind is Kind.MOMENT:
        return found
    if printable(raw):
        return Value(raw.decode("ascii").rstrip(" "), Kind.TEXT)
    if len(raw) == INT16:
        return Value(str(int.from_bytes(raw, "big", signed=True)), Kind.NUMBER)
    if found.kind is Kind.HEX and (text := decoded(raw, charset)) is not None and text.isprintable():
        return Value(text.rstrip(" "), Kind.TEXT)
    return found


def _looks_like_a_moment(raw: bytes) -> bool:
    date = raw[:4] + raw[5:7] + raw[8:DATE]
    if not (date.isdigit() and len(date) == 8 and raw[4:5] == raw[7:8] == b"-" and printable(raw)):
        return False
    return len(raw) == DATE or (CLOCK <= len(raw) <= LONGEST_MOMENT and raw[DATE] in b": T")


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
    :func:`nullable_value` reads one."""
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
