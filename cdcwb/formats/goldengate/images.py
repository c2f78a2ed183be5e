"""Row images of many records: Arrow maps of column name to text, decoded from their data
(docs/formats/goldengate.md §4). Columns with the same coding are decoded together, for all tables; their texts are in
one pool. The columns of a body are adjacent and in order, so a map column gathers the texts once, in that order.

A fragment continues the nearest preceding record that is not a fragment, its *head*. The fragments of a head are
chains, each up to its first record with Continued = N: the rest of the head's own data, and a chain of LargeObject
records for each large object (§5.5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from cdcwb.formats.arrays import EventBatch, TextPool
from cdcwb.formats.goldengate import contents
from cdcwb.formats.goldengate.contents import OPAQUE, ColumnSpans, Half, decoded, texts
from cdcwb.formats.goldengate.definitions import Definition
from cdcwb.formats.goldengate.layout import GUESS, GUESS_FIXED, LOB, MISSING, SEGMENTS, Coding
from cdcwb.formats.goldengate.records import TrailRecords
from cdcwb.formats.kernels import Bools, Bytes, Ints
from cdcwb.model import Problem
from cdcwb.words import plural, unused_name

if TYPE_CHECKING:
    from cdcwb.formats.goldengate.events import Assigned


Definitions = Sequence[Definition | None]

_INDEXES: Final = 1 << 16


# --- fragments --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Head:
    """A record that others continue. ``rest``: those with the rest of its own data; ``lobs``: those of each large
    object, and its column, None if not printed; ``gaps``: a sentence for each incomplete chain, by its first record."""

    record: int
    rest: list[int] = field(default_factory=list)
    lobs: list[tuple[list[int], int | None]] = field(default_factory=list)
    gaps: dict[int, str] = field(default_factory=dict)

    @property
    def fragments(self) -> list[int]:
        """The records that continue it."""
        return [*self.rest, *(record for lob, _ in self.lobs for record in lob)]


def heads_of(records: TrailRecords, some: Bools) -> tuple[dict[int, Head], list[int]]:
    """The heads among the records ``some``, by number; and the fragments without a head."""
    members = np.flatnonzero(some & records.member)
    cores = np.flatnonzero(~records.fragment[members])
    ends, is_lost = np.append(cores, len(members)), np.isin(records.io[members[cores]], SEGMENTS)
    has_more = ((np.diff(ends) > 1) | records.goes_on[members[cores]]) & ~is_lost
    spans = zip(cores[has_more].tolist(), ends[1:][has_more].tolist(), strict=True)
    heads = {int(members[at]): _head(records, members[at:end].tolist()) for at, end in spans}
    return heads, members[np.repeat(np.append(True, is_lost), np.diff(np.append(0, ends)))].tolist()


def _head(records: TrailRecords, members: list[int]) -> Head:
    """The head of some records, the first of them, which the others continue: segments of large objects, each up to one
    that is not continued, and others with the rest of its own data."""
    head, count = Head(members[0]), np.maximum(records.column("RecCount"), 1)
    lobs: list[list[int]] = []
    for one, before in zip(members[1:], members, strict=False):
        if records.io[one] != LOB:
            head.rest.append(one)
        elif records.io[before] == LOB and records.goes_on[before]:
            lobs[-1].append(one)
        else:
            lobs.append([one])
    own = [head.record, *head.rest]
    chains = [("a record", own), *(("a large object", lob) for lob in lobs)]
    for what, chain in chains:
        is_open = records.goes_on[chain[-1]] and (chain is not own or not lobs)
        if is_open or (len(chain) < count[chain[0]] and (chain is not own or head.rest)):
            end = ", the last of which is continued" if is_open else ""
            said = f"{what} of {plural(int(count[chain[0]]), 'segment')} has {len(chain)} here{end}"
            head.gaps[chain[0]] = said
    for lob in lobs:
        stated = [int(one) for one in records.lob_column[lob] if one != MISSING]
        head.lobs.append((lob, stated[0] if stated else None))
    return head


# --- images -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Put:
    """A value from elsewhere for an image: instead of that of column ``index``, or after the others with ``name``, if
    any. ``text`` None: it is not known, so the image does not have the column."""

    record: int
    half: Half
    index: int
    text: str | None
    name: str | None = None


class Images(NamedTuple):
    """Map columns of a batch, null if a record has no such image; ``problems`` as (record, code, sentence)."""

    before: pa.Array
    after: pa.Array
    key: pa.Array
    problems: list[tuple[int, Problem, str]]


class _Column(NamedTuple):
    """A column of a table, by its definition if it has one. ``surplus``: the definition of the table lacks it."""

    name: str
    coding: Coding
    is_key: bool
    surplus: bool


def _columns(group: Ints, index: Ints, definitions: Definitions, put: Sequence[Put]) -> tuple[list[_Column], Ints]:
    """The different columns of some cells, and the number of that of each cell. ``group``: the definition of the
    cell's table, -1 for none: such columns are ``c0``, ``c1`` … and the types of their values are inferred."""
    size = np.zeros(len(definitions) + 1, np.int64)  # the last is that of group -1
    np.maximum.at(size, group, index + 1)
    ends = np.cumsum(size)
    slot = (ends - size)[group] + index
    is_used = np.bincount(slot, minlength=1) > 0
    used = np.flatnonzero(is_used)
    owner = np.searchsorted(ends, used, side="right")
    columns = []
    for of, at in zip(owner.tolist(), (used - (ends - size)[owner]).tolist(), strict=True):
        table = definitions[of] if of < len(definitions) else None
        column = table.column(at) if table is not None else None
        name = f"c{at}" if table is None else table.name(at)
        if at >= _INDEXES:
            name = put[at - _INDEXES].name or ""
            name = name if table is None else unused_name(name, table.names)
        is_key = column is not None and column.key_position is not None
        coding = GUESS if column is None else column.coding
        columns.append(_Column(name, coding, is_key, bool(column is None and table and table.columns)))
    return columns, (np.cumsum(is_used) - 1)[slot]


