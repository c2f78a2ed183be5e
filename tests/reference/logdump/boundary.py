"""Where a stretch of Logdump text may begin, found without reading what is before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from tests.reference.logdump.printed_lines import BLANK, candidate, is_ender

__all__ = ["boundary"]

_WINDOW: Final = 1 << 14
_RECORD_STAGE: Final = 2
_RULE: Final = 1


def boundary(text: npt.NDArray[np.uint8], at: int) -> int:
    """The first place at or behind ``at`` where a record begins that stands for itself; the text's size if there is
    none. Stretches of a text that are cut at such places hold the same records and filler as the text does."""
    if at <= 0:
        return 0
    lines = _lines_from(text, at)
    stage = _UNKNOWN
    waiting: int | None = None  # a rule, which begins a record if one of its lines follows
    for place, line in lines:
        found = candidate(line)
        if found is None:
            if waiting is not None:
                waiting, stage = None, _RULE
            if line and is_ender(line):
                stage = _NONE
            continue
        if waiting is not None and found[0] >= _RECORD_STAGE and not found[1]:
            return waiting
        waiting = None
        if stage == _UNKNOWN:
            stage = _stage_before(text, place)
        begins = found[1] > 0 or found[0] <= stage or stage == _NONE
        here = _place(text, place, found[1])
        stage = found[0]
        if not begins:
            continue
        if found[0] != _RULE:
            return here
        waiting = here
    return text.size


_UNKNOWN: Final = -2
_NONE: Final = -1


def _place(text: npt.NDArray[np.uint8], place: int, glued: int) -> int:
    if not glued:
        return place
    line = text[place : place + _WINDOW].tobytes()
    return place + len(line) - len(line.lstrip(BLANK)) + glued


def _lines_from(text: npt.NDArray[np.uint8], at: int) -> Iterator[tuple[int, bytes]]:
    """Places of the lines that begin at or behind ``at``, and the lines without white space around them."""
    at -= 1
    is_first = True
    while at < text.size:
        size = _WINDOW
        window = text[at : at + size].tobytes()
        while b"\n" not in window and at + size < text.size:
            size *= 4
            window = text[at : at + size].tobytes()
        end = len(window) if at + size >= text.size else window.rfind(b"\n") + 1
        place = at
        for line in _split(window[:end]):
            if not is_first:
                yield place, line.strip(BLANK)
            is_first = False
            place += len(line)
        at += end


def _split(window: bytes) -> list[bytes]:
    parts = window.split(b"\n")
    last = parts.pop()
    return [part + b"\n" for part in parts] + ([last] if last else [])


def _stage_before(text: npt.NDArray[np.uint8], place: int) -> int:
    """The stage of the last line before ``place`` that may begin a record; _NONE where a prompt or the like is nearer,
    or there is no such line."""
    size = _WINDOW
    stop = place
    while stop > 0:
        low = max(stop - size, 0)
        window = text[low:stop].tobytes()
        cut = 0 if low == 0 else window.find(b"\n") + 1
        if cut == len(window) or (low and not cut):
            size *= 4
            continue
        for line in reversed(window[cut:].split(b"\n")):
            stripped = line.strip(BLANK)
            found = candidate(stripped)
            if found is not None:
                return found[0]
            if stripped and is_ender(stripped):
                return _NONE
        stop = low + cut
    return _NONE
