"""Hex text with notes: which digits of a text are data.

People keep captures as texts: groups of hex digits, with a word about each behind it, headings between them, a label in
front. Their prose is full of things that look like hex (``c8``, ``2005``, ``varchar(10)``, dates). The rules, from sure to
less sure, with what they are for:

* A line of nothing but groups is data when it has eight digits or more, whatever their widths. A shorter one is data next
  to a line that is.
* On a line with notes the leading groups are data up to the first thing that is none: ``0000000F 4 bytes, the length``.
  A short one (``0009``) has to look like a number in hex and stand next to a line of data; of two digits only where the
  text's groups are two wide. Numbered steps (``10 run it``), dates and Unix times are notes.
* Behind a note only a group of eight digits or more counts, of even width, in the text's letter case, and not as part of a
  word, a number, quotes or brackets: line ends are often lost in copying, and so groups stick to the prose before them.
  A whole row of groups that ends the line is data too (``read 5: 00 00 00 24 …``), where no data leads the line.
* A label in brackets in front, ``[5 INSERT ]``, and lines that begin with ``#`` or ``//`` are notes. ``0x``, ``\\x`` and
  commas between groups are separators (see :mod:`~cdcwb.formats.hexmarks`).

Two digits make a byte, across groups and also across lines where a text was wrapped at an odd width. Otherwise a digit
that has no partner in its line is left out, so that damage to one line leaves the others as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cdcwb.formats.digits import Digits, place_type
from cdcwb.formats.hexmarks import prepare
from cdcwb.formats.textlines import NIBBLE, Bytes, Ints, Piece, Scan, Text, counts, decimal, scan, within

__all__ = ["Habits", "habits", "read_hex"]

Flags = NDArray[np.bool_]

_WIDE: Final = 8  # digits of a group that is data by itself
_ROW: Final = 16  # digits of a row of narrower groups behind a note
# A wide group behind a note, and what may stand before and behind it: white space or a foreign character; before it also
# the end of a bracket or clause, or (for upper-case digits) a lower-case word; behind it a comma where it leads the line.
_UPPER: Final = re.compile(rb"(?<![!-(*-9<=?-\[\\^_`{}~])[0-9A-F]{8,}(?=[\s\x80-\xff]|$|[:;,|](?:\s|$))")
_LOWER: Final = re.compile(rb"(?<![!-(*-9<=?-\[\\^_`a-z{}~])[0-9a-f]{8,}(?=[\s\x80-\xff]|$|[:;,|](?:\s|$))")
_STUCK_TO: Final = list(b" \t;:)]>|")
_ONLY_LEADING: Final = (b":", b";", b",", b"|")
_WORD: Final = re.compile(rb"[a-z]+\Z")
_SIZE_WORD: Final = re.compile("\\s*(?:字节|bytes?\\b|octets?\\b)".encode(), re.IGNORECASE)
_SIZE_WORD_GBK: Final = "字节".encode("gbk")
_TIME: Final = re.compile(rb"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:\d{6})?|1\d{9}")


@dataclass(frozen=True, slots=True)
class Habits:
    """How a text writes its data: the letter case of its digits (``upper``, ``lower``, or None where it is mixed or there
    are no letters) and the most frequent width of its groups (0 where there are none)."""

    case: str | None = None
    width: int = 0


@dataclass(slots=True)
class _Lines:
    """Lines that hold data or may do so, and their runs; one list item a piece of the text."""

    ordinal: Ints  # number among the lines that are not blank
    sure: Flags
    pure: Flags  # nothing but groups (a label in front does not count)
    labelled: Flags
    runs: Ints  # how many runs
    continued: bool  # the first line goes on with the last of the piece before
    starts: NDArray[Any]
    widths: NDArray[np.uint32]


def habits(text: Text) -> Habits:
    """Look at the surest groups of the text's first stretch that has enough of them."""
    widths = np.zeros(64, np.int64)
    upper = lower = 0
    for piece in text.pieces():
        prepare(piece)
        found = scan(piece.text)
        lead, note = _leading(found)
        first = found.first[:-1]
        digits = _digits(found, first, lead)
        known = np.flatnonzero((digits >= _WIDE) & (lead > first))
        sure = known[(note[known] == found.line_end[known]) | (_width(found, first[known]) >= _WIDE)]
        chosen = within(found.run_start.size, first[sure], lead[sure])
        start, end = found.run_start[chosen], found.run_end[chosen]
        widths += np.bincount(np.minimum(end - start, 63), minlength=64)
        upper += int(counts((piece.text >= 0x41) & (piece.text <= 0x46), start, end).sum())
        lower += int(counts((piece.text >= 0x61) & (piece.text <= 0x66), start, end).sum())
        if widths.sum() >= 1000:
            break
    case = "upper" if upper > 3 * lower else "lower" if lower > 3 * upper else None
    return Habits(case, int(np.argmax(widths)) if widths.any() else 0)


