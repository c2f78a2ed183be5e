"""Values of Debezium's messages as texts (docs/formats/debezium.md §7, §8.3)."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import NoneType
from typing import Any, Final
from uuid import UUID

import msgspec
import numpy as np
import pyarrow as pa

from cdcwb.formats.arrays import text_array
from cdcwb.formats.containers.avro_values import float_text
from cdcwb.formats.debezium.layout import CELL, TIMES, Clock
from cdcwb.formats.json_values import parse_json
from cdcwb.formats.messages.connect import Remark, Type, plain
from cdcwb.model import Problem

_DAY: Final = 86_400
_EPOCH: Final = dt.date(1970, 1, 1).toordinal()
_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_OF_ANY_SCALE: Final = "io.debezium.data.VariableScaleDecimal"
_MOST_SCALE: Final = 10_000  # a text would have as many zeros
_PLAIN: Final = frozenset({"string", "int8", "int16", "int32", "int64", "boolean"})
_DECODED: Final = frozenset({*TIMES, _DECIMAL, _OF_ANY_SCALE})
_ONCE: Final = ({int}, {str}, {bytes})  # not float: -0.0 equals 0.0


def document_of(value: Any) -> dict[str, Any] | None:
    """A MongoDB document, which is a text in JSON, as its fields (§2.4); None if it is none."""
    if isinstance(value, dict) or value is None:
        return value
    try:
        found = parse_json(str(value).encode("utf-8", "replace"))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def is_cells(image: Mapping[str, Any]) -> bool:
    """Whether each column of a row is an object of ``value`` and ``set``, or null if it was not captured (§2.5)."""
    found = False
    for cell in image.values():
        if cell is not None and (not isinstance(cell, dict) or cell.keys() != CELL):
            return False
        found = found or cell is not None
    return found


# --- texts ------------------------------------------------------------------------------------------------------------


def text_column(values: Sequence[Any], kind: Type | None, name: str) -> tuple[pa.StringArray, list[tuple[int, Remark]]]:
    """Values of one type as texts, and the rows whose value is not one of the type, with a remark. ``name`` is that of
    the column."""
    classes = set(map(type, values))
    classes.discard(NoneType)
    is_decoded = kind is not None and (kind.kind not in _PLAIN or kind.name in _DECODED)
    if is_decoded or len(classes) > 1 or not classes <= {str, int, bool}:
        remarks: list[tuple[int, Remark]] = []
        texts = _each(values, kind if is_decoded else None, name, remarks, classes in _ONCE)
        return text_array(texts), remarks
    if classes == {str} or not classes:
        return text_array(values), []
    try:
        return pa.array(values).cast(pa.string()), []
    except (OverflowError, pa.ArrowInvalid):  # a number of more than 64 bits
        return pa.array([None if one is None else str(one) for one in values], pa.string()), []


def _each(
    values: Sequence[Any], kind: Type | None, name: str, remarks: list[tuple[int, Remark]], is_once: bool
) -> list[str | None]:
    """The text of each value; ``is_once``: equal ones are converted once."""
    if not is_once:
        found = []
        for row, value in enumerate(values):
            noted: list[Remark] = []
            found.append(text_of(value, kind, noted, name))
            remarks += [(row, one) for one in noted]
        return found
    known: dict[Any, str | None] = dict.fromkeys(values)
    wrong: dict[Any, list[Remark]] = {}
    for value in known:
        noted = []
        known[value] = text_of(value, kind, noted, name)
        if noted:
            wrong[value] = noted
    if wrong:
        remarks += [(row, one) for row, value in enumerate(values) for one in wrong.get(value, ())]
    return [known[value] for value in values]


def text_of(value: Any, kind: Type | None, remarks: list[Remark], name: str = "") -> str | None:
    """A value as text that loses nothing (§7); without its type as it is written. ``name`` is that of its column, for
    ``remarks``, which get what is no value of the type."""
    if value is None:
        return None
    if kind is not None:
        clock = TIMES.get(kind.name or "")
        try:
            if clock is not None and isinstance(value, int) and not isinstance(value, bool):
                return _moment(value, clock)
            if kind.name == _DECIMAL and isinstance(value, (str, bytes)):
                return _decimal(value, int(kind.parameters.get("scale") or 0))
            if kind.name == _OF_ANY_SCALE and isinstance(value, dict):
                return _decimal(value["value"], int(value["scale"]))
            if kind.kind == "bytes" and isinstance(value, str):
                return base64.b64decode(value, validate=True).hex()
        except OverflowError as reason:
            remarks.append((Problem.TIME_RANGE, f"{name}: {reason}"))
        except (ValueError, KeyError, TypeError, ArithmeticError, binascii.Error):
            remarks.append((Problem.VALUE, f"{name}: expected a value of {kind.spelled}, found {plain(value)!r:.60}"))
        if isinstance(value, float):
            return float_text(value, single=kind.kind == "float")
        if kind.item is not None and isinstance(value, list) and (kind.item.name or kind.item.kind == "bytes"):
            value = [text_of(one, kind.item, remarks, name) for one in value]
    return plain(value)


def _decimal(value: str | bytes, scale: int) -> str:
    raw = base64.b64decode(value, validate=True) if isinstance(value, str) else value
    if abs(scale) > _MOST_SCALE or not raw:
        raise ValueError
    unscaled = int.from_bytes(raw, "big", signed=True)
    if scale <= 0:
        return str(unscaled * 10**-scale)
    digits = str(abs(unscaled)).zfill(scale + 1)
    return f"{'-' if unscaled < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


def _moment(value: int, clock: Clock) -> str:
    """ISO 8601; a time of day may be negative or longer than a day, as MySQL's are. Raises OverflowError for a date
    outside the years 1 to 9999."""
    seconds, fraction = divmod(abs(value) if clock.kind == "time" else value, 10**clock.digits)
    digits = f".{fraction:0{clock.digits}}" if clock.digits else ""
    if clock.kind == "time":
        return f"{'-' if value < 0 else ''}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{digits}"
    days, second = (seconds, 0) if clock.kind == "date" else divmod(seconds, _DAY)
    if not 0 < _EPOCH + days <= dt.date.max.toordinal():
        raise OverflowError(f"expected a date of the years 1 to 9999, found {value}")
    day = dt.date.fromordinal(_EPOCH + days).isoformat()
    if clock.kind == "date":
        return day
    return f"{day}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}{digits}"


# --- values that were not captured ------------------------------------------------------------------------------------


def absent_in(values: Sequence[Any], unavailable: str) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
    """A mask of the values of a column that were not captured (§8.3); None if all were."""
    classes = set(map(type, values))
    if classes.isdisjoint((str, bytes, list, dict)):
        return None
    texts, others = _spelled(unavailable)
    if classes <= {str, bytes, NoneType} and texts.isdisjoint(values):
        return None
    mask = np.array(
        [value in (texts if isinstance(value, (str, bytes)) else others) for value in values], dtype=np.bool_
    )
    return mask if mask.any() else None


def without_value(image: Mapping[str, Any], unavailable: str) -> bool:
    """Whether a value of an image was not captured."""
    texts, others = _spelled(unavailable)
    for value in image.values():
        if value.__class__ is str or value.__class__ is bytes:
            if value in texts:
                return True
        elif isinstance(value, (list, dict)) and value in others:
            return True
    return False


@lru_cache
def _spelled(unavailable: str) -> tuple[frozenset[str | bytes], list[Any]]:
    """How the placeholder is written: texts and bytes; arrays and maps."""
    raw, pair = unavailable.encode(), {unavailable: unavailable}
    uuid = UUID(bytes=hashlib.md5(raw, usedforsecurity=False).digest(), version=3)
    texts: set[str | bytes] = {unavailable, raw, base64.b64encode(raw).decode(), msgspec.json.encode(pair).decode()}
    numbers = [byte - (byte & 0x80) * 2 for byte in raw]
    return frozenset(texts), [numbers, pair, [str(uuid)], *([text] for text in texts)]
