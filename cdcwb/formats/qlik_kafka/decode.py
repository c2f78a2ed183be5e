"""The messages of a batch, decoded by their wire forms (docs/formats/qlik-kafka.md §1, §2, §4).

Messages with the same fields, schema and table are a :class:`MessageGroup`, which is described once. Every value has a
number in the :class:`BatchTexts` of the batch: that of a column in a message is the column's number in the group plus
the origin of the message. So the columns of events are made for all messages of a batch together, however many groups
there are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.errors import CaptureError
from cdcwb.formats import json_spans as js
from cdcwb.formats.arrays import as_array, content_of, gather
from cdcwb.formats.columns import text_of
from cdcwb.formats.containers.avro import Decoder
from cdcwb.formats.containers.avro_schema import Schema, parse_schema
from cdcwb.formats.containers.avro_values import to_text
from cdcwb.formats.containers.messages import Messages
from cdcwb.formats.json_values import CutOff, as_text, comma_remark, parse_json
from cdcwb.formats.kernels import Bools, Ints
from cdcwb.formats.qlik_kafka.layout import ENVELOPE_SCHEMA, FRAME, IMAGES, MAGIC, MASKS, WireForm, json_form
from cdcwb.formats.qlik_kafka.versions import (
    UNNAMED,
    MessageSettings,
    MessageTable,
    Version,
    VersionLookup,
    from_metadata,
    from_names,
    table_of,
)
from cdcwb.model import Kind, Problem

# --- groups -----------------------------------------------------------------------------------------------------------


TableName: TypeAlias = tuple[str | None, str | None]
"""Schema and table."""

Entry: TypeAlias = tuple[str, int, int]
"""A header: its name, the number of its text, and how often the origin of a message is added to that (0 or 1)."""


@dataclass(eq=False)
class MessageGroup:
    """What some messages have in common.

    ``headers`` are the fields around the row, in the order of the wire; those of the data message itself begin at
    ``own``. ``images``: the numbers of the columns of ``data`` and ``beforeData``. ``problem``: one that all messages
    have. ``is_decoded`` is false for a data message without a usable schema.
    """

    record_type: str
    kind: Kind = Kind.CHANGE
    version: Version | None = None
    table: MessageTable = UNNAMED
    schema_id: str | None = None
    schema_text: str | None = None
    external: str | None = None
    headers: list[Entry] = field(default_factory=list)
    own: int = 0
    images: tuple[dict[str, int] | None, dict[str, int] | None] = (None, None)
    mask_order: str = "big"
    problem: tuple[Problem, str] | None = None
    is_decoded: bool = True

    @cached_property
    def bit_of(self) -> dict[str, int]:
        """The bit of each column of the version in masks."""
        return {column.name: column.ordinal - 1 for column in self.version.columns} if self.version else {}

    @property
    def table_version(self) -> str | None:
        """The version that it describes, or that its rows have."""
        if self.kind == Kind.SCHEMA:
            return self.schema_id
        return (self.version.table_version or None) if self.version else None

    def key(self, which: int) -> dict[str, int]:
        """The numbers of the key columns in an image, in key order, if it has all of them."""
        image, key = self.images[which] or {}, self.version.key if self.version else []
        return {name: image[name] for name in key} if image.keys() >= set(key) else {}

    def bits(self, names: Iterable[str]) -> Ints:
        """The bits of columns in masks; -1 for one that the version does not have."""
        return np.array([self.bit_of.get(name, -1) for name in names], dtype=np.int64)

    @property
    def names(self) -> list[str]:
        """The columns of its rows."""
        return [*(self.images[0] or self.images[1] or ())]


class BatchTexts:
    """The texts of a batch by their numbers: columns of texts, and spans of JSON, which are copied when they are asked
    for. The text with the number 0 is null, span n has the number -1 - n."""

    def __init__(self) -> None:
        self._columns: list[pa.StringArray] = [pa.nulls(1, pa.string())]
        self._size = 1
        self.take_spans: Callable[[Ints], pa.StringArray] | None = None

    def column(self, texts: pa.StringArray) -> int:
        """Adds texts; the number of the first."""
        self._columns.append(texts)
        self._size += len(texts)
        return self._size - len(texts)

    def gather(self, places: npt.NDArray[np.signedinteger]) -> pa.StringArray:
        """The texts with these numbers."""
        are_spans = places < 0
        if self.take_spans is not None and are_spans.all():
            return self.take_spans(-1 - places)
        if len(self._columns) > 1:
            self._columns = [pa.concat_arrays(self._columns)]
        if self.take_spans is None or not are_spans.any():
            return self._columns[0].take(pa.array(places))
        spans, others = np.flatnonzero(are_spans), np.flatnonzero(~are_spans)
        both = [self.take_spans(-1 - places[spans]), self._columns[0].take(pa.array(places[others]))]
        order = np.empty(len(places), dtype=np.int64)
        order[np.concatenate([spans, others])] = np.arange(len(places))
        return pa.concat_arrays(both).take(pa.array(order))


class DecodedMessages:
    """A batch of messages. ``forms``: the form of each; ``group``: its group (-1: none); ``origin``: what is added to
    the numbers of its values; ``has``: which messages have ``data`` and ``beforeData``. ``bad``: those that cannot be
    decoded, with code and reason; ``problems``: of others; ``described``: the versions that metadata messages describe.
    ``mask_order``: the byte order of masks that are bytes.
    """

    def __init__(self, messages: Messages, mask_order: str) -> None:
        count, self.mask_order = len(messages), mask_order
        self.forms = forms_of(messages)
        self.texts = BatchTexts()
        self.groups: list[MessageGroup] = []
        self.group = np.full(count, -1, dtype=np.int64)
        self.origin = np.zeros(count, dtype=np.int64)
        self.has = np.zeros((2, count), dtype=np.bool_)
        self.bad: list[tuple[int, Problem, str]] = []
        self.problems: list[tuple[int, Problem, str]] = []
        self.described: list[tuple[int, Version]] = []

    def add(self, group: MessageGroup, messages: Ints, origin: Ints | int, has: Sequence[Any] = (False, False)) -> None:
        """Adds a group with its messages."""
        self.group[messages] = len(self.groups)
        self.origin[messages] = origin
        self.has[0, messages], self.has[1, messages] = has
        self.groups.append(group)

    @cached_property
    def members(self) -> list[tuple[MessageGroup, Ints]]:
        """The groups with their messages, in order."""
        order = np.argsort(self.group, kind="stable")
        bounds = np.searchsorted(self.group[order], np.arange(len(self.groups) + 1)).tolist()
        return [(group, order[slice(*some)]) for group, some in zip(self.groups, pairwise(bounds), strict=True)]

    @cached_property
    def is_row(self) -> Bools:
        """Which messages are data messages."""
        is_change: Bools = np.array([*(one.kind == Kind.CHANGE for one in self.groups), False], dtype=np.bool_)
        return is_change[self.group]

    def numbers_of(self, name: str) -> Ints:
        """The number of a header of each data message; 0 for a message without it."""
        found = np.array([*(own.get(name, (0, 0)) for own in self._own), (0, 0)], dtype=np.int64)
        number, step = found[self.group].T
        numbers: Ints = number + step * self.origin
        return numbers

    @cached_property
    def _own(self) -> list[dict[str, tuple[int, int]]]:
        """The headers of the data messages of each group; of several with one name the last."""
        headers = (one.headers[one.own :] if one.kind == Kind.CHANGE else () for one in self.groups)
        return [{name: (number, step) for name, number, step in some} for some in headers]

    def header(self, name: str) -> pa.StringArray:
        """The texts of a header of all data messages; null for others."""
        return self.texts.gather(self.numbers_of(name))

    def values(self, image: Mapping[str, int], messages: Ints) -> Ints:
        """The numbers of the values of an image of some messages: a row for each, in the order of its columns."""
        numbers: Ints = np.array([*image.values()], dtype=np.int64) + self.origin[messages, None]
        return numbers

    def are_valid(self, image: Mapping[str, int], messages: Ints) -> Bools:
        """Which values of an image of some messages are not null, likewise."""
        numbers = self.values(image, messages)
        return as_array(pc.is_valid(self.texts.gather(numbers.reshape(-1)))).reshape(numbers.shape)


# --- wire forms -------------------------------------------------------------------------------------------------------


_BLANK: Final = b"\xef\xbb\xbf \t\r\n"


def forms_of(messages: Messages) -> npt.NDArray[np.uint8]:
    """The form of every message of a batch."""
    buffer, edges = content_of(messages.value)
    size = np.diff(edges)
    at = np.minimum(edges[:-1], max(len(buffer) - 1, 0))
    first = np.where(size > 0, buffer[at], 0xFF) if len(buffer) else np.full(len(size), 0xFF)
    forms = np.full(len(size), WireForm.BARE, dtype=np.uint8)
    forms[first == ord("{")] = WireForm.JSON
    forms[(first == 0) & (size >= FRAME)] = WireForm.CONFLUENT
    for number in np.flatnonzero(np.isin(first, list(b"a" + _BLANK))).tolist():
        value = buffer[edges[number] : edges[number + 1]].tobytes()
        if value.startswith(MAGIC.encode()):
            forms[number] = WireForm.ENVELOPE
        elif value.lstrip(_BLANK).startswith(b"{"):
            forms[number] = WireForm.JSON
    forms[pc.is_null(messages.value).to_numpy(zero_copy_only=False)] = WireForm.TOMBSTONE
    forms[messages.state != 0] = WireForm.NOTHING
    return forms


def by_registry_id(messages: Messages, forms: npt.NDArray[np.uint8]) -> Iterator[tuple[int, Ints]]:
    """The messages of each id of the Confluent framing, in the order of the ids."""
    index = np.flatnonzero(forms == WireForm.CONFLUENT)
    buffer, edges = content_of(messages.value)
    ids = buffer[edges[index, None] + np.arange(1, FRAME)].astype(np.int64) @ (1 << np.arange(24, -1, -8))
    for number in np.unique(ids).tolist():
        yield number, index[ids == number]


_NO_FORM: Final = (
    "none of Qlik's wire forms: expected a JSON object, the Avro envelope (atMSG), the Confluent framing (00 and four "
    "bytes of schema id) or, for plain Avro, the option avro_schema; found the bytes {found}"
)

_OTHER: Final = (
    "expected the table and columns that the first metadata message with schema id {id} describes, found others; "
    "messages with this id are decoded with the first"
)


def decode(
    messages: Messages, settings: MessageSettings, versions: VersionLookup, images: bool, schema: str | None = None
) -> DecodedMessages:
    """Decodes a batch. ``schema`` is the Avro schema that the container says its values were written with."""
    decoder = _MessageDecoder(messages, settings, versions, images)
    forms = decoder.found.forms
    text = schema if schema is not None else settings.avro_schema
    for number, rows in by_registry_id(messages, forms) if text is not None else ():
        version = versions.by_registry_id.get(number)  # a record without a frame may begin with a zero, too
        if schema is not None or version is None or version.text is None:
            forms[rows] = WireForm.BARE
    decoder.json(np.flatnonzero(forms == WireForm.JSON))
    decoder.enveloped(np.flatnonzero(forms == WireForm.ENVELOPE))
    for number, rows in by_registry_id(messages, forms):
        decoder.framed(number, rows)
    bare = np.flatnonzero(forms == WireForm.BARE)
    if len(bare) and text is not None:
        decoder.records(
            MessageGroup("DataRecord", version=versions.by_text.get(text)), decoder.values(bare), 0, bare, text
        )
    for number in bare.tolist() if text is None else ():
        reason = _NO_FORM.format(found=messages.value[number].as_py()[:16].hex(" ") or "none")
        decoder.found.bad.append((number, Problem.MALFORMED, reason))
    return decoder.found


def scan_groups(messages: Messages, json: Ints, enveloped: Ints, settings: MessageSettings) -> DecodedMessages:
    """The groups of some messages in JSON, and in Avro's envelope, whose versions are not known yet."""
    decoder = _MessageDecoder(messages, settings, None, False)
    decoder.json(json)
    decoder.enveloped(enveloped)
    return decoder.found


