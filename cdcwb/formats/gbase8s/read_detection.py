"""Does a capture hold records one behind the other, or whole read buffers (docs/formats/gbase8s.md §1.2)? Told from its
beginning, with the evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from cdcwb.formats.arrays.texts import bytes_of
from cdcwb.formats.findings import detected_row
from cdcwb.formats.gbase8s.framing import COMMON_HEADER, Bytes, Ints, Segments, find_candidates, iter_segments
from cdcwb.formats.gbase8s.plan import Stream, reads_in_file
from cdcwb.formats.gbase8s.reads import KEY, SEQUENCED, walk_reads

__all__ = ["buffer_size", "detect_reads", "explained", "repeats"]

_SAMPLE: Final = 1 << 18
_DISCARD: Final = 62
_MOST_SIZES: Final = 16  # buffer sizes that are tried
_MOST_GAPS: Final = 1000  # runs of unused bytes that are looked at for the size


Conclusion = tuple[str, int | None, list[dict[str, Any]]]
"""Mode of a plan, buffer size, rows of ``detected``."""


def detect_reads(stream: Stream, reads: str, size: int | None) -> Conclusion:
    """How a capture is to be walked. ``reads`` and ``size`` are the options ``reads`` and ``buffer_size``."""
    if size is not None:
        return _concluded("reads", "buffer_size", str(size), "given as an option", size, overridden=True)
    if reads != "auto":
        return _concluded(
            "reads" if reads == "line" else "stream", "reads", reads, "given as an option", overridden=True
        )
    framed = list(iter_segments(stream.read, 0, _SAMPLE, stream.length, boundaries=stream.boundaries))
    sample = stream.read(0, max((segments.base + int(segments.end[-1]) for segments in framed), default=0))
    files = [first for first, entry in zip(stream.starts, stream.files, strict=False) if entry.length]
    files = [first for first in files if first < len(sample) - COMMON_HEADER]
    starts = _starts_in(stream, len(sample))
    is_text = stream.files[0].shape != "binary"
    unit = ("line" if stream.files[0].shape == "hex" else "dump") if is_text else "file"
    strong = _strong_starts(sample)
    hits = sum(start in strong for start in starts)
    if len(starts) > len(files) and hits >= 0.8 * len(starts):
        return _concluded("reads", "reads", "line", f"{hits} of {len(starts)} {unit}s begin with a record")
    if all(segments.record.all() for segments in framed) and not repeats(framed):
        return _concluded("stream", "reads", "none", "records follow each other without unused bytes")
    stale = _stale(sample, np.array(starts, dtype=np.int64)) if len(starts) > 1 else 0
    if stale:
        evidence = (
            f"{stale} bytes at the ends of {len(starts)} {unit}s equal the bytes of earlier ones at the same offset"
        )
        return _concluded("reads", "reads", "line", evidence)
    found = buffer_size(sample, framed, [entry.length for entry in stream.files])
    if found is not None:
        evidence = f"the bytes that follow records equal those {found} bytes earlier"
        return _concluded("reads", "buffer_size", str(found), evidence, found)
    stale = _stale(sample, None)
    if stale:
        evidence = f"{stale} bytes that follow records equal those of an earlier read at the same offset of the buffer"
        return _concluded("inferred", "reads", "inferred", evidence)
    return _concluded("stream", "reads", "none", "no repeating read buffer was found")


def _concluded(
    mode: str, setting: str, value: str, evidence: str, size: int | None = None, *, overridden: bool = False
) -> Conclusion:
    return mode, size, [detected_row(setting, value, evidence, overridden)]


def _stale(sample: Bytes, starts: Ints | None) -> int:
    """Bytes that are stale if reads begin at ``starts``; 0 where more than a tenth as many stay unexplained."""
    bad, stale = explained(walk_reads(sample, starts))
    return stale if 10 * bad <= stale else 0


def _strong_starts(sample: Bytes) -> set[int]:
    found = find_candidates(sample)
    return set(found.start[found.strong].tolist())


def _starts_in(stream: Stream, upto: int) -> list[int]:
    """Where reads would begin in the first ``upto`` wire bytes, as lines, dump restarts and files tell."""
    starts: set[int] = set()
    for index, first in enumerate(stream.starts[:-1]):
        if first >= upto and starts:
            break
        if stream.files[index].length:
            starts.add(first)
            starts.update(
                first + int(at) for at in reads_in_file(stream.source(index), stream.files[index].length, None)
            )
    return sorted(start for start in starts if start < upto - COMMON_HEADER)


def explained(segments: Segments) -> tuple[int, int]:
    """Bytes of a walk that are neither record nor stale, and bytes that are stale."""
    gaps = np.flatnonzero(~segments.record)
    bad = stale = 0
    for gap in gaps:
        size = int(segments.end[gap] - segments.start[gap])
        if segments.reasons[int(gap)].code is None:
            stale += size
        else:
            bad += size
    return bad, stale


def repeats(framed: Iterable[Segments]) -> list[int]:
    """For every record with a sequence number that stood before, byte for byte: how far before."""
    latest: dict[bytes, int] = {}
    out: list[int] = []
    for segments in framed:
        whole = segments.record & (segments.end - segments.start >= KEY)
        start, end = segments.start[whole], segments.end[whole]
        keys = bytes_of(segments.buffer, start, KEY)
        # a transaction may go back to the same savepoint twice, so a DISCARD may well stand twice
        sequenced = np.isin(keys[:, 15], SEQUENCED) & (keys[:, 15] != _DISCARD) & keys[:, 16:24].any(axis=1)
        for first, last in zip(start[sequenced].tolist(), end[sequenced].tolist(), strict=True):
            there = segments.buffer[first:last].tobytes()
            if there in latest:
                out.append(segments.base + first - latest[there])
            latest[there] = segments.base + first
    return out


def buffer_size(sample: Bytes, framed: Sequence[Segments], lengths: Iterable[int]) -> int | None:
    """The size of the read buffers that a capture consists of, or None where it does not look like that.

    ``sample`` is the beginning of the stream, ``framed`` what it holds if records simply follow each other, ``lengths``
    are those of all files. What a read leaves unused equals the read before at the same place of the buffer, so the
    distance to where the same bytes stand before is the size. It counts only if next to nothing is left unexplained
    with it; where every byte is in a record without it, files must hold whole buffers besides.
    """
    data = sample.tobytes()
    votes = Counter(repeats(framed))
    clean = all(segments.record.all() for segments in framed)
    for segments in framed:
        for gap in np.flatnonzero(~segments.record)[:_MOST_GAPS].tolist():
            first = segments.base + int(segments.start[gap])
            there = data[first : min(segments.base + int(segments.end[gap]), first + KEY)]
            before = data.rfind(there, max(0, first - len(data) // 2), first) if there.strip(b"\0") else -1
            if before >= 0:
                votes[first - before] += 1
    sizes = [size for size, _ in votes.most_common() if not clean or not any(length % size for length in lengths)]
    best: tuple[int, int] | None = None
    for width in sizes[:_MOST_SIZES]:
        usable = len(data) // width * width
        if width < COMMON_HEADER or usable < 2 * width:
            continue
        bad, stale = explained(walk_reads(sample[:usable], np.arange(width, usable, width)))
        if stale > 0 and 10 * bad <= stale and (best is None or bad < best[0]):
            best = (bad, width)
            if bad == 0:
                break
    return None if best is None else best[1]
