"""Avro values without a container as Arrow columns.

One compiled loop (:mod:`cdcwb.formats.containers.avro_walk`) gives the numbers and spans of each leaf, from which
:class:`Decoder` makes columns. What is wrong with a value is found by walking over it once more
(:mod:`cdcwb.formats.containers.avro_tree`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.errors import MalformedRecordError, TruncatedRecordError
from cdcwb.formats.arrays import content_of
from cdcwb.formats.containers.avro_schema import SPANNED, TOP, Node, Schema, restricted
from cdcwb.formats.containers.avro_tree import SMALL, Replay, Trouble
from cdcwb.formats.containers.avro_values import bitmap, leaf_array
from cdcwb.formats.containers.avro_walk import BEGIN, Bytes, Ints, Slots, walk
from cdcwb.formats.kernels import interpreted
from cdcwb.model import Problem

__all__ = ["Decoded", "Decoder", "decode_one", "record_ends"]

Bools = npt.NDArray[np.bool_]
Spans = npt.NDArray[np.int32]

_ROWS: Final = 8192
"""The number of values that are decoded together, so that their numbers and spans fit into the processor's caches."""
_CELLS: Final = 1 << 21
_BYTES: Final = 1 << 23


@dataclass(frozen=True, eq=False)
class Decoded:
    """Decoded values. ``column`` has a row for each with the wanted fields; null for a value that is not ``ok``: it is
    not a value of the schema, or bytes follow it. Fields of a null record are null. ``remarks`` are the errors of
    values that are null instead, by row (``Decoder.strict`` is false)."""

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
        self._checked = frozenset(np.concatenate(self.slots).tolist())

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
        return Replay(self.schema, value, start, wanted=None if self.fields is None else self._checked).troubles


def _slots(root: Node) -> tuple[Ints, Ints, Ints]:
    """The instructions whose numbers, members of unions, and spans the columns of a type need."""
    numbers, members, spans = [], [], []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting += [] if node.kind == "recursive" else node.inner
        if node.kind == "union":
            members.append(node.pc)
        elif node.kind in SPANNED:
            spans.append(node.pc)
        if node.logical == "decimal" or node.kind not in (*SPANNED, "null", "union", "record", "entry"):
            numbers.append(node.pc)
    return np.array(numbers, np.int64), np.array(members, np.int64), np.array(spans, np.int64)


class _Columns:
    """The columns of some values, which begin in a buffer at ``starts``. ``ok``: those without errors so far;
    ``remarked``: those with a value that is null because of its error."""

    def __init__(self, decoder: Decoder, data: Bytes, starts: Ints, stops: Ints) -> None:
        self.decoder, self.data = decoder, data
        schema = decoder.schema
        self.remarked = np.zeros(len(stops), dtype=np.bool_)
        self._owners: dict[int, Ints] = {}
        faults = np.zeros((len(stops), 5), dtype=np.int64)
        faults[starts > stops, 0] = BEGIN
        begins = np.minimum(starts, stops)
        self.counts = np.array([len(stops)])
        if len(schema.domains) > 1:  # the items are counted first
            self.counts, faults, _ = walk(schema, data, begins, stops, faults=faults)
        self.code, ends = schema.code.copy(), []
        for column, slots in zip((2, 3, 3), decoder.slots, strict=True):
            cells = self.counts[schema.code[slots, 4]] + 1
            ends.append(np.cumsum(cells))
            self.code[slots, column] = ends[-1] - cells
        self.numbers = np.zeros(ends[0].max(initial=0), dtype=np.int64)
        self.members = np.zeros(ends[1].max(initial=0), dtype=np.uint8)
        self.spans = np.zeros((ends[2].max(initial=0), 2), dtype=np.int32)
        found = Slots(self.code, self.numbers, self.members, self.spans.reshape(-1))
        walk(schema, data, begins, stops, slots=found, faults=faults)
        self.spans[ends[2] - 1] = len(data)
        self.ok = faults[:, 0] == 0

    def column(self, node: Node, present: Bools | None) -> pa.Array:
        """The values of a type, for each item of its domain; null for those that are not ``present``."""
        count = int(self.counts[node.domain])
        if node.kind == "null":
            return pa.nulls(count)
        if node.kind in ("record", "entry"):
            children = [self.column(inner, present) for inner in node.inner]
            return pa.Array.from_buffers(node.arrow, count, [bitmap(present)], children=children)
        number, slot = self.code[node.pc, 2:4].tolist()
        if node.kind == "union":
            return self._union(node, self.members[slot : slot + count], present)
        numbers = self.numbers[number : number + count]
        if node.kind in ("array", "map"):
            return self._items(node, numbers, present)
        spans = self.spans[slot : slot + count + 1]
        if node.kind == "recursive":
            return self._recursive(node, spans, present)
        found, wrong = leaf_array(node, self.data, numbers, spans, present)
        if wrong is None:
            return found
        is_strict = self.decoder.strict or (node.kind == "string" and bool(node.name))  # a key is never null
        self._fail(node.domain, wrong, is_strict)
        return found if is_strict else pc.if_else(pa.array(wrong), pa.scalar(None, found.type), found)

    def _fail(self, domain: int, wrong: Bools, is_strict: bool) -> None:
        """Marks the rows of some items, which have an error."""
        rows = np.flatnonzero(wrong)
        while domain:
            rows, domain = self._owners[domain][rows], self.decoder.schema.domains[domain]
        if is_strict:
            self.ok[rows] = False
        else:
            self.remarked[rows] = True

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

    def _items(self, node: Node, numbers: Ints, present: Bools | None) -> pa.Array:
        items = node.inner[0]
        self._owners[items.domain] = np.repeat(np.arange(len(numbers)), numbers)
        offsets = np.zeros(len(numbers) + 1, dtype=np.int32)
        np.cumsum(numbers, out=offsets[1:])
        column = self.column(items, None)
        if node.kind == "map":
            column, offsets = _without_repeats(column, offsets)
        buffers = [bitmap(present), pa.py_buffer(offsets)]
        return pa.Array.from_buffers(node.arrow, len(numbers), buffers, children=[column])

    def _recursive(self, node: Node, spans: Spans, present: Bools | None) -> pa.Array:
        """Records inside themselves, one by one: JSON of the texts of their values."""
        texts: list[str | None] = [None] * (len(spans) - 1)
        wrong = np.zeros(len(texts), dtype=np.bool_)
        for row in range(len(texts)) if present is None else np.flatnonzero(present).tolist():
            if node.domain or self.ok[row]:
                value = self.data[spans[row, 0] : spans[row, 1]].tobytes()
                replay = Replay(self.decoder.schema, value, shown=True, node=node.inner[0])
                wrong[row] = bool(replay.troubles)
                texts[row] = msgspec.json.encode(replay.value).decode()
        self._fail(node.domain, wrong, self.decoder.strict)
        return pa.array([None if bad else text for bad, text in zip(wrong, texts, strict=True)], pa.string())


