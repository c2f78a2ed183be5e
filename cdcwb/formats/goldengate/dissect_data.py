"""The bytes of a record's data, tokens and header token as fields (docs/formats/goldengate.md §3.3, §4 and §5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

from cdcwb.formats.base import Field
from cdcwb.formats.goldengate.body import UNKNOWN_ORDER, Cell, Form, Half, Order, columns_of, not_columns, odd_indicator
from cdcwb.formats.goldengate.ddl import items_of
from cdcwb.formats.goldengate.definitions import ColumnDef, Definition
from cdcwb.formats.goldengate.facts import (
    DDL_ITEMS,
    GHDR,
    GHDR_FIXED,
    GHDR_TIME,
    HALVES,
    KEYED,
    LISTED,
    TOKEN_MEANINGS,
    UNIFIED,
    field_meaning,
    is_before_image,
    shown,
    token_name,
)
from cdcwb.formats.goldengate.file_header import header_tokens, iso_utc
from cdcwb.formats.goldengate.printed import (
    Line,
    ghdr_order,
    ghdr_time,
    ghdr_values,
    text_of,
    user_pairs,
    walk_tokens,
)
from cdcwb.formats.goldengate.records import Printed, PrintedColumn, Shape
from cdcwb.formats.goldengate.values import Kind, coding, nullable_value, value_of
from cdcwb.model import Problem

__all__ = [
    "Decoding",
    "HexBytes",
    "column_parts",
    "data_fields",
    "ghdr_fields",
    "group",
    "leaf",
    "order_of",
    "quiet",
    "token_area",
    "token_value",
    "user_area",
]

_DDLOP: Final = 160
_ROWS: Final = {**dict.fromkeys(LISTED, Form.COLUMNS), KEYED: Form.KEYED}
_ORDERS: Final[tuple[Order, Order]] = ("little", "big")


def leaf(
    record: bytes, name: str, start: int, stop: int, value: str | None, meaning: str, problem: str | None = None
) -> Field:
    """A field of the record's text."""
    return Field(name, start, stop - start, record[start:stop], value, meaning, (), problem)


def quiet(record: bytes, name: str, start: int, stop: int, value: str | None, meaning: str) -> Field:
    """A field of the record's text that says nothing of the record."""
    return Field(name, start, stop - start, record[start:stop], value, meaning, (), None, True)


def group(
    record: bytes,
    name: str,
    start: int,
    stop: int,
    meaning: str,
    children: Iterable[Field],
    value: str | None = None,
    problem: str | None = None,
) -> Field:
    """A field with others in it; what they leave is filled. One that overlaps those before it is left out."""
    filled: list[Field] = []
    at = start
    for child in sorted((child for child in children if child.length > 0), key=lambda one: one.offset):
        if child.offset < at or child.offset + child.length > stop:
            continue
        if child.offset > at:
            filled.append(_between(record, at, child.offset))
        filled.append(child)
        at = child.offset + child.length
    if filled and at < stop:
        filled.append(_between(record, at, stop))
    return Field(name, start, stop - start, record[start:stop], value, meaning, tuple(filled), problem)


def _between(record: bytes, start: int, stop: int) -> Field:
    return quiet(record, "layout", start, stop, None, "white space, labels and text between hex digits")


