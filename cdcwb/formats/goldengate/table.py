"""Row images of many records: as Arrow maps of column name to text, decoded directly from their bodies, and as typed
columns of one table (docs/formats/goldengate.md §4). Columns with the same coding are decoded together, for all tables;
their texts are in one pool. A body's columns are adjacent and in order, so a map column gathers the texts once, in that
order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import EventBatch, TextPool
from cdcwb.formats.bitmask import parse
from cdcwb.formats.dissector import TableRequest, Wanted
from cdcwb.formats.goldengate.assignment import KINDS, OPERATIONS, Assigned
from cdcwb.formats.goldengate.decode import Bools, Bytes, Ints, Order
from cdcwb.formats.goldengate.decode.bodies import (
    UNKNOWN_ORDER,
    Cells,
    Form,
    Half,
    body_of_columns,
    not_columns,
    odd_indicator,
    walk,
)
from cdcwb.formats.goldengate.decode.definitions import ColumnDef, Definition
from cdcwb.formats.goldengate.decode.values import texts
from cdcwb.formats.goldengate.exports import ColumnFacts
from cdcwb.formats.goldengate.layout import GUESS, GUESS_FIXED, Coding, How
from cdcwb.formats.goldengate.plan import FileEntry, Plan
from cdcwb.formats.goldengate.plan.trails import Version
from cdcwb.formats.goldengate.plan.transactions import forms_of
from cdcwb.formats.requests import FROM_EVENTS, chosen_columns, images_of, no_table, request_schema, versions_of
from cdcwb.formats.text_values import cast_each
from cdcwb.model import Kind, Operation, Problem
from cdcwb.words import unused_name

__all__ = [
    "Bodies",
    "Images",
    "Put",
    "Tables",
    "arrow_type",
    "column_types",
    "read_images",
    "typed_rows",
    "typed_schema",
    "typed_texts",
    "wanted_for",
]


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


_IMAGED: Final = np.isin(KINDS, [str(kind) for kind in (Kind.CHANGE, Kind.BEFORE, Kind.AFTER)])
_DELETE: Final = OPERATIONS.index(str(Operation.DELETE))
_BEFORE: Final = KINDS.index(str(Kind.BEFORE))


class Bodies:
    """The bodies of all records of a part: ``buffer[start:stop]``, -1 if not printed."""

    def __init__(self, given: Assigned, file: FileEntry, plan: Plan, charset: str) -> None:
        self.given = given
        self.file = file
        self.plan = plan
        self.charset = charset
        definitions: list[Definition | None] = [None] * len(plan.versions)
        for number in np.unique(given.version[given.version >= 0]).tolist():  # a trail has many files with versions
            definitions[number] = plan.versions[number].definition
        self.tables = Tables(definitions)
        self.buffer, self.start, self.stop = self._joined()

    def _joined(self) -> tuple[Bytes, Ints, Ints]:
        """Bodies from the hex, joined from fragments, or made from separately printed columns."""
        given, records = self.given, self.given.records
        start, stop = records.body_at[:, 0].copy(), records.body_at[:, 1].copy()
        more: list[bytes] = []
        at = len(records.bytes)
        made: dict[int, bytes] = {}
        for index, printed in records.extras.items():
            if printed.columns and any(one.data is not None for one in printed.columns):
                form = Form(int(forms_of(given.marks, self.file.prefix, np.array([index]))[0]))
                if form is Form.OPAQUE:
                    continue
                bare = bool(self._bare(np.array([index]))[0])
                body, _ = body_of_columns(printed.columns, "big" if bare else self.order, form)
                if len(body) > stop[index] - start[index]:
                    made[index] = body
        for index, head in given.heads.items():
            if head.body:
                own = made.get(index) or records.bytes[start[index] : stop[index]].tobytes()
                made[index] = b"".join([own, *(piece.body for piece in head.body)])
        for index, body in made.items():
            more.append(body)
            start[index], stop[index] = at, at + len(body)
            at += len(body)
        if not more:
            return records.bytes, start, stop
        joined = np.frombuffer(b"".join(more), dtype=np.uint8)
        return np.concatenate([records.bytes, joined]), start, stop

    @property
    def order(self) -> Any:
        """Byte order of the file's bodies."""
        return self.file.byte_order

    def cells(self, rows: Ints) -> Cells:
        """The columns of some records; those without images have none."""
        given = self.given
        forms = forms_of(given.marks, self.file.prefix, rows)
        start = np.where(self._with_columns(rows), self.start[rows], -1)
        skip = np.maximum(given.records.column("SyskeyLen")[rows], 0)
        before = (given.kind[rows] == _BEFORE) | (given.operation[rows] == _DELETE)
        stop, bare = self.stop[rows], self._bare(rows)
        if not self.file.order_known:
            start[~bare] = -1
        cells = walk(self.buffer, start, stop, self.order, forms, skip, before, bare)
        unread = (cells.bad >= 0) & (bare | self._is_complete(rows))
        if unread.any():  # bytes that only begin like columns are not columns
            bad = cells.bad
            cells = walk(self.buffer, np.where(unread, -1, start), stop, self.order, forms, skip, before, bare)
            cells.bad = bad
        return cells

    def _with_columns(self, rows: Ints) -> Bools:
        """Records whose data are one or two images."""
        forms = forms_of(self.given.marks, self.file.prefix, rows)
        there: Bools = _IMAGED[self.given.kind[rows]] & (forms != Form.OPAQUE)
        return there

    def _bare(self, rows: Ints) -> Bools:
        """Records whose data are read as those of a NonStop."""
        bare: Bools = self.given.marks.system[rows] >= self.file.bare_from
        return bare

    def _is_complete(self, rows: Ints) -> Bools:
        """Records with completely printed data that no other record continues."""
        heads = np.array(sorted(self.given.heads), dtype=np.int64)
        whole: Bools = self.stop[rows] - self.start[rows] >= self.given.records.length[rows]
        return whole & ~np.isin(rows, heads)

    def images(self, batch: EventBatch, rows: Ints) -> None:
        """Fills the row images of a batch, and adds the problems of decoding."""
        given = self.given
        cells = self.cells(rows)
        put = self._large_objects(rows, cells)
        images = read_images(self.buffer, cells, given.version[rows], self.tables, self.charset, self.order, put)
        for at, code, sentence in images.problems:
            batch.problem(at, code, sentence)
        self._unwalked(batch, rows, cells)
        for name in ("before", "after", "key"):
            batch.put(name, getattr(images, name))

    def _unwalked(self, batch: EventBatch, rows: Ints, cells: Cells) -> None:
        """Bodies that are not columns to their end, or whose byte order is unknown."""
        bare = self._bare(rows)
        if not self.file.order_known:
            with_data = self._with_columns(rows) & (self.stop[rows] > self.start[rows])
            for at in np.flatnonzero(with_data & ~bare).tolist():
                batch.problem(at, Problem.ROW_SIZE, UNKNOWN_ORDER)
        for at in np.flatnonzero((cells.bad >= 0) & (bare | self._is_complete(rows))).tolist():
            place = int(cells.bad[at] - self.start[rows[at]])
            batch.problem(at, Problem.ROW_SIZE, not_columns(place, bool(bare[at])))

    def _large_objects(self, rows: Ints, cells: Cells) -> list[Put]:
        """The values of large objects, joined from fragments."""
        out: list[Put] = []
        heads = self.given.heads
        if not heads:
            return out
        wanted = np.flatnonzero(np.isin(rows, np.array(sorted(heads), dtype=np.int64)) & _IMAGED[self.given.kind[rows]])
        for at in wanted.tolist():
            head = heads[int(rows[at])]
            if not head.lobs:
                continue
            version = int(self.given.version[rows[at]])
            definition = self.plan.versions[version].definition if version >= 0 else None
            waiting = self._lob_columns(definition, cells, at)
            half = Half.BEFORE if self.given.kind[rows[at]] == _BEFORE else Half.AFTER
            for number, pieces in enumerate(head.lobs, 1):
                told = next((column for piece in pieces if (column := piece.column) is not None), None)
                if told is None:
                    told = waiting.pop(0) if waiting else None
                elif told in waiting:
                    waiting.remove(told)
                value = b"".join(piece.body for piece in pieces)
                defined = definition.column(told) if definition is not None and told is not None else None
                text = self._lob_text(value, None if defined is None else defined.is_text_lob or not defined.is_lob)
                out.append(Put(at, half, 0, text, f"lob{number}") if told is None else Put(at, half, told, text))
        return out

    def _lob_columns(self, definition: Definition | None, cells: Cells, at: int) -> list[int]:
        """The large object columns of a record that are not NULL."""
        if definition is None:
            return []
        there = slice(int(cells.offsets[at]), int(cells.offsets[at + 1]))
        return [
            index
            for index, null in zip(cells.index[there].tolist(), cells.is_null[there].tolist(), strict=True)
            if not null and (column := definition.column(index)) is not None and column.is_lob
        ]

    def _lob_text(self, value: bytes, is_text: bool | None) -> str:
        if is_text is False:
            return value.hex()
        try:
            text = value.decode(self.charset)
        except UnicodeDecodeError:
            return value.hex()
        if is_text is None and any(one < " " and one not in "\t\r\n" for one in text):
            return value.hex()
        return text


