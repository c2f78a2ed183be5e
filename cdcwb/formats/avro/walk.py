"""One Avro value as a tree of fields, byte by byte.

Numbers are zigzag varints of up to ten bytes, least significant seven bits first; float and double are little-endian;
texts and bytes follow their length; a union is the number of its member and the member; arrays and maps are blocks,
each preceded by its count (negative: the block's size in bytes follows), up to a block of count 0.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from typing import Any, Final, NamedTuple

import fastavro

from cdcwb.errors import MalformedRecordError, TruncatedRecordError
from cdcwb.formats.avro.schema import (
    TOP,
    Array,
    Enum,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Recursive,
    Schema,
    Selection,
    Union,
)
from cdcwb.formats.avro.text import (
    Finding,
    as_json,
    check_number,
    check_uuid,
    decimal_of,
    describe,
    has_text,
    is_single,
    text_of,
)
from cdcwb.formats.dissector import Field
from cdcwb.model import Problem
from cdcwb.words import plural

__all__ = ["MOST_BLANK", "MOST_NESTED", "Trouble", "Walk", "anatomy", "decode_one"]


# --- walk -------------------------------------------------------------------------------------------------------------

MOST_NESTED: Final = 100
"""Maximum depth of nested values: a record inside itself is unlimited, and every level needs stack space."""

MOST_BLANK: Final = 16
"""Maximum items without bytes (null, an empty record) in one value, whose count has no other limit."""

MOST_FIELDS: Final = 100_000
"""Maximum leaves of a tree; the rest is left out."""

_LONGEST: Final = 10
_FLOATS: Final = {"float": struct.Struct("<f"), "double": struct.Struct("<d")}


class Trouble(NamedTuple):
    """An error: the code and sentence, the field (``data.salary``), and the byte of the value."""

    code: Problem
    sentence: str
    path: str
    offset: int

    def __str__(self) -> str:
        return f"{self.path or 'the value'}: {self.sentence}, at byte {self.offset}"


class _Stopped(Exception):  # noqa: N818  (not an error: the walk ends here)
    """The following bytes cannot be decoded."""


class Walk:
    """A walk through one value, from byte ``at``. Accepts any bytes. ``troubles`` are the errors in order, ``at`` is
    the end of the walk, ``arrived`` whether that is after the last field (else the last error stopped it), and
    ``fields`` are the fields of the tree, if requested, up to there. ``wanted``: in other fields, only the bytes that
    give their length are checked.
    """

    def __init__(self, value: bytes, at: int = 0, *, tree: bool = False, wanted: Selection | None = None) -> None:
        self.value = value
        self.at = min(at, len(value))
        self.troubles: list[Trouble] = []
        self.fields: list[Field] = []
        self.arrived = False
        self._tree = tree
        self._fields_left = MOST_FIELDS
        self._wanted = wanted  # of the next record
        self._unwanted = 0  # skipped fields that contain the current one
        self._path: list[str] = []
        self._levels = 0
        self._recursions = 0
        self._blank = MOST_BLANK
        self._text: str | None = None  # of the last value
        if at > len(value):
            self._trouble(Problem.TRUNCATED, f"expected {plural(at, 'byte')} at the beginning, found {len(value)}", 0)

    def record(self, record: Record, *, whole: bool = True) -> Any:
        """The record for pyarrow, None if it has an error. ``whole``: no byte may be left."""
        if self.troubles:
            return None
        try:
            found: Any = self._fields(record)
        except _Stopped:
            return None
        self.arrived = True
        if whole and self.at < len(self.value):
            found = None
            rest = plural(len(self.value) - self.at, "more byte")
            self._trouble(Problem.MALFORMED, f"expected the end of the value, found {rest}", self.at)
        return None if self.troubles else found

    # --- what is noted on the way ---------------------------------------------------------------------------------

    def _trouble(self, code: Problem, sentence: str, at: int) -> None:
        self.troubles.append(Trouble(code, sentence, "".join(self._path).removeprefix("."), at))

    def _find(self, finding: Finding, at: int) -> None:
        """Reports an error of a value that does not affect the following bytes."""
        if not self._unwanted:
            self._trouble(*finding, at)

    def _stop(self, code: Problem, sentence: str, at: int) -> _Stopped:
        self._trouble(code, sentence, at)
        return _Stopped()

    def _leaf(self, name: str, start: int, text: str | None, meaning: str, finding: Finding | None = None) -> None:
        """Adds the bytes from ``start`` to the current offset as one field."""
        if finding is not None:
            self._find(finding, start)
        if self._tree and self._fields_left == 0:
            self._tree = False
        if self._tree:
            self._fields_left -= 1
            said = meaning if finding is None else f"{meaning}: {finding[1]}"
            raw = self.value[start : self.at]
            self.fields.append(Field(name, start, len(raw), raw, text, said, (), finding and finding[0]))

    @contextmanager
    def _group(self, name: str, meaning: str, *, is_value: bool) -> Iterator[list[str]]:
        """A field of several parts; a value has the text of the last part. The list has the name, which may be
        corrected later."""
        if not self._tree:
            yield [name]
            return
        outer, start, before = self.fields, self.at, len(self.troubles)
        self.fields, self._text = [], None
        label = [name]
        try:
            yield label
        finally:
            parts, self.fields = tuple(self.fields), outer
            if parts or len(self.troubles) == before:
                raw = self.value[start : parts[-1].offset + parts[-1].length if parts else start]
                code = self.troubles[before].code if is_value and len(self.troubles) > before else None
                text = self._text if is_value and code is None else None
                self.fields.append(Field(label[0], start, len(raw), raw, text, meaning, parts, code))

    # --- numbers and bytes ----------------------------------------------------------------------------------------

    def _number(self, what: str) -> int:
        """The next varint, zigzag-decoded."""
        start, value, bits = self.at, 0, 0
        for place in range(_LONGEST):
            if start + place >= len(self.value):
                raise self._stop(Problem.TRUNCATED, f"expected {what}, found the end of the value", start)
            byte = self.value[start + place]
            bits |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                break
        else:
            raise self._stop(Problem.MALFORMED, f"expected {what}, found a number of more than {_LONGEST} bytes", start)
        if bits >> 64:
            raise self._stop(Problem.MALFORMED, f"expected {what}, found a number of more than 64 bits", start)
        self.at = start + place + 1
        value = bits >> 1
        return ~value if bits & 1 else value

    def _bytes(self, size: int, what: str, start: int) -> bytes:
        """The next bytes; ``start`` is the offset of their length."""
        left = len(self.value) - self.at
        if size < 0:
            raise self._stop(Problem.MALFORMED, f"expected the length of {what}, found {size}", start)
        if size > left:
            raise self._stop(Problem.TRUNCATED, f"expected {plural(size, 'byte')} of {what}, found {left}", start)
        self.at += size
        return self.value[self.at - size : self.at]

    def _sized(self, what: str) -> bytes:
        """The next bytes and their length, which becomes a part of its own."""
        start = self.at
        size = self._number(f"the length of {what}")
        behind = self.at
        data = self._bytes(size, what, start)
        self.at = behind
        self._leaf("length", start, str(size), f"bytes of {what} that follow")
        self.at += size
        return data

    # --- types ----------------------------------------------------------------------------------------------------

    def _named(self, node: Node, name: str) -> Any:
        """A value as a field of its own."""
        if is_single(node):
            return self._single(node, name)
        with self._group(name, describe(node) if self._tree else "", is_value=has_text(node)):
            return self._parts(node)

    def _parts(self, node: Node) -> Any:
        """A value as parts of the field that is open."""
        if is_single(node):
            return self._single(node, "value")
        if isinstance(node, Primitive):
            return self._text_or_bytes(node)
        if self._levels >= MOST_NESTED:
            levels = f"at most {MOST_NESTED} levels of values"
            raise self._stop(Problem.MALFORMED, f"expected {levels}, found more", self.at)
        self._levels += 1
        value = self._compound(node)
        self._levels -= 1
        return value

    def _compound(self, node: Node) -> Any:
        if isinstance(node, Union):
            return self._union(node)
        if isinstance(node, Record):
            return self._fields(node)
        if isinstance(node, Recursive):
            return self._recursive(node)
        if isinstance(node, Array):
            items: list[Any] = []
            self._blocks(lambda place: items.append(self._item(node.items, place)))
            return items
        assert isinstance(node, Map)
        entries: dict[str, Any] = {}
        self._blocks(lambda _: entries.update([self._entry(node.values)]))
        return list(entries.items())

    def _fields(self, record: Record) -> dict[str, Any]:
        found = {}
        wanted = self._wanted
        for name, node in record.fields.items():
            is_wanted = wanted is None or name in wanted
            self._wanted = wanted[name] if wanted is not None and is_wanted else None
            self._unwanted += not is_wanted
            self._path.append(f".{name}")
            found[name] = self._named(node, name)
            self._path.pop()
            self._unwanted -= not is_wanted
        return found

    def _value_leaf(
        self, name: str, start: int, node: Node, value: Any, meaning: str, finding: Finding | None = None
    ) -> Any:
        """Adds a value, from ``start`` to the current offset; returns it, or None if it is invalid."""
        if finding is not None:
            value = None
        if self._tree:
            self._text = None if value is None else text_of(node, value)
        if self._tree or finding is not None:
            self._leaf(name, start, self._text, meaning, finding)
        return value

    def _single(self, node: Node, name: str) -> Any:
        """A value that is one leaf."""
        start = self.at
        finding: Finding | None = None
        value: Any = None
        meaning = describe(node)
        if isinstance(node, Fixed):
            data = self._bytes(node.size, meaning, start)
            value, finding = decimal_of(node, data) if node.logical else (data, None)
        elif isinstance(node, Enum):
            number = self._number(f"the number of a symbol of {meaning}")
            if 0 <= number < len(node.symbols):
                value, meaning = node.symbols[number], f"{meaning}: number {number}"
            else:
                symbols = plural(len(node.symbols), "symbol")
                finding = Problem.VALUE, f"expected the number of one of {symbols}, from 0 on, found {number}"
        else:
            assert isinstance(node, Primitive)
            if node.kind in ("int", "long"):
                value = self._number(f"a value of type {meaning}")
                finding = check_number(node, value)
            elif node.kind in _FLOATS:
                form = _FLOATS[node.kind]
                value = form.unpack(self._bytes(form.size, meaning, start))[0]
            elif node.kind == "boolean":
                byte = self._bytes(1, meaning, start)[0]
                value = byte == 1
                finding = None if byte < 2 else (Problem.VALUE, f"expected a byte 0 or 1, found {byte}")
        return self._value_leaf(name, start, node, value, meaning, finding)

    def _text_or_bytes(self, node: Primitive) -> Any:
        data = self._sized(describe(node))
        start = self.at - len(data)
        value: Any = data
        finding: Finding | None = None
        if node.kind == "string":
            value, finding = _text(data)
            if finding is None and node.logical:
                finding = check_uuid(value)
        elif node.logical:
            value, finding = decimal_of(node, data)
        name = "text" if node.kind == "string" else "bytes"
        return self._value_leaf(name, start, node, value, describe(node), finding)

    def _union(self, node: Union) -> Any:
        start = self.at
        number = self._number("the number of a union's member")
        if not 0 <= number < len(node.members):
            self.at = start
            members = plural(len(node.members), "type")
            raise self._stop(
                Problem.MALFORMED, f"expected the number of one of {members}, from 0 on, found {number}", start
            )
        member, place = node.members[number], node.places[number]
        if self._tree:
            self._leaf("union index", start, str(number), f"member {number} of the union: {describe(member)}")
        if place is None:
            self._text = None
            return None
        value = self._parts(member)
        return {f"member{place}": value} if node.several else value

    def _recursive(self, node: Recursive) -> Any:
        """A record inside itself: the outermost as JSON, the inner ones as its parts."""
        self._recursions += 1
        value = self._fields(node.record)
        self._recursions -= 1
        if self._recursions or self.troubles:
            return value
        return json.dumps(as_json(node.record, value), ensure_ascii=False, separators=(",", ":"))

    def _blocks(self, one: Callable[[int], Any]) -> None:
        """Calls ``one`` for every item of an array or map."""
        items = 0
        while True:
            start = self.at
            count = self._number("the number of items in a block")
            if count == 0:
                self._leaf("end", start, "0", "no more items")
                return
            self._leaf("block count", start, str(count), "items that follow; negative: their size comes first")
            size, at = None, self.at
            if count < 0:
                size = self._number("the size of a block")
                self._leaf("block size", at, str(size), "bytes of the items that follow")
            begin, place = self.at, len(self.fields) - 1
            for _ in range(abs(count)):
                before = self.at
                one(items)
                items += 1
                if self.at == before:
                    self._blank -= 1
                    if self._blank < 0:
                        raise self._stop(
                            Problem.MALFORMED, f"expected at most {MOST_BLANK} items of no bytes, found more", start
                        )
            if size is not None and size != self.at - begin:
                sentence = f"expected a block of {plural(size, 'byte')}, found {plural(self.at - begin, 'byte')}"
                self._find((Problem.MALFORMED, sentence), at)
                if self._tree:
                    self.fields[place] = replace(self.fields[place], meaning=sentence, problem=Problem.MALFORMED)

    def _item(self, node: Node, place: int) -> Any:
        self._path.append(f"[{place}]")
        value = self._named(node, f"[{place}]")
        self._path.pop()
        return value

    def _entry(self, node: Node) -> tuple[str, Any]:
        with self._group("entry", "an entry of the map", is_value=has_text(node)) as label:
            data = self._sized("a key")
            key, finding = _text(data)
            label[0] = label[0] if key is None else key
            self._leaf("key", self.at - len(data), key, "key of the entry", finding)
            self._path.append(f"[{data.hex() if key is None else key}]")
            value = self._parts(node)
            self._path.pop()
        return key or "", value


def _text(data: bytes) -> tuple[str | None, Finding | None]:
    try:
        return data.decode(), None
    except UnicodeDecodeError as error:
        found = data[error.start : error.start + 4].hex()
        return None, (Problem.CHARSET, f"expected UTF-8, found {found} at byte {error.start} of the text")


# --- anatomy ----------------------------------------------------------------------------------------------------------


def anatomy(schema: Schema, value: bytes, start: int = 0) -> Field:
    """The fields of one value with their bytes. Accepts any bytes; never raises. The first ``start`` bytes are not part
    of it; offsets count from their start. Leaves are adjacent: if the bytes are not a value of the schema, the rest of
    them is one leaf with a problem; the rest after very many leaves is one leaf without a problem. Numbers of union
    members, lengths, and the counts and sizes of blocks are leaves of their own.
    """
    walk = Walk(value, start, tree=True)
    walk.record(schema.root)
    start = min(start, len(value))
    children = list(walk.fields)
    at = children[-1].offset + children[-1].length if children else start
    stopped = walk.troubles[-1] if not walk.arrived or walk.at < len(value) else None
    if at < len(value):
        children.append(_rest(walk, at))
    if schema.is_record:
        name, meaning = schema.root.name.rpartition(".")[2], describe(schema.root)
    else:
        name, meaning = TOP, describe(schema.root.fields[TOP])
    if stopped:
        meaning = f"{meaning}; {stopped}"
    code = stopped.code if stopped else None
    return Field(name, start, len(value) - start, value[start:], None, meaning, tuple(children), code)


def _rest(walk: Walk, at: int) -> Field:
    """Bytes that are not dissected: undecodable bytes, bytes after the value, or too many fields."""
    rest = walk.value[at:]
    if walk.arrived and at < walk.at:
        name, trouble = "more", next((one for one in walk.troubles if one.offset >= at), None)
    else:
        name, trouble = "trailing bytes" if walk.arrived else "undecoded", walk.troubles[-1]
    meaning = str(trouble) if trouble else f"not shown: the tree ends after {MOST_FIELDS} fields"
    return Field(name, at, len(rest), rest, None, meaning, (), trouble and trouble.code)


def decode_one(schema: Schema, value: bytes) -> tuple[Any, int]:
    """One value by fastavro, and its number of bytes: the reference for the decoder. Errors are detected before
    fastavro, since it accepts some damage, and reads some without end. Raises TruncatedRecordError if the bytes end too
    early, else MalformedRecordError.
    """
    walk = Walk(value)
    walk.record(schema.root, whole=False)
    if walk.troubles:
        first = walk.troubles[0]
        kind = TruncatedRecordError if first.code == Problem.TRUNCATED else MalformedRecordError
        raise kind(f"{first.path or 'the value'}: {first.sentence}", offset=first.offset)
    source = BytesIO(value)
    found: Any = fastavro.schemaless_reader(source, schema.parsed, None)
    return (found if schema.is_record else found[TOP]), source.tell()
