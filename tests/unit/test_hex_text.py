"""Texts of hex digits, with notes or as dumps: which digits are data, what they spell, and where they stand."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from cdcwb.formats.containers.hex_text import TextSource, read_text
from cdcwb.formats.files import open_source
from tests.limits import run

# A capture as somebody wrote it down: words stand under each other with a note behind most of them, the prose has
# numbers of its own, and some line ends were lost, so that words stick to prose. The stream is invented.
NOTES = """\
示例数据库 cdc 记录解析
准备步骤
1 创建系统库
cd $DBHOME/etc
dbload - setup.sql
2 打开会话,函数返回会话标识
10 停止捕获
11 关闭会话
以下为捕获的数据
第一行
00000024 4字节 标题的字节数
0000001E 4字节
00000042 4字节 方案号,固定为66
000000C8 4字节 记录号 代表操作
c8对应的操作为表结构 描述信息
0000002A 4字节 表的标识
00000000 4字节 必须为0
00000004 4字节 固定长度列大小 测试表 create table city(k serial,city varchar(12))
00000001 4字节 固定长度列数量
00000001 4 字节 可变长度列数量6B207365 不定字节 表的描述信息
7269616C
2C206369
74792076
61726368
61722832
342C3029
00000000
第二行 2025-06-01 08:30:00
00000018 4字节 标题的字节数
00000000 4字节 有效内容长度
00000042 4字节 方案号
000000C9 4字节 记录号 c9 对应为超时
00000000 8字节 没有新数据 为0
00000000
后方的数据为脏数据
00000004
00000001
000000016B207365
7269616C
此时执行 insert into city values(10,'Odense');
第三行
00000028 4字节 标题的字节数
0000000C 4字节 有效内容长度
00000042 4字节 方案号
00000028 4字节 记录号 28 对应插入
0000000C04A2B018 8字节 序号
0000001D 4字节 事务标识
0000002A 4字节 表的标识
00000000 4字节 保留08000000 4字节 暂时未知
0000000A 4字节 int 列的值 本次测试为 10
0006 2 字节 ,可变列的长度
4F64656E7365 不定长度 ,可变列的值 insert into city values(10,'Odense');74792076 后方的数据为脏数据
61726368
第四行
00000024 4字节 标题的字节数
00000000 4字节 有效内容长度
00000042 4字节 方案号,固定为66
00000002 4字节 记录号 02 对应提交事务0000000C04A2B070 8字节 序号
0000001D 4字节 事务标识
00000000683C0F08 8字节 提交时间 格式为时间戳 2025-06-01 08:27:52
000003E9 用户标识 3E9 --> 1001 对应该用户的标识6C2C2063 后方的数据为脏数据
0006
4F646E73
完成于 2025-06-01 共 4 行
"""
WORDS = """
00000024 0000001E 00000042 000000C8 0000002A 00000000 00000004 00000001 00000001
6B207365 7269616C 2C206369 74792076 61726368 61722832 342C3029 00000000
00000018 00000000 00000042 000000C9 00000000 00000000 00000004 00000001 000000016B207365 7269616C
00000028 0000000C 00000042 00000028 0000000C04A2B018 0000001D 0000002A 00000000 08000000 0000000A 0006 4F64656E7365
74792076 61726368
00000024 00000000 00000042 00000002 0000000C04A2B070 0000001D 00000000683C0F08 000003E9 6C2C2063 0006 4F646E73
"""


def characters(data: bytes) -> str:
    return "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in data)


def rows_of(data: bytes, width: int) -> list[tuple[int, bytes]]:
    return [(at, data[at : at + width]) for at in range(0, len(data), width)]


def starred(rows: list[tuple[int, bytes]], only_zeros: bool) -> list[tuple[int, bytes] | None]:
    """With rows that repeat the one before as a single None: zeros only (xxd -a, which shows the last row) or any."""
    kept: list[tuple[int, bytes] | None] = []
    for i, (at, row) in enumerate(rows):
        repeats = i > 0 and rows[i - 1][1] == row and not (only_zeros and (any(row) or i == len(rows) - 1))
        if not repeats:
            kept.append((at, row))
        elif kept[-1] is not None:
            kept.append(None)
    return kept


def xxd(
    data: bytes, columns: int = 16, group: int = 2, upper: bool = False, autoskip: bool = False, start: int = 0
) -> str:
    out = []
    for row in starred(rows_of(data, columns), True) if autoskip else rows_of(data, columns):
        if row is None:
            out.append("*\n")
            continue
        at, part = row
        groups = [part[i : i + group].hex() for i in range(0, len(part), group)]
        width = 2 * columns + (columns - 1) // group
        digits = " ".join(groups).ljust(width)
        out.append(f"{at + start:08x}: {digits.upper() if upper else digits}  {characters(part)}\n")
    return "".join(out)


def hexdump(data: bytes) -> str:
    out = []
    for row in starred(rows_of(data, 16), False):
        if row is None:
            out.append("*\n")
            continue
        at, part = row
        digits = " ".join(part[:8].hex(" ").split()).ljust(23) + "  " + part[8:].hex(" ")
        out.append(f"{at:08x}  {digits.ljust(48)}  |{characters(part)}|\n")
    return "".join(out) + (f"{len(data):08x}\n" if data else "")


def source_of(text: str | bytes, shape: str | None = None) -> TextSource:
    data = text.encode() if isinstance(text, str) else text
    source = read_text(np.frombuffer(data, np.uint8), shape)
    assert source is not None, text
    return source


def content(source: TextSource) -> bytes:
    return source.read(0, source.length).tobytes()


def spelled(text: str) -> str:
    return content(source_of(text)).hex()


def assert_places_hold_the_digits(source: TextSource, data: bytes) -> None:
    offset, end = source.places(np.arange(source.length), np.arange(1, source.length + 1))
    for byte, low, high in zip(content(source), offset.tolist(), end.tolist(), strict=True):
        assert data[low:high] == b"*" or int(bytes([data[low], data[high - 1]]), 16) == byte


# --- notes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("encoding", "newline"),
    [("utf-8", "\n"), ("utf-8-sig", "\r\n"), ("gb18030", "\n")],
)
def test_a_text_with_prose_gives_its_data_alone(encoding: str, newline: str) -> None:
    data = NOTES.replace("\n", newline).encode(encoding)
    source = source_of(data)
    assert (source.shape, content(source)) == ("hex", bytes.fromhex(WORDS))
    assert_places_hold_the_digits(source, data)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_text_in_utf_16_has_the_offsets_of_the_same_text_in_utf_8(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_bytes(("\ufeff" + NOTES).encode(encoding))
    source = open_source(tmp_path / "notes.txt")
    assert (source.shape, source.compression, source.read(0, source.length).tobytes()) == (
        "hex", "utf-16", bytes.fromhex(WORDS),
    )  # fmt: skip
    assert source.places(np.array([0]), np.array([4]))[0].tolist() == [NOTES.encode().index(b"00000024")]


def test_the_records_of_a_text_with_prose_are_those_that_it_speaks_of(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text(NOTES, encoding="utf-8")
    code, text = run(["summary", str(tmp_path / "notes.txt"), "--json"])
    assert code == 0
    said = json.loads(text)
    names = ["CDC_REC_COMMTX", "CDC_REC_INSERT", "CDC_REC_TABSCHEM", "CDC_REC_TIMEOUT"]
    assert said["events_by_record_type"] == dict.fromkeys(names, 1)
    assert said["last_position"] == "0000000C04A2B070"
    code, text = run(
        ["inspect", str(tmp_path / "notes.txt"), "--json", "--offset", str(NOTES.encode().rindex(b"00000028 4"))]
    )
    assert json.loads(text)["event"]["after"] == {"k": "10", "city": "Odense"}


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("0000001D 0000002A", "0000001d0000002a"),
        ("00 00 00 1d 00 2a", "0000001d002a"),
        ("0000001D0000002A\r\n0F\r\n", "0000001d0000002a0f"),  # the last line of a text may be short
        ("0000\t001D\u00a00000\u3000002A", "0000001d0000002a"),
        ("0000001D four bytes\n0000002A", "0000001d0000002a"),
        ("0000000F 4 bytes\n0009 2 bytes\n61626364", "0000000f000961626364"),
        ("| 0000001D | 4 | length |\n| 0000002A | 4 | label |", "0000001d0000002a"),
        ("[5 INSERT  ] 0000001D 0009 0000002A", "0000001d00090000002a"),
        ("0000001D 长度0000002A 标识\n00000001", "0000001d0000002a00000001"),
        ("0x0000001D length\n0x0000002A label", "0000001d0000002a"),
        ("# 00000001\n0000001D", "0000001d"),
        ("0000001D 0000002\n000000030", "0000001d"),  # an odd number of digits
    ],
)
def test_rows_of_groups_are_data(text: str, data: str) -> None:
    assert spelled(text) == data


@pytest.mark.parametrize(
    "note",
    [
        "10 start the session",
        "cd /opt/db/etc",
        "c8 stands for the schema",
        "7D5 --> 2005",
        "create table t(a varchar(10))",
        "2025-03-23 10:57:19 +0800",
        "the id6C2C2063 has a digit before it",
        "room B0000001Dx",
        "记录号 c9 对应为超时，房间 2005，共 66 行",
    ],
)
def test_what_prose_speaks_of_is_no_data(note: str) -> None:
    assert spelled(f"0000001D\n{note}\n0000002A\n") == "0000001d0000002a"
    assert spelled(f"0000001D see {note}\n0000002A\n") == "0000001d0000002a"


def test_a_text_without_digits_is_none_of_these() -> None:
    for text in ("", "\n\n", "no digits here", "12 34"):
        assert read_text(np.frombuffer(text.encode(), np.uint8), None) is None


@given(rows=st.lists(st.binary(min_size=4, max_size=40), min_size=1), width=st.sampled_from([4, 8, 16]))
def test_lines_of_groups_come_back(rows: list[bytes], width: int) -> None:
    lines = [" ".join(row.hex()[at : at + width] for at in range(0, 2 * len(row), width)) for row in rows]
    source = source_of("\n".join(lines))
    assert content(source) == b"".join(rows)
    assert source.line_starts is not None
    starts = [*source.line_starts.tolist(), source.length]
    assert [source.read(a, b).tobytes() for a, b in pairwise(starts)] == rows


@given(st.binary(max_size=300))
def test_any_bytes_are_survived(data: bytes) -> None:
    source = read_text(np.frombuffer(data, np.uint8), None)
    if source is not None:
        assert_places_hold_the_digits(source, data)


# --- dumps ------------------------------------------------------------------------------------------------------------

XXD = """\
00000000: 0000 0028 0000 000f 0000 0042 0000 0028  ...(.......B...(
00000010: 0006 4f64 656e 7365 2031 3233 3435 3637  ..Odense 1234567
00000020: 3839 6162 6364                           89abcd
"""
HEXDUMP = """\
00000000  00 00 00 28 00 00 00 0f  00 00 00 42 00 00 00 28  |...(.......B...(|
00000010  00 06 4f 64 65 6e 73 65  20 31 32 33 34 35 36 37  |..Odense 1234567|
00000020  38 39 61 62 63 64                                 |89abcd|
00000026
"""
DATA = bytes.fromhex("00000028 0000000f 00000042 00000028 0006") + b"Odense 123456789abcd"


@pytest.mark.parametrize(("text", "shape"), [(XXD, "xxd"), (HEXDUMP, "hexdump")])
@pytest.mark.parametrize("form", [str, str.upper, lambda text: text.replace("\n", "\r\n"), lambda text: text[:-1]])
def test_a_dump_gives_its_bytes_and_not_their_characters(text: str, shape: str, form: Callable[[str], str]) -> None:
    source = source_of(form(text))
    assert (source.shape, source.problem, content(source)) == (shape, None, DATA)
    assert source.line_starts is not None
    assert source.read_starts is not None
    assert (source.line_starts.tolist(), source.read_starts.tolist()) == ([0, 16, 32], [0])


def test_notes_between_the_lines_of_a_dump_are_notes() -> None:
    assert content(source_of("# line 1 00000024\n" + XXD.replace("\n", "\n0000002A note\n"))) == DATA


def test_stars_stand_for_lines_like_the_one_before() -> None:
    data = b"begin-of-a-line:" + bytes(100) + b"deadbeef" * 10 + bytes(64)
    written = hexdump(data)
    assert written.count("*\n") == 3
    source = source_of(written)
    assert (content(source), source.problem) == (data, None)
    assert_places_hold_the_digits(source, written.encode())


def test_a_star_out_of_proportion_is_left_out_and_said_so() -> None:
    source = source_of("00000000  " + "00 " * 16 + "|................|\n*\n7fffffff0\n")
    assert source.length == 16
    assert source.problem is not None
    assert "34,359,738,336 bytes are missing after the line at offset 0; the * there" in source.problem


def test_missing_lines_are_said_so() -> None:
    kept = xxd(bytes(range(160))).splitlines(keepends=True)
    source = source_of("".join(kept[:3] + kept[5:]))
    assert content(source) == bytes(range(48)) + bytes(range(80, 160))
    assert source.problem == "by the offsets of the dump 32 bytes are missing after the line at offset 136"


@pytest.mark.parametrize(
    "text",
    ["00000024 0000001D 00000042 000000C8\n" * 4, "12:30 meeting\n13:45 0000: 00\n00000000", "6E746567\n65722C20\n"],
)
def test_other_hex_is_no_dump(text: str) -> None:
    assert source_of(text).shape == "hex"


DUMPED = st.one_of(
    st.binary(min_size=1, max_size=150),
    # what makes stars, and characters that look like digits
    st.lists(st.sampled_from([bytes(16), bytes(40), b"abcd" * 8, b" 00 ff |", b"\x00\x01\x02"]), min_size=1).map(
        b"".join
    ),
)


@given(data=DUMPED, columns=st.integers(1, 40), group=st.integers(1, 16), upper=st.booleans(), autoskip=st.booleans())
def test_xxd_with_any_options_comes_back(data: bytes, columns: int, group: int, upper: bool, autoskip: bool) -> None:
    written = xxd(data, columns, group, upper, autoskip)
    source = source_of(written)
    assert (source.shape, content(source), source.problem) == ("xxd", data, None)
    assert_places_hold_the_digits(source, written.encode())


@given(data=DUMPED, encoding=st.sampled_from(["utf-8", "utf-8-sig"]))
def test_dumps_with_stars_come_back(data: bytes, encoding: str) -> None:
    source = source_of(hexdump(data).encode(encoding))
    assert (source.shape, content(source), source.problem) == ("hexdump", data, None)


@given(
    reads=st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=6), write=st.sampled_from([xxd, hexdump])
)
def test_several_dumps_in_one_file_are_reads(reads: list[bytes], write: Callable[[bytes], str]) -> None:
    source = source_of("\n".join(map(write, reads)))
    assert source.read_starts is not None
    starts = [*source.read_starts.tolist(), source.length]
    assert [source.read(a, b).tobytes() for a, b in pairwise(starts)] == reads


@given(data=DUMPED, write=st.sampled_from([xxd, hexdump]), at=st.integers(0, 2000), junk=st.binary(max_size=6))
def test_a_damaged_dump_is_survived(data: bytes, write: Callable[[bytes], str], at: int, junk: bytes) -> None:
    written = write(data).encode()
    damaged = written[:at] + junk + written[at + len(junk) :]
    source = read_text(np.frombuffer(damaged, np.uint8), None)
    if source is not None:
        assert source.length <= (16 << 20) + 65 * len(damaged)
        assert_places_hold_the_digits(source, damaged)


# --- the real capture -------------------------------------------------------------------------------------------------


@pytest.mark.samples
@pytest.mark.parametrize("write", [xxd, hexdump])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
def test_the_real_capture_dumped_is_the_same(
    samples: Path, tmp_path: Path, write: Callable[[bytes], str], pack: Callable[[bytes], bytes]
) -> None:
    clean = (samples / "gbase8s" / "seed_stream_clean.bin").read_bytes()
    path = tmp_path / "capture"
    path.write_bytes(pack(write(clean).encode()))
    source = open_source(path)
    assert (source.read(0, source.length).tobytes(), source.problem) == (clean, None)
    assert (source.compression is None) == (pack is bytes)


@pytest.mark.samples
def test_the_real_reads_dumped_one_by_one_keep_their_bounds(samples: Path, tmp_path: Path) -> None:
    real = open_source(samples / "gbase8s" / "seed_reads_with_stale.hex")
    assert real.line_starts is not None
    bounds = [*real.line_starts.tolist(), real.length]
    path = tmp_path / "reads"
    path.write_text("".join(xxd(real.read(a, b).tobytes()) for a, b in pairwise(bounds)))
    source = open_source(path)
    assert source.read_starts is not None
    assert source.read_starts.tolist() == real.line_starts.tolist()
