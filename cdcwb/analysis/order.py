"""The order of exported rows, which Spark itself does not guarantee.

Events and changes are ordered by (file_index, offset); transactions by the position of their begin, or of their first
record without a begin; table versions by the event that defines them, those from outside the capture first; problems of
the complete capture first, then by file and offset; detected settings by scope (the capture first) and setting (the
format first).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cdcwb import model

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cdcwb.capture import Capture

__all__ = ["listed", "ordered", "with_file_index"]


def listed(capture: Any, view: str) -> list[dict[str, Any]]:
    """The rows of ``table_versions`` or ``detected`` in order; no Spark job if they are stored."""
    from cdcwb.analysis.frames import stored_rows

    rows = stored_rows(capture, view, model.TABLES[view].names)
    if rows is None:
        records: list[dict[str, Any]] = ordered(capture, view).toArrow().to_pylist()
        return records
    return sorted(rows.batch().to_pylist(), key=_of_version if view == "table_versions" else _of_setting)


def _of_version(row: Mapping[str, Any]) -> Any:
    event = row["first_event"]
    return event is not None, event and (event["file_index"], event["offset"]), row["table_version"]


def _of_setting(row: Mapping[str, Any]) -> Any:
    scope, setting, value = row["scope"], row["setting"], row["value"]
    return scope != "capture", scope, setting != "format", setting, value is not None, value


def ordered(capture: Capture, view: str) -> DataFrame:
    """The rows of a view (a name of :data:`cdcwb.model.TABLES`) in order, with exactly the model's columns."""
    from pyspark.sql import functions as F

    rows: DataFrame = getattr(capture, view)
    columns = model.TABLES[view].names
    if view in ("events", "changes"):
        return rows.orderBy("file_index", "offset").select(*columns)
    if view == "transactions":
        first = F.regexp_extract("transaction_id", "~(.*)$", 1)  # at the end of the id if the begin is missing
        return rows.orderBy(F.coalesce("begin_position", first), "transaction_id").select(*columns)
    if view == "table_versions":
        event = F.col("first_event")
        return rows.orderBy(event["file_index"], event["offset"], "table_version").select(*columns)
    if view == "problems":
        by = ("file_index", "file", "offset", "length", "severity", "code", "sentence", "transaction_id", "table")
        return with_file_index(capture, rows).orderBy(F.col("file").isNotNull(), *by).select(*columns)
    return rows.orderBy(F.col("scope") != "capture", "scope", F.col("setting") != "format", "setting", "value").select(
        *columns
    )


def with_file_index(capture: Capture, rows: DataFrame) -> DataFrame:
    """``rows`` with the column file_index: the index of their ``file`` in natural name order (a2 before a10), null
    without a file."""
    from pyspark.sql import functions as F

    known = {str(entry["file"]): int(entry["file_index"]) for entry in capture.files}
    places = pa.table({"file": pa.array(known, pa.string()), "file_index": pa.array(known.values(), pa.int32())})
    return rows.join(F.broadcast(rows.sparkSession.createDataFrame(places)), "file", "left")
