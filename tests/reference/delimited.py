"""Records of delimited text cut into fields byte by byte (docs/formats/qlik-change-table.md §1.3)."""

from __future__ import annotations

from collections.abc import Sequence

from cdcwb.formats.containers.delimited import Dialect
from cdcwb.formats.containers.rows import Cell


def cut(record: bytes, dialect: Dialect, names: Sequence[str], charset: str) -> list[Cell] | str:
    """The fields of a record of a delimited file, or what is wrong with it."""
    cells: list[Cell] = []
    at = 0
    while True:
        name = names[len(cells)] if len(cells) < len(names) else f"field {len(cells) + 1}"
        start = at
        quoted = bool(dialect.quote) and record[at : at + 1] == dialect.quote
        if quoted:
            content, behind = _quoted(record, at, dialect)
            if behind < 0:
                return f"{name} begins with a quote that is not closed"
        else:
            behind = _plain(record, at, dialect)
            content = record[at:behind]
        size = len(dialect.delimiter) if record.startswith(dialect.delimiter, behind) else 0
        stop = behind + size if size else behind + _line_end(record, behind, dialect)
        text: str | None
        garbled = False
        if not quoted and content == dialect.null:
            text = None
        else:
            try:
                text = content.decode(charset)
            except UnicodeDecodeError:
                text, garbled = content.hex(), True
        cells.append(Cell(name, start, stop, text, garbled))
        if size:
            at = stop
            continue
        if stop < len(record):
            return f"expected a delimiter after {name}, found {record[behind : behind + 8]!r}"
        break
    if len(cells) != len(names):
        return f"expected {len(names)} fields, found {len(cells)}"
    return cells


def _quoted(record: bytes, at: int, dialect: Dialect) -> tuple[bytes, int]:
    """The content of the quoted field that begins at ``at``, and the place behind its closing quote (-1: none)."""
    quote, escape = dialect.quote, dialect.escape
    out = bytearray()
    at += 1
    while at < len(record):
        run = 0
        while escape and record[at + run : at + run + 1] == escape:
            run += 1
        if run:
            at += run
            if record[at : at + 1] != quote:
                out += escape * run
                continue
            out += escape * (run // 2)
            if run % 2:
                out += quote
                at += 1
                continue
        if record[at : at + 1] != quote:
            out += record[at : at + 1]
            at += 1
        elif record[at + 1 : at + 2] == quote:
            out += quote
            at += 2
        else:
            return bytes(out), at + 1
    return bytes(out), -1


def _plain(record: bytes, at: int, dialect: Dialect) -> int:
    """Where the field without quotes ends that begins at ``at``."""
    while at < len(record) and not record.startswith(dialect.delimiter, at) and not _line_end(record, at, dialect):
        at += 1
    return at


def _line_end(record: bytes, at: int, dialect: Dialect) -> int:
    """How many bytes a line end takes that stands here; 0: none does."""
    if dialect.crlf and record.startswith(b"\r\n", at):
        return 2
    return len(dialect.record) if record.startswith(dialect.record, at) else 0
