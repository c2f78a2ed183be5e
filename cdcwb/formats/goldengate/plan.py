"""The plan of a capture of Logdump text: options, a first pass over all splits, and what is in force at their records
(docs/formats/goldengate.md §3.7, §4.2, §4.8, §5.2 and §7).

Logdump prints the name of a trail file when it opens it, and a trail file begins with its header. The records between
two such locations are a *section*. Sections, definitions and zones are found in the first pass, by their offsets in the
stream of all files of the capture.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import pairwise, product
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats import options as opt
from cdcwb.formats.arrays import as_array
from cdcwb.formats.dissector import detected_row
from cdcwb.formats.goldengate.contents import file_header, fit, walk, widths_of
from cdcwb.formats.goldengate.definitions import (
    RECORD_VERSION,
    Lookup,
    MetadataText,
    TrailFile,
    Version,
    read_definitions,
)
from cdcwb.formats.goldengate.layout import KEYED, LISTED, METADATA, MISSING, SEGMENTS, UNIFIED, Order
from cdcwb.formats.goldengate.lines import Role
from cdcwb.formats.goldengate.records import FILE_HEADER, RECORD, RecordSettings, TrailRecords, text_of
from cdcwb.formats.goldengate.segments import OpenTransaction, TextWindow, transactions_of, windows
from cdcwb.formats.kernels import Bools, Ints
from cdcwb.formats.moments import from_iso, offset_name, parse_zone
from cdcwb.formats.records import FileEntry, Plan, Scan, Stream
from cdcwb.words import plural

OPTIONS: Final[dict[str, str]] = {
    "time_zone": "zone of printed times: an IANA name or an offset such as +08:00 (auto: from header tokens)",
    "definitions": "DEFGEN file with the definitions of tables that the capture does not have",
    "byte_order": "of record bodies: auto, big, little",
    "unified_prefix": "size in bytes of the length that precedes the before image of unified updates: auto, 2, 4",
    "charset": "character set of text columns and names (utf-8)",
    "trail_sequence": "number of the first trail file, if the capture does not give it",
    "split_size": "bytes of a large file that one task reads (33554432)",
    **opt.SHARED,
}
"""The description of every option of the format."""

_SPLIT_SIZE: Final = 32 << 20
_SAMPLE: Final = 256  # bodies of a file that are looked at
_ORDERS: Final[tuple[Order, ...]] = ("little", "big")
_COUNTED: Final = ("continued", "undoing", "sideless", "nonstop", "unzoned")
"""What is counted in a file: records that are continued or continue others; those with UndoFlag 1; updates of one image
without a header block and an image line, so that the image is unknown; records of a NonStop; those with a printed time
and none in UTC. Further :func:`_votes`."""
_WITH_COLUMNS: Final = (*LISTED, KEYED, *UNIFIED)
_TRAIL: Final = (
    r"^(?:(?i:current +logtrail +is) +(?P<shown>.*)"
    r"|(?i:logdump) *\d* *> *(?i:open) +(?P<opened>[^ '\"]+|'[^']+'|\"[^\"]+\").*)$"
)


Counts = defaultdict[int, Counter[Any]]
"""By file, what is counted and how often."""


@dataclass(frozen=True, slots=True)
class Options:
    """The checked options of a capture. None: to be detected."""

    time_zone: str | None = None
    definitions: tuple[str, ...] = ()
    byte_order: Order | None = None
    prefix: int | None = None
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
        zone = opt.optional("time_zone", values, opt.as_text)
        if zone is not None:
            parse_zone(zone)

        def choice(name: str, *choices: str) -> str | None:
            return opt.optional(name, values, opt.as_choice, ("auto", *choices))

        definitions, prefix = values.get("definitions", ()), choice("unified_prefix", "2", "4")
        return cls(
            time_zone=zone,
            definitions=(str(definitions),) if isinstance(definitions, (str, Path)) else tuple(map(str, definitions)),
            byte_order=cast("Order | None", choice("byte_order", "big", "little")),
            prefix=None if prefix is None else int(prefix),
            charset=opt.check_charset("charset", values.get("charset", "utf-8")),
            trail_sequence=opt.optional("trail_sequence", values, opt.as_whole, 0),
            split_size=opt.as_whole("split_size", values.get("split_size", _SPLIT_SIZE), 64),
            mode=opt.as_choice("mode", values.get("mode", "PERMISSIVE"), opt.MODES),
            images=opt.as_bool("images", values.get("images", "true")),
        )


class Bodies(NamedTuple):
    """How the data of a file's records are written. ``is_known``: the byte order is; ``prefix``: bytes before the
    before image of unified updates."""

    order: Order = "little"
    is_known: bool = True
    prefix: int = 2


@dataclass(slots=True)
class Section:
    """Records of one trail file, from byte ``at`` of the stream on. ``file``: index of the capture's file; ``is_new``:
    whether it begins there, or continues the section before. ``name``, ``sequence``: path and number of the trail file,
    if the text or its header gives them. ``has_header``: it begins with a file header.
    ``first``, ``last``, ``next``: RBA of its first and last record, and that after the last one; MISSING if unknown.
    ``is_rising``: the RBA of each record is higher than that of the one before."""

    at: int
    file: int
    is_new: bool = True
    name: str | None = None
    sequence: int | None = None
    has_header: bool = False
    first: int = MISSING
    last: int = MISSING
    lowest: int = sys.maxsize
    highest: int = MISSING
    next: int = MISSING
    is_rising: bool = True
    count: int = 0


class WindowBorder(NamedTuple):
    """The transaction that is open at the start of a window; the start in the stream of the record before it, and the
    RBA after that record (MISSING: unknown)."""

    open: OpenTransaction
    last: int
    end: int


@dataclass(slots=True)
class FirstPass:
    """What the first pass finds in a split. ``counts`` of :data:`_COUNTED`; ``shown``: offsets from UTC by file, in
    microseconds. ``borders``: of windows at which a transaction is open, by the start of the window. ``widths``: by
    printed name of a table of changes and file, the number of columns in either byte order. ``csn``: of the first and
    last record that has one. ``open``, ``last``, ``end``: at the end of the split, as in a :class:`WindowBorder`."""

    sections: list[Section] = field(default_factory=list)
    metadata: list[MetadataText] = field(default_factory=list)
    counts: Counts = field(default_factory=lambda: defaultdict(Counter))
    shown: dict[int, set[int]] = field(default_factory=dict)
    borders: dict[int, WindowBorder] = field(default_factory=dict)
    widths: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    csn: tuple[str, str] | None = None
    open: OpenTransaction | None = None
    last: int = MISSING
    end: int = MISSING


TrailState = Mapping[int, WindowBorder]
"""What a split needs to know: the transactions that are open at the starts of its windows."""


@dataclass(slots=True)
class TrailContext:
    """What all splits need. ``at``: the bytes of the stream at which sections begin, with their trail ``files``;
    ``starts``: those of the files of the capture; ``bodies`` and ``shown`` by file. ``repeated``: starts of records
    that were printed before, ``second``: of those with the position of a different one before them. ``numbered``: the
    first trail file of each number."""

    options: Options
    at: Ints
    starts: Ints
    files: list[TrailFile]
    sections: list[Section]
    bodies: list[Bodies]
    shown: dict[int, set[int]]
    lookup: Lookup
    repeated: Ints
    second: Ints
    numbered: dict[int, TrailFile]

    @property
    def versions(self) -> Sequence[Version]:
        """The versions of tables."""
        return self.lookup.versions

    def file_of(self, places: Ints | int) -> Any:
        """The number in ``files`` of the trail file of records that begin at these bytes of the stream, or this one."""
        return np.searchsorted(self.at, places, side="right") - 1

    def location(self, at: int, rba: int) -> str:
        """The name of a record that begins at a byte of the stream: its position, else its location in the capture."""
        if rba != MISSING and at not in self.second:
            return position_text(self.files[self.file_of(at)].shown, rba)
        index = int(np.searchsorted(self.starts, at, side="right")) - 1
        return f"{index}:{at - int(self.starts[index])}"

    def begin(self, at: int, rba: int) -> str:
        """The name of the first record of a transaction: its :meth:`location`; but that in the capture if another trail
        file before its own has the same number, and so the same positions."""
        file = self.files[self.file_of(at)]
        return self.location(at, rba if self.numbered[file.shown] == file else MISSING)


def position_text(sequence: int, rba: int) -> str:
    """A position: ten digits of the trail file's number, ten of the RBA."""
    return f"{sequence:010d}{rba:010d}"


