"""Where the rows of a dump of SQL statements begin and end (docs/formats/idm-event-log.md §1.5).

A row owns its bytes: the first of a statement from the statement's first byte on, each up to the comma that follows
it, the last up to the semicolon and the end of its line. Comments, blanks and other statements are filler. Damage goes
up to the next offset where a row or a statement may begin.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cdcwb.formats.tabular.delimited import LONGEST
from cdcwb.formats.tabular.parts import Gap
from cdcwb.model import Problem

__all__ = [
    "BLANK",
    "BOM",
    "FROM_SELECT",
    "INSERT_LINE",
    "Patterns",
    "Segments",
    "SqlRows",
    "begins_like_dump",
    "find_begin",
    "folded_name",
    "inserted_from_select",
    "is_table",
    "looks_like_dump",
    "names_of",
    "outline",
    "patterns",
    "segments",
    "value_places",
]

_FLAGS: Final = re.IGNORECASE | re.DOTALL

_STRING: Final = rb"'(?:[^']++|'')*+'"
_BACKSLASHED: Final = rb"'(?:[^'\\]++|''|\\.)*+'"
_ESCAPED: Final = rb"\be" + _BACKSLASHED
_ORACLE: Final = rb"\bn?q'(?:\[.*?\]|\{.*?\}|\(.*?\)|<.*?>|([^\s\[{(<]).*?\%d)'"
_COMMENT: Final = rb"--[^\n]*+\n?|/\*.*?\*/"
_NAME_PART: Final = rb"(?:[\w$#@\x80-\xff]++|\"[^\"\n]++\"|`[^`\n]++`|\[[^\]\n]++\])"
# `|(?!)` in a possessive group: tests/possessive.py says what for
_NAME: Final = _NAME_PART + rb"(?:\s*\.\s*" + _NAME_PART + rb"|(?!))*+"

BLANK: Final = re.compile(rb"(?:\s++|" + _COMMENT + rb"|(?!))*+", _FLAGS)
"""White space and comments."""

INSERT_LINE: Final = re.compile(rb"(?m)^[ \t]*+(?=(?:INSERT|REPLACE)\s)", re.IGNORECASE)
"""A line that begins with an INSERT, as far as can be told without what stands before it."""

FROM_SELECT: Final = re.compile(rb"[(\s]*+(?:SELECT|WITH)\b", re.IGNORECASE)
"""What follows the head of an INSERT that takes its rows from a query."""

_HEAD: Final = (
    rb"(?:INSERT|REPLACE)\s++(?:(?:IGNORE|DELAYED|LOW_PRIORITY|HIGH_PRIORITY|/\*.*?\*/)\s++|(?!))*+(?:INTO\s++)?"
    rb"(?!ALL\s|FIRST\s)("
    + _NAME
    + rb")\s*+(?:\(\s*+("
    + _NAME_PART
    + rb"(?:\s*+,\s*+"
    + _NAME_PART
    + rb"|(?!))*+)\s*+\)\s*+)?"
    rb"(?:OVERRIDING\s+\w+\s+VALUE\s*+)?"
)
_ROUTINE: Final = (
    rb"(?:CREATE|ALTER)\s[^;]{0,200}?\b(?:TRIGGER|FUNCTION|PROCEDURE|PACKAGE|TYPE\s+BODY)\b"
    rb"|(?:DECLARE|BEGIN)\b(?!\s*;|\s+(?:TRAN|WORK))"
)
_ROUTINE_END: Final = (
    rb"(?m)^[ \t]*(?:(?:/|GO|//|;;|@|\$\w*\$[^\n]*|DELIMITER[^\n]*)[ \t\r]*$"
    rb"|END\b(?!\s+(?:IF|LOOP|CASE|WHILE)\b)[^;\n]*;+[^\n]*$)"
)


def _value(string: bytes, group: int) -> bytes:
    """A value; ``group`` is the number of the group that it will be. Where a word stands right before or behind a
    string, a quote is missing, unless it is one of those that say what kind of string it is."""
    oracle = _ORACLE.replace(b"%d", str(group + 1).encode())
    plain = rb"[^'(),;\w]++|\w++(?!')"
    text = string + rb"(?![\w'])|\b(?:[nxb]|u&|_\w++)" + string + rb"(?![\w'])|" + _ESCAPED
    nested = rb"(?:" + text + rb"|" + plain + rb"|[,;])"
    for _ in range(4):
        nested = rb"(?:" + text + rb"|" + plain + rb"|[,;]|\((?:" + nested + rb"|(?!))*+\))"
    return rb"((?:" + oracle + rb"|(?!))?+(?:" + text + rb"|" + plain + rb"|\((?:" + nested + rb"|(?!))*+\)|(?!))*+)"


def _compiled(pattern: bytes) -> re.Pattern[bytes]:
    return re.compile(pattern, _FLAGS)


class Patterns:
    """How strings are spelt decides where everything ends; ``backslash``: a backslash in a string is an escape, as
    MySQL writes.

    ``head``: INSERT up to VALUES (table and columns); ``values``: VALUES; ``other``: a statement of another kind,
    without its end; ``routine`` and ``routine_end``: a definition that holds statements of its own; ``end``: a
    semicolon and the rest of its line, if blank; ``line``: the rest of a blank line; ``trailer``: a clause that follows
    the rows; ``comma``: what separates two rows; ``restart``: where a row or a statement may begin; ``one``: a value
    and what follows it.
    """

    def __init__(self, backslash: bool) -> None:
        self.string = _BACKSLASHED if backslash else _STRING
        self.head = _compiled(_HEAD)
        self.values = _compiled(rb"VALUES?\b\s*+")
        self.other = _compiled(
            rb"(?:"
            + self.string
            + rb"|\"[^\"]*+\"|"
            + _COMMENT
            + rb"|[^;'\"\-/\n]++|[-/]|\n(?!\s*+(?:INSERT|REPLACE|GO)\s)|(?!))*+"
        )
        self.routine = _compiled(_ROUTINE)
        self.routine_end = _compiled(_ROUTINE_END)
        self.end = _compiled(rb"\s*+;(?:[ \t\r]*+\n|[ \t\r]*+\Z)?")
        self.line = _compiled(rb"[ \t\r]*+(?:\n|\Z)")
        self.trailer = _compiled(rb"\s*+(?=(?:ON|RETURNING|AS)\s)")
        self.comma = _compiled(rb"\s*+,(?=(?:\s++|" + _COMMENT + rb"|(?!))*+\()(?:[ \t\r]*+\n)?")
        self.restart = _compiled(rb"\)\s*+,\s*+(?=\()|\n[ \t]*+(?=\()|;[ \t\r]*+\n|\n(?=[ \t]*+(?:INSERT|REPLACE)\s)")
        self.one = _compiled(rb"\s*+" + _value(self.string, 1) + rb"[,)]")
        self._tuples: dict[int, re.Pattern[bytes]] = {}

    def tuple_of(self, width: int) -> re.Pattern[bytes]:
        """A tuple of so many values: every second group is one."""
        if width not in self._tuples:
            values = (_value(self.string, 1 + 2 * place) for place in range(width))
            self._tuples[width] = _compiled(rb"\(\s*+" + rb",\s*+".join(values) + rb"\)")
        return self._tuples[width]


patterns = cache(Patterns)


def names_of(text: bytes, charset: str) -> tuple[str, ...]:
    """The parts of a name, or the names of a list, without their quotes."""
    found = re.findall(_NAME_PART, text)
    return tuple(_bare(one).decode(charset, "backslashreplace") for one in found)


def _bare(name: bytes) -> bytes:
    return name[1:-1] if name[:1] in (b'"', b"`", b"[") else name


def folded_name(text: bytes, charset: str) -> str:
    """A table's name without quotes, parts joined by dots, in lower case."""
    return ".".join(names_of(text, charset)).casefold()


