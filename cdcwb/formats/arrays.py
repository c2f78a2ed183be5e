"""Arrow arrays for many records at once, without a Python object for each value: texts from matrices of characters and
slices of a buffer, maps of text to text, and the columns of events.

A string array of Arrow is bytes with the offsets of values. With alternating start and end offsets over a buffer, every
second slot of such an array is a requested value, and the slots between are skipped. Records whose maps have the same
keys make a group: the texts of all values are in a pool, and at the end every entry is gathered once, in record order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.formats.dissector import EVERYTHING, Wanted
from cdcwb.formats.kernels import Bools, Bytes, Ints
from cdcwb.model import Problem

# --- texts ------------------------------------------------------------------------------------------------------------


Offsets = npt.NDArray[np.integer]

SMALL: Final = 8192
_HEX_UPPER: Final = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), dtype=np.uint16)
_HEX_LOWER: Final = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), dtype=np.uint16)


def as_array(values: pa.Array) -> Bools:
    """Truth values as numpy has them; null is false."""
    found: Bools = (pc.fill_null(values, False) if values.null_count else values).to_numpy(zero_copy_only=False)
    return found


def labels(schemas: pa.Array, tables: pa.Array) -> pa.Array:
    """``schema.table``, or ``table`` without a schema; null without a table."""
    return pc.coalesce(pc.binary_join_element_wise(schemas, tables, "."), tables)


_Name = TypeVar("_Name", str, str | None)


def label(schema: str | None, table: _Name) -> _Name:
    """One of :func:`labels`."""
    return table if schema is None or table is None else f"{schema}.{table}"


def table_names(label: str) -> set[str]:
    """The names that a table is asked for by: its label, and what follows the first or the last dot of that."""
    return {label, label.partition(".")[2] or label, label.rpartition(".")[2] or label}


NamesOf = Callable[[str], set[str]]
"""Gives the names that something with a text, such as the path of a file, is asked for by."""


def are_named(texts: pa.Array, names: Collection[str], names_of: NamesOf = table_names) -> pa.BooleanArray:
    """Whether each text, such as a label, has one of some names; false for null."""
    coded = texts.dictionary_encode()
    named = [not names_of(text).isdisjoint(names) for text in coded.dictionary.to_pylist()]
    return pc.fill_null(pa.array(named, pa.bool_()).take(coded.indices), False)


def slices(buffer: Bytes, start: Offsets, end: Offsets, null: Bools | None = None) -> pa.Array:
    """The runs ``[start, end)`` of a buffer as a binary array; null where ``null`` is true.

    ``start`` must not descend, and no run may overlap the next. The buffer must be shorter than 2 GiB.
    """
    count = len(start)
    if count == 0:
        return pa.array([], type=pa.binary())
    nulls = null is not None and bool(null.any())
    # Offsets begin at 0: Arrow 18 sends an array with another first offset with the wrong bytes.
    first = start[0]
    data = np.ascontiguousarray(buffer[first : end[-1]])
    begins, ends = (edge.astype(np.int64, copy=False) - first for edge in (start, end))
    if not nulls and np.array_equal(ends[:-1], begins[1:]):  # nothing between them to skip
        offsets = np.append(begins, ends[-1]).astype(np.int32)
        return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return gather(pa.binary(), data, begins, ends, None if null is None else ~null)


def bitmap(valid: npt.NDArray[Any] | None) -> Any:
    """A validity bitmap, None if all are valid."""
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))


def gather(kind: pa.DataType, buffer: Bytes, start: Ints, end: Ints, valid: Bools | None) -> pa.Array:
    """The runs ``[start, end)`` of the buffer, copied out, as an array of strings or bytes. Runs may be in any order;
    those that are not ``valid`` are null."""
    count = len(start)
    offsets = np.empty(2 * count + 2, dtype=np.int32)
    # start in the lower, end in the upper half of eight bytes
    np.bitwise_or(end << 32, start, out=offsets[: 2 * count].view(np.int64))
    offsets[2 * count :] = len(buffer)
    return every_second(kind, buffer, offsets, valid)


def every_second(kind: pa.DataType, buffer: Bytes, offsets: npt.NDArray[np.int32], valid: Bools | None) -> pa.Array:
    """The runs of a buffer between alternating start and end offsets, after which its length follows once or more: an
    array over these has a requested run in every second slot."""
    count = len(offsets) // 2 - 1
    slots = pa.Array.from_buffers(kind, 2 * count + 1, [None, pa.py_buffer(offsets), pa.py_buffer(buffer)])
    return slots.take(pa.Array.from_buffers(pa.int32(), count, [bitmap(valid), _evens(count)]))


@lru_cache(maxsize=8)
def _evens(count: int) -> Any:
    return pa.py_buffer(np.arange(0, 2 * count, 2, dtype=np.int32))


def interleaved(columns: Sequence[pa.StringArray], index: Ints | None = None) -> pa.StringArray:
    """The texts of some rows (None: of all) of these columns, one row after the other."""
    if not columns:
        return pa.array([], pa.string())
    count = len(columns[0])
    rows = np.arange(count) if index is None else index
    chosen = (rows[:, None] + np.arange(len(columns)) * count).reshape(-1)
    return pa.concat_arrays(columns).take(pa.array(chosen))


def content_of(values: pa.Array) -> tuple[Bytes, Ints]:
    """The bytes of a binary or text array, concatenated, with the start of each, and the end."""
    if not len(values):
        return np.zeros(0, dtype=np.uint8), np.zeros(1, dtype=np.int64)
    _, edges, data = values.buffers()
    offsets = np.frombuffer(edges, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    buffer = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return buffer[offsets[0] : offsets[-1]], offsets - offsets[0]


def as_text(array: pa.Array) -> pa.Array:
    """A binary array of ASCII as a string array over the same bytes."""
    return array.view(pa.string())


def from_matrix(characters: Bytes, null: Bools | None = None) -> pa.Array:
    """One string per row of a matrix of ASCII characters; null where ``null`` is true."""
    edges = np.arange(len(characters) + 1) * characters.shape[1]
    return as_text(slices(characters.reshape(-1), edges[:-1], edges[1:], null))


def hex_digits(matrix: Bytes, *, upper: bool = False) -> Bytes:
    """Each row of bytes as twice as many hexadecimal digits."""
    pairs: Bytes = (_HEX_UPPER if upper else _HEX_LOWER)[matrix].view(np.uint8)
    return pairs


def hex_text(values: pa.BinaryArray, *, upper: bool = True) -> pa.StringArray:
    """Bytes as hexadecimal digits; null stays null."""
    values = packed(values.cast(pa.binary()))
    content, edges = content_of(values)
    digits = hex_digits(content.reshape(1, -1), upper=upper) if len(content) else content
    offsets = pa.py_buffer((edges * 2).astype(np.int32))
    buffers = [values.buffers()[0], offsets, pa.py_buffer(np.ascontiguousarray(digits))]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


def packed(array: pa.Array) -> pa.Array:
    """The same array, one of binary or text with offsets that begin at 0: Arrow 18 sends others with the wrong
    bytes."""
    return array if _begins_at_zero(array) else array.take(pa.array(np.arange(len(array))))


def _begins_at_zero(array: pa.Array) -> bool:
    """Whether the offsets of an array's values begin at 0."""
    has_offsets = pa.types.is_binary(array.type) or pa.types.is_string(array.type)
    offsets = array.buffers()[1] if len(array) and has_offsets else None
    return not array.offset and (offsets is None or not np.frombuffer(offsets, np.int32, 1)[0])


