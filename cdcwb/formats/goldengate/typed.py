"""Typed tables of GoldenGate rows: the texts of images as values of the types of their columns
(docs/formats/goldengate.md §4.6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.bitmask import parse
from cdcwb.formats.dissector import TableRequest, Wanted
from cdcwb.formats.goldengate.definitions import ColumnDef
from cdcwb.formats.goldengate.layout import How
from cdcwb.formats.goldengate.versions import Version
from cdcwb.formats.requests import FROM_EVENTS, chosen_columns, images_of, no_table, request_schema, versions_of
from cdcwb.formats.text_values import cast_each
from cdcwb.model import Kind, Operation

__all__ = ["arrow_type", "column_types", "typed_rows", "typed_texts", "wanted_for"]

_DATE, _CLOCK = 10, 19  # characters of a date, and of one with its time
_MICROS: Final = 26  # characters up to the sixth digit of the fraction
_DT_YEAR, _DT_DAY, _DT_HOUR = 0, 2, 3


def arrow_type(column: ColumnDef | None) -> pa.DataType:
    """The type of a column in typed tables.

    Numbers in text form stay text, as their precision is unknown; so do times of day, intervals, times with a zone, and
    columns without a definition.
    """
    if column is None:
        return pa.string()
    how = column.coding
    if how.how is How.INTEGER:
        if how.scale > 0:
            return pa.decimal128(max({2: 5, 4: 10}.get(how.size, 20), how.scale), how.scale)
        if how.scale < 0 or (how.size == 8 and not how.signed):
            return pa.decimal128(38, 0)
        return pa.int32() if how.size < 4 or (how.size == 4 and how.signed) else pa.int64()
    if how.how is How.FLOAT:
        return pa.float32() if how.size == 4 else pa.float64()
    if how.how is How.MOMENT and column.data_type in (191, 192) and column.most_significant_dt == _DT_YEAR:
        if column.external_length == _DATE or (0 < column.least_significant_dt <= _DT_DAY):
            return pa.date32()
        if column.least_significant_dt >= _DT_HOUR and column.external_length <= _CLOCK + 10:
            return pa.timestamp("us")
        return pa.string()
    if how.how is How.BINARY or (how.how is How.LOB and not column.is_text_lob):
        return pa.binary()
    return pa.string()


_ROWS: Final = frozenset(str(kind) for kind in (Kind.CHANGE, Kind.BEFORE, Kind.AFTER))

_OF_ROWS: Final = [str(one) for one in (Operation.INSERT, Operation.UPDATE, Operation.DELETE)]


def types_of(version: Version) -> dict[str, pa.DataType]:
    """The types of a version's columns; text if unknown."""
    definition = version.definition
    if definition is not None:
        pairs = zip(definition.names, definition.columns, strict=True)
        return {name: arrow_type(column) for name, column in pairs}
    return {name: pa.string() for name in version.names}


def column_types(known: Sequence[Version], request: TableRequest) -> dict[str, pa.DataType]:
    """The requested columns. One whose type differs between versions is text. Raises CaptureError, which lists the
    known ones, for an unknown table or column."""
    versions = [one for one in known if request.name in (one.table, one.full_name)]
    if not versions:
        raise no_table(request, (one.full_name for one in known))
    types: dict[str, pa.DataType] = {}
    for version in versions_of(versions, request):
        for name, kind in types_of(version).items():
            types[name] = kind if types.get(name, kind) == kind else pa.string()
    return chosen_columns(types, request)


def wanted_for(request: TableRequest) -> Wanted:
    """The events of a table's rows."""
    return Wanted(kinds=_ROWS, tables=frozenset({request.name}))


def typed_rows(
    events: Iterable[pa.RecordBatch], request: TableRequest, types: Mapping[str, pa.DataType]
) -> Iterator[pa.RecordBatch]:
    """The rows of one table from its events; null if a text is not a value of its column's type, and if a column is not
    in the image."""
    schema = request_schema(types, request)
    for every in events:
        batch = every.filter(pc.is_in(every.column("operation"), value_set=pa.array(_OF_ROWS)))
        arrays = [batch.column(name) for name in FROM_EVENTS]
        arrays += [_struct(batch.column(name), types) for name in images_of(request)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _struct(maps: pa.MapArray, types: Mapping[str, pa.DataType]) -> pa.StructArray:
    offsets = maps.offsets.to_numpy()
    row = np.repeat(np.arange(len(maps)), np.diff(offsets))
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    keys, items = maps.keys.slice(first, count).dictionary_encode(), maps.items.slice(first, count)
    codes = keys.indices.to_numpy(zero_copy_only=False)
    known = {name: code for code, name in enumerate(keys.dictionary.to_pylist())}
    columns = []
    for name, kind in types.items():
        there = np.flatnonzero(codes == known.get(name, -1))
        places = np.full(len(maps), -1, dtype=np.int64)
        places[row[there]] = there
        columns.append(typed_texts(items.take(pa.array(places, mask=places < 0)), kind))
    fields = [pa.field(name, kind) for name, kind in types.items()]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=pc.is_null(maps))


def typed_texts(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Texts of values as values of a type; null if invalid. Dates in Logdump's form, with a colon between day and hour,
    are truncated to the digits of the type."""
    if pa.types.is_string(kind):
        return texts
    if pa.types.is_binary(kind):
        return parse(texts)[0]
    if pa.types.is_temporal(kind):
        day = pc.utf8_slice_codeunits(texts, 0, _DATE)
        clock = pc.utf8_slice_codeunits(texts, _DATE + 1, _DATE if pa.types.is_date(kind) else _MICROS)
        texts = pc.if_else(pc.equal(clock, ""), day, pc.binary_join_element_wise(day, clock, " "))
    return cast_each(texts, kind)
