"""A workload as triggers log it: rows in the order of commits, damaged as logs are, in the files of a capture."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Final

from cdcwb_synth.catalogue import TableVersion
from cdcwb_synth.choices import moment
from cdcwb_synth.events import Load, Schema
from cdcwb_synth.history import Change, Committed
from cdcwb_synth.idm_event_log import times
from cdcwb_synth.idm_event_log.containers import write_rows
from cdcwb_synth.idm_event_log.contents import Contents
from cdcwb_synth.idm_event_log.damage import KINDS, damage, respell
from cdcwb_synth.idm_event_log.options import EventLogOptions
from cdcwb_synth.idm_event_log.rows import COLUMNS, LogRow, Statement
from cdcwb_synth.idm_event_log.tables import Watched
from cdcwb_synth.idm_event_log.triggers import Triggers, styles
from cdcwb_synth.idm_event_log.truth import write_changes, write_truth
from cdcwb_synth.instants import microseconds
from cdcwb_synth.model import Operation
from cdcwb_synth.parts import WHOLE, Part

__all__ = ["EventLogEncoder"]

_USERS: Final = ("SHOP_APP", "WEB", "BATCH", "RUNA", "shop app")
_PROCESSED: Final = ("S", "S", "S", "S", "W", "E", "F")
_RECORDS: Final = 20_000  # of a change, at most: two for each of a thousand columns, and gaps
_ODD: Final = ("X", "n", "P", "N ", "s", "")


class EventLogEncoder:
    """Writes a workload's history below ``folder``/capture, and the truth about it; everything at the end, since what
    becomes of a row depends on all others. ``facts`` says then what there is how many of."""

    def __init__(self, options: EventLogOptions, seed: int, folder: Path, part: Part = WHOLE) -> None:
        self._options, self._folder, self._part = options, folder, part
        self._seed = part.seed if part.is_continued else seed
        self._rng = Random(f"{seed} idm-event-log")
        self._triggers = Triggers(self._rng, options.remove_all_share)
        self._styles = styles(options.weights, options.tables + options.all_types)
        self._contents = Contents()
        self._watched: dict[tuple[int, int], Watched] = {}
        self._places: dict[int, int] = {}
        self._time = times.writer(options.time_form, options.fraction)
        self._held: Statement = []
        self._rows: list[LogRow] = []
        self._ids: list[str] = []
        self._next = options.first_record + part.numbers(_RECORDS)
        self._now = options.start_time
        is_excel = options.container == "xlsx"
        self._kinds = [kind for kind in KINDS if not (is_excel and kind == "character")]
        self._odd = [status for status in _ODD if status or not is_excel]
        self.files: list[str] = []
        self.facts: dict[str, int] = {}

    def write(self, item: Schema | Load | Committed, at: datetime, done: int) -> None:
        """Log what comes next in a history, ``at`` this time."""
        self._now = at
        match item:
            case Schema():
                self._schema(item.version)
            case Load():
                watched = self._of(item.version)
                self._contents.put(item.version, watched.key(item.row), item.row)
            case Committed():
                for change in item.changes:
                    self._change(change)

    def finish(self) -> None:
        """Write everything."""
        self._emit(self._held)
        options = self._options
        if options.shuffle > 1:
            self._rows = [row for block in self._blocks(options.shuffle) for row in block]
        number = self._part.first_file if self._part.count > 1 else None
        self.files = write_rows(self._rows, options, self._folder / "capture", number)
        if self._part.count > 1:  # what becomes of a row depends on those of all parts
            self.facts = write_changes(self._folder / "truth", self._rows, self.files, options)
            self.facts["records"] = len(self._rows)
            return
        as_of = microseconds(moment(options.as_of) if options.as_of else self._now)
        current = self._contents.current()
        self.facts = write_truth(self._folder / "truth", self._rows, self.files, current, as_of, options)
        self.facts["records"] = len(self._rows)

    def _blocks(self, size: int) -> Iterator[list[LogRow]]:
        for start in range(0, len(self._rows), size):
            block = self._rows[start : start + size]
            self._rng.shuffle(block)
            yield block

    def _schema(self, version: TableVersion) -> None:
        label = version.table.label
        index = self._places.setdefault(label, len(self._places))
        if (label, version.number) not in self._watched:
            watched = Watched(version, index, self._options, self._seed)
            self._watched[label, version.number] = watched
            self._contents.announce(watched)

    def _of(self, version: TableVersion) -> Watched:
        return self._watched[version.table.label, version.number]

    def _change(self, change: Change) -> None:
        version, watched = change.version, self._of(change.version)
        if change.operation is Operation.TRUNCATE:  # fires no trigger
            self._contents.clear(version)
            return
        if change.before is not None:
            self._contents.remove(version, watched.key(change.before))
        if change.after is not None:
            self._contents.put(version, watched.key(change.after), change.after)
        style = self._styles[self._places[version.table.label]]
        rows = self._triggers.fire(style, watched, change.before, change.after)
        if rows:
            self._dress(rows, change.at)
            self._queue(rows)

    def _dress(self, rows: Statement, at: datetime) -> None:
        """Give the rows of a statement time, user and status."""
        rng, options = self._rng, self._options
        user = None if rng.random() < options.null_user_share else rng.choice(_USERS)
        status = "N"
        chance = rng.random()
        if chance < options.processed_share:
            status = rng.choice(_PROCESSED)
        elif chance < options.processed_share + options.future_share:
            at += timedelta(minutes=rng.choice((5, 90, 1440, 20_000, 500_000)), milliseconds=rng.randrange(1000))
        elif chance < options.processed_share + options.future_share + options.loopback_share:
            user = options.driver_user if rng.random() < 0.85 else options.driver_user.swapcase()
        text, time = self._time(at)
        for row in rows:
            row.event_time, row.time, row.perpetrator, row.status = text, time, user, status
            if rng.random() < options.odd_status_share:
                row.status = rng.choice(self._odd)
        if rng.random() < options.spelling_share:
            respell(rows, rng)

    def _queue(self, rows: Statement) -> None:
        """Log a statement, mixed with the one before it where they are of other objects."""
        held, self._held = self._held, rows
        apart = {row.table_key for row in held}.isdisjoint(row.table_key for row in rows)
        if held and apart and self._rng.random() < self._options.interleaved_share:
            places = sorted(self._rng.sample(range(len(held) + len(rows)), len(held)))
            mixed = list(rows)
            for place, row in zip(places, held, strict=True):
                mixed.insert(place, row)
            held, self._held = mixed, []
        self._emit(held)

    def _emit(self, rows: Statement) -> None:
        """Give rows their numbers, and break some."""
        rng, options = self._rng, self._options
        is_excel = options.container == "xlsx"
        for row in rows:
            if rng.random() < options.gap_share:
                self._next += rng.choice((1, 1, 2, 19))
            row.record_id = str(self._next)
            self._next += 1
            if rng.random() < options.damaged_share:
                damage(row, self._kinds, rng, self._ids[-200:])
                for name in COLUMNS if is_excel else ():
                    setattr(row, name, getattr(row, name) or None)
            else:
                self._ids.append(row.record_id)
            self._rows.append(row)
