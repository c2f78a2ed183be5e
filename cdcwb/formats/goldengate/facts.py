"""What records are, and which belong together: their types, transactions, halves of updates and fragments
(docs/formats/goldengate.md §3.6, §4.5, §4.8, §5.5 and §6).

TransInd is a state machine: 3 is a complete transaction, 0 opens one, 1 continues, 2 closes it; RestartAbend voids the
open one. A fragment continues the nearest preceding record that is not a fragment, its *head*. The fragments of a head
are chains, each up to its first record with Continued = N: the rest of the head's own data, and a chain of LargeObject
records for each large object.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import Bools, Ints, as_array
from cdcwb.formats.goldengate.contents import MISSING
from cdcwb.formats.goldengate.definitions import GUARDIAN, one_case
from cdcwb.formats.goldengate.layout import HALVES
from cdcwb.formats.goldengate.records import RECORD, TrailRecords

__all__ = [
    "CLOSES", "DDL", "FRAGMENT", "LOB", "METADATA", "Chain", "Head", "Open", "RecordFacts", "RecordSettings",
    "TrailGap", "TrailTransactions", "decoded_texts", "facts_of", "heads_of", "missing_bytes", "position_text",
    "token_texts", "transactions_of",
]  # fmt: skip


DDL, METADATA, RESTART_OK, RESTART_ABEND, LOB, FRAGMENT = 160, 170, 151, 150, 116, 161
_OUTSIDE: Final = (METADATA, RESTART_OK, RESTART_ABEND)
_ALONE: Final = (0, 3)
CLOSES: Final = (2, 3)
"""TransInd of the last record of a transaction."""
_BEFORE, _AFTER = ord("B"), ord("A")
_LOGCSN, _TRANID, _ROWID = 0x4C, 0x36, 0x52


def position_text(sequence: int, rba: int) -> str:
    """A position: ten digits of the trail file's number, ten of the RBA."""
    return f"{sequence:010d}{rba:010d}"


@dataclass(slots=True)
class RecordFacts:
    """Facts of ``n`` records, in the order of the text.

    * ``io`` int64: number of the record type, by its header or else by its printed name; MISSING without either
    * ``trans`` int64: TransInd, MISSING if unknown; without a header block, that of the image line
    * ``member``: in a transaction (or would be, were it known which); ``abort``: RestartAbend
    * ``goes_on``: Continued is Y
    * ``half``: an update that may be one of two halves; ``before``: the first of them
    * ``twin``: the after image of the trail record whose before image is printed above it, with the same RBA
    * ``fragment``: continues the preceding record
    * ``table`` int64: index into ``tables``, MISSING where no name is printed. Guardian file names that differ only in
      case are one table
    * ``csn``, ``xid``, ``rowid``: values of tokens as text, null where there is no such token
    * ``nonstop``: of a NonStop, by a file name such as ``$VOLUME.SUBVOL.FILE``, a line TRANSID or a system key
    """

    io: Ints
    trans: Ints
    member: Bools
    abort: Bools
    goes_on: Bools
    half: Bools
    before: Bools
    twin: Bools
    fragment: Bools
    table: Ints
    tables: list[str]
    csn: pa.Array
    xid: pa.Array
    rowid: pa.Array
    nonstop: Bools

    @property
    def starts(self) -> Bools:
        """Whether a record may be the first one of a split, as far as it alone shows: it begins a transaction."""
        found: Bools = self.member & np.isin(self.trans, _ALONE) & ~self.fragment & ~self.twin
        return found

    @property
    def closes(self) -> Bools:
        """Whether no transaction is open after a record."""
        found: Bools = self.abort | (self.member & np.isin(self.trans, CLOSES))
        return found


class RecordSettings(NamedTuple):
    """The character set of names, and whether every column has a null indicator, or none (as of a NonStop); None: as
    the records show it. ``raw``: the files are raw trails, not text."""

    charset: str = "utf-8"
    null_indicators: bool | None = None
    raw: bool = False


