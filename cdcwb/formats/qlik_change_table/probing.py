"""Detects the kind of a file from its first bytes and its side file, and whether it is from Qlik
(docs/formats/qlik-change-table.md §1)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats.dissector import ROW, Recognition
from cdcwb.formats.files import in_file
from cdcwb.formats.json_values import parse_json
from cdcwb.formats.qlik_change_table.layout import (
    FORMAT,
    OPTIONS,
    TOKENS,
    Options,
    control_table,
    find_prefix,
    from_path,
    side_file,
)
from cdcwb.formats.source import info_of, read_text
from cdcwb.formats.tabular.file import BROKEN, CSV, DEFAULT, JSON, Dialect, FileProbe, as_bytes, numbered
from cdcwb.formats.tabular.probing import probe_file
from cdcwb.words import joined

__all__ = [
    "Column",
    "Probe",
    "SideFile",
    "column",
    "is_side_file",
    "probe",
    "read_side_file",
    "recognise",
    "recognise_rows",
    "text_of",
]

# === side files =======================================================================================================

_LONGEST: Final = 16 << 20
_MOST_COLUMNS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table version. ``ordinal`` from 1; ``type`` as spelled by the source, None if unknown;
    ``key_position`` from 1, None if the column is not in the key or that is unknown."""

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
    """The content of a side file; None or empty for what is missing. ``problem`` is its error."""

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
        "server": text_of(task.get("replicationServer")),
        "task": text_of(task.get("name")),
        "source": text_of(task.get("sourceEndpoint")),
        "source_type": text_of(task.get("sourceEndpointType")),
        "source_schema": text_of(data.get("sourceSchema")),
        "source_table": text_of(data.get("sourceTable")),
        "time": text_of(file.get("startWriteTimestamp")),
    }
    return SideFile(
        path,
        text,
        text_of(form.get("format")),
        dialect,
        text_of(data.get("targetSchema")),
        text_of(data.get("targetTable")),
        text_of(data.get("sourceSchema")),
        text_of(data.get("sourceTable")),
        _number(data.get("tableVersion")),
        columns,
        _number(file.get("recordCount")),
        {name: value for name, value in lineage.items() if value},
        problem,
    )


