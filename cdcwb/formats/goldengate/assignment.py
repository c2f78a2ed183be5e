"""Assigns to each record of a part its kind, transaction, table version, trail file and time, and the records that
continue it (docs/formats/goldengate.md §5.5 and §6).

The results are arrays over the part's records, made once, from which batches are filled. A fragment continues the
nearest preceding record that is not a fragment, its *head*. The fragments of a head form chains, each up to its first
record with Continued = N: the rest of the head's own body, and a chain of LargeObject records for each large object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cdcwb.formats.goldengate.decode import MISSING, Bools, Bytes, Ints, Records, Shape, file_header, malformed_sentence
from cdcwb.formats.goldengate.decode.definitions import split_name
from cdcwb.formats.goldengate.decode.printed import printed_of, scan, truncated_body, truncated_column
from cdcwb.formats.goldengate.layout import IO_TYPES
from cdcwb.formats.goldengate.plan import FileEntry, Part, Settings, Stretch
from cdcwb.formats.goldengate.plan.trails import Lookup, TrailFile, nearest_offsets, sections
from cdcwb.formats.goldengate.plan.transactions import (
    CLOSES,
    LOB,
    METADATA,
    RESTART_ABEND,
    Gap,
    Marks,
    Open,
    at_one_rba,
    fragments,
    gaps,
    in_runs,
    marks_of,
    position_text,
    runs,
    token_text,
    trail_order,
)
from cdcwb.formats.moments import from_iso, parse_zone, to_utc
from cdcwb.model import Kind, Operation, Problem
from cdcwb.words import plural

__all__ = ["KINDS", "OPERATIONS", "Assigned", "Behind", "assign", "names_of", "place_text"]


class Piece(NamedTuple):
    """A fragment: whether it is of a large object, whether it is continued, the stated number of fragments (at least
    1), the column index of its large object, if printed, and its printed bytes."""

    is_lob: bool
    goes_on: bool
    stated: int
    column: int | None
    body: bytes


def read_pieces(records: Records, marks: Marks, chosen: Ints) -> list[Piece]:
    """Some records as fragments."""
    count, column = np.maximum(records.column("RecCount")[chosen], 1), records.fragment[chosen, 0]
    return [
        Piece(io == LOB, goes_on, number, None if index < 0 else index, shown_body(records, record))
        for record, io, goes_on, number, index in zip(
            *(one.tolist() for one in (chosen, marks.io[chosen], marks.goes_on[chosen], count, column)), strict=True
        )
    ]


def shown_body(records: Records, record: int) -> bytes:
    """The decoded data of a record, as far as it is printed."""
    printed = records.extras.get(record)
    if printed is not None and printed.body is not None:
        return printed.body
    start, stop = records.body_at[record].tolist()
    return records.bytes[start:stop].tobytes() if start >= 0 else b""


@dataclass(slots=True)
class Head:
    """A record that others continue. ``body``: those with the rest of its own body; ``lobs``: those of each large
    object; ``gaps``: a sentence for each incomplete chain."""

    record: int
    body: list[Piece] = field(default_factory=list)
    lobs: list[list[Piece]] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)

    @property
    def pieces(self) -> int:
        """The number of combined records, including its own."""
        return 1 + len(self.body) + sum(len(lob) for lob in self.lobs)


def heads_of(records: Records, marks: Marks, members: Ints, some: Bools, behind: Sequence[Piece]) -> list[Head]:
    """The heads among the members of a stretch (in trail order), of which ``some`` are fragments. ``behind``: the
    fragments that follow the stretch."""
    cores = np.flatnonzero(~some)
    if not len(cores):
        return []
    ends = np.append(cores[1:], len(members))
    counts = ends - cores - 1
    counts[-1] += len(behind)
    found = []
    for at in np.flatnonzero((counts > 0) | marks.goes_on[members[cores]]).tolist():
        core = int(cores[at])
        own, *pieces = read_pieces(records, marks, members[core : int(ends[at])])
        if at == len(cores) - 1:
            pieces += behind
        found.append(_chains(Head(int(members[core])), own, pieces))
    return found


def _chains(head: Head, own: Piece, pieces: Sequence[Piece]) -> Head:
    lob: list[Piece] | None = None
    goes_on = own.goes_on
    for piece in pieces:
        if piece.is_lob:
            goes_on = False  # the large object follows
            if lob is None:
                lob = []
                head.lobs.append(lob)
            lob.append(piece)
            if not piece.goes_on:
                _count(head, lob, "large object")
                lob = None
            continue
        if lob is not None:
            head.gaps.append(_unended(lob))
            lob = None
        head.body.append(piece)
        goes_on = piece.goes_on
    if lob is not None:
        head.gaps.append(_unended(lob))
    if goes_on:
        head.gaps.append(f"the record continues, but the last of its {1 + len(head.body)} segments is not its end")
    elif head.body:
        _count(head, [own, *head.body], "record")
    return head


def _unended(lob: Sequence[Piece]) -> str:
    most = max(piece.stated for piece in lob)
    return f"a large object of {most} segments has {len(lob)} here, and the last of them is not its end"


def _count(head: Head, pieces: Sequence[Piece], what: str) -> None:
    said = pieces[0].stated
    if len(pieces) < said:
        head.gaps.append(f"a {what} of {said} segments has {len(pieces)} here")


KINDS: Final = tuple(str(kind) for kind in Kind)
OPERATIONS: Final = tuple(str(operation) for operation in Operation)
_KIND: Final = {kind: number for number, kind in enumerate(KINDS)}
_FILLER, _MALFORMED, _CONTROL = _KIND[Kind.FILLER], _KIND[Kind.MALFORMED], _KIND[Kind.CONTROL]
_UNKNOWN: Final = len(OPERATIONS)
_TYPES: Final = 256
_KIND_OF: Final = np.full(_TYPES + 1, _CONTROL, dtype=np.int64)
_OPERATION_OF: Final = np.full(_TYPES + 1, _UNKNOWN, dtype=np.int64)
for _number, _type in IO_TYPES.items():
    _KIND_OF[_number] = _KIND[str(_type.kind)]
    _OPERATION_OF[_number] = -1 if _type.operation is None else OPERATIONS.index(str(_type.operation))
_KIND_OF[RESTART_ABEND] = _CONTROL  # a rollback, if a transaction is open
_GOES_ON: Final = (1, 2)
_EARLIEST: Final = -62_135_596_800_000_000
_LATEST: Final = 253_402_300_799_999_999


@dataclass(slots=True)
class Assigned:
    """The records of a part and their assigned facts, in arrays of ``n``.

    * ``kind``: index into KINDS; ``operation``: into OPERATIONS, one more for a type that is not known, -1 for none
    * ``file``: index into ``files`` (trail files), -1 for filler
    * ``transaction``: index into ``named``, -1 for none; ``last``: TransInd closes it, -1 where it is not known
    * ``version``: index into the plan's versions, -1 for none
    * ``utc``: microseconds since 1970; ``timed``: is it known
    * ``fragment``; ``repeated``
    * ``continues``: index into ``places`` (positions) of the record that a fragment continues, -1 for none
    * ``second``: records with the RBA of a different one before them, which are named by their location
    * ``heads``: records that others continue, by index; ``syskeys``: hex of the system keys that bodies begin with
    """

    records: Records
    marks: Marks
    base: int
    kind: Ints
    operation: Ints
    file: Ints
    files: list[TrailFile]
    transaction: Ints
    named: list[Open]
    last: npt.NDArray[np.int8]
    version: Ints
    utc: Ints
    timed: Bools
    repeated: Bools
    continues: Ints
    places: list[str] = field(default_factory=list)
    second: set[int] = field(default_factory=set)
    heads: dict[int, Head] = field(default_factory=dict)
    syskeys: dict[int, str] = field(default_factory=dict)
    problems: dict[int, list[tuple[Problem, str]]] = field(default_factory=dict)

    def body(self, index: int) -> bytes:
        """The printed data of one record, decoded now if the part was read without bodies."""
        records = self.records
        first, last = int(records.start[index]) - self.base, int(records.stop[index]) - self.base
        return shown_body(records, index) or printed_of(records.text[first:last].tobytes()).body or b""

    def problem(self, index: int, code: Problem, sentence: str) -> None:
        """A problem of one record."""
        self.problems.setdefault(index, []).append((code, sentence))


class Behind:
    """Returns the fragments in other parts. ``read(file index, first, last+1)`` gives bytes of a file."""

    def __init__(self, read: Callable[[int, int, int], Bytes], charset: str, bodies: bool) -> None:
        self._read = read
        self._charset = charset
        self._bodies = bodies

    def pieces(self, stretch: Stretch) -> list[Piece]:
        """The fragments that continue a stretch's last record."""
        out: list[Piece] = []
        for file_index, start, stop in stretch.follows:
            text = self._read(file_index, start, stop)
            records = scan(text, start, self._bodies)
            marks = marks_of(records, self._charset)
            order, _, again = trail_order(records, 0, len(records))
            order = order[~again]
            out += read_pieces(records, marks, order[marks.member[order]])
        return out


