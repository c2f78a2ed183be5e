"""A workload as change tables in files (``docs/formats/qlik-change-table.md``), with its truth."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

from cdcwb_synth.catalogue import TableVersion
from cdcwb_synth.events import Load, Schema
from cdcwb_synth.history import Change, Committed
from cdcwb_synth.instants import EPOCH, microseconds
from cdcwb_synth.model import ChangeSource, Completeness, OffsetUnit, Operation, Outcome
from cdcwb_synth.parts import WHOLE, Part
from cdcwb_synth.qlik.columns import Layout
from cdcwb_synth.qlik.ct_tables import Sheets, StoredTable
from cdcwb_synth.qlik.ddl import DdlHistory
from cdcwb_synth.qlik.folders import Folder, Structure
from cdcwb_synth.qlik.options import ChangeTableOptions
from cdcwb_synth.qlik.sequence import ChangeSequence, Clock, log_position, transaction_id
from cdcwb_synth.qlik.sheets import style_of
from cdcwb_synth.qlik.tables import Rendered
from cdcwb_synth.qlik.truth import Place, Row, Transaction
from cdcwb_synth.qlik.truth_files import Truth, natural_key

__all__ = ["ChangeTableEncoder"]

_COMMITTED: Final = str(Outcome.COMMITTED)
_MASK, _IMAGES = str(ChangeSource.MASK), str(ChangeSource.IMAGES)
_LETTERS: Final = {"INSERT": "I", "UPDATE": "U", "DELETE": "D", "BEFOREIMAGE": "B", "TRUNCATE": "T"}


class ChangeTableEncoder:
    """Writes a workload's history as files below ``folder/capture``. ``changes``: how many changes the workload has.
    ``records``: rows that were written so far, before images and control rows among them."""

    def __init__(self, options: ChangeTableOptions, seed: int, changes: int, folder: Path, part: Part = WHOLE) -> None:
        self._options, self._part = options, part
        unit = OffsetUnit.ROW if options.container == "parquet" else OffsetUnit.BYTE
        self.truth = Truth("qlik-change-table", unit, folder / "truth")
        self._root = folder / "capture"
        self._style = style_of(options)
        self._sheets = Sheets(options, self._style, self.truth)
        self._rng = Random(f"{seed} qlik-change-table")
        self._sequence = ChangeSequence(options.start_time, part.numbers(3))
        self._clock = Clock(options.clock_back, options.clock_back_seconds, changes)
        self._position, self._rows = part.numbers(1), 0
        self._current: dict[tuple[int, int], StoredTable] = {}  # by label and version
        self._newest: dict[int, Layout] = {}  # by label
        self._numbers: dict[tuple[str, int], int] = {}  # the truth's number of a table's version
        self._folders: dict[int, Folder] = {}  # of change tables, by label
        self._load: tuple[int, Folder] | None = None  # the table that is being loaded
        self._ddl = DdlHistory(options, self._root, self.truth.file) if options.ddl_history else None
        self._headers = options.header_names
        self._names = tuple(options.header_prefix + name for name in options.header_names)
        self._has = frozenset(options.header_names)

    @property
    def records(self) -> int:
        """Rows that were written so far, before images and control rows among them."""
        return self._rows + (self._ddl.rows if self._ddl else 0)

    def write(self, item: Schema | Load | Committed, at: datetime, done: int) -> None:
        """Write what comes next in a history, ``at`` this time, when ``done`` changes have happened."""
        match item:
            case Schema():
                self._schema(item.version, self._clock.read(at, done))
            case Load():
                self._loaded(item, at)
            case Committed():
                self._committed(item, self._clock.read(item.at, done))

    def finish(self) -> None:
        """Complete the files."""
        for folder in self._folders.values():
            folder.close()
        if self._load is not None:
            self._load[1].close()
        if self._ddl is not None:
            self._ddl.close()

    def _table(self, version: TableVersion) -> StoredTable:
        return self._current[version.table.label, version.number]

    def _schema(self, version: TableVersion, shown: datetime) -> None:
        key = (version.table.label, version.number)
        if key in self._current:
            return
        table = self._current[key] = self._sheets.make(version)
        self._numbers[version.table.name, version.number] = table.number
        old = self._newest.get(version.table.label)
        self._newest[version.table.label] = table.layout
        if self._ddl is not None and not (self._part.is_continued and version.number == 1):
            kind = "CREATE_TABLE" if old is None else "ALTER_TABLE"
            self.truth.versions[table.number].history = self._describe(table.layout, old, kind, shown)

    def _describe(
        self, layout: Layout, old: Layout | None, kind: str, shown: datetime
    ) -> tuple[Place, list[dict[str, Any]], str] | None:
        """Writes a row of the DDL history, if there is one; returns what it tells of the table version."""
        if self._ddl is not None:
            stamp = self._sequence.stamp(shown)
            return self._ddl.write(layout, old, kind, self._sequence.take(), stamp, microseconds(shown))
        return None

    def _loaded(self, item: Load, at: datetime) -> None:
        """A row of the full load: no header columns."""
        table, label = self._table(item.version), item.version.table.label
        if self._load is None or self._load[0] != label:
            if self._load is not None:
                self._load[1].close()
            self._load = (label, self._folder(table.layout.full_name, is_load=True))
        wires, texts = table.render(item.row)
        place = self._load[1].add(table.loaded, wires, at)
        self._rows += 1
        row = Row(
            table.number,
            "LOAD",
            str(Operation.REFRESH),
            key=self._key(table, texts),
            after=(table.layout.names, texts),
        )
        self.truth.change(row, None, place)

    def _folder(self, name: str, *, is_load: bool = False) -> Folder:
        def described(structure: Structure, place: Place, text: str) -> None:
            version = self.truth.versions[self._numbers[structure.table, structure.number]]
            if text:
                version.described(natural_key(self.truth.files[place.file]), text)
            else:
                version.seen(place)

        more: Any = {"is_load": is_load, "described": described}
        return Folder(self._root, name, self._style, self._options, self.truth.file, **more)

    def _key(self, table: StoredTable, texts: tuple[str | None, ...]) -> Any:
        """The key, where a ``.dfm`` names it."""
        return (table.key_names, (texts[table.layout.key_place],)) if self._options.dfm else None

    def _committed(self, item: Committed, shown: datetime) -> None:
        """A transaction's changes, one after another, under the time of its commit; updates that change nothing are
        left out (§3.1)."""
        stamp = self._sequence.stamp(shown)
        ready = []
        for change in item.changes:
            table = self._table(change.version)
            before = None if change.before is None else table.render(change.before)
            after = None if change.after is None else table.render(change.after)
            if change.operation is not Operation.UPDATE or (before and after and before[1] != after[1]):
                ready.append((change, table, before, after))
        if not ready:
            return
        name = transaction_id(item.ordinal)
        truth: Transaction | None = None
        if "transaction_id" in self._has:
            truth = Transaction(name, None, None, None, Completeness.UNKNOWN, {}, [], len(ready))
            truth.ended_at = microseconds(stamp) if "change_seq" in self._has else None
        sequence = ""
        for change, table, before, after in ready:
            repeats = bool(sequence) and self._rng.random() < self._options.repeat_sequences
            if not repeats:
                has_two = change.operation is Operation.UPDATE and self._options.before_images
                sequence = self._sequence.take(2 if has_two else 1)
            row, place, other = self._change(change, table, before, after, sequence, name, stamp)
            if truth is not None:
                self._told(truth, row, table)
            self.truth.change(row, truth, place, other)
            if change.operation is Operation.TRUNCATE:
                self._describe(table.layout, None, "TRUNCATE_TABLE", stamp)

    def _told(self, truth: Transaction, row: Row, table: StoredTable) -> None:
        truth.changes[row.operation] = truth.changes.get(row.operation, 0) + 1
        truth.tables.append(table.layout.full_name)
        if row.position is not None:
            truth.begin_position = min(truth.begin_position or row.position, row.position)
            truth.end_position = max(truth.end_position or row.position, row.position)
        if row.changed_at is not None:
            truth.began_at = row.changed_at if truth.began_at is None else min(truth.began_at, row.changed_at)

    def _change(
        self,
        change: Change,
        table: StoredTable,
        before: Rendered | None,
        after: Rendered | None,
        sequence: str,
        transaction: str,
        stamp: datetime,
    ) -> tuple[Row, Place, Place | None]:
        """Writes a change as its rows; returns what the truth has of it, and their places."""
        layout, operation = table.layout, change.operation.value
        columns: int | None = layout.everything
        if operation == "UPDATE" and before and after:
            columns = layout.mask([i for i, (b, a) in enumerate(zip(before[1], after[1], strict=True)) if b != a])
        elif operation == "DELETE":
            columns = layout.key
        elif operation == "TRUNCATE":
            columns = None
        at = microseconds(change.at)
        is_unknown = self._options.unknown_times > 0 and self._rng.random() < self._options.unknown_times
        heads = {
            "change_seq": sequence,
            "change_oper": _LETTERS[operation],
            "stream_position": log_position(self._position),
            "operation": operation,
            "transaction_id": transaction,
            "partition_name": "",
        }
        self._position += 1
        part = ""
        if self._options.partition_minutes:
            heads["partition_name"] = part = _partition(stamp, self._options.partition_minutes)
        time = 0 if is_unknown else at
        place = other = None
        if operation == "UPDATE" and before and self._options.before_images:
            first = heads | {"change_oper": "B", "operation": "BEFOREIMAGE"}
            other = self._store(table, first, None, time, before[0], stamp, part)[0]
        image = after or before
        wires = table.nothing if image is None else image[0]
        place, texts, mask = self._store(table, heads, columns, time, wires, stamp, part)
        has_mask = "change_mask" in self._has and columns is not None
        compared = operation == "UPDATE" and other is not None
        source = _MASK if has_mask else _IMAGES if compared else None
        has_before = operation == "DELETE" or other is not None
        row = Row(
            table.number,
            heads["change_oper"] if "change_oper" in self._has else operation,
            operation,
            sequence if "change_seq" in self._has else None,
            transaction_id=transaction if "transaction_id" in self._has else None,
            changed_at=at if "timestamp" in self._has and not is_unknown else None,
            change_mask=mask,
            outcome=_COMMITTED,
            committed_at=microseconds(stamp) if "change_seq" in self._has else None,
            change_source=source,
            changed_columns=table.names(columns) if source and columns is not None else None,
            key=None if image is None else self._key(table, image[1]),
            before=(layout.names, before[1]) if has_before and before else None,
            after=None if after is None else (layout.names, after[1]),
            headers=(self._names, texts),
        )
        return row, place, other

    def _store(
        self,
        table: StoredTable,
        heads: dict[str, str],
        columns: int | None,
        time: int,
        wires: tuple[Any, ...],
        stamp: datetime,
        part: str,
    ) -> tuple[Place, list[str | None], str | None]:
        """Write one row; returns its place, its headers as text, and that of its mask."""
        fields: list[Any] = []
        texts: list[str | None] = []
        told: str | None = None
        for name, full in zip(self._headers, self._names, strict=True):
            if name == "change_mask":
                field, told = self._style.mask(full, None if columns is None else table.mask(columns))
                fields.append(field)
                texts.append(told)
            elif name == "timestamp":
                field, text = self._style.moment(full, time)
                fields.append(field)
                texts.append(text)
            else:
                fields.append(self._style.text(full, heads[name]))
                texts.append(heads[name])
        fields += wires
        label = table.layout.table.label
        folder = self._folders.get(label)
        if folder is None:
            name = table.layout.full_name + self._options.suffix
            folder = self._folders[label] = self._folder(name)
        self._rows += 1
        return folder.add(table.stored, fields, stamp, part), texts, told


def _partition(stamp: datetime, minutes: int) -> str:
    """The name of the period that a time lies in (§2.6)."""
    length = timedelta(minutes=minutes)
    begin = EPOCH + (stamp - EPOCH) // length * length
    return f"{begin:%Y%m%dT%H%M%S}_{begin + length:%Y%m%dT%H%M%S}"
