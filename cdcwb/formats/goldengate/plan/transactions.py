"""Assigns records to transactions: TransInd as a state machine in trail order, with the required facts of records:
their types, their system, their position in a transaction (docs/formats/goldengate.md §3.6, §4.8 and §6).

3 is a complete transaction, 0 opens, 1 continues, 2 closes; RestartAbend voids the open one. A *stretch* is a run of
adjacent records of one trail file: mostly all records of a trail file in a split. Each is summarised separately, and
:func:`fold` determines the open transactions at its start and end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdcwb.formats.arrays import gather
from cdcwb.formats.goldengate.decode import MISSING, Bools, Bytes, Ints, Records, Shape, System
from cdcwb.formats.goldengate.decode.bodies import Form
from cdcwb.formats.goldengate.decode.definitions import GUARDIAN, one_case
from cdcwb.formats.goldengate.layout import HALVES, KEYED, LISTED, UNIFIED, io_type_of

__all__ = [
    "CLOSES",
    "DDL",
    "FRAGMENT",
    "LOB",
    "METADATA",
    "RESTART_ABEND",
    "Gap",
    "Marks",
    "Open",
    "Summary",
    "add_gaps",
    "at_one_rba",
    "end_rba",
    "fingerprints",
    "fold",
    "forms_of",
    "fragments",
    "gap_between",
    "gaps",
    "in_runs",
    "marks_of",
    "position_text",
    "runs",
    "spans",
    "summarise",
    "texts_of",
    "token_text",
    "trail_order",
]


DDL: Final = 160
METADATA: Final = 170
RESTART_OK: Final = 151
RESTART_ABEND: Final = 150
LOB: Final = 116
FRAGMENT: Final = 161
_OUTSIDE: Final = (METADATA, RESTART_OK, RESTART_ABEND)
_BEFORE, _AFTER = ord("B"), ord("A")


@dataclass(slots=True)
class Marks:
    """Arrays over ``n`` records, in the order of the text.

    * ``io`` int64: number of the record type, by its header or else by its printed name; -1 without either
    * ``trans`` int64: TransInd, -1 if unknown; without a header block, that of the image line
    * ``member``: belongs to a transaction (or would, were it known which)
    * ``abort``: RestartAbend
    * ``goes_on``: Continued is Y
    * ``half``: an update that may be one of two halves; ``before``: it is the first
    * ``twin``: the after image of the trail record whose before image is printed above it, with the same RBA
    * ``table`` int64: index into ``tables``, -1 where no name is printed; ``printed`` int64: likewise into ``names``,
      the names as printed. Guardian file names that differ only in case are one table
    * ``csn``, ``xid``: binary arrays, null where there is no such token
    * ``system`` int8: a :class:`~cdcwb.formats.goldengate.decode.System`
    """

    io: Ints
    trans: Ints
    member: Bools
    abort: Bools
    goes_on: Bools
    half: Bools
    before: Bools
    table: Ints
    tables: list[str]
    csn: pa.Array
    xid: pa.Array
    system: npt.NDArray[np.int8]
    twin: Bools = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    printed: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    names: list[str] = field(default_factory=list)


def spans(buffer: Bytes, at: Ints) -> pa.Array:
    """The ranges ``[first, last+1)`` of a buffer as a binary array; null for -1."""
    valid = at[:, 0] >= 0
    if not valid.any():
        return pa.nulls(len(at), pa.binary())
    start, end = np.where(valid, at.T, 0)
    if len(buffer) >= 1 << 31:  # a compressed file is one part of any size, and offsets of Arrow have 32 bits
        edges = np.append(0, np.cumsum(end - start))
        buffer = buffer[np.arange(edges[-1]) + np.repeat(start - edges[:-1], end - start)]
        start, end = edges[:-1], edges[1:]
    return gather(pa.binary(), buffer, start, end, valid)


def texts_of(values: pa.Array, charset: str = "utf-8") -> pa.Array:
    """Bytes as text; undecodable bytes become U+FFFD."""
    if charset.lower().replace("_", "-") in ("utf-8", "utf8", "ascii"):
        try:
            return values.cast(pa.string())
        except pa.ArrowInvalid:
            pass
    return pa.array(
        [None if one is None else one.decode(charset, "replace") for one in values.to_pylist()], pa.string()
    )


def marks_of(records: Records, charset: str = "utf-8") -> Marks:
    """The marks of some records."""
    is_record = records.shape == Shape.RECORD
    io = np.where(is_record, records.column("IOType"), MISSING)
    unnamed = np.flatnonzero(is_record & (io == MISSING))
    if len(unnamed):
        names = spans(records.text, records.operation_at[unnamed]).dictionary_encode()
        numbers = [io_type_of(name.decode("utf-8", "replace")) for name in names.dictionary.to_pylist()]
        codes = names.indices.fill_null(len(numbers)).to_numpy(zero_copy_only=False)
        io[unnamed] = np.array([*(MISSING if one is None else one for one in numbers), MISSING])[codes]
    outside = np.isin(io, _OUTSIDE)
    trans = np.where(is_record & ~outside, records.column("TransInd"), MISSING)
    trans = np.where(is_record & ~outside & (trans == MISSING), records.image_trans, trans)
    half = np.isin(io, HALVES)
    before = records.side == _BEFORE
    encoded = spans(records.text, records.name_at).dictionary_encode()
    printed = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    names = texts_of(encoded.dictionary, charset).to_pylist()
    tables = {name: number for number, name in enumerate(dict.fromkeys(map(one_case, names)))}
    table = np.array([*(tables[one_case(name)] for name in names), -1])[printed]
    member, xid_at = is_record & ~outside, records.xid_at
    twin = _twins(records, io, table, half & before, half & (records.side == _AFTER))
    if twin.any():
        trans, xid_at = _as_one(np.flatnonzero(member), twin, trans, xid_at)
    return Marks(
        io=io,
        trans=trans,
        member=member,
        abort=is_record & (io == RESTART_ABEND),
        goes_on=member & (records.column("Continued") == 1),
        half=half,
        before=half & before,
        twin=twin,
        table=table,
        tables=list(tables),
        printed=printed,
        names=names,
        csn=_shown(records.bytes, records.csn_at),
        xid=_shown(records.bytes, xid_at),
        system=_systems(records, table, list(tables)),
    )


_NO_NODE: Final = 255


def _systems(records: Records, table: Ints, tables: Sequence[str]) -> npt.NDArray[np.int8]:
    """The system that records are of (§4.8). A NonStop: by a file name such as ``$VOLUME.SUBVOL.FILE``, a line
    TRANSID or a system key. Another: by the index of a definition, the node 255, a CSN or a row id."""
    elsewhere = (records.name_index != MISSING) | (records.column("OrigNode") == _NO_NODE)
    elsewhere |= (records.csn_at[:, 0] >= 0) | (records.rowid_at[:, 0] >= 0)
    named = np.array([*(GUARDIAN.fullmatch(name) is not None for name in tables), False])[table]
    known = named | (records.column("SyskeyLen") > 0)
    out = np.where(known, System.NONSTOP, np.where(elsewhere, System.OTHER, System.UNKNOWN))
    out = out.astype(np.int8)
    out[[index for index, printed in records.extras.items() if printed.transaction is not None]] = System.NONSTOP
    return out


def _twins(records: Records, io: Ints, table: Ints, before: Bools, after: Bools) -> Bools:
    """A mask of after images that are printed directly below the before image of the same trail record."""
    index = np.flatnonzero(records.shape == Shape.RECORD)
    first, second = index[:-1], index[1:]
    same = before[first] & after[second] & (records.rba[second] > 0)
    for values in (records.rba, records.moment, io, table):
        same &= values[first] == values[second]
    out = np.zeros(len(io), dtype=np.bool_)
    out[second[same]] = True
    return out


def _as_one(index: Ints, twin: Bools, trans: Ints, xid_at: Ints) -> tuple[Ints, Ints]:
    """TransInd and TRANID with both images of a record in one transaction: its TransInd is that of both together, and a
    token that is printed below one of them is that of both."""
    trans, xid_at = trans.copy(), xid_at.copy()
    second = index[twin[index]]
    first = index[np.flatnonzero(twin[index]) - 1]
    alike = trans[first] == trans[second]
    place = np.where(alike & (trans[first] >= 0), trans[first], MISSING)
    trans[first] = np.where(place >= 0, _FIRST_OF_TWO[place], trans[first])
    trans[second] = np.where(place >= 0, _SECOND_OF_TWO[place], trans[second])
    for one, other in ((first, second), (second, first)):
        lacks = xid_at[one, 0] < 0
        xid_at[one[lacks]] = xid_at[other[lacks]]
    return trans, xid_at


_FIRST_OF_TWO: Final = np.array([0, 1, 1, 0])
_SECOND_OF_TWO: Final = np.array([1, 1, 2, 2])


def _shown(buffer: Bytes, at: Ints) -> pa.Array:
    """The values of a token; null also if nothing of it is printed."""
    return spans(buffer, np.where((at[:, 1] > at[:, 0])[:, None], at, MISSING))


def token_text(value: bytes) -> str:
    """The text of a token's value, up to a zero byte."""
    return value.partition(b"\0")[0].rstrip(b" ").decode("utf-8", "replace")


