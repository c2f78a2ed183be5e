"""A capture as Spark DataFrames, opened from files, live sources, a DataFrame, or a saved capture."""

from __future__ import annotations

import copy
import datetime as dt
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, cast

from cdcwb import model
from cdcwb.dataset import Rows, SparkRows, needs_images, schema_of
from cdcwb.errors import CaptureError, OptionError
from cdcwb.filtering import Filters, check_names, condition_of, conditions, filtered, needed_columns
from cdcwb.formats import Common, Paths, check_options, choose, choose_rows, get_format, row_format
from cdcwb.formats.containers.registry import without_login
from cdcwb.formats.continued import Stamps, stamps_of
from cdcwb.formats.dissector import Format, Plan, Recognition, RowFormat, Run, TableRequest, detected_row
from cdcwb.formats.files import list_files
from cdcwb.formats.options import as_moment, event_columns, nearest
from cdcwb.formats.source import folders_of, is_file, is_remote
from cdcwb.live.addresses import Topics, as_point, is_jdbc, is_kafka, kafka_settings
from cdcwb.live.jdbc import JdbcTable
from cdcwb.planned import Origin, Planned, plain
from cdcwb.saved import (
    read_description,
    replacing,
    saved_among,
    write_description,
)
from cdcwb.small import Small, is_small, tables_of
from cdcwb.spark.stored import check_tables
from cdcwb.tables import Continued, Decoded, Live, LiveRows, Saved
from cdcwb.words import plural, size

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from cdcwb.index.selection import Selection
    from cdcwb.model import Outcome  # noqa: F401  (named in docstrings)
    from cdcwb.views import Views

__all__ = [
    "Capture",
    "Checked",
    "check_capture",
    "load",
    "open_checked",
    "open_small",
    "register",
    "small_of",
]

