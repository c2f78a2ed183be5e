"""Publication of an event log of any size: decisions and documents (docs/formats/idm-event-log.md §4).

The stages of :mod:`cdcwb.xds` in Spark. Decisions about single rows are made in any partition. Rows are counted in
parts of the processing order and the counts are accumulated, for polling cycles and again for the numbers of events and
documents. Decisions that depend on other rows of an object are made where all of them are collected.
"""

from __future__ import annotations

import os
import pickle
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import xds
from cdcwb.analysis import line_text
from cdcwb.analysis.event_log import log_rows
from cdcwb.analysis.export import (
    check_ending,
    check_replaced,
    check_target,
    local,
    parts_beside,
    parts_of,
    write_lines,
)
from cdcwb.analysis.frames import TableStore, bounds_of, from_start, part_of, spark_schema
from cdcwb.dataset import SparkRows
from cdcwb.errors import OptionError
from cdcwb.index.columns import Ints
from cdcwb.spark.stored import batches_of
from cdcwb.writing import exchange, naming, put, remove, written
from cdcwb.xds import Decision, Settings, Snapshot
from cdcwb.xds.rows import CYCLE, NUMBERS, OWN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cdcwb.analysis.xds_changes import PublishedChanges
    from cdcwb.capture import Capture

__all__ = [
    "DOCUMENTS",
    "STREAMS",
    "Published",
    "Summary",
    "check_documents_target",
    "publish_log",
    "publish_rows",
    "write_published",
]


A_PART: Final = 1 << 16
"""The number of rows in a part of the order, and in a group of objects."""

DOCUMENTS: Final = pa.schema(
    [
        ("document", pa.int64()),  # number, from 1
        ("events", pa.int64()),
        ("first_record", pa.int64()),  # record_id of its first and last row, in processing order
        ("last_record", pa.int64()),
        ("xml", pa.string()),  # UTF-8, with a final line end
    ]
)
"""One row for each document."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The number of documents, of events, and of rows by decision."""

    documents: int
    events: int
    decisions: Mapping[str, int]


class Published:
    """The result of publishing an event log.

    ``decisions``: a row of :data:`cdcwb.xds.DECISIONS` for each row of the log, unordered. ``documents``: a row of
    :data:`DOCUMENTS` for each document; partitions and the rows in them are in the order of publication. Both can be
    read while this object exists.
    """

    def __init__(
        self, rows: DataFrame, settings: Settings, snapshot: _Snapshot, store: TableStore, carry: xds.Carry
    ) -> None:
        self._rows = rows
        self._settings = settings
        self._snapshot = snapshot
        self._store = store
        self._carry = carry

    @property
    def decisions(self) -> DataFrame:
        """The decision on each row, and its reason."""
        settings = self._settings

        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield from from_start(xds.to_decisions(pa.Table.from_batches([batch]), settings), xds.DECISIONS)

        return self._rows.mapInArrow(work, spark_schema(xds.DECISIONS))

    @property
    def documents(self) -> DataFrame:
        """The documents, in order."""
        from pyspark.sql import functions as F

        published = self._rows.filter(F.col("decision") == str(Decision.PUBLISHED))
        ordered = published.repartitionByRange("document").sortWithinPartitions("document", "order_time", "number")
        settings, snapshot = self._settings, self._snapshot

        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for rows in _whole_documents(batches):
                yield from _documents_of(rows, settings, snapshot.get())

        return ordered.mapInArrow(work, spark_schema(DOCUMENTS))

    @cached_property
    def summary(self) -> Summary:
        """The numbers of documents, events and decisions."""
        counts = {row["decision"]: row["count"] for row in self._rows.groupBy("decision").count().collect()}
        ordered = {str(name): counts[str(name)] for name in Decision if str(name) in counts}
        return Summary(self._carry.document, self._carry.event, ordered)


def publish_log(
    capture: Capture,
    settings: Settings,
    snapshot: Snapshot | Mapping[str, str | Path] | None = None,
    *,
    a_part: int = A_PART,
) -> Published:
    """Decides every row of an event log, and renders the documents of those that are published.

    ``snapshot``: current tables, or their files by name; without one query-back rows need a snapshot and are not
    published. Every worker holds the snapshot in memory. ``a_part``: approximate number of rows that are processed
    together.

    Raises CaptureError for a capture of another format and for a snapshot that cannot be read.
    """
    tables = snapshot if snapshot is None or isinstance(snapshot, Snapshot) else Snapshot.read(snapshot)
    return publish_rows(log_rows(capture), settings, tables, a_part=a_part)


