"""A database at work, described without any wire format: what happens, in the order in which a log would hold it.

:class:`Workload` keeps a small part of every table in memory (rows that are updated and deleted are rows that exist,
and a row that one open transaction has touched is left alone by the others), so the stream can be replayed. It is
seeded and streams: memory does not grow with the number of changes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import accumulate, count, cycle
from random import Random
from typing import Any, Final

from cdcwb_synth.catalogue import TableVersion, reshape, tables
from cdcwb_synth.model import Operation
from cdcwb_synth.options import Options, listed
from cdcwb_synth.values import Column, Value, pool

_LIVE_ROWS: Final = 5000  # of every table; more are left alone, as most rows of a database are
_POOL: Final = 1500  # values to draw from, for every column
_POOL_PER_CHANGE: Final = 16  # or so many for each change of an average table, if these are fewer
_EMPTY: Final = 0.005  # share of the transactions without a change
_IDLE_UPDATES: Final = 0.01  # share of the updates that change no value
_FIRST_ID: Final = 23

Row = tuple[Value, ...]
"""Values (:mod:`cdcwb_synth.values`) in the column order of the table version they come with."""


@dataclass(frozen=True, slots=True, eq=False)
class SourceTransaction:
    """A transaction: ``ordinal`` counts from 0 in begin order, ``number`` is the id its source gives it (and gives
    again later), ``user`` who runs it. ``captured_begin`` is false where it began before the capture."""

    ordinal: int
    number: int
    user: int
    captured_begin: bool


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """The columns of a table are announced: at the start, when they change, or once more."""

    version: TableVersion
    at: datetime


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """A row changes; None: there is no such row. A REFRESH is a row that was there before the capture began, and has no
    transaction. ``is_reversed``: the source delivers the after image of an update first; ``is_late``: it delivers the
    change after the next one of its transaction. ``number`` counts the changes of the workload from 1; 0: none of
    them."""

    operation: Operation
    version: TableVersion
    before: Row | None
    after: Row | None
    at: datetime
    transaction: SourceTransaction | None = None
    is_reversed: bool = False
    is_late: bool = False
    number: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """A step of a transaction. ``what``: ``begin``, ``commit``, ``rollback``, ``savepoint`` (``number`` counts them
    from 0) or ``undo`` (all changes since the savepoint ``number``, which stays)."""

    what: str
    transaction: SourceTransaction
    at: datetime
    number: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Notice:
    """What the source says besides: ``idle`` (nothing happened for a while), ``error``, or ``fatal``, after which
    nothing more can be read from this session."""

    what: str


@dataclass(slots=True, eq=False)
class Committed:
    """A transaction with all the changes that it committed ``at`` some time, in their order; ``ordinal`` is unique."""

    ordinal: int
    at: datetime
    changes: list[Change]


Event = Schema | Change | Step | Notice


@dataclass(slots=True, eq=False)
class _LiveRow:
    """The present row in the columns of the table's version ``version``."""

    values: Row
    version: int
    owner: SourceTransaction | None = None  # the open transaction that has touched it
    slot: int = -1  # its index among the live rows, -1: not among them


class _Table:
    """The present state of a table: its version in force, its live rows, and how new values are drawn."""

    def __init__(self, version: TableVersion, drawer: Callable[[_Table, Column], Callable[[], Value]]) -> None:
        self.version = version
        self.rows: list[_LiveRow] = []
        self.new_key = count(1).__next__
        self._origins: list[tuple[int | None, ...]] = []  # from version n to n + 1
        self._drawer = drawer
        self._draw: dict[str, Callable[[], Value]] = {}
        self._arrange()

    def _arrange(self) -> None:
        columns = self.version.columns
        self.key = self.version.key
        self.others = [i for i in range(len(columns)) if i != self.key] or [self.key]
        for column in columns:
            if column.name not in self._draw:
                self._draw[column.name] = self._drawer(self, column)
        self.drawers = [self._draw[c.name] for c in columns]

    def change_columns(self, kind: str) -> None:
        """Continues with the table's next version; rows follow when they are next touched."""
        self.version = reshape(self.version, kind)
        self._origins.append(self.version.origin)
        self._arrange()

    def current(self, row: _LiveRow) -> Row:
        """The row's values in the columns of the version in force."""
        for origin in self._origins[row.version - 1 :]:
            row.values = tuple(None if old is None else row.values[old] for old in origin)
        row.version = self.version.number
        return row.values

    def draw_row(self) -> _LiveRow:
        return _LiveRow(tuple([draw() for draw in self.drawers]), self.version.number)

    def add(self, row: _LiveRow) -> None:
        row.slot = len(self.rows)
        self.rows.append(row)

    def remove(self, row: _LiveRow) -> None:
        last = self.rows.pop()
        if last is not row:
            self.rows[row.slot] = last
            last.slot = row.slot
        row.slot = -1


