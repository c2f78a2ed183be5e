"""A capture as a set of Spark DataFrames, opened from files, a folder, or what :meth:`Capture.save` wrote."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cdcwb import model
from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats import Paths, choose, choose_rows, get_format
from cdcwb.formats.base import Format, Pairing, Plan, Recognition, RowFormat, TableRequest
from cdcwb.formats.files import list_files
from cdcwb.formats.options import as_bool, as_choice, nearest, parse_keys

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from cdcwb.model import Outcome  # noqa: F401  (named in docstrings)
    from cdcwb.spark.rows import RowsOf

__all__ = ["Capture", "load", "register", "saved_format"]

SAVED: Final = "cdcwb.json"
"""The file that tells a saved capture from a folder of raw files."""

_VERSION: Final = 1
_MOST_NAMED: Final = 1000  # transactions that a filter names one by one


def register(spark: SparkSession) -> None:
    """Registers the data sources ``cdcwb-gbase8s`` … in a Spark session, for ``spark.read.format(…).load(path)``."""
    from cdcwb.spark.source import register as register_sources

    register_sources(spark)


def load(
    path: Paths | DataFrame, format: str = "auto", *, spark: SparkSession | None = None, **options: Any
) -> Capture:
    """Opens a capture: a file, a folder whose files continue one stream in natural name order, several of them, a
    folder that :meth:`Capture.save` wrote, or a Spark DataFrame (a topic as Spark reads it, a change table).

    ``format`` is a name of :data:`cdcwb.formats.FORMATS` or ``auto``. ``options`` are the format's
    (``cdcwb.formats.get_format(name).options``): among them ``mode`` (PERMISSIVE, DROPMALFORMED, FAILFAST), ``images``
    (False: headers only; images and raw are null then) and ``keys`` (``schema.table:c1+c2``). ``spark`` is the session
    to use; None: the running one, or a new local one. A DataFrame is a capture of rows: ``name`` is what it is called,
    and ``order_by`` (columns, parted by commas) their order, where they have one.

    A first pass over the files runs in Spark before this returns; the DataFrames are read when they are used.

    Raises CaptureError where the files cannot be read or are not recognised, an option is wrong, or (FAILFAST) for the
    first bytes that cannot be understood; MissingDependencyError without a usable Java.
    """
    if not isinstance(path, (str, os.PathLike, Sequence)):
        return _open_rows(path, format, options)
    saved = _saved_at(path)
    if saved is not None:
        return _open_saved(saved, spark, options)
    files = list_files(path)
    fmt, recognition = choose(files, format, options)
    if recognition.refusal is not None:
        raise recognition.refusal
    keys = parse_keys(options.get("keys"))
    images = as_bool("images", options.get("images", True))
    mode = as_choice("mode", options.get("mode", "PERMISSIVE"), ("PERMISSIVE", "DROPMALFORMED", "FAILFAST"))
    session = spark or _session()
    register(session)
    from cdcwb.spark.jobs import runner

    plan = fmt.plan(files, {name: value for name, value in options.items() if value is not None}, runner(session))
    _check_keys(fmt, plan, keys)
    return Capture(_Live(session, fmt, plan, _detected(fmt, recognition, format, plan), images, mode, keys))


def _detected(fmt: Format, recognition: Recognition, format: str, plan: Plan) -> list[dict[str, Any]]:
    row = {
        "scope": "capture",
        "setting": "format",
        "value": fmt.name,
        "evidence": "; ".join(recognition.evidence),
        "overridden": format != "auto",
    }
    return [row, *plan.detected]


def _open_rows(frame: DataFrame, format: str, options: dict[str, Any]) -> Capture:
    """A capture from a Spark DataFrame."""
    from cdcwb.spark.rows import RowsOf

    given = {name: value for name, value in options.items() if value is not None}
    name = str(given.pop("name", "rows"))
    rows = RowsOf(frame, given.pop("order_by", None))
    fmt, recognition = choose_rows(rows.schema, format, given)
    keys = parse_keys(given.get("keys"))
    images = as_bool("images", given.get("images", True))
    mode = as_choice("mode", given.get("mode", "PERMISSIVE"), ("PERMISSIVE", "DROPMALFORMED", "FAILFAST"))
    plan = fmt.plan_rows(name, rows.schema, rows.run, given)
    _check_keys(fmt, plan, keys)
    detected = _detected(fmt, recognition, format, plan)
    return Capture(_LiveRows(rows, fmt, plan, detected, images, mode, keys))


def _check_keys(fmt: Format, plan: Plan, keys: dict[str, list[str]]) -> None:
    """Raises OptionError for a key column that no version of its table has; a table may well not be in a capture."""
    versions = fmt.table_versions(plan).to_pylist() if keys else []
    for table, columns in keys.items():
        names = ({row["table_name"], f"{row['schema_name']}.{row['table_name']}"} for row in versions)
        mine = [row for row, named in zip(versions, names, strict=True) if table in named]
        known = list(dict.fromkeys(column["name"] for row in mine for column in row["columns"]))
        for column in columns if known else ():
            if column not in known:
                raise OptionError(
                    f"option keys: table {table!r} has no column {column!r}.{nearest(column, known)} "
                    f"There are: {', '.join(known)}."
                )


def _session() -> SparkSession:
    from cdcwb.spark.session import get_spark

    return get_spark()


class _Live:
    """The tables of a capture that is read from its files."""

    def __init__(
        self,
        spark: SparkSession,
        fmt: Format,
        plan: Plan,
        detected: list[dict[str, Any]],
        images: bool,
        mode: str,
        keys: dict[str, list[str]],
    ) -> None:
        self.spark = spark
        self.format = fmt
        self.plan = plan
        self.text = plan.to_text()
        self.detected_rows = detected
        self.with_images = images
        self.mode = mode
        self.keys = keys
        self.files = fmt.files(plan)
        self.facts = plan.facts

    def _read(self, **options: str) -> DataFrame:
        from cdcwb.spark.source import source_name

        return self.spark.read.format(source_name(self.format.name)).options(plan=self.text, **options).load()

    def events(self, images: bool, mode: str | None = None) -> DataFrame:
        from cdcwb.spark.packing import unpack

        decoded = images and self.with_images
        options = {"images": str(decoded).lower(), "mode": mode or self.mode}
        return unpack(self._read(packed="true", **options))

    def changes(self, images: bool) -> DataFrame:
        from cdcwb.spark.assemble import assemble_changes

        def assembled(events: DataFrame) -> DataFrame:
            return assemble_changes(events, self.events(False), self.keys, self.format, self.plan.facts)

        made = assembled(self.events(images))
        if not self.plan.facts.get("undo_records"):
            return made
        from cdcwb.spark.undo import mark

        return mark(made, made if images else assembled(self.events(True)))

    def transactions(self) -> DataFrame:
        from cdcwb.spark.assemble import assemble_transactions

        return assemble_transactions(self.events(False), self.changes(False), self.format)

    def table_versions(self) -> DataFrame:
        from pyspark.sql import functions as F

        from cdcwb.spark.assemble import conform

        versions = self._frame(self.format.table_versions(self.plan)).drop("first_position")
        used = (
            self.events(False)
            .filter(F.col("kind").isin("change", "before", "after") & F.col("table_version").isNotNull())
            .groupBy("table_version")
            .agg(F.min("position").alias("first_position"))  # text order is log order
        )
        return conform(versions.join(used, "table_version", "left"), "table_versions")

    def problems(self) -> DataFrame:
        import pyarrow as pa

        from cdcwb.spark.assemble import assemble_problems

        beside = self._frame(pa.Table.from_pylist(self.format.problems(self.plan), schema=model.PROBLEMS))
        events = self.events(True, mode="PERMISSIVE")  # what DROPMALFORMED drops leaves its problems
        # halves that are joined by position are compared with their masks
        changes = self.changes(self.format.pairing is Pairing.POSITION)
        return assemble_problems(events, changes, self.events(False), self.transactions(), beside, self.format)

    def detected(self) -> DataFrame:
        import pyarrow as pa

        return self._frame(pa.Table.from_pylist(self.detected_rows, schema=model.DETECTED))

    def _frame(self, table: pa.Table) -> DataFrame:
        import pyarrow as pa
        from pyspark.sql.pandas.types import from_arrow_schema

        rows = table.to_pylist()
        for field in table.schema:
            if pa.types.is_map(field.type):  # Arrow gives pairs, Spark wants dictionaries
                for row in rows:
                    row[field.name] = None if row[field.name] is None else dict(row[field.name])
        return self.spark.createDataFrame(rows, from_arrow_schema(table.schema))

    def table(self, request: TableRequest) -> DataFrame:
        self.format.table_schema(self.plan, request)  # a wrong name is a CaptureError here, not Spark's later
        options = {"table": request.name, "table_images": request.images, "table_schema": request.schema}
        if request.columns is not None:
            options["columns"] = "\x1f".join(request.columns)
        return self._read(**options)


class _LiveRows(_Live):
    """The tables of a capture that is read from a DataFrame."""

    def __init__(
        self,
        rows: RowsOf,
        fmt: RowFormat,
        plan: Plan,
        detected: list[dict[str, Any]],
        images: bool,
        mode: str,
        keys: dict[str, list[str]],
    ) -> None:
        super().__init__(rows.frame.sparkSession, fmt, plan, detected, images, mode, keys)
        self.rows = rows

    def events(self, images: bool, mode: str | None = None) -> DataFrame:
        from cdcwb.spark.rows import read_events

        return read_events(self.rows, self.format.name, self.text, images and self.with_images, mode or self.mode)

    def table(self, request: TableRequest) -> DataFrame:
        from cdcwb.spark.rows import read_table

        schema = self.format.table_schema(self.plan, request)
        return read_table(self.rows, self.format.name, self.text, request, schema)


class _Saved:
    """The tables of a capture that was saved as Parquet."""

    def __init__(self, spark: SparkSession, folder: Path, facts: dict[str, Any]) -> None:
        self.spark = spark
        self.folder = folder
        self.format = get_format(facts["format"])
        self.files: list[dict[str, Any]] = facts["files"]
        self.facts: dict[str, Any] = facts["facts"]

    def _read(self, table: str) -> DataFrame:
        from pyspark.sql.pandas.types import from_arrow_schema

        return self.spark.read.schema(from_arrow_schema(model.TABLES[table])).parquet(str(self.folder / table))

    def events(self, images: bool) -> DataFrame:
        return self._read("events")

    def changes(self, images: bool) -> DataFrame:
        return self._read("changes")

    def transactions(self) -> DataFrame:
        return self._read("transactions")

    def table_versions(self) -> DataFrame:
        return self._read("table_versions")

    def problems(self) -> DataFrame:
        return self._read("problems")

    def detected(self) -> DataFrame:
        return self._read("detected")

    def table(self, request: TableRequest) -> DataFrame:
        raise CaptureError(
            "a saved capture holds text images, no typed columns: load the files it was saved from",
            path=str(self.folder),
        )


class _Filters:
    """Which tables, transactions and times of a capture are looked at."""

    def __init__(
        self,
        tables: frozenset[str] | None,
        transactions: frozenset[str] | None,
        time_from: dt.datetime | None,
        time_to: dt.datetime | None,
        where: str | None,
    ) -> None:
        self.tables = tables
        self.transactions = transactions
        self.time_from = time_from
        self.time_to = time_to
        self.where = where


class Capture:
    """A capture, opened by :func:`load`. Each table is a Spark DataFrame with exactly the columns of
    :mod:`cdcwb.model`.

    ``events`` has a row for each wire record, ``changes`` one for each logical change, ``transactions``,
    ``table_versions`` and ``problems`` what their names say, ``detected`` what was concluded about the capture before
    it was decoded. Nothing is cached: a DataFrame that is used twice is read twice.
    """

    def __init__(self, tables: _Live | _Saved, filters: tuple[_Filters, ...] = ()) -> None:
        self._tables = tables
        self._filters = filters  # one after the other
        self._named: dict[_Filters, frozenset[str] | None] = {}

    # --- what it is ---------------------------------------------------------------------------------------------------

    @property
    def spark(self) -> SparkSession:
        """The session that its DataFrames belong to."""
        return self._tables.spark

    @property
    def has_images(self) -> bool:
        """False where it was loaded with ``images=False``, so that its values were never looked at."""
        return getattr(self._tables, "with_images", True)

    @property
    def format(self) -> str:
        """The format's name."""
        return self._tables.format.name

    @property
    def files(self) -> list[dict[str, Any]]:
        """Its files: file, file_index, size (bytes, decompressed), shape, compression, problem."""
        return self._tables.files

    @property
    def facts(self) -> dict[str, Any]:
        """What the first pass counted: bytes, records, open_transactions, highest_commit, restart_position …"""
        return self._tables.facts

    # --- tables -------------------------------------------------------------------------------------------------------

    @property
    def events(self) -> DataFrame:
        """One row per wire record; capture order is (file_index, offset)."""
        return self._looked_at(self._tables.events(True))

    @property
    def headers(self) -> DataFrame:
        """``events`` without images and raw bytes: several times as fast, for what needs no values. Problems of values
        are not seen. The condition of a filter may name images, so with one they are there."""
        return self._looked_at(self._tables.events(self._has_condition))

    @property
    def changes(self) -> DataFrame:
        """One row per logical change."""
        return self._looked_at(self._tables.changes(True))

    @property
    def change_headers(self) -> DataFrame:
        """``changes`` as :attr:`headers` are ``events``: without images, and so without changed_columns."""
        return self._looked_at(self._tables.changes(self._has_condition))

    @property
    def _has_condition(self) -> bool:
        return any(filters.where for filters in self._filters)

    @property
    def transactions(self) -> DataFrame:
        """One row per transaction."""
        return self._looked_at(self._tables.transactions())

    @property
    def table_versions(self) -> DataFrame:
        """One row per version of a table."""
        return self._looked_at(self._tables.table_versions())

    @property
    def problems(self) -> DataFrame:
        """One row per problem."""
        return self._looked_at(self._tables.problems())

    @property
    def detected(self) -> DataFrame:
        """What was concluded about the capture, with the evidence; filters do not touch it."""
        return self._tables.detected()

    def table(
        self, name: str, columns: Sequence[str] | None = None, images: str = "both", schema: str = "in_force"
    ) -> DataFrame:
        """One table's row records with real types, decoded straight from the bytes into the columns asked for.

        ``name`` is ``schema.table``, or ``table``. The result has file_index, offset, kind, operation, position,
        transaction_id and table_version, and the structures ``before`` and ``after`` (``images``: both, before or
        after; null where there is no such image) with a field for each of ``columns`` (None: all). Each row is decoded
        with the version in force at its place; ``schema="latest"`` gives only the newest version's columns, with its
        types.

        Raises CaptureError, with what there is, for a table or column that is not there.
        """
        return self._looked_at(
            self._tables.table(TableRequest(name, None if columns is None else tuple(columns), images, schema))
        )

    # --- looking at a part --------------------------------------------------------------------------------------------

    def filter(
        self,
        tables: Iterable[str] | None = None,
        transactions: Iterable[str] | None = None,
        time_from: str | dt.datetime | None = None,
        time_to: str | dt.datetime | None = None,
        where: str | None = None,
    ) -> Capture:
        """The same capture with only a part of its rows; of one that is filtered already, a part of that part.

        ``tables`` (``schema.table`` or ``table``) and ``transactions`` keep the rows of these. ``time_from`` (included)
        and ``time_to`` (excluded), ISO 8601 and UTC unless they say otherwise, keep what its source dates in that
        window: for rows that bear no time of their own (gbase8s) that is the end of their transaction. ``where`` is a
        Spark SQL condition; a table that has not all the columns it names keeps the rows of the transactions that have
        an event for which it holds.

        Raises OptionError for a time that is none.
        """
        filters = _Filters(
            None if tables is None else frozenset(tables) or None,
            None if transactions is None else frozenset(transactions) or None,
            _moment("time_from", time_from),
            _moment("time_to", time_to),
            where or None,
        )
        return Capture(self._tables, (*self._filters, filters))

    def _looked_at(self, frame: DataFrame) -> DataFrame:
        for filters in self._filters:
            frame = self._narrowed(frame, filters)
        return frame

    def _narrowed(self, frame: DataFrame, filters: _Filters) -> DataFrame:
        from cdcwb.spark.select import select

        windowed = filters.time_from is not None or filters.time_to is not None
        transactions = filters.transactions
        named = self._named_in_window(filters) if windowed and "ended_at" not in frame.columns else None
        if named is not None:  # a filter, where a join would look for the transactions of the window in every query
            transactions = named if transactions is None else transactions & named
            windowed = False
        return select(
            frame,
            tables=filters.tables,
            transactions=transactions,
            time_from=filters.time_from if windowed else None,
            time_to=filters.time_to if windowed else None,
            where=filters.where,
            ends=self._tables.transactions() if windowed else None,
            others=(self._tables.events(True), self._tables.changes(True)) if filters.where else (),
        )

    def _named_in_window(self, filters: _Filters) -> frozenset[str] | None:
        """The transactions of a time window, where only these bear times and they are few enough to name in a
        filter."""
        from cdcwb.spark.select import transactions_in_window

        if self._tables.format.row_times:
            return None
        if filters not in self._named:
            found = transactions_in_window(self._tables.transactions(), filters.time_from, filters.time_to)
            names = [row.transaction_id for row in found.select("transaction_id").limit(_MOST_NAMED + 1).collect()]
            self._named[filters] = frozenset(names) if len(names) <= _MOST_NAMED else None
        return self._named[filters]

    # --- keeping ------------------------------------------------------------------------------------------------------

    def save(self, directory: str | os.PathLike[str]) -> Path:
        """Writes all tables as Parquet, with what ``load`` needs to open them, into a new folder; returns its path.

        The folder appears whole or not at all. Raises CaptureError where it exists already.
        """
        target = Path(directory).expanduser().absolute()  # the JVM may have another working directory
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise CaptureError("there is something already, and it is not overwritten", path=str(target))
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            for name in model.TABLES:
                getattr(self, name).write.mode("overwrite").parquet(str(beside / name))
            facts = {"version": _VERSION, "format": self.format, "files": self.files, "facts": self.facts}
            (beside / SAVED).write_text(json.dumps(facts, indent=1), encoding="utf-8")
            if target.exists():
                target.rmdir()
            beside.chmod(0o755)
            beside.rename(target)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
        return target

    @cached_property
    def description(self) -> str:
        """Format and files in a few words."""
        count = len(self.files)
        return f"{self.format} capture of {count} file{'s' if count != 1 else ''}"

    def __repr__(self) -> str:
        return f"<{self.description}>"


