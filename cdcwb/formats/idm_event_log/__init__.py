"""The format ``idm-event-log`` as the rest of cdcwb sees it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from cdcwb.formats.dissector import Pairing
from cdcwb.formats.idm_event_log.changes import (
    NEAR,
    key_spellings,
    read_changes,
    read_checked,
    read_checked_rows,
)
from cdcwb.formats.idm_event_log.columns import OPTIONS, Options
from cdcwb.formats.idm_event_log.decode import LogPart, log_part
from cdcwb.formats.idm_event_log.detect import recognise, recognise_rows
from cdcwb.formats.idm_event_log.events import events_of, read_events
from cdcwb.formats.idm_event_log.first_pass import make_plan, make_row_plan
from cdcwb.formats.idm_event_log.inspect import inspect_row
from cdcwb.formats.idm_event_log.layout import FORMAT
from cdcwb.formats.idm_event_log.plan import Plan, pieces_of
from cdcwb.formats.idm_event_log.table import read_table, typed_part, typed_schema
from cdcwb.formats.tabular.format import TabularFormat, parts_of_rows

__all__ = ["IdmEventLog"]


class IdmEventLog(TabularFormat):
    """Reads the event log of the Identity Manager JDBC driver from files and tables of rows
    (docs/formats/idm-event-log.md)."""

    name = FORMAT
    side_file = re.compile(r"\.snapshot/")
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
    read_checked_rows = staticmethod(read_checked_rows)
    key_spellings = staticmethod(key_spellings)
    make_row_plan = staticmethod(make_row_plan)
    read_split = staticmethod(read_events)
    read_typed = staticmethod(read_table)
    events_of = staticmethod(events_of)
    typed_part = staticmethod(typed_part)

    def parts_of(self, plan: Plan, batches: Iterator[pa.RecordBatch]) -> Iterator[LogPart]:
        """The rows of batches that have their numbers, as rows of the log."""
        entry = plan.files[0]
        for part in parts_of_rows(entry.path, batches, entry.probe.columns):
            yield log_part(entry, part, 0)

    def side_files(self, paths: Sequence[str]) -> list[str]:
        """The files in a folder ``NAME.snapshot`` next to the file or folder NAME: what tables held, for XDS."""
        return [path for path in paths if any(map(_is_snapshot, Path(path).parents))]

    def joins(self, plan: Plan) -> bool:
        """Do record ids rise, or nearly so, or is there only one split?"""
        return int(plan.facts.get("behind", NEAR + 1)) <= NEAR or len(plan.splits) == 1


def _is_snapshot(folder: Path) -> bool:
    return folder.suffix == ".snapshot" and folder.with_suffix("").exists()
