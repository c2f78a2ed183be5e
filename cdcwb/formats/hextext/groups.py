"""Selects the data groups of a piece of hex text by the rules of :mod:`cdcwb.formats.hextext`, line by line.

A *run* is a run of hex digits, a *group* one with white space on both sides. Lines are *sure* to be data, or *maybe*:
those wait for their neighbours (:mod:`cdcwb.formats.hextext.groups`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from cdcwb.formats.hextext.digits import Digits, place_type
from cdcwb.formats.hextext.lines import (
    NEWLINE,
    NIBBLE,
    SPACE,
    Bytes,
    Flags,
    Ints,
    Piece,
    Scan,
    Text,
    blank,
    counts,
    decimal,
    scan,
    within,
)

__all__ = ["WIDE", "candidates", "prepare", "read_hex"]


_PUNCTUATION = np.isin(np.arange(256), list(b",;{}[]()"))
_QUOTES = np.isin(np.arange(256), list(b"\"'"))
_IN_FRONT = np.isin(np.arange(256), list(b"|>`"))
_MARK_WORD = np.isin(np.arange(256), list(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"))
_COMMA, _HASH, _SLASH, _OPEN, _CLOSE, _BACKSLASH, _ZERO, _B, _X = b",#/[]\\0bx"


@dataclass(frozen=True, slots=True)
class Marked:
    """For every line of a piece: whether it has a leading label, and whether it is a comment."""

    labelled: Flags
    comment: Flags


def prepare(piece: Piece) -> Marked:
    """Writes spaces over separators, labels and comments of the piece."""
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
    """The first character of every line that is not white space; the line's end if there is none."""
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
    """``0x00, 0x24``: two or more on a line, or a leading one; then brackets and commas of the line are separators too.
    A single one within a note is a number of the note.
    """
    place = np.flatnonzero((text[:-1] == _ZERO) & ((text[1:] | 0x20) == _X))
    place = place[(place == 0) | ~_MARK_WORD[text[place - 1]]]
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
    """``[5 INSERT ] 00000028 …``: blanks the labels; returns the rows with a label that digits follow."""
    close = np.append(np.flatnonzero(text == _CLOSE), text.size)
    end = close[np.searchsorted(close, head)]
    inside = end < found.line_end[rows]
    rows, head, end = rows[inside], head[inside], end[inside]
    behind = np.searchsorted(found.run_start, end) < found.first[rows + 1]
    blank(text, head[behind], end[behind] + 1)
    return rows[behind]


def _commas(text: Bytes) -> None:
    """``00,00,00,24``: commas are separators on lines of groups only of (nearly) one even width."""
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


# --- groups -----------------------------------------------------------------------------------------------------------

WIDE: Final = 8
"""Minimum digits of a group that is data by itself."""
_ROW: Final = 2 * WIDE  # digits of a row of narrower groups that are data because of their number
# A wide group after a note, and what may precede and follow it: white space or a foreign character; before it also the
# end of a bracket or clause, or (for upper-case digits) a lower-case word; after it punctuation, if it leads.
_UPPER: Final = re.compile(rb"(?<![!-(*-9<=?-\[\\^_`{}~])[0-9A-F]{8,}(?=[\s\x80-\xff]|$|[:;,|](?:\s|$))")
_LOWER: Final = re.compile(rb"(?<![!-(*-9<=?-\[\\^_`a-z{}~])[0-9a-f]{8,}(?=[\s\x80-\xff]|$|[:;,|](?:\s|$))")
_STUCK_TO: Final = list(b" \t;:)]>|")
_ONLY_LEADING: Final = (b":", b";", b",", b"|")
_WORD: Final = re.compile(rb"[a-z]+\Z")
_LOOK_BACK: Final = (
    200  # a line may be the complete file: looking back over all of it for every group would be too slow
)
_TIME: Final = re.compile(rb"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:\d{6})?|1\d{9}")
_SIZE_WORD: Final = re.compile("\\s*(?:字节|bytes?\\b|octets?\\b)".encode(), re.IGNORECASE)
_SIZE_WORD_GBK: Final = "字节".encode("gbk")


