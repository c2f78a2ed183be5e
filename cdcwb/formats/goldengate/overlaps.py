"""Sections that hold records of the same stretch of a trail file: which records were printed twice, which others share
an RBA, and how the rest take turns.

That is so where a session was logged twice, or went back and forth. Records of such sections are compared by RBA and
text; runs of them are what the plan holds of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from cdcwb.formats.goldengate.records import Ints
from cdcwb.formats.goldengate.scanning import Places
from cdcwb.formats.goldengate.trail import TrailFile

__all__ = ["Crossing", "Ranges", "crossings"]

Ranges = dict[int, list[tuple[int, int]]]


@dataclass(slots=True)
class Crossing:
    """Sections, as (number of the part, section), whose ranges of RBA in one trail file overlap."""

    sections: list[tuple[int, int]]
    places: dict[tuple[int, int], Places] = field(default_factory=dict)

    def take(self, part: int, found: Iterable[Places]) -> None:
        """Takes in the records of a part's sections."""
        for one in found:
            if (part, one.section) in self.sections:
                self.places[part, one.section] = one

    def solve(self, cuts: dict[int, Ranges], repeated: dict[int, Ranges], shared: dict[int, Ranges]) -> None:
        """Says for each part and section into which ranges of RBA it falls, so that those of all sections follow each
        other, which runs of its records (in trail order) another section, earlier in the capture, holds too, and for
        which runs such a section holds a different record with the same RBA."""
        owners = sorted(self.places)
        rba = np.concatenate([self.places[one].rba for one in owners])
        mark = np.concatenate([self.places[one].mark for one in owners])
        owner = np.concatenate([np.full(len(self.places[one].rba), at) for at, one in enumerate(owners)])
        again = _again(rba, mark, owner)
        second = _second(rba, owner, ~again & (mark != 0))
        for at, (part, section) in enumerate(owners):
            for flags, found in ((again, repeated), (second, shared)):
                runs = _runs(flags[owner == at])
                if runs:
                    found.setdefault(part, {})[section] = runs
        left = np.flatnonzero(~again)
        order = left[np.lexsort([left, owner[left], rba[left]])]
        if not len(order):
            return
        edge = np.flatnonzero(np.append(True, owner[order][1:] != owner[order][:-1]))
        last = np.append(edge[1:], len(order)) - 1
        for first, final in zip(order[edge].tolist(), order[last].tolist(), strict=True):
            part, section = owners[int(owner[first])]
            cuts.setdefault(part, {}).setdefault(section, []).append((int(rba[first]), int(rba[final])))


def _again(rba: Ints, mark: Ints, owner: Ints) -> np.ndarray:
    """Which records are there before in another section; those marked 0 are told from all others."""
    order = np.lexsort([owner, mark, rba])
    same = (rba[order][1:] == rba[order][:-1]) & (mark[order][1:] == mark[order][:-1]) & (mark[order][1:] != 0)
    out = np.zeros(len(rba), dtype=np.bool_)
    out[order[1:]] = same
    return out


def _second(rba: Ints, owner: Ints, some: np.ndarray) -> np.ndarray:
    """Which of some records have the RBA of one in an earlier section."""
    chosen = np.flatnonzero(some)
    chosen = chosen[np.lexsort([owner[chosen], rba[chosen]])]
    starts = np.append(True, rba[chosen][1:] != rba[chosen][:-1])[: len(chosen)]
    first = np.maximum.accumulate(np.where(starts, np.arange(len(chosen)), 0))
    out = np.zeros(len(rba), dtype=np.bool_)
    out[chosen] = owner[chosen] != owner[chosen[first]]
    return out


def _runs(flags: np.ndarray) -> list[tuple[int, int]]:
    """Runs (first, last) of the places where ``flags`` is true."""
    padded = np.concatenate([[False], flags, [False]])
    edges = np.flatnonzero(padded[1:] != padded[:-1])
    return [(int(first), int(stop) - 1) for first, stop in zip(edges[::2], edges[1::2], strict=True)]


def crossings(ranges: Sequence[tuple[int, int, TrailFile, int, int]]) -> list[Crossing]:
    """The groups of sections that overlap, from (part, section, trail file, first RBA, last RBA) of each."""
    groups: dict[tuple[str, int], list[tuple[int, int, int, int]]] = {}
    for part, section, file, first, last in ranges:
        groups.setdefault((file.trail, file.order), []).append((first, last, part, section))
    out: list[Crossing] = []
    for members in groups.values():
        reach, now = -1, Crossing([])
        for first, last, part, section in sorted(members):
            if first > reach:
                out.append(now)
                now = Crossing([])
            now.sections.append((part, section))
            reach = max(reach, last)
        out.append(now)
    return [one for one in out if len(one.sections) > 1]
