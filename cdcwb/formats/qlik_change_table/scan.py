"""The first pass over one split: the start and end of its records, their number, and evidence about masks and key
(docs/formats/qlik-change-table.md §4.5, §4.6).

The first rows of every split give :class:`Evidence`; that of several splits is added, and :func:`decide` makes settings
from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats import bitmask
from cdcwb.formats.old.halves import GREATEST
from cdcwb.formats.qlik_change_table.decode import (
    Operations,
    iter_parts,
    mask_bytes,
    parts_of_stretch,
    positions,
    read_operations,
)
from cdcwb.formats.qlik_change_table.layout import DDL_HISTORY, ROWS, Part, Rows
from cdcwb.formats.qlik_change_table.plan import MaskSettings, SplitEntry, TableFile
from cdcwb.formats.qlik_change_table.versions import Ddl, by_name, ddl_of
from cdcwb.formats.tabular.file import EVERYTHING
from cdcwb.formats.tabular.rows import is_binary
from cdcwb.formats.tabular.splits import Scan, Stretch
from cdcwb.model import Kind, OffsetUnit, Operation
from cdcwb.words import joined, plural

__all__ = [
    "SAMPLE",
    "Decision",
    "Evidence",
    "ScanTask",
    "TableScan",
    "ddl_rows",
    "decide",
    "key_of",
    "look_at",
    "scan",
]

# === evidence about masks and key =====================================================================================

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

SAMPLE: Final = 2048
"""Rows of a split that are examined."""

_FURTHEST: Final = 24  # offsets that are tried
_MOST_KEYS: Final = 64  # distinct masks of deleted rows that are stored
_MOST_EXAMPLES: Final = 2
_EXACT: Final = 4  # weight of a mask that equals the changed columns of the images
_MARGIN: Final = 1.1  # factor by which another offset than the number of header columns must be better
_SHARE: Final = 0.9
_AMBIGUOUS: Final = 0.2  # base64 of a few zero bytes has letters from A to F only, but rarely

_INSIDE, _LOW, _HIGH, _SAME = range(4)


def _no_counts() -> dict[str, Ints]:
    return {order: np.zeros((_FURTHEST + 1, 4), dtype=np.int64) for order in bitmask.ORDERS}


@dataclass(slots=True)
class Evidence:
    """Evidence from rows of one table. ``counts`` has, for each byte order, a row for each offset: masks whose bits are
    within the data columns, INSERTs whose lowest bit is that of the first data column, INSERTs whose highest bit is
    that of the last one, and masks that equal the changed columns of the images (or the key)."""

    masks: int = 0
    inserts: int = 0
    compared: int = 0
    prefixed: int = 0
    hex_like: int = 0
    only_hex: int = 0
    only_base64: int = 0
    binary: bool = False
    counts: dict[str, Ints] = field(default_factory=_no_counts)
    examples: list[str] = field(default_factory=list)
    deletes: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Evidence) -> Evidence:
        both = Evidence(**{one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(self)[:7]})
        both.binary = self.binary or other.binary
        both.counts = {order: self.counts[order] + other.counts[order] for order in bitmask.ORDERS}
        both.examples = (self.examples + other.examples)[:_MOST_EXAMPLES]
        both.deletes = Counter(dict((self.deletes + other.deletes).most_common(_MOST_KEYS)))
        return both

    @property
    def spelling(self) -> str | None:
        """The encoding of mask texts; None: hexadecimal if possible."""
        most = max(self.only_hex, _AMBIGUOUS * self.hex_like)
        return bitmask.BASE64 if self.only_base64 > most else None

    @property
    def usual_order(self) -> str:
        """The default order of masks of this kind: bytes in order if they are bytes or were printed so by a database, a
        number if they are bare digits (§4.3)."""
        in_order = self.binary or self.spelling is not None or 2 * self.prefixed > self.masks
        return "little" if in_order else "big"


def look_at(rows: Rows, key: Sequence[str], spelling: str | None = None) -> Evidence:
    """Evidence from rows of a change table; ``key`` are its key columns, as far as known, and ``spelling`` is the
    encoding of mask texts, if given."""
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
    expected, compared = _expected(rows, operations, key)
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
        last = int(lowest[some & ~beyond].max(initial=-1))  # no mask begins after it
        for offset in range(min(_FURTHEST, last) + 1):
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


def _expected(rows: Rows, operations: Operations, key: Sequence[str]) -> tuple[Bools, Bools]:
    """The expected data columns of each mask by images and key, and a mask of rows for which that is known. An UPDATE
    is compared with the adjacent row of the same change sequence, its BEFOREIMAGE.
    """
    layout, count = rows.layout, len(rows.offset)
    expected = np.zeros((count, len(layout.data)), dtype=np.bool_)
    compared = np.zeros(count, dtype=np.bool_)
    updates, deletes = operations.is_(Operation.UPDATE, Kind.AFTER), operations.is_(Operation.DELETE)
    if key:
        compared |= deletes
        expected[deletes] = [name in set(key) for name in layout.data_names]
    sequence = layout.known.get("change_seq")
    if sequence is None or not updates.any():
        return expected, compared
    texts = rows.text(sequence)
    before = operations.is_(Operation.UPDATE, Kind.BEFORE)
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
        pairs = rows.take(np.concatenate([after, other]))
        for column, place in enumerate(layout.data):
            values = pairs.text(place)
            expected[after, column] = _differ(values[: len(after)], values[len(after) :])
        compared[after] = True
    return expected, compared


def _differ(one: pa.StringArray, other: pa.StringArray) -> Bools:
    """A mask of different values; NULL equals NULL."""
    unequal = pc.fill_null(pc.not_equal(one, other), False)
    apart: Bools = pc.or_(unequal, pc.xor(pc.is_null(one), pc.is_null(other))).to_numpy(zero_copy_only=False)
    return apart


# --- decisions --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Decision:
    """The mask settings of a table, the evidence, and whether the rows show the order (``told``)."""

    settings: MaskSettings
    order_evidence: str
    offset_evidence: str
    told: bool


def decide(evidence: Evidence, header: int, order: str | None = None, offset: int | None = None) -> Decision:
    """The settings that fit best; ``header`` is the number of header columns. Given ``order`` and ``offset`` are final.
    Another offset than ``header`` must fit clearly better. Offsets are tried up to :data:`_FURTHEST`; a table with more
    header columns has that number as offset.
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
    """The key columns from the masks of deleted rows, and the evidence; none if the masks differ or have all
    columns."""
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


