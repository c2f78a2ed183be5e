"""What formats of messages have in common: how captures of files and of rows are planned, recognised and read."""

from __future__ import annotations

import contextlib
import gc
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import islice
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
import pyarrow as pa

from cdcwb.errors import CaptureError, MalformedRecordError
from cdcwb.formats import options as opt
from cdcwb.formats.containers import message_files as files
from cdcwb.formats.containers.detect import probe
from cdcwb.formats.containers.kafka_rows import Where, messages_of, topic_partitions
from cdcwb.formats.containers.message_files import OPTIONS, Container, Part
from cdcwb.formats.containers.messages import BATCH, Messages, batched, joined
from cdcwb.formats.containers.registry import read_registry
from cdcwb.formats.dissector import (
    CHANGES,
    EVERYTHING,
    Field,
    Inspection,
    PlanText,
    Recognition,
    RowFormat,
    Run,
    RunRows,
    TableRequest,
    Wanted,
    problem_row,
    run_here,
)  # fmt: skip
from cdcwb.formats.requests import select, typed_rows
from cdcwb.formats.source import Info, info_of
from cdcwb.model import Kind, Problem

MESSAGE_OPTIONS: Final[dict[str, str]] = {
    **OPTIONS,
    "registry": "Confluent schema registry: a folder of <id>.avsc files, or its URL",
    **opt.SHARED,
}
"""The options that every format of messages has, and what they mean."""


@dataclass(frozen=True, slots=True)
class Options:
    """The checked options of a capture: those that all formats of messages have, and, as texts, the ``given`` ones of
    the format itself."""

    registry: str | None = None
    mode: str = "PERMISSIVE"
    container: dict[str, Any] = field(default_factory=dict)
    given: dict[str, str] = field(default_factory=dict)


# --- plans ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class MessagePlan(PlanText):
    """How a capture of messages is read. ``name`` is what a table of rows is called; None for files."""

    containers: list[Container] = field(default_factory=list)
    splits: list[list[Part]] = field(default_factory=list)  # small files that follow each other are read together
    detected: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    notes: list[dict[str, Any]] = field(default_factory=list)  # problems that concern no event
    name: str | None = None
    partitions: list[tuple[str, int]] = field(default_factory=list)  # topics and partitions of rows, in order


Batches = Iterable[tuple[Messages, Any]]
"""Messages, each batch with the index of their file, or the indices of the file of each."""

Scan = Callable[[Batches, Container | None, Any], Any]
"""Reads some batches of a capture. Its arguments are those, their container (None: rows of a topic), and what all of
them are read with. Has to be picklable, as its result."""

Pass = Callable[[Scan, Any], list[Any]]
"""Runs a scan over a capture, in parallel, and returns the results in order. The second argument is the third of the
scan."""


def _over_files(run: Run, plan: MessagePlan, scan: Scan, given: Any) -> list[Any]:
    tasks = [(scan, given, [(plan.containers[part[0]], part) for part in split]) for split in plan.splits]
    return [one for found in run(_scan_files, tasks) for one in found]


def _scan_files(task: tuple[Scan, Any, list[tuple[Container, Part]]]) -> list[Any]:
    scan, given, some = task
    with _paused():
        return [
            scan(((messages, index) for messages in files.read(container, start, stop)), container, given)
            for container, (index, start, stop) in some
        ]


def _over_rows(run: RunRows, partitions: Sequence[tuple[str, int]], scan: Scan, given: Any) -> list[Any]:
    return [pickle.loads(text) for text in run(partial(_scan_rows, scan, given, partitions))]


def _scan_rows(
    scan: Scan, given: Any, partitions: Sequence[tuple[str, int]], batches: Iterator[pa.RecordBatch]
) -> bytes:
    found = (messages_of(batch, partitions) for batch in batches)
    return pickle.dumps(scan(((messages, where.file_index) for messages, where in found), None, given))


_PRINTED: Final = "not JSON but objects as Python prints them; they are read as JSON"
"""The problem of a file whose messages were printed by Python."""


