"""What is in a dump of SQL statements, from a look at some of them (docs/formats/idm-event-log.md §1.5)."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from cdcwb.formats.idm_event_log.sql_dump import BOM, begins_like_dump, segments
from cdcwb.formats.idm_event_log.sql_patterns import BLANK, FROM_SELECT, INSERT_LINE, folded_name, names_of, patterns

__all__ = ["find_begin", "inserted_from_select", "looks_like_dump", "outline", "value_places"]

Bytes = npt.NDArray[np.uint8]

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