class _MessageDecoder:
    """Decodes the messages of a batch into ``found``. ``versions``: None if they are not known yet."""

    def __init__(
        self, messages: Messages, settings: MessageSettings, versions: VersionLookup | None, images: bool
    ) -> None:
        self.messages, self.settings, self.images = messages, settings, images
        self.is_scan, self.versions = versions is None, versions or VersionLookup([])
        self.found = DecodedMessages(messages, settings.mask_order)

    def values(self, index: Ints) -> pa.BinaryArray:
        """The values of some messages."""
        every = len(index) == len(self.messages)
        return self.messages.value if every else self.messages.value.take(pa.array(index))

    def single(self, values: Mapping[str, Any]) -> list[Entry]:
        """Headers that are the same in all messages of a group."""
        first = self.found.texts.column(pa.array(map(as_text, values.values()), pa.string()))
        return [(name, first + at, 0) for at, name in enumerate(values)]

    def add(
        self, group: MessageGroup, messages: Ints, origin: Ints, has: Sequence[Any], named: Sequence[TableName]
    ) -> None:
        """Adds data messages; those whose version names no table by the table of each. ``named``: schema and table that
        each message names itself."""
        version = group.version
        if version is not None and (version.table_name or version.schema_id):
            tables = {MessageTable(version.schema_name, version.table_name): np.arange(len(messages))}
        else:
            tables = self._tables(messages, named)
        for table, rows in tables.items():
            one = replace(group, table=table)
            if version is None and not self.is_scan:
                known = self.versions.of_names(table, group.external, group.names)
                one.version = known or from_names("", table, group.names, group.external)
            self.found.add(
                one, messages[rows], origin[rows], [np.broadcast_to(part, len(messages))[rows] for part in has]
            )

    def _tables(self, messages: Ints, named: Sequence[TableName]) -> dict[MessageTable, Ints]:
        """Which rows of some messages are of each table."""
        topics, settings = self.messages.facts.get("topic"), self.settings
        some = [None] * len(messages) if topics is None else topics.take(pa.array(messages)).to_pylist()
        found: dict[MessageTable, list[int]] = {}
        for row, ((schema, table), topic) in enumerate(zip(named, some, strict=True)):
            found.setdefault(table_of(schema, table, topic, settings), []).append(row)
        return {table: np.array(rows) for table, rows in found.items()}

    def metadata(self, number: int, outer: dict[str, Any], body: dict[str, Any], problem: str | None = None) -> None:
        """Adds a metadata message (§3)."""
        lineage = body.get("lineage")
        lineage = lineage if isinstance(lineage, dict) else body
        code = Problem.SCHEMA_TEXT
        try:
            version = None if problem else from_metadata(body)
        except ValueError as reason:
            version, problem = None, str(reason)
        if version is not None:
            self.found.described.append((number, version))
            known = self.versions.by_schema_id.get(version.schema_id or "")
            if known is not None and not known.same_table(version):
                code, problem = Problem.SCHEMA_MISMATCH, _OTHER.format(id=version.schema_id)
        headers = {**outer, "schemaId": body.get("schemaId")}
        headers |= {f"lineage.{name}": one for name, one in lineage.items() if not isinstance(one, (dict, list))}
        named = (body.get("schemaId"), lineage.get("schema"), lineage.get("table"))
        schema_id, schema, table = (one if isinstance(one, str) and one else None for one in named)
        group = MessageGroup("MD", Kind.SCHEMA, None, MessageTable(schema, table), schema_id)
        group.headers = self.single(headers)
        group.problem = None if problem is None else (code, problem)
        self.found.add(group, np.array([number]), 0)

    # --- JSON

    def json(self, index: Ints) -> None:
        """Messages in JSON; a comma too many is passed over."""
        if not len(index):
            return
        texts = _JsonTexts(self, self.values(index), index)
        for number in texts.read():
            value, code, reason = self.messages.value[number].as_py(), Problem.MALFORMED, "nested too deeply"
            try:
                parse_json(value)
            except CutOff:
                code, reason = Problem.TRUNCATED, f"the JSON message is cut off after byte {len(value)}"
            except ValueError as error:
                reason = str(error)
            self.found.bad.append((number, code, reason))
        for number in texts.with_commas():
            if self.found.group[number] >= 0:
                remark = comma_remark(self.messages.value[number].as_py()) or ""
                self.found.problems.append((number, Problem.JSON_SYNTAX, remark))

    # --- Avro

    def enveloped(self, index: Ints) -> None:
        """Messages in the Avro envelope (§2.2)."""
        if not len(index):
            return
        decoded = Decoder(parse_schema(ENVELOPE_SCHEMA)).decode(self.values(index))
        found: dict[Any, list[int]] = {}
        columns = [decoded.column.field(one) for one in ("type", "messageSchemaId", "messageSchema", "message")]
        payloads, around = columns.pop(), to_text(decoded.column.field("headers"))
        rows = zip(*(one.to_pylist() for one in (*columns, around)), strict=True)
        for row, (kind, *named) in enumerate(rows):
            reason = None if decoded.ok[row] else f"Avro envelope: {decoded.reason(row)}"
            if reason is None and kind == "DT":
                found.setdefault(tuple(named), []).append(row)
            elif reason is None and kind == "MD":
                reason = self._metadata(int(index[row]), named[0], named[1], payloads[row].as_py())
            elif reason is None:
                reason = f"expected the message type DT or MD, found {kind!r:.60}"
            if reason is not None:
                self.found.bad.append((int(index[row]), Problem.MALFORMED, reason))
        for (schema_id, text, headers), some in found.items():
            version = self.versions.by_schema_id.get(schema_id or "") or self.versions.by_text.get(text or "")
            outer = {"magic": MAGIC, "type": "DT", "messageSchemaId": schema_id}
            outer |= {} if text is None else {"messageSchema": text}
            outer |= {f"envelope.{name}": value for name, value in json.loads(headers or "{}").items()}
            group = MessageGroup("DT", version=version, schema_id=schema_id, headers=self.single(outer))
            written = text or (None if version is None else version.text) or self.settings.avro_schema
            if self.is_scan or written is None:
                group.schema_text = text
                why = "the message names no schema" if schema_id is None else ""
                why = why or f"the metadata message of schema {schema_id} is not in the capture"
                self._undecoded(group, index[some], Problem.NO_SCHEMA, why)
            else:
                self.records(group, payloads.take(pa.array(some)), 0, index[some], written)

    def _metadata(self, number: int, schema_id: str | None, text: str | None, payload: bytes) -> str | None:
        """Adds a metadata message in Avro; else the reason why it cannot be decoded."""
        if text is None:
            return "a metadata message in Avro without its writer schema"
        outer = {"magic": MAGIC, "type": "MD", "messageSchemaId": schema_id}
        try:
            decoded = Decoder(parse_schema(text)).decode(pa.array([payload], pa.binary()))
        except CaptureError as reason:
            self.metadata(number, outer, {}, str(reason))
            return None
        if not decoded.ok[0]:
            return f"metadata message: {decoded.reason(0)}"
        self.metadata(number, outer, decoded.rows()[0])
        return None

    def framed(self, number: int, messages: Ints) -> None:
        """Messages with the Confluent framing and this schema id (§2.3)."""
        version = self.versions.by_registry_id.get(number)
        group = MessageGroup("DataRecord", version=version, headers=self.single({"schemaId": str(number)}))
        if version is None or version.text is None or version.problem:
            code, why = Problem.NO_REGISTRY, f"the registry has no schema {number}, or none was given"
            if version is not None and version.problem:
                code, why = Problem.SCHEMA_TEXT, version.problem
            self._undecoded(group, messages, code, why)
        else:
            self.records(group, self.values(messages), FRAME, messages, version.text)

    def _undecoded(self, group: MessageGroup, messages: Ints, code: Problem, why: str) -> None:
        """Messages whose schema is unknown: changes of which only the envelope is known."""
        group.version, group.own, group.problem, group.is_decoded = None, len(group.headers), (code, why), False
        self.found.add(group, messages, 0)

    def records(self, group: MessageGroup, values: pa.BinaryArray, start: int, messages: Ints, text: str) -> None:
        """DataRecords that were written with one schema, from byte ``start`` of each value on."""
        try:
            wanted = self._wanted(self.versions.decoder(text).schema)
        except CaptureError as reason:
            self._undecoded(group, messages, Problem.SCHEMA_TEXT, str(reason))
            return
        decoded = self.versions.decoder(text, wanted).decode(values, np.full(len(values), start))
        good = np.flatnonzero(decoded.ok)
        for row, troubles in decoded.troubles.items():
            if decoded.ok[row]:
                self.found.problems += [(int(messages[row]), one.code, str(one)) for one in troubles]
        for row in np.flatnonzero(~decoded.ok).tolist():
            self.found.bad.append((int(messages[row]), Problem.MALFORMED, f"Avro data record: {decoded.reason(row)}"))
        if len(good):
            column = decoded.column if len(good) == len(messages) else decoded.column.take(pa.array(good))
            self._records(group, column, messages[good])

    def _records(self, group: MessageGroup, column: pa.StructArray, messages: Ints) -> None:
        """Adds decoded records."""
        texts = self.found.texts
        names = [one.name for one in column.type]
        around = [name for name in names if name not in (*IMAGES, "headers")]
        group.headers += [(name, texts.column(to_text(column.field(name))), 1) for name in around]
        group.own, group.mask_order = len(group.headers), self.settings.mask_order
        headers = column.field("headers")
        for one in headers.type:
            found = to_text(headers.field(one.name))
            if one.name in MASKS and pa.types.is_binary(one.type):
                found = pc.utf8_upper(found)
            elif one.name in MASKS:  # an older schema has them as hexadecimal text
                group.mask_order = "big"
            group.headers.append((one.name, texts.column(found), 1))
        images: list[dict[str, int] | None] = [None, None]
        has: list[Any] = [False, False]
        for which, name in enumerate(IMAGES):
            if name in names and self.images:
                image = column.field(name)
                has[which] = as_array(pc.is_valid(image))
                images[which] = {one.name: texts.column(to_text(image.field(one.name))) for one in image.type}
        group.images = images[0], images[1]
        named = [(None, None)] * len(messages)
        for record in (column, headers):
            known = {
                one.name: to_text(record.field(one.name)) for one in record.type if one.name in ("schema", "table")
            }
            if "table" in known:
                schemas = known.get("schema", pa.nulls(len(messages), pa.string()))
                named = list(zip(schemas.to_pylist(), known["table"].to_pylist(), strict=True))
                break
        self.add(group, messages, np.arange(len(messages)), has, named)

    def _wanted(self, schema: Schema) -> tuple[str, ...] | None:
        """The fields of a record that are decoded: without images all others. Raises CaptureError for a schema that is
        not that of data messages (§4.1)."""
        fields = dict(zip(schema.fields, schema.root.inner, strict=True))
        if not {"data", "headers"} <= fields.keys():
            raise CaptureError(f"expected a DataRecord with data and headers, found the fields {', '.join(fields)}")
        for name in ("headers", *IMAGES):
            if name in fields and fields[name].without_null.kind != "record":
                raise CaptureError(f"expected a DataRecord whose {name} is a record, found {fields[name].without_null}")
        return None if self.images else tuple(name for name in fields if name not in IMAGES)


