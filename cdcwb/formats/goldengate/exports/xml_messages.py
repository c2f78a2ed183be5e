"""XML exports as ``events``: elements in groups of one shape, transactions with their ids (docs/formats/goldengate.md
§8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa

from cdcwb.formats.base import Wanted
from cdcwb.formats.event_batch import EventBatch
from cdcwb.formats.goldengate.exports.groups import Group, Shape
from cdcwb.formats.goldengate.exports.json_messages import begin
from cdcwb.formats.goldengate.exports.names import OPERATIONS, is_csn, is_xid
from cdcwb.formats.goldengate.exports.rows import UNREADABLE, fill, summarise
from cdcwb.formats.goldengate.exports.summary import Summary
from cdcwb.formats.goldengate.exports.times import ToUtc
from cdcwb.formats.goldengate.exports.xml_elements import Element, parse_element
from cdcwb.formats.goldengate.exports.xml_framing import Piece, Transaction, What, pieces
from cdcwb.formats.goldengate.exports.xml_plain import plain_element, tag_attributes
from cdcwb.model import Kind, Operation, Problem

__all__ = ["XmlReader", "decoded", "element_of"]

BATCH: Final = 4096
"""Records of a batch, unless a transaction is longer; of such a one four times as many."""

_BYTES: Final = 16 << 20
_LATIN: Final = "iso-8859-1"


def decoded(text: bytes, encoding: str | None) -> tuple[str, bool]:
    """The characters of a text, and whether it is not in the ``encoding`` that the file declares. Without one it is
    UTF-8 if it can be, else ISO 8859-1, the default of FORMATXML."""
    try:
        return text.decode("ascii" if text.isascii() else encoding or "utf-8"), False
    except (UnicodeError, LookupError):
        return text.decode(_LATIN), encoding is not None


def element_of(text: str) -> Element:
    """The element that a text is. Raises ValueError that says what is wrong and where."""
    return plain_element(text) or parse_element(text.encode("utf-8", "replace"))


@dataclass(slots=True)
class _Ids:
    """What the tag and the tokens of a transaction say of it. ``complete``: all of its tokens were looked at."""

    transaction: Transaction
    attributes: dict[str, str]
    xid: str | None = None
    csn: str | None = None
    complete: bool = False

    def take(self, tokens: Mapping[str, str | None]) -> str | None:
        """Takes the tokens of one more record; a sentence where they disagree with those before."""
        wrong = None
        for name, value in tokens.items():
            if not value:
                continue
            if is_xid(name):
                if self.xid is not None and self.xid != value:
                    wrong = f"{name} is {value}, but the transaction's id is {self.xid}"
                self.xid = self.xid or value
            elif is_csn(name):
                if self.csn is not None and self.csn != value:
                    wrong = f"{name} is {value}, but the transaction's commit sequence number is {self.csn}"
                self.csn = self.csn or value
        return wrong


@dataclass(slots=True)
class Parsed:
    """The pieces of a batch: records of operation form in ``alone``, of transactions in ``within``; ``bad``: index,
    problem and sentence of what cannot be understood; ``cut``: the complete fields of those that are cut off;
    ``notes``: problems of records; ``ids``: by piece."""

    alone: dict[Shape, Group] = field(default_factory=dict)
    within: dict[Shape, Group] = field(default_factory=dict)
    cut: list[tuple[Group, bool]] = field(default_factory=list)
    bad: list[tuple[int, Problem, str]] = field(default_factory=list)
    notes: list[tuple[int, Problem, str]] = field(default_factory=list)
    ids: list[_Ids | None] = field(default_factory=list)


class XmlReader:
    """Reads the records of one file, in order. ``view`` is the whole decompressed file, ``place`` its path, index and
    the unit of places, ``encoding`` the one it declares (None: none)."""

    def __init__(self, view: memoryview, place: tuple[str, int, str], encoding: str | None) -> None:
        self.view, self.place, self.encoding = view, place, encoding
        self._half: tuple[int, str | None] | None = None  # the record before, if it is a before image
        self._ids: _Ids | None = None

    def batches(self, start: int, stop: int) -> Iterator[list[Piece]]:
        """The pieces of ``[start, stop)``, some at a time; transactions are kept together as far as that goes."""
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

    def parse(self, found: Sequence[Piece], stop: int) -> Parsed:
        """Parses neighbouring pieces; ``stop`` is where the part ends that they are in."""
        parsed = Parsed()
        for at, piece in enumerate(found):
            ids = self._ids_of(piece)
            parsed.ids.append(ids)
            if piece.what is What.FILLER or piece.what is What.EMPTY:
                continue
            if piece.what is What.MALFORMED:
                code = Problem.TRUNCATED if piece.cut else Problem.MALFORMED
                self._bad(parsed, at, piece, code, piece.reason or "bytes that are not a record")
                if piece.cut and piece.first >= 0:
                    self._add_cut(parsed, at, piece, ids)
                continue
            text, odd = decoded(bytes(self.view[piece.first : piece.last]), self.encoding)
            try:
                element = element_of(text)
            except ValueError as reason:
                self._bad(parsed, at, piece, Problem.MALFORMED, str(reason))
                continue
            if odd:
                sentence = f"the text is not in {self.encoding}, which the file declares; it is read as ISO 8859-1"
                parsed.notes.append((at, Problem.CHARSET, sentence))
            self._add(parsed, at, piece, element, ids)
        last = found[-1] if found else None
        if last is not None and last.transaction is not None and not (last.ends or last.unended):
            self._look_ahead(last, stop)
        return parsed

    def _add_cut(self, parsed: Parsed, at: int, piece: Piece, ids: _Ids | None) -> None:
        """Adds what is complete of an element that is cut off: everything up to the end of its last tag."""
        there = bytes(self.view[piece.first : piece.last])
        text, _ = decoded(there[: there.rfind(b">") + 1], self.encoding)
        with suppress(ValueError):
            element = parse_element(text.encode("utf-8", "replace"), complete=False)
            alone = Parsed()
            self._add(alone, at, piece, element, ids)
            self._half = None
            parsed.cut += [(group, ids is not None) for group in [*alone.alone.values(), *alone.within.values()]]

    def _bad(self, parsed: Parsed, at: int, piece: Piece, code: Problem, sentence: str) -> None:
        self._half = None
        parsed.bad.append((at, code, sentence))
        if piece.transaction is not None:
            parsed.notes.append((at, Problem.GAP, UNREADABLE))

    def _ids_of(self, piece: Piece) -> _Ids | None:
        one = piece.transaction
        if one is None:
            return None
        if self._ids is None or self._ids.transaction.offset != one.offset:
            tag = b"" if one.tag is None else bytes(self.view[one.tag[0] : one.tag[1]])
            self._ids = _Ids(one, tag_attributes(decoded(tag, self.encoding)[0]) if tag else {})
        return self._ids

    def _look_ahead(self, last: Piece, stop: int) -> None:
        """Looks for the ids of a transaction that goes on behind the batch."""
        ids = self._ids
        if ids is None or ids.complete or (ids.xid is not None and ids.csn is not None):
            return
        ids.complete = True
        for piece in pieces(self.view, last.stop, stop, replace(ids.transaction)):
            if piece.transaction is None or piece.transaction.offset != ids.transaction.offset:
                return
            text = bytes(self.view[piece.first : piece.last]) if piece.what is What.ELEMENT else b""
            if b"<token" in text:
                with suppress(ValueError):
                    ids.take(element_of(decoded(text, self.encoding)[0]).tokens)
            if piece.ends or (ids.xid is not None and ids.csn is not None):
                return

    def _add(self, parsed: Parsed, at: int, piece: Piece, element: Element, ids: _Ids | None) -> None:
        attributes, tokens = element.attributes, element.tokens
        table, operation = attributes.get("table"), attributes.get("type")
        names, values = list(attributes), list(attributes.values())
        half = None
        if ids is not None:
            update = OPERATIONS.get((operation or "").upper()) == Operation.UPDATE
            if update and attributes.get("image", "").lower() == "before":
                half = "before"
            elif update and self._half == (ids.transaction.offset, table):
                half = "after"
            self._half = (ids.transaction.offset, table) if half == "before" else None
            for name, value in ids.attributes.items():
                if name not in attributes:
                    names.append(name)
                    values.append(value)
            wrong = ids.take(tokens) if tokens else None
            if wrong is not None:
                parsed.notes.append((at, Problem.CONFLICT, wrong))
        before, after = element.before, element.after
        shape = Shape(
            table,
            operation,
            tuple(names),
            tuple(tokens),
            tuple(before) if before else None,
            tuple(after) if after else None,
            tuple(element.keys) if element.keys else None,
            half,
        )
        groups = parsed.alone if ids is None else parsed.within
        group = groups.get(shape)
        if group is None:
            group = groups[shape] = Group(shape)
        group.index.append(at)
        group.headers.extend(values)
        group.tokens.extend(tokens.values())
        if before:
            group.before.extend(before.values())
        if after:
            group.after.extend(after.values())

    # --- events

    def events(self, found: Sequence[Piece], stop: int, to_utc: ToUtc | None, wanted: Wanted) -> pa.RecordBatch:
        """The events of neighbouring pieces; ``stop`` is where the part ends that they are in."""
        batch = EventBatch(len(found), wanted)
        start = np.array([piece.start for piece in found], dtype=np.int64)
        begin(batch, self.place, start, np.array([piece.stop for piece in found], dtype=np.int64) - start)
        parsed = self.parse(found, stop)
        for at, code, sentence in parsed.bad:
            batch.problem(at, code, sentence)
        for group in parsed.alone.values():
            fill(batch, group, to_utc, wanted.images, {}, False)
        facts = self._transactions(batch, found, parsed)
        for group in parsed.within.values():
            fill(batch, group, to_utc, wanted.images, facts, True)
        for group, within in parsed.cut:
            fill(batch, group, to_utc, wanted.images, facts, within, complete=False)
        for at, code, sentence in parsed.notes:
            batch.problem(at, code, sentence)
        bad = {at for at, _, _ in parsed.bad}
        batch.constant("kind", str(Kind.MALFORMED), np.array(sorted(bad), dtype=np.int64))
        for what, kind in ((What.FILLER, Kind.FILLER), (What.EMPTY, Kind.CONTROL)):
            index = [at for at, piece in enumerate(found) if piece.what is what]
            batch.constant("kind", str(kind), np.array(index, dtype=np.int64))
        if wanted.raw:
            batch.put("raw", pa.array([bytes(self.view[piece.start : piece.stop]) for piece in found], pa.binary()))
        return batch.build()

    def _transactions(self, batch: EventBatch, found: Sequence[Piece], parsed: Parsed) -> dict[str, pa.StringArray]:
        """Puts id, order and end of transactions; returns the headers that say the same of every record in them."""
        if not any(ids is not None for ids in parsed.ids):
            return {}
        file_index = self.place[1]
        ids = parsed.ids
        names = [None if one is None else one.xid or f"~{file_index}:{one.transaction.offset}" for one in ids]
        batch.put("transaction_id", pa.array(names, pa.string()))
        inside = [piece.transaction is not None and piece.what is not What.MALFORMED for piece in found]
        rows = list(zip(found, inside, strict=True))
        batch.put("event_no", pa.array([piece.number if there and piece.number else None for piece, there in rows]))
        batch.put("last_in_transaction", pa.array([piece.ends if there else None for piece, there in rows]))
        empty = [at for at, piece in enumerate(found) if piece.what is What.EMPTY]
        batch.constant("record_type", "transaction", np.array(empty, dtype=np.int64))
        for at in empty:
            one = parsed.ids[at]
            attributes = {} if one is None else one.attributes
            columns = [pa.array([value], pa.string()) for value in attributes.values()]
            batch.texts("headers", list(attributes), columns, np.array([at]))
        for at, (piece, there) in enumerate(rows):
            if there and piece.number == 1 and piece.transaction is not None and piece.transaction.tag is None:
                batch.problem(at, Problem.NO_BEGIN, "the tag that opens the transaction is missing")
            if there and piece.unended:
                batch.problem(at, Problem.OPEN_TRANSACTION, "the tag that ends the transaction is missing")
        place = [_trans_ind(piece) if there else None for piece, there in rows]
        return {
            "csn": pa.array([None if one is None else one.csn for one in ids], pa.string()),
            "xid": pa.array([None if one is None else one.xid for one in ids], pa.string()),
            "TransInd": pa.array(place, pa.string()),
        }

    # --- summary

    def summarise(self, found: Sequence[Piece], stop: int, summary: Summary) -> None:
        """Takes neighbouring pieces into a summary."""
        parsed = self.parse(found, stop)
        summarise([*parsed.alone.values(), *parsed.within.values()], summary, False)
        if parsed.bad and summary.malformed is None:
            at, _, sentence = parsed.bad[0]
            summary.malformed = found[at].start, found[at].stop - found[at].start, sentence


def _trans_ind(piece: Piece) -> str:
    """The record's place in its transaction, in the digits of TransInd."""
    first = piece.number <= 1 and piece.transaction is not None and piece.transaction.tag is not None
    return ("3" if piece.ends else "0") if first else ("2" if piece.ends else "1")
