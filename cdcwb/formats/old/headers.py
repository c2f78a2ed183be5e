"""The headers of a split of a stream with begins and ends: which halves of updates belong together, how transactions
end, and which changes are undone (docs/formats/gbase8s.md §6). What other splits know of the transactions that cross
the borders of a split is in its :class:`Patch` (:mod:`cdcwb.formats.old.sections`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.formats.arrays import as_array
from cdcwb.formats.changes import CHANGES, Halves, Read, files_changed
from cdcwb.formats.dissector import Wanted
from cdcwb.formats.groups import one_chunk
from cdcwb.formats.moments import MICROSECONDS
from cdcwb.model import Kind, Outcome

__all__ = [
    "COMMITTED",
    "LOCATION",
    "NARROW",
    "NO_PATCH",
    "NO_PATCHES",
    "OPEN",
    "OUTCOMES",
    "PATCHED",
    "PATCHED_RUNS",
    "ROLLED_BACK",
    "Headers",
    "Patch",
    "Patches",
    "Runs",
    "WrittenPatches",
    "location",
    "locations",
    "narrow",
    "outcome",
    "written_by_split",
]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

OUTCOMES: Final = pa.array([str(Outcome.COMMITTED), str(Outcome.ROLLED_BACK), str(Outcome.OPEN)])
"""The outcomes of transactions."""

COMMITTED: Final = 0
ROLLED_BACK: Final = 1
OPEN: Final = 2
"""The indexes in :data:`OUTCOMES` of transactions that are committed, rolled back, or open."""

LOCATION: Final = ("file_index", "offset")
"""The columns with the location of an event."""

_NARROW: Final = (
    *("file_index", "offset", "length", "kind", "operation", "position", "transaction_id", "changed_at"),
    *("schema_name", "table_name"),
)
NARROW: Final = pa.schema([*(model.EVENTS.field(name) for name in _NARROW), ("user", pa.string())])
"""The columns of headers that are read; ``user``: that of a transaction, at its begin."""

PATCHED: Final = pa.schema(
    [
        ("split", pa.int32()),
        ("transaction_id", pa.string()),
        ("outcome", pa.int8()),  # index in OUTCOMES; of a trail: rolled back, or open if that is not known
        ("commit_position", pa.string()),
        ("committed_at", MICROSECONDS),
        ("undo", pa.string()),  # the lowest position of undo records in later splits, null for none
        ("apart", pa.bool_()),  # whether its changes are assembled from the rows of all splits, not here
    ]
)
"""What the complete capture shows of the transactions that cross a border of a split."""

PATCHED_RUNS: Final = pa.schema(
    [
        ("split", pa.int32()),
        *(model.EVENTS.field(name) for name in ("transaction_id", "schema_name", "table_name")),
        ("earlier", pa.int64()),  # halves of the first run of the split that are in earlier splits
        ("later", pa.int64()),  # halves of its last run that are in later splits
        # the other half of its last half, null if both are in this split: its split and place, whether it is undone
        ("other_split", pa.int32()),
        *(model.EVENTS.field(name) for name in ("file_index", "offset")),
        ("undone", pa.bool_()),
    ]
)
"""The runs of halves (:attr:`Headers.runs`) of a transaction and table that continue in other splits."""


@dataclass(frozen=True, slots=True)
class Patch:
    """What a split needs to know of others: its rows of :data:`PATCHED` and :data:`PATCHED_RUNS`. ``read`` reads
    another split."""

    transactions: pa.RecordBatch
    runs: pa.RecordBatch
    read: Callable[[int, Wanted], Iterator[pa.RecordBatch]] | None = None

    @property
    def apart(self) -> pa.Array:
        """The transactions whose changes are not assembled here."""
        return self.transactions["transaction_id"].filter(self.transactions["apart"])


@dataclass(frozen=True, slots=True)
class Patches:
    """The patches of some splits: :data:`PATCHED` and :data:`PATCHED_RUNS`, both in the order of splits."""

    transactions: pa.RecordBatch
    runs: pa.RecordBatch

    def of(self, splits: range) -> Patches:
        """Those of consecutive splits."""
        return Patches(*(_part(rows, splits) for rows in (self.transactions, self.runs)))

    def patch(self, split: int, read: Callable[[int, Wanted], Iterator[pa.RecordBatch]] | None = None) -> Patch:
        """That of a split."""
        one = self.of(range(split, split + 1))
        return Patch(one.transactions, one.runs, read)

    def others(self) -> list[int]:
        """The splits that have the other half of an update, in order."""
        found: list[int] = sorted(pc.unique(self.runs["other_split"].drop_null()).to_pylist())
        return found

    def __reduce__(self) -> Any:
        return _patches_of, tuple(map(_written, (self.transactions, self.runs)))


def _part(rows: pa.RecordBatch, splits: range) -> pa.RecordBatch:
    first, stop = np.searchsorted(rows["split"].to_numpy(), [splits.start, splits.stop]).tolist()
    return rows.slice(first, stop - first)


_Written = tuple[int, bytes]
"""Size of the bytes, and these compressed."""


def _written(rows: pa.RecordBatch) -> _Written:
    """Without the schema, and of a slice only its rows."""
    written = rows.serialize()
    return written.size, pa.compress(written, codec="zstd", asbytes=True)


def _patches_of(*both: _Written) -> Patches:
    return Patches(*(_read(one, schema) for one, schema in zip(both, (PATCHED, PATCHED_RUNS), strict=True)))


def _read(written: _Written, schema: pa.Schema) -> pa.RecordBatch:
    size, content = written
    return pa.ipc.read_record_batch(pa.decompress(content, size, codec="zstd"), schema)


@dataclass(frozen=True, slots=True)
class WrittenPatches:
    """The patches of some splits without runs, as they were written (:func:`written_by_split`): so that the driver
    holds few bytes for many transactions."""

    of_splits: Mapping[int, Sequence[_Written]]

    def of(self, splits: range) -> WrittenPatches:
        """Those of consecutive splits."""
        return WrittenPatches({split: self.of_splits[split] for split in splits if split in self.of_splits})

    def patch(self, split: int, read: Callable[[int, Wanted], Iterator[pa.RecordBatch]] | None = None) -> Patch:
        """That of a split."""
        pieces = [_read(piece, PATCHED) for piece in self.of_splits.get(split, [])]
        rows = pa.Table.from_batches(pieces, PATCHED).combine_chunks()
        columns = [one_chunk(column) for column in rows.columns]
        return Patch(pa.RecordBatch.from_arrays(columns, schema=PATCHED), NO_PATCHES.runs, read)

    def others(self) -> list[int]:
        """None: without runs no split has the other half of an update."""
        return []


def written_by_split(rows: pa.RecordBatch) -> Iterator[tuple[int, _Written]]:
    """Rows of :data:`PATCHED`, written for each split."""
    rows = rows.sort_by("split")
    for split in pc.unique(rows["split"]).to_pylist():
        yield split, _written(_part(rows, range(split, split + 1)))


NO_PATCHES: Final = Patches(*(pa.RecordBatch.from_pylist([], schema) for schema in (PATCHED, PATCHED_RUNS)))
"""Those of a capture without transactions that cross a border of splits."""

NO_PATCH: Final = NO_PATCHES.patch(0)
"""The patch of a split whose transactions cross no border."""


def outcome(begins: Bools, commits: Bools, rolls_back: Bools) -> Ints:
    """The outcome of transactions with these records, as an index in :data:`OUTCOMES`."""
    return np.where(begins & commits, COMMITTED, np.where(begins & rolls_back, ROLLED_BACK, OPEN))


def locations(events: pa.RecordBatch | pa.StructArray) -> Ints:
    """A number for the location of each event."""
    fields = (events.field(name) if isinstance(events, pa.StructArray) else events[name] for name in LOCATION)
    found: Ints = location(*(field.to_numpy().astype(np.int64) for field in fields))
    return found


def location(file_index: Any, offset: Any, **_: Any) -> Any:
    """A number for the location of an event."""
    return (file_index << 44) + offset


def narrow(batch: pa.RecordBatch, users: bool) -> pa.RecordBatch:
    """The columns of headers that are read (:data:`NARROW`); with ``users``, the user of each transaction."""
    columns = batch.select(list(_NARROW)).columns
    user = pa.nulls(batch.num_rows, pa.string())
    if users:
        begins = np.flatnonzero(pc.equal(batch["kind"], str(Kind.BEGIN)).to_numpy(zero_copy_only=False))
        texts = pc.map_lookup(batch["headers"].take(pa.array(begins)), "user_id", "first")
        place = np.full(batch.num_rows, -1, np.int64)
        place[begins] = np.arange(len(begins))
        user = texts.take(pa.array(place, mask=place < 0))
    return pa.RecordBatch.from_arrays([*columns, user], schema=NARROW)


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of a split. ``order``: the change events, those of a transaction and table together; ``group``: the
    first of each such group in this order. ``begin`` and ``size`` of each run in this order. ``half``, ``after``:
    whether an event in this order is a half, and an after half."""

    order: Ints
    group: Ints
    begin: Ints
    size: Ints
    half: Bools
    after: Bools

    @property
    def ends(self) -> tuple[Ints, Ints]:
        """The first and the last run of each group."""
        stops = np.append(self.group, len(self.order))[1:]
        return np.searchsorted(self.begin, self.group), np.searchsorted(self.begin, stops) - 1


