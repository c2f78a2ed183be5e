"""Nodes of a field tree over text, and over bytes that a text shows as hex digits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cdcwb.formats.base import Field
from cdcwb.formats.goldengate.printed_lines import BLANK, hex_places, is_cut

__all__ = ["HexBytes", "group", "leaf", "line_of", "quiet"]

"""The name of what stands between fields: white space, labels and the text beside hex digits."""


def leaf(
    record: bytes, name: str, start: int, stop: int, value: str | None, meaning: str, problem: str | None = None
) -> Field:
    """A field of the record's text."""
    return Field(name, start, stop - start, record[start:stop], value, meaning, (), problem)


def quiet(record: bytes, name: str, start: int, stop: int, value: str | None, meaning: str) -> Field:
    """A field of the record's text that says nothing of the record."""
    return Field(name, start, stop - start, record[start:stop], value, meaning, (), None, True)


def group(
    record: bytes,
    name: str,
    start: int,
    stop: int,
    meaning: str,
    children: Iterable[Field],
    value: str | None = None,
    problem: str | None = None,
) -> Field:
    """A field with others in it; what they leave is filled. One that overlaps those before it is left out."""
    filled: list[Field] = []
    at = start
    for child in sorted((child for child in children if child.length > 0), key=lambda one: one.offset):
        if child.offset < at or child.offset + child.length > stop:
            continue
        if child.offset > at:
            filled.append(_between(record, at, child.offset))
        filled.append(child)
        at = child.offset + child.length
    if filled and at < stop:
        filled.append(_between(record, at, stop))
    return Field(name, start, stop - start, record[start:stop], value, meaning, tuple(filled), problem)


def _between(record: bytes, start: int, stop: int) -> Field:
    return quiet(record, "layout", start, stop, None, "white space, labels and text between hex digits")


def line_of(record: bytes, start: int, stop: int) -> tuple[int, bytes]:
    """A line without indentation and line end, and where that begins."""
    line = record[start:stop]
    stripped = line.strip(BLANK)
    return start + (line.index(stripped) if stripped else 0), stripped


class HexBytes:
    """Bytes that lines of a record show as hex digits, with the places of their digits."""

    def __init__(self, record: bytes, lines: Sequence[tuple[int, int]]) -> None:
        self.record = record
        self.places: list[int] = []
        for start, stop in lines:
            begin, line = line_of(record, start, stop)
            self.places += [begin + place for place in hex_places(line, is_cut(record, stop))]
        self.data = bytes(int(record[place : place + 2], 16) for place in self.places)
        self.stop = lines[-1][1] if lines else 0

    def __len__(self) -> int:
        return len(self.data)

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """Where the digits of the bytes ``[start, stop)`` begin and end in the text; an empty run has no text."""
        start, stop = max(start, 0), min(stop, len(self))
        if start >= stop:
            return self.stop, self.stop
        return self.places[start], self.places[stop - 1] + 2

    def leaf(
        self, name: str, start: int, stop: int, value: str | None, meaning: str, problem: str | None = None
    ) -> Field:
        """A field over some of the bytes; its raw bytes are those of the text."""
        return leaf(self.record, name, *self.span(start, stop), value, meaning, problem)

    def group(
        self,
        name: str,
        start: int,
        stop: int,
        meaning: str,
        children: Iterable[Field],
        value: str | None = None,
        problem: str | None = None,
    ) -> Field:
        """A field over some of the bytes, with others in it."""
        return group(self.record, name, *self.span(start, stop), meaning, children, value, problem)
