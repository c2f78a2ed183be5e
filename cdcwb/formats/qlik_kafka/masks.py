"""The masks of data messages against their versions and images (docs/formats/qlik-kafka.md §7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats import bitmask
from cdcwb.formats.arrays import as_array
from cdcwb.formats.bitmask import MaskEvidence
from cdcwb.formats.changes import are_same
from cdcwb.formats.kernels import Bools, Ints
from cdcwb.formats.qlik_kafka.decode import DecodedMessages, MessageGroup
from cdcwb.formats.qlik_kafka.layout import LOBS, MASKS, WireForm
from cdcwb.model import Operation, Problem

Report = Callable[[int, Problem, str], None]
"""Takes a problem: the number of a message, code, sentence."""


class MessageMasks:
    """The masks of a batch of messages. ``bits``: messages by bits, for ``changeMask`` and ``columnMask``; ``null``:
    messages without a mask; ``width``: the number of columns of each message; ``names``: the column of each bit, those
    of a message from ``start`` on."""

    def __init__(self, decoded: DecodedMessages, report: Report) -> None:
        self.decoded, self.report = decoded, report
        groups, group = decoded.groups, decoded.group
        bits_of = {id(one.version): one.version.bits for one in groups if one.version is not None}
        columns = [bits_of.get(id(one.version), []) for one in groups]
        size = np.array([*map(len, columns), 0], dtype=np.int64)  # the last one for messages without a group
        self.width, self.start = size[group], (np.cumsum(size) - size)[group]
        self.names = [name for some in columns for name in some]
        self.little = np.array([*(one.mask_order == "little" for one in groups), False], dtype=np.bool_)[group]
        is_unknown = np.array([*(one.version is None for one in groups), True], dtype=np.bool_)[group]
        self.masks, self.bits, self.null = list[pa.BinaryArray](), list[Bools](), list[Bools]()
        both = [decoded.header(name) for name in MASKS]
        is_base64 = np.logical_or(*map(bitmask.only_base64, both))  # one of a message shows it for the other (§7.2)
        self.little |= is_base64 & (decoded.mask_order == "little")
        for name, texts in zip(MASKS, both, strict=True):
            masks, wrong = bitmask.parse(texts)
            if is_base64.any():
                masks = pc.if_else(pa.array(is_base64), bitmask.parse(texts, bitmask.BASE64)[0], masks)
            for row in np.flatnonzero(wrong).tolist():
                found = f"{texts[row].as_py()!r:.60}"
                report(row, Problem.MASK, f"{name}: expected hexadecimal digits, found {found}")
            self.masks.append(masks)
            self.null.append(as_array(pc.is_null(masks)) | is_unknown)

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

    def absent(self) -> Bools | None:
        """Which columns (messages by bits) were not captured: their bit in ``columnMask`` is 0, and no image has a
        value of them, which is reported. None: all were captured."""
        missing = ~self.bits[1] & ~self.null[1][:, None] & (np.arange(self.bits[1].shape[1]) < self.width[:, None])
        if not missing.any():
            return None
        valued = np.zeros_like(missing)
        is_asked = missing.any(axis=1)
        for group, messages in self.decoded.members:
            for image, has in zip(group.images, self.decoded.has, strict=True):
                known = {name: number for name, number in (image or {}).items() if name in group.bit_of}
                some = messages[(has & is_asked)[messages]]
                valued[some[:, None], group.bits(known)] |= self.decoded.are_valid(known, some)
        for row in np.flatnonzero((valued & missing).any(axis=1)).tolist():
            bits = np.flatnonzero(valued[row] & missing[row])[: bitmask.NAMED].tolist()
            found = ", ".join(self.names[self.start[row] + bit] for bit in bits)
            sentence = f"by columnMask {found} was not captured, but the row has a value"
            self.report(row, Problem.MASK_IMAGES, sentence)
        return missing & ~valued

    def compared(self, asked: Bools) -> Iterator[tuple[MessageGroup, Ints, Ints, Bools]]:
        """For each group the messages that are asked, which have both images, the bits of the columns that both have,
        and which of their values differ (messages by these columns). Large objects, which are in no mask, are not among
        them."""
        decoded, found, numbers = self.decoded, list[tuple[MessageGroup, Ints, Ints]](), list[list[Ints]]([[], []])
        for group, messages in decoded.members:
            some = messages[asked[messages]]
            data, before = (image or {} for image in group.images)
            names = [name for name in data if name in before and name in group.bit_of]
            if group.version is not None and len(some):
                lobs = {column.name for column in group.version.columns if column.type in LOBS}
                names = [name for name in names if name not in lobs]
                found.append((group, some, group.bits(names)))
                for part, image in zip(numbers, (data, before), strict=True):
                    part.append(decoded.values({name: image[name] for name in names}, some).reshape(-1))
        if found:
            mine, its = (decoded.texts.gather(np.concatenate(part)) for part in numbers)
            differs = ~are_same(mine, its)
            edges = np.cumsum([len(part) for part in numbers[0][:-1]], dtype=np.int64)
            for (group, some, bits), values in zip(found, np.split(differs, edges), strict=True):
                yield group, some, bits, values.reshape(len(some), len(bits))

    def compare(self, asked: Bools, absent: Bools | None) -> None:
        """Reports those of some updates whose change mask contradicts their images."""
        for group, messages, bits, differs in self.compared(asked & ~self.null[0]):
            cells = messages[:, None], bits
            changed = self.bits[0][cells]
            wrong = differs != changed if absent is None else (differs != changed) & ~absent[cells]
            for at in np.flatnonzero(wrong.any(axis=1)).tolist():
                start = self.start[messages[at]]
                by_mask, by_images = (
                    [self.names[start + bit] for bit in bits[wrong[at] & (changed[at] == is_set)].tolist()]
                    for is_set in (True, False)
                )
                hint = " (no mask names a LOB column, and without metadata none is known)"
                unknown = hint if by_images and not (group.version and group.version.schema_id) else ""
                sentence = bitmask.disagreement(by_mask, by_images) + unknown
                self.report(int(messages[at]), Problem.MASK_IMAGES, sentence)


# --- byte order -------------------------------------------------------------------------------------------------------


def evidence_of(decoded: DecodedMessages, is_printed_avro: bool) -> MaskEvidence:
    """The evidence about the byte order of masks in Avro messages, or in messages that were printed from Avro as JSON:
    column masks have bits of columns only, change masks also agree with the images."""
    evidence, masks = MaskEvidence(), MessageMasks(decoded, lambda *_: None)
    updates = as_array(pc.equal(decoded.header("operation"), str(Operation.UPDATE)))
    both = updates & decoded.has.all(axis=0)
    compared = {id(group): found for group, *found in masks.compared(both)}
    for group, messages in decoded.members:
        if group.version is None or not (is_printed_avro or decoded.forms[messages[0]] != WireForm.JSON):
            continue
        expected = np.zeros((len(messages), len(group.version.bits)), dtype=np.bool_)
        if id(group) in compared:
            some, bits, differs = compared[id(group)]
            expected[np.searchsorted(messages, some)[:, None], bits] = differs
        changed, masked = (one.take(pa.array(messages)) for one in masks.masks)
        evidence += bitmask.evidence_of(masked, expected, np.zeros(len(messages), np.bool_), furthest=0)
        evidence += bitmask.evidence_of(changed, expected, both[messages], furthest=0)
    return evidence
