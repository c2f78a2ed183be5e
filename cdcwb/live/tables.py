"""``cdcwb capture`` of database tables: copies rows to Parquet files; a later run adds new rows.

Each table has a folder with numbered files; the rows of a run are in the order of their ids. A run first reads the end
of the captured rows again, because ids are allocated before the commit: a row that is committed late has a lower id
than rows that are already captured. Captured rows are dropped. The run then reads the following ids, range by range.
Files are written atomically, lower ids first, so a run that was killed can be continued.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdcwb.errors import CaptureError, OptionError, SourceDownError
from cdcwb.live import OVERLAP
from cdcwb.live.database import Table, database_errors
from cdcwb.live.jdbc import Address, TableKind, TableName, jdbc_settings
from cdcwb.live.recorder import PART, locked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from cdcwb.xds import Snapshot

__all__ = ["Captured", "Overlap", "capture_tables", "parse_overlap", "read_snapshot"]

FILE_ROWS: Final = 200_000
"""Approximate number of rows of a file."""

_AT_ONCE: Final = 8  # files that are written in one step
_GROUP: Final = 100_000  # approximate most rows of a row group
_GROUP_BYTES: Final = 64 << 20
_FACTS: Final = b"cdcwb.table"
"""The key of the Parquet metadata that names the table."""
_UNITS: Final = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
_SEQUENCE_TIME: Final = 14  # digits of change_seq: year to second
_SECOND: Final = "%Y%m%d%H%M%S"

Overlap = int | timedelta
"""The captured rows to read again: a number, or the time before the last one."""
Progress = Callable[[str, int, int], None]
"""Called with the name of the table, the number of rows read, and the number to read."""


@dataclass(frozen=True, slots=True)
class Captured:
    """The result of a run for a table: the numbers of rows ``read``, of ``new`` rows and of ``files`` written, and
    whether an existing folder was ``continued``."""

    table: str
    read: int
    new: int
    files: int
    continued: bool


@dataclass(frozen=True, slots=True)
class _Run:
    """The settings of a run: the range of ids, the overlap, the rows of a file."""

    start: str | None
    end: str | None
    overlap: Overlap
    file_rows: int
    progress: Progress


def parse_overlap(text: str) -> Overlap:
    """A number of rows, or a duration such as ``90s``, ``10min``, ``2h`` or ``1d``. Raises OptionError."""
    match = re.fullmatch(r"(\d+)\s*(s|min|h|d)?", text.strip(), re.ASCII)
    if match is None:
        raise OptionError(f"--overlap: expected a number of rows or a duration such as 30min or 2h, found {text!r}")
    return int(match[1]) if match[2] is None else timedelta(seconds=int(match[1]) * _UNITS[match[2]])


def capture_tables(
    url: str,
    tables: Sequence[str],
    folder: str | os.PathLike[str],
    *,
    spark: SparkSession,
    snapshots: Sequence[str] = (),
    id_column: str | None = None,
    start: str | None = None,
    end: str | None = None,
    overlap: Overlap = OVERLAP,
    settings: Mapping[str, str] | None = None,
    progress: Progress = lambda _table, _done, _total: None,
    file_rows: int = FILE_ROWS,
) -> list[Captured]:
    """Writes the rows of tables into a folder; an existing folder gets the new rows.

    ``tables`` are change tables, control tables or an event log (``schema.table``). ``snapshots`` are the tables to
    which an event log refers; their present rows are written to the folder ``FOLDER.snapshot`` for query-back.
    ``id_column`` is the record_id of an event log whose columns have other names; ``start`` (included) and ``end``
    (excluded) are ids. ``overlap``: captured rows to read again. ``settings``: user, password and others (None: those
    of the environment).

    Raises SourceDownError if the database does not answer; the rows of complete files are kept. Raises CaptureError for
    a table that does not exist or has no id, and for a folder of another table.
    """
    login = jdbc_settings() if settings is None else dict(settings)
    address, target = Address.parse(url), Path(folder)
    names = [TableName.parse(text) for text in tables]
    snapshot_tables = [TableName.parse(text) for text in snapshots]
    if len({name.label for name in names}) < len(names):
        raise OptionError("a table is named twice")
    run = _Run(start, end, overlap, file_rows, progress)
    with locked(target):
        sources = [Table(spark, address, name, login, id_column) for name in names]
        for table in sources:
            _ = table.id  # raises for a wrong name before anything is written
        captured = [_capture(table, target / table.name.label, run) for table in sources]
        for name in snapshot_tables:
            _write_snapshot(Table(spark, address, name, login, is_parent=True), target)
    return captured


# --- one table --------------------------------------------------------------------------------------------------------


def _capture(table: Table, folder: Path, run: _Run) -> Captured:
    files = _files(folder)
    if files:
        run = replace(run, start=_start_of(table, files[-1], run))
    try:
        with database_errors(table.address, table.settings):
            if table.id.kind == TableKind.CONTROL:
                return _capture_all(table, folder, files, run)
            return _capture_new(table, folder, files, run)
    except SourceDownError as down:
        message = f"{down.message}; rows of complete files are kept, run it again to continue"
        raise SourceDownError(message, path=down.path) from None


def _capture_all(table: Table, folder: Path, files: list[Path], run: _Run) -> Captured:
    """Captures a table without an id, compared with all captured rows."""
    read = table.bounds().rows
    run.progress(table.name.label, 0, read)
    frame = table.rows()
    if files:
        frame = _new_rows(frame, _stored(table, files), frame.schema.names)
    new, written = _write(table, frame.coalesce(1), folder, run)
    return Captured(table.name.label, read, new, written, bool(files))


def _capture_new(table: Table, folder: Path, files: list[Path], run: _Run) -> Captured:
    """Captures a table with an id: first the overlap, then the following ids."""
    label, read, new, written = table.name.label, 0, 0, 0
    conditions = [] if run.end is None else [table.compared("<", run.end)]
    if not files:
        conditions += [] if run.start is None else [table.compared(">=", run.start)]
    else:
        groups = _groups(files, table.id.column or "")
        high = str(max(group.high for group in groups))
        since = _since(table, groups, run.overlap)
        conditions.append(table.compared(">", high))
        if since is not None:
            since = since if run.start is None else _later(table, since, run.start)
            again = table.bounds(f"{table.compared('>=', since)} AND {table.compared('<=', high)}")
            run.progress(label, 0, again.rows)
            frame = table.rows(table.within(since, high, _parts(again.rows, run)))
            late = _late_rows(table, frame, files, since)
            new, written = _write(table, late, folder, run)
            read += again.rows
    more = table.bounds(" AND ".join(conditions) or None)
    total = read + more.rows
    if more.low is not None and more.high is not None:
        parts = _parts(more.rows, run)
        predicates = table.within(more.low, more.high, parts)
        for first in range(0, len(predicates), _AT_ONCE):
            run.progress(label, read + more.rows * first // len(predicates), total)
            some = table.rows(predicates[first : first + _AT_ONCE])
            rows, number = _write(table, table.in_order(some), folder, run)
            new, written = new + rows, written + number
    run.progress(label, total, total)
    return Captured(label, total, new, written, bool(files))


def _parts(rows: int, run: _Run) -> int:
    return max(1, -(-rows // run.file_rows))


def _later(table: Table, first: str, other: str) -> str:
    return max(first, other) if table.has_text_ids else max(first, other, key=int)


def _late_rows(table: Table, frame: DataFrame, files: list[Path], since: str) -> DataFrame:
    """The rows of a range of ids that are not captured yet, in the order of their ids. Events are compared by
    record_id, so a changed status is ignored; rows of change tables by all their values."""
    from pyspark.sql import functions as F

    column = table.id.column or ""
    kind = frame.schema[column].dataType
    captured = _stored(table, files).where(F.col(f"`{column}`") >= F.lit(since).cast(kind))
    compared = [column] if table.id.kind == TableKind.EVENTS else frame.schema.names
    late = _new_rows(frame, captured, compared)
    return table.in_order(late.coalesce(1))


def _new_rows(frame: DataFrame, captured: DataFrame, compared: Sequence[str]) -> DataFrame:
    """The rows of ``frame`` that are not ``captured``, compared by some columns; of equal rows, as many as ``frame``
    has more. Columns that only one of the two has are not compared."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    common = [name for name in compared if name in captured.columns]
    names = [f"`{name}`" for name in common]
    number = F.row_number().over(Window.partitionBy(*names).orderBy(F.lit(1)))
    source = frame.withColumn("_number", number).alias("source")
    target = captured.select(*names).withColumn("_number", number).alias("target")
    matches = [F.col(f"source.{name}").eqNullSafe(F.col(f"target.{name}")) for name in [*names, "_number"]]
    condition = matches[0]
    for match in matches[1:]:
        condition &= match
    return source.join(target, condition, "left_anti").drop("_number")


