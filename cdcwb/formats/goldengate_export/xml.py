"""Records of XML exports: their framing, events, and field trees (docs/formats/goldengate.md §8). Two forms:
consecutive ``<operation …>…</operation>``, and FORMATXML: ``<transaction …>`` around ``<dbupdate …>`` elements, without
a root. One pattern finds the relevant tags and skips CDATA sections and comments, which may hide them. A record is an
element with the following white space; the first ``dbupdate`` of a transaction includes the transaction's tag, the last
one its end. The parser is Expat without external entities: a document type or entity declaration is rejected. Binary
columns (Base64 in FORMATXML) cannot be distinguished from text and remain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import islice
from typing import Any, Final
from xml.etree import ElementTree
from xml.parsers import expat

import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.containers.console import is_note
from cdcwb.formats.dissector import Field
from cdcwb.formats.goldengate_export.records import (
    OPERATIONS,
    UNREADABLE,
    Batch,
    Event,
    Item,
    Record,
    field_meaning,
    role_of_token,
    token_meaning,
)
from cdcwb.model import Kind, Operation, Problem

__all__ = ["TOKEN", "What", "XmlReader", "boundaries", "parse_element", "pieces", "xml_fields"]


# `|(?!)` in a possessive group: see tests/possessive.py
TOKEN: Final = re.compile(
    rb"<(?:"
    rb"!\[CDATA\[[^\]<]*+(?:(?:\](?!\]>)|<(?!!\[CDATA\[)"
    # a section inside a section, for a value that is XML: the inner end is split in two
    rb"|<!\[CDATA\[[^\]]{0,65536}+(?:\](?!\]>)[^\]]{0,65536}+|(?!)){0,256}+(?<=\]\])\]\]><!\[CDATA\[>"
    rb"|(?!))[^\]<]*+)*+\]\]>"
    rb"|!--(?:[^-]++|-(?!-)|(?!))*+-->"
    rb"|(/?)(operation|dbupdate|transaction)(?=[\s/>])(?:[^<>\"']++|\"[^\"<]*+\"|'[^'<]*+'|(?!))*+(>)\s*+"
    rb")"
)
"""A CDATA section, a comment, or a tag of a framing element, with the following white space: group 1 is the tag's
slash, group 2 its name, group 3 its last character.

