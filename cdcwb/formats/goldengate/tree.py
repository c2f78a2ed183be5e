"""One record of Logdump text as a tree of fields with offset, text, value and meaning (docs/formats/goldengate.md).

Offsets count bytes of the record's text; for dissected hex digits, a field's ``raw`` is their text, and its value is
decoded from them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from cdcwb.formats.dissector import Field
from cdcwb.formats.goldengate.bodies import (
    UNKNOWN_ORDER,
    Cell,
    Form,
    Half,
    columns_of,
    not_columns,
    odd_indicator,
)
from cdcwb.formats.goldengate.contents import (
    HEADER,
    MISSING,
    Order,
    header_tokens,
    iso_utc,
    items_of,
    user_pairs,
    walk_tokens,
)
from cdcwb.formats.goldengate.definitions import ColumnDef, Definition
from cdcwb.formats.goldengate.facts import Reading, facts_of
from cdcwb.formats.goldengate.layout import (
    BY_INDEX,
    DDL_ITEMS,
    FIELDS,
    GHDR,
    GHDR_FIXED,
    GHDR_TIME,
    GUESS,
    GUESS_FIXED,
    HALVES,
    HEADER_TOKENS,
    IMAGE_LETTERS,
    IO_TYPES,
    KEYED,
    LISTED,
    TOKEN_MEANINGS,
    TRANS_IND,
    UNIFIED,
    Coding,
    field_meaning,
    is_before_image,
    shown,
    token_name,
)
from cdcwb.formats.goldengate.lines import LABELS, SINKS, Lines, Role, matched, parse
from cdcwb.formats.goldengate.plan import Bodies
from cdcwb.formats.goldengate.records import FIELD, FILE_HEADER, MALFORMED, Records, decode, header_values, text_of
from cdcwb.formats.goldengate.values import value_of
from cdcwb.model import Problem

__all__ = ["Decoding", "HexBytes", "data_fields", "decoding", "dissect", "ghdr_fields", "token_area", "user_area"]


_DDLOP: Final = 160
_ROWS: Final = {**dict.fromkeys(LISTED, Form.COLUMNS), KEYED: Form.KEYED}


def leaf(
    record: bytes, name: str, start: int, stop: int, value: str | None, meaning: str, problem: str | None = None
) -> Field:
    """A field of the record's text."""
    return Field(name, start, stop - start, record[start:stop], value, meaning, (), problem)


def quiet(record: bytes, name: str, start: int, stop: int, value: str | None, meaning: str) -> Field:
    """A field of the record's text without information about the record."""
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
    """A field with children; gaps between them are filled. A child that overlaps preceding ones is left out."""
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
    """Bytes that lines of a record print as hex digits, with the offsets of their digits."""

    def __init__(self, record: bytes, lines: Lines, some: Sequence[int]) -> None:
        self.record = record
        self.places: list[int] = []
        for line in some:
            count = 2 * int(lines.size[line])
            digits = [at for at in range(int(lines.first[line]), int(lines.last[line])) if lines.plain[at] != 32]
            self.places += digits[:count:2]
        self.data = b"".join(
            lines.data[lines.data_at[line] : lines.data_at[line] + lines.size[line]].tobytes() for line in some
        )
        self.stop = int(lines.at[some[-1] + 1]) if some else 0

    def __len__(self) -> int:
        return len(self.data)

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """The start and end of the digits of the bytes ``[start, stop)`` in the text; an empty range has no text."""
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
        """A field over some of the bytes, with children."""
        return group(self.record, name, *self.span(start, stop), meaning, children, value, problem)


class Decoding(NamedTuple):
    """The settings for decoding the values of a record. ``order_known`` false: the byte order is unknown, so no value
    is decoded. ``prefix``: bytes before the before image of unified updates. ``bare``: columns are big-endian, without
    null indicators (NonStop).
    """

    definition: Definition | None = None
    order: Order = "little"
    order_known: bool = True
    prefix: int = 2
    bare: bool = False
    charset: str = "utf-8"

    def column(self, index: int) -> ColumnDef | None:
        """The column with this index, from 0; None without a definition."""
        return self.definition.column(index) if self.definition is not None else None

    def coding(self, index: int) -> Coding:
        """The coding of its values; inferred from the bytes without a definition."""
        column = self.column(index)
        return column.coding if column is not None else GUESS_FIXED if self.bare else GUESS

    def name(self, index: int) -> str:
        """Its name, ``c3`` if unknown."""
        return f"c{index}" if self.definition is None else self.definition.name(index)


