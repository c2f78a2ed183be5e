"""Header blocks and record lines in their fixed layout, over many records (docs/formats/goldengate.md §2.3, §3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from cdcwb.formats.goldengate.facts import IO_TYPES
from cdcwb.formats.goldengate.hexlines import PAIRS, decimals, hex_numbers, wide_decimals
from cdcwb.formats.goldengate.lines import Bytes, Flags, Ints, Line, Lines, Words, equal, rows, template
from cdcwb.formats.goldengate.records import HEADER, MISSING

__all__ = ["OPERATION_AT", "TIME_WIDTH", "USUAL", "Heads", "heads_of"]

USUAL: Final = (3, 5, 10, 11, 15, 100, 115, 116, 134, 135)
"""Record types that are read column-wise: rows, and pieces of large objects."""

_BLOCK: Final = (
    "Hdr-Ind    :     ?  (x??)     Partition  :     ?  (x??)",
    "UndoFlag   :     ?  (x??)     BeforeAfter:     ?  (x??)",
    "RecLength  :??????  (x????)   IO Time    : ????/??/?? ??:??:??.???.???",
    "IOType     :??????  (x??)     OrigNode   :??????  (x??)",
    "TransInd   :     ?  (x??)     FormatType :     ?  (x??)",
    "SyskeyLen  :??????  (x??)     Incomplete :     ?  (x??)",
    "AuditRBA   :???????????       AuditPos   : ",
)
_REST: Final = (
    "Continued  :     ?  (x??)     RecCount   :??????  (x??)",
    "",
    "????/??/?? ??:??:??.???.??? ???????????????????? Len?????? RBA ",
)
_CHARACTERS: Final = (
    ("Hdr-Ind", 0, 17),
    ("Partition", 0, 47),
    ("UndoFlag", 1, 17),
    ("BeforeAfter", 1, 47),
    ("TransInd", 4, 17),
    ("FormatType", 4, 47),
    ("Incomplete", 5, 47),
)
_NUMBERS: Final = (("IOType", 3, 12), ("OrigNode", 3, 42), ("SyskeyLen", 5, 12))
TIME_WIDTH: Final = 27
OPERATION_AT: Final = 28
_OPERATION_WIDTH: Final = 20


class _Layout:
    """The header block's fixed part up to the value of AuditPos, and what is from Continued to the value of RBA, with
    either line end."""

    def __init__(self, line_end: str) -> None:
        first, rest = line_end.join(_BLOCK), line_end.join(_REST)
        self.width, self.rest_width = -(-len(first) // 8) * 8, -(-len(rest) // 8) * 8
        self.first, self.first_mask = template(first, width=self.width)
        self.rest, self.rest_mask = template(rest, width=self.rest_width)
        starts = [0]
        for line in _BLOCK:
            starts.append(starts[-1] + len(line) + len(line_end))
        self.audit_rba = starts[6] + 12
        self.audit_pos = starts[6] + len(_BLOCK[6])
        self.length = starts[2] + 12
        self.time = starts[2] + 43
        self.record = len(_REST[0]) + 2 * len(line_end)
        fields = [(name, starts[row] + at) for name, row, at in (*_CHARACTERS, *_NUMBERS)]
        shown = len(_CHARACTERS)
        self.characters = np.array([at for _, at in fields[:shown]])
        self.numbers = [at for _, at in fields[shown:]]
        hexes = [at + 5 for _, at in fields[:shown]] + [at + 10 for _, at in fields[shown:]] + [self.length + 10]
        self.hexes = np.array([at + digit for at in [*hexes, self.length + 12] for digit in range(2)])
        self.values = np.array([HEADER.index(name) for name, _ in fields])


_LAYOUTS: Final = (_Layout("\n"), _Layout("\r\n"))


def _decimal_words() -> Words:
    """What stands for numbers up to 255 in a field of six characters and the two blanks behind it."""
    text = "".join(f"{number:6}  " for number in range(256)).encode()
    return np.frombuffer(text, "<u8").astype(np.uint64)


_DECIMALS: Final = _decimal_words()
_NEVER: Final = [HEADER.index("DDR index"), HEADER.index("TDR index")]
_SIX: Final = np.uint64(0x0000FFFFFFFFFFFF)
_AT: Final = {name: place for place, name in enumerate(HEADER)}


@dataclass(slots=True)
class Heads:
    """Header blocks and record lines: the values of the block [n, 17], where the record line begins, its time as
    microseconds since 1970, the operation's length, Len and RBA. ``good``: everything is in the layout, both parts say
    the same, and it is a record of one of the types :data:`USUAL`, which ``io_type`` is."""

    values: Ints
    io_type: Ints
    record: Ints
    moment: Ints
    operation_size: Ints
    length: Ints
    rba: Ints
    good: Flags


def _heads(lines: Lines, first: Ints) -> Heads:
    """The header blocks that begin with the lines ``first``, and the record lines behind them."""
    layout = _LAYOUTS[lines.returns]
    words = lines.words
    start = lines.start[first]
    block = rows(lines.text, start, layout.width)
    good = equal(block, layout.first, layout.first_mask)
    values = np.empty((first.size, len(HEADER)), np.int64)
    values[:, _NEVER] = MISSING
    pairs = PAIRS[np.ascontiguousarray(block[:, layout.hexes]).view("<u2")]
    good &= (pairs < 0x100).all(axis=1)
    values[:, layout.values] = pairs[:, :-2]
    length = pairs[:, -2].astype(np.int64) << 8 | pairs[:, -1]
    values[:, _AT["RecLength"]] = length
    printed = block[:, layout.characters]
    good &= ((printed > 0x20) & (printed < 0x7F)).all(axis=1)
    good &= values[:, _AT["Hdr-Ind"]] == 0x45
    for number, at in enumerate(layout.numbers):
        good &= words[start + at] == _DECIMALS[pairs[:, len(_CHARACTERS) + number] & 0xFF]
    block_start, start = start, lines.start[first + len(_BLOCK)]
    rest = rows(lines.text, start, layout.rest_width)
    good &= equal(rest, layout.rest, layout.rest_mask)
    for name, at in (("Continued", 22), ("RecCount", 52)):
        values[:, _AT[name]], is_hex = hex_numbers(rest, at, 2)
        good &= is_hex
    good &= words[start + 42] == _DECIMALS[values[:, _AT["RecCount"]] & 0xFF]
    good &= (rest[:, 17] > 0x20) & (rest[:, 17] < 0x7F)
    record = start + layout.record
    moment, is_time = moments(rest[:, layout.record : layout.record + TIME_WIDTH])
    good &= is_time
    same = rest[:, layout.record : layout.record + TIME_WIDTH] == block[:, layout.time : layout.time + TIME_WIDTH]
    if not same.all():
        good &= same.all(axis=1)
    operation = [words[record + OPERATION_AT + at] for at in (0, 8, _OPERATION_WIDTH - 8)]
    good &= named_as_typed(operation, values[:, _AT["IOType"]])
    good &= ((words[record + _LENGTH_AT] ^ words[block_start + layout.length]) & _SIX) == 0
    shown, is_number = _shown_numbers(lines, first, block_start, record, layout)
    good &= is_number & (shown[0] == length)
    values[:, _AT["AuditRBA"]], values[:, _AT["AuditPos"]] = shown[1:3]
    io_type = values[:, _AT["IOType"]]
    return Heads(values, io_type, record, moment, _OPERATION_SIZES[io_type & 0xFF], length, shown[3], good)


_RECORD: Final = template(_REST[-1], width=64)


def _bare_heads(lines: Lines, at: Ints) -> Heads:
    """Record lines that no header block is before; their values are MISSING."""
    words, start = lines.words, lines.start[at]
    block = rows(lines.text, start, 64)
    good = equal(block, *_RECORD)
    moment, is_time = moments(block[:, :TIME_WIDTH])
    operation = [words[start + OPERATION_AT + place] for place in (0, 8, _OPERATION_WIDTH - 8)]
    io_type = np.full(at.size, MISSING, np.int64)
    for number in USUAL:
        found = operation[0] == _OPERATIONS[0, number]
        found &= (operation[1] == _OPERATIONS[1, number]) & (operation[2] == _OPERATIONS[2, number])
        io_type[found] = number
    length, is_length = decimals(words, start + _LENGTH_AT, start + _LENGTH_AT + 6)
    rba, is_rba = wide_decimals(words, start + _RBA_AT, lines.stop(at))
    good &= is_time & (io_type >= 0) & is_length & (block[:, _LENGTH_AT] == 0x20)
    good &= is_rba & (lines.text[start + _RBA_AT] != 0x20)
    values = np.full((at.size, len(HEADER)), MISSING, np.int64)
    return Heads(values, io_type, start, moment, _OPERATION_SIZES[io_type & 0xFF], length, rba, good)


def heads_of(lines: Lines, record: Ints) -> tuple[Heads, Flags]:
    """What is said by the record lines and, where they are there, the header blocks before them; and where not."""
    bare = (lines.kind[record - 1] != Line.BLANK_IN_HEAD) | (record == 0)
    if not bare.any():
        return _heads(lines, record - _HEAD_LINES), bare
    if bare.all():
        return _bare_heads(lines, record), bare
    few, most = _bare_heads(lines, record[bare]), _heads(lines, record[~bare] - _HEAD_LINES)
    order = np.argsort(np.concatenate((np.flatnonzero(bare), np.flatnonzero(~bare))))
    return Heads(*(np.concatenate((getattr(few, one), getattr(most, one)))[order] for one in Heads.__slots__)), bare


_LENGTH_AT: Final = 52
_RBA_AT: Final = 63
_HEAD_LINES: Final = 9  # header block and the blank line behind it


def _shown_numbers(lines: Lines, first: Ints, block: Ints, record: Ints, layout: _Layout) -> tuple[Ints, Flags]:
    """The decimals of RecLength, AuditRBA, AuditPos and RBA, [4, n], and where all four are some."""
    count = first.size
    begin, stop = np.empty((4, count), np.int64), np.empty((4, count), np.int64)
    for row, (at, width) in enumerate(((layout.length, 6), (layout.audit_rba, 11))):
        np.add(block, at, out=begin[row])
        np.add(begin[row], width, out=stop[row])
    np.add(block, layout.audit_pos, out=begin[2])
    np.add(record, _RBA_AT, out=begin[3])
    line = np.concatenate((first + (len(_BLOCK) - 1), first + (len(_BLOCK) + 2)))
    stop[2:] = lines.stop(line).reshape(2, count)
    value, is_number = wide_decimals(lines.words, begin.ravel(), stop.ravel())
    is_number[2 * count :] &= lines.text[begin[2:].ravel()] != 0x20
    good: Flags = np.logical_and.reduce(is_number.reshape(4, count), axis=0)
    return value.reshape(4, count), good


def _days_before() -> tuple[Ints, Ints]:
    """Days from 1970 to each year, and from a year's begin to its months; those of leap years are 16 further on."""
    first = np.arange("0000", "10001", dtype="datetime64[Y]").astype("datetime64[D]").astype(np.int64)
    months = np.zeros(32, np.int64)
    for leap, year in enumerate(("2001", "2000")):
        begin = np.arange(f"{year}-01", f"{int(year) + 1}-02", dtype="datetime64[M]").astype("datetime64[D]")
        months[16 * leap + 1 : 16 * leap + 14] = (begin - begin[0]).astype(np.int64)
    return first, months


