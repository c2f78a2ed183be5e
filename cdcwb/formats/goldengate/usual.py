"""Records that stand as Logdump prints them, read column-wise (docs/formats/goldengate.md §2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from cdcwb.formats.goldengate import blocks
from cdcwb.formats.goldengate.facts import GHDR_FIXED
from cdcwb.formats.goldengate.heads import OPERATION_AT, TIME_WIDTH, heads_of
from cdcwb.formats.goldengate.hexlines import LINE_BYTES, bytes_of_lines, last_byte, shown_bytes
from cdcwb.formats.goldengate.lines import Bytes, Flags, Ints, Line, Lines, rows
from cdcwb.formats.goldengate.records import HEADER, MISSING

__all__ = ["TOKENS", "Usual", "usual_records"]

TOKENS: Final = (0x4C, 0x36, 0x52)
"""Ids of the tokens that have arrays of their own: LOGCSN, TRANID, ORAROWID."""

_KEYED: Final = (115, 134, 135)
_MOST_PREFIX: Final = 4  # bytes before the first image of a keyed or unified update
_HEADER_INDICATOR: Final = 0x45  # E


@dataclass(slots=True)
class Usual:
    """Records of a text by the segments of its lines; what is said of the columns is said at
    :class:`~cdcwb.formats.goldengate.records.Records`. Places are those of the lines' text. ``good``: nothing of the
    record is other than usual, or contradicts anything else; the values of other records mean nothing.
    """

    segment: Ints
    good: Flags
    values: Ints
    length: Ints
    rba: Ints
    name_index: Ints
    image_partition: Ints
    image: Ints
    image_trans: Ints
    total: Ints
    moment: Ints
    julian: Ints
    operation_at: Ints
    name_at: Ints
    time_at: Ints
    bytes: Bytes
    body_at: Ints
    cut: Flags
    cut_column: Ints
    token_at: Ints
    """[3, n, 2]: slices of ``bytes`` for the tokens in the order of :data:`TOKENS`."""


def usual_records(lines: Lines, first: Ints, line_segment: Ints, is_record: Flags, bodies: bool) -> Usual:
    """The records among the segments, which begin with the lines ``first``: those that ``is_record`` marks have the
    right lines in the right order. Without ``bodies`` of the other lines only those are looked at that say something of
    the records but their columns."""
    segment = np.flatnonzero(is_record)
    record = _of(lines, Line.RECORD)
    record = record[is_record[line_segment[record]]]
    told, bare = heads_of(lines, record)
    good = told.good
    name_end, name_index, is_name = blocks.name_lines(lines, record + 1)
    image, image_partition, image_trans, is_image = blocks.image_lines(lines, record + 2)
    good &= is_name & is_image
    good &= bare | (image == told.values[:, _AT["BeforeAfter"]])
    reader = _Hexes(lines, line_segment, segment, is_record.size, good)
    total, ghdr = reader.header_tokens(told.length, bodies)
    token, token_kind = reader.tokens()
    area = reader.token_areas()
    if bodies:
        size = reader.bodies(record + 2, told.length)
        shown = np.flatnonzero(size > 0)
        body = reader.add(record[shown] + 2, size[shown])
        reader.columns(size, np.where(np.isin(told.io_type, _KEYED), _MOST_PREFIX, 0))
    else:
        reader.tails(first)
    reader.decode()
    body_at = np.full((segment.size, 2), MISSING, np.int64)
    if bodies:
        body_at[shown] = reader.slices(body)
    token_at = np.full((len(TOKENS), segment.size, 2), MISSING, np.int64)
    token_at[token_kind, reader.owners(token)] = reader.slices(token)
    _walk_areas(reader.bytes, reader.slices(area), reader.owners(area), token_at, good)
    julian = np.full(segment.size, MISSING, np.int64)
    owner = reader.owners(ghdr)
    sound = good[owner]
    owner = owner[sound]
    if owner.size:
        few = bare[owner]
        if few.any():
            mine = owner[few]
            values = blocks.header_token_values(rows(reader.bytes, ghdr.at[sound][few], GHDR_FIXED))
            told.values[mine] = values
            for field, other in (("IOType", told.io_type), ("RecLength", told.length), ("BeforeAfter", image)):
                good[mine] &= values[:, _AT[field]] == other[mine]
            good[mine] &= values[:, _AT["Hdr-Ind"]] == _HEADER_INDICATOR
        token_bytes = rows(reader.bytes, ghdr.at[sound], GHDR_FIXED if bodies else LINE_BYTES)
        julian[owner], agree = blocks.header_token_bytes(token_bytes, told.values[owner], told.moment[owner])
        good[owner] &= agree
    start, name = told.record, lines.start[record + 1] + blocks.NAME_AT
    operation = start + OPERATION_AT
    return Usual(
        segment=segment,
        good=good,
        values=told.values,
        length=told.length,
        rba=told.rba,
        name_index=name_index,
        image_partition=image_partition,
        image=image,
        image_trans=image_trans,
        total=total,
        moment=told.moment,
        julian=julian,
        operation_at=_pairs(operation, operation + told.operation_size),
        name_at=_pairs(name, name_end),
        time_at=_pairs(start, start + TIME_WIDTH),
        bytes=reader.bytes,
        body_at=body_at,
        cut=reader.cut,
        cut_column=reader.cut_column,
        token_at=token_at,
    )


_AT: Final = {name: place for place, name in enumerate(HEADER)}


def _of(lines: Lines, *kinds: Line) -> Ints:
    """The lines of kinds that follow each other."""
    if len(kinds) == 1:
        return np.flatnonzero(lines.kind == kinds[0])
    return np.flatnonzero((lines.kind >= kinds[0]) & (lines.kind <= kinds[-1]))


def _pairs(first: Ints, last: Ints) -> Ints:
    pairs = np.empty((first.size, 2), np.int64)
    pairs[:, 0] = first
    pairs[:, 1] = last
    return pairs


@dataclass(slots=True)
class _Group:
    """Lines with hex below them that is to be decoded: ``length`` bytes, which begin at ``at`` in what is decoded."""

    line: Ints
    length: Ints
    at: Ints


class _Hexes:
    """The hex digits below lines of records. ``good``, ``cut`` and ``cut_column`` are about the records and changed
    here."""

    def __init__(self, lines: Lines, line_segment: Ints, segment: Ints, segments: int, good: Flags) -> None:
        self.lines = lines
        self.good = good
        self.cut = np.zeros(good.size, np.bool_)
        self.cut_column = np.full((good.size, 3), MISSING, np.int64)
        self.bytes: Bytes = np.zeros(0, np.uint8)
        self._record = np.full(segments, MISSING, np.int64)
        self._record[segment] = np.arange(segment.size)
        self._segment = line_segment
        self._all = segment.size == segments
        self._groups: list[_Group] = []
        self._checked: list[_Group] = []

    def _owned(self, *kinds: Line) -> Ints:
        """The lines of such kinds that are in records."""
        line = _of(self.lines, *kinds)
        return line if self._all else line[self._record[self._segment[line]] >= 0]

    def _owner(self, line: Ints) -> Ints:
        owner: Ints = self._record[self._segment[line]]
        return owner

    def owners(self, group: _Group) -> Ints:
        """The records of the lines of a group."""
        return self._owner(group.line)

    def slices(self, group: _Group) -> Ints:
        """The slices of what is decoded that are below the lines of a group."""
        return _pairs(group.at, group.at + group.length)

    def _reject(self, line: Ints) -> None:
        """The records of these lines are not usual."""
        self.good[self._owner(line)] = False

    def expect(self, line: Ints, length: Ints) -> None:
        """So many bytes are below these lines."""
        wrong = self.lines.hexes(line) != -(-length // LINE_BYTES)
        if wrong.any():
            self._reject(line[wrong])

    def _short(self, line: Ints, length: Ints) -> tuple[Ints, Ints]:
        """Which lines have less hex below them than so many bytes, and how many bytes these show."""
        count, needed = self.lines.hexes(line), -(-length // LINE_BYTES)
        last = self.lines.last_hex(line)
        is_blank = self.lines.text[last + last_byte(length)] == 0x20
        short = np.flatnonzero((count < needed) | ((count == needed) & (count > 0) & is_blank))
        some = np.flatnonzero(count[short] > 0)
        shown = np.zeros(short.size, np.int64)
        if some.size:
            of_last = shown_bytes(self.lines.text, last[short[some]])
            shown[some] = (count[short[some]] - 1) * LINE_BYTES + of_last
            wrong = (of_last == 0) | (shown[some] >= length[short[some]])
            self._reject(line[short[some[wrong]]])
        return short, shown

    def bodies(self, line: Ints, length: Ints) -> Ints:
        """How many bytes of the data are shown, of lines in the order of the records."""
        short, shown = self._short(line, length)
        if short.size:
            length = length.copy()
            length[short] = shown
            self.cut[short] = True
        self.expect(line, length)
        return length

    def add(self, line: Ints, length: Ints, *, kept: bool = True) -> _Group:
        """Let the hex below these lines be decoded; it has as many lines as so many bytes need."""
        group = _Group(line, length, np.zeros(line.size, np.int64))
        (self._groups if kept else self._checked).append(group)
        return group

    def header_tokens(self, length: Ints, bodies: bool) -> tuple[Ints, _Group]:
        """Lengths of the header tokens G, MISSING where not printed, and what is below the header tokens H."""
        total = np.full(self.good.size, MISSING, np.int64)
        line = self._owned(Line.G, Line.Z) if bodies else self._owned(Line.G, Line.H)
        if not line.size:
            return total, self.add(line, line)
        owner, kind = self._owner(line), self.lines.kind[line]
        parts = np.full((self.good.size, Line.Z + 1), MISSING, np.int64)
        parts[owner, kind], is_token = blocks.header_tokens(self.lines, line)
        if not is_token.all():
            self._reject(line[~is_token])
        if bodies:
            inner = parts[:, Line.H : Line.Z]
            whole = np.where(inner >= 0, inner + 4, 0).sum(axis=1) + 8
            agree = (parts[:, Line.G] == whole) & (parts[:, Line.Z] == whole)
            self.good &= (parts[:, Line.G] < 0) | (agree & (np.maximum(parts[:, Line.D], 0) == length))
        header = line[(kind == Line.H) & (self.lines.hexes(line) > 0)]
        size = parts[self._owner(header), Line.H]
        self.expect(header, size)
        short = size < GHDR_FIXED
        if short.any():
            self._reject(header[short])
        return parts[:, Line.G], self.add(header, size)

    def columns(self, shown: Ints, prefix: Ints) -> None:
        """Column lines, and the lines of halves and keys. Where of a body ``shown`` bytes are shown, the columns' own
        hex must not show more; ``prefix``: bytes of it that no column shows."""
        told = self._columns(self._owned(Line.COLUMN), blocks.column_lines)
        told = told + self._columns(self._owned(Line.BEFORE, Line.AFTER), blocks.key_lines)
        self.good &= ~self.cut | (told == 0) | (told + prefix <= shown)

    def _columns(self, line: Ints, read: Callable[[Lines, Ints], tuple[Ints, Ints, Flags]]) -> Ints:
        """Bytes of bodies that columns show in full, of the records that are cut."""
        if not line.size:
            return np.zeros(self.good.size, np.int64)
        index, length, is_column = read(self.lines, line)
        self._reject(line[~is_column])
        with_hex = self.lines.hexes(line) > 0
        line, index, length = line[with_hex], index[with_hex], length[with_hex]
        told = np.zeros(self.good.size, np.int64)
        if self.cut.any():
            length = self._cut_columns(line, index, length, told)
        self.expect(line, length)
        self.add(line, length, kept=False)
        return told

    def _cut_columns(self, line: Ints, index: Ints, length: Ints, told: Ints) -> Ints:
        """How much of columns is shown; what is shown in full is added to ``told``."""
        some = np.flatnonzero(self.cut[self._owner(line)])
        owner = self._owner(line[some])
        short, shown = self._short(line[some], length[some])
        sizes = length[some] + 4
        sizes[short] = 0
        np.add.at(told, owner, sizes)
        of = owner[short]
        again = (np.bincount(of, minlength=self.good.size)[of] > 1) | (self.cut_column[of, 0] != MISSING)
        self.good[of[again]] = False
        which = some[short]
        self.cut_column[of, 0], self.cut_column[of, 1], self.cut_column[of, 2] = index[which], shown, length[which]
        result = length.copy()
        result[which] = shown
        return result

    def tokens(self) -> tuple[_Group, Ints]:
        """Tokens with a line of their own, and their places in :data:`TOKENS`."""
        line = self._owned(Line.TOKEN)
        if not line.size:
            return self.add(line, line), line
        kind, length, is_token = blocks.token_lines(self.lines, line)
        is_token &= length > 0
        if not is_token.all():
            self._reject(line[~is_token])
        self.expect(line, length)
        place = self._owner(line) * len(TOKENS) + kind
        often = np.bincount(place)[place] > 1
        if often.any():
            self._reject(line[often])
        return self.add(line, length), kind

    def token_areas(self) -> _Group:
        """Token areas in hex."""
        line = self._owned(Line.TOKENS)
        line = line[self.lines.hexes(line) > 0]
        if not line.size:
            return self.add(line, line)
        following = np.append(self.lines.kind, np.int8(Line.OTHER))[line + 1]
        self._reject(line[following == Line.TOKEN])
        shown = shown_bytes(self.lines.text, self.lines.last_hex(line))
        self._reject(line[shown == 0])
        return self.add(line, (self.lines.hexes(line) - 1) * LINE_BYTES + shown)

    def tails(self, first: Ints) -> None:
        """The last lines of records must be understood, or they do not belong to it."""
        last = np.append(first[1:], self.lines.kind.size)[self._record >= 0] - 1
        while (blank := self.lines.kind[last] == Line.BLANK).any():
            last -= blank
        kind = self.lines.kind[last]
        for wanted, read in ((Line.COLUMN, blocks.column_lines), (Line.AFTER, blocks.key_lines)):
            line = last[kind == wanted]
            if line.size:
                self._reject(line[~read(self.lines, line)[2]])
        line = last[((kind == Line.COLUMN) | (kind == Line.IMAGE)) & (self.lines.hexes(last) > 0)]
        if line.size:
            self._reject(line[shown_bytes(self.lines.text, self.lines.last_hex(line)) == 0])

    def decode(self) -> None:
        """Read the hex of all groups."""
        value = self._decoded(self._groups)
        self.bytes = value.ravel()
        self._decoded(self._checked)

    def _decoded(self, groups: list[_Group]) -> Bytes:
        if not groups:
            return np.zeros((0, LINE_BYTES), np.uint8)
        line = np.concatenate([group.line for group in groups])
        length = np.concatenate([group.length for group in groups])
        count = np.minimum(-(-length // LINE_BYTES), self.lines.hexes(line))
        behind = np.cumsum(count)
        total = int(behind[-1]) if behind.size else 0
        at = behind - count
        done = 0
        for group in groups:
            group.at = at[done : done + group.line.size] * LINE_BYTES
            done += group.line.size
        if not total:
            return np.zeros((0, LINE_BYTES), np.uint8)
        digits = np.arange(1, total + 1) + np.repeat(self.lines.number[line] - at, count)
        shown = np.full(total, LINE_BYTES, np.int64)
        some = count > 0
        shown[behind[some] - 1] = (length - (count - 1) * LINE_BYTES)[some]
        value, sound = bytes_of_lines(self.lines.text, self.lines.every[digits], shown)
        if not sound.all():
            self._reject(np.repeat(line, count)[~sound])
        return value


_MOST_TOKENS: Final = 4


def _walk_areas(area: Bytes, at: Ints, record: Ints, token_at: Ints, good: Flags) -> None:
    """Find the tokens in areas of hex and enter their values; areas with other tokens make their records unusual."""
    good_area = good[record]
    at, record = at[good_area], record[good_area]
    if not record.size:
        return
    start, stop = at[:, 0].copy(), at[:, 1]
    slices, ends, usual = _walk(area, start, stop, "little")
    other = np.flatnonzero(ends > stop)
    if other.size:
        slices[:, other], ends[other], usual[other] = _walk(area, start[other], stop[other], "big")
    token_at[:, record] = slices
    good[record] &= usual & (ends == stop)


def _walk(area: Bytes, start: Ints, stop: Ints, order: Literal["little", "big"]) -> tuple[Ints, Ints, Flags]:
    slices = np.full((len(TOKENS), start.size, 2), MISSING, np.int64)
    usual = np.ones(start.size, np.bool_)
    at = start.copy()
    for _ in range(_MOST_TOKENS):
        some = np.flatnonzero(at < stop)
        if not some.size:
            break
        head = rows(area, np.minimum(at[some], area.size - 4), 4).astype(np.int64)
        low, high = (2, 3) if order == "little" else (3, 2)
        length = head[:, low] | head[:, high] << 8
        end = at[some] + 4 + length
        kind = np.full(some.size, MISSING, np.int64)
        for number, token in enumerate(TOKENS):
            kind[head[:, 0] == token] = number
        usual[some] &= (kind >= 0) & (length > 0) & (slices[kind, some, 0] < 0)
        slices[kind, some, 0] = at[some] + 4
        slices[kind, some, 1] = end
        at[some] = end
    return slices, at, usual
