"""Trail records as printed by Logdump: one record as Python objects, and many as columns; and the contents of file
headers and DDL records (docs/formats/goldengate.md §2, §5.1 and §5.3). The other modules decode one wire form each. A
*printed* record has only what is in the text. :class:`Printed` is one record, :class:`Records` the records of a stretch
of text in arrays, with the :class:`Printed` of records that do not fit into the arrays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from cdcwb.formats.goldengate.layout import (
    DDL_STATEMENT,
    FILE_HEADER_GROUPS,
    FILE_HEADER_TOKENS,
    JULIAN_EPOCH_US,
    io_type_of,
)
from cdcwb.model import Problem

__all__ = [
    "HEADER",
    "MISSING",
    "NOT_A_TIME",
    "Bools",
    "Bytes",
    "Ints",
    "Order",
    "Printed",
    "PrintedColumn",
    "Records",
    "Shape",
    "Span",
    "System",
    "Token",
    "ddl_items",
    "file_header",
    "header_tokens",
    "iso_utc",
    "items_of",
    "julian_iso",
    "malformed_sentence",
    "readable",
    "statement",
]


Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Order = Literal["little", "big"]
Span = tuple[int, int]

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
"""The numbers of a record header, in the order of the columns of :attr:`Records.values`.

Characters (Hdr-Ind, BeforeAfter, FormatType, Continued) are their codes: ``E`` is 0x45; Continued is 1 (Y) or 0 (N).
"""


class Shape(IntEnum):
    """The kinds of stretches of text."""

    RECORD = 0
    """A record: with or without its header block."""
    FILE_HEADER = 1
    """The trail's file header."""
    FILLER = 2
    """Lines outside records: prompts, notes, blank lines after them."""
    MALFORMED = 3
    """Lines of a malformed record: neither header block nor record line is complete."""


class System(IntEnum):
    """The system whose change a record is, as far as the record shows it."""

    OTHER = 0
    """None of NonStop's."""
    UNKNOWN = 1
    """No evidence."""
    NONSTOP = 2
    """A NonStop: big-endian, without null indicators."""


@dataclass(slots=True)
class Token:
    """A token of a record. ``id`` is its code (0x4c: LOGCSN), ``name`` its printed name, if any. ``value`` is its
    printed part; ``length`` its complete length, MISSING if not printed."""

    id: int
    name: str | None
    info: int
    length: int
    value: bytes


@dataclass(slots=True)
class PrintedColumn:
    """A ``Column`` or ``KeyCol`` line and the hex below it. ``half``: ``key`` (KeyCol), else ``before`` or ``after``:
    that of the line ``Before Image … Len`` or ``After Image … Len`` above it, else the record's side. ``data``: the
    bytes below it, with the null indicator; None if none are printed."""

    half: str
    index: int
    length: int
    data: bytes | None
    fragment: tuple[int, int] | None = None
    """LOB fragment k of n."""


@dataclass(slots=True)
class Printed:
    """One record as printed. Offsets are bytes of the decompressed file. ``values`` has the names of :data:`HEADER`
    that are printed; the hex next to a character or number takes precedence. ``ghdr``: bytes of the header token
    (HEADERTOKEN DETAIL). ``parts``: lengths of header tokens by letter (G, H, D, T, U, Z). ``operation``,
    ``line_time``, ``length`` and ``rba`` are those of the record line; ``name`` that of the Name line (None: no such
    line, empty: no name), ``name_index`` its TDR index. ``image``: ``Before`` or ``After``, the words of the image
    line; ``image_trans``: TransInd by the letter at its end. ``transaction`` and ``transaction_number`` are the id of a
    TRANSID line (NonStop) and the number after it. ``body``: the printed bytes of the record's data, None if none are
    printed. ``text``: the lines of a Metadata record. ``trail``: the trail file in force, where the text names one.
    ``wrong_fields``: the first problem of each header field that has one. ``line_moment`` and ``header_moment``:
    ``line_time`` and ``io_time`` as microseconds since 1970 as if their zone were UTC. ``operation_at``, ``name_at``,
    ``time_at``: where these are in the record's text.
    """

    shape: Shape
    start: int
    stop: int
    values: dict[str, int] = field(default_factory=dict)
    io_time: str | None = None
    line_time: str | None = None
    operation: str | None = None
    length: int = MISSING
    rba: int = MISSING
    name: str | None = None
    name_index: int = MISSING
    image: str | None = None
    image_partition: int = MISSING
    image_trans: int = MISSING
    transaction: str | None = None
    transaction_number: str | None = None
    ghdr: bytes = b""
    parts: dict[str, int] = field(default_factory=dict)
    body: bytes | None = None
    columns: list[PrintedColumn] = field(default_factory=list)
    tokens: list[Token] = field(default_factory=list)
    user_tokens: list[tuple[str, str]] = field(default_factory=list)
    text: str | None = None
    trail: str | None = None
    problems: list[tuple[Problem, str]] = field(default_factory=list)
    wrong_fields: dict[str, str] = field(default_factory=dict)
    line_moment: int = field(default=NOT_A_TIME, compare=False)
    header_moment: int = field(default=NOT_A_TIME, compare=False)
    operation_at: Span = field(default=(MISSING, MISSING), compare=False)
    name_at: Span = field(default=(MISSING, MISSING), compare=False)
    time_at: Span = field(default=(MISSING, MISSING), compare=False)

    def wrong(self, name: str, sentence: str) -> tuple[Problem, str]:
        """The problem of a header field, from ``wrong_fields``."""
        self.wrong_fields.setdefault(name, sentence)
        return Problem.HEADER_VALUE, sentence

    @property
    def io_type(self) -> int | None:
        """Number of the record type, by its header or else by its printed name."""
        number = self.values.get("IOType")
        return io_type_of(self.operation) if number is None and self.operation is not None else number

    @property
    def side(self) -> int | None:
        """BeforeAfter of the header, else from the words of the image line: the code of ``A`` or ``B``."""
        return self.values.get("BeforeAfter", None if self.image is None else ord(self.image[0]))


