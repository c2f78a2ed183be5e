# ruff: noqa: SIM110 - any() and all() cannot be compiled
"""Decodes column values to text without loss (docs/formats/goldengate.md §4.6), with one loop over the values of a
coding. Bytes that are not a value of their type become lower-case hex with a problem; the type of a column without a
definition is inferred from its bytes, without a problem. The loop leaves three cases to Python: text that only a codec
can check, floating point numbers, and numbers in text form.
"""

from __future__ import annotations

import codecs
from contextlib import suppress
from enum import IntEnum
from functools import cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import bytes_of
from cdcwb.formats.goldengate.decode import Bools, Bytes, Ints, Order, readable
from cdcwb.formats.goldengate.decode.definitions import ColumnDef
from cdcwb.formats.goldengate.decode.grammar import wide
from cdcwb.formats.goldengate.layout import GUESS, GUESS_FIXED, Coding, How
from cdcwb.formats.json_spans import utf8_fault
from cdcwb.formats.kernels import kernel
from cdcwb.model import Problem

__all__ = ["Kind", "Texts", "Value", "coding", "nullable_texts", "nullable_value", "texts", "value_of"]

Int8s = npt.NDArray[np.int8]
Int32s = npt.NDArray[np.int32]
_INDICATOR: Final = 2


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


def coding(column: ColumnDef | None) -> Coding:
    """The coding of a column's values; inferred from the bytes without a definition."""
    return GUESS if column is None else column.coding


# --- the loop ---------------------------------------------------------------------------------------------------------

# status of a value: decoded, one of these errors, or left to Python
(
    _OK, _LENGTH, _CHARSET, _INTEGER, _FLOAT, _DECIMAL, _PACKED, _MOMENT,
    _ASK, _ASK_PRINTABLE, _NUMBER_TEXT, _BINARY_FLOAT,
) = range(12)  # fmt: skip
_ANOTHER, _ASCII_BASED, _UTF_8, _NO_TEXT = range(4)
"""The check for text: codec only; ASCII, else codec; UTF-8; ASCII."""

_GUESS, _TEXT_CODE, _FIXED_TEXT, _INTEGER_CODE, _FLOAT_CODE, _DECIMAL_CODE, _PACKED_CODE, _MOMENT_CODE, _BINARY_CODE = (
    int(one)
    for one in (
        How.GUESS, How.TEXT, How.FIXED_TEXT, How.INTEGER, How.FLOAT, How.DECIMAL, How.PACKED, How.MOMENT, How.BINARY
    )
)  # fmt: skip
_GUESS_FIXED: Final = int(How.GUESS_FIXED)
_TEXT_KIND, _NUMBER_KIND, _MOMENT_KIND, _BINARY_KIND, _HEX_KIND = (int(kind) for kind in list(Kind)[1:])
_MOST_SCALE: Final = 4096


@kernel
def _text_status(b: Bytes, i: int, e: int, way: int) -> int:
    """Whether bytes are text: ``_OK``, ``_CHARSET`` (no) or ``_ASK``."""
    if way == _ANOTHER:
        return _ASK
    if way == _UTF_8:
        return _OK if utf8_fault(b, i, e) < 0 else _CHARSET
    for k in range(i, e):
        if b[k] >= 128:
            return _CHARSET if way == _NO_TEXT else _ASK
    return _CHARSET if way == _NO_TEXT else _OK


@kernel
def _printable(b: Bytes, i: int, e: int) -> bool:
    for k in range(i, e):
        if b[k] < 32 or b[k] > 126:
            return False
    return True


@kernel
def _is_moment(b: Bytes, i: int, e: int) -> bool:
    """Whether it looks like a date: digits and dashes at the positions of a date."""
    n = e - i
    if n != 10 and not 19 <= n <= 40:
        return False
    for k in range(10):
        if (b[i + k] != 45) if k in (4, 7) else not 48 <= b[i + k] <= 57:
            return False
    return _printable(b, i, e) and (n == 10 or b[i + 10] == 58 or b[i + 10] == 32 or b[i + 10] == 84)


@kernel
def _copy(b: Bytes, i: int, e: int, out: Bytes, o: int) -> int:
    for k in range(i, e):
        out[o + k - i] = b[k]
    return o + e - i


@kernel
def _put_hex(b: Bytes, i: int, e: int, out: Bytes, o: int) -> int:
    for k in range(i, e):
        for digit in (wide(b[k]) >> 4, wide(b[k]) & 15):
            out[o] = digit + (48 if digit < 10 else 87)
            o += 1
    return o


