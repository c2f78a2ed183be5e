"""One table as columns: what ``Capture.table`` gives. The log has no types, so all columns are text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.dissector import TableRequest, Wanted
from cdcwb.formats.idm_event_log.decode import LogPart
from cdcwb.formats.idm_event_log.events import events_of_parts, parts_of_split
from cdcwb.formats.idm_event_log.plan import FileRange, Plan, TableEntry
from cdcwb.formats.requests import FROM_EVENTS, chosen_columns, images_of, no_table, request_schema, versions_of
from cdcwb.model import Kind

__all__ = ["read_table", "typed_part", "typed_schema"]


def typed_schema(plan: Plan, request: TableRequest) -> pa.Schema:
    """Columns of :func:`read_table`: where the row is, then ``before`` and ``after`` as structures of text columns.

    Raises CaptureError naming what there is for a table or column that is not there.
    """
    return request_schema(_column_types(plan, request), request)


def _tables(plan: Plan, request: TableRequest) -> list[TableEntry]:
    mine = [one for one in plan.versions if request.name in (one.table, one.label)]
    if not mine:
        raise no_table(request, (one.label for one in plan.versions))
    return mine


def _column_types(plan: Plan, request: TableRequest) -> dict[str, pa.DataType]:
    types = {name: pa.string() for one in versions_of(_tables(plan, request), request) for name in one.names}
    return chosen_columns(types, request)


def read_table(plan: Plan, split: Sequence[FileRange], request: TableRequest) -> Iterator[pa.RecordBatch]:
    """The rows of one table in one split, in capture order."""
    for parts in parts_of_split(plan, split):
        yield from _typed(plan, parts, request)


def typed_part(plan: Plan, file: int, part: LogPart, request: TableRequest) -> Iterator[pa.RecordBatch]:
    """The rows of a part as columns. A column that a row does not name is null in its structures."""
    return _typed(plan, [(file, part)], request)


def _typed(plan: Plan, parts: Sequence[tuple[int, LogPart]], request: TableRequest) -> Iterator[pa.RecordBatch]:
    labels = frozenset(one.label for one in _tables(plan, request))
    types, schema = _column_types(plan, request), typed_schema(plan, request)
    for events in events_of_parts(plan, parts, Wanted(kinds=frozenset({str(Kind.CHANGE)}), tables=labels)):
        places = [events.column(name) for name in FROM_EVENTS]
        images = [_image(events.column(name), list(types)) for name in images_of(request)]
        yield pa.RecordBatch.from_arrays([*places, *images], schema=schema)


def _image(maps: pa.MapArray, names: list[str]) -> pa.StructArray:
    """Maps as structures of these columns."""
    count = len(maps)
    null = pc.is_null(maps)
    if not names:
        return pa.array([None if one else {} for one in null.to_pylist()], pa.struct([]))
    edges = maps.offsets.to_numpy(zero_copy_only=False)
    row = np.repeat(np.arange(count), np.diff(edges))
    some = slice(int(edges[0]), int(edges[-1]))
    keys, items = maps.keys[some], maps.items[some]
    columns = []
    for name in names:
        found = np.flatnonzero(pc.equal(keys, name).to_numpy(zero_copy_only=False))
        places = np.full(count, -1, dtype=np.int64)
        places[row[found]] = found
        columns.append(items.take(pa.array(places, mask=places < 0)))
    fields = [pa.field(name, pa.string()) for name in names]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=null)
