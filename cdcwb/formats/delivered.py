"""Changes, and parts of transactions, put together where the records are, of a stream that delivers committed work
as complete changes (Qlik's messages, Debezium's).

Such a stream has no halves of updates and no begin records; the end of a transaction, and some of its events, may be in
another file or partition. So a reader gives changes that lack only what the end of their transaction says, and of
each transaction one row with what its own records say. Few rows are left to be joined (:mod:`cdcwb.spark.committed`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.formats.assembly import CHANGES, Became, Halves, Read, assembled, distinct, labels
from cdcwb.formats.base import OF_CHANGES, Wanted
from cdcwb.formats.moments import MICROSECONDS
from cdcwb.formats.sequences import sequence_times
from cdcwb.model import Kind, Operation, Outcome, Problem

__all__ = ["ENDS", "PARTS", "read_delivered", "read_ends", "read_parts"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

ENDS: Final = pa.schema(
    [
        ("transaction_id", pa.string()),
        ("commit_position", pa.string()),  # the greatest
        ("committed_at", MICROSECONDS),  # of its commit records, the last time
        ("rolls_back", pa.bool_()),
    ]
)
"""What a split says of the end of a transaction: one row for each that has a mark of its end there."""

_RANGE: Final = pa.struct([("first", pa.int64()), ("last", pa.int64())])
PARTS: Final = pa.schema(
    [
        ("transaction_id", pa.string()),
        ("begin_position", pa.string()),  # the least position
        ("highest", pa.string()),  # the greatest
        ("commit_position", pa.string()),
        ("began_at", MICROSECONDS),  # the first time of its records
        ("ended_at", MICROSECONDS),  # the last of a change sequence, a commit record or a rollback
        ("bytes", pa.int64()),
        ("numbers", pa.list_(_RANGE)),  # of its events, without those that are there again
        ("last", pa.bool_()),  # is its last event there, or its rollback?
        ("says_last", pa.bool_()),  # does any event say whether it is the last?
        ("gaps", pa.bool_()),
        ("rolls_back", pa.bool_()),
        ("rolled_back_at", pa.string()),
        ("labels", pa.list_(pa.string())),  # the tables of all its records
        ("changes", pa.map_(pa.string(), pa.int64())),
        ("tables", pa.list_(pa.string())),  # those of its changes
    ]
)
"""What a split says of a transaction: one row for each that has a record there."""

_OF_ENDS: Final = ("kind", "transaction_id", "commit_position", "last_in_transaction", "changed_at")
_OF_PARTS: Final = (
    *_OF_ENDS,
    *("length", "operation", "position", "event_no", "schema_name", "table_name", "problems"),
)
_NO_TEXT: Final = pa.scalar(None, pa.string())


def read_delivered(read: Read, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """The changes of a split in capture order, as batches of :data:`cdcwb.model.CHANGES` in which ``commit_position``
    is null, ``committed_at`` is the time in the position, and a later rollback is not known yet. A full load
    (REFRESH) is part of no transaction, and has no outcome. ``read`` reads the events of the split."""
    for rows in read(replace(wanted, kinds=frozenset(CHANGES), columns=frozenset(OF_CHANGES))):
        every = np.arange(rows.num_rows)
        alone = Halves(np.full(rows.num_rows, -1), np.zeros(rows.num_rows, np.bool_))
        loaded = pc.fill_null(pc.equal(rows["operation"], str(Operation.REFRESH)), True)
        outcome = pc.if_else(loaded, _NO_TEXT, str(Outcome.COMMITTED))
        became = Became(outcome, pa.nulls(rows.num_rows, pa.string()), sequence_times(rows["position"])[0])
        yield assembled(rows, every, alone.partner, alone, became, every)


def read_ends(read: Read, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """What the records of a split say of the ends of transactions, as a batch of :data:`ENDS`."""
    records = _records(read, wanted, _OF_ENDS)
    rolls_back = pc.equal(records["kind"], str(Kind.ROLLBACK))
    marks = pc.or_(
        pc.or_(pc.is_valid(records["commit_position"]), rolls_back), pc.fill_null(records["last_in_transaction"], False)
    )
    records = records.filter(marks)
    groups = _Groups(records)
    if not len(groups):
        return
    commits = groups.column("changed_at", groups.are(Kind.COMMIT))
    yield pa.RecordBatch.from_arrays(
        [
            groups.names,
            groups.greatest(groups.column("commit_position")),
            groups.greatest(commits),
            groups.some(groups.are(Kind.ROLLBACK)),
        ],
        schema=ENDS,
    )


def read_parts(read: Read, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """What the records of a split say of its transactions, as a batch of :data:`PARTS`."""
    groups = _Groups(_records(read, wanted, _OF_PARTS))
    if not len(groups):
        return
    position, last = groups.column("position"), groups.column("last_in_transaction")
    rolls_back = groups.are(Kind.ROLLBACK)
    ends = pc.coalesce(sequence_times(position)[0], groups.column("changed_at", groups.are(Kind.COMMIT, Kind.ROLLBACK)))
    label = labels(groups.column("schema_name"), groups.column("table_name"))
    operation = groups.column("operation", groups.are(*CHANGES))
    counted = pc.is_valid(operation).to_numpy(zero_copy_only=False)
    operations, offsets, times = groups.distinct(operation)
    found: dict[str, Any] = {
        "transaction_id": groups.names,
        "begin_position": groups.least(position),
        "highest": groups.greatest(position),
        "commit_position": groups.greatest(groups.column("commit_position")),
        "began_at": groups.least(groups.column("changed_at")),
        "ended_at": groups.greatest(ends),
        "bytes": groups.sum(groups.column("length")),
        "numbers": groups.ranges(groups.column("event_no")),
        "last": groups.some(_array(pc.fill_null(last, False)) | rolls_back),
        "says_last": groups.some(_array(pc.is_valid(last))),
        "gaps": groups.some(_with_gap(groups.column("problems"))),
        "rolls_back": groups.some(rolls_back),
        "rolled_back_at": groups.greatest(groups.column("position", rolls_back)),
        "labels": pa.ListArray.from_arrays(*_swapped(groups.distinct(label))),
        "changes": pa.MapArray.from_arrays(offsets, operations, pa.array(times)),
        "tables": pa.ListArray.from_arrays(*_swapped(groups.distinct(pc.if_else(counted, label, _NO_TEXT)))),
    }
    yield pa.RecordBatch.from_arrays([found[name] for name in PARTS.names], schema=PARTS)


def _records(read: Read, wanted: Wanted, columns: tuple[str, ...]) -> pa.Table:
    """The records of transactions in a split, with these columns."""
    narrow = replace(wanted, images=False, columns=frozenset(columns))
    schema = pa.schema([model.EVENTS.field(name) for name in columns])
    records = pa.Table.from_batches([batch.select(list(columns)) for batch in read(narrow)], schema)
    return records.filter(pc.is_valid(records["transaction_id"]))


def _array(values: pa.Array) -> Bools:
    found: Bools = values.to_numpy(zero_copy_only=False)
    return found


def _swapped(found: tuple[pa.Array, pa.Array, Ints]) -> tuple[pa.Array, pa.Array]:
    return found[1], found[0]


def _with_gap(problems: pa.Array) -> Bools:
    """Which records have a problem that says that events are missing."""
    found = np.zeros(len(problems), np.bool_)
    for row in np.flatnonzero(_array(pc.is_valid(problems))).tolist():
        found[row] = any(one["code"] == Problem.GAP for one in problems[row].as_py())
    return found


class _Groups:
    """Records by transaction: ``names`` are those of the transactions; what is given by record is put together for
    each of them, null where none of its records has a value."""

    def __init__(self, records: pa.Table) -> None:
        records = records.combine_chunks()
        named = _one(records["transaction_id"]).dictionary_encode()
        self.names: pa.Array = named.dictionary
        number = named.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        order = np.argsort(number, kind="stable")
        self._number = number[order]
        self._starts = np.flatnonzero(np.diff(self._number, prepend=-1))
        self._records = records.take(pa.array(order))

    def __len__(self) -> int:
        return len(self.names)

    def column(self, name: str, rows: Bools | None = None) -> pa.Array:
        """A column of the records; null for others than ``rows``."""
        values = _one(self._records[name])
        return values if rows is None else pc.if_else(pa.array(rows), values, pa.scalar(None, values.type))

    def are(self, *kinds: str) -> Bools:
        """Which records are of these kinds."""
        return _array(pc.is_in(self.column("kind"), pa.array([str(kind) for kind in kinds])))

    def some(self, rows: Bools) -> pa.Array:
        """Is one of its records among these?"""
        return pa.array(np.logical_or.reduceat(rows, self._starts))

    def sum(self, values: pa.Array) -> pa.Array:
        """Its numbers added up."""
        return pa.array(np.add.reduceat(pc.fill_null(values, 0).to_numpy(zero_copy_only=False), self._starts))

    def least(self, values: pa.Array) -> pa.Array:
        """The first of its texts or times."""
        return self._first(values, "ascending")

    def greatest(self, values: pa.Array) -> pa.Array:
        """The last of its texts or times."""
        return self._first(values, "descending")

    def _first(self, values: pa.Array, order: str) -> pa.Array:
        rank = pc.rank(values, sort_keys=order, tiebreaker="first").to_numpy().astype(np.int64)
        row_of = np.empty(len(values), np.int64)
        row_of[rank - 1] = np.arange(len(values))
        return values.take(pa.array(row_of[np.minimum.reduceat(rank, self._starts) - 1]))

    def distinct(self, texts: pa.Array) -> tuple[pa.Array, pa.Array, Ints]:
        """See :func:`cdcwb.formats.assembly.distinct`."""
        known = _array(pc.is_valid(texts))
        return distinct(self._number[known], texts.filter(pa.array(known)), len(self))

    def ranges(self, values: pa.Array) -> pa.Array:
        """Its numbers, each once, as ranges of numbers that follow each other."""
        known = _array(pc.is_valid(values))
        of, numbers = self._number[known], values.filter(pa.array(known)).to_numpy()
        order = np.lexsort((numbers, of))
        of, numbers = of[order], numbers[order]
        starts = (np.diff(of, prepend=-1) != 0) | (np.diff(numbers, prepend=0) > 1)
        first = np.flatnonzero(starts)
        ends = np.append(first, len(numbers))[1:] - 1
        offsets = np.searchsorted(of[first], np.arange(len(self) + 1))
        both = pa.StructArray.from_arrays([pa.array(numbers[first]), pa.array(numbers[ends])], fields=list(_RANGE))
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), both)


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.array([], column.type)
