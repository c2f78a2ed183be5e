"""Logdump text read by the compiled loop is what the reference reader says, on whatever text there is."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
from cdcwb.formats.goldengate.decode import HEADER, MISSING, Printed, Records, Shape
from cdcwb.formats.goldengate.decode import printed as scan_module
from cdcwb.formats.goldengate.decode.printed import boundary, ghdr_time, scan, truncated_body, truncated_column
from cdcwb.formats.goldengate.plan.transactions import marks_of
from hypothesis import given, settings
from hypothesis import strategies as st

from cdcwb.model import Problem
from tests.local import read
from tests.reference.logdump.printed import split_text, time_us

JULIAN = 210866760000000000
TOKEN_NAMES = {0x4C: "LOGCSN", 0x36: "TRANID", 0x52: "ORAROWID", 0x74: "ORATAG"}
OPERATIONS = {
    3: "Delete",
    5: "Insert",
    15: "FieldComp",
    100: "GGSPurgedata",
    115: "GGSPKUpdate",
    116: "LargeObject",
    135: "GGSUnifiedPKUpdate",
    151: "RestartOK",
    160: "DDLOP",
}


NUMBERS = ("length", "rba", "name_index", "image_partition", "image_trans")


class Switches(NamedTuple):
    """What Logdump was told to print, and how."""

    header: bool = True
    header_tokens: str = "detail"  # off, on, detail
    columns: str = "data"  # off, on, data, cut (data up to reclen)
    tokens: str = "detail"  # off, on, detail
    old_columns: bool = False
    old_image: bool = False
    prompt: str = "line"  # none, line, glued
    order: str = "little"
    line_end: str = "\n"
    reclen: int | None = None
    old_tokens: bool = False
    pane: str = "|"
    image: str = "letter"  # letter, bare (no place in the transaction), off
    befores: bool = False  # updates with the before image


ALL = Switches()


def printed_hex(data: bytes, pane: str = "|") -> list[str]:
    """Bytes in hex as Logdump prints them."""
    lines = []
    for at in range(0, len(data), 20):
        part = data[at : at + 20]
        groups = " ".join(part[i : i + 2].hex() for i in range(0, len(part), 2))
        lines.append(f" {groups:<50}{pane} " + "".join(chr(b) if 32 <= b < 127 else "." for b in part))
    return lines


def token_line(number: int, name: str, length: int, info: int = 0, old: str = "") -> str:
    if old:
        code = f" (x{number:02x})" if old == "record" else ""
        return f"TokenID {chr(number)}{code}, Info 0, Length {length:{3 if code else 4}}"
    return f"TokenID x{number:02x} '{chr(number)}' {name:<17}Info x{info:02x}  Length {length:4}"


def printed_time(moment: int) -> str:
    stamp = np.datetime64(moment, "us").astype(object)
    return f"{stamp:%Y/%m/%d %H:%M:%S}.{stamp.microsecond // 1000:03}.{stamp.microsecond % 1000:03}"


def shown(value: int) -> str:
    return chr(value) if 0x20 < value < 0x7F else "."


def record(rng: Random, how: Switches, rba: int, io_type: int | None = None) -> tuple[list[str], int]:
    """One record's lines, and its length in the trail."""
    io_type = rng.choice((3, 5, 5, 15, 15, 100, 115, 135)) if io_type is None else io_type
    order: Any = how.order
    columns = [] if io_type in (100, 151) else sorted(rng.sample(range(300), rng.randint(1, 5)))
    cells = [(index, b"\0\0" + rng.randbytes(rng.choice((1, 4, 8, 17, 18, 19, 38, 60)))) for index in columns]
    walked = [i.to_bytes(2, order) + len(data).to_bytes(2, order) + data for i, data in cells]
    body = b"".join(walked)
    key = len(walked[0]) if io_type == 115 else 0
    if key:
        body = key.to_bytes(2, order) + body
    indexed = rng.random() < 0.7
    moment = rng.randrange(1_300_000_000, 1_700_000_000) * 10**6 + rng.choice((0, rng.randrange(10**6)))
    is_before = io_type == 3 or (how.befores and io_type == 15 and rba % 2 == 1)
    values = {
        "Hdr-Ind": 0x45, "Partition": 0x0C if indexed else 4, "UndoFlag": 0,
        "BeforeAfter": 0x42 if is_before else 0x41, "RecLength": len(body), "IOType": io_type,
        "OrigNode": rng.choice((0, 255)), "TransInd": rng.randrange(4), "FormatType": 0x52, "SyskeyLen": 0,
        "Incomplete": 0, "AuditRBA": rng.randrange(1 << 32), "AuditPos": rng.randrange(1 << rng.randrange(1, 32)),
        "Continued": int(rng.random() < 0.1), "RecCount": rng.randrange(2),
    }  # fmt: skip
    tokens = []
    if io_type != 151:
        tokens = [(0x4C, rng.choice((b"1332816", b"0000000000000007:000000000012041"))), (0x36, b"10.2.%d" % rba)]
        tokens = tokens[: rng.randrange(3)]
        if rng.random() < 0.5:
            tokens.insert(0, (0x52, b"AAAShSAAEAAAAD9AAC\0\1"))
    if io_type == 160:
        tokens.append((0x74, b""))
    area = b"".join(bytes([number, 0]) + len(value).to_bytes(2, order) + value for number, value in tokens)
    lines = []
    hexed = partial(printed_hex, pane=how.pane)
    token_of = partial(token_line, old="record" if how.old_tokens else "")
    part_of = partial(token_line, old="header" if how.old_tokens else "")
    ghdr = (
        bytes([0x45, values["Partition"], 0, values["BeforeAfter"]]) + len(body).to_bytes(2, order)
        + bytes([io_type, values["OrigNode"]]) + (moment - 9 * 3600 * 10**6 + JULIAN).to_bytes(8, order)
        + values["AuditPos"].to_bytes(4, order) + bytes(4) + values["AuditRBA"].to_bytes(4, order)
        + bytes([values["TransInd"], 0x52, 0, 0, values["Continued"], values["RecCount"]]) + bytes(2)
    )  # fmt: skip
    parts = {"H": len(ghdr), "D": len(body), "T": len(area)}
    total = sum(4 + size for size in parts.values() if size) + 8
    if how.header_tokens != "off":
        lines.append(part_of(0x47, "Record Header", total, 1))
        lines.append(part_of(0x48, "GHDR", len(ghdr)))
        lines += hexed(ghdr) if how.header_tokens == "detail" else []
        for letter, name in (("D", "Data"), ("T", "GGS Tokens")):
            lines += [part_of(ord(letter), name, parts[letter])] if parts[letter] else []
        lines.append(part_of(0x5A, "Record Trailer", total, 1))
    time = printed_time(moment)
    if how.header:
        lines.append("_" * 67)
        lines += header_lines(values, time)
        lines.append("")
    name = OPERATIONS[io_type]
    lines.append(f"{time} {name:<20} Len {len(body):5} RBA {rba}")
    table = "" if io_type in (151, 160) else rng.choice(("SALES.ORDERS", "sales.order_lines", "PDB1.HR.EMPLOYEES"))
    lines.append(f"Name: {table}" + (f"  (TDR Index: {rng.choice((1, 2, 17, 123))})" if indexed and table else ""))
    image = "Before" if values["BeforeAfter"] == 0x42 else "After "
    partition = f"{values['Partition']}" if how.old_image else f"x{values['Partition']:02x}"
    if how.image != "off":
        letter = f"   G  {'bmes'[values['TransInd']]}" if how.image == "letter" else ""
        lines.append(f"{image} Image:" + " " * 45 + f"Partition {partition}{letter}")
    lines += hexed(body if how.reclen is None else body[: how.reclen])
    if how.columns != "off":
        lines += column_lines(cells, how, bool(key), 2 if key else 0)
    if how.tokens != "off" and tokens:
        lines += ["", "GGS tokens:"]
        if how.tokens == "on":
            lines += hexed(area)
        else:
            for number, value in tokens:
                lines += [token_of(number, TOKEN_NAMES[number], len(value)), *hexed(value)]
    if rng.random() < 0.5:
        lines.append("")
    return lines, total


