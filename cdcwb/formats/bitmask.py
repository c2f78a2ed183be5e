"""Masks as sets of columns: from text to bytes, to bits, to columns.

Bit n of a mask is the column with ordinal n + 1 (in change tables header columns included). ``order``: ``big`` if the
bytes are a number in big-endian order, so that the last byte has bits 0 to 7; ``little`` if byte 0 has them. Within a
byte, bit 0 is its lowest (docs/formats/qlik-kafka.md §7, docs/formats/qlik-change-table.md §4).

A mask may have any length: missing bytes are 0. All functions process complete arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import as_array, bitmap, content_of
from cdcwb.formats.kernels import Bools, Bytes, Int, Ints, kernel
from cdcwb.words import joined, plural

DISAGREE: Final = "change mask and images disagree; the mask is used"
"""The beginning of the warning about a mask that contradicts the images of its change."""

NAMED: Final = 5
"""Columns that the warning names for the mask and for the images; it counts the others."""

ORDERS: Final = ("big", "little")
"""The two byte orders."""

HEX: Final = "hex"
BASE64: Final = "base64"
"""The encodings of the text of a mask."""

_NONE: Final = 0xFF
_HEX: Final = np.full(256, _NONE, dtype=np.uint8)
for _digit in b"0123456789abcdefABCDEF":
    _HEX[_digit] = int(chr(_digit), 16)
_BASE64: Final = np.full(256, _NONE, dtype=np.uint8)
for _value, _digit in enumerate(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"):
    _BASE64[_digit] = _value
_IS_HEX, _IS_BASE64, _IS_PREFIXED = 1, 2, 4  # bits: possible encodings of a text


# --- text -------------------------------------------------------------------------------------------------------------


def parse(texts: pa.StringArray, shape: str | None = None) -> tuple[pa.BinaryArray, Bools]:
    r"""The bytes of texts, in written order; and a mask of invalid texts (whose bytes are null). Accepted are ``0x…``
    and ``\x…``, bare hexadecimal digits in any case (an odd number of them gets a leading zero), and base64. An
    ambiguous text is hexadecimal, unless ``shape`` is :data:`BASE64`; with :data:`HEX` nothing is read as base64. White
    space around a text is ignored. An empty text has no bytes; null stays null.
    """
    kinds, null, data, edges = _decoded(texts, shape)
    wrong: Bools = ~null & (kinds & (_IS_HEX if shape == HEX else _IS_HEX | _IS_BASE64) == 0)
    buffers = [bitmap(~(null | wrong)), pa.py_buffer(edges.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(null), buffers), wrong


def spelling(texts: pa.StringArray) -> tuple[int, int]:
    """The numbers of texts that can only be hexadecimal, and only base64. Ambiguous, invalid and empty texts do not
    count."""
    kinds, _, _, edges = _decoded(texts, None)
    kinds = kinds[(np.diff(edges) > 0) | (kinds & _IS_PREFIXED > 0)]
    only = (kinds & _IS_PREFIXED > 0) | (kinds == _IS_HEX)
    return int(np.count_nonzero(only)), int(np.count_nonzero(kinds == _IS_BASE64))


def only_base64(texts: pa.StringArray) -> Bools:
    """A mask of the texts that can only be base64."""
    only: Bools = _decoded(texts, None)[0] == _IS_BASE64
    return only


def _decoded(texts: pa.StringArray, shape: str | None) -> tuple[Bytes, Bools, Bytes, Ints]:
    """For each text its possible encodings and whether it is null, and the bytes of all with their edges."""
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks()
    buffer, bounds = content_of(texts)
    null = as_array(pc.is_null(texts))
    start, end = bounds[:-1], np.where(null, bounds[:-1], bounds[1:])
    kinds, edges = np.zeros(len(start), dtype=np.uint8), np.zeros(len(start) + 1, dtype=np.int64)
    data = np.empty(int((end - start).sum()) + 1, dtype=np.uint8)
    _decode(buffer, start, end, shape == BASE64, shape == HEX, kinds, data, edges)
    return kinds, null, data[: edges[-1]], edges


@kernel
def _decode(
    buffer: Bytes, start: Ints, end: Ints, prefer_base64: bool, only_hex: bool, kinds: Bytes, data: Bytes, edges: Ints
) -> None:
    """Fills ``kinds``, ``data`` and ``edges``."""
    at: Int = np.int64(0)
    for row in range(len(start)):
        first: Int = start[row]
        last: Int = end[row]
        while first < last and (buffer[first] == 32 or 9 <= buffer[first] <= 13):
            first += 1
        while first < last and (buffer[last - 1] == 32 or 9 <= buffer[last - 1] <= 13):
            last -= 1
        kind = _IS_HEX
        if last - first >= 2 and buffer[first + 1] | 32 == 120 and (buffer[first] == 48 or buffer[first] == 92):
            kind |= _IS_PREFIXED
            first += 2
        padding = 0
        while padding < 2 and first < last - padding and buffer[last - 1 - padding] == 61:
            padding += 1
        if kind == _IS_HEX and (last - first) % 4 == 0 and last - first > padding:
            kind |= _IS_BASE64
        for place in range(first, last):
            if _HEX[buffer[place]] == _NONE:
                kind &= ~_IS_HEX
            if place < last - padding and _BASE64[buffer[place]] == _NONE:
                kind &= ~_IS_BASE64
        kinds[row] = kind
        if kind & _IS_HEX and not (prefer_base64 and kind & _IS_BASE64):
            number: Int = np.int64(0)
            for place in range(first, last):
                number = (number << 4 | np.int64(_HEX[buffer[place]])) & 255
                if (last - place) % 2:
                    data[at] = number
                    at += 1
        elif kind & _IS_BASE64 and not only_hex:
            number = np.int64(0)
            for place in range(first, last - padding):
                number = (number << 6 | np.int64(_BASE64[buffer[place]])) & 0xFFFFFF
                step = (place - first) % 4
                if step:
                    data[at] = number >> (6 - 2 * step) & 255
                    at += 1
        edges[row + 1] = at


# --- bits -------------------------------------------------------------------------------------------------------------


def bits(masks: pa.BinaryArray, order: str, width: int) -> tuple[Bools, Bools]:
    """The bits 0 to ``width`` - 1 of each mask, a row for each; and a flag for masks with a higher bit set. Missing
    bytes are 0, and a null mask has no bit set.
    """
    buffer, bounds = content_of(masks)
    start, size = bounds[:-1], np.where(as_array(pc.is_null(masks)), 0, np.diff(bounds))
    room = -(-width // 8)
    aligned = np.zeros((len(start), room), dtype=np.uint8)
    beyond = np.zeros(len(start), dtype=np.bool_)
    _align(buffer, start, size, order == "little", width, aligned, beyond)
    found: Bools = np.unpackbits(aligned.reshape(-1), bitorder="little").view(np.bool_).reshape(len(start), 8 * room)
    return found[:, :width], beyond


@kernel
def _align(buffer: Bytes, start: Ints, size: Ints, is_little: bool, width: Int, aligned: Bytes, beyond: Bools) -> None:
    """Copies the bytes with the bits below ``width`` (bit 0 in byte 0); and sets a flag for masks with others set."""
    for row in range(len(start)):
        for place in range(size[row]):
            byte = buffer[start[row] + (place if is_little else size[row] - 1 - place)]
            if 8 * place < width:
                aligned[row, place] = byte
            if byte and 8 * (place + 1) > width and (8 * place >= width or byte >> (width % 8)):
                beyond[row] = True


def names(bits: Bools, columns: Sequence[str], null: Bools) -> pa.ListArray:
    """The names of the columns whose bit is set, in ordinal order: ``columns[n]`` is bit n, and there are as many as
    ``bits`` has columns. Null if ``null`` is true."""
    shown = bits & ~null[:, None]
    offsets = np.append(0, np.cumsum(np.count_nonzero(shown, axis=1))).astype(np.int32)
    numbers = (np.flatnonzero(shown) % max(1, shown.shape[1])).astype(np.int32)
    values = pa.array(list(columns), pa.string()).take(pa.array(numbers))
    return pa.ListArray.from_arrays(pa.array(offsets, mask=np.append(null, False)), values)


# --- evidence ---------------------------------------------------------------------------------------------------------

FURTHEST: Final = 64
"""The highest offset that is tried."""

_EXACT: Final = 5  # weight of a mask that equals the expected columns
_MOST_EXAMPLES: Final = 2


@dataclass(slots=True)
class MaskEvidence:
    """Which byte orders and offsets fit masks. ``counts``, by order and offset (the bit of the first column): the
    masks with bits of columns only, and those that equal the expected columns. ``masks``: those with a bit set;
    ``compared``: those of them with expected columns."""

    masks: int = 0
    compared: int = 0
    counts: Ints = field(default_factory=lambda: np.zeros((len(ORDERS), FURTHEST + 1, 2), np.int64))
    examples: list[str] = field(default_factory=list)

    def __add__(self, other: MaskEvidence) -> MaskEvidence:
        both = MaskEvidence(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))
        both.examples = both.examples[:_MOST_EXAMPLES]
        return both

    def fits(self, order: str, offset: int) -> tuple[int, int]:
        """The masks that an order and offset fit: with bits of columns only, and as expected."""
        if offset > FURTHEST:
            return 0, 0
        inside, same = self.counts[ORDERS.index(order), offset].tolist()
        return inside, same

    def score(self, order: str, offset: int) -> int:
        """How well an order and offset fit."""
        inside, same = self.fits(order, offset)
        return inside + _EXACT * same

    def order_evidence(self, order: str, offset: int) -> tuple[bool, str]:
        """Whether the masks fit an order better than the other one, and a sentence."""
        other = ORDERS[1 - ORDERS.index(order)]
        (inside, same), (inside_other, same_other) = self.fits(order, offset), self.fits(other, offset)
        said = f"of {plural(self.masks, 'mask')}, {inside} have bits of columns only, in the other order {inside_other}"
        if self.compared:
            said += f"; {same} against {same_other} of {self.compared} agree with images, key or INSERT"
        examples = f"e.g. {joined(self.examples)}" if self.examples else "no examples"
        return self.score(order, offset) > self.score(other, offset), f"{said}; {examples}"


def evidence_of(masks: pa.BinaryArray, expected: Bools, is_known: Bools, furthest: int = FURTHEST) -> MaskEvidence:
    """The evidence of masks. ``expected``: rows by columns; ``is_known``: the rows in which these are known;
    ``furthest``: the highest offset."""
    evidence, width, offsets = MaskEvidence(), expected.shape[1], np.arange(furthest + 1)
    for order, counts in zip(ORDERS, evidence.counts, strict=True):
        found, beyond = bits(masks, order, furthest + width)
        some = found.any(axis=1)
        evidence.masks = int(np.count_nonzero(some | beyond))
        evidence.compared = int(np.count_nonzero((some | beyond) & is_known))
        if not found.shape[1]:
            continue
        lowest, highest = found.argmax(axis=1), found.shape[1] - 1 - found[:, ::-1].argmax(axis=1)
        fits = (lowest >= offsets[:, None]) & (highest < offsets[:, None] + width) & some & ~beyond
        counts[: furthest + 1, 0] = fits.sum(axis=1)
        for offset in np.flatnonzero((fits & is_known).any(axis=1)).tolist():
            known = fits[offset] & is_known
            counts[offset, 1] = (found[known, offset : offset + width] == expected[known]).all(axis=1).sum()
    examples = masks.filter(pc.greater(pc.binary_length(masks), 0))[:_MOST_EXAMPLES].to_pylist()
    evidence.examples = [shortened(one.hex().upper()) for one in examples]
    return evidence


def shortened(digits: str) -> str:
    """The first digits of a mask."""
    return digits if len(digits) <= 40 else f"{digits[:40]}…"


def disagreement(by_mask: Sequence[str], by_images: Sequence[str]) -> str:
    """The warning about a mask that contradicts the images: the columns that changed only by the mask, and only by the
    images."""

    def listed(columns: Sequence[str]) -> str:
        more = f" and {len(columns) - NAMED} more" if len(columns) > NAMED else ""
        return (", ".join(columns[:NAMED]) or "none") + more

    return f"{DISAGREE}; changed by the mask only: {listed(by_mask)}; by the images only: {listed(by_images)}"
