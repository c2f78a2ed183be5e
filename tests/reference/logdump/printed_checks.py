"""What the text of one record contradicts in itself (docs/formats/goldengate.md §3.8)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cdcwb.formats.goldengate.decode import HEADER, MISSING, Printed, Shape
from cdcwb.formats.goldengate.layout import IO_TYPES, io_type_of
from cdcwb.model import Problem
from tests.reference.logdump.printed_lines import time_us
from tests.reference.logdump.printed_tokens import ghdr_time, ghdr_values

__all__ = ["BLOCK", "check", "lacking", "truncated_body", "truncated_column"]

Problems = Iterator[tuple[Problem, str]]

BLOCK: Final = tuple(name for name in HEADER if name not in ("AuditRBA", "DDR index", "TDR index"))
"""What a whole header block has, besides AuditRBA or the indexes of definitions."""

_QUARTER_HOUR_US: Final = 15 * 60 * 10**6
_ZONES_US: Final = 15 * 3600 * 10**6  # no zone is further from UTC than this


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
    if printed.parts:
        yield from _parts(printed)
    yield from _body(printed)


def _header(printed: Printed) -> Problems:
    values, operation = printed.values, printed.operation
    missing = lacking(printed)
    if missing:
        yield Problem.TRUNCATED, f"header block lacks {', '.join(missing)}"
    indicator = values.get("Hdr-Ind", 0x45)
    if indicator != 0x45:
        yield printed.wrong("Hdr-Ind", f"Hdr-Ind should be E (x45), it is x{indicator:02x}")
    length = values.get("RecLength", MISSING)
    if MISSING not in (length, printed.length) and length != printed.length:
        yield printed.wrong("RecLength", f"RecLength is {length}, Len of the record line is {printed.length}")
    number = values.get("IOType")
    if number is None or operation is None or not _disagree(number, operation):
        return
    known = IO_TYPES.get(number)
    meaning = known.name if known else "another operation"
    yield printed.wrong("IOType", f"IOType {number} is {meaning}, the record line has {operation}")


def _disagree(number: int, operation: str) -> bool:
    """Do a record type's number and its printed name contradict what is known for certain?"""
    named = io_type_of(operation)
    if named == number:
        return False
    known = IO_TYPES.get(number)
    return (known is not None and known.certain) or (named is not None and IO_TYPES[named].certain)


def _times(printed: Printed) -> Problems:
    moments = []
    for name, text in (("IO Time", printed.io_time), ("time of the record line", printed.line_time)):
        moment = time_us(text) if text is not None else None
        if text is not None and moment is None:
            yield printed.wrong(name, f"{name} is not a time: {text}")
        moments.append(moment)
    if None not in moments and moments[0] != moments[1]:
        yield printed.wrong("IO Time", f"IO Time is {printed.io_time}, the record line has {printed.line_time}")


def _ghdr(printed: Printed) -> Problems:
    told = ghdr_values(printed.ghdr)
    for name, value in told.items():
        there = printed.values.get(name, value)
        if there != value and not (name == "AuditPos" and there & 0xFFFFFFFF == value):
            yield printed.wrong(name, f"{name} is printed as {there}, the header token has {value}")
    text = printed.io_time if printed.io_time is not None else printed.line_time
    utc, shown = ghdr_time(printed.ghdr), time_us(text) if text is not None else None
    if utc is None or shown is None:
        return
    zone = shown - utc
    if zone % _QUARTER_HOUR_US or abs(zone) > _ZONES_US:
        seconds = zone / 10**6
        yield (
            Problem.HEADER_VALUE,
            f"the printed time {text} is {seconds:.6f} s after that of the header token, not the offset of any zone",
        )


def _parts(printed: Printed) -> Problems:
    parts = printed.parts
    whole, trailer = parts.get("G"), parts.get("Z")
    if whole is None or "H" not in parts:
        return
    inner = sum(4 + parts[letter] for letter in "HDTU" if letter in parts)
    if whole != inner + 8:
        yield Problem.HEADER_VALUE, f"header token G has length {whole}, its parts make {inner + 8}"
    if trailer is not None and trailer != whole:
        yield Problem.HEADER_VALUE, f"record trailer Z has length {trailer}, header token G {whole}"
    data = parts.get("D", 0)
    if printed.length != MISSING and data != printed.length:
        yield Problem.HEADER_VALUE, f"Len is {printed.length}, header token D has length {data}"


def _body(printed: Printed) -> Problems:
    length = printed.length if printed.length != MISSING else printed.values.get("RecLength", MISSING)
    if length == MISSING or printed.text is not None or printed.values.get("IOType") == 170:
        return
    if printed.operation == "Metadata":
        return
    have = len(printed.body or b"")
    if have > length:
        yield Problem.HEADER_VALUE, f"Len is {length}, {have} bytes of data are shown"
    if have >= length or (printed.body is None and _told_by_columns(printed, length)):
        return
    yield truncated_body(have, length)
    for column in printed.columns:
        if column.data is not None and len(column.data) < column.length:
            yield truncated_column(column.index, len(column.data), column.length)


def truncated_body(have: int, length: int) -> tuple[Problem, str]:
    """The problem of a record whose data are shown only in part."""
    return Problem.TRUNCATED, f"body truncated: have {have} of {length} bytes"


def truncated_column(index: int, have: int, length: int) -> tuple[Problem, str]:
    """The problem of a column whose own hex is shown only in part."""
    return Problem.TRUNCATED, f"column {index} truncated: have {have} of {length} bytes"


def _told_by_columns(printed: Printed, length: int) -> bool:
    """Are the record's data all shown below its columns? Prefixes of images and system keys are shown nowhere."""
    if printed.shape is not Shape.RECORD or not printed.columns:
        return False
    if any(column.data is None or len(column.data) != column.length for column in printed.columns):
        return False
    prefix = length - sum(4 + column.length for column in printed.columns)
    halves = len({"after" if column.half == "after" else "before" for column in printed.columns}) > 1
    allowed = {0, 2, 4} if halves or any(column.half == "key" for column in printed.columns) else {0}
    return prefix - max(printed.values.get("SyskeyLen", 0), 0) in allowed
