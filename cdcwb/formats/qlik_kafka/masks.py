"""The masks of data messages against their versions and images (docs/formats/qlik-kafka.md §7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats import bitmask
from cdcwb.formats.arrays import as_array
from cdcwb.formats.bitmask import MaskEvidence
from cdcwb.formats.kernels import Ints
from cdcwb.formats.qlik_kafka.decode import Bools, DecodedMessages
from cdcwb.formats.qlik_kafka.layout import LOBS, MASKS, WireForm
from cdcwb.model import Operation, Problem

Report = Callable[[int, Problem, str], None]
"""Takes a problem: the number of a data message (an index in ``DecodedMessages.rows``), code, sentence."""


@dataclass(slots=True)
class ImageValues:
    """The values of an image of some data messages: for each its row (an index in ``DecodedMessages.rows``), the index
    of its column's name, the number of its text, and its bit in masks (-1: none)."""

    row: Ints
    name: Ints
    number: Ints
    bit: Ints

    @classmethod
    def of(cls, decoded: DecodedMessages, which: int, rows: Ints) -> ImageValues:
        """The values of ``data`` (0) or ``beforeData`` (1), or of its key columns (2, 3); ``rows`` are those that have
        it."""
        flat = decoded.columns[1][which]
        messages = decoded.rows[rows]
        of, item = flat.spread(decoded.group[messages])
        name, number, bit = flat.rows[item].T
        return cls(rows[of], name, number + decoded.origin[messages[of]], bit)

    def take(self, chosen: Any) -> ImageValues:
        """Some of the values."""
        return ImageValues(self.row[chosen], self.name[chosen], self.number[chosen], self.bit[chosen])