def _without_repeats(entries: pa.StructArray, offsets: Spans) -> tuple[pa.StructArray, Spans]:
    """The entries of maps without repeated keys: the first place of a key counts, and its last value."""
    owners = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    codes = entries.field(0).dictionary_encode().indices.to_numpy().astype(np.int64)
    pairs = owners * (int(codes.max(initial=0)) + 1) + codes
    last = dict(zip(pairs.tolist(), range(len(pairs)), strict=True))
    if len(last) == len(pairs):
        return entries, offsets
    chosen = np.array(list(last.values()))
    sizes = np.bincount(owners[chosen], minlength=len(offsets) - 1)
    return entries.take(pa.array(chosen)), np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)


# --- records and values -----------------------------------------------------------------------------------------------


def record_ends(schema: Schema, data: bytes, count: int) -> tuple[Ints, Trouble | None]:
    """The start of the first of ``count`` records that follow each other, and the end of each, up to the first that has
    none, with the error of that one. Of values, only what gives their length is checked."""
    edges = np.zeros(count + 1, dtype=np.int64)
    stops = np.full(count, len(data), dtype=np.int64)
    _, faults, _ = walk(schema, np.frombuffer(data, np.uint8), edges, stops, is_chained=True)
    bad = np.flatnonzero(faults[:, 0])
    if not len(bad):
        return edges, None
    troubles = Replay(schema, data[int(edges[bad[0]]) :], wanted=()).troubles
    return edges[: bad[0] + 1], troubles[-1]


def decode_one(schema: Schema, value: bytes) -> tuple[Any, int]:
    """The first value in some bytes as Python objects, and its number of bytes. Raises TruncatedRecordError if the
    bytes end too early, else MalformedRecordError."""
    with interpreted() if len(value) <= SMALL else contextlib.nullcontext():
        edges, trouble = record_ends(schema, value, 1)
        found = Decoder(schema).decode(pa.array([value[: int(edges[-1])] if trouble is None else value], pa.binary()))
    trouble = next(iter(found.troubles(0)), None)
    if trouble is not None:
        kind = TruncatedRecordError if trouble.code == Problem.TRUNCATED else MalformedRecordError
        raise kind(f"{trouble.path or 'the value'}: {trouble.sentence}", offset=trouble.offset)
    plain = _plain(schema.root, found.column[0].as_py())
    return (plain if schema.is_record else plain[TOP]), int(edges[-1])


def _plain(node: Node, value: Any) -> Any:
    """A value from a column without what Arrow adds: a union is the value of its member, a map a dictionary."""
    if value is None:
        return None
    if node.kind == "record":
        return {name: _plain(inner, value[name]) for name, inner in zip(node.names, node.inner, strict=True)}
    if node.kind == "array":
        return [_plain(node.inner[0], item) for item in value]
    if node.kind == "map":
        return {key: _plain(node.inner[0].inner[1], item) for key, item in value}
    if node.kind == "union":
        others = node.others
        found = value.values() if len(others) > 1 else [value]
        return next((_plain(*one) for one in zip(others, found, strict=True) if one[1] is not None), None)
    return value
