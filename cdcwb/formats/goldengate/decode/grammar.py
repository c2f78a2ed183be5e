# ruff: noqa: SIM110 - any() and all() cannot be compiled
"""The grammar of one line of Logdump text, as kernels (docs/formats/goldengate.md §2).

``b`` is a text, ``[i, e)`` a line or its rest without white space around it. Each function returns offsets and values
as integers; -1 is "not there". White space may be collapsed everywhere, as in mails and forums (§2.2).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from cdcwb.formats.goldengate.decode import HEADER, NOT_A_TIME, Bytes
from cdcwb.formats.kernels import kernel
from cdcwb.formats.moments import DAY, NO_DAY, days_of, micros_of_day

__all__ = [
    "HEX",
    "IO_TIME",
    "NAMES",
    "TOKEN_LETTERS",
    "candidate",
    "clock",
    "column_line",
    "decimal",
    "folded",
    "half_line",
    "header_name",
    "hex_line",
    "hexadecimal",
    "image_line",
    "is_digit",
    "is_ender",
    "is_header_token_name",
    "is_prose",
    "is_rule",
    "name_line",
    "name_value",
    "next_header_name",
    "pair_of_indexes",
    "record_line",
    "skip",
    "token_line",
    "transaction_line",
    "trimmed",
    "value_of_field",
    "wide",
    "word",
]


wide: Final[Any] = np.int64
"""Makes a number of a byte that does not overflow."""

NAMES: Final = (*(name for name in HEADER if not name.endswith(" index")), "IO Time", "DDR/TDR index")
"""Labels of the header block."""
IO_TIME: Final = NAMES.index("IO Time")
TOKEN_LETTERS: Final = b"GHDTUZ"


def _bytes(text: str) -> Bytes:
    return np.frombuffer(text.encode(), np.uint8)


def _table(names: tuple[str, ...]) -> Bytes:
    """Words in lower case, one a row, ended by zeros."""
    table = np.zeros((len(names), max(map(len, names)) + 1), np.uint8)
    for row, name in enumerate(names):
        table[row, : len(name)] = _bytes(name.lower())
    return table


HEX: Final = np.full(256, 255, np.uint8)
for _digit in "0123456789abcdefABCDEF":
    HEX[ord(_digit)] = int(_digit, 16)
_NAMES: Final = _table(NAMES)
_HAS_NAME: Final = np.isin(np.arange(256), np.concatenate([_NAMES[:, 0], _NAMES[:, 0] - 32]))
_IS_COUNT: Final = np.array([name in ("RecLength", "IOType", "OrigNode", "SyskeyLen", "RecCount") for name in NAMES])
"""Printed as decimal and hex; of the others the printed character is decoration."""
_IS_CHARACTER: Final = np.array([name in ("Hdr-Ind", "BeforeAfter", "FormatType", "Continued") for name in NAMES])
_CONTINUED: Final = NAMES.index("Continued")
_ENDERS: Final = _table(
    (
        "Current LogTrail is",
        "Reading forward from RBA",
        "Oracle GoldenGate Log File Dump",
        "Error:",
        "Filtering suppressed",
        "Last record for the last committed",
        "LogTrail ",
    )
)
_HEADER_TOKENS: Final = _table(("Record Header", "GHDR", "Data", "GGS Tokens", "User Tokens", "Record Trailer"))
_AFTER, _BEFORE, _IMAGE, _LEN, _RBA = (_bytes(word) for word in ("After", "Before", "Image", "Len", "RBA"))
_PARTITION, _INDEX, _COLUMN, _KEY = (_bytes(word) for word in ("Partition", "(TDR Index:", "Column", "KeyCol"))
_LOB, _OF, _TRANSID, _INFO = (_bytes(word) for word in ("lob fragment", "of", "TRANSID", "Info"))
_LENGTH, _GTH, _RECORD_HEADER = _bytes("Length"), _bytes("gth"), _bytes("Record Header")
_TOKEN_ID, _HDR_IND, _LOGDUMP, _KEY_LENGTH = (_bytes(word) for word in ("TokenID", "Hdr-Ind", "logdump", "KeyLen"))


@kernel
def is_white(c: int) -> bool:
    """Whether it is white space."""
    return c == 32 or 9 <= c <= 13


@kernel
def is_digit(c: int) -> bool:
    """Whether it is a decimal digit."""
    return 48 <= c <= 57


@kernel
def lower(c: int) -> int:
    return c + 32 if 65 <= c <= 90 else c


@kernel
def skip(b: Bytes, i: int, e: int) -> int:
    """The first offset from ``i`` on that is not white space."""
    while i < e and is_white(b[i]):
        i += 1
    return i


@kernel
def trimmed(b: Bytes, i: int, e: int) -> int:
    """The end of ``[i, e)`` without trailing white space."""
    while e > i and is_white(b[e - 1]):
        e -= 1
    return e


@kernel
def word(b: Bytes, i: int, e: int, what: Bytes) -> bool:
    """Whether a word is at ``i``."""
    if e - i < what.size:
        return False
    for k in range(what.size):
        if b[i + k] != what[k]:
            return False
    return True


@kernel
def folded(b: Bytes, i: int, e: int, what: Bytes) -> bool:
    """Whether a word (given in lower case) is at ``i``, ignoring case."""
    if e - i < what.size:
        return False
    for k in range(what.size):
        if lower(wide(b[i + k])) != what[k]:
            return False
    return True


@kernel
def in_table(b: Bytes, i: int, e: int, table: Bytes, row: int) -> int:
    """The end of a word of a table at ``i``, ignoring case; -1: not there."""
    k = 0
    while table[row, k] != 0:
        if i + k >= e or lower(wide(b[i + k])) != table[row, k]:
            return -1
        k += 1
    return i + k


@kernel
def decimal(b: Bytes, i: int, e: int) -> tuple[int, int]:
    """A number of 1 to 18 digits at ``i``, and its end; ``i`` if there is none."""
    k, value = i, 0
    while k < e and is_digit(b[k]):
        if k - i < 18:
            value = value * 10 + wide(b[k]) - 48
        k += 1
    return (value, k) if k - i <= 18 else (0, i)


@kernel
def hexadecimal(b: Bytes, i: int, e: int, most: int) -> tuple[int, int]:
    """A number of 1 to ``most`` hex digits at ``i``, and its end; ``i`` if there is none."""
    k, value = i, 0
    while k < e and HEX[b[k]] < 16:
        if k - i < most:
            value = value << 4 | wide(HEX[b[k]])
        k += 1
    return (value, k) if k - i <= most else (0, i)


@kernel
def two(b: Bytes, i: int) -> int:
    """A number of two digits; -1: none."""
    if is_digit(b[i]) and is_digit(b[i + 1]):
        value: int = 10 * (wide(b[i]) - 48) + wide(b[i + 1]) - 48
        return value
    return -1


@kernel
def clock(b: Bytes, i: int, e: int) -> tuple[int, int]:
    """The end of a time that begins at ``i`` (-1: none), and the time as microseconds since 1970; NOT_A_TIME for an
    invalid one."""
    if e - i < 19:
        return -1, NOT_A_TIME
    century, of_century, month, day = two(b, i), two(b, i + 2), two(b, i + 5), two(b, i + 8)
    hour, minute, second = two(b, i + 11), two(b, i + 14), two(b, i + 17)
    for k in (4, 7):
        if b[i + k] != 47 and b[i + k] != 45:
            return -1, NOT_A_TIME
    if (b[i + 10] != 32 and b[i + 10] != 84) or b[i + 13] != 58 or b[i + 16] != 58:
        return -1, NOT_A_TIME
    if min(century, of_century, month, day, hour, minute, second) < 0:
        return -1, NOT_A_TIME
    k, fraction = i + 19, 0
    if k + 1 < e and b[k] == 46 and is_digit(b[k + 1]):
        unit = 100000
        k += 1
        first = k
        while k < e and k < first + 3 and is_digit(b[k]):
            fraction += unit * (wide(b[k]) - 48)
            unit //= 10
            k += 1
        at = k + 1 if k + 1 < e and b[k] == 46 and is_digit(b[k + 1]) else k
        if at < e and is_digit(b[at]):
            unit, k = 100, at
            while k < e and k < at + 3 and is_digit(b[k]):
                fraction += unit * (wide(b[k]) - 48)
                unit //= 10
                k += 1
    days, clock = days_of(100 * century + of_century, month, day), micros_of_day(hour, minute, second)
    return k, NOT_A_TIME if days == NO_DAY or clock < 0 else days * DAY + clock + fraction


# --- lines that may begin or end a record -----------------------------------------------------------------------------


@kernel
def is_rule(b: Bytes, i: int, e: int) -> bool:
    """Whether it is 20 underscores or more."""
    if e - i < 20:
        return False
    for k in range(i, e):
        if b[k] != 95:
            return False
    return True


@kernel
def record_line(b: Bytes, i: int, e: int) -> tuple[int, int, int, int, int, int]:
    """Time's end (-1: no record line) and moment, begin and end of the operation, Len and RBA."""
    no = (-1, NOT_A_TIME, -1, -1, -1, -1)
    if not is_digit(b[i]):
        return no
    time_end, moment = clock(b, i, e)
    first = skip(b, max(time_end, i), e)
    if time_end < 0 or first == time_end:
        return no
    rba, length = 0, 0
    for which in range(2):
        at = e
        while at > first and is_digit(b[at - 1]):
            at -= 1
        if at == e or e - at > 18:
            return no
        value = decimal(b, at, e)[0]
        e = trimmed(b, first, at)
        if e == at or e - 3 < first or not word(b, e - 3, e, _LEN if which else _RBA):
            return no
        e -= 3
        at, e = e, trimmed(b, first, e)
        if e == at or e <= first:
            return no
        if which:
            length = value
        else:
            rba = value
    return time_end, moment, first, e, length, rba