def data_fields(data: HexBytes, record: Records, io_type: int, by: Decoding) -> list[Field]:
    """The fields of a record's data."""
    if record.shape[0] == FILE_HEADER:
        return list(_file_header(data))
    if io_type == _DDLOP:
        return list(_ddl(data, by))
    if io_type in _ROWS or io_type in UNIFIED:
        return _row(data, record, io_type, by)
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


def _row(data: HexBytes, record: Records, io_type: int, by: Decoding) -> list[Field]:
    values = {name: int(value) for name, value in zip(HEADER, record.values[0], strict=True)}
    side = int(record.side[0])
    skip = max(values["SyskeyLen"], 0)
    half = Half.BEFORE if is_before_image(io_type, side) else Half.AFTER
    unified = Form.UNIFIED_4 if by.prefix == 4 else Form.UNIFIED_2
    form = _ROWS.get(io_type, unified)
    cells, bad = columns_of(data.data, by.order, form, skip, half, by.bare)
    fields = []
    if skip:
        key = data.data[:skip]
        fields.append(data.leaf("system key", 0, skip, key.hex(), f"NonStop: the row's system key, {skip} bytes"))
    short = len(data) < max(int(record.length[0]), values["RecLength"])
    goes_on = values["Continued"] == 1
    if not by.order_known or (bad >= 0 and not goes_on and (by.bare or not short)):
        reason = not_columns(bad, by.bare) if by.order_known else UNKNOWN_ORDER
        rest = data.data[skip:].hex()
        return [*fields, data.leaf("undecoded", min(skip, len(data)), len(data), rest, reason, Problem.ROW_SIZE)]
    width = {Form.COLUMNS: 0, Form.UNIFIED_4: 4}.get(form, 2)
    if width:
        length = int.from_bytes(data.data[skip : skip + width], by.order)
        meaning = f"{by.order}-endian: bytes of the before image"
        fields.append(data.leaf("length of the before image", skip, skip + width, str(length), meaning))
    assumed = _ASSUMED if side == MISSING and io_type in HALVES and io_type != KEYED else ""
    fields += [_cell(data, cell, by, assumed) for cell in cells]
    if bad >= 0:
        cut = max((cell.stop for cell in cells), default=skip + width)
        meaning, problem = "the rest of a truncated body", Problem.TRUNCATED if short else None
        if not short:
            meaning = "a column that continues in the next record"
        fields.append(data.leaf("undecoded", cut, len(data), data.data[cut:].hex(), meaning, problem))
    return fields


_ASSUMED: Final = " (assumed: neither BeforeAfter nor an image line gives it)"


def _cell(data: HexBytes, cell: Cell, by: Decoding, assumed: str) -> Field:
    head = cell.start - (4 if cell.bare or cell.indicator < 0 else 6)
    name = by.name(cell.index)
    half = "before" if cell.half is Half.BEFORE else "after"
    length = cell.stop - head - 4
    children = [
        data.leaf("column index", head, head + 2, str(cell.index), f"{by.order}-endian, from 0: {name}"),
        data.leaf("column length", head + 2, head + 4, str(length), f"{by.order}-endian: bytes that follow"),
        *column_parts(data, head + 4, cell.stop, cell.index, by),
    ]
    value, meaning, problem, _ = _value(data.data[head + 4 : cell.stop], cell.index, by)
    return data.group(name, head, cell.stop, f"{half} image{assumed}: {meaning}", children, value, problem)


def column_parts(data: HexBytes, start: int, stop: int, index: int, by: Decoding) -> list[Field]:
    """Null indicator and value of one column."""
    raw = data.data[start:stop]
    value, meaning, problem, width = _value(raw, index, by)
    indicator = {b"\0\0": "0000: not NULL", b"\xff\xff": "FFFF: NULL"}.get(raw[:2], "neither 0000 nor FFFF")
    parts = []
    if width:
        parts.append(data.leaf("null indicator", start, min(start + width, stop), raw[:width].hex(), indicator))
    if len(raw) > width:
        parts.append(data.leaf("value", start + width, stop, value, meaning, problem))
    return parts


