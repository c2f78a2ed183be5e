"""Assembly of changes, transactions and problems from decoded events, and from what splits leave to be joined
(docs/formats/*.md §6): a shuffle by transaction, or by table and position, brings the rows of each together."""

from __future__ import annotations

import contextlib
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from cdcwb import model
from cdcwb.formats import get_format
from cdcwb.formats.assembler import Assembler
from cdcwb.formats.changes import CHANGES, Read, collected
from cdcwb.formats.dissector import OF_CHANGES, Assembling, Format, Pairing, Wanted
from cdcwb.formats.findings import ELSEWHERE, OF_EVENTS, PROBLEMS, across, find, key_of
from cdcwb.formats.halves import HALVES, Halved, halved_of
from cdcwb.formats.requests import select
from cdcwb.formats.summaries import OF_PARTS
from cdcwb.model import Kind
from cdcwb.spark import committed, exchange
from cdcwb.spark.objects import repeated_records

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = [
    "assemble_changes",
    "assemble_problems",
    "assemble_transactions",
    "conform",
    "findings_of",
    "joined_transactions",
    "problems_of",
]


def conform(frame: DataFrame, table: str) -> DataFrame:
    """The frame with exactly the columns of the model's table, in its order and types."""
    wanted = from_arrow_schema(model.TABLES[table])
    return frame.select([F.col(field.name).cast(field.dataType).alias(field.name) for field in wanted.fields])


def assemble_changes(events: DataFrame, keys: Mapping[str, Sequence[str]], form: Format) -> DataFrame:
    """``changes`` from ``events`` of any splits. ``keys``: key columns by table, for tables without captured keys. For
    event logs see :func:`cdcwb.spark.objects.join_statements`."""
    return _assemble(events, keys, form, "changes")


def assemble_transactions(headers: DataFrame, changes: Callable[[], DataFrame], form: Format) -> DataFrame:
    """``transactions`` from events and, for sources of committed changes, from changes, both without images."""
    if form.pairing is Pairing.OBJECT:  # an event log has none
        return headers.sparkSession.createDataFrame([], from_arrow_schema(model.TRANSACTIONS))
    if form.commits or isinstance(form, Assembling):
        return _assemble(headers, {}, form, "transactions")
    parts = committed.parts(headers, halved_of(form))
    return conform(committed.summaries(parts, committed.parts_of(changes())), "transactions")


def joined_transactions(sent: DataFrame, form: Format) -> DataFrame:
    """``transactions`` from those of splits and the parts of those in several
    (:meth:`cdcwb.formats.dissector.Assembling.read_transactions`), which were sent as batches."""
    name = form.name

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from collected(exchange.received(batches), cast(Assembling, get_format(name)).merged)

    return exchange.together(sent).mapInArrow(work, from_arrow_schema(model.TRANSACTIONS))


def _assemble(events: DataFrame, keys: Mapping[str, Sequence[str]], form: Format, table: str) -> DataFrame:
    """A table of the model, by :class:`cdcwb.formats.assembler.Assembler`. Events that belong together are in one
    task, in capture order, in a temporary file of the task."""
    name, schema = form.name, model.TABLES[table]
    halved = Halved(consecutive=form.pairing is Pairing.TRANSACTION)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with _temporary_file(batches) as read:
            source = Assembler(get_format(name), keys, [(read, halved)])
            yield from getattr(source, table)()

    of_changes = F.col("kind").isin(*CHANGES)
    if form.pairing is Pairing.POSITION:
        together = _by_position(events.filter(of_changes))
    else:
        is_fragment = F.col("kind") == str(Kind.FRAGMENT)
        needs_others = F.col("kind").isin(*HALVES) | is_fragment | F.col("headers")["fragments"].isNotNull()
        alone = F.when(needs_others, F.concat_ws("\0", "schema_name", "table_name"))
        group = F.coalesce("transaction_id", F.concat(F.lit("\0"), F.coalesce(alone, _location())))
        of_changes = of_changes | is_fragment
        together = events.filter(of_changes | F.col("transaction_id").isNotNull()).repartition(group)
    ordered = together.select(*OF_CHANGES).sortWithinPartitions("file_index", "offset")
    return ordered.mapInArrow(work, from_arrow_schema(schema))


