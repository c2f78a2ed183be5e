"""One row of a capture, found by its place, without reading all of the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from cdcwb.errors import CaptureError
from cdcwb.formats.base import EVERYTHING, Field, Inspection
from cdcwb.formats.files import list_files
from cdcwb.formats.qlik_change_table.dissect import dissect, dissect_values
from cdcwb.formats.qlik_change_table.event import Context
from cdcwb.formats.qlik_change_table.layout import Part, Rows
from cdcwb.formats.qlik_change_table.names import TableName
from cdcwb.formats.qlik_change_table.options import Options
from cdcwb.formats.qlik_change_table.plan import Plan
from cdcwb.formats.qlik_change_table.planning import plan_beginnings
from cdcwb.formats.qlik_change_table.probing import is_side_file
from cdcwb.formats.qlik_change_table.reader import FileReader
from cdcwb.formats.qlik_change_table.reading import find_part
from cdcwb.formats.tabular import DEFAULT, cut_fields, cut_json

__all__ = ["context_of", "inspect_row"]

_BESIDE: Final = 8  # files of the folder that are asked how masks are to be read


def inspect_row(path: str, offset: int, options: Options) -> Inspection:
    """The row (or header line, or other bytes) that holds ``offset`` of the decompressed file; in a Parquet file the
    row of that number.

    How masks are read is told by the file's beginning and by those of the files beside it. Raises CaptureError where
    the file ends before ``offset``.
    """
    if is_side_file(path):
        raise CaptureError("this is a side file that describes another file; inspect that one", path=path)
    plan = plan_beginnings([path, *_beside(path)], options)
    entry = plan.files[0]
    shape = plan.shapes[entry.shape]
    count = (entry.rows or 0) if shape.kind == "parquet" else entry.size
    if not 0 <= offset < count:
        unit = "rows" if shape.kind == "parquet" else "bytes"
        raise CaptureError(f"the file has {count} {unit}", path=path, offset=offset)
    part, index = find_part(entry, shape, options.charset, offset)
    return _inspection(plan, part, index)


def _beside(path: str) -> list[str]:
    """Other data files of the folder, for what they say of masks."""
    names = list_files(str(Path(path).parent))
    return [name for name in names if not is_side_file(name) and not Path(name).samefile(path)][:_BESIDE]


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
        else cut_fields(record, shape.dialect or DEFAULT, rows.layout.names, plan.charset)
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
