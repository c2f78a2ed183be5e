"""What trails hold, from their bytes: token areas, file headers and DDL items (docs/formats/goldengate.md §5.1, §5.3,
§5.7), and the columns of record bodies (§4).

A column is its index in the table (from 0) and a length, two bytes each in the byte order of the trail, then that many
bytes: a null indicator of two bytes (0000: a value, FFFF: NULL) and the value. The columns of a NonStop's records are
*bare*: big-endian, without null indicators (§4.8). NonStop's Enscribe updates are pairs of field offset and field
length instead; a body does not distinguish the two, so these are read as columns if they happen to fit, and fail
otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Final, Literal, NamedTuple

import numpy as np

from cdcwb.formats.arrays import Bools, Bytes, Ints
from cdcwb.formats.goldengate import layout
from cdcwb.formats.goldengate.layout import HEADER
from cdcwb.formats.kernels import kernel, read_only

__all__ = [
    "HEADER", "MISSING", "NOT_A_TIME", "UNKNOWN_ORDER", "BodyLayout", "ColumnSpans", "Half", "Order", "TrailToken",
    "ddl_items", "detect_order", "detect_unified", "file_header", "header_groups", "iso_utc", "items_of", "julian_iso",
    "not_columns", "odd_indicator", "statement", "user_pairs", "walk", "walk_tokens",
]  # fmt: skip

Order = Literal["little", "big"]

MISSING: Final = -1
"""A number that is not printed."""

NOT_A_TIME: Final = -(1 << 62)
"""A time that is not printed, or has the form of a time only."""

_ORDERS: Final[tuple[Order, Order]] = ("little", "big")
_HISTORY: Final = 0x35
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

# --- tokens -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class TrailToken:
    """A token of a record. ``id`` is its code (0x4c: LOGCSN), ``name`` its printed name, if any. ``value`` is its
    available part; ``length`` its complete length, MISSING if not printed; ``start``: its offset in a token area."""

    id: int
    name: str | None
    info: int
    length: int
    value: bytes
    start: int = field(default=0, compare=False)

    @property
    def stop(self) -> int:
        """The end of its value in the token area."""
        return self.start + 4 + len(self.value)


def walk_tokens(area: bytes, order: Order | None = None) -> tuple[list[TrailToken], int]:
    """The tokens in an area of id (1 byte), info (1), length (2) and value, and the number of missing bytes at its end;
    0 if it ends with a token. ``order``: None if it is not known; then it is that in which fewer bytes are missing."""
    if order is not None:
        return _walk_tokens(area, order)
    little, big = (_walk_tokens(area, order) for order in _ORDERS)
    return little if little[1] == 0 or (big[1] != 0 and little[1] <= big[1]) else big


def _walk_tokens(area: bytes, order: Order, start: int = 0) -> tuple[list[TrailToken], int]:
    """``start``: the offset of the area."""
    tokens = []
    at = 0
    while at + 4 <= len(area):
        length = int.from_bytes(area[at + 2 : at + 4], order)
        tokens.append(TrailToken(area[at], None, area[at + 1], length, area[at + 4 : at + 4 + length], start + at))
        at += 4 + length
    return tokens, at - len(area) if at >= len(area) else at + 4 - len(area)


def user_pairs(area: bytes) -> list[tuple[str, str]]:
    """Names and values of user tokens, each ended by a NUL."""
    texts = [part.decode("utf-8", "replace") for part in area.removesuffix(b"\0").split(b"\0")] if area else []
    return [(texts[at], "".join(texts[at + 1 : at + 2])) for at in range(0, len(texts), 2)]


# --- file headers -----------------------------------------------------------------------------------------------------


def file_header(body: bytes) -> dict[str, str]:
    """The fields of a file header by Logdump's names; truncated ones are missing.

    Numbers are decimal, times ISO 8601 UTC. URIHistory holds earlier writers' URIs, one a line. Tokens with unknown
    names have group and id (``MachineInfo x30``). Empty values are left out. Never raises.
    """
    fields: dict[str, str] = {}
    for _, tokens in header_groups(body):
        for token, value in tokens:
            if value and (len(token.value) == token.length or token.name in ("URI", "URIHistory")):
                fields.setdefault(str(token.name), value)
    return fields


def header_groups(body: bytes) -> Iterator[tuple[TrailToken, list[tuple[TrailToken, str]]]]:
    """The groups of a file header, and the tokens of each with their values as text. The last of each may be
    truncated. Names are Logdump's."""
    for group in _walk_tokens(body, "big")[0]:
        group.name = layout.FILE_HEADER_GROUPS.get(group.id, f"group x{group.id:02x}")
        tokens = []
        for token in _walk_tokens(group.value, "big", group.start + 4)[0]:
            known = layout.FILE_HEADER_TOKENS.get(token.id) if group.name == "TrailInfo" else None
            token.name, form = known or (f"{group.name} x{token.id:02x}", "any")
            tokens.append((token, _header_text(token.value, form)))
        yield group, tokens


