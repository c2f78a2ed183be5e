"""Records that go on in others, put together: heads, fragments and chains (docs/formats/goldengate.md, continued
records).

A fragment continues the nearest record before it that is none, its *head*. What follows a head makes chains, each to
its first record with Continued = N: the rest of the head's own body, and a chain of LargeObject records for each large
object.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cdcwb.formats.goldengate.marks import LOB, Bools, Marks
from cdcwb.formats.goldengate.records import Ints, Records

__all__ = ["Head", "Piece", "Source", "heads_of"]


@dataclass(frozen=True, slots=True)
class Source:
    """Records that pieces are of, with their marks."""

    records: Records
    marks: Marks


@dataclass(frozen=True, slots=True)
class Piece:
    """A fragment: a record of a source."""

    source: Source
    record: int

    @property
    def is_lob(self) -> bool:
        """Is it a piece of a large object?"""
        return int(self.source.marks.io[self.record]) == LOB

    @property
    def goes_on(self) -> bool:
        """Does it say that another one follows?"""
        return bool(self.source.marks.goes_on[self.record])

    @property
    def count(self) -> int:
        """Number of pieces that it says there are; at least 1."""
        return max(int(self.source.records.column("RecCount")[self.record]), 1)

    @property
    def body(self) -> bytes:
        """Its bytes, as far as they are shown."""
        records = self.source.records
        printed = records.extras.get(self.record)
        if printed is not None and printed.body is not None:
            return printed.body
        start, stop = records.body_at[self.record].tolist()
        return records.bytes[start:stop].tobytes() if start >= 0 else b""

    @property
    def column(self) -> int | None:
        """Index of the column that its large object is of, where that is printed."""
        index = int(self.source.records.fragment[self.record, 0])
        return None if index < 0 else index


@dataclass(slots=True)
class Head:
    """A record that others continue. ``body``: those with the rest of its own body; ``lobs``: those of each large
    object; ``gaps``: a sentence for each chain that is not whole."""

    record: int
    body: list[Piece] = field(default_factory=list)
    lobs: list[list[Piece]] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)

    @property
    def pieces(self) -> int:
        """Number of records that were put together, its own included."""
        return 1 + len(self.body) + sum(len(lob) for lob in self.lobs)


def heads_of(own: Source, members: Ints, some: Bools, behind: Sequence[Piece]) -> list[Head]:
    """The heads among the members of a stretch (in trail order), of which ``some`` are fragments. ``behind``: the
    fragments that follow the stretch."""
    if not len(members):
        return []
    marks = own.marks
    cores = np.flatnonzero(~some)
    if not len(cores):
        return []
    ends = np.append(cores[1:], len(members))
    counts = ends - cores - 1
    counts[-1] += len(behind)
    found = []
    for at in np.flatnonzero((counts > 0) | marks.goes_on[members[cores]]).tolist():
        core = int(cores[at])
        pieces = [Piece(own, record) for record in members[core + 1 : int(ends[at])].tolist()]
        if at == len(cores) - 1:
            pieces += behind
        found.append(_chains(Head(int(members[core])), pieces, bool(marks.goes_on[members[core]]), own))
    return found


def _chains(head: Head, pieces: Sequence[Piece], goes_on: bool, own: Source) -> Head:
    lob: list[Piece] | None = None
    for piece in pieces:
        if piece.is_lob:
            goes_on = False  # what follows is the large object
            if lob is None:
                lob = []
                head.lobs.append(lob)
            lob.append(piece)
            if not piece.goes_on:
                _count(head, lob, "large object")
                lob = None
            continue
        if lob is not None:
            head.gaps.append(_unended(lob))
            lob = None
        head.body.append(piece)
        goes_on = piece.goes_on
    if lob is not None:
        head.gaps.append(_unended(lob))
    if goes_on:
        head.gaps.append(f"the record continues, but the last of its {1 + len(head.body)} segments is not its end")
    elif head.body:
        _count(head, [Piece(own, head.record), *head.body], "record")
    return head


def _unended(lob: Sequence[Piece]) -> str:
    most = max(piece.count for piece in lob)
    return f"a large object of {most} segments has {len(lob)} here, and the last of them is not its end"


def _count(head: Head, pieces: Sequence[Piece], what: str) -> None:
    said = pieces[0].count
    if len(pieces) < said:
        head.gaps.append(f"a {what} of {said} segments has {len(pieces)} here")
