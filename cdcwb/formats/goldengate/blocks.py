"""The other lines of a record in their fixed layout, column-wise over many of them (docs/formats/goldengate.md §2).

Each function says of every line whether it is in the layout, to the character; where it is not, its values are of no
meaning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from cdcwb.formats.goldengate.facts import GHDR, GHDR_FIXED, IMAGE_LETTERS, JULIAN_EPOCH_US
from cdcwb.formats.goldengate.hexlines import decimals, fixed_decimals, hex_numbers
from cdcwb.formats.goldengate.lines import Bytes, Flags, Ints, Line, Lines, Words, equal, rows, template
from cdcwb.formats.goldengate.records import HEADER, MISSING

__all__ = [
    "NAME_AT",
    "column_lines",
    "header_token_bytes",
    "header_token_values",
    "header_tokens",
    "image_lines",
    "key_lines",
    "name_lines",
    "token_lines",
]

_AT: Final = {name: place for place, name in enumerate(HEADER)}
_INDEX: Final = tuple(int.from_bytes(part, "little") for part in (b"  (TDR I", b" Index: "))
_INDEX_WIDTH: Final = 14  # of '  (TDR Index: '
_NAME_WIDTH: Final = 48
NAME_AT: Final = 6


def name_lines(lines: Lines, at: Ints) -> tuple[Ints, Ints, Flags]:
    """Name lines: where the names end, the TDR indexes (MISSING: none), and which are in the layout."""
    start, stop = lines.start[at] + NAME_AT, lines.stop(at)
    index = np.full(at.size, MISSING, np.int64)
    end = stop.copy()
    rest = np.flatnonzero(lines.text[stop - 1] == 0x29)
    for digits in range(1, 6):
        if not rest.size:
            break
        last = stop[rest] - 1
        head = last - digits - _INDEX_WIDTH
        found = (lines.words[head] == _INDEX[0]) & (lines.words[head + 6] == _INDEX[1]) & (head > start[rest])
        some, head, last = rest[found], head[found], last[found]
        if digits == 1:
            value = lines.text[head + _INDEX_WIDTH].astype(np.int64) - 0x30
            is_number: Flags = (value >= 0) & (value < 10)
        else:
            value, is_number = fixed_decimals(lines.words, last, digits)
            is_number &= lines.text[head + _INDEX_WIDTH] != 0x20
        index[some], end[some] = np.where(is_number, value, MISSING), np.where(is_number, head, stop[some])
        rest = rest[~found]
    size = end - start
    good: Flags = (size > 0) & (size <= 2 * _NAME_WIDTH)
    long = size > _NAME_WIDTH
    good &= _plain(lines.text, start, np.minimum(size, _NAME_WIDTH), _NAME_WIDTH)
    if long.any():
        good[long] &= _plain(lines.text, start[long], np.minimum(size[long], 2 * _NAME_WIDTH), 2 * _NAME_WIDTH)
    return end, index, good


def _plain(text: Bytes, start: Ints, size: Ints, width: int) -> Flags:
    """Which names of at most ``width`` bytes are of printable ASCII characters without blanks, ``(`` and ``*``."""
    name = rows(text, start, width)
    plain = (name - 0x21) < 0x5E
    plain &= name != 0x28
    plain &= name != 0x2A
    plain |= np.arange(width, dtype=np.uint8) >= size.astype(np.uint8)[:, None]
    if plain.all():
        return np.ones(start.size, np.bool_)
    found: Flags = np.logical_and.reduce(plain, axis=1)
    return found


_WIDTH: Final = 72
_IMAGE: Final = template(
    "After  Image:" + " " * 45 + "Partition ", "Before Image:" + " " * 45 + "Partition ", width=_WIDTH
)
_IMAGE_AT: Final = 68
_TRANS: Final = np.full(256, MISSING)
_TRANS[np.frombuffer(IMAGE_LETTERS, np.uint8)] = np.arange(len(IMAGE_LETTERS))
_IMAGE_END: Final = (int.from_bytes(b"   G  s\0", "little"), 0x0000FFFFFFFFFFFF)


def image_lines(lines: Lines, at: Ints) -> tuple[Ints, Ints, Ints, Flags]:
    """Image lines: which image (0x41 after, 0x42 before), the partition, TransInd by the letter at the end (MISSING
    where it is another one), and which are in the layout."""
    start, stop = lines.start[at], lines.stop(at)
    block = rows(lines.text, start, _WIDTH)
    image = block[:, 0].astype(np.int64)
    is_before = (image == 0x42).astype(np.int64)
    good = equal(block, _IMAGE[0][is_before], _IMAGE[1][is_before])
    tail = (lines.words[stop - 7] & np.uint64(_IMAGE_END[1])) == np.uint64(_IMAGE_END[0] & _IMAGE_END[1])
    letter = lines.text[stop - 1]
    good &= tail & (letter >= 0x61) & (letter <= 0x7A)
    in_hex, is_hex = hex_numbers(block, _IMAGE_AT + 1, 2)
    is_hex &= (block[:, _IMAGE_AT] == 0x78) & (stop - start == _IMAGE_AT + 10)
    if not is_hex.all():
        decimal, is_decimal = decimals(lines.words, start + _IMAGE_AT, stop - 7)
        is_decimal &= block[:, _IMAGE_AT] != 0x20
        good &= is_hex | is_decimal
        in_hex = np.where(is_hex, in_hex, decimal)
    return image, in_hex, _TRANS[letter], good


_TOKENS: Final = {
    Line.G: "TokenID x47 'G' Record Header    Info x0?  Length",
    Line.H: "TokenID x48 'H' GHDR             Info x0?  Length",
    Line.D: "TokenID x44 'D' Data             Info x0?  Length",
    Line.T: "TokenID x54 'T' GGS Tokens       Info x0?  Length",
    Line.U: "TokenID x55 'U' User Tokens      Info x0?  Length",
    Line.Z: "TokenID x5a 'Z' Record Trailer   Info x0?  Length",
}
_TOKEN_WIDTH: Final = 56
_HEADER_TOKENS: Final = template(
    *(_TOKENS.get(Line(kind), "\1") for kind in range(max(_TOKENS) + 1)), width=_TOKEN_WIDTH
)
_RECORD_TOKENS: Final = template(
    "TokenID x4c 'L' LOGCSN           Info x0?  Length",
    "TokenID x36 '6' TRANID           Info x0?  Length",
    "TokenID x52 'R' ORAROWID         Info x0?  Length",
    width=_TOKEN_WIDTH,
)
_LETTERS: Final = b"L6R"
_TOKEN_LENGTH_AT: Final = 49


_INFO_AT: Final = 40  # the second digit
_LENGTH_WIDTH: Final = 5


def _token_lengths(lines: Lines, at: Ints, block: Bytes) -> tuple[Ints, Flags]:
    good = (block[:, _INFO_AT] & 0xFE) == 0x30
    stop = lines.start[at] + (_TOKEN_LENGTH_AT + _LENGTH_WIDTH)
    behind = lines.text[stop]
    length, is_number = fixed_decimals(lines.words, stop, _LENGTH_WIDTH)
    is_number &= (behind == 0x0A) | (behind == 0x0D)
    if not is_number.all():
        odd = np.flatnonzero(~is_number)
        length[odd], is_number[odd] = decimals(
            lines.words, lines.start[at[odd]] + _TOKEN_LENGTH_AT, lines.stop(at[odd])
        )
    good &= is_number
    good &= block[:, _TOKEN_LENGTH_AT] == 0x20
    return length, good


_OLD_HEADER_TOKEN: Final = template("TokenID ?, Info ?, Length", width=40)
_OLD_TOKENS: Final = template(
    "TokenID L (x4c), Info ?, Length",
    "TokenID 6 (x36), Info ?, Length",
    "TokenID R (x52), Info ?, Length",
    width=40,
)


def _is_old(lines: Lines, at: Ints) -> Flags:
    """Which TokenID lines are in the older style, which has no names."""
    old: Flags = lines.text[lines.start[at] + 8] != 0x78
    return old


def _old_lengths(lines: Lines, at: Ints, block: Bytes, info_at: int, length_at: int) -> tuple[Ints, Flags]:
    length, good = decimals(lines.words, lines.start[at] + length_at, lines.stop(at))
    good &= (block[:, info_at] & 0xFE) == 0x30
    return length, good & (block[:, length_at] == 0x20)


def header_tokens(lines: Lines, at: Ints) -> tuple[Ints, Flags]:
    """Lengths of header token lines of any letter, and which are in the layout of either style."""
    old = _is_old(lines, at)
    if not old.any():
        return _new_header_tokens(lines, at)
    length, good = np.zeros(at.size, np.int64), np.zeros(at.size, np.bool_)
    if not old.all():
        length[~old], good[~old] = _new_header_tokens(lines, at[~old])
    block = rows(lines.text, lines.start[at[old]], 40)
    length[old], good[old] = _old_lengths(lines, at[old], block, 16, 25)
    good[old] &= equal(block, *_OLD_HEADER_TOKEN)
    return length, good


def _new_header_tokens(lines: Lines, at: Ints) -> tuple[Ints, Flags]:
    block = rows(lines.text, lines.start[at], _TOKEN_WIDTH)
    kind = lines.kind[at]
    length, good = _token_lengths(lines, at, block)
    return length, good & equal(block, _HEADER_TOKENS[0][kind], _HEADER_TOKENS[1][Line.G])


def token_lines(lines: Lines, at: Ints) -> tuple[Ints, Ints, Flags]:
    """Tokens behind records: 0 LOGCSN, 1 TRANID, 2 ORAROWID; their lengths; and which are in the layout of either
    style."""
    old = _is_old(lines, at)
    if not old.any():
        return _new_token_lines(lines, at)
    kind, length, good = np.zeros(at.size, np.int64), np.zeros(at.size, np.int64), np.zeros(at.size, np.bool_)
    if not old.all():
        kind[~old], length[~old], good[~old] = _new_token_lines(lines, at[~old])
    block = rows(lines.text, lines.start[at[old]], 40)
    kind[old] = which = (block[:, 8] == _LETTERS[1]) + 2 * (block[:, 8] == _LETTERS[2]).astype(np.int64)
    length[old], good[old] = _old_lengths(lines, at[old], block, 22, 31)
    good[old] &= equal(block, _OLD_TOKENS[0][which], _OLD_TOKENS[1][0])
    return kind, length, good


def _new_token_lines(lines: Lines, at: Ints) -> tuple[Ints, Ints, Flags]:
    block = rows(lines.text, lines.start[at], _TOKEN_WIDTH)
    letter = block[:, 13]
    kind = (letter == _LETTERS[1]) + 2 * (letter == _LETTERS[2]).astype(np.int64)
    length, good = _token_lengths(lines, at, block)
    return kind, length, good & equal(block, _RECORD_TOKENS[0][kind], _RECORD_TOKENS[1][0])


_COLUMNS: Final = template(
    "Column?????? (x????), Len?????? (x????)", "KeyCol?????? (x????), Len?????? (x????)", width=40
)
_COLUMN_SIZE: Final = 39
_POWERS: Final = np.array([10, 100, 1000, 10000])


def column_lines(lines: Lines, at: Ints) -> tuple[Ints, Ints, Flags]:
    """Indexes and lengths of Column lines of either style, and which are in the layout with the hex saying what the
    decimals do."""
    start, stop = lines.start[at], lines.stop(at)
    index, length = np.zeros((2, at.size), np.int64)
    good = np.zeros(at.size, np.bool_)
    is_new = lines.text[stop - 1] == 0x2E
    old, new = np.flatnonzero(~is_new), np.flatnonzero(is_new)
    if old.size:
        index[old], length[old], good[old] = _fixed_columns(lines, start[old], stop[old], 0)
    if new.size:
        index[new], length[new], good[new] = _free_columns(lines, start[new], stop[new])
    return index, length, good


def _fixed_columns(lines: Lines, start: Ints, stop: Ints, kind: int) -> tuple[Ints, Ints, Flags]:
    block = rows(lines.text, start, 40)
    good = equal(block, _COLUMNS[0][kind], _COLUMNS[1][kind]) & (stop - start == _COLUMN_SIZE)
    numbers = []
    for at, hex_at in ((6, 15), (25, 34)):
        in_hex, is_hex = hex_numbers(block, hex_at, 4)
        decimal, is_decimal = decimals(lines.words, start + at, start + at + 6)
        good &= is_hex & is_decimal & (in_hex == decimal)
        numbers.append(in_hex)
    return numbers[0], numbers[1], good


_BEFORE_LENGTH: Final = tuple(int.from_bytes(part, "little") for part in (b"), Lengt", b"Length \0"))
_SEVEN: Final = np.uint64(0x00FFFFFFFFFFFFFF)


def _free_columns(lines: Lines, start: Ints, stop: Ints) -> tuple[Ints, Ints, Flags]:
    """``Column 0 (0x0000), Length 6 (0x0006).``"""
    words, text = lines.words, lines.text
    length, good = _hex_in_brackets(lines, stop - 9)
    good &= text[stop - 10] == 0x20
    digits = 1 + (length[:, None] >= _POWERS).sum(axis=1)
    decimal, is_decimal = decimals(words, stop - 10 - digits, stop - 10)
    head = stop - 10 - digits - 7
    good &= is_decimal & (decimal == length) & ((words[head] & _SEVEN) == _BEFORE_LENGTH[1])
    index, is_index = _hex_in_brackets(lines, head - 10)
    digits = 1 + (index[:, None] >= _POWERS).sum(axis=1)
    good &= is_index & (words[head - 3] == _BEFORE_LENGTH[0]) & (text[head - 11] == 0x20)
    decimal, is_decimal = decimals(words, head - 11 - digits, head - 11)
    good &= is_decimal & (decimal == index) & (head - 11 - digits == start + 7)
    return index, length, good


def _hex_in_brackets(lines: Lines, at: Ints) -> tuple[Ints, Flags]:
    """The number of ``(0x0006)`` at a place."""
    block = rows(lines.text, at, 8)
    value, good = hex_numbers(block, 3, 4)
    return value, good & (block[:, 0] == 0x28) & (block[:, 1] == 0x30) & (block[:, 2] == 0x78) & (block[:, 7] == 0x29)


_KEY_LINES: Final = template(
    "Before Image          Len?????? (x????????)",
    "KeyLen?????? (x????????)",
    "After Image           Len?????? (x????????)",
    width=48,
)
_KEY_KINDS: Final = (Line.BEFORE, Line.KEY_LENGTH, Line.AFTER)


def key_lines(lines: Lines, at: Ints) -> tuple[Ints, Ints, Flags]:
    """Lines of an image's or key's length, and of key columns: indexes and lengths (of key columns; else 0), and which
    are in the layout."""
    start, stop = lines.start[at], lines.stop(at)
    index, length = np.zeros((2, at.size), np.int64)
    good = np.zeros(at.size, np.bool_)
    kind = lines.kind[at]
    for row, (wanted, size) in enumerate(zip(_KEY_KINDS, (43, 24, 43), strict=True)):
        some = np.flatnonzero(kind == wanted)
        block = rows(lines.text, start[some], 48)
        same = equal(block, _KEY_LINES[0][row], _KEY_LINES[1][row]) & (stop[some] - start[some] == size)
        high, is_high = hex_numbers(block, size - 9, 4)
        low, is_low = hex_numbers(block, size - 5, 4)
        end = start[some] + size - 12
        decimal, is_decimal = decimals(lines.words, end - 6, end)
        good[some] = same & is_high & is_low & is_decimal & (decimal == (high << 16 | low))
    some = np.flatnonzero(kind == Line.KEY_COLUMN)
    index[some], length[some], good[some] = _fixed_columns(lines, start[some], stop[some], 1)
    return index, length, good


_QUARTER_HOUR_US: Final = 15 * 60 * 10**6
_ZONES_US: Final = 15 * 3600 * 10**6
_TOKEN_FIELDS: Final = tuple(field for field in GHDR if field[0] not in ("DDR index", "TDR index"))


def header_token_bytes(ghdr: Bytes, values: Ints, moment: Ints) -> tuple[Ints, Flags]:
    """The time of header tokens [n, 34], or of their first lines [n, 20], as microseconds since 1970 UTC; and which of
    them have one in one byte order only, and, if they are whole, say what the header blocks say."""
    time, swapped = _token_times(ghdr)
    is_little = _is_little(time, swapped)
    good = is_little | (_within(swapped, _NEAR) & ~_within(time, _FAR))
    julian = np.where(is_little, time, swapped).astype(np.int64) - JULIAN_EPOCH_US
    if ghdr.shape[1] < GHDR_FIXED:
        return julian, good
    for name, value in _token_fields(ghdr, is_little):
        printed = values[:, _AT[name]]
        good &= value == (printed & 0xFFFFFFFF if name == "AuditPos" else printed)
    zone = moment - julian
    return julian, good & (zone % _QUARTER_HOUR_US == 0) & (np.abs(zone) <= _ZONES_US)


def header_token_values(ghdr: Bytes) -> Ints:
    """The numbers in header tokens [n, 34] that have a time in one byte order only, columns as :data:`HEADER`."""
    values = np.full((ghdr.shape[0], len(HEADER)), MISSING, np.int64)
    for name, value in _token_fields(ghdr, _is_little(*_token_times(ghdr))):
        values[:, _AT[name]] = value
    return values


def _token_times(ghdr: Bytes) -> tuple[Words, Words]:
    time = np.ascontiguousarray(ghdr[:, 8:16]).view("<u8")[:, 0].astype(np.uint64)
    return time, time.byteswap()


def _is_little(time: Words, swapped: Words) -> Flags:
    return _within(time, _NEAR) & ~_within(swapped, _FAR)


def _token_fields(ghdr: Bytes, is_little: Flags) -> Iterator[tuple[str, Ints]]:
    for name, at, size in _TOKEN_FIELDS:
        if size == 1:
            yield name, ghdr[:, at].astype(np.int64)
            continue
        part = np.ascontiguousarray(ghdr[:, at : at + size])
        little, big = (part.view(f"{order}u{size}")[:, 0].astype(np.int64) for order in "<>")
        yield name, np.where(is_little, little, big)


_NEAR: Final = (JULIAN_EPOCH_US, JULIAN_EPOCH_US + 200 * 365 * 86_400_000_000)
_FAR: Final = (JULIAN_EPOCH_US - 200 * 365 * 86_400_000_000, JULIAN_EPOCH_US + 400 * 365 * 86_400_000_000)


def _within(time: Words, limits: tuple[int, int]) -> Flags:
    return (time >= np.uint64(limits[0])) & (time < np.uint64(limits[1]))