@dataclass
class MessageMasks:
    """The masks of the data messages of a batch. ``bits``: rows by bits, for ``changeMask`` and ``columnMask``;
    ``null``: rows without a mask; ``width``: the number of columns of each row; ``names``: the column of each bit."""

    decoded: DecodedMessages
    report: Report
    masks: list[pa.BinaryArray] = field(init=False)
    bits: list[Bools] = field(init=False)
    null: list[Bools] = field(init=False)

    def __post_init__(self) -> None:
        decoded = self.decoded
        self.versions = {id(one.version): one.version for one in decoded.groups if one.version is not None}
        columns = [version.bits for version in self.versions.values()]
        index = {identity: at for at, identity in enumerate(self.versions)}
        of_group = np.array([index.get(id(one.version), len(index)) for one in decoded.groups], dtype=np.int64)
        size = np.array([*map(len, columns), 0], dtype=np.int64)
        self.version = of_group[decoded.group[decoded.rows]] if len(decoded.rows) else decoded.rows
        self.width = size[self.version]
        self.start = (np.cumsum(size) - size)[self.version]
        self.names = [name for some in columns for name in some]
        little = np.array([one.mask_order == "little" for one in decoded.groups], dtype=np.bool_)
        self.little = little[decoded.group[decoded.rows]] if len(decoded.rows) else np.zeros(0, np.bool_)
        self.texts = [decoded.header(name) for name in MASKS]
        self.masks, self.bits, self.null = [], [], []
        for name, texts in zip(MASKS, self.texts, strict=True):
            masks, wrong = bitmask.parse(texts)
            for row in np.flatnonzero(wrong).tolist():
                found = f"{texts[row].as_py()!r:.60}"
                self.report(row, Problem.MASK, f"{name}: expected hexadecimal digits, found {found}")
            self.masks.append(masks)
            self.null.append(as_array(pc.is_null(masks)) | (self.version == len(columns)))

    def read(self) -> None:
        """Fills ``bits``; reports bits beyond the columns."""
        most = int(self.width.max(initial=0))
        for name, masks, null in zip(MASKS, self.masks, self.null, strict=True):
            bits, beyond = bitmask.bits(masks, "big", most)
            if self.little.any():
                other, more = bitmask.bits(masks, "little", most)
                bits, beyond = np.where(self.little[:, None], other, bits), np.where(self.little, more, beyond)
            if (self.width < most).any():
                outside = np.arange(most) >= self.width[:, None]
                beyond = beyond | (bits & outside).any(axis=1)
                bits = bits & ~outside
            for row in np.flatnonzero(beyond & ~null).tolist():
                digits, width = masks[row].as_py().hex().upper(), self.width[row]
                self.report(row, Problem.MASK, f"{name} {digits:.60} has bits beyond the {width} columns")
            bits[null] = False
            self.bits.append(bits)

    def columns(self, which: int) -> pa.ListArray:
        """The names of the columns of a mask's bits; null without a mask."""
        row, bit = np.nonzero(self.bits[which])
        number = self.start[row] + bit
        if "" in self.names:  # an ordinal that no column has
            named = np.array([name != "" for name in self.names], dtype=np.bool_)[number]
            row, number = row[named], number[named]
        null = self.null[which]
        offsets = np.zeros(len(null) + 1, dtype=np.int32)
        np.cumsum(np.bincount(row, minlength=len(null)), out=offsets[1:])
        names = pa.array(self.names, pa.string()).take(pa.array(number))
        return pa.ListArray.from_arrays(pa.array(offsets, mask=np.append(null, False)), names)

    def absent(self, images: Sequence[ImageValues]) -> Bools | None:
        """Which columns (rows by bits) were not captured: their bit in ``columnMask`` is 0, and no image has a value of
        them, which is reported. None: all were captured."""
        missing = ~self.bits[1] & ~self.null[1][:, None] & (np.arange(self.bits[1].shape[1]) < self.width[:, None])
        if not missing.any():
            return None
        valued = np.zeros_like(missing)
        for cells in images:
            some = cells.take(cells.bit >= 0)
            some = some.take(missing[some.row, some.bit])
            some = some.take(as_array(pc.is_valid(self.decoded.texts.take(some.number))))
            valued[some.row, some.bit] = True
        for row in np.flatnonzero(valued.any(axis=1)).tolist():
            found = [self.names[self.start[row] + bit] for bit in np.flatnonzero(valued[row])[: bitmask.NAMED].tolist()]
            sentence = f"by columnMask {', '.join(found)} was not captured, but the row has a value"
            self.report(row, Problem.MASK_IMAGES, sentence)
        found_missing: Bools = missing & ~valued
        return found_missing

    def compared(self, data: ImageValues, before: ImageValues, rows: Bools) -> tuple[Ints, Ints, Bools]:
        """The columns that both images of some rows have: row, bit, and whether the values differ. Large objects, which
        are in no mask, are not among them."""
        lobs: list[bool] = []
        for version in self.versions.values():
            large = {column.ordinal for column in version.columns if column.type in LOBS}
            lobs += [bit + 1 in large for bit in range(len(version.bits))]
        one, other = (cells.take((cells.bit >= 0) & rows[cells.row]) for cells in (data, before))
        if any(lobs):
            is_lob = np.array(lobs, dtype=np.bool_)
            one, other = (some.take(~is_lob[self.start[some.row] + some.bit]) for some in (one, other))
        if not (np.array_equal(one.row, other.row) and np.array_equal(one.bit, other.bit)):
            keys = [(some.row << 32) + some.bit for some in (one, other)]
            _, here, there = np.intersect1d(keys[0], keys[1], assume_unique=True, return_indices=True)
            one, other = one.take(here), other.take(there)
        mine, its = (self.decoded.texts.take(some.number) for some in (one, other))
        differs = as_array(pc.fill_null(pc.not_equal(mine, its), False))
        return one.row, one.bit, differs | as_array(pc.xor(pc.is_null(mine), pc.is_null(its)))

    def compare(self, data: ImageValues, before: ImageValues, rows: Bools, absent: Bools | None) -> None:
        """Reports those of some updates whose change mask contradicts their images."""
        row, bit, differs = self.compared(data, before, rows & ~self.null[0])
        changed = self.bits[0][row, bit]
        wrong = differs != changed
        if absent is not None:
            wrong &= ~absent[row, bit]
        names: dict[int, tuple[list[str], list[str]]] = {}
        for at in np.flatnonzero(wrong).tolist():
            by = names.setdefault(int(row[at]), ([], []))
            by[0 if changed[at] else 1].append(self.names[self.start[row[at]] + bit[at]])
        for number, (by_mask, by_images) in names.items():
            version = self.decoded.groups[self.decoded.group[self.decoded.rows[number]]].version
            hint = " (no mask names a LOB column, and without metadata none is known)"
            unknown = hint if by_images and not (version and version.schema_id) else ""
            self.report(number, Problem.MASK_IMAGES, bitmask.disagreement(by_mask, by_images) + unknown)


# --- byte order -------------------------------------------------------------------------------------------------------


def evidence_of(decoded: DecodedMessages, is_printed_avro: bool) -> MaskEvidence:
    """The evidence about the byte order of masks in Avro messages, or in messages that were printed from Avro as JSON:
    column masks have bits of columns only, change masks also agree with the images."""
    found, rows = MaskEvidence(), decoded.rows
    masks = MessageMasks(decoded, lambda *_: None)
    updates = as_array(pc.fill_null(pc.equal(decoded.header("operation"), str(Operation.UPDATE)), False))
    both = updates & decoded.has[0, rows] & decoded.has[1, rows]
    images = [ImageValues.of(decoded, which, np.flatnonzero(both)) for which in (0, 1)]
    row, bit, differs = masks.compared(images[0], images[1], both)
    row, bit = row[differs], bit[differs]
    is_avro = is_printed_avro | (decoded.forms[rows] != WireForm.JSON)
    for number, group in enumerate(decoded.groups):
        some = np.flatnonzero((decoded.group[rows] == number) & is_avro)
        if not len(some) or group.version is None:
            continue
        expected = np.zeros((len(some), len(group.version.bits)), dtype=np.bool_)
        here = np.isin(row, some)
        expected[np.searchsorted(some, row[here]), bit[here]] = True
        changed, masked = (one.take(pa.array(some)) for one in masks.masks)
        found += bitmask.evidence_of(masked, expected, np.zeros(len(some), np.bool_), furthest=0)
        found += bitmask.evidence_of(changed, expected, both[some], furthest=0)
    return found
