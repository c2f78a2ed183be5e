"""The format ``debezium``: change events of Debezium's connectors on Kafka (docs/formats/debezium.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from cdcwb.formats import messages as containers
from cdcwb.formats.base import BaseFormat, RunRows, TableRequest, Wanted
from cdcwb.formats.debezium.events import FORMAT, Reading, events_of, rows_of
from cdcwb.formats.debezium.inspect import inspect_record
from cdcwb.formats.debezium.plan import OPTIONS, Options, Plan, make_plan, make_row_plan, pieces_of, recognise
from cdcwb.formats.debezium.table import typed_rows, typed_schema
from cdcwb.formats.messages import Messages
from cdcwb.formats.messages.reading import file_rows
from cdcwb.formats.messages.registry import read_registry
from cdcwb.formats.messages.rows import OF_TABLES, Where, messages_of, where_of
from cdcwb.formats.requests import select

__all__ = ["Debezium"]


class Debezium(BaseFormat):
    """Reads Debezium's change events, in JSON and Avro, from files and from rows of a topic."""

    name = FORMAT
    options: Mapping[str, str] = OPTIONS
    of_tables: frozenset[str] | None = OF_TABLES | {"key"}
    plan_type, options_type = Plan, Options

    recognise = staticmethod(recognise)
    pieces = staticmethod(pieces_of)
    make_plan = staticmethod(make_plan)
    inspect_record = staticmethod(inspect_record)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """See :meth:`Options.parse`; a registry has to exist."""
        registry = Options.parse(options).registry
        if registry:
            read_registry(registry, ())

    def plan_rows(self, name: str, schema: pa.Schema, run: RunRows, options: Mapping[str, Any]) -> Plan:
        """See :func:`cdcwb.formats.debezium.plan.make_row_plan`."""
        return make_row_plan(name, schema, run, Options.parse(options))

    def files(self, plan: Plan) -> list[dict[str, Any]]:
        """See :func:`cdcwb.formats.messages.reading.file_rows`."""
        return file_rows(plan.containers)

    def read(self, plan: Plan, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The events of one split."""
        for messages, where, index in _messages(plan, split):
            yield from select(events_of(messages, where, plan.reading(plan.containers[index]), wanted), wanted)

    def read_rows(self, plan: Plan, batches: Iterator[pa.RecordBatch], wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The events of rows with Kafka's columns."""
        reading = plan.reading()
        for batch in batches:
            messages, index = messages_of(batch, plan.partitions)
            yield from select(events_of(messages, where_of(batch, index, plan.name or ""), reading, wanted), wanted)

    def table_schema(self, plan: Plan, request: TableRequest) -> pa.Schema:
        """See :func:`cdcwb.formats.debezium.table.typed_schema`."""
        return typed_schema(plan.versions, request)

    def read_table(self, plan: Plan, split: int, request: TableRequest) -> Iterator[pa.RecordBatch]:
        """The rows of one table in one split as typed columns."""
        for messages, _, index in _messages(plan, split):
            yield from _typed(plan, messages, index, plan.reading(plan.containers[index]), request)

    def read_table_rows(
        self, plan: Plan, batches: Iterator[pa.RecordBatch], request: TableRequest
    ) -> Iterator[pa.RecordBatch]:
        """As :meth:`read_table`, of rows with Kafka's columns."""
        reading = plan.reading()
        for batch in batches:
            messages, index = messages_of(batch, plan.partitions)
            yield from _typed(plan, messages, index, reading, request)


def _messages(plan: Plan, split: int) -> Iterator[tuple[Messages, Where, int]]:
    for index, start, stop in plan.splits[split]:
        container = plan.containers[index]
        where = Where(container.path, index, container.unit)
        for messages in containers.read(container, start, stop):
            yield messages, where, index


def _typed(
    plan: Plan, messages: Messages, index: Any, reading: Reading, request: TableRequest
) -> Iterator[pa.RecordBatch]:
    rows = rows_of(messages, replace(reading, table=request.name), True)
    indices = np.broadcast_to(index, len(rows)).tolist()
    for row, one, offset in zip(rows, indices, messages.offset.tolist(), strict=True):
        row.update(file_index=one, offset=offset)
    yield from typed_rows(rows, plan.versions, request)
