"""The format ``qlik-kafka`` as the rest of cdcwb sees it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdcwb.errors import CaptureError
from cdcwb.formats import messages as containers
from cdcwb.formats.base import BaseFormat, Recognition, RunRows, TableRequest, Wanted
from cdcwb.formats.messages import Container, Messages
from cdcwb.formats.messages.reading import file_rows
from cdcwb.formats.messages.rows import OF_TABLES, Where, messages_of, where_of
from cdcwb.formats.qlik_kafka.decode import Form, forms_of, is_json, read_message
from cdcwb.formats.qlik_kafka.events import FORMAT, events_of
from cdcwb.formats.qlik_kafka.inspect import inspect_record
from cdcwb.formats.qlik_kafka.plan import OPTIONS, Options, Plan, make_plan, make_row_plan, pieces_of
from cdcwb.formats.qlik_kafka.table import read_table, typed_schema
from cdcwb.formats.requests import select

__all__ = ["QlikKafka"]

_FILES: Final = 8
_KAFKA: Final = frozenset({"key", "value", "topic", "partition", "offset", "timestamp", "headers"})
_MESSAGES: Final = 64
_ENOUGH: Final = 1 << 20  # bytes of a compressed file that are unpacked to recognise it


class QlikKafka(BaseFormat):
    """Reads Qlik Replicate's Kafka messages in every wire form and container (docs/formats/qlik-kafka.md)."""

    name = FORMAT
    options: Mapping[str, str] = OPTIONS
    of_tables: frozenset[str] | None = OF_TABLES
    plan_type, options_type = Plan, Options

    pieces = staticmethod(pieces_of)
    make_plan = staticmethod(make_plan)
    inspect_record = staticmethod(inspect_record)
    table_schema = staticmethod(typed_schema)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """See :meth:`Options.parse`; metadata and registry have to be there."""
        Options.parse(options).check_files()

    def recognise(self, paths: Sequence[str], options: Mapping[str, Any]) -> Recognition:
        """Looks at the first messages of the first files."""
        given = {name: value for name, value in options.items() if name in containers.OPTIONS}
        reason = "no message of Qlik's was found"
        for path in paths[:_FILES]:
            try:
                container = containers.probe(path, given, _ENOUGH)
                found, looked, framed = _first(container)
            except CaptureError as problem:
                reason = str(problem)
                continue
            if found:
                confidence = 0.98 if 2 * found >= looked else 0.7
                if framed == found:  # a zero at the beginning says little
                    confidence = 0.6
                evidence = f"{path}: {found} of the first {looked} messages are Qlik's"
                return Recognition(confidence, [container.evidence, evidence], container.kind)
        return Recognition(0.0, [reason])

    def recognise_rows(self, schema: pa.Schema) -> Recognition:
        """Looks for Kafka's columns."""
        names = {name.lower() for name in schema.names}
        found = names & _KAFKA
        if "value" in names and len(found) > 1:
            return Recognition(0.9, [f"Kafka's columns {', '.join(sorted(found))}"])
        if "value" in names:
            return Recognition(0.6, ["a column `value`"])
        return Recognition(0.0, ["no column `value`"])

    def plan_rows(self, name: str, schema: pa.Schema, run: RunRows, options: Mapping[str, Any]) -> Plan:
        """See :func:`cdcwb.formats.qlik_kafka.plan.make_row_plan`."""
        return make_row_plan(name, schema, run, Options.parse(options))

    def files(self, plan: Plan) -> list[dict[str, Any]]:
        """See :func:`cdcwb.formats.messages.reading.file_rows`."""
        return file_rows(plan.containers)

    def read(self, plan: Plan, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The events of one split; see :func:`cdcwb.formats.qlik_kafka.events.events_of`."""
        versions = plan.lookup()
        for index, start, stop in plan.splits[split]:
            container = plan.containers[index]
            where = Where(container.path, index, container.unit)
            for messages in containers.read(container, start, stop):
                events = events_of(messages, where, plan.settings, versions, wanted, container.schema)
                yield from select(events, wanted)

    def read_rows(self, plan: Plan, batches: Iterator[pa.RecordBatch], wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The events of rows with Kafka's columns."""
        versions = plan.lookup()
        for batch in batches:
            messages, index = messages_of(batch, plan.partitions)
            where = where_of(batch, index, plan.name or "")
            yield from select(events_of(messages, where, plan.settings, versions, wanted), wanted)

    def read_table(self, plan: Plan, split: int, request: TableRequest) -> Iterator[pa.RecordBatch]:
        """See :func:`cdcwb.formats.qlik_kafka.table.read_table`."""
        for index, start, stop in plan.splits[split]:
            container = plan.containers[index]
            where = Where(container.path, index, container.unit)
            yield from read_table(
                plan, _with(containers.read(container, start, stop), where), container.schema, request
            )

    def read_table_rows(
        self, plan: Plan, batches: Iterator[pa.RecordBatch], request: TableRequest
    ) -> Iterator[pa.RecordBatch]:
        """As :meth:`read_table`, of rows with Kafka's columns."""
        return read_table(plan, (_placed(batch, plan) for batch in batches), None, request)


def _with(batches: Iterator[Messages], where: Where) -> Iterator[tuple[Messages, Where]]:
    for messages in batches:
        yield messages, where


def _placed(batch: pa.RecordBatch, plan: Plan) -> tuple[Messages, Where]:
    messages, index = messages_of(batch, plan.partitions)
    return messages, where_of(batch, index, plan.name or "")


def _first(container: Container) -> tuple[int, int, int]:
    """How many of a container's first messages are Qlik's, how many were looked at, and how many of the former have
    nothing but the Confluent framing to tell."""
    for start, stop in containers.parts(container)[:1]:
        for messages in containers.read(container, start, stop, _MESSAGES, _ENOUGH):
            found = _qlik(messages, container.schema)
            if found[1]:
                return found
    return 0, 0, 0


def _qlik(messages: Messages, schema: str | None) -> tuple[int, int, int]:
    forms = forms_of(messages)
    there = (forms != Form.NOTHING) & (forms != Form.TOMBSTONE)
    good = int(np.count_nonzero(forms == Form.ENVELOPE))
    if schema is not None and all(f'"{name}"' in schema for name in ("headers", "changeSequence")):
        return int(np.count_nonzero(there)), int(np.count_nonzero(there)), 0
    for number in np.flatnonzero(forms == Form.JSON).tolist():
        value = messages.value[number].as_py()
        try:
            if is_json(value) and read_message(value, []):
                good += 1
        except ValueError:
            continue
    confluent = int(np.count_nonzero(forms == Form.CONFLUENT))
    if not confluent or 2 * confluent <= np.count_nonzero(there) or not _ids_repeat(messages, forms):
        confluent = 0
    return good + confluent, int(np.count_nonzero(there)), confluent


def _ids_repeat(messages: Messages, forms: Any) -> bool:
    """Do values that begin with a zero look framed: small schema ids, few of them?"""
    values = messages.value.take(pa.array(np.flatnonzero(forms == Form.CONFLUENT))).to_pylist()
    ids = {int.from_bytes(value[1:5], "big") for value in values}
    return max(ids) < 1 << 20 and (len(ids) <= 3 or 3 * len(ids) <= len(values))
