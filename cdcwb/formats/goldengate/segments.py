"""Stretches of lines of Logdump text that begin where a record or filler may begin, and whether they are as usual."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from cdcwb.formats.goldengate.lines import Flags, Ints, Line, Lines

__all__ = ["Segments", "segments_of"]

_KINDS: Final = 32
_CHAIN: Final = (
    (Line.G, (Line.H,)),
    (Line.H, (Line.D, Line.T, Line.U, Line.Z)),
    (Line.D, (Line.T, Line.U, Line.Z)),
    (Line.T, (Line.U, Line.Z)),
    (Line.U, (Line.Z,)),
    (Line.Z, (Line.RULE, Line.RECORD)),
    (Line.RULE, (Line.HDR_1, Line.RECORD)),
    (Line.HDR_1, (Line.HDR_2,)),
    (Line.HDR_2, (Line.HDR_3,)),
    (Line.HDR_3, (Line.HDR_4,)),
    (Line.HDR_4, (Line.HDR_5,)),
    (Line.HDR_5, (Line.HDR_6,)),
    (Line.HDR_6, (Line.HDR_7,)),
    (Line.HDR_7, (Line.HDR_8,)),
    (Line.HDR_8, (Line.BLANK_IN_HEAD,)),
    (Line.BLANK_IN_HEAD, (Line.RECORD,)),
    (Line.RECORD, (Line.NAME,)),
    (Line.NAME, (Line.IMAGE,)),
    (Line.IMAGE, (Line.COLUMN, Line.BEFORE, Line.BLANK_IN_TOKENS, Line.BLANK)),
    (Line.BEFORE, (Line.KEY_LENGTH, Line.COLUMN)),
    (Line.KEY_LENGTH, (Line.KEY_COLUMN,)),
    (Line.KEY_COLUMN, (Line.KEY_COLUMN, Line.BLANK_IN_KEY)),
    (Line.BLANK_IN_KEY, (Line.AFTER,)),
    (Line.AFTER, (Line.COLUMN, Line.BLANK_IN_TOKENS, Line.BLANK)),
    (Line.COLUMN, (Line.COLUMN, Line.BLANK_IN_KEY, Line.BLANK_IN_TOKENS, Line.BLANK)),
    (Line.BLANK_IN_TOKENS, (Line.TOKENS,)),
    (Line.TOKENS, (Line.TOKEN, Line.BLANK)),
    (Line.TOKEN, (Line.TOKEN, Line.BLANK)),
    (Line.BLANK, (Line.BLANK,)),
    (Line.PROMPT, (Line.BLANK,)),
)
"""What may follow a line in a usual record, and in filler."""

_LAST: Final = (Line.IMAGE, Line.AFTER, Line.COLUMN, Line.TOKENS, Line.TOKEN, Line.BLANK, Line.PROMPT)
_WITH_HEX: Final = (Line.H, Line.IMAGE, Line.COLUMN, Line.KEY_COLUMN, Line.TOKENS, Line.TOKEN)
_FIRST: Final = (Line.G, Line.RULE, Line.HDR_1, Line.RECORD)
_BEGINS: Final = 1
_WRONG: Final = 2


def _steps() -> npt.NDArray[np.uint8]:
    """[line before, line]: does the second begin a segment, is it wrong behind the first?"""
    steps = np.full((_KINDS, _KINDS), _WRONG, np.uint8)
    for line, following in _CHAIN:
        steps[line, list(following)] = 0
    begins = np.zeros((_KINDS, _KINDS), np.bool_)
    begins[:, [Line.G, Line.PROMPT, Line.RULE, Line.HDR_1, Line.RECORD]] = True
    begins[Line.Z, [Line.RULE, Line.RECORD]] = False
    begins[Line.RULE, [Line.HDR_1, Line.RECORD]] = False
    begins[Line.BLANK_IN_HEAD, Line.RECORD] = False
    steps[begins] = _BEGINS
    return steps.ravel()


def _among(kinds: Iterable[Line]) -> Flags:
    flags = np.zeros(_KINDS, np.bool_)
    flags[list(kinds)] = True
    return flags


_STEPS: Final = _steps()
_MAY_END: Final = _among(_LAST)
_MAY_HAVE_HEX: Final = _among(_WITH_HEX)
_MAY_BEGIN: Final = _among(_FIRST)


@dataclass(slots=True)
class Segments:
    """``first``: the first lines of the segments. ``is_record``, ``is_filler``: they have the lines of a usual record,
    in their order; or are prompts. ``line_segment``: the segment of each line."""

    first: Ints
    is_record: Flags
    is_filler: Flags
    line_segment: Ints


def segments_of(lines: Lines) -> Segments:
    """The segments of lines."""
    kind = lines.kind
    place = kind.astype(np.int16)  # of the line and the one before it, in the table of steps
    place[1:] += place[:-1] * _KINDS
    step = _STEPS[place]
    begins = (step & _BEGINS).astype(np.bool_)
    begins[:1] = True
    first = np.flatnonzero(begins)
    wrong = step > _BEGINS
    wrong[:1] = False
    wrong |= (np.diff(lines.number) > 1) & ~_MAY_HAVE_HEX[kind]
    last = np.append(first[1:], kind.size) - 1
    good = _MAY_END[kind[last]]
    if wrong.any():
        good &= ~np.logical_or.reduceat(wrong, first)
    head = kind[first]
    return Segments(first, good & _MAY_BEGIN[head], good & (head == Line.PROMPT), np.cumsum(begins) - 1)