@dataclass(slots=True, eq=False)
class _Open:
    """An open transaction: what is left to do, and how to take back what was done."""

    facts: SourceTransaction
    left: int
    uses_savepoints: bool
    log: list[tuple[_Table, Operation, _LiveRow, Row, int]] = field(default_factory=list)
    savepoints: list[int] = field(default_factory=list)  # length of the log at each
    locked: list[_LiveRow] = field(default_factory=list)
    states: set[_Table] = field(default_factory=set)
    has_ended: bool = False

    def touch(self, state: _Table, operation: Operation, row: _LiveRow) -> None:
        """Remember a row before it is changed, and keep the others away from it."""
        self.log.append((state, operation, row, row.values, row.version))
        self.states.add(state)
        if row.owner is None:
            row.owner = self.facts
            self.locked.append(row)

    def take_back(self, to: int) -> None:
        """Put the rows back as they were when the log had ``to`` entries."""
        while len(self.log) > to:
            state, operation, row, values, version = self.log.pop()
            if operation is Operation.INSERT:
                state.remove(row)
                continue
            row.values, row.version = values, version
            if operation is Operation.DELETE:
                state.add(row)


class Workload:
    """``changes`` changes (undone ones and those of rolled back transactions included) under the given options, of
    which only gbase8s has charset, reversed_updates, missing_begins and errors.

    ``first`` are the first versions of the tables; ``loaded`` is how many rows every table has before anything happens.
    Iterate over :meth:`events` once. ``now`` is the time (UTC) of the latest event, ``done`` how many changes have
    happened.
    """

    def __init__(self, options: Options, changes: int, seed: int, *, loaded: int = 0) -> None:
        self.options, self.changes, self._loaded = options, changes, loaded
        self._charset: str = getattr(options, "charset", "utf-8")
        self._reversed: float = getattr(options, "reversed_updates", 0.0)
        self._missing_begins: int = getattr(options, "missing_begins", 0)
        self._errors: int = getattr(options, "errors", 0)
        self._kinds = cycle(listed(options.schema_kinds))
        self.first = tables(options.tables, options.columns, options.all_types)
        self._rng = Random(seed)
        self._value_rng = Random(self._rng.getrandbits(64))
        self.now = options.start_time
        self.done = 0
        self._ordinal = 0
        self._open: list[_Open] = []
        self._ids: list[int] = []  # ended transactions' ids, to be given out again
        self._new_ids = count(_FIRST_ID)
        self._states = [_Table(version, self._drawer) for version in self.first]
        weights = [1 / (1 + index) for index in range(options.tables)]  # the first tables are the busy ones
        if options.all_types:
            weights.append(sum(weights) * options.all_types_share / max(1e-9, 1 - options.all_types_share))
        self._weights = list(accumulate(weights))

    def _drawer(self, state: _Table, column: Column) -> Callable[[], Value]:
        """The function that gives new values for a column."""
        if column.holds == "key":
            return state.new_key
        if column.holds == "now":
            return lambda: self.now.replace(tzinfo=None)
        per_table = _POOL_PER_CHANGE * self.changes // len(self.first)
        size = min(_POOL, max(20, min(self.changes, per_table)))
        edges, values = pool(column, self._value_rng, size, self._charset, self.options.null_share)
        edges.reverse()
        random, size = self._value_rng.random, len(values)
        return lambda: edges.pop() if edges else values[int(random() * size)]

    @staticmethod
    def history(events: Iterable[Event]) -> Iterator[Schema | Change | Committed]:
        """What products that deliver committed work only see: new versions of tables and rows of the full load as they
        come, and transactions in the order of their commits, without work that was taken back. Only the changes of
        transactions that are open are kept meanwhile."""
        active: dict[int, tuple[list[Change], dict[int, int]]] = {}  # changes, and how many there were at savepoints
        for event in events:
            match event:
                case Schema() | Change(transaction=None):
                    yield event
                case Change(transaction=SourceTransaction(ordinal)):
                    active[ordinal][0].append(event)
                case Step("begin", SourceTransaction(ordinal)):
                    active[ordinal] = [], {}
                case Step("savepoint", SourceTransaction(ordinal), _, number):
                    active[ordinal][1][number] = len(active[ordinal][0])
                case Step("undo", SourceTransaction(ordinal), _, number):
                    changes, savepoints = active[ordinal]
                    del changes[savepoints[number] :]
                case Step("rollback", SourceTransaction(ordinal)):
                    del active[ordinal]
                case Step("commit", SourceTransaction(ordinal), at):
                    yield Committed(ordinal, at, active.pop(ordinal)[0])

    def events(self) -> Iterator[Event]:
        """Everything that happens, in log order."""
        for state in self._states:
            yield Schema(state.version, self.now)
            for _ in range(self._loaded):
                row = state.draw_row()
                if len(state.rows) < _LIVE_ROWS:
                    state.add(row)
                yield Change(Operation.REFRESH, state.version, None, row.values, self.now)
        due = self._calendar()
        rng, options = self._rng, self.options
        acting: _Open | None = None
        while self.done < self.changes:
            self._tick(rng.expovariate(options.rate))
            while due and due[-1][0] <= self.done < self.changes:
                _, what, patience = due.pop()
                if patience and what in ("schema", "truncate") and not self._free(what):
                    due.append((self.done + 1, what, patience - 1))  # all tables are busy: wait for a change or two
                    due.sort(reverse=True)
                else:
                    yield from self._special(what)
            if self.done >= self.changes:
                break
            if not self._open or (len(self._open) < options.concurrency and rng.random() < 0.3):
                acting = self._begin()
                yield Step("begin", acting.facts, self.now)
            elif acting is None or acting.has_ended or rng.random() < 0.4:
                acting = self._any(self._open)
            yield self._end(acting) if acting.left <= 0 else self._work(acting)
        for _, what, _ in reversed(due):
            if what in ("idle", "failure"):
                yield from self._special(what)
        while len(self._open) > options.open_transactions:
            yield self._end(self._any(self._open))
        while len(self._open) < options.open_transactions:
            yield Step("begin", self._begin().facts, self.now)

    def _any(self, some: list[Any]) -> Any:
        return some[int(self._rng.random() * len(some))]

    def _tick(self, seconds: float) -> None:
        self.now += timedelta(microseconds=10 * int(seconds * 100_000))

    def _calendar(self) -> list[tuple[int, str, int]]:
        """What happens beside the ordinary work: after how many changes, what, and how many changes it can wait for a
        table that nobody uses. The next one last."""
        options, n, rng = self.options, self.changes, self._rng
        due = [((i + 1) * n // (options.schema_changes + 1), "schema") for i in range(options.schema_changes)]
        due += [(rng.randint(n // 3, max(n // 3, n - 1)), "truncate") for _ in range(options.truncates)]
        due += [(rng.randint(0, n), "failure") for _ in range(self._errors)]
        due += [(rng.randint(0, n), "idle") for _ in range(max(2, n // 500))]
        return sorted(((moment, what, 500) for moment, what in due), reverse=True)

    def _free(self, what: str) -> list[_Table]:
        """Tables that no open transaction has touched; only ordinary tables change their columns."""
        busy = {state for one in self._open for state in one.states}
        return [s for s in self._states[: self.options.tables if what == "schema" else None] if s not in busy]

    def _special(self, what: str) -> Iterator[Event]:
        rng = self._rng
        if what == "schema":
            state = rng.choice(self._free(what) or self._states[: self.options.tables])
            state.change_columns(next(self._kinds))
            yield Schema(state.version, self.now)
        elif what == "idle":
            self._tick(5)
            yield Notice("idle")
        elif what == "failure":
            is_fatal = rng.random() < 0.25
            yield Notice("fatal" if is_fatal else "error")
            if is_fatal:  # a new session begins, which sends the schemas again
                for state in self._states:
                    yield Schema(state.version, self.now)
        elif free := self._free(what):
            yield from self._truncate(rng.choice(free))

    def _truncate(self, state: _Table) -> Iterator[Event]:
        """A transaction of its own, as the server wants it; a quarter of them are rolled back."""
        one = self._begin()
        yield Step("begin", one.facts, self.now)
        self.done += 1
        yield Change(Operation.TRUNCATE, state.version, None, None, self.now, one.facts, number=self.done)
        what = "rollback" if self._rng.random() < 0.25 else "commit"
        if what == "commit":
            for row in state.rows:
                row.slot = -1
            state.rows.clear()
        yield self._close(one, what)

    def _begin(self) -> _Open:
        rng = self._rng
        number = self._ids.pop(int(rng.random() * len(self._ids))) if self._ids else next(self._new_ids)
        is_captured = self._ordinal >= self._missing_begins
        facts = SourceTransaction(self._ordinal, number, 2001 + int(rng.random() * 12), is_captured)
        self._ordinal += 1
        size = 1 + int(rng.expovariate(1 / max(0.001, self.options.transaction_size - 1)))
        size *= 40 if rng.random() < 0.002 else 1
        if is_captured and rng.random() < _EMPTY:
            size = 0
        uses_savepoints = rng.random() < self.options.undo_share
        one = _Open(facts, max(size, 4) if uses_savepoints else size, uses_savepoints)
        self._open.append(one)
        return one

    def _close(self, one: _Open, what: str) -> Step:
        for row in one.locked:
            row.owner = None
        one.has_ended = True
        self._open.remove(one)
        self._ids.append(one.facts.number)
        return Step(what, one.facts, self.now)

    def _end(self, one: _Open) -> Step:
        what = "rollback" if self._rng.random() < self.options.rollback_share else "commit"
        if what == "rollback":
            one.take_back(0)
        return self._close(one, what)

    def _work(self, one: _Open) -> Event:
        rng = self._rng
        if one.uses_savepoints:
            chance = rng.random()
            if not one.savepoints or chance < 0.05:
                if chance < 0.5:
                    one.savepoints.append(len(one.log))
                    return Step("savepoint", one.facts, self.now, len(one.savepoints) - 1)
            elif chance < 0.3 and (len(one.log) > one.savepoints[-1] or rng.random() < 0.05):
                number = int(rng.random() ** 0.3 * len(one.savepoints))  # mostly the latest
                one.take_back(one.savepoints[number])
                del one.savepoints[number + 1 :]  # savepoints that were set later are gone
                if rng.random() < 0.8:
                    one.left = max(one.left, 1)
                return Step("undo", one.facts, self.now, number)
        one.left -= 1
        self.done += 1
        return self._change(one)

    def _change(self, one: _Open) -> Change:
        rng, options = self._rng, self.options
        index = bisect_right(self._weights, rng.random() * self._weights[-1])
        state = self._states[min(index, len(self._states) - 1)]
        kind = rng.random()
        row = self._pick(state, one.facts) if kind < options.update_share + options.delete_share else None
        if row is None:
            row = state.draw_row()
            one.touch(state, Operation.INSERT, row)
            state.add(row)
            if len(state.rows) > _LIVE_ROWS:
                other = self._any(state.rows)
                if other.owner is None:
                    state.remove(other)
            return Change(Operation.INSERT, state.version, None, row.values, self.now, one.facts, number=self.done)
        before, after, operation, is_reversed = state.current(row), None, Operation.DELETE, False
        one.touch(state, Operation.UPDATE if kind < options.update_share else operation, row)
        if kind < options.update_share:
            operation = Operation.UPDATE
            row.values = after = self._edited(state, before)
            is_reversed = rng.random() < self._reversed
        else:
            state.remove(row)
        return Change(operation, state.version, before, after, self.now, one.facts, is_reversed, number=self.done)

    def _pick(self, state: _Table, transaction: SourceTransaction) -> _LiveRow | None:
        for _ in range(8 if state.rows else 0):
            row: _LiveRow = self._any(state.rows)
            if row.owner is None or row.owner is transaction:
                return row
        return None

    def _edited(self, state: _Table, before: Row) -> Row:
        rng = self._rng
        if rng.random() < _IDLE_UPDATES:
            return before
        after: list[Any] = list(before)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            column = rng.choice(state.others)
            after[column] = state.drawers[column]()
        if rng.random() < 0.01:
            after[state.key] = state.new_key()
        return tuple(after)
