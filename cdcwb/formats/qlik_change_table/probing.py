"""What one file is, from its first bytes and its side file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from cdcwb.errors import CaptureError
from cdcwb.formats.files import Source, open_source
from cdcwb.formats.qlik_change_table.names import side_file
from cdcwb.formats.qlik_change_table.options import Options
from cdcwb.formats.qlik_change_table.side_files import Column, SideFile, read_side_file
from cdcwb.formats.tabular import DEFAULT, Dialect
from cdcwb.formats.tabular.delimited import Bytes, line_end
from cdcwb.formats.tabular.probing import BOM, HEAD, parquet_file, rows_of_json
from cdcwb.formats.tabular.rows import first_texts

__all__ = ["Probe", "is_side_file", "probe"]

_SHARE: Final = 0.5
_TYPED: Final = re.compile(r"(.+):([A-Za-z]\w*)(?:\((\d{1,9})(?:,(\d{1,9}))?\))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Probe:
    """What a file is. ``kind``: csv, json, parquet, or broken. ``columns``: what it says of its columns, in file order;
    ``typed``: with their types. ``first``: where its first record begins; ``groups``: rows and packed bytes of the row
    groups of a Parquet file. ``heading``: the text of its header line, or of its schema. ``problems``: what contradicts
    itself, (is it about the schema's text?, sentence)."""

    path: str
    kind: str
    columns: tuple[Column, ...] = ()
    typed: bool = False
    side: SideFile | None = None
    dialect: Dialect | None = None
    dialect_from: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    size: int = 0
    compression: str | None = None
    first: int = 0
    header: bool = False
    heading: str = ""
    groups: tuple[tuple[int, int], ...] = ()
    problem: str | None = None
    problems: tuple[tuple[bool, str], ...] = ()

    @property
    def names(self) -> list[str]:
        """The names of its columns."""
        return [column.name for column in self.columns]


def is_side_file(path: str) -> bool:
    """Is this the description of another file?"""
    return path.casefold().endswith(".dfm")


def probe(task: tuple[str, Options]) -> Probe:
    """What a file is. Raises CaptureError for one that cannot be read."""
    path, options = task
    beside = side_file(path)
    side = None if beside is None else read_side_file(beside, options.charset)
    with Path(path).open("rb") as file:
        is_parquet = file.read(4) == b"PAR1"
    if is_parquet:
        return _described(_parquet(path, side), side)
    source = open_source(path, "binary", HEAD)
    try:
        size = Path(path).stat().st_size if source.compression is None else 0
        whole = source.length < HEAD
        head = source.read(0, HEAD)
        found = None if side is not None and side.format == "delimited" else _json(path, source)
        found = found and _described(found, side)
        found = found or _csv(path, head, whole, side, options)
        problems = found.problems if side is None or not side.problem else ((True, side.problem), *found.problems)
        return replace(found, side=side, size=size, compression=source.compression, problems=problems)
    except CaptureError as error:
        error.path = error.path or path
        raise
    finally:
        source.close()


def _described(found: Probe, side: SideFile | None) -> Probe:
    """A file whose rows name their columns, with what its side file says of these: types, lengths and the key. Objects
    may leave columns out, and have them in any order; the side file's order is the table's."""
    if side is None or not side.columns or found.kind == "broken":
        return found
    described = {column.name for column in side.columns}
    if found.kind == "json" and set(found.names) <= described:
        return replace(found, columns=side.columns, typed=True)
    joined = _joined(found.columns, side.columns)
    return replace(found, columns=joined, typed=found.typed or set(found.names) <= described)


# --- Parquet ----------------------------------------------------------------------------------------------------------


def _parquet(path: str, side: SideFile | None) -> Probe:
    size = Path(path).stat().st_size
    try:
        schema, groups = parquet_file(path)
    except CaptureError as error:
        return Probe(path, "broken", side=side, size=size, problem=error.message)
    columns = tuple(column_of(place, one) for place, one in enumerate(schema, 1))
    text = schema.to_string(show_field_metadata=False, show_schema_metadata=False)
    return Probe(path, "parquet", columns, True, side, size=size, heading=text, groups=groups)


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


# --- JSON -------------------------------------------------------------------------------------------------------------


def _json(path: str, source: Source) -> Probe | None:
    """A file of JSON objects; None where it is none."""
    found = rows_of_json(path, source)
    if found is None:
        return None
    columns = tuple(Column(place, name) for place, name in enumerate(found.names, 1))
    return Probe(path, "json", columns, settings=dict(found.settings), heading=", ".join(found.names))


# --- delimited text ---------------------------------------------------------------------------------------------------


def _csv(path: str, head: Bytes, whole: bool, side: SideFile | None, options: Options) -> Probe:
    described = side is not None and side.dialect is not None
    base = side.dialect if side is not None and side.dialect is not None else DEFAULT
    dialect = options.dialect(base)
    dialect, note = line_end(head, dialect)
    mark = len(BOM) if head[:3].tobytes() == BOM else 0
    found = first_texts(head[mark:], dialect, options.charset, whole)
    fields: list[str] = []
    heading, end = "", 0
    if found is not None:
        texts, end = found
        fields = [dialect.null.decode(options.charset) if text is None else text for text in texts]
        heading = head[mark : mark + end].tobytes().decode(options.charset, "backslashreplace").rstrip("\r\n")
    typed = _typed_header(fields, dialect, options.charset)
    if typed:
        fields = [column.name for column in typed]
    columns = side.columns if side is not None else ()
    header = options.header if options.header is not None else _is_header(fields, columns)
    problems: list[tuple[bool, str]] = [] if note is None else [(False, note)]
    if header and fields:
        given = typed or tuple(Column(place, name) for place, name in enumerate(fields, 1))
        missing = {one.name.casefold() for one in columns} ^ {name.casefold() for name in fields}
        if columns and missing:
            shown = ", ".join(sorted(missing)[:8])
            problems.append((False, f"expected the side file's columns in the header line, which differ in {shown}"))
        columns = _joined(given, columns)
        first = mark + end
    else:
        header, first = False, mark
        columns = columns or tuple(Column(place, f"column_{place}") for place in range(1, len(fields) + 1))
    known = any(column.type is not None for column in columns)
    dialect_from = "the side file" if described else "the default; no evidence against it"
    return Probe(
        path,
        "csv",
        columns,
        known,
        dialect=dialect,
        dialect_from=dialect_from,
        first=first,
        header=header,
        heading=heading if header else "",
        problems=tuple(problems),
    )


def _is_header(fields: Sequence[str], columns: Sequence[Column]) -> bool:
    """Does the first record name the columns? Without a side file it does."""
    if not columns:
        return True
    names = {column.name.casefold() for column in columns}
    same = sum(name.casefold() in names for name in fields)
    return same >= _SHARE * len(fields)


def _typed_header(fields: Sequence[str], dialect: Dialect, charset: str) -> tuple[Column, ...]:
    """The columns of a header line with names and types, ``Position:DECIMAL(38,0),Color:VARCHAR(10)``
    (docs/formats/qlik-change-table.md §1.3): commas within parentheses do not part columns. Empty where it is another
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
    """The columns in the order of the header line, with what the side file says of them."""
    by_name = {column.name.casefold(): column for column in described}
    return tuple(
        replace(by_name.get(one.name.casefold(), one), ordinal=place, name=one.name)
        for place, one in enumerate(given, 1)
    )
