"""Records of a trail that are no changes of rows (``docs/formats/goldengate.md §5``): file header,
definitions, statements, and the tokens after records."""

from __future__ import annotations

import re
from typing import Final

from cdcwb_synth.catalogue import TableVersion
from cdcwb_synth.goldengate.columns import Layout, sql_type
from cdcwb_synth.goldengate.records import JULIAN_EPOCH, Record, Token
from cdcwb_synth.values import Column

__all__ = [
    "commit_token",
    "database",
    "definition",
    "file_header",
    "restart",
    "row_token",
    "statement",
    "statement_record",
    "table_text",
    "transaction_token",
]

_COMPATIBILITY: Final = {"11g": 3, "12c": 6, "21c": 7}
_RELEASE: Final = {"11g": "11.2.1.0.14", "12c": "12.3.0.1.4", "21c": "21.3.0.0.0"}
_ESCAPE: Final = re.compile(r"\\(.)")
_BASE64: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_LEGEND: Final = """\
*
 1)Name          2)Data Type        3)External Length  4)Fetch Offset      5)Scale         6)Level
 7)Null          8)Bump if Odd      9)Internal Length 10)Binary Length    11)Table Length 12)Most Sig DT
13)Least Sig DT 14)High Precision  15)Low Precision   16)Elementary Item  17)Occurs       18)Key Column
19)Sub DataType 20)Native DataType 21)Character Set   22)Character Length 23)LOB Type     24)Partial Type
25)Remarks
*
TDR version: 11"""
_DATABASE: Final = """\
Database Name:
*
DDR Version: 1
Database type: ORACLE
Character set ID: UTF-8
National character set ID: UTF-16BE
Locale: en_US
Case sensitivity: 14 14 14 14 14 14 14 14 14 14 14 14 11 14 14 14
TimeZone: GMT+00:00
*"""


def _token(code: int, value: bytes) -> bytes:
    return bytes((code, 0)) + len(value).to_bytes(2, "big") + value


def _text(value: str) -> bytes:
    data = value.encode()
    return len(data).to_bytes(2, "big") + data


def file_header(style: str, path: str, sequence: int, at: int, csn: str) -> bytes:
    """The body of a trail's file header, which is big-endian in every trail."""
    uri = _text("uri:db-01:shop::extshop")
    counted = csn.encode()
    trail = b"".join(
        (
            _token(0x30, b"GG\r\nTL\n\r"),
            _token(0x31, _COMPATIBILITY[style].to_bytes(2, "big")),
            _token(0x32, bytes((0x20, 0, 0, 0))),
            _token(0x33, (at + JULIAN_EPOCH).to_bytes(8, "big")),
            _token(0x34, uri),
            _token(0x35, _token(0x35, uri)),
            _token(0x36, _text(path)),
            _token(0x37, b"\x01"),
            _token(0x38, sequence.to_bytes(4, "big")),
            _token(0x39, (0).to_bytes(8, "big")),
            _token(0x3A, (bytes((len(counted),)) + counted).ljust(129, b"\0")),
        )
    )
    machine = _token(0x30, _text("Linux")) + _token(0x31, _text("db-01")) + _token(0x32, _text("5.4.17"))
    source = _token(0x30, b"\x00\x07") + _token(0x31, _text("SHOP"))
    producer = _token(0x30, _text("EXTSHOP")) + _token(0x31, _text(_RELEASE[style]))
    groups = ((0x30, trail), (0x31, machine), (0x32, source), (0x33, producer), (0x34, b""))
    return b"".join(_token(code, group) for code, group in groups)


def database(at: int) -> Record:
    """The record that describes the database."""
    return Record(170, None, at, body=bytes(81), node=1, text=_DATABASE, indexes=(1, 0), audit_pos=7)


def table_text(layout: Layout) -> str:
    """What is printed of a table's definition."""
    columns = layout.columns
    names = max(len(column.name) for column in columns)
    offset, rows = 0, []
    for column in columns:
        n = column.numbers(offset)
        rows.append(
            f"{column.name:<{names}} {n[0]:>4} {n[1]:>6} {n[2]:>8} {n[3]:>2} {n[4]:>2} {n[5]} {n[6]} "
            f"{n[7]:>6} {n[8]:>6} {n[9]:>6} {n[10]} {n[11]} {n[12]} {n[13]} {n[14]}    {n[15]} {n[16]} {n[17]:>3} "
            f"{n[18]:>4} {n[19]:>8} {n[20]:>6} {n[21]} {n[22]}"
        )
        offset += column.width
    head = [
        f"Table Name: {layout.full_name}", _LEGEND, f"Definition for table {layout.full_name}",
        f"Record Length: {offset}", f"Columns: {len(columns)}",
    ]  # fmt: skip
    return "\n".join((*head, *rows, "End of definition"))


