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
from itertools import accumulate, pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdcwb.formats.arrays import slices
from cdcwb.formats.containers.delimited import LONGEST
from cdcwb.formats.containers.rows import Cell, ColumnRows, FileProbe, Gap, Part
from cdcwb.formats.containers.sql_lexer import LAST, WRONG, read_row, read_rows, skip_blank, statement_end
from cdcwb.formats.containers.sql_values import column
from cdcwb.formats.files import Source
from cdcwb.formats.kernels import interpreted
from cdcwb.model import OffsetUnit, Problem

__all__ = [
    "BOM",
    "FROM_SELECT",
    "INSERT_LINE",
    "SqlRows",
    "SqlSegments",
    "begins_like_dump",
    "cut_sql",
    "find_begin",
    "folded_name",
    "inserted_from_select",
    "is_table",
    "looks_like_dump",
    "names_of",
    "outline",
    "segments",
    "sql_parts",
    "value_places",
    "written_name",
]

_FLAGS: Final = re.IGNORECASE | re.DOTALL

_NAME_PART: Final = (
    rb"(?:[\w$#@\x80-\xff]++|\"[^\"\n]{1,512}+\"|`[^`\n]{1,512}+`|\[[^\]\n]{1,512}+\])"  # names are short
)
# `|(?!)` in a possessive group: see tests/possessive.py
_NAME: Final = _NAME_PART + rb"(?:\s*+\.\s*+" + _NAME_PART + rb"|(?!))*+"

INSERT_LINE: Final = re.compile(rb"(?m)^[ \t]*+(?=(?:INSERT|REPLACE|COPY)\s)", re.IGNORECASE)
"""A line that begins with an INSERT or a COPY, as far as its bytes show."""

FROM_SELECT: Final = re.compile(rb"[(\s]*+(?:SELECT|WITH)\b", re.IGNORECASE)
"""What follows the head of an INSERT that takes its rows from a query."""

_HEAD: Final = re.compile(
    rb"(?:INSERT|REPLACE)\s++"
    rb"(?:(?:IGNORE|DELAYED|LOW_PRIORITY|HIGH_PRIORITY|/\*[^*]{0,512}+\*/)\s++|(?!))*+(?:INTO\s++)?(?!ALL\s|FIRST\s)("
    + _NAME
    + rb")\s*+(?:\(\s*+("
    + _NAME_PART
    + rb"(?:\s*+,\s*+"
    + _NAME_PART
    + rb"|(?!))*+)\s*+\)\s*+)?(?:OVERRIDING\s++\w++\s++VALUE\s*+)?",
    _FLAGS,
)
"""INSERT up to VALUES: the table and the columns."""

_VALUES: Final = re.compile(rb"VALUES?\b\s*+", _FLAGS)
_ALL: Final = re.compile(rb"INSERT\s++ALL\s++(?=INTO\s)", _FLAGS)
_INTO: Final = re.compile(
    rb"\s*+INTO\s++("
    + _NAME
    + rb")\s*+(?:\(\s*+("
    + _NAME_PART
    + rb"(?:\s*+,\s*+"
    + _NAME_PART
    + rb"|(?!))*+)\s*+\)\s*+)?VALUES\s*+(?=\()",
    _FLAGS,
)
"""A table of an INSERT ALL, up to its row."""

_END: Final = re.compile(rb"\s*+;(?:[ \t\r]*+\n|[ \t\r]*+\Z)?")
_REST_OF_LINE: Final = re.compile(rb"[ \t\r]*+(?:\n|\Z)")
_TRAILER: Final = re.compile(rb"\s*+(?=(?:ON|RETURNING|AS)\s)", _FLAGS)
_RESTART: Final = re.compile(
    rb"\)\s*+,\s*+(?=\()|\n[ \t]*+(?=\()|;[ \t\r]*+\n|\n(?=[ \t]*+(?:INSERT|REPLACE)\s)", _FLAGS
)
"""Where a row or a statement may begin."""


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
Ints = npt.NDArray[np.int64]

BOM: Final = b"\xef\xbb\xbf"
"""UTF-8's byte order mark."""

