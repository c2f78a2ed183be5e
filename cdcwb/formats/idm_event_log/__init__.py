"""The format ``idm-event-log`` as the rest of cdcwb sees it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdcwb import model
from cdcwb.errors import CaptureError
from cdcwb.formats.base import BaseFormat, Pairing, RunRows, TableRequest, Wanted
from cdcwb.formats.idm_event_log.changes import NEAR, read_changes, read_checked, read_spellings
from cdcwb.formats.idm_event_log.columns import OPTIONS, Options
from cdcwb.formats.idm_event_log.decode import LogPart, log_part
from cdcwb.formats.idm_event_log.detect import recognise, recognise_rows
from cdcwb.formats.idm_event_log.events import events_of, read_events
from cdcwb.formats.idm_event_log.first_pass import make_plan, make_row_plan
from cdcwb.formats.idm_event_log.inspect import inspect_row
from cdcwb.formats.idm_event_log.layout import FORMAT
from cdcwb.formats.idm_event_log.plan import ROW, Plan, pieces_of
from cdcwb.formats.idm_event_log.table import read_table, typed_part, typed_schema
from cdcwb.formats.tabular import Names, rows_of_batch

__all__ = ["IdmEventLog"]

_BATCH: Final = 8192


class IdmEventLog(BaseFormat):
    """Reads the event log of the Identity Manager JDBC driver from files and tables of rows
    (docs/formats/idm-event-log.md)."""

    name = FORMAT
    options: Mapping[str, str] = OPTIONS
    pairing = Pairing.OBJECT
    plan_type, options_type = Plan, Options

    recognise = staticmethod(recognise)
    recognise_rows = staticmethod(recognise_rows)
    pieces = staticmethod(pieces_of)
    make_plan = staticmethod(make_plan)
    inspect_record = staticmethod(inspect_row)
    table_schema = staticmethod(typed_schema)
    read_changes = staticmethod(read_changes)
    read_checked = staticmethod(read_checked)
    read_spellings = staticmethod(read_spellings)

    def side_files(self, paths: Sequence[str]) -> list[str]:
        """The files in a folder ``NAME.snapshot`` beside the file or folder NAME: what tables held, for XDS."""
        return [path for path in paths if any(map(_is_snapshot, Path(path).parents))]

    def files(self, plan: Plan) -> list[dict[str, Any]]:
        """The files of a capture: file, file_index, size (bytes, decompressed), shape (csv, sql, json, parquet, excel
        or rows), compression, problem; ``rows`` (damaged records too) besides."""
        return [
            {
                "file": entry.probe.path,
                "file_index": index,
                "size": entry.size,
                "shape": entry.probe.kind,
                "compression": entry.probe.compression,
                "problem": entry.problem,
                "rows": entry.rows,
            }
            for index, entry in enumerate(plan.files)
        ]

    def read(self, plan: Plan, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """See :func:`cdcwb.formats.idm_event_log.events.read_events`."""
        return read_events(plan, plan.splits[split], wanted)

    def joins(self, plan: Plan) -> bool:
        """Do record ids rise, or nearly so?"""
        return int(plan.facts.get("behind", NEAR + 1)) <= NEAR

    def read_table(self, plan: Plan, split: int, request: TableRequest) -> Iterator[pa.RecordBatch]:
        """See :func:`cdcwb.formats.idm_event_log.table.read_table`."""
        return read_table(plan, plan.splits[split], request)

    def table_versions(self, plan: Plan) -> pa.Table:
        """One version of each table, with the columns that keys and rows name; ``first_position`` is left null."""
        return pa.Table.from_pylist(_versions(plan), schema=model.TABLE_VERSIONS)

    def problems(self, plan: Plan) -> list[dict[str, Any]]:
        """Files that are cut off or cannot be read, and columns that are missing without which the Publisher would not
        start."""
        return plan.problems

    # --- tables of rows -----------------------------------------------------------------------------------------------

    def plan_rows(self, name: str, schema: pa.Schema, run: RunRows, options: Mapping[str, Any]) -> Plan:
        """See :func:`cdcwb.formats.idm_event_log.first_pass.make_row_plan`."""
        return make_row_plan(name, schema, Options.parse(options), run)

    def read_rows(self, plan: Plan, batches: Iterator[pa.RecordBatch], wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The events of the given rows."""
        for part in _parts(plan, batches):
            yield from events_of(plan, 0, part, wanted)

    def read_table_rows(
        self, plan: Plan, batches: Iterator[pa.RecordBatch], request: TableRequest
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one table among the given ones, as columns."""
        typed_schema(plan, request)
        for part in _parts(plan, batches):
            yield from typed_part(plan, 0, part, request)


def _is_snapshot(folder: Path) -> bool:
    return folder.suffix == ".snapshot" and folder.with_suffix("").exists()


def _parts(plan: Plan, batches: Iterator[pa.RecordBatch]) -> Iterator[LogPart]:
    """The rows of batches that bear their numbers; raises CaptureError where a column of the plan is missing."""
    entry = plan.files[0]
    names = entry.probe.columns
    for batch in batches:
        place = batch.schema.get_field_index(ROW)
        if place < 0 or batch.num_columns != len(names) + 1:
            raise CaptureError(f"expected the columns {', '.join(names)} and {ROW}", path=entry.probe.path)
        rows = batch.remove_column(place)
        numbers = batch.column(place).to_numpy(zero_copy_only=False).astype(np.int64)
        for first in range(0, len(rows), _BATCH):
            some, where = rows.slice(first, _BATCH), numbers[first : first + _BATCH]
            yield log_part(entry, rows_of_batch(some, where, Names(names)), 0)


def _versions(plan: Plan) -> list[dict[str, Any]]:
    rows = []
    for table in plan.tables:
        keys = {name: place for place, name in enumerate(table.keys, 1)}
        columns = [
            {"ordinal": place, "name": name, "key_position": keys.get(name)}
            for place, name in enumerate(table.names, 1)
        ]
        rows.append(
            {
                "table_version": table.version,
                "schema_name": table.schema,
                "table_name": table.table,
                "columns": columns,
                "origin": "inferred",
            }
        )
    return rows
