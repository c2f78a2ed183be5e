"""Length prefixes: one number, at one place or at many at once."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from cdcwb.formats.messages.batch import Bools, Bytes, Ints

__all__ = ["INVALID", "Prefix", "prefix_of"]

INVALID: Final = -2
"""Stands for a length that is none: negative (but for -1, which is null), cut off, or longer than any file."""

_FIXED: Final = {"be4": ">i", "le4": "<i", "be8": ">q", "le8": "<q"}
_MOST: Final = 5  # bytes of a varint that is a length
_LIMIT: Final = 1 << 40


class Prefix(NamedTuple):
    """One kind of length prefix.

    ``read(data, place)`` gives the length (-1: null, :data:`INVALID`) and the place behind it; ``read_many(buffer,
    places)`` the lengths and the widths of the prefixes.
    """

    name: str
    read: Callable[[memoryview, int], tuple[int, int]]
    read_many: Callable[[Bytes, Ints], tuple[Ints, Ints]]


def prefix_of(name: str) -> Prefix:
    """The prefix of one of the names in :data:`cdcwb.formats.messages.container.PREFIXES`."""
    if name in _FIXED:
        return _fixed(name)
    return _varint(name, name == "zigzag")


def _fixed(name: str) -> Prefix:
    shape = struct.Struct(_FIXED[name])
    width = shape.size
    unpack = shape.unpack_from

    def read(data: memoryview, place: int) -> tuple[int, int]:
        if place + width > len(data):
            return INVALID, place
        length = unpack(data, place)[0]
        return (length if -1 <= length < _LIMIT else INVALID), place + width

    def read_many(buffer: Bytes, places: Ints) -> tuple[Ints, Ints]:
        good = (places >= 0) & (places + width <= len(buffer))
        length = np.full(len(places), INVALID, dtype=np.int64)
        if len(buffer) >= width:
            numbers = np.ndarray(
                (len(buffer) - width + 1,), dtype=_FIXED[name][0] + f"i{width}", buffer=buffer, strides=(1,)
            )
            length[good] = numbers[places[good]]
        length[(length < -1) | (length >= _LIMIT)] = INVALID
        return length, np.full(len(places), width, dtype=np.int64)

    return Prefix(name, read, read_many)


def _varint(name: str, zigzag: bool) -> Prefix:
    def read(data: memoryview, place: int) -> tuple[int, int]:
        value = shift = 0
        for at in range(place, min(place + _MOST, len(data))):
            byte = data[at]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if zigzag:
                    value = (value >> 1) ^ -(value & 1)
                return (value if value >= -1 else INVALID), at + 1
            shift += 7
        return INVALID, place

    def read_many(buffer: Bytes, places: Ints) -> tuple[Ints, Ints]:
        value = np.zeros(len(places), dtype=np.int64)
        width = np.zeros(len(places), dtype=np.int64)
        going: Bools = (places >= 0) & (places < len(buffer))
        for at in range(_MOST):
            going &= places + at < len(buffer)
            byte = buffer[np.where(going, places + at, 0)].astype(np.int64) if len(buffer) else value
            value[going] |= (byte[going] & 0x7F) << (7 * at)
            ended = going & (byte < 0x80)
            width[ended] = at + 1
            going &= byte >= 0x80
        if zigzag:
            value = (value >> 1) ^ -(value & 1)
        value[(width == 0) | (value < -1)] = INVALID
        return value, np.maximum(width, 1)

    return Prefix(name, read, read_many)
