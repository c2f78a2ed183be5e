"""Logdump text as records in columns, and as complete records, with contradictions (docs/formats/goldengate.md §2,
§3.3, §3.8, §5.7 and §5.8).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from cdcwb.errors import CaptureError
from cdcwb.formats.goldengate.decode import (
    HEADER,
    MISSING,
    NOT_A_TIME,
    Bytes,
    Ints,
    Order,
    Printed,
    PrintedColumn,
    Records,
    Shape,
    Span,
    Token,
    readable,
)
from cdcwb.formats.goldengate.decode import logdump as t
from cdcwb.formats.goldengate.decode.grammar import IO_TIME, NAMES
from cdcwb.formats.goldengate.decode.logdump import LINE_WIDTH, PAIR_WIDTH, WIDTH, Role, read
from cdcwb.formats.goldengate.layout import (
    GHDR,
    GHDR_FIXED,
    GHDR_TIME,
    IO_TYPES,
    JULIAN_EPOCH_US,
    io_type_of,
    is_before_image,
)
from cdcwb.model import Problem

__all__ = [
    "Line",
    "Pair",
    "boundary",
    "ghdr_order",
    "ghdr_time",
    "ghdr_values",
    "lines_of",
    "printed_of",
    "scan",
    "split_text",
    "text_of",
    "truncated_body",
    "truncated_column",
    "user_pairs",
    "walk_tokens",
]


Problems = Iterator[tuple[Problem, str]]


def text_of(printed: bytes) -> str:
    """Printed text; bytes that are not UTF-8 are replaced."""
    return printed.decode("utf-8", "replace")


@dataclass(slots=True)
class Line:
    """A line of a record: its role; ``[at, next)`` its bytes, ``[start, stop)`` without white space around it; the
    values parsed by the grammar (see :mod:`.grammar`); ``data``: the bytes printed below it, or in it if it is hex."""

    role: Role
    at: int
    next: int
    start: int
    stop: int
    found: list[int]
    data: bytes

    def span(self, number: int) -> Span:
        """Two numbers of ``found`` as a span."""
        return self.found[number], self.found[number + 1]


@dataclass(slots=True)
class Pair:
    """A field of a line of the header block: its label and offset, the span of its value, its number (MISSING: none),
    the decimal that contradicts it (MISSING: none), its time."""

    line: int
    name: str
    at: int
    start: int
    stop: int
    number: int
    contradicted: int
    moment: int


@dataclass(slots=True)
class Lines:
    """All lines of one record; ``stop``: its end."""

    lines: list[Line]
    pairs: list[Pair]
    stop: int


def lines_of(record: bytes | Bytes) -> Lines:
    """The lines of a text that is one record."""
    text = np.frombuffer(record, np.uint8)
    rows = np.empty((4, WIDTH), np.int64)
    lines = np.empty((int(np.count_nonzero(text == 10)) + 1, LINE_WIDTH), np.int64)
    pairs = np.empty((int(np.count_nonzero(text == 58)), PAIR_WIDTH), np.int64)
    data = np.empty(text.size // 2 + 64, np.uint8)
    _, size, _, count, fields = read(text, 0, text.size, False, True, rows, data, lines, pairs)
    shown = data[:size].tobytes()
    return Lines(
        [
            Line(Role(one[0]), one[1], one[2], one[3], one[4], one[5:13], shown[one[13] : one[14]])
            for one in lines[:count].tolist()
        ],
        [Pair(one[0], NAMES[one[1]], *one[2:]) for one in pairs[:fields].tolist()],
        int(rows[0, len(HEADER) + 1]) if count else 0,
    )


def printed_of(record: bytes, found: Lines | None = None) -> Printed:
    """Parses the text of one record; offsets count from its start. Never raises."""
    found = lines_of(record) if found is None else found
    result = Printed(Shape.RECORD, 0, found.stop)
    _header_block(result, record, found.pairs)
    body, ghdr, ggs, user = bytearray(), bytearray(), bytearray(), bytearray()
    groups: list[tuple[Line, list[Line]]] = []
    tokens: list[Line] = []
    half = ""
    text: list[bytes] = []

    def said(span: Span) -> str:
        return text_of(record[slice(*span)])

    sink = bytearray()
    for line in found.lines:
        role, numbers = line.role, line.found
        if role is Role.BODY:
            body += line.data
        elif role is Role.HEADER_TOKEN_HEX:
            sink += line.data
        elif role is Role.HEADER_TOKEN:
            letter = chr(numbers[0])
            result.parts.setdefault(letter, numbers[4])
            sink = ghdr if letter == "H" else bytearray()
        elif role is Role.TRAIL:
            result.trail = said((line.start, line.stop)).partition(":")[2].strip() or None
        elif role is Role.RECORD:
            result.time_at, result.operation_at = (line.start, numbers[0]), line.span(2)
            result.line_time, result.operation = said(result.time_at), said(result.operation_at)
            result.line_moment = numbers[1]
            result.length, result.rba = numbers[4], numbers[5]
        elif role is Role.NAME:
            result.name_at = line.span(0)
            result.name = said(result.name_at)
            result.name_index = int(record[slice(*line.span(2))]) if numbers[2] >= 0 else MISSING
        elif role is Role.TDR_INDEX:
            result.name_index = numbers[0]
        elif role is Role.IMAGE:
            result.image = said((line.start, numbers[0]))
            result.image_trans = numbers[4]
            if numbers[1] >= 0:
                result.image_partition = numbers[1]
        elif role is Role.TRANSACTION:
            result.transaction = said(line.span(0))
            result.transaction_number = said(line.span(2)) if numbers[2] >= 0 else None
        elif role is Role.TEXT:
            text.append(record[line.start : line.stop])
        elif role is Role.HALF:
            half = ("", "before", "after", half)[numbers[0]]
        elif role is Role.COLUMN:
            result.columns.append(_column(result, record, line, half))
        elif role is Role.GROUP:
            groups.append((line, []))
        elif role is Role.GROUP_TOKEN:
            groups[-1][1].append(line)
        elif role is Role.GGS:
            ggs += line.data
        elif role is Role.USER:
            user += line.data
        elif role is Role.TOKEN or role is Role.USER_TOKEN:
            tokens.append(line)
        elif role is Role.USER_PAIR:
            result.user_tokens.append((said((line.start, numbers[0])), said((numbers[1], line.stop))))
    result.ghdr = bytes(ghdr)
    for name, value in ghdr_values(result.ghdr).items():
        if name != "AuditRBA" or "TDR index" not in result.values:
            result.values.setdefault(name, value)
    result.body = bytes(body) or _group_bytes(groups) or None
    side = "before" if is_before_image(result.io_type, result.side) else "after"
    result.columns = [replace(column, half=column.half or side) for column in result.columns]
    result.text = text_of(b"\n".join(text)) if text else None
    result.shape = _shape(result)
    if result.shape is Shape.MALFORMED:
        sentence = "lines of a record without a complete header block and without its record line"
        result.problems.append((Problem.MALFORMED, sentence))
    _tokens(result, record, bytes(ggs), bytes(user), tokens)
    if result.shape is not Shape.MALFORMED:
        if result.operation is None:
            result.problems.append((Problem.TRUNCATED, "record line is missing"))
        result.problems += check(result)
    for what, told in (("Name", result.name), ("definition", result.text)):
        if told is not None and "\ufffd" in told:
            result.problems.append((Problem.CHARSET, f"{what} is not UTF-8"))
    return result


def _header_block(result: Printed, record: bytes, pairs: list[Pair]) -> None:
    values = result.values
    for pair in pairs:
        name, number = pair.name, pair.number
        if name == NAMES[IO_TIME]:
            if result.io_time is None and pair.stop > pair.start:
                result.io_time, result.header_moment = text_of(record[pair.start : pair.stop]), pair.moment
                result.time_at = pair.start, pair.stop
        elif name == "DDR/TDR index":
            if number >= 0:
                values.setdefault("DDR index", number)
                values.setdefault("TDR index", pair.contradicted)
        elif number >= 0:
            if pair.contradicted >= 0:
                told = f"{name} is printed as {pair.contradicted} and as x{number:02x}"
                result.problems.append(result.wrong(name, told))
            if values.setdefault(name, number) != number:
                told = f"{name} is printed as {values[name]}, then as {number}"
                result.problems.append(result.wrong(name, told))


def _column(result: Printed, record: bytes, line: Line, half: str) -> PrintedColumn:
    index, length = line.found[0], line.found[3]
    both: list[int] = []
    for what, decimal, (start, stop) in (
        ("Column", index, line.span(1)),
        ("length of column {}", length, line.span(4)),
    ):
        number = int(record[start:stop], 16) if start >= 0 else decimal
        if number != decimal:
            shown = record[start:stop].decode().lower()
            sentence = f"{what.format(*both)} is printed as {decimal} and as x{shown}"
            result.problems.append((Problem.HEADER_VALUE, sentence))
        both.append(number)
    fragment = line.span(6) if line.found[6] >= 0 else None
    data: bytes | None = line.data or None
    if data and (both[0] >= 1 << 16 or both[1] >= 1 << 16 or (both[1] < 0 and fragment is None)):
        sentence = f"Column {both[0]}: expected a number and a length below 65536"
        result.problems.append((Problem.HEADER_VALUE, sentence))
        data = None
    key = record[line.start : line.start + 1] == b"K"
    return PrintedColumn("key" if key else half, both[0], both[1], data, fragment)


def _shape(result: Printed) -> Shape:
    if result.operation == "FileHeader" or result.name == "*FileHeader*":
        return Shape.FILE_HEADER
    whole = bool(result.values) and not lacking(result)
    return Shape.RECORD if whole or result.operation is not None else Shape.MALFORMED


def _group_bytes(groups: list[tuple[Line, list[Line]]]) -> bytes:
    """A file header, joined from its groups and tokens."""
    whole = bytearray()

    def head(line: Line) -> bytes:
        return bytes([line.found[0], line.found[3] & 255]) + (line.found[4] & 0xFFFF).to_bytes(2, "big")

    for group, tokens in groups:
        whole += group.data or head(group) + b"".join(head(token) + token.data for token in tokens)
    return bytes(whole)


def _tokens(result: Printed, record: bytes, area: bytes, user: bytes, lines: list[Line]) -> None:
    if area:
        result.tokens, missing = walk_tokens(area)
        if missing:
            result.problems.append((Problem.TRUNCATED, f"token area truncated: {missing} bytes are missing"))
    result.user_tokens += user_pairs(user)
    for line in lines:
        number, _, _, info, length = line.found[:5]
        value = line.data
        printed = text_of(record[slice(*line.span(1))]) if line.found[1] >= 0 else ""
        name = printed or f"x{number:02x}"
        if len(value) < length:
            sentence = f"token {name} truncated: have {len(value)} of {length} bytes"
            result.problems.append((Problem.TRUNCATED, sentence))
        elif len(value) > length:
            sentence = f"token {name} has length {length}, {len(value)} bytes are shown"
            result.problems.append((Problem.HEADER_VALUE, sentence))
        if line.role is Role.TOKEN:
            result.tokens.append(Token(number, printed or None, info, length, value))
        elif b"\0" in value.rstrip(b"\0") or not printed:
            result.user_tokens += user_pairs(value)
        else:
            result.user_tokens.append((printed, text_of(value.rstrip(b"\0"))))


_ORDERS: Final[tuple[Order, Order]] = ("little", "big")
_OUR_DAYS: Final = (JULIAN_EPOCH_US, JULIAN_EPOCH_US + 200 * 365 * 86_400_000_000)
_YEARS: Final = (JULIAN_EPOCH_US - 10**9 * 86400 * 10, JULIAN_EPOCH_US + 10**6 * 86400 * 366 * 230)


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
    texts = [text_of(part) for part in parts]
    return [(texts[at], texts[at + 1] if at + 1 < len(texts) else "") for at in range(0, len(texts), 2)]


def ghdr_order(ghdr: bytes) -> Order | None:
    """The byte order of a header token; None for one that is too short or without a valid time. The order in which its
    time is plausible, else valid; if both are, the one with the smaller RecLength.
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
    """IO Time of a header token as microseconds since 1970 UTC; None without one."""
    order = ghdr_order(ghdr)
    at, size = GHDR_TIME
    return None if order is None else int.from_bytes(ghdr[at : at + size], order) - JULIAN_EPOCH_US


