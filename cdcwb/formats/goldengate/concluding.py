"""What the first pass says of the whole capture: byte order, null indicators, time zone, table versions
(docs/formats/goldengate.md §4.2, §4.8, §5.2 and §7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cdcwb.formats.base import Run
from cdcwb.formats.findings import detected_row, problem_row
from cdcwb.formats.goldengate import exports
from cdcwb.formats.goldengate.definitions import Definition, split_name
from cdcwb.formats.goldengate.jobs import WidthTask, of_text, widths
from cdcwb.formats.goldengate.plan import LOGDUMP, FileEntry, Part, Plan
from cdcwb.formats.goldengate.reader_options import Options
from cdcwb.formats.goldengate.records import System
from cdcwb.formats.goldengate.scanning import BodyVote, PartScan
from cdcwb.formats.goldengate.trail import TrailFile
from cdcwb.formats.goldengate.versions import MetadataText, Version, build_versions, inferred
from cdcwb.formats.zones import offset_name
from cdcwb.words import plural

__all__ = ["decide_bodies", "decide_sides", "decide_times", "find_versions", "infer_versions"]


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
        _decide_indicators(plan, entry, votes.get(index, ()), options)
        if options.prefix is None and wide:
            row = detected_row("unified_prefix", str(entry.prefix), wide[0].prefix_evidence, False, entry.path)
            plan.detected.append(row)
    indicators = {True: NULLABLE, False: EVERY}.get(options.nullable) if options.nullable is not None else None
    for setting, value in (
        ("byte_order", options.byte_order),
        ("null_indicators", indicators),
        ("unified_prefix", options.prefix),
    ):
        if value is not None:
            plan.detected.append(detected_row(setting, str(value), "given as an option", True))


EVERY: Final = "every column"
NULLABLE: Final = "columns that may be NULL"
_OF_OTHERS: Final = " The one of the capture's other files is used."
_UNKNOWN_ORDER: Final = " No values are decoded; give it with the option byte_order."


def _decide_indicators(plan: Plan, entry: FileEntry, votes: Sequence[BodyVote], options: Options) -> None:
    """Which columns of a file's bodies have a null indicator (§4.8); what is usual is not worth a row."""
    every, other = sum(one.with_indicators for one in votes), sum(one.without for one in votes)
    nonstop = sum(one.nonstop for one in votes)
    given = options.nullable_from
    entry.nullable = given if given is not None else System.UNKNOWN if other > every else System.NONSTOP
    if given is not None or not (other or nonstop):
        return
    evidence = []
    if nonstop:
        evidence.append(
            f"{plural(nonstop, 'record')} from a NonStop (detected from file names, TRANSID or system keys): "
            "only nullable columns have one there"
        )
    if other:
        evidence.append(
            f"of the other bodies that end exactly, {every} begin each column with a null indicator, {other} do not"
        )
    value = NULLABLE if other > every or (nonstop and not every) else EVERY
    if nonstop and value == EVERY:
        value = f"{EVERY}; of a NonStop, {NULLABLE}"
    plan.detected.append(detected_row("null_indicators", value, "; ".join(evidence), False, entry.path))


def decide_sides(plan: Plan, parts: Sequence[Part], scans: Sequence[Any]) -> None:
    """What is taken for the side of updates of which the text says none, per file."""
    counts: dict[int, int] = {}
    for _, part, one in of_text(parts, scans):
        counts[part.file] = counts.get(part.file, 0) + one.sideless
    for index, count in counts.items():
        if count:
            evidence = f"{plural(count, 'update')} with neither BeforeAfter nor an image line"
            plan.detected.append(detected_row("image", "after", evidence, False, plan.files[index].path))


def decide_times(plan: Plan, parts: Sequence[Part], scans: Sequence[Any], options: Options) -> None:
    """The zone of printed times, per file; a fact where there is none."""
    timed: dict[int, int] = {}
    for part, one in zip(parts, scans, strict=True):
        timed[part.file] = timed.get(part.file, 0) + one.timed - one.zoned
        if isinstance(one, PartScan):
            plan.files[part.file].shown += one.shown
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
    """The versions that Metadata records and DEFGEN files define, and what is wrong with them."""
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
    """The versions of tables that nothing defines."""
    lookup = plan.lookup()
    unknown = {name for _, _, one in of_text(parts, scans) for name in one.tables if not lookup.defined(name)}
    most: dict[str, int] = dict.fromkeys(unknown, 0)
    if unknown and images:
        text, tasks, at = plan.to_text(), [], 0
        for number, split in enumerate(plan.splits):
            some = scans[at : at + len(split)]
            at += len(split)
            if any(isinstance(one, PartScan) and one.tables & unknown for one in some):
                tasks.append(WidthTask(text, number, frozenset(unknown)))
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
