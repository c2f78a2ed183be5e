"""Dumps in which the length of each message precedes it.

Nothing but the lengths says where a message begins. A length is believed where the message behind it begins as one
does, or the next one is right as well; damage reaches up to the next place from which several messages follow each
other.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np

from cdcwb.formats.files import Source
from cdcwb.formats.messages.batch import (
    BYTES,
    LONGEST,
    MALFORMED,
    MESSAGE,
    TRUNCATED,
    Bools,
    Bytes,
    Found,
    Ints,
    Segments,
)
from cdcwb.formats.messages.container import PREFIXES, Options
from cdcwb.formats.messages.records import BINARY
from cdcwb.words import plural

__all__ = ["INVALID", "Framing", "detect_prefix", "iter_prefixed", "prefix_of"]


# --- prefixes ---------------------------------------------------------------------------------------------------------

INVALID: Final = -2
"""Stands for a length that is none: negative (but for -1, which is null), cut off, or longer than any file."""

_FIXED: Final = {"be4": ">i", "le4": "<i", "be8": ">q", "le8": "<q"}
_WIDEST: Final = 5  # bytes of a varint that is a length
_LIMIT: Final = 1 << 40


class Prefix(NamedTuple):
    """One kind of length prefix.

    ``read(data, place)`` gives the length (-1: null, :data:`INVALID`) and the place behind it; ``read_many(buffer,
    places)`` the lengths and the widths of the prefixes.
    """

    name: str
    read: Callable[[memoryview, int], tuple[int, int]]
    read_many: Callable[[Bytes, Ints], tuple[Ints, Ints]]


def prefix_of(name: str) -> Prefix:
    """The prefix of one of the names in :data:`cdcwb.formats.messages.container.PREFIXES`."""
    if name in _FIXED:
        return _fixed(name)
    return _varint(name, name == "zigzag")


def _fixed(name: str) -> Prefix:
    shape = struct.Struct(_FIXED[name])
    width = shape.size
    unpack = shape.unpack_from

    def read(data: memoryview, place: int) -> tuple[int, int]:
        if place + width > len(data):
            return INVALID, place
        length = unpack(data, place)[0]
        return (length if -1 <= length < _LIMIT else INVALID), place + width

    def read_many(buffer: Bytes, places: Ints) -> tuple[Ints, Ints]:
        good = (places >= 0) & (places + width <= len(buffer))
        length = np.full(len(places), INVALID, dtype=np.int64)
        if len(buffer) >= width:
            numbers = np.ndarray(
                (len(buffer) - width + 1,), dtype=_FIXED[name][0] + f"i{width}", buffer=buffer, strides=(1,)
            )
            length[good] = numbers[places[good]]
        length[(length < -1) | (length >= _LIMIT)] = INVALID
        return length, np.full(len(places), width, dtype=np.int64)

    return Prefix(name, read, read_many)


def _varint(name: str, zigzag: bool) -> Prefix:
    def read(data: memoryview, place: int) -> tuple[int, int]:
        value = shift = 0
        for at in range(place, min(place + _WIDEST, len(data))):
            byte = data[at]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if zigzag:
                    value = (value >> 1) ^ -(value & 1)
                return (value if value >= -1 else INVALID), at + 1
            shift += 7
        return INVALID, place

    def read_many(buffer: Bytes, places: Ints) -> tuple[Ints, Ints]:
        value = np.zeros(len(places), dtype=np.int64)
        width = np.zeros(len(places), dtype=np.int64)
        going: Bools = (places >= 0) & (places < len(buffer))
        for at in range(_WIDEST):
            going &= places + at < len(buffer)
            byte = buffer[np.where(going, places + at, 0)].astype(np.int64) if len(buffer) else value
            value[going] |= (byte[going] & 0x7F) << (7 * at)
            ended = going & (byte < 0x80)
            width[ended] = at + 1
            going &= byte >= 0x80
        if zigzag:
            value = (value >> 1) ^ -(value & 1)
        value[(width == 0) | (value < -1)] = INVALID
        return value, np.maximum(width, 1)

    return Prefix(name, read, read_many)


# --- prefixed ---------------------------------------------------------------------------------------------------------

HOLDS: Final = 3
"""Messages that must follow each other behind damage."""

_LEAST: Final = 1 << 10
_MOST: Final = 1 << 20
_KEYS: Final = 1 << 16  # a key is not longer, where nothing else tells
_BLANK: Final = b" \t\r\n"
_BLANKS: Final = 64  # that a value may begin with


class Entry(NamedTuple):
    """One message: its key and value, and where the next begins. ``-1`` as a begin: null."""

    key: int
    key_end: int
    value: int
    end: int
    known: bool  # the value begins as messages do


_LATER: Final = Entry(-1, -1, -1, -1, False)
"""Stands for a message of which too little is loaded."""


class Framing:
    """How lengths, keys and values follow each other in a file."""

    def __init__(
        self,
        source: Source,
        prefix: str,
        pairs: bool,
        anything: bool = False,
        start: int = 0,
        loaded: int | None = None,
    ) -> None:
        """``anything``: values may begin with any byte, so that only the lengths count. ``start``: byte of the file
        that is place 0. ``loaded``: bytes that are read from there on (None: all)."""
        self.size = source.length - start
        self.buffer: Bytes = source.mapped()[start:] if loaded is None else source.read(start, start + loaded)
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
        for place in range(at, at + min(length, _BLANKS)):
            if self.data[place] not in _BLANK:
                return self.data[place] == ord("{")
        return False

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
        begins = (byte == 0) | np.isin(byte, list(b"{a"))
        is_blank = np.isin(byte, list(_BLANK))
        if is_blank.any():  # a value may begin with a few, but a file of blanks has no message
            first = int(at[is_blank].min())
            part = self.buffer[first : int(at[is_blank].max()) + _BLANKS]
            others = first + np.flatnonzero(~np.isin(part, list(_BLANK)))
            after = np.append(others, self.size)[np.searchsorted(others, at)]
            is_near = is_blank & (after < np.minimum(at + np.minimum(lengths[good], _BLANKS), len(self.buffer)))
            begins[is_near] = self.buffer[after[is_near]] == ord("{")
        found: Ints = places[begins]
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


# --- chains -----------------------------------------------------------------------------------------------------------

_LOOK: Final = 1 << 20  # bytes of a damaged file that are framed to tell what it is
_LOADED: Final = 2 << 20  # bytes that are read before the rest of it
_CHAIN: Final = 100_000  # messages that are followed to tell what a file is
_ID: Final = 5  # bytes of a zero byte and a schema id
_KEPT: Final = 1000  # of them are compared with each other
_HEAD: Final = 1 << 16  # bytes in which lengths have to hold before the rest of a file is read
_WIDTH: Final = 8  # bytes of a length, at most
_FEW: Final = 16  # messages of which half have to begin as messages do

_MOST_OF_IT: Final = 0.5

Run = tuple[int, int]


class Chain(NamedTuple):
    """A way to read a file as length-prefixed messages, and why."""

    prefix: str
    pairs: bool
    anything: bool
    evidence: str


def detect_prefix(source: Source, options: Options, damaged: bool) -> Chain | None:
    """The lengths whose chain lands on the file's end; with ``damaged`` also one that holds for most of its
    beginning. None where there is none. Given options stand; then values may begin with any byte."""
    if not source.length:
        return None
    names = [options.prefix] if options.prefix else list(PREFIXES)
    ways = [options.pairs] if options.pairs is not None else [False, True]
    chains = [
        chain
        for name in names
        for pairs in ways
        if _may_hold(source, name, pairs) and (chain := _chain(Framing(source, name, pairs), options)) is not None
    ]
    if chains:
        return chains[0]
    if options.prefix:
        for pairs in ways:
            if _may_hold(source, options.prefix, pairs, True):
                chain = _chain(Framing(source, options.prefix, pairs, True), options)
                if chain is not None:
                    return chain
    if damaged:
        likely = [
            (name, pairs) for name in names for pairs in ways if options.prefix or _may_share(source, name, pairs)
        ]
        found = [(_share(Framing(source, name, pairs)), name, pairs) for name, pairs in likely]
        share, name, pairs = max(found, key=lambda one: one[0], default=(0.0, "", False))
        if share >= _MOST_OF_IT:
            evidence = f"{share:.0%} of the first bytes are messages with their {_words(name, pairs)}"
            return Chain(name, pairs, False, evidence)
    return None


def _words(prefix: str, pairs: bool) -> str:
    return f"length before them ({prefix})" + (", each after a key with its own" if pairs else "")


def _may_hold(source: Source, prefix: str, pairs: bool, anything: bool = False) -> bool:
    """Whether the lengths may hold: False where :func:`_chain` stops at the file's beginning or among the first
    messages, wherever the lengths lead. So a file of another kind is not transferred to its end from an object store.
    """
    fields = 2 if pairs else 1  # that have lengths
    start = place = number = known = 0
    framing = Framing(source, prefix, False, anything, loaded=_HEAD)
    while place < source.length:
        behind = start + len(framing.buffer)
        try:
            entry = framing.entry(place - start) if place + _WIDTH <= behind or behind == source.length else _LATER
        except IndexError:  # a value that is blank as far as it is loaded
            entry = _LATER
        if entry is None:
            return False
        if entry == _LATER:
            if place == start or number >= fields * _FEW:
                return True
            start, framing = place, Framing(source, prefix, False, anything, place, _HEAD)
            continue
        number += 1
        known += entry.known and number % fields == 0
        messages = number // fields
        if messages >= _FEW and known < messages // 2:
            return False
        place = start + entry.end
    return True


def _chain(framing: Framing, options: Options) -> Chain | None:
    """Follows the lengths from the file's begin; None where they do not hold."""
    place = number = known = nulls = 0
    entries: list[Entry] = []
    while place < framing.size and number < _CHAIN:
        entry = framing.entry(place)
        if entry is None:
            return None
        number += 1
        nulls += entry.value < 0
        known += entry.known
        if number >= _FEW and known < number // 2:
            return None
        if len(entries) < _KEPT:
            entries.append(entry)
        place = entry.end
    values = number - nulls
    if (known - nulls) * 10 < values * 9 or not values or (place < framing.size and number < _CHAIN):
        return None
    if options.pairs is None and framing.pairs and not _are_pairs(framing, entries):
        return None
    if options.pairs is None and not framing.pairs and number % 2 == 0 and _alternates(framing, entries):
        return None
    where = "lead to the file's end" if place == framing.size else "hold"
    evidence = (
        f"the lengths of {plural(number, 'message')} {where}, read as a {_words(framing.prefix.name, framing.pairs)}"
    )
    return Chain(framing.prefix.name, framing.pairs, framing.anything, evidence)