_PARTIAL: Final = "only some of its rows or values were saved"
_DECODED: Final = "decoded"  # folder of all events, if only some rows or values of them are saved
_SAMPLE: Final = 256  # messages of topics, to detect the format
_OF_ROWS: Final = schema_of("changes", ("operation", "position", "transaction_id", "table_version"))
"""The columns of every table of typed rows that filters compare."""


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

    If one of the paths is a saved capture, new files are appended to it incrementally; files that it already has may be
    among them. The result equals loading all files at once, row for row in every table. The files that it was saved
    from must still exist; of these, only what changed, or what the new files show to be read in another way, is decoded
    again. A file is unchanged if its size and times (mtime, ctime) are the same. ``format`` and ``options`` are those
    that it was saved with, and may be left out.

    ``format`` is a name of :data:`cdcwb.formats.FORMATS` or ``auto``. ``options`` are the format's
    (``cdcwb.formats.get_format(name).options``): among them ``mode`` (PERMISSIVE, DROPMALFORMED, FAILFAST), ``images``
    (False: headers only; images and raw are null then) and ``keys`` (``schema.table:c1+c2``). ``spark`` is the session
    to use; None: the running one, or a new local one. Of topics, ``start`` and ``end`` are where to begin and where to
    end (``earliest``, ``latest``, an offset, a time, or a dictionary of offsets by topic and partition), resolved to
    offsets now, and ``client_config`` is a file with the client's configuration (see docs/live.md); the messages are
    copied to files in the user's cache, which the next call continues. Of a database, ``dbtable`` is the table
    (``schema.table``), ``start`` and ``end`` are ids, and ``id_column`` is the record_id of an event log whose columns
    have other names; the range of ids is resolved now. A DataFrame is a capture of rows:
    ``name`` is its name, and ``order_by`` (columns, separated by commas) the order of the rows, if they have one.

    Files and options are checked first. A first pass over the files runs before this returns, for small captures in
    this process, for others in Spark. A session is started when a DataFrame is asked for, or a question about a capture
    that is not small; the DataFrames are read when they are used.

    Raises CaptureError if the files cannot be read or are not recognised, SourceDownError if a cluster or a database
    does not answer, CaptureError if files cannot be appended to a saved capture, if an option is wrong, or (FAILFAST)
    for the first bytes that cannot be parsed; MissingDependencyError without a usable Java.
    """
    if not isinstance(path, (str, os.PathLike, Sequence)):
        return _open_rows(path, format, options)
    checked = check_capture(path, format, options)
    with _progress():
        capture = open_checked(checked, spark)
    capture.place = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    return capture


def _progress() -> AbstractContextManager[None]:
    """Shows in a live notebook that a capture is being opened, and for how long."""
    if "ipykernel" in sys.modules:
        from cdcwb.views.bench import making
        from cdcwb.views.view import is_live

        if is_live():
            return making("Opening the capture")
    return nullcontext()


@dataclass(frozen=True, slots=True)
class Reading:
    """How files are read: the format with its evidence, the options, and those that all formats share. ``given``: the
    requested format, which may be auto."""

    files: list[str]
    stamps: Stamps
    given: str
    format: Format
    recognition: Recognition
    options: dict[str, Any]
    common: Common


@dataclass(frozen=True, slots=True)
class DatabaseReading:
    """How a table of a database is read: the table, and the requested format and options."""

    table: JdbcTable
    given: str
    options: dict[str, Any]


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Checked:
    """A checked capture: the files to read (or None), the saved capture to which they are appended (or None) with its
    description; or a table of a database."""

    reading: Reading | None
    saved: Path | None = None
    about: dict[str, Any] = field(default_factory=dict)
    database: DatabaseReading | None = None

    @property
    def format_name(self) -> str:
        """The name of its format; of tables of databases the requested one, which may be auto."""
        if self.reading is not None:
            return self.reading.format.name
        return str(self.about["format"]) if self.database is None else self.database.given

    @property
    def packages(self) -> list[str]:
        """The packages that a Spark session needs to read it, as Maven coordinates."""
        return [] if self.database is None else self.database.table.packages


def check_capture(path: Paths, format: str = "auto", options: Mapping[str, Any] | None = None) -> Checked:
    """Checks a capture and its options without Spark: whether the files exist, whether a format recognises and reads
    them, and whether it has these options.

    Raises CaptureError as :func:`load` does.
    """
    known_options = without_login({name: value for name, value in (options or {}).items() if value is not None})
    places = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    if len(places) == 1 and is_kafka(places[0]):
        return Checked(_check_topics(str(places[0]), format, known_options))
    if any(map(is_kafka, places)):
        raise OptionError("topics are opened without other paths; one URL can name several topics")
    if len(places) == 1 and is_jdbc(places[0]):
        table = JdbcTable.take(str(places[0]), known_options)
        if format != "auto":
            check_options(row_format(format), known_options)
        return Checked(None, database=DatabaseReading(table, format, known_options))
    if any(map(is_jdbc, places)):
        raise OptionError("a table of a database is opened without other paths")
    saved, new_files = saved_among(path)
    if saved is None:
        return Checked(_check_files(list_files(path), format, known_options))
    if new_files:
        return _check_continued(saved, places, new_files, format, known_options)
    if known_options:
        raise OptionError(f"a saved capture takes no reader options, found {', '.join(known_options)}", path=str(saved))
    checked = Checked(None, saved, read_description(saved))
    get_format(checked.about["format"])
    check_tables(saved)
    return checked


def open_checked(checked: Checked, spark: SparkSession | None = None) -> Capture:
    """Opens the capture that :func:`check_capture` checked. ``spark``: the session to use; None: the running one, or a
    new one as soon as one is needed."""
    if checked.database is not None:
        return _open_database(checked.database, spark or _session(checked.packages))
    live = None if checked.reading is None else _open_files(checked.reading, spark)
    if checked.saved is None:
        assert live is not None
        return Capture(live)
    if live is None:
        return Capture(Saved(spark, checked.saved, checked.about))
    return Capture(Continued(live, Saved(spark, checked.saved, checked.about)))


def _check_topics(url: str, format: str, options: dict[str, Any]) -> Reading:
    """The files of the messages of topics, in the user's cache."""
    from cdcwb.live.topics import cached

    topics, settings = Topics.parse(url), kafka_settings(options.pop("client_config", None))
    points = as_point(options.pop("start", "earliest"), "start"), as_point(options.pop("end", "latest"), "end")
    if format != "auto":
        check_options(row_format(format), options)
    folder = cached(topics, *points, settings)
    if not any(folder.glob("*/*.parquet")):
        raise CaptureError("there is no message in this range", path=topics.url)
    return _check_files(list_files(str(folder)), format, options)


def _open_database(reading: DatabaseReading, session: SparkSession) -> Capture:
    """Opens a capture of a database table, up to its present last id."""
    frame, detected = reading.table.rows(session)
    options = {**reading.options, "name": reading.table.name.label}
    with reading.table.errors():
        return _open_rows(frame, reading.given, options, [detected])