@kernel
def _put_scaled(digits: Bytes, at: int, count: int, negative: bool, scale: int, out: Bytes, o: int) -> int:
    """A number from its digits ``[at, count)``, ``scale`` of them after the point; trailing zeros for a negative
    scale."""
    while at < count - 1 and digits[at] == 48:
        at += 1
    is_zero = digits[at] == 48
    if negative and not is_zero:
        out[o] = 45
        o += 1
    left = count - at
    if left <= scale:
        out[o], out[o + 1] = 48, 46
        for k in range(scale - left):
            out[o + 2 + k] = 48
        return _copy(digits, at, count, out, o + 2 + scale - left)
    if scale > 0:
        o = _copy(digits, at, count - scale, out, o)
        out[o] = 46
        return _copy(digits, count - scale, count, out, o + 1)
    o = _copy(digits, at, count, out, o)
    for _ in range(0 if is_zero else -scale):
        out[o] = 48
        o += 1
    return o


@kernel
def _put_integer(b: Bytes, i: int, e: int, signed: bool, scale: int, digits: Bytes, out: Bytes, o: int) -> int:
    """A big-endian number of at most 8 bytes."""
    high, low, half = 0, 0, 1 << 32
    for k in range(i, e):
        high = (high << 8 | low >> 24) & (half - 1)
        low = (low << 8 | wide(b[k])) & (half - 1)
    negative = signed and b[i] >= 128
    if negative:
        bits = 8 * (e - i)
        low = (1 << min(bits, 32)) - low
        if bits > 32:
            high = half - 1 - high + low // half
            low %= half
    at = 24
    while high > 0 or low > 0 or at == 24:
        at -= 1
        low += high % 10 * half
        high //= 10
        digits[at] = 48 + low % 10
        low //= 10
    return _put_scaled(digits, at, 24, negative, scale, out, o)


@kernel
def _zoned(b: Bytes, i: int, e: int, signed: bool, digits: Bytes) -> tuple[int, bool]:
    """The digits of a decimal of one digit per byte, their number (-1: invalid), and whether it is negative: by a
    leading or trailing sign, or the high bit of the first or last digit."""
    first, last, negative, flag = i, e, False, -1
    for place in (i, e - 1):
        c = wide(b[place]) if i < e else 0
        if c == 43 or c == 45:
            negative = c == 45
            first, last = (i + 1, e) if place == i else (i, e - 1)
            break
        if c >= 128:
            flag, negative = place, True
            break
    for k in range(first, last):
        c = wide(b[k]) & 127 if k == flag else wide(b[k])
        if not 48 <= c <= 57:
            return -1, False
        digits[k - first] = c
    return (-1 if first >= last or (negative and not signed) else last - first), negative


