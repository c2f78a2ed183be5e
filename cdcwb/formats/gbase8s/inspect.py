"""One record of a capture, found by its place in the decompressed file, without reading the rest twice."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np

from cdcwb.errors import CaptureError
from cdcwb.formats.base import Field, Inspection
from cdcwb.formats.files import Source, list_files
from cdcwb.formats.gbase8s.framing import Segments
from cdcwb.formats.gbase8s.plan import FileEntry, Plan, Stream
from cdcwb.formats.gbase8s.planning import HEAD, Options, detect, probe
from cdcwb.formats.gbase8s.rows import event, read_headers
from cdcwb.formats.gbase8s.scan import find_start, is_filler, iter_split, place_of
from cdcwb.formats.gbase8s.tree import dissect
from cdcwb.formats.gbase8s.versions import Versions

__all__ = ["inspect_record"]


def inspect_record(path: str, offset: int, options: Options) -> Inspection:
    """The record (or gap) that holds ``offset`` of the decompressed file.

    In a large file the settings are those that its first bytes tell, and the schema is the last TABSCHEM of the label
    in what was looked at: the start of the file and the bytes before the record. What that lacks is looked for in the
    folder's first file and in the one before. Raises CaptureError where the file ends before ``offset``.
    """
    entry = probe((path, options.shape))
    if not 0 <= offset < entry.size:
        raise CaptureError(f"the file has {entry.size} bytes", path=path, offset=offset)
    inspection, whole = _inspect([entry], offset, options)
    earlier = [] if whole else _earlier(path)
    if earlier:
        with contextlib.suppress(CaptureError):
            inspection, _ = _inspect([*(probe((one, options.shape)) for one in earlier), entry], offset, options)
    return inspection


def _earlier(path: str) -> list[str]:
    """The first file of the folder and the one before this, since the files of a folder continue one stream."""
    names = list_files(str(Path(path).parent))
    own = next((index for index, name in enumerate(names) if Path(name).samefile(path)), 0)
    return sorted({names[0], names[own - 1]}, key=names.index) if own else []


def _inspect(files: list[FileEntry], offset: int, options: Options) -> tuple[Inspection, bool]:
    """The inspection of a place in the last of the files, and whether it needs no earlier file: for a table schema, or
    for the beginning of a record."""
    entry = files[-1]
    with Stream(files) as stream:
        index = len(files) - 1
        source = stream.source(index)
        within = _wire_place(source, entry.length, offset)
        if within == entry.length:
            return _note(entry.path, _end(source, within), entry.size), True
        place = stream.starts[index] + within
        plan = detect(files, options, place)
        segments, at = _segment_at(stream, plan, place)
        first = int(source.places(np.array([within]), np.array([within + 1]))[0][0])
        if offset < first and (within == 0 or place == segments.base + int(segments.start[at])):
            return _note(entry.path, _end(source, within), first), True
        return _inspection(stream, plan, segments, at)


def _end(source: Source, place: int) -> int:
    """Where the digits of the wire bytes before ``place`` end."""
    return int(source.places(np.array([place - 1]), np.array([place]))[1][0]) if place else 0


def _wire_place(source: Source, length: int, offset: int) -> int:
    """The wire byte whose digits (or whose byte) stand at ``offset``; the next one for notes between digits; ``length``
    behind all."""
    low, high = 0, length
    while low < high:
        middle = (low + high) // 2
        _, end = source.places(np.array([middle]), np.array([middle + 1]))
        if int(end[0]) <= offset:
            low = middle + 1
        else:
            high = middle
    return low


def _segment_at(stream: Stream, plan: Plan, place: int) -> tuple[Segments, int]:
    start = 0
    if plan.mode == "stream" and place >= 2 * HEAD:
        start = find_start(stream, place - HEAD, place)
    for segments in iter_split(stream, plan.mode, plan.buffer_size, start, place + 1):
        found = int(np.searchsorted(segments.base + segments.end, place, side="right"))
        if found < len(segments.start):
            return segments, found
    raise CaptureError("no record was found there", path=stream.files[-1].path, offset=place)


def _inspection(stream: Stream, plan: Plan, segments: Segments, at: int) -> tuple[Inspection, bool]:
    start, end = int(segments.start[at]), int(segments.end[at])
    there = segments.buffer[start:end].tobytes()
    index, offset, length = place_of(stream, segments.base + start, segments.base + end)
    path = plan.files[index].path
    if not segments.record[at]:
        kind = "filler" if is_filler(segments, at) else "malformed"
        reason = segments.reasons[at].sentence
        field = Field(kind, 0, len(there), there, None, reason)
        whole = kind == "filler" or offset > 0
        return Inspection(path, offset, length, there, field, {"kind": kind, "reason": reason}, reason), whole
    headers = read_headers(segments.buffer, segments.start[at : at + 1], segments.end[at : at + 1])
    before = [one for one in plan.versions if (one.file_index, one.offset) <= (index, offset)]
    versions = Versions(plan, {one.label: one.number for one in before})
    label, number = int(headers.label[0]), int(versions.of_records(headers)[0])
    schema = versions.schema(label, number)
    note = ""
    if headers.row[0]:
        origin = next(
            (plan.files[one.file_index].path for one in before if one.label == label and one.file_index >= 0), ""
        )
        table = f" of {'.'.join(filter(None, versions.names(label)))}" if label in plan.labels else ""
        note = (
            f"decoded with table version {label}@{number}{table}"
            if schema
            else f"no table schema of label {label} was seen"
        )
        note += f" from {origin}" if schema and origin not in ("", path) else ""
    field, row = dissect(there, schema, plan.settings), event(there, schema, plan.settings)
    return Inspection(path, offset, length, there, field, row, note), schema is not None or not headers.row[0]


def _note(path: str, start: int, stop: int) -> Inspection:
    text = "text between the hex digits of records"
    field = Field("filler", 0, 0, b"", None, text)
    return Inspection(path, start, stop - start, b"", field, {"kind": "filler", "reason": text}, text)
