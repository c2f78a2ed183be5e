"""What really happened, written as Parquet in exactly the columns of :data:`cdcwb.model.CHANGES`, ``TRANSACTIONS`` and
``TABLE_VERSIONS``.

The truth is collected while a capture is made. What is only known later (where records end up in the files, how
transactions end, what is undone) is kept as numbers and put in when everything is written; the rows themselves wait
in an Arrow file, so memory stays small. Column ``problems`` is null throughout: the truth says what happened, not
what a reader remarks about it.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from cdcwb import model
from cdcwb.model import ChangeSource, Completeness, Kind, OffsetUnit, Operation, Outcome

__all__ = ["Places", "TransactionTruth", "Truth", "VersionTruth"]

_BATCH: Final = 50_000
_MAP: Final = pa.map_(pa.string(), pa.string())
_OUTCOMES: Final = (Outcome.OPEN, Outcome.COMMITTED, Outcome.ROLLED_BACK, Outcome.UNDONE)


@dataclass(frozen=True, slots=True)
class Places:
    """Where every record ended up, by record number (from 0 in stream order): index into ``files`` (names), offset and
    length there. A record that goes on in the next file has the place of its first part."""

    files: list[str]
    file_index: npt.NDArray[np.int32]
    offset: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]


@dataclass(slots=True)
class TransactionTruth:
    """One transaction; ``has_begin`` is false where its begin is not in the capture."""

    transaction_id: str
    has_begin: bool
    begin_position: str | None = None
    began_at: datetime | None = None
    user: str | None = None
    end_position: str | None = None
    commit_position: str | None = None
    ended_at: datetime | None = None
    outcome: int = 0  # index into _OUTCOMES, as its end says
    changes: dict[str, int] = field(default_factory=dict)
    tables: set[str] = field(default_factory=set)
    rows: list[int] = field(default_factory=list)  # its changes, while it is open
    savepoints: dict[int, int] = field(default_factory=dict)  # number: how many changes it had then

    @property
    def completeness(self) -> Completeness:
        """How much of it the capture holds."""
        if not self.has_begin:
            return Completeness.NO_BEGIN
        return Completeness.NO_END if self.end_position is None else Completeness.WHOLE


@dataclass(slots=True)
class VersionTruth:
    """One version of a table. ``record`` is the number of the record that brought it; ``columns`` as in
    model.COLUMN."""

    table_version: str
    schema_name: str | None
    table_name: str
    record: int
    columns: list[dict[str, Any]]
    schema_text: str
    first_position: str | None = None

    @property
    def full_name(self) -> str:
        """``schema.table``, or ``table`` where there is no schema."""
        return f"{self.schema_name}.{self.table_name}" if self.schema_name else self.table_name


class _Image(Protocol):
    names: Sequence[str]
    texts: Sequence[str | None]


class _Maps:
    """A column of maps, row by row; None is a null map."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.items: list[str | None] = []
        self.offsets: list[int] = [0]
        self.nulls: list[bool] = []

    def add(self, keys: Sequence[str], items: Sequence[str | None] | None) -> None:
        self.nulls.append(items is None)
        if items is not None:
            self.keys.extend(keys)
            self.items.extend(items)
        self.offsets.append(len(self.keys))

    def array(self) -> pa.Array:
        return pa.MapArray.from_arrays(
            pa.array(self.offsets, pa.int32()),
            pa.array(self.keys, pa.string()),
            pa.array(self.items, pa.string()),
            mask=pa.array(self.nulls, pa.bool_()),
        )


_WAITING: Final = pa.schema(
    [
        ("record_type", pa.string()),
        ("operation", pa.string()),
        ("position", pa.string()),
        ("version", pa.int32()),
        ("changed_columns", pa.list_(pa.string())),
        ("before", _MAP),
        ("after", _MAP),
        ("headers", _MAP),
    ]
)


