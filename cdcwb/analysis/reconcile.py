"""Compares two captures of the same tables: changes that are missing, extra, different or late.

The changes of each row are matched in commit order (:mod:`cdcwb.analysis.value_comparison`). Changes without a partner
get a reason (:mod:`cdcwb.analysis.value_comparison`). Changes that are rolled back, undone or open, and full loads,
are excluded on both sides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property, partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.frames import time_axis
from cdcwb.analysis.history import CHANGED, value_text
from cdcwb.analysis.images import MAP, are_committed, maps_of, ranks, row_texts, times
from cdcwb.analysis.keys import FACTS, InferredKey, KnownTable, changes_of, infer_keys, known_tables, without_key
from cdcwb.analysis.value_comparison import (
    Change,
    Losses,
    Matched,
    Reason,
    Rules,
    Span,
    canonical,
    changed_columns,
    match,
    reason_words,
    reasons,
    same,
)
from cdcwb.dataset import Batches, Rows, are_first, complete_keys, differ, each_different
from cdcwb.errors import OptionError
from cdcwb.filters import as_flags, labels
from cdcwb.formats.options import nearest
from cdcwb.index.columns import NO_TIME, Ints
from cdcwb.index.images import Pairs
from cdcwb.model import Operation
from cdcwb.times import TimeAxis, micros, time_of
from cdcwb.words import count, joined

Tables = Mapping[str, KnownTable]
OwnKeys = dict[str, tuple[str, ...]]

INFER: Final = "let it be inferred from at least 20 inserted rows with --infer-keys (in Python infer_keys=True)"
"""Advice for tables without a known key."""


def check_names(rules: Rules, source: Tables, target: Tables) -> list[str]:
    """Names in ``rules`` that neither of two captures has: a sentence each."""
    columns = [
        dict.fromkeys(
            [name for table in side.values() for name in table.columns]
            + [f"{table.table}.{name}" for table in side.values() for name in table.columns]
        )
        for side in (source, target)
    ]
    checked: list[tuple[str, str, str, Iterable[str], list[str]]] = [
        ("tables", "source", "table", rules.tables, list(source)),
        ("tables", "target", "table", rules.tables.values(), list(target)),
        ("columns", "source", "column", rules.columns, list(columns[0])),
        ("columns", "target", "column", rules.columns.values(), list(columns[1])),
        ("types", "source", "column", rules.types, list(columns[0])),
    ]
    wrong = []
    for rule, side, what, names, known in checked:
        more = f" There are: {', '.join(known)}." if len(known) <= 30 else ""
        unknown = (name for name in names if name not in known)
        wrong += [f"rules, {rule}: the {side} has no {what} {name!r}.{nearest(name, known)}{more}" for name in unknown]
    mapped = {rules.table(name) for name in source}
    if source and target and not mapped & set(target) and not wrong:
        both = f"the source has {', '.join(source)}, the target {', '.join(target)}"
        wrong.append(f"rules, tables: {both}, and none is in both.{nearest(min(mapped), list(target))}")
    return wrong


def mismatch_notes(rules: Rules, source: Tables, target: Tables) -> list[str]:
    """What cannot be compared, a sentence each: tables and columns that only one side has, and keys that differ."""
    notes = []
    for name, known in source.items():
        other = target.get(rules.table(name))
        if other is None:
            keyed = count(known.keyed)
            notes.append(f"The target has no change of {name}; its changes with a key in the source: {keyed}.")
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
            keyed = count(known.keyed)
            notes.append(f"The source has no change of {name}; its changes with a key in the target: {keyed}.")
    return notes


def own_keys(
    captures: tuple[Any, Any], sides: tuple[Tables, Tables], rules: Rules, infer: bool
) -> tuple[tuple[OwnKeys, OwnKeys], tuple[InferredKey, ...], list[str]]:
    """The keys of tables of either side whose changes have none: with ``infer`` inferred ones of tables without a key
    on both sides, else that of the other side; the inferred keys, and a sentence about each key."""
    keys, notes, inferred = (OwnKeys(), OwnKeys()), list[str](), list[InferredKey]()
    if infer:
        back = {rules.table(name): name for name in sides[0]}
        keyless = without_key(sides[1])
        names = [n for n in without_key(sides[0]) if rules.table(n) not in sides[1] or rules.table(n) in keyless]
        found = infer_keys(captures[0], names)
        names = [n for n in keyless if n not in back or (back[n] in names and back[n] not in found)]
        for own, of_side in zip(keys, (found, infer_keys(captures[1], names)), strict=True):
            own |= {table: (key.column,) for table, key in of_side.items()}
            inferred += of_side.values()
    source, target = map(_with_keys, sides, keys)
    for name, known in source.items():
        other = target.get(rules.table(name))
        if other is None or bool(known.keyed) == bool(other.keyed):
            continue
        side, lender, borrower = (0, other, known) if other.keyed else (1, known, other)
        if len(lender.keys) == 1:
            names = [rules.column(name, column) if side == 0 else column for column in borrower.columns]
            by_name = dict(zip(map(str.casefold, names), borrower.columns, strict=True))
            wanted = [column if side == 0 else rules.column(name, column) for column in lender.keys[0]]
            key = tuple(by_name[column.casefold()] for column in wanted if column.casefold() in by_name)
            if len(key) == len(wanted):
                keys[side][borrower.table] = key
                taken = f"the {SIDES[side]} names no key; the {SIDES[1 - side]}'s is taken: {joined(key)}."
                notes.append(f"{name}: {taken}")
    return keys, tuple(inferred), [*notes, *map(str, inferred)]


def _with_keys(tables: Tables, keys: OwnKeys) -> dict[str, KnownTable]:
    """The tables, of which some have other keys."""
    return {
        name: replace(table, keyed=table.changes, keys=(tuple(sorted(keys[name])),)) if name in keys else table
        for name, table in tables.items()
    }


# --- results ----------------------------------------------------------------------------------------------------------

SIDES: Final = ("source", "target")
KINDS: Final = ("same", "missing", "extra", "different")
"""The outcomes of a comparison; a change may also be late."""

_SECONDS: Final = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400)
STEPS: Final = (
    *(step * 10**power for power in (3, 4, 5) for step in (1, 2, 5)),
    *(seconds * 1_000_000 for seconds in _SECONDS),
)
"""The lower edges of the delay bins in microseconds; the first bins are for delays below 0, of 0 and from 1."""

_SPANS: Final = 120  # bins of time
TIME: Final = pa.timestamp("us", tz="UTC")
PLACE: Final = [("file", pa.string()), ("offset", pa.int64()), ("position", pa.string()), ("at", TIME)]
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
        ("changed", pa.list_(CHANGED)),  # what a missing or extra change did: columns with old and new values
    ]
)
"""One row for each change of the source or the target. ``at`` is the time of the commit, else that of the change."""


@dataclass(frozen=True)
class Reconciled:
    """The result of a comparison. ``pairs`` are rows of :data:`DIFFERENCES`; they are computed again for every question
    unless it is :meth:`stored`. ``without_key``: changes of either side without a key, which were not compared, by
    table. ``inferred``: the inferred keys. ``notes``: sentences about what could not be compared. ``first`` and
    ``last``: the times of both captures."""

    pairs: Rows
    without_key: list[dict[str, Any]]
    notes: list[str] = field(default_factory=list)
    first: datetime | None = None
    last: datetime | None = None
    inferred: tuple[InferredKey, ...] = ()

    def stored(self, folder: Path) -> Reconciled:
        """The same result with ``pairs`` written as Parquet to ``folder``, which is replaced."""
        return replace(self, pairs=self.pairs.stored(folder))

    @cached_property
    def axis(self) -> TimeAxis | None:
        """The time axis of both captures; None without times."""
        if self.first is None or self.last is None:
            return None
        return time_axis(self.pairs, _micros_of, self.first, self.last)

    @cached_property
    def _bins(self) -> tuple[int, int]:
        """The start of the first time bin, and the width of a bin, in microseconds."""
        return (0, 1) if self.axis is None else self.axis.bins(_SPANS)

    @property
    def width_us(self) -> int:
        """The width of a time bin of :meth:`over_time`, in microseconds."""
        return self._bins[1]

    @cached_property
    def _groups(self) -> list[dict[str, Any]]:
        """The number ``n`` of changes and the longest delay, by what all results are counted by."""
        groups = self.pairs.totals({"n": "sum", "slowest_us": "max"}, partial(_group_by, self._bins))
        found: list[dict[str, Any]] = groups.to_pylist()
        return found

    def _sums(self, *by: str) -> Counter[Any]:
        """The number of changes by some of the columns of groups."""
        sums: Counter[Any] = Counter()
        for group in self._groups:
            sums[tuple(group[name] for name in by)] += group["n"]
        return sums

    def counts(self) -> dict[str, int]:
        """The number of changes that are ``same``, ``missing``, ``extra``, ``different`` and ``late`` (which are also
        the same or different)."""
        return {kind: self._sums("what")[kind,] for kind in KINDS} | {"late": self._sums("late")[True,]}

    def by_reason(self, what: str) -> dict[str, int]:
        """Why changes are ``missing`` or ``extra`` (:class:`cdcwb.analysis.value_comparison.Reason`), with the number
        of changes for each reason, most first."""
        counts = self._sums("what", "reason").items()
        of_kind = [(reason, number) for (kind, reason), number in counts if kind == what and reason is not None]
        return dict(sorted(of_kind, key=lambda item: (-item[1], item[0])))

    @property
    def unlike(self) -> int:
        """The number of changes that are not the same, or late."""
        counts = self._sums("what", "late")
        return counts.total() - counts["same", False]

    def by_table(self) -> list[dict[str, Any]]:
        """``table``, ``same``, ``missing``, ``extra``, ``different``, ``late``, ``slowest_us`` (null if no delay is
        known), by name."""
        kinds, late = self._sums("table", "what"), self._sums("table", "late")
        tables = []
        for table in sorted({group["table"] for group in self._groups}):
            slowest = [group["slowest_us"] for group in self._groups if group["table"] == table]
            counts = {kind: kinds[table, kind] for kind in KINDS} | {"late": late[table, True]}
            longest = max((delay for delay in slowest if delay is not None), default=None)
            tables.append({"table": table, **counts, "slowest_us": longest})
        return tables

    def delays(self) -> list[dict[str, Any]]:
        """Delays of matched changes: ``from_us`` (None: the target's time is before the source's), ``to_us`` (excluded;
        None: no limit), ``changes`` and ``late`` ones, shortest first, without empty bins at either end."""
        counts = self._sums("delay", "late")
        used = sorted({delay for delay, _ in counts if delay is not None})
        edges = [None, 0, 1, *STEPS, None]
        return [
            {"from_us": edges[number], "to_us": edges[number + 1]}
            | {"changes": counts[number, True] + counts[number, False], "late": counts[number, True]}
            for number in (range(used[0], used[-1] + 1) if used else ())
        ]

    def over_time(self) -> list[dict[str, Any]]:
        """Differences by commit time (in the source, if it has the change): ``began_at`` (of a bin of
        :attr:`width_us`), ``missing``, ``extra``, ``different``, ``late``, for bins with differences. A change that is
        late and different counts as late."""
        bins: dict[int, dict[str, int]] = {}
        for (span, what, late), number in self._sums("span", "what", "late").items():
            if self.first is not None and span is not None and (late or what != "same"):
                counts = bins.setdefault(span, dict.fromkeys(("missing", "extra", "different", "late"), 0))
                counts["late" if late else what] += number
        since, width = self._bins
        return [{"began_at": time_of(since + number * width)} | counts for number, counts in sorted(bins.items())]

    def by_column(self) -> list[dict[str, Any]]:
        """``table``, ``column``, ``different`` (changes that differ in it), ``compared`` (matched changes of the table
        that have images), ``rate``; only columns with differences, highest rate first."""
        matched = self._sums("table", "has_images", "what")
        rows: list[dict[str, Any]] = self.pairs.totals({"different": "sum"}, _differing).to_pylist()
        for row in rows:
            row["compared"] = sum(matched[row["table"], True, what] for what in ("same", "different"))
            row["rate"] = row["different"] / row["compared"]
        return sorted(rows, key=lambda row: (-row["rate"], row["table"], row["column"]))

    def differences(self, limit: int = 200) -> list[dict[str, Any]]:
        """Changes that are not the same or late, in the order of the source's log; extra changes last."""
        unlike = self.pairs.where(lambda batch: pc.or_(pc.not_equal(batch["what"], "same"), batch["late"]))
        rows = unlike.map(_with_positions, _ORDERED).first([*_POSITIONS.names, "table", "key"], limit)
        records: list[dict[str, Any]] = rows.select(DIFFERENCES.names).to_pylist()
        return records


