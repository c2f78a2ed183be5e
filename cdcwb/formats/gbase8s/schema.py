"""Table schemas: the column list of a TABSCHEM record, and how many bytes each column takes in a row
(docs/formats/gbase8s.md §4, §5).

The text lists fixed-length columns first. It is checked against the counts of the record's header; what disagrees
becomes a problem of the :class:`TableSchema`, and its rows stay bytes.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from cdcwb.errors import CaptureError
from cdcwb.formats.gbase8s.column_list import SchemaTextError, parse_columns
from cdcwb.formats.gbase8s.layout import MOST_PACKED, QUALIFIERS, Column, ColumnKind
from cdcwb.model import Problem

__all__ = [
    "QUALIFIERS",
    "Column",
    "ColumnKind",
    "SchemaTextError",
    "TableSchema",
    "parse_columns",
    "read_side_file",
    "schema_text",
    "table_schema",
    "text_codec",
]


@dataclass(frozen=True, slots=True)
class TableSchema:
    """One version of a captured table (§5). ``label`` is the client's number for the table, ``version`` counts from 1.

    ``fixed_bytes``, ``fixed_columns`` and ``variable_columns`` are the header's, or computed where there is none.
    ``problems`` says what of the text was not understood or disagrees. ``decodable`` is how many leading columns can be
    decoded: all of them when all is well, none where text and header disagree.
    """

    label: int
    version: int
    text: str
    columns: tuple[Column, ...]
    fixed_bytes: int
    fixed_columns: int
    variable_columns: int
    origin: str
    problems: tuple[tuple[Problem, str], ...]
    decodable: int

    @property
    def fixed_bytes_known(self) -> bool:
        """False where neither header nor types say how long a row's fixed part is (side file and unknown type)."""
        sizes = [column.size for column in self.columns if column.fixed]
        return None not in sizes or self.fixed_bytes != sum(size or 0 for size in sizes)


def schema_text(payload: bytes, charset: str) -> str:
    """The text of a TABSCHEM payload without its trailing NULs (§5), in the character set of :func:`text_codec`.

    Bytes that fit none are read as ISO 8859-1, so that the types can be read even where a name cannot.
    """
    return payload.rstrip(b"\0").decode(text_codec(payload, charset) or "iso-8859-1")


def text_codec(payload: bytes, charset: str) -> str | None:
    """The character set of a TABSCHEM payload; None where it is in none of them (§5).

    UTF-8, as the vendor says, else ``charset``, since texts in the server's own character set have been seen.
    """
    for codec in ("utf-8", charset):
        try:
            payload.decode(codec)
        except UnicodeError:
            continue
        return codec
    return None


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _misplaced(columns: tuple[Column, ...], fixed_columns: int) -> str | None:
    """A sentence about the first column whose type contradicts its place: fixed-length columns come first (§4)."""
    for column in columns:
        first_part = column.ordinal <= fixed_columns
        if column.kind is not ColumnKind.UNKNOWN and column.fixed != first_part:
            length = "fixed" if column.fixed else "variable"
            return (
                f"column {column.ordinal} {column.name} {column.type} is of {length} length; "
                f"expected the {fixed_columns} fixed-length ones first, and only them"
            )
    return None


def _fit_sizes(columns: tuple[Column, ...], fixed_bytes: int) -> tuple[tuple[Column, ...], str | None, bool]:
    """Columns whose sizes agree with the header's ``fixed_bytes``, a sentence where they did not, whether they do now.

    The size of an INTERVAL rests on few sources (§4.5): where there is one and nothing else is uncertain, the header
    decides.
    """
    fixed = [column for column in columns if column.fixed]
    total = sum(column.size or 0 for column in fixed)
    if any(column.size is None for column in fixed):
        if total <= fixed_bytes:
            return columns, None, True
        return (
            columns,
            f"fixed-length columns take at least {total} bytes by the text, {fixed_bytes} by the header",
            False,
        )
    if total == fixed_bytes:
        return columns, None, True
    intervals = [column for column in fixed if column.kind is ColumnKind.INTERVAL]
    if len(intervals) == 1:
        one = intervals[0]
        size = fixed_bytes - total + (one.size or 0)
        if 2 <= size <= MOST_PACKED:
            fitted = tuple(replace(column, size=size, length=size) if column is one else column for column in columns)
            sentence = (
                f"column {one.ordinal} {one.name} {one.type} takes {_plural(one.size or 0, 'byte')} by its type, "
                f"{size} by the header; {size} is used"
            )
            return fitted, sentence, True
    return (
        columns,
        f"fixed-length columns take {_plural(total, 'byte')} by the text, {fixed_bytes} by the header",
        False,
    )


