"""Detects and splits the files of a capture, and scans their parts in the first pass: trails, transactions,
definitions, times and bodies. Functions for ``run`` can be pickled. Only a few bodies are decoded here, to detect the
byte order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cdcwb.errors import CaptureError
from cdcwb.formats.dissector import Run
from cdcwb.formats.files import Source, open_source
from cdcwb.formats.goldengate.decode import (
    MISSING,
    Bools,
    Bytes,
    Ints,
    Records,
    Shape,
    System,
    file_header,
    malformed_sentence,
)
from cdcwb.formats.goldengate.decode.bodies import Form, detect_order, detect_unified
from cdcwb.formats.goldengate.decode.printed import boundary, scan
from cdcwb.formats.goldengate.events import part_readers
from cdcwb.formats.goldengate.layout import KEYED, LISTED, UNIFIED, is_raw_trail, logdump_script
from cdcwb.formats.goldengate.plan import FileEntry, Options, Part, Plan
from cdcwb.formats.goldengate.plan.trails import Section, Shown, sections, shown_offsets
from cdcwb.formats.goldengate.plan.transactions import (
    CLOSES,
    FRAGMENT,
    LOB,
    METADATA,
    Gap,
    Marks,
    Summary,
    at_one_rba,
    end_rba,
    fingerprints,
    forms_of,
    gaps,
    in_runs,
    marks_of,
    summarise,
    token_text,
    trail_order,
)
from cdcwb.formats.moments import from_iso
from cdcwb.formats.source import is_remote
from cdcwb.words import plural

__all__ = [
    "HEAD",
    "BodyVote",
    "Job",
    "PartScan",
    "Places",
    "StretchScan",
    "in_splits",
    "is_logdump",
    "parts_of",
    "places",
    "probe",
    "refusal",
    "scan_task",
    "widths",
]


_SAMPLE: Final = 256  # bodies of a part that are looked at
_UNIFIED_SAMPLE: Final = 64

Ranges = Mapping[int, Sequence[tuple[int, int]]]
"""Section -> runs (first, last)."""


@dataclass(slots=True)
class Metadata:
    """The text of a Metadata record, and its location."""

    section: int
    rba: int
    offset: int
    length: int
    index: int
    text: str


@dataclass(slots=True)
class BodyVote:
    """Evidence from some bodies about their byte order and the prefix of unified updates; None without any.
    ``nonstop``: bodies of a NonStop's records, which are no evidence."""

    order: str | None
    order_evidence: str
    prefix: int | None
    prefix_evidence: str
    nonstop: int = 0


@dataclass(slots=True)
class StretchScan:
    """One stretch: RBA from ``low`` to ``high`` of a section. Locations of first records in ``summary`` are ``rba:n``
    or ``offset:n``. ``first`` and ``last`` are the first and last RBA of its records, MISSING without any; ``ends`` the
    RBA of its first record and the one after its last, MISSING if unknown, None without a record. ``gap``: the bytes of
    the trail that are missing after its last record of a transaction (without one, after its first record)."""

    section: int
    low: int
    high: int
    summary: Summary
    first: int = MISSING
    last: int = MISSING
    ends: tuple[int, int] | None = None
    gap: Gap | None = None


@dataclass(slots=True)
class PartScan:
    """The result of the first pass over a part. ``tables``: printed names of the tables of its changes, ``named``: of
    all members of transactions. ``timed``: records with a printed time, ``zoned``: those of them with the time in UTC
    as well. ``csn``: of its first and last record that has one. ``continued``: records that are continued, or continue
    others; ``undoing``: those with UndoFlag 1. ``sideless``: updates of one image without a header block and an image
    line, so that the image is unknown. ``malformed``: offset and sentence of the first malformed stretch of text."""

    sections: list[Section] = field(default_factory=list)
    stretches: list[StretchScan] = field(default_factory=list)
    shown: list[Shown] = field(default_factory=list)
    metadata: list[Metadata] = field(default_factory=list)
    tables: set[str] = field(default_factory=set)
    named: set[str] = field(default_factory=set)
    records: int = 0
    timed: int = 0
    zoned: int = 0
    csn: tuple[str, str] | None = None
    vote: BodyVote | None = None
    continued: int = 0
    undoing: int = 0
    sideless: int = 0
    malformed: tuple[int, str] | None = None


@dataclass(slots=True)
class Places:
    """The records of a section in trail order: RBA, and the hash that prints of one record share
    (:func:`~cdcwb.formats.goldengate.plan.transactions.fingerprints`). Those that the section itself repeats have 0."""

    section: int
    rba: Ints
    mark: Ints


