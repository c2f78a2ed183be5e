"""Invented Logdump output, part by part, that tests put together."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cdcwb.formats.goldengate.contents import Half, TrailToken, walk
from cdcwb.formats.goldengate.layout import HEADER, MISSING, NOT_A_TIME, Order
from cdcwb.formats.goldengate.lines import Role, parse
from cdcwb.formats.goldengate.records import NO_RECORD, TrailRecords, decode, moments, text_of
from tests.reference.logdump.printed_record import Printed, Shape

RULE = "_" * 67
BLOCK = """\
Hdr-Ind    :     E  (x45)     Partition  :     .  (x0c)
UndoFlag   :     .  (x00)     BeforeAfter:     A  (x41)
RecLength  :    24  (x0018)   IO Time    : 2023/03/04 05:06:07.000.000
IOType     :     5  (x05)     OrigNode   :   255  (xff)
TransInd   :     .  (x03)     FormatType :     R  (x52)
SyskeyLen  :     0  (x00)     Incomplete :     .  (x00)
AuditRBA   :        311       AuditPos   : 4711
Continued  :     N  (x00)     RecCount   :     1  (x01)
"""
LINE = "2023/03/04 05:06:07.000.000 Insert               Len    24 RBA 1880\n"
NAME = "Name: shop.orders  (TDR Index: 2)\n"
IMAGE = "After  Image:                                             Partition x0c   G  s\n"
HEX = """\
 0000 0600 0000 0000 0007 0100 0a00 0000 0600 6170 | ..................ap
 706c 6573                                         | ples
"""
BODY = bytes.fromhex("00000600000000000007" + "01000a0000000600" + b"apples".hex())
COLUMNS = """\
Column 0 (0x0000), Length 6 (0x0006).
 0000 0000 0007                                    | ......
Column 1 (0x0001), Length 10 (0x000a).
 0000 0600 6170 706c 6573                          | ....apples
"""
GGS = """\

GGS tokens:
TokenID x4c 'L' LOGCSN           Info x00  Length    7
 3133 3332 3831 36                                 | 1332816
TokenID x36 '6' TRANID           Info x00  Length    6
 342e 352e 3637                                    | 4.5.67
"""
RECORD = f"{RULE}\n{BLOCK}\n{LINE}{NAME}{IMAGE}{HEX}{COLUMNS}{GGS}"
VALUES = {
    "Hdr-Ind": 0x45,
    "Partition": 12,
    "UndoFlag": 0,
    "BeforeAfter": 0x41,
    "RecLength": 24,
    "IOType": 5,
    "OrigNode": 255,
    "TransInd": 3,
    "FormatType": 0x52,
    "SyskeyLen": 0,
    "Incomplete": 0,
    "AuditRBA": 311,
    "AuditPos": 4711,
    "Continued": 0,
    "RecCount": 1,
}
HEADER_TOKENS = """\
TokenID x47 'G' Record Header    Info x01  Length  101
TokenID x48 'H' GHDR             Info x00  Length   36
 450c 0041 1800 05ff c0b9 84ee 371c f302 6712 0000 | E..A......1.....g...
 0000 0000 3701 0000 0352 0000 0001 0000           | ....7....R......
TokenID x44 'D' Data             Info x00  Length   24
TokenID x54 'T' GGS Tokens       Info x00  Length   21
TokenID x5a 'Z' Record Trailer   Info x01  Length  101
"""
KEY_UPDATE = """\
Before Image          Len    12 (x0000000c)
KeyLen    10 (x0000000a)
KeyCol     0 (x0000), Len     6 (x0006)
 0000 0000 0007                                    | ......

After Image           Len    10 (x0000000a)
Column     0 (x0000), Len     6 (x0006)
 0000 0000 0008                                    | ......
"""
USER_LINES = "TK-HOST              : hq\nTK-EMPTY             :\nTK-TIME              : 12:30:01\n"
USER_BLOCKS = """\
TokenID x01 '.' TK-HOST          Info x00  Length    2
 6871                                              | hq
TokenID x01 '.' TK-EMPTY         Info x00  Length    0
TokenID x01 '.' TK-TIME          Info x00  Length    8
 3132 3a33 303a 3031                               | 12:30:01
"""
USER_HEX = """\
 544b 2d48 4f53 5400 6871 0054 4b2d 454d 5054 5900 | TK-HOST.hq.TK-EMPTY.
 0054 4b2d 5449 4d45 0031 323a 3330 3a30 3100      | .TK-TIME.12:30:01.
"""
METADATA_LINE = "2023/03/04 05:06:07.000.000 Metadata             Len 138 RBA 1200\n"
TABLE_TEXT = """\
Table Name: shop.orders
*
 1)Name          2)Data Type
25)Remarks
*
TDR version: 11
Definition for table shop.orders
Record Length: 132
Columns: 1
an id  132     11        0  0  0 0 0      4      4      4 0 0 0 0 1    0 1   0    3       -1      0 0 0
End of definition
"""
FILE_LINE = "2023/03/04 05:06:07.000.000 FileHeader           Len    26 RBA 0\nName: *FileHeader*\n"
FILE_HEX = " 3000 0016 3000 0008 4747 0d0a 544c 0a0d 3100 0002 | 0...0...GG..TL..1...\n 0007 3200 0000 | ..2...\n"
FILE_GROUPS = """\
GroupID x30 '0' TrailInfo        Info x00  Length   22
TokenID x30 '0' Signature        Info x00  Length    8
 4747 0d0a 544c 0a0d                               | GG..TL..