_POSITIONS: Final = pa.schema([("_extra", pa.bool_()), ("_source", pa.string()), ("_target", pa.string())])
_ORDERED: Final = pa.schema([*DIFFERENCES, *_POSITIONS])


def _with_positions(batch: pa.RecordBatch) -> pa.RecordBatch:
    source, target = (pc.struct_field(batch[side], "position") for side in SIDES)
    return pa.RecordBatch.from_arrays([*batch.columns, source.is_null(), source, target], schema=_ORDERED)


def _micros_of(batch: pa.RecordBatch) -> Ints:
    """The time of each change in microseconds, that of the source if it has the change."""
    at = pc.coalesce(*(pc.struct_field(batch[side], "at") for side in SIDES)).cast(pa.int64())
    return np.asarray(pc.fill_null(at, NO_TIME))


def _group_by(bins: tuple[int, int], batch: pa.RecordBatch) -> dict[str, pa.Array]:
    at, delay = _micros_of(batch), batch["delay_us"]
    bin_of = np.searchsorted([0, 1, *STEPS], np.asarray(pc.fill_null(delay, 0)), side="right")
    return {
        **{name: batch[name] for name in ("what", "reason", "table", "late")},
        "delay": pa.array(bin_of, mask=as_flags(delay.is_null())),
        "span": pa.array((at - bins[0]) // bins[1], mask=at == NO_TIME),
        "has_images": pc.not_equal(pc.fill_null(batch["operation"], ""), str(Operation.DELETE)),
        "n": pa.repeat(1, batch.num_rows),
        "slowest_us": delay,
    }


def _differing(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """The columns in which changes differ."""
    columns = pc.struct_field(pc.list_flatten(batch["columns"]), "column")
    tables = batch["table"].take(pc.list_parent_indices(batch["columns"]))
    return {"table": tables, "column": columns, "different": pa.repeat(1, len(columns))}


# --- differences on a page --------------------------------------------------------------------------------------------


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
                **{f"{side}_position": _location(row[side]) for side in SIDES},
                **{f"{side}_{name}": (row[side] or {}).get(name) for side in SIDES for name in ("file", "offset")},
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

_ROWS: Final = pa.schema(
    [
        *(("side", pa.int8()), ("table", pa.string()), ("key", pa.string()), ("shown", pa.string())),
        *(("operation", pa.string()), ("commit", pa.string()), ("position", pa.string()), ("file_index", pa.int32())),
        *(("offset", pa.int64()), ("file", pa.string()), ("at", TIME), ("image", MAP), ("transaction", pa.string())),
        *(("changed", pa.list_(pa.string())), ("was", MAP)),  # of updates: columns, and their old values
    ]
)
_READ: Final = (*FACTS, "file", "transaction_id", "changed_columns")
_COUNTED: Final = (str(Operation.INSERT), str(Operation.UPDATE), str(Operation.DELETE))
_KEY: Final = ["table", "key"]
_BATCH: Final = 10_000


def reconcile(
    source: Any,
    target: Any,
    rules: Rules | None = None,
    known: tuple[Tables, Tables] | None = None,
    infer: bool = False,
    captures: tuple[Any, Any] | None = None,
) -> Reconciled:
    """Compares the changes of two captures by the keys of each; key values may be written differently. Both are
    anything with the rows of a capture (:meth:`cdcwb.Capture.rows`); ``captures`` are the complete ones, if only parts
    are compared.

    ``infer``: a table without a key on both sides is compared by an inferred one
    (:func:`cdcwb.analysis.keys.infer_keys`), which the notes name; otherwise its changes are not compared.

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
    keys, inferred, notes = own_keys((source, target), sides, rules, infer)
    sides = _with_keys(sides[0], keys[0]), _with_keys(sides[1], keys[1])
    rows = [
        changes_of(capture, _READ, keys[side]).map(partial(_narrow, side, rules, back), _ROWS)
        for side, capture in enumerate((source, target))
    ]
    whole = captures or (source, target)
    matching = _Matching(rules, (_span(sides[0]), _span(sides[1])), (Losses.of(whole[0]), Losses.of(whole[1])))
    order = ("side", "commit", "position", "file_index", "offset")
    pairs = rows[0].union(rows[1]).by_key(["table", "key"], order, matching, DIFFERENCES)
    span = [time for side in sides for table in side.values() for time in (table.first, table.last) if time is not None]
    without = [
        {"side": name, "table": table.table, "changes": table.changes - table.keyed}
        for name, side in zip(SIDES, sides, strict=True)
        for table in side.values()
        if table.changes > table.keyed
    ]
    notes += mismatch_notes(rules, *sides)
    first, last = min(span, default=None), max(span, default=None)
    return Reconciled(pairs=pairs, without_key=without, notes=notes, first=first, last=last, inferred=inferred)


def _counted(batch: pa.RecordBatch) -> pa.Array:
    """Whether each change is compared."""
    return pc.and_(pc.is_in(batch["operation"], pa.array(_COUNTED)), are_committed(batch))


def counted_tables(capture: Any) -> dict[str, KnownTable]:
    """The tables of a capture that can be reconciled."""
    return known_tables(changes_of(capture, FACTS).where(_counted))


def _span(tables: Tables) -> Span:
    firsts = [micros(table.first) for table in tables.values() if table.first is not None]
    lasts = [micros(table.last) for table in tables.values() if table.last is not None]
    return min(firsts, default=None), max(lasts, default=None)


def _narrow(side: int, rules: Rules, back: Mapping[str, str], batch: pa.RecordBatch) -> pa.RecordBatch:
    """The changes of one side with keys in canonical form; tables have the source's names."""
    rows = batch.filter(pc.and_(_counted(batch), batch["key"].is_valid()))
    table = pc.fill_null(labels(rows), "")
    if side == 1:
        table = each_different([table], lambda name: back.get(name, name))
    pairs = Pairs(rows["key"])
    tables = table.take(pa.array(pairs.rows))
    names = each_different([tables, pairs.names], partial(_common_name, side, rules))
    kinds = each_different([tables, pairs.names], partial(_kind, side, rules))
    order = pa.array(np.lexsort((ranks(names), pairs.rows)))
    values = each_different([pairs.values, kinds], canonical)
    shown = pc.binary_join_element_wise(pairs.names, pc.coalesce(pairs.values, "None"), "=")
    offsets = pa.array(np.append(0, np.cumsum(pairs.sizes)).astype(np.int32))
    is_update = pc.equal(rows["operation"], str(Operation.UPDATE))
    is_delete = as_flags(pc.equal(rows["operation"], str(Operation.DELETE)))
    changed = rows["changed_columns"].take(pa.array(np.arange(rows.num_rows), mask=~as_flags(is_update)))
    columns = {name: rows[name] for name in ("operation", "position", "file_index", "offset", "file")} | {
        "side": pa.repeat(side, rows.num_rows),
        "table": table,
        "key": row_texts(pairs.sizes, names.take(order), values.take(order)),
        "shown": pc.binary_join(pa.ListArray.from_arrays(offsets, shown), ", "),
        "commit": pc.coalesce(rows["commit_position"], rows["position"]),
        "at": times(rows),
        "image": rows["after"].take(pa.array(np.arange(rows.num_rows), mask=is_delete)),
        "transaction": rows["transaction_id"],
        "changed": changed,
        "was": _old_values(changed, rows["before"]),
    }
    return pa.RecordBatch.from_pydict(columns, _ROWS)


def _common_name(side: int, rules: Rules, table: str, column: str) -> str:
    """The target's name of a column of one side, without case."""
    return (column if side else rules.column(table, column)).casefold()


def _kind(side: int, rules: Rules, table: str, column: str) -> str:
    """How the values of a column of one side are compared."""
    names = [name.removeprefix(f"{table}.") for name in rules.columns] if side else []
    return rules.kind(table, next((name for name in names if rules.column(table, name) == column), column))


def _old_values(changed: pa.ListArray, before: pa.MapArray) -> pa.MapArray:
    """The values of the changed columns in the images before, as far as captured."""
    rows, names, images = np.asarray(pc.list_parent_indices(changed)), pc.list_flatten(changed), Pairs(before)
    at = images.find(rows, names)
    sizes = np.bincount(rows[at >= 0], minlength=len(changed))
    return maps_of(sizes, names.filter(pa.array(at >= 0)), images.take(at[at >= 0]))


# --- rows of one key --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Matching:
    """Matches the changes of each key, which follow one another, the source's first. Keys whose changes are the same on
    both sides are compared as columns, the others one by one."""

    rules: Rules
    spans: tuple[Span, Span]
    losses: tuple[Losses, Losses]

    def __call__(self, batches: Batches) -> Batches:
        for batch in complete_keys(batches, _KEY, _BATCH):
            sources, targets = self._same(batch)
            yield self._pairs(batch.take(pa.array(sources)), batch.take(pa.array(targets)))
            others = np.ones(len(batch), np.bool_)
            others[sources] = others[targets] = False
            rows, found = batch.filter(pa.array(others)).to_pylist(), list[dict[str, Any]]()
            for (table, _), of_key in groupby(rows, key=itemgetter(*_KEY)):
                changes = list(map(Change.of, of_key))
                source, target = ([change for change in changes if change.row["side"] == side] for side in (0, 1))
                pairs = match(source, target, table, self.rules)
                why = reasons(pairs, table, self.rules, self.spans, self.losses)
                found += [_difference(table, pair, reason, self.rules) for pair, reason in zip(pairs, why, strict=True)]
            yield pa.RecordBatch.from_pylist(found, DIFFERENCES)

    def _same(self, rows: pa.RecordBatch) -> tuple[Ints, Ints]:
        """The numbers of the rows of the source and of the target, pair by pair, of the keys whose changes are all the
        same."""
        of_key = np.cumsum(are_first(rows, _KEY)) - 1
        side = np.asarray(rows["side"])
        counts = [np.bincount(of_key[side == number], minlength=of_key.max(initial=-1) + 1) for number in (0, 1)]
        is_same = counts[0] == counts[1]
        sources = np.flatnonzero((side == 0) & is_same[of_key])
        targets = sources + counts[0][of_key[sources]]
        operations = (rows["operation"].take(pa.array(numbers)) for numbers in (sources, targets))
        is_same[of_key[sources[differ(*operations)]]] = False
        sources, targets = (numbers[is_same[of_key[sources]]] for numbers in (sources, targets))
        unequal = self._unequal(rows.take(pa.array(sources)), rows["image"].take(pa.array(targets)))
        is_same[of_key[sources[unequal]]] = False
        is_left = is_same[of_key[sources]]
        return sources[is_left], targets[is_left]

    def _unequal(self, rows: pa.RecordBatch, images: pa.MapArray) -> Ints:
        """The numbers of the rows that differ from the target's images in a column that both have."""
        source, target = Pairs(rows["image"]), Pairs(images)
        tables = rows["table"].take(pa.array(source.rows))
        at = target.find(source.rows, each_different([tables, source.names], self.rules.column))
        others = target.take(at)
        unlike = np.flatnonzero((at >= 0) & differ(source.values, others))
        every = [column.take(pa.array(unlike)) for column in (source.values, others, tables, source.names)]
        kinds = each_different(every[2:], self.rules.kind)
        is_same = each_different([*every[:2], kinds], partial(same, tolerance=self.rules.tolerance), pa.bool_())
        return source.rows[unlike[~np.asarray(is_same).astype(np.bool_)]]

    def _pairs(self, sources: pa.RecordBatch, targets: pa.RecordBatch) -> pa.RecordBatch:
        """Pairs of changes that are the same."""
        count = len(sources)
        names = [name for name, _ in PLACE]
        places = (pa.StructArray.from_arrays([rows[name] for name in names], names) for rows in (sources, targets))
        delay = pc.subtract(targets["at"].cast(pa.int64()), sources["at"].cast(pa.int64()))
        limit = self.rules.late_after
        late = pa.repeat(False, count) if limit is None else pc.greater(delay, limit // timedelta(microseconds=1))
        nothing = pa.array([[]] * count, pa.list_(pa.null()))
        columns = [pa.repeat("same", count), pa.nulls(count), sources["table"], sources["shown"], sources["operation"]]
        columns += [*places, delay, pc.fill_null(late, False), nothing, nothing]
        arrays = [column.cast(field.type) for column, field in zip(columns, DIFFERENCES, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=DIFFERENCES)


def _difference(table: str, pair: Matched, reason: Reason | None, rules: Rules) -> dict[str, Any]:
    source, target = pair.source, pair.target
    change = source or target
    assert change is not None
    delay = None
    if source is not None and target is not None and source.time is not None and target.time is not None:
        delay = target.time - source.time
    columns = [
        {"column": name, "source": source.image[name], "target": target.image[rules.column(table, name)]}
        for name in pair.columns
        if source is not None and target is not None
    ]
    return {
        "what": "missing" if target is None else "extra" if source is None else "different" if columns else "same",
        "reason": reason,
        "table": table,
        "key": change.row["shown"],
        "operation": change.operation,
        "source": None if source is None else {name: source.row[name] for name, _ in PLACE},
        "target": None if target is None else {name: target.row[name] for name, _ in PLACE},
        "delay_us": delay,
        "late": rules.is_late(delay),
        "columns": columns,
        "changed": [] if reason is None else changed_columns(change),
    }
