"""The segment of a file that holds a place, without reading all of the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

import numpy as np

from cdcwb.errors import CaptureError
from cdcwb.formats import messages
from cdcwb.formats.files import open_source
from cdcwb.formats.tabular.dialect import DEFAULT
from cdcwb.formats.tabular.file import CSV, EVERYTHING, JSON, FileProbe
from cdcwb.formats.tabular.framing import Bytewise, count_quotes, find_start
from cdcwb.formats.tabular.names import Layout, Names
from cdcwb.formats.tabular.parts import Part, container_of, csv_parts, read_parts

__all__ = ["find_part", "part_at"]

_NEAR: Final = 64 << 20  # bytes before a row that are framed rather than skipped by counting quotes

L = TypeVar("L", bound=Layout)


def part_at(file: FileProbe, offset: int, names: Sequence[str] | None = None) -> tuple[Part[Names], int]:
    """The part that holds a place, a byte of the decompressed file or the number of a row, and the index of its
    segment. ``names``: see :func:`iter_parts`. Raises CaptureError where the file ends before."""
    if names is not None and file.kind != JSON:
        file = file.called(names)
    return find_part(file, Names(file.columns), offset, Names)


def find_part(
    file: FileProbe,
    layout: L,
    offset: int,
    lay_out: Callable[[tuple[str, ...]], L],
    upper: frozenset[int] = frozenset(),
) -> tuple[Part[L], int]:
    """:func:`part_at` for rows of which more is known than names; see :func:`read_parts`."""
    if file.kind == JSON:
        parts = _document(file, layout, offset, lay_out)
    elif file.kind == CSV:
        parts = _near(file, layout, offset)
    else:
        parts = read_parts(file, layout, 0, EVERYTHING, lay_out, upper)
    for part in parts:
        behind = part.offset + part.length
        if len(behind) and int(behind[-1]) > offset:
            return part, int(np.searchsorted(behind, offset, side="right"))
    raise CaptureError("the file became shorter while it was read", path=file.path, offset=offset)


def _near(file: FileProbe, layout: L, offset: int) -> Iterator[Part[L]]:
    source = open_source(file.path, "binary")
    try:
        start = _start_before(source, file, offset) if offset > 2 * _NEAR else 0
        yield from csv_parts(source, file, layout, start, offset + 1)
    finally:
        source.close()


def _start_before(source: Bytewise, file: FileProbe, offset: int) -> int:
    """Where a record begins some way before a place, as the quotes before it tell."""
    dialect = file.dialect or DEFAULT
    near = offset - _NEAR
    inside = count_quotes(source, file.first, near - len(dialect.record), dialect) & 1
    return find_start(source, near, dialect, bool(inside))


def _document(file: FileProbe, layout: L, offset: int, lay_out: Callable[[tuple[str, ...]], L]) -> Iterator[Part[L]]:
    found = messages.locate(container_of(file), offset)
    start = int(found.offset[0])
    begin = start if file.settings["kind"] == "lines" else 0
    return (part for part in read_parts(file, layout, begin, offset + 1, lay_out) if start in part.offset)