_CHUNK: Final = 8192  # segments that are handed over together
_CHUNK_BYTES: Final = 16 << 20
_SPANS: Final = 1 << 16  # of values that are read at a time
_MOST_LISTS: Final = 1000  # beginnings of statements that are remembered
_LONGEST_HEAD: Final = 4096  # bytes of one
_SHOWN: Final = 40
_LINE: Final = re.compile(rb"(?i)(?:(?:REM|REMARK|PROMPT|GO|DELIMITER|SPOOL|PRINT)\b|[\\@/])[^\n]*+\n?")
_COPY: Final = re.compile(
    rb"(?i)COPY\s++(" + _NAME + rb")\s*+(?:\(([^;)]*+)\)\s*+)?FROM\s++STDIN\s*+;[ \t\r]*+(?:\n|\Z)"
)
_COPY_LINE: Final = re.compile(rb"[^\n]*+(?:\n|\Z)")
_COPY_ESCAPE: Final = re.compile(rb"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.))", re.DOTALL)
_COPIED: Final = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_DELIMITER: Final = re.compile(rb"(?i)DELIMITER[ \t]++(?!;[ \t\r]*+(?:\n|\Z))")
_DELIMITER_END: Final = re.compile(rb"(?im)^DELIMITER[ \t]++;[ \t\r]*+(?:\n|\Z)")
_GAP: Final = rb"(?:\s++|/\*[^*]{0,512}+\*/|--[^\n]*+\n|(?!))++"
_ROUTINE: Final = re.compile(
    rb"(?i)DECLARE\b(?!\s*+@)|(?:CREATE|ALTER)"
    + _GAP
    + rb"(?:(?:OR|REPLACE|ALTER|(?:NON)?EDITIONABLE|AGGREGATE|CONSTRAINT"
    rb"|DEFINER\s{0,9}=\s{0,9}(?:[^\s`']++|`[^`\n]*+`|'[^'\n]*+'|(?!))++)" + _GAP + rb"|(?!))*+"
    rb"(?:TRIGGER|FUNCTION|PROC|PROCEDURE|PACKAGE|EVENT|TYPE\s{1,9}BODY)\b"
)
_ROUTINE_END: Final = re.compile(rb"(?im)^[ \t]*+(?:/|GO|@)[ \t\r]*+(?:\n|\Z)|\bAS\s{1,99}(\$\w{0,64}\$)")
_BODY: Final = re.compile(rb"(?i)\b(?:AS|IS|BEGIN)\b")
_CALLS: Final = re.compile(rb"(?i)\bEXECUTE\s{1,99}(?:FUNCTION|PROCEDURE)\b")
_BLOCK: Final = re.compile(
    rb"(?i)BEGIN\b(?!\s*+;|\s++(?:TRAN|WORK|IMMEDIATE|DEFERRED|EXCLUSIVE|ISOLATION|READ))(?:\s++TRY\b)?"
)
_IN_BLOCK: Final = re.compile(
    rb"(?i)'(?:[^']++|''|(?!))*+'|--[^\n]*+|/\*(?:[^*]++|\*(?!/)|(?!))*+"
    rb"|\b(?:(END)|IF|LOOP|FOR|FORALL|WHILE|CASE|GOTO|EXCEPTION|BEGIN)\b"
)
_ADDS: Final = re.compile(rb"(?i)\b(?:INSERT|REPLACE)\b")
_CURE: Final = "export the table alone, as INSERT statements with VALUES or as CSV"
_ALLOWED: Final = 1 << 20  # bytes that may be looked at again after damage, besides the size of what was read
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
class SqlSegments:
    """Neighbouring segments of a dump, in order, without holes."""

    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    rows: dict[tuple[str, tuple[str, ...] | None], SqlRows] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)


def is_table(name: str, wanted: str) -> bool:
    """Is a folded name the wanted one? A schema that only one of them has does not count."""
    return name == wanted or name.endswith(f".{wanted}") or wanted.endswith(f".{name}")


def begins_like_dump(buffer: Bytes, place: int) -> bool:
    """Is a statement at ``place``, or a line of a script?"""
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
) -> Iterator[SqlSegments]:
    """The segments of the statements that begin in ``[start, stop)``; ``start`` has to be where one begins.

    ``table``: the folded name of the log's table; None: the rows of all tables. ``widths``: how many values a row of a
    table has, where its statements do not list the columns; else the first row shows it.
    """
    reader = _DumpReader(buffer, table, charset, backslash, dict(widths or {}), origin=start)
    place = start
    if not start and buffer[:3].tobytes() == BOM:
        place = reader.gap(0, 3, None, "byte order mark")
    while place < min(stop, len(buffer)):
        for rest in reader.statement(place):
            place = rest
            if reader.is_full(place):
                yield reader.taken()
    if reader.found.start:
        yield reader.taken()


