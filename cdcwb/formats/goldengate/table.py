"""Row images of many records: Arrow maps of column name to text, decoded from their data
(docs/formats/goldengate.md §4). Columns with the same coding are decoded together, for all tables; their texts are in
one pool. The columns of a body are adjacent and in order, so a map column gathers the texts once, in that order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdcwb.formats.arrays import EventBatch, TextPool
from cdcwb.formats.goldengate.bodies import (
    UNKNOWN_ORDER,
    Cells,
    Form,
    Half,
    not_columns,
    odd_indicator,
    walk,
)
from cdcwb.formats.goldengate.contents import Order
from cdcwb.formats.goldengate.definitions import Definition
from cdcwb.formats.goldengate.facts import Chain, Head, RecordFacts
from cdcwb.formats.goldengate.layout import GUESS, GUESS_FIXED, Coding
from cdcwb.formats.goldengate.plan import Bodies, forms_of
from cdcwb.formats.goldengate.records import Records
from cdcwb.formats.goldengate.values import texts
from cdcwb.formats.goldengate.versions import Version
from cdcwb.model import Problem
from cdcwb.words import unused_name

__all__ = ["RowImages", "Tables"]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_INDEXES: Final = 1 << 16
_BY_INDEX: Final = re.compile(r"c[0-9]+")


class Tables:
    """The tables of a batch. A record's *group* is an index in ``definitions``; with None there, or group -1, it has no
    definition: its columns are ``c0``, ``c1`` … and the types of its values are inferred."""

    def __init__(self, definitions: Sequence[Definition | None]) -> None:
        self.definitions = list(definitions)
        known = [(place, one) for place, one in enumerate(self.definitions) if one is not None and one.columns]
        codings: dict[Coding, int] = {GUESS: 0}
        self._names: list[str] = []
        # the last of each is for group -1
        self._base, self._size, self._clash = np.zeros((3, len(self.definitions) + 1), dtype=np.int64)
        self._clashing: list[Definition] = []  # tables in which a name by index is that of another column
        key: list[bool] = []
        code: list[int] = []
        for place, one in known:
            self._base[place], self._size[place] = len(self._names), len(one.columns)
            if any(_BY_INDEX.fullmatch(name) and int(name[1:]) >= len(one.names) for name in one.names):
                self._clashing.append(one)
                self._clash[place] = 1 + len(self._clashing)
            self._names += one.names
            key += [column.key_position is not None for column in one.columns]
            code += [codings.setdefault(column.coding, len(codings)) for column in one.columns]
        self.codings = list(codings)
        """The distinct codings of columns."""
        self._key = np.array([*key, False])
        self._code = np.array([*code, 0], dtype=np.int16)

    @property
    def defined(self) -> int:
        """The slots of columns with a definition are below this."""
        return len(self._names)

    @property
    def free(self) -> int:
        """Slots from here on, as many as there are indexes, belong to no column."""
        return self.defined + _INDEXES

    def slots(self, group: Ints, index: Ints) -> Ints:
        """The *slot* of each column: a number that identifies its table and name."""
        size = self._size[group]
        beyond = self.defined + index + _INDEXES * self._clash[group]  # the second block is the free one
        return np.where(index < size, self._base[group] + index, beyond)

    def is_key(self, slots: Ints) -> Bools:
        """Whether the column is a key column."""
        there: Bools = self._key[np.minimum(slots, self.defined)]
        return there

    def codes(self, slots: Ints) -> npt.NDArray[np.int16]:
        """The coding of the column: an index in ``codings``."""
        there: npt.NDArray[np.int16] = self._code[np.minimum(slots, self.defined)]
        return there

    def name(self, slot: int) -> str:
        """The name of a column. One beyond those of its definition has a name from its index, made unique."""
        if slot < self.defined:
            return self._names[slot]
        clash, index = divmod(slot - self.defined, _INDEXES)
        return self._clashing[clash - 2].name(index) if clash else f"c{index}"

    def is_surplus(self, group: Ints, index: Ints) -> Bools:
        """Whether there is a definition, but not of this column."""
        size = self._size[group]
        there: Bools = (size > 0) & (index >= size)
        return there


def decode_cells(
    buffer: Bytes, cells: Cells, slots: Ints, tables: Tables, charset: str, order: Order
) -> tuple[TextPool, Ints, list[tuple[int, Problem, str]]]:
    """All values of some bodies as text: a pool, the index of each in it (-1: invalid bytes, which are in no image),
    and problems as (cell, code, sentence). ``slots``: those of the cells."""
    # the cells of a NonStop are a second group of each coding
    codes = tables.codes(slots) + len(tables.codings) * cells.bare
    pool = TextPool()
    place = np.zeros(len(cells), dtype=np.int64)
    problems: list[tuple[int, Problem, str]] = []
    for code in np.flatnonzero(np.bincount(codes)).tolist():
        bare, number = divmod(code, len(tables.codings))
        how = GUESS_FIXED if bare and number == 0 else tables.codings[number]
        chosen = np.flatnonzero(codes == code)
        start, stop, is_null = cells.start[chosen], cells.stop[chosen], cells.is_null[chosen]
        found = texts(buffer, start, stop, is_null, how, charset, "big" if bare else order)
        place[chosen] = pool.add(found.array)
        problems += [(int(chosen[at]), code_of, sentence) for at, code_of, sentence in found.problems]
    place[cells.odd] = -1
    place[[cell for cell, _, _ in problems]] = -1
    for cell in np.flatnonzero(cells.odd).tolist():
        problems.append((cell, Problem.VALUE, odd_indicator(cells.indicator_text(buffer, cell))))
    return pool, place, problems


@dataclass(frozen=True, slots=True)
class Put:
    """A value from elsewhere for an image: instead of that of column ``index``, or after the others with ``name``, if
    any. ``text`` None is SQL NULL."""

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


def read_images(
    buffer: Bytes,
    cells: Cells,
    group: Ints,
    tables: Tables,
    charset: str = "utf-8",
    order: Order = "little",
    put: Sequence[Put] = (),
) -> Images:
    """The images of records from the cells of their bodies.

    A record has the images of which it has a column. Keys are in the order of the column indexes, without repetitions:
    the first of several columns with one index counts. ``group``: the table of each record; ``put``: values from
    elsewhere. The key is that of the before image, if it has any key column, else of the after image.
    """
    groups = group[cells.row]
    slots = tables.slots(groups, cells.index)
    pool, places, problems = decode_cells(buffer, cells, slots, tables, charset, order)
    for cell in np.flatnonzero(tables.is_surplus(groups, cells.index)).tolist():
        problems.append((cell, Problem.ROW_SIZE, "the definition of the table has no column with this index"))
    problems.sort(key=lambda one: one[0])
    named = [(int(cells.row[at]), code, f"{tables.name(int(slots[at]))}: {said}") for at, code, said in problems]
    more: dict[str, int] = {}
    columns: list[npt.NDArray[Any]] = [cells.row, cells.half, cells.index, slots, places]
    if put:
        added = _added(pool, put, tables, group, more)
        columns = [np.concatenate(both) for both in zip(added, columns, strict=True)]
    rank = columns[0] * 2 + columns[1] << 32 | columns[2]
    if not (rank[1:] > rank[:-1]).all():
        by_rank = np.argsort(rank, kind="stable")
        once = by_rank[np.append(True, np.diff(rank[by_rank]) > 0)[: len(rank)]]
        columns = [one[once] for one in columns]
    if (columns[4] < 0).any():
        columns = [one[columns[4] >= 0] for one in columns]
    row, half, _, slot, place = columns
    before = half == Half.BEFORE
    is_key = tables.is_key(slot)
    key_before = np.zeros(len(group), dtype=bool)
    key_before[row[is_key & before]] = True

    def of(chosen: Bools) -> pa.Array:
        some = (row, slot, place) if chosen.all() else (row[chosen], slot[chosen], place[chosen])
        return _map(len(group), pool, tables, list(more), *some)

    return Images(of(before), of(~before), of(is_key & (before == key_before[row])), named)


def _added(
    pool: TextPool, put: Sequence[Put], tables: Tables, group: Ints, more: dict[str, int]
) -> list[npt.NDArray[Any]]:
    """Row, half, index, slot and pool index of values from elsewhere, which replace those with the same index. ``more``
    receives their names, each with its number."""
    row = np.array([one.record for one in put], dtype=np.int64)
    index = np.array([one.index for one in put], dtype=np.int64)
    slot = tables.slots(group[row], index)
    for at, one in enumerate(put):
        if one.name is not None:
            definition = tables.definitions[group[one.record]] if group[one.record] >= 0 else None
            index[at] = _INDEXES + at  # after all columns
            name = one.name if definition is None else unused_name(one.name, definition.names)
            slot[at] = tables.free + more.setdefault(name, len(more))
    half = np.array([one.half for one in put], dtype=np.int8)
    return [row, half, index, slot, pool.add(pa.array([one.text for one in put], pa.string()))]


def _map(
    count: int, pool: TextPool, tables: Tables, more: Sequence[str], row: Ints, slot: Ints, place: Ints
) -> pa.Array:
    """A map column of entries that are sorted by record; null for a record without any. ``more``: the names of the
    first free slots."""
    sizes = np.bincount(row, minlength=count)
    offsets = np.zeros(count + 1, dtype=np.int32)
    np.cumsum(sizes, out=offsets[1:])
    there = np.bincount(slot, minlength=1) > 0
    used = np.flatnonzero(there).tolist()
    free = range(tables.free, tables.free + len(more))
    names = pa.array([more[one - tables.free] if one in free else tables.name(one) for one in used], pa.string())
    keys = names.take(pa.array((np.cumsum(there, dtype=np.int32) - 1)[slot]))
    nulls = np.append(sizes == 0, False)
    return pa.MapArray.from_arrays(pa.array(offsets, mask=nulls), keys, pool.gather(place.astype(np.int32)))


@dataclass(frozen=True, slots=True)
class RowImages:
    """The data of the records of a window: ``buffer[start:stop]``. ``bodies``: how those of each file are written,
    ``file``: the file of each record; ``before``: the only image of a record is a before image; ``imaged``: it has row
    images; ``version``: number in ``versions``, -1 for none; ``heads``: records that others continue."""

    records: Records
    facts: RecordFacts
    heads: dict[int, Head]
    bodies: Sequence[Bodies]
    file: Ints
    version: Ints
    versions: Sequence[Version]
    imaged: Bools
    before: Bools
    charset: str
    buffer: Bytes
    start: Ints
    stop: Ints

    @classmethod
    def of(cls, records: Records, facts: RecordFacts, heads: dict[int, Head], **known: Any) -> RowImages:
        """Those of a window: data from the hex, joined from fragments, or made from separately printed columns."""
        start, stop = records.body_at[:-1].copy(), records.body_at[1:].copy()
        made: dict[int, bytes] = {}
        columns = records.columns
        shown = np.bincount(columns.record[columns.stop > columns.start], minlength=len(records))
        for one in np.flatnonzero((shown > 0) & (stop - start < records.length)).tolist():
            bodies = known["bodies"][int(known["file"][one])]
            form = Form(int(forms_of(facts.io[one : one + 1], bodies.prefix)[0]))
            body = _of_columns(records, one, "big" if facts.nonstop[one] else bodies.order, form)
            if form is not Form.OPAQUE and len(body) > stop[one] - start[one]:
                made[one] = body
        for one, head in heads.items():
            if head.rest:
                own = made.get(one) or records.data(one)
                made[one] = b"".join([own, *map(records.data, head.rest)])
        at, more = len(records.body), []
        for one, content in made.items():
            more.append(content)
            start[one], stop[one] = at, at + len(content)
            at += len(content)
        buffer = np.concatenate([records.body, np.frombuffer(b"".join(more), np.uint8)]) if more else records.body
        return cls(records, facts, heads, buffer=buffer, start=start, stop=stop, **known)

    def cells(self, rows: Ints, order: Order) -> Cells:
        """The columns of some records whose data have this byte order; those without images have none."""
        bodies = [self.bodies[one] for one in self.file[rows].tolist()]
        forms = forms_of(self.facts.io[rows], np.array([one.prefix for one in bodies], np.int64))
        is_known = np.array([one.is_known for one in bodies], bool)
        bare = self.facts.nonstop[rows]
        start = np.where(self.imaged[rows] & (forms != Form.OPAQUE) & (is_known | bare), self.start[rows], -1)
        skip = np.maximum(self.records.column("SyskeyLen")[rows], 0)
        given = self.stop[rows], order, forms, skip, self.before[rows], bare
        cells = walk(self.buffer, start, *given)
        unread = (cells.bad >= 0) & (bare | self._is_complete(rows))
        if unread.any():  # bytes that only begin like columns are not columns
            bad = cells.bad
            cells = walk(self.buffer, np.where(unread, -1, start), *given)
            cells.bad = bad
        return cells

    def fill(self, batch: EventBatch, rows: Ints) -> None:
        """Fills the images of a batch, and adds the problems of decoding."""
        of = np.array([self.bodies[one].order == "big" for one in self.file[rows].tolist()], bool)
        names = ("before", "after", "key")
        for order in ("little", "big"):
            some = np.flatnonzero(of == (order == "big"))
            if not len(some):
                continue
            mine = rows[some]
            cells = self.cells(mine, order)
            put = self._large_objects(mine, cells)
            definitions: list[Definition | None] = [None] * len(self.versions)
            for number in np.unique(self.version[mine][self.version[mine] >= 0]).tolist():
                definitions[number] = self.versions[number].definition
            images = read_images(self.buffer, cells, self.version[mine], Tables(definitions), self.charset, order, put)
            for at, code, sentence in images.problems:
                batch.problem(int(some[at]), code, sentence)
            self._unwalked(batch, some, mine, cells)
            for name in names:
                batch.put(name, getattr(images, name), None if len(some) == len(rows) else some)

    def _is_complete(self, rows: Ints) -> Bools:
        """Records with completely printed data that no other record continues."""
        whole: Bools = self.stop[rows] - self.start[rows] >= self.records.length[rows]
        return whole & ~np.isin(rows, np.array(sorted(self.heads), np.int64))

    def _unwalked(self, batch: EventBatch, some: Ints, rows: Ints, cells: Cells) -> None:
        """Complete data that are not columns to their end, or whose byte order is unknown."""
        is_row = (
            self.imaged[rows] & (forms_of(self.facts.io[rows], 2) != Form.OPAQUE) & (self.stop[rows] > self.start[rows])
        )
        for at in np.flatnonzero(is_row).tolist():
            if not self.bodies[int(self.file[rows[at]])].is_known and not self.facts.nonstop[rows[at]]:
                batch.problem(int(some[at]), Problem.ROW_SIZE, UNKNOWN_ORDER)
        bare = self.facts.nonstop[rows]
        for at in np.flatnonzero((cells.bad >= 0) & (bare | self._is_complete(rows))).tolist():
            place = int(cells.bad[at] - self.start[rows[at]])
            batch.problem(int(some[at]), Problem.ROW_SIZE, not_columns(place, bool(bare[at])))

    def _large_objects(self, rows: Ints, cells: Cells) -> list[Put]:
        """The values of large objects, joined from fragments."""
        out: list[Put] = []
        with_lobs = [one for one, head in self.heads.items() if head.lobs and self.imaged[one]]
        for at in np.flatnonzero(np.isin(rows, np.array(with_lobs, np.int64))).tolist():
            record = int(rows[at])
            version = int(self.version[record])
            definition = self.versions[version].definition if version >= 0 else None
            waiting = _lob_columns(definition, cells, at)
            half = Half.BEFORE if self.before[record] else Half.AFTER
            for number, lob in enumerate(self.heads[record].lobs, 1):
                column = self._lob_column(lob, waiting)
                value = b"".join(map(self.records.data, lob.records))
                defined = definition.column(column) if definition is not None and column is not None else None
                text = _lob_text(
                    value, None if defined is None else defined.is_text_lob or not defined.is_lob, self.charset
                )
                name = f"lob{number}" if column is None else None
                out.append(Put(at, half, 0 if column is None else column, text, name))
        return out

    @staticmethod
    def _lob_column(lob: Chain, waiting: list[int]) -> int | None:
        if lob.column is None:
            return waiting.pop(0) if waiting else None
        if lob.column in waiting:
            waiting.remove(lob.column)
        return lob.column


def _of_columns(records: Records, record: int, order: Order, form: Form) -> bytes:
    """The data of a record from its separately printed columns. A column without bytes, or with truncated bytes, is
    left out. For a form of two images, columns of a key and before image make the before image."""
    columns = records.columns
    parts: dict[bool, list[bytes]] = {True: [], False: []}
    for row in np.flatnonzero(columns.record == record).tolist():
        length = int(columns.length[row])
        content = columns.buffer[columns.start[row] : columns.stop[row]].tobytes()
        if not content or not 0 <= length <= len(content):
            continue
        number, size = int(columns.number[row]).to_bytes(2, order), length.to_bytes(2, order)
        parts[bool(columns.half[row] != 2)].append(number + size + content[:length])
    before, after = b"".join(parts[True]), b"".join(parts[False])
    width = {Form.COLUMNS: 0, Form.OPAQUE: 0, Form.UNIFIED_4: 4}.get(form, 2)
    return (len(before).to_bytes(width, order) if width else b"") + before + after


def _lob_columns(definition: Definition | None, cells: Cells, at: int) -> list[int]:
    """The large object columns of a record that are not NULL."""
    if definition is None:
        return []
    there = slice(int(cells.offsets[at]), int(cells.offsets[at + 1]))
    return [
        index
        for index, null in zip(cells.index[there].tolist(), cells.is_null[there].tolist(), strict=True)
        if not null and (column := definition.column(index)) is not None and column.is_lob
    ]


def _lob_text(value: bytes, is_text: bool | None, charset: str) -> str:
    if is_text is False:
        return value.hex()
    try:
        text = value.decode(charset)
    except UnicodeDecodeError:
        return value.hex()
    if is_text is None and any(one < " " and one not in "\t\r\n" for one in text):
        return value.hex()
    return text
