"""From a container to its messages, and from files to the parts that tasks read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from cdcwb.errors import CaptureError, ChangedFileError
from cdcwb.formats.dissector import Run, detected_row
from cdcwb.formats.files import Source, open_source
from cdcwb.formats.messages.avro import AvroFile, read_avro
from cdcwb.formats.messages.batch import LONGEST, Found, Messages, Segments
from cdcwb.formats.messages.container import OPTIONS, SPLIT_SIZE, Container, unescaped
from cdcwb.formats.messages.documents import iter_documents
from cdcwb.formats.messages.layout import Layout
from cdcwb.formats.messages.lines import BOM, document_messages, iter_lines, line_holding, line_messages, plain_messages
from cdcwb.formats.messages.prefixed import Framing, iter_prefixed
from cdcwb.formats.messages.probe import probe
from cdcwb.formats.messages.rows import ParquetRows, malformed_rows
from cdcwb.model import OffsetUnit

__all__ = [
    "BATCH",
    "Bounds",
    "Part",
    "bounds_of",
    "container_rows",
    "file_rows",
    "grouped",
    "locate",
    "parts",
    "probe_all",
    "read",
    "settled",
]


# --- reading ----------------------------------------------------------------------------------------------------------

BATCH: Final = 8192
"""Messages of a batch, at most."""

_BLANK: Final = b" \t\r\n"


def parts(container: Container, split_size: int = SPLIT_SIZE) -> list[tuple[int, int]]:
    """Runs ``[start, stop)`` of a container that can be read separately, in bytes, or in rows of a Parquet file;
    together they are all of it.

    A part owns the messages, or blocks, that begin in it. Only what can be found from any place is cut: lines anywhere,
    Avro containers as their ``starts`` say, rows between row groups of about ``split_size`` bytes.
    """
    whole = [(0, container.extent)] if container.extent else []
    if container.kind == "avro":
        return list(zip(container.starts, [*container.starts[1:], container.size], strict=True))
    if container.compression is not None:
        return whole
    if container.kind == "lines":
        return [(at, min(at + split_size, container.size)) for at in range(0, container.size, split_size)]
    if container.kind == "parquet":
        source = _open(container)
        try:
            return _cut(ParquetRows(source).groups(), container.extent, split_size)
        except CaptureError:
            return whole
        finally:
            source.close()
    return whole


def _cut(runs: list[tuple[int, int]], count: int, split_size: int) -> list[tuple[int, int]]:
    starts: list[int] = []
    size = split_size
    for row, length in runs:
        if size >= split_size and (not starts or row > starts[-1]):
            starts.append(row)
            size = 0
        size += length
    if not starts:
        return [(0, count)] if count else []
    return [(start, stop) for start, stop in zip(starts, [*starts[1:], count], strict=True) if start < stop]


def _open(container: Container) -> Source:
    return open_source(container.path, "binary", size=container.size)


class Bounds(NamedTuple):
    """Of a part of an Avro container: where its first block begins, where its last one ends, and its rows."""

    begin: int
    end: int
    rows: int


def bounds_of(container: Container, start: int, stop: int) -> Bounds:
    """The bounds of a part, found by walking along its blocks."""
    with _open(container) as source:
        file = AvroFile(source)
        begin = end = file.begin(start, stop)
        rows = 0
        for block in file.blocks(start, stop):
            end, rows = block.end, block.row + block.count
    return Bounds(begin, end, rows)


def settled(container: Container, found: Sequence[Bounds]) -> Container | None:
    """An Avro container with the starts and rows that the first pass found; None where a part did not begin at the end
    of the one before, since a block has the sync marker in it."""
    starts, rows, count = [], [], 0
    at = found[0].begin if found else 0
    for one, (_, stop) in zip(found, parts(container), strict=True):
        if min(one.begin, stop) != min(at, stop):
            return None
        starts.append(at)
        rows.append(count)
        at, count = max(at, one.end), count + one.rows
    return replace(container, starts=starts, rows=rows, count=count)


def read(
    container: Container, start: int, stop: int, batch: int = BATCH, limit: int | None = None
) -> Iterator[Messages]:
    """The messages and other segments that begin in ``[start, stop)``, in order, without gap or overlap.

    A batch has at most ``batch`` of them and about 32 MiB, unless a single message is longer. With a ``limit`` only so
    many bytes of a compressed file are unpacked.
    """
    some = limit if container.compression is not None else None
    source = open_source(container.path, "binary", some, container.size if some is None else None)
    try:
        if container.kind == "avro":
            file, row = AvroFile(source), dict(zip(container.starts, container.rows, strict=True)).get(start, 0)
            yield from read_avro(file, file.blocks(start, min(stop, source.length), row), batch)
            return
        if container.unit != "byte":
            yield from _rows(source, start, min(stop, container.extent), batch)
            return
        for segments in _segments(container, source, start, stop, batch):
            for part in segments.cut(batch):
                yield _messages(container, source, part)
    finally:
        source.close()


def locate(container: Container, offset: int) -> Messages:
    """The one segment that holds a byte, or the row or message at a place. Raises CaptureError where there is none."""
    if container.unit == "message":
        row = _row_of(container, offset)
        if row is None:
            raise CaptureError(f"the file has no message with offset {offset}", path=container.path, offset=offset)
        return next(read(container, row, row + 1))
    if container.kind == "avro":
        return _row_at(container, offset)
    if not 0 <= offset < container.extent:
        unit = "bytes" if container.unit == "byte" else "rows"
        raise CaptureError(f"the file has {container.extent} {unit}", path=container.path, offset=offset)
    if container.unit == "row":
        return next(read(container, offset, offset + 1))
    source = _open(container)
    try:
        start, stop = 0, container.size
        if container.kind == "lines":
            start = line_holding(source, offset, _layout(container).marks)
            stop = start + 1
        for segments in _segments(container, source, start, stop, BATCH):
            if offset < int(segments.end[-1]):
                at = int(np.searchsorted(segments.end, offset, side="right"))
                return _messages(container, source, segments.part(at, at + 1))
    finally:
        source.close()
    raise CaptureError("the file became shorter while it was read", path=container.path, offset=offset)


def _row_at(container: Container, number: int) -> Messages:
    with _open(container) as source:
        file, rows = AvroFile(source), 0
        for block in file.blocks(0, source.length):
            rows = block.row + block.count
            if block.row <= number < rows:
                return next(read_avro(file, [block], 1, number - block.row))
    raise CaptureError(f"the file has {rows} rows", path=container.path, offset=number)


def _row_of(container: Container, offset: int) -> int | None:
    source = _open(container)
    try:
        return ParquetRows(source).row_of(offset)
    finally:
        source.close()


def _layout(container: Container) -> Layout:
    return Layout.from_settings(container.settings)


def _segments(container: Container, source: Source, start: int, stop: int, batch: int) -> Iterator[Segments]:
    if container.kind == "lines":
        return iter_lines(source, start, stop, _layout(container).marks)
    if start > 0:
        return iter(())  # they are one part, which begins at 0
    if container.kind == "documents":
        margin = unescaped("margin", container.settings.get("margin", ""))
        return iter_documents(source, _layout(container), margin, batch)
    if container.kind == "prefixed":
        settings = container.settings
        return iter_prefixed(
            Framing(source, settings["prefix"], settings["pairs"] == "true", settings.get("content") == "any"), batch
        )
    return iter([_whole(source)] if source.length else [])


def _whole(source: Source) -> Segments:
    """A file that is one message: all its bytes, or those of the document in it."""
    found = Found()
    length = source.length
    if length > LONGEST:
        found.malformed(0, length, f"a message longer than {LONGEST:,} bytes, the maximum")
        return found.take()
    text = source.read(0, length).tobytes()
    bare = text.removeprefix(BOM).strip(_BLANK)
    if bare[:1] == b"{":
        first = text.index(bare)
        found.message(0, length, first, first + len(bare))
    else:
        found.message(0, length, 0, length)
    return found.take()


def _messages(container: Container, source: Source, segments: Segments) -> Messages:
    if container.kind == "lines":
        return line_messages(source, segments, _layout(container))
    if container.kind == "documents":
        return document_messages(source, segments, _layout(container))
    return plain_messages(source, segments)


def _rows(source: Source, start: int, stop: int, batch: int) -> Iterator[Messages]:
    if start >= stop:
        return
    try:
        yield from ParquetRows(source).read(start, stop, batch)
    except CaptureError as reason:
        if isinstance(reason, ChangedFileError):
            raise
        yield malformed_rows(start, stop, reason.message, source.read(0, LONGEST).tobytes())


# --- planned ----------------------------------------------------------------------------------------------------------

Part = tuple[int, int, int]
"""Index of a container, and the run ``[start, stop)`` of its bytes or rows whose messages belong to the part."""

_TOGETHER: Final = 4 << 20
_MOST_FILES: Final = 64
_FILES: Final = 64  # that one task looks at


def grouped(found: Sequence[Container], split_size: int) -> list[list[Part]]:
    """The parts of all containers, those of small ones together: a task costs more than to read a few messages."""
    groups: list[list[Part]] = []
    room = 0.0
    for index, container in enumerate(found):
        for start, stop in parts(container, split_size):
            size = container.size * (stop - start) / max(container.extent, 1)
            if not groups or size > room or len(groups[-1]) >= _MOST_FILES:
                groups.append([])
                room = min(_TOGETHER, split_size)
            groups[-1].append((index, start, stop))
            room -= size
    return groups


def probe_all(paths: Sequence[str], options: Mapping[str, Any], run: Run) -> list[Container]:
    """What each file is. Raises CaptureError for one that cannot be read."""
    some = [(paths[at : at + _FILES], dict(options)) for at in range(0, len(paths), _FILES)]
    return [one for found in run(_probe, some) for one in found]


def _probe(task: tuple[Sequence[str], dict[str, Any]]) -> list[Container]:
    paths, options = task
    return [probe(path, options) for path in paths]


def file_rows(found: Sequence[Container]) -> list[dict[str, Any]]:
    """The files of a capture: file, file_index, size (bytes, decompressed), shape, compression, problem, rows (None
    where bytes count)."""
    return [
        {
            "file": one.path,
            "file_index": index,
            "size": one.size,
            "shape": one.kind,
            "compression": one.compression,
            "problem": one.problem,
            "rows": None if one.unit == OffsetUnit.BYTE else one.count,
        }
        for index, one in enumerate(found)
    ]


def container_rows(found: Sequence[Container], options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What holds the messages, for ``detected``: one row for each kind, and what was concluded in it."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for one in found:
        for setting, value in (("container", one.kind), *one.settings.items()):
            if setting in OPTIONS:
                given = str(options.get(setting, "auto")) not in ("auto", "")
                rows.setdefault((setting, value), detected_row(setting, value, one.evidence, given))
    return list(rows.values())