Bytes = npt.NDArray[np.uint8]

BOM: Final = b"\xef\xbb\xbf"
"""UTF-8's byte order mark."""

_CHUNK: Final = 8192  # segments that are handed over together
_CHUNK_BYTES: Final = 16 << 20
_MOST_LISTS: Final = 1000  # beginnings of statements that are remembered
_SHOWN: Final = 40
_LINE: Final = re.compile(rb"(?i)(?:(?:REM|REMARK|PROMPT|GO|DELIMITER|SPOOL|PRINT)\b|[\\@/])[^\n]*+\n?")
_COPY: Final = re.compile(rb"(?is)COPY\s+([^;(]+?)\s*(?:\([^;)]*\)\s*)?FROM\s+STDIN\b[^;]*;.*?\n\\\.(?:\r?\n|\Z)")
_STATEMENT: Final = re.compile(
    rb"(?i)(?:ALTER|ANALYZE|BEGIN|CALL|COMMENT|COMMIT|CONNECT|CREATE|DECLARE|DEFINE|DELETE|DO|DROP|END|EXEC|EXECUTE|EXIT"
    rb"|FLUSH|GRANT|IF|LOCK|MERGE|PRAGMA|RENAME|REVOKE|ROLLBACK|SAVEPOINT|SELECT|SET|SHOW|START|TRUNCATE|UNLOCK|UPDATE"
    rb"|USE|WHENEVER|WITH|ALTER|VACUUM|REORG|RUNSTATS|ECHO|QUIT|UNDEFINE|VARIABLE|COPY)\b|;"
)
_INSERT: Final = re.compile(rb"(?i)(?:INSERT|REPLACE)\b")


