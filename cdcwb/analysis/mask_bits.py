"""Masks taken apart bit by bit, with the column that each bit stands for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from cdcwb.formats import bitmask

__all__ = ["Bit", "Drawn", "draw"]

_ROOM: Final = 64  # bits behind the last column that are looked at


@dataclass(frozen=True, slots=True)
class Bit:
    """One bit: its number from 0, the ``column`` that it stands for (None: a header column, or none), what it is
    (``data``, ``header`` or ``beyond`` the last column), and whether it is set."""

    number: int
    column: str | None
    kind: str
    is_set: bool


@dataclass(frozen=True, slots=True)
class Drawn:
    """A mask as the source wrote it, its table and operation, with how many ``changes`` have it and its
    ``bits`` from bit 0. ``order`` is the byte order that it is read in; ``offset`` the bit of the first data column.
    ``said``: the columns that ``events`` name for it."""

    table: str
    operation: str | None
    mask: str
    changes: int
    order: str
    offset: int
    bits: tuple[Bit, ...]
    said: tuple[str, ...] | None


def draw(
    masks: Iterable[Mapping[str, Any]],
    versions: Iterable[Mapping[str, Any]],
    detected: Iterable[Mapping[str, Any]],
) -> list[Drawn]:
    """The masks of :func:`cdcwb.analysis.masks.masks`, bit by bit. ``versions`` and ``detected`` are rows of these
    tables: the columns of each version, and the byte order and offset that were concluded (big and 0 where nothing
    was).

    Texts that are no mask are left out.
    """
    columns = {row["table_version"]: [one["name"] for one in row["columns"] or ()] for row in versions}
    orders, offsets = _settings(detected, "mask_order"), _settings(detected, "mask_offset")
    found = []
    for row in masks:
        names = columns.get(row["table_version"], [])
        order = orders.get(row["table"], orders.get("capture", "big"))
        offset = int(offsets.get(row["table"], offsets.get("capture", "0")))
        parsed, wrong = bitmask.parse(pa.array([row["change_mask"]], pa.string()))
        if wrong[0]:
            continue
        width = offset + len(names) + _ROOM
        matrix, _ = bitmask.bits(parsed, order if order in bitmask.ORDERS else "big", width)
        flags = [bool(one) for one in matrix[0]]
        last = max((at for at, flag in enumerate(flags) if flag), default=-1)
        bits = [_bit(at, flags[at], offset, names) for at in range(max(offset + len(names), last + 1))]
        said = None if row["changed_columns"] is None else tuple(row["changed_columns"])
        found.append(
            Drawn(
                *(row["table"], row["operation"], row["change_mask"], row["changes"]),
                *(order, offset, tuple(bits), said),
            )
        )
    return found


def _bit(at: int, is_set: bool, offset: int, names: Sequence[str]) -> Bit:
    if at < offset:
        return Bit(at, None, "header", is_set)
    if at < offset + len(names):
        return Bit(at, names[at - offset], "data", is_set)
    return Bit(at, None, "beyond", is_set)


def _settings(detected: Iterable[Mapping[str, Any]], setting: str) -> dict[str, str]:
    return {row["scope"]: row["value"] for row in detected if row["setting"] == setting}
