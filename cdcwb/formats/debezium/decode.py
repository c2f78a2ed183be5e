"""Values of Debezium's messages as text (docs/formats/debezium.md §2.4, §7)."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
from decimal import Decimal
from typing import Any, Final

import msgspec

from cdcwb.formats.avro.text import float_text
from cdcwb.formats.debezium.layout import TIMES, Clock
from cdcwb.formats.messages.connect import Remark, Type, reader
from cdcwb.model import Problem

__all__ = ["document_of", "text_of"]


def document_of(value: Any) -> dict[str, Any] | None:
    """A MongoDB document, which is a text in JSON, as its fields (§2.4); None where it is none."""
    if isinstance(value, dict) or value is None:
        return value
    try:
        found = reader.parse(str(value).encode("utf-8", "replace"))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def text_of(value: Any, kind: Type | None, remarks: list[Remark], name: str = "") -> str | None:
    """A value as text that loses nothing (§7); without its type as it is written. ``name`` is that of its column, for
    ``remarks``, which get what is no value of the type."""
    if value is None:
        return None
    if kind is not None:
        clock = TIMES.get(kind.name or "")
        try:
            if clock is not None and isinstance(value, int):
                return _moment(value, clock)
            if kind.name == "org.apache.kafka.connect.data.Decimal" and isinstance(value, (str, bytes)):
                return _decimal(value, int(kind.parameters.get("scale") or 0))
            if kind.name == "io.debezium.data.VariableScaleDecimal" and isinstance(value, dict):
                return _decimal(value["value"], int(value["scale"]))
            if kind.kind == "bytes" and isinstance(value, str):
                return base64.b64decode(value, validate=True).hex()
        except OverflowError as reason:
            remarks.append((Problem.TIME_RANGE, f"{name}: {reason}"))
        except (ValueError, KeyError, TypeError, ArithmeticError, binascii.Error):
            remarks.append((Problem.VALUE, f"{name}: expected a value of {kind.spelled}, found {_plain(value)!r:.60}"))
        if isinstance(value, float):
            return float_text(value, single=kind.kind == "float")
        if kind.kind == "map" and isinstance(value, list):
            value = dict(value)
    return _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, msgspec.Raw):
        return bytes(value).decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, (int, float)) else msgspec.json.encode(value).decode()


def _decimal(value: str | bytes, scale: int) -> str:
    if abs(scale) > 10_000:  # its text would be as long
        raise ValueError
    raw = base64.b64decode(value, validate=True) if isinstance(value, str) else value
    unscaled = int.from_bytes(raw, "big", signed=True)
    return f"{Decimal(f'{unscaled}E{-scale}'):f}"


_DAY: Final = 86_400
_EPOCH: Final = dt.date(1970, 1, 1).toordinal()


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
