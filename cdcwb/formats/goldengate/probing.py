"""What the files of a capture are, from their beginnings, and where they can be cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from cdcwb.errors import CaptureError
from cdcwb.formats.files import open_source
from cdcwb.formats.goldengate import exports
from cdcwb.formats.goldengate.plan import LOGDUMP, FileEntry, Part, cut
from cdcwb.formats.goldengate.raw_trail import is_raw_trail, logdump_script
from cdcwb.formats.goldengate.reader_options import Options
from cdcwb.formats.goldengate.records import MISSING, Shape
from cdcwb.formats.goldengate.scan import boundary, scan
from cdcwb.words import plural

__all__ = ["HEAD", "is_logdump", "parts_of", "probe", "refusal"]

HEAD: Final = 1 << 16
"""Bytes of a file that tell what it is."""

_MARKS: Final = (b"Hdr-Ind", b" RBA ")


def is_logdump(head: bytes) -> str | None:
    """Why a text is one of Logdump's, from its beginning; None where it is none."""
    records = scan(np.frombuffer(head, dtype=np.uint8)) if any(mark in head for mark in _MARKS) else None
    if records is None:
        return None
    blocks = int(np.count_nonzero((records.shape == Shape.RECORD) & (records.column("IOType") != MISSING)))
    lines = int(np.count_nonzero((records.shape <= Shape.FILE_HEADER) & (records.operation_at[:, 0] >= 0)))
    if not blocks and not lines:
        return None
    return f"{plural(blocks, 'header block')} and {plural(lines, 'record line')} of Logdump in its first bytes"


def probe(task: tuple[Sequence[str], Options]) -> list[FileEntry]:
    """The entries of some files: (their paths, options). Raises CaptureError for a raw trail."""
    paths, options = task
    return [_probed(path, options) for path in paths]


def _probed(path: str, options: Options) -> FileEntry:
    source = open_source(path, "binary")
    try:
        head = source.read(0, HEAD).tobytes()
        entry = FileEntry(path, LOGDUMP, source.size, source.compression, source.problem)
    finally:
        source.close()
    if is_raw_trail(head):
        raise refusal(path)
    shape = options.shape
    if shape == "auto":
        shape = LOGDUMP
        if is_logdump(head) is None and exports.recognise(path, options.container).confidence > 0:
            shape = "export"
    if shape == LOGDUMP:
        return entry
    found = exports.probe(path, options.container)
    return FileEntry(path, found.kind, found.size, found.compression, found.problem, export=found.to_dict())


def refusal(path: str) -> CaptureError:
    """Why a raw trail is not read, and what to do."""
    sentence = "raw trail file: its format is not published, so it cannot be read"
    advice = tuple(logdump_script(path).splitlines())
    return CaptureError(f"{sentence}; convert it to text with Logdump:", path=path, advice=advice)


def _boundary(text: npt.NDArray[np.uint8], at: int) -> int:
    """The first boundary at or behind ``at`` between two records of which the second is not at the RBA and time of the
    first: the images of one update, printed as two records, stay together."""
    place = boundary(text, at)
    while place < text.size:
        before = _times_and_rbas(text[max(place - HEAD, 0) : place])[-1:]
        if not before or before != _times_and_rbas(text[place : place + HEAD])[:1]:
            break
        place = boundary(text, place + 1)
    return place


def _times_and_rbas(text: npt.NDArray[np.uint8]) -> list[tuple[int, int]]:
    """Time and RBA of the records of a text."""
    records = scan(text, 0, bodies=False)
    told = records.operation_at[:, 0] >= 0
    return list(zip(records.moment[told].tolist(), records.rba[told].tolist(), strict=True))


def parts_of(entry: FileEntry, index: int, split_size: int) -> list[Part]:
    """The parts of one file; ``index`` is its place in the capture, ``split_size`` bytes of a part."""
    if entry.export is not None:
        file = exports.ExportFile.from_dict(entry.export)
        return [Part(index, start, stop) for start, stop in exports.parts(file, split_size)]
    if entry.size <= split_size or entry.compression is not None:
        return [Part(index, 0, entry.size)] if entry.size else []
    source = open_source(entry.path, "binary")
    try:
        text = source.read(0, entry.size)
        places, at = [], split_size
        while at < entry.size:
            place = _boundary(text, at)
            places.append(place)
            at = place + split_size
    finally:
        source.close()
    return [Part(index, start, stop) for start, stop in cut(entry.size, places)]
