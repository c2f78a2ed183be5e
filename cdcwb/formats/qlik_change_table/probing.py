"""The columns of a data file, from its side file and its beginning (docs/formats/qlik-change-table.md §1)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import pyarrow as pa

from cdcwb.errors import OptionError
from cdcwb.formats.columns import TableColumn, described_column, text_of
from cdcwb.formats.containers.delimited import DEFAULT, TOKENS, Dialect, as_bytes
from cdcwb.formats.containers.rows import BROKEN, CSV, JSON, FileProbe, TableName, numbered
from cdcwb.formats.containers.table_probe import or_dump, probe_file
from cdcwb.formats.files import in_file
from cdcwb.formats.json_values import parse_json
from cdcwb.formats.qlik_change_table.layout import find_prefix, side_file
from cdcwb.formats.source import info_of, read_text
from cdcwb.words import joined, unique_names

# --- side files -------------------------------------------------------------------------------------------------------

_LONGEST: Final = 16 << 20
_MOST_COLUMNS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class SideFile:
    """The content of a side file; None or empty for what is missing. ``table``: that of the target, else of the source;
    ``records``: the number of rows. ``problem`` is its error."""

    path: str
    text: str = ""
    format: str | None = None
    dialect: Dialect | None = None
    table: TableName | None = None
    version: int | None = None
    columns: tuple[TableColumn, ...] = ()
    records: int | None = None
    lineage: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None


def read_side_file(path: str, charset: str) -> SideFile:
    """Reads a side file. Never raises for its content: errors are in ``problem``."""
    try:
        if info_of(path).size > _LONGEST:
            return SideFile(path, problem=f"expected a side file of at most {_LONGEST} bytes")
        text = read_text(path)
        raw = parse_json(text.encode())
    except (OSError, ValueError) as reason:
        return SideFile(path, problem=f"expected a JSON document, found: {reason}")
    if not isinstance(raw, dict):
        return SideFile(path, text, problem=f"expected a JSON object, found {type(raw).__name__}")
    data, file, task, form = (_part(raw, name) for name in ("dataInfo", "fileInfo", "taskInfo", "formatInfo"))
    columns, problem = _columns(data.get("columns"))
    dialect: Dialect | None = None
    try:
        dialect = _dialect(_part(form, "options"), charset)
    except (UnicodeEncodeError, ValueError) as reason:
        problem = problem or f"formatInfo.options: {reason}"
    lineage = {
        "server": task.get("replicationServer"),
        "task": task.get("name"),
        "source": task.get("sourceEndpoint"),
        "source_type": task.get("sourceEndpointType"),
        "source_schema": data.get("sourceSchema"),
        "source_table": data.get("sourceTable"),
        "time": file.get("startWriteTimestamp"),
    }
    schema, table = (text_of(data.get(f"target{name}")) or text_of(data.get(f"source{name}")) for name in _NAMES)
    return SideFile(
        path,
        text,
        format=text_of(form.get("format")),
        dialect=dialect,
        table=None if table is None else TableName(schema, table),
        version=_number(data.get("tableVersion")),
        columns=columns,
        records=_number(file.get("recordCount")),
        lineage={name: str(value) for name, value in lineage.items() if text_of(value)},
        problem=problem,
    )


_NAMES: Final = ("Schema", "Table")


def _part(raw: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = raw.get(name)
    return found if isinstance(found, dict) else {}


def _number(value: Any) -> int | None:
    """A whole number of 32 bits, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31 else None


def _columns(raw: Any) -> tuple[tuple[TableColumn, ...], str | None]:
    if not isinstance(raw, list):
        return (), None if raw is None else f"dataInfo.columns: expected an array, found {type(raw).__name__}"
    if len(raw) > _MOST_COLUMNS:
        return (), f"dataInfo.columns: expected at most {_MOST_COLUMNS} columns, found {len(raw)}"
    columns = []
    for place, one in enumerate(raw, 1):
        if not isinstance(one, dict) or text_of(one.get("name")) is None:
            return (), f"dataInfo.columns: expected an object with a name as item {place}"
        columns.append(described_column(_number(one.get("ordinal")) or place, one["name"], one, "primaryKeyPos"))
    columns.sort(key=lambda one: one.ordinal)
    return tuple(one._replace(ordinal=place) for place, one in enumerate(columns, 1)), None


_TOKENS: Final = {
    "fieldDelimiter": "delimiter",
    "recordDelimiter": "record",
    "quoteChar": "quote",
    "escapeChar": "escape",
    "nullValue": "null",
}


def _dialect(options: Mapping[str, Any], charset: str) -> Dialect | None:
    """The dialect in a side file; an escape that is the quote is none, since quotes are doubled."""
    texts = {token: options[name] for name, token in _TOKENS.items() if isinstance(options.get(name), str)}
    given = {token: as_bytes(text, charset) for token, text in texts.items() if text or token in ("quote", "null")}
    if given.get("escape") == given.get("quote", DEFAULT.quote):
        del given["escape"]
    return Dialect(**given) if options else None  # type: ignore[arg-type]


# --- data files -------------------------------------------------------------------------------------------------------

