"""The spans of the values of JSON texts: one compiled loop for readers and for ``inspect``.

Every value is a row of some arrays, in the order of the text. A damaged text has the rows up to the damage, what was
expected, and the byte. Nothing is copied: names, texts and numbers stay in the buffer.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from cdcwb.formats.kernels import Bytes, Int, Ints, kernel

LEVELS: Final = 1000
"""Maximum depth of nested objects and arrays; more is damage."""

OBJECT: Final = 1
ARRAY: Final = 2
STRING: Final = 3
ESCAPED: Final = 4
"""A string with escaped characters."""
NUMBER: Final = 5
BOOLEAN: Final = 6
NULL: Final = 7
KIND: Final = 15
"""The bits of ``Spans.kind`` for one of these; the others are flags."""
NAME_ESCAPED: Final = 16
"""The name has escaped characters."""
OPAQUE: Final = 32
"""An object or array whose values have no rows, because it is nested too deep."""
TRAILING: Final = 64
"""A comma follows, but no other field or item."""

FULL: Final = 10
EXPECTED: Final = {
    2: "a value",
    3: "a name in double quotes",
    4: "a colon",
    5: "a comma or {closing}",
    6: "the end",
    7: "the end of a string",
    8: "a character of a string",
    9: "text in UTF-8",
    FULL: "fewer values",
    11: f"at most {LEVELS} levels of nesting",
}
"""The expectation at the damage of a text, by ``Spans.state``."""

_VALUE, _NAME, _COLON, _COMMA, _END, _STRING_END, _CHARACTER, _UTF8, _LEVELS = 2, 3, 4, 5, 6, 7, 8, 9, 11
_FIRST_NAME, _FIRST_ITEM, _NEXT_NAME, _ITEM, _AFTER = 0, 1, 2, 3, 4  # what the loop waits for
_BITS: Final = (1 << 31) - 1  # of each of the two hashes that make a shape


class Spans(NamedTuple):
    """The values of some texts. Text n has the values from ``first[n]`` to ``first[n + 1]``. For each value: ``kind``
    with its flags; ``level``, the number of objects and arrays around it; ``name`` to ``name_end``, its name without
    quotes (-1 in an array); ``start`` to ``end``, its bytes with quotes or brackets; ``stop``, the start of the next
    field, or the closing bracket. For each text: ``state``, 0 or a key of :data:`EXPECTED`; ``at``, the offset of that;
    ``done``, the end of the parsed text; ``closing``, the bracket that is open there; ``shape``, a hash of names and
    nesting.
    """

    first: Ints
    kind: Bytes
    level: Ints
    name: Ints
    name_end: Ints
    start: Ints
    end: Ints
    stop: Ints
    state: Ints
    at: Ints
    done: Ints
    closing: Ints
    shape: Ints


def spans_of(text: Bytes, edges: Ints, deepest: int, *, commas: bool = False, most: int | None = None) -> Spans:
    """The values of the JSON texts between the ``edges`` of ``text``. Objects and arrays inside of ``deepest`` others
    are one value. A byte order mark is passed over. ``commas``: a comma after the last field or item is not damage.
    ``most``: maximum rows of values.
    """
    count = len(edges) - 1
    if most is None:
        most = count + sum(int(np.count_nonzero(text == byte)) for byte in b":,[")
    values = np.empty((6, most), dtype=np.int64)
    kind = np.empty(most, dtype=np.uint8)
    first = np.zeros(count + 1, dtype=np.int64)
    texts = np.empty((5, count), dtype=np.int64)
    brackets = np.empty(LEVELS, dtype=np.int64)
    last = np.empty(LEVELS + 1, dtype=np.int64)
    arrays = (*values, *texts, brackets, last)
    _spans(text, edges, deepest, commas, first, kind, *arrays)
    total = int(first[-1])
    return Spans(first, kind[:total], *(row[:total] for row in values), *texts)


@kernel
def _hash(one: Int, other: Int, item: Int) -> tuple[Int, Int]:
    """Two hashes with one more item; products fit 64 bits."""
    return (one * 1_000_003 + item) & _BITS, ((other ^ item) * 16_777_619) & _BITS


@kernel
def utf8_fault(text: Bytes, at: Int, stop: Int) -> Int:
    """The offset of the first bytes that are not UTF-8, or -1."""
    while at < stop:
        c: Int = np.int64(text[at])
        if c < 0x80:
            at += 1
            continue
        size = 1 if c < 0xE0 else 2 if c < 0xF0 else 3
        if c < 0xC2 or c > 0xF4 or at + size >= stop:
            return at
        least, most = 0x80, 0xBF
        if c == 0xE0:
            least = 0xA0
        elif c == 0xED:
            most = 0x9F
        elif c == 0xF0:
            least = 0x90
        elif c == 0xF4:
            most = 0x8F
        second = np.int64(text[at + 1])
        if second < least or second > most:
            return at
        for more in range(2, size + 1):
            if np.int64(text[at + more]) & 0xC0 != 0x80:
                return at
        at += size + 1
    return -1


@kernel
def _is_hex(c: Int) -> bool:
    return bool(48 <= c <= 57 or 65 <= c <= 70 or 97 <= c <= 102)


@kernel
def _string(text: Bytes, at: Int, stop: Int) -> tuple[Int, Int]:
    """The end of the string that begins at ``at``, after its quote; and 0, 1 if characters are escaped, or the
    expectation."""
    begin, high, escaped = at, 0, 0
    while at < stop:
        c: Int = np.int64(text[at])
        if c == 34:
            wrong = utf8_fault(text, begin, at) if high >= 0x80 else -1
            return (wrong, _UTF8) if wrong >= 0 else (at, escaped)
        if c < 32:
            return at, _CHARACTER
        if c == 92:
            e = np.int64(text[at + 1]) if at + 1 < stop else 0
            if e == 117 and at + 5 < stop:
                for more in range(at + 2, at + 6):
                    if not _is_hex(np.int64(text[more])):
                        return at, _CHARACTER
                at += 4
            elif not (e == 34 or e == 92 or e == 47 or e == 98 or e == 102 or e == 110 or e == 114 or e == 116):
                return at, _CHARACTER
            escaped = 1
            at += 1
        high |= c
        at += 1
    return at, _STRING_END


@kernel
def _digits(text: Bytes, at: Int, stop: Int) -> Int:
    while at < stop and 48 <= np.int64(text[at]) <= 57:
        at += 1
    return at


@kernel
def _number(text: Bytes, at: Int, stop: Int) -> Int:
    """The end of the number that begins at ``at``; ``at`` if there is none."""
    begin = at
    if at < stop and text[at] == 45:
        at += 1
    whole = at
    at = whole + 1 if at < stop and text[at] == 48 else _digits(text, at, stop)
    if at == whole:
        return begin
    if at + 1 < stop and text[at] == 46:
        more = _digits(text, at + 1, stop)
        at = more if more > at + 1 else at
    if at + 1 < stop and (text[at] == 101 or text[at] == 69):
        sign = at + 2 if text[at + 1] == 43 or text[at + 1] == 45 else at + 1
        more = _digits(text, sign, stop)
        at = more if more > sign else at
    return at


@kernel
def _word(text: Bytes, at: Int, stop: Int, a: Int, b: Int, c: Int, d: Int) -> bool:
    """Whether the last four letters of a literal are there."""
    there = at + 4 <= stop and text[at] == a and text[at + 1] == b and text[at + 2] == c and text[at + 3] == d
    return bool(there)


@kernel
def _spans(
    text: Bytes,
    edges: Ints,
    deepest: Int,
    commas: bool,
    first: Ints,
    kind: Bytes,
    level: Ints,
    name: Ints,
    name_end: Ints,
    start: Ints,
    end: Ints,
    stop: Ints,
    state: Ints,
    at: Ints,
    done: Ints,
    closing: Ints,
    shape: Ints,
    brackets: Ints,
    last: Ints,
) -> None:
    """Fills the arrays of :class:`Spans`. ``brackets`` and ``last`` are those of the open levels: the opening bracket,
    and the last value."""
    n: Int = 0
    for number in range(len(edges) - 1):
        i: Int = edges[number]
        behind: Int = edges[number + 1]
        if i + 3 <= behind and text[i] == 0xEF and text[i + 1] == 0xBB and text[i + 2] == 0xBF:
            i += 3
        first[number] = n
        depth, waits, wrong, understood, one, other = 0, _ITEM, 0, i, 1, 1
        label: Int = np.int64(-1)
        label_end: Int = np.int64(-1)
        flags = 0
        while True:
            while i < behind and (text[i] == 32 or text[i] == 10 or text[i] == 13 or text[i] == 9):
                i += 1
            c: Int = np.int64(text[i]) if i < behind else np.int64(-1)
            if waits == _AFTER:
                if depth <= deepest:
                    stop[last[depth]] = understood = i
                if depth == 0:
                    if i < behind:
                        wrong = _END
                    break
                close = brackets[depth - 1] + 2
                if c == 44:
                    i += 1
                    waits = _NEXT_NAME if close == 125 else _ITEM
                    follows = i
                    while follows < behind and (
                        text[follows] == 32 or text[follows] == 10 or text[follows] == 13 or text[follows] == 9
                    ):
                        follows += 1
                    if commas and follows < behind and text[follows] == close:
                        i, waits = follows, _AFTER
                        kind[last[min(depth, deepest)]] |= TRAILING
                    if depth <= deepest:
                        stop[last[depth]] = understood = i
                    if waits == _AFTER:  # the closing bracket is next
                        c = close
                    else:
                        continue
                if c != close:
                    wrong = _COMMA
                    break
            if waits == _AFTER or (waits == _FIRST_NAME and c == 125) or (waits == _FIRST_ITEM and c == 93):
                i += 1
                depth -= 1
                if depth <= deepest:
                    end[last[depth]] = i
                    one, other = _hash(one, other, 256)
                waits = _AFTER
                continue
            if waits in (_FIRST_NAME, _NEXT_NAME):
                if c != 34:
                    wrong = _NAME
                    break
                label = i + 1
                i, found = _string(text, label, behind)
                if found > 1:
                    wrong = found
                    break
                label_end = i
                flags = NAME_ESCAPED if found else 0
                i += 1
                while i < behind and (text[i] == 32 or text[i] == 10 or text[i] == 13 or text[i] == 9):
                    i += 1
                if i >= behind or text[i] != 58:
                    wrong = _COLON
                    break
                i += 1
                waits = _ITEM
                continue
            begin, what = i, 0
            if c == 123 or c == 91:
                if depth >= LEVELS:
                    wrong = _LEVELS
                    break
                what = OBJECT if c == 123 else ARRAY
                i += 1
            elif c == 34:
                i, found = _string(text, i + 1, behind)
                if found > 1:
                    wrong = found
                    break
                what = ESCAPED if found else STRING
                i += 1
            elif c == 110 and _word(text, i, behind, 110, 117, 108, 108):
                what = NULL
                i += 4
            elif c == 116 and _word(text, i, behind, 116, 114, 117, 101):
                what = BOOLEAN
                i += 4
            elif c == 102 and _word(text, i + 1, behind, 97, 108, 115, 101):
                what = BOOLEAN
                i += 5
            else:
                i = _number(text, i, behind)
                what = NUMBER
                if i == begin:
                    wrong = _VALUE
                    break
            if depth <= deepest:
                if n >= len(kind):
                    wrong = FULL
                    break
                is_opaque = what <= ARRAY and depth == deepest
                kind[n] = what | flags | (OPAQUE if is_opaque else 0)
                level[n], name[n], name_end[n], start[n], end[n], stop[n] = depth, label, label_end, begin, i, i
                if label >= 0:
                    for letter in range(label, label_end):
                        one, other = _hash(one, other, np.int64(text[letter]))
                one, other = _hash(one, other, 257 + (what if what <= ARRAY else 0))
                last[depth] = n
                n += 1
                if what <= ARRAY and not is_opaque:
                    understood = i
            label = label_end = np.int64(-1)
            flags = 0
            waits = _AFTER
            if what <= ARRAY:
                brackets[depth] = c
                depth += 1
                waits = _FIRST_NAME if c == 123 else _FIRST_ITEM
        if wrong and depth > deepest:  # the value that is not complete has no row
            n = last[deepest]
        state[number], at[number], done[number] = wrong, i, understood
        shape[number] = one << 31 | other
        closing[number] = brackets[depth - 1] + 2 if depth else 0
    first[len(edges) - 1] = n