def _value(raw: bytes, index: int, by: Decoding) -> tuple[str | None, str, str | None, int]:
    """Text (None: NULL), meaning and problem of a column's bytes, and how many of them are its null indicator."""
    column = by.column(index)
    kind = f"inferred type: no definition of column {index}" if column is None else column.type
    if by.bare:
        found = value_of(raw, by.coding(index), by.order, by.charset)
        return found.text, found.sentence or kind, found.problem, 0
    if raw[:2] == b"\xff\xff":
        return None, f"{kind}; NULL", None, 2
    if len(raw) < 2:
        return raw.hex(), "too short to have a null indicator", Problem.VALUE, 2
    if raw[:2] != b"\0\0":
        return raw[2:].hex(), odd_indicator(raw[:2].hex()), Problem.VALUE, 2
    found = value_of(raw[2:], by.coding(index), by.order, by.charset)
    return found.text, found.sentence or kind, found.problem, 2


# --- tokens -----------------------------------------------------------------------------------------------------------


def token_value(number: int, name: str, value: bytes) -> tuple[str, str]:
    """A token's value as text, and its meaning."""
    stripped = value[:-2] if name == "ORAROWID" and value[-2:-1] == b"\0" else value.rstrip(b"\0")
    text = stripped.decode("utf-8", "replace")
    readable = "\ufffd" not in text and all(one.isprintable() or one == "\0" for one in text)
    meaning = TOKEN_MEANINGS.get(name, f"token x{number:02x}")
    return text.replace("\0", " ") if readable else value.hex(), meaning


def token_area(data: HexBytes) -> Iterator[Field]:
    """Consecutive tokens: id, info, length and value each."""
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
    order, moment, values = header_values(data.data)
    if order is None:
        meaning = "too short for a header, or without a time"
        yield data.leaf("bytes", 0, len(data), data.data.hex(), meaning, Problem.TRUNCATED)
        return
    at, size = GHDR_TIME
    for name, place, width in GHDR:
        if name in values:
            meaning = field_meaning(name, values[name], values) + (f"; {order}-endian" if size > 1 else "")
            yield data.leaf(name, place, place + width, shown(name, values[name]), meaning)
    yield data.leaf("IO Time", at, at + size, iso_utc(moment), "UTC: microseconds since noon of Julian day 0")
    tail = data.data[GHDR_FIXED:].rstrip(b"\0")
    by_index = values["Partition"] & BY_INDEX and tail
    rest = str(int.from_bytes(data.data[GHDR_FIXED : GHDR_FIXED + 2], order)) if by_index else text_of(tail)
    meaning = "name or index of the table, which Logdump may blank"
    yield data.leaf("table", GHDR_FIXED, len(data), rest, meaning)


def dissect(
    record: bytes, definition: Definition | None = None, bodies: Bodies | None = None, reading: Reading | None = None
) -> Field:
    """The field tree of the text of one record.

    ``definition``: of its table, for names and types (None: columns are ``c0``, ``c1`` … and types are inferred).
    ``bodies``: how the data are written (None: little-endian). Children cover their node without holes, in byte order,
    for any text. Never raises.
    """
    lines = parse(np.frombuffer(record, np.uint8), is_record=True)
    records = decode(lines, is_record=True)
    if not len(records):
        return leaf(record, "record", 0, len(record), None, "no text")
    bodies, reading = bodies or Bodies(), reading or Reading()
    bare = bool(facts_of(records, reading).nonstop[0])
    return _Tree(record, records, decoding(definition, bodies, reading, bare)).field()


def decoding(definition: Definition | None, bodies: Bodies, reading: Reading, bare: bool) -> Decoding:
    """The settings for a record of a table. ``bare``: it is of a NonStop."""
    order: Order = "big" if bare else bodies.order
    return Decoding(definition, order, bare or bodies.is_known, bodies.prefix, bare, reading.charset)


_LABEL: Final = 40