@kernel
def is_header_token(b: Bytes, i: int, e: int) -> bool:
    """Whether it is the line of the header token G."""
    if not word(b, i, e, _TOKEN_ID):
        return False
    k = skip(b, i + 7, e)
    if k == i + 7 or k + 1 >= e:
        return False
    if b[k] == 71 and b[k + 1] == 44:
        return True
    if k + 3 > e or b[k] != 120 or b[k + 1] != 52 or b[k + 2] != 55:
        return False
    j = skip(b, k + 3, e)
    if j == k + 3 or j + 3 > e or b[j] != 39 or b[j + 1] != 71 or b[j + 2] != 39:
        return False
    m = skip(b, j + 3, e)
    return m > j + 3 and word(b, m, e, _RECORD_HEADER)


@kernel
def is_prose(b: Bytes, i: int, e: int) -> bool:
    """Whether a line that begins with ``Hdr-Ind`` or another label is a note about that field (§2.7). A value is a
    character, a number or a time, which hex may follow, so two consecutive letters are a note."""
    name, start = header_name(b, i, e)
    stop = e
    if name < 0:
        start = min(i + 7, e)
    else:
        stop = next_header_name(b, start, e)[0]
    row = 0
    for k in range(start, stop):
        c = b[k]
        if c == 40 and k + 1 < stop and b[k + 1] == 120:
            return False
        plain = is_white(c) or is_digit(c) or c == 44 or c == 45 or c == 46 or c == 47 or c == 58 or c == 40 or c == 41
        row = 0 if plain else row + 1
        if row == 2:
            return True
    return False