def _moment(name: str, value: str | dt.datetime | None) -> dt.datetime | None:
    if value is None or value == "":
        return None
    if not isinstance(value, dt.datetime):
        try:
            value = dt.datetime.fromisoformat(value)
        except ValueError:
            raise OptionError(f"{name}: expected a time such as 2025-03-23T10:57:19Z, found {value!r}") from None
    return value if value.tzinfo else value.replace(tzinfo=dt.UTC)


def _saved_at(path: Paths) -> Path | None:
    if isinstance(path, (str, os.PathLike)) and (Path(path) / SAVED).is_file():
        return Path(path).absolute()
    return None


def saved_format(path: Paths) -> str | None:
    """The format of a saved capture; None where ``path`` is none. Raises CaptureError where it cannot be opened."""
    folder = _saved_at(path)
    return None if folder is None else str(_description(folder)["format"])


def _description(folder: Path) -> dict[str, Any]:
    try:
        facts: dict[str, Any] = json.loads((folder / SAVED).read_text(encoding="utf-8"))
        version = facts["version"]
    except (OSError, ValueError, KeyError, TypeError) as reason:
        raise CaptureError(f"not the description of a saved capture ({reason})", path=str(folder / SAVED)) from None
    if version != _VERSION:
        raise CaptureError(f"saved in version {version}; this one reads version {_VERSION}", path=str(folder))
    return facts


def _open_saved(folder: Path, spark: SparkSession | None, options: dict[str, Any]) -> Capture:
    if options:
        raise OptionError(f"a saved capture takes no reader options, found {', '.join(options)}", path=str(folder))
    return Capture(_Saved(spark or _session(), folder, _description(folder)))