def ghdr_values(ghdr: bytes) -> dict[str, int]:
    """The numbers of a header token by their names; empty if it is too short or its byte order is unknown."""
    order = ghdr_order(ghdr)
    if order is None:
        return {}
    metadata = ghdr[6] == 170
    return {
        name: int.from_bytes(ghdr[at : at + size], order)
        for name, at, size in GHDR
        if name not in (("AuditRBA",) if metadata else ("DDR index", "TDR index"))
    }


BLOCK: Final = tuple(name for name in HEADER if name not in ("AuditRBA", "DDR index", "TDR index"))
"""The labels of a complete header block, except AuditRBA and the indexes of definitions."""

_QUARTER_HOUR_US: Final = 15 * 60 * 10**6
_ZONES_US: Final = 15 * 3600 * 10**6  # no zone is further from UTC than this


def lacking(printed: Printed) -> list[str]:
    """The fields that its header block should have and has not."""
    missing = [name for name in BLOCK if name not in printed.values]
    if "AuditRBA" not in printed.values and "TDR index" not in printed.values:
        missing.append("AuditRBA")
    return missing


def check(printed: Printed) -> Problems:
    """The problems of a record that is not malformed, in the order: header, times, header token, data."""
    if printed.values:
        yield from _header(printed)
    yield from _times(printed)
    if printed.ghdr:
        yield from _ghdr(printed)
    if printed.parts:
        yield from _parts(printed)
    yield from _body(printed)


