"""The field tree of one Avro value, and the sentences of its errors, from the list of what the walk read."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from cdcwb.formats.containers import avro_walk as walks
from cdcwb.formats.containers.avro_schema import TOP, Node, Schema
from cdcwb.formats.containers.avro_values import finding_of, leaf_array, to_text
from cdcwb.formats.dissector import Field
from cdcwb.formats.kernels import interpreted
from cdcwb.model import Problem
from cdcwb.words import plural

__all__ = ["SMALL", "Replay", "Trouble", "anatomy"]

MOST_FIELDS: Final = 100_000
"""Maximum leaves of a tree, and of a value whose errors are named; the rest is left out."""

SMALL: Final = 1 << 16
"""Maximum bytes of a value for which nothing is compiled."""

_SINGLE: Final = ("null", "boolean", "int", "long", "float", "double", "fixed", "enum")  # a value is one leaf
_RUNS: Final = ("string", "bytes")


class Trouble(NamedTuple):
    """An error: the code and sentence, the field (``data.salary``), and the byte of the value. ``text`` is what was
    found instead of a value: a number as it is, other bytes in hex."""

    code: Problem
    sentence: str
    path: str
    offset: int
    text: str | None = None

    def __str__(self) -> str:
        return f"{self.path or 'the value'}: {self.sentence}, at byte {self.offset}"


class _Stopped(Exception):  # noqa: N818  (not an error: the value ends here)
    """The following bytes cannot be decoded."""


class Replay:
    """One value from the events of its walk, in the order of its types.

    ``node``: its type, if it is not that of the
    schema but an array, a map or a record inside itself. ``troubles`` are its errors in order, ``at`` is where the walk
    ended, ``arrived`` whether that is after the last field; else ``is_stopped``, unless it has too many fields.
    ``value``: as Arrow takes it for a column, a value with an error null; ``is_damaged``: it cannot be. ``shown``:
    ``fields`` are the fields of the tree, and ``value`` has every leaf as its text.
    """

    def __init__(
        self, schema: Schema, value: bytes, start: int = 0, *, shown: bool = False, node: Node | None = None
    ) -> None:
        root = node or schema.root
        self.bytes, self.at, self.value = value, min(start, len(value)), None
        self.troubles: list[Trouble] = []
        self.fields: list[Field] = []
        self.arrived, self.is_stopped = False, start > len(value)
        self.is_damaged = self._is_inside = False
        self._schema, self._nodes, self._shown = schema, schema.nodes, shown
        self._path: list[str] = []
        self._text: str | None = None  # of the last leaf
        self._raw = b""  # and its bytes
        self._blank, self._block = walks.MOST_BLANK, 0
        if self.is_stopped:
            sentence = f"expected {plural(start, 'byte')} at the beginning, found {len(value)}"
            self._trouble(Problem.TRUNCATED, sentence, 0)
            return
        data, edges = np.frombuffer(value, np.uint8), np.array([self.at, len(value)], dtype=np.int64)
        self._most = MOST_FIELDS if shown or node is None else max(MOST_FIELDS, 2 * len(value))
        events = np.empty((self._most, 6), dtype=np.int64)
        entry = 0 if node is None else int(schema.code[node.pc, 1])
        with interpreted() if shown and len(value) <= SMALL else contextlib.nullcontext():
            faults, count = walks.walk(schema, data, edges[:1], edges[1:], entry=entry, events=events)
        self._fault = faults[0].tolist()
        self._events = events[:count]
        self._rows = iter(self._events.tolist())
        self._texts = self._texts_of(data) if shown else iter([])
        with contextlib.suppress(_Stopped):
            self.value = self._parts(root)
            self.arrived = True
        self.is_stopped = self._fault[0] != 0
        self.is_damaged |= not self.arrived
        if self.arrived:
            self._stop()
        elif not self.troubles and not shown:
            self._trouble(Problem.VALUE, f"expected valid values, found an error after {self._most} of them", self.at)

    def _texts_of(self, data: walks.Bytes) -> Iterator[str | None]:
        """The text of each event's leaf, made column by column."""
        texts: list[str | None] = [None] * len(self._events)
        for instruction in np.unique(self._events[:, 0]).tolist():
            node = self._nodes[instruction]
            if node is None or node.kind in ("union", "array", "map"):
                continue
            rows = np.flatnonzero(self._events[:, 0] == instruction)
            spans = np.full((len(rows) + 1, 2), len(data), dtype=np.int32)
            spans[:-1] = self._events[rows, 2:4]
            numbers = np.ascontiguousarray(self._events[rows, 4])
            if node.logical == "decimal":
                numbers = np.array([walks.unscaled.plain(data, *span) for span in spans[:-1].tolist()])
            found, wrong = leaf_array(node, data, numbers, spans, None)
            valid = np.arange(len(rows)) if wrong is None else np.flatnonzero(~wrong)
            for row, text in zip(rows[valid].tolist(), to_text(found.take(valid)).to_pylist(), strict=True):
                texts[row] = text
        return iter(texts)

    def _stop(self) -> _Stopped:
        """Adds the error that ended the walk, if it is one."""
        fault, instruction, at, number, left = self._fault
        node = self._nodes[instruction]
        code, what = Problem.MALFORMED, f"a value of type {node}"
        if node is not None and node.kind in ("array", "map"):
            what = "the size of a block" if left else "the number of items in a block"
        elif node is not None and node.kind in _RUNS:
            what = f"the length of {node}"
        elif node is not None and node.kind in ("enum", "union"):
            what = f"the number of a symbol of {node}" if node.kind == "enum" else "the number of a union's member"
        if fault == walks.TRAILING:
            expected, found = "the end of the value", plural(number, "more byte")
        elif fault == walks.DEPTH:
            expected, found = f"at most {walks.MOST_NESTED} levels of values", "more"
        elif fault == walks.BLANK:
            expected, found, at = f"at most {walks.MOST_BLANK} items of no bytes", "more", self._block
        elif fault == walks.SHORT:
            code, expected, found = Problem.TRUNCATED, f"{plural(number, 'byte')} of {node}", f"{left}"
        elif fault == walks.NEGATIVE:
            expected, found = what, f"{number}"
        elif fault == walks.MEMBER:
            members = plural(len(node.inner) if node else 0, "type")
            expected, found = f"the number of one of {members}, from 0 on", f"{number}"
        elif fault == walks.END:
            code, expected, found = Problem.TRUNCATED, what, "the end of the value"
        else:
            limit = f"{walks.LONGEST} bytes" if fault == walks.LONG else "64 bits"
            expected, found = what, f"a number of more than {limit}"
        if len(self._events) == self._most:
            del self._path[1:]  # it is somewhere after them
        if fault:
            self._trouble(code, f"expected {expected}, found {found}", at)
        return _Stopped()

    def _trouble(self, code: Problem, sentence: str, at: int, text: str | None = None) -> None:
        self.troubles.append(Trouble(code, sentence, "".join(self._path).removeprefix("."), at, text))

    def _next(self) -> Any:
        """The next event: instruction, start, end of the length, end, number, size of the block."""
        event = next(self._rows, None)
        if event is None:
            raise self._stop()
        self._text = next(self._texts, None)
        self.at = event[3]
        return event

    def _add(self, name: str, start: int, end: int, text: str | None, meaning: str, code: str | None = None) -> None:
        if self._shown:
            self.fields.append(Field(name, start, end - start, self.bytes[start:end], text, meaning, (), code))

    # --- types ----------------------------------------------------------------------------------------------------

    def _named(self, node: Node, name: str) -> Any:
        """A value as a field of its own: one leaf, or a field of several parts. A field of one value has its text."""
        if node.kind in _SINGLE or not self._shown:
            return self._parts(node, name)
        outer, start, before = self.fields, self.at, len(self.troubles)
        self.fields, self._text = [], None
        try:
            return self._parts(node, name)
        finally:
            parts, self.fields = tuple(self.fields), outer
            found = self.troubles[before:]
            if parts or not found:
                end = parts[-1].offset + parts[-1].length if parts else start
                code = found[0].code if found and _has_text(node) else None
                text = self._text if _has_text(node) and code is None else None
                meaning = str(node)
                if node.kind == "entry":
                    meaning = "an entry of the map"
                    name = parts[1].value if len(parts) > 1 and parts[1].value is not None else name  # its key
                raw = self.bytes[start:end]
                self.fields.append(Field(name, start, len(raw), raw, text, meaning, parts, code))

    def _inside(self, step: str, node: Node, name: str) -> Any:
        self._path.append(step)
        value = self._named(node, name)
        self._path.pop()
        return value

    def _parts(self, node: Node, name: str = "value") -> Any:
        """A value as parts of the field that is open."""
        if node.kind == "record":
            fields = zip(node.names, node.inner, strict=True)
            return {label: self._inside(f".{label}", inner, label) for label, inner in fields}
        if node.kind == "recursive":
            return self._recursive(node)
        if node.kind in ("array", "map"):
            return self._blocks(node)
        if node.kind in ("union", "entry"):
            return self._union(node) if node.kind == "union" else self._entry(node)
        return self._value(node, name)

    def _recursive(self, node: Node) -> Any:
        """A record inside itself: JSON of the texts of its values, unless these are shown or are in such a text."""
        if self._shown or self._is_inside:
            return self._parts(node.inner[0])
        start, self._is_inside = self.at, True
        self._parts(node.inner[0])
        self._is_inside = False
        texts = Replay(self._schema, self.bytes[start : self.at], shown=True, node=node).value
        return msgspec.json.encode(texts).decode()

    def _value(self, node: Node, name: str) -> Any:
        if node.kind == "null":
            self._text = None
            self._add(name, self.at, self.at, None, str(node))
            return None
        _, start, middle, end, number, _ = self._next()
        is_run = node.kind in _RUNS
        begin = middle if is_run else start
        self._raw = self.bytes[begin:end]
        finding = finding_of(node, self._raw, number)
        if finding is not None:
            self._trouble(*finding, begin, self._raw.hex() if is_run or node.kind == "fixed" else str(number))
            self.is_damaged |= bool(node.name) and node.kind == "string"  # a key is never null
        if not self._shown:
            return None if finding is not None else _value_of(node, self._raw, number)
        meaning = str(node)
        if is_run:
            self._add("length", start, middle, str(end - middle), f"bytes of {meaning} that follow")
            meaning = "key of the entry" if node.name else meaning
            name = "key" if node.name else "text" if node.kind == "string" else "bytes"
        if finding is not None:
            meaning = f"{meaning}: {finding[1]}"
        elif node.kind == "enum":
            meaning = f"{meaning}: number {number}"
        self._add(name, begin, end, self._text, meaning, finding and finding[0])
        return self._text

    def _union(self, node: Node) -> Any:
        _, start, _, end, number, _ = self._next()
        member = node.inner[number]
        if self._shown:
            self._add("union index", start, end, str(number), f"member {number} of the union: {member}")
        self._text = None
        value = None if member.kind == "null" else self._parts(member)
        if self._shown or len(others := node.others) < 2 or member.kind == "null":
            return value
        return {f"member{others.index(member)}": value}

    def _entry(self, node: Node) -> tuple[str | None, Any]:
        key = self._value(node.inner[0], "")
        is_text = finding_of(node.inner[0], self._raw, 0) is None
        self._path.append(f"[{self._raw.decode() if is_text else self._raw.hex()}]")
        value = self._parts(node.inner[1])
        self._path.pop()
        return key, value

    def _blocks(self, node: Node) -> Any:
        """The items of an array, or the entries of a map."""
        items: list[Any] = []
        while True:
            _, start, middle, end, number, size = self._next()
            if number == 0:
                self._add("end", start, end, "0", "no more items")
                self._text = None
                if node.kind == "array":
                    return items
                entries = dict(items)  # of a key that repeats, the last value counts
                return entries if self._shown else list(entries.items())
            self._add("block count", start, middle, str(number), "items that follow; negative: their size comes first")
            if number < 0:
                self._add("block size", middle, end, str(size), "bytes of the items that follow")
            mark = len(self.fields) - 1
            for _ in range(abs(number)):
                before = self.at
                if node.kind == "array":
                    items.append(self._inside(f"[{len(items)}]", node.inner[0], f"[{len(items)}]"))
                else:
                    items.append(self._named(node.inner[0], "entry"))
                self._blank -= self.at == before
                self._block = start
                if self._blank < 0:
                    raise self._stop()
            if number < 0 and size != self.at - end:
                sentence = f"expected a block of {plural(size, 'byte')}, found {plural(self.at - end, 'byte')}"
                self._trouble(Problem.MALFORMED, sentence, middle)
                self.is_damaged = True
                if self._shown:
                    self.fields[mark] = replace(self.fields[mark], meaning=sentence, problem=Problem.MALFORMED)


