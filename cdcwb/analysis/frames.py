"""Tables of a capture as input of analyses: rows that are stored, and the axis of their times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.dataset import Rows, answer_of
from cdcwb.errors import OptionError
from cdcwb.filtering import dated, marked
from cdcwb.filtering import time_of as time_of_row
from cdcwb.index.columns import NO_TIME, Ints
from cdcwb.index.selected_capture import HeaderRows
from cdcwb.model import TABLES
from cdcwb.spark.session import on_cluster
from cdcwb.spark_rows import SparkRows
from cdcwb.stored import Stored
from cdcwb.times import LEAST, TimeAxis, fences, time_of
from cdcwb.writing import scratch

if TYPE_CHECKING:
    from cdcwb.capture import Capture


def dated_rows(capture: Any, columns: Sequence[str]) -> Rows:
    """Some columns of the changes, and ``changed_at``, which is here the time of the change, else that of its commit,
    else the end of its transaction, else its begin."""
    wanted = list(dict.fromkeys([*columns, "changed_at"]))
    if isinstance(selected := capture.rows("changes", wanted), HeaderRows):
        return selected
    rows: Rows = capture.rows("changes", list(dict.fromkeys([*wanted, *_OF_TIMES])))
    few = answer_of(capture, "transactions of changes without a time", _dating) if _of_files(rows) else None
    rows = dated(rows, capture.rows if few is None else lambda _table, _columns: few)
    at = rows.schema.get_field_index("changed_at")
    return rows.map(lambda batch: batch.set_column(at, "changed_at", time_of_row(batch)), rows.schema).select(wanted)


_OF_TIMES: Final = ("changed_at", "committed_at", "transaction_id")
_MOST_DATING: Final = 1_000_000


def _of_files(rows: Rows) -> bool:
    return isinstance(rows, SparkRows) and rows.of_files


def _dating(capture: Any) -> Rows | None:
    """The transactions whose times are those of changes without an own one; None if these are very many."""

    def ids(batch: pa.RecordBatch) -> pa.Array:
        has_time = pc.or_(batch["changed_at"].is_valid(), batch["committed_at"].is_valid())
        return batch["transaction_id"].filter(pc.invert(has_time)).unique().slice(0, _MOST_DATING + 1)

    def merged(parts: Sequence[pa.Array]) -> pa.Array:
        return pa.concat_arrays([*parts, pa.array([], pa.string())]).unique().slice(0, _MOST_DATING + 1)

    wanted = capture.rows("changes", _OF_TIMES).fold(ids, merged)
    if len(wanted) > _MOST_DATING:
        return None
    dating = Rows.of(pa.table({"transaction_id": wanted}))
    rows = capture.rows("transactions", ("transaction_id", "began_at", "ended_at"))
    rows = marked(rows, dating, ["transaction_id"], "is_dating", is_unique=True)
    return Rows.of(rows.where(lambda batch: batch["is_dating"].is_valid()).drop("is_dating").table())


_SAMPLED: Final = 10_000  # times of a batch from which quartiles are estimated


def time_axis(
    rows: Rows,
    times: Callable[[pa.RecordBatch], Ints],
    first: datetime | None = None,
    last: datetime | None = None,
    sampled: Sample | None = None,
) -> TimeAxis | None:
    """The time axis for rows whose ``times`` (microseconds since 1970 UTC) are bounded by ``first`` and ``last`` as far
    as these are known (:mod:`cdcwb.times`); None without times. Quartiles are estimated where there are very many
    times. ``sampled``: a sample of these times, if there is one (:func:`sample_of`)."""
    if first is not None and last is not None and last - first <= LEAST:
        return TimeAxis(first, last)
    if sampled is None:
        sampled = rows.fold(lambda batch: sample_of(times(batch)), merged_samples)
    sample, weights, bounds = sampled
    if bounds is None:
        return None
    order = np.argsort(sample, kind="stable")
    upto = np.cumsum(weights[order])
    lower, upper = (int(sample[order][np.searchsorted(upto, -(-share * upto[-1] // 4))]) for share in (1, 3))
    limits = fences(lower, upper, *bounds)
    if limits is None:
        return TimeAxis(first or time_of(bounds[0]), last or time_of(bounds[1]))
    ((first_us, last_us, before, after),) = rows.fold(lambda batch: _inside(times(batch), limits), _merged_bounds)
    return TimeAxis(time_of(-first_us), time_of(last_us), int(before), int(after))


Sample = tuple[Ints, Ints, tuple[int, int] | None]
"""Some times, the number of times that each represents, and the first and the last of all."""


def sample_of(at: Ints) -> Sample:
    """A sample of times; merged by :func:`merged_samples`."""
    at = at[at != NO_TIME]
    if not len(at):
        return at, at, None
    bounds = int(at.min()), int(at.max())
    if len(at) <= _SAMPLED:
        return at, np.ones(len(at), np.int64), bounds
    edges = np.linspace(0, len(at), _SAMPLED + 1).astype(np.int64)
    return np.sort(at, kind="stable")[(edges[1:] + edges[:-1]) // 2], np.diff(edges), bounds


def merged_samples(parts: Sequence[Sample]) -> Sample:
    """The merged results of :func:`sample_of`."""
    none = np.zeros(0, np.int64)
    known = [bounds for *_, bounds in parts if bounds is not None]
    if not known:
        return none, none, None
    sample, weights = (np.concatenate([part[at] for part in parts]) for at in (0, 1))
    return sample, weights, (min(least for least, _ in known), max(most for _, most in known))


def _inside(at: Ints, limits: tuple[int, int]) -> Ints:
    """The negated first and the last of the times inside the limits, and how many are before and after them."""
    at = at[at != NO_TIME]
    before, after = at < limits[0], at > limits[1]
    inside = at[~(before | after)]
    bounds = -inside.min(initial=np.iinfo(np.int64).max), inside.max(initial=NO_TIME)
    return np.array([[*bounds, before.sum(), after.sum()]])


def _merged_bounds(parts: Sequence[Ints]) -> Ints:
    rows = np.concatenate(parts)
    return np.array([[*rows[:, :2].max(axis=0), *rows[:, 2:].sum(axis=0)]])


# --- snapshot ---------------------------------------------------------------------------------------------------------

MOST_LOCAL: Final = 2_000_000
"""The most rows of a table that Spark stored that are read in this process; the tasks of Spark read more."""

_NAMES: Final = ("transactions", "changes", "problems")
_PLACED: Final = (
    *("file_index", "offset", "operation", "position", "transaction_id", "schema_name", "table_name"),
    *("outcome", "changed_at", "committed_at"),
)


class TableSnapshot:
    """A capture whose ``transactions``, ``changes`` and ``problems`` are read once. Changes have only the columns that
    locate them, or all with ``images``.

    Each table is written when it is first used: as ``NAME.parquet`` to ``folder``, which is permanent, or without one
    to a temporary folder that is deleted with this object. Workers of a cluster cannot write to a temporary folder, so
    on a cluster without a shared ``folder`` nothing is written and every analysis reads the capture. A saved capture is
    not written again, nor are changes that tasks read from files. Everything else is that of the original capture.

    Raises OptionError if ``folder`` has a table's name that was not written by Spark.
    """

    def __init__(self, capture: Capture, folder: Path | None = None, images: bool = False) -> None:
        self._capture = capture
        self._columns = {name: TABLES[name].names for name in _NAMES} | ({} if images else {"changes": _PLACED})
        self._store: TableStore | None = None
        if folder is not None or (capture.local_rows("transactions", ()) is None and not capture.stored):
            self._store = TableStore(folder, _NAMES)
        self._kept: dict[str, Rows] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._capture, name)

    def rows(self, table: str, columns: Sequence[str]) -> Rows:
        """See :meth:`cdcwb.Capture.rows`; those of tables that are read once, from these."""
        every = self._columns.get(table)
        if self._store is None or self._store.folder is None or every is None or not {*columns} <= {*every}:
            return self._capture.rows(table, columns)
        if table == "changes" and _of_files(rows := self._capture.rows(table, columns)):
            return rows
        if table not in self._kept:
            self._kept[table] = self._store.keep(table, self._capture.rows(table, every))
        if (local := self._capture.local_rows(table, columns)) is not None:
            return local
        stored = Stored(self._store.folder / f"{table}.parquet", table, columns)
        return stored if stored.count() <= MOST_LOCAL else self._kept[table].select(columns)


# --- tables that are read several times -------------------------------------------------------------------------------


class TableStore:
    """Rows that are read several times and written once, as Parquet: in ``folder``, which is permanent, or without one
    in a temporary folder that is deleted with this object. Workers of a cluster cannot write to that, so there rows are
    computed again each time.

    Raises OptionError if ``folder`` has one of the ``names`` and it was not written here.
    """

    def __init__(self, folder: Path | None = None, names: Iterable[str] = ()) -> None:
        for path in [] if folder is None else [folder / f"{name}.parquet" for name in names]:
            if path.exists() and not (path / "_SUCCESS").exists():
                raise OptionError(f"'{path}' already exists and is not a table that Spark wrote; name another folder")
        self.folder = folder if folder is not None or on_cluster() else scratch(self, "cdcwb-tables-")

    def keep(self, name: str, rows: Rows) -> Rows:
        """The same rows, stored."""
        return rows if self.folder is None else rows.stored(self.folder / f"{name}.parquet")