@dataclass(slots=True)
class SqlRows:
    """Rows of one table with the same list of columns (None: the statement has no list): the segments they are, and
    the bytes of their values."""

    table: str
    names: tuple[str, ...] | None
    index: list[int] = field(default_factory=list)
    values: list[tuple[bytes, ...]] = field(default_factory=list)


@dataclass(slots=True)
class Segments:
    """Neighbouring segments of a dump, in order, without holes."""

    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    rows: dict[tuple[str, tuple[str, ...] | None], SqlRows] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)


def is_table(name: str, wanted: str) -> bool:
    """Is a folded name the wanted one? A schema that only one of them bears does not part them."""
    return name == wanted or name.endswith(f".{wanted}") or wanted.endswith(f".{name}")


def begins_like_dump(buffer: Bytes, place: int) -> bool:
    """Does a statement stand at ``place``, or a line of a script?"""
    return any(one.match(buffer.data, place) is not None for one in (_INSERT, _STATEMENT, _LINE))


def segments(
    buffer: Bytes,
    start: int,
    stop: int,
    *,
    table: str | None,
    charset: str = "utf-8",
    backslash: bool = False,
    widths: Mapping[str, int] | None = None,
) -> Iterator[Segments]:
    """The segments of the statements that begin in ``[start, stop)``; ``start`` has to be where one begins.

    ``table``: the folded name of the log's table; None: the rows of all tables. ``widths``: how many values a row of a
    table has, where its statements do not list the columns; else the first row tells.
    """
    reader = _Reader(buffer, table, charset, patterns(backslash), dict(widths or {}))
    place = start
    if not start and buffer[:3].tobytes() == BOM:
        place = reader.gap(0, 3, None, "byte order mark")
    while place < min(stop, len(buffer)):
        for behind in reader.statement(place):
            place = behind
            if reader.is_full(place):
                yield reader.taken()
    if reader.found.start:
        yield reader.taken()