@dataclass(frozen=True, slots=True)
class Habits:
    """The style of a text's data: the letter case of its digits (``upper``, ``lower``, or None if mixed or without
    letters) and the most frequent width of its groups (0 without any)."""

    case: str | None = None
    width: int = 0


@dataclass(slots=True)
class Candidates:
    """The certain and doubtful lines of data of a piece, and their runs."""

    ordinal: Ints  # number among the lines of the text that are not blank
    sure: Flags
    pure: Flags  # groups only (apart from a leading label)
    labelled: Flags
    runs: Ints  # their number
    starts: NDArray[Any]  # of the runs, in units of the text
    widths: NDArray[np.uint32]


def habits(text: Text) -> Habits:
    """Detects the style from the most certain groups of the first piece that has enough of them."""
    widths = np.zeros(64, np.int64)
    upper = lower = 0
    for piece in text.pieces():
        prepare(piece)
        found = scan(piece.text)
        lead, note = _leading(found)
        first = found.first[:-1]
        digits = _digits(found, first, lead)
        known = np.flatnonzero((lead > first) & (digits >= WIDE))
        wide = found.run_end[first[known]] - found.run_start[first[known]] >= WIDE
        known = known[wide | (digits[known] >= _ROW) | (note[known] == found.line_end[known])]
        chosen = within(found.run_start.size, first[known], lead[known])
        start, end = found.run_start[chosen], found.run_end[chosen]
        widths += np.bincount(np.minimum(end - start, 63), minlength=64)
        upper += int(counts(_letters(piece.text, b"A"), start, end).sum())
        lower += int(counts(_letters(piece.text, b"a"), start, end).sum())
        if widths.sum() >= 1000:
            break
    case = "upper" if upper > 3 * lower else "lower" if lower > 3 * upper else None
    return Habits(case, int(np.argmax(widths)) if widths.any() else 0)


def candidates(piece: Piece, known: Habits, before: int, units: int) -> tuple[Candidates, int]:
    """The lines of a piece with certain or doubtful data. ``before`` is the number of preceding lines that are not
    blank; their number up to the end of the piece is returned. ``units`` is the length of the complete text."""
    marked = prepare(piece)
    found = scan(piece.text)
    first, after = found.first[:-1], found.first[1:]
    lead, note = _leading(found)
    pure = (note == found.line_end) & (after > first)
    sure, maybe = np.zeros((2, first.size), np.bool_)
    _judge_pure(piece.text, found, np.flatnonzero(pure), known, sure, maybe)
    annotated = np.flatnonzero(~pure & (lead > first))
    lead[annotated] = _cut(piece, found, annotated, lead[annotated])
    _judge_annotated(piece.text, found, annotated[lead[annotated] > first[annotated]], lead, known, sure, maybe)
    lead = np.where(sure | maybe, lead, first)
    rows, row_start = _rows(piece.text, found, np.flatnonzero((note < found.line_end) & (lead == first)))
    chosen = within(found.run_start.size, first, lead) | within(found.run_start.size, row_start, after[rows])
    sure[rows] = True
    starts, widths = found.run_start[chosen], found.run_end[chosen] - found.run_start[chosen]
    wide = np.flatnonzero((found.run_end - found.run_start >= WIDE) & ~chosen)
    stop = found.line_end.copy()
    stop[rows] = found.run_start[row_start]
    stuck = list(_stuck(piece, found, np.unique(found.line_of(wide)), lead, stop, known))
    if stuck:
        extra = np.array(stuck, np.int64)
        sure[extra[:, 2]] = True
        starts, widths = np.concatenate((starts, extra[:, 0])), np.concatenate((widths, extra[:, 1]))
        order = np.argsort(starts, kind="stable")
        starts, widths = starts[order], widths[order]
    present = (note < found.line_end) | (after > first) | marked.comment
    if piece.continued:
        before -= 1  # a line in two pieces counts once
        present[0] = True
    if piece.text[-1] != NEWLINE:
        present[-1] = True
    lines = np.flatnonzero(sure | maybe)
    result = Candidates(
        ordinal=before + np.cumsum(present)[lines] - 1,
        sure=sure[lines],
        pure=pure[lines],
        labelled=marked.labelled[lines],
        runs=np.diff(np.searchsorted(starts, np.append(found.line_start[lines], piece.text.size))),
        starts=(starts + piece.base).astype(place_type(units)),
        widths=widths.astype(np.uint32),
    )
    return result, before + int(np.count_nonzero(present))


