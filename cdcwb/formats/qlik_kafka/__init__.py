"""The format ``qlik-kafka``."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdcwb.errors import CaptureError
from cdcwb.formats import options as opt
from cdcwb.formats.columns import replicate_type
from cdcwb.formats.containers import message_files as files
from cdcwb.formats.containers.kafka_rows import OF_TABLES, Where
from cdcwb.formats.containers.messages import Messages
from cdcwb.formats.containers.registry import read_registry
from cdcwb.formats.dissector import Field, Inspection, Recognition, TableRequest, Wanted
from cdcwb.formats.files import list_files
from cdcwb.formats.json_values import CutOff, parse_json
from cdcwb.formats.messages.format import MessageFormat, Options
from cdcwb.formats.qlik_kafka.decode import by_registry_id, forms_of
from cdcwb.formats.qlik_kafka.events import FORMAT, events_of
from cdcwb.formats.qlik_kafka.layout import WireForm, json_form
from cdcwb.formats.qlik_kafka.plan import Plan, complete
from cdcwb.formats.qlik_kafka.tree import dissect
from cdcwb.formats.qlik_kafka.versions import MessageSettings, VersionLookup
from cdcwb.formats.requests import versions_schema
from cdcwb.formats.source import folders_of, info_of, same_file
from cdcwb.model import Problem

__all__ = ["QlikKafka"]

_KAFKA: Final = frozenset({"key", "value", "topic", "partition", "offset", "timestamp", "headers"})
_ORDERS: Final = ("auto", "big", "little")
_NEAR: Final = 64 << 20  # bytes that are searched for metadata

_AVRO: Final[dict[str, pa.DataType]] = {
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "fixed": pa.binary(),
    "timestamp-millis": pa.timestamp("us"),
    "timestamp-micros": pa.timestamp("us"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
}
"""Types of columns that only an Avro schema describes (docs/formats/qlik-kafka.md §8) and Replicate does not name."""


class QlikKafka(MessageFormat):
    """Reads Qlik Replicate's Kafka messages in every wire form and container (docs/formats/qlik-kafka.md)."""

    name = FORMAT
    owner = "Qlik's"
    own_options: Mapping[str, str] = {
        "metadata": "files or a folder with metadata messages that are not in the capture",
        "mask_order": f"byte order of masks in Avro messages and in base64: {', '.join(_ORDERS)}",
        "table": "schema.table of messages without metadata: auto (what they name themselves, else the topic), or the "
        "name",
    }
    of_tables: frozenset[str] | None = OF_TABLES
    plan_type = Plan

    complete = staticmethod(complete)

    def parse_options(self, options: Mapping[str, Any]) -> Options:
        """See :meth:`cdcwb.formats.dissector.Format.parse_options`; what is to be detected is not given."""
        checked = super().parse_options(options)
        if "mask_order" in checked.given:
            checked.given["mask_order"] = opt.as_choice("mask_order", checked.given["mask_order"], _ORDERS)
        for name in ("mask_order", "table"):
            if checked.given.get(name) == "auto":
                del checked.given[name]
        return checked

    def check_options(self, options: Mapping[str, Any]) -> None:
        """See :meth:`parse_options`; metadata and registry have to exist."""
        super().check_options(options)
        if metadata := self.parse_options(options).given.get("metadata"):
            list_files(metadata.split("\n"))

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
        examined = int(np.count_nonzero((forms != WireForm.NOTHING) & (forms != WireForm.TOMBSTONE)))
        if _is_of_records(schema or opt.optional("avro_schema", options, opt.as_content)):
            return int(np.count_nonzero(np.isin(forms, (WireForm.CONFLUENT, WireForm.BARE)))), examined, True
        sure = int(np.count_nonzero(forms == WireForm.ENVELOPE))
        sure += sum(
            _is_qliks(messages.value[number].as_py()) for number in np.flatnonzero(forms == WireForm.JSON).tolist()
        )
        framed = int(np.count_nonzero(forms == WireForm.CONFLUENT))
        if 2 * framed > examined:
            rows = dict(by_registry_id(messages, forms))
            ids, registry, texts = [*rows], str(options.get("registry") or ""), dict[int, str]()
            with contextlib.suppress(CaptureError):  # who reads the messages asks again
                texts = read_registry(registry, ids) if registry else {}
            if known := sum(len(rows[number]) for number, text in texts.items() if _is_of_records(text)):
                return sure + known, examined, True
            if max(ids) < 1 << 20 and (len(ids) <= 3 or 3 * len(ids) <= framed):  # small, and few of them
                return sure + framed, examined, sure > 0
        return sure, examined, True

    def begin(self, options: Options, **plan: Any) -> Plan:
        """See :meth:`cdcwb.formats.messages.format.MessageFormat.begin`."""
        given, container = options.given, files.Options.parse(options.container)
        settings = MessageSettings(
            given.get("mask_order", "big"), given.get("table"), avro_schema=container.avro_schema
        )
        return Plan(settings=settings, **plan)

    def reading(self, plan: Plan) -> VersionLookup:
        """The versions, to be found by what messages name."""
        return plan.lookup()

    def events(
        self, plan: Plan, reading: VersionLookup, messages: Messages, where: Where, wanted: Wanted, schema: str | None
    ) -> pa.RecordBatch:
        """See :func:`cdcwb.formats.qlik_kafka.events.events_of`."""
        return events_of(messages, where, plan.settings, reading, wanted, schema)

    def table_schema(self, plan: Plan, request: TableRequest) -> pa.Schema:
        """See :meth:`cdcwb.formats.dissector.Format.table_schema`. A column whose type differs between versions is
        text."""
        return versions_schema(
            plan.versions, request, lambda _, column: _AVRO.get(column.type or "") or replicate_type(column)
        )

    def inspect(self, path: str, offset: int, options: Mapping[str, Any]) -> Inspection:
        """See :meth:`cdcwb.formats.messages.format.MessageFormat.inspect`. The metadata of a message is searched for in
        the same file, then in the files next to it unless these are too large."""
        found = super().inspect(path, offset, options)
        others = [name for name in list_files(folders_of(path)[0]) if not same_file(name, path)]
        is_unknown = str(Problem.NO_SCHEMA) in {problem["code"] for problem in found.event.get("problems", ())}
        if not is_unknown or not others or sum(info_of(name).size for name in others) > _NEAR:
            return found
        return self.inspected([*others, path], offset, options)

    def dissected(
        self, plan: Plan, messages: Messages, schema: str | None, event: Mapping[str, Any]
    ) -> tuple[Field, str]:
        """See :func:`cdcwb.formats.qlik_kafka.tree.dissect`."""
        tree = dissect(messages, plan.settings, plan.lookup(), schema, event)
        version = next((one for one in plan.versions if one.table_version == event.get("table_version")), None)
        if version is not None:
            return tree, f"decoded with table version {version.table_version} ({version.origin})"
        if any(problem["code"] == Problem.NO_SCHEMA for problem in event.get("problems", ())):
            return tree, "the metadata message of its schema was not found; give its location with the option metadata"
        return tree, ""


def _is_of_records(schema: str | None) -> bool:
    """Whether an Avro schema is that of data messages."""
    return schema is not None and all(f'"{name}"' in schema for name in ("headers", "changeSequence"))


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
