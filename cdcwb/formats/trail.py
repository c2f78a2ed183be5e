"""Assembles changes and transactions of a trail where its events are read: a stream of committed work without begins
and ends, in which the records of a transaction are consecutive (docs/formats/goldengate.md §5.6 and §6). A split begins
where no transaction is open, so none needs to know of others.

The events of a split are read once, in windows that end where nothing is open. Halves of updates are paired by their
order. Fragments are among the source events of the change that they continue. A record may undo an earlier change of
its transaction. The last record of a transaction is its commit. What a reader gives, besides the location, kind, table
and images of its events: ``transaction_id``, ``position``, ``changed_at``, ``last_in_transaction`` and
``commit_position`` (of the last record of a transaction), and the headers ``TransInd``, ``UndoFlag`` and ``continues``
(of a fragment: the position of the record that it continues, or ``file_index:offset``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.formats.arrays import as_array, labels, lookup
from cdcwb.formats.changes import Became, assembled, spliced, with_columns
from cdcwb.formats.dissector import CHANGES, OF_CHANGES, Named, Read, Wanted
from cdcwb.formats.kernels import Bools, Ints
from cdcwb.formats.records import Plan, RecordFormat
from cdcwb.formats.requests import select, with_problems, without
from cdcwb.formats.summaries import PARTS, Groups, is_first, parts_of
from cdcwb.formats.transactions import AFTER, TransactionHeaders
from cdcwb.model import Kind, Operation, Outcome, Problem

_OF_PARTS: Final = (
    *("file_index", "offset", "length", "kind", "operation", "position", "commit_position", "transaction_id"),
    *("last_in_transaction", "changed_at", "schema_name", "table_name", "headers", "problems"),
)
_LOCATION: Final = [field.name for field in model.SOURCE_EVENT]
_OF_IMAGES: Final = ("key", "before", "after", "changed_columns", "change_source")


# --- windows ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Sequence:
    """The records of transactions and changes among some events. ``rows``: their row; ``starts``: whether one begins
    a transaction; ``end``: the transaction of the last one, and whether it is closed.

    A record in no transaction is one by itself, with the fragments and the after half that follow it."""

    rows: Ints
    starts: Bools
    end: tuple[str | None, bool] | None

    @classmethod
    def of(cls, events: pa.RecordBatch, before: tuple[str | None, bool] | None = None) -> _Sequence:
        """Those of events that follow ``before``, the end of others; None: nothing precedes them."""
        names, kinds = events["transaction_id"], events["kind"]
        rows = np.flatnonzero(as_array(names.is_valid()) | _are(kinds, *CHANGES, Kind.FRAGMENT))
        if not len(rows):
            return cls(rows, np.zeros(0, np.bool_), before)
        names, kinds = names.take(pa.array(rows)), kinds.take(pa.array(rows))
        code = pc.fill_null(names.dictionary_encode().indices, -1).to_numpy(zero_copy_only=False)
        closed = as_array(events["last_in_transaction"])[rows]
        same, follows_end = np.zeros(len(rows), np.bool_), np.ones(len(rows), np.bool_)
        same[1:], follows_end[1:] = code[1:] == code[:-1], closed[:-1]
        if before is not None:
            same[0], follows_end[0] = names[0].as_py() == before[0], before[1]
        starts = ~same | (~_are(kinds, Kind.FRAGMENT, Kind.AFTER) & ((code < 0) | follows_end))
        return cls(rows, starts, (names[-1].as_py(), bool(closed[-1])))


def _windows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same events in batches that end where no transaction is open."""
    open_rows: list[pa.RecordBatch] = []
    end = None
    for events in batches:
        found = _Sequence.of(events, end)
        firsts, end = found.rows[found.starts], found.end
        if len(firsts):
            yield from _joined([*open_rows, events.slice(0, firsts[-1])])
            open_rows = [events.slice(firsts[-1])]
        elif len(found.rows):
            open_rows.append(events)
    yield from _joined(open_rows)


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    batches = [rows for rows in batches if rows.num_rows]
    return pa.Table.from_batches(batches).combine_chunks().to_batches() if len(batches) > 1 else batches


def _are(kinds: pa.Array, *some: str) -> Bools:
    return as_array(pc.is_in(kinds, pa.array([str(kind) for kind in some])))


# --- changes ----------------------------------------------------------------------------------------------------------


