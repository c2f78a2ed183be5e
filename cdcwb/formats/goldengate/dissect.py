"""One record of Logdump text as a tree of fields with place, text, value and meaning (docs/formats/goldengate.md).

Offsets count bytes of the record's text; where hex digits are taken apart, a field's ``raw`` is their text, and its
value what they say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from cdcwb.formats.base import Field
from cdcwb.formats.goldengate.body import Order
from cdcwb.formats.goldengate.definitions import Definition
from cdcwb.formats.goldengate.detecting import detect_indicators
from cdcwb.formats.goldengate.dissect_data import (
    Decoding,
    HexBytes,
    column_parts,
    data_fields,
    ghdr_fields,
    group,
    leaf,
    order_of,
    quiet,
    token_area,
    token_value,
    user_area,
)
from cdcwb.formats.goldengate.facts import FIELDS, HEADER_TOKENS, IO_TYPES, TRANS_IND, field_meaning, shown, token_name
from cdcwb.formats.goldengate.marks import marks_of
from cdcwb.formats.goldengate.printed import Line, Pair, lines_of, printed_of, text_of
from cdcwb.formats.goldengate.records import Printed, Shape, System
from cdcwb.formats.goldengate.scan import scan
from cdcwb.formats.goldengate.scanning import forms_of
from cdcwb.formats.goldengate.text import Role
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
    lines = lines_of(record)
    printed = printed_of(record, lines)
    bare = _is_bare(record, order, nullable)
    tree = _Tree(record, printed, lines.pairs, Decoding(definition, order, charset, bare, order_known))
    children = [tree.section(section) for section in _sections(lines.lines)]
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


_LABEL: Final = 40


class LineFields:
    """The fields of the lines of one record that hold no hex, and what the record as a whole is."""

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
        """A line that is not understood."""
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
        """The fields of the header block, and the trail file that a report names."""
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
        """Which image it is, Partition, and place in the transaction."""
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
    """Neighbouring lines of one section together, with blank and unknown lines behind them."""
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
        self.order = order_of(printed.columns, by)
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
        """Where the text of a block ends, without the blank lines behind it."""
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
                children += column_parts(data, 0, len(data), column.index, self.order, self.by)
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
        """The lines of a block before the first of a role."""
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