@kernel
def _packed(b: Bytes, i: int, e: int, digits: Bytes) -> int:
    """The number of digits in the half bytes before the last, which is the sign; -1: not a packed decimal."""
    count = 2 * (e - i) - 1
    if count < 1 or wide(b[e - 1]) & 15 < 10:
        return -1
    for k in range(count):
        digit = wide(b[i + k // 2]) >> (0 if k % 2 else 4) & 15
        if digit > 9:
            return -1
        digits[k] = 48 + digit
    return count


@kernel
def _put_guess(
    b: Bytes, i: int, e: int, prefixed: bool, fixed: bool, way: int, digits: Bytes, out: Bytes, o: int
) -> tuple[int, int, int]:
    """A value of a column that has no definition (§4.7); of a NonStop's, ``fixed``, also text without a length
    (§4.8)."""
    n = e - i
    whole = n == 4 or n == 8
    if prefixed:
        control = False
        for k in range(i + 2, e):
            control = control or b[k] < 32
        status = _text_status(b, i + 2, e, way)
        if not (whole and control) and status != _CHARSET:
            return _copy(b, i + 2, e, out, o), _TEXT_KIND, status
    if n == 0:
        return o, _TEXT_KIND, _OK
    if _is_moment(b, i, e):
        return _copy(b, i, e, out, o), _MOMENT_KIND, _OK
    if fixed and _printable(b, i, e):
        while e > i and b[e - 1] == 32:
            e -= 1
        return _copy(b, i, e, out, o), _TEXT_KIND, _OK
    if whole or (fixed and n == 2):
        return _put_integer(b, i, e, True, 0, digits, out, o), _NUMBER_KIND, _OK
    return _put_hex(b, i, e, out, o), _HEX_KIND, _ASK_PRINTABLE if fixed else _OK


@kernel
def _put_value(
    b: Bytes, i: int, e: int, how: int, size: int, scale: int, signed: bool, is_big: bool, way: int, digits: Bytes,
    out: Bytes, o: int,
) -> tuple[int, int, int]:  # fmt: skip
    """One value that is not NULL: the end of its text, its kind and its status. Undecodable values are hex."""
    n = e - i
    length = -3
    if n >= 2:
        length = wide(b[i]) << 8 | wide(b[i + 1]) if is_big else wide(b[i + 1]) << 8 | wide(b[i])
    prefixed = length == n - 2
    begin = i + 2 if prefixed else i
    wrong = _OK
    if how in (_GUESS, _GUESS_FIXED):
        return _put_guess(b, i, e, prefixed, how == _GUESS_FIXED, way, digits, out, o)
    if how in (_TEXT_CODE, _FIXED_TEXT):
        fixed = how == _FIXED_TEXT
        if prefixed or (fixed and n == size):
            wrong = _text_status(b, begin, e, way)
            if wrong == _CHARSET:
                return _put_hex(b, begin, e, out, o), _HEX_KIND, wrong
            while wrong == _OK and fixed and e > begin and b[e - 1] == 32:
                e -= 1
            return _copy(b, begin, e, out, o), _TEXT_KIND, wrong
        wrong = _LENGTH
    elif how == _INTEGER_CODE:
        if n == size:
            return _put_integer(b, i, e, signed, scale, digits, out, o), _NUMBER_KIND, _OK
        wrong = _INTEGER
    elif how == _FLOAT_CODE:
        if n == 4 or n == 8:
            return o, _NUMBER_KIND, _BINARY_FLOAT
        wrong = _FLOAT
    elif how == _DECIMAL_CODE:
        count, negative = _zoned(b, i, e, signed, digits)
        if count > 0 and not prefixed:
            return _put_scaled(digits, 0, count, negative, scale, out, o), _NUMBER_KIND, _OK
        wrong = _DECIMAL
    elif how == _PACKED_CODE:
        count = _packed(b, i, e, digits)
        if count > 0:
            sign = wide(b[e - 1]) & 15
            return _put_scaled(digits, 0, count, sign == 11 or sign == 13, scale, out, o), _NUMBER_KIND, _OK
        wrong = _PACKED
    elif how == _MOMENT_CODE:
        if e > begin and _printable(b, begin, e):
            return _copy(b, begin, e, out, o), _MOMENT_KIND, _OK
        wrong = _MOMENT
    elif how == _BINARY_CODE:
        return _put_hex(b, begin, e, out, o), _BINARY_KIND, _OK if prefixed else _LENGTH
    else:
        if prefixed and n > 2:
            status = _text_status(b, begin, e, way)
            if status != _CHARSET:
                return _copy(b, begin, e, out, o), _TEXT_KIND, status
        return _put_hex(b, i, e, out, o), _BINARY_KIND, _OK
    if prefixed and _INTEGER <= wrong <= _PACKED:
        wrong += _NUMBER_TEXT
    return _put_hex(b, i, e, out, o), _HEX_KIND, wrong


@kernel
def put_values(
    b: Bytes, start: Ints, stop: Ints, is_null: Bools, how: int, size: int, scale: int, signed: bool, is_big: bool,
    way: int, digits: Bytes, out: Bytes, ends: Int32s, kinds: Int8s, status: Int8s,
) -> None:  # fmt: skip
    """Writes the concatenated texts of values of one coding."""
    o = 0
    for k in range(start.size):
        kind, state = 0, 0
        if not is_null[k]:
            o, kind, state = _put_value(b, start[k], stop[k], how, size, scale, signed, is_big, way, digits, out, o)
        kinds[k], status[k], ends[k + 1] = kind, state, o


# --- complete columns -------------------------------------------------------------------------------------------------


@cache
def _way_of(charset: str) -> int:
    try:
        if codecs.lookup(charset).name == "utf-8":
            return _UTF_8
        return _ASCII_BASED if bytes(range(128)).decode(charset) == bytes(range(128)).decode("ascii") else _ANOTHER
    except (UnicodeError, LookupError):
        return _ANOTHER


def texts(
    buffer: Bytes,
    start: Ints,
    stop: Ints,
    is_null: Bools,
    column: ColumnDef | Coding | None,
    charset: str = "utf-8",
    order: Order = "little",
) -> Texts:
    """The values ``[start, stop)`` of a buffer, all of one column or of columns with the same coding, as text.
    ``column``: its definition or coding; None: inferred, value by value. ``is_null``: whether the value is SQL NULL.
    """
    how = column if isinstance(column, Coding) else coding(column)
    if abs(how.scale) > _MOST_SCALE:  # no type has so many digits
        how = Coding(How.UNKNOWN)
    charset = how.charset or charset
    return _texts(readable(buffer), start, stop, is_null, how, charset, order, _way_of(charset))


def _texts(
    buffer: Bytes, start: Ints, stop: Ints, is_null: Bools, how: Coding, charset: str, order: Order, way: int
) -> Texts:
    count = len(start)
    size = np.where(is_null, 0, stop - start)
    digits = np.empty(2 * int(size.max(initial=0)) + 24, dtype=np.uint8)
    out = np.empty(int(2 * size.sum()) + count * (24 + abs(how.scale)), dtype=np.uint8)
    ends = np.zeros(count + 1, dtype=np.int32)
    kinds, status = np.empty((2, count), dtype=np.int8)
    put_values(
        buffer, start, stop, is_null, int(how.how), how.size, how.scale, how.signed, order == "big", way, digits, out,
        ends, kinds, status,
    )  # fmt: skip
    used = np.ascontiguousarray(out[: ends[-1]])
    text = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(used)])
    if is_null.any():
        text = pc.if_else(pa.array(is_null), pa.scalar(None, pa.binary()), text)
    asked = np.flatnonzero(status == _ASK)
    array = _with_decoded(text, asked, charset, how.how is How.FIXED_TEXT) if len(asked) else text.view(pa.string())
    unread: Ints = asked[~array.take(pa.array(asked)).is_valid().to_numpy(zero_copy_only=False)]
    status[asked] = _OK
    problems: list[tuple[int, Problem, str]] = []
    if len(unread):
        again = _texts(buffer, start[unread], stop[unread], is_null[unread], how, charset, order, _NO_TEXT)
        array, kinds[unread] = _put(array, unread, again.array), again.kinds
        problems += [(int(unread[at]), code, sentence) for at, code, sentence in again.problems]
    for width in (4, 8) if how.how is How.FLOAT else ():
        rows = np.flatnonzero((status == _BINARY_FLOAT) & (size == width))
        if len(rows):
            numbers = bytes_of(buffer, start[rows], width).view(f">f{width}").reshape(-1).astype(f"f{width}")
            array = _put(array, rows, pc.cast(pa.array(numbers), pa.string()))
    status[status == _BINARY_FLOAT] = _OK
    others: dict[int, str] = {}
    for row in np.flatnonzero(status).tolist():
        raw = buffer[start[row] : stop[row]].tobytes()
        if status[row] == _ASK_PRINTABLE:
            found = decoded(raw, charset)
            if found is not None and found.isprintable():
                others[row], kinds[row] = found.rstrip(" "), Kind.TEXT
        elif status[row] > _NUMBER_TEXT and _is_number(raw[2:]):
            others[row], kinds[row] = raw[2:].decode("latin-1"), Kind.NUMBER
        else:
            problems.append((row, *_sentence(int(status[row]) % _NUMBER_TEXT, raw, how, charset, order)))
    if others:
        array = _put(array, np.array(list(others)), pa.array(others.values(), pa.string()))
    return Texts(array, kinds, sorted(problems))


