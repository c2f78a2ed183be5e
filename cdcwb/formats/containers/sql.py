"""Where the rows of a dump of SQL statements begin and end (docs/formats/idm-event-log.md §1.5).

A row owns its bytes: the first of a statement from the statement's first byte on, each up to the comma that follows
it, the last up to the semicolon and the end of its line. Comments, blanks and other statements are filler. Damage goes
up to the next offset where a row or a statement may begin.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from cdcwb.formats.arrays import slices
from cdcwb.formats.containers.delimited import Dialect, records
from cdcwb.formats.containers.messages import FILLER, LONGEST
from cdcwb.formats.containers.rows import Cell, ColumnRows, FileProbe, RowSegments, UnparsedSegment
from cdcwb.formats.containers.sql_lexer import LAST, STOPPED, read_row, read_rows
from cdcwb.formats.containers.sql_values import SqlColumn, column
from cdcwb.formats.kernels import Bytes, Ints, interpreted
from cdcwb.formats.source import HeldBytes, Source
from cdcwb.model import OffsetUnit, Problem

BOM: Final = b"\xef\xbb\xbf"
"""UTF-8's byte order mark."""

# --- statements -------------------------------------------------------------------------------------------------------

_NAME_PART: Final = (
    rb"(?:[\w$#@\x80-\xff]++|\"[^\"\n]{1,512}+\"|`[^`\n]{1,512}+`|\[[^\]\n]{1,512}+\])"  # names are short
)
# `|(?!)` in a possessive group: see tests/possessive.py
_NAME: Final = _NAME_PART + rb"(?:\s*+\.\s*+" + _NAME_PART + rb"|(?!))*+"
_NAMES: Final = _NAME_PART + rb"(?:\s*+,\s*+" + _NAME_PART + rb"|(?!))*+"
_LINE_END: Final = rb"[ \t\r]*+(?:\n|\Z)"
_ROW_LINE: Final = re.compile(rb"(?im)^[ \t]*+(?=(?:INSERT|REPLACE|COPY|INTO)\s)")
_HEAD: Final = re.compile(
    rb"(?i)(?:(?:INSERT|REPLACE)\s++"
    rb"(?:(?:IGNORE|DELAYED|LOW_PRIORITY|HIGH_PRIORITY|/\*[^*]{0,512}+\*/)\s++|(?!))*+"
    rb"(?P<all>ALL\s++(?=INTO\s))?(?:INTO\s++)?(?!ALL\s|FIRST\s)|(?P<into>INTO)\s++|COPY\s++)"
    rb"(?P<table>" + _NAME + rb")\s*+(?:\(\s*+(?P<names>" + _NAMES + rb")\s*+\)\s*+"
    rb"|\((?P<listed>[^;)]*+)\)\s*+(?=FROM\s++STDIN))?"
    rb"(?:OVERRIDING\s++\w++\s++VALUE\s*+)?"
    rb"(?:(?P<values>VALUES?)\b\s*+|(?P<copy>FROM\s++STDIN)\s*+;" + _LINE_END + rb"|[(\s]*+(?P<select>SELECT|WITH)\b)?"
)
"""A statement up to its rows: the table, the columns, and what gives the rows. The tables of an INSERT ALL after the
first begin with INTO."""

_LINE: Final = re.compile(rb"(?i)(?:(?:REM|REMARK|PROMPT|GO|DELIMITER|SPOOL|PRINT)\b|[\\@/](?!\*))[^\n]*+\n?")
_STATEMENT: Final = re.compile(
    rb"(?i)(?:ALTER|ANALYZE|BEGIN|CALL|COMMENT|COMMIT|CONNECT|CREATE|DECLARE|DEFINE|DELETE|DO|DROP|END|EXEC|EXECUTE|EXIT"
    rb"|FLUSH|GRANT|IF|LOCK|MERGE|PRAGMA|RENAME|REVOKE|ROLLBACK|SAVEPOINT|SELECT|SET|SHOW|START|TRUNCATE|UNLOCK|UPDATE"
    rb"|USE|WHENEVER|WITH|ALTER|VACUUM|REORG|RUNSTATS|ECHO|QUIT|UNDEFINE|VARIABLE|COPY)\b|;"
)
_BLANK: Final = re.compile(rb"(?:\s++|--[^\n]*+(?:\n|\Z)|/\*(?:[^*]++|\*(?!/)|(?!))*+\*/|(?!))*+")
_SKIPPED: Final = tuple(
    re.compile(
        rb"(?i)(?:[^'\"\n;/-]++|" + text + rb"|\"[^\"]*+\"|--[^\n]*+|-|/\*(?:[^*]++|\*(?!/)|(?!))*+\*/|/(?!\*)"
        rb"|\n\s*+(?!(?:INSERT|REPLACE|GO)\s)|(?!))*+(;(?:" + _LINE_END + rb")?|\n|\Z)?"
    )
    for text in (rb"'(?:[^']++|''|(?!))*+'", rb"'(?:[^'\\]++|''|\\[\s\S]|(?!))*+'")
)
"""A statement up to its semicolon, or up to the line before the next INSERT; without and with backslash escapes."""

