"""Arrow tables as tables of a database server."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tests.live.databases import Database

__all__ = ["create", "insert", "statements"]

_AT_ONCE = 500


def create(database: Database, name: str, table: pa.Table, **kinds: str) -> None:
    """A table (``schema.table`` or ``table``) with the columns of an Arrow table and its rows; ``kinds`` are types of
    columns that are not those of Arrow."""
    is_mariadb = database.name == "mariadb"
    columns = ", ".join(
        f"{_quoted(database, one.name)} {kinds.get(one.name) or _kind(one.type, is_mariadb)}" for one in table.schema
    )
    schema = name.rpartition(".")[0]
    first = [f"CREATE SCHEMA IF NOT EXISTS {schema}"] if schema else []
    database.run(*first, f"DROP TABLE IF EXISTS {name}", f"CREATE TABLE {name} ({columns})")
    insert(database, name, table)


def insert(database: Database, name: str, table: pa.Table) -> None:
    """Adds the rows of an Arrow table."""
    if len(table):
        database.run(*statements(database, name, table))


def statements(database: Database, name: str, table: pa.Table) -> list[str]:
    """What adds the rows of an Arrow table."""
    names = ", ".join(_quoted(database, one) for one in table.column_names)
    rows = [f"({', '.join(_literal(database, one) for one in row.values())})" for row in table.to_pylist()]
    return [
        f"INSERT INTO {name} ({names}) VALUES {', '.join(rows[first : first + _AT_ONCE])}"
        for first in range(0, len(rows), _AT_ONCE)
    ]


def _quoted(database: Database, name: str) -> str:
    return f"`{name}`" if database.name == "mariadb" else f'"{name}"'


def _kind(kind: pa.DataType, is_mariadb: bool) -> str:
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        zoned, bare = ("timestamp(6) NULL", "datetime(6)") if is_mariadb else ("timestamptz", "timestamp")
        return zoned if kind.tz else bare
    kinds = {
        "string": ("longtext", "text"),
        "binary": ("longblob", "bytea"),
        "bool": ("varchar(5)", "boolean"),  # MariaDB has none: its BOOLEAN is a TINYINT
        "int8": ("smallint", "smallint"),
        "int16": ("smallint", "smallint"),
        "int32": ("int", "int"),
        "int64": ("bigint", "bigint"),
        "float": ("float", "real"),
        "double": ("double", "double precision"),
        "date32[day]": ("date", "date"),
    }
    return kinds[str(kind)][not is_mariadb]


def _literal(database: Database, value: Any) -> str:
    is_mariadb = database.name == "mariadb"
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return f"'{str(value).lower()}'"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'" if is_mariadb else f"'\\x{value.hex()}'"
    if isinstance(value, dt.datetime) and is_mariadb and value.tzinfo is not None:
        return f"'{value.astimezone(dt.timezone(dt.timedelta(hours=5))).replace(tzinfo=None)}'"  # the server's zone
    if isinstance(value, str) and is_mariadb:
        value = value.replace("\\", "\\\\")
    if isinstance(value, int | Decimal):
        return str(value)
    return "'" + str(value).replace("'", "''") + "'"
