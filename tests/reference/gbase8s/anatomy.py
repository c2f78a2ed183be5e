"""One record cut into its parts: header, size words, row, and where each column of the row lies
(docs/formats/gbase8s.md §1 to §4).

What the bytes contradict is listed as problems in a fixed order, header first; both the field tree and the events of
records that are not plainly clean are built on this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from cdcwb.formats.gbase8s.layout import (
    COMMON_FIELDS,
    COMMON_HEADER,
    RECORD_TYPES,
    SCHEME,
    SESSION_INVALID,
    SIZE_WORD,
    HeaderField,
    RecordType,
    SchemaColumn,
    StreamSettings,
    explain_error,
)
from cdcwb.formats.gbase8s.schema import TableSchema
from cdcwb.model import Problem
from tests.reference.gbase8s.values import prefix_width

__all__ = ["Anatomy", "Problems", "Row", "Slot", "cut", "lay_out"]


def read_field(record: bytes, field: HeaderField) -> int | None:
    """The value of a header field, or None where the record ends before or inside it."""
    raw = record[field.offset : field.offset + field.size]
    return int.from_bytes(raw, "big", signed=field.signed) if len(raw) == field.size else None


Problems = list[tuple[Problem, str]]
"""Codes and sentences, in the order in which they are reported."""


@dataclass(frozen=True, slots=True)
class Anatomy:
    """The parts of a record; all places count bytes from its start and lie inside it.

    ``type`` is None for a record number that is not known, and for a record too short for its type's header: then
    nothing behind the common header is read. ``header`` holds the values of the header fields that are there, in wire
    order. ``words`` are the size words of the variable-length columns, at ``[words_at, words_end)``; header bytes
    behind them that no field explains are ``[words_end, header_end)``, the payload is ``[header_end, payload_end)``,
    and what is left of the record belongs to nothing.
    """

    type: RecordType | None
    header: dict[str, int]
    words: tuple[int, ...]
    words_at: int
    words_end: int
    header_end: int
    payload_end: int
    problems: Problems


def cut(record: bytes, schema: TableSchema | None, settings: StreamSettings) -> Anatomy:
    """Cuts a record, of any bytes, into its parts.

    ``schema`` says how many size words a row has; without one, as many as its header has room for.
    """
    header = {field.name: value for field in COMMON_FIELDS if (value := read_field(record, field)) is not None}
    size, payload = header.get("header_size", 0), header.get("payload_size", 0)
    problems = _common_problems(record, header)
    header_end = min(max(size, COMMON_HEADER), len(record))
    kind = RECORD_TYPES.get(header.get("record_number", -1))
    if kind is not None and header_end < kind.header_size:
        kind = None
    words_at = min(COMMON_HEADER if kind is None else kind.header_size, len(record))
    words: tuple[int, ...] = ()
    if kind is not None:
        header |= {field.name: value for field in kind.fields if (value := read_field(record, field)) is not None}
        count, word_problems = _word_count(kind, size, schema)
        count = min(count, (header_end - words_at) // SIZE_WORD)
        words = _size_words(record[words_at : words_at + SIZE_WORD * count], settings)
        problems += word_problems
    problems += _length_problems(max(size, COMMON_HEADER) + payload, len(record))
    if kind is not None:
        problems += _field_problems(kind, header, payload)
    words_end = words_at + SIZE_WORD * len(words)
    payload_end = min(header_end + payload, len(record))
    return Anatomy(kind, header, words, words_at, words_end, header_end, payload_end, problems)


def _common_problems(record: bytes, header: dict[str, int]) -> Problems:
    if len(record) < COMMON_HEADER:
        return []
    problems: Problems = []
    kind = RECORD_TYPES.get(header["record_number"])
    if header["packetization_scheme"] != SCHEME:
        found = header["packetization_scheme"]
        problems.append((Problem.PACKET_SCHEME, f"expected packetization scheme {SCHEME}, found {found}"))
    if kind is None:
        found = header["record_number"]
        problems.append((Problem.UNKNOWN_RECORD_TYPE, f"expected a known record number, found {found}"))
    least = COMMON_HEADER if kind is None else kind.header_size
    if header["header_size"] < least:
        found = header["header_size"]
        problems.append((Problem.HEADER_SIZE, f"expected a header of at least {least} bytes, found {found}"))
    return problems


def _word_count(kind: RecordType, size: int, schema: TableSchema | None) -> tuple[int, Problems]:
    """How many size words a header of ``size`` bytes has (§3), and what is wrong with its length."""
    room = (size - kind.header_size) // SIZE_WORD if kind.is_row else 0
    wanted = schema.variable_columns if kind.is_row and schema is not None and schema.decodable else room
    expected = kind.header_size + SIZE_WORD * wanted
    if size > expected:
        return wanted, [(Problem.HEADER_SIZE, f"expected a header of {expected} bytes, found {size}")]
    if room < wanted:
        return room, [(Problem.SIZE_WORDS, f"expected {wanted} as the number of size words, found {room}")]
    return wanted, []


def _size_words(raw: bytes, settings: StreamSettings) -> tuple[int, ...]:
    """The size words, in the byte order of the server (§3)."""
    order: Literal["little", "big"] = "little" if settings.byte_order == "little" else "big"
    return tuple(int.from_bytes(raw[at : at + SIZE_WORD], order) for at in range(0, len(raw), SIZE_WORD))


def _length_problems(expected: int, found: int) -> Problems:
    if found == expected:
        return []
    code = Problem.TRUNCATED if found < expected else Problem.MALFORMED
    return [(code, f"expected a record of {expected} bytes, found {found}")]


def _field_problems(kind: RecordType, header: dict[str, int], payload: int) -> Problems:
    problems: Problems = []
    if payload and not kind.has_payload:
        problems.append((Problem.UNEXPECTED_PAYLOAD, f"expected no payload, found {payload} bytes"))
    flags = header.get("flags", 0)
    defined = SESSION_INVALID if "error_code" in header else 0
    if flags & ~defined:
        allowed = "0 or 1" if defined else "0"
        problems.append((Problem.RESERVED_FLAGS, f"expected flags {allowed}, found 0x{flags:08X}"))
    if "error_code" in header:
        session = "the session is lost and can only be closed" if flags & SESSION_INVALID else "the session continues"
        problems.append((Problem.SOURCE_ERROR, f"{explain_error(header['error_code'])}; {session}"))
    return problems


@dataclass(frozen=True, slots=True)
class Slot:
    """The bytes of one column, ``[start, stop)`` of the payload; a length prefix is part of them."""

    column: SchemaColumn
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Row:
    """Where the columns of a row lie, without holes from the payload's start; from ``end`` on it is undecoded."""

    slots: tuple[Slot, ...]
    end: int
    problems: Problems


