"""Changes that contradict the changes of their row before them, at known places (``docs/continuity.md``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
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

__all__ = ["Breaks"]

_AFTER: Final = ("late", "revived")  # the record with the break has the text in its after image, else before
_SHORTEST: Final = 6  # bytes of a column that can have the text


class _Planned(NamedTuple):
    """A break: its kind, the key column, and the text in a column that no other row has."""

    kind: str
    key: str
    column: str
    text: str


class Breaks:
    """The breaks that the options ask for. ``begin`` begins the same workload: from its history rows are drawn, each
    of which is inserted or deleted by a change that is committed."""

    def __init__(self, options: Options, seed: int, begin: Callable[[], Workload]) -> None:
        self._rng = Random(f"{seed} breaks")
        self._planned: dict[int, _Planned] = {}  # by the number of the change that they follow
        wanted = {name: getattr(options, name) for name in BREAKS}
        inserts = [name for name in ("lost", "repeated", "late") for _ in range(wanted[name])]
        deletes = [name for name in ("revived", "phantom") for _ in range(wanted[name])]
        if not inserts and not deletes:
            return
        drawn = {Operation.INSERT: _Drawn(self._rng, len(inserts)), Operation.DELETE: _Drawn(self._rng, len(deletes))}
        workload = begin()
        history = workload.history(workload.events())
        for change in (one for item in history if isinstance(item, Committed) for one in item.changes):
            if change.operation in drawn and _column(change) is not None:
                drawn[change.operation].add(change)
        for names, operation in ((inserts, Operation.INSERT), (deletes, Operation.DELETE)):
            for name, change in zip(names, drawn[operation].changes, strict=False):
                column = change.version.columns[_column(change) or 0].name
                text = f"~{len(self._planned)}"
                self._planned[change.number] = _Planned(BREAKS[name], change.version.table.key, column, text)

    def events(self, events: Iterable[Event]) -> Iterator[Event]:
        """The events with the changes that make the breaks, each after the change that its row was drawn for."""
        for event in events:
            yield event
            planned = self._planned.get(event.number) if isinstance(event, Change) else None
            if planned is not None and isinstance(event, Change):
                yield from _added(event, planned)

    def write(self, truth: Path) -> None:
        """Writes ``breaks.parquet`` beside the other tables of the truth: the breaks that the images of the capture
        show, each with its record."""
        if not self._planned:
            return
        names = ("schema_name", "table_name", "key", "before", "after", "file", "file_index", "offset", "position")
        texts = pa.array([one.text for one in self._planned.values()])
        found: dict[str, dict[str, Any]] = {}
        planned = {one.text: one for one in self._planned.values()}
        for batch in pq.ParquetFile(truth / "changes.parquet").iter_batches(columns=list(names)):
            for image in ("before", "after"):
                at = np.flatnonzero(pc.is_in(batch[image].items, texts))
                chosen = np.searchsorted(np.asarray(batch[image].offsets), at, "right") - 1
                for row in batch.take(pa.array(chosen)).to_pylist(maps_as_pydicts="strict"):
                    for name, text in row[image].items():
                        one = planned.get(text)
                        if one is None or name != one.column or (image == "after") != (one.kind in _AFTER):
                            continue
                        row |= {"kind": one.kind, "key_column": one.key}
                        last = found.setdefault(text, row)
                        if (row["file_index"], row["offset"]) > (last["file_index"], last["offset"]):
                            found[text] = row
        rows = sorted(found.values(), key=lambda row: (row["file_index"], row["offset"]))
        for row in rows:
            row["table"] = ".".join(filter(None, (row["schema_name"], row["table_name"])))
            key = row.pop("key_column")
            row["key"] = row["key"] or {key: (row["after"] or row["before"])[key]}
        pq.write_table(pa.Table.from_pylist(rows, model.BREAKS), truth / "breaks.parquet")


class _Drawn:
    """At most ``most`` changes, each as likely as the others."""

    def __init__(self, rng: Random, most: int) -> None:
        self.changes: list[Change] = []
        self._rng, self._most, self._seen = rng, most, 0

    def add(self, change: Change) -> None:
        self._seen += 1
        if len(self.changes) < self._most:
            self.changes.append(change)
        elif (at := int(self._rng.random() * self._seen)) < self._most:
            self.changes[at] = change


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


def _added(change: Change, planned: _Planned) -> list[Change]:
    """The changes that follow a change of a row, with the break."""
    row, at = change.after or change.before or (), _column(change) or 0
    other = (*row[:at], planned.text, *row[at + 1 :])

    def update(before: Any, after: Any, **more: Any) -> Change:
        return replace(change, operation=Operation.UPDATE, before=before, after=after, number=0, **more)

    match planned.kind:
        case "gap":
            return [update(other, row)]
        case "repeat":
            return [update(row, other), update(other, row), update(other, row)]
        case "late":
            return [update(row, other, is_late=True), update(other, row)]
        case "revived":
            return [update(row, other)]
        case _:
            return [replace(change, before=other, number=0)]