# --- the first pass ---------------------------------------------------------------------------------------------------


def scan(found: FirstPass, stream: Stream, window: TextWindow, options: Options) -> int:
    """Adds a window to what is found in its split; returns the number of records."""
    records, chosen = window.records, window.chosen
    some = np.zeros(len(records), np.bool_)
    some[chosen] = True
    place = window.base + records.start
    file = np.searchsorted(np.array(stream.starts), place, side="right") - 1
    _transactions(found, window, some)
    heads = chosen[records.shape[chosen] == FILE_HEADER].tolist()
    headers = {record: file_header(records.data(record)) for record in heads}
    _sections(found, stream, window, file, headers)
    julian = records.julian.copy()
    for record, fields in headers.items():
        created = from_iso(fields.get("CreationTime")) if julian[record] == MISSING else None
        julian[record] = julian[record] if created is None else created
    for record in chosen[records.io[chosen] == METADATA].tolist():
        if record in records.definition:
            at, index = int(place[record]), int(records.column("TDR index")[record])
            location = stream.location(at, window.base + int(records.stop[record]))
            found.metadata.append(MetadataText(records.definition[record], at, *location, index))
    there = np.flatnonzero(some & as_array(records.csn.is_valid()))
    if len(there):
        first, last = (records.csn[int(at)].as_py() for at in (there[0], there[-1]))
        found.csn = (first if found.csn is None else found.csn[0], last)
    counted = (
        records.goes_on | np.isin(records.io, SEGMENTS),
        records.column("UndoFlag") == 1,
        records.half & (records.io != KEYED) & (records.side == MISSING),
        records.nonstop,
        (records.moment != MISSING) & (records.julian == MISSING),
    )
    for what, rows in zip(_COUNTED, counted, strict=True):
        for one in np.flatnonzero(np.bincount(file[some & rows])).tolist():
            found.counts[one][what] += int(np.count_nonzero(file[some & rows] == one))
    changes = np.flatnonzero(some & records.member & (records.table >= 0) & np.isin(records.io, _WITH_COLUMNS))
    for one in np.unique(file[chosen]).tolist():
        mine = chosen[file[chosen] == one]
        found.shown.setdefault(one, set()).update(shown_offsets(records.moment[mine], julian[mine]))
        if "bodies" not in found.counts[one] and np.isin(records.io[mine], _WITH_COLUMNS).any():
            found.counts[one].update(_votes(records, mine))
        _widths(found, records, changes[file[changes] == one], one, options)
    return len(chosen)


