"""JSON texts as Python values, with the original digits of numbers."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any, Final

import msgspec

MARK: Final = b"\xef\xbb\xbf"
"""UTF-8's byte order mark, which may precede a text."""

_HALF_PAIR: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_HALF_NUMBER: Final = re.compile(rb"(?:-|[0-9]\.|[0-9][eE][+-]?)\Z")
_TRAILING: Final = re.compile(rb",[ \t\r\n]*[}\]]")
_TOKENS: Final = re.compile(rb'(?s)"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|,(?=[ \t\r\n]*[}\]])')
_BLANK: Final = b" \t\r\n"
_NO_VALUE: Final = (b"{", b"[", b",", b":", b"")  # before a comma
_whole: Final = msgspec.json.Decoder(msgspec.Raw)


class CutOff(ValueError):  # noqa: N818  (not an error: the text may be valid up to its end)
    """A truncated JSON text without other errors."""


def decode_json(value: bytes) -> Any:
    """A JSON text as Python objects; numbers with a point or an exponent, and ``-0``, are :class:`msgspec.Raw`: their
    digits. Raises ValueError or RecursionError for an invalid one; mends nothing."""
    return _slowly(value) if has_minus_zero(value) else _exact.decode(value)


def parse_json(value: bytes, remarks: list[str] | None = None) -> Any:
    """A JSON text as :func:`decode_json` gives it; a lone surrogate becomes a question mark. With ``remarks``, trailing
    commas are ignored, and a sentence about them is added. Raises CutOff for a truncated text, another ValueError, with
    error and byte, for an invalid one.
    """
    try:
        return decode_json(value)
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None
    except ValueError as reason:
        if value.startswith(MARK) and not value.startswith(MARK, len(MARK)):
            return parse_json(value[len(MARK) :], remarks)
        if _HALF_PAIR.search(value):
            with contextlib.suppress(ValueError, RecursionError):
                return _slowly(value)
        if remarks is not None and (remark := comma_remark(value)) is not None:
            found = parse_json(without_trailing_commas(value)[1])
            remarks.append(remark)
            return found
        if is_cut_off(value):
            raise CutOff(f"the JSON text is cut off after byte {len(value)}") from None
        raise ValueError(f"expected a JSON document, found: {reason}") from None


def _slowly(value: bytes) -> Any:
    found = json.loads(value.decode(), parse_float=digits_of, parse_int=_exact_integer, parse_constant=_no_constant)
    return _written(found) if _HALF_PAIR.search(value) else found


def is_cut_off(value: bytes) -> bool:
    """Whether a JSON text is truncated, without other errors than trailing commas."""
    if _TRAILING.search(value):
        _, value = without_trailing_commas(value)
    text = _HALF_PAIR.sub(rb"\\u0041", value.removeprefix(MARK).strip(_BLANK))
    if text[:1] not in (b"{", b"["):
        return False
    if _HALF_NUMBER.search(text[-3:]):
        text += b"0"  # else it would be an invalid number, not a truncated one
    try:
        _whole.decode(text)
    except (ValueError, RecursionError) as reason:
        return "truncated" in str(reason)
    return False


def without_trailing_commas(value: bytes) -> tuple[list[int], bytes]:
    """The offsets of trailing commas, and the text with blanks instead."""
    places: list[int] = []

    def blank(token: re.Match[bytes]) -> bytes:
        before = token.start() - 1
        while before >= 0 and value[before] in _BLANK:
            before -= 1
        if token[0] != b"," or value[before : before + 1] in _NO_VALUE:
            return token[0]
        places.append(token.start())
        return b" "

    return places, _TOKENS.sub(blank, value)


def comma_remark(value: bytes) -> str | None:
    """What is wrong with the trailing commas of a JSON text; None without any."""
    places = without_trailing_commas(value)[0] if _TRAILING.search(value) else []
    if not places:
        return None
    more = f" and {len(places) - 1} more" if len(places) > 1 else ""
    return f"expected another field or item to follow the comma at byte {places[0]}{more}, found a closing bracket"


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


def _written(value: Any) -> Any:
    """A parsed value with texts in valid Unicode."""
    if value.__class__ is str:
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_written(name): _written(one) for name, one in value.items()}
    return [_written(one) for one in value] if isinstance(value, list) else value


_MINUS_ZERO: Final = re.compile(rb"[:\[,]\s*+-0\s*+[,}\]]")


def has_minus_zero(value: bytes) -> object:
    """Whether a JSON text may have the number ``-0``, which decoders make 0."""
    return b"-0" in value and _MINUS_ZERO.search(value)


def digits_of(number: str) -> msgspec.Raw:
    """The digits of a number as they are written."""
    return msgspec.Raw(number.encode())


def _exact_integer(digits: str) -> int | msgspec.Raw:
    """An integer, and ``-0`` as its digits."""
    return digits_of(digits) if digits == "-0" else int(digits)


_exact: Final = msgspec.json.Decoder(float_hook=digits_of)


def as_text(value: Any) -> str | None:
    """A parsed JSON value as text: numbers by their digits, truth values as ``true`` and ``false``, objects and arrays
    as compact JSON; None stays None. Raises ValueError for a number of more than 4,300 digits."""
    if value is None or isinstance(value, str):
        return value
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, int):
        return str(value)
    return msgspec.json.encode(value).decode()
