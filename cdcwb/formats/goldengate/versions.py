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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cdcwb.formats.goldengate.contents import MISSING
from cdcwb.formats.goldengate.definitions import (
    Database,
    Definition,
    Reference,
    full_name,
    parse_metadata,
    split_name,
)
from cdcwb.model import COLUMN
from cdcwb.words import unused_name

__all__ = [
    "InForce", "Lookup", "MetadataText", "Section", "Shown", "TrailFile", "Version", "build_versions", "inferred",
    "nearest_offsets", "shown_offsets", "split_path", "trail_files",
]  # fmt: skip

Ints = npt.NDArray[np.int64]

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
    unknown, header, now = -1, None, None
    last: Section | None = None  # the latest one with records
    for one in sections:
        before = out[-1] if out else None
        if not one.is_new and before is not None:
            now = before
        elif one.sequence is not None:
            trail = split_path(one.name)[0] if one.name else before.trail if before is not None and before.name else ""
            now = TrailFile(trail, one.sequence, one.sequence, one.name)
        elif one.name is not None:
            now = TrailFile(one.name, 0, 0, one.name)
        elif before is not None and _is_continued(before, one, last, header):
            now = before
        elif (
            before is not None and before.name is not None and one.header and last is not None and last.file == one.file
        ):
            now = _following(before)
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


def _following(now: TrailFile) -> TrailFile:
    """The file that follows in a trail."""
    stem, number = split_path(now.name or "")
    if number is None:
        return TrailFile(now.trail, now.order + 1)
    digits = len(now.name or "") - len(stem)
    return TrailFile(now.trail, number + 1, number + 1, f"{stem}{number + 1:0{digits}d}")


_MINUTE: Final = 60_000_000
_QUARTER: Final = 15 * _MINUTE
_FURTHEST: Final = 26 * 60 * _MINUTE


@dataclass(frozen=True, slots=True)
class Shown:
    """All records from byte ``first`` to byte ``last`` of a file that show an offset show this one (microseconds; local
    time less UTC)."""

    first: int
    last: int
    offset: int


