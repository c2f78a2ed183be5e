"""What the state machines ask of records: their types, their system, their place in a transaction, and the order of the
trail (docs/formats/goldengate.md §3.6, §4.8 and §6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdcwb.formats.arrays.texts import slices
from cdcwb.formats.goldengate.definitions import GUARDIAN, one_case
from cdcwb.formats.goldengate.facts import HALVES, io_type_of
from cdcwb.formats.goldengate.records import MISSING, Bytes, Ints, Records, Shape, System

__all__ = [
    "DDL",
    "FRAGMENT",
    "LOB",
    "METADATA",
    "RESTART_ABEND",
    "Bools",
    "Marks",
    "at_one_rba",
    "fingerprints",
    "marks_of",
    "spans",
    "texts_of",
    "token_text",
    "trail_order",
]

Bools = npt.NDArray[np.bool_]

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

    * ``io`` int64: number of the record type, by its header or else by its printed name; -1 where neither tells
    * ``trans`` int64: TransInd, -1 where it is not known; without a header block, what the image line says
    * ``member``: belongs to a transaction (or would, were it known which)
    * ``abort``: RestartAbend
    * ``goes_on``: Continued is Y
    * ``half``: an update that may be one of two halves; ``before``: it is the first
    * ``twin``: the after image of the trail record whose before image is printed above it, with the same RBA
    * ``table`` int64: index into ``tables``, -1 where no name is printed; ``printed`` int64: likewise into ``names``,
      the names as printed. Guardian file names that differ only in case are one table
    * ``csn``, ``xid``: binary arrays, null where there is no such token
    * ``system`` int8: a :class:`~cdcwb.formats.goldengate.records.System`
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
    """The runs ``[first, last+1)`` of a buffer as a binary array; null where they are -1."""
    null = at[:, 0] < 0
    if null.all():
        return pa.nulls(len(at), pa.binary())
    end = np.maximum.accumulate(np.where(null, 0, at[:, 1]))
    start = np.where(null, end, at[:, 0])
    end = np.where(null, end, at[:, 1])
    if (start[1:] < end[:-1]).any():
        data = buffer.tobytes()
        return pa.array([None if a < 0 else data[a:b] for a, b in at.tolist()], pa.binary())
    first = int(np.argmin(null))  # leading nulls have no place of their own
    start[:first] = end[:first] = start[first]
    return slices(buffer, start, end, null)


def texts_of(values: pa.Array, charset: str = "utf-8") -> pa.Array:
    """Bytes as text; those that are none in the character set keep what they can, the rest as U+FFFD."""
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
    """Which after images are printed right below the before image of the same record of the trail."""
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
    """The values of a token; null also where nothing of it is shown."""
    return spans(buffer, np.where((at[:, 1] > at[:, 0])[:, None], at, MISSING))


def token_text(value: bytes) -> str:
    """The text of a token's value, without what follows it behind a zero byte."""
    return value.partition(b"\0")[0].rstrip(b" ").decode("utf-8", "replace")


def trail_order(records: Records, first: int, stop: int) -> tuple[Ints, Ints, Bools]:
    """The records of one section in the order of their trail: (index of each, RBA of each, was it printed before).

    Only records and file headers count. One without an RBA stands where the one before it in the text does, or before
    the first that has one. A record was printed before if one with its RBA has the same text (:func:`fingerprints`).
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
        some = known[np.append(False, same) | np.append(same, False)]
        if len(some):
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
    """Which records (in trail order, without repeats) have the RBA of one before them."""
    known = np.flatnonzero((records.rba[order] > 0) & (records.shape[order] == Shape.RECORD))
    rba = records.rba[order[known]]
    out = np.zeros(len(order), dtype=np.bool_)
    out[known[1:]] = rba[1:] == rba[:-1]
    return out