_SECTION: Final = {
    Role.HEADER_TOKEN: "header tokens",
    Role.HEADER_TOKEN_HEX: "header tokens",
    Role.RULE: "rule",
    Role.HEADER: "header",
    Role.TRAIL: "header",
    Role.RECORD: "record line",
    Role.NAME: "name",
    Role.TDR_INDEX: "name",
    Role.IMAGE: "image",
    Role.TRANSACTION: "transaction id",
    Role.BODY: "data",
    Role.TEXT: "metadata",
    Role.HALF: "columns",
    Role.COLUMN: "columns",
    Role.COLUMN_HEX: "columns",
    Role.GROUP: "file header",
    Role.GROUP_TOKEN: "file header",
    Role.GROUP_HEX: "file header",
    Role.GGS: "tokens",
    Role.TOKEN: "tokens",
    Role.TOKEN_HEX: "tokens",
    Role.USER: "user tokens",
    Role.USER_TOKEN: "user tokens",
    Role.USER_TOKEN_HEX: "user tokens",
    Role.USER_PAIR: "user tokens",
}
_MEANINGS: Final = {
    "header tokens": "the tokens of the record in the trail, with their lengths (HEADERTOKEN)",
    "rule": "a line that precedes each record",
    "header": "the record's header (GHDR)",
    "record line": "time, operation, length of the data and RBA",
    "name": "the table, by name or by the index of its definition",
    "image": "which image the data has",
    "transaction id": "transaction id, as on a NonStop",
    "data": "the record's data in hex",
    "metadata": "definition of a database or of a table, as text",
    "columns": "the columns of the data one by one (DETAIL)",
    "file header": "groups and tokens of the file header (FILEHEADER)",
    "tokens": "GoldenGate's own tokens (GGSTOKEN)",
    "user tokens": "tokens that the Extract's parameters define (USERTOKEN)",
    "blank line": "a blank line",
    "text": "lines that cannot be parsed",
}