def shown_offsets(start: Ints, moment: Ints, julian: Ints) -> list[Shown]:
    """The UTC offsets from records with both a printed time and UTC, in order (``start`` ascends). An offset is a whole
    number of quarters of an hour, within a minute; other differences are ignored.
    """
    both = np.flatnonzero((moment != MISSING) & (julian != MISSING))
    raw = moment[both] - julian[both]
    offset = (raw + _QUARTER // 2) // _QUARTER * _QUARTER
    good = (np.abs(raw - offset) < _MINUTE) & (np.abs(offset) <= _FURTHEST)
    both, offset = both[good], offset[good]
    if not len(both):
        return []
    edge = np.flatnonzero(np.append(True, offset[1:] != offset[:-1]))
    last = np.append(edge[1:], len(both)) - 1
    places = start[both]
    return [Shown(int(places[a]), int(places[b]), int(offset[a])) for a, b in zip(edge, last, strict=True)]


def nearest_offsets(start: Ints, shown: Sequence[Shown]) -> Ints:
    """The offset that the nearest record to each byte shows; there must be one."""
    places = np.array([place for one in shown for place in (one.first, one.last)])
    offsets = np.array([one.offset for one in shown for _ in range(2)])
    after = np.clip(np.searchsorted(places, start), 0, len(places) - 1)
    before = np.maximum(after - 1, 0)
    nearer = np.abs(start - places[before]) <= np.abs(places[after] - start)
    found: Ints = offsets[np.where(nearer, before, after)]
    return found


INFERRED: Final = "inferred"
RECORD: Final = "record"
SIDE_FILE: Final = "side file"


@dataclass
class Version:
    """One version of a table. ``key`` is its table_version, ``columns`` are rows of :data:`cdcwb.model.COLUMN`.

    ``described``: the definition as JSON, None without one. ``file_index`` -1: it has no event.
    """

    key: str
    schema: str | None
    table: str
    columns: list[dict[str, Any]]
    origin: str
    text: str | None = None
    lineage: dict[str, str] = field(default_factory=dict)
    described: dict[str, Any] | None = None
    file_index: int = -1
    offset: int = -1
    length: int = -1

    @cached_property
    def definition(self) -> Definition | None:
        """The definition, None without one."""
        return None if self.described is None else Definition.from_dict(self.described)

    @property
    def full_name(self) -> str:
        """``schema.table``, or ``table``."""
        return full_name(self.schema, self.table)

    @cached_property
    def names(self) -> list[str]:
        """Names of the columns by their index."""
        definition = self.definition
        return [one["name"] for one in self.columns] if definition is None else list(definition.names)

    @cached_property
    def keys(self) -> list[int]:
        """Indexes of the key columns, in key order; empty if unknown."""
        keyed = sorted((one["key_position"], one["ordinal"] - 1) for one in self.columns if one["key_position"])
        return [index for _, index in keyed]

    def to_row(self) -> dict[str, Any]:
        """As a row of :data:`cdcwb.model.TABLE_VERSIONS`, without ``first_position``."""
        place = {"file_index": self.file_index, "offset": self.offset, "length": self.length}
        return {
            "table_version": self.key,
            "schema_name": self.schema,
            "table_name": self.table,
            "first_event": place if self.file_index >= 0 else None,
            "columns": self.columns,
            "origin": self.origin,
            "schema_text": self.text,
            "lineage": self.lineage,
        }


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
    """A Metadata record: its content, and its locations in the capture and in its trail."""

    text: str
    file_index: int
    offset: int
    length: int
    trail: TrailFile
    at: int
    index: int
    file_name: str


def build_versions(
    texts: Iterable[MetadataText], beside: Sequence[Definition]
) -> tuple[list[Version], list[InForce], list[tuple[int, int, int]]]:
    """The versions of a capture: (versions, their ranges, (file index, offset, number) of each Metadata record that
    defines or repeats one). ``beside``: the definitions of a DEFGEN file."""
    made = _Versions()
    for text in texts:
        made.take(text)
    for definition in beside:
        made.add(f"{full_name(definition.schema, definition.table)}@", definition, SIDE_FILE, {}, (-1, -1, -1), start=1)
    return made.versions, made.in_force, made.places


class _Versions:
    """Versions in the making."""

    def __init__(self) -> None:
        self.versions: list[Version] = []
        self.in_force: list[InForce] = []
        self.places: list[tuple[int, int, int]] = []
        self._by_key: dict[str, list[int]] = {}
        self._keys: set[str] = set()
        self._definitions: list[Definition] = []
        self._lineage: dict[str, dict[str, str]] = {}  # by trail
        # every file of a trail repeats its definitions: versions share what is equal, so that a plan has it once
        self._parsed: dict[str, Definition | Database | Reference | None] = {}
        self._described: dict[int, tuple[list[dict[str, Any]], dict[str, Any]]] = {}

    def take(self, one: MetadataText) -> None:
        """Adds a Metadata record; those of a trail must be in order."""
        if one.text not in self._parsed:
            self._parsed[one.text] = parse_metadata(one.text)
        found, trail = self._parsed[one.text], one.trail
        if isinstance(found, Database):
            lineage = _lineage(found)
            if lineage != self._lineage.get(trail.trail):
                self._lineage[trail.trail] = lineage
        elif isinstance(found, Definition):
            index = _index_of(one)
            prefix = f"{index}@{last_part(trail.name or one.file_name)}"
            place = (one.file_index, one.offset, one.length)
            number = self.add(prefix, found, RECORD, self._lineage.get(trail.trail, {}), place)
            self._enter(InForce(trail.trail, trail.order, index, one.at, number))
            self.places.append((one.file_index, one.offset, number))
        elif isinstance(found, Reference):
            target = self._referred(one, found)
            if target is None:
                return
            index = _index_of(one, found.index)
            if not self._is(target, found.schema, found.table):
                index = MISSING if index == found.index else index  # the header may repeat the index referred to
                target = self._of_another_table(one, found, target, index)
            self._enter(InForce(trail.trail, trail.order, index, one.at, target))
            self.places.append((one.file_index, one.offset, target))

    def add(
        self,
        prefix: str,
        definition: Definition,
        origin: str,
        lineage: dict[str, str],
        place: tuple[int, int, int],
        start: int = 0,
    ) -> int:
        """The number of the version with this key and these columns, which is created if missing. A second one with the
        same key gets ``#2`` (or the next number, if keys are numbered from ``start``)."""
        there = self._by_key.setdefault(prefix, [])
        for number in there:
            if self._definitions[number].same_columns(definition):
                return number
        key = unused_name(f"{prefix}{start + len(there)}" if start else prefix, self._keys)
        self._keys.add(key)
        there.append(len(self.versions))
        self._definitions.append(definition)
        if id(definition) not in self._described:
            named = zip(definition.to_columns(), definition.names, strict=True)
            self._described[id(definition)] = [{**row, "name": name} for row, name in named], definition.to_dict()
        columns, described = self._described[id(definition)]
        self.versions.append(
            Version(
                key,
                definition.schema,
                definition.table,
                columns,
                origin,
                definition.text,
                lineage,
                described,
                *place,
            )
        )
        return len(self.versions) - 1

    def _enter(self, entry: InForce) -> None:
        last = self._latest(entry.trail, entry.order, entry.index)
        if last is None or last.number != entry.number:
            self.in_force.append(entry)

    def _latest(self, trail: str, order: int, index: int) -> InForce | None:
        """The last entry of an index in the trail file that is being read, whose entries are the last ones."""
        for entry in reversed(self.in_force):
            if (entry.trail, entry.order) != (trail, order):
                return None
            if entry.index == index:
                return entry
        return None

    def _of_another_table(self, one: MetadataText, reference: Reference, target: int, index: int) -> int:
        """The number of the version with the columns that another table's definition has, for the table of a reference.
        ``index``: its own, MISSING if only the one it refers to is printed (§5.2)."""
        columns, referred = self._definitions[target], self.versions[target]
        own = full_name(reference.schema, reference.table) if index == MISSING else str(index)
        return self.add(
            f"{own}@{last_part(one.trail.name or one.file_name)}",
            replace(columns, schema=reference.schema, table=reference.table, text=f"{reference.text}\n{columns.text}"),
            RECORD,
            {**referred.lineage, "definition of": f"{referred.full_name} ({referred.key})"},
            (one.file_index, one.offset, one.length),
        )

    def _referred(self, one: MetadataText, reference: Reference) -> int | None:
        """The version that a reference points to: the one with its index in the same trail file, else the one of its
        table among the files so far of its trail, with its index or any."""
        trail = one.trail
        latest = self._latest(trail.trail, trail.order, reference.index)
        if latest is not None:
            return latest.number
        named = [
            entry
            for entry in self.in_force
            if entry.trail == one.trail.trail and self._is(entry.number, reference.schema, reference.table)
        ]
        indexed = [entry for entry in named if entry.index == reference.index]
        for entry in reversed(indexed or named):
            return entry.number
        return None

    def _is(self, number: int, schema: str | None, table: str) -> bool:
        version = self.versions[number]
        return (version.schema, version.table) == (schema, table)


def _index_of(one: MetadataText, other: int = 0) -> int:
    return one.index if one.index != MISSING else other


def _lineage(database: Database) -> dict[str, str]:
    """The facts from the database's definition."""
    facts = {
        "database name": database.name,
        "database type": database.type,
        "character set": database.charset,
        "national character set": database.national_charset,
        "locale": database.locale,
        "time zone": database.time_zone,
    }
    return {name: value for name, value in facts.items() if value}


def inferred(schema: str | None, table: str, names: Sequence[str], origin: str = INFERRED) -> Version:
    """The version of a table with known column names only."""
    columns = [
        {**dict.fromkeys(one.name for one in COLUMN), "ordinal": at, "name": name} for at, name in enumerate(names, 1)
    ]
    return Version(f"{full_name(schema, table)}@1", schema, table, columns, origin)


Name = tuple[str | None, str]


class Lookup:
    """Finds the version that is in force at a record."""

    def __init__(
        self,
        versions: Sequence[Version],
        in_force: Sequence[InForce],
        places: Iterable[tuple[int, int, int]],
    ) -> None:
        self.versions, self.entries, self.places = versions, sorted(in_force, key=lambda one: one.at), list(places)
        self._at_place = {(file, offset): number for file, offset, number in self.places}
        self._by_index: dict[tuple[str, int, int], list[InForce]] = {}
        self._by_name: dict[Name, list[InForce]] = {}
        self._other: dict[Name, int] = {}
        self._loosely: dict[tuple[str, str], int] = {}
        for entry in sorted(in_force, key=lambda one: (one.trail, one.order, one.at)):
            self._by_index.setdefault((entry.trail, entry.order, entry.index), []).append(entry)
            version = versions[entry.number]
            self._by_name.setdefault((version.schema, version.table), []).append(entry)
        for number, version in enumerate(versions):
            if version.origin != RECORD:
                self._other.setdefault((version.schema, version.table), number)
                self._loosely.setdefault(((version.schema or "").lower(), version.table.lower()), number)

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
        number = bisect_left(self.entries, stop, key=lambda one: one.at)
        return self._digests[number]

    @cached_property
    def _digests(self) -> list[str]:
        found, hashed = [""], blake2b(digest_size=16)
        for one in self.entries:
            hashed.update(repr((one.trail, one.order, one.index, one.at, self._text(one.number))).encode())
            found.append(hashed.hexdigest())
        return found

    def _text(self, number: int) -> str:
        """A version without its location, which no event has."""
        one = self.versions[number]
        return repr((one.key, one.schema, one.table, one.described, one.origin, one.lineage))

    def _otherwise(self, name: Name) -> int:
        found = self._other.get(name)
        return found if found is not None else self._loosely.get(((name[0] or "").lower(), name[1].lower()), -1)

    def in_force(self, trail: TrailFile, index: int, name: str | None, at: Ints) -> Ints:
        """The version of each record of one table in a trail file, -1 without one. ``index``: MISSING if no index of a
        definition is printed; ``name``: None or empty if no name is."""
        split = split_name(name) if name else None
        entries = self._by_index.get((trail.trail, trail.order, index), []) if index != MISSING else []
        if split is not None:
            entries = [one for one in entries if self._is(one.number, split)]
        out = _in_force_at(entries, at)
        if split is None and entries and (out < 0).any():
            out = np.where(out < 0, entries[0].number, out)
        if split is not None and (out < 0).any():
            out = np.where(out < 0, self._named(trail, split, at), out)
        return out

    def _is(self, number: int, name: Name) -> bool:
        version = self.versions[number]
        return (version.schema, version.table) == name

    def _named(self, trail: TrailFile, name: Name, at: Ints) -> Ints:
        """By name: the last definition before the record in its trail, else the first one after it, else one of another
        trail, else one from a DEFGEN file."""
        entries = self._by_name.get(name, [])
        if not entries:
            return np.full(len(at), self._otherwise(name), dtype=np.int64)
        same = [one for one in entries if one.trail == trail.trail]
        earlier = [one for one in same if one.order < trail.order]
        fallback = (earlier[-1:] or same[:1] or entries[:1])[0].number
        out = _in_force_at([one for one in same if one.order == trail.order], at)
        return np.where(out < 0, fallback, out)


def _in_force_at(entries: Sequence[InForce], at: Ints) -> Ints:
    """The last of some entries that begins at or before each offset, -1 without one."""
    if not entries:
        return np.full(len(at), -1, dtype=np.int64)
    starts = np.array([one.at for one in entries])
    numbers = np.array([-1, *(one.number for one in entries)])
    return np.asarray(numbers[np.searchsorted(starts, at, side="right")], dtype=np.int64)
