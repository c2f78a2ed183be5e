"""Avro values without a container as Arrow columns.

One compiled loop walks over every value along the program of its schema, which gives the numbers and spans of each
leaf, from which :class:`Decoder` makes columns. What is wrong with a value is found by reading it once more
(:mod:`cdcwb.formats.containers.avro_tree`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import Bools, Bytes, Ints, content_of
from cdcwb.formats.containers.avro_schema import (
    CALL,
    COUNT,
    FIXED,
    JUMP,
    NESTED,
    NEXT,
    NUMBER,
    RUN,
    SPANNED,
    UNION,
    WORD,
    Node,
    Schema,
    restricted,
)  # fmt: skip
from cdcwb.formats.containers.avro_tree import LONGEST, MOST_BLANK, MOST_NESTED, AvroReader, Trouble, read_value
from cdcwb.formats.containers.avro_values import bitmap, leaf_array
from cdcwb.formats.kernels import kernel, read_only

__all__ = ["AvroValues", "Decoder", "record_ends"]

Int: TypeAlias = Any
"""A whole number: of Python in an interpreted kernel, of 64 bits in a compiled one."""

Spans = npt.NDArray[np.int32]

# --- the loop ---------------------------------------------------------------------------------------------------------

_HIGHEST: Final = (1 << 63) - 1


@kernel
def _number(data: Bytes, at: Int, stop: Int) -> tuple[Int, Int]:
    """The varint at an offset, zigzag-decoded, and the offset after it; -1 if it is none."""
    bits = np.int64(0)
    for place in range(LONGEST):
        if at + place >= stop:
            return bits, -1
        byte = np.int64(data[at + place])
        if place == LONGEST - 1 and 1 < byte < 128:
            return bits, -1
        bits |= (byte & 127) << (7 * place)
        if byte < 128:
            return ((bits >> 1) & _HIGHEST) ^ -(bits & 1), at + place + 1
    return bits, -1


@kernel
def _word(data: Bytes, at: Int, size: Int) -> Int:
    """The little-endian number in at most eight bytes."""
    number = np.int64(0)
    for place in range(size):
        number |= np.int64(data[at + place]) << (8 * place)
    return number


@kernel
def _unscaled(data: Bytes, start: Int, end: Int) -> Int:
    """The big-endian number in two's complement in at most eight bytes; of none or more bytes 0."""
    number = np.int64(0)
    if 0 < end - start <= 8:
        number = -(np.int64(data[start]) >> 7)
        for place in range(start, end):
            number = (number << 8) | np.int64(data[place])
    return number


@kernel
def _walk(
    data: Bytes, starts: Ints, stops: Ints, is_chained: Int, code: Ints, numbers: Ints, members: Bytes, spans: Spans,
    ok: Bools, frames: Ints,
) -> None:  # fmt: skip
    """Walks over values ``[starts, stops)`` that are ``ok``, or over values that follow each other (``is_chained``),
    whose starts it writes; what is no value, or has bytes after it, is not ``ok``.

    ``numbers``, ``members`` of unions and ``spans`` get what is read for a slot and a value. ``frames`` are the levels:
    the CALL, the items left in the block, the start of the nested value, the start of the item.
    """
    for row in range(len(stops)):
        if not ok[row]:
            continue
        at: Int = starts[row]
        stop: Int = stops[row]
        here, top, blank, is_good = 0, 1, MOST_BLANK, False
        number: Int = np.int64(0)
        while True:
            operation = code[here, 0]
            if operation == JUMP:
                here = code[here, 1]
                continue
            slot = code[here, 3]
            if operation <= COUNT:
                if at < stop and data[at] < 128:
                    bits = np.int64(data[at])
                    number, at = (bits >> 1) ^ -(bits & 1), at + 1
                else:
                    number, at = _number(data, at, stop)
                    if at < 0:
                        break
            after = here + 1
            if operation == UNION:
                if number < 0 or number >= code[here, 1]:
                    break
                after = code[here + 1 + number, 1]
                if slot >= 0:
                    members[slot + row] = number
            elif operation == NUMBER:
                if code[here, 2] >= 0:
                    numbers[code[here, 2] + row] = number
            elif operation in (RUN, FIXED, WORD):
                first = at
                size = number if operation == RUN else code[here, 1]
                if size < 0 or size > stop - at:
                    break
                at += size
                if operation == WORD:
                    if code[here, 2] >= 0:
                        numbers[code[here, 2] + row] = _word(data, first, size)
                else:
                    if slot >= 0:
                        spans[slot + row, 0] = first
                        spans[slot + row, 1] = at
                    if code[here, 2] >= 0:
                        numbers[code[here, 2] + row] = _unscaled(data, first, at)
            elif operation == COUNT:
                if number < 0:
                    _, at = _number(data, at, stop)
                    if at < 0:
                        break
                frames[top - 1, 1] = ~number if number < 0 else number - 1
                frames[top - 1, 3] = at
                if number == 0:
                    after = code[here, 1]
            elif operation == CALL:
                if top == MOST_NESTED:
                    break
                frames[top, 0] = here
                frames[top, 2] = at
                top += 1
                after = code[here, 1]
            elif operation == NEXT:
                if at == frames[top - 1, 3]:
                    blank -= 1
                    if blank < 0:
                        break
                after = code[here, 1]
                if frames[top - 1, 1]:
                    frames[top - 1, 1] -= 1
                    frames[top - 1, 3] = at
                    after += 1
            else:  # RETURN
                top -= 1
                if top == 0:
                    is_good = is_chained or at == stop
                    break
                here = frames[top, 0]
                if code[here, 3] >= 0:
                    spans[code[here, 3] + row, 0] = frames[top, 2]
                    spans[code[here, 3] + row, 1] = at
                after = here + 1
            here = after
        if is_chained and is_good:
            starts[row + 1] = at
        elif not is_good:
            ok[row] = False
            if is_chained:
                break