def _header_text(value: bytes, form: str) -> str:
    number, size = int.from_bytes(value, "big"), int.from_bytes(value[:2], "big")
    if form == "any":
        is_string = len(value) >= 2 + size > 2 and not any(value[2 + size :])
        form = "string" if is_string else "number" if len(value) <= 8 else "hex"
    match form:
        case "number":
            return str(number)
        case "charset":
            return f"x{value.hex()}"
        case "signature":
            return repr(value.decode("latin-1"))[1:-1]
        case "time":
            return julian_iso(number) or ""
        case "string":
            return value[2 : 2 + size].rstrip(b"\0").decode("utf-8", "replace")
        case "csn":
            return value[1 : 1 + value[0]].rstrip(b"\0").decode("utf-8", "replace") if value else ""
        case "nested":
            return "\n".join(
                _header_text(one.value, "string") for one in _walk_tokens(value, "big")[0] if one.id == _HISTORY
            )
    return value.hex()


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
    return iso_utc(value - layout.JULIAN_EPOCH_US) if value else None


# --- DDL --------------------------------------------------------------------------------------------------------------

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
        if item.code == layout.DDL_STATEMENT:
            items[item.code] = items.get(item.code, "") + item.value
        else:
            items.setdefault(item.code, item.value)
    return items


def statement(items: Mapping[str, str]) -> str | None:
    """The text of the statement, as far as available; None if missing."""
    return items.get(layout.DDL_STATEMENT) or items.get("G1") or None


# --- columns of bodies ------------------------------------------------------------------------------------------------

UNKNOWN_ORDER: Final = (
    "the byte order of the data is unknown, so no values are decoded; give it with the option byte_order"
)


def not_columns(offset: int, bare: bool = False) -> str:
    """The problem of data whose bytes from ``offset`` on are not columns; ``bare``: of a NonStop."""
    which = "big-endian columns without null indicators, as a NonStop writes them" if bare else "columns"
    return f"from byte {offset} on the data are not {which}, so none of its values are decoded"


def odd_indicator(shown: str) -> str:
    """The problem of a column without a valid null indicator."""
    return f"expected the null indicator 0000 or ffff, found {shown}"


class BodyLayout(IntEnum):
    """The layouts of bodies.

    * COLUMNS: columns from beginning to end, one image
    * KEYED: GGSPKUpdate; two bytes of length and so many bytes of key columns as before image, then the after image
    * UNIFIED_2: GGSUnifiedUpdate, GGSUnifiedPKUpdate; two bytes of length, that many bytes of before image, then the
      after image (by analogy to KEYED; no real body is known)
    * UNIFIED_4: the same with four bytes of length
    * OPAQUE: no columns, a body to leave alone
    """

    COLUMNS = 0
    KEYED = 1
    UNIFIED_2 = 2
    UNIFIED_4 = 3
    OPAQUE = 4

    @property
    def width(self) -> int:
        """The bytes of the length of the before image; 0 without one."""
        return int(_WIDTHS[self])


_WIDTHS: Final = np.array([0, 2, 2, 4, 0])


class Half(IntEnum):
    """The image that a column belongs to."""

    BEFORE = 0
    AFTER = 1