def assign(
    text: Bytes, part: Part, file: FileEntry, settings: Settings, lookup: Lookup, behind: Behind, bodies: bool
) -> Assigned:
    """Everything about the records of a part, whose bytes are ``text``."""
    records = scan(text, part.start, bodies)
    marks = marks_of(records, settings.charset)
    count = len(records)
    is_record = records.shape == Shape.RECORD
    known = np.where((marks.io < 0) | (marks.io >= _TYPES), _TYPES, marks.io)
    kind = np.where(is_record, _KIND_OF[known], _FILLER)
    kind[records.shape == Shape.FILE_HEADER] = _CONTROL
    kind[records.shape == Shape.MALFORMED] = _MALFORMED
    out = Assigned(
        records=records,
        marks=marks,
        base=part.start,
        kind=kind,
        operation=np.where(is_record, _OPERATION_OF[known], -1),
        file=np.full(count, -1, dtype=np.int64),
        files=[],
        transaction=np.full(count, -1, dtype=np.int64),
        named=[],
        last=np.where(marks.trans < 0, -1, np.isin(marks.trans, CLOSES)).astype(np.int8),
        version=np.full(count, -1, dtype=np.int64),
        utc=np.zeros(count, dtype=np.int64),
        timed=np.zeros(count, dtype=np.bool_),
        repeated=np.zeros(count, dtype=np.bool_),
        continues=np.full(count, -1, dtype=np.int64),
    )
    for index, printed in records.extras.items():
        for code, sentence in printed.problems:
            out.problem(index, code, sentence)
    _cut(out)
    _unknown_types(out)
    for number, section in enumerate(sections(records)):
        stretches = [one for one in part.stretches if one.section == number]
        order, rba, again = trail_order(records, section.first, section.stop)
        again = again | in_runs(len(order), [run for one in stretches for run in one.repeated])
        _repeated(out, order[again])
        elsewhere = in_runs(len(order), [run for one in stretches for run in one.shared])[~again]
        order, rba = order[~again], rba[~again]
        _same_position(out, order[elsewhere | at_one_rba(records, order)])
        for stretch in stretches:
            chosen = (rba >= stretch.low) & (rba <= stretch.high)
            _stretch(out, stretch, order[chosen], rba[chosen], part, lookup, behind)
            if stretch is stretches[0]:
                out.file[section.first : section.stop] = np.where(
                    records.shape[section.first : section.stop] <= Shape.FILE_HEADER, len(out.files) - 1, -1
                )
    _times(out, file, settings)
    _system_keys(out)
    for index in np.flatnonzero(records.shape == Shape.MALFORMED).tolist():
        if index not in out.problems:
            out.problem(index, Problem.MALFORMED, malformed_sentence(records, index))
    return out


