"""The format ``qlik-kafka``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdcwb.formats.containers import detect, message_files
from cdcwb.formats.containers.kafka_rows import OF_TABLES, Where
from cdcwb.formats.containers.message_files import Container
from cdcwb.formats.containers.messages import Messages
from cdcwb.formats.containers.registry import read_registry
from cdcwb.formats.dissector import EVERYTHING, Field, Inspection, Recognition, TableRequest, Wanted, run_here
from cdcwb.formats.files import list_files
from cdcwb.formats.json_values import CutOff, parse_json
from cdcwb.formats.messages.format import MessageFormat
from cdcwb.formats.qlik_kafka.decode import by_registry_id, forms_of
from cdcwb.formats.qlik_kafka.events import FORMAT, events_of
from cdcwb.formats.qlik_kafka.layout import Form, json_form
from cdcwb.formats.qlik_kafka.plan import OPTIONS, Options, Plan, make_plan, make_row_plan, pieces_of
from cdcwb.formats.qlik_kafka.table import read_table, typed_schema
from cdcwb.formats.qlik_kafka.tree import dissect
from cdcwb.formats.qlik_kafka.versions import Versions
from cdcwb.formats.source import folders_of, info_of, same_file
from cdcwb.model import Problem

__all__ = ["QlikKafka"]

_KAFKA: Final = frozenset({"key", "value", "topic", "partition", "offset", "timestamp", "headers"})
_NEAR: Final = 64 << 20  # bytes that are searched for metadata


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
    table_schema = staticmethod(typed_schema)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """See :meth:`Options.parse`; metadata and registry must exist."""
        checked = Options.parse(options)
        if checked.metadata:
            list_files(checked.metadata)
        if checked.registry:
            read_registry(checked.registry, ())

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
        """How many messages are Qlik's, how many were examined, and whether more than the Confluent framing shows it,
        since many values begin with a zero."""
        forms = forms_of(messages)
        examined = int(np.count_nonzero((forms != Form.NOTHING) & (forms != Form.TOMBSTONE)))
        if schema is not None and all(f'"{name}"' in schema for name in ("headers", "changeSequence")):
            return examined, examined, True
        sure = int(np.count_nonzero(forms == Form.ENVELOPE))
        sure += sum(_is_qliks(messages.value[number].as_py()) for number in np.flatnonzero(forms == Form.JSON).tolist())
        framed = int(np.count_nonzero(forms == Form.CONFLUENT))
        if 2 * framed > examined:
            ids = [number for number, _ in by_registry_id(messages, forms)]
            if max(ids) < 1 << 20 and (len(ids) <= 3 or 3 * len(ids) <= framed):  # small, and few of them
                return sure + framed, examined, sure > 0
        return sure, examined, True

    def reading(self, plan: Plan) -> Versions:
        """The versions, to be found by what messages name."""
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

    def inspect(self, path: str, offset: int, options: Mapping[str, Any]) -> Inspection:
        """The message (or other bytes) at ``offset`` of the decompressed file, or the row ``offset`` of a container
        that counts rows. Its metadata is searched for in the same file, then in the files next to it unless these are
        too large. Raises CaptureError if the file ends before ``offset``.
        """
        checked = replace(self.parse_options(options), mode="PERMISSIVE")
        container = detect.probe(path, checked.container)
        messages = message_files.locate(container, offset)
        found = _inspect(container, messages, make_plan([path], checked, run_here))
        codes = {problem["code"] for problem in found.event.get("problems", ())}
        others = [name for name in list_files(folders_of(path)[0]) if not same_file(name, path)]
        if str(Problem.NO_SCHEMA) not in codes or not others or sum(info_of(name).size for name in others) > _NEAR:
            return found
        return _inspect(container, messages, make_plan([*others, path], checked, run_here))


def _is_qliks(value: bytes) -> bool:
    """Whether a message in JSON is one of Qlik's, or begins like one with an envelope."""
    try:
        document = parse_json(value, [])
    except CutOff:
        return b'"atMSG"' in value[:64]
    except ValueError:
        return False
    while isinstance(document, dict):
        form = json_form(document)
        if form != "payload":
            return bool(form)
        document = document["payload"]
    return False


def _inspect(container: Container, messages: Messages, plan: Plan) -> Inspection:
    versions = plan.lookup()
    where = Where(container.path, 0, container.unit)
    events = events_of(messages, where, plan.settings, versions, EVERYTHING, container.schema)
    event = {name: value for name, value in events.to_pylist()[0].items() if value is not None}
    offset, length = int(messages.offset[0]), int(messages.length[0])
    if messages.state[0]:
        source, reason = messages.source[0].as_py() or b"", messages.reasons.get(0, "")
        damage = Field(str(event["kind"]), 0, len(source), source, None, reason)
        return Inspection(container.path, offset, length, source, damage, event, reason)
    tree = dissect(messages, plan.settings, versions, container.schema, event)
    version = next((one for one in plan.versions if one.table_version == event.get("table_version")), None)
    note = ""
    if version is not None:
        note = f"decoded with table version {version.table_version} ({version.origin})"
    elif any(problem["code"] == Problem.NO_SCHEMA for problem in event.get("problems", ())):
        note = "the metadata message of its schema was not found; give its location with the option metadata"
    return Inspection(container.path, offset, length, messages.value[0].as_py() or b"", tree, event, note)