class ColumnSpans:
    """The columns of many bodies, those of a body together, in their order.

    For each column: ``row`` (the body), ``index`` (of the column), ``start`` and ``stop`` (the value after the null
    indicator, bytes of the buffer), ``indicator`` (-1: missing; of a bare column 0), ``half`` (a :class:`Half`),
    ``bare``, ``is_null`` and ``odd`` (the null indicator is missing, or neither 0000 nor FFFF). ``offsets``: body k has
    the columns ``offsets[k]`` up to ``offsets[k + 1]``. ``bad`` for each body: the offset in the buffer at which the
    walk failed, -1 if it reached the end; the columns before that offset are included.
    """

    def __init__(self, columns: Ints, bare: Bools, offsets: Ints, bad: Ints) -> None:
        self.index, self.start, self.stop, self.indicator, self.half = columns
        self.offsets, self.bad = offsets, bad
        self.row: Ints = np.repeat(np.arange(len(bad)), np.diff(offsets))
        self.bare: Bools = bare[self.row]
        self.is_null: Bools = self.indicator == 0xFFFF
        self.odd: Bools = (self.indicator != 0) & ~self.is_null

    def indicator_text(self, buffer: Bytes, cell: int) -> str:
        """The null indicator of a column as hex; a word for one that is missing."""
        start = int(self.start[cell])
        return buffer[start - 2 : start].tobytes().hex() if self.indicator[cell] >= 0 else "none"


@kernel
def _walk(b: Bytes, bodies: Ints, is_big: bool, columns: Ints, offsets: Ints, bad: Ints) -> int:
    """See :func:`walk`. ``bodies``: first byte of the columns (-1: none), last+1, bytes of the length of a before
    image, half and bare of each; ``columns``: index, start, stop, indicator and half of each. Returns the number of
    columns."""
    count = 0
    for body in range(bodies.shape[1]):
        offsets[body] = count
        at, last, width = bodies[0, body], bodies[1, body], bodies[2, body]
        half, bare = bodies[3, body], bodies[4, body]
        if at < 0:
            continue
        if at > last or (width > 0 and at < last < at + width):
            bad[body] = min(at, last)
            continue
        high = 0 if is_big or bare else 1  # which of two bytes is the high one
        middle = at
        if width > 0 and at < last:
            size = 0
            for k in range(width):
                size = size << 8 | int(b[at + abs((width - 1) * high - k)])
            middle = at + width + size
            if middle > last:
                bad[body], middle = at, last
            at += width
        for part in range(2):
            limit = last if part else middle
            at = middle if part else at
            while at < limit:
                start, stop = at + 4, limit + 1
                if start <= limit:
                    stop = start + (np.int64(b[at + 2 + high]) << 8 | np.int64(b[at + 3 - high]))
                if stop > limit:
                    bad[body] = at if bad[body] < 0 else bad[body]
                    break
                columns[0, count] = np.int64(b[at + high]) << 8 | np.int64(b[at + 1 - high])
                columns[3, count] = 0 if bare else -1
                if not bare and stop - start >= 2:
                    columns[3, count] = np.int64(b[start + high]) << 8 | np.int64(b[start + 1 - high])
                start = start if bare else min(start + 2, stop)
                columns[1, count], columns[2, count], columns[4, count] = start, stop, part if width > 0 else half
                count += 1
                at = stop
    offsets[bodies.shape[1]] = count
    return count


