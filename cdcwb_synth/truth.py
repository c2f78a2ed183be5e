"""What really happened in a generated capture: its changes, transactions and table versions, collected while it is
written, as Parquet files in exactly the columns of :mod:`cdcwb_synth.model`.

A change is added when it has its place. What is only known later (the order of the files, how transactions end, the
numbers of inferred table versions) is put in at the end; until then changes wait in an Arrow file, so that memory does
not grow with them. Column ``problems`` is null throughout: the truth says what happened, not what a reader remarks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdcwb_synth import model
from cdcwb_synth.model import Completeness, OffsetUnit, Operation, Outcome

if TYPE_CHECKING:
    from cdcwb_synth.parts import Part

__all__ = [
    "NOWHERE", "EncoderContext", "Image", "Place", "Transaction", "Truth", "Version", "blank_columns", "differing",
    "natural_key",
]  # fmt: skip

_BATCH: Final = 20_000
_WAITING: Final = pa.schema([*model.CHANGES, ("version", pa.int32()), ("transaction", pa.int32())])
_DIGITS: Final = re.compile(r"([0-9]+)")

Image = Mapping[str, str | None]
"""Values as text, by column."""

Time = int | datetime | None
"""A time, if it is known; numbers are microseconds since 1970."""

Ints = npt.NDArray[np.int64]
Locate = Callable[[Ints], tuple[Ints, Ints, Ints]]
"""Gives file, offset and length of records by their numbers."""


class Place(NamedTuple):
    """Where a record is: number of the file, offset and length there, in the capture's unit."""

    file: int
    offset: int
    length: int


NOWHERE: Final = Place(-1, -1, 0)
"""The place of a record that is not in the capture, or not yet."""


@dataclass(slots=True, eq=False)
class Version:
    """A table version. ``table_version`` None: its :attr:`label` and a number, in the order of the first places.

    ``columns`` are rows of model.COLUMN; ``first`` has the first place of every file that has one, of its description
    or, where it is inferred, of a row. ``has_place``: the description is in the capture. ``is_listed``: it is known
    even if no row is of it.
    """

    table_version: str | None
    schema_name: str | None
    table_name: str | None
    columns: list[dict[str, Any]]
    origin: str
    schema_text: str | None = None
    lineage: Mapping[str, str] | None = None
    has_place: bool = True
    is_listed: bool = True
    first_position: str | None = None
    first: dict[int, Place] = field(default_factory=dict)
    rows: int = 0
    number: int = -1

    @property
    def label(self) -> str:
        """``schema.table``, ``table`` or ``unnamed``."""
        return _label(self.schema_name, self.table_name)

    def seen(self, place: Place) -> None:
        """Notes a place where it, or a row of it, is."""
        self.first[place.file] = min(self.first.get(place.file, place), place)

    def begins(self, position: str | None) -> None:
        """Notes the position of a row."""
        if position is not None and (self.first_position is None or position < self.first_position):
            self.first_position = position