def _cut(out: Assigned) -> None:
    """Bodies and columns that are shown only in part."""
    records = out.records
    cut = np.flatnonzero(records.cut)
    have = records.body_at[cut, 1] - records.body_at[cut, 0]
    for index, shown, length, column in zip(
        cut.tolist(), have.tolist(), records.length[cut].tolist(), records.cut_column[cut].tolist(), strict=True
    ):
        out.problem(index, *truncated_body(shown, length))
        if column[0] != MISSING:
            out.problem(index, *truncated_column(*column))


def _unknown_types(out: Assigned) -> None:
    for index in np.flatnonzero(out.operation == _UNKNOWN).tolist():
        number = int(out.marks.io[index])
        what = "a record of an unknown type" if number < 0 else f"unknown IOType {number}"
        out.problem(index, Problem.UNKNOWN_RECORD_TYPE, what)


def _repeated(out: Assigned, index: Ints) -> None:
    out.repeated[index] = True
    out.kind[index] = _FILLER
    out.operation[index] = -1
    out.last[index] = -1
    for one in index.tolist():
        out.problem(one, Problem.REPEATED, "this record of the trail was printed before")


def _same_position(out: Assigned, index: Ints) -> None:
    """Records with the RBA of a different one before them."""
    for one in index[out.records.shape[index] == Shape.RECORD].tolist():
        out.second.add(one)
        rba = int(out.records.rba[one])
        what = "the before image of the same update" if out.marks.twin[one] else "a different record before it"
        out.problem(one, Problem.SAME_POSITION, f"RBA {rba} is that of {what} too: both are kept")


