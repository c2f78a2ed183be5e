"""One row as a tree of fields with bytes, value and meaning (docs/formats/qlik-change-table.md §2 to §4). Children
cover their node without holes, in byte order; every byte is in exactly one leaf. The bits of a mask are leaves without
bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from cdcwb.formats import bitmask
from cdcwb.formats.containers.rows import Cell
from cdcwb.formats.dissector import Field
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
from cdcwb.formats.table_rows import TableFile
from cdcwb.model import Problem
from cdcwb.words import joined, moment, plural

__all__ = ["field_of", "row_meaning"]

_NAMED: Final = 6  # columns that the meaning of a mask names

_ROWS: Final = {
    "INSERT": "the new row",
    "UPDATE": "after image of the update",
    "DELETE": "the deleted row",
    "REFRESH": "a row of the full load",
    "TRUNCATE": "all rows of the table were deleted",
}

_Meaning = tuple[str, Problem | None, tuple[Field, ...]]


def row_meaning(entry: TableFile, event: Mapping[str, Any]) -> str:
    """The meaning of a row."""
    if entry.options["role"] == CONTROL:
        return f"a row of the control table {entry.options['control']}"
    if event["kind"] == "before":
        return "before image of the update with the same change_seq"
    return _ROWS.get(str(event["operation"]), "a row with an unknown operation")


def field_of(entry: TableFile, record: bytes, cell: Cell) -> Field:
    """One field of a row with its meaning and children."""
    problem: Problem | None = Problem.CHARSET if cell.garbled else None
    inside: tuple[Field, ...] = ()
    prefix = entry.options.get("prefix")
    if entry.options["role"] == CONTROL:
        meaning = "NULL" if cell.text is None else "a column of the control table"
    elif entry.options["role"] == ROWS and header_columns([cell.name], prefix):
        known = next(iter(known_columns([cell.name], prefix)), "")
        title = HEADERS[known].title if known else "an undocumented header column"
        meaning = f"{title}: NULL"
        if cell.text is not None:
            meaning, wrong, inside = _header(record, cell, known, cell.text, title, entry)
            problem = problem or wrong
    else:
        ordinal = entry.columns.index(cell.name) + 1 if cell.name in entry.columns else 0
        parts = [f"column {ordinal} of the table" if ordinal else "a column that the table version does not have"]
        parts += ["in the key"] if cell.name in entry.key else []
        parts += ["NULL"] if cell.text is None else []
        meaning = ", ".join(parts)
    if cell.garbled:
        meaning = f"{meaning}; not in the character set {entry.probe.charset}; its bytes in hex"
    if inside:  # with the bytes that precede and follow the content
        first = _leaf(record, "opening", cell.start, cell.inner, None, "opening quote")
        last = _leaf(record, "closing", cell.end, cell.stop, None, "closing quote, and the delimiter that follows")
        inside = (*((first,) if first.length else ()), *inside, *((last,) if last.length else ()))
    raw = record[cell.start : cell.stop]
    return Field(cell.name, cell.start, len(raw), raw, cell.text, meaning, inside, problem)


def _leaf(record: bytes, name: str, start: int, stop: int, value: str | None, meaning: str) -> Field:
    return Field(name, start, stop - start, record[start:stop], value, meaning)


# --- header columns ---------------------------------------------------------------------------------------------------


def _header(record: bytes, cell: Cell, name: str, text: str, title: str, entry: TableFile) -> _Meaning:
    """The meaning, the problem and the children of a header column."""
    if name == "change_mask":
        return _mask(record, cell, text, title, entry)
    if name in ("change_oper", "operation"):
        known = (LETTERS if name == "change_oper" else OPERATIONS).get(text)
        return (f"{title}: {known.operation}, {known.kind}" if known else f"{title}: undocumented"), None, ()
    if name == "change_seq":
        return _sequence(record, cell, text, title)
    if name == "timestamp":
        time = time_of(text)
        wrong = None if time is not None or not text else Problem.TIME_RANGE
        if time is not None and (time.year, time.month, time.day) == (1970, 1, 1):
            return f"{title}: unknown when the row was written", None, ()
        return (title if time is None else f"{title}: {moment(time)}"), wrong, ()
    if name == "partition_name":
        return _partition(record, cell, text, title)
    return title, None, ()


def _parts(record: bytes, cell: Cell, parts: Sequence[tuple[str, int, int, str, str]]) -> tuple[Field, ...]:
    """Parts of a content (name, first and last character, value, meaning); without bytes if a character is not one
    byte."""
    step = int(cell.end - cell.inner == len(cell.text or ""))
    return tuple(
        _leaf(record, name, cell.inner + step * start, cell.inner + step * stop, value, meaning)
        for name, start, stop, value, meaning in parts
    )


def _sequence(record: bytes, cell: Cell, text: str, title: str) -> _Meaning:
    time: datetime | None = sequence_times(pa.array([text], pa.string()))[0][0].as_py()
    if time is None:
        return f"{title}: expected 35 digits that begin with a time", Problem.VALUE if text else None, ()
    shown = f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 10_000:02d}"
    number = text[16:].lstrip("0") or "0"
    parts = [
        ("time", 0, 16, shown, "UTC on the Replicate server, usually of the commit, in hundredths of a second"),
        ("number", 16, 35, number, "one counter for the task; a before image has that of its update"),
    ]
    return f"{title}: {shown} and number {number}", None, _parts(record, cell, parts)


def _partition(record: bytes, cell: Cell, text: str, title: str) -> _Meaning:
    span = partition_span(text)
    if span is None:
        return f"{title}: expected two times", Problem.VALUE if text else None, ()
    begin, end = (f"{edge:%Y-%m-%dT%H:%M:%S}" for edge in span)
    parts = [
        ("begin", 0, 15, begin, "included"),
        ("separator", 15, 16, "_", ""),
        ("end", 16, 31, end, "not included"),
    ]
    return f"{title}: {begin} to {end}", None, _parts(record, cell, parts)


# --- masks ------------------------------------------------------------------------------------------------------------


def _mask(record: bytes, cell: Cell, text: str, title: str, entry: TableFile) -> _Meaning:
    settings = MaskSettings.of(entry.options)
    data = None if settings is None else bitmask.parse(pa.array([text], pa.string()), settings.spelling)[0][0].as_py()
    if settings is None or data is None:
        return f"{title}: expected hexadecimal digits or base64", Problem.MASK if settings else None, ()
    order = "a number: its last byte has bits 0 to 7" if settings.order == "big" else "byte 0 has bits 0 to 7"
    mask = int.from_bytes(data, "big" if settings.order == "big" else "little")
    digits = _leaf(record, "digits", cell.inner, cell.end, text, f"{plural(len(data), 'byte')}; {order}")
    bits = _bits(mask, settings.offset, cell.end, entry)
    found = [name for at, name in enumerate(entry.columns) if mask >> (settings.offset + at) & 1]
    named = found[:_NAMED] + ([f"{len(found) - _NAMED} more"] if len(found) > _NAMED else [])
    wrong = next((bit.problem for bit in bits if bit.problem is not None), None)
    return f"{title}: {joined(named) or 'none'}", None if wrong is None else Problem(wrong), (digits, *bits)


def _bits(mask: int, offset: int, at: int, entry: TableFile) -> tuple[Field, ...]:
    """The bits of a mask, named by their columns, bit 0 first, and bits that are set after the last column."""
    header = header_columns(entry.probe.columns, entry.options.get("prefix"))
    children = []
    for bit in range(offset + len(entry.columns)):
        is_set, wrong = bool(mask >> bit & 1), False
        if bit < offset:
            name = header[bit] if bit < len(header) else f"header column {bit + 1}"
            meaning, wrong = f"bit {bit}, ordinal {bit + 1}: a header column, which never changes", is_set
        else:
            name = entry.columns[bit - offset]
            meaning = f"bit {bit}, ordinal {bit + 1}, column {bit - offset + 1} of the table"
        value = "changed" if is_set else "not changed"
        children.append(Field(name, at, 0, b"", value, meaning, (), Problem.MASK if wrong else None))
    if mask >> (offset + len(entry.columns)):
        first, last = offset + len(entry.columns), mask.bit_length() - 1
        sentence = f"expected bits below {first}, found bits up to {last}"
        children.append(Field("beyond the columns", at, 0, b"", f"bits up to {last}", sentence, (), Problem.MASK))
    return tuple(children)
