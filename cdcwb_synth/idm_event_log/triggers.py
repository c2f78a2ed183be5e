"""What triggers log for a changed row, in the style of its table (``docs/formats/idm-event-log.md §3``)."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from cdcwb_synth.events import Row
from cdcwb_synth.idm_event_log.rows import LogRow, Statement
from cdcwb_synth.idm_event_log.tables import Watched

__all__ = ["Triggers", "styles"]

_INSERT_FIELD, _UPDATE_FIELD, _REPLACE_FIELD, _DELETE_ROW = 1, 2, 3, 4
_INSERT_ROW_BACK, _UPDATE_ROW_BACK, _INSERT_FIELD_BACK, _UPDATE_FIELD_BACK = 5, 6, 7, 8

_PLAIN: Final = ("field", "field_query", "row_query")
_SLOPPY: Final = 0.5  # share of the inserts that log what is NULL as well


def styles(weights: dict[str, float], count: int) -> list[str]:
    """The styles of so many tables, as near to the weights as can be, the heavier first."""
    total = sum(weights.values())
    given = dict.fromkeys(weights, 0)
    made = []
    for number in range(1, count + 1):
        style = max(weights, key=lambda one: weights[one] / total * number - given[one])
        given[style] += 1
        made.append(style)
    return made


class Triggers:
    """The triggers of all tables. ``rng`` decides what is left to whoever writes them."""

    def __init__(self, rng: Random, remove_all_share: float) -> None:
        self._rng = rng
        self._remove_all = remove_all_share

    def fire(self, style: str, watched: Watched, before: Row | None, after: Row | None) -> Statement:
        """The rows for a row that was there ``before`` and is there ``after`` (None: was or is not); none where nothing
        is logged. A row with another key than before is one that goes and one that comes."""
        if before is not None and (after is None or watched.key(before) != watched.key(after)):
            gone = LogRow(_DELETE_ROW, watched.name, watched.key_text(before))
            return [gone] if after is None else [gone, *self.fire(style, watched, None, after)]
        if after is None:
            return []
        if style != "mixed":
            return self._log(style, watched, before, after, watched.names)
        rows: Statement = []
        for one in self._rng.sample(_PLAIN, self._rng.choice((1, 2, 2, 3))):
            some = self._rng.sample(watched.names, self._rng.randint(1, len(watched.names)))
            rows += self._log(one, watched, before, after, [name for name in watched.names if name in some])
        return rows

    def _log(
        self, style: str, watched: Watched, before: Row | None, after: Row, names: Sequence[str]
    ) -> Statement:  # fmt: skip
        """Rows of one style, for the columns that are in ``names``."""
        table, key = watched.name, watched.key_text(after)
        if style == "row_query":
            return [LogRow(_INSERT_ROW_BACK if before is None else _UPDATE_ROW_BACK, table, key)]
        new = watched.texts(after)
        old = (None,) * len(new) if before is None else watched.texts(before)
        cells = [cell for cell in zip(watched.names, old, new, strict=True) if cell[0] in names]
        if before is not None:
            changed = [cell for cell in cells if cell[1] != cell[2]]
            if style == "field_query":
                return [LogRow(_UPDATE_FIELD_BACK, table, key, name) for name, _, _ in changed]
            kind = _REPLACE_FIELD if self._rng.random() < self._remove_all else _UPDATE_FIELD
            return [LogRow(kind, table, key, *cell) for cell in (changed or cells)]
        if style == "field_query":
            return [LogRow(_INSERT_FIELD_BACK, table, key, name) for name, _, _ in cells]
        known = cells if self._rng.random() < _SLOPPY else [cell for cell in cells if cell[2] is not None]
        return [LogRow(_INSERT_FIELD, table, key, *cell) for cell in (known or cells)]