def trail_order(records: Records, first: int, stop: int) -> tuple[Ints, Ints, Bools]:
    """The records of one section in the order of their trail: (index of each, RBA of each, whether it was printed
    before). Only records and file headers count. One without an RBA has the RBA of the preceding one in the text, or
    precedes the first one with an RBA. A record was printed before if one with its RBA has the same text
    (:func:`fingerprints`).
    """
    index = first + np.flatnonzero(records.shape[first:stop] <= Shape.FILE_HEADER)
    if not len(index):
        return index, index, np.zeros(0, dtype=np.bool_)
    header = records.shape[index] == Shape.FILE_HEADER
    told = (records.rba[index] > 0) | (header & (records.rba[index] == 0))
    last = np.maximum.accumulate(np.where(told, np.arange(len(index)), -1))
    before = max(int(records.rba[index[int(np.argmax(told))]]) - 1, 0) if told.any() else 0
    rba = np.where(last < 0, before, records.rba[index[np.maximum(last, 0)]])
    again = np.zeros(len(index), dtype=np.bool_)
    if not (rba[1:] > rba[:-1]).all():
        order = np.argsort(rba, kind="stable")
        index, rba, told = index[order], rba[order], told[order]
        known = np.flatnonzero(told)
        same = rba[known][1:] == rba[known][:-1]
        if same.any():
            some = known[np.append(False, same) | np.append(same, False)]
            marks = fingerprints(records, index[some])
            order = np.lexsort([index[some], marks, rba[some]])
            equal = (rba[some][order][1:] == rba[some][order][:-1]) & (marks[order][1:] == marks[order][:-1])
            again[some[order[1:]]] = equal
    return index, rba, again


