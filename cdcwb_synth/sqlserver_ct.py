"""A workload as SQL Server's change tables in files (``docs/formats/sqlserver-ct.md``), with its truth. Each version of
a table is a capture instance of its own, and a file."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from cdcwb_synth import model
from cdcwb_synth.catalogue import TableVersion
from cdcwb_synth.choices import COMPRESSIONS, option
from cdcwb_synth.compressed import ENDINGS
from cdcwb_synth.events import Load, Schema
from cdcwb_synth.history import Change, Committed
from cdcwb_synth.instants import EPOCH, microseconds
from cdcwb_synth.model import ChangeSource, Completeness, OffsetUnit, Operation, Outcome
from cdcwb_synth.parts import WHOLE, Part
from cdcwb_synth.qlik.truth_files import natural_key
from cdcwb_synth.sinks import ByteFile, TableFile
from cdcwb_synth.story_options import StoryOptions, same

__all__ = ["SqlServerCtEncoder", "SqlServerCtOptions"]

_HEADER: Final = ("__$start_lsn", "__$end_lsn", "__$seqval", "__$operation", "__$update_mask")
_BINARY: Final = frozenset({"__$start_lsn", "__$end_lsn", "__$seqval", "__$update_mask"})
_INSERT, _DELETE, _BEFORE, _AFTER = 2, 1, 3, 4

Texts = dict[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlServerCtOptions(StoryOptions):
    """What happens, and how the change tables are exported."""

    truncates: int = same("truncates", default=0, high=0)  # SQL Server refuses to truncate a captured table
    rows: str = option(
        "table", "rows of the change table, or of a function over it", of=("table", "all", "all update old")
    )
    commit_times: bool = option(True, "a column tran_end_time, joined from cdc.lsn_time_mapping")
    deferred_share: float = option(0.05, "share of the updates that are a DELETE and an INSERT", 0, 1)
    container: str = option("csv", "what holds the rows", of=("csv", "parquet"))
    compression: str = option("none", "compression of the files (parquet: of their pages)", of=COMPRESSIONS)
    overwrite: bool = same("overwrite")


@dataclass(slots=True, eq=False)
class _Instance:
    """A capture instance and its file."""

    version: TableVersion
    name: str
    header: tuple[str, ...]
    file: ByteFile | TableFile
    heading: int
    label: str = ""
    positions: list[str] = field(default_factory=list)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.version.columns)


@dataclass(slots=True)
class _Written:
    """A row: its place in the file, its record type, position and headers."""

    place: tuple[int, int]
    operation: int
    position: str
    headers: Texts


class SqlServerCtEncoder:
    """Writes a workload's history below ``folder``. ``records``: rows that were written so far."""

    def __init__(self, options: SqlServerCtOptions, seed: int, folder: Path, part: Part = WHOLE) -> None:
        self._options, self._folder, self._part = options, folder, part
        self._rng = Random(f"{seed} sqlserver-ct")
        self._instances: dict[tuple[int, int], _Instance] = {}
        self._changes: list[tuple[_Instance, dict[str, Any], list[_Written]]] = []
        self._transactions: list[dict[str, Any]] = []
        self._number = part.numbers(4)
        self.records = 0
        self.files: list[str] = []

    @property
    def changes(self) -> int:
        """How many changes were written so far."""
        return len(self._changes)

    @property
    def transactions(self) -> int:
        """How many transactions were written so far."""
        return len(self._transactions)

    def write(self, item: Schema | Load | Committed, at: datetime, done: int) -> None:
        """Write what comes next in a history, ``at`` this time, when ``done`` changes have happened."""
        if isinstance(item, Schema):
            self._instance(item.version)
        elif isinstance(item, Committed):
            self._committed(item)

    def _instance(self, version: TableVersion) -> _Instance:
        """The capture instance of a table version; that of the first version has the default name."""
        key = (version.table.label, version.number)
        if key in self._instances:
            return self._instances[key]
        options = self._options
        later = f"_v{version.number}" if version.number > 1 else ""
        is_parquet = options.container == "parquet"
        ending = ".parquet" if is_parquet else f".csv{ENDINGS[options.compression]}"
        name = f"{version.table.schema}_{version.table.name}{later}_CT{self._part.suffix}{ending}"
        of_table = options.rows == "table"
        first = _HEADER if of_table else tuple(one for one in _HEADER if one != "__$end_lsn")
        last = (*(("__$command_id",) if of_table else ()), *(("tran_end_time",) if options.commit_times else ()))
        names = (*first, *(column.name for column in version.columns), *last)
        path, heading = self._folder / "capture" / name, 0
        file: ByteFile | TableFile
        if is_parquet:
            types = [(one, pa.binary() if one in _BINARY else pa.string()) for one in names]
            file = TableFile(path, options.compression, pa.schema(types), 1000)
        else:
            file = ByteFile(path, options.compression)
            heading = file.put(_line(names))[1]
        self.files.append(name)
        made = self._instances[key] = _Instance(version, name, (*first, *last), file, heading)
        return made

    def _lsn(self) -> str:
        """The next LSN: virtual log file, block and slot, in hexadecimal digits."""
        self._number += 1
        return f"{39 + self._number // 1_000_000:08X}{self._number % 1_000_000:08X}{3 + self._number % 5:04X}"

    def _committed(self, item: Committed) -> None:
        ready = [one for one in item.changes if one.operation is not Operation.UPDATE or one.before != one.after]
        if not ready:
            return
        steps: list[tuple[Change, Operation, str, int]] = []  # change, operation, LSN, command
        for change in ready:
            lsn, command = self._lsn(), len(steps) + 1
            if change.operation is Operation.UPDATE and self._rng.random() < self._options.deferred_share:
                steps += [(change, Operation.DELETE, lsn, command), (change, Operation.INSERT, lsn, command + 1)]
            else:
                steps.append((change, change.operation, lsn, command))
        commit = self._lsn()
        at = microseconds(item.at) // 1000 * 1000
        done = [self._change(change, operation, commit, lsn, command, at) for change, operation, lsn, command in steps]
        counts: dict[str, int] = {}
        for _, row, _ in done:
            counts[row["operation"]] = counts.get(row["operation"], 0) + 1
        positions = [one.position for _, _, written in done for one in written]
        time = at if self._options.commit_times else None
        self._transactions.append(
            {
                "transaction_id": commit, "begin_position": min(positions), "end_position": max(positions),
                "began_at": time, "ended_at": None, "outcome": str(Outcome.COMMITTED),
                "completeness": str(Completeness.UNKNOWN), "changes": sorted(counts.items()),
                "tables": sorted({f"{one.version.table.schema}.{one.version.table.name}" for one, _, _ in done}),
                "bytes": sum(one.place[1] for _, _, written in done for one in written),
            }
        )  # fmt: skip
        self._changes += done

    def _change(
        self, change: Change, operation: Operation, commit: str, lsn: str, command: int, at: int
    ) -> tuple[_Instance, dict[str, Any], list[_Written]]:
        """Writes a change as its rows; returns what the truth has of it."""
        instance = self._instance(change.version)
        before, after = (
            None if row is None else [_text(value) for value in row] for row in (change.before, change.after)
        )
        count, mask = len(instance.columns), (1 << len(instance.columns)) - 1
        is_update = operation is Operation.UPDATE
        if is_update and before and after:
            mask = sum(1 << at for at in range(count) if before[at] != after[at])
        bits = mask.to_bytes(-(-count // 8), "big")

        def put(code: int, row: list[str | None]) -> _Written:
            binary = {"__$start_lsn": bytes.fromhex(commit), "__$seqval": bytes.fromhex(lsn), "__$update_mask": bits}
            others = {"__$operation": str(code), "__$command_id": str(command), "tran_end_time": _time(at)}
            position = "/".join([commit, *([f"{command:010}"] if "__$command_id" in instance.header else []), lsn])
            return self._put(instance, {**binary, **others}, row, code, position)

        written = []
        if is_update and self._options.rows != "all":
            written.append(put(_BEFORE, before or []))
        code = {Operation.INSERT: _INSERT, Operation.DELETE: _DELETE}.get(operation, _AFTER)
        has_before = operation is Operation.DELETE or (is_update and len(written) > 0)
        written.append(put(code, (before if code == _DELETE else after) or []))
        instance.positions.append(written[-1].position)
        columns = [name for place, name in enumerate(instance.columns) if mask >> place & 1]
        is_text = self._options.container == "csv"
        row: dict[str, Any] = {
            "operation": str(operation), "transaction_id": commit,
            "changed_at": at if self._options.commit_times else None,
            "change_mask": f"0x{bits.hex().upper()}" if is_text else bits.hex(),
            "changed_columns": columns if is_update else None,
            "change_source": str(ChangeSource.MASK) if is_update else None,
            "before": dict(zip(instance.columns, before or [], strict=True)) if has_before else None,
            "after": None if code == _DELETE else dict(zip(instance.columns, after or [], strict=True)),
        }  # fmt: skip
        return instance, row, written

    def _put(
        self, instance: _Instance, heads: dict[str, Any], row: list[str | None], code: int, position: str
    ) -> _Written:
        self.records += 1
        values = {name: heads.get(name) for name in instance.header} | dict(zip(instance.columns, row, strict=True))
        first = tuple(name for name in instance.header if name in _HEADER)
        names = (*first, *instance.columns, *instance.header[len(first) :])
        is_text = isinstance(instance.file, ByteFile)
        texts = {
            name: (f"0x{one.hex().upper()}" if is_text else one.hex()) if isinstance(one, bytes) else one
            for name, one in values.items()
        }
        if isinstance(instance.file, ByteFile):
            place = instance.file.put(_line([texts[name] for name in names]))
        else:
            place = instance.file.add([values[name] for name in names])
        return _Written(place, code, position, {name: texts[name] for name in instance.header})

    # --- truth --------------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Complete the files and the truth."""
        for one in self._instances.values():
            one.file.close()
        ordered = sorted(self._instances.values(), key=lambda one: natural_key(one.name))
        names = [one.name for one in ordered]
        shapes: dict[tuple[Any, ...], dict[str, Any]] = {}
        for one in ordered:
            table = one.version.table
            shape = (table.schema, table.name, one.columns)
            if shape not in shapes:
                number = 1 + sum(known[:2] == shape[:2] for known in shapes)
                kind = "string" if self._options.container == "parquet" else None
                place = {"file_index": names.index(one.name), "offset": 0, "length": one.heading}
                shapes[shape] = {
                    "table_version": f"{table.schema}.{table.name}@{number}",
                    "schema_name": table.schema, "table_name": table.name, "origin": "inferred",
                    "first_event": place if one.heading else None, "first_position": None,
                    "columns": [{"ordinal": at, "name": name, "type": kind} for at, name in enumerate(one.columns, 1)],
                }  # fmt: skip
            row = shapes[shape]
            one.label = row["table_version"]
            row["first_position"] = min(
                [*one.positions, *([row["first_position"]] if row["first_position"] else [])], default=None
            )
        rows = [self._truth(names.index(one.name), one, row, written) for one, row, written in self._changes]
        rows.sort(key=lambda row: (row["file_index"], row["offset"]))
        for name, found, schema in (
            ("changes", rows, model.CHANGES),
            ("transactions", self._transactions, model.TRANSACTIONS),
            ("table_versions", list(shapes.values()), model.TABLE_VERSIONS),
        ):
            table = pa.Table.from_pylist(found, schema=schema)
            pq.write_table(table, self._folder / "truth" / f"{name}.parquet", compression="zstd")

    def _truth(self, file: int, instance: _Instance, row: dict[str, Any], written: list[_Written]) -> dict[str, Any]:
        last = written[-1]
        unit = OffsetUnit.ROW if self._options.container == "parquet" else OffsetUnit.BYTE
        made = row | {
            "format": "sqlserver-ct", "file": instance.name, "file_index": file, "offset": last.place[0],
            "length": last.place[1], "offset_unit": str(unit), "record_type": str(last.operation), "kind": model.CHANGE,
            "position": last.position, "schema_name": instance.version.table.schema,
            "table_name": instance.version.table.name, "table_version": instance.label, "headers": last.headers,
            "source_events": [
                {"file_index": file, "offset": one.place[0], "length": one.place[1]} for one in written
            ],
            "outcome": str(Outcome.COMMITTED),
        }  # fmt: skip
        for name in ("before", "after", "headers"):
            made[name] = None if made[name] is None else list(made[name].items())
        return made


def _line(fields: Any) -> bytes:
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
    moment = EPOCH + timedelta(microseconds=at)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03}"