def publish_rows(
    rows: DataFrame, settings: Settings, snapshot: Snapshot | None = None, *, a_part: int = A_PART
) -> Published:
    """As :func:`publish_log`, from rows of :data:`cdcwb.xds.ROWS`."""
    store = TableStore(rows.sparkSession)
    sent = _Snapshot(snapshot, store)
    own = store.keep("own", _own(rows, settings))
    decided, parts = _decided(own, settings, sent, a_part)
    decided = store.keep("decided", decided)
    carries, end = _carries(decided, settings, parts)
    return Published(store.keep("numbered", _numbered(decided, settings, carries)), settings, sent, store, end)


class _Snapshot:
    """A snapshot for the workers: as a file if they can read local files."""

    def __init__(self, snapshot: Snapshot | None, store: TableStore) -> None:
        self._snapshot: Snapshot | None = snapshot
        self._path: str | None = None
        if snapshot is not None and store.folder is not None:
            path = store.folder / "snapshot.pickle"
            path.write_bytes(pickle.dumps(snapshot))
            self._snapshot, self._path = None, str(path)

    def get(self) -> Snapshot | None:
        """The snapshot, loaded once in each process."""
        return self._snapshot if self._path is None else _loaded(self._path)


@cache
def _loaded(path: str) -> Snapshot:
    snapshot: Snapshot = pickle.loads(Path(path).read_bytes())
    return snapshot


_KEPT: Final = ("file_index", "offset", "table_name", "table_key", "column_name", "old_value", "new_value")
_OWN: Final = pa.schema([*(xds.ROWS.field(name) for name in _KEPT), *OWN])
_PART: Final = pa.field("part", pa.int32())
_DECIDED: Final = pa.schema([*_OWN, CYCLE.field("cycle"), pa.field("overridden_by", pa.int64()), _PART])
_NUMBERED: Final = pa.schema([*(field for field in _DECIDED if field.name != "part"), *NUMBERS])
_POLLED: Final = pa.schema([_OWN.field("order_time"), _OWN.field("number"), pa.field("bucket", pa.int64()), _PART])
_CYCLES: Final = pa.schema([pa.field("bucket", pa.int64()), _OWN.field("number"), CYCLE.field("cycle"), _PART])


