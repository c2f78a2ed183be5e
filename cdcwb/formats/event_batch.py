"""Builds ``events`` of one batch of records, column by column from groups of records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdcwb import model
from cdcwb.formats.arrays.maps import Ints, MapBuilder, TextPool
from cdcwb.formats.dissector import EVERYTHING, Wanted
from cdcwb.model import Problem

__all__ = ["EventBatch", "batch_of", "columns_of", "text_array", "text_maps"]

Bools = npt.NDArray[np.bool_]

_MAPS: Final = ("key", "before", "after", "headers")


class EventBatch:
    """The events of ``count`` records, filled column by column for any of them; other values are null, and so are
    columns that are not ``wanted`` (None: all are)."""

    def __init__(self, count: int, wanted: Wanted | None = None) -> None:
        self.count = count
        self.wanted = wanted or EVERYTHING
        self.pool = TextPool()
        self.maps = {name: MapBuilder(count, self.pool) for name in _MAPS}
        self._columns: dict[str, list[tuple[Ints | None, pa.Array]]] = {}
        self._problems: dict[int, list[dict[str, str]]] = {}

    def put(self, name: str, values: pa.Array, index: Ints | None = None) -> None:
        """The values of a column for the records ``index`` (None: for all); of a map column, all of its maps."""
        if len(values) and self.wanted.needs(name):
            self._columns.setdefault(name, []).append((index, values))

    def constant(self, name: str, value: Any, index: Ints | None = None) -> None:
        """One value of a column for the records ``index`` (None: for all)."""
        if value is not None and self.wanted.needs(name):
            count = self.count if index is None else len(index)
            self.put(name, pa.repeat(pa.scalar(value, model.EVENTS.field(name).type), count), index)

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
        patterns, pattern = np.unique(np.packbits(absent, axis=1), axis=0, return_inverse=True)
        pattern = pattern.reshape(-1)
        for at in range(len(patterns)):
            members = np.flatnonzero(pattern == at)
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
            elif field.name == "problems":
                arrays.append(self._all_problems(field.type))
            else:
                arrays.append(_gathered(self._columns.get(field.name, ()), field.type, self.count))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _all_problems(self, kind: pa.DataType) -> pa.Array:
        if not self._problems:
            return pa.nulls(self.count, kind)
        return pa.array([self._problems.get(record) for record in range(self.count)], kind)


def _gathered(parts: Sequence[tuple[Ints | None, pa.Array]], kind: pa.DataType, count: int) -> pa.Array:
    """The values of all parts, each at its records; null for the others."""
    if len(parts) == 1 and (parts[0][0] is None or len(parts[0][1]) == count):
        return _typed(parts[0][1], kind)  # a part's records ascend, so a part with all records needs no reordering
    places = np.full(count, -1, dtype=np.int64)
    first = 0
    for index, values in parts:
        places[slice(None) if index is None else index] = np.arange(first, first + len(values))
        first += len(values)
    if not first:
        return pa.nulls(count, kind)
    joined = pa.concat_arrays([_typed(values, kind) for _, values in parts])
    missing = places < 0
    return joined.take(pa.array(places, mask=missing) if missing.any() else pa.array(places))


def _typed(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values if values.type == kind else values.cast(kind)


def columns_of(facts: Mapping[str, pa.StringArray]) -> dict[str, pa.StringArray]:
    """The facts of a container about its messages, by their names in headers; without facts that no message has."""
    return {f"kafka.{name}": texts for name, texts in facts.items() if texts.null_count < len(texts)}


# --- from rows --------------------------------------------------------------------------------------------------------


def batch_of(rows: Sequence[Mapping[str, Any]], given: Mapping[str, Any], wanted: Wanted) -> pa.RecordBatch:
    """A batch of :data:`cdcwb.model.EVENTS` from events as dictionaries; a column that a dictionary lacks is null, and
    so are columns that are not ``wanted``. ``given``: columns that are in no dictionary, each as an array or as the
    value of all events."""
    arrays: list[pa.Array] = []
    for field in model.EVENTS:
        name, kind = field.name, field.type
        if not wanted.needs(name):
            arrays.append(pa.nulls(len(rows), kind))
        elif name in given:
            value = given[name]
            is_array = isinstance(value, pa.Array)
            arrays.append(_typed(value, kind) if is_array else pa.repeat(pa.scalar(value, kind), len(rows)))
        else:
            values = [row.get(name) for row in rows]
            make = text_maps if name in _MAPS else text_array if pa.types.is_string(kind) else None
            arrays.append(pa.array(values, kind) if make is None else make(values))
    return pa.RecordBatch.from_arrays(arrays, schema=model.EVENTS)


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