def _put(array: pa.Array, rows: Ints, texts: pa.Array) -> pa.Array:
    """The array with other texts in some rows."""
    index = np.arange(len(array))
    index[rows] = len(array) + np.arange(len(rows))
    return pa.concat_arrays([array, texts]).take(pa.array(index))


def _with_decoded(raw: pa.Array, asked: Ints, charset: str, fixed: bool) -> pa.Array:
    """The values as text; the ``asked`` ones are decoded with the character set, null if undecodable."""
    different = raw.take(pa.array(asked)).dictionary_encode()
    found = [decoded(one, charset) for one in different.dictionary.to_pylist()]
    texts = pa.array([one.rstrip(" ") if fixed and one is not None else one for one in found], pa.string())
    is_asked = np.zeros(len(raw), dtype=np.bool_)
    is_asked[asked] = True
    others = pc.if_else(pa.array(is_asked), pa.scalar(None, pa.binary()), raw).cast(pa.string())
    return _put(others, asked, texts.take(different.indices))


def decoded(raw: bytes, charset: str) -> str | None:
    """Text in a character set; None if undecodable."""
    try:
        return raw.decode(charset)
    except (UnicodeError, LookupError):
        return None


def _is_number(raw: bytes) -> bool:
    """Whether it is a number in text form."""
    with suppress(ValueError):
        float(raw.decode("latin-1"))
        return True
    return False


