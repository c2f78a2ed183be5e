"""The format ``maxwell``: the JSON messages of Maxwell's daemon (docs/formats/maxwell.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from cdcwb.formats.json_messages import JsonMessages, changed_at
from cdcwb.model import Kind, Operation, Problem

_ROWS: Final = {
    "insert": Operation.INSERT,
    "update": Operation.UPDATE,
    "delete": Operation.DELETE,
    "bootstrap-insert": Operation.REFRESH,
}
_DEFINITIONS: Final = re.compile("(?:database|table)-(?:create|alter|drop)")
_MARKS: Final = ("bootstrap-start", "bootstrap-complete")
_NOT_HEADERS: Final = frozenset({"data", "old", "def"})
_MOST: Final = 1 << 62
_POSITION: Final = re.compile(r"(.+):(\d+)", re.ASCII)


class Maxwell(JsonMessages):
    """Reads the topics, files and logs that Maxwell's daemon writes (docs/formats/maxwell.md)."""

    name = "maxwell"
    owner = "Maxwell's"
    meanings: Mapping[str, str] = {
        "database": "database of the table",
        "table": "table",
        "type": "insert, update, delete; bootstrap-… of a snapshot; table-… and database-… of DDL",
        "ts": "time of the change: seconds since 1970 UTC; of DDL milliseconds",
        "xid": "id of the transaction",
        "xoffset": "number of the row in its transaction, from 0; the last row has commit instead",
        "commit": "true: last row of its transaction",
        "position": "file of the binlog and offset in it",
        "gtid": "GTIDs of the transactions up to this one",
        "server_id": "the MySQL server that accepted the transaction",
        "thread_id": "the connection that made the change",
        "schema_id": "Maxwell's number of the schema",
        "push_ts": "when Maxwell sent the message: seconds since 1970 UTC",
        "query": "the statement that changed the row",
        "comment": "of the message",
        "primary_key": "values of the key columns",
        "primary_key.*": "value of a key column",
        "primary_key_columns": "names of the key columns",
        "primary_key_columns.*": "name of a key column",
        "data": "the row after the change; of a delete before it",
        "data.*": "a column",
        "old": "columns that the update changed, before it; of DDL the table before it",
        "old.*": "a column before the update",
        "def": "the table after the DDL statement",
        "sql": "the DDL statement",
        "encrypted": "the row, encrypted",
    }

    def claims(self, body: Mapping[str, Any]) -> bool:
        """See :meth:`JsonMessages.claims`: ``database``, a whole number as ``ts``, and a type of Maxwell's."""
        kind = body.get("type")
        is_known = kind in (*_ROWS, *_MARKS) or (isinstance(kind, str) and bool(_DEFINITIONS.fullmatch(kind)))
        is_message = isinstance(body.get("ts"), int) and isinstance(body.get("database"), str)
        return is_known and is_message and "isDdl" not in body

    def event(self, body: Mapping[str, Any], options: Mapping[str, str]) -> Mapping[str, Any]:
        """See :meth:`JsonMessages.event`."""
        if not self.claims(body):
            found = {name: body.get(name) for name in ("database", "type", "ts")}
            raise ValueError(f"expected a database, a type such as insert, and a number as ts, found {found!r:.200}")
        kind = body["type"]
        is_definition = kind not in _ROWS and kind not in _MARKS
        event: dict[str, Any] = {
            "kind": Kind.CONTROL,
            "record_type": kind,
            "position": _position(body.get("position")),
            **changed_at(body["ts"] * (1 if is_definition else 1000)),
            "schema_name": body["database"] or None,
            "table_name": str(body.get("table") or "") or None,
            "headers": {name: value for name, value in body.items() if name not in _NOT_HEADERS},
        }
        if is_definition:
            event |= {"kind": Kind.SCHEMA, "operation": Operation.DDL, **_described(body.get("def") or {})}
        elif kind in _ROWS:
            event |= {"kind": Kind.CHANGE, "operation": _ROWS[kind], **_images(kind, body)}
            if kind == "bootstrap-insert":
                event["position"] = None
            elif body.get("xid") is not None:
                number, is_last = body.get("xoffset"), bool(body.get("commit"))
                event["transaction_id"], event["last_in_transaction"] = str(body["xid"]), is_last
                event["event_no"] = number + 1 if isinstance(number, int) and 0 <= number < _MOST else None
                event["commit_position"] = event["position"] if is_last else None
        return event

    def keyed(self, event: dict[str, Any], key: Any) -> Mapping[str, Any]:
        """See :meth:`JsonMessages.keyed`. Both forms of Maxwell's key have database, table, and names of key columns in
        lower case: ``{"database": …, "table": …, "pk.id": 4}`` and ``["database", "table", [{"id": 4}]]``."""
        match key:
            case {"database": str(database), "table": str(table)}:
                columns = {name[3:]: value for name, value in key.items() if name.startswith("pk.")}
            case [str(database), str(table), [*pairs]] if all(isinstance(pair, dict) for pair in pairs):
                columns = {name: value for pair in pairs for name, value in pair.items()}
            case _:
                return event
        if event["kind"] == Kind.TOMBSTONE:
            event |= {"schema_name": database or None, "table_name": table or None}
        if columns and event.get("key") is None and event["kind"] in (Kind.TOMBSTONE, Kind.CHANGE):
            spelled = {name.lower(): name for name in event.get("after") or event.get("before") or ()}
            event["key"] = {spelled.get(name, name): value for name, value in columns.items()}
        return event


def _position(position: Any) -> str | None:
    """A position as text whose order is that of the binlog: ``master.000006:0000800911``."""
    found = _POSITION.fullmatch(position) if isinstance(position, str) else None
    return None if found is None else f"{found[1]}:{int(found[2]):010}"


def _images(kind: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The images and the key of a row."""
    if "data" not in body and "encrypted" in body:
        return {"problems": [{"code": str(Problem.VALUE), "detail": "the row is encrypted; it has no images"}]}
    row, old = body.get("data"), body.get("old") or {}
    if not isinstance(row, dict) or not isinstance(old, dict):
        raise ValueError(f"expected objects in data and old, found {row!r:.40} and {old!r:.40}")
    row |= {name: None for name in old if name not in row}  # without output_nulls
    key = {str(name): row.get(name) for name in body.get("primary_key_columns") or ()} or None
    before = row if kind == "delete" else {**row, **old} if kind == "update" else None
    return {"key": key, "before": before, "after": None if kind == "delete" else row}


def _described(table: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a table as its definition has them."""
    columns: Sequence[Mapping[str, Any]] = table.get("columns") or ()
    types = {str(one["name"]): f"{one['type']}{' unsigned' if one.get('signed') is False else ''}" for one in columns}
    return {"types": types, "key_columns": [str(name) for name in table.get("primary-key") or ()]}
