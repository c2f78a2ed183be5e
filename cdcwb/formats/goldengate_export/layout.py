"""The names in GoldenGate's JSON messages and XML files, and what they mean (docs/formats/goldengate.md §8)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

OPERATIONS: Final = {
    **dict.fromkeys(("I", "INSERT"), "INSERT"),
    **dict.fromkeys(("U", "UPDATE", "PKUPDATE", "UPSERT"), "UPDATE"),
    **dict.fromkeys(("D", "DELETE"), "DELETE"),
    **dict.fromkeys(("T", "TRUNCATE"), "TRUNCATE"),
    "DDL": "DDL",
}
"""Operations in the spelling of exports, in capitals."""

TRANS_IND: Final = {"B": "0", "M": "1", "E": "2", "W": "3", "0": "0", "1": "1", "2": "2", "3": "3"}
"""Transaction indicators as digits of TransInd: 0 first, 1 middle, 2 last, 3 only record of a transaction."""

_FIELDS: Final = {
    "table": ("table", "objectname", "qual_table"),
    "operation": ("op_type", "optype"),
    "time": ("op_ts", "timestamp"),
    "current": ("current_ts", "currenttimestamp"),
    "position": ("pos", "position"),
    "keys": ("primary_keys", "primarykeys", "primarykeycolumns"),
    "tokens": ("tokens", "alltokens"),
    "txind": ("txind", "tx_ind"),
    "opseqno": ("opseqno", "op_seqno"),
    **{name: (name,) for name in ("xid", "csn", "seqno", "rba", "rowid", "before", "after")},
}
_ROLES: Final = {name: role for role, names in _FIELDS.items() for name in names}
_ATTRIBUTES: Final = {"type": "operation", "ts": "time"}

RESERVED: Final = frozenset({"table", "qual_table", "op_type", "op_ts", "current_ts", "pos", "primary_keys", "tokens"})
"""Fields that are never columns of a message that models a row; other fields with a role are columns if they follow the
first column."""

_TEMPLATE: Final = re.compile(r"\$\{(\w+)(?:\[(\w+)\])?[^}]*\}\Z")
_XID: Final = re.compile(r"(?i)(?:\A6|TRANID|XID|TRANSACTION_?ID)\Z")
_CSN: Final = re.compile(r"(?i)(?:\AL|CSN)\Z")

_MEANINGS: Final = {
    "table": "the table; its schema, if it has one, is the part up to the last dot",
    "time": "time of the change; without a zone unless one follows the time",
    "current": "time at which the exporting process created the message",
    "position": "trail sequence number and RBA",
    "keys": "names of the key columns; all columns if the table has no key",
    "tokens": "tokens of the trail record, by name",
    "xid": "id of the transaction",
    "csn": "commit sequence number of the transaction",
    "txind": "first, middle, last or only record of its transaction",
    "seqno": "sequence number of the trail file",
    "rba": "offset of the record in the trail file, in bytes",
    "rowid": "row id of the row in the source database",
    "opseqno": "number of the operation in its transaction",
    "before": "the before image; null, empty or absent if there is none",
    "after": "the after image; null, empty or absent if there is none",
    # without a role
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


@lru_cache(maxsize=4096)
def role_of(name: str, is_header: bool = False) -> str | None:
    """The role of a JSON field, also of ``${optype[op_type]}``, or of a header, which may be an XML attribute; None for
    an unknown one."""
    found = _TEMPLATE.match(name)
    if found is not None:
        return _ROLES.get((found[2] or found[1]).lower()) or _ROLES.get(found[1].lower())
    return (_ATTRIBUTES.get(name) if is_header else None) or _ROLES.get(name)


def is_template(name: str) -> bool:
    """Whether the name is a keyword of the template for meta columns that was not replaced by its field."""
    return _TEMPLATE.match(name) is not None


@lru_cache(maxsize=4096)
def token_role(name: str) -> str | None:
    """``xid`` for a token with the transaction's id, ``csn`` for one with the commit sequence number, else None."""
    return "xid" if _XID.search(name) else "csn" if _CSN.search(name) else None


def field_meaning(name: str, value: str | None) -> str:
    """The meaning of a header, in a sentence; empty for an unknown one."""
    role = role_of(name, is_header=True)
    if role == "operation":
        return f"the operation: {OPERATIONS.get((value or '').upper(), 'unknown')}"
    if role == "position" and value and value.isascii() and value.isdigit() and len(value) <= 20:
        return f"trail file {int(value.zfill(20)[:10])}, byte {int(value.zfill(20)[10:])}"
    return _MEANINGS.get(role or name, "")


def token_meaning(name: str) -> str:
    """The meaning of a token of the trail record, in a sentence."""
    role = "rowid" if name in ("R", "ORAROWID") else token_role(name)
    return _MEANINGS[role] if role else "a token of the trail record"
