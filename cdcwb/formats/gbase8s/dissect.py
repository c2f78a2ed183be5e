"""The slow and readable path: one record as a tree of fields with place, bytes, value and meaning
(docs/formats/gbase8s.md).

:func:`event` says the same as a row of ``events``; :func:`dissect` shows where it stands. Both take any bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cdcwb.formats.base import Field
from cdcwb.formats.gbase8s.anatomy import Anatomy, Slot, cut, lay_out
from cdcwb.formats.gbase8s.column_types import Column, ColumnKind
from cdcwb.formats.gbase8s.event import DEFAULTS, event, position_text, schema_of, time_of
from cdcwb.formats.gbase8s.records import (
    COMMON_FIELDS,
    COMMON_HEADER,
    SCHEME,
    SESSION_INVALID,
    SIZE_WORD,
    HeaderField,
    explain_error,
    record_name,
)
from cdcwb.formats.gbase8s.schema import TableSchema, schema_text, text_codec
from cdcwb.formats.gbase8s.values import Settings, Value, decode, prefix_width
from cdcwb.model import Problem

__all__ = ["Settings", "dissect", "event", "lsn", "schema_of"]


def lsn(sequence: int) -> str:
    """A sequence number as the log place that it has been seen to be (§6.1): ``LSN 11:0x1746018 (log 11, page …)``."""
    if not sequence:
        return "no log position"
    log, place = sequence >> 32, sequence & 0xFFFFFFFF
    return f"LSN {log}:0x{place:x} (log {log}, page {place >> 12}, offset {place & 0xFFF})"


def dissect(record: bytes, schema: TableSchema | None = None, settings: Settings = DEFAULTS) -> Field:
    """The field tree of one record.

    ``schema`` is the one in force for a row record (None: the row stays one field). Children fill their node
    without holes, in byte order, whatever the bytes are; offsets count from its start. ``problem`` marks the
    field that is wrong; a problem of the record's length marks the record. Never raises.
    """
    anatomy = cut(record, schema, settings)
    number = anatomy.header.get("record_number")
    name = "record" if number is None else record_name(number)
    payload = _payload(record, anatomy, schema, settings)
    extra_problem = _first(anatomy, Problem.HEADER_SIZE, Problem.UNKNOWN_RECORD_TYPE)
    unowned = "bytes that follow the end given by header and payload size"
    parts = (
        _common_header(record, anatomy),
        _specific_header(record, anatomy),
        _size_words(record, anatomy, schema, settings),
        _leaf(record, "extra header", anatomy.words_end, anatomy.header_end, None, _EXTRA_HEADER, extra_problem),
        payload,
        _leaf(record, "trailing bytes", anatomy.payload_end, len(record), None, unowned, Problem.MALFORMED),
    )
    # an empty row is shown where something is wrong with it
    children = tuple(part for part in parts if part.length or (part is payload and payload.problem))
    meaning = _RECORDS.get(number, "a record of an unknown type") if number is not None else _CUT_OFF
    return Field(name, 0, len(record), record, None, meaning, children, _first(anatomy, Problem.TRUNCATED))


_CUT_OFF: Final = "cut off before the end of the common header"
_EXTRA_HEADER: Final = "header bytes of unknown meaning"

_RECORDS: Final = {
    1: "a transaction begins",
    2: "a transaction is committed",
    3: "a transaction is rolled back",
    40: "a row was inserted: the new row",
    41: "a row was deleted: the deleted row",
    42: "a row was updated: the before image; the after image follows in the same transaction",
    43: "a row was updated: the after image",
    62: "rollback to a savepoint: the changes of this transaction from this sequence number on are undone",
    119: "a table was truncated",
    200: "the captured columns of a table, fixed-length ones first",
    201: "nothing new arrived within the session's timeout",
    202: "the server reports an error",
}


def _first(anatomy: Anatomy, *codes: Problem) -> Problem | None:
    """The first problem of the record's outline that is one of ``codes``."""
    return next((code for code, _ in anatomy.problems if code in codes), None)


def _leaf(
    record: bytes, name: str, start: int, stop: int, value: str | None, meaning: str, problem: Problem | None = None
) -> Field:
    return Field(name, start, stop - start, record[start:stop], value, meaning, (), problem)


def _group(record: bytes, name: str, start: int, stop: int, meaning: str, children: list[Field]) -> Field:
    return Field(name, start, stop - start, record[start:stop], None, meaning, tuple(children))


# --- headers ----------------------------------------------------------------------------------------------------------


