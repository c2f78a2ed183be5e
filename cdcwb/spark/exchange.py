"""What crosses the splits of a capture: Arrow batches are sent from the tasks of splits to the tasks that compare rows
of several splits. A batch is one binary value of Spark, so that its columns need not be converted to Spark's rows and
back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from cdcwb import model
from cdcwb.dataset import Batches, dealt, runs_of
from cdcwb.formats import get_format
from cdcwb.formats.delivered import EndsOfOthers, ends_elsewhere
from cdcwb.formats.dissector import Plan
from cdcwb.formats.parts import SplitPart, across
from cdcwb.formats.requests import select, with_all_columns
from cdcwb.formats.summaries import PARTS, counts_of, summarised
from cdcwb.model import Outcome
from cdcwb.spark_rows import SparkRows, packed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


SENT: Final = pa.schema([("name", pa.string()), ("group", pa.int32()), ("place", pa.int64()), ("batch", pa.binary())])
"""Batches. Rows that have to be compared are in one ``group``; ``place`` is the order of batches."""

_RECORDS: Final = 200_000  # for each group
_GROUPS: Final = (4, 512)


def groups_of(facts: Mapping[str, Any]) -> int:
    """The number of groups for a capture with these facts of its plan."""
    least, most = _GROUPS
    return min(most, least + int(facts.get("records") or 0) // _RECORDS)


def send(name: str, batch: pa.RecordBatch, key: str | None, groups: int, place: int) -> Iterator[pa.RecordBatch]:
    """A batch, divided into groups by its texts in the column ``key`` (None: in one of any group), as a batch of
    :data:`SENT`."""
    if not batch.num_rows:
        return
    of_place = ((place >> 32) + place) % groups
    parts = {of_place: batch} if key is None else dict(dealt(batch, [key], groups))
    columns = {"name": [name] * len(parts), "group": list(parts), "place": [place] * len(parts)}
    yield pa.RecordBatch.from_pydict(columns | {"batch": list(map(packed, parts.values()))}, SENT)


def received(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The batches that were sent, with their names."""
    for batch in batches:
        for name, written in zip(batch["name"].to_pylist(), batch["batch"], strict=True):
            for rows in pa.ipc.open_stream(written.as_buffer()):
                yield name, rows


def _merged(sent: DataFrame, function: Callable[[Batches], Batches], schema: pa.Schema) -> SparkRows:
    """The rows of ``schema`` that a function makes of the batches of each group (:data:`SENT`), in their order. A task
    has one group after another in memory."""

    def work(batches: Batches) -> Batches:
        runs = (run for batch in batches for run in runs_of(batch, ["group"]))
        for _, group in groupby(runs, lambda run: run["group"][0].as_py()):
            yield from function(group)

    return SparkRows(sent.repartition("group").sortWithinPartitions("group", "place"), SENT).step(work, schema)


def conform(frame: DataFrame, table: str) -> DataFrame:
    """The frame with exactly the columns of the model's table, in its order and types."""
    wanted = from_arrow_schema(model.TABLES[table])
    return frame.select([F.col(field.name).cast(field.dataType).alias(field.name) for field in wanted.fields])


# --- transactions and problems ----------------------------------------------------------------------------------------


def merged_transactions(sent: DataFrame) -> SparkRows:
    """``transactions``, from the parts in splits, which were sent
    (:meth:`cdcwb.formats.dissector.Assembling.read_transactions`)."""

    def work(batches: Batches) -> Batches:
        parts = pa.Table.from_batches((rows for _, rows in received(batches)), PARTS)
        yield summarised(parts).select(model.TRANSACTIONS.names)

    return _merged(sent, work, model.TRANSACTIONS)


def counted(changes: DataFrame, groups: int) -> DataFrame:
    """The numbers of changes that several splits have together, as parts of their transactions, sent in so many
    groups."""
    schema = model.CHANGES

    def work(batches: Batches) -> Batches:
        for batch in batches:
            rows = batch.select(schema.names).cast(schema)
            yield from send("transactions", counts_of(rows), "transaction_id", groups, 0)

    return changes.mapInArrow(work, from_arrow_schema(SENT))


