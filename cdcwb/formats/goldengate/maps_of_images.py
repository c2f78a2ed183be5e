"""Images of many records as Arrow maps of column name to text, straight from their bodies.

Columns that are written alike are decoded together, whatever table they are of; their texts lie in one pool. A body's
columns stand together and in order already, so a map column is the texts gathered once, in that order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdcwb.formats.arrays.maps import TextPool
from cdcwb.formats.goldengate.body import Bools, Bytes, Cells, Half, Ints, Order, odd_indicator
from cdcwb.formats.goldengate.datatypes import GUESS, Coding
from cdcwb.formats.goldengate.definitions import Definition
from cdcwb.formats.goldengate.values import nullable_texts, texts
from cdcwb.model import Problem
from cdcwb.unique_names import unused_name

__all__ = ["CellTexts", "Images", "Put", "Tables", "build_images", "decode_cells"]

_INDEXES: Final = 1 << 16
_BY_INDEX: Final = re.compile(r"c[0-9]+")


class Tables:
    """The tables of a batch. A record's *group* is a place in ``definitions``; with None there, or group -1, it has no
    definition: its columns are ``c0``, ``c1`` … and its values are guessed."""

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
        """How columns are written, each way once."""
        self._key = np.array([*key, False])
        self._code = np.array([*code, 0], dtype=np.int16)

    @property
    def defined(self) -> int:
        """The slots of columns that have a definition are below this."""
        return len(self._names)

    @property
    def free(self) -> int:
        """Slots from here on, as many as there are indexes, are of no column."""
        return self.defined + _INDEXES

    def slots(self, group: Ints, index: Ints) -> Ints:
        """A number for each column that tells its table and name: its *slot*."""
        size = self._size[group]
        beyond = self.defined + index + _INDEXES * self._clash[group]  # the second block is the free one
        return np.where(index < size, self._base[group] + index, beyond)

    def is_key(self, slots: Ints) -> Bools:
        """Is the column a key column?"""
        there: Bools = self._key[np.minimum(slots, self.defined)]
        return there

    def codes(self, slots: Ints) -> npt.NDArray[np.int16]:
        """How the column is written: a place in ``codings``."""
        there: npt.NDArray[np.int16] = self._code[np.minimum(slots, self.defined)]
        return there

    def name(self, slot: int) -> str:
        """The name of a column. One beyond those of its definition is called by its index, made unique among them."""
        if slot < self.defined:
            return self._names[slot]
        clash, index = divmod(slot - self.defined, _INDEXES)
        return self._clashing[clash - 2].name(index) if clash else f"c{index}"

    def is_surplus(self, group: Ints, index: Ints) -> Bools:
        """Is there a definition, but not of this column?"""
        size = self._size[group]
        there: Bools = (size > 0) & (index >= size)
        return there


@dataclass(slots=True)
class CellTexts:
    """The texts of cells: ``place`` of each in ``pool`` (-1: bytes that are no value, which is in no image), ``kinds``
    (int8, of :class:`cdcwb.formats.goldengate.values.Kind`), ``slots`` (what it is called) and ``problems`` as (record,
    code, sentence), sorted by record."""

    pool: TextPool
    place: Ints
    kinds: npt.NDArray[np.int8]
    slots: Ints
    problems: list[tuple[int, Problem, str]] = field(default_factory=list)


def decode_cells(
    buffer: Bytes, cells: Cells, group: Ints, tables: Tables, charset: str = "utf-8", order: Order = "little"
) -> CellTexts:
    """All values of some bodies as text. ``group``: the table of each body. The other arguments are those of
    :func:`cdcwb.formats.goldengate.values.texts`."""
    groups = group[cells.row]
    slots = tables.slots(groups, cells.index)
    codes = tables.codes(slots)
    pool = TextPool()
    place = np.zeros(len(cells), dtype=np.int64)
    kinds = np.zeros(len(cells), dtype=np.int8)
    problems: list[tuple[int, Problem, str]] = []
    used = np.flatnonzero(np.bincount(codes, minlength=len(tables.codings)))
    for code in used:
        of_code = codes == code
        how = tables.codings[code]
        for chosen, bare in _by_indicators(cells, of_code):
            start, stop = cells.start[chosen], cells.stop[chosen]
            if bare:
                found = nullable_texts(buffer, start, stop, how, charset, order)
            else:
                found = texts(buffer, start, stop, cells.is_null[chosen], how, charset, order)
            place[chosen] = pool.add(found.array)
            kinds[chosen] = found.kinds
            problems += [(int(chosen[at]), code_of, sentence) for at, code_of, sentence in found.problems]
    place[cells.odd] = -1
    place[[cell for cell, _, _ in problems]] = -1
    for cell in np.flatnonzero(cells.odd):
        problems.append((int(cell), Problem.VALUE, odd_indicator(cells.indicator_text(buffer, int(cell)))))
    for cell in np.flatnonzero(tables.is_surplus(groups, cells.index)):
        problems.append((int(cell), Problem.ROW_SIZE, "the definition of the table has no column with this index"))
    problems.sort(key=lambda one: one[0])
    named = [
        (int(cells.row[cell]), code_of, f"{tables.name(int(slots[cell]))}: {sentence}")
        for cell, code_of, sentence in problems
    ]
    return CellTexts(pool, place, kinds, slots, named)


def _by_indicators(cells: Cells, of_code: Bools) -> list[tuple[Ints, bool]]:
    """Some cells: those behind their null indicator, and those that may begin with one."""
    if cells.bare is None:
        return [(np.flatnonzero(of_code), False)]
    both = (np.flatnonzero(of_code & ~cells.bare), False), (np.flatnonzero(of_code & cells.bare), True)
    return [one for one in both if len(one[0])]


@dataclass(frozen=True, slots=True)
class Put:
    """A value that an image gets from elsewhere: in place of that of column ``index``, or behind the others under
    ``name``, if there is one. ``text`` None is SQL NULL."""

    record: int
    half: Half
    index: int
    text: str | None
    name: str | None = None


class Images(NamedTuple):
    """Map columns of a batch, null where a record has no such image."""

    before: pa.Array
    after: pa.Array
    key: pa.Array


def build_images(
    count: int,
    cells: Cells,
    found: CellTexts,
    tables: Tables,
    group: Ints,
    wanted: Bools | None = None,
    put: Sequence[Put] = (),
) -> Images:
    """The images of ``count`` records from their cells and what :func:`decode_cells` found in them.

    A record has the images that it has a column of. Keys are in the order of the column indexes, none twice: of columns
    with one index the first counts. ``group``: the table of each record; ``wanted``: which records get images (None:
    all); ``put``: values from elsewhere. The key is taken from the before image, if that holds any key column, else
    from the after image.
    """
    entries = _entries(cells, found, wanted)
    more: dict[str, int] = {}
    if put:
        entries = _with_put(entries, found.pool, put, tables, group, more)
    entries = _in_order(entries)
    if (entries.place < 0).any():
        entries = entries.of(np.flatnonzero(entries.place >= 0))
    row, slot, place = entries.row, entries.slot, entries.place
    before = entries.half == Half.BEFORE
    is_key = tables.is_key(slot)
    key_before = np.zeros(count, dtype=bool)
    key_before[row[is_key & before]] = True
    maps = _Maps(count, found.pool, tables, more)
    return Images(
        maps.of(row, slot, place, before),
        maps.of(row, slot, place, ~before),
        maps.of(row, slot, place, is_key & (before == key_before[row])),
    )


@dataclass(frozen=True, slots=True)
class _Entries:
    """Columns that go into images."""

    row: Ints
    half: npt.NDArray[np.int8]
    index: Ints
    slot: Ints
    place: Ints

    def of(self, keep: Ints) -> _Entries:
        return _Entries(self.row[keep], self.half[keep], self.index[keep], self.slot[keep], self.place[keep])

    def behind(self, first: _Entries) -> _Entries:
        return _Entries(
            np.concatenate([first.row, self.row]),
            np.concatenate([first.half, self.half]),
            np.concatenate([first.index, self.index]),
            np.concatenate([first.slot, self.slot]),
            np.concatenate([first.place, self.place]),
        )


def _entries(cells: Cells, found: CellTexts, wanted: Bools | None) -> _Entries:
    entries = _Entries(cells.row, cells.half, cells.index, found.slots, found.place)
    return entries if wanted is None else entries.of(np.flatnonzero(wanted[cells.row]))


def _with_put(
    entries: _Entries, pool: TextPool, put: Sequence[Put], tables: Tables, group: Ints, more: dict[str, int]
) -> _Entries:
    """Values from elsewhere in front of the others, of which they replace those with the same index. ``more`` takes
    their names, each with its number among them."""
    row = np.array([one.record for one in put], dtype=np.int64)
    index = np.array([one.index for one in put], dtype=np.int64)
    slot = tables.slots(group[row], index)
    for at, one in enumerate(put):
        if one.name is not None:
            definition = tables.definitions[group[one.record]] if group[one.record] >= 0 else None
            index[at] = _INDEXES + at  # behind all columns
            name = one.name if definition is None else unused_name(one.name, definition.names)
            slot[at] = tables.free + more.setdefault(name, len(more))
    added = _Entries(
        row,
        np.array([one.half for one in put], dtype=np.int8),
        index,
        slot,
        pool.add(pa.array([one.text for one in put], pa.string())),
    )
    return entries.behind(added)


def _in_order(entries: _Entries) -> _Entries:
    """Sorted by record, half and index, the first of what is there twice; as they are if they are so already."""
    order = entries.row * 2 + entries.half << 32 | entries.index
    if bool((order[1:] > order[:-1]).all()):
        return entries
    by_order = np.argsort(order, kind="stable")
    order = order[by_order]
    once = np.append(True, order[1:] > order[:-1])[: len(order)]
    return entries.of(by_order[once])


class _Maps:
    """Makes map columns; ``more`` are the names of the first free slots."""

    def __init__(self, count: int, pool: TextPool, tables: Tables, more: Iterable[str]) -> None:
        self.count = count
        self.pool = pool
        self.tables = tables
        self.more = list(more)

    def of(self, row: Ints, slot: Ints, place: Ints, chosen: Bools) -> pa.Array:
        """The map of the chosen entries, which are sorted by record; null where a record has none."""
        if not chosen.all():
            row, slot, place = row[chosen], slot[chosen], place[chosen]
        sizes = np.bincount(row, minlength=self.count)
        offsets = np.zeros(self.count + 1, dtype=np.int32)
        np.cumsum(sizes, out=offsets[1:])
        return pa.MapArray.from_arrays(
            pa.array(offsets, mask=np.append(sizes == 0, False)),
            self._keys(slot),
            self.pool.gather(place.astype(np.int32)),
        )

    def _keys(self, slot: Ints) -> pa.Array:
        there = np.bincount(slot, minlength=1) > 0
        used = np.flatnonzero(there)
        names = pa.array([self._name(int(one)) for one in used], pa.string())
        places = np.cumsum(there, dtype=np.int32) - 1
        return names.take(pa.array(places[slot]))

    def _name(self, slot: int) -> str:
        more = slot - self.tables.free
        return self.more[more] if 0 <= more < len(self.more) else self.tables.name(slot)