def scan_part(
    text: Bytes,
    base: int,
    charset: str,
    cuts: Ranges | None = None,
    repeated: Ranges | None = None,
    shared: Ranges | None = None,
    bodies: bool = True,
) -> PartScan:
    """The first pass over a part, which begins at byte ``base`` of its file. ``cuts``: ranges of RBA into which
    sections fall; ``repeated``: runs of a section's records that were printed in another part; ``shared``: of those
    whose RBA a different record of another part has."""
    records = scan(text, base, bodies=False)
    marks = marks_of(records, charset)
    out = PartScan(sections(records))
    stop = records.stop
    for number, section in enumerate(out.sections):
        order, rba, again = trail_order(records, section.first, section.stop)
        again = again | in_runs(len(order), (repeated or {}).get(number, ()))
        elsewhere = in_runs(len(order), (shared or {}).get(number, ()))[~again]
        order, rba = order[~again], rba[~again]
        second = set(order[elsewhere | at_one_rba(records, order)].tolist())
        for low, high in (cuts or {}).get(number, ()) or [(0, (1 << 62) - 1)]:
            chosen = (rba >= low) & (rba <= high)
            some = order[chosen]
            summary = summarise(marks, some, records.start, stop, _namer(records, second))
            out.stretches.append(StretchScan(number, low, high, summary, *_ends(records, marks, some)))
        _metadata(out, records, marks, number, order, rba)
    is_record = records.shape <= Shape.FILE_HEADER
    out.records = int(np.count_nonzero(is_record))
    _times(out, records, is_record)
    dml = marks.member & (records.shape == Shape.RECORD) & (marks.table >= 0) & np.isin(marks.io, _WITH_COLUMNS)
    out.tables = {marks.tables[code] for code in np.unique(marks.table[dml]).tolist()}
    out.named = {marks.tables[code] for code in np.unique(marks.table[marks.member & (marks.table >= 0)]).tolist()}
    out.csn = _csn(marks)
    out.continued = int(np.count_nonzero(marks.goes_on | np.isin(marks.io, (LOB, FRAGMENT))))
    out.undoing = int(np.count_nonzero(records.column("UndoFlag") == 1))
    out.sideless = int(np.count_nonzero(marks.half & (marks.io != KEYED) & (records.side == MISSING)))
    if bodies:
        out.vote = _vote(text, base, records, marks)
    bad = np.flatnonzero(records.shape == Shape.MALFORMED)
    if len(bad):
        first = int(bad[0])
        out.malformed = (int(records.start[first]), malformed_sentence(records, first))
    return out


_WITH_COLUMNS: Final = (*LISTED, KEYED, *UNIFIED)


def _ends(records: Records, marks: Marks, order: Ints) -> tuple[int, int, tuple[int, int] | None, Gap | None]:
    """``first``, ``last``, ``ends`` and ``gap`` of a :class:`StretchScan`."""
    if not len(order):
        return MISSING, MISSING, None, None
    rba = records.rba[order]
    there = rba[rba != MISSING]
    first, last = (int(there[0]), int(there[-1])) if len(there) else (MISSING, MISSING)
    members = np.flatnonzero(marks.member[order])
    gap = gaps(records, order[members[-1] if len(members) else 0 :], members[:0]).get(0)
    return first, last, (int(rba[0]), int(end_rba(records, order[-1:])[0])), gap


def _namer(records: Records, second: Collection[int]) -> Callable[[int], str]:
    """Names records by RBA; by location those without one, and those that are the ``second`` with theirs."""

    def name(index: int) -> str:
        rba = int(records.rba[index])
        return f"rba:{rba}" if rba != MISSING and index not in second else f"offset:{int(records.start[index])}"

    return name


def _metadata(out: PartScan, records: Records, marks: Marks, section: int, order: Ints, rba: Ints) -> None:
    for at in np.flatnonzero(marks.io[order] == METADATA).tolist():
        index = int(order[at])
        printed = records.extras.get(index)
        if printed is None or printed.text is None:
            continue
        start, stop = int(records.start[index]), int(records.stop[index])
        number = int(records.column("TDR index")[index])
        out.metadata.append(Metadata(section, int(rba[at]), start, stop - start, number, printed.text))


def _times(out: PartScan, records: Records, is_record: Bools) -> None:
    julian = records.julian.copy()
    for index in np.flatnonzero(records.shape == Shape.FILE_HEADER).tolist():
        printed = records.extras.get(index)
        if printed is not None and printed.body and julian[index] == MISSING:
            created = from_iso(file_header(printed.body).get("CreationTime"))
            julian[index] = MISSING if created is None else created
    out.shown = shown_offsets(records.start, records.moment, julian)
    timed = is_record & (records.moment != MISSING)
    out.timed = int(np.count_nonzero(timed))
    out.zoned = int(np.count_nonzero(timed & (records.julian != MISSING)))


def _csn(marks: Marks) -> tuple[str, str] | None:
    there = marks.csn.drop_null()
    if not len(there):
        return None
    return token_text(there[0].as_py()), token_text(there[len(there) - 1].as_py())


