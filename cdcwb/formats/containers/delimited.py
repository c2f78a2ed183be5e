"""Delimited text: a state machine frames records and fields; dialects are detected from the first records
(docs/formats/qlik-change-table.md §1.3, §10).

A record with an unclosed quote, or with other text than a delimiter after a quote, is damaged up to the end of its
first line; the next record begins there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cdcwb.errors import OptionError
from cdcwb.formats import options as opt
from cdcwb.formats.containers.messages import FILLER, LONGEST, MALFORMED, MESSAGE, TRUNCATED
from cdcwb.formats.kernels import Bytes, Ints, Spans, compiled_for, kernel
from cdcwb.formats.source import Source
from cdcwb.words import plural

CHUNK: Final = 32_768
"""Maximum segments that are framed at a time."""

_WINDOW: Final = 4 << 20
_BEYOND: Final = 1 << 16  # bytes that are read first of the record at the end of a split
_CELLS: Final = 4 << 20  # spans in memory
_SHOWN: Final = 1 << 20  # bytes in which the first record of a split is looked for
_DELIMITERS: Final = {b",": "comma", b"\t": "tab", b";": "semicolon", b"|": "bar"}
_RECORDS: Final = 50  # that show the delimiter and the number of columns
_HEAD: Final = 1 << 18  # bytes that show them
_LONGEST_IN_HEAD: Final = 1 << 16

# status of a record from the kernel
_WHOLE: Final = 0
_OPEN: Final = 1
_LONG: Final = 3


# --- dialects ---------------------------------------------------------------------------------------------------------

_HEX: Final = re.compile(r"0[xX]((?:[0-9a-fA-F]{2})+)")
_SPELLINGS: Final = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\r\\n": "\r\n", "\\\\": "\\"}


@dataclass(frozen=True, slots=True)
class Dialect:
    """``delimiter`` separates fields, ``record`` ends a record, both one byte or more. ``quote`` and ``escape`` are one
    byte, or empty for none. ``null`` is the text of a NULL, which is never quoted. ``crlf``: a carriage return before
    the newline belongs to the line's end.

    In a quoted field a doubled quote represents one. An escape counts only before a quote: in a run of escapes, every
    two represent one, and a remaining one makes the quote part of the text.
    """

    delimiter: bytes = b","
    record: bytes = b"\n"
    quote: bytes = b'"'
    escape: bytes = b""
    null: bytes = b""
    crlf: bool = False

    def __post_init__(self) -> None:
        """Raises ValueError if a token equals another one or is a part of it."""
        tokens = [("quote", self.quote), ("escape", self.escape)]
        for name, token in tokens:
            if len(token) > 1:
                raise ValueError(f"expected one byte as {name}, found {token!r}")
        tokens = [("delimiter", self.delimiter), ("record delimiter", self.record), *tokens]
        for name, token in tokens:
            for other, within in tokens:
                if name != other and token and token in within:
                    raise ValueError(f"{name} {token!r} cannot be distinguished from {other} {within!r}")

    def sentence(self) -> str:
        """The dialect in a few words."""
        parts = [f"delimiter {_shown(self.delimiter)}", f"record delimiter {_shown(self.record)}"]
        parts.append(f"quote {_shown(self.quote)}" if self.quote else "no quotes")
        parts += [f"escape {_shown(self.escape)}"] if self.escape else []
        parts.append(f"NULL is {_shown(self.null)}" if self.null else "NULL is an empty field without quotes")
        return ", ".join(parts)


DEFAULT: Final = Dialect()

TOKENS: Final = {
    "delimiter": "delimiter",
    "record_delimiter": "record",
    "quote": "quote",
    "escape": "escape",
    "null": "null",
}
"""The options that are parts of a dialect."""

DIALECT_OPTIONS: Final = {
    "delimiter": r"delimiter of fields: auto, or the text itself (0x01, \t)",
    "record_delimiter": r"delimiter of records: auto, or the text itself (\n, \r\n, 0x02)",
    "quote": "quote around fields: auto, none, or the character",
    "escape": "escape before a quote within quotes: auto, none, or the character",
    "null": "the text of NULL, without quotes: auto, empty, or the text",
}
"""Their descriptions."""


def as_bytes(text: str, charset: str) -> bytes:
    r"""The bytes of a delimiter in the notation of side files and options: itself, ``0x01``, or ``\t``.

    Raises UnicodeEncodeError for characters that the character set does not have.
    """
    match = _HEX.fullmatch(text)
    if match:
        return bytes.fromhex(match[1])
    return _SPELLINGS.get(text, text).encode(charset)


def charset_of(given: Mapping[str, Any]) -> str:
    """The option ``charset``, by default utf-8. Raises OptionError for an unusable one."""
    charset = opt.check_charset("charset", given.get("charset", "utf-8"))
    if "A,\n'".encode(charset) != b"A,\n'":
        raise OptionError(
            f"option charset: {charset!r} is not supported, because it does not include ASCII; save as utf-8"
        )
    return charset


def tokens_of(given: Mapping[str, Any], names: Mapping[str, str], charset: str) -> dict[str, bytes]:
    """Fields of :class:`Dialect` that are options: ``names`` maps the options to them. Raises OptionError."""
    found: dict[str, bytes] = {}
    for name, token in names.items():
        if name not in given:
            continue
        text = str(given[name])
        try:
            found[token] = as_bytes("" if text.lower() in ("none", "empty") else text, charset)
        except UnicodeEncodeError:
            raise OptionError(f"option {name}: {text!r} is not in the character set {charset}") from None
        if not found[token] and token in ("delimiter", "record"):
            raise OptionError(f"option {name}: expected a text, found none")
        if len(found[token]) > 1 and token in ("quote", "escape"):
            raise OptionError(f"option {name}: expected one byte, found {text!r}")
    return found


def _shown(data: bytes) -> str:
    return repr(data.decode("utf-8", "backslashreplace"))


# --- segments ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DelimitedRecords:
    """Adjacent segments of a file, in order; offsets count from ``base``, where ``buffer`` begins.

    A segment is ``[start, end)``. ``state`` is :data:`MESSAGE`, :data:`FILLER`, :data:`MALFORMED` or :data:`TRUNCATED`
    (by the file's end); ``reasons`` describe the latter three (by index). ``starts`` and ``ends`` are matrices with a
    row for each valid record (``good``: their indices) and a column for each field; quotes are inside.
    """

    base: int
    buffer: Bytes
    start: Ints
    end: Ints
    state: npt.NDArray[np.uint8]
    reasons: dict[int, str]
    good: Ints
    starts: Spans
    ends: Spans


# --- kernels ----------------------------------------------------------------------------------------------------------


@kernel
def _matches(b: Bytes, at: int, token: Bytes) -> bool:
    """Whether the token is at this offset."""
    if at + len(token) > len(b):
        return False
    for step in range(len(token)):  # noqa: SIM110  (kernels have no generators)
        if b[at + step] != token[step]:
            return False
    return True


@kernel
def _line_end(b: Bytes, at: int, record: Bytes, crlf: bool) -> int:
    """The length of the line end at this offset; 0: none."""
    if crlf and at + 1 < len(b) and b[at] == 13 and b[at + 1] == 10:
        return 2
    return len(record) if _matches(b, at, record) else 0


@kernel
def _closing(b: Bytes, at: int, quote: int, escape: int) -> int:
    """The offset after the closing quote of a field whose content begins at ``at``; one more than the length: none."""
    size = len(b)
    while at < size:
        byte = np.int64(b[at])
        if byte == escape:
            run = at
            while at < size and np.int64(b[at]) == escape:
                at += 1
            if at < size and np.int64(b[at]) == quote and (at - run) & 1:
                at += 1
        elif byte != quote:
            at += 1
        elif at + 1 < size and np.int64(b[at + 1]) == quote:
            at += 2
        else:
            return at + 1
    return size + 1


@kernel
def _frame(
    b: Bytes,
    place: int,
    stop: int,
    is_end: bool,
    longest: int,
    special: Bytes,
    delimiter: Bytes,
    record: Bytes,
    crlf: bool,
    quote: int,
    escape: int,
    width: int,
    start: Ints,
    content: Ints,
    end: Ints,
    count: Ints,
    fault: Ints,
    status: Bytes,
    starts: Spans,
    ends: Spans,
) -> tuple[int, int, int]:
    """Frames the records that begin in ``[place, stop)``; ``is_end``: the file ends with the buffer.

    Returns the offset of the next record, the number of segments and that of valid ones. It stops if the buffer does
    not have all of a record, or the arrays are full. For each segment: ``start``, the end of its ``content``, its
    ``end``, ``status``, ``count``: its fields, up to the damage, and ``fault``: the offset of the damage. ``starts``
    and ``ends`` receive the spans of the fields of records with ``width`` fields.
    """
    size = len(b)
    slack = max(len(delimiter), len(record), 2)
    segment = 0
    good = 0
    while place < stop and segment < len(start):
        begin = place
        more = not is_end and size - begin < longest
        state = 0
        fields = 0
        at = begin
        while True:
            first = at
            if at < size and np.int64(b[at]) == quote:
                at = _closing(b, at + 1, quote, escape)
                if more and at >= size:
                    return begin, segment, good
                if at > size:
                    state = 1
                    break
            else:
                while at < size:
                    if special[b[at]] and (_matches(b, at, delimiter) or _line_end(b, at, record, crlf) > 0):
                        break
                    at += 1
            if more and at + slack > size:
                return begin, segment, good
            if fields < width:
                starts[good, fields] = first
                ends[good, fields] = at
            fields += 1
            if _matches(b, at, delimiter):
                at += len(delimiter)
                continue
            size_of_end = _line_end(b, at, record, crlf)
            if size_of_end == 0 and at < size:
                state = 2
            elif size_of_end == 0 and not is_end:
                state = 3
            else:
                content[segment] = at
                place = at + size_of_end
            break
        count[segment] = fields
        if state:
            fault[segment] = at
            at = begin
            while at < size and _line_end(b, at, record, crlf) == 0:
                at += 1
            if at == size and more:
                return begin, segment, good
            content[segment] = at
            place = at + _line_end(b, at, record, crlf)
        elif fields == width and (width == 1 or content[segment] > begin):
            good += 1
        start[segment] = begin
        end[segment] = place
        status[segment] = state
        segment += 1
    return place, segment, good


@cache
def _tokens(dialect: Dialect) -> tuple[Bytes, Bytes, Bytes, bool, int, int]:
    """A dialect as arguments of :func:`_frame`, from ``special`` (by byte: whether a delimiter or a line end can begin
    with it) to ``escape``."""
    special = np.zeros(256, dtype=np.uint8)
    special[[dialect.delimiter[0], dialect.record[0], *(b"\r" if dialect.crlf else b"")]] = 1
    crlf = dialect.crlf and dialect.record == b"\n"
    return special, as_array(dialect.delimiter), as_array(dialect.record), crlf, *quoting(dialect)


def quoting(dialect: Dialect) -> tuple[int, int]:
    """The bytes of quotes and escapes; -1 for none."""
    quote, escape = (token[0] if token else -1 for token in (dialect.quote, dialect.escape if dialect.quote else b""))
    return quote, escape


def as_array(token: bytes) -> Bytes:
    """Bytes as a writable array, like all arguments of kernels."""
    return np.frombuffer(bytearray(token), np.uint8)


# --- framing ----------------------------------------------------------------------------------------------------------


class _Framed(NamedTuple):
    """Segments as returned by the kernel."""

    start: Ints
    content: Ints
    end: Ints
    fields: Ints
    fault: Ints
    status: Bytes
    starts: Spans
    ends: Spans


def _framed(
    buffer: Bytes, at: int, stop: int, is_end: bool, dialect: Dialect, width: int, room: int, longest: int = 0
) -> tuple[int, _Framed]:
    """The start of the next segment, and at most ``room`` segments that begin in ``[at, stop)``; ``longest``: bytes of
    a record (0: :data:`LONGEST`)."""
    start, content, end, count, fault = np.empty((5, room), dtype=np.int64)
    starts, ends = np.empty((2, room, width), dtype=np.int32)
    out: Any = _Framed(start, content, end, count, fault, np.empty(room, dtype=np.uint8), starts, ends)
    with compiled_for(len(buffer) - at):
        place, segments, good = _frame(buffer, at, stop, is_end, longest or LONGEST, *_tokens(dialect), width, *out)
    return place, _Framed._make([*(one[:segments] for one in out[:6]), starts[:good], ends[:good]])


def records(
    source: Source, start: int, stop: int, dialect: Dialect, width: int, room: int = CHUNK
) -> Iterator[DelimitedRecords]:
    """The segments that begin in ``[start, stop)``, at most ``room`` at a time; one must begin at ``start``. ``width``
    is the number of fields of a record."""
    place, size = start, 0
    room = max(1, min(room, _CELLS // max(width, 1)))
    while place < min(stop, source.length):
        size = size or min(_WINDOW, stop - place + _BEYOND)
        buffer = source.read(place, place + min(size, LONGEST))
        is_end = place + len(buffer) >= source.length
        last = min(stop - place, len(buffer))
        at = 0
        while at < last:
            at, found = _framed(buffer, at, last, is_end, dialect, width, room)
            if not len(found.start):
                break
            yield _records(place, buffer, is_end, found, width)
        size = 0 if at else size * 4  # the first record is longer than the window
        place += at


def _records(base: int, buffer: Bytes, is_end: bool, found: _Framed, width: int) -> DelimitedRecords:
    """Segments with their states, and the reasons of those that are not records."""
    blank = (found.content == found.start) & (found.status == _WHOLE) & (width != 1)
    damaged = found.status != _WHOLE
    wrong = damaged | (~blank & (found.fields != width))
    state = np.where(wrong, MALFORMED, np.where(blank, FILLER, MESSAGE)).astype(np.uint8)
    reasons: dict[int, str] = dict.fromkeys(np.flatnonzero(blank).tolist(), "blank line")
    for index in np.flatnonzero(wrong).tolist():
        count, status = int(found.fields[index]), int(found.status[index])
        cut_off = is_end and int(found.end[index]) == len(buffer) and found.content[index] == found.end[index]
        if status == _WHOLE:
            reason, suffix = f"expected {width} fields, found {count}", " where the file ends"
            cut_off = cut_off and count < width
        else:
            reason, suffix = _damage(buffer, found, index, is_end), ""
        if cut_off:
            state[index], reason = TRUNCATED, f"truncated: {reason}{suffix}"
        reasons[index] = reason
    good = np.flatnonzero(state == MESSAGE)
    return DelimitedRecords(base, buffer, found.start, found.end, state, reasons, good, found.starts, found.ends)


def _damage(buffer: Bytes, found: _Framed, index: int, is_end: bool) -> str:
    count, status, fault = int(found.fields[index]), int(found.status[index]), int(found.fault[index])
    if status == _LONG:
        return f"a record longer than {LONGEST} bytes"
    if status == _OPEN:
        what = "the file ends" if is_end else f"it is not closed within {LONGEST} bytes"
        return f"field {count + 1} begins with a quote and {what}"
    return (
        f"expected a delimiter after the closing quote of field {count}, found {buffer[fault : fault + 8].tobytes()!r}"
    )


def only_record(buffer: Bytes, dialect: Dialect, width: int) -> DelimitedRecords:
    """The first record of a buffer with a complete file, as a segment."""
    return _records(0, buffer, True, _framed(buffer, 0, 1, True, dialect, width, 1)[1], width)


def first_record(buffer: Bytes, dialect: Dialect, is_end: bool) -> DelimitedRecords | None:
    """The first record of a buffer, whatever the number of its fields; None if there is none. ``is_end``: the file ends
    with the buffer."""
    end, found = _framed(buffer, 0, min(len(buffer), 1), is_end, dialect, 0, 1)
    if not len(found.start) or found.status[0] != _WHOLE:
        return None
    return only_record(buffer[:end], dialect, int(found.fields[0]))


# --- splits -----------------------------------------------------------------------------------------------------------


def likely_start(source: Source, place: int, dialect: Dialect, width: int) -> int:
    """The most likely start of the first record of ``width`` fields at or after ``place``, from the bytes after
    ``place``; the file's length if they do not show one. Both cases are tried, ``place`` outside and inside of quotes;
    the one with more records and less damage is chosen."""
    low = max(place - len(dialect.record), 0)
    buffer, starts = source.read(low, place + _SHOWN), list[int]()
    is_end = low + len(buffer) >= source.length
    for opened in dict.fromkeys((b"", dialect.quote)):
        _, found = _framed(np.append(as_array(opened), buffer), 0, 1, is_end, dialect, 0, 1)
        starts += (low + found.end - len(opened)).tolist()
    stop = place + _BEYOND
    return max(
        starts, key=lambda start: _records_less_damage(source, start, stop, dialect, width), default=source.length
    )


def _records_less_damage(source: Source, start: int, stop: int, dialect: Dialect, width: int) -> int:
    """The number of records that begin in ``[start, stop)``, minus the damaged segments."""
    counts = np.zeros(TRUNCATED + 1, dtype=np.int64)
    for found in records(source, start, stop, dialect, width):
        counts += np.bincount(found.state, minlength=len(counts))
    return int(counts[MESSAGE] - counts[MALFORMED:].sum())


# --- detection --------------------------------------------------------------------------------------------------------


def find_dialect(tokens: Mapping[str, bytes], body: Bytes, is_end: bool) -> tuple[Dialect, str, list[int]]:
    """The dialect with the given ``tokens`` and the delimiter that separates the records best; the evidence; and the
    numbers of fields in the first records. ``is_end``: the file ends with ``body``. Raises OptionError if the tokens
    contradict each other.
    """
    try:
        given: dict[str, Any] = {"delimiter": b"\0", **tokens}
        base = replace(DEFAULT, **given)
        if "delimiter" in tokens:
            return base, "given as an option", _widths(body, base, is_end)
    except ValueError as reason:
        raise OptionError(f"options {', '.join(tokens)}: {reason}") from None
    tried: list[tuple[float, Dialect, str, list[int]]] = []
    for token, word in _DELIMITERS.items():
        try:
            dialect = replace(base, delimiter=token)
        except ValueError:
            continue
        widths = _widths(body, dialect, is_end)
        usual, count = Counter(widths).most_common(1)[0] if widths else (0, 0)
        score = (usual - 1) * count / len(widths) if widths else 0.0
        evidence = f"a {word} splits {count} of the first {plural(len(widths), 'record')} into {usual} fields"
        tried.append((score, dialect, evidence, widths))
    if not tried:
        raise OptionError(f"options {', '.join(tokens)}: no delimiter remains; give one")
    score, dialect, evidence, widths = max(tried, key=lambda one: one[0])
    if score <= 0:
        return tried[0][1], "no record delimiter was found; assumed", tried[0][3]
    return dialect, evidence, widths


def _widths(body: Bytes, dialect: Dialect, is_end: bool) -> list[int]:
    """The numbers of fields of the first records; the line of a damaged one is left out."""
    dialect, _ = line_end(body, dialect)
    head = body[:_HEAD]
    is_end = is_end and len(head) == len(body)
    _, found = _framed(head, 0, len(head), is_end, dialect, 0, 2 * _RECORDS, _LONGEST_IN_HEAD)
    counted = (found.status == _WHOLE) & ((found.fields > 1) | (found.content > found.start))
    widths: list[int] = found.fields[counted][:_RECORDS].tolist()
    return widths


def line_end(head: Bytes, dialect: Dialect) -> tuple[Dialect, str | None]:
    """The dialect with the file's line ends: a carriage return may precede each newline. If they differ from those of
    the dialect, also a sentence about it."""
    if dialect.record not in (b"\n", b"\r\n"):
        return dialect, None
    newlines = np.flatnonzero(head == 10)
    returns = newlines[newlines > 0]
    returned = len(returns) > 0 and bool(head[returns[0] - 1] == 13)
    if dialect.record == b"\r\n" and len(newlines) and not returned:
        return replace(dialect, record=b"\n", crlf=True), r"expected lines that end in \r\n, found \n"
    return replace(dialect, crlf=dialect.record == b"\n" and returned), None
