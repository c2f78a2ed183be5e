"""What a capture is known to lack: unreadable bytes with the changes around them, and transactions with gaps. For a
change that only the other capture has, that is evidence why it is missing here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cdcwb.model import Completeness, Kind

__all__ = ["NOTHING", "Losses", "Unreadable", "losses_of"]

_MOST: Final = 1_000  # unreadable stretches
_BYTES: Final = 65_536  # of each that are searched for a key
_MOST_TRANSACTIONS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Unreadable bytes of a capture: the ``tables`` of the changes in their file, the times of the change that precedes
    and of the one that follows them there, in microseconds (None: there is none), and the bytes."""

    tables: frozenset[str]
    after: int | None
    before: int | None
    raw: bytes

    def may_hold(self, table: str, time: int | None, key: Sequence[str | None]) -> bool:
        """Whether they lie where a change belongs: in a file with changes of its table, between two changes by time.
        Where no change precedes or none follows, the values of its key have to be among the bytes as well."""
        if table not in self.tables or time is None:
            return False
        if not (self.after is None or self.after <= time) or not (self.before is None or time <= self.before):
            return False
        return None not in (self.after, self.before) or _has_all(self.raw, key)


@dataclass(frozen=True, slots=True)
class Losses:
    """The unreadable bytes of a capture, and the ids of the transactions of which events are missing."""

    unreadable: tuple[Unreadable, ...] = ()
    transactions: frozenset[str] = frozenset()


NOTHING: Final = Losses()


def _has_all(raw: bytes, key: Sequence[str | None]) -> bool:
    """Whether each value of a key is among bytes as a word of its own."""
    words = [re.escape((value or "").encode()) for value in key]
    return bool(words) and all(word and re.search(rb"(?<![0-9A-Za-z])%b(?![0-9A-Za-z])" % word, raw) for word in words)


def losses_of(capture: Any, names: Mapping[str, str] | None = None) -> Losses:
    """What a capture is known to lack; nothing of tables that are no capture. ``names``: tables by the names that they
    have in it, where they are called otherwise."""
    from pyspark.sql import functions as F

    if not all(hasattr(capture, name) for name in ("headers", "events", "transactions")):
        return NOTHING
    gaps = F.col("completeness").isin(str(Completeness.GAPS), str(Completeness.NO_BEGIN))
    ids = capture.transactions.filter(gaps).select("transaction_id").limit(_MOST_TRANSACTIONS).collect()
    return Losses(tuple(_unreadable(capture, names or {})), frozenset(row["transaction_id"] for row in ids))


def _unreadable(capture: Any, names: Mapping[str, str]) -> list[Unreadable]:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    from cdcwb.analysis.frames import table_name

    malformed = F.col("kind") == str(Kind.MALFORMED)
    files = [row[0] for row in capture.headers.filter(malformed).select("file_index").distinct().collect()]
    if not files:
        return []
    place = ("file_index", "offset")
    inside = F.col("file_index").isin(*files)
    at = F.unix_micros(F.coalesce("committed_at", "changed_at")).alias("at")
    changes = capture.changes.filter(inside).select(*place, table_name().alias("table"), at)
    raw = F.substring("raw", 1, _BYTES).alias("raw")
    bad = capture.events.filter(inside & malformed).select(*place, raw).limit(_MOST)
    rows = changes.withColumn("raw", F.lit(None).cast("binary")).withColumn("bad", F.lit(False))
    rows = rows.unionByName(bad.withColumn("bad", F.lit(True)), allowMissingColumns=True)
    of_file = Window.partitionBy("file_index")
    ordered = of_file.orderBy("offset")
    found = rows.withColumns(
        {
            "tables": F.collect_set("table").over(of_file),
            "after": F.last("at", ignorenulls=True).over(ordered.rowsBetween(Window.unboundedPreceding, -1)),
            "before": F.first("at", ignorenulls=True).over(ordered.rowsBetween(1, Window.unboundedFollowing)),
        }
    ).filter("bad")
    return [
        Unreadable(
            frozenset(names.get(table, table) for table in row["tables"]),
            *(row["after"], row["before"], bytes(row["raw"] or b"")),
        )
        for row in found.select("tables", "after", "before", "raw").collect()
    ]
