"""The changes and the transactions of a capture beside its records: headers and sets of changed columns, no images.

about.json           what it was made from, and how many there are
changes.arrow        a row for each change in capture order: its record, times, and codes of texts
text-NAME.arrow      the texts of a column of codes
sets.arrow           the sets of changed columns, by code
transactions.arrow   rows of cdcwb.model.TRANSACTIONS in the order of their first records
bins.arrow           the changes counted (cdcwb.index.bins), where there are very many
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdcwb.index.bins import BINNED_ABOVE, binned
from cdcwb.index.build import put_in_place, read_arrow, write_arrow
from cdcwb.index.columns import NO_TIME
from cdcwb.index.places import Index
from cdcwb.index.selection import NO_TABLE
from cdcwb.model import CHANGES, TRANSACTIONS, WHOLE, Completeness, Outcome

__all__ = ["CODED", "READ", "Changes", "build_changes", "open_changes", "read_changes"]

_VERSION: Final = 3
_ABOUT: Final = "about.json"

READ: Final = (
    "file_index",
    "offset",
    "operation",
    "outcome",
    "schema_name",
    "table_name",
    "transaction_id",
    "changed_at",
    "committed_at",
    "change_mask",
    "change_source",
)
"""The columns of changes that are read, beside ``source_events`` and ``changed_columns``."""

CODED: Final = ("operation", "outcome", "table", "mask", "source")
"""What a change has a code of."""

_BETWEEN: Final = "\x1f"
_INCOMPLETE: Final = (Completeness.NO_BEGIN, Completeness.NO_END, Completeness.GAPS)

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def build_changes(folder: Path, parts: Sequence[Path], transactions: pa.Table, places: Index, origin: Any) -> None:
    """Write the index of the changes in Parquet files (rows of :data:`cdcwb.model.CHANGES`, all columns or those that
    are read here, in any order) into ``folder``, which appears whole or not at all. ``transactions`` are rows of
    :data:`cdcwb.model.TRANSACTIONS`."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        transactions = _in_order(_renamed(_in_microseconds(transactions)), places)
        names = transactions["transaction_id"].combine_chunks()
        none = pa.RecordBatch.from_pylist([], CHANGES)
        batches = chain([none], *map(_batches, parts))
        rows = pa.concat_tables([_prepared(batch, names) for batch in batches]).unify_dictionaries()
        record = places.exactly(rows["file_index"].to_numpy(), rows["offset"].to_numpy())
        order = np.argsort(record, kind="stable")
        numbers = {"record": record[order]}
        for name in ("changed_at", "committed_at", "bytes", "transaction"):
            numbers[name] = rows[name].to_numpy()[order]
        for name in (*CODED, "set"):
            coded = rows[name].combine_chunks()
            numbers[name] = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False)[order]
            if name == "set":
                sets = [text.split(_BETWEEN) if text else [] for text in coded.dictionary.to_pylist()]
                write_arrow(beside / "sets.arrow", pa.table({"columns": pa.array(sets, pa.list_(pa.string()))}))
            else:
                write_arrow(beside / f"text-{name}.arrow", pa.table({"text": coded.dictionary.cast(pa.large_string())}))
        write_arrow(beside / "changes.arrow", pa.table({name: pa.array(one) for name, one in numbers.items()}))
        write_arrow(beside / "transactions.arrow", transactions)
        about = {"version": _VERSION, "origin": origin, "changes": len(record), "transactions": len(transactions)}
        if len(record) > BINNED_ABOVE:
            counted, about["width_us"] = binned(read_changes(beside, places))
            write_arrow(beside / "bins.arrow", pa.table({name: pa.array(one) for name, one in counted.items()}))
        (beside / _ABOUT).write_text(json.dumps(about, indent=1), encoding="utf-8")
        put_in_place(beside, folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path) as file:
        yield from file.iter_batches(batch_size=1 << 17, columns=[*READ, "source_events", "changed_columns"])


