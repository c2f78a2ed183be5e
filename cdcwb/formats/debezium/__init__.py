"""The format ``debezium``: change events of Debezium's connectors on Kafka (docs/formats/debezium.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from cdcwb.formats.containers.kafka_rows import OF_TABLES, Where
from cdcwb.formats.containers.messages import Messages
from cdcwb.formats.debezium.events import FORMAT, MessageContext, events_of
from cdcwb.formats.debezium.inspect import dissect
from cdcwb.formats.debezium.layout import UNAVAILABLE
from cdcwb.formats.debezium.plan import Plan, complete, messages_found
from cdcwb.formats.debezium.table import typed_schema
from cdcwb.formats.dissector import Field, TableRequest, Wanted
from cdcwb.formats.messages.format import MessageFormat, Options

__all__ = ["Debezium"]


class Debezium(MessageFormat):
    """Reads Debezium's change events, in JSON and Avro, from files and from rows of a topic."""

    name = FORMAT
    owner = "Debezium's"
    own_options: Mapping[str, str] = {
        "unavailable": f"placeholder of the connector for values that it does not have ({UNAVAILABLE})"
    }
    of_tables: frozenset[str] | None = OF_TABLES | {"key"}
    plan_type = Plan

    count = staticmethod(messages_found)
    complete = staticmethod(complete)

    def begin(self, options: Options, **plan: Any) -> Plan:
        """See :meth:`cdcwb.formats.messages.format.MessageFormat.begin`."""
        return Plan(unavailable=options.given.get("unavailable", UNAVAILABLE), **plan)

    def reading(self, plan: Plan) -> MessageContext:
        """Schemas and versions."""
        return plan.reading()

    def events(
        self, plan: Plan, reading: MessageContext, messages: Messages, where: Where, wanted: Wanted, schema: str | None
    ) -> pa.RecordBatch:
        """See :func:`cdcwb.formats.debezium.events.events_of`."""
        return events_of(messages, where, replace(reading, bare=schema), wanted)

    def table_schema(self, plan: Plan, request: TableRequest) -> pa.Schema:
        """See :func:`cdcwb.formats.debezium.table.typed_schema`."""
        return typed_schema(plan.versions, request)

    def dissected(
        self, plan: Plan, messages: Messages, schema: str | None, event: Mapping[str, Any]
    ) -> tuple[Field, str]:
        """See :func:`cdcwb.formats.debezium.inspect.dissect`."""
        version = event.get("table_version")
        note = "" if version is None else f"decoded with table version {version}"
        return dissect(messages.value[0].as_py(), plan.schemas, schema, event), note
