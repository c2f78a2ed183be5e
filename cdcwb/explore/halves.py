"""The halves of updates that were captured as two records: which belongs to which, from headers alone, as
:mod:`cdcwb.formats.assembly` joins them into changes."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats import get_format
from cdcwb.formats.base import Pairing
from cdcwb.index.columns import Texts
from cdcwb.index.places import Index
from cdcwb.model import Kind

__all__ = ["half_of", "halves", "of_changes"]

Ints = npt.NDArray[np.int64]

_CHANGES: Final = (Kind.CHANGE, Kind.BEFORE, Kind.AFTER)


def of_changes(index: Index) -> npt.NDArray[np.bool_]:
    """The records that are changes or halves of updates: those that may have values."""
    kinds = index.texts("kind")
    return np.isin(kinds.codes, [code for kind in _CHANGES if (code := kinds.code_of(kind)) >= 0])


def half_of(index: Index, row: int) -> int | None:
    """The other half of a record; None where it has none."""
    if index.columns["kind"].value(row) not in (Kind.BEFORE, Kind.AFTER):
        return None
    chosen = of_changes(index)
    by_position = get_format(index.format).pairing is Pairing.POSITION
    for name in ("table", "position" if by_position else "transaction"):
        if name in index.columns:
            chosen &= index.columns[name].compare("==", index.columns[name].value(row))
    rows = np.flatnonzero(chosen)
    other = int(halves(index, rows)[np.searchsorted(rows, row)])
    return None if other < 0 else other


def halves(index: Index, rows: Ints) -> Ints:
    """For each of some records, in capture order and of the kinds of changes, its other half; -1 where it has none."""
    pairing = get_format(index.format).pairing
    kinds = index.texts("kind")
    kind = kinds.codes[rows]
    before, after = kinds.code_of(Kind.BEFORE), kinds.code_of(Kind.AFTER)
    half = np.isin(kind, [code for code in (before, after) if code >= 0])
    other = np.full(len(rows), -1, np.int64)
    if before < 0 or after < 0 or pairing not in (Pairing.TRANSACTION, Pairing.POSITION):
        return other
    table = index.texts("table").codes[rows]
    if pairing is Pairing.POSITION:
        first, second = _by_position(index, rows, kind, table, half)
    else:
        first, second = _by_transaction(index.texts("transaction").codes[rows], kind, table, half, after)
    other[first], other[second] = rows[second], rows[first]
    return other


def _by_transaction(
    transaction: npt.NDArray[Any], kind: npt.NDArray[Any], table: npt.NDArray[Any], half: npt.NDArray[Any], after: int
) -> tuple[Ints, Ints]:
    """Places of halves that belong together: those of a transaction and a table that follow each other make a run that
    alternates; a run is paired from its start, or from its second half where it begins with an after half and is
    odd."""
    known = np.flatnonzero(half | (transaction >= 0))
    order = known[np.lexsort((known, table[known], transaction[known]))]
    if not len(order):
        return order, order
    groups = (transaction[order], table[order])
    follows = half[order][1:] & half[order][:-1] & (kind[order][1:] != kind[order][:-1])
    follows &= np.logical_and.reduce([one[1:] == one[:-1] for one in groups])
    starts = np.flatnonzero(np.append(True, ~follows))
    size = np.diff(np.append(starts, len(order)))
    skipped = (kind[order][starts] == after) & (size % 2 == 1)
    place = np.arange(len(order)) - np.repeat(starts + skipped, size)
    left = np.repeat(starts + size, size) - np.arange(len(order))
    first = np.flatnonzero((place >= 0) & (place % 2 == 0) & (left > 1))
    return order[first], order[first + 1]


def _by_position(
    index: Index, rows: Ints, kind: npt.NDArray[Any], table: npt.NDArray[Any], half: npt.NDArray[Any]
) -> tuple[Ints, Ints]:
    """Places of halves that belong together: of one position and table, in files of one folder, the first before half
    and the first after half, the second and the second."""
    positions = index.columns.get("position")
    known = np.flatnonzero(half)
    if not isinstance(positions, Texts):
        return known[:0], known[:0]
    texts = positions.values.take(pa.array(rows[known]))
    known, texts = known[texts.is_valid().to_numpy(zero_copy_only=False)], texts.drop_null()
    position = pc.index_in(texts, value_set=pc.unique(texts)).to_numpy()
    folders = {int(entry["file_index"]): re.sub(r"[^/\\]*$", "", str(entry["file"])) for entry in index.files}
    codes = {text: code for code, text in enumerate(dict.fromkeys(folders.values()))}
    folder = np.zeros(max(folders) + 1, np.int64)
    folder[list(folders)] = [codes[text] for text in folders.values()]
    folder = folder[index.numbers("file_index")[rows[known]]]
    groups = np.stack([folder, table[known], position])
    order = np.lexsort((known, kind[known], *groups))
    same = np.append(False, (np.diff(np.vstack([groups, kind[known]])[:, order]) == 0).all(axis=0))
    starts = np.maximum.accumulate(np.where(same, 0, np.arange(len(order))))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order)) - starts
    order = np.lexsort((kind[known], rank, *groups))
    couples = np.flatnonzero((np.diff(np.vstack([groups, rank])[:, order]) == 0).all(axis=0))
    return known[order[couples]], known[order[couples + 1]]
