"""What the events of a split follow from, so that those of an earlier run can be kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from cdcwb.formats.base import Piece
from cdcwb.formats.qlik_change_table.plan import Plan, SplitEntry

__all__ = ["pieces_of"]


def pieces_of(plan: Plan) -> Iterator[list[Piece]]:
    """What the events of each split follow from: its file, and what all files say of its table: how masks are read,
    which columns are its key, the columns and the name of its version."""
    for split in plan.splits:
        yield [_piece(plan, split)]


def _piece(plan: Plan, split: SplitEntry) -> Piece:
    entry = plan.files[split.file]
    version = None if entry.version < 0 else plan.versions[entry.version]
    context: dict[str, Any] = {
        "file": {**asdict(entry), "table": None, "version": None, "shape": None},  # indexes, followed below
        "start": split.start,
        "stop": split.stop,
        "table": asdict(plan.tables[entry.table]),
        "version": None if version is None else (version.key, [asdict(column) for column in version.columns]),
        "shape": plan.shapes[entry.shape].to_dict(),
        "charset": plan.charset,
    }
    return Piece((entry.path,), json.dumps(context))
