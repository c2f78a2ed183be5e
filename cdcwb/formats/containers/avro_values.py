"""The values of Avro's leaves: their errors, their Arrow arrays, and their texts.

=====================  ===============================================================================================
int, long              decimal digits
float, double          the shortest digits that read back, in the form of Python: ``1.0``, ``1e+16``, ``nan``, ``-inf``
decimal                all digits of its scale: ``12.50``
boolean                ``true``, ``false``
bytes, fixed           lower-case hex
date, time             ``2024-01-31``, ``09:08:07.000`` (milliseconds), ``09:08:07.000000`` (microseconds)
timestamp              ``2024-01-31T09:08:07.000``, likewise; no zone (it is UTC, or local, by its type)
string, enum, uuid     as it is
union of several       the text of the member that is there
record, array, map     JSON without blanks, every value in it a text or null
=====================  ===============================================================================================
"""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from functools import cache
from itertools import pairwise
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from cdcwb.errors import CaptureError
from cdcwb.formats.arrays import SMALL, Bools, Bytes, Ints, content_of, hex_digits, small_numbers
from cdcwb.formats.containers.avro_schema import MEMBER, SPANNED, Node
from cdcwb.model import Problem
from cdcwb.words import plural

__all__ = ["bitmap", "finding_of", "float_text", "leaf_array", "leaf_text", "leaf_value", "to_text"]

Spans = npt.NDArray[np.int32]

# --- errors -----------------------------------------------------------------------------------------------------------

_DAY: Final = 86_400
_EPOCH: Final = dt.date(1970, 1, 1).toordinal()
_FIRST_DAY, _LAST_DAY = dt.date.min.toordinal() - _EPOCH, dt.date.max.toordinal() - _EPOCH
_RANGES: Final[dict[str, tuple[int, int, str]]] = {"int": (-(1 << 31), (1 << 31) - 1, "an int of 32 bits")}
_RANGES["date"] = _FIRST_DAY, _LAST_DAY, "a date of the years 1 to 9999 in days since 1970"
for _unit, _second in (("milliseconds", 1000), ("microseconds", 1_000_000)):
    _name = f"{_unit[:5]}s"
    _years = _FIRST_DAY * _DAY * _second, (_LAST_DAY + 1) * _DAY * _second - 1
    _RANGES[f"time-{_name}"] = 0, _DAY * _second - 1, f"a time of day in {_unit}"
    _RANGES[f"timestamp-{_name}"] = _RANGES[f"local-timestamp-{_name}"] = (
        *_years,
        f"a time of the years 1 to 9999 in {_unit} since 1970",
    )


def finding_of(node: Node, raw: bytes, number: int) -> tuple[Problem, str] | None:
    """The error of a value that does not affect the following bytes, as a code and a sentence."""
    if node.logical == "decimal":
        unscaled = int.from_bytes(raw, "big", signed=True)
        if abs(unscaled) < 10**node.precision:
            return None
        shown = f"{unscaled}" if len(raw) <= 32 else f"a number of {len(raw)} bytes"
        return Problem.VALUE, f"expected an unscaled number of at most {node.precision} digits, found {shown}"
    if node.kind == "string":
        try:
            raw.decode()
        except UnicodeDecodeError as error:
            shown = raw[error.start : error.start + 4].hex()
            return Problem.CHARSET, f"expected UTF-8, found {shown} at byte {error.start} of the text"
        return None
    if node.kind == "boolean" and number > 1:
        return Problem.VALUE, f"expected a byte 0 or 1, found {number}"
    if node.kind == "enum" and not 0 <= number < len(node.symbols):
        symbols = plural(len(node.symbols), "symbol")
        return Problem.VALUE, f"expected the number of one of {symbols}, from 0 on, found {number}"
    least, most, expected = _RANGES.get(node.logical or node.kind, (number, number, ""))
    if least <= number <= most:
        return None
    is_moment = node.logical is not None and not node.logical.startswith("time-")
    return Problem.TIME_RANGE if is_moment else Problem.VALUE, f"expected {expected}, found {number}"