@kernel
def prompt_end(b: Bytes, i: int, e: int) -> int:
    """The end of Logdump's prompt that begins at ``i``; -1: none."""
    if not folded(b, i, e, _LOGDUMP):
        return -1
    k = i + 7
    k += k < e and b[k] == 32
    while k < e and is_digit(b[k]):
        k += 1
    k += k < e and b[k] == 32
    return k + 1 if k < e and b[k] == 62 else -1


@kernel
def _begins(b: Bytes, i: int, e: int) -> int:
    """Stage of a line that may begin a record, without a prompt before it; -1: it does not."""
    c = b[i]
    if c == 95:
        return 1 if is_rule(b, i, e) else -1
    if c == 72:
        return 2 if word(b, i, e, _HDR_IND) and not is_prose(b, i, e) else -1
    if c == 84:
        return 0 if is_header_token(b, i, e) else -1
    return 3 if is_digit(c) and record_line(b, i, e)[0] >= 0 else -1


@kernel
def candidate(b: Bytes, i: int, e: int) -> tuple[int, int]:
    """The stage of a line that may begin a record (-1: none, 0 header token G, 1 rule, 2 Hdr-Ind, 3 record line), and
    its distance from ``i``: 0 unless a prompt precedes it."""
    stage = _begins(b, i, e)
    if stage >= 0:
        return stage, 0
    at = prompt_end(b, i, e)
    if at < 0:
        return -1, 0
    for k in range(at, e):
        c = b[k]
        found = False
        if c == 95:
            found = is_rule(b, k, e)
        elif c == 84:
            found = is_header_token(b, k, e)
        elif c == 72 and word(b, k, e, _HDR_IND):
            j = skip(b, k + 7, e)
            found = j < e and b[j] == 58
        elif is_digit(c):
            found = _dated(b, k, e)
        if found:
            return _begins(b, k, e), k - i
    return -1, 0


