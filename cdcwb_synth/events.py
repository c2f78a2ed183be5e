"""What happens in a database, as a workload shows it: format-neutral events, one class each.

Rows are tuples of values (:mod:`cdcwb_synth.values`) in the column order of the table version they come with.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from cdcwb_synth.catalogue import TableVersion
from cdcwb_synth.values import Value

__all__ = [
    "Begin",
    "Commit",
    "Delete",
    "Event",
    "Failure",
    "Idle",
    "Insert",
    "Load",
    "Rollback",
    "Row",
    "Savepoint",
    "Schema",
    "Transaction",
    "Truncate",
    "Undo",
    "Update",
]

Row = tuple[Value, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Transaction:
    """A transaction: ``ordinal`` counts from 0 in begin order, ``number`` is the id its source gives it (and may give
    again later), ``user`` who runs it. ``captured_begin`` is false where it began before the capture."""

    ordinal: int
    number: int
    user: int
    captured_begin: bool


@dataclass(frozen=True, slots=True, eq=False)
class Begin:
    """A transaction begins (not in the capture unless ``transaction.captured_begin``)."""

    transaction: Transaction
    at: datetime


@dataclass(frozen=True, slots=True, eq=False)
class Commit:
    """A transaction commits."""

    transaction: Transaction
    at: datetime


@dataclass(frozen=True, slots=True, eq=False)
class Rollback:
    """A transaction is rolled back as a whole."""

    transaction: Transaction


@dataclass(frozen=True, slots=True, eq=False)
class Savepoint:
    """A transaction remembers where it is; ``number`` counts from 0 within the transaction."""

    transaction: Transaction
    number: int


@dataclass(frozen=True, slots=True, eq=False)
class Undo:
    """All changes of the transaction since its savepoint ``number`` are taken back; the savepoint stays."""

    transaction: Transaction
    number: int


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """A row that was there before the capture began, for sources that begin with a full load."""

    version: TableVersion
    row: Row


@dataclass(frozen=True, slots=True, eq=False)
class Insert:
    """A row appears. Rows are in the column order of ``version``."""

    transaction: Transaction
    version: TableVersion
    after: Row


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """A row changes. ``is_reversed``: the source hands out the after image before the before image."""

    transaction: Transaction
    version: TableVersion
    before: Row
    after: Row
    is_reversed: bool


@dataclass(frozen=True, slots=True, eq=False)
class Delete:
    """A row disappears."""

    transaction: Transaction
    version: TableVersion
    before: Row


@dataclass(frozen=True, slots=True, eq=False)
class Truncate:
    """All rows of a table disappear."""

    transaction: Transaction
    version: TableVersion


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """The columns of a table are announced: at the start, when they change, or once more."""

    version: TableVersion


@dataclass(frozen=True, slots=True, eq=False)
class Idle:
    """Nothing happened for a while."""


@dataclass(frozen=True, slots=True, eq=False)
class Failure:
    """The source reports an error; ``is_fatal``: nothing more can be read from this session."""

    is_fatal: bool


Event = (
    Begin | Commit | Rollback | Savepoint | Undo | Load | Insert | Update | Delete | Truncate | Schema | Idle | Failure
)  # what a workload consists of
