"""What has to be known before a capture can be read in pieces: files, splits, versions, and what crosses the splits.

A plan is made once and travels to the workers as one text. It grows with the number of files, splits, versions and
transactions that run over a split's end, never with the number of records.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from cdcwb.formats.goldengate.records import System
from cdcwb.formats.goldengate.timezones import Shown
from cdcwb.formats.goldengate.trail import TrailFile
from cdcwb.formats.goldengate.versions import InForce, Lookup, Version

__all__ = ["FileEntry", "Named", "Part", "Plan", "Settings", "Stretch", "cut", "grouped"]

LOGDUMP: Final = "logdump"
_TOGETHER: Final = 4 << 20
_MOST_FILES: Final = 64


@dataclass(frozen=True, slots=True)
class Settings:
    """How all files are read. ``time_zone``: that of printed times, None: as header tokens show. ``export``: options of
    JSON and XML files."""

    charset: str = "utf-8"
    time_zone: str | None = None
    images: bool = True
    export: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class FileEntry:
    """One file. ``kind``: logdump, json or xml; ``size``: bytes of the decompressed file; ``problem``: what is wrong
    with it as a whole. ``byte_order`` (little, big) and ``prefix`` (2, 4: bytes before the before image of unified
    updates) are those of record bodies; with ``order_known`` false, nothing tells the byte order. ``nullable``: from
    this :class:`~cdcwb.formats.goldengate.records.System` on, null indicators are only in columns that may be NULL.
    ``shown``: what header tokens say of the time zone. ``export``: what a JSON or XML file is read by."""

    path: str
    kind: str
    size: int
    compression: str | None = None
    problem: str | None = None
    byte_order: str = "little"
    prefix: int = 2
    order_known: bool = True
    nullable: int = System.NONSTOP
    shown: list[Shown] = field(default_factory=list)
    export: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Named:
    """A transaction that crosses the edge of a stretch, as all of its records call it."""

    name: str
    xid: str | None
    csn: str | None
    aborted: bool


@dataclass(slots=True)
class Stretch:
    """The records of a part's section whose RBA is in ``[low, high]``; see :mod:`.transactions`.

    ``before`` and ``after``: the transactions open where it begins and ends. ``half``: table of the before half that
    waits for its other where it begins. ``head``: position of the record that fragments at its beginning continue;
    ``goes_on``: the record before it says that it is continued. ``follows``: (file index, first byte, byte behind) of
    the fragments that continue its last record. ``repeated``: runs (first, last) of the section's records, counted in
    trail order from 0, that were printed before; ``shared``: of those whose RBA a different record of an earlier part
    has. ``expected``: RBA of its first record, if nothing is missing before
    it; -1 where that is not known.
    """

    section: int
    file: TrailFile
    low: int = 0
    high: int = (1 << 62) - 1
    before: Named | None = None
    after: Named | None = None
    half: str | None = None
    head: str | None = None
    goes_on: bool = False
    follows: list[tuple[int, int, int]] = field(default_factory=list)
    repeated: list[tuple[int, int]] = field(default_factory=list)
    shared: list[tuple[int, int]] = field(default_factory=list)
    expected: int = -1


@dataclass(slots=True)
class Part:
    """The bytes ``[start, stop)`` of a file, whose records belong together. ``named``: names as printed of the tables
    of its records, which stay where the plan is made."""

    file: int
    start: int
    stop: int
    stretches: list[Stretch] = field(default_factory=list)
    named: tuple[str, ...] = field(default=(), compare=False)


def cut(size: int, boundaries: Sequence[int]) -> list[tuple[int, int]]:
    """Runs of a file of so many bytes that begin and end at the boundaries; one for an empty file."""
    places = sorted({place for place in boundaries if 0 < place < size})
    return list(zip([0, *places], [*places, size], strict=True))


def grouped(parts: Sequence[Part], split_size: int) -> list[list[Part]]:
    """The parts, small files together: a task costs more than to read a few records."""
    groups: list[list[Part]] = []
    room = 0
    for part in parts:
        size = part.stop - part.start
        if not groups or size > room or len(groups[-1]) >= _MOST_FILES:
            groups.append([])
            room = min(_TOGETHER, split_size)
        groups[-1].append(part)
        room -= size
    return groups


@dataclass(slots=True)
class Plan:
    """How a capture is read."""

    files: list[FileEntry]
    settings: Settings
    splits: list[list[Part]]
    versions: list[Version] = field(default_factory=list)
    in_force: list[InForce] = field(default_factory=list)
    places: list[tuple[int, int, int]] = field(default_factory=list)  # file index, offset of Metadata, its version
    detected: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    notes: list[dict[str, Any]] = field(default_factory=list)  # problems that concern no event
    partitions: list[tuple[str, int]] = field(default_factory=list)  # topics and partitions of rows, in order
    is_rows: bool = False  # the one file is what rows are called

    @property
    def parts(self) -> Iterator[Part]:
        """All parts, in capture order."""
        return (part for split in self.splits for part in split)

    def lookup(self) -> Lookup:
        """The versions, to be found by records."""
        return Lookup(self.versions, self.in_force, self.places)

    def to_text(self) -> str:
        """The plan as one line of ASCII text."""
        content = {
            "files": [asdict(one) for one in self.files],
            "settings": asdict(self.settings),
            "splits": [[asdict(replace(part, named=())) for part in split] for split in self.splits],
            "versions": [one.as_dict() for one in self.versions],
            "in_force": [asdict(one) for one in self.in_force],
            "places": self.places,
            "detected": self.detected,
            "facts": self.facts,
            "notes": self.notes,
            "partitions": self.partitions,
            "is_rows": self.is_rows,
        }
        return base64.b64encode(zlib.compress(json.dumps(content).encode(), 1)).decode("ascii")

    @classmethod
    def from_text(cls, text: str) -> Plan:
        """The plan that :meth:`to_text` wrote."""
        raw = json.loads(zlib.decompress(base64.b64decode(text)))
        return cls(
            [_file(one) for one in raw["files"]],
            Settings(**raw["settings"]),
            [[_part(one) for one in split] for split in raw["splits"]],
            [Version(**one) for one in raw["versions"]],
            [InForce(**one) for one in raw["in_force"]],
            [(one[0], one[1], one[2]) for one in raw["places"]],
            raw["detected"],
            raw["facts"],
            raw["notes"],
            [(topic, partition) for topic, partition in raw["partitions"]],
            raw["is_rows"],
        )


def _file(raw: dict[str, Any]) -> FileEntry:
    return FileEntry(**{**raw, "shown": [Shown(**one) for one in raw["shown"]]})


def _part(raw: dict[str, Any]) -> Part:
    return Part(raw["file"], raw["start"], raw["stop"], [_stretch(one) for one in raw["stretches"]])


def _stretch(raw: dict[str, Any]) -> Stretch:
    return Stretch(
        **{
            **raw,
            "file": TrailFile(**raw["file"]),
            "before": None if raw["before"] is None else Named(**raw["before"]),
            "after": None if raw["after"] is None else Named(**raw["after"]),
            "follows": [(one[0], one[1], one[2]) for one in raw["follows"]],
            "repeated": [(one[0], one[1]) for one in raw["repeated"]],
            "shared": [(one[0], one[1]) for one in raw["shared"]],
        }
    )
