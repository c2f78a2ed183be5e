"""Changes that contradict the changes of their row before them, at known places (``docs/continuity.md``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdcwb_synth import model
from cdcwb_synth.model import Operation
from cdcwb_synth.options import BREAKS, Options
from cdcwb_synth.values import Type
from cdcwb_synth.workload import Change, Committed, Event, Workload

_AFTER: Final = ("late", "revived")  # the record with the break has the text in its after image, else before
_SHORTEST: Final = 6  # bytes of a column that can have the text


class _Planned(NamedTuple):
    """A break: its kind, the key column, and the column that has a text that no other row has."""

    kind: str
    key: str
    column: str


class Breaks:
    """The breaks that the options ask for. ``begin`` begins the same workload: from its history rows are drawn, each
    of which is inserted or deleted by a change that is committed."""

    def __init__(self, options: Options, seed: int, begin: Callable[[], Workload]) -> None:
        wanted = {Operation.INSERT: ("lost", "repeated", "late"), Operation.DELETE: ("revived", "phantom")}
        self._kinds: dict[int, str] = {}  # by the number of the change that they follow
        self._planned: dict[str, _Planned] = {}  # by their text
        if not any(getattr(options, name) for name in BREAKS):
            return
        workload, rng = begin(), Random(f"{seed} breaks")
        history = workload.history(workload.events())
        changes = (change for item in history if isinstance(item, Committed) for change in item.changes)
        drawn = [(one.operation, one.number) for one in changes if one.operation in wanted and _column(one) is not None]
        for operation, names in wanted.items():
            kinds = [BREAKS[name] for name in names for _ in range(getattr(options, name))]
            numbers = [number for own, number in drawn if own is operation]
            self._kinds |= zip(rng.sample(numbers, min(len(kinds), len(numbers))), kinds, strict=False)

    def events(self, events: Iterable[Event]) -> Iterator[Event]:
        """The events with the changes that make the breaks, each after the change that its row was drawn for."""
        for event in events:
            yield event
            if isinstance(event, Change) and (kind := self._kinds.get(event.number)):
                at, text = _column(event) or 0, f"~{len(self._planned)}"
                self._planned[text] = _Planned(kind, event.version.table.key, event.version.columns[at].name)
                yield from _added(event, kind, at, text)

    def write(self, truth: Path) -> None:
        """Writes ``breaks.parquet`` beside the other tables of the truth: the breaks that the images of the capture
        show, each with its record."""
        if not self._planned:
            return
        names = ("schema_name", "table_name", "key", "before", "after", "file", "file_index", "offset", "position")
        texts = pa.array(list(self._planned))
        found: dict[str, dict[str, Any]] = {}
        place = itemgetter("file_index", "offset")
        for batch in pq.ParquetFile(truth / "changes.parquet").iter_batches(columns=list(names)):
            for image in ("before", "after"):
                at = np.flatnonzero(pc.is_in(batch[image].items, texts))
                chosen = np.searchsorted(np.asarray(batch[image].offsets), at, "right") - 1
                for row in batch.take(pa.array(chosen)).to_pylist(maps_as_pydicts="strict"):
                    for name, text in row[image].items():
                        one = self._planned.get(text)
                        if one is None or name != one.column or (image == "after") != (one.kind in _AFTER):
                            continue
                        row["kind"], row["key"] = one.kind, row["key"] or {one.key: row[image][one.key]}
                        row["table"] = ".".join(filter(None, (row["schema_name"], row["table_name"])))
                        found[text] = max(found.get(text, row), row, key=place)
        rows = sorted(found.values(), key=place)
        pq.write_table(pa.Table.from_pylist(rows, model.BREAKS), truth / "breaks.parquet")


def _column(change: Change) -> int | None:
    """The column that can have a text of its own: the last short text that is not the key, nor NULL, which event logs
    do not have."""
    row = change.after or change.before or ()
    for at in reversed(range(len(row))):
        column = change.version.columns[at]
        is_text = column.type in (Type.CHAR, Type.VARCHAR) and column.length >= _SHORTEST
        if is_text and at != change.version.key and row[at] is not None:
            return at
    return None


def _added(change: Change, kind: str, at: int, text: str) -> list[Change]:
    """The changes that follow a change of a row, with the break."""
    row = change.after or change.before or ()
    other = (*row[:at], text, *row[at + 1 :])

    def update(before: Any, after: Any) -> Change:
        return replace(change, operation=Operation.UPDATE, before=before, after=after, number=0)

    both = [update(row, other), update(other, row)]
    return {
        "gap": both[1:], "repeat": [*both, both[1]], "late": [replace(both[0], is_late=True), both[1]],
        "revived": both[:1], "phantom": [replace(change, before=other, number=0)],
    }[kind]  # fmt: skip
