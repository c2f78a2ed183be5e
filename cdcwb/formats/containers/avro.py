"""Avro values without a container as Arrow columns.

One compiled loop (:mod:`cdcwb.formats.containers.avro_walk`) gives the numbers and spans of each leaf, from which
:class:`Decoder` makes columns. What is wrong with a value is found by walking over it once more
(:mod:`cdcwb.formats.containers.avro_tree`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import content_of
from cdcwb.formats.containers.avro_schema import NESTED, SPANNED, Node, Schema, restricted
from cdcwb.formats.containers.avro_tree import Replay, Trouble
from cdcwb.formats.containers.avro_values import bitmap, leaf_array
from cdcwb.formats.containers.avro_walk import BEGIN, Bytes, Ints, Slots, walk

__all__ = ["Decoded", "Decoder", "record_ends"]

Bools = npt.NDArray[np.bool_]
Spans = npt.NDArray[np.int32]

_ROWS: Final = 8192
"""The number of values that are decoded together, so that their numbers and spans fit into the processor's caches."""
_CELLS: Final = 1 << 21
_BYTES: Final = 1 << 23


@dataclass(frozen=True, eq=False)
class Decoded:
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
        """The errors of a value, in order; empty if it is ok."""
        if self.ok[row]:
            return []
        return self._decoder.troubles(self._values[row].as_py(), 0 if self._start is None else int(self._start[row]))

    def reason(self, row: int) -> str:
        """The first error of a value, as a sentence: expected, actual, and the byte of the value. Empty if it is ok."""
        troubles = self.troubles(row)
        return str(troubles[0]) if troubles else ""


class Decoder:
    """Decodes values of one schema.

    ``fields``: the requested fields of the top record, or of a record in it (``data.salary``); None: all. The others
    are skipped: only the bytes that give their length are checked. ``strict``: a value with an error that does not
    affect the following bytes (a date after the year 9999) makes its row one that is not ok; otherwise the value is
    null, and :attr:`Decoded.remarks` has its error. Raises OptionError for an unknown field. Can be pickled.
    """

    def __init__(self, schema: Schema, fields: tuple[str, ...] | None = None, *, strict: bool = True) -> None:
        self.schema = schema
        self.fields = fields
        self.strict = strict
        self.root = schema.root if fields is None else restricted(schema.root, fields)
        self.slots = _slots(self.root)

    @property
    def type(self) -> pa.StructType:
        """The type of :attr:`Decoded.column`."""
        return self.root.arrow

    def decode(self, values: pa.BinaryArray, start: Ints | None = None) -> Decoded:
        """Decodes values, none of which is null; ``start``: bytes of each to skip first."""
        if values.null_count:
            raise ValueError(f"expected values without nulls, found {values.null_count}")
        data, edges = content_of(values)
        begins = edges[:-1] if start is None else edges[:-1] + start
        ok = np.ones(len(values), dtype=np.bool_)
        chunks, remarked = [], []
        for first, last in self._stretches(edges):
            low, high = int(edges[first]), int(edges[last])
            starts, stops = begins[first:last] - low, edges[first + 1 : last + 1] - low
            columns = _Columns(self, data[low:high], starts, stops)
            chunks.append(columns.column(self.root, None))
            ok[first:last] = columns.ok
            remarked += (np.flatnonzero(columns.remarked) + first).tolist()
        column = pa.concat_arrays(chunks) if len(chunks) != 1 else chunks[0]
        if not ok.all():
            column = column.take(pa.array(np.arange(len(ok)), mask=~ok))
        found = Decoded(column, ok, {}, self, values, start)
        for row in remarked:
            if ok[row]:
                found.remarks[row] = self.troubles(values[row].as_py(), 0 if start is None else int(start[row]))
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
        replay = Replay(self.schema, value, start)
        if self.fields is None:
            return replay.troubles
        inside = tuple(f"{name}{end}" for name in self.fields for end in (".", "["))
        stops = replay.troubles[-1:] if replay.is_stopped else []
        return [one for one in replay.troubles if f"{one.path}.".startswith(inside) or one in stops]


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
        self.remarked = np.zeros(self.count, dtype=np.bool_)
        faults = np.zeros((self.count, 5), dtype=np.int64)
        faults[starts > stops, 0] = BEGIN
        self.code, cells = decoder.schema.code.copy(), self.count + 1
        for column, slots in zip((2, 3, 3), decoder.slots, strict=True):
            self.code[slots, column] = np.arange(len(slots)) * cells
        numbers, members, spans = (len(slots) * cells for slots in decoder.slots)
        self.numbers = np.zeros(numbers, dtype=np.int64)
        self.members = np.zeros(members, dtype=np.uint8)
        self.spans = np.zeros((spans, 2), dtype=np.int32)
        found = Slots(self.code, self.numbers, self.members, self.spans.reshape(-1))
        walk(decoder.schema, data, np.minimum(starts, stops), stops, slots=found, faults=faults)
        self.spans[self.count :: cells] = len(data)
        self.ok = faults[:, 0] == 0

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
            value = self.data[spans[row, 0] : spans[row, 1]].tobytes()
            replay = Replay(self.decoder.schema, value, node=node)
            values[row] = replay.value
            if replay.is_damaged or (replay.troubles and self.decoder.strict):
                self.ok[row], values[row] = False, None
            elif replay.troubles:
                self.remarked[row] = True
        return pa.array(values, node.arrow)


# --- records --------------------------------------------------------------------------------------------------------


def record_ends(schema: Schema, data: bytes, count: int) -> tuple[Ints, Trouble | None]:
    """The start of the first of ``count`` records that follow each other, and the end of each, up to the first that has
    none, with the error of that one. Of values, only what gives their length is checked."""
    edges = np.zeros(count + 1, dtype=np.int64)
    stops = np.full(count, len(data), dtype=np.int64)
    faults, _ = walk(schema, np.frombuffer(data, np.uint8), edges, stops, is_chained=True)
    bad = np.flatnonzero(faults[:, 0])
    if not len(bad):
        return edges, None
    troubles = Replay(schema, data[int(edges[bad[0]]) :]).troubles
    return edges[: bad[0] + 1], troubles[-1]
