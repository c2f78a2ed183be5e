"""The format ``debezium``: change events of Debezium's connectors on Kafka (docs/formats/debezium.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from cdcwb.formats.columns import TableColumn, TableVersion
from cdcwb.formats.containers.kafka_rows import OF_TABLES, Where
from cdcwb.formats.containers.messages import Messages
from cdcwb.formats.debezium.events import FORMAT, MessageContext, events_of
from cdcwb.formats.debezium.layout import ENVELOPE, OTHERS, SOURCE, TRANSACTION, UNAVAILABLE, arrow_of
from cdcwb.formats.debezium.plan import Plan, complete, messages_found
from cdcwb.formats.dissector import Field, TableRequest, Wanted
from cdcwb.formats.messages.connect import message_tree
from cdcwb.formats.messages.format import MessageFormat, Options
from cdcwb.formats.requests import versions_schema

__all__ = ["Debezium"]

_MEANINGS: Final[dict[str, Mapping[str, str]]] = {
    "": {**OTHERS, **TRANSACTION, **ENVELOPE},
    "source": SOURCE,
    "transaction": TRANSACTION,
}


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
        """See :meth:`cdcwb.formats.dissector.Format.table_schema` (docs/formats/debezium.md §9). Columns of versions
        without a schema are text, and so is a column whose type differs between versions."""

        def type_of(version: TableVersion, column: TableColumn) -> pa.DataType:
            has_schema = version.origin in ("record", "registry")
            return arrow_of(column.type or "", column.precision, column.scale) if has_schema else pa.string()

        return versions_schema(plan.versions, request, type_of)

    def dissected(
        self, plan: Plan, messages: Messages, schema: str | None, event: Mapping[str, Any]
    ) -> tuple[Field, str]:
        """See :meth:`cdcwb.formats.messages.format.MessageFormat.dissected`. Columns have the values of the event."""
        images = {name: dict(event[name]) for name in ("before", "after") if name in event}

        def described(section: str, name: str, text: str | None, kind: str) -> tuple[str | None, str]:
            image = images.get(section)
            if image is None or not kind:
                return text, _MEANINGS.get(section, {}).get(name, "")
            if name not in image:
                return text, "a column whose value was not captured"
            value = image[name]
            if value is None:
                return None, "a column: NULL"
            return value, "a column" if value == text else f"a column, stored as {text or kind}"

        tree = message_tree(messages.value[0].as_py(), plan.schemas, described, schema)
        problems, version = event.get("problems"), event.get("table_version")
        if problems and not any(one.problem for one in tree.walk()):
            tree = replace(tree, problem=problems[0]["code"], meaning=f"{tree.meaning}; {problems[0]['detail']}")
        return tree, "" if version is None else f"decoded with table version {version}"
