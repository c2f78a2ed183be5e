"""Decodes many values column by column, and the remaining ones one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdcwb.formats.avro.cursors import Bools, Bytes, Cursors, Ints
from cdcwb.formats.avro.readers import RecordReader, null_inside
from cdcwb.formats.avro.schema import Schema, select
from cdcwb.formats.avro.walk import Trouble, Walk

__all__ = ["Decoded", "Decoder"]

_ROWS: Final = 8192
"""The number of values that are decoded together, so that their cursors and numbers fit into the processor's caches."""

_BYTES: Final = 1 << 24
_FOUND: Final = 256  # values that are in memory as Python objects
_MOST: Final = (1 << 31) - (1 << 17)
"""Bytes of a value from which Arrow's offsets would overflow together with the padding."""


@dataclass(frozen=True, eq=False)
class Decoded:
    """Decoded values. ``column`` has a row for each with the wanted fields; null for a value that is not ``ok``: it is
    not a value of the schema, or bytes follow it. Fields of a null record are null. ``values`` and ``start`` are as
    given, ``walk`` walks through one."""

    column: pa.StructArray
    ok: Bools
    values: pa.BinaryArray = field(repr=False)
    start: Ints | None = field(repr=False)
    walk: Callable[[bytes, int], Walk] = field(repr=False)

    @cached_property
    def used(self) -> Ints:
        """The number of decoded bytes of each value from its start, including skipped ones; all of them if it is ok."""
        offsets = _offsets(self.values)
        used = np.diff(offsets)
        for row in np.flatnonzero(~self.ok):
            walk = self._walk(int(row))
            used[row] = walk.at if walk.arrived else walk.troubles[-1].offset
        return used

    def troubles(self, row: int) -> list[Trouble]:
        """The errors of a value, in order; empty if it is ok."""
        return [] if self.ok[row] else self._walk(row).troubles

    def reason(self, row: int) -> str:
        """The first error of a value, as a sentence: expected, actual, and the byte of the value. Empty if it is ok."""
        troubles = self.troubles(row)
        return str(troubles[0]) if troubles else ""

    def _walk(self, row: int) -> Walk:
        return self.walk(self.values[row].as_py(), 0 if self.start is None else int(self.start[row]))


class Decoder:
    """Decodes values of one schema.

    ``fields``: the requested fields of the top record, or of a record in it (``data.salary``); None: all. The others
    are skipped: only the bytes that give their length are checked. Raises OptionError for an unknown field. Can be
    pickled.
    """

    def __init__(self, schema: Schema, fields: tuple[str, ...] | None = None) -> None:
        self.schema = schema
        self.fields = fields
        self._wanted = None if fields is None else select(schema.root, fields)
        self._reader = RecordReader(schema.root, self._wanted)

    def __reduce__(self) -> tuple[Any, ...]:
        return Decoder, (self.schema, self.fields)

    @property
    def type(self) -> pa.StructType:
        """The type of :attr:`Decoded.column`."""
        return self._reader.type

    def decode(self, values: pa.BinaryArray, start: Ints | None = None) -> Decoded:
        """Decodes values, none of which is null; ``start``: bytes of each to skip first."""
        if values.null_count:
            raise ValueError(f"expected values without nulls, found {values.null_count}")
        offsets = _offsets(values)
        ends = offsets[1:]
        begins = offsets[:-1] if start is None else offsets[:-1] + start
        ok = begins <= ends
        odd = np.zeros(len(values), dtype=np.bool_)
        data = values.buffers()[2]
        buffer: Bytes = np.empty(0, dtype=np.uint8) if data is None else np.frombuffer(data, dtype=np.uint8)
        chunks = []
        scratch: Bytes | None = None
        for first, last in _stretches(offsets):
            low, high = int(offsets[first]), int(offsets[last])
            if high - low > _MOST:  # a single value
                ok[first], odd[first] = False, ok[first]
                chunks.append(pa.nulls(1, self.type))
                continue
            room = Cursors.room_for(high - low, self.schema.root.blank)
            if scratch is None or len(scratch) < room:
                scratch = np.empty(room, dtype=np.uint8)
            starts, stops = begins[first:last] - low, ends[first:last] - low
            cursors = Cursors.over(buffer[low:high], np.minimum(starts, stops), stops, self.schema.root.blank, scratch)
            chunks.append(self._reader.read(cursors, None))
            ended = (cursors.at == cursors.end) if cursors.live is None else (cursors.at == cursors.end) & cursors.live
            ok[first:last] &= ended
            odd[first:last] = cursors.odd & (starts <= stops)
        column = pa.concat_arrays(chunks) if len(chunks) != 1 else chunks[0]
        if not ok.all():
            column = self._with_odd(column, values, start, ok, odd)
        return Decoded(column, ok, values, start, self._walk)

    def _with_odd(
        self, column: pa.StructArray, values: pa.BinaryArray, start: Ints | None, ok: Bools, odd: Bools
    ) -> pa.StructArray:
        """The column with the rows of the slow path decoded one by one, and null for those that are not ok."""
        chunks = [column]
        found: list[Any] = []
        next_place = len(column)
        places = np.arange(len(values))
        for row in np.flatnonzero(odd):
            walk = Walk(values[int(row)].as_py(), 0 if start is None else int(start[row]), wanted=self._wanted)
            one = walk.record(self.schema.root)
            if one is not None:
                ok[row] = True
                places[row] = next_place
                next_place += 1
                found.append(one)
                if len(found) == _FOUND:
                    chunks.append(null_inside(pa.array(found, self.type)))
                    found = []
        if next_place > len(column):
            column = pa.concat_arrays([*chunks, null_inside(pa.array(found, self.type))])
        return column.take(pa.array(places, mask=~ok))

    def _walk(self, value: bytes, start: int) -> Walk:
        walk = Walk(value, start, wanted=self._wanted)
        walk.record(self.schema.root)
        return walk


def _offsets(values: pa.BinaryArray) -> Ints:
    """The offset of each value in their buffer, and the end of the last one."""
    if not len(values):
        return np.zeros(1, dtype=np.int64)
    offsets = np.frombuffer(values.buffers()[1], dtype=np.int32)
    return offsets[values.offset : values.offset + len(values) + 1].astype(np.int64)


def _stretches(offsets: Ints) -> Iterator[tuple[int, int]]:
    """Values ``[first, last)`` that are decoded together: a limited number of rows and bytes, but at least one."""
    first, count = 0, len(offsets) - 1
    while first < count:
        last = int(np.searchsorted(offsets, offsets[first] + _BYTES, side="right")) - 1
        last = min(max(last, first + 1), first + _ROWS, count)
        yield first, last
        first = last
    if not count:
        yield 0, 0