_WHITE: Final = b" \t\r\n"


def fingerprints(records: Records, index: Ints) -> Ints:
    """A hash of the text of each of some records, white space left out: two with the same RBA and the same hash are two
    prints of one record. Never 0."""
    base = int(records.start[0])
    out = np.empty(len(index), dtype=np.int64)
    pairs = zip((records.start[index] - base).tolist(), (records.stop[index] - base).tolist(), strict=True)
    for at, (start, stop) in enumerate(pairs):
        text = records.text[start:stop].tobytes().translate(None, _WHITE)
        out[at] = int.from_bytes(blake2b(text, digest_size=8).digest(), "little", signed=True) or 1
    return out


def at_one_rba(records: Records, order: Ints) -> Bools:
    """A mask of records (in trail order, without repeats) with the RBA of a preceding one."""
    known = np.flatnonzero((records.rba[order] > 0) & (records.shape[order] == Shape.RECORD))
    rba = records.rba[order[known]]
    out = np.zeros(len(order), dtype=np.bool_)
    out[known[1:]] = rba[1:] == rba[:-1]
    return out


class Gap(NamedTuple):
    """Bytes of a trail that are not in the capture: their number, and the RBA of the first one. ``sequence``: the
    number of its trail file, if the next record is in a later one; else MISSING."""

    size: int
    rba: int
    sequence: int = MISSING

    @property
    def start(self) -> str:
        """The location of the first byte."""
        if self.sequence == MISSING:
            return f"RBA {self.rba}"
        return f"position {position_text(self.sequence, self.rba)}"


