"""What the events of a split follow from, so that those of an earlier run can be kept."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import accumulate
from typing import Any

from cdcwb.formats.base import Piece
from cdcwb.formats.gbase8s.plan import Plan, SplitEntry

__all__ = ["pieces_of"]


def pieces_of(plan: Plan) -> Iterator[list[Piece]]:
    """What the events of each split follow from.

    Records run on from file to file, so the files are all that the split reaches into: all behind it where its records
    are damaged or its last one ends with the stream. Places count from the first of these files on, for what stands
    before it has no part in the events but for what it left in force and open.
    """
    starts = list(accumulate((entry.length for entry in plan.files), initial=0))
    for split in plan.splits:
        yield [_piece(plan, split, starts)]


def _piece(plan: Plan, split: SplitEntry, starts: Sequence[int]) -> Piece:
    first, last = 0, len(plan.files) - 1
    if plan.mode == "stream":  # else the whole of the stream tells where reads begin
        first = min([bisect_right(starts, split.start, hi=last + 1) - 1, *split.closes])
        if 0 <= split.reach <= starts[-1]:
            last = max([first, bisect_left(starts, split.reach, hi=last + 1) - 1, *split.closes])
    base, involved = starts[first], plan.files[first : last + 1]
    context: dict[str, Any] = {
        "files": [asdict(entry) for entry in involved],
        "mode": plan.mode,
        "buffer_size": plan.buffer_size,
        "settings": asdict(plan.settings),
        "labels": sorted(plan.labels.items()),
        "start": split.start - base,
        "stop": split.stop - base,
        "open_before": sorted(split.open_before.items()),
        "in_force": sorted(split.in_force.items()),
        "closes": [plan.files[index].path for index in split.closes],
        "versions": [
            (one.label, one.number, one.text, one.fixed_bytes, one.fixed_columns, one.variable_columns, one.origin)
            for one in plan.versions
            if one.file_index <= last
        ],
    }
    return Piece(tuple(entry.path for entry in involved), json.dumps(context))