class Headers:
    """The headers of a split. ``number``: the index of their transaction in ``names``; ``change``: the events of
    changes; ``later``: the rows of :data:`PATCHED_RUNS` whose last half has its other half in a later split."""

    def __init__(self, events: pa.Table, patch: Patch = NO_PATCH) -> None:
        self.events = events.combine_chunks()
        named = pc.fill_null(self.column("transaction_id"), "").dictionary_encode()
        self.names: pa.Array = named.dictionary
        self.number: Ints = named.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        self.change = np.flatnonzero(self.are(*CHANGES))
        self.patch = patch
        self.later: pa.RecordBatch = patch.runs.filter(pc.is_valid(patch.runs["other_split"]))

    @classmethod
    def read(cls, read: Read, wanted: Wanted, patch: Patch = NO_PATCH, users: bool = False) -> Headers:
        """Those of the transactions of a split; with ``users``, the user of each transaction."""
        columns = frozenset([*_NARROW, *(["headers"] if users else [])])
        batches = read(replace(wanted, images=False, columns=columns))
        return cls.of(pa.Table.from_batches([narrow(batch, users) for batch in batches], NARROW), patch)

    @classmethod
    def of(cls, events: pa.Table, patch: Patch = NO_PATCH) -> Headers:
        """Those of transactions among the narrow rows of a split."""
        return cls(events.filter(pc.is_valid(events["transaction_id"])), patch)

    def column(self, name: str) -> pa.Array:
        """One of their columns."""
        return one_chunk(self.events[name])

    def are(self, *kinds: str) -> Bools:
        """A mask of events of these kinds."""
        found = pc.is_in(self.column("kind"), pa.array([str(kind) for kind in kinds]))
        return np.asarray(found.to_numpy(zero_copy_only=False))

    def last(self, rows: Bools) -> pa.Array:
        """The last of these rows of each transaction; null for none."""
        found = np.full(len(self.names), -1, np.int64)
        places = np.flatnonzero(rows)
        found[self.number[places]] = places
        return pa.array(found, mask=found < 0)

    def first(self, rows: Bools) -> pa.Array:
        """The first of these rows of each transaction; null for none."""
        found = np.full(len(self.names), -1, np.int64)
        places = np.flatnonzero(rows)[::-1]
        found[self.number[places]] = places
        return pa.array(found, mask=found < 0)

    def outcomes(self) -> Ints:
        """The outcome of each transaction, as an index in :data:`OUTCOMES`."""
        begins, commits, rolls_back = (
            np.bincount(self.number[self.are(kind)], minlength=len(self.names)) > 0
            for kind in (Kind.BEGIN, Kind.COMMIT, Kind.ROLLBACK)
        )
        return outcome(begins, commits, rolls_back)

    @cached_property
    def runs(self) -> Runs:
        """Consecutive halves of one transaction and table that alternate, with no other change of that table between
        them, are a run. Every other change is one by itself."""
        change = self.change
        number, schema, table = self.number[change], *(codes[change] for codes, _ in self._tables)
        order = np.lexsort((np.arange(len(change)), table, schema, number))
        after, half = self.are(Kind.AFTER)[change][order], self.are(Kind.BEFORE, Kind.AFTER)[change][order]
        groups = np.ones(len(change), np.bool_)
        groups[1:] = False
        for values in (number, schema, table):
            groups[1:] |= values[order][1:] != values[order][:-1]
        starts = groups.copy()
        starts[1:] |= ~half[1:] | ~half[:-1] | (after[1:] == after[:-1])
        begin = np.flatnonzero(starts)
        return Runs(order, np.flatnonzero(groups), begin, np.diff(np.append(begin, len(change))), half, after)

    @cached_property
    def _tables(self) -> list[tuple[Ints, pa.Array]]:
        """The code of the schema and of the table of each event, -1 for null, with the texts."""
        coded = [self.column(name).dictionary_encode() for name in ("schema_name", "table_name")]
        return [(pc.fill_null(c.indices, -1).to_numpy(zero_copy_only=False), c.dictionary) for c in coded]

    def halves(self) -> Halves:
        """The halves of a run (:attr:`runs`) are paired from its start; in a run of odd length that begins with an
        after half the first one remains alone. A run may begin in an earlier split and end in a later one."""
        runs, count = self.runs, len(self.change)
        order, begin = runs.order, runs.begin
        run = np.repeat(np.arange(len(begin)), runs.size)
        earlier, later, other = self._elsewhere(runs)
        size = earlier + runs.size + later
        begins_after = runs.after[begin] ^ (earlier % 2 == 1)
        skipped = (begins_after & (size % 2 == 1)).astype(np.int64)
        place = np.arange(count) - (begin - earlier + skipped)[run]
        first = runs.half & (place >= 0) & (place % 2 == 0) & (place + 1 < (size - skipped)[run])
        second = runs.half & (place >= 0) & (place % 2 == 1)
        partner = np.full(count + len(self.later), -1, np.int64)
        alone, is_second = np.zeros((2, len(partner)), np.bool_)
        at = np.flatnonzero(first)
        is_last = at == (begin + runs.size - 1)[run[at]]
        one = order[at]
        two = np.where(is_last, count + other[run[at]], order[np.minimum(at + 1, count - 1)])
        partner[one], partner[two] = two, one
        alone[order] = runs.half & ~first & ~second
        is_second[order] = second & (np.arange(count) == begin[run])
        return Halves(partner, alone, is_second)

    def _elsewhere(self, runs: Runs) -> tuple[Ints, Ints, Ints]:
        """For each run the number of its halves in earlier and in later splits, and the index in ``later`` of the other
        half of its last half, -1 for none."""
        earlier, later = np.zeros((2, len(runs.begin)), np.int64)
        other = np.full(len(runs.begin), -1, np.int64)
        rows = self.patch.runs
        if not rows.num_rows:
            return earlier, later, other
        texts = [self.names, *(names for _, names in self._tables)]
        wanted = [
            pc.fill_null(pc.index_in(rows[name], names, skip_nulls=True), -1).to_numpy().astype(np.int64)
            for name, names in zip(("transaction_id", "schema_name", "table_name"), texts, strict=True)
        ]
        change = self.change[runs.order[runs.group]]
        groups = [self.number[change], *(codes[change] for codes, _ in self._tables)]
        # one number for the three codes of each
        scale = [1 + len(names) for names in texts]
        of_groups, of_rows = ((n * scale[1] + s + 1) * scale[2] + t + 1 for n, s, t in (groups, wanted))
        place = np.searchsorted(of_groups, of_rows)
        if not np.isin(of_rows, of_groups).all():
            raise files_changed()
        first, last = runs.ends
        earlier[first[place]], later[last[place]] = rows["earlier"].to_numpy(), rows["later"].to_numpy()
        is_later = as_array(pc.is_valid(rows["other_split"]))
        other[last[place[is_later]]] = np.arange(len(self.later))
        return earlier, later, other

    def undone(self) -> Bools:
        """A mask of changes that a later undo reverts: one with their position, or a lower one."""
        found = np.zeros(len(self.change), np.bool_)
        undoes = self.are(Kind.UNDO)
        undo = self.patched("undo")
        wanted = np.union1d(self.number[undoes], np.flatnonzero(as_array(undo.is_valid())))
        some = np.flatnonzero(np.isin(self.number, wanted))
        if not len(some):
            return found
        some = some[np.argsort(self.number[some], kind="stable")]
        both = pa.concat_arrays([self.column("position").take(pa.array(some)), undo.take(pa.array(wanted))])
        ranks = pc.rank(both, tiebreaker="dense").to_numpy().astype(np.int64)
        never = len(both) + 1
        beyond = np.where(as_array(undo.take(pa.array(wanted)).is_valid()), ranks[len(some) :], never)
        ends = np.searchsorted(self.number[some], wanted[1:])
        place = np.full(len(self.number), -1, np.int64)
        place[self.change] = np.arange(len(self.change))
        parts = zip(np.split(some, ends), np.split(ranks[: len(some)], ends), beyond.tolist(), strict=True)
        for mine, rank, least in parts:
            lowest = np.append(np.where(undoes[mine], rank, never), least)[::-1]
            later = np.minimum.accumulate(lowest)[::-1][1:]
            at = place[mine]
            found[at[at >= 0]] = (later <= rank)[at >= 0]
        return found

    def patched(self, name: str, own: pa.Array | None = None) -> pa.Array:
        """A column of :data:`PATCHED` for each transaction; of those without a row, ``own`` values (None: null)."""
        rows = self.patch.transactions
        found = rows[name].take(self._patched) if rows.num_rows else pa.nulls(len(self.names), PATCHED.field(name).type)
        return found if own is None else pc.if_else(self._patched.is_valid(), found, own)

    @cached_property
    def _patched(self) -> pa.Array:
        """The row of :data:`PATCHED` of each transaction."""
        return pc.index_in(self.names, self.patch.transactions["transaction_id"])
