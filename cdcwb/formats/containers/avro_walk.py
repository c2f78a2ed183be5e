"""The loop that walks over Avro values: every value of a buffer, along the program of its schema.

The loop is compiled for many values, which give the numbers and spans of each leaf; and runs interpreted over one
value, which gives the list of what was read.

Numbers are zigzag varints of up to ten bytes, least significant seven bits first; float and double are little-endian;
texts and bytes follow their length; a union is the number of its member and the member; arrays and maps are blocks,
each preceded by its count (negative: the block's size in bytes follows), up to a block of count 0.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from cdcwb.formats.containers.avro_schema import (
    CALL,
    COUNT,
    FIXED,
    JUMP,
    NEXT,
    NUMBER,
    RUN,
    UNION,
    WORD,
    Schema,
)  # fmt: skip
from cdcwb.formats.kernels import kernel, read_only

__all__ = [
    "BEGIN", "BLANK", "DEPTH", "END", "LONG", "LONGEST", "MEMBER", "MOST_BLANK", "MOST_NESTED", "NEGATIVE", "SHORT",
    "TRAILING", "WIDE", "Bytes", "Ints", "Slots", "unscaled", "walk",
]  # fmt: skip

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Int: TypeAlias = Any
"""A whole number: of Python in an interpreted kernel, of 64 bits in a compiled one."""

MOST_NESTED: Final = 64
"""Maximum depth of arrays, maps and records inside themselves, with the value: a stack holds each level."""

MOST_BLANK: Final = 16
"""Maximum items without bytes (null, an empty record) in one value, whose count has no other limit."""

END, LONG, WIDE, NEGATIVE, SHORT, MEMBER, BLANK, DEPTH, TRAILING, BEGIN = range(1, 11)
"""The errors of a value."""

LONGEST: Final = 10
"""Maximum bytes of a number."""

_HIGHEST: Final = (1 << 63) - 1


@kernel
def _number(data: Bytes, at: Int, stop: Int) -> tuple[Int, Int]:
    """The varint at an offset, zigzag-decoded, and the offset after it; or the negative error."""
    bits = np.int64(0)
    for place in range(LONGEST):
        if at + place >= stop:
            return bits, -END
        byte = np.int64(data[at + place])
        if place == LONGEST - 1 and 1 < byte < 128:
            return bits, -WIDE
        bits |= (byte & 127) << (7 * place)
        if byte < 128:
            return ((bits >> 1) & _HIGHEST) ^ -(bits & 1), at + place + 1
    return bits, -LONG


@kernel
def _word(data: Bytes, at: Int, size: Int) -> Int:
    """The little-endian number in at most eight bytes."""
    number = np.int64(0)
    for place in range(size):
        number |= np.int64(data[at + place]) << (8 * place)
    return number


@kernel
def unscaled(data: Bytes, start: Int, end: Int) -> Int:
    """The big-endian number in two's complement in at most eight bytes; of none or more bytes 0."""
    number = np.int64(0)
    if 0 < end - start <= 8:
        number = -(np.int64(data[start]) >> 7)
        for place in range(start, end):
            number = (number << 8) | np.int64(data[place])
    return number