_DATE, _CLOCK = 10, 19  # characters of a date, and of one with its time
_MICROS: Final = 26  # characters up to the sixth digit of the fraction
_DT_YEAR, _DT_DAY, _DT_HOUR = 0, 2, 3


def arrow_type(column: ColumnDef | None) -> pa.DataType:
    """The type of a column in typed tables.

    Numbers in text form stay text, as their precision is unknown; so do times of day, intervals, times with a zone, and
    columns without a definition.
    """
    if column is None:
        return pa.string()
    how = column.coding
    if how.how is How.INTEGER:
        if how.scale > 0:
            return pa.decimal128(max({2: 5, 4: 10}.get(how.size, 20), how.scale), how.scale)
        if how.scale < 0 or (how.size == 8 and not how.signed):
            return pa.decimal128(38, 0)
        return pa.int32() if how.size < 4 or (how.size == 4 and how.signed) else pa.int64()
    if how.how is How.FLOAT:
        return pa.float32() if how.size == 4 else pa.float64()
    if how.how is How.MOMENT and column.data_type in (191, 192) and column.most_significant_dt == _DT_YEAR:
        if column.external_length == _DATE or (0 < column.least_significant_dt <= _DT_DAY):
            return pa.date32()
        if column.least_significant_dt >= _DT_HOUR and column.external_length <= _CLOCK + 10:
            return pa.timestamp("us")
        return pa.string()
    if how.how is How.BINARY or (how.how is How.LOB and not column.is_text_lob):
        return pa.binary()
    return pa.string()