def _transactions(found: FirstPass, window: TextWindow, some: Bools) -> None:
    """The transaction that is open at the end of a window."""
    records = window.records
    if found.open is not None:
        found.borders[window.base] = WindowBorder(found.open, found.last, found.end)
    known = transactions_of(records, some, found.open is not None)
    if found.open is not None and known.leads:
        _add_tokens(found.open, records, (known.of == 0) & ~records.abort)
        found.open.aborted |= bool(known.aborted[0])
    if len(known.first) and not (known.leads and len(known.first) == 1 and not known.closed[0]):
        found.open = None
        first = int(known.first[-1])
        if not known.closed[-1] and first >= 0 and records.trans[first] >= 0:
            found.open = OpenTransaction(window.base + int(records.start[first]), int(records.rba[first]))
            _add_tokens(found.open, records, known.of == len(known.first) - 1)
    if len(window.chosen):
        last = int(window.chosen[-1])
        found.last = window.base + int(records.start[last])
        is_known = records.total[last] != MISSING and records.rba[last] > 0
        found.end = int(records.rba[last] + records.total[last]) if is_known else MISSING


def _add_tokens(one: OpenTransaction, records: TrailRecords, some: Bools) -> None:
    """The first CSN and the first id of some records, if it has none."""
    for name, texts in (("csn", records.csn), ("xid", records.xid)):
        values = texts.filter(pa.array(some)).drop_null()
        if getattr(one, name) is None and len(values):
            setattr(one, name, values[0].as_py())


