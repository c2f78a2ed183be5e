"""Which transaction a record belongs to: TransInd as a state machine over the order of the trail.

3 stands alone, 0 opens, 1 goes on, 2 closes; RestartAbend makes what is open void (docs/formats/goldengate.md,
transactions). A *stretch* is a run of records of one trail file with nothing between them: most are all that a split
has of a trail file. Each is summarised on its own, and :func:`fold` tells what is open where it begins and what becomes
of what is open where it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdcwb.formats.goldengate.marks import FRAGMENT, LOB, Bools, Marks, token_text
from cdcwb.formats.goldengate.records import Ints

__all__ = ["Open", "Runs", "State", "Summary", "fold", "fragments", "position_text", "runs", "summarise"]

_ALONE: Final = (0, 3)
_CLOSES: Final = (2, 3)


def position_text(sequence: int, rba: int) -> str:
    """A position: ten digits of the trail file's number, ten of the RBA."""
    return f"{sequence:010d}{rba:010d}"


@dataclass(slots=True)
class Open:
    """A transaction that begins in one stretch and may end in another. ``first`` is what tells where its first record
    stands; ``xid`` and ``csn`` are what the first token of any of its records says."""

    first: str
    xid: str | None = None
    csn: str | None = None
    aborted: bool = False
    begun: bool = True

    @property
    def name(self) -> str:
        """``transaction_id`` of its records."""
        if self.xid is None:
            return f"~{self.first}"
        return f"{self.xid}@{self.first}" if self.aborted else self.xid


@dataclass(slots=True)
class Runs:
    """Members and aborts of a stretch in trail order, cut into transactions.

    ``index``: record of each; ``of``: run of each, -1 for an abort with nothing open. Run 0 is what was open before,
    if that was so (``leads``). ``closed``: runs that have their end; ``aborted``: runs that were made void.
    ``first``: record that each run begins with (-1 for run 0 where it has none of its own).
    """

    index: Ints
    of: Ints
    first: Ints
    closed: Bools
    aborted: Bools


def runs(marks: Marks, order: Ints, opened: bool) -> Runs:
    """The transactions of a stretch whose records in trail order are ``order`` (without repeats). ``opened``: is one
    open before it?

    Records of which nothing tells their place in a transaction go together as long as their token TRANID is the same,
    and belong to none if they have no such token.
    """
    index = order[(marks.member[order] | marks.abort[order]) & _placed(marks, order)]
    trans, abort = marks.trans[index], marks.abort[index]
    closes = abort | np.isin(trans, _CLOSES)
    free = ~np.append(not opened, closes[:-1]) if len(index) else np.zeros(0, dtype=np.bool_)
    starts = ~abort & (np.isin(trans, _ALONE) | ~free)
    unknown = (trans < 0) & ~abort
    if unknown.any():
        starts |= _changes(marks.xid.take(pa.array(index)), unknown)
    of: Ints = np.cumsum(starts)
    count = int(of[-1]) + 1 if len(index) else 1
    lost = abort & ~free
    of = np.where(lost, -1, of).astype(np.int64)
    first = np.full(count, -1, dtype=np.int64)
    begin = np.flatnonzero(starts)
    first[of[begin]] = index[begin]
    if opened and len(index) and not starts[0] and not lost[0]:
        first[0] = index[0]
    closed = np.zeros(count, dtype=np.bool_)
    closed[of[closes & ~lost]] = True
    aborted = np.zeros(count, dtype=np.bool_)
    aborted[of[abort & ~lost]] = True
    return Runs(index, of, first, closed, aborted)


def _placed(marks: Marks, order: Ints) -> Bools:
    known: Bools = (marks.trans[order] >= 0) | marks.abort[order]
    if not known.all():
        known = known | marks.xid.is_valid().to_numpy(zero_copy_only=False)[order]
    return known


def _changes(xid: pa.Array, unknown: Bools) -> Bools:
    """Where a record of unknown place has another id than the one before it."""
    codes = xid.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
    changes = np.append(True, codes[1:] != codes[:-1])
    beside = unknown | np.append(False, unknown[:-1])
    return np.asarray(changes & beside, dtype=np.bool_)


def fragments(marks: Marks, order: Ints, goes_on: bool) -> Bools:
    """Which members of ``order`` (members only, in trail order) continue the record before them. ``goes_on``: the
    record before the first has Continued = Y.

    A record that begins a transaction, or is of another table, continues none, whatever the one before it says.
    """
    if not len(order):
        return np.zeros(0, dtype=np.bool_)
    io, table = marks.io[order], marks.table[order]
    follows = np.append(goes_on, marks.goes_on[order][:-1])
    same = np.ones(len(order), dtype=np.bool_)
    same[1:] = (table[1:] == table[:-1]) | (table[1:] < 0) | (table[:-1] < 0)
    own = (io == LOB) | (io == FRAGMENT)
    return np.asarray(own | (follows & same & ~np.isin(marks.trans[order], _ALONE)), dtype=np.bool_)


