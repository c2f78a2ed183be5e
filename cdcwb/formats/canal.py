"""The format ``canal``: the flat JSON messages of Canal, and what Alibaba DTS, TiCDC and others write in its format
(docs/formats/canal.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from cdcwb.formats.json_messages import JsonMessages, changed_at
from cdcwb.formats.messages.connect import plain
from cdcwb.model import Kind, Operation, Problem

_ROWS: Final = {"INSERT": Operation.INSERT, "UPDATE": Operation.UPDATE, "DELETE": Operation.DELETE}
_STATEMENT: Final = re.compile("CREATE|ALTER|ERASE|QUERY|TRUNCATE|RENAME|CINDEX|DINDEX|GTID|XA(?:COMMIT|ROLLBACK)")
_WATERMARK: Final = "TIDB_WATERMARK"
_NOT_HEADERS: Final = frozenset({"data", "old", "sqlType", "mysqlType"})
_SECONDS: Final = 100_000_000_000
"""A time below is in seconds, others are in milliseconds (docs/formats/canal.md §2)."""


class Canal(JsonMessages):
    """Reads topics and files of Canal's flat messages (docs/formats/canal.md)."""

    name = "canal"
    owner = "Canal's"
    arrays = ("data", "old")
    meanings: Mapping[str, str] = {
        "id": "number of the batch in which Canal delivered the message",
        "database": "database of the table",
        "table": "table",
        "pkNames": "names of the key columns",
        "pkNames.*": "name of a key column",
        "isDdl": "true: a DDL statement",
        "type": "INSERT, UPDATE, DELETE, or the kind of statement",
        "es": "time of the change in the source: milliseconds since 1970 UTC",
        "ts": "time when Canal made the message: milliseconds since 1970 UTC",
        "sql": "the statement; empty for rows",
        "sqlType": "the JDBC type of each column",
        "sqlType.*": "number of a JDBC type",
        "mysqlType": "the type of each column in the source",
        "mysqlType.*": "type of a column",
        "data": "the rows after the change; of a DELETE before it",
        "old": "for each row of an UPDATE, columns that it changed, before it",
        "gtid": "GTIDs of the transactions up to this one",
        "_tidb": "what TiCDC adds",
        "_tidb.commitTs": "TSO of the commit",
        "_tidb.watermarkTs": "TSO up to which all messages were sent",
    }

    def claims(self, body: Mapping[str, Any]) -> bool:
        """See :meth:`JsonMessages.claims`: a type of Canal's in upper case, and rows or ``isDdl``."""
        kind = body.get("type")
        if not isinstance(kind, str) or kind in _ROWS:
            return isinstance(kind, str) and isinstance(body.get("data"), list)
        return kind == _WATERMARK or ("isDdl" in body and bool(_STATEMENT.fullmatch(kind)))

    def event(self, body: Mapping[str, Any], options: Mapping[str, str]) -> Mapping[str, Any]:
        """See :meth:`JsonMessages.event`."""
        if not self.claims(body):
            found = {name: body.get(name) for name in ("type", "isDdl", "data")}
            raise ValueError(f"expected a type such as INSERT, and data or isDdl, found {found!r:.200}")
        kind, time, batch = body["type"], body.get("es"), body.get("id")
        tidb = body.get("_tidb") or {}
        number = tidb.get("commitTs", tidb.get("watermarkTs")) or batch
        event: dict[str, Any] = {
            "kind": Kind.SCHEMA,
            "operation": Operation.DDL,
            "record_type": kind,
            "position": f"{number:020}" if isinstance(number, int) and number > 0 else None,
            "schema_name": _text(body.get("database")),
            "table_name": _text(body.get("table")),
            "headers": {name: value for name, value in body.items() if name not in _NOT_HEADERS},
        }
        if time:
            event |= changed_at(time * 1000 if time < _SECONDS else time)
        if kind == _WATERMARK:
            return event | {"kind": Kind.HEARTBEAT, "operation": None, "table_name": None}
        if kind in _ROWS:
            event |= {"kind": Kind.CHANGE, "operation": _ROWS[kind], "transaction_id": _text(body.get("gtid"))}
            return event | _rows(kind, body, event.get("problems") or [])
        if kind == "TRUNCATE":
            return event | {"kind": Kind.CHANGE, "operation": Operation.TRUNCATE}
        return event if body["isDdl"] else event | {"kind": Kind.CONTROL, "operation": None}


def _text(value: Any) -> str | None:
    """A text; None for an empty one."""
    return None if value in (None, "") else plain(value)


def _rows(kind: str, body: Mapping[str, Any], problems: list[dict[str, str]]) -> dict[str, Any]:
    """Images, key and types of one row."""
    rows, olds = body["data"], body.get("old")
    if len(rows) != 1 or not isinstance(rows[0], dict):
        raise ValueError(f"expected an array of objects in data, found {rows!r:.40}")
    row, key, before = rows[0], body.get("pkNames") or (), None
    if kind == "UPDATE":
        if isinstance(olds, list) and len(olds) == 1 and isinstance(olds[0], dict):
            before = {**row, **olds[0]}
        else:
            detail = f"old: expected an object for each row in data, found {olds!r:.40}; the row before is unknown"
            problems = [*problems, {"code": str(Problem.VALUE), "detail": detail}]
    return {
        "key": {str(name): row.get(name) for name in key} or None,
        "before": row if kind == "DELETE" else before,
        "after": None if kind == "DELETE" else row,
        "types": {name: str(spelled) for name, spelled in (body.get("mysqlType") or {}).items()},
        "key_columns": [str(name) for name in key],
        "problems": problems or None,
    }
