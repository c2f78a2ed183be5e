"""Avro values without a container as Arrow columns.

One compiled loop walks over every value along the program of its schema, which gives the numbers and spans of each
leaf, from which :class:`Decoder` makes columns; for a single value also the offset of every field, for its field tree
(:func:`anatomy`). The loop stops at an array, a map, or a union of several types, which fastavro reads, and continues
after it.

Numbers are zigzag varints of up to ten bytes, least significant seven bits first; float and double are little-endian;
texts and bytes follow their length; a union is the number of its member and the member.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import count, pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import bitmap, content_of
from cdcwb.formats.containers.avro_schema import (
    JUMP,
    NESTED,
    NUMBER,
    SPANNED,
    TOP,
    UNION,
    WORD,
    Node,
    Schema,
    leaves,
    restricted,
)  # fmt: skip
from cdcwb.formats.containers.avro_values import finding_of, leaf_array, nested_text, to_text
from cdcwb.formats.dissector import Field
from cdcwb.formats.kernels import Bools, Bytes, Int, Ints, Spans, interpreted, kernel, read_only
from cdcwb.model import Problem
from cdcwb.words import plural

# --- the loop ---------------------------------------------------------------------------------------------------------

_LONGEST: Final = 10  # bytes of a number
_HIGHEST: Final = (1 << 63) - 1


@kernel
def _number(data: Bytes, at: Int, stop: Int) -> tuple[Int, Int]:
    """The varint at an offset, zigzag-decoded, and the offset after it; -1 if it is none."""
    bits = np.int64(0)
    for place in range(_LONGEST):
        if at + place >= stop:
            return bits, -1
        byte = np.int64(data[at + place])
        if place == _LONGEST - 1 and 1 < byte < 128:
            return bits, -1
        bits |= (byte & 127) << (7 * place)
        if byte < 128:
            return ((bits >> 1) & _HIGHEST) ^ -(bits & 1), at + place + 1
    return bits, -1


@kernel
def _bits(data: Bytes, start: Int, end: Int, is_big: Int) -> Int:
    """The number in at most eight bytes: a little-endian word, or a big-endian one in two's complement; of none, or of
    more bytes, 0."""
    number = np.int64(0)
    if not 0 < end - start <= 8:
        return number
    if is_big:
        number = -(np.int64(data[start]) >> 7)
        for place in range(start, end):
            number = (number << 8) | np.int64(data[place])
    else:
        for place in range(end - start):
            number |= np.int64(data[start + place]) << (8 * place)
    return number


@kernel
def _walk(
    data: Bytes, starts: Ints, stops: Ints, is_chained: Int, code: Ints, numbers: Ints, members: Bytes, spans: Spans,
    trace: Ints, ok: Bools, failed: Ints, state: Ints,
) -> None:  # fmt: skip
    """Walks over values ``[starts, stops)`` that are ``ok``, or over values that follow each other (``is_chained``),
    whose starts it writes; what is no value, or has bytes after it, is not ``ok``, and ``failed`` has the instruction
    that cannot be read, and its offset.

    ``numbers``, ``members`` of unions and ``spans`` get what is read for a slot and a value, ``trace`` (if it is not
    empty) the offset of each instruction, and of the end. ``state``: the value, the instruction and the offset at which
    to begin; at the end those of a value that has to be read otherwise, or the number of values.
    """
    row: Int = state[0]
    here: Int = state[1]
    at: Int = state[2]
    is_traced = len(trace) > 0
    first: Int = np.int64(0)
    while row < len(stops):
        stop: Int = stops[row]
        if here == 0:
            at = starts[row]
        is_good = False
        while ok[row]:
            first = at
            if is_traced:
                trace[here] = at
            if here == len(code):
                is_good = is_chained or at == stop
                break
            operation = code[here, 0]
            number: Int = np.int64(0)
            if operation <= UNION:
                if at < stop and data[at] < 128:
                    bits = np.int64(data[at])
                    number, at = (bits >> 1) ^ -(bits & 1), at + 1
                else:
                    number, at = _number(data, at, stop)
                    if at < 0:
                        break
                if operation == NUMBER:
                    if code[here, 2] >= 0:
                        numbers[code[here, 2] + row] = number
                    here += 1
                    continue
                if operation == UNION:
                    if number < 0 or number >= code[here, 1]:
                        break
                    if code[here, 3] >= 0:
                        members[code[here, 3] + row] = number
                    here = code[here + 1 + number, 1]
                    continue
            elif operation == JUMP:
                here = code[here, 1]
                continue
            elif operation == NESTED:
                state[0], state[1], state[2] = row, here, at
                return
            else:
                number = code[here, 1]
            if number < 0 or number > stop - at:
                break
            if code[here, 3] >= 0:
                spans[code[here, 3] + row, 0] = at
                spans[code[here, 3] + row, 1] = at + number
            if code[here, 2] >= 0:
                numbers[code[here, 2] + row] = _bits(data, at, at + number, operation != WORD)
            at += number
            here += 1
        if is_chained and is_good:
            starts[row + 1] = at
        if ok[row] and not is_good:
            ok[row], failed[row, 0], failed[row, 1] = False, here, first
        row = len(stops) if is_chained and not is_good else row + 1
        here = 0
    state[0] = row


def number_at(data: Any, at: int = 0) -> tuple[int, int]:
    """The varint at an offset of some bytes, zigzag-decoded, and the offset after it; -1 if it is none."""
    number, end = _number.plain(data, at, len(data))
    return int(number), int(end)


# --- what the loop leaves out -----------------------------------------------------------------------------------------


def _of_fastavro(node: Node, names: Iterator[str]) -> Any:
    """A type as fastavro reads it: values as they are written, without names that Avro forbids, and defaults."""
    kind: dict[str, Any] = {"type": node.kind}
    match node.kind:
        case "record":
            fields = zip(node.names, node.inner, strict=True)
            kind["name"] = next(names)
            kind["fields"] = [{"name": name, "type": _of_fastavro(one, names)} for name, one in fields]
        case "union":
            return [_of_fastavro(one, names) for one in node.inner]
        case "array" | "map":
            kind["items" if node.kind == "array" else "values"] = _of_fastavro(node.inner[0], names)
        case "enum":
            kind |= {"name": next(names), "symbols": list(node.symbols)}
        case "fixed":
            kind |= {"name": next(names), "size": node.size}
    return kind


@lru_cache(maxsize=256)
def _nested_schema(node: Node) -> Any:
    import fastavro

    fields = [{"name": TOP, "type": _of_fastavro(node, map("n{}".format, count()))}]
    return fastavro.parse_schema({"type": "record", "name": "top", "fields": fields})


# --- values -----------------------------------------------------------------------------------------------------------


class Trouble(NamedTuple):
    """An error: the code and sentence, the field (``data.salary``), and the byte of the value after which nothing can
    be read (-1: the error is in the field alone)."""

    code: Problem
    sentence: str
    path: str
    offset: int = -1

    def __str__(self) -> str:
        at = f", at byte {self.offset}" if self.offset >= 0 else ""
        return f"{self.path or 'the value'}: {self.sentence}{at}"


_Slots = tuple[Ints, Ints, Ints]


def _slots(root: Node) -> _Slots:
    """The instructions whose numbers, members of unions, and spans the columns of a type need."""
    found = [node for node in leaves(root) if not node.is_nested]
    members = [node.pc for node in found if node.kind == "union"]
    spans = [node.pc for node in found if node.kind in SPANNED]
    numbers = [node.pc for node in found if node.logical == "decimal" or node.kind not in (*SPANNED, "union")]
    return np.array(numbers, np.int64), np.array(members, np.int64), np.array(spans, np.int64)


class WalkedValues:
    """What the loop read of values of a schema in ``data``, which begin at ``starts``, and with skipped bytes at
    ``base``. ``ok``: those that were read to their end; ``trace``: the offset of each instruction of the only value;
    ``nested``: by instruction and value what fastavro read; ``troubles``: by value the errors, also of leaves that are
    null for that."""

    def __init__(
        self, schema: Schema, slots: _Slots | None, data: Bytes, base: Ints, starts: Ints, stops: Ints, *,
        chained: bool = False,
    ) -> None:  # fmt: skip
        self.schema, self.data, self.base, self.count, cells = schema, data, base, len(stops), len(stops) + 1
        self.ok = starts[: self.count] <= stops
        self.code = schema.code.copy()
        slots = slots or _slots(schema.root)
        for column, some in zip((2, 3, 3), slots, strict=True):
            self.code[some, column] = np.arange(len(some)) * cells
        numbers, members, spans = (len(some) * cells for some in slots)
        self.numbers = np.zeros(numbers, dtype=np.int64)
        self.members = np.zeros(members, dtype=np.uint8)
        self.spans = np.zeros((spans, 2), dtype=np.int32)
        self.trace = np.full(len(self.code) + 1 if self.count == 1 else 0, -1, dtype=np.int64)
        self.nested: dict[int, dict[int, Any]] = {}
        self.troubles: dict[int, list[Trouble]] = {}
        self._run(starts, stops, chained)
        self.spans[self.count :: cells] = len(data)

    @cached_property
    def _nodes(self) -> dict[int, Node]:
        return {node.pc: node for node in leaves(self.schema.root)}

    def _run(self, starts: Ints, stops: Ints, chained: bool) -> None:
        bad = np.flatnonzero(~self.ok).tolist()
        failed = np.full((self.count, 2), -1, dtype=np.int64)
        state, buffer, stream = np.zeros(3, dtype=np.int64), read_only(self.data), io.BytesIO()
        while True:
            _walk(
                buffer, starts, stops, chained, self.code, self.numbers, self.members, self.spans, self.trace, self.ok,
                failed, state,
            )  # fmt: skip
            row, here, at = state.tolist()
            if row == self.count:
                break
            import fastavro

            base = 0 if chained else at  # values that follow each other are read from one stream
            if not chained or not stream.getbuffer().nbytes:
                stream = io.BytesIO(self.data[base : int(stops[row])].tobytes())
            stream.seek(at - base)
            try:
                found: Any = fastavro.schemaless_reader(stream, _nested_schema(self._nodes[here]), None)
                self.nested.setdefault(here, {})[row] = found[TOP]
                state[1:] = here + 1, base + stream.tell()
            except Exception as reason:  # fastavro has none of its own
                code = Problem.TRUNCATED if isinstance(reason, EOFError) else Problem.MALFORMED
                said = f"expected {self._nodes[here]}, found what cannot be read ({str(reason) or 'it is cut off'})"
                self.troubles[row] = [Trouble(code, said, ".".join(self._nodes[here].path), at - int(self.base[row]))]
                self.ok[row] = False
                state[:] = self.count if chained else row + 1, 0, 0
        for row in bad:
            skipped, length = int(starts[row] - self.base[row]), stops[row] - self.base[row]
            sentence = f"expected {plural(skipped, 'byte')} at the beginning, found {length}"
            self.troubles[row] = [Trouble(Problem.TRUNCATED, sentence, "", 0)]
        for row in np.flatnonzero(failed[:, 0] >= 0).tolist():
            here, at = failed[row].tolist()
            self.troubles[row] = [self._stop(here, self.data[at : int(stops[row])], at - int(self.base[row]))]

    def _stop(self, here: int, rest: Bytes, offset: int) -> Trouble:
        """The error of an instruction that cannot be read, from the bytes from it on."""
        if here == len(self.code):
            sentence = f"expected the end of the value, found {plural(len(rest), 'more byte')}"
            return Trouble(Problem.MALFORMED, sentence, "", offset)
        node, (operation, size) = self._nodes[here], self.code[here, :2].tolist()
        number, end = number_at(rest) if operation <= UNION else (size, 0)
        code, sentence = Problem.MALFORMED, f"expected {node}, found the number {number}"
        if end < 0 and len(rest) >= _LONGEST:
            sentence = f"expected {node}, found a number of more than 64 bits"
        elif end < 0:
            code, sentence = Problem.TRUNCATED, f"expected {node}, found the end of the value"
        elif operation != UNION and number >= 0:
            sentence = f"expected {plural(number, 'byte')} of {node}, found {len(rest) - end}"
            code = Problem.TRUNCATED
        return Trouble(code, sentence, ".".join(node.path), offset)

    def column(self, node: Node, present: Bools | None = None) -> pa.Array:
        """The values of a type; null for those that are not ``present`` (None: all are)."""
        if node.kind == "null":
            return pa.nulls(self.count)
        if node.kind == "record":
            children = [self.column(inner, present) for inner in node.inner]
            return pa.Array.from_buffers(node.arrow, self.count, [bitmap(present)], children=children)
        if node.is_nested:
            found = self.nested.get(node.pc, {})
            return pa.array([nested_text(found.get(row)) for row in range(self.count)], pa.string())
        if node.kind == "union":
            slot = int(self.code[node.pc, 3])
            members = self.members[slot : slot + self.count]
            if (member := node.without_null) is node:
                return pa.nulls(self.count)
            chosen = members == node.inner.index(member)
            chosen = chosen if present is None else present & chosen
            return self.column(member, None if chosen.all() else chosen)
        found, troubles = self.leaf(node, present)
        for row, trouble in troubles.items():
            if self.ok[row]:
                self.troubles.setdefault(row, []).append(trouble)
        return found

    def leaf(self, node: Node, present: Bools | None = None) -> tuple[pa.Array, dict[int, Trouble]]:
        """The values of a leaf, and the errors of those that are invalid, and null for that, by row."""
        number, slot = self.code[node.pc, 2:4].tolist()
        numbers, spans = self.numbers[number : number + self.count], self.spans[slot : slot + self.count + 1]
        found, suspects = leaf_array(node, self.data, numbers, spans, present)
        if suspects is None:
            return found, {}
        troubles = {}
        for row in np.flatnonzero(suspects).tolist():
            raw = b"" if slot < 0 else self.data[slice(*spans[row].tolist())].tobytes()
            finding = finding_of(node, raw, 0 if number < 0 else int(numbers[row]))
            if finding is not None:
                troubles[row] = Trouble(*finding, ".".join(node.path))
        wrong = np.zeros(self.count, dtype=np.bool_)
        wrong[list(troubles)] = True
        return pc.if_else(pa.array(wrong), pa.scalar(None, found.type), found), troubles


# --- columns ----------------------------------------------------------------------------------------------------------

_ROWS: Final = 8192
"""The number of values that are decoded together, so that their numbers and spans fit into the processor's caches."""
_CELLS: Final = 1 << 21


