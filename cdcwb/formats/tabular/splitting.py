"""Where large files are cut, and the first pass over the pieces.

Plain delimited text is cut anywhere. Whether a cut falls into quotes is told by counting the quotes before it, piece by
piece; where an odd quote has misled that, the pieces behind it are scanned again from where a record really ends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self, TypeVar

from cdcwb.formats.base import Run
from cdcwb.formats.files import open_source
from cdcwb.formats.tabular.dialect import DEFAULT, Dialect
from cdcwb.formats.tabular.file import CSV, EVERYTHING, EXCEL, PARQUET, FileProbe
from cdcwb.formats.tabular.framing import Bytewise, count_quotes, find_start
from cdcwb.formats.tabular.names import Names
from cdcwb.formats.tabular.parts import Part, csv_parts, iter_parts

__all__ = ["Scanned", "Stretch", "StretchReader", "begin_of", "cut", "scan_all"]


@dataclass(frozen=True, slots=True)
class Stretch:
    """A piece of a file, which is number ``index`` of the capture: bytes, or row groups of a Parquet file. ``begin``:
    where its first record begins if that is known; else ``inside`` says whether its start lies in quotes, as far as the
    quotes before it tell. ``alone``: it is all of the file."""

    index: int
    file: FileProbe
    start: int
    stop: int
    begin: int | None
    inside: bool
    alone: bool


class Scanned(Protocol):
    """What a pass over a stretch found: the records that begin in it are ``[begin, end)``."""

    begin: int
    end: int

    def nothing(self, begin: int) -> Self:
        """The same for a stretch in which no record begins: that at ``begin`` is the next stretch's."""
        ...


S = TypeVar("S", bound=Stretch)
F = TypeVar("F", bound=Scanned)


@dataclass(frozen=True, slots=True)
class _Quotes:
    """Quotes of a delimited file in ``[start, stop)``."""

    path: str
    dialect: Dialect
    start: int
    stop: int


def _count(task: _Quotes) -> int:
    source = open_source(task.path, "binary")
    try:
        return count_quotes(source, task.start, task.stop, task.dialect)
    finally:
        source.close()


def cut(files: Sequence[FileProbe], split_size: int, run: Run) -> list[Stretch]:
    """The stretches of all files, in order: pieces of ``split_size`` bytes of plain delimited text and of lines of
    JSON, row groups of about as many bytes of Parquet, whole files of all else. ``run`` counts quotes."""
    stretches: list[Stretch] = []
    quotes: list[_Quotes] = []
    counted: list[int] = []  # the stretch behind each one whose quotes are counted
    for index, file in enumerate(files):
        file = file.without_rows()
        cuts = _cuts(file, split_size)
        for start, stop in cuts:
            begin = start if start == 0 or file.kind != CSV else None
            if begin is None and file.dialect is not None and file.dialect.quote:
                edge = len(file.dialect.record)
                before = stretches[-1].start
                low = max(before - edge, 0) if before else file.first
                quotes.append(_Quotes(file.path, file.dialect, min(low, start - edge), max(start - edge, 0)))
                counted.append(len(stretches))
            stretches.append(Stretch(index, file, start, stop, begin, False, len(cuts) == 1))
    numbers = dict(zip(counted, run(_count, quotes) if quotes else [], strict=True))
    inside = False
    for at, stretch in enumerate(stretches):
        inside = inside ^ bool(numbers.get(at, 0) & 1) if stretch.begin is None else False
        stretches[at] = replace(stretch, inside=inside)
    return stretches


def _cuts(file: FileProbe, split_size: int) -> list[tuple[int, int]]:
    if file.kind == PARQUET:
        return _row_group_cuts(file.groups, split_size)
    if file.kind == EXCEL:
        return [(0, EVERYTHING)]
    can_cut = file.compression is None and (file.kind == CSV or file.settings.get("kind") == "lines")
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
    return list(zip(starts, [*starts[1:], len(groups)], strict=True))


def begin_of(source: Bytewise, stretch: Stretch) -> int:
    """Where the first record of a stretch of delimited text begins, as far as quotes tell."""
    if stretch.begin is not None:
        return stretch.begin
    found = find_start(source, stretch.start, stretch.file.dialect or DEFAULT, stretch.inside)
    return max(found, stretch.file.first)


def scan_all(stretches: list[S], scan: Callable[[S], F], run: Run, chained: Collection[str] = (CSV,)) -> list[F]:
    """Scans every stretch at once, and again those of the kinds ``chained`` that did not begin where the one before
    ended, whose ``begin`` it sets. The records of all stretches are then those of one pass over each file."""
    scans: list[F] = run(scan, stretches)
    while True:
        again: list[int] = []
        expected = 0
        for at, stretch in enumerate(stretches):
            if stretch.file.kind not in chained:
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


class StretchReader:
    """One pass over a stretch. ``begin`` and ``end`` are those of its records; ``size`` (of the decompressed file, in
    bytes; that which is known for a file of rows) and ``problem`` (cut off, damaged) are those of the file. All of them
    are right once the parts have been read."""

    def __init__(self, stretch: Stretch, names: Sequence[str] | None = None) -> None:
        self.stretch = stretch
        self.names = names
        self.begin = self.end = stretch.start
        self.size = stretch.file.size
        self.problem = stretch.file.problem

    def parts(self) -> Iterator[Part[Names]]:
        """See :func:`iter_parts`."""
        stretch, file = self.stretch, self.stretch.file
        if file.kind != CSV:
            self.end = stretch.stop
            if file.compression is not None:
                self._measure()
            yield from iter_parts(file, self.names, stretch.start, stretch.stop)
            return
        named = file if self.names is None else file.called(self.names)
        source = open_source(file.path, "binary")
        try:
            self.size, self.problem = source.length, source.problem or self.problem
            self.begin = self.end = begin_of(source, stretch)
            for part in csv_parts(source, named, Names(named.columns), self.begin, stretch.stop):
                self.end = int(part.offset[-1] + part.length[-1]) if len(part.offset) else self.end
                yield part
        finally:
            source.close()

    def _measure(self) -> None:
        source = open_source(self.stretch.file.path, "binary")
        try:
            self.size, self.problem = source.length, source.problem or self.problem
        finally:
            source.close()
