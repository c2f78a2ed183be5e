"""Assembles changes and transactions where events are read, for streams with begins and ends
(docs/formats/gbase8s.md §6). A reader reads the headers of its split first, then decodes it once, and yields rows of
:data:`cdcwb.model.CHANGES`. What it needs to know of other splits is in its :class:`Crossing`. An update is a change of
the split with its first half. Transactions with records in several splits are merged from one narrow row of each
(:data:`PARTS`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.errors import CaptureError
from cdcwb.formats.arrays import as_array, labels
from cdcwb.formats.bitmask import disagreement
from cdcwb.formats.dissector import OF_CHANGES, Wanted
from cdcwb.formats.groups import Groups, distinct, one_chunk
from cdcwb.formats.requests import with_problems
from cdcwb.formats.transactions import (
    AFTER,
    BEFORE,
    BEGIN,
    CHANGE,
    COMMIT,
    ROLLBACK,
    UNDO,
    Ending,
    Run,
    codes_of,
    run_starts,
)  # fmt: skip
from cdcwb.model import ChangeSource, Completeness, Kind, Operation, Outcome, Problem

__all__ = [
    "CHANGES",
    "NOTHING",
    "ONLY_ASSEMBLED",
    "PARTS",
    "Became",
    "Crossing",
    "Halves",
    "Named",
    "Read",
    "TransactionHeaders",
    "assembled",
    "collected",
    "ended",
    "files_changed",
    "finished",
    "joined",
    "merged",
    "open_ones",
    "read_changes",
    "read_checked",
    "read_transactions",
    "spliced",
    "with_columns",
]

Read = Callable[[Wanted], Iterator[pa.RecordBatch]]
"""Reads the events of a split."""

Named = Iterator[tuple[str, pa.RecordBatch]]
"""Batches with their names."""

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

CHANGES: Final = (str(Kind.CHANGE), str(Kind.BEFORE), str(Kind.AFTER))
"""The kinds of events that changes are made of."""

ONLY_ASSEMBLED: Final = (Problem.UPDATE_HALF, Problem.REORDERED_UPDATE, Problem.MASK_IMAGES)
"""Problems of changes that none of their events has. A mask is compared with both images here if they are in two
events; if they are in one, the format has compared them."""

_OF_HEADERS: Final = (
    *("file_index", "offset", "length", "kind", "operation", "position", "transaction_id", "changed_at"),
    *("schema_name", "table_name"),
)
_HEADERS: Final = pa.schema(map(model.EVENTS.field, _OF_HEADERS))
_MICROSECONDS: Final = model.EVENTS.field("changed_at").type

PARTS: Final = pa.schema(
    [
        ("transaction_id", pa.string()),
        ("split", pa.int32()),
        ("begins", pa.bool_()),
        ("begin_position", pa.string()),
        ("began_at", _MICROSECONDS),
        ("user", pa.string()),
        ("end_position", pa.string()),
        ("ended_at", _MICROSECONDS),
        ("commits", pa.bool_()),
        ("rolls_back", pa.bool_()),
        ("bytes", pa.int64()),
        ("changes", pa.map_(pa.string(), pa.int64())),  # that begin in the split, by operation
        ("tables", pa.list_(pa.string())),
    ]
)
"""The records of a transaction in a split."""

_USERS: Final = pa.schema([("transaction_id", pa.string()), ("user", pa.string())])

OfTable = tuple[str, str | None, str | None]
"""A transaction, and the schema and name of a table."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """What a split needs to know of others. ``open_before``: the transactions that are open at its start; ``begun``:
    those of them whose begin is there; ``open_after``: those that are open at its end, if another split follows.
    ``endings``: the end and the undo records that follow (positions as text, times in µs since 1970 UTC). ``before``,
    ``after``: the last run of changes of a transaction and table before the split, and the first one after it.
    ``read_on`` reads the events that follow the split."""

    open_before: frozenset[str] = frozenset()
    begun: frozenset[str] = frozenset()
    open_after: frozenset[str] = frozenset()
    endings: Mapping[str, Ending] = field(default_factory=dict)
    before: Mapping[OfTable, Run] = field(default_factory=dict)
    after: Mapping[OfTable, Run] = field(default_factory=dict)
    read_on: Read | None = None

    @property
    def transactions(self) -> frozenset[str]:
        """Those that other splits have too, or may have."""
        return self.open_before | self.open_after


NOTHING: Final = Crossing()
"""No transaction crosses a border."""


def files_changed() -> CaptureError:
    """The error for files that are not the same in two passes over them."""
    return CaptureError("the files changed between two passes over them; load the capture again")


# --- headers ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Halves:
    """For each change event: ``partner``, the number of the other half of its update, -1 for none; ``alone``: whether
    it is a half without the other one; ``earlier``: whether the other half is in an earlier split, which yields their
    change. Other halves in later splits are numbered after all events of the split; ``later`` are their transactions
    and tables. ``ordered``: whether halves are paired by their order; then an after half that precedes its before half
    is reported."""

    partner: Ints
    alone: Bools
    earlier: Bools
    ordered: bool = True
    later: Sequence[OfTable] = ()


class TransactionHeaders:
    """The headers of the transactions of a split. ``kind``: codes of kinds; ``number``: the index of their transaction
    in ``names``; ``change``: the events of changes."""

    def __init__(self, events: pa.Table, crossing: Crossing = NOTHING) -> None:
        self.events = events.filter(pc.is_valid(events["transaction_id"])).combine_chunks()
        self.crossing = crossing
        named = self.column("transaction_id").dictionary_encode()
        self.names: pa.Array = named.dictionary
        self.number: Ints = named.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        self.kind = codes_of(self.column("kind"))
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
        numbers = {name: number for number, name in enumerate(self.names.to_pylist())} if self.crossing.endings else {}
        return {numbers[name]: ending for name, ending in self.crossing.endings.items() if name in numbers}

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
        numbers = {name: number for number, name in enumerate(self.names.to_pylist())}
        of_table = {label: code for code, label in enumerate(self.tables[1])}
        for side, known in enumerate((self.crossing.before, self.crossing.after)):
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
        if self.crossing.open_before:
            begins |= np.array([name in self.crossing.begun for name in self.names.to_pylist()], np.bool_)
        return _outcome(begins, commits, rolls_back)

    def undo(self) -> pa.Array:
        """For each change the lowest position of the undo records of its transaction that follow it; null for none."""
        beyond_end = [number for number, ending in self.endings.items() if ending.undo is not None]
        wanted = np.union1d(self.number[self.kind == UNDO], np.array(beyond_end, np.int64))
        some = np.flatnonzero(np.isin(self.number, wanted))
        if not len(some):
            return pa.nulls(len(self.change), pa.string())
        some = some[np.argsort(self.number[some], kind="stable")]
        later = [self.endings.get(number, Ending()).undo for number in wanted.tolist()]
        positions = pa.concat_arrays([self.column("position").take(pa.array(some)), pa.array(later, pa.string())])
        ranks = pc.rank(positions, tiebreaker="dense").to_numpy().astype(np.int64)
        never = len(positions) + 1
        ranks[as_array(positions.is_null())] = never
        ranks[: len(some)][self.kind[some] != UNDO] = never
        starts = np.flatnonzero(np.diff(self.number[some], prepend=-1))
        lowest = np.full(len(self.number), never, np.int64)  # of the undo records that follow each record
        parts = zip(
            np.split(some, starts[1:]), np.split(ranks[: len(some)], starts[1:]), ranks[len(some) :], strict=True
        )
        for mine, rank, least in parts:
            lowest[mine] = np.minimum.accumulate(np.append(rank, least)[::-1])[::-1][1:]
        of_rank = np.full(never + 1, -1, np.int64)
        of_rank[ranks] = np.arange(len(ranks))
        of_rank[never] = -1
        found = of_rank[lowest[self.change]]
        return positions.take(pa.array(found, mask=found < 0))


_OUTCOMES: Final = (str(Outcome.COMMITTED), str(Outcome.ROLLED_BACK), str(Outcome.OPEN))


def _outcome(begins: Bools, commits: Bools, rolls_back: Bools) -> Ints:
    """The outcome of transactions with these records, as an index in :data:`_OUTCOMES`."""
    found: Ints = np.select([begins & commits, begins & rolls_back], [0, 1], 2)
    return found


def _locations(events: pa.RecordBatch) -> Ints:
    """A number for the location of each event."""
    index, offset = (events[name].to_numpy().astype(np.int64) for name in ("file_index", "offset"))
    found: Ints = (index << 44) + offset
    return found


# --- reading ----------------------------------------------------------------------------------------------------------


def read_changes(read: Read, wanted: Wanted, crossing: Crossing = NOTHING) -> Iterator[pa.RecordBatch]:
    """The changes that begin in a split, in the order of the last of their records, as batches of
    :data:`cdcwb.model.CHANGES`. ``read`` reads the events of the split."""
    headers = TransactionHeaders.read(read, wanted, crossing)
    if not len(headers.change):
        return
    halves, became = headers.halves, Became.of(headers)
    locations = _locations(headers.events.take(pa.array(headers.change)).combine_chunks().to_batches()[0])
    needed = replace(wanted, kinds=frozenset(CHANGES), columns=frozenset(OF_CHANGES))
    first = 0  # of the changes that are decoded next
    waiting: pa.RecordBatch | None = None
    places = np.empty(0, np.int64)
    for rows in itertools.chain(read(needed), [None], _later_halves(headers, needed)):
        if rows is None:  # the end of the split
            if first != len(locations):
                raise files_changed()
            continue
        end = first + rows.num_rows
        if first < len(locations) and not np.array_equal(_locations(rows), locations[first:end]):
            raise files_changed()
        places = np.append(places, np.arange(first, end))
        rows = rows if waiting is None else joined(waiting, rows)
        partner = halves.partner[places]
        done = np.flatnonzero((partner < places) & ~halves.earlier[places])
        if len(done):
            other = np.where(partner[done] >= 0, np.searchsorted(places, partner[done]), -1)
            yield assembled(rows, done, other, halves, became, places[done])
        waits = np.flatnonzero(partner >= end)
        waiting, places, first = rows.take(pa.array(waits)), places[waits], end


def _later_halves(headers: TransactionHeaders, needed: Wanted) -> Iterator[pa.RecordBatch]:
    """The halves in later splits that belong to those of this one, in order: the next change of their transaction
    and table."""
    wanted = {key: number for number, key in enumerate(headers.halves.later)}
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


def read_transactions(read: Read, wanted: Wanted, split: int = 0, crossing: Crossing = NOTHING) -> Named:
    """``transactions``: those of a split that are in no other one, in the order of their first records, as a batch of
    :data:`cdcwb.model.TRANSACTIONS`; and of the others, ``crossing``, their :data:`PARTS`."""
    yield from _divided(_parts(TransactionHeaders.read(read, wanted, crossing), split, _users(read, wanted)), crossing)


def _divided(parts: pa.RecordBatch, crossing: Crossing) -> Named:
    """The transactions of a split: ``transactions`` that are in no other one, and the parts of the others."""
    crosses = pc.is_in(parts["transaction_id"], pa.array(sorted(crossing.transactions), pa.string()))
    yield "transactions", merged(pa.Table.from_batches([parts.filter(pc.invert(crosses))]))
    if pc.any(crosses).as_py():
        yield "crossing", parts.filter(crosses)


def _users(read: Read, wanted: Wanted) -> pa.Table:
    """The columns transaction_id and user of the begins in a split."""
    kinds, columns = frozenset([str(Kind.BEGIN)]), frozenset(["transaction_id", "headers"])
    parts = [
        pa.RecordBatch.from_arrays(
            [batch["transaction_id"], pc.map_lookup(batch["headers"], "user_id", "first")], schema=_USERS
        )
        for batch in read(replace(wanted, images=False, kinds=kinds, columns=columns))
    ]
    return pa.Table.from_batches(parts, _USERS).combine_chunks()


def _parts(headers: TransactionHeaders, split: int, users: pa.Table | None = None) -> pa.RecordBatch:
    """The rows of :data:`PARTS` of a split."""
    count, halves, change = len(headers.names), headers.halves, headers.change
    begin, end = headers.row(BEGIN), headers.row(COMMIT, ROLLBACK, last=True)
    position, time = headers.column("position"), headers.column("changed_at")
    user = pa.nulls(count, pa.string())
    if users is not None:
        user = one_chunk(users["user"]).take(pc.index_in(headers.names, one_chunk(users["transaction_id"])))
    own = np.arange(len(change))
    partner, earlier = halves.partner[: len(change)], halves.earlier[: len(change)]
    is_first = ((partner < 0) | (partner > own)) & ~earlier
    operation = headers.column("operation").take(pa.array(change))
    known = as_array(operation.is_valid())
    counted, named = known & is_first, known
    operations, of_changes, times = distinct(
        headers.number[change[counted]], operation.filter(pa.array(counted)), count
    )
    label = labels(*(headers.column(name).take(pa.array(change)) for name in ("schema_name", "table_name")))
    named &= as_array(label.is_valid())
    tables, of_tables, _ = distinct(headers.number[change[named]], label.filter(pa.array(named)), count)
    sizes = np.bincount(headers.number, weights=headers.column("length").to_numpy(), minlength=count)
    columns: dict[str, Any] = {
        "transaction_id": headers.names,
        "split": pa.repeat(split, count),
        "begins": begin.is_valid(),
        "begin_position": position.take(begin),
        "began_at": time.take(begin),
        "user": user,
        "end_position": position.take(end),
        "ended_at": time.take(end),
        "commits": pa.array(headers.have(COMMIT)),
        "rolls_back": pa.array(headers.have(ROLLBACK)),
        "bytes": pa.array(sizes.astype(np.int64)),
        "changes": pa.MapArray.from_arrays(of_changes, operations, pa.array(times)),
        "tables": pa.ListArray.from_arrays(of_tables, tables),
    }
    return pa.RecordBatch.from_arrays([columns[one.name].cast(one.type) for one in PARTS], schema=PARTS)


def merged(parts: pa.Table) -> pa.RecordBatch:
    """The transactions of all these parts (:data:`PARTS`) as a batch of :data:`cdcwb.model.TRANSACTIONS`, in the order
    of their first parts."""
    if not parts.num_rows:
        return pa.RecordBatch.from_pylist([], schema=model.TRANSACTIONS)
    parts = parts.append_column("ends", pc.or_(parts["commits"], parts["rolls_back"]))
    groups = Groups(parts.sort_by("split") if len(pc.unique(parts["split"])) > 1 else parts)
    begin, end = groups.row("begins"), groups.row("ends", last=True)
    begins, commits, rolls_back = (
        as_array(groups.some(as_array(groups.column(name)))) for name in ("begins", "commits", "rolls_back")
    )
    completeness = pc.if_else(end.is_valid(), str(Completeness.COMPLETE), str(Completeness.NO_END))
    operations, of_changes, times = groups.in_lists(groups.column("changes"))
    tables, of_tables, _ = groups.in_lists(groups.column("tables"))
    columns: dict[str, Any] = {
        "transaction_id": groups.names,
        **{name: groups.column(name).take(begin) for name in ("begin_position", "began_at", "user")},
        **{name: groups.column(name).take(end) for name in ("end_position", "ended_at")},
        "outcome": pa.array(_OUTCOMES).take(pa.array(_outcome(begins, commits, rolls_back))),
        "completeness": pc.if_else(pa.array(begins), completeness, str(Completeness.NO_BEGIN)),
        "changes": pa.MapArray.from_arrays(of_changes, operations, pa.array(times)),
        "tables": pa.ListArray.from_arrays(of_tables, tables),
        "bytes": groups.sum(groups.column("bytes")),
    }
    return pa.RecordBatch.from_arrays(
        [columns[one.name].cast(one.type) for one in model.TRANSACTIONS], schema=model.TRANSACTIONS
    )


def collected(found: Named, merge: Callable[[pa.Table], pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All transactions of a capture, from those of its splits (:func:`read_transactions`); ``merge`` merges the parts
    of those that are in several."""
    parts: list[pa.RecordBatch] = []
    for name, rows in found:
        if name == "transactions":
            yield rows
        else:
            parts.append(rows)
    if parts:
        yield merge(pa.Table.from_batches(parts)).select(model.TRANSACTIONS.names)