@dataclass(slots=True)
class _Reader:
    """Reads statement after statement."""

    buffer: Bytes
    table: str | None
    charset: str
    patterns: Patterns
    widths: dict[str, int]
    found: Segments = field(default_factory=Segments)
    heads: dict[bytes, tuple[str, tuple[str, ...] | None]] = field(default_factory=dict)
    last: bytes = b""  # the head of the statement before, which the next mostly repeats
    data: Any = None

    def __post_init__(self) -> None:
        self.data = self.buffer.data

    def is_full(self, place: int) -> bool:
        """Is what was found up to ``place`` enough to be handed over?"""
        start = self.found.start
        return len(start) >= _CHUNK or (bool(start) and place - start[0] >= _CHUNK_BYTES)

    def taken(self) -> Segments:
        """What was found, which begins anew."""
        found, self.found = self.found, Segments()
        return found

    # --- statements ---------------------------------------------------------------------------------------------------

    def statement(self, place: int) -> Iterator[int]:
        """Adds the segments of one statement, or of the blanks before it; the places behind them."""
        blank = BLANK.match(self.data, place)
        behind = place if blank is None else blank.end()
        if behind > place:
            yield self.gap(place, behind, None, "comments" if self._has_text(place, behind) else "white space")
            return
        if self.data[place : place + 2] == b"/*":
            yield self._damage(place, place, "expected the end of a comment, found none")
            return
        head = self._head(place)
        if head is None:
            yield self._other(place)
            return
        table, names, first = head
        if self.table is not None and not is_table(table, self.table):
            yield self._skipped(place, None, f"a statement of another table, {table}")
        elif first < 0:
            named = self.patterns.head.match(self.data, place)
            queried = named is not None and FROM_SELECT.match(self.data, named.end()) is not None
            reason = "expected VALUES and rows after the name of the table"
            yield self._skipped(place, Problem.MALFORMED, f"{reason}, found a SELECT" if queried else reason)
        else:
            yield from self._rows(place, first, table, names)

    def _has_text(self, start: int, end: int) -> bool:
        return bool(bytes(self.data[start:end]).strip())

    def _head(self, place: int) -> tuple[str, tuple[str, ...] | None, int] | None:
        """The table and the columns of an INSERT, and where its first row begins (-1: it has none)."""
        size = len(self.last)
        if size and self.data[place : place + size + 1] == self.last + b"(":
            return *self.heads[self.last], place + size
        if _INSERT.match(self.data, place) is None:
            return None
        found = self.patterns.head.match(self.data, place)
        if found is None:
            return None
        names = None if found[2] is None else tuple(name.casefold() for name in names_of(found[2], self.charset))
        table = folded_name(found[1], self.charset)
        values = self.patterns.values.match(self.data, found.end())
        if values is None:
            return table, names, -1
        head = bytes(self.data[place : values.end()])
        if len(self.heads) < _MOST_LISTS and self.data[values.end() : values.end() + 1] == b"(":
            self.heads[head] = table, names
            self.last = head
        return table, names, values.end()

    def _other(self, place: int) -> int:
        """A statement that has no rows."""
        line = _LINE.match(self.data, place)
        if line is not None:
            return self.gap(place, line.end(), None, "a line of a script")
        copied = _COPY.match(self.data, place)
        if copied is not None:
            table = folded_name(copied[1], self.charset)
            mine = self.table is not None and is_table(table, self.table)
            reason = "COPY is not supported; dump the table as INSERT statements" if mine else f"rows of {table}"
            return self.gap(place, copied.end(), Problem.MALFORMED if mine else None, reason)
        if self.patterns.routine.match(self.data, place) is not None:
            found = self.patterns.routine_end.search(self.data, place + 1)
            if found is not None:
                end = self.patterns.line.match(self.data, found.end())
                behind = found.end() if end is None else end.end()
                return self.gap(place, behind, None, "a definition with statements of its own")
        if _STATEMENT.match(self.data, place) is not None:
            return self._skipped(place, None, "another statement")
        shown = bytes(self.data[place : place + _SHOWN]).split(b"\n")[0].decode(self.charset, "backslashreplace")
        return self._skipped(place, Problem.MALFORMED, f"expected a statement, found {shown!r}")

    def _skipped(self, place: int, code: Problem | None, reason: str) -> int:
        """A statement up to its semicolon, or up to the line before the next INSERT."""
        return self.gap(place, self._statement_end(place), code, reason)

    def _statement_end(self, place: int) -> int:
        body = self.patterns.other.match(self.data, place)
        behind = place if body is None else body.end()
        end = self.patterns.end.match(self.data, behind)
        if end is not None:
            return end.end()
        if behind < len(self.buffer) and self.buffer[behind] != 10:  # a quote that nothing closes
            line = bytes(self.data[behind : behind + (1 << 20)]).find(b"\n")
            return behind + 1 + line if line >= 0 else min(behind + (1 << 20), len(self.buffer))
        return min(behind + 1, len(self.buffer))

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _rows(self, place: int, first: int, table: str, names: tuple[str, ...] | None) -> Iterator[int]:
        """The rows of one statement; ``first``: where its first row begins."""
        width = len(names) if names is not None else self._width(table, first)
        pattern = self.patterns.tuple_of(width)
        match, comma, blank, data = pattern.match, self.patterns.comma.match, BLANK.match, self.data
        found = self.found
        group = self._group(table, names)
        begin = place
        while True:
            row = match(data, first)
            if row is None:
                begin, first, goes_on = self._bad_row(begin, first, width)
            else:
                after = row.end()
                separator = comma(data, after)
                if separator is not None:
                    end, goes_on = separator.end(), True
                else:
                    end, goes_on = self._row_end(after), False
                if end < 0:
                    shown = bytes(data[after : after + _SHOWN]).lstrip()[:12].decode(self.charset, "backslashreplace")
                    reason = f"expected a comma or a semicolon after the row, found {shown!r}"
                    begin, goes_on = self._resume(begin, after - 1, reason)
                    first = begin
                else:
                    group.index.append(len(found.start))
                    group.values.append(row.groups()[::2])
                    found.start.append(begin)
                    found.end.append(end)
                    begin = first = end
            if not goes_on or self.is_full(begin):
                yield begin
                if not goes_on:
                    return
                found = self.found
                group = self._group(table, names)
            if data[first] != 40:
                there = blank(data, first)
                first = first if there is None else there.end()

    def _group(self, table: str, names: tuple[str, ...] | None) -> SqlRows:
        known = self.found.rows.get((table, names))
        if known is None:
            known = self.found.rows[table, names] = SqlRows(table, names)
        return known

    def _width(self, table: str, first: int) -> int:
        if table not in self.widths:
            found = self._count(first)
            self.widths[table] = 1 if found is None else found[0]
        return self.widths[table]

    def _row_end(self, place: int) -> int:
        """Where the last row of a statement ends, whose values end at ``place``; -1 where what follows cannot."""
        end = self.patterns.end.match(self.data, place)
        if end is not None:
            return end.end()
        if self.patterns.trailer.match(self.data, place) is not None:
            return self._statement_end(place)
        blank = BLANK.match(self.data, place)
        behind = place if blank is None else blank.end()
        if behind < len(self.buffer) and not chr(self.buffer[behind]).isalpha() and self.buffer[behind] != 47:
            return -1
        line = self.patterns.line.match(self.data, place)
        return place if line is None else line.end()

    def _count(self, place: int) -> tuple[int, int] | None:
        """How many values the row at ``place`` has, and where it ends; None where it is none."""
        if self.data[place : place + 1] != b"(":
            return None
        value = self.patterns.one
        number, place = 0, place + 1
        while True:
            found = value.match(self.data, place)
            if found is None:
                return None
            number, place = number + 1, found.end()
            if self.data[place - 1] == 41:
                return number, place

    def _bad_row(self, begin: int, first: int, width: int) -> tuple[int, int, bool]:
        """Adds a row that is none; where the next begins, if the statement goes on."""
        counted = self._count(first)
        reason = "expected a row of values, closed by a parenthesis"
        if counted is not None:
            number, after = counted
            reason = f"expected {width} values, found {number}"
            separator = self.patterns.comma.match(self.data, after)
            if separator is not None:
                place = self.gap(begin, separator.end(), Problem.MALFORMED, reason)
                return place, place, True
            end = self._row_end(after)
            if end >= 0:
                place = self.gap(begin, end, Problem.MALFORMED, reason)
                return place, place, False
        place, goes_on = self._resume(begin, first, reason)
        return place, place, goes_on

    def _resume(self, begin: int, place: int, reason: str) -> tuple[int, bool]:
        """Adds damage from ``begin`` to the next place behind ``place`` where a row or a statement may begin; that
        place, and whether the statement goes on there."""
        found = self.patterns.restart.search(self.data, place)
        if found is None:
            end = self.gap(begin, len(self.buffer), Problem.TRUNCATED, f"truncated: {reason}, where the file ends")
            return end, False
        end = self.gap(begin, found.end(), Problem.MALFORMED, reason)
        return end, end < len(self.buffer) and self.buffer[end] == 40

    def _damage(self, begin: int, place: int, reason: str) -> int:
        return self._resume(begin, place, reason)[0]

    def gap(self, start: int, end: int, code: Problem | None, reason: str) -> int:
        """Adds a segment that is no row; where it ends."""
        raw = bytes(self.data[start : min(end, start + LONGEST)])
        self.found.gaps.append(Gap(len(self.found.start), code, reason, raw))
        self.found.start.append(start)
        self.found.end.append(end)
        return end


