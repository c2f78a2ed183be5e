"""A capture as Spark DataFrames, opened from files, live sources, a DataFrame, or a saved capture."""

from __future__ import annotations

import datetime as dt
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cdcwb.dataset import Rows
from cdcwb.errors import OptionError
from cdcwb.filtering import FilteredTables, Limit, check_names, condition_of, limits_of
from cdcwb.formats import Paths
from cdcwb.formats.dissector import TableRequest
from cdcwb.formats.options import as_moment, check_window, event_columns
from cdcwb.local_tables import Origin
from cdcwb.opening import check_capture, open_rows, open_tables
from cdcwb.tables import Live, Saved, Tables, rows_of
from cdcwb.words import plural

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from cdcwb.index.selection import Selection
    from cdcwb.model import Outcome  # noqa: F401  (named in docstrings)
    from cdcwb.views import Views


ABOVE: Final = {
    "card": "cdcwb.views.card",
    "continuity": "cdcwb.analysis.continuity",
    "history": "cdcwb.analysis.history",
    "opening": "cdcwb.views.bench",
    "save": "cdcwb.saving",
    "simulate": "cdcwb.analysis.simulate",
    "state": "cdcwb.analysis.replay",
    "view": "cdcwb.views",
}
"""The modules that methods of a capture need and that import it: found when a method is called."""


def _above(name: str) -> Any:
    return import_module(ABOVE[name])


def register(spark: SparkSession) -> None:
    """Registers the data sources ``cdcwb-gbase8s`` … in a Spark session, for ``spark.read.format(…).load(path)``."""
    from cdcwb.spark.source import register as register_sources

    register_sources(spark)


def load(
    path: Paths | DataFrame, format: str = "auto", *, spark: SparkSession | None = None, **options: Any
) -> Capture:
    """Opens a capture: a file, a folder (also of a remote file system: ``s3://bucket/folder``, see docs/remote.md)
    whose files continue one stream in natural name order, several of them, a folder that :meth:`Capture.save` wrote,
    topics of a Kafka cluster (``kafka://host:9092/topic``), a table of a database (``jdbc:postgresql://host/db``), or a
    Spark DataFrame (a topic as Spark reads it, a change table).

    If one of the paths is a saved capture, new files are appended to it; files that it already has may be among them.
    The result is that of loading all files at once. The files that it was saved from must still exist. ``format`` and
    ``options`` are those that it was saved with, and may be left out.

    ``format`` is a name of :data:`cdcwb.formats.FORMATS` or ``auto``. ``options`` are the format's
    (``cdcwb.formats.get_format(name).options``): among them ``mode`` (PERMISSIVE, DROPMALFORMED, FAILFAST), ``images``
    (False: headers only; images and raw are null then) and ``keys`` (``schema.table:c1+c2``). ``spark`` is the session
    to use; None: the running one, or a new local one. Of topics, ``start`` and ``end`` are where to begin and where to
    end (``earliest``, ``latest``, an offset or a time), resolved to offsets now, and ``client_config`` is a file with
    the client's configuration (see docs/live.md); the messages are copied to files in the user's cache, which the next
    call continues. Of a database, ``dbtable`` is the table (``schema.table``), ``start`` and ``end`` are ids, and
    ``id_column`` is the record_id of an event log whose columns have other names; the range of ids is resolved now. A
    DataFrame is a capture of rows: ``name`` is its name, and ``order_by`` (columns, separated by commas) the order of
    the rows, if they have one.

    Files and options are checked first. A first pass over the files runs before this returns, for small captures in
    this process, for others in Spark. A session is started when a DataFrame is asked for, or a question about a capture
    that is not small; the DataFrames are read when they are used.

    Raises CaptureError if the files cannot be read or are not recognised, SourceDownError if a cluster or a database
    does not answer, CaptureError if files cannot be appended to a saved capture, if an option is wrong, or (FAILFAST)
    for the first bytes that cannot be parsed; MissingDependencyError without a usable Java.
    """
    if not isinstance(path, (str, os.PathLike, Sequence)):
        return Capture(open_rows(path, format, options))
    checked = check_capture(path, format, options)
    with _progress():
        capture = Capture(open_tables(checked, spark))
    capture.place = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    return capture


