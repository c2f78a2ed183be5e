"""The format ``qlik-kafka`` as the rest of cdcwb sees it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdcwb.formats.containers.kafka_rows import OF_TABLES, Where
from cdcwb.formats.containers.messages import Messages
from cdcwb.formats.dissector import Recognition, TableRequest, Wanted
from cdcwb.formats.messages.format import MessageFormat
from cdcwb.formats.qlik_kafka.decode import Form, forms_of, is_json, read_message
from cdcwb.formats.qlik_kafka.events import FORMAT, events_of
from cdcwb.formats.qlik_kafka.inspect import inspect_record
from cdcwb.formats.qlik_kafka.plan import OPTIONS, Options, Plan, make_plan, make_row_plan, pieces_of
from cdcwb.formats.qlik_kafka.table import read_table, typed_schema
from cdcwb.formats.qlik_kafka.versions import Versions

__all__ = ["QlikKafka"]

_KAFKA: Final = frozenset({"key", "value", "topic", "partition", "offset", "timestamp", "headers"})


class QlikKafka(MessageFormat):
    """Reads Qlik Replicate's Kafka messages in every wire form and container (docs/formats/qlik-kafka.md)."""

    name = FORMAT
    owner = "Qlik's"
    options: Mapping[str, str] = OPTIONS
    of_tables: frozenset[str] | None = OF_TABLES
    plan_type, options_type = Plan, Options

    pieces = staticmethod(pieces_of)
    make_plan = staticmethod(make_plan)
    plan_of_rows = staticmethod(make_row_plan)
    inspect_record = staticmethod(inspect_record)
    table_schema = staticmethod(typed_schema)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """See :meth:`Options.parse`; metadata and registry have to be there."""
        Options.parse(options).check_files()

    def recognise_rows(self, schema: pa.Schema) -> Recognition:
        """Looks for Kafka's columns."""
        names = {name.lower() for name in schema.names}
        found = names & _KAFKA
        if "value" in names and len(found) > 1:
            return Recognition(0.9, [f"Kafka's columns {', '.join(sorted(found))}"])
        if "value" in names:
            return Recognition(0.6, ["a column `value`"])
        return Recognition(0.0, ["no column `value`"])

    def count(self, messages: Messages, schema: str | None, options: Mapping[str, Any]) -> tuple[int, int, bool]:
        """How many messages are Qlik's, how many were looked at, and whether more than the Confluent framing shows
        it: a zero at the beginning says little."""
        found, looked, framed = _qlik(messages, schema)
        return found, looked, framed != found

    def reading(self, plan: Plan) -> Versions:
        """The versions, to be found by what messages say."""
        return plan.lookup()

    def events(
        self, plan: Plan, reading: Versions, messages: Messages, where: Where, wanted: Wanted, schema: str | None
    ) -> pa.RecordBatch:
        """See :func:`cdcwb.formats.qlik_kafka.events.events_of`."""
        return events_of(messages, where, plan.settings, reading, wanted, schema)

    def typed(
        self, plan: Plan, reading: Versions, messages: Messages, where: Where, request: TableRequest, schema: str | None
    ) -> Iterator[pa.RecordBatch]:
        """See :func:`cdcwb.formats.qlik_kafka.table.read_table`."""
        yield from read_table(plan, reading, messages, where, schema, request)


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