_MOST_HEADS: Final = 100_000  # statements that are looked at to find the tables


def find_begin(buffer: Bytes, place: int) -> int:
    """Where the first statement with rows begins at or behind ``place``, as far as can be told from there; the end
    where there is none."""
    found = INSERT_LINE.search(buffer.data, place)
    while found is not None and found.start() and buffer[found.start() - 1] != 10:
        found = INSERT_LINE.search(buffer.data, found.start() + 1)
    return len(buffer) if found is None else found.start()


def looks_like_dump(head: Bytes, damaged: bool = False) -> bool:
    """Does a file that begins so hold statements, INSERTs among them? Two of them are wanted behind a beginning that is
    neither a statement nor a comment, unless it is known to be ``damaged``."""
    mark = 3 if head[:3].tobytes() == BOM else 0
    blank = BLANK.match(head.data, mark)
    place = mark if blank is None else blank.end()
    wanted = 1 if damaged or begins_like_dump(head, place) else 2
    known = patterns(False)
    place = find_begin(head, mark)
    while place < len(head):
        found = known.head.match(head.data, place)
        if found is not None and known.values.match(head.data, found.end()) is not None:
            wanted -= 1
            if not wanted:
                return True
        place = find_begin(head, place + 1)
    return False


def inserted_from_select(head: Bytes, charset: str) -> tuple[str, tuple[str, ...] | None] | None:
    """The table of the first INSERT that takes its rows from a SELECT, and the columns that it lists (None: it lists
    none); None where there is no such statement."""
    known = patterns(False)
    place = find_begin(head, 0)
    while place < len(head):
        found = known.head.match(head.data, place)
        if found is not None and FROM_SELECT.match(head.data, found.end()) is not None:
            return folded_name(found[1], charset), None if found[2] is None else names_of(found[2], charset)
        place = find_begin(head, place + 1)
    return None


