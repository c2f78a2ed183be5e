"""The truth of a generated capture: its changes, transactions and table versions, collected while it is written, as
Parquet files in exactly the columns of :mod:`cdcwb_synth.model`.

A change is added when its location is known. What is only known later (the order of the files, how transactions end,
the numbers of inferred table versions) is filled in at the end; until then changes wait in an Arrow file, so that
memory does not grow with them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdcwb_synth import model
from cdcwb_synth.model import Completeness, Operation, Outcome

_BATCH: Final = 20_000
_WAITING: Final = pa.schema([*model.CHANGES, ("version", pa.int32()), ("transaction", pa.int32())])
_LATE: Final = {
    "version": ("table_version", "schema_name", "table_name"),
    "transaction": ("transaction_id", "commit_position", "outcome", "committed_at"),
}
"""Columns of changes that come from their version and their transaction, unless the change has them."""

_DIGITS: Final = re.compile(r"([0-9]+)")

Image = Mapping[str, str | None]
"""Values as text, by column."""

Time = int | datetime | None
"""A time, if it is known; numbers are microseconds since 1970."""

Ints = npt.NDArray[np.int64]
Locate = Callable[[Ints], tuple[Ints, Ints, Ints]]
"""Gives file, offset and length of records by their numbers."""


class Location(NamedTuple):
    """Where a record is: number of the file, offset and length there, in the capture's unit."""

    file_index: int
    offset: int
    length: int


NOWHERE: Final = Location(-1, -1, 0)
"""The place of a record that is not in the capture, or not yet."""


@dataclass(slots=True, eq=False)
class Version:
    """A table version. ``table_version`` None: its :attr:`label` and a number, in the order of the first locations.

    ``columns`` are rows of model.COLUMN; ``first`` has the first place of every file that has one, of its description
    or, where it is inferred, of a row. ``has_location``: the description is in the capture. ``is_listed``: it is known
    even if no row is of it.
    """

    table_version: str | None
    schema_name: str | None
    table_name: str | None
    columns: list[dict[str, Any]]
    origin: str
    schema_text: str | None = None
    lineage: Mapping[str, str] | None = None
    has_location: bool = True
    is_listed: bool = True
    first_position: str | None = None
    first: dict[int, Location] = field(default_factory=dict)
    rows: int = 0
    number: int = -1

    @property
    def label(self) -> str:
        """``schema.table``, ``table`` or ``unnamed``."""
        return _label(self.schema_name, self.table_name)

    def seen(self, location: Location) -> None:
        """Notes a location where it, or a row of it, is."""
        self.first[location.file_index] = min(self.first.get(location.file_index, location), location)

    def begins(self, position: str | None) -> None:
        """Notes the position of a row."""
        if position is not None and (self.first_position is None or position < self.first_position):
            self.first_position = position


@dataclass(slots=True, eq=False)
class Transaction:
    """A transaction; ``changes`` (by operation), ``tables`` and ``bytes`` grow with each of its changes.
    ``ended_at`` is the time in ``transactions``, ``committed_at`` that in ``changes``."""

    transaction_id: str
    begin_position: str | None = None
    end_position: str | None = None
    commit_position: str | None = None
    began_at: Time = None
    ended_at: Time = None
    committed_at: Time = None
    outcome: Outcome = "committed"
    completeness: Completeness = "unknown"
    user: str | None = None
    changes: Counter[str] = field(default_factory=Counter)
    tables: set[str] = field(default_factory=set)
    bytes: int = 0
    number: int = -1

    def covers(self, position: str | None, at: Time) -> None:
        """Extends it to a record at a position and a time, where nothing but its records shows where it begins and
        ends."""
        if position is not None:
            self.begin_position = min(self.begin_position or position, position)
            self.end_position = max(self.end_position or position, position)
        if at is not None:
            self.began_at = at if self.began_at is None else min(self.began_at, at)


