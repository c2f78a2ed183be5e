"""What really happened in a generated capture, collected while it is made.

What is only known later (where records end up in the files, how transactions end, what is undone) is kept as numbers
and put in when everything is written (:mod:`cdcwb_synth.truth_files`); the rows themselves wait in an Arrow file, so
memory stays small.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from cdcwb_synth.model import Completeness, Operation, Outcome

__all__ = ["BATCH", "OUTCOMES", "TransactionTruth", "Truth", "VersionTruth"]

BATCH: Final = 50_000
"""Rows that are written together."""

OUTCOMES: Final = (Outcome.OPEN, Outcome.COMMITTED, Outcome.ROLLED_BACK, Outcome.UNDONE)
"""Outcomes by number."""

_MAP: Final = pa.map_(pa.string(), pa.string())


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
    outcome: int = 0  # index into OUTCOMES, as its end says
    changes: dict[str, int] = field(default_factory=dict)
    tables: set[str] = field(default_factory=set)
    rows: list[int] = field(default_factory=list)  # its changes, while it is open
    savepoints: dict[int, int] = field(default_factory=dict)  # number: how many changes it had then

    @property
    def completeness(self) -> Completeness:
        """How much of it the capture holds."""
        if not self.has_begin:
            return Completeness.NO_BEGIN
        return Completeness.NO_END if self.end_position is None else Completeness.COMPLETE


@dataclass(slots=True)
class VersionTruth:
    """One version of a table. ``record`` is the number of the record that brought it (-1: none of
    this part of the capture); ``columns`` as in
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
    """Collects the truth of one capture of format ``name``; ``folder`` holds a temporary file meanwhile.

    ``transactions`` and ``versions`` are in stream order. The arrays ``record``, ``other``, ``owner`` and ``undone``
    have one number for every change, in stream order; the rest of the changes is in the Arrow file ``path``.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.transactions: list[TransactionTruth] = []
        self.versions: list[VersionTruth] = []
        self.record = array("q")  # of every change: the record whose place it has
        self.other = array("q")  # the other half's record, -1: none
        self.owner = array("i")  # index into transactions
        self.undone = bytearray()
        self.path = folder / "changes.arrow"
        self._waiting = pa.ipc.new_file(self.path, _WAITING)
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
        return len(self.record)

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
        row = len(self.record)
        self.record.append(record)
        self.other.append(other)
        self.owner.append(owner)
        self.undone.append(0)
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
        if len(self._types) >= BATCH:
            self._flush()
        return row

    def other_half(self, row: int, record: int) -> None:
        """Say which record is the other half of the update ``row``."""
        self.other[row] = record

    def undo(self, owner: int, savepoint: int) -> None:
        """Take back the changes that the transaction ``owner`` made since its ``savepoint``."""
        transaction = self.transactions[owner]
        for row in transaction.rows[transaction.savepoints.get(savepoint, 0) :]:
            self.undone[row] = 1

    def end(self, owner: int, outcome: Outcome, position: str, at: datetime | None) -> None:
        """End the transaction ``owner`` by a commit (which has a time) or a rollback."""
        transaction = self.transactions[owner]
        transaction.outcome = OUTCOMES.index(outcome)
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
        """Complete the temporary file; nothing can be added afterwards. A second call does nothing."""
        if self._types:
            self._flush()
        self._waiting.close()
