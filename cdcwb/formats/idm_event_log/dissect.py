"""The slow and readable path: one row as a tree of fields with place, bytes, value and meaning
(docs/formats/idm-event-log.md).

Children fill their node without holes, in byte order; every byte is in exactly one leaf. Where the text of a column is
not what its bytes are (doubled quotes, another character set), its parts are leaves without bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cdcwb.formats.base import Field
from cdcwb.formats.idm_event_log.events import Source, split_name
from cdcwb.formats.idm_event_log.facts import STATUSES, TITLES, EventType
from cdcwb.formats.idm_event_log.log import COLUMNS
from cdcwb.formats.idm_event_log.row import Broken, Row, event_type, is_written, moment_of, rules, whole_number
from cdcwb.formats.idm_event_log.table_key import TableKeyError, parse, parts
from cdcwb.model import OffsetUnit
from cdcwb.words import moment, visible

__all__ = ["Cell", "dissect"]

_SOURCE: Final = Source("", 0, OffsetUnit.BYTE)
_NOT_USED: Final = "not used by an event of type"


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
    """The field tree of a row that was cut into its columns, which are given in byte order. What stands between them is
    quiet. Columns that the row lacks are as in :data:`~cdcwb.formats.idm_event_log.log.LOG`; of those that ``source``
    says are absent nothing is told. Never raises."""
    where = source or replace(_SOURCE, absent=frozenset(COLUMNS) - {cell.name for cell in cells})
    row: Row = dict.fromkeys(COLUMNS) | {"record_id": "1", "status": "N"}
    row = {**row, **{cell.name: cell.value for cell in cells if cell.name is not None}}
    broken = rules(row, where)
    children: list[Field] = []
    at = 0
    for cell in cells:
        if cell.offset > at:
            children.append(_leaf(record, "between", at, cell.offset, None, "separates the columns", quiet=True))
        children.append(_column(record, cell, row, broken, where))
        at = max(at, cell.offset + cell.length)
    if at < len(record):
        children.append(_leaf(record, "behind", at, len(record), None, "ends the row", quiet=True))
    worst = str(broken[0].code) if broken else None
    return Field("row", 0, len(record), record, None, _row_meaning(row), tuple(children), worst)


def _leaf(
    record: bytes, name: str, start: int, stop: int, value: str | None, meaning: str, quiet: bool = False
) -> Field:
    return Field(name, start, stop - start, record[start:stop], value, meaning, quiet=quiet)


def _row_meaning(row: Row) -> str:
    what = event_type(row["event_type"])
    if what is None:
        return "an event of an unknown type"
    column = f", column {visible(row['column_name'], 60)}" if what.per_field and row["column_name"] else ""
    return f"{what.name}: {what.meaning} ({visible(row['table_name'] or 'no table', 60)}{column})"


def _column(record: bytes, cell: Cell, row: Row, broken: Sequence[Broken], source: Source) -> Field:
    raw = record[cell.offset : cell.offset + cell.length]
    if cell.name is None:
        meaning = "a column that an event log does not have"
        return Field(cell.label, cell.offset, cell.length, raw, cell.value, meaning)
    wrong = [one for one in broken if one.column == cell.name]
    said = _MEANINGS[cell.name](cell.value, event_type(row["event_type"]), source)
    meaning = "; ".join([f"{TITLES[cell.name]}: {said}" if said else TITLES[cell.name], *_told(wrong)])
    children: tuple[Field, ...] = ()
    if cell.value:
        pieces = _PIECES.get(cell.name, _no_pieces)(cell.value)
        children = _laid(record, cell, pieces)
    problem = str(wrong[0].code) if wrong else None
    return Field(cell.label, cell.offset, cell.length, raw, cell.value, meaning, children, problem)


def _told(broken: Sequence[Broken]) -> list[str]:
    return [one.sentence.partition(": ")[2] for one in broken]


# --- what a column means ----------------------------------------------------------------------------------------------


def _record_id(text: str | None, _: EventType | None, __: Source) -> str:
    number = whole_number(text)
    return "" if number is None else f"position {number:019d}"


def _key(text: str | None, _: EventType | None, __: Source) -> str:
    try:
        pairs = parse(text or "")
    except TableKeyError:
        return ""
    return " and ".join(f"{visible(name, 40)} is {visible(value, 40)!r}" for name, value in pairs)


def _status(text: str | None, _: EventType | None, __: Source) -> str:
    return STATUSES.get(text or "", "reserved: the Publisher skips the row")


def _event_type(_: str | None, what: EventType | None, __: Source) -> str:
    return "not known" if what is None else f"{what.name}, XDS {what.verb}"


def _event_time(text: str | None, _: EventType | None, source: Source) -> str:
    found = moment_of(text, source.zone)
    return "" if found is None else f"{moment(found.utc)}, in the form of {found.form}"


def _perpetrator(text: str | None, _: EventType | None, __: Source) -> str:
    return "NULL, so not the driver's own user" if text is None else "loopback if it is the driver's own user"


def _table_name(text: str | None, _: EventType | None, source: Source) -> str:
    schema, table = split_name(text, source.schema)
    if table is None:
        return ""
    return f"{visible(table, 60)}" if schema is None else f"{visible(table, 60)} of schema {visible(schema, 60)}"


def _column_name(text: str | None, what: EventType | None, _: Source) -> str:
    if what is not None and not what.per_field:
        return f"{_NOT_USED} {what.number}"
    return "NULL" if text is None else ""


def _value(name: str) -> Callable[[str | None, EventType | None, Source], str]:
    def meaning(text: str | None, what: EventType | None, _: Source) -> str:
        if what is not None and not is_written(what, name):
            return f"{_NOT_USED} {what.number}"
        return "NULL" if text is None else ""

    return meaning


_MEANINGS: Final[dict[str, Callable[[str | None, EventType | None, Source], str]]] = {
    "record_id": _record_id,
    "table_key": _key,
    "status": _status,
    "event_type": _event_type,
    "event_time": _event_time,
    "perpetrator": _perpetrator,
    "table_name": _table_name,
    "column_name": _column_name,
    "old_value": _value("old_value"),
    "new_value": _value("new_value"),
}


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


def _no_pieces(_: str) -> list[_Piece]:
    return []


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