class _Window:
    """Events of complete transactions. ``row``: their records of transactions and changes; ``number``: that of the
    transaction of each; ``change``: the rows of changes. Changes are numbered in this order."""

    def __init__(self, events: pa.RecordBatch) -> None:
        self.events = events
        found = _Sequence.of(events)
        self.row, self.number = found.rows, np.cumsum(found.starts) - 1
        number = np.full(events.num_rows, -1, np.int64)
        number[self.row] = self.number
        columns = {name: events[name] for name in ("kind", "schema_name", "table_name")}
        headers = TransactionHeaders(pa.table({"transaction_id": pa.array(number, mask=number < 0), **columns}))
        self.change: Ints = self.row[headers.change]
        self.of = self.number[headers.change]
        self.halves = headers.halves
        own, partner = np.arange(len(self.change)), self.halves.partner
        self.is_done: Bools = partner < own
        self.is_wrong: Bools = self.is_done & self.halves.alone
        second = np.flatnonzero(self.is_done & (partner >= 0))
        self.is_wrong[second] |= headers.kind[headers.change][partner[second]] == AFTER

    def changes(self, done: Ints) -> pa.RecordBatch:
        """The changes whose last records are those of the changes ``done``."""
        partner = self.halves.partner[done]
        other = np.where(partner >= 0, self.change[partner], -1)
        changes = assembled(self.events, self.change[done], other, self.halves, self._became(), done)
        return self._with_outcomes(self._with_fragments(changes, done), done)

    def _last(self, rows: pa.Array) -> pa.Array:
        """For each change the last of these rows that is in its transaction; null for none."""
        valid = as_array(pc.and_(rows, self.events["transaction_id"].is_valid()))[self.row]
        found = np.full(len(self.row), -1, np.int64)
        found[self.number[valid]] = self.row[valid]
        return pa.array(found[self.of], mask=found[self.of] < 0)

    def _became(self) -> Became:
        events = self.events
        rolls_back = self._last(pa.array(_are(events["kind"], Kind.ROLLBACK)))
        is_last = pc.and_(pc.fill_null(events["last_in_transaction"], False), events["changed_at"].is_valid())
        times = events["changed_at"].take(self._last(is_last))
        became = Became.delivered(events["operation"].take(pa.array(self.change)), times)
        outcome = pc.if_else(rolls_back.is_valid(), str(Outcome.ROLLED_BACK), became.outcome)
        position = events["commit_position"].take(self._last(events["commit_position"].is_valid()))
        return replace(became, outcome=outcome, commit_position=position)

    def _with_fragments(self, changes: pa.RecordBatch, done: Ints) -> pa.RecordBatch:
        """Changes with the fragments that continue their events among their source events."""
        events = self.events
        is_fragment = _are(events["kind"], Kind.FRAGMENT)[self.row]
        if not is_fragment.any():
            return changes
        fragments, of = events.take(pa.array(self.row[is_fragment])), self.number[is_fragment]
        heads, names = np.flatnonzero(np.isin(self.of, of)), dict[tuple[int, str], int]()
        rows = events.select(["file_index", "offset", "position", "problems"]).take(pa.array(self.change[heads]))
        for head, number, row in zip(heads.tolist(), self.of[heads].tolist(), rows.to_pylist(), strict=True):
            is_second = any(one["code"] == Problem.SAME_POSITION for one in row["problems"] or ())
            location = f"{row['file_index']}:{row['offset']}"
            names.setdefault((number, location if is_second else row["position"] or location), head)
        halves = np.stack([self.halves.partner[done], done], axis=1).tolist()  # of each change, in capture order
        row_of = {half: row for row, both in enumerate(halves) for half in both}
        continued = lookup(fragments["headers"], "continues").to_pylist()
        sources, events_of = changes["source_events"], dict[int, list[tuple[int, Any]]]()
        for number, name, event in zip(of.tolist(), continued, fragments.select(_LOCATION).to_pylist(), strict=True):
            head = names.get((number, name), -1)
            if head >= 0 and (row := row_of.get(head)) is not None:
                own = zip((half for half in halves[row] if half >= 0), sources[row].as_py(), strict=True)
                events_of.setdefault(row, [*own]).append((head, event))
        lists = [[event for _, event in sorted(some, key=itemgetter(0))] for some in events_of.values()]
        made = spliced(sources, np.array([*events_of], np.int64), pa.array(lists, sources.type))
        return with_columns(changes, {"source_events": made})

    def _with_outcomes(self, changes: pa.RecordBatch, done: Ints) -> pa.RecordBatch:
        """Changes with the outcomes of those that undo others or are undone."""
        undoes = as_array(pc.equal(lookup(changes["headers"], "UndoFlag"), "1"))
        undoes &= as_array(changes["transaction_id"].is_valid())
        if not undoes.any():
            return changes
        at = np.flatnonzero(np.isin(self.of[done], self.of[done[undoes]]))
        some = changes.take(pa.array(at))
        images = ("key", "before", "after")
        rows = some.select(["file_index", "offset", "position", "operation", *images]).to_pylist()
        tables = labels(some["schema_name"], some["table_name"]).to_pylist()
        each: dict[int, list[Change]] = defaultdict(list)
        for number, row, table in zip(at.tolist(), rows, tables, strict=True):
            maps = {name: None if row[name] is None else dict(row[name]) for name in images}
            one = {**row, **maps, "table": table, "undoes": bool(undoes[number]), "number": number}
            each[int(self.of[done[number]])].append(one)
        found: dict[int, str] = {}
        for mine in each.values():
            mine.sort(key=lambda one: (one["position"] is None, one["position"], one["file_index"], one["offset"]))
            found |= {mine[index]["number"]: outcome for index, outcome in outcomes(mine).items()}
        outcome = spliced(changes["outcome"], np.array(list(found)), pa.array(found.values(), pa.string()))
        return with_columns(changes, {"outcome": outcome})

    def transactions(self) -> pa.RecordBatch:
        """The parts of its transactions (:data:`cdcwb.formats.summaries.PARTS`)."""
        events = self.events
        counts = np.zeros(events.num_rows, np.bool_)
        counts[self.change] = self.halves.partner <= np.arange(len(self.change))  # the first half does not
        records = pa.table({name: events[name] for name in _OF_PARTS}).append_column("counts", pa.array(counts))
        groups = Groups(records.filter(events["transaction_id"].is_valid()))
        if not len(groups):
            return pa.RecordBatch.from_pylist([], PARTS)
        last = as_array(groups.column("last_in_transaction")) | groups.are(Kind.ROLLBACK)
        times = groups.greatest(groups.column("changed_at", last))
        return parts_of(groups, {"begins": groups.some(is_first(groups)), "ended_at": times})