A section in which another one begins is damage (its own end is lost), and does not match.
"""

_ASIDE: Final = re.compile(
    rb"(?:\s++|<\?[^<>]*+>|<!--(?:[^-]++|-(?!-)|(?!))*+-->|<!DOCTYPE[^<>\[]*+(?:\[[^\]]*+\]\s*+|(?!))?+>"
    rb"|</?(?!(?:col|cols|column|columns|before|after|token|tokens|Name|Value|operation|dbupdate|transaction)[\s/>])"
    rb"[A-Za-z_][^<>]*+>|\xef\xbb\xbf|(?!))*+\Z"
)
"""Filler between elements: white space, declarations, comments, the tags of a root."""


class What(IntEnum):
    """The kinds of pieces of a file."""

    ELEMENT = 0
    EMPTY = 1
    """A transaction without a record in it."""
    FILLER = 2
    MALFORMED = 3


@dataclass(slots=True)
class Transaction:
    """A FORMATXML transaction. ``offset``: its start; ``tag``: its opening tag, None if missing. ``count``: its records
    so far."""

    offset: int
    tag: tuple[int, int] | None
    count: int = 0


@dataclass(slots=True)
class Piece:
    """A stretch ``[start, stop)`` of a file; ``[first, last)`` is the element in it. ``number``: its index in the
    ``transaction``, from 1. ``ends``: the transaction's end follows it; ``unended``: the transaction has no end.
    ``reason``: its error, ``cut``: the stretch is truncated: an element, or a transaction (``first`` is -1)."""

    what: What
    start: int
    stop: int
    first: int = -1
    last: int = -1
    transaction: Transaction | None = None
    number: int = 0
    ends: bool = False
    unended: bool = False
    reason: str | None = None
    cut: bool = False


def pieces(
    view: memoryview, start: int, stop: int, transaction: Transaction | None = None, final: bool = True
) -> Iterator[Piece]:
    """All pieces of ``[start, stop)``, which begins where a record begins, in order, without holes. With a
    ``transaction`` that began earlier, its next record is at ``start``."""
    return _Framer(view, start, stop, transaction).run()


def boundaries(view: memoryview, size: int) -> list[int]:
    """The offsets at which the file may be split: at operations and transactions, at least ``size`` bytes apart, from 0
    on."""
    found = [0]
    for piece in pieces(view, 0, len(view)):
        one = piece.transaction
        begins = piece.first if one is None else one.offset if one.tag is not None else -1
        if begins == piece.start >= found[-1] + size:
            found.append(piece.start)
    return found


class _Framer:
    def __init__(self, view: memoryview, start: int, stop: int, transaction: Transaction | None) -> None:
        self.view, self.stop = view, stop
        self.mark = start  # the end of the pieces so far
        self.transaction = transaction
        self.open: tuple[bytes, int] | None = None  # the element that is open: name and first byte
        self.held: Piece | None = None  # the last piece, which following text may belong to
        self.ready: list[Piece] = []

    def run(self) -> Iterator[Piece]:
        for token in TOKEN.finditer(self.view, self.mark, self.stop):
            if token.lastindex is None:
                continue
            slash, name = token.group(1, 2)
            first, last, stop = token.start(), token.end(3), token.end()
            if not slash:
                self.begin(name, first, last)
            if slash or self.view[last - 2] == _SLASH:
                if name == b"transaction":
                    self.transaction_ends(first if slash else last, stop)
                else:
                    self.element_ends(name, last, stop)
            yield from self.ready
            self.ready.clear()
        self.cut(self.stop)
        self.leave(self.stop)
        self.between(self.stop)
        if self.mark < self.stop:
            self.add(Piece(What.FILLER, self.mark, self.stop))
        if self.held is not None:
            self.ready.append(self.held)
        yield from self.ready

    # --- tokens

    def begin(self, name: bytes, first: int, last: int) -> None:
        self.cut(first)
        if name != b"dbupdate":
            self.leave(first)
        self.between(first)
        if name == b"transaction":
            self.transaction = Transaction(first, (first, last))
        else:
            self.open = name, first

    def element_ends(self, name: bytes, last: int, stop: int) -> None:
        if self.open is None or self.open[0] != name:
            self.malformed(stop, f"the end tag of an element ({_spelled(name)}) without its start tag")
            self.open = None
            return
        begin, self.open = self.open[1], None
        piece = Piece(What.ELEMENT, self.mark, stop, begin, last)
        if name == b"dbupdate":
            if self.transaction is None:
                self.transaction = Transaction(self.mark, None)
            self.transaction.count += 1
            piece.transaction, piece.number = self.transaction, self.transaction.count
        self.add(piece)

    def transaction_ends(self, first: int, stop: int) -> None:
        self.cut(first)
        one, self.transaction = self.transaction, None
        if one is None:
            self.malformed(stop, "the end of a transaction whose begin is missing")
        elif not one.count and self.mark <= one.offset:
            piece = Piece(What.EMPTY, self.mark, stop, transaction=one, ends=True)
            if not _blank(self.view[one.tag[1] if one.tag else self.mark : first]):
                piece = Piece(What.MALFORMED, self.mark, stop, reason="a transaction in which no record can be read")
            self.add(piece)
        elif self.held is not None and _blank(self.view[self.mark : first]):
            self.held.stop = self.mark = stop
            self.held.ends = self.held.transaction is one
        else:
            self.malformed(stop, "something other than a record inside a transaction")

    # --- pieces

    def add(self, piece: Piece) -> None:
        if self.held is not None:
            self.ready.append(self.held)
        self.held, self.mark = piece, piece.stop

    def malformed(self, stop: int, reason: str, cut: bool = False, first: int = -1) -> None:
        if stop > self.mark:
            one = self.transaction
            self.add(Piece(What.MALFORMED, self.mark, stop, first, stop, one, reason=reason, cut=cut))

    def cut(self, stop: int) -> None:
        """Ends an open element at the start of something else."""
        if self.open is not None:
            name, begin = self.open
            self.open = None
            sentence = f"the element {_spelled(name)} that begins at offset {begin} is cut off at offset {stop}"
            self.malformed(stop, f"{sentence}; only its complete fields are shown", True, begin)

    def leave(self, stop: int) -> None:
        """Leaves a transaction that has no end."""
        one, self.transaction = self.transaction, None
        if one is None:
            return
        if self.held is not None and self.held.transaction is one:
            self.held.unended = True
        elif not one.count and one.offset >= self.mark:
            self.malformed(stop, f"truncated: the transaction that begins at offset {one.offset} has no end", True)

    def between(self, stop: int) -> None:
        """Handles the text before an element that begins at ``stop``."""
        one = self.transaction
        first = self.mark
        if one is not None and one.tag is not None and self.mark <= one.offset:
            first = one.tag[1]  # the tag belongs to the record that follows
        if first >= stop:
            return
        text = self.view[first:stop]
        if bytes(text[:_FAR]).isspace() and (stop - first <= _FAR or _blank(text)):
            if first == self.mark and self.held is not None:
                self.held.stop = self.mark = stop
            return
        aside = _ASIDE.match(text) is not None or _is_note(text)
        if aside and first == self.mark:
            self.add(Piece(What.FILLER, self.mark, stop))
        elif not aside:
            self.malformed(stop, f"expected the begin of a record, found {_shown(text)}")


def _is_note(text: memoryview) -> bool:
    """Whether these lines are headings and comments by the author of the file."""
    return len(text) <= _FAR and all(is_note(line) for line in map(bytes.strip, bytes(text).split(b"\n")) if line)


def _blank(text: memoryview) -> bool:
    return _BLANK.match(text) is not None


_FAR: Final = 1 << 12
_SLASH: Final = ord("/")
_BLANK: Final = re.compile(rb"\s*+\Z")


def _spelled(name: bytes) -> str:
    return f"<{name.decode('ascii')}>"


def _shown(text: memoryview) -> str:
    there = bytes(text[:256]).strip()[:40].decode("utf-8", "replace")
    return repr(there)


BATCH: Final = 4096
"""Records of a batch, unless a transaction is longer; of such a one four times as many."""

_BYTES: Final = 16 << 20
_BOTH: Final = 2  # ids of a transaction
_LATIN: Final = "iso-8859-1"
_TRUE: Final = frozenset({"true", "1", "yes"})
_NULLS: Final = frozenset({"isNull", "isnull", "is_null", "null", "nil", "xsi:nil"})
_MISSING: Final = frozenset({"missing", "isMissing", "ismissing"})


# --- elements ---------------------------------------------------------------------------------------------------------


def parse_element(text: bytes, complete: bool = True) -> Record:
    """The record of an ``operation`` or ``dbupdate`` element in UTF-8; for one that is not ``complete`` the content of
    its beginning. Raises ValueError with the error and the byte."""
    parser = expat.ParserCreate("utf-8")
    builder = _Builder()
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data.append
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = _refuse
    try:
        parser.Parse(text, complete)
    except expat.ExpatError as reason:
        found = expat.ErrorString(reason.code)
        raise ValueError(f"expected XML, found {found} at byte {parser.ErrorByteIndex}") from None
    finally:
        parser.StartElementHandler = parser.EndElementHandler = parser.CharacterDataHandler = None
    if builder.attributes is None:
        raise ValueError("expected an element, found none")
    table, operation = builder.attributes.get("table"), builder.attributes.get("type")
    before, after = builder.images["before"] or None, builder.images["after"] or None
    return Record(table, operation, builder.attributes, builder.tokens, before, after, builder.keys, complete=complete)


def _refuse(*_: Any) -> None:
    raise ValueError("a document type or an entity is declared, which exports do not do")


class _Builder:
    """Collects the parts of an element from the events of the parser."""

    def __init__(self) -> None:
        self.attributes: dict[str, str] | None = None
        self.tokens: dict[str, str | None] = {}
        self.images: dict[str, dict[str, str | None]] = {"before": {}, "after": {}}
        self.keys: list[str] = []
        self.data: list[str] = []
        self.column: str | None = None
        self.null = self.missing = False
        self.part = "after"  # the image of FORMATXML's columns
        self.token: str | None = None

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.data.clear()
        if name in ("before", "after"):
            self.null = _is_flagged(attributes, _NULLS)
            self.missing = _is_flagged(attributes, _MISSING)
        elif name in ("col", "column"):
            self.column = attributes.get("name", "")
            status = attributes.get("status", "").lower()
            self.null = status == "null" or (len(attributes) > 1 and _is_flagged(attributes, _NULLS))
            self.missing = status == "missing"
            if attributes.get("key", "").lower() in _TRUE:
                self.keys.append(self.column)
        elif name == "token":
            self.token = attributes.get("name")
        elif self.attributes is None:
            self.attributes = attributes
            self.part = "before" if attributes.get("image", "").lower() == "before" else "after"

    def end(self, name: str) -> None:
        if name in ("column", "before", "after"):
            if self.column is not None and not self.missing:
                image = self.images[self.part if name == "column" else name]
                image[self.column] = None if self.null else "".join(self.data)
        elif name == "Name":
            self.token = "".join(self.data)
        elif name == "Value" or (name == "token" and self.token is not None and self.token not in self.tokens):
            self.tokens[self.token or ""] = "".join(self.data)
            self.token = None if name == "token" else self.token
        self.data.clear()


def _is_flagged(attributes: Mapping[str, str], flags: frozenset[str]) -> bool:
    """Whether one of the flags is true."""
    return any(value.lower() in _TRUE for name, value in attributes.items() if name in flags)


def _decoded(text: bytes, encoding: str | None) -> tuple[bytes, bool]:
    """A text in UTF-8, and whether it is not in the ``encoding`` that the file declares. Without a declaration it is
    UTF-8 if it can be, else ISO 8859-1, the default of FORMATXML."""
    if text.isascii():
        return text, False
    try:
        return text.decode(encoding or "utf-8").encode("utf-8", "replace"), False
    except (UnicodeError, LookupError):
        return text.decode(_LATIN).encode(), encoding is not None


# --- transactions -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Ids:
    """The attributes of a transaction's tag, and the ids (``xid``, ``csn``) in the tokens of its records. ``complete``:
    the tokens of all of its records were read."""

    transaction: Transaction
    attributes: Mapping[str, str]
    known: dict[str, str] = field(default_factory=dict)
    complete: bool = False

    def take(self, tokens: Mapping[str, str | None]) -> str | None:
        """Adds the tokens of a record; returns a sentence if they contradict earlier ones."""
        wrong = None
        for name, value in tokens.items():
            role = role_of_token(name)
            if value and role is not None and (known := self.known.setdefault(role, value)) != value:
                what = "id" if role == "xid" else "commit sequence number"
                wrong = f"{name} is {value}, but the transaction's {what} is {known}"
        return wrong


class XmlReader:
    """Reads the records of one file, in order. ``view`` is the decompressed file, ``index`` its index in the capture,
    ``encoding`` the one it declares (None: none)."""

    def __init__(self, view: memoryview, index: int, encoding: str | None) -> None:
        self.view, self.index, self.encoding = view, index, encoding
        self._before: tuple[int, str | None] | None = None  # transaction and table of the record before: a before image
        self._ids: _Ids | None = None

    def batches(self, start: int, stop: int) -> Iterator[Batch]:
        """The records of ``[start, stop)`` in batches; transactions are kept together up to a limit."""
        found: list[Piece] = []
        for piece in pieces(self.view, start, stop):
            found.append(piece)
            many, size = len(found), piece.stop - found[0].start
            if many >= BATCH or size >= _BYTES:
                inside = piece.transaction is not None and not (piece.ends or piece.unended)
                if not inside or many >= 4 * BATCH or size >= 4 * _BYTES:
                    yield self._batch(found, stop)
                    found = []
        if found:
            yield self._batch(found, stop)

    def _batch(self, found: list[Piece], stop: int) -> Batch:
        """Decodes neighbouring pieces; ``stop`` is the end of the split that they are in."""
        decoded = [self._item(piece) for piece in found]
        last, ids = found[-1], decoded[-1][1]
        if ids is not None and not (last.ends or last.unended):
            self._look_ahead(last, ids, stop)
        items = [
            item if ids is None else self._in_transaction(item, piece, ids)
            for piece, (item, ids) in zip(found, decoded, strict=True)
        ]
        start, end = (pa.array([getattr(piece, name) for piece in found], pa.int64()) for name in ("start", "stop"))

        def raw() -> pa.Array:
            return pa.array([bytes(self.view[piece.start : piece.stop]) for piece in found], pa.binary())

        return Batch(items, start, pc.subtract(end, start), raw, False)

    def _item(self, piece: Piece) -> tuple[Item, _Ids | None]:
        ids, item = self._ids_of(piece), Item()
        if piece.what is What.FILLER or piece.what is What.EMPTY:
            item.kind = Kind.FILLER if piece.what is What.FILLER else Kind.CONTROL
            return item, ids
        text, is_undeclared = _decoded(self._bytes(piece), self.encoding)
        complete = piece.what is What.ELEMENT
        if not complete:
            item.wrong = Problem.TRUNCATED if piece.cut else Problem.MALFORMED, piece.reason or ""
        try:
            item.record = record = parse_element(text, complete)
        except ValueError as reason:
            item.wrong = item.wrong or (Problem.MALFORMED, str(reason))
        else:
            if ids is not None:
                self._complete(item, record, ids)
            if complete and is_undeclared:
                sentence = f"the text is not in {self.encoding}, which the file declares; it is read as ISO 8859-1"
                item.notes += ((Problem.CHARSET, sentence),)
        if item.wrong is not None:
            item.kind = Kind.MALFORMED
            self._before = None
            if ids is not None:
                item.notes += ((Problem.GAP, UNREADABLE),)
        return item, ids

    def _bytes(self, piece: Piece) -> bytes:
        """The element of a piece; for a truncated one everything up to the end of its last tag; else nothing."""
        if piece.first < 0 or (piece.what is not What.ELEMENT and not piece.cut):
            return b""
        text = bytes(self.view[piece.first : piece.last])
        return text[: text.rfind(b">") + 1] if piece.cut else text

    def _ids_of(self, piece: Piece) -> _Ids | None:
        one = piece.transaction
        if one is None:
            return None
        if self._ids is None or self._ids.transaction.offset != one.offset:
            attributes: Mapping[str, str] = {}
            if one.tag is not None:
                tag, _ = _decoded(bytes(self.view[one.tag[0] : one.tag[1]]), self.encoding)
                with suppress(ValueError):
                    attributes = parse_element(tag[:-1].rstrip(b"/") + b"/>").headers
            self._ids = _Ids(one, attributes)
        return self._ids

    def _look_ahead(self, last: Piece, ids: _Ids, stop: int) -> None:
        """Reads on for the ids of a transaction that continues after the batch."""
        if ids.complete or len(ids.known) == _BOTH:
            return
        ids.complete = True
        for piece in pieces(self.view, last.stop, stop, replace(ids.transaction)):
            if piece.transaction is None or piece.transaction.offset != ids.transaction.offset:
                return
            text = self._bytes(piece) if piece.what is What.ELEMENT else b""
            if b"<token" in text:
                with suppress(ValueError):
                    ids.take(parse_element(_decoded(text, self.encoding)[0]).tokens)
            if piece.ends or len(ids.known) == _BOTH:
                return

    def _complete(self, item: Item, record: Record, ids: _Ids) -> None:
        """Adds the attributes of its transaction to a record; finds out whether it is half of an update."""
        is_update = OPERATIONS.get((record.operation or "").upper()) == Operation.UPDATE
        here = ids.transaction.offset, record.table
        if is_update and record.headers.get("image", "").lower() == "before":
            record.half = Kind.BEFORE
        elif is_update and self._before == here:
            record.half = Kind.AFTER
        self._before = here if record.half is Kind.BEFORE else None
        record.headers = {**record.headers, **{n: v for n, v in ids.attributes.items() if n not in record.headers}}
        wrong = ids.take(record.tokens)
        if wrong is not None:
            item.notes += ((Problem.CONFLICT, wrong),)

    def _in_transaction(self, item: Item, piece: Piece, ids: _Ids) -> Item:
        """Adds id, order and end of the transaction, and the headers that name them in every record."""
        xid = ids.known.get("xid")
        event: Event = {"transaction_id": xid or f"~{self.index}:{ids.transaction.offset}"}
        item.transaction, has_tag, indicator = event, ids.transaction.tag is not None, None
        if piece.what is not What.MALFORMED:
            event["event_no"], event["last_in_transaction"] = piece.number or None, piece.ends
            is_first = piece.number <= 1 and has_tag
            indicator = ("3" if piece.ends else "0") if is_first else ("2" if piece.ends else "1")
            if piece.number == 1 and not has_tag:
                item.notes += ((Problem.NO_BEGIN, "the tag that opens the transaction is missing"),)
            if piece.unended:
                item.notes += ((Problem.OPEN_TRANSACTION, "the tag that ends the transaction is missing"),)
        if piece.what is What.EMPTY:
            event["record_type"], event["headers"] = "transaction", ids.attributes
        item.facts = {"csn": ids.known.get("csn"), "xid": xid, "TransInd": indicator}
        return item


# --- field tree -------------------------------------------------------------------------------------------------------

_MOST: Final = 100_000
"""Maximum tags and texts of a record; the rest is not dissected."""

_DEEPEST: Final = 200
# `|(?!)` in a possessive group: see tests/possessive.py
_PART: Final = re.compile(
    rb"<!\[CDATA\[(?P<section>.*?)(?:\]\]>|\Z)"
    rb"|(?P<aside><!--.*?(?:-->|\Z)|<[?!][^<>]*+>)"
    rb"|<(?P<slash>/?)(?P<name>[A-Za-z_:\x80-\xff][^\s<>/=\"']*+)(?:[^<>\"']++|\"[^\"<]*+\"|'[^'<]*+'|(?!))*+>"
    rb"|(?P<text>[^<]++)|<",
    re.DOTALL,
)
_ATTRIBUTE: Final = re.compile(rb"([^\s=<>\"'/]+)\s*+=\s*+(?:\"([^\"]*)\"|'([^']*)')")
_MEANINGS: Final = {
    "transaction": "a transaction; its timestamp is that of its commit and has no zone",
    "dbupdate": "one change of a row",
    "operation": "one operation",
    "columns": "the columns that the record has",
    "tokens": "tokens of the trail record",
    "before": "the value before the change",
    "after": "the value after the change",
    "Name": "name of the token",
    "Value": "value of the token",
}


@dataclass(slots=True)
class _Open:
    """An open element: its name, its start, its tag's attributes, and its content so far."""

    name: str
    start: int
    attributes: dict[str, str]
    parts: list[Field] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)


