"""A workload as a GBase 8s CDC record stream (``docs/formats/gbase8s.md``), with its truth.

This is the encoder's half: it shares no code with the decoders in :mod:`cdcwb.formats`, so that a misreading of the
fact sheet on one side does not hide on the other.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import datetime
from random import Random
from typing import Any, Final

from cdcwb_synth.catalogue import TableVersion
from cdcwb_synth.events import (
    Begin,
    Commit,
    Delete,
    Event,
    Failure,
    Idle,
    Insert,
    Rollback,
    Savepoint,
    Schema,
    Transaction,
    Truncate,
    Undo,
    Update,
)  # fmt: skip
from cdcwb_synth.gbase8s_values import LOB_PREFIX, declared, encoder, fixed_size, spelled
from cdcwb_synth.model import Operation, Outcome
from cdcwb_synth.options import Options
from cdcwb_synth.parts import WHOLE, Part
from cdcwb_synth.stream import Stream
from cdcwb_synth.text import formatter
from cdcwb_synth.truth import TransactionTruth, Truth, VersionTruth
from cdcwb_synth.values import Column, Type

__all__ = ["Encoder", "LogPositions"]

_COMMON: Final = struct.Struct(">4I")  # header size, payload size, packetization scheme, record number (§1.1)
_BEGIN: Final = struct.Struct(">4Iqiqi")
_COMMIT: Final = struct.Struct(">4Iqiq")
_SEQUENCE: Final = struct.Struct(">4Iqi")  # RBTX, DISCARD
_ROW: Final = struct.Struct(">4IqiiI")
_TRUNCATE: Final = struct.Struct(">4Iqii")
_SCHEMA: Final = struct.Struct(">4IiIIII")
_TIMEOUT: Final = struct.Struct(">4Iq")
_ERROR: Final = struct.Struct(">4IIi")
_SCHEME: Final = 66
_ROW_NAMES: Final = {40: "CDC_REC_INSERT", 41: "CDC_REC_DELETE", 42: "CDC_REC_UPDBEF", 43: "CDC_REC_UPDAFT"}
_ERRORS: Final = (-83711, -83713, -83707)  # §7; the session continues
_MUST_CLOSE: Final = -83792
_LOGS: Final = 4096
"""Log files that a part of a capture can fill, of 64 MiB each."""

_ROW_HEADERS: Final = (
    "header_size", "payload_size", "packetization_scheme", "record_number", "sequence_number", "transaction_id",
    "user_data",
    "flags", "variable_sizes",
)  # fmt: skip


class LogPositions:
    """Rising sequence numbers: (log file << 32) | (page << 12) | offset in page (§6.1).

    A record takes its size and sixteen bytes more in the log, rounded up to eight; pages are 4096 bytes and begin with
    0x18 bytes of their own. The first log file is near its end, so that longer captures see the change to the next one.
    """

    def __init__(self, log: int = 11, page: int = 0x3FE0, pages: int = 0x4000) -> None:
        self._log, self._page, self._pages = log, page, pages
        self._offset = 0x18

    def peek(self) -> int:
        """The sequence number that the next record will have."""
        return self._log << 32 | self._page << 12 | self._offset

    def take(self, size: int) -> int:
        """The sequence number of a record of ``size`` bytes; the next one is higher."""
        here = self.peek()
        offset = self._offset + (size + 16 + 7) // 8 * 8
        pages, rest = divmod(offset, 4096)
        self._offset = max(rest, 0x18) if pages else offset
        self._page += pages
        if self._page >= self._pages:
            self._log, self._page, self._offset = self._log + 1, 1, 0x18
        return here


class _Rows:
    """How the rows of one table version are written: fixed-length columns first, then the variable ones (§4)."""

    def __init__(self, version: TableVersion, index: int, options: Options) -> None:
        self.index = index  # into Truth.versions
        self.label = version.table.label
        indexed = list(enumerate(version.columns))
        fixed = [(i, c) for i, c in indexed if not c.is_variable]
        variable = [(i, c) for i, c in indexed if c.is_variable]
        self.columns = [c for _, c in fixed + variable]
        self.names = [c.name for c in self.columns]
        self.fixed = [(encoder(c, options.charset, options.prefix_width), i) for i, c in fixed]
        self.variable = [(encoder(c, options.charset, options.prefix_width), i) for i, c in variable]
        self.formats = [(_formatter(c), i) for i, c in fixed + variable]
        self.words = struct.Struct(("<" if options.byte_order == "little" else ">") + f"{len(variable)}I")
        self.header_size = _ROW.size + self.words.size
        self.header_names = _ROW_HEADERS if variable else _ROW_HEADERS[:-1]
        self.schema = ", ".join(f"{c.name} {spelled(c)}" for c in self.columns)
        self.sizes = (sum(fixed_size(c) for _, c in fixed), len(fixed), len(variable))

    def image(self, values: Any) -> tuple[bytes, list[int]]:
        """A row as its payload and the sizes of its variable-length columns."""
        parts = [write(values[i]) for write, i in self.variable]
        return b"".join([write(values[i]) for write, i in self.fixed] + parts), [len(part) for part in parts]

    def texts(self, values: Any) -> list[str | None]:
        """A row as the text of its values, in the order of ``names``."""
        return [write(values[i]) for write, i in self.formats]


def _formatter(column: Column) -> Callable[[Any], str | None]:
    if column.type is Type.LOB:
        prefix = LOB_PREFIX.hex()
        return lambda value: None if value is None else prefix + value.hex()
    return formatter(column)


class Encoder:
    """Writes events as records into ``stream`` and what they mean into ``truth``."""

    def __init__(self, options: Options, seed: int, stream: Stream, truth: Truth, part: Part = WHOLE) -> None:
        self._options, self._stream, self._truth, self._part = options, stream, truth, part
        self._rng = Random(f"{seed} gbase8s")
        self._log = LogPositions(11 + part.number * _LOGS, 1) if part.is_continued else LogPositions()
        self._rows: dict[tuple[int, int], _Rows] = {}  # by label and version
        self._current: dict[int, _Rows] = {}  # by label
        self._owner: dict[int, int] = {}  # transaction ordinal -> index into Truth.transactions
        self._savepoints: dict[tuple[int, int], int] = {}  # (transaction ordinal, number) -> sequence number
        self._half: tuple[Transaction, Callable[[], None]] | None = (
            None  # second half of an update, still to be written
        )
        self._write: dict[type, Callable[[Any], None]] = {
            Begin: self._begin, Commit: self._commit, Rollback: self._rollback, Savepoint: self._savepoint,
            Undo: self._undo, Insert: self._insert, Update: self._update, Delete: self._delete,
            Truncate: self._truncate, Schema: self._schema, Idle: self._idle, Failure: self._failure,
        }  # fmt: skip

    def write(self, event: Event) -> None:
        """Write one event; it may take no record, one or two."""
        waiting, self._half = self._half, None
        transaction = getattr(event, "transaction", None)
        if waiting is not None and (transaction is None or transaction is waiting[0]):
            waiting[1]()
            waiting = None
        self._write[type(event)](event)
        if waiting is not None:
            waiting[1]()

    def finish(self) -> None:
        """Write what is still held back."""
        if self._half is not None:
            self._half[1]()
            self._half = None

    def _owner_of(self, transaction: Transaction, position: int) -> int:
        """The truth's index of a transaction, which is known from its first record on."""
        index = self._owner.get(transaction.ordinal)
        if index is None:
            index = self._owner[transaction.ordinal] = len(self._truth.transactions)
            mark = "" if transaction.captured_begin else "~"
            name = f"{transaction.number}@{mark}{position:016X}"
            self._truth.transactions.append(TransactionTruth(name, transaction.captured_begin))
        return index

    def _begin(self, event: Begin) -> None:
        transaction = event.transaction
        if not transaction.captured_begin:
            return
        sequence, second = self._log.take(_BEGIN.size), event.at.replace(microsecond=0)
        owner = self._owner_of(transaction, sequence)
        self._stream.append(
            _BEGIN.pack(
                _BEGIN.size, 0, _SCHEME, 1, sequence, transaction.number, int(second.timestamp()), transaction.user
            ),
            owner,
        )  # fmt: skip
        truth = self._truth.transactions[owner]
        truth.begin_position, truth.began_at, truth.user = f"{sequence:016X}", second, str(transaction.user)

    def _commit(self, event: Commit) -> None:
        sequence, second = self._log.take(_COMMIT.size), event.at.replace(microsecond=0)
        time = int(second.timestamp())
        record = _COMMIT.pack(_COMMIT.size, 0, _SCHEME, 2, sequence, event.transaction.number, time)
        self._end(event.transaction, sequence, record, Outcome.COMMITTED, second)

    def _rollback(self, event: Rollback) -> None:
        sequence = self._log.take(_SEQUENCE.size)
        record = _SEQUENCE.pack(_SEQUENCE.size, 0, _SCHEME, 3, sequence, event.transaction.number)
        self._end(event.transaction, sequence, record, Outcome.ROLLED_BACK, None)

    def _end(
        self, transaction: Transaction, sequence: int, record: bytes, outcome: Outcome, at: datetime | None
    ) -> None:  # fmt: skip
        owner = self._owner_of(transaction, sequence)
        self._stream.append(record, owner)
        self._truth.end(owner, outcome, f"{sequence:016X}", at)
        del self._owner[transaction.ordinal]
        number = 0
        while self._savepoints.pop((transaction.ordinal, number), None) is not None:
            number += 1

    def _savepoint(self, event: Savepoint) -> None:
        """No record; a later DISCARD names its sequence number, which may be that of the transaction's next record."""
        sequence = self._log.peek() if self._rng.random() < 0.25 else self._log.take(8)
        self._savepoints[event.transaction.ordinal, event.number] = sequence
        owner = self._owner.get(event.transaction.ordinal)
        if owner is not None:
            transaction = self._truth.transactions[owner]
            transaction.savepoints[event.number] = len(transaction.rows)

    def _undo(self, event: Undo) -> None:
        transaction = event.transaction
        sequence = self._savepoints[transaction.ordinal, event.number]
        owner = self._owner_of(transaction, sequence)
        self._log.take(_SEQUENCE.size)
        self._stream.append(_SEQUENCE.pack(_SEQUENCE.size, 0, _SCHEME, 62, sequence, transaction.number), owner)
        self._truth.undo(owner, event.number)

    def _insert(self, event: Insert) -> None:
        rows = self._rows[event.version.table.label, event.version.number]
        record, position, headers, owner = self._row(event.transaction, rows, 40, *rows.image(event.after))
        self._truth.change(
            record, -1, owner, rows.index, _ROW_NAMES[40], Operation.INSERT, position,
            rows.names, None, rows.texts(event.after), headers,
        )  # fmt: skip

    def _delete(self, event: Delete) -> None:
        rows = self._rows[event.version.table.label, event.version.number]
        record, position, headers, owner = self._row(event.transaction, rows, 41, *rows.image(event.before))
        self._truth.change(
            record, -1, owner, rows.index, _ROW_NAMES[41], Operation.DELETE, position,
            rows.names, rows.texts(event.before), None, headers,
        )  # fmt: skip

    def _update(self, event: Update) -> None:
        """UPDBEF and UPDAFT, in either order, with perhaps a record of another transaction between them (§6.5)."""
        rows = self._rows[event.version.table.label, event.version.number]
        transaction = event.transaction
        other, row = -1, -1

        def before() -> None:
            nonlocal other
            other, *_ = self._row(transaction, rows, 42, *rows.image(event.before))
            if row >= 0:
                self._truth.other_half(row, other)

        def after() -> None:
            nonlocal row
            record, position, headers, owner = self._row(transaction, rows, 43, *rows.image(event.after))
            row = self._truth.change(
                record, other, owner, rows.index, _ROW_NAMES[43], Operation.UPDATE, position,
                rows.names, rows.texts(event.before), rows.texts(event.after), headers,
            )  # fmt: skip

        first, second = (after, before) if event.is_reversed else (before, after)
        first()
        if self._rng.random() < self._options.split_updates:
            self._half = (transaction, second)
        else:
            second()

    def _row(
        self, transaction: Transaction, rows: _Rows, number: int, payload: bytes, sizes: list[int]
    ) -> tuple[int, str, tuple[Any, list[str]], int]:
        """Writes a row record (§2); gives its number, position, headers and the truth's index of its transaction."""
        size = len(payload)
        sequence = self._log.take(rows.header_size + size)
        owner = self._owner_of(transaction, sequence)
        header = _ROW.pack(rows.header_size, size, _SCHEME, number, sequence, transaction.number, rows.label, 0)
        record = self._stream.append(header + rows.words.pack(*sizes) + payload, owner)
        position = f"{sequence:016X}"
        values = [
            str(rows.header_size), str(size), "66", str(number), position, str(transaction.number), str(rows.label),
            "0",
        ]  # fmt: skip
        if sizes:
            values.append(" ".join(map(str, sizes)))
        version = self._truth.versions[rows.index]
        if version.first_position is None:
            version.first_position = position
        return record, position, (rows.header_names, values), owner

    def _truncate(self, event: Truncate) -> None:
        rows = self._rows[event.version.table.label, event.version.number]
        transaction, sequence = event.transaction, self._log.take(_TRUNCATE.size)
        owner, position = self._owner_of(transaction, sequence), f"{sequence:016X}"
        record = self._stream.append(
            _TRUNCATE.pack(_TRUNCATE.size, 0, _SCHEME, 119, sequence, transaction.number, rows.label), owner
        )
        values = [str(_TRUNCATE.size), "0", "66", "119", position, str(transaction.number), str(rows.label)]
        self._truth.change(
            record, -1, owner, rows.index, "CDC_REC_TRUNCATE", Operation.TRUNCATE, position,
            rows.names, None, None, (_ROW_HEADERS[:7], values),
        )  # fmt: skip

    def _schema(self, event: Schema) -> None:
        """TABSCHEM: the text ends with a NUL that counts (§5)."""
        version = event.version
        key = (version.table.label, version.number)
        is_new = key not in self._rows
        if is_new:
            self._rows[key] = _Rows(version, len(self._truth.versions), self._options)
        rows = self._rows[key]
        record = -1
        if not (self._part.is_continued and version.number == 1):  # which is in the first part
            text = rows.schema.encode(self._options.charset) + b"\x00"
            header = _SCHEMA.pack(_SCHEMA.size, len(text), _SCHEME, 200, rows.label, 0, *rows.sizes)
            record = self._stream.append(header + text, -1)
        if is_new:
            named = self._options.table_names
            columns = []
            for ordinal, column in enumerate(rows.columns, 1):
                length, precision, scale = declared(column)
                columns.append(
                    {
                        "ordinal": ordinal, "name": column.name, "type": spelled(column), "length": length,
                        "precision": precision, "scale": scale, "key_position": None, "nullable": None,
                    }
                )  # fmt: skip
            self._truth.versions.append(
                VersionTruth(
                    f"{rows.label}@{version.number}",
                    version.table.schema if named else None,
                    version.table.name if named else str(rows.label),
                    record,
                    columns,
                    rows.schema,
                )
            )

    def _idle(self, event: Idle) -> None:
        self._stream.append(_TIMEOUT.pack(_TIMEOUT.size, 0, _SCHEME, 201, 0), -1)

    def _failure(self, event: Failure) -> None:
        code = _MUST_CLOSE if event.is_fatal else self._rng.choice(_ERRORS)
        self._stream.append(_ERROR.pack(_ERROR.size, 0, _SCHEME, 202, int(event.is_fatal), code), -1)
