"""Assembles changes and transactions from a complete set of events: those of a small capture, or of some transactions
collected from many splits. The rules are those of readers for one split (:mod:`cdcwb.formats.assembly`,
:mod:`cdcwb.formats.delivered`, :mod:`cdcwb.formats.summaries`). Facts that need all events of a transaction are added
here: its end, fragments that continue its records, and records that undo others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.formats.assembly import (
    CHANGES,
    Read,
    finished,
    labels,
    read_changes,
    read_trail_changes,
    read_transactions,
    with_columns,
)
from cdcwb.formats.base import EVERYTHING, Format, Halved, Halving, Pairing, Wanted
from cdcwb.formats.delivered import ENDS, read_delivered, read_ends
from cdcwb.formats.halves import FLAG, as_array, undo_outcomes
from cdcwb.formats.summaries import PARTS, Groups, read_parts, read_trail_parts
from cdcwb.model import Kind, Outcome, Problem

__all__ = ["Assembler", "ended"]

Batches = Iterator[pa.RecordBatch]
Row = dict[str, Any]
Location = tuple[int, int]
"""file_index and offset"""

_OF_FRAGMENTS: Final = ["kind", "file_index", "offset", "length", "position", "transaction_id", "headers", "problems"]


class Assembler:
    """The changes and transactions of some events of a capture.

    ``sources`` read them in capture order, each with the locations of its halves of updates; ``facts`` are those of the
    capture's plan (whether there are ``fragments`` and ``undo_records``), ``keys`` the key columns by table for sources
    without keys.
    """

    def __init__(
        self,
        form: Format,
        facts: Mapping[str, Any],
        keys: Mapping[str, Sequence[str]],
        sources: Sequence[tuple[Read, Halved]],
    ) -> None:
        self._format, self._facts, self._keys, self._sources = form, facts, keys, sources
        self._is_trail = form.pairing is Pairing.TRANSACTION and not form.commits

    def _read(self, wanted: Wanted) -> Batches:
        for read, _ in self._sources:
            yield from read(wanted)

    def _of_each(self, reader: Callable[..., Batches], wanted: Wanted) -> Batches:
        for read, halved in self._sources:
            yield from reader(read, wanted, halved)

    def changes(self, wanted: Wanted = EVERYTHING) -> Batches:
        """Batches of :data:`cdcwb.model.CHANGES`."""
        form = self._format
        if form.commits:
            found = read_changes(self._read, wanted, frozenset())
        elif isinstance(form, Halving):  # change tables do not mark the end of a transaction
            found = self.delivered(wanted)
        else:
            found = self._complete(wanted)
        return (finished(batch, self._keys, form.compressed_updates) for batch in found)

    def _complete(self, wanted: Wanted) -> Batches:
        ends = Groups(self.ends())
        fragments = self._fragments() if self._facts.get("fragments") else {}
        undone = self._undone() if self._facts.get("undo_records") else {}
        for batch in self.delivered(wanted):
            yield _marked(ended(batch, ends), fragments, undone)

    def delivered(self, wanted: Wanted = EVERYTHING) -> Batches:
        """The changes of a stream of committed work, without facts from the ends of their transactions."""
        if self._is_trail:
            return read_trail_changes(self._read, wanted, frozenset())
        return self._of_each(read_delivered, wanted)

    def ends(self) -> pa.Table:
        """The ends of transactions from records of committed work (:data:`cdcwb.formats.delivered.ENDS`)."""
        return _table(self._of_each(partial(read_ends, trail=self._is_trail), Wanted(images=False)), ENDS)

    def transactions(self) -> Batches:
        """Batches of :data:`cdcwb.model.TRANSACTIONS`, of a stream with begins and ends."""
        return read_transactions(self._read, Wanted(images=False), frozenset())

    def parts(self) -> pa.Table:
        """The parts of transactions from records of committed work (:data:`cdcwb.formats.summaries.PARTS`)."""
        headers = Wanted(images=False)
        if self._is_trail:
            return _table(read_trail_parts(self._read, headers, self.delivered(headers)), PARTS)
        return _table(self._of_each(read_parts, headers), PARTS)

    def _fragments(self) -> dict[Location, list[Row]]:
        """The fragments that continue events, by the location of the event, as :data:`cdcwb.model.SOURCE_EVENT`. A
        fragment names the event in the header ``continues``: by position, or by ``file_index:offset`` if an event has
        no position or that of a different preceding one."""
        names: dict[tuple[str | None, str], list[Location]] = defaultdict(list)
        fragments = []
        for batch in self._read(Wanted(images=False, columns=frozenset(_OF_FRAGMENTS))):
            for row in batch.select(_OF_FRAGMENTS).to_pylist():
                if row["kind"] == Kind.FRAGMENT:
                    fragments.append(row)
                elif row["kind"] in CHANGES:
                    location = row["file_index"], row["offset"]
                    again = any(one["code"] == Problem.SAME_POSITION for one in row["problems"] or ())
                    name = None if again else row["position"]
                    names[row["transaction_id"], name or f"{location[0]}:{location[1]}"].append(location)
        found: dict[Location, list[Row]] = defaultdict(list)
        for row in fragments:
            named: str = dict(row["headers"] or ()).get("continues", "")
            for location in names.get((row["transaction_id"], named), ()):
                found[location].append({field.name: row[field.name] for field in model.SOURCE_EVENT})
        return found

    def _undone(self) -> dict[Location, str]:
        """The outcomes of changes that undo others or are undone, by their locations."""
        undoing = {name for batch in self.delivered(Wanted(images=False)) for name in _undoing(batch)}
        wanted = pa.array(sorted(undoing), pa.string())
        images = ("key", "before", "after")
        columns = ["transaction_id", "file_index", "offset", "position", "operation", *images]
        each: dict[str, list[Row]] = defaultdict(list)
        for batch in self.delivered():
            some = batch.filter(pc.is_in(batch["transaction_id"], wanted))
            tables = labels(some["schema_name"], some["table_name"]).to_pylist()
            flags = _flags(some).to_pylist()
            for row, table, flag in zip(some.select(columns).to_pylist(), tables, flags, strict=True):
                maps = {name: None if row[name] is None else dict(row[name]) for name in images}
                each[row["transaction_id"]].append({**row, **maps, "table": table, "undoes": flag})
        found: dict[Location, str] = {}
        for rows in each.values():
            found |= undo_outcomes(rows)
        return found


def _flags(changes: pa.RecordBatch) -> pa.Array:
    """A mask of changes that undo others."""
    return pc.fill_null(pc.equal(pc.map_lookup(changes["headers"], FLAG, "first"), "1"), False)


def _undoing(changes: pa.RecordBatch) -> list[str]:
    """The transactions of changes that undo others."""
    found: list[str] = changes["transaction_id"].filter(_flags(changes)).drop_null().unique().to_pylist()
    return found


def ended(changes: pa.RecordBatch, ends: Groups) -> pa.RecordBatch:
    """Changes with the facts from the ends of their transactions."""
    if not len(ends):
        return changes
    mine = pc.index_in(changes["transaction_id"], ends.names, skip_nulls=True)
    rolled_back = pa.array(ends.some(as_array(pc.fill_null(ends.column("rolls_back"), False)))).take(mine)
    known = {
        "commit_position": ends.greatest(ends.column("commit_position")).take(mine),
        "committed_at": pc.coalesce(changes["committed_at"], ends.greatest(ends.column("committed_at")).take(mine)),
        "outcome": pc.if_else(pc.fill_null(rolled_back, False), str(Outcome.ROLLED_BACK), changes["outcome"]),
    }
    return with_columns(changes, known)


def _marked(
    changes: pa.RecordBatch, fragments: Mapping[Location, list[Row]], undone: Mapping[Location, str]
) -> pa.RecordBatch:
    """Changes with the fragments of their events, and the outcomes of those that undo others or are undone."""
    if not fragments and not undone:
        return changes
    events, outcome = changes["source_events"].to_pylist(), changes["outcome"].to_pylist()
    locations = zip(changes["file_index"].to_pylist(), changes["offset"].to_pylist(), strict=True)
    for row, location in enumerate(locations):
        outcome[row] = undone.get(location, outcome[row])
        events[row] = [
            one for event in events[row] for one in (event, *fragments.get((event["file_index"], event["offset"]), ()))
        ]
    known = {
        "source_events": pa.array(events, model.CHANGES.field("source_events").type),
        "outcome": pa.array(outcome, pa.string()),
    }
    return with_columns(changes, known)


def _table(batches: Batches, schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(list(batches), schema).combine_chunks()
