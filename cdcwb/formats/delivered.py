"""Assembles changes and parts of transactions in their split, for a stream of committed work: messages, which are
complete changes; change tables, in which halves of updates have one position; and GoldenGate's XML files, in which they
follow each other. The end of a transaction, and some of its events, may be in another file or partition. So the ends
that a split does not have are found before (:func:`read_ends_here`, :func:`ends_elsewhere`), if they are few enough for
its task; otherwise they are joined with its changes. The parts of a transaction are merged
(:mod:`cdcwb.formats.summaries`), and so are halves at a position that several splits have (:func:`joined_halves`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import as_array
from cdcwb.formats.changes import (
    HALVES,
    WHOLE,
    Became,
    Halved,
    Halves,
    Halving,
    assembled,
    elsewhere,
    finished,
    halved_of,
    joined,
    partners,
    with_columns,
)
from cdcwb.formats.dissector import CHANGES, EVERYTHING, OF_CHANGES, Assembling, Format, Named, Read, Wanted
from cdcwb.formats.kernels import Ints
from cdcwb.formats.moments import MICROSECONDS, sequence_times
from cdcwb.formats.requests import select, with_problems
from cdcwb.formats.summaries import OF_ENDS, OF_PARTS, Groups, has_place, of_sequences, read_parts, records_of
from cdcwb.model import Kind, Outcome

ELSEWHERE: Final = "elsewhere"
"""The name of halves of updates at positions that splits share, as rows of :data:`cdcwb.model.EVENTS`."""

Batches = Iterator[pa.RecordBatch]

ENDS: Final = pa.schema(
    [
        ("transaction_id", pa.string()),
        ("commit_position", pa.string()),  # the greatest
        ("committed_at", MICROSECONDS),  # of its commit records, the last time
        ("rolls_back", pa.bool_()),
    ]
)
"""The ends of transactions in a split: one row for each transaction with an end mark there."""


def read_delivered(read: Read, wanted: Wanted, halved: Halved = WHOLE) -> Iterator[pa.RecordBatch]:
    """The changes of a split in capture order, as batches of :data:`cdcwb.model.CHANGES` in which ``commit_position``
    is null, ``committed_at`` is the time in the position, and a later rollback is not known yet. A full load (REFRESH)
    is in no transaction, and has no outcome. ``read`` reads the events of the split. Halves of updates at a position
    that other splits have too are left to :func:`read_elsewhere`."""
    pairs = HalvesJoiner(halved)
    for rows in read(replace(wanted, kinds=frozenset(CHANGES), columns=wanted.of_changes)):
        yield from pairs.add(rows)
    yield from pairs.end()


def read_elsewhere(read: Read, wanted: Wanted, halved: Halved) -> Iterator[pa.RecordBatch]:
    """The halves of updates in a split at positions that other splits have too, as batches of
    :data:`cdcwb.model.EVENTS`."""
    if halved.shared:
        for rows in read(replace(wanted, kinds=frozenset(HALVES))):
            yield rows.filter(pa.array(elsewhere(rows, halved)))


class HalvesJoiner:
    """Joins halves of updates, from rows in capture order. A half without the other one waits."""

    def __init__(self, halved: Halved) -> None:
        self._halved = halved
        self._waiting: pa.RecordBatch | None = None

    def add(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The changes that are complete with these rows."""
        if self._halved.shared:
            rows = rows.filter(pa.array(~elsewhere(rows, self._halved)))
        if not self._halved.befores:
            yield from self._changes(rows, np.full(rows.num_rows, -1, np.int64), np.arange(rows.num_rows))
            return
        rows = rows if self._waiting is None else joined(self._waiting, rows)
        partner, half = partners(rows, self._halved)
        number = np.arange(rows.num_rows)
        yield from self._changes(rows, partner, np.flatnonzero((partner < number) & (~half | (partner >= 0))))
        self._waiting = rows.take(pa.array(np.flatnonzero(half & (partner < 0))))

    def end(self) -> Iterator[pa.RecordBatch]:
        """Those that are still incomplete."""
        if self._waiting is not None:
            count = self._waiting.num_rows
            yield from self._changes(self._waiting, np.full(count, -1, np.int64), np.arange(count))

    @staticmethod
    def _changes(rows: pa.RecordBatch, partner: Ints, done: Ints) -> Iterator[pa.RecordBatch]:
        """The changes whose last records are the rows ``done``."""
        if not len(done):
            return
        alone = as_array(pc.equal(rows["kind"], str(Kind.BEFORE))) & (partner < 0)
        became = Became.delivered(rows["operation"], sequence_times(rows["position"])[0])
        halves = Halves(partner, alone, np.zeros(len(partner), np.bool_), ordered=False)
        yield assembled(rows, done, partner[done], halves, became, done)


