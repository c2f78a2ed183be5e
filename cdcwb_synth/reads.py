"""A stream as a client reads it: again and again into one buffer, whose unused rest still holds what earlier reads
left.

A read holds one record or several; when more is waiting than fits, it is full and ends inside a record, which the
next one continues (``docs/formats/gbase8s.md §1.2``). Bytes after the end of a read are stale. A *ghost* is a stale
rest that begins with a whole old record.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["Read", "plan"]

_ALONE: Final = 201  # TIMEOUT: nothing else was there to be read
_FLUSH: Final = 0.35
_CHANCE: Final = 0.8


@dataclass(frozen=True, slots=True)
class Read:
    """``start:stop`` are the stream's bytes that this read got; ``content`` is the whole buffer afterwards, ``used``
    how much of it was ever written; ``name`` is its first record's number; ``ends_file``: the recorder continues in a
    new file."""

    start: int
    stop: int
    content: bytes
    used: int
    name: int
    ends_file: bool


class _Buffer:
    def __init__(self, size: int) -> None:
        self.content = bytearray(size)
        self.used = 0
        self.records: dict[int, int] = {}  # where whole old records begin and end

    def fill(self, data: bytes, records: list[tuple[int, int]]) -> None:
        size = len(data)
        self.content[:size] = data
        self.used = max(self.used, size)
        self.records = {a: b for a, b in self.records.items() if a >= size} | dict(records)


def plan(
    data: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    *,
    buffer_size: int,
    files: int,
    cut_records: bool,
    ghosts: bool,
    rng: Random,
) -> Iterator[Read]:
    """The reads that hand out the stream ``data``, whose records begin at ``starts`` (and end at ``starts[-1]``).

    No record but an idle marker stands where it would equal, byte for byte, what was there before: nobody could tell
    it from a stale one. With ``cut_records`` a file ends with a full read that ends inside a
    record; where the stream is too short for that there are fewer files.
    """
    buffer = _Buffer(buffer_size)
    total = int(starts[-1])
    ends = [total * i // files for i in range(1, files)]
    begin = length = 0  # of the read that is being filled
    records: list[tuple[int, int]] = []  # whole records in it
    name, follows_alone = 0, False

    def emit(ends_file: bool) -> Read:
        nonlocal begin, length, records
        buffer.fill(data[begin : begin + length].tobytes(), records)
        read = Read(begin, begin + length, bytes(buffer.content), buffer.used, name, ends_file)
        if ends_file:
            del ends[0]
        begin, length, records = begin + length, 0, []
        return read

    for start, stop in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        record = data[start:stop].tobytes()
        number = int.from_bytes(record[12:16], "big")
        is_due = bool(ends) and start >= ends[0]
        if length:
            equals_old = length < buffer_size and record.startswith(buffer.content[length : length + len(record)])
            must = number == _ALONE or follows_alone or equals_old
            # a second undo of one savepoint is, byte for byte, the first one
            would_equal = data[begin : begin + len(record)].tobytes() == record
            # a ghost: the read would end, or one with this record alone would, where an old record begins
            is_chance = ghosts and (length in buffer.records or len(record) in buffer.records)
            wish = rng.random() < (_CHANCE if is_chance else _FLUSH)
            fits = length + len(record) <= buffer_size
            may = not would_equal and not (is_due and cut_records)
            if must or (may and wish) or (may and not fits and not cut_records and rng.random() < 0.5):
                yield emit(is_due and not cut_records)
        if not length:
            name = number
        if length + len(record) <= buffer_size:
            records.append((length, length + len(record)))
        length += len(record)
        while length > buffer_size:
            rest, length = length - buffer_size, buffer_size
            yield emit(bool(ends) and cut_records and begin + length >= ends[0])
            length, name = rest, number
        follows_alone = number == _ALONE
    if length:
        yield emit(False)