def _digits(found: Scan, start: Ints, stop: Ints) -> Ints:
    """The total digits of the runs of each range (by index)."""
    total = np.concatenate(([0], np.cumsum(found.run_end - found.run_start)))
    digits: Ints = total[stop] - total[start]
    return digits


def _letters(text: Bytes, first: bytes) -> Flags:
    """A mask of units that are the six letters from A or a."""
    return (text - np.uint8(first[0])) < 6  # characters before the letter wrap around


def _leading(found: Scan) -> tuple[Ints, Ints]:
    """For every line the run after its leading groups, and the offset of its first note (its end without one)."""
    note = found.first_note()
    lead = np.minimum(np.searchsorted(found.run_start, note), found.first[1:])
    touching = (lead > found.first[:-1]) & (note < found.line_end)
    touching[touching] = found.run_end[lead[touching] - 1] == note[touching]
    return lead - touching, note


def _judge_pure(text: Bytes, found: Scan, rows: Ints, known: Habits, sure: Flags, maybe: Flags) -> None:
    """Lines of groups only: certain from eight digits on, unless they are a date or may be words."""
    first, after = found.first[rows], found.first[rows + 1]
    digits = _digits(found, first, after)
    begin, end = found.run_start[first], found.run_end[after - 1]
    words = np.add.reduceat(decimal(text), found.line_start, dtype=np.int64)[rows] == 0
    words &= (found.run_end[first] - begin < WIDE) & (digits < 4 * WIDE)
    good = (digits >= WIDE) & ~words & ~((after - first == 1) & _date(text, begin, digits))
    if known.case is not None:  # `BF8A` alone between notes: letters of the text's case and digits are not a word
        letters = counts(decimal(text), begin, end) < end - begin
        short = np.flatnonzero(~good & letters & ~words & (digits >= 4) & (digits % 2 == 0))
        short = short[counts(decimal(text), begin[short], end[short]) > 0]
        good[short] = _in_case(text, begin[short], end[short], known)
    sure[rows[good]] = True
    words[words] = ~_in_case(text, begin[words], end[words], known)
    maybe[rows[~good & ~words]] = True


def _cut(piece: Piece, found: Scan, rows: Ints, lead: Ints) -> Ints:
    """The run after the leading groups of lines with notes, in a closer examination."""
    width = found.run_end - found.run_start
    first = found.first[rows]
    # `0009 2 bytes`: a group of odd width is a number of the note, and so is a narrow one after wider ones.
    odd = np.append(np.flatnonzero(width & 1), width.size)
    narrow = np.append(np.flatnonzero(width < 4), width.size)
    cut = np.minimum(lead, odd[np.searchsorted(odd, first)])
    short = np.where(width[first] >= 4, np.minimum(cut, narrow[np.searchsorted(narrow, first)]), cut)
    # Separated from the note by more than a space, it is the rest of the data: `00000001 00   note`.
    rest = np.flatnonzero((short + 1 == cut) & (width[np.minimum(short, width.size - 1)] == 2))
    after = found.run_end[short[rest]]
    set_off = np.isin(piece.text[after], (0x20, 0x09)) & np.isin(piece.text[after + 1], (0x20, 0x09))
    short[rest[set_off]] += 1
    cut = short
    # A leading wide group of odd width is data that lost a digit, not a number of the note.
    begin = found.run_start[first]
    zeros = (piece.text[begin] == 0x30) & (piece.text[np.minimum(begin + 1, piece.text.size - 1)] == 0x30)
    cut[(cut == first) & (width[first] >= WIDE - 1) & zeros] += 1
    for row in np.flatnonzero((cut - first > 10) & (width[np.maximum(cut - 1, 0)] == 2)).tolist():
        cut[row] -= _says_size(piece, found, int(first[row]), int(cut[row]) - 1)
    # The characters after a dump's groups may begin with something like groups: `3132 2041  12 A`.
    row_of = np.repeat(np.arange(rows.size), cut - first)
    run = np.arange(row_of.size) - np.repeat(np.cumsum(cut - first) - cut, cut - first)
    rest = found.line_end[rows[row_of]] - found.run_end[run] - _digits(found, first[row_of], run + 1) // 2
    for i in np.flatnonzero((rest > 0) & (rest <= 4) & (run + 1 < cut[row_of])).tolist():
        if _is_ascii_column(piece.text, found, int(first[row_of[i]]), int(run[i]) + 1):
            cut[row_of[i]] = min(cut[row_of[i]], run[i] + 1)
    result: Ints = cut
    return result


