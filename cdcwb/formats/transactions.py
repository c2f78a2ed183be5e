"""Transactions of a stream with begins and ends: which records belong to each, and what splits need to know of those
that cross their borders. Transactions interleave, and their ids may be reused.

The records of a split are summarised (:class:`OpenTransactions`), windows of it are merged, and so are splits. From the
summaries of all splits follow their borders (:func:`borders`): the names of the transactions that are open at its
start, how those continue that are open at its end, and the halves of updates that continue beyond it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.model import Kind

__all__ = [
    "AFTER", "BEFORE", "BEGIN", "CHANGE", "COMMIT", "KINDS", "OTHER", "ROLLBACK", "UNDO", "Border", "Ending",
    "OpenTransactions", "Run", "TransactionSpans", "assign", "borders", "codes_of", "run_starts",
]  # fmt: skip

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Key = Any
"""The id of a transaction: a number or a text."""
Table = Hashable

OTHER, BEGIN, COMMIT, ROLLBACK, UNDO, CHANGE, BEFORE, AFTER = range(8)
KINDS: Final = (Kind.BEGIN, Kind.COMMIT, Kind.ROLLBACK, Kind.UNDO, Kind.CHANGE, Kind.BEFORE, Kind.AFTER)
"""The kinds of events with the codes 1 to 7; the code of all others is 0."""


def codes_of(kinds: pa.Array) -> Ints:
    """The code of each kind."""
    known = pa.array([str(kind) for kind in KINDS])  # not a constant, as it imports pandas
    codes: Ints = pc.fill_null(pc.add(pc.index_in(kinds, known), 1), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


@dataclass(frozen=True, slots=True)
class TransactionSpans:
    """The transactions of some records, as arrays, ordered by transaction id: ``number`` is that id, ``first`` and
    ``last`` the indexes of the first and last record. ``leads``, ``tails``: whether it is the first or last one with
    its id; ``begins``, ``ends``: whether its first record is a begin, its last one an end. ``index``: of the
    transaction of each record."""

    number: Ints
    first: Ints
    last: Ints
    leads: Bools
    tails: Bools
    begins: Bools
    ends: Bools
    index: Ints

    @classmethod
    def among(cls, kinds: Ints, numbers: Ints) -> TransactionSpans:
        """Those of records in capture order, all of them in transactions: codes of kinds, and ids (32 bits)."""
        count = len(kinds)
        both = np.sort(numbers << 32 | np.arange(count))  # several times as fast as a stable argsort of the ids
        order, number = both & 0xFFFFFFFF, both >> 32
        kind = kinds[order]
        is_end = (kind == COMMIT) | (kind == ROLLBACK)
        new_id, follows_end = np.ones(count, dtype=bool), np.zeros(count, dtype=bool)
        new_id[1:], follows_end[1:] = number[1:] != number[:-1], is_end[:-1]
        starts = new_id | follows_end | (kind == BEGIN)
        first = np.flatnonzero(starts)  # in the sorted order
        last = np.append(first[1:], count)[: len(first)] - 1
        leads = new_id[first]
        index = np.empty(count, dtype=np.int64)
        index[order] = np.cumsum(starts) - 1
        return cls(
            number[first], order[first], order[last], leads, np.append(leads, True)[1:], kind[first] == BEGIN,
            is_end[last], index,
        )  # fmt: skip


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _name(key: Key, begins: bool, position: int) -> str:
    """Its id and the position of its begin, ``39@0000000B01746018``; without a begin the position of its first record,
    ``39@~0000000B01746050``."""
    return f"{key}{'@' if begins else '@~'}{position:016X}"


def assign(found: TransactionSpans, positions: npt.NDArray[Any], open_before: dict[Key, str]) -> list[str]:
    """The names of transactions, by index. ``positions`` are those of all records. ``open_before`` (id -> name) is
    updated."""
    ids, firsts = found.number.tolist(), positions[found.first].tolist()
    names = [
        _name(key, begins, position) for key, begins, position in zip(ids, found.begins.tolist(), firsts, strict=True)
    ]
    for at in np.flatnonzero(found.leads & ~found.begins).tolist():
        names[at] = open_before.get(ids[at], names[at])
    ends = found.ends.tolist()
    for at in np.flatnonzero(found.tails).tolist():
        open_before.pop(ids[at], None)
        if not ends[at]:
            open_before[ids[at]] = names[at]
    return names


# --- summaries --------------------------------------------------------------------------------------------------------


class Ending(NamedTuple):
    """How a transaction continues after a border: the ``kind`` of its end (OTHER: none), its position and time, and the
    lowest position of the undo records (None: none)."""

    kind: int = OTHER
    position: Any = None
    time: Any = None
    undo: Any = None


_NOTHING: Final = Ending()


class Run(NamedTuple):
    """Halves of updates that alternate, one of a transaction and table after the other: the ``kind`` of the one at the
    border, and their number. CHANGE, with the number 0: the change at the border is not a half."""

    kind: int
    number: int


class _Runs(NamedTuple):
    """The first and the last run of some changes of a table; ``is_one``: whether they are the same."""

    first: Run
    last: Run
    is_one: bool


Outer = dict[Table, _Runs]
"""The outer runs of the changes of a transaction, by table."""


def _merged(before: Outer, then: Outer) -> Outer:
    both = dict(before)
    for table, new in then.items():
        old = both.get(table)
        if old is None:
            both[table] = new
            continue
        joins = {old.last.kind, new.first.kind} == {BEFORE, AFTER}
        first, last = old.first, new.last
        if joins and old.is_one:
            first = Run(first.kind, first.number + new.first.number)
        if joins and new.is_one:
            last = Run(last.kind, last.number + old.last.number)
        both[table] = _Runs(first, last, joins and old.is_one and new.is_one)
    return both


@dataclass(frozen=True, slots=True)
class _Head:
    """The records of a transaction that began before."""

    ending: Ending
    runs: Outer

    def then(self, other: _Head | None) -> _Head:
        """The same with the records that follow."""
        if other is None:
            return self
        undo = min((one for one in (self.ending.undo, other.ending.undo) if one is not None), default=None)
        return _Head(other.ending._replace(undo=undo), _merged(self.runs, other.runs))


@dataclass(frozen=True, slots=True)
class _Tail:
    """A transaction that is open at the end. ``is_new``: its first record is among these, else ``name`` is that of a
    transaction whose first record is; ``begins``: whether that record is a begin."""

    name: str
    is_new: bool
    begins: bool
    runs: Outer


@dataclass(slots=True)
class OpenTransactions:
    """The transactions of consecutive records that are open at their start or end, by id. ``settled``: the ids that
    began or ended here."""

    heads: dict[Key, _Head] = field(default_factory=dict)
    tails: dict[Key, _Tail] = field(default_factory=dict)
    settled: set[Key] = field(default_factory=set)

    @classmethod
    def of(
        cls, kinds: Ints, numbers: Ints, tables: Ints, positions: npt.NDArray[Any], times: Ints, is_reused: bool = True
    ) -> OpenTransactions:
        """That of records of transactions in capture order: codes of kinds, ids, numbers of tables (of changes),
        positions, and times (of commits, -1: unknown). ``is_reused``: whether ids are reused, so that the position is
        part of a name."""
        found = TransactionSpans.among(kinds, numbers)
        ids = found.number.tolist()
        is_head, is_tail = found.leads & ~found.begins, found.tails & ~found.ends
        heads, tails = np.flatnonzero(is_head).tolist(), np.flatnonzero(is_tail).tolist()
        runs: dict[int, Outer] = {at: {} for at in (*heads, *tails)}
        rows = np.flatnonzero((kinds >= CHANGE) & (is_head | is_tail)[found.index])
        order = rows[np.lexsort((tables[rows], found.index[rows]))]
        group, kind = np.stack([found.index[order], tables[order]]), kinds[order]
        begins = run_starts(kind, group)
        ends = np.append(begins, len(order))[1:] - 1
        sizes = np.where(kind[begins] == CHANGE, 0, ends - begins + 1)
        firsts = np.flatnonzero(np.append(True, (np.diff(group[:, begins], axis=1) != 0).any(axis=0))[: len(begins)])
        for first, stop in pairwise([*firsts.tolist(), len(begins)]):
            of, table = group[:, begins[first]].tolist()
            one = Run(int(kind[begins[first]]), int(sizes[first]))
            runs[of][table] = _Runs(one, Run(int(kind[ends[stop - 1]]), int(sizes[stop - 1])), stop - first == 1)
        undo: dict[int, Any] = {}
        for record in np.flatnonzero(kinds == UNDO).tolist():
            at, position = int(found.index[record]), _plain(positions[record])
            undo[at] = min(position, undo.get(at, position))
        summary = cls(settled=set(found.number[found.begins | found.ends].tolist()))
        for at in heads:
            last = int(found.last[at])
            end = (int(kinds[last]), _plain(positions[last]), int(times[last])) if found.ends[at] else ()
            summary.heads[ids[at]] = _Head(Ending(*end)._replace(undo=undo.get(at)), runs[at])
        for at in tails:
            has_begin = bool(found.begins[at])
            name = _name(ids[at], has_begin, _plain(positions[found.first[at]])) if is_reused else ids[at]
            summary.tails[ids[at]] = _Tail(name, has_begin or not found.leads[at], has_begin, runs[at])
        return summary

    @classmethod
    def of_events(cls, events: pa.RecordBatch) -> OpenTransactions:
        """That of events in capture order, whose transaction ids are texts that are not reused: the names of
        transactions. Tables are pairs of schema and table."""
        events = events.filter(pc.is_valid(events["transaction_id"]))
        named = events["transaction_id"].dictionary_encode()
        labels = list(zip(*(events[name].to_pylist() for name in ("schema_name", "table_name")), strict=True))
        known = {label: number for number, label in enumerate(dict.fromkeys(labels))}
        tables = np.array([known[label] for label in labels], np.int64)
        positions = np.array(events["position"].to_pylist(), object)
        times = pc.fill_null(events["changed_at"].cast(pa.int64()), -1).to_numpy()
        numbers = named.indices.to_numpy().astype(np.int64)
        found = cls.of(codes_of(events["kind"]), numbers, tables, positions, times, is_reused=False)
        ids, pairs = named.dictionary.to_pylist(), list(known)

        def outer(runs: Outer) -> Outer:
            return {pairs[number]: one for number, one in cast("dict[int, _Runs]", runs).items()}

        return cls(
            {ids[key]: _Head(head.ending, outer(head.runs)) for key, head in found.heads.items()},
            {ids[key]: _Tail(ids[key], t.is_new, t.begins, outer(t.runs)) for key, t in found.tails.items()},
            {ids[key] for key in found.settled},
        )

    def then(self, other: OpenTransactions) -> None:
        """Adds the records that follow."""
        for key, head in other.heads.items():
            tail = self.tails.get(key)
            if not (key in self.settled if tail is None else tail.is_new):  # it may have begun before all of these
                mine = self.heads.get(key)
                self.heads[key] = head if mine is None else mine.then(head)
        for key in other.settled.difference(other.tails):
            self.tails.pop(key, None)
        for key, tail in other.tails.items():
            before = self.tails.get(key)
            if tail.is_new or (before is None and key not in self.settled):
                self.tails[key] = tail
            elif before is None:
                self.tails[key] = _Tail(tail.name, True, False, tail.runs)
            else:
                self.tails[key] = _Tail(before.name, before.is_new, before.begins, _merged(before.runs, tail.runs))
        self.settled |= other.settled


def run_starts(kinds: Ints, group: Ints) -> Ints:
    """The indexes at which runs (:class:`Run`) of changes begin; ``group`` has a row for each number that the changes
    of a run have in common."""
    starts = np.ones(len(kinds), np.bool_)
    starts[1:] = (group[:, 1:] != group[:, :-1]).any(axis=0) | (kinds[1:] == kinds[:-1])
    starts[1:] |= (kinds[1:] == CHANGE) | (kinds[:-1] == CHANGE)
    return np.flatnonzero(starts)


# --- borders ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Border:
    """What a split needs to know of the transactions in others. ``open_before``: the names of those that are open at
    its start, by id; ``begun``: those whose begin is there. ``endings``: how those continue that are open at its end,
    by name, where an end or an undo record follows. ``before``, ``after``: the last run of changes before the split and
    the first one after it, by id and table, of transactions with records on both sides."""

    open_before: dict[Key, str] = field(default_factory=dict)
    begun: frozenset[str] = frozenset()
    endings: dict[str, Ending] = field(default_factory=dict)
    before: dict[tuple[Key, Table], Run] = field(default_factory=dict)
    after: dict[tuple[Key, Table], Run] = field(default_factory=dict)


def borders(summaries: Sequence[OpenTransactions]) -> tuple[list[Border], dict[Key, str]]:
    """What each split needs to know, and the names of the transactions that are open after all of them, by id."""
    made: list[Border] = []
    total = OpenTransactions()
    for one in summaries:
        before = {
            (key, table): runs.last
            for key in one.heads.keys() & total.tails.keys()
            for table, runs in total.tails[key].runs.items()
        }
        tails = total.tails.items()
        begun = frozenset(tail.name for _, tail in tails if tail.begins)
        made.append(Border({key: tail.name for key, tail in tails}, begun, before=before))
        total.then(one)
    still_open = {key: tail.name for key, tail in total.tails.items()}
    later: dict[Key, _Head] = {}  # what follows of those that are open after the split
    open_after = still_open
    for one, border in zip(reversed(summaries), reversed(made), strict=True):
        border.endings = {
            open_after[key]: later[key].ending for key in open_after.keys() & later if later[key].ending != _NOTHING
        }
        border.after = {
            (key, table): runs.first for key in open_after.keys() & later for table, runs in later[key].runs.items()
        }
        follows: dict[Key, _Head] = {}
        for key in border.open_before:
            head, tail = one.heads.get(key), one.tails.get(key)
            goes_on = later.get(key) if tail is None or not tail.is_new else None
            if head is None and goes_on is not None and key not in one.settled:
                follows[key] = goes_on
            elif head is not None:
                follows[key] = head if head.ending.kind != OTHER else head.then(goes_on)
        later, open_after = follows, border.open_before
    return made, still_open