# --- arrays -----------------------------------------------------------------------------------------------------------


def bitmap(valid: Bools | None) -> Any:
    """A validity bitmap, None if all are valid."""
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))


def leaf_array(
    node: Node, data: Bytes, numbers: Ints, spans: Spans, present: Bools | None
) -> tuple[pa.Array, Bools | None]:
    """The values of one leaf, and a mask of those that are invalid (None: none is). A leaf has numbers, or spans of
    ``data`` and one more, or both (decimals). ``present``: the values that there are (None: all)."""
    if node.logical == "decimal":
        found, is_valid = _decimals(node, data, numbers, spans, present)
    elif node.kind in SPANNED:
        count = len(spans) - 1  # every second value of an array that has the spans as its offsets
        every = pa.Array.from_buffers(node.arrow, 2 * count + 1, [None, pa.py_buffer(spans), pa.py_buffer(data)])
        evens = pa.py_buffer(np.arange(0, 2 * count, 2, dtype=np.int32))
        found = every.take(pa.Array.from_buffers(pa.int32(), count, [bitmap(present), evens]))
        is_valid = node.kind != "string" or _are_texts(found)
    else:
        found, wrong = _numeric(node, numbers, present)
        return found, wrong if wrong is None or present is None else wrong & present
    if is_valid:
        return found, None
    wrong = np.zeros(len(found), dtype=np.bool_)
    for row in range(len(found)) if present is None else np.flatnonzero(present).tolist():
        wrong[row] = finding_of(node, data[slice(*spans[row].tolist())].tobytes(), 0) is not None
    return found, wrong


def _numeric(node: Node, numbers: Ints, present: Bools | None) -> tuple[pa.Array, Bools | None]:
    """Values from their numbers, and a mask of those that are not in their range (None: all are)."""
    limits: Any = _RANGES.get(node.logical or node.kind)
    if node.kind in ("boolean", "enum"):
        limits = 0, 1 if node.kind == "boolean" else len(node.symbols) - 1
    wrong = None
    if limits is not None and len(numbers) and (numbers.min() < limits[0] or numbers.max() > limits[1]):
        wrong = (numbers < limits[0]) | (numbers > limits[1])
    values: Any = numbers
    if node.kind == "enum":
        values = np.clip(numbers, 0, len(node.symbols) - 1)
        codes = pa.Array.from_buffers(pa.int64(), len(numbers), [bitmap(present), pa.py_buffer(values)])
        symbols = pa.array(node.symbols, pa.string())
        return symbols.take(codes) if node.symbols else pa.nulls(len(numbers), pa.string()), wrong
    if node.kind == "boolean":
        values = np.packbits(numbers.astype(np.bool_), bitorder="little")
    elif node.arrow.bit_width == 32:
        values = numbers.astype(np.int32)
    return pa.Array.from_buffers(node.arrow, len(numbers), [bitmap(present), pa.py_buffer(values)]), wrong


