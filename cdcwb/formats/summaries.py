"""Summaries of transactions, from the records of a split, and from several splits. A transaction may have records in
many splits. Each split gives one narrow row (:data:`PARTS`); the rows of one transaction are merged into one
(:func:`summarised`).

Also change sequences (Qlik) whose times do not advance (docs/formats/qlik-kafka.md §5). If several transactions have
one time, while the times of their last changes are seconds apart and later, they were numbered while the server's clock
was set back. In contrast, the changes of long transactions that committed together all precede their commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.formats.arrays import as_array, filled, labels, lookup
from cdcwb.formats.changes import WHOLE, Halved, elsewhere, partners
from cdcwb.formats.dissector import CHANGES, Read, Wanted, problem_row
from cdcwb.formats.kernels import Bools, Ints
from cdcwb.formats.moments import MICROSECONDS, sequence_times
from cdcwb.formats.requests import having
from cdcwb.model import Completeness, Kind, Outcome, Problem

# --- groups -----------------------------------------------------------------------------------------------------------

RANGE: Final = pa.struct([("first", pa.int64()), ("last", pa.int64())])
"""A range of numbers."""


def distinct(number: Ints, texts: pa.Array, count: int, weights: Ints | None = None) -> tuple[pa.Array, pa.Array, Ints]:
    """The distinct texts of each of ``count`` groups in name order, as texts and offsets; and the count of each, or the
    sum of its ``weights``."""
    coded = texts.dictionary_encode()
    ranks = np.argsort(np.argsort(np.array(coded.dictionary.to_pylist(), object), kind="stable"), kind="stable")
    sorted_texts = coded.dictionary.take(pc.sort_indices(coded.dictionary))
    size = max(1, len(sorted_texts))
    codes = number * size + ranks[coded.indices.to_numpy()]
    keys, place, times = np.unique(codes, return_inverse=True, return_counts=True)
    if weights is not None:
        times = np.zeros(len(keys), np.int64)
        np.add.at(times, place, weights)
    ends = np.searchsorted(keys, np.arange(count + 1) * size)
    return sorted_texts.take(pa.array(keys % size)), pa.array(ends.astype(np.int32)), times


class Groups:
    """Records by transaction (or another text column, ``by``): ``names`` are those of the transactions; values of
    records are aggregated for each of them, null if none of its records has a value."""

    def __init__(self, records: pa.Table, by: str = "transaction_id") -> None:
        records = records.combine_chunks()
        named = one_chunk(records[by]).dictionary_encode()
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
        values = one_chunk(self._records[name])
        return values if rows is None else pc.if_else(pa.array(rows), values, None)

    def are(self, *kinds: str) -> Bools:
        """A mask of records of these kinds."""
        return as_array(pc.is_in(self.column("kind"), pa.array([str(kind) for kind in kinds])))

    def some(self, rows: Bools) -> pa.Array:
        """Whether one of its records is among these."""
        return pa.array(np.logical_or.reduceat(rows, self._starts))

    def sum(self, values: pa.Array) -> pa.Array:
        """The sum of its numbers."""
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

    def lists(self, texts: pa.Array) -> pa.Array:
        """Its distinct texts, or those of its lists, in name order, as lists."""
        found, offsets, _ = self._distinct(texts)
        return pa.ListArray.from_arrays(offsets, found)

    def counts(self, texts: pa.Array) -> pa.Array:
        """Its distinct texts in name order with the count of each, or the keys of its maps with the sum of each."""
        found, offsets, counts = self._distinct(texts)
        return pa.MapArray.from_arrays(offsets, found, pa.array(counts))

    def _distinct(self, texts: pa.Array) -> tuple[pa.Array, pa.Array, Ints]:
        if pa.types.is_list(texts.type) or pa.types.is_map(texts.type):
            lists = _listed(texts)
            number, items = self._number[pc.list_parent_indices(lists).to_numpy()], pc.list_flatten(lists)
            if pa.types.is_map(texts.type):
                keys, values = items.flatten()
                return distinct(number, keys, len(self), values.to_numpy(zero_copy_only=False))
            return distinct(number, items, len(self))
        known = as_array(pc.is_valid(texts))
        return distinct(self._number[known], texts.filter(pa.array(known)), len(self))

    def ranges(self, values: pa.Array) -> pa.Array:
        """Its distinct numbers, as ranges of consecutive numbers."""
        known = as_array(pc.is_valid(values))
        of, numbers = self._number[known], values.filter(pa.array(known)).to_numpy()
        order = np.lexsort((numbers, of))
        of, numbers = of[order], numbers[order]
        starts = (np.diff(of, prepend=-1) != 0) | (np.diff(numbers, prepend=0) > 1)
        first = np.flatnonzero(starts)
        ends = np.append(first, len(numbers))[1:] - 1
        offsets = np.searchsorted(of[first], np.arange(len(self) + 1))
        both = pa.StructArray.from_arrays([pa.array(numbers[first]), pa.array(numbers[ends])], fields=list(RANGE))
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), both)

    def numbers(self, ranges: pa.Array) -> tuple[Ints, Ints, Ints]:
        """The number of distinct numbers of its ranges, the lowest and the highest (0: none)."""
        number = self._number[pc.list_parent_indices(ranges).to_numpy()]
        first, last = (one.to_numpy(zero_copy_only=False) for one in pc.list_flatten(ranges).flatten())
        order = np.lexsort((first, number))
        number, first, last = number[order], first[order], last[order]
        values, rank = np.unique(last, return_inverse=True)
        in_group = number * len(values)
        upto = values[np.maximum.accumulate(in_group + rank) - in_group]  # the highest of its group so far
        before = np.append(-(1 << 62), upto[:-1])[: len(upto)]
        before[np.diff(number, prepend=-1) > 0] = -(1 << 62)
        fresh = np.maximum(last - np.maximum(before + 1, first) + 1, 0)
        seen, lowest, highest = (np.zeros(len(self), np.int64) for _ in range(3))
        np.add.at(seen, number, fresh)
        np.maximum.at(highest, number, last)
        lowest[number[::-1]] = first[::-1]  # the first of each, which is written last
        return seen, lowest, highest


def _listed(lists: pa.Array) -> pa.Array:
    """A map as a list of pairs."""
    if not pa.types.is_map(lists.type):
        return lists
    pairs = pa.list_(pa.struct([("key", lists.type.key_type), ("value", lists.type.item_type)]))
    return lists.cast(pairs)


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    """The values of a column of at most one chunk."""
    return column.chunk(0) if column.num_chunks == 1 else pa.array([], column.type)


# --- transactions -----------------------------------------------------------------------------------------------------

PARTS: Final = pa.schema(
    [
        ("transaction_id", pa.string()),
        ("begin_position", pa.string()),  # of its begin, or the lowest
        ("highest", pa.string()),  # the highest position
        ("commit_position", pa.string()),
        ("began_at", MICROSECONDS),  # the first time of its records
        ("ended_at", MICROSECONDS),  # the last of a change sequence, a commit record or a rollback
        ("bytes", pa.int64()),
        ("numbers", pa.list_(RANGE)),  # of its events, without repeated ones
        ("last", pa.bool_()),  # whether its last event, or its rollback, is there
        ("says_last", pa.bool_()),  # whether any event states whether it is the last
        ("begins", pa.bool_()),  # whether its first record is there; null: no record shows its place
        ("commits", pa.bool_()),  # whether its commit is there; null: the source delivers only committed work
        ("gaps", pa.bool_()),
        ("rolls_back", pa.bool_()),
        ("rolled_back_at", pa.string()),
        ("user", pa.string()),
        ("labels", pa.list_(pa.string())),  # the tables of all its records
        ("changes", pa.map_(pa.string(), pa.int64())),
        ("tables", pa.list_(pa.string())),  # those of its changes
    ]
)
"""The parts of transactions in a split: one row for each transaction with a record there."""

OF_ENDS: Final = ("kind", "transaction_id", "commit_position", "last_in_transaction", "changed_at")
"""The columns of records about ends."""

OF_PARTS: Final = (
    *OF_ENDS,
    *("length", "operation", "position", "event_no", "schema_name", "table_name", "problems"),
)
"""The columns of records that :func:`read_parts` uses."""
_PLACE: Final = "TransInd"
_FIRST: Final = ("0", "3")  # of a transaction's first record
_LACKS_EVENTS: Final = {
    str(Completeness.NO_BEGIN): Problem.NO_BEGIN,
    str(Completeness.NO_END): Problem.OPEN_TRANSACTION,
    str(Completeness.GAPS): Problem.GAP,
}


def read_parts(read: Read, wanted: Wanted, halved: Halved = WHOLE) -> Iterator[pa.RecordBatch]:
    """The parts of transactions of committed work in a split, as a batch of :data:`PARTS`. Counts of changes exclude
    halves at positions that other splits have too."""
    groups = Groups(records_of(read, wanted, (*OF_PARTS, "headers") if halved.consecutive else OF_PARTS, halved))
    if not len(groups):
        return
    ends, begins = groups.are(Kind.COMMIT, Kind.ROLLBACK), pa.nulls(len(groups), pa.bool_())
    if halved.consecutive:
        ends |= has_place(groups) & as_array(groups.column("last_in_transaction"))
        begins = pc.if_else(groups.some(has_place(groups)), groups.some(is_first(groups)), begins)
    times = pc.coalesce(sequence_times(groups.column("position"))[0], groups.column("changed_at", ends))
    numbers = groups.ranges(groups.column("event_no"))
    yield parts_of(groups, {"begins": begins, "ended_at": groups.greatest(times), "numbers": numbers})


def parts_of(groups: Groups, facts: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """The parts of transactions from their records (:data:`OF_PARTS` without event_no, and ``counts``: whether a record
    is counted as that of a change), with some columns in ``facts``."""
    position, last = groups.column("position"), groups.column("last_in_transaction")
    rolls_back = groups.are(Kind.ROLLBACK)
    found = {
        "begin_position": groups.least(position),
        "highest": groups.greatest(position),
        "commit_position": groups.greatest(groups.column("commit_position")),
        "began_at": groups.least(groups.column("changed_at")),
        "bytes": groups.sum(groups.column("length")),
        "last": groups.some(as_array(last) | rolls_back),
        "says_last": groups.some(as_array(pc.is_valid(last))),
        "gaps": groups.some(having(groups.column("problems"), Problem.GAP)),
        "rolls_back": groups.some(rolls_back),
        "rolled_back_at": groups.greatest(groups.column("position", rolls_back)),
    }
    return counted_parts(groups, {**found, **facts})


def counts_of(changes: pa.RecordBatch) -> pa.RecordBatch:
    """The numbers and tables of changes that several splits have together, as parts of their transactions."""
    rows = changes.filter(pc.and_(pc.is_valid(changes["transaction_id"]), pc.is_valid(changes["operation"])))
    rows = pa.Table.from_batches([rows.select(["transaction_id", "operation", "schema_name", "table_name"])])
    groups = Groups(rows.append_column("counts", pa.repeat(True, rows.num_rows)))
    return counted_parts(groups, {}) if len(groups) else pa.RecordBatch.from_pylist([], PARTS)


def counted_parts(groups: Groups, facts: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """Parts with these facts, the tables of records, and the numbers and tables of changes (``counts``)."""
    operation = groups.column("operation", as_array(groups.column("counts")))
    label = labels(groups.column("schema_name"), groups.column("table_name"))
    tables = groups.lists(pc.if_else(operation.is_valid(), label, None))
    found = {"transaction_id": groups.names, "changes": groups.counts(operation), "tables": tables}
    found |= {"labels": groups.lists(label), **facts}
    return filled(PARTS, found, len(groups))


def has_place(groups: Groups) -> Bools:
    """Whether records show their place in the transaction, by the header TransInd."""
    return as_array(lookup(groups.column("headers"), _PLACE).is_valid())


def is_first(groups: Groups) -> Bools:
    """Whether records show that they are the first of their transaction."""
    return as_array(pc.is_in(lookup(groups.column("headers"), _PLACE), pa.array(_FIRST)))


SUMMARIES: Final = pa.schema(
    [
        *model.TRANSACTIONS,
        ("labels", pa.list_(pa.string())),  # the tables of all records
        ("numbers_seen", pa.int64()),  # the number of distinct event numbers
        ("lowest_number", pa.int64()),
        ("highest_number", pa.int64()),
        ("begins", pa.bool_()),
        ("last", pa.bool_()),
    ]
)
"""Transactions, with the facts that show missing events."""


def summarised(parts: pa.Table) -> pa.RecordBatch:
    """All parts (:data:`PARTS`) of transactions as a batch of :data:`SUMMARIES`. A transaction is complete if its first
    and last events and all between them are there: by its begin and its end, by Qlik's event numbers, or by
    GoldenGate's TransInd. Without evidence it is unknown. Where a source delivers more than committed work, one without
    its begin or end is open.
    """
    groups = Groups(parts)
    if not len(groups):
        return pa.RecordBatch.from_pylist([], schema=SUMMARIES)
    names = ("last", "says_last", "gaps", "rolls_back", "commits")
    flags = (*map(groups.column, names), groups.column("commits").is_null())
    last, says_last, gaps, rolls_back, commits, delivers = (as_array(groups.some(as_array(values))) for values in flags)
    begins = groups.greatest(groups.column("begins").cast(pa.int8())).cast(pa.bool_())
    seen, lowest, highest = groups.numbers(groups.column("numbers"))
    knows = ((seen > 0) | as_array(begins.is_valid())) & says_last
    without_begin = ((seen > 0) & (lowest > 1)) | ~as_array(pc.fill_null(begins, True))
    lacks = ((seen > 0) & (highest - lowest + 1 > seen)) | gaps
    told = (Completeness.UNKNOWN, Completeness.NO_BEGIN, Completeness.NO_END, Completeness.GAPS)
    of = [~knows, without_begin, ~last, lacks]
    completeness = np.select(of, list(map(str, told)), str(Completeness.COMPLETE))
    is_open = ~delivers & (without_begin | ~(commits | rolls_back))
    is_rolled_back = rolls_back & (delivers | ~commits)
    outcomes = list(map(str, (Outcome.OPEN, Outcome.ROLLED_BACK)))
    outcome = np.select([is_open, is_rolled_back], outcomes, str(Outcome.COMMITTED))
    at_end = pc.if_else(pa.array(~knows), groups.greatest(groups.column("highest")), None)
    unnumbered = seen == 0
    found: dict[str, Any] = {
        "transaction_id": groups.names,
        "begin_position": groups.least(groups.column("begin_position")),
        "end_position": pc.coalesce(
            groups.greatest(groups.column("commit_position")), groups.greatest(groups.column("rolled_back_at")), at_end
        ),
        "began_at": groups.least(groups.column("began_at")),
        "ended_at": groups.greatest(groups.column("ended_at")),
        "outcome": pa.array(outcome.tolist(), pa.string()),
        "completeness": pa.array(completeness.tolist(), pa.string()),
        "changes": groups.counts(groups.column("changes")),
        "tables": groups.lists(groups.column("tables")),
        "bytes": groups.sum(groups.column("bytes")),
        "user": groups.least(groups.column("user")),
        "labels": groups.lists(groups.column("labels")),
        "numbers_seen": pa.array(seen),
        "lowest_number": pa.array(lowest, mask=unnumbered),
        "highest_number": pa.array(highest, mask=unnumbered),
        "begins": begins,
        "last": pa.array(last),
    }
    return filled(SUMMARIES, found, len(groups))


def incomplete(summaries: pa.RecordBatch) -> list[dict[str, Any]]:
    """The missing events of transactions (:data:`SUMMARIES`), as rows of :data:`cdcwb.model.PROBLEMS`. Gaps without
    event numbers are problems of the adjacent events."""
    lacking = pc.is_in(summaries["completeness"], pa.array(list(_LACKS_EVENTS)))
    rows = []
    for row in summaries.filter(lacking).to_pylist():
        told = [one for one in (_no_begin(row), _between(row), _no_end(row)) if one]
        if told:
            sentence = told[0] if row["outcome"] == Outcome.OPEN else "; ".join(told)
            table = row["labels"][0] if len(row["labels"]) == 1 else None
            code, name = _LACKS_EVENTS[row["completeness"]], row["transaction_id"]
            rows.append(problem_row(code, sentence, transaction_id=name, table=table))
    return rows


def _no_begin(row: dict[str, Any]) -> str | None:
    if (row["lowest_number"] or 0) > 1:
        return f"the first event that is there has number {row['lowest_number']}"
    return "the begin of this transaction is not in the capture" if row["begins"] is False else None


def _between(row: dict[str, Any]) -> str | None:
    if row["lowest_number"] is None:
        return None
    number = row["highest_number"] - row["lowest_number"] + 1 - row["numbers_seen"]
    lacks = "is missing" if number == 1 else "are missing"
    return f"{number} of its events {row['lowest_number']} to {row['highest_number']} {lacks}" if number > 0 else None


def _no_end(row: dict[str, Any]) -> str | None:
    if row["last"]:
        return None
    if row["highest_number"] is None:
        return "the end of this transaction is not in the capture"
    return f"the last event is missing; the highest number is {row['highest_number']}"


def records_of(read: Read, wanted: Wanted, columns: tuple[str, ...], halved: Halved = WHOLE) -> pa.Table:
    """The records of transactions in a split, with these columns; ``counts``: whether it is that of a change."""
    narrow = replace(wanted, images=False, columns=frozenset(columns))
    schema = pa.schema([model.EVENTS.field(name) for name in columns])
    records = pa.Table.from_batches([batch.select(list(columns)) for batch in read(narrow)], schema).combine_chunks()
    counts = as_array(pc.is_in(one_chunk(records["kind"]), pa.array(CHANGES))).copy()
    if (halved.befores or halved.shared) and "position" in columns:
        here = ~elsewhere(records, halved)
        at = np.flatnonzero(here & counts)
        partner, _ = partners(records.take(pa.array(at)), halved)
        counts &= here
        counts[at[(partner >= 0) & as_array(pc.equal(one_chunk(records["kind"]), str(Kind.BEFORE)))[at]]] = False
    records = records.append_column("counts", pa.array(counts))
    return records.filter(pc.is_valid(records["transaction_id"]))


# --- change sequences whose times do not advance ----------------------------------------------------------------------

_MOMENT: Final = 16
"""Digits of the time at the start of a change sequence."""

SEQUENCES: Final = pa.schema(
    [
        ("moment", pa.string()),
        ("transaction_id", pa.string()),
        ("at", MICROSECONDS),  # of its last change
        ("events", pa.int64()),
        ("low", pa.string()),  # the positions
        ("high", pa.string()),
    ]
)
"""The events of one transaction whose change sequences have one time."""

_TRANSACTIONS: Final = 3  # that share one time …
_SECONDS: Final = 2  # … while their own times are this far apart, and up to half of it after that time


def of_sequences(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Events (position, transaction and time) as rows of :data:`SEQUENCES`."""
    parts = []
    for batch in batches:
        known = pc.and_(pc.is_valid(sequence_times(batch["position"])[0]), pc.is_valid(batch["transaction_id"]))
        rows = batch.select(["position", "transaction_id", "changed_at"]).filter(known)
        position, transaction, at = rows.columns
        moment = pc.utf8_slice_codeunits(position, 0, _MOMENT)
        columns = [moment, transaction, at, pa.array(np.ones(len(at), np.int64)), position, position]
        parts.append(pa.RecordBatch.from_arrays(columns, schema=SEQUENCES))
    return merged(pa.Table.from_batches(parts, SEQUENCES))


