"""One record of a capture, found by its place in the decompressed file, without reading the rest twice."""

from __future__ import annotations

from typing import Any

import numpy as np

from cdcwb.errors import CaptureError
from cdcwb.formats.base import Field, Inspection
from cdcwb.formats.files import Source
from cdcwb.formats.gbase8s.dissect import dissect, event
from cdcwb.formats.gbase8s.framing import Segments
from cdcwb.formats.gbase8s.headers import read_headers
from cdcwb.formats.gbase8s.plan import FileEntry, Plan, Stream
from cdcwb.formats.gbase8s.planning import HEAD, Options, detect, probe
from cdcwb.formats.gbase8s.scan import find_start, is_filler, iter_split
from cdcwb.formats.gbase8s.versions import Versions

__all__ = ["inspect_record"]


def inspect_record(path: str, offset: int, options: Options) -> Inspection:
    """The record (or gap) that holds ``offset`` of the decompressed file.

    In a large file the settings are those that its first bytes tell, and the schema is the last TABSCHEM of the label
    in what was looked at: the start of the file and the bytes before the record. Raises CaptureError where the file
    ends before ``offset``.
    """
    entry = probe((path, options.shape))
    if not 0 <= offset < entry.size:
        raise CaptureError(f"the file has {entry.size} bytes", path=path, offset=offset)
    with Stream([entry]) as stream:
        source = stream.source(0)
        place = _wire_place(source, entry.length, offset)
        if place < 0:
            return _note(path, offset, entry)
        plan = detect([entry], options, place)
        segments, index = _segment_at(stream, plan, place)
        schemas = _schemas_before(plan, segments, index)
        return _inspection(stream, entry, plan, segments, index, schemas)


def _wire_place(source: Source, length: int, offset: int) -> int:
    """The wire byte whose digits (or whose byte) stand at ``offset``; the next one for notes between digits; -1 behind
    all."""
    low, high = 0, length
    while low < high:
        middle = (low + high) // 2
        _, end = source.places(np.array([middle]), np.array([middle + 1]))
        if int(end[0]) <= offset:
            low = middle + 1
        else:
            high = middle
    return low if low < length else -1


def _segment_at(stream: Stream, plan: Plan, place: int) -> tuple[Segments, int]:
    start = 0
    if plan.mode == "stream" and place >= 2 * HEAD:
        start = find_start(stream, place - HEAD, place)
    for segments in iter_split(stream, plan.mode, plan.buffer_size, start, place + 1):
        found = int(np.searchsorted(segments.base + segments.end, place, side="right"))
        if found < len(segments.start):
            return segments, found
    raise CaptureError("no record was found there", path=stream.files[0].path, offset=place)


def _schemas_before(plan: Plan, segments: Segments, index: int) -> Versions:
    """The versions of the plan, with those in force whose TABSCHEM stands before the record."""
    return Versions(
        plan, {version.label: version.number for version in plan.versions if _before(version, segments, index)}
    )


def _before(version: Any, segments: Segments, index: int) -> bool:
    return version.file_index < 0 or int(version.offset) <= segments.base + int(segments.start[index])


def _inspection(
    stream: Stream, entry: FileEntry, plan: Plan, segments: Segments, index: int, versions: Versions
) -> Inspection:
    start, end = int(segments.start[index]), int(segments.end[index])
    there = segments.buffer[start:end].tobytes()
    offset, last = stream.source(0).places(np.array([segments.base + start]), np.array([segments.base + end]))
    place, length = int(offset[0]), int(last[0] - offset[0])
    if not segments.record[index]:
        kind = "filler" if is_filler(segments, index) else "malformed"
        reason = segments.reasons[index]
        field = Field(kind, 0, len(there), there, None, reason)
        return Inspection(entry.path, place, length, there, field, {"kind": kind, "reason": reason}, reason)
    headers = read_headers(segments.buffer, segments.start[index : index + 1], segments.end[index : index + 1])
    label, number = int(headers.label[0]), int(versions.of_records(segments.buffer, headers)[0])
    schema = versions.schema(label, number)
    note = ""
    if headers.row[0]:
        note = (
            f"decoded with table version {label}@{number}" if schema else f"no table schema of label {label} was seen"
        )
    return Inspection(
        entry.path,
        place,
        length,
        there,
        dissect(there, schema, plan.settings),
        event(there, schema, plan.settings),
        note,
    )


def _note(path: str, offset: int, entry: FileEntry) -> Inspection:
    text = "text behind the last digit of the last record"
    return Inspection(
        path, offset, entry.size - offset, b"", Field("filler", 0, 0, b"", None, text), {"kind": "filler"}, text
    )