def _prepared(batch: pa.RecordBatch, transactions: pa.Array) -> pa.Table:
    label = pc.binary_join_element_wise(batch["schema_name"], batch["table_name"], ".")
    label = pc.fill_null(pc.coalesce(label, batch["table_name"]), NO_TABLE)
    coded = {
        "operation": batch["operation"],
        "outcome": batch["outcome"],
        "table": label,
        "mask": batch["change_mask"],
        "source": batch["change_source"],
        "set": pc.binary_join(batch["changed_columns"].cast(pa.list_(pa.string())), _BETWEEN),
    }
    columns = {name: texts.cast(pa.string()).dictionary_encode() for name, texts in coded.items()}
    for name in ("changed_at", "committed_at"):
        times = batch[name].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
        columns[name] = pc.fill_null(times, NO_TIME)
    number = pc.index_in(batch["transaction_id"].cast(pa.string()), value_set=transactions, skip_nulls=True)
    columns["transaction"] = pc.fill_null(number, -1)
    columns["bytes"] = _lengths(batch["source_events"])
    return pa.table({"file_index": batch["file_index"], "offset": batch["offset"], **columns})


def _in_microseconds(transactions: pa.Table) -> pa.Table:
    """Spark writes nanoseconds without a zone."""
    for name in ("began_at", "ended_at"):
        times = transactions[name].cast(TRANSACTIONS.field(name).type)
        transactions = transactions.set_column(transactions.schema.get_field_index(name), name, times)
    return transactions


def _renamed(transactions: pa.Table) -> pa.Table:
    """Captures of earlier versions have another name for what is complete."""
    values = transactions["completeness"].cast(pa.string())
    now = pc.if_else(pc.fill_null(pc.equal(values, WHOLE), False), str(Completeness.COMPLETE), values)
    return transactions.set_column(transactions.schema.get_field_index("completeness"), "completeness", now)


def _lengths(events: pa.Array) -> pa.Array:
    """The lengths of the records of each change, added up."""
    upto = np.concatenate([[0], np.cumsum(pc.struct_field(events.values, "length").to_numpy(zero_copy_only=False))])
    offsets = events.offsets.to_numpy()
    return pa.array((upto[offsets[1:]] - upto[offsets[:-1]]).astype(np.int64))


def _in_order(transactions: pa.Table, places: Index) -> pa.Table:
    """The transactions with the number of their first record (-1 where none has their name), in that order."""
    named = places.texts("transaction")
    first = np.full(max(1, len(named.texts)), -1, np.int64)
    rows = np.flatnonzero(named.codes >= 0)[::-1]
    first[named.codes[rows]] = rows  # the last to be written is the first record
    code = pc.index_in(transactions["transaction_id"].cast(pa.large_string()), value_set=named.texts)
    codes = pc.fill_null(code, -1).to_numpy()
    record = np.where(codes >= 0, first[codes], -1)
    order = np.argsort(np.where(record < 0, np.iinfo(np.int64).max, record), kind="stable")
    return transactions.append_column("record", pa.array(record)).take(pa.array(order))


def open_changes(folder: Path, origin: Any, places: Index) -> Changes | None:
    """The index in a folder; None where there is none, or it was made from something else than ``origin``."""
    try:
        about = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(about, dict) or about.get("version") != _VERSION or about.get("origin") != origin:
        return None
    return read_changes(folder, places, about.get("width_us", 0))


def read_changes(folder: Path, places: Index, width_us: int = 0) -> Changes:
    """The index that :func:`build_changes` wrote into a folder, with bins of ``width_us`` microseconds if not 0."""
    texts = {name: read_arrow(folder / f"text-{name}.arrow")["text"].to_pylist() for name in CODED}
    sets = read_arrow(folder / "sets.arrow")["columns"].to_pylist()
    transactions = Transactions(read_arrow(folder / "transactions.arrow"))
    found = Changes(places, _numbers(folder / "changes.arrow"), texts, sets, transactions)
    if width_us:
        texts = {name: texts[name] for name in ("table", "operation", "outcome")}
        found.bins = Changes(places, _numbers(folder / "bins.arrow"), texts, sets, transactions, width_us)
    return found


