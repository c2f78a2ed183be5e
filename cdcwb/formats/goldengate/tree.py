"""One record of Logdump text as a tree of fields with offset, text, value and meaning (docs/formats/goldengate.md).

Offsets count bytes of the record's text; for dissected hex digits, a field's ``raw`` is their text, and its value is
decoded from them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from cdcwb.formats.dissector import Field
from cdcwb.formats.goldengate import contents, layout
from cdcwb.formats.goldengate.contents import OPAQUE, Half, value_of, widths_of
from cdcwb.formats.goldengate.definitions import Definition
from cdcwb.formats.goldengate.layout import DDL, FIELDS, HEADER, IO_TYPES, MISSING, Order, field_meaning, shown
from cdcwb.formats.goldengate.lines import LABELS, SINKS, Role, matched, parse
from cdcwb.formats.goldengate.plan import Bodies
from cdcwb.formats.goldengate.records import (
    FIELD,
    FILE_HEADER,
    MALFORMED,
    RecordSettings,
    TrailRecords,
    decode,
    header_values,
    text_of,
)
from cdcwb.model import Problem

_GAP: Final = "white space, labels and text between hex digits"
_UNPARSED: Final = "a line that cannot be parsed"
_ASSUMED: Final = " (assumed: neither BeforeAfter nor an image line gives it)"
_LABEL: Final = 40
_SHAPES: Final = {
    FILE_HEADER: ("FileHeader", "the trail file: its writer, its time and its sequence number"),
    MALFORMED: ("malformed", "lines of a record that cannot be parsed"),
}
_SECTIONS: Final = {
    "header tokens": ("tokens of the record in the trail, with their lengths", "HEADER_TOKEN HEADER_TOKEN_HEX"),
    "rule": ("a line that precedes each record", "RULE"),
    "header": ("the record's header (GHDR)", "HEADER TRAIL"),
    "record line": ("time, operation, length of the data and RBA", "RECORD"),
    "name": ("the table, by name or by the index of its definition", "NAME TDR_INDEX"),
    "image": ("which image the data has", "IMAGE"),
    "transaction id": ("transaction id, as on a NonStop", "TRANSACTION"),
    "data": ("the record's data in hex", "BODY"),
    "metadata": ("definition of a database or of a table, as text", "TEXT"),
    "columns": ("the columns of the data one by one (DETAIL)", "HALF COLUMN COLUMN_HEX"),
    "file header": ("groups and tokens of the file header (FILEHEADER)", "GROUP GROUP_TOKEN GROUP_HEX"),
    "tokens": ("GoldenGate's own tokens (GGSTOKEN)", "GGS TOKEN TOKEN_HEX"),
    "user tokens": ("tokens of the Extract's parameters", "USER USER_TOKEN USER_TOKEN_HEX USER_PAIR"),
    "blank line": ("a blank line", ""),
    "text": ("lines that cannot be parsed", ""),
}
"""The sections of a record: the meaning of each, and the roles of its lines."""
_SECTION_OF: Final = {Role[role]: name for name, (_, roles) in _SECTIONS.items() for role in roles.split()}
_HEADS: Final = frozenset(
    {Role.HALF, Role.USER_PAIR, *(one for one, below in SINKS.items() if below not in (Role.UNKNOWN, Role.BODY))}
)
"""The lines that may have hex below them."""
_GROUPS: Final = {
    "trail": ("Trail name", "the trail file"),
    "time": ("time", "time of the operation, in the time zone of the viewer"),
    "operation": ("operation", ""),
    "length": ("Len", "bytes of the record's data"),
    "rba": ("RBA", "offset of the record in the trail file, in bytes"),
    "name": ("table", "schema and table"),
    "index": ("TDR index", FIELDS["TDR index"]),
    "image": ("image", ""),
    "hex": ("Partition", ""),
    "decimal": ("Partition", ""),
    "letter": ("place in transaction", ""),
    "id": ("TRANSID", "node, processor and sequence number"),
    "number": ("TRANSID number", "the same as one number"),
}
"""The fields of lines, by the groups of their forms: name and meaning."""


def dissect(
    record: bytes, definition: Definition | None = None, bodies: Bodies | None = None,
    reading: RecordSettings | None = None,
) -> Field:  # fmt: skip
    """The field tree of the text of one record.

    ``definition``: of its table, for names and types (None: columns are ``c0``, ``c1`` … and types are inferred).
    ``bodies``: how the data are written (None: little-endian). Children cover their node without holes, in byte order,
    for any text. Never raises.
    """
    reading = reading or RecordSettings()
    records = decode(parse(np.frombuffer(record, np.uint8), is_record=True), reading, is_record=True)
    if not len(records):
        return Field("record", 0, len(record), record, None, "no text")
    return Tree(record, records, definition, bodies or Bodies(), reading).field()


class PrintedBytes:
    """Bytes that a record's text has, from which fields are made: those of the text, or those that some of its lines
    print as hex. ``starts``: where the text of each begins, and the end after the last one; ``width``: its length."""

    def __init__(self, record: bytes, data: bytes, starts: Sequence[int], width: int) -> None:
        self.record, self.data, self.starts, self.width = record, data, starts, width

    def __len__(self) -> int:
        return len(self.data)

    def field(
        self, name: str, start: int, stop: int, value: str | None, meaning: str, problem: Problem | None = None,
        children: Iterable[Field] = (), quiet: bool = False,
    ) -> Field:  # fmt: skip
        """A field over the bytes ``[start, stop)``. Gaps between its children are filled; a child that overlaps
        preceding ones is left out."""
        first, last, end = max(start, 0), min(stop, len(self)) - 1, self.starts[-1]
        start, stop = (self.starts[first], self.starts[last] + self.width) if first <= last else (end, end)
        filled: list[Field] = []
        at = start
        for child in sorted((child for child in children if child.length > 0), key=lambda one: one.offset):
            end = child.offset + child.length
            if at <= child.offset and end <= stop:
                filled += [*self._gap(at, child.offset), child]
                at = end
        filled += self._gap(at, stop) if filled else []
        return Field(name, start, stop - start, self.record[start:stop], value, meaning, tuple(filled), problem, quiet)

    def _gap(self, start: int, stop: int) -> list[Field]:
        text = self.record[start:stop]
        return [Field("layout", start, stop - start, text, None, _GAP, quiet=True)] if text else []


class Tree:
    """The fields of one record."""

    def __init__(
        self, record: bytes, records: TrailRecords, definition: Definition | None, bodies: Bodies,
        reading: RecordSettings,
    ) -> None:  # fmt: skip
        self.record, self.records, self.lines = record, records, records.lines
        self.text = PrintedBytes(record, record, range(len(record) + 1), 1)
        self.definition, self.charset = definition, reading.charset
        self.bare = bool(records.nonstop[0])
        self.order: Order = "big" if self.bare else bodies.order
        self.is_known = self.bare or bodies.is_known
        self.io = int(records.io[0])
        self.width = int(widths_of(np.array([self.io]), bodies.prefix)[0])
        self.values = {name: int(one) for name, one in zip(HEADER, records.values[0], strict=True) if one != MISSING}
        known = IO_TYPES.get(self.io)
        printed = records.operation[0].as_py()
        self.name = text_of(printed) if printed is not None else known.name if known else "record"
        self.meaning = known.meaning if known else "a record of an unknown type"
        self.shape = int(records.shape[0])
        self.name, self.meaning = _SHAPES.get(self.shape, (self.name, self.meaning))

    def field(self) -> Field:
        """The record."""
        codes = (one.code for one in self.records.faults if one.code in (Problem.TRUNCATED, Problem.MALFORMED))
        children = [self.section(name, some) for name, some in self.sections()]
        return self.text.field(self.name, 0, len(self.record), None, self.meaning, next(codes, None), children)

    def sections(self) -> list[tuple[str, list[int]]]:
        """Adjacent lines of one section, with blank and unknown lines after them."""
        sections: list[tuple[str, list[int]]] = []
        for line, role in enumerate(self.lines.role.tolist()):
            name = _SECTION_OF.get(Role(role))
            if sections and name in (None, sections[-1][0]):
                sections[-1][1].append(line)
            else:
                sections.append((name or ("blank line" if role == Role.BLANK else "text"), [line]))
        return sections

    def section(self, name: str, some: list[int]) -> Field:
        """The field of one section."""
        roles = [Role(int(self.lines.role[line])) for line in some]
        children = [*self.data(self.hex(some, Role.BODY))] if name == "data" else []
        for at, (line, role) in enumerate(zip(some, roles, strict=True)):
            if role in _HEADS:
                end = next((end for end in range(at + 1, len(some)) if roles[end] in _HEADS), len(some))
                children += self.below(role, some[at:end])
            elif role is Role.UNKNOWN and name != "text":
                children.append(self.whole(line, "text", _UNPARSED))
            else:
                children += self.line(line)
        start, stop = int(self.lines.at[some[0]]), int(self.lines.at[some[-1] + 1])
        return self.text.field(name, start, stop, None, _SECTIONS[name][0], children=children)

    def span(self, line: int) -> tuple[int, int]:
        """The content of a line."""
        return int(self.lines.first[line]), int(self.lines.last[line])

    def whole(self, line: int, name: str, meaning: str, value: str | None = None, quiet: bool = False) -> Field:
        """A field over the content of a line."""
        start, stop = self.span(line)
        value = text_of(self.record[start:stop]) if value is None else value
        return self.text.field(name, start, stop, value, meaning, quiet=quiet)

    def hex(self, some: Sequence[int], role: Role) -> PrintedBytes:
        """The bytes that lines of a role print."""
        lines, data, starts, end = self.lines, b"", [], 0
        for line in some:
            if lines.role[line] == role:
                printed = lines.data[lines.data_at[line] :][: lines.size[line]].tobytes()
                digits = [at for at in range(*self.span(line)) if lines.plain[at] != 32]
                starts += digits[: 2 * len(printed) : 2]
                data, end = data + printed, int(lines.at[line + 1])
        return PrintedBytes(self.record, data, [*starts, end], 2)

    # --- lines --------------------------------------------------------------------------------------------------------

    def line(self, line: int) -> Iterator[Field]:
        """The fields of a line without hex."""
        role, (first, stop) = Role(int(self.lines.role[line])), self.span(line)
        if role is Role.HEADER:
            yield from self.header(first, stop)
        elif role is Role.TEXT:
            label, colon, rest = self.record[first:stop].partition(b":")
            if colon and not label[:1].isdigit() and len(label) < _LABEL:
                yield self.whole(line, text_of(label), "as printed", text_of(rest.strip()))
            else:
                yield self.whole(line, "line", "a line of the definition")
        form = matched(self.lines, line)
        for part in form.groupdict() if form else ():
            if form and form[part]:
                start, end = (first + at for at in form.span(part))
                value, (name, meaning) = text_of(self.record[start:end]), _GROUPS[part]
                if part in ("hex", "decimal"):
                    number = int(value, 16 if part == "hex" else 10)
                    value, meaning = str(number), field_meaning(name, number, self.values)
                elif part == "letter":
                    meaning = field_meaning("TransInd", layout.IMAGE_LETTERS.index(form[part]), {})
                elif part == "image":
                    meaning = f"{value.lower()} image"
                yield self.text.field(name, start, end, value, meaning or self.meaning)

    def header(self, at: int, stop: int) -> Iterator[Field]:
        """The fields of a line of the header block."""
        wrong = {one.field: one.sentence for one in reversed(self.records.faults)}
        while at < stop and (found := FIELD.match(self.lines.plain[at:stop].tobytes())):
            label = b" ".join(found["label"].lower().split())
            name = next(one for one in LABELS if one.lower().encode() == label)
            end = at + (found.end("value") if found["hex"] is None else found.end("hex") + 1)
            value = text_of(self.record[at + found.start("value") : end])
            number = self.values.get(name) if found["value"].strip(b".") else None
            number = int(found["hex"], 16) if found["hex"] else number
            if name == "DDR/TDR index":
                meaning = f"{FIELDS['DDR index']}, {FIELDS['TDR index']}"
            elif name == "IO Time":
                meaning = FIELDS[name]
            elif number is None:
                meaning = f"{FIELDS[name]}; no value is printed"
            else:
                value, meaning = shown(name, number), field_meaning(name, number, self.values)
            problem = Problem.HEADER_VALUE if name in wrong else None
            meaning += f"; {wrong[name]}" if name in wrong else ""
            start = at + found.start("label")
            yield self.text.field(name, start, max(end, start + 1), value, meaning, problem)
            at = at + found.start("rest") + 1 if found["rest"] else stop

    # --- lines with hex below them ------------------------------------------------------------------------------------

    def below(self, role: Role, block: list[int]) -> Iterable[Field]:
        """The fields of a line that may have hex below it, and of that hex."""
        data = self.hex(block, SINKS.get(role, Role.UNKNOWN))
        match role:
            case Role.GGS:
                return token_area(data)
            case Role.USER:
                return user_area(data)
            case Role.HALF:
                return [self.whole(block[0], "image length", "bytes of an image, or of its key")]
            case Role.USER_PAIR:
                name, _, value = self.record[slice(*self.span(block[0]))].partition(b":")
                return [self.whole(block[0], text_of(name.rstrip()), "user token", text_of(value.strip()))]
            case Role.COLUMN:
                return [self.printed_column(block, data)]
        return [self.token(role, block, data)]

    def block(
        self, name: str, some: list[int], value: str | None, meaning: str, problem: Problem | None, of: Iterable[Field]
    ) -> Field:
        """A field over a line and the hex below it, without blank lines."""
        solid = [line for line in some if self.lines.role[line] not in (Role.BLANK, Role.UNKNOWN)]
        return self.text.field(name, self.span(some[0])[0], self.span(solid[-1])[1], value, meaning, problem, of)

    def printed_column(self, block: list[int], data: PrintedBytes) -> Field:
        """A column that is printed by itself, next to the data."""
        form = matched(self.lines, block[0])
        index = int(form["index"]) if form else 0
        parts, value, meaning, problem = self.column(data, 0, len(data), index) if len(data) else ([], None, "", None)
        length = re.search(rb"Len(?:gth)? +(\d{1,18})", form["rest"]) if form else None
        problem = _truncated(bool(length and 0 < len(data) < int(length[1]))) or problem
        children = [self.whole(block[0], "column line", "index and length of the column"), *parts]
        return self.block(self.column_name(index), block, value, meaning, problem, children)

    def token(self, role: Role, block: list[int], data: PrintedBytes) -> Field:
        """A token of the header, of the record or of a file header."""
        fields = self.lines.fields[role]
        at = int(np.flatnonzero(fields.line == block[0])[0])
        number, length = fields["number"][at].as_py(), int(fields["length"][at].as_py())
        name = layout.token_name(number, text_of(fields["name"][at].as_py()))
        value: tuple[str | None, str] = _token_value(number, name, data.data)
        problem: Problem | None = None
        inner: Iterable[Field] = [data.field("value", 0, len(data), *value)]
        if role is Role.HEADER_TOKEN:
            name, inner = chr(number), header_token(data) if number == ord("H") else inner
            value = str(length), f"{layout.HEADER_TOKENS.get(name, '')}; length in bytes"
        elif role in (Role.GROUP, Role.GROUP_TOKEN):
            value = None, f"a {'group' if role is Role.GROUP else 'token'} of the file header"
            inner = [data.field("value", 0, len(data), data.data.hex(), "its bytes")]
        else:
            problem = _truncated(len(data) != length)
        line = self.whole(block[0], "token line", "id, name, info and length", quiet=True)
        return self.block(name, block, *value, problem, [line, *inner])

    # --- data ---------------------------------------------------------------------------------------------------------

    def data(self, data: PrintedBytes) -> Iterator[Field]:
        """The fields of the record's data."""
        if self.shape == FILE_HEADER:
            for group, tokens in contents.header_groups(data.data):
                children = [_token(data, token, value, "id, length and value") for token, value in tokens]
                yield _token(data, group, None, "a group of the file header", children)
        elif self.io == DDL:
            for item in contents.items_of(data.data, self.charset):
                meaning = f"{item.code}: {layout.DDL_ITEMS.get(item.code, 'an unknown item')}"
                yield data.field(item.code, item.start, item.stop, item.value, meaning, _truncated(not item.whole))
        elif self.width == OPAQUE:
            yield data.field("bytes", 0, len(data), data.data.hex(), "data that is not a row")
        else:
            yield from self.row(data)

    def row(self, data: PrintedBytes) -> Iterator[Field]:
        """The system key and the columns of a body."""
        side, skip, width = int(self.records.side[0]), max(self.values.get("SyskeyLen", 0), 0), self.width
        start, stop, widths, skips = np.array([[0], [len(data)], [width], [skip]])
        before = layout.are_before_images(np.array([self.io]), np.array([side]))
        body = np.frombuffer(data.data, np.uint8)
        cells = contents.walk(body, start, stop, self.order == "big", widths, skips, before, np.array([self.bare]))
        bad = int(cells.bad[0])
        if skip:
            meaning = f"NonStop: the row's system key, {skip} bytes"
            yield data.field("system key", 0, skip, data.data[:skip].hex(), meaning)
        is_short = len(data) < max(int(self.records.length[0]), self.values.get("RecLength", MISSING))
        if not self.is_known or (bad >= 0 and self.values.get("Continued") != 1 and (self.bare or not is_short)):
            reason = contents.not_columns(bad, self.bare) if self.is_known else contents.UNKNOWN_ORDER
            yield data.field("undecoded", skip, len(data), data.data[skip:].hex(), reason, Problem.ROW_SIZE)
            return
        at = middle = skip + width
        if width:
            length = int.from_bytes(data.data[skip:at], self.order)
            middle += length
            meaning = f"{self.order}-endian: bytes of the before image"
            yield data.field("length of the before image", skip, at, str(length), meaning)
        is_assumed = side == MISSING and self.io in layout.HALVES and not width
        for index, end, half in zip(cells.index.tolist(), cells.stop.tolist(), cells.half.tolist(), strict=True):
            at = at if half == Half.BEFORE else max(at, middle)
            parts, value, meaning, problem = self.column(data, at + 4, end, index)
            meaning = f"{Half(half).name.lower()} image{_ASSUMED if is_assumed else ''}: {meaning}"
            endian = f"{self.order}-endian"
            children = [
                data.field("column index", at, at + 2, str(index), f"{endian}, from 0: {self.column_name(index)}"),
                data.field("column length", at + 2, at + 4, str(end - at - 4), f"{endian}: bytes that follow"),
                *parts,
            ]
            yield data.field(self.column_name(index), at, end, value, meaning, problem, children)
            at = end
        if bad >= 0:
            meaning = "the rest of a truncated body" if is_short else "a column that continues in the next record"
            yield data.field("undecoded", at, len(data), data.data[at:].hex(), meaning, _truncated(is_short))

    def column_name(self, index: int) -> str:
        """The name of a column, ``c3`` if unknown."""
        return f"c{index}" if self.definition is None else self.definition.name(index)

    def column(
        self, data: PrintedBytes, start: int, stop: int, index: int
    ) -> tuple[list[Field], str | None, str, Problem | None]:
        """Null indicator and value of one column; its text (None: NULL), meaning and problem."""
        raw = data.data[start:stop]
        column = self.definition.column(index) if self.definition is not None else None
        kind = f"inferred type: no definition of column {index}" if column is None else column.type
        coding = column.coding if column is not None else layout.GUESS_FIXED if self.bare else layout.GUESS
        width, head = (0, b"") if self.bare else (2, raw[:2])
        value, meaning, problem = raw[width:].hex(), f"{kind}; NULL", None
        if self.bare or head == b"\0\0":
            value, problem, sentence = value_of(raw[width:], coding, self.order, self.charset)
            meaning = sentence or kind
        elif head != b"\xff\xff":
            value = value if len(head) == width else raw.hex()
            meaning, problem = contents.odd_indicator(head.hex()), Problem.VALUE
        indicator = {b"\0\0": "0000: not NULL", b"\xff\xff": "FFFF: NULL"}.get(head, "neither 0000 nor FFFF")
        text = None if head == b"\xff\xff" else value
        parts = [
            data.field("null indicator", start, min(start + width, stop), head.hex(), indicator),
            data.field("value", start + width, stop, text, meaning, problem),
        ]
        return parts, text, meaning, problem