@kernel
def _walk(
    data: Bytes, starts: Ints, stops: Ints, is_chained: Int, code: Ints, entry: Int, numbers: Ints, members: Bytes,
    spans: npt.NDArray[np.int32], faults: Ints, events: Ints | None, frames: Ints,
) -> Int:  # fmt: skip
    """Walks over values ``[starts, stops)``, or over values that follow each other (``is_chained``), whose starts it
    writes. Values with an error already are left out. Gives the number of events.

    ``numbers``, ``members`` of unions and ``spans`` get what is read for a slot and a value. ``faults`` get for each
    value its error: what, the instruction, the offset, the number found, and what is left. ``events`` get what one
    value consists of, in order: instruction, start, end of the length, end, number, size of the block. ``frames`` are
    the levels: the CALL, the items left in the block, its start, the start of the item.
    """
    count = 0
    for row in range(len(stops)):
        if faults[row, 0]:
            continue
        at: Int = starts[row]
        stop: Int = stops[row]
        here, top, blank, fault = entry, 1, MOST_BLANK, 0
        number: Int = np.int64(0)
        size = first = middle = number
        while True:
            operation = code[here, 0]
            if operation == JUMP:
                here = code[here, 1]
                continue
            slot, first = code[here, 3], at
            if operation <= COUNT:
                if at < stop and data[at] < 128:
                    bits = np.int64(data[at])
                    number, at = (bits >> 1) ^ -(bits & 1), at + 1
                else:
                    number, at = _number(data, at, stop)
                    if at < 0:
                        fault = -at
                        break
            middle, after = at, here + 1
            if operation == UNION:
                if number < 0 or number >= code[here, 1]:
                    fault = MEMBER
                    break
                after = code[here + 1 + number, 1]
                if slot >= 0:
                    members[slot + row] = number
            elif operation == NUMBER:
                if code[here, 2] >= 0:
                    numbers[code[here, 2] + row] = number
            elif operation in (RUN, FIXED, WORD):
                size = number if operation == RUN else code[here, 1]
                if size < 0:
                    fault = NEGATIVE
                    break
                if size > stop - at:
                    fault, number, size = SHORT, size, stop - at
                    break
                at += size
                if operation == WORD:
                    number = _word(data, middle, size)
                    if code[here, 2] >= 0:
                        numbers[code[here, 2] + row] = number
                else:
                    if slot >= 0:
                        spans[2 * (slot + row)] = middle
                        spans[2 * (slot + row) + 1] = at
                    if code[here, 2] >= 0:
                        numbers[code[here, 2] + row] = unscaled(data, middle, at)
            elif operation == COUNT:
                size = np.int64(0)
                if number < 0:
                    size, at = _number(data, at, stop)
                    if at < 0:
                        fault, first, size = -at, middle, 1
                        break
                frames[top - 1, 1] = ~number if number < 0 else number - 1
                frames[top - 1, 3] = at
                if number == 0:
                    after = code[here, 1]
            elif operation == CALL:
                if top == MOST_NESTED:
                    fault = DEPTH
                    break
                frames[top, 0] = here
                frames[top, 2] = at
                top += 1
                here = code[here, 1]
                continue
            elif operation == NEXT:
                if at == frames[top - 1, 3]:
                    blank -= 1
                    if blank < 0:
                        fault = BLANK
                        break
                here = code[here, 1]
                if frames[top - 1, 1]:
                    frames[top - 1, 1] -= 1
                    frames[top - 1, 3] = at
                    here += 1
                continue
            else:  # RETURN
                top -= 1
                if top == 0:
                    break
                here = frames[top, 0]
                if code[here, 3] >= 0:
                    spans[2 * (code[here, 3] + row)] = frames[top, 2]
                    spans[2 * (code[here, 3] + row) + 1] = at
                here += 1
                continue
            if events is not None and count < len(events):
                events[count, 0], events[count, 1], events[count, 2] = here, first, middle
                events[count, 3], events[count, 4], events[count, 5] = at, number, size
                count += 1
            here = after
        if not fault:
            first = at
            if is_chained:
                starts[row + 1] = at
            elif at < stop:
                fault, number = TRAILING, stop - at
        if fault:
            faults[row, 0], faults[row, 1], faults[row, 2] = fault, here, first
            faults[row, 3], faults[row, 4] = number, size
            if is_chained:
                break
    return count


class Slots(NamedTuple):
    """What is read for each slot: ``numbers``, ``members`` of unions, and ``spans``, from the slots in ``code`` on."""

    code: Ints
    numbers: Ints
    members: Bytes
    spans: npt.NDArray[np.int32]


def walk(
    schema: Schema, data: Bytes, starts: Ints, stops: Ints, *, slots: Slots | None = None, faults: Ints | None = None,
    events: Ints | None = None, entry: int = 0, is_chained: bool = False,
) -> tuple[Ints, int]:  # fmt: skip
    """Runs :func:`_walk`; gives the errors, and the number of events."""
    nothing = np.empty(0, dtype=np.int64)
    code, *found = slots or (schema.code, nothing, nothing.astype(np.uint8), nothing.astype(np.int32))
    faults = np.zeros((len(stops), 5), dtype=np.int64) if faults is None else faults
    arrays: Any = (*found, faults, events, np.empty((MOST_NESTED, 4), dtype=np.int64))
    count = _walk(read_only(data), starts, stops, int(is_chained), code, entry, *arrays)
    return faults, int(count)
