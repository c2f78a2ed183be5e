"""Files of one partition of a topic, which are named by their first offset like Kafka's segments, or by first and last
offset if several were merged: ``orders-0/00000000000000000100-00000000000000000199.parquet``.

So a message is found again by partition and offset after files were merged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

__all__ = ["extent_of", "holding", "partition_of", "segment_name"]

_NAME: Final = re.compile(r"(\d{20})(?:-(\d{20}))?\.parquet")


def segment_name(first: int, last: int | None = None) -> str:
    """The name of a file with the messages from ``first`` on, or to ``last``."""
    return f"{first:020}.parquet" if last is None else f"{first:020}-{last:020}.parquet"


def extent_of(path: str) -> tuple[int, int] | None:
    """The first and the last offset of a file, twice the first if its name has only that. None: another name."""
    found = _NAME.fullmatch(re.split(r"[/\\]", path)[-1])
    return None if found is None else (int(found[1]), int(found[2] or found[1]))


def partition_of(path: str) -> str:
    """The common key of files of one partition: their folder. Any other file is its own key."""
    return path if extent_of(path) is None else re.split(r"[/\\][^/\\]*$", path)[0]


def holding(path: str, offset: int, known: Iterable[str] | None = None) -> str:
    """The file, among the ``known`` ones or in its folder, with the message at this offset of the partition of
    ``path``; ``path`` itself if it exists, or no file has it."""
    if known is None:
        if Path(path).exists() or extent_of(path) is None:
            return path
        known = map(str, Path(path).parent.glob("*.parquet"))
    mine: dict[int, str] = {}
    for one in known:
        if one == path:
            return path
        if (extent := extent_of(one)) is not None and partition_of(one) == partition_of(path):
            mine[extent[0]] = one
    first = max((first for first in mine if first <= offset), default=None)
    return path if first is None else mine[first]
