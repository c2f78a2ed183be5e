"""Parses Logdump text to records: one loop over the lines, with the state of the current record
(docs/formats/goldengate.md §2 and §3.8). The *stage* of a line decides whether it begins a record: header token G 0,
rule 1, Hdr-Ind 2, record line 3. One of them begins a new record unless the preceding one has a lower stage and no
prompt, banner or note of Logdump is between them. A record ends with its last parsed line and the blank lines directly
after it; everything else is filler. A record that does not fit into a row of the result (see ``Records``) is *rare*: it
is parsed again with a table of its lines, from which :mod:`.printed` makes the complete record and its problems.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from cdcwb.formats.goldengate.decode import HEADER, MISSING, NOT_A_TIME, Bytes, Shape
from cdcwb.formats.goldengate.decode.grammar import (
    HEX,
    IO_TIME,
    NAMES,
    TOKEN_LETTERS,
    candidate,
    clock,
    column_line,
    decimal,
    folded,
    half_line,
    header_name,
    hex_line,
    hexadecimal,
    image_line,
    is_digit,
    is_ender,
    is_header_token_name,
    is_prose,
    is_rule,
    name_line,
    name_value,
    next_header_name,
    pair_of_indexes,
    record_line,
    skip,
    token_line,
    transaction_line,
    trimmed,
    value_of_field,
    wide,
    word,
)
from cdcwb.formats.goldengate.layout import GHDR, GHDR_FIXED, IO_TYPES, JULIAN_EPOCH_US
from cdcwb.formats.kernels import kernel

__all__ = ["LINE_WIDTH", "PAIR_WIDTH", "WIDTH", "Role", "read"]


Table = npt.NDArray[np.int64]


class Role(IntEnum):
    """The roles of lines of a record."""

    UNKNOWN = 0
    BLANK = 1
    RULE = 2
    HEADER_TOKEN = 3
    HEADER_TOKEN_HEX = 4
    HEADER = 5
    TRAIL = 6
    RECORD = 7
    NAME = 8
    TDR_INDEX = 9
    IMAGE = 10
    TRANSACTION = 11
    BODY = 12
    TEXT = 13
    HALF = 14
    COLUMN = 15
    COLUMN_HEX = 16
    GROUP = 17
    GROUP_TOKEN = 18
    GROUP_HEX = 19
    GGS = 20
    TOKEN = 21
    TOKEN_HEX = 22
    USER = 23
    USER_TOKEN = 24
    USER_TOKEN_HEX = 25
    USER_PAIR = 26


(
    _UNKNOWN, _BLANK, _RULE, _HEADER_TOKEN, _HEADER_TOKEN_HEX, _HEADER, _TRAIL, _RECORD, _NAME, _TDR_INDEX, _IMAGE,
    _TRANSACTION, _BODY, _TEXT, _HALF, _COLUMN, _COLUMN_HEX, _GROUP, _GROUP_TOKEN, _GROUP_HEX, _GGS, _TOKEN,
    _TOKEN_HEX, _USER, _USER_TOKEN, _USER_TOKEN_HEX, _USER_PAIR,
) = (int(role) for role in Role)  # fmt: skip

# the columns of a row: the numbers of the header, then these; two columns are a span or slice
(
    START, STOP, SHAPE, LENGTH, RBA, NAME_INDEX, IMAGE_PARTITION, IMAGE, IMAGE_TRANS, TOTAL, PART_H, PART_D, PART_T,
    PART_U, PART_Z, MOMENT, JULIAN, OPERATION, _, NAME, _, TIME, _, BODY, _, CSN, _, XID, _, ROWID, _, CUT, CUT_COLUMN,
    _, _, FRAGMENT, _, _, RARE, HEADER_MOMENT, HEADER_TIME, _, TOKEN_BYTES, _, AREA, _, HAVE, IN_COLUMNS, SHORT,
) = range(len(HEADER), len(HEADER) + 49)  # fmt: skip
WIDTH: Final = SHORT + 1
LINE_WIDTH: Final = 15
"""Role; first byte and last+1 of the line, and of its content; up to eight numbers; first and last+1 of its bytes."""
PAIR_WIDTH: Final = 8
"""Line; label and its offset; start and end of the value; number; the decimal that its hex contradicts; time."""
_HEX0, _HEX1 = LINE_WIDTH - 2, LINE_WIDTH - 1

_FIRST: Final = np.isin(np.arange(256), np.frombuffer(b"_HTLlCROEF0123456789", np.uint8))
_H, _PARTITION, _UNDO, _SIDE, _REC_LENGTH, _IO = range(6)
_DDR, _TDR = HEADER.index("DDR index"), HEADER.index("TDR index")
_RBA_FIELD, _POS_FIELD, _KEY_LENGTH = HEADER.index("AuditRBA"), HEADER.index("AuditPos"), HEADER.index("SyskeyLen")
_INDEXES, _CONTINUED, _COUNT = NAMES.index("DDR/TDR index"), HEADER.index("Continued"), HEADER.index("RecCount")
_AT: Final = np.array([HEADER.index(name) if name in HEADER else MISSING for name in NAMES])
_TOKEN_AT: Final = np.full(256, -1)
for _number, _letter in enumerate(TOKEN_LETTERS):
    _TOKEN_AT[_letter] = TOTAL + _number
_SLOT: Final = np.full(256, -1)
_SLOT[[0x4C, 0x36, 0x52]] = CSN, XID, ROWID
_OPERATIONS: Final = np.zeros((256, 24), np.uint8)
for _number, _type in IO_TYPES.items():
    _OPERATIONS[_number, : len(_type.name)] = np.frombuffer(_type.name.encode(), np.uint8)
_FIELDS: Final = np.array([(HEADER.index(name), at, size) for name, at, size in GHDR if not name.endswith(" index")])
_EPOCH: Final = JULIAN_EPOCH_US
_NEAR: Final = (JULIAN_EPOCH_US, JULIAN_EPOCH_US + 200 * 365 * 86_400_000_000)
_FAR: Final = (JULIAN_EPOCH_US - 200 * 365 * 86_400_000_000, JULIAN_EPOCH_US + 400 * 365 * 86_400_000_000)
_KEYED: Final = np.isin(np.arange(256), (115, 134, 135))
_TEXT_OF_TRAIL, _DATABASE, _TABLE, _TDR_WORD = (
    np.frombuffer(text, np.uint8) for text in (b"Trail name", b"Database Name", b"Table Name", b"TDR Index")
)
_GGS_TOKENS, _USER_TOKENS, _REFERENCE, _END = (
    np.frombuffer(text, np.uint8) for text in (b"ggs tokens", b"user tokens", b"(Ref TDR Index", b"End of definition")
)
_NAME_WORD, _TOKEN_ID, _GROUP_ID, _RECORD_SHAPE, _FILLER_SHAPE = (
    *(np.frombuffer(text, np.uint8) for text in (b"Name", b"TokenID", b"GroupID")), int(Shape.RECORD), int(Shape.FILLER)
)  # fmt: skip


@kernel
def labelled(b: Bytes, i: int, e: int, what: Bytes) -> bool:
    """Whether a line begins with a label and a colon."""
    if not word(b, i, e, what):
        return False
    k = skip(b, i + what.size, e)
    return k < e and b[k] == 58


@kernel
def labelled_folded(b: Bytes, i: int, e: int, what: Bytes) -> bool:
    """The same in any case."""
    if not folded(b, i, e, what):
        return False
    k = skip(b, i + what.size, e)
    return k < e and b[k] == 58


@kernel
def header_line(b: Bytes, i: int, e: int, rows: Table, r: int, pairs: Table, p: int, line: int) -> int:
    """Adds the fields of a line of the header block; returns the number of pairs."""
    at = i
    while at < e:
        name, first = header_name(b, at, e)
        if name < 0:
            break
        last, following = next_header_name(b, first, e)
        number, contradicted, moment = -1, -1, NOT_A_TIME
        if name == IO_TIME:
            if last > first and rows[r, HEADER_TIME] < 0:
                stop, moment = clock(b, first, last)
                moment = moment if stop == last else NOT_A_TIME
                rows[r, HEADER_MOMENT], rows[r, HEADER_TIME], rows[r, HEADER_TIME + 1] = moment, first, last
                rows[r, RARE] |= moment == NOT_A_TIME
            else:
                rows[r, RARE] = 1
        elif name == _INDEXES:
            one, other = pair_of_indexes(b, first, last)
            if one >= 0:
                rows[r, _DDR] = one if rows[r, _DDR] < 0 else rows[r, _DDR]
                rows[r, _TDR] = other if rows[r, _TDR] < 0 else rows[r, _TDR]
                number, contradicted = one, other
        else:
            number, contradicted = value_of_field(b, name, first, last)
            place = _AT[name]
            if number >= 0:
                if rows[r, place] < 0:
                    rows[r, place] = number
                rows[r, RARE] |= rows[r, place] != number or contradicted >= 0
        if p < pairs.shape[0]:
            for k, value in enumerate((line, name, at, first, last, number, contradicted, moment)):
                pairs[p, k] = value
            p += 1
        at = following
    return p


@kernel
def number_in(data: Bytes, at: int, size: int, is_little: bool) -> int:
    value = 0
    for k in range(size):
        value = value << 8 | wide(data[at + size - 1 - k] if is_little else data[at + k])
    return value


@kernel
def header_token(data: Bytes, rows: Table, r: int) -> bool:
    """Adds the bytes of the header token; false if they contradict the header block or cannot be decoded."""
    at = rows[r, TOKEN_BYTES]
    if rows[r, TOKEN_BYTES + 1] - at < GHDR_FIXED or data[at + 6] == 170:
        return False
    little, big = number_in(data, at + 8, 8, True), number_in(data, at + 8, 8, False)
    is_little = _NEAR[0] <= little < _NEAR[1] and not _FAR[0] <= big < _FAR[1]
    if not is_little and (not _NEAR[0] <= big < _NEAR[1] or _FAR[0] <= little < _FAR[1]):
        return False
    rows[r, JULIAN] = (little if is_little else big) - _EPOCH
    for k in range(_FIELDS.shape[0]):
        field = _FIELDS[k, 0]
        value = number_in(data, at + _FIELDS[k, 1], _FIELDS[k, 2], is_little)
        told = rows[r, field]
        if told < 0 and not (field == _RBA_FIELD and rows[r, _TDR] >= 0):
            rows[r, field] = told = value
        if told >= 0 and told != value and not (field == _POS_FIELD and told & 0xFFFFFFFF == value):
            return False
    moment = rows[r, HEADER_MOMENT] if rows[r, HEADER_TIME] >= 0 else rows[r, MOMENT]
    if moment == NOT_A_TIME:
        return True
    zone = moment - rows[r, JULIAN]
    return bool(zone % 900000000 == 0 and abs(zone) <= 54000000000)


@kernel
def token_area(data: Bytes, rows: Table, r: int) -> bool:
    """Finds the tokens in the token area; false if it does not end with one or has others."""
    for is_little in (True, False):
        at, stop = rows[r, AREA], rows[r, AREA + 1]
        while at + 4 <= stop:
            at += 4 + number_in(data, at + 2, 2, is_little)
        if at != stop:
            continue
        at = rows[r, AREA]
        while at < stop:
            slot, size = _SLOT[data[at]], number_in(data, at + 2, 2, is_little)
            if slot < 0 or rows[r, slot] >= 0:
                return False
            rows[r, slot], rows[r, slot + 1] = at + 4, at + 4 + size
            at += 4 + size
        return True
    return False


@kernel
def finish(b: Bytes, data: Bytes, rows: Table, r: int) -> bool:
    """Whether the record is completely in its row, without a contradiction."""
    length, io = rows[r, LENGTH], rows[r, _IO]
    if rows[r, OPERATION] < 0:
        return False
    if rows[r, TOKEN_BYTES] >= 0 and not header_token(data, rows, r):
        return False
    io, first = rows[r, _IO], rows[r, OPERATION]
    if b[first] == 77 or (b[first] == 70 and b[first + 2] == 108):
        return False  # Metadata, FileHeader
    if rows[r, NAME + 1] > rows[r, NAME] and b[rows[r, NAME]] == 42:
        return False
    has_values = False
    for k in range(len(HEADER)):
        has_values |= rows[r, k] >= 0
    if has_values:
        for k in range(len(HEADER)):
            if rows[r, k] < 0 and k != _RBA_FIELD and k != _DDR and k != _TDR:
                return False
        if (rows[r, _RBA_FIELD] < 0 and rows[r, _TDR] < 0) or rows[r, _H] != 69 or rows[r, _REC_LENGTH] != length:
            return False
        if io > 255:
            return False
        for k in range(rows[r, OPERATION + 1] - first + 1):
            if k >= 24 or _OPERATIONS[io, k] != (b[first + k] if k < rows[r, OPERATION + 1] - first else 0):
                return False
    if rows[r, MOMENT] == NOT_A_TIME:
        return False
    if rows[r, HEADER_TIME] >= 0:
        size = rows[r, TIME + 1] - rows[r, TIME]
        if rows[r, HEADER_TIME + 1] - rows[r, HEADER_TIME] != size:
            return False
        for k in range(size):
            if b[rows[r, HEADER_TIME] + k] != b[rows[r, TIME] + k]:
                return False
    for k in range(rows[r, NAME], rows[r, NAME + 1]):
        if b[k] > 127:
            return False
    if rows[r, TOTAL] >= 0 and rows[r, PART_H] >= 0:
        whole = 8
        for k in range(PART_H, PART_Z):
            whole += rows[r, k] + 4 if rows[r, k] >= 0 else 0
        if rows[r, TOTAL] != whole or (rows[r, PART_Z] >= 0 and rows[r, PART_Z] != whole):
            return False
        if max(rows[r, PART_D], 0) != length:
            return False
    if rows[r, AREA] >= 0 and not token_area(data, rows, r):
        return False
    if io == 170 or rows[r, HAVE] == length:
        rows[r, CUT_COLUMN] = rows[r, CUT_COLUMN + 1] = rows[r, CUT_COLUMN + 2] = MISSING
        return bool(io != 170)
    if rows[r, HAVE] > length:
        return False
    rows[r, CUT] = 1
    told, prefix = rows[r, IN_COLUMNS], 4 if 0 <= io < 256 and _KEYED[io] else 0
    return bool(rows[r, SHORT] < 2 and (told == 0 or told + prefix <= rows[r, HAVE]))


@kernel
def column_ends(rows: Table, r: int, index: int, length: int, shown: int) -> None:
    """Adds the printed length of a column."""
    if shown == 0:
        return
    if length < 0 or length >= 1 << 16 or index >= 1 << 16:
        rows[r, RARE] = 1
    elif shown >= length:
        rows[r, IN_COLUMNS] += length + 4
    else:
        rows[r, SHORT] += 1
        rows[r, CUT_COLUMN], rows[r, CUT_COLUMN + 1], rows[r, CUT_COLUMN + 2] = index, shown, length


@kernel
def read(
    b: Bytes, at: int, n: int, is_framed: bool, bodies: bool, rows: Table, data: Bytes, lines: Table, pairs: Table
) -> tuple[int, int, int, int, int]:
    """Parses the text ``[at, n)`` into ``rows``; returns the number of rows, of hex bytes, the offset to continue at
    (``n`` at the end of the text; else ``rows`` is full), and the numbers of lines and pairs. Without ``is_framed`` all
    of the text is one record. Without ``bodies`` the hex of the data is dropped. If ``lines`` has room, all lines of
    records are stored there, their fields in ``pairs``, and all hex is stored.
    """
    detail = lines.shape[0] > 0
    used, o, fill, stage, r = 0, 0, at, -1, -1
    lc, pc, line0, pair0 = 0, 0, 0, 0
    behind = in_user = hex_before = text_open = is_database = in_groups = ended = only_rule = False
    sink, target, stars, owner, end, start = 0, -1, 0, -1, at, at
    token_length, token_shown = -1, 0
    column, column_length, column_shown = -1, -1, 0
    while True:
        stop = at
        while stop < n and b[stop] != 10:
            stop += 1
        is_cut = stop == n
        stop = min(stop + 1, n)
        s, e = at, stop
        while s < e and (b[s] == 32 or 9 <= b[s] <= 13):
            s += 1
        while e > s and (b[e - 1] == 32 or 9 <= b[e - 1] <= 13):
            e -= 1
        found, place = -1, 0
        begins = closes = at >= n
        if begins:
            pass
        elif not is_framed:
            begins, found = stage < 0, 0
        elif s < e and _FIRST[b[s]]:
            found, place = candidate(b, s, e)
            if found < 0:
                closes = stage >= 0 and is_ender(b, s, e)
            else:
                begins = stage < 0 or place > 0 or found <= stage
        if (begins or closes) and stage >= 0:
            # the record ends
            column_ends(rows, r, column, column_length, column_shown)
            rows[r, RARE] |= token_length >= 0 and token_shown != token_length
            if only_rule and is_framed:
                lc, pc = line0, pair0
            else:
                rows[r, STOP] = start if only_rule else end
                rows[r, RARE] |= not finish(b, data, rows, r)
                if start > fill:
                    rows[used, :] = MISSING
                    rows[used, SHAPE], rows[used, START], rows[used, STOP] = _FILLER_SHAPE, fill, start
                used, fill = r + 1, end
            stage = -1
        if at >= n:
            if fill < n and is_framed:
                rows[used, :] = MISSING
                rows[used, SHAPE], rows[used, START], rows[used, STOP] = _FILLER_SHAPE, fill, n
                used += 1
            break
        if begins:
            if used + 2 >= rows.shape[0]:
                return used, o, fill, lc, pc
            start = s + place if place > 0 else at
            at, s = start, s + place
            stage, r = found, used + (start > fill)
            rows[r, :] = MISSING
            rows[r, SHAPE], rows[r, START], rows[r, RARE], rows[r, MOMENT] = _RECORD_SHAPE, start, 0, NOT_A_TIME
            rows[r, HAVE] = rows[r, IN_COLUMNS] = rows[r, SHORT] = rows[r, CUT] = 0
            line0, pair0, end = lc, pc, start
            behind = in_user = hex_before = text_open = is_database = in_groups = False
            ended = only_rule = True
            sink, target, stars, owner = 0, -1, 0, -1
            token_length, column, column_shown = -1, -1, 0
        elif found >= 0:
            stage = found
        if stage < 0:
            at = stop
            continue
        # a line of a record
        role = _UNKNOWN
        n0, n1, n2, n3, n4, n5, n6, n7 = -1, -1, -1, -1, -1, -1, -1, -1
        from_hex = o
        next_sink = next_target = -1
        if s == e:
            role = _BLANK
        elif text_open:
            role = _TEXT
            stars += e - s == 1 and b[s] == 42
            if (e - s == _END.size and word(b, s, e, _END)) or (stars == 2 and is_database):
                text_open = False
        else:
            count = -1
            if sink > 0 and HEX[b[s]] < 16:
                is_pair = False
                if in_user and not hex_before:
                    for k in range(s, min(s + 6, e)):
                        if b[k] == 124:
                            is_pair = False
                            break
                        is_pair |= b[k] == 58
                if not is_pair:
                    count, n0 = hex_line(b, s, e, is_cut, data, o)
            if count >= 0:
                hex_before = True
                role = sink
                if sink == _BODY:
                    rows[r, HAVE] += count
                elif sink == _COLUMN_HEX:
                    column_shown += count
                elif sink == _TOKEN_HEX:
                    token_shown += count
                keeps = detail or (target >= 0 and (bodies or target != BODY))
                if keeps and target >= 0 and count > 0:
                    if rows[r, target] < 0:
                        rows[r, target] = o
                    elif rows[r, target + 1] != o:
                        rows[r, RARE] = 1
                    rows[r, target + 1] = o + count
                o += count if keeps else 0
            else:
                hex_before = False
                c = wide(b[s])
                is_token = c == 84 and word(b, s, e, _TOKEN_ID)
                if is_token:
                    n0, n1, n2, n3, n4 = token_line(b, s, e)
                    known = n0 >= 0 and not (behind and n1 >= 0 and is_header_token_name(b, n1, n2))
                    slot = _TOKEN_AT[n0] if known else -1
                    if not known:
                        next_sink, next_target = 0, -1  # the hex below is not that of the token before
                    elif in_groups:
                        role, next_sink, next_target = _GROUP_TOKEN, _GROUP_HEX, -1
                    elif behind and in_user:
                        role, next_sink, next_target, rows[r, RARE] = _USER_TOKEN, _USER_TOKEN_HEX, -1, 1
                    elif behind:
                        role, next_sink, next_target = _TOKEN, _TOKEN_HEX, _SLOT[n0]
                        rows[r, RARE] |= token_length >= 0 and token_shown != token_length
                        token_length, token_shown = n4, 0
                        if next_target < 0 or rows[r, next_target] >= 0 or rows[r, AREA] >= 0 or n4 < 1:
                            rows[r, RARE], next_target = 1, -1
                    elif slot >= 0:
                        role, next_sink, next_target = _HEADER_TOKEN, _HEADER_TOKEN_HEX, -1
                        if rows[r, slot] < 0:
                            rows[r, slot] = n4
                        if n0 == 72:
                            next_target = TOKEN_BYTES
                elif not behind:
                    if c == 95 and is_rule(b, s, e):
                        role = _RULE
                    elif c == 84 and labelled(b, s, e, _TEXT_OF_TRAIL):
                        role, rows[r, RARE] = _TRAIL, 1
                    elif header_name(b, s, e)[0] >= 0 and not is_prose(b, s, e):
                        role, next_sink, next_target = _HEADER, 0, -1
                        pc = header_line(b, s, e, rows, r, pairs, pc, lc)
                if role == _UNKNOWN and not is_token:
                    if is_digit(c):
                        n0, n1, n2, n3, n4, n5 = record_line(b, s, e)
                        if n0 >= 0:
                            role = _RECORD
                            rows[r, TIME], rows[r, TIME + 1], rows[r, MOMENT] = s, n0, n1
                            rows[r, OPERATION], rows[r, OPERATION + 1], rows[r, LENGTH], rows[r, RBA] = n2, n3, n4, n5
                    if role != _UNKNOWN or (in_user and name_value(b, s, e)[0] >= 0):
                        pass
                    elif c == 78 and word(b, s, e, _NAME_WORD):
                        n0, n1, n2, n3 = name_line(b, s, e)
                        if n0 >= 0:
                            role = _NAME
                            rows[r, NAME], rows[r, NAME + 1], rows[r, NAME_INDEX] = n0, n1, -1
                            if n2 >= 0:
                                rows[r, NAME_INDEX] = decimal(b, n2, n3)[0]
                    elif c == 84 and labelled(b, s, e, _TDR_WORD):
                        n1 = skip(b, skip(b, s + 9, e) + 1, e)
                        n0, n2 = decimal(b, n1, e)
                        if n2 == e and n2 > n1:
                            role, rows[r, NAME_INDEX], rows[r, RARE] = _TDR_INDEX, n0, 1
                    elif c == 65 or c == 66:
                        n0, n1, n2, n3, n4, n5 = image_line(b, s, e)
                        if n0 >= 0:
                            role = _IMAGE
                            rows[r, IMAGE], rows[r, IMAGE_TRANS] = c, n4
                            if n1 >= 0:
                                rows[r, IMAGE_PARTITION] = n1
                    elif c == 84 and behind and transaction_line(b, s, e)[0] >= 0:
                        n0, n1, n2, n3 = transaction_line(b, s, e)
                        role, rows[r, RARE] = _TRANSACTION, 1
                    elif labelled(b, s, e, _DATABASE) or labelled(b, s, e, _TABLE):
                        role, behind, rows[r, RARE], text_open = _TEXT, True, 1, True
                        is_database = c == 68
                        stars = 0
                        for k in range(s, e):
                            if word(b, k, e, _REFERENCE):
                                text_open = False
                        next_sink, next_target = 0, -1
                    if role in (_RECORD, _NAME, _IMAGE):
                        behind, next_sink, next_target = True, _BODY, BODY
                    if role == _UNKNOWN and (c == 65 or c == 66 or c == 75):
                        n0 = half_line(b, s, e)
                        if n0 > 0:
                            role, next_sink, next_target = _HALF, 0, -1
                    if role == _UNKNOWN and (c == 67 or c == 75):
                        n0, n1, n2, n3, n4, n5, n6, n7 = column_line(b, s, e)
                        if n0 >= 0:
                            column_ends(rows, r, column, column_length, column_shown)
                            role, behind, next_sink, next_target = _COLUMN, True, _COLUMN_HEX, -1
                            column, column_length, column_shown = n0, n3, 0
                            if n1 >= 0:
                                rows[r, RARE] |= hexadecimal(b, n1, n2, 15)[0] != n0
                            if n4 >= 0:
                                rows[r, RARE] |= hexadecimal(b, n4, n5, 15)[0] != n3
                            if n6 >= 0 and rows[r, FRAGMENT] < 0:
                                rows[r, FRAGMENT], rows[r, FRAGMENT + 1], rows[r, FRAGMENT + 2] = n0, n6, n7
                    if role == _UNKNOWN and c == 71 and word(b, s, e, _GROUP_ID):
                        n0, n1, n2, n3, n4 = token_line(b, s, e)
                        if n0 >= 0 and n1 >= 0:
                            role, in_groups, next_sink, next_target, rows[r, RARE] = _GROUP, True, _GROUP_HEX, -1, 1
                    if role == _UNKNOWN and (c | 32 == 103 or c | 32 == 117):
                        if labelled_folded(b, s, e, _GGS_TOKENS):
                            role, behind, in_user, next_sink, next_target = _GGS, True, False, _TOKEN_HEX, AREA
                            rows[r, RARE] |= rows[r, AREA] >= 0 or token_length >= 0
                        elif labelled_folded(b, s, e, _USER_TOKENS):
                            role, behind, in_user, next_sink, next_target = _USER, True, True, _USER_TOKEN_HEX, -1
                            rows[r, RARE] = 1
                    if role == _UNKNOWN and in_user:
                        n0, n1 = name_value(b, s, e)
                        if n0 >= 0:
                            role, rows[r, RARE] = _USER_PAIR, 1
        if role == _BLANK:
            end = stop if ended else end
        else:
            ended = role != _UNKNOWN
            if ended:
                end = stop
                only_rule = only_rule and role == _RULE
        if detail:
            is_owner = next_sink >= 0
            for k, value in enumerate((role, at, stop, s, e, n0, n1, n2, n3, n4, n5, n6, n7, -1, -1)):
                lines[lc, k] = value
            if o > from_hex:
                lines[lc, _HEX0], lines[lc, _HEX1] = from_hex, o
                if owner >= 0:
                    if lines[owner, _HEX0] < 0:
                        lines[owner, _HEX0] = from_hex
                    lines[owner, _HEX1] = o
            if is_owner:
                owner = lc if next_sink > 0 else -1
            lc += 1
        if next_sink >= 0:
            sink, target = next_sink, next_target
        at = stop
    return used, o, n, lc, pc


@kernel
def boundary_from(b: Bytes, at: int, n: int) -> int:
    """See :func:`~cdcwb.formats.goldengate.decode.printed.boundary`."""
    stage, waiting = -2, -1  # unknown; a rule does not begin a record if one of its lines follows
    while at < n and b[at - 1] != 10:
        at += 1
    while at < n:
        stop = at
        while stop < n and b[stop] != 10:
            stop += 1
        s = skip(b, at, stop)
        found, place = candidate(b, s, trimmed(b, s, stop)) if s < stop else (-1, 0)
        if found < 0:
            if waiting >= 0:
                waiting, stage = -1, 1
            if s < stop and is_ender(b, s, stop):
                stage = -1
        else:
            if waiting >= 0 and found >= 2 and place == 0:
                return waiting
            waiting = -1
            if stage == -2:
                stage = stage_before(b, at)
            begins = place > 0 or found <= stage or stage == -1
            stage = found
            if begins:
                here = s + place if place > 0 else at
                if found != 1:
                    return here
                waiting = here
        at = stop + 1
    return n


@kernel
def stage_before(b: Bytes, at: int) -> int:
    """The stage of the last line before ``at`` that may begin a record; -1 if a prompt or the like is nearer, or
    without such a line."""
    while at > 0:
        stop = at - 1
        at = stop
        while at > 0 and b[at - 1] != 10:
            at -= 1
        s = skip(b, at, stop)
        if s < stop:
            found = candidate(b, s, trimmed(b, s, stop))[0]
            if found >= 0:
                return found
            if is_ender(b, s, stop):
                return -1
    return -1
