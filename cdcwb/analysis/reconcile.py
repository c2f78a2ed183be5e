"""Two captures of the same tables side by side: what is missing in one, what is there without reason, what differs,
what came late.

The changes of each row are matched in commit order (:mod:`cdcwb.analysis.alike`). Rolled back, undone and open changes
count on neither side, nor do full loads. Everything runs in Spark, parted by the rows' keys; the answers are small.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from cdcwb.analysis.alike import Change, Matched, Rules, canonical, match
from cdcwb.analysis.frames import small, table_name, when
from cdcwb.errors import OptionError
from cdcwb.formats.options import nearest
from cdcwb.model import Operation, Outcome

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["DIFFERENCES", "Reconciled", "reconcile"]

_BUCKET: Final = 20_000  # changes that one task matches at a time, about
_TIME: Final = pa.timestamp("us", tz="UTC")
_PLACE: Final = [("file", pa.string()), ("offset", pa.int64()), ("position", pa.string()), ("at", _TIME)]
_COLUMN: Final = pa.struct([("column", pa.string()), ("source", pa.string()), ("target", pa.string())])

DIFFERENCES: Final = pa.schema(
    [
        ("what", pa.string()),  # same, missing, extra, different or late
        ("table", pa.string()),  # by the source's name
        ("key", pa.string()),  # c=v, c=v
        ("operation", pa.string()),
        ("source", pa.struct(_PLACE)),  # null where it is extra
        ("target", pa.struct(_PLACE)),  # null where it is missing
        ("delay_us", pa.int64()),  # the target's time less the source's; null where one is not known
        ("late", pa.bool_()),
        ("columns", pa.list_(_COLUMN)),  # those that differ, only
    ]
)
"""One row for each change of the source or the target."""

_ROWS: Final = pa.schema(
    [
        *(("side", pa.int8()), ("table", pa.string()), ("key", pa.string()), ("shown", pa.string())),
        *(("operation", pa.string()), ("commit", pa.string()), ("position", pa.string()), ("file_index", pa.int32())),
        *(("offset", pa.int64()), ("file", pa.string()), ("at", _TIME), ("image", pa.string())),
    ]
)
_COUNTED: Final = (str(Operation.INSERT), str(Operation.UPDATE), str(Operation.DELETE))


class Tables(Protocol):
    """What is asked of a capture (:mod:`cdcwb.model`)."""

    @property
    def changes(self) -> DataFrame: ...
    @property
    def spark(self) -> SparkSession: ...


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What was found. ``pairs`` is a DataFrame of :data:`DIFFERENCES`. ``without_key``: changes of either side that
    have no key and were compared with none, by table."""

    pairs: DataFrame
    without_key: list[dict[str, Any]]

    def counts(self) -> dict[str, int]:
        """How many changes are ``same``, ``missing``, ``extra``, ``different`` and ``late`` (which may also be the same
        or different)."""
        found = {row["what"]: row["n"] for row in self.pairs.groupBy("what").agg(F.count("*").alias("n")).collect()}
        late = self.pairs.filter("late").count()
        return {name: found.get(name, 0) for name in ("same", "missing", "extra", "different")} | {"late": late}

    def by_table(self) -> pd.DataFrame:
        """``table``, ``same``, ``missing``, ``extra``, ``different``, ``late``, ``slowest_us``."""
        numbers = [F.count_if(F.col("what") == name).alias(name) for name in ("same", "missing", "extra", "different")]
        late = F.count_if("late").alias("late")
        rows = self.pairs.groupBy("table").agg(*numbers, late, F.max("delay_us").alias("slowest_us"))
        return small(rows.orderBy("table"))

    def by_column(self) -> pd.DataFrame:
        """``table``, ``column``, ``different`` (changes that differ in it), ``compared`` (matched changes of the
        table), ``rate``; only columns in which something differs, highest rate first."""
        matched = self.pairs.filter("source IS NOT NULL AND target IS NOT NULL")
        totals = matched.groupBy("table").agg(F.count("*").alias("compared"))
        rows = (
            matched.select("table", F.explode("columns").alias("_one"))
            .groupBy("table", F.col("_one")["column"].alias("column"))
            .agg(F.count("*").alias("different"))
            .join(totals, "table")
            .withColumn("rate", F.col("different") / F.col("compared"))
        )
        wanted = rows.select("table", "column", "different", "compared", "rate")
        return small(wanted.orderBy(F.desc("rate"), "table", "column"))

    def differences(self, limit: int = 200) -> pd.DataFrame:
        """What is not the same or came late, in the order of the source's log; extra ones behind."""
        rows = self.pairs.filter((F.col("what") != "same") | F.col("late"))
        order = (F.asc_nulls_last("source.position"), "target.position", "table", "key")
        return small(rows.orderBy(*order).limit(limit))