def bytes_of(buffer: Bytes, start: Ints, size: int) -> Bytes:
    """The ``size`` bytes from each start, as a matrix with a row for each."""
    if size == 0 or len(start) == 0:
        return np.empty((len(start), size), dtype=np.uint8)
    # one item of ``size`` bytes at every byte of the buffer, each overlapping the next
    items = np.ndarray((len(buffer) - size + 1,), dtype=f"V{size}", buffer=buffer, strides=(1,))
    there: Bytes = items[start].view(np.uint8).reshape(len(start), size)
    return there


def integers(values: Ints, null: Bools | None = None) -> pa.Array:
    """Whole numbers as decimal text; null where ``null`` is true."""
    return integer_texts(pa.array(values, mask=null))


def integer_texts(numbers: pa.Array) -> pa.Array:
    """Whole numbers as decimal text; null stays null."""
    least, most = pc.min_max(numbers).as_py().values()
    is_small = least is not None and least >= 0 and most < SMALL
    return small_numbers().take(numbers) if is_small else pc.cast(numbers, pa.string())


@cache  # made when first used: arrays that are made by an import would import pandas with them
def small_numbers() -> pa.Array:
    """The text of each number from 0 to ``SMALL``: a look-up is several times as fast as a conversion."""
    return pc.cast(pa.array(range(SMALL)), pa.string())