class HexBytes:
    """Bytes that lines of a record show as hex digits, with the places of their digits."""

    def __init__(self, record: bytes, lines: Sequence[Line]) -> None:
        self.record = record
        self.places: list[int] = []
        for line in lines:
            digits = [at for at in range(line.start, line.found[0]) if record[at] not in b" \t"]
            self.places += digits[: 2 * len(line.data) : 2]
        self.data = b"".join(line.data for line in lines)
        self.stop = lines[-1].next if lines else 0

    def __len__(self) -> int:
        return len(self.data)

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """Where the digits of the bytes ``[start, stop)`` begin and end in the text; an empty run has no text."""
        start, stop = max(start, 0), min(stop, len(self))
        if start >= stop:
            return self.stop, self.stop
        return self.places[start], self.places[stop - 1] + 2

    def leaf(
        self, name: str, start: int, stop: int, value: str | None, meaning: str, problem: str | None = None
    ) -> Field:
        """A field over some of the bytes; its raw bytes are those of the text."""
        return leaf(self.record, name, *self.span(start, stop), value, meaning, problem)

    def group(
        self,
        name: str,
        start: int,
        stop: int,
        meaning: str,
        children: Iterable[Field],
        value: str | None = None,
        problem: str | None = None,
    ) -> Field:
        """A field over some of the bytes, with others in it."""
        return group(self.record, name, *self.span(start, stop), meaning, children, value, problem)


class Decoding(NamedTuple):
    """What the values of a record are decoded by.

    ``order`` None: the one in which its columns fit; ``order_known`` false: nothing tells it, so no value is read.
    ``bare``: null indicators are only in columns that may be NULL.
    """

    definition: Definition | None = None
    order: Literal["little", "big"] | None = None
    charset: str = "utf-8"
    bare: bool = False
    order_known: bool = True

    def column(self, index: int) -> ColumnDef | None:
        """The column with this index, from 0; None where there is no definition of it."""
        return self.definition.column(index) if self.definition is not None else None

    def name(self, index: int) -> str:
        """Its name, ``c3`` where it is not known."""
        return f"c{index}" if self.definition is None else self.definition.name(index)


def data_fields(data: HexBytes, record: Printed, io_type: int | None, by: Decoding) -> list[Field]:
    """The fields of a record's data."""
    if record.shape is Shape.FILE_HEADER:
        return list(_file_header(data))
    if io_type == _DDLOP:
        return list(_ddl(data, by))
    if io_type in _ROWS or io_type in UNIFIED:
        return _row(data, record, io_type or 0, by)
    return [data.leaf("bytes", 0, len(data), data.data.hex(), "data that is not a row")]


def _file_header(data: HexBytes) -> Iterator[Field]:
    tokens = list(header_tokens(data.data))
    for number, one in enumerate(tokens):
        if not one.group:
            continue
        children = []
        for inner in tokens[number + 1 :]:
            if inner.group:
                break
            problem = None if inner.whole else Problem.TRUNCATED
            children.append(
                data.leaf(inner.name, inner.start, inner.stop, inner.value, "id, length and value", problem)
            )
        problem = None if one.whole else Problem.TRUNCATED
        yield data.group(one.name, one.start, one.stop, "a group of the file header", children, None, problem)


def _ddl(data: HexBytes, by: Decoding) -> Iterator[Field]:
    for item in items_of(data.data, by.charset):
        meaning = f"{item.code}: {DDL_ITEMS.get(item.code, 'an unknown item')}"
        yield data.leaf(
            item.code, item.start, item.stop, item.value, meaning, None if item.whole else Problem.TRUNCATED
        )


# --- rows -------------------------------------------------------------------------------------------------------------


class _Walk(NamedTuple):
    order: Order
    form: Form
    cells: list[Cell]
    bad: int

    def fit(self) -> tuple[bool, bool, int]:
        """How well the columns fill the body: to its end, each with a null indicator, and how far."""
        whole = all(cell.indicator in (0, 0xFFFF) for cell in self.cells)
        return self.bad < 0, self.bad < 0 and whole, self.bad if self.cells else -1


