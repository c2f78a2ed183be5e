"""From events to changes, transactions and problems where splits do not do it on their own (docs/formats/*.md §6): rows
that belong together meet in a shuffle, by transaction, or by table and position."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from cdcwb import model
from cdcwb.formats import get_format
from cdcwb.formats.assembler import Assembler
from cdcwb.formats.assembly import CHANGES, Read, open_ones
from cdcwb.formats.base import OF_CHANGES, Format, Halved, Pairing, Wanted
from cdcwb.formats.halves import HALVES
from cdcwb.formats.requests import select
from cdcwb.model import Problem
from cdcwb.spark import committed
from cdcwb.spark.names import table_label
from cdcwb.spark.objects import key_spellings, repeated_records

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = [
    "assemble_changes",
    "assemble_problems",
    "assemble_transactions",
    "conform",
    "summaries_of",
]

_ONLY_ASSEMBLED: Final = (Problem.UPDATE_HALF, Problem.REORDERED_UPDATE, Problem.MASK_IMAGES)
"""Problems of changes that none of their events has. A mask is compared with both images where they are in two events;
where they are in one the format has done so, and there are no halves."""


def conform(frame: DataFrame, table: str) -> DataFrame:
    """Exactly the columns of the model's table, in its order and types."""
    wanted = from_arrow_schema(model.TABLES[table])
    return frame.select([F.col(field.name).cast(field.dataType).alias(field.name) for field in wanted.fields])


def assemble_changes(
    events: DataFrame, keys: Mapping[str, Sequence[str]], form: Format, facts: Mapping[str, Any]
) -> DataFrame:
    """``changes`` from ``events``, whichever splits these are from. ``keys`` gives the key columns of tables that the
    source names none for; ``facts`` are the plan's. Those of an event log are made by
    :func:`cdcwb.spark.objects.join_statements`."""
    return _assemble(events, keys, form, facts, "changes")


def assemble_transactions(
    headers: DataFrame, changes: Callable[[], DataFrame] | None, form: Format, facts: Mapping[str, Any]
) -> DataFrame:
    """``transactions`` from events and, of a stream of committed work, changes, both without images."""
    if form.pairing is Pairing.OBJECT:  # an event log has none
        return headers.sparkSession.createDataFrame([], from_arrow_schema(model.TRANSACTIONS))
    if form.commits or changes is None:
        return _assemble(headers, {}, form, facts, "transactions")
    return conform(summaries_of(headers, changes(), form), "transactions")


def _assemble(
    events: DataFrame, keys: Mapping[str, Sequence[str]], form: Format, facts: Mapping[str, Any], table: str
) -> DataFrame:
    """A table of the model, by :class:`cdcwb.formats.assembler.Assembler`: events that belong together meet in one
    task, in capture order, and are kept in a file of the task while they are read."""
    name, known = form.name, {fact: facts.get(fact) for fact in ("fragments", "undo_records")}
    schema = model.TABLES[table]

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with _kept(batches) as read:
            source = Assembler(get_format(name), known, keys, [(read, Halved())])
            yield from getattr(source, table)()

    of_changes = F.col("kind").isin(*CHANGES)
    if form.pairing is Pairing.POSITION:
        together = _by_position(events.filter(of_changes))
    else:
        alone = F.when(F.col("kind").isin(*HALVES), F.concat_ws("\0", "schema_name", "table_name"))
        group = F.coalesce("transaction_id", F.concat(F.lit("\0"), F.coalesce(alone, _location())))
        together = events.filter(of_changes | F.col("transaction_id").isNotNull()).repartition(group)
    ordered = together.select(*OF_CHANGES).sortWithinPartitions("file_index", "offset")
    return ordered.mapInArrow(work, from_arrow_schema(schema))


def _by_position(rows: DataFrame) -> DataFrame:
    """Halves of updates find each other at one position of one table, in files of one folder; rows without a position
    find none."""
    folder = F.regexp_replace("file", "[^/]*$", "")
    return rows.repartition(folder, "schema_name", "table_name", F.coalesce("position", _location()))


def _location() -> Column:
    """What no other row has."""
    return F.concat_ws(" ", F.col("file_index").cast("string"), F.col("offset").cast("string"))