def _header(printed: Printed) -> Problems:
    values, operation = printed.values, printed.operation
    missing = lacking(printed)
    if missing:
        yield Problem.TRUNCATED, f"header block lacks {', '.join(missing)}"
    indicator = values.get("Hdr-Ind", 0x45)
    if indicator != 0x45:
        yield printed.wrong("Hdr-Ind", f"Hdr-Ind should be E (x45), it is x{indicator:02x}")
    length = values.get("RecLength", MISSING)
    if MISSING not in (length, printed.length) and length != printed.length:
        yield printed.wrong("RecLength", f"RecLength is {length}, Len of the record line is {printed.length}")
    number = values.get("IOType")
    if number is None or operation is None or not _disagree(number, operation):
        return
    known = IO_TYPES.get(number)
    meaning = known.name if known else "another operation"
    yield printed.wrong("IOType", f"IOType {number} is {meaning}, the record line has {operation}")


def _disagree(number: int, operation: str) -> bool:
    """Whether a record type's number and its printed name contradict certain facts."""
    named = io_type_of(operation)
    if named == number:
        return False
    known = IO_TYPES.get(number)
    return (known is not None and known.certain) or (named is not None and IO_TYPES[named].certain)


def _times(printed: Printed) -> Problems:
    header, line = printed.header_moment, printed.line_moment
    for name, text, moment in (
        ("IO Time", printed.io_time, header),
        ("time of the record line", printed.line_time, line),
    ):
        if text is not None and moment == NOT_A_TIME:
            yield printed.wrong(name, f"{name} is not a time: {text}")
    if NOT_A_TIME not in (header, line) and header != line:
        yield printed.wrong("IO Time", f"IO Time is {printed.io_time}, the record line has {printed.line_time}")


