"""The rows that a generated database holds just now, and what its open transactions would have to take back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cdcwb_synth.catalogue import Table, TableVersion, evolve, reshape
from cdcwb_synth.events import Row, Transaction
from cdcwb_synth.values import Column, Value

__all__ = ["LiveRow", "OpenTransaction", "TableState"]


@dataclass(slots=True, eq=False)
class LiveRow:
    """The present row in the columns of the table's version ``version``."""

    values: Row
    version: int
    owner: Transaction | None = None  # the open transaction that has touched it
    slot: int = -1  # its place among the live rows, -1: not among them


class TableState:
    """The present state of a table: its version in force, its live rows, and how new values are drawn."""

    def __init__(
        self,
        version: TableVersion,
        drawer: Callable[[TableState, Column], Callable[[], Value]],
        first_key: int = 1,
    ) -> None:
        self.version = version
        self.rows: list[LiveRow] = []
        self.next_key = first_key
        self._steps: list[Callable[[Row], Row]] = []  # from version n to n + 1
        self._drawer = drawer
        self._draw: dict[str, Callable[[], Value]] = {}
        self._arrange()

    @property
    def table(self) -> Table:
        """The table by its names."""
        return self.version.table

    def _arrange(self) -> None:
        columns = self.version.columns
        self.key = next(i for i, c in enumerate(columns) if c.name == self.table.key)
        self.others = [i for i in range(len(columns)) if i != self.key] or [self.key]
        for column in columns:
            if column.name not in self._draw:
                self._draw[column.name] = self._drawer(self, column)
        self.drawers = [self._draw[c.name] for c in columns]

    def evolve(self, kind: str | None = None) -> None:
        """Continues with the table's next version; rows follow when they are next touched. ``kind``: in which way it is
        changed (:data:`cdcwb_synth.catalogue.KINDS`; None: by its number)."""
        version, origin = evolve(self.version) if kind is None else reshape(self.version, kind)
        self.version = version
        self._steps.append(lambda row: tuple(None if old is None else row[old] for old in origin))
        self._arrange()

    def current(self, row: LiveRow) -> Row:
        """The row's values in the columns of the version in force."""
        while row.version < self.version.number:
            row.values = self._steps[row.version - 1](row.values)
            row.version += 1
        return row.values

    def add(self, row: LiveRow) -> None:
        """Put a row among the live ones."""
        row.slot = len(self.rows)
        self.rows.append(row)

    def remove(self, row: LiveRow) -> None:
        """Take a row from among the live ones."""
        last = self.rows.pop()
        if last is not row:
            self.rows[row.slot] = last
            last.slot = row.slot
        row.slot = -1

    def new_key(self) -> int:
        """The next value of the key column."""
        self.next_key += 1
        return self.next_key - 1


class OpenTransaction:
    """An open transaction: what is left to do, and how to take back what was done."""

    def __init__(self, facts: Transaction, size: int, uses_savepoints: bool) -> None:
        self.facts = facts
        self.left = size
        self.uses_savepoints = uses_savepoints
        self.log: list[tuple[TableState, str, LiveRow, Row, int]] = []
        self.savepoints: list[int] = []  # length of the log at each
        self.locked: list[LiveRow] = []
        self.states: set[TableState] = set()
        self.has_ended = False

    def touch(self, state: TableState, what: str, row: LiveRow) -> None:
        """Remember a row before it is inserted, updated or deleted (``what``), and keep the others away from it."""
        self.log.append((state, what, row, row.values, row.version))
        self.states.add(state)
        if row.owner is None:
            row.owner = self.facts
            self.locked.append(row)

    def take_back(self, to: int) -> None:
        """Put the rows back as they were when the log had ``to`` entries."""
        while len(self.log) > to:
            state, what, row, values, version = self.log.pop()
            if what == "insert":
                state.remove(row)
            elif what == "delete":
                row.values, row.version = values, version
                state.add(row)
            else:
                row.values, row.version = values, version
