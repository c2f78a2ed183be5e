"""A workload as SQL Server's change tables in files (``docs/formats/sqlserver-ct.md``). Each version of a table is a
capture instance of its own, and a file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, Final

import pyarrow as pa

from cdcwb_synth.catalogue import TableVersion
from cdcwb_synth.files import ENDINGS, ByteFile, TableFile
from cdcwb_synth.model import ChangeSource, OffsetUnit, Operation
from cdcwb_synth.options import Options, option, same
from cdcwb_synth.truth import EncoderContext, Place, Transaction, Version, blank_columns
from cdcwb_synth.values import EPOCH, microseconds
from cdcwb_synth.workload import Change, Committed, Schema

__all__ = ["SqlServerCtEncoder", "SqlServerCtOptions"]

_BINARY: Final = ("__$start_lsn", "__$end_lsn", "__$seqval", "__$update_mask")
_CODES: Final = {Operation.DELETE: 1, Operation.INSERT: 2, Operation.UPDATE: 4}
_BEFORE: Final = 3

Texts = dict[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlServerCtOptions(Options):
    """What happens, and how the change tables are exported."""

    truncates: int = same("truncates", default=0, high=0)  # SQL Server refuses to truncate a captured table
    rows: str = option(
        "table", "rows of the change table, or of a function over it", of=("table", "all", "all update old")
    )
    commit_times: bool = option(True, "a column tran_end_time, joined from cdc.lsn_time_mapping")
    deferred_share: float = option(0.05, "share of the updates that are a DELETE and an INSERT", 0, 1)
    container: str = option("csv", "what holds the rows", of=("csv", "parquet"))


@dataclass(frozen=True, slots=True, eq=False)
class _Instance:
    """A capture instance and its file."""

    names: tuple[str, ...]
    number: int
    file: ByteFile | TableFile
    version: Version


class SqlServerCtEncoder:
    """Writes a workload's history. ``records``: rows that were written so far."""

    def __init__(self, capture: EncoderContext) -> None:
        self._capture, self._options, self._truth = capture, capture.options, capture.truth
        self._is_text = self._options.container == "csv"
        if not self._is_text:
            self._truth.unit = OffsetUnit.ROW
        self._rng = Random(f"{capture.seed} sqlserver-ct")
        of_table = self._options.rows == "table"
        first = ("__$start_lsn", *(("__$end_lsn",) if of_table else ()), "__$seqval", "__$operation", "__$update_mask")
        last = ("__$command_id",) if of_table else ()
        self._heads = first, (*last, *(("tran_end_time",) if self._options.commit_times else ()))
        self._instances: dict[tuple[int, int], _Instance] = {}
        self._versions: dict[tuple[Any, ...], Version] = {}
        self._number = capture.part.numbers(4)
        self.records = 0

    def write(self, item: Schema | Change | Committed, done: int) -> None:
        """Writes what comes next in a history."""
        if isinstance(item, Schema):
            self._instance(item.version)
        elif isinstance(item, Committed):
            self._committed(item)

    def _instance(self, version: TableVersion) -> _Instance:
        """The capture instance of a table version; that of the first version has the default name."""
        table, names = version.table, tuple(column.name for column in version.columns)
        if (table.label, version.number) in self._instances:
            return self._instances[table.label, version.number]
        later = f"_v{version.number}" if version.number > 1 else ""
        compression = self._options.compression
        ending = f".csv{ENDINGS[compression]}" if self._is_text else ".parquet"
        name = f"{table.schema}_{table.name}{later}_CT{self._capture.part.suffix}{ending}"
        all_names = (*self._heads[0], *names, *self._heads[1])
        path, heading = self._capture.folder / "capture" / name, 0
        file: ByteFile | TableFile
        if self._is_text:
            file = ByteFile(path, compression)
            heading = file.put(_line(all_names))[1]
        else:
            types = [(one, pa.binary() if one in _BINARY else pa.string()) for one in all_names]
            file = TableFile(path, compression, pa.schema(types))
        number, shape = self._truth.file(name), (table.label, names)
        if shape not in self._versions:
            columns = blank_columns(names, type=None if self._is_text else "string")
            made = Version(None, table.schema, table.name, columns, "inferred", has_place=self._is_text)
            self._versions[shape] = self._truth.version(made)
        self._versions[shape].seen(Place(number, 0, heading))
        instance = _Instance(names, number, file, self._versions[shape])
        self._instances[table.label, version.number] = instance
        return instance

    def _lsn(self) -> str:
        """The next LSN: virtual log file, block and slot, in hexadecimal digits."""
        self._number += 1
        return f"{39 + self._number // 1_000_000:08X}{self._number % 1_000_000:08X}{3 + self._number % 5:04X}"

    def _committed(self, item: Committed) -> None:
        """A transaction's changes; an update that changes nothing is not captured, and one of a unique key is deferred:
        a DELETE and an INSERT."""
        steps: list[tuple[Change, Operation, str]] = []
        for change in item.changes:
            if change.operation is Operation.UPDATE and change.before == change.after:
                continue
            lsn, operations = self._lsn(), [change.operation]
            if change.operation is Operation.UPDATE and self._rng.random() < self._options.deferred_share:
                operations = [Operation.DELETE, Operation.INSERT]
            steps += [(change, operation, lsn) for operation in operations]
        if not steps:
            return
        commit, at = self._lsn(), microseconds(item.at) // 1000 * 1000
        transaction = self._truth.transaction(Transaction(commit))
        for command, (change, operation, lsn) in enumerate(steps, 1):
            self._change(change, operation, transaction, lsn, command, at)

    def _change(
        self, change: Change, operation: Operation, transaction: Transaction, lsn: str, command: int, at: int
    ) -> None:
        instance, commit = self._instance(change.version), transaction.transaction_id
        names = instance.names
        before, after = (
            None if row is None else dict(zip(names, map(_text, row), strict=True))
            for row in (change.before, change.after)
        )
        is_update = operation is Operation.UPDATE
        columns = [name for name in names if not (is_update and before and after) or before[name] != after[name]]
        mask = sum(1 << names.index(name) for name in columns).to_bytes(-(-len(names) // 8), "big")
        has_before = operation is Operation.DELETE or (is_update and self._options.rows != "all")
        position = "/".join([commit, *([f"{command:010}"] if "__$command_id" in self._heads[1] else []), lsn])
        heads: dict[str, Any] = {
            "__$start_lsn": bytes.fromhex(commit), "__$seqval": bytes.fromhex(lsn), "__$update_mask": mask,
            "__$command_id": str(command), "tran_end_time": _time(at),
        }  # fmt: skip
        rows = [(_BEFORE, before)] if is_update and has_before else []
        rows.append((_CODES[operation], before if operation is Operation.DELETE else after))
        places: list[Place] = []
        headers: Texts = {}
        for code, row in rows:
            place, headers = self._put(instance, heads | {"__$operation": str(code)}, row or {})
            places.append(place)
        time = at if self._options.commit_times else None
        transaction.covers(position, time)
        self._truth.change(
            {
                "record_type": str(rows[-1][0]), "operation": operation, "position": position, "changed_at": time,
                "change_mask": headers["__$update_mask"], "changed_columns": columns if is_update else None,
                "change_source": str(ChangeSource.MASK) if is_update else None,
                "before": before if has_before else None, "after": None if operation is Operation.DELETE else after,
                "headers": headers,
            },
            places,
            instance.version,
            transaction,
        )  # fmt: skip

    def _put(self, instance: _Instance, heads: dict[str, Any], row: Texts) -> tuple[Place, Texts]:
        """Writes a row; returns its place and its headers as text."""
        self.records += 1
        first, last = ([(name, heads.get(name)) for name in names] for names in self._heads)
        prefix = "0x" if self._is_text else ""
        texts = {
            name: prefix + (one.hex().upper() if prefix else one.hex()) if isinstance(one, bytes) else one
            for name, one in (*first, *last)
        }
        if isinstance(instance.file, ByteFile):
            names = [name for name, _ in first], [name for name, _ in last]
            fields = [*(texts[name] for name in names[0]), *row.values(), *(texts[name] for name in names[1])]
            place = instance.file.put(_line(fields))
        else:
            place = instance.file.put([*(one for _, one in first), *row.values(), *(one for _, one in last)])
        return Place(instance.number, *place), texts

    def finish(self) -> None:
        """Completes the files."""
        for one in self._instances.values():
            one.file.close()


def _line(fields: Iterable[str | None]) -> bytes:
    """A record of delimited text; NULL is an empty field, an empty text has quotes."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(["\0" if one == "" else one for one in fields])
    return out.getvalue().replace("\0", '""').encode()


def _text(value: Any) -> str | None:
    """A value as SQL Server prints it."""
    match value:
        case None:
            return None
        case bool():
            return "1" if value else "0"
        case bytes():
            return f"0x{value.hex().upper()}"
        case Decimal():
            return f"{value:f}"
        case datetime():
            return f"{value:%H:%M:%S}.{value.microsecond:06}" if value.year == 1 else value.isoformat(" ")
        case date():
            return value.isoformat()
        case _:
            return str(value)


def _time(at: int) -> str:
    """A time in microseconds since 1970 as ``datetime`` is printed, in milliseconds."""
    return (EPOCH + timedelta(microseconds=at)).replace(tzinfo=None).isoformat(" ", "milliseconds")
