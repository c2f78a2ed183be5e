"""The fields of exports: their names, roles, codes and meanings (docs/formats/goldengate.md §8)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

__all__ = [
    "OPERATIONS",
    "RESERVED",
    "Names",
    "field_meaning",
    "is_template",
    "names_of",
    "role_of",
    "role_of_header",
    "role_of_token",
    "token_meaning",
    "trans_ind",
]

OPERATIONS: Final = {
    "I": "INSERT",
    "U": "UPDATE",
    "D": "DELETE",
    "T": "TRUNCATE",
    "INSERT": "INSERT",
    "UPDATE": "UPDATE",
    "PKUPDATE": "UPDATE",
    "DELETE": "DELETE",
    "TRUNCATE": "TRUNCATE",
    "DDL": "DDL",
}
"""Operations as exports spell them, in capitals; what is not listed is ``UNKNOWN(x)``."""

_ROLES: Final = {
    "table": "table",
    "objectname": "table",
    "op_type": "operation",
    "optype": "operation",
    "op_ts": "time",
    "timestamp": "time",
    "current_ts": "current",
    "currenttimestamp": "current",
    "pos": "position",
    "position": "position",
    "primary_keys": "keys",
    "primarykeys": "keys",
    "primarykeycolumns": "keys",
    "tokens": "tokens",
    "alltokens": "tokens",
    "xid": "xid",
    "csn": "csn",
    "txind": "txind",
    "tx_ind": "txind",
    "seqno": "seqno",
    "rba": "rba",
    "rowid": "rowid",
    "opseqno": "opseqno",
    "op_seqno": "opseqno",
    "before": "before",
    "after": "after",
}
_XML_ROLES: Final = {"type": "operation", "ts": "time"}

RESERVED: Final = frozenset({"table", "op_type", "op_ts", "current_ts", "pos", "primary_keys", "tokens"})
"""Fields that are never columns of a message that models a row; other fields with a role are columns if they follow the
first column."""

_TEMPLATE: Final = re.compile(r"\$\{(\w+)(?:\[(\w+)\])?[^}]*\}\Z")
_PART: Final = re.compile(r'"((?:[^"]|"")*)"|([^.]+)')
_XID: Final = re.compile(r"(?i)(?:\A6|TRANID|XID|TRANSACTION_?ID)\Z")
_CSN: Final = re.compile(r"(?i)(?:\AL|CSN)\Z")
_TRANS_IND: Final = {"B": "0", "M": "1", "E": "2", "W": "3", "0": "0", "1": "1", "2": "2", "3": "3"}

_ROLE_MEANINGS: Final = {
    "table": "the table; its schema, if it has one, is the part up to the last dot",
    "time": "time of the change; without a zone unless one follows the time",
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
_OTHER_MEANINGS: Final = {
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
_TRANS_IND_MEANINGS: Final = {
    "0": "first record of its transaction",
    "1": "neither first nor last record of its transaction",
    "2": "last record of its transaction",
    "3": "only record of its transaction",
}


class Names(NamedTuple):
    """Schema and name of a table; None where the export has none."""

    schema: str | None
    table: str | None

    @property
    def label(self) -> str | None:
        """``schema.table``, or ``table``."""
        return self.table if self.schema is None or self.table is None else f"{self.schema}.{self.table}"


@lru_cache(maxsize=4096)
def names_of(text: str | None) -> Names:
    """``SCHEMA.TABLE`` split at the last dot (``PDB.SCHEMA.TABLE``: the schema is ``PDB.SCHEMA``), without quotes."""
    if not text:
        return Names(None, None)
    if '"' not in text:
        schema, dot, table = text.rpartition(".")
        return Names(schema if dot and schema else None, table or text)
    parts = [quoted.replace('""', '"') or bare for quoted, bare in _PART.findall(text)]
    parts = [part for part in parts if part]
    return Names(".".join(parts[:-1]) or None, parts[-1]) if parts else Names(None, text)


@lru_cache(maxsize=4096)
def role_of(name: str) -> str | None:
    """The role of a JSON field, also of ``${optype[op_type]}``; None for an unknown field."""
    found = _TEMPLATE.match(name)
    if found is None:
        return _ROLES.get(name)
    return _ROLES.get((found[2] or found[1]).lower()) or _ROLES.get(found[1].lower())


def role_of_header(name: str) -> str | None:
    """The role of a header, which is a JSON field or an XML attribute."""
    return _XML_ROLES.get(name) or role_of(name)


def is_template(name: str) -> bool:
    """Is the name a keyword of the template for meta columns, not replaced by its field?"""
    return _TEMPLATE.match(name) is not None


@lru_cache(maxsize=4096)
def role_of_token(name: str) -> str | None:
    """``xid`` for a token with the transaction's id, ``csn`` for one with the commit sequence number, else None."""
    return "xid" if _XID.search(name) else "csn" if _CSN.search(name) else None


def trans_ind(text: str | None) -> str | None:
    """A transaction indicator as a digit of TransInd (0 first, 1 middle, 2 last, 3 only); None for anything else."""
    return None if text is None else _TRANS_IND.get(text.upper())


def field_meaning(name: str, value: str | None) -> str:
    """The meaning of a header, in a sentence; empty for an unknown one."""
    role = role_of_header(name)
    if role == "operation":
        known = OPERATIONS.get((value or "").upper())
        return f"the operation: {known}" if known else "the operation, an unknown one"
    if role == "position":
        if value is not None and value.isascii() and value.isdigit() and len(value) <= 20:
            digits = value.zfill(20)
            return f"trail file {int(digits[:10])}, byte {int(digits[10:])}"
        return "trail sequence number and RBA"
    if role == "txind":
        meaning = "first, middle, last or only record of its transaction"
        return _TRANS_IND_MEANINGS.get(trans_ind(value) or "", meaning)
    return _OTHER_MEANINGS.get(name, "") if role is None else _ROLE_MEANINGS.get(role, "")


def token_meaning(name: str) -> str:
    """The meaning of a token of the trail record, in a sentence."""
    if name in ("R", "ORAROWID"):
        return _ROLE_MEANINGS["rowid"]
    return _ROLE_MEANINGS.get(role_of_token(name) or "", "a token of the trail record")