def header_lines(values: dict[str, int], time: str) -> list[str]:
    def pair(first: str, second: str) -> str:
        return f"{first}     {second}"

    def character(name: str, label: str) -> str:
        printed = "NY"[values[name]] if name == "Continued" else shown(values[name])
        return f"{label:<11}:     {printed}  (x{values[name]:02x})"

    def number(name: str, label: str, digits: int = 2) -> str:
        return f"{label:<11}:{values[name]:6}  (x{values[name]:0{digits}x})"

    return [
        pair(character("Hdr-Ind", "Hdr-Ind"), character("Partition", "Partition")),
        pair(character("UndoFlag", "UndoFlag"), character("BeforeAfter", "BeforeAfter")),
        f"{number('RecLength', 'RecLength', 4)}   IO Time    : {time}",
        pair(number("IOType", "IOType"), number("OrigNode", "OrigNode")),
        pair(character("TransInd", "TransInd"), character("FormatType", "FormatType")),
        pair(number("SyskeyLen", "SyskeyLen"), character("Incomplete", "Incomplete")),
        f"AuditRBA   :{values['AuditRBA']:11}       AuditPos   : {values['AuditPos']}",
        pair(character("Continued", "Continued"), number("RecCount", "RecCount")),
    ]


def column_lines(cells: list[tuple[int, bytes]], how: Switches, is_key: bool, prefix: int) -> list[str]:
    lines = []
    left = how.reclen - prefix if how.columns == "cut" and how.reclen is not None else 1 << 30

    def hexed(data: bytes) -> list[str]:
        nonlocal left
        left -= 4 + len(data)
        return printed_hex(data[: max(left + len(data), 0)], how.pane) if how.columns in ("data", "cut") else []

    if is_key:
        index, data = cells[0]
        size = len(data) + 4
        lines += [
            f"Before Image          Len {size + prefix:5} (x{size + prefix:08x})",
            f"KeyLen {size:5} (x{size:08x})",
            f"KeyCol {index:5} (x{index:04x}), Len {len(data):5} (x{len(data):04x})",
        ]
        lines += hexed(data)
        rest = sum(len(data) + 4 for _, data in cells[1:])
        lines += ["", f"After Image           Len {rest:5} (x{rest:08x})"]
        cells = cells[1:]
    for index, data in cells:
        if how.old_columns:
            lines.append(f"Column {index:5} (x{index:04x}), Len {len(data):5} (x{len(data):04x})")
        else:
            lines.append(f"Column {index} (0x{index:04x}), Length {len(data)} (0x{len(data):04x}).")
        lines += hexed(data)
    return lines