def read_hex(text: Text) -> Digits:
    """Find the data of a hex text. ``problem`` says how many digits had no partner and where the first of them is."""
    known = habits(text)
    pieces: list[_Lines] = []
    characters = ordinal = 0
    for piece in text.pieces():
        lines, ordinal = _lines(piece, known, ordinal, text.units)
        pieces.append(lines)
        characters += piece.characters
    return _joined(pieces, text, characters)


def _digits(found: Scan, start: Ints, stop: Ints) -> Ints:
    """How many digits the runs of each range (by index) have together."""
    total = np.concatenate(([0], np.cumsum(found.run_end - found.run_start)))
    return total[stop] - total[start]


def _width(found: Scan, runs: Ints) -> Ints:
    return found.run_end[runs] - found.run_start[runs]


def _leading(found: Scan) -> tuple[Ints, Ints]:
    """For every line the run behind its leading pure groups, and the place of its first note (its end if it has none)."""
    note = found.first_note()
    lead = np.minimum(np.searchsorted(found.run_start, note), found.first[1:])
    touching = (lead > found.first[:-1]) & (note < found.line_end)
    touching[touching] = found.run_end[lead[touching] - 1] == note[touching]
    return lead - touching, note


def _lines(piece: Piece, known: Habits, ordinal: int, units: int) -> tuple[_Lines, int]:
    """The candidates of one piece, and how many lines that are not blank the text has up to its end."""
    marked = prepare(piece)
    found = scan(piece.text)
    first, after = found.first[:-1], found.first[1:]
    lead, note = _leading(found)
    pure = (note == found.line_end) & (after > first)
    sure = np.zeros(first.size, np.bool_)
    maybe = np.zeros(first.size, np.bool_)
    _judge_pure(piece.text, found, np.flatnonzero(pure), sure, maybe)
    annotated = np.flatnonzero(~pure & (lead > first))
    lead[annotated] = _judge_annotated(piece, found, annotated, lead[annotated], known, sure, maybe)
    chosen = within(found.run_start.size, first[sure | maybe], lead[sure | maybe])
    rows = np.flatnonzero((note < found.line_end) & ~sure & ~maybe & (after - first >= 2))
    rows, row_start = _rows(piece.text, found, rows)
    chosen |= within(found.run_start.size, row_start, after[rows])
    sure[rows] = True
    starts, widths = found.run_start[chosen], found.run_end[chosen] - found.run_start[chosen]
    wide = np.flatnonzero((found.run_end - found.run_start >= _WIDE) & ~chosen)
    extra = list(_stuck(piece, found, np.unique(found.line_of(wide)), lead, sure | maybe, known))
    if extra:
        places = np.array(extra, np.int64)
        sure[places[:, 2]] = True
        starts, widths = np.concatenate((starts, places[:, 0])), np.concatenate((widths, places[:, 1]))
        order = np.argsort(starts, kind="stable")
        starts, widths = starts[order], widths[order]
    present = (note < found.line_end) | (after > first) | marked.comment
    if piece.continued:
        ordinal -= 1
        present[0] = True
    number = ordinal + np.cumsum(present) - 1
    rows = np.flatnonzero(sure | maybe)
    runs = np.diff(np.searchsorted(starts, np.append(found.line_start[rows], piece.text.size)))
    lines = _Lines(
        number[rows],
        sure[rows],
        pure[rows],
        marked.labelled[rows],
        runs,
        bool(piece.continued and rows.size and rows[0] == 0),
        (starts + piece.base).astype(place_type(units)),
        widths.astype(np.uint32),
    )
    return lines, int(ordinal + np.count_nonzero(present))