class Truth:
    """Collects the truth of one capture of format ``name``; ``folder`` holds a temporary file meanwhile."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.transactions: list[TransactionTruth] = []
        self.versions: list[VersionTruth] = []
        self._record = array("q")  # of every change: the record whose place it has
        self._other = array("q")  # the other half's record, -1: none
        self._owner = array("i")  # index into transactions
        self._undone = bytearray()
        self._path = folder / "changes.arrow"
        self._waiting = pa.ipc.new_file(self._path, _WAITING)
        self._clear()

    def _clear(self) -> None:
        self._types: list[str] = []
        self._operations: list[str] = []
        self._positions: list[str] = []
        self._versions: list[int] = []
        self._changed: list[list[str] | None] = []
        self._before, self._after, self._headers = _Maps(), _Maps(), _Maps()

    @property
    def changes(self) -> int:
        """How many changes there are so far."""
        return len(self._record)

    def change(
        self,
        record: int,
        other: int,
        owner: int,
        version: int,
        record_type: str,
        operation: Operation,
        position: str,
        names: Sequence[str],
        before: Sequence[str | None] | None,
        after: Sequence[str | None] | None,
        headers: tuple[Sequence[str], Sequence[str]],
    ) -> int:
        """Add a change and return its number.

        ``record`` is the record whose place and position it has, ``other`` the record of an update's other half (-1:
        none or not yet written), ``owner`` and ``version`` are indexes into ``transactions`` and ``versions``.
        ``before`` and ``after`` are values as text in the order of ``names``; None: no such image. ``headers``: names
        and values.
        """
        row = len(self._record)
        self._record.append(record)
        self._other.append(other)
        self._owner.append(owner)
        self._undone.append(0)
        self._types.append(record_type)
        self._operations.append(operation)
        self._positions.append(position)
        self._versions.append(version)
        if before is not None and after is not None:
            self._changed.append([n for n, b, a in zip(names, before, after, strict=True) if b != a])
        else:
            self._changed.append(None)
        self._before.add(names, before)
        self._after.add(names, after)
        self._headers.add(*headers)
        transaction = self.transactions[owner]
        transaction.rows.append(row)
        transaction.changes[operation] = transaction.changes.get(operation, 0) + 1
        transaction.tables.add(self.versions[version].full_name)
        if len(self._types) >= _BATCH:
            self._flush()
        return row

    def other_half(self, row: int, record: int) -> None:
        """Say which record is the other half of the update ``row``."""
        self._other[row] = record

    def undo(self, owner: int, savepoint: int) -> None:
        """Take back the changes that the transaction ``owner`` made since its ``savepoint``."""
        transaction = self.transactions[owner]
        for row in transaction.rows[transaction.savepoints.get(savepoint, 0) :]:
            self._undone[row] = 1

    def end(self, owner: int, outcome: Outcome, position: str, at: datetime | None) -> None:
        """End the transaction ``owner`` by a commit (which has a time) or a rollback."""
        transaction = self.transactions[owner]
        transaction.outcome = _OUTCOMES.index(outcome)
        transaction.end_position = position
        if outcome is Outcome.COMMITTED:
            transaction.commit_position, transaction.ended_at = position, at
        transaction.rows, transaction.savepoints = [], {}

    def _flush(self) -> None:
        columns = [
            pa.array(self._types, pa.string()),
            pa.array(self._operations, pa.string()),
            pa.array(self._positions, pa.string()),
            pa.array(self._versions, pa.int32()),
            pa.array(self._changed, pa.list_(pa.string())),
            self._before.array(),
            self._after.array(),
            self._headers.array(),
        ]
        self._waiting.write_batch(pa.RecordBatch.from_arrays(columns, schema=_WAITING))
        self._clear()

    def close(self) -> None:
        """Close the temporary file; nothing can be added afterwards."""
        self._waiting.close()

    def write(self, folder: Path, places: Places, owners: npt.NDArray[np.int32]) -> None:
        """Write ``changes.parquet``, ``transactions.parquet`` and ``table_versions.parquet`` into ``folder``.

        ``owners`` gives for every record the transaction that it belongs to (index into ``transactions``, -1: none).
        """
        if self._types:
            self._flush()
        self.close()
        self._write_changes(folder / "changes.parquet", places)
        self._path.unlink()
        self._write_transactions(folder / "transactions.parquet", places, owners)
        self._write_versions(folder / "table_versions.parquet", places)

    def _write_changes(self, path: Path, places: Places) -> None:
        known = self.transactions
        ids = pa.array([t.transaction_id for t in known], pa.string())
        commits = pa.array([t.commit_position for t in known], pa.string())
        ends = pa.array([t.ended_at for t in known], model.CHANGES.field("committed_at").type)
        outcomes = np.array([t.outcome if t.has_begin else 0 for t in known], np.int32)
        labels = pa.array([str(o) for o in _OUTCOMES], pa.string())
        files = pa.array(places.files, pa.string())
        versions = pa.array([v.table_version for v in self.versions], pa.string())
        schemas = pa.array([v.schema_name for v in self.versions], pa.string())
        tables = pa.array([v.table_name for v in self.versions], pa.string())
        records, others = np.frombuffer(self._record, np.int64), np.frombuffer(self._other, np.int64)
        owners, undone = np.frombuffer(self._owner, np.int32), np.frombuffer(self._undone, np.bool_)
        done = 0
        with (
            pq.ParquetWriter(path, model.CHANGES, compression="zstd") as writer,
            pa.ipc.open_file(self._path) as waiting,
        ):
            for number in range(waiting.num_record_batches):
                batch = waiting.get_batch(number)
                n = batch.num_rows
                record, other = records[done : done + n], others[done : done + n]
                owner, gone = owners[done : done + n], undone[done : done + n]
                version = batch["version"]
                updates = pa.compute.equal(batch["operation"], str(Operation.UPDATE))
                nothing = pa.scalar(None, pa.string())
                filled = {
                    "format": pa.repeat(pa.scalar(self.name), n),
                    "file": files.take(pa.array(places.file_index[record])),
                    "file_index": pa.array(places.file_index[record], pa.int32()),
                    "offset": pa.array(places.offset[record], pa.int64()),
                    "length": pa.array(places.length[record], pa.int64()),
                    "offset_unit": pa.repeat(pa.scalar(str(OffsetUnit.BYTE)), n),
                    "record_type": batch["record_type"],
                    "kind": pa.repeat(pa.scalar(str(Kind.CHANGE)), n),
                    "operation": batch["operation"],
                    "position": batch["position"],
                    "commit_position": commits.take(pa.array(owner)),
                    "transaction_id": ids.take(pa.array(owner)),
                    "schema_name": schemas.take(version),
                    "table_name": tables.take(version),
                    "table_version": versions.take(version),
                    "changed_columns": batch["changed_columns"],
                    "before": batch["before"],
                    "after": batch["after"],
                    "headers": batch["headers"],
                    "source_events": _source_events(record, other, places),
                    "outcome": labels.take(pa.array(np.where(gone, 3, outcomes[owner]))),
                    "committed_at": ends.take(pa.array(owner)),
                    "change_source": pa.compute.if_else(updates, str(ChangeSource.IMAGES), nothing),
                }
                columns = [filled[f.name] if f.name in filled else pa.nulls(n, f.type) for f in model.CHANGES]
                writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=model.CHANGES))
                done += n

    def _write_transactions(self, path: Path, places: Places, owners: npt.NDArray[np.int32]) -> None:
        owned = owners >= 0
        sizes = np.zeros(len(self.transactions), np.int64)
        np.add.at(sizes, owners[owned], places.length[owned])
        with pq.ParquetWriter(path, model.TRANSACTIONS, compression="zstd") as writer:
            for start in range(0, len(self.transactions), _BATCH):
                rows = [
                    {
                        "transaction_id": t.transaction_id,
                        "begin_position": t.begin_position,
                        "end_position": t.end_position,
                        "began_at": t.began_at,
                        "ended_at": t.ended_at,
                        "outcome": str(_OUTCOMES[t.outcome] if t.has_begin else Outcome.OPEN),
                        "completeness": str(t.completeness),
                        "changes": sorted(t.changes.items()),
                        "tables": sorted(t.tables),
                        "bytes": int(size),
                        "user": t.user,
                    }
                    for t, size in zip(
                        self.transactions[start : start + _BATCH], sizes[start : start + _BATCH], strict=True
                    )
                ]
                writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=model.TRANSACTIONS))

    def _write_versions(self, path: Path, places: Places) -> None:
        rows = [
            {
                "table_version": v.table_version,
                "schema_name": v.schema_name,
                "table_name": v.table_name,
                "first_position": v.first_position,
                "first_event": {
                    "file_index": int(places.file_index[v.record]),
                    "offset": int(places.offset[v.record]),
                    "length": int(places.length[v.record]),
                },
                "columns": v.columns,
                "origin": "record",
                "schema_text": v.schema_text,
                "lineage": None,
            }
            for v in self.versions
        ]
        pq.write_table(pa.Table.from_pylist(rows, schema=model.TABLE_VERSIONS), path, compression="zstd")


def _source_events(record: npt.NDArray[np.int64], other: npt.NDArray[np.int64], places: Places) -> pa.Array:
    """The events of each change in capture order: one, or the two halves of an update."""
    pairs = np.stack([record, other], axis=1)
    is_pair = other >= 0
    pairs[is_pair] = np.sort(pairs[is_pair], axis=1)
    wanted = np.stack([np.ones(len(record), bool), is_pair], axis=1)
    flat = pairs[wanted]
    events = pa.StructArray.from_arrays(
        [
            pa.array(places.file_index[flat], pa.int32()),
            pa.array(places.offset[flat], pa.int64()),
            pa.array(places.length[flat], pa.int64()),
        ],
        fields=list(model.SOURCE_EVENT),
    )
    offsets = np.concatenate([[0], np.cumsum(1 + is_pair)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), events)
