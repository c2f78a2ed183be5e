"""Splits the files of a capture into stretches, and scans them in the first pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Self, TypeVar

from cdcwb.errors import MalformedRecordError
from cdcwb.formats.dissector import Run
from cdcwb.formats.files import Source, open_source
from cdcwb.formats.source import is_remote
from cdcwb.formats.tabular.delimited import likely_start
from cdcwb.formats.tabular.file import CSV, DEFAULT, EVERYTHING, EXCEL, PARQUET, SQL, FileProbe
from cdcwb.formats.tabular.parts import csv_parts, read_parts
from cdcwb.formats.tabular.rows import Part
from cdcwb.formats.tabular.sql import find_begin, sql_parts
from cdcwb.model import Kind, OffsetUnit

__all__ = ["FileEntry", "Scan", "Stretch", "cut", "fail_fast", "read_stretch", "scan_all"]


@dataclass(slots=True, kw_only=True)
class FileEntry:
    """One file of a plan: the facts for reading it, and the results of the first pass: ``size``: bytes of the
    decompressed file; ``rows``: their number."""

    probe: FileProbe
    size: int = 0
    rows: int | None = None
    problem: str | None = None

    @property
    def path(self) -> str:
        """Its path."""
        return self.probe.path


@dataclass(frozen=True, slots=True)
class Stretch:
    """A piece of file number ``index`` of the capture: bytes, or row groups of a Parquet file. ``begin``: the start of
    its first record, None if unknown. ``alone``: it is the complete file."""

    index: int
    entry: FileEntry
    start: int
    stop: int
    begin: int | None
    alone: bool

    @property
    def file(self) -> FileProbe:
        """The facts for reading its file."""
        return self.entry.probe


@dataclass(slots=True)
class Scan:
    """The result of scanning a stretch: the records that begin in it are ``[begin, end)``. ``malformed``: the first
    segment that is not a record, with its offset and the reason. ``size`` (bytes of the decompressed file) and
    ``problem`` are those of the file. ``rows``: its records; ``filler``: the rows of a sheet that are not records,
    such as the header line."""

    begin: int
    end: int
    rows: int = 0
    filler: int = 0
    size: int = 0
    problem: str | None = None
    malformed: tuple[int, str] | None = None

    def nothing(self, begin: int) -> Self:
        """The same for a stretch in which no record begins: that at ``begin`` is the next stretch's."""
        return type(self)(begin, begin, size=self.size, problem=self.problem)

    def take_gaps(self, part: Part) -> None:
        """Adds the gaps of a part."""
        for gap in part.gaps:
            if gap.kind is Kind.MALFORMED and self.malformed is None:
                self.malformed = int(part.offset[gap.index]), gap.reason
            if gap.kind is Kind.FILLER and part.unit is OffsetUnit.ROW:
                self.filler += int(part.length[gap.index])


_FOUND: Final = (CSV, SQL)  # kinds of files in which the first record of a stretch is looked for
S = TypeVar("S", bound=Stretch)
F = TypeVar("F", bound=Scan)


# --- cutting ----------------------------------------------------------------------------------------------------------


def cut(files: Sequence[FileEntry], split_size: int) -> list[Stretch]:
    """The stretches of all files, in order: pieces of ``split_size`` bytes of uncompressed delimited text, dumps and
    lines of JSON, row groups of about as many bytes of Parquet, complete files otherwise. A remote dump is one stretch,
    because its statements are found in the complete text."""
    stretches: list[Stretch] = []
    for index, entry in enumerate(files):
        cuts = _cuts(entry.probe, split_size)
        for start, stop in cuts:
            begin = start if start == 0 or entry.probe.kind not in _FOUND else None
            stretches.append(Stretch(index, entry, start, stop, begin, len(cuts) == 1))
    return stretches


