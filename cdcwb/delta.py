"""Saved captures in Delta tables, for several people: they are appended to in place, and each state can be opened.

Every table of the model is a Delta table in a folder of its name. Delta Lake makes each write to a table atomic. A
reader uses one version of each table, given by :data:`cdcwb.saved.SAVED`, which is replaced when all are written. The
next append reverts the writes of an interrupted one.

An append compares rows by their key and a hash, and writes those that differ with one MERGE, in the partitions that
have them. Changes are partitioned by table, day of the commit (``open`` if not committed yet) and operation.
"""

from __future__ import annotations

import datetime as dt
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cdcwb import model
from cdcwb.errors import CaptureError
from cdcwb.planned import SPLIT
from cdcwb.saved import delta_at, replacing, write_description
from cdcwb.spark.names import table_label
from cdcwb.spark.session import check_delta
from cdcwb.tables import Continued, Decoded, Saved

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from cdcwb.capture import Capture

__all__ = ["save"]

_ROW, _COPY, _DAY, _GONE, _WAS = "_row", "_copy", "_commit_day", "_gone", "_was"
_KEYS: Final = {
    "events": ["file_index", "offset"],
    "changes": ["file_index", "offset"],
    "transactions": ["transaction_id"],
}
_PARTITIONS: Final = {"events": ["_table"], "changes": ["_table", _DAY, "_operation"]}
_LONGEST: Final = 40  # characters of a name in the name of a folder

_SKIPPING: Final = (
    *("file_index", "offset", "kind", "operation", "position", "commit_position", "transaction_id", "changed_at"),
    *("schema_name", "table_name", "outcome", "committed_at"),
)
"""Columns of which Delta Lake keeps the least and the greatest value in each file."""


def save(capture: Capture, directory: str | os.PathLike[str], overwrite: bool, compact: bool) -> None:
    """Saves a capture in Delta tables, or brings those that are there up to it. See :meth:`cdcwb.Capture.save`."""
    check_delta(capture.spark)
    target = Path(directory).expanduser().absolute()
    if delta_at(target) is None:
        with replacing(directory, overwrite) as temporary, _staging(temporary) as staging:
            for name, frame in capture.frames(staging / "events", staging / "events"):
                _append(_prepared(frame, name), temporary / name, name)
            _describe(capture, temporary, None, compact)
        return
    with _locked(target), _staging(target) as staging:
        description = delta_at(target)
        if description is None:
            raise CaptureError("was removed while it was opened; save again", path=str(target))
        tables = capture._tables
        if isinstance(tables, (Continued, Saved)):
            source = tables.saved if isinstance(tables, Continued) else tables
            is_own = capture.is_whole and source.folder == target
            is_newest = source.delta == description["delta"]
        else:
            is_own = is_newest = False
        if is_own and isinstance(tables, Continued) and not is_newest:
            raise CaptureError("was saved to since it was loaded; load it again", path=str(target))
        if not overwrite and not is_own:
            raise CaptureError(
                "already exists; not overwritten. overwrite=True brings it up to this capture", path=str(target)
            )
        for name, version in description["delta"]["tables"].items():
            _restore(capture.spark, target / name, version)
        if not (is_own and is_newest and isinstance(tables, Saved)):
            _bring_up(capture, target, staging)
        _describe(capture, target, description, compact)


def _bring_up(capture: Capture, target: Path, staging: Path) -> None:
    """Writes the rows of all tables that differ from those of a capture."""
    tables, spark = capture._tables, capture.spark
    dropped = tables.dropped if isinstance(tables, Continued) and tables.saved.folder == target else None
    if dropped is None or not capture.is_whole:
        frames = capture.frames(staging / "decoded", staging / "decoded")
    else:
        from pyspark.sql import functions as F

        assert isinstance(tables, Continued)
        old = _latest(spark, target / "events").where(F.col(SPLIT).isin(dropped))
        _update(old, tables.fresh(), target / "events", "events", staging)
        complete = capture.with_tables(Decoded(tables, target / "events", _version(target / "events")))
        frames = ((name, frame) for name, frame in complete.frames(staging, staging) if name != "events")
    for name, frame in frames:
        _update(_latest(spark, target / name), frame, target / name, name, staging)


