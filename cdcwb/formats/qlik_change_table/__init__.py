"""The format ``qlik-change-table`` as the rest of cdcwb sees it (docs/formats/qlik-change-table.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdcwb import model
from cdcwb.errors import CaptureError
from cdcwb.formats.base import (
    BaseFormat,
    Halved,
    Pairing,
    RunRows,
    TableRequest,
    Wanted,
)
from cdcwb.formats.qlik_change_table.decode import rows_of_batch
from cdcwb.formats.qlik_change_table.events import FileReader, inspect_row, pieces_of, read_events, read_together
from cdcwb.formats.qlik_change_table.layout import CONTROL, FORMAT, OPTIONS, ROW, Options, Part, side_file
from cdcwb.formats.qlik_change_table.plan import Plan
from cdcwb.formats.qlik_change_table.planning import make_plan, make_row_plan
from cdcwb.formats.qlik_change_table.probing import is_side_file, recognise, recognise_rows
from cdcwb.formats.qlik_change_table.table import read_table, typed_part, typed_schema
from cdcwb.formats.qlik_change_table.versions import version_rows

__all__ = [
    "QlikChangeTable",
]

_BATCH: Final = 8192


class QlikChangeTable(BaseFormat):
    """Reads Qlik change tables from files and tables of rows (docs/formats/qlik-change-table.md)."""

    name = FORMAT
    options: Mapping[str, str] = OPTIONS
    pairing = Pairing.POSITION
    plan_type, options_type = Plan, Options

    recognise = staticmethod(recognise)
    recognise_rows = staticmethod(recognise_rows)
    pieces = staticmethod(pieces_of)
    make_plan = staticmethod(make_plan)
    inspect_record = staticmethod(inspect_row)
    table_schema = staticmethod(typed_schema)
    read_together = staticmethod(read_together)

    def side_files(self, paths: Sequence[str]) -> list[str]:
        """The ``.dfm`` among the files and beside them."""
        among = [path for path in paths if is_side_file(path)]
        beside = [found for path in paths if (found := side_file(path)) is not None]
        return list(dict.fromkeys(among + beside))

    def files(self, plan: Plan) -> list[dict[str, Any]]:
        """The data files of a capture: file, file_index, size (bytes, decompressed), shape (csv, json, parquet or
        rows), compression, problem; ``rows`` and ``role`` (changes, load or control) besides."""
        return [
            {
                "file": entry.path,
                "file_index": index,
                "size": entry.size,
                "shape": plan.shapes[entry.shape].kind,
                "compression": entry.compression,
                "problem": entry.problem,
                "rows": entry.rows,
                "role": entry.role,
            }
            for index, entry in enumerate(plan.files)
        ]

    def read(self, plan: Plan, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """See :func:`cdcwb.formats.qlik_change_table.events.read_events`."""
        return read_events(plan, plan.splits[split], wanted)

    def halved(self, plan: Plan, split: int) -> Halved:
        """Where the halves of a split are (§6)."""
        entry = plan.splits[split]
        return Halved(entry.befores, plan.borders[1].get(plan.place_of(entry), ()))

    def read_table(self, plan: Plan, split: int, request: TableRequest) -> Iterator[pa.RecordBatch]:
        """See :func:`cdcwb.formats.qlik_change_table.table.read_table`."""
        return read_table(plan, plan.splits[split], request)

    def table_versions(self, plan: Plan) -> pa.Table:
        """The versions that files came with and those of DDL history; ``first_position`` is left null."""
        return pa.Table.from_pylist(version_rows(plan), schema=model.TABLE_VERSIONS)

    def problems(self, plan: Plan) -> list[dict[str, Any]]:
        """Files that are cut off or have another number of rows than their side file says; side files and DDL details
        that are not understood, or that name other columns."""
        return plan.problems

    # --- tables of rows -----------------------------------------------------------------------------------------------

    def plan_rows(self, name: str, schema: pa.Schema, run: RunRows, options: Mapping[str, Any]) -> Plan:
        """See :func:`cdcwb.formats.qlik_change_table.planning.make_row_plan`."""
        return make_row_plan(name, schema, Options.parse(options), run)

    def read_rows(self, plan: Plan, batches: Iterator[pa.RecordBatch], wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The events of the given rows."""
        reader = FileReader(plan, 0, wanted)
        if reader.is_empty:
            return
        for part in _parts(plan, batches):
            yield from reader.batches(part)

    def read_table_rows(
        self, plan: Plan, batches: Iterator[pa.RecordBatch], request: TableRequest
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one table among the given ones, as typed columns."""
        typed_schema(plan, request)
        if plan.files[0].role == CONTROL:
            return
        for part in _parts(plan, batches):
            yield from typed_part(plan, 0, part, request)


def _parts(plan: Plan, batches: Iterator[pa.RecordBatch]) -> Iterator[Part]:
    """The rows of batches that bear their numbers; raises CaptureError where a column of the plan is missing."""
    layout = plan.shapes[plan.files[0].shape].layout
    for batch in batches:
        place = batch.schema.get_field_index(ROW)
        if place < 0 or batch.num_columns != len(layout.names) + 1:
            raise CaptureError(f"expected the columns {', '.join(layout.names)} and {ROW}", path=plan.files[0].path)
        rows = batch.remove_column(place)
        numbers = batch.column(place).to_numpy(zero_copy_only=False).astype(np.int64)
        for first in range(0, len(rows), _BATCH):
            some = rows.slice(first, _BATCH)
            yield rows_of_batch(some, numbers[first : first + len(some)], layout)
