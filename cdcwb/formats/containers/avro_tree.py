"""The field tree of one Avro value."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from cdcwb.formats.containers.avro import WalkedValues
from cdcwb.formats.containers.avro_schema import TOP, Node, Schema
from cdcwb.formats.containers.avro_values import nested_text, to_text
from cdcwb.formats.dissector import Field
from cdcwb.formats.kernels import interpreted
from cdcwb.model import Problem


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
