"""Many values in parallel: a cursor for each, and steps that move all of them over one field.

The values are in one buffer, padded with zeros. A cursor may overrun its value by the moves since the last check, but
not the buffer. Masked rows (invalid, left to the slow path, or without the current field) are parked at ``home``, in
the zeros after the values. Zeros decode as the first member of a union, as 0 and as empty, so masked rows are carried
along unchanged.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Bools", "Bytes", "Cursors", "Ints"]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]

FRONT: Final = 32
"""Zeros before the values: decimals are read from their ends, this many bytes at a time."""

_SLACK: Final = 4096
_BEHIND: Final = _SLACK + 32
_MOST_BLANK: Final = 1 << 16
_LONGEST: Final = 10  # bytes of a varint

_U = np.uint64
_ONE: Final = _U(1)
_CONTINUED: Final = _U(0x8080808080808080)
_BITS: Final = _U(0x7F7F7F7F7F7F7F7F)
_ODD_7: Final = _U(0x7F007F007F007F00)
_ODD_14: Final = _U(0x3FFF00003FFF0000)
_ODD_28: Final = _U(0x0FFFFFFF00000000)
# the highest bit of byte k, times this, has k + 1 in its four highest bits
_COUNT: Final = _U(sum((k + 1) << (53 - 8 * k) for k in range(7)) | 1)
_TWO_BYTES: Final = _U(1 << 8)
_THREE_BYTES: Final = _U(1 << 16)
_FIVE_BYTES: Final = _U(1 << 32)


class Away(NamedTuple):
    """Parked rows, and their cursors before."""

    rows: Bools
    at: Ints
    end: Ints
    live: Bools | None
    loose: int


class Cursors:
    """Cursors into one buffer. ``at`` and ``end`` count bytes of the buffer; ``bad`` rows are not values of the schema,
    ``odd`` ones are left to the slow path; ``live`` is true for active rows, None if all are."""

    __slots__ = ("_loose", "at", "bad", "buffer", "end", "home", "live", "odd", "words")

    def __init__(self, buffer: Bytes, words: Words, at: Ints, end: Ints, home: tuple[int, int], loose: int = 0) -> None:
        self.buffer = buffer
        self.words = words
        self.at = at
        self.end = end
        self.home = home
        self.live: Bools | None = None
        self.bad = np.zeros(len(at), dtype=np.bool_)
        self.odd = np.zeros(len(at), dtype=np.bool_)
        self._loose = loose

    @classmethod
    def over(cls, data: Bytes, start: Ints, end: Ints, blank: int, scratch: Bytes | None = None) -> Cursors:
        """Cursors over the values ``[start, end)`` of ``data``.

        ``blank``: bytes that a value takes if all bytes are 0. ``scratch``: memory to use, of :meth:`room_for` bytes.
        """
        blank = min(blank, _MOST_BLANK)
        size = cls.room_for(len(data), blank)
        buffer = np.empty(size, dtype=np.uint8) if scratch is None else scratch[:size]
        behind = FRONT + len(data)
        buffer[:FRONT] = 0
        buffer[FRONT:behind] = data
        buffer[behind:] = 0
        words: Words = np.ndarray((size - 7,), dtype="<u8", buffer=buffer, strides=(1,))
        return cls(buffer, words, start + FRONT, end + FRONT, (behind, behind + blank))

    @staticmethod
    def room_for(size: int, blank: int) -> int:
        """The bytes of memory for values of ``size`` bytes in total."""
        return FRONT + size + min(blank, _MOST_BLANK) + _BEHIND

    def __len__(self) -> int:
        return len(self.at)

    # --- rows that take part --------------------------------------------------------------------------------------

    def fail(self, rows: Bools) -> None:
        """Marks these rows as bad, if active."""
        self.bad = self.bad | self._park(rows)

    def hand_over(self, rows: Bools) -> None:
        """Leaves these rows to the slow path, if active."""
        self.odd = self.odd | self._park(rows)

    def _park(self, rows: Bools) -> Bools:
        taking_part = rows if self.live is None else rows & self.live
        if taking_part.any():
            self.live = ~rows if self.live is None else self.live & ~rows
        self.at = np.where(rows, self.home[0], self.at)
        self.end = np.where(rows, self.home[1], self.end)
        return taking_part

    def part(self, rows: Ints) -> Cursors:
        """Cursors for some of the rows; :meth:`join` merges their state back."""
        some = Cursors(self.buffer, self.words, self.at[rows], self.end[rows], self.home, self._loose)
        if self.live is not None:
            live = self.live[rows]
            some.live = None if live.all() else live
        return some

    def join(self, part: Cursors, rows: Ints) -> None:
        """Merges the cursors of these rows, and which of them are masked."""
        self.at, self.end = self.at.copy(), self.end.copy()
        self.at[rows] = part.at
        self.end[rows] = part.end
        self._loose = max(self._loose, part._loose)
        out = part.bad | part.odd
        if out.any():
            self.bad[rows] |= part.bad
            self.odd[rows] |= part.odd
            live = np.ones(len(self), dtype=np.bool_) if self.live is None else self.live.copy()
            live[rows[out]] = False
            self.live = live

    def send_away(self, rows: Bools) -> Away:
        """Parks rows until :meth:`bring_back`."""
        away = Away(rows, self.at, self.end, self.live, self._loose)
        self.at = np.where(rows, self.home[0], self.at)
        self.end = np.where(rows, self.home[1], self.end)
        self.live = ~rows if self.live is None else self.live & ~rows
        return away

    def bring_back(self, away: Away) -> None:
        """Restores the cursors of parked rows."""
        self.at = np.where(away.rows, away.at, self.at)
        self.end = np.where(away.rows, away.end, self.end)
        self._loose = max(self._loose, away.loose)
        stayed = ~away.rows if away.live is None else away.live & ~away.rows
        out = stayed & ~self.live if self.live is not None else np.zeros_like(stayed)
        self.live = away.live
        if out.any():
            self.live = ~out if away.live is None else away.live & ~out

    def check(self) -> None:
        """Marks rows that ran over their end as bad."""
        over = self.at > self.end
        if over.any():
            self.fail(over)
        self._loose = 0

    def _reach(self, size: int) -> None:
        """To be called before moving on by up to ``size`` bytes without a check."""
        if self._loose + size > _SLACK:
            self.check()
        self._loose += size

    # --- steps ----------------------------------------------------------------------------------------------------

    def bytes(self, present: Bools | None = None) -> Bytes:
        """The next byte of each row; moves the cursors after it; 0 without one."""
        self._reach(1)
        found = self.buffer.take(self.at)
        if present is not None:
            found *= present.view(np.uint8)
        self.at = self.at + (1 if present is None else present)
        return found

    def move(self, size: int, present: Bools | None) -> Ints:
        """Moves by a small number of bytes, up to 8; returns the previous cursors."""
        self._reach(size)
        before = self.at
        self.at = before + (size if present is None else present * np.int64(size))
        return before

    def numbers(self, present: Bools | None = None) -> Ints:
        """The next varint of each row, zigzag-decoded; 0 without one."""
        self._reach(_LONGEST)
        first = self.buffer.take(self.at)
        if present is not None:
            first *= present.view(np.uint8)
        if first.max(initial=0) < 0x80:
            self.at = self.at + (1 if present is None else present)
            small: Ints = ((first >> 1) ^ -(first & 1)).view(np.int8).astype(np.int64)
            return small
        numbers, sizes, wrong = self._numbers_at(self.at, present)
        self.at = self.at + sizes
        if wrong is not None:
            self.fail(wrong)
        return numbers

    def skip_numbers(self, present: Bools | None = None) -> None:
        """Moves over the next varint of each row."""
        self._reach(_LONGEST)
        first = self.buffer.take(self.at)
        if present is not None:
            first *= present.view(np.uint8)
        if first.max(initial=0) < 0x80:
            self.at = self.at + (1 if present is None else present)
            return
        stop = ~self.words[self.at]
        stop &= _CONTINUED
        stop &= -stop
        stop *= _COUNT
        stop >>= _U(60)
        sizes = stop.view(np.int64)
        if not sizes.all():  # more than eight bytes
            self.numbers(present)
            return
        self.at = self.at + (sizes if present is None else present * sizes)

    def _numbers_at(self, at: Ints, present: Bools | None = None) -> tuple[Ints, Ints, Bools | None]:
        """The varints at these offsets, their sizes in bytes, and a mask of invalid ones; 0 and 0 if not present."""
        words = self.words[at]
        there = None if present is None else -present.astype(np.int64)
        if there is not None:
            words &= there.view(np.uint64)
        stop = ~words
        stop &= _CONTINUED
        stop &= -stop  # the highest bit of the last byte; 0 if there are more than eight
        mask = stop - _ONE
        mask |= stop
        words &= mask
        words &= _BITS
        longest = mask.max(initial=_U(0))
        stop *= _COUNT
        stop >>= _U(60)
        sizes = stop.view(np.int64)
        if longest >= _TWO_BYTES:
            words -= (words & _ODD_7) >> _ONE
        if longest >= _THREE_BYTES:
            words -= ((words & _ODD_14) >> _U(2)) * _U(3)
        if longest >= _FIVE_BYTES:
            words -= ((words & _ODD_28) >> _U(4)) * _U(15)
        wrong = None
        if not sizes.all():
            wrong = self._longest(at, words, sizes)
        numbers = words >> _ONE
        words &= _ONE
        numbers ^= -words
        if there is not None:
            sizes &= there
        return numbers.view(np.int64), sizes, wrong

    def _longest(self, at: Ints, words: Words, sizes: Ints) -> Bools:
        """Adds the ninth and tenth byte to the varints that have them (size 0); returns a mask of those with more."""
        rows = np.flatnonzero(sizes == 0)
        ninth = self.buffer[at[rows] + 8].astype(np.uint64)
        tenth = self.buffer[at[rows] + 9].astype(np.uint64)
        ends = ninth < 0x80
        tenth[ends] = 0
        words[rows] |= (ninth & _U(0x7F)) << _U(56)
        words[rows] |= (tenth & _ONE) << _U(63)
        sizes[rows] = np.where(ends, 9, 10)
        wrong = np.zeros(len(at), dtype=np.bool_)
        wrong[rows] = tenth > 1
        return wrong

    def indexes(self) -> Bytes:
        """The next union index of each row, 0 or 1; rows with another one are bad."""
        self._reach(_LONGEST)
        first = self.buffer.take(self.at)
        if not (first & 0xFD).any():
            self.at = self.at + 1
            first >>= 1
            return first
        numbers, sizes, wrong = self._numbers_at(self.at)  # written with more bytes than necessary, or none
        out = (numbers < 0) | (numbers > 1)
        if wrong is not None:
            out |= wrong
        self.at = self.at + sizes
        if out.any():
            self.fail(out)
            numbers[out] = 0
        return numbers.astype(np.uint8)

    def spans(self, present: Bools | None = None) -> tuple[Ints, Ints]:
        """The start and end of the next bytes, after their length, in each row; empty without any."""
        self._reach(_LONGEST)
        first = self.buffer.take(self.at)
        if present is not None:
            first *= present.view(np.uint8)
        start = self.at + (1 if present is None else present)
        length = (first >> 1).astype(np.int64)
        wrong = (first & 1).view(np.bool_)  # negative
        if first.max(initial=0) >= 0x80:
            rows = np.flatnonzero(first >= 0x80)
            numbers, sizes, none = self._numbers_at(self.at[rows])
            length[rows] = numbers
            start[rows] += sizes - 1
            wrong[rows] = numbers < 0 if none is None else (numbers < 0) | none
        return self._spans(start, length, wrong)

    def fixed(self, size: int, present: Bools | None = None) -> tuple[Ints, Ints]:
        """The start and end of the next ``size`` bytes in each row; empty without any."""
        length = np.full(len(self), size, dtype=np.int64) if present is None else present * np.int64(size)
        return self._spans(self.at, length, None)

    def _spans(self, start: Ints, length: Ints, wrong: Bools | None) -> tuple[Ints, Ints]:
        """Moves over runs of bytes; rows with too few bytes left, or that are ``wrong``, are bad."""
        over = length > self.end - start
        if wrong is not None:
            over |= wrong
        if over.any():
            self.fail(over)
            start, length = np.where(over, self.at, start), np.where(over, 0, length)
        self.at = start + length
        self._loose = 0
        return start, self.at