# --- bodies -----------------------------------------------------------------------------------------------------------


def _vote(text: Bytes, base: int, records: Records, marks: Marks) -> BodyVote | None:
    """Evidence from the bodies of a few records, evenly chosen."""
    unified = np.flatnonzero(np.isin(marks.io, UNIFIED))
    plain = np.flatnonzero(np.isin(marks.io, (*LISTED, KEYED)))
    chosen = np.sort(np.concatenate([_some(plain, _SAMPLE), _some(unified, _UNIFIED_SAMPLE)]))
    if not len(chosen):
        return None
    pieces = []
    for start, stop in zip(records.start[chosen] - base, records.stop[chosen] - base, strict=True):
        pieces += [text[start:stop], _NEW_LINE]
    few = scan(np.concatenate(pieces))
    few_marks = marks_of(few)
    index = np.flatnonzero(few.body_at[:, 0] >= 0)
    forms = forms_of(few_marks, 2, index)
    skip = np.maximum(few.column("SyskeyLen")[index], 0)
    start, stop = few.body_at[index, 0], few.body_at[index, 1]
    system = few_marks.system[index]
    nonstop = system == System.NONSTOP
    order, order_evidence = detect_order(few.bytes, np.where(nonstop, -1, start), stop, forms, skip)
    if order is None and nonstop.any() and not (system == System.OTHER).any():
        records_of = plural(int(nonstop.sum()), "record")
        order, order_evidence = "big", f"{records_of} from a NonStop, which writes big-endian."
    two = np.isin(few_marks.io[index], UNIFIED) & ~nonstop
    form, evidence = detect_unified(few.bytes, start[two], stop[two], order or "little", skip[two])
    prefix = None if form is None else 4 if form is Form.UNIFIED_4 else 2
    return BodyVote(order, order_evidence, prefix, evidence, int(nonstop.sum()))


_NEW_LINE: Final = np.frombuffer(b"\n", dtype=np.uint8)