def _table(batches: Iterator[pa.RecordBatch] | list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(list(batches), schema)


def _own(rows: DataFrame, settings: Settings) -> DataFrame:
    """The decision on each row that depends on the row alone."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            table = pa.Table.from_batches([batch]).cast(xds.ROWS)
            yield from from_start(xds.own_decisions(table, settings), _OWN)

    return rows.mapInArrow(work, spark_schema(_OWN))


def _numbers(table: pa.Table, name: str) -> Ints:
    numbers: Ints = pc.fill_null(table[name], 0).to_numpy()
    return numbers


def _in_order(table: pa.Table) -> pa.Table:
    return table.take(pa.array(np.lexsort((_numbers(table, "number"), _numbers(table, "order_time")))))


def _decided(own: DataFrame, settings: Settings, snapshot: _Snapshot, a_part: int) -> tuple[DataFrame, int]:
    """Every row with its decision, and the number of parts of the order."""
    from pyspark.sql import functions as F

    total, count = own.agg(F.count(F.lit(1)), F.count(F.when(F.col("polled"), 1))).collect()[0]
    buckets = max(1, -(-total // a_part))
    bucketed = own.withColumn("bucket", F.pmod(F.xxhash64("table_name", "table_key"), F.lit(buckets)))
    polled = bucketed.filter("polled").select("order_time", "number", "bucket")
    bounds = bounds_of(polled.select("order_time", "number"), count, a_part)

    def placed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            part = part_of((batch["order_time"].to_numpy(), batch["number"].to_numpy()), bounds)
            yield from from_start(pa.table([*batch.columns, pa.array(part.astype(np.int32))], schema=_POLLED), _POLLED)

    in_parts = polled.mapInArrow(placed, spark_schema(_POLLED))
    counts = {row["part"]: row["count"] for row in in_parts.groupBy("part").count().collect()}
    firsts = list(accumulate((counts.get(part, 0) for part in range(len(bounds) + 1)), initial=0))

    def cycled(rows: pa.Table) -> pa.Table:
        rows = _in_order(rows)
        rows = rows.append_column("polled", pa.array(np.ones(rows.num_rows, dtype=np.bool_)))
        return _table(from_start(xds.with_cycles(rows, settings, firsts[rows["part"][0].as_py()]), _CYCLES), _CYCLES)

    def between(rows: pa.Table, cycles: pa.Table) -> pa.Table:
        rows = _with_cycles(rows, cycles)
        rows = xds.between_rows(xds.with_snapshot(rows, snapshot.get()), settings)
        return _table(from_start(rows, _DECIDED), _DECIDED)

    cycles = in_parts.groupBy("part").applyInArrow(cycled, spark_schema(_CYCLES))
    together = bucketed.groupBy("bucket").cogroup(cycles.groupBy("bucket"))
    return together.applyInArrow(between, spark_schema(_DECIDED)), len(bounds) + 1


def _with_cycles(rows: pa.Table, cycles: pa.Table) -> pa.Table:
    """Adds cycle and part to the rows that are polled."""
    polled = np.flatnonzero(rows["polled"].to_numpy())
    number = _numbers(cycles, "number")
    order = np.argsort(number)
    at = order[np.searchsorted(number[order], _numbers(rows, "number")[polled])]
    missing = np.ones(rows.num_rows, dtype=np.bool_)
    missing[polled] = False
    for field in (CYCLE.field("cycle"), _PART):
        values = np.zeros(rows.num_rows, dtype=np.int64)
        values[polled] = _numbers(cycles, field.name)[at]
        rows = rows.append_column(field, pa.array(values, mask=missing).cast(field.type))
    return rows


_SPAN: Final = pa.schema([_PART, pa.field("span", pa.binary())])
_GROUPED_BY: Final = ("part", "order_time", "number", "table_name", "table_key", "verb", "cycle")


def _carries(decided: DataFrame, settings: Settings, parts: int) -> tuple[dict[int, xds.Carry], xds.Carry]:
    """The numbers with which each part begins, and the numbers at the end."""
    from pyspark.sql import functions as F

    def summed(rows: pa.Table) -> pa.Table:
        span = pickle.dumps(xds.span_of(_in_order(rows)))
        return pa.table([rows["part"].slice(0, 1).combine_chunks().take(pa.array([0])), pa.array([span])], schema=_SPAN)

    published = decided.filter(F.col("decision") == str(Decision.PUBLISHED)).select(*_GROUPED_BY)
    spans = {
        row["part"]: pickle.loads(row["span"])
        for row in published.groupBy("part").applyInArrow(summed, spark_schema(_SPAN)).toLocalIterator()
    }
    carry, carries = xds.START, {}
    for part in range(parts):
        carries[part] = carry
        carry = carry.after(spans.get(part), settings)
    return carries, carry


def _numbered(decided: DataFrame, settings: Settings, carries: Mapping[int, xds.Carry]) -> DataFrame:
    """Every row with the numbers of its event and document."""
    from pyspark.sql import functions as F

    def work(rows: pa.Table) -> pa.Table:
        numbered, _ = xds.number_events(_in_order(rows), settings, carries[rows["part"][0].as_py()])
        return _table(from_start(numbered, _NUMBERED), _NUMBERED)

    is_published = F.col("decision") == str(Decision.PUBLISHED)
    published = decided.filter(is_published).groupBy("part").applyInArrow(work, spark_schema(_NUMBERED))
    nothing = {name: F.lit(None).cast("bigint") for name in NUMBERS.names}
    unpublished = decided.filter(~is_published).withColumns(nothing).select(*_NUMBERED.names)
    return published.unionByName(unpublished)


_AT_ONCE: Final = 50_000


def _whole_documents(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Tables that have all rows of each of their documents, in document order."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        last = batch["document"][batch.num_rows - 1]
        begin = pc.index(batch["document"], last).as_py()
        if count + begin >= _AT_ONCE and (begin or held[-1]["document"][-1] != last):
            yield pa.Table.from_batches([*held, batch.slice(0, begin)])
            held, count, batch = [], 0, batch.slice(begin)
        held.append(batch)
        count += batch.num_rows
    if held:
        yield pa.Table.from_batches(held)


def _documents_of(rows: pa.Table, settings: Settings, snapshot: Snapshot | None) -> Iterator[pa.RecordBatch]:
    """The rendered documents of rows, with their first and last records."""
    document, number = _numbers(rows, "document"), _numbers(rows, "number")
    begins = np.flatnonzero(np.append(True, document[1:] != document[:-1]))
    ends = np.append(begins[1:], len(document)) - 1
    events = xds.to_event_table(rows, settings, snapshot)
    done = 0
    for batch in xds.document_batches(events):
        here = slice(done, done + batch.num_rows)
        done += batch.num_rows
        columns = [
            batch["document"],
            batch["events"],
            pa.array(number[begins[here]]),
            pa.array(number[ends[here]]),
            batch["xml"],
        ]
        yield from from_start(pa.table(columns, names=DOCUMENTS.names), DOCUMENTS)


# --- xds files --------------------------------------------------------------------------------------------------------

STREAMS: Final = ("xml", "xds")
"""Endings of a file for all documents."""

_NAME: Final = "document-{:06}.xml"
_OURS: Final = re.compile(r"document-\d{6,}\.xml")


def check_documents_target(to: str | os.PathLike[str], inputs: Sequence[str], overwrite: bool = False) -> Path:
    """The absolute path of the target of documents: one file if the name ends in .xml or .xds, else a folder that is
    new or empty, or with ``overwrite`` has only such documents. ``inputs`` are the files that must not be replaced.

    Raises OptionError before any work is done.
    """
    target = Path(to).absolute()
    if target.suffix.lower()[1:] in STREAMS:
        return check_target(target, list(inputs), STREAMS)
    wrong = check_ending(target, f"one file of all documents ends in .{' or .'.join(STREAMS)}")
    if wrong:
        raise OptionError(wrong[0])
    is_ours = target.is_dir() and all(_OURS.fullmatch(path.name) for path in target.iterdir())
    check_replaced(target, is_ours, "a folder of XDS documents", overwrite)
    if not target.parent.is_dir():
        raise OptionError(f"there is no folder '{target.parent}'")
    if not os.access(target.parent, os.W_OK):
        raise OptionError(f"the folder '{target.parent}' cannot be written")
    return target


def write_published(
    published: Published | PublishedChanges,
    documents: Path,
    decisions: Path | None,
    inputs: Sequence[str] = (),
    overwrite: bool = False,
) -> None:
    """Writes all documents to the file or the folder ``documents``, in order, and the decisions, one JSON object a line
    in capture order, to the file ``decisions``. Either both are written or neither.

    Raises OptionError for targets that cannot be written, or belong to the ``inputs``.
    """
    target = check_documents_target(documents, inputs, overwrite)
    lines = None if decisions is None else check_target(decisions, list(inputs), ("jsonl",))
    with ExitStack() as stack:
        made = stack.enter_context(written(target) if target.suffix else _folder(target, overwrite))
        _write_documents(published.documents, made, target)
        if lines is not None:
            from pyspark.sql.pandas.types import to_arrow_schema

            decided = published.decisions
            rows = SparkRows(decided, to_arrow_schema(decided.schema)).sorted(("file_index", "offset"))
            with stack.enter_context(written(lines)).open("xb") as out:
                write_lines(line_text.lines(rows, "jsonl"), out, "\n", lines)


@contextmanager
def _folder(target: Path, overwrite: bool) -> Iterator[Path]:
    """A new folder, which becomes the ``target`` if the block succeeds."""
    made = target.with_name(f".cdcwb-{secrets.token_hex(8)}.part")
    try:
        with naming(target):
            made.mkdir()
            yield made
            with suppress(FileExistsError):
                put(made, target)
                return
            check_documents_target(target, (), overwrite)  # what is there now
            if not exchange(made, target):
                shutil.rmtree(target)
                made.rename(target)
    finally:
        remove(made)


def _write_documents(rows: DataFrame, made: Path, target: Path) -> None:
    """Writes the documents to the file or the folder ``made``."""
    from pyspark.sql import functions as F

    if target.suffix:
        text = F.expr("substring(xml, 1, length(xml) - 1) AS line")  # each line is written with its end
        with made.open("xb") as out:
            write_lines(SparkRows(rows.select(text), line_text.LINE), out, "\n", target)
        return
    with parts_beside(target) as parts:
        rows.select("document", "xml").write.option("compression", "snappy").parquet(local(parts))
        for part in parts_of(parts, target):
            _one_by_one(part, made)
            part.unlink()


def _one_by_one(part: Path, folder: Path) -> None:
    """Writes the documents of a part as separate files."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(part) as rows:
        for batch in batches_of(rows, size=1000):
            for number, xml in zip(batch["document"].to_pylist(), batch["xml"].to_pylist(), strict=True):
                (folder / _NAME.format(number)).write_bytes(xml.encode())
