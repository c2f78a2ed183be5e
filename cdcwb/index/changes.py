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
from cdcwb.index.headers import Headers, Ints, coded, of_columns
from cdcwb.index.places import Index
from cdcwb.index.transactions import Transactions
from cdcwb.model import CHANGES, TRANSACTIONS, WHOLE, Completeness
from cdcwb.spark.stored import batches_of
from cdcwb.time_axis import TimeAxis, axis_of

__all__ = ["READ", "Changes", "build_changes", "open_changes", "read_changes"]

_VERSION: Final = 4
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
)
"""The columns of changes that are read, beside ``source_events`` and ``changed_columns``."""

_CODED: Final = ("operation", "outcome", "table")
"""What a change has a code of."""


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
        headers = of_columns({name: rows[name].combine_chunks() for name in rows.column_names})
        record = places.exactly(headers.numbers["file_index"], headers.numbers["offset"])
        order = np.argsort(record, kind="stable")
        kept = ("changed_at", "committed_at", "bytes", "transaction", *_CODED, "set")
        numbers = {"record": record[order]} | {name: headers.numbers[name][order] for name in kept}
        for name, texts in headers.texts.items():
            write_arrow(beside / f"text-{name}.arrow", pa.table({"text": pa.array(texts, pa.large_string())}))
        write_arrow(beside / "sets.arrow", pa.table({"columns": pa.array(headers.sets, pa.list_(pa.string()))}))
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
        yield from batches_of(file, [*READ, "source_events", "changed_columns"])


def _prepared(batch: pa.RecordBatch, transactions: pa.Array) -> pa.Table:
    columns = coded(batch)
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
    texts = {name: read_arrow(folder / f"text-{name}.arrow")["text"].to_pylist() for name in _CODED}
    sets = read_arrow(folder / "sets.arrow")["columns"].to_pylist()
    transactions = Transactions(read_arrow(folder / "transactions.arrow"))
    transactions.until = transactions.span[1] if transactions.span else NO_TIME
    found = Changes(places, _numbers(folder / "changes.arrow"), texts, sets, transactions)
    if width_us:
        found.bins = Changes(places, _numbers(folder / "bins.arrow"), texts, sets, transactions, width_us)
    return found


def _numbers(path: Path) -> dict[str, npt.NDArray[Any]]:
    found = read_arrow(path)
    return {name: found[name].to_numpy() for name in found.schema.names}


class Changes(Headers):
    """Changes by number, from 0 in capture order, and transactions by number.

    * ``places``: the index of records; ``record``: the number of a change's record there
    * ``users``: the codes of users

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
        sets: Sequence[Sequence[str]],
        transactions: Transactions,
        width_us: int = 0,
    ) -> None:
        super().__init__(numbers, texts, sets, width_us)
        self.places = places
        self.record: Ints = numbers["record"]
        self.transactions = transactions
        self.bins: Changes | None = None
        """The same changes counted in bins, where they are too many to look at one by one."""

    def take(self, rows: Ints) -> Changes:
        """Some of the changes."""
        numbers = {name: one[rows] for name, one in self.numbers.items()}
        return Changes(self.places, numbers, self.texts, self.sets, self.transactions, self.width_us)

    @cached_property
    def transaction(self) -> npt.NDArray[np.int32]:
        """The number of its transaction, -1 for none and for bins."""
        found = self.numbers.get("transaction")
        return np.full(len(self), -1, np.int32) if found is None else found

    @property
    def bytes(self) -> Ints:
        """The lengths of the records of each."""
        return self.numbers["bytes"]

    @cached_property
    def span(self) -> tuple[int, int] | None:
        """The first and the last time of a change or a transaction; None where there is no time at all."""
        known = self._known_times
        return (int(known.min()), int(known.max())) if len(known) else None

    @cached_property
    def axis(self) -> TimeAxis | None:
        """What an axis of time shows of all changes and transactions."""
        return axis_of(self._known_times)

    @property
    def _known_times(self) -> Ints:
        times = [self.at[self.timed], self.transactions.began, self.transactions.ended]
        times += [self.last_at[self.timed]] if self.width_us else []
        return np.concatenate([part[part != NO_TIME] for part in times])

    @cached_property
    def users(self) -> npt.NDArray[np.int32]:
        """The code of who did it, by change: of the user of its transaction; -1 where none is known."""
        if "user" in self.numbers:
            return self.numbers["user"]
        codes = np.append(self.transactions.codes["user"], np.int32(-1))  # the last stands for no transaction
        return np.asarray(codes[self.transaction])
