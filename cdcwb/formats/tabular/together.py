"""All rows of a part with the same columns of text, whatever they came in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdcwb.formats.tabular.parts import Part
from cdcwb.formats.tabular.rows import Rows

__all__ = ["TextRows", "text_rows"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TextRows:
    """Rows in the order of the file. ``index``: their segments in the part; ``offset`` and ``length``: their places in
    its unit; ``columns``: texts, null for NULL and where a row has no such column; ``garbled``: (row, column) whose
    bytes are not in the character set, their text being the hex of them; ``raw``: the bytes, None where there are
    none."""

    index: Ints
    offset: Ints
    length: Ints
    columns: list[pa.StringArray]
    garbled: list[tuple[int, int]]
    raw: pa.BinaryArray | None

    def __len__(self) -> int:
        return len(self.index)


def text_rows(part: Part[Any], names: Sequence[str]) -> TextRows | None:
    """The rows of a part as columns of text, by name; None where it has none."""
    groups = [_of(indices, rows, names) for indices, rows in part.rows if len(indices)]
    if len(groups) < 2:
        return groups[0] if groups else None
    index = np.concatenate([group.index for group in groups])
    order = np.argsort(index, kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    before = np.cumsum([0, *(len(group) for group in groups)])
    chosen = pa.array(order)
    garbled = [(int(place[before[at] + row]), one) for at, group in enumerate(groups) for row, one in group.garbled]
    raws = [group.raw for group in groups if group.raw is not None]
    return TextRows(
        index[order],
        np.concatenate([group.offset for group in groups])[order],
        np.concatenate([group.length for group in groups])[order],
        [pa.concat_arrays([group.columns[at] for group in groups]).take(chosen) for at in range(len(names))],
        sorted(garbled),
        pa.concat_arrays(raws).take(chosen) if len(raws) == len(groups) else None,
    )


def _of(indices: Ints, rows: Rows[Any], names: Sequence[str]) -> TextRows:
    places = {name: place for place, name in enumerate(rows.layout.names)}
    columns, garbled = [], []
    for at, name in enumerate(names):
        place = places.get(name)
        if place is None:
            columns.append(pa.nulls(len(indices), pa.string()))
            continue
        columns.append(rows.text(place))
        garbled += [(int(row), at) for row in rows.garbled(place)]
    return TextRows(indices, rows.offset, rows.length, columns, sorted(garbled), rows.raw())
