"""From files, or from rows with the columns of Kafka, to a plan: containers, parts, versions and settings.

A plan is made once and travels to the workers as one text. It grows with the number of files, parts and versions, never
with the number of messages.

The work over the messages is handed to ``run``, which maps a function over tasks: in Spark for ``load``, in this
process for small things and for the data source on its own.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from cdcwb.errors import OptionError
from cdcwb.formats import options as opt
from cdcwb.formats.containers import detect, kafka_rows, message_files
from cdcwb.formats.containers.detect import probe_all
from cdcwb.formats.containers.kafka_rows import messages_of
from cdcwb.formats.containers.message_files import Container, Part, container_rows
from cdcwb.formats.containers.registry import read_registry
from cdcwb.formats.dissector import Piece, Run, RunRows, detected_row, problem_row
from cdcwb.formats.files import list_files
from cdcwb.formats.messages.format import (
    MESSAGE_OPTIONS,
    MessagePlan,
    Task,
    file_notes,
    first_pass,
    given_options,
    plan_tasks,
)
from cdcwb.formats.qlik_kafka.events import FORMAT
from cdcwb.formats.qlik_kafka.scan import (
    Asked,
    Scan,
    find_versions,
    mask_order_row,
    scan,
    table_rows,
    usable_places,
    votes_of,
)
from cdcwb.formats.qlik_kafka.versions import PLACES, Settings, Version, Versions
from cdcwb.formats.source import read_text
from cdcwb.model import Problem

__all__ = ["OPTIONS", "Options", "Plan", "make_plan", "make_row_plan", "pieces_of"]


# --- plan -------------------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Plan(MessagePlan):
    """How a capture of messages is read."""

    settings: Settings
    versions: list[Version]
    asked: list[Asked] = field(default_factory=list)  # of each container; stays where the plan is made

    def lookup(self) -> Versions:
        """The versions, to be found by what messages say."""
        return Versions(self.versions)

    def to_text(self) -> str:
        """The plan as one line of ASCII text."""
        return MessagePlan.to_text(replace(self, asked=[]))


# --- planning ---------------------------------------------------------------------------------------------------------

OPTIONS: Final[dict[str, str]] = {
    **MESSAGE_OPTIONS,
    "metadata": "files or a folder with metadata messages that are not in the capture",
    "avro_schema": "file with the Avro schema of messages that name none",
    "mask_order": "byte order of masks in Avro messages: auto, big, little",
    "table_from": f"location of the table name if no metadata gives it: auto, {', '.join(PLACES)}",
}
"""Every option of the format and what it means."""

_VOTING: Final = 4096  # messages that are asked about the byte order of their masks
_VOTING_OF_EACH: Final = 256  # of each part, at least


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a capture, checked. None: to be detected."""

    registry: str | None = None
    metadata: tuple[str, ...] = ()
    avro_schema: str | None = None
    mask_order: str | None = None
    table_from: str | None = None
    mode: str = "PERMISSIVE"
    container: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Options:
        """Checked options from names and values. Raises OptionError that says what is wrong and what there is."""
        shared, values = given_options(given, OPTIONS, FORMAT)
        order = opt.as_choice("mask_order", values.get("mask_order", "auto"), ("auto", "big", "little"))
        place = opt.as_choice("table_from", values.get("table_from", "auto"), ("auto", *PLACES))
        metadata = values.get("metadata", ())
        return cls(
            **shared,
            metadata=(str(metadata),) if isinstance(metadata, (str, Path)) else tuple(map(str, metadata)),
            avro_schema=_schema_text(str(values["avro_schema"])) if "avro_schema" in values else None,
            mask_order=None if order == "auto" else order,
            table_from=None if place == "auto" else place,
        )

    def check_files(self) -> None:
        """Raises CaptureError where metadata or registry are not there."""
        if self.metadata:
            list_files(self.metadata)
        if self.registry:
            read_registry(self.registry, ())

    @property
    def settings(self) -> Settings:
        """What messages are looked at with before anything was detected."""
        places = PLACES if self.table_from is None else (self.table_from,)
        return Settings(self.mask_order or "big", places, self.avro_schema)


def _schema_text(path: str) -> str:
    try:
        return read_text(path)
    except (OSError, UnicodeDecodeError) as reason:
        raise OptionError(f"option avro_schema: {path!r} cannot be read ({opt.reason_of(reason)})") from None


def run_here(function: Any, tasks: Sequence[Any]) -> list[Any]:
    """Runs the tasks one after the other in this process."""
    return [function(task) for task in tasks]


def _scan(given: tuple[Task, Settings]) -> tuple[Scan, list[tuple[int, Asked]]]:
    (task, settings), whole = given, Scan()
    asked: list[tuple[int, Asked]] = []
    for container, (index, start, stop) in task:
        batches = ((messages, index) for messages in message_files.read(container, start, stop))
        one = scan(batches, settings, container.schema)
        asked.append((index, one.asked()))
        whole.add(one)
    return whole, asked


