"""The transactions of a stream (docs/formats/gbase8s.md §6.2): which records belong to each, which are open at the
start and end of a split, and where in it their records are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from cdcwb.formats.gbase8s.framing import Bools, Ints

__all__ = ["BEGIN", "COMMIT", "ROLLBACK", "Found", "Open", "assign"]

Positions = npt.NDArray[np.uint64]

BEGIN: Final = 1
COMMIT: Final = 2
ROLLBACK: Final = 3


@dataclass(frozen=True, slots=True)
class Found:
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
    def among(cls, types: Ints, numbers: Ints) -> Found:
        """Those of records in capture order, all of them in transactions: record numbers and transaction ids."""
        count = len(types)
        both = np.sort(numbers << 32 | np.arange(count))  # several times as fast as a stable argsort of the ids
        order, number = both & 0xFFFFFFFF, both >> 32
        kind = types[order]
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

    def __len__(self) -> int:
        return len(self.number)


def assign(
    found: Found, positions: Positions, open_before: dict[int, str], settled: set[int] | None = None
) -> dict[int, str]:
    """The names of transactions, by index. ``positions`` are the sequence numbers of all records.

    Transactions interleave, and ids are reused. The name of a transaction is its id and the position of its begin,
    ``39@0000000B01746018``; without a begin the position of its first record, ``39@~0000000B01746050``. ``open_before``
    (id -> name) is updated. ``settled`` receives the ids that begin or end here; with it, only open transactions are
    named.
    """
    ids = found.number.tolist()
    named = np.arange(len(ids)) if settled is None else np.flatnonzero(found.tails & ~found.ends)
    begun = zip(named.tolist(), found.begins[named].tolist(), positions[found.first[named]].tolist(), strict=True)
    names = {at: f"{ids[at]}{'@' if begin else '@~'}{position:016X}" for at, begin, position in begun}
    for at in named[(found.leads & ~found.begins)[named]].tolist():
        names[at] = open_before.get(ids[at], names[at])
    ends = found.ends
    for at in np.flatnonzero(found.tails).tolist():
        open_before.pop(ids[at], None)
        if not ends[at]:
            open_before[ids[at]] = names[at]
    if settled is not None:
        settled.update(found.number[found.begins | ends].tolist())
    return names


@dataclass(slots=True)
class Open:
    """The transactions that are open at the end of a split, from its records alone, and where its records of those are
    that are open at its start or end.

    ``names``: id -> name of those that began, or whose first record is, in the split; ``settled``: the ids that began
    or ended. ``head``: the end of the last record of those that are open at the start, -1 without one. ``first``: id ->
    offset of the first record of those that began here. ``low``, ``high``: the positions of the first and of the last
    begin. ``unique``: whether no two transactions that began here can have the same name. All offsets are wire bytes of
    the stream.
    """

    names: dict[int, str] = field(default_factory=dict)
    settled: set[int] = field(default_factory=set)
    head: int = -1
    first: dict[int, int] = field(default_factory=dict)
    low: int = -1
    high: int = -1
    unique: bool = True

    def add(self, types: Ints, numbers: Ints, positions: Positions, start: Ints, end: Ints) -> None:
        """Adds the next records of transactions in the split, which are at ``[start, end)`` of the stream."""
        found = Found.among(types, numbers)
        self._note_begins(positions[np.sort(found.first[found.begins])])
        self.unique &= not bool((~found.begins & ~found.leads).any())
        for at in np.flatnonzero(~found.begins & found.leads).tolist():
            number = int(found.number[at])
            if number not in self.first:
                self.unique &= number not in self.settled
                self.head = max(self.head, int(end[found.last[at]]))
        assign(found, positions, self.names, self.settled)
        ended = set(found.number[found.tails & found.ends].tolist())
        self.first = {number: at for number, at in self.first.items() if number not in ended}
        began = np.flatnonzero(found.tails & found.begins & ~found.ends)
        self.first |= zip(found.number[began].tolist(), start[found.first[began]].tolist(), strict=True)

    def _note_begins(self, positions: Positions) -> None:
        if len(positions):
            before = np.append(np.uint64(max(self.high, 0)), positions[:-1])
            rises = positions > before
            rises[0] |= self.high < 0
            self.unique &= bool(rises.all())
            self.low = int(positions[0]) if self.low < 0 else self.low
            self.high = int(positions[-1])

    def after(self, open_before: dict[int, str]) -> dict[int, str]:
        """The open transactions at the end of the split, from those at its start."""
        after = {number: name for number, name in open_before.items() if number not in self.settled}
        return {**after, **{number: after.get(number, name) for number, name in self.names.items()}}

    def inner(self, start: int, stop: int, high: int) -> tuple[int, int] | None:
        """The bytes of the split ``[start, stop)`` without records of transactions that are open at its start or end;
        None if there are none, or if two transactions may have the same name. ``high``: the highest position of a begin
        in earlier splits, -1 without one."""
        head, tail = max(self.head, start), min(self.first.values(), default=stop)
        repeats = not self.unique or -1 < self.low <= high
        return None if repeats or head >= tail else (head, tail)