# --- columns ----------------------------------------------------------------------------------------------------------

_ROWS: Final = 8192
"""The number of values that are decoded together, so that their numbers and spans fit into the processor's caches."""
_CELLS: Final = 1 << 21
_BYTES: Final = 1 << 23


@dataclass(frozen=True, eq=False)
class AvroValues:
    """Decoded values. ``column`` has a row for each with the wanted fields; null for a value that is not ``ok``: it is
    not a value of the schema, or bytes follow it. Fields of a null record are null, unless it is in an array or a map.
    ``remarks`` are the errors of values that are null instead, by row (``Decoder.strict`` is false)."""

    column: pa.StructArray
    ok: Bools
    remarks: dict[int, list[Trouble]]
    _decoder: Decoder = field(repr=False)
    _values: pa.BinaryArray = field(repr=False)
    _start: Ints | None = field(repr=False)

    def troubles(self, row: int) -> list[Trouble]:
        """The errors of a value, in order."""
        return self._decoder.troubles(self._values[row].as_py(), 0 if self._start is None else int(self._start[row]))

    def reason(self, row: int) -> str:
        """The first error of a value, as a sentence: expected, actual, and the byte of the value. Empty if it is ok."""
        return "" if self.ok[row] else str(self.troubles(row)[0])


class Decoder:
    """Decodes values of one schema.

    ``fields``: the requested fields of the top record, or of a record in it (``data.salary``); None: all. The others
    are skipped: only the bytes that give their length are checked. ``strict``: a value with an error that does not
    affect the following bytes (a date after the year 9999) makes its row one that is not ok; otherwise the value is
    null, and :attr:`AvroValues.remarks` has its error. Raises OptionError for an unknown field.
    """

    def __init__(self, schema: Schema, fields: tuple[str, ...] | None = None, *, strict: bool = True) -> None:
        self.schema = schema
        self.fields = fields
        self.strict = strict
        self.root = schema.root if fields is None else restricted(schema.root, fields)
        self.slots = _slots(self.root)

    def decode(self, values: pa.BinaryArray, start: Ints | None = None) -> AvroValues:
        """Decodes values, none of which is null; ``start``: bytes of each to skip first."""
        if values.null_count:
            raise ValueError(f"expected values without nulls, found {values.null_count}")
        data, edges = content_of(values)
        begins = edges[:-1] if start is None else edges[:-1] + start
        ok = np.ones(len(values), dtype=np.bool_)
        chunks, remarked = [], []
        for first, last in self._stretches(edges):
            low, high = int(edges[first]), int(edges[last])
            columns = _Columns(self, data[low:high], begins[first:last] - low, edges[first + 1 : last + 1] - low)
            chunks.append(columns.column(self.root, None))
            ok[first:last] = columns.ok
            remarked += (np.flatnonzero(columns.remarked & columns.ok) + first).tolist()
        column = pa.concat_arrays(chunks) if len(chunks) != 1 else chunks[0]
        if not ok.all():
            column = column.take(pa.array(np.arange(len(ok)), mask=~ok))
        found = AvroValues(column, ok, {}, self, values, start)
        found.remarks.update((row, found.troubles(row)) for row in remarked)
        return found

    def _stretches(self, edges: Ints) -> Iterator[tuple[int, int]]:
        """Values ``[first, last)`` that are decoded together: a limited number of rows and bytes, but at least one."""
        most = max(1, min(_ROWS, _CELLS // (sum(map(len, self.slots)) + 1)))
        first, count = 0, len(edges) - 1
        while first < count or not count:
            last = int(np.searchsorted(edges, edges[first] + _BYTES, side="right")) - 1
            last = min(max(last, first + 1), first + most, count)
            yield first, last
            first = last
            if not count:
                break

    def troubles(self, value: bytes, start: int = 0) -> list[Trouble]:
        """The errors of one value, in order."""
        reader = read_value(self.schema, value, start)
        if self.fields is None:
            return reader.troubles
        inside = tuple(f"{name}{end}" for name in self.fields for end in (".", "["))
        stops = reader.troubles[-1:] if reader.is_stopped else []
        return [one for one in reader.troubles if f"{one.path}.".startswith(inside) or one in stops]


def _slots(root: Node) -> tuple[Ints, Ints, Ints]:
    """The instructions whose numbers, members of unions, and spans the columns of a type need."""
    numbers, members, spans = [], [], []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting += [] if node.kind in NESTED else node.inner
        if node.kind == "union":
            members.append(node.pc)
        elif node.kind in SPANNED:
            spans.append(node.pc)
        if node.logical == "decimal" or node.kind not in (*SPANNED, "null", "union", "record"):
            numbers.append(node.pc)
    return np.array(numbers, np.int64), np.array(members, np.int64), np.array(spans, np.int64)


class _Columns:
    """The columns of some values, which begin in a buffer at ``starts``. ``ok``: those without errors so far;
    ``remarked``: those with a value that is null because of its error."""

    def __init__(self, decoder: Decoder, data: Bytes, starts: Ints, stops: Ints) -> None:
        self.decoder, self.data, self.count = decoder, data, len(stops)
        self.ok, self.remarked = starts <= stops, np.zeros(self.count, dtype=np.bool_)
        self.code, cells = decoder.schema.code.copy(), self.count + 1
        for column, slots in zip((2, 3, 3), decoder.slots, strict=True):
            self.code[slots, column] = np.arange(len(slots)) * cells
        numbers, members, spans = (len(slots) * cells for slots in decoder.slots)
        self.numbers = np.zeros(numbers, dtype=np.int64)
        self.members = np.zeros(members, dtype=np.uint8)
        self.spans = np.zeros((spans, 2), dtype=np.int32)
        _walk(
            read_only(data), starts, stops, False, self.code, self.numbers, self.members, self.spans, self.ok, _levels()
        )
        self.spans[self.count :: cells] = len(data)

    def column(self, node: Node, present: Bools | None) -> pa.Array:
        """The values of a type; null for those that are not ``present``."""
        if node.kind == "null":
            return pa.nulls(self.count)
        if node.kind == "record":
            children = [self.column(inner, present) for inner in node.inner]
            return pa.Array.from_buffers(node.arrow, self.count, [bitmap(present)], children=children)
        number, slot = self.code[node.pc, 2:4].tolist()
        if node.kind == "union":
            return self._union(node, self.members[slot : slot + self.count], present)
        spans = self.spans[slot : slot + self.count + 1]
        if node.kind in NESTED:
            return self._nested(node, spans, present)
        found, wrong = leaf_array(node, self.data, self.numbers[number : number + self.count], spans, present)
        if wrong is None:
            return found
        if self.decoder.strict:
            self.ok[wrong] = False
            return found
        self.remarked[wrong] = True
        return pc.if_else(pa.array(wrong), pa.scalar(None, found.type), found)

    def _union(self, node: Node, members: Bytes, present: Bools | None) -> pa.Array:
        children, valid = [], np.zeros(len(members), dtype=np.bool_)
        for number, member in enumerate(node.inner):
            if member.kind != "null":
                chosen = members == number if present is None else present & (members == number)
                children.append(self.column(member, None if chosen.all() else chosen))
                valid |= chosen
        if len(children) > 1:
            return pa.Array.from_buffers(node.arrow, len(members), [bitmap(valid)], children=children)
        return children[0] if children else pa.nulls(len(members))

    def _nested(self, node: Node, spans: Spans, present: Bools | None) -> pa.Array:
        """Arrays, maps, and records inside themselves, one by one."""
        values: list[Any] = [None] * self.count
        for row in np.flatnonzero(self.ok if present is None else self.ok & present).tolist():
            reader = AvroReader(self.data[spans[row, 0] : spans[row, 1]].tobytes())
            values[row] = reader.read(node)
            if reader.is_damaged or (reader.troubles and self.decoder.strict):
                self.ok[row], values[row] = False, None
            elif reader.troubles:
                self.remarked[row] = True
        return pa.array(values, node.arrow)


def _levels() -> Ints:
    return np.empty((MOST_NESTED, 4), dtype=np.int64)


# --- records --------------------------------------------------------------------------------------------------------


def record_ends(schema: Schema, data: bytes, count: int) -> tuple[Ints, Trouble | None]:
    """The start of the first of ``count`` records that follow each other, and the end of each, up to the first that has
    none, with the error of that one. Of values, only what gives their length is checked."""
    edges, ok = np.zeros(count + 1, dtype=np.int64), np.ones(count, dtype=np.bool_)
    stops = np.full(count, len(data), dtype=np.int64)
    nothing = np.empty(0, np.int64), np.empty(0, np.uint8), np.empty((0, 2), np.int32)
    _walk(read_only(np.frombuffer(data, np.uint8)), edges, stops, True, schema.code, *nothing, ok, _levels())
    bad = np.flatnonzero(~ok)
    if not len(bad):
        return edges, None
    return edges[: bad[0] + 1], read_value(schema, data[int(edges[bad[0]]) :]).troubles[-1]
