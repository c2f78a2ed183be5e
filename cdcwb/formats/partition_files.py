"""Files of one partition of a topic, which are named by their first offset as Kafka names its segments, and by their
first and last where several became one: ``orders-0/00000000000000000100-00000000000000000199.parquet``.

So a message is found again by partition and offset, whatever became of the file that it was in.
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
    """The first offset of a file, and its last, or the first again if its name says no more. None: another name."""
    found = _NAME.fullmatch(re.split(r"[/\\]", path)[-1])
    return None if found is None else (int(found[1]), int(found[2] or found[1]))


def partition_of(path: str) -> str:
    """What files of one partition have in common: their folder. Any other file is by itself."""
    return path if extent_of(path) is None else re.split(r"[/\\][^/\\]*$", path)[0]


def holding(path: str, offset: int, known: Iterable[str] | None = None) -> str:
    """The file, among those that are ``known``, or in its folder, that has the message with this offset of the
    partition ``path`` is of; ``path`` itself where it is there, or none has."""
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
