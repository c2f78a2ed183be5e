"""A search in values: reads the records that the headers of a filter leave undecided, in a thread, and reports
progress.

The index has no values. They are read batch by batch: from the saved events if there are any, else by the reader of the
format from the files, without Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from threading import Event, Thread
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdcwb.errors import CaptureError
from cdcwb.explore.filters import MISSING, Comparison, Filter, FilterError, compared
from cdcwb.explore.follow import halves, of_changes
from cdcwb.explore.values import has, holds
from cdcwb.formats import get_format
from cdcwb.formats.dissector import Pairing, Wanted
from cdcwb.formats.idm_event_log import changes
from cdcwb.formats.idm_event_log.values import ranges
from cdcwb.index.columns import Bools, Codes, Column
from cdcwb.index.source import Source
from cdcwb.model import EVENTS
from cdcwb.spark.stored import group_sizes, read_rows

__all__ = ["Search"]

_READ: Final = ("file_index", "offset", "key", "before", "after", "problems")
_STATEMENTS: Final = "statements"  # the entry of the index
_BATCH: Final = 8_192  # events of saved captures in a batch
_NAMED: Final = 200  # maximum number of tables or transactions in a request to the reader

Ints = npt.NDArray[np.int64]


class Search:
    """The records that match a filter, as far as they were searched. ``total`` records have to be read, ``searched``
    were; ``wrong`` is the reason of a failure, None without one.

    Records have the values of their change: for an update in two records both halves have both images; for a statement
    in several rows of an event log each row has the values of all.
    """

    def __init__(self, source: Source, understood: Filter, columns: Mapping[str, Column]) -> None:
        self._source = source
        self.understood = understood
        self._index = source.index
        values = understood.values
        _check(values)
        changes = of_changes(self._index)
        headers: dict[Comparison, Bools] = {}
        nothing = np.zeros(self._index.records, np.bool_)

        def bounds(comparison: Comparison) -> tuple[Bools, Bools]:
            if comparison.is_value:
                return changes, nothing
            if comparison not in headers:
                headers[comparison] = compared(comparison, columns)
            return headers[comparison], headers[comparison]

        may, does = understood.bounds(bounds)
        self._headers = headers
        self._result = does.copy()
        self._rows = np.flatnonzero(may & ~does)  # records that depend on values
        self._changes = changes
        self._matches = {value: nothing.copy() for value in values}  # by the first record of a group
        self._present = {value.column: nothing.copy() for value in values if value.value is MISSING}
        self._columns = columns
        self._stopped = Event()
        self.total = len(self._rows)
        self.searched = 0
        self.wrong: str | None = None
        self._thread = Thread(target=self._run, name="cdcwb-search", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether the search is running."""
        return self._thread.is_alive() and not self._stopped.is_set()

    @property
    def complete(self) -> bool:
        """Whether all records were read."""
        return not self.running and self.searched == self.total and self.wrong is None

    def cancel(self) -> None:
        """Cancels the search; its matches remain."""
        self._stopped.set()

    def wait(self, seconds: float | None = None) -> None:
        """Waits for the end of the search."""
        self._thread.join(seconds)

    def rows(self) -> Ints:
        """The matching records so far, in order, including those that need no values."""
        return np.flatnonzero(self._result)

    # --- in the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._scan()
        except CaptureError as wrong:
            self.wrong = wrong.sentence
        except Exception as wrong:  # otherwise the error would be lost in the thread
            self.wrong = f"the search ended: {wrong}"

    def _scan(self) -> None:
        group = self._groups()
        if group is None:
            return
        order = self._rows[np.argsort(group[self._rows], kind="stable")]
        groups = group[order]
        is_searched, wanted = np.zeros((2, self._index.records), np.bool_)
        is_searched[self._rows] = wanted[groups] = True
        unread = wanted[group]
        unread_rows = np.bincount(group[unread], minlength=self._index.records)  # of each group
        for batch in self._batches(unread.copy(), _READ) if len(order) else ():
            if self._stopped.is_set():
                return
            rows = self._index.exactly(batch["file_index"].to_numpy(), batch["offset"].to_numpy())
            chosen = (rows >= 0) & unread[rows]
            rows = rows[chosen]
            if len(rows):
                events = batch if chosen.all() else batch.filter(pa.array(chosen))
                for comparison, matches in self._matches.items():
                    matches[group[rows[holds(comparison, events)]]] = True
                for column, present in self._present.items():
                    present[group[rows[has(column, events)]]] = True
                unread[rows] = False
                np.subtract.at(unread_rows, group[rows], 1)
                done = np.unique(group[rows])
                done = done[unread_rows[done] == 0]
                first = np.searchsorted(groups, done)
                self._conclude(order[ranges(first, np.searchsorted(groups, done, side="right") - first)], group)
                self.searched += int(is_searched[rows].sum())
            if not unread.any():
                break
        self._conclude(order[unread_rows[groups] > 0], group)  # records that the reader does not return have no values
        self.searched = self.total

    def _conclude(self, rows: Ints, group: Ints) -> None:
        """Evaluates the filter for records whose groups have been read."""

        def bounds(comparison: Comparison) -> tuple[Bools, Bools]:
            if comparison.is_value:
                result = self._matches[comparison][group[rows]]
                if comparison.value is MISSING and comparison.sign == "==":
                    result &= ~self._present[comparison.column][group[rows]]
            else:
                result = self._headers[comparison][rows]
            return result, result

        self._result[rows] = self.understood.bounds(bounds)[0]

    def _groups(self) -> Ints | None:
        """The first record of the change of each record: the other half of an update, or the first row of a statement
        of an event log; computed once for each index. None if the search was cancelled meanwhile."""
        if get_format(self._index.format).pairing is not Pairing.OBJECT:
            group, rows = np.arange(self._index.records), np.flatnonzero(self._changes)
            other = halves(self._index, rows)
            group[rows] = np.where(other < 0, rows, np.minimum(rows, other))
            return group
        entry = self._index.store.read(_STATEMENTS)
        if entry is not None:
            known: Ints = entry.tables["statements"]["first"].to_numpy()
            return known
        keys = [np.full(self._index.records, -1, np.int64) for _ in range(3)]
        for batch in self._batches(np.ones(self._index.records, np.bool_), (*_READ[:2], *changes.READ), False):
            if self._stopped.is_set():
                return None
            rows = self._index.exactly(batch["file_index"].to_numpy(), batch["offset"].to_numpy())
            for all_rows, row_keys in zip(keys, changes.keys_of_rows(batch), strict=True):
                all_rows[rows[rows >= 0]] = row_keys[rows >= 0]
        group = changes.of_statements(*keys)
        self._index.store.write(_STATEMENTS, {"statements": pa.table({"first": group})})
        return group

    def _batches(self, wanted: Bools, columns: Sequence[str], images: bool = True) -> Iterator[pa.RecordBatch]:
        if self._source.events:
            yield from self._saved(wanted, columns)
            return
        fmt, plan = get_format(self._index.format), self._source.plan()
        asked = Wanted(
            images=images,
            kinds=self._few("kind", wanted),
            tables=self._few("table", wanted),
            transactions=self._few("transaction", wanted),
            columns=frozenset([*columns, "kind", "schema_name", "table_name", "transaction_id"]),
        )
        for split in range(len(plan.splits)):
            yield from fmt.read(plan, split, asked)

    def _few(self, name: str, wanted: Bools) -> frozenset[str] | None:
        """The values of a column in some records; None if there are many distinct ones, or a null."""
        column = self._columns[name]
        assert isinstance(column, Codes)
        codes = np.unique(column.codes[wanted])
        if len(codes) > _NAMED or codes[0] < 0 or (name != "kind" and len(codes) == len(column.texts)):
            return None
        return frozenset(column.texts[int(code)].as_py() for code in codes)

    def _saved(self, wanted: Bools, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The saved events in the row groups with some of the records."""
        schema = pa.schema([EVENTS.field(name) for name in columns])
        parts, part_rows = self._index.numbers("part"), self._index.numbers("part_row")
        for number, path in enumerate(self._source.events):
            wanted_rows = np.sort(part_rows[wanted & (parts == number)])
            ends = np.searchsorted(wanted_rows, np.cumsum(group_sizes(path)))
            groups = [group for group, count in enumerate(np.diff(ends, prepend=0)) if count]
            if groups:
                yield from read_rows(path, schema, _BATCH, groups)


def _check(values: list[Comparison]) -> None:
    """Raises FilterError for an invalid pattern, before the search starts."""
    for comparison in values:
        image, _, name = comparison.column.partition(".")
        row = pa.RecordBatch.from_pylist([{image: {name: ""}}], pa.schema(map(EVENTS.field, _READ)))
        try:
            holds(comparison, row)
        except ValueError as reason:
            raise FilterError(f"at character {comparison.place + 1}: {reason}", comparison.place) from None