# --- JSON -------------------------------------------------------------------------------------------------------------

_DEEPEST: Final = 4  # objects around a column: Kafka Connect's, the envelope, the message, the image
_CONTAINERS: Final = ("message", "payload", "headers")
_DECIDING: Final = frozenset(
    {"magic", "type", "op", "messageSchemaId", "messageSchema", "externalSchemaId", "schema", "table"}
    | {*_CONTAINERS, *IMAGES}
)
"""Fields around the row whose value decides what a message is or which table it is of."""
_ENVELOPE: Final = ("magic", "type", "headers", "messageSchemaId", "messageSchema", "message")
_KINDS: Final = {
    js.OBJECT: "an object", js.ARRAY: "an array", js.STRING: "a text", js.ESCAPED: "a text", js.NUMBER: "a number",
    js.BOOLEAN: "a truth value", js.NULL: "null",
}  # fmt: skip


_Tree: TypeAlias = dict[int, dict[str, int]]
"""The objects of a message: by the number of each among its values, the numbers of its fields. The message is 0."""


class _JsonTexts:
    """JSON texts with the spans of their values."""

    def __init__(self, decoder: _MessageDecoder, values: pa.BinaryArray, index: Ints) -> None:
        self.decoder, self.found, self.index = decoder, decoder.found, index
        self.text, self.edges = content_of(values)
        self.raw = self.text.tobytes()
        self.spans = js.spans_of(self.text, self.edges, _DEEPEST, commas=True)
        self.found.texts.take_spans = self.take

    def read(self) -> list[int]:
        """Adds the groups; the numbers of the messages that are not valid JSON."""
        spans = self.spans
        good = np.flatnonzero(spans.state == 0)
        _, first, shape = np.unique(spans.shape[good], return_index=True, return_inverse=True)
        trees = [self._tree(one) for one in good[first].tolist()]
        key = self._keys(trees, shape.reshape(-1), good)
        order = np.argsort(key, kind="stable")
        for some in np.split(order, np.flatnonzero(np.diff(key[order])) + 1) if len(good) else ():
            texts = good[some]
            try:
                self._group(trees[shape[some[0]]], texts)
            except ValueError as reason:
                self.found.bad += [(number, Problem.MALFORMED, str(reason)) for number in self.index[texts].tolist()]
        invalid: list[int] = self.index[spans.state != 0].tolist()
        return invalid

    def with_commas(self) -> list[int]:
        """The messages in which a comma follows the last field or item of an object or array."""
        values = np.flatnonzero(self.spans.kind & js.TRAILING)
        found: list[int] = np.unique(self.index[np.searchsorted(self.spans.first, values, side="right") - 1]).tolist()
        return found

    def _tree(self, number: int) -> _Tree:
        spans = self.spans
        part = slice(int(spans.first[number]), int(spans.first[number + 1]))
        columns = (one[part].tolist() for one in (spans.kind, spans.level, spans.name, spans.name_end))
        around: list[dict[str, int] | None] = [None] * (_DEEPEST + 2)  # by level
        tree: _Tree = {}
        for at, (kind, level, name, end) in enumerate(zip(*columns, strict=True)):
            if (fields := around[level]) is not None:
                label = self.raw[name:end]
                fields[parse_json(b'"%b"' % label) if kind & js.NAME_ESCAPED else label.decode()] = at
            if kind & js.KIND <= js.ARRAY:
                around[level + 1] = tree.setdefault(at, {}) if kind & (js.KIND | js.OPAQUE) == js.OBJECT else None
        return tree

    def _keys(self, trees: Sequence[_Tree], shape: Ints, texts: Ints) -> Ints:
        """A number for each text: equal for those with the same shape and the same deciding values."""
        spans = self.spans
        deciding = [[*_deciding(tree, 0)] for tree in trees]
        offsets = np.full((len(trees), max(map(len, deciding), default=0)), -1, dtype=np.int64)
        for row, found in zip(offsets, deciding, strict=True):
            row[: len(found)] = found
        key = shape.astype(np.int64)
        for column in offsets.T:
            there = np.flatnonzero(column[shape] >= 0)
            at = spans.first[texts[there]] + column[shape[there]]
            codes = (spans.kind[at] & js.KIND).astype(np.int64)
            if ((codes > js.ARRAY) & (codes != js.NULL)).any():  # else the kinds of values decide
                end = np.where(codes <= js.ARRAY, spans.start[at] + 1, spans.end[at])
                raw = gather(pa.binary(), self.text, spans.start[at], end, None).dictionary_encode()
                codes = raw.indices.to_numpy().astype(np.int64)
            if codes.min() < codes.max():
                other = np.zeros(len(key), dtype=np.int64)
                other[there] = codes
                key = np.unique(key * (codes.max() + 1) + other, return_inverse=True)[1].reshape(-1)
        return key

    def value(self, at: int | None, text: int) -> Any:
        """A value of a text, parsed; None if there is none."""
        if at is None:
            return None
        at += int(self.spans.first[text])
        return parse_json(self.raw[self.spans.start[at] : self.spans.end[at]])

    def kind(self, at: int | None, text: int) -> str:
        """The kind of a value of a text in words."""
        return _KINDS[js.NULL if at is None else int(self.spans.kind[self.spans.first[text] + at]) & js.KIND]

    def take(self, at: Ints) -> pa.StringArray:
        """The texts of some values."""
        spans = self.spans
        kind, start, end = spans.kind[at] & js.KIND, spans.start[at], spans.end[at]
        quoted = (kind == js.STRING) | (kind == js.ESCAPED)
        valid = kind != js.NULL
        found = gather(pa.string(), self.text, start + quoted, end - quoted, None if valid.all() else valid)
        parsed = (kind == js.ESCAPED) | (kind <= js.ARRAY)
        if parsed.any():
            raws = zip(start[parsed].tolist(), end[parsed].tolist(), strict=True)
            texts = [_text(self.raw[begin:stop]) for begin, stop in raws]
            found = pc.replace_with_mask(found, pa.array(parsed), pa.array(texts, pa.string()))
        return found

    # --- what a message is

    def _group(self, tree: _Tree, texts: Ints) -> None:
        """Adds messages that are alike. Raises ValueError for what is not a message of Qlik's (§1.2)."""
        first, at, path, form = int(texts[0]), 0, list[str](), "payload"
        while form == "payload":
            if at not in tree:
                raise ValueError(f"expected a JSON object, found {self.kind(at, first)}")
            fields = tree[at]
            texts_of = {name: self.value(fields[name], first) for name in ("magic", "op") if name in fields}
            form = json_form({name: tree.get(one) for name, one in fields.items()} | texts_of)
            at = fields.get("payload", 0)
            path += ["payload"] if form == "payload" else []
        if form == "envelope":
            self._enveloped(tree, fields, texts, path)
        elif form == "record":
            self._data(MessageGroup("DataRecord"), tree, fields, {}, texts)
        elif form == "metadata":
            self._described({}, texts, path)
        elif form == "legacy":
            raise ValueError(
                "a message of Attunity 5 (op, and data as an array), which cdcwb does not read: publish the table with "
                "Replicate 6 or later, or convert its messages to data, beforeData and headers"
            )
        else:
            names = ", ".join([*fields][:6]) or "none"
            raise ValueError(f"a JSON object that is not one of Qlik's messages: its keys are {names}")

    def _enveloped(self, tree: _Tree, fields: dict[str, int], texts: Ints, path: list[str]) -> None:
        first, at = int(texts[0]), fields.get("message")
        kind, found = self.value(fields.get("type"), first), self.kind(at, first)
        if kind not in ("DT", "MD"):
            raise ValueError(f"expected the message type DT or MD, found {kind!r:.60}")
        if at is None or at not in tree:
            raise ValueError(f"expected the envelope's message as an object, found {found}")
        schema_id = self.value(fields.get("messageSchemaId"), first)
        if kind == "MD":
            self._described({"magic": MAGIC, "type": kind, "messageSchemaId": schema_id}, texts, [*path, "message"])
            return
        outer: dict[str, int | None] = {name: fields.get(name) for name in ("magic", "type", "messageSchemaId")}
        for name in ("messageSchema", "headers"):
            if self.kind(fields.get(name), first) != _KINDS[js.NULL]:
                outer[name] = fields[name]
        if (around := outer.pop("headers", None)) is not None:
            inner = tree.get(around, {"headers": around})
            outer |= {f"envelope.{name}": one for name, one in inner.items()}
        outer |= {name: one for name, one in fields.items() if name not in _ENVELOPE}
        self._data(MessageGroup("DT", schema_id=as_text(schema_id) or None), tree, tree[at], outer, texts)

    def _described(self, outer: dict[str, Any], texts: Ints, path: Sequence[str]) -> None:
        """Adds metadata messages."""
        for text in texts.tolist():
            body = parse_json(self.raw[self.edges[text] : self.edges[text + 1]], [])
            for name in path:
                body = body[name]
            self.decoder.metadata(int(self.index[text]), outer, body)

    def _data(
        self, group: MessageGroup, tree: _Tree, fields: dict[str, int], outer: dict[str, int | None], texts: Ints
    ) -> None:
        """Adds data messages; ``outer`` are the fields of the envelope."""
        first, versions = int(texts[0]), self.decoder.versions
        headers = tree.get(fields.get("headers", -1))
        if headers is None:
            found = self.kind(fields.get("headers"), first)
            raise ValueError(f"expected the data message's headers as an object, found {found}")
        images = [tree.get(fields.get(name, -1)) for name in IMAGES]
        for name, image in zip(IMAGES, images, strict=True):
            if image is None and (found := self.kind(fields.get(name), first)) != _KINDS[js.NULL]:
                raise ValueError(f"expected {name} as an object or null, found {found}")
        outer |= {name: at for name, at in fields.items() if name not in (*IMAGES, "headers")}
        around = [(name, 0, 0) if at is None else (name, -1 - at, 1) for name, at in outer.items()]
        group.headers = [*around, *((name, -1 - at, 1) for name, at in headers.items())]
        group.own = len(around)
        if self.decoder.settings.is_printed_avro:
            group.mask_order = self.decoder.settings.mask_order
        columns = [None if one is None else {name: -1 - at for name, at in one.items()} for one in images]
        group.images = columns[0], columns[1]
        external = self.value(headers.get("externalSchemaId"), first)
        group.external = external if isinstance(external, str) else None
        group.version = versions.by_schema_id.get(group.schema_id or "")
        if group.version is None and group.schema_id is not None:
            why = f"the metadata message of schema {group.schema_id} is not in the capture; ordinals are the order"
            group.problem = (Problem.NO_SCHEMA, f"{why} of the keys")
        has = [one is not None and bool(self.decoder.images) for one in images]
        places = next((some for some in (fields, headers) if "table" in some), {})
        schema, table = (text_of(self.value(places.get(name), first)) for name in ("schema", "table"))
        self.decoder.add(group, self.index[texts], -self.spans.first[texts], has, [(schema, table)] * len(texts))


def _deciding(tree: _Tree, at: int) -> Iterator[int]:
    for name, inner in tree.get(at, {}).items():
        if name in _DECIDING:
            yield inner
            if name in _CONTAINERS:
                yield from _deciding(tree, inner)


def _text(raw: bytes) -> str | None:
    """A JSON value as text."""
    try:
        return as_text(parse_json(raw, []))
    except ValueError:  # nested too deeply, or a number of very many digits
        return raw.decode()