# === splits ===========================================================================================================

Edge: TypeAlias = tuple[str, list[tuple[int, int]]]
"""A position, and the locations of rows that have it."""

_MOST_DDL: Final = 100_000  # rows of DDL history that are examined


@dataclass(frozen=True, slots=True)
class ScanTask(Stretch):
    """A split. ``key``: the key columns, as far as known; ``spelling``: the encoding of masks, if given."""

    entry: TableFile
    control: str | None
    key: tuple[str, ...]
    spelling: str | None


@dataclass(slots=True)
class TableScan(Scan):
    """The result of the first pass over a split. ``first`` and ``last``: the lowest and the highest position of its
    rows, and the bytes ``[start, stop)`` of each row there; ``befores``: whether it has before halves of updates."""

    evidence: Evidence = field(default_factory=Evidence)
    ddl: list[Ddl] = field(default_factory=list)
    first: Edge | None = None
    last: Edge | None = None
    befores: bool = False

    def take(self, part: Part, task: ScanTask) -> None:
        """Adds a part."""
        for indices, rows in part.rows:
            self.rows += len(indices)
            if task.entry.role == ROWS:
                self._take_positions(rows)
            if task.control == DDL_HISTORY and len(self.ddl) < _MOST_DDL:
                self.ddl += ddl_rows(rows, task.index)
        self.take_gaps(part)
        if part.unit is OffsetUnit.ROW:
            self.rows += sum(int(part.length[gap.index]) for gap in part.gaps if gap.kind is Kind.MALFORMED)

    def _take_positions(self, rows: Rows) -> None:
        position = positions(rows)
        found = pc.min_max(position).as_py()
        if found["min"] is not None:
            if self.first is None or found["min"] <= self.first[0]:
                self.first = _edge(self.first, found["min"], position, rows)
            if self.last is None or found["max"] >= self.last[0]:
                self.last = _edge(self.last, found["max"], position, rows)
        if not self.befores:
            self.befores = bool(read_operations(rows, ROWS).is_(Operation.UPDATE, Kind.BEFORE).any())

    def split(self, file: int, start: int, stop: int) -> SplitEntry:
        """The split of the plan."""
        if self.first is None or self.last is None:
            return SplitEntry(file, start, stop, befores=self.befores)
        (first, at_first), (last, at_last) = self.first, self.last
        return SplitEntry(file, start, stop, first, last, _run(at_first), _run(at_last), self.befores)


