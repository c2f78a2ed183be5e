"""What crosses the ends of parts: trail files, records that were printed twice, transactions and fragments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cdcwb.formats.base import Run
from cdcwb.formats.goldengate.assignment import place_text
from cdcwb.formats.goldengate.jobs import Job, Task, of_text, places, scan_task
from cdcwb.formats.goldengate.overlaps import Ranges, crossings
from cdcwb.formats.goldengate.plan import Named, Part, Stretch
from cdcwb.formats.goldengate.reader_options import Options
from cdcwb.formats.goldengate.records import MISSING
from cdcwb.formats.goldengate.scanning import PartScan, StretchScan
from cdcwb.formats.goldengate.trail import TrailFile, Trails
from cdcwb.formats.goldengate.transactions import Open, fold

__all__ = ["cross", "stretches", "trail_files"]


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
    tasks = [Task((jobs[number],), options, (tuple(sorted(wanted[number])),)) for number in numbers]
    for number, found in zip(numbers, run(places, tasks), strict=True):
        for crossing in together:
            crossing.take(number, found[0])
    cuts: dict[int, Ranges] = {}
    repeated: dict[int, Ranges] = {}
    shared: dict[int, Ranges] = {}
    for crossing in together:
        crossing.solve(cuts, repeated, shared)
    again = [
        replace(job, cuts=cuts.get(at, {}), repeated=repeated.get(at, {}), shared=shared.get(at, {}))
        for at, job in ((number, jobs[number]) for number in numbers)
    ]
    for number, found in zip(numbers, run(scan_task, [Task((job,), options) for job in again]), strict=True):
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
    """Puts the stretches into their parts, with what crosses their ends; returns what is open at the capture's end."""
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
            summary.tail = {**summary.tail, "first": _first(summary.tail["first"], one)}
        plain, continued = summary.core
        summary.core = (plain and _first(plain, one), continued and _first(continued, one))
    states = fold([one.found.summary for one in ordered], connected)
    for one, state, expected in zip(ordered, states, _expected(ordered), strict=True):
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
                expected,
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
    """Where each stretch, in capture order, stands in its trail file: one without any RBA behind the one before it."""
    last: dict[TrailFile, int] = {}
    for one in found:
        one.place = max(one.found.first, one.found.low) if one.found.first != MISSING else last.get(one.file, 0)
        last[one.file] = max(one.found.last, one.place)


def _expected(ordered: Sequence[_End]) -> list[int]:
    """The RBA that follows on the stretch before, in the same trail file."""
    out, file, following = [], None, MISSING
    for one in ordered:
        if one.file != file:
            file, following = one.file, MISSING
        out.append(following)
        if one.found.first != MISSING:
            following = one.found.next
    return out


def _first(place: str, one: _End) -> str:
    """What a transaction is named by whose first record stands at ``rba:n`` or ``offset:n``."""
    kind, _, number = place.partition(":")
    if not number:
        return ""
    if kind == "rba":
        return place_text(one.file, int(number), one.part.file, 0)
    return place_text(one.file, MISSING, one.part.file, int(number))


def _named(open_: Open | None) -> Named | None:
    return None if open_ is None else Named(open_.name, open_.xid, open_.csn, open_.aborted)
