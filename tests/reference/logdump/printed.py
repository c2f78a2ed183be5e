"""Logdump text read line by line: the plain and complete way (docs/formats/goldengate.md §2).

Framing goes by four kinds of lines that may begin a record, each with a stage: header token G 0, rule 1, Hdr-Ind 2,
record line 3.
One of them begins a new record unless the last one before it has a lower stage and no prompt, banner or note of
Logdump's own stands between them. A record ends with its last line that is understood and the blank lines directly
behind it.
"""

from __future__ import annotations

from typing import Final

from cdcwb.formats.goldengate.decode import Printed, Shape

from tests.reference.logdump import printed_lines as lines
from tests.reference.logdump.printed_lines import BLANK, time_us
from tests.reference.logdump.printed_reading import Reading

__all__ = ["split_text", "time_us"]


def split_text(data: bytes, base: int = 0) -> list[Printed]:
    """All of a stretch of text: records and the filler between them, in its order and without holes.

    ``base`` is the place of the first byte in the decompressed file. Never raises.
    """
    result = []
    trail: str | None = None
    for start, stop, reading in _pieces(data):
        if reading is not None:
            printed = reading.printed()
            trail = printed.trail or trail
        else:
            printed = Printed(Shape.FILLER, start, stop)
            trail = _trail(data[start:stop]) or trail
        printed.start, printed.stop, printed.trail = start + base, stop + base, trail
        result.append(printed)
    return result


def _trail(filler: bytes) -> str | None:
    """The trail file that notes of Logdump name last."""
    found = None
    for line in filler.split(b"\n"):
        found = lines.named_trail(line) or found
    return found


_Piece = tuple[int, int, Reading | None]


def _pieces(data: bytes) -> list[_Piece]:
    """Records, read, and filler between them, without empty ones."""
    pieces: list[_Piece] = []
    for start, stop, is_record in _regions(data):
        reading = Reading(data, start, stop) if is_record else None
        end = start if reading is None else reading.end
        if end > start:
            pieces.append((start, end, reading))
        if stop > end:
            if pieces and pieces[-1][2] is None:
                start, _, _ = pieces.pop()
                end = start
            pieces.append((end, stop, None))
    return pieces


def _regions(data: bytes) -> list[tuple[int, int, bool]]:
    """Stretches from one beginning of a record or of filler to the next."""
    regions: list[tuple[int, int, bool]] = []
    start, stage = 0, None
    for at, stop in lines.split_lines(data, 0, len(data)):
        stripped = data[at:stop].strip(BLANK)
        if stripped[:1] not in _FIRST:
            continue
        found = lines.candidate(stripped)
        if found is None:
            if stage is not None and lines.is_ender(stripped):
                regions.append((start, at, True))
                start, stage = at, None
            continue
        if stage is None or found[1] > 0 or found[0] <= stage:
            place = data.index(stripped, at, stop) + found[1] if found[1] > 0 else at
            regions.append((start, at, stage is not None))
            regions.append((at, place, False))
            start = place
        stage = found[0]
    regions.append((start, len(data), stage is not None))
    return regions


_FIRST: Final = frozenset(bytes([code]) for code in b"_HTLlCROEF0123456789")
"""What lines that may begin a record, and those that end one, begin with."""
