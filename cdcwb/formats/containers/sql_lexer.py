"""Where strings, comments, values and rows of SQL end: loops over the bytes, each of which looks at a byte once
(docs/formats/idm-event-log.md §1.5)."""

from __future__ import annotations

from typing import Any, Final

from cdcwb.formats.kernels import kernel

__all__ = ["FULL", "LAST", "OPEN", "WRONG", "read_row", "read_rows", "skip_blank"]

FULL: Final = 0
"""No room for more rows: the next one begins at the returned offset."""
LAST: Final = 1
"""A semicolon follows the last row."""
OPEN: Final = 2
"""A row that neither a semicolon nor a comma and another row follow; it is not counted."""
WRONG: Final = 3
"""A row that cannot be read, or has another number of values; it is not counted."""


@kernel
def _is_blank(c: Any) -> bool:
    return bool(c == 32 or 9 <= c <= 13)


@kernel
def _is_word(c: Any) -> bool:
    return bool(48 <= c <= 57 or 65 <= c <= 90 or c == 95 or 97 <= c <= 122)


@kernel
def _string(b: Any, at: Any, stop: Any, backslash: bool) -> Any:
    """The end of a string whose content begins at ``at``; after ``stop``: it has none."""
    while at < stop:
        if b[at] == 92 and backslash:
            at += 2
        elif b[at] != 39:
            at += 1
        elif at + 1 < stop and b[at + 1] == 39:
            at += 2
        else:
            return at + 1
    return stop + 1


@kernel
def _quoted(b: Any, at: Any, stop: Any) -> Any:
    """The end of Oracle's ``q'[…]'`` whose bracket is at ``at``; after ``stop``: it has none."""
    if at >= stop or _is_blank(b[at]):
        return stop + 1
    close = b[at]
    if close == 40:
        close = 41
    elif close == 60:
        close = 62
    elif close == 91:
        close = 93
    elif close == 123:
        close = 125
    at += 1
    while at + 1 < stop:
        if b[at] == close and b[at + 1] == 39:
            return at + 2
        at += 1
    return stop + 1


@kernel
def _comment(b: Any, at: Any, stop: Any, dashes: bool) -> Any:
    """The end of the comment that begins at ``at``: ``at`` if none begins, after ``stop`` if it has no end."""
    if at + 1 >= stop:
        return at
    if dashes and b[at] == 45 and b[at + 1] == 45:
        while at < stop and b[at] != 10:
            at += 1
        return min(at + 1, stop)
    if b[at] == 47 and b[at + 1] == 42:
        at += 2
        while at + 1 < stop:
            if b[at] == 42 and b[at + 1] == 47:
                return at + 2
            at += 1
        return stop + 1
    return at


@kernel
def skip_blank(b: Any, at: Any, stop: Any) -> Any:
    """The end of the white space and comments at ``at``, and where the search for it ended: that is ``stop`` if a
    comment begins there and has no end."""
    while at < stop:
        if _is_blank(b[at]):
            at += 1
            continue
        end = _comment(b, at, stop, True)
        if end > stop:
            return at, stop
        if end == at:
            break
        at = end
    return at, at


@kernel
def _word_of_string(b: Any, begin: Any, end: Any) -> Any:
    """What the word before a string makes of it: 1 a string, 2 one with escapes, 3 one of Oracle's, 0 nothing, because
    a quote is missing."""
    size = end - begin
    first, last = b[begin] | 32, b[end - 1] | 32
    if b[begin] == 95 and size > 1:
        return 1
    if size == 1 and (first == 110 or first == 120 or first == 98):
        return 1
    if size == 1 and first == 101:
        return 2
    if last == 113 and (size == 1 or (size == 2 and first == 110)):
        return 3
    return 0


