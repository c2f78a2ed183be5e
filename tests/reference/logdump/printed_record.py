"""One record of Logdump text as plain objects, and its contradictions (docs/formats/goldengate.md §2 and §3.8)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from cdcwb.formats.goldengate.contents import TrailToken
from cdcwb.formats.goldengate.layout import CLOSED, HEADER, IO_TYPES, MISSING, NOT_A_TIME, io_type_of, shown
from cdcwb.formats.goldengate.records import header_values
from cdcwb.model import Problem
from cdcwb.words import joined

__all__ = ["Printed", "Shape", "check", "lacking"]

Problems = Iterator[tuple[Problem, str]]


class Shape(IntEnum):
    """The kinds of stretches of text."""

    RECORD = 0
    FILE_HEADER = 1
    MALFORMED = 2
    FILLER = 3


@dataclass(slots=True)
class Printed:
    """One record as printed: ``values`` by the names of the header; ``parts``: lengths of header tokens by letter;
    ``line_moment`` and ``header_moment``: times in microseconds since 1970 as if their zone were UTC."""

    shape: Shape
    start: int
    stop: int
    values: dict[str, int] = field(default_factory=dict)
    io_time: str | None = None
    line_time: str | None = None
    operation: str | None = None
    length: int = MISSING
    rba: int = MISSING
    name: str | None = None
    name_index: int = MISSING
    image: str | None = None
    image_partition: int = MISSING
    image_trans: int = MISSING
    transaction: str | None = None
    transaction_number: str | None = None
    ghdr: bytes = b""
    parts: dict[str, int] = field(default_factory=dict)
    body: bytes | None = None
    tokens: list[TrailToken] = field(default_factory=list)
    user_tokens: list[tuple[str, str]] = field(default_factory=list)
    text: str | None = None
    trail: str | None = None
    problems: list[tuple[Problem, str]] = field(default_factory=list)
    line_moment: int = NOT_A_TIME
    header_moment: int = NOT_A_TIME

    @property
    def io_type(self) -> int | None:
        """Number of the record type, by its header or else by its printed name."""
        number = self.values.get("IOType")
        return io_type_of(self.operation) if number is None and self.operation is not None else number

    @property
    def side(self) -> int | None:
        """BeforeAfter of the header, else from the words of the image line: the code of ``A`` or ``B``."""
        return self.values.get("BeforeAfter", None if self.image is None else ord(self.image[0]))


BLOCK: Final = tuple(name for name in HEADER if name not in ("AuditRBA", "DDR index", "TDR index"))
"""The labels of a complete header block, except AuditRBA and the indexes of definitions."""


def lacking(printed: Printed) -> list[str]:
    """The fields that its header block should have and has not."""
    missing = [name for name in BLOCK if name not in printed.values]
    if "AuditRBA" not in printed.values and "TDR index" not in printed.values:
        missing.append("AuditRBA")
    return missing


def check(printed: Printed) -> Problems:
    """The problems of a record that is not malformed, in the order: header, times, header token, data."""
    if printed.values:
        yield from _header(printed)
    yield from _times(printed)
    if printed.ghdr:
        yield from _ghdr(printed)
    yield from _body(printed)


def _header(printed: Printed) -> Problems:
    values, operation = printed.values, printed.operation
    missing = lacking(printed)
    if missing:
        yield Problem.TRUNCATED, f"header block lacks {', '.join(missing)}"
    for name, known in CLOSED.items():
        if (value := values.get(name, MISSING)) not in (MISSING, *known):
            expected = joined([shown(name, one) for one in known], "or")
            yield (Problem.HEADER_VALUE, f"{name} is x{value:02x}, expected {expected}")
    length = values.get("RecLength", MISSING)
    if MISSING not in (length, printed.length) and length != printed.length:
        yield (Problem.HEADER_VALUE, f"RecLength is {length}, Len of the record line is {printed.length}")
    number = values.get("IOType")
    if number is None or operation is None or not _disagree(number, operation):
        return
    known = IO_TYPES.get(number)
    meaning = known.name if known else "another operation"
    yield (Problem.HEADER_VALUE, f"IOType {number} is {meaning}, the record line has {operation}")


def _disagree(number: int, operation: str) -> bool:
    """Whether a record type's number and its printed name contradict certain facts."""
    named = io_type_of(operation)
    if named == number:
        return False
    known = IO_TYPES.get(number)
    return (known is not None and known.certain) or (named is not None and IO_TYPES[named].certain)


def _times(printed: Printed) -> Problems:
    header, line = printed.header_moment, printed.line_moment
    for name, text, moment in (
        ("IO Time", printed.io_time, header),
        ("time of the record line", printed.line_time, line),
    ):
        if text is not None and moment == NOT_A_TIME:
            yield (Problem.HEADER_VALUE, f"{name} is not a time: {text}")
    if NOT_A_TIME not in (header, line) and header != line:
        yield (Problem.HEADER_VALUE, f"IO Time is {printed.io_time}, the record line has {printed.line_time}")


def _ghdr(printed: Printed) -> Problems:
    _, _, told = header_values(printed.ghdr)
    for name, value in told.items():
        there = printed.values.get(name, value)
        if there != value and not (name == "AuditPos" and there & 0xFFFFFFFF == value):
            yield (Problem.HEADER_VALUE, f"{name} is printed as {there}, the header token has {value}")


def _body(printed: Printed) -> Problems:
    length = printed.length if printed.length != MISSING else printed.values.get("RecLength", MISSING)
    if length == MISSING or printed.text is not None or printed.values.get("IOType") == 170:
        return
    if printed.operation == "Metadata":
        return
    have = len(printed.body or b"")
    if have > length:
        yield Problem.HEADER_VALUE, f"Len is {length}, {have} bytes of data are shown"
    if have < length:
        yield Problem.TRUNCATED, f"body truncated: have {have} of {length} bytes"