def _row(data: HexBytes, record: Printed, io_type: int, by: Decoding) -> list[Field]:
    skip = max(record.values.get("SyskeyLen", 0), 0)
    half = Half.BEFORE if is_before_image(io_type, record.side) else Half.AFTER
    forms = (Form.UNIFIED_2, Form.UNIFIED_4) if io_type in UNIFIED else (_ROWS[io_type],)
    orders = _ORDERS if by.order is None else (by.order,)
    walks = [
        _Walk(order, form, *columns_of(data.data, order, form, skip, half, by.bare))
        for order in orders
        for form in forms
    ]
    walk = max(walks, key=_Walk.fit)
    fields = []
    if skip:
        key = data.data[:skip]
        fields.append(data.leaf("system key", 0, skip, key.hex(), f"NonStop: the row's system key, {skip} bytes"))
    short = len(data) < max(record.length, record.values.get("RecLength", -1))
    goes_on = record.values.get("Continued") == 1
    reason = None
    if not by.order_known or sum(one.fit() == walk.fit() for one in walks if walk.bad < 0 and walk.cells) > 1:
        reason = UNKNOWN_ORDER
    elif walk.bad >= 0 and not short and not goes_on:
        reason = not_columns(walk.bad)
    if reason is not None:
        rest = data.data[skip:].hex()
        return [*fields, data.leaf("undecoded", min(skip, len(data)), len(data), rest, reason, Problem.ROW_SIZE)]
    width = {Form.COLUMNS: 0, Form.UNIFIED_4: 4}.get(walk.form, 2)
    if width:
        length = int.from_bytes(data.data[skip : skip + width], walk.order)
        meaning = f"{walk.order}-endian: bytes of the before image"
        fields.append(data.leaf("length of the before image", skip, skip + width, str(length), meaning))
    assumed = _ASSUMED if record.side is None and io_type in HALVES and io_type != KEYED else ""
    fields += [_cell(data, cell, walk, by, assumed) for cell in walk.cells]
    if walk.bad >= 0:
        cut = max((cell.stop for cell in walk.cells), default=skip + width)
        meaning, problem = "the rest of a truncated body", Problem.TRUNCATED if short else None
        if not short:
            meaning = "a column that continues in the next record"
        fields.append(data.leaf("undecoded", cut, len(data), data.data[cut:].hex(), meaning, problem))
    return fields


_ASSUMED: Final = " (assumed: neither BeforeAfter nor an image line gives it)"


def _cell(data: HexBytes, cell: Cell, walk: _Walk, by: Decoding, assumed: str) -> Field:
    head = cell.start - (4 if cell.bare or cell.indicator < 0 else 6)
    name = by.name(cell.index)
    half = "before" if cell.half is Half.BEFORE else "after"
    length = cell.stop - head - 4
    children = [
        data.leaf("column index", head, head + 2, str(cell.index), f"{walk.order}-endian, from 0: {name}"),
        data.leaf("column length", head + 2, head + 4, str(length), f"{walk.order}-endian: bytes that follow"),
        *column_parts(data, head + 4, cell.stop, cell.index, walk.order, by),
    ]
    value, meaning, problem, _ = _value(data.data[head + 4 : cell.stop], cell.index, walk.order, by)
    return data.group(name, head, cell.stop, f"{half} image{assumed}: {meaning}", children, value, problem)


def column_parts(data: HexBytes, start: int, stop: int, index: int, order: Order, by: Decoding) -> list[Field]:
    """Null indicator and value of one column."""
    raw = data.data[start:stop]
    value, meaning, problem, width = _value(raw, index, order, by)
    indicator = {b"\0\0": "0000: not NULL", b"\xff\xff": "FFFF: NULL"}.get(raw[:2], "neither 0000 nor FFFF")
    parts = []
    if width:
        parts.append(data.leaf("null indicator", start, min(start + width, stop), raw[:width].hex(), indicator))
    if len(raw) > width:
        parts.append(data.leaf("value", start + width, stop, value, meaning, problem))
    return parts


