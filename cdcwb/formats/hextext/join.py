"""Hex text as a whole: the candidates of all pieces joined, doubtful lines decided, digits paired."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from cdcwb.formats.hextext.digits import Digits
from cdcwb.formats.hextext.groups import WIDE, Candidates, candidates, habits
from cdcwb.formats.hextext.lines import Flags, Ints, Text

__all__ = ["read_hex"]


def read_hex(text: Text) -> Digits:
    """Find the data of a hex text. ``problem`` says how many digits had no partner and where the first of them is."""
    known = habits(text)
    parts: list[Candidates] = []
    characters = lines = 0
    for piece in text.pieces():
        part, lines = candidates(piece, known, lines, text.units)
        parts.append(part)
        characters += piece.characters
    none = np.empty(0, np.uint32)
    starts = np.concatenate([part.starts for part in parts] or [none])
    widths = np.concatenate([part.widths for part in parts] or [none])
    if not starts.size:
        return Digits(starts, widths, np.empty(0, np.int64), characters)
    for part in parts:
        part.starts = part.widths = none  # they are the bulk of the memory
    table = _Lines(*(np.concatenate([getattr(part, name) for part in parts]) for name in _Lines.__slots__))
    keep = table.decided(widths)
    if not keep.all():
        kept = np.repeat(keep, table.runs)
        starts, widths, table = starts[kept], widths[kept], table.only(keep)
    table = table.merged()
    first = table.first()
    lost = _unpaired(table, widths)
    problem = None
    if lost:
        place = (int(starts[lost[0]]) + int(widths[lost[0]])) * text.unit
        many = "1 hex digit has" if len(lost) == 1 else f"{len(lost):,} hex digits have"
        problem = f"{many} no second digit and are not a byte, the first at offset {place:,}"
    return Digits(starts, widths, first, characters, problem=problem)


@dataclass(slots=True)
class _Lines:
    """The columns of :class:`Candidates` for the whole text."""

    ordinal: Ints
    sure: Flags
    pure: Flags
    labelled: Flags
    runs: Ints

    def only(self, rows: NDArray[Any]) -> Self:
        return replace(self, **{name: getattr(self, name)[rows] for name in self.__slots__})

    def first(self) -> Ints:
        """The first run of every line."""
        return np.concatenate(([0], np.cumsum(self.runs)))[:-1]

    def digits(self, widths: NDArray[np.uint32]) -> Ints:
        """How many digits each line has (every line has a run)."""
        return np.add.reduceat(widths, self.first(), dtype=np.int64) if self.runs.size else self.runs

    def decided(self, widths: NDArray[np.uint32]) -> Flags:
        """Which lines are data: the sure ones, and doubtful ones in one block with them."""
        digits = self.digits(widths)
        begins = np.diff(self.ordinal, prepend=self.ordinal[:1]) > 1
        block = np.cumsum(begins)
        with_sure = np.bincount(block, self.sure) > 0
        # A text of one short group a line has no sure line: the block counts when all of it is groups of even width.
        short_only = np.bincount(block, ~self.pure | (digits % 2 == 1)) == 0
        short_only &= np.bincount(block, digits) >= 4 * WIDE
        # A doubtful odd line is the rest of a wrapped one, or a number of the prose.
        odd = self.pure & (digits % 2 == 1)
        wrapped = np.zeros(odd.size, np.bool_)
        wrapped[1:] = odd[:-1] & ~begins[1:]
        kept: Flags = self.sure | ((with_sure | short_only)[block] & (~odd | wrapped))
        return kept

    def merged(self) -> Self:
        """With the lines that stand in two pieces as one."""
        heads = np.flatnonzero(np.diff(self.ordinal, prepend=-1))
        return replace(self.only(heads), runs=np.add.reduceat(self.runs, heads))


def _unpaired(table: _Lines, widths: NDArray[np.uint32]) -> list[int]:
    """Take the digits without a partner off their runs (in place). Gives the runs that lost one.

    An odd line and an odd line straight after it were wrapped within a byte. In any other odd line the digit is missing
    in its only odd group, or at its end.
    """
    digits, first = table.digits(widths), table.first()
    odd = np.flatnonzero(digits % 2).tolist()
    lost: list[int] = []
    at = 0
    while at < len(odd):
        line = odd[at]
        wrapped = at + 1 < len(odd) and odd[at + 1] == line + 1 and table.ordinal[line + 1] == table.ordinal[line] + 1
        if wrapped and table.pure[line] and table.pure[line + 1] and not table.labelled[line + 1]:
            at += 2
            continue
        begin = int(first[line])
        groups = begin + np.flatnonzero(widths[begin : begin + int(table.runs[line])] % 2)
        run = int(groups[0] if groups.size == 1 else begin + table.runs[line] - 1)
        widths[run] -= 1
        lost.append(run)
        at += 1
    return lost
