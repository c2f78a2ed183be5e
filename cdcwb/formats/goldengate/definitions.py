"""Definitions of tables and databases, their text in Metadata records and DEFGEN files, and which of them is in force
at a record (docs/formats/goldengate.md §5.2 and §7).

Both have the same text from ``Definition for table`` to ``End of definition``, with a row for each column: its name and
18 to 23 numbers, depending on the release. Names may contain blanks, quotes and digits, so rows are parsed from their
right end. Records find their version by the index of the definition in their trail file, else by the name of their
table.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import dropwhile
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdcwb.errors import OptionError
from cdcwb.formats import options as opt
from cdcwb.formats.arrays import label
from cdcwb.formats.columns import TableColumn, TableVersion
from cdcwb.formats.goldengate.layout import BINARY_SUBTYPE, MISSING, Coding, How, coding_of, is_known, type_name
from cdcwb.formats.kernels import Ints
from cdcwb.formats.source import open_file
from cdcwb.model import Problem
from cdcwb.words import unique_names, unused_name

_DATE, _CLOCK = 10, 19  # characters of a date, and of one with its time
_DT_YEAR, _DT_DAY, _DT_HOUR = 0, 2, 3
_QUOTED: Final = re.compile(r'"(?:[^"]|"")*"|[^."]+|(?<=\.)(?=\.)')
GUARDIAN: Final = re.compile(r"(?:\\[A-Za-z]\w*\.)?\$[A-Za-z]\w*\.[A-Za-z#]\w*\.[A-Za-z]\w*", re.ASCII)
"""Name of a Guardian file (NonStop): node, volume, subvolume and file (§4.8)."""

_ORACLE_BINARY_LOBS: Final = frozenset({113, 114})  # BLOB, BFILE


@dataclass(frozen=True, slots=True)
class ColumnDef:
    """One column. ``ordinal`` counts from 1 (a column's index in a record, from 0). The other numbers are those of its
    row that are used, by :data:`_NUMBERS`; None if the row has fewer. ``key_position`` counts from 1 through the
    columns whose key number is not 0, None outside the key. ``numbers``: all of its row."""

    ordinal: int
    name: str
    data_type: int
    external_length: int = 0
    scale: int = 0
    null: int = 0
    most_significant_dt: int = 0
    least_significant_dt: int = 0
    sub_data_type: int | None = None
    native_data_type: int | None = None
    lob_type: int | None = None
    key_position: int | None = None
    numbers: tuple[int, ...] = ()

    @property
    def is_lob(self) -> bool:
        """Whether the column is a large object, whose value is in separate records."""
        return bool(self.lob_type)

    @property
    def is_text_lob(self) -> bool:
        """Whether it is a large object of characters, by the sub type (binary) and Oracle's own type codes."""
        return self.is_lob and self.sub_data_type != BINARY_SUBTYPE and self.native_data_type not in _ORACLE_BINARY_LOBS

    @property
    def type(self) -> str:
        """The type code with its name."""
        return type_name(self.data_type, self.sub_data_type or 0)

    @property
    def coding(self) -> Coding:
        """How values are written in a record."""
        return coding_of(self.data_type, self.sub_data_type or 0, self.external_length, self.scale, self.is_lob)

    @property
    def arrow_type(self) -> pa.DataType:
        """The type of the column in typed tables. Numbers in text form stay text, as their precision is unknown; so do
        times of day, intervals, and times with a zone."""
        how = self.coding
        match how.how:
            case How.INTEGER if how.scale > 0:
                return pa.decimal128(max({2: 5, 4: 10}.get(how.size, 20), how.scale), how.scale)
            case How.INTEGER if how.scale < 0 or (how.size == 8 and not how.signed):
                return pa.decimal128(38, 0)
            case How.INTEGER:
                return pa.int32() if how.size < 4 or (how.size == 4 and how.signed) else pa.int64()
            case How.FLOAT:
                return pa.float32() if how.size == 4 else pa.float64()
            case How.BINARY:
                return pa.binary()
            case How.LOB if not self.is_text_lob:
                return pa.binary()
            case How.MOMENT if self.data_type in (191, 192) and self.most_significant_dt == _DT_YEAR:
                if self.external_length == _DATE or (0 < self.least_significant_dt <= _DT_DAY):
                    return pa.date32()
                if self.least_significant_dt >= _DT_HOUR and self.external_length <= _CLOCK + 10:
                    return pa.timestamp("us")
        return pa.string()


_NUMBERS: Final = {
    "data_type": 0, "external_length": 1, "scale": 3, "null": 5, "most_significant_dt": 10, "least_significant_dt": 11,
    "key_column": 16, "sub_data_type": 17, "native_data_type": 18, "lob_type": 21,
}  # fmt: skip
"""The places of numbers in a row. The first 18 are in every release; missing ones are None."""
_FEWEST, _MOST = 18, 23  # numbers of a row


@dataclass(frozen=True)
class Definition:
    """A table's columns. ``text``: the definition's own lines. ``problems``: its errors; valid rows are decoded
    anyway."""

    schema: str | None
    table: str
    columns: tuple[ColumnDef, ...]
    text: str = ""
    problems: tuple[tuple[Problem, str], ...] = ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names by column index, all different: one that repeats gets ``#2``, ``#3``."""
        return unique_names([column.name for column in self.columns])

    def name(self, index: int) -> str:
        """The name of the column with this index, from 0; ``c3`` for one that is not defined, made unique."""
        return self.names[index] if 0 <= index < len(self.names) else unused_name(f"c{index}", self.names)

    def column(self, index: int) -> ColumnDef | None:
        """The column with this index, from 0; None after the last."""
        return self.columns[index] if 0 <= index < len(self.columns) else None

    @cached_property
    def described(self) -> list[TableColumn]:
        """The columns as table versions have them, with different names."""
        described = enumerate(zip(self.names, self.columns, strict=True), 1)
        return [
            TableColumn(at, name, one.type, one.external_length, None, one.scale, one.key_position, one.null != 0)
            for at, (name, one) in described
        ]

    def same_columns(self, other: Definition) -> bool:
        """Whether the other defines the same columns of the same table."""
        return (self.schema, self.table, self.columns) == (other.schema, other.table, other.columns)


@dataclass(frozen=True)
class Database:
    """The definition of a database. ``facts``: database name and type, character sets, locale and time zone by name,
    without missing ones."""

    facts: dict[str, str]


@dataclass(frozen=True)
class Reference:
    """A Metadata record by which a table has the columns of an earlier definition with this index: its own, or that of
    another table."""

    schema: str | None
    table: str
    index: int
    text: str = ""


def split_name(name: str) -> tuple[str | None, str]:
    """Schema and table of a name, split at the last dot outside quotes, without the quotes: ``PDB.OWNER.TABLE`` is
    ``PDB.OWNER`` and ``TABLE``. The schema is None without a dot."""
    parts = [unquoted(part) for part in _QUOTED.findall(one_case(name.strip()))]
    if not parts:
        return None, name.strip()
    return ".".join(parts[:-1]) or None, parts[-1]


@lru_cache(maxsize=4096)
def names_of(text: str | None) -> tuple[str | None, str | None]:
    """Schema and table (:func:`split_name`); None without a name."""
    return split_name(text) if text else (None, None)


def one_case(name: str) -> str:
    """The name; one of a Guardian file (NonStop) in capitals, since such names are not case-sensitive (§4.8)."""
    return name.upper() if name.startswith(("\\", "$")) and GUARDIAN.fullmatch(name) else name


def unquoted(name: str) -> str:
    """A name without the quotes around it."""
    name = name.strip()
    if len(name) >= 2 and name[0] == name[-1] == '"':
        return name[1:-1].replace('""', '"')
    return name


_NO_TYPE: Final = -1
"""Data type of a row that could not be read."""

_NUMBER: Final = re.compile(r"-?\d{1,18}")
_WORD: Final = re.compile(r"\S+")
_RUN: Final = re.compile(f"n{{{_FEWEST},}}")
_START: Final = re.compile(r"^[^\S\n]*Definition for table[^\S\n]+(\S.*?)[^\S\n]*$", re.MULTILINE)
_END: Final = re.compile(r"^[^\S\n]*End of definition\b", re.MULTILINE | re.IGNORECASE)
_STATED: Final = re.compile(r"^\s*Columns\s*:\s*(\d{1,9})\s*$", re.MULTILINE | re.IGNORECASE)
_PAIR: Final = re.compile(r"\s*([A-Za-z][A-Za-z ]*?)\s*:[ \t]*(.*?)\s*$")
_TABLE: Final = re.compile(r"^\s*Table Name:\s*(\S.*?)\s*(?:\(Ref TDR Index:\s*(\d+)\)\s*)?$", re.MULTILINE)
_DATABASE: Final = re.compile(r"^\s*(?:Database Name|DDR Version|Database type)\s*:", re.MULTILINE)
_LEGEND: Final = re.compile(r"^\s*\*\s+(\d+)\s+[A-Z]|(?<!\S)(\d+)\)[A-Z]", re.MULTILINE)
_FACTS: Final = {
    "database name": "database name",
    "database type": "database type",
    "character set id": "character set",
    "national character set id": "national character set",
    "locale": "locale",
    "timezone": "time zone",
}
"""Facts of a database by the names of their lines, in lower case."""


def _numbers(line: str) -> list[re.Match[str]]:
    """The words of the last run of numbers in a row that is long enough, without its first word, which is a name; empty
    for another line."""
    words = list(_WORD.finditer(line))
    runs = list(_RUN.finditer("".join("n" if _NUMBER.fullmatch(word[0]) else " " for word in words), 1))
    return words[slice(*runs[-1].span())] if runs else []


def _columns(rows: list[str], legend: int) -> tuple[list[ColumnDef], list[int]]:
    """The columns of rows, and the indexes of rows that are not columns; these keep their index, by which values refer
    to columns. ``legend``: how many numbers a row has, 0 if it is not known: then as many as the shortest row."""
    found = [_numbers(row) for row in rows]
    width = min([_MOST, *filter(None, map(len, found)), *([legend] if legend >= _FEWEST else [])])
    names = [unquoted(row[: run[-width].start()]) if run else "" for row, run in zip(rows, found, strict=True)]
    columns: list[ColumnDef] = []
    keys = 0
    for index, (name, run) in enumerate(zip(names, found, strict=True)):
        numbers = [int(word[0]) for word in run[-width:]] or [_NO_TYPE]
        used: dict[str, Any] = {what: numbers[at] for what, at in _NUMBERS.items() if at < len(numbers)}
        is_key = bool(used.pop("key_column", 0))
        keys += is_key
        name = name if run else unused_name(f"c{index}", names)
        columns.append(ColumnDef(index + 1, name, **used, key_position=keys if is_key else None, numbers=(*numbers,)))
    return columns, [index for index, run in enumerate(found) if not run]


def _definition(name: str, body: str, legend: int) -> Definition:
    """A definition from the text that follows its name."""
    end = _END.search(body)
    body = body[: end.start()] if end else body.rstrip("\n")
    lines = [line for line in body.splitlines() if line.strip() and not line.lstrip().startswith("*")]
    rows = list(dropwhile(lambda line: _PAIR.match(line) and not _numbers(line), lines))  # heads precede them
    columns, invalid = _columns(rows, legend)
    wrong = (f"row {at + 1} of the definition of {name} is not a column: {rows[at].strip()}" for at in invalid)
    problems = [(Problem.SCHEMA_TEXT, sentence) for sentence in wrong]
    for one in columns:
        if one.data_type != _NO_TYPE and not is_known(one.data_type):
            sentence = f"column {one.name} of {name} has the data type {one.data_type}, whose encoding is unknown"
            problems.append((Problem.UNKNOWN_TYPE, sentence))
    if not end:
        problems.append((Problem.TRUNCATED, f"the definition of {name} has no end"))
    stated = _STATED.search(body)
    if stated and int(stated[1]) != len(columns):
        sentence = f"the definition of {name} has {len(columns)} rows for {stated[1]} columns"
        problems.append((Problem.SCHEMA_MISMATCH, sentence))
    if not columns:
        problems.append((Problem.SCHEMA_TEXT, f"the definition of {name} has no columns"))
    repeated = next((one for one, count in Counter(column.name for column in columns).items() if count > 1), None)
    if repeated is not None:
        problems.append((Problem.SCHEMA_TEXT, f"the definition of {name} has the column {repeated} more than once"))
    text = f"Definition for table {name}{body}{'End of definition' if end else ''}"
    return Definition(*split_name(name), tuple(columns), text, tuple(problems))


def parse_defgen(text: str) -> list[Definition]:
    """The definitions of a DEFGEN file, in order; empty if it has none."""
    text = "\n".join(text.splitlines())
    named = (int(one or other) - 1 for one, other in _LEGEND.findall(text))  # the first is the name
    legend = max((number for number in named if number <= _MOST), default=0)
    _, *parts = _START.split(text)
    return [_definition(name, body, legend) for name, body in zip(parts[::2], parts[1::2], strict=True)]


def read_definitions(paths: Iterable[str], charset: str = "utf-8") -> list[Definition]:
    """The definitions of DEFGEN files. Raises OptionError for a file that cannot be read, or has none."""
    found: list[Definition] = []
    for path in paths:
        try:
            with open_file(path) as file:
                text = file.read().decode(charset, "replace")
        except OSError as reason:
            raise OptionError(f"option definitions: {path!r} cannot be read ({opt.reason_of(reason)})") from None
        some = parse_defgen(text)
        if not some:
            raise OptionError(f"option definitions: {path!r} has no `Definition for table`")
        found += some
    return found


def parse_metadata(text: str) -> Definition | Database | Reference | None:
    """The content of a Metadata record, from its lines: a table's definition, a reference to one, or a database's; None
    for others (another display format of Logdump)."""
    definitions = parse_defgen(text)
    if definitions:
        return replace(definitions[0], text=text)
    named = _TABLE.search(text)
    if named and named[2]:
        return Reference(*split_name(named[1]), int(named[2]), text)
    if _DATABASE.search(text):
        pairs = [(pair[1].lower(), pair[2]) for line in text.splitlines() if (pair := _PAIR.match(line))]
        stated = dict(reversed(pairs))  # the first line counts
        return Database({fact: stated[name] for name, fact in _FACTS.items() if stated.get(name)})
    if named:
        sentence = f"the definition of {named[1]} is not shown"
        return Definition(*split_name(named[1]), (), text, ((Problem.TRUNCATED, sentence),))
    return None


# --- versions ---------------------------------------------------------------------------------------------------------

INFERRED: Final = "inferred"
RECORD_VERSION: Final = "record"
SIDE_FILE: Final = "side file"

Name = tuple[str | None, str]


def last_part(path: str) -> str:
    """The name of a file without its folders, whatever system the path is of."""
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1]


