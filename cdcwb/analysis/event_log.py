"""Questions that only an event log answers: its rows in the form that publication reads, whether old values follow from
new ones, and the net effect of an object's rows (docs/formats/idm-event-log.md §4)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cdcwb.analysis.frames import TableStore
from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats.idm_event_log.layout import COLUMNS, FORMAT
from cdcwb.formats.source import fetched, is_folder
from cdcwb.model import Kind, Operation
from cdcwb.words import visible
from cdcwb.xds import Settings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from cdcwb.capture import Capture

__all__ = [
    "LogOnce",
    "chain_breaks",
    "log_rows",
    "net_effects",
    "read_settings",
    "snapshot_files",
    "table_store_in",
]


_INSERT, _UPDATE, _DELETE = str(Operation.INSERT), str(Operation.UPDATE), str(Operation.DELETE)
_OBJECT: Final = ("table", "table_key")
_WITH_NEW: Final = ("1", "2", "3")
_WITH_OLD: Final = ("2", "3")
_QUERY_BACK_ROW: Final = ("5", "6")
_QUERY_BACK: Final = ("5", "6", "7", "8")
_RESETS: Final = ("4", "5", "6")  # after these types no column's value is known from the log


def log_rows(capture: Capture) -> DataFrame:
    """The rows of the log, with exactly the columns of :data:`cdcwb.xds.ROWS`, unordered.

    Values are the source's own text. Columns that a reduced form lacks are filled: record_id with the number of the
    row, status with N. Raises CaptureError for a capture of another format.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    header = F.col("headers")
    filled = {
        "record_id": F.regexp_replace("position", "^0+", ""),
        "status": F.lit("N"),
    }
    texts = []
    for name in COLUMNS:
        text = header[name]
        if name in filled:
            text = F.when(F.map_contains_key("headers", name), text).otherwise(filled[name])
        texts.append(text.alias(name))
    location = F.concat_ws(" ", F.col("file_index").cast("string"), F.col("offset").cast("string"))
    same = Window.partitionBy(F.coalesce("position", location)).orderBy("file_index", "offset")
    return _rows(capture).select(
        *texts,
        "file_index",
        "offset",
        F.unix_micros("changed_at").alias("event_us"),
        (F.row_number().over(same) > 1).alias("repeated"),
    )


def _rows(capture: Capture) -> DataFrame:
    """The events that are rows of the log."""
    from pyspark.sql import functions as F

    if capture.format != FORMAT:
        raise CaptureError(f"this question is asked of event logs ({FORMAT}); the capture is of {capture.format}")
    if not capture.has_images:
        raise CaptureError("this question is asked of values, and the capture was loaded with images=False")
    return capture.events.filter(F.col("kind").isin(str(Kind.CHANGE), str(Kind.CONTROL)))


def _placed(capture: Capture) -> DataFrame:
    """Rows of a known type with known object and record_id: columns of :data:`_OBJECT`, record_id, event_type,
    operation, column_name, old_value, new_value, place and ``_at``, which rises with record_id."""
    from pyspark.sql import functions as F

    from cdcwb.spark.names import table_label

    header = F.col("headers")
    rows = _rows(capture).filter(
        (F.col("kind") == str(Kind.CHANGE))
        & F.col("position").isNotNull()
        & F.col("table_name").isNotNull()
        & header["table_key"].isNotNull()
    )
    return rows.select(
        table_label().alias("table"),
        header["table_key"].alias("table_key"),
        F.col("position").cast("bigint").alias("record_id"),
        F.col("record_type").alias("event_type"),
        "operation",
        header["column_name"].alias("column_name"),
        header["old_value"].alias("old_value"),
        header["new_value"].alias("new_value"),
        "file_index",
        "offset",
        F.struct("position", "file_index", "offset").alias("_at"),
    )