def _ends(groups: Groups, halved: Halved) -> pa.RecordBatch:
    last = as_array(groups.column("last_in_transaction"))
    commits = groups.are(Kind.COMMIT) & (as_array(pc.is_valid(groups.column("commit_position"))) | last)
    if halved.consecutive:  # the last record of a transaction is its commit
        commits |= has_place(groups) & last
    return pa.RecordBatch.from_arrays(
        [
            groups.names,
            groups.greatest(groups.column("commit_position")),
            groups.greatest(groups.column("changed_at", commits)),
            groups.some(groups.are(Kind.ROLLBACK)),
        ],
        schema=ENDS,
    )


# --- ends in other splits ---------------------------------------------------------------------------------------------

HERE: Final = ENDS.append(pa.field("split", pa.int32()))

_Written = tuple[int, bytes]
"""Rows of :data:`ENDS`: the size of their bytes, and these compressed."""


@dataclass(frozen=True, slots=True)
class EndsOfOthers:
    """By split, the ends in other splits that it needs to know, as they were written: so that the driver holds few
    bytes for many transactions."""

    of_splits: Mapping[int, Sequence[_Written]]

    def of(self, splits: range) -> EndsOfOthers:
        """Those for consecutive splits."""
        return EndsOfOthers({split: self.of_splits[split] for split in splits if split in self.of_splits})

    def read(self, split: int) -> list[pa.RecordBatch]:
        """Those for a split, as batches of :data:`ENDS`."""
        written = self.of_splits.get(split, [])
        return [pa.ipc.read_record_batch(pa.decompress(content, size, codec="zstd"), ENDS) for size, content in written]


NO_ENDS: Final = EndsOfOthers({})
"""No transaction is in several splits."""


def read_ends_here(read: Read, wanted: Wanted, split: int, halved: Halved = WHOLE) -> Iterator[pa.RecordBatch]:
    """All transactions of a split, with their ends as far as they are there, null otherwise: a batch of :data:`ENDS`
    with the column ``split``."""
    groups = Groups(records_of(read, wanted, (*OF_ENDS, "headers") if halved.consecutive else OF_ENDS))
    if len(groups):
        yield pa.RecordBatch.from_arrays([*_ends(groups, halved).columns, pa.repeat(split, len(groups))], schema=HERE)


def ends_elsewhere(rows: pa.Table) -> Iterator[tuple[int, _Written]]:
    """For each split the ends of the transactions of which it lacks facts that others have (:class:`EndsOfOthers`),
    from the rows of :func:`read_ends_here` of all splits."""
    groups = Groups(rows)
    names = groups.column("transaction_id")
    of = pc.index_in(names, groups.names)
    every = {
        "commit_position": groups.greatest(groups.column("commit_position")).take(of),
        "committed_at": groups.greatest(groups.column("committed_at")).take(of),
        "rolls_back": groups.some(as_array(groups.column("rolls_back"))).take(of),
    }
    lacks = pa.repeat(False, len(names))
    for name, known in every.items():
        differs = pc.fill_null(pc.not_equal(groups.column(name), known), True)
        lacks = pc.or_(lacks, pc.and_(pc.is_valid(known), differs))
    found = pa.RecordBatch.from_arrays([names, *every.values(), groups.column("split")], schema=HERE).filter(lacks)
    found = found.sort_by("split")
    splits, firsts = np.unique(found["split"].to_numpy(), return_index=True)
    for split, first, stop in zip(splits.tolist(), firsts, [*firsts, found.num_rows][1:], strict=True):
        written = found.slice(first, stop - first).select(ENDS.names).serialize()
        yield split, (written.size, pa.compress(written, codec="zstd", asbytes=True))


def with_ends(read: Read, wanted: Wanted, of_others: Sequence[pa.RecordBatch], halved: Halved) -> Batches:
    """The changes of a split with the facts from the ends of their transactions: those of the split, and those
    ``of_others`` (batches of :data:`ENDS`)."""
    columns = frozenset(OF_CHANGES) if halved.consecutive else wanted.of_changes
    events = [*read(replace(wanted, columns=columns))]
    own = [rows.select(ENDS.names) for rows in read_ends_here(lambda _: iter(events), wanted, 0, halved)]
    ends = Groups(pa.Table.from_batches([*own, *of_others], ENDS))

    def again(needed: Wanted) -> Batches:
        events.reverse()
        while events:
            yield from select(events.pop(), needed)

    return (ended(changes, ends) for changes in read_delivered(again, wanted, halved))