@kernel
def _dated(b: Bytes, i: int, e: int) -> bool:
    """Whether a date begins here, and an RBA is at the line's end."""
    if e - i < 11 or min(two(b, i), two(b, i + 2), two(b, i + 5), two(b, i + 8)) < 0:
        return False
    for k in (4, 7):
        if b[i + k] != 47 and b[i + k] != 45:
            return False
    if b[i + 10] != 32 and b[i + 10] != 84:
        return False
    at = e
    while at > i + 11 and is_digit(b[at - 1]):
        at -= 1
    stop = trimmed(b, i + 11, at)
    return at < e and stop < at and stop - 4 >= i + 11 and word(b, stop - 3, e, _RBA) and is_white(b[stop - 4])


@kernel
def is_ender(b: Bytes, i: int, e: int) -> bool:
    """Whether a line ends the preceding record without being part of one."""
    if prompt_end(b, i, e) >= 0:
        return True
    for row in range(_ENDERS.shape[0]):
        if b[i] == _ENDERS[row, 0] - 32 and in_table(b, i, e, _ENDERS, row) >= 0:
            return True
    return False


# --- header block -----------------------------------------------------------------------------------------------------


@kernel
def header_name(b: Bytes, i: int, e: int) -> tuple[int, int]:
    """The number of the label at ``i`` in NAMES (-1: none), and the start of its value."""
    if i >= e or not _HAS_NAME[b[i]]:
        return -1, i
    for row in range(_NAMES.shape[0]):
        if lower(wide(b[i])) == _NAMES[row, 0]:
            k = in_table(b, i, e, _NAMES, row)
            if k >= 0:
                k = skip(b, k, e)
                if k < e and b[k] == 58:
                    return row, skip(b, k + 1, e)
    return -1, i


@kernel
def next_header_name(b: Bytes, i: int, e: int) -> tuple[int, int]:
    """The end of the value that begins at ``i``, and the start of the next label in its line; both ``e``: none."""
    k = i
    while k < e:
        if is_white(b[k]):
            j = skip(b, k, e)
            if header_name(b, j, e)[0] >= 0:
                return k, j
            k = j
        else:
            k += 1
    return e, e


@kernel
def value_of_field(b: Bytes, name: int, i: int, e: int) -> tuple[int, int]:
    """The number of a header value (-1: none), and the decimal that its hex contradicts (-1: none). The hex takes
    precedence, else the code of a character, or the decimal."""
    number = -1
    if e - i >= 4 and b[e - 1] == 41:
        k = e - 1
        while k > i and HEX[b[k - 1]] < 16:
            k -= 1
        if 1 <= e - 1 - k <= 15 and k - 2 >= i and b[k - 1] == 120 and b[k - 2] == 40:
            number = hexadecimal(b, k, e - 1, 15)[0]
    value, k = decimal(b, i, e)
    is_decimal = not _IS_CHARACTER[name] and k > i and (k == e or is_white(b[k]) or b[k] == 40)
    if number >= 0:
        return number, value if is_decimal and value != number and _IS_COUNT[name] else -1
    if is_decimal:
        return value, -1
    if _IS_CHARACTER[name] and i < e and b[i] != 46 and b[i] != 40:
        if name == _CONTINUED:
            return 1 if b[i] == 89 else 0 if b[i] == 78 else -1, -1
        return wide(b[i]), -1
    return -1, -1