_YEARS, _MONTHS = _days_before()
_PAIR_PLACES: Final = np.array([0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18, 20, 21, 24, 25])
_NO_PAIR: Final = 1000


def _decimal_pairs() -> npt.NDArray[np.int16]:
    table = np.full(1 << 16, _NO_PAIR, np.int16)
    for number in range(100):
        table[int.from_bytes(f"{number:02}".encode(), "little")] = number
    return table


_DECIMAL_PAIRS: Final = _decimal_pairs()


def moments(time: Bytes) -> tuple[Ints, Flags]:
    """Times ``YYYY/MM/DD HH:MM:SS.mmm.uuu`` [n, 27] as microseconds since 1970, and which of them are some."""
    pairs = _DECIMAL_PAIRS[np.ascontiguousarray(time[:, _PAIR_PLACES]).view("<u2")]
    last = time[:, [22, 26]] - 0x30
    good = (pairs < _NO_PAIR).all(axis=1) & (last < 10).all(axis=1)
    century, of_century, month, day, hour, minute, second, milli, micro = pairs.astype(np.int64).T
    year = np.minimum(century * 100 + of_century, 9999)
    month = np.minimum(month, 13)
    before = _YEARS[year]
    of_month = month + 16 * (_YEARS[year + 1] - before - 365)
    good &= (year > 0) & (month > 0) & (month < 13) & (day > 0) & (hour < 24) & (minute < 60) & (second < 60)
    good &= day <= _MONTHS[np.minimum(of_month + 1, 31)] - _MONTHS[of_month]
    days = before + _MONTHS[of_month] + day - 1
    seconds = ((days * 24 + hour) * 60 + minute) * 60 + second
    return (seconds * 1000 + milli * 10 + last[:, 0]) * 1000 + micro * 10 + last[:, 1], good


def _operations() -> tuple[Words, Ints]:
    """The names of the usual record types, by number, in three overlapping words; and their lengths."""
    names = np.zeros((3, 256), np.uint64)
    sizes = np.zeros(256, np.int64)
    for number in USUAL:
        name = IO_TYPES[number].name.encode()
        sizes[number] = len(name)
        padded = name.ljust(_OPERATION_WIDTH)
        for row, at in enumerate((0, 8, _OPERATION_WIDTH - 8)):
            names[row, number] = int.from_bytes(padded[at : at + 8], "little")
    return names, sizes


_OPERATIONS, _OPERATION_SIZES = _operations()


def named_as_typed(operation: Sequence[Words], io_type: Ints) -> Flags:
    """Which operations, in words, have the name of their record type, one of :data:`USUAL`."""
    good = np.ones(io_type.size, np.bool_)
    for word, names in zip(operation, _OPERATIONS, strict=True):
        good &= word == names[io_type & 0xFF]
    return good
