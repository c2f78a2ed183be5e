"""Detects what a file of rows is, from its beginning: its kind, its columns, and for delimited text its dialect
(docs/formats/qlik-change-table.md §1.3)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cdcwb.errors import CaptureError, ChangedFileError, OptionError
from cdcwb.formats.containers.delimited import DEFAULT, TOKENS, find_dialect, line_end
from cdcwb.formats.containers.rows import (
    BROKEN,
    CSV,
    EXCEL,
    JSON,
    PARQUET,
    SQL,
    FileProbe,
    RowSegments,
    are_names,
    first_texts,
    named,
    text_rows,
)
from cdcwb.formats.containers.tables import csv_parts, json_parts, open_parquet, open_workbook, read_parts, row_groups
from cdcwb.formats.dissector import detected_row
from cdcwb.formats.files import in_file, open_source
from cdcwb.formats.json_values import parse_json
from cdcwb.formats.options import nearest
from cdcwb.formats.source import Source, info_of, open_file
from cdcwb.words import joined, plural, unique_names

if TYPE_CHECKING:
    from cdcwb.formats.containers.sql import DumpTable


HEAD: Final = 1 << 20
"""Bytes of a file that are examined."""

BOM: Final = b"\xef\xbb\xbf"
"""UTF-8's byte order mark."""

_MOST_COLUMNS: Final = 16_384  # of a table, as in Excel
_DOCUMENTS: Final = 200  # of a JSON file, whose keys are its columns
_RECORDS: Final = 50  # of a sheet, that give the number of its columns
_FIRST: Final = 1 << 15  # bytes of a text file that are examined, if they have enough lines
_NEWLINE: Final = 0x0A
_MOST_ZEROS: Final = 64  # a zero byte in this many makes a file binary
_OLD_EXCEL: Final = "an Excel workbook of the old binary form, or one with a password; save it as .xlsx"

_RULER: Final = re.compile(
    rb"-+(?:\+-+)+\Z|-\[ RECORD [0-9]+ \]|\+(?:-+\+)+\Z|-+(?: +-+)+\Z"
    rb"|\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)+\|?\Z"
)
_PRINTED: Final = (
    "a table printed for readers: values are padded, and NULL cannot be told from empty text; write CSV (psql: \\copy "
    "(SELECT * FROM …) TO 'rows.csv' WITH (FORMAT csv, HEADER); SQL*Plus: SET MARKUP CSV ON; MySQL: mysql --batch)"
)
"""A line below or above the names of a printed table, and what to do instead (docs/formats/idm-event-log.md §1.5)."""

Texts = tuple[str | None, ...]


def probe_file(
    path: str,
    *,
    dialect_options: Mapping[str, bytes] | None = None,
    charset: str = "utf-8",
    header: bool | None = None,
    limit: int = 200,
    sheet: str | None = None,
    objects: bool = True,
) -> FileProbe:
    """Detects the kind of a file by its content. ``limit``: maximum rows of its ``sample``.

    ``dialect_options`` are the fields of :class:`Dialect` that are given. Of the others the delimiter is the one of
    comma, tab, semicolon and bar that separates the first records best, and line ends are detected. ``header``: whether
    it has a header line; None: if its first record consists of unique names. ``sheet``: of a workbook; None: the first
    visible one with a value. ``objects``: whether JSON objects are allowed.

    A file that is not a table is broken. Raises CaptureError for one that cannot be opened, OptionError for
    contradictory options and for an unknown sheet.
    """
    ask = _Question(path, dict(dialect_options or {}), charset, header, limit, sheet)
    try:
        with open_file(path) as file:
            begin = file.read(4)
    except OSError as error:
        raise CaptureError(f"cannot be read ({error.strerror or error})", path=path) from error
    if begin == b"\xd0\xcf\x11\xe0":
        return _broken(path, _OLD_EXCEL)
    if begin in (b"PAR1", b"PK\x03\x04"):
        try:
            return _parquet(ask) if begin == b"PAR1" else _excel(ask)
        except (OptionError, ChangedFileError):
            raise
        except CaptureError as error:
            return _broken(path, error.message)
    with in_file(path), open_source(path, "binary", _FIRST) as source:
        looked_at = _FIRST if _is_enough(source.read(0, _FIRST), limit) else HEAD
    with in_file(path), open_source(path, "binary", looked_at) as source:
        size = info_of(path).size if source.compression is None else 0
        found = (_json(ask, source) if objects else None) or _csv(ask, source, source.length < looked_at)
        return replace(found, size=size, compression=source.compression, problem=found.problem or source.problem)


