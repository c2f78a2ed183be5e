"""A database at work, described without any wire format: the events that happen, in the order in which a log would
hold them.

:class:`Workload` keeps a small part of every table in memory (rows that are updated and deleted are rows that are
there, and a row that one open transaction has touched is left alone by the others), so the stream can be replayed. It
is seeded and streams: memory does not grow with the number of changes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import accumulate, cycle, repeat
from random import Random
from typing import Final

from cdcwb_synth.catalogue import tables
from cdcwb_synth.events import (
    Begin,
    Commit,
    Delete,
    Event,
    Failure,
    Idle,
    Insert,
    Load,
    Rollback,
    Row,
    Savepoint,
    Schema,
    Transaction,
    Truncate,
    Undo,
    Update,
)
from cdcwb_synth.options import Options
from cdcwb_synth.parts import WHOLE, Part
from cdcwb_synth.state import LiveRow, OpenTransaction, TableState
from cdcwb_synth.values import Column, Value, pool

__all__ = ["Workload"]

_LIVE_ROWS: Final = 5000  # of every table; more are left in peace, as most rows of a database are
_POOL: Final = 1500  # values to draw from, for every column
_POOL_PER_CHANGE: Final = 16  # or so many for each change of an average table, if these are fewer


class Workload:
    """``changes`` changes (undone ones and those of rolled back transactions included) under the given options.

    ``first`` are the first versions of the tables. Iterate over :meth:`events` once. ``schema_kinds`` are the kinds of
    schema changes, in turn (:data:`cdcwb_synth.catalogue.KINDS`; none: every table goes its own way); ``loaded`` is how
    many rows every table has before anything happens, each told as a :class:`Load`. ``part``: where keys and the
    numbers of transactions begin, and the latest time.
    """

    def __init__(
        self, options: Options, changes: int, seed: int, *, schema_kinds: Sequence[str] = (), loaded: int = 0,
        part: Part = WHOLE,
    ) -> None:  # fmt: skip
        self.options = options
        self.changes = changes
        self._kinds: Iterator[str | None] = cycle(schema_kinds) if schema_kinds else repeat(None)
        self._loaded = loaded
        self.first = tables(options.tables, options.columns, options.all_types)
        self._rng = Random(seed)
        self._value_rng = Random(self._rng.getrandbits(64))
        self._now = options.start_time
        self._done = 0
        self._until = part.until
        self._ordinal = part.numbers(4)  # at most half of the transactions are empty
        self._open: list[OpenTransaction] = []
        self._ids: list[int] = []  # ended transactions' ids, to be given out again
        self._next_id = 23 if options.reuse_ids else 23 + part.numbers(4)
        self._states = [TableState(version, self._drawer, part.first_key) for version in self.first]
        weights = [1 / (1 + index) for index in range(options.tables)]  # the first tables are the busy ones
        if options.all_types:
            weights.append(sum(weights) * options.all_types_share / max(1e-9, 1 - options.all_types_share))
        self._weights = list(accumulate(weights))

    def _drawer(self, state: TableState, column: Column) -> Callable[[], Value]:
        """The function that gives new values for a column."""
        if column.holds == "key":
            return state.new_key
        if column.holds == "now":
            return lambda: self._now.replace(tzinfo=None)
        per_table = _POOL_PER_CHANGE * self.changes // len(self.first)
        size = min(_POOL, max(20, min(self.changes, per_table)))
        edges, values = pool(column, self._value_rng, size, self.options.charset, self.options.null_share)
        edges.reverse()
        random, count = self._value_rng.random, len(values)
        return lambda: edges.pop() if edges else values[int(random() * count)]

    def events(self) -> Iterator[Event]:
        """Everything that happens, in log order."""
        for state in self._states:
            yield Schema(state.version)
            for _ in range(self._loaded):
                yield self._load(state)
        due = self._calendar()
        rng, options = self._rng, self.options
        acting: OpenTransaction | None = None
        while self._done < self.changes:
            self._tick(rng.expovariate(options.rate))
            while due and due[-1][0] <= self._done:
                _, what, patience = due.pop()
                if patience and not self._may(what):
                    due.append((self._done + 1, what, patience - 1))  # all tables are busy: wait for a change or two
                    due.sort(reverse=True)
                    continue
                yield from self._special(what)
                if self._done >= self.changes:
                    break
            if self._done >= self.changes:
                break
            if not self._open or (len(self._open) < options.concurrency and rng.random() < 0.3):
                acting = self._begin()
                yield Begin(acting.facts, self._now)
            elif acting is None or acting.has_ended or rng.random() < 0.4:
                acting = self._open[int(rng.random() * len(self._open))]
            if acting.left <= 0:
                yield self._end(acting)
            else:
                yield self._work(acting)
        for _, what, _ in reversed(due):
            if what in ("idle", "repeat", "failure"):
                yield from self._special(what)
        yield from self._finish()

    @property
    def now(self) -> datetime:
        """The time (UTC) of the event that was handed out last."""
        return self._now

    @property
    def done(self) -> int:
        """How many changes have happened."""
        return self._done

    def _load(self, state: TableState) -> Load:
        row = LiveRow(tuple([draw() for draw in state.drawers]), state.version.number)
        if len(state.rows) < _LIVE_ROWS:
            state.add(row)
        return Load(state.version, row.values)

    def _tick(self, seconds: float) -> None:
        self._now += timedelta(microseconds=10 * int(seconds * 100_000))
        if self._until is not None and self._now > self._until:
            self._now = self._until

    def _calendar(self) -> list[tuple[int, str, int]]:
        """What happens beside the ordinary work: after how many changes, what, and how many changes it can wait for a
        table that nobody uses. The next one last."""
        options, n, rng = self.options, self.changes, self._rng
        due = [((i + 1) * n // (options.schema_changes + 1), "schema") for i in range(options.schema_changes)]
        due += [((i + 1) * n // (options.repeat_schemas + 1), "repeat") for i in range(options.repeat_schemas)]
        due += [(rng.randint(n // 3, max(n // 3, n - 1)), "truncate") for _ in range(options.truncates)]
        due += [(rng.randint(0, n), "failure") for _ in range(options.errors)]
        if options.with_timeouts:
            due += [(rng.randint(0, n), "idle") for _ in range(max(2, n // 500))]
        return sorted(((moment, what, 500) for moment, what in due), reverse=True)

    def _free(self) -> list[TableState]:
        """Tables that no open transaction has touched."""
        busy = {state for one in self._open for state in one.states}
        return [s for s in self._states if s not in busy]

    def _may(self, what: str) -> bool:
        if what == "truncate":
            return bool(self._free())
        return what != "schema" or bool(set(self._free()) & set(self._states[: self.options.tables]))

    def _special(self, what: str) -> Iterator[Event]:
        rng = self._rng
        if what == "schema":
            ordinary = self._states[: self.options.tables]
            free = [s for s in self._free() if s in ordinary]
            state = rng.choice(free or ordinary)
            state.evolve(next(self._kinds))
            yield Schema(state.version)
        elif what == "repeat":
            for state in self._states:
                yield Schema(state.version)
        elif what == "idle":
            self._tick(5)
            yield Idle()
        elif what == "failure":
            is_fatal = rng.random() < 0.25
            yield Failure(is_fatal)
            if is_fatal:  # a new session begins, which sends the schemas again
                yield from self._special("repeat")
        elif free := self._free():
            yield from self._truncate(rng.choice(free))

    def _truncate(self, state: TableState) -> Iterator[Event]:
        """A transaction of its own, as the server wants it; a quarter of them are rolled back."""
        one = self._begin()
        yield Begin(one.facts, self._now)
        self._done += 1
        yield Truncate(one.facts, state.version)
        if self._rng.random() < 0.25:
            self._close(one)
            yield Rollback(one.facts)
        else:
            for row in state.rows:
                row.slot = -1
            state.rows.clear()
            self._close(one)
            yield Commit(one.facts, self._now)

    def _begin(self) -> OpenTransaction:
        rng, options = self._rng, self.options
        if self._ids and options.reuse_ids:
            number = self._ids.pop(int(rng.random() * len(self._ids)))
        else:
            number = self._next_id
            self._next_id += 1
        facts = Transaction(
            self._ordinal, number, 2001 + int(rng.random() * 12), self._ordinal >= options.missing_begins
        )
        self._ordinal += 1
        size = 1 + int(rng.expovariate(1 / max(0.001, options.transaction_size - 1)))
        if rng.random() < 0.002:
            size *= 40
        if facts.captured_begin and rng.random() < options.empty_share:
            size = 0
        one = OpenTransaction(facts, size, rng.random() < options.undo_share)
        if one.uses_savepoints:
            one.left = max(one.left, 4)
        self._open.append(one)
        return one

    def _close(self, one: OpenTransaction) -> None:
        for row in one.locked:
            row.owner = None
        one.has_ended = True
        self._open.remove(one)
        self._ids.append(one.facts.number)

    def _end(self, one: OpenTransaction) -> Event:
        if self._rng.random() < self.options.rollback_share:
            one.take_back(0)
            self._close(one)
            return Rollback(one.facts)
        self._close(one)
        return Commit(one.facts, self._now)

    def _work(self, one: OpenTransaction) -> Event:
        rng = self._rng
        if one.uses_savepoints:
            chance = rng.random()
            if not one.savepoints or chance < 0.05:
                if chance < 0.5:
                    one.savepoints.append(len(one.log))
                    return Savepoint(one.facts, len(one.savepoints) - 1)
            elif chance < 0.3 and (len(one.log) > one.savepoints[-1] or rng.random() < 0.05):
                number = int(rng.random() ** 0.3 * len(one.savepoints))  # mostly the latest
                one.take_back(one.savepoints[number])
                del one.savepoints[number + 1 :]  # savepoints that were set later are gone
                if rng.random() < 0.8:
                    one.left = max(one.left, 1)
                return Undo(one.facts, number)
        one.left -= 1
        self._done += 1
        return self._change(one)

    def _change(self, one: OpenTransaction) -> Event:
        rng, options = self._rng, self.options
        spot = rng.random() * self._weights[-1]
        state = self._states[min(bisect_right(self._weights, spot), len(self._states) - 1)]
        kind = rng.random()
        row = self._pick(state, one.facts) if kind < options.update_share + options.delete_share else None
        if row is None:
            row = LiveRow(tuple([draw() for draw in state.drawers]), state.version.number)
            one.touch(state, "insert", row)
            state.add(row)
            if len(state.rows) > _LIVE_ROWS:
                other = state.rows[int(rng.random() * len(state.rows))]
                if other.owner is None:
                    state.remove(other)
            return Insert(one.facts, state.version, row.values)
        before = state.current(row)
        if kind < options.update_share:
            one.touch(state, "update", row)
            row.values = self._edited(state, before)
            return Update(one.facts, state.version, before, row.values, rng.random() < options.reversed_updates)
        one.touch(state, "delete", row)
        state.remove(row)
        return Delete(one.facts, state.version, before)

    def _pick(self, state: TableState, transaction: Transaction) -> LiveRow | None:
        rows, random = state.rows, self._rng.random
        for _ in range(8 if rows else 0):
            row = rows[int(random() * len(rows))]
            if row.owner is None or row.owner is transaction:
                return row
        return None

    def _edited(self, state: TableState, before: Row) -> Row:
        rng = self._rng
        if rng.random() < self.options.idle_updates:
            return before
        after = list(before)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            column = rng.choice(state.others)
            after[column] = state.drawers[column]()
        if rng.random() < 0.01:
            after[state.key] = state.new_key()
        return tuple(after)

    def _finish(self) -> Iterator[Event]:
        """End the open transactions but for the wanted number, and see to it that this many are left."""
        wanted = self.options.open_transactions
        while len(self._open) > wanted:
            yield self._end(self._open[int(self._rng.random() * len(self._open))])
        while len(self._open) < wanted:
            one = self._begin()
            yield Begin(one.facts, self._now)
