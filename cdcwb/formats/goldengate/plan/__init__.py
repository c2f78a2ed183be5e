"""The plan of a capture: files, splits, versions, and state that crosses splits. A plan is made once and sent to the
workers as one text. Its size grows with the number of files, splits, versions and transactions that cross a split's
end, not with the number of records.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

from cdcwb.errors import OptionError
from cdcwb.formats import messages as containers
from cdcwb.formats import options as opt
from cdcwb.formats.dissector import Piece, PlanText
from cdcwb.formats.goldengate.decode import Order, System
from cdcwb.formats.goldengate.decode.definitions import Definition, parse_defgen
from cdcwb.formats.goldengate.exports import OPTIONS as OF_EXPORTS
from cdcwb.formats.goldengate.exports import ExportFile
from cdcwb.formats.goldengate.plan.trails import InForce, Lookup, Shown, TrailFile, Version
from cdcwb.formats.goldengate.plan.transactions import Gap, Open
from cdcwb.formats.moments import parse_zone
from cdcwb.formats.source import open_file

__all__ = [
    "LOGDUMP",
    "OPTIONS",
    "FileEntry",
    "Options",
    "Part",
    "Plan",
    "Settings",
    "Stretch",
    "grouped",
    "pieces_of",
]


LOGDUMP: Final = "logdump"
_TOGETHER: Final = 4 << 20
_MOST_FILES: Final = 64


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of all files. ``time_zone``: that of printed times, None: from header tokens. ``export``: options of
    JSON and XML files."""

    charset: str = "utf-8"
    time_zone: str | None = None
    images: bool = True
    export: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class FileEntry:
    """One file. ``kind``: logdump, json or xml; ``size``: bytes of the decompressed file; ``problem``: the problem of
    the file itself. ``byte_order`` (little, big) and ``prefix`` (2, 4: bytes before the before image of unified
    updates) are those of record bodies; with ``order_known`` false, the byte order is unknown. ``bare_from``: from this
    :class:`~cdcwb.formats.goldengate.decode.System` on, bodies are read as those of a NonStop.
    ``shown``: the time zone from header tokens. ``export``: the settings of a JSON or XML file."""

    path: str
    kind: str
    size: int
    compression: str | None = None
    problem: str | None = None
    byte_order: Order = "little"
    prefix: int = 2
    order_known: bool = True
    bare_from: int = System.NONSTOP
    shown: list[Shown] = field(default_factory=list)
    export: ExportFile | None = None


@dataclass(slots=True)
class Stretch:
    """The records of a part's section whose RBA is in ``[low, high]``; see :mod:`.transactions`.

    ``before`` and ``after``: the transactions open at its start and end. ``half``: table of the before half that waits
    for its other half at its start. ``head``: position of the record that fragments at its beginning continue;
    ``goes_on``: the preceding record is marked as continued. ``follows``: (file index, first byte, last+1) of the
    fragments that continue its last record. ``repeated``: runs (first, last) of the section's records, counted in trail
    order from 0, that were printed before; ``shared``: of those whose RBA a different record of an earlier part has.
    ``gap``: the bytes of the trail that are missing before its first record, since the last one of a transaction.
    """

    section: int
    file: TrailFile
    low: int = 0
    high: int = (1 << 62) - 1
    before: Open | None = None
    after: Open | None = None
    half: str | None = None
    head: str | None = None
    goes_on: bool = False
    follows: list[tuple[int, int, int]] = field(default_factory=list)
    repeated: list[tuple[int, int]] = field(default_factory=list)
    shared: list[tuple[int, int]] = field(default_factory=list)
    gap: Gap | None = None


@dataclass(slots=True)
class Part:
    """The bytes ``[start, stop)`` of a file, whose records belong together. ``named``: printed names of the tables of
    its records, which are not sent to workers."""

    file: int
    start: int
    stop: int
    stretches: list[Stretch] = field(default_factory=list)
    named: tuple[str, ...] = field(default=(), compare=False)


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
class Plan(PlanText):
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
    is_rows: bool = False  # the only file has the name of the rows
    shared: list[frozenset[str]] | None = None  # transactions that each split shares; only where a task has its portion

    @property
    def parts(self) -> Iterator[Part]:
        """All parts, in capture order."""
        return (part for split in self.splits for part in split)

    def lookup(self) -> Lookup:
        """The versions, to be found by records."""
        return Lookup(self.versions, self.in_force, self.places)

    def to_text(self) -> str:
        """See :meth:`PlanText.to_text`; without what is kept for the driver alone."""
        splits = [[replace(part, named=()) for part in split] for split in self.splits]
        return PlanText.to_text(replace(self, splits=splits, versions=[replace(one) for one in self.versions]))


OPTIONS: Final[dict[str, str]] = {
    "time_zone": "zone of printed times: an IANA name or an offset such as +08:00 (auto: from header tokens)",
    "definitions": "DEFGEN file with the definitions of tables that the capture does not have",
    "byte_order": "of record bodies: auto, big, little",
    "null_indicators": "of record bodies: auto (every, none of a NonStop), every, nullable (as of a NonStop)",
    "unified_prefix": "size in bytes of the length that precedes the before image of unified updates: auto, 2, 4",
    "charset": "character set of text columns and names (utf-8)",
    "trail_sequence": "number of the first trail file, if the capture does not give it",
    "shape": "of the files: auto, logdump, json, xml",
    "split_size": "bytes of a large file that one task reads (33554432)",
    **opt.SHARED,
    **{name: meaning for name, meaning in OF_EXPORTS.items() if name != "split_size"},
}
"""The description of every option of the format."""

