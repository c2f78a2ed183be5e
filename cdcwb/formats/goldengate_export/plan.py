"""The plan of a capture of exports: its files, their parts, and the versions of its tables, from a first pass over all
records (docs/formats/goldengate.md §8). A plan is made once and sent to the workers as one text.
"""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from cdcwb.errors import CaptureError, MalformedRecordError
from cdcwb.formats import options as opt
from cdcwb.formats.containers import message_files
from cdcwb.formats.containers.kafka_rows import by_partition, topic_partitions
from cdcwb.formats.containers.message_files import Bounds, Container
from cdcwb.formats.dissector import Piece, PlanText, Run, RunRows, detected_row, problem_row
from cdcwb.formats.goldengate.definitions import Definition, read_definitions
from cdcwb.formats.goldengate_export.exports import Summary, parts, probe, scan, scan_messages
from cdcwb.formats.goldengate_export.records import FORMAT, Names, ToUtc
from cdcwb.formats.goldengate_export.table import Version, defined_versions, inferred_versions
from cdcwb.formats.messages.format import file_notes, given_options
from cdcwb.formats.moments import parse_zone, to_utc
from cdcwb.words import plural

__all__ = ["OPTIONS", "Options", "Part", "Plan", "make_plan", "make_row_plan", "pieces_of"]


_SPLIT_SIZE: Final = 32 << 20
_FILES: Final = 64  # that one task looks at

OPTIONS: Final[dict[str, str]] = {
    "time_zone": "zone of printed times: an IANA name or an offset such as +08:00 (auto: from header tokens)",
    "definitions": "DEFGEN file with the definitions of tables that the capture does not have",
    **opt.SHARED,
    **message_files.OPTIONS,
    "split_size": f"bytes of a large file that one task reads ({_SPLIT_SIZE})",
}
"""The description of every option of the format."""


def to_utc_of(time_zone: str | None) -> ToUtc | None:
    """The conversion of printed times to UTC; None if their zone is unknown."""
    return None if time_zone is None else partial(to_utc, zone=parse_zone(time_zone))


@dataclass(frozen=True, slots=True)
class Options:
    """The checked options of a capture. ``time_zone`` None: unknown. ``container``: those of the containers of
    messages."""

    time_zone: str | None = None
    definitions: tuple[str, ...] = ()
    split_size: int = _SPLIT_SIZE
    mode: str = "PERMISSIVE"
    container: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Options:
        """Checked options from names and values. Raises OptionError, which names the error and the known options."""
        shared, values = given_options(given, OPTIONS, FORMAT)
        zone = str(values.get("time_zone", "auto"))
        if zone.lower() != "auto":
            parse_zone(zone)
        definitions = values.get("definitions", ())
        opt.as_bool("images", values.get("images", "true"))
        split_size = opt.as_whole("split_size", values.get("split_size", _SPLIT_SIZE), 64)
        return cls(
            time_zone=None if zone.lower() == "auto" else zone,
            definitions=(str(definitions),) if isinstance(definitions, (str, Path)) else tuple(map(str, definitions)),
            split_size=split_size,
            mode=shared["mode"],
            container={**shared["container"], "split_size": split_size},
        )

    def side_definitions(self) -> list[Definition]:
        """The definitions of the DEFGEN files. Raises OptionError if there are none."""
        return read_definitions(self.definitions)


# --- plans ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """The range ``[start, stop)`` of a file, in its unit, that one task reads."""

    file: int
    start: int
    stop: int


@dataclass(slots=True)
class Plan(PlanText):
    """How a capture is read. ``name``: of a table of rows; None for files."""

    files: list[Container]
    splits: list[Part]
    time_zone: str | None
    versions: list[Version] = field(default_factory=list)
    detected: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    notes: list[dict[str, Any]] = field(default_factory=list)  # problems that concern no event
    name: str | None = None
    partitions: list[tuple[str, int]] = field(default_factory=list)  # topics and partitions of rows, in order

    @property
    def to_utc(self) -> ToUtc | None:
        """See :func:`to_utc_of`."""
        return to_utc_of(self.time_zone)


def make_plan(paths: Sequence[str], options: Options, run: Run) -> Plan:
    """The plan of a capture. ``paths`` are its files in capture order; ``run`` maps a function over tasks. Raises
    CaptureError for files that cannot be read, and in mode FAILFAST for the first malformed bytes."""
    definitions = options.side_definitions()
    tasks = [(paths[at : at + _FILES], options.container) for at in range(0, len(paths), _FILES)]
    files, splits, scans = _first_pass([file for some in run(_probed, tasks) for file in some], options.split_size, run)
    plan = Plan(files, splits, options.time_zone)
    found = [(files[split.file].path, one) for split, one in zip(splits, scans, strict=True)]
    _conclude(plan, found, definitions, options.mode)
    plan.notes += file_notes(files)
    return plan


