"""One record of Logdump text as a tree of fields with offset, text, value and meaning (docs/formats/goldengate.md).

Offsets count bytes of the record's text; for dissected hex digits, a field's ``raw`` is their text, and its value is
decoded from them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from cdcwb.formats.dissector import Field
from cdcwb.formats.goldengate.decode import (
    Order,
    Printed,
    Shape,
    header_tokens,
    iso_utc,
    items_of,
)
from cdcwb.formats.goldengate.decode.bodies import (
    UNKNOWN_ORDER,
    Cell,
    Form,
    Half,
    columns_of,
    not_columns,
    odd_indicator,
)
from cdcwb.formats.goldengate.decode.definitions import ColumnDef, Definition
from cdcwb.formats.goldengate.decode.logdump import Role
from cdcwb.formats.goldengate.decode.printed import (
    Line,
    Pair,
    ghdr_order,
    ghdr_time,
    ghdr_values,
    lines_of,
    printed_of,
    scan,
    text_of,
    user_pairs,
    walk_tokens,
)
from cdcwb.formats.goldengate.decode.values import value_of
from cdcwb.formats.goldengate.layout import (
    DDL_ITEMS,
    FIELDS,
    GHDR,
    GHDR_FIXED,
    GHDR_TIME,
    GUESS,
    GUESS_FIXED,
    HALVES,
    HEADER_TOKENS,
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
from cdcwb.formats.goldengate.plan import FileEntry
from cdcwb.formats.goldengate.plan.transactions import marks_of
from cdcwb.model import Problem

__all__ = ["dissect"]


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


def _row(data: HexBytes, record: Printed, io_type: int, by: Decoding) -> list[Field]:
    skip = max(record.values.get("SyskeyLen", 0), 0)
    half = Half.BEFORE if is_before_image(io_type, record.side) else Half.AFTER
    unified = Form.UNIFIED_4 if by.prefix == 4 else Form.UNIFIED_2
    form = _ROWS.get(io_type, unified)
    cells, bad = columns_of(data.data, by.order, form, skip, half, by.bare)
    fields = []
    if skip:
        key = data.data[:skip]
        fields.append(data.leaf("system key", 0, skip, key.hex(), f"NonStop: the row's system key, {skip} bytes"))
    short = len(data) < max(record.length, record.values.get("RecLength", -1))
    goes_on = record.values.get("Continued") == 1
    if not by.order_known or (bad >= 0 and not goes_on and (by.bare or not short)):
        reason = not_columns(bad, by.bare) if by.order_known else UNKNOWN_ORDER
        rest = data.data[skip:].hex()
        return [*fields, data.leaf("undecoded", min(skip, len(data)), len(data), rest, reason, Problem.ROW_SIZE)]
    width = {Form.COLUMNS: 0, Form.UNIFIED_4: 4}.get(form, 2)
    if width:
        length = int.from_bytes(data.data[skip : skip + width], by.order)
        meaning = f"{by.order}-endian: bytes of the before image"
        fields.append(data.leaf("length of the before image", skip, skip + width, str(length), meaning))
    assumed = _ASSUMED if record.side is None and io_type in HALVES and io_type != KEYED else ""
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


def dissect(
    record: bytes, definition: Definition | None = None, file: FileEntry | None = None, charset: str = "utf-8"
) -> Field:
    """The field tree of the text of one record.

    ``definition``: of its table, for names and types (None: columns are ``c0``, ``c1`` … and types are inferred).
    ``file``: the settings of bodies in its file (None: defaults, little-endian). Children cover their node without
    holes, in byte order, for any text. Never raises.
    """
    lines = lines_of(record)
    printed = printed_of(record, lines)
    file = FileEntry("", len(record)) if file is None else file
    systems = marks_of(scan(np.frombuffer(record, dtype=np.uint8))).system
    bare = bool(len(systems)) and int(systems[0]) >= file.bare_from
    order: Order = "big" if bare else file.byte_order
    by = Decoding(definition, order, bare or file.order_known, file.prefix, bare, charset)
    tree = _Tree(record, printed, lines.pairs, by)
    children = [tree.section(section) for section in _sections(lines.lines)]
    return group(record, tree.name, 0, len(record), tree.meaning, children, None, tree.problem)


_LABEL: Final = 40


class LineFields:
    """The fields of the lines of one record without hex, and the meaning of the record."""

    def __init__(self, record: bytes, printed: Printed, pairs: list[Pair]) -> None:
        self.record, self.printed, self.pairs = record, printed, pairs
        number = self.io_type = printed.io_type
        known = IO_TYPES.get(number) if number is not None else None
        self.name = printed.operation or (known.name if known else "record")
        self.meaning = known.meaning if known else "a record of an unknown type"
        if printed.shape is Shape.FILE_HEADER:
            self.name, self.meaning = "FileHeader", "the trail file: its writer, its time and its sequence number"
        elif printed.shape is Shape.MALFORMED:
            self.name, self.meaning = "malformed", "lines of a record that cannot be parsed"
        codes = [code for code, _ in printed.problems if code in (Problem.TRUNCATED, Problem.MALFORMED)]
        self.problem = codes[0] if codes else None

    def unknown(self, line: Line) -> Field:
        """An unknown line."""
        return self.leaf(
            "text", line.start, line.stop, self.text(line.start, line.stop), "a line that cannot be parsed"
        )

    def text(self, start: int, stop: int) -> str:
        """Some of the record's text."""
        return text_of(self.record[start:stop])

    def leaf(
        self, name: str, start: int, stop: int, value: str | None, meaning: str, problem: str | None = None
    ) -> Field:
        """A field over some of the record's text."""
        return leaf(self.record, name, start, stop, value, meaning, problem)

    def header(self, there: list[Line]) -> Iterator[Field]:
        """The fields of the header block, and the trail file in a report."""
        for line in there:
            if line.role is Role.TRAIL:
                start = line.start + self.record[line.start : line.stop].index(b":") + 1
                start += len(self.record[start : line.stop]) - len(self.record[start : line.stop].lstrip())
                yield self.leaf("Trail name", start, line.stop, self.text(start, line.stop), "the trail file")
            for pair in self.pairs if line.role is Role.HEADER else ():
                if line.start <= pair.at < line.stop:
                    yield self._pair(pair)

    def _pair(self, pair: Pair) -> Field:
        name, value = pair.name, self.text(pair.start, pair.stop)
        wrong = self.printed.wrong_fields.get(name)
        problem, sentence = (None, "") if wrong is None else (Problem.HEADER_VALUE, f"; {wrong}")
        if name == "IO Time":
            meaning = FIELDS[name]
        elif name == "DDR/TDR index":
            meaning = f"{FIELDS['DDR index']}, {FIELDS['TDR index']}"
        elif pair.number < 0:
            meaning = f"{FIELDS[name]}; no value is printed"
        else:
            value, meaning = shown(name, pair.number), field_meaning(name, pair.number, self.printed.values)
        return self.leaf(name, pair.at, max(pair.stop, pair.at + 1), value, meaning + sentence, problem)

    def record_line(self, there: list[Line]) -> Iterator[Field]:
        """Time, operation, length and RBA."""
        for line in there:
            if line.role is not Role.RECORD:
                continue
            rest = [found.span() for found in re.finditer(rb"\d+", self.record[line.found[3] : line.stop])]
            length, rba = ((line.found[3] + first, line.found[3] + last) for first, last in (rest[0], rest[-1]))
            for name, (start, stop), meaning in (
                ("time", (line.start, line.found[0]), "time of the operation, in the time zone of the viewer"),
                ("operation", line.span(2), self.meaning),
                ("Len", length, "bytes of the record's data"),
                ("RBA", rba, "offset of the record in the trail file, in bytes"),
            ):
                yield self.leaf(name, start, stop, self.text(start, stop), meaning)

    def name_line(self, there: list[Line]) -> Iterator[Field]:
        """Name of the table, and the index of its definition."""
        for line in there:
            spans = []
            if line.role is Role.NAME:
                spans += [("table", line.span(0), "schema and table"), ("TDR index", line.span(2), FIELDS["TDR index"])]
            elif line.role is Role.TDR_INDEX:
                spans.append(("TDR index", line.span(1), FIELDS["TDR index"]))
            for name, (start, stop), meaning in spans:
                if stop > start >= 0:
                    yield self.leaf(name, start, stop, self.text(start, stop), meaning)

    def image_line(self, there: list[Line]) -> Iterator[Field]:
        """The image, Partition, and position in the transaction."""
        for line in there:
            if line.role is not Role.IMAGE:
                continue
            word_end, partition, first, last, trans, letter = line.found[:6]
            word = self.text(line.start, word_end)
            yield self.leaf("image", line.start, word_end, word, f"{word.lower()} image")
            if partition >= 0:
                meaning = field_meaning("Partition", partition, self.printed.values)
                yield self.leaf("Partition", first, last, str(partition), meaning)
                if letter >= last:
                    meaning = TRANS_IND[trans]
                    yield self.leaf("place in transaction", letter, letter + 1, self.text(letter, letter + 1), meaning)

    def transaction_line(self, there: list[Line]) -> Iterator[Field]:
        """The transaction's id, and the number that it is stored as."""
        meanings = (("TRANSID", "node, processor and sequence number"), ("TRANSID number", "the same as one number"))
        for line in there:
            for number, (name, meaning) in enumerate(meanings) if line.role is Role.TRANSACTION else ():
                start, stop = line.span(2 * number)
                if start >= 0:
                    yield self.leaf(name, start, stop, self.text(start, stop), meaning)

    def metadata(self, there: list[Line]) -> Iterator[Field]:
        """The lines of a definition."""
        for line in there:
            if line.role is not Role.TEXT:
                continue
            whole = self.record[line.start : line.stop]
            label, colon, value = whole.partition(b":")
            if colon and not whole[:1].isdigit() and len(label) < _LABEL:
                yield self.leaf(text_of(label), line.start, line.stop, text_of(value.strip()), "as printed")
            else:
                yield self.leaf("line", line.start, line.stop, text_of(whole), "a line of the definition")


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


