"""Small event logs in every container, for tests of the format ``idm-event-log``."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq

from cdcwb.formats.idm_event_log.layout import COLUMNS, OLDER_ORDER

__all__ = ["COLUMNS", "CONTAINERS", "Row", "as_csv", "as_jsonl", "as_sql", "ordered", "rows", "write"]

Row = dict[str, str | None]
CONTAINERS = ("csv", "tsv", "older", "bare", "sql", "json", "array", "parquet", "xlsx")
_VALUES = ("Jack", "John", "O'Brien", "Müller", 'say "hi"', "a;b,c", "two\nlines", "NULL", "", " blank ", "qqo=", "李")


def rows(count: int, seed: int = 1) -> list[Row]:
    """Good rows of every type, with awkward values."""
    rng = random.Random(seed)
    found: list[Row] = []
    for number in range(1, count + 1):
        kind = rng.randint(1, 8)
        key = rng.choice([f"idu={rng.randint(1, 9)}", f'name="a, b"+no={rng.randint(1, 9)}', f"idu={number}"])
        row: Row = dict.fromkeys(COLUMNS)
        row.update(record_id=str(number * 2), table_key=key, status=rng.choice("NNNNSWEF"), event_type=str(kind))
        row.update(event_time=f"2024-01-{number % 28 + 1:02} 10:11:12.123456", table_name=rng.choice(["usr", "i.usr"]))
        row["perpetrator"] = rng.choice([None, "jdoe"])
        if kind in (1, 2, 3, 7, 8):
            row["column_name"] = rng.choice(["fname", "lname", "photo"])
        if kind in (1, 2, 3):
            row["old_value"] = rng.choice([None, *_VALUES]) if kind != 1 else None
            row["new_value"] = rng.choice(_VALUES)
        found.append(row)
    return found


def ordered(found: Sequence[Row], names: Sequence[str]) -> list[list[str | None]]:
    """The values of rows in the order of some columns."""
    return [[row[name] for name in names] for row in found]


def as_csv(
    found: Sequence[Row], names: Sequence[str] = COLUMNS, header: Sequence[str] | None = COLUMNS, delimiter: str = ","
) -> bytes:
    """Delimited text by RFC 4180; NULL is an empty field without quotes, an empty text is quoted."""
    lines = []
    for line in ([list(header)] if header else []) + ordered(found, names):
        for field in line:
            bare = field is not None and field != "" and not set(field) & {delimiter, '"', "\n", "\r"}
            lines.append("" if field is None else field if bare else '"' + field.replace('"', '""') + '"')
            lines.append(delimiter)
        lines[-1] = "\n"
    return "".join(lines).encode()


def as_sql(found: Sequence[Row], columns: bool = True, together: int = 3, table: str = "indirect.eventlog") -> bytes:
    """INSERT statements of several rows, after a comment and a statement of another table."""
    parts = ["-- made for a test; don't read\nSET DEFINE OFF;\nINSERT INTO other VALUES (1, 'x');\n"]
    listed = f" ({', '.join(COLUMNS)})" if columns else ""
    for first in range(0, len(found), together):
        values = [_tuple(row) for row in found[first : first + together]]
        parts.append(f"INSERT INTO {table}{listed} VALUES " + ",\n".join(values) + ";\n")
    parts.append("COMMIT;\n")
    return "".join(parts).encode()


def _tuple(row: Row) -> str:
    fields = []
    for name in COLUMNS:
        value = row[name]
        if value is None:
            fields.append("NULL")
        elif name in ("record_id", "event_type") and value.isdigit():
            fields.append(value)
        else:
            quoted = "'" + value.replace("'", "''") + "'"
            fields.append(f"TIMESTAMP {quoted}" if name == "event_time" else quoted)
    return f"({','.join(fields)})"


def as_jsonl(found: Sequence[Row]) -> bytes:
    """An object a line."""
    return "".join(json.dumps(_typed(row), ensure_ascii=False) + "\n" for row in found).encode()


def _typed(row: Row) -> dict[str, Any]:
    numbers = {name: int(row[name] or 0) for name in ("record_id", "event_type") if (row[name] or "").isdigit()}
    return {**row, **numbers}


def write(folder: Path, container: str, found: Sequence[Row]) -> Path:
    """A log in a file; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    endings = {"older": "csv", "bare": "csv", "array": "json", "json": "jsonl"}
    path = folder / f"log.{endings.get(container, container)}"
    if container == "csv":
        path.write_bytes(as_csv(found))
    elif container == "tsv":
        path.write_bytes(as_csv(found, delimiter="\t"))
    elif container == "older":
        path.write_bytes(as_csv(found, OLDER_ORDER, None))
    elif container == "bare":
        path.write_bytes(as_csv(found, COLUMNS, None))
    elif container == "sql":
        path.write_bytes(as_sql(found))
    elif container == "json":
        path.write_bytes(as_jsonl(found))
    elif container == "array":
        path.write_bytes(json.dumps([_typed(row) for row in found], ensure_ascii=False).encode())
    elif container == "parquet":
        pq.write_table(pa.Table.from_pylist(list(found), pa.schema([(n, pa.string()) for n in COLUMNS])), path)
    else:
        book = openpyxl.Workbook()
        book.active.append(list(COLUMNS))
        for line in ordered(found, COLUMNS):
            book.active.append(line)
        book.save(path)
    return path