def xml_fields(record: bytes) -> Field:
    """The tree of one record of an XML export. Every byte is in one leaf, whatever the bytes are. Never raises."""
    tree, end = _Tree(record), 0
    for found in islice(_PART.finditer(record), _MOST):
        tree.add(found)
        end = found.end()
    if end < len(record):
        tree.put("rest", end, len(record), None, "the rest, which is not dissected")
    while len(tree.stack) > 1:
        tree.close(len(record), Problem.MALFORMED)
    return tree.made("record", 0, len(record), None, "a record of an XML export", tuple(tree.stack[0].parts))


class _Tree:
    """The elements of a record, of which some are still open."""

    def __init__(self, record: bytes) -> None:
        self.record = record
        self.stack = [_Open("record", 0, {})]

    def made(
        self, name: str, start: int, end: int, value: str | None, meaning: str,
        children: tuple[Field, ...] = (), problem: Problem | None = None,
    ) -> Field:  # fmt: skip
        return Field(name, start, end - start, self.record[start:end], value, meaning, children, problem)

    def put(self, name: str, start: int, end: int, value: str | None, meaning: str, **more: Any) -> None:
        """Adds a field to the innermost open element."""
        self.stack[-1].parts.append(self.made(name, start, end, value, meaning, **more))

    def add(self, found: re.Match[bytes]) -> None:
        """Adds a part of the text."""
        start, end = found.span()
        match found.lastgroup:
            case "section" | "text" as kind:
                section, raw = kind == "section", found[kind]
                value = raw.decode("utf-8", "replace") if section else _plain(raw)
                self.stack[-1].texts.append(value)
                meaning = "text in a CDATA section" if section else "text" if raw.strip() else "blank space"
                self.put("text", start, end, value, meaning)
            case "aside":
                self.put("declaration", start, end, None, "a declaration or a comment, not part of a change")
            case "name":
                name = found["name"].decode("utf-8", "replace")
                if found["slash"]:
                    self.closing(name, start, end)
                else:
                    self.opening(name, start, end)
            case _:
                meaning = "expected a tag, found a bracket that does not begin one"
                self.put("unreadable", start, end, None, meaning, problem=Problem.MALFORMED)

    def opening(self, name: str, start: int, end: int) -> None:
        """Opens an element; its tag has a leaf for each attribute."""
        attributes: dict[str, str] = {}
        parts: list[Field] = []
        at = start
        for found in _ATTRIBUTE.finditer(self.record, start, end):
            key, value = _plain(found[1]), _plain(found[found.lastindex or 0])
            attributes[key] = value
            if found.start() > at:
                parts.append(self.made("tag", at, found.start(), None, "tag"))
            parts.append(self.made(key, *found.span(), value, field_meaning(key, value)))
            at = found.end()
        parts.append(self.made("tag", at, end, None, "tag"))
        of_other = name == "transaction" and len(self.stack) == 1  # its end belongs to another record
        self.stack.append(_Open(name, start, attributes))
        self.put("opening", start, end, None, "opening tag", children=tuple(parts) if len(parts) > 1 else ())
        if of_other or self.record[end - 2] == _SLASH or len(self.stack) > _DEEPEST + 1:
            self.close(end)

    def closing(self, name: str, start: int, end: int) -> None:
        if all(one.name != name for one in self.stack[1:]):
            meaning = f"the closing tag of an element {name} that is not open"
            problem = None if name == "transaction" else Problem.MALFORMED
            self.put("closing", start, end, None, meaning, problem=problem)
            return
        while self.stack[-1].name != name:
            self.close(start, Problem.MALFORMED)
        self.put("closing", start, end, None, "closing tag")
        self.close(end)

    def close(self, end: int, problem: Problem | None = None) -> None:
        """Ends the innermost element."""
        one = self.stack.pop()
        name, value, meaning = one.name, None, _MEANINGS.get(one.name, "")
        stated = one.attributes.get("name")
        if name in ("col", "column"):
            is_key = one.attributes.get("key", "").lower() == "true"
            meaning = f"the column {stated or ''}{', part of the key' if is_key else ''}"
        elif name == "token":
            meaning = "a token of the trail record" if stated is None else token_meaning(stated)
        if problem is not None:
            meaning = f"expected the closing tag of {name}, found none"
        elif not any(part.children and part.name != "opening" for part in one.parts):
            value = _value(one)
        label = stated if stated is not None and name in ("col", "column", "token") else name
        self.put(label, one.start, end, value, meaning, children=tuple(one.parts), problem=problem)


def _value(one: _Open) -> str | None:
    """The text of an element without children; None for NULL and for a missing element."""
    stated = {name.lower(): value.lower() for name, value in one.attributes.items()}
    if stated.get("status") == "null" or "true" in (stated.get("missing"), stated.get("isnull")):
        return None
    return "".join(one.texts) if one.texts or one.name in ("column", "before", "after", "Value") else None


def _plain(raw: bytes) -> str:
    """A text without its entities; as it is if it is not XML."""
    text = raw.decode("utf-8", "backslashreplace")
    if "&" in text:
        with suppress(ElementTree.ParseError):
            return ElementTree.fromstring(f"<a>{text}</a>").text or ""
    return text