# --- maps -------------------------------------------------------------------------------------------------------------


class NumberedTexts(Protocol):
    """Texts by their numbers."""

    def gather(self, places: npt.NDArray[np.int32]) -> pa.StringArray:
        """The texts with these numbers."""
        ...


class TextPool:
    """A pool of concatenated texts. It begins with the decimal texts of small numbers, each at its own index."""

    def __init__(self) -> None:
        self._arrays: list[pa.Array] = [small_numbers()]
        self._ends = [SMALL]

    def add(self, texts: pa.Array) -> Ints:
        """Adds texts; returns their indexes."""
        first = self._ends[-1]
        if len(texts):
            self._arrays.append(texts)
            self._ends.append(first + len(texts))
        return np.arange(first, self._ends[-1])

    def add_integers(self, values: Ints) -> Ints:
        """The index of the decimal text of each number."""
        if len(values) and (int(values.min()) < 0 or int(values.max()) >= SMALL):
            return self.add(integers(values))
        return values

    def gather(self, places: npt.NDArray[np.int32]) -> pa.Array:
        """The texts at some indexes; without a copy if these are exactly texts that were added together."""
        if not len(places):
            return pa.array([], pa.string())
        first = bisect_right(self._ends, int(places.min()))
        last = bisect_right(self._ends, int(places.max()))
        start = self._ends[first - 1] if first else 0
        arrays = self._arrays[first : last + 1]
        texts = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
        if len(places) == len(texts) and _begins_at_zero(texts):
            every = np.arange(start, start + len(places), dtype=np.int32)
            if np.array_equal(places, every):
                return texts
        return texts.take(pa.array(places - np.int32(start)))


class MapBuilder:
    """The maps of ``count`` records, with values from ``pool``; null for a record without a group."""

    def __init__(self, count: int, pool: NumberedTexts) -> None:
        self._group_of = np.zeros(count, dtype=np.int64)
        self._pool = pool
        self._keys: list[list[bytes]] = [[]]
        self._members: list[tuple[Ints, npt.NDArray[np.integer]]] = []

    def group(self, records: Ints, keys: Sequence[str], values: npt.NDArray[np.integer]) -> None:
        """Records with these keys; ``values`` has a row for each, with the indexes of its values."""
        self._group_of[records] = len(self._keys)
        self._keys.append([key.encode() for key in keys])
        self._members.append((records, values))

    def build(self) -> pa.Array:
        """The maps, in record order."""
        sizes = np.array([len(keys) for keys in self._keys])
        offsets = np.zeros(len(self._group_of) + 1, dtype=np.int32)
        np.cumsum(sizes[self._group_of], out=offsets[1:])
        lengths, places = np.empty((2, int(offsets[-1])), dtype=np.int32)
        for keys, (records, values) in zip(self._keys[1:], self._members, strict=True):
            if keys and len(records):
                of_keys = np.array([[len(key) for key in keys]], dtype=np.int32)
                _rows_at(lengths, len(keys))[offsets[records]] = _rows_at(of_keys, len(keys))
                _rows_at(places, len(keys))[offsets[records]] = _rows_at(values.astype(np.int32), len(keys), len(keys))
        edges = pa.array(offsets, mask=np.append(self._group_of == 0, False))
        return pa.MapArray.from_arrays(edges, self._key_texts(lengths), self._pool.gather(places))

    def _key_texts(self, lengths: npt.NDArray[np.int32]) -> pa.Array:
        """The keys of all entries: those of a record are copied together, and split by their lengths."""
        groups = self._group_of[self._group_of > 0]
        joined = pa.array([b"".join(keys) for keys in self._keys], pa.binary()).take(pa.array(groups))
        offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
        np.cumsum(lengths, out=offsets[1:])
        return pa.Array.from_buffers(pa.string(), len(lengths), [None, pa.py_buffer(offsets), joined.buffers()[2]])


def _rows_at(numbers: npt.NDArray[np.int32], width: int, step: int = 1) -> npt.NDArray[np.void]:
    """Runs of ``width`` numbers as one item each, from every ``step``-th number on, to copy them together."""
    count = (numbers.size - width) // step + 1
    return np.ndarray((count,), dtype=f"V{4 * width}", buffer=numbers, strides=(4 * step,))


