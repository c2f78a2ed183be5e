"""One Avro value, read field by field: its field tree, the sentences of its errors, and the values of arrays, maps and
records inside themselves.

Numbers are zigzag varints of up to ten bytes, least significant seven bits first; float and double are little-endian;
texts and bytes follow their length; a union is the number of its member and the member; arrays and maps are blocks,
each preceded by its count (negative: the block's size in bytes follows), up to a block of count 0.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, NamedTuple

import msgspec

from cdcwb.formats.containers.avro_schema import NUMBER, RUN, TOP, WORD, Node, Schema, operation_of
from cdcwb.formats.containers.avro_values import finding_of, leaf_text, leaf_value
from cdcwb.formats.dissector import Field
from cdcwb.model import Problem
from cdcwb.words import plural

__all__ = ["LONGEST", "MOST_BLANK", "MOST_NESTED", "AvroReader", "Trouble", "anatomy", "read_value"]

LONGEST: Final = 10
"""Maximum bytes of a number."""

MOST_NESTED: Final = 64
"""Maximum depth of arrays, maps and records inside themselves, with the value."""

MOST_BLANK: Final = 16
"""Maximum items without bytes (null, an empty record) in one value, whose count has no other limit."""

MOST_FIELDS: Final = 100_000
"""Maximum leaves of a tree; the rest is left out."""

_SINGLE: Final = ("null", "boolean", "int", "long", "float", "double", "fixed", "enum")  # a value is one leaf


class Trouble(NamedTuple):
    """An error: the code and sentence, the field (``data.salary``), and the byte of the value."""

    code: Problem
    sentence: str
    path: str
    offset: int

    def __str__(self) -> str:
        return f"{self.path or 'the value'}: {self.sentence}, at byte {self.offset}"


class _Stopped(Exception):  # noqa: N818  (not an error: the value ends here)
    """The following bytes cannot be decoded."""


class AvroReader:
    """Reads values from byte ``at`` of ``data`` on.

    ``troubles`` are the errors in order; ``is_stopped``: after the last of them nothing can be read. ``is_complete``:
    the value was read to its end; ``is_damaged``: an error makes more than a single value null. ``shown``: ``fields``
    are those of the tree, and values are texts.
    """

    def __init__(self, data: bytes, at: int = 0, *, shown: bool = False) -> None:
        self.data, self.at = data, min(at, len(data))
        self.troubles: list[Trouble] = []
        self.fields: list[Field] = []
        self.is_damaged = self.is_stopped = self.is_complete = False
        self._shown = self._has_texts = shown
        self._path: list[str] = []
        self._text: str | None = None  # of the last leaf
        self._blank, self._level, self._leaves = MOST_BLANK, 1, 0
        if at > len(data):
            self.stop(f"{plural(at, 'byte')} at the beginning", f"{len(data)}", 0, Problem.TRUNCATED)

    def read(self, node: Node) -> Any:
        """The next value, as Arrow takes it for a column of this type; null if it has an error."""
        if self.is_stopped:
            return None
        try:
            value = self._parts(node)
        except _Stopped:
            return None
        self.is_complete = True
        return value

    @property
    def is_full(self) -> bool:
        """Whether further fields are left out."""
        return self._leaves >= MOST_FIELDS

    def stop(self, expected: str, found: object, at: int, code: Problem = Problem.MALFORMED) -> None:
        """Adds the error that ends the value."""
        self._trouble(code, f"expected {expected}, found {found}", at)
        self.is_damaged = self.is_stopped = True

    def _stop(self, *error: Any) -> _Stopped:
        self.stop(*error)
        return _Stopped()

    def _trouble(self, code: Problem, sentence: str, at: int) -> None:
        self.troubles.append(Trouble(code, sentence, "".join(self._path).removeprefix("."), at))

    def _number(self, node: Node, *, is_size: bool = False) -> int:
        """The next varint, zigzag-decoded."""
        start, bits, found = self.at, 0, f"a number of more than {LONGEST} bytes"
        for place, byte in enumerate(self.data[start : start + LONGEST]):
            if place == LONGEST - 1 and 1 < byte < 128:
                found = "a number of more than 64 bits"
                break
            bits |= (byte & 127) << 7 * place
            if byte < 128:
                self.at += place + 1
                return (bits >> 1) ^ -(bits & 1)
        what = f"a value of type {node}"
        if node.kind in ("array", "map"):
            what = "the size of a block" if is_size else "the number of items in a block"
        elif node.kind in ("string", "bytes"):
            what = f"the length of {node}"
        elif node.kind in ("enum", "union"):
            what = f"the number of a symbol of {node}" if node.kind == "enum" else "the number of a union's member"
        if len(self.data) - start < LONGEST:
            raise self._stop(what, "the end of the value", start, Problem.TRUNCATED)
        raise self._stop(what, found, start)

    def _add(self, name: str, start: int, end: int, text: str | None, meaning: str, code: str | None = None) -> None:
        """Adds a leaf of the tree."""
        if self._shown and not self.is_full:
            self.fields.append(Field(name, start, end - start, self.data[start:end], text, meaning, (), code))
            self._leaves += 1

    # --- types ----------------------------------------------------------------------------------------------------

    def _named(self, node: Node, name: str) -> Any:
        """A value as a field of its own: one leaf, or a field of several parts. A field of one value has its text."""
        if node.kind in _SINGLE or not self._shown:
            return self._parts(node, name)
        outer, start, before = self.fields, self.at, len(self.troubles)
        self.fields, self._text = [], None
        try:
            return self._parts(node)
        finally:
            parts, self.fields = tuple(self.fields), outer
            found = self.troubles[before:]
            if parts or not (found or self.is_full):
                end = parts[-1].offset + parts[-1].length if parts else start
                code = found[0].code if found and _has_text(node) else None
                text = self._text if _has_text(node) and code is None else None
                meaning = str(node)
                if node.kind == "entry":
                    meaning = "an entry of the map"
                    name = parts[1].value if len(parts) > 1 and parts[1].value is not None else name  # its key
                raw = self.data[start:end]
                self.fields.append(Field(name, start, len(raw), raw, text, meaning, parts, code))

    def _inside(self, step: str, node: Node, name: str) -> Any:
        self._path.append(step)
        value = self._named(node, name)
        self._path.pop()
        return value

    def _parts(self, node: Node, name: str = "value") -> Any:
        """A value as parts of the field that is open."""
        match node.kind:
            case "record":
                fields = zip(node.names, node.inner, strict=True)
                return {label: self._inside(f".{label}", inner, label) for label, inner in fields}
            case "union":
                return self._union(node)
            case "entry":
                return self._entry(node)
            case "null":
                self._text = None
                return self._add(name, self.at, self.at, None, str(node))
            case "array" | "map" | "recursive":
                if self._level == MOST_NESTED:
                    raise self._stop(f"at most {MOST_NESTED} levels of values", "more", self.at)
                self._level += 1
                value = self._recursive(node) if node.kind == "recursive" else self._blocks(node)
                self._level -= 1
                return value
        return self._leaf(node, name)

    def _recursive(self, node: Node) -> Any:
        """A record inside itself: JSON of the texts of its values, unless it is in such a text."""
        is_inside, self._has_texts = self._has_texts, True
        value = self._parts(node.inner[0])
        self._has_texts = is_inside
        return value if is_inside else msgspec.json.encode(value).decode()

    def _leaf(self, node: Node, name: str) -> Any:
        start, number = self.at, 0
        operation, size = operation_of(node)
        if operation in (NUMBER, RUN):
            number = size = self._number(node)
        begin = start if operation == NUMBER else self.at
        if operation != NUMBER:
            if size < 0:
                raise self._stop(f"the length of {node}", size, start)
            if size > len(self.data) - begin:
                raise self._stop(f"{plural(size, 'byte')} of {node}", len(self.data) - begin, start, Problem.TRUNCATED)
            self.at += size
        raw = self.data[begin : self.at]
        number = raw[0] if operation == WORD else number
        finding = finding_of(node, raw, number)
        is_key = bool(node.name) and operation == RUN
        if finding is not None:
            self._trouble(*finding, begin)
            self.is_damaged |= is_key  # it is never null
            value = raw.hex() if is_key else None
        else:
            value = leaf_text(node, raw, number) if self._has_texts else leaf_value(node, raw, number)
        if self._shown:
            self._text = None if finding is not None else value
            meaning = str(node)
            if operation == RUN:
                self._add("length", start, begin, str(size), f"bytes of {meaning} that follow")
                meaning = "key of the entry" if is_key else meaning
                name = "key" if is_key else "text" if node.kind == "string" else "bytes"
            if finding is not None:
                meaning = f"{meaning}: {finding[1]}"
            elif node.kind == "enum":
                meaning = f"{meaning}: number {number}"
            self._add(name, begin, self.at, self._text, meaning, finding and finding[0])
        return value

    def _union(self, node: Node) -> Any:
        start, number = self.at, self._number(node)
        if not 0 <= number < len(node.inner):
            raise self._stop(f"the number of one of {plural(len(node.inner), 'type')}, from 0 on", number, start)
        member = node.inner[number]
        if self._shown:
            self._add("union index", start, self.at, str(number), f"member {number} of the union: {member}")
        self._text = None
        value = None if member.kind == "null" else self._parts(member)
        if self._has_texts or len(others := node.others) < 2 or member.kind == "null":
            return value
        return {f"member{others.index(member)}": value}

    def _entry(self, node: Node) -> tuple[str, Any]:
        key = self._leaf(node.inner[0], "")
        self._path.append(f"[{key}]")
        value = self._parts(node.inner[1])
        self._path.pop()
        return key, value

    def _blocks(self, node: Node) -> Any:
        """The items of an array, or the entries of a map."""
        items: list[Any] = []
        while True:
            start, number, middle = self.at, self._number(node), self.at
            if number == 0:
                self._add("end", start, middle, "0", "no more items")
                self._text = None
                break
            self._add("block count", start, middle, str(number), "items that follow; negative: their size comes first")
            if number < 0:
                size, begin = self._number(node, is_size=True), self.at
                self._add("block size", middle, begin, str(size), "bytes of the items that follow")
            mark = len(self.fields) - 1
            for _ in range(abs(number)):
                before = self.at
                if node.kind == "array":
                    items.append(self._inside(f"[{len(items)}]", node.inner[0], f"[{len(items)}]"))
                else:
                    items.append(self._named(node.inner[0], "entry"))
                self._blank -= self.at == before
                if self._blank < 0:
                    raise self._stop(f"at most {MOST_BLANK} items of no bytes", "more", start)
            if number < 0 and size != self.at - begin:
                sentence = f"expected a block of {plural(size, 'byte')}, found {plural(self.at - begin, 'byte')}"
                self._trouble(Problem.MALFORMED, sentence, middle)
                self.is_damaged = True
                if self._shown and mark >= 0:
                    self.fields[mark] = replace(self.fields[mark], meaning=sentence, problem=Problem.MALFORMED)
        if node.kind == "array":
            return items
        entries = dict(items)  # of a key that repeats, the last value counts
        return entries if self._has_texts else list(entries.items())


def _has_text(node: Node) -> bool:
    """Whether it has a text of its own."""
    if node.kind in ("union", "entry"):
        return all(_has_text(member) for member in node.inner)
    return node.kind not in ("record", "array", "map", "recursive")


# --- values -----------------------------------------------------------------------------------------------------------


def read_value(schema: Schema, value: bytes, start: int = 0, *, shown: bool = False) -> AvroReader:
    """What has read one value; the first ``start`` bytes are not part of it, and none may follow it."""
    reader = AvroReader(value, start, shown=shown)
    reader.read(schema.root)
    if not reader.is_stopped and (more := len(value) - reader.at):
        reader.stop("the end of the value", plural(more, "more byte"), reader.at)
    return reader


def anatomy(schema: Schema, value: bytes, start: int = 0) -> Field:
    """The fields of one value with their bytes. Accepts any bytes; never raises. The first ``start`` bytes are not part
    of it; offsets count from their start. Leaves are adjacent: if the bytes are not a value of the schema, the rest of
    them is one leaf with a problem; the rest after very many leaves is one leaf without a problem. Numbers of union
    members, lengths, and the counts and sizes of blocks are leaves of their own.
    """
    reader = read_value(schema, value, start, shown=True)
    start = min(start, len(value))
    children = list(reader.fields)
    at = children[-1].offset + children[-1].length if children else start
    stopped = reader.troubles[-1] if reader.is_stopped else None
    if at < len(value):
        is_after = reader.is_complete and not reader.is_full
        name = "more" if stopped is None else "trailing bytes" if is_after else "undecoded"
        meaning = str(stopped) if stopped else f"not shown: the tree ends after {MOST_FIELDS} fields"
        code = stopped.code if stopped else None
        children.append(Field(name, at, len(value) - at, value[at:], None, meaning, (), code))
    top = schema.root if schema.is_record else schema.root.inner[0]
    name = top.name.rpartition(".")[2] if schema.is_record else TOP
    meaning = f"{top}; {stopped}" if stopped else str(top)
    return Field(
        name, start, len(value) - start, value[start:], None, meaning, tuple(children), stopped and stopped.code
    )