def _are_pairs(framing: Framing, entries: list[Entry]) -> bool:
    """Is what stands before each value a key: something that begins otherwise, or is unlike the values?"""
    keys = [(entry.key, entry.key_end) for entry in entries if entry.key < entry.key_end]
    if not keys or framing.anything:
        return False
    like = sum(framing.begins(start, end - start) for start, end in keys)
    return 2 * like < len(keys) or _unlike(keys, [(e.value, e.end) for e in entries if e.value >= 0], framing)


def _alternates(framing: Framing, entries: list[Entry]) -> bool:
    """Do keys and values take turns?"""
    runs = [(entry.value, entry.end) for entry in entries]
    keys, values = ([run for run in turn if run[0] >= 0] for turn in (runs[::2], runs[1::2]))
    return len(runs) > 2 and _unlike(keys, values, framing)


def _unlike(keys: list[Run], values: list[Run], framing: Framing) -> bool:
    """Can these be keys and those values: have they schema ids that never meet, or is every key shorter than every
    value?"""
    if not keys or not values:
        return False
    heads = [{bytes(framing.data[start : min(start + 5, end)]) for start, end in runs} for runs in (keys, values)]
    if all(head[:1] == b"\0" for head in heads[0] | heads[1]):
        return not heads[0] & heads[1]
    return max(end - start for start, end in keys) < min(end - start for start, end in values)