class Truth:
    """Collects the truth of a capture of ``format``, whose locations count ``unit``; ``folder`` gets its files.

    ``files`` are the capture's files in the order of their making; ``count`` is how many changes there are;
    ``undone`` are the numbers of changes that were taken back. ``locate``: offsets so far are the numbers of records,
    and it gives the index of the file, offset and length of each.
    """

    def __init__(self, format: str, folder: Path) -> None:
        self.format, self.folder = format, folder
        self.unit: Literal["byte", "row"] = "byte"
        self.locate: Locate | None = None
        self.files: list[str] = []
        self.transactions: list[Transaction] = []
        self.count = 0
        self.undone: set[int] = set()
        self._versions: dict[Hashable, Version] = {}
        self._path = folder / "waiting.arrow"
        self._waiting = pa.ipc.new_file(self._path, _WAITING)
        self._rows: list[dict[str, Any]] = []

    def file(self, name: str) -> int:
        """The number of a new file."""
        self.files.append(name)
        return len(self.files) - 1

    def version(self, version: Version, key: Hashable = None) -> Version:
        """Adds a table version, with a ``key`` only the first one of this key; returns the one in the truth."""
        version.number = len(self._versions)
        return self._versions.setdefault(version.number if key is None else key, version)

    def transaction(self, transaction: Transaction) -> Transaction:
        """Adds a transaction."""
        transaction.number = len(self.transactions)
        self.transactions.append(transaction)
        return transaction

    def change(
        self, row: dict[str, Any], locations: Sequence[Location], version: Version | None = None,
        transaction: Transaction | None = None, *, head: int = -1,
    ) -> None:  # fmt: skip
        """Adds a change that is at ``locations``, of which ``head`` is that of its main record.

        ``row`` holds the rest by the columns of the model, maps as dictionaries; what it lacks comes from the version
        and the transaction. ``changed_columns`` and ``change_source`` of an update default to a comparison of both
        images.
        """
        if row["operation"] is Operation.UPDATE and "change_source" not in row:
            row |= {"changed_columns": differing(row["before"], row["after"]), "change_source": "images"}
        row["file_index"], row["offset"], row["length"] = locations[head]
        row["source_events"] = locations
        if version is not None:
            version.rows += 1
            version.begins(row.get("position"))
            if version.origin == "inferred":
                version.seen(locations[head])
        if transaction is not None:
            transaction.changes[row["operation"]] += 1
            transaction.bytes += sum(location.length for location in locations)
            if version is not None and version.table_name is not None:
                transaction.tables.add(version.label)
            elif version is None and row.get("table_name") is not None:
                transaction.tables.add(_label(row["schema_name"], row["table_name"]))
        row["version"] = -1 if version is None else version.number
        row["transaction"] = -1 if transaction is None else transaction.number
        self._rows.append(row)
        self.count += 1
        if len(self._rows) >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._waiting.write_batch(_batch(self._rows, _WAITING))
        self._rows = []

    def close(self) -> None:
        """Closes the file of waiting changes. A second call does nothing."""
        self._waiting.close()

    def write(self) -> None:
        """Writes ``changes.parquet``, ``transactions.parquet`` and ``table_versions.parquet``."""
        self._flush()
        self.close()
        self._names = sorted(self.files, key=natural_key)
        index = {name: number for number, name in enumerate(self._names)}
        self._order = np.array([index[name] for name in self.files] or [0], np.int64)
        versions = list(self._versions.values())
        firsts = sorted(((self._first(one), one) for one in versions), key=lambda pair: (pair[0], pair[1].number))
        numbers: Counter[str] = Counter()
        for first, one in firsts:
            if one.table_version is None and first is not NOWHERE:
                numbers[one.label] += 1
                one.table_version = f"{one.label}@{numbers[one.label]}"
        self._write_changes({"version": versions, "transaction": self.transactions})
        self._path.unlink()
        rows: list[dict[str, Any]] = []
        for first, one in firsts:
            event = first._asdict() if one.has_location and first is not NOWHERE else None
            if one.is_listed or one.rows:
                rows.append(_attributes(one, model.TABLE_VERSIONS) | {"first_event": event})
        _write_rows(self.folder / "table_versions.parquet", model.TABLE_VERSIONS, rows)
        every = self.transactions
        own = ({"changes": dict(sorted(one.changes.items())), "tables": sorted(one.tables)} for one in every)
        both = (_attributes(one, model.TRANSACTIONS) | more for one, more in zip(every, own, strict=True))
        _write_rows(self.folder / "transactions.parquet", model.TRANSACTIONS, both)

    def _first(self, version: Version) -> Location:
        """The first place of a version in capture order, with the index of its file."""
        locations = np.array(list(version.first.values()), np.int64).reshape(-1, 3)
        resolved = zip(*self._resolve(*locations.T), strict=True)
        return min((Location(*map(int, one)) for one in resolved), default=NOWHERE)

    def _resolve(self, file: Ints, offset: Ints, length: Ints) -> tuple[Ints, Ints, Ints]:
        """Places with the indexes of files in natural order."""
        return self.locate(offset) if self.locate is not None else (self._order[file], offset, length)

    def _resolved(self, locations: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """The columns of locations, with the indexes of files in natural order."""
        resolved = self._resolve(*(locations[name].to_numpy().astype(np.int64) for name in Location._fields))
        return {one.name: pa.array(part).cast(one.type) for one, part in zip(model.SOURCE_EVENT, resolved, strict=True)}

    def _write_changes(self, late: Mapping[str, Sequence[Any]]) -> None:
        files = pa.array([*self._names, None], pa.string())
        kind = model.CHANGES.field
        taken = {
            name: (whose, pa.array([*(getattr(one, name) for one in late[whose]), None], kind(name).type))
            for whose, names in _LATE.items() for name in names
        }  # fmt: skip
        undone = np.zeros(self.count, bool)
        undone[list(self.undone)] = True
        constants = {"format": self.format, "offset_unit": self.unit, "kind": "change"}
        done = 0
        with (
            pq.ParquetWriter(self.folder / "changes.parquet", model.CHANGES, compression="zstd") as writer,
            pa.ipc.open_file(self._path) as waiting,
        ):
            for batch in map(waiting.get_batch, range(waiting.num_record_batches)):
                filled = {name: batch[name] for name in batch.schema.names}
                filled |= self._resolved(filled)
                filled["file"] = files.take(filled["file_index"])
                events = filled["source_events"]
                structs = self._resolved(dict(zip(Location._fields, events.flatten().flatten(), strict=True)))
                locations = pa.StructArray.from_arrays(list(structs.values()), fields=list(model.SOURCE_EVENT))
                filled["source_events"] = pa.ListArray.from_arrays(events.offsets, locations)
                for name, (whose, values) in taken.items():
                    number = filled[whose].to_numpy()
                    own = values.take(pa.array(np.where(number < 0, len(values) - 1, number)))
                    filled[name] = pc.coalesce(filled[name], own)
                is_undone = pa.array(undone[done : done + batch.num_rows])
                filled["outcome"] = pc.if_else(is_undone, "undone", filled["outcome"])
                filled |= {name: pa.repeat(text, batch.num_rows) for name, text in constants.items()}
                arrays = [filled[one.name] for one in model.CHANGES]
                writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=model.CHANGES))
                done += batch.num_rows