def _ghdr(printed: Printed) -> Problems:
    told = ghdr_values(printed.ghdr)
    for name, value in told.items():
        there = printed.values.get(name, value)
        if there != value and not (name == "AuditPos" and there & 0xFFFFFFFF == value):
            yield printed.wrong(name, f"{name} is printed as {there}, the header token has {value}")
    text = printed.io_time if printed.io_time is not None else printed.line_time
    utc, shown = ghdr_time(printed.ghdr), printed.line_moment if printed.io_time is None else printed.header_moment
    if utc is None or shown == NOT_A_TIME:
        return
    zone = shown - utc
    if zone % _QUARTER_HOUR_US or abs(zone) > _ZONES_US:
        seconds = zone / 10**6
        yield (
            Problem.HEADER_VALUE,
            f"the printed time {text} is {seconds:.6f} s after that of the header token, not the offset of any zone",
        )


def _parts(printed: Printed) -> Problems:
    parts = printed.parts
    whole, trailer = parts.get("G"), parts.get("Z")
    if whole is None or "H" not in parts:
        return
    inner = sum(4 + parts[letter] for letter in "HDTU" if letter in parts)
    if whole != inner + 8:
        yield Problem.HEADER_VALUE, f"header token G has length {whole}, its parts make {inner + 8}"
    if trailer is not None and trailer != whole:
        yield Problem.HEADER_VALUE, f"record trailer Z has length {trailer}, header token G {whole}"
    data = parts.get("D", 0)
    if printed.length != MISSING and data != printed.length:
        yield Problem.HEADER_VALUE, f"Len is {printed.length}, header token D has length {data}"


