"""What the events of a split follow from, so that those of an earlier run can be kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from cdcwb.formats.base import Piece
from cdcwb.formats.idm_event_log.plan import Plan, SplitEntry

__all__ = ["pieces_of"]


def pieces_of(plan: Plan) -> Iterator[list[Piece]]:
    """What the events of each split follow from: its file, and how that is read. How many records stand before them
    only numbers those of a log without record ids."""
    for split in plan.splits:
        yield [_piece(plan, split)]


def _piece(plan: Plan, split: SplitEntry) -> Piece:
    entry = plan.files[split.file]
    context: dict[str, Any] = {
        "file": entry.to_dict(),
        "start": split.start,
        "stop": split.stop,
        "before": None if "record_id" in entry.labels else split.before,
        "schema": plan.schema,
        "zone": plan.zone,
    }
    return Piece((entry.probe.path,), json.dumps(context))