class _Tree:
    """The fields of one record."""

    def __init__(self, record: bytes, records: Records, by: Decoding) -> None:
        self.record, self.records, self.lines, self.by = record, records, records.lines, by
        self.io = int(records.io_types()[0])
        self.values = {name: int(one) for name, one in zip(HEADER, records.values[0], strict=True) if one != MISSING}

    @property
    def meaning(self) -> str:
        """What the record is."""
        if self.records.shape[0] == FILE_HEADER:
            return "the trail file: its writer, its time and its sequence number"
        if self.records.shape[0] == MALFORMED:
            return "lines of a record that cannot be parsed"
        known = IO_TYPES.get(self.io)
        return known.meaning if known else "a record of an unknown type"

    def field(self) -> Field:
        """The record."""
        records, known = self.records, IO_TYPES.get(self.io)
        printed = records.operation[0].as_py()
        name = text_of(printed) if printed is not None else known.name if known else "record"
        if records.shape[0] == FILE_HEADER:
            name = "FileHeader"
        elif records.shape[0] == MALFORMED:
            name = "malformed"
        codes = [one.code for one in records.faults if one.code in (Problem.TRUNCATED, Problem.MALFORMED)]
        children = [self.section(name, some) for name, some in self.sections()]
        return group(self.record, name, 0, len(self.record), self.meaning, children, None, codes[0] if codes else None)

    def sections(self) -> list[tuple[str, list[int]]]:
        """Adjacent lines of one section, with blank and unknown lines after them."""
        sections: list[tuple[str, list[int]]] = []
        for line, role in enumerate(self.lines.role.tolist()):
            name = _SECTION.get(role)
            if sections and (name is None or name == sections[-1][0]):
                sections[-1][1].append(line)
            else:
                sections.append((name or ("blank line" if role == Role.BLANK else "text"), [line]))
        return sections

    def section(self, name: str, some: list[int]) -> Field:
        """The field of one section."""
        children: list[Field] = []
        if name == "data":
            children = data_fields(self.hex(some, Role.BODY), self.records, self.io, self.by)
        elif name in _WITH_BLOCKS:
            children = [*self.blocks(some)]
        else:
            children = [one for line in some for one in self.of_line(line)]
        if name != "text":
            children += [self.whole(line, "text", _UNPARSED) for line in some if self.lines.role[line] == Role.UNKNOWN]
        start, stop = int(self.lines.at[some[0]]), int(self.lines.at[some[-1] + 1])
        return group(self.record, name, start, stop, _MEANINGS[name], children)

    def span(self, line: int) -> tuple[int, int]:
        """The content of a line."""
        return int(self.lines.first[line]), int(self.lines.last[line])

    def leaf(
        self, name: str, start: int, stop: int, value: str | None, meaning: str, problem: str | None = None
    ) -> Field:
        """A field over some of the record's text."""
        return leaf(self.record, name, start, stop, value, meaning, problem)

    def whole(self, line: int, name: str, meaning: str, value: str | None = None) -> Field:
        """A field over the content of a line."""
        start, stop = self.span(line)
        return self.leaf(name, start, stop, text_of(self.record[start:stop]) if value is None else value, meaning)

    def hex(self, some: Sequence[int], role: Role) -> HexBytes:
        """The bytes that lines of a role print."""
        return HexBytes(self.record, self.lines, [line for line in some if self.lines.role[line] == role])

    # --- lines --------------------------------------------------------------------------------------------------------

    def of_line(self, line: int) -> Iterator[Field]:
        """The fields of a line without hex."""
        role, (first, stop) = self.lines.role[line], self.span(line)
        if role == Role.HEADER:
            yield from self.header(first, stop)
        elif role == Role.TEXT:
            label, colon, value = self.record[first:stop].partition(b":")
            if colon and not label[:1].isdigit() and len(label) < _LABEL:
                yield self.whole(line, text_of(label), "as printed", text_of(value.strip()))
            else:
                yield self.whole(line, "line", "a line of the definition")
        known_form = matched(self.lines, line)
        if known_form is None:
            return
        for name, groups, meaning in _OF_LINES.get(Role(role), ()):
            part = next((one for one in groups if known_form[one]), None)
            if part is None:
                continue
            start, end = first + known_form.start(part), first + known_form.end(part)
            shown_text = text_of(self.record[start:end])
            if name == "operation":
                meaning = self.meaning
            elif name == "image":
                meaning = f"{shown_text.lower()} image"
            elif name == "Partition":
                shown_text = str(int(shown_text, 16 if part == "hex" else 10))
                meaning = field_meaning("Partition", int(shown_text), self.values)
            elif name == "place in transaction":
                meaning = TRANS_IND[IMAGE_LETTERS.index(shown_text.encode())]
            yield self.leaf(name, start, end, shown_text, meaning)

    def header(self, at: int, stop: int) -> Iterator[Field]:
        """The fields of a line of the header block."""
        wrong = {one.field: one.sentence for one in reversed(self.records.faults) if one.field is not None}
        plain = self.lines.plain
        while at < stop:
            found = FIELD.match(plain[at:stop].tobytes())
            if found is None:
                return
            label = b" ".join(found["label"].lower().split())
            name = next(one for one in LABELS if one.lower().encode() == label)
            start, end = (
                at + found.start("label"),
                at + (found.end("value") if found["hex"] is None else found.end("hex") + 1),
            )
            value, numbers = text_of(self.record[at + found.start("value") : end]), name.split("/")
            if name == "IO Time":
                meaning = FIELDS[name]
            elif name == "DDR/TDR index":
                meaning = f"{FIELDS['DDR index']}, {FIELDS['TDR index']}"
            elif (number := _number(name, found)) is None:
                meaning = f"{FIELDS[name]}; no value is printed"
            else:
                value, meaning = shown(name, number), field_meaning(name, number, self.values)
            del numbers
            problem = Problem.HEADER_VALUE if name in wrong else None
            meaning += f"; {wrong[name]}" if name in wrong else ""
            yield self.leaf(name, start, max(end, start + 1), value, meaning, problem)
            at = at + found.start("rest") + 1 if found["rest"] else stop

    # --- lines with hex below them ------------------------------------------------------------------------------------

    def blocks(self, some: list[int]) -> Iterator[Field]:
        """Each line that may have hex below it, with that hex."""
        roles = self.lines.role[some]
        heads = [at for at, role in enumerate(roles.tolist()) if role in _HEADS]
        for at, end in zip(heads, [*heads[1:], len(some)], strict=True):
            block = some[at:end]
            yield from self.block(Role(int(roles[at])), block)

    def block(self, role: Role, block: list[int]) -> Iterator[Field]:
        """The field of a line and the hex below it."""
        head = block[0]
        data = self.hex(block, _BELOW.get(role, Role.UNKNOWN))
        if role is Role.GGS:
            yield from token_area(data)
        elif role is Role.USER:
            yield from user_area(data)
        elif role is Role.HALF:
            yield self.whole(head, "image length", "bytes of an image, or of its key")
        elif role is Role.USER_PAIR:
            name, _, value = self.record[slice(*self.span(head))].partition(b":")
            yield self.whole(head, text_of(name.rstrip()), "user token", text_of(value.strip()))
        elif role is Role.COLUMN:
            yield self.column(block, data)
        else:
            yield self.token(role, block, data)

    def end(self, block: list[int]) -> int:
        """The end of a block's text, without blank lines."""
        solid = [line for line in block if self.lines.role[line] not in (Role.BLANK, Role.UNKNOWN)]
        return self.span(solid[-1])[1]

    def column(self, block: list[int], data: HexBytes) -> Field:
        """A column that is printed by itself."""
        columns = self.records.columns
        at = int(np.flatnonzero(columns.line == block[0])[0])
        index, length = int(columns.number[at]), int(columns.length[at])
        children = [self.whole(block[0], "column line", "index and length of the column")]
        value = None
        if len(data):
            children += column_parts(data, 0, len(data), index, self.by)
            value = children[-1].value
        half = ("key", "before", "after")[columns.half[at]]
        meaning = f"{half} image, {length} bytes" if length >= 0 else f"{half} image"
        if columns.fragment[at, 0] != MISSING:
            meaning = "segment {} of {} of a large object".format(*columns.fragment[at])
        problem = Problem.TRUNCATED if 0 < len(data) < length else children[-1].problem
        start = self.span(block[0])[0]
        return group(self.record, self.by.name(index), start, self.end(block), meaning, children, value, problem)

    def token(self, role: Role, block: list[int], data: HexBytes) -> Field:
        """A token of the header, of the record or of a file header."""
        start, stop = self.span(block[0])
        fields = self.lines.fields[role]
        at = int(np.flatnonzero(fields.line == block[0])[0])
        number, length = fields["number"][at].as_py(), int(fields["length"][at].as_py())
        printed = text_of(fields["name"][at].as_py())
        line = quiet(
            self.record, "token line", start, stop, text_of(self.record[start:stop]), "id, name, info and length"
        )
        children, value, problem = [line], None, None
        if role is Role.HEADER_TOKEN:
            name = chr(number)
            meaning, value = f"{HEADER_TOKENS.get(name, '')}; length in bytes", str(length)
            if len(data):
                bytes_ = [data.leaf("bytes", 0, len(data), None, "its bytes")]
                children += ghdr_fields(data) if name == "H" else bytes_
        elif role in (Role.GROUP, Role.GROUP_TOKEN):
            name = printed or "group"
            meaning = "a group of the file header" if role is Role.GROUP else "a token of the file header"
            children = [data.leaf("value", 0, len(data), data.data.hex(), "its bytes")] if len(data) else []
        else:
            name = token_name(number, printed or None)
            value, meaning = token_value(number, name, data.data)
            problem = None if len(data) == length else Problem.TRUNCATED
            if len(data):
                children.append(data.leaf("value", 0, len(data), value, meaning))
        return group(self.record, name, start, self.end(block), meaning, children, value, problem)