def _label(schema: str | None, table: str | None) -> str:
    return ".".join(part for part in (schema, table) if part) or "unnamed"


def differing(before: Image | None, after: Image | None) -> list[str] | None:
    """The columns of the second image whose values are others in the first; None if there are not both."""
    if before is None or after is None:
        return None
    return [name for name, text in after.items() if before.get(name) != text]


_UNKNOWN: Final[dict[str, Any]] = dict.fromkeys(one.name for one in model.COLUMN)


def column_rows(columns: Iterable[Mapping[str, Any] | str]) -> list[dict[str, Any]]:
    """Rows of model.COLUMN from what is known of each column, at least its name."""
    return [
        _UNKNOWN | {"ordinal": ordinal} | ({"name": one} if isinstance(one, str) else dict(one))
        for ordinal, one in enumerate(columns, 1)
    ]


def _attributes(one: object, schema: pa.Schema) -> dict[str, Any]:
    """The attributes of an object that are named like columns."""
    return {name: getattr(one, name, None) for name in schema.names}


def _write_rows(path: Path, schema: pa.Schema, rows: Iterable[dict[str, Any]]) -> None:
    """Writes rows as a Parquet file; maps are dictionaries."""
    waiting = iter(rows)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while some := list(islice(waiting, _BATCH)):
            writer.write_batch(_batch(some, schema))


def _batch(rows: Sequence[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    columns = []
    for one in schema:
        values: list[Any] = [row.get(one.name) for row in rows]
        if pa.types.is_map(one.type):
            values = [None if value is None else [*value.items()] for value in values]
        columns.append(pa.array(values, one.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def natural_key(name: str) -> list[Any]:
    """What orders paths folder by folder, and numbers by their value: a2 before a10."""
    parts = []
    for part in PurePosixPath(name).parts:
        tokens = _DIGITS.split(part.casefold())
        parts.append(([(1, int(t), "") if i % 2 else (0, 0, t) for i, t in enumerate(tokens)], part))
    return parts
