"""Dumps in which the length of each message stands before it, with a key that has a length of its own or without.

Nothing but the lengths says where a message begins. A length is believed where the message behind it begins as one
does, or the next one is right as well; damage reaches up to the next place from which several messages follow each
other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from cdcwb.formats.files import Source
from cdcwb.formats.messages.batch import MALFORMED, TRUNCATED, Bytes, Ints
from cdcwb.formats.messages.encodings import BINARY
from cdcwb.formats.messages.prefixes import INVALID, Prefix, prefix_of
from cdcwb.formats.messages.segments import BYTES, LONGEST, Found, Segments

__all__ = ["HOLDS", "Entry", "Framing", "iter_prefixed"]

HOLDS: Final = 3
"""Messages that must follow each other behind damage."""

_LEAST: Final = 1 << 10
_MOST: Final = 1 << 20
_KEYS: Final = 1 << 16  # a key is not longer, where nothing else tells
_BLANK: Final = b" \t\r\n"


class Entry(NamedTuple):
    """One message: its key and value, and where the next begins. ``-1`` as a begin: null."""

    key: int
    key_end: int
    value: int
    end: int
    known: bool  # the value begins as messages do


class Framing:
    """How lengths, keys and values follow each other in a file."""

    def __init__(self, source: Source, prefix: str, pairs: bool, anything: bool = False) -> None:
        """``anything``: values may begin with any byte, so that only the lengths count."""
        self.size = source.length
        self.buffer: Bytes = source.read(0, source.length)
        self.data = self.buffer.data
        self.prefix: Prefix = prefix_of(prefix)
        self.pairs = pairs
        self.anything = anything

    def entry(self, place: int) -> Entry | None:
        """The message at a place; None where there can be none."""
        key = key_end = -1
        if self.pairs:
            length, at = self.prefix.read(self.data, place)
            if length == INVALID or at + length > self.size or length > LONGEST:
                return None
            if length >= 0:
                key, key_end = at, at + length
                place = key_end
            else:
                place = at
        length, at = self.prefix.read(self.data, place)
        if length == INVALID or at + length > self.size or length > LONGEST:
            return None
        if length < 0:
            return Entry(key, key_end, -1, at, True)
        return Entry(key, key_end, at, at + length, self.anything or self.begins(at, length))

    def begins(self, at: int, length: int) -> bool:
        """Does a value begin as messages do?"""
        if not length:
            return False
        byte = self.data[at]
        if byte == 0:
            return length > len(BINARY)
        if byte == BINARY[0]:
            return bytes(self.data[at : at + len(BINARY)]) == BINARY
        while byte in _BLANK and length > 1:
            at, length = at + 1, length - 1
            byte = self.data[at]
        return byte == ord("{")

    def holds(self, place: int) -> bool:
        """Do several messages follow each other from a place on, the first of them no null?"""
        for number in range(HOLDS):
            if place == self.size:
                return number > 0
            entry = self.entry(place)
            if entry is None or not entry.known or (number == 0 and entry.value < 0):
                return False
            place = entry.end
        return True

    def next_chain(self, place: int, stop: int) -> int:
        """The first place in ``[place, stop)`` from which messages follow each other, or -1."""
        step = _LEAST
        while place < stop:
            behind = min(place + step, stop)
            for candidate in self._candidates(np.arange(place, behind)).tolist():
                if self.holds(candidate):
                    return int(candidate)
            place, step = behind, min(4 * step, _MOST)
        return -1

    def _candidates(self, places: Ints) -> Ints:
        """The places where a message that begins as such may stand."""
        lengths, widths = self.prefix.read_many(self.buffer, places)
        at = places + widths
        if self.pairs:
            good = (lengths >= -1) & (lengths <= _KEYS)
            places, at = places[good], at[good] + np.maximum(lengths[good], 0)
            lengths, widths = self.prefix.read_many(self.buffer, at)
            at = at + widths
        good = (lengths > 0) & (lengths <= LONGEST) & (at + lengths <= self.size)
        places, at = places[good], at[good]
        if self.anything:
            return places
        byte = self.buffer[at]
        found: Ints = places[(byte == 0) | np.isin(byte, list(b"{a" + _BLANK))]
        return found


def iter_prefixed(framing: Framing, most: int = 8192, limit: int | None = None) -> Iterator[Segments]:
    """All segments of a file, or those that begin before ``limit``."""
    found = Found()
    place, size = 0, framing.size
    stop = size if limit is None else min(limit, size)
    entry = framing.entry(0) if size else None
    while place < stop:
        following = framing.entry(entry.end) if entry is not None and entry.end < size else None
        goes_on = -1
        if entry is not None:
            right = entry.end == size or (following is not None and following.known)
            if not right and entry.known:
                goes_on = framing.next_chain(place + 1, entry.end)
                right = goes_on < 0  # its end is where it says, and the damage is behind it
            if right:
                first = entry.end if entry.value < 0 else entry.value
                found.message(place, entry.end, first, entry.end, entry.key, entry.key_end, entry.value < 0)
                place, entry = entry.end, following
                if len(found) >= most or found.bytes >= BYTES:
                    yield found.take()
                continue
        goes_on = goes_on if goes_on >= 0 else framing.next_chain(place + 1, stop)
        goes_on = goes_on if goes_on >= 0 else stop
        found.malformed(place, goes_on, *_damage(framing, place, goes_on))
        yield found.take()
        place = goes_on
        entry = framing.entry(place) if place < size else None
    if len(found):
        yield found.take()


def _damage(framing: Framing, place: int, goes_on: int) -> tuple[str, int]:
    """What is wrong with the bytes at ``place``, and the state that they have."""
    length, at = framing.prefix.read(framing.data, place)
    there = framing.size - at
    if length == INVALID:
        found = framing.data[place : place + 8].hex()
        return f"the length of a message ({framing.prefix.name}) was expected, found {found}", MALFORMED
    if at + length > framing.size:
        sentence = f"a message of {length:,} bytes was expected, {there:,} bytes are there"
        return (f"truncated: {sentence}", TRUNCATED) if goes_on >= framing.size else (sentence, MALFORMED)
    if not framing.buffer[place : min(goes_on, place + 4096)].any():
        return "zero bytes where the length of a message was expected", MALFORMED
    return f"a length of {length:,} bytes leads to no other message", MALFORMED