_OPPOSITE: Final = {"INSERT": Operation.DELETE, "DELETE": Operation.INSERT, "UPDATE": Operation.UPDATE}

Change = Mapping[str, Any]


def outcomes(changes: Sequence[Change]) -> dict[int, str]:
    """The changes of a transaction, in log order, that undo others (``undo``) or are undone: index -> outcome. Images
    and keys are dictionaries; ``table`` is the name of the table. A change with ``undoes`` undoes the latest preceding
    change of the same table that is not undone yet, with the opposite operation and the same row: the same key if both
    have one, else images that agree in all common columns.
    """
    found: dict[int, str] = {}
    for at, change in enumerate(changes):
        if not change["undoes"]:
            continue
        found[at] = str(Outcome.UNDO)
        wanted = _OPPOSITE.get(change["operation"])
        for earlier in range(at - 1, -1, -1):
            other = changes[earlier]
            if (
                earlier not in found
                and other["operation"] == wanted
                and other["table"] == change["table"]
                and _same_row(other, change)
            ):
                found[earlier] = str(Outcome.UNDONE)
                break
    return found


def _same_row(done: Change, undoing: Change) -> bool:
    if done["key"] is not None and undoing["key"] is not None:
        return bool(done["key"] == undoing["key"])
    pairs = [(done["after"], undoing["before"]), (done["before"], undoing["after"])]
    both = [(one, other) for one, other in pairs if one is not None and other is not None]
    values = [(one[name], other[name]) for one, other in both for name in one.keys() & other.keys()]
    return bool(values) and all(one == other for one, other in values)


# --- the format -------------------------------------------------------------------------------------------------------


class TrailFormat(RecordFormat):
    """A format of records whose stream is a trail. The fact ``undo_records`` of its plan is the number of records that
    undo earlier ones."""

    def read_changes(self, plan: Plan, split: int, wanted: Wanted, read: Read) -> Iterator[pa.RecordBatch]:
        """The changes of a split in the order of the last of their records, as batches of :data:`cdcwb.model.CHANGES`.
        A full load (REFRESH) is in no transaction, and has no outcome."""
        needs_images = not wanted.images and bool(plan.facts.get("undo_records"))  # these find what they undo by images
        needed = replace(wanted, images=wanted.images or needs_images, columns=frozenset(OF_CHANGES))
        for window in map(_Window, _windows(read(needed))):
            if len(window.change):
                changes = window.changes(np.flatnonzero(window.is_done))
                yield without(changes, *_OF_IMAGES) if needs_images else changes

    def read_transactions(self, _plan: Plan, _split: int, wanted: Wanted, read: Read) -> Iterator[pa.RecordBatch]:
        """See :meth:`cdcwb.formats.dissector.Assembling.read_transactions`. No transaction is in two splits, but one of
        another trail may have the same id."""
        needed = replace(wanted, images=False, columns=frozenset(_OF_PARTS))
        return (_Window(rows).transactions() for rows in _windows(read(needed)))

    def read_checked(self, _plan: Plan, _split: int, wanted: Wanted, read: Read) -> Named:
        """Events and changes with problems (:meth:`cdcwb.formats.dissector.Assembling.read_checked`), and the parts of
        all transactions."""
        columns = None if wanted.columns is None else wanted.columns.union(_OF_PARTS)
        checked: list[tuple[str, pa.RecordBatch]] = []

        def events() -> Iterator[pa.RecordBatch]:
            for batch in read(replace(wanted, drop_malformed=False, columns=columns)):
                checked.append(("checked", with_problems(batch)))
                yield from select(without(batch, "raw", *_OF_IMAGES), wanted)

        for window in map(_Window, _windows(events())):
            yield from checked
            checked.clear()
            yield "transactions", window.transactions()
            if window.is_wrong.any():
                yield "changes", window.changes(np.flatnonzero(window.is_wrong))
        yield from checked
