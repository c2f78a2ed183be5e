"""Decodes records to columns of ``events``: header fields, the location of each column of a row, images, and
contradictions (docs/formats/gbase8s.md §2 to §4, §11).

Kernels read the headers of many records and locate their columns; each record gets status bits, which
:func:`problems_of` turns into sentences. The field tree of one record is made from the same arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.formats.arrays import EventBatch, as_array, bytes_of, from_matrix, hex_digits, integers
from cdcwb.formats.gbase8s.framing import HAS_PAYLOAD, HEADER_SIZE, IS_ROW
from cdcwb.formats.gbase8s.layout import (
    BEFORE_IMAGES,
    COMMON_FIELDS,
    COMMON_HEADER,
    LVARCHAR_PREFIX,
    RECORD_TYPES,
    SCHEME,
    SESSION_INVALID,
    SIZE_WORD,
    ColumnKind,
    StreamSettings,
    explain_error,
    record_name,
)
from cdcwb.formats.gbase8s.schema import Counts, TableSchema, schema_text, table_schema, text_codec
from cdcwb.formats.gbase8s.values import (
    BAD,
    DecodedValues,
    big_endian,
    column_table,
    decode_values,
    prefix_width,
    value_of,
)
from cdcwb.formats.kernels import Bools, Bytes, Ints, interpreted, kernel
from cdcwb.model import Kind, Problem


class Remark(NamedTuple):
    """A problem of a record, and the field that it is about (empty: the record)."""

    code: Problem
    sentence: str
    field: str = ""


Problems = list[Remark]
"""Problems in the order in which they are reported."""

DEFAULTS: Final = StreamSettings()
ROW_HEADER: Final = RECORD_TYPES[40].header_size
SCHEMA_RECORD: Final = 200

# status of a record, in the order in which problems are reported
_SCHEME, _UNKNOWN, _SHORT, _LONG, _NO_WORDS, _LENGTH, _PAYLOAD, _FLAGS = (1 << bit for bit in range(8))
_ERROR, _TIME, _NO_SCHEMA, _WORDS, _ROW_END, _SCHEMA, _LEFT_OVER, _VALUE = (1 << bit for bit in range(8, 16))

_EARLIEST: Final = int(datetime(1, 1, 1, tzinfo=UTC).timestamp())
_LATEST: Final = int(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp())


# --- headers ----------------------------------------------------------------------------------------------------------


def _offsets(*names: str) -> npt.NDArray[np.int64]:
    """The offset of a header field in each record type, by record number; 0 if the type lacks the field."""
    out = np.zeros(256, dtype=np.int64)
    for number, kind in RECORD_TYPES.items():
        out[number] = next((field.offset for field in kind.fields if field.name in names), 0)
    return out


_SEQUENCE_AT: Final = _offsets("sequence_number")
_TRANSACTION_AT: Final = _offsets("transaction_id")
_LABEL_AT: Final = _offsets("user_data")
_TIME_AT: Final = _offsets("start_time", "commit_time")
_FLAGS_AT: Final = _offsets("flags")
_ERROR_AT: Final = _offsets("error_code")
_IS_BEFORE: Final = np.isin(np.arange(256), BEFORE_IMAGES)


@kernel
def _read_headers(b: Bytes, starts: Ints, ends: Any, out: Ints, status: Any) -> None:
    for r in range(len(starts)):
        at = starts[r]
        header, payload, number = big_endian(b, at, 4), big_endian(b, at + 4, 4), big_endian(b, at + 12, 4)
        s = 0
        if big_endian(b, at + 8, 4) != SCHEME:
            s |= _SCHEME
        least = HEADER_SIZE[number] if number < 256 else np.int64(0)
        if least == 0:
            s |= _UNKNOWN
        if header < max(least, COMMON_HEADER):
            s |= _SHORT
        size = ends[r] - at
        if max(header, COMMON_HEADER) + payload != size:
            s |= _LENGTH
        known = least > 0 and min(max(header, COMMON_HEADER), size) >= least
        out[0, r], out[1, r], out[2, r] = header, payload, number if known else 0
        for k in range(3, 7):
            out[k, r] = 0
        if known:
            if header > least and not IS_ROW[number]:
                s |= _LONG
            if payload and not HAS_PAYLOAD[number]:
                s |= _PAYLOAD
            if _SEQUENCE_AT[number]:
                out[3, r] = big_endian(b, at + _SEQUENCE_AT[number], 8)
            if _TRANSACTION_AT[number]:
                out[4, r] = big_endian(b, at + _TRANSACTION_AT[number], 4)
            if _LABEL_AT[number]:
                out[5, r] = big_endian(b, at + _LABEL_AT[number], 4)
            if _TIME_AT[number]:
                out[6, r] = big_endian(b, at + _TIME_AT[number], 8)
                if out[6, r] < _EARLIEST or out[6, r] > _LATEST:
                    s |= _TIME
            if _FLAGS_AT[number]:
                flags = big_endian(b, at + _FLAGS_AT[number], 4)
                if flags & ~(SESSION_INVALID if _ERROR_AT[number] else 0):
                    s |= _FLAGS
            if _ERROR_AT[number]:
                s |= _ERROR
            elif number == SCHEMA_RECORD:
                s |= _SCHEMA
        status[r] = s


@dataclass(frozen=True)
class RecordHeaders:
    """Header fields of records ``buffer[start:end]``, one array each, in capture order. Missing fields are 0.
    ``number`` is 0 if it is unknown or the record is too short for its type's header. ``label``: of row records,
    TRUNCATE and TABSCHEM. ``seconds``: the times of BEGINTX and COMMTX. ``status``: bits of problems.
    """

    buffer: Bytes
    start: Ints
    end: Ints
    header_size: Ints
    payload_size: Ints
    number: Ints
    sequence: npt.NDArray[np.uint64]
    transaction: Ints
    label: Ints
    seconds: Ints
    status: Ints

    @property
    def row(self) -> Bools:
        """A mask of row records."""
        row: Bools = IS_ROW[self.number]
        return row

    @property
    def transactional(self) -> Bools:
        """A mask of records that belong to a transaction."""
        return _TRANSACTION_AT[self.number] > 0

    @property
    def timed(self) -> Bools:
        """A mask of records with a time of the years 1 to 9999."""
        is_timed: Bools = (_TIME_AT[self.number] > 0) & (self.status & _TIME == 0)
        return is_timed

    @cached_property
    def header_end(self) -> Ints:
        """The end of the header in the buffer, limited to the record."""
        end: Ints = np.minimum(self.start + np.maximum(self.header_size, COMMON_HEADER), self.end)
        return end

    @cached_property
    def payload_end(self) -> Ints:
        """The end of the payload in the buffer."""
        end: Ints = np.minimum(self.header_end + self.payload_size, self.end)
        return end

    def payload(self, record: int) -> bytes:
        """The payload of one record."""
        return self.buffer[self.header_end[record] : self.payload_end[record]].tobytes()

    def take(self, records: npt.NDArray[Any]) -> RecordHeaders:
        """The headers of these records only."""
        _, *arrays = fields(self)
        return RecordHeaders(self.buffer, *(getattr(self, one.name)[records] for one in arrays))


def read_headers(buffer: Bytes, start: Ints, end: Ints) -> RecordHeaders:
    """The headers of the records ``buffer[start:end]``; every record must have its 16 common bytes."""
    out, status = np.empty((7, len(start)), dtype=np.int64), np.zeros(len(start), dtype=np.int64)
    _read_headers(buffer, start, end, out, status)
    sequence, (transaction, label) = out[3].view(np.uint64), out[4:6].astype(np.int32).astype(np.int64)  # signed
    return RecordHeaders(buffer, start, end, out[0], out[1], out[2], sequence, transaction, label, out[6], status)


# --- rows -------------------------------------------------------------------------------------------------------------


class SchemaArrays:
    """Table schemas as arrays for the kernels, by their index in ``schemas``."""

    def __init__(self, schemas: Sequence[TableSchema]) -> None:
        self.schemas = schemas
        columns = [schema.columns[: schema.decodable] for schema in schemas]
        firsts = np.cumsum([0, *map(len, columns)])
        self.columns = [column for some in columns for column in some]
        self.column_table = column_table(self.columns)
        rows = [
            (first, schema.decodable, schema.variable_columns, schema.fixed_bytes, schema.fixed_bytes_known,
             not schema.decodable or schema.decodable < len(schema.columns))
            for first, schema in zip(firsts.tolist(), schemas, strict=False)
        ]  # fmt: skip
        # index of the first column, decodable columns, variable columns, fixed bytes, whether these are known, problems
        self.table = np.array(rows, dtype=np.int64).reshape(len(rows), 6)
        self.names = pa.array([column.name for column in self.columns], pa.string())


@kernel
def _lay_out(
    b: Bytes, starts: Ints, stops: Ints, first_column: Ints, count: Ints, columns: Ints, prefix: int, by_words: Bools,
    first_word: Ints, sizes: Ints, ends: Ints, value_ends: Any, column: Ints, first: Ints, last: Ints,
) -> None:  # fmt: skip
    v = 0
    for r in range(len(starts)):
        at, stop, word = starts[r], stops[r], first_word[r]
        for c in range(first_column[r], first_column[r] + count[r]):
            size = columns[c, 1]
            if size < 0 and by_words[r]:
                size = sizes[word]
                word += 1
            elif size < 0:
                width = LVARCHAR_PREFIX if columns[c, 0] == _LVARCHAR else prefix
                if at + width <= stop:
                    size = width + big_endian(b, at, width)
            if size < 0 or at + size > stop:
                break
            column[v], first[v], last[v] = c, at, at + size
            v += 1
            at += size
        ends[r], value_ends[r + 1] = at, v


_LVARCHAR: Final = list(ColumnKind).index(ColumnKind.LVARCHAR)


def _size_words(buffer: Bytes, start: Ints, count: Ints, byte_order: str) -> tuple[Ints, Ints]:
    """The size words of rows, ``count`` of each from ``start`` on, in the byte order of the server (§3); and the index
    at which those of each row begin, and the end."""
    begin = np.append(0, np.cumsum(count))
    at = np.repeat(start - SIZE_WORD * begin[:-1], count) + SIZE_WORD * np.arange(begin[-1])
    words = bytes_of(buffer, at, SIZE_WORD).view("<u4" if byte_order == "little" else ">u4")
    return words.reshape(-1).astype(np.int64), begin


@dataclass(frozen=True, slots=True)
class RowSpans:
    """The locations of the columns of row records. For each row: ``words`` (number of size words), ``end`` (bytes after
    it in the payload are undecoded), its values ``[value_ends[r], value_ends[r + 1])``. For each value: ``column`` (in
    ``tables``), ``start`` and ``stop`` in the buffer, including a length prefix."""

    headers: RecordHeaders
    tables: SchemaArrays
    schema: Ints
    words: Ints
    end: Ints
    value_ends: npt.NDArray[np.int32]
    column: Ints
    start: Ints
    stop: Ints

    def decode(self, settings: StreamSettings) -> DecodedValues:
        """The decoded values; sets the status bit of rows with invalid ones."""
        buffer, table = self.headers.buffer, self.tables.column_table
        values = decode_values(buffer, self.start, self.stop, self.column, table, settings)
        bad = np.flatnonzero(values.status >= BAD)
        self.headers.status[np.searchsorted(self.value_ends, bad, side="right") - 1] |= _VALUE
        return values

    def chosen(self, values: npt.NDArray[Any]) -> RowSpans:
        """The same rows with these values only."""
        return RowSpans(
            self.headers, self.tables, self.schema, self.words, self.end, self.value_ends,
            self.column[values], self.start[values], self.stop[values],
        )  # fmt: skip


def lay_out(headers: RecordHeaders, tables: SchemaArrays, schema: Ints, settings: StreamSettings) -> RowSpans:
    """Finds the columns of row records (§3, §4); ``schema`` is the index of the schema in force in ``tables``, -1 for
    none. Sets bits of ``headers.status``.

    Fixed-length columns come first, by their sizes; the others have the sizes of their size words, if the total is
    exactly the payload. Otherwise the length prefixes are used; if these do not end with the payload either, only the
    columns that are completely inside it are decoded.
    """
    status, start, stop = headers.status, headers.header_end, headers.payload_end
    no_schema = np.zeros((1, tables.table.shape[1]), np.int64)  # for the index -1
    facts = np.append(tables.table, no_schema, axis=0)[schema].T.copy()
    first_column, decodable, variable, fixed_bytes, size_is_known, has_problem = facts
    room = (headers.header_size - ROW_HEADER) // SIZE_WORD
    wanted = np.where(decodable > 0, variable, room)
    words_at = headers.start + ROW_HEADER
    words = np.minimum(np.minimum(wanted, room), (start - words_at) // SIZE_WORD)
    sizes, first_word = _size_words(headers.buffer, words_at, words, settings.byte_order)
    total = np.append(0, np.cumsum(sizes))[first_word]
    is_complete = words == variable
    by_words = is_complete & (fixed_bytes + np.diff(total) == stop - start)
    ends, value_ends = np.empty(len(schema), np.int64), np.zeros(len(schema) + 1, np.int32)
    column, first, last = np.empty((3, int(decodable.sum())), np.int64)
    _lay_out(
        headers.buffer, start, stop, first_column, decodable, tables.column_table, settings.prefix_width, by_words,
        first_word, sizes, ends, value_ends, column, first, last,
    )  # fmt: skip
    is_cut = np.diff(value_ends) < decodable
    for bit, rows in (
        (_LONG, headers.header_size > ROW_HEADER + SIZE_WORD * wanted),
        (_NO_WORDS, room < wanted),
        (_NO_SCHEMA, schema < 0),
        (_WORDS, (words > 0) & is_complete & (decodable > 0) & (size_is_known > 0) & ~by_words),
        (_ROW_END, is_cut),
        (_SCHEMA, has_problem > 0),
        (_LEFT_OVER, (schema >= 0) & (has_problem == 0) & ~is_cut & (ends != stop)),
    ):
        status |= np.where(rows, bit, 0)
    used = int(value_ends[-1])
    return RowSpans(headers, tables, schema, words, ends, value_ends, column[:used], first[:used], last[:used])


# --- columns of events ------------------------------------------------------------------------------------------------


def _image(rows: RowSpans, values: DecodedValues, null: Bools, places: Ints) -> pa.Array:
    """The maps of names and values, at the indexes ``places`` of ``len(null)`` records; null elsewhere."""
    offsets = np.zeros(len(null) + 1, np.int32)
    offsets[1 + places] = np.diff(rows.value_ends)
    offsets = np.cumsum(offsets, dtype=np.int32)
    names, ends = rows.tables.names.take(pa.array(rows.column)), pa.array(offsets, mask=np.append(null, False))
    return pa.MapArray.from_arrays(ends, names, values.text)


def _header_map(headers: RecordHeaders, words: Ints, row_ends: Ints, byte_order: str) -> pa.Array:
    """``events.headers``: every header field by its name, in wire order (§2); the size words as ``variable_sizes``,
    undefined header bytes as ``extra_header``, undecoded payload bytes as ``undecoded``."""
    batch = EventBatch(len(headers.start))
    position = batch.pool.add(positions(headers))
    types = _TYPE_OF[headers.number]
    for code in np.flatnonzero(np.bincount(types)).tolist():
        kind = _TYPES[code - 1] if code else None
        index = np.flatnonzero(types == code)
        start = headers.start[index]
        fields = (*COMMON_FIELDS, *(kind.fields if kind else ()))
        values = []
        for one in fields:
            if one.name == "sequence_number":
                values.append(position[index])
            else:
                raw = bytes_of(headers.buffer, start + one.offset, one.size)
                numbers = raw.view(f">{'i' if one.signed else 'u'}{one.size}")[:, 0]
                values.append(batch.pool.add_integers(numbers.astype(np.int64)))
        words_at = start + fields[-1].offset + fields[-1].size
        words_end = words_at + SIZE_WORD * words[index]
        sizes, begin = _size_words(headers.buffer, words_at, words[index], byte_order)
        lists = pa.ListArray.from_arrays(pa.array(begin.astype(np.int32)), integers(sizes))
        extra = {
            "variable_sizes": pc.if_else(pa.array(words[index] > 0), pc.binary_join(lists, " "), None),
            "extra_header": _hex(headers.buffer, words_end, headers.header_end[index]),
            "undecoded": _hex(headers.buffer, row_ends[index], headers.payload_end[index]),
        }
        extra = {name: texts for name, texts in extra.items() if texts.null_count < len(texts)}
        places = np.stack([*values, *map(batch.pool.add, extra.values())], axis=1)
        absent = np.zeros(places.shape, np.bool_)
        for at, texts in enumerate(extra.values(), len(fields)):
            absent[:, at] = as_array(texts.is_null())
        batch.entries("headers", [*(one.name for one in fields), *extra], places, index, absent)
    return batch.maps["headers"].build()


def _hex(buffer: Bytes, start: Ints, stop: Ints) -> pa.Array:
    """Runs of bytes as hexadecimal digits; null for empty ones."""
    rows = zip(start.tolist(), stop.tolist(), strict=True)
    if not (stop > start).any():
        return pa.nulls(len(start), pa.string())
    return pa.array([buffer[first:last].tobytes().hex() or None for first, last in rows], pa.string())


_TYPES: Final = tuple(RECORD_TYPES.values())
_NUMBERS: Final = (0, *RECORD_TYPES)
_TYPE_OF: Final = np.zeros(256, dtype=np.int64)
_TYPE_OF[list(_NUMBERS)] = np.arange(len(_NUMBERS))


def _by_number(headers: RecordHeaders, texts: Sequence[str | None]) -> pa.Array:
    return pa.array(texts, pa.string()).take(pa.array(_TYPE_OF[headers.number]))


def names_of(headers: RecordHeaders) -> tuple[pa.Array, pa.Array]:
    """Kind and operation of each record."""
    operations = (kind.operation and str(kind.operation) for kind in _TYPES)
    kinds = [str(Kind.CONTROL), *(str(kind.kind) for kind in _TYPES)]
    return _by_number(headers, kinds), _by_number(headers, [None, *operations])


def positions(headers: RecordHeaders) -> pa.Array:
    """Sequence numbers as 16 upper-case hexadecimal digits, so that text order is log order (§6.1); null for a record
    without one."""
    matrix = headers.sequence.astype(">u8").view(np.uint8).reshape(-1, 8)
    return from_matrix(hex_digits(matrix, upper=True), _SEQUENCE_AT[headers.number] == 0)


def columns_of(
    headers: RecordHeaders, tables: SchemaArrays, schema: Ints, settings: StreamSettings, *,
    images: bool = True, header_map: bool = True, find_problems: bool = True,
) -> dict[str, pa.Array]:  # fmt: skip
    """The columns of ``events`` that need only the records themselves; ``schema`` as in :func:`lay_out`, for all
    records.

    Without ``images`` rows are not decoded: ``before`` and ``after`` are left out, and so are problems of rows. Without
    ``header_map`` and ``find_problems`` as well, nothing of a row but its header is read.
    """
    record_type = _by_number(headers, ["", *(kind.name for kind in _TYPES)])
    if not headers.number.all():
        raw = headers.buffer[(headers.start[:, None] + np.arange(12, 16))].view(">u4")[:, 0]
        own = [None if known else record_name(int(n)) for known, n in zip(headers.number, raw, strict=True)]
        record_type = pc.coalesce(pa.array(own, pa.string()), record_type)
    position, (kind, operation) = positions(headers), names_of(headers)
    none = pa.scalar(None, pa.string())
    micros = pa.array(np.where(headers.timed, headers.seconds, 0) * 1_000_000, mask=~headers.timed)
    columns: dict[str, pa.Array] = {
        "record_type": record_type,
        "kind": kind,
        "operation": operation,
        "position": position,
        "commit_position": pc.if_else(pa.array(headers.number == 2), position, none),
        "changed_at": micros.cast(model.EVENTS.field("changed_at").type),
    }
    if not (images or header_map or find_problems):
        return columns
    count = len(headers.start)
    words, row_ends = np.zeros(count, np.int64), headers.payload_end.copy()
    problems: dict[int, Problems] = {}
    for name, before in (("before", True), ("after", False)):
        places = np.flatnonzero(IS_ROW[headers.number] & (_IS_BEFORE[headers.number] == before))
        rows = lay_out(headers.take(places), tables, schema[places], settings)
        words[places] = rows.words
        values = None
        if images:
            values = rows.decode(settings)
            row_ends[places] = rows.end
            null = np.ones(count, dtype=bool)
            null[places] = False
            columns[name] = _image(rows, values, null, places)
        else:
            rows.headers.status[:] &= _NO_SCHEMA - 1
        for r in np.flatnonzero(rows.headers.status).tolist():
            problems[int(places[r])] = problems_of(rows.headers, r, settings, rows, values)
    for r in np.flatnonzero((headers.status != 0) & ~headers.row).tolist():
        problems[r] = problems_of(headers, r, settings)
    index = np.full(count, -1, dtype=np.int64)
    index[list(problems)] = np.where(list(map(bool, problems.values())), np.arange(len(problems)), -1)
    texts = [[{"code": str(one.code), "detail": one.sentence} for one in found] for found in problems.values()]
    lists = pa.array(texts, model.EVENTS.field("problems").type)
    columns["problems"] = lists.take(pa.array(index, mask=index < 0))
    if header_map:
        columns["headers"] = _header_map(headers, words, row_ends, settings.byte_order)
    return columns


def event(record: bytes, schema: TableSchema | None = None, settings: StreamSettings = DEFAULTS) -> dict[str, Any]:
    """The columns of ``events`` of a record of at least 16 bytes that need no other record. ``schema`` is the one in
    force for a row record (None: unknown, the row stays bytes). The image of a row that cannot be decoded is an empty
    map, and its bytes are in the header ``undecoded``. Never raises.
    """
    with interpreted():
        tables = SchemaArrays([] if schema is None else [schema])
        columns = columns_of(one_record(record), tables, np.array([0 if schema else -1]), settings)
    facts = {name: column[0].as_py() for name, column in columns.items()}
    for name in ("before", "after", "headers"):
        facts[name] = None if facts[name] is None else dict(facts[name])
    return facts


# --- problems ---------------------------------------------------------------------------------------------------------


def schema_of(record: bytes, version: int = 1, settings: StreamSettings = DEFAULTS) -> TableSchema | None:
    """The table schema of a TABSCHEM record (§5); None for other records and for one that is too short."""
    if len(record) < COMMON_HEADER:
        return None
    headers = one_record(record)
    return _schema_in(headers, 0, version, settings) if headers.number[0] == SCHEMA_RECORD else None


def _schema_in(headers: RecordHeaders, r: int, version: int, settings: StreamSettings) -> TableSchema:
    text = schema_text(headers.payload(r), settings.charset)
    return table_schema(int(headers.label[r]), version, text, counts_of(headers, r), "record")


def counts_of(headers: RecordHeaders, r: int) -> Counts:
    """The counts of a TABSCHEM record."""
    size, fixed, variable = headers.buffer[headers.start[r] + 24 :][:12].view(">u4").tolist()
    return size, fixed, variable


def one_record(record: bytes) -> RecordHeaders:
    """The header of a record of at least 16 bytes."""
    return read_headers(np.frombuffer(record, np.uint8), np.zeros(1, np.int64), np.array([len(record)]))


def problems_of(
    headers: RecordHeaders,
    r: int,
    settings: StreamSettings,
    rows: RowSpans | None = None,
    values: DecodedValues | None = None,
) -> Problems:
    """The problems of a record, in the order of its bits; ``rows`` and ``values`` are those of row records, with the
    same index."""
    status, start, end = int(headers.status[r]), int(headers.start[r]), int(headers.end[r])
    header, payload = int(headers.header_size[r]), int(headers.payload_size[r])
    head = headers.buffer[start : start + 40].tobytes()
    number = int.from_bytes(head[12:16], "big")
    kind = RECORD_TYPES.get(number)
    least = COMMON_HEADER if kind is None else kind.header_size
    flags = int(_FLAGS_AT[headers.number[r]])
    facts: dict[str, Any] = {
        "scheme": int.from_bytes(head[8:12], "big"),
        "number": number,
        "least": least,
        "full": least,
        "header": header,
        "payload": payload,
        "expected": max(header, COMMON_HEADER) + payload,
        "found": end - start,
        "allowed": "0 or 1" if number == 202 else "0",
        "flags": int.from_bytes(head[flags : flags + 4], "big"),
        "seconds": int(headers.seconds[r]),
        "label": int(headers.label[r]),
    }
    if status & _ERROR:
        lost = facts["flags"] & SESSION_INVALID
        facts["error"] = explain_error(int.from_bytes(head[20:24], "big", signed=True))
        facts["session"] = "the session is lost and can only be closed" if lost else "the session continues"
    if rows is not None:
        facts |= _facts_of_row(rows, r, settings)
    problems: Problems = []
    for bit in range(16):
        if not status & 1 << bit:
            continue
        if 1 << bit == _LENGTH:
            code = Problem.TRUNCATED if facts["found"] < facts["expected"] else Problem.MALFORMED
            problems.append(Remark(code, f"expected a record of {facts['expected']} bytes, found {facts['found']}"))
        elif 1 << bit == _SCHEMA and rows is not None:
            schema = rows.tables.schemas[rows.schema[r]]
            code, sentence = schema.problems[-1]
            problems.append(Remark(code, f"table schema {schema.label}@{schema.version}: {sentence}", "row"))
        elif 1 << bit == _SCHEMA:
            problems += _problems_of_schema(headers, r, settings)
        elif 1 << bit == _VALUE and rows is not None and values is not None:
            problems += _problems_of_values(rows, r, values, settings)
        else:
            remark = _SENTENCES[1 << bit]
            problems.append(remark._replace(sentence=remark.sentence.format(**facts)))
    return problems


def _facts_of_row(rows: RowSpans, r: int, settings: StreamSettings) -> dict[str, Any]:
    """The values for the sentences about a row."""
    headers = rows.headers
    first, stop, at = int(headers.header_end[r]), int(headers.payload_end[r]), int(rows.end[r])
    facts: dict[str, Any] = {"row": stop - first, "decoded": at - first, "rest": stop - at, "words": int(rows.words[r])}
    room = (int(headers.header_size[r]) - ROW_HEADER) // SIZE_WORD
    schema = None if rows.schema[r] < 0 else rows.tables.schemas[rows.schema[r]]
    facts["variable"] = schema.variable_columns if schema is not None and schema.decodable else room
    facts["full"] = ROW_HEADER + SIZE_WORD * facts["variable"]
    facts["words"] = min(room, facts["variable"])
    if schema is None:
        return facts
    words_at = headers.start[r : r + 1] + ROW_HEADER
    words, _ = _size_words(headers.buffer, words_at, rows.words[r : r + 1], settings.byte_order)
    facts["by_words"] = schema.fixed_bytes + int(words.sum())
    done = int(rows.value_ends[r + 1] - rows.value_ends[r])
    if done < schema.decodable:
        column = schema.columns[done]
        width = prefix_width(column, settings)
        prefix = headers.buffer[at : min(at + width, stop)].tobytes()
        size = column.size if column.fixed else width + int.from_bytes(prefix, "big") if len(prefix) == width else None
        needed = "a length" if size is None else f"{size} bytes"
        facts |= {"needed": needed, "ordinal": column.ordinal, "column": column.name}
    return facts


def _problems_of_values(rows: RowSpans, r: int, values: DecodedValues, settings: StreamSettings) -> Problems:
    problems: Problems = []
    first, last = int(rows.value_ends[r]), int(rows.value_ends[r + 1])
    for v in (first + np.flatnonzero(values.status[first:last] >= BAD)).tolist():
        column = rows.tables.columns[rows.column[v]]
        value = value_of(column, rows.headers.buffer[rows.start[v] : rows.stop[v]].tobytes(), values, v, settings)
        if value.problem is not None:
            sentence = f"column {column.ordinal} {column.name}: {value.detail}"
            problems.append(Remark(value.problem, sentence, f"column {column.ordinal}"))
    return problems


def _problems_of_schema(headers: RecordHeaders, r: int, settings: StreamSettings) -> Problems:
    problems: Problems = []
    if text_codec(headers.payload(r), settings.charset) is None:
        tried = " or ".join(dict.fromkeys(("utf-8", settings.charset)))
        problems.append(Remark(Problem.CHARSET, f"expected a schema text in {tried}, found other bytes", "column list"))
    return problems + [Remark(*found, "column list") for found in _schema_in(headers, r, 1, settings).problems]


_SENTENCES: Final = {
    _SCHEME: Remark(Problem.PACKET_SCHEME, "expected packetization scheme 66, found {scheme}", "packetization_scheme"),
    _UNKNOWN: Remark(Problem.UNKNOWN_RECORD_TYPE, "expected a known record number, found {number}", "record_number"),
    _SHORT: Remark(Problem.HEADER_SIZE, "expected a header of at least {least} bytes, found {header}", "header_size"),
    _LONG: Remark(Problem.HEADER_SIZE, "expected a header of {full} bytes, found {header}", "header_size"),
    _NO_WORDS: Remark(
        Problem.SIZE_WORDS, "expected {variable} as the number of size words, found {words}", "size words"
    ),
    _PAYLOAD: Remark(Problem.UNEXPECTED_PAYLOAD, "expected no payload, found {payload} bytes", "payload_size"),
    _FLAGS: Remark(Problem.RESERVED_FLAGS, "expected flags {allowed}, found 0x{flags:08X}", "flags"),
    _ERROR: Remark(Problem.SOURCE_ERROR, "{error}; {session}", "error_code"),
    _TIME: Remark(Problem.TIME_RANGE, "expected a time of the years 1 to 9999, found {seconds} Unix seconds", "time"),
    _NO_SCHEMA: Remark(Problem.NO_SCHEMA, "no table schema of label {label} precedes this row", "row"),
    _WORDS: Remark(Problem.SIZE_WORDS, "expected a row of {by_words} bytes by its size words, found {row}", "row"),
    _ROW_END: Remark(
        Problem.ROW_SIZE,
        "expected {needed} for column {ordinal} {column} at byte {decoded} of the row, found {rest}",
        "row",
    ),
    _LEFT_OVER: Remark(Problem.ROW_SIZE, "expected a row of {decoded} bytes, found {row}", "row"),
}
"""The problem of each status bit of a record."""