def read_images(
    buffer: Bytes, cells: ColumnSpans, group: Ints, definitions: Definitions, charset: str, put: Sequence[Put]
) -> Images:
    """The images of records from the cells of their bodies.

    A record has the images of which it has a column. Keys are in the order of the column indexes, without repetitions:
    the first of several columns with one index counts. ``group``: the definition of the table of each record, -1 for
    none; ``put``: values from elsewhere. The key is that of the before image, if it has any key column, else of the
    after image.
    """
    more = [(one.record, one.half, one.index if one.name is None else _INDEXES + at) for at, one in enumerate(put)]
    added = np.array(more, np.int64).reshape(-1, 3).T
    row, half, index = np.concatenate([added, [cells.row, cells.half, cells.index]], axis=1)
    columns, number = _columns(group[row], index, definitions, put)
    pool = TextPool()
    of_put = pool.add(pa.array([one.text for one in put], pa.string()))
    of_cells, problems = _decoded(buffer, cells, columns, number[len(put) :], pool, charset)
    of_put = np.where([one.text is None for one in put], -1, of_put)
    place = np.concatenate([of_put, of_cells])
    rank = row * 2 + half << 32 | index
    if not (rank[1:] > rank[:-1]).all() or (place < 0).any():
        by_rank = np.argsort(rank, kind="stable")
        once = by_rank[np.append(True, np.diff(rank[by_rank]) > 0)[: len(rank)]]
        once = once[place[once] >= 0]
        row, half, number, place = row[once], half[once], number[once], place[once]
    before, is_key = half == Half.BEFORE, np.array([one.is_key for one in columns], bool)[number]
    key_before = np.zeros(len(group), dtype=bool)
    key_before[row[is_key & before]] = True
    names = pa.array([one.name for one in columns], pa.string())

    def image(chosen: Bools) -> pa.Array:
        rows, numbers, places = (one if chosen.all() else one[chosen] for one in (row, number, place))
        sizes = np.bincount(rows, minlength=len(group))
        offsets = pa.array(np.append(0, np.cumsum(sizes)), pa.int32(), mask=np.append(sizes == 0, False))
        keys = names.take(pa.array(numbers.astype(np.int32)))
        return pa.MapArray.from_arrays(offsets, keys, pool.gather(places.astype(np.int32)))

    return Images(image(before), image(~before), image(is_key & (before == key_before[row])), problems)


