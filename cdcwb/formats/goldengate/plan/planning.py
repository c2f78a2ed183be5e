"""Makes a plan from files, with a first pass over all parts for the state that crosses their ends and for the facts of
the complete capture (docs/formats/goldengate.md §4.2, §4.8, §5.2 and §7). ``run`` maps a function over tasks: in Spark
for ``load``, in this process for small captures and for the data source on its own. Sections may have records of the
same stretch of a trail file, if a Logdump run was logged twice, or went back and forth: records of such sections are
compared by RBA and text; the plan has ranges of repeated records.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdcwb.errors import CaptureError, MalformedRecordError
from cdcwb.formats.dissector import Run, RunRows, detected_row, problem_row
from cdcwb.formats.goldengate import exports
from cdcwb.formats.goldengate.assignment import place_text
from cdcwb.formats.goldengate.decode import MISSING, Ints, System
from cdcwb.formats.goldengate.decode.definitions import Definition, split_name
from cdcwb.formats.goldengate.plan import LOGDUMP, FileEntry, Options, Part, Plan, Stretch, grouped
from cdcwb.formats.goldengate.plan.scanning import (
    Job,
    PartScan,
    Places,
    StretchScan,
    in_splits,
    of_text,
    parts_of,
    places,
    probe,
    scan_task,
    settle,
    widths,
)
from cdcwb.formats.goldengate.plan.trails import (
    MetadataText,
    Shown,
    TrailFile,
    Trails,
    Version,
    build_versions,
    inferred,
)
from cdcwb.formats.goldengate.plan.transactions import Gap, Open, add_gaps, fold, gap_between, position_text
from cdcwb.formats.messages.rows import by_partition, topic_partitions
from cdcwb.formats.moments import offset_name
from cdcwb.model import Problem
from cdcwb.words import plural

__all__ = ["crossings", "make_plan", "make_row_plan"]


Ranges = dict[int, list[tuple[int, int]]]


@dataclass(slots=True)
class Crossing:
    """Sections, as (number of the part, section), whose ranges of RBA in one trail file overlap."""

    sections: list[tuple[int, int]]
    places: dict[tuple[int, int], Places] = field(default_factory=dict)

    def take(self, part: int, found: Iterable[Places]) -> None:
        """Adds the records of a part's sections."""
        for one in found:
            if (part, one.section) in self.sections:
                self.places[part, one.section] = one

    def solve(self, cuts: dict[int, Ranges], repeated: dict[int, Ranges], shared: dict[int, Ranges]) -> None:
        """Determines for each part and section the ranges of RBA that order the ranges of all sections, the runs of its
        records (in trail order) that an earlier section of the capture has too, and the runs for which such a section
        has a different record with the same RBA."""
        owners = sorted(self.places)
        rba = np.concatenate([self.places[one].rba for one in owners])
        mark = np.concatenate([self.places[one].mark for one in owners])
        owner = np.concatenate([np.full(len(self.places[one].rba), at) for at, one in enumerate(owners)])
        again = _again(rba, mark, owner)
        second = _second(rba, owner, ~again & (mark != 0))
        for at, (part, section) in enumerate(owners):
            for flags, found in ((again, repeated), (second, shared)):
                runs = _runs(flags[owner == at])
                if runs:
                    found.setdefault(part, {})[section] = runs
        left = np.flatnonzero(~again)
        order = left[np.lexsort([left, owner[left], rba[left]])]
        if not len(order):
            return
        edge = np.flatnonzero(np.append(True, owner[order][1:] != owner[order][:-1]))
        last = np.append(edge[1:], len(order)) - 1
        for first, final in zip(order[edge].tolist(), order[last].tolist(), strict=True):
            part, section = owners[int(owner[first])]
            cuts.setdefault(part, {}).setdefault(section, []).append((int(rba[first]), int(rba[final])))


def _again(rba: Ints, mark: Ints, owner: Ints) -> np.ndarray:
    """A mask of records that an earlier section has too; those marked 0 differ from all others."""
    order = np.lexsort([owner, mark, rba])
    same = (rba[order][1:] == rba[order][:-1]) & (mark[order][1:] == mark[order][:-1]) & (mark[order][1:] != 0)
    out = np.zeros(len(rba), dtype=np.bool_)
    out[order[1:]] = same
    return out