def add_gaps(one: Gap | None, other: Gap | None) -> Gap | None:
    """Two gaps as one; None is no gap."""
    return one if other is None else other if one is None else one._replace(size=one.size + other.size)


def gap_between(end: int, rba: int) -> Gap | None:
    """The gap between the end of a record and the RBA of the next one; None if there is none, or if one of the two is
    MISSING."""
    return Gap(rba - end, end) if end != MISSING and rba > end else None


def end_rba(records: Records, order: Ints) -> Ints:
    """The RBA after the last byte of each of some records; MISSING if unknown."""
    rba, total = records.rba[order], records.total[order]
    return np.where((total != MISSING) & (rba > 0), rba + total, MISSING)


def gaps(records: Records, order: Ints, members: Ints, before: Gap | None = None) -> dict[int, Gap]:
    """The gaps between some records in trail order, added up between two of ``members`` (indexes into ``order``), by
    the number of the second; those after the last member have the number of members. ``before``: the one that precedes
    the first record."""
    end, rba = end_rba(records, order)[:-1], records.rba[order[1:]]
    at = np.flatnonzero((end != MISSING) & (rba > end))
    out = {} if before is None else {0: before}
    numbers = np.searchsorted(members, at + 1)
    for number, first, next_ in zip(numbers.tolist(), end[at].tolist(), rba[at].tolist(), strict=True):
        found = add_gaps(out.get(number), gap_between(first, next_))
        if found is not None:
            out[number] = found
    return out


def in_runs(count: int, runs: Sequence[tuple[int, int]]) -> Bools:
    """A mask of indexes that are in one of the runs (first, last)."""
    out = np.zeros(count, dtype=np.bool_)
    for first, last in runs:
        out[first : last + 1] = True
    return out


def forms_of(marks: Marks, prefix: int, index: Ints) -> Ints:
    """The layouts of the bodies of some records, values of :class:`~cdcwb.formats.goldengate.decode.bodies.Form`."""
    io = marks.io[index]
    forms = np.full(len(index), int(Form.OPAQUE), dtype=np.int64)
    forms[np.isin(io, LISTED)] = Form.COLUMNS
    forms[io == KEYED] = Form.KEYED
    forms[np.isin(io, UNIFIED)] = Form.UNIFIED_4 if prefix == 4 else Form.UNIFIED_2
    return forms


_ALONE: Final = (0, 3)
CLOSES: Final = (2, 3)


def position_text(sequence: int, rba: int) -> str:
    """A position: ten digits of the trail file's number, ten of the RBA."""
    return f"{sequence:010d}{rba:010d}"


@dataclass(slots=True)
class Open:
    """A transaction that begins in one stretch and may end in another. ``first`` is the location of its first record;
    ``xid`` and ``csn`` are those of the first token in its records."""

    first: str
    xid: str | None = None
    csn: str | None = None
    aborted: bool = False

    @property
    def name(self) -> str:
        """``transaction_id`` of its records."""
        if self.xid is None:
            return f"~{self.first}"
        return f"{self.xid}@{self.first}" if self.aborted else self.xid