_SENTENCES: Final = {
    _CHARSET: "expected text in {charset}, found other bytes",
    _INTEGER: "expected an integer of {size} bytes, found {found}",
    _FLOAT: "expected a number of 4 or 8 bytes, found {found}",
    _DECIMAL: "expected a decimal of one digit per byte, found other bytes",
    _PACKED: "expected a packed decimal, found other bytes",
    _MOMENT: "expected a date or time as text, found other bytes",
}


def _sentence(status: int, raw: bytes, how: Coding, charset: str, order: Order) -> tuple[Problem, str]:
    """The error of a value."""
    if status != _LENGTH:
        sentence = _SENTENCES[status].format(charset=charset, size=how.size, found=len(raw))
        return Problem.CHARSET if status == _CHARSET else Problem.VALUE, sentence
    if len(raw) < 2:
        return Problem.VALUE, f"expected a length of 2 bytes, found {len(raw)}"
    length = int.from_bytes(raw[:2], order)
    return Problem.VALUE, f"expected {length} bytes by their length prefix, found {len(raw) - 2}"


def value_of(raw: bytes, how: Coding, order: Order, charset: str = "utf-8") -> Value:
    """One value that is not NULL, from its bytes after the null indicator. Never raises. ``order`` is that of the
    length of a text, ``charset`` the database's, by Python's name.
    """
    at = np.zeros(1, dtype=np.int64)
    found = texts(np.frombuffer(raw, np.uint8), at, at + len(raw), at > 0, how, charset, order)
    return _value(found, 0)


def _value(found: Texts, at: int) -> Value:
    problem, sentence = next(((code, said) for row, code, said in found.problems if row == at), (None, ""))
    return Value(found.array[at].as_py() or "", Kind(found.kinds[at]), problem, sentence)


# --- columns that have a null indicator only if they may be NULL ------------------------------------------------------

_NULL: Final = Value("", Kind.NULL)


def nullable_value(raw: bytes, how: Coding, order: Order, charset: str = "utf-8") -> tuple[Value, int]:
    """One value from all bytes of a column that has a null indicator only if it may be NULL (§4.8), and the number of
    bytes of the indicator: 0 or 2. Never raises. Of the two interpretations of the bytes the one that makes a value of
    the type counts. Where both do and the values differ, or neither does, the value comes with a problem.
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
    """The value; a problem if nothing could be inferred from its bytes."""
    if value.kind is not Kind.HEX or value.problem is not None:
        return value
    sentence = f"expected text, a date or an integer of 2, 4 or 8 bytes, found {raw.hex():.40}"
    return Value(value.text, Kind.HEX, Problem.VALUE, sentence)


def nullable_texts(
    buffer: Bytes, start: Ints, stop: Ints, how: Coding, charset: str = "utf-8", order: Order = "little"
) -> Texts:
    """The same as :func:`texts` from all bytes of columns that have a null indicator only if they may be NULL, as
    :func:`nullable_value` reads one."""
    if how.how is How.GUESS:
        how = GUESS_FIXED
    found = texts(buffer, start, stop, np.zeros(len(start), dtype=np.bool_), how, charset, order)
    size, head = stop - start, np.full(len(start), -1, dtype=np.int64)
    long = np.flatnonzero(size >= _INDICATOR)
    head[long] = buffer[start[long]].astype(np.int64) << 8 | buffer[start[long] + 1]
    doubtful = (head == 0) | (head == 0xFFFF)
    if how.how is How.INTEGER:  # all of the column's bytes are a number, and those after an indicator are not
        doubtful &= (size != how.size) | ((size == _INDICATOR) & (head != 0))
    if how.how is How.GUESS_FIXED:
        doubtful |= found.kinds == Kind.HEX
    rows = np.flatnonzero(doubtful)
    if not len(rows):
        return found
    values = [nullable_value(buffer[start[row] : stop[row]].tobytes(), how, order, charset)[0] for row in rows.tolist()]
    found.kinds[rows] = [one.kind for one in values]
    problems = [one for one in found.problems if not doubtful[one[0]]]
    problems += [
        (row, one.problem, one.sentence) for row, one in zip(rows.tolist(), values, strict=True) if one.problem
    ]
    alone = pa.array([None if one.kind is Kind.NULL else one.text for one in values], pa.string())
    return Texts(_put(found.array, rows, alone), found.kinds, sorted(problems))