NOISE = (
    "Current LogTrail is /ogg/dirdat/lt000000007",
    "Reading forward from RBA 519123",
    "a note between two records",
    "Logdump 5 >open ./dirdat/lt000000008",
    "Logdump 6 >open lt000000009",
    "Logdump 7 > open lt000000010",
    "Logdump 8 >stop",
    "Hdr-Ind : always E, written by Extract",
    "Hdr-Ind    : always E (x45)",
    "TransInd: place in the transaction",
    "Hdr-Ind of every record is E",
    "",
    "Error: Invalid file position (O)",
    "    ",
    "abcd",
    "_" * 67,
    "________ a line",
    "2022/12/26 10:00:00 a note",
    "TokenID x47 'G' GROUPNAME        Info x00  Length    3",
    "      Hdr-Ind    :     E  (x45)     Partition  :     .  (x0c)",
    "          Hdr-Ind    :     E  (x45)     Partition  :     .  (x0c)",
    "TokenID H, Info 0, Length   45",
    "TokenID G, Info 0, Length  117",
)


def text_of(how: Switches, count: int, seed: int, noise: float = 0.1, types: tuple[int, ...] | None = None) -> bytes:
    rng = Random(seed)
    lines: list[str] = []
    rba = 1063
    for number in range(count):
        made, length = record(rng, how, rba, rng.choice(types) if types else None)
        rba += length
        if how.prompt == "line":
            lines.append(f"Logdump {number + 5} >n")
        if how.prompt == "glued":
            made[0] = f"Logdump {number + 5} >{made[0]}"
        if rng.random() < noise:
            lines.append(rng.choice(NOISE))
        lines += made
        if rng.random() < noise:
            lines.append(rng.choice(NOISE))
    end = how.line_end
    return (end.join(lines) + end * rng.randrange(2)).encode()