def _body(printed: Printed) -> Problems:
    length = printed.length if printed.length != MISSING else printed.values.get("RecLength", MISSING)
    if length == MISSING or printed.text is not None or printed.values.get("IOType") == 170:
        return
    if printed.operation == "Metadata":
        return
    have = len(printed.body or b"")
    if have > length:
        yield Problem.HEADER_VALUE, f"Len is {length}, {have} bytes of data are shown"
    if have >= length or (printed.body is None and _told_by_columns(printed, length)):
        return
    yield truncated_body(have, length)
    for column in printed.columns:
        if column.data is not None and len(column.data) < column.length:
            yield truncated_column(column.index, len(column.data), column.length)


def truncated_body(have: int, length: int) -> tuple[Problem, str]:
    """The problem of a record whose data are shown only in part."""
    return Problem.TRUNCATED, f"body truncated: have {have} of {length} bytes"


def truncated_column(index: int, have: int, length: int) -> tuple[Problem, str]:
    """The problem of a column whose own hex is shown only in part."""
    return Problem.TRUNCATED, f"column {index} truncated: have {have} of {length} bytes"


def _told_by_columns(printed: Printed, length: int) -> bool:
    """Whether the record's data are completely printed below its columns. Prefixes of images and system keys are never
    printed."""
    if printed.shape is not Shape.RECORD or not printed.columns:
        return False
    if any(column.data is None or len(column.data) != column.length for column in printed.columns):
        return False
    prefix = length - sum(4 + column.length for column in printed.columns)
    halves = len({"after" if column.half == "after" else "before" for column in printed.columns}) > 1
    allowed = {0, 2, 4} if halves or any(column.half == "key" for column in printed.columns) else {0}
    return prefix - max(printed.values.get("SyskeyLen", 0), 0) in allowed


_NO_LINES: Final = np.empty((0, t.LINE_WIDTH), np.int64)
_NO_PAIRS: Final = np.empty((0, t.PAIR_WIDTH), np.int64)
_ROOM: Final = 128  # bytes of text a row
_SLICES: Final = (t.BODY, t.CSN, t.XID, t.ROWID)
_IDS: Final = {0x4C: t.CSN, 0x36: t.XID, 0x52: t.ROWID}
_TRAIL: Final = re.compile(
    rb"Current LogTrail is[ \t]+(?P<shown>[^\r\n]*)"
    rb"|^[ \t]*Logdump ?\d* ?>\s*open[ \t]+(?P<opened>[^\s'\"]+|'[^'\n]+'|\"[^\"\n]+\")",
    re.IGNORECASE | re.MULTILINE,
)