def outline(
    buffer: Bytes, charset: str, backslash: bool, most: int
) -> dict[str, tuple[tuple[str, ...] | None, list[tuple[bytes, ...]]]]:
    """The tables that have rows in a dump, by their folded names: their columns, if statements list them (where they do
    not list the same, those with most rows), and the first ``most`` rows."""
    found: dict[str, dict[tuple[str, ...] | None, list[tuple[bytes, ...]]]] = {}
    head = patterns(backslash).head
    place, looked = find_begin(buffer, 0), 0
    while place < len(buffer) and looked < _MOST_HEADS:
        looked += 1
        match = head.match(buffer.data, place)
        table = "" if match is None else folded_name(match[1], charset)
        if table and not any(len(rows) >= most for rows in found.get(table, {}).values()):
            first = next(segments(buffer, place, place + 1, table=None, charset=charset, backslash=backslash), None)
            for one in () if first is None else first.rows.values():
                rows = found.setdefault(table, {}).setdefault(one.names, [])
                rows += [row for row in one.values[:most] if not rows or len(row) == len(rows[0])]
        place = find_begin(buffer, place + 1)
    return {table: max(lists.items(), key=lambda one: len(one[1])) for table, lists in found.items()}


def value_places(record: bytes, charset: str, backslash: bool) -> tuple[tuple[str, ...] | None, list[tuple[int, int]]]:
    """The columns that a row's statement lists (None: it lists none, or the row is not its first), and where its values
    begin and end in its bytes."""
    known = patterns(backslash)
    head = known.head.match(record)
    names, place = None, 0
    if head is not None:
        names = None if head[2] is None else tuple(one.casefold() for one in names_of(head[2], charset))
        place = head.end()
    place = record.find(b"(", place)
    found: list[tuple[int, int]] = []
    while place >= 0:
        value = known.one.match(record, place + 1)
        if value is None:
            break
        found.append(value.span(1))
        place = value.end() - 1 if record[value.end() - 1] == 44 else -1
    return names, found