@dataclass(slots=True)
class Runs:
    """Members and aborts of a stretch in trail order, split into transactions.

    ``index``: record of each; ``of``: run of each, -1 for an abort with nothing open. Run 0 is the transaction that was
    open before, if any (``leads``). ``closed``: runs that have their end; ``aborted``: voided runs. ``first``: record
    that each run begins with (-1 for run 0 where it has none of its own).
    """

    index: Ints
    of: Ints
    first: Ints
    closed: Bools
    aborted: Bools


def runs(marks: Marks, order: Ints, opened: bool) -> Runs:
    """The transactions of a stretch whose records in trail order are ``order`` (without repeats). ``opened``: whether
    one is open before it. Records without a known position in a transaction belong together as long as their token
    TRANID is equal, and to no transaction without such a token.
    """
    index = order[(marks.member[order] | marks.abort[order]) & _placed(marks, order)]
    trans, abort = marks.trans[index], marks.abort[index]
    closes = abort | np.isin(trans, CLOSES)
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
    """The indexes at which a record of unknown position has another id than the preceding one."""
    codes = xid.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
    changes = np.append(True, codes[1:] != codes[:-1])
    beside = unknown | np.append(False, unknown[:-1])
    return np.asarray(changes & beside, dtype=np.bool_)


def fragments(marks: Marks, order: Ints, goes_on: bool) -> Bools:
    """A mask of members of ``order`` (members only, in trail order) that continue the preceding record. ``goes_on``:
    the record before the first has Continued = Y.

    A record that begins a transaction, or is of another table, continues none, even if the preceding one is marked as
    continued.
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
    """The effect of a stretch on the open transaction, whatever that is. ``lead``: members that continue the open one
    (``lead_first``: location of the first, with its ids), and whether they close or void it. ``tail``: the transaction
    that begins here and is open at its end; ``more``: others than the first begin here. ``goes_on``: whether the last
    member is continued; None without a member. Pairs are for a preceding record that is not continued, and for one that
    is. ``core``: location of the last member that is not a fragment; ``half``: table of the before half that waits for
    its other half at the end; ``leading``: (first byte, last+1) of the fragments that it begins with.
    """

    lead: int = 0
    lead_first: str = ""
    lead_xid: str | None = None
    lead_csn: str | None = None
    lead_closed: bool = False
    lead_aborted: bool = False
    tail: Open | None = None
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
    all records; ``first(record)`` is the location of a record."""
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
        out.tail = Open(first(int(tail[0])), _token(marks.xid, tail), _token(marks.csn, tail))
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
    """The table of the last of some records, if that is a before half whose transaction, if any, continues."""
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
    """The state at the ends of a stretch, from the others of its trail. ``before``: the transaction that is open at its
    start, ``after``: the one that is open at its end. ``half``: table of a before half that waits for its other half;
    ``head``: location of the record that fragments may continue; ``goes_on``: that record is marked as continued.
    ``follows``: numbers of the stretches whose first records continue the last of this one, with their bytes.
    """

    before: Open | None = None
    after: Open | None = None
    half: str | None = None
    head: str | None = None
    goes_on: bool = False
    follows: list[tuple[int, int, int]] = field(default_factory=list)


def fold(summaries: Sequence[Summary], goes_on: Sequence[bool]) -> list[State]:
    """The states of all stretches of a trail, in its order. ``goes_on``: no record is missing between a stretch and the
    preceding one, by their numbers."""
    out: list[State] = []
    now, half, head, continued = None, None, None, False
    for one, connected in zip(summaries, goes_on, strict=True):
        if not connected:
            now, half, head, continued = None, None, None, False
        state = State(now, None, half, head, continued)
        out.append(state)
        if one.lead and now is None:
            now = Open(one.lead_first)
        if now is not None:
            if now.xid is None:
                now.xid = one.lead_xid
            if now.csn is None:
                now.csn = one.lead_csn
            now.aborted |= one.lead_aborted
            if one.lead_closed or one.lead_aborted or one.more:
                now = None
        if one.tail is not None:
            now = replace(one.tail)
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