def chain_breaks(capture: Capture) -> DataFrame:
    """Rows whose old value differs from the new value that the previous row wrote to the same column of the same
    object.

    One row for each break: table, table_key, column_name, record_id, old_value, file_index, offset, and of the previous
    row previous_record_id, previous_new_value, previous_file_index, previous_offset. Rows are ordered by record_id.
    After a row that does not give the value (types 4, 5, 6, or 7 and 8 of the column) nothing is compared. A NULL old
    value of type 3 is not compared either, since publication does not read it.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    rows = _placed(capture)
    upto = Window.partitionBy(*_OBJECT).orderBy("_at").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    reset = F.max(F.when(F.col("event_type").isin(*_RESETS), F.col("_at"))).over(upto)
    of_column = Window.partitionBy(*_OBJECT, "column_name").orderBy("_at")
    before = F.lag(F.struct("record_id", "new_value", "file_index", "offset", "event_type", "_at")).over(of_column)
    named = (
        F.col("event_type").isin(*_WITH_OLD)
        & F.col("column_name").isNotNull()
        & ((F.col("event_type") == "2") | F.col("old_value").isNotNull())
    )
    followed = rows.withColumns({"_reset": reset, "_before": before}).filter(named)
    known = F.col("_before")["event_type"].isin(*_WITH_NEW) & (
        F.col("_reset").isNull() | (F.col("_before")["_at"] > F.col("_reset"))
    )
    broken = followed.filter(known & ~F.col("_before")["new_value"].eqNullSafe(F.col("old_value")))
    names = ("record_id", "new_value", "file_index", "offset")
    return broken.select(
        *_OBJECT,
        *("column_name", "record_id", "old_value", "file_index", "offset"),
        *[F.col("_before")[name].alias(f"previous_{name}") for name in names],
    )


def net_effects(capture: Capture) -> DataFrame:
    """The net effect of all rows of an object, one row for each object; for a period of time use a filtered capture.

    ``table``, ``table_key``, ``rows``, ``first_record_id``, ``last_record_id``; ``effect``: inserted, updated, deleted,
    inserted and deleted, or nothing; ``before``: values at the start of the columns that the rows name, ``after``:
    those at the end (null map: the object did not, or does not, exist); ``read_back``: columns whose last value is not
    in the log and has to be read from the table (``*`` for the complete row). An object whose first row is not an
    insert existed before.
    """
    from pyspark.sql import functions as F

    rows = _placed(capture)
    removed = F.col("event_type") == "4"
    of_object = rows.groupBy(*_OBJECT).agg(
        F.count(F.lit(1)).alias("rows"),
        F.min("record_id").alias("first_record_id"),
        F.max("record_id").alias("last_record_id"),
        F.min_by("operation", "_at").alias("_first"),
        F.max_by("operation", "_at").alias("_last"),
        F.max(F.when(removed, F.col("_at"))).alias("_removed"),
        F.min(F.when(removed, F.col("_at"))).alias("_first_removed"),
        F.max(F.when(F.col("event_type").isin(*_QUERY_BACK_ROW), F.col("_at"))).alias("_asked"),
    )
    named = rows.filter(F.col("column_name").isNotNull())
    complete = of_object.select(*_OBJECT, "_removed", "_first_removed", "_asked")
    in_time = F.col("_removed").isNull() | (F.col("_at") > F.col("_removed"))  # after the last delete
    early = F.col("_first_removed").isNull() | (F.col("_at") < F.col("_first_removed"))
    column = (
        named.join(complete, [*_OBJECT])
        .groupBy(*_OBJECT, "column_name", "_asked")
        .agg(
            F.min_by(F.struct("event_type", F.col("old_value").alias("value")), "_at").alias("_old"),
            F.max(early).alias("_early"),
            F.max_by(F.when(in_time, F.struct("event_type", "_at", F.col("new_value").alias("value"))), "_at").alias(
                "_new"
            ),
        )
    )
    begins = F.col("_early") & F.col("_old")["event_type"].isin(*_WITH_OLD)
    behind = F.col("_asked").isNull() | (F.col("_new")["_at"] > F.col("_asked"))
    ends = F.col("_new")["event_type"].isin(*_WITH_NEW) & behind
    is_query_back = F.col("_new")["event_type"].isin(*_QUERY_BACK)
    columns = column.groupBy(*_OBJECT).agg(
        _map(F.collect_list(F.when(begins, _entry("_old")))).alias("_before"),
        _map(F.collect_list(F.when(ends, _entry("_new")))).alias("_after"),
        F.array_sort(F.collect_list(F.when(is_query_back, F.col("column_name")))).alias("_asked_columns"),
    )
    return _effects(of_object.join(columns, [*_OBJECT], "left"))


def _entry(name: str) -> Column:
    from pyspark.sql import functions as F

    return F.struct(F.col("column_name"), F.col(name)["value"].alias("value"))


def _map(entries: Column) -> Column:
    from pyspark.sql import functions as F

    return F.map_from_entries(F.array_sort(entries))


def _effects(objects: DataFrame) -> DataFrame:
    """The columns of :func:`net_effects` from what is known of each object."""
    from pyspark.sql import functions as F

    nothing = F.create_map().cast("map<string,string>")
    was, exists = F.col("_first") != _INSERT, F.col("_last") != _DELETE
    before, after = F.coalesce("_before", nothing), F.coalesce("_after", nothing)
    removed = F.col("_removed")
    row_asked = F.col("_asked").isNotNull() & (removed.isNull() | (F.col("_asked") > removed))
    columns = F.coalesce("_asked_columns", F.array().cast("array<string>"))
    read_back = F.when(row_asked, F.array(F.lit("*"))).otherwise(
        F.when(exists, columns).otherwise(F.array().cast("array<string>"))
    )
    names = F.array_sort(F.map_keys("before"))
    same = (
        removed.isNull()
        & (F.size("read_back") == 0)
        & (names == F.array_sort(F.map_keys("after")))
        & F.forall(names, lambda name: F.col("before")[name].eqNullSafe(F.col("after")[name]))
    )
    effect = (
        F.when(~was & exists, "inserted")
        .when(~was, "inserted and deleted")
        .when(~exists, "deleted")
        .when(same, "nothing")
        .otherwise("updated")
    )
    made = objects.withColumns(
        {"before": F.when(was, before), "after": F.when(exists, after), "read_back": read_back}
    ).withColumn("effect", effect)
    return made.select(*_OBJECT, "rows", "first_record_id", "last_record_id", "effect", "before", "after", "read_back")


# --- settings and snapshot --------------------------------------------------------------------------------------------


def read_settings(
    driver_user: str = "", as_of: str = "", batch_size: int = 0, settings: str | Mapping[str, Any] = "{}"
) -> Settings:
    """The settings of a publication from a notebook's parameters; empty and 0 mean not given.

    ``settings`` is a JSON object of the others. With ``as_of`` rows are ordered by event_time. Raises OptionError.
    """
    parsed = _object("settings", settings)
    settings_given = {"driver_user": driver_user, "as_of": as_of, "batch_size": batch_size}
    settings_given = {name: value for name, value in settings_given.items() if value not in ("", 0, None)}
    for name in settings_given:
        if name in parsed:
            raise OptionError(f"'{name}' is given twice, on its own and in settings")
    if "as_of" in settings_given:
        settings_given["future_events"] = parsed.get("future_events", True)
    return Settings.parse(parsed | settings_given)


def snapshot_files(snapshot: str | Mapping[str, str], path: str) -> dict[str, str]:
    """The files of a snapshot by the names of their tables.

    ``snapshot``: a JSON object, or a folder with a file (or folder) for each table; empty: no snapshot; ``auto``: the
    folder ``NAME.snapshot`` next to the capture at ``path``, if it exists. Raises OptionError.
    """
    if snapshot == "auto":
        default = f"{str(path).rstrip('/')}.snapshot"
        return _files_of(fetched(default)) if is_folder(default) else {}
    if isinstance(snapshot, Mapping) or str(snapshot).lstrip().startswith("{"):
        return {name: str(file) for name, file in _object("snapshot", snapshot).items()}
    if not snapshot:
        return {}
    folder = fetched(snapshot).expanduser()
    if not folder.is_dir():
        raise OptionError(f"snapshot: expected a JSON object or a folder, found {visible(repr(snapshot))}")
    return _files_of(folder)


def _files_of(folder: Path) -> dict[str, str]:
    files: dict[str, str] = {}
    for file in sorted(folder.iterdir()):
        if file.name.startswith((".", "_")):
            continue
        table = file.name if file.is_dir() else file.name.removesuffix(file.suffix)
        if table in files:
            raise OptionError(f"snapshot: '{visible(file)}' is a second file of table '{visible(table)}'")
        files[table] = str(file.absolute())
    return files


def _object(name: str, text: str | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(text, Mapping):
        return dict(text)
    try:
        content = json.loads(text or "{}")
    except (TypeError, ValueError) as error:
        raise OptionError(f"{name}: expected a JSON object, found {visible(repr(text))} ({error})") from None
    if not isinstance(content, dict):
        raise OptionError(f"{name}: expected a JSON object, found {visible(repr(text))}")
    return content


# --- cached tables ----------------------------------------------------------------------------------------------------


def table_store_in(capture: Capture, folder: Path | None, names: Iterable[str]) -> TableStore:
    """Stores tables in ``folder`` permanently, or without a folder for the page only. Raises OptionError if the folder
    has a table's name that was not written by Spark."""
    tables = TableStore(capture.spark)
    if folder is not None:
        for name in names:
            path = folder / f"{name}.parquet"
            if path.exists() and not (path / "_SUCCESS").exists():
                raise OptionError(f"'{path}' already exists and is not a table that Spark wrote; name another folder")
        tables.folder = folder
    return tables


class LogOnce:
    """An event log whose rows are decoded once, limited to the columns that questions use."""

    has_images: Final = True

    def __init__(self, capture: Capture) -> None:
        self.format = capture.format
        self._capture = capture
        self._store = TableStore(capture.spark)

    @cached_property
    def events(self) -> DataFrame:
        """One row per row of the log."""
        columns = ("kind", "record_type", "operation", "position", "schema_name", "table_name", "changed_at", "headers")
        return self._store.keep("events", self._capture.events.select("file_index", "offset", *columns))
