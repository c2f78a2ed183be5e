"""What rows say of how their masks are to be read, and of the key (docs/formats/qlik-change-table.md §4.5, §4.6).

The first pass takes :class:`Evidence` from the first rows of every split; evidence of several splits adds up, and
:func:`decide` makes settings of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats import bitmask
from cdcwb.formats.qlik_change_table.facts import ROWS
from cdcwb.formats.qlik_change_table.headers import read_operations
from cdcwb.formats.qlik_change_table.layout import Rows
from cdcwb.formats.qlik_change_table.masks import mask_bytes
from cdcwb.formats.qlik_change_table.plan import MaskSettings
from cdcwb.formats.tabular import is_binary
from cdcwb.model import Kind, Operation
from cdcwb.words import joined, plural

__all__ = ["SAMPLE", "Decision", "Evidence", "decide", "key_of", "look_at"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

SAMPLE: Final = 2048
"""Rows of a split that are looked at."""

_FURTHEST: Final = 24  # offsets that are tried
_MOST_KEYS: Final = 64  # different masks of deleted rows that are kept
_MOST_EXAMPLES: Final = 2
_EXACT: Final = 4  # a mask that is just what the images say counts so many times
_MARGIN: Final = 1.1  # another offset than the number of header columns has to be so much better
_SHARE: Final = 0.9
_AMBIGUOUS: Final = 0.2  # base64 of a few zero bytes has letters from A to F only, but not often

_INSIDE, _LOW, _HIGH, _SAME = range(4)


def _no_counts() -> dict[str, Ints]:
    return {order: np.zeros((_FURTHEST + 1, 4), dtype=np.int64) for order in bitmask.ORDERS}


@dataclass(slots=True)
class Evidence:
    """What some rows of one table say. ``counts`` has, for each byte order, a row for each offset: masks whose bits lie
    within the data columns, INSERTs whose lowest bit is the first data column's, INSERTs whose highest is the last
    one's, and masks that are just what the images (or the key) say."""

    masks: int = 0
    inserts: int = 0
    compared: int = 0
    binary: bool = False
    prefixed: int = 0
    hex_like: int = 0
    only_hex: int = 0
    only_base64: int = 0
    counts: dict[str, Ints] = field(default_factory=_no_counts)
    examples: list[str] = field(default_factory=list)
    deletes: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Evidence) -> Evidence:
        deletes = self.deletes + other.deletes
        return Evidence(
            self.masks + other.masks,
            self.inserts + other.inserts,
            self.compared + other.compared,
            self.binary or other.binary,
            self.prefixed + other.prefixed,
            self.hex_like + other.hex_like,
            self.only_hex + other.only_hex,
            self.only_base64 + other.only_base64,
            {order: self.counts[order] + other.counts[order] for order in bitmask.ORDERS},
            (self.examples + other.examples)[:_MOST_EXAMPLES],
            Counter(dict(deletes.most_common(_MOST_KEYS))),
        )

    @property
    def spelling(self) -> str | None:
        """How the texts spell masks; None: hexadecimal unless they cannot be."""
        most = max(self.only_hex, _AMBIGUOUS * self.hex_like)
        return bitmask.BASE64 if self.only_base64 > most else None

    @property
    def usual_order(self) -> str:
        """The order that masks of this kind have where nothing tells: bytes in order if they are bytes or a database
        printed them so, a number if they are bare digits (§4.3)."""
        in_order = self.binary or self.spelling is not None or 2 * self.prefixed > self.masks
        return "little" if in_order else "big"


