"""The index of the changes and the transactions of a capture: headers, sets of changed columns, and what only images
show, but no images: which columns they have, which of these are NULL, and changes of keys.

numbers         a row for each change in capture order: its record, times, and codes of texts
operation …     the texts of a column of codes
set             the sets of changed columns, as texts
keys            the keys before and after updates that changed them
transactions    rows of cdcwb.model.TRANSACTIONS in the order of their first records
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, reduce
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.errors import CaptureError
from cdcwb.filters import as_flags
from cdcwb.index.columns import NO_TIME, Bools, Headers, Ints, header_columns, names_of, stored_columns
from cdcwb.index.images import Pairs
from cdcwb.index.record_index import RecordIndex
from cdcwb.index.store import Entry
from cdcwb.model import CHANGES, Completeness, Kind, Operation, Outcome
from cdcwb.times import TimeAxis, axis_of
from cdcwb.words import count

MOST_CHANGES: Final = 20_000_000
"""The most changes of a capture that views show, and that are read in this process."""


# --- transactions -----------------------------------------------------------------------------------------------------

INCOMPLETE: Final = (Completeness.NO_BEGIN, Completeness.NO_END, Completeness.GAPS)
_TRANSACTION_CODES: Final = ("outcome", "completeness", "user")

Some = Ints | slice
"""A subset of transactions: their numbers, or a slice."""

EVERY: Final = slice(None)


class TransactionIndex:
    """Transactions by number; ``rows`` are those of the model. Columns that are not used may be missing.

    ``until``: when open ones end, in microseconds since 1970 UTC; NO_TIME if unknown. In an index transactions are in
    the order of their first records, and ``record`` is the number of the first record.
    """

    def __init__(self, rows: pa.RecordBatch, until: int = NO_TIME) -> None:
        self.rows = rows
        self.until = until
        self.codes: dict[str, npt.NDArray[np.int32]] = {}
        self.texts: dict[str, list[str]] = {}
        for number, name in enumerate(rows.schema.names):
            if name not in _TRANSACTION_CODES:
                continue
            coded = rows[name].dictionary_encode()
            self.rows = self.rows.set_column(number, name, coded)
            self.codes[name] = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int32)
            self.texts[name] = coded.dictionary.to_pylist()

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def record(self) -> Ints:
        """The number of the first record of each in an index, -1 without a record."""
        return np.asarray(self.rows["record"])

    @cached_property
    def bytes(self) -> Ints:
        """The lengths of the records of each."""
        return np.asarray(pc.fill_null(self.rows["bytes"], 0))

    @cached_property
    def began(self) -> Ints:
        """The begin of each, in microseconds since 1970 UTC; NO_TIME if unknown."""
        return self._times("began_at")

    @cached_property
    def ended(self) -> Ints:
        """The end of each, in microseconds since 1970 UTC; NO_TIME if unknown."""
        return self._times("ended_at")

    def _times(self, name: str) -> Ints:
        return np.asarray(pc.fill_null(self.rows[name].cast(pa.int64()), NO_TIME))

    def are(self, name: str, *values: str) -> Bools:
        """Whether the outcome, completeness or user of each is one of the values."""
        chosen = [code for code, text in enumerate(self.texts[name]) if text in values]
        return np.isin(self.codes[name], chosen)

    def open_in(self, first: int, end: int) -> Bools:
        """Whether each is open at a time from ``first`` until just before ``end`` (microseconds since 1970 UTC), as far
        as its times are known: one that is open at the end of the capture has no end, one with one time is open
        then."""
        start = np.where(self.began == NO_TIME, self.ended, self.began)
        last = np.where(self.ended == NO_TIME, np.where(self.is_open, np.iinfo(np.int64).max, start), self.ended)
        return np.asarray((start != NO_TIME) & (last >= first) & (start < end))

    @cached_property
    def has_time(self) -> Bools:
        """Whether the begin or the end of each is known."""
        return np.asarray((self.began != NO_TIME) | (self.ended != NO_TIME))

    def counts(self, name: str) -> dict[str, int]:
        """The number of transactions by outcome, completeness or user."""
        texts = self.texts[name]
        counted = np.bincount(self.codes[name] + 1, minlength=len(texts) + 1)[1:]
        return dict(zip(texts, counted.tolist(), strict=True))

    @cached_property
    def is_open(self) -> Bools:
        """Whether each is open, so without an end in the capture."""
        return self.are("outcome", Outcome.OPEN)

    @cached_property
    def is_incomplete(self) -> Bools:
        """Whether the begin, the end or an event between them is missing, for each."""
        return self.are("completeness", *INCOMPLETE)

    @cached_property
    def is_unfinished(self) -> Bools:
        """Whether each did not commit or is incomplete."""
        return np.asarray(~self.are("outcome", Outcome.COMMITTED) | self.is_incomplete)

    @cached_property
    def span(self) -> tuple[int, int] | None:
        """The first and the last known time of transactions."""
        known = [part[part != NO_TIME] for part in (self.began, self.ended)]
        known = [part for part in known if len(part)]
        return (min(int(part.min()) for part in known), max(int(part.max()) for part in known)) if known else None

    @cached_property
    def took(self) -> Ints:
        """The time from begin to end of each, in microseconds; NO_TIME if one of them is unknown."""
        return self._until(self.ended)

    @cached_property
    def lasted(self) -> Ints:
        """Like :meth:`took`, but an open transaction lasts until ``until``."""
        return self._until(np.where(self.is_open & (self.ended == NO_TIME), self.until, self.ended))

    def _until(self, end: Ints) -> Ints:
        known = (self.began != NO_TIME) & (end != NO_TIME)
        return np.where(known, end - np.where(known, self.began, 0), NO_TIME)

    @cached_property
    def changes(self) -> Ints:
        """The number of changes of each, including undone ones."""
        counts = self.rows["changes"]
        return _sums(pc.fill_null(counts.items, 0), counts.offsets)

    @property
    def first_positions(self) -> pa.Array:
        """The position of the begin of each, else of its first record, which is in the id after ``~`` if the begin is
        missing (:mod:`cdcwb.model`)."""
        begins = self.rows["begin_position"]
        if not begins.null_count:
            return begins
        match = pc.extract_regex(self.rows["transaction_id"], "~(?P<position>.+)$")
        return pc.coalesce(begins, pc.struct_field(match, "position"))

    def records(self, numbers: Ints) -> list[dict[str, Any]]:
        """Rows of the model with ``rows`` (bytes, if offsets are rows), ``first_position`` (of the begin, else of the
        first record), ``duration_us``, ``changes_total``, and ``lasted_us`` (until ``until`` for open ones)."""
        rows = TransactionIndex(self.rows.take(pa.array(numbers)), self.until)
        made = {
            "rows": rows.rows["bytes"],
            "first_position": rows.first_positions,
            "duration_us": _nullable(rows.took),
            "changes_total": pa.array(rows.changes),
            "lasted_us": _nullable(rows.lasted),
        }
        return list(pa.table({name: rows.rows[name] for name in rows.rows.schema.names} | made).to_pylist())


def _sums(values: pa.Array, offsets: pa.Array) -> Ints:
    """The sum of each list of numbers."""
    upto = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=upto[1:])
    return np.asarray(np.diff(upto[np.asarray(offsets)]))


def _nullable(values: Ints) -> pa.Array:
    return pa.array(values, mask=values == NO_TIME)


# --- changes ----------------------------------------------------------------------------------------------------------

_CHANGES: Final = "changes"

READ: Final = (
    *("file_index", "offset", "operation", "outcome", "schema_name", "table_name", "transaction_id"),
    *("changed_at", "committed_at", "source_events"),
    *("changed_columns", "change_mask", "change_source", "key", "before", "after"),
)
"""The columns of changes that are indexed: headers, and what only images show."""

_CODED: Final = ("operation", "outcome", "table", "mask", "source", "key", "columns", "nulls", "set")
"""The columns that are stored as codes."""

KEYS: Final = ("old_key", "new_key")
"""The key before and after an update that changed it, as texts ``c=v, c=v``."""

_INTEGERS: Final = ("changed_at", "committed_at", "bytes", "other_file", "other_offset")

DESCRIBED: Final = pa.schema(
    [
        *(CHANGES.field(name).remove_metadata() for name in ("file_index", "offset", "transaction_id")),
        *((name, pa.string()) for name in (*_CODED, *KEYS)),
        *((name, pa.int64()) for name in _INTEGERS),
    ]
)
"""What the index has of changes; ``other_file`` and ``other_offset``: the location of another record of the change."""


class TooManyChangesError(CaptureError):
    """A capture has more changes than views show (:data:`MOST_CHANGES`)."""


def check_number(changes: int) -> None:
    """Raises TooManyChangesError if there are more changes than views show."""
    if changes > MOST_CHANGES:
        raise TooManyChangesError(
            f"{count(changes)} changes are too many for views, which show up to {count(MOST_CHANGES)}: narrow by time "
            "first, as in capture.filter(time_from=…, time_to=…).view. Reports show the complete capture."
        )


def described(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of :data:`DESCRIBED` of changes with the columns of :data:`READ`."""
    columns = {name: batch[name] for name in ("file_index", "offset", "transaction_id")} | header_columns(batch)
    columns |= {"bytes": _lengths(batch["source_events"]), **_other_records(batch), **changed_keys(batch)}
    return pa.RecordBatch.from_pydict(columns, DESCRIBED)