def _by_position(rows: DataFrame) -> DataFrame:
    """Brings halves of updates together, by position, table and folder; rows without a position stay alone."""
    folder = F.regexp_replace("file", "[^/]*$", "")
    return rows.repartition(folder, "schema_name", "table_name", F.coalesce("position", _location()))


def _location() -> Column:
    """A text that is different for every row."""
    return F.concat_ws(" ", F.col("file_index").cast("string"), F.col("offset").cast("string"))


@contextlib.contextmanager
def _temporary_file(batches: Iterator[pa.RecordBatch]) -> Iterator[Read]:
    """Reads the given events (:data:`cdcwb.formats.dissector.OF_CHANGES`) as often as needed, from a temporary file."""
    schema = pa.schema([model.EVENTS.field(name) for name in OF_CHANGES])
    missing = pa.field("raw", model.EVENTS.field("raw").type)
    with tempfile.TemporaryDirectory(prefix="cdcwb-") as folder:
        path = f"{folder}/events.arrow"
        with pa.ipc.new_file(path, schema) as writer:
            for batch in exchange.typed(batches, schema):
                writer.write_batch(batch)

        def read(wanted: Wanted) -> Iterator[pa.RecordBatch]:
            with pa.memory_map(path) as source:
                events = pa.ipc.open_file(source)
                for number in range(events.num_record_batches):
                    batch = events.get_batch(number)
                    for rows in select(batch, wanted):
                        yield rows.append_column(missing, pa.nulls(rows.num_rows, missing.type)).select(
                            model.EVENTS.names
                        )

        yield read


def problems_of(findings: DataFrame, form: Format) -> DataFrame:
    """``problems`` of events, changes and transactions, from the ``findings`` of all splits
    (:mod:`cdcwb.formats.findings`)."""
    name = form.name

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: dict[str, list[pa.RecordBatch]] = defaultdict(list)

        def events() -> Iterator[pa.RecordBatch]:
            for what, rows in exchange.received(batches):
                if what == ELSEWHERE:
                    yield rows
                else:
                    found[what].append(rows)

        with _temporary_file(events()) as read:
            yield from found.pop(PROBLEMS, [])
            tables = {what: pa.Table.from_batches(rows) for what, rows in found.items()}
            yield from across(get_format(name), tables, read)

    return exchange.together(findings).mapInArrow(work, from_arrow_schema(model.PROBLEMS))


def findings_of(events: DataFrame, form: Format, groups: int) -> DataFrame:
    """The findings of events of any splits (:func:`cdcwb.formats.findings.find`), sent in so many groups."""
    headers = form.pairing in (Pairing.TRANSACTION, Pairing.OBJECT)
    columns = [*dict.fromkeys((*OF_EVENTS, *OF_PARTS, *(("headers", "key") if headers else ())))]
    schema, name = pa.schema(map(model.EVENTS.field, columns)), form.name

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = find(get_format(name), None, None, lambda _: exchange.typed(batches, schema), Wanted())
        for number, (what, rows) in enumerate(found):
            yield from exchange.send(what, rows, key_of(what), groups, number)

    with_problems = form.commits or isinstance(form, Assembling)
    rows = events.filter(F.col("problems").isNotNull()) if with_problems else events
    first = F.substring("raw", 1, model.FIRST_BYTES).alias("raw")
    rows = rows.select(*[first if column == "raw" else column for column in columns])
    return rows.mapInArrow(work, from_arrow_schema(exchange.SENT))


def assemble_problems(events: DataFrame, form: Format) -> DataFrame:
    """The problems that several events of any splits show only together, besides those of :func:`problems_of`."""
    if form.pairing is Pairing.OBJECT:
        return repeated_records(events)
    if form.pairing is Pairing.TRANSACTION:  # by their order
        types = events.schema
        events = events.withColumns({name: F.lit(None).cast(types[name].dataType) for name in _NOT_FOR_ORDER})
    return _assemble(events, {}, form, "problems")


_NOT_FOR_ORDER: Final = ("key", "before", "after", "changed_columns", "present_columns")
