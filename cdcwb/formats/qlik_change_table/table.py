"""One table as typed columns, decoded directly from the rows, for ``Capture.table`` (docs/formats/qlik-change-table.md
§5)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.dissector import TableRequest, Wanted
from cdcwb.formats.qlik.types import common_type, decimal_type, replicate_type
from cdcwb.formats.qlik_change_table.decode import Findings, iter_parts, read_headers, read_operations
from cdcwb.formats.qlik_change_table.events import FileReader
from cdcwb.formats.qlik_change_table.layout import CHANGES, CONTROL, Part, Rows
from cdcwb.formats.qlik_change_table.plan import Plan, SplitEntry
from cdcwb.formats.qlik_change_table.probing import Column
from cdcwb.formats.requests import chosen_columns, images_of, no_table, request_schema, versions_of
from cdcwb.formats.tabular.rows import plain
from cdcwb.formats.text_values import cast, parsed

__all__ = [
    "arrow_type",
    "common_type",
    "read_table",
    "typed",
    "typed_part",
    "typed_schema",
]

# === types ============================================================================================================


@cache
def _arrow_names() -> dict[str, pa.DataType]:
    """Arrow's own types by their names, as columns of Parquet files and tables have them."""
    kinds = [
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.string()),
        *(pa.binary(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", tz="UTC")),
    ]
    wider = {"uint8": pa.int16(), "uint16": pa.int32(), "uint32": pa.int64(), "uint64": pa.decimal128(20, 0)}
    times = {f"timestamp[{unit}]": pa.timestamp("us") for unit in ("s", "ms", "ns")}
    zoned = {f"timestamp[{unit}, tz=UTC]": pa.timestamp("us", tz="UTC") for unit in ("s", "ms", "ns")}
    return {str(kind): kind for kind in kinds} | wider | times | zoned | {"large_binary": pa.binary()}


def arrow_type(column: Column) -> pa.DataType:
    """The Arrow type of a column; text if its type is unknown or exceeds Spark's types."""
    name = (column.type or "").strip()
    if name in _arrow_names():
        return _arrow_names()[name]
    known = replicate_type(name)
    if known is not None:
        return known
    if re.fullmatch(r"fixed_size_binary\[\d+\]", name):
        return pa.binary()
    decimal = name.upper() in ("NUMERIC", "DECIMAL") or re.fullmatch(r"decimal\d+\(\d+, -?\d+\)", name)
    return decimal_type(column.precision, column.scale) if decimal else pa.string()


def typed(content: pa.Array, text: pa.StringArray, kind: pa.DataType) -> pa.Array:
    """Values of a column as a type: ``content`` as in the source, ``text`` as in the model. Invalid values are null."""
    content = plain(content)
    if content.type == kind:
        return content
    if pa.types.is_string(kind):
        return text
    if not pa.types.is_string(content.type):
        found = cast(content, kind)
        if found is not None:
            return found
    return parsed(text, kind)


# === typed columns ====================================================================================================


def typed_schema(plan: Plan, request: TableRequest) -> pa.Schema:
    """The columns of :func:`read_table`: the location of the row, then ``before`` and ``after`` as structures of typed
    columns. Raises CaptureError, which lists the known ones, for an unknown table or column.
    """
    return request_schema(_column_types(plan, request), request)


def _tables(plan: Plan, request: TableRequest) -> list[int]:
    """The tables with the requested name and with columns. Raises CaptureError if there are none."""
    with_columns = {version.table for version in plan.versions}
    mine = [at for at in with_columns if request.name in (plan.tables[at].table, plan.tables[at].name.label)]
    if not mine:
        raise no_table(request, (plan.tables[at].name.label for at in with_columns))
    return sorted(mine)


def _column_types(plan: Plan, request: TableRequest) -> dict[str, pa.DataType]:
    mine = _tables(plan, request)
    used = {entry.version for entry in plan.files}
    versions = [
        one for at, one in enumerate(plan.versions) if one.table in mine and (at in used or one.origin != "DDL")
    ] or [one for one in plan.versions if one.table in mine]
    types: dict[str, pa.DataType] = {}
    for version in versions_of(versions, request):
        for column in version.columns:
            kind = arrow_type(column)
            types[column.name] = common_type(types.setdefault(column.name, kind), kind)
    return chosen_columns(types, request)


def read_table(plan: Plan, split: SplitEntry, request: TableRequest) -> Iterator[pa.RecordBatch]:
    """The rows of one table in one split, in capture order."""
    entry = plan.files[split.file]
    if entry.table not in _tables(plan, request):
        return
    for part in iter_parts(entry, split.start, split.stop):
        yield from typed_part(plan, split.file, part, request)


def typed_part(plan: Plan, file: int, part: Part, request: TableRequest) -> Iterator[pa.RecordBatch]:
    """The rows of a part as typed columns."""
    if plan.files[file].role == CONTROL:
        return
    types, schema = _column_types(plan, request), typed_schema(plan, request)
    reader = FileReader(plan, file, Wanted(kinds=CHANGES))
    batches = [_batch(reader, rows, types, schema, request) for _, rows in part.rows]
    if len(batches) > 1:
        table = pa.Table.from_batches(batches).sort_by("offset").combine_chunks()
        batches = table.to_batches()
    yield from batches


def _batch(
    reader: FileReader, rows: Rows, types: dict[str, pa.DataType], schema: pa.Schema, request: TableRequest
) -> pa.RecordBatch:
    count = len(rows.offset)
    operations = read_operations(rows, reader.entry.role)
    headers = read_headers(rows, operations, Findings())
    version = None if reader.version is None else reader.version.key
    places = [
        pa.array(np.full(count, reader.index, dtype=np.int32)),
        pa.array(rows.offset),
        operations.kind,
        operations.operation,
        headers.position,
        headers.transaction_id,
        pa.repeat(pa.scalar(version, pa.string()), count),
    ]
    at = {rows.layout.names[place]: place for place in rows.layout.data}
    columns = []
    for name, kind in types.items():
        if name not in at:
            columns.append(pa.nulls(count, kind))
            continue
        text = rows.text(at[name])
        garbled = rows.garbled(at[name])
        if len(garbled) and not pa.types.is_string(kind):  # hexadecimal digits of bytes that are not text
            text = pc.if_else(pa.array(np.isin(np.arange(count), garbled)), pa.scalar(None, pa.string()), text)
        columns.append(typed(rows.content(at[name]), text, kind))
    fields = [pa.field(name, kind) for name, kind in types.items()]
    chosen = {"before": operations.before, "after": operations.after}
    images = [_image(columns, fields, ~chosen[name]) for name in images_of(request)]
    return pa.RecordBatch.from_arrays([*places, *images], schema=schema)


def _image(columns: list[pa.Array], fields: list[pa.Field], null: np.ndarray) -> pa.StructArray:
    if not fields:
        return pa.array([None if one else {} for one in null.tolist()], pa.struct([]))
    return pa.StructArray.from_arrays(columns, fields=fields, mask=pa.array(null))
