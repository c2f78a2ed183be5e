"""The format ``idm-event-log``: the event log table of the Identity Manager JDBC driver
(docs/formats/idm-event-log.md)."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

import pyarrow as pa

from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats import options as opt
from cdcwb.formats.containers.rows import FileProbe, Rows, RowSegments, TableName, text_rows
from cdcwb.formats.containers.table_probe import GIVEN
from cdcwb.formats.dissector import (
    ROW,
    Field,
    Named,
    Pairing,
    Read,
    Recognition,
    RunRows,
    TableRequest,
    Wanted,
    problem_row,
)
from cdcwb.formats.idm_event_log import changes, detect
from cdcwb.formats.idm_event_log.detect import Assignment, LogOptions, LogProbe
from cdcwb.formats.idm_event_log.events import LogFile, events_of_log, missing
from cdcwb.formats.idm_event_log.layout import COLUMNS, FORMAT
from cdcwb.formats.idm_event_log.plan import LoggedTables, LogScan, parts_together, split_log
from cdcwb.formats.idm_event_log.tree import dissect
from cdcwb.formats.moments import parse_zone
from cdcwb.formats.requests import typed_rows
from cdcwb.formats.table_rows import Plan, RowBatch, TableFile, TableRows, cells_of, file_problem, parts_of_rows
from cdcwb.model import Kind
from cdcwb.words import unique_names

__all__ = ["IdmEventLog"]

_SAMPLE: Final = 200  # rows that show which column is which
_UNKNOWN: Final = "assign the columns with the option columns"
_OF_ROWS: Final = TableName(None, "")  # rows name their tables


class IdmEventLog(TableRows):
    """Reads the event log of the Identity Manager JDBC driver from files and tables of rows. It has ten columns in
    their order under any name; its tables are in its rows; a split begins where a statement begins and no lower
    record id follows (:mod:`cdcwb.formats.idm_event_log.plan`)."""

    name = FORMAT
    side_file = re.compile(r"\.snapshot/")
    own_options: ClassVar = {
        "columns": "which column is which: auto, or record_id=ID,table_key=KEY (without a header line column_1 …)",
        "sort_column_names_by": f"names of columns, sorted, give their positions: none, {', '.join(detect.SORTED_BY)}",
        "header": "delimited files begin with a line of column names: auto, true, false",
        "null_text": "the text of NULL, without quotes: auto, none, or the text",
        "time_zone": "zone of event_time: UTC, +02:00, Europe/Berlin …",
        "schema": "schema of tables without a schema in their name",
        "images": "false: without values and bytes",
    }
    parsers: ClassVar = {
        **TableRows.parsers,
        "columns": (detect.as_columns,),
        "sort_column_names_by": (detect.as_sorting,),
        "header": (opt.as_bool,),
        "null_text": (detect.as_null,),
        "time_zone": (opt.as_text,),
        "schema": (opt.as_text,),
    }
    pairing = Pairing.OBJECT
    names_keys = True
    counts_damage = True
    scan_type = LogScan
    options_type = LogOptions
    halved: Any = None  # there are no halves of updates

    key_spellings = staticmethod(changes.key_spellings)
    split = staticmethod(split_log)

    @property
    def options(self) -> Mapping[str, str]:  # type: ignore[override]
        """The description of every option: rows name their tables and keys, and ``null_text`` is the text of NULL."""
        return {name: text for name, text in super().options.items() if name not in ("table", "keys", "null")}

    def parse_options(self, options: Mapping[str, Any]) -> LogOptions:
        """See :meth:`cdcwb.formats.dissector.Format.parse_options`."""
        checked = super().parse_options(options)
        assert isinstance(checked, LogOptions)
        if checked.columns is not None and checked.sort_column_names_by is not None:
            raise OptionError("options columns, sort_column_names_by: give only one of them")
        parse_zone(checked.time_zone)
        return checked

    # --- files --------------------------------------------------------------------------------------------------------

    def side_files(self, paths: Sequence[str]) -> list[str]:
        """The files in a folder ``NAME.snapshot`` next to the file or folder NAME: what tables held, for XDS."""
        return [
            path
            for path in paths
            if any(one.suffix == ".snapshot" and one.with_suffix("").exists() for one in Path(path).parents)
        ]

    def siblings(self, path: str) -> Sequence[str]:
        """The file alone."""
        return [path]

    def recognise_file(self, path: str, options: Any) -> Recognition:
        """See :func:`cdcwb.formats.idm_event_log.detect.recognise_file`."""
        return detect.recognise_file(path, options)

    def recognise_rows(self, schema: pa.Schema) -> Recognition:
        """Looks for the vendor's column names among the columns of a table."""
        return detect.recognise_rows(schema)

    def probe(self, options: Any, path: str) -> LogProbe:
        """The kind of a file, and which column is which."""
        return detect.probe(path, options)

    def draft(self, probes: Sequence[LogProbe], options: Any) -> Plan:
        """A plan of files without their splits and tables. A file whose columns are unknown is broken. Raises
        CaptureError for rows without another file whose columns are known."""
        plan = Plan(options, detected=detect.detected_of(probes, options))
        settings = {"time_zone": options.time_zone} | ({} if options.schema is None else {"schema": options.schema})
        for one in probes:
            file = one.file
            if not one.labels and file.sample:
                file = file.broken(f"{one.assignment.evidence}; {_UNKNOWN}")
                if not any(other.labels for other in probes):
                    raise CaptureError(str(file.problem), path=file.path)
            entry = LogFile(probe=file.without_rows(), table=_OF_ROWS, labels=one.labels, null_text=one.null_text)
            entry.size, entry.problem, entry.options = file.size, file.problem, settings
            plan.files.append(entry)
            plan.problems += [] if entry.problem is None else [file_problem(entry)]
            absent = missing(entry.absent) if entry.labels else []
            plan.problems += [problem_row(code, sentence, file=entry.path) for code, sentence in absent]
        return plan

    def scan_part(self, found: Any, entry: TableFile, index: int, part: RowSegments) -> None:
        """Adds the record ids and tables of rows."""
        found.take_part(entry, part)

    def plan_rows(self, name: str, schema: pa.Schema, run: RunRows, options: Mapping[str, Any]) -> Plan:
        """See :meth:`cdcwb.formats.dissector.RowFormat.plan_rows`."""
        checked = self.parse_options(options)
        labels = unique_names([one.name for one in schema if one.name != ROW])
        nothing = Assignment({}, "nothing", "", 0.0)
        found = detect.assign(labels, True, (), checked) if checked.sort_column_names_by is None else nothing
        if found.how == "nothing" and labels:
            samples = [pickle.loads(one) for one in run(partial(_sampled, path=name, names=labels))]
            found = detect.assign(labels, True, [row for some in samples for row in some][:_SAMPLE], checked)
        if not found.places:
            raise CaptureError(f"{found.evidence}; {_UNKNOWN}", path=name)
        file = FileProbe(name, "rows", labels, len(labels))
        plan = self.draft([LogProbe(file, found, checked.null_text or "", GIVEN)], checked)
        (entry,), tables, highest, behind = plan.files, LoggedTables(), 0, 0
        for one in map(pickle.loads, run(partial(self._scan_log_rows, entry))):
            tables.add(one.tables)
            entry.rows = (entry.rows or 0) + one.rows
            behind = max(behind, one.behind, highest - one.lowest if one.segments else 0)
            highest = max(highest, one.highest)
        plan.versions = tables.versions(checked.schema)
        plan.facts = {"records": entry.rows or 0, "behind": behind}
        return plan

    def _scan_log_rows(self, entry: LogFile, batches: Iterator[pa.RecordBatch]) -> bytes:
        """The pickled result of the first pass over some rows of a table."""
        found = LogScan(0, 0)
        for part in parts_of_rows(entry.path, batches, entry.probe.columns):
            self.scan_part(found, entry, 0, part)
            found.rows += len(part.offset)
        return pickle.dumps(found)

    # --- events and changes -------------------------------------------------------------------------------------------

    def events(self, rows: RowBatch, options: Mapping[str, str]) -> Mapping[str, Any]:
        """The columns of events (§6.1)."""
        return events_of_log(rows, options)

    def parts(self, plan: Any, split: int, wanted: Wanted) -> Iterator[tuple[int, RowSegments]]:
        """The parts of a split with the index of their file."""
        return parts_together(plan, plan.splits[split])

    def header(self, columns: Sequence[str], options: Mapping[str, str]) -> list[str]:
        """None: the images of a row are not its columns."""
        return []

    def in_splits(self, plan: Plan) -> bool:
        """Whether record ids rise, or nearly so, or there is only one split."""
        return int(plan.facts.get("behind", changes.NEAR + 1)) <= changes.NEAR or len(plan.splits) == 1

    def read_changes(self, plan: Plan, split: int | None, wanted: Wanted, read: Read) -> Iterator[pa.RecordBatch]:
        """See :func:`cdcwb.formats.idm_event_log.changes.read_changes`. Rows of a DataFrame are in the order of record
        ids."""
        return changes.read_changes(read, 0 if split is None else int(plan.facts["behind"]), wanted)

    def read_transactions(
        self, _plan: Plan, _split: int | None, _wanted: Wanted, _read: Read
    ) -> Iterator[pa.RecordBatch]:
        """None: the log has no transactions."""
        return iter(())

    def read_checked(self, plan: Plan, split: int | None, wanted: Wanted, read: Read) -> Named:
        """See :func:`cdcwb.formats.idm_event_log.changes.read_checked`."""
        return changes.read_checked(read, 0 if split is None else int(plan.facts["behind"]), wanted)

    # --- typed columns ------------------------------------------------------------------------------------------------

    def typed_part(self, plan: Plan, file: int, part: RowSegments, request: TableRequest) -> Iterator[pa.RecordBatch]:
        """The rows of one table in a part as columns. A column that a row does not name is null in its images."""
        schema = self.table_schema(plan, request)
        wanted = Wanted(kinds=frozenset({str(Kind.CHANGE)}), tables=frozenset({request.name}))
        for events in self.events_of(plan, file, part, wanted):
            yield typed_rows(events, schema)

    # --- one row ------------------------------------------------------------------------------------------------------

    def tree(self, entry: Any, rows: Rows, event: Mapping[str, Any]) -> Field:
        """The field tree of one row."""
        record = event["raw"] or b""
        names = {label.casefold(): name for name, label in entry.labels.items()}
        return dissect(record, cells_of(entry, rows, record), names, event, entry.options.get("schema"))

    def note(self, plan: Plan, entry: Any) -> str:
        """The container of a row, and the columns that it lacks."""
        absent = [name for name in COLUMNS if name in entry.absent]
        held = f"a row of the event log, {entry.probe.kind}"
        return f"{held}; the source has no {', '.join(absent)}" if absent else held


def _sampled(batches: Iterator[pa.RecordBatch], path: str, names: tuple[str, ...]) -> bytes:
    """The pickled first rows of a table."""
    found: list[tuple[str | None, ...]] = []
    for part in parts_of_rows(path, (batch.slice(0, _SAMPLE) for batch in batches), names):
        texts = text_rows(part, names)
        if texts is not None:
            found += zip(*(column.to_pylist() for column in texts.columns), strict=True)
        if len(found) >= _SAMPLE:
            break
    return pickle.dumps(found)
