"""The rows of a capture, counted by what they have in common: by Spark, or in this process where it is small."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.order import ordered, with_file_index
from cdcwb.model import Kind

if TYPE_CHECKING:
    from cdcwb.capture import Capture
    from cdcwb.small import Small

__all__ = ["FIRST_PLACES", "PLACE", "BySpark", "InProcess", "Row", "best"]

Row: TypeAlias = dict[str, Any]

FIRST_PLACES: Final = 3
"""How many places are given for each code of a problem."""

PLACE: Final = ("file", "offset", "length", "sentence", "transaction_id")
"""What is said of a place."""

_OF_EVENTS: Final = ("file_index", "offset_unit", "kind", "record_type")
_OF_CHANGES: Final = ("schema_name", "table_name", "operation", "outcome")
_OF_TRANSACTIONS: Final = ("outcome", "completeness")


class BySpark:
    """Of a capture that Spark reads: one job for each method."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture

    def events(self) -> list[Row]:
        """By file_index, offset_unit, kind and record_type: ``events``, their ``length`` in all, how far they
        ``reach``, the first and last position (heartbeats apart) and time (microseconds since 1970)."""
        from pyspark.sql import functions as F

        position = F.when(F.col("kind") != Kind.HEARTBEAT, F.col("position"))  # an idle marker's position may be zero
        rows = self._capture.headers.groupBy(*_OF_EVENTS).agg(
            F.count("*").alias("events"),
            F.sum("length").alias("length"),
            F.max(F.col("offset") + F.col("length")).alias("reach"),
            F.min(position).alias("first_position"),
            F.max(position).alias("last_position"),
            F.unix_micros(F.min("changed_at")).alias("first_time"),
            F.unix_micros(F.max("changed_at")).alias("last_time"),
        )
        return [row.asDict() for row in rows.collect()]

    def changes(self) -> list[Row]:
        """By schema_name, table_name, operation and outcome: ``changes``."""
        from pyspark.sql import functions as F

        rows = self._capture.change_headers.groupBy(*_OF_CHANGES).agg(F.count("*").alias("changes"))
        return [row.asDict() for row in rows.collect()]

    def table_versions(self) -> list[Row]:
        """By schema_name and table_name: ``versions``."""
        from pyspark.sql import functions as F

        rows = self._capture.table_versions.groupBy(*_OF_CHANGES[:2]).agg(F.count("*").alias("versions"))
        return [row.asDict() for row in rows.collect()]

    def transactions(self) -> list[Row]:
        """By outcome and completeness: ``transactions``, their first begin and last end (microseconds since 1970)."""
        from pyspark.sql import functions as F

        rows = self._capture.transactions.groupBy(*_OF_TRANSACTIONS).agg(
            F.count("*").alias("transactions"),
            F.unix_micros(F.min("began_at")).alias("first_time"),
            F.unix_micros(F.max("ended_at")).alias("last_time"),
        )
        return [row.asDict() for row in rows.collect()]

    def problems(self) -> list[Row]:
        """The first places of each severity and code: :data:`PLACE`, the number of its ``place`` (from 1) and on each
        of them, how many there are (``count``)."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        code = Window.partitionBy("severity", "code")
        place = code.orderBy(F.col("file").isNotNull(), "file_index", "offset", "sentence", "transaction_id")
        rows = (
            with_file_index(self._capture, self._capture.problems.select("severity", "code", *PLACE))
            .withColumn("count", F.count("*").over(code))
            .withColumn("place", F.row_number().over(place))
            .where(F.col("place") <= FIRST_PLACES)
        )
        return [row.asDict() for row in rows.collect()]

    def detected(self) -> list[Row]:
        """What was detected, in order."""
        return [row.asDict() for row in ordered(self._capture, "detected").collect()]


class InProcess:
    """The same of a small capture, in this process."""

    def __init__(self, capture: Small) -> None:
        self._capture = capture

    def events(self) -> list[Row]:
        """As :meth:`BySpark.events`."""
        rows = []
        for batch in self._capture.events(images=False):
            columns = {name: batch[name] for name in (*_OF_EVENTS, "length", "position")}
            columns["reach"] = pc.add(batch["offset"], batch["length"])
            rows += pa.table({**columns, "time": batch["changed_at"].cast(pa.int64())}).to_pylist()
        found = []
        for names, mine in _grouped(rows, _OF_EVENTS).items():
            row = dict(zip(_OF_EVENTS, names, strict=True))
            row |= {"events": len(mine), "length": sum(one["length"] for one in mine)}
            row |= {"reach": max(one["reach"] for one in mine)}
            row |= {"first_time": best(min, mine, "time"), "last_time": best(max, mine, "time")}
            placed = [] if row["kind"] == Kind.HEARTBEAT else mine  # an idle marker's position may be zero
            row |= {"first_position": best(min, placed, "position"), "last_position": best(max, placed, "position")}
            found.append(row)
        return found

    def changes(self) -> list[Row]:
        """As :meth:`BySpark.changes`."""
        return _counted(self._capture.changes(images=False), _OF_CHANGES, "changes")

    def table_versions(self) -> list[Row]:
        """As :meth:`BySpark.table_versions`."""
        return _counted(self._capture.table_versions(), _OF_CHANGES[:2], "versions")

    def transactions(self) -> list[Row]:
        """As :meth:`BySpark.transactions`."""
        rows = []
        for batch in self._capture.transactions():
            columns = {name: batch[name] for name in _OF_TRANSACTIONS}
            times = {name: batch[name].cast(pa.int64()) for name in ("began_at", "ended_at")}
            rows += pa.table({**columns, **times}).to_pylist()
        return [
            dict(zip(_OF_TRANSACTIONS, names, strict=True))
            | {"transactions": len(mine)}
            | {"first_time": best(min, mine, "began_at"), "last_time": best(max, mine, "ended_at")}
            for names, mine in _grouped(rows, _OF_TRANSACTIONS).items()
        ]

    def problems(self) -> list[Row]:
        """As :meth:`BySpark.problems`."""
        index = {entry["file"]: entry["file_index"] for entry in self._capture.files}

        def place(row: Row) -> tuple[Any, ...]:
            keys = [index.get(row["file"]), row["offset"], row["sentence"], row["transaction_id"]]
            return (row["file"] is not None, *((key is not None, key) for key in keys))

        found = []
        for mine in _grouped(self._capture.table("problems").to_pylist(), ("severity", "code")).values():
            for number, row in enumerate(sorted(mine, key=place)[:FIRST_PLACES], 1):
                found.append({**row, "place": number, "count": len(mine)})
        return found

    def detected(self) -> list[Row]:
        """As :meth:`BySpark.detected`."""
        names = ("scope", "setting")

        def place(row: Row) -> tuple[Any, ...]:
            firsts = zip(names, ("capture", "format"), strict=True)
            keys = [key for name, first in firsts for key in (row[name] != first, row[name])]
            return (*keys, row["value"] is not None, row["value"])

        return sorted(self._capture.table("detected").to_pylist(), key=place)


def _grouped(rows: Iterable[Row], names: tuple[str, ...]) -> dict[tuple[Any, ...], list[Row]]:
    found: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        found[tuple(row[name] for name in names)].append(row)
    return found


def _counted(batches: Iterable[pa.RecordBatch], names: tuple[str, ...], number: str) -> list[Row]:
    counts: Counter[tuple[Any, ...]] = Counter()
    for batch in batches:
        counts.update(zip(*(batch[name].to_pylist() for name in names), strict=True))
    return [dict(zip(names, found, strict=True)) | {number: count} for found, count in counts.items()]


def best(choose: Callable[..., Any], rows: list[Row], name: str) -> Any:
    """The least or the greatest value that rows have; None where none has one."""
    return choose((row[name] for row in rows if row[name] is not None), default=None)