_ROUTINE: Final = re.compile(
    rb"(?i)DECLARE\b(?!\s*+@)|DELIMITER[ \t]++(?!;" + _LINE_END + rb")|(?:CREATE|ALTER)"
    rb"(?:\s++(?!(?:TABLE|VIEW|INDEX|SYNONYM|SCHEMA|TYPE(?!\s{1,9}BODY))\b)[^\s;]{1,200}+){0,8}?"
    rb"\s++(?:TRIGGER|FUNCTION|PROC|PROCEDURE|PACKAGE|EVENT|TYPE\s{1,9}BODY)\b[^;]{0,1000}?"
    rb"\b(?:AS|IS(?!\s{1,9}(?:NOT|NULL|DISTINCT)\b)|BEGIN|EACH\s{1,9}ROW(?!\s++(?:EXECUTE|WHEN)\b))\b"
    rb"|BEGIN\b(?!\s*+;|\s++(?:TRAN|WORK|IMMEDIATE|DEFERRED|EXCLUSIVE|ISOLATION|READ))(?P<block>(?:\s++TRY\b)?)"
)
"""A block, or a definition that has statements of its own."""

_ROUTINE_END: Final = re.compile(
    rb"(?im)^[ \t]*+(?:/|GO|@|DELIMITER[ \t]++;)" + _LINE_END + rb"|(?<!AS )\$\w{0,64}\$[^\n;$']{0,200};" + _LINE_END
)
_IN_BLOCK: Final = re.compile(
    rb"(?i)'(?:[^']++|''|(?!))*+'|--[^\n]*+|/\*(?:[^*]++|\*(?!/)|(?!))*+"
    rb"|\b(?:(?P<end>END)|IF|LOOP|FOR|FORALL|WHILE|CASE|GOTO|EXCEPTION|BEGIN)\b"
)
_ADDS: Final = re.compile(rb"(?i)\b(?:INSERT|REPLACE)\b")
_NO_ROW: Final = "expected a row of values, closed by a parenthesis"
_CURE: Final = "export the table alone, as INSERT statements with VALUES or as CSV"

# --- rows -------------------------------------------------------------------------------------------------------------

_SIGN: Final = re.compile(rb"\s*+([,;])(?:" + _LINE_END + rb")?")
_REST_OF_LINE: Final = re.compile(rb"(?:" + _LINE_END + rb")?")
_TRAILER: Final = re.compile(rb"(?i)\s*+(?=(?:ON|RETURNING|AS)\s)")
_RESTART: Final = re.compile(
    rb"(?i)\)\s*+,\s*+(?=\()|\n[ \t]*+(?=\()|;[ \t\r]*+\n|\n(?=[ \t]*+(?:INSERT|REPLACE|INTO)\s)"
)
"""Where a row or a statement may begin."""

_COPY: Final = Dialect(delimiter=b"\t", quote=b"", null=rb"\N", crlf=True)
_COPY_END: Final = re.compile(rb"(?m)^\\\.[ \t\r]*+(?:\n|\Z)")
_CUT_LINE: Final = re.compile(rb"(?m)^[^\n]++\Z")
_NOTHING: Final = np.empty(0, np.int64)
_CHUNK: Final = 8192  # segments that are handed over together
_CHUNK_BYTES: Final = 16 << 20
_SPANS: Final = 1 << 16  # of values that are read at a time
_LONGEST_HEAD: Final = 4096  # bytes of the head of a statement that may be repeated
_SHOWN: Final = 40
_AGAIN: Final = 4096  # bytes of a damaged row that are looked at again
_SMALL: Final = 1 << 12  # bytes for which nothing is compiled


