"""The records of a split as columns of ``events``: their transactions, the table versions in force, and what the
decoder makes of them (docs/formats/gbase8s.md); and one table as typed columns, decoded directly from the bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from cdcwb.formats.arrays import table_names
from cdcwb.formats.dissector import TableRequest, Wanted
from cdcwb.formats.gbase8s.decode import (
    SCHEMA_RECORD,
    RecordHeaders,
    SchemaArrays,
    columns_of,
    counts_of,
    lay_out,
    names_of,
    positions,
    read_headers,
)
from cdcwb.formats.gbase8s.layout import RECORD_TYPES, ColumnKind, SchemaColumn
from cdcwb.formats.gbase8s.plan import KIND_OF, StreamContext, StreamState, segments_of
from cdcwb.formats.gbase8s.schema import NO_COUNTS, schema_text
from cdcwb.formats.kernels import Bools, Ints
from cdcwb.formats.records import Plan, Segments, SplitReader, Stream
from cdcwb.formats.requests import chosen_columns, images_of, no_table, request_schema, versions_of
from cdcwb.formats.transactions import TransactionSpans, assign
from cdcwb.model import Kind

_KINDS: Final = {0: Kind.CONTROL, **{number: kind.kind for number, kind in RECORD_TYPES.items()}}
_TIMED: Final = (1, 2)
_TRUNCATE: Final = 119


@dataclass(slots=True)
class StreamRecords:
    """Some records of a split. ``names``: of transactions; ``transaction``: index of each record's, -1: none;
    ``version``: the number of its table version, 0: none."""

    headers: RecordHeaders
    names: list[str]
    transaction: Ints
    version: Ints


class RecordReader(SplitReader):
    """Reads the records of a split; versions in force and open transactions are carried on."""

    def __init__(self, shared: StreamContext, state: StreamState) -> None:
        self.shared, self.settings = shared, shared.settings
        self.versions = VersionsInForce(shared, state.in_force)
        self._open = dict(state.crossing.open_before)

    def advance(self, segments: Segments, records: Ints) -> StreamRecords:
        """Some records that follow those before."""
        headers = read_headers(segments.buffer, segments.start[records], segments.end[records])
        of = headers.transactional
        found = TransactionSpans.among(KIND_OF[headers.number[of]], headers.transaction[of])
        names = assign(found, headers.sequence[of], self._open)
        transaction = np.full(len(records), -1, dtype=np.int64)
        transaction[of] = found.index
        return StreamRecords(headers, names, transaction, self.versions.of_records(headers))

    def matching(self, records: StreamRecords, wanted: Wanted) -> Bools:
        """The records that match the filters."""
        headers = records.headers
        keep = np.ones(len(headers.start), dtype=bool)
        if wanted.timed:
            keep &= np.isin(headers.number, _TIMED)
        if wanted.kinds is not None:
            keep &= np.isin(headers.number, [number for number, kind in _KINDS.items() if kind in wanted.kinds])
        if wanted.transactions is not None:
            keep &= np.array([*(name in wanted.transactions for name in records.names), False])[records.transaction]
        if wanted.tables is not None:
            labels, index = distinct(headers.label)
            names = map(self.shared.full_name, labels.tolist())
            named = [not table_names(name).isdisjoint(wanted.tables) for name in names]
            keep &= np.array(named, dtype=bool)[index]
        return keep

    def columns(self, segments: Segments, records: Ints, wanted: Wanted) -> tuple[Ints, dict[str, pa.Array]]:
        """See :meth:`cdcwb.formats.records.SplitReader.columns`."""
        found = self.advance(segments, records)
        keep = np.flatnonzero(self.matching(found, wanted))
        headers, version, transaction = found.headers.take(keep), found.version[keep], found.transaction[keep]
        labelled = headers.row | np.isin(headers.number, (_TRUNCATE, SCHEMA_RECORD))
        names = self.versions.name_arrays(headers.label, version, labelled)
        return records[keep], {
            "transaction_id": pa.array(found.names, pa.string()).take(pa.array(transaction, mask=transaction < 0)),
            **dict(zip(("schema_name", "table_name", "table_version"), names, strict=True)),
            **columns_of(
                headers, *self.schemas(headers, version), self.settings,
                images=wanted.images, header_map=wanted.needs("headers"), find_problems=wanted.needs("problems"),
            ),
        }  # fmt: skip

    def schemas(self, headers: RecordHeaders, version: Ints) -> tuple[SchemaArrays, Ints]:
        """The table schemas in force at some records, and the index of each record's schema; -1: none."""
        rows = np.flatnonzero(headers.row)
        versions, table = self.versions.tables(headers.label[rows], version[rows])
        known = [at for at, key in enumerate(versions) if key in self.versions.known]
        place_of = np.full(len(versions), -1, dtype=np.int64)
        place_of[known] = np.arange(len(known))
        out = np.full(len(headers.start), -1, dtype=np.int64)
        out[rows] = place_of[table]
        return SchemaArrays([self.versions.known[versions[at]].schema for at in known]), out