def make_plan(paths: Sequence[str], options: Options, run: Run = run_here) -> Plan:
    """The plan of a capture. ``paths`` are its files in capture order; ``run`` maps a function over tasks. Raises
    CaptureError for files that cannot be read."""
    found = probe_all(paths, options.container, run)
    found, splits, results = first_pass(_scan, found, options.container, run, options.settings)
    whole = Scan()
    asked = [Asked() for _ in found]
    for one, told in results:
        whole.add(one)
        for index, of_part in told:
            asked[index].add(of_part)
    plan = _plan(found, splits, whole, options)
    plan.asked = asked
    plan.detected[:0] = container_rows(found, options.container)
    if options.mask_order is None and _has_avro(whole, found):
        text = plan.to_text()
        most = max(_VOTING_OF_EACH, _VOTING // max(1, sum(map(len, splits))))
        votes = run(_vote, [(task, text, most) for task in plan_tasks(found, splits)])
        _decide_order(plan, [vote for some in votes for vote in some])
    return plan


def make_row_plan(name: str, partitions: list[tuple[str, int]], run: RunRows, options: Options) -> Plan:
    """The plan of rows of these topics and partitions."""
    whole = Scan()
    for text in run(_RowScan(options.settings, partitions)):
        whole.add(pickle.loads(text))
    plan = _plan([], [], whole, options)
    plan.name, plan.partitions = name, partitions
    if options.mask_order is None and _has_avro(whole, []):
        _decide_order(plan, [pickle.loads(text) for text in run(_RowVote(plan.to_text()))])
    return plan


@dataclass(frozen=True, slots=True)
class _RowScan:
    settings: Settings
    partitions: list[tuple[str, int]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> bytes:
        placed = (messages_of(batch, self.partitions) for batch in batches)
        return pickle.dumps(scan(placed, self.settings))


@dataclass(frozen=True, slots=True)
class _RowVote:
    plan: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> bytes:
        plan = Plan.from_text(self.plan)
        return pickle.dumps(votes_of(map(kafka_rows.from_arrow, batches), plan.settings, plan.lookup(), None, _VOTING))


def _plan(found: list[Container], splits: list[list[Part]], whole: Scan, options: Options) -> Plan:
    beside = _beside(options)
    texts = read_registry(options.registry, sorted(whole.registry_ids)) if options.registry else {}
    if options.avro_schema is not None:  # a record without a frame may begin with a zero as well
        whole.registry_ids = {number: place for number, place in whole.registry_ids.items() if number in texts}
    places, place_rows = usable_places(whole, options.table_from)
    schemas = [(at, one.schema) for at, one in enumerate(found) if one.schema is not None]
    clashes = _clashes(whole, found)
    versions, notes = find_versions(whole, beside, texts, schemas, options.avro_schema, places)
    for version in versions:
        if found and version.has_event:
            version.offset = found[version.file_index].row(version.offset)
    settings = replace(options.settings, places=places)
    unresolved = sorted(set(whole.schema_ids) - {one.schema_id for one in versions if one.schema_id})
    facts = {
        "bytes": sum(one.size for one in found if one.unit == "byte"),
        "records": whole.records,
        "messages": whole.messages,
        "table_versions": len(versions),
        "unresolved_schemas": len(unresolved) + len(set(whole.registry_ids) - set(texts)),
    }
    detected = [*place_rows, *table_rows(versions), *_metadata_rows(whole, versions, unresolved, texts)]
    if options.mask_order is not None:
        detected.append(detected_row("mask_order", options.mask_order, "given as an option", True))
    notes = [*file_notes(found), *clashes, *notes]
    return Plan(
        containers=found,
        splits=splits,
        detected=detected,
        facts=facts,
        notes=notes,
        settings=settings,
        versions=versions,
    )


def _clashes(whole: Scan, found: Sequence[Container]) -> list[dict[str, Any]]:
    """Metadata messages that describe something else under a schema id that was there before."""
    notes = []
    for (file, offset, length), version in whole.clashing:
        (first_file, first_offset, _), _ = whole.metadata[version.table_version]
        if found:
            offset, first_offset = found[file].row(offset), found[first_file].row(first_offset)
        at = f"offset {first_offset}" + (f" of {found[first_file].path}" if found and first_file != file else "")
        sentence = (
            f"expected the columns that schema id {version.table_version} has in the metadata message at {at}, found "
            "others; messages with this id are decoded with the first"
        )
        place = {"file": found[file].path, "offset": offset, "length": length} if found else {}
        notes.append(problem_row(Problem.SCHEMA_MISMATCH, sentence, table=version.full_name, **place))
    return notes


def _beside(options: Options) -> list[Version]:
    """The versions of the metadata messages beside the capture."""
    whole = Scan()
    for path in list_files(options.metadata) if options.metadata else ():
        container = detect.probe(path, {})
        for start, stop in message_files.parts(container):
            batches = ((messages, -1) for messages in message_files.read(container, start, stop))
            whole.add(scan(batches, options.settings, container.schema))
    if options.metadata and not whole.metadata:
        raise OptionError("option metadata: no metadata message was found there", path=options.metadata[0])
    versions = [version for _, version in whole.metadata.values()]
    for version in versions:
        version.origin, version.file_index, version.offset, version.length = "side file", -1, -1, -1
    return versions


def _has_avro(whole: Scan, found: Sequence[Container]) -> bool:
    forms = whole.forms
    return (
        any(forms.get(name) for name in ("ENVELOPE", "CONFLUENT"))
        or any(one.schema for one in found)
        or bool(forms.get("BARE"))
    )


def _vote(given: tuple[Task, str, int]) -> Any:
    task, text, most = given
    plan = Plan.from_text(text)
    versions, votes = plan.lookup(), []
    for container, (_, start, stop) in task:
        batches = message_files.read(container, start, stop, batch=min(most, 1024))
        votes.append(votes_of(batches, plan.settings, versions, container.schema, most))
    return votes


def _decide_order(plan: Plan, votes: Sequence[Any]) -> None:
    order, row = mask_order_row(votes)
    plan.settings = replace(plan.settings, mask_order=order)
    plan.detected.append(row)


def _metadata_rows(
    whole: Scan, versions: Sequence[Version], unresolved: Sequence[str], texts: Mapping[int, str]
) -> list[dict[str, Any]]:
    rows = []
    named = len(whole.schema_ids)
    if named:
        evidence = (
            f"{named - len(unresolved)} of {named} schema ids that data messages name have their metadata message"
        )
        rows.append(detected_row("metadata", "messages" if len(unresolved) < named else "none", evidence, False))
    if whole.registry_ids:
        ids = len(whole.registry_ids)
        evidence = f"{len(texts)} of {ids} schema ids of the Confluent framing are in the registry"
        rows.append(detected_row("registry", "given" if texts else "none", evidence, bool(texts)))
    inferred = [one for one in versions if one.origin == "inferred"]
    if inferred:
        evidence = f"no metadata: {len(inferred)} table versions are the key orders of `data`, which give the ordinals"
        rows.append(detected_row("ordinals", "key order", evidence, False))
    return rows


# --- pieces -----------------------------------------------------------------------------------------------------------


def pieces_of(plan: Plan) -> Iterator[list[Piece]]:
    """What the events of each part follow from: its container and how that is read, the settings, and the versions that
    its messages find, be their metadata in the same file or in one that came later."""
    contexts = _Contexts(plan)
    for parts in plan.splits:
        yield [contexts.piece(part) for part in parts]


class _Contexts:
    """The contexts of a plan's parts; what many of them share is made once."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.lookup = plan.lookup()
        self._texts: dict[int, str] = {}

    def piece(self, part: Part) -> Piece:
        """What the events of a part follow from."""
        index, start, stop = part
        container = self.plan.containers[index]
        context: dict[str, Any] = {
            **container.context(start, stop),
            "settings": asdict(self.plan.settings),
            "versions": self._found(index, container.schema),
        }
        return Piece((container.path,), json.dumps(context))

    def _found(self, index: int, schema: str | None) -> dict[str, Any]:
        """The versions that the messages of a container find, by what they are found by."""
        asked = self.plan.asked[index] if self.plan.asked else Asked(everything=True)
        if asked.everything:
            return {"everything": self._everything}
        lookup, given = self.lookup, self.plan.settings.avro_schema
        unknown = asked.schema_ids - lookup.by_schema_id.keys()
        texts = asked.schema_texts | {text for text in (schema, given) if text is not None}
        return {
            "schema ids": [(one, self._text(lookup.by_schema_id.get(one))) for one in sorted(asked.schema_ids)],
            "registry ids": [(one, self._text(lookup.by_registry_id.get(one))) for one in sorted(asked.registry_ids)],
            "texts": [(one, self._text(lookup.by_text.get(one))) for one in sorted(texts)],
            "names": self._by_names if asked.names or unknown else None,
        }

    @cached_property
    def _everything(self) -> list[str | None]:
        return self._all(self.plan.versions)

    @cached_property
    def _by_names(self) -> list[str | None]:
        return self._all(self.lookup.by_names.values())

    def _all(self, versions: Iterable[Version]) -> list[str | None]:
        return [self._text(one) for one in versions]

    def _text(self, version: Version | None) -> str | None:
        """A version as text, without its place, which no event says."""
        if version is None:
            return None
        if id(version) not in self._texts:
            self._texts[id(version)] = json.dumps(version.without_place())
        return self._texts[id(version)]
