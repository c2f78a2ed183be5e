"""What the messages of one table version have in common: how they are written, and what the truth calls the version."""

from __future__ import annotations

import json
import zlib
from datetime import datetime
from operator import getitem
from pathlib import Path
from typing import Any, Final

from cdcwb_synth.catalogue import TableVersion
from cdcwb_synth.events import Row
from cdcwb_synth.qlik.columns import Layout
from cdcwb_synth.qlik.containers import Facts
from cdcwb_synth.qlik.messages import AvroForm, Form, JsonForm, Settings
from cdcwb_synth.qlik.metadata import column_rows, lineage, metadata_message, schema_id
from cdcwb_synth.qlik.options import KafkaOptions
from cdcwb_synth.qlik.registry import Registry
from cdcwb_synth.qlik.schemas import data_schema, key_schema, namespace
from cdcwb_synth.qlik.truth import VersionTruth
from cdcwb_synth.qlik.truth_files import Truth

__all__ = ["ADDED", "Rendered", "Table", "Tables"]

ADDED: Final = "tableName"
"""The column that tells a table's name where the option ``naming`` is ``column``."""

_KEYED: Final = ("kcat", "parquet")


Rendered = tuple[tuple[Any, ...], tuple[str | None, ...]]
"""A row as written in a message, and as text, column by column."""


class Table:
    """One version of a table on its way into messages. ``number`` is the truth's; ``metadata`` its message, None if
    none is sent."""

    def __init__(self, layout: Layout, form: Form, number: int, topic: str, metadata: bytes | None) -> None:
        self.layout, self.form, self.number, self.topic, self.metadata = layout, form, number, topic, metadata
        places = [column.place for column in layout.columns]
        self._cells = form.cells
        self._places = None if places == list(range(len(layout.version.columns))) else places
        self._names: dict[int, tuple[str, ...]] = {}
        self.sent = 0
        self.has_key = metadata is not None  # does its description name the key?
        self.key_names = (layout.names[layout.key_place],)

    def render(self, row: Row) -> Rendered:
        """A row of the workload as written in a message, and as text, column by column."""
        if self._places is not None:
            added = self.layout.value
            row = tuple([row[place] if place >= 0 else added for place in self._places])
        wires, texts = zip(*map(getitem, self._cells, row), strict=True)
        return wires, texts

    def names(self, mask: int) -> tuple[str, ...]:
        """The names of the columns whose bit is set."""
        found = self._names.get(mask)
        if found is None:
            if len(self._names) > 10_000:
                self._names.clear()
            found = self._names[mask] = tuple(self.layout.marked(mask))
        return found