def _value_of(node: Node, raw: bytes, number: int) -> Any:
    """A leaf as Arrow takes it."""
    if node.logical == "decimal":
        value = Decimal(f"{int.from_bytes(raw, 'big', signed=True)}E-{node.scale}")
        return f"{value:f}" if node.arrow == pa.string() else value
    if node.kind in ("float", "double"):
        return struct.unpack("<f" if node.kind == "float" else "<d", raw)[0]
    if node.kind == "boolean":
        return bool(number)
    if node.kind == "enum":
        return node.symbols[number]
    return raw.decode() if node.kind == "string" else raw if node.kind in ("bytes", "fixed") else number


def _has_text(node: Node) -> bool:
    """Whether it has a text of its own."""
    if node.kind in ("union", "entry"):
        return all(_has_text(member) for member in node.inner)
    return node.kind not in ("record", "array", "map", "recursive")


# --- anatomy ----------------------------------------------------------------------------------------------------------


def anatomy(schema: Schema, value: bytes, start: int = 0) -> Field:
    """The fields of one value with their bytes. Accepts any bytes; never raises. The first ``start`` bytes are not part
    of it; offsets count from their start. Leaves are adjacent: if the bytes are not a value of the schema, the rest of
    them is one leaf with a problem; the rest after very many leaves is one leaf without a problem. Numbers of union
    members, lengths, and the counts and sizes of blocks are leaves of their own.
    """
    replay = Replay(schema, value, start, shown=True)
    start = min(start, len(value))
    children = list(replay.fields)
    at = children[-1].offset + children[-1].length if children else start
    stopped = replay.troubles[-1] if replay.is_stopped else None
    if at < len(value):
        name = "trailing bytes" if replay.arrived else "undecoded" if stopped else "more"
        meaning = str(stopped) if stopped else f"not shown: the tree ends after {MOST_FIELDS} fields"
        code = stopped.code if stopped else None
        children.append(Field(name, at, len(value) - at, value[at:], None, meaning, (), code))
    top = schema.root if schema.is_record else schema.root.inner[0]
    name = top.name.rpartition(".")[2] if schema.is_record else TOP
    meaning = f"{top}; {stopped}" if stopped else str(top)
    return Field(
        name, start, len(value) - start, value[start:], None, meaning, tuple(children), stopped and stopped.code
    )