def _stretch(
    out: Assigned, stretch: Stretch, order: Ints, rba: Ints, part: Part, lookup: Lookup, behind: Behind
) -> None:
    marks = out.marks
    out.files.append(stretch.file)
    out.file[order] = len(out.files) - 1
    run_of = _transactions(out, stretch, order, part)
    members = marks.member[order]
    mine = order[members]
    some = fragments(marks, mine, stretch.goes_on)
    out.kind[mine[some]] = _KIND[Kind.FRAGMENT]
    out.operation[mine[some]] = -1
    _halves(out, mine[~some], run_of, stretch)
    _gaps(out, order, stretch.gap)
    _continues(out, stretch, mine, some, part)
    for head in heads_of(out.records, marks, mine, some, behind.pieces(stretch)):
        out.heads[head.record] = head
        for sentence in head.gaps:
            out.problem(head.record, Problem.GAP, sentence)
    if stretch.head is None and len(some) and some[0]:
        lost = mine[: int(np.argmin(some)) if not some.all() else len(some)]
        for index in lost.tolist():
            out.problem(index, Problem.GAP, "the record that this one continues is not in the capture")
    _versions(out, stretch.file, order, rba, part.file, lookup)


def _transactions(out: Assigned, stretch: Stretch, order: Ints, part: Part) -> Ints:
    """Assigns transactions to the records; returns the run of each record of the part, -1 for those in none."""
    marks, records = out.marks, out.records
    found = runs(marks, order, stretch.before is not None)
    count = len(found.first)
    run_of = np.full(len(records), -1, dtype=np.int64)
    run_of[found.index] = found.of
    if not len(found.index):
        return run_of
    csns, xids = _first_tokens(out, found.index, found.of, count)
    first_number = len(out.named)
    for number in range(count):
        if number == 0 and stretch.before is not None:
            named = stretch.before
        elif number == count - 1 and stretch.after is not None and not found.closed[number]:
            named = stretch.after
        else:
            first = int(found.first[number])
            aborted = bool(found.aborted[number])
            named = Open(_place(out, stretch, first, part), xids[number], csns[number], aborted)
        out.named.append(named)
    out.transaction[found.index] = np.where(found.of < 0, -1, found.of + first_number)
    aborts = found.index[marks.abort[found.index] & (found.of >= 0)]
    out.kind[aborts] = _KIND[Kind.ROLLBACK]
    _conflicts(out, found.index, found.of, first_number)
    return run_of


