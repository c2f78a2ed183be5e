"""One record of Logdump text as a tree of fields with place, text, value and meaning (docs/formats/goldengate.md).

Offsets count bytes of the record's text; where hex digits are taken apart, a field's ``raw`` is their text, and its
value what they say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from cdcwb.formats.base import Field
from cdcwb.formats.goldengate import printed_lines as lines
from cdcwb.formats.goldengate.body import Order
from cdcwb.formats.goldengate.definitions import Definition
from cdcwb.formats.goldengate.detecting import detect_indicators
from cdcwb.formats.goldengate.dissect_data import (
    Decoding,
    column_parts,
    data_fields,
    ghdr_fields,
    order_of,
    token_area,
    token_value,
    user_area,
)
from cdcwb.formats.goldengate.dissect_lines import Line, LineFields
from cdcwb.formats.goldengate.dissect_nodes import HexBytes, group, line_of, quiet
from cdcwb.formats.goldengate.facts import (
    HEADER_TOKENS,
    token_name,
)
from cdcwb.formats.goldengate.marks import marks_of
from cdcwb.formats.goldengate.printed_lines import text_of
from cdcwb.formats.goldengate.printed_reading import Reading, Role
from cdcwb.formats.goldengate.records import Printed, Shape, System
from cdcwb.formats.goldengate.scan import scan
from cdcwb.formats.goldengate.scanning import forms_of
from cdcwb.model import Problem

__all__ = ["dissect"]


def dissect(
    record: bytes,
    definition: Definition | None = None,
    order: Order | None = None,
    charset: str = "utf-8",
    nullable: int | None = None,
    order_known: bool = True,
) -> Field:
    """The field tree of the text of one record.

    ``definition``: of its table, for names and types (None: columns are ``c0``, ``c1`` … and values are guessed).
    ``order``: byte order of the trail (None: the one in which the columns fit); ``order_known`` false: nothing tells
    it, so that no value is read. ``nullable``: from this :class:`~cdcwb.formats.goldengate.records.System` on, null
    indicators are only in columns that may be NULL (None: as the record shows). Children fill their node without holes,
    in byte order, whatever the text is. Never raises.
    """
    reading = Reading(record, 0, len(record))
    printed = reading.printed()
    bare = _is_bare(record, order, nullable)
    tree = _Tree(record, printed, Decoding(definition, order, charset, bare, order_known))
    children = [tree.section(section) for section in _sections(reading.roles)]
    return group(record, tree.name, 0, len(record), tree.meaning, children, None, tree.problem)


def _is_bare(record: bytes, order: Order | None, nullable: int | None) -> bool:
    """Are null indicators only in columns that may be NULL?"""
    records = scan(np.frombuffer(record, dtype=np.uint8))
    one = np.flatnonzero(records.shape == Shape.RECORD)[:1]
    if not len(one):
        return False
    marks = marks_of(records)
    if nullable is not None or marks.system[one[0]] != System.UNKNOWN:
        return bool(marks.system[one[0]] >= (System.NONSTOP if nullable is None else nullable))
    start, stop = records.body_at[one].T
    forms, skip = forms_of(marks, 2, one), np.zeros(1, dtype=np.int64)
    orders: tuple[Order, ...] = ("little", "big") if order is None else (order,)
    found = [detect_indicators(records.bytes, start, stop, each, forms, skip) for each in orders]
    return any(other for _, other in found) and not any(every for every, _ in found)


_SECTION: Final = {
    Role.HEADER_TOKEN: "header tokens",
    Role.HEADER_TOKEN_HEX: "header tokens",
    Role.RULE: "rule",
    Role.HEADER: "header",
    Role.TRAIL: "header",
    Role.RECORD: "record line",
    Role.NAME: "name",
    Role.IMAGE: "image",
    Role.TRANSACTION: "transaction id",
    Role.BODY: "data",
    Role.TEXT: "metadata",
    Role.HALF: "columns",
    Role.COLUMN: "columns",
    Role.COLUMN_HEX: "columns",
    Role.GROUP: "file header",
    Role.GROUP_HEX: "file header",
    Role.GGS: "tokens",
    Role.TOKEN: "tokens",
    Role.TOKEN_HEX: "tokens",
    Role.USER: "user tokens",
    Role.USER_TOKEN: "user tokens",
    Role.USER_TOKEN_HEX: "user tokens",
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
    """Neighbouring lines of one section together, with blank and unknown lines behind them."""
    sections: list[tuple[str, list[Line]]] = []
    for line in roles:
        name = _SECTION.get(line[2])
        if sections and (name is None or name == sections[-1][0]):
            sections[-1][1].append(line)
        else:
            sections.append((name or ("blank line" if line[2] is Role.BLANK else "text"), [line]))
    return sections


class _Tree(LineFields):
    """The fields of one record."""

    def __init__(self, record: bytes, printed: Printed, by: Decoding) -> None:
        super().__init__(record, printed)
        self.by = by
        self.order = order_of(printed.columns, by)
        self.columns = iter(printed.columns)

    def section(self, section: tuple[str, list[Line]]) -> Field:
        """The field of one section."""
        name, there = section
        start, stop = there[0][0], there[-1][1]
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
        children += [self.unknown(line) for line in there if line[2] is Role.UNKNOWN and name != "text"]
        return group(self.record, name, start, stop, _MEANINGS[name], children)

    def _data(self, there: list[Line]) -> Iterator[Field]:
        data = self._hex(there, Role.BODY)
        yield from data_fields(data, self.printed, self.io_type, self.by)

    def _hex(self, there: list[Line], role: Role) -> HexBytes:
        return HexBytes(self.record, [(start, stop) for start, stop, one in there if one is role])

    def _blocks(self, there: list[Line], head: Role, *more: Role) -> Iterator[tuple[int, int, bytes, list[Line]]]:
        """Each line of a role with the lines of hex below it: first byte, line's end, line, all of its lines."""
        block: list[Line] = []
        for line in [*there, (0, 0, head)]:
            if line[2] is head or line[2] in more:
                if block and block[0][2] is head:
                    begin, text = line_of(self.record, block[0][0], block[0][1])
                    yield begin, begin + len(text), text, block
                block = [line]
            elif block:
                block.append(line)

    def _end(self, block: list[Line]) -> int:
        """Where the text of a block ends, without the blank lines behind it."""
        last = [line for line in block if line[2] not in (Role.BLANK, Role.UNKNOWN)][-1]
        begin, text = line_of(self.record, last[0], last[1])
        return begin + len(text)

    def _columns(self, there: list[Line]) -> Iterator[Field]:
        for begin, line, _ in self.lines_of(there, Role.HALF):
            yield self.leaf("image length", begin, begin + len(line), text_of(line), "bytes of an image, or of its key")
        for begin, head_end, line, block in self._blocks(there, Role.COLUMN, Role.HALF):
            column = next(self.columns, None)
            if column is None:
                continue
            data = self._hex(block, Role.COLUMN_HEX)
            children = [self.leaf("column line", begin, head_end, text_of(line), "index and length of the column")]
            value = None
            if len(data):
                children += column_parts(data, 0, len(data), column.index, self.order, self.by)
                value = children[-1].value
            name = self.by.name(column.index)
            meaning = f"{column.half} image, {column.length} bytes" if column.length >= 0 else f"{column.half} image"
            if column.fragment is not None:
                meaning = "segment {} of {} of a large object".format(*column.fragment)
            short = bool(len(data)) and len(data) < column.length
            problem = Problem.TRUNCATED if short else children[-1].problem
            yield group(self.record, name, begin, self._end(block), meaning, children, value, problem)

    def _token_line(self, start: int, stop: int, line: bytes) -> Field:
        return quiet(self.record, "token line", start, stop, text_of(line), "id, name, info and length")

    def _header_tokens(self, there: list[Line]) -> Iterator[Field]:
        for begin, head_end, line, block in self._blocks(there, Role.HEADER_TOKEN):
            token = lines.token_line(line)
            letter = chr(token.id) if token is not None else "?"
            data = self._hex(block, Role.HEADER_TOKEN_HEX)
            children = [self._token_line(begin, head_end, line)]
            if len(data):
                children += (
                    ghdr_fields(data) if letter == "H" else [data.leaf("bytes", 0, len(data), None, "its bytes")]
                )
            value = str(token.length) if token is not None else None
            meaning = f"{HEADER_TOKENS.get(letter, '')}; length in bytes"
            yield group(self.record, letter, begin, self._end(block), meaning, children, value)

    def _before(self, there: list[Line], head: Role) -> list[Line]:
        """The lines before the first of a role."""
        return there[: next((number for number, line in enumerate(there) if line[2] is head), len(there))]

    def _tokens(self, there: list[Line]) -> Iterator[Field]:
        data = self._hex(self._before(there, Role.TOKEN), Role.TOKEN_HEX)
        if len(data):
            yield from token_area(data)
        yield from self._token_blocks(there, Role.TOKEN, Role.TOKEN_HEX)

    def _token_blocks(self, there: list[Line], head: Role, below: Role) -> Iterator[Field]:
        for begin, head_end, line, block in self._blocks(there, head):
            token = lines.token_line(line)
            if token is None:
                continue
            data = self._hex(block, below)
            name = token_name(token.id, token.name)
            text, meaning = token_value(token.id, name, data.data)
            children = [self._token_line(begin, head_end, line)]
            if len(data):
                children.append(data.leaf("value", 0, len(data), text, meaning))
            problem = None if len(data) == token.length else Problem.TRUNCATED
            yield group(self.record, name, begin, self._end(block), meaning, children, text, problem)

    def _user_tokens(self, there: list[Line]) -> Iterator[Field]:
        data = self._hex(self._before(there, Role.USER_TOKEN), Role.USER_TOKEN_HEX)
        if len(data):
            yield from user_area(data)
        for begin, line, _ in self.lines_of(there, Role.USER_TOKEN):
            pair = lines.NAME_VALUE.match(line) if lines.token_line(line) is None else None
            if pair is not None:
                value = text_of(pair[2] or b"")
                yield self.leaf(text_of(pair[1]), begin, begin + len(line), value, "user token")
        yield from self._token_blocks(there, Role.USER_TOKEN, Role.USER_TOKEN_HEX)

    def _file_header(self, there: list[Line]) -> Iterator[Field]:
        for begin, _, line, block in self._blocks(there, Role.GROUP):
            found, token = lines.GROUP.match(line), lines.token_line(line)
            name = text_of(found[2]) if found is not None else (token.name if token is not None else None)
            data = self._hex(block, Role.GROUP_HEX)
            meaning = "a group of the file header" if found is not None else "a token of the file header"
            children = [data.leaf("value", 0, len(data), data.data.hex(), "its bytes")] if len(data) else []
            yield group(self.record, name or "group", begin, self._end(block), meaning, children)