def _says_size(piece: Piece, found: Scan, first: int, last: int) -> bool:
    """Whether the last leading group is the number of bytes that precede it: `… 00 00 07 10 bytes`."""
    start, end = int(found.run_start[last]), int(found.run_end[last])
    number = piece.raw[start:end].tobytes()
    if not number.isdigit() or 2 * int(number) != int((found.run_end - found.run_start)[first:last].sum()):
        return False
    rest = piece.raw[end : end + 16].tobytes()
    return _SIZE_WORD.match(rest) is not None or rest.lstrip().startswith(_SIZE_WORD_GBK)


def _judge_annotated(
    text: Bytes, found: Scan, rows: Ints, lead: Ints, known: Habits, sure: Flags, maybe: Flags
) -> None:
    """Lines whose leading groups (up to the run ``lead``) are followed by notes."""
    first, cut = found.first[rows], lead[rows]
    begin, end = found.run_start[first], found.run_end[cut - 1]
    head, digits = found.run_end[first] - begin, _digits(found, first, cut)
    numbers = counts(decimal(text), begin, end)
    alone = cut - first == 1
    time = alone & (_date(text, begin, digits) | ((head == 10) & (numbers == 10) & (text[begin] == 0x31)))
    good = (head >= WIDE) & ~time
    good |= ~alone & (digits >= WIDE) & ((head >= 4) | (digits >= _ROW) | (known.width == 2)) & (numbers > 0)
    sure[rows[good]] = True
    fair = (head >= 4) & (head < WIDE) & ((text[begin] == 0x30) | (numbers < digits))
    fair |= (head == 2) & (known.width == 2)
    maybe[rows[~good & fair & (numbers > 0) & _in_case(text, begin, end, known)]] = True


def _in_case(text: Bytes, begin: Ints, end: Ints, known: Habits) -> Flags:
    """Whether the letters of the ranges are in the text's letter case; without one, in one case."""
    upper = counts(_letters(text, b"A"), begin, end) == 0
    lower = counts(_letters(text, b"a"), begin, end) == 0
    fits: Flags = lower if known.case == "upper" else upper if known.case == "lower" else upper | lower
    return fits


