"""What products that deliver committed work only see of a workload: the rows of the full load, and transactions when
they commit.

Rolled back work, work that was taken back to a savepoint and transactions without an end are not in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from cdcwb_synth.catalogue import TableVersion
from cdcwb_synth.events import (
    Begin,
    Commit,
    Delete,
    Insert,
    Load,
    Rollback,
    Row,
    Savepoint,
    Schema,
    Truncate,
    Undo,
    Update,
)
from cdcwb_synth.model import Operation
from cdcwb_synth.workload import Workload

__all__ = ["Change", "Committed", "history"]


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """A change as it was made ``at`` some time: rows in the column order of ``version``, None if there is none."""

    operation: Operation
    version: TableVersion
    before: Row | None
    after: Row | None
    at: datetime


@dataclass(slots=True, eq=False)
class Committed:
    """A transaction with all the changes that it committed ``at`` some time, in their order; ``ordinal`` is unique."""

    ordinal: int
    at: datetime
    changes: list[Change]


@dataclass(slots=True)
class _Open:
    changes: list[Change] = field(default_factory=list)
    marks: dict[int, int] = field(default_factory=dict)  # savepoint: how many changes there were


def history(workload: Workload) -> Iterator[Schema | Load | Committed]:
    """New versions of tables and rows of the full load as they come, and transactions in the order of their commits.

    Only the changes of transactions that are open are kept meanwhile.
    """
    active: dict[int, _Open] = {}
    for event in workload.events():
        match event:
            case Schema() | Load():
                yield event
            case Begin():
                active[event.transaction.ordinal] = _Open()
            case Savepoint():
                one = active[event.transaction.ordinal]
                one.marks[event.number] = len(one.changes)
            case Undo():
                one = active[event.transaction.ordinal]
                del one.changes[one.marks[event.number] :]
            case Rollback():
                del active[event.transaction.ordinal]
            case Commit():
                changes = active.pop(event.transaction.ordinal).changes
                yield Committed(event.transaction.ordinal, event.at, changes)
            case Insert() | Update() | Delete() | Truncate():
                active[event.transaction.ordinal].changes.append(_change(event, workload.now))
            case _:  # idle markers and errors of the source's own interface
                pass


def _change(event: Insert | Update | Delete | Truncate, at: datetime) -> Change:
    match event:
        case Insert():
            return Change(Operation.INSERT, event.version, None, event.after, at)
        case Update():
            return Change(Operation.UPDATE, event.version, event.before, event.after, at)
        case Delete():
            return Change(Operation.DELETE, event.version, event.before, None, at)
        case Truncate():
            return Change(Operation.TRUNCATE, event.version, None, None, at)
