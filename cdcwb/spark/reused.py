"""The events of a saved capture that are reused when files are appended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["reused_rows"]


def reused_rows(events: DataFrame, split: str, numbers: Sequence[int], files: Sequence[int]) -> DataFrame:
    """The events of reused splits, with the new number of the split in the column ``split`` and the new
    ``file_index``.

    ``numbers``: the new number of each split, -1 for one that is decoded again; ``files``: the new index of each file.
    """
    rows = events.where(_looked_up(numbers, split) >= 0).withColumn(split, _looked_up(numbers, split))
    if list(files) == list(range(len(files))):
        return rows
    return rows.withColumn("file_index", _looked_up(files, "file_index"))


def _looked_up(numbers: Sequence[int], index: str) -> Column:
    """The element of the list at the index in a column; the list is one literal, whatever its length."""
    listed = F.split(F.lit(",".join(map(str, numbers))), ",").cast("array<int>")
    return F.element_at(listed, F.col(index) + 1)