def _sections(roles: list[Line]) -> list[tuple[str, list[Line]]]:
    """Adjacent lines of one section, with blank and unknown lines after them."""
    sections: list[tuple[str, list[Line]]] = []
    for line in roles:
        name = _SECTION.get(line.role)
        if sections and (name is None or name == sections[-1][0]):
            sections[-1][1].append(line)
        else:
            sections.append((name or ("blank line" if line.role is Role.BLANK else "text"), [line]))
    return sections


class _Tree(LineFields):
    """The fields of one record."""

    def __init__(self, record: bytes, printed: Printed, pairs: list[Pair], by: Decoding) -> None:
        super().__init__(record, printed, pairs)
        self.by = by
        self.columns = iter(printed.columns)

    def section(self, section: tuple[str, list[Line]]) -> Field:
        """The field of one section."""
        name, there = section
        start, stop = there[0].at, there[-1].next
        builders: dict[str, Callable[[list[Line]], Iterator[Field]]] = {
            "header tokens": self._header_tokens,
            "header": self.header,
            "record line": self.record_line,
            "name": self.name_line,
            "image": self.image_line,
            "transaction id": self.transaction_line,
            "data": self._data,
            "metadata": self.metadata,
            "columns": self._columns,
            "file header": self._file_header,
            "tokens": self._tokens,
            "user tokens": self._user_tokens,
        }
        children = list(builders[name](there)) if name in builders else []
        children += [self.unknown(line) for line in there if line.role is Role.UNKNOWN and name != "text"]
        return group(self.record, name, start, stop, _MEANINGS[name], children)

    def _data(self, there: list[Line]) -> Iterator[Field]:
        data = self._hex(there, Role.BODY)
        yield from data_fields(data, self.printed, self.io_type, self.by)

    def _hex(self, there: list[Line], role: Role) -> HexBytes:
        return HexBytes(self.record, [line for line in there if line.role is role])

    def _blocks(self, there: list[Line], *heads: Role) -> Iterator[list[Line]]:
        """Each line of a role with the lines below it, up to the next line of one of the roles."""
        block: list[Line] = []
        for line in there:
            if line.role in heads:
                if block:
                    yield block
                block = [line]
            elif block:
                block.append(line)
        if block:
            yield block

    def _end(self, block: list[Line]) -> int:
        """The end of a block's text, without trailing blank lines."""
        return [line for line in block if line.role not in (Role.BLANK, Role.UNKNOWN)][-1].stop

    def _columns(self, there: list[Line]) -> Iterator[Field]:
        for block in self._blocks(there, Role.COLUMN, Role.HALF):
            head = block[0]
            said = self.text(head.start, head.stop)
            if head.role is Role.HALF:
                yield self.leaf("image length", head.start, head.stop, said, "bytes of an image, or of its key")
                continue
            column = next(self.columns)
            data = self._hex(block, Role.COLUMN_HEX)
            children = [self.leaf("column line", head.start, head.stop, said, "index and length of the column")]
            value = None
            if len(data):
                children += column_parts(data, 0, len(data), column.index, self.by)
                value = children[-1].value
            name = self.by.name(column.index)
            meaning = f"{column.half} image, {column.length} bytes" if column.length >= 0 else f"{column.half} image"
            if column.fragment is not None:
                meaning = "segment {} of {} of a large object".format(*column.fragment)
            short = bool(len(data)) and len(data) < column.length
            problem = Problem.TRUNCATED if short else children[-1].problem
            yield group(self.record, name, head.start, self._end(block), meaning, children, value, problem)

    def _token_line(self, line: Line) -> Field:
        text = self.text(line.start, line.stop)
        return quiet(self.record, "token line", line.start, line.stop, text, "id, name, info and length")

    def _token_name(self, line: Line) -> str | None:
        return (self.text(*line.span(1)) or None) if line.found[1] >= 0 else None

    def _header_tokens(self, there: list[Line]) -> Iterator[Field]:
        for block in self._blocks(there, Role.HEADER_TOKEN):
            head = block[0]
            letter = chr(head.found[0])
            data = self._hex(block, Role.HEADER_TOKEN_HEX)
            children = [self._token_line(head)]
            if len(data):
                children += (
                    ghdr_fields(data) if letter == "H" else [data.leaf("bytes", 0, len(data), None, "its bytes")]
                )
            meaning = f"{HEADER_TOKENS.get(letter, '')}; length in bytes"
            yield group(self.record, letter, head.start, self._end(block), meaning, children, str(head.found[4]))

    def _tokens(self, there: list[Line]) -> Iterator[Field]:
        for block in self._blocks(there, Role.GGS):
            yield from token_area(self._hex(self._below(block, Role.TOKEN), Role.TOKEN_HEX))
        yield from self._token_blocks(there, Role.TOKEN, Role.TOKEN_HEX)

    def _below(self, block: list[Line], head: Role) -> list[Line]:
        """The lines of a block that precede the first one with a role."""
        return block[: next((number for number, line in enumerate(block) if line.role is head), len(block))]

    def _token_blocks(self, there: list[Line], role: Role, below: Role) -> Iterator[Field]:
        for block in self._blocks(there, role):
            head = block[0]
            data = self._hex(block, below)
            name = token_name(head.found[0], self._token_name(head))
            text, meaning = token_value(head.found[0], name, data.data)
            children = [self._token_line(head)]
            if len(data):
                children.append(data.leaf("value", 0, len(data), text, meaning))
            problem = None if len(data) == head.found[4] else Problem.TRUNCATED
            yield group(self.record, name, head.start, self._end(block), meaning, children, text, problem)

    def _user_tokens(self, there: list[Line]) -> Iterator[Field]:
        for block in self._blocks(there, Role.USER):
            yield from user_area(self._hex(self._below(block, Role.USER_TOKEN), Role.USER_TOKEN_HEX))
        for line in there:
            if line.role is Role.USER_PAIR:
                name, value = self.text(line.start, line.found[0]), self.text(line.found[1], line.stop)
                yield self.leaf(name, line.start, line.stop, value, "user token")
        yield from self._token_blocks(there, Role.USER_TOKEN, Role.USER_TOKEN_HEX)

    def _file_header(self, there: list[Line]) -> Iterator[Field]:
        for block in self._blocks(there, Role.GROUP, Role.GROUP_TOKEN):
            head = block[0]
            data = self._hex(block, Role.GROUP_HEX)
            meaning = "a group of the file header" if head.role is Role.GROUP else "a token of the file header"
            children = [data.leaf("value", 0, len(data), data.data.hex(), "its bytes")] if len(data) else []
            name = self._token_name(head) or "group"
            yield group(self.record, name, head.start, self._end(block), meaning, children)
