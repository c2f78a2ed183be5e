"""Change and column masks of many data messages, against their versions and images (docs/formats/qlik-kafka.md §7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats import bitmask
from cdcwb.formats.arrays.maps import Ints
from cdcwb.formats.base import EVERYTHING, Wanted
from cdcwb.formats.qlik_kafka.decode import Bools, Image, Rows
from cdcwb.formats.qlik_kafka.versions import LOBS
from cdcwb.model import Problem

__all__ = ["Masks", "read_masks"]

Report = Callable[[int, Problem, str], None]
"""Takes a problem: row of the group, code, sentence."""


@dataclass(slots=True)
class Masks:
    """What the masks of a group of rows say. ``changed_columns`` and ``present_columns`` are lists of names, null where
    there is no mask; ``data`` and ``before`` say which values of the images (rows by columns of the image) were not
    captured, None: all were."""

    changed_columns: pa.ListArray
    present_columns: pa.ListArray
    data: Bools | None
    before: Bools | None


def read_masks(rows: Rows, updates: Bools, report: Report, wanted: Wanted = EVERYTHING) -> Masks | None:
    """Decodes the masks of a group and, where problems are ``wanted``, compares them with its images; ``updates`` tells
    the rows that are updates. None where there are neither masks nor columns."""
    if rows.version is None:
        return None
    columns = rows.version.bits
    changed, changed_null = _bits(rows, 0, columns, report)
    present, present_null = _bits(rows, 1, columns, report)
    bit_of = {name: bit for bit, name in enumerate(columns) if name}
    absent = None if present is None else _absent(rows, present, present_null, columns, bit_of, report)
    if changed is not None and rows.data is not None and rows.before is not None and wanted.needs("problems"):
        _compare(rows, changed, updates & ~changed_null, absent, bit_of, report)
    return Masks(
        _names(changed if wanted.needs("changed_columns") else None, columns, changed_null, rows.count),
        _names(present if wanted.needs("present_columns") else None, columns, present_null, rows.count),
        _of_image(absent, rows.data, bit_of),
        _of_image(absent, rows.before, bit_of),
    )


def _names(bits: Bools | None, columns: Sequence[str], null: Bools, count: int) -> pa.ListArray:
    if bits is None:
        return pa.nulls(count, pa.list_(pa.string()))
    if "" in columns:  # an ordinal that no column has
        bits = bits & np.array([name != "" for name in columns])
    return bitmask.names(bits, columns, null)


def _bits(rows: Rows, which: int, columns: Sequence[str], report: Report) -> tuple[Bools | None, Bools]:
    masks = rows.masks[which]
    if masks is None or masks.null_count == len(masks):
        return None, np.ones(rows.count, dtype=np.bool_)
    bits, beyond = bitmask.bits(masks, rows.mask_order, len(columns))
    for row in np.flatnonzero(beyond).tolist():
        name, digits = ("changeMask", "columnMask")[which], masks[row].as_py().hex().upper()
        report(row, Problem.MASK, f"{name} {digits:.60} has bits beyond the {len(columns)} columns")
    return bits, pc.is_null(masks).to_numpy(zero_copy_only=False)


def _absent(
    rows: Rows, present: Bools, null: Bools, columns: Sequence[str], bit_of: Mapping[str, int], report: Report
) -> Bools | None:
    """Which columns (rows by bits) were not captured: their bit is 0, and no image has a value for them. None: all
    were."""
    missing = ~present & ~null[:, None]
    if not missing.any():
        return None
    valued = np.zeros_like(missing)
    for image in (rows.data, rows.before):
        if image is not None:
            places, bits = _columns_of(image, bit_of)
            valued[:, bits] |= ~image.nulls[:, places]
    wrong = missing & valued
    for row in np.flatnonzero(wrong.any(axis=1)).tolist():
        names = ", ".join(columns[bit] for bit in np.flatnonzero(wrong[row])[:5].tolist())
        report(row, Problem.MASK_IMAGES, f"by columnMask {names} was not captured, but the row has a value")
    found: Bools = missing & ~valued
    return found


def _of_image(absent: Bools | None, image: Image | None, bit_of: Mapping[str, int]) -> Bools | None:
    """Which values of an image were not captured, of ``absent`` rows by bits."""
    if absent is None or image is None:
        return None
    places, bits = _columns_of(image, bit_of)
    found = np.zeros((len(absent), len(image.names)), dtype=np.bool_)
    found[:, places] = absent[:, bits]
    return found


def _columns_of(image: Image, bit_of: Mapping[str, int]) -> tuple[Ints, Ints]:
    """The places of those columns of an image that have a bit, and their bits."""
    pairs = [(at, bit_of[name]) for at, name in enumerate(image.names) if name in bit_of]
    found = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _compare(
    rows: Rows,
    changed: Bools,
    compared: Bools,
    absent: Bools | None,
    bit_of: Mapping[str, int],
    report: Report,
) -> None:
    """Updates whose change mask is not what their images say. Large objects are in no mask."""
    data, before = rows.data, rows.before
    if data is None or before is None or rows.version is None:
        return
    if list(data.names) != list(before.names):
        common = [name for name in data.names if name in before.names]
        data, before = data.select(common), before.select(common)
    places, bits = _columns_of(data, bit_of)
    names = [data.names[at] for at in places.tolist()]
    types = {column.name: column.type for column in rows.version.columns}
    looked_at = np.array([types.get(name) not in LOBS for name in names], dtype=np.bool_)
    wrong = (changed[:, bits] != data.differs(before)[:, places]) & looked_at & compared[:, None]
    if absent is not None:
        wrong &= ~absent[:, bits]
    for row in np.flatnonzero(wrong.any(axis=1)).tolist():
        by_mask = [names[at] for at in np.flatnonzero(wrong[row] & changed[row, bits]).tolist()]
        by_images = [names[at] for at in np.flatnonzero(wrong[row] & ~changed[row, bits]).tolist()]
        hint = " (no mask names a LOB column, and without metadata none is known)"
        unknown = hint if by_images and not rows.version.schema_id else ""
        report(row, Problem.MASK_IMAGES, bitmask.disagreement(by_mask, by_images) + unknown)