# --- comparing --------------------------------------------------------------------------------------------------------


def array(text: bytes) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.frombuffer(text, np.uint8)


def sliced(records: Records, at: np.ndarray[Any, Any], row: int, of: str) -> bytes | None:
    first, last = at[row].tolist()
    return None if first < 0 else getattr(records, of)[first:last].tobytes()


def told(records: Records, row: int) -> dict[str, Any]:
    """What the arrays say of a record."""

    def text(at: np.ndarray[Any, Any]) -> str | None:
        found = sliced(records, at, row, "text")
        return None if found is None else found.decode("utf-8", "replace")

    values = records.values[row]
    return {
        "shape": Shape(int(records.shape[row])),
        "start": int(records.start[row]),
        "stop": int(records.stop[row]),
        "values": {name: int(value) for name, value in zip(HEADER, values, strict=True) if value != MISSING},
        **{name: int(getattr(records, name)[row]) for name in NUMBERS},
        "image": int(records.image[row]),
        "total": int(records.total[row]),
        "moment": int(records.moment[row]),
        "julian": int(records.julian[row]),
        "operation": text(records.operation_at),
        "name": text(records.name_at),
        "time": text(records.time_at),
        "body": sliced(records, records.body_at, row, "bytes"),
        **{
            name: sliced(records, getattr(records, f"{name}_at"), row, "bytes") for name in ("csn", "xid", "rowid")
        },
    }  # fmt: skip


def wanted(printed: Printed, bodies: bool) -> dict[str, Any]:
    """What the arrays should say of a record."""
    token: dict[int, bytes] = {}
    for found in printed.tokens:
        token.setdefault(found.id, found.value)
    moments = [time_us(text) for text in (printed.line_time, printed.io_time) if text is not None]
    julian = ghdr_time(printed.ghdr)
    return {
        "shape": printed.shape,
        "start": printed.start,
        "stop": printed.stop,
        "values": printed.values,
        **{name: getattr(printed, name) for name in NUMBERS},
        "image": MISSING if printed.image is None else ord(printed.image[0]),
        "total": printed.parts.get("G", MISSING),
        "moment": next((moment for moment in moments if moment is not None), MISSING),
        "julian": MISSING if julian is None else julian,
        "operation": printed.operation,
        "name": printed.name,
        "time": printed.line_time if printed.line_time is not None else printed.io_time,
        "body": printed.body if bodies else None,
        "csn": token.get(0x4C),
        "xid": token.get(0x36, None if printed.transaction is None else printed.transaction.encode()),
        "rowid": token.get(0x52),
    }


def wholly_told(printed: Printed) -> bool:
    """Does a record that is not among the extras need no more than the arrays say?"""
    ids = [token.id for token in printed.tokens]
    return (
        printed.shape in (Shape.RECORD, Shape.FILLER)
        and not printed.user_tokens
        and printed.text is None
        and printed.transaction is None
        and set(ids) <= {0x4C, 0x36, 0x52}
        and len(ids) == len(set(ids))
        and (printed.body is not None or all(column.data is None for column in printed.columns))
        and all(column.fragment is None for column in printed.columns)
    )


def assert_agrees(text: bytes, base: int = 0, bodies: bool = True) -> Records:
    plain = split_text(text, base)
    records = scan(array(text), base, bodies)
    assert [(int(a), int(b)) for a, b in zip(records.start, records.stop, strict=True)] == [
        (printed.start, printed.stop) for printed in plain
    ]
    trail = dict(records.trail)
    in_force: str | None = None
    for row, printed in enumerate(plain):
        in_force = trail.get(row, in_force)
        assert in_force == printed.trail
        assert told(records, row) == wanted(printed, bodies)
        if row in records.extras:
            assert records.extras[row] == printed
        elif bodies:
            assert wholly_told(printed)
            assert told_problems(records, row) == printed.problems
    return records