def read_checked(read: Read, wanted: Wanted, split: int = 0, crossing: Crossing = NOTHING) -> Named:
    """What one pass over a split shows: ``checked``, the events with problems; ``changes``, if halves of updates have
    problems; and ``transactions`` and ``crossing`` (:func:`read_transactions`) of those without begin or end."""
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
    yield from _divided(_parts(headers, split).filter(pa.array(is_open)), crossing)


def open_ones(transactions: pa.RecordBatch) -> list[dict[str, Any]]:
    """The transactions whose begin or end is missing, as rows of :data:`cdcwb.model.PROBLEMS`."""
    found = []
    for row in transactions.filter(pc.equal(transactions["outcome"], str(Outcome.OPEN))).to_pylist():
        no_begin = row["completeness"] == Completeness.NO_BEGIN
        code = Problem.NO_BEGIN if no_begin else Problem.OPEN_TRANSACTION
        said = {
            "severity": str(code.severity),
            "code": str(code),
            "sentence": f"the {'begin' if no_begin else 'end'} of this transaction is not in the capture",
            "transaction_id": row["transaction_id"],
            "table": row["tables"][0] if len(row["tables"]) == 1 else None,
        }
        found.append(said)
    return found


@dataclass(frozen=True, slots=True)
class Became:
    """The outcome of each change, unless it is undone: by an undo record that follows its first record, with its
    position or a lower one. ``undo``: the lowest position of these; null for none."""

    outcome: pa.Array
    commit_position: pa.Array
    committed_at: pa.Array
    undo: pa.Array

    @classmethod
    def of(cls, headers: TransactionHeaders) -> Became:
        """For the changes among headers."""
        number, commit = headers.number[headers.change], headers.row(COMMIT, last=True)
        position, time = (headers.column(name).take(commit) for name in ("position", "changed_at"))
        commits = {n: ending for n, ending in headers.endings.items() if ending.kind == COMMIT}
        if commits:
            at = np.array(list(commits))
            position = spliced(position, at, pa.array([one.position for one in commits.values()], pa.string()))
            time = spliced(time, at, pa.array([one.time for one in commits.values()], pa.int64()))
        outcome = pa.array(_OUTCOMES).take(pa.array(headers.outcomes()[number]))
        return cls(outcome, position.take(pa.array(number)), time.take(pa.array(number)), headers.undo())

    @classmethod
    def delivered(cls, rows: pa.RecordBatch, committed_at: pa.Array | None = None) -> Became:
        """For the changes of committed work whose last records are these, as far as known. A full load (REFRESH) is in
        no transaction. ``committed_at``: null if unknown, None: unknown for all."""
        loaded = pc.fill_null(pc.equal(rows["operation"], str(Operation.REFRESH)), True)
        outcome = pc.if_else(loaded, pa.scalar(None, pa.string()), str(Outcome.COMMITTED))
        times = pa.nulls(rows.num_rows, model.CHANGES.field("committed_at").type)
        none = pa.nulls(rows.num_rows, pa.string())
        return cls(outcome, none, times if committed_at is None else committed_at, none)