def boundary(text: Bytes, at: int) -> int:
    """The first offset at or after ``at`` at which an independent record begins; the text's size if there is none.
    Stretches of a text that is split at such offsets have the same records and filler as the text."""
    return 0 if at <= 0 else t.boundary_from(readable(text), at, text.size)


_PIECE: Final = 1 << 28  # bytes of one event


def _rows(text: Bytes, bodies: bool) -> tuple[Ints, Bytes]:
    """The rows of a text (see :mod:`.logdump`) and the bytes that are shown in it as hex."""
    data = np.empty(text.size // 2 + 64, np.uint8)
    found: list[Ints] = []
    at = size = 0
    while at < text.size:
        rows = np.empty(((text.size - at) // _ROOM + 64, t.WIDTH), np.int64)
        count, shown, at, _, _ = t.read(text, at, text.size, True, bodies, rows, data[size:], _NO_LINES, _NO_PAIRS)
        rows = rows[:count]
        for first in (*_SLICES, t.TOKEN_BYTES, t.AREA):
            rows[:, first : first + 2] += np.where(rows[:, first : first + 2] >= 0, size, 0)
        size += shown
        found.append(rows)
    rows = found[0] if len(found) == 1 else np.concatenate([np.empty((0, t.WIDTH), np.int64), *found])
    return _in_pieces(rows), data[:size]


def _in_pieces(rows: Ints) -> Ints:
    """The same rows with filler in pieces of at most :data:`_PIECE` bytes. Raises CaptureError for a longer record."""
    count = np.maximum(-(-(rows[:, t.STOP] - rows[:, t.START]) // _PIECE), 1)
    if not len(rows) or count.max() == 1:
        return rows
    long = np.flatnonzero((count > 1) & (rows[:, t.SHAPE] != Shape.FILLER))
    if len(long):
        start, stop = rows[long[0], [t.START, t.STOP]].tolist()
        raise CaptureError(
            f"a record of {stop - start:,} bytes; Logdump text of at most {_PIECE:,} bytes is one record"
        )
    pieces = np.repeat(rows, count, axis=0)
    number = np.arange(len(pieces)) - np.repeat(np.cumsum(count) - count, count)
    pieces[:, t.START] += number * _PIECE
    pieces[:, t.STOP] = np.minimum(pieces[:, t.STOP], pieces[:, t.START] + _PIECE)
    return pieces


def split_text(data: bytes, base: int = 0) -> list[Printed]:
    """All of a stretch of text in full: records and the filler between them, in its order and without holes.

    ``base`` is the offset of its first byte in the decompressed file. Never raises.
    """
    rows, _ = _rows(readable(np.frombuffer(data, np.uint8)), False)
    out: list[Printed] = []
    trail: str | None = None
    for shape, start, stop in rows[:, [t.SHAPE, t.START, t.STOP]].tolist():
        one = _printed(data[start:stop], shape)
        trail = one.trail or trail
        one.start, one.stop, one.trail = start + base, stop + base, trail
        out.append(one)
    return out


def _printed(record: bytes, shape: int) -> Printed:
    if shape != Shape.FILLER:
        return printed_of(record)
    named = [found["shown"] or found["opened"] for found in _TRAIL.finditer(record)]
    trail = text_of(named[-1].strip(b" \t\r\n'\"")) if named else None
    return Printed(Shape.FILLER, 0, len(record), trail=trail)


def scan(text: Bytes, base: int = 0, bodies: bool = True) -> Records:
    """All records and filler of a stretch of text, which begins and ends where records or filler do.

    ``base`` is the offset of its first byte in the decompressed file. Without ``bodies``, of the hex only tokens and
    header tokens are decoded: ``body_at`` is MISSING for all records.
    """
    rows, data = _rows(readable(text), bodies)
    extras: dict[int, Printed] = {}
    trail: list[tuple[int, str]] = []
    more: list[bytes] = []
    size = data.size
    rows[:, t.MOMENT][rows[:, t.MOMENT] == NOT_A_TIME] = MISSING
    wanted = np.flatnonzero((rows[:, t.RARE] == 1) | (rows[:, t.SHAPE] == Shape.FILLER))
    for row, shape, start, stop in zip(
        wanted.tolist(), *rows[wanted][:, [t.SHAPE, t.START, t.STOP]].T.tolist(), strict=True
    ):
        one = _printed(text[start:stop].tobytes(), shape)
        if one.trail is not None and (not trail or trail[-1][1] != one.trail):
            trail.append((row, one.trail))
        if shape == Shape.FILLER:
            continue
        for first, shown in _fill(rows[row], one, start, bodies):
            rows[row, first], rows[row, first + 1] = size, size + len(shown)
            size += len(shown)
            more.append(shown)
        one.start, one.stop, one.trail = start + base, stop + base, trail[-1][1] if trail else None
        extras[row] = one
    if more:
        data = np.concatenate([data, np.frombuffer(b"".join(more), np.uint8)])
    table = np.ascontiguousarray(rows.T)
    return Records(
        shape=table[t.SHAPE].astype(np.int8),
        start=table[t.START] + base,
        stop=table[t.STOP] + base,
        values=rows[:, : len(HEADER)],
        length=table[t.LENGTH],
        rba=table[t.RBA],
        name_index=table[t.NAME_INDEX],
        image_partition=table[t.IMAGE_PARTITION],
        image=table[t.IMAGE],
        image_trans=table[t.IMAGE_TRANS],
        total=table[t.TOTAL],
        moment=table[t.MOMENT],
        julian=table[t.JULIAN],
        text=text,
        operation_at=table[t.OPERATION : t.OPERATION + 2].T,
        name_at=table[t.NAME : t.NAME + 2].T,
        time_at=table[t.TIME : t.TIME + 2].T,
        bytes=data,
        body_at=table[t.BODY : t.BODY + 2].T,
        csn_at=table[t.CSN : t.CSN + 2].T,
        xid_at=table[t.XID : t.XID + 2].T,
        rowid_at=table[t.ROWID : t.ROWID + 2].T,
        extras=extras,
        trail=trail,
        cut=table[t.CUT] == 1,
        cut_column=table[t.CUT_COLUMN : t.CUT_COLUMN + 3].T,
        fragment=table[t.FRAGMENT : t.FRAGMENT + 3].T,
    )


def _fill(row: Ints, printed: Printed, start: int, bodies: bool) -> list[tuple[int, bytes]]:
    """Stores a completely parsed record in its row; returns the columns of slices and their bytes."""
    row[: len(HEADER)] = [printed.values.get(name, MISSING) for name in HEADER]
    row[t.CUT_COLUMN : t.CUT_COLUMN + 3] = MISSING
    julian = ghdr_time(printed.ghdr)
    moments = [one for one in (printed.line_moment, printed.header_moment) if one != NOT_A_TIME]
    for column, value in (
        (t.SHAPE, printed.shape),
        (t.LENGTH, printed.length),
        (t.RBA, printed.rba),
        (t.NAME_INDEX, printed.name_index),
        (t.CUT, 0),
        (t.JULIAN, MISSING if julian is None else julian),
        (t.MOMENT, moments[0] if moments else MISSING),
    ):
        row[column] = value
    for column, (first, last) in (
        (t.OPERATION, printed.operation_at),
        (t.NAME, printed.name_at),
        (t.TIME, printed.time_at),
    ):
        row[column : column + 2] = (first + start, last + start) if first >= 0 else MISSING
    slices: dict[int, bytes] = {}
    for token in printed.tokens:
        if token.id in _IDS:
            slices.setdefault(_IDS[token.id], token.value)
    if printed.transaction is not None:
        slices.setdefault(t.XID, printed.transaction.encode())
    if printed.body is not None and bodies:
        slices[t.BODY] = printed.body
    for column in _SLICES:
        row[column : column + 2] = MISSING
    return list(slices.items())
