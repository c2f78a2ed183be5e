"""What trails hold, from their bytes: token areas, file headers and DDL items (docs/formats/goldengate.md §5.1, §5.3,
§5.7), the columns of record bodies (§4), and their values (§4.6), as text and as values of Arrow types in typed tables.

A column is its index in the table (from 0) and a length, two bytes each in the byte order of the trail, then that many
bytes: a null indicator of two bytes (0000: a value, FFFF: NULL) and the value. The columns of a NonStop's records are
*bare*: big-endian, without null indicators (§4.8). NonStop's Enscribe updates are pairs of field offset and field
length instead; a body does not distinguish the two, so these are read as columns if they happen to fit, and fail
otherwise.

Values are decoded without loss, all of one coding at once with NumPy and Arrow. Bytes that are not a value of their
type become lower-case hex with a problem; the type of a column without a definition is inferred from its bytes, without
a problem (§4.7).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats import requests
from cdcwb.formats.arrays import as_array, bytes_of, content_of, gather, hex_text, integers, table_names, text_array
from cdcwb.formats.columns import cast_each, parsed
from cdcwb.formats.dissector import TableRequest, Wanted
from cdcwb.formats.goldengate import layout
from cdcwb.formats.goldengate.layout import Coding, How, Order
from cdcwb.formats.kernels import Bools, Bytes, Ints, kernel, read_only
from cdcwb.formats.requests import common_types, no_table, versions_of
from cdcwb.model import Kind, Operation, Problem

_HISTORY: Final = 0x35
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

# --- tokens -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class TrailToken:
    """A token of a record. ``id`` is its code (0x4c: LOGCSN), ``name`` its printed name, if any. ``value`` is its
    available part; ``length`` its complete length, MISSING if not printed; ``start``: its offset in a token area."""

    id: int
    name: str | None
    info: int = field(compare=False)
    length: int = field(compare=False)
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
    little, big = _walk_tokens(area, "little"), _walk_tokens(area, "big")
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


OPAQUE: Final = -1
"""The width of a body that is not columns."""


class Half(IntEnum):
    """The image that a column belongs to."""

    BEFORE = 0
    AFTER = 1


class ColumnSpans:
    """The columns of many bodies, those of a body together, in their order.

    For each column: ``row`` (the body), ``index`` (of the column), ``start`` and ``stop`` (the value after the null
    indicator, bytes of the buffer), ``indicator`` (-1: missing; of a bare column 0), ``half`` (a :class:`Half`),
    ``bare``, ``is_big`` (the byte order), ``is_null`` and ``odd`` (the null indicator is missing, or neither 0000 nor
    FFFF). ``offsets``: body k has the columns ``offsets[k]`` up to ``offsets[k + 1]``. ``bad`` for each body: the
    offset in the buffer at which the walk failed, -1 if it reached the end; the columns before it are included.
    """

    def __init__(self, columns: Ints, bare: Bools, is_big: Bools, offsets: Ints, bad: Ints) -> None:
        self.index, self.start, self.stop, self.indicator, self.half = columns
        self.offsets, self.bad = offsets, bad
        self.row: Ints = np.repeat(np.arange(len(bad)), np.diff(offsets))
        self.bare: Bools = bare[self.row]
        self.is_big: Bools = is_big[self.row]
        self.is_null: Bools = self.indicator == 0xFFFF
        self.odd: Bools = (self.indicator != 0) & ~self.is_null

    def indicator_text(self, buffer: Bytes, cell: int) -> str:
        """The null indicator of a column as hex; a word for one that is missing."""
        start = int(self.start[cell])
        return buffer[start - 2 : start].tobytes().hex() if self.indicator[cell] >= 0 else "none"


@kernel
def _walk(b: Bytes, bodies: Ints, columns: Ints, offsets: Ints, bad: Ints) -> int:
    """See :func:`walk`. ``bodies``: first byte of the columns (-1: none), last+1, bytes of the length of a before
    image, half, bare and is_big of each; ``columns``: index, start, stop, indicator and half of each. Returns the
    number of columns."""
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
        high = 0 if bodies[5, body] else 1  # which of two bytes is the high one
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
    buffer: Bytes, start: Ints, stop: Ints, is_big: Bools | bool, widths: Ints | None = None, skip: Ints | None = None,
    before: Bools | None = None, bare: Bools | None = None,
) -> ColumnSpans:  # fmt: skip
    """The columns of the bodies ``[start, stop)`` of a buffer; a body with a start below 0 has none.

    ``is_big``: their byte order. ``widths``: see :func:`widths_of` (None: 0), ``skip``: bytes before the columns
    (SyskeyLen; None: 0),
    ``before``: the only image of such a body is a before image (None: an after image), ``bare``: the columns are
    big-endian without null indicators (None: none are).
    """
    none = np.zeros(len(start), dtype=np.int64)
    widths, skip = none if widths is None else widths, none if skip is None else skip
    bare = none > 0 if bare is None else bare
    is_big = is_big | bare
    half = none + Half.AFTER if before is None else np.where(before, Half.BEFORE, Half.AFTER)
    is_read = (start >= 0) & (start < stop) & (widths != OPAQUE)
    bodies = np.stack([np.where(is_read, start + skip, -1), stop, widths, half, bare, is_big])
    columns = np.empty((5, int((stop - start)[is_read].sum()) // 4), dtype=np.int64)
    offsets, bad = np.empty(len(start) + 1, dtype=np.int64), np.full(len(start), -1, dtype=np.int64)
    count = _walk(read_only(buffer), bodies, columns, offsets, bad)
    return ColumnSpans(columns[:, :count], bare, is_big, offsets, bad)


def fit(buffer: Bytes, start: Ints, stop: Ints, order: Order, widths: Ints, skip: Ints) -> Ints:
    """How well bodies can be walked, a number for each: best if to their end with ascending indexes in each image, and
    all columns begin with a null indicator as well; then by the number of complete columns."""
    cells = walk(buffer, start, stop, order == "big", widths, skip)
    count, index, row, half = np.diff(cells.offsets), cells.index, cells.row, cells.half
    falls = (row[1:] == row[:-1]) & (half[1:] == half[:-1]) & (index[1:] <= index[:-1])
    rises = np.bincount(row[1:][falls], minlength=len(count)) == 0
    even = np.bincount(row[cells.odd], minlength=len(count)) == 0
    ends = (cells.bad < 0) & (count > 0) & rises
    found: Ints = (ends * (1 + even.astype(np.int64)) << 40) + (count * (rises & even) << 20) + count * rises
    return found


def widths_of(io: Ints, prefix: int | Ints) -> Ints:
    """The bytes of the length of the before image with which the data of records of some types begin; 0: without one,
    :data:`OPAQUE`: no columns. In a GGSPKUpdate two, then so many bytes of key columns as before image, and the after
    image; in unified updates ``prefix``, the before image and the after image (by analogy; no real body is known)."""
    choices = [np.isin(io, layout.LISTED), io == layout.KEYED, np.isin(io, layout.UNIFIED)]
    return np.select(choices, [0, 2, prefix], OPAQUE).astype(np.int64)


# --- values as text ---------------------------------------------------------------------------------------------------


class BodyValue(NamedTuple):
    """One value. ``problem``: its error, or None."""

    text: str
    problem: Problem | None = None
    sentence: str = ""


class ColumnTexts(NamedTuple):
    """The values of a column: ``array`` of strings, null for SQL NULL; ``problems`` as (index in the array, code,
    sentence)."""

    array: pa.Array
    problems: list[tuple[int, Problem, str]]


def texts(
    buffer: Bytes, start: Ints, stop: Ints, is_null: Bools, how: Coding, charset: str = "utf-8", order: Order = "little"
) -> ColumnTexts:
    """The values ``[start, stop)`` of a buffer, all of columns with the same coding, as text. ``is_null``: whether the
    value is SQL NULL. ``order`` is that of the length of a text, ``charset`` the database's, by Python's name.
    """
    if abs(how.scale) > _MOST_SCALE:  # no type has so many digits
        how = Coding(How.UNKNOWN)
    values = _Values(np.ascontiguousarray(buffer), start, stop, ~is_null, how, how.charset or charset, order)
    parts = values.parts() or [pa.nulls(len(start), pa.string())]
    array = parts[0] if len(parts) == 1 else pc.coalesce(*parts)
    if array.null_count == np.count_nonzero(is_null):
        return ColumnTexts(array, [])
    is_unread = values.there & as_array(array.is_null())
    others = {row: values.fallback(row) for row in np.flatnonzero(is_unread).tolist()}
    array = pc.replace_with_mask(array, pa.array(is_unread), text_array([one.text for one in others.values()]))
    return ColumnTexts(array, [(row, one.problem, one.sentence) for row, one in others.items() if one.problem])


def value_of(raw: bytes, how: Coding, order: Order, charset: str = "utf-8") -> BodyValue:
    """One value that is not NULL, from its bytes after the null indicator; see :func:`texts`. Never raises."""
    at = np.zeros(1, dtype=np.int64)
    found = texts(np.frombuffer(raw, np.uint8), at, at + len(raw), at > 0, how, charset, order)
    return BodyValue(found.array[0].as_py(), *(found.problems[0][1:] if found.problems else ()))


_MOST_SCALE: Final = 4096
_SPACE, _TILDE = b" ~"
_MOMENT: Final = r"^\d{4}-\d\d-\d\d(?:[: T].{8,29})?$"
_NUMERIC: Final = (How.INTEGER, How.FLOAT, How.DECIMAL)


class _Values:
    """The bytes of the values of one coding. ``there``: not NULL; ``size``: bytes of each; ``prefixed``: it begins with
    its length; ``begin``: its first byte after that. The arrays that methods return are null where a value is not read
    in that way.
    """

    def __init__(
        self, buffer: Bytes, start: Ints, stop: Ints, there: Bools, how: Coding, charset: str, order: Order
    ) -> None:
        self.buffer, self.start, self.stop, self.there = buffer, start, stop, there
        self.how, self.charset, self.order = how, charset, order
        self.size = stop - start
        self.prefixed = there & (self.size >= 2)
        if self.prefixed.any():
            self.prefixed &= self._numbers(self.prefixed, 2, "<u2" if order == "little" else ">u2") == self.size - 2
        self.begin = start + 2 * self.prefixed

    def parts(self) -> list[pa.Array]:
        """Texts whose union is all valid values."""
        how, there, size = self.how, self.there, self.size
        match how.how:
            case How.GUESS | How.GUESS_FIXED:
                return self._guesses(how.how is How.GUESS_FIXED)
            case How.TEXT:
                return [self._decoded(self._raw(self.prefixed))]
            case How.FIXED_TEXT:
                return [pc.ascii_rtrim(self._decoded(self._raw(self.prefixed | (there & (size == how.size)))), " ")]
            case How.INTEGER:
                return [self._integers(there & (size == how.size), how.size)]
            case How.FLOAT:
                sizes = [(width, where) for width in (4, 8) if (where := there & (size == width)).any()]
                found = [pa.array(self._numbers(where, width, f">f{width}"), mask=~where) for width, where in sizes]
                return [pc.cast(one, pa.string()) for one in found]
            case How.DECIMAL:
                return []
            case How.MOMENT:
                raw = self._raw(there & (self.stop > self.begin))
                return [_only(raw, _within(raw, _SPACE, _TILDE)).cast(pa.string())]
            case How.BINARY:
                return [self._hex(self.prefixed)]
        if not (may_be_text := self.prefixed & (size > 2)).any():
            return [self._hex(there, self.start)]
        text = self._decoded(self._raw(may_be_text))
        return [text, self._hex(there & as_array(text.is_null()), self.start)]

    def fallback(self, row: int) -> BodyValue:
        """A value that is not of its type: a number in text form, or hex with a problem."""
        how = self.how
        raw = self.buffer[self.start[row] : self.stop[row]].tobytes()
        if how.how in _NUMERIC and self.prefixed[row]:
            with suppress(ValueError):
                float(text := raw[2:].decode("latin-1"))
                return BodyValue(text)
        if how.how is How.GUESS_FIXED and (text := decoded(raw, self.charset) or "\0").isprintable():
            return BodyValue(text.rstrip(" "))
        sentence = {
            How.INTEGER: f"expected an integer of {how.size} bytes, found {len(raw)}",
            How.FLOAT: f"expected a number of 4 or 8 bytes, found {len(raw)}",
            How.DECIMAL: "zoned and packed decimals are not decoded; their bytes are in the column raw",
            How.MOMENT: "expected a date or time as text, found other bytes",
            How.GUESS_FIXED: f"expected text, a date or an integer of 2, 4 or 8 bytes, found {raw.hex():.40}",
        }.get(how.how)
        if sentence is None and (self.prefixed[row] or (how.how is How.FIXED_TEXT and len(raw) == how.size)):
            text = raw[self.begin[row] - self.start[row] :].hex()
            return BodyValue(text, Problem.CHARSET, f"expected text in {self.charset}, found other bytes")
        if len(raw) < 2:
            sentence = sentence or f"expected a length of 2 bytes, found {len(raw)}"
        length = int.from_bytes(raw[:2], self.order)
        sentence = sentence or f"expected {length} bytes by their length prefix, found {len(raw) - 2}"
        return BodyValue(raw.hex(), Problem.VALUE, sentence)

    def _guesses(self, fixed: bool) -> list[pa.Array]:
        """Values of columns that have no definition (§4.7); of a NonStop's, ``fixed``, also text without a length, and
        numbers of two bytes (§4.8)."""
        size = self.size
        raw = self._raw(self.prefixed)
        may_be_number = ((size == 4) | (size == 8)) & self.prefixed
        if may_be_number.any():
            raw = _only(raw, ~may_be_number | _within(raw, _SPACE, 255))
        parts = [self._decoded(raw)]
        rest = self.there & as_array(parts[0].is_null())
        if not rest.any():
            return parts
        raw = self._raw(rest, self.start)
        is_moment = as_array(pc.match_substring_regex(raw, _MOMENT).fill_null(False))
        is_text = rest & _within(raw, _SPACE, _TILDE) & (fixed | (size == 0) | is_moment)
        if is_text.any():
            text = _only(raw, is_text).cast(pa.string())
            parts.append(pc.if_else(pa.array(is_moment), text, pc.ascii_rtrim(text, " ")))
            rest &= ~is_text
        for width in (2, 4, 8)[not fixed :]:
            if (where := rest & (size == width)).any():
                parts.append(self._integers(where, width))
                rest &= ~where
        if rest.any() and not fixed:
            parts.append(self._hex(rest, self.start))
        return parts

    def _raw(self, where: Bools, begin: Ints | None = None) -> pa.Array:
        """The bytes of some values, from ``begin`` (None: after their length)."""
        start = self.begin if begin is None else begin
        return gather(pa.binary(), self.buffer, start, self.stop, None if where.all() else where)

    def _hex(self, where: Bools, begin: Ints | None = None) -> pa.Array:
        """Bytes as hex."""
        return hex_text(self._raw(where, begin), upper=False)

    def _decoded(self, raw: pa.Array) -> pa.Array:
        """Bytes as text in the character set."""
        if self.charset.lower() in ("utf-8", "utf8", "utf_8"):
            with suppress(pa.ArrowInvalid):
                return raw.cast(pa.string())
        different = raw.dictionary_encode()
        found = text_array([decoded(one, self.charset) for one in different.dictionary.to_pylist()])
        return found.take(different.indices)

    def _numbers(self, where: Bools, size: int, kind: str) -> npt.NDArray[Any]:
        """The first bytes of some values as numbers of a NumPy type; 0 for the others."""
        out = np.zeros(len(where), dtype=np.dtype(kind).newbyteorder("="))
        out[where] = bytes_of(self.buffer, self.start[where], size).view(kind).reshape(-1)
        return out

    def _integers(self, where: Bools, size: int) -> pa.Array:
        """Big-endian numbers of 1, 2, 4 or 8 bytes, with their scale."""
        number, scale = self._numbers(where, size, f">{'i' if self.how.signed else 'u'}{size}"), self.how.scale
        if scale == 0:
            return integers(number, ~where)
        if scale < 0:
            text = integers(number, ~where)
            return pc.if_else(pa.array(number == 0), text, pc.binary_join_element_wise(text, "0" * -scale, ""))
        negative, whole = number < 0, number.astype(np.uint64)
        digits = pc.ascii_lpad(integers(np.where(negative, 0 - whole, whole), ~where), scale + 1, "0")
        sign = pc.if_else(pa.array(negative), "-", "")
        return pc.binary_join_element_wise(sign, pc.binary_replace_slice(digits, -scale, -scale, "."), "")


def _within(raw: pa.Array, low: int, high: int) -> Bools:
    """Values that have no byte outside of a range."""
    content, at = content_of(raw)
    out = np.ones(len(raw), dtype=np.bool_)
    out[np.searchsorted(at, np.flatnonzero(content - np.uint8(low) > high - low), side="right") - 1] = False
    return out


def _only(values: pa.Array, where: Bools) -> pa.Array:
    """Some values; null for the others."""
    return values if where.all() else pc.if_else(pa.array(where), values, None)


def decoded(raw: bytes, charset: str) -> str | None:
    """Text in a character set; None if undecodable."""
    try:  # suppress() would take as long as the decoding
        return raw.decode(charset)
    except (UnicodeError, LookupError):
        return None


# --- typed tables -----------------------------------------------------------------------------------------------------

_DATE: Final = 10  # characters of a date
_KINDS: Final = frozenset(map(str, (Kind.CHANGE, Kind.BEFORE, Kind.AFTER)))
_OPERATIONS: Final = list(map(str, (Operation.INSERT, Operation.UPDATE, Operation.DELETE)))


def column_types(known: Iterable[Any], request: TableRequest) -> dict[str, pa.DataType]:
    """The requested columns of a table, of the ``types`` of its versions; one whose type differs between versions is
    text. Raises CaptureError, which lists the known ones, for an unknown table or column."""
    versions = [one for one in known if request.name in table_names(one.full_name or "")]
    if not versions:
        raise no_table(request, (one.full_name or "" for one in known))
    return common_types((one for version in versions_of(versions, request) for one in version.types.items()), request)


def wanted_for(request: TableRequest) -> Wanted:
    """The events of a table's rows."""
    return Wanted(kinds=_KINDS, tables=frozenset({request.name}))


def typed_rows(events: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of one table from its events, with this schema (:func:`cdcwb.formats.requests.request_schema`)."""
    for batch in events:
        rows = batch.filter(pc.is_in(batch.column("operation"), value_set=pa.array(_OPERATIONS)))
        yield requests.typed_rows(rows, schema, typed_texts)


def typed_texts(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Texts of values as values of a type; null if invalid. Dates in Logdump's form, with a colon between day and hour,
    are truncated to the digits of the type."""
    if pa.types.is_date(kind):
        texts = pc.utf8_slice_codeunits(texts, 0, _DATE)
    elif pa.types.is_timestamp(kind):
        texts = pc.replace_substring_regex(texts, r"^(\d{4}-\d\d-\d\d):", r"\1 ")
        texts = pc.replace_substring_regex(texts, r"^(\d{4}-\d\d-\d\d)$", r"\1 00:00")
    elif not (pa.types.is_string(kind) or pa.types.is_binary(kind)):
        return cast_each(texts, kind)
    return parsed(texts, kind)