@dataclass(frozen=True, slots=True)
class TrailFile:
    """A trail file. ``trail``: the common key of all files of its trail; ``order``: its index among them; ``shown``:
    its number in positions, 0 if unknown; ``name``: its path, None if unknown."""

    trail: str
    order: int
    shown: int = 0
    name: str | None = None


@dataclass(frozen=True, slots=True)
class MetadataText:
    """A Metadata record: its content, and its locations in the stream, in the capture and, with the name of the file,
    in its trail. ``index``: MISSING if none is printed."""

    text: str
    at: int
    file_index: int
    offset: int
    length: int
    index: int
    trail: TrailFile = TrailFile("", 0)
    file_name: str = ""


@dataclass(slots=True)
class Version(TableVersion):
    """One version of a table. ``definition`` is None if only the number of its columns is known."""

    definition: Definition | None = None

    @property
    def name(self) -> Name:
        """Schema and table."""
        assert self.table_name is not None
        return self.schema_name, self.table_name

    @property
    def types(self) -> dict[str, pa.DataType]:
        """The types of its columns in typed tables: text without a definition."""
        columns = self.definition.columns if self.definition is not None else [None] * len(self.columns)
        types = (pa.string() if one is None else one.arrow_type for one in columns)
        return dict(zip((one.name for one in self.columns), types, strict=True))