def _widths(found: FirstPass, records: TrailRecords, rows: Ints, file: int, options: Options) -> None:
    """One more than the highest column index in the records of each table of a file, in either byte order."""
    most = np.zeros((len(records.tables), 2), np.int64)
    table, start, stop = records.table[rows], records.body_at[rows], records.body_at[rows + 1]
    skip = np.maximum(records.column("SyskeyLen")[rows], 0)
    is_unified = np.isin(records.io[rows], UNIFIED)
    prefixes = (2, 4)[: 1 + is_unified.any()] if options.images else ()
    is_short = (stop - start < records.length[rows]) & ~is_unified
    for (at, order), prefix in product(enumerate(_ORDERS), prefixes):
        widths = widths_of(records.io[rows], prefix)
        cells = walk(records.body, start, stop, order == "big", widths, skip, bare=records.nonstop[rows])
        valid = ((cells.bad < 0) | is_short)[cells.row] & ~(cells.odd & is_unified[cells.row])
        np.maximum.at(most[:, at], table[cells.row[valid]], cells.index[valid] + 1)
    for code in np.unique(table).tolist():
        key = (records.tables[code], file)
        little, big = np.maximum(most[code], found.widths.get(key, (0, 0))).tolist()
        found.widths[key] = (little, big)


def _votes(records: TrailRecords, rows: Ints) -> dict[Any, int]:
    """Evidence from the bodies of a few records, evenly chosen: how many there are, how many of them fit their columns
    better in one byte order than in the other, how many are of unified updates, and how many of those fit better with
    a prefix of two or of four bytes."""
    samples = [rows[np.isin(records.io[rows], some)] for some in ((*LISTED, KEYED), UNIFIED)]
    some = np.sort(np.concatenate([one[:: max(1, -(-len(one) // _SAMPLE))] for one in samples]))
    some = some[(records.body_at[some + 1] > records.body_at[some]) & ~records.nonstop[some]]
    skip, io = np.maximum(records.column("SyskeyLen")[some], 0), records.io[some]
    spans, is_unified = (records.body_at[some], records.body_at[some + 1]), np.isin(io, UNIFIED)
    widths = [widths_of(io, size) for size in (2, 4)]
    fits = np.array([[fit(records.body, *spans, order, one, skip) for one in widths] for order in _ORDERS])
    votes: dict[Any, int] = {"bodies": len(some), "unified": int(is_unified.sum())}
    for names, (one, other) in ((_ORDERS, fits.max(axis=1)), ((2, 4), fits.max(axis=0)[:, is_unified])):
        votes[names[0]], votes[names[1]] = int((one > other).sum()), int((other > one).sum())
    return votes


# --- trail files ------------------------------------------------------------------------------------------------------

_NUMBERED: Final = re.compile(r"(.*?)([0-9]{9}|[0-9]{6}|(?<![0-9])[0-9]{1,5})", re.DOTALL)  # nine since 12.3


def split_path(path: str) -> tuple[str, int | None]:
    """The path without the trail file's number, and the number: the last nine or six digits of the name, or all of
    them. None if the name does not end with a digit."""
    found = _NUMBERED.fullmatch(path)
    return (path, None) if found is None else (found[1], int(found[2]))


def _sections(
    found: FirstPass, stream: Stream, window: TextWindow, file: Ints, headers: Mapping[int, Mapping[str, str]]
) -> None:
    """``headers``: the fields of the file headers of a window, by the number of the record."""
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
        one.has_header = True
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
            _extend(found.sections[-1], records, chosen[low:high])


def _named_trails(window: TextWindow) -> Iterator[tuple[int, str]]:
    """The offsets at which the text names a trail file, with its path."""
    records, lines = window.records, window.records.lines
    notes = np.flatnonzero((lines.role == Role.NOTE) & (lines.at[:-1] < window.end[-1]))
    matched = pc.extract_regex(lines.texts(notes), _TRAIL)
    for row in np.flatnonzero(as_array(matched.is_valid())).tolist():
        name = matched.field("shown")[row].as_py() or matched.field("opened")[row].as_py()
        yield int(lines.at[notes[row]]), text_of(name.strip(b" '\""))
    for record, name in records.trail.items():
        if records.start[record] < window.end[-1]:
            yield int(records.start[record]), name


def _extend(section: Section, records: TrailRecords, some: Ints) -> None:
    """Adds records to a section."""
    section.count += len(some)
    known = records.rba[some][records.rba[some] != MISSING]
    if len(known):
        section.lowest = min(section.lowest, int(known.min()))
        section.highest = max(section.highest, int(known.max()))
    section.is_rising &= not section.has_header or bool((records.shape[some] != FILE_HEADER).sum() >= len(some) - 1)
    rows = some[(records.shape[some] == RECORD) & (records.rba[some] > 0)]
    if not len(rows):
        return
    rba, total = records.rba[rows], int(records.total[rows[-1]])
    section.is_rising &= bool(((rba > np.append(section.last, rba[:-1])) | records.twin[rows]).all())
    section.first = int(rba[0]) if section.first == MISSING else section.first
    section.last = int(rba[-1])
    section.next = MISSING if total == MISSING else section.last + total


def _merged(sections: Iterable[Section]) -> list[Section]:
    """The sections of all splits: one without records is the beginning of the next one, since text before a header
    names the file of the header."""
    out: list[Section] = []
    for one in sections:
        before = out[-1] if out else None
        if before is not None and not before.count and not before.has_header and before.file == one.file:
            out.pop()
            one.at, one.is_new = before.at, one.is_new or before.is_new
            one.name = before.name or one.name
            one.sequence = one.sequence if before.sequence is None else before.sequence
        out.append(one)
    return out


def trail_files(sections: Sequence[Section], first: int | None) -> list[TrailFile]:
    """The trail file of each section, in the order of the stream. One without a name is of the trail file before it if
    it continues it: its first record follows the last one there. ``first``: number of the first trail file with an
    unknown number; None: such files have no number."""
    out: list[TrailFile] = []
    unknown = -1
    now: TrailFile | None = None
    last: Section | None = None  # the latest one with records
    for one in sections:
        follows = last is not None and not one.has_header and last.last < one.first and one.first == last.next
        if one.sequence is not None:
            trail = split_path(one.name)[0] if one.name else now.trail if now is not None and now.name else ""
            now = TrailFile(trail, one.sequence, one.sequence, one.name)
        elif one.name is not None:
            now = TrailFile(one.name, 0, 0, one.name)
        elif now is None or (one.is_new and not follows):
            unknown += 1
            number = 0 if first is None else first + unknown
            now = TrailFile("", unknown if first is None else number, number)
        last = last if one.first == MISSING else one
        out.append(now)
    return out


# --- zones ------------------------------------------------------------------------------------------------------------

_MINUTE: Final = 60_000_000
_QUARTER: Final = 15 * _MINUTE
_FURTHEST: Final = 26 * 60 * _MINUTE


def shown_offsets(moment: Ints, julian: Ints) -> set[int]:
    """The UTC offsets (microseconds; local time less UTC) of records with both a printed time and UTC. An offset is a
    whole number of quarters of an hour, within a minute; other differences are ignored."""
    both = (moment != MISSING) & (julian != MISSING)
    raw = moment[both] - julian[both]
    offset = (raw + _QUARTER // 2) // _QUARTER * _QUARTER
    return set(offset[(np.abs(raw - offset) < _MINUTE) & (np.abs(offset) <= _FURTHEST)].tolist())


# --- the plan ---------------------------------------------------------------------------------------------------------

_OF_OTHERS: Final = " The one of the capture's other files is used."
_UNKNOWN_ORDER: Final = " No values are decoded; give it with the option byte_order."
_NO_ZONE: Final = (
    "printed times have no zone, and no header token shows one (HEADERTOKEN DETAIL); give it with the option time_zone"
)


def finish(plan: Plan, scans: Sequence[Scan], options: Options) -> list[TrailState]:
    """The state of each split; sets ``plan.shared``, adds rows to ``plan.detected`` and facts to ``plan.facts``."""
    found: list[FirstPass] = [scan.found for scan in scans]
    sections = _merged(one for some in found for one in some.sections)
    files = trail_files(sections, options.trail_sequence)
    at, none = np.array([one.at for one in sections], np.int64), np.zeros(0, np.int64)
    shown: dict[int, set[int]] = {index: set() for index in range(len(plan.files))}
    counts: Counts = defaultdict(Counter)
    total: Counter[Any] = Counter()
    for one in found:
        for index, offsets in one.shown.items():
            shown[index] |= offsets
        for index, count in one.counts.items():
            counts[index].update(count)
            total.update(count)
    bodies, starts = _bodies(plan, counts, total, options), np.array(Stream(plan.files).starts)
    numbered = {one.shown: one for one in reversed(files)}
    shared = TrailContext(options, at, starts, files, sections, bodies, shown, Lookup(), none, none, numbered)
    plan.shared = shared
    for index, entry in enumerate(plan.files):
        if sideless := counts[index]["sideless"]:
            evidence = f"{plural(sideless, 'update')} with neither BeforeAfter nor an image line"
            plan.detected.append(detected_row("image", "after", evidence, False, entry.path))
    _zones(plan, counts, shown, options)
    metadata = (one for some in found for one in some.metadata)
    located = ((one, files[shared.file_of(one.at)], plan.files[one.file_index].path) for one in metadata)
    texts = (replace(one, trail=trail, file_name=path) for one, trail, path in located)
    inferred = _definitions(plan, found, Lookup(texts, read_definitions(options.definitions, options.charset)))
    known = [(file, one) for file, one in zip(files, sections, strict=True) if one.highest != MISSING]
    positions = [position_text(file.shown, rba) for file, one in known for rba in (one.lowest, one.highest)]
    csn = [one.csn for one in found if one.csn is not None]
    still_open = next((one.open for one in reversed(found) if one.sections), None)
    plan.facts |= {
        "table_versions": len(shared.versions),
        "open_transactions": int(still_open is not None),
        "first_position": min(positions, default=None),
        "last_position": max(positions, default=None),
        "first_csn": csn[0][0] if csn else None,
        "last_csn": csn[-1][1] if csn else None,
        "fragments": total["continued"],
        "undo_records": total["undoing"],
    }
    names = sorted({one.name for one in files if one.name})
    is_known = any(one.shown for one in files)
    value = ", ".join(names) if names else "numbered by an option" if is_known else "unknown"
    evidence = "as Logdump's text or file headers name them" if names else "the text does not name a trail file"
    plan.detected.append(detected_row("trail_sequence", value[:200], evidence, not names and is_known))
    plan.detected += inferred
    return [some.borders for some in found]


def _definitions(plan: Plan, found: Sequence[FirstPass], lookup: Lookup) -> list[dict[str, Any]]:
    """The versions of tables; those without a definition have columns by their index, which a row for ``detected``
    states."""
    plan.shared.lookup, count = lookup, len(lookup.versions)
    if count:
        of_records = sum(version.origin == RECORD_VERSION for version in lookup.versions)
        evidence = f"{plural(of_records, 'table version')} of Metadata records, "
        evidence += f"{count - of_records} of the option definitions"
        plan.detected.append(detected_row("definitions", "known", evidence, bool(plan.shared.options.definitions)))
    names = sorted({name for some in found for name, _ in some.widths if not lookup.defined(name)})
    if not names:
        return []
    widths = dict.fromkeys(names, 0)
    for some in found:
        for (name, file), either in some.widths.items():
            if name in widths:
                widths[name] = max(widths[name], either[plan.shared.bodies[file].order == "big"])
    lookup.infer(widths)
    evidence = f"{plural(len(names), 'table')} without a definition: columns are named by their index, c0, c1 …"
    evidence += " and value types are inferred from the bytes; give a DEFGEN file with the option definitions"
    return [detected_row("definitions", "inferred", evidence, False)]


def _winner(votes: Counter[Any], first: Any, second: Any) -> Any:
    """The one with more votes; None if they have as many."""
    return None if votes[first] == votes[second] else first if votes[first] > votes[second] else second


def _bodies(plan: Plan, counts: Counts, total: Counter[Any], options: Options) -> list[Bodies]:
    """Byte order of bodies, and the prefix of unified updates, by file; where its bodies do not show them, those of all
    files."""
    out = []
    for index, entry in enumerate(plan.files):
        votes, is_sampled = counts[index], "bodies" in counts[index]
        nonstop, seen, prefix = votes["nonstop"], _winner(votes, *_ORDERS), _winner(votes, 2, 4)
        own: Order | None = seen or ("big" if nonstop else None)
        order = options.byte_order or own or _winner(total, *_ORDERS)
        size = options.prefix or prefix or _winner(total, 2, 4) or 2
        out.append(Bodies(order or "little", order is not None or not is_sampled, size))
        rows: list[tuple[str, str, str]] = []
        if is_sampled and options.byte_order is None:
            evidence = f"{votes['bodies']} sampled bodies: {votes['little']} fit their columns better little-endian, "
            evidence += f"{votes['big']} big-endian." + (_UNKNOWN_ORDER if order is None else "" if own else _OF_OTHERS)
            if nonstop and seen is None:
                evidence = f"{plural(nonstop, 'record')} from a NonStop, which writes big-endian."
            rows.append(("byte_order", order or "unknown", evidence))
        if nonstop:
            evidence = f"{plural(nonstop, 'record')} from a NonStop (detected from file names, TRANSID or system keys)"
            rows.append(("null_indicators", "every column; of a NonStop, none", evidence))
        if prefix and options.prefix is None:
            evidence = f"{votes['unified']} sampled unified updates: {votes[2]} fit their columns better with 2 bytes"
            rows.append(("unified_prefix", str(prefix), f"{evidence}, {votes[4]} with 4."))
        plan.detected += [detected_row(*row, False, entry.path) for row in rows]
    for setting, value in {"byte_order": options.byte_order, "unified_prefix": options.prefix}.items():
        if value is not None:
            plan.detected.append(detected_row(setting, str(value), "given as an option", True))
    return out


def _zones(plan: Plan, counts: Counts, shown: Mapping[int, set[int]], options: Options) -> None:
    """The zone of printed times, by file; a fact if there is none."""
    if options.time_zone is not None:
        plan.detected.append(detected_row("time_zone", options.time_zone, "given as an option", True))
        return
    without = 0
    for index, entry in enumerate(plan.files):
        offsets = sorted(shown[index])
        if offsets:
            names = ", ".join(map(offset_name, offsets))
            evidence = f"printed times less those in UTC that header tokens hold: {names}"
            if len(offsets) > 1:
                evidence += "; a record without header tokens has no time: give its zone with the option time_zone"
            plan.detected.append(detected_row("time_zone", names, evidence, False, entry.path))
        elif counts[index]["unzoned"]:
            without += 1
            plan.detected.append(detected_row("time_zone", "unknown", _NO_ZONE, False, entry.path))
    if without:
        plan.facts["changed_at"] = f"null in {plural(without, 'file')}: {_NO_ZONE}"


# --- records with one position ----------------------------------------------------------------------------------------

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
) -> Ints:
    """The records of some sections in a split, as rows [n, 4]: start in the stream, section, RBA, and a hash of the
    text without white space, which is equal for two prints of one record."""
    out: list[tuple[int, int, int, int]] = []
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
                out.append((at, of, int(records.rba[row]), mark))
    return np.array(out, np.int64).reshape(-1, 4)


def note_repeats(shared: TrailContext, found: Iterable[Ints]) -> None:
    """Sets ``repeated`` and ``second`` of what all splits share, from :func:`fingerprints` of all of them."""
    place, section, rba, mark = np.concatenate([*found]).T
    files = {file: number for number, file in enumerate(dict.fromkeys(shared.files))}
    file = np.array([files[one] for one in shared.files])[section]

    def later(rows: Ints, *same: Ints) -> Ints:
        """Those of some rows that have an equal one before them in the stream."""
        order = rows[np.lexsort([place[rows], *(one[rows] for one in same)])]
        is_equal = np.all([one[order][1:] == one[order][:-1] for one in same], axis=0)
        return order[1:][is_equal]

    again = later(np.arange(len(place)), mark, rba, file)
    shared.repeated = np.sort(place[again])
    shared.second = np.sort(place[later(np.setdiff1d(np.arange(len(place)), again), rba, file)])
