"""The field tree of a record: its fields with offset, bytes, value and meaning, from the decoder's arrays
(docs/formats/gbase8s.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np

from cdcwb.formats.dissector import Field
from cdcwb.formats.gbase8s.decode import (
    DEFAULTS,
    Problems,
    RecordHeaders,
    RowSpans,
    SchemaArrays,
    event,
    lay_out,
    one_record,
    problems_of,
    read_headers,
    schema_of,
)
from cdcwb.formats.gbase8s.events import VersionsInForce
from cdcwb.formats.gbase8s.layout import (
    COMMON_FIELDS,
    COMMON_HEADER,
    ENCODINGS,
    RECORD_TYPES,
    SCHEME,
    SESSION_INVALID,
    SIZE_WORD,
    ColumnKind,
    HeaderField,
    SchemaColumn,
    StreamSettings,
    explain_error,
    record_name,
)
from cdcwb.formats.gbase8s.plan import segments_of
from cdcwb.formats.gbase8s.schema import TableSchema, schema_text, text_codec
from cdcwb.formats.gbase8s.values import ColumnValue, DecodedValues, prefix_width, value_of
from cdcwb.formats.kernels import interpreted
from cdcwb.formats.records import Plan, Segments, Stream
from cdcwb.model import Problem

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def lsn(sequence: int) -> str:
    """A sequence number as a log position, as observed (§6.1): ``LSN 11:0x1746018 (log …)``."""
    if not sequence:
        return "no log position"
    log, at = sequence >> 32, sequence & 0xFFFFFFFF
    return f"LSN {log}:0x{at:x} (log {log}, page {at >> 12}, offset {at & 0xFFF})"


def dissect(record: bytes, schema: TableSchema | None = None, settings: StreamSettings = DEFAULTS) -> Field:
    """The field tree of one record of at least 16 bytes.

    ``schema`` is the one in force for a row record (None: the row stays one field). Children cover their node without
    holes, in byte order, for any bytes; offsets count from its start. ``problem`` is set on the invalid field; a
    problem of the length is set on the record. Never raises.
    """
    with interpreted():
        headers = one_record(record)
        if not headers.row[0]:
            return _Tree(record, headers, settings).tree()
        tables = SchemaArrays([] if schema is None else [schema])
        rows = lay_out(headers, tables, np.array([-1 if schema is None else 0]), settings)
        return _Tree(record, headers, settings, schema, rows, rows.decode(settings)).tree()


class _Tree:
    """Makes the nodes of one record."""

    def __init__(
        self,
        record: bytes,
        headers: RecordHeaders,
        settings: StreamSettings,
        schema: TableSchema | None = None,
        rows: RowSpans | None = None,
        values: DecodedValues | None = None,
    ) -> None:
        self.record, self.settings, self.schema, self.rows, self.values = record, settings, schema, rows, values
        self.kind = RECORD_TYPES.get(int(headers.number[0]))
        self.problems: Problems = problems_of(headers, 0, settings, rows, values)
        self.header_end, self.payload_end = int(headers.header_end[0]), int(headers.payload_end[0])
        self.words_at = COMMON_HEADER if self.kind is None else self.kind.header_size
        self.words_end = self.words_at + (SIZE_WORD * int(rows.words[0]) if rows is not None else 0)

    def tree(self) -> Field:
        """The record."""
        number = self.number(COMMON_FIELDS[3])
        extra = self.first("header_size", "record_number")
        common = "four big-endian integers at the beginning of every record"
        specific, fields = "the fields of this record type", () if self.kind is None else self.kind.fields
        unowned = "bytes that follow the end given by header and payload size"
        children = (
            self.fields("common header", 0, COMMON_HEADER, common, COMMON_FIELDS),
            self.fields("specific header", COMMON_HEADER, self.words_at, specific, fields),
            self.size_words(),
            self.node("extra header", self.words_end, self.header_end, None, "header bytes of unknown meaning", extra),
            self.payload(),
            self.node("trailing bytes", self.payload_end, len(self.record), None, unowned, Problem.MALFORMED),
        )
        meaning = RECORD_TYPES[number].meaning if number in RECORD_TYPES else "a record of an unknown type"
        cut = next((one.code for one in self.problems if one.code == Problem.TRUNCATED), None)
        return self.node(record_name(number), 0, len(self.record), None, meaning, cut, children)

    def first(self, *fields: str) -> Problem | None:
        """The first problem of these fields."""
        return next((one.code for one in self.problems if one.field in fields), None)

    def number(self, field: HeaderField) -> int:
        """The value of a header field."""
        raw = self.record[field.offset : field.offset + field.size]
        return int.from_bytes(raw, "big", signed=field.signed)

    def node(
        self, name: str, start: int, stop: int, value: str | None, meaning: str, problem: Problem | None = None,
        children: Iterable[Field] = (),
    ) -> Field:  # fmt: skip
        """A node, with those of its ``children`` that have bytes, and an empty payload with a problem."""
        payloads = ("row", "column list")
        inner = tuple(one for one in children if one.length or (one.name in payloads and one.problem))
        return Field(name, start, stop - start, self.record[start:stop], value, meaning, inner, problem)

    # --- headers ------------------------------------------------------------------------------------------------------

    def fields(self, name: str, start: int, stop: int, meaning: str, fields: Iterable[HeaderField]) -> Field:
        """A node with these fields of the header."""
        return self.node(name, start, stop, None, meaning, children=map(self.header_field, fields))

    def header_field(self, field: HeaderField) -> Field:
        """One field of the header."""
        value = self.number(field)
        text = f"{value:016X}" if field.name == "sequence_number" else str(value)
        meaning, problem = _MEANINGS[field.name](value), self.first(field.name)
        if field.name == "flags" and self.kind is RECORD_TYPES[202] and value & SESSION_INVALID:
            meaning = "the session is lost and can only be closed"
        elif field.name in ("start_time", "commit_time"):
            problem = self.first("time")
            time = None if problem else (_EPOCH + timedelta(seconds=value)).isoformat().replace("+00:00", "Z")
            meaning += time or "outside the years 1 to 9999"
        return self.node(field.name, field.offset, field.offset + field.size, text, meaning, problem)

    def size_words(self) -> Field:
        """The size words, one for each variable-length column."""
        columns = [c for c in self.schema.columns if not c.fixed] if self.schema and self.schema.decodable else []
        little, children = self.settings.byte_order == "little", []
        for number, start in enumerate(range(self.words_at, self.words_end, SIZE_WORD)):
            name = columns[number].name if number < len(columns) else f"variable-length column {number + 1}"
            word = int.from_bytes(self.record[start : start + SIZE_WORD], "little" if little else "big")
            meaning = f"{self.settings.byte_order}-endian: bytes of {name} in the row, including its length prefix"
            children.append(self.node(f"size of {name}", start, start + SIZE_WORD, str(word), meaning))
        meaning = "one number for each variable-length column, in the byte order of the server"
        return self.node("size words", self.words_at, self.words_end, None, meaning, children=children)

    # --- payload ------------------------------------------------------------------------------------------------------

    def payload(self) -> Field:
        """The payload."""
        start, stop = self.header_end, self.payload_end
        if self.kind is None or not self.kind.has_payload:
            problem = self.first("payload_size")
            return self.node("payload", start, stop, None, "payload of unknown meaning", problem)
        if self.rows is None:
            return self.column_list(start, stop)
        if self.schema is None:
            meaning = "a row without a known table schema"
            return self.node("row", start, stop, self.record[start:stop].hex(), meaning, Problem.NO_SCHEMA)
        return self.row(start, stop, self.schema, self.rows)

    def row(self, start: int, stop: int, schema: TableSchema, rows: RowSpans) -> Field:
        """The columns of a row."""
        children = [self.column(v, rows) for v in range(len(rows.column))]
        of_row = [one for one in self.problems if one.field == "row"]
        end = int(rows.end[0])
        if end < stop:
            cause = of_row[-1]
            children.append(self.node("undecoded", end, stop, self.record[end:stop].hex(), cause.sentence, cause.code))
        meaning = f"row of table {schema.label}, schema version {schema.version}: fixed-length columns, then the others"
        if of_row:
            meaning = "; ".join(one.sentence for one in of_row)
        return self.node("row", start, stop, None, meaning, self.first("size words") or self.first("row"), children)

    def column(self, v: int, rows: RowSpans) -> Field:
        """One value."""
        column, start, stop = rows.tables.columns[rows.column[v]], int(rows.start[v]), int(rows.stop[v])
        assert self.values is not None
        value = value_of(column, self.record[start:stop], self.values, v, self.settings)
        meaning = f"{column.type}: {ENCODINGS[column.kind]}"
        if value.problem is not None:
            meaning = f"{column.type}: {value.detail}"
        elif value.text is None:
            meaning = f"{column.type}: NULL"
        children = [] if column.fixed else self.variable_parts(column, start, stop, value)
        return self.node(column.name, start, stop, value.text, meaning, value.problem, children)

    def variable_parts(self, column: SchemaColumn, start: int, stop: int, value: ColumnValue) -> list[Field]:
        """The length prefix, the flag of an LVARCHAR, and the data (§4.2)."""
        width = prefix_width(column, self.settings)
        edges = [("length", min(start + width, stop), "big-endian: bytes that follow")]
        if column.kind is ColumnKind.LVARCHAR:
            edges.append(("flag", min(start + width + 1, stop), "00, or 01 for NULL; the length counts it"))
        parts, at = [], start
        for name, end, meaning in edges:
            parts.append(self.node(name, at, end, str(int.from_bytes(self.record[at:end], "big")), meaning))
            at = end
        parts.append(self.node("text", at, stop, value.text, f"text in {self.settings.charset}", value.problem))
        return parts

    def column_list(self, start: int, stop: int) -> Field:
        """The text of a TABSCHEM."""
        raw, charset = self.record[start:stop], self.settings.charset
        end = start + len(raw.rstrip(b"\0"))
        garbled = None if text_codec(raw, charset) else Problem.CHARSET
        text, types = schema_text(raw, charset), "column names and types as in CREATE TABLE"
        terminator = "the NUL that ends the text; payload_size includes it"
        children = (
            self.node("text", start, end, text, types, garbled),
            self.node("terminator", end, stop, None, terminator),
        )
        schema = schema_of(self.record, settings=self.settings)
        problem, meaning = None, "column list of the table"
        if schema is not None and schema.problems:
            problem, meaning = schema.problems[0]
        return self.node("column list", start, stop, None, meaning, problem, children)


_MEANINGS: Final[dict[str, Callable[[int], str]]] = {
    "header_size": lambda _: "size of the header in bytes, size words included",
    "payload_size": lambda _: "size of the payload in bytes",
    "packetization_scheme": lambda _: f"{SCHEME} is the only known scheme",
    "record_number": record_name,
    "sequence_number": lsn,
    "transaction_id": lambda _: "transaction id; reused after the transaction ends",
    "start_time": lambda _: "Unix seconds, UTC: ",
    "commit_time": lambda _: "Unix seconds, UTC: ",
    "user_id": lambda _: "operating system's user id",
    "user_data": lambda _: "label of the table, chosen in cdc_startcapture",
    "flags": lambda flags: "reserved" if flags else "no flag is set",
    "error_code": explain_error,
    "fixed_length_bytes": lambda _: "bytes of the fixed-length columns in a row",
    "fixed_columns": lambda _: "number of fixed-length columns",
    "variable_columns": lambda _: "number of variable-length columns; each has a size word in the header of a row",
}


def describe(plan: Plan, stream: Stream, segments: Segments, at: int) -> tuple[Field, dict[str, Any], str, bool]:
    """See :meth:`cdcwb.formats.records.RecordFormat.describe`. The schema of a row is the last TABSCHEM of its label
    before it in the examined bytes."""
    start, end = int(segments.start[at]), int(segments.end[at])
    record = segments.buffer[start:end].tobytes()
    place = segments.base + start
    path = plan.files[stream.file_at(place)].path
    here = next(split for split in reversed(plan.splits) if split.start <= place)
    versions = VersionsInForce(plan.shared, here.state.in_force)
    for some in segments_of(stream, plan.framing, here.start, place):
        before = np.flatnonzero(some.record & (some.base + some.start < place))
        versions.of_records(read_headers(some.buffer, some.start[before], some.end[before]))
    headers = read_headers(segments.buffer, segments.start[at : at + 1], segments.end[at : at + 1])
    label, number = int(headers.label[0]), int(versions.of_records(headers)[0])
    version = versions.known.get((label, number))
    schema = None if version is None else version.schema
    note = ""
    if headers.row[0] and version is None:
        note = f"no table schema of label {label} was seen"
    elif headers.row[0] and version is not None:
        origin = plan.files[version.file_index].path if version.file_index >= 0 else path
        table = f" of {plan.shared.full_name(label)}" if label in plan.shared.labels else ""
        note = f"decoded with table version {label}@{number}{table}" + (f" from {origin}" if origin != path else "")
    settings = plan.shared.settings
    is_complete = schema is not None or not headers.row[0]
    return dissect(record, schema, settings), event(record, schema, settings), note, is_complete
