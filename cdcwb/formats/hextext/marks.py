r"""The marks that people put around hex digits, made into spaces: labels, comments, ``0x``, ``\x``, commas, quotes.

Works on one piece of a text in place; places stay what they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cdcwb.formats.hextext.lines import SPACE, Bytes, Flags, Ints, Piece, Scan, blank, counts, scan, within

__all__ = ["Marked", "prepare"]

_PUNCTUATION = np.isin(np.arange(256), list(b",;{}[]()"))
_QUOTES = np.isin(np.arange(256), list(b"\"'"))
_IN_FRONT = np.isin(np.arange(256), list(b"|>`"))
_WORD = np.isin(np.arange(256), list(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"))
_COMMA, _HASH, _SLASH, _OPEN, _CLOSE, _BACKSLASH, _ZERO, _B, _X = b",#/[]\\0bx"


@dataclass(frozen=True, slots=True)
class Marked:
    """For every line of a piece: whether a label stood in front, whether it was a comment."""

    labelled: Flags
    comment: Flags


def prepare(piece: Piece) -> Marked:
    """Write spaces over everything of the piece that only separates, labels or comments out."""
    text = piece.text
    has = np.bincount(text, minlength=256)
    if has[_BACKSLASH]:
        _escapes(text)
    if has[_X] or has[ord("X")]:
        _prefixes(text)
    found = scan(text)
    head = _heads(found)
    opening = np.where(head < found.line_end, text[np.minimum(head, text.size - 1)], SPACE)
    second = text[np.minimum(head + 1, text.size - 1)]
    comment = (opening == _HASH) | ((opening == _SLASH) & (second == _SLASH))
    if piece.continued:
        comment[0] = False
    blank(text, found.line_start[comment], found.line_end[comment])
    labelled = np.zeros(comment.size, np.bool_)
    rows = np.flatnonzero(opening == _OPEN)
    labelled[_labels(text, found, rows, head[rows])] = True
    text[head[_IN_FRONT[opening]]] = SPACE  # a table's border, a quoted mail
    if has[_COMMA]:
        _commas(text)
    return Marked(labelled, comment)


def _heads(found: Scan) -> Ints:
    """The first character of every line that is no white space; the line's end where it has none."""
    run = found.line_end.copy()
    some = found.first[:-1] < found.first[1:]
    run[some] = found.run_start[found.first[:-1][some]]
    return np.minimum(found.first_note(), run)


def _escapes(text: Bytes) -> None:
    r"""``\x00\x24``, in quotes or not."""
    place = np.flatnonzero((text[:-1] == _BACKSLASH) & (text[1:] == _X))
    before, behind = place[place > 0] - 1, place[place + 4 < text.size] + 4
    for beside in (before, behind):
        text[beside[_QUOTES[text[beside]]]] = SPACE
    text[place] = text[place + 1] = SPACE
    mark = before[before > 0] - 1  # the b of b'\x00…'
    mark = mark[(text[mark] == _B) & (text[mark + 1] == SPACE)]
    alone = (mark == 0) | (text[mark - 1] <= SPACE)
    text[mark[alone]] = SPACE


def _prefixes(text: Bytes) -> None:
    """``0x00, 0x24``: two or more on a line, or one in front; then brackets and commas of the line separate too.

    A single one within prose is a number that the prose speaks of.
    """
    place = np.flatnonzero((text[:-1] == _ZERO) & ((text[1:] | 0x20) == _X))
    place = place[(place == 0) | ~_WORD[text[place - 1]]]
    if not place.size:
        return
    found = scan(text)
    line = np.searchsorted(found.line_start, place, side="right") - 1
    many = np.bincount(line, minlength=found.line_start.size)
    in_front = np.zeros(many.size, np.bool_)
    in_front[line[_heads(found)[line] == place]] = True
    rows = np.flatnonzero((many >= 2) | in_front)
    inside = within(text.size, found.line_start[rows], found.line_end[rows])
    place = place[inside[place]]
    text[place] = text[place + 1] = SPACE
    text[inside & _PUNCTUATION[text]] = SPACE


def _labels(text: Bytes, found: Scan, rows: Ints, head: Ints) -> Ints:
    """``[5 INSERT ] 00000028 …``: blank the labels; gives those of the rows that have one, with digits behind it."""
    close = np.append(np.flatnonzero(text == _CLOSE), text.size)
    end = close[np.searchsorted(close, head)]
    inside = end < found.line_end[rows]
    rows, head, end = rows[inside], head[inside], end[inside]
    behind = np.searchsorted(found.run_start, end) < found.first[rows + 1]
    blank(text, head[behind], end[behind] + 1)
    return rows[behind]


def _commas(text: Bytes) -> None:
    """``00,00,00,24``: commas separate on lines of nothing but groups of (nearly) one even width."""
    found = scan(text)
    comma = text == _COMMA
    commas = counts(comma, found.line_start, found.line_end)
    notes = np.diff(np.searchsorted(found.notes, np.append(found.line_start, text.size)))
    rows = np.flatnonzero((commas > 0) & (notes == commas) & (found.first[1:] > found.first[:-1]))
    if rows.size:
        width = found.run_end - found.run_start
        usual = np.repeat(width[np.minimum(found.first[:-1], width.size - 1)], np.diff(found.first))
        unusual = counts((width != usual) | (usual % 2 == 1), found.first[:-1], found.first[1:])
        rows = rows[unusual[rows] * 10 <= np.diff(found.first)[rows]]
        text[comma & within(text.size, found.line_start[rows], found.line_end[rows])] = SPACE