def _judge_pure(text: Bytes, found: Scan, rows: Ints, sure: Flags, maybe: Flags) -> None:
    """Lines of nothing but groups: sure from eight digits on, unless they are a date or made of letters only (words)."""
    first, after = found.first[rows], found.first[rows + 1]
    digits = _digits(found, first, after)
    numbers = np.add.reduceat(decimal(text), found.line_start, dtype=np.int64)[rows] if rows.size else digits
    single = after - first == 1
    good = (digits >= _WIDE) & ((numbers > 0) | (digits >= 4 * _WIDE))
    good &= ~(single & _date(text, found.run_start[first], digits))
    sure[rows[good]] = True
    maybe[rows[~good & (numbers > 0)]] = True


def _date(text: Bytes, start: Ints, digits: Ints) -> Flags:
    """Whether a group is a date such as 20250323."""
    is_date = digits == 8
    at = start[is_date]
    number = [NIBBLE[text[at + i]].astype(np.int64) * 10 + NIBBLE[text[at + i + 1]] for i in (0, 2, 4, 6)]
    all_decimal = np.logical_and.reduce([decimal(text[at + i]) for i in range(8)])
    century, _, month, day = number
    is_date[is_date] = (
        all_decimal & ((century == 19) | (century == 20)) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    )
    return is_date


def _judge_annotated(
    piece: Piece, found: Scan, rows: Ints, lead: Ints, known: Habits, sure: Flags, maybe: Flags
) -> Ints:
    """Lines whose leading groups have notes behind them. Gives the run behind those groups that may be data."""
    text = piece.text
    width = found.run_end - found.run_start
    first = found.first[rows]
    # `0009 2 bytes`: an odd group is a number of the prose, and so is a narrow one behind wider ones.
    odd = np.append(np.flatnonzero(width & 1), width.size)
    narrow = np.append(np.flatnonzero(width < 4), width.size)
    cut = np.minimum(lead, odd[np.searchsorted(odd, first)])
    cut = np.where(width[first] >= 4, np.minimum(cut, narrow[np.searchsorted(narrow, first)]), cut)
    # A wide odd group in the first place is data that has lost a digit, not a number of the prose.
    begin = found.run_start[first]
    zeros = (text[begin] == 0x30) & (text[np.minimum(begin + 1, text.size - 1)] == 0x30)
    damaged = (cut == first) & (width[first] >= _WIDE - 1) & zeros
    cut[damaged] += 1
    for row in np.flatnonzero((cut - first >= 10) & (width[np.maximum(cut - 1, 0)] == 2)).tolist():
        cut[row] -= _says_size(piece, found, int(first[row]), int(cut[row]))
    some = cut > first
    rows, first, cut, begin, result = rows[some], first[some], cut[some], begin[some], cut
    if not rows.size:
        return result
    end = found.run_end[cut - 1]
    head, digits = width[first], _digits(found, first, cut)
    numbers = counts(decimal(text), begin, end)
    upper = counts((text >= 0x41) & (text <= 0x46), begin, end)
    letters = digits - numbers
    alone = cut - first == 1
    time = alone & (_date(text, begin, digits) | ((head == 10) & (letters == 0) & (text[begin] == 0x31)))
    good = (head >= _WIDE) & ~time
    good |= ~alone & (digits >= _WIDE) & ((head >= 4) | (known.width == 2))
    good &= numbers > 0
    sure[rows[good]] = True
    in_case = (letters == 0) | _in_case(upper, letters, known)
    fair = (head >= 4) & (head < _WIDE) & ((text[begin] == 0x30) | (letters > 0))
    fair |= (head == 2) & (known.width == 2)
    maybe[rows[~good & fair & in_case & (numbers > 0)]] = True
    return result


def _in_case(upper: Ints, letters: Ints, known: Habits) -> Flags:
    if known.case == "upper":
        return upper == letters
    return upper == 0 if known.case == "lower" else (upper == 0) | (upper == letters)


