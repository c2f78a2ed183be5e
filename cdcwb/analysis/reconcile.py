"""Compares two captures of the same tables: changes that are missing, extra, different or late.

The changes of each row are matched in commit order (:mod:`cdcwb.analysis.alike`). Changes without a partner get a
reason (:mod:`cdcwb.analysis.reconcile_reasons`). Changes that are rolled back, undone or open, and full loads, are
excluded on both sides. All work is done in Spark, partitioned by key; results are small.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from cdcwb.analysis.alike import Change, Matched, Rules, canonical, match
from cdcwb.analysis.frames import small, table_name, time_axis
from cdcwb.analysis.history import value_text
from cdcwb.analysis.reconcile_reasons import Losses, Reason, Span, changed_columns, losses_of, reason_words, reasons
from cdcwb.dataset import SparkRows
from cdcwb.errors import OptionError
from cdcwb.formats.options import nearest
from cdcwb.index.columns import NO_TIME
from cdcwb.model import Operation
from cdcwb.spark.known import InferredKey, KeyedBy, Known, committed, keyed_by, known_tables, without_key
from cdcwb.spark.known import infer_keys as infer
from cdcwb.time_axis import TimeAxis, time_of
from cdcwb.words import count, joined

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = [
    "DIFFERENCES",
    "KINDS",
    "PLACE",
    "STEPS",
    "TIME",
    "Reconciled",
    "check_names",
    "counted_tables",
    "difference_rows",
    "mismatch_notes",
    "reconcile",
]


INFER: Final = "let it be inferred from at least 20 inserted rows with --infer-keys (in Python infer_keys=True)"
"""Advice for tables without a known key."""


def check_names(rules: Rules, source: Mapping[str, Known], target: Mapping[str, Known]) -> list[str]:
    """Names in ``rules`` that neither of two captures has: a sentence each."""
    wrong = []
    columns = [_column_names(side) for side in (source, target)]
    for side, names, tables, title in (
        ("source", list(rules.tables), source, "tables"),
        ("target", list(rules.tables.values()), target, "tables"),
    ):
        wrong += [_unknown(title, side, "table", name, list(tables)) for name in names if name not in tables]
    wrong += [
        _unknown("columns", "source", "column", name, columns[0]) for name in rules.columns if name not in columns[0]
    ]
    wrong += [
        _unknown("columns", "target", "column", name, columns[1])
        for name in rules.columns.values()
        if name not in columns[1]
    ]
    wrong += [_unknown("types", "source", "column", name, columns[0]) for name in rules.types if name not in columns[0]]
    mapped = {rules.table(name) for name in source}
    if source and target and not mapped & set(target) and not wrong:
        here, targets_ = ", ".join(source), ", ".join(target)
        hint = nearest(min(mapped), list(target))
        wrong.append(f"rules, tables: the source has {here}, the target {targets_}, and none is in both.{hint}")
    return wrong


def _column_names(tables: Mapping[str, Known]) -> dict[str, None]:
    """The columns of all tables, each with and without the name of its table."""
    plain = [name for table in tables.values() for name in table.columns]
    return dict.fromkeys([*plain, *(f"{table.table}.{name}" for table in tables.values() for name in table.columns)])


def _unknown(rule: str, side: str, what: str, name: str, known: Sequence[str] | Mapping[str, None]) -> str:
    known_names = list(known)
    more = f" There are: {', '.join(known_names)}." if len(known_names) <= 30 else ""
    return f"rules, {rule}: the {side} has no {what} {name!r}.{nearest(name, known_names)}{more}"


def mismatch_notes(rules: Rules, source: Mapping[str, Known], target: Mapping[str, Known]) -> list[str]:
    """What cannot be compared, a sentence each: tables and columns that only one side has, and keys that differ."""
    notes = []
    for name, known in source.items():
        other = target.get(rules.table(name))
        if other is None:
            notes.append(
                f"The target has no change of {name}; its changes with a key in the source: {count(known.keyed)}."
            )
            continue
        if not known.keyed and not other.keyed:
            notes.append(
                f"{name}: neither capture has a key, so no change is compared. Name it with the reader option "
                f"keys={name}:column+column, or {INFER}."
            )
        mapped = [tuple(sorted(rules.column(name, column).casefold() for column in key)) for key in known.keys]
        target_keys = [tuple(sorted(column.casefold() for column in key)) for key in other.keys]
        if mapped and target_keys and not set(mapped) & set(target_keys):
            keys = [joined(["+".join(key) for key in side.keys], "or") for side in (known, other)]
            notes.append(f"{name}: the source's key is {keys[0]}, the target's {keys[1]}, so no change can be matched.")
        lacking = [column for column in known.columns if rules.column(name, column) not in other.columns]
        if lacking:
            is_are = "is" if len(lacking) == 1 else "are"
            notes.append(f"{name}: {joined(lacking)} {is_are} in no change of the target and compared with nothing.")
    mapped_tables = {rules.table(name) for name in source}
    for name, known in target.items():
        if name not in mapped_tables:
            notes.append(
                f"The source has no change of {name}; its changes with a key in the target: {count(known.keyed)}."
            )
    return notes


def borrowed(
    rules: Rules, source: Mapping[str, Known], target: Mapping[str, Known]
) -> tuple[tuple[dict[str, Known], dict[str, Known]], tuple[dict[str, KeyedBy], dict[str, KeyedBy]], list[str]]:
    """Gives a table without a key on one side the key of the other side. Returns both sides, the keys that were
    transferred, and a sentence about each."""
    sides, keys, notes = (dict(source), dict(target)), (dict[str, KeyedBy](), dict[str, KeyedBy]()), list[str]()
    for name, known in source.items():
        other = target.get(rules.table(name))
        if other is None or bool(known.keyed) == bool(other.keyed):
            continue
        lender, borrower, side = (other, known, 0) if other.keyed else (known, other, 1)
        if len(lender.keys) != 1:
            continue
        if side == 0:
            by_folded_name = {rules.column(name, column).casefold(): column for column in known.columns}
        else:
            by_folded_name = {column.casefold(): column for column in other.columns}
        wanted = [column if side == 0 else rules.column(name, column) for column in lender.keys[0]]
        key = tuple(by_folded_name[column.casefold()] for column in wanted if column.casefold() in by_folded_name)
        if len(key) == len(wanted):
            keys[side][borrower.table] = key
            sides[side][borrower.table] = replace(borrower, keyed=borrower.changes, keys=(tuple(sorted(key)),))
            which = ("source", "target") if side == 0 else ("target", "source")
            notes.append(f"{name}: the {which[0]} names no key; the {which[1]}'s is taken: {joined(key)}.")
    return sides, keys, notes


# --- results ----------------------------------------------------------------------------------------------------------

KINDS: Final = ("same", "missing", "extra", "different")
"""The outcomes of a comparison; a change may also be late."""

STEPS: Final = (
    *(step * 10**power for power in (3, 4, 5) for step in (1, 2, 5)),
    *(
        seconds * 1_000_000
        for seconds in (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400)
    ),
)
"""The lower edges of the delay bins in microseconds; the first bins are for delays below 0, of 0 and from 1."""

_SPANS: Final = 120  # bins of time
TIME: Final = pa.timestamp("us", tz="UTC")
PLACE: Final = [("file", pa.string()), ("offset", pa.int64()), ("position", pa.string()), ("at", TIME)]
_CHANGED: Final = pa.struct(
    [("column", pa.string()), ("old", pa.string()), ("new", pa.string()), ("old_known", pa.bool_())]
)
_COLUMN: Final = pa.struct([("column", pa.string()), ("source", pa.string()), ("target", pa.string())])

DIFFERENCES: Final = pa.schema(
    [
        ("what", pa.string()),  # same, missing, extra or different
        ("reason", pa.string()),  # why it is missing or extra: a value of Reason; null where it is in both
        ("table", pa.string()),  # by the source's name
        ("key", pa.string()),  # c=v, c=v
        ("operation", pa.string()),
        ("source", pa.struct(PLACE)),  # null if extra
        ("target", pa.struct(PLACE)),  # null if missing
        ("delay_us", pa.int64()),  # target's time minus source's time; null if one is unknown
        ("late", pa.bool_()),
        ("columns", pa.list_(_COLUMN)),  # only those that differ
        ("changed", pa.list_(_CHANGED)),  # what a missing or extra change did: columns with old and new values
    ]
)
"""One row for each change of the source or the target. ``at`` is the time of the commit, else that of the change."""


@dataclass(frozen=True)
class Reconciled:
    """The result of a comparison. ``pairs`` is a DataFrame of :data:`DIFFERENCES`; it is computed again for every
    method unless it is :meth:`stored`. ``without_key``: changes of either side without a key, which were not compared,
    by table. ``inferred``: the inferred keys. ``notes``: sentences about what could not be compared. ``first`` and
    ``last``: the times of both captures."""

    pairs: DataFrame
    without_key: list[dict[str, Any]]
    notes: list[str] = field(default_factory=list)
    first: datetime | None = None
    last: datetime | None = None
    inferred: tuple[InferredKey, ...] = ()

    def stored(self, folder: str | Path) -> Reconciled:
        """The same result with ``pairs`` written as Parquet to ``folder``, a folder that is created."""
        self.pairs.write.mode("overwrite").parquet(str(folder))
        spark = self.pairs.sparkSession
        return replace(self, pairs=spark.read.schema(from_arrow_schema(DIFFERENCES)).parquet(str(folder)))

    @property
    def width_us(self) -> int:
        """The width of a time bin of :meth:`over_time`, in microseconds."""
        return self._spans[1]

    @cached_property
    def _spans(self) -> tuple[int, int]:
        """The start of the first time bin, and the width of a bin, in microseconds."""
        return (0, 1) if self.axis is None else self.axis.bins(_SPANS)

    @cached_property
    def axis(self) -> TimeAxis | None:
        """The time axis of both captures; None without times."""
        if self.first is None or self.last is None:
            return None
        at = F.unix_micros(F.coalesce("source.at", "target.at")).alias("at")
        rows = SparkRows(self.pairs.select(at), pa.schema([("at", pa.int64())]))
        return time_axis(rows, lambda batch: np.asarray(batch["at"].fill_null(NO_TIME)), self.first, self.last)

    @cached_property
    def _groups(self) -> list[dict[str, Any]]:
        """The number of changes by outcome, reason, table, delay bin and time bin: one query for five results."""
        at = F.coalesce("source.at", "target.at")
        since, width = self._spans
        span = F.floor((F.unix_micros(at) - F.lit(since)) / width).cast("long")
        names = {"delay": _delay_span("delay_us"), "span": span}
        rows = (
            self.pairs.withColumns(names)
            .groupBy("what", "reason", "table", "late", "delay", "span")
            .agg(F.count("*").alias("n"), F.max("delay_us").alias("slowest_us"))
        )
        return [row.asDict() for row in rows.collect()]

    def counts(self) -> dict[str, int]:
        """The number of changes that are ``same``, ``missing``, ``extra``, ``different`` and ``late`` (which are also
        the same or different)."""
        counts = dict.fromkeys((*KINDS, "late"), 0)
        for group in self._groups:
            counts[group["what"]] += group["n"]
            counts["late"] += group["n"] if group["late"] else 0
        return counts

    def by_reason(self, what: str) -> dict[str, int]:
        """Why changes are ``missing`` or ``extra`` (:class:`cdcwb.analysis.reconcile_reasons.Reason`), with the number
        of changes for each reason, most first."""
        counts: dict[str, int] = {}
        for group in self._groups:
            if group["what"] == what and group["reason"] is not None:
                counts[group["reason"]] = counts.get(group["reason"], 0) + group["n"]
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    @property
    def unlike(self) -> int:
        """The number of changes that are not the same, or late."""
        return sum(group["n"] for group in self._groups if group["what"] != "same" or group["late"])

    def by_table(self) -> list[dict[str, Any]]:
        """``table``, ``same``, ``missing``, ``extra``, ``different``, ``late``, ``slowest_us`` (null if no delay is
        known), by name."""
        tables: dict[str, dict[str, Any]] = {}
        for group in self._groups:
            nothing = {"table": group["table"]} | dict.fromkeys((*KINDS, "late"), 0) | {"slowest_us": None}
            row = tables.setdefault(group["table"], nothing)
            row[group["what"]] += group["n"]
            row["late"] += group["n"] if group["late"] else 0
            slowest = [us for us in (row["slowest_us"], group["slowest_us"]) if us is not None]
            row["slowest_us"] = max(slowest, default=None)
        return [tables[name] for name in sorted(tables)]

    def delays(self) -> list[dict[str, Any]]:
        """Delays of matched changes: ``from_us`` (None: the target's time is before the source's), ``to_us`` (excluded;
        None: no limit), ``changes`` and ``late`` ones, shortest first, without empty bins at either end."""
        edges = [0, 1, *STEPS]
        numbers = [[0, 0] for _ in range(len(edges) + 1)]
        for group in self._groups:
            if group["delay"] is not None:
                numbers[group["delay"]][0] += group["n"]
                numbers[group["delay"]][1] += group["n"] if group["late"] else 0
        ends = list(zip([None, *edges], [*edges, None], strict=True))
        rows = [
            {"from_us": begin, "to_us": end, "changes": n, "late": late}
            for (begin, end), (n, late) in zip(ends, numbers, strict=True)
        ]
        used = [at for at, row in enumerate(rows) if row["changes"]]
        return rows[used[0] : used[-1] + 1] if used else []

    def over_time(self) -> list[dict[str, Any]]:
        """Differences by commit time (in the source, if it has the change): ``began_at`` (of a bin of
        :attr:`width_us`), ``missing``, ``extra``, ``different``, ``late``, for bins with differences. A change that is
        late and different counts as late."""
        if self.first is None:
            return []
        spans: dict[int, dict[str, int]] = {}
        for group in self._groups:
            what = "late" if group["late"] else group["what"]
            if what != "same" and group["span"] is not None:
                counts = spans.setdefault(group["span"], dict.fromkeys(("missing", "extra", "different", "late"), 0))
                counts[what] += group["n"]
        since, width = self._spans
        return [{"began_at": time_of(since + number * width)} | counts for number, counts in sorted(spans.items())]

    def by_column(self) -> pd.DataFrame:
        """``table``, ``column``, ``different`` (changes that differ in it), ``compared`` (matched changes of the table
        that have images), ``rate``; only columns with differences, highest rate first."""
        matched = self.pairs.filter("source IS NOT NULL AND target IS NOT NULL")
        totals = matched.groupBy("table").agg(F.count_if(F.col("operation") != "DELETE").alias("compared"))
        rows = (
            matched.select("table", F.explode("columns").alias("_one"))
            .groupBy("table", F.col("_one")["column"].alias("column"))
            .agg(F.count("*").alias("different"))
            .join(F.broadcast(totals), "table")
            .withColumn("rate", F.col("different") / F.col("compared"))
        )
        wanted = rows.select("table", "column", "different", "compared", "rate")
        return small(wanted.orderBy(F.desc("rate"), "table", "column"))

    def differences(self, limit: int = 200) -> pd.DataFrame:
        """Changes that are not the same or late, in the order of the source's log; extra changes last."""
        rows = self.pairs.filter((F.col("what") != "same") | F.col("late"))
        order = (F.asc_nulls_last("source.position"), "target.position", "table", "key")
        return small(rows.orderBy(*order).limit(limit))