def _numbers(path: Path) -> dict[str, npt.NDArray[Any]]:
    found = read_arrow(path)
    return {name: found[name].to_numpy() for name in found.schema.names}


class Changes:
    """Changes by number, from 0 in capture order, and transactions by number. Times are microseconds since 1970 UTC,
    :data:`~cdcwb.index.columns.NO_TIME` where they are not known; codes are -1 for null.

    * ``places``: the index of records; ``record``: the number of a change's record there
    * ``at``: the time of a change, else that of its commit
    * ``codes`` and ``texts``: by operation, outcome, table; ``users``: by user
    * ``set``: the code of its set of changed columns, -1 where nothing says what changed; ``sets``: the names

    Where there are too many to look at one by one (:mod:`cdcwb.index.bins`), a row stands for several: the changes of a
    bin of ``width_us`` microseconds (0: rows are changes) with the same table, operation, outcome, user and set.
    ``times`` says how many they are, ``record`` is the first of their records, ``at`` and ``last_at`` are the first and
    the last of their times.
    """

    def __init__(
        self,
        places: Index,
        numbers: Mapping[str, npt.NDArray[Any]],
        texts: Mapping[str, list[str]],
        sets: list[list[str]],
        transactions: Transactions,
        width_us: int = 0,
    ) -> None:
        self.places = places
        self._numbers = numbers
        self.record: Ints = numbers["record"]
        self.set: npt.NDArray[np.int32] = numbers["set"]
        self.codes = {name: numbers[name] for name in texts}
        self.texts = dict(texts)
        self.sets = sets
        self.transactions = transactions
        self.width_us = width_us
        self.bins: Changes | None = None
        """The same changes counted in bins, where they are too many to look at one by one."""

    def __len__(self) -> int:
        return len(self.record)

    def take(self, rows: Ints) -> Changes:
        """Some of the changes."""
        numbers = {name: one[rows] for name, one in self._numbers.items()}
        return Changes(self.places, numbers, self.texts, self.sets, self.transactions, self.width_us)

    def number(self, mask: Bools) -> int:
        """How many changes the rows of a mask stand for."""
        times = self.weights(mask)
        return int(np.count_nonzero(mask)) if times is None else int(times.sum())

    def weights(self, mask: Bools) -> Ints | None:
        """How many changes each of the rows of a mask stands for; None: one."""
        return None if self.times is None else self.times[mask]

    @cached_property
    def transaction(self) -> npt.NDArray[np.int32]:
        """The number of its transaction, -1 for none and for bins."""
        found = self._numbers.get("transaction")
        return np.full(len(self), -1, np.int32) if found is None else found

    @property
    def times(self) -> Ints | None:
        """How many changes each row stands for; None: one."""
        return self._numbers.get("times")

    @cached_property
    def at(self) -> Ints:
        """When each was made, as far as it is known: its own time, else that of its commit."""
        numbers = self._numbers
        if "at" in numbers:
            return numbers["at"]
        return np.where(numbers["changed_at"] == NO_TIME, numbers["committed_at"], numbers["changed_at"])

    @property
    def last_at(self) -> Ints:
        """The last of the times that a row stands for."""
        return self._numbers.get("last_at", self.at)

    @property
    def bytes(self) -> Ints:
        """The lengths of the records of each."""
        return self._numbers["bytes"]

    @cached_property
    def timed(self) -> Bools:
        """Which changes have a time, their own or their commit's."""
        return np.asarray(self.at != NO_TIME)

    @cached_property
    def span(self) -> tuple[int, int] | None:
        """The first and the last time of a change or a transaction; None where there is no time at all."""
        times = [self.at[self.timed], self.last_at[self.timed], self.transactions.began, self.transactions.ended]
        known = [part[part != NO_TIME] for part in times]
        least = [int(part.min()) for part in known if len(part)]
        most = [int(part.max()) for part in known if len(part)]
        return (min(least), max(most)) if least else None

    @cached_property
    def users(self) -> npt.NDArray[np.int32]:
        """The code of who did it, by change: of the user of its transaction; -1 where none is known."""
        if "user" in self._numbers:
            return self._numbers["user"]
        codes = np.append(self.transactions.codes["user"], np.int32(-1))  # the last stands for no transaction
        return np.asarray(codes[self.transaction])

    @cached_property
    def names(self) -> list[str]:
        """The names of all columns that a change touched, in order."""
        return sorted({name for one in self.sets for name in one})