def _place(out: Assigned, stretch: Stretch, index: int, part: Part) -> str:
    if index < 0:
        return ""
    rba = MISSING if index in out.second else int(out.records.rba[index])
    return place_text(stretch.file, rba, part.file, int(out.records.start[index]))


def place_text(trail: TrailFile, rba: int, file_index: int, offset: int) -> str:
    """The name of a record: its position, else its location in the capture."""
    return position_text(trail.shown, rba) if rba != MISSING else f"{file_index}:{offset}"


def _first_tokens(out: Assigned, index: Ints, of: Ints, count: int) -> tuple[list[str | None], list[str | None]]:
    """The first CSN and the first id of the records of each run."""
    both: list[list[str | None]] = []
    for values in (out.marks.csn, out.marks.xid):
        texts: list[str | None] = [None] * count
        valid = values.is_valid().to_numpy(zero_copy_only=False)[index] & (of >= 0)
        there = np.flatnonzero(valid)
        which, first = np.unique(of[there], return_index=True)
        for run, at in zip(which.tolist(), index[there[first]].tolist(), strict=True):
            texts[run] = token_text(values[at].as_py())
        both.append(texts)
    return both[0], both[1]


def _conflicts(out: Assigned, index: Ints, of: Ints, first_number: int) -> None:
    """Tokens that contradict the first one of their transaction."""
    for values, what in ((out.marks.csn, "LOGCSN"), (out.marks.xid, "TRANID")):
        encoded = values.dictionary_encode()
        texts = [token_text(one) for one in encoded.dictionary.to_pylist()]
        if not texts:
            continue
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        own = np.array([*(numbers[text] for text in texts), -1])
        codes = own[encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)][index]
        said = [one.csn if what == "LOGCSN" else one.xid for one in out.named[first_number:]]
        wanted = np.array([numbers.get(one or "", -2) for one in said])
        wrong = np.flatnonzero((codes >= 0) & (of >= 0) & (codes != wanted[of]))
        for at in wrong.tolist():
            there = token_text(values[int(index[at])].as_py())
            first = said[int(of[at])]
            out.problem(
                int(index[at]),
                Problem.CONFLICT,
                f"token {what} is {there}, that of an earlier record of its transaction is {first}",
            )


def _halves(out: Assigned, cores: Ints, run_of: Ints, stretch: Stretch) -> None:
    """The updates that are halves of one: a before image, and the after image directly after it."""
    marks = out.marks
    if not len(cores) or not marks.half[cores].any():
        return
    half, before, table, run = marks.half[cores], marks.before[cores], marks.table[cores], run_of[cores]
    out.kind[cores[before]] = _KIND[Kind.BEFORE]
    waits = np.append(False, before[:-1])
    same = np.zeros(len(cores), dtype=np.bool_)
    same[1:] = (table[1:] == table[:-1]) & (run[1:] == run[:-1])
    if stretch.half is not None and run[0] == (-1 if stretch.before is None else 0) and table[0] >= 0:
        waits[0], same[0] = True, marks.tables[int(table[0])] == stretch.half
    out.kind[cores[half & ~before & waits & same]] = _KIND[Kind.AFTER]


def _continues(out: Assigned, stretch: Stretch, mine: Ints, some: Bools, part: Part) -> None:
    """Assigns to each fragment among the members of a stretch the record that it continues."""
    if not some.any():
        return
    cores = np.cumsum(~some)  # 0: the record precedes the stretch
    begins = np.append(-1, mine[~some])
    wanted = np.unique(cores[some])
    first = len(out.places)
    for core in wanted.tolist():
        out.places.append(stretch.head or "" if core == 0 else _place(out, stretch, int(begins[core]), part))
    out.continues[mine[some]] = first + np.searchsorted(wanted, cores[some])
    if stretch.head is None and wanted[0] == 0:
        out.continues[mine[cores == 0]] = -1


