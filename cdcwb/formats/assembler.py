"""Assembles changes and transactions from a complete set of events: those of a small capture, or of some transactions
collected from many splits. The rules are those of readers for one split (:mod:`cdcwb.formats.changes`,
:mod:`cdcwb.formats.trail`, :mod:`cdcwb.formats.delivered`, :mod:`cdcwb.formats.summaries`). The facts from the
end of a transaction are added here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa

from cdcwb.formats.changes import (
    ONLY_ASSEMBLED,
    Read,
    ended,
    finished,
    open_ones,
    read_changes,
    read_transactions,
)
from cdcwb.formats.delivered import ENDS, read_delivered, read_ends
from cdcwb.formats.dissector import EVERYTHING, Assembling, Format, Wanted
from cdcwb.formats.groups import Groups
from cdcwb.formats.halves import Halved, Halving
from cdcwb.formats.requests import problem_rows
from cdcwb.formats.summaries import PARTS, read_parts
from cdcwb.formats.trail import SUMMARIES, read_trail_changes, read_trail_checked, read_trail_transactions
from cdcwb.model import PROBLEMS, TRANSACTIONS

__all__ = ["Assembler"]

Batches = Iterator[pa.RecordBatch]


class Assembler:
    """The changes and transactions of some events of a capture.

    ``sources`` read them in capture order, each with the locations of its halves of updates; ``keys`` are the key
    columns by table for sources without keys.
    """

    def __init__(self, form: Format, keys: Mapping[str, Sequence[str]], sources: Sequence[tuple[Read, Halved]]) -> None:
        self._format, self._keys, self._sources = form, keys, sources
        self._is_trail = isinstance(form, Assembling) and not form.commits

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
            found = read_changes(self._read, wanted)
        elif self._is_trail:
            found = read_trail_changes(self._read, wanted)
        elif isinstance(form, Halving):  # change tables do not mark the end of a transaction
            found = self.delivered(wanted)
        else:
            ends = Groups(self.ends())
            found = (ended(batch, ends) for batch in self.delivered(wanted))
        return (finished(batch, self._keys, form.compressed_updates) for batch in found)

    def delivered(self, wanted: Wanted = EVERYTHING) -> Batches:
        """The changes of a stream of committed work, without facts from the ends of their transactions."""
        return self._of_each(read_delivered, wanted)

    def ends(self) -> pa.Table:
        """The ends of transactions from records of committed work (:data:`cdcwb.formats.delivered.ENDS`)."""
        return _table(self._of_each(read_ends, Wanted(images=False)), ENDS)

    def transactions(self) -> Batches:
        """Batches of :data:`cdcwb.model.TRANSACTIONS`, of a stream with begins and ends or of a trail."""
        reader = read_trail_transactions if self._is_trail else read_transactions
        return (rows.select(TRANSACTIONS.names) for _, rows in reader(self._read, Wanted(images=False)))

    def problems(self, wanted: Wanted = EVERYTHING) -> Batches:
        """Batches of :data:`cdcwb.model.PROBLEMS`: those of changes that none of their events has, and those of
        transactions without begin or end in a stream that has these, or in a trail."""
        form, of_transactions = self._format, []
        if self._is_trail:
            assert isinstance(form, Assembling)
            found = [*read_trail_checked(self._read, wanted, crosses=True)]
            changes: Batches = (rows for name, rows in found if name == "changes")
            summaries = [rows for name, rows in found if name == "crossing"]
            of_transactions = form.incomplete(form.merged(pa.Table.from_batches(summaries, SUMMARIES)))
        elif form.commits:
            changes = read_changes(self._read, wanted)
            of_transactions = [row for rows in self.transactions() for row in open_ones(rows)]
        else:
            changes = self.delivered(wanted)
        yield from (problem_rows(batch, ONLY_ASSEMBLED) for batch in changes)
        yield pa.RecordBatch.from_pylist(of_transactions, PROBLEMS)

    def parts(self) -> pa.Table:
        """The parts of transactions from records of committed work (:data:`cdcwb.formats.summaries.PARTS`)."""
        return _table(self._of_each(read_parts, Wanted(images=False)), PARTS)


def _table(batches: Batches, schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(list(batches), schema).combine_chunks()