# --- captured rows ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Group:
    """A row group of a file, with its lowest and highest id."""

    path: Path
    index: int
    rows: int
    low: Any
    high: Any


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.parquet"))


def _start_of(table: Table, path: Path, run: _Run) -> str | None:
    """The first id of a folder. Raises CaptureError for files of another table, or if the run names another first
    id."""
    elsewhere = "capture into another folder"
    try:
        facts = json.loads((pq.read_metadata(path).metadata or {})[_FACTS])
    except (OSError, KeyError, ValueError, pa.ArrowException):
        raise CaptureError(f"not a file that cdcwb capture wrote; {elsewhere}", path=str(path)) from None
    current, start = _facts(table, run), facts.get("start")
    for name, what in (("database", "database"), ("table", "table"), ("id", "column of ids")):
        if facts.get(name) != current[name]:
            raise CaptureError(
                f"was captured from the {what} {facts.get(name)}, not {current[name]}; {elsewhere}", path=str(path)
            )
    if run.start is not None and start != run.start:
        begin = "the first id" if start is None else f"id {start}"
        raise CaptureError(f"the folder has the table from {begin} on; {elsewhere}", path=str(path.parent))
    return None if start is None else str(start)


def _facts(table: Table, run: _Run) -> dict[str, Any]:
    database = re.split(r"[?;]", table.address.url)[0]
    return {"database": database, "table": table.name.label, "id": table.id.column, "start": run.start}