def _are_texts(texts: pa.StringArray) -> bool:
    """Whether all are UTF-8."""
    content, _ = content_of(texts)
    try:
        if len(content) and content.max() >= 0x80:
            texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _decimals(node: Node, data: Bytes, numbers: Ints, spans: Spans, present: Bools | None) -> tuple[pa.Array, bool]:
    """Decimals from unscaled numbers, those of more than eight bytes one by one; and whether all have few enough
    digits."""
    most = 10**node.precision - 1
    is_valid = most >= 1 << 63 or not len(numbers) or bool(-most <= numbers.min() and numbers.max() <= most)
    long: dict[int, int] = {}
    for row in np.flatnonzero(spans[:-1, 1] - spans[:-1, 0] > 8).tolist():
        number = int.from_bytes(data[slice(*spans[row].tolist())].tobytes(), "big", signed=True)
        is_valid = is_valid and abs(number) <= most
        long[row] = number if abs(number) <= most else 0
    words: Ints = np.empty((len(numbers), node.arrow.bit_width // 64), dtype=np.int64)
    words[:, 0] = numbers
    words[:, 1:] = (numbers >> np.int64(63))[:, None]
    for row, number in long.items():
        words[row] = np.frombuffer(number.to_bytes(8 * words.shape[1], "little", signed=True), np.int64)
    return pa.Array.from_buffers(node.arrow, len(numbers), [bitmap(present), pa.py_buffer(words)]), is_valid


# --- texts ------------------------------------------------------------------------------------------------------------


def float_text(value: float, *, single: bool) -> str:
    """The shortest digits that read back as the same number, of four bytes or of eight, in the form of Python."""
    if not single:
        return repr(value)
    number = np.float32(value)
    if not np.isfinite(number):
        return repr(value)
    if number == 0 or 1e-4 <= abs(number) < 1e16:
        return np.format_float_positional(number, unique=True, trim="0")
    return np.format_float_scientific(number, unique=True, trim="-", exp_digits=2)


_LEAST_PLAIN: Final = 1e-4
_MOST_PLAIN: Final = 1e10
_PLAIN_SCALE: Final = 6
_MOST_HEX: Final = 1 << 30


def to_text(array: pa.Array) -> pa.StringArray:
    """The text of each value of an array from :class:`cdcwb.formats.containers.avro.Decoder`; null stays null. Raises
    CaptureError if the hex of all bytes exceeds the size of an array (2 GiB)."""
    kind = array.type
    if types.is_string(kind):
        return _based(array)
    if types.is_large_string(kind):
        return pc.cast(array, pa.string())
    if types.is_integer(kind):
        return _integers(array)
    if types.is_floating(kind):
        return _floats(array)
    if types.is_decimal(kind):
        return _decimal_texts(array)
    if types.is_timestamp(kind):
        return _timestamps(array)
    if types.is_date32(kind) or types.is_time(kind):
        return pc.cast(array, pa.string())
    if types.is_boolean(kind):
        return _booleans().take(pc.cast(array, pa.int32()))
    if types.is_binary(kind):
        return _hex(array)
    if types.is_null(kind):
        return pa.nulls(len(array), pa.string())
    if _is_union(kind):
        return pc.coalesce(*map(to_text, array.flatten()))
    encode = msgspec.json.Encoder().encode
    return pa.array([None if one is None else encode(one).decode() for one in _nested(array)], pa.string())


def _based(array: pa.Array) -> pa.Array:
    """The same values, with offsets from the start of their buffers."""
    if len(array) == 0 or (array.offset == 0 and _first_offset(array) == 0):
        return array
    return array.take(pa.array(np.arange(len(array))))


def _first_offset(array: pa.Array) -> int:
    return int(np.frombuffer(array.buffers()[1], dtype=np.int32, count=1)[0])


@cache
def _booleans() -> pa.StringArray:
    return pa.array(["false", "true"])


def _integers(array: pa.Array) -> pa.StringArray:
    ends = pc.min_max(array)
    least, most = ends["min"].as_py(), ends["max"].as_py()
    if least is None or (least >= 0 and most < SMALL):
        return small_numbers().take(array)
    return pc.cast(array, pa.string())


def _floats(array: pa.Array) -> pa.StringArray:
    """Arrow's digits are the same; it omits ``.0`` and uses exponents in other cases."""
    single = array.type == pa.float32()
    texts = pc.cast(array, pa.string())
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    numbers = array.fill_null(0.5).to_numpy()
    with np.errstate(invalid="ignore"):  # signalling NaNs
        size = np.abs(numbers)
        plain = (size >= _LEAST_PLAIN) & (size < _MOST_PLAIN)
        whole = plain & (numbers == np.rint(numbers))
    if whole.any():
        there = pc.binary_join_element_wise(texts.filter(pa.array(whole)), ".0", "")
        texts = pc.replace_with_mask(texts, pa.array(whole), there)
    rest = ~plain & valid
    if rest.any():
        given = [float_text(number, single=single) for number in numbers[rest].tolist()]
        texts = pc.replace_with_mask(texts, pa.array(rest), pa.array(given, pa.string()))
    return texts


def _decimal_texts(array: pa.Array) -> pa.StringArray:
    """Arrow writes small ones with an exponent."""
    texts = pc.cast(array, pa.string())
    if array.type.scale <= _PLAIN_SCALE:
        return texts
    small = pc.match_substring(texts, "E").fill_null(False)
    if pc.any(small).as_py():
        given = [f"{number:f}" for number in array.filter(small).to_pylist()]
        texts = pc.replace_with_mask(texts, small, pa.array(given, pa.string()))
    return texts


def _timestamps(array: pa.Array) -> pa.StringArray:
    plain = array.cast(pa.timestamp(array.type.unit)) if array.type.tz else array
    return pc.binary_replace_slice(pc.cast(plain, pa.string()), len("2024-01-31"), len("2024-01-31 "), "T")


def _hex(array: pa.Array) -> pa.StringArray:
    array = _based(array)
    validity, offsets, data = array.buffers()
    if data is None or not len(array):
        return pa.nulls(0, pa.string()) if not len(array) else pc.cast(array, pa.string())
    ends = np.frombuffer(offsets, dtype=np.int32, count=len(array) + 1)
    if int(ends[-1]) >= _MOST_HEX:
        raise CaptureError(f"expected less than {_MOST_HEX} bytes to be written as hex at once, found {ends[-1]}")
    digits = hex_digits(np.frombuffer(data, dtype=np.uint8, count=int(ends[-1])))
    buffers = [validity, pa.py_buffer(ends * 2), pa.py_buffer(digits)]
    return pa.Array.from_buffers(pa.string(), len(array), buffers, array.null_count)


# --- one value --------------------------------------------------------------------------------------------------------


def leaf_value(node: Node, raw: bytes, number: int) -> Any:
    """A leaf as Arrow takes it, from its bytes or its number."""
    if node.logical == "decimal":
        return Decimal(f"{int.from_bytes(raw, 'big', signed=True)}E-{node.scale}")
    if node.kind in ("float", "double"):
        return struct.unpack("<f" if node.kind == "float" else "<d", raw)[0]
    if node.kind == "boolean":
        return bool(number)
    if node.kind == "enum":
        return node.symbols[number]
    return raw.decode() if node.kind == "string" else raw if node.kind in ("bytes", "fixed") else number


def leaf_text(node: Node, raw: bytes, number: int) -> str:
    """A leaf as its text."""
    value = leaf_value(node, raw, number)
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return float_text(value, single=node.kind == "float")
    if node.logical is None and not isinstance(value, bool):
        return value.hex() if isinstance(value, bytes) else str(value)
    return str(to_text(pa.array([value], node.arrow))[0])


# --- several values in one text ---------------------------------------------------------------------------------------


def _is_union(kind: pa.DataType) -> bool:
    return types.is_struct(kind) and kind.num_fields > 0 and all(one.metadata == MEMBER for one in kind)


def _nested(array: pa.Array) -> list[Any]:
    """Each value for JSON: lists and dictionaries with a text or None for every value in them."""
    kind = array.type
    if types.is_struct(kind):
        columns = [_nested(field) for field in array.flatten()]
        if _is_union(kind):
            return [next((one for one in row if one is not None), None) for row in zip(*columns, strict=True)]
        rows = zip(*columns, strict=True) if columns else [()] * len(array)
        found: list[Any] = [dict(zip(kind.names, row, strict=True)) for row in rows]
    elif types.is_list(kind) or types.is_map(kind):
        is_map = types.is_map(kind)
        items = _nested(array.items if is_map else array.values)
        keys = array.keys.to_pylist() if is_map else []
        edges = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1].tolist()
        spans = [slice(*edge) for edge in pairwise(edges)]
        found = [dict(zip(keys[one], items[one], strict=True)) if is_map else items[one] for one in spans]
    else:
        texts = to_text(array).to_pylist()
        return [text and msgspec.Raw(text.encode()) for text in texts] if types.is_large_string(kind) else texts
    return (
        found
        if array.null_count == 0
        else [one if is_valid else None for one, is_valid in zip(found, array.is_valid().to_pylist(), strict=True)]
    )