def _is_enough(head: NDArray[np.uint8], limit: int) -> bool:
    """Whether the first bytes of a delimited file have enough lines to detect its columns and for ``limit`` rows."""
    if head.tobytes().removeprefix(BOM).lstrip()[:1] in (b"{", b"["):
        return False
    return bool(np.count_nonzero(head == _NEWLINE) > max(2 * limit, _RECORDS))


@dataclass(frozen=True, slots=True)
class _Question:
    path: str
    tokens: Mapping[str, bytes]
    charset: str
    header: bool | None
    limit: int
    sheet: str | None


def _broken(path: str, problem: str) -> FileProbe:
    return FileProbe(path, BROKEN, size=info_of(path).size, problem=problem)


def _too_wide(width: int) -> str:
    return f"expected a table of at most {_MOST_COLUMNS} columns, found {width}"


def _sample(parts: Iterable[RowSegments], names: Sequence[str], limit: int) -> tuple[Texts, ...]:
    """The first rows of parts as texts; no more parts are read than have so many."""
    rows: list[Texts] = []
    for part in parts if limit else ():
        if (found := text_rows(part, names)) is not None:
            rows += zip(*(column.slice(0, limit).to_pylist() for column in found.columns), strict=True)
        if len(rows) >= limit:
            break
    return tuple(rows[:limit])


# --- dumps of SQL statements ------------------------------------------------------------------------------------------

_ROW_LINE: Final = re.compile(rb"(?im)^[ \t]*(?:INSERT|REPLACE|COPY|INTO)\s")
_DEEP: Final = 256 << 20  # bytes in which the table of a dump is looked for
_MYSQL: Final = re.compile(rb"(?i)-- (?:MySQL|MariaDB) dump|phpMyAdmin SQL Dump|/\*!\d{5} |INSERT\s+INTO\s+`")

DumpTables: TypeAlias = "Mapping[str, DumpTable]"
"""Tables of a dump that have rows, by name (in lower case, with dots)."""


def probe_dump(
    path: str,
    choose: Callable[[DumpTables], tuple[str, bool]],
    *,
    charset: str = "utf-8",
    backslash: bool | None = None,
    limit: int = 200,
    quick: bool = False,
    damaged: bool = False,
) -> FileProbe | None:
    """A dump of SQL statements; None for another file. ``choose`` returns the table that is read (empty: none), and
    whether no table that follows in the file is better. ``backslash``: whether it is an escape; None: as the dump
    shows. ``quick``: only the beginning is looked at; ``damaged``: one statement shows a dump. Raises what ``choose``
    raises."""
    for size in (HEAD, _DEEP):
        with open_source(path, "binary", size) as source:
            buffer = source.read(0, source.length)
            head = buffer[:HEAD]
            if head[:4].tobytes() in (b"PAR1", b"PK\x03\x04") or not _ROW_LINE.search(head.data):
                return None
            from cdcwb.formats.containers.sql import DumpTable, looks_like_dump, outline

            if not looks_like_dump(head, damaged):
                return None
            is_whole = source.compression is None and source.length < HEAD
            is_last = quick or is_whole or size == _DEEP
            is_escape = _MYSQL.search(head.tobytes()) is not None if backslash is None else backslash
            name, is_sure, found = "", False, dict[str, DumpTable]()
            for found in outline(buffer, charset, is_escape, limit):
                with suppress(OptionError):  # a table that an option names may follow
                    name, is_sure = choose(found)
                if is_sure and len(found[name].rows) >= limit:
                    break
            if is_last and not is_sure:
                name, is_sure = choose(found)
            written, columns, rows = found.get(name, DumpTable(name, None, []))
            if is_last or (is_sure and len(rows) >= limit):
                break
    return FileProbe(
        path,
        SQL,
        None if columns is None else unique_names(columns),
        len(columns) if columns is not None else max(map(len, rows), default=0),
        charset,
        settings={"table": name, "name": written, "backslash": is_escape, "tables": sorted(found)},
        size=0 if source.compression is not None else info_of(path).size,
        compression=source.compression,
        problem=None if quick else source.problem,
        sample=tuple(rows[:limit]),
    )


