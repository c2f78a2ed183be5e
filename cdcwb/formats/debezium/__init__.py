"""The format ``debezium``: change events of Debezium's connectors on Kafka (docs/formats/debezium.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from cdcwb.formats.containers.kafka_rows import OF_TABLES, Where
from cdcwb.formats.containers.messages import Messages
from cdcwb.formats.containers.registry import read_registry
from cdcwb.formats.debezium.events import FORMAT, Reading, events_of
from cdcwb.formats.debezium.inspect import inspect_record
from cdcwb.formats.debezium.plan import OPTIONS, Options, Plan, make_plan, make_row_plan, messages_found, pieces_of
from cdcwb.formats.debezium.table import typed_rows, typed_schema
from cdcwb.formats.dissector import TableRequest, Wanted
from cdcwb.formats.messages.format import MessageFormat
from cdcwb.formats.requests import FROM_EVENTS, images_of, select
from cdcwb.model import Kind

__all__ = ["Debezium"]


class Debezium(MessageFormat):
    """Reads Debezium's change events, in JSON and Avro, from files and from rows of a topic."""

    name = FORMAT
    owner = "Debezium's"
    options: Mapping[str, str] = OPTIONS
    of_tables: frozenset[str] | None = OF_TABLES | {"key"}
    plan_type, options_type = Plan, Options

    pieces = staticmethod(pieces_of)
    count = staticmethod(messages_found)
    make_plan = staticmethod(make_plan)
    plan_of_rows = staticmethod(make_row_plan)
    inspect_record = staticmethod(inspect_record)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """See :meth:`Options.parse`; a registry has to exist."""
        registry = Options.parse(options).registry
        if registry:
            read_registry(registry, ())

    def reading(self, plan: Plan) -> Reading:
        """Schemas and versions."""
        return plan.reading()

    def events(
        self, plan: Plan, reading: Reading, messages: Messages, where: Where, wanted: Wanted, schema: str | None
    ) -> pa.RecordBatch:
        """See :func:`cdcwb.formats.debezium.events.events_of`."""
        return events_of(messages, where, replace(reading, bare=schema), wanted)

    def table_schema(self, plan: Plan, request: TableRequest) -> pa.Schema:
        """See :func:`cdcwb.formats.debezium.table.typed_schema`."""
        return typed_schema(plan.versions, request)

    def typed(
        self, plan: Plan, reading: Reading, messages: Messages, where: Where, request: TableRequest, schema: str | None
    ) -> Iterator[pa.RecordBatch]:
        """See :func:`cdcwb.formats.debezium.table.typed_rows`."""
        wanted = Wanted(
            kinds=frozenset([str(Kind.CHANGE)]),
            tables=frozenset([request.name]),
            columns=frozenset([*FROM_EVENTS, "schema_name", "table_name", *images_of(request)]),
        )
        for events in select(self.events(plan, reading, messages, where, wanted, schema), wanted):
            yield typed_rows(events, plan.versions, request)