@kernel
def pair_of_indexes(b: Bytes, i: int, e: int) -> tuple[int, int]:
    """The numbers of ``(001, 012)``; -1, -1: none."""
    if i >= e or b[i] != 40:
        return -1, -1
    k = skip(b, i + 1, e)
    first, j = decimal(b, k, e)
    if j == k or j - k > 9:
        return -1, -1
    k = skip(b, j, e)
    if k >= e or b[k] != 44:
        return -1, -1
    k = skip(b, k + 1, e)
    second, j = decimal(b, k, e)
    if j == k or j - k > 9:
        return -1, -1
    k = skip(b, j, e)
    return (first, second) if k < e and b[k] == 41 else (-1, -1)


# --- the other lines of a record --------------------------------------------------------------------------------------


@kernel
def name_line(b: Bytes, i: int, e: int) -> tuple[int, int, int, int]:
    """Start (-1: no name line) and end of the name after ``Name``, and of the digits of the TDR index (-1: none)."""
    k = skip(b, i + 4, e)
    if k >= e or b[k] != 58:
        return -1, -1, -1, -1
    first = skip(b, k + 1, e)
    if e > first and b[e - 1] == 41:
        stop = trimmed(b, first, e - 1)
        digits = stop
        while digits > first and is_digit(b[digits - 1]):
            digits -= 1
        head = trimmed(b, first, digits)
        if 1 <= stop - digits <= 18 and head - 11 >= first and word(b, head - 11, e, _INDEX):
            return first, trimmed(b, first, head - 11), digits, stop
    return first, e, -1, -1


@kernel
def image_line(b: Bytes, i: int, e: int) -> tuple[int, int, int, int, int, int]:
    """The end of ``Before`` or ``After`` (-1: no image line); Partition, start and end of its digits (-1: none);
    TransInd by the letter at the end, and its offset (-1: none)."""
    word_end = i + 5 if word(b, i, e, _AFTER) else i + 6 if word(b, i, e, _BEFORE) else -1
    no = (-1, -1, -1, -1, -1, -1)
    if word_end < 0:
        return no
    k = skip(b, word_end, e)
    if not word(b, k, e, _IMAGE):
        return no
    k = skip(b, k + 5, e)
    if k >= e or b[k] != 58:
        return no
    k = skip(b, k + 1, e)
    if k < e and not word(b, k, e, _PARTITION):
        return no
    value, first, last = -1, -1, -1
    if k < e:
        k = skip(b, k + 9, e)
        if k < e and b[k] == 120:
            first = k + 1
            last = first
            value = 0
            while last < e and last < first + 15 and HEX[b[last]] < 16:
                value = value << 4 | wide(HEX[b[last]])
                last += 1
        elif k < e and is_digit(b[k]):
            first = last = k
            value = 0
            while last < e and last < first + 18 and is_digit(b[last]):
                value = 10 * value + wide(b[last]) - 48
                last += 1
        if last == first:
            value, first, last = -1, -1, -1
    trans, at = -1, e - 1
    c = b[at]
    letter = 0 if c == 98 else 1 if c == 109 else 2 if c == 101 else 3 if c == 115 else -1
    stop = trimmed(b, i, at)
    if letter >= 0 and stop < at and stop - 2 >= i and b[stop - 1] == 71 and is_white(b[stop - 2]):
        trans = letter
    return word_end, value, first, last, trans, at if trans >= 0 else -1


@kernel
def half_line(b: Bytes, i: int, e: int) -> int:
    """1 for the line with the length of a before image, 2 of an after image, 3 of a key; else 0."""
    half = 0
    k = i
    if word(b, i, e, _KEY_LENGTH):
        half, k = 3, i + 6
    else:
        half, k = (1, i + 6) if word(b, i, e, _BEFORE) else (2, i + 5)
        if half == 2 and not word(b, i, e, _AFTER):
            return 0
        for what in (0, 1):
            j = skip(b, k, e)
            if j == k or not word(b, j, e, _LEN if what else _IMAGE):
                return 0
            k = j + (3 if what else 5)
    j = skip(b, k, e)
    if j == k or j >= e or not is_digit(b[j]):
        return 0
    while j < e and is_digit(b[j]):
        j += 1
    if j < e and (65 <= b[j] <= 90 or 97 <= b[j] <= 122 or b[j] == 95):
        return 0
    return half


