"""The masks of many rows as columns that changed (docs/formats/qlik-change-table.md §4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats import bitmask
from cdcwb.formats.qlik_change_table import sentences
from cdcwb.formats.qlik_change_table.facts import WIDTHS
from cdcwb.formats.qlik_change_table.headers import Findings
from cdcwb.formats.qlik_change_table.layout import Rows
from cdcwb.formats.qlik_change_table.plan import MaskSettings
from cdcwb.formats.tabular import is_binary

__all__ = ["changed_columns", "mask_bytes"]

Bools = npt.NDArray[np.bool_]


def mask_bytes(rows: Rows, spelling: str | None) -> tuple[pa.BinaryArray, Bools] | None:
    """The masks of rows, and which texts are none (null then). None where there is no such column."""
    place = rows.layout.known.get("change_mask")
    if place is None:
        return None
    column = rows.content(place)
    if is_binary(column.type):
        return column.cast(pa.binary()), np.zeros(len(column), dtype=np.bool_)
    return bitmask.parse(rows.text(place), spelling)


def changed_columns(rows: Rows, settings: MaskSettings, columns: Sequence[str], findings: Findings) -> pa.ListArray:
    """The data columns whose bit is set, by ``columns`` (all data columns in order); null where there is no mask."""
    found = mask_bytes(rows, settings.spelling)
    count = len(rows.offset)
    if found is None:
        return pa.nulls(count, pa.list_(pa.string()))
    masks, wrong = found
    texts = rows.text(rows.layout.known["change_mask"])
    size = pc.fill_null(pc.binary_length(masks), 0).to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(size > WIDTHS["change_mask"]).tolist():
        findings.add(row, sentences.too_wide("change_mask", WIDTHS["change_mask"], int(size[row])))
    for row in np.flatnonzero(wrong).tolist():
        findings.add(row, sentences.no_mask(texts[row].as_py()))
    offset, width = settings.offset, settings.offset + len(columns)
    bits, beyond = bitmask.bits(masks, settings.order, width)
    in_header = bits[:, :offset].any(axis=1)
    for row in np.flatnonzero(in_header).tolist():
        marked = np.flatnonzero(bits[row, :offset]).tolist()
        findings.add(row, sentences.header_bits(texts[row].as_py(), marked, offset))
    for row in np.flatnonzero(beyond).tolist():
        findings.add(row, sentences.beyond_bits(texts[row].as_py(), width))
    null = pc.is_null(masks).to_numpy(zero_copy_only=False)
    return bitmask.names(bits[:, offset:], columns, null)