def _gaps(out: Assigned, order: Ints, before: Gap | None) -> None:
    """Reports bytes of the trail that are missing between two records of a transaction, at the second one. ``before``:
    those that are missing before the first record of ``order``."""
    members = np.flatnonzero(out.marks.member[order])
    for number, gap in gaps(out.records, order, members, before).items():
        if number == len(members) or out.marks.trans[order[members[number]]] not in _GOES_ON:
            continue
        lacks = plural(gap.size, "byte")
        sentence = f"{lacks} of the trail that precede this record, from {gap.start} on, are not in the capture"
        out.problem(int(order[members[number]]), Problem.GAP, sentence)


def _versions(out: Assigned, trail: TrailFile, order: Ints, rba: Ints, file_index: int, lookup: Lookup) -> None:
    marks, records = out.marks, out.records
    for index in order[marks.io[order] == METADATA].tolist():
        out.version[index] = lookup.at(file_index, int(records.start[index]))
    wanted = marks.member[order] & ((marks.table[order] >= 0) | (records.name_index[order] != MISSING))
    mine, places = order[wanted], rba[wanted]
    if not len(mine):
        return
    index = records.name_index[mine]
    keys = (marks.table[mine] + 1) * (int(index.max()) + 2) + index + 1
    found, which = np.unique(keys, return_inverse=True)
    which = which.reshape(-1)
    by_group = np.argsort(which, kind="stable")
    edges = np.searchsorted(which[by_group], np.arange(len(found) + 1))
    for group in range(len(found)):
        rows = by_group[edges[group] : edges[group + 1]]
        first = mine[rows[0]]
        name = marks.tables[int(marks.table[first])] if marks.table[first] >= 0 else None
        out.version[mine[rows]] = lookup.in_force(trail, int(index[rows[0]]), name, places[rows])


def _times(out: Assigned, file: FileEntry, settings: Settings) -> None:
    records = out.records
    known = (records.shape <= Shape.FILE_HEADER) & (records.moment != MISSING)
    moment = records.moment
    if settings.time_zone is not None:
        out.utc, doubtful = to_utc(moment, parse_zone(settings.time_zone))
        doubtful &= known & (records.julian == MISSING)
        for index in np.flatnonzero(doubtful).tolist():
            out.problem(
                index,
                Problem.TIME_ZONE,
                f"the printed time is ambiguous or missing in {settings.time_zone}: the earlier one is used",
            )
        out.timed = known
    elif file.shown:
        out.utc, out.timed = moment - nearest_offsets(records.start, file.shown), known
    julian = (records.shape <= Shape.FILE_HEADER) & (records.julian != MISSING)
    out.utc = np.where(julian, records.julian, out.utc)
    out.timed = out.timed | julian
    for index in np.flatnonzero(records.shape == Shape.FILE_HEADER).tolist():
        created = from_iso(file_header(out.body(index)).get("CreationTime"))
        if created is not None:
            out.utc[index], out.timed[index] = created, True
    wrong = out.timed & ((out.utc < _EARLIEST) | (out.utc > _LATEST))
    for index in np.flatnonzero(wrong).tolist():
        out.problem(index, Problem.TIME_RANGE, "the time is outside the years 1 to 9999")
    out.timed &= ~wrong


def _system_keys(out: Assigned) -> None:
    """The first SyskeyLen bytes of a body are the system key (NonStop)."""
    records = out.records
    sizes = records.column("SyskeyLen")
    for index in np.flatnonzero((sizes > 0) & (records.body_at[:, 0] >= 0)).tolist():
        start, stop = records.body_at[index].tolist()
        out.syskeys[index] = records.bytes[start : min(start + int(sizes[index]), stop)].tobytes().hex()


def names_of(marks: Marks) -> list[tuple[str | None, str | None]]:
    """Schema and table of each printed name."""
    return [split_name(name) if name else (None, None) for name in marks.tables]