def _progress() -> AbstractContextManager[None]:
    """Shows in a live notebook that a capture is being opened, and for how long."""
    if "ipykernel" not in sys.modules:
        return nullcontext()
    progress: AbstractContextManager[None] = _above("opening").opening()
    return progress


class Capture:
    """A capture, opened by :func:`load`. Each table is a Spark DataFrame with exactly the columns of
    :mod:`cdcwb.model`: ``events``, ``changes``, ``transactions``, ``table_versions``, ``problems`` and ``detected``.

    Nothing is cached: a DataFrame that is used twice is read twice.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self.place: str | None = None  # the path that it was opened from, if that is one
        self.answers: dict[str, Any] = {}  # to questions that are asked more than once, by their names

    # --- properties ---------------------------------------------------------------------------------------------------

    @property
    def spark(self) -> SparkSession:
        """The session that its DataFrames belong to."""
        return self._tables.spark

    @property
    def question_session(self) -> SparkSession | None:
        """The session that answers questions about it; None if this process does."""
        return self.spark if self.local_rows("changes", ()) is None else None

    @property
    def has_images(self) -> bool:
        """False if it was loaded with ``images=False``."""
        return getattr(self._tables, "with_images", True)

    @property
    def committed_only(self) -> bool:
        """Whether its format delivers only committed changes, so that no transaction is open."""
        return not self._tables.format.commits

    @property
    def whole(self) -> Capture:
        """The capture without the filters that it has."""
        return Capture(self._tables.tables) if isinstance(self._tables, FilteredTables) else self

    @property
    def stored(self) -> bool:
        """Whether it is an unfiltered saved capture."""
        return isinstance(self._tables, Saved)

    @property
    def saved_in(self) -> Path | None:
        """The folder of an unfiltered saved capture; else None."""
        return self._tables.folder if isinstance(self._tables, Saved) else None

    @property
    def origin(self) -> Origin | None:
        """The files from which an unfiltered capture was opened; else None."""
        return self._tables.origin if type(self._tables) is Live else None

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
        """The counts of the first pass: bytes, records, open_transactions, highest_commit, restart_position …"""
        return self._tables.facts

    # --- rows ---------------------------------------------------------------------------------------------------------

    def rows(self, table: str, columns: Sequence[str]) -> Rows:
        """Some columns of a table (a name of :data:`cdcwb.model.TABLES`), to ask a question of: read in this process if
        the capture is small, or saved and not very large, else by Spark."""
        return rows_of(self._tables, table, columns)

    def local_rows(self, table: str, columns: Sequence[str]) -> Rows | None:
        """:meth:`rows` that this process reads; None if Spark has to."""
        return self._tables.rows(table, columns)

    # --- tables -------------------------------------------------------------------------------------------------------

    @property
    def events(self) -> DataFrame:
        """One row per wire record; capture order is (file_index, offset)."""
        return self._tables.frame("events")

    @property
    def headers(self) -> DataFrame:
        """``events`` without images and raw bytes, which is several times as fast. Problems of values are not detected.
        If a filter has a condition, which may name images, they are included."""
        return self._tables.frame("events", images=False)

    def select_events(self, *columns: str) -> DataFrame:
        """Some columns of ``events``, as ``events.select(*columns)``, without decoding the others. Spark
        copies every decoded column, used or not, and images and bytes are most of the data.

        Raises OptionError for a name that is not a column of ``events``.
        """
        return self._tables.frame("events", columns=event_columns(columns))

    @property
    def changes(self) -> DataFrame:
        """One row per logical change. If transactions cross borders of splits (GBase 8s, GoldenGate), the first access
        runs a Spark job over headers."""
        return self._tables.frame("changes")

    @property
    def change_headers(self) -> DataFrame:
        """``changes`` as :attr:`headers` are ``events``: without images, and so without changed_columns."""
        return self._tables.frame("changes", images=False)

    @property
    def transactions(self) -> DataFrame:
        """One row per transaction."""
        return self._tables.frame("transactions")

    @property
    def table_versions(self) -> DataFrame:
        """One row per version of a table."""
        return self._tables.frame("table_versions")

    @property
    def problems(self) -> DataFrame:
        """One row per problem. The first access may run a Spark job, like that of :attr:`changes`."""
        return self._tables.frame("problems")

    @property
    def detected(self) -> DataFrame:
        """What was inferred about the capture, with the evidence; filters do not apply to it."""
        return self._tables.frame("detected")

    def table(
        self, name: str, columns: Sequence[str] | None = None, images: str = "both", schema: str = "in_force"
    ) -> DataFrame:
        """One table's row records with real types, decoded straight from the bytes into the columns asked for.

        ``name`` is ``schema.table``, or ``table``. The result has file_index, offset, kind, operation, position,
        transaction_id and table_version, and the structures ``before`` and ``after`` (``images``: both, before or
        after; null if there is no such image) with a field for each of ``columns`` (None: all). Each row is decoded
        with the version in force at its position; ``schema="latest"`` gives only the newest version's columns, with
        its types.

        Raises CaptureError for an unknown table or column, and names those that exist.
        """
        request = TableRequest(name, None if columns is None else tuple(columns), images, schema)
        return self._tables.table(request)

    # --- views --------------------------------------------------------------------------------------------------------

    @cached_property
    def view(self) -> Views:
        """Its views: ``capture.view.transactions()`` and others (:mod:`cdcwb.views`), which share a selection."""
        views: Views = _above("view").Views(self)
        return views

    @property
    def selection(self) -> Selection:
        """The selection that all its views follow (:class:`cdcwb.index.selection.Selection`)."""
        return self.view.bench.selection

    # --- row history and replay ---------------------------------------------------------------------------------------

    def history(self, table: str, key: Mapping[str, str | None]) -> DataFrame:
        """Every change of one row in the order of the log: that of ``table`` (``schema.table``, or ``table``) whose
        columns have the values ``key`` (as text; None: NULL), also under the keys it had before and after.

        The columns of ``changes``, with ``user`` and ``differences`` (``column``, ``old``, ``new``, ``old_known``) of
        each (:func:`cdcwb.analysis.history.history`). Changes that were rolled back or undone are among them; see
        ``outcome``. Raises OptionError for a table, or a column of ``key``, that no change has.
        """
        self._needs_images("the history of a row")
        above = _above("history")
        rows: Rows = above.history(self, table, key)
        return rows.to_frame(self.spark).orderBy(*above.ORDER)

    def continuity(self) -> DataFrame:
        """The breaks in the continuity of rows: the changes that contradict the changes of their row before them
        (:mod:`cdcwb.analysis.continuity`, docs/continuity.md).

        ``table``, ``key``, ``kind`` (gap, stale, repeat, revived, phantom, late), ``sentence``, ``at``, ``operation``,
        ``position``, ``file_index``, ``offset`` and ``file`` of the record, ``earlier_operation`` … of the one that it
        contradicts, ``distance`` (of a late one) and ``columns`` (that differ).
        """
        self._needs_images("the continuity of rows")
        rows: Rows = _above("continuity").breaks(self)
        return rows.to_frame(self.spark).orderBy("file_index", "offset")

    def simulate(self, rule: str) -> DataFrame:
        """The rows that a target ends with wrongly if it applies changes by a rule of real sinks: ``arrival``,
        ``source_time``, ``commit``, ``deletes_first``, ``no_deletes`` or ``text_position``
        (:mod:`cdcwb.analysis.simulate`), against the order of commits.

        ``table``, ``key``, ``wrong`` (other values, missing, left over), the last record that the target applies
        (``operation``, ``position``, ``file_index``, ``offset``, ``at``) and the one that is right (``right_operation``
        …). Raises OptionError for a rule that does not exist.
        """
        self._needs_images("what a target holds")
        rows: Rows = _above("simulate").simulate(self, rule)
        return rows.to_frame(self.spark)

    def state(self, table: str, position: str | None = None, time: str | dt.datetime | None = None) -> DataFrame:
        """The rows of ``table`` after the changes that were committed at or before ``position`` (a log position) and
        ``time`` (ISO 8601, UTC without an offset); without either, at the end of the capture.

        ``key`` and ``row`` (maps of text), ``partial`` (the row's beginning is not in the capture, and not all of its
        columns are known), ``changes``, ``table_version``, ``position``, ``commit_position`` and ``committed_at`` of
        the last change (:func:`cdcwb.analysis.replay.state`). Raises OptionError for a table without changes, or
        without a key.
        """
        self._needs_images("the state of a table")
        rows: Rows = _above("state").state(self, table, position or None, _moment("time", time))
        return rows.to_frame(self.spark)

    def _needs_images(self, what: str) -> None:
        if not self.has_images:
            raise OptionError(f"{what} needs images, and the capture was loaded with images=False")

    # --- filters ------------------------------------------------------------------------------------------------------

    def filter(
        self,
        tables: Iterable[str] | None = None,
        transactions: Iterable[str] | None = None,
        time_from: str | dt.datetime | None = None,
        time_to: str | dt.datetime | None = None,
        where: str | None = None,
    ) -> Capture:
        """The capture with only a part of its rows. Filters of a filtered capture are combined.

        ``tables`` (``schema.table`` or ``table``) and ``transactions`` keep the rows of these. ``time_from`` (included)
        and ``time_to`` (excluded), ISO 8601 and UTC without an offset, keep what happened in that window: the time of a
        record or change is its own, else that of its commit, else the end of its transaction (gbase8s), else its begin;
        a transaction is in the window if it is open in it, a problem if its record or its transaction is. ``where`` is
        a filter of the explorer (:mod:`cdcwb.filters`); a table that lacks a column of it keeps the rows of the
        transactions that have an event (with values or changed columns: a change) for which it holds.

        Raises OptionError for no tables or transactions, a table that the capture does not have, an invalid time or
        window, and an invalid filter.
        """
        named = {"tables": _named("tables", tables), "transactions": _named("transactions", transactions)}
        times = {"time_from": _moment("time_from", time_from), "time_to": _moment("time_to", time_to)}
        check_window(*times.values())
        condition = condition_of(where or "", lambda: self.whole.rows("table_versions", ["columns"]))
        check_names(self.whole, named["tables"] or (), named["transactions"] or ())
        return self.matching(*limits_of(named | times), *([] if condition is None else [condition]))

    def selected(self) -> Capture:
        """The capture with only what its :attr:`selection` selects, as far as tables can be limited by it
        (:func:`cdcwb.filtering.limits_of`)."""
        return self.matching(*limits_of(self.selection.chosen()))

    def matching(self, *limits: Limit) -> Capture:
        """The capture with only the rows that match more limits."""
        tables = self._tables
        if isinstance(tables, FilteredTables):
            return Capture(FilteredTables(tables.tables, (*tables.limits, *limits)))
        return Capture(FilteredTables(tables, limits)) if limits else self

    # --- saving -------------------------------------------------------------------------------------------------------

    def save(self, directory: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Writes all tables as Parquet, with what ``load`` needs to open them, into a new folder; returns its path.

        The folder is written atomically. Raises CaptureError if it already exists; with ``overwrite`` a saved capture
        is replaced, also the one that is read, and only something else is an error."""
        path: Path = _above("save").save(self._tables, directory, overwrite)
        return path

    @cached_property
    def description(self) -> str:
        """A short description: format and number of files, or the name of its rows."""
        name = getattr(self._tables, "name", None)
        return f"{self.format} capture of {name or plural(len(self.files), 'file')}"

    def __repr__(self) -> str:
        return f"<{self.description}>"

    def _repr_html_(self) -> str:
        """The card that a notebook shows; the first call builds the index of the capture."""
        text: str = _above("card").card(self)
        return text


def _named(what: str, names: Iterable[str] | None) -> tuple[str, ...] | None:
    """The names that a filter keeps. Raises OptionError for none of them, which would keep everything or nothing."""
    chosen = None if names is None else (names,) if isinstance(names, str) else tuple(names)
    if chosen == ():
        raise OptionError(f"{what}: the list is empty. Leave {what} out to keep all of them")
    return chosen


def _moment(name: str, value: str | dt.datetime | None) -> dt.datetime | None:
    return None if value is None or value == "" else as_moment(name, value)