@dataclass(frozen=True, slots=True)
class InForce:
    """From byte ``at`` of the stream on, the definition ``index`` in a trail file is version ``number``."""

    trail: str
    order: int
    index: int
    at: int
    number: int


class Lookup:
    """The versions of the tables of a capture, and which of them is in force at a record. ``entries``: in the order of
    the stream; ``places``: the version that a Metadata record defines or repeats, by file index and offset."""

    def __init__(self, texts: Iterable[MetadataText] = (), beside: Iterable[Definition] = ()) -> None:
        """``texts``: those of a trail are in order; ``beside``: the definitions of a DEFGEN file."""
        self.versions: list[Version] = []
        self.entries: list[InForce] = []
        self.places: dict[tuple[int, int], int] = {}
        self._by_prefix: defaultdict[str, list[int]] = defaultdict(list)
        self._keys: set[str] = set()
        lineages: dict[str, dict[str, str]] = {}  # by trail
        # the last version of an index in a trail file, of a table and index in a trail, and of a table in a trail
        latest: dict[tuple[object, ...], int] = {}
        # every file of a trail repeats its definitions: versions share what is equal, so that a plan has it once
        parsed: dict[str, Definition | Database | Reference | None] = {}
        for one in texts:
            if one.text not in parsed:
                parsed[one.text] = parse_metadata(one.text)
            found, trail, index = parsed[one.text], one.trail, one.index
            if isinstance(found, Database):
                lineages[trail.trail] = found.facts
            if not isinstance(found, Definition | Reference):
                continue
            own: str | None = None
            lineage = lineages.get(trail.trail, {})
            if isinstance(found, Definition):
                index = 0 if index == MISSING else index
                own, definition = str(index), found
            else:
                # the definition with its index in the same trail file, else one of its table in an earlier file
                name: Name = (found.schema, found.table)
                keys = (trail.trail, trail.order, found.index), (trail.trail, name, found.index), (trail.trail, name)
                number = next((latest[key] for key in keys if key in latest), -1)
                if number < 0:
                    continue
                version = self.versions[number]
                if version.name == name:
                    index = found.index if index == MISSING else index
                else:
                    index = MISSING if index == found.index else index  # the header may repeat it (§5.2)
                    own = label(*name) if index == MISSING else str(index)
                    lineage = {**version.lineage, "definition of": f"{version.full_name} ({version.table_version})"}
                    assert version.definition is not None
                    text = f"{found.text}\n{version.definition.text}"
                    definition = replace(version.definition, schema=found.schema, table=found.table, text=text)
            if own is not None:
                prefix = f"{own}@{last_part(trail.name or one.file_name)}"
                number = self._add(prefix, definition, RECORD_VERSION, lineage, one)
            self.places[one.file_index, one.offset] = number
            if latest.get((trail.trail, trail.order, index)) != number:
                self.entries.append(InForce(trail.trail, trail.order, index, one.at, number))
            name = self.versions[number].name
            places = (trail.trail, trail.order, index), (trail.trail, name, index), (trail.trail, name)
            latest |= dict.fromkeys(places, number)
        for definition in beside:
            self._add(label(definition.schema, definition.table), definition, SIDE_FILE, {})
        self._index()

    def _add(
        self, prefix: str, definition: Definition, origin: str, lineage: dict[str, str], of: MetadataText | None = None
    ) -> int:
        """The number of the version with this prefix of its key and these columns, which is created if missing. Other
        columns with the same prefix get ``#2``, ``#3``; those of side files ``@1``, ``@2``."""
        known = self._by_prefix[prefix]
        for number in known:
            same = self.versions[number].definition
            if same is not None and same.same_columns(definition):
                return number
        key = unused_name(prefix if origin == RECORD_VERSION else f"{prefix}@{len(known) + 1}", self._keys)
        self._keys.add(key)
        known.append(len(self.versions))
        made = Version(key, definition.schema, definition.table, definition.described, origin, definition.text, lineage)
        made.definition = definition
        if of is not None:
            made.file_index, made.offset, made.length = of.file_index, of.offset, of.length
        self.versions.append(made)
        return known[-1]

    def infer(self, widths: dict[str, int]) -> None:
        """Adds versions of tables of which only the number of columns is known, by their printed names."""
        for name, width in widths.items():
            schema, table = split_name(name)
            key = f"{label(schema, table)}@1"
            if key not in {one.table_version for one in self.versions}:
                columns = [TableColumn(index + 1, f"c{index}") for index in range(width)]
                self.versions.append(Version(key, schema, table, columns, INFERRED))
        self._index()

    def _index(self) -> None:
        self.entries.sort(key=lambda one: one.at)
        self._by_index: defaultdict[tuple[str, int, int], list[InForce]] = defaultdict(list)
        self._by_name: defaultdict[Name, list[InForce]] = defaultdict(list)
        for entry in sorted(self.entries, key=lambda one: (one.trail, one.order, one.at)):
            self._by_index[entry.trail, entry.order, entry.index].append(entry)
            self._by_name[self.versions[entry.number].name].append(entry)
        others = [(one.name, at) for at, one in enumerate(self.versions) if one.origin != RECORD_VERSION]
        others.reverse()  # the first of a name counts
        self._other = {_lower(name): number for name, number in others} | dict(others)

    def defined(self, name: str) -> bool:
        """Whether there is a definition of the table with this (printed) name."""
        split = split_name(name)
        return split in self._by_name or self._otherwise(split) >= 0

    def _otherwise(self, name: Name) -> int:
        return self._other.get(name, self._other.get(_lower(name), -1))

    def in_force(self, trail: TrailFile, index: int, name: str | None, at: Ints) -> Ints:
        """The version of each record of one table in a trail file, -1 without one: by its index, else by its name the
        last definition before the record in its trail, else the first one after it, else one of another trail, else
        one of a DEFGEN file. ``index``: MISSING if no index of a definition is printed; ``name``: None or empty if no
        name is; then the first definition of the index is in force before it, too."""
        indexed = self._by_index.get((trail.trail, trail.order, index), []) if index != MISSING else []
        if not name:
            return _latest(indexed, at, np.int64(indexed[0].number if indexed else -1))
        split = split_name(name)
        indexed = [one for one in indexed if self.versions[one.number].name == split]
        if indexed and indexed[0].at <= at.min():
            return _latest(indexed, at, np.int64(-1))
        named = self._by_name.get(split, [])
        same = [one for one in named if one.trail == trail.trail]
        earlier = [one for one in same if one.order < trail.order]
        other = next((some[0].number for some in (earlier[-1:], same, named) if some), self._otherwise(split))
        by_name = _latest([one for one in same if one.order == trail.order], at, np.int64(other))
        return _latest(indexed, at, by_name)


def _lower(name: Name) -> Name:
    return (name[0] or "").lower(), name[1].lower()


def _latest(entries: Sequence[InForce], at: Ints, otherwise: Ints | np.int64) -> Ints:
    """The last of some entries that begins at or before each offset, else ``otherwise``."""
    if not entries:
        return np.full(len(at), otherwise)
    which = np.searchsorted([one.at for one in entries], at, side="right") - 1
    return np.where(which < 0, otherwise, np.array([one.number for one in entries])[which])
