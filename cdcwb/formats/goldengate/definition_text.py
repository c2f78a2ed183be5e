"""Table definitions as text: Metadata records of a trail and DEFGEN files (docs/formats/goldengate.md §5.2).

Both have the same rows: a column's name and a run of numbers, 18 to 23 of them by the release that wrote them. Names
may hold blanks, quotes and digits, so rows are read from their right end.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from cdcwb.formats.goldengate.datatypes import is_known
from cdcwb.formats.goldengate.definitions import (
    NUMBERS,
    Database,
    Definition,
    Reference,
    columns_of,
    split_name,
    unquoted,
)
from cdcwb.model import Problem
from cdcwb.unique_names import unused_name

__all__ = ["parse_defgen", "parse_metadata"]

_NO_TYPE: Final = -1
"""Data type of a row that could not be read."""

_FEWEST: Final = 18
_NUMBER: Final = re.compile(r"-?\d+")
_WORD: Final = re.compile(r"\S+")
_START: Final = re.compile(r"\s*Definition for table\s+(\S.*?)\s*$")
_END: Final = re.compile(r"\s*End of definition\b", re.IGNORECASE)
_PAIR: Final = re.compile(r"\s*([A-Za-z][A-Za-z ]*?)\s*:[ \t]*(.*?)\s*$")
_REFERENCE: Final = re.compile(r"^\s*Table Name:\s*(\S.*?)\s*\(Ref TDR Index:\s*(\d+)\)\s*$", re.MULTILINE)
_TABLE: Final = re.compile(r"^\s*Table Name:\s*(\S.*?)\s*$", re.MULTILINE)
_DATABASE: Final = re.compile(r"^\s*(?:Database Name|DDR Version|Database type)\s*:", re.MULTILINE)
_VERSION: Final = re.compile(r"^\s*(?:TDR version:\s*|\*\+- Defgen version\s+)([0-9.]+)", re.MULTILINE | re.IGNORECASE)
_LEGEND: Final = re.compile(r"^\s*\*\s+(\d+)\s+[A-Z]|(?<!\S)(\d+)\)[A-Z]", re.MULTILINE)


def _tail(line: str) -> tuple[int, int]:
    """Of a row: the first and last+1 word of its last run of numbers that is long enough; (0, 0) if there is none."""
    words = _WORD.findall(line)
    stop = len(words)
    while stop:
        start = stop
        while start and _NUMBER.fullmatch(words[start - 1]):
            start -= 1
        if stop - start >= _FEWEST:
            return start, stop
        stop = start - 1 if start == stop else start
    return 0, 0


def _width(lines: Sequence[str], legend: int) -> int:
    """How many numbers the rows have: as many as the legend names (if it does), else as the shortest run allows."""
    runs = []
    for line in lines:
        start, stop = _tail(line)
        if stop > start:
            runs.append(min(stop - start, stop - 1))
    most = min([*runs, len(NUMBERS)], default=len(NUMBERS))
    return min(legend, most) if legend >= _FEWEST else most


def _row(line: str, width: int) -> tuple[str, list[int]] | None:
    """Name and numbers of a row; None if it is none."""
    start, stop = _tail(line)
    if stop - start < width:
        return None
    words = list(_WORD.finditer(line))
    first = max(stop - width, 1)
    if stop - first < min(width, _FEWEST):
        return None
    name = unquoted(line[: words[first].start()].strip())
    return name, [int(word.group()) for word in words[first:stop]]


def _definition(name: str, lines: Sequence[str], ended: bool, version: str | None, legend: int) -> Definition:
    """A definition from the lines behind ``Definition for table``, up to its end."""
    schema, table = split_name(name)
    problems: list[tuple[Problem, str]] = []
    heads: dict[str, str] = {}
    rows: list[str] = []
    for line in lines:
        pair = _PAIR.match(line)
        if pair and not rows and _tail(line) == (0, 0):
            heads[pair[1].lower()] = pair[2]
        elif line.strip() and not line.lstrip().startswith("*"):
            rows.append(line)
    width = _width(rows, legend)
    good: list[tuple[str, list[int]]] = []
    read = [_row(line, width) for line in rows]
    names = {row[0] for row in read if row is not None}
    for number, (line, row) in enumerate(zip(rows, read, strict=True), 1):
        if row is None:
            problems.append(
                (Problem.SCHEMA_TEXT, f"row {number} of the definition of {name} is not a column: {line.strip()}")
            )
            unnamed = unused_name(f"c{number - 1}", names)
            good.append((unnamed, [_NO_TYPE]))  # keeps its index, by which values name the later columns
        else:
            good.append(row)
    columns = columns_of(good)
    for column in columns:
        if column.data_type != _NO_TYPE and not is_known(column.data_type):
            sentence = f"column {column.name} of {name} has the data type {column.data_type}, whose encoding is unknown"
            problems.append((Problem.UNKNOWN_TYPE, sentence))
    stated = _whole_number(heads.get("columns"))
    if not ended:
        problems.append((Problem.TRUNCATED, f"the definition of {name} has no end"))
    if stated is not None and stated != len(columns):
        sentence = f"the definition of {name} has {len(columns)} rows for {stated} columns"
        problems.append((Problem.SCHEMA_MISMATCH, sentence))
    if not columns:
        problems.append((Problem.SCHEMA_TEXT, f"the definition of {name} has no columns"))
    repeated = next((one for one, count in Counter(column.name for column in columns).items() if count > 1), None)
    if repeated is not None:
        problems.append((Problem.SCHEMA_TEXT, f"the definition of {name} has the column {repeated} more than once"))
    text = "\n".join([f"Definition for table {name}", *lines, *(["End of definition"] if ended else [])])
    length = _whole_number(heads.get("record length"))
    return Definition(schema, table, columns, length, version, text, tuple(problems))


def _whole_number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() and len(text) < 10 else None


def _definitions(text: str) -> list[Definition]:
    found = _VERSION.search(text)
    version = found[1] if found else None
    named = (int(one or other) - 1 for one, other in _LEGEND.findall(text))  # the first is the name
    legend = max((number for number in named if number <= len(NUMBERS)), default=0)
    out: list[Definition] = []
    name: str | None = None
    lines: list[str] = []
    for line in text.splitlines():
        start = _START.match(line)
        if start:
            if name is not None:
                out.append(_definition(name, lines, False, version, legend))
            name, lines = start[1], []
        elif name is not None and _END.match(line):
            out.append(_definition(name, lines, True, version, legend))
            name = None
        elif name is not None:
            lines.append(line)
    if name is not None:
        out.append(_definition(name, lines, False, version, legend))
    return out


def parse_defgen(text: str) -> list[Definition]:
    """The definitions of a DEFGEN file, in its order; empty if it has none."""
    return _definitions(text)


def parse_metadata(text: str) -> Definition | Database | Reference | None:
    """What a Metadata record says, from its lines: a table's definition, a reference to one, or a database's; None if
    it is none of these (another display format of Logdump)."""
    definitions = _definitions(text)
    if definitions:
        return replace(definitions[0], text=text)
    reference = _REFERENCE.search(text)
    if reference:
        schema, table = split_name(reference[1])
        return Reference(schema, table, int(reference[2]), text)
    if _DATABASE.search(text):
        return _database(text)
    table_name = _TABLE.search(text)
    if table_name:
        schema, table = split_name(table_name[1])
        sentence = f"the definition of {table_name[1]} is not shown"
        return Definition(schema, table, (), text=text, problems=((Problem.TRUNCATED, sentence),))
    return None


def _database(text: str) -> Database:
    fields: dict[str, str] = {}
    for line in text.splitlines():
        pair = _PAIR.match(line)
        if pair and not line.lstrip().startswith("*"):
            fields.setdefault(pair[1], pair[2])
    by_name = {name.lower(): value or None for name, value in fields.items()}
    return Database(
        by_name.get("database name"),
        by_name.get("database type"),
        by_name.get("character set id"),
        by_name.get("national character set id"),
        by_name.get("locale"),
        by_name.get("timezone"),
        by_name.get("ddr version"),
        fields,
        text,
    )