def _says_size(piece: Piece, found: Scan, first: int, cut: int) -> bool:
    """Whether the last leading group only says how many bytes stand before it: `… 00 00 07 10 bytes`."""
    start, end = int(found.run_start[cut - 1]), int(found.run_end[cut - 1])
    number = piece.raw[start:end].tobytes()
    if not number.isdigit() or 2 * int(number) != int(_width(found, np.arange(first, cut - 1)).sum()):
        return False
    rest = piece.raw[end : end + 16].tobytes()
    return _SIZE_WORD.match(rest) is not None or rest.lstrip().startswith(_SIZE_WORD_GBK)


def _rows(text: Bytes, found: Scan, lines: Ints) -> tuple[Ints, Ints]:
    """Those of the lines whose last note is followed by a row of groups up to the line's end, and where the row begins."""
    note = found.last_note()[lines]
    after = found.first[lines + 1]
    start = np.searchsorted(found.run_start, note)
    touching = start < after
    touching[touching] = found.run_start[start[touching]] == note[touching] + 1
    stuck_to = text[note]
    fine = ~touching | (stuck_to >= 0x80) | np.isin(stuck_to, _STUCK_TO)
    odd = np.append(np.flatnonzero((found.run_end - found.run_start) & 1), found.run_start.size)
    fine &= (after - start >= 2) & (odd[np.searchsorted(odd, start)] >= after)
    fine &= _digits(found, start, np.maximum(after, start)) >= _ROW
    begin = np.where(fine, found.run_start[np.minimum(start, max(found.run_start.size - 1, 0))], 0)
    fine &= counts(decimal(text), begin, np.where(fine, found.line_end[lines], begin)) > 0
    return lines[fine], start[fine]


def _stuck(
    piece: Piece, found: Scan, lines: Ints, lead: Ints, led: Flags, known: Habits
) -> Iterator[tuple[int, int, int]]:
    """Wide groups behind notes: (place in the piece, digits, line)."""
    patterns = {"upper": (_UPPER,), "lower": (_LOWER,)}.get(known.case or "", (_UPPER, _LOWER))
    whole = piece.text.tobytes() if lines.size else b""
    for row in lines.tolist():
        start, end = int(found.line_start[row]), int(found.line_end[row])
        line = whole[start:end]
        data_end = int(found.run_end[lead[row] - 1]) - start if led[row] and lead[row] > found.first[row] else 0
        places = {group.span() for pattern in patterns for group in pattern.finditer(line, data_end)}
        places = {(low, high) for low, high in places if _counts_behind_note(line, low, high, known)}
        if not places or (data_end and _is_ascii_column(line, found, int(found.first[row]), int(lead[row]), start)):
            continue
        for low, high in sorted(places):
            if piece.raw[max(start + low - 2, 0) : start + low].tobytes().lower() != b"0x":
                yield start + low, high - low, row


def _counts_behind_note(line: bytes, low: int, high: int, known: Habits) -> bool:
    group = line[low:high]
    number = group.isdigit()
    if len(group) % 2 or group.isalpha() or (number and len(group) != known.width and group[0] != 0x30):
        return False
    near = max(low - 200, 0)  # a line may be the whole file: looking back over all of it for each group would take forever
    if (number and _TIME.fullmatch(group)) or line.count(b"(", near, low) > line.count(b")", near, low):
        return False
    leads = not near and not line[:low].strip()
    if line[high : high + 1] in _ONLY_LEADING:
        return leads
    if leads or not chr(line[low - 1]).isascii() or not chr(line[low - 1]).isalpha():
        return True
    # `id6E746567`: a word whose line end was lost. Only the letter case tells them apart.
    word = _WORD.search(line, near, low)
    return known.case == "upper" and word is not None and word[0] != b"x" and (not number or group[:2] == b"00")


def _is_ascii_column(line: bytes, found: Scan, first: int, lead: int, start: int) -> bool:
    """Whether what follows the leading groups is their bytes as characters: a dump that has no offsets."""
    runs = zip(found.run_start[first:lead].tolist(), found.run_end[first:lead].tolist(), strict=True)
    digits = b"".join(line[low - start : high - start] for low, high in runs)
    if len(digits) % 2:
        return False
    column = bytes(b if 0x20 <= b < 0x7F else 0x2E for b in bytes.fromhex(digits.decode()))
    return line[found.run_end[lead - 1] - start :].lstrip(b" \t|:>").startswith(column.lstrip())


