"""JSON texts as Python values, with the original digits of numbers; and the location of every element, since dissection
needs the bytes of each value, which no JSON library gives."""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import replace
from typing import Any, Final

import msgspec
import numpy as np

from cdcwb.formats import json_spans as js
from cdcwb.formats.dissector import Field
from cdcwb.formats.kernels import interpreted
from cdcwb.model import Problem

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


# --- values with their bytes ------------------------------------------------------------------------------------------

MOST_ELEMENTS: Final = 250_000
"""Maximum elements of one text; the rest is not dissected."""

_SHOWN: Final = 12  # levels that become elements of their own; below, a value is one text
_SMALL: Final = 1 << 16  # bytes for which nothing is compiled
KINDS: Final = {
    js.OBJECT: "object",
    js.ARRAY: "array",
    js.STRING: "string",
    js.ESCAPED: "string",
    js.NUMBER: "number",
    js.BOOLEAN: "boolean",
    js.NULL: "null",
}
"""The kinds of values in words."""


def damage_of(data: bytes, spans: js.Spans) -> str | None:
    """What was expected and found where a JSON text is damaged; None if it is valid, or has too many elements."""
    state, at = int(spans.state[0]), int(spans.at[0])
    if not state or state == js.FULL:
        return None
    found = data[at : at + 12].decode("utf-8", "backslashreplace")
    expected = js.EXPECTED[state].format(closing=chr(int(spans.closing[0])))
    return f"expected {expected}, found {repr(found) if found else 'the end'} at byte {at}"


def text_of(data: bytes, kind: int, start: int, end: int) -> str | None:
    """A value without nested ones as text: the decoded string, the number's own digits; None for null."""
    if kind & js.KIND == js.NULL:
        return None
    quoted = kind & js.KIND in (js.STRING, js.ESCAPED)
    return decoded(data[start + quoted : end - quoted], kind & js.KIND == js.ESCAPED)


def decoded(raw: bytes, is_escaped: object) -> str:
    """A valid string or name without its quotes; a lone surrogate becomes ``?``."""
    text: str = json.loads(b'"%b"' % raw) if is_escaped else raw.decode()
    return text.encode("utf-8", "replace").decode() if is_escaped else text


# --- fields -----------------------------------------------------------------------------------------------------------


def field_tree(value: bytes) -> Field:
    """The fields of a message in JSON, named as in the text; accepts any bytes and never raises.

    A field includes its name, its value, the following comma and preceding white space, so the fields of an object are
    adjacent. An object begins with the leaf ``opening`` and ends with ``closing``, which are quiet, so that every byte
    is in one leaf. The meaning of the others is their kind. Undecodable text is the leaf ``unreadable``.
    """
    data, edges = np.frombuffer(value, np.uint8), np.array([0, len(value)], dtype=np.int64)
    most = min(MOST_ELEMENTS, 1 + sum(value.count(byte) for byte in b":,["))
    with interpreted() if len(value) <= _SMALL else contextlib.nullcontext():
        spans = js.spans_of(data, edges, _SHOWN, commas=True, most=most)
    damage = damage_of(value, spans)
    kind = KINDS[int(spans.kind[0]) & js.KIND] if len(spans.kind) else "nothing"
    if kind != "object":
        found = kind if kind == "nothing" else f"an {kind}" if kind == "array" else f"a {kind}"
        why = damage or f"expected an object, found {found}"
        return Field("message", 0, len(value), value, None, why, (), Problem.MALFORMED)
    at = int(spans.done[0]) if spans.state[0] else len(value)
    children = _fields(value, spans, at)
    rest = value[at:]
    if damage is not None:  # without bytes if the text ends too early
        code = Problem.TRUNCATED if is_cut_off(value) else Problem.MALFORMED
        children.append(Field("unreadable", at, len(rest), rest, None, damage, (), code))
    elif rest:
        children.append(Field("rest", at, len(rest), rest, None, "not shown: there are too many fields"))
    return Field("message", 0, len(value), value, None, "object", tuple(children))


def _fields(value: bytes, spans: js.Spans, done: int) -> list[Field]:
    """The parts of the outermost object: opening, fields, closing. An object or array that is open at the damage ends
    at ``done``."""
    around: list[tuple[Field, list[Field]]] = []  # open objects and arrays, and their parts so far

    def put(name: str, start: int, stop: int, text: str | None, meaning: str, **more: Any) -> Field:
        return Field(name, start, stop - start, value[start:stop], text, meaning, **more)

    def close() -> list[Field]:
        field, parts = around.pop()
        end, stop = parts[-1].offset + parts[-1].length, field.offset + field.length
        if end < stop:
            parts.append(put("closing", end, stop, None, "closing bracket", quiet=True))
        if around:
            around[-1][1].append(replace(field, children=tuple(parts)))
        return parts

    columns = (spans.kind, spans.level, spans.name, spans.name_end, spans.start, spans.end, spans.stop)
    for kind, level, begin, behind, first, end, stop in zip(*(one.tolist() for one in columns), strict=True):
        while len(around) > level:
            close()
        siblings = around[-1][1] if around else []
        name = decoded(value[begin:behind], kind & js.NAME_ESCAPED) if begin >= 0 else f"item {len(siblings)}"
        start = siblings[-1].offset + siblings[-1].length if siblings else 0
        more: dict[str, Any] = {"problem": Problem.JSON_SYNTAX if kind & js.TRAILING else None}
        what = KINDS[kind & js.KIND]
        if kind & js.KIND <= js.ARRAY and not kind & js.OPAQUE:
            is_closed = end > first + 1
            opening = put("opening", start, first + 1, None, "name and opening bracket", quiet=True)
            around.append((put(name, start, stop if is_closed else done, None, what, **more), [opening]))
        else:
            siblings.append(put(name, start, stop, text_of(value, kind, first, end), what, **more))
    while len(around) > 1:
        close()
    return close()