# --- table versions ---------------------------------------------------------------------------------------------------


class VersionsInForce:
    """The table versions of a capture, and the number in force for each label during reading (§5)."""

    def __init__(self, shared: StreamContext, in_force: Mapping[int, int]) -> None:
        self._shared, self._in_force = shared, dict(in_force)
        self._base = 1 + max((version.number for version in shared.versions), default=0)
        self.known = {(version.label, version.number): version for version in shared.versions}
        self._numbers = {(version.label, version.text, version.counts): version.number for version in shared.versions}

    def of_records(self, headers: RecordHeaders) -> Ints:
        """The number of the version in force at each row, TRUNCATE and TABSCHEM record; 0 for none."""
        out = np.zeros(len(headers.start), dtype=np.int64)
        charset, opened = self._shared.settings.charset, dict[int, tuple[list[int], list[int]]]()
        for record in np.flatnonzero(headers.number == SCHEMA_RECORD).tolist():
            label = int(headers.label[record])
            text, counts = schema_text(headers.payload(record), charset), counts_of(headers, record)
            out[record] = self._numbers.get((label, text, counts)) or self._numbers.get((label, text, NO_COUNTS), 0)
            places, numbers = opened.setdefault(label, ([-1], [self._in_force.get(label, 0)]))
            places.append(record)
            numbers.append(int(out[record]))
        uses = np.flatnonzero(headers.row | (headers.number == _TRUNCATE))
        labels, index = distinct(headers.label[uses])
        for at, table_label in enumerate(labels.tolist()):
            some = uses[index == at]
            places, numbers = opened.get(table_label, ([-1], [self._in_force.get(table_label, 0)]))
            out[some] = np.array(numbers)[np.searchsorted(np.array(places), some, side="right") - 1]
        self._in_force |= {label: numbers[-1] for label, (_, numbers) in opened.items()}
        return out

    def tables(self, label: Ints, version: Ints) -> tuple[list[tuple[int, int]], Ints]:
        """The distinct (label, version) of many records, and the index of each record's own."""
        keys, index = distinct(label * self._base + version)
        return [divmod(key, self._base) for key in keys.tolist()], index

    def name_arrays(self, labels: Ints, version: Ints, labelled: Bools) -> list[pa.Array]:
        """Schema name, table name and table version of many records; null if ``labelled`` is false."""
        tables, table = self.tables(labels, version)
        names = self._shared.names
        texts = [(*names(label), f"{label}@{number}" if number else None) for label, number in tables]
        index = pa.array(table, mask=~labelled)
        return [pa.array([t[at] for t in texts], pa.string()).take(index) for at in range(3)]


def distinct(values: Ints) -> tuple[Ints, Ints]:
    """The distinct values, and the index of each of ``values``."""
    encoded = pa.array(values).dictionary_encode()
    return encoded.dictionary.to_numpy(), encoded.indices.to_numpy().astype(np.int64)


# --- one table as typed columns ---------------------------------------------------------------------------------------

_IMAGES: Final = {"before": (41, 42), "after": (40, 43)}
_TYPES: Final = {
    ColumnKind.SMALLINT: pa.int16(),
    ColumnKind.INTEGER: pa.int32(),
    ColumnKind.BIGINT: pa.int64(),
    ColumnKind.INT8: pa.int64(),
    ColumnKind.DATE: pa.date32(),
    ColumnKind.FLOAT: pa.float64(),
    ColumnKind.SMALLFLOAT: pa.float32(),
    ColumnKind.BOOLEAN: pa.bool_(),
    ColumnKind.LOB: pa.binary(),
}