def _common_header(record: bytes, anatomy: Anatomy) -> Field:
    stop = min(COMMON_HEADER, len(record))
    children = [
        _leaf(record, f.name, f.offset, f.offset + f.size, str(value), *_common_meaning(f.name, value, anatomy))
        for f in COMMON_FIELDS
        if (value := anatomy.header.get(f.name)) is not None
    ]
    rest = COMMON_FIELDS[0].size * len(children)
    if rest < stop:
        children.append(_leaf(record, "cut off", rest, stop, None, _CUT_OFF, Problem.TRUNCATED))
    return _group(
        record, "common header", 0, stop, "four big-endian integers at the beginning of every record", children
    )


def _common_meaning(name: str, value: int, anatomy: Anatomy) -> tuple[str, Problem | None]:
    if name == "header_size":
        return "size of the header in bytes, size words included", _first(anatomy, Problem.HEADER_SIZE)
    if name == "payload_size":
        return "size of the payload in bytes", _first(anatomy, Problem.UNEXPECTED_PAYLOAD)
    if name == "packetization_scheme":
        return f"{SCHEME} is the only known scheme", _first(anatomy, Problem.PACKET_SCHEME)
    return record_name(value), _first(anatomy, Problem.UNKNOWN_RECORD_TYPE)


def _specific_header(record: bytes, anatomy: Anatomy) -> Field:
    fields = () if anatomy.type is None else anatomy.type.fields
    start = min(COMMON_HEADER, len(record))
    children = [_header_field(record, field, anatomy) for field in fields]
    return _group(record, "specific header", start, anatomy.words_at, "the fields of this record type", children)


def _header_field(record: bytes, field: HeaderField, anatomy: Anatomy) -> Field:
    value = anatomy.header[field.name]
    text = position_text(value) if field.name == "sequence_number" else str(value)
    meaning = _MEANINGS[field.name](value)
    problem = None
    if field.name == "flags":
        problem = _first(anatomy, Problem.RESERVED_FLAGS)
        if "error_code" in anatomy.header and value & SESSION_INVALID:
            meaning = "the session is lost and can only be closed"
    elif field.name == "error_code":
        problem = Problem.SOURCE_ERROR
    elif field.name in ("start_time", "commit_time") and time_of(value) is None:
        problem = Problem.TIME_RANGE
    return _leaf(record, field.name, field.offset, field.offset + field.size, text, meaning, problem)


def _time_meaning(seconds: int) -> str:
    moment = time_of(seconds)
    shown = "outside the years 1 to 9999" if moment is None else moment.isoformat().replace("+00:00", "Z")
    return f"Unix seconds, UTC: {shown}"


_MEANINGS: Final[dict[str, Callable[[int], str]]] = {
    "sequence_number": lsn,
    "transaction_id": lambda _: "transaction id; reused after the transaction ends",
    "start_time": _time_meaning,
    "commit_time": _time_meaning,
    "user_id": lambda _: "operating system's user id",
    "user_data": lambda _: "label of the table, chosen in cdc_startcapture",
    "flags": lambda flags: "reserved" if flags else "no flag is set",
    "error_code": explain_error,
    "fixed_length_bytes": lambda _: "bytes of the fixed-length columns in a row",
    "fixed_columns": lambda _: "number of fixed-length columns",
    "variable_columns": lambda _: "number of variable-length columns; each has a size word in the header of a row",
}


def _size_words(record: bytes, anatomy: Anatomy, schema: TableSchema | None, settings: Settings) -> Field:
    columns = [c for c in schema.columns if not c.fixed] if schema is not None and schema.decodable else []
    children = []
    for place, word in enumerate(anatomy.words):
        start = anatomy.words_at + SIZE_WORD * place
        name = columns[place].name if place < len(columns) else f"variable-length column {place + 1}"
        meaning = f"{settings.byte_order}-endian: bytes of {name} in the row, including its length prefix"
        children.append(_leaf(record, f"size of {name}", start, start + SIZE_WORD, str(word), meaning))
    meaning = "one number for each variable-length column, in the byte order of the server"
    return _group(record, "size words", anatomy.words_at, anatomy.words_end, meaning, children)


# --- payload ----------------------------------------------------------------------------------------------------------


