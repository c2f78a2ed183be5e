"""Two captures of the same tables side by side: what is missing in one, what is there without reason, what differs,
what came late.

The changes of each row are matched in commit order (:mod:`cdcwb.analysis.alike`); those that are left alone get a
reason (:mod:`cdcwb.analysis.reconcile_reasons`). Rolled back, undone and open changes count on neither side, nor do
full loads. Everything runs in Spark, parted by the rows' keys; the answers are small.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from cdcwb.analysis.alike import Change, Matched, Rules, canonical, match
from cdcwb.analysis.frames import table_name
from cdcwb.analysis.reconcile_names import borrowed, check_names, told
from cdcwb.analysis.reconcile_reasons import Losses, Reason, Span, changed_columns, losses_of, reasons
from cdcwb.analysis.reconciled import DIFFERENCES, PLACE, TIME, Reconciled
from cdcwb.errors import OptionError
from cdcwb.model import Operation
from cdcwb.spark.known import InferredKey, KeyedBy, Known, committed, keyed_by, known_tables, without_key
from cdcwb.spark.known import infer_keys as infer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


__all__ = ["counted_tables", "reconcile"]

_BUCKET: Final = 20_000  # changes that one task matches at a time, about
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
    """One of two captures that are compared."""

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
    """Compares the changes of two captures, each with the keys that it has; a key's values may be written differently.

    ``infer_keys``: a table without a key on either side is compared by an inferred one
    (:func:`cdcwb.spark.known.infer_keys`), and the notes say by which; else its changes are compared with none.

    Tables that only one side has count as missing or extra, unless neither side has a table of the other: then the
    names have to be mapped, and OptionError says which there are. So it does for names in ``rules`` that neither
    capture has. ``known``: what :func:`counted_tables` says of each, where it was asked already.
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
        names |= {table: (one.column,) for table, one in own.items()}
        notes += [str(one) for one in own.values()]
    rows = [_rows(one, side, rules, back, keys[side]) for side, one in enumerate((source, target))]
    both = rows[0].unionByName(rows[1])
    total = sum(one.changes for side in sides for one in side.values())
    buckets = max(1, total // _BUCKET)
    parted = both.withColumn("_bucket", F.pmod(F.hash("table", "key"), F.lit(buckets)))

    spans = (_span(sides[0]), _span(sides[1]))
    lost = (losses_of(_capture(source)), losses_of(_capture(target), back))

    def work(table: pa.Table) -> pa.Table:
        return pa.Table.from_pylist(list(_matched(table, rules, spans, lost)), schema=DIFFERENCES)

    pairs = parted.groupBy("_bucket").applyInArrow(work, from_arrow_schema(DIFFERENCES))
    times = [time for side in sides for one in side.values() for time in (one.first, one.last) if time is not None]
    without = [_without_key(side, name) for side, name in zip(sides, ("source", "target"), strict=True)]
    notes += told(rules, *sides)
    keys_inferred = tuple(one for own in inferred for one in own.values())
    span = min(times, default=None), max(times, default=None)
    return Reconciled(pairs, without[0] + without[1], notes, *span, keys_inferred)


def _inferred(
    captures: tuple[Side, Side], sides: tuple[Mapping[str, Known], Mapping[str, Known]], rules: Rules
) -> tuple[dict[str, InferredKey], dict[str, InferredKey]]:
    """The inferred keys of tables that have none on either side: those of the source, and those of the target for
    tables without one there."""
    source, target = sides
    keyless = without_key(target)
    mine = [name for name in without_key(source) if rules.table(name) not in target or rules.table(name) in keyless]
    found = infer(captures[0].changes, mine)
    back = {rules.table(name): name for name in source}
    theirs = [name for name in keyless if name not in back or (back[name] in mine and back[name] not in found)]
    return found, infer(captures[1].changes, theirs)


def _as_keyed(tables: Mapping[str, Known], inferred: Mapping[str, InferredKey]) -> dict[str, Known]:
    """Tables as they are with inferred keys."""
    return {
        name: replace(one, keyed=one.changes, keys=((inferred[name].column,),)) if name in inferred else one
        for name, one in tables.items()
    }


def _capture(tables: Side) -> Any:
    """The capture that tables are the changes of."""
    return getattr(tables, "capture", tables)


def _counted(capture: Side) -> DataFrame:
    return capture.changes.filter(F.col("operation").isin(*_COUNTED) & committed())


def counted_tables(capture: Side) -> dict[str, Known]:
    """The tables of a capture as far as they are reconciled."""
    return known_tables(_counted(capture))


def _span(tables: Mapping[str, Known]) -> Span:
    firsts = [one.first for one in tables.values() if one.first is not None]
    lasts = [one.last for one in tables.values() if one.last is not None]
    return _micros(min(firsts, default=None)), _micros(max(lasts, default=None))


def _micros(time: datetime | None) -> int | None:
    return None if time is None else round(time.timestamp() * 1_000_000)


def _without_key(tables: Mapping[str, Known], side: str) -> list[dict[str, Any]]:
    return [
        {"side": side, "table": one.table, "changes": one.changes - one.keyed}
        for one in tables.values()
        if one.changes > one.keyed
    ]


def _rows(capture: Side, side: int, rules: Rules, back: Mapping[str, str], keys: Mapping[str, KeyedBy]) -> DataFrame:
    """The changes of one side with their keys in one form; tables by the source's names."""
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
    mapped = [name.removeprefix(f"{table}.") for name in rules.columns]
    theirs = {rules.column(table, name): name for name in (*key, *mapped)} if side else {}
    parts = []
    for name, own in sorted(names.items()):
        kind = rules.kind(table, own if side == 0 else theirs.get(name, name))
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
        "reason": reason,
        "table": table,
        "key": change.place["shown"],
        "operation": change.operation,
        "source": None if one is None else _place(one.place),
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
    mine, theirs = pair.source.image, pair.target.image
    return [
        {"column": name, "source": mine[name], "target": theirs[rules.column(table, name)]} for name in pair.columns
    ]
