"""The slow and readable path: one row as a tree of fields with place, bytes, value and meaning
(docs/formats/qlik-change-table.md).

Children fill their node without holes, in byte order; every byte is in exactly one leaf. The bits of a mask are leaves
without bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from cdcwb.formats.base import Field
from cdcwb.formats.qlik_change_table.event import Context, Mask, event, mask_of, partition_times, sequence_time, time_of
from cdcwb.formats.qlik_change_table.facts import CONTROL, LETTERS, LOAD, OPERATIONS
from cdcwb.formats.tabular import Cell
from cdcwb.model import Problem
from cdcwb.words import joined, moment, plural

__all__ = ["dissect", "dissect_values", "said_by"]

_NAMED: Final = 6

_WHAT: Final = {
    "INSERT": "the new row",
    "UPDATE": "after image of the update",
    "DELETE": "the deleted row",
    "REFRESH": "a row of the full load",
    "TRUNCATE": "all rows of the table were deleted",
}


def dissect(record: bytes, cells: Sequence[Cell], context: Context) -> Field:
    """The field tree of a row that was cut into its fields. Never raises."""
    said = said_by(cells, context)
    places = {name: place for place, name in enumerate(context.layout.names)}
    children = tuple(_field(record, cell, places[cell.name], context) for cell in cells)
    return Field("row", 0, len(record), record, None, _row_meaning(said, context), children, _first(said))


def said_by(cells: Sequence[Cell], context: Context) -> dict[str, Any]:
    """The event of a row that was cut into its fields; of fields of one name (in JSON) the last counts."""
    last = {cell.name: cell for cell in cells}
    named = [last[name] for name in context.layout.names]
    return event([cell.text for cell in named], [place for place, cell in enumerate(named) if cell.garbled], context)


def dissect_values(texts: Sequence[str | None], context: Context) -> Field:
    """The field tree of a row that has no bytes of its own, as those of Parquet files and tables."""
    said = event(texts, [], context)
    children = []
    for place, text in enumerate(texts):
        cell = Cell(context.layout.names[place], 0, 0, 0, 0, text)
        children.append(_field(b"", cell, place, context))
    return Field("row", 0, 0, b"", None, _row_meaning(said, context), tuple(children), _first(said))


def _first(said: dict[str, Any]) -> str | None:
    problems = said["problems"]
    return problems[0]["code"] if isinstance(problems, list) else None


def _row_meaning(said: dict[str, Any], context: Context) -> str:
    if context.role == CONTROL:
        return f"a row of the control table {context.control}"
    if said["kind"] == "before":
        return "before image of the update with the same change_seq"
    return _WHAT.get(str(said["operation"]), "a row with an unknown operation")


def _field(record: bytes, cell: Cell, place: int, context: Context) -> Field:
    """One field: its meaning, and what is inside."""
    name = next((known for known, at in context.layout.known.items() if at == place), None)
    problem: Problem | None = Problem.CHARSET if cell.garbled else None
    inside: tuple[Field, ...] = ()
    if context.role in (CONTROL, LOAD) or place in context.layout.data:
        meaning = _data_meaning(cell, place, context)
    elif cell.text is None:
        meaning = f"{_TITLES.get(name or '', 'a header column')}: NULL"
    else:
        meaning, wrong, inside = _header(record, cell, name, cell.text, context)
        problem = problem or wrong
    if cell.garbled:
        meaning = f"{meaning}; not in the character set {context.charset}; its bytes in hex"
    children = _around(record, cell, inside)
    raw = record[cell.start : cell.stop]
    return Field(cell.name, cell.start, len(raw), raw, cell.text, meaning, children, problem)


def _around(record: bytes, cell: Cell, inside: tuple[Field, ...]) -> tuple[Field, ...]:
    """The parts of a field with what stands before and behind its content."""
    if not inside:
        return ()
    before = _leaf(record, "opening", cell.start, cell.inner, None, "opening quote")
    behind = _leaf(record, "closing", cell.end, cell.stop, None, "closing quote, and the delimiter that follows")
    return tuple(part for part in (before, *inside, behind) if part.length or part not in (before, behind))


def _leaf(record: bytes, name: str, start: int, stop: int, value: str | None, meaning: str) -> Field:
    return Field(name, start, stop - start, record[start:stop], value, meaning)


def _data_meaning(cell: Cell, place: int, context: Context) -> str:
    if context.role == CONTROL:
        return "NULL" if cell.text is None else "a column of the control table"
    ordinal = context.layout.data.index(place) + 1 if place in context.layout.data else 0
    parts = [f"column {ordinal} of the table"]
    parts += ["in the key"] if cell.name in context.key else []
    parts += ["NULL"] if cell.text is None else []
    return ", ".join(parts)


# --- header columns ---------------------------------------------------------------------------------------------------

_TITLES: Final = {
    "change_seq": "order of the changes of the task",
    "change_oper": "operation",
    "change_mask": "columns that changed",
    "stream_position": "position in the source's log",
    "operation": "operation",
    "transaction_id": "transaction of the source",
    "timestamp": "time of the change, UTC",
    "partition_name": "period of the partition",
}

_Meaning = tuple[str, Problem | None, tuple[Field, ...]]


def _header(record: bytes, cell: Cell, name: str | None, text: str, context: Context) -> _Meaning:
    """What a header column means, what is wrong with it, and what is inside."""
    title = _TITLES.get(name or "", "an undocumented header column")
    if name == "change_mask":
        return _mask(record, cell, text, context)
    if name == "change_oper":
        known = LETTERS.get(text)
        return (f"{title}: {known.operation}, {known.kind}" if known else f"{title}: undocumented"), None, ()
    if name == "operation":
        known = OPERATIONS.get(text)
        return (f"{title}: {known.operation}, {known.kind}" if known else f"{title}: undocumented"), None, ()
    if name == "change_seq":
        return _sequence(record, cell, text, title)
    if name == "timestamp":
        time = time_of(text)
        wrong = None if time is not None or not text else Problem.TIME_RANGE
        if time is not None and time.year == 1970 and time.month == 1 and time.day == 1:
            return f"{title}: unknown when the row was written", None, ()
        return (title if time is None else f"{title}: {moment(time)}"), wrong, ()
    if name == "partition_name":
        return _partition(record, cell, text, title)
    return title, None, ()


def _at(record: bytes, cell: Cell) -> Callable[[int, int], tuple[int, int]]:
    """Where characters of a field's content stand, if each is a byte; else nowhere."""
    plain = cell.end - cell.inner == len(cell.text or "")

    def place(start: int, stop: int) -> tuple[int, int]:
        return (cell.inner + start, cell.inner + stop) if plain else (cell.inner, cell.inner)

    return place


