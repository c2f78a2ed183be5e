"""Avro values as text: one at a time, and many.

=====================  ===============================================================================================
int, long              decimal digits float, double          the shortest digits that read back, in the form of Python:
``1.0``, ``1e+16``, ``nan``, ``-inf`` decimal                all digits of its scale: ``12.50`` boolean
``true``, ``false`` bytes, fixed           lower-case hex date, time             ``2024-01-31``, ``09:08:07.000``
(milliseconds), ``09:08:07.000000`` (microseconds) timestamp              ``2024-01-31T09:08:07.000``, likewise; no zone
(it is UTC, or local, by its type) string, enum, uuid as it is union of several       the text of the member that is
there record, array, map     JSON without blanks, every value in it a text or null =====================
===============================================================================================
"""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from functools import cache
from typing import Any, Final
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from cdcwb.errors import CaptureError
from cdcwb.formats.arrays import SMALL, hex_digits, small_numbers
from cdcwb.formats.avro.schema import (
    JSON,
    MARK,
    MEMBER,
    Array,
    Enum,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Recursive,
    Union,
)
from cdcwb.model import Problem
from cdcwb.words import plural

__all__ = [
    "RANGES",
    "Finding",
    "as_json",
    "check_number",
    "check_uuid",
    "decimal_of",
    "describe",
    "float_text",
    "has_text",
    "is_single",
    "text_of",
    "to_text",
]


# --- values -----------------------------------------------------------------------------------------------------------

Finding = tuple[Problem, str]
"""The error of a value, as a code and a sentence."""

_DAY: Final = 86_400
_FIRST_DAY: Final = dt.date(1, 1, 1).toordinal() - dt.date(1970, 1, 1).toordinal()
_LAST_DAY: Final = dt.date(9999, 12, 31).toordinal() - dt.date(1970, 1, 1).toordinal()
_FIRST_SECOND: Final = _FIRST_DAY * _DAY
_LAST_SECOND: Final = (_LAST_DAY + 1) * _DAY
_MILLIS: Final = (_FIRST_SECOND * 1_000, _LAST_SECOND * 1_000 - 1)
_MICROS: Final = (_FIRST_SECOND * 1_000_000, _LAST_SECOND * 1_000_000 - 1)

RANGES: Final[dict[str, tuple[int, int]]] = {
    "int": (-(1 << 31), (1 << 31) - 1),
    "date": (_FIRST_DAY, _LAST_DAY),
    "time-millis": (0, _DAY * 1_000 - 1),
    "time-micros": (0, _DAY * 1_000_000 - 1),
    "timestamp-millis": _MILLIS,
    "local-timestamp-millis": _MILLIS,
    "timestamp-micros": _MICROS,
    "local-timestamp-micros": _MICROS,
}
"""Minimum and maximum of a type or logical type; dates and times are in the years 1 to 9999 and in a day, as far as
fastavro supports them."""

_EXPECTED: Final = {
    "int": "an int of 32 bits",
    "date": "a date of the years 1 to 9999 in days since 1970",
    "time-millis": "a time of day in milliseconds",
    "time-micros": "a time of day in microseconds",
    "timestamp-millis": "a time of the years 1 to 9999 in milliseconds since 1970",
    "local-timestamp-millis": "a time of the years 1 to 9999 in milliseconds since 1970",
    "timestamp-micros": "a time of the years 1 to 9999 in microseconds since 1970",
    "local-timestamp-micros": "a time of the years 1 to 9999 in microseconds since 1970",
}


def check_number(node: Primitive, number: int) -> Finding | None:
    """The error of a number as a value of its type."""
    name = node.logical or node.kind
    least, most = RANGES.get(name, (number, number))
    if least <= number <= most:
        return None
    code = Problem.VALUE if name in ("int", "time-millis", "time-micros") else Problem.TIME_RANGE
    return code, f"expected {_EXPECTED[name]}, found {number}"


def check_uuid(text: str) -> Finding | None:
    """The error of a text as a UUID, in any form that Python accepts."""
    try:
        UUID(text)
    except ValueError:
        return Problem.VALUE, f"expected a UUID, found {text!r:.60}"
    return None


