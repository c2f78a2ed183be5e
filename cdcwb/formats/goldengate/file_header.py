"""The body of a trail's file header: groups of tokens, big-endian in every trail (docs/formats/goldengate.md §5.1)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from cdcwb.formats.goldengate.facts import FILE_HEADER_GROUPS, FILE_HEADER_TOKENS, JULIAN_EPOCH_US

__all__ = ["HeaderToken", "file_header", "header_tokens", "iso_utc", "julian_iso"]

_TRAIL_INFO: Final = 0x30
_HISTORY: Final = 0x35
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class HeaderToken(NamedTuple):
    """A group or token of a file header. Places are bytes of the body; ``stop`` is where its value ends as far as it is
    there, ``whole`` says whether all of it is. ``value``: decoded, None for a group."""

    name: str
    start: int
    value_start: int
    stop: int
    whole: bool
    value: str | None
    group: bool


def file_header(body: bytes) -> dict[str, str]:
    """The fields of a file header by Logdump's names; what was cut off is not there.

    Numbers are decimal, times ISO 8601 UTC. URIHistory holds earlier writers' URIs, one a line. Tokens whose names are
    not known are called by group and id (``MachineInfo x30``). Empty values are left out. Never raises.
    """
    fields: dict[str, str] = {}
    for token in header_tokens(body):
        if token.value and (token.whole or token.name in ("URI", "URIHistory")):
            fields.setdefault(token.name, token.value)
    return fields


def header_tokens(body: bytes) -> Iterator[HeaderToken]:
    """The groups and their tokens, in order; the last may be cut."""
    at = 0
    while at + 4 <= len(body):
        stop = at + 4 + int.from_bytes(body[at + 2 : at + 4], "big")
        group = body[at]
        name = FILE_HEADER_GROUPS.get(group, f"group x{group:02x}")
        end = min(stop, len(body))
        yield HeaderToken(name, at, at + 4, end, stop <= len(body), None, True)
        yield from _tokens(body, at + 4, end, group, name)
        at = stop


def _tokens(body: bytes, at: int, end: int, group: int, group_name: str) -> Iterator[HeaderToken]:
    while at + 4 <= end:
        token = body[at]
        stop = at + 4 + int.from_bytes(body[at + 2 : at + 4], "big")
        there = body[at + 4 : min(stop, end)]
        known = FILE_HEADER_TOKENS.get(token) if group == _TRAIL_INFO else None
        name, form = known if known is not None else (f"{group_name} x{token:02x}", "any")
        yield HeaderToken(name, at, at + 4, min(stop, end), stop <= end, _decode(there, form), False)
        at = stop


def _decode(value: bytes, form: str) -> str:
    if form == "number":
        return str(int.from_bytes(value, "big"))
    if form == "charset":
        return "x" + value.hex()
    if form == "signature":
        return repr(value.decode("latin-1"))[1:-1]
    if form == "time":
        return julian_iso(int.from_bytes(value, "big")) or ""
    if form == "string":
        return _text(value[2 : 2 + int.from_bytes(value[:2], "big")])
    if form == "csn":
        return _text(value[1 : 1 + value[0]]) if value else ""
    if form == "nested":
        return "\n".join(_history(value))
    length = int.from_bytes(value[:2], "big")
    if len(value) >= 2 and length and not any(value[2 + length :]) and len(value) >= 2 + length:
        return _text(value[2 : 2 + length])
    return str(int.from_bytes(value, "big")) if len(value) <= 8 else value.hex()


def _history(value: bytes) -> Iterator[str]:
    at = 0
    while at + 4 <= len(value) and value[at] == _HISTORY:
        stop = at + 4 + int.from_bytes(value[at + 2 : at + 4], "big")
        yield _decode(value[at + 4 : stop], "string")
        at = stop


def _text(value: bytes) -> str:
    return value.rstrip(b"\0").decode("utf-8", "replace")


def iso_utc(microseconds: int) -> str | None:
    """Microseconds since 1970 UTC as ISO 8601; None outside the years 1 to 9999."""
    try:
        moment = _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return None
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def julian_iso(value: int) -> str | None:
    """A trail's own time (microseconds since Julian day 0) as ISO 8601 UTC; None for 0 and outside the years 1 to
    9999."""
    return iso_utc(value - JULIAN_EPOCH_US) if value else None