def _decoded(
    buffer: Bytes, cells: ColumnSpans, columns: Sequence[_Column], number: Ints, pool: TextPool, charset: str
) -> tuple[Ints, list[tuple[int, Problem, str]]]:
    """All values of some bodies as text: the index of each in the pool (-1: invalid bytes, which are in no image), and
    problems as (record, code, sentence). ``number``: the column of each cell."""
    codings: dict[Coding, int] = {}
    of_column = np.array([codings.setdefault(one.coding, len(codings)) for one in columns], np.int32)
    codes = of_column[number] * 4 + cells.is_big * 2 + cells.bare
    place = np.zeros(len(number), dtype=np.int64)
    problems: list[tuple[int, Problem, str]] = []
    for code in np.flatnonzero(np.bincount(codes)).tolist():
        how, is_big, bare = list(codings)[code // 4], code // 2 % 2, code % 2
        how = GUESS_FIXED if bare and how is GUESS else how
        chosen = np.flatnonzero(codes == code)
        start, stop, is_null = cells.start[chosen], cells.stop[chosen], cells.is_null[chosen]
        found = texts(buffer, start, stop, is_null, how, charset, "big" if is_big else "little")
        place[chosen] = pool.add(found.array)
        problems += [(int(chosen[at]), problem, sentence) for at, problem, sentence in found.problems]
    for cell in np.flatnonzero(cells.odd).tolist():
        problems.append((cell, Problem.VALUE, contents.odd_indicator(cells.indicator_text(buffer, cell))))
    place[[cell for cell, _, _ in problems]] = -1
    surplus = np.array([one.surplus for one in columns], bool)
    for cell in np.flatnonzero(surplus[number]).tolist():
        problems.append((cell, Problem.ROW_SIZE, "the definition of the table has no column with this index"))
    problems.sort(key=lambda one: one[0])
    return place, [(int(cells.row[at]), code, f"{columns[number[at]].name}: {said}") for at, code, said in problems]


class RowImages:
    """The row images of the records of a window."""

    def __init__(self, known: Assigned) -> None:
        records, shared, file = known.records, known.shared, known.file
        self._records, self._heads, self._charset = records, known.heads, shared.options.charset
        self._imaged, self._before, self._version = known.imaged, known.before, known.version
        self._bare = records.nonstop
        self._definitions, bodies = [one.definition for one in shared.versions], shared.bodies
        self._is_big = np.array([one.order == "big" for one in bodies], bool)[file]
        self._is_known = np.array([one.is_known for one in bodies], bool)[file] | self._bare
        self._widths = contents.widths_of(records.io, np.array([one.prefix for one in bodies], np.int64)[file])
        self._is_row = known.imaged & (self._widths != OPAQUE)
        self._buffer, self._start, self._stop = records.body, records.body_at[:-1].copy(), records.body_at[1:].copy()
        self._shown = self._stop - self._start >= records.length
        is_complete = self._shown.copy()
        self._join(is_complete)
        self._strict = self._bare | is_complete  # data that only begin like columns are not columns

    def _join(self, is_complete: Bools) -> None:
        """Joins data from fragments, up to one that is not shown in full. ``is_complete``: of records whose data are
        all there."""
        records, made = self._records, dict[int, bytes]()
        for one, head in self._heads.items():
            own = [one, *head.rest]
            count = int(np.append(self._shown[own], False).argmin())
            is_complete[one] = count == len(own) and one not in head.gaps
            made |= {one: b"".join(map(records.data, own[: count + 1]))} if head.rest else {}
        at = len(records.body)
        for one, content in made.items():
            self._start[one], self._stop[one] = at, at + len(content)
            at += len(content)
        if made:
            self._buffer = np.concatenate([records.body, np.frombuffer(b"".join(made.values()), np.uint8)])

    def fill(self, batch: EventBatch, rows: Ints) -> None:
        """Fills the images of a batch, and adds the problems of decoding."""
        start = np.where((self._is_row & self._is_known)[rows], self._start[rows], -1)
        skip = np.maximum(self._records.column("SyskeyLen")[rows], 0)
        bodies = self._stop[rows], self._is_big[rows], self._widths[rows], skip, self._before[rows], self._bare[rows]
        cells = contents.walk(self._buffer, start, *bodies)
        bad = np.where(self._strict[rows], cells.bad, -1)
        if (bad >= 0).any():
            cells = contents.walk(self._buffer, np.where(bad >= 0, -1, start), *bodies)
        put = self._large_objects(rows, cells)
        images = read_images(self._buffer, cells, self._version[rows], self._definitions, self._charset, put)
        for at, code, sentence in images.problems:
            batch.problem(at, code, sentence)
        for at in np.flatnonzero((self._is_row & ~self._is_known & (self._stop > self._start))[rows]).tolist():
            batch.problem(at, Problem.ROW_SIZE, contents.UNKNOWN_ORDER)
        for at in np.flatnonzero(bad >= 0).tolist():
            sentence = contents.not_columns(int(bad[at] - self._start[rows[at]]), bool(self._bare[rows[at]]))
            batch.problem(at, Problem.ROW_SIZE, sentence)
        for name in ("before", "after", "key"):
            batch.put(name, getattr(images, name))

    def _large_objects(self, rows: Ints, cells: ColumnSpans) -> list[Put]:
        """The values of large objects, joined from fragments."""
        out: list[Put] = []
        with_lobs = [one for one, head in self._heads.items() if head.lobs]
        for at in np.flatnonzero(np.isin(rows, np.array(with_lobs, np.int64)) & self._imaged[rows]).tolist():
            record = int(rows[at])
            table = self._definitions[self._version[record]] if self._version[record] >= 0 else None
            own = slice(int(cells.offsets[at]), int(cells.offsets[at + 1]))
            there = cells.index[own][~cells.is_null[own]].tolist() if table is not None else []
            waiting = [one for one in there if table and (column := table.column(one)) and column.is_lob]
            half = Half.BEFORE if self._before[record] else Half.AFTER
            for number, (lob, stated) in enumerate(self._heads[record].lobs, 1):
                index = stated if stated is not None else waiting[0] if waiting else None
                waiting = [one for one in waiting if one != index]
                column = table.column(index) if table is not None and index is not None else None
                is_text = None if column is None else column.is_text_lob or not column.is_lob
                text = None
                if self._shown[lob].all() and lob[0] not in self._heads[record].gaps:
                    text = _lob_text(b"".join(map(self._records.data, lob)), is_text, self._charset)
                out.append(Put(at, half, index or 0, text, f"lob{number}" if index is None else None))
        return out


def _lob_text(value: bytes, is_text: bool | None, charset: str) -> str:
    """``is_text`` None: unknown, so it is text if it is readable."""
    text = None if is_text is False else decoded(value, charset)
    if text is None or (is_text is None and any(one < " " and one not in "\t\r\n" for one in text)):
        return value.hex()
    return text