@dataclass(slots=True, eq=False)
class Transaction:
    """A transaction; ``counts`` (by operation), ``tables`` and ``bytes`` grow with each of its changes. ``ended_at`` is
    the time in ``transactions``, ``committed_at`` that in ``changes``."""

    transaction_id: str
    begin_position: str | None = None
    end_position: str | None = None
    commit_position: str | None = None
    began_at: Time = None
    ended_at: Time = None
    committed_at: Time = None
    outcome: Outcome = Outcome.COMMITTED
    completeness: Completeness = Completeness.UNKNOWN
    user: str | None = None
    counts: Counter[str] = field(default_factory=Counter)
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
    """Collects the truth of a capture of ``format``, whose places count ``unit``; ``folder`` gets its files.

    ``files`` are the capture's files in the order of their making; ``count`` is how many changes there are;
    ``undone`` are the numbers of changes that were taken back. ``locate``: offsets so far are the numbers of records,
    and it gives the index of the file, offset and length of each.
    """

    def __init__(self, format: str, folder: Path) -> None:
        self.format, self.unit, self.folder = format, OffsetUnit.BYTE, folder
        self.locate: Locate | None = None
        self.files: list[str] = []
        self.versions: list[Version] = []
        self.transactions: list[Transaction] = []
        self.count = 0
        self.undone: set[int] = set()
        self._path = folder / "waiting.arrow"
        self._waiting = pa.ipc.new_file(self._path, _WAITING)
        self._rows: list[dict[str, Any]] = []

    def file(self, name: str) -> int:
        """The number of a new file."""
        self.files.append(name)
        return len(self.files) - 1

    def version(self, version: Version) -> Version:
        """Adds a table version."""
        version.number = len(self.versions)
        self.versions.append(version)
        return version

    def transaction(self, transaction: Transaction) -> Transaction:
        """Adds a transaction."""
        transaction.number = len(self.transactions)
        self.transactions.append(transaction)
        return transaction

    def change(
        self, row: dict[str, Any], places: Sequence[Place], version: Version | None = None,
        transaction: Transaction | None = None, *, head: int = -1,
    ) -> int:  # fmt: skip
        """Adds a change that is at ``places``, of which ``head`` is the one that speaks for it; returns its number.

        ``row`` holds the rest by the columns of the model, maps as dictionaries; what it lacks comes from the version
        and the transaction. ``changed_columns`` and ``change_source`` of an update default to a comparison of both
        images.
        """
        file, offset, length = places[head]
        if row["operation"] is Operation.UPDATE and "change_source" not in row:
            row["changed_columns"] = differing(row["before"], row["after"])
            row["change_source"] = str(model.ChangeSource.IMAGES)
        row |= {"file_index": file, "offset": offset, "length": length, "source_events": places}
        if version is not None:
            version.rows += 1
            version.begins(row.get("position"))
            if version.origin == "inferred":
                version.seen(places[head])
        if transaction is not None:
            transaction.counts[row["operation"]] += 1
            transaction.bytes += sum(place.length for place in places)
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
        return self.count - 1

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
        self._order = np.array(natural_order(self.files) or [0], np.int64)
        self._name_versions()
        self._write_changes()
        self._path.unlink()
        _write_rows(self.folder / "transactions.parquet", model.TRANSACTIONS, map(_transaction_row, self.transactions))
        listed = [(self._first(one) or NOWHERE, one.number, one) for one in self.versions if one.is_listed or one.rows]
        versions = [self._version_row(one) for _, _, one in sorted(listed, key=lambda entry: entry[:2])]
        _write_rows(self.folder / "table_versions.parquet", model.TABLE_VERSIONS, versions)

    def _resolve(self, file: Ints, offset: Ints, length: Ints) -> tuple[Ints, Ints, Ints]:
        """Places with the indexes of files in natural order."""
        return self.locate(offset) if self.locate is not None else (self._order[file], offset, length)

    def _first(self, version: Version) -> Place | None:
        """The first place of a version in capture order, with the index of its file."""
        arrays = (self._resolve(*(np.array([part]) for part in place)) for place in version.first.values())
        return min((Place(*(int(part[0]) for part in found)) for found in arrays), default=None)

    def _name_versions(self) -> None:
        unnamed = [(self._first(one), one.number, one) for one in self.versions if one.table_version is None]
        numbers: Counter[str] = Counter()
        for _, _, one in sorted(entry for entry in unnamed if entry[0] is not None):
            numbers[one.label] += 1
            one.table_version = f"{one.label}@{numbers[one.label]}"

    def _version_row(self, one: Version) -> dict[str, Any]:
        first = self._first(one) if one.has_place else None
        return {
            "table_version": one.table_version, "schema_name": one.schema_name, "table_name": one.table_name,
            "first_position": one.first_position,
            "first_event": None if first is None else dict(zip(_PLACE, first, strict=True)),
            "columns": one.columns, "origin": one.origin, "schema_text": one.schema_text, "lineage": one.lineage,
        }  # fmt: skip

    def _write_changes(self) -> None:
        files = pa.array([*sorted(self.files, key=natural_key), None], pa.string())
        late = {
            "version": _columns_of(self.versions, ("table_version", "schema_name", "table_name")),
            "transaction": _columns_of(
                self.transactions, ("transaction_id", "commit_position", "outcome", "committed_at")
            ),
        }
        undone = np.zeros(self.count, bool)
        undone[list(self.undone)] = True
        done = 0
        with (
            pq.ParquetWriter(self.folder / "changes.parquet", model.CHANGES, compression="zstd") as writer,
            pa.ipc.open_file(self._path) as waiting,
        ):
            for batch in map(waiting.get_batch, range(waiting.num_record_batches)):
                n = batch.num_rows
                filled = {name: batch[name] for name in model.CHANGES.names}
                filled |= self._resolved(batch)
                filled["file"] = files.take(filled["file_index"])
                filled["source_events"] = pa.ListArray.from_arrays(
                    batch["source_events"].offsets,
                    pa.StructArray.from_arrays(
                        [*self._resolved(batch["source_events"].flatten()).values()], fields=list(model.SOURCE_EVENT)
                    ),
                )
                for whose, columns in late.items():
                    number = batch[whose].to_numpy()
                    for name, values in columns.items():
                        taken = values.take(pa.array(np.where(number < 0, len(values) - 1, number)))
                        filled[name] = pc.coalesce(filled[name], taken)
                is_undone = pa.array(undone[done : done + n])
                filled["outcome"] = pc.if_else(is_undone, str(Outcome.UNDONE), filled["outcome"])
                for name, text in (("format", self.format), ("offset_unit", self.unit), ("kind", model.CHANGE)):
                    filled[name] = pa.repeat(pa.scalar(str(text)), n)
                arrays = [filled[one.name] for one in model.CHANGES]
                writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=model.CHANGES))
                done += n

    def _resolved(self, places: Any) -> dict[str, pa.Array]:
        """The columns of places (of a batch or an array of structs), with the indexes of files in natural order."""
        fields = [places.field(name) if isinstance(places, pa.StructArray) else places[name] for name in _PLACE]
        found = self._resolve(*(one.to_numpy().astype(np.int64) for one in fields))
        kinds = (one.type for one in model.SOURCE_EVENT)
        return {name: pa.array(one).cast(kind) for name, one, kind in zip(_PLACE, found, kinds, strict=True)}