@kernel
def column_line(b: Bytes, i: int, e: int) -> tuple[int, int, int, int, int, int, int, int]:
    """The column's index as decimal (-1: no column line), begin and end of its hex digits; its length likewise; number
    of the LOB fragment and of all of them. -1: not printed."""
    no = (-1, -1, -1, -1, -1, -1, -1, -1)
    if not word(b, i, e, _COLUMN) and not word(b, i, e, _KEY):
        return no
    k = skip(b, i + 6, e)
    index, j = decimal(b, k, e)
    if k == i + 6 or j == k:
        return no
    of_index, index_end, j = in_brackets(b, skip(b, j, e), e)
    k = skip(b, j, e)
    if k >= e or b[k] != 44:
        return no
    k = skip(b, k + 1, e)
    if not word(b, k, e, _LEN) and not (k + 3 <= e and b[k] == 76 and b[k + 1] == 79 and b[k + 2] == 66):
        return no
    length, of_length, length_end, number, count = -1, -1, -1, -1, -1
    for at in range(k, e):
        if length < 0 and word(b, at, e, _LEN):
            m = at + 6 if word(b, at + 3, e, _GTH) else at + 3
            first = skip(b, m, e)
            value, j = decimal(b, first, e)
            if first > m and j > first:
                length = value
                of_length, length_end, j = in_brackets(b, skip(b, j, e), e)
        if number < 0 and folded(b, at, e, _LOB):
            first = skip(b, at + 12, e)
            value, j = decimal(b, first, e)
            m = skip(b, j, e)
            if first > at + 12 and j > first and m > j and folded(b, m, e, _OF):
                first = skip(b, m + 2, e)
                most, j = decimal(b, first, e)
                if first > m + 2 and j > first:
                    number, count = value, most
    return index, of_index, index_end, length, of_length, length_end, number, count


@kernel
def in_brackets(b: Bytes, i: int, e: int) -> tuple[int, int, int]:
    """Start and end of the hex digits of ``(0x0006)`` or ``(x0006)`` at ``i`` (-1: none), and the offset after it."""
    if i < e and b[i] == 40:
        k = i + 1
        k += k < e and b[k] == 48
        if k < e and b[k] == 120:
            j = hexadecimal(b, k + 1, e, 15)[1]
            if j > k + 1 and j < e and b[j] == 41:
                return k + 1, j, j + 1
    return -1, -1, i


@kernel
def transaction_line(b: Bytes, i: int, e: int) -> tuple[int, int, int, int]:
    """Start (-1: no such line) and end of the id after ``TRANSID``, and of the number after it (-1: none)."""
    no = (-1, -1, -1, -1)
    if not word(b, i, e, _TRANSID):
        return no
    k = skip(b, i + 7, e)
    if k >= e or b[k] != 58:
        return no
    first = skip(b, k + 1, e)
    last = first
    while last < e and not is_white(b[last]):
        last += 1
    if last == first:
        return no
    k = skip(b, last, e)
    if k == e:
        return first, last, -1, -1
    if b[k] != 40 or b[e - 1] != 41 or not 1 <= e - 1 - k - 1 <= 20:
        return no
    for at in range(k + 1, e - 1):
        if not is_digit(b[at]):
            return no
    return first, last, k + 1, e - 1


