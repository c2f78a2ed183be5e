"""Arrow arrays from buffers: what the readers of single fields are made of."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdcwb.formats.avro.cursors import Bools, Cursors, Ints

__all__ = ["bitmap", "decimals", "fixed_width", "not_utf8", "null_inside", "struct_of", "too_many_digits"]

_SIGN: Final = np.int64(63)


def bitmap(valid: Bools | None) -> Any:
    """A validity bitmap, None if all are valid."""
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))


def fixed_width(kind: pa.DataType, values: Any, valid: Bools | None) -> pa.Array:
    """An array over the memory of a numpy array."""
    return pa.Array.from_buffers(kind, len(values), [bitmap(valid), pa.py_buffer(values)])


def struct_of(kind: pa.StructType, children: list[pa.Array], count: int, valid: Bools | None) -> pa.Array:
    """A struct of so many rows, of which there may be many where it has no fields."""
    return pa.Array.from_buffers(kind, count, [bitmap(valid)], children=children)


def null_inside(array: pa.Array) -> pa.Array:
    """The same values, with everything inside a null struct null as well."""
    kind = array.type
    if pa.types.is_struct(kind):
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        children = [null_inside(child) for child in array.flatten()]
        return struct_of(kind, children, len(array), None if valid.all() else valid)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        inner = null_inside(array.values)
        return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], children=[inner])
    return array


def not_utf8(texts: pa.StringArray) -> Bools | None:
    """Which texts are no UTF-8; None if all are. ``texts`` begins at the beginning of its buffers."""
    data = texts.buffers()[2]
    count = len(texts)
    if data is None or count == 0:
        return None
    offsets = np.frombuffer(texts.buffers()[1], dtype=np.int32, count=count + 1)
    size = int(offsets[-1])
    if size == 0 or np.frombuffer(data, dtype=np.uint8, count=size).max() < 0x80:
        return None
    try:
        texts.validate(full=True)
        return None
    except pa.ArrowInvalid:
        raw = data.to_pybytes()
        ends = offsets.tolist()
        return np.array([_broken(raw[a:b]) for a, b in pairwise(ends)])


def _broken(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return True
    return False


def decimals(cursors: Cursors, start: Ints, end: Ints, limbs: int) -> tuple[Ints, Bools | None]:
    """Big-endian numbers as little-endian words of 64 bits, a row of ``limbs`` for each; and which need more.

    No bytes are 0. A number is read from its end, eight bytes at a time, and its sign is spread over what is left.
    """
    length = end - start
    longest = int(length.max(initial=0))
    numbers: Ints = np.empty((len(start), limbs), dtype=np.int64)
    for limb in range(limbs):
        if limb and longest <= 8 * limb:
            numbers[:, limb] = numbers[:, limb - 1] >> _SIGN
            continue
        there = np.clip(length - 8 * limb, 0, 8)
        unused = 64 - 8 * there
        word: Ints = cursors.words[end - 8 * (limb + 1)].byteswap().view(np.int64)
        word <<= unused  # by 64: 0
        word >>= unused
        if limb:
            word = np.where(there == 0, numbers[:, limb - 1] >> _SIGN, word)
        numbers[:, limb] = word
    return numbers, (length > 8 * limbs if longest > 8 * limbs else None)


def too_many_digits(numbers: Ints, precision: int) -> Bools | None:
    """Which of the numbers that :func:`decimals` read have more than ``precision`` digits; None if none has."""
    most = 10**precision - 1
    low, sign = numbers[:, 0], numbers[:, 0] >> _SIGN
    if all(np.array_equal(numbers[:, limb], sign) for limb in range(1, numbers.shape[1])):
        if most >= 1 << 63 or (low.min(initial=0) >= -most and low.max(initial=0) <= most):
            return None
        outside: Bools = (low < -most) | (low > most)
        return outside
    found: Bools = _compare(numbers, most) | ~(_compare(numbers, -most - 1))
    return found if found.any() else None


def _compare(numbers: Ints, limit: int) -> Bools:
    """Which of the numbers are greater than ``limit``."""
    limbs = numbers.shape[1]
    words = (limit % (1 << (64 * limbs))).to_bytes(8 * limbs, "little")
    greater = np.zeros(len(numbers), dtype=np.bool_)
    equal = np.ones(len(numbers), dtype=np.bool_)
    for limb in reversed(range(limbs)):
        part = words[8 * limb : 8 * limb + 8]
        if limb == limbs - 1:  # the sign is in the highest
            theirs, other = numbers[:, limb], np.frombuffer(part, dtype="<i8")[0]
        else:
            theirs, other = numbers[:, limb].view(np.uint64), np.frombuffer(part, dtype="<u8")[0]
        greater |= equal & (theirs > other)
        equal &= theirs == other
    return greater
