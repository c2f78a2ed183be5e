"""One row of a capture, found by its place, without reading all of the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from cdcwb.errors import CaptureError
from cdcwb.formats import messages
from cdcwb.formats.base import EVERYTHING, Field, Inspection
from cdcwb.formats.files import list_files, open_source
from cdcwb.formats.qlik_change_table.anatomy import cut, cut_json
from cdcwb.formats.qlik_change_table.dialect import DEFAULT
from cdcwb.formats.qlik_change_table.dissect import dissect, dissect_values
from cdcwb.formats.qlik_change_table.event import Context
from cdcwb.formats.qlik_change_table.framing import Bytewise, count_quotes, find_start
from cdcwb.formats.qlik_change_table.names import TableName
from cdcwb.formats.qlik_change_table.options import Options
from cdcwb.formats.qlik_change_table.plan import FileEntry, Plan, Shape
from cdcwb.formats.qlik_change_table.planning import plan_beginnings
from cdcwb.formats.qlik_change_table.probing import is_side_file, probe
from cdcwb.formats.qlik_change_table.reader import FileReader
from cdcwb.formats.qlik_change_table.reading import Part, container_of, csv_parts, iter_parts
from cdcwb.formats.qlik_change_table.rows import Rows

__all__ = ["context_of", "inspect_row"]

_NEAR: Final = 64 << 20  # bytes before a row that are framed rather than skipped by counting quotes
_BESIDE: Final = 8  # files of the folder that are asked how masks are to be read


def inspect_row(path: str, offset: int, options: Options) -> Inspection:
    """The row (or header line, or other bytes) that holds ``offset`` of the decompressed file; in a Parquet file the
    row of that number.

    How masks are read is told by the file's beginning and by those of the files beside it. Raises CaptureError where
    the file ends before ``offset``.
    """
    if is_side_file(path):
        raise CaptureError("a side file describes another file; inspect that one", path=path)
    plan = plan_beginnings([path, *_beside(path)], options)
    entry = plan.files[0]
    shape = plan.shapes[entry.shape]
    count = (entry.rows or 0) if shape.kind == "parquet" else entry.size
    if not 0 <= offset < count:
        unit = "rows" if shape.kind == "parquet" else "bytes"
        raise CaptureError(f"the file has {count} {unit}", path=path, offset=offset)
    for part in _parts_at(entry, shape, options.charset, offset):
        behind = part.offset + part.length
        if not len(behind) or int(behind[-1]) <= offset:
            continue
        return _inspection(plan, part, int(np.searchsorted(behind, offset, side="right")))
    raise CaptureError("the file is shorter than it was", path=path, offset=offset)


def _beside(path: str) -> list[str]:
    """Other data files of the folder, for what they say of masks."""
    names = list_files(str(Path(path).parent))
    return [name for name in names if not is_side_file(name) and not Path(name).samefile(path)][:_BESIDE]


def _parts_at(entry: FileEntry, shape: Shape, charset: str, offset: int) -> Any:
    """Parts of a file up to the one that holds a place."""
    if shape.kind == "json":
        return [_document(entry, shape, offset)]
    if shape.kind == "parquet":
        return iter_parts(entry, shape, charset, 0, _groups(entry.path))
    if shape.kind == "csv":
        return _csv_at(entry, shape, charset, offset)
    return iter_parts(entry, shape, charset, 0, entry.size)


def _groups(path: str) -> int:
    return len(probe((path, Options())).groups)


def _csv_at(entry: FileEntry, shape: Shape, charset: str, offset: int) -> Any:
    source = open_source(entry.path, "binary")
    try:
        start = _start_before(source, entry, shape, offset) if offset > 2 * _NEAR else 0
        yield from csv_parts(source, entry, shape, charset, start, offset + 1)
    finally:
        source.close()


def _start_before(source: Bytewise, entry: FileEntry, shape: Shape, offset: int) -> int:
    """Where a record begins some way before a place, as the quotes before it tell."""
    dialect = shape.dialect or DEFAULT
    near = offset - _NEAR
    inside = count_quotes(source, entry.first, near - len(dialect.record), dialect) & 1
    return find_start(source, near, dialect, bool(inside))


def _document(entry: FileEntry, shape: Shape, offset: int) -> Part:
    found = messages.locate(container_of(entry, shape), offset)
    start = int(found.offset[0])
    for part in iter_parts(entry, shape, "utf-8", start if shape.settings["kind"] == "lines" else 0, offset + 1):
        at = np.flatnonzero(part.offset == start)
        if len(at):
            return part
    raise CaptureError("the file is shorter than it was", path=entry.path, offset=offset)


# --- one segment ------------------------------------------------------------------------------------------------------


def context_of(plan: Plan, file: int, rows: Rows) -> Context:
    """What has to be known of the rows of a file."""
    entry = plan.files[file]
    table = plan.tables[entry.table]
    columns = () if entry.version < 0 else tuple(one.name for one in plan.versions[entry.version].columns)
    masks = table.masks if "change_mask" in rows.layout.known else None
    control = (table.control or table.table) if table.control else None
    return Context(rows.layout, entry.role, plan.charset, control, columns, masks, tuple(plan.key_of(entry)))


def _inspection(plan: Plan, part: Part, index: int) -> Inspection:
    entry = plan.files[0]
    offset, length = int(part.offset[index]), int(part.length[index])
    gap = next((one for one in part.gaps if one.index == index), None)
    reader = FileReader(plan, 0, EVERYTHING)
    if gap is not None:
        raw = gap.raw or b""
        event = {name: value for name, value in reader.gap(part, gap).items() if value is not None}
        problem = event["problems"][0]["code"] if "problems" in event else None
        field = Field(str(gap.kind), 0, len(raw), raw, None, gap.reason, (), problem)
        return Inspection(entry.path, offset, length, raw, field, event, gap.reason)
    indices, rows = next((indices, rows) for indices, rows in part.rows if index in indices)
    one = rows.take(np.flatnonzero(indices == index))
    _, batch = reader.rows(one, part.unit)
    event = {name: value for name, value in batch.to_pylist()[0].items() if value is not None}
    context = context_of(plan, 0, one)
    raw_rows = one.raw()
    record = b"" if raw_rows is None else raw_rows[0].as_py()
    return Inspection(
        entry.path, offset, length, record, _tree(plan, one, record, context), event, _note(plan, context)
    )


def _tree(plan: Plan, rows: Rows, record: bytes, context: Context) -> Field:
    shape = plan.shapes[plan.files[0].shape]
    if shape.kind == "parquet":
        names = range(len(rows.layout.names))
        return dissect_values([rows.text(place)[0].as_py() for place in names], context)
    cells = (
        cut_json(record)
        if shape.kind == "json"
        else cut(record, shape.dialect or DEFAULT, rows.layout.names, plan.charset)
    )
    if isinstance(cells, str):
        return Field("row", 0, len(record), record, None, cells)
    return dissect(record, cells, context)


def _note(plan: Plan, context: Context) -> str:
    entry = plan.files[0]
    table: TableName = plan.tables[entry.table].name
    if context.control is not None:
        return f"a row of the control table {context.control}"
    version = plan.versions[entry.version] if entry.version >= 0 else None
    parts = [f"table {table.label}"] if version is None else [f"table version {version.key} ({version.origin})"]
    if context.masks is not None:
        parts.append(f"masks are {context.masks.order}-endian, data columns from bit {context.masks.offset} on")
    return "; ".join(parts)
