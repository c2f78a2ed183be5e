"""Records of XML exports: elements, the transactions around them, and their events (docs/formats/goldengate.md §8).

The parser is Expat without anything from outside: a document type or an entity that is declared is refused. Binary
columns (Base64 in FORMATXML) cannot be told from text and stay text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final
from xml.parsers import expat

import pyarrow as pa

from cdcwb.formats.base import Wanted
from cdcwb.formats.goldengate.exports.events import UNREADABLE, Event, Record, ToUtc, event_of, events_batch, note
from cdcwb.formats.goldengate.exports.layout import OPERATIONS, role_of_token
from cdcwb.formats.goldengate.exports.summary import Summary
from cdcwb.formats.goldengate.exports.xml_framing import Piece, Transaction, What, pieces
from cdcwb.model import Kind, Operation, Problem

__all__ = ["XmlReader", "parse_element"]

BATCH: Final = 4096
"""Records of a batch, unless a transaction is longer; of such a one four times as many."""

_BYTES: Final = 16 << 20
_LATIN: Final = "iso-8859-1"
_TRUE: Final = frozenset({"true", "1", "yes"})
_NULLS: Final = ("isNull", "isnull", "is_null", "null", "nil", "xsi:nil")
_MISSING: Final = ("missing", "isMissing", "ismissing")


# --- elements ---------------------------------------------------------------------------------------------------------


def parse_element(text: bytes, complete: bool = True) -> Record:
    """The record of an ``operation`` or ``dbupdate`` element in UTF-8; of one that is not ``complete`` what is in its
    beginning. Raises ValueError that says what is wrong and at which byte."""
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


class _Refused(ValueError):  # noqa: N818  (its message becomes part of the sentence of the problem)
    pass


def _refuse(*_: Any) -> None:
    raise _Refused("a document type or an entity is declared, which exports do not do")


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
            self.null = bool(attributes) and _is_flagged(attributes, _NULLS)
            self.missing = bool(attributes) and _is_flagged(attributes, _MISSING)
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


def _is_flagged(attributes: Mapping[str, str], flags: Sequence[str]) -> bool:
    """Is one of the flags true?"""
    return any(attributes.get(flag, "").lower() in _TRUE for flag in flags)


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
    """The attributes of a transaction's tag, and the ids in the tokens of its records. ``complete``: the tokens of all
    of its records were read."""

    transaction: Transaction
    attributes: Mapping[str, str]
    xid: str | None = None
    csn: str | None = None
    complete: bool = False

    def take(self, tokens: Mapping[str, str | None]) -> str | None:
        """Adds the tokens of one more record; returns a sentence where they disagree with those before."""
        wrong = None
        for name, value in tokens.items():
            role = role_of_token(name)
            if not value or role is None:
                continue
            known = getattr(self, role)
            if known is None:
                setattr(self, role, value)
            elif known != value:
                what = "id" if role == "xid" else "commit sequence number"
                wrong = f"{name} is {value}, but the transaction's {what} is {known}"
        return wrong

    @property
    def is_known(self) -> bool:
        """Are both ids known?"""
        return self.xid is not None and self.csn is not None


@dataclass(slots=True)
class Decoded:
    """The pieces of a batch, by index: ``records`` (those that are cut off with their complete fields), ``wrong``:
    problem and sentence of what cannot be decoded, ``notes``: other problems, ``ids`` of the transaction."""

    records: dict[int, Record] = field(default_factory=dict)
    wrong: dict[int, tuple[Problem, str]] = field(default_factory=dict)
    notes: list[tuple[int, Problem, str]] = field(default_factory=list)
    ids: list[_Ids | None] = field(default_factory=list)


class XmlReader:
    """Reads the records of one file, in order. ``view`` is the decompressed file, ``location`` its path, index and the
    unit of offsets, ``encoding`` the one it declares (None: none)."""

    def __init__(self, view: memoryview, location: tuple[str, int, str], encoding: str | None) -> None:
        self.view, self.location, self.encoding = view, location, encoding
        self._before: tuple[int, str | None] | None = None  # transaction and table of the record before: a before image
        self._ids: _Ids | None = None

    def batches(self, start: int, stop: int) -> Iterator[list[Piece]]:
        """The pieces of ``[start, stop)`` in batches; transactions are kept together up to a limit."""
        found: list[Piece] = []
        for piece in pieces(self.view, start, stop):
            found.append(piece)
            many, size = len(found), piece.stop - found[0].start
            if many >= BATCH or size >= _BYTES:
                inside = piece.transaction is not None and not (piece.ends or piece.unended)
                if not inside or many >= 4 * BATCH or size >= 4 * _BYTES:
                    yield found
                    found = []
        if found:
            yield found

    def decode(self, found: Sequence[Piece], stop: int) -> Decoded:
        """Decodes neighbouring pieces; ``stop`` is the end of the split that they are in."""
        decoded = Decoded()
        for at, piece in enumerate(found):
            ids = self._ids_of(piece)
            decoded.ids.append(ids)
            if piece.what is What.FILLER or piece.what is What.EMPTY:
                continue
            text, is_undeclared = _decoded(self._bytes(piece), self.encoding)
            complete = piece.what is What.ELEMENT
            try:
                if not complete:
                    code = Problem.TRUNCATED if piece.cut else Problem.MALFORMED
                    decoded.wrong[at] = code, piece.reason or "bytes that are not a record"
                record = parse_element(text, complete)
            except ValueError as reason:
                decoded.wrong.setdefault(at, (Problem.MALFORMED, str(reason)))
            else:
                decoded.records[at] = self._in_transaction(decoded, at, record, ids)
                if complete and is_undeclared:
                    sentence = f"the text is not in {self.encoding}, which the file declares; it is read as ISO 8859-1"
                    decoded.notes.append((at, Problem.CHARSET, sentence))
            if at in decoded.wrong:
                self._before = None
                if piece.transaction is not None:
                    decoded.notes.append((at, Problem.GAP, UNREADABLE))
        last = found[-1] if found else None
        if last is not None and last.transaction is not None and not (last.ends or last.unended):
            self._look_ahead(last, stop)
        return decoded

    def _bytes(self, piece: Piece) -> bytes:
        """The element of a piece; of one that is cut off everything up to the end of its last tag; else nothing."""
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

    def _look_ahead(self, last: Piece, stop: int) -> None:
        """Reads on for the ids of a transaction that continues after the batch."""
        ids = self._ids
        if ids is None or ids.complete or ids.is_known:
            return
        ids.complete = True
        for piece in pieces(self.view, last.stop, stop, replace(ids.transaction)):
            if piece.transaction is None or piece.transaction.offset != ids.transaction.offset:
                return
            text = self._bytes(piece) if piece.what is What.ELEMENT else b""
            if b"<token" in text:
                with suppress(ValueError):
                    ids.take(parse_element(_decoded(text, self.encoding)[0]).tokens)
            if piece.ends or ids.is_known:
                return

    def _in_transaction(self, decoded: Decoded, at: int, record: Record, ids: _Ids | None) -> Record:
        """The record with the attributes of its transaction; finds out whether it is half of an update."""
        if ids is None:
            return record
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
            decoded.notes.append((at, Problem.CONFLICT, wrong))
        return record

    # --- events

    def events(self, found: Sequence[Piece], stop: int, to_utc: ToUtc | None, wanted: Wanted) -> pa.RecordBatch:
        """The events of neighbouring pieces; ``stop`` is the end of the split that they are in."""
        decoded = self.decode(found, stop)
        events: list[Event] = []
        for at, piece in enumerate(found):
            event: Event = {}
            wrong, record, ids = decoded.wrong.get(at), decoded.records.get(at), decoded.ids[at]
            if wrong is not None:
                note(event, *wrong)
            facts = {} if ids is None else self._transaction(event, piece, ids)
            if record is not None:
                event_of(record, wanted.images, event, facts, ids is not None)
            if wrong is not None:
                event["kind"] = Kind.MALFORMED
            elif piece.what is What.FILLER:
                event["kind"] = Kind.FILLER
            elif piece.what is What.EMPTY:
                event.update(
                    kind=Kind.CONTROL, record_type="transaction", headers={} if ids is None else ids.attributes
                )
            events.append(event)
        for at, code, sentence in decoded.notes:
            note(events[at], code, sentence)
        given = {
            "offset": pa.array([piece.start for piece in found]),
            "length": pa.array([piece.stop - piece.start for piece in found]),
        }
        if wanted.raw:
            given["raw"] = pa.array([bytes(self.view[piece.start : piece.stop]) for piece in found], pa.binary())
        return events_batch(events, self.location, given, to_utc, wanted)

    def _transaction(self, event: Event, piece: Piece, ids: _Ids) -> dict[str, str | None]:
        """Sets id, order and end of the transaction; returns the headers that name them in every record."""
        event["transaction_id"] = ids.xid or f"~{self.location[1]}:{ids.transaction.offset}"
        facts = {"csn": ids.csn, "xid": ids.xid, "TransInd": None}
        if piece.what is What.MALFORMED:
            return facts
        event["event_no"], event["last_in_transaction"] = piece.number or None, piece.ends
        has_tag = ids.transaction.tag is not None
        if piece.number == 1 and not has_tag:
            note(event, Problem.NO_BEGIN, "the tag that opens the transaction is missing")
        if piece.unended:
            note(event, Problem.OPEN_TRANSACTION, "the tag that ends the transaction is missing")
        is_first = piece.number <= 1 and has_tag
        facts["TransInd"] = ("3" if piece.ends else "0") if is_first else ("2" if piece.ends else "1")
        return facts

    def summarise(self, found: Sequence[Piece], stop: int, summary: Summary) -> None:
        """Adds neighbouring pieces to a summary."""
        decoded = self.decode(found, stop)
        summary.take([one for one in decoded.records.values() if one.complete], False)
        if decoded.wrong and summary.malformed is None:
            at = min(decoded.wrong)
            summary.malformed = found[at].start, found[at].stop - found[at].start, decoded.wrong[at][1]
