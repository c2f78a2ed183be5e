"""A workload as the JSON messages of Maxwell's daemon (``docs/formats/maxwell.md``) or of Canal
(``docs/formats/canal.md``), with its truth. A line is a message; Maxwell's have a key before it."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from cdcwb_synth import model
from cdcwb_synth.catalogue import TableVersion
from cdcwb_synth.choices import COMPRESSIONS, option
from cdcwb_synth.compressed import ENDINGS
from cdcwb_synth.events import Load, Schema
from cdcwb_synth.history import Change, Committed
from cdcwb_synth.instants import microseconds
from cdcwb_synth.model import ChangeSource, Completeness, OffsetUnit, Operation, Outcome
from cdcwb_synth.parts import WHOLE, Part
from cdcwb_synth.sinks import ByteFile
from cdcwb_synth.story_options import StoryOptions, same
from cdcwb_synth.values import Column, Type

__all__ = ["CanalEncoder", "CanalOptions", "MaxwellEncoder", "MaxwellOptions"]

_TYPES: Final = {
    Type.INTEGER: "int", Type.INT8: "bigint", Type.FLOAT: "double", Type.SMALLFLOAT: "float", Type.BOOLEAN: "tinyint",
    Type.INTERVAL: "varchar", Type.LVARCHAR: "text",
}  # fmt: skip
_GTID: Final = "7d2e6a80-51a4-11f0-9c1b-0242ac120002:1-"

Body = dict[str, Any]
Texts = dict[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxwellOptions(StoryOptions):
    """What happens, and how Maxwell writes it."""

    truncates: int = same("truncates", default=0, high=0)  # Maxwell writes none
    refresh_rows: int = option(0, "rows of the bootstrap that every table begins with", 0, 10_000_000)
    ddl: bool = option(True, "messages about table definitions (output_ddl)")
    compression: str = option("none", "compression of the file", of=COMPRESSIONS)
    overwrite: bool = same("overwrite")


@dataclass(frozen=True, slots=True, kw_only=True)
class CanalOptions(StoryOptions):
    """What happens, and how Canal writes it."""

    rows_of_message: int = option(3, "most rows of a message", 1, 10_000)
    gtid: bool = option(True, "the field gtid")
    compression: str = option("none", "compression of the file", of=COMPRESSIONS)
    overwrite: bool = same("overwrite")


class _Encoder:
    """Writes a history below ``folder``. ``records``: messages that were written so far."""

    format: str

    def __init__(self, options: Any, seed: int, folder: Path, part: Part = WHOLE) -> None:
        self._options, self._folder, self._part = options, folder, part
        self.name = f"{self.format}{part.suffix}.txt{ENDINGS[options.compression]}"
        self._file = ByteFile(folder / "capture" / self.name, options.compression)
        self._number = part.numbers(4)
        self._rows: list[Body] = []
        self._transactions: list[Body] = []
        self._versions: dict[str, Body] = {}
        self.records = 0

    @property
    def changes(self) -> int:
        """How many changes were written so far."""
        return len(self._rows)

    @property
    def transactions(self) -> int:
        """How many transactions were written so far."""
        return len(self._transactions)

    def _put(self, body: Body, key: Body | None = None) -> tuple[int, int]:
        self.records += 1
        line = b"" if key is None else _json(key) + b"\t"
        return self._file.put(line + _json(body) + b"\n")

    def _describe(self, version: TableVersion, position: str | None, types: Texts, key: str | None) -> str:
        """The label of a table, whose columns these are too; a new type replaces one that is known."""
        table = version.table
        label = f"{table.schema}.{table.name}@1"
        row = self._versions.setdefault(
            label,
            {
                "table_version": label, "schema_name": table.schema, "table_name": table.name, "origin": "inferred",
                "columns": [], "first_position": None,
            },
        )  # fmt: skip
        known = {column["name"]: column for column in row["columns"]}
        for name, kind in types.items():
            if name not in known:
                known[name] = {"ordinal": len(known) + 1, "name": name, "type": None, "key_position": None}
                row["columns"].append(known[name])
            known[name]["type"] = kind or known[name]["type"]
            known[name]["key_position"] = 1 if name == key else known[name]["key_position"]
        found = [one for one in (row["first_position"], position) if one is not None]
        row["first_position"] = min(found, default=None)
        return label

    def _change(self, change: Change, place: tuple[int, int], body: Body, types: Texts, **own: Any) -> None:
        """Adds a change to the truth; ``own`` are columns of its transaction."""
        table, at = change.version.table, body["es"] * 1000 if "es" in body else body["ts"] * 1_000_000
        names = [column.name for column in change.version.columns]
        images = [
            None if row is None else dict(zip(names, map(_text, row), strict=True))
            for row in (change.before, change.after)
        ]
        label = self._describe(change.version, own["position"], types, table.key if images != [None, None] else None)
        before, after = images
        differing = [name for name in names if before and after and before[name] != after[name]]
        is_update, some = change.operation is Operation.UPDATE, after or before
        self._rows.append(
            {
                "format": self.format, "file": self.name, "file_index": 0, "offset": place[0], "length": place[1],
                "offset_unit": str(OffsetUnit.BYTE), "record_type": body["type"], "kind": model.CHANGE,
                "operation": str(change.operation), "changed_at": at, "schema_name": table.schema,
                "table_name": table.name, "table_version": label, "before": images[0], "after": images[1],
                "key": None if some is None else {table.key: some[table.key]},
                "changed_columns": differing if is_update else None,
                "change_source": str(ChangeSource.IMAGES) if is_update else None,
                "headers": {n: v if v is None else v if isinstance(v, str) else _json(v).decode()
                            for n, v in body.items() if n not in ("data", "old", "mysqlType", "sqlType")},
                "source_events": [{"file_index": 0, "offset": place[0], "length": place[1]}],
                "outcome": None if change.operation is Operation.REFRESH else str(Outcome.COMMITTED), **own,
            }
        )  # fmt: skip

    def _transaction(self, name: str, rows: list[Body], completeness: Completeness) -> None:
        """Adds a transaction to the truth, whose changes are these."""
        positions = [row["position"] for row in rows]
        counts: dict[str, int] = {}
        for row in rows:
            counts[row["operation"]] = counts.get(row["operation"], 0) + 1
        self._transactions.append(
            {
                "transaction_id": name, "begin_position": min(positions), "end_position": max(positions),
                "began_at": min(row["changed_at"] for row in rows), "outcome": str(Outcome.COMMITTED),
                "completeness": str(completeness), "changes": sorted(counts.items()),
                "tables": sorted({row["table_version"].removesuffix("@1") for row in rows}),
                "bytes": sum(row["length"] for row in rows),
            }
        )  # fmt: skip

    def finish(self) -> None:
        """Complete the file and the truth."""
        self._file.close()
        for row in self._rows:
            for name in ("key", "before", "after", "headers"):
                row[name] = None if row[name] is None else list(row[name].items())
        for name, found, schema in (
            ("changes", self._rows, model.CHANGES),
            ("transactions", self._transactions, model.TRANSACTIONS),
            ("table_versions", list(self._versions.values()), model.TABLE_VERSIONS),
        ):
            table = pa.Table.from_pylist(found, schema=schema)
            pq.write_table(table, self._folder / "truth" / f"{name}.parquet", compression="zstd")


class MaxwellEncoder(_Encoder):
    """Writes Maxwell's messages."""

    format = "maxwell"

    def _position(self) -> tuple[str, str]:
        """The next position, as Maxwell writes it and as text in log order."""
        self._number += 1
        file, offset = f"binlog.{7 + self._number // 10_000_000:06}", 157 + self._number % 10_000_000 * 100
        return f"{file}:{offset}", f"{file}:{offset:010}"

    def write(self, item: Schema | Load | Committed, at: datetime, done: int) -> None:
        """Write what comes next in a history, ``at`` this time, when ``done`` changes have happened."""
        if isinstance(item, Schema):
            if self._options.ddl and not (self._part.is_continued and item.version.number == 1):
                self._definition(item.version, at)
        elif isinstance(item, Load):
            change = Change(Operation.REFRESH, item.version, None, item.row, at)
            body, key = self._message("bootstrap-insert", change)
            self._change(change, self._put(body, key), body, self._types(item.version), position=None)
        else:
            self._committed(item)

    def _types(self, version: TableVersion) -> Texts:
        """The types of columns, if messages about definitions give them."""
        has_types = self._options.ddl
        return {one.name: _TYPES.get(one.type, one.type.value) if has_types else None for one in version.columns}

    def _definition(self, version: TableVersion, at: datetime) -> None:
        table, types = version.table, self._types(version)
        columns = [{"type": kind, "name": name} for name, kind in types.items()]
        verb = "create" if version.number == 1 else "alter"
        definition = {"database": table.schema, "charset": "utf8mb4", "table": table.name, "columns": columns}
        self._put(
            {
                "type": f"table-{verb}", "database": table.schema, "table": table.name,
                "def": {**definition, "primary-key": [table.key]}, "ts": microseconds(at) // 1000,
                "sql": f"{verb.upper()} TABLE {table.name} …", "position": self._position()[0],
            },
            {"database": table.schema, "table": table.name, "_uuid": f"{self._number:032x}"},
        )  # fmt: skip
        self._describe(version, None, types, table.key)

    def _message(self, kind: str, change: Change, **own: Any) -> tuple[Body, Body]:
        """A message without ``old``, and its key."""
        table, names = change.version.table, [column.name for column in change.version.columns]
        row = dict(zip(names, map(_value, change.after or change.before or ()), strict=True))
        body = {"database": table.schema, "table": table.name, "type": kind, "ts": microseconds(change.at) // 1_000_000}
        key = {"database": table.schema, "table": table.name, f"pk.{table.key.lower()}": row[table.key]}
        return {**body, **own, "data": row}, key

    def _committed(self, item: Committed) -> None:
        ready = [one for one in item.changes if one.operation is not Operation.UPDATE or one.before != one.after]
        first, xid = len(self._rows), str(40_000 + item.ordinal + self._part.numbers(1))
        for number, change in enumerate(ready):
            written, position = self._position()
            is_last = number == len(ready) - 1
            end = {"commit": True} if is_last else {"xoffset": number}
            body, key = self._message(
                str(change.operation).lower(), change, xid=int(xid), **end, position=written, server_id=23042
            )
            if change.operation is Operation.UPDATE and change.before and change.after:
                both = zip(change.version.columns, change.before, change.after, strict=True)
                body["old"] = {column.name: _value(old) for column, old, new in both if old != new}
            self._change(
                change, self._put(body, key), body, self._types(change.version), position=position,
                transaction_id=xid, event_no=None if is_last else number + 1, last_in_transaction=is_last,
            )  # fmt: skip
        if ready:
            for row in self._rows[first:]:
                row["commit_position"] = self._rows[-1]["position"]
            complete = Completeness.COMPLETE if len(ready) > 1 else Completeness.UNKNOWN
            self._transaction(xid, self._rows[first:], complete)


class CanalEncoder(_Encoder):
    """Writes Canal's messages."""

    format = "canal"

    def write(self, item: Schema | Load | Committed, at: datetime, done: int) -> None:
        """Write what comes next in a history, ``at`` this time, when ``done`` changes have happened."""
        if isinstance(item, Schema) and not (self._part.is_continued and item.version.number == 1):
            verb = "CREATE" if item.version.number == 1 else "ALTER"
            self._put(self._message(verb, item.version, at, f"{verb} TABLE {item.version.table.name} …", ""))
            self._describe(item.version, None, {}, None)
        elif isinstance(item, Committed):
            self._committed(item)

    def _message(self, kind: str, version: TableVersion, at: datetime, sql: str, gtid: str) -> Body:
        self._number += 1
        time = microseconds(at) // 1_000_000 * 1000
        return {
            "data": None, "database": version.table.schema, "es": time, "gtid": gtid, "id": self._number,
            "isDdl": bool(sql), "mysqlType": None, "old": None, "pkNames": None if sql else [version.table.key],
            "sql": sql, "sqlType": None, "table": version.table.name, "ts": time + 437, "type": kind,
        }  # fmt: skip

    def _committed(self, item: Committed) -> None:
        first, gtid = (
            len(self._rows),
            f"{_GTID}{1 + item.ordinal + self._part.numbers(1)}" if self._options.gtid else "",
        )
        ready = [one for one in item.changes if one.operation is not Operation.UPDATE or one.before != one.after]
        for (operation, version), same_table in groupby(ready, key=lambda one: (one.operation, one.version)):
            some = list(same_table)
            if operation is Operation.TRUNCATE:
                for change in some:
                    body = self._message("TRUNCATE", version, change.at, f"TRUNCATE TABLE {version.table.name}", "")
                    self._change(change, self._put(body), body, {}, position=f"{self._number:020}")
                continue
            for start in range(0, len(some), self._options.rows_of_message):
                self._rows_of(some[start : start + self._options.rows_of_message], gtid)
        rows = [row for row in self._rows[first:] if row.get("transaction_id")]
        if rows:
            self._transaction(gtid, rows, Completeness.UNKNOWN)

    def _rows_of(self, some: list[Change], gtid: str) -> None:
        """Writes changes of one operation and table version as a message."""
        version, operation = some[0].version, some[0].operation
        names = [column.name for column in version.columns]
        body = self._message(str(operation), version, some[0].at, "", gtid)
        body["data"] = [dict(zip(names, map(_text, one.after or one.before or ()), strict=True)) for one in some]
        if operation is Operation.UPDATE:
            pairs = [list(zip(names, one.before or (), one.after or (), strict=True)) for one in some]
            written = {name for pair in pairs for name, old, new in pair if old != new}
            body["old"] = [{name: _text(old) for name, old, _ in pair if name in written} for pair in pairs]
        types: Texts = {column.name: _spelled(column) for column in version.columns}
        body["mysqlType"], body["sqlType"] = types, dict.fromkeys(names, 12)
        start, length = self._put(body)
        ends, at = [], 8  # the first row follows {"data":[
        for row in body["data"]:
            ends.append(at := at + 1 + len(_json(row)))
        bounds = [0, *ends[:-1], length]
        for change, (begin, end) in zip(some, pairwise(bounds), strict=True):
            self._change(
                change, (start + begin, end - begin), body, types, position=f"{self._number:020}",
                transaction_id=gtid or None,
            )  # fmt: skip


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value)


def _spelled(column: Column) -> str:
    """A type as MySQL spells it."""
    kind = _TYPES.get(column.type, column.type.value)
    return f"{kind}({column.length})" if kind in ("char", "varchar") and column.length else kind


def _text(value: Any) -> str | None:
    """A value as text."""
    match value:
        case None | str():
            return value
        case bool():
            return str(int(value))
        case bytes():
            return base64.b64encode(value).decode()
        case Decimal():
            return f"{value:f}"
        case datetime():
            return str(value.replace(tzinfo=None))
        case float():
            return _json(value).decode()
        case _:
            return str(value)


def _value(value: Any) -> Any:
    """A value in Maxwell's JSON: numbers with their digits, others as text."""
    is_number = isinstance(value, (bool, int, float, Decimal))
    return msgspec.Raw((_text(value) or "").encode()) if is_number else _text(value)