@kernel
def read_row(b: Any, at: Any, stop: Any, backslash: bool, starts: Any, ends: Any) -> Any:
    """Reads the row whose parenthesis is at ``at``: the number of its values (of which ``starts`` and ``ends`` get the
    offsets, as far as there is room), the end of the row (-1: it has none), and where the search for it ended. White
    space before a value is not in it. A string is followed by no word: there a quote is missing."""
    count, depth, word, begins = 0, 0, -1, True
    at += 1
    while at < stop:
        c = b[at]
        if begins and _is_blank(c):
            at += 1
            continue
        if begins:
            if count < len(starts):
                starts[count] = at
            begins, word = False, -1
        if c == 39:
            how = 1 if word < 0 else _word_of_string(b, word, at)
            if how == 0:
                return count, -1, at
            end = _quoted(b, at + 1, stop) if how == 3 else _string(b, at + 1, stop, backslash or how == 2)
            if end > stop:
                return count, -1, stop
            if end < stop and (_is_word(b[end]) or b[end] == 39):
                return count, -1, end
            at, word = end, -1
            continue
        if _is_word(c):
            word = at if word < 0 else word
            at += 1
            continue
        word = -1
        if c == 45 or c == 47:
            end = _comment(b, at, stop, not backslash or (at + 2 < stop and _is_blank(b[at + 2])))
            if end > stop:
                return count, -1, stop
            at = end if end > at else at + 1
        elif c == 40:
            depth += 1
            at += 1
        elif c == 59:
            return count, -1, at
        elif c == 41 and depth:
            depth -= 1
            at += 1
        elif c == 41 or (c == 44 and not depth):
            if count < len(ends):
                ends[count] = at
            count += 1
            at += 1
            if c == 41:
                return count, at, at
            begins = True
        else:
            at += 1
    return count, -1, stop


@kernel
def _line_end(b: Any, at: Any, stop: Any) -> Any:
    """The end of the line if the rest of it is blank; else ``at``."""
    end = at
    while end < stop and (b[end] == 32 or b[end] == 9 or b[end] == 13):
        end += 1
    return min(end + 1, stop) if end == stop or b[end] == 10 else at


@kernel
def read_rows(b: Any, at: Any, bounds: Any, backslash: bool, head: Any, starts: Any, ends: Any, after: Any) -> Any:
    """Reads rows, the first of them at ``at``: those that commas separate, and those of the statements that follow with
    the same ``head`` (the bytes up to the row).

    Returns why it ended (:data:`FULL`, :data:`LAST`, :data:`OPEN` or :data:`WRONG`), the number of rows, the offset of
    the next one, and the three values of :func:`read_row` for it. ``starts`` and ``ends`` get the offsets of the
    values, ``after`` the end of each row with its comma or semicolon and the rest of the line. ``bounds``: the end of
    the bytes, the offset from which on no statement is begun, and after how many bytes to end."""
    stop, limit, most = bounds
    begin, rows = at, 0
    while rows < len(starts) and at - begin < most:
        if at >= stop or b[at] != 40:
            return WRONG, rows, at, 0, -1, at
        count, end, looked = read_row(b, at, stop, backslash, starts[rows], ends[rows])
        if end < 0 or count != starts.shape[1]:
            return WRONG, rows, at, count, end, looked
        sign = end
        while sign < stop and _is_blank(b[sign]):
            sign += 1
        if sign >= stop or (b[sign] != 44 and b[sign] != 59):
            return OPEN, rows, at, count, end, sign
        after[rows] = _line_end(b, sign + 1, stop)
        if b[sign] == 44:
            following, looked = skip_blank(b, sign + 1, stop)
            if following >= stop or b[following] != 40:
                return OPEN, rows, at, count, end, looked
        else:
            following = after[rows] + len(head)
            same = after[rows] < limit and following < stop and b[following] == 40
            place = 0
            while same and place < len(head):
                same = b[after[rows] + place] == head[place]
                place += 1
            if not same:
                return LAST, rows + 1, after[rows], count, end, looked
        at = following
        rows += 1
    return FULL, rows, at, 0, 0, at