def _recognised(frame: DataFrame, name: str, options: dict[str, Any]) -> tuple[RowFormat, Recognition]:
    """The format of messages in rows, detected from the first as that of a file. ``name`` is that of the rows."""
    import pyarrow.parquet as pq

    some = frame.limit(_SAMPLE).toArrow()
    if not some.num_rows:
        raise CaptureError("there is no message in this range, so the format cannot be detected: name it", path=name)
    with tempfile.TemporaryDirectory(prefix="cdcwb-") as folder:
        path = str(Path(folder, "messages.parquet"))
        pq.write_table(some, path)
        try:
            fmt, seen = choose([path], "auto", options)
        except CaptureError as reason:
            reason.path = name if reason.path == path else reason.path
            raise
    evidence = [sentence.replace(path, name) for sentence in seen.evidence]
    return cast(RowFormat, fmt), replace(seen, evidence=evidence)


def _check_files(files: list[str], format: str, options: dict[str, Any]) -> Reading:
    stamps = stamps_of(files)  # before they are read, so that a file that changes meanwhile is decoded again
    fmt, recognition = choose(files, format, options)
    common = check_options(fmt, options)
    if recognition.refusal is not None:
        raise recognition.refusal
    return Reading(files, stamps, format, fmt, recognition, options, common)


def _planned(reading: Reading, run: Run) -> tuple[Any, ...]:
    """The arguments of :class:`cdcwb.planned.Planned`. ``run`` runs the first pass."""
    fmt, common = reading.format, reading.common
    plan = fmt.plan(reading.files, reading.options, run)
    _check_keys(fmt, plan, common.keys)
    detected = _detected(fmt, reading.recognition, reading.given, plan)
    origin = Origin(reading.files, reading.given, {name: plain(value) for name, value in reading.options.items()})
    return fmt, plan, detected, common.images, common.mode, common.keys, origin, reading.stamps


def _open_files(reading: Reading, session: SparkSession | None) -> Live:
    """Plans the files: those of a small capture in this process, others in Spark."""
    if session is not None:
        register(session)
    if is_small(reading.files):
        return Live(session, *_planned(reading, _in_turn))
    from cdcwb.spark.jobs import runner

    if session is None:
        session = _session()
        register(session)
    return Live(session, *_planned(reading, runner(session)))