_UNPARSED: Final = "a line that cannot be parsed"
_WITH_BLOCKS: Final = frozenset({"header tokens", "columns", "file header", "tokens", "user tokens"})
_BELOW: Final = {head: below for head, below in SINKS.items() if below not in (Role.UNKNOWN, Role.BODY)}
_HEADS: Final = frozenset(map(int, (*_BELOW, Role.HALF, Role.USER_PAIR)))
_TIME_MEANING: Final = "time of the operation, in the time zone of the viewer"
_OF_LINES: Final[dict[Role, tuple[tuple[str, tuple[str, ...], str], ...]]] = {
    Role.TRAIL: (("Trail name", ("trail",), "the trail file"),),
    Role.RECORD: (
        ("time", ("time",), _TIME_MEANING),
        ("operation", ("operation",), ""),
        ("Len", ("length",), "bytes of the record's data"),
        ("RBA", ("rba",), "offset of the record in the trail file, in bytes"),
    ),
    Role.NAME: (("table", ("name",), "schema and table"), ("TDR index", ("index",), FIELDS["TDR index"])),
    Role.TDR_INDEX: (("TDR index", ("index",), FIELDS["TDR index"]),),
    Role.IMAGE: (
        ("image", ("image",), ""),
        ("Partition", ("hex", "decimal"), ""),
        ("place in transaction", ("letter",), ""),
    ),
    Role.TRANSACTION: (
        ("TRANSID", ("id",), "node, processor and sequence number"),
        ("TRANSID number", ("number",), "the same as one number"),
    ),
}
"""The fields of lines: name, groups of the form of the line that may have it, and meaning."""


def _number(name: str, found: re.Match[bytes]) -> int | None:
    """The number of a field of the header block; None if none is printed."""
    if found["hex"] is not None:
        return int(found["hex"], 16)
    value = found["value"]
    if name in ("Hdr-Ind", "BeforeAfter", "FormatType"):
        return value[0] if value[:1] not in (b"", b".", b"(") else None
    if name == "Continued":
        return {b"Y": 1, b"N": 0}.get(value[:1])
    digits = re.match(rb"\d{1,18}(?=$| )", value)
    return int(digits[0]) if digits else None