def build_changes(batches: Iterable[pa.RecordBatch], transactions: pa.Table, records: RecordIndex) -> Changes:
    """Writes the index of changes (rows of :data:`DESCRIBED`, in any order) to the store of ``records``.
    ``transactions`` are rows of :data:`cdcwb.model.TRANSACTIONS`. Raises TooManyChangesError above
    :data:`MOST_CHANGES`."""
    transactions = _in_order(transactions, records)
    parts, keys, total = [_encoded(DESCRIBED.empty_table())], [], 0
    for batch in batches:
        moved = np.flatnonzero(batch["new_key"].is_valid())
        keys.append(batch.select([*KEYS]).take(pa.array(moved)).append_column("row", pa.array(moved + total)))
        total += len(batch)
        check_number(total)
        parts.append(_encoded(pa.Table.from_batches([batch])))
    rows = pa.concat_tables(parts).unify_dictionaries().combine_chunks()
    locations = (rows[name].to_numpy() for name in ("file_index", "offset", "other_file", "other_offset"))
    file_index, offset, other_file, other_offset = locations
    record = records.in_turn(file_index, offset)
    has_other = (other_file != file_index) | (other_offset != offset)
    other = np.full(len(record), -1)
    other[has_other] = records.exactly(other_file[has_other], other_offset[has_other])
    columns = {name: rows[name] for name in (*_INTEGERS[:3], *_CODED)}
    columns["transaction"] = _numbers_of(rows["transaction_id"], transactions["transaction_id"])
    columns |= {"record": pa.array(record), "half": pa.array(_halves(record, other, records))}
    tables, order = stored_columns(columns), np.argsort(record, kind="stable")
    tables["numbers"] = pa.table({name: tables["numbers"][name].to_numpy()[order] for name in columns})
    tables |= {"keys": _at_changes(keys, order), "transactions": transactions}
    return Changes(records.store.write(_CHANGES, tables, {}), records)