def or_dump(found: FileProbe, claims: Callable[[Sequence[str]], bool], options: Any) -> FileProbe | None:
    """A file that was read as text without claimed columns, as a dump of SQL statements: with the table that the option
    ``sql_table`` names, or the first whose columns are claimed, if there is one. None: it is no dump, or claimed as it
    is. Raises OptionError if there is no table of that name."""
    if found.kind not in (CSV, BROKEN) or (found.names is not None and claims(found.names)):
        return None

    def choose(tables: DumpTables) -> tuple[str, bool]:
        if options.sql_table is not None:
            return named_tables(tables, options.sql_table)[0], True
        name = next((name for name, one in tables.items() if one.columns and claims(one.columns)), "")
        return name, bool(name)

    return probe_dump(found.path, choose, limit=1, charset=options.charset, backslash=options.backslash)


def named_tables(tables: DumpTables, table: str) -> list[str]:
    """The tables of a dump that the option ``sql_table`` means. Raises OptionError if there is none."""
    from cdcwb.formats.containers.sql import is_table

    wanted = table.casefold()
    names = [name for name in tables if is_table(name, wanted)]
    if names:
        return names
    raise OptionError(
        f"option sql_table: there is no table {table!r} with rows.{nearest(wanted, tables)} "
        f"There are: {', '.join(tables) or 'none'}."
    )


# --- Parquet ----------------------------------------------------------------------------------------------------------


def _parquet(ask: _Question) -> FileProbe:
    file = open_parquet(open_file(ask.path))
    schema, groups = file.schema_arrow, row_groups(file)
    names = named(schema.names)
    if len(names) > _MOST_COLUMNS:
        raise CaptureError(_too_wide(len(names)))
    text, size = schema.to_string(show_field_metadata=False, show_schema_metadata=False), info_of(ask.path).size
    found = FileProbe(
        ask.path, PARQUET, names, len(names), size=size, heading=text, schema=schema, groups=tuple(groups)
    )
    return replace(found, sample=_sample(islice(read_parts(found, 0, 1), 1), names, ask.limit))


# --- Excel ------------------------------------------------------------------------------------------------------------


def _excel(ask: _Question) -> FileProbe:
    rows, problem = list[tuple[int, Texts]](), None
    with open_workbook(ask.path) as book:
        title = book.choose(ask.sheet)
        settings = {"sheet": title, "sheets": book.titles}
        for number, values in book.rows(title):
            problem = values if isinstance(values, str) else None
            rows += [(number, tuple(values))] if values and problem is None else []
            if len(rows) > max(ask.limit, _RECORDS):
                break
    if problem is not None and not rows:
        raise CaptureError(problem)
    found = FileProbe(ask.path, EXCEL, settings=settings, size=info_of(ask.path).size, problem=problem)
    if not rows:
        return found
    number, first = rows[0]
    header = ask.header if ask.header is not None else are_names(first)
    width = len(first) if header else max(len(values) for _, values in rows)
    sample = [values + (None,) * (width - len(values)) for _, values in rows[header:] if len(values) <= width]
    return replace(
        found,
        names=named(first) if header else None,
        width=width,
        first=number + header,
        header=header,
        heading="\t".join(text or "" for text in first) if header else "",
        first_row=first + (None,) * (width - len(first)),
        sample=tuple(sample[: ask.limit]),
    )