def maps_of(keys: Sequence[str], values: pa.StringArray, chosen: npt.NDArray[np.bool_]) -> pa.MapArray:
    """Maps with the same keys for the ``chosen`` records, null for the others; ``values`` are in record order."""
    count, size = int(np.count_nonzero(chosen)), len(keys)
    offsets = np.zeros(len(chosen) + 1, dtype=np.int32)
    np.cumsum(chosen * size, out=offsets[1:])
    texts = _repeated(tuple(keys), 1 << count.bit_length()).slice(0, count * size)
    return pa.MapArray.from_arrays(pa.array(offsets, mask=np.append(~chosen, False)), texts, values)


@lru_cache(maxsize=16)
def _repeated(keys: tuple[str, ...], count: int) -> pa.StringArray:
    """These keys so many times."""
    joined = "".join(keys).encode()
    ends = np.cumsum([len(key.encode()) for key in keys], dtype=np.int64)
    edges = np.zeros(count * len(keys) + 1, dtype=np.int32)
    edges[1:] = (np.arange(count)[:, None] * len(joined) + ends).reshape(-1)
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(joined * count)]
    return pa.Array.from_buffers(pa.string(), count * len(keys), buffers)


def lookup(maps: pa.MapArray, key: str) -> pa.Array:
    """The value of a key in each map, null for none; several times as fast as Arrow's where all have the same keys in
    the same order."""
    offsets = maps.offsets.to_numpy()
    size = int(offsets[1] - offsets[0]) if len(maps) else 0
    if size and (np.diff(offsets) == size).all():
        first = maps.keys.slice(offsets[0], size).to_pylist()
        at = pa.array(offsets[:-1] + (first.index(key) if key in first else 0))
        if pc.all(pc.equal(maps.keys.take(at), key)).as_py():
            return maps.items.take(at)
    return pc.map_lookup(maps, key, "first")


# --- events -----------------------------------------------------------------------------------------------------------


_MAPS: Final = ("key", "before", "after", "headers")


