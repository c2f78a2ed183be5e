"""XML exports: a file is cut into its records by Expat, as a stream (docs/formats/goldengate.md §8.2, §8.3).

There are two forms: consecutive ``<operation …>`` elements, and FORMATXML: ``<transaction …>`` around ``<dbupdate …>``
elements, without a root. A record is an element with the following white space; the first ``dbupdate`` of a transaction
includes the transaction's tag, the last one its end. Everything is read as content of an element that is not in the
file, so neither a document type nor an entity can be declared. After damage another parser begins where the next record
may begin. Without a declaration a record is UTF-8 if it can be, else ISO 8859-1, the default of FORMATXML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from xml.parsers import expat

from cdcwb.formats.containers.console import is_note
from cdcwb.formats.files import Source
from cdcwb.formats.goldengate_export.events import Event, Record, Transaction, event_of, note
from cdcwb.formats.goldengate_export.layout import OPERATIONS, token_role
from cdcwb.model import Kind, Operation, Problem

__all__ = ["Piece", "event_of_piece", "evidence_of", "iter_pieces"]

_ROOT: Final = b"<x>"
_UTF8, _LATIN = "utf-8", "iso-8859-1"
_FRAMES: Final = frozenset({"operation", "dbupdate", "transaction"})
_DEEPEST: Final = 64
_LEAST, _CHUNK = 1 << 8, 1 << 16  # bytes that a parser gets at a time, at first and later
_LONGEST: Final = 64 << 20  # bytes of a record
_BATCH, _BYTES = 4096, 16 << 20  # pieces and bytes of a batch; up to four times as many within a transaction
_FAR: Final = 1 << 12  # bytes of notes between records

_HEAD: Final = re.compile(rb"<(operation|dbupdate|transaction)(?=\s)([^<>]*+)>")
# `|(?!)` in a possessive group: see tests/possessive.py
_TAG: Final = re.compile(rb"<(?:[^<>\"']++|\"[^\"]*+\"|'[^']*+'|(?!))*+>")
_NEXT: Final = re.compile(
    rb"(?s)<!\[CDATA\[(?:(?!\]\]>|<!\[CDATA\[).|(?!))*+\]\]>"
    rb"|<(?P<begin>operation|dbupdate|transaction)(?=[\s/>])|</(?P<end>operation|dbupdate|transaction)\s*+>"
)
"""Where a parser may begin after damage, outside of complete CDATA sections."""
_ASIDE: Final = re.compile(
    rb"(?:\s++|<\?[^<>]*+>|<!--(?:[^-]++|-(?!-)|(?!))*+-->"
    rb"|</?(?!(?:col|cols|column|columns|before|after|token|tokens|Name|Value|operation|dbupdate|transaction)[\s/>])"
    rb"[A-Za-z_][^<>]*+>|\xef\xbb\xbf|(?!))*+\Z"
)
"""Filler between elements: white space, declarations, comments, the tags of a root."""
_TRUE: Final = frozenset({"true", "1", "yes"})
_NULLS: Final = frozenset({"isNull", "isnull", "is_null", "null", "nil", "xsi:nil"})
_MISSING: Final = frozenset({"missing", "isMissing", "ismissing"})
_ERRORS: Final = {
    name: expat.errors.codes[getattr(expat.errors, f"XML_ERROR_{name}")]
    for name in ("NO_ELEMENTS", "INVALID_TOKEN", "TAG_MISMATCH", "MISPLACED_XML_PI", "UNCLOSED_TOKEN")
}
_CUT: Final = (
    _ERRORS["TAG_MISMATCH"],
    _ERRORS["UNCLOSED_TOKEN"],
    expat.errors.codes[expat.errors.XML_ERROR_UNCLOSED_CDATA_SECTION],
)


def evidence_of(head: bytes) -> str | None:
    """Why a file with this beginning is an XML export; None if it is not one."""
    for tag in () if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{" else _HEAD.finditer(head):
        names = {one for one in (b"table", b"type", b"timestamp") if re.search(rb"\s%s\s*=" % one, tag[2])}
        if tag[1] == b"transaction" and b"timestamp" in names:
            return "a transaction element with a timestamp, as FORMATXML writes it"
        if tag[1] != b"transaction" and {b"table", b"type"} <= names:
            is_operation = tag[1] == b"operation"
            what = f"{'an operation' if is_operation else 'a dbupdate'} element with a table and a type"
            return what if is_operation else f"{what}, as FORMATXML writes it"
    return None


# --- elements ---------------------------------------------------------------------------------------------------------


class _Damage(Exception):  # noqa: N818  (it ends a parser; the file is read on)
    """What begins at byte ``at`` is not part of what is open. ``exactly``: another parser begins there."""

    def __init__(self, at: int, exactly: bool = False) -> None:
        super().__init__(at)
        self.at, self.exactly = at, exactly


class _Element:
    """Collects the parts of a record from a parser, whose handlers are its methods. ``offset`` returns where the parser
    is, ``ended`` is called at the end tag."""

    def __init__(self, name: str, attributes: dict[str, str], offset: Any = int, ended: Any = int) -> None:
        self.name, self.attributes, self.offset, self.ended = name, attributes, offset, ended
        self.tokens: dict[str, str | None] = {}
        self.images: dict[str, dict[str, str | None]] = {"before": {}, "after": {}}
        self.keys: list[str] = []
        self.data: list[str] = []
        self.depth = 0
        self.column = self.token = ""
        self.null = self.missing = False
        self.part = "before" if attributes.get("image", "").lower() == "before" else "after"  # of FORMATXML's columns

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.data.clear()
        self.depth += 1
        if name in ("column", "col", "before", "after"):
            if is_column := name[0] == "c":
                self.column = attributes.get("name", "")
            self.null = self.missing = False
            if len(attributes) > is_column:
                status = attributes.get("status", "").lower()
                true = {flag for flag, value in attributes.items() if value.lower() in _TRUE}
                self.null, self.missing = status == "null" or bool(true & _NULLS), bool(true & _MISSING)
                self.missing |= status == "missing"
                if is_column and "key" in true:
                    self.keys.append(self.column)
        elif name == "token":
            self.token = attributes.get("name", "")
        elif name in _FRAMES or self.depth > _DEEPEST:
            raise _Damage(self.offset())

    def end(self, name: str) -> None:
        if not self.depth:
            self.ended()
            return
        self.depth -= 1
        if name in ("column", "before", "after") and not self.missing:
            self.images[self.part if name == "column" else name][self.column] = (
                None if self.null else "".join(self.data)
            )
        elif name == "Name":
            self.token = "".join(self.data)
        elif name == "Value" or (name == "token" and self.token and self.token not in self.tokens):
            self.tokens[self.token] = "".join(self.data)
        self.data.clear()

    def read(self, parser: Any) -> None:
        """Makes its methods the handlers of a parser."""
        parser.StartElementHandler, parser.EndElementHandler = self.start, self.end
        parser.CharacterDataHandler = self.data.append


def _parser(encoding: str) -> Any:
    parser = expat.ParserCreate(encoding)
    parser.buffer_text = True
    parser.Parse(_ROOT)
    return parser


def _element_of(text: str) -> _Element:
    """The element in a text. Raises ExpatError for characters that XML does not have."""
    parser, found = _parser(_UTF8), []

    def start(name: str, attributes: dict[str, str]) -> None:
        found.append(_Element(name, attributes))
        found[0].read(parser)

    parser.StartElementHandler = start
    parser.Parse(text.encode("utf-8", "replace"))
    return found[0]


# --- pieces -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Open:
    """A FORMATXML transaction: its begin, the end of its tag (its begin: it has none), its last record, their number,
    and the ids (``xid``, ``csn``) in their tokens."""

    offset: int
    content: int
    attributes: Mapping[str, str] = field(default_factory=dict)
    last: Piece | None = None
    count: int = 0
    ids: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Piece:
    """A stretch ``[start, stop)`` of a file. ``number``: its index in its transaction, from 1. ``ends``: the end of the
    transaction follows it. ``problems``: codes and sentences."""

    kind: Kind
    start: int
    stop: int
    record: Record | None = None
    transaction: _Open | None = None
    number: int = 0
    ends: bool = False
    problems: list[tuple[Problem, str]] = field(default_factory=list)


def event_of_piece(piece: Piece, file_index: int) -> Event:
    """The event of a piece of the file with this index in the capture."""
    one, within = piece.transaction, None
    if one is not None:
        xid, trans_ind = one.ids.get("xid") or None, None
        if piece.kind is not Kind.MALFORMED:
            is_first = piece.number <= 1 and one.content > one.offset
            trans_ind = ("3" if piece.ends else "0") if is_first else ("2" if piece.ends else "1")
        name = xid or f"~{file_index}:{one.offset}"
        within = Transaction(name, xid, one.ids.get("csn") or None, piece.number or None, trans_ind)
    event: Event = {"kind": piece.kind, "transaction_id": within and within.name}
    if piece.record is not None:
        event = event_of(piece.record, within)
    elif one is not None and piece.kind is Kind.CONTROL:
        event |= {"record_type": "transaction", "headers": dict(one.attributes), "last_in_transaction": True}
    for code, sentence in piece.problems:
        note(event, code, sentence)
    return event


def iter_pieces(source: Source, encoding: str | None) -> Iterator[list[Piece]]:
    """All pieces of a file in their order, without holes, some at a time: until no transaction is open, unless one is
    very long. ``encoding``: the one that the file declares."""
    return _Reader(source, encoding).batches()


class _Reader:
    def __init__(self, source: Source, encoding: str | None) -> None:
        self.source, self.size, self.declared = source, source.length, encoding
        self.encoding = _UTF8 if (encoding or _UTF8).lower() in ("utf-8", "utf8") else _LATIN
        self.mark = 0  # the end of the pieces so far
        self.text, self.first = b"", 0  # the bytes from ``first`` on that the parser had or gets
        self.parser, self.begin, self.depth = _parser(self.encoding), 0, 0  # where it began; its open elements
        self.element: _Element | None = None
        self.begun = 0  # the begin of the element
        self.transaction: _Open | None = None
        self.before: tuple[int, str | None] | None = None  # transaction and table of a before image that precedes
        self.done: list[Piece] = []

    def batches(self) -> Iterator[list[Piece]]:
        at, size = self._begin(0), _LEAST
        while at < self.size:
            data = self._bytes(at, at + size)
            try:
                self.parser.Parse(data)
                at += len(data)
                if at == self.size:
                    self.parser.Parse(b"", True)
                size = max(min(2 * size, _CHUNK), at - self._offset())  # an incomplete tag is parsed once more
                if at - self.mark > _LONGEST:
                    self._malformed(at, Problem.MALFORMED, f"expected a record of at most {_LONGEST:,} bytes")
                    at, size = self._begin(at), _LEAST
            except (expat.ExpatError, _Damage) as reason:
                at, size = self._restart(reason), _LEAST
            most = 4 if self.transaction else 1
            if len(self.done) > most * _BATCH or (self.done and self.mark - self.done[0].start > most * _BYTES):
                if self.transaction is not None:  # ids of later batches do not count
                    self.transaction.ids = {"xid": "", "csn": "", **self.transaction.ids}
                yield self.done[:-1]
                self.done = self.done[-1:]
        self._leave(self.size)
        self._between(self.size)
        if self.mark < self.size:
            self._add(Kind.FILLER, self.size)
        yield self.done

    def _bytes(self, start: int, stop: int) -> bytes:
        """Bytes of the file up to its end; those before the pieces so far are gone."""
        end = self.first + len(self.text)
        if stop > end and end < self.size:
            kept = self.text[self.mark - self.first :]
            self.text = kept + self.source.read(end, max(stop, end + _CHUNK, end + len(kept))).tobytes()
            self.first = self.mark
        return self.text[start - self.first : stop - self.first]

    def _tag_end(self, at: int) -> int:
        """The end of the tag that begins at a byte."""
        found = _TAG.match(self.text, at - self.first)
        return self.first + (found.end() if found else len(self.text))

    # --- the parser

    def _begin(self, at: int, encoding: str | None = None) -> int:
        """Begins a parser that gets the bytes from ``at`` on; returns ``at``."""
        self.parser, self.begin, self.depth, self.element = _parser(encoding or self.encoding), at, 0, None
        self.is_fallback = encoding is not None
        self.parser.StartElementHandler, self.parser.EndElementHandler = self._start, self._end
        return at

    def _offset(self) -> int:
        """Where the tag begins whose handler runs."""
        return max(self.begin - len(_ROOT) + int(self.parser.CurrentByteIndex), self.begin)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self.depth += 1
        at = self._offset()
        if name not in _FRAMES:
            if self.depth > _DEEPEST:
                raise _Damage(at)
            return
        self._between(at)
        if name != "dbupdate" and self.transaction is not None:
            self._leave(at)
            raise _Damage(at, exactly=True)  # the parser waits for the end of the transaction
        if name == "transaction":
            self.transaction = _Open(at, self._tag_end(at), attributes)
        else:
            self.begun, self.element = at, _Element(name, attributes, self._offset, self._element_ends)
            self.element.read(self.parser)

    def _end(self, name: str) -> None:
        self.depth -= 1
        if name == "transaction":
            at, one = self._offset(), self.transaction
            is_empty = one is not None and self._bytes(one.content - 2, one.content) == b"/>"
            self._transaction_ends(at, one.content if one and is_empty else self._tag_end(at))

    def _restart(self, reason: Exception) -> int:
        """Begins another parser after damage; returns where."""
        if isinstance(reason, _Damage):
            at, sentence = reason.at, "elements are nested too deeply"
            return self._begin(at if reason.exactly else self._resync(at, sentence, False))
        code, at = reason.code, self.begin - len(_ROOT) + int(self.parser.ErrorByteIndex)  # type: ignore[attr-defined]
        if code == _ERRORS["NO_ELEMENTS"]:  # the end of the file
            return self._begin(self._stop(self.size, "", True))
        if code == _ERRORS["INVALID_TOKEN"] and not self._bytes(at, at + 1).isascii() and not self.is_fallback:
            return self._begin(self.begun if self.element else at, _LATIN)
        if code == _ERRORS["TAG_MISMATCH"]:
            at -= len(b"</")
        if code == _ERRORS["MISPLACED_XML_PI"] and self.element is None:
            return self._begin(self._tag_end(at))
        sentence = f"expected XML, found {expat.ErrorString(code)} at offset {at}"
        return self._begin(self._resync(at, sentence, code in _CUT))

    def _resync(self, at: int, sentence: str, is_cut: bool) -> int:
        """Where a record may begin, from ``at`` on; the end of what was read if none does. An element that is open ends
        there, or with its end tag."""
        if self.element is not None and _is_unbalanced(self._bytes(self.begun, at)):
            at, is_cut = self.begun + 1, True
        for found in _NEXT.finditer(self.text, max(at, self.begin + 1) - self.first):
            start, stop = self.first + found.start(), self.first + found.end()
            if found["begin"]:
                return self._stop(start, sentence, is_cut or start == at)
            if found["end"] == b"transaction":
                self._stop(start, sentence, is_cut or start == at)
                self._transaction_ends(start, stop)
                return stop
            if self.element is not None and found["end"] == self.element.name.encode():
                return self._stop(stop, sentence, False)
        return self._stop(self.first + len(self.text), sentence, is_cut)

    def _stop(self, stop: int, sentence: str, is_cut: bool) -> int:
        """Ends the element that is open, if one is."""
        element, self.element = self.element, None
        if element is not None and is_cut:
            what = f"the element <{element.name}> that begins at offset {self.begun}"
            self._malformed(stop, Problem.TRUNCATED, f"{what} is cut off at offset {stop}")
        elif element is not None:
            self._malformed(stop, Problem.MALFORMED, sentence)
        return stop

    # --- pieces

    def _add(self, kind: Kind, stop: int, **more: Any) -> Piece:
        self.done.append(Piece(kind, self.mark, stop, **more))
        self.mark = stop
        return self.done[-1]

    def _malformed(self, stop: int, code: Problem, sentence: str) -> None:
        self.before = None
        problems = [(code, sentence)]
        if self.transaction is not None:
            problems.append((Problem.GAP, "a record of the transaction cannot be read"))
        if stop > self.mark:
            self._add(Kind.MALFORMED, stop, transaction=self.transaction, problems=problems)

    def _element_ends(self) -> None:
        element, stop = self.element, self._tag_end(self.begun)
        assert element is not None
        if self._bytes(stop - 2, stop) != b"/>":
            stop = self._tag_end(self._offset())
        raw, remark = self._bytes(self.begun, stop), ""
        if _is_unbalanced(raw):
            for found in _NEXT.finditer(raw, 1):
                if found["begin"]:
                    raise _Damage(self._stop(self.begun + found.start(), "", True), exactly=True)
        if (self.is_fallback or self.encoding == _LATIN) and not raw.isascii():
            element, remark = self._decoded(raw, element)
        self.element, self.depth = None, self.depth - 1
        self.parser.StartElementHandler, self.parser.EndElementHandler = self._start, self._end
        self.parser.CharacterDataHandler = None
        images, one, kind = element.images, None, None
        if element.name == "dbupdate":
            one = self.transaction = self.transaction or _Open(self.mark, self.mark)
            one.count += 1
            is_update = OPERATIONS.get(element.attributes.get("type", "").upper()) == Operation.UPDATE
            here = one.offset, element.attributes.get("table")
            if is_update and element.part == "before":
                kind = Kind.BEFORE
            elif is_update and self.before == here:
                kind = Kind.AFTER
            self.before = here if kind is Kind.BEFORE else None
        headers = {**(one.attributes if one else {}), **element.attributes}
        record = Record(headers, element.tokens, images["before"], images["after"], element.keys, False, kind)
        piece = self._add(Kind.CHANGE, stop, record=record, transaction=one, number=one.count if one else 0)
        if remark:
            piece.problems.append((Problem.CHARSET, remark))
        if one is not None:
            self._in_transaction(one, piece, element)
        if self.is_fallback:
            raise _Damage(stop, exactly=True)

    def _decoded(self, raw: bytes, element: _Element) -> tuple[_Element, str]:
        """The element from its characters, and what is wrong with them."""
        text, remark = raw.decode(_LATIN), ""
        try:
            text = raw.decode(self.declared or _UTF8)
        except (UnicodeError, LookupError):
            remark = f"the text is not in {self.declared}, which the file declares; it is read as ISO 8859-1"
        try:
            return _element_of(text), remark if self.declared else ""
        except expat.ExpatError:
            return element, "the text has characters that XML does not have; it is read as ISO 8859-1"

    def _in_transaction(self, one: _Open, piece: Piece, element: _Element) -> None:
        """Adds a record to its transaction."""
        one.last = piece
        if one.count == 1 and one.content == one.offset:
            piece.problems.append((Problem.NO_BEGIN, "the tag that opens the transaction is missing"))
        for name, value in element.tokens.items():
            role = token_role(name)
            if value and role is not None and (known := one.ids.setdefault(role, value)) not in (value, ""):
                what = "id" if role == "xid" else "commit sequence number"
                piece.problems.append((Problem.CONFLICT, f"{name} is {value}, but the transaction's {what} is {known}"))

    def _transaction_ends(self, at: int, stop: int) -> None:
        one, self.transaction = self.transaction, None
        if one is None:
            self._malformed(stop, Problem.MALFORMED, "the end of a transaction whose begin is missing")
        elif one.last is not None:
            self._between(at)
            one.last.ends, self.done[-1].stop, self.mark = True, stop, stop
        elif self.mark <= one.offset and not self._bytes(one.content, at).strip():
            self._add(Kind.CONTROL, stop, transaction=one, ends=True)
        else:
            self._malformed(stop, Problem.MALFORMED, "a transaction in which no record can be read")

    def _leave(self, stop: int) -> None:
        """Leaves a transaction that has no end."""
        one, self.transaction = self.transaction, None
        if one is not None and one.last is not None:
            one.last.problems.append((Problem.OPEN_TRANSACTION, "the tag that ends the transaction is missing"))
        elif one is not None and one.offset >= self.mark:
            self._malformed(stop, Problem.TRUNCATED, f"the transaction that begins at offset {one.offset} has no end")

    def _between(self, stop: int) -> None:
        """Handles the text before an element that begins at ``stop``."""
        one = self.transaction
        is_tagged = one is not None and self.mark <= one.offset < one.content  # the tag belongs to what follows
        text = self._bytes(one.content if one and is_tagged else self.mark, stop)
        if self.done and not is_tagged:  # white space belongs to what precedes it
            self.done[-1].stop = self.mark = stop - len(text.lstrip())
        text = text.strip()
        if not text:
            return
        if _ASIDE.match(text) or (len(text) <= _FAR and _is_note(text)):
            if not is_tagged:
                self._add(Kind.FILLER, stop)
        elif b"<!DOCTYPE" in text:
            self._malformed(stop, Problem.MALFORMED, "a document type, which exports do not have; it is not read")
        else:
            found = repr(text[:40].decode("utf-8", "replace"))
            self._malformed(stop, Problem.MALFORMED, f"expected the begin of a record, found {found}")


def _is_unbalanced(raw: bytes) -> bool:
    """Whether a CDATA section may have the begin of another one: the record in which it begins may be cut off there."""
    return raw.count(b"<![CDATA[") > raw.count(b"]]>") + raw.count(b"]]]]><![CDATA[>")


def _is_note(text: bytes) -> bool:
    """Whether these lines are headings and comments by the author of the file."""
    return all(is_note(line) for line in map(bytes.strip, text.split(b"\n")) if line)