def lay_out(schema: TableSchema, payload: bytes, words: Sequence[int], settings: StreamSettings) -> Row:
    """Finds the columns of a row payload (§3, §4).

    Fixed-length columns come first, by their sizes; the others take what their size words say, provided that
    everything together is exactly the payload. Where it is not, the length prefixes are followed instead, and where
    they do not end with the payload either, the columns that lie wholly inside it are kept.
    """
    problems: Problems = []
    columns = schema.columns[: schema.decodable]
    complete = len(words) == schema.variable_columns
    expected = schema.fixed_bytes + sum(words)
    by_words = complete and expected == len(payload)
    if words and complete and columns and schema.fixed_bytes_known and not by_words:
        sentence = f"expected a row of {expected} bytes by its size words, found {len(payload)}"
        problems.append((Problem.SIZE_WORDS, sentence))
    slots: list[Slot] = []
    at = 0
    remaining = iter(words)
    for column in columns:
        if column.fixed:
            size = column.size
        else:
            size = next(remaining) if by_words else _prefixed(column, payload, at, settings)
        if size is None or at + size > len(payload):
            problems.append((Problem.ROW_SIZE, _does_not_fit(column, size, at, len(payload))))
            break
        slots.append(Slot(column, at, at + size))
        at += size
    if schema.decodable < len(schema.columns) or not columns:
        code, sentence = schema.problems[-1]
        problems.append((code, f"table schema {schema.label}@{schema.version}: {sentence}"))
    elif len(slots) == len(columns) and at != len(payload):
        problems.append((Problem.ROW_SIZE, f"expected a row of {at} bytes, found {len(payload)}"))
    return Row(tuple(slots), at, problems)


def _prefixed(column: SchemaColumn, payload: bytes, at: int, settings: StreamSettings) -> int | None:
    """Bytes of a variable-length value by the length in front of it, None where the payload ends inside that (§4.2)."""
    width = prefix_width(column, settings)
    if at + width > len(payload):
        return None
    return width + int.from_bytes(payload[at : at + width], "big")


def _does_not_fit(column: SchemaColumn, size: int | None, at: int, payload: int) -> str:
    wanted = "a length" if size is None else f"{size} bytes"
    return f"expected {wanted} for column {column.ordinal} {column.name} at byte {at} of the row, found {payload - at}"