def _part(raw: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = raw.get(name)
    return found if isinstance(found, dict) else {}


def text_of(value: Any) -> str | None:
    """A non-empty text; None for other values."""
    return value if isinstance(value, str) and value else None


def _number(value: Any) -> int | None:
    """A whole number of 32 bits, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31 else None


def column(ordinal: int, name: str, raw: Mapping[str, Any], key: str = "primaryKeyPos") -> Column:
    """A column from its description in side files and DDL history. A 0 means not applicable, except as the scale of a
    decimal."""
    nullable = raw.get("nullable")
    kind = text_of(raw.get("type"))
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
        if not isinstance(one, dict) or text_of(one.get("name")) is None:
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


# === data files =======================================================================================================

_SHARE: Final = 0.5
_TYPED: Final = re.compile(r"(.+):([A-Za-z]\w*)(?:\((\d{1,9})(?:,(\d{1,9}))?\))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Probe:
    """The detected kind of a file. ``columns``: the facts of its columns, in file order; ``typed``: with their types.
    ``problems``: contradictions, (whether about the schema's text, sentence)."""

    file: FileProbe
    columns: tuple[Column, ...] = ()
    typed: bool = False
    side: SideFile | None = None
    problems: tuple[tuple[bool, str], ...] = ()

    @property
    def names(self) -> list[str]:
        """The names of its columns."""
        return [column.name for column in self.columns]


def is_side_file(path: str) -> bool:
    """Whether it is the description of another file."""
    return path.casefold().endswith(".dfm")


def probe(task: tuple[str, Options]) -> Probe:
    """Detects the kind of a file. Raises CaptureError for one that cannot be read."""
    path, options = task
    beside = side_file(path)
    side = None if beside is None else read_side_file(beside, options.charset)
    given = None if side is None else side.dialect
    with in_file(path):
        dialect = options.dialect(given or DEFAULT)
    tokens = {name: getattr(dialect, name) for name in TOKENS.values()}
    ask = partial(
        probe_file,
        path,
        dialect_options=tokens,
        charset=options.charset,
        limit=0,
        objects=side is None or side.format != "delimited",
    )
    file = ask(header=options.header)
    why = "the default; no evidence against it" if given is None else "the side file"
    if file.kind == CSV and file.width == 1 and given is None and "delimiter" not in options.tokens:
        del tokens["delimiter"]
        file = ask(header=options.header)
        why = file.delimiter_from
    if file.kind == CSV:
        found = _text_file(file, dialect.null.decode(options.charset), side, options)
        if found.file.header != file.header:
            file = ask(header=found.file.header)
        found = replace(found, file=replace(file, delimiter_from=why))
    else:
        found = _described(Probe(file, _columns_of(file), file.schema is not None), side)
    wrong = [] if side is None or not side.problem else [(True, side.problem)]
    wrong += [] if file.note is None else [(False, file.note)]
    return replace(found, side=side, problems=(*wrong, *found.problems))


def _columns_of(file: FileProbe) -> tuple[Column, ...]:
    """The columns as a file itself describes them."""
    if file.schema is not None:
        return tuple(column_of(place, one) for place, one in enumerate(file.schema, 1))
    return named_columns(file.columns)


def named_columns(names: Iterable[str]) -> tuple[Column, ...]:
    """Columns of which only the names are known."""
    return tuple(Column(place, name) for place, name in enumerate(names, 1))


def _described(found: Probe, side: SideFile | None) -> Probe:
    """A file whose rows name their columns, with types, lengths and the key from its side file. Objects may omit
    columns, and have them in any order; the side file has the order of the table."""
    if side is None or not side.columns or found.file.kind == BROKEN:
        return found
    described = {column.name for column in side.columns}
    if found.file.kind == JSON and set(found.names) <= described:
        return replace(found, columns=side.columns, typed=True)
    joined = _joined(found.columns, side.columns)
    return replace(found, columns=joined, typed=found.typed or set(found.names) <= described)


def column_of(ordinal: int, one: pa.Field) -> Column:
    """A column of an Arrow schema."""
    decimal = pa.types.is_decimal(one.type)
    return Column(
        ordinal,
        one.name,
        str(one.type),
        precision=one.type.precision if decimal else None,
        scale=one.type.scale if decimal else None,
        nullable=one.nullable,
    )


# --- delimited text ---------------------------------------------------------------------------------------------------


def _text_file(file: FileProbe, null: str, side: SideFile | None, options: Options) -> Probe:
    """The columns of delimited text, and whether it has a header line."""
    fields = [null if text is None else text for text in file.first_row]
    typed = _typed_header(fields, file.dialect or DEFAULT, options.charset)
    if typed:
        fields = [column.name for column in typed]
    columns = side.columns if side is not None else ()
    header = bool(fields) and (options.header if options.header is not None else _is_header(fields, columns))
    problems: tuple[tuple[bool, str], ...] = ()
    if header:
        missing = {one.name.casefold() for one in columns} ^ {name.casefold() for name in fields}
        if columns and missing:
            shown = ", ".join(sorted(missing)[:8])
            problems = ((False, f"expected the side file's columns in the header line, which differ in {shown}"),)
        columns = _joined(typed or named_columns(fields), columns)
    else:
        columns = columns or named_columns(numbered(len(fields)))
    known = any(column.type is not None for column in columns)
    return Probe(replace(file, header=header), columns, known, problems=problems)


def _is_header(fields: Sequence[str], columns: Sequence[Column]) -> bool:
    """Whether the first record has the names of the columns; true without a side file."""
    if not columns:
        return True
    names = {column.name.casefold() for column in columns}
    same = sum(name.casefold() in names for name in fields)
    return same >= _SHARE * len(fields)


def _typed_header(fields: Sequence[str], dialect: Dialect, charset: str) -> tuple[Column, ...]:
    """The columns of a header line with names and types, ``Position:DECIMAL(38,0),Color:VARCHAR(10)``
    (docs/formats/qlik-change-table.md §1.3): commas within parentheses do not separate columns. Empty for another
    line."""
    parts: list[str] = []
    for one in fields:
        if parts and parts[-1].count("(") > parts[-1].count(")"):
            parts[-1] += dialect.delimiter.decode(charset, "replace") + one
        else:
            parts.append(one)
    found = [_TYPED.fullmatch(part) for part in parts]
    columns = []
    for place, match in enumerate(found, 1):
        if match is None:
            return ()
        name, kind, first, second = match.groups()
        size = None if first is None else int(first)
        scale = None if second is None else int(second)
        numeric = scale is not None or kind.upper() in ("NUMERIC", "DECIMAL")
        columns.append(
            Column(
                place,
                name,
                kind,
                length=None if numeric else size,
                precision=size if numeric else None,
                scale=(scale or 0) if numeric and size is not None else None,
            )
        )
    return tuple(columns)


def _joined(given: Sequence[Column], described: Sequence[Column]) -> tuple[Column, ...]:
    """The columns in the order of the header line, with the facts from the side file."""
    by_name = {column.name.casefold(): column for column in described}
    return tuple(
        replace(by_name.get(one.name.casefold(), one), ordinal=place, name=one.name)
        for place, one in enumerate(given, 1)
    )


# === recognition ======================================================================================================

_FILES: Final = 8
_SURE: Final = 0.98
_NOTHING: Final = Recognition(0.0, [f"no header columns of {FORMAT}, no side file and no control table were found"])


def recognise(paths: Sequence[str], options: Mapping[str, Any]) -> Recognition:
    """Looks for header columns, side files and control tables in the first files; 0 without any. Options of other
    formats are ignored.
    """
    try:
        given = Options.parse({name: value for name, value in options.items() if name in OPTIONS})
    except OptionError as reason:
        return Recognition(0.0, [reason.message])
    data = [path for path in paths if not is_side_file(path)]
    data.sort(key=lambda path: not from_path(path, given.suffix).suffixed)  # change tables before full loads
    found = [one for path in data[:_FILES] if (one := _of_file(path, given)) is not None]
    return max(found, key=lambda one: one.confidence) if found else _NOTHING


def recognise_rows(schema: pa.Schema) -> Recognition:
    """Looks for header columns and control tables among the columns of a table."""
    return _by_columns("the table", "rows", "", [name for name in schema.names if name != ROW], Options()) or _NOTHING


def _of_file(path: str, options: Options) -> Recognition | None:
    try:
        seen = probe((path, options))
    except (CaptureError, OSError):
        return None
    name = Path(path).name
    if seen.side is not None and seen.side.columns:
        beside = Path(seen.side.path).name
        return Recognition(0.99, [f"{name} has a side file {beside} that describes its columns"], seen.file.kind)
    if seen.file.kind == BROKEN or not seen.columns:
        return None
    return _by_columns(name, seen.file.kind, from_path(path, options.suffix).name.table, seen.names, options)


def _by_columns(what: str, kind: str, table: str, names: Sequence[str], options: Options) -> Recognition | None:
    prefix = find_prefix(names, options.prefix)
    if prefix is not None and _is_telling(names, prefix.text):
        return Recognition(_SURE, [f"{what} ({kind}) has header columns: {prefix.evidence}"], kind)
    control = control_table(table, names)
    if control is not None and len(names) > 1:
        sentence = f"{what} ({kind}) has the columns of the control table {control}: {joined(names[:8])}"
        return Recognition(0.9, [sentence], kind)
    return None


def _is_telling(names: Sequence[str], prefix: str) -> bool:
    """Whether there is a header column that other tables do not have."""
    folded = {name.casefold() for name in names}
    return any(f"{prefix}{known}".casefold() in folded for known in ("change_seq", "change_oper", "change_mask"))