def told_problems(records: Records, row: int) -> list[tuple[Problem, str]]:
    """What the arrays say of what is not shown of a record."""
    if not records.cut[row]:
        return []
    first, last = records.body_at[row].tolist()
    column = records.cut_column[row].tolist()
    cut = [truncated_body(last - first, int(records.length[row]))]
    return cut if column[0] == MISSING else [*cut, truncated_column(*column)]


@pytest.mark.samples
@pytest.mark.parametrize("bodies", [True, False])
def test_samples_are_read_as_the_plain_reader_reads_them(samples: Path, bodies: bool) -> None:
    folder = samples / "goldengate"
    for path in sorted(folder.iterdir()):
        assert_agrees(path.read_bytes(), 7, bodies)
    whole = b"".join(path.read_bytes() for path in sorted(folder.glob("logdump-*")))
    assert len(assert_agrees(whole, 0, bodies)) > 20


COMBINATIONS = [
    Switches(header, header_tokens, columns, tokens, prompt=prompt)
    for header, header_tokens, columns, tokens, prompt in product(
        (True, False),
        ("off", "on", "detail"),
        ("off", "on", "data"),
        ("off", "on", "detail"),
        ("none", "line", "glued"),
    )
]


OLDER = [
    ALL._replace(old_tokens=True, old_columns=True, old_image=True),
    ALL._replace(old_tokens=True, pane=":", prompt="glued"),
    ALL._replace(pane=":", prompt="none", header_tokens="off", tokens="on"),
]
CUT = [
    ALL._replace(reclen=reclen, columns=columns, header_tokens=header_tokens)
    for reclen, columns, header_tokens in (
        (40, "cut", "detail"), (33, "cut", "off"), (20, "on", "detail"), (57, "off", "off"), (0, "on", "detail"),
    )
]  # fmt: skip
IMAGES = [
    ALL._replace(header=header, header_tokens="off", old_image=old_image, image=image, befores=True)
    for header, old_image, image in product((True, False), (True, False), ("letter", "bare", "off"))
]
EVERY = [ALL, *COMBINATIONS, *OLDER, *CUT, *IMAGES]


@pytest.mark.parametrize("how", COMBINATIONS)
def test_every_combination_of_switches_is_read_as_the_plain_reader_reads_it(how: Switches) -> None:
    assert_agrees(text_of(how, 12, 1), 100)
    assert_agrees(text_of(how, 6, 2), 0, bodies=False)


@pytest.mark.parametrize(
    "changed",
    [
        {"old_columns": True}, {"old_image": True}, {"order": "big"}, {"line_end": "\r\n"}, {"reclen": 40},
        {"old_tokens": True}, {"pane": ":"}, {"old_tokens": True, "pane": ":", "line_end": "\r\n", "prompt": "glued"},
        {"tokens": "on", "order": "big"}, {"columns": "on", "old_columns": True, "old_image": True},
    ],
)  # fmt: skip
def test_every_style_is_read_as_the_plain_reader_reads_it(changed: dict[str, Any]) -> None:
    how = replace_switches(changed)
    assert_agrees(text_of(how, 40, 3))
    assert_agrees(text_of(how, 40, 4, types=(3, 5, 15, 116, 151, 160)))


@pytest.mark.parametrize("how", [*CUT, *(one._replace(old_columns=True, pane=":") for one in CUT)])
def test_bodies_that_are_cut_are_read_as_the_plain_reader_reads_them(how: Switches) -> None:
    assert_agrees(text_of(how, 60, 3))
    assert_agrees(text_of(how, 20, 4), bodies=False)
    records = assert_agrees(text_of(how, 60, 5, noise=0))
    assert not records.extras
    assert int(np.count_nonzero(records.cut)) > 20
    assert bool((records.cut_column[records.cut, 0] != MISSING).any()) == (how.columns == "cut")