# --- tokens -----------------------------------------------------------------------------------------------------------


def _truncated(is_truncated: bool) -> Problem | None:
    return Problem.TRUNCATED if is_truncated else None


def _token(
    data: PrintedBytes, token: contents.TrailToken, value: str | None, meaning: str, children: Iterable[Field] = ()
) -> Field:
    """A field over a token in a token area."""
    is_truncated = _truncated(len(token.value) < token.length)
    return data.field(str(token.name), token.start, token.stop, value, meaning, is_truncated, children)


def _token_value(number: int, name: str, value: bytes) -> tuple[str, str]:
    """A token's value as text, and its meaning."""
    stripped = value[:-2] if name == "ORAROWID" and value[-2:-1] == b"\0" else value.rstrip(b"\0")
    text = text_of(stripped)
    is_readable = "\ufffd" not in text and text.replace("\0", "").isprintable()
    meaning = layout.TOKEN_MEANINGS.get(name, f"token x{number:02x}")
    return text.replace("\0", " ") if is_readable else value.hex(), meaning


def token_area(data: PrintedBytes) -> Iterator[Field]:
    """Consecutive tokens: id, info, length and value each."""
    for token in contents.walk_tokens(data.data)[0]:
        at, token.name = token.start, layout.token_name(token.id)
        text, meaning = _token_value(token.id, token.name, token.value)
        children = [
            data.field("token id", at, at + 1, f"x{token.id:02x}", token.name),
            data.field("info", at + 1, at + 2, f"x{token.info:02x}", "not known"),
            data.field("length", at + 2, at + 4, str(token.length), "bytes of the value"),
            data.field("value", at + 4, token.stop, text, meaning),
        ]
        yield _token(data, token, text, meaning, children)


