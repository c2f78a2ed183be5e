"""Transactions of streams with begins and ends (docs/formats/gbase8s.md §6), and their changes, which are assembled
where events are read. A reader reads the headers of its split first, then decodes it once. What it needs to know of
other splits is in its :class:`Crossing`; the plan has it from summaries of each split (:class:`OpenTransactions`). An
update is a change of the split with its first half.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.errors import CaptureError
from cdcwb.formats.arrays import as_array
from cdcwb.formats.changes import Became, Halves, assembled, joined, locations, spliced
from cdcwb.formats.dissector import CHANGES, Named, Read, Wanted
from cdcwb.formats.kernels import Bools, Ints
from cdcwb.formats.records import Plan, RecordFormat, Split
from cdcwb.formats.requests import selected, with_all_columns, with_problems
from cdcwb.formats.summaries import Groups, counted_parts, one_chunk
from cdcwb.model import Kind, Outcome

Key = Any
"""The id of a transaction: a number or a text."""
Table = Hashable

OTHER, BEGIN, COMMIT, ROLLBACK, UNDO, CHANGE, BEFORE, AFTER = range(8)
KINDS: Final = (Kind.BEGIN, Kind.COMMIT, Kind.ROLLBACK, Kind.UNDO, Kind.CHANGE, Kind.BEFORE, Kind.AFTER)
"""The kinds of events with the codes 1 to 7; the code of all others is 0."""


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


def _name(key: Key, begins: bool, position: int) -> str:
    """Its id and the position of its begin, ``39@0000000B01746018``; without a begin the position of its first record,
    ``39@~0000000B01746050``."""
    return f"{key}{'@' if begins else '@~'}{position:016X}"


def assign(found: TransactionSpans, positions: npt.NDArray[Any], open_before: dict[Key, str]) -> list[str]:
    """The names of transactions, by index. ``positions`` are those of all records. ``open_before`` (id -> name) is
    updated."""
    ids = found.number.tolist()
    names = list(map(_name, ids, found.begins.tolist(), positions[found.first].tolist()))
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
    lowest position of the undo records (None: none). Positions are texts, times µs since 1970 UTC."""

    kind: int = OTHER
    position: str | None = None
    time: int | None = None
    undo: str | None = None


NO_TIME: Final = -(1 << 62)
"""The time of a record without one."""


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


def _extended(far: Run, near: Run, is_one: bool, beside: Run | None) -> Run:
    """The outer run of some changes at their far end, with the run ``beside`` that is next to their near end."""
    joins = is_one and beside is not None and {near.kind, beside.kind} == {BEFORE, AFTER}
    return Run(far.kind, far.number + beside.number) if joins and beside else far


@dataclass(frozen=True, slots=True)
class _Tail:
    """A transaction that is open at the end. ``is_new``: its first record is among these, else ``name`` is that of a
    transaction whose first record is; ``begins``: whether that record is a begin."""

    name: str
    is_new: bool
    begins: bool
    runs: Outer


@dataclass(frozen=True, slots=True)
class OpenTransactions:
    """The transactions of consecutive records that are open at their start or end, by id. ``heads``: the runs and the
    ending of those that began before; ``closed``: the ids of those whose last record is an end."""

    heads: dict[Key, tuple[Outer, Ending]] = field(default_factory=dict)
    tails: dict[Key, _Tail] = field(default_factory=dict)
    closed: set[Key] = field(default_factory=set)

    @classmethod
    def of(cls, kinds: Ints, numbers: Ints, tables: Ints, positions: npt.NDArray[Any], times: Ints) -> OpenTransactions:
        """That of records of transactions in capture order: codes of kinds, ids, numbers of tables (of changes),
        positions, and times in µs since 1970 UTC (of commits; NO_TIME: unknown)."""
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
        undo: dict[int, str] = {}
        for record in np.flatnonzero(kinds == UNDO).tolist():
            at, position = int(found.index[record]), f"{positions[record]:016X}"
            undo[at] = min(position, undo.get(at, position))
        summary = cls(closed=set(found.number[found.tails & found.ends].tolist()))
        for at in heads:
            last, end = int(found.last[at]), Ending(undo=undo.get(at))
            if found.ends[at]:
                time = None if times[last] == NO_TIME else int(times[last])
                end = Ending(int(kinds[last]), f"{positions[last]:016X}", time, end.undo)
            summary.heads[ids[at]] = runs[at], end
        for at in tails:
            has_begin = bool(found.begins[at])
            name = _name(ids[at], has_begin, positions[found.first[at]])
            summary.tails[ids[at]] = _Tail(name, has_begin or not found.leads[at], has_begin, runs[at])
        return summary


