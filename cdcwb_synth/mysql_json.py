"""A workload as the JSON messages of Maxwell's daemon (``docs/formats/maxwell.md``) or of Canal
(``docs/formats/canal.md``). A line is a message; Maxwell's have a key before it."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import groupby, pairwise
from typing import Any, Final

import msgspec

from cdcwb_synth.catalogue import TableVersion
from cdcwb_synth.encoder import Encoder, EncoderContext, delivered
from cdcwb_synth.files import ENDINGS, ByteFile
from cdcwb_synth.model import Operation
from cdcwb_synth.options import Options, option, same
from cdcwb_synth.truth import Location, Transaction, Version, column_rows
from cdcwb_synth.values import Column, Type, microseconds
from cdcwb_synth.workload import Change, Committed, Row, Schema

_TYPES: Final = {
    Type.INTEGER: "int", Type.INT8: "bigint", Type.FLOAT: "double", Type.SMALLFLOAT: "float", Type.BOOLEAN: "tinyint",
    Type.INTERVAL: "varchar", Type.LVARCHAR: "text",
}  # fmt: skip
_GTID: Final = "7d2e6a80-51a4-11f0-9c1b-0242ac120002:1-"
_MOST_ROWS: Final = 3  # of a message of Canal

Body = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxwellOptions(Options):
    """What happens, and how Maxwell writes it."""

    truncates: int = same("truncates", default=0, high=0)  # Maxwell writes none
    refresh_rows: int = option(0, "rows of the bootstrap that every table begins with", 0, 10_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class CanalOptions(Options):
    """What happens; Canal writes it in one way."""

    late: int = same("late", high=0)  # nothing but their order gives the position of messages


class _JsonEncoder(Encoder[dict[str, str]]):
    """Writes a history. ``tables`` has the types of the columns, ``records`` counts messages."""

    def __init__(self, capture: EncoderContext) -> None:
        super().__init__(capture)
        name = f"{self.truth.format}.txt{ENDINGS[self.options.compression]}"
        self._file = ByteFile(self.folder / name, self.options.compression)
        self.truth.file(name)
        self._number = 0

    def finish(self) -> None:
        """Completes the file."""
        self._file.close()

    def _put(self, body: Body, key: Body | None = None) -> Location:
        self.records += 1
        line = b"" if key is None else _json(key) + b"\t"
        return Location(0, *self._file.put(line + _json(body) + b"\n"))

    def _version(self, version: TableVersion, types: dict[str, str], key: str | None) -> Version:
        """The table, whose columns these are too; a new type replaces an old one."""
        table, label = version.table, f"{version.table.full_name}@1"
        made = Version(label, table.schema, table.name, [], "inferred", has_location=False)
        made = self.truth.version(made, label)
        columns = {column["name"]: column for column in made.columns}
        for name, kind in types.items():
            if name not in columns:
                (columns[name],) = column_rows([name])
                columns[name]["ordinal"] = len(columns)
                made.columns.append(columns[name])
            columns[name] |= {"type": kind} | ({"key_position": 1} if name == key else {})
        return made

    def _change(
        self, change: Change, location: Location, body: Body, types: dict[str, str], transaction: Transaction | None,
        **own: Any,
    ) -> None:  # fmt: skip
        """Adds a change to the truth; ``own`` are columns of its transaction."""
        key, at = change.version.table.key, body["es"] * 1000 if "es" in body else body["ts"] * 1_000_000
        before, after = _image(change, change.before), _image(change, change.after)
        row = after or before
        if transaction is not None:
            transaction.covers(own["position"], at)
        headers = {
            name: value if value is None or isinstance(value, str) else _json(value).decode()
            for name, value in body.items() if name not in ("data", "old", "mysqlType", "sqlType")
        }  # fmt: skip
        facts: dict[str, Any] = {
            "record_type": body["type"], "operation": change.operation, "changed_at": at, "before": before,
            "after": after, "key": row and {key: row[key]}, "headers": headers,
            "outcome": None if change.operation is Operation.REFRESH else "committed", **own,
        }  # fmt: skip
        self.truth.change(facts, [location], self._version(change.version, types, key if row else None), transaction)


class MaxwellEncoder(_JsonEncoder):
    """Writes Maxwell's messages."""

    def _position(self) -> tuple[str, str]:
        """The next position, as Maxwell writes it and as text in log order."""
        self._number += 1
        file, offset = f"binlog.{7 + self._number // 10_000_000:06}", 157 + self._number % 10_000_000 * 100
        return f"{file}:{offset}", f"{file}:{offset:010}"

    def table(self, item: Schema, done: int) -> dict[str, str]:
        """Writes the definition of a table."""
        version, table = item.version, item.version.table
        types = {one.name: _TYPES.get(one.type, one.type.value) for one in version.columns}
        columns = [{"type": kind, "name": name} for name, kind in types.items()]
        verb = "create" if version.number == 1 else "alter"
        definition = {"database": table.schema, "charset": "utf8mb4", "table": table.name, "columns": columns}
        self._put(
            {
                "type": f"table-{verb}", "database": table.schema, "table": table.name,
                "def": {**definition, "primary-key": [table.key]}, "ts": microseconds(item.at) // 1000,
                "sql": f"{verb.upper()} TABLE {table.name} …", "position": self._position()[0],
            },
            {"database": table.schema, "table": table.name, "_uuid": f"{self._number:032x}"},
        )  # fmt: skip
        self._version(version, types, table.key)
        return types

    def load(self, item: Change) -> None:
        """Writes a row of the bootstrap."""
        body, key = self._message("bootstrap-insert", item)
        self._change(item, self._put(body, key), body, self.tables[item.version], None, position=None)

    def _message(self, kind: str, change: Change, **own: Any) -> tuple[Body, Body]:
        """A message without ``old``, and its key."""
        table = change.version.table
        row = dict(zip(change.version.names, map(_value, change.after or change.before or ()), strict=True))
        body = {"database": table.schema, "table": table.name, "type": kind, "ts": microseconds(change.at) // 1_000_000}
        key = {"database": table.schema, "table": table.name, f"pk.{table.key.lower()}": row[table.key]}
        return {**body, **own, "data": row}, key

    def commit(self, item: Committed, done: int) -> None:
        """Writes the changes of a transaction."""
        ready = _effective(item)
        if not ready:
            return
        xid = 40_000 + item.ordinal
        made = Transaction(str(xid), completeness="complete" if len(ready) > 1 else "unknown")
        transaction = self.truth.transaction(made)
        steps = ((one, at, self._position()) for at, one in enumerate(ready, 1))
        for change, number, (written, position) in delivered(steps):
            is_last = number == len(ready)
            end = {"commit": True} if is_last else {"xoffset": number - 1}
            kind = str(change.operation).lower()
            body, key = self._message(kind, change, xid=xid, **end, position=written, server_id=23042)
            if change.before and change.after:
                both = zip(change.version.names, change.before, change.after, strict=True)
                body["old"] = {name: _value(old) for name, old, new in both if old != new}
            self._change(
                change, self._put(body, key), body, self.tables[change.version], transaction, position=position,
                event_no=None if is_last else number, last_in_transaction=is_last,
            )  # fmt: skip
            transaction.commit_position = position


class CanalEncoder(_JsonEncoder):
    """Writes Canal's messages."""

    def table(self, item: Schema, done: int) -> dict[str, str]:
        """Writes the statement that makes a table version."""
        version, verb = item.version, "CREATE" if item.version.number == 1 else "ALTER"
        self._put(self._message(verb, version, item.at, f"{verb} TABLE {version.table.name} …", ""))
        self._version(version, {}, None)
        return {column.name: _spelled(column) for column in version.columns}

    def _message(self, kind: str, version: TableVersion, at: datetime, sql: str, gtid: str) -> Body:
        self._number += 1
        time = microseconds(at) // 1_000_000 * 1000
        return {
            "data": None, "database": version.table.schema, "es": time, "gtid": gtid, "id": self._number,
            "isDdl": bool(sql), "mysqlType": None, "old": None, "pkNames": None if sql else [version.table.key],
            "sql": sql, "sqlType": None, "table": version.table.name, "ts": time + 437, "type": kind,
        }  # fmt: skip

    def commit(self, item: Committed, done: int) -> None:
        """Writes the changes of a transaction: those of one operation and table together."""
        gtid = f"{_GTID}{1 + item.ordinal}"
        transaction = None
        for (operation, version), group in groupby(_effective(item), key=lambda one: (one.operation, one.version)):
            changes = list(group)
            if operation is Operation.TRUNCATE:
                for change in changes:
                    body = self._message("TRUNCATE", version, change.at, f"TRUNCATE TABLE {version.table.name}", "")
                    self._change(change, self._put(body), body, {}, None, position=f"{self._number:020}")
                continue
            transaction = transaction or self.truth.transaction(Transaction(gtid))
            for start in range(0, len(changes), _MOST_ROWS):
                self._rows(changes[start : start + _MOST_ROWS], transaction)

    def _rows(self, changes: Sequence[Change], transaction: Transaction) -> None:
        """Writes changes of one operation and table version as a message."""
        version, operation = changes[0].version, changes[0].operation
        names, types = version.names, self.tables[version]
        body = self._message(str(operation), version, changes[0].at, "", transaction.transaction_id)
        body["data"] = rows = [_image(one, one.after or one.before) for one in changes]
        if operation is Operation.UPDATE:
            pairs = [list(zip(names, one.before or (), one.after or (), strict=True)) for one in changes]
            written = {name for pair in pairs for name, old, new in pair if old != new}
            body["old"] = [{name: _text(old) for name, old, _ in pair if name in written} for pair in pairs]
        body["mysqlType"], body["sqlType"] = types, dict.fromkeys(names, 12)
        _, start, length = self._put(body)
        ends, at = [], 8  # the first row follows {"data":[
        for row in rows:
            ends.append(at := at + 1 + len(_json(row)))
        for change, (begin, end) in zip(changes, pairwise([0, *ends[:-1], length]), strict=True):
            location = Location(0, start + begin, end - begin)
            self._change(change, location, body, types, transaction, position=f"{self._number:020}")


def _effective(item: Committed) -> list[Change]:
    """The changes of a transaction without updates that change nothing."""
    return [one for one in item.changes if one.operation is not Operation.UPDATE or one.before != one.after]


def _image(change: Change, row: Row | None) -> dict[str, str | None] | None:
    return None if row is None else dict(zip(change.version.names, map(_text, row), strict=True))


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value)


def _spelled(column: Column) -> str:
    """A type as MySQL spells it."""
    kind = _TYPES.get(column.type, column.type.value)
    return f"{kind}({column.length})" if kind in ("char", "varchar") and column.length else kind


_TEXTS: Final[dict[type, Any]] = {
    bool: lambda value: str(int(value)), bytes: lambda value: base64.b64encode(value).decode(), Decimal: "{:f}".format,
    datetime: lambda value: str(value.replace(tzinfo=None)), float: lambda value: _json(value).decode(),
}  # fmt: skip


def _text(value: Any) -> str | None:
    """A value as text."""
    return None if value is None else _TEXTS.get(type(value), str)(value)


def _value(value: Any) -> Any:
    """A value in Maxwell's messages: numbers with their digits, others as text."""
    is_number = isinstance(value, (bool, int, float, Decimal))
    return msgspec.Raw((_text(value) or "").encode()) if is_number else _text(value)
