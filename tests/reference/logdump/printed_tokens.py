"""Hex of tokens: the area behind a record, user tokens, and the header token (docs/formats/goldengate.md §3.3, §5.7 and
§5.8)."""

from __future__ import annotations

from typing import Final, Literal

from cdcwb.formats.goldengate.decode import Token
from cdcwb.formats.goldengate.layout import GHDR, GHDR_FIXED, GHDR_TIME, JULIAN_EPOCH_US
from tests.reference.logdump.printed_lines import text_of

__all__ = ["Order", "ghdr_order", "ghdr_time", "ghdr_values", "user_pairs", "walk_tokens"]

Order = Literal["little", "big"]
_ORDERS: Final[tuple[Order, Order]] = ("little", "big")
_OUR_DAYS: Final = (JULIAN_EPOCH_US, JULIAN_EPOCH_US + 200 * 365 * 86_400_000_000)
_YEARS: Final = (JULIAN_EPOCH_US - 10**9 * 86400 * 10, JULIAN_EPOCH_US + 10**6 * 86400 * 366 * 230)


def walk_tokens(area: bytes) -> tuple[list[Token], int]:
    """The tokens in an area of id (1 byte), info (1), length (2, either byte order) and value, and how many bytes are
    missing at its end; 0 where it ends with a token."""
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
    texts = [text_of(part) for part in parts]
    return [(texts[at], texts[at + 1] if at + 1 < len(texts) else "") for at in range(0, len(texts), 2)]


def ghdr_order(ghdr: bytes) -> Order | None:
    """The byte order of a header token; None for one that is too short or holds no time.

    That in which its time is of our days, else is one at all; where both are, that in which RecLength is less.
    """
    at, size = GHDR_TIME
    if len(ghdr) < GHDR_FIXED:
        return None
    for low, high in (_OUR_DAYS, _YEARS):
        good = [order for order in _ORDERS if low <= int.from_bytes(ghdr[at : at + size], order) < high]
        if good:
            return min(good, key=lambda order: int.from_bytes(ghdr[4:6], order))
    return None


def ghdr_time(ghdr: bytes) -> int | None:
    """IO Time of a header token as microseconds since 1970 UTC; None where it holds none."""
    order = ghdr_order(ghdr)
    at, size = GHDR_TIME
    return None if order is None else int.from_bytes(ghdr[at : at + size], order) - JULIAN_EPOCH_US


def ghdr_values(ghdr: bytes) -> dict[str, int]:
    """The numbers of a header token by their names; empty where it is too short or its byte order is not known."""
    order = ghdr_order(ghdr)
    if order is None:
        return {}
    metadata = ghdr[6] == 170
    return {
        name: int.from_bytes(ghdr[at : at + size], order)
        for name, at, size in GHDR
        if name not in (("AuditRBA",) if metadata else ("DDR index", "TDR index"))
    }