def _some(index: Ints, most: int) -> Ints:
    return index[:: max(1, -(-len(index) // most))]


HEAD: Final = 1 << 16
"""Bytes of a file that are examined for detection."""

_MARKS: Final = (b"Hdr-Ind", b" RBA ")


def is_logdump(head: bytes) -> str | None:
    """Why a text is from Logdump, from its beginning; None if it is not."""
    records = scan(np.frombuffer(head, dtype=np.uint8)) if any(mark in head for mark in _MARKS) else None
    if records is None:
        return None
    blocks = int(np.count_nonzero((records.shape == Shape.RECORD) & (records.column("IOType") != MISSING)))
    lines = int(np.count_nonzero((records.shape <= Shape.FILE_HEADER) & (records.operation_at[:, 0] >= 0)))
    if not blocks and not lines:
        return None
    return f"{plural(blocks, 'header block')} and {plural(lines, 'record line')} of Logdump in its first bytes"


def probe(paths: Sequence[str]) -> list[FileEntry]:
    """The entries of some files. Raises CaptureError for a raw trail."""
    return list(map(_probed, paths))


def _probed(path: str) -> FileEntry:
    with open_source(path, "binary") as source:
        head = source.read(0, HEAD).tobytes()
        entry = FileEntry(path, source.size, source.compression, source.problem)
    if is_raw_trail(head):
        raise refusal(path)
    return entry


def refusal(path: str) -> CaptureError:
    """Why a raw trail is not read, and what to do."""
    sentence = "raw trail file: its format is not published, so it cannot be read"
    advice = tuple(logdump_script(path).splitlines())
    return CaptureError(f"{sentence}; convert it to text with Logdump:", path=path, advice=advice)


_REACH: Final = 1 << 17  # bytes before and after a border that are looked at
_SHARE: Final = 16  # of a part, at most so much is added to it for the end of a transaction


def _boundary(text: npt.NDArray[np.uint8], at: int, look: int) -> int:
    """The first boundary at or after ``at`` between two records with different RBA or time, so that two printed images
    of one update stay together. In the ``look`` bytes after it the one after the end of a transaction is preferred, so
    that few transactions are in two parts, else one before a record that continues no other one."""
    place = boundary(text, at)
    records = scan(text[place : place + look], place, bodies=False)
    marks = marks_of(records)
    ends = np.flatnonzero(np.isin(marks.trans[:-1], CLOSES))
    begins = ~(np.isin(marks.io, (LOB, FRAGMENT)) | marks.twin | (marks.half & ~marks.before))
    begins[1:] &= ~marks.goes_on[:-1]
    after = ends if len(ends) else np.flatnonzero(begins[1:-1] & ~begins[:1])
    if len(after):
        place = boundary(text, int(records.stop[after[0]]))
    while place < text.size:
        before = _times_and_rbas(text[max(place - HEAD, 0) : place])[-1:]
        if not before or before != _times_and_rbas(text[place : place + HEAD])[:1]:
            break
        place = boundary(text, place + 1)
    return place


def _boundary_near(source: Source, at: int, reach: int, look: int = 0) -> int:
    """The same for a file, of which only the necessary bytes around ``at`` are read."""
    first = max(at - reach, 0)
    text = source.read(first, at + reach)
    place = _boundary(text, at - first, look)
    if place + HEAD > text.size and first + text.size < source.length:
        return _boundary_near(source, at, 4 * reach, look)
    return first + place


def _times_and_rbas(text: npt.NDArray[np.uint8]) -> list[tuple[int, int]]:
    """Time and RBA of the records of a text."""
    records = scan(text, 0, bodies=False)
    told = records.operation_at[:, 0] >= 0
    return list(zip(records.moment[told].tolist(), records.rba[told].tolist(), strict=True))


def parts_of(entry: FileEntry, index: int, split_size: int, window: tuple[int, int] | None = None) -> list[Part]:
    """The parts of one file; ``index`` is its number in the capture, ``split_size`` bytes of a part. With a ``window``
    only those that have bytes of it."""
    low, high = (0, entry.size) if window is None else (window[0], min(window[1], entry.size))
    if high - low == entry.size and (entry.size <= split_size or entry.compression is not None):
        return [Part(index, 0, entry.size)] if entry.size else []
    with open_source(entry.path, "binary", size=entry.size) as source:
        reach = _REACH if is_remote(entry.path) else entry.size
        look = min(HEAD, split_size // _SHARE)
        places = [_boundary_near(source, low, reach)]
        while places[-1] < high:
            places.append(_boundary_near(source, min(places[-1] + split_size, entry.size), reach, look))
    return [Part(index, start, stop) for start, stop in pairwise(places)]


@dataclass(frozen=True, slots=True)
class Job:
    """One part to look at; ``cuts``, ``repeated`` and ``shared`` are those of :func:`scan_part`."""

    entry: FileEntry
    part: Part
    cuts: Ranges = field(default_factory=dict)
    repeated: Ranges = field(default_factory=dict)
    shared: Ranges = field(default_factory=dict)


def _text_of(job: Job) -> Any:
    """The bytes of a part."""
    with open_source(job.entry.path, "binary", size=job.entry.size) as source:
        return source.read(job.part.start, job.part.stop)


def scan_task(task: tuple[Sequence[Job], Options]) -> list[PartScan]:
    """The first pass over some parts."""
    jobs, options = task
    return [
        scan_part(_text_of(job), job.part.start, options.charset, job.cuts, job.repeated, job.shared, options.images)
        for job in jobs
    ]


def places(task: tuple[Job, Sequence[int]]) -> list[Places]:
    """The records of some sections of a part, to be compared with those of others."""
    job, wanted = task
    records = scan(_text_of(job), job.part.start, bodies=False)
    out = []
    for number, section in enumerate(sections(records)):
        if number in wanted:
            order, rba, again = trail_order(records, section.first, section.stop)
            told = (records.rba[order] > 0) | (records.shape[order] == Shape.FILE_HEADER)
            out.append(Places(number, rba, np.where(again | ~told, 0, fingerprints(records, order))))
    return out


def widths(task: tuple[str, int, frozenset[str]]) -> dict[str, int]:
    """The number of columns of tables without a definition, from the indexes in their records of a split: (plan, split,
    tables as printed)."""
    out: dict[str, int] = {}
    text, split, tables = task
    plan = Plan.from_text(text)
    for reader in part_readers(plan, plan.splits[split]):
        marks, extras = reader.given.marks, reader.given.records.extras
        chosen = [code for code, name in enumerate(marks.tables) if name in tables]
        rows = np.flatnonzero(np.isin(marks.table, chosen) & marks.member)
        cells = reader.bodies.cells(rows)
        most = np.zeros(len(marks.tables), dtype=np.int64)
        np.maximum.at(most, marks.table[rows[cells.row]], cells.index + 1)
        for row in rows[np.isin(rows, np.array(sorted(extras), dtype=np.int64))].tolist():
            shown = max((one.index + 1 for one in extras[row].columns if one.index < 1 << 16), default=0)
            most[marks.table[row]] = max(int(most[marks.table[row]]), shown)
        for code in chosen:
            name = marks.tables[code]
            out[name] = max(out.get(name, 0), int(most[code]))
    return out


def in_splits(run: Run, plan: Plan, jobs: Sequence[Job], options: Options) -> list[PartScan]:
    """The first pass over all parts, those of a split together; results in the order of the parts."""
    tasks, at = [], 0
    for split in plan.splits:
        tasks.append((jobs[at : at + len(split)], options))
        at += len(split)
    return [one for some in run(scan_task, tasks) for one in some]
