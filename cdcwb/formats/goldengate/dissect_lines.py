"""The lines of a record that say something in words, as fields: header, record line, name, image, metadata."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cdcwb.formats.base import Field
from cdcwb.formats.goldengate import printed_lines as lines
from cdcwb.formats.goldengate.dissect_nodes import leaf, line_of
from cdcwb.formats.goldengate.facts import FIELDS, IMAGE_LETTERS, IO_TYPES, TRANS_IND, field_meaning, shown
from cdcwb.formats.goldengate.printed_lines import text_of
from cdcwb.formats.goldengate.printed_reading import Role
from cdcwb.formats.goldengate.records import Printed, Shape
from cdcwb.model import Problem

__all__ = ["Line", "LineFields"]

Line = tuple[int, int, Role]
"""First and last+1 byte of a line, and what it is."""

_LABEL: Final = 40
_LETTERS: Final = {bytes([letter]): TRANS_IND[place] for place, letter in enumerate(IMAGE_LETTERS)}


class LineFields:
    """The fields of the lines of one record that hold no hex, and what the record as a whole is."""

    def __init__(self, record: bytes, printed: Printed) -> None:
        self.record, self.printed = record, printed
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
        begin, text = line_of(self.record, line[0], line[1])
        return leaf(self.record, "text", begin, begin + len(text), text_of(text), "a line that cannot be parsed")

    def leaf(
        self, name: str, start: int, stop: int, value: str | None, meaning: str, problem: str | None = None
    ) -> Field:
        """A field over some of the record's text."""
        return leaf(self.record, name, start, stop, value, meaning, problem)

    def lines_of(self, there: list[Line], *roles: Role) -> Iterator[tuple[int, bytes, Role]]:
        """The lines with these roles, without indentation, and where each begins."""
        for start, stop, role in there:
            if role in roles:
                yield *line_of(self.record, start, stop), role

    def header(self, there: list[Line]) -> Iterator[Field]:
        """The fields of the header block, and the trail file that a report names."""
        values = self.printed.values
        for begin, line, role in self.lines_of(there, Role.HEADER, Role.TRAIL):
            if role is Role.TRAIL:
                found = lines.TRAIL.match(line)
                if found is not None:
                    place = begin + found.start(1)
                    yield self.leaf("Trail name", place, begin + found.end(1), text_of(found[1]), "the trail file")
                continue
            for name, at, start, stop in lines.header_pairs(line):
                printed = text_of(line[start:stop])
                wrong = self.printed.wrong_fields.get(name)
                problem, sentence = (None, "") if wrong is None else (Problem.HEADER_VALUE, f"; {wrong}")
                number = lines.read_value(name, line[start:stop]).number
                if name == "IO Time":
                    value, meaning = printed, FIELDS[name]
                elif name == "DDR/TDR index":
                    value, meaning = printed, f"{FIELDS['DDR index']}, {FIELDS['TDR index']}"
                elif number is None:
                    value, meaning = printed, f"{FIELDS[name]}; no value is printed"
                else:
                    value, meaning = shown(name, number), field_meaning(name, number, values)
                yield self.leaf(name, begin + at, begin + max(stop, at + 1), value, meaning + sentence, problem)

    def record_line(self, there: list[Line]) -> Iterator[Field]:
        """Time, operation, length and place."""
        meanings = (
            ("time", "time of the operation, in the time zone of the viewer"),
            ("operation", self.meaning),
            ("Len", "bytes of the record's data"),
            ("RBA", "offset of the record in the trail file, in bytes"),
        )
        for begin, line, _ in self.lines_of(there, Role.RECORD):
            found = lines.RECORD.match(line)
            for number, (name, meaning) in enumerate(meanings, 1):
                if found is not None:
                    start, stop = found.span(number)
                    yield self.leaf(name, begin + start, begin + stop, text_of(found[number]), meaning)

    def name_line(self, there: list[Line]) -> Iterator[Field]:
        """Name of the table, and the index of its definition."""
        for begin, line, _ in self.lines_of(there, Role.NAME):
            found, index = lines.NAME.match(line), lines.TDR_INDEX.match(line)
            spans = []
            if found is not None:
                spans.append(("table", found.span(1), "schema and table"))
                spans.append(("TDR index", found.span(2), FIELDS["TDR index"]))
            elif index is not None:
                spans.append(("TDR index", index.span(1), FIELDS["TDR index"]))
            for name, (start, stop), meaning in spans:
                if stop > start >= 0:
                    yield self.leaf(name, begin + start, begin + stop, text_of(line[start:stop]), meaning)

    def image_line(self, there: list[Line]) -> Iterator[Field]:
        """Which image it is, Partition, and place in the transaction."""
        for begin, line, _ in self.lines_of(there, Role.IMAGE):
            found = lines.IMAGE.match(line)
            if found is None:
                continue
            meaning = f"{'before' if found[1] == b'Before' else 'after'} image"
            yield self.leaf("image", begin, begin + found.end(1), text_of(found[1]), meaning)
            number = 2 if found[2] else 3
            if found[number]:
                value = int(found[number], 16 if number == 2 else 10)
                meaning = field_meaning("Partition", value, self.printed.values)
                start, stop = found.span(number)
                yield self.leaf("Partition", begin + start, begin + stop, str(value), meaning)
                letters = line[stop:].split()
                if letters and letters[-1] in _LETTERS:
                    at = begin + stop + line[stop:].rindex(letters[-1])
                    meaning = _LETTERS[letters[-1]]
                    yield self.leaf("place in transaction", at, at + 1, text_of(letters[-1]), meaning)

    def transaction_line(self, there: list[Line]) -> Iterator[Field]:
        """The transaction's id, and the number that it is stored as."""
        meanings = (("TRANSID", "node, processor and sequence number"), ("TRANSID number", "the same as one number"))
        for begin, line, _ in self.lines_of(there, Role.TRANSACTION):
            found = lines.TRANSACTION.match(line)
            for number, (name, meaning) in enumerate(meanings, 1):
                if found is not None and found[number]:
                    start, stop = found.span(number)
                    yield self.leaf(name, begin + start, begin + stop, text_of(found[number]), meaning)

    def metadata(self, there: list[Line]) -> Iterator[Field]:
        """The lines of a definition."""
        for begin, line, _ in self.lines_of(there, Role.TEXT):
            label, colon, value = line.partition(b":")
            if colon and not line[:1].isdigit() and len(label) < _LABEL:
                yield self.leaf(text_of(label), begin, begin + len(line), text_of(value.strip()), "as printed")
            else:
                yield self.leaf("line", begin, begin + len(line), text_of(line), "a line of the definition")