def _second(rba: Ints, owner: Ints, some: np.ndarray) -> np.ndarray:
    """A mask of records with the RBA of one in an earlier section."""
    chosen = np.flatnonzero(some)
    chosen = chosen[np.lexsort([owner[chosen], rba[chosen]])]
    starts = np.append(True, rba[chosen][1:] != rba[chosen][:-1])[: len(chosen)]
    first = np.maximum.accumulate(np.where(starts, np.arange(len(chosen)), 0))
    out = np.zeros(len(rba), dtype=np.bool_)
    out[chosen] = owner[chosen] != owner[chosen[first]]
    return out


def _runs(flags: np.ndarray) -> list[tuple[int, int]]:
    """Runs (first, last) of the indexes at which ``flags`` is true."""
    padded = np.concatenate([[False], flags, [False]])
    edges = np.flatnonzero(padded[1:] != padded[:-1])
    return [(int(first), int(stop) - 1) for first, stop in zip(edges[::2], edges[1::2], strict=True)]


def crossings(ranges: Sequence[tuple[int, int, TrailFile, int, int]]) -> list[Crossing]:
    """The groups of sections that overlap, from (part, section, trail file, first RBA, last RBA) of each."""
    groups: dict[tuple[str, int], list[tuple[int, int, int, int]]] = {}
    for part, section, file, first, last in ranges:
        groups.setdefault((file.trail, file.order), []).append((first, last, part, section))
    out: list[Crossing] = []
    for members in groups.values():
        reach, now = -1, Crossing([])
        for first, last, part, section in sorted(members):
            if first > reach:
                out.append(now)
                now = Crossing([])
            now.sections.append((part, section))
            reach = max(reach, last)
        out.append(now)
    return [one for one in out if len(one.sections) > 1]


def trail_files(parts: Sequence[Part], scans: Sequence[Any], options: Options) -> dict[int, list[TrailFile]]:
    """The trail file of each section of each part (by the part's number)."""
    trails = Trails(options.trail_sequence)
    return {number: trails.of(part.file, one.sections) for number, part, one in of_text(parts, scans)}


def cross(
    run: Run,
    jobs: Sequence[Job],
    scans: list[Any],
    trails: Mapping[int, Sequence[TrailFile]],
    options: Options,
) -> tuple[dict[int, Ranges], dict[int, Ranges]]:
    """Scans those parts again whose RBA ranges overlap with those of others. Returns by part and section the runs of
    records that were printed before, and of those with the RBA of a different record."""
    together = crossings(
        [
            (number, stretch.section, trails[number][stretch.section], stretch.first, stretch.last)
            for number, one in enumerate(scans)
            if isinstance(one, PartScan)
            for stretch in one.stretches
            if stretch.first != MISSING
        ]
    )
    if not together:
        return {}, {}
    wanted: dict[int, set[int]] = {}
    for crossing in together:
        for number, section in crossing.sections:
            wanted.setdefault(number, set()).add(section)
    numbers = sorted(wanted)
    tasks = [(jobs[number], sorted(wanted[number])) for number in numbers]
    for number, found in zip(numbers, run(places, tasks), strict=True):
        for crossing in together:
            crossing.take(number, found)
    cuts: dict[int, Ranges] = {}
    repeated: dict[int, Ranges] = {}
    shared: dict[int, Ranges] = {}
    for crossing in together:
        crossing.solve(cuts, repeated, shared)
    again = [
        replace(job, cuts=cuts.get(at, {}), repeated=repeated.get(at, {}), shared=shared.get(at, {}))
        for at, job in ((number, jobs[number]) for number in numbers)
    ]
    for number, found in zip(numbers, run(scan_task, [((job,), options) for job in again]), strict=True):
        scans[number] = found[0]
    return repeated, shared


@dataclass(slots=True)
class _End:
    """A stretch in the order of its trail."""

    number: int
    part: Part
    file: TrailFile
    found: StretchScan
    place: int = 0