class Transactions:
    """Transactions by number, in the order of their first records; ``rows`` are those of the model, with ``record``."""

    def __init__(self, rows: pa.RecordBatch) -> None:
        self.rows = rows
        self.began: Ints = self._times("began_at")
        self.ended: Ints = self._times("ended_at")
        self.record: Ints = rows["record"].to_numpy()
        self.bytes: Ints = pc.fill_null(rows["bytes"], 0).to_numpy(zero_copy_only=False)
        self.codes: dict[str, npt.NDArray[np.int32]] = {}
        self.texts: dict[str, list[str]] = {}
        for name in ("outcome", "completeness", "user"):
            coded = rows[name].dictionary_encode()
            self.codes[name] = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int32)
            self.texts[name] = coded.dictionary.to_pylist()

    def __len__(self) -> int:
        return len(self.rows)

    def _times(self, name: str) -> Ints:
        times = pc.fill_null(self.rows[name].cast(pa.int64()), NO_TIME)
        found: Ints = times.to_numpy(zero_copy_only=False)
        return found

    def _are(self, name: str, *values: str) -> Bools:
        chosen = [code for code, text in enumerate(self.texts[name]) if text in values]
        return np.isin(self.codes[name], chosen)

    @cached_property
    def is_open(self) -> Bools:
        """Those that did not end in the capture."""
        return self._are("outcome", Outcome.OPEN)

    @cached_property
    def is_incomplete(self) -> Bools:
        """Those of which the begin, the end or something between them is missing."""
        return self._are("completeness", *_INCOMPLETE)

    @cached_property
    def is_unfinished(self) -> Bools:
        """Those that did not commit, or are incomplete."""
        return np.asarray(~self._are("outcome", Outcome.COMMITTED) | self.is_incomplete)

    @cached_property
    def last(self) -> int | None:
        """The last time that the transactions know."""
        known = [part[part != NO_TIME] for part in (self.began, self.ended)]
        return max((int(part.max()) for part in known if len(part)), default=None)

    @cached_property
    def lasted(self) -> Ints:
        """How long each lasted, in microseconds; an open one until the capture ends; NO_TIME where it is not known."""
        end = self.ended.copy()
        if self.last is not None:
            end[self.is_open & (end == NO_TIME)] = self.last
        known = (self.began != NO_TIME) & (end != NO_TIME)
        return np.where(known, end - np.where(known, self.began, 0), NO_TIME)

    @cached_property
    def changes(self) -> Ints:
        """How many changes each has, undone ones included."""
        counts = self.rows["changes"]
        lengths = np.diff(counts.offsets.to_numpy())
        found = np.zeros(len(self), np.int64)
        np.add.at(found, np.repeat(np.arange(len(self)), lengths), counts.items.to_numpy(zero_copy_only=False))
        return found

    def records(self, numbers: Ints) -> list[dict[str, Any]]:
        """Rows of the model with ``record``, ``rows`` (bytes, where places are rows), ``first_position`` (of the begin,
        else of the first record there is), ``changes_total``, ``duration_us`` and ``lasted_us``."""
        found: list[dict[str, Any]] = self.rows.take(pa.array(numbers)).to_pylist()
        for number, row in zip(numbers, found, strict=True):
            behind = row["transaction_id"].partition("~")[2]
            row["first_position"] = row["begin_position"] or behind or None
            row["rows"], row["changes_total"] = row["bytes"], int(self.changes[number])
            both = row["began_at"] is not None and row["ended_at"] is not None
            lasted = int(self.lasted[number])
            row["lasted_us"] = None if lasted == NO_TIME else lasted
            row["duration_us"] = int(self.ended[number] - self.began[number]) if both else None
        return found
