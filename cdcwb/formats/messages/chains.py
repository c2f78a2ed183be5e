"""Which lengths stand before the messages of a file, as the chain that they make tells."""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

import numpy as np

from cdcwb.formats.files import Source
from cdcwb.formats.messages.batch import MESSAGE
from cdcwb.formats.messages.container import PREFIXES, Options
from cdcwb.formats.messages.prefixed import HOLDS, Entry, Framing, iter_prefixed
from cdcwb.formats.messages.segments import Segments
from cdcwb.words import plural

__all__ = ["Chain", "detect_prefix"]

_LOOK: Final = 1 << 20  # bytes of a damaged file that are framed to tell what it is
_CHAIN: Final = 100_000  # messages that are followed to tell what a file is
_ID: Final = 5  # bytes of a zero byte and a schema id
_KEPT: Final = 1000  # of them are compared with each other

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
        if (chain := _chain(Framing(source, name, pairs), options)) is not None
    ]
    if chains:
        return chains[0]
    if options.prefix:
        loose = [_chain(Framing(source, options.prefix, pairs, True), options) for pairs in ways]
        for chain in loose:
            if chain is not None:
                return chain
    if damaged:
        found = [(_share(Framing(source, name, pairs)), name, pairs) for name in names for pairs in ways]
        share, name, pairs = max(found, key=lambda one: one[0])
        if share >= _MOST_OF_IT:
            evidence = f"{share:.0%} of the first bytes are messages with their {_words(name, pairs)}"
            return Chain(name, pairs, False, evidence)
    return None


def _words(prefix: str, pairs: bool) -> str:
    return f"length before them ({prefix})" + (", each after a key with its own" if pairs else "")


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
        if number >= 16 and known < number // 2:
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