_ROWS: Final = frozenset(str(kind) for kind in (Kind.CHANGE, Kind.BEFORE, Kind.AFTER))

_OF_ROWS: Final = [str(one) for one in (Operation.INSERT, Operation.UPDATE, Operation.DELETE)]


def types_of(version: Version) -> dict[str, pa.DataType]:
    """The types of a version's columns; text if unknown."""
    definition = version.definition
    if definition is not None:
        pairs = zip(definition.names, definition.columns, strict=True)
        return {name: arrow_type(column) for name, column in pairs}
    if version.types is not None:
        return {name: ColumnFacts.from_list(facts).arrow_type for name, facts in version.types.items()}
    return {name: pa.string() for name in version.names}


def column_types(plan: Plan, request: TableRequest) -> dict[str, pa.DataType]:
    """The requested columns. One whose type differs between versions is text. Raises CaptureError, which lists the
    known ones, for an unknown table or column."""
    versions = [one for one in plan.versions if request.name in (one.table, one.full_name)]
    if not versions:
        raise no_table(request, (one.full_name for one in plan.versions))
    types: dict[str, pa.DataType] = {}
    for version in versions_of(versions, request):
        for name, kind in types_of(version).items():
            types[name] = kind if types.get(name, kind) == kind else pa.string()
    return chosen_columns(types, request)


def typed_schema(plan: Plan, request: TableRequest) -> pa.Schema:
    """The columns of :func:`typed_rows`: the location of the row, then ``before`` and ``after`` as structures of typed
    columns."""
    return request_schema(column_types(plan, request), request)


def wanted_for(request: TableRequest) -> Wanted:
    """The events of a table's rows."""
    return Wanted(kinds=_ROWS, tables=frozenset({request.name}))


def typed_rows(
    events: Iterable[pa.RecordBatch], request: TableRequest, types: Mapping[str, pa.DataType]
) -> Iterator[pa.RecordBatch]:
    """The rows of one table from its events; null if a text is not a value of its column's type, and if a column is not
    in the image."""
    schema = request_schema(types, request)
    for every in events:
        batch = every.filter(pc.is_in(every.column("operation"), value_set=pa.array(_OF_ROWS)))
        arrays = [batch.column(name) for name in FROM_EVENTS]
        arrays += [_struct(batch.column(name), types) for name in images_of(request)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _struct(maps: pa.MapArray, types: Mapping[str, pa.DataType]) -> pa.StructArray:
    offsets = maps.offsets.to_numpy()
    row = np.repeat(np.arange(len(maps)), np.diff(offsets))
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    keys, items = maps.keys.slice(first, count).dictionary_encode(), maps.items.slice(first, count)
    codes = keys.indices.to_numpy(zero_copy_only=False)
    known = {name: code for code, name in enumerate(keys.dictionary.to_pylist())}
    columns = []
    for name, kind in types.items():
        there = np.flatnonzero(codes == known.get(name, -1))
        places = np.full(len(maps), -1, dtype=np.int64)
        places[row[there]] = there
        columns.append(typed_texts(items.take(pa.array(places, mask=places < 0)), kind))
    fields = [pa.field(name, kind) for name, kind in types.items()]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=pc.is_null(maps))


def typed_texts(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Texts of values as values of a type; null if invalid. Dates in Logdump's form, with a colon between day and hour,
    are truncated to the digits of the type."""
    if pa.types.is_string(kind):
        return texts
    if pa.types.is_binary(kind):
        return parse(texts)[0]
    if pa.types.is_temporal(kind):
        day = pc.utf8_slice_codeunits(texts, 0, _DATE)
        clock = pc.utf8_slice_codeunits(texts, _DATE + 1, _DATE if pa.types.is_date(kind) else _MICROS)
        texts = pc.if_else(pc.equal(clock, ""), day, pc.binary_join_element_wise(day, clock, " "))
    return cast_each(texts, kind)
