"""What the fields of exports mean, a sentence each (docs/formats/goldengate.md §8)."""

from __future__ import annotations

from typing import Final

from cdcwb.formats.goldengate.exports.names import OPERATIONS, role_of, role_of_token, trans_ind

__all__ = ["field_meaning", "token_meaning"]

_ROLES: Final = {
    "table": "the table; its schema, if it has one, is the part up to the last dot",
    "current": "time at which the exporting process created the message",
    "keys": "names of the key columns; all columns if the table has no key",
    "tokens": "tokens of the trail record, by name",
    "xid": "id of the transaction",
    "csn": "commit sequence number of the transaction",
    "seqno": "sequence number of the trail file",
    "rba": "offset of the record in the trail file, in bytes",
    "rowid": "row id of the row in the source database",
    "opseqno": "number of the operation in its transaction",
    "before": "the before image; null, empty or absent if there is none",
    "after": "the after image; null, empty or absent if there is none",
}
_XML: Final = {
    "type": "operation",
    "ts": "time",
    "timestamp": "time",
}
_OTHERS: Final = {
    "numCols": "number of columns in the record",
    "image": "before: the before image of an update; the after image follows",
    "index": "index of the column in the table, from 0",
    "key": "true: the column is part of the key",
    "status": "null: the value is NULL",
    "missing": "true: the column is not in the record (not the same as NULL)",
    "isNull": "true: the value is NULL",
    "schema": "Kafka Connect's schema of what is in payload",
    "payload": "the message that Kafka Connect wrapped",
}
_PLACES: Final = {
    "0": "first record of its transaction",
    "1": "neither first nor last record of its transaction",
    "2": "last record of its transaction",
    "3": "only record of its transaction",
}


def field_meaning(name: str, value: str | None) -> str:
    """What a field beside a row says."""
    role = role_of(name) or _XML.get(name)
    if role == "operation":
        known = OPERATIONS.get((value or "").upper())
        return f"the operation: {known}" if known else "the operation, an unknown one"
    if role == "time":
        return "time of the change; without a zone unless one follows the time"
    if role == "position":
        if value is not None and value.isascii() and value.isdigit() and len(value) <= 20:
            digits = value.zfill(20)
            return f"trail file {int(digits[:10])}, byte {int(digits[10:])}"
        return "trail sequence number and RBA"
    if role == "txind":
        return _PLACES.get(trans_ind(value) or "", "first, middle, last or only record of its transaction")
    return _ROLES.get(role or "") or _OTHERS.get(name, "")


def token_meaning(name: str) -> str:
    """What a token of the trail record says."""
    known = {"xid": "id of the transaction", "csn": "commit sequence number of the transaction"}
    if name in ("R", "ORAROWID"):
        return "row id of the row in the source database"
    return known.get(role_of_token(name) or "", "a token of the trail record")
