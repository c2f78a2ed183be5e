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
array, map, record     JSON without blanks, every value in it a text or null
=====================  ===============================================================================================
"""

from __future__ import annotations

import datetime as dt
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from cdcwb.formats.arrays import bitmap, content_of, every_second, hex_text, integer_texts, packed
from cdcwb.formats.containers.avro_schema import SPANNED, Node
from cdcwb.formats.kernels import Bools, Bytes, Ints, Spans
from cdcwb.model import Problem
from cdcwb.words import plural

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


def _limits(node: Node) -> tuple[int, int, str] | None:
    """The least and the greatest number of a leaf, and what it is; None if every number is valid."""
    if node.kind == "boolean":
        return 0, 1, "a byte 0 or 1"
    if node.kind == "enum":
        symbols = plural(len(node.symbols), "symbol")
        return 0, len(node.symbols) - 1, f"the number of one of {symbols}, from 0 on"
    return _RANGES.get(node.logical or node.kind)


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
    least, most, expected = _limits(node) or (number, number, "")
    is_moment = node.logical is not None and not node.logical.startswith("time-")
    code = Problem.TIME_RANGE if is_moment else Problem.VALUE
    return None if least <= number <= most else (code, f"expected {expected}, found {number}")


# --- arrays -----------------------------------------------------------------------------------------------------------


def leaf_array(
    node: Node, data: Bytes, numbers: Ints, spans: Spans, present: Bools | None
) -> tuple[pa.Array, Bools | None]:
    """The values of one leaf, and a mask of those that may be invalid (None: none is). A leaf has numbers, or spans of
    ``data`` and one more, or both (decimals). ``present``: the values that there are (None: all)."""
    if node.logical == "decimal":
        found, is_valid = _decimals(node, data, numbers, spans, present)
    elif node.kind in SPANNED:
        found = every_second(node.arrow, data, spans.reshape(-1), present)
        is_valid = node.kind != "string" or _are_texts(found)
    else:
        found, wrong = _numeric(node, numbers, present)
        return found, wrong if wrong is None or present is None else wrong & present
    return found, None if is_valid else np.ones(len(found), np.bool_) if present is None else present


def _numeric(node: Node, numbers: Ints, present: Bools | None) -> tuple[pa.Array, Bools | None]:
    """Values from their numbers, and a mask of those that are not in their range (None: all are)."""
    limits, wrong = _limits(node), None
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


def to_text(array: pa.Array) -> pa.StringArray:
    """The text of each value of an array; null stays null."""
    kind = array.type
    if types.is_string(kind):
        return packed(array)
    if types.is_integer(kind):
        return integer_texts(array)
    if types.is_floating(kind):
        return _floats(array)
    if types.is_decimal(kind):
        return _decimal_texts(array)
    if types.is_timestamp(kind):
        zoneless = array.cast(pa.timestamp(kind.unit)) if kind.tz else array
        return pc.binary_replace_slice(pc.cast(zoneless, pa.string()), len("2024-01-31"), len("2024-01-31 "), "T")
    if types.is_binary(kind):
        return hex_text(array, upper=False)
    if types.is_nested(kind):
        values = array.to_pylist()
        if types.is_map(kind):
            values = [one if one is None else dict(one) for one in values]
        return pa.array(map(nested_text, values), pa.string())
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


def nested_text(value: Any) -> str | None:
    """The text of an array, a map, a structure, or a union of several types: a text, or JSON of texts."""
    found = _texts(value)
    return found if found is None or isinstance(found, str) else msgspec.json.encode(found).decode()


def _texts(value: Any) -> Any:
    if isinstance(value, list) and value and isinstance(value[0], tuple):  # a map, as Arrow has it
        value = dict(value)
    if isinstance(value, dict):
        return {name: _texts(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_texts(one) for one in value]
    if value is None or isinstance(value, str):
        return value
    return repr(value) if value.__class__ in (int, float) else to_text(pa.array([value]))[0].as_py()