def joined(first: pa.RecordBatch, then: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of two batches in one. Older pyarrow concatenates only tables."""
    if not first.num_rows or not then.num_rows:
        return first if first.num_rows else then
    (both,) = pa.Table.from_batches([first, then]).combine_chunks().to_batches()
    return both


# --- changes ----------------------------------------------------------------------------------------------------------


def assembled(
    rows: pa.RecordBatch, done: Ints, other: Ints, halves: Halves, became: Became, places: Ints
) -> pa.RecordBatch:
    """The changes whose last records are the rows ``done``, and whose other halves are the rows ``other``, -1 for
    none; ``places`` are the numbers of ``done`` among the changes."""
    kind = rows["kind"].take(pa.array(done))
    turned = (other >= 0) & pc.equal(kind, str(Kind.BEFORE)).to_numpy(zero_copy_only=False)
    # the row of a change is that of its after half
    of, pair = np.where(turned, other, done), np.where(turned, done, other)
    taken = pa.array(of)
    columns: dict[str, pa.Array] = {
        name: rows[name].take(taken) for name in model.CHANGES.names if name in rows.schema.names
    }
    columns["before"] = rows["before"].take(pa.array(np.where(pair >= 0, pair, of)))
    columns["kind"] = pc.if_else(pa.array(halves.alone[places]), kind, str(Kind.CHANGE))
    columns["problems"] = _problems(rows, of, pair, turned & halves.ordered, halves.alone[places])
    first, second = (other, done) if halves.ordered else (pair, of)
    columns["source_events"] = _source_events(rows, second, first)
    columns["problems"] = _with_disagreements(columns, pair >= 0)
    columns["changed_columns"], columns["change_source"] = _changed(columns)
    partner = halves.partner[places]
    at = pa.array(np.where(partner >= 0, np.minimum(partner, places), places))  # that of the first half
    is_undone = pc.fill_null(pc.less_equal(became.undo.take(at), columns["position"]), False)
    columns["outcome"] = pc.if_else(is_undone, str(Outcome.UNDONE), became.outcome.take(at))
    columns["commit_position"] = became.commit_position.take(at)
    columns["committed_at"] = became.committed_at.take(at)
    return pa.RecordBatch.from_arrays(
        [columns[field.name].cast(field.type) for field in model.CHANGES], schema=model.CHANGES
    )


def _source_events(rows: pa.RecordBatch, done: Ints, other: Ints) -> pa.Array:
    joined = other >= 0
    offsets = np.concatenate([[0], np.cumsum(1 + joined)])
    of = np.empty(int(offsets[-1]), np.int64)
    of[offsets[1:] - 1] = done
    of[offsets[:-1][joined]] = other[joined]
    taken = pa.array(of)
    fields = [rows[field.name].take(taken).cast(field.type) for field in model.SOURCE_EVENT]
    places = pa.StructArray.from_arrays(fields, fields=list(model.SOURCE_EVENT))
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), places)


def _problems(rows: pa.RecordBatch, of: Ints, pair: Ints, turned: Bools, alone: Bools) -> pa.Array:
    """The problems of the before half, those of the change's own record, and those of the pair."""
    problems = rows["problems"]
    if problems.null_count == len(problems) and not turned.any() and not alone.any():
        return pa.nulls(len(of), problems.type)
    found = problems.to_pylist()
    kinds = rows["kind"].to_pylist()
    all_of_them = []
    for one, two, is_turned, is_alone in zip(of, pair, turned, alone, strict=True):
        mine = [*((found[two] or ()) if two >= 0 else ()), *(found[one] or ())]
        if is_turned:
            text = "the after half precedes the before half"
            mine.append({"code": str(Problem.REORDERED_UPDATE), "detail": text})
        if is_alone:
            lacks = Kind.AFTER if kinds[one] == Kind.BEFORE else Kind.BEFORE
            mine.append({"code": str(Problem.UPDATE_HALF), "detail": f"the {lacks} half is missing"})
        all_of_them.append(mine or None)
    return pa.array(all_of_them, problems.type)


def _with_disagreements(columns: dict[str, pa.Array], whole: Bools) -> pa.Array:
    """The problems, with those of masks that contradict the two halves of an update."""
    problems = columns["problems"]
    both = pc.and_(columns["before"].is_valid(), columns["after"].is_valid())
    asked = pc.and_(pc.and_(both, columns["changed_columns"].is_valid()), pa.array(whole))
    asked = pc.and_(asked, pc.fill_null(pc.equal(columns["operation"], str(Operation.UPDATE)), False))
    rows = np.flatnonzero(asked.to_numpy(zero_copy_only=False))
    if not len(rows):
        return problems
    by_mask = columns["changed_columns"].take(pa.array(rows))
    by_images = _differing(columns["before"], columns["after"], rows)
    odd: dict[int, str] = {}
    for row, mask, images in zip(rows.tolist(), by_mask.to_pylist(), by_images.to_pylist(), strict=True):
        if set(mask) != set(images):
            odd[row] = disagreement(_without(mask, images), _without(images, mask))
    if not odd:
        return problems
    found = problems.to_pylist()
    for row, sentence in odd.items():
        found[row] = [*(found[row] or ()), {"code": str(Problem.MASK_IMAGES), "detail": sentence}]
    return pa.array(found, problems.type)


def _without(names: list[str], others: list[str]) -> list[str]:
    return list(dict.fromkeys(name for name in names if name not in others))


def _changed(columns: dict[str, pa.Array]) -> tuple[pa.Array, pa.Array]:
    """The changed columns, and their source: the mask, else the images of an update."""
    masked = columns["changed_columns"].is_valid()
    update = pc.fill_null(pc.equal(columns["operation"], str(Operation.UPDATE)), False)
    both = pc.and_(columns["before"].is_valid(), columns["after"].is_valid())
    compared = pc.and_(pc.and_(update, both), pc.invert(masked))
    source = pc.if_else(compared, str(ChangeSource.IMAGES), pa.scalar(None, pa.string()))
    source = pc.if_else(masked, str(ChangeSource.MASK), source)
    rows = np.flatnonzero(compared.to_numpy(zero_copy_only=False))
    if not len(rows):
        return columns["changed_columns"], source
    return spliced(columns["changed_columns"], rows, _differing(columns["before"], columns["after"], rows)), source


def _differing(before: pa.MapArray, after: pa.MapArray, rows: Ints) -> pa.Array:
    """For some rows, the names in the after images whose values differ from the before images; a missing name counts as
    null."""
    row, entry, ends = _entries(after, rows)
    names, values = after.keys.take(pa.array(entry)), after.items.take(pa.array(entry))
    there = _found(before, rows[row], entry - after.offsets.to_numpy()[rows[row]], names)
    old = before.items.take(pa.array(there, mask=there < 0))
    return _lists(names, ~_same(old, values), ends)


def _entries(maps: pa.MapArray, rows: Ints) -> tuple[Ints, Ints, Ints]:
    """The entries of the maps of some rows: for each entry the number of its row and its own number, and for each row
    the cumulative number of entries."""
    offsets = maps.offsets.to_numpy()
    count = offsets[rows + 1] - offsets[rows]
    ends = np.cumsum(count)
    row = np.repeat(np.arange(len(rows)), count)
    return row, np.arange(len(row)) - np.repeat(ends - count, count) + np.repeat(offsets[rows], count), ends


def _found(maps: pa.MapArray, row: Ints, place: Ints, names: pa.Array) -> Ints:
    """For each name the entry of its row's map with that name, -1 for none. It is mostly at the same ``place``."""
    offsets, valid = maps.offsets.to_numpy(), maps.is_valid().to_numpy(zero_copy_only=False)
    there = offsets[row] + place
    fits = (there < offsets[row + 1]) & valid[row]
    alike = pc.equal(maps.keys.take(pa.array(there, mask=~fits)), names)
    found = np.where(pc.fill_null(alike, False).to_numpy(zero_copy_only=False), there, -1)
    rest = np.flatnonzero((found < 0) & valid[row])
    if len(rest):
        some, entry_row = np.unique(row[rest], return_inverse=True)
        of, entry, _ = _entries(maps, some)
        both = pa.concat_arrays([maps.keys.take(pa.array(entry)), names.take(pa.array(rest))]).dictionary_encode()
        size = len(both.dictionary)
        first, then = np.split(both.indices.to_numpy().astype(np.int64), [len(entry)])
        order = np.argsort(of * size + first, kind="stable")
        known, wanted = (of * size + first)[order], entry_row * size + then
        at = np.minimum(np.searchsorted(known, wanted), max(len(known) - 1, 0))
        found[rest] = np.where(known[at] == wanted, entry[order[at]], -1) if len(known) else -1
    return found


def _same(one: pa.Array, other: pa.Array) -> Bools:
    """A mask of values that are equal, or both null."""
    equal = pc.fill_null(pc.equal(one, other), False)
    found: Bools = pc.or_(equal, pc.and_(pc.is_null(one), pc.is_null(other))).to_numpy(zero_copy_only=False)
    return found


def _lists(names: pa.Array, chosen: Bools, ends: Ints) -> pa.Array:
    """The chosen names of each row as lists."""
    offsets = np.concatenate([[0], np.cumsum(chosen)])[np.concatenate([[0], ends])]
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), names.filter(pa.array(chosen)))