def _value(raw: bytes, index: int, order: Order, by: Decoding) -> tuple[str | None, str, str | None, int]:
    """Text (None: NULL), meaning and problem of a column's bytes, and how many of them are its null indicator."""
    column = by.column(index)
    kind = f"inferred type: no definition of column {index}" if column is None else column.type
    if by.bare:
        found, width = nullable_value(raw, coding(column), order, by.charset)
        if found.kind is Kind.NULL:
            return None, f"{kind}; NULL", None, width
        return found.text, found.sentence or kind, found.problem, width
    if raw[:2] == b"\xff\xff":
        return None, f"{kind}; NULL", None, 2
    if len(raw) < 2:
        return raw.hex(), "too short to have a null indicator", Problem.VALUE, 2
    if raw[:2] != b"\0\0":
        return raw[2:].hex(), odd_indicator(raw[:2].hex()), Problem.VALUE, 2
    found = value_of(raw[2:], coding(column), order, by.charset)
    return found.text, found.sentence or kind, found.problem, 2


def order_of(columns: list[PrintedColumn], by: Decoding) -> Order:
    """The byte order of columns that are shown one by one: that of the lengths before their texts."""
    if by.order is not None:
        return by.order
    fits = {
        order: sum(
            len(one.data) > 4 and int.from_bytes(one.data[2:4], order) == len(one.data) - 4
            for one in columns
            if one.data is not None
        )
        for order in _ORDERS
    }
    return "big" if fits["big"] > fits["little"] else "little"


# --- tokens -----------------------------------------------------------------------------------------------------------


def token_value(number: int, name: str, value: bytes) -> tuple[str, str]:
    """A token's value as text, and what it means."""
    stripped = value[:-2] if name == "ORAROWID" and value[-2:-1] == b"\0" else value.rstrip(b"\0")
    text = stripped.decode("utf-8", "replace")
    readable = "\ufffd" not in text and all(one.isprintable() or one == "\0" for one in text)
    meaning = TOKEN_MEANINGS.get(name, f"token x{number:02x}")
    return text.replace("\0", " ") if readable else value.hex(), meaning


def token_area(data: HexBytes) -> Iterator[Field]:
    """Tokens one behind the other: id, info, length and value each."""
    at = 0
    tokens, _ = walk_tokens(data.data)
    for token in tokens:
        name = token_name(token.id)
        text, meaning = token_value(token.id, name, token.value)
        stop = at + 4 + len(token.value)
        cut = len(token.value) < token.length
        children = [
            data.leaf("token id", at, at + 1, f"x{token.id:02x}", name),
            data.leaf("info", at + 1, at + 2, f"x{token.info:02x}", "not known"),
            data.leaf("length", at + 2, at + 4, str(token.length), "bytes of the value"),
            data.leaf("value", at + 4, stop, text, meaning),
        ]
        yield data.group(name, at, stop, meaning, children, text, Problem.TRUNCATED if cut else None)
        at = stop


def user_area(data: HexBytes) -> Iterator[Field]:
    """User tokens: name and value, each ended by a NUL."""
    at = 0
    parts = data.data.split(b"\0")
    for number, (name, value) in enumerate(user_pairs(data.data)):
        texts = parts[2 * number : 2 * number + 2]
        stop = min(at + sum(len(text) + 1 for text in texts), len(data))
        yield data.leaf(name, at, stop, value, "user token: name and value, each ended by a NUL")
        at = stop


def ghdr_fields(data: HexBytes) -> Iterator[Field]:
    """The header token, number by number."""
    order, values, moment = ghdr_order(data.data), ghdr_values(data.data), ghdr_time(data.data)
    if order is None or moment is None:
        meaning = "too short for a header, or without a time"
        yield data.leaf("bytes", 0, len(data), data.data.hex(), meaning, Problem.TRUNCATED)
        return
    at, size = GHDR_TIME
    for name, place, width in GHDR:
        if name in values:
            meaning = field_meaning(name, values[name], values) + (f"; {order}-endian" if size > 1 else "")
            yield data.leaf(name, place, place + width, shown(name, values[name]), meaning)
    yield data.leaf("IO Time", at, at + size, iso_utc(moment), "UTC: microseconds since noon of Julian day 0")
    rest = text_of(data.data[GHDR_FIXED:].rstrip(b"\0"))
    meaning = "name or index of the table, which Logdump may blank"
    yield data.leaf("table", GHDR_FIXED, len(data), rest, meaning)