def walk(
    buffer: Bytes,
    start: Ints,
    stop: Ints,
    order: Order,
    forms: Ints | None = None,
    skip: Ints | None = None,
    before: Bools | None = None,
    bare: Bools | None = None,
) -> ColumnSpans:
    """The columns of the bodies ``[start, stop)`` of a buffer; a body with a start below 0 has none.

    ``forms``: a :class:`BodyLayout` for each (None: COLUMNS), ``skip``: bytes before the columns (SyskeyLen; None: 0),
    ``before``: the only image of such a body is a before image (None: an after image), ``bare``: the columns are
    big-endian without null indicators (None: none are).
    """
    none = np.zeros(len(start), dtype=np.int64)
    forms, skip = none if forms is None else forms, none if skip is None else skip
    bare = none > 0 if bare is None else bare
    half = none + Half.AFTER if before is None else np.where(before, Half.BEFORE, Half.AFTER)
    is_read = (start >= 0) & (start < stop) & (forms != BodyLayout.OPAQUE)
    bodies = np.stack([np.where(is_read, start + skip, -1), stop, _WIDTHS[forms], half, bare])
    columns = np.empty((5, int((stop - start)[is_read].sum()) // 4), dtype=np.int64)
    offsets, bad = np.empty(len(start) + 1, dtype=np.int64), np.full(len(start), -1, dtype=np.int64)
    count = _walk(read_only(buffer), bodies, order == "big", columns, offsets, bad)
    return ColumnSpans(columns[:, :count], bare, offsets, bad)


# --- detected properties of bodies: byte order, prefix ----------------------------------------------------------------

_OTHER_PREFIX: Final = np.array(
    [BodyLayout.COLUMNS, BodyLayout.KEYED, BodyLayout.UNIFIED_4, BodyLayout.UNIFIED_2, BodyLayout.OPAQUE]
)
_SAMPLE: Final = 4000


class _Sample:
    """Some bodies, evenly chosen among those that have bytes."""

    def __init__(self, buffer: Bytes, start: Ints, stop: Ints, skip: Ints | None) -> None:
        rows = np.flatnonzero((start >= 0) & (stop > start))
        self.rows = rows[:: max(1, -(-len(rows) // _SAMPLE))]
        self.buffer, self.start, self.stop = buffer, start[self.rows], stop[self.rows]
        self.skip = None if skip is None else skip[self.rows]

    def fit(self, order: Order, forms: Ints) -> Ints:
        """How well the bodies can be walked, as [3, bodies]: 1 if to their end with ascending indexes in each image,
        2 if all columns begin with a null indicator as well; the number of complete columns if all begin with one; and
        of complete columns."""
        cells = walk(self.buffer, self.start, self.stop, order, forms, self.skip)
        count, index, row, half = np.diff(cells.offsets), cells.index, cells.row, cells.half
        falls = (row[1:] == row[:-1]) & (half[1:] == half[:-1]) & (index[1:] <= index[:-1])
        rises = np.bincount(row[1:][falls], minlength=len(count)) == 0
        even = np.bincount(row[cells.odd], minlength=len(count)) == 0
        ends = (cells.bad < 0) & (count > 0) & rises
        return np.stack([ends * (1 + even), count * (rises & even), count * rises])


def detect_order(
    buffer: Bytes, start: Ints, stop: Ints, forms: Ints | None = None, skip: Ints | None = None
) -> tuple[Order | None, str]:
    """The byte order in which more bodies are columns to their exact end, and a sentence of evidence. For a body that
    ends exactly in both, the order in which each column begins with a null indicator counts. Unified updates may have
    either prefix length here. Truncated bodies count by their complete columns, if no body shows the order. None
    without evidence.
    """
    sample = _Sample(buffer, start, stop, skip)
    count = len(sample.rows)
    if not count:
        return None, "No record has a body."
    forms = np.zeros(count, dtype=np.int64) if forms is None else forms[sample.rows]
    fits = [np.maximum(*(sample.fit(order, one) for one in (forms, _OTHER_PREFIX[forms]))) for order in _ORDERS]
    incomplete = ", all of them incomplete, have more complete columns"
    evidence = (" end exactly, with increasing column indexes", incomplete, incomplete)
    for what, little, big in zip(evidence, *fits, strict=True):
        votes = {"little": int((little > big).sum()), "big": int((big > little).sum())}
        if votes["little"] != votes["big"]:
            order, other_order = sorted(_ORDERS, key=votes.__getitem__, reverse=True)
            read = f"Read {order}-endian, {votes[order]} of {count} sampled bodies{what}"
            return order, f"{read}; read {other_order}-endian, {votes[other_order]}."
    return None, f"None of {count} sampled bodies shows whether it is little-endian or big-endian."


def detect_unified(
    buffer: Bytes, start: Ints, stop: Ints, order: Order, skip: Ints | None = None
) -> tuple[BodyLayout | None, str]:
    """Whether 2 or 4 bytes precede the before image of unified updates, and a sentence of evidence. The bodies are
    those of unified updates only. None without bodies or evidence.
    """
    sample = _Sample(buffer, start, stop, skip)
    count = len(sample.rows)
    if not count:
        return None, "No unified update has a body."
    fits = [sample.fit(order, np.full(count, form))[0] > 1 for form in (BodyLayout.UNIFIED_2, BodyLayout.UNIFIED_4)]
    two, four = (int((one & ~other).sum()) for one, other in (fits, fits[::-1]))
    seen = f"of {count} sampled unified updates, both images end exactly: {two} with 2 bytes, {four} with 4."
    if two == four:
        return None, f"The size of the length that precedes the before image is unknown; {seen}"
    form = BodyLayout.UNIFIED_2 if two > four else BodyLayout.UNIFIED_4
    return form, f"The length that precedes the before image has {form.width} bytes; {seen}"