def problems_of(sent: DataFrame, format: str) -> SparkRows:
    """``problems`` of events, changes and transactions, from the findings of splits (:mod:`cdcwb.formats.parts`),
    which were sent."""

    def work(batches: Batches) -> Batches:
        yield from across(get_format(format), received(batches))

    return _merged(sent, work, model.PROBLEMS)


def in_order(events: DataFrame, format: str, plan: Plan, part: SplitPart) -> DataFrame:
    """The changes or problems (``part``) of a log whose rows are not in the order of their positions, which are
    numbers: one task reads its events, sorted by Spark."""
    names, is_changes = events.columns, part.name == "changes"

    def work(batches: Batches) -> Batches:
        form = get_format(format)
        rows = (with_all_columns(batch) for batch in batches)
        found = part.read(form, plan, None, lambda wanted: (one for batch in rows for one in select(batch, wanted)))
        yield from (rows for _, rows in found) if is_changes else across(form, found)

    number = F.col("position").try_cast("bigint")
    ordered = events.repartition(1).sortWithinPartitions(number, "file_index", "offset").select(*names)
    return ordered.mapInArrow(work, from_arrow_schema(part.schema if is_changes else model.PROBLEMS))


# --- the ends of transactions -----------------------------------------------------------------------------------------

_ENDS_AT_MOST: Final = 16 << 20
"""Bytes of ends for the driver."""
_WRITTEN: Final = pa.schema([("split", pa.int32()), ("size", pa.int64()), ("content", pa.binary())])
_TOO_MANY: Final = pa.RecordBatch.from_pylist([{"split": -1}], _WRITTEN)


def collected_ends(sent: DataFrame, groups: int) -> EndsOfOthers | None:
    """What splits need to know of the ends of transactions in others, from the rows of
    :func:`cdcwb.formats.delivered.read_ends_here`, which were sent in so many groups; None if these are too many."""
    share = _ENDS_AT_MOST // groups

    def work(batches: Batches) -> Batches:
        rows = pa.Table.from_batches(rows for _, rows in received(batches))
        found = [(split, *written) for split, written in ends_elsewhere(rows)]
        if sum(len(content) for _, _, content in found) > share:
            yield _TOO_MANY
        elif found:
            yield pa.RecordBatch.from_arrays([pa.array(column) for column in zip(*found, strict=True)], schema=_WRITTEN)

    of_splits: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    for batch in _merged(sent, work, _WRITTEN).batches():
        for split, *written in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            of_splits[split].append(tuple(written))
    return None if -1 in of_splits else EndsOfOthers(dict(of_splits))


def add_ends(changes: DataFrame, here: DataFrame, few: bool) -> DataFrame:
    """The changes of :mod:`cdcwb.formats.delivered` with outcome, commit position and commit time from the ends of
    their transactions in all splits (``here``: the rows of :func:`cdcwb.formats.delivered.read_ends_here`). ``few``:
    the ends are broadcast to every task."""
    ends = here.groupBy(F.col("transaction_id").alias("_transaction")).agg(
        F.max("commit_position").alias("_commit_position"),
        F.max("committed_at").alias("_committed_at"),
        F.max("rolls_back").alias("_rolls_back"),
    )
    ends = ends.where("_commit_position is not null or _committed_at is not null or _rolls_back")
    matching = F.col("transaction_id") == F.col("_transaction")
    joined = changes.join(F.broadcast(ends) if few else ends, matching, "left")
    undone = F.coalesce(F.col("outcome").isin(str(Outcome.UNDO), str(Outcome.UNDONE)), F.lit(False))
    facts = {
        "outcome": F.when(F.col("_rolls_back") & ~undone, str(Outcome.ROLLED_BACK)).otherwise(F.col("outcome")),
        "commit_position": F.col("_commit_position"),
        "committed_at": F.coalesce("committed_at", "_committed_at"),
    }
    return conform(joined.withColumns(facts), "changes")