@pytest.mark.parametrize("how", IMAGES)
def test_every_form_of_image_line_is_read_as_the_plain_reader_reads_it(how: Switches) -> None:
    records = assert_agrees(text_of(how, 60, 3))
    assert_agrees(text_of(how, 20, 4), bodies=False)
    is_update = np.isin(marks_of(records).io, (15,))
    assert set(records.side[is_update].tolist()) == ({0x41, 0x42} if how.header or how.image != "off" else {MISSING})
    assert bool((records.image_trans[is_update] != MISSING).any()) == (how.image == "letter")


def test_a_column_that_shows_more_than_the_cut_body_is_left_to_the_plain_reader() -> None:
    records = assert_agrees(text_of(ALL._replace(reclen=20), 40, 3, noise=0, types=(5,)))
    assert any(printed.problems for printed in records.extras.values())


@pytest.mark.parametrize("header_tokens", ["detail", "on", "off"])
def test_a_record_without_its_header_block_is_read_column_wise(header_tokens: str) -> None:
    how = ALL._replace(header=False, header_tokens=header_tokens)
    for one in (
        how, how._replace(order="big"), how._replace(line_end="\r\n"), how._replace(old_tokens=True, pane=":"),
        how._replace(reclen=0),
    ):  # fmt: skip
        assert_agrees(text_of(one, 40, 6))
        records = assert_agrees(text_of(one._replace(columns="on"), 40, 7, noise=0))
        assert not records.extras
        assert bool((records.column("IOType") == MISSING).all()) == (header_tokens != "detail")


@pytest.mark.parametrize(
    ("printed", "instead"),
    [
        (b" Insert    ", b" Delete    "),
        (b" Insert    ", b" Other     "),
        (b"Len ", b"Len 1"),
        (b" 450c 0041", b" 440c 0041"),
    ],
)
def test_a_header_token_contradicting_its_record_line_is_left_to_the_plain_reader(
    printed: bytes, instead: bytes
) -> None:
    text = text_of(ALL._replace(header=False), 3, 2, noise=0, types=(5,)).replace(b" 4504 0041", b" 450c 0041")
    assert not scan(array(text)).extras
    damaged = text.replace(printed, instead, 1)
    assert damaged != text
    assert assert_agrees(damaged).extras


@pytest.mark.parametrize("how", CUT[:3])
def test_an_event_says_what_of_its_body_is_not_shown(how: Switches, tmp_path: Path) -> None:
    text = text_of(how._replace(prompt="none"), 30, 5, noise=0, types=(5,))
    (tmp_path / "dump.txt").write_bytes(text)
    said = [
        {(one["code"], one["detail"]) for one in problems or () if one["code"] == Problem.TRUNCATED}
        for problems in read(tmp_path, format="goldengate").column("problems").to_pylist()
    ]
    assert said == [set(printed.problems) for printed in split_text(text)]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("old_image", [True, False])
def test_the_image_line_tells_the_place_in_the_transaction_without_a_header_block(
    old_image: bool, line_end: str
) -> None:
    how = ALL._replace(header=False, header_tokens="off", old_image=old_image, line_end=line_end)
    text = text_of(how, 40, 5, types=(3, 15))
    records = scan(array(text))
    marks = marks_of(records)
    images = [
        re.search(rb"(After |Before) Image:.* G  (.)", text[printed.start : printed.stop])
        for printed in split_text(text)
    ]
    assert marks.trans.tolist() == [MISSING if found is None else b"bmes".index(found[2]) for found in images]
    half = records.shape == Shape.RECORD
    half[half] = [b"FieldComp" in text[a:b] for a, b in zip(records.start[half], records.stop[half], strict=True)]
    assert marks.before.tolist() == [
        bool(is_half and found is not None and found[1] == b"Before")
        for is_half, found in zip(half, images, strict=True)
    ]


def replace_switches(changed: dict[str, Any]) -> Switches:
    return ALL._replace(**changed)


