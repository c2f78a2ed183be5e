"""Side files: the ``.dfm`` that Replicate writes beside a data file (docs/formats/qlik-change-table.md §1.3)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from cdcwb.formats.tabular import DEFAULT, Dialect, as_bytes

__all__ = ["Column", "SideFile", "column", "read_side_file"]

_LONGEST: Final = 16 << 20
_MOST_COLUMNS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table version. ``ordinal`` from 1; ``type`` as the source spells it, None where it does not say;
    ``key_position`` from 1, None where the column is in no key or nobody says."""

    ordinal: int
    name: str
    type: str | None = None
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    key_position: int | None = None
    nullable: bool | None = None


@dataclass(frozen=True, slots=True)
class SideFile:
    """What a side file says; None or empty where it does not. ``problem`` is what is wrong with it."""

    path: str
    text: str = ""
    format: str | None = None
    dialect: Dialect | None = None
    schema: str | None = None
    table: str | None = None
    source_schema: str | None = None
    source_table: str | None = None
    version: int | None = None
    columns: tuple[Column, ...] = ()
    records: int | None = None
    lineage: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None


def read_side_file(path: str, charset: str) -> SideFile:
    """Reads a side file. Never raises for its content: what is wrong with it stands in ``problem``."""
    try:
        if Path(path).stat().st_size > _LONGEST:
            return SideFile(path, problem=f"expected a side file of at most {_LONGEST} bytes")
        text = Path(path).read_bytes().decode("utf-8-sig")
        raw = json.loads(text)
    except (OSError, ValueError, RecursionError) as reason:
        return SideFile(path, problem=f"expected a JSON document, found: {str(reason) or 'one nested too deeply'}")
    if not isinstance(raw, dict):
        return SideFile(path, text, problem=f"expected a JSON object, found {type(raw).__name__}")
    data, file, task = (_part(raw, name) for name in ("dataInfo", "fileInfo", "taskInfo"))
    form = _part(raw, "formatInfo")
    problem = None
    columns, wrong = _columns(data.get("columns"))
    if wrong:
        problem = wrong
    dialect: Dialect | None = None
    try:
        dialect = _dialect(_part(form, "options"), charset)
    except (UnicodeEncodeError, ValueError) as reason:
        problem = problem or f"formatInfo.options: {reason}"
    lineage = {
        "server": _text(task.get("replicationServer")),
        "task": _text(task.get("name")),
        "source": _text(task.get("sourceEndpoint")),
        "source_type": _text(task.get("sourceEndpointType")),
        "source_schema": _text(data.get("sourceSchema")),
        "source_table": _text(data.get("sourceTable")),
        "time": _text(file.get("startWriteTimestamp")),
    }
    return SideFile(
        path,
        text,
        _text(form.get("format")),
        dialect,
        _text(data.get("targetSchema")),
        _text(data.get("targetTable")),
        _text(data.get("sourceSchema")),
        _text(data.get("sourceTable")),
        _number(data.get("tableVersion")),
        columns,
        _number(file.get("recordCount")),
        {name: value for name, value in lineage.items() if value},
        problem,
    )


def _part(raw: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = raw.get(name)
    return found if isinstance(found, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: Any) -> int | None:
    """A whole number that 32 bits hold, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31 else None


def column(ordinal: int, name: str, raw: Mapping[str, Any], key: str = "primaryKeyPos") -> Column:
    """A column as side files and DDL history describe it. A 0 says that something does not apply, but as the scale of a
    decimal."""
    nullable = raw.get("nullable")
    kind = _text(raw.get("type"))
    scale = _number(raw.get("scale"))
    return Column(
        ordinal,
        name,
        kind,
        _number(raw.get("length")) or None,
        _number(raw.get("precision")) or None,
        scale if (kind or "").upper() in ("NUMERIC", "DECIMAL") else scale or None,
        _number(raw.get(key)) or None,
        nullable if isinstance(nullable, bool) else None,
    )


def _columns(raw: Any) -> tuple[tuple[Column, ...], str | None]:
    if not isinstance(raw, list):
        return (), None if raw is None else f"dataInfo.columns: expected an array, found {type(raw).__name__}"
    if len(raw) > _MOST_COLUMNS:
        return (), f"dataInfo.columns: expected at most {_MOST_COLUMNS} columns, found {len(raw)}"
    columns = []
    for place, one in enumerate(raw, 1):
        if not isinstance(one, dict) or _text(one.get("name")) is None:
            return (), f"dataInfo.columns: expected an object with a name as item {place}"
        columns.append(column(_number(one.get("ordinal")) or place, one["name"], one))
    columns.sort(key=lambda one: one.ordinal)
    return tuple(replace(one, ordinal=place) for place, one in enumerate(columns, 1)), None


def _dialect(options: Mapping[str, Any], charset: str) -> Dialect | None:
    if not options:
        return None

    def given(name: str, default: bytes) -> bytes:
        value = options.get(name)
        return default if not isinstance(value, str) else as_bytes(value, charset)

    quote, escape = given("quoteChar", DEFAULT.quote), given("escapeChar", b"")
    return Dialect(
        given("fieldDelimiter", DEFAULT.delimiter) or DEFAULT.delimiter,
        given("recordDelimiter", DEFAULT.record) or DEFAULT.record,
        quote,
        b"" if escape == quote else escape,
        given("nullValue", b""),
    )
