"""The tables of a capture by source: files, a DataFrame, or a saved capture."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

from cdcwb import model
from cdcwb.dataset import Batches, Rows, needs_images, schema_of
from cdcwb.errors import CaptureError
from cdcwb.formats import get_format
from cdcwb.formats.changes import Halving, halved_of
from cdcwb.formats.delivered import EndsOfOthers, assembly_of, joined_halves
from cdcwb.formats.dissector import OF_CHANGES, Assembling, Pairing, RowFormat, TableRequest
from cdcwb.formats.parts import SplitPart
from cdcwb.formats.source import known
from cdcwb.local_tables import (
    FIRST_POSITIONS,
    LocalTables,
    ReadingPlan,
    first_positions,
    tables_of,
    versions_from,
)
from cdcwb.spark_rows import SparkRows, TaskReader
from cdcwb.stored import Stored
from cdcwb.writing import naming, scratch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from cdcwb.spark.source import RowsOf


MOST_ROWS: Final = 20_000_000
"""The most rows of a saved table that are read in this process; Spark reads more."""

MOST_IMAGES: Final = 1_000_000
"""The same where images are needed, which may have to be sorted in memory."""

BROADCAST_AT_MOST: Final = 1_000_000
"""Records up to which every task gets the ends of all transactions."""

_OF_IMAGES: Final = ("before", "after", "changed_columns", "present_columns")


class _InSession:
    """What is read in a Spark session: the given one (None: the running one, or a new one), or if that was stopped, the
    one that is running instead."""

    def __init__(self, spark: SparkSession | None) -> None:
        self._session = spark

    @property
    def spark(self) -> SparkSession:
        """The session, which is started when it is first needed. Raises CaptureError if it was stopped and none is
        running."""
        from cdcwb.spark.session import get_spark, usable
        from cdcwb.spark.source import register

        session = get_spark() if self._session is None else usable(self._session)
        if session is not self._session:
            register(session)
            self._session = session
        return session

    def frame(self, table: str, images: bool = True, columns: Sequence[str] | None = None) -> DataFrame:
        """A table (a name of :data:`cdcwb.model.TABLES`), or some columns of it, as a DataFrame; events and changes
        without images if these are not needed."""
        raise NotImplementedError

    def spark_rows(self, table: str, columns: Sequence[str]) -> Rows:
        """Some columns of a table, read by Spark."""
        frame = self.frame(table, needs_images(table, columns))
        return SparkRows(frame.select(*columns), schema_of(table, columns))


class Live(ReadingPlan, _InSession):
    """The tables of a capture that is read from its files."""

    def __init__(self, spark: SparkSession | None, *planned: Any) -> None:
        ReadingPlan.__init__(self, *planned)
        _InSession.__init__(self, spark)

    @cached_property
    def text(self) -> str:
        """The plan as text, for the tasks of Spark."""
        return self.plan.to_text()

    @cached_property
    def listing(self) -> str:
        """What is known of the files, for the same."""
        return json.dumps(known(entry["file"] for entry in self.files))

    @cached_property
    def small(self) -> LocalTables | None:
        """The same tables, computed in this process; None if Spark has to compute them
        (:func:`cdcwb.local_tables.tables_of`)."""
        return tables_of(self)

    def rows(self, table: str, columns: Sequence[str]) -> Rows | None:
        """Some columns of a table (a name of :data:`cdcwb.model.TABLES`), read in this process; None if Spark has to
        compute them. What has no images is read once, changes with images are written to a temporary file once."""
        small, schema = self.small, schema_of(table, columns)
        if small is None:
            return None
        if table == "changes" and needs_images(table, columns):
            folder = self._scratch / table
            if not folder.exists():
                with naming(self._scratch):
                    small.write_table(table, part := Path(mkdtemp(dir=self._scratch)))
                    (part / table).rename(folder)
            return Stored(folder, table, columns)
        if table == "events" and needs_images(table, columns):
            return Rows(lambda: small.select_events(columns), schema)
        if table not in self._read_once:
            images = [False] if table in ("events", "changes") else []
            self._read_once[table] = list(getattr(small, table)(*images))
        batches = self._read_once[table]
        return Rows(lambda: (batch.select(columns) for batch in batches), schema)

    @cached_property
    def _read_once(self) -> dict[str, list[pa.RecordBatch]]:
        return {}

    @cached_property
    def _scratch(self) -> Path:
        return scratch(self, "cdcwb-tables-")

    def frame(self, table: str, images: bool = True, columns: Sequence[str] | None = None) -> DataFrame:
        """See :class:`_InSession`."""
        if table == "events":
            return self.events(images, columns=columns)
        rows: DataFrame = self.changes(images) if table == "changes" else getattr(self, table)()
        return only(rows, columns)

    def _read(self, **options: str) -> DataFrame:
        from cdcwb.spark.source import source_name

        all_options = {"plan": self.text, "listing": self.listing, **options}
        return self.spark.read.format(source_name(self.format.name)).options(**all_options).load()

    def spark_rows(self, table: str, columns: Sequence[str]) -> Rows:
        """See :class:`_InSession`. What is made of events and changes is made where they are read."""
        images = needs_images(table, columns)
        if table == "events":
            return self._reading(schema_of(table, columns), **self._options(images, columns=columns))
        if table == "transactions":
            return self._transactions().select(columns)
        if table == "table_versions":
            return Rows.of(self._versions.select(columns).cast(schema_of(table, columns)))
        if table != "changes" or not self._is_assembled_in_splits:
            return super().spark_rows(table, columns)
        rows = self._reading(schema_of(table, columns), **self._of_changes(images, columns))
        crosses = self._something_crosses
        return rows.union(self._changes_of_crossing(images).select(columns)) if crosses else rows

    def _reading(self, schema: pa.Schema, **options: str) -> SparkRows:
        """The rows that a data source with these options reads."""
        return SparkRows(self._reader(options), schema)

    def _reader(self, options: Mapping[str, str]) -> TaskReader:
        from cdcwb.spark.source import through

        def read(function: Callable[[Batches], Batches], made: pa.Schema) -> DataFrame:
            return self._read(**options, **through(function, made))

        def near_tables(tables: Collection[str]) -> TaskReader:
            return self._reader({**options, "near_tables": json.dumps(sorted(tables))})

        return TaskReader(self.spark, read, self.origin is not None, near_tables)

    def _options(self, images: bool, mode: str | None = None, columns: Sequence[str] | None = None) -> dict[str, str]:
        options = {"images": str(images and self.with_images).lower(), "mode": mode or self.mode}
        return options if columns is None else {**options, "columns": ",".join(columns)}

    def events(self, images: bool, mode: str | None = None, columns: Sequence[str] | None = None) -> DataFrame:
        """One row per wire record; without ``images`` these and raw are null. ``mode`` overrides the capture's.
        ``columns``: only these; the others are not passed to Spark, and not decoded if that saves work."""
        from cdcwb.spark.source import unpack

        return unpack(self._read(packed="true", **self._options(images, mode, columns)), columns=columns)

    def changes(self, images: bool) -> DataFrame:
        """One row per logical change."""
        from cdcwb.spark import exchange
        from cdcwb.spark.source import unpack

        if self._is_sorted:
            return self._in_order(SplitPart("changes", keys=self.keys), images and self.with_images, OF_CHANGES)
        changes = unpack(self._read(packed="true", **self._of_changes(images)), rows=model.CHANGES)
        if not self._is_assembled_in_splits:
            here = self._read(part="ends_here", images="false", mode=self.mode)
            few = self.facts.get("records", BROADCAST_AT_MOST + 1) <= BROADCAST_AT_MOST
            return exchange.add_ends(changes, here, few)
        return changes.unionByName(self._changes_of_crossing(images).frame) if self._something_crosses else changes

    def _of_changes(self, images: bool, columns: Sequence[str] | None = None) -> dict[str, str]:
        """The options of a source of the changes that are assembled within splits."""
        from cdcwb.spark.source import written_ends

        ends = written_ends(self._ends) if self._marks_ends and self._ends is not None else {}
        return {"part": "changes", "keys": json.dumps(self.keys), **self._options(images, columns=columns), **ends}

    @property
    def _is_assembled_in_splits(self) -> bool:
        """Whether changes that are assembled within splits lack nothing, apart from those that cross them."""
        return not self._is_sorted and (not self._marks_ends or self._ends is not None)

    @property
    def _is_sorted(self) -> bool:
        """Whether all events have to be read in an order that they do not have, instead of split by split."""
        return not assembly_of(self.format).in_splits(self.plan)

    @property
    def _marks_ends(self) -> bool:
        """Whether changes get facts from the end of their transaction, which may be in another split."""
        return not isinstance(self.format, (Assembling, Halving))

    @cached_property
    def _ends(self) -> EndsOfOthers | None:
        """What splits need to know of the ends of transactions in others, by a job of Spark; None if these are too
        many."""
        from cdcwb.spark.exchange import collected_ends, groups_of

        return collected_ends(self._sent("ends_here", images=False), groups_of(self.facts))

    @cached_property
    def _something_crosses(self) -> bool:
        """Whether some changes are assembled from the rows of several splits."""
        form = self.format
        return isinstance(form, Halving) and any(halved_of(form, self.plan, split).shared for split in self._splits)

    @property
    def _splits(self) -> Sequence[int | None]:
        return range(len(self.plan.splits))

    def _changes_of_crossing(self, images: bool) -> SparkRows:
        """The changes that are assembled from the rows of several splits."""
        options = self._options(images, columns=OF_CHANGES)
        halves = self._reading(schema_of("events", OF_CHANGES), part="elsewhere", **options)
        join = partial(joined_halves, self.format, self.keys)
        keys, order = ("schema_name", "table_name", "position"), ("file_index", "offset")
        return cast(SparkRows, halves.by_key(keys, order, join, model.CHANGES))

    def _in_order(self, part: SplitPart, images: bool, columns: Sequence[str], mode: str | None = None) -> DataFrame:
        """A part of all events, in the order of their positions."""
        from cdcwb.spark.exchange import in_order

        return in_order(self.events(images, mode, columns), self.format.name, self.plan, part)

    def transactions(self) -> DataFrame:
        """One row per transaction."""
        return self._transactions().frame

    def _transactions(self) -> SparkRows:
        from cdcwb.spark.exchange import counted, groups_of, merged_transactions

        sent = self._sent("transactions", images=False)
        if self._something_crosses:
            sent = sent.union(counted(self._changes_of_crossing(False).frame, groups_of(self.facts)))
        return merged_transactions(sent)

    def table_versions(self) -> DataFrame:
        """One row per version of a table."""
        return Rows.of(self._versions).to_frame(self.spark)

    @cached_property
    def _versions(self) -> pa.Table:
        firsts = first_positions(self.spark_rows("events", FIRST_POSITIONS))
        return versions_from(self.format.table_versions(self.plan), firsts)

    def problems(self) -> DataFrame:
        """One row per problem."""
        from cdcwb.spark.exchange import problems_of

        others = Rows.of(pa.Table.from_pylist(self.format.problems(self.plan), model.PROBLEMS)).to_frame(self.spark)
        if self._is_sorted:
            columns = [name for name in model.EVENTS.names if name not in _OF_IMAGES]
            problems = self._in_order(SplitPart("findings"), self.with_images, columns, "PERMISSIVE")
        else:
            problems = problems_of(self._sent("findings", self.with_images), self.format.name).frame
        return problems.unionByName(others)

    def _sent(self, part: str, images: bool) -> DataFrame:
        """A part of the splits, sent as batches (:mod:`cdcwb.spark.exchange`)."""
        from cdcwb.spark.exchange import groups_of

        return self._read(part=part, **self._options(images), groups=str(groups_of(self.facts)))

    def detected(self) -> DataFrame:
        """One row per detected setting."""
        return Rows.of(pa.Table.from_pylist(self.detected_rows, model.DETECTED)).to_frame(self.spark)

    def table(self, request: TableRequest) -> DataFrame:
        """One table's row records with real types."""
        self.format.table_schema(self.plan, request)  # a wrong name is a CaptureError here, not Spark's later
        options = {"table": request.name, "table_images": request.images, "table_schema": request.schema}
        if request.columns is not None:
            options["columns"] = "\x1f".join(request.columns)
        return self._read(**options)