def _payload(record: bytes, anatomy: Anatomy, schema: TableSchema | None, settings: Settings) -> Field:
    start, stop = anatomy.header_end, anatomy.payload_end
    kind = anatomy.type
    if kind is None or not kind.has_payload:
        problem = _first(anatomy, Problem.UNEXPECTED_PAYLOAD)
        return _leaf(record, "payload", start, stop, None, "payload of unknown meaning", problem)
    if not kind.is_row:
        return _schema_payload(record, start, stop, settings)
    if schema is None:
        meaning = "a row without a known table schema"
        return _leaf(record, "row", start, stop, record[start:stop].hex(), meaning, Problem.NO_SCHEMA)
    row = lay_out(schema, record[start:stop], anatomy.words, settings)
    children = [_column(record, slot, start, settings) for slot in row.slots]
    if start + row.end < stop:
        code, sentence = row.problems[-1]
        undecoded = record[start + row.end : stop].hex()
        children.append(_leaf(record, "undecoded", start + row.end, stop, undecoded, sentence, code))
    meaning = f"row of table {schema.label}, schema version {schema.version}: fixed-length columns, then the others"
    if row.problems:
        meaning = "; ".join(sentence for _, sentence in row.problems)
    problem = _first(anatomy, Problem.SIZE_WORDS) or next((code for code, _ in row.problems), None)
    return Field("row", start, stop - start, record[start:stop], None, meaning, tuple(children), problem)


def _schema_payload(record: bytes, start: int, stop: int, settings: Settings) -> Field:
    raw = record[start:stop]
    end = start + len(raw.rstrip(b"\0"))
    text = schema_text(raw, settings.charset)
    garbled = None if text_codec(raw, settings.charset) else Problem.CHARSET
    children = [_leaf(record, "text", start, end, text, "column names and types as in CREATE TABLE", garbled)]
    if end < stop:
        children.append(
            _leaf(record, "terminator", end, stop, None, "the NUL that ends the text; payload_size includes it")
        )
    schema = schema_of(record, settings=settings)
    problem, meaning = None, "column list of the table"
    if schema is not None and schema.problems:
        problem, meaning = schema.problems[0]
    shown = tuple(child for child in children if child.length)
    return Field("column list", start, stop - start, raw, None, meaning, shown, problem)


_KINDS: Final = {
    ColumnKind.SMALLINT: "big-endian integer, 8000 is NULL",
    ColumnKind.INTEGER: "big-endian integer, 80000000 is NULL",
    ColumnKind.BIGINT: "big-endian integer, 8000000000000000 is NULL",
    ColumnKind.INT8: "sign, low and high word, all zero is NULL",
    ColumnKind.DATE: "days since 1899-12-31, 80000000 is NULL",
    ColumnKind.FLOAT: "IEEE 754, all bits set is NULL",
    ColumnKind.SMALLFLOAT: "IEEE 754, all bits set is NULL",
    ColumnKind.BOOLEAN: "a byte for NULL, then 0 or 1",
    ColumnKind.CHAR: "padded with spaces, a first byte 00 is NULL",
    ColumnKind.DECIMAL: "packed decimal, 0000… is NULL",
    ColumnKind.DATETIME: "packed decimal of its fields, 0000… is NULL",
    ColumnKind.INTERVAL: "packed decimal of its fields, 0000… is NULL",
    ColumnKind.VARCHAR: "length and text, one byte 00 is NULL",
    ColumnKind.LVARCHAR: "length, flag and text, the flag 01 is NULL",
    ColumnKind.LOB: "locator of a large object; its content is not in the stream",
}


def _column(record: bytes, slot: Slot, row: int, settings: Settings) -> Field:
    column, start, stop = slot.column, row + slot.start, row + slot.stop
    value = decode(column, record[start:stop], settings)
    children = () if column.fixed else _variable_parts(record, column, start, stop, value, settings)
    meaning = f"{column.type}: {_KINDS[column.kind]}"
    if value.problem is not None:
        meaning = f"{column.type}: {value.detail}"
    elif value.text is None:
        meaning = f"{column.type}: NULL"
    return Field(column.name, start, stop - start, record[start:stop], value.text, meaning, children, value.problem)


def _variable_parts(
    record: bytes, column: Column, start: int, stop: int, value: Value, settings: Settings
) -> tuple[Field, ...]:
    """Length prefix, flag of an LVARCHAR, and what is left (§4.2)."""
    width = prefix_width(column, settings)
    edges = [("length", min(start + width, stop), "big-endian: bytes that follow")]
    if column.kind is ColumnKind.LVARCHAR:
        edges.append(("flag", min(start + width + 1, stop), "00, or 01 for NULL; the length counts it"))
    parts = []
    at = start
    for name, end, meaning in edges:
        parts.append(_leaf(record, name, at, end, str(int.from_bytes(record[at:end], "big")), meaning))
        at = end
    parts.append(_leaf(record, "text", at, stop, value.text, f"text in {settings.charset}", value.problem))
    return tuple(part for part in parts if part.length)