def definition(layout: Layout, index: int, at: int) -> Record:
    """The record that describes a table, whose index it says."""
    size = 60 + 39 * len(layout.columns)
    text = table_text(layout)
    return Record(170, None, at, body=bytes(size), node=2, text=text, indexes=(1, index), audit_pos=7, header=48)


def restart(io: int, at: int) -> Record:
    """Extract began again (151), or broke off before (150)."""
    return Record(io, None, at, count=0, node=0)


def commit_token(csn: str) -> Token:
    """The token with the number of the commit."""
    return Token(0x4C, "LOGCSN", 0, csn.encode(), csn)


def transaction_token(xid: str) -> Token:
    """The token with the transaction's id."""
    return Token(0x36, "TRANID", 0, xid.encode(), xid)


def row_token(layout: Layout, number: int) -> Token:
    """The token with the row's id, made up from its table and a number."""
    digits, left = "", (layout.table.label << 32) + number * 2_654_435_761 % (1 << 32)
    for _ in range(15):
        left, digit = divmod(left, 64)
        digits = _BASE64[digit] + digits
    text = "AAA" + digits
    return Token(0x52, "ORAROWID", 0, text.encode() + b"\0\1", text)


def statement(version: TableVersion, old: tuple[Column, ...]) -> str:
    """A statement that makes of a table with the columns ``old`` this version."""
    before, after = {c.name: c for c in old}, {c.name: c for c in version.columns}
    done = [f"ADD ({c.name} {sql_type(c)})" for name, c in after.items() if name not in before]
    done += [f"DROP COLUMN {name}" for name in before if name not in after]
    done += [f"MODIFY ({name} {sql_type(c)})" for name, c in after.items() if name in before and before[name] != c]
    what = " ".join(done) or "MODIFY COLUMN ORDER"
    return f"ALTER TABLE {version.table.schema}.{version.table.name} {what} /* it's version {version.number} */"


def _escaped(text: str) -> str:
    return "".join("\\" + c if c in "',=()\\" else c for c in text)


def statement_items(version: TableVersion, sql: str, csn: str) -> dict[str, str]:
    """The items of a statement's record by their codes."""
    table = version.table
    return {
        "C5": csn, "B7": str(version.number), "B2": str(70_000 + table.label), "C21": "", "B3": table.schema,
        "B4": table.name, "C12": "", "C13": "", "B5": "TABLE", "B6": "ALTER", "B8": "GGADMIN.GGS_DDL_HIST",
        "B9": table.schema, "C7": "21.3.0.0.0", "C8": "21.3.0.0.0", "C9": "VALID", "C10": "1", "C11": "shop",
        "C14": "NO", "C20": "NO", "C1": sql,
    }  # fmt: skip


def statement_record(version: TableVersion, sql: str, at: int, csn: str, xid: str) -> Record:
    """The record of a statement, with its tokens, of which two come twice."""
    items = statement_items(version, sql, csn)
    body = "".join(f",{code}='{_escaped(value)}'," for code, value in items.items()).encode()
    table = version.table
    told = f"{table.schema}\0{table.name}\0{version.number}\0{version.number}\0N"
    ends = [transaction_token(xid), commit_token(csn)]
    between = [Token(0x44, "DDL", 0, told.encode(), told.replace("\0", " ")), Token(0x74, "ORATAG", 1, b"", "")]
    return Record(160, None, at, body=body, tokens=[*ends, *between, *reversed(ends)], node=0)


def shown_items(version: TableVersion, sql: str, csn: str, limit: int) -> tuple[dict[str, str], set[str]]:
    """The items of a statement's record that begin within its first ``limit`` bytes, and which of them are whole."""
    items, whole, at = dict[str, str](), set[str](), 0
    for code, value in statement_items(version, sql, csn).items():
        start, spelled = at + len(code) + 3, _escaped(value)
        if start > limit:
            break
        piece = spelled[: limit - start]
        if (len(piece) - len(piece.rstrip("\\"))) % 2:
            piece = piece[:-1]
        items[code] = value if piece == spelled else _ESCAPE.sub(r"\1", piece)
        if start + len(spelled) < limit:
            whole.add(code)
        at = start + len(spelled) + 2
    return items, whole