def _label(schema: str | None, table: str | None) -> str:
    return ".".join(part for part in (schema, table) if part) or "unnamed"


def _columns_of(objects: Sequence[Any], names: Sequence[str]) -> dict[str, pa.Array]:
    """Attributes of objects by the columns of changes, and null at the end."""
    return {
        name: pa.array([*(getattr(one, name) for one in objects), None], model.CHANGES.field(name).type)
        for name in names
    }


def _transaction_row(one: Transaction) -> dict[str, Any]:
    return {
        "transaction_id": one.transaction_id, "begin_position": one.begin_position, "end_position": one.end_position,
        "began_at": one.began_at, "ended_at": one.ended_at, "outcome": str(one.outcome),
        "completeness": str(one.completeness), "changes": dict(sorted(one.counts.items())),
        "tables": sorted(one.tables), "bytes": one.bytes, "user": one.user,
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class EncoderContext:
    """What an encoder writes: a part of a capture, or all of it, under ``folder``/capture. ``options`` are those of
    its format, ``seed`` and ``changes`` those of the part."""

    options: Any
    seed: int
    changes: int
    folder: Path
    part: Part
    truth: Truth


_PLACE: Final = ("file_index", "offset", "length")


def differing(before: Image | None, after: Image | None) -> list[str] | None:
    """The columns of the second image whose values are others in the first; None if there are not both."""
    if before is None or after is None:
        return None
    return [name for name, text in after.items() if before.get(name) != text]


def blank_columns(names: Iterable[str], **more: Any) -> list[dict[str, Any]]:
    """Columns of which nothing but the names is known, and what ``more`` says of all of them."""
    blank = dict.fromkeys(one.name for one in model.COLUMN)
    return [blank | {"ordinal": ordinal, "name": name} | more for ordinal, name in enumerate(names, 1)]


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
            columns.append(_maps(values, one.type.item_type))
        elif one.name == "source_events":
            columns.append(_places(values))
        else:
            columns.append(pa.array(values, one.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _maps(values: Sequence[Mapping[str, Any] | None], kind: pa.DataType) -> pa.Array:
    offsets = np.cumsum([0, *(0 if value is None else len(value) for value in values)], dtype=np.int32)
    present = [value for value in values if value is not None]
    keys = pa.array(list(chain.from_iterable(present)), pa.string())
    items = pa.array([*chain.from_iterable(value.values() for value in present)], kind)
    nulls = pa.array([value is None for value in values], pa.bool_())
    return pa.MapArray.from_arrays(pa.array(offsets), keys, items, mask=nulls)


def _places(values: Sequence[Sequence[Place]]) -> pa.Array:
    flat = np.array([*chain.from_iterable(values)], np.int64).reshape(-1, 3)
    columns = [pa.array(flat[:, at].astype(one.type.to_pandas_dtype())) for at, one in enumerate(model.SOURCE_EVENT)]
    offsets = np.cumsum([0, *map(len, values)], dtype=np.int32)
    return pa.ListArray.from_arrays(
        pa.array(offsets), pa.StructArray.from_arrays(columns, fields=list(model.SOURCE_EVENT))
    )


def natural_key(name: str) -> list[Any]:
    """What orders paths folder by folder, and numbers by their value: a2 before a10."""
    parts = []
    for part in PurePosixPath(name).parts:
        tokens = _DIGITS.split(part.casefold())
        parts.append(([(1, int(t), "") if i % 2 else (0, 0, t) for i, t in enumerate(tokens)], part))
    return parts


def natural_order(names: Sequence[str]) -> list[int]:
    """The index of each path among all of them in natural order."""
    places = [0] * len(names)
    for place, at in enumerate(sorted(range(len(names)), key=lambda at: natural_key(names[at]))):
        places[at] = place
    return places