def facts_of(records: TrailRecords, reading: RecordSettings = RecordSettings()) -> RecordFacts:  # noqa: B008
    """The facts of some records."""
    is_record = records.shape == RECORD
    io = np.where(is_record, records.io_types(), MISSING)
    outside = np.isin(io, _OUTSIDE)
    member = is_record & ~outside
    trans = np.where(member, records.column("TransInd"), MISSING)
    trans = np.where(member & (trans == MISSING), records.image_trans, trans)
    half, side = np.isin(io, HALVES), records.side
    names = records.name.dictionary_encode()
    printed = pc.fill_null(names.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    texts = [one_case(one.decode(reading.charset, "replace")) for one in names.dictionary.to_pylist()]
    tables = {name: number for number, name in enumerate(dict.fromkeys(texts))}
    table = np.array([*(tables[name] for name in texts), MISSING])[printed]
    csn, xid, rowid = (token_texts(records, number) for number in (_LOGCSN, _TRANID, _ROWID))
    xid = pc.coalesce(xid, decoded_texts(records.transaction))
    twin = _twins(records, io, table, half & (side == _BEFORE), half & (side == _AFTER))
    if twin.any():
        trans, xid = _as_one(np.flatnonzero(member), twin, trans, xid)
    goes_on = member & (records.column("Continued") == 1)
    named = np.array([*(GUARDIAN.fullmatch(name) is not None for name in tables), False])[table]
    nonstop = named | (records.column("SyskeyLen") > 0) | as_array(records.transaction.is_valid())
    if reading.null_indicators is not None:
        nonstop = np.full(len(io), not reading.null_indicators)
    found = RecordFacts(
        io, trans, member, is_record & (io == RESTART_ABEND), goes_on, half, half & (side == _BEFORE), twin,
        np.zeros(len(io), np.bool_), table, list(tables), csn, xid, rowid, nonstop,
    )  # fmt: skip
    found.fragment = _fragments(found)
    return found


def decoded_texts(texts: pa.Array, charset: str = "utf-8") -> pa.Array:
    """Bytes as text; undecodable bytes become U+FFFD."""
    if charset.lower().replace("_", "-") in ("utf-8", "utf8", "ascii"):
        try:
            return texts.cast(pa.string())
        except pa.ArrowInvalid:
            pass
    return pa.array([None if one is None else one.decode(charset, "replace") for one in texts.to_pylist()], pa.string())


def token_texts(records: TrailRecords, number: int, charset: str = "utf-8") -> pa.Array:
    """The text of a token of each record, up to a zero byte and without blanks at its end; null without one, and if
    none of it is printed."""
    tokens = records.tokens
    rows = np.flatnonzero(tokens.number == number)
    row = np.full(len(records), -1)
    row[tokens.record[rows][::-1]] = rows[::-1]
    values = tokens.value.take(pa.array(row, mask=row < 0))
    texts = decoded_texts(values, charset)
    if pc.any(pc.match_substring(texts, "\0")).as_py():
        texts = pc.replace_substring_regex(texts, r"(?s)\x00.*$", "")
    return pc.if_else(pc.greater(pc.binary_length(values), 0), pc.ascii_rtrim(texts, " "), pa.scalar(None, pa.string()))


def _twins(records: TrailRecords, io: Ints, table: Ints, before: Bools, after: Bools) -> Bools:
    """After images that are printed directly below the before image of the same trail record."""
    index = np.flatnonzero(records.shape == RECORD)
    first, second = index[:-1], index[1:]
    same = before[first] & after[second] & (records.rba[second] > 0)
    for values in (records.rba, records.moment, io, table):
        same &= values[first] == values[second]
    out = np.zeros(len(io), np.bool_)
    out[second[same]] = True
    return out


_FIRST_OF_TWO: Final = np.array([0, 1, 1, 0])
_SECOND_OF_TWO: Final = np.array([1, 1, 2, 2])


def _as_one(index: Ints, twin: Bools, trans: Ints, xid: pa.Array) -> tuple[Ints, pa.Array]:
    """TransInd and TRANID with both images of a record in one transaction: its TransInd is that of both together, and a
    token that is printed below one of them is that of both."""
    trans = trans.copy()
    second = index[twin[index]]
    first = index[np.flatnonzero(twin[index]) - 1]
    alike = (trans[first] == trans[second]) & (trans[first] >= 0)
    one, two = first[alike], second[alike]
    trans[one], trans[two] = _FIRST_OF_TWO[trans[one]], _SECOND_OF_TWO[trans[two]]
    other = np.arange(len(trans))
    other[first], other[second] = second, first
    return trans, pc.coalesce(xid, xid.take(pa.array(other)))


def _fragments(facts: RecordFacts) -> Bools:
    """Members that continue the preceding member. One that begins a transaction, or is of another table, continues
    none, even if the preceding one is marked as continued."""
    members = np.flatnonzero(facts.member)
    out = np.zeros(len(facts.io), np.bool_)
    if not len(members):
        return out
    io, table = facts.io[members], facts.table[members]
    follows = np.append(False, facts.goes_on[members][:-1])
    same = np.ones(len(members), np.bool_)
    same[1:] = (table[1:] == table[:-1]) | (table[1:] < 0) | (table[:-1] < 0)
    out[members] = np.isin(io, (LOB, FRAGMENT)) | (follows & same & ~np.isin(facts.trans[members], _ALONE))
    return out


# --- transactions -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Open:
    """A transaction. ``first`` is the location of its first record; ``xid`` and ``csn`` are those of the first token in
    its records; ``aborted``: RestartAbend voids it."""

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


class TrailTransactions(NamedTuple):
    """The transactions of some records: ``of``, the number of that of each record, -1 for none; ``first``, the first
    record of each, -1 for one that is open before; ``closed``: whether its end is there, ``aborted``: it is voided.
    ``leads``: whether number 0 is open before."""

    of: Ints
    first: Ints
    closed: Bools
    aborted: Bools
    leads: bool


def transactions_of(facts: RecordFacts, some: Bools, is_open: bool) -> TrailTransactions:
    """The transactions of the records ``some``. ``is_open``: whether one is open before them. Records without a
    TransInd are one transaction as long as their token TRANID is equal, and in none without such a token."""
    placed = (facts.trans >= 0) | facts.abort | as_array(facts.xid.is_valid())
    index = np.flatnonzero(some & (facts.member | facts.abort) & placed)
    trans, abort = facts.trans[index], facts.abort[index]
    closes = abort | np.isin(trans, CLOSES)
    free = ~np.append(not is_open, closes[:-1])[: len(index)]
    starts = ~abort & (np.isin(trans, _ALONE) | ~free)
    unknown = (trans < 0) & ~abort
    if unknown.any():
        codes = facts.xid.take(pa.array(index)).dictionary_encode().indices
        codes = pc.fill_null(codes, -1).to_numpy(zero_copy_only=False)
        beside = unknown | np.append(False, unknown[:-1])
        starts |= np.append(True, codes[1:] != codes[:-1]) & beside
    leads = is_open and len(index) > 0 and not starts[0]
    number = np.cumsum(starts) - (0 if leads else 1)
    count = int(number[-1]) + 1 if len(index) else 0
    number[abort & ~free] = -1  # nothing is open
    of = np.full(len(facts.io), -1)
    of[index] = number
    first = np.full(count, -1)
    first[number[starts]] = index[starts]
    closed, aborted = np.zeros((2, count), np.bool_)
    closed[number[closes & (number >= 0)]] = True
    aborted[number[abort & (number >= 0)]] = True
    return TrailTransactions(of, first, closed, aborted, leads)


# --- missing bytes ----------------------------------------------------------------------------------------------------


class TrailGap(NamedTuple):
    """Bytes of a trail that are not in the capture: their number, and the location of the first one."""

    size: int
    start: str


def missing_bytes(
    records: TrailRecords, facts: RecordFacts, some: Ints, trail: Ints, shown: Sequence[int], end: int
) -> dict[int, TrailGap]:
    """The bytes of the trail that are missing before records which continue a transaction, since the preceding member:
    among the records ``some``, by the number of the record. ``trail``: the trail file of each record, with the numbers
    ``shown``; ``end``: the RBA after the record before them, MISSING if unknown."""
    rba, total = records.rba[some], records.total[some]
    ends = np.append(end, np.where((total != MISSING) & (rba > 0), rba + total, MISSING))[:-1]
    is_new = np.append(False, trail[some][1:] != trail[some][:-1])[: len(some)]
    members = np.flatnonzero(facts.member[some])
    out: dict[int, TrailGap] = {}
    rows = np.flatnonzero((ends != MISSING) & (rba > ends) & ~is_new)
    for number, row in zip(np.searchsorted(members, rows).tolist(), rows.tolist(), strict=True):
        if number < len(members):
            of, size = int(some[members[number]]), int(rba[row] - ends[row])
            start = f"RBA {ends[row]}"
            if trail[of] != trail[some[row]]:
                start = f"position {position_text(shown[trail[some[row]]], int(ends[row]))}"
            before = out.get(of)
            out[of] = TrailGap(size, start) if before is None else before._replace(size=before.size + size)
    return {of: gap for of, gap in out.items() if facts.trans[of] in (1, 2)}


# --- fragments --------------------------------------------------------------------------------------------------------


class Chain(NamedTuple):
    """Records that are one large object: their numbers, and its column, None if not printed."""

    records: list[int]
    column: int | None


@dataclass(slots=True)
class Head:
    """A record that others continue. ``rest``: those with the rest of its own data; ``lobs``: those of each large
    object; ``gaps``: a sentence for each incomplete chain."""

    record: int
    rest: list[int] = field(default_factory=list)
    lobs: list[Chain] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        """The number of combined records, including its own."""
        return 1 + len(self.rest) + sum(len(lob.records) for lob in self.lobs)


def heads_of(records: TrailRecords, facts: RecordFacts, some: Bools) -> tuple[dict[int, Head], list[int]]:
    """The heads among the records ``some``, by number; and the fragments without a head."""
    members = np.flatnonzero(some & facts.member)
    fragment = facts.fragment[members]
    cores = np.flatnonzero(~fragment)
    lost = members[: int(cores[0]) if len(cores) else len(members)].tolist()
    counts = np.diff(np.append(cores, len(members))) - 1
    heads: dict[int, Head] = {}
    for at in np.flatnonzero((counts > 0) | facts.goes_on[members[cores]]).tolist():
        first = int(cores[at])
        head = Head(int(members[first]))
        _add_chains(head, members[first + 1 : first + 1 + int(counts[at])].tolist(), records, facts)
        heads[head.record] = head
    return heads, lost


def _add_chains(head: Head, fragments: Sequence[int], records: TrailRecords, facts: RecordFacts) -> None:
    number = np.maximum(records.column("RecCount"), 1)
    columns, lobs = records.columns, records.columns.fragment[:, 0] >= 0
    lob: list[int] = []
    goes_on = bool(facts.goes_on[head.record])

    def end_lob(is_ended: bool) -> None:
        if not lob:
            return
        first, stop = np.searchsorted(columns.record, [lob[0], lob[-1] + 1])
        printed = columns.number[first:stop][lobs[first:stop]]
        head.lobs.append(Chain(list(lob), int(printed[0]) if len(printed) else None))
        if not is_ended:
            most = max(int(number[one]) for one in lob)
            head.gaps.append(
                f"a large object of {most} segments has {len(lob)} here, and the last of them is not its end"
            )
        elif len(lob) < number[lob[0]]:
            head.gaps.append(f"a large object of {number[lob[0]]} segments has {len(lob)} here")
        lob.clear()

    for one in fragments:
        if facts.io[one] == LOB:
            goes_on = False  # the large object follows
            lob.append(one)
            if not facts.goes_on[one]:
                end_lob(True)
        else:
            end_lob(False)
            head.rest.append(one)
            goes_on = bool(facts.goes_on[one])
    end_lob(False)
    if goes_on:
        head.gaps.append(f"the record continues, but the last of its {1 + len(head.rest)} segments is not its end")
    elif head.rest and 1 + len(head.rest) < number[head.record]:
        head.gaps.append(f"a record of {number[head.record]} segments has {1 + len(head.rest)} here")
