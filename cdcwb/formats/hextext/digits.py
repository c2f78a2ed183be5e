"""A text of hex digits as a source of wire bytes, with the location of every byte.

The data of a text is a list of runs of digits, which gives the wire bytes and, for any range of them, the location of
its digits in the file. A table of runs needs 8 to 16 bytes per run, less than a location for every digit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from cdcwb.formats.hextext.lines import NIBBLE, PIECE, Bytes, Ints, Text

__all__ = ["Digits", "TextSource", "place_type"]


def _none() -> Ints:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Digits:
    """The runs of data digits of a text, in order; two digits make a byte, also across runs.

    ``starts`` are units of the text, ``widths`` digits. ``lines`` and ``reads`` are indices of the runs that begin a
    line and a read. ``stars`` are the runs for omitted lines of a dump: each of ``widths / 2`` bytes, which repeat the
    preceding ``periods`` bytes. ``characters`` counts all characters of the text except white space.
    """

    starts: NDArray[Any]
    widths: NDArray[Any]
    lines: Ints
    characters: int
    reads: Ints | None = None
    stars: Ints = field(default_factory=_none)
    periods: Ints = field(default_factory=_none)
    problem: str | None = None

    @property
    def length(self) -> int:
        """The number of bytes of the digits, without stars."""
        stars = int(self.widths[self.stars].sum(dtype=np.int64))
        return (int(self.widths.sum(dtype=np.int64)) - stars) // 2

    @property
    def share(self) -> float:
        """Data digits per character, without white space."""
        return 2 * self.length / self.characters if self.characters else 0.0


def place_type(most: int) -> type[np.unsignedinteger[Any]]:
    """The smaller of two unsigned types for offsets up to ``most``: four bytes below 4 GiB, else eight."""
    return np.uint32 if most < 1 << 32 else np.uint64


class TextSource:
    """One text file as wire bytes; see :class:`cdcwb.formats.files.Source`."""

    def __init__(
        self,
        path: str,
        text: Text,
        digits: Digits,
        *,
        shape: str,
        size: int,
        compression: str | None,
        evidence: str,
        problem: str | None,
    ) -> None:
        self.path = path
        self.shape = shape
        self.compression = compression
        self.size = size
        self.evidence = evidence
        self.problem = "; ".join(filter(None, (problem, digits.problem))) or None
        self._unit = text.unit
        self._starts = digits.starts
        self._stars = digits.stars
        total = int(digits.widths.sum(dtype=np.int64))
        self._before = np.zeros(digits.widths.size + 1, place_type(total))  # digits that precede every run
        np.cumsum(digits.widths, dtype=self._before.dtype, out=self._before[1:])
        wire = _spelled(text, digits)
        self.data_share = digits.share
        self._wire = _repeated(wire, digits, self._before) if digits.stars.size else wire
        self._wire.flags.writeable = False
        self.length = int(self._wire.size)
        self.line_starts: Ints | None = self._byte_of(digits.lines)
        self.read_starts: Ints | None = None if digits.reads is None else self._byte_of(digits.reads)

    def _byte_of(self, runs: Ints) -> Ints:
        return (self._before[runs].astype(np.int64) + 1) // 2

    def read(self, start: int, stop: int) -> Bytes:
        """The wire bytes from ``start`` to ``stop``, clipped to ``length``; a read-only view."""
        start = min(max(start, 0), self.length)
        return self._wire[start : min(max(stop, start), self.length)]

    def view(self, start: int, stop: int) -> Bytes:
        """The wire bytes before ``stop``; those before ``start`` too."""
        return self.read(0, stop)

    def mapped(self) -> Bytes:
        """All wire bytes."""
        return self.read(0, self.length)

    def places(self, start: NDArray[Any], stop: NDArray[Any]) -> tuple[Ints, Ints]:
        """The locations of wire ranges in the decompressed file: (offset of the first digit, end of the last one) in
        bytes. A byte of a ``*`` of a dump has the location of the ``*``. An empty range has an empty location: at its
        first byte, or after the last digit of the file.
        """
        first = np.clip(np.asarray(start, np.int64), 0, self.length)
        last = np.clip(np.asarray(stop, np.int64), first, self.length)
        if not self.length:
            return np.zeros_like(first), np.zeros_like(first)
        offset = self._place(np.minimum(2 * first, 2 * self.length - 1))[0]
        end = self._place(np.maximum(2 * last - 1, 0))[1]
        offset = np.where(first == self.length, self._place(np.array([2 * self.length - 1]))[1], offset)
        end = np.where(last == first, offset, end)
        return offset * self._unit, end * self._unit

    def _place(self, digit: Ints) -> tuple[Ints, Ints]:
        run = np.searchsorted(self._before, digit.astype(self._before.dtype), side="right") - 1
        begin = self._starts[run].astype(np.int64)
        place = begin + digit - self._before[run].astype(np.int64)
        if self._stars.size:
            at = np.minimum(np.searchsorted(self._stars, run), self._stars.size - 1)
            place = np.where(self._stars[at] == run, begin, place)
        return place, place + 1

    def close(self) -> None:
        """Releases the bytes."""
        self._wire = self._wire[:0]
        self._starts = self._before = np.zeros(1, np.uint32)
        self.length = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _spelled(text: Text, digits: Digits) -> Bytes:
    """The bytes of the digits, without stars."""
    starts, widths = digits.starts, digits.widths
    if digits.stars.size:
        starts, widths = np.delete(starts, digits.stars), np.delete(widths, digits.stars)
    wire = np.empty(digits.length, np.uint8)
    done = 0  # digits
    bounds = np.searchsorted(starts, np.arange(0, text.units + PIECE, PIECE, dtype=np.int64).astype(starts.dtype))
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        if low == high:
            continue
        base = int(starts[low])
        begin = starts[low:high].astype(np.int64) - base
        end = begin + widths[low:high]
        edge = np.zeros(int(end[-1]) + 1, np.int8)
        edge[begin] += 1
        edge[end] -= 1
        inside = np.cumsum(edge[:-1], dtype=np.int8).view(np.bool_)
        nibble = NIBBLE[text.at(base, base + inside.size)[inside]]
        if done & 1:
            wire[done // 2] |= nibble[0]
            nibble, done = nibble[1:], done + 1
        pairs = nibble.size // 2
        at = done // 2
        np.bitwise_or(nibble[0 : 2 * pairs : 2] << 4, nibble[1 : 2 * pairs : 2], out=wire[at : at + pairs])
        if nibble.size & 1:
            wire[at + pairs] = nibble[-1] << 4
        done += int(nibble.size)
    return wire


def _repeated(wire: Bytes, digits: Digits, before: NDArray[Any]) -> Bytes:
    """The bytes with those of the stars inserted."""
    parts: list[Bytes] = []
    taken = added = 0
    for run, period in zip(digits.stars.tolist(), digits.periods.tolist(), strict=True):
        length = int(digits.widths[run]) // 2
        place = int(before[run]) // 2 - added  # in the bytes without stars
        parts.append(wire[taken:place])
        parts.append(np.resize(wire[place - period : place], length))
        taken, added = place, added + length
    parts.append(wire[taken:])
    return np.concatenate(parts)