def look_at(rows: Rows, key: Sequence[str], spelling: str | None = None) -> Evidence:
    """What rows of a change table say; ``key`` are its key columns, as far as they are known, and ``spelling`` is how
    texts spell masks, where that was given."""
    layout = rows.layout
    place = layout.known.get("change_mask")
    if place is None or not len(rows.offset):
        return Evidence()
    evidence = Evidence(binary=is_binary(rows.content(place).type))
    if not evidence.binary:
        texts = rows.text(place)
        evidence.only_hex, evidence.only_base64 = bitmask.spelling(texts)
        digits_only = pc.match_substring_regex(texts, r"^\s*[0-9A-Fa-f]+\s*$")
        evidence.hex_like = pc.sum(digits_only).as_py() or 0
        evidence.prefixed = pc.sum(pc.match_substring_regex(texts, r"^\s*(0[xX]|\\[xX])")).as_py() or 0
    found = mask_bytes(rows, spelling or evidence.spelling)
    if found is None:
        return evidence
    masks, _ = found
    operations = read_operations(rows, ROWS)
    inserts, deletes = operations.is_(Operation.INSERT), operations.is_(Operation.DELETE)
    digits = Counter(one.hex() for one in masks.filter(pa.array(deletes)).to_pylist() if one)
    evidence.deletes = Counter(dict(digits.most_common(_MOST_KEYS)))
    expected, compared = _expected(rows, operations.is_(Operation.UPDATE, Kind.AFTER), deletes, key)
    width = len(layout.data)
    for order in bitmask.ORDERS:
        bits, beyond = bitmask.bits(masks, order, _FURTHEST + width)
        some = bits.any(axis=1) | beyond
        lowest = np.where(bits.any(axis=1), bits.argmax(axis=1), -1)
        highest = bits.shape[1] - 1 - bits[:, ::-1].argmax(axis=1) if bits.shape[1] else np.zeros(len(bits), int)
        evidence.masks = int(np.count_nonzero(some))
        evidence.inserts = int(np.count_nonzero(some & inserts))
        evidence.compared = int(np.count_nonzero(some & compared))
        counts = np.zeros((_FURTHEST + 1, 4), dtype=np.int64)
        for offset in range(_FURTHEST + 1):
            inside = some & ~beyond & (lowest >= offset) & (highest < offset + width)
            same = inside & compared
            same[same] = (bits[same, offset : offset + width] == expected[same]).all(axis=1)
            marks = (
                inside,
                inserts & inside & (lowest == offset),
                inserts & inside & (highest == offset + width - 1),
                same,
            )
            counts[offset] = [np.count_nonzero(one) for one in marks]
        evidence.counts[order] = counts
    telling = np.flatnonzero(pc.greater(pc.binary_length(masks), 0).fill_null(False).to_numpy(zero_copy_only=False))
    evidence.examples = [rows.text(place)[row].as_py() for row in telling[:_MOST_EXAMPLES].tolist()]
    return evidence


def _expected(rows: Rows, updates: Bools, deletes: Bools, key: Sequence[str]) -> tuple[Bools, Bools]:
    """The data columns that each mask should have by images and key, and for which rows that is known.

    An UPDATE is compared with the row beside it of the same change sequence, which is its BEFOREIMAGE.
    """
    layout, count = rows.layout, len(rows.offset)
    expected = np.zeros((count, len(layout.data)), dtype=np.bool_)
    compared = np.zeros(count, dtype=np.bool_)
    if key:
        compared |= deletes
        expected[deletes] = [name in set(key) for name in layout.data_names]
    sequence = layout.known.get("change_seq")
    if sequence is None or not updates.any():
        return expected, compared
    texts = rows.text(sequence)
    before = _is_before(rows)
    for step in (-1, 1):
        after = np.flatnonzero(updates & ~compared)
        other = after + step
        there = (other >= 0) & (other < count)
        after, other = after[there], other[there]
        same = pc.equal(texts.take(pa.array(after)), texts.take(pa.array(other)))
        paired = before[other] & pc.fill_null(same, False).to_numpy(zero_copy_only=False)
        after, other = after[paired], other[paired]
        if not len(after):
            continue
        for column, place in enumerate(layout.data):
            values = rows.text(place)
            expected[after, column] = _differ(values.take(pa.array(after)), values.take(pa.array(other)))
        compared[after] = True
    return expected, compared


def _is_before(rows: Rows) -> Bools:
    return read_operations(rows, ROWS).is_(Operation.UPDATE, Kind.BEFORE)


def _differ(one: pa.StringArray, other: pa.StringArray) -> Bools:
    """Where values differ; NULL equals NULL."""
    unequal = pc.fill_null(pc.not_equal(one, other), False)
    apart: Bools = pc.or_(unequal, pc.xor(pc.is_null(one), pc.is_null(other))).to_numpy(zero_copy_only=False)
    return apart


# --- decisions --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Decision:
    """Settings of a table's masks, why, and whether the rows told the order (``told``)."""

    settings: MaskSettings
    order_evidence: str
    offset_evidence: str
    told: bool


