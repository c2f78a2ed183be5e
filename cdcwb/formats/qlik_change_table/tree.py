"""The meanings of the fields of a row, and their parts (docs/formats/qlik-change-table.md §2 to §4). Values and
problems are those of its event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from cdcwb.formats import bitmask
from cdcwb.formats.containers.rows import Cell
from cdcwb.formats.dissector import Field, TextPart
from cdcwb.formats.moments import moment as time_of
from cdcwb.formats.moments import sequence_times
from cdcwb.formats.qlik_change_table.decode import partition_span
from cdcwb.formats.qlik_change_table.layout import (
    CONTROL,
    HEADERS,
    LETTERS,
    OPERATIONS,
    ROWS,
    header_columns,
    known_columns,
)
from cdcwb.formats.qlik_change_table.masks import MaskSettings
from cdcwb.formats.table_rows import TableFile, cell_field, problem_of
from cdcwb.model import Problem
from cdcwb.words import joined, moment, plural

_NAMED: Final = 6  # columns that the meaning of a mask names

_ROWS: Final = {
    "INSERT": "the new row",
    "UPDATE": "after image of the update",
    "DELETE": "the deleted row",
    "REFRESH": "a row of the full load",
    "TRUNCATE": "all rows of the table were deleted",
}


def row_meaning(entry: TableFile, event: Mapping[str, Any]) -> str:
    """The meaning of a row."""
    if entry.options["role"] == CONTROL:
        return f"a row of the control table {entry.options['control']}"
    if event["kind"] == "before":
        return "before image of the update with the same change_seq"
    return _ROWS.get(str(event["operation"]), "a row with an unknown operation")


def field_of(entry: TableFile, record: bytes, cell: Cell, event: Mapping[str, Any]) -> Field:
    """One field of a row with its meaning and parts."""
    problem: str | None = str(Problem.CHARSET) if cell.garbled else None
    parts: list[TextPart] = []
    prefix = entry.options.get("prefix")
    if entry.options["role"] == CONTROL:
        meaning = "NULL" if cell.text is None else "a column of the control table"
    elif entry.options["role"] == ROWS and header_columns([cell.name], prefix):
        known = next(iter(known_columns([cell.name], prefix)), "")
        title = HEADERS[known].title if known else "an undocumented header column"
        said, parts = ("NULL", []) if cell.text is None else _header(known, cell.text, entry)
        meaning = f"{title}: {said}" if said else title
        code, sentences = problem_of(event, known)
        problem = problem or code
        meaning = "; ".join([meaning, *sentences])
    else:
        ordinal = entry.columns.index(cell.name) + 1 if cell.name in entry.columns else 0
        words = [f"column {ordinal} of the table" if ordinal else "a column that the table version does not have"]
        words += ["in the key"] if cell.name in entry.key else []
        words += ["NULL"] if cell.text is None else []
        meaning = ", ".join(words)
    if cell.garbled:
        meaning = f"{meaning}; not in the character set {entry.probe.charset}; its bytes in hex"
    return cell_field(record, cell, meaning, parts, problem)


def _header(name: str, text: str, entry: TableFile) -> tuple[str, list[TextPart]]:
    """The meaning of a value of a header column, and its parts."""
    if name == "change_mask":
        return _mask(text, entry)
    if name in ("change_oper", "operation"):
        known = (LETTERS if name == "change_oper" else OPERATIONS).get(text)
        return f"{known.operation}, {known.kind}" if known else "undocumented", []
    if name == "change_seq" and (time := sequence_times(pa.array([text], pa.string()))[0][0].as_py()) is not None:
        shown, number = f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 10_000:02d}", text[16:].lstrip("0") or "0"
        said = "UTC on the Replicate server, usually of the commit, in hundredths of a second"
        return f"{shown} and number {number}", [
            TextPart("time", text[:16], shown, said),
            TextPart("number", text[16:], number, "one counter for the task; a before image has that of its update"),
        ]
    if name == "timestamp" and (time := time_of(text)) is not None:
        is_unknown = (time.year, time.month, time.day) == (1970, 1, 1)
        return "unknown when the row was written" if is_unknown else moment(time), []
    if name == "partition_name" and (span := partition_span(text)) is not None:
        begin, end = (f"{edge:%Y-%m-%dT%H:%M:%S}" for edge in span)
        return f"{begin} to {end}", [
            TextPart("begin", text[:15], begin, "included"),
            TextPart("separator", text[15], "_"),
            TextPart("end", text[16:], end, "not included"),
        ]
    return "", []


def _mask(text: str, entry: TableFile) -> tuple[str, list[TextPart]]:
    """The columns of a mask, its digits, and its bits."""
    settings = MaskSettings.of(entry.options)
    data = None if settings is None else bitmask.parse(pa.array([text], pa.string()), settings.spelling)[0][0].as_py()
    if settings is None or data is None:
        return "expected hexadecimal digits or base64", []
    order = "a number: its last byte has bits 0 to 7" if settings.order == "big" else "byte 0 has bits 0 to 7"
    mask = int.from_bytes(data, "big" if settings.order == "big" else "little")
    digits = TextPart("digits", text, text, f"{plural(len(data), 'byte')}; {order}")
    found = [name for at, name in enumerate(entry.columns) if mask >> (settings.offset + at) & 1]
    named = found[:_NAMED] + ([f"{len(found) - _NAMED} more"] if len(found) > _NAMED else [])
    return joined(named) or "none", [digits, *_bits(mask, settings.offset, entry)]


def _bits(mask: int, offset: int, entry: TableFile) -> Iterator[TextPart]:
    """The bits of a mask, named by their columns, bit 0 first, and bits that are set after the last column."""
    header = header_columns(entry.probe.columns, entry.options.get("prefix"))
    names = [*(header + [f"header column {bit + 1}" for bit in range(len(header), offset)])[:offset], *entry.columns]
    for bit, name in enumerate(names):
        is_set = mask >> bit & 1
        what = "a header column, which never changes" if bit < offset else f"column {bit - offset + 1} of the table"
        problem = str(Problem.MASK) if is_set and bit < offset else None
        value = "changed" if is_set else "not changed"
        yield TextPart(name, "", value, f"bit {bit}, ordinal {bit + 1}: {what}", problem=problem)
    if mask >> len(names):
        last, problem = f"bits up to {mask.bit_length() - 1}", str(Problem.MASK)
        yield TextPart("beyond the columns", "", last, f"expected bits below {len(names)}", problem=problem)