class LiveRows(Live):
    """The tables of a capture that is read from a DataFrame; ``name`` is the capture's name."""

    def __init__(self, rows: RowsOf, name: str, *planned: Any) -> None:
        super().__init__(rows.frame.sparkSession, *planned)
        self.source, self.name = rows, name

    small = None
    _ends = None
    _splits = (None,)

    @property
    def _is_sorted(self) -> bool:
        """As :attr:`Live._is_sorted`: statements may continue in any other partition."""
        return self.format.pairing is Pairing.OBJECT

    @property
    def spark(self) -> SparkSession:
        """The session of the DataFrame. Raises CaptureError if it was stopped, which ends its DataFrames too."""
        from cdcwb.spark.session import STOPPED, usable

        session = self.source.frame.sparkSession
        if usable(session) is not session:
            raise CaptureError(STOPPED)
        return session

    def _read(self, **options: str) -> DataFrame:
        from cdcwb.spark.source import read_rows

        needed = cast(RowFormat, self.format).of_tables if "table" in options else None
        _ = self.spark
        return read_rows(self.source, self.format.name, {"plan": self.text, **options}, needed)


class Saved(_InSession):
    """The tables of a saved capture."""

    small = None

    def __init__(self, spark: SparkSession | None, folder: Path, facts: dict[str, Any]) -> None:
        super().__init__(spark)
        self.folder = folder
        self.format = get_format(facts["format"])
        self.files: list[dict[str, Any]] = facts["files"]
        self.facts: dict[str, Any] = facts["facts"]
        self._about = facts

    def _read(self, table: str) -> DataFrame:
        from pyspark.sql.pandas.types import from_arrow_schema

        return self.spark.read.schema(from_arrow_schema(model.TABLES[table])).parquet(str(self.folder / table))

    def rows(self, table: str, columns: Sequence[str]) -> Rows | None:
        """Some columns of a table, read in this process; None if there are more than :data:`MOST_ROWS` rows, or
        :data:`MOST_IMAGES` with images."""
        stored = Stored(self.folder / table, table, columns)
        most = MOST_IMAGES if needs_images(table, columns) else MOST_ROWS
        return stored if stored.count() <= most else None

    def continuation(self) -> dict[str, Any]:
        """What appending files needs, or why they cannot be appended, as it was saved."""
        return dict(self._about.get("continue") or {})

    def frame(self, table: str, images: bool = True, columns: Sequence[str] | None = None) -> DataFrame:
        """See :class:`_InSession`."""
        from pyspark.sql import functions as F

        rows = only(self._read(table), columns)
        if table != "transactions":
            return rows
        value = F.col("completeness")
        now = F.when(value == model.WHOLE, str(model.Completeness.COMPLETE)).otherwise(value)
        return rows.withColumn("completeness", now)

    def table(self, request: TableRequest) -> DataFrame:
        """One table's row records with real types."""
        raise CaptureError(
            "a saved capture holds text images, no typed columns: load the files it was saved from",
            path=str(self.folder),
        )


class Part:
    """The tables of a capture with only some of their rows. Whatever a child does not have is that of
    ``tables``."""

    small: LocalTables | None = None

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tables, name)

    def continuation(self) -> dict[str, Any]:
        """Why files cannot be appended."""
        return {"not": "only some of its rows or values were saved"}


Tables = Live | Saved | Part


def rows_of(tables: Tables, table: str, columns: Sequence[str]) -> Rows:
    """Some columns of a table, read in this process if possible, else by Spark."""
    local = tables.rows(table, columns)
    return tables.spark_rows(table, columns) if local is None else local


def only(frame: DataFrame, columns: Sequence[str] | None) -> DataFrame:
    """The given columns of a frame; None: all."""
    return frame if columns is None else frame.select(*columns)
