"""The slow and readable path: one row as a tree of fields with place, bytes, value and meaning
(docs/formats/idm-event-log.md).

Children fill their node without holes, in byte order; every byte is in exactly one leaf. Where the text of a column is
not what its bytes are (doubled quotes, another character set), its parts are leaves without bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from cdcwb.formats.base import Field
from cdcwb.formats.idm_event_log.events import Source, split_name
from cdcwb.formats.idm_event_log.facts import EVENT_TYPES, STATUSES, TITLES, EventType
from cdcwb.formats.idm_event_log.log import COLUMNS, LOG, Finding
from cdcwb.formats.idm_event_log.rules import WRITTEN, Typed, check, typed
from cdcwb.formats.idm_event_log.table_key import TableKeyError, parse, parts
from cdcwb.formats.idm_event_log.times import FORMS
from cdcwb.model import OffsetUnit
from cdcwb.words import moment, visible

__all__ = ["Cell", "dissect"]

_SOURCE: Final = Source("", 0, OffsetUnit.BYTE)


@dataclass(frozen=True, slots=True)
class Cell:
    """One column of a row. ``name``: the vendor's, None for a column that is none of the ten; ``label``: the source's.
    ``offset`` and ``length`` are its bytes in the record (0 where a row has none); ``value`` None is NULL."""

    name: str | None
    label: str
    offset: int
    length: int
    value: str | None


def dissect(record: bytes, cells: Sequence[Cell], source: Source | None = None) -> Field:
    """The field tree of a row, of which ``cells`` are the columns in byte order. What separates them is quiet. Columns
    that the row lacks are as in :data:`~cdcwb.formats.idm_event_log.log.LOG`; those that are absent from ``source``
    break no rule. Never raises."""
    where = source or replace(_SOURCE, absent=frozenset(COLUMNS) - {cell.name for cell in cells})
    row: dict[str, str | None] = dict.fromkeys(COLUMNS) | {"record_id": "1", "status": "N"}
    row |= {cell.name: cell.value for cell in cells if cell.name is not None}
    log = pa.RecordBatch.from_pylist([row], LOG)
    said = typed(log, where.zone)
    what = EVENT_TYPES.get(said.event_type[0].as_py())
    findings = check(log, where.absent, where.zone, said)
    children: list[Field] = []
    at = 0
    for cell in cells:
        if cell.offset > at:
            children.append(_leaf(record, "between", at, cell.offset, None, "separates the columns", quiet=True))
        children.append(_column(record, cell, what, said, findings, where))
        at = max(at, cell.offset + cell.length)
    if at < len(record):
        children.append(_leaf(record, "behind", at, len(record), None, "ends the row", quiet=True))
    worst = str(findings[0].code) if findings else None
    return Field("row", 0, len(record), record, None, _row_meaning(row, what), tuple(children), worst)


def _leaf(
    record: bytes, name: str, start: int, stop: int, value: str | None, meaning: str, quiet: bool = False
) -> Field:
    return Field(name, start, stop - start, record[start:stop], value, meaning, quiet=quiet)


def _row_meaning(row: Mapping[str, str | None], what: EventType | None) -> str:
    if what is None:
        return "an event of an unknown type"
    column = f", column {visible(row['column_name'], 60)}" if what.per_field and row["column_name"] else ""
    return f"{what.name}: {what.meaning} ({visible(row['table_name'] or 'no table', 60)}{column})"


def _column(
    record: bytes, cell: Cell, what: EventType | None, said: Typed, findings: Sequence[Finding], source: Source
) -> Field:
    raw = record[cell.offset : cell.offset + cell.length]
    if cell.name is None:
        meaning = "a column that an event log does not have"
        return Field(cell.label, cell.offset, cell.length, raw, cell.value, meaning)
    wrong = [one for one in findings if one.column == cell.name]
    meaning = _meaning(cell.name, cell.value, what, said, source)
    sentences = [one.sentence.partition(": ")[2] for one in wrong]
    meaning = "; ".join([f"{TITLES[cell.name]}: {meaning}" if meaning else TITLES[cell.name], *sentences])
    pieces = _PIECES[cell.name](cell.value) if cell.value and cell.name in _PIECES else []
    problem = str(wrong[0].code) if wrong else None
    children = _laid(record, cell, pieces)
    return Field(cell.label, cell.offset, cell.length, raw, cell.value, meaning, children, problem)


def _meaning(name: str, text: str | None, what: EventType | None, said: Typed, source: Source) -> str:
    """What the value of a column means."""
    null = "NULL" if text is None else ""
    match name:
        case "record_id":
            number = said.record_id[0].as_py()
            return "" if number is None else f"position {number:019d}"
        case "table_key":
            try:
                pairs = parse(text or "")
            except TableKeyError:
                return ""
            return " and ".join(f"{visible(column, 40)} is {visible(value, 40)!r}" for column, value in pairs)
        case "status":
            return STATUSES.get(text or "", "reserved: the Publisher skips the row")
        case "event_type":
            return "not known" if what is None else f"{what.name}, XDS {what.verb}"
        case "event_time":
            (time,) = said.event_us.view(pa.timestamp("us", "UTC")).to_pylist()
            return "" if time is None else f"{moment(time)}, in the form of {FORMS[said.times.form[0]]}"
        case "perpetrator":
            return f"{null}, so not the driver's own user" if null else "loopback if it is the driver's own user"
        case "table_name":
            schema, table = split_name(text, source.schema)
            of_schema = "" if schema is None else f" of schema {visible(schema, 60)}"
            return "" if table is None else f"{visible(table, 60)}{of_schema}"
        case "column_name":
            used = what is None or what.per_field
        case _:
            used = what is None or what.number in WRITTEN[name]
    return null if used or what is None else f"not used by an event of type {what.number}"


# --- what is inside a column ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Piece:
    """So many characters of a text, one piece behind the other."""

    name: str
    text: str
    value: str | None
    meaning: str
    quiet: bool = False
    problem: str | None = None


def _key_pieces(text: str) -> list[_Piece]:
    found: list[_Piece] = []
    plus = _Piece("+", "+", None, "", quiet=True)
    try:
        for number, (name, value) in enumerate(parts(text), start=1):
            if found:
                found.append(plus)
            ((_, plain),) = parse(f"{name}={value}")
            found += [
                _Piece("column", name, name, f"column {number} of the key"),
                _Piece("=", "=", None, "", quiet=True),
                _Piece("value", value, plain, "in quotes; escapes are decoded" if value.startswith('"') else ""),
            ]
    except TableKeyError as error:
        if found:
            found.append(plus)
        at = sum(len(piece.text) for piece in found)
        good, rest = text[at : error.position], text[error.position :]
        found += [_Piece("so far", good, good, "by the grammar")] if good else []
        found.append(_Piece("error", rest, rest, str(error), problem="table_key"))
    return found


def _name_pieces(text: str) -> list[_Piece]:
    schema, table = split_name(text, None)
    if schema is None or table is None:
        return []
    return [
        _Piece("schema", schema, schema, "the schema or owner"),
        _Piece(".", ".", None, "", quiet=True),
        _Piece("table", table, table, "the table or view"),
    ]


_PIECES: Final[dict[str, Callable[[str], list[_Piece]]]] = {"table_key": _key_pieces, "table_name": _name_pieces}


def _laid(record: bytes, cell: Cell, pieces: Sequence[_Piece]) -> tuple[Field, ...]:
    """The pieces as fields, in the bytes of the column where these spell its text."""
    if not pieces:
        return ()
    stop = cell.offset + cell.length
    at = record.find((cell.value or "").encode(), cell.offset, stop)
    made: list[Field] = []
    if at < 0 or not cell.length:
        if cell.length:
            made.append(_leaf(record, "text", cell.offset, stop, cell.value, "as written in the log"))
        made += [Field(one.name, stop, 0, b"", one.value, one.meaning, (), one.problem, one.quiet) for one in pieces]
        return tuple(made)
    if at > cell.offset:
        made.append(_leaf(record, "opening", cell.offset, at, None, "", quiet=True))
    for one in pieces:
        raw = one.text.encode()
        made.append(Field(one.name, at, len(raw), raw, one.value, one.meaning, (), one.problem, one.quiet))
        at += len(raw)
    if at < stop:
        made.append(_leaf(record, "closing", at, stop, None, "", quiet=True))
    return tuple(made)