# --- JSON -------------------------------------------------------------------------------------------------------------


def _json(ask: _Question, source: Source) -> FileProbe | None:
    """A file of JSON objects; None if it is not one."""
    head = source.read(0, HEAD).tobytes().removeprefix(BOM).lstrip()
    lines = [line for line in head.splitlines()[:_DOCUMENTS] if line.strip()]
    is_array, is_object = head[:1] == b"[", head[:1] == b"{"
    if is_array and head[1:].lstrip()[:1] not in (b"{", b"]", b""):
        return None
    if not is_array and not is_object and 2 * sum(map(_is_object, lines)) <= len(lines):  # its beginning is damaged
        return None
    is_documents = is_array or (is_object and not _is_object(lines[0]))
    kind = {"kind": "documents" if is_documents else "lines"}
    extent = FileProbe(ask.path, JSON, settings=kind, size=source.length, compression=source.compression)
    parts = list(islice(json_parts(extent, 0, HEAD, _DOCUMENTS), 1))
    names = tuple(dict.fromkeys(name for part in parts for _, rows in part.rows for name in rows.names))
    if not names and not is_array:
        return None
    if len(names) > _MOST_COLUMNS:
        return FileProbe(ask.path, BROKEN, problem=_too_wide(len(names)))
    sample = _sample(parts, names, ask.limit)
    return replace(extent, names=names, width=len(names), heading=", ".join(names), sample=sample)


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(parse_json(line), dict)
    except ValueError:
        return False


# --- delimited text ---------------------------------------------------------------------------------------------------

_LINES: Final = 1 << 14  # bytes that have the first lines


_MOST_PARTS: Final = 65  # that are read for a sample, of blank lines too


def _csv(ask: _Question, source: Source, whole: bool) -> FileProbe:
    """``whole``: the source is the complete file, not its beginning."""
    head = source.read(0, HEAD)
    zeros = int(np.count_nonzero(head == 0))
    if zeros > len(head) // _MOST_ZEROS and not any(0 in token for token in ask.tokens.values()):
        problem = f"a binary file: expected text, found {zeros} bytes of 0 among the first {len(head)}"
        return FileProbe(ask.path, BROKEN, problem=problem)
    lines = [line.strip() for line in head[:_LINES].tobytes().removeprefix(BOM).splitlines() if line.strip()]
    is_default = all(getattr(DEFAULT, name) == token for name, token in ask.tokens.items())
    if is_default and any(map(_RULER.match, lines[:2])):
        return FileProbe(ask.path, BROKEN, problem=_PRINTED)
    begin = mark = len(BOM) if head[:3].tobytes() == BOM else 0
    while head[mark : mark + 1].tobytes() in (b"\r", b"\n"):
        mark += 1
    body = head[mark:]
    dialect, why, widths = find_dialect(ask.tokens, body, whole)
    dialect, note = line_end(head, dialect)
    first, end = first_texts(body, dialect, ask.charset, whole)
    heading = body[:end].tobytes().decode(ask.charset, "backslashreplace").rstrip("\r\n")
    header = bool(first) and (ask.header if ask.header is not None else are_names(first))
    width = len(first) if header or not widths else Counter(widths).most_common(1)[0][0]
    if width > _MOST_COLUMNS:
        return FileProbe(ask.path, BROKEN, problem=_too_wide(width))
    probe = FileProbe(
        ask.path,
        CSV,
        named(first) if header else None,
        width,
        ask.charset,
        dialect,
        why,
        first=mark + end if header else begin,
        header=header,
        heading=heading if header else "",
        note=note,
        first_row=first,
    )
    parts = islice(csv_parts(source, probe, probe.first, source.length, ask.limit + 2), _MOST_PARTS)
    rows = _sample(parts, probe.columns, ask.limit + 1)
    return replace(probe, sample=rows[: ask.limit] if whole or len(rows) > ask.limit else rows[:-1])