TokenID x31 '1' Compatibility    Info x00  Length    2
 0007                                              | ..
TokenID x32 '2' Charset          Info x00  Length    0
"""


class Cell(NamedTuple):
    """One column of one body, with the offsets of its value."""

    index: int
    start: int
    stop: int
    indicator: int
    half: Half
    bare: bool = False


def columns_of(
    body: bytes,
    order: Order,
    form: int = 0,
    skip: int = 0,
    half: Half = Half.AFTER,
    bare: bool = False,
) -> tuple[list[Cell], int]:
    """The complete columns of one body, and their end if it is before that of the body (else -1)."""
    start, size, forms, skips = np.array([[0], [len(body)], [form], [skip]])
    before, bares = np.array([[half is Half.BEFORE], [bare]])
    cells = walk(np.frombuffer(body, dtype=np.uint8), start, size, order == "big", forms, skips, before, bares)
    columns = np.stack([cells.index, cells.start, cells.stop, cells.indicator, cells.half], axis=1).tolist()
    found = [Cell(index, first, last, null, Half(part), bare) for index, first, last, null, part in columns]
    return found, int(cells.bad[0])


def walk_one(body: bytes, order: Order, form: int = 0, skip: int = 0, bare: bool = False) -> list[Cell] | None:
    """The columns of one body; None if it is not columns to its end."""
    cells, bad = columns_of(body, order, form, skip, bare=bare)
    return cells if bad < 0 else None


def split_text(data: bytes) -> list[Printed]:
    """All of a text, read by the code under test: records and the filler between them."""
    records = decode(parse(np.frombuffer(data, np.uint8)))
    found: list[Printed] = []
    at = 0
    for number in np.flatnonzero(records.shape != NO_RECORD).tolist():
        start = int(records.start[number])
        if start > at:
            found.append(Printed(Shape.FILLER, at, start))
        found.append(printed_of(records, number))
        at = int(records.stop[number])
    return [*found, Printed(Shape.FILLER, at, len(data))] if at < len(data) else found


def printed_of(records: TrailRecords, number: int) -> Printed:
    """One record of some as an object."""

    def text(values: Any) -> str | None:
        value = values[number].as_py()
        return None if value is None else text_of(value)

    tokens, lines = records.tokens, records.lines
    header = lines.fields[Role.HEADER_TOKEN]
    owner = lines.owners(Role.HEADER_TOKEN)
    ghdr, parts = b"", {}
    for line, code, length in zip(
        header.line.tolist(), header["number"].to_pylist(), header["length"].to_pylist(), strict=True
    ):
        if lines.record[line] != number:
            continue
        parts.setdefault(chr(code), int(length))
        if code == ord("H"):
            below = np.flatnonzero((owner == line) & (lines.role == Role.HEADER_TOKEN_HEX))
            ghdr += b"".join(lines.data[lines.data_at[one] : lines.data_at[one + 1]].tobytes() for one in below)
    times = [moments(one.slice(number, 1))[0] for one in (records.line_time, records.io_time)]
    image, images = int(records.image[number]), lines.fields[Role.IMAGE]
    partition = np.where(images.have("hex"), images.numbers("hex", True), images.numbers("decimal"))
    partition = partition[(lines.record[images.line] == number) & (partition != MISSING)]
    return Printed(
        shape=Shape(int(records.shape[number])),
        start=int(records.start[number]),
        stop=int(records.stop[number]),
        values={
            name: value for name, value in zip(HEADER, records.values[number].tolist(), strict=True) if value != MISSING
        },
        io_time=text(records.io_time),
        line_time=text(records.line_time),
        operation=text(records.operation),
        length=int(records.length[number]),
        rba=int(records.rba[number]),
        name=text(records.name),
        name_index=int(records.name_index[number]),
        image=None if image == MISSING else {"A": "After", "B": "Before"}[chr(image)],
        image_partition=int(partition[-1]) if len(partition) else MISSING,
        image_trans=int(records.image_trans[number]),
        transaction=text(records.transaction),
        transaction_number=text(records.transaction_number),
        ghdr=ghdr,
        parts=parts,
        body=records.data(number) or None,
        tokens=[
            TrailToken(
                int(tokens.number[row]),
                text_of(tokens.name[row].as_py()) or None,
                0,
                MISSING,
                tokens.value[row].as_py(),
            )
            for row in np.flatnonzero(tokens.record == number).tolist()
        ],
        user_tokens=records.user_tokens.get(number, []),
        text=records.definition.get(number),
        trail=records.trail.get(number),
        problems=[(one.code, one.sentence) for one in records.faults if one.record == number],
        line_moment=int(times[0]) if records.line_time[number].is_valid else NOT_A_TIME,
        header_moment=int(times[1]) if records.io_time[number].is_valid else NOT_A_TIME,
    )
