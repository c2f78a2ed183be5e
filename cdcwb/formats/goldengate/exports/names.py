"""What the fields around a row are called, and what they say (docs/formats/goldengate.md §8)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

__all__ = ["OPERATIONS", "Names", "is_csn", "is_xid", "names_of", "role_of", "role_of_token", "trans_ind"]

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

ROLES: Final = {
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
"""What a field beside a row is for."""

PLAIN: Final = frozenset({"table", "op_type", "op_ts", "current_ts", "pos", "primary_keys", "tokens"})
"""Names that are no columns wherever they stand; others of :data:`ROLES` are columns behind the first column."""

_TEMPLATE: Final = re.compile(r"\$\{(\w+)(?:\[(\w+)\])?[^}]*\}\Z")
_PART: Final = re.compile(r'"((?:[^"]|"")*)"|([^.]+)')
_XID: Final = re.compile(r"(?i)(?:\A6|TRANID|XID|TRANSACTION_?ID)\Z")
_CSN: Final = re.compile(r"(?i)(?:\AL|CSN)\Z")
_TRANS_IND: Final = {"B": "0", "M": "1", "E": "2", "W": "3", "0": "0", "1": "1", "2": "2", "3": "3"}


class Names(NamedTuple):
    """A table by its names; None where there is none."""

    schema: str | None
    table: str | None

    @property
    def label(self) -> str | None:
        """``schema.table``, or ``table``."""
        return self.table if self.schema is None or self.table is None else f"{self.schema}.{self.table}"


@lru_cache(maxsize=4096)
def names_of(text: str | None) -> Names:
    """``SCHEMA.TABLE`` parted at the last dot (``PDB.SCHEMA.TABLE``: the schema is ``PDB.SCHEMA``), without quotes."""
    if not text:
        return Names(None, None)
    if '"' not in text:
        schema, dot, table = text.rpartition(".")
        return Names(schema if dot and schema else None, table or text)
    parts = [quoted.replace('""', '"') or plain for quoted, plain in _PART.findall(text)]
    parts = [part for part in parts if part]
    return Names(".".join(parts[:-1]) or None, parts[-1]) if parts else Names(None, text)


@lru_cache(maxsize=4096)
def role_of(name: str) -> str | None:
    """What the field of this name is for; of ``${optype[op_type]}`` too. None: nothing that is known."""
    found = _TEMPLATE.match(name)
    if found is None:
        return ROLES.get(name)
    return ROLES.get((found[2] or found[1]).lower()) or ROLES.get(found[1].lower())


def is_template(name: str) -> bool:
    """Is the name a keyword of the template that names meta columns, as it stands there?"""
    return _TEMPLATE.match(name) is not None


def is_xid(name: str) -> bool:
    """Does the token of this name hold the transaction's id?"""
    return _XID.search(name) is not None


def is_csn(name: str) -> bool:
    """Does the token of this name hold the commit sequence number?"""
    return _CSN.search(name) is not None


def role_of_token(name: str) -> str | None:
    """``xid``, ``csn`` or None."""
    return "xid" if is_xid(name) else "csn" if is_csn(name) else None


def trans_ind(text: str | None) -> str | None:
    """A transaction indicator as a digit of TransInd (0 first, 1 between, 2 last, 3 only); None for anything else."""
    return None if text is None else _TRANS_IND.get(text.upper())