def _parts(record: bytes, cell: Cell, pieces: Sequence[tuple[str, int, int, str, str]]) -> tuple[Field, ...]:
    """Pieces of a content (name, first and last character, value, meaning), if its characters are its bytes."""
    place = _at(record, cell)
    return tuple(
        _leaf(record, name, *place(start, stop), value, meaning) for name, start, stop, value, meaning in pieces
    )


def _sequence(record: bytes, cell: Cell, text: str, title: str) -> _Meaning:
    time = sequence_time(text)
    if time is None:
        return f"{title}: expected 35 digits that begin with a time", Problem.VALUE if text else None, ()
    shown = f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 10_000:02d}"
    number = text[16:].lstrip("0") or "0"
    pieces = [
        ("time", 0, 16, shown, "UTC on the Replicate server, usually of the commit, in hundredths of a second"),
        ("number", 16, 35, number, "one counter for the task; a before image has that of its update"),
    ]
    return f"{title}: {shown} and number {number}", None, _parts(record, cell, pieces)


def _partition(record: bytes, cell: Cell, text: str, title: str) -> _Meaning:
    span = partition_times(text)
    if span is None:
        return f"{title}: expected two times", Problem.VALUE if text else None, ()
    begin, end = (f"{edge:%Y-%m-%dT%H:%M:%S}" for edge in span)
    pieces = [
        ("begin", 0, 15, begin, "included"),
        ("separator", 15, 16, "_", ""),
        ("end", 16, 31, end, "not included"),
    ]
    return f"{title}: {begin} to {end}", None, _parts(record, cell, pieces)


# --- masks ------------------------------------------------------------------------------------------------------------


def _mask(record: bytes, cell: Cell, text: str, context: Context) -> _Meaning:
    settings = context.masks
    title = _TITLES["change_mask"]
    mask = None if settings is None else mask_of(text, settings)
    if settings is None or mask is None:
        return f"{title}: expected hexadecimal digits or base64", Problem.MASK if settings else None, ()
    order = "a number: its last byte has bits 0 to 7" if settings.order == "big" else "byte 0 has bits 0 to 7"
    meaning = f"{plural(len(mask.data), 'byte')}; {order}"
    digits = _leaf(record, "digits", cell.inner, cell.end, text, meaning)
    bits = _bits(mask, settings.offset, cell.end, context)
    found = [name for at, name in enumerate(context.columns) if mask.bits >> (settings.offset + at) & 1]
    named = found[:_NAMED] + ([f"{len(found) - _NAMED} more"] if len(found) > _NAMED else [])
    wrong = next((bit.problem for bit in bits if bit.problem is not None), None)
    return f"{title}: {joined(named) or 'none'}", None if wrong is None else Problem(wrong), (digits, *bits)


def _bits(mask: Mask, offset: int, at: int, context: Context) -> tuple[Field, ...]:
    """The bits of a mask, each named by its column, bit 0 first, and what is set behind the last column."""
    header = [context.layout.names[place] for place in context.layout.header]
    children = []
    for bit in range(offset + len(context.columns)):
        is_set = bool(mask.bits >> bit & 1)
        if bit < offset:
            name = header[bit] if bit < len(header) else f"header column {bit + 1}"
            meaning, wrong = f"bit {bit}, ordinal {bit + 1}: a header column, which never changes", is_set
        else:
            name = context.columns[bit - offset]
            meaning, wrong = f"bit {bit}, ordinal {bit + 1}, column {bit - offset + 1} of the table", False
        value = "changed" if is_set else "not changed"
        children.append(Field(name, at, 0, b"", value, meaning, (), Problem.MASK if wrong else None))
    behind = mask.bits >> (offset + len(context.columns))
    if behind:
        first, last = offset + len(context.columns), mask.bits.bit_length() - 1
        sentence = f"expected bits below {first}, found bits up to {last}"
        children.append(Field("beyond the columns", at, 0, b"", f"bits up to {last}", sentence, (), Problem.MASK))
    return tuple(children)
