"""A numeric scale for log positions, which are text: 64-bit positions do not survive JavaScript's numbers.

Positions are never handed to plotly as numbers. A :class:`PositionScale` places each on an axis that starts at 0,
computed in Python's exact integers, and the true positions are the labels of its ticks.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

__all__ = ["PositionScale"]

_WORD: Final = re.compile(r"[0-9A-F]{16}")
_SEQUENCE: Final = re.compile(r"[0-9]{35}")
_TRAIL: Final = re.compile(r"[0-9]{20}")
_LOG_SIZE: Final = 1 << 32
_TRAIL_SIZE: Final = 10**10
_EXACT: Final = 1 << 53  # from here on a browser rounds
_JUMP: Final = 100  # numbers between two positions that are always taken as they are
_TAIL: Final = 4  # digits of a number that a tick shows


class PositionScale:
    """Places log positions on an axis.

    Positions of 16 hexadecimal digits are (number of the log) << 32 | (byte in that log) (``docs/formats/gbase8s.md
    §6``). Logs are far smaller than the 4 GiB that their numbers are apart, so each log is drawn as wide as the bytes
    of it that are used, the next one beside it after a small gap: a unit of this axis is a byte of log. The same holds
    for positions of 20 digits: ten of the number of a trail file and ten of the byte in it
    (``docs/formats/goldengate.md §9``).

    Positions of 35 digits are the time of a commit and the number of a change (``docs/formats/qlik-kafka.md §5.1``). A
    unit of the axis is a change number, unless these do not rise or one jump would be the greater part of it.

    Positions of any other shape stand in text order, which is log order, one unit apart.

    ``positions``: every position that will be asked for, in any order, repeats allowed; None is left out.
    """

    def __init__(self, positions: Iterable[str | None]) -> None:
        self._sorted: list[str] = sorted({p for p in positions if p is not None})
        in_log = bool(self._sorted) and all(_WORD.fullmatch(p) for p in self._sorted)
        self._in_trail = bool(self._sorted) and all(_TRAIL.fullmatch(p) for p in self._sorted)
        self.in_bytes: bool = in_log or self._in_trail
        self.breaks: list[float] = []
        """Where one log ends and the next one begins, in the middle of the gap between them."""
        self._are_sequences = bool(self._sorted) and all(_SEQUENCE.fullmatch(p) for p in self._sorted)
        numbers = [int(p[16:]) for p in self._sorted] if self._are_sequences else []
        self.in_numbers: bool = bool(numbers) and _is_even(numbers)
        self._at: dict[str, int]
        if self.in_bytes:
            self._at = self._by_bytes()
        elif self.in_numbers:
            self._at = {p: number - numbers[0] for p, number in zip(self._sorted, numbers, strict=True)}
        else:
            self._at = {p: n for n, p in enumerate(self._sorted)}

    def _by_bytes(self) -> dict[str, int]:
        base, size = (10, _TRAIL_SIZE) if self._in_trail else (16, _LOG_SIZE)
        split = [divmod(int(p, base), size) for p in self._sorted]
        used: dict[int, tuple[int, int]] = {}
        for log, byte in split:
            used[log] = (used.get(log, (byte, byte))[0], byte)
        gap = max(1, sum(last - first for first, last in used.values()) // 50)
        start: dict[int, int] = {}
        at = 0
        for log, (first, last) in used.items():
            start[log] = at - first
            at += last - first + gap
        for left, right in pairwise(used):
            self.breaks.append((start[left] + used[left][1] + start[right] + used[right][0]) / 2)
        return {p: start[log] + byte for p, (log, byte) in zip(self._sorted, split, strict=True)}

    def __len__(self) -> int:
        return len(self._sorted)

    @property
    def span(self) -> int:
        """How long the axis is; the least position is at 0."""
        return self._at[self._sorted[-1]] if self._sorted else 0

    @property
    def last(self) -> str | None:
        """The highest position; None where there is none."""
        return self._sorted[-1] if self._sorted else None

    @property
    def unit(self) -> str:
        """What one unit of the axis is."""
        if self.in_numbers:
            return "numbers of changes"
        if self._in_trail:
            return "bytes of trail"
        return "bytes of log" if self.in_bytes else "order in the log"

    @property
    def days(self) -> str:
        """The days that positions name, ``2026-02-03`` or ``2026-02-03 to 2026-02-04``; empty where they name none."""
        if not self._are_sequences:
            return ""
        first, last = (f"{p[:4]}-{p[4:6]}-{p[6:8]}" for p in (self._sorted[0], self._sorted[-1]))
        return first if first == last else f"{first} to {last}"

    @property
    def log(self) -> str:
        """What lies on either side of a break."""
        return "trail file" if self._in_trail else "log"

    def short(self, position: str) -> tuple[str, ...]:
        """A position as the lines of a tick's label: of 35 digits the time, ``08:00:13.22``, behind month and day where
        there are several days, and the end of the number, ``…0017``; of 20 digits trail file and byte. Any other is
        short enough."""
        if self._in_trail:
            trail, byte = divmod(int(position), _TRAIL_SIZE)
            return f"trail {trail}", f"{byte:,}"
        if not self._are_sequences:
            return (position,)
        day = f"{position[4:6]}-{position[6:8]} " if " " in self.days else ""
        time = f"{position[8:10]}:{position[10:12]}:{position[12:14]}.{position[14:16]}"
        return f"{day}{time}", f"…{position[-_TAIL:]}"

    def at(self, position: str) -> int:
        """Where ``position`` stands. Raises KeyError for one that the scale was not made for."""
        return self._at[position]

    def ticks(self, wanted: int = 5) -> tuple[list[int], list[str]]:
        """Up to ``wanted`` places spread over the axis, each the place of a true position, and those positions as
        text."""
        if not self._sorted:
            return [], []
        places = [self._at[p] for p in self._sorted]
        picked: dict[int, str] = {}
        least_apart = self.span / (2 * wanted)
        for step in range(wanted):
            target = self.span * (step + 0.5) / wanted  # none at the very edge, where its label would be cut
            index = min(bisect_left(places, target), len(places) - 1)
            if index and target - places[index - 1] < places[index] - target:
                index -= 1
            if all(abs(places[index] - place) >= least_apart for place in picked):
                picked[places[index]] = self._sorted[index]
        return list(picked), list(picked.values())


def _is_even(numbers: list[int]) -> bool:
    """Do numbers rise, exactly in a browser too, without a jump that would be the greater part of their axis?"""
    steps = [right - left for left, right in pairwise(numbers)]
    span = numbers[-1] - numbers[0]
    widest = max(steps, default=0)
    return all(step > 0 for step in steps) and span < _EXACT and (widest < _JUMP or 2 * widest <= span)
