"""Assembles changes and transactions from a complete set of events: those of a small capture, or of some transactions
collected from many splits. The rules are those of readers for one split (:mod:`cdcwb.formats.changes`,
:mod:`cdcwb.formats.old.delivered`, :mod:`cdcwb.formats.old.trail`, :mod:`cdcwb.formats.old.summaries`). The facts from
the end of a transaction are added here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.changes import (
    ONLY_ASSEMBLED,
    Read,
    ended,
    finished,
    open_ones,
    read_changes,
    read_transactions,
    with_columns,
)
from cdcwb.formats.dissector import EVERYTHING, Format, Wanted
from cdcwb.formats.groups import Groups
from cdcwb.formats.old.delivered import ENDS, read_delivered, read_ends
from cdcwb.formats.old.protocols import Halved, Halving, reads_trail
from cdcwb.formats.old.summaries import PARTS, read_parts
from cdcwb.formats.old.trail import read_trail_changes
from cdcwb.formats.requests import problem_rows
from cdcwb.model import PROBLEMS, Outcome

__all__ = ["Assembler"]

Batches = Iterator[pa.RecordBatch]


class Assembler:
    """The changes and transactions of some events of a capture.

    ``sources`` read them in capture order, each with the locations of its halves of updates; ``keys`` are the key
    columns by table for sources without keys.
    """

    def __init__(self, form: Format, keys: Mapping[str, Sequence[str]], sources: Sequence[tuple[Read, Halved]]) -> None:
        self._format, self._keys, self._sources = form, keys, sources
        self._is_trail = reads_trail(form)

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
        elif isinstance(form, Halving):  # change tables do not mark the end of a transaction
            found = self.delivered(wanted)
        else:
            found = self._complete(wanted)
        return (finished(batch, self._keys, form.compressed_updates) for batch in found)

    def _complete(self, wanted: Wanted) -> Batches:
        ends = Groups(self.ends())
        for batch in self.delivered(wanted):
            if not wanted.images and pc.any(pc.equal(batch["outcome"], str(Outcome.UNDO))).as_py():
                (with_images,) = self.delivered()  # undone changes are found by their images; a trail is one batch
                yield ended(with_columns(batch, {"outcome": with_images["outcome"]}), ends)
            else:
                yield ended(batch, ends)

    def delivered(self, wanted: Wanted = EVERYTHING) -> Batches:
        """The changes of a stream of committed work, without facts from the ends of their transactions."""
        if self._is_trail:
            return read_trail_changes(self._read, wanted)
        return self._of_each(read_delivered, wanted)

    def ends(self) -> pa.Table:
        """The ends of transactions from records of committed work (:data:`cdcwb.formats.old.delivered.ENDS`)."""
        return _table(self._of_each(partial(read_ends, trail=self._is_trail), Wanted(images=False)), ENDS)

    def transactions(self) -> Batches:
        """Batches of :data:`cdcwb.model.TRANSACTIONS`, of a stream with begins and ends."""
        return (rows for _, rows in read_transactions(self._read, Wanted(images=False)))

    def problems(self, wanted: Wanted = EVERYTHING) -> Batches:
        """Batches of :data:`cdcwb.model.PROBLEMS`: those of changes that none of their events has, and those of
        transactions without begin or end in a stream that has these."""
        if not self._format.commits:
            yield from (problem_rows(batch, ONLY_ASSEMBLED) for batch in self.delivered(wanted))
            return
        yield from (problem_rows(batch, ONLY_ASSEMBLED) for batch in read_changes(self._read, wanted))
        for rows in self.transactions():
            yield pa.RecordBatch.from_pylist(open_ones(rows), PROBLEMS)

    def parts(self) -> pa.Table:
        """The parts of transactions from records of committed work (:data:`cdcwb.formats.old.summaries.PARTS`)."""
        headers = Wanted(images=False)
        if self._is_trail:
            return _table(read_parts(self._read, headers, trail=True), PARTS)
        return _table(self._of_each(read_parts, headers), PARTS)


def _table(batches: Batches, schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(list(batches), schema).combine_chunks()