def reconcile(source: Tables, target: Tables, rules: Rules | None = None) -> Reconciled:
    """Compares the changes of two captures, each with the keys that it has; a key's values may be written differently.

    Tables that only one side has count as missing or extra, unless neither side has a table of the other: then the
    names have to be mapped, and OptionError says which there are.
    """
    rules = rules or Rules()
    names = [_names(one) for one in (source, target)]
    mapped = {rules.table(name) for name in names[0]}
    if names[0] and names[1] and not mapped & set(names[1]):
        here, there = ", ".join(sorted(names[0])), ", ".join(sorted(names[1]))
        hint = nearest(min(mapped), names[1])
        raise OptionError(f"tables: the source has {here}, the target {there}, and none is in both.{hint}")
    back = {rules.table(name): name for name in names[0]}
    rows = [_rows(one, side, rules, back) for side, one in enumerate((source, target))]
    both = rows[0].unionByName(rows[1])
    total = sum(sum(one.values()) for one in names)
    buckets = max(1, total // _BUCKET)
    parted = both.withColumn("_bucket", F.pmod(F.hash("table", "key"), F.lit(buckets)))

    def work(table: pa.Table) -> pa.Table:
        return pa.Table.from_pylist(list(_matched(table, rules)), schema=DIFFERENCES)

    pairs = parted.groupBy("_bucket").applyInArrow(work, from_arrow_schema(DIFFERENCES))
    return Reconciled(pairs, _without_key(source, "source") + _without_key(target, "target"))


def _counted(capture: Tables) -> DataFrame:
    committed = F.coalesce(F.col("outcome") == str(Outcome.COMMITTED), F.lit(True))
    rows = capture.changes.filter(F.col("operation").isin(*_COUNTED) & committed)
    return rows.withColumns({"table": table_name(), "_when": when()})


def _names(capture: Tables) -> dict[str, int]:
    rows = _counted(capture).groupBy("table").agg(F.count("*").alias("n")).collect()
    return {row["table"]: row["n"] for row in rows}


def _without_key(capture: Tables, side: str) -> list[dict[str, Any]]:
    rows = _counted(capture).filter("key IS NULL").groupBy("table").agg(F.count("*").alias("changes")).orderBy("table")
    return [{"side": side, "table": row["table"], "changes": row["changes"]} for row in rows.collect()]


def _rows(capture: Tables, side: int, rules: Rules, back: Mapping[str, str]) -> DataFrame:
    """The changes of one side with their keys in one form; tables by the source's names."""
    image = F.when(F.col("operation") != str(Operation.DELETE), F.col("after"))
    rows = _counted(capture).filter("key IS NOT NULL")
    chosen = rows.select(
        F.lit(side).cast("tinyint").alias("side"),
        "table",
        F.to_json("key").alias("key"),
        F.lit("").alias("shown"),
        "operation",
        F.coalesce("commit_position", "position").alias("commit"),
        *("position", "file_index", "offset", "file", F.col("_when").alias("at")),
        F.to_json(image, {"ignoreNullFields": "false"}).alias("image"),
    )

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield _with_keys(batch, side, rules, back)

    return chosen.mapInArrow(work, from_arrow_schema(_ROWS))


def _with_keys(batch: pa.RecordBatch, side: int, rules: Rules, back: Mapping[str, str]) -> pa.RecordBatch:
    tables, keys = batch.column("table").to_pylist(), batch.column("key").to_pylist()
    named = tables if side == 0 else [back.get(one, one) for one in tables]
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
    """A key as text that both sides share, and as a person reads it."""
    names = {rules.column(table, name): name for name in key} if side == 0 else {name: name for name in key}
    theirs = {rules.column(table, name): name for name in (*rules.columns, *key)} if side else {}
    parts = []
    for name, own in sorted(names.items()):
        kind = rules.kind(table, own if side == 0 else theirs.get(name, name))
        parts.append([name.casefold(), canonical(key[own], kind)])
    return json.dumps(parts), ", ".join(f"{name}={value}" for name, value in key.items())


# --- in the workers ---------------------------------------------------------------------------------------------------


def _matched(table: pa.Table, rules: Rules) -> Iterator[dict[str, Any]]:
    groups: dict[tuple[str, str], tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {}
    for row in table.to_pylist():
        groups.setdefault((row["table"], row["key"]), ([], []))[row["side"]].append(row)
    for (name, _), sides in groups.items():
        changes = [[_change(row) for row in sorted(side, key=_order)] for side in sides]
        for pair in match(changes[0], changes[1], name, rules):
            yield _difference(name, pair, rules)


def _order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["commit"] or "", row["position"] or "", row["file_index"], row["offset"]


def _change(row: dict[str, Any]) -> Change:
    time = None if row["at"] is None else round(row["at"].timestamp() * 1_000_000)
    return Change(row["operation"], json.loads(row["image"] or "{}"), time, row)


def _difference(table: str, pair: Matched, rules: Rules) -> dict[str, Any]:
    one, other = pair.source, pair.target
    change = one or other
    assert change is not None
    delay = None
    if one is not None and other is not None and one.time is not None and other.time is not None:
        delay = other.time - one.time
    what = "missing" if other is None else "extra" if one is None else "different" if pair.columns else "same"
    late = delay is not None and rules.late_after is not None and delay > rules.late_after.total_seconds() * 1_000_000
    return {
        "what": what,
        "table": table,
        "key": change.place["shown"],
        "operation": change.operation,
        "source": None if one is None else _place(one.place),
        "target": None if other is None else _place(other.place),
        "delay_us": delay,
        "late": late,
        "columns": _columns(table, pair, rules),
    }


def _place(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name, _ in _PLACE}


def _columns(table: str, pair: Matched, rules: Rules) -> Sequence[dict[str, str | None]]:
    if pair.source is None or pair.target is None:
        return []
    mine, theirs = pair.source.image, pair.target.image
    return [
        {"column": name, "source": mine[name], "target": theirs[rules.column(table, name)]} for name in pair.columns
    ]