@dataclass(slots=True)
class Records:
    """``n`` records of a stretch of text, in order.

    * ``shape`` int8 [n], values of :class:`Shape`; ``start``, ``stop`` int64 [n], bytes of the decompressed file
    * ``values`` int64 [n, 17], columns as :data:`HEADER`, MISSING where not printed
    * ``length``, ``rba``, ``name_index``, ``image_partition`` int64 [n], MISSING where not printed
    * ``image`` int64 [n]: the code of ``A`` or ``B``, by the words of the image line; ``image_trans`` int64 [n]:
      TransInd by the letter at its end. MISSING where not printed
    * ``total`` int64 [n]: length of the header token G, by which the next record's RBA is known; else MISSING
    * ``moment`` int64 [n]: the printed time (of the record line, else IO Time) as microseconds since 1970 as if its
      zone were UTC; ``julian`` int64 [n]: the time in the header token's bytes, microseconds since 1970 UTC. MISSING
      where there is none
    * ``text``: the bytes that the slices below are in (the stretch itself). ``operation_at``, ``name_at``, ``time_at``
      int64 [n, 2]: first and last+1 of the operation's name, the Name and the printed time; -1, -1 where not printed
    * ``bytes``: decoded hex of the complete stretch. ``body_at``, ``csn_at``, ``xid_at``, ``rowid_at`` int64 [n, 2]:
      slices of it for the record's data and the values of the tokens LOGCSN, TRANID and ORAROWID; -1, -1 where there
      is none. A truncated body has its printed length
    * ``extras``: index -> the complete record, for each record that does not fit into the arrays (other tokens,
      user tokens, Metadata text, per-column hex without record hex, problems, any unusual output)
    * ``trail``: the trail files named in the text, as (index of the first record it is in force for, path)
    * ``cut`` bool [n]: the body is truncated and the record otherwise fits into the arrays, so it is not among the
      extras; ``cut_column`` int64 [n, 3]: its column with truncated hex, as (index, printed bytes, length), MISSING
      without one
    * ``fragment`` int64 [n, 3]: the first LOB fragment among the columns, as (column index, number, number of all);
      MISSING where there is none
    """

    shape: npt.NDArray[np.int8]
    start: Ints
    stop: Ints
    values: Ints
    length: Ints
    rba: Ints
    name_index: Ints
    image_partition: Ints
    image: Ints
    image_trans: Ints
    total: Ints
    moment: Ints
    julian: Ints
    text: Bytes
    operation_at: Ints
    name_at: Ints
    time_at: Ints
    bytes: Bytes
    body_at: Ints
    csn_at: Ints
    xid_at: Ints
    rowid_at: Ints
    extras: dict[int, Printed]
    trail: list[tuple[int, str]]
    cut: npt.NDArray[np.bool_]
    cut_column: Ints
    fragment: Ints

    def __len__(self) -> int:
        return len(self.start)

    @property
    def side(self) -> Ints:
        """BeforeAfter of the header, else from the words of the image line: the code of ``A`` or ``B``."""
        told = self.column("BeforeAfter")
        return np.where(told == MISSING, self.image, told)

    def column(self, name: str) -> Ints:
        """One number of the header, for all records."""
        return self.values[:, HEADER.index(name)]


def malformed_sentence(records: Records, index: int) -> str:
    """Why lines are not a record."""
    printed = records.extras.get(index)
    if printed is not None and printed.problems:
        return printed.problems[0][1]
    return "lines of a record with neither a complete header block nor its record line"


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


def readable(text: Bytes) -> Bytes:
    """The same bytes read-only, as all kernels get them: they are compiled for one type of array."""
    view = np.ascontiguousarray(text).view()
    view.flags.writeable = False
    return view
