"""Which parts of containers one task reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cdcwb.formats.messages.container import Container
from cdcwb.formats.messages.reading import parts

__all__ = ["Part", "grouped"]

Part = tuple[int, int, int]
"""Index of a container, and the run ``[start, stop)`` of its bytes or rows whose messages belong to the part."""

_TOGETHER: Final = 4 << 20
_MOST_FILES: Final = 64


def grouped(found: Sequence[Container], split_size: int) -> list[list[Part]]:
    """The parts of all containers, those of small ones together: a task costs more than to read a few messages."""
    groups: list[list[Part]] = []
    room = 0.0
    for index, container in enumerate(found):
        whole = container.size if container.unit == "byte" else max(container.count or 0, 1)
        for start, stop in parts(container, split_size):
            size = container.size * (stop - start) / max(whole, 1)
            if not groups or size > room or len(groups[-1]) >= _MOST_FILES:
                groups.append([])
                room = min(_TOGETHER, split_size)
            groups[-1].append((index, start, stop))
            room -= size
    return groups