# --- known columns ----------------------------------------------------------------------------------------------------

_SEPARATORS: Final = re.compile(r"[\s\-.]+")
_MOST_SHOWN: Final = 10  # columns that a sentence names


def columns_named(labels: Sequence[str], names: Collection[str], prefix: str = "") -> dict[str, int]:
    """The indexes of the columns with known names (in lower case) after a prefix, by name; of several the first. Case,
    blanks around a name, and whether a blank, ``-``, ``.`` or ``_`` separates its words, do not matter."""
    found: dict[str, int] = {}
    for index, label in enumerate(labels):
        folded = label.strip().casefold()
        name = _SEPARATORS.sub("_", folded.removeprefix(prefix))
        if name in names and folded.startswith(prefix):
            found.setdefault(name, index)
    return found


def agreement(
    rows: Sequence[Sequence[str | None]],
    columns: Mapping[str, int],
    patterns: Mapping[str, str],
    needed: Collection[str] = (),
) -> float:
    """The share of the values of these columns (names and indexes) that have the pattern of their name. An empty value
    counts only in a needed column."""
    checks = [(re.compile(patterns[name]), name in needed, columns[name]) for name in patterns if name in columns]
    fits = [
        pattern.fullmatch(value) is not None
        for row in rows
        for pattern, is_needed, index in checks
        if (value := (row[index] if index < len(row) else None) or "") or is_needed
    ]
    return sum(fits) / len(fits) if fits else 0.0


def shown_columns(labels: Sequence[str]) -> str:
    """``columns a, b and c``: the evidence of columns that were found by their names."""
    return f"columns {joined(labels[:_MOST_SHOWN])}"


# --- what was detected ------------------------------------------------------------------------------------------------

GIVEN: Final = "given as an option"
"""The evidence of a setting that an option has."""

_MOST_NAMED: Final = 3  # files that a sentence names


def conclusions(file: FileProbe, given: Collection[str]) -> Iterator[tuple[str, str, str, bool]]:
    """What was concluded about a file: setting, value, evidence, was it given?; ``given``: names of options."""

    def row(setting: str, value: str, why: str) -> tuple[str, str, str, bool]:
        return setting, value, GIVEN if setting in given else why, setting in given

    if file.dialect is not None:
        yield "delimiter", file.dialect.sentence(), file.delimiter_from, not TOKENS.keys().isdisjoint(given)
        shown = "consists of names" if file.header else "does not consist of names"
        yield row("header", str(file.header).lower(), f"the first record {shown}")
    if "sheets" in file.settings:
        sheets = joined(list(file.settings["sheets"]))
        yield row("sheet", str(file.settings["sheet"]), f"the first with values of {sheets}")
    if file.kind == SQL:
        yield row(
            "sql_table",
            str(file.settings["table"]),
            str(file.settings.get("why", "the first table with the columns of the format")),
        )
        is_escape = bool(file.settings["backslash"])
        yield row(
            "backslash", str(is_escape).lower(), "a dump of MySQL" if is_escape else "no evidence of a dump of MySQL"
        )


def detected_rows(found: Iterable[tuple[str, str, str, bool, str]]) -> list[dict[str, Any]]:
    """Rows of ``detected``, one for all files of which the same was concluded: setting, value, evidence, was it given?,
    file."""
    paths: dict[Any, list[str]] = {}
    for *conclusion, path in found:
        paths.setdefault(tuple(conclusion), []).append(path)
    return [
        detected_row(setting, value, f"{why} ({files_named(some)})", is_given)
        for (setting, value, why, is_given), some in paths.items()
    ]


def files_named(paths: Sequence[str]) -> str:
    """The names of files, or of the first of them."""
    names = joined([PurePosixPath(path).name for path in paths[:_MOST_NAMED]])
    return names if len(paths) <= _MOST_NAMED else f"{names} and {plural(len(paths) - _MOST_NAMED, 'more file')}"