_BEHIND: Final = 1 << 20  # bytes after a part that are read with it, in which its last statement may continue
_NEAR: Final = 1 << 16  # bytes from the end of those that were read, which may decide what a row is


def sql_parts(source: Source, file: FileProbe, start: int, stop: int) -> Iterator[Part]:
    """The segments of the statements of a dump that begin in ``[start, stop)``; ``start`` has to be where one begins. A
    row with a value that only the database can evaluate is malformed; columns that are not ``needed`` are null."""
    table, backslash = str(file.settings["table"]), bool(file.settings["backslash"])
    widths = {table: file.width} if file.width else {}
    done = 0
    for upto in dict.fromkeys((min(stop + _BEHIND, source.length), source.length)):
        buffer = source.view(start, upto)
        whole = upto == source.length
        parts = segments(buffer, start, stop, table=table, charset=file.charset, backslash=backslash, widths=widths)
        for number, found in enumerate(parts):
            # what looks damaged, or ends with the bytes that were read, may continue in those that were not
            if not whole and (found.end[-1] > upto - _NEAR or any(gap.code is not None for gap in found.gaps)):
                break
            if number >= done:
                yield _part(buffer, found, file)
                done += 1
        else:
            return


def _part(buffer: Bytes, found: SqlSegments, file: FileProbe) -> Part:
    offset = np.array(found.start, dtype=np.int64)
    part = Part(offset, np.array(found.end, dtype=np.int64) - offset, OffsetUnit.BYTE, [], found.gaps)
    groups = [group for group in found.rows.values() if group.index]
    if groups:
        part.rows.append(_rows(buffer, part, groups, file))
    part.gaps.sort(key=lambda gap: gap.index)
    return part


def _rows(buffer: Bytes, part: Part, groups: list[SqlRows], file: FileProbe) -> tuple[Ints, ColumnRows]:
    """All rows, whatever their statements list; those with a value that has no text become gaps."""
    tokens: dict[str, list[bytes]] = {name: [] for name in file.settings.get("needed") or file.columns}
    for group in groups:
        places = {name.casefold(): place for place, name in enumerate(group.names or file.columns)}
        for name, values in tokens.items():
            place = places.get(name.casefold(), 1 << 30)
            values += [row[place] if place < len(row) else b"NULL" for row in group.values]
    index = np.concatenate([np.array(group.index, dtype=np.int64) for group in groups])
    order = np.argsort(index)
    in_order = bool((order[1:] > order[:-1]).all())
    columns, wrong, refused = [], dict[int, Ints](), dict[int, str]()
    for place, name in enumerate(file.columns):
        if name not in tokens:
            columns.append(pa.nulls(len(index), pa.string()))
            continue
        values = tokens[name]
        some = values if in_order else [values[at] for at in order.tolist()]
        made = column(some, file.charset, bool(file.settings["backslash"]))
        columns.append(made.texts)
        wrong |= {place: made.garbled} if len(made.garbled) else {}
        refused.update({row: f"{name}: {why}" for row, why in made.refused.items()})
    index = index[order]
    start, end = part.offset[index], part.offset[index] + part.length[index]
    rows = ColumnRows(file.columns, start, end - start, columns, slices(buffer, start, end), wrong=wrong)
    for row, why in refused.items():
        raw = buffer[start[row] : min(int(end[row]), int(start[row]) + LONGEST)].tobytes()
        part.gaps.append(Gap(int(index[row]), Problem.MALFORMED, why, raw))
    fine = np.delete(np.arange(len(index)), list(refused))
    return (index[fine], rows.take(fine)) if refused else (index, rows)


def cut_sql(record: bytes, file: FileProbe) -> list[Cell]:
    """The values of a row, which may be the first of its statement."""
    names, places = value_places(record, file.charset, bool(file.settings["backslash"]))
    cells, begin = [], 0
    for name, (start, end) in zip(names or file.columns, places, strict=False):
        made = column([record[start:end].strip()], file.charset, bool(file.settings["backslash"]))
        cells.append(Cell(name, begin, start, end, end, made.texts[0].as_py()))
        begin = end
    if cells:
        cells[-1] = replace(cells[-1], stop=len(record))
    return cells


_COMMA: Final = re.compile(rb"\s*+,")
_TO_NEXT_LINE: Final = re.compile(rb"[ \t\r]*+\n")
_END_OF_QUOTED: Final = re.compile(rb";(?:[ \t\r]*+\n)?")
_NO_SPANS: Final = np.empty(0, np.int64), np.empty(0, np.int64)


