"""One table as typed columns: what ``Capture.table`` gives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.base import TableRequest, Wanted
from cdcwb.formats.goldengate.exports import ColumnFacts
from cdcwb.formats.goldengate.plan import Plan
from cdcwb.formats.goldengate.typed_values import arrow_type, as_type
from cdcwb.formats.goldengate.values import Kind as ValueKind
from cdcwb.formats.goldengate.values import Texts
from cdcwb.formats.goldengate.versions import Version
from cdcwb.formats.requests import FROM_EVENTS, chosen_columns, images_of, no_table, request_schema, versions_of
from cdcwb.model import Kind, Operation

__all__ = ["column_types", "typed_rows", "typed_schema", "wanted_for"]

_ROWS: Final = frozenset(str(kind) for kind in (Kind.CHANGE, Kind.BEFORE, Kind.AFTER))

_OF_ROWS: Final = [str(one) for one in (Operation.INSERT, Operation.UPDATE, Operation.DELETE)]


def types_of(version: Version) -> dict[str, pa.DataType]:
    """The types of a version's columns; text where nothing tells."""
    definition = version.definition
    if definition is not None:
        pairs = zip(definition.names, definition.columns, strict=True)
        return {name: arrow_type(column) for name, column in pairs}
    if version.types is not None:
        return {name: ColumnFacts.from_list(facts).arrow_type for name, facts in version.types.items()}
    return {name: pa.string() for name in version.names}


def column_types(plan: Plan, request: TableRequest) -> dict[str, pa.DataType]:
    """The columns that are asked for. One whose type differs between versions is text. Raises CaptureError naming what
    there is for a table or column that is not there."""
    versions = [one for one in plan.versions if request.name in (one.table, one.full_name)]
    if not versions:
        raise no_table(request, (one.full_name for one in plan.versions))
    types: dict[str, pa.DataType] = {}
    for version in versions_of(versions, request):
        for name, kind in types_of(version).items():
            types[name] = kind if types.get(name, kind) == kind else pa.string()
    return chosen_columns(types, request)


def typed_schema(plan: Plan, request: TableRequest) -> pa.Schema:
    """Columns of :func:`typed_rows`: where the row stands, then ``before`` and ``after`` as structures of typed
    columns."""
    return request_schema(column_types(plan, request), request)


def wanted_for(request: TableRequest) -> Wanted:
    """The events that a table's rows are made of."""
    return Wanted(kinds=_ROWS, tables=frozenset({request.name}))


def typed_rows(
    events: Iterable[pa.RecordBatch], request: TableRequest, types: Mapping[str, pa.DataType]
) -> Iterator[pa.RecordBatch]:
    """The rows of one table from its events; null where a text is no value of its column's type, and where a column is
    not in the image."""
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
    """Texts of values as values of a type."""
    how = ValueKind.BINARY if pa.types.is_binary(kind) else ValueKind.TEXT
    return as_type(Texts(texts, np.full(len(texts), how, dtype=np.int8), []), kind)
