"""Where strings, values and rows of SQL end: loops over the bytes, each of which looks at a byte once
(docs/formats/idm-event-log.md §1.5)."""

from __future__ import annotations

from typing import Any

from cdcwb.formats.kernels import kernel

FULL, LAST, STOPPED = 0, 1, 2
"""Why rows end: there is no room for more; a semicolon follows the last one; the next one cannot be read, or neither a
semicolon nor a comma and another row follow it."""


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
def _until(b: Any, at: Any, stop: Any, first: Any, second: Any) -> Any:
    """The end of the next pair of these bytes; after ``stop``: there is none."""
    while at + 1 < stop:
        if b[at] == first and b[at + 1] == second:
            return at + 2
        at += 1
    return stop + 1


@kernel
def _oracle_string(b: Any, at: Any, stop: Any) -> Any:
    """The end of Oracle's ``q'[…]'`` whose bracket is at ``at``; after ``stop``: it has none."""
    if at >= stop or _is_blank(b[at]):
        return stop + 1
    close = b[at]
    if close == 40:
        close = 41
    elif close == 60 or close == 91 or close == 123:
        close += 2
    return _until(b, at + 1, stop, close, 39)


@kernel
def read_row(b: Any, at: Any, stop: Any, backslash: bool, starts: Any, ends: Any) -> Any:
    """Reads the row whose parenthesis is at ``at``: the number of its values (of which ``starts`` and ``ends`` get the
    offsets, as far as there is room), the end of the row (-1: it has none), and where the search for it ended. White
    space before a value is not in it. A string is followed by no word: there a quote is missing."""
    count, depth, begins = 0, 0, True
    at += 1
    while at < stop:
        c = b[at]
        if begins and _is_blank(c):
            at += 1
            continue
        if begins:
            if count < len(starts):
                starts[count] = at
            begins = False
        following = b[at + 1] if at + 1 < stop else c
        if c == 39:
            prefix, is_alone = b[at - 1] | 32, not _is_word(b[at - 2])
            if prefix == 113 and (is_alone or b[at - 2] | 32 == 110):
                end = _oracle_string(b, at + 1, stop)
            else:
                end = _string(b, at + 1, stop, backslash or (prefix == 101 and is_alone))
            if end > stop:
                return count, -1, stop
            if end < stop and (_is_word(b[end]) or b[end] == 39):
                return count, -1, end
            at = end
        elif c == 45 and following == 45:
            while at < stop and b[at] != 10:
                at += 1
        elif c == 47 and following == 42:
            at = _until(b, at + 2, stop, 42, 47)
        elif c == 59:
            return count, -1, at
        elif (c == 41 or c == 44) and not depth:
            if count < len(ends):
                ends[count] = at
            count += 1
            at += 1
            if c == 41:
                return count, at, at
            begins = True
        else:
            if c == 40:
                depth += 1
            elif c == 41:
                depth -= 1
            at += 1
    return count, -1, stop


@kernel
def read_rows(b: Any, at: Any, bounds: Any, backslash: bool, head: Any, starts: Any, ends: Any, after: Any) -> Any:
    """Reads rows, the first of them at ``at``: those that commas separate, and those of the statements that follow with
    the same ``head`` (the bytes up to the row).

    Returns the number of rows, the offset of the next one, and :data:`FULL`, :data:`LAST` or :data:`STOPPED`.
    ``starts`` and ``ends`` get the offsets of the values, ``after`` the end of each row with its comma or semicolon and
    the rest of the line. ``bounds``: the end of the bytes, the offset from which on no statement is begun, and after
    how many bytes to end."""
    stop, limit, most = bounds
    begin, rows = at, 0
    while rows < len(starts) and at - begin < most:
        if at >= stop or b[at] != 40:
            return rows, at, STOPPED
        count, end, _ = read_row(b, at, stop, backslash, starts[rows], ends[rows])
        if end < 0 or count != starts.shape[1]:
            return rows, at, STOPPED
        while end < stop and _is_blank(b[end]):
            end += 1
        if end >= stop or (b[end] != 44 and b[end] != 59):
            return rows, at, STOPPED
        following = end + 1
        while following < stop and (b[following] == 32 or b[following] == 9 or b[following] == 13):
            following += 1
        is_line_end = following == stop or b[following] == 10
        after[rows] = min(following + 1, stop) if is_line_end else end + 1
        if b[end] == 44:
            while following < stop and _is_blank(b[following]):
                following += 1
            if following >= stop or b[following] != 40:
                return rows, at, STOPPED
        else:
            following = after[rows] + len(head)
            is_same = after[rows] < limit and following < stop and b[following] == 40
            place = 0
            while is_same and place < len(head):
                is_same = b[after[rows] + place] == head[place]
                place += 1
            if not is_same:
                return rows + 1, after[rows], LAST
        at = following
        rows += 1
    return rows, at, FULL