def _after(pattern: re.Pattern[bytes], data: Any, place: int) -> int:
    """The end of what is at ``place``; that itself where there is none."""
    found = pattern.match(data, place)
    return place if found is None else found.end()


class _Room:
    """Arrays for the offsets of rows and of their values."""

    def __init__(self, width: int) -> None:
        self.width = width
        rows = max(1, min(_CHUNK, _SPANS // max(width, 1)))
        self.starts, self.ends = np.empty((2, rows, width), np.int64)
        self.first, self.after = np.empty((2, rows), np.int64)


@dataclass(slots=True)
class _DumpReader:
    """Reads statement after statement."""

    buffer: Bytes
    table: str | None
    charset: str
    backslash: bool
    widths: dict[str, int]
    found: SqlSegments = field(default_factory=SqlSegments)
    heads: dict[bytes, tuple[str, tuple[str, ...] | None]] = field(default_factory=dict)
    last: bytes = b""  # the head of the statement before, which the next mostly repeats
    origin: int = 0
    allowed: int = _ALLOWED  # bytes that may be looked at again after damage
    data: Any = None
    room: _Room = field(default_factory=lambda: _Room(1))

    def __post_init__(self) -> None:
        self.data = self.buffer.data

    def is_full(self, place: int) -> bool:
        """Is what was found up to ``place`` enough to be handed over?"""
        start = self.found.start
        return len(start) >= _CHUNK or (bool(start) and place - start[0] >= _CHUNK_BYTES)

    def taken(self) -> SqlSegments:
        """What was found, which begins anew."""
        found, self.found = self.found, SqlSegments()
        return found

    # --- statements ---------------------------------------------------------------------------------------------------

    def statement(self, place: int) -> Iterator[int]:
        """Adds the segments of one statement, or of the blanks before it; the places after them."""
        rest, looked = skip_blank(self.buffer, place, len(self.buffer))
        if rest > place:
            yield self.gap(place, rest, None, "comments" if self._has_text(place, rest) else "white space")
            return
        if looked > rest:
            yield self._resume(place, place, looked, "expected the end of a comment, found none")[0]
            return
        head = self._head(place)
        copied = _COPY.match(self.data, place) if head is None else None
        several = _ALL.match(self.data, place) if head is None else None
        if copied is not None:
            yield from self._copy(place, copied)
            return
        if several is not None:
            yield from self._every(place, several.end())
            return
        if head is None:
            yield self._other(place)
            return
        table, names, first = head
        if self.table is not None and not is_table(table, self.table):
            yield self._skipped(place, None, f"a statement of another table, {table}")
        elif first < 0:
            named = _HEAD.match(self.data, place)
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
        found = _HEAD.match(self.data, place)
        if found is None:
            return None
        names = None if found[2] is None else names_of(found[2], self.charset)
        table = folded_name(found[1], self.charset)
        values = _VALUES.match(self.data, found.end())
        if values is None:
            return table, names, -1
        head = bytes(self.data[place : values.end()])
        if (
            len(self.heads) < _MOST_LISTS
            and len(head) <= _LONGEST_HEAD
            and self.data[values.end() : values.end() + 1] == b"("
        ):
            self.heads[head] = table, names
            self.last = head
        return table, names, values.end()

    def _other(self, place: int) -> int:
        """A statement that has no rows."""
        if _DELIMITER.match(self.data, place) is not None:
            return self._routine(place, _DELIMITER_END.search(self.data, place))
        line = _LINE.match(self.data, place)
        if line is not None:
            return self.gap(place, line.end(), None, "a line of a script")
        block = _BLOCK.match(self.data, place)
        if block is not None and self._is_plain(block.end()):
            return self.gap(place, _after(_REST_OF_LINE, self.data, block.end()), None, "the begin of a block")
        if block is not None or self._is_routine(place):
            return self._routine(place, self._routine_end(place))
        if _STATEMENT.match(self.data, place) is not None:
            return self._skipped(place, None, "another statement")
        shown = bytes(self.data[place : place + _SHOWN]).split(b"\n")[0].decode(self.charset, "backslashreplace")
        return self._skipped(place, Problem.MALFORMED, f"expected a statement, found {shown!r}")

    def _copy(self, place: int, head: re.Match[bytes]) -> Iterator[int]:
        """The rows of a COPY as pg_dump writes it: a line each, with tabs between the values, up to a line of a
        backslash and a dot."""
        table, size = folded_name(head[1], self.charset), len(self.buffer)
        names = names_of(head[2], self.charset) if head[2] else None
        mine = self.table is None or is_table(table, self.table)
        begin, at, group = place, head.end(), self._group(table, names)
        width = self.widths.get(table) if names is None else len(names)
        while at < size:
            line = bytes(self.data[at : _after(_COPY_LINE, self.data, at)])
            content, at = line.rstrip(b"\r\n"), at + len(line)
            if content == b"\\.":
                if mine and self.found.end and begin > place and self.found.end[-1] == begin:
                    self.found.end[-1] = at
                else:
                    self.gap(begin, at, None, "a COPY without rows" if mine else f"rows of {table}")
                yield at
                return
            values = content.split(b"\t")
            width = len(values) if width is None else width
            if not mine:
                continue
            if not line.endswith(b"\n"):
                begin = self.gap(begin, at, Problem.TRUNCATED, "truncated: the file ends in the rows of a COPY")
            elif len(values) != width:
                begin = self.gap(begin, at, Problem.MALFORMED, f"expected {width} values, found {len(values)}")
            else:
                group.index.append(len(self.found.start))
                group.values.append(tuple([_literal_of(one, self.backslash) for one in values]))
                self.found.start.append(begin)
                self.found.end.append(at)
                begin = at
            if self.is_full(begin):
                yield begin
                group = self._group(table, names)
        if begin < size:
            self.gap(begin, size, Problem.TRUNCATED, "truncated: the file ends in a COPY")
        yield size

    def _every(self, place: int, at: int) -> Iterator[int]:
        """The rows of an INSERT ALL, whose first table is named at ``at``; the last has the query that follows."""
        begin, is_row, size = place, False, len(self.buffer)
        while (head := _INTO.match(self.data, at)) is not None:
            table = folded_name(head[1], self.charset)
            names = None if head[2] is None else names_of(head[2], self.charset)
            width = self._width(table, head.end()) if names is None else len(names)
            starts, ends = np.empty((2, width), np.int64)
            count, end, looked = read_row(self.buffer, head.end(), size, self.backslash, starts, ends)
            if end < 0:
                yield self._resume(begin, head.end(), looked, "expected a row of values, closed by a parenthesis")[0]
                return
            is_row = count == width and (self.table is None or is_table(table, self.table))
            if is_row:
                group = self._group(table, names)
                group.index.append(len(self.found.start))
                values = zip(starts.tolist(), ends.tolist(), strict=True)
                group.values.append(tuple([bytes(self.data[one:other]) for one, other in values]))
                self.found.start.append(begin)
                self.found.end.append(end)
            elif count != width:
                self.gap(begin, end, Problem.MALFORMED, f"expected {width} values, found {count}")
            else:
                self.gap(begin, end, None, f"rows of {table}")
            begin, at = end, int(skip_blank(self.buffer, end, size)[0])
            if len(self.found.start) >= _CHUNK and _INTO.match(self.data, at) is not None:
                yield begin
        end = self._statement_end(at)
        if is_row:
            self.found.end[-1] = end
        else:
            self.gap(begin, end, None, "the query of an INSERT ALL")
        yield end

    def _is_plain(self, place: int) -> bool:
        """Are the statements of the block at ``place`` run one after the other, each once?"""
        word = next((one for one in _IN_BLOCK.finditer(self.data, place) if one[0][:1].isalpha()), None)
        return word is None or word[1] is not None

    def _is_routine(self, place: int) -> bool:
        """Is this a definition that holds statements of its own?"""
        if _ROUTINE.match(self.data, place) is None:
            return False
        first = bytes(self.data[place : place + 1024]).partition(b";")[0]
        is_altered = first[:1] in b"aA" and _BODY.search(first) is None
        return not is_altered and not (_CALLS.search(first) is not None and _BODY.search(first) is None)

    def _routine_end(self, place: int) -> re.Match[bytes] | None:
        """The line, or the semicolon, that ends a routine."""
        found = _ROUTINE_END.search(self.data, place)
        if found is None or found[1] is None:
            return found
        closed = re.compile(re.escape(found[1])).search(self.data, found.end())
        return None if closed is None else _END_OF_QUOTED.search(self.data, closed.end())

    def _routine(self, place: int, end: re.Match[bytes] | None) -> int:
        """A routine up to its end, or up to that of the file, with a problem if statements in it add rows."""
        if end is None:
            reason = f"a routine, whose end is unknown: nothing that follows is read; {_CURE}"
            return self.gap(place, len(self.buffer), Problem.MALFORMED, reason)
        adds = _ADDS.search(self.data, place, end.end()) is not None
        reason = f"a routine: the INSERT statements in it are not rows; {_CURE}" if adds else "a routine"
        return self.gap(place, end.end(), Problem.MALFORMED if adds else None, reason)

    def _skipped(self, place: int, code: Problem | None, reason: str) -> int:
        """A statement up to its semicolon, or up to the line before the next INSERT."""
        return self.gap(place, self._statement_end(place), code, reason)

    def _statement_end(self, place: int) -> int:
        size = len(self.buffer)
        end, looked, quote = statement_end(self.buffer, place, size, self.backslash)
        if end >= 0:
            return int(end)
        if not self._may_look(looked - quote, place):
            return size
        line = bytes(self.data[quote : quote + (1 << 20)]).find(b"\n")
        return int(quote) + 1 + line if line >= 0 else min(int(quote) + (1 << 20), size)

    def _may_look(self, count: int, place: int) -> bool:
        """May so many bytes, which were looked at in vain, be looked at again? All those of a file together are a few
        times its size at most."""
        self.allowed -= count
        return self.allowed + 4 * (place - self.origin) > 0

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _rows(self, place: int, first: int, table: str, names: tuple[str, ...] | None) -> Iterator[int]:
        """The rows of one statement; ``first``: where its first row begins."""
        size = len(self.buffer)
        width = len(names) if names is not None else self._width(table, first)
        begin, goes_on = place, True
        while goes_on:
            room = self._room(width)
            why, count, following, number, end, looked = read_rows(
                *(self.buffer, first, size, _CHUNK_BYTES, self.backslash),
                *(room.starts, room.ends, room.first, room.after),
            )
            begin = self._add(table, names, room, count, begin)
            goes_on = why != LAST
            if why == WRONG:
                begin, goes_on = self._bad_row(begin, following, width, number, end, looked)
            elif why == LAST:
                end, reached = self._row_end(following)
                if end < 0:
                    shown = bytes(self.data[following : following + _SHOWN]).lstrip()[:12]
                    reason = f"expected a comma or a semicolon after the row, found {self._text(shown)!r}"
                    begin = self._take_back(table, names)
                    begin, goes_on = self._resume(begin, following - 1, max(looked, reached), reason)
                else:
                    self.found.end[-1] = begin = end
            if not goes_on or self.is_full(begin):
                yield begin
            if goes_on:
                first = int(skip_blank(self.buffer, begin, size)[0])

    def _room(self, width: int) -> _Room:
        if self.room.width != width:
            self.room = _Room(width)
        return self.room

    def _text(self, raw: bytes) -> str:
        return raw.decode(self.charset, "backslashreplace")

    def _add(self, table: str, names: tuple[str, ...] | None, room: _Room, count: int, begin: int) -> int:
        """Adds rows that were read, the first of which begins at ``begin``; where the last one ends."""
        if not count:
            return begin
        group, found = self._group(table, names), self.found
        after = room.after[:count].tolist()
        low = int(room.first[0])
        raw = bytes(self.data[low : after[-1]])
        starts, ends = (room.starts[:count] - low).tolist(), (room.ends[:count] - low).tolist()
        group.index += range(len(found.start), len(found.start) + count)
        group.values += [
            tuple([raw[start:end] for start, end in zip(*one, strict=True)]) for one in zip(starts, ends, strict=True)
        ]
        found.start += [begin, *after[:-1]]
        found.end += after
        return int(after[-1])

    def _take_back(self, table: str, names: tuple[str, ...] | None) -> int:
        """Takes the last row away; where it begins."""
        group = self._group(table, names)
        group.index.pop()
        group.values.pop()
        self.found.end.pop()
        return self.found.start.pop()

    def _group(self, table: str, names: tuple[str, ...] | None) -> SqlRows:
        known = self.found.rows.get((table, names))
        if known is None:
            known = self.found.rows[table, names] = SqlRows(table, names)
        return known

    def _width(self, table: str, first: int) -> int:
        if table not in self.widths:
            count, end, _ = read_row(self.buffer, first, len(self.buffer), self.backslash, *_NO_SPANS)
            self.widths[table] = count if end >= 0 and self.buffer[first] == 40 else 1
        return self.widths[table]

    def _row_end(self, place: int) -> tuple[int, int]:
        """Where the last row of a statement ends, whose values end at ``place`` (-1 where what follows cannot), and
        where the look at that ended."""
        end = _END.match(self.data, place)
        if end is not None:
            return end.end(), place
        if _TRAILER.match(self.data, place) is not None:
            return self._statement_end(place), place
        rest, looked = skip_blank(self.buffer, place, len(self.buffer))
        if looked > rest or (
            rest < len(self.buffer) and not chr(self.buffer[rest]).isalpha() and self.buffer[rest] != 47
        ):
            return -1, int(looked)
        return _after(_REST_OF_LINE, self.data, place), place

    def _bad_row(self, begin: int, first: int, width: int, number: int, after: int, looked: int) -> tuple[int, bool]:
        """Adds a malformed row, of ``number`` values up to ``after`` (-1: it has no end); where the next begins, and
        whether the statement continues there."""
        if after < 0:
            return self._resume(begin, first, looked, "expected a row of values, closed by a parenthesis")
        reason = f"expected {width} values, found {number}"
        comma = _COMMA.match(self.data, after)
        if comma is not None:
            following, _ = skip_blank(self.buffer, comma.end(), len(self.buffer))
            if following < len(self.buffer) and self.buffer[following] == 40:
                return self.gap(begin, _after(_TO_NEXT_LINE, self.data, comma.end()), Problem.MALFORMED, reason), True
        end, reached = self._row_end(after)
        if end >= 0:
            return self.gap(begin, end, Problem.MALFORMED, reason), False
        looked = max(looked, reached)
        return self._resume(begin, first, looked, reason)

    def _resume(self, begin: int, place: int, looked: int, reason: str) -> tuple[int, bool]:
        """Adds damage from ``begin`` to the next place after ``place`` where a row or a statement may begin; that
        place, and whether the statement continues there. ``looked``: where the look at what is damaged ended."""
        if not self._may_look(looked - place, place):
            place = looked
        found = _RESTART.search(self.data, place)
        if found is None:
            end = self.gap(begin, len(self.buffer), Problem.TRUNCATED, f"truncated: {reason}, where the file ends")
            return end, False
        end = self.gap(begin, found.end(), Problem.MALFORMED, reason)
        return end, end < len(self.buffer) and self.buffer[end] == 40

    def gap(self, start: int, end: int, code: Problem | None, reason: str) -> int:
        """Adds a segment that is not a row; where it ends."""
        raw = bytes(self.data[start : min(end, start + LONGEST)])
        self.found.gaps.append(Gap(len(self.found.start), code, reason, raw))
        self.found.start.append(start)
        self.found.end.append(end)
        return end


def _literal_of(value: bytes, backslash: bool) -> bytes:
    """A value of a COPY as a literal."""
    if value == b"\\N":
        return b"NULL"
    if b"\\" in value:
        value = _COPY_ESCAPE.sub(_unescaped, value)
    value = value.replace(b"\\", b"\\\\") if backslash else value
    return b"'" + value.replace(b"'", b"''") + b"'"


def _unescaped(found: re.Match[bytes]) -> bytes:
    octal, digits, sign = found.groups()
    if sign is not None:
        return _COPIED.get(sign, sign)
    return bytes([int(octal, 8) & 0xFF if octal is not None else int(digits, 16)])


_SMALL: Final = 1 << 12  # bytes for which nothing is compiled
_MOST_TABLES: Final = 1000
_MOST_HEADS: Final = 100_000  # statements that are looked at to find the tables


def find_begin(buffer: Bytes, place: int) -> int:
    """Where the first statement with rows begins at or after ``place``, as far as the bytes from there on show; the end
    where there is none."""
    found = INSERT_LINE.search(buffer.data, place)
    while found is not None and found.start() and buffer[found.start() - 1] != 10:
        found = INSERT_LINE.search(buffer.data, found.start() + 1)
    return len(buffer) if found is None else found.start()


def looks_like_dump(head: Bytes, damaged: bool = False) -> bool:
    """Does a file that begins so hold statements, INSERTs among them? Two of them must follow a beginning that is
    neither a statement nor a comment, unless it is known to be ``damaged``."""
    mark = 3 if head[:3].tobytes() == BOM else 0
    with interpreted() if len(head) < _SMALL else nullcontext():
        place, _ = skip_blank(head, mark, len(head))
    wanted = 1 if damaged or begins_like_dump(head, int(place)) else 2
    place = find_begin(head, mark)
    while place < len(head):
        found = _HEAD.match(head.data, place)
        is_insert = found is not None and _VALUES.match(head.data, found.end()) is not None
        if is_insert or _other_rows(head.data, place) is not None:
            wanted -= 1
            if not wanted:
                return True
        place = find_begin(head, place + 1)
    return False


def _other_rows(data: Any, place: int) -> re.Match[bytes] | None:
    """The table and the columns of a COPY, or of the first row of an INSERT ALL, at ``place``."""
    several = _ALL.match(data, place)
    return _COPY.match(data, place) if several is None else _INTO.match(data, several.end())


def inserted_from_select(head: Bytes, charset: str) -> tuple[str, tuple[str, ...] | None] | None:
    """The table of the first INSERT that takes its rows from a SELECT, and the columns that it lists (None: it lists
    none); None where there is no such statement."""
    place = find_begin(head, 0)
    while place < len(head):
        found = _HEAD.match(head.data, place)
        if found is not None and FROM_SELECT.match(head.data, found.end()) is not None:
            return folded_name(found[1], charset), None if found[2] is None else names_of(found[2], charset)
        place = find_begin(head, place + 1)
    return None


def outline(
    buffer: Bytes, charset: str, backslash: bool, most: int, wanted: str | None = None
) -> dict[str, tuple[tuple[str, ...] | None, list[tuple[bytes, ...]]]]:
    """The tables that have rows in a dump, by their folded names: their columns, if statements list them (where they do
    not list the same, those with most rows), and the first ``most`` rows. Of many tables the first thousand are looked
    at, and the one that is ``wanted``."""
    found: dict[str, dict[tuple[str, ...] | None, list[tuple[bytes, ...]]]] = {}
    enough: set[str] = set()
    reader = _DumpReader(buffer, None, charset, backslash, {})
    place, looked = find_begin(buffer, 0), 0
    while place < len(buffer) and looked < _MOST_HEADS:
        looked += 1
        match = _HEAD.match(buffer.data, place) or _other_rows(buffer.data, place)
        table = "" if match is None else folded_name(match[1], charset)
        rest = place + 1
        is_new = table not in found and len(found) >= _MOST_TABLES
        if is_new and (wanted is None or not is_table(table, wanted)):
            table = ""
        if table and table not in enough:
            for end in reader.statement(place):
                rest = end
                if reader.is_full(end):
                    break
            for one in reader.taken().rows.values():
                if not one.values:
                    continue
                rows = found.setdefault(table, {}).setdefault(one.names, [])
                rows += [row for row in one.values[:most] if not rows or len(row) == len(rows[0])]
                if len(rows) >= most or len(found[table]) >= _MOST_LISTS:
                    enough.add(table)
        place = find_begin(buffer, rest)
    return {table: max(lists.items(), key=lambda one: len(one[1])) for table, lists in found.items()}


def written_name(buffer: Bytes, table: str, charset: str) -> str:
    """The name of a table as the first statement with its rows spells it."""
    place = find_begin(buffer, 0)
    while place < len(buffer):
        found = _HEAD.match(buffer.data, place) or _other_rows(buffer.data, place)
        if found is not None and folded_name(found[1], charset) == table:
            return ".".join(names_of(found[1], charset))
        place = find_begin(buffer, place + 1)
    return table


def value_places(record: bytes, charset: str, backslash: bool) -> tuple[tuple[str, ...] | None, list[tuple[int, int]]]:
    """The columns that a row's statement lists (None: it lists none, or the row is not its first), and where its values
    begin and end in its bytes."""
    head, copied = _HEAD.match(record), _COPY.match(record)
    found = head or copied or _INTO.match(record, _after(_ALL, record, 0))
    names, place = None, 0
    if found is not None:
        names = None if found[2] is None else names_of(found[2], charset)
        place = found.end()
    if copied is not None or (found is None and record.lstrip()[:1] != b"("):
        line = record[place:].split(b"\n", 1)[0].rstrip(b"\r")
        edges = [*accumulate((len(value) + 1 for value in line.split(b"\t")), initial=place)]
        return names, [(start, end - 1) for start, end in pairwise(edges)]
    place = record.find(b"(", place)
    if place < 0:
        return names, []
    most = record.count(b",") + 1
    starts, ends = np.empty((2, most), np.int64)
    with interpreted() if len(record) < _SMALL else nullcontext():
        count, _, _ = read_row(np.frombuffer(record, np.uint8), place, len(record), backslash, starts, ends)
    return names, list(zip(starts[:count].tolist(), ends[:count].tolist(), strict=True))