def _any(framing: Framing, segments: Segments, at: int) -> bool:
    """Is anything but zeros in a segment?"""
    return bool(framing.buffer[int(segments.start[at]) : int(segments.end[at])].any())


def _may_share(source: Source, prefix: str, pairs: bool) -> bool:
    """Whether some of a file's first bytes may be messages, by as many as are read of every file."""
    framing = Framing(source, prefix, pairs, loaded=_LOADED)
    framing.size = len(framing.buffer)
    return _share(framing) > 0


def _share(framing: Framing) -> float:
    """The share of the file's first bytes that are messages, if there are several."""
    there = messages = number = 0
    heads: Counter[bytes] = Counter()
    for segments in iter_prefixed(framing, limit=_LOOK):
        lengths = segments.end - segments.start
        good = segments.state == MESSAGE
        zeros = [at for at in np.flatnonzero(~good).tolist() if not _any(framing, segments, at)]
        there += int(lengths.sum()) - int(lengths[zeros].sum())
        messages += int(lengths[good].sum())
        number += int(np.count_nonzero(good & ~segments.null))
        heads.update(bytes(framing.data[at : at + _ID]) for at in segments.first[good & ~segments.null].tolist())
    once = sum(times == 1 for head, times in heads.items() if head[:1] == b"\0")  # ids that no other message has
    return messages / max(there, 1) if number >= HOLDS and 2 * once <= number else 0.0