@pytest.mark.parametrize("bodies", [True, False])
@pytest.mark.parametrize("tokens", ["detail", "on", "off", "old", "cut", "bare", "bare with token"])
def test_damage_to_any_line_is_read_as_the_plain_reader_reads_it(tokens: str, bodies: bool) -> None:
    rng = Random(tokens)
    how = ALL._replace(tokens=tokens, prompt="none", header_tokens="off" if tokens == "off" else "detail")
    if tokens == "old":
        how = OLDER[1]._replace(prompt="none")
    if tokens == "cut":
        how = CUT[0]._replace(prompt="none")
    if tokens.startswith("bare"):
        how = ALL._replace(header=False, prompt="none", header_tokens="detail" if "token" in tokens else "off")
    lines = text_of(how, 2, 31, noise=0, types=(5, 115)).rstrip(b"\n").split(b"\n")
    for at, line in enumerate(lines):
        for others in ([], [line, line], *([noise.encode(), line] for noise in NOISE)):
            assert_agrees(b"\n".join([*lines[:at], *others, *lines[at + 1 :]]), 0, bodies)
        for _ in range(8):
            place = rng.randrange(len(line) + 1)
            other = line[:place] + rng.choice((b"", b"7", b"1", b"a", b"x", b" ", b"\r", b"\xff")) + line[place + 1 :]
            assert_agrees(b"\n".join([*lines[:at], other, *lines[at + 1 :]]), 0, bodies)


@pytest.mark.parametrize(
    ("printed", "instead"),
    [
        (b"RecLength  :    ", b"RecLength  :   9"),
        (b" Len ", b" Len 1"),
        (b"IO Time    : 20", b"IO Time    : 19"),
        (b"IOType     :     5", b"IOType     :     6"),
        (b" Insert    ", b" Delete    "),
        (b" 450c 0041", b" 450c 0042"),
        (b"), Length 3 (0x0003)", b"), Length 3 (0x0004)"),
        (b"Info x00  Length   36", b"Info x00  Length   35"),
        (b"'Z' Record Trailer   Info x01  Length  ", b"'Z' Record Trailer   Info x01  Length 9"),
    ],
)
def test_a_contradiction_is_left_to_the_plain_reader(printed: bytes, instead: bytes) -> None:
    text = text_of(ALL, 3, 2, noise=0, types=(5,)).replace(b"Partition  :     .  (x04)", b"Partition  :     .  (x0c)")
    text = text.replace(b" 4504 0041", b" 450c 0041").replace(b"Partition x04 ", b"Partition x0c ")
    assert not scan(array(text)).extras
    damaged = text.replace(printed, instead, 1)
    assert damaged != text
    assert assert_agrees(damaged).extras


def test_a_time_that_no_zone_explains_is_left_to_the_plain_reader() -> None:
    text = text_of(ALL, 1, 2, noise=0, types=(5,))
    for time in {found[0] for found in re.finditer(rb"\d{4}/\d\d/\d\d \d\d:\d\d", text)}:
        other = time[:-1] + (b"0" if time[-1:] != b"0" else b"1")
        assert assert_agrees(text.replace(time, other)).extras


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_texts_are_read_as_the_plain_reader_reads_them(data: st.DataObject) -> None:
    how = data.draw(st.sampled_from(EVERY))
    lines = text_of(how, 5, data.draw(st.integers(0, 50)), noise=0.05).split(b"\n")
    for _ in range(data.draw(st.integers(1, 4))):
        damage = data.draw(st.sampled_from(DAMAGES))
        lines = damage(lines, data)
    assert_agrees(b"\n".join(lines), bodies=data.draw(st.booleans()))


def lost(lines: list[bytes], data: st.DataObject) -> list[bytes]:
    at = data.draw(st.integers(0, len(lines) - 1))
    return lines[:at] + lines[at + data.draw(st.integers(1, 12)) :]


def doubled(lines: list[bytes], data: st.DataObject) -> list[bytes]:
    at = data.draw(st.integers(0, len(lines)))
    end = at + data.draw(st.integers(1, 12))
    return lines[:end] + lines[at:]


def cut(lines: list[bytes], data: st.DataObject) -> list[bytes]:
    if not lines:
        return lines
    at = data.draw(st.integers(0, len(lines) - 1))
    return [*lines[:at], lines[at][: data.draw(st.integers(0, 80))], *lines[at + 1 :]]