def decimal_of(node: Primitive | Fixed, raw: bytes) -> tuple[Any, Finding | None]:
    """A decimal from its unscaled number, big-endian in two's complement; no bytes are 0.

    A Decimal, or its text if Arrow has no decimal with this many digits. A number with more digits than its type is
    invalid.
    """
    unscaled = int.from_bytes(raw, "big", signed=True)
    if abs(unscaled) >= 10**node.precision:
        found = f"{unscaled}" if len(raw) <= 32 else f"a number of {len(raw)} bytes"
        return None, (Problem.VALUE, f"expected an unscaled number of at most {node.precision} digits, found {found}")
    value = Decimal(f"{unscaled}E-{node.scale}")
    return (value if node.precision <= 76 else f"{value:f}"), None


def text_of(node: Node, value: Any) -> str:
    """The text of a value that is not a record, array, map or union, as in :func:`cdcwb.formats.avro.text.to_text`."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return f"{value:f}"
    assert isinstance(node, Primitive)
    if isinstance(value, float):
        return float_text(value, single=node.kind == "float")
    return str(value) if node.logical is None else _moment(node.logical, value)


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


def _moment(logical: str, value: int) -> str:
    if logical == "date":
        return (dt.date(1970, 1, 1) + dt.timedelta(days=value)).isoformat()
    digits = 3 if logical.endswith("millis") else 6
    seconds, fraction = divmod(value, 10**digits)
    days, second = divmod(seconds, _DAY)
    time = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.{fraction:0{digits}}"
    return time if logical.startswith("time-") else f"{_moment('date', days)}T{time}"


# --- describe ---------------------------------------------------------------------------------------------------------


def is_single(node: Node) -> bool:
    """Whether a value is one leaf."""
    return isinstance(node, (Fixed, Enum)) or (isinstance(node, Primitive) and node.kind not in ("string", "bytes"))


def has_text(node: Node) -> bool:
    """Whether it has a text of its own."""
    if isinstance(node, Union):
        return all(has_text(member) for member in node.members)
    return isinstance(node, (Primitive, Fixed, Enum))


def describe(node: Node) -> str:
    """A type in a few words."""
    if isinstance(node, Primitive):
        if node.logical == "decimal":
            return f"decimal({node.precision},{node.scale}) in bytes"
        return f"{node.kind} ({node.logical})" if node.logical else node.kind
    if isinstance(node, Fixed):
        what = f"decimal({node.precision},{node.scale})" if node.logical else f"fixed {node.name}"
        return f"{what} in {plural(node.size, 'byte')}"
    if isinstance(node, Enum):
        return f"enum {node.name}"
    if isinstance(node, Record):
        return f"record {node.name}"
    if isinstance(node, Recursive):
        return f"record {node.record.name}"
    if isinstance(node, Array):
        return f"array of {describe(node.items)}"
    if isinstance(node, Map):
        return f"map of {describe(node.values)}"
    assert isinstance(node, Union)
    return f"union of {', '.join(describe(member) for member in node.members)}"


def as_json(node: Node, value: Any) -> Any:
    """A value with every leaf as its text."""
    if value is None:
        return None
    if isinstance(node, Recursive):
        return as_json(node.record, value)
    if isinstance(node, Record):
        return {name: as_json(inner, value[name]) for name, inner in node.fields.items()}
    if isinstance(node, Array):
        return [as_json(node.items, item) for item in value]
    if isinstance(node, Map):
        return {key: as_json(node.values, item) for key, item in value}
    if isinstance(node, Union):
        if not node.several:
            (member,) = (m for m, place in zip(node.members, node.places, strict=True) if place is not None)
            return as_json(member, value)
        ((name, inner),) = value.items()
        return as_json(node.members[node.places.index(int(name.removeprefix("member")))], inner)
    return text_of(node, value)


# --- text -------------------------------------------------------------------------------------------------------------

_LEAST_PLAIN: Final = 1e-4
_MOST_PLAIN: Final = 1e10
_PLAIN_SCALE: Final = 6
_MOST_HEX: Final = 1 << 30


def to_text(array: pa.Array) -> pa.StringArray:
    """The text of each value of an array from :class:`cdcwb.formats.avro.Decoder`; null stays null. Raises CaptureError
    if the hex of all bytes exceeds the size of an array (2 GiB).
    """
    kind = array.type
    if types.is_string(kind):
        return _based(array)
    if types.is_integer(kind):
        return _integers(array)
    if types.is_floating(kind):
        return _floats(array)
    if types.is_decimal(kind):
        return _decimals(array)
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
        return _members(array, [to_text(array.field(place)) for place in range(kind.num_fields)])
    return _where_valid(array, _json(array))


def _where_valid(array: pa.Array, texts: pa.StringArray) -> pa.StringArray:
    return pc.if_else(array.is_valid(), texts, pa.scalar(None, pa.string()))


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


def _decimals(array: pa.Array) -> pa.StringArray:
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
    texts = pc.cast(plain, pa.string())
    width = len("2024-01-31 09:08:07.000000") if array.type.unit == "us" else len("2024-01-31 09:08:07.000")
    data = texts.buffers()[2]
    size = len(texts) and int(np.frombuffer(texts.buffers()[1], dtype=np.int32, count=len(texts) + 1)[-1])
    if not size:
        return texts
    characters = np.frombuffer(data, dtype=np.uint8, count=size).copy()
    characters.reshape(-1, width)[:, 10] = ord("T")
    buffers = [texts.buffers()[0], texts.buffers()[1], pa.py_buffer(characters)]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers, texts.null_count)


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


# --- several values in one text ---------------------------------------------------------------------------------------


def _is_union(kind: pa.DataType) -> bool:
    fields = [kind.field(place) for place in range(kind.num_fields)] if types.is_struct(kind) else []
    return bool(fields) and all(_mark(one) == MEMBER for one in fields)


def _mark(one: pa.Field) -> Any:
    return (one.metadata or {}).get(MARK)


def _members(array: pa.StructArray, texts: list[pa.StringArray]) -> pa.StringArray:
    """The text of the present member."""
    return _where_valid(array, pc.coalesce(*texts))


def _json(array: pa.Array, mark: Any = None) -> pa.StringArray:
    """Each value as JSON; ``null`` for null."""
    kind = array.type
    if mark == JSON:
        found = array
    elif _is_union(kind):
        members = [array.field(place) for place in range(kind.num_fields)]
        marks = [_mark(kind.field(place)) for place in range(kind.num_fields)]
        found = _members(array, [_where_valid(one, _json(one, mark)) for one, mark in zip(members, marks, strict=True)])
    elif types.is_struct(kind):
        found = _objects(array)
    elif types.is_map(kind):
        array = _compact(array)
        entries = pc.binary_join_element_wise(_quoted(array.keys), _json(array.items, _mark(kind.item_field)), ":")
        found = _joined(array, entries, "{", "}")
    elif types.is_list(kind):
        array = _compact(array)
        found = _joined(array, _json(array.values, _mark(kind.value_field)), "[", "]")
    else:
        found = _quoted(to_text(array))
    return pc.if_else(array.is_valid(), found, "null").fill_null("null")


def _compact(array: pa.Array) -> pa.Array:
    """Lists of the same items with none between them."""
    return array.take(pa.array(np.arange(len(array))))


def _objects(array: pa.StructArray) -> pa.StringArray:
    parts: list[Any] = []
    for place in range(array.type.num_fields):
        one = array.type.field(place)
        name = json.dumps(one.name, ensure_ascii=False)
        parts += [f"{',' if place else '{'}{name}:", _json(array.field(place), _mark(one))]
    if not parts:
        return pa.array(["{}"] * len(array), pa.string())
    return pc.binary_join_element_wise(*parts, "}", "")


def _joined(array: pa.Array, texts: pa.StringArray, before: str, behind: str) -> pa.StringArray:
    """The texts of each list's items with commas between them."""
    validity, offsets = array.buffers()[:2]
    lists = pa.Array.from_buffers(pa.list_(pa.string()), len(array), [validity, offsets], children=[texts])
    return pc.binary_join_element_wise(before, pc.binary_join(lists, ","), behind, "")


def _quoted(texts: pa.StringArray) -> pa.StringArray:
    """Texts as JSON strings; null stays null."""
    found = pc.binary_join_element_wise('"', texts, '"', "")
    special = pc.match_substring_regex(texts, r'["\\\x00-\x1f]').fill_null(False)
    if pc.any(special).as_py():
        given = [json.dumps(text, ensure_ascii=False) for text in texts.filter(special).to_pylist()]
        found = pc.replace_with_mask(found, special, pa.array(given, pa.string()))
    return found