@contextlib.contextmanager
def _kept(batches: Iterator[pa.RecordBatch]) -> Iterator[Read]:
    """Reads the given events (:data:`cdcwb.formats.base.OF_CHANGES`) as often as needed, from a temporary file."""
    schema = pa.schema([model.EVENTS.field(name) for name in OF_CHANGES])
    missing = pa.field("raw", model.EVENTS.field("raw").type)
    with tempfile.TemporaryDirectory(prefix="cdcwb-") as folder:
        place = f"{folder}/events.arrow"
        with pa.ipc.new_file(place, schema) as writer:
            for batch in batches:
                writer.write_table(pa.Table.from_batches([batch]).cast(schema))

        def read(wanted: Wanted) -> Iterator[pa.RecordBatch]:
            with pa.memory_map(place) as source:
                events = pa.ipc.open_file(source)
                for number in range(events.num_record_batches):
                    batch = events.get_batch(number)
                    for rows in select(batch, wanted):
                        yield rows.append_column(missing, pa.nulls(rows.num_rows, missing.type)).select(
                            model.EVENTS.names
                        )

        yield read


def summaries_of(headers: DataFrame, changes: DataFrame | None, form: Format) -> DataFrame:
    """The transactions of a stream of committed work, from events without images, and, where it is wanted what they
    changed, from changes; rows of :data:`cdcwb.formats.summaries.SUMMARIES`."""
    parts = committed.parts(headers, trail=form.pairing is Pairing.TRANSACTION)
    return committed.summaries(parts, None if changes is None else committed.parts_of(changes))


def assemble_problems(
    events: DataFrame,
    changes: DataFrame | None,
    headers: DataFrame,
    transactions: DataFrame | None,
    beside: DataFrame,
    form: Format,
) -> DataFrame:
    """``problems``: those of events, those that only assembly sees (of ``changes``, None: there are none but among the
    events), transactions that are incomplete, and the given rows ``beside`` (of the capture, its files and schemas).
    ``headers`` are events without images (of an event log: with their bytes); ``transactions`` those of the model, or,
    of a stream of committed work, summaries; None if nothing tells whether one is complete."""
    severity = F.create_map(*[F.lit(text) for code in Problem for text in (str(code), str(code.severity))])
    of_events = events.filter(F.col("problems").isNotNull()).withColumn("problem", F.explode("problems"))
    placed = of_events.select(*_PLACED)
    if form.pairing is Pairing.OBJECT:
        among = [key_spellings(headers), *([] if changes is None else [repeated_records(headers)])]
        for found_among in among:
            placed = placed.unionByName(found_among.select(*_PLACED))
    elif changes is not None and form.pairing is not Pairing.NONE:
        of_changes = changes.filter(F.col("problems").isNotNull()).withColumn("problem", F.explode("problems"))
        of_changes = of_changes.filter(F.col("problem")["code"].isin(*map(str, _ONLY_ASSEMBLED)))
        placed = placed.unionByName(of_changes.withColumn("raw", F.lit(None).cast("binary")).select(*_PLACED))
    rows = placed.select(
        severity[F.col("problem.code")].alias("severity"),
        F.col("problem.code").alias("code"),
        F.col("problem.detail").alias("sentence"),
        "file",
        "offset",
        "length",
        F.lower(F.hex(F.substring("raw", 1, 32))).alias("first_bytes"),
        "transaction_id",
        table_label().alias("table"),
    )
    found = conform(rows, "problems")
    if form.pairing is Pairing.OBJECT:
        return found.unionByName(beside)
    if transactions is not None and form.commits:
        found = found.unionByName(_without_end(transactions))
    elif transactions is not None:
        found = found.unionByName(committed.missing_events(transactions))
    if not form.commits:
        found = found.unionByName(committed.frozen_times(headers))
    return found.unionByName(beside)


_PLACED = ("problem", "file", "offset", "length", "raw", "transaction_id", "schema_name", "table_name")


def _without_end(transactions: DataFrame) -> DataFrame:
    """Transactions whose begin or end is missing, as problems."""

    def told(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pylist(open_ones(batch), schema=model.PROBLEMS)

    return transactions.mapInArrow(told, from_arrow_schema(model.PROBLEMS))
