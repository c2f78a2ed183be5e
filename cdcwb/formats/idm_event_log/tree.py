"""One row of a log as a tree of fields with offset, bytes, value and meaning (docs/formats/idm-event-log.md).

Children fill their node without holes, in byte order; every byte is in exactly one leaf. Where the text of a column is
not what its bytes are (doubled quotes, another character set), its parts are leaves without bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from cdcwb.formats.containers.rows import Cell
from cdcwb.formats.dissector import Field
from cdcwb.formats.idm_event_log.decode import FORMS, TableKeyError, parse, parts
from cdcwb.formats.idm_event_log.events import WRITTEN, TypedLog, check, split_name
from cdcwb.formats.idm_event_log.layout import COLUMNS, EVENT_TYPES, LOG, STATUSES, TITLES, EventType, RowProblem
from cdcwb.words import moment, visible

__all__ = ["dissect"]


def dissect(
    record: bytes,
    cells: Sequence[Cell],
    names: Mapping[str, str],
    row: Mapping[str, str | None],
    options: Mapping[str, str],
) -> Field:
    """The field tree of a row, of which ``cells`` are the columns in byte order. ``names``: by the source's names in
    lower case, the vendor's names of its columns; ``row``: their values. What separates them is quiet. Columns that the
    source lacks break no rule. ``options``: ``time_zone`` and ``schema``. Never raises."""
    values: dict[str, str | None] = dict.fromkeys(COLUMNS) | {"record_id": "1", "status": "N"} | dict(row)
    absent = frozenset(COLUMNS) - row.keys()
    typed = TypedLog(pa.RecordBatch.from_pylist([values], LOG), absent, options.get("time_zone"))
    what = EVENT_TYPES.get(typed.event_type[0].as_py())
    findings = check(typed)
    children: list[Field] = []
    at = 0
    for cell in cells:
        if cell.inner > at:
            children.append(_leaf(record, "between", at, cell.inner, None, "separates the columns", quiet=True))
        name = names.get(cell.name.casefold())
        if name is None:
            meaning = "a column that an event log does not have"
            children.append(_leaf(record, cell.name, cell.inner, cell.end, cell.text, meaning))
        else:
            meaning = _meaning(name, values[name], what, typed, options.get("schema"))
            children.append(_column(record, cell, name, values[name], meaning, findings))
        at = max(at, cell.end)
    if at < len(record):
        children.append(_leaf(record, "behind", at, len(record), None, "ends the row", quiet=True))
    worst = str(findings[0].code) if findings else None
    return Field("row", 0, len(record), record, None, _row_meaning(values, what), tuple(children), worst)


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
    record: bytes, cell: Cell, name: str, text: str | None, meaning: str, findings: Sequence[RowProblem]
) -> Field:
    wrong = [one for one in findings if one.column == name]
    sentences = [one.sentence.partition(": ")[2] for one in wrong]
    meaning = "; ".join([f"{TITLES[name]}: {meaning}" if meaning else TITLES[name], *sentences])
    inside = _INSIDE[name](text) if text and name in _INSIDE else []
    problem = str(wrong[0].code) if wrong else None
    raw = record[cell.inner : cell.end]
    return Field(
        cell.name, cell.inner, len(raw), raw, text, meaning, _located(record, cell, text or "", inside), problem
    )


def _meaning(name: str, text: str | None, what: EventType | None, typed: TypedLog, of_schema: str | None) -> str:
    """What the value of a column means."""
    null = "NULL" if text is None else ""
    match name:
        case "record_id":
            number = typed.record_id[0].as_py()
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
            (time,) = typed.event_us.view(pa.timestamp("us", "UTC")).to_pylist()
            return "" if time is None else f"{moment(time)}, in the form of {FORMS[typed.times.form[0]]}"
        case "perpetrator":
            return f"{null}, so not the driver's own user" if null else "loopback if it is the driver's own user"
        case "table_name":
            schema, table = split_name(text, of_schema)
            shown = "" if schema is None else f" of schema {visible(schema, 60)}"
            return "" if table is None else f"{visible(table, 60)}{shown}"
        case "column_name":
            used = what is None or what.per_field
        case _:
            used = what is None or what.number in WRITTEN[name]
    return null if used or what is None else f"not used by an event of type {what.number}"


# --- what is inside a column ------------------------------------------------------------------------------------------


class _KeyPart(NamedTuple):
    """Characters of a text; each follows the one before it."""

    name: str
    text: str
    value: str | None
    meaning: str
    quiet: bool = False
    problem: str | None = None


def _parts_of_key(text: str) -> list[_KeyPart]:
    found: list[_KeyPart] = []
    plus = _KeyPart("+", "+", None, "", quiet=True)
    pairs, error = parts(text)
    for number, (name, value) in enumerate(pairs, start=1):
        if found:
            found.append(plus)
        ((_, plain),) = parse(f"{name}={value}")
        found += [
            _KeyPart("column", name, name, f"column {number} of the key"),
            _KeyPart("=", "=", None, "", quiet=True),
            _KeyPart("value", value, plain, "in quotes; escapes are decoded" if value.startswith('"') else ""),
        ]
    if error is not None:
        if found:
            found.append(plus)
        at = sum(len(piece.text) for piece in found)
        good, rest = text[at : error.position], text[error.position :]
        found += [_KeyPart("so far", good, good, "by the grammar")] if good else []
        found.append(_KeyPart("error", rest, rest, str(error), problem="table_key"))
    return found


def _parts_of_name(text: str) -> list[_KeyPart]:
    schema, table = split_name(text, None)
    if schema is None or table is None:
        return []
    return [
        _KeyPart("schema", schema, schema, "the schema or owner"),
        _KeyPart(".", ".", None, "", quiet=True),
        _KeyPart("table", table, table, "the table or view"),
    ]


_INSIDE: Final[dict[str, Callable[[str], list[_KeyPart]]]] = {"table_key": _parts_of_key, "table_name": _parts_of_name}


def _located(record: bytes, cell: Cell, text: str, inside: Sequence[_KeyPart]) -> tuple[Field, ...]:
    """The parts of a text as fields, in the bytes of the column where these spell the text."""
    if not inside:
        return ()
    at = record.find(text.encode(), cell.inner, cell.end)
    made: list[Field] = []
    if at < 0 or cell.end == cell.inner:
        if cell.end > cell.inner:
            made.append(_leaf(record, "text", cell.inner, cell.end, text, "as written in the log"))
        made += [
            Field(one.name, cell.end, 0, b"", one.value, one.meaning, (), one.problem, one.quiet) for one in inside
        ]
        return tuple(made)
    if at > cell.inner:
        made.append(_leaf(record, "opening", cell.inner, at, None, "", quiet=True))
    for one in inside:
        raw = one.text.encode()
        made.append(Field(one.name, at, len(raw), raw, one.value, one.meaning, (), one.problem, one.quiet))
        at += len(raw)
    if at < cell.end:
        made.append(_leaf(record, "closing", at, cell.end, None, "", quiet=True))
    return tuple(made)