def make_row_plan(name: str, schema: pa.Schema, run: RunRows, options: Options) -> Plan:
    """The plan of a table of rows with Kafka's columns, whose values are JSON. Raises CaptureError without a column
    ``value``, and in mode FAILFAST for the first malformed message."""
    if "value" not in {column.lower() for column in schema.names}:
        raise CaptureError(f"expected Kafka's columns, at least `value`, found {', '.join(schema.names)}", path=name)
    definitions = options.side_definitions()
    partitions = sorted(set().union(*map(pickle.loads, run(topic_partitions))))
    scans = map(pickle.loads, run(_RowScan(partitions)))
    plan = Plan([], [], options.time_zone, name=name, partitions=partitions)
    _conclude(plan, [(name, one) for one in scans], definitions, options.mode)
    return plan


@dataclass(frozen=True, slots=True)
class _RowScan:
    partitions: list[tuple[str, int]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> bytes:
        found = (messages for batch in batches for messages, _ in by_partition(batch, self.partitions, ""))
        return pickle.dumps(scan_messages(found))


def _probed(task: tuple[Sequence[str], Mapping[str, Any]]) -> list[Container]:
    paths, options = task
    return [probe(path, options) for path in paths]


def _scanned(task: tuple[Container, Part]) -> Summary:
    file, part = task
    return scan(file, part.start, part.stop)


def _first_pass(files: list[Container], split_size: int, run: Run) -> tuple[list[Container], list[Part], list[Summary]]:
    """The files and their parts as they are read from now on, and the summary of each part. Avro containers get the row
    numbers that the scans found; one whose parts do not join is scanned again in one part."""
    splits = [Part(at, *bounds) for at, one in enumerate(files) for bounds in parts(one, split_size)]
    scans: list[Summary] = run(_scanned, [(files[split.file], split) for split in splits])
    found: dict[int, list[Bounds]] = {}
    for split, one in zip(splits, scans, strict=True):
        if one.bounds is not None:
            found.setdefault(split.file, []).append(one.bounds)
    exact = {at: message_files.settled(files[at], bounds) for at, bounds in found.items()}
    if None in exact.values():
        again = [one.in_one_part() if exact.get(at, one) is None else one for at, one in enumerate(files)]
        return _first_pass(again, split_size, run)
    files = [exact.get(at) or one for at, one in enumerate(files)]
    rows = {at: iter(parts(files[at])) for at in exact}
    for number, (split, one) in enumerate(zip(splits, scans, strict=True)):
        if split.file in rows:
            splits[number] = Part(split.file, *next(rows[split.file]))
            if one.malformed is not None:
                one.malformed = (files[split.file].row(one.malformed[0]), *one.malformed[1:])
    return files, splits, scans


def _conclude(plan: Plan, scans: Sequence[tuple[str, Summary]], definitions: Sequence[Definition], mode: str) -> None:
    """Adds versions, facts and what was detected, from the path and the summary of each part."""
    whole, without_zone = Summary(), Counter[str]()
    for path, one in scans:
        if mode == "FAILFAST" and one.malformed is not None:
            raise MalformedRecordError(one.malformed[-1], path=path, offset=one.malformed[0])
        whole.add(one)
        without_zone[path] += one.timed - one.zoned
    lacking = [path for path, count in without_zone.items() if count and plan.time_zone is None]
    if plan.time_zone is not None:
        plan.detected.append(detected_row("time_zone", plan.time_zone, "given as an option", True))
    plan.detected += [detected_row("time_zone", "unknown", _NO_ZONE, False, path) for path in lacking]
    plan.versions = defined_versions(definitions)
    for definition in definitions:
        table = Names(definition.schema, definition.table).label
        plan.notes += [problem_row(code, sentence, table=table) for code, sentence in definition.problems]
    if plan.versions:
        evidence = f"{plural(len(plan.versions), 'table version')} of the option definitions"
        plan.detected.append(detected_row("definitions", "known", evidence, True))
    defined = {version.table_version for version in plan.versions}
    tables = [one for one in whole.tables.values() if one.names.table is not None]
    plan.versions += [version for version in inferred_versions(tables) if version.table_version not in defined]
    plan.facts = {
        "bytes": sum(one.size for one in plan.files),
        "records": whole.records,
        "table_versions": len(plan.versions),
        "first_position": whole.first,
        "last_position": whole.last,
    }
    if lacking:
        plan.facts["changed_at"] = f"null in {plural(len(lacking), 'file')}: {_NO_ZONE}"


_NO_ZONE: Final = "times of JSON and XML exports have no zone; give it with the option time_zone"


def pieces_of(plan: Plan) -> Iterator[list[Piece]]:
    """The provenance of each part: its file, as it is read, and the zone of its times. It includes the index of its
    file, since transactions may be named by the location of their start."""
    for split in plan.splits:
        file = plan.files[split.file]
        context = {"file": asdict(file), "part": asdict(split), "time_zone": plan.time_zone}
        yield [Piece((file.path,), json.dumps(context))]
