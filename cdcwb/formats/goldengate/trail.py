"""Which trail file a record stands in: the one the text names, the one a file header begins, or the next one.

Logdump says which trail file it shows when it opens one, and a trail file begins with its header. The records between
two such places make a *section*; :class:`Trails` gives each section of a capture its trail and its number, in capture
order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cdcwb.formats.goldengate.file_header import file_header
from cdcwb.formats.goldengate.records import MISSING, Records, Shape

__all__ = ["Section", "TrailFile", "Trails", "last_part", "sections", "split_name"]

_NUMBER: Final = re.compile(r"[0-9]+$")
_LONG, _SHORT = 9, 6  # digits of a trail file's number, since 12.3 and before


def last_part(path: str) -> str:
    """The name of a file without its folders, whatever system the path is of."""
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1]


def split_name(path: str) -> tuple[str, int | None]:
    """The path without the trail file's number, and the number: the last nine or six digits of the name, or all there
    are. None where the name ends with no digit."""
    found = _NUMBER.search(last_part(path))
    if found is None:
        return path, None
    digits = found[0]
    size = next((size for size in (_LONG, _SHORT) if len(digits) >= size), len(digits))
    return path[: len(path) - size], int(digits[-size:])


@dataclass(slots=True)
class Section:
    """Records ``[first, stop)`` of a stretch of text that stand in one trail file.

    ``name``: its path, where the text or its header says it; ``sequence``: its number, likewise. ``header``: what tells
    its file header from another, where the section begins with one. ``rba``, ``next_rba``: of its first record, and
    where the record behind its last would stand; MISSING where that is not known. ``last_rba``: of its last record.
    """

    first: int
    stop: int
    name: str | None = None
    sequence: int | None = None
    header: str | None = None
    rba: int = MISSING
    last_rba: int = MISSING
    next_rba: int = MISSING


def sections(records: Records) -> list[Section]:
    """The sections of some records, in their order; none for no records."""
    if not len(records):
        return []
    named = dict(records.trail)
    headers = np.flatnonzero(records.shape == Shape.FILE_HEADER).tolist()
    cuts = sorted({0, *(at for at in named if at < len(records)), *headers})
    told = np.flatnonzero(records.shape <= Shape.FILE_HEADER)
    found: list[Section] = []
    for at, stop in zip(cuts, [*cuts[1:], len(records)], strict=True):
        one = Section(at, stop)
        if at in named:
            one.name = named[at]
            one.sequence = split_name(one.name)[1]
        if records.shape[at] == Shape.FILE_HEADER:
            one.header = _header(records, at)
            name, sequence = _from_header(records, at)
            one.name, one.sequence = one.name or name, sequence if one.sequence is None else one.sequence
            before = found[-1] if found else None
            if before is not None and before.header is None and not _has_records(told, before):
                # what stands before the header names the file that the header begins
                found.pop()
                one.first = before.first
                one.name, one.sequence = (
                    before.name or one.name,
                    (one.sequence if before.sequence is None else before.sequence),
                )
        found.append(one)
    for one in found:
        _places(records, one)
    return found


def _has_records(told: np.ndarray, one: Section) -> bool:
    return bool(np.searchsorted(told, one.first) < np.searchsorted(told, one.stop))


def _header(records: Records, at: int) -> str:
    """What tells one file header from another."""
    return f"{int(records.moment[at])} {int(records.length[at])}"


def _from_header(records: Records, at: int) -> tuple[str | None, int | None]:
    """Name and number of a trail file, as its header says."""
    printed = records.extras.get(at)
    if printed is None or not printed.body:
        return None, None
    told = file_header(printed.body)
    name = told.get("FileName") or None
    number = told.get("FileSeqno", "")
    if number.isdecimal():
        return name, int(number)
    return name, split_name(name)[1] if name else None


def _places(records: Records, one: Section) -> None:
    there = one.first + np.flatnonzero(
        (records.shape[one.first : one.stop] == Shape.RECORD) & (records.rba[one.first : one.stop] > 0)
    )
    if not len(there):
        return
    first, last = int(there[0]), int(there[-1])
    one.rba, one.last_rba = int(records.rba[first]), int(records.rba[last])
    if records.total[last] != MISSING:
        one.next_rba = one.last_rba + int(records.total[last])


@dataclass(frozen=True, slots=True)
class TrailFile:
    """A trail file. ``trail``: what all files of its trail have in common; ``order``: its place among them; ``shown``:
    its number as positions have it, 0 where it is not known; ``name``: its path, None where it is not known."""

    trail: str
    order: int
    shown: int = 0
    name: str | None = None


@dataclass(slots=True)
class Trails:
    """Gives sections their trail files, in capture order. ``first``: number of the first trail file of which the
    capture does not tell the number; None: such ones have no number."""

    first: int | None = None
    _now: TrailFile | None = None
    _header: str | None = None
    _last: Section | None = None
    _unknown: int = -1
    _file: int = -1

    def of(self, file_index: int, found: Sequence[Section]) -> list[TrailFile]:
        """The trail file of each of the next sections, which are all in one capture file."""
        out = []
        for one in found:
            self._now = self._next(file_index, one)
            self._file = file_index
            if one.header is not None:
                self._header = one.header
            if one.last_rba != MISSING or one.header is not None:
                self._last = one
            out.append(self._now)
        return out

    def _next(self, file_index: int, one: Section) -> TrailFile:
        now = self._now
        if one.sequence is not None:
            trail = split_name(one.name)[0] if one.name else now.trail if now is not None and now.name else ""
            return TrailFile(trail, one.sequence, one.sequence, one.name)
        if one.name is not None:
            return TrailFile(one.name, 0, 0, one.name)
        if now is None:
            return self._not_told()
        if one.header is not None:
            if file_index == self._file and one.header == self._header:
                return now
            return self._behind(now) if file_index == self._file else self._not_told()
        if file_index == self._file or self._follows(now, one):
            return now
        return self._not_told()

    def _behind(self, now: TrailFile) -> TrailFile:
        """The file that follows in a trail."""
        if now.name is None:
            return self._not_told()
        stem, number = split_name(now.name)
        if number is None:
            return TrailFile(now.trail, now.order + 1)
        digits = len(now.name) - len(stem)
        return TrailFile(now.trail, number + 1, number + 1, f"{stem}{number + 1:0{digits}d}")

    def _follows(self, now: TrailFile, one: Section) -> bool:
        """Does a section at the beginning of a capture file go on where the one before it ended?"""
        last = self._last
        if last is None or last.last_rba == MISSING or one.rba <= last.last_rba:
            return False
        return one.rba == last.next_rba or (now.name is None and last.next_rba == MISSING)

    def _not_told(self) -> TrailFile:
        self._unknown += 1
        if self.first is None:
            return TrailFile("", self._unknown)
        return TrailFile("", self.first + self._unknown, self.first + self._unknown)
