"""Formats that deliver only committed changes (Qlik, GoldenGate, Debezium): outcomes, transactions and missing events.

Such a source has no begin and commit records. A transaction is complete if its first and last events and all between
them are captured, by Qlik's event numbers or GoldenGate's TransInd. The time of the commit is in Qlik's change sequence
(docs/formats/qlik-kafka.md §5 and §6); in a trail it is that of the last record (docs/formats/goldengate.md §6).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from cdcwb import model
from cdcwb.formats.delivered import EndsOfOthers, ends_elsewhere
from cdcwb.formats.dissector import EVERYTHING
from cdcwb.formats.halves import Halved
from cdcwb.formats.summaries import OF_PARTS, PARTS, SUMMARIES, read_parts, summarised
from cdcwb.model import Outcome
from cdcwb.spark.exchange import received, together, typed
from cdcwb.spark.names import table_label

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = [
    "add_ends",
    "collected_ends",
    "parts",
    "parts_of",
    "summaries",
    "summaries_sent",
]


_ENDS_AT_MOST: Final = 16 << 20
"""Bytes of ends for the driver."""
_WRITTEN: Final = pa.schema([("split", pa.int32()), ("size", pa.int64()), ("content", pa.binary())])
_TOO_MANY: Final = pa.RecordBatch.from_pylist([{"split": -1}], _WRITTEN)


def collected_ends(sent: DataFrame, groups: int) -> EndsOfOthers | None:
    """What splits need to know of the ends of transactions in others, from the rows of
    :func:`cdcwb.formats.delivered.read_ends_here`, which were sent as batches in so many groups; None if these
    are too many."""
    share = _ENDS_AT_MOST // groups

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers: set[int] = set()
        rows: list[pa.RecordBatch] = []
        for batch in batches:
            numbers.update(batch["group"].to_pylist())
            rows += (some for _, some in received([batch]))
        if not rows:
            return
        found = [(split, *written) for split, written in ends_elsewhere(pa.Table.from_batches(rows))]
        if sum(len(content) for _, _, content in found) > share * len(numbers):
            yield _TOO_MANY
        elif found:
            yield pa.RecordBatch.from_arrays([pa.array(column) for column in zip(*found, strict=True)], schema=_WRITTEN)

    of_splits: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    for batch in together(sent).mapInArrow(work, from_arrow_schema(_WRITTEN)).toArrow().to_batches():
        for split, *written in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            of_splits[split].append(tuple(written))
    return None if -1 in of_splits else EndsOfOthers(dict(of_splits))


def add_ends(changes: DataFrame, ends: DataFrame, few: bool) -> DataFrame:
    """The changes of :mod:`cdcwb.formats.delivered` with outcome, commit position and commit time from the ``ends``
    of their transactions. ``few``: the ends are broadcast to every task."""
    by_transaction = ends.groupBy(F.col("transaction_id").alias("_transaction")).agg(
        F.max("commit_position").alias("_commit_position"),
        F.max("committed_at").alias("_committed_at"),
        F.max("rolls_back").alias("_rolls_back"),
    )
    joined = changes.join(
        F.broadcast(by_transaction) if few else by_transaction,
        F.col("transaction_id") == F.col("_transaction"),
        "left",
    )
    undone = F.coalesce(F.col("outcome").isin(str(Outcome.UNDO), str(Outcome.UNDONE)), F.lit(False))
    return joined.withColumns(
        {
            "outcome": F.when(F.col("_rolls_back") & ~undone, str(Outcome.ROLLED_BACK)).otherwise(F.col("outcome")),
            "commit_position": F.col("_commit_position"),
            "committed_at": F.coalesce("committed_at", "_committed_at"),
        }
    )


def parts(headers: DataFrame, halved: Halved) -> DataFrame:
    """The parts of transactions from events, as rows of :data:`cdcwb.formats.summaries.PARTS` without the columns
    of changes. ``halved``: of events of any splits."""
    columns = [F.col(name) for name in OF_PARTS]
    if halved.consecutive:
        indicator = F.col("headers")["TransInd"]
        columns.append(F.when(indicator.isNotNull(), F.create_map(F.lit("TransInd"), indicator)).alias("headers"))
    schema = pa.schema([model.EVENTS.field(name) for name in (*OF_PARTS, *(["headers"] if halved.consecutive else []))])

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from read_parts(lambda _: typed(batches, schema), EVERYTHING, halved)

    return headers.select(*columns).mapInArrow(read, from_arrow_schema(PARTS)).drop("changes", "tables")


def parts_of(changes: DataFrame) -> DataFrame:
    """The columns ``changes`` and ``tables`` of :data:`cdcwb.formats.summaries.PARTS`, by transaction, from
    changes."""
    counts = (
        changes.filter(F.col("transaction_id").isNotNull() & F.col("operation").isNotNull())
        .groupBy("transaction_id", "operation")
        .agg(F.count(F.lit(1)).alias("_count"), F.collect_set(table_label()).alias("_tables"))
    )
    return counts.groupBy("transaction_id").agg(
        F.map_from_entries(F.collect_list(F.struct("operation", "_count"))).alias("changes"),
        F.flatten(F.collect_list("_tables")).alias("tables"),
    )


def summaries(parts: DataFrame, of_changes: DataFrame) -> DataFrame:
    """The transactions as rows of :data:`cdcwb.formats.summaries.SUMMARIES`, from their ``parts`` and those of
    changes (:func:`parts_of`)."""
    parts = parts.unionByName(of_changes, allowMissingColumns=True)
    grouped = parts.select(*PARTS.names).repartition("transaction_id")
    return grouped.mapInArrow(_summarise, from_arrow_schema(SUMMARIES))


def summaries_sent(parts: DataFrame) -> DataFrame:
    """The same from parts that were sent as batches (:mod:`cdcwb.spark.exchange`)."""

    def summarise(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from _summarise(rows for _, rows in received(batches))

    return together(parts).mapInArrow(summarise, from_arrow_schema(SUMMARIES))


def _summarise(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield summarised(pa.Table.from_batches(typed(batches, PARTS), PARTS))