def spliced(column: pa.Array, rows: Ints, values: pa.Array) -> pa.Array:
    """A column with new values in some rows."""
    place = np.arange(len(column))
    place[rows] = len(column) + np.arange(len(rows))
    return pa.concat_arrays([column, values.cast(column.type)]).take(pa.array(place))


# --- what options and the source's rules add --------------------------------------------------------------------------


def with_columns(changes: pa.RecordBatch, known: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """Changes with some columns replaced."""
    columns = [
        known[field.name].cast(field.type) if field.name in known else changes[field.name] for field in model.CHANGES
    ]
    return pa.RecordBatch.from_arrays(columns, schema=model.CHANGES)


def ended(changes: pa.RecordBatch, ends: Groups) -> pa.RecordBatch:
    """Changes with the facts from the ends of their transactions."""
    if not len(ends):
        return changes
    mine = pc.index_in(changes["transaction_id"], ends.names, skip_nulls=True)
    rolled_back = pa.array(ends.some(as_array(pc.fill_null(ends.column("rolls_back"), False)))).take(mine)
    undone = pc.is_in(changes["outcome"], pa.array([str(Outcome.UNDO), str(Outcome.UNDONE)]))
    is_rolled_back = pc.and_not(pc.fill_null(rolled_back, False), undone)
    known = {
        "commit_position": ends.greatest(ends.column("commit_position")).take(mine),
        "committed_at": pc.coalesce(changes["committed_at"], ends.greatest(ends.column("committed_at")).take(mine)),
        "outcome": pc.if_else(is_rolled_back, str(Outcome.ROLLED_BACK), changes["outcome"]),
    }
    return with_columns(changes, known)


def finished(changes: pa.RecordBatch, keys: Mapping[str, Sequence[str]], compressed: Collection[str]) -> pa.RecordBatch:
    """Changes with the keys that the option ``keys`` names (columns by ``schema.table``), and with the columns that
    updates of the record types ``compressed`` wrote."""
    return _with_written_columns(_with_keys(changes, keys), compressed)


def _with_keys(changes: pa.RecordBatch, keys: Mapping[str, Sequence[str]]) -> pa.RecordBatch:
    """Keys from the after image, else the before image, null if neither has all of their columns."""
    names = labels(changes["schema_name"], changes["table_name"])
    for table, columns in keys.items():
        named = pc.or_kleene(pc.equal(names, table), pc.equal(changes["table_name"], table))
        rows = np.flatnonzero(pc.fill_null(named, False).to_numpy(zero_copy_only=False))
        if not len(rows):
            continue
        after, before = changes["after"].take(pa.array(rows)), changes["before"].take(pa.array(rows))
        last = after.is_valid().to_numpy(zero_copy_only=False)
        image = pa.concat_arrays([after, before]).take(pa.array(np.arange(len(rows)) + np.where(last, 0, len(rows))))
        row, entry, _ = _entries(image, np.arange(len(rows)))
        of_key = pc.is_in(image.keys.take(pa.array(entry)), pa.array(columns)).to_numpy(zero_copy_only=False)
        count = np.bincount(row[of_key], minlength=len(rows))
        complete = count == len(set(columns))
        kept = pa.array(entry[of_key & complete[row]])
        offsets = np.concatenate([[0], np.cumsum(np.where(complete, count, 0))])
        nulls = np.append(~complete, False)
        found = pa.MapArray.from_arrays(
            pa.array(offsets.astype(np.int32), mask=nulls), image.keys.take(kept), image.items.take(kept)
        )
        changes = with_columns(changes, {"key": spliced(changes["key"], rows, found)})
    return changes


def _with_written_columns(changes: pa.RecordBatch, compressed: Collection[str]) -> pa.RecordBatch:
    """Changes with the columns that updates of the record types ``compressed`` wrote: those of the after image, without
    those with the same value in the before image, and without key columns that no before image has, since they only
    identify the row (docs/formats/goldengate.md §4.5). The source is ``log`` if any of them was not compared."""
    is_update = pc.equal(changes["operation"], str(Operation.UPDATE))
    rule = pc.and_(pc.is_in(changes["record_type"], pa.array(sorted(compressed), pa.string())), is_update)
    rows = np.flatnonzero(
        pc.fill_null(pc.and_(rule, changes["after"].is_valid()), False).to_numpy(zero_copy_only=False)
    )
    if not len(rows):
        return changes
    before, after = changes["before"], changes["after"]
    row, entry, ends = _entries(after, rows)
    names, values = after.keys.take(pa.array(entry)), after.items.take(pa.array(entry))
    place = entry - after.offsets.to_numpy()[rows[row]]
    there = _found(before, rows[row], place, names)
    same = _same(before.items.take(pa.array(there, mask=there < 0)), values)
    written = np.where(there >= 0, ~same, _found(changes["key"], rows[row], place, names) < 0)
    unseen = np.bincount(row[written & (there < 0)], minlength=len(rows)) > 0
    unseen |= before.is_null().to_numpy(zero_copy_only=False)[rows]
    source = pc.if_else(pa.array(unseen), str(ChangeSource.LOG), str(ChangeSource.IMAGES))
    known = {
        "changed_columns": spliced(changes["changed_columns"], rows, _lists(names, written, ends)),
        "change_source": spliced(changes["change_source"], rows, source),
    }
    return with_columns(changes, known)
