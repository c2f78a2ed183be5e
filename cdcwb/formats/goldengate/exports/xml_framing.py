"""Where the records of XML exports begin and end (docs/formats/goldengate.md §8).

Two forms: ``<operation …>…</operation>``, one after the other, and FORMATXML: ``<transaction …>`` around
``<dbupdate …>`` elements, without a root. One pattern finds the tags that matter and steps over what may hide them:
CDATA sections and comments. A record is an element with the blank space behind it; the first ``dbupdate`` of a
transaction owns the transaction's tag, the last one its end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from cdcwb.formats.messages.layout import is_note

__all__ = ["TOKEN", "Piece", "Transaction", "What", "boundaries", "pieces"]

# `|(?!)` in a possessive group: tests/possessive.py says what for
TOKEN: Final = re.compile(
    rb"<(?:"
    rb"!\[CDATA\[[^\]<]*+(?:(?:\](?!\]>)|<(?!!\[CDATA\[)"
    # a section inside a section, as XML that is a value has it: the inner end is parted in two
    rb"|<!\[CDATA\[[^\]]{0,65536}+(?:\](?!\]>)[^\]]{0,65536}+|(?!)){0,256}+(?<=\]\])\]\]><!\[CDATA\[>"
    rb"|(?!))[^\]<]*+)*+\]\]>"
    rb"|!--(?:[^-]++|-(?!-)|(?!))*+-->"
    rb"|(/?)(operation|dbupdate|transaction)(?=[\s/>])(?:[^<>\"']++|\"[^\"<]*+\"|'[^'<]*+'|(?!))*+(>)\s*+"
    rb")"
)
"""A CDATA section, a comment, or a tag of an element that frames, with the blank space behind it: group 1 is the tag's
slash, group 2 its name, group 3 its last character.

A section in which another one begins is damage (its own end is lost), and is no match.
"""

_ASIDE: Final = re.compile(
    rb"(?:\s++|<\?[^<>]*+>|<!--(?:[^-]++|-(?!-)|(?!))*+-->|<!DOCTYPE[^<>\[]*+(?:\[[^\]]*+\]\s*+|(?!))?+>"
    rb"|</?(?!(?:col|cols|column|columns|before|after|token|tokens|Name|Value|operation|dbupdate|transaction)[\s/>])"
    rb"[A-Za-z_][^<>]*+>|\xef\xbb\xbf|(?!))*+\Z"
)
"""What may stand between elements and says nothing: blank space, declarations, comments, the tags of a root."""


class What(IntEnum):
    """What a piece of a file is."""

    ELEMENT = 0
    EMPTY = 1
    """A transaction without a record in it."""
    FILLER = 2
    MALFORMED = 3


@dataclass(slots=True)
class Transaction:
    """A FORMATXML transaction. ``offset``: where it begins; ``tag``: its opening tag, None where that is missing.
    ``count``: its records so far."""

    offset: int
    tag: tuple[int, int] | None
    count: int = 0


@dataclass(slots=True)
class Piece:
    """A stretch ``[start, stop)`` of a file; ``[first, last)`` is the element in it. ``number``: its place in the
    ``transaction``, from 1. ``ends``: the transaction's end stands behind it; ``unended``: the transaction has none.
    ``reason`` says what is wrong, ``cut`` that the stretch is cut off: an element, or a transaction (``first`` is
    -1)."""

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
    ``transaction`` that began before, its next record stands at ``start``."""
    return _Framer(view, start, stop, transaction).run()


def boundaries(view: memoryview, size: int) -> list[int]:
    """Where the file may be cut: at operations and transactions, ``size`` bytes or more apart, from 0 on. Blank space
    alone is no part: it belongs to what follows."""
    found = [0]
    inside: bytes | None = None
    for token in TOKEN.finditer(view):
        slash, name = token.group(1, 2)
        if name is None:
            continue
        if slash:
            inside = None if name == inside else inside
        elif name == b"dbupdate" or inside is not None:
            inside = None if _closed(token) else name
        else:
            if token.start() >= found[-1] + size and not _blank(view[found[-1] : token.start()]):
                found.append(token.start())
            if name == b"operation" and not _closed(token):
                inside = name
    return found


def _closed(token: re.Match[bytes]) -> bool:
    return token[0].rstrip().endswith(b"/>")


class _Framer:
    def __init__(self, view: memoryview, start: int, stop: int, transaction: Transaction | None) -> None:
        self.view, self.stop = view, stop
        self.mark = start  # up to where pieces were found
        self.transaction = transaction
        self.open: tuple[bytes, int] | None = None  # the element that is open: name and first byte
        self.held: Piece | None = None  # the last piece: what stands behind it may belong to it
        self.ready: list[Piece] = []

    def run(self) -> Iterator[Piece]:
        view, ready, element = self.view, self.ready, What.ELEMENT
        for token in TOKEN.finditer(view, self.mark, self.stop):
            if token.lastindex is None:
                continue
            slash, name = token.group(1, 2)
            first, last, stop = token.start(), token.end(3), token.end()
            if name == b"transaction":
                if slash:
                    self.transaction_ends(first, stop)
                else:
                    self.transaction_begins(first, last, stop)
            elif slash:
                opened, one = self.open, self.transaction
                if opened is not None and opened[0] == name and (one is None) == (name == b"operation"):
                    held, self.open = self.held, None  # nearly all elements end so; `element_ends` says it in full
                    piece = Piece(element, self.mark, stop, opened[1], last)
                    if one is not None:
                        one.count += 1
                        piece.transaction, piece.number = one, one.count
                    if held is not None:
                        ready.append(held)
                    self.held, self.mark = piece, stop
                else:
                    self.element_ends(name, last, stop)
            else:
                self.element_begins(name, first, last, stop)
            if ready:
                yield from ready
                ready.clear()
        self.finish()
        yield from ready

    # --- tokens

    def element_begins(self, name: bytes, first: int, last: int, stop: int) -> None:
        if self.open is not None:
            self.cut(first)
        if name == b"operation" and self.transaction is not None:
            self.leave(first)
        if self.mark < first:
            self.between(first)
        self.open = name, first
        if self.view[last - 2] == _SLASH:
            self.element_ends(name, last, stop)

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

    def transaction_begins(self, first: int, last: int, stop: int) -> None:
        if self.open is not None:
            self.cut(first)
        if self.transaction is not None:
            self.leave(first)
        if self.mark < first:
            self.between(first)
        self.transaction = Transaction(first, (first, last))
        if self.view[last - 2] == _SLASH:
            self.transaction_ends(last, stop)

    def transaction_ends(self, first: int, stop: int) -> None:
        if self.open is not None:
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
        """Ends an element that is open where something else begins."""
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
        """Deals with what stands before an element that begins at ``stop``."""
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

    def finish(self) -> None:
        self.cut(self.stop)
        one = self.transaction
        if one is not None:
            blank = _blank(self.view[self.mark : self.stop])
            self.leave(self.stop)
            if not blank and self.mark < self.stop and self.held is not None and self.held.unended:
                self.transaction = None
        if self.mark < self.stop:
            self.between(self.stop)
        if self.mark < self.stop:
            self.add(Piece(What.FILLER, self.mark, self.stop))
        if self.held is not None:
            self.ready.append(self.held)
            self.held = None


def _is_note(text: memoryview) -> bool:
    """Are these lines headings and comments of whoever put the elements together?"""
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