def _date(text: Bytes, start: Ints, digits: Ints) -> Flags:
    """Whether a group is a date such as 20250323."""
    is_date: Flags = digits == 8
    at = start[is_date]
    tens, ones = ([NIBBLE[text[at + i + j]] for i in (0, 4, 6)] for j in (0, 1))
    century, month, day = (ten * 10 + one for ten, one in zip(tens, ones, strict=True))
    fits = (century == 19) | (century == 20)
    fits &= (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    is_date[is_date] = fits & np.logical_and.reduce([decimal(text[at + i]) for i in range(8)])
    return is_date


def _rows(text: Bytes, found: Scan, lines: Ints) -> tuple[Ints, Ints]:
    """The lines whose last note is followed by a row of groups up to the line's end, and the first run of that."""
    note = found.last_note()[lines]
    after = found.first[lines + 1]
    start = np.searchsorted(found.run_start, note)
    touching = start < after
    touching[touching] = found.run_start[start[touching]] == note[touching] + 1
    fine = ~touching | (text[note] >= 0x80) | np.isin(text[note], _STUCK_TO)
    odd = np.append(np.flatnonzero((found.run_end - found.run_start) & 1), found.run_start.size)
    fine &= (after - start >= 2) & (odd[np.searchsorted(odd, start)] >= after)
    fine &= _digits(found, start, np.maximum(after, start)) >= _ROW
    lines, start = lines[fine], start[fine]
    fine = counts(decimal(text), found.run_start[start], found.line_end[lines]) > 0
    return lines[fine], start[fine]


def _stuck(
    piece: Piece, found: Scan, lines: Ints, lead: Ints, stop: Ints, known: Habits
) -> Iterator[tuple[int, int, int]]:
    """Wide groups after notes, between the leading groups and ``stop``: (offset, digits, line)."""
    patterns = {"upper": (_UPPER,), "lower": (_LOWER,)}.get(known.case or "", (_UPPER, _LOWER))
    whole = piece.text.tobytes() if lines.size else b""
    for row in lines.tolist():
        start, first, behind = int(found.line_start[row]), int(found.first[row]), int(lead[row])
        line = whole[start : found.line_end[row]]
        begin = int(found.run_end[behind - 1]) - start if behind > first else 0
        places = {group.span() for p in patterns for group in p.finditer(line, begin, int(stop[row]) - start)}
        places = {(low, high) for low, high in places if _counts_behind_note(line, low, high, known)}
        if not places or (begin and _is_ascii_column(piece.text, found, first, behind)):
            continue
        for low, high in sorted(places):
            if piece.raw[max(start + low - 2, 0) : start + low].tobytes().lower() != b"0x":
                yield start + low, high - low, row


def _counts_behind_note(line: bytes, low: int, high: int, known: Habits) -> bool:
    group = line[low:high]
    number = group.isdigit()
    if len(group) % 2 or (number and len(group) != known.width and group[0] != 0x30):
        return False  # decimal numbers of other widths are numbers of the note
    near = max(low - _LOOK_BACK, 0)
    if (number and _TIME.fullmatch(group)) or line.count(b"(", near, low) > line.count(b")", near, low):
        return False
    leads = not near and not line[:low].strip()
    if line[high : high + 1] in _ONLY_LEADING:
        return leads
    if leads or not chr(line[low - 1]).isascii() or not chr(line[low - 1]).isalpha():
        return True
    # `id6E746567`: a word whose line end was lost; only the letter case distinguishes them.
    word = _WORD.search(line, near, low)
    return known.case == "upper" and word is not None and word[0] != b"x" and (not number or group[:2] == b"00")


def _is_ascii_column(text: Bytes, found: Scan, first: int, lead: int) -> bool:
    """Whether the text after the leading groups is their bytes as characters: a dump without offsets."""
    runs = zip(found.run_start[first:lead].tolist(), found.run_end[first:lead].tolist(), strict=True)
    digits = b"".join(text[low:high].tobytes() for low, high in runs)
    if len(digits) % 2:
        return False
    column = bytes(b if 0x20 <= b < 0x7F else 0x2E for b in bytes.fromhex(digits.decode())).lstrip()
    end = int(found.run_end[lead - 1])
    return text[end : end + len(digits) + 16].tobytes().lstrip(b" \t|:>").startswith(column)


# --- join -------------------------------------------------------------------------------------------------------------


def read_hex(text: Text) -> Digits:
    """Finds the data of a hex text. ``problem`` gives the number of digits without a partner and the first of them."""
    known = habits(text)
    parts: list[Candidates] = []
    characters = lines = 0
    for piece in text.pieces():
        part, lines = candidates(piece, known, lines, text.units)
        parts.append(part)
        characters += piece.characters
    none = np.empty(0, np.uint32)
    starts = np.concatenate([part.starts for part in parts] or [none])
    widths = np.concatenate([part.widths for part in parts] or [none])
    if not starts.size:
        return Digits(starts, widths, np.empty(0, np.int64), characters)
    for part in parts:
        part.starts = part.widths = none  # they take most of the memory
    table = _Lines(*(np.concatenate([getattr(part, name) for part in parts]) for name in _Lines.__slots__))
    keep = table.decided(widths)
    if not keep.all():
        kept = np.repeat(keep, table.runs)
        starts, widths, table = starts[kept], widths[kept], table.only(keep)
    table = table.merged()
    first = table.first()
    lost = _unpaired(table, widths)
    problem = None
    if lost:
        place = (int(starts[lost[0]]) + int(widths[lost[0]])) * text.unit
        many = "1 hex digit has" if len(lost) == 1 else f"{len(lost):,} hex digits have"
        problem = f"{many} no second digit and are not a byte, the first at offset {place:,}"
    return Digits(starts, widths, first, characters, problem=problem)


@dataclass(slots=True)
class _Lines:
    """The columns of :class:`Candidates` for the complete text."""

    ordinal: Ints
    sure: Flags
    pure: Flags
    labelled: Flags
    runs: Ints

    def only(self, rows: NDArray[Any]) -> Self:
        return replace(self, **{name: getattr(self, name)[rows] for name in self.__slots__})

    def first(self) -> Ints:
        """The first run of every line."""
        return np.concatenate(([0], np.cumsum(self.runs)))[:-1]

    def digits(self, widths: NDArray[np.uint32]) -> Ints:
        """The number of digits of each line (every line has a run)."""
        return np.add.reduceat(widths, self.first(), dtype=np.int64) if self.runs.size else self.runs

    def decided(self, widths: NDArray[np.uint32]) -> Flags:
        """A mask of lines of data: the certain ones, and doubtful ones in one block with them."""
        digits = self.digits(widths)
        begins = np.diff(self.ordinal, prepend=self.ordinal[:1]) > 1
        block = np.cumsum(begins)
        with_sure = np.bincount(block, self.sure) > 0
        # A text of one short group per line has no certain line: a block counts if all its groups are of even width.
        short_only = np.bincount(block, ~self.pure | (digits % 2 == 1)) == 0
        short_only &= np.bincount(block, digits) >= 4 * WIDE
        # A doubtful line of odd width is the rest of a wrapped one, or a number of a note.
        odd = self.pure & (digits % 2 == 1)
        wrapped = np.zeros(odd.size, np.bool_)
        wrapped[1:] = odd[:-1] & ~begins[1:]
        kept: Flags = self.sure | ((with_sure | short_only)[block] & (~odd | wrapped))
        return kept

    def merged(self) -> Self:
        """Merges lines that are in two pieces."""
        heads = np.flatnonzero(np.diff(self.ordinal, prepend=-1))
        return replace(self.only(heads), runs=np.add.reduceat(self.runs, heads))


def _unpaired(table: _Lines, widths: NDArray[np.uint32]) -> list[int]:
    """Removes the digits without a partner from their runs (in place); returns the runs that lost one. Two consecutive
    lines with an odd number of digits were wrapped within a byte. In any other such line the digit is missing in its
    only group of odd width, or at its end.
    """
    digits, first = table.digits(widths), table.first()
    odd = np.flatnonzero(digits % 2).tolist()
    lost: list[int] = []
    at = 0
    while at < len(odd):
        line = odd[at]
        wrapped = at + 1 < len(odd) and odd[at + 1] == line + 1 and table.ordinal[line + 1] == table.ordinal[line] + 1
        if wrapped and table.pure[line] and table.pure[line + 1] and not table.labelled[line + 1]:
            at += 2
            continue
        begin = int(first[line])
        groups = begin + np.flatnonzero(widths[begin : begin + int(table.runs[line])] % 2)
        run = int(groups[0] if groups.size == 1 else begin + table.runs[line] - 1)
        widths[run] -= 1
        lost.append(run)
        at += 1
    return lost
