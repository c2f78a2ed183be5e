"""The marks that people put around hex digits, made into spaces: labels, comments, ``0x``, ``\\x``, commas, quotes.

Works on one piece of a text in place; places stay what they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cdcwb.formats.textlines import SPACE, Bytes, Ints, Piece, Scan, blank, counts, scan, within

__all__ = ["Marked", "prepare"]

_PUNCTUATION = np.isin(np.arange(256), list(b",;{}[]()"))
_QUOTES = np.isin(np.arange(256), list(b"\"'"))
_IN_FRONT = np.isin(np.arange(256), list(b"|>`"))
_COMMA, _HASH, _SLASH, _OPEN, _CLOSE, _BACKSLASH, _ZERO = b",#/[]\\0"


@dataclass(frozen=True, slots=True)
class Marked:
    """For every line of a piece: whether a label stood in front, whether it was a comment."""

    labelled: NDArray[np.bool_]
    comment: NDArray[np.bool_]


def prepare(piece: Piece) -> Marked:
    """Write spaces over everything of the piece that only separates, labels or comments out."""
    text = piece.text
    has = np.bincount(text, minlength=256)
    if has[_BACKSLASH]:
        _escapes(text)
    if has[ord("x")] or has[ord("X")]:
        _prefixes(text)
    found = scan(text)
    head = _heads(text, found)
    opening = np.where(head < found.line_end, text[np.minimum(head, text.size - 1)], SPACE)
    comment = opening == _HASH
    second = np.minimum(head + 1, text.size - 1)
    comment |= (opening == _SLASH) & (text[second] == _SLASH)
    if piece.continued:
        comment[0] = False
    blank(text, found.line_start[comment], found.line_end[comment])
    labelled = np.zeros(comment.size, np.bool_)
    rows = np.flatnonzero(opening == _OPEN)
    if rows.size:
        labelled[_labels(text, found, rows, head[rows])] = True
    text[head[_IN_FRONT[opening]]] = SPACE
    if has[_COMMA]:
        _commas(text)
    return Marked(labelled, comment)


def _heads(text: Bytes, found: Scan) -> Ints:
    """The first character of every line that is no white space; the line's end where it has none."""
    note, run = found.first_note(), found.line_end.copy()
    some = found.first[:-1] < found.first[1:]
    run[some] = found.run_start[found.first[:-1][some]]
    return np.minimum(note, run)


def _escapes(text: Bytes) -> None:
    """``\\x00\\x24``, in quotes or not."""
    place = np.flatnonzero((text[:-3] == _BACKSLASH) & (text[1:-2] == ord("x"))) if text.size > 3 else np.empty(0, int)
    for beside in (place - 1, place + 4):
        beside = beside[(beside >= 0) & (beside < text.size)]
        text[beside[_QUOTES[text[beside]]]] = SPACE
    text[place] = text[place + 1] = SPACE
    byte_mark = place - 2  # b'\x00…'
    byte_mark = byte_mark[byte_mark >= 0]
    in_front = (text[byte_mark] == ord("b")) & (text[byte_mark + 1] == SPACE)
    byte_mark = byte_mark[in_front]
    first = (byte_mark == 0) | (text[byte_mark - 1] <= SPACE)
    text[byte_mark[first]] = SPACE


def _prefixes(text: Bytes) -> None:
    """``0x00, 0x24``: two or more on a line, or one in front; then brackets and commas of the line separate too.

    A single one within prose is a number that the prose speaks of.
    """
    place = np.flatnonzero((text[:-1] == _ZERO) & ((text[1:] | 0x20) == ord("x")))
    word = np.zeros(256, np.bool_)
    word[list(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz")] = True
    place = place[(place == 0) | ~word[text[place - 1]]]
    if not place.size:
        return
    found = scan(text)
    line = np.searchsorted(found.line_start, place, side="right") - 1
    many = np.bincount(line, minlength=found.line_start.size)
    in_front = np.zeros(many.size, np.bool_)
    in_front[line] |= _heads(text, found)[line] == place
    rows = np.flatnonzero((many >= 2) | in_front)
    marks = place[np.isin(line, rows)]
    text[marks] = text[marks + 1] = SPACE
    inside = within(text.size, found.line_start[rows], found.line_end[rows])
    text[inside & _PUNCTUATION[text]] = SPACE


def _labels(text: Bytes, found: Scan, rows: Ints, head: Ints) -> Ints:
    """``[5 INSERT ] 00000028 …``: blank the labels; those of the rows that have one, with digits behind it."""
    close = np.append(np.flatnonzero(text == _CLOSE), text.size)
    end = close[np.searchsorted(close, head)]
    inside = end < found.line_end[rows]
    rows, head, end = rows[inside], head[inside], end[inside]
    behind = np.searchsorted(found.run_start, end) < found.first[rows + 1]
    blank(text, head[behind], end[behind] + 1)
    return rows[behind]


def _commas(text: Bytes) -> None:
    """``00,00,00,24``: commas separate on lines of nothing but groups of one even width."""
    found = scan(text)
    comma = text == _COMMA
    other = counts(comma, found.line_start, found.line_end)
    notes = np.diff(np.searchsorted(found.notes, np.append(found.line_start, text.size)))
    rows = np.flatnonzero((other > 0) & (notes == other) & (found.first[1:] > found.first[:-1]))
    if not rows.size:
        return
    runs = np.diff(found.first)
    width = found.run_end - found.run_start
    usual = np.repeat(width[np.minimum(found.first[:-1], width.size - 1)], runs)
    unusual = counts((width != usual) | (usual % 2 == 1), found.first[:-1], found.first[1:])
    rows = rows[unusual[rows] == 0]
    text[comma & within(text.size, found.line_start[rows], found.line_end[rows])] = SPACE