_SHARE: Final = 0.5
_TYPED: Final = re.compile(r"(.+):([A-Za-z]\w*)(?:\((\d{1,9})(?:,(\d{1,9}))?\))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Probe:
    """The detected kind of a file. ``columns``: the facts of its columns, in file order; ``typed``: with their types.
    ``problems``: contradictions, (whether about the schema's text, sentence)."""

    file: FileProbe
    columns: tuple[TableColumn, ...] = ()
    typed: bool = False
    side: SideFile | None = None
    problems: tuple[tuple[bool, str], ...] = ()

    @property
    def names(self) -> list[str]:
        """The names of its columns."""
        return [column.name for column in self.columns]


def probe(path: str, options: Any) -> Probe:
    """Detects the kind of a file; ``options`` are those of the format. Raises CaptureError for one that cannot be
    read."""
    tokens, header, charset = options.tokens, options.header, options.charset
    beside = side_file(path)
    side = None if beside is None else read_side_file(beside, charset)
    given = None if side is None else side.dialect
    described = () if side is None else side.columns
    with in_file(path):
        dialect = _with_tokens(given or DEFAULT, tokens)
    parts = {name: getattr(dialect, name) for name in TOKENS.values()}
    is_text = side is not None and side.format == "delimited"
    ask = partial(
        probe_file, path, dialect_options=parts, charset=charset, limit=0, objects=not is_text, sheet=options.sheet
    )
    file = ask(header=header)
    why = "the default; no evidence against it" if given is None else "the side file"
    if file.kind == CSV and file.width == 1 and given is None and "delimiter" not in tokens:
        del parts["delimiter"]
        file = ask(header=header)
        why = file.delimiter_from
    named = [name for name, token in TOKENS.items() if token in tokens]
    why += f", and options {joined(named)}" if named else ""
    dump = or_dump(file, lambda names: find_prefix(names) is not None, options) if side is None else None
    file = dump if dump is not None and dump.settings["table"] else file
    wrong = [] if side is None or not side.problem else [(True, side.problem)]
    wrong += [] if file.note is None else [(False, file.note)]
    columns = of_table(file).columns
    if file.kind == CSV:
        columns, has_header = _columns_of_text(file, dialect.null.decode(charset), described, header)
        file = file if has_header == file.header else ask(header=has_header)
        file = replace(file, delimiter_from=why)
        missing = {one.name.casefold() for one in described} ^ {one.name.casefold() for one in columns}
        if described and has_header and missing:
            shown = ", ".join(sorted(missing)[:8])
            wrong.append((False, f"expected the side file's columns in the header line, which differ in {shown}"))
    if described and file.kind == JSON and {one.name for one in columns} <= {one.name for one in described}:
        columns = described  # objects may omit columns, and have them in any order; this is the order of the table
    elif file.kind != BROKEN:
        by_name = {one.name.casefold(): one for one in described}
        columns = tuple(
            by_name.get(one.name.casefold(), one)._replace(ordinal=place, name=one.name)
            for place, one in enumerate(columns, 1)
        )
    names = unique_names(one.name for one in columns)
    typed = any(one.type is not None for one in columns)
    return Probe(replace(file, names=names, width=len(names)), columns, typed, side, tuple(wrong))


def _with_tokens(found: Dialect, tokens: Mapping[str, bytes]) -> Dialect:
    """A dialect with the given parts. Raises OptionError if they contradict each other."""
    changes: dict[str, Any] = dict(tokens)
    if "record" in changes:
        changes["crlf"] = False
    try:
        return replace(found, **changes)
    except ValueError as reason:
        names = [name for name, token in TOKENS.items() if token in tokens]
        raise OptionError(f"options {', '.join(names)}: {reason}") from None


def of_table(file: FileProbe) -> Probe:
    """A file or table that describes its columns itself."""
    if file.schema is None:
        return Probe(file, _named(file.columns))
    return Probe(file, tuple(_column_of(place, one) for place, one in enumerate(file.schema, 1)), typed=True)


def _named(names: Iterable[str]) -> tuple[TableColumn, ...]:
    """Columns of which only the names are known."""
    return tuple(TableColumn(place, name) for place, name in enumerate(names, 1))


def _column_of(ordinal: int, one: pa.Field) -> TableColumn:
    """A column of an Arrow schema."""
    decimal = pa.types.is_decimal(one.type)
    return TableColumn(
        ordinal,
        one.name,
        str(one.type),
        precision=one.type.precision if decimal else None,
        scale=one.type.scale if decimal else None,
        nullable=one.nullable,
    )


# --- delimited text ---------------------------------------------------------------------------------------------------


def _columns_of_text(
    file: FileProbe, null: str, described: Sequence[TableColumn], header: bool | None
) -> tuple[tuple[TableColumn, ...], bool]:
    """The columns of delimited text, and whether it has a header line; ``described``: those of the side file."""
    fields = [null if text is None else text for text in file.first_row]
    typed = _typed_header(fields, (file.dialect or DEFAULT).delimiter.decode(file.charset, "replace"))
    fields = [one.name for one in typed] or fields
    if header is None:
        names = {one.name.casefold() for one in described}
        same = sum(name.casefold() in names for name in fields)
        header = not described or same >= _SHARE * len(fields)
    if fields and header:
        return typed or _named(fields), True
    return tuple(described) or _named(numbered(len(fields))), False


def _typed_header(fields: Sequence[str], delimiter: str) -> tuple[TableColumn, ...]:
    """The columns of a header line with names and types, ``Position:DECIMAL(38,0),Color:VARCHAR(10)``
    (docs/formats/qlik-change-table.md §1.3): commas within parentheses do not separate columns. Empty for another
    line."""
    parts: list[str] = []
    for one in fields:
        if parts and parts[-1].count("(") > parts[-1].count(")"):
            parts[-1] += delimiter + one
        else:
            parts.append(one)
    columns = []
    for place, match in enumerate(map(_TYPED.fullmatch, parts), 1):
        if match is None:
            return ()
        name, kind, *sizes = match.groups()
        size, scale = (None if one is None else int(one) for one in sizes)
        if scale is not None or kind.upper() in ("NUMERIC", "DECIMAL"):
            fraction = None if size is None else scale or 0
            columns.append(TableColumn(place, name, kind, precision=size, scale=fraction))
        else:
            columns.append(TableColumn(place, name, kind, length=size))
    return tuple(columns)