def user_area(data: PrintedBytes) -> Iterator[Field]:
    """User tokens: name and value, each ended by a NUL."""
    ends = [at + 1 for at, byte in enumerate(data.data) if byte == 0]
    starts = [0, *ends[1::2]]
    spans = pairwise([*starts, len(data)])
    for (name, value), (start, stop) in zip(contents.user_pairs(data.data), spans, strict=False):
        yield data.field(name, start, stop, value, "user token: name and value, each ended by a NUL")


def header_token(data: PrintedBytes) -> Iterator[Field]:
    """The header token, number by number."""
    order, moment, values = header_values(data.data)
    if order is None:
        meaning = "too short for a header, or without a time"
        yield data.field("bytes", 0, len(data), data.data.hex(), meaning, Problem.TRUNCATED)
        return
    at, size = layout.GHDR_TIME
    for name, offset, width in layout.GHDR:
        if name in values:
            meaning = field_meaning(name, values[name], values) + (f"; {order}-endian" if width > 1 else "")
            yield data.field(name, offset, offset + width, shown(name, values[name]), meaning)
    utc = contents.iso_utc(moment)
    yield data.field("IO Time", at, at + size, utc, "UTC: microseconds since noon of Julian day 0")
    tail = data.data[layout.GHDR_FIXED :].rstrip(b"\0")
    is_index = values["Partition"] & layout.BY_INDEX and tail
    rest = str(int.from_bytes(data.data[layout.GHDR_FIXED :][:2], order)) if is_index else text_of(tail)
    meaning = "name or index of the table, which Logdump may blank"
    yield data.field("table", layout.GHDR_FIXED, len(data), rest, meaning)
