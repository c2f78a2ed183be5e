"""Masks that are sets of columns: from text to bytes, from bytes to bits, and which columns those are.

Bit n of a mask is the column with ordinal n + 1 (in change tables header columns included). ``order`` says where the
bits are: ``big`` if the bytes are a number as it is written, so that the last byte has bits 0 to 7; ``little`` if
byte 0 does. Within a byte, bit 0 is its lowest (docs/formats/qlik-kafka.md §7, docs/formats/qlik-change-table.md §4).

A mask may have any length: bytes that are missing are 0. All functions take whole arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays.texts import slices

__all__ = [
    "BASE64",
    "DISAGREE",
    "HEX",
    "NAMED",
    "ORDERS",
    "Votes",
    "bits",
    "disagreement",
    "names",
    "pack",
    "parse",
    "spelling",
    "vote",
]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

DISAGREE: Final = "change mask and images disagree; the mask is used"
"""What the warning about a mask that contradicts the images of its change begins with."""

NAMED: Final = 5
"""Columns that the warning names for the mask and for the images; it counts the others."""

ORDERS: Final = ("big", "little")
"""The two byte orders."""

HEX: Final = "hex"
BASE64: Final = "base64"
"""How the text of a mask may be read."""

_NONE: Final = 0xFF
_HEX: Final = np.full(256, _NONE, dtype=np.uint8)
for _digit in b"0123456789abcdefABCDEF":
    _HEX[_digit] = int(chr(_digit), 16)
_BASE64: Final = np.full(256, _NONE, dtype=np.uint8)
for _value, _digit in enumerate(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"):
    _BASE64[_digit] = _value
_BLOCK: Final = 1 << 18  # bits that are looked through at a time
_MOST_WORDS: Final = 16
_PREFIX: Final = r"^(0[xX]|\\[xX])"


# --- text -------------------------------------------------------------------------------------------------------------


def parse(texts: pa.StringArray, shape: str | None = None) -> tuple[pa.BinaryArray, Bools]:
    r"""Texts as the bytes they spell, in the order in which they stand; and which texts are no mask (null then).

    Read are ``0x…`` and ``\x…``, bare hexadecimal digits in any case (an odd number of them gets a zero in front), and
    base64. A text that may be both is hexadecimal, unless ``shape`` is :data:`BASE64`; with :data:`HEX` nothing is read
    as base64. An empty text has no bytes; null stays null.
    """
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks()
    if shape != BASE64:
        buffer, start, _ = _content(texts)
        values = _HEX[buffer]
        if not len(start) or values[int(start[0]) :].max(initial=0) != _NONE:  # nearly always: nothing but digits
            return _from_hex(texts, values, ~_nulls(texts)), np.zeros(len(texts), dtype=np.bool_)
    texts = _trimmed(texts)
    prefixed = _prefixed(texts)
    if prefixed.any():
        texts = pc.replace_substring_regex(texts, _PREFIX, "")
    buffer, start, end = _content(texts)
    null = _nulls(texts)
    values = _HEX[buffer]
    is_hex = ~null & ~_has(values == _NONE, start, end)
    if shape == HEX or (shape is None and (is_hex | null).all()):
        return _from_hex(texts, values, is_hex), ~null & ~is_hex
    is_base64 = ~null & ~prefixed & (end > start) & _may_be_base64(buffer, start, end)
    if shape is None:
        is_base64 &= ~is_hex
    wrong = ~null & ~is_hex & ~is_base64
    here = _from_hex(texts, values, is_hex & ~is_base64)
    return pc.if_else(pa.array(is_base64), _from_base64(buffer, start, end, is_base64), here), wrong


def spelling(texts: pa.StringArray) -> tuple[int, int]:
    """How many texts can only be hexadecimal, and how many only base64. What may be both, neither or is empty does not
    count."""
    texts = _trimmed(texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts)
    prefixed = _prefixed(texts)
    buffer, start, end = _content(texts)
    there = ~_nulls(texts) & (end > start)
    is_hex = there & ~_has(_HEX[buffer] == _NONE, start, end)
    is_base64 = there & ~prefixed & _may_be_base64(buffer, start, end)
    return int(np.count_nonzero(prefixed | (is_hex & ~is_base64))), int(np.count_nonzero(is_base64 & ~is_hex))


def _trimmed(texts: pa.StringArray) -> pa.StringArray:
    return pc.ascii_trim_whitespace(texts)


def _prefixed(texts: pa.StringArray) -> Bools:
    r"""Which texts begin with ``0x`` or ``\x``."""
    buffer, start, end = _content(texts)
    found: Bools = end - start >= 2
    if found.any():
        first = np.where(found, start, 0)
        found = found & (buffer[first + found] | 0x20 == ord("x"))
        found &= (buffer[first] == ord("0")) | (buffer[first] == ord("\\"))
    return found


def _from_hex(texts: pa.StringArray, values: Bytes, good: Bools) -> pa.BinaryArray:
    """The bytes of texts that are hexadecimal digits, of which ``values`` are the values; null where ``good`` is
    false."""
    _, start, end = _content(texts)
    odd = good & ((end - start) & 1 == 1)
    if odd.any() or not good.all():
        texts = pc.if_else(pa.array(good), texts, pa.scalar("", pa.string()))
        zero = pa.array(["", "0"]).take(pa.array(odd.astype(np.int8)))
        buffer, start, end = _content(pc.binary_join_element_wise(zero, texts, ""))
        values = _HEX[buffer]
    first, last = (int(start[0]), int(end[-1])) if len(start) else (0, 0)
    pairs: Bytes = values[first:last:2] << np.uint8(4) | values[first + 1 : last : 2]
    return _binary(pairs, (start - first) // 2, (end - first) // 2, ~good)


def _may_be_base64(buffer: Bytes, start: Ints, end: Ints) -> Bools:
    """Digits in groups of four, of which the last may end in one or two signs of padding."""
    size = end - start
    pads = _padding(buffer, start, end)
    found: Bools = (size % 4 == 0) & (size > pads) & ~_has(_BASE64[buffer] == _NONE, start, end - pads)
    return found


def _padding(buffer: Bytes, start: Ints, end: Ints) -> Ints:
    """How many of the last two characters are signs of padding."""
    pads = np.zeros(len(start), dtype=np.int64)
    for back in (1, 2):
        there = (end - start >= back) & (pads == back - 1)
        pads[there] += buffer[end[there] - back] == ord("=")
    return pads


def _from_base64(buffer: Bytes, start: Ints, end: Ints, good: Bools) -> pa.BinaryArray:
    """The bytes of texts that are base64; null where ``good`` is false."""
    pads = np.where(good, _padding(buffer, start, end), 0)
    chosen = slices(buffer, start[good], end[good])
    digits, first, last = _content(chosen)
    groups = np.where(_BASE64[digits] == _NONE, 0, _BASE64[digits]).reshape(-1, 4).astype(np.uint32)
    number = groups[:, 0] << 18 | groups[:, 1] << 12 | groups[:, 2] << 6 | groups[:, 3]
    values = np.stack([number >> 16, number >> 8, number], axis=1).astype(np.uint8).reshape(-1)
    begin, stop = np.zeros((2, len(start)), dtype=np.int64)
    begin[good], stop[good] = first // 4 * 3, last // 4 * 3 - pads[good]
    begin = np.maximum.accumulate(np.where(good, begin, 0))
    return _binary(values, begin, np.where(good, stop, begin), ~good)


def _binary(values: Bytes, start: Ints, end: Ints, null: Bools) -> pa.BinaryArray:
    """Runs of bytes; a run that is null is empty."""
    return slices(values, start, end, null) if len(start) else pa.array([], pa.binary())


# --- bits -------------------------------------------------------------------------------------------------------------


def bits(masks: pa.BinaryArray, order: str, width: int) -> tuple[Bools, Bools]:
    """The bits 0 to ``width`` - 1 of each mask, a row for each; and which masks have a bit set behind those.

    Bytes that are missing are 0, and a mask that is null has no bit set.
    """
    buffer, start, end = _content(masks)
    size = np.where(_nulls(masks), 0, end - start)
    room = -(-width // 8)
    matrix = _matrix(buffer, start, size, order, room)
    found: Bools = np.unpackbits(matrix.reshape(-1), bitorder="little").view(np.bool_).reshape(len(start), room * 8)
    beyond: Bools = np.zeros(len(start), dtype=np.bool_)
    if width % 8:
        beyond |= matrix[:, -1] >> (width % 8) != 0
    longer = size > room
    if longer.any():
        behind = (start + room, start + size) if order == "little" else (start, start + size - room)
        beyond |= longer & _has(buffer != 0, *(np.where(longer, edge, start) for edge in behind))
    return found[:, :width], beyond


def _matrix(buffer: Bytes, start: Ints, size: Ints, order: str, room: int) -> Bytes:
    """The first ``room`` bytes of each mask, byte 0 being the one that holds bit 0; 0 where the mask has none."""
    count = len(start)
    if count == 0 or room == 0:
        return np.zeros((count, room), dtype=np.uint8)
    one = int(size[0])
    if one and (size == one).all() and int(start[-1]) - int(start[0]) == one * (count - 1):
        there = buffer[int(start[0]) : int(start[0]) + one * count].reshape(count, one)
        there = there[:, :room] if order == "little" else there[:, ::-1][:, :room]
        if one >= room:
            return np.ascontiguousarray(there)
        matrix = np.zeros((count, room), dtype=np.uint8)
        matrix[:, :one] = there
        return matrix
    used = min(room, int(size.max()))
    step = np.arange(used)
    places = start[:, None] + step if order == "little" else (start + size - 1)[:, None] - step
    inside = step < size[:, None]
    matrix = np.zeros((count, room), dtype=np.uint8)
    if used:
        matrix[:, :used] = np.where(inside, buffer[np.where(inside, places, 0)], 0)
    return matrix


def names(bits: Bools, columns: Sequence[str], null: Bools) -> pa.ListArray:
    """The names of the columns whose bit is set, in ordinal order: ``columns[n]`` is bit n, and there are as many as
    ``bits`` has columns. Null where ``null`` is true."""
    there = _in_words(bits & ~null[:, None] if null.any() else bits)
    offsets = np.zeros(len(bits) + 1, dtype=np.int32)
    np.cumsum(_set_in(there), out=offsets[1:])
    values = pa.array(list(columns), pa.string()).take(_columns_of(there))
    return pa.ListArray.from_arrays(pa.array(offsets, mask=np.append(null, False)), values)


def _in_words(bits: Bools) -> Bools:
    """The same bits in rows of whole words of eight."""
    count, width = bits.shape
    padded = np.zeros((count, -(-width // 8) * 8), dtype=np.bool_)
    padded[:, :width] = bits
    return padded


def _set_in(bits: Bools) -> Ints:
    """How many bits of each row are set; rows are words of eight."""
    words = bits.view(np.uint64)
    if words.shape[1] > _MOST_WORDS:
        total: Ints = np.bitwise_count(words).sum(axis=1, dtype=np.int64)
        return total
    total = np.zeros(len(bits), dtype=np.int64)
    for column in range(words.shape[1]):
        total += np.bitwise_count(words[:, column])
    return total


def _columns_of(bits: Bools) -> pa.Array:
    """The column of every bit that is set, row after row: those that a filter lets through from the columns of some
    rows. Several times as fast as numpy's nonzero where bits are neither few nor most."""
    count, width = bits.shape
    number = np.int16 if width < 1 << 15 else np.int32
    if not bits.size:
        return pa.array([], pa.from_numpy_dtype(number))
    flags = pa.py_buffer(np.packbits(bits, bitorder="little"))
    rows = max(1, min(count, _BLOCK // width))
    columns = pa.array(np.tile(np.arange(width, dtype=number), rows))
    found = []
    for first in range(0, count, rows):
        size = min(rows, count - first) * width
        chosen = pa.Array.from_buffers(pa.bool_(), size, [None, flags], offset=first * width)
        found.append(columns.slice(0, size).filter(chosen))
    return pa.concat_arrays(found)


def pack(bits: Bools, order: str, length: int | None = None) -> pa.BinaryArray:
    """Masks from bits, the inverse of :func:`bits`; each of ``length`` bytes, or of as many as the bits need.

    Raises ValueError for bits that do not fit into ``length`` bytes.
    """
    matrix = np.packbits(bits, axis=1, bitorder="little")
    if length is not None:
        if matrix[:, length:].any():
            raise ValueError(f"{bits.shape[1]} bits do not fit into {length} bytes")
        matrix = np.pad(matrix[:, :length], ((0, 0), (0, max(0, length - matrix.shape[1]))))
    if order == "big":
        matrix = matrix[:, ::-1]
    count, size = matrix.shape
    edges = np.arange(count + 1, dtype=np.int64) * size
    return _binary(np.ascontiguousarray(matrix).reshape(-1), edges[:-1], edges[1:], np.zeros(count, dtype=np.bool_))


# --- evidence ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Votes:
    """Masks that can only have the one byte order or the other, how many were looked at, and an example of each."""

    little: int = 0
    big: int = 0
    masks: int = 0
    little_example: str = ""
    big_example: str = ""

    def __add__(self, other: Votes) -> Votes:
        return Votes(
            self.little + other.little,
            self.big + other.big,
            self.masks + other.masks,
            self.little_example or other.little_example,
            self.big_example or other.big_example,
        )

    @property
    def order(self) -> str | None:
        """The order that most masks have; None where nothing tells."""
        return None if self.little == self.big else "little" if self.little > self.big else "big"

    @property
    def example(self) -> str:
        """The example of the order that most masks have."""
        return self.little_example if self.order == "little" else self.big_example if self.order == "big" else ""


def vote(
    masks: pa.BinaryArray, width: int, *, header: int = 0, expected: Bools | None = None, compared: Bools | None = None
) -> Votes:
    """What masks of ``width`` columns, of which the first ``header`` are header columns, say of their byte order.

    A mask votes where it has no bits outside of ``[header, width)`` under one order only; or else where its bits are
    those of ``expected`` (rows by ``width``) under one order only. ``compared`` says for which rows something is
    expected (None: all). Masks that are null, or read the same both ways, do not vote.
    """
    little, big = (_Reading.of(masks, order, width, header, expected, compared) for order in ("little", "big"))
    tells = little.inside != big.inside
    for_little = np.where(tells, little.inside, little.equal & ~big.equal)
    for_big = np.where(tells, big.inside, big.equal & ~little.equal)
    return Votes(
        int(np.count_nonzero(for_little)),
        int(np.count_nonzero(for_big)),
        len(masks) - masks.null_count,
        _example(masks, for_little, little, width),
        _example(masks, for_big, big, width),
    )


@dataclass(frozen=True, slots=True)
class _Reading:
    """Masks read in one order: their bits, which have none outside the data columns, and which are as expected."""

    bits: Bools
    inside: Bools
    equal: Bools

    @classmethod
    def of(
        cls,
        masks: pa.BinaryArray,
        order: str,
        width: int,
        header: int,
        expected: Bools | None,
        compared: Bools | None,
    ) -> _Reading:
        found, beyond = bits(masks, order, width)
        equal = np.zeros(len(found), dtype=np.bool_)
        if expected is not None:
            equal = (found == expected).all(axis=1) & ~_nulls(masks)
            equal = equal if compared is None else equal & compared
        return cls(found, ~beyond & ~found[:, :header].any(axis=1), equal)


def _example(masks: pa.BinaryArray, votes: Bools, reading: _Reading, width: int) -> str:
    if not votes.any():
        return ""
    at = int(np.argmax(votes))
    digits = masks[at].as_py().hex().upper()
    short = digits if len(digits) <= 40 else f"{digits[:40]}…"
    found = np.flatnonzero(reading.bits[at])
    shown = ", ".join(map(str, found[:12].tolist())) + (", …" if len(found) > 12 else "")
    return f"{short} of {width} columns is bits {shown}" if len(found) else f"{short} of {width} columns has no bits"


# --- arrays -----------------------------------------------------------------------------------------------------------


def _content(array: pa.Array) -> tuple[Bytes, Ints, Ints]:
    """The bytes of a string or binary array, and where each value begins and ends in them."""
    if not len(array):
        return np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int64)
    if not (pa.types.is_string(array.type) or pa.types.is_binary(array.type)):
        array = array.cast(pa.string() if pa.types.is_large_string(array.type) else pa.binary())
    _, edges, data = array.buffers()
    offsets = np.frombuffer(edges, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    buffer = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)[: int(offsets[-1])]
    return buffer, offsets[:-1], offsets[1:]


def _nulls(array: pa.Array) -> Bools:
    if not array.null_count:
        return np.zeros(len(array), dtype=np.bool_)
    found: Bools = pc.is_null(array).to_numpy(zero_copy_only=False)
    return found


def _has(flags: Bools, start: Ints, end: Ints) -> Bools:
    """Which runs ``[start, end)`` hold a flag."""
    if not flags.any():
        return np.zeros(len(start), dtype=np.bool_)
    before = np.zeros(len(flags) + 1, dtype=np.int64)
    np.cumsum(flags, out=before[1:])
    found: Bools = before[end] > before[start]
    return found


def disagreement(by_mask: Sequence[str], by_images: Sequence[str]) -> str:
    """The warning about a mask that contradicts the images: the columns that only the mask has as changed, and those
    that only the images have."""

    def listed(columns: Sequence[str]) -> str:
        more = f" and {len(columns) - NAMED} more" if len(columns) > NAMED else ""
        return (", ".join(columns[:NAMED]) or "none") + more

    return f"{DISAGREE}; changed by the mask only: {listed(by_mask)}; by the images only: {listed(by_images)}"
