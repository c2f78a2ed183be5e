"""A workload as the JSON messages of Maxwell's daemon (``docs/formats/maxwell.md``) or of Canal
(``docs/formats/canal.md``). A line is a message; Maxwell's have a key before it."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import groupby, pairwise
from typing import Any, Final

import msgspec

from cdcwb_synth.catalogue import TableVersion
from cdcwb_synth.files import ENDINGS, ByteFile
from cdcwb_synth.model import Completeness, Operation
from cdcwb_synth.options import Options, option, same
from cdcwb_synth.truth import EncoderContext, Place, Transaction, Version, blank_columns
from cdcwb_synth.values import Column, Type, microseconds
from cdcwb_synth.workload import Change, Committed, Schema

__all__ = ["CanalEncoder", "CanalOptions", "MaxwellEncoder", "MaxwellOptions"]

_TYPES: Final = {
    Type.INTEGER: "int", Type.INT8: "bigint", Type.FLOAT: "double", Type.SMALLFLOAT: "float", Type.BOOLEAN: "tinyint",
    Type.INTERVAL: "varchar", Type.LVARCHAR: "text",
}  # fmt: skip
_GTID: Final = "7d2e6a80-51a4-11f0-9c1b-0242ac120002:1-"
_MOST_ROWS: Final = 3  # of a message of Canal

Body = dict[str, Any]
Texts = dict[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxwellOptions(Options):
    """What happens, and how Maxwell writes it."""

    truncates: int = same("truncates", default=0, high=0)  # Maxwell writes none
    refresh_rows: int = option(0, "rows of the bootstrap that every table begins with", 0, 10_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class CanalOptions(Options):
    """What happens; Canal writes it in one way."""


class _Encoder:
    """Writes a history. ``records``: messages that were written so far."""

    def __init__(self, capture: EncoderContext) -> None:
        self._truth, self._part = capture.truth, capture.part
        name = f"{self._truth.format}{self._part.suffix}.txt{ENDINGS[capture.options.compression]}"
        self._file = ByteFile(capture.folder / "capture" / name, capture.options.compression)
        self._truth.file(name)
        self._number = self._part.numbers(4)
        self._versions: dict[str, Version] = {}
        self.records = 0

    def _put(self, body: Body, key: Body | None = None) -> Place:
        self.records += 1
        line = b"" if key is None else _json(key) + b"\t"
        return Place(0, *self._file.put(line + _json(body) + b"\n"))

    def _version(self, version: TableVersion, types: Texts, key: str | None) -> Version:
        """The table, whose columns these are too; a new type replaces one that is known."""
        table = version.table
        label = f"{table.schema}.{table.name}@1"
        if label not in self._versions:
            made = Version(label, table.schema, table.name, [], "inferred", has_place=False)
            self._versions[label] = self._truth.version(made)
        found = self._versions[label]
        known = {column["name"]: column for column in found.columns}
        for name, kind in types.items():
            if name not in known:
                (known[name],) = blank_columns([name])
                found.columns.append(known[name])
                known[name]["ordinal"] = len(found.columns)
            known[name]["type"] = kind or known[name]["type"]
            known[name]["key_position"] = 1 if name == key else known[name]["key_position"]
        return found

    def _change(
        self, change: Change, place: Place, body: Body, types: Texts, transaction: Transaction | None, **own: Any
    ) -> None:
        """Adds a change to the truth; ``own`` are columns of its transaction."""
        table, at = change.version.table, body["es"] * 1000 if "es" in body else body["ts"] * 1_000_000
        names = [column.name for column in change.version.columns]
        before, after = (
            None if row is None else dict(zip(names, map(_text, row), strict=True))
            for row in (change.before, change.after)
        )
        some = after or before
        if transaction is not None:
            transaction.covers(own["position"], at)
        headers = {
            name: value if value is None or isinstance(value, str) else _json(value).decode()
            for name, value in body.items() if name not in ("data", "old", "mysqlType", "sqlType")
        }  # fmt: skip
        self._truth.change(
            {
                "record_type": body["type"], "operation": change.operation, "changed_at": at, "before": before,
                "after": after, "key": None if some is None else {table.key: some[table.key]}, "headers": headers,
                "outcome": None if change.operation is Operation.REFRESH else "committed", **own,
            },
            [place],
            self._version(change.version, types, table.key if some else None),
            transaction,
        )  # fmt: skip

    def finish(self) -> None:
        """Completes the file."""
        self._file.close()


class MaxwellEncoder(_Encoder):
    """Writes Maxwell's messages."""

    def _position(self) -> tuple[str, str]:
        """The next position, as Maxwell writes it and as text in log order."""
        self._number += 1
        file, offset = f"binlog.{7 + self._number // 10_000_000:06}", 157 + self._number % 10_000_000 * 100
        return f"{file}:{offset}", f"{file}:{offset:010}"

    def write(self, item: Schema | Change | Committed, done: int) -> None:
        """Writes what comes next in a history."""
        match item:
            case Schema() if not (self._part.is_continued and item.version.number == 1):
                self._definition(item.version, item.at)
            case Change():
                body, key = self._message("bootstrap-insert", item)
                self._change(item, self._put(body, key), body, self._types(item.version), None, position=None)
            case Committed():
                self._committed(item)

    def _types(self, version: TableVersion) -> Texts:
        return {one.name: _TYPES.get(one.type, one.type.value) for one in version.columns}

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
        self._version(version, types, table.key)

    def _message(self, kind: str, change: Change, **own: Any) -> tuple[Body, Body]:
        """A message without ``old``, and its key."""
        table, names = change.version.table, [column.name for column in change.version.columns]
        row = dict(zip(names, map(_value, change.after or change.before or ()), strict=True))
        body = {"database": table.schema, "table": table.name, "type": kind, "ts": microseconds(change.at) // 1_000_000}
        key = {"database": table.schema, "table": table.name, f"pk.{table.key.lower()}": row[table.key]}
        return {**body, **own, "data": row}, key

    def _committed(self, item: Committed) -> None:
        ready = [one for one in item.changes if one.operation is not Operation.UPDATE or one.before != one.after]
        if not ready:
            return
        complete = Completeness.COMPLETE if len(ready) > 1 else Completeness.UNKNOWN
        xid = 40_000 + item.ordinal + self._part.numbers(1)
        transaction = self._truth.transaction(Transaction(str(xid), completeness=complete))
        for number, change in enumerate(ready):
            written, position = self._position()
            is_last = number == len(ready) - 1
            end = {"commit": True} if is_last else {"xoffset": number}
            kind = str(change.operation).lower()
            body, key = self._message(kind, change, xid=xid, **end, position=written, server_id=23042)
            if change.operation is Operation.UPDATE and change.before and change.after:
                both = zip(change.version.columns, change.before, change.after, strict=True)
                body["old"] = {column.name: _value(old) for column, old, new in both if old != new}
            self._change(
                change, self._put(body, key), body, self._types(change.version), transaction, position=position,
                event_no=None if is_last else number + 1, last_in_transaction=is_last,
            )  # fmt: skip
            transaction.commit_position = position


class CanalEncoder(_Encoder):
    """Writes Canal's messages."""

    def write(self, item: Schema | Change | Committed, done: int) -> None:
        """Writes what comes next in a history."""
        match item:
            case Schema(version) if not (self._part.is_continued and version.number == 1):
                verb = "CREATE" if version.number == 1 else "ALTER"
                self._put(self._message(verb, version, item.at, f"{verb} TABLE {version.table.name} …", ""))
                self._version(version, {}, None)
            case Committed():
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
        gtid = f"{_GTID}{1 + item.ordinal + self._part.numbers(1)}"
        ready = [one for one in item.changes if one.operation is not Operation.UPDATE or one.before != one.after]
        transaction = None
        for (operation, version), same_table in groupby(ready, key=lambda one: (one.operation, one.version)):
            some = list(same_table)
            if operation is Operation.TRUNCATE:
                for change in some:
                    body = self._message("TRUNCATE", version, change.at, f"TRUNCATE TABLE {version.table.name}", "")
                    self._change(change, self._put(body), body, {}, None, position=f"{self._number:020}")
                continue
            transaction = transaction or self._truth.transaction(Transaction(gtid))
            for start in range(0, len(some), _MOST_ROWS):
                self._rows_of(some[start : start + _MOST_ROWS], transaction)

    def _rows_of(self, some: list[Change], transaction: Transaction) -> None:
        """Writes changes of one operation and table version as a message."""
        version, operation = some[0].version, some[0].operation
        names = [column.name for column in version.columns]
        body = self._message(str(operation), version, some[0].at, "", transaction.transaction_id)
        body["data"] = [dict(zip(names, map(_text, one.after or one.before or ()), strict=True)) for one in some]
        if operation is Operation.UPDATE:
            pairs = [list(zip(names, one.before or (), one.after or (), strict=True)) for one in some]
            written = {name for pair in pairs for name, old, new in pair if old != new}
            body["old"] = [{name: _text(old) for name, old, _ in pair if name in written} for pair in pairs]
        types: Texts = {column.name: _spelled(column) for column in version.columns}
        body["mysqlType"], body["sqlType"] = types, dict.fromkeys(names, 12)
        _, start, length = self._put(body)
        ends, at = [], 8  # the first row follows {"data":[
        for row in body["data"]:
            ends.append(at := at + 1 + len(_json(row)))
        for change, (begin, end) in zip(some, pairwise([0, *ends[:-1], length]), strict=True):
            place = Place(0, start + begin, end - begin)
            self._change(change, place, body, types, transaction, position=f"{self._number:020}")


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
    """A value in Maxwell's messages: numbers with their digits, others as text."""
    is_number = isinstance(value, (bool, int, float, Decimal))
    return msgspec.Raw((_text(value) or "").encode()) if is_number else _text(value)