def _groups(files: Sequence[Path], column: str) -> list[_Group]:
    groups = []
    for path in files:
        metadata = pq.read_metadata(path)
        position = metadata.schema.to_arrow_schema().names.index(column)
        for index in range(metadata.num_row_groups):
            group = metadata.row_group(index)
            limits = group.column(position).statistics
            groups.append(_Group(path, index, group.num_rows, limits.min, limits.max))
    return groups


def _since(table: Table, groups: Sequence[_Group], overlap: Overlap) -> str | None:
    """The id from which rows are read again; None: no overlap."""
    if isinstance(overlap, int):
        return None if overlap <= 0 else str(_nth_highest(groups, table.id.column or "", overlap))
    if table.id.kind == TableKind.CHANGES:
        high = str(max(group.high for group in groups))
        last = high[:_SEQUENCE_TIME]
        with suppress(ValueError):
            since = datetime.strptime(f"{last}+0000", f"{_SECOND}%z") - overlap
            return since.strftime(_SECOND).ljust(len(high), "0")
        raise OptionError(f"--overlap: change_seq {last!r} does not begin with a time; give a number of rows")
    return _since_time(table, sorted({group.path for group in groups}), overlap)


def _since_time(table: Table, files: Sequence[Path], overlap: timedelta) -> str:
    """The lowest id of the events whose event_time is within the overlap before the last one."""
    from pyspark.sql import functions as F

    stored = _stored(table, files)
    times = [field for field in stored.schema if field.name.casefold() == "event_time"]
    if not times or not times[0].dataType.simpleString().startswith("timestamp"):
        raise OptionError("--overlap: the event log has no column event_time that is a time; give a number of rows")
    time = F.col(f"`{times[0].name}`")
    begin = stored.agg((F.max(time) - F.lit(overlap)).alias("_since"))
    recent = stored.crossJoin(begin).where(time >= F.col("_since"))
    first = recent.agg(F.min(f"`{table.id.column}`")).collect()[0][0]
    if first is None:
        raise OptionError("--overlap: no captured event has a time; give a number of rows")
    return str(first)