_SPLIT_SIZE: Final = 32 << 20
_BARE_FROM: Final = {"auto": System.NONSTOP, "every": System.NONSTOP + 1, "nullable": System.OTHER}
_SHAPES: Final = ("auto", LOGDUMP, "json", "xml")


@dataclass(frozen=True, slots=True)
class Options:
    """The checked options of a capture. None: to be detected. ``bare_from``: see :class:`FileEntry`."""

    time_zone: str | None = None
    definitions: tuple[str, ...] = ()
    byte_order: Order | None = None
    bare_from: int = System.NONSTOP
    prefix: int | None = None
    charset: str = "utf-8"
    trail_sequence: int | None = None
    shape: str = "auto"
    split_size: int = _SPLIT_SIZE
    mode: str = "PERMISSIVE"
    images: bool = True
    container: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Options:
        """Checked options from names and values. Raises OptionError, which names the error and the known options."""
        opt.check_names(given, OPTIONS, "goldengate")
        values = {name: value for name, value in given.items() if value is not None and value != ""}
        zone = str(values.get("time_zone", "auto"))
        if zone.lower() != "auto":
            parse_zone(zone)
        order = opt.as_choice("byte_order", values.get("byte_order", "auto"), ("auto", "big", "little"))
        prefix = opt.as_choice("unified_prefix", values.get("unified_prefix", "auto"), ("auto", "2", "4"))
        indicators = opt.as_choice("null_indicators", values.get("null_indicators", "auto"), tuple(_BARE_FROM))
        definitions = values.get("definitions", ())
        sequence = values.get("trail_sequence")
        container = {name: value for name, value in values.items() if name in OF_EXPORTS and name != "split_size"}
        containers.Options.parse(container)
        return cls(
            time_zone=None if zone.lower() == "auto" else zone,
            definitions=(str(definitions),) if isinstance(definitions, (str, Path)) else tuple(map(str, definitions)),
            byte_order=None if order == "auto" else cast("Order", order),
            bare_from=_BARE_FROM[indicators],
            prefix=None if prefix == "auto" else int(prefix),
            charset=opt.check_charset("charset", values.get("charset", "utf-8")),
            trail_sequence=None if sequence is None else opt.as_whole("trail_sequence", sequence, 0),
            shape=opt.as_choice("shape", values.get("shape", "auto"), _SHAPES),
            split_size=opt.as_whole("split_size", values.get("split_size", _SPLIT_SIZE), 64),
            mode=opt.as_choice("mode", values.get("mode", "PERMISSIVE"), opt.MODES),
            images=opt.as_bool("images", values.get("images", "true")),
            container=container,
        )

    @property
    def settings(self) -> Settings:
        """How all files are read."""
        return Settings(self.charset, self.time_zone, self.images, self.container)

    def beside(self) -> list[Definition]:
        """The definitions of the DEFGEN files. Raises OptionError if there are none."""
        found: list[Definition] = []
        for path in self.definitions:
            try:
                with open_file(path) as file:
                    text = file.read().decode(self.charset, "replace")
            except OSError as reason:
                raise OptionError(f"option definitions: {path!r} cannot be read ({opt.reason_of(reason)})") from None
            some = parse_defgen(text)
            if not some:
                raise OptionError(f"option definitions: {path!r} has no `Definition for table`")
            found += some
        return found


def pieces_of(plan: Plan) -> Iterator[list[Piece]]:
    """The provenance of each part: its file with its settings, the state that crosses its ends, the files whose
    fragments continue its last record, and the versions of its records. It includes the index of its file, since
    transactions may be named by the location of their start.
    """
    contexts = _Contexts(plan)
    for split in plan.splits:
        yield [contexts.piece(part) for part in split]


class _Contexts:
    """The contexts of a plan's parts; common facts are made once."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.lookup = plan.lookup()
        self._texts: dict[int, str] = {}
        self._places: dict[int, list[tuple[int, int]]] = {}
        for file, offset, number in plan.places:
            self._places.setdefault(file, []).append((offset, number))
        # columns without a definition get names that no definition has
        names = [name for one in plan.versions if one.definition is not None for name in one.definition.names]
        self._underlines = max((len(name) - len(name.rstrip("_")) for name in names), default=0)

    def piece(self, part: Part) -> Piece:
        """The provenance of a part."""
        files = self.plan.files
        path = files[part.file].path
        behind = [files[index].path for stretch in part.stretches for index, _, _ in stretch.follows]
        context: dict[str, Any] = {
            "file": asdict(files[part.file]),
            "part": asdict(replace(part, named=())),
            "behind": behind,
            "settings": asdict(self.plan.settings),
        }
        if files[part.file].export is None:
            context["metadata"] = [(offset, self._text(number)) for offset, number in self._places.get(part.file, ())]
            context["versions"] = [self._found(part, at) for at in range(len(part.stretches))]
            context["underlines"] = self._underlines
        return Piece(tuple(dict.fromkeys([path, *behind])), json.dumps(context))

    def _found(self, part: Part, at: int) -> list[Any]:
        """The versions that the records of a stretch may find: by the index of a definition, and by their names."""
        by_index, by_name = self.lookup.within(part.stretches[at].file, part.named)
        return [
            [(index, rba, self._text(number)) for index, rba, number in by_index],
            [(name, [(rba, self._text(number)) for rba, number in found]) for name, found in by_name],
        ]

    def _text(self, number: int) -> str | None:
        """A version as text, without its location, which no event has; None for -1."""
        if number < 0:
            return None
        if number not in self._texts:
            told = asdict(self.plan.versions[number])
            for place in ("file_index", "offset", "length"):
                del told[place]
            self._texts[number] = json.dumps(told)
        return self._texts[number]