# --- formats ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _paused() -> Iterator[None]:
    """Without Python's search for cycles of objects: messages have many objects and no cycles, and the search takes a
    quarter of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


_FILES: Final = 8  # that are looked at to recognise a capture
_TASK: Final = 64  # that one task looks at
_MESSAGES: Final = 64
_BATCHES: Final = 64  # of so many messages, until one has a message
ENOUGH: Final = 1 << 20
"""Bytes of a compressed file that are unpacked to recognise it."""


class MessageFormat(RowFormat):
    """A format whose records are messages in files of any kind, or rows with Kafka's columns.

    ``owner``: whose messages they are (``Qlik's``); ``own_options``: the options of the format itself, with a
    description each; ``without_options``: shared ones that it does not have. A plan is made of what ``begin`` gives,
    and ``complete`` adds what it finds by running over all messages. ``events`` and ``typed`` read a batch with what
    ``reading`` made of the plan.
    """

    owner: ClassVar[str]
    own_options: Mapping[str, str] = {}
    without_options: frozenset[str] = frozenset()

    @property
    def options(self) -> Mapping[str, str]:  # type: ignore[override]
        """The description of every option."""
        shared = {name: text for name, text in MESSAGE_OPTIONS.items() if name not in self.without_options}
        return {**self.own_options, **shared}

    def parse_options(self, options: Mapping[str, Any]) -> Options:
        """See :meth:`cdcwb.formats.dissector.Format.parse_options`."""
        opt.check_names(options, self.options, self.name)
        values = {name: value for name, value in options.items() if value is not None and value != ""}
        container = {name: value for name, value in values.items() if name in OPTIONS}
        files.Options.parse(container)
        registry = str(values["registry"]) if "registry" in values else None
        mode = opt.as_choice("mode", values.get("mode", "PERMISSIVE"), opt.MODES)
        own = {
            name: "\n".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
            for name, value in values.items()
            if name in self.own_options
        }
        return Options(registry, mode, container, own)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """See :meth:`parse_options`; a registry has to exist."""
        checked = self.parse_options(options)
        if checked.registry:
            read_registry(checked.registry, ())

    def recognise(self, paths: Sequence[str], options: Mapping[str, Any]) -> Recognition:
        """Looks at the first messages of the first files."""
        given = {name: value for name, value in options.items() if name in OPTIONS and name != "split_size"}
        reason = f"no message of {self.owner} was found"
        for path in paths[:_FILES]:
            try:
                container, first = self.beginning(path, given)
                if container.kind not in files.KINDS:
                    return Recognition(0.98, [f"{path}: {container.evidence}"], container.kind)
                found, looked, is_sure = (
                    (0, 0, False) if first is None else self.count(first, container.schema, options)
                )
            except CaptureError as problem:
                reason = str(problem)
                continue
            if found:
                confidence = 0.6 if not is_sure else 0.98 if 2 * found >= looked else 0.7
                evidence = f"{path}: {found} of the first {looked} messages are {self.owner}"
                return Recognition(confidence, [container.evidence, evidence], container.kind)
        return Recognition(0.0, [reason])

    def beginning(self, path: str, given: Mapping[str, Any]) -> tuple[Container, Messages | None]:
        """What a file is, and its first messages; a container of a kind that only this format reads is its own."""
        try:
            info = info_of(path)
        except OSError as error:
            raise CaptureError(f"cannot be read ({error.strerror or error})", path=path) from error
        return _beginning(path, info, tuple(sorted(given.items())))

    def begins(self, plan: Any) -> Iterator[int]:
        """See :meth:`cdcwb.formats.dissector.Format.begins`."""
        return (part[0] for split in plan.splits for part in split)

    def probe(self, path: str, options: Mapping[str, Any], limit: int | None = None) -> Container:
        """What a file is; see :func:`cdcwb.formats.containers.detect.probe`."""
        return probe(path, options, limit)

    def _probe_some(self, task: tuple[Sequence[str], Mapping[str, Any]]) -> list[Container]:
        return [self.probe(path, task[1]) for path in task[0]]

    def make_plan(self, paths: Sequence[str], options: Any, run: Run) -> Any:
        """The plan of a capture from its files, with checked options. Raises CaptureError."""
        tasks = [(paths[at : at + _TASK], options.container) for at in range(0, len(paths), _TASK)]
        found = [one for some in run(self._probe_some, tasks) for one in some]
        plan = self.begin(options, containers=found)
        plan.splits = files.grouped(found, files.Options.parse(options.container).split_size)
        plan.detected = files.container_rows(found, options.container)
        for one in found:
            if one.problem:
                plan.notes.append(problem_row(Problem.TRUNCATED, one.problem, file=one.path))
            if one.settings.get("encoding") == "python":
                plan.notes.append(problem_row(Problem.JSON_SYNTAX, _PRINTED, file=one.path))
        plan.facts["bytes"] = sum(one.size for one in found if one.unit == "byte")
        self.complete(plan, options, partial(_over_files, run, plan))
        return plan

    def plan(self, paths: Sequence[str], options: Mapping[str, Any], run: Run) -> Any:
        """The plan of a capture. In mode FAILFAST raises CaptureError for the first message that cannot be decoded."""
        checked = self.parse_options(options)
        plan = super().plan(paths, options, run)
        if checked.mode == "FAILFAST":
            text = plan.to_text()
            tasks = [(self, text, split) for split in range(len(plan.splits))]
            found = [one for one in run(_first_malformed, tasks) if one is not None]
            if found:
                index, offset, reason = min(found)
                raise MalformedRecordError(reason, path=plan.containers[index].path, offset=offset)
        return plan

    def plan_rows(self, name: str, schema: pa.Schema, run: RunRows, options: Mapping[str, Any]) -> Any:
        """The plan of rows with Kafka's columns. Raises CaptureError where there is no column ``value``."""
        checked = self.parse_options(options)
        if "value" not in {column.lower() for column in schema.names}:
            found = ", ".join(schema.names)
            raise CaptureError(f"expected Kafka's columns, at least `value`, found {found}", path=name)
        partitions = sorted(set().union(*map(pickle.loads, run(topic_partitions))))
        plan = self.begin(checked, name=name, partitions=partitions)
        plan.facts["bytes"] = 0
        self.complete(plan, checked, partial(_over_rows, run, partitions))
        return plan

    def inspect(self, path: str, offset: int, options: Mapping[str, Any]) -> Inspection:
        """The message (or other bytes) at ``offset`` of the decompressed file, or the row ``offset`` of a container
        that counts rows. Raises CaptureError if the file ends before ``offset``."""
        return self.inspected([path], offset, options)

    def inspected(self, paths: Sequence[str], offset: int, options: Mapping[str, Any]) -> Inspection:
        """As :meth:`inspect`, of the last of these files, which are one capture."""
        checked = replace(self.parse_options(options), mode="PERMISSIVE")
        container = self.probe(paths[-1], checked.container)
        messages = files.locate(container, offset)
        plan = self.make_plan(paths, checked, run_here)
        where = Where(container.path, 0, container.unit)
        found = self.events(plan, self.reading(plan), messages, where, EVERYTHING, container.schema).to_pylist()
        found = [{name: value for name, value in one.items() if value is not None} for one in found]
        event = next((one for one in reversed(found) if one["offset"] <= offset and one["length"]), found[0])
        start, length = int(messages.offset[0]), int(messages.length[0])
        if messages.state[0]:
            raw, reason = messages.source[0].as_py() or b"", messages.reasons.get(0, "")
            damage = Field(str(event["kind"]), 0, len(raw), raw, None, reason)
            return Inspection(container.path, start, length, raw, damage, event, reason)
        tree, note = self.dissected(plan, messages, container.schema, event)
        events = [one for one in found if one["offset"] == event["offset"]]
        return Inspection(container.path, start, length, messages.value[0].as_py() or b"", tree, event, note, events)

    def files(self, plan: Any) -> list[dict[str, Any]]:
        """See :func:`cdcwb.formats.containers.message_files.file_rows`."""
        return files.file_rows(plan.containers)

    def read(self, plan: Any, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The events of one split."""
        return self._events(plan, _batches(plan, split), wanted)

    def read_rows(self, plan: Any, batches: Iterator[pa.RecordBatch], wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The events of rows with Kafka's columns."""
        return self._events(plan, _rows(plan, batches), wanted)

    def read_table(self, plan: Any, split: int, request: TableRequest) -> Iterator[pa.RecordBatch]:
        """The rows of one table in one split as typed columns, in capture order."""
        return self._typed(plan, _batches(plan, split), request)

    def read_table_rows(
        self, plan: Any, batches: Iterator[pa.RecordBatch], request: TableRequest
    ) -> Iterator[pa.RecordBatch]:
        """As :meth:`read_table`, of rows with Kafka's columns."""
        return self._typed(plan, _rows(plan, batches), request)

    def _events(self, plan: Any, batches: Iterator[_Located], wanted: Wanted) -> Iterator[pa.RecordBatch]:
        reading = self.reading(plan)
        while True:
            with _paused():
                if (found := next(batches, None)) is None:
                    return
                messages, where, schema = found
                events = self.events(plan, reading, messages, where, wanted, schema)
            yield from select(events, wanted)

    def _typed(self, plan: Any, batches: Iterator[_Located], request: TableRequest) -> Iterator[pa.RecordBatch]:
        table = self.table_schema(plan, request)
        kinds, columns = frozenset(CHANGES), frozenset({*table.names, "schema_name", "table_name"})
        wanted = Wanted(kinds=kinds, tables=frozenset([request.name]), columns=columns)
        for events in self._events(plan, batches, wanted):
            yield typed_rows(events, table)

    # --- what a format gives

    count: Callable[[Messages, str | None, Mapping[str, Any]], tuple[int, int, bool]]
    """How many messages are the format's, how many were looked at, and whether they show it surely."""

    def begin(self, options: Any, **plan: Any) -> Any:
        """A plan with these attributes, before anything is known."""
        return self.plan_type(**plan)

    complete: Callable[[Any, Any, Pass], None]
    """Adds to a plan what :data:`Scan`, run by the third argument, finds in the messages. Raises CaptureError."""

    reading: Callable[[Any], Any]
    """What all batches of a split are read with."""

    events: Callable[[Any, Any, Messages, Where, Wanted, str | None], pa.RecordBatch]
    """The events of a batch: from the plan, what it is read with, its messages and their places, what is wanted, and
    the Avro schema that its container names."""

    dissected: Callable[[Any, Messages, str | None, Mapping[str, Any]], tuple[Field, str]]
    """The fields of the one message of a batch, whose event this is, and a note about it."""


@lru_cache(maxsize=_FILES)
def _beginning(path: str, info: Info, given: tuple[tuple[str, Any], ...]) -> tuple[Container, Messages | None]:
    """What a file is, and its first messages, about which all formats are asked. ``info`` tells a file that has
    changed."""
    container = probe(path, dict(given), ENOUGH)
    return container, first_messages(container)


def first_messages(container: Container) -> Messages | None:
    """The first messages of a container, if there are any at its beginning."""
    for start, stop in files.parts(container)[:1]:
        for messages in islice(files.read(container, start, stop, _MESSAGES, ENOUGH), _BATCHES):
            if messages.value.null_count < len(messages):
                return messages
    return None


_Located: TypeAlias = tuple[Messages, Where, str | None]
"""Messages, where they are, and the Avro schema that their container names."""


def _rows(plan: MessagePlan, batches: Iterator[pa.RecordBatch]) -> Iterator[_Located]:
    """The messages of rows with Kafka's columns."""
    return ((*messages_of(batch, plan.partitions, plan.name or ""), None) for batch in batches)


def _batches(plan: MessagePlan, split: int) -> Iterator[_Located]:
    """The messages of a split; those of small files together, because a batch costs more than a few messages."""
    found = (
        (messages, index)
        for index, start, stop in plan.splits[split]
        for messages in files.read(plan.containers[index], start, stop)
    )

    def like(one: tuple[Messages, int]) -> tuple[str, str | None]:
        return plan.containers[one[1]].unit, plan.containers[one[1]].schema

    for some in batched(found, BATCH, lambda one: (len(one[0]), one[0].value.nbytes), like):
        yield _together(plan, some)


def _together(plan: MessagePlan, batches: Sequence[tuple[Messages, int]]) -> _Located:
    """Batches with the index of the container of each, as one."""
    first = plan.containers[batches[0][1]]
    if len(batches) == 1:
        return batches[0][0], Where(first.path, batches[0][1], first.unit), first.schema
    counts = [len(messages) for messages, _ in batches]
    indices = np.array([index for _, index in batches])
    paths = pa.array([plan.containers[index].path for _, index in batches], pa.string())
    file = paths.take(pa.array(np.repeat(np.arange(len(batches)), counts)))
    where = Where(file, pa.array(np.repeat(indices, counts).astype(np.int32)), first.unit)
    return joined([messages for messages, _ in batches]), where, first.schema


def _first_malformed(task: tuple[MessageFormat, str, int]) -> tuple[int, int, str] | None:
    form, text, split = task
    wanted = Wanted(images=False, kinds=frozenset({str(Kind.MALFORMED)}))
    for events in form.read(form.plan_from_text(text), split, wanted):
        first = events.slice(0, 1).to_pylist()[0]
        return first["file_index"], first["offset"], first["problems"][0]["detail"]
    return None