class Tables:
    """Makes a :class:`Table` of every version, and tells the truth of it."""

    def __init__(self, options: KafkaOptions, seed: int, truth: Truth, registry: Path) -> None:
        self._options, self._seed, self._truth = options, seed, truth
        self._registry = Registry(registry)
        self._facts = Facts(options).names
        self._known: dict[tuple[Any, ...], int] = {}  # what identifies a version: its number in the truth
        self.keys: dict[str, bytes] = {}  # table: what its message keys begin with, in a registry

    def make(self, version: TableVersion, at: datetime) -> Table:
        """The table version that is in force from ``at`` on."""
        options = self._options
        added = ADDED if options.naming == "column" else ""
        layout = Layout(version, lobs=options.lobs, added=added, value=version.table.name)
        topic = layout.full_name if options.naming == "topic" else options.topic
        named_in = options.naming if options.naming in ("message", "headers") else ""
        identifier = schema_id(self._seed, layout)
        external = f"{zlib.crc32(identifier.encode()):08x}" if options.generation == "external" else None
        is_confluent = options.form == "confluent"
        text = data_schema(
            layout,
            generation=options.generation,
            logical=options.logical,
            named_in=named_in,
            record_namespace=namespace(options.task, layout) if is_confluent else "",
        )
        has_metadata = options.metadata_mode != "none"
        frame = b""
        if is_confluent:
            number = self._registry.register(text)
            frame = b"\x00" + number.to_bytes(4, "big")
            keyed = key_schema(layout, logical=options.logical, record_namespace=namespace(options.task, layout))
            self.keys[layout.full_name] = b"\x00" + self._registry.register(keyed).to_bytes(4, "big")
        settings = Settings(
            generation=options.generation,
            enveloped=options.form.endswith("envelope"),
            schema_id=identifier if has_metadata else None,
            external=external,
            named_in=named_in,
            delete_row=options.delete_row,
            is_avro=options.is_avro,
            logical=options.logical,
            mask_order=options.mask_order,
            frame=frame,
            facts=self._facts,
        )
        form: Form = AvroForm(layout, settings) if options.is_avro else JsonForm(layout, settings)
        if is_confluent:
            return Table(layout, form, self._registered(layout, number, text), topic, None)
        if not has_metadata:
            return Table(layout, form, self._inferred(layout, external), topic, None)
        origin = lineage(layout, options, at)
        message = metadata_message(layout, identifier, text, origin, options.is_avro)
        return Table(layout, form, self._described(layout, identifier, text, origin), topic, message)

    def _described(self, layout: Layout, identifier: str, text: str, origin: dict[str, Any]) -> int:
        is_beside = self._options.metadata_mode == "separate"
        return self._truth.version(
            VersionTruth(
                identifier,
                layout.table.schema,
                layout.table.name,
                column_rows(layout),
                "side file" if is_beside else "record",
                text,
                {name: str(value) for name, value in origin.items()},
                beside=is_beside,
                is_kept=True,
            )
        )

    def _registered(self, layout: Layout, number: int, text: str) -> int:
        if (text,) not in self._known:
            columns = [_avro_column(field, i) for i, field in enumerate(_fields(text), 1)]
            names = {"table named by": "namespace"}
            made = VersionTruth(
                str(number), layout.table.schema, layout.table.name, columns, "registry", text, names, beside=True
            )
            self._known[text,] = self._truth.version(made)
        return self._known[text,]

    def _inferred(self, layout: Layout, external: str | None) -> int:
        schema, table, place = self._named(layout)
        key = (schema, table, external, layout.names)
        if key not in self._known:
            columns = [dict.fromkeys(_COLUMN) | {"ordinal": i, "name": n} for i, n in enumerate(layout.names, 1)]
            name = None if external is None else f"external {external}"
            told = {} if table is None else {"table named by": place}
            self._known[key] = self._truth.version(VersionTruth(name, schema, table, columns, "inferred", None, told))
        return self._known[key]

    def _named(self, layout: Layout) -> tuple[str | None, str | None, str]:
        """Schema, table and the place that tells them, of messages that name no metadata."""
        options, both = self._options, (layout.table.schema, layout.table.name)
        if options.naming == "message":
            return *both, "message"
        if options.naming == "headers":
            return *both, "headers"
        if options.naming == "column":
            return None, layout.table.name, "column"
        if options.naming == "topic" and options.container in _KEYED:
            return *both, "topic"
        has_key = options.container in _KEYED or (options.container == "console" and "key" in options.parts)
        if options.naming == "key" and has_key:
            return *both, "key"
        return None, None, "none"

    def message_key(self, table: Table, row: Rendered) -> bytes:
        """The record key of a row: its table's name, or its primary key (as text, or in Avro in a registry)."""
        if self._options.naming == "key":
            return table.layout.full_name.encode()
        wires, texts = row
        place = table.layout.key_place
        if self._options.form == "confluent":
            return self.keys[table.layout.full_name] + bytes(wires[place])
        return (texts[place] or "").encode()


_COLUMN: Final = ("ordinal", "name", "type", "length", "precision", "scale", "key_position", "nullable")


def _fields(text: str) -> list[dict[str, Any]]:
    fields: list[dict[str, Any]] = json.loads(text)["fields"][0]["type"]["fields"]
    return fields


def _avro_column(field: dict[str, Any], ordinal: int) -> dict[str, Any]:
    """A column as its Avro schema describes it."""
    kind = field["type"][1]
    kind = kind if isinstance(kind, dict) else {"type": kind}
    return dict.fromkeys(_COLUMN) | {
        "ordinal": ordinal,
        "name": field["name"],
        "type": kind.get("logicalType") or kind["type"],
        "precision": kind.get("precision"),
        "scale": kind.get("scale"),
        "nullable": True,
    }