def stretches(
    parts: Sequence[Part],
    scans: Sequence[Any],
    trails: Mapping[int, Sequence[TrailFile]],
    repeated: Mapping[int, Ranges],
    shared: Mapping[int, Ranges],
) -> list[Open]:
    """Adds the stretches to their parts, with the state at their ends; returns the transactions that are open at the
    capture's end."""
    ordered: list[_End] = []
    for number, part, scanned in of_text(parts, scans):
        for found in scanned.stretches:
            ordered.append(_End(number, part, trails[number][found.section], found))
    _place(ordered)
    ordered.sort(key=lambda one: (one.file.trail, one.file.order, one.place, one.number))
    connected = [
        at > 0
        and ordered[at - 1].file.trail == one.file.trail
        and one.file.order - ordered[at - 1].file.order in (0, 1)
        for at, one in enumerate(ordered)
    ]
    for one in ordered:
        summary = one.found.summary
        summary.lead_first = _first(summary.lead_first, one)
        if summary.tail is not None:
            summary.tail = replace(summary.tail, first=_first(summary.tail.first, one))
        plain, continued = summary.core
        summary.core = (plain and _first(plain, one), continued and _first(continued, one))
    states = fold([one.found.summary for one in ordered], connected)
    for one, state, gap in zip(ordered, states, _gaps(ordered, connected), strict=True):
        one.part.stretches.append(
            Stretch(
                one.found.section,
                one.file,
                one.found.low,
                one.found.high,
                _named(state.before),
                _named(state.after),
                state.half,
                state.head,
                state.goes_on,
                [(ordered[at].part.file, start, stop) for at, start, stop in state.follows],
                repeated.get(one.number, {}).get(one.found.section, []),
                shared.get(one.number, {}).get(one.found.section, []),
                gap,
            )
        )
    for part in parts:
        part.stretches.sort(key=lambda one: (one.section, one.low))
    return [
        state.after
        for at, state in enumerate(states)
        if state.after is not None and not (at + 1 < len(states) and connected[at + 1])
    ]


def _place(found: Sequence[_End]) -> None:
    """The position of each stretch, in capture order, in its trail file: one without any RBA follows the preceding
    one."""
    last: dict[TrailFile, int] = {}
    for one in found:
        one.place = max(one.found.first, one.found.low) if one.found.first != MISSING else last.get(one.file, 0)
        last[one.file] = max(one.found.last, one.place)


def _gaps(ordered: Sequence[_End], connected: Sequence[bool]) -> list[Gap | None]:
    """The bytes of the trail that are missing before the first record of each stretch, since the last one of a
    transaction; None as well for a stretch without a record of a transaction."""
    out: list[Gap | None] = []
    file, end, gap = None, MISSING, None
    for one, continues in zip(ordered, connected, strict=True):
        found = one.found
        if file is not None and one.file != file:
            if gap is not None and gap.sequence == MISSING:
                gap = gap._replace(sequence=file.shown)
            end = MISSING
        file = one.file
        if not continues:
            gap = None
        if found.ends is not None:
            gap = add_gaps(gap, gap_between(end, found.ends[0]))
            end = found.ends[1]
        if found.summary.goes_on is None:
            out.append(None)
            gap = add_gaps(gap, found.gap)
        else:
            out.append(gap)
            gap = found.gap
    return out


def _first(place: str, one: _End) -> str:
    """The name of a transaction whose first record is at ``rba:n`` or ``offset:n``."""
    kind, _, number = place.partition(":")
    if not number:
        return ""
    if kind == "rba":
        return place_text(one.file, int(number), one.part.file, 0)
    return place_text(one.file, MISSING, one.part.file, int(number))


def _named(one: Open | None) -> Open | None:
    """A transaction with the location of its first record only if that is its name."""
    return one if one is None or one.xid is None or one.aborted else replace(one, first="")


