"""What is in force at a record: its trail file, the zone of its printed time and the version of its table
(docs/formats/goldengate.md §3.7, §5.2 and §7).

Logdump prints the name of a trail file when it opens it, and a trail file begins with its header. The records between
two such locations are a *section*. Sections, definitions and zones are found in the first pass, by their offsets in the
stream of all files of the capture. Records find theirs by the index of the definition in their trail file, else by the
name of their table.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Final

import numpy as np

from cdcwb.formats.arrays import Ints
from cdcwb.formats.goldengate.contents import MISSING
from cdcwb.formats.goldengate.definitions import Database, Definition, Reference, full_name, parse_metadata, split_name
from cdcwb.model import COLUMN
from cdcwb.words import unused_name

__all__ = [
    "InForce", "Lookup", "MetadataText", "Section", "TrailFile", "Version", "ZoneOffsetSpan", "build_versions",
    "inferred", "nearest_offsets", "shown_offsets", "split_path", "trail_files",
]  # fmt: skip


_NUMBER: Final = re.compile(r"[0-9]+$")
_LONG, _SHORT = 9, 6  # digits of a trail file's number, since 12.3 and before


def last_part(path: str) -> str:
    """The name of a file without its folders, whatever system the path is of."""
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1]


def split_path(path: str) -> tuple[str, int | None]:
    """The path without the trail file's number, and the number: the last nine or six digits of the name, or all of
    them. None if the name does not end with a digit."""
    found = _NUMBER.search(last_part(path))
    if found is None:
        return path, None
    digits = found[0]
    size = next((size for size in (_LONG, _SHORT) if len(digits) >= size), len(digits))
    return path[: len(path) - size], int(digits[-size:])


@dataclass(slots=True)
class Section:
    """Records of one trail file, from byte ``at`` of the stream on. ``file``: index of the capture's file; ``is_new``:
    whether it begins there, or continues the section before. ``name``, ``sequence``: path and number of the trail file,
    if the text or its header gives them. ``header``: the identity of its file header, if the section begins with one.
    ``first``, ``last``, ``next``: RBA of its first and last record, and that after the last one; MISSING if unknown.
    ``is_rising``: the RBA of each record is higher than that of the one before."""

    at: int
    file: int
    is_new: bool = True
    name: str | None = None
    sequence: int | None = None
    header: str | None = None
    first: int = MISSING
    last: int = MISSING
    lowest: int = MISSING
    highest: int = MISSING
    next: int = MISSING
    is_rising: bool = True
    count: int = 0


@dataclass(frozen=True, slots=True)
class TrailFile:
    """A trail file. ``trail``: the common key of all files of its trail; ``order``: its index among them; ``shown``:
    its number in positions, 0 if unknown; ``name``: its path, None if unknown."""

    trail: str
    order: int
    shown: int = 0
    name: str | None = None


def trail_files(sections: Sequence[Section], first: int | None) -> list[TrailFile]:
    """The trail file of each section, in the order of the stream. ``first``: number of the first trail file with an
    unknown number; None: such files have no number."""
    out: list[TrailFile] = []
    unknown, header = -1, None
    now: TrailFile | None = None
    last: Section | None = None  # the latest one with records
    for one in sections:
        is_named = one.sequence is not None or one.name is not None
        if now is not None and (not one.is_new or (not is_named and _is_continued(now, one, last, header))):
            pass
        elif one.sequence is not None:
            trail = split_path(one.name)[0] if one.name else now.trail if now is not None and now.name else ""
            now = TrailFile(trail, one.sequence, one.sequence, one.name)
        elif one.name is not None:
            now = TrailFile(one.name, 0, 0, one.name)
        elif now is not None and now.name and one.header and last is not None and last.file == one.file:
            now = _following(now, now.name)
        else:
            unknown += 1
            number = 0 if first is None else first + unknown
            now = TrailFile("", unknown if first is None else number, number)
        header = one.header or header
        if one.first != MISSING or one.header is not None:
            last = one
        out.append(now)
    return out


def _is_continued(now: TrailFile, one: Section, last: Section | None, header: str | None) -> bool:
    """Whether a section without a name is of the trail file before it: the same header again, or the next records."""
    if last is not None and last.file == one.file:
        return one.header is None or one.header == header
    if one.header is not None or last is None or last.last == MISSING or one.first <= last.last:
        return False
    return one.first == last.next or (now.name is None and last.next == MISSING)


def _following(now: TrailFile, name: str) -> TrailFile:
    """The file that follows in a trail."""
    stem, number = split_path(name)
    if number is None:
        return TrailFile(now.trail, now.order + 1)
    return TrailFile(now.trail, number + 1, number + 1, f"{stem}{number + 1:0{len(name) - len(stem)}d}")


_MINUTE: Final = 60_000_000
_QUARTER: Final = 15 * _MINUTE
_FURTHEST: Final = 26 * 60 * _MINUTE


@dataclass(frozen=True, slots=True)
class ZoneOffsetSpan:
    """All records from byte ``first`` to byte ``last`` of a file that show an offset show this one (microseconds; local
    time less UTC)."""

    first: int
    last: int
    offset: int


def shown_offsets(start: Ints, moment: Ints, julian: Ints) -> list[ZoneOffsetSpan]:
    """The UTC offsets from records with both a printed time and UTC, in order (``start`` ascends). An offset is a whole
    number of quarters of an hour, within a minute; other differences are ignored.
    """
    both = np.flatnonzero((moment != MISSING) & (julian != MISSING))
    raw = moment[both] - julian[both]
    offset = (raw + _QUARTER // 2) // _QUARTER * _QUARTER
    good = (np.abs(raw - offset) < _MINUTE) & (np.abs(offset) <= _FURTHEST)
    both, offset = both[good], offset[good]
    first = np.flatnonzero(np.diff(offset, prepend=MISSING))
    last = np.flatnonzero(np.diff(offset, append=MISSING))
    return [
        ZoneOffsetSpan(*map(int, one)) for one in zip(start[both[first]], start[both[last]], offset[first], strict=True)
    ]


def nearest_offsets(start: Ints, shown: Sequence[ZoneOffsetSpan]) -> Ints:
    """The offset that the nearest record to each byte shows; there must be one."""
    halfway = [(one.last + other.first) // 2 for one, other in pairwise(shown)]
    found: Ints = np.array([one.offset for one in shown])[np.searchsorted(halfway, start)]
    return found


INFERRED: Final = "inferred"
RECORD: Final = "record"
SIDE_FILE: Final = "side file"


@dataclass
class Version:
    """One version of a table. ``key`` is its table_version, ``names`` are those of its columns by their index;
    ``definition`` is None if only these are known. ``file_index`` -1: it has no event."""

    key: str
    schema: str | None
    table: str
    names: list[str]
    origin: str
    definition: Definition | None = None
    lineage: dict[str, str] = field(default_factory=dict)
    file_index: int = -1
    offset: int = -1
    length: int = -1

    @property
    def full_name(self) -> str:
        """``schema.table``, or ``table``."""
        return full_name(self.schema, self.table)

    @property
    def columns(self) -> list[dict[str, Any]]:
        """The columns as rows of :data:`cdcwb.model.COLUMN`."""
        if self.definition is not None:
            return self.definition.to_columns()
        unknown = dict.fromkeys(one.name for one in COLUMN)
        return [{**unknown, "ordinal": at, "name": name} for at, name in enumerate(self.names, 1)]

    def to_row(self) -> dict[str, Any]:
        """As a row of :data:`cdcwb.model.TABLE_VERSIONS`, without ``first_position``."""
        location = {"file_index": self.file_index, "offset": self.offset, "length": self.length}
        return {
            "table_version": self.key,
            "schema_name": self.schema,
            "table_name": self.table,
            "first_event": location if self.file_index >= 0 else None,
            "columns": self.columns,
            "origin": self.origin,
            "schema_text": None if self.definition is None else self.definition.text,
            "lineage": self.lineage,
        }


def inferred(schema: str | None, table: str, names: list[str]) -> Version:
    """The version of a table with known column names only."""
    return Version(f"{full_name(schema, table)}@1", schema, table, names, INFERRED)


@dataclass(frozen=True, slots=True)
class InForce:
    """From byte ``at`` of the stream on, the definition ``index`` in a trail file is version ``number``."""

    trail: str
    order: int
    index: int
    at: int
    number: int


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


Name = tuple[str | None, str]
Location = tuple[int, int, int]


def build_versions(
    texts: Iterable[MetadataText], beside: Sequence[Definition]
) -> tuple[list[Version], list[InForce], list[Location]]:
    """The versions of a capture: (versions, their ranges, (file index, offset, number) of each Metadata record that
    defines or repeats one). ``texts``: those of a trail are in order; ``beside``: the definitions of a DEFGEN file."""
    made = _VersionBuilder()
    for text in texts:
        made.take(text)
    for definition in beside:
        made.add(full_name(definition.schema, definition.table), definition, SIDE_FILE, {}, (-1, -1, -1))
    return made.versions, made.in_force, made.records


class _VersionBuilder:
    """Versions in the making."""

    def __init__(self) -> None:
        self.versions: list[Version] = []
        self.in_force: list[InForce] = []
        self.records: list[Location] = []
        self._by_prefix: defaultdict[str, list[int]] = defaultdict(list)
        self._keys: set[str] = set()
        self._lineage: dict[str, dict[str, str]] = {}  # by trail
        # the last version of an index in a trail file, of a table and index in a trail, and of a table in a trail
        self._latest: dict[tuple[object, ...], int] = {}
        # every file of a trail repeats its definitions: versions share what is equal, so that a plan has it once
        self._parsed: dict[str, Definition | Database | Reference | None] = {}

    def take(self, one: MetadataText) -> None:
        """Adds a Metadata record."""
        if one.text not in self._parsed:
            self._parsed[one.text] = parse_metadata(one.text)
        found, trail = self._parsed[one.text], one.trail
        if isinstance(found, Database):
            self._lineage[trail.trail] = found.facts
        elif isinstance(found, Definition):
            index = one.index if one.index != MISSING else 0
            self._enter(one, index, self._add_record(one, str(index), found, self._lineage.get(trail.trail, {})))
        elif isinstance(found, Reference):
            self._refer(one, found)

    def _refer(self, one: MetadataText, found: Reference) -> None:
        """Adds a reference to the definition with its index in the same trail file, else to one of its table in an
        earlier file of its trail, with its index if there is one."""
        trail, name, index = one.trail, (found.schema, found.table), one.index
        places = (trail.trail, trail.order, found.index), (trail.trail, name, found.index), (trail.trail, name)
        number = next((self._latest[place] for place in places if place in self._latest), None)
        if number is None:
            return
        version = self.versions[number]
        if (version.schema, version.table) == name:
            index = found.index if index == MISSING else index
        else:
            index = MISSING if index == found.index else index  # the header may repeat the index referred to (§5.2)
            definition = version.definition
            assert definition is not None
            text = f"{found.text}\n{definition.text}"
            lineage = {**version.lineage, "definition of": f"{version.full_name} ({version.key})"}
            own = full_name(*name) if index == MISSING else str(index)
            named = replace(definition, schema=found.schema, table=found.table, text=text)
            number = self._add_record(one, own, named, lineage)
        self._enter(one, index, number)

    def _add_record(self, one: MetadataText, own: str, definition: Definition, lineage: dict[str, str]) -> int:
        prefix = f"{own}@{last_part(one.trail.name or one.file_name)}"
        return self.add(prefix, definition, RECORD, lineage, (one.file_index, one.offset, one.length))

    def add(self, prefix: str, definition: Definition, origin: str, lineage: dict[str, str], at: Location) -> int:
        """The number of the version with this prefix of its key and these columns, which is created if missing. Other
        columns with the same prefix get ``#2``, ``#3``; those of side files ``@1``, ``@2``."""
        known = self._by_prefix[prefix]
        for number in known:
            same = self.versions[number].definition
            if same is not None and same.same_columns(definition):
                return number
        key = unused_name(prefix if origin == RECORD else f"{prefix}@{len(known) + 1}", self._keys)
        self._keys.add(key)
        known.append(len(self.versions))
        schema, table, names = definition.schema, definition.table, list(definition.names)
        self.versions.append(Version(key, schema, table, names, origin, definition, lineage, *at))
        return known[-1]

    def _enter(self, one: MetadataText, index: int, number: int) -> None:
        """A version is in force from a record on."""
        self.records.append((one.file_index, one.offset, number))
        trail, order, version = one.trail.trail, one.trail.order, self.versions[number]
        name = version.schema, version.table
        if self._latest.get((trail, order, index)) != number:
            self.in_force.append(InForce(trail, order, index, one.at, number))
        self._latest |= dict.fromkeys([(trail, order, index), (trail, name, index), (trail, name)], number)