def noisy(lines: list[bytes], data: st.DataObject) -> list[bytes]:
    at = data.draw(st.integers(0, len(lines)))
    line = data.draw(
        st.sampled_from([*map(str.encode, NOISE), b"\xff\xfe", b"Name: X", b"Column 1 (0x0001), Length 2"])
    )
    return [*lines[:at], line, *lines[at:]]


def changed(lines: list[bytes], data: st.DataObject) -> list[bytes]:
    if not any(lines):
        return lines
    at = data.draw(st.sampled_from([at for at, line in enumerate(lines) if line]))
    place = data.draw(st.integers(0, len(lines[at]) - 1))
    other = data.draw(st.sampled_from(b" 0159afxF.:_|\r\t\xffAN"))
    return [*lines[:at], lines[at][:place] + bytes([other]) + lines[at][place + 1 :], *lines[at + 1 :]]


def collapsed(lines: list[bytes], data: st.DataObject) -> list[bytes]:
    at = data.draw(st.integers(0, len(lines)))
    end = at + data.draw(st.integers(1, 30))
    return [b" ".join(line.split()) if at <= number < end else line for number, line in enumerate(lines)]


DAMAGES: list[Callable[[list[bytes], st.DataObject], list[bytes]]] = [lost, doubled, cut, noisy, changed, collapsed]


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 1000), st.sampled_from(EVERY))
def test_records_and_filler_tile_the_text(seed: int, how: Switches) -> None:
    text = text_of(how, 8, seed, noise=0.3)
    records = scan(array(text), 1000)
    assert records.start.tolist() == [1000, *records.stop.tolist()[:-1]]
    assert records.stop[-1] == 1000 + len(text)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_stretches_cut_at_boundaries_hold_what_the_text_holds(data: st.DataObject) -> None:
    how = data.draw(st.sampled_from(EVERY))
    lines = text_of(how, 8, data.draw(st.integers(0, 100)), noise=0.3).split(b"\n")
    for _ in range(data.draw(st.integers(0, 2))):
        lines = data.draw(st.sampled_from(DAMAGES))(lines, data)
    text = b"\n".join(lines)
    cuts = sorted({boundary(array(text), at) for at in data.draw(st.lists(st.integers(0, len(text)), max_size=5))})
    parts = []
    for start, stop in zip([0, *cuts], [*cuts, len(text)], strict=True):
        parts += split_text(text[start:stop], start)
    assert [replace(part, trail=None) for part in parts] == [replace(part, trail=None) for part in split_text(text)]


def test_a_boundary_is_found_behind_any_place_of_a_long_text() -> None:
    text = text_of(ALL, 60, 8, noise=0)
    starts = [printed.start for printed in split_text(text) if printed.shape is Shape.RECORD]
    for at in range(1, len(text), 997):
        assert boundary(array(text), at) == next((start for start in starts if start >= at), len(text))


def test_no_boundary_is_at_a_rule_that_is_filler() -> None:
    rule = b"_" * 67 + b"\n"
    record = text_of(ALL._replace(header_tokens="off", prompt="none"), 1, 8, noise=0)
    assert boundary(array(b"a note\n" + record), 3) == len(b"a note\n")
    assert boundary(array(b"a note\n" + rule + record), 3) == len(b"a note\n" + rule)
    assert boundary(array(b"a note\n" + rule + b"\n" + rule), 3) == len(b"a note\n" + rule + b"\n" + rule)


@pytest.mark.parametrize("bodies", [True, False])
def test_a_text_with_more_records_than_there_is_room_for_is_read_on(
    monkeypatch: pytest.MonkeyPatch, bodies: bool
) -> None:
    monkeypatch.setattr(scan_module, "_ROOM", 1 << 40)
    assert_agrees(text_of(ALL, 60, 9), 5, bodies)
    assert_agrees(text_of(ALL._replace(header_tokens="off", tokens="on"), 100, 10, noise=0.3), 5, bodies)


def test_an_empty_text_holds_nothing() -> None:
    assert len(scan(array(b""))) == 0


def test_a_text_without_any_record_is_filler() -> None:
    for text in (b"\n", b"no record\n", b"Logdump 5 >n", b"Logdump 5 >n\n\nLogdump 6 >n\n"):
        assert_agrees(text)