def merged(rows: pa.Table) -> pa.Table:
    """The rows of :data:`SEQUENCES`, those of one time and transaction as one."""
    if not rows.num_rows:
        return rows
    rows = rows.combine_chunks()
    both = pc.binary_join_element_wise(rows["moment"], rows["transaction_id"], "\0")
    groups = Groups(rows.append_column("both", both), by="both")
    columns = [
        pc.utf8_slice_codeunits(groups.names, 0, _MOMENT),
        pc.utf8_slice_codeunits(groups.names, _MOMENT + 1),
        groups.greatest(groups.column("at")),
        groups.sum(groups.column("events")),
        groups.least(groups.column("low")),
        groups.greatest(groups.column("high")),
    ]
    return pa.Table.from_arrays(columns, schema=SEQUENCES)


def frozen_times(rows: pa.Table) -> list[dict[str, Any]]:
    """Times that do not advance, as rows of :data:`cdcwb.model.PROBLEMS` without a location. ``rows``
    (:data:`SEQUENCES`) are all those of their times."""
    if not rows.num_rows:
        return []
    groups = Groups(rows, by="moment")
    at, low = groups.column("at"), groups.least(groups.column("low"))
    first, last = (_seconds(times) for times in (groups.least(at), groups.greatest(at)))
    many = np.asarray(groups.sum(pa.array(np.ones(len(at), np.int64))))
    spans = np.nan_to_num(last - first, nan=-1)
    ahead = np.nan_to_num(last - _seconds(sequence_times(low)[0]), nan=-1)
    chosen = np.flatnonzero((many >= _TRANSACTIONS) & (spans >= _SECONDS) & (ahead >= _SECONDS / 2))
    events, high = groups.sum(groups.column("events")), groups.greatest(groups.column("high"))
    found = []
    for row in chosen.tolist():
        span = Decimal(repr(float(spans[row]))).quantize(Decimal("0.1"), ROUND_HALF_UP)
        sentence = f"{events[row]} events of {many[row]} transactions, whose own times span {span} s, have one change "
        sentence += f"sequence time: {low[row]} to {high[row]}; the server's clock was moved back"
        found.append(problem_row(Problem.CLOCK, sentence))
    return found


def _seconds(times: pa.Array) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Seconds since 1970 UTC; not a number for null."""
    return np.asarray(times.cast(pa.int64()).to_numpy(zero_copy_only=False), np.float64) / 1e6
