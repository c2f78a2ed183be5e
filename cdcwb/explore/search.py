"""A search in values: the records of the changes whose images match a filter.

The index has no values. The changes are read batch by batch: from the saved changes or by the readers of the format in
this process, of a large capture by Spark. A step reads for a part of a second, so that a page shows the progress and
can cancel the search.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.errors import CaptureError
from cdcwb.filters import TRUE, UNDECIDED, Comparison, Filter, holds
from cdcwb.index.columns import Bools, Column
from cdcwb.index.source import IndexedCapture
from cdcwb.model import EVENTS

LOCATION: Final = ("file_index", "offset")

Ints = npt.NDArray[np.int64]


def compare(columns: Mapping[str, Column], comparison: Comparison) -> Bools:
    """Whether a comparison with a header holds, for each record."""
    return columns[comparison.column].compare(comparison.sign, comparison.value)


class Search:
    """The records that match a filter, as far as they were searched. ``total`` records depend on values, ``searched``
    were compared; ``wrong`` is the reason of a failure, None without one.

    Records have the values of their change: for an update in two records both halves have both images; for a statement
    in several rows of an event log each row has the values of all. Records that change no row have none.
    """

    def __init__(self, source: IndexedCapture, understood: Filter, columns: Mapping[str, Column]) -> None:
        self.understood = understood
        self._index = source.index
        self._values = understood.values
        undecided = self._index.are_changes * UNDECIDED
        self._headers = {one: compare(columns, one) for one in {*understood.comparisons} if not one.is_value}
        decided = understood.mask(lambda one: undecided if one.is_value else self._headers[one] * TRUE)
        self._result = decided == TRUE
        self._undecided = decided == UNDECIDED
        self.total = int(self._undecided.sum())
        self.searched = 0
        self.wrong: str | None = None
        self.running = True
        images = {comparison.column.partition(".")[0] for comparison in self._values}
        read = ("source_events", "problems", *sorted(images))
        self._batches: Iterator[pa.RecordBatch] = _each(source, read, self._values)
        if not self.total:
            self._finish()

    @property
    def complete(self) -> bool:
        """Whether all records were compared."""
        return not self.running and self.searched == self.total and self.wrong is None

    def cancel(self) -> None:
        """Ends the search; its matches remain."""
        self.running = False
        self._batches = iter(())

    def rows(self) -> Ints:
        """The matching records so far, in order, including those that need no values."""
        return np.flatnonzero(self._result)

    def advance(self, seconds: float = math.inf) -> None:
        """Searches for about so many seconds, at most to the end."""
        end = monotonic() + seconds
        try:
            while self.running:
                batch = next(self._batches, None)
                if batch is not None:
                    self._take(batch)
                if batch is None or self.searched == self.total:
                    self._finish()
                if monotonic() >= end:
                    break
        except CaptureError as wrong:
            self._fail(wrong.sentence)
        except Exception as wrong:  # of Spark: the page shows it with the matches so far
            self._fail(f"the search ended: {wrong}")

    def _take(self, batch: pa.RecordBatch) -> None:
        rows = self._index.in_turn(*(batch[name].to_numpy() for name in LOCATION))
        at = np.flatnonzero((rows >= 0) & self._undecided[rows])
        self._decide(rows[at], [batch[str(n)].to_numpy(zero_copy_only=False)[at] for n in range(len(self._values))])

    def _decide(self, rows: Ints, values: Sequence[Bools]) -> None:
        """Evaluates the filter for records whose values were compared."""
        known = dict(zip(self._values, values, strict=True))
        self._result[rows] = self.understood.mask(lambda one: known[one] if one.is_value else self._headers[one][rows])
        self._undecided[rows] = False
        self.searched = self.total - int(self._undecided.sum())

    def _finish(self) -> None:
        rows = np.flatnonzero(self._undecided)  # in no change, so without values
        self._decide(rows, [np.zeros(len(rows), np.bool_) for _ in self._values])
        self.cancel()

    def _fail(self, reason: str) -> None:
        self.wrong = reason
        self.cancel()


def _each(source: IndexedCapture, columns: Sequence[str], values: Sequence[Comparison]) -> Iterator[pa.RecordBatch]:
    """:func:`_compared` of all changes, which are read when the first batch is asked for."""
    schema = pa.schema([*map(EVENTS.field, LOCATION), *((str(number), pa.bool_()) for number in range(len(values)))])
    yield from source.change_rows(columns).map(partial(_compared, values), schema.remove_metadata()).stream()


def _compared(values: Sequence[Comparison], batch: pa.RecordBatch) -> pa.RecordBatch:
    """The locations of the records of changes, and for each comparison (by its number) whether it holds for the
    change."""
    change = pc.list_parent_indices(batch["source_events"])
    events = pc.list_flatten(batch["source_events"])
    columns = {name: pc.struct_field(events, name) for name in LOCATION}
    columns |= {str(number): pa.array(holds(one, batch)).take(change) for number, one in enumerate(values)}
    return pa.RecordBatch.from_pydict(columns)