@dataclass(slots=True)
class Summary:
    """What a stretch does to what is open, without knowing what was open before it.

    ``lead``: members that go on with what is open (``lead_first``: where the first stands; with its ids), whether they
    close it or make it void. ``tail``: the transaction that begins here and is open at its end; ``more``: others than
    the first begin here. ``goes_on``: is the last member continued; None where there is no member.

    Pairs are for what came before not being continued, and for its being so. ``core``: where the last member stands
    that is no fragment; ``half``: table of the before half that waits for its other at the end; ``leading``: (first
    byte, byte behind) of the fragments that it begins with.
    """

    lead: int = 0
    lead_first: str = ""
    lead_xid: str | None = None
    lead_csn: str | None = None
    lead_closed: bool = False
    lead_aborted: bool = False
    tail: dict[str, Any] | None = None
    more: bool = False
    goes_on: bool | None = None
    core: tuple[str | None, str | None] = (None, None)
    half: tuple[str | None, str | None] = (None, None)
    leading: tuple[tuple[int, int] | None, tuple[int, int] | None] = (None, None)


def _token(values: pa.Array, index: Ints) -> str | None:
    """The first value that some records have."""
    for value in values.take(pa.array(index)).drop_null()[:1]:
        return token_text(value.as_py())
    return None


def summarise(marks: Marks, order: Ints, start: Ints, stop: Ints, first: Callable[[int], str]) -> Summary:
    """The summary of a stretch. ``order``: its records in trail order, without repeats; ``start``, ``stop``: bytes of
    all records; ``first(record)`` is what tells where a record stands."""
    out = Summary()
    found = runs(marks, order, True)
    count = len(found.first)
    lead = found.index[found.of == 0]
    lead = lead[~marks.abort[lead]]
    out.lead, out.lead_closed, out.lead_aborted = len(lead), bool(found.closed[0]), bool(found.aborted[0])
    out.more = count > 1
    if len(lead):
        out.lead_first = first(int(lead[0]))
        out.lead_xid, out.lead_csn = _token(marks.xid, lead), _token(marks.csn, lead)
    tail = found.index[found.of == count - 1]
    if count > 1 and not found.closed[-1] and marks.trans[tail[0]] >= 0:
        begun = int(marks.trans[tail[0]]) == 0
        out.tail = asdict(Open(first(int(tail[0])), _token(marks.xid, tail), _token(marks.csn, tail), False, begun))
    members = order[marks.member[order]]
    if len(members):
        out.goes_on = bool(marks.goes_on[members[-1]])
        some = [fragments(marks, members, goes_on) for goes_on in (False, True)]
        first_, second = (members[~one] for one in some)
        out.core = (_last(first_, first), _last(second, first))
        out.half = (_half(marks, first_, found), _half(marks, second, found))
        out.leading = (_leading(members, some[0], start, stop), _leading(members, some[1], start, stop))
    return out


def _last(core: Ints, first: Callable[[int], str]) -> str | None:
    return first(int(core[-1])) if len(core) else None


def _half(marks: Marks, core: Ints, found: Runs) -> str | None:
    """The table of the last of some records, if that is a before half and its transaction, if it is in one, goes on."""
    if not len(core) or not marks.before[core[-1]] or marks.table[core[-1]] < 0:
        return None
    if found.closed[-1] and core[-1] in found.index:
        return None
    return marks.tables[int(marks.table[core[-1]])]


def _leading(members: Ints, some: Bools, start: Ints, stop: Ints) -> tuple[int, int] | None:
    count = int(np.argmin(some)) if not some.all() else len(some)
    if not count:
        return None
    there = members[:count]
    return int(start[there].min()), int(stop[there].max())


@dataclass(slots=True)
class State:
    """What is known at the ends of a stretch, by the others of its trail.

    ``before``: the transaction that is open where it begins, ``after``: the one that is open where it ends. ``half``:
    table of a before half that waits for its other; ``head``: where the record stands that fragments may continue;
    ``goes_on``: it says that it is continued. ``follows``: numbers of the stretches whose first records continue the
    last of this one, with the bytes they stand in.
    """

    before: Open | None = None
    after: Open | None = None
    half: str | None = None
    head: str | None = None
    goes_on: bool = False
    follows: list[tuple[int, int, int]] = field(default_factory=list)


def fold(summaries: Sequence[Summary], goes_on: Sequence[bool]) -> list[State]:
    """The states of all stretches of a trail, in its order. ``goes_on``: nothing is missing between a stretch and the
    one before it, as far as their numbers tell."""
    out: list[State] = []
    now, half, head, continued = None, None, None, False
    for one, connected in zip(summaries, goes_on, strict=True):
        if not connected:
            now, half, head, continued = None, None, None, False
        state = State(now, None, half, head, continued)
        out.append(state)
        if one.lead and now is None:
            now = Open(one.lead_first, begun=False)
        if now is not None:
            if now.xid is None:
                now.xid = one.lead_xid
            if now.csn is None:
                now.csn = one.lead_csn
            now.aborted |= one.lead_aborted
            if one.lead_closed or one.lead_aborted or one.more:
                now = None
        if one.tail is not None:
            now = Open(**one.tail)
        state.after = now
        if one.core[continued] is not None:
            half = one.half[continued]
        elif now is None and state.before is not None:
            half = None
        head = one.core[continued] or head
        if one.goes_on is not None:
            continued = one.goes_on
    _follow(out, summaries, goes_on)
    return out


def _follow(states: Sequence[State], summaries: Sequence[Summary], goes_on: Sequence[bool]) -> None:
    for at, one in enumerate(summaries):
        if one.core[states[at].goes_on] is None:
            continue
        for later in range(at + 1, len(summaries)):
            then = summaries[later]
            if not goes_on[later]:
                break
            continued = states[later].goes_on
            run = then.leading[continued]
            if run is not None:
                states[at].follows.append((later, *run))
            if then.core[continued] is not None:
                break
