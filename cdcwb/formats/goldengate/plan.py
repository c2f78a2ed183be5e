"""The plan of a capture of Logdump text: options, a first pass over all splits, and what is in force at their records
(docs/formats/goldengate.md §4.2, §4.8, §5.2 and §7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats import options as opt
from cdcwb.formats.arrays import Bools, Ints
from cdcwb.formats.dissector import detected_row
from cdcwb.formats.goldengate.contents import MISSING, BodyLayout, Order, detect_order, detect_unified, file_header
from cdcwb.formats.goldengate.definitions import Definition, read_definitions
from cdcwb.formats.goldengate.facts import (
    FRAGMENT,
    LOB,
    METADATA,
    Open,
    RecordFacts,
    RecordSettings,
    position_text,
    transactions_of,
)
from cdcwb.formats.goldengate.layout import KEYED, LISTED, UNIFIED
from cdcwb.formats.goldengate.lines import Role
from cdcwb.formats.goldengate.records import FILE_HEADER, RECORD, TrailRecords, text_of
from cdcwb.formats.goldengate.segments import TextWindow, windows
from cdcwb.formats.goldengate.versions import (
    Lookup,
    MetadataText,
    Section,
    TrailFile,
    Version,
    ZoneOffsetSpan,
    build_versions,
    shown_offsets,
    split_path,
    trail_files,
)
from cdcwb.formats.moments import from_iso, offset_name, parse_zone
from cdcwb.formats.records import FileEntry, Plan, Scan, Stream
from cdcwb.formats.transactions import Border
from cdcwb.words import plural

__all__ = [
    "OPTIONS", "Bodies", "FirstPass", "Options", "TrailContext", "TrailState", "fingerprints", "finish", "forms_of",
    "note_repeats", "repeated_sections", "scan",
]  # fmt: skip


OPTIONS: Final[dict[str, str]] = {
    "time_zone": "zone of printed times: an IANA name or an offset such as +08:00 (auto: from header tokens)",
    "definitions": "DEFGEN file with the definitions of tables that the capture does not have",
    "byte_order": "of record bodies: auto, big, little",
    "null_indicators": "in columns of record bodies: auto (all but those of a NonStop), every, none",
    "unified_prefix": "size in bytes of the length that precedes the before image of unified updates: auto, 2, 4",
    "charset": "character set of text columns and names (utf-8)",
    "trail_sequence": "number of the first trail file, if the capture does not give it",
    "split_size": "bytes of a large file that one task reads (33554432)",
    **opt.SHARED,
}
"""The description of every option of the format."""

_SPLIT_SIZE: Final = 32 << 20
_SAMPLE: Final = 256  # bodies of a file that are looked at
_UNIFIED_SAMPLE: Final = 64
_WITH_COLUMNS: Final = (*LISTED, KEYED, *UNIFIED)
_TRAIL: Final = (
    r"^(?:(?i:current +logtrail +is) +(?P<shown>.*)"
    r"|(?i:logdump) *\d* *> *(?i:open) +(?P<opened>[^ '\"]+|'[^']+'|\"[^\"]+\").*)$"
)


@dataclass(frozen=True, slots=True)
class Options:
    """The checked options of a capture. None: to be detected."""

    time_zone: str | None = None
    definitions: tuple[str, ...] = ()
    byte_order: Order | None = None
    prefix: int | None = None
    null_indicators: bool | None = None
    charset: str = "utf-8"
    trail_sequence: int | None = None
    split_size: int = _SPLIT_SIZE
    mode: str = "PERMISSIVE"
    images: bool = True
    shape: str = "binary"

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Options:
        """Checked options from names and values. Raises OptionError, which names the error and the known options."""
        opt.check_names(given, OPTIONS, "goldengate")
        values = opt.given_of(given)
        zone = str(values.get("time_zone", "auto"))
        if zone.lower() != "auto":
            parse_zone(zone)
        order = opt.as_choice("byte_order", values.get("byte_order", "auto"), ("auto", "big", "little"))
        prefix = opt.as_choice("unified_prefix", values.get("unified_prefix", "auto"), ("auto", "2", "4"))
        indicators = opt.as_choice("null_indicators", values.get("null_indicators", "auto"), ("auto", "every", "none"))
        definitions = values.get("definitions", ())
        return cls(
            time_zone=None if zone.lower() == "auto" else zone,
            definitions=(str(definitions),) if isinstance(definitions, (str, Path)) else tuple(map(str, definitions)),
            byte_order=None if order == "auto" else cast("Order", order),
            prefix=None if prefix == "auto" else int(prefix),
            null_indicators={"every": True, "none": False}.get(indicators),
            charset=opt.check_charset("charset", values.get("charset", "utf-8")),
            trail_sequence=opt.optional("trail_sequence", values, opt.as_whole, 0),
            split_size=opt.as_whole("split_size", values.get("split_size", _SPLIT_SIZE), 64),
            mode=opt.as_choice("mode", values.get("mode", "PERMISSIVE"), opt.MODES),
            images=opt.as_bool("images", values.get("images", "true")),
        )

    @property
    def reading(self) -> RecordSettings:
        """How records are read."""
        return RecordSettings(self.charset, self.null_indicators)

    def side_definitions(self) -> list[Definition]:
        """The definitions of the DEFGEN files. Raises OptionError if there are none."""
        return read_definitions(self.definitions, self.charset)


class Bodies(NamedTuple):
    """How the data of a file's records are written. ``is_known``: the byte order is; ``prefix``: bytes before the
    before image of unified updates."""

    order: Order = "little"
    is_known: bool = True
    prefix: int = 2


@dataclass(slots=True)
class _Vote:
    """Evidence from the bodies of a file about their byte order and the prefix of unified updates; None without any."""

    bodies: int
    order: str | None
    order_evidence: str
    prefix: int | None
    prefix_evidence: str


class WindowBorder(NamedTuple):
    """The transaction that is open at the start of a window; the start in the stream of the record before it, and the
    RBA after that record (MISSING: unknown)."""

    open: Open
    last: int
    end: int


@dataclass(slots=True)
class FirstPass:
    """What the first pass finds in a split. By file: ``votes``, ``shown`` (zones, by offsets in the stream),
    ``unzoned`` (records with a printed time, and none in UTC), ``sideless`` (updates of one image without a header
    block and an image line, so that the image is unknown), ``nonstop`` (records of a NonStop). ``borders``: of windows
    at which a transaction is open, by the start of the window. ``tables``: printed names of the tables of changes.
    ``csn``: of the first and last record that has one. ``continued``: records that are continued, or continue others;
    ``undoing``: those with UndoFlag 1. ``open``, ``last``, ``end``: at the end of the split, as in a
    :class:`WindowBorder`."""

    sections: list[Section] = field(default_factory=list)
    metadata: list[MetadataText] = field(default_factory=list)
    votes: dict[int, _Vote] = field(default_factory=dict)
    shown: dict[int, list[ZoneOffsetSpan]] = field(default_factory=dict)
    unzoned: Counter[int] = field(default_factory=Counter)
    sideless: Counter[int] = field(default_factory=Counter)
    nonstop: Counter[int] = field(default_factory=Counter)
    borders: dict[int, WindowBorder] = field(default_factory=dict)
    tables: set[str] = field(default_factory=set)
    csn: tuple[str, str] | None = None
    continued: int = 0
    undoing: int = 0
    open: Open | None = None
    last: int = MISSING
    end: int = MISSING


@dataclass(frozen=True, slots=True)
class TrailState:
    """What a split needs to know: the transactions that are open at the starts of its windows, and the printed names of
    the ``tables`` of its changes."""

    windows: Mapping[int, WindowBorder]
    tables: frozenset[str] = frozenset()
    border: Border = field(default_factory=Border)


@dataclass(slots=True)
class TrailContext:
    """What all splits need. ``at``: the bytes of the stream at which sections begin, with their trail ``files``;
    ``bodies`` and ``shown`` by file. ``repeated``: starts of records that were printed before, ``second``: of those
    with the position of a different one before them."""

    options: Options
    at: Ints
    files: list[TrailFile]
    sections: list[Section]
    bodies: list[Bodies]
    shown: dict[int, list[ZoneOffsetSpan]]
    lookup: Lookup
    repeated: Ints
    second: Ints

    @property
    def versions(self) -> Sequence[Version]:
        """The versions of tables."""
        return self.lookup.versions

    def file_of(self, places: Ints | int) -> Any:
        """The number in ``files`` of the trail file of records that begin at these bytes of the stream, or this one."""
        return np.searchsorted(self.at, places, side="right") - 1


# --- the first pass ---------------------------------------------------------------------------------------------------


def scan(found: FirstPass, stream: Stream, window: TextWindow) -> int:
    """Adds a window to what is found in its split; returns the number of records."""
    records, facts, chosen = window.records, window.facts, window.chosen
    some = np.zeros(len(records), np.bool_)
    some[chosen] = True
    place = window.base + records.start
    file = np.searchsorted(np.array(stream.starts), place, side="right") - 1
    _transactions(found, window, some)
    headers = {
        record: file_header(records.data(record)) for record in chosen[records.shape[chosen] == FILE_HEADER].tolist()
    }
    _sections(found, stream, window, file, headers)
    _times(found, window, file, headers)
    for record in chosen[facts.io[chosen] == METADATA].tolist():
        if record in records.definition:
            at, index = int(place[record]), int(records.column("TDR index")[record])
            location = stream.location(at, window.base + int(records.stop[record]))
            found.metadata.append(MetadataText(records.definition[record], at, *location, index))
    dml = some & facts.member & (facts.table >= 0) & np.isin(facts.io, _WITH_COLUMNS)
    found.tables |= {facts.tables[code] for code in np.unique(facts.table[dml]).tolist()}
    there = np.flatnonzero(some & facts.csn.is_valid().to_numpy(zero_copy_only=False))
    if len(there):
        first, last = (facts.csn[int(at)].as_py() for at in (there[0], there[-1]))
        found.csn = (first if found.csn is None else found.csn[0], last)
    found.continued += int(np.count_nonzero(some & (facts.goes_on | np.isin(facts.io, (LOB, FRAGMENT)))))
    found.undoing += int(np.count_nonzero(some & (records.column("UndoFlag") == 1)))
    sideless = some & facts.half & (facts.io != KEYED) & (records.side == MISSING)
    for counts, rows in ((found.sideless, sideless), (found.nonstop, some & facts.nonstop)):
        counts.update(Counter(file[rows].tolist()))
    for one in np.unique(file[chosen]).tolist():
        vote = None if one in found.votes else _vote(records, facts, chosen[file[chosen] == one])
        if vote is not None:
            found.votes[one] = vote
    return len(chosen)


def _transactions(found: FirstPass, window: TextWindow, some: Bools) -> None:
    """The transaction that is open at the end of a window."""
    records, facts = window.records, window.facts
    if found.open is not None:
        found.borders[window.base] = WindowBorder(found.open, found.last, found.end)
    known = transactions_of(facts, some, found.open is not None)
    if found.open is not None and known.leads:
        mine = known.of == 0
        _add_tokens(found.open, facts, mine & ~facts.abort)
        found.open.aborted |= bool(known.aborted[0])
    if len(known.first) and not (known.leads and len(known.first) == 1 and not known.closed[0]):
        found.open = None
        first = int(known.first[-1])
        if not known.closed[-1] and first >= 0 and facts.trans[first] >= 0:
            found.open = Open(f"{window.base + int(records.start[first])} {int(records.rba[first])}")
            _add_tokens(found.open, facts, known.of == len(known.first) - 1)
    if len(window.chosen):
        last = int(window.chosen[-1])
        found.last = window.base + int(records.start[last])
        is_known = records.total[last] != MISSING and records.rba[last] > 0
        found.end = int(records.rba[last] + records.total[last]) if is_known else MISSING


def _add_tokens(one: Open, facts: RecordFacts, some: Bools) -> None:
    """The first CSN and the first id of some records, if it has none."""
    rows = pa.array(np.flatnonzero(some))
    for name in ("csn", "xid"):
        values = getattr(facts, name).take(rows).drop_null()
        if getattr(one, name) is None and len(values):
            setattr(one, name, values[0].as_py())


FileHeaders = Mapping[int, Mapping[str, str]]
"""The fields of the file headers of a window, by the number of the record."""


def _sections(found: FirstPass, stream: Stream, window: TextWindow, file: Ints, headers: FileHeaders) -> None:
    records, chosen, base = window.records, window.chosen, window.base
    end = base + int(window.end[-1])
    marks: dict[int, Section] = {at: Section(at, stream.file_at(at)) for at in stream.starts[:-1] if base <= at < end}
    for at, path in _named_trails(window):
        one = marks.setdefault(base + at, Section(base + at, stream.file_at(base + at)))
        one.name, one.sequence = path, split_path(path)[1]
    for record, fields in headers.items():
        place = base + int(records.start[record])
        one = marks.setdefault(place, Section(place, int(file[record])))
        sequence, name = fields.get("FileSeqno", ""), fields.get("FileName") or None
        one.header = f"{int(records.moment[record])} {int(records.length[record])}"
        one.name = one.name or name
        if one.sequence is None:
            one.sequence = int(sequence) if sequence.isdecimal() else split_path(name)[1] if name else None
    if not found.sections and base not in marks:
        found.sections.append(Section(base, stream.file_at(base), is_new=False))
    edges = sorted(marks)
    starts = base + records.start[chosen]
    cuts = [0, *np.searchsorted(starts, edges).tolist(), len(chosen)]
    for number, (low, high) in enumerate(pairwise(cuts)):
        if number:
            found.sections.append(marks[edges[number - 1]])
        if high > low:
            _extend(found.sections[-1], records, window.facts, chosen[low:high])


def _named_trails(window: TextWindow) -> Iterator[tuple[int, str]]:
    """The offsets at which the text names a trail file, with its path."""
    records, lines = window.records, window.records.lines
    notes = np.flatnonzero((lines.role == Role.NOTE) & (lines.at[:-1] < window.end[-1]))
    matched = pc.extract_regex(lines.texts(notes), _TRAIL)
    for row in np.flatnonzero(matched.is_valid().to_numpy(zero_copy_only=False)).tolist():
        name = matched.field("shown")[row].as_py() or matched.field("opened")[row].as_py()
        yield int(lines.at[notes[row]]), text_of(name.strip(b" '\""))
    for record, name in records.trail.items():
        if records.start[record] < window.end[-1]:
            yield int(records.start[record]), name


def _extend(section: Section, records: TrailRecords, facts: RecordFacts, some: Ints) -> None:
    """Adds records to a section."""
    section.count += len(some)
    there = some[records.rba[some] != MISSING]
    if len(there):
        low, high = int(records.rba[there].min()), int(records.rba[there].max())
        section.lowest = low if section.lowest == MISSING else min(section.lowest, low)
        section.highest = max(section.highest, high)
    section.is_rising &= section.header is None or bool((records.shape[some] != FILE_HEADER).sum() >= len(some) - 1)
    rows = some[(records.shape[some] == RECORD) & (records.rba[some] > 0)]
    if not len(rows):
        return
    rba = records.rba[rows]
    before = np.append(section.last, rba[:-1])
    section.is_rising &= bool(((rba > before) | facts.twin[rows]).all())
    section.first = int(rba[0]) if section.first == MISSING else section.first
    section.last = int(rba[-1])
    total = int(records.total[rows[-1]])
    section.next = MISSING if total == MISSING else section.last + total


def _times(found: FirstPass, window: TextWindow, file: Ints, headers: FileHeaders) -> None:
    records, chosen = window.records, window.chosen
    julian = records.julian.copy()
    for record, fields in headers.items():
        if julian[record] == MISSING:
            created = from_iso(fields.get("CreationTime"))
            julian[record] = MISSING if created is None else created
    for one in np.unique(file[chosen]).tolist():
        mine = chosen[file[chosen] == one]
        shown = shown_offsets(window.base + records.start[mine], records.moment[mine], julian[mine])
        _add_shown(found.shown.setdefault(one, []), shown)
        unzoned = (records.moment[mine] != MISSING) & (records.julian[mine] == MISSING)
        found.unzoned[one] += int(np.count_nonzero(unzoned))


def _add_shown(known: list[ZoneOffsetSpan], more: Sequence[ZoneOffsetSpan]) -> None:
    """Adds ranges of zones that follow; one that continues the last one is the same range."""
    for one in more:
        if known and known[-1].offset == one.offset:
            known[-1] = ZoneOffsetSpan(known[-1].first, one.last, one.offset)
        else:
            known.append(one)


def forms_of(io: Ints, prefix: int | Ints) -> Ints:
    """The layouts of the data of records of some types: values of :class:`BodyLayout`."""
    forms = np.full(len(io), int(BodyLayout.OPAQUE), dtype=np.int64)
    forms[np.isin(io, LISTED)] = BodyLayout.COLUMNS
    forms[io == KEYED] = BodyLayout.KEYED
    unified = np.where(np.asarray(prefix) == 4, BodyLayout.UNIFIED_4, BodyLayout.UNIFIED_2)
    return np.where(np.isin(io, UNIFIED), unified, forms)


def _vote(records: TrailRecords, facts: RecordFacts, rows: Ints) -> _Vote | None:
    """Evidence from the bodies of a few records, evenly chosen."""
    unified, listed = (rows[np.isin(facts.io[rows], some)] for some in (UNIFIED, (*LISTED, KEYED)))
    listed, unified = (
        listed[:: max(1, -(-len(listed) // _SAMPLE))],
        unified[:: max(1, -(-len(unified) // _UNIFIED_SAMPLE))],
    )
    index = np.sort(np.concatenate([listed, unified]))
    if not len(index):
        return None
    index = index[records.body_at[index + 1] > records.body_at[index]]
    nonstop = facts.nonstop[index]
    forms = forms_of(facts.io[index], 2)
    skip = np.maximum(records.column("SyskeyLen")[index], 0)
    start, stop = records.body_at[index], records.body_at[index + 1]
    order, evidence = detect_order(records.body, np.where(nonstop, -1, start), stop, forms, skip)
    two = np.isin(facts.io[index], UNIFIED) & ~nonstop
    form, of_prefix = detect_unified(records.body, start[two], stop[two], order or "little", skip[two])
    if order is None and nonstop.any():
        order, evidence = "big", f"{plural(int(nonstop.sum()), 'record')} from a NonStop, which writes big-endian."
    return _Vote(
        len(index), order, evidence, None if form is None else 4 if form is BodyLayout.UNIFIED_4 else 2, of_prefix
    )


# --- the plan ---------------------------------------------------------------------------------------------------------


def finish(plan: Plan, scans: Sequence[Scan], options: Options) -> list[TrailState]:
    """The state of each split; sets ``plan.shared``, adds rows to ``plan.detected`` and facts to ``plan.facts``."""
    found: list[FirstPass] = [scan.found for scan in scans]
    sections = _merged(one for some in found for one in some.sections)
    files = trail_files(sections, options.trail_sequence)
    beside = options.side_definitions()
    at = np.array([one.at for one in sections], np.int64)
    shared = TrailContext(
        options, at, files, sections, _bodies(plan, found, options), _shown(found), Lookup([], [], []), at[:0], at[:0]
    )
    plan.shared = shared
    _sides(plan, found)
    _zones(plan, found, shared.shown, options)
    texts = [
        replace(one, trail=files[shared.file_of(one.at)], file_name=plan.files[one.file_index].path)
        for some in found
        for one in some.metadata
    ]
    versions, in_force, places = build_versions(texts, beside)
    shared.lookup = Lookup(versions, in_force, places)
    if versions:
        of_records = sum(version.origin == "record" for version in versions)
        evidence = (
            f"{plural(of_records, 'table version')} of Metadata records, "
            f"{len(versions) - of_records} of the option definitions"
        )
        plan.detected.append(detected_row("definitions", "known", evidence, bool(beside)))
    starts = np.array(Stream(plan.files).starts)
    done: set[int] = set()
    for some in found:
        for one in (border.open for border in some.borders.values()):
            if id(one) not in done:
                done.add(id(one))
                one.first = _location(shared, starts, plan, *map(int, one.first.split()))
    last = next((one.open for one in reversed(found) if one.sections), None)
    _facts(plan, found, sections, files, last)
    return [TrailState(some.borders, frozenset(some.tables)) for some in found]


def _location(shared: TrailContext, starts: Ints, plan: Plan, place: int, rba: int) -> str:
    """The name of a record: its position, else its location in the capture."""
    if rba != MISSING and place not in shared.second:
        return position_text(shared.files[shared.file_of(place)].shown, rba)
    index = int(np.searchsorted(starts, place, side="right")) - 1
    return f"{index}:{place - int(starts[index])}"


def _merged(sections: Iterable[Section]) -> list[Section]:
    """The sections of all splits: one without records is the beginning of the next one, since text before a header
    names the file of the header."""
    out: list[Section] = []
    for one in sections:
        before = out[-1] if out else None
        if before is not None and not before.count and before.header is None and before.file == one.file:
            out.pop()
            one.at, one.is_new = before.at, one.is_new or before.is_new
            one.name = before.name or one.name
            one.sequence = one.sequence if before.sequence is None else before.sequence
        out.append(one)
    return out


def _bodies(plan: Plan, found: Sequence[FirstPass], options: Options) -> list[Bodies]:
    """Byte order of bodies, and the prefix of unified updates, by file."""
    votes: dict[int, _Vote] = {}
    for some in found:
        for index, one in some.votes.items():
            if index not in votes or votes[index].bodies < one.bodies:
                votes[index] = one
    prefix = next((one.prefix for one in votes.values() if one.prefix is not None), 2)
    order = next((one.order for one in votes.values() if one.order is not None), None)
    out = []
    for index, entry in enumerate(plan.files):
        vote = votes.get(index)
        mine = vote.order if vote is not None else None
        is_known = options.byte_order is not None or order is not None or vote is None
        chosen = cast("Order", options.byte_order or mine or order or "little")
        wide = vote.prefix if vote is not None else None
        out.append(Bodies(chosen, is_known, options.prefix or wide or prefix))
        if vote is not None and options.byte_order is None:
            evidence = vote.order_evidence + ("" if mine else _OF_OTHERS if is_known else _UNKNOWN_ORDER)
            value = chosen if is_known else "unknown"
            plan.detected.append(detected_row("byte_order", value, evidence, False, entry.path))
        nonstop = sum(one.nonstop[index] for one in found)
        if nonstop and options.null_indicators is None:
            evidence = f"{plural(nonstop, 'record')} from a NonStop (detected from file names, TRANSID or system keys)"
            plan.detected.append(detected_row("null_indicators", _OF_NONSTOP, evidence, False, entry.path))
        if vote is not None and wide is not None and options.prefix is None:
            row = detected_row("unified_prefix", str(wide), vote.prefix_evidence, False, entry.path)
            plan.detected.append(row)
    indicators = None if options.null_indicators is None else "every column" if options.null_indicators else "none"
    for setting, given in (
        ("byte_order", options.byte_order),
        ("null_indicators", indicators),
        ("unified_prefix", options.prefix),
    ):
        if given is not None:
            plan.detected.append(detected_row(setting, str(given), "given as an option", True))
    return out


_OF_NONSTOP: Final = "every column; of a NonStop, none"
_OF_OTHERS: Final = " The one of the capture's other files is used."
_UNKNOWN_ORDER: Final = " No values are decoded; give it with the option byte_order."
_NO_ZONE: Final = (
    "printed times have no zone, and no header token shows one (HEADERTOKEN DETAIL); give it with the option time_zone"
)


def _sides(plan: Plan, found: Sequence[FirstPass]) -> None:
    """The assumed image of updates whose text does not state it, by file."""
    for index, entry in enumerate(plan.files):
        count = sum(one.sideless[index] for one in found)
        if count:
            evidence = f"{plural(count, 'update')} with neither BeforeAfter nor an image line"
            plan.detected.append(detected_row("image", "after", evidence, False, entry.path))


def _shown(found: Sequence[FirstPass]) -> dict[int, list[ZoneOffsetSpan]]:
    """The zones that records show, by file."""
    shown: dict[int, list[ZoneOffsetSpan]] = {}
    for one in found:
        for index, some in one.shown.items():
            _add_shown(shown.setdefault(index, []), some)
    return shown


def _zones(plan: Plan, found: Sequence[FirstPass], shown: Mapping[int, list[ZoneOffsetSpan]], options: Options) -> None:
    """The zone of printed times, by file; a fact if there is none."""
    if options.time_zone is not None:
        plan.detected.append(detected_row("time_zone", options.time_zone, "given as an option", True))
        return
    without = 0
    for index, entry in enumerate(plan.files):
        offsets = sorted({one.offset for one in shown.get(index, ())})
        if offsets:
            names = ", ".join(map(offset_name, offsets))
            evidence = f"printed times less those in UTC that header tokens hold: {names}"
            if len(offsets) > 1:
                evidence += "; a record without header tokens has the zone of the nearest one that has them"
            plan.detected.append(detected_row("time_zone", names, evidence, False, entry.path))
        elif any(one.unzoned[index] for one in found):
            without += 1
            plan.detected.append(detected_row("time_zone", "unknown", _NO_ZONE, False, entry.path))
    if without:
        plan.facts["changed_at"] = f"null in {plural(without, 'file')}: {_NO_ZONE}"


def _facts(
    plan: Plan,
    found: Sequence[FirstPass],
    sections: Sequence[Section],
    files: Sequence[TrailFile],
    still_open: Open | None,
) -> None:
    positions = [
        position_text(file.shown, rba)
        for one, file in zip(sections, files, strict=True)
        for rba in (one.lowest, one.highest)
        if rba != MISSING
    ]
    csn = [one.csn for one in found if one.csn is not None]
    plan.facts |= {
        "table_versions": len(plan.shared.versions),
        "open_transactions": int(still_open is not None),
        "first_position": min(positions, default=None),
        "last_position": max(positions, default=None),
        "first_csn": csn[0][0] if csn else None,
        "last_csn": csn[-1][1] if csn else None,
        "fragments": sum(one.continued for one in found),
        "undo_records": sum(one.undoing for one in found),
    }
    names = sorted({one.name for one in files if one.name})
    is_known = any(one.shown for one in files)
    value = ", ".join(names) if names else "numbered by an option" if is_known else "unknown"
    evidence = "as Logdump's text or file headers name them" if names else "the text does not name a trail file"
    plan.detected.append(detected_row("trail_sequence", value[:200], evidence, not names and is_known))


# --- what needs a second look -----------------------------------------------------------------------------------------

Range = tuple[int, int]
"""Bytes of the stream that a split has."""


def repeated_sections(shared: TrailContext) -> Ints:
    """The sections whose records may have the position of another record: those whose RBAs do not rise, and those of
    one trail file whose RBAs overlap."""
    groups: dict[TrailFile, list[tuple[int, int, int]]] = {}
    found: set[int] = set()
    for number, (one, file) in enumerate(zip(shared.sections, shared.files, strict=True)):
        if one.highest == MISSING:
            continue
        if not one.is_rising:
            found.add(number)
        groups.setdefault(file, []).append((one.lowest, one.highest, number))
    for members in groups.values():
        reach, owner = -1, -1
        for low, high, number in sorted(members):
            if low <= reach:
                found |= {owner, number}
            if high > reach:
                reach, owner = high, number
    return np.array(sorted(found), np.int64)


def fingerprints(
    files: list[FileEntry], reading: RecordSettings, shared: TrailContext, sections: Ints, given: Range
) -> tuple[Ints, Ints, Ints, Ints]:
    """The records of some sections in a split: start in the stream, section, RBA, and a hash of the text without white
    space, which is equal for two prints of one record."""
    out: list[list[int]] = [[], [], [], []]
    with Stream(files) as stream:
        for window in windows(stream, *given, reading, heads=True):
            records, rows = window.records, window.chosen
            rows = rows[(records.rba[rows] > 0) | ((records.shape[rows] == FILE_HEADER) & (records.rba[rows] == 0))]
            place = window.base + records.start[rows]
            section = shared.file_of(place)
            some = np.isin(section, sections)
            for row, at, of in zip(rows[some].tolist(), place[some].tolist(), section[some].tolist(), strict=True):
                text = window.buffer[records.start[row] : records.stop[row]].tobytes().translate(None, b" \t\r\n")
                mark = int.from_bytes(blake2b(text, digest_size=8).digest(), "little", signed=True)
                for into, value in zip(out, (at, of, int(records.rba[row]), mark), strict=True):
                    into.append(value)
    starts, owners, rbas, marks = (np.array(one, np.int64) for one in out)
    return starts, owners, rbas, marks


def note_repeats(shared: TrailContext, found: Iterable[tuple[Ints, Ints, Ints, Ints]]) -> None:
    """Sets ``repeated`` and ``second`` of what all splits share, from :func:`fingerprints` of all of them."""
    place, section, rba, mark = (np.concatenate(one) for one in zip(*found, strict=True))
    files = {file: number for number, file in enumerate(dict.fromkeys(shared.files))}
    file = np.array([files[one] for one in shared.files])[section]
    order = np.lexsort([place, mark, rba, file])
    same = (file[order][1:] == file[order][:-1]) & (rba[order][1:] == rba[order][:-1])
    again = order[1:][same & (mark[order][1:] == mark[order][:-1])]
    shared.repeated = np.sort(place[again])
    left = np.setdiff1d(np.arange(len(place)), again)
    order = left[np.lexsort([place[left], rba[left], file[left]])]
    same = (file[order][1:] == file[order][:-1]) & (rba[order][1:] == rba[order][:-1])
    shared.second = np.sort(place[order[1:][same]])
