"""Changes that take back earlier ones of their transaction: NonStop's UndoFlag (docs/formats/goldengate.md §6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cdcwb.model import Operation, Outcome

__all__ = ["FLAG", "outcomes", "undo_outcomes"]

FLAG: Final = "UndoFlag"
"""The header that is 1 where a record takes back an earlier one."""

_OPPOSITE: Final = {
    str(Operation.INSERT): str(Operation.DELETE),
    str(Operation.DELETE): str(Operation.INSERT),
    str(Operation.UPDATE): str(Operation.UPDATE),
}

Change = Mapping[str, Any]


def undo_outcomes(changes: Sequence[Change]) -> dict[tuple[int, int], str]:
    """What became of a transaction's changes that undo others or are undone, by file_index and offset. Images and keys
    are dictionaries; ``table`` is the name of the table, ``undoes`` says whether a change takes back another one."""
    in_order = sorted(
        changes, key=lambda one: (one["position"] is None, one["position"], one["file_index"], one["offset"])
    )
    return {(in_order[at]["file_index"], in_order[at]["offset"]): mark for at, mark in outcomes(in_order).items()}


def outcomes(changes: Sequence[Change]) -> dict[int, str]:
    """Which of a transaction's changes, in log order, undo others (``undo``) and which are undone: index -> outcome.

    A change with ``undoes`` takes back the latest change before it that is not taken back yet, is of the same table,
    has the opposite operation and the same row: the same key where both have one, else images that agree in every
    column they share.
    """
    found: dict[int, str] = {}
    for at, change in enumerate(changes):
        if not change["undoes"]:
            continue
        found[at] = str(Outcome.UNDO)
        wanted = _OPPOSITE.get(change["operation"])
        for earlier in range(at - 1, -1, -1):
            other = changes[earlier]
            if (
                earlier not in found
                and other["operation"] == wanted
                and other["table"] == change["table"]
                and _same_row(other, change)
            ):
                found[earlier] = str(Outcome.UNDONE)
                break
    return found


def _same_row(done: Change, undoing: Change) -> bool:
    if done["key"] is not None and undoing["key"] is not None:
        return bool(done["key"] == undoing["key"])
    pairs = [(done["after"], undoing["before"]), (done["before"], undoing["after"])]
    shared = [(one, other, one.keys() & other.keys()) for one, other in pairs if one is not None and other is not None]
    return any(names for _, _, names in shared) and all(
        one[name] == other[name] for one, other, names in shared for name in names
    )