class _StatementHead(NamedTuple):
    """A statement up to its rows, which begin at ``end``. ``table``: in lower case; ``written``: as it is written;
    ``names``: the columns, None if it lists none. ``rows``: what gives the rows, ``values``, ``copy`` or ``select``
    (None: nothing). ``of_all``: it is one table of an INSERT ALL, with one row."""

    table: str
    written: str
    names: tuple[str, ...] | None
    rows: str | None
    of_all: bool
    end: int


def _names_of(text: bytes, charset: str) -> tuple[str, ...]:
    """The parts of a name, or the names of a list, without their quotes."""
    found = re.findall(_NAME_PART, text)
    return tuple((one[1:-1] if one[:1] in b'"`[' else one).decode(charset, "backslashreplace") for one in found)


def _head(data: Any, place: int, charset: str) -> _StatementHead | None:
    found = _HEAD.match(data, place)
    if found is None:
        return None
    written = ".".join(_names_of(found["table"], charset))
    listed = found["listed"] if found["names"] is None else found["names"]
    names = None if listed is None else _names_of(listed, charset)
    rows = next((one for one in ("values", "copy", "select") if found[one] is not None), None)
    of_all = found["all"] is not None or found["into"] is not None
    return _StatementHead(written.casefold(), written, names, rows, of_all, found.end())


def _heads(buffer: Bytes, charset: str) -> Iterator[_StatementHead]:
    """The beginnings of statements with rows, as far as lines begin with them."""
    found = (_head(buffer.data, line.end(), charset) for line in _ROW_LINE.finditer(buffer.data))
    return (one for one in found if one is not None)


def is_table(name: str, wanted: str) -> bool:
    """Is a name in lower case the wanted one? A schema that only one of them has does not count."""
    return name == wanted or name.endswith(f".{wanted}") or wanted.endswith(f".{name}")


def looks_like_dump(head: Bytes, damaged: bool = False) -> bool:
    """Does a file that begins so hold statements, INSERTs among them? Two of them must follow a beginning that is
    neither a statement nor a comment, unless it is known to be ``damaged``."""
    text = head[len(BOM) :] if head[:3].tobytes() == BOM else head
    begin = _after(_BLANK, text.data, 0)
    begins = any(one.match(text.data, begin) for one in (_ADDS, _STATEMENT, _LINE))
    some = (1 for one in _heads(text, "latin-1") if one.rows in ("values", "copy"))
    return sum(islice(some, 2)) >= (1 if damaged or begins else 2)


def inserted_from_select(head: Bytes, charset: str) -> tuple[str, tuple[str, ...] | None] | None:
    """The table of the first INSERT that takes its rows from a SELECT, and the columns that it lists (None: it lists
    none); None where there is no such statement."""
    return next(((one.table, one.names) for one in _heads(head, charset) if one.rows == "select"), None)


def _after(pattern: re.Pattern[bytes], data: Any, place: int) -> int:
    """The end of what is at ``place``; that itself where there is none."""
    found = pattern.match(data, place)
    return place if found is None else found.end()


# --- segments ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class SqlRows:
    """Rows of one table with the same list of columns (None: the statement has no list), written in the same way: the
    segments they are, and where their values are, a row for each and a column for each value. ``written``: the name of
    the table as it is written."""

    table: str
    written: str
    names: tuple[str, ...] | None
    is_copy: bool
    index: list[Ints] = field(default_factory=list)
    starts: list[Ints] = field(default_factory=list)
    ends: list[Ints] = field(default_factory=list)

    def column(self, buffer: Bytes, place: int, charset: str, backslash: bool, most: int | None = None) -> SqlColumn:
        """The values of a column; of ``most`` rows."""
        start, end = (np.concatenate([one[:, place] for one in some])[:most] for some in (self.starts, self.ends))
        return column(slices(buffer, start, end), charset, backslash, self.is_copy)


@dataclass(slots=True)
class SqlSegments:
    """Neighbouring segments of a dump, in order, without holes."""

    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    rows: dict[tuple[str, tuple[str, ...] | None, bool], SqlRows] = field(default_factory=dict)
    gaps: list[UnparsedSegment] = field(default_factory=list)


