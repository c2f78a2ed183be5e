"""From a split to its rows, whatever the file is (docs/formats/qlik-change-table.md §1)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdcwb.formats import tabular
from cdcwb.formats.qlik_change_table.layout import Layout, Part, lay_out
from cdcwb.formats.qlik_change_table.plan import FileEntry, Shape
from cdcwb.formats.tabular import FileProbe

__all__ = ["file_of", "find_part", "iter_parts", "rows_of_batch"]


def file_of(entry: FileEntry, shape: Shape, charset: str, groups: tuple[tuple[int, int], ...] = ()) -> FileProbe:
    """A file of the plan as its rows are read."""
    return FileProbe(
        entry.path,
        shape.kind,
        shape.layout.names,
        len(shape.layout.names),
        charset,
        shape.dialect,
        settings=shape.settings,
        size=entry.size,
        compression=entry.compression,
        first=entry.first,
        header=entry.header,
        groups=groups,
        problem=entry.problem,
    )


def iter_parts(entry: FileEntry, shape: Shape, charset: str, start: int, stop: int) -> Iterator[Part]:
    """The segments of a file that begin in ``[start, stop)`` (bytes, or row groups of a Parquet file), in order,
    without gap or overlap."""
    layout, file = shape.layout, file_of(entry, shape, charset)
    return tabular.read_parts(file, layout, start, stop, partial(_like, layout), _masks(layout))


def find_part(entry: FileEntry, shape: Shape, charset: str, offset: int) -> tuple[Part, int]:
    """The part that holds a place, a byte of the decompressed file or the number of a row, and the index of its
    segment. Raises CaptureError where the file ends before."""
    layout, file = shape.layout, file_of(entry, shape, charset)
    return tabular.find_part(file, layout, offset, partial(_like, layout), _masks(layout))


def rows_of_batch(batch: pa.RecordBatch, number: npt.NDArray[np.int64], layout: Layout) -> Part:
    """Rows of a table, with their numbers; the columns stand as the layout has them."""
    return tabular.rows_of_batch(batch, number, layout, _masks(layout))


def _masks(layout: Layout) -> frozenset[int]:
    """The column of masks: as text, they are in upper case wherever they come from."""
    place = layout.known.get("change_mask")
    return frozenset() if place is None else frozenset([place])


def _like(layout: Layout, names: tuple[str, ...]) -> Layout:
    """The layout of a row that has other keys than the first rows of its file: header columns are those of the same
    names, or of the same prefix."""
    known = {layout.names[place]: name for name, place in layout.known.items()}
    prefix = next((full[: len(full) - len(name)] for full, name in known.items()), None)
    return lay_out(names, prefix)