def typed_schema(plan: Plan, request: TableRequest) -> pa.Schema:
    """The columns of :func:`read_table`: the location of the row, then ``before`` and ``after`` as structures of typed
    columns.

    A column whose type differs between versions is text. Raises CaptureError, which lists the known ones, for an
    unknown table or column.
    """
    return request_schema(_column_types(plan, request), request)


def _column_types(plan: Plan, request: TableRequest) -> dict[str, pa.DataType]:
    versions = [(table_names(plan.shared.full_name(one.label)), one.schema) for one in plan.shared.versions]
    schemas = [schema for names, schema in versions if request.name in names]
    if not schemas:
        raise no_table(request, (name for names, _ in versions for name in names if name), " with a schema")
    types: dict[str, pa.DataType] = {}
    for schema in versions_of(schemas, request):
        for column in schema.columns[: schema.decodable]:
            kind = arrow_type(column)
            before = types.setdefault(column.name, kind)
            types[column.name] = before if before == kind else _common_type(before, kind)
    return chosen_columns(types, request)


def _common_type(first: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The wider of two whole-number types; text if no type has both without loss."""
    if pa.types.is_integer(first) and pa.types.is_integer(other):
        return first if first.bit_width > other.bit_width else other
    return pa.string()


def arrow_type(column: SchemaColumn) -> pa.DataType:
    """The type of a column in ``Capture.table``.

    Partial DATETIMEs, INTERVALs and floating DECIMALs have no type in Spark that loses nothing, so they stay text.
    """
    if column.kind == ColumnKind.DECIMAL and column.scale is not None and column.precision is not None:
        return pa.decimal128(column.precision, column.scale)
    if column.kind == ColumnKind.DATETIME and column.start == 0 and (column.end or 0) >= 4:
        return pa.date32() if column.end == 4 else pa.timestamp("us")
    return _TYPES.get(column.kind, pa.string())


def read_table(plan: Plan, split: int, request: TableRequest) -> Iterator[pa.RecordBatch]:
    """The row records of one table in one split, in capture order."""
    types = _column_types(plan, request)
    schema = request_schema(types, request)
    wanted = Wanted(tables=frozenset([request.name]), kinds=frozenset(["change", "before", "after"]))
    with Stream(plan.files) as stream:
        here = plan.splits[split]
        reader = RecordReader(plan.shared, here.state)
        for segments in segments_of(stream, plan.framing, here.start, here.stop):
            records = np.flatnonzero(segments.record)
            found = reader.advance(segments, records)
            keep = np.flatnonzero(reader.matching(found, wanted) & found.headers.row)
            if len(keep):
                file_index, offset, _ = stream.places(segments, records[keep])
                transaction = pa.array(found.names, pa.string()).take(pa.array(found.transaction[keep]))
                columns = _columns(reader, found.headers.take(keep), found.version[keep], transaction, types, request)
                places = [pa.array(file_index.astype(np.int32)), pa.array(offset)]
                yield pa.RecordBatch.from_arrays([*places, *columns], schema=schema)


def _columns(
    reader: RecordReader, headers: RecordHeaders, version: Ints, transaction: pa.Array, types: dict[str, pa.DataType],
    request: TableRequest,
) -> list[pa.Array]:  # fmt: skip
    rows = lay_out(headers, *reader.schemas(headers, version), reader.settings)
    count = len(version)
    row_of = np.repeat(np.arange(count), np.diff(rows.value_ends))
    columns: list[pa.Array] = []
    for name, kind in types.items():
        named = np.array([column.name == name for column in rows.tables.columns], dtype=bool)
        chosen = np.flatnonzero(named[rows.column])
        values = rows.chosen(chosen).decode(reader.settings)
        typed = values.text if pa.types.is_string(kind) else values.as_type(kind)  # only text can have invalid ones
        if len(typed) < count:
            index = np.full(count, -1, dtype=np.int64)
            index[row_of[chosen]] = np.arange(len(chosen))
            typed = typed.take(pa.array(index, mask=index < 0))
        columns.append(typed)
    fields = [pa.field(name, kind) for name, kind in types.items()]
    lacking = (pa.array(~np.isin(headers.number, _IMAGES[image])) for image in images_of(request))
    images = [pa.StructArray.from_arrays(columns, fields=fields, mask=null) for null in lacking]
    *_, version_name = reader.versions.name_arrays(headers.label, version, np.ones(count, dtype=bool))
    return [*names_of(headers), positions(headers), transaction, version_name, *images]