def segments(
    buffer: Bytes,
    stop: int,
    *,
    table: str | None,
    charset: str = "utf-8",
    backslash: bool = False,
    widths: Mapping[str, int] | None = None,
) -> Iterator[SqlSegments]:
    """The segments of the statements that begin before ``stop``.

    ``table``: the name of the log's table in lower case; None: the rows of all tables. ``widths``: how many values a
    row of a table has, where its statements do not list the columns; else the first row shows it.
    """
    reader = _DumpReader(buffer, min(stop, len(buffer)), table, charset, backslash, dict(widths or {}))
    place = reader.gap(0, 3, None, "byte order mark") if buffer[:3].tobytes() == BOM else 0
    while place < reader.stop:
        for rest in reader.statement(place):
            place = rest
            if reader.is_full(place):
                found, reader.found = reader.found, SqlSegments()
                yield found
    if reader.found.start:
        yield reader.found


@dataclass(slots=True)
class _DumpReader:
    """Reads statement after statement, up to ``stop``. Its methods that add segments return where these end."""

    buffer: Bytes
    stop: int
    table: str | None
    charset: str
    backslash: bool
    widths: dict[str, int]
    found: SqlSegments = field(default_factory=SqlSegments)

    @property
    def data(self) -> Any:
        """The bytes."""
        return self.buffer.data

    def is_full(self, place: int) -> bool:
        """Whether the segments up to ``place`` are enough to be handed over."""
        start = self.found.start
        return len(start) >= _CHUNK or (bool(start) and place - start[0] >= _CHUNK_BYTES)

    def gap(self, start: int, end: int, code: Problem | None, reason: str) -> int:
        """Adds a segment that is not a row."""
        raw = bytes(self.data[start : min(end, start + LONGEST)])
        self.found.gaps.append(UnparsedSegment(len(self.found.start), code, reason, raw))
        self.found.start.append(start)
        self.found.end.append(end)
        return end

    # --- statements ---------------------------------------------------------------------------------------------------

    def statement(self, place: int) -> Iterator[int]:
        """Adds the segments of one statement, or of the blanks before it."""
        rest = _after(_BLANK, self.data, place)
        if rest > place:
            has_text = bool(bytes(self.data[place:rest]).strip())
            yield self.gap(place, rest, None, "comments" if has_text else "white space")
            return
        head = _head(self.data, place, self.charset)
        is_wanted = head is not None and (self.table is None or is_table(head.table, self.table))
        if head is None or (not head.rows and self.data[place] in b"cC"):
            yield self._other(place)
        elif head.rows == "copy":
            yield from self._copy(place, head, is_wanted)
        elif head.rows == "values" and (is_wanted or head.of_all):
            yield from self._rows(place, head, is_wanted)
        elif not is_wanted:
            yield self._skipped(place, None, f"a statement of another table, {head.table}")
        else:
            queried = ", found a SELECT" if head.rows == "select" else ""
            reason = f"expected VALUES and rows after the name of the table{queried}"
            yield self._skipped(place, Problem.MALFORMED, reason)

    def _other(self, place: int) -> int:
        """A statement that has no rows; a routine up to its end, with a problem if statements in it add rows."""
        routine = _ROUTINE.match(self.data, place)
        if routine is not None and routine["block"] is not None and self._is_plain(routine.end()):
            return self.gap(place, _after(_REST_OF_LINE, self.data, routine.end()), None, "the begin of a block")
        if routine is not None:
            end = _ROUTINE_END.search(self.data, routine.end())
            if end is None:
                reason = f"a routine, whose end is unknown: nothing that follows is read; {_CURE}"
                return self.gap(place, len(self.buffer), Problem.MALFORMED, reason)
            if _ADDS.search(self.data, place, end.end()) is None:
                return self.gap(place, end.end(), None, "a routine")
            reason = f"a routine: the INSERT statements in it are not rows; {_CURE}"
            return self.gap(place, end.end(), Problem.MALFORMED, reason)
        line = _LINE.match(self.data, place)
        if line is not None:
            return self.gap(place, line.end(), None, "a line of a script")
        if _STATEMENT.match(self.data, place) is not None:
            return self._skipped(place, None, "another statement")
        shown = self._text(bytes(self.data[place : place + _SHOWN]).split(b"\n")[0])
        return self._skipped(place, Problem.MALFORMED, f"expected a statement, found {shown!r}")

    def _text(self, raw: bytes) -> str:
        return raw.decode(self.charset, "backslashreplace")

    def _is_plain(self, place: int) -> bool:
        """Whether the statements of the block at ``place`` are run one after the other, each once."""
        word = next((one for one in _IN_BLOCK.finditer(self.data, place) if one[0][:1].isalpha()), None)
        return word is None or word["end"] is not None

    def _statement_end(self, place: int) -> tuple[int, bool]:
        """The end of a statement: its semicolon, or the line before the next INSERT; and whether that was found. A text
        or a comment that is not closed has all that follows."""
        found = _SKIPPED[self.backslash].match(self.data, place)
        return (len(self.buffer), False) if found is None or found[1] is None else (found.end(), True)

    def _skipped(self, place: int, code: Problem | None, reason: str) -> int:
        """A statement without rows."""
        end, is_closed = self._statement_end(place)
        if is_closed:
            return self.gap(place, end, code, reason)
        return self.gap(
            place, end, Problem.TRUNCATED, f"truncated: {reason}, with a text or comment that is not closed"
        )

    # --- rows of COPY -------------------------------------------------------------------------------------------------

    def _copy(self, place: int, head: _StatementHead, is_wanted: bool) -> Iterator[int]:
        """The rows of a COPY as pg_dump writes it: a line each, with tabs between the values, up to a line of a
        backslash and a dot."""
        close = _COPY_END.search(self.data, head.end) or _CUT_LINE.search(self.data, head.end)
        stop, end = (len(self.buffer),) * 2 if close is None else close.span()
        is_cut = close is None or close[0][:1] != b"\\"
        if not is_wanted or head.end >= stop:
            reason = "a COPY without rows" if is_wanted else f"rows of {head.table}"
            reason = "truncated: the file ends in a COPY" if is_cut else reason
            yield self.gap(place, end, Problem.TRUNCATED if is_cut else None, reason)
            return
        begin, width = place, self._width(head)
        for lines in records(Source(HeldBytes(self.buffer), stop), head.end, stop, _COPY, width):
            base = np.int64(lines.base)
            for index, reason in lines.reasons.items():
                raw = lines.buffer[lines.start[index] : lines.end[index]].tobytes()
                code = None if lines.state[index] == FILLER else Problem.MALFORMED
                self.found.gaps.append(UnparsedSegment(len(self.found.start) + index, code, reason, raw))
            begin = self._add(head, begin, base + lines.end, base + lines.starts, base + lines.ends, lines.good)
            if begin == stop and not is_cut:
                self.found.end[-1] = begin = end
            if begin < stop or not is_cut:  # what is cut is handed over with the rows before it
                yield begin
        if stop < end and is_cut:
            begin = self.gap(stop, end, Problem.TRUNCATED, "truncated: the file ends in the rows of a COPY")
        yield begin

    # --- rows of INSERT -----------------------------------------------------------------------------------------------

    def _rows(self, place: int, head: _StatementHead, is_wanted: bool) -> Iterator[int]:
        """The rows of one statement, and of those that follow with the same head."""
        if not is_wanted:
            _, end, looked = self._row_at(head.end)
            after = self._after_row(end)[0] if end >= 0 else -1
            reason = f"rows of {head.table}"
            yield (
                self.gap(place, after, None, reason)
                if after >= 0
                else self._damage(place, head.end, looked, _NO_ROW)[0]
            )
            return
        text = np.frombuffer(bytes(self.data[place : min(head.end, place + _LONGEST_HEAD)]), np.uint8)
        bounds = len(self.buffer), self.stop if head.end - place == len(text) else 0, _CHUNK_BYTES
        width = self._width(head)
        starts, ends = np.empty((2, max(1, min(_CHUNK, _SPANS // max(width, 1))), width), np.int64)
        after_rows = np.empty(len(starts), np.int64)
        begin, at = place, head.end
        while at >= 0:
            count, at, why = read_rows(self.buffer, at, bounds, self.backslash, text, starts, ends, after_rows)
            begin = self._add(head, begin, after_rows[:count], starts[:count], ends[:count])
            if why == STOPPED:
                begin, at = self._row(head, begin, at, starts[:1], ends[:1])
            at = -1 if why == LAST else at
            if at < 0 or self.is_full(begin):
                yield begin

    def _row(self, head: _StatementHead, begin: int, place: int, starts: Ints, ends: Ints) -> tuple[int, int]:
        """Adds the row at ``place`` that does not end as most do, or is damaged; where it ends, and where the next row
        of its statement begins (-1: it is the last)."""
        width = starts.shape[1]
        number, end, looked = self._row_at(place, starts[0], ends[0])
        after, following = (-1, -1) if end < 0 else self._after_row(end)
        if end < 0:
            reason = _NO_ROW
        elif number != width:
            reason = f"expected {width} values, found {number}"
        else:
            shown = self._text(bytes(self.data[end : end + _SHOWN]).lstrip()[:12])
            reason = f"expected a comma or a semicolon after the row, found {shown!r}"
        if after < 0:
            return self._damage(begin, max(place, end - 1), looked, reason)
        if number != width:
            return self.gap(begin, after, Problem.MALFORMED, reason), following
        return self._add(head, begin, np.array([after]), starts, ends), following

    def _row_at(self, place: int, starts: Ints = _NOTHING, ends: Ints = _NOTHING) -> Any:
        """See :func:`cdcwb.formats.containers.sql_lexer.read_row`."""
        if self.data[place : place + 1] != b"(":
            return 1, -1, place
        return read_row(self.buffer, place, len(self.buffer), self.backslash, starts, ends)

    def _width(self, head: _StatementHead) -> int:
        """The number of values of a row."""
        if head.names is not None:
            return len(head.names)
        if head.table not in self.widths:
            line = bytes(self.data[head.end : head.end + LONGEST]).split(b"\n", 1)[0] if head.rows == "copy" else b""
            self.widths[head.table] = int(self._row_at(head.end)[0]) if not line else line.count(b"\t") + 1
        return self.widths[head.table]

    def _add(
        self, head: _StatementHead, begin: int, after: Ints, starts: Ints, ends: Ints, rows: Ints | None = None
    ) -> int:
        """Adds segments, the first of which begins at ``begin``, and the values of those that are ``rows`` (None: all
        are)."""
        if not len(after):
            return begin
        key = head.table, head.names, head.rows == "copy"
        group = self.found.rows.setdefault(key, SqlRows(head.table, head.written, head.names, key[2]))
        group.index.append(len(self.found.start) + (np.arange(len(after)) if rows is None else rows))
        group.starts.append(starts.copy())
        group.ends.append(ends.copy())
        stops = after.tolist()
        self.found.start += [begin, *stops[:-1]]
        self.found.end += stops
        return int(stops[-1])

    def _after_row(self, place: int) -> tuple[int, int]:
        """Where a row ends whose values end at ``place`` (-1 where what follows cannot), and where the next row of its
        statement begins (-1: it is the last)."""
        sign = _SIGN.match(self.data, place)
        rest = _after(_BLANK, self.data, place if sign is None else sign.end())
        following = bytes(self.data[rest : rest + 1])
        if sign is not None:
            is_last = sign[1] == b";"
            return (sign.end(), -1 if is_last else rest) if is_last or following == b"(" else (-1, -1)
        if _TRAILER.match(self.data, place) is not None:
            return self._statement_end(place)[0], -1
        is_over = following in (b"", b"/") or chr(following[0]).isalpha()
        return _after(_REST_OF_LINE, self.data, place) if is_over else -1, -1

    def _damage(self, begin: int, place: int, looked: int, reason: str) -> tuple[int, int]:
        """Adds damage from ``begin`` to the next place after ``place`` where a row or a statement may begin; that
        place, and where the next row of the statement begins (-1: a statement may). ``looked``: where the look at what
        is damaged ended; if that is far, what may begin in between is damaged too."""
        found = _RESTART.search(self.data, place if looked - place < _AGAIN else looked)
        if found is None:
            reason = f"truncated: {reason}, where the file ends"
            return self.gap(begin, len(self.buffer), Problem.TRUNCATED, reason), -1
        end = self.gap(begin, found.end(), Problem.MALFORMED, reason)
        return end, end if self.data[end : end + 1] == b"(" else -1


# --- parts of a file --------------------------------------------------------------------------------------------------


def sql_parts(source: Source, file: FileProbe, stop: int) -> Iterator[RowSegments]:
    """The segments of the statements of a dump that begin before ``stop``. A row with a value that only the database
    can evaluate is malformed; columns that are not ``needed`` are null."""
    table, backslash = str(file.settings["table"]), bool(file.settings["backslash"])
    buffer = source.read(0, source.length)
    widths = {table: file.width} if file.width else {}
    for found in segments(buffer, stop, table=table, charset=file.charset, backslash=backslash, widths=widths):
        yield _part(buffer, found, file)


def _part(buffer: Bytes, found: SqlSegments, file: FileProbe) -> RowSegments:
    """Segments as a part; rows with a value that has no text become gaps."""
    offset = np.array(found.start, dtype=np.int64)
    part = RowSegments(offset, np.array(found.end, dtype=np.int64) - offset, OffsetUnit.BYTE, [], found.gaps)
    backslash, needed = bool(file.settings["backslash"]), set(file.settings.get("needed") or file.columns)
    for group in found.rows.values():
        index, columns, wrong, refused = np.concatenate(group.index), [], dict[int, Ints](), dict[int, str]()
        places = {name.casefold(): place for place, name in enumerate(group.names or file.columns)}
        for number, name in enumerate(file.columns):
            place = places.get(name.casefold())
            if name not in needed or place is None or place >= group.starts[0].shape[1]:
                columns.append(pa.nulls(len(index), pa.string()))
                continue
            made = group.column(buffer, place, file.charset, backslash)
            columns.append(made.texts)
            wrong |= {number: made.garbled} if len(made.garbled) else {}
            refused.update({row: f"{name}: {why}" for row, why in made.refused.items()})
        start, end = part.offset[index], part.offset[index] + part.length[index]
        rows = ColumnRows(file.columns, start, end - start, columns, slices(buffer, start, end), wrong=wrong)
        for row, why in refused.items():
            raw = buffer[start[row] : min(int(end[row]), int(start[row]) + LONGEST)].tobytes()
            part.gaps.append(UnparsedSegment(int(index[row]), Problem.MALFORMED, why, raw))
        fine = np.delete(np.arange(len(index)), list(refused))
        part.rows.append((index[fine], rows.take(fine)) if refused else (index, rows))
    part.rows = [(index, rows) for index, rows in part.rows if len(index)]
    part.gaps.sort(key=lambda gap: gap.index)
    return part


# --- the tables of a dump ---------------------------------------------------------------------------------------------


class DumpTable(NamedTuple):
    """A table that has rows in a dump: its name as it is written, the columns if statements list them (where they do
    not list the same, those with most rows), and the first rows."""

    written: str
    columns: tuple[str, ...] | None
    rows: list[tuple[str | None, ...]]


def outline(buffer: Bytes, charset: str, backslash: bool, most: int) -> Iterator[dict[str, DumpTable]]:
    """The tables that have rows, by their names in lower case, with ``most`` rows each, if there are so many: those of
    the beginning of a dump, then those of more and more of it."""
    found: dict[str, DumpTable] = {}
    for some in segments(buffer, len(buffer), table=None, charset=charset, backslash=backslash):
        for one in some.rows.values():
            known = found.get(one.table)
            if known is None or len(known.rows) < most:
                width = one.starts[0].shape[1]
                columns = [one.column(buffer, place, charset, backslash, most) for place in range(width)]
                rows = list(zip(*(each.texts.to_pylist() for each in columns), strict=True))
                if known is None or len(rows) > len(known.rows):
                    found[one.table] = DumpTable(one.written, one.names, rows)
        yield found


# --- one row ----------------------------------------------------------------------------------------------------------


def cut_sql(record: bytes, file: FileProbe) -> list[Cell]:
    """The values of a row, which may be the first of its statement."""
    charset, backslash = file.charset, bool(file.settings["backslash"])
    head = _head(record, 0, charset)
    place, is_copy = (0, record.lstrip()[:1] != b"(") if head is None else (head.end, head.rows == "copy")
    if is_copy:
        line = record[place:].split(b"\n", 1)[0].rstrip(b"\r")
        ends = [place + one.start() for one in re.finditer(rb"\t|\Z", line)]
        spans = list(zip([place, *(end + 1 for end in ends)], ends, strict=False))
    else:
        starts, stops = np.zeros((2, record.count(b",") + 1), np.int64)
        with interpreted() if len(record) < _SMALL else nullcontext():
            row = np.frombuffer(record, np.uint8), max(record.find(b"(", place), 0), len(record)
            count = read_row(*row, backslash, starts, stops)[0]
        spans = list(zip(starts[:count].tolist(), stops[:count].tolist(), strict=True))
    cells, begin = [], 0
    for name, (start, end) in zip((head and head.names) or file.columns, spans, strict=False):
        made = column(pa.array([record[start:end].strip(b"" if is_copy else None)]), charset, backslash, is_copy)
        cells.append(Cell(name, begin, end, made.texts[0].as_py()))
        begin = end
    return cells[:-1] + [replace(one, stop=len(record)) for one in cells[-1:]]