def _cuts(file: FileProbe, split_size: int) -> list[tuple[int, int]]:
    if file.kind == PARQUET:
        return _row_group_cuts(file.groups, split_size)
    if file.kind == EXCEL:
        return [(0, EVERYTHING)]
    by_records = file.kind == CSV or (file.kind == SQL and not is_remote(file.path))
    can_cut = file.compression is None and (by_records or file.settings.get("kind") == "lines")
    if not can_cut or file.size <= split_size:
        return [(0, EVERYTHING if file.compression is not None else file.size)]
    return [(start, min(start + split_size, file.size)) for start in range(0, file.size, split_size)]


def _row_group_cuts(groups: Sequence[tuple[int, int]], split_size: int) -> list[tuple[int, int]]:
    starts: list[int] = []
    size = split_size
    for at, (_, packed) in enumerate(groups):
        if size >= split_size:
            starts.append(at)
            size = 0
        size += packed
    return list(pairwise([*starts, len(groups)]))


# --- the first pass ---------------------------------------------------------------------------------------------------


def scan_all(stretches: list[S], scan: Callable[[S], F], run: Run) -> list[F]:
    """Scans all stretches in parallel, and again those whose first record was looked for and is not at the end of the
    preceding stretch; it sets their ``begin``. The records of all stretches are then those of one pass over each
    file."""
    scans: list[F] = run(scan, stretches)
    while True:
        again: list[int] = []
        expected = 0
        for at, stretch in enumerate(stretches):
            if stretch.file.kind not in _FOUND:
                continue
            expected = 0 if stretch.start == 0 else expected
            begin = max(stretch.start, expected)
            if stretch.start and begin >= stretch.stop:
                scans[at] = scans[at].nothing(begin)
            elif stretch.start and scans[at].begin != begin:
                again.append(at)
                stretches[at] = replace(stretch, begin=begin)
            expected = max(begin, scans[at].end)
        if not again:
            return scans
        for at, found in zip(again, run(scan, [stretches[at] for at in again]), strict=True):
            scans[at] = found


def read_stretch(stretch: Stretch, found: Scan, upper: frozenset[int] = frozenset()) -> Iterator[Part]:
    """The parts of a stretch, for the first pass over it; see :func:`cdcwb.formats.tabular.parts.read_parts`. ``found``
    (the bounds of its records, and facts of the file) is valid after the parts have been read."""
    file = stretch.file
    found.begin, found.end, found.size, found.problem = stretch.start, stretch.stop, file.size, file.problem
    if file.kind not in _FOUND:
        if file.compression is not None:
            with closing(open_source(file.path, "binary", size=file.size)) as source:
                found.size, found.problem = source.length, source.problem or file.problem
        yield from read_parts(file, stretch.start, stretch.stop, upper)
        return
    with closing(open_source(file.path, "binary", size=file.size)) as source:
        found.size, found.problem = source.length, source.problem or file.problem
        begin = stretch.begin if stretch.begin is not None else _begin_of(source, stretch)
        found.begin = found.end = begin
        read = csv_parts if file.kind == CSV else sql_parts
        for part in read(source, file, begin, stretch.stop):
            found.end = int(part.offset[-1] + part.length[-1]) if len(part.offset) else found.end
            yield part


def _begin_of(source: Source, stretch: Stretch) -> int:
    """The start of the first record of a stretch, inferred from the following bytes."""
    file, start = stretch.file, stretch.start
    if file.kind == CSV:
        return max(likely_start(source, start, file.dialect or DEFAULT, file.width), file.first)
    before = max(start - 1, 0)
    begin = find_begin(source.view(before, stretch.stop), start)
    return begin if begin < stretch.stop else find_begin(source.view(before, source.length), start)


def fail_fast(stretches: Sequence[Stretch], scans: Sequence[Scan]) -> None:
    """Raises MalformedRecordError for the first segment of the capture that is not a record, if there is one."""
    found = [
        (one.index, *each.malformed, one.file.path)
        for one, each in zip(stretches, scans, strict=True)
        if each.malformed
    ]
    if found:
        _, offset, reason, path = min(found)
        raise MalformedRecordError(reason, path=path, offset=offset)
