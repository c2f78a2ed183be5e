"""The first pass over Logdump text: what a part tells of trails, transactions, definitions, times and bodies.

Bodies are not decoded here, but for a few from which the byte order is told.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from cdcwb.formats.goldengate.body import Form
from cdcwb.formats.goldengate.detecting import detect_indicators, detect_order, detect_unified
from cdcwb.formats.goldengate.facts import KEYED, LISTED, UNIFIED
from cdcwb.formats.goldengate.file_header import file_header
from cdcwb.formats.goldengate.marks import (
    FRAGMENT,
    LOB,
    METADATA,
    Bools,
    Marks,
    at_one_rba,
    fingerprints,
    marks_of,
    token_text,
    trail_order,
)
from cdcwb.formats.goldengate.records import MISSING, Bytes, Ints, Records, Shape, System
from cdcwb.formats.goldengate.scan import scan
from cdcwb.formats.goldengate.timezones import Shown, shown_offsets
from cdcwb.formats.goldengate.trail import Section, sections
from cdcwb.formats.goldengate.transactions import Summary, summarise
from cdcwb.formats.zones import from_iso

__all__ = [
    "BodyVote",
    "Metadata",
    "PartScan",
    "Places",
    "Ranges",
    "StretchScan",
    "forms_of",
    "scan_part",
    "section_places",
]

_SAMPLE: Final = 256  # bodies of a part that are looked at
_UNIFIED_SAMPLE: Final = 64

Ranges = Mapping[int, Sequence[tuple[int, int]]]
"""Section -> runs (first, last)."""


@dataclass(slots=True)
class Metadata:
    """The text of a Metadata record, and where it stands."""

    section: int
    rba: int
    offset: int
    length: int
    index: int
    text: str


@dataclass(slots=True)
class BodyVote:
    """What some bodies say of their byte order and of the prefix of unified updates; None where they say nothing.
    ``with_indicators``: bodies of records that may be of any system, with a null indicator in each column;
    ``without``: those with other columns; ``nonstop``: bodies of a NonStop's records."""

    order: str | None
    order_evidence: str
    prefix: int | None
    prefix_evidence: str
    with_indicators: int = 0
    without: int = 0
    nonstop: int = 0


@dataclass(slots=True)
class StretchScan:
    """One stretch: RBA from ``low`` to ``high`` of a section. Places of first records in ``summary`` are ``rba:n`` or
    ``offset:n``. ``first`` and ``last`` are the RBA of its first and last record, ``next`` that of the one behind it;
    MISSING where they are not known."""

    section: int
    low: int
    high: int
    summary: Summary
    first: int = MISSING
    last: int = MISSING
    next: int = MISSING


@dataclass(slots=True)
class PartScan:
    """What a part tells. ``tables``: names as printed of the tables of its changes, ``named``: of all members of
    transactions. ``timed``: records with a printed
    time, ``zoned``: those of them with the time in UTC beside it. ``csn``: of its first and last record that has one.
    ``continued``: records that are continued, or continue others; ``undoing``: those with UndoFlag 1. ``sideless``:
    updates of one image without a header block and an image line, so that nothing says which image. ``malformed``:
    place and sentence of the first stretch of text that cannot be understood."""

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
    (:func:`~cdcwb.formats.goldengate.marks.fingerprints`). Those that the section itself repeats have 0."""

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
            out.stretches.append(StretchScan(number, low, high, summary, *_ends(records, some)))
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


def malformed_sentence(records: Records, index: int) -> str:
    """Why lines are no record."""
    printed = records.extras.get(index)
    if printed is not None and printed.problems:
        return printed.problems[0][1]
    return "lines of a record with neither a complete header block nor its record line"


def in_runs(count: int, runs: Sequence[tuple[int, int]]) -> Bools:
    """Which of so many places are in one of the runs (first, last)."""
    out = np.zeros(count, dtype=np.bool_)
    for first, last in runs:
        out[first : last + 1] = True
    return out


def _ends(records: Records, order: Ints) -> tuple[int, int, int]:
    """RBA of the first and of the last of some records, and where the one behind would stand."""
    there = records.rba[order][records.rba[order] != MISSING]
    if not len(there):
        return MISSING, MISSING, MISSING
    last, total = int(records.rba[order[-1]]), int(records.total[order[-1]])
    return int(there[0]), int(there[-1]), last + total if MISSING not in (last, total) else MISSING


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


def forms_of(marks: Marks, prefix: int, index: Ints) -> Ints:
    """How the bodies of some records are laid out, values of :class:`~cdcwb.formats.goldengate.body.Form`."""
    io = marks.io[index]
    forms = np.full(len(index), int(Form.OPAQUE), dtype=np.int64)
    forms[np.isin(io, LISTED)] = Form.COLUMNS
    forms[io == KEYED] = Form.KEYED
    forms[np.isin(io, UNIFIED)] = Form.UNIFIED_4 if prefix == 4 else Form.UNIFIED_2
    return forms


def _vote(text: Bytes, base: int, records: Records, marks: Marks) -> BodyVote | None:
    """What the bodies of a few records, evenly chosen, say."""
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
    order, order_evidence = detect_order(few.bytes, start, stop, forms, skip)
    two = np.isin(few_marks.io[index], UNIFIED)
    form, evidence = detect_unified(few.bytes, start[two], stop[two], order or "little", skip[two])
    prefix = None if form is None else 4 if form is Form.UNIFIED_4 else 2
    system = few_marks.system[index]
    if order is None and bool((system == System.NONSTOP).any()) and not (system == System.OTHER).any():
        order, order_evidence = "big", f"{order_evidence} They are from a NonStop, which writes big-endian."
    if prefix == 4:
        forms[two] = Form.UNIFIED_4
    some = system == System.UNKNOWN
    counts = detect_indicators(few.bytes, start[some], stop[some], order or "little", forms[some], skip[some])
    return BodyVote(order, order_evidence, prefix, evidence, *counts, int((system == System.NONSTOP).sum()))


_NEW_LINE: Final = np.frombuffer(b"\n", dtype=np.uint8)


def _some(index: Ints, most: int) -> Ints:
    return index[:: max(1, -(-len(index) // most))]


# --- what was printed twice -------------------------------------------------------------------------------------------


def section_places(text: Bytes, base: int, wanted: Sequence[int]) -> list[Places]:
    """The records of some sections of a part, to be compared with those of others."""
    records = scan(text, base, bodies=False)
    out = []
    for number, section in enumerate(sections(records)):
        if number not in wanted:
            continue
        order, rba, again = trail_order(records, section.first, section.stop)
        told = (records.rba[order] > 0) | (records.shape[order] == Shape.FILE_HEADER)
        out.append(Places(number, rba, np.where(again | ~told, 0, fingerprints(records, order))))
    return out
