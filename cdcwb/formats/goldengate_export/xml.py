"""XML exports: a file is cut into its records by their tags, and Expat reads each of them (docs/formats/goldengate.md
§8.2, §8.3).

There are two forms: consecutive ``<operation …>`` elements, and FORMATXML: ``<transaction …>`` around ``<dbupdate …>``
elements, without a root. A record is an element with the following white space; the first ``dbupdate`` of a transaction
includes the transaction's tag, the last one its end. Neither a document type nor an entity can be declared, since Expat
gets nothing but elements. Without a declaration a record is UTF-8 if it can be, else ISO 8859-1, the default of
FORMATXML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from xml.etree.ElementTree import Element, ParseError, fromstring

from cdcwb.formats.containers.console import is_note
from cdcwb.formats.goldengate_export.events import Event, ExportRecord, event_of, note
from cdcwb.formats.goldengate_export.layout import OPERATIONS, token_role
from cdcwb.formats.source import Source
from cdcwb.model import Kind, Operation, Problem

_LONGEST: Final = 64 << 20  # bytes of a record
_TAGS: Final = 200_000  # of a record
_BATCH, _BYTES = 4096, 16 << 20  # pieces and bytes of a batch; up to four times as many within a transaction
_FAR: Final = 1 << 12  # bytes of notes between records

_HEAD: Final = re.compile(rb"<(operation|dbupdate|transaction)(?=\s)([^<>]*+)>")
# `|(?!)` in a possessive group: see tests/possessive.py
_INNER: Final = rb"<!\[CDATA\[(?:[^]<]++|(?!\]\]\]?\]?>)\]|(?!<!\[CDATA\[)<|(?!))*+"  # a section in a section, escaped
_SECTION: Final = rb"!\[CDATA\[(?:[^]<]++|(?!\]\]>)\]|(?!<!\[CDATA\[)<|" + _INNER + rb"\]\]\]\]><!\[CDATA\[>|(?!))*+"
_COMMENT: Final = rb"!--(?:[^-<]++|(?!-->)-|(?!<!--)<|(?!))*+"
_FRAME: Final = rb"operation|dbupdate|transaction"
_ATTRIBUTES: Final = rb"(?:[^<>\"']++|\"[^\"<]*+\"|'[^'<]*+'|(?!))*+"
_FIRST: Final = rb"<(?=!|/?(?:operation|dbupdate|transaction))(?:"  # decides most tags at once
_COMPLETE: Final = b"|".join(
    (
        _SECTION + rb"\]\]>",
        _COMMENT + rb"-->",
        rb"(?P<begin>%s)(?=[\s/>])(?P<attributes>%s)>" % (_FRAME, _ATTRIBUTES),
        rb"/(?P<end>%s)\s*+>" % _FRAME,
    )
)
_BARE: Final = rb"(?P<bare>%s)(?=[\s/>]))" % _FRAME
_MARK: Final = re.compile(_FIRST + _COMPLETE + rb"|" + _BARE)
"""Sections, comments, and the tags of records and transactions; ``bare``: a tag without an end."""
_ASIDE: Final = re.compile(
    rb"(?:\s++|<\?[^<>]*+>|<!--(?:[^-]++|-(?!-)|(?!))*+-->"
    rb"|</?(?!(?:col|cols|column|columns|before|after|token|tokens|Name|Value|operation|dbupdate|transaction)[\s/>])"
    rb"[A-Za-z_][^<>]*+>|\xef\xbb\xbf|(?!))*+\Z"
)
"""Filler between elements: white space, declarations, comments, the tags of a root."""
_TRUE: Final = frozenset({"true", "1", "yes"})
_NULLS: Final = frozenset({"isNull", "isnull", "is_null", "null", "nil", "xsi:nil"})
_MISSING: Final = frozenset({"missing", "isMissing", "ismissing"})


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


def _element_of(raw: bytes, declared: str | None) -> tuple[Element, str]:
    """The element in these bytes, and what is wrong with its characters. Raises ValueError for what is not XML."""
    failure = ""
    for encoding in (declared or "utf-8", "iso-8859-1"):
        try:
            element = fromstring(raw.decode(encoding))
        except (UnicodeError, LookupError):
            continue
        except ParseError as reason:
            failure = failure or f"expected XML, found {reason}"
            continue
        if failure:
            return element, "the text has characters that XML does not have; it is read as ISO 8859-1"
        remark = f"the text is not in {declared}, which the file declares; it is read as ISO 8859-1"
        return element, remark if declared and encoding != declared and not raw.isascii() else ""
    raise ValueError(failure)  # every text is ISO 8859-1


def _record_of(element: Element, within: Mapping[str, str], kind: Kind | None, half: str) -> ExportRecord:
    """The record of an element; ``within``: the attributes of its transaction; ``half``: what FORMATXML's columns are
    of, ``before`` or ``after``."""
    images: dict[str, dict[str, str | None]] = {"before": {}, "after": {}}
    tokens: dict[str, str | None] = {}
    keys: list[str] = []
    column = token = ""
    for node in element.iter():
        if node.tag in ("col", "column", "before", "after"):
            is_column = node.tag in ("col", "column")
            flags = node.attrib if len(node.attrib) > is_column else {}
            true = {name for name, value in flags.items() if value.lower() in _TRUE}
            status = flags.get("status", "").lower()
            if is_column:
                column = node.get("name", "")
                keys += [column] if "key" in true else []
            if node.tag != "col" and status != "missing" and not true & _MISSING:
                is_null = status == "null" or bool(true & _NULLS)
                image = images[half if node.tag == "column" else node.tag]
                image[column] = None if is_null else node.text or ""
        elif node.tag in ("token", "Name"):
            token = node.get("name", "") if node.tag == "token" else node.text or ""
            if node.tag == "token" and token:
                tokens.setdefault(token, node.text or "")
        elif node.tag == "Value":
            tokens[token] = node.text or ""
    return ExportRecord({**within, **element.attrib}, tokens, images["before"], images["after"], keys, False, kind)


# --- pieces -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _OpenTransaction:
    """A FORMATXML transaction: its begin, the end of its tag (its begin: it has none), its last record, their number,
    and the ids (``xid``, ``csn``) in their tokens."""

    offset: int
    content: int
    attributes: Mapping[str, str] = field(default_factory=dict)
    last: XmlSpan | None = None
    count: int = 0
    ids: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class XmlSpan:
    """A stretch ``[start, stop)`` of a file. ``number``: its index in its transaction, from 1. ``ends``: the end of the
    transaction follows it. ``problems``: codes and sentences."""

    kind: Kind
    start: int
    stop: int
    record: ExportRecord | None = None
    transaction: _OpenTransaction | None = None
    number: int = 0
    ends: bool = False
    problems: list[tuple[Problem, str]] = field(default_factory=list)


def event_of_piece(piece: XmlSpan, file_index: int) -> Event:
    """The event of a piece of the file with this index in the capture."""
    one, event = piece.transaction, Event(kind=piece.kind)
    if one is None:
        event = event if piece.record is None else event_of(piece.record)
    else:
        is_first = piece.number <= 1 and one.content > one.offset
        place = ("3" if piece.ends else "0") if is_first else ("2" if piece.ends else "1")
        ids = {role: one.ids.get(role) or None for role in ("xid", "csn")}
        if piece.record is not None:
            event = event_of(piece.record, {**ids, "txind": place}) | {"event_no": piece.number}
        elif piece.kind is Kind.CONTROL:
            event |= {"record_type": "transaction", "headers": dict(one.attributes), "last_in_transaction": True}
        event["transaction_id"] = ids["xid"] or f"~{file_index}:{one.offset}"
    for code, sentence in piece.problems:
        note(event, code, sentence)
    return event


def iter_pieces(source: Source, encoding: str | None) -> Iterator[list[XmlSpan]]:
    """All pieces of a file in their order, without holes, some at a time: until no transaction is open, unless one is
    very long. ``encoding``: the one that the file declares."""
    return _XmlReader(source, encoding).batches()


class _XmlReader:
    def __init__(self, source: Source, encoding: str | None) -> None:
        self.text, self.size, self.declared = source.mapped().data, source.length, encoding
        self.mark = 0  # the end of the pieces so far
        self.record: tuple[bytes, int] | None = None  # the name and the begin of an open element
        self.transaction: _OpenTransaction | None = None
        self.before: tuple[int, str | None] | None = None  # transaction and table of a before image that precedes
        self.done: list[XmlSpan] = []

    def batches(self) -> Iterator[list[XmlSpan]]:
        for found in _MARK.finditer(self.text):
            start, stop = found.span()
            self._limit(start)
            if name := found["begin"] or found["bare"]:
                self._begins(name, start, stop, is_empty=(found["attributes"] or b"").endswith(b"/"))
            elif found["end"] == b"transaction":
                self._cut(start)
                self._transaction_ends(start, stop)
            elif self.record is not None and found["end"] == self.record[0]:
                self._record_ends(stop)
            most = 4 if self.transaction else 1
            if len(self.done) > most * _BATCH or (self.done and self.mark - self.done[0].start > most * _BYTES):
                if self.transaction is not None:  # ids of later batches do not count
                    self.transaction.ids = {"xid": "", "csn": "", **self.transaction.ids}
                yield self.done[:-1]
                self.done = self.done[-1:]
        self._limit(self.size)
        self._cut(self.size)
        self._leave(self.size)
        self._between(self.size)
        if self.mark < self.size:
            self._add(Kind.FILLER, self.size)
        yield self.done

    def _limit(self, stop: int) -> None:
        """Ends what is too long for a record."""
        while stop - self.mark > _LONGEST:
            self.record = None
            sentence = f"expected a record of at most {_LONGEST:,} bytes"
            self._malformed(self.mark + _LONGEST, Problem.MALFORMED, sentence)

    # --- records and transactions

    def _begins(self, name: bytes, start: int, stop: int, is_empty: bool) -> None:
        self._cut(start)
        if name != b"dbupdate" and self.transaction is not None:
            self._leave(start)
        self._between(start)
        if name != b"transaction":
            self.record = name, start
            if is_empty:
                self._record_ends(stop)
            return
        try:
            raw = self._bytes(start, stop) + (b"" if is_empty else b"</transaction>")
            self.transaction = _OpenTransaction(start, stop, _element_of(raw, self.declared)[0].attrib)
        except ValueError:
            return  # it is text between elements
        if is_empty:
            self._transaction_ends(stop, stop)

    def _cut(self, stop: int) -> None:
        """Ends an open element that has no end."""
        if self.record is not None:
            what = f"the element <{self.record[0].decode()}> that begins at offset {self.record[1]}"
            self.record = None
            self._malformed(stop, Problem.TRUNCATED, f"{what} is cut off at offset {stop}")

    def _record_ends(self, stop: int) -> None:
        assert self.record is not None
        (name, start), self.record = self.record, None
        raw = self._bytes(start, stop)
        try:
            if raw.count(b"<") > _TAGS:
                raise ValueError(f"expected a record of at most {_TAGS:,} tags")
            element, remark = _element_of(raw, self.declared)
        except ValueError as reason:
            self._malformed(stop, Problem.MALFORMED, str(reason))
            return
        one, kind = None, None
        half = "before" if element.get("image", "").lower() == "before" else "after"
        if name == b"dbupdate":
            one = self.transaction = self.transaction or _OpenTransaction(self.mark, self.mark)
            one.count += 1
            is_update = OPERATIONS.get(element.get("type", "").upper()) == Operation.UPDATE
            here = one.offset, element.get("table")
            if is_update and half == "before":
                kind = Kind.BEFORE
            elif is_update and self.before == here:
                kind = Kind.AFTER
            self.before = here if kind is Kind.BEFORE else None
        record = _record_of(element, one.attributes if one else {}, kind, half)
        piece = self._add(Kind.CHANGE, stop, record=record, transaction=one, number=one.count if one else 0)
        if remark:
            piece.problems.append((Problem.CHARSET, remark))
        if one is not None:
            self._in_transaction(one, piece, record.tokens)

    def _in_transaction(self, one: _OpenTransaction, piece: XmlSpan, tokens: Mapping[str, str | None]) -> None:
        """Adds a record with these tokens to its transaction."""
        one.last = piece
        if one.count == 1 and one.content == one.offset:
            piece.problems.append((Problem.NO_BEGIN, "the tag that opens the transaction is missing"))
        for name, value in tokens.items():
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

    # --- pieces

    def _bytes(self, start: int, stop: int) -> bytes:
        return self.text[start:stop].tobytes()

    def _add(self, kind: Kind, stop: int, **more: Any) -> XmlSpan:
        self.done.append(XmlSpan(kind, self.mark, stop, **more))
        self.mark = stop
        return self.done[-1]

    def _malformed(self, stop: int, code: Problem, sentence: str) -> None:
        self.before = None
        problems = [(code, sentence)]
        if self.transaction is not None:
            problems.append((Problem.GAP, "a record of the transaction cannot be read"))
        if stop > self.mark:
            self._add(Kind.MALFORMED, stop, transaction=self.transaction, problems=problems)

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


def _is_note(text: bytes) -> bool:
    """Whether these lines are headings and comments by the author of the file."""
    return all(is_note(line) for line in map(bytes.strip, text.split(b"\n")) if line)