def decide(evidence: Evidence, header: int, order: str | None = None, offset: int | None = None) -> Decision:
    """The settings that fit best; ``header`` is the number of header columns. Given ``order`` and ``offset`` stand.

    Another offset than ``header`` has to fit clearly better. Offsets are tried up to :data:`_FURTHEST`; a table with
    more header columns than that has as many.
    """
    usual = evidence.usual_order
    orders = [order] if order else sorted(bitmask.ORDERS, key=lambda one: one != usual)
    offsets = [header, *(at for at in range(_FURTHEST + 1) if at != header)]
    if offset is not None or header > _FURTHEST:
        offsets = [header if offset is None else offset]
    chosen, at = max(((one, at) for one in orders for at in offsets[:1]), key=lambda pair: _score(evidence, *pair))
    other, elsewhere = max(((one, at) for one in orders for at in offsets), key=lambda pair: _score(evidence, *pair))
    if _score(evidence, other, elsewhere) > _MARGIN * _score(evidence, chosen, at) + 1:
        chosen, at = other, elsewhere
    settings = MaskSettings(chosen, at, evidence.spelling)
    other = "big" if chosen == "little" else "little"
    told = _score(evidence, chosen, at) > _score(evidence, other, at)
    return Decision(
        settings,
        _order_sentence(evidence, chosen, at, order, told),
        _offset_sentence(evidence, chosen, at, header, offset),
        told,
    )


def _score(evidence: Evidence, order: str, offset: int) -> int:
    if offset > _FURTHEST:
        return 0
    counts = evidence.counts[order][offset]
    return int(counts[_INSIDE] + counts[_LOW] + counts[_HIGH] + _EXACT * counts[_SAME])


def _order_sentence(evidence: Evidence, order: str, offset: int, given: str | None, told: bool) -> str:
    if given:
        return "given as an option"
    if not evidence.masks:
        return f"no mask has a bit set; {_USUAL[evidence.usual_order]} is assumed"
    if not told:
        either = f"{plural(evidence.masks, 'mask')} fit either order"
        return f"{either}; {_USUAL[order]} is assumed; {_examples(evidence)}"
    other = "big" if order == "little" else "little"
    here, there = (evidence.counts[one][min(offset, _FURTHEST)] for one in (order, other))
    inside = f"{here[_INSIDE]} have bits of data columns only, in the other order {there[_INSIDE]}"
    parts = [f"of {plural(evidence.masks, 'mask')}, {inside}"]
    if evidence.compared:
        parts.append(f"{here[_SAME]} against {there[_SAME]} of {evidence.compared} agree with images or key")
    return f"{'; '.join(parts)}; {_examples(evidence)}"


_USUAL: Final = {"little": "byte 0 first, as masks are stored", "big": "a number, as file targets write it"}


def _offset_sentence(evidence: Evidence, order: str, offset: int, header: int, given: int | None) -> str:
    if given is not None:
        return "given as an option"
    if not evidence.masks:
        return f"there are {plural(header, 'header column')}, and no mask contradicts that"
    counts = evidence.counts[order][min(offset, _FURTHEST)]
    found = f"{counts[_INSIDE]} of {plural(evidence.masks, 'mask')} have bits of data columns only"
    if evidence.inserts:
        found += f", {counts[_LOW]} of {plural(evidence.inserts, 'INSERT')} begin with the first of them"
        found += f" and {counts[_HIGH]} end with the last"
    if offset != header:
        return f"the masks do not count the {plural(header, 'header column')} that exist: {found}"
    return f"there are {plural(header, 'header column')}: {found}"


def _examples(evidence: Evidence) -> str:
    shown = [one if len(one) <= 40 else f"{one[:40]}…" for one in evidence.examples]
    return f"e.g. {joined(shown)}" if shown else "no examples"


def key_of(evidence: Evidence, settings: MaskSettings, columns: Sequence[str]) -> tuple[list[str], str]:
    """The key columns as the masks of deleted rows tell, and why; none where they do not agree or mark all columns."""
    total = sum(evidence.deletes.values())
    if not total:
        return [], ""
    width = settings.offset + len(columns)
    masks = pa.array([bytes.fromhex(digits) for digits in evidence.deletes], pa.binary())
    bits, beyond = bitmask.bits(masks, settings.order, width)
    found: Counter[tuple[int, ...]] = Counter()
    for row, count in enumerate(evidence.deletes.values()):
        if not beyond[row] and not bits[row, : settings.offset].any():
            found[tuple(np.flatnonzero(bits[row, settings.offset :]).tolist())] += count
    if not found:
        return [], ""
    places, count = found.most_common(1)[0]
    if not places or len(places) == len(columns) or count < _SHARE * total:
        return [], ""
    names = [columns[place] for place in places]
    return names, f"the masks of {count} of {plural(total, 'deleted row')} have the bits of {joined(names)} only"
