"""Change masks: the columns that changed, and what the first rows of a table show about the byte order of its masks,
the bit of its first data column, and its key (docs/formats/qlik-change-table.md §4).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats import bitmask
from cdcwb.formats.arrays import as_array
from cdcwb.formats.bitmask import FURTHEST, MaskEvidence, shortened
from cdcwb.formats.containers.rows import is_binary
from cdcwb.formats.containers.table_probe import GIVEN
from cdcwb.formats.kernels import Bools
from cdcwb.formats.qlik_change_table.layout import HEADERS
from cdcwb.formats.table_rows import RowBatch
from cdcwb.model import Kind, Operation, Problem
from cdcwb.words import joined, plural, visible

SAMPLE: Final = 1024
"""Rows of a file that are examined."""

_MOST_KEYS: Final = 64  # distinct masks of deleted rows that are stored
_MARGIN: Final = 1.1  # factor by which another offset than the number of header columns must be better
_SHARE: Final = 0.9
_AMBIGUOUS: Final = 0.2  # base64 of a few zero bytes has letters from A to F only, but rarely
_SHOWN: Final = 12
_WIDTH: Final = HEADERS["change_mask"].width or 0


# --- masks of rows ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MaskSettings:
    """The mask settings of a table: byte order, bit of the first data column, and the encoding of texts (None:
    hexadecimal if possible)."""

    order: str
    offset: int
    spelling: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> MaskSettings | None:
        """Those in the options of a file; None if it has no masks."""
        if "mask_offset" not in options or "mask_order" not in options:
            return None
        return cls(options["mask_order"], int(options["mask_offset"]), options.get("mask_text"))

    def options(self) -> dict[str, str]:
        """As options of a file."""
        text = {} if self.spelling is None else {"mask_text": self.spelling}
        return {"mask_order": self.order, "mask_offset": str(self.offset), **text}


def _masks(rows: RowBatch, column: str, spelling: str | None) -> tuple[pa.BinaryArray, Bools]:
    """The masks of rows, and a mask of invalid texts, which are null."""
    content = rows.rows.content(rows.names.index(column))
    if is_binary(content.type):
        return content.cast(pa.binary()), np.zeros(len(content), np.bool_)
    return bitmask.parse(rows.text(column), spelling)


def changed_columns(rows: RowBatch, column: str, settings: MaskSettings) -> pa.ListArray:
    """The data columns whose bit is set in the masks of ``column``; null without a mask."""
    masks, wrong = _masks(rows, column, settings.spelling)
    offset, width = settings.offset, settings.offset + len(rows.columns)
    bits, beyond = bitmask.bits(masks, settings.order, width)
    size = pc.fill_null(pc.binary_length(masks), 0).to_numpy(zero_copy_only=False)
    too_wide = np.asarray(size > _WIDTH, np.bool_)
    in_header = np.asarray(bits[:, :offset].any(axis=1))
    if (too_wide | wrong | in_header | beyond).any():
        texts, none = rows.text(column), f"none of the bits of {offset} header columns"

        def expected(what: str, row: int) -> str:
            return f"change_mask {shortened(texts[row].as_py())}: expected {what}, found"

        def unreadable(row: int) -> str:
            found = visible(texts[row].as_py(), 60)
            return f"change_mask: expected hexadecimal digits or base64, found {found!r}"

        most = f"change_mask: expected at most {_WIDTH} bytes"
        rows.problem(too_wide, Problem.WIDTH, lambda row: f"{most}, found {size[row]}")
        rows.problem(wrong, Problem.MASK, unreadable)
        rows.problem(in_header, Problem.MASK, lambda row: f"{expected(none, row)} {_listed(bits[row, :offset])}")
        rows.problem(beyond, Problem.MASK, lambda row: f"{expected(f'bits below {width}', row)} others")
    return bitmask.names(bits[:, offset:], rows.columns, as_array(pc.is_null(masks)))


def _listed(bits: Bools) -> str:
    numbers = np.flatnonzero(bits).tolist()
    shown = ", ".join(map(str, numbers[:_SHOWN]))
    return f"bit{'s' if len(numbers) != 1 else ''} {shown}{', …' if len(numbers) > _SHOWN else ''}"


# --- evidence ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Evidence:
    """Evidence from rows of one table: how many, about their masks, about the encoding of these, and the masks of
    deleted rows, as digits."""

    rows: int = 0
    masks: MaskEvidence = field(default_factory=MaskEvidence)
    prefixed: int = 0
    hex_like: int = 0
    only_hex: int = 0
    only_base64: int = 0
    binary: bool = False
    deletes: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Evidence) -> Evidence:
        both = Evidence(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))
        both.binary = self.binary or other.binary
        both.deletes = Counter(dict(both.deletes.most_common(_MOST_KEYS)))
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
        in_order = self.binary or self.spelling is not None or 2 * self.prefixed > self.masks.masks
        return "little" if in_order else "big"


def evidence_of(
    rows: RowBatch, columns: Mapping[str, str], events: Mapping[str, pa.Array], *, spelling: str | None
) -> Evidence:
    """Evidence from rows of a change table. ``columns``: the header columns, by their documented names; ``events``:
    kind and operation of each row; ``spelling``: the encoding of mask texts, if given."""
    column, evidence = columns["change_mask"], Evidence(len(rows))
    evidence.binary = is_binary(rows.rows.content(rows.names.index(column)).type)
    if not evidence.binary:
        texts = rows.text(column)
        evidence.only_hex, evidence.only_base64 = bitmask.spelling(texts)
        evidence.hex_like = pc.sum(pc.match_substring_regex(texts, r"^\s*[0-9A-Fa-f]+\s*$")).as_py() or 0
        evidence.prefixed = pc.sum(pc.match_substring_regex(texts, r"^\s*(0[xX]|\\[xX])")).as_py() or 0
    masks, _ = _masks(rows, column, spelling or evidence.spelling)
    deleted = masks.filter(pc.equal(events["operation"], str(Operation.DELETE)))
    evidence.deletes = Counter(dict(Counter(one.hex() for one in deleted.to_pylist() if one).most_common(_MOST_KEYS)))
    evidence.masks = bitmask.evidence_of(masks, *_expected(rows, columns.get("change_seq"), events))
    return evidence


def _expected(rows: RowBatch, sequence: str | None, events: Mapping[str, pa.Array]) -> tuple[Bools, Bools]:
    """The expected data columns of each mask, and a mask of rows for which they are known: of an INSERT all, of a
    DELETE the key, of an UPDATE those that differ from the adjacent row of the same change sequence, its
    BEFOREIMAGE."""
    names, count = rows.columns, len(rows)
    inserts, deletes = (
        as_array(pc.equal(events["operation"], str(one))) for one in (Operation.INSERT, Operation.DELETE)
    )
    expected, is_known = np.zeros((count, len(names)), np.bool_), inserts | (deletes & bool(rows.file.key))
    expected[inserts], expected[deletes] = True, [name in rows.file.key for name in names]
    after, before = (as_array(pc.equal(events["kind"], str(one))) for one in (Kind.AFTER, Kind.BEFORE))
    if sequence is None or not after.any():
        return expected, is_known
    texts = rows.text(sequence)
    for step in (-1, 1):
        at = np.flatnonzero(after & ~is_known)
        at = at[(at + step >= 0) & (at + step < count)]
        same = as_array(pc.equal(texts.take(pa.array(at)), texts.take(pa.array(at + step))))
        at = at[before[at + step] & same]
        if len(at):
            pairs = rows.rows.take(np.concatenate([at, at + step]))
            for column, name in enumerate(names):
                if name in rows.names:
                    values = pairs.text(rows.names.index(name))
                    expected[at, column] = _differ(values[: len(at)], values[len(at) :])
            is_known[at] = True
    return expected, is_known


def _differ(one: pa.StringArray, other: pa.StringArray) -> Bools:
    """A mask of different values; NULL equals NULL."""
    unequal = pc.fill_null(pc.not_equal(one, other), False)
    return as_array(pc.or_(unequal, pc.xor(pc.is_null(one), pc.is_null(other))))


# --- decisions --------------------------------------------------------------------------------------------------------

_USUAL: Final = {"little": "byte 0 first, as masks are stored", "big": "a number, as file targets write it"}


@dataclass(frozen=True, slots=True)
class MaskDecision:
    """The mask settings of a table, the evidence, and whether the rows show the order."""

    settings: MaskSettings
    order_evidence: str
    offset_evidence: str
    is_shown: bool


def decide(evidence: Evidence, header: int, order: str | None = None, offset: int | None = None) -> MaskDecision:
    """The settings that fit best; ``header`` is the number of header columns. Given ``order`` and ``offset`` are final.
    Another offset than ``header`` must fit clearly better. Offsets are tried up to
    :data:`cdcwb.formats.bitmask.FURTHEST`; a table with more header columns has that number as offset.
    """
    masks = evidence.masks
    orders = [order] if order else sorted(bitmask.ORDERS, key=lambda one: one != evidence.usual_order)
    offsets = [header, *(at for at in range(FURTHEST + 1) if at != header)]
    if offset is not None or header > FURTHEST:
        offsets = [header if offset is None else offset]
    chosen, at = max(((one, offsets[0]) for one in orders), key=lambda pair: masks.score(*pair))
    best = max(((one, other) for one in orders for other in offsets), key=lambda pair: masks.score(*pair))
    if masks.score(*best) > _MARGIN * masks.score(chosen, at) + 1:
        chosen, at = best
    is_shown, by_order = masks.order_evidence(chosen, at)
    inside, same = masks.fits(chosen, at)
    by_offset = f"there are {plural(header, 'header column')}"
    if at != header:
        by_offset = f"the masks do not count the {plural(header, 'header column')} that exist"
    by_offset += f": {inside} of {plural(masks.masks, 'mask')} have bits of data columns only"
    if masks.compared:
        by_offset += f", and {same} of {masks.compared} agree with images, key or INSERT"
    if not masks.masks:
        by_order = f"no mask has a bit set; {_USUAL[evidence.usual_order]} is assumed"
        by_offset = f"there are {plural(header, 'header column')}, and no mask contradicts that"
    elif not is_shown:
        by_order = f"{by_order}; they fit either order; {_USUAL[chosen]} is assumed"
    return MaskDecision(
        MaskSettings(chosen, at, evidence.spelling),
        GIVEN if order else by_order,
        GIVEN if offset is not None else by_offset,
        is_shown,
    )


def key_of(evidence: Evidence, settings: MaskSettings, columns: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """The key columns from the masks of deleted rows, and the evidence; none if the masks differ or have all
    columns."""
    masks = pa.array([bytes.fromhex(digits) for digits in evidence.deletes], pa.binary())
    bits, beyond = bitmask.bits(masks, settings.order, settings.offset + len(columns))
    found: Counter[tuple[int, ...]] = Counter()
    for row, count in enumerate(evidence.deletes.values()):
        if not beyond[row] and not bits[row, : settings.offset].any():
            found[tuple(np.flatnonzero(bits[row, settings.offset :]).tolist())] += count
    places, count = found.most_common(1)[0] if found else ((), 0)
    total = sum(evidence.deletes.values())
    if not places or len(places) == len(columns) or count < _SHARE * total:
        return (), ""
    names = tuple(columns[place] for place in places)
    return names, f"the masks of {count} of {plural(total, 'deleted row')} have the bits of {joined(names)} only"
