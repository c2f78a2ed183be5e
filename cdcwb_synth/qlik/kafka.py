"""A workload as messages on Kafka (``docs/formats/qlik-kafka.md``), with its truth."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Final

from cdcwb_synth.catalogue import TableVersion
from cdcwb_synth.events import Load, Schema
from cdcwb_synth.history import Change, Committed
from cdcwb_synth.instants import microseconds
from cdcwb_synth.model import Completeness, OffsetUnit, Operation
from cdcwb_synth.parts import WHOLE, Part
from cdcwb_synth.qlik.changes import Changes, Written
from cdcwb_synth.qlik.containers import Facts, is_row_based
from cdcwb_synth.qlik.messages import Heads
from cdcwb_synth.qlik.options import KafkaOptions
from cdcwb_synth.qlik.rendering import Message
from cdcwb_synth.qlik.sequence import ChangeSequence, Clock, iso_milliseconds, log_position, transaction_id
from cdcwb_synth.qlik.tables import Table, Tables
from cdcwb_synth.qlik.topics import Topics
from cdcwb_synth.qlik.truth import Place, Transaction
from cdcwb_synth.qlik.truth_files import Truth

__all__ = ["KafkaEncoder"]

_LATE: Final = 4  # data messages that come before their metadata, where it is late
_METADATA: Final = "cdc-metadata"
_NEVER, _ONCE, _TWICE = 0, 1, 2


class KafkaEncoder:
    """Writes a workload's history below ``folder``: ``capture/``, and beside it ``metadata/`` and ``registry/`` where
    the options ask for them. ``changes``: how many changes the workload has. ``records``: messages that were written
    so far."""

    def __init__(self, options: KafkaOptions, seed: int, changes: int, folder: Path, part: Part = WHOLE) -> None:
        self._options, self._part = options, part
        unit = OffsetUnit.ROW if is_row_based(options.container) else OffsetUnit.BYTE
        self.truth = Truth("qlik-kafka", unit, folder / "truth")
        self._tables = Tables(options, part.seed if part.is_continued else seed, self.truth, folder / "registry")
        self._changes = Changes(options, seed, self._tables)
        self._topics = Topics(options, folder / "capture", seed, self.truth.file, self._placed, part)
        self._beside = Topics(options, folder / "metadata", seed, lambda name: -1, lambda *_: None, part)
        self._rng = Random(f"{seed} qlik-kafka")
        self._sequence = ChangeSequence(options.start_time, part.numbers(2))
        self._clock = Clock(options.clock_back, options.clock_back_seconds, changes)
        self._position = part.numbers(1)
        self._facts = Facts(options)
        self._current: dict[tuple[int, int], Table] = {}  # by label and version
        self._late: list[Table] = []
        self._again: list[tuple[Written, int, Transaction | None]] = []  # messages that are sent a second time
        self.records = 0

    def write(self, item: Schema | Load | Committed, at: datetime, done: int) -> None:
        """Write what comes next in a history, ``at`` this time, when ``done`` changes have happened."""
        match item:
            case Schema():
                self._schema(item.version, at)
            case Load():
                time = microseconds(at)
                self._send(self._changes.load(self._table(item.version), item, time), time // 1000, None)
            case Committed():
                self._committed(item, self._clock.read(item.at, done))

    def finish(self) -> None:
        """Write what is still held back, and complete the files."""
        self._resend([])
        for table in self._late:
            self._send_metadata(table, self._sequence.time)
        self._topics.close()
        self._beside.close()

    def _table(self, version: TableVersion) -> Table:
        return self._current[version.table.label, version.number]

    def _schema(self, version: TableVersion, at: datetime) -> None:
        key = (version.table.label, version.number)
        is_new = key not in self._current
        if is_new:
            self._current[key] = self._tables.make(version, at)
        table = self._current[key]
        if self._part.is_continued and version.number == 1:  # its metadata are in the first part
            return
        if self._options.metadata_mode == "late" and is_new:
            self._late.append(table)
        elif table.metadata is not None:
            self._send_metadata(table, at)

    def _send_metadata(self, table: Table, at: datetime) -> None:
        time = microseconds(at) // 1000
        if self._options.metadata_mode == "separate":
            self._beside.send(_METADATA, None, table.metadata, time)
        else:
            self._topics.send(table.topic, None, table.metadata, time, table.number)

    def _send(self, one: Written, time: int, transaction: Transaction | None) -> None:
        """Send a data message at a ``time`` (milliseconds since 1970)."""
        table = one.table
        self._topics.send(table.topic, one.key, one.value, time, (one.row, transaction))
        table.sent += 1
        if self._late and table.sent >= _LATE and table in self._late:
            self._late.remove(table)
            self._send_metadata(table, self._sequence.time)

    def _placed(self, message: Message, file: int, offset: int, length: int) -> None:
        """Completes the truth of a message, when it is written to a file."""
        self.records += 1
        note = message.note
        if isinstance(note, tuple):
            row, transaction = note
            if self._facts.names:
                row.headers[1].extend(self._facts.of(message))
            self.truth.change(row, transaction, Place(file, offset, length))
        elif note is not None:
            self.truth.versions[note].seen(Place(file, offset, length))

    def _committed(self, item: Committed, shown: datetime) -> None:
        """A transaction's changes, one after another, under the time of its commit. A TRUNCATE has no message."""
        again, self._again = self._again, []
        committed = microseconds(self._sequence.stamp(shown))
        changes = [one for one in item.changes if one.operation is not Operation.TRUNCATE]
        if changes:
            self._transaction(item, changes, committed)
        self._resend(again)

    def _resend(self, again: list[tuple[Written, int, Transaction | None]]) -> None:
        """Send again what comes twice: ``again``, or all of it."""
        if not again:
            again, self._again = self._again, []
        for one in again:
            self._send(*one)

    def _transaction(self, item: Committed, changes: list[Change], committed: int) -> None:
        options, count = self._options, len(changes)
        sequences = [self._sequence.take() for _ in changes]
        times = [microseconds(change.at) for change in changes]
        fates = [_ONCE] * count
        if options.lost_share or options.duplicate_share:
            fates = [self._fate() for _ in changes]
        is_counted = options.generation != "2018"
        end = sequences[-1] if is_counted and fates[-1] else None
        name, sent = transaction_id(item.ordinal), microseconds(item.at) // 1000
        truth = self._told(name, changes, sequences, times, fates)
        if truth is not None:
            truth.ended_at = committed
        for at, change in enumerate(changes):
            heads = Heads(
                change.operation.value, sequences[at], iso_milliseconds(times[at]), log_position(self._position),
                name, None, None, at + 1, at == count - 1,
            )  # fmt: skip
            self._position += 1
            table = self._table(change.version)
            one = self._changes.change(table, change, heads, times[at], committed, end)
            if fates[at] == _NEVER:
                self._topics.send(table.topic, one.key, None, sent, arrives=False)
                continue
            if fates[at] == _TWICE:
                self._again.append((one.again(), sent, truth))
            self._send(one, sent, truth)
            if options.tombstone_share and heads.operation == "DELETE" and self._rng.random() < options.tombstone_share:
                self._topics.send(table.topic, one.key, None, sent)

    def _fate(self) -> int:
        """How often a message arrives."""
        if self._rng.random() < self._options.lost_share:
            return _NEVER
        return _TWICE if self._rng.random() < self._options.duplicate_share else _ONCE

    def _told(
        self, name: str, changes: list[Change], sequences: list[str], times: list[int], fates: list[int]
    ) -> Transaction | None:
        """What the truth has of a transaction: as the capture holds it, without messages that never arrive and with
        those that come twice counted twice. None if nothing of it arrives, or nobody could tell it."""
        there = [at for at, fate in enumerate(fates) if fate]
        if not there:
            return None
        counts: dict[str, int] = {}
        for at in there:
            operation = changes[at].operation.value
            counts[operation] = counts.get(operation, 0) + fates[at]
        versions = {self._table(changes[at].version).number for at in there}
        is_old = self._options.generation == "2018"
        return Transaction(
            transaction_id=name,
            begin_position=sequences[there[0]],
            end_position=sequences[there[-1]] if is_old or fates[-1] else None,
            began_at=min(times[at] for at in there) // 1000 * 1000,
            completeness=Completeness.UNKNOWN if is_old else _completeness(fates),
            changes=counts,
            tables=[v.label for v in map(self.truth.versions.__getitem__, versions) if v.table_name is not None],
            waiting=sum(fates),
        )


def _completeness(fates: Sequence[int]) -> Completeness:
    """How much of a transaction arrives."""
    if not fates[0]:
        return Completeness.NO_BEGIN
    if not fates[-1]:
        return Completeness.NO_END
    return Completeness.COMPLETE if all(fates) else Completeness.GAPS