def ended(changes: pa.RecordBatch, ends: Groups) -> pa.RecordBatch:
    """Changes with the facts from the ends of their transactions."""
    if not len(ends):
        return changes
    mine = pc.index_in(changes["transaction_id"], ends.names, skip_nulls=True)
    rolled_back = pa.array(ends.some(as_array(ends.column("rolls_back")))).take(mine)
    undone = pc.is_in(changes["outcome"], pa.array([str(Outcome.UNDO), str(Outcome.UNDONE)]))
    is_rolled_back = pc.and_not(pc.fill_null(rolled_back, False), undone)
    known = {
        "commit_position": ends.greatest(ends.column("commit_position")).take(mine),
        "committed_at": pc.coalesce(changes["committed_at"], ends.greatest(ends.column("committed_at")).take(mine)),
        "outcome": pc.if_else(is_rolled_back, str(Outcome.ROLLED_BACK), changes["outcome"]),
    }
    return with_columns(changes, known)


# --- the assembly of a format -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Delivered:
    """The assembly (:class:`cdcwb.formats.dissector.Assembling`) of a format that delivers committed changes.
    ``ends``: those in other splits."""

    form: Format
    ends: Sequence[pa.RecordBatch] = ()

    def in_splits(self, _plan: Any) -> bool:
        """Always."""
        return True

    def read_changes(self, plan: Any, split: int | None, wanted: Wanted, read: Read) -> Batches:
        """The changes of a split. Change tables do not mark the end of a transaction; rows of a DataFrame are too many
        to look for it first."""
        halved = halved_of(self.form, plan, split)
        if split is None or isinstance(self.form, Halving):
            return read_delivered(read, wanted, halved)
        return with_ends(read, wanted, self.ends, halved)

    def read_transactions(self, plan: Any, split: int | None, wanted: Wanted, read: Read) -> Batches:
        """See :func:`cdcwb.formats.summaries.read_parts`."""
        return read_parts(read, wanted, halved_of(self.form, plan, split))

    def read_checked(self, plan: Any, split: int | None, wanted: Wanted, read: Read) -> Named:
        """Besides events, halves of updates and transactions with problems: the halves of updates at positions that
        splits share (:data:`ELSEWHERE`), and change sequences (:mod:`cdcwb.formats.summaries`)."""
        halved = halved_of(self.form, plan, split)
        pairs = HalvesJoiner(halved)
        names = (*OF_PARTS, "headers") if halved.consecutive else OF_PARTS
        compares = (halved.befores or halved.shared) and not halved.consecutive  # masks with images
        columns = None if compares else frozenset([*(wanted.columns or ()), *names])
        kinds = pa.array(HALVES if halved.consecutive else CHANGES)  # without positions only halves have such problems
        narrow: list[pa.RecordBatch] = []
        for events in read(replace(wanted, drop_malformed=False, columns=columns)):
            yield "checked", with_problems(events)
            narrow += select(events.select(list(names)), wanted)
            if halved.shared:
                yield ELSEWHERE, events.filter(pa.array(elsewhere(events, halved)))
            if halved.befores:
                yield from (("changes", rows) for rows in pairs.add(events.filter(pc.is_in(events["kind"], kinds))))
        yield from (("changes", rows) for rows in pairs.end())
        if not isinstance(self.form, Halving):
            yield from (("transactions", rows) for rows in read_parts(lambda _: iter(narrow), wanted, halved))
        yield from (("sequences", rows) for rows in of_sequences(narrow).to_batches())


def assembly_of(form: Format, ends: Sequence[pa.RecordBatch] = ()) -> Assembling:
    """How the changes of a format are assembled; ``ends``: those in other splits."""
    return form if isinstance(form, Assembling) else Delivered(form, ends)


def joined_halves(form: Format, keys: Mapping[str, Sequence[str]], events: Iterable[pa.RecordBatch]) -> Batches:
    """The changes of the halves of updates at positions that splits share (:func:`read_elsewhere`), in capture order or
    by position. ``keys``: the option of that name."""
    changes = read_delivered(lambda _: iter(events), EVERYTHING, Halved())
    return (finished(batch, keys, form.compressed_updates) for batch in changes)