def _delay_span(name: str) -> Column:
    """The number of the delay bin of a delay, from 0."""
    number = F.lit(0)
    for edge in (0, 1, *STEPS):
        number = number + F.when(F.col(name) >= edge, 1).otherwise(0)
    return F.when(F.col(name).isNotNull(), number)


# --- differences on a page ------------------------------------------------------------------------------------------

_SIDES: Final = ("source", "target")


def difference_rows(differences: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Differences for a table on a page: the columns that differ, or that a missing or extra change sets, and the
    locations in both captures, as text and as file and offset."""
    rows = []
    for row in differences:
        unlike = [(c["column"], value_text(c["source"]), value_text(c["target"])) for c in row["columns"]]
        changed = [f"{column}: {old} -> {other}" for column, old, other in unlike]
        changed += [_changed(row["operation"], difference) for difference in row["changed"]]
        words = [row["what"]] if row["what"] != "same" else []
        words += ["late"] if row["late"] else []
        rows.append(
            {
                "what": ", ".join(words) or "same",
                **{name: row[name] for name in ("table", "key", "operation", "delay_us")},
                "reason": reason_words(row["reason"], row["what"]) if row["reason"] else None,
                "sentence": "; ".join(changed),
                **{f"{side}_position": _location(row[side]) for side in _SIDES},
                **{f"{side}_{name}": (row[side] or {}).get(name) for side in _SIDES for name in ("file", "offset")},
            }
        )
    return rows


def _changed(operation: str | None, difference: Mapping[str, Any]) -> str:
    """The effect of a missing or extra change on a column; with the old value if it was captured."""
    if operation == Operation.UPDATE and difference["old_known"]:
        return f"{difference['column']}: from {value_text(difference['old'])} to {value_text(difference['new'])}"
    return f"{difference['column']} = {value_text(difference['new'])}"


def _location(location: Mapping[str, Any] | None) -> str | None:
    if location is None:
        return None
    file = str(location["file"]).rpartition("/")[2]
    return f"{file}, {count(location['offset'])}" + (f", {location['position']}" if location["position"] else "")


# --- reconcile --------------------------------------------------------------------------------------------------------

_BUCKET: Final = 20_000  # approximate number of changes that one task matches at a time
_ROWS: Final = pa.schema(
    [
        *(("side", pa.int8()), ("table", pa.string()), ("key", pa.string()), ("shown", pa.string())),
        *(("operation", pa.string()), ("commit", pa.string()), ("position", pa.string()), ("file_index", pa.int32())),
        *(("offset", pa.int64()), ("file", pa.string()), ("at", TIME), ("image", pa.string())),
        ("transaction", pa.string()),
        *(("changed", pa.list_(pa.string())), ("was", pa.string())),  # of updates: columns, and their old values
    ]
)
_COUNTED: Final = (str(Operation.INSERT), str(Operation.UPDATE), str(Operation.DELETE))


class Side(Protocol):
    """One of two compared captures."""

    @property
    def changes(self) -> DataFrame: ...
    @property
    def spark(self) -> SparkSession: ...


def reconcile(
    source: Side,
    target: Side,
    rules: Rules | None = None,
    known: tuple[Mapping[str, Known], Mapping[str, Known]] | None = None,
    infer_keys: bool = False,
) -> Reconciled:
    """Compares the changes of two captures by the keys of each; key values may be written differently.

    ``infer_keys``: a table without a key on both sides is compared by an inferred one
    (:func:`cdcwb.spark.known.infer_keys`), which the notes name; otherwise its changes are not compared.

    Tables that only one side has count as missing or extra. If no table is on both sides, the names have to be mapped,
    and OptionError lists them. OptionError is also raised for names in ``rules`` that neither capture has. ``known``:
    the results of :func:`counted_tables` for both sides, if already computed.
    """
    rules = rules or Rules()
    sides = known or (counted_tables(source), counted_tables(target))
    wrong = check_names(rules, *sides)
    if wrong:
        raise OptionError("; ".join(wrong))
    back = {rules.table(name): name for name in sides[0]}
    inferred = _inferred((source, target), sides, rules) if infer_keys else ({}, {})
    sides, keys, notes = borrowed(rules, *(_as_keyed(side, own) for side, own in zip(sides, inferred, strict=True)))
    for own, names in zip(inferred, keys, strict=True):
        names |= {t: (key.column,) for t, key in own.items()}
        notes += [str(key) for key in own.values()]
    rows = [_rows(capture, side, rules, back, keys[side]) for side, capture in enumerate((source, target))]
    both = rows[0].unionByName(rows[1])
    total = sum(table.changes for side in sides for table in side.values())
    buckets = max(1, total // _BUCKET)
    parted = both.withColumn("_bucket", F.pmod(F.hash("table", "key"), F.lit(buckets)))

    spans = (_span(sides[0]), _span(sides[1]))
    lost = (losses_of(_capture(source)), losses_of(_capture(target), back))

    def work(table: pa.Table) -> pa.Table:
        return pa.Table.from_pylist(list(_matched(table, rules, spans, lost)), schema=DIFFERENCES)

    pairs = parted.groupBy("_bucket").applyInArrow(work, from_arrow_schema(DIFFERENCES))
    times = [time for side in sides for t in side.values() for time in (t.first, t.last) if time is not None]
    without = [_without_key(side, name) for side, name in zip(sides, ("source", "target"), strict=True)]
    notes += mismatch_notes(rules, *sides)
    keys_inferred = tuple(key for own in inferred for key in own.values())
    span = min(times, default=None), max(times, default=None)
    return Reconciled(pairs, without[0] + without[1], notes, *span, keys_inferred)


def _inferred(
    captures: tuple[Side, Side], sides: tuple[Mapping[str, Known], Mapping[str, Known]], rules: Rules
) -> tuple[dict[str, InferredKey], dict[str, InferredKey]]:
    """The inferred keys of tables without a key on both sides: those of the source, and those of the target for tables
    without one there."""
    source, target = sides
    keyless = without_key(target)
    of_source = [
        name for name in without_key(source) if rules.table(name) not in target or rules.table(name) in keyless
    ]
    inferred = infer(captures[0].changes, of_source)
    back = {rules.table(name): name for name in source}
    of_target = [
        name for name in keyless if name not in back or (back[name] in of_source and back[name] not in inferred)
    ]
    return inferred, infer(captures[1].changes, of_target)


def _as_keyed(tables: Mapping[str, Known], inferred: Mapping[str, InferredKey]) -> dict[str, Known]:
    """The tables with inferred keys."""
    return {
        name: replace(table, keyed=table.changes, keys=((inferred[name].column,),)) if name in inferred else table
        for name, table in tables.items()
    }


def _capture(tables: Side) -> Any:
    """The capture of the changes in a table."""
    return getattr(tables, "capture", tables)


def _counted(capture: Side) -> DataFrame:
    return capture.changes.filter(F.col("operation").isin(*_COUNTED) & committed())


def counted_tables(capture: Side) -> dict[str, Known]:
    """The tables of a capture that can be reconciled."""
    return known_tables(_counted(capture))


def _span(tables: Mapping[str, Known]) -> Span:
    firsts = [table.first for table in tables.values() if table.first is not None]
    lasts = [table.last for table in tables.values() if table.last is not None]
    return _micros(min(firsts, default=None)), _micros(max(lasts, default=None))


def _micros(time: datetime | None) -> int | None:
    return None if time is None else round(time.timestamp() * 1_000_000)


def _without_key(tables: Mapping[str, Known], side: str) -> list[dict[str, Any]]:
    return [
        {"side": side, "table": table.table, "changes": table.changes - table.keyed}
        for table in tables.values()
        if table.changes > table.keyed
    ]


def _rows(capture: Side, side: int, rules: Rules, back: Mapping[str, str], keys: Mapping[str, KeyedBy]) -> DataFrame:
    """The changes of one side with keys in canonical form; tables have the source's names."""
    image = F.when(F.col("operation") != str(Operation.DELETE), F.col("after"))
    update = F.col("operation") == str(Operation.UPDATE)
    was = F.map_filter("before", lambda name, _: F.array_contains("changed_columns", name))
    rows = keyed_by(_counted(capture), keys).filter("key IS NOT NULL")
    chosen = rows.select(
        F.lit(side).cast("tinyint").alias("side"),
        table_name().alias("table"),
        F.to_json("key", {"ignoreNullFields": "false"}).alias("key"),
        F.lit("").alias("shown"),
        "operation",
        F.coalesce("commit_position", "position").alias("commit"),
        *("position", "file_index", "offset", "file", F.coalesce("committed_at", "changed_at").alias("at")),
        F.to_json(image, {"ignoreNullFields": "false"}).alias("image"),
        F.col("transaction_id").alias("transaction"),
        F.when(update, F.col("changed_columns")).alias("changed"),
        F.when(update, F.to_json(was, {"ignoreNullFields": "false"})).alias("was"),
    )

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield _with_keys(batch, side, rules, back)

    return chosen.mapInArrow(work, from_arrow_schema(_ROWS))


def _with_keys(batch: pa.RecordBatch, side: int, rules: Rules, back: Mapping[str, str]) -> pa.RecordBatch:
    tables, keys = batch.column("table").to_pylist(), batch.column("key").to_pylist()
    named = tables if side == 0 else [back.get(table_name, table_name) for table_name in tables]
    known: dict[tuple[str, str], tuple[str, str]] = {}
    for table, key in zip(named, keys, strict=True):
        if (table, key) not in known:
            known[table, key] = _key(table, json.loads(key), side, rules)
    columns = {name: batch.column(name) for name in batch.schema.names}
    columns["table"] = pa.array(named, pa.string())
    columns["key"] = pa.array([known[pair][0] for pair in zip(named, keys, strict=True)], pa.string())
    columns["shown"] = pa.array([known[pair][1] for pair in zip(named, keys, strict=True)], pa.string())
    return pa.RecordBatch.from_arrays([columns[name].cast(_ROWS.field(name).type) for name in _ROWS.names], _ROWS.names)


def _key(table: str, key: Mapping[str, str | None], side: int, rules: Rules) -> tuple[str, str]:
    """A key in canonical form for both sides, and in readable form."""
    names = {rules.column(table, name): name for name in key} if side == 0 else {name: name for name in key}
    mapped = [name.removeprefix(f"{table}.") for name in rules.columns]
    counterparts = {rules.column(table, name): name for name in (*key, *mapped)} if side else {}
    parts = []
    for name, own in sorted(names.items()):
        kind = rules.kind(table, own if side == 0 else counterparts.get(name, name))
        parts.append([name.casefold(), canonical(key[own], kind)])
    return json.dumps(parts), ", ".join(f"{name}={value}" for name, value in key.items())


# --- in the workers ---------------------------------------------------------------------------------------------------


def _matched(
    table: pa.Table, rules: Rules, spans: tuple[Span, Span], lost: tuple[Losses, Losses]
) -> Iterator[dict[str, Any]]:
    groups: dict[tuple[str, str], tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {}
    for row in table.to_pylist():
        groups.setdefault((row["table"], row["key"]), ([], []))[row["side"]].append(row)
    for (name, _), sides in groups.items():
        changes = [[_change(row) for row in sorted(side, key=_order)] for side in sides]
        pairs = match(changes[0], changes[1], name, rules)
        for pair, reason in zip(pairs, reasons(pairs, name, rules, spans, lost), strict=True):
            yield _difference(name, pair, reason, rules)


def _order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["commit"] or "", row["position"] or "", row["file_index"], row["offset"]


def _change(row: dict[str, Any]) -> Change:
    return Change(row["operation"], json.loads(row["image"] or "{}"), _micros(row["at"]), row)


def _difference(table: str, pair: Matched, reason: Reason | None, rules: Rules) -> dict[str, Any]:
    source, other = pair.source, pair.target
    change = source or other
    assert change is not None
    delay = None
    if source is not None and other is not None and source.time is not None and other.time is not None:
        delay = other.time - source.time
    what = "missing" if other is None else "extra" if source is None else "different" if pair.columns else "same"
    late = delay is not None and rules.late_after is not None and delay > rules.late_after.total_seconds() * 1_000_000
    return {
        "what": what,
        "reason": reason,
        "table": table,
        "key": change.place["shown"],
        "operation": change.operation,
        "source": None if source is None else _place(source.place),
        "target": None if other is None else _place(other.place),
        "delay_us": delay,
        "late": late,
        "columns": _columns(table, pair, rules),
        "changed": [] if reason is None else changed_columns(change),
    }


def _place(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name, _ in PLACE}


def _columns(table: str, pair: Matched, rules: Rules) -> Sequence[dict[str, str | None]]:
    if pair.source is None or pair.target is None:
        return []
    source, target = pair.source.image, pair.target.image
    return [
        {"column": name, "source": source[name], "target": target[rules.column(table, name)]} for name in pair.columns
    ]