def _edge(known: Edge | None, text: str, position: pa.Array, rows: Rows) -> Edge:
    """The rows at a position, combined with the known ones."""
    at = np.flatnonzero(pc.fill_null(pc.equal(position, text), False).to_numpy(zero_copy_only=False))
    begin = rows.offset[at]
    found = list(zip(begin.tolist(), (begin + rows.length[at]).tolist(), strict=True))
    return (text, found) if known is None or known[0] != text else (text, known[1] + found)


def _without_places(edge: Edge | None) -> Edge | None:
    """Only files of delimited text can be read from one byte to another."""
    return None if edge is None else (edge[0], [])


def _run(rows: list[tuple[int, int]]) -> tuple[int, int] | None:
    """The range of adjacent rows; None if they are not adjacent."""
    ordered = sorted(rows)
    follows = all(one[1] == two[0] for one, two in pairwise(ordered))
    return (ordered[0][0], ordered[-1][1]) if ordered and follows else None


def ddl_rows(rows: Rows, index: int) -> list[Ddl]:
    """The rows of DDL history."""
    layout = rows.layout
    texts = [rows.text(place).to_pylist() for place in range(len(layout.names))]
    found = []
    for row, values in enumerate(zip(*texts, strict=True)):
        one = ddl_of(by_name(layout, values), (index, int(rows.offset[row]), int(rows.length[row])))
        if one is not None:
            found.append(one)
    return found


def scan(task: ScanTask) -> TableScan:
    """The first pass over a split."""
    kind, found = task.file.kind, TableScan(0, 0)
    for part in _looked_at(parts_of_stretch(task, found, task.entry.layout), found, task):
        found.take(part, task)
        if kind == "parquet" and found.rows >= SAMPLE and task.control is None:
            # its footer has the number of rows, but not their positions
            found.first, found.last, found.befores = ("", []), (GREATEST, []), True
            break
    if kind != "csv":
        found.first, found.last = _without_places(found.first), _without_places(found.last)
    return found


def _looked_at(parts: Iterator[Part], found: TableScan, task: ScanTask) -> Iterator[Part]:
    """The parts of a split; the first rows of a file are examined for mask settings. The same rows of a file are
    examined wherever it is split.
    """
    wanted = task.entry.role == ROWS and task.start == 0 and "change_mask" in task.entry.layout.known
    if wanted and not task.alone:
        seen = 0
        for part in iter_parts(task.entry, 0, EVERYTHING):
            seen = _ask(part, found, task, seen)
            if seen >= SAMPLE:
                break
        wanted = False
    seen = 0
    for part in parts:
        if wanted and seen < SAMPLE:
            seen = _ask(part, found, task, seen)
        yield part


def _ask(part: Part, found: TableScan, task: ScanTask, seen: int) -> int:
    for indices, rows in part.rows:
        some = rows if len(indices) <= SAMPLE else rows.take(np.arange(SAMPLE))
        found.evidence += look_at(some, task.key, task.spelling)
        seen += len(indices)
    return seen