@kernel
def token_line(b: Bytes, i: int, e: int) -> tuple[int, int, int, int, int]:
    """Id (-1: no such line), begin and end of the name (-1 in the style that has none), info and length of a line
    ``TokenID`` or ``GroupID``."""
    no = (-1, -1, -1, -1, -1)
    k = skip(b, i + 7, e)
    if k == i + 7 or k >= e:
        return no
    at = e
    while at > k and is_digit(b[at - 1]):
        at -= 1
    length, stop = decimal(b, at, e)
    m = trimmed(b, k, at)
    if stop != e or at == e or m - 6 < k or not word(b, m - 6, e, _LENGTH):
        return no
    is_new = k + 3 <= e and b[k] == 120 and HEX[b[k + 1]] < 16 and HEX[b[k + 2]] < 16
    if is_new and m < at:
        j = skip(b, k + 3, e)
        quoted = j > k + 3 and j + 1 < e and b[j] == 39
        first = j + 2 if quoted and b[j + 1] == 39 else j + 3
        if quoted and first <= e and b[first - 1] == 39:
            end = trimmed(b, first, m - 6)
            end_comma = end - 1 if end > first and b[end - 1] == 44 else end
            digits = end_comma
            while digits > first and HEX[b[digits - 1]] < 16:
                digits -= 1
            head = trimmed(b, first, digits - 1) if digits > first else first
            ok = 1 <= end_comma - digits <= 2 and digits - 1 >= first and b[digits - 1] == 120 and end < m - 6
            ok = ok and head < digits - 1 and head - 4 >= first and word(b, head - 4, e, _INFO)
            if ok:
                name = skip(b, first, head - 4)
                name_end = trimmed(b, name, head - 4)
                for at in range(name, name_end):
                    ok = ok and b[at] != 39
            if ok:
                return hexadecimal(b, k + 1, k + 3, 2)[0], name, name_end, hexadecimal(b, digits, end, 2)[0], length
    number = wide(b[k])
    j = skip(b, k + 1, e)
    if j < e and b[j] == 40:
        if j + 4 >= e or b[j + 1] != 120 or HEX[b[j + 2]] > 15 or HEX[b[j + 3]] > 15 or b[j + 4] != 41:
            return no
        number = hexadecimal(b, j + 2, j + 4, 2)[0]
        j += 5
    else:
        j = k + 1
    if j >= e or b[j] != 44:
        return no
    j = skip(b, j + 1, e)
    if not word(b, j, e, _INFO):
        return no
    first = skip(b, j + 4, e)
    if first == j + 4:
        return no
    first += first < e and b[first] == 120
    info, j = hexadecimal(b, first, e, 3)
    if j == first or j >= e or b[j] != 44 or skip(b, j + 1, e) != m - 6:
        return no
    return number, -1, -1, info, length


@kernel
def is_header_token_name(b: Bytes, i: int, e: int) -> bool:
    """Whether a token's printed name is that of a header token."""
    for row in range(_HEADER_TOKENS.shape[0]):
        if in_table(b, i, e, _HEADER_TOKENS, row) == e:
            return True
    return False


@kernel
def name_value(b: Bytes, i: int, e: int) -> tuple[int, int]:
    """The end of the name of ``name : value`` (-1: no such line), and the start of the value."""
    last = i
    while last < e and b[last] != 58 and not is_white(b[last]):
        last += 1
    k = skip(b, last, e)
    if last == i or k >= e or b[k] != 58:
        return -1, -1
    first = skip(b, k + 1, e)
    return (last, first) if first == e or first > k + 1 else (-1, -1)


@kernel
def hex_line(b: Bytes, i: int, e: int, is_cut: bool, out: Bytes, o: int) -> tuple[int, int]:
    """The number of bytes of a line of hex digits (-1: no such line), which are written to ``out`` at ``o``; and the
    end of the digits. A pane after ``|`` or ``:`` may follow. ``is_cut``: the text ends in the line, so that the second
    digit of its last byte may be missing; the first one is left out then."""
    k, count = i, 0
    while True:
        run = 0
        while k + run < e and HEX[b[k + run]] < 16:
            run += 1
            if run % 2 == 0 and run <= 4:
                out[o + count] = HEX[b[k + run - 2]] << 4 | HEX[b[k + run - 1]]
                count += 1
        k += run
        if run == 4 or run == 2:
            j = k
            while j < e and (b[j] == 32 or b[j] == 9):
                j += 1
            if j == e or b[j] == 124 or b[j] == 58:
                return count, k
            if run == 4 and j > k and HEX[b[j]] < 16:
                k = j
                continue
            return -1, i
        return (count, k) if is_cut and k == e and (run == 1 or run == 3) else (-1, i)