def _joined(pieces: list[_Lines], text: Text, characters: int) -> Digits:
    """Put the pieces together, decide about the doubtful lines and pair the digits."""
    none = np.empty(0, np.uint32)
    starts = np.concatenate([p.starts for p in pieces] or [none])
    widths = np.concatenate([p.widths for p in pieces] or [none])
    for piece in pieces:
        piece.starts = piece.widths = none  # they are the bulk of the memory
    if not starts.size:
        return Digits(starts, widths, np.empty(0, np.int64), characters)
    table = _Table(*(np.concatenate([getattr(p, name) for p in pieces]) for name in _Table.__slots__))
    first = np.concatenate(([0], np.cumsum(table.runs)))
    digits = np.add.reduceat(widths, first[:-1], dtype=np.int64)  # every line has a run
    keep = table.decided(digits)
    if not keep.all():
        kept = np.repeat(keep, table.runs)
        starts, widths = starts[kept], widths[kept]
    goes_on = np.concatenate([_first_flag(p.sure.size, p.continued) for p in pieces])[keep]
    goes_on[:1] = False
    table, digits = table.only(keep), digits[keep]
    first = np.concatenate(([0], np.cumsum(table.runs)))[:-1]
    heads = np.flatnonzero(~goes_on)
    digits = np.add.reduceat(digits, heads) if heads.size else digits
    table, first = table.only(heads), first[heads]
    lost = _unpaired(table, digits, first, widths)
    problem = None
    if lost.size:
        place = (int(starts[lost[0]]) + int(widths[lost[0]])) * text.unit
        problem = f"{lost.size:,} hex digits have no partner and are left out, the first at offset {place:,}"
    return Digits(starts, widths, first, characters, problem=problem)


def _first_flag(size: int, flag: bool) -> Flags:
    flags = np.zeros(size, np.bool_)
    flags[:1] = flag
    return flags


@dataclass(slots=True)
class _Table:
    """The columns of :class:`_Lines` for the whole text."""

    ordinal: Ints
    sure: Flags
    pure: Flags
    labelled: Flags
    runs: Ints

    def only(self, rows: NDArray[Any]) -> _Table:
        return replace(self, **{name: getattr(self, name)[rows] for name in self.__slots__})

    def decided(self, digits: Ints) -> Flags:
        """Which lines are data: the sure ones, and doubtful ones in one block with them."""
        new_block = np.diff(self.ordinal, prepend=self.ordinal[:1]) > 1
        block = np.cumsum(new_block)
        with_sure = np.bincount(block, self.sure) > 0
        # A text of one short group a line has no sure line: the block counts when all of it is groups of even width.
        good = np.bincount(block, ~self.pure | (digits % 2 == 1)) == 0
        good &= np.bincount(block, digits) >= 2 * _ROW
        odd = self.pure & (digits % 2 == 1)
        # A doubtful odd line is the rest of a wrapped one, or a number of the prose.
        wrapped = np.zeros(odd.size, np.bool_)
        wrapped[1:] = odd[:-1] & ~new_block[1:]
        return self.sure | ((with_sure | good)[block] & (~odd | wrapped))


def _unpaired(table: _Table, digits: Ints, first: Ints, widths: NDArray[np.uint32]) -> Ints:
    """Take the digits without a partner off their runs (in place). Gives the runs that lost one.

    An odd line and an odd line straight after it were wrapped within a byte. In any other odd line the digit is missing
    in its only odd group, or at its end.
    """
    odd = np.flatnonzero(digits % 2)
    runs: list[int] = []
    at = 0
    while at < odd.size:
        line = int(odd[at])
        follows = at + 1 < odd.size and odd[at + 1] == line + 1 and table.ordinal[line + 1] == table.ordinal[line] + 1
        if follows and table.pure[line] and table.pure[line + 1] and not table.labelled[line + 1]:
            at += 2
            continue
        end = int(first[line + 1]) if line + 1 < first.size else widths.size
        groups = np.flatnonzero(widths[int(first[line]) : end] % 2)
        run = int(first[line]) + int(groups[0]) if groups.size == 1 else end - 1
        while widths[run] == 0:
            run -= 1
        widths[run] -= 1
        runs.append(run)
        at += 1
    return np.array(runs, np.int64)