class Lookup:
    """Finds the version that is in force at a record."""

    def __init__(self, versions: Sequence[Version], in_force: Sequence[InForce], places: Iterable[Location]) -> None:
        self.versions, self.entries, self.places = versions, sorted(in_force, key=lambda one: one.at), list(places)
        self._at_place = {(file, offset): number for file, offset, number in self.places}
        self._by_index: defaultdict[tuple[str, int, int], list[InForce]] = defaultdict(list)
        self._by_name: defaultdict[Name, list[InForce]] = defaultdict(list)
        for entry in sorted(in_force, key=lambda one: (one.trail, one.order, one.at)):
            self._by_index[entry.trail, entry.order, entry.index].append(entry)
            self._by_name[self._name(entry)].append(entry)
        others = [((one.schema, one.table), number) for number, one in enumerate(versions) if one.origin != RECORD]
        others.reverse()  # the first of a name counts
        self._other = {_lower(name): number for name, number in others} | dict(others)

    def _name(self, entry: InForce) -> Name:
        version = self.versions[entry.number]
        return version.schema, version.table

    def at_record(self, file_index: int, offset: int) -> int:
        """The version of the Metadata record at this location; -1 without one."""
        return self._at_place.get((file_index, offset), -1)

    def defined(self, name: str) -> bool:
        """Whether there is a definition of the table with this (printed) name."""
        split = split_name(name)
        return split in self._by_name or self._otherwise(split) >= 0

    def fallback(self, name: Name, stop: int) -> str | None:
        """The version, as text, of a table without a definition before byte ``stop`` of the stream; None with one."""
        entries = self._by_name.get(name, [])
        if any(one.at < stop for one in entries):
            return None
        number = entries[0].number if entries else self._otherwise(name)
        return None if number < 0 else self._text(number)

    def digest(self, stop: int) -> str:
        """A hash of all definitions in force before byte ``stop`` of the stream."""
        return self._digests[bisect_left(self.entries, stop, key=lambda one: one.at)]

    @cached_property
    def _digests(self) -> list[str]:
        found, hashed = [""], blake2b(digest_size=16)
        texts = [self._text(number) for number in range(len(self.versions))]
        for one in self.entries:
            hashed.update(repr((one.trail, one.order, one.index, one.at, texts[one.number])).encode())
            found.append(hashed.hexdigest())
        return found

    def _text(self, number: int) -> str:
        """A version without its location, which no event has."""
        return repr(replace(self.versions[number], file_index=-1, offset=-1, length=-1))

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
        indexed = [one for one in indexed if self._name(one) == split]
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