def decide_bodies(plan: Plan, parts: Sequence[Part], scans: Sequence[Any], options: Options) -> None:
    """Byte order of bodies, and the prefix of unified updates, per file."""
    votes: dict[int, list[Any]] = {}
    for _, part, one in of_text(parts, scans):
        if one.vote is not None:
            votes.setdefault(part.file, []).append(one.vote)
    prefix = next((one.prefix for some in votes.values() for one in some if one.prefix is not None), 2)
    order = next((one.order for some in votes.values() for one in some if one.order is not None), None)
    for index, entry in enumerate(plan.files):
        if entry.kind != LOGDUMP:
            continue
        told = [one for one in votes.get(index, ()) if one.order is not None]
        entry.byte_order = options.byte_order or (told[0].order if told else order or "little")
        entry.order_known = options.byte_order is not None or order is not None or index not in votes
        wide = [one for one in votes.get(index, ()) if one.prefix is not None]
        entry.prefix = options.prefix or (wide[0].prefix if wide else prefix)
        if options.byte_order is None and index in votes:
            evidence = told[0].order_evidence if told else votes[index][0].order_evidence
            evidence += "" if told else _OF_OTHERS if entry.order_known else _UNKNOWN_ORDER
            value = entry.byte_order if entry.order_known else "unknown"
            plan.detected.append(detected_row("byte_order", value, evidence, False, entry.path))
        entry.bare_from = options.bare_from
        nonstop = sum(one.nonstop for one in votes.get(index, ()))
        if nonstop and options.bare_from == System.NONSTOP:
            evidence = f"{plural(nonstop, 'record')} from a NonStop (detected from file names, TRANSID or system keys)"
            plan.detected.append(detected_row("null_indicators", _OF_NONSTOP, evidence, False, entry.path))
        if options.prefix is None and wide:
            row = detected_row("unified_prefix", str(entry.prefix), wide[0].prefix_evidence, False, entry.path)
            plan.detected.append(row)
    indicators = {System.NONSTOP + 1: "every column", System.OTHER: "none"}.get(options.bare_from)
    for setting, value in (
        ("byte_order", options.byte_order),
        ("null_indicators", indicators),
        ("unified_prefix", options.prefix),
    ):
        if value is not None:
            plan.detected.append(detected_row(setting, str(value), "given as an option", True))


_OF_NONSTOP: Final = "every column; of a NonStop, none"
_OF_OTHERS: Final = " The one of the capture's other files is used."
_UNKNOWN_ORDER: Final = " No values are decoded; give it with the option byte_order."


def decide_sides(plan: Plan, parts: Sequence[Part], scans: Sequence[Any]) -> None:
    """The assumed image of updates whose text does not state it, per file."""
    counts: dict[int, int] = {}
    for _, part, one in of_text(parts, scans):
        counts[part.file] = counts.get(part.file, 0) + one.sideless
    for index, count in counts.items():
        if count:
            evidence = f"{plural(count, 'update')} with neither BeforeAfter nor an image line"
            plan.detected.append(detected_row("image", "after", evidence, False, plan.files[index].path))


def decide_times(plan: Plan, parts: Sequence[Part], scans: Sequence[Any], options: Options) -> None:
    """The zone of printed times, per file; a fact if there is none."""
    timed: dict[int, int] = {}
    for part, one in zip(parts, scans, strict=True):
        timed[part.file] = timed.get(part.file, 0) + one.timed - one.zoned
        if isinstance(one, PartScan):
            shown = plan.files[part.file].shown
            if shown and one.shown and shown[-1].offset == one.shown[0].offset:  # a range continues in the next part
                one.shown[0] = Shown(shown.pop().first, one.shown[0].last, one.shown[0].offset)
            shown += one.shown
    if options.time_zone is not None:
        plan.detected.append(detected_row("time_zone", options.time_zone, "given as an option", True))
        return
    without = []
    for index, entry in enumerate(plan.files):
        offsets = sorted({one.offset for one in entry.shown})
        if offsets:
            names = ", ".join(map(offset_name, offsets))
            evidence = f"printed times less those in UTC that header tokens hold: {names}"
            if len(offsets) > 1:
                evidence += "; a record without header tokens has the zone of the nearest one that has them"
            plan.detected.append(detected_row("time_zone", names, evidence, False, entry.path))
        elif timed.get(index):
            without.append(entry)
            reason = _NO_ZONE if entry.export is None else _NO_ZONE_IN_EXPORTS
            plan.detected.append(detected_row("time_zone", "unknown", reason, False, entry.path))
    if without:
        reason = _NO_ZONE if any(one.export is None for one in without) else _NO_ZONE_IN_EXPORTS
        plan.facts["changed_at"] = f"null in {plural(len(without), 'file')}: {reason}"


_NO_ZONE: Final = (
    "printed times have no zone, and no header token shows one (HEADERTOKEN DETAIL); give it with the option time_zone"
)
_NO_ZONE_IN_EXPORTS: Final = "times of JSON and XML exports have no zone; give it with the option time_zone"