@dataclass(frozen=True, eq=False)
class AvroValues:
    """Decoded values. ``column`` has a row for each with the wanted fields; null for a value that is not ``ok``: it is
    not a value of the schema, or bytes follow it. Fields of a null record are null. ``troubles``: the errors of each
    value that has some. ``nested``: the arrays, maps, and values of unions of several types, whose texts are in the
    column, each with its row and the names that lead to it."""

    column: pa.StructArray
    ok: Bools
    troubles: dict[int, list[Trouble]]
    nested: list[tuple[int, tuple[str, ...], Any]]

    def rows(self) -> list[Any]:
        """The values as Python objects, with lists and dictionaries for arrays and maps."""
        found: list[Any] = self.column.to_pylist()
        for row, (*around, name), value in self.nested:
            if self.ok[row]:
                inside = found[row]
                for one in around:
                    inside = inside[one]
                inside[name] = value
        return found

    def reason(self, row: int) -> str:
        """The first error of a value, as a sentence: expected, actual, and the byte of the value. Empty if it is ok."""
        return "" if self.ok[row] else str(self.troubles[row][0])


class Decoder:
    """Decodes values of one schema.

    ``fields``: the requested fields of the top record, or of a record in it (``data.salary``); None: all. The others
    are skipped: only the bytes that give their length are checked. ``strict``: a value with an error that does not
    affect the following bytes (a date after the year 9999) makes its row one that is not ok; otherwise the value is
    null. Raises OptionError for an unknown field.
    """

    def __init__(self, schema: Schema, fields: tuple[str, ...] | None = None, *, strict: bool = True) -> None:
        self.schema = schema
        self.strict = strict
        self.root = schema.root if fields is None else restricted(schema.root, fields)
        self._slots = _slots(self.root)
        self._step = max(1, min(_ROWS, _CELLS // (sum(map(len, self._slots)) + 1)))

    def decode(self, values: pa.BinaryArray, start: Ints | None = None) -> AvroValues:
        """Decodes values, none of which is null; ``start``: bytes of each to skip first."""
        if values.null_count:
            raise ValueError(f"expected values without nulls, found {values.null_count}")
        data, edges = content_of(values)
        begins = edges[:-1] if start is None else edges[:-1] + start
        found = AvroValues(None, np.ones(len(values), dtype=np.bool_), {}, [])
        chunks = []
        for first in range(0, max(len(values), 1), self._step):
            last = min(first + self._step, len(values))
            low, high = int(edges[first]), int(edges[last])
            stops = edges[first + 1 : last + 1] - low
            starts = begins[first:last] - low
            walk = WalkedValues(self.schema, self._slots, data[low:high], edges[first:last] - low, starts, stops)
            chunks.append(walk.column(self.root))
            found.ok[first:last] = walk.ok
            found.troubles.update((first + row, some) for row, some in walk.troubles.items())
            for node in leaves(self.root) if walk.nested else ():
                there = walk.nested.get(node.pc, {})
                found.nested.extend((first + row, node.path or (TOP,), one) for row, one in there.items())
        if self.strict:
            found.ok[list(found.troubles)] = False
        column = pa.concat_arrays(chunks) if len(chunks) != 1 else chunks[0]
        if not found.ok.all():
            column = column.take(pa.array(np.arange(len(found.ok)), mask=~found.ok))
        return replace(found, column=column)


def record_ends(schema: Schema, data: bytes, count: int) -> tuple[Ints, Trouble | None]:
    """The start of the first of ``count`` records that follow each other, and the end of each, up to the first that has
    none, with the error of that one. Of values, only what gives their length is checked."""
    edges, stops = np.zeros(count + 1, dtype=np.int64), np.full(count, len(data), dtype=np.int64)
    no_slots = (np.zeros(0, np.int64),) * 3
    walk = WalkedValues(schema, no_slots, np.frombuffer(data, np.uint8), edges, edges, stops, chained=True)
    bad = np.flatnonzero(~walk.ok)
    return (edges, None) if not len(bad) else (edges[: bad[0] + 1], walk.troubles[int(bad[0])][0])


# --- the field tree of one value --------------------------------------------------------------------------------------


def anatomy(schema: Schema, value: bytes, start: int = 0) -> Field:
    """The fields of one value with their bytes. Accepts any bytes; never raises. The first ``start`` bytes are not part
    of it; offsets count from their start. Leaves are adjacent: if the bytes are not a value of the schema, the rest of
    them is one leaf with a problem. Numbers of union members, and lengths, are leaves of their own; an array, a map, or
    a union of several types is one leaf.
    """
    tree = _ValueTree(schema, value, start)
    children = tree.parts(schema.root)
    start, stop = min(start, len(value)), None
    if not tree.walk.ok[0]:
        (stop,), end = tree.walk.troubles[0][:1], tree.end
        name = "trailing bytes" if tree.is_complete else "undecoded"
        children.append(Field(name, end, len(value) - end, value[end:], None, str(stop), (), stop.code))
    top = schema.root if schema.is_record else schema.root.inner[0]
    name = top.name.rpartition(".")[2] if schema.is_record else TOP
    meaning = f"{top}; {stop}" if stop else str(top)
    return Field(name, start, len(value) - start, value[start:], None, meaning, tuple(children), stop and stop.code)


class _ValueTree:
    """``spans``: the bytes of each instruction that could be read; ``end``: where the rest begins."""

    def __init__(self, schema: Schema, value: bytes, start: int) -> None:
        data, places = np.frombuffer(value, np.uint8), np.array([0, start, len(value)])
        with interpreted():
            self.value, self.walk = value, WalkedValues(schema, None, data, *np.split(places, 3))
        visited = np.flatnonzero(self.walk.trace >= 0).tolist()
        offsets = self.walk.trace[visited].tolist()
        self.spans = dict(zip(visited, pairwise(offsets), strict=False))
        self.end = offsets[-1] if offsets else min(start, len(value))
        self.is_complete = visited[-1:] == [len(schema.code)]

    def field(self, node: Node, name: str) -> list[Field]:
        """A value as a field of its own, one of several parts with the text of the last; none of a value that is not
        there."""
        parts = self.parts(node, name)
        if node.is_nested or node.kind not in ("record", "union", "string", "bytes") or not parts:
            return parts
        start, last, text, code = parts[0].offset, parts[-1], None, None
        if node.without_null.kind != "record" and last.name != "union index":
            text, code = last.value, last.problem
        raw = self.value[start : last.offset + last.length]
        return [Field(name, start, len(raw), raw, text, str(node), tuple(parts), code)]

    def parts(self, node: Node, name: str = "value") -> list[Field]:
        """The parts of a value; of a leaf itself."""
        if node.kind == "record":
            names = zip(node.names, node.inner, strict=True)
            return [part for label, inner in names for part in self.field(inner, label)]
        if node.pc not in self.spans:
            return []
        (start, end), meaning, code = self.spans[node.pc], str(node), None
        slot = int(self.walk.code[node.pc, 3])
        if node.kind == "union" and not node.is_nested:
            number = int(self.walk.members[slot])
            said = f"member {number} of the union: {node.inner[number]}"
            return [self._leaf("union index", start, end, str(number), said), *self.parts(node.inner[number])]
        if node.is_nested:
            return [self._leaf(name, start, end, nested_text(self.walk.nested[node.pc][0]), meaning)]
        array, troubles = self.walk.leaf(node)
        text = to_text(array)[0].as_py()
        if troubles:
            code, meaning = troubles[0].code, f"{meaning}: {troubles[0].sentence}"
        elif node.kind == "enum":
            meaning = f"{meaning}: number {node.symbols.index(text)}"
        if node.kind not in ("string", "bytes"):
            return [self._leaf(name, start, end, text, meaning, code)]
        begin = int(self.walk.spans[slot, 0])
        length = self._leaf("length", start, begin, str(end - begin), f"bytes of {node} that follow")
        return [length, self._leaf("text" if node.kind == "string" else "bytes", begin, end, text, meaning, code)]

    def _leaf(
        self, name: str, start: int, end: int, text: str | None, meaning: str, code: Problem | None = None
    ) -> Field:
        return Field(name, start, end - start, self.value[start:end], text, meaning, (), code)