def run_starts(kinds: Ints, group: Ints) -> Ints:
    """The indexes at which runs (:class:`Run`) of changes begin; ``group`` has a row for each number that the changes
    of a run have in common."""
    starts = np.ones(len(kinds), np.bool_)
    starts[1:] = (group[:, 1:] != group[:, :-1]).any(axis=0) | (kinds[1:] == kinds[:-1])
    starts[1:] |= (kinds[1:] == CHANGE) | (kinds[:-1] == CHANGE)
    return np.flatnonzero(starts)


# --- borders ----------------------------------------------------------------------------------------------------------


OfTable = tuple[str, str | None, str | None]
"""A transaction, and the schema and name of a table."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """What a split needs to know of the transactions in others. ``open_before``: the names of those that are open at
    its start, by id; ``begun``: those whose begin is there. ``endings``: how those continue that are open at its end,
    by name, where an end or an undo record follows. ``before``, ``after``: the last run of changes before the split and
    the first one after it, of transactions with records on both sides. ``read_on`` reads the events that follow the
    split."""

    open_before: Mapping[Key, str] = field(default_factory=dict)
    begun: frozenset[str] = frozenset()
    endings: dict[str, Ending] = field(default_factory=dict)
    before: dict[OfTable, Run] = field(default_factory=dict)
    after: dict[OfTable, Run] = field(default_factory=dict)
    read_on: Read | None = None


NOTHING: Final = Crossing()
"""No transaction crosses a border."""


@dataclass(slots=True)
class _Crossed:
    """A transaction over borders, with the split, the runs and the ending of its records in each window."""

    name: str
    begins: bool
    pieces: list[tuple[int, Outer, Ending]]


def crossings(
    splits: Sequence[Sequence[OpenTransactions]], names: Callable[[Table], tuple[str | None, str | None]]
) -> tuple[list[Crossing], dict[Key, str]]:
    """What each split needs to know, from the windows of all splits, and the names of the transactions that are open
    after all of them, by id. ``names``: schema and name of a table."""
    made: list[Crossing] = []
    still_open: dict[Key, _Crossed] = {}
    every: list[_Crossed] = []
    for number, windows in enumerate(splits):
        begun = frozenset(one.name for one in still_open.values() if one.begins)
        made.append(Crossing({key: one.name for key, one in still_open.items()}, begun))
        for window in windows:
            for key in window.heads.keys() & still_open.keys():
                still_open[key].pieces.append((number, *window.heads[key]))
            for key in window.closed:
                still_open.pop(key, None)
            for key, tail in window.tails.items():
                if tail.is_new or key not in still_open:
                    still_open[key] = _Crossed(tail.name, tail.begins, [(number, tail.runs, Ending())])
                    every.append(still_open[key])
    for one in every:
        before, after, ending = dict[Table, Run](), dict[Table, Run](), Ending()
        for (split, runs, _), (later, _, _) in pairwise(one.pieces):
            for table, (first, last, is_one) in runs.items():
                before[table] = _extended(last, first, is_one, before.get(table))
            if later > split:
                made[later].before.update({(one.name, *names(table)): run for table, run in before.items()})
        for (split, _, _), (later, runs, end) in reversed([*pairwise(one.pieces)]):
            for table, (first, last, is_one) in runs.items():
                after[table] = _extended(first, last, is_one, after.get(table))
            undo = min((some for some in (end.undo, ending.undo) if some is not None), default=None)
            ending = (ending if end.kind == OTHER else end)._replace(undo=undo)
            for border in range(split, later):
                made[border].after.update({(one.name, *names(table)): run for table, run in after.items()})
                made[border].endings.update({} if ending == Ending() else {one.name: ending})
    return made, {key: one.name for key, one in still_open.items()}


# --- headers of a split -----------------------------------------------------------------------------------------------

_OF_HEADERS: Final = (
    *("file_index", "offset", "length", "kind", "operation", "position", "transaction_id", "changed_at"),
    *("schema_name", "table_name", "table_version"),
)
_HEADERS: Final = pa.schema(map(model.EVENTS.field, _OF_HEADERS))
_BY_HEADERS: Final = {*_OF_HEADERS, "outcome", "commit_position", "committed_at", "source_events"}
"""The columns of changes that are made of headers."""
_USERS: Final = pa.schema([("transaction_id", pa.string()), ("user", pa.string())])
_OUTCOMES: Final = (str(Outcome.COMMITTED), str(Outcome.ROLLED_BACK), str(Outcome.OPEN))


def files_changed() -> CaptureError:
    """The error for files that are not the same in two passes over them."""
    return CaptureError("the files changed between two passes over them; load the capture again")


class TransactionHeaders:
    """The headers of the transactions of a split. ``kind``: codes of kinds; ``number``: the index of their transaction
    in ``names``; ``change``: the events of changes. A transaction that is delivered again has its name twice."""

    def __init__(self, events: pa.Table, crossing: Crossing = NOTHING) -> None:
        self.events = events.filter(pc.is_valid(events["transaction_id"])).combine_chunks()
        self.crossing = crossing
        known = pc.index_in(self.column("kind"), pa.array([str(kind) for kind in KINDS]))
        self.kind: Ints = pc.fill_null(pc.add(known, 1), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        named = self.column("transaction_id").dictionary_encode()
        found = TransactionSpans.among(self.kind, named.indices.to_numpy(zero_copy_only=False).astype(np.int64))
        delivered = pa.array(found.index).dictionary_encode()
        self.names: pa.Array = named.dictionary.take(pa.array(found.number).take(delivered.dictionary))
        self.number: Ints = delivered.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        self.change = np.flatnonzero(self.kind >= CHANGE)

    @classmethod
    def read(cls, read: Read, wanted: Wanted, crossing: Crossing = NOTHING) -> TransactionHeaders:
        """Those of a split."""
        batches = read(replace(wanted, images=False, columns=frozenset(_OF_HEADERS)))
        rows = [batch.select(list(_OF_HEADERS)) for batch in batches]
        return cls(pa.Table.from_batches(rows, _HEADERS), crossing)

    def column(self, name: str) -> pa.Array:
        """One of their columns."""
        return one_chunk(self.events[name])

    def have(self, kind: int) -> Bools:
        """Whether each transaction has a record of this kind."""
        found: Bools = np.bincount(self.number[self.kind == kind], minlength=len(self.names)) > 0
        return found

    def row(self, *kinds: int, last: bool = False) -> pa.Array:
        """The first or last record of these kinds of each transaction; null for none."""
        rows = np.flatnonzero(np.isin(self.kind, kinds))
        found = np.full(len(self.names), -1, np.int64)
        found[self.number[rows if last else rows[::-1]]] = rows if last else rows[::-1]
        return pa.array(found, mask=found < 0)

    @cached_property
    def endings(self) -> dict[int, Ending]:
        """How the transactions of this split continue in later ones."""
        known = self.crossing.endings
        last = {name: at for at, name in enumerate(self.names.to_pylist() if known else ())}
        return {at: known[name] for name, at in last.items() if name in known}

    @cached_property
    def tables(self) -> tuple[Ints, list[tuple[str | None, str | None]]]:
        """The number of the table of each change event, and the tables."""
        coded = [self.column(name).take(pa.array(self.change)) for name in ("schema_name", "table_name")]
        schema, table = (pc.dictionary_encode(one, null_encoding="encode") for one in coded)
        both = schema.indices.to_numpy().astype(np.int64) * max(1, len(table.dictionary)) + table.indices.to_numpy()
        numbers, index = np.unique(both, return_inverse=True)
        texts = [one.dictionary.to_pylist() for one in (schema, table)]
        pairs = (divmod(number, max(1, len(texts[1]))) for number in numbers.tolist())
        return index.reshape(-1), [(texts[0][one], texts[1][two]) for one, two in pairs]

    @cached_property
    def halves(self) -> Halves:
        """The halves of a run (:class:`cdcwb.formats.transactions.Run`) are paired from its start; in a run of odd
        length that begins with an after half the first one remains alone. A run may begin in an earlier split and end
        in a later one."""
        table, tables = self.tables
        count = len(self.change)
        group = self.number[self.change] * max(1, len(tables)) + table
        order = np.argsort(group, kind="stable")
        kind, of = self.kind[self.change][order], group[order]
        begin = run_starts(kind, of[None, :])
        sizes = np.diff(begin, append=count)
        earlier, later = self._continued(kind, of, begin, sizes)
        run, total = np.repeat(np.arange(len(begin)), sizes), earlier + sizes + later
        skipped = (((kind[begin] == AFTER) ^ (earlier % 2 == 1)) & (total % 2 == 1)).astype(np.int64)
        place = np.arange(count) - (begin - earlier + skipped)[run]
        is_half = kind != CHANGE
        first = is_half & (place >= 0) & (place % 2 == 0) & (place + 1 < (total - skipped)[run])
        second = is_half & (place >= 0) & (place % 2 == 1)
        at = np.flatnonzero(first)
        waits = at == (begin + sizes - 1)[run[at]]
        names = self.names.to_pylist() if waits.any() else []
        others = [(names[one // len(tables)], *tables[one % len(tables)]) for one in of[at[waits]].tolist()]
        partner = np.full(count + len(others), -1, np.int64)
        alone, is_second = np.zeros((2, len(partner)), np.bool_)
        one, two = order[at], order[np.minimum(at + 1, count - 1)]
        two[waits] = count + np.arange(len(others))
        partner[one], partner[two] = two, one
        alone[order] = is_half & ~first & ~second
        is_second[order] = second & (np.arange(count) == begin[run])
        return Halves(partner, alone, is_second, later=others)

    def _continued(self, kind: Ints, group: Ints, begin: Ints, sizes: Ints) -> tuple[Ints, Ints]:
        """For each run the number of its halves in earlier and in later splits. ``kind`` and ``group`` are those of the
        changes by group, ``begin`` and ``sizes`` those of runs."""
        both = np.zeros((2, len(begin)), np.int64)
        if not self.crossing.before and not self.crossing.after:
            return both[0], both[1]
        named = [*enumerate(self.names.to_pylist())]
        of_table = {label: code for code, label in enumerate(self.tables[1])}
        for side, known in enumerate((self.crossing.before, self.crossing.after)):
            numbers = {name: number for number, name in (named if side else reversed(named))}
            for (name, schema, label), beside in known.items():
                code = of_table.get((schema, label))
                if name not in numbers or code is None or beside.kind == CHANGE:
                    continue
                of = numbers[name] * len(of_table) + code
                at = int(np.searchsorted(group, of) if side == 0 else np.searchsorted(group, of, side="right") - 1)
                if 0 <= at < len(group) and group[at] == of and {int(kind[at]), beside.kind} == {BEFORE, AFTER}:
                    both[side, np.searchsorted(begin, at, side="right") - 1] = beside.number
        return both[0], both[1]

    def outcomes(self) -> Ints:
        """The outcome of each transaction, as an index in :data:`_OUTCOMES`."""
        begins, commits, rolls_back = (self.have(kind) for kind in (BEGIN, COMMIT, ROLLBACK))
        for number, ending in self.endings.items():
            commits[number] |= ending.kind == COMMIT
            rolls_back[number] |= ending.kind == ROLLBACK
        if self.crossing.begun:
            begins |= np.array([name in self.crossing.begun for name in self.names.to_pylist()], np.bool_)
        found: Ints = np.select([begins & commits, begins & rolls_back], [0, 1], 2)
        return found

    def undo(self) -> pa.Array:
        """For each change the lowest position of the undo records of its transaction that follow it; null for none."""
        lowest = {number: ending.undo for number, ending in self.endings.items() if ending.undo is not None}
        rows = np.flatnonzero(np.isin(self.number, [*self.number[self.kind == UNDO].tolist(), *lowest]))[::-1]
        position, found = self.column("position"), dict[int, str]()
        for row, number, kind in zip(*(of.tolist() for of in (rows, self.number[rows], self.kind[rows])), strict=True):
            if kind == UNDO:
                at = position[row].as_py()
                lowest[number] = min(at, lowest.get(number, at))
            elif kind >= CHANGE and number in lowest:
                found[row] = lowest[number]
        places = np.searchsorted(self.change, np.array(list(found), np.int64))
        return spliced(pa.nulls(len(self.change), pa.string()), places, pa.array(found.values(), pa.string()))

    def became(self) -> Became:
        """What became of its changes."""
        number, commit = self.number[self.change], self.row(COMMIT, last=True)
        position, time = (self.column(name).take(commit) for name in ("position", "changed_at"))
        commits = {n: ending for n, ending in self.endings.items() if ending.kind == COMMIT}
        if commits:
            at = np.array(list(commits))
            position = spliced(position, at, pa.array([one.position for one in commits.values()], pa.string()))
            time = spliced(time, at, pa.array([one.time for one in commits.values()], pa.int64()))
        outcome = pa.array(_OUTCOMES).take(pa.array(self.outcomes()[number]))
        return Became(outcome, position.take(pa.array(number)), time.take(pa.array(number)), self.undo())

    def parts(self, users: pa.Table | None = None) -> pa.RecordBatch:
        """The parts of its transactions (:data:`cdcwb.formats.summaries.PARTS`). ``users``: the columns transaction_id
        and user of their begins."""
        begin, end = self.row(BEGIN), self.row(COMMIT, ROLLBACK, last=True)
        position, time = self.column("position"), self.column("changed_at")
        user = pa.nulls(len(self.names), pa.string())
        if users is not None:
            user = one_chunk(users["user"]).take(pc.index_in(self.names, one_chunk(users["transaction_id"])))
        own, counts = np.arange(len(self.change)), np.zeros(len(self.kind), np.bool_)
        partner, earlier = (of[: len(own)] for of in (self.halves.partner, self.halves.earlier))
        counts[self.change] = ((partner < 0) | (partner > own)) & ~earlier  # the first half
        events = self.events.append_column("counts", pa.array(counts)).append_column("number", pa.array(self.number))
        groups = Groups(events, "number")
        facts = {
            "transaction_id": self.names,
            "begin_position": position.take(begin),
            "began_at": time.take(begin),
            "user": user,
            "commit_position": position.take(end),
            "ended_at": time.take(end),
            "begins": begin.is_valid(),
            "last": end.is_valid(),
            "says_last": pa.repeat(True, len(self.names)),
            "commits": pa.array(self.have(COMMIT)),
            "rolls_back": pa.array(self.have(ROLLBACK)),
            "bytes": groups.sum(groups.column("length")),
        }
        return counted_parts(groups, facts)


# --- reading ----------------------------------------------------------------------------------------------------------


def read_changes(read: Read, wanted: Wanted, crossing: Crossing = NOTHING) -> Iterator[pa.RecordBatch]:
    """The changes that begin in a split, in the order of the last of their records, as batches of
    :data:`cdcwb.model.CHANGES`. ``read`` reads the events of the split."""
    headers = TransactionHeaders.read(read, replace(wanted, tables=None), crossing)
    if not len(headers.change):
        return
    halves, became = headers.halves, headers.became()
    events = headers.events.take(pa.array(headers.change)).combine_chunks().to_batches()[0]
    places_of = locations(events)
    needed = replace(wanted, kinds=frozenset(CHANGES), columns=wanted.of_changes)
    numbers = _of_tables(headers, wanted.tables)
    here, later = np.split(numbers, np.searchsorted(numbers, [len(places_of)]))
    has_all = wanted.columns is not None and wanted.columns <= _BY_HEADERS
    decoded = iter([with_all_columns(events.take(pa.array(here)))]) if has_all else read(needed)
    first = 0  # of the numbers of the changes that are decoded next
    waiting: pa.RecordBatch | None = None
    places = np.empty(0, np.int64)
    for rows in itertools.chain(decoded, [None], _later_halves(headers, later, needed)):
        if rows is None:  # the end of the split
            if first != len(here):
                raise files_changed()
            continue
        end = first + rows.num_rows
        if first < len(here) and not np.array_equal(locations(rows), places_of[here[first:end]]):
            raise files_changed()
        places = np.append(places, numbers[first:end])
        rows = rows if waiting is None else joined(waiting, rows)
        partner = halves.partner[places]
        done = np.flatnonzero((partner < places) & ~halves.earlier[places])
        if len(done):
            other = np.where(partner[done] >= 0, np.searchsorted(places, partner[done]), -1)
            yield assembled(rows, done, other, halves, became, places[done])
        waits = np.flatnonzero(np.searchsorted(numbers, partner) >= end)
        waiting, places, first = rows.take(pa.array(waits)), places[waits], end


def _of_tables(headers: TransactionHeaders, tables: frozenset[str] | None) -> Ints:
    """The numbers of the changes of some tables (None: all), among those of a split and then the halves in later ones
    that belong to them."""
    if tables is None:
        return np.arange(len(headers.halves.partner))
    table, known = headers.tables
    names = zip(*known, *((schema, name) for _, schema, name in headers.halves.later), strict=True)
    columns = [pa.array(texts, pa.string()) for texts in names]
    rows = pa.RecordBatch.from_arrays(columns, ["schema_name", "table_name"])
    is_wanted = as_array(selected(rows, Wanted(tables=tables)))
    found: Ints = np.flatnonzero(np.append(is_wanted[table], is_wanted[len(known) :]))
    return found


def _later_halves(headers: TransactionHeaders, numbers: Ints, needed: Wanted) -> Iterator[pa.RecordBatch]:
    """The halves in later splits that belong to those of this one, in order: the next change of their transaction
    and table. ``numbers``: of those that are requested, after those of the changes of the split."""
    later = headers.halves.later
    wanted = {later[number - len(headers.change)]: number for number in numbers.tolist()}
    if not wanted:
        return
    assert headers.crossing.read_on is not None
    found: dict[int, pa.RecordBatch] = {}
    for rows in headers.crossing.read_on(replace(needed, transactions=frozenset(key[0] for key in wanted))):
        keys = zip(*(rows[name].to_pylist() for name in ("transaction_id", "schema_name", "table_name")), strict=True)
        for row, key in enumerate(keys):
            number = wanted.pop(key, None)
            if number is not None:
                found[number] = rows.slice(row, 1)
        if not wanted:
            break
    else:
        raise files_changed()
    yield from pa.Table.from_batches([found[number] for number in sorted(found)]).combine_chunks().to_batches()


def read_transactions(read: Read, wanted: Wanted, crossing: Crossing = NOTHING) -> Iterator[pa.RecordBatch]:
    """The parts of transactions in a split, in the order of their first records, as a batch of
    :data:`cdcwb.formats.summaries.PARTS`."""
    yield TransactionHeaders.read(read, wanted, crossing).parts(_users(read, wanted))


def _users(read: Read, wanted: Wanted) -> pa.Table:
    """The columns transaction_id and user of the begins in a split."""
    kinds, columns = frozenset([str(Kind.BEGIN)]), frozenset(["transaction_id", "headers"])
    batches = read(replace(wanted, images=False, kinds=kinds, columns=columns))
    both = ([one["transaction_id"], pc.map_lookup(one["headers"], "user_id", "first")] for one in batches)
    parts = [pa.RecordBatch.from_arrays(columns, schema=_USERS) for columns in both]
    return pa.Table.from_batches(parts, _USERS).combine_chunks()


def read_checked(read: Read, wanted: Wanted, crossing: Crossing = NOTHING) -> Named:
    """What one pass over a split shows: ``checked``, the events with problems; ``changes``, if halves of updates have
    problems; and the parts of ``transactions`` that have no begin or end."""
    columns = None if wanted.columns is None else wanted.columns.union(_OF_HEADERS)
    rows: list[pa.RecordBatch] = []
    for batch in read(replace(wanted, drop_malformed=False, columns=columns)):
        yield "checked", with_problems(batch)
        rows.append(batch.select(list(_OF_HEADERS)))
    headers = TransactionHeaders(pa.Table.from_batches(rows, _HEADERS), crossing)
    halves, count = headers.halves, len(headers.change)
    is_reversed = (headers.kind[headers.change] == AFTER) & (halves.partner[:count] > np.arange(count))
    if halves.alone.any() or is_reversed.any():  # rare enough to read the split once more
        yield from (("changes", changes) for changes in read_changes(read, replace(wanted, images=False), crossing))
    is_open = headers.outcomes() == _OUTCOMES.index(Outcome.OPEN)
    yield "transactions", headers.parts().filter(pa.array(is_open))


# --- the format -------------------------------------------------------------------------------------------------------


class StreamFormat(RecordFormat):
    """A format of records whose stream has begins and ends. The state of a split has its ``crossing``."""

    by_table = True

    def _read_on(self, plan: Plan, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The events that follow a split, up to the end of the capture."""
        if split + 1 < len(plan.splits):
            then, end = plan.splits[split + 1], sum(file.length for file in plan.files)
            yield from self.read_range(plan, Split(then.start, end, [], then.state), wanted)

    def _crossing(self, plan: Plan, split: int) -> Crossing:
        """What a split needs to know of others."""
        crossing: Crossing = plan.splits[split].state.crossing
        return replace(crossing, read_on=partial(self._read_on, plan, split))

    def read_changes(self, plan: Plan, split: int, wanted: Wanted, read: Read) -> Iterator[pa.RecordBatch]:
        """See :func:`read_changes`."""
        return read_changes(read, wanted, self._crossing(plan, split))

    def read_transactions(self, plan: Plan, split: int, wanted: Wanted, read: Read) -> Iterator[pa.RecordBatch]:
        """See :func:`read_transactions`."""
        return read_transactions(read, wanted, self._crossing(plan, split))

    def read_checked(self, plan: Plan, split: int, wanted: Wanted, read: Read) -> Named:
        """See :func:`read_checked`."""
        return read_checked(read, wanted, self._crossing(plan, split))