class EventBatch:
    """The events of ``count`` records, filled column by column for any of them; other values are null, and so are
    columns that are not ``wanted`` (None: all are). ``texts``: the values of maps if they are not in ``pool``."""

    def __init__(self, count: int, wanted: Wanted | None = None, texts: NumberedTexts | None = None) -> None:
        self.count = count
        self.wanted = wanted or EVERYTHING
        self.pool = TextPool()
        self.maps = {name: MapBuilder(count, texts or self.pool) for name in _MAPS}
        self._columns: dict[str, list[tuple[Ints | None, pa.Array]]] = {}
        self._problems: dict[int, list[dict[str, str]]] = {}

    def put(self, name: str, values: Any, index: Ints | None = None) -> None:
        """The values of a column (:func:`column_of`) for the records ``index`` (None: for all); of a map column, all of
        its maps."""
        count = self.count if index is None else len(index)
        if count and values is not None and self.wanted.needs(name):
            values = column_of(values, model.EVENTS.field(name).type, count)
            self._columns.setdefault(name, []).append((index, values))

    def texts(
        self,
        name: str,
        keys: Sequence[str],
        columns: Sequence[pa.StringArray],
        index: Ints,
        absent: Bools | None = None,
    ) -> None:
        """A map column: for the records ``index`` these keys, with an array of values for each; see :meth:`entries`."""
        if len(index) and self.wanted.needs(name):
            places = [self.pool.add(column) for column in columns]
            stacked = np.stack(places, axis=1) if places else np.empty((len(index), 0), np.int64)
            self.entries(name, keys, stacked, index, absent)

    def entries(self, name: str, keys: Sequence[str], places: Ints, index: Ints, absent: Bools | None) -> None:
        """A map column: for the records ``index`` these keys, with the indexes of their values in the pool, a row for
        each record. If ``absent`` (of the same shape) is true, the record lacks the key."""
        if not self.wanted.needs(name):
            return
        if absent is None or not absent.any():
            self.maps[name].group(index, keys, places)
            return
        packed = np.packbits(absent[:, absent.any(axis=0)], axis=1)  # of the keys that some records lack
        pattern = packed[:, 0].astype(np.int64)
        if packed.shape[1] > 1:  # which are sorted
            pattern = np.unique(packed, axis=0, return_inverse=True)[1].reshape(-1)
        for one in np.flatnonzero(np.bincount(pattern)).tolist():
            members = np.flatnonzero(pattern == one)
            there = np.flatnonzero(~absent[members[0]])
            named = [keys[column] for column in there.tolist()]
            self.maps[name].group(index[members], named, places[np.ix_(members, there)])

    def problem(self, record: int, code: Problem, detail: str) -> None:
        """A problem of one record."""
        self._problems.setdefault(record, []).append({"code": str(code), "detail": detail})

    def build(self, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """The batch, with exactly the columns of :data:`cdcwb.model.EVENTS`, or some of them."""
        schema = model.EVENTS if columns is None else pa.schema([model.EVENTS.field(name) for name in columns])
        arrays = []
        for field in schema:
            if field.name in self.maps and field.name not in self._columns:
                arrays.append(self.maps[field.name].build())
            elif field.name == "problems" and self._problems:
                arrays.append(pa.array([self._problems.get(record) for record in range(self.count)], field.type))
            else:
                arrays.append(_gathered(self._columns.get(field.name, ()), field.type, self.count))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _gathered(parts: Sequence[tuple[Ints | None, pa.Array]], kind: pa.DataType, count: int) -> pa.Array:
    """The values of all parts, each at its records; null for the others."""
    if len(parts) == 1 and (parts[0][0] is None or len(parts[0][1]) == count):
        return parts[0][1]  # a part's records ascend, so a part with all records needs no reordering
    places = np.full(count, -1, dtype=np.int64)
    first = 0
    for index, values in parts:
        places[slice(None) if index is None else index] = np.arange(first, first + len(values))
        first += len(values)
    if not first:
        return pa.nulls(count, kind)
    joined = pa.concat_arrays([values for _, values in parts])
    missing = places < 0
    return joined.take(pa.array(places, mask=missing) if missing.any() else pa.array(places))


def column_of(value: Any, kind: pa.DataType, count: int) -> pa.Array:
    """A column from an array, a list, or the value of all rows."""
    if isinstance(value, pa.Array):
        return value if value.type == kind else value.cast(kind)
    if value is None:
        return pa.nulls(count, kind)
    return pa.array(value, kind) if isinstance(value, list) else pa.repeat(pa.scalar(value, kind), count)


def columns_of(facts: Mapping[str, pa.StringArray]) -> dict[str, pa.StringArray]:
    """The facts of a container about its messages, by their names in headers; without facts that no message has."""
    return {f"kafka.{name}": texts for name, texts in facts.items() if texts.null_count < len(texts)}


def filled(schema: pa.Schema, columns: Mapping[str, Any], count: int) -> pa.RecordBatch:
    """``count`` rows with this schema: these columns (:func:`column_of`) as its types, null where there is none."""
    arrays = [column_of(columns.get(one.name), one.type, count) for one in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def columns_in(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """The columns of a batch by their names."""
    return dict(zip(batch.schema.names, batch.columns, strict=True))


# --- from rows ------------------------------------------------------------------------------------------------------


def batch_of(rows: Sequence[Mapping[str, Any]], given: Mapping[str, Any], wanted: Wanted) -> pa.RecordBatch:
    """A batch of :data:`cdcwb.model.EVENTS` from events as dictionaries; a column that a dictionary lacks is null, and
    so are columns that are not ``wanted``. ``given``: columns that are in no dictionary, each as an array or as the
    value of all events."""
    columns = {name: value for name, value in given.items() if wanted.needs(name)}
    for field in model.EVENTS:
        if field.name not in given and wanted.needs(field.name):
            values = [row.get(field.name) for row in rows]
            make = text_maps if field.name in _MAPS else text_array if pa.types.is_string(field.type) else list
            columns[field.name] = make(values)
    return filled(model.EVENTS, columns, len(rows))


def text_maps(maps: Sequence[Mapping[str, str | None] | None]) -> pa.MapArray:
    """Dictionaries of texts as maps; None is null."""
    offsets = np.zeros(len(maps) + 1, dtype=np.int32)
    np.cumsum([0 if one is None else len(one) for one in maps], out=offsets[1:])
    missing = np.array([*(one is None for one in maps), False])
    keys = text_array([key for one in maps if one for key in one])
    items = text_array([text for one in maps if one for text in one.values()])
    return pa.MapArray.from_arrays(pa.array(offsets, mask=missing), keys, items)


def text_array(texts: Sequence[str | None]) -> pa.StringArray:
    """Texts as an array; a lone surrogate becomes a question mark."""
    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:
        return pa.array([None if text is None else text.encode("utf-8", "replace").decode() for text in texts])