def find_versions(
    plan: Plan,
    parts: Sequence[Part],
    scans: Sequence[Any],
    trails: Mapping[int, Sequence[TrailFile]],
    beside: Sequence[Definition],
) -> None:
    """The versions from Metadata records and DEFGEN files, and their problems."""
    texts = [
        MetadataText(
            one.text,
            part.file,
            one.offset,
            one.length,
            trails[number][one.section],
            one.rba,
            one.index,
            plan.files[part.file].path,
        )
        for number, part, found in of_text(parts, scans)
        for one in found.metadata
    ]
    plan.versions, plan.in_force, plan.places = build_versions(texts, beside)
    for version in plan.versions:
        for code, sentence in version.definition.problems if version.definition is not None else ():
            placed = version.file_index >= 0
            place = {"file": plan.files[version.file_index].path, "offset": version.offset, "length": version.length}
            plan.notes.append(problem_row(code, sentence, table=version.full_name, **(place if placed else {})))
    if plan.versions:
        of_records = sum(version.origin == "record" for version in plan.versions)
        evidence = (
            f"{plural(of_records, 'table version')} of Metadata records, "
            f"{len(plan.versions) - of_records} of the option definitions"
        )
        plan.detected.append(detected_row("definitions", "known", evidence, bool(beside)))


def infer_versions(run: Run, plan: Plan, parts: Sequence[Part], scans: Sequence[Any], images: bool) -> None:
    """The versions of tables without a definition."""
    lookup = plan.lookup()
    unknown = {name for _, _, one in of_text(parts, scans) for name in one.tables if not lookup.defined(name)}
    most: dict[str, int] = dict.fromkeys(unknown, 0)
    if unknown and images:
        text, tasks, at = plan.to_text(), [], 0
        for number, split in enumerate(plan.splits):
            some = scans[at : at + len(split)]
            at += len(split)
            if any(isinstance(one, PartScan) and one.tables & unknown for one in some):
                tasks.append((text, number, frozenset(unknown)))
        for found in run(widths, tasks):
            for name, width in found.items():
                most[name] = max(most[name], width)
    taken = {version.key for version in plan.versions}
    for name, width in sorted(most.items()):
        schema, table = split_name(name)
        version = inferred(schema, table, [f"c{index}" for index in range(width)])
        if version.key not in taken:
            taken.add(version.key)
            plan.versions.append(version)
    if most:
        evidence = f"{plural(len(most), 'table')} without a definition: columns are named by their index, c0, c1 …"
        evidence += " and value types are inferred from the bytes; give a DEFGEN file with the option definitions"
        plan.detected.append(detected_row("definitions", "inferred", evidence, False))
    for version in _exported(scans):
        if version.key not in taken:
            taken.add(version.key)
            plan.versions.append(version)


def _exported(scans: Sequence[Any]) -> list[Version]:
    """The versions of tables in JSON and XML files."""
    whole = exports.Summary()
    for one in scans:
        if isinstance(one, exports.Summary):
            whole.add(one)
    out = []
    for facts in whole.tables.values():
        if facts.names.table is None:
            continue
        version = inferred(facts.names.schema, facts.names.table, list(facts.columns))
        version.types = {name: column.to_list() for name, column in facts.columns.items()}
        keys = {name: at for at, name in enumerate(facts.keys or (), 1)}
        for column in version.columns:
            column["type"] = facts.columns[column["name"]].kind
            column["key_position"] = keys.get(column["name"])
        out.append(version)
    return out


_FILES: Final = 64  # that one task looks at


