"""What trails hold: the fields of a record header, tokens, file headers and DDL items (docs/formats/goldengate.md §3.3,
§5.1, §5.3 and §5.7)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from cdcwb.formats.goldengate.layout import DDL_STATEMENT, FILE_HEADER_GROUPS, FILE_HEADER_TOKENS, JULIAN_EPOCH_US

__all__ = [
    "HEADER", "MISSING", "NOT_A_TIME", "Order", "Token", "ddl_items", "file_header", "header_tokens", "iso_utc",
    "items_of", "julian_iso", "statement", "user_pairs", "walk_tokens",
]  # fmt: skip

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Order = Literal["little", "big"]

MISSING: Final = -1
"""A number that is not printed."""

NOT_A_TIME: Final = -(1 << 62)
"""A time that is not printed, or has the form of a time only."""

HEADER: Final = (
    "Hdr-Ind",
    "Partition",
    "UndoFlag",
    "BeforeAfter",
    "RecLength",
    "IOType",
    "OrigNode",
    "TransInd",
    "FormatType",
    "SyskeyLen",
    "Incomplete",
    "AuditRBA",
    "AuditPos",
    "DDR index",
    "TDR index",
    "Continued",
    "RecCount",
)
"""The numbers of a record header, in the order of the columns of
:attr:`~cdcwb.formats.goldengate.records.Records.values`.

Characters (Hdr-Ind, BeforeAfter, FormatType, Continued) are their codes: ``E`` is 0x45; Continued is 1 (Y) or 0 (N).
"""


@dataclass(slots=True)
class Token:
    """A token of a record. ``id`` is its code (0x4c: LOGCSN), ``name`` its printed name, if any. ``value`` is its
    printed part; ``length`` its complete length, MISSING if not printed."""

    id: int
    name: str | None
    info: int
    length: int
    value: bytes


_TRAIL_INFO: Final = 0x30
_HISTORY: Final = 0x35
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class HeaderToken(NamedTuple):
    """A group or token of a file header. Offsets are bytes of the body; ``stop`` is the end of the available part of
    its value, ``whole``: whether it is complete. ``value``: decoded, None for a group."""

    name: str
    start: int
    stop: int
    whole: bool
    value: str | None
    group: bool


def file_header(body: bytes) -> dict[str, str]:
    """The fields of a file header by Logdump's names; truncated ones are missing.

    Numbers are decimal, times ISO 8601 UTC. URIHistory holds earlier writers' URIs, one a line. Tokens with unknown
    names have group and id (``MachineInfo x30``). Empty values are left out. Never raises.
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
        yield HeaderToken(name, at, end, stop <= len(body), None, True)
        yield from _tokens(body, at + 4, end, group, name)
        at = stop


def _tokens(body: bytes, at: int, end: int, group: int, group_name: str) -> Iterator[HeaderToken]:
    while at + 4 <= end:
        token = body[at]
        stop = at + 4 + int.from_bytes(body[at + 2 : at + 4], "big")
        there = body[at + 4 : min(stop, end)]
        known = FILE_HEADER_TOKENS.get(token) if group == _TRAIL_INFO else None
        name, form = known if known is not None else (f"{group_name} x{token:02x}", "any")
        yield HeaderToken(name, at, min(stop, end), stop <= end, _decode(there, form), False)
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


_ITEM: Final = re.compile(rb"([A-Z]\d{1,3})='((?:\\.|[^'\\]|'(?![,)]|\s*\Z))*)('?)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


class DdlItem(NamedTuple):
    """An item, with its bytes in the body; ``whole`` if the closing quote is there."""

    code: str
    start: int
    stop: int
    whole: bool
    value: str


def items_of(body: bytes, charset: str = "utf-8") -> Iterator[DdlItem]:
    """The items of a DDL body in order. The last item of a truncated body has the available part of the value."""
    for found in _ITEM.finditer(body):
        text = _ESCAPE.sub(r"\1", found[2].decode(charset, "replace"))
        yield DdlItem(found[1].decode(), found.start(), found.end(), bool(found[3]), text)


def ddl_items(body: bytes, charset: str = "utf-8") -> dict[str, str]:
    """Unescaped values by code. A statement in several items of one code is joined; of other repeated codes the first
    one counts."""
    items: dict[str, str] = {}
    for item in items_of(body, charset):
        if item.code == DDL_STATEMENT and item.code in items:
            items[item.code] += item.value
        else:
            items.setdefault(item.code, item.value)
    return items


def statement(items: Mapping[str, str]) -> str | None:
    """The text of the statement, as far as available; None if missing."""
    return items.get(DDL_STATEMENT) or items.get("G1") or None


_ORDERS: Final[tuple[Order, Order]] = ("little", "big")


def walk_tokens(area: bytes) -> tuple[list[Token], int]:
    """The tokens in an area of id (1 byte), info (1), length (2, either byte order) and value, and the number of
    missing bytes at its end; 0 if it ends with a token."""
    little, big = (_walk(area, order) for order in _ORDERS)
    if little[1] == 0 or (big[1] != 0 and little[1] <= big[1]):
        return little
    return big


def _walk(area: bytes, order: Order) -> tuple[list[Token], int]:
    tokens = []
    at = 0
    while at + 4 <= len(area):
        length = int.from_bytes(area[at + 2 : at + 4], order)
        tokens.append(Token(area[at], None, area[at + 1], length, area[at + 4 : at + 4 + length]))
        at += 4 + length
    return tokens, at - len(area) if at >= len(area) else at + 4 - len(area)


def user_pairs(area: bytes) -> list[tuple[str, str]]:
    """Names and values of user tokens, each ended by a NUL."""
    parts = area.split(b"\0")
    if parts and not parts[-1]:
        parts.pop()
    texts = [part.decode("utf-8", "replace") for part in parts]
    return [(texts[at], texts[at + 1] if at + 1 < len(texts) else "") for at in range(0, len(texts), 2)]
