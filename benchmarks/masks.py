"""Change masks to names of columns: cdcwb's arrays against a Python function per row, as analysts write it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import numpy as np
import pyarrow as pa

from cdcwb.formats import bitmask

__all__ = ["PEER", "difference", "works"]

PEER = "Python function per row"
COLUMNS = 117
_NAMES = [f"column_{number}" for number in range(1, COLUMNS + 1)]


def _masks(count: int, seed: int = 9) -> pa.StringArray:
    """Masks of updates: a few of the columns are set."""
    rng = Random(seed)
    width = COLUMNS // 8 + 1
    texts = []
    for _ in range(count):
        mask = sum(1 << at for at in rng.sample(range(COLUMNS), rng.randint(1, 6)))
        texts.append(f"{mask:0{2 * width}X}")
    return pa.array(texts)


def changed(mask: str, names: Sequence[str] = _NAMES) -> list[str]:
    """The columns of one mask."""
    number = int(mask, 16)
    return [name for at, name in enumerate(names) if number >> at & 1]


def _vectorised(texts: pa.StringArray) -> pa.ListArray:
    masks, _ = bitmask.parse(texts)
    bits, _ = bitmask.bits(masks, "big", COLUMNS)
    return bitmask.names(bits, _NAMES, np.zeros(len(texts), dtype=np.bool_))


def works(count: int) -> dict[str, Callable[[], int]]:
    """Both ways over the same masks; each gives the number of masks."""
    texts = _masks(count)

    def by_row() -> int:
        return len(pa.array([changed(text) for text in texts.to_pylist()], pa.list_(pa.string())))

    return {PEER: by_row, "bitmask": lambda: len(_vectorised(texts))}


def difference(count: int) -> str | None:
    """The first mask about which both disagree, or None."""
    texts = _masks(count)
    for text, found in zip(texts.to_pylist(), _vectorised(texts).to_pylist(), strict=True):
        if changed(text) != found:
            return f"mask {text}: {found}, by hand {changed(text)}"
    return None