def _nth_highest(groups: Sequence[_Group], column: str, number: int) -> Any:
    """The lowest of the ``number`` highest ids; the lowest of all if there are fewer."""
    rows, coarse = 0, None
    for group in sorted(groups, key=lambda group_: group_.low, reverse=True):
        rows, coarse = rows + group.rows, group.low
        if rows >= number:
            break
    parts = []
    for group in groups:
        if group.high >= coarse:
            parts.append(pq.ParquetFile(group.path).read_row_group(group.index, columns=[column]).column(0))
    ids = pa.chunked_array([chunk for part in parts for chunk in part.chunks])
    order = pc.sort_indices(ids, sort_keys=[("", "descending")])
    return ids[order[min(number, len(ids)) - 1].as_py()].as_py()


def _stored(table: Table, files: Sequence[Path]) -> DataFrame:
    return table.spark.read.option("mergeSchema", "true").parquet(*map(str, files))


# --- writing ----------------------------------------------------------------------------------------------------------


def _write(table: Table, frame: DataFrame, folder: Path, run: _Run) -> tuple[int, int]:
    """Writes a file for each partition that has rows; returns how many rows and files. When all are complete, they are
    renamed in the order of the partitions, which is that of the ids."""
    folder.mkdir(exist_ok=True)
    writer = _writer(str(folder.absolute()), json.dumps(_facts(table, run)))
    written = frame.mapInArrow(writer, "partition int, path string, rows long").collect()
    existing = _files(folder)
    number = int(existing[-1].stem) if existing else 0
    for row in sorted(written, key=lambda row: int(row["partition"])):
        number += 1
        Path(row["path"]).replace(folder / f"{number:010}.parquet")
    return sum(row["rows"] for row in written), len(written)


def _writer(folder: str, facts: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What writes the rows of a partition to a file, and returns its path and number of rows."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        path, rows = Path(folder, f".{partition}-{uuid.uuid4().hex}{PART}"), 0
        writer: pq.ParquetWriter | None = None
        for group in _grouped(batches):
            if writer is None:
                writer = pq.ParquetWriter(path, group.schema, compression="zstd")
                writer.add_key_value_metadata({_FACTS: facts})
            writer.write_table(group, row_group_size=len(group))
            rows += len(group)
        if writer is None:
            return
        writer.close()
        with path.open("rb") as file:
            os.fsync(file.fileno())
        yield pa.RecordBatch.from_pydict({"partition": [partition], "path": [str(path)], "rows": [rows]}, _RESULT)

    return write


_RESULT: Final = pa.schema([("partition", pa.int32()), ("path", pa.string()), ("rows", pa.int64())])


def _grouped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches combined to the size of a row group."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not len(batch):
            continue
        held.append(batch)
        rows, size = rows + len(batch), size + batch.nbytes
        if rows >= _GROUP or size >= _GROUP_BYTES:
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


# --- snapshots for query-back -----------------------------------------------------------------------------------------


def read_snapshot(
    url: str, tables: Sequence[str], *, spark: SparkSession, settings: Mapping[str, str] | None = None
) -> Snapshot:
    """The present rows of tables (``schema.table``) as the snapshot that query-back asks
    (:func:`cdcwb.analysis.xds.publish_log`). They have to fit into memory. Raises as :func:`capture_tables`."""
    from cdcwb.xds import Snapshot

    address, login = Address.parse(url), jdbc_settings() if settings is None else dict(settings)
    names = [TableName.parse(text) for text in tables]
    return Snapshot.of({name.label: _present(Table(spark, address, name, login, is_parent=True)) for name in names})


def _present(table: Table) -> pa.Table:
    with database_errors(table.address, table.settings):
        return table.rows().toArrow()


def _write_snapshot(table: Table, target: Path) -> None:
    """Writes the current rows of a table next to the event log, and replaces those of an earlier run."""
    folder = target.with_name(f"{target.name}.snapshot")
    folder.mkdir(exist_ok=True)
    path = folder / f"{table.name.label}.parquet"
    part = folder / f".{path.name}{PART}"
    pq.write_table(_present(table), part, compression="zstd")
    part.replace(path)
