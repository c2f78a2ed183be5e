"""Records of Logdump text are those of the plain reader, whatever Logdump was told to print and whatever happens to the
text."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.goldengate_text import split_text
from tests.reference.logdump import printed as plain
from tests.reference.logdump.printed_record import Printed, Shape

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


def assert_agrees(text: bytes) -> list[Printed]:
    found, expected = split_text(text), plain.split_text(text)
    assert [(one.shape.name, one.start, one.stop) for one in found] == [
        (one.shape.name, one.start, one.stop) for one in expected
    ]
    for one, other in zip(found, expected, strict=True):
        one.problems, other.problems = sorted(one.problems), sorted(other.problems)
        assert one == other
    return found


@pytest.mark.samples
def test_samples_are_read_as_the_plain_reader_reads_them(samples: Path) -> None:
    texts = [path.read_bytes() for path in sorted((samples / "goldengate").glob("logdump-*"))]
    texts += [path.read_bytes() for path in sorted((samples / "reduced" / "trail").glob("logdump-*.log"))]
    for text in texts:
        assert_agrees(text)
    assert len(assert_agrees(b"".join(texts))) > 20


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


@pytest.mark.parametrize("how", EVERY)
def test_every_combination_of_switches_is_read_as_the_plain_reader_reads_it(how: Switches) -> None:
    found = assert_agrees(text_of(how, 12, 1))
    assert sum(one.shape is Shape.RECORD for one in found) >= 12


@pytest.mark.parametrize(
    "changed",
    [
        {"old_columns": True}, {"old_image": True}, {"order": "big"}, {"line_end": "\r\n"}, {"line_end": "\r"},
        {"line_end": "\n> "}, {"reclen": 40}, {"old_tokens": True}, {"pane": ":"},
        {"old_tokens": True, "pane": ":", "line_end": "\r\n", "prompt": "glued"}, {"tokens": "on", "order": "big"},
        {"columns": "on", "old_columns": True, "old_image": True},
    ],
)  # fmt: skip
def test_every_style_is_read_as_the_plain_reader_reads_it(changed: dict[str, Any]) -> None:
    how = ALL._replace(**changed)
    assert_agrees(text_of(how, 40, 3))
    assert_agrees(text_of(how, 40, 4, types=(3, 5, 15, 116, 151, 160)))
    assert_agrees(text_of(how, 20, 5).replace(b" ", b"\xc2\xa0"))


@pytest.mark.parametrize("tokens", ["detail", "on", "off", "old", "cut", "bare"])
def test_damage_to_any_line_is_read_as_the_plain_reader_reads_it(tokens: str) -> None:
    rng = Random(tokens)
    how = ALL._replace(tokens=tokens, prompt="none", header_tokens="off" if tokens == "off" else "detail")
    how = {"old": OLDER[1], "cut": CUT[0], "bare": ALL._replace(header=False)}.get(tokens, how)._replace(prompt="none")
    lines = text_of(how, 2, 31, noise=0, types=(5, 115)).rstrip(b"\n").split(b"\n")
    for at, line in enumerate(lines):
        for others in ([], [line, line], [rng.choice(NOISE).encode(), line]):
            assert_agrees(b"\n".join([*lines[:at], *others, *lines[at + 1 :]]))
        for _ in range(3):
            place = rng.randrange(len(line) + 1)
            other = line[:place] + rng.choice((b"", b"7", b"1", b"a", b"x", b" ", b"\r", b"\xff")) + line[place + 1 :]
            assert_agrees(b"\n".join([*lines[:at], other, *lines[at + 1 :]]))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_damaged_texts_are_read_as_the_plain_reader_reads_them(data: st.DataObject) -> None:
    how = data.draw(st.sampled_from(EVERY))
    lines = text_of(how, 5, data.draw(st.integers(0, 50)), noise=0.05).split(b"\n")
    for _ in range(data.draw(st.integers(1, 4))):
        damage = data.draw(st.sampled_from(DAMAGES))
        lines = damage(lines, data)
    assert_agrees(b"\n".join(lines))


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


def test_a_text_without_any_record_is_filler() -> None:
    assert assert_agrees(b"") == []
    for text in (b"\n", b"no record\n", b"Logdump 5 >n", b"Logdump 5 >n\n\nLogdump 6 >n\n"):
        assert [one.shape for one in assert_agrees(text)] == [Shape.FILLER]