def _encoded(rows: pa.Table) -> pa.Table:
    columns = {name: rows[name].dictionary_encode() for name in (*_CODED, "transaction_id")}
    return pa.table(columns | {name: rows[name] for name in ("file_index", "offset", *_INTEGERS)})


def _numbers_of(coded: pa.ChunkedArray, names: pa.ChunkedArray) -> pa.Array:
    """The number of each of some coded texts among ``names``, -1 if it is not there."""
    ids = coded.combine_chunks()
    numbers = pc.fill_null(pc.index_in(ids.dictionary, value_set=names.combine_chunks(), skip_nulls=True), -1)
    return pc.fill_null(numbers.take(ids.indices), -1)


def _at_changes(keys: Sequence[pa.RecordBatch], order: Ints) -> pa.Table:
    """The keys of updates that changed them, with the number of each ``change``, in their order."""
    rows = pa.Table.from_batches(keys, pa.schema([*((name, pa.string()) for name in KEYS), ("row", pa.int64())]))
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.arange(len(order))
    change = pa.array(numbers[rows["row"].to_numpy()])
    return rows.select([*KEYS]).append_column("change", change).sort_by("change")


def changed_keys(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """The columns of :data:`KEYS`; null for other changes than updates that changed a column of their key, which both
    images have and which was and is not NULL."""
    has_images = [batch[name].is_valid() for name in ("key", "before", "after")]
    is_update = reduce(pc.and_, has_images, pc.equal(batch["operation"], str(Operation.UPDATE)))
    updates = np.flatnonzero(pc.fill_null(is_update, False))
    rows = batch.select(["key", "before", "after"]).take(pa.array(updates))
    key, images = Pairs(rows["key"]), [Pairs(rows[image]) for image in ("before", "after")]
    old, new = (image.take(image.find(key.rows, key.names)) for image in images)
    differs = np.zeros(len(rows), np.bool_)
    differs[key.rows[as_flags(pc.not_equal(old, new))]] = True
    differs[key.rows[as_flags(pc.or_(old.is_null(), new.is_null()))]] = False
    of_moved = np.flatnonzero(differs[key.rows])
    at = np.full(len(batch), -1)
    at[updates[differs]] = np.arange(np.count_nonzero(differs))
    offsets = pa.array(np.append(0, np.cumsum(key.sizes[differs])), pa.int32())
    texts = {}
    for name, values in zip(KEYS, (old, new), strict=True):
        pairs = pc.binary_join_element_wise(key.names.take(pa.array(of_moved)), values.take(pa.array(of_moved)), "=")
        keys = pc.binary_join(pa.ListArray.from_arrays(offsets, pairs), ", ")
        texts[name] = keys.take(pa.array(at, mask=at < 0))
    return texts


def _other_records(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """The location of the first record of each change, or of the last if the first is that of the change."""
    events, parts = batch["source_events"], {}
    offsets = events.offsets.to_numpy()
    first, last = (np.clip(at, 0, max(len(events.values) - 1, 0)) for at in (offsets[:-1], offsets[1:] - 1))
    if len(events.values):
        own = [batch[name].to_numpy() for name in ("file_index", "offset")]
        places = [pc.struct_field(events.values, name).to_numpy() for name in ("file_index", "offset")]
        at = np.where((places[0][first] == own[0]) & (places[1][first] == own[1]), last, first)
        parts = {"other_file": pa.array(places[0][at]), "other_offset": pa.array(places[1][at])}
    none = pa.nulls(len(batch), pa.int64())
    return {name: parts.get(name, none).cast(pa.int64()).fill_null(-1) for name in _INTEGERS[3:]}


def _halves(record: Ints, other: Ints, records: RecordIndex) -> Ints:
    """The record of the other half of each change that is an update in two records; else -1."""
    kinds = records.texts("kind")
    is_half = np.isin(kinds.codes[other], [kinds.code_of(Kind.BEFORE), kinds.code_of(Kind.AFTER)])
    return np.where(is_half & (other >= 0) & (other != record) & (kinds.codes[other] >= 0), other, -1)


def _lengths(events: pa.Array) -> pa.Array:
    """The sum of the lengths of the records of each change."""
    return pa.array(_sums(pc.fill_null(pc.struct_field(events.values, "length"), 0), events.offsets))


def _in_order(transactions: pa.Table, records: RecordIndex) -> pa.Table:
    """The transactions in the order of their first records, and the numbers of these (-1 without a record)."""
    named = records.texts("transaction")
    first = np.full(max(1, len(named.texts)), -1, np.int64)
    rows = np.flatnonzero(named.codes >= 0)[::-1]
    first[named.codes[rows]] = rows  # the last assignment, that of the first record, wins
    code = pc.index_in(transactions["transaction_id"].cast(pa.large_string()), value_set=named.texts)
    codes = pc.fill_null(code, -1).to_numpy()
    record = np.where(codes >= 0, first[codes], -1)
    order = np.argsort(np.where(record < 0, np.iinfo(np.int64).max, record), kind="stable")
    return transactions.append_column("record", pa.array(record)).take(pa.array(order))


def open_changes(records: RecordIndex) -> Changes | None:
    """The index in the store of ``records``; None if it is missing."""
    entry = records.store.read(_CHANGES)
    return None if entry is None else Changes(entry, records)


class Changes(Headers):
    """Changes by number, from 0 in capture order, and transactions by number.

    * ``record_index``: the index of records; ``record``: the number of a change's record there
    * ``users``: the codes of users
    * ``keys``: the keys of updates that changed them (:data:`KEYS`), and the number of each ``change``, in order
    """

    def __init__(self, entry: Entry, records: RecordIndex) -> None:
        tables = entry.tables
        texts = {name: tables[name]["text"].to_pylist() for name in _CODED}
        numbers = {name: tables["numbers"][name].to_numpy() for name in tables["numbers"].schema.names}
        for name in ("type", "version", "file"):
            of_records = records.texts(name)
            texts[name] = of_records.texts.to_pylist()
            numbers[name] = np.append(of_records.codes, of_records.codes.dtype.type(-1))[numbers["record"]]
        super().__init__(numbers, texts, [*map(names_of, texts.pop("set"))])
        self.keys: pa.RecordBatch = tables["keys"]
        self.record_index = records
        self.record: Ints = numbers["record"]
        self.transactions = TransactionIndex(tables["transactions"])
        self.transactions.until = self.transactions.span[1] if self.transactions.span else NO_TIME

    @cached_property
    def halves(self) -> tuple[Ints, Ints]:
        """The records that are halves of updates, in order, and the other half of each."""
        half = self.numbers["half"]
        pairs = np.stack([self.record, half])[:, (self.record >= 0) & (half >= 0)]
        both = np.hstack([pairs, pairs[::-1]])
        rows, others = both[:, np.argsort(both[0], kind="stable")]
        return rows, others

    @property
    def transaction(self) -> npt.NDArray[np.int32]:
        """The number of the transaction of each, -1 without one."""
        return self.numbers["transaction"]

    @property
    def bytes(self) -> Ints:
        """The lengths of the records of each."""
        return self.numbers["bytes"]

    @cached_property
    def at(self) -> Ints:
        """The time of each: its own, else that of its commit, else the end of its transaction, else its begin; NO_TIME
        if all are unknown."""
        at = super().at
        transactions = self.transactions
        others = np.where(transactions.ended == NO_TIME, transactions.began, transactions.ended)
        return np.where(at == NO_TIME, np.append(others, NO_TIME)[self.transaction], at)  # last: no transaction

    @cached_property
    def span(self) -> tuple[int, int] | None:
        """The first and the last time of a change or a transaction; None without times."""
        known = self._known_times
        return (int(known.min()), int(known.max())) if len(known) else None

    @cached_property
    def axis(self) -> TimeAxis | None:
        """The time axis of all changes and transactions."""
        return axis_of(self._known_times)

    @property
    def _known_times(self) -> Ints:
        times = [self.at[self.timed], self.transactions.began, self.transactions.ended]
        return np.concatenate([part[part != NO_TIME] for part in times])

    @cached_property
    def users(self) -> npt.NDArray[np.int32]:
        """The code of the user of each change, which is that of its transaction; -1 if unknown."""
        codes = np.append(self.transactions.codes["user"], np.int32(-1))  # last: no transaction
        return np.asarray(codes[self.transaction])