def run_here(function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    """Runs the tasks sequentially in this process."""
    return [function(task) for task in tasks]


def make_plan(
    paths: Sequence[str], options: Options, run: Run = run_here, window: tuple[int, int] | None = None
) -> Plan:
    """The plan of a capture. ``paths`` are its files in capture order; ``run`` maps a function over tasks. ``window``:
    bytes of Logdump text that are examined, extended to complete records (None: all). Raises CaptureError for files
    that cannot be read and for raw trails, and in mode FAILFAST for the first malformed bytes.
    """
    beside = options.beside()
    probed = run(probe, [(paths[at : at + _FILES], options) for at in range(0, len(paths), _FILES)])
    files: list[FileEntry] = [entry for some in probed for entry in some]
    size = options.split_size
    while True:
        parts = [part for index, entry in enumerate(files) for part in parts_of(entry, index, size, window)]
        plan = Plan(files, options.settings, _grouped(parts, files, size))
        parts = list(plan.parts)
        jobs = [Job(files[part.file], part) for part in parts]
        scans = in_splits(run, plan, jobs, options)
        if settle(files, parts, scans):
            break
    if options.mode == "FAILFAST":
        _fail_fast(files, parts, scans)
    decide_bodies(plan, parts, scans, options)
    decide_sides(plan, parts, scans)
    decide_times(plan, parts, scans, options)
    trails = trail_files(parts, scans, options)
    repeated, shared = cross(run, jobs, scans, trails, options)
    still_open = stretches(parts, scans, trails, repeated, shared)
    for _, part, one in of_text(parts, scans):
        part.named = tuple(sorted(one.named))
    find_versions(plan, parts, scans, trails, beside)
    infer_versions(run, plan, parts, scans, options.images)
    _facts(plan, parts, scans, trails, still_open)
    plan.notes += [problem_row(Problem.TRUNCATED, one.problem, file=one.path) for one in files if one.problem]
    return plan


def make_row_plan(name: str, schema: pa.Schema, run: RunRows, options: Options) -> Plan:
    """The plan of a table of rows with Kafka's columns, whose values are JSON. Raises CaptureError without a column
    ``value``, and in mode FAILFAST for the first malformed message."""
    if "value" not in {column.lower() for column in schema.names}:
        raise CaptureError(f"expected Kafka's columns, at least `value`, found {', '.join(schema.names)}", path=name)
    beside = options.beside()
    partitions = sorted(set().union(*map(pickle.loads, run(topic_partitions))))
    whole = exports.Summary()
    for found in run(_RowScan(partitions)):
        whole.add(pickle.loads(found))
    files = [FileEntry(name, "json", 0, export=exports.ExportFile(name, "json", 0))]
    parts, scans = [Part(0, 0, 0)], [whole]
    plan = Plan(files, options.settings, [], partitions=partitions, is_rows=True)
    if options.mode == "FAILFAST":
        _fail_fast(files, parts, scans)
    decide_times(plan, parts, scans, options)
    find_versions(plan, parts, scans, {}, beside)
    infer_versions(run_here, plan, parts, scans, options.images)
    _facts(plan, parts, scans, {}, ())
    return plan


@dataclass(frozen=True, slots=True)
class _RowScan:
    partitions: list[tuple[str, int]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> bytes:
        found = (messages for batch in batches for messages, _ in by_partition(batch, self.partitions, ""))
        return pickle.dumps(exports.scan_messages(found))


def _grouped(parts: Sequence[Part], files: Sequence[FileEntry], size: int) -> list[list[Part]]:
    """Splits of parts that are read alike; those of exports are tasks of their own."""
    out: list[list[Part]] = []
    for is_text, some in groupby(parts, lambda part: files[part.file].export is None):
        members = list(some)
        out += grouped(members, size) if is_text else [[part] for part in members]
    return out


def _fail_fast(files: Sequence[FileEntry], parts: Sequence[Part], scans: Sequence[Any]) -> None:
    for part, one in zip(parts, scans, strict=True):
        if one.malformed is not None:
            raise MalformedRecordError(one.malformed[-1], path=files[part.file].path, offset=one.malformed[0])


def _facts(
    plan: Plan,
    parts: Sequence[Part],
    scans: Sequence[Any],
    trails: Mapping[int, Sequence[TrailFile]],
    still_open: Sequence[Open],
) -> None:
    positions = [
        position_text(trails[number][stretch.section].shown, rba)
        for number, _, one in of_text(parts, scans)
        for stretch in one.stretches
        for rba in (stretch.first, stretch.last)
        if rba != MISSING
    ]
    for one in scans:
        if isinstance(one, exports.Summary):
            positions += [place for place in (one.first, one.last) if place is not None]
    csn = [one.csn for _, _, one in of_text(parts, scans) if one.csn is not None]
    known = any(one.shown for files in trails.values() for one in files)
    plan.facts |= {
        "bytes": sum(entry.size for entry in plan.files),
        "records": sum(one.records for one in scans),
        "table_versions": len(plan.versions),
        "open_transactions": len(still_open),
        "first_position": min(positions, default=None),
        "last_position": max(positions, default=None),
        "first_csn": csn[0][0] if csn else None,
        "last_csn": csn[-1][1] if csn else None,
        "fragments": sum(one.continued for _, _, one in of_text(parts, scans)),
        "undo_records": sum(one.undoing for _, _, one in of_text(parts, scans)),
    }
    if trails:
        names = sorted({one.name for files in trails.values() for one in files if one.name})
        value = ", ".join(names) if names else "unknown" if not known else "numbered by an option"
        evidence = "as Logdump's text or file headers name them" if names else "the text does not name a trail file"
        plan.detected.append(detected_row("trail_sequence", value[:200], evidence, not names and known))