def table_schema(
    label: int,
    version: int,
    text: str,
    *,
    fixed_bytes: int | None,
    fixed_columns: int | None,
    variable_columns: int | None,
    origin: str,
) -> TableSchema:
    """A table schema from its text, checked against the header of its TABSCHEM record (§2, §5).

    ``fixed_bytes``, ``fixed_columns`` and ``variable_columns`` are the header's; None (a side file) has them computed.
    Never raises: what is wrong becomes a problem.
    """
    problems: list[tuple[Problem, str]] = []
    decodable = 0
    try:
        columns = parse_columns(text)
    except SchemaTextError as error:
        columns = ()
        problems.append((Problem.SCHEMA_TEXT, f"{error.message} (character {error.offset} of the schema text)"))
    by_type = sum(column.fixed for column in columns)
    n_fixed = by_type if fixed_columns is None else fixed_columns
    n_variable = len(columns) - by_type if variable_columns is None else variable_columns
    total = sum(column.size or 0 for column in columns if column.fixed) if fixed_bytes is None else fixed_bytes
    if columns and n_fixed + n_variable != len(columns):
        counted = _plural(len(columns), "column")
        sentence = f"the text has {counted}, the header counts {n_fixed} fixed and {n_variable} variable"
        problems.append((Problem.SCHEMA_MISMATCH, sentence))
    elif columns:
        misplaced = _misplaced(columns, n_fixed)
        if misplaced is not None:
            problems.append((Problem.SCHEMA_MISMATCH, misplaced))
        else:
            columns = tuple(replace(column, fixed=column.ordinal <= n_fixed) for column in columns)
            columns, disagreement, fits = _fit_sizes(columns, total)
            if disagreement is not None:
                problems.append((Problem.SCHEMA_MISMATCH, disagreement))
            if fits:
                decodable = next((c.ordinal - 1 for c in columns if c.kind is ColumnKind.UNKNOWN), len(columns))
                problems += _unknown_types(columns, decodable)
    return TableSchema(label, version, text, columns, total, n_fixed, n_variable, origin, tuple(problems), decodable)


def _unknown_types(columns: tuple[Column, ...], decodable: int) -> list[tuple[Problem, str]]:
    if decodable == len(columns):
        return []
    first = columns[decodable]
    behind = len(columns) - decodable - 1
    rest = f" and the {_plural(behind, 'column')} after it stay" if behind else " stays"
    sentence = f"the encoding of column {first.ordinal} {first.name} {first.type} is unknown: it{rest} undecoded"
    return [(Problem.UNKNOWN_TYPE, sentence)]


def read_side_file(path: str | os.PathLike[str]) -> dict[int, str]:
    """Schema texts by label, from a file beside the capture (§5): a JSON object ``{"111": "c1 integer, …"}``, or lines
    ``111: c1 integer, …`` in which empty ones and those that begin with ``#`` do not count. UTF-8.

    Raises CaptureError where the file cannot be read or a label is not a 32-bit number or comes twice.
    """
    place = os.fspath(path)
    try:
        content = Path(place).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CaptureError(f"the schema file cannot be read: {error}", path=place) from error
    pairs: list[tuple[str, str]] = []
    if content.lstrip().startswith("{"):
        try:
            loaded = json.loads(content, object_pairs_hook=list)
        except (ValueError, RecursionError) as error:
            raise CaptureError(f"the schema file is not JSON: {error}", path=place) from error
        for label, text in loaded:
            if not isinstance(text, str):
                raise CaptureError(f"the schema of label {label} must be a text", path=place)
            pairs.append((label, text))
    else:
        for number, line in enumerate(content.splitlines(), start=1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            label, colon, text = line.partition(":")
            if not colon:
                raise CaptureError(f"line {number} must read `label: column list`", path=place)
            pairs.append((label, text.strip()))
    schemas: dict[int, str] = {}
    for label, text in pairs:
        if not re.fullmatch(r"\s*-?[0-9]{1,10}\s*", label) or not -(2**31) <= int(label) < 2**31:
            raise CaptureError(f"the label {label.strip()!r} is not a 32-bit number", path=place)
        if int(label) in schemas:
            raise CaptureError(f"the label {int(label)} has two schemas", path=place)
        schemas[int(label)] = text
    return schemas
