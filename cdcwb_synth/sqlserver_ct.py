"""A workload as SQL Server's change tables in files (``docs/formats/sqlserver-ct.md``). Each version of a table is a
capture instance of its own, and a file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from cdcwb_synth.encoder import Encoder, EncoderContext, delivered
from cdcwb_synth.files import ENDINGS, ByteFile, TableFile
from cdcwb_synth.model import Operation
from cdcwb_synth.options import Options, option, same
from cdcwb_synth.truth import Location, Transaction, Version, column_rows
from cdcwb_synth.values import EPOCH, microseconds
from cdcwb_synth.workload import Change, Committed, Row, Schema

_BINARY: Final = ("__$start_lsn", "__$end_lsn", "__$seqval", "__$update_mask")
_CODES: Final = {Operation.DELETE: 1, Operation.INSERT: 2, Operation.UPDATE: 4}
_BEFORE: Final = 3

Texts = dict[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlServerCtOptions(Options):
    """What happens, and how the change tables are exported."""

    truncates: int = same("truncates", default=0, high=0)  # SQL Server refuses to truncate a captured table
    rows: str = option("table", "of the change table, or of a function", of=("table", "all", "all update old"))
    commit_times: bool = option(True, "a column tran_end_time, joined from cdc.lsn_time_mapping")
    deferred_share: float = option(0.05, "share of the updates that are a DELETE and an INSERT", 0, 1)
    container: str = option("csv", "what holds the rows", of=("csv", "parquet"))


@dataclass(frozen=True, slots=True, eq=False)
class _Instance:
    """A capture instance and its file."""

    names: list[str]
    number: int
    file: ByteFile | TableFile
    version: Version

    def image(self, row: Row | None) -> Texts | None:
        """A row as the text of its values."""
        return None if row is None else dict(zip(self.names, map(_text, row), strict=True))


class SqlServerCtEncoder(Encoder[_Instance]):
    """Writes a workload's history. ``records``: rows that were written so far."""

    def __init__(self, capture: EncoderContext) -> None:
        super().__init__(capture)
        self._is_text = self.options.container == "csv"
        self.truth.unit = "byte" if self._is_text else "row"
        of_table = self.options.rows == "table"
        first = ("__$start_lsn", *(("__$end_lsn",) if of_table else ()), "__$seqval", "__$operation", "__$update_mask")
        last = ("__$command_id",) if of_table else ()
        self._heads = first, (*last, *(("tran_end_time",) if self.options.commit_times else ()))
        self._number = 0

    def finish(self) -> None:
        """Completes the files."""
        for one in self.tables.values():
            one.file.close()

    def table(self, item: Schema, done: int) -> _Instance:
        """The capture instance of a table version; that of the first version has the default name."""
        version, table, names = item.version, item.version.table, item.version.names
        later = f"_v{version.number}" if version.number > 1 else ""
        ending = f".csv{ENDINGS[self.options.compression]}" if self._is_text else ".parquet"
        name = f"{table.schema}_{table.name}{later}_CT{ending}"
        all_names, heading = (*self._heads[0], *names, *self._heads[1]), 0
        if self._is_text:
            file: ByteFile | TableFile = ByteFile(self.folder / name, self.options.compression)
            heading = file.put(_line(all_names))[1]
        else:
            types = [(one, pa.binary() if one in _BINARY else pa.string()) for one in all_names]
            file = TableFile(self.folder / name, self.options.compression, pa.schema(types))
        kind = None if self._is_text else "string"
        columns = column_rows({"name": name, "type": kind} for name in names)
        made = Version(None, table.schema, table.name, columns, "inferred", has_location=self._is_text)
        made = self.truth.version(made, (table.label, *names))
        number = self.truth.file(name)
        made.seen(Location(number, 0, heading))
        return _Instance(names, number, file, made)

    def _lsn(self) -> str:
        """The next LSN: virtual log file, block and slot, in hexadecimal digits."""
        self._number += 1
        return f"{39 + self._number // 1_000_000:08X}{self._number % 1_000_000:08X}{3 + self._number % 5:04X}"

    def commit(self, item: Committed, done: int) -> None:
        """A transaction's changes; an update that changes nothing is not captured, and one of a unique key is deferred:
        a DELETE and an INSERT."""
        steps: list[tuple[Change, Operation, str]] = []
        for change in item.changes:
            if change.operation is Operation.UPDATE and change.before == change.after:
                continue
            lsn, operations = self._lsn(), [change.operation]
            if change.operation is Operation.UPDATE and self.rng.random() < self.options.deferred_share:
                operations = [Operation.DELETE, Operation.INSERT]
            steps += [(change, operation, lsn) for operation in operations]
        if not steps:
            return
        commit, at = self._lsn(), microseconds(item.at) // 1000 * 1000
        transaction = self.truth.transaction(Transaction(commit))
        for change, operation, lsn, command in delivered((*step, command) for command, step in enumerate(steps, 1)):
            self._change(change, operation, transaction, lsn, command, at)

    def _change(
        self, change: Change, operation: Operation, transaction: Transaction, lsn: str, command: int, at: int
    ) -> None:
        instance, commit = self.tables[change.version], transaction.transaction_id
        names, before, after = instance.names, instance.image(change.before), instance.image(change.after)
        is_update = operation is Operation.UPDATE
        columns = [name for name in names if not (is_update and before and after) or before[name] != after[name]]
        mask = sum(1 << names.index(name) for name in columns).to_bytes(-(-len(names) // 8), "big")
        if operation is Operation.DELETE:
            after = None
        elif not is_update or self.options.rows == "all":
            before = None
        position = "/".join([commit, *([f"{command:010}"] if "__$command_id" in self._heads[1] else []), lsn])
        heads: dict[str, Any] = {
            "__$start_lsn": bytes.fromhex(commit), "__$seqval": bytes.fromhex(lsn), "__$update_mask": mask,
            "__$command_id": str(command), "tran_end_time": _time(at),
        }  # fmt: skip
        rows = [(_CODES[operation], after or before or {})]
        if is_update and before:
            rows.insert(0, (_BEFORE, before))
        made = [self._put(instance, heads | {"__$operation": str(code)}, row) for code, row in rows]
        locations, headers = [location for location, _ in made], made[-1][1]
        time = at if self.options.commit_times else None
        transaction.covers(position, time)
        facts: dict[str, Any] = {
            "record_type": str(rows[-1][0]), "operation": operation, "position": position, "changed_at": time,
            "change_mask": headers["__$update_mask"], "changed_columns": columns if is_update else None,
            "change_source": "mask" if is_update else None, "before": before, "after": after, "headers": headers,
        }  # fmt: skip
        self.truth.change(facts, locations, instance.version, transaction)

    def _put(self, instance: _Instance, heads: dict[str, Any], row: Texts) -> tuple[Location, Texts]:
        """Writes a row; returns its location and its headers as text."""
        self.records += 1
        first, last = ({name: heads.get(name) for name in names} for names in self._heads)
        if self._is_text:
            first = {n: f"0x{one.hex().upper()}" if isinstance(one, bytes) else one for n, one in first.items()}
        fields = [*first.values(), *row.values(), *last.values()]
        file: Any = instance.file
        location = Location(instance.number, *file.put(_line(fields) if self._is_text else fields))
        return location, {n: one.hex() if isinstance(one, bytes) else one for n, one in (first | last).items()}


def _line(fields: Iterable[str | None]) -> bytes:
    """A record of delimited text; NULL is an empty field, an empty text has quotes."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(["\0" if one == "" else one for one in fields])
    return out.getvalue().replace("\0", '""').encode()


_TEXTS: Final[dict[type, Any]] = {
    bool: lambda value: str(int(value)), bytes: lambda value: f"0x{value.hex().upper()}", Decimal: "{:f}".format,
    datetime: lambda value: (
        f"{value:%H:%M:%S}.{value.microsecond:06}" if value.year == 1 else value.isoformat(" ")
    ), date: date.isoformat,
}  # fmt: skip


def _text(value: Any) -> str | None:
    """A value as SQL Server prints it."""
    return None if value is None else _TEXTS.get(type(value), str)(value)


def _time(at: int) -> str:
    """A time in microseconds since 1970 as ``datetime`` is printed, in milliseconds."""
    return (EPOCH + timedelta(microseconds=at)).replace(tzinfo=None).isoformat(" ", "milliseconds")