def _update(old: DataFrame, new: DataFrame, table: Path, name: str, staging: Path) -> None:
    """Writes what differs between the rows ``old`` of a Delta table and those that it gets."""
    from pyspark.sql import functions as F

    spark, keys = old.sparkSession, _KEYS.get(name, [_ROW, _COPY])
    staged, differing = str(staging / name), str(staging / f"{name}-differences")
    _prepared(new, name).write.parquet(staged)
    new = spark.read.parquet(staged)
    was = (F.col(_DAY) if name == "changes" else F.lit("")).alias(_WAS)
    before = old.select(*keys, F.col(_ROW).alias("_old"), was)
    after = new.select(*keys, F.col(_ROW).alias("_new"))
    differences = after.join(before, keys, "full_outer").where(~F.col("_new").eqNullSafe(F.col("_old")))
    differences = differences.select(*keys, F.col("_new").isNull().alias(_GONE), _WAS)
    differences.join(new, keys, "left").write.parquet(differing)
    source = spark.read.parquet(differing)
    partitions = {row[0] for row in source.select(_WAS).distinct().collect()}
    if partitions == {None}:
        _append(source.drop(_GONE, _WAS), table, name)
    if partitions <= {None}:
        return
    on = [f"t.{key} = s.{key}" for key in keys]
    if name == "changes":
        on.append(f"t.{_DAY} IN ({', '.join(repr(day) for day in sorted(partitions - {None}))})")
    source.createOrReplaceTempView("cdcwb_differences")
    spark.sql(
        f"MERGE INTO {_name(table)} t USING cdcwb_differences s ON {' AND '.join(on)} "
        f"WHEN MATCHED AND s.{_GONE} THEN DELETE WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    ).collect()
    spark.catalog.dropTempView("cdcwb_differences")


def _prepared(frame: DataFrame, name: str) -> DataFrame:
    """The rows of a table as they are stored: with a hash, the split number of events, and the partition columns."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    if name == "events" and SPLIT not in frame.columns:
        frame = frame.withColumn(SPLIT, F.lit(None).cast("int"))
    # JSON has field names, so swapped values give another hash; it would truncate microseconds
    times = [field.name for field in frame.schema if field.dataType.typeName() == "timestamp"]
    texts = [F.unix_micros(column).alias(column) if column in times else F.col(column) for column in frame.columns]
    added: dict[str, Column] = {_ROW: F.xxhash64(F.to_json(F.struct(*texts)))}
    if name in _PARTITIONS:
        added["_table"] = F.substring(table_label(), 1, _LONGEST)
    if name == "changes":
        added["_operation"] = F.substring("operation", 1, _LONGEST)
        day = F.date_format(F.coalesce("committed_at", "changed_at"), "yyyy-MM-dd")
        is_open = F.coalesce(F.col("outcome") == str(model.Outcome.OPEN), F.lit(False))
        added[_DAY] = F.when(is_open, "open").otherwise(F.coalesce(day, F.lit("unknown")))
    frame = frame.withColumns(added)
    if name in _KEYS:
        return frame
    return frame.withColumn(_COPY, F.row_number().over(Window.partitionBy(_ROW).orderBy(_ROW)))


def _append(rows: DataFrame, table: Path, name: str) -> None:
    partitions = _PARTITIONS.get(name, [])
    if partitions:
        rows = rows.hint("rebalance", *partitions)  # a file each, and more only of large ones
    skipping = ",".join(column for column in _SKIPPING if column in rows.columns)
    properties = {"delta.logRetentionDuration": "interval 36500 days"}  # as long as descriptions of states are there
    if skipping:
        properties["delta.dataSkippingStatsColumns"] = skipping
    rows.write.format("delta").mode("append").options(**properties).partitionBy(*partitions).save(str(table))


def _describe(capture: Capture, folder: Path, description: dict[str, Any] | None, compact: bool) -> None:
    """Makes the written tables the newest state, if they differ from it."""
    spark = capture.spark
    if compact:
        for name in model.TABLES:
            spark.sql(f"OPTIMIZE {_name(folder / name)}").collect()
    versions = {name: _version(folder / name) for name in model.TABLES}
    files, facts, continuation = capture.files, capture.facts, capture.continuation()
    state = 0
    if description is not None:
        same = json.dumps([description[name] for name in ("files", "facts", "continue")])
        if versions == description["delta"]["tables"] and same == json.dumps([files, facts, continuation]):
            return
        state = description["delta"]["state"] + 1
    delta = {"state": state, "saved_at": dt.datetime.now(dt.UTC).isoformat(), "tables": versions}
    write_description(folder, capture.format, files, facts, continuation, delta)


def _name(table: Path) -> str:
    """A Delta table in SQL."""
    return "delta.`" + str(table).replace("`", "``") + "`"


def _latest(spark: SparkSession, table: Path) -> DataFrame:
    return spark.read.format("delta").load(str(table))


def _version(table: Path) -> int:
    """The newest version of a table: its log has a file for each."""
    return max(int(file.stem) for file in (table / "_delta_log").glob("*.json") if file.stem.isdecimal())


def _restore(spark: SparkSession, table: Path, version: int) -> None:
    """Undoes what an append wrote that did not end."""
    if _version(table) != version:
        spark.sql(f"RESTORE TABLE {_name(table)} TO VERSION AS OF {version}").collect()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise CaptureError("another process saves to it; try again when it is done", path=str(folder)) from None
    finally:
        os.close(handle)


@contextmanager
def _staging(folder: Path) -> Iterator[Path]:
    """A folder in another one, as long as the block lasts."""
    folder_of_staging = Path(tempfile.mkdtemp(prefix=".staging.", dir=folder))
    try:
        yield folder_of_staging
    finally:
        shutil.rmtree(folder_of_staging, ignore_errors=True)
