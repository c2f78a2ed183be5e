"""What the plans of all formats of messages have: containers, the parts that one task reads, and what was detected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cdcwb.formats.base import Run
from cdcwb.formats.findings import detected_row
from cdcwb.formats.messages.container import OPTIONS, Container
from cdcwb.formats.messages.probe import probe
from cdcwb.formats.messages.reading import parts
from cdcwb.model import OffsetUnit

__all__ = ["Part", "container_rows", "file_rows", "grouped", "probe_all"]

Part = tuple[int, int, int]
"""Index of a container, and the run ``[start, stop)`` of its bytes or rows whose messages belong to the part."""

_TOGETHER: Final = 4 << 20
_MOST_FILES: Final = 64
_FILES: Final = 64  # that one task looks at


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


def probe_all(paths: Sequence[str], options: Mapping[str, Any], run: Run) -> list[Container]:
    """What each file is. Raises CaptureError for one that cannot be read."""
    some = [(paths[at : at + _FILES], dict(options)) for at in range(0, len(paths), _FILES)]
    return [one for found in run(_probe, some) for one in found]


def _probe(task: tuple[Sequence[str], dict[str, Any]]) -> list[Container]:
    paths, options = task
    return [probe(path, options) for path in paths]


def file_rows(found: Sequence[Container]) -> list[dict[str, Any]]:
    """The files of a capture: file, file_index, size (bytes, decompressed), shape, compression, problem, rows (None
    where bytes count)."""
    return [
        {
            "file": one.path,
            "file_index": index,
            "size": one.size,
            "shape": one.kind,
            "compression": one.compression,
            "problem": one.problem,
            "rows": None if one.unit == OffsetUnit.BYTE else one.count,
        }
        for index, one in enumerate(found)
    ]


def container_rows(found: Sequence[Container], options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What holds the messages, for ``detected``: one row for each kind, and what was concluded in it."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for one in found:
        for setting, value in (("container", one.kind), *one.settings.items()):
            if setting in OPTIONS:
                given = str(options.get(setting, "auto")) not in ("auto", "")
                rows.setdefault((setting, value), detected_row(setting, value, one.evidence, given))
    return list(rows.values())