def _in_turn(function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    return [function(task) for task in tasks]


def open_small(path: Paths, format: str = "auto", options: Mapping[str, Any] | None = None) -> Small | None:
    """The tables of the capture that ``load(path, format, **options)`` opens, computed in this process without Spark.
    None if that is not possible: it is not small, or Spark has to assemble it (:func:`cdcwb.small.tables_of`).
    Raises CaptureError as ``load`` does."""
    return small_of(check_capture(path, format, options))


def small_of(checked: Checked) -> Small | None:
    """:func:`open_small` for a checked capture."""
    if checked.reading is None or checked.saved is not None or not is_small(checked.reading.files):
        return None
    return tables_of(Planned(*_planned(checked.reading, _in_turn)))


_UNASKED: Final = "and no host is asked that only a file names"
_AUTHORITY: Final = re.compile(r"://([^/?\s'\"]*)")


def _check_continued(
    saved: Path, places: Sequence[Any], new_files: list[Any], format: str, options: dict[str, Any]
) -> Checked:
    """Checks a saved capture to which files are appended. ``places``: it and the new files, as they were named."""
    about = read_description(saved)
    stored = about.get("continue") or {"not": "an earlier version saved it, without what appending needs"}
    if "not" in stored:
        advice = "load all files at once"
        raise CaptureError(
            f"files cannot be appended to this saved capture: {stored['not']}; {advice}", path=str(saved)
        )
    had = stored["options"]
    _check_same(about["format"], stored, format, options)
    named = {folders_of(str(path))[-1] for path in places if is_remote(path)}
    for path in stored["files"]:
        if is_remote(path) and (folders_of(path)[-1] not in named or re.search(r"\?\w+=", path)):
            raise CaptureError(
                f"was saved from {folders_of(path)[-1]}, {_UNASKED}: name its folder too",
                path=str(saved),
            )
    for name, value in had.items():
        leads = _AUTHORITY.search(str(value))
        if leads is not None and name not in options:
            raise OptionError(
                f"was saved with the {name} of the host {leads[1].rpartition('@')[2]}, {_UNASKED}: "
                f"give it with -o {name}=…",
                path=str(saved),
            )
    if "registry" in options:
        had = {**had, "registry": plain(options["registry"])}
    for path in stored["files"]:
        if not is_file(path):
            raise CaptureError(
                f"not found, and appending to the capture saved at {saved} needs all its files: restore it, or load "
                "the new files without the saved capture",
                path=path,
            )
    check_tables(saved)
    reading = _check_files(list_files([*stored["files"], *new_files]), stored["format"], had)
    if reading.format.name != about["format"]:
        raise CaptureError(
            f"was saved as {about['format']}, but with the new files its format is detected as {reading.format.name}: "
            "name the format and load all files at once",
            path=str(saved),
        )
    return Checked(reading, saved, about)


def _check_same(name: str, continuation: dict[str, Any], format: str, options: dict[str, Any]) -> None:
    """Raises OptionError if the format or an option differs from those of the saved capture. The schemas of a registry
    are compared, not its location."""
    if format not in ("auto", name, continuation["format"]):
        raise OptionError(
            f"the capture was saved as {name}; files cannot be appended to it as {format}: load all files at once"
        )
    for option, value in options.items():
        if option == "registry":
            continue
        had = continuation["options"].get(option)
        if plain(value) != had:
            with_ = "without it" if had is None else f"with {had!r}"
            raise OptionError(
                f"option {option}: the capture was saved {with_}, found {plain(value)!r}; leave it out, or load all "
                "files at once"
            )


def _detected(fmt: Format, recognition: Recognition, format: str, plan: Plan) -> list[dict[str, Any]]:
    row = {
        "scope": "capture",
        "setting": "format",
        "value": fmt.name,
        "evidence": "; ".join(recognition.evidence),
        "overridden": format != "auto",
    }
    return [row, *plan.detected, *_whole_files(fmt, plan)]


_LARGE: Final = 64 << 20  # bytes of a file


def _whole_files(fmt: Format, plan: Plan) -> list[dict[str, Any]]:
    """A row of ``detected`` about the large files that one task has to read, if there are any."""
    large = [file for file in fmt.files(plan) if (file["size"] or 0) > _LARGE]
    if not large:
        return []
    parts = Counter(fmt.begins(plan))
    each = [
        f"one task reads all {size(file['size'])} of {file['file']} ({file['compression'] or file['shape']})"
        for file in large
        if parts[file["file_index"]] == 1
    ]
    evidence = "; ".join([*each[:2], *([f"and so for {plural(len(each) - 2, 'more file')}"] if each[2:] else [])])
    return [detected_row("splits", str(len(plan.splits)), evidence, False)] if each else []


def _open_rows(
    frame: DataFrame,
    format: str,
    options: dict[str, Any],
    more: Sequence[dict[str, Any]] = (),
) -> Capture:
    """Opens a capture of a Spark DataFrame; the format ``auto`` is detected from its columns, and that of messages from
    the first of them. ``more``: further rows of ``detected``."""
    from cdcwb.formats.messages.format import MessageFormat
    from cdcwb.spark.rows import RowsOf

    known_options = without_login({name: value for name, value in options.items() if value is not None})
    name = str(known_options.pop("name", "rows"))
    rows = RowsOf(frame, known_options.pop("order_by", None))
    fmt, recognition = choose_rows(rows.schema, format, known_options)
    if format == "auto" and isinstance(fmt, MessageFormat):
        fmt, recognition = _recognised(rows.frame, name, known_options)
    common = check_options(fmt, known_options)
    plan = fmt.plan_rows(name, rows.schema, rows.run, known_options)
    _check_keys(fmt, plan, common.keys)
    detected = [*_detected(fmt, recognition, format, plan), *more]
    return Capture(LiveRows(rows, name, fmt, plan, detected, common.images, common.mode, common.keys))


def _check_keys(fmt: Format, plan: Plan, keys: dict[str, list[str]]) -> None:
    """Raises OptionError for a key column that no version of its table has. Tables that are not in the capture are
    ignored."""
    versions = fmt.table_versions(plan).to_pylist() if keys else []
    for table, columns in keys.items():
        names = ({row["table_name"], f"{row['schema_name']}.{row['table_name']}"} for row in versions)
        of_table = [row for row, labels in zip(versions, names, strict=True) if table in labels]
        known = list(dict.fromkeys(column["name"] for row in of_table for column in row["columns"]))
        for column in columns if known else ():
            if column not in known:
                raise OptionError(
                    f"option keys: table {table!r} has no column {column!r}.{nearest(column, known)} "
                    f"There are: {', '.join(known)}."
                )


def _session(packages: Sequence[str] = ()) -> SparkSession:
    from cdcwb.spark.session import get_spark

    return get_spark(packages=packages)


class Capture:
    """A capture, opened by :func:`load`. Each table is a Spark DataFrame with exactly the columns of
    :mod:`cdcwb.model`: ``events``, ``changes``, ``transactions``, ``table_versions``, ``problems`` and ``detected``.

    Nothing is cached: a DataFrame that is used twice is read twice.
    """

    def __init__(self, tables: Live | Saved, filters: tuple[Filters, ...] = ()) -> None:
        self._tables = tables
        self._filters = filters  # applied in order
        self.place: str | None = None  # the path that it was opened from, if that is one

    # --- properties ---------------------------------------------------------------------------------------------------

    @property
    def spark(self) -> SparkSession:
        """The session that its DataFrames belong to."""
        return self._tables.spark

    @property
    def question_session(self) -> SparkSession | None:
        """The session that answers questions about it; None if this process does."""
        return None if self.local_rows("changes", ()) is not None else self.spark

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
        return Capture(self._tables) if self._filters else self

    @property
    def stored(self) -> bool:
        """Whether it is an unfiltered saved capture."""
        return isinstance(self._tables, Saved) and not self._filters

    @property
    def saved_in(self) -> Path | None:
        """The folder of an unfiltered saved capture; else None."""
        return self._tables.folder if isinstance(self._tables, Saved) and not self._filters else None

    @property
    def origin(self) -> Origin | None:
        """The files from which an unfiltered capture was opened; else None."""
        return self._tables.origin if type(self._tables) is Live and not self._filters else None

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
        local = self.local_rows(table, columns)
        if local is not None:
            return local
        needed = self._needed(table, columns)
        frame = self._frame(table, needs_images(table, needed))
        return self._filtered_rows(SparkRows(frame.select(*needed), schema_of(table, needed)), columns)

    def local_rows(self, table: str, columns: Sequence[str]) -> Rows | None:
        """:meth:`rows` that this process reads; None if Spark has to."""
        rows = self._tables.rows(table, self._needed(table, columns))
        return None if rows is None else self._filtered_rows(rows, columns)

    def _needed(self, table: str, columns: Sequence[str]) -> list[str]:
        return [*dict.fromkeys([*columns, *needed_columns(table, self._filters)])]

    def _filtered_rows(self, rows: Rows, columns: Sequence[str]) -> Rows:
        for filters in self._filters:
            rows = filtered(rows, filters, self.whole.rows)
        return rows.select(columns) if self._filters else rows

    def _frame(self, table: str, images: bool) -> DataFrame:
        """A table without filters; events and changes perhaps without images."""
        frame: DataFrame = getattr(self._tables, table)(*([images] if table in ("events", "changes") else []))
        return frame

    # --- tables -------------------------------------------------------------------------------------------------------

    @property
    def events(self) -> DataFrame:
        """One row per wire record; capture order is (file_index, offset)."""
        return self._filtered("events")

    @property
    def headers(self) -> DataFrame:
        """``events`` without images and raw bytes, which is several times as fast. Problems of values are not detected.
        If a filter has a condition, which may name images, they are included."""
        return self._filtered("events", images=False)

    def select_events(self, *columns: str) -> DataFrame:
        """Some columns of ``events``, as ``events.select(*columns)``, without decoding the others. Spark
        copies every decoded column, used or not, and images and bytes are most of the data.

        Raises OptionError for a name that is not a column of ``events``.
        """
        names = event_columns(columns)
        return self.events.select(*names) if self._filters else self._tables.events(True, columns=names)

    @property
    def changes(self) -> DataFrame:
        """One row per logical change. If transactions cross borders of splits (GBase 8s, GoldenGate), the first access
        runs a Spark job over headers."""
        return self._filtered("changes")

    @property
    def change_headers(self) -> DataFrame:
        """``changes`` as :attr:`headers` are ``events``: without images, and so without changed_columns."""
        return self._filtered("changes", images=False)

    @property
    def transactions(self) -> DataFrame:
        """One row per transaction."""
        return self._filtered("transactions")

    @property
    def table_versions(self) -> DataFrame:
        """One row per version of a table."""
        return self._filtered("table_versions")

    @property
    def problems(self) -> DataFrame:
        """One row per problem. The first access may run a Spark job, like that of :attr:`changes`."""
        return self._filtered("problems")

    @property
    def detected(self) -> DataFrame:
        """What was inferred about the capture, with the evidence; filters do not apply to it."""
        return self._tables.detected()

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
        frame = self._tables.table(TableRequest(name, None if columns is None else tuple(columns), images, schema))
        return self._narrowed(frame, _OF_ROWS)

    # --- views --------------------------------------------------------------------------------------------------------

    @cached_property
    def view(self) -> Views:
        """Its views: ``capture.view.transactions()`` and others (:mod:`cdcwb.views`), which share a selection."""
        from cdcwb.views import Views

        return Views(self)

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
        from cdcwb.analysis.history import ORDER, history

        self._needs_images("the history of a row")
        return history(self, table, key).to_frame(self.spark).orderBy(*ORDER)

    def continuity(self) -> DataFrame:
        """The breaks in the continuity of rows: the changes that contradict the changes of their row before them
        (:mod:`cdcwb.analysis.continuity`, docs/continuity.md).

        ``table``, ``key``, ``kind`` (gap, stale, repeat, revived, phantom, late), ``sentence``, ``at``, ``operation``,
        ``position``, ``file_index``, ``offset`` and ``file`` of the record, ``earlier_operation`` … of the one that it
        contradicts, ``distance`` (of a late one) and ``columns`` (that differ).
        """
        from cdcwb.analysis.continuity import breaks

        self._needs_images("the continuity of rows")
        return breaks(self).to_frame(self.spark).orderBy("file_index", "offset")

    def state(self, table: str, position: str | None = None, time: str | dt.datetime | None = None) -> DataFrame:
        """The rows of ``table`` after the changes that were committed at or before ``position`` (a log position) and
        ``time`` (ISO 8601, UTC without an offset); without either, at the end of the capture.

        ``key`` and ``row`` (maps of text), ``partial`` (the row's beginning is not in the capture, and not all of its
        columns are known), ``changes``, ``table_version``, ``position``, ``commit_position`` and ``committed_at`` of
        the last change (:func:`cdcwb.analysis.replay.state`). Raises OptionError for a table without changes, or
        without a key.
        """
        from cdcwb.analysis.replay import state

        self._needs_images("the state of a table")
        return state(self, table, position or None, _moment("time", time)).to_frame(self.spark)

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
        transactions that have an event for which it holds.

        Raises OptionError for no tables or transactions, a table that the capture does not have, an invalid time, and
        an invalid filter.
        """
        filters = Filters(
            _named("tables", tables),
            _named("transactions", transactions),
            _moment("time_from", time_from),
            _moment("time_to", time_to),
            condition_of(where or "", lambda: self.whole.rows("table_versions", ["columns"])),
        )
        check_names(self.whole, filters.tables, filters.transactions)
        return Capture(self._tables, (*self._filters, filters))

    def selected(self) -> Capture:
        """The capture with only what its :attr:`selection` selects: the filters of :meth:`filter`, and for the other
        fields those of :func:`cdcwb.filtering.conditions`."""
        chosen = self.selection.chosen()
        by_name = {name: chosen[name] for name in ("tables", "transactions", "time_from", "time_to") if name in chosen}
        filters = [Filters(None, None, None, None, condition) for condition in conditions(chosen)]
        part = self.filter(**by_name) if by_name else self
        return Capture(part._tables, (*part._filters, *filters)) if filters else part

    def _filtered(self, table: str, images: bool = True) -> DataFrame:
        """A table with only the rows that match the filters; with images where a condition may compare them."""
        images = images or any(filters.where is not None for filters in self._filters)
        return self._narrowed(self._frame(table, images), schema_of(table, model.TABLES[table].names))

    def _narrowed(self, frame: DataFrame, schema: pa.Schema) -> DataFrame:
        """A DataFrame with only the rows that match the filters, which compare the columns of ``schema``."""
        if not self._filters:
            return frame
        names, rows = frame.columns, cast("Rows", SparkRows(frame, schema))
        for filters in self._filters:
            rows = filtered(rows, filters, self.whole.rows)
        return rows.to_frame(frame.sparkSession).select(*names)

    # --- saving -------------------------------------------------------------------------------------------------------

    def save(self, directory: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Writes all tables as Parquet, with what ``load`` needs to open them, into a new folder; returns its path.

        The folder is written atomically. Raises CaptureError if it already exists; with ``overwrite`` a saved capture
        is replaced, also the one that is read, and only something else is an error."""
        with replacing(directory, overwrite) as temporary:
            small = self.small
            if small is None:
                for name, frame in self.frames(temporary / "events", temporary / _DECODED):
                    if name != "events" or not (temporary / "events").exists():
                        frame.write.parquet(str(temporary / name))
                shutil.rmtree(temporary / _DECODED, ignore_errors=True)
                if not all((temporary / name / "_SUCCESS").exists() for name in model.TABLES):
                    advice = "name a folder that all machines share"
                    raise CaptureError(f"Spark's workers do not write to this machine; {advice}", path=str(directory))
                write_description(temporary, self.format, self.files, self.facts, self.continuation())
            else:
                small.write(temporary)
        return Path(directory).expanduser().absolute()

    @property
    def is_whole(self) -> bool:
        """Is it neither filtered nor redacted?"""
        return type(self) is Capture and not self._filters

    def continuation(self) -> dict[str, Any]:
        """What a saved copy needs to be continued, or why it cannot."""
        return self._tables.continuation() if self.is_whole else {"not": _PARTIAL}

    def frames(self, complete: Path, part: Path) -> Iterator[tuple[str, DataFrame]]:
        """Every table by name, as it is saved, events first. Events are decoded into a Parquet table that must exist as
        long as the frames are read: at ``complete`` if it has exactly these events, at ``part`` if it has more."""
        decoded = self.decoded(complete if self.is_whole else part)
        in_splits = self.is_whole and isinstance(self._tables, Live) and self._tables.in_splits
        for name in model.TABLES:
            if self.is_whole and name == "events":
                frame = decoded._tables.numbered()
            else:
                frame = getattr(self if in_splits and name != "table_versions" else decoded, name)
            yield name, frame

    @property
    def small(self) -> Small | None:
        """The same tables, computed in this process; None if Spark has to compute them
        (:func:`cdcwb.small.tables_of`)."""
        return self._tables.small if self.is_whole and isinstance(self._tables, Live) else None

    def decoded(self, path: str | os.PathLike[str]) -> Self:
        """The same capture with its events decoded into a Parquet table at ``path``, from which all its tables are
        computed. ``path`` must exist as long as the result is used.

        A capture that is already decoded (a saved one) is returned unchanged, without writing ``path``, as is one with
        the mode DROPMALFORMED, whose problems include those of dropped events.
        """
        tables = self._tables
        if not isinstance(tables, Live) or isinstance(tables, Decoded) or tables.mode == "DROPMALFORMED":
            return self
        folder = Path(path).absolute()
        tables.numbered().write.parquet(str(folder))
        return self.with_tables(Decoded(tables, folder))

    def with_tables(self, tables: Live) -> Self:
        """The same capture with other tables."""
        again = copy.copy(self)  # keeps filters and the attributes of subclasses
        vars(again).pop("view", None)
        again._tables = tables
        return again

    @cached_property
    def description(self) -> str:
        """A short description: format and number of files, or the name of its rows."""
        name = getattr(self._tables, "name", None)
        return f"{self.format} capture of {name or plural(len(self.files), 'file')}"

    def __repr__(self) -> str:
        return f"<{self.description}>"

    def _repr_html_(self) -> str:
        """The card that a notebook shows; the first call builds the index of the capture."""
        from cdcwb.views.card import card

        return card(self)


def _named(what: str, names: Iterable[str] | None) -> frozenset[str] | None:
    """The names that a filter keeps. Raises OptionError for none of them, which would keep everything or nothing."""
    chosen = None if names is None else frozenset([names] if isinstance(names, str) else names)
    if chosen is not None and not chosen:
        raise OptionError(f"{what}: the list is empty. Leave {what} out to keep all of them")
    return chosen


def _moment(name: str, value: str | dt.datetime | None) -> dt.datetime | None:
    return None if value is None or value == "" else as_moment(name, value)
