"""Hex text with notes: which digits are data, what they spell, and where they stand."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cdcwb.formats.files import open_source
from cdcwb.formats.hextext import Text, TextSource, lines, read_hex

# A capture as somebody wrote it down: the shape of the texts that people post. Words stand under each other with a note
# behind most of them; the prose has numbers of its own; some line ends were lost, so that words stick to prose.
# The stream is invented: a table `k serial, city varchar(24,0)`, one insert of (10, 'Odense'), stale bytes behind.
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
4F64656E7365 不定长度 ,可变列的值 insert into city values(10,'deface12');74792076 后方的数据为脏数据
61726368
第四行
00000024 4字节 标题的字节数
00000000 4字节 有效内容长度
00000042 4字节 方案号,固定为66
00000002 4字节 记录号 02 对应提交事务0000000C04A2B070 8字节 序号
0000001D 4字节 事务标识
00000000683C0F08 8字节 提交时间 格式为时间戳 1748766472 = 2025-06-01 08:27:52
000003E9 用户标识 3E9 --> 1001 对应该用户的id6C2C2063 后方的数据为脏数据
0006
4F646E73
完成于 20250601 共 4 行
"""
WORDS = """
00000024 0000001E 00000042 000000C8 0000002A 00000000 00000004 00000001 00000001
6B207365 7269616C 2C206369 74792076 61726368 61722832 342C3029 00000000
00000018 00000000 00000042 000000C9 00000000 00000000 00000004 00000001 000000016B207365 7269616C
00000028 0000000C 00000042 00000028 0000000C04A2B018 0000001D 0000002A 00000000 08000000 0000000A 0006 4F64656E7365
74792076 61726368
00000024 00000000 00000042 00000002 0000000C04A2B070 0000001D 00000000683C0F08 000003E9 6C2C2063 0006 4F646E73
"""


def source_of(data: bytes) -> TextSource:
    text = Text(np.frombuffer(data, np.uint8))
    digits = read_hex(text)
    return TextSource("text", text, digits, shape="hex", size=len(data), compression=None, evidence="", problem=None)


def spelled(text: str | bytes) -> str:
    source = source_of(text.encode() if isinstance(text, str) else text)
    return source.read(0, source.length).tobytes().hex()


def assert_places_hold_the_digits(source: TextSource, data: bytes, encoding: str = "latin-1") -> None:
    """Every byte's place holds its two digits: at its start and its end, whatever stands between."""
    wire = source.read(0, source.length)
    offset, end = source.places(np.arange(source.length), np.arange(1, source.length + 1))
    for byte, low, high in zip(wire.tolist(), offset.tolist(), end.tolist(), strict=True):
        there = data[low:high].decode(encoding, "replace")
        assert int(there[0] + there[-1], 16) == byte, (low, there)


# A whole text


@pytest.mark.parametrize(
    ("encoding", "newline"),
    [("utf-8", "\n"), ("utf-8-sig", "\r\n"), ("gb18030", "\n"), ("gbk", "\r\n"), ("utf-16", "\n"), ("utf-16-be", "\r")],
)
def test_a_text_with_prose_gives_its_data_words_only(encoding: str, newline: str) -> None:
    mark = b"\xfe\xff" if encoding == "utf-16-be" else b""
    data = mark + NOTES.replace("\n", newline).encode(encoding)
    source = source_of(data)
    assert source.read(0, source.length).tobytes().hex(" ", 4) == bytes.fromhex(WORDS).hex(" ", 4)
    assert source.problem is None
    places = "utf-16-be" if encoding == "utf-16-be" else "utf-16-le" if encoding == "utf-16" else "latin-1"
    assert_places_hold_the_digits(source, data, places)


@pytest.mark.parametrize("size", [60, 200, 1000])
def test_a_text_reads_the_same_in_pieces_of_any_size(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = source_of(NOTES.encode())
    monkeypatch.setattr(lines, "PIECE", size)
    pieced = source_of(NOTES.encode())
    assert pieced.read(0, pieced.length).tobytes() == whole.read(0, whole.length).tobytes()
    assert pieced.line_starts is not None
    assert whole.line_starts is not None
    assert pieced.line_starts.tolist() == whole.line_starts.tolist()
    assert pieced.data_share == whole.data_share


def test_the_share_of_data_counts_characters_not_bytes() -> None:
    assert source_of("00000024 四字\n".encode()).data_share == pytest.approx(8 / 10)
    assert source_of("00000024 四字\n".encode("gbk")).data_share == pytest.approx(8 / 10)
    assert source_of("00000024 四字\n".encode("utf-16")).data_share == pytest.approx(8 / 10)
    assert source_of(b"# nothing but notes\n").data_share == 0.0


# Rule by rule

DATA = [
    ("upper case", "0000001D 0000002A", "0000001d0000002a"),
    ("lower case", "0000001d 0000002a", "0000001d0000002a"),
    ("groups of two", "00 00 00 1d 00 2a", "0000001d002a"),
    ("groups of any width", "0 000 001D0 00000 2A", "0000001d0000002a"),
    ("one long group", "0000001d0000002a" * 20, "0000001d0000002a" * 20),
    ("wrapped within a byte", "0000001d0\n000002a00\n0001", "0000001d0000002a000001"),
    ("a short line below a long one", "0000001D\n0009\nFFFF\n00000001", "0000001d0009ffff00000001"),
    ("groups of letters only", "FFFFFFFF\n0000001D ABCDEF", "ffffffff0000001dabcdef"),
    ("one short group a line", "00\n00\n00\n1d\n" * 4, "0000001d" * 4),
    ("tabs, no-break and ideographic spaces", "0000\t001D\u00a00000\u3000002A", "0000001d0000002a"),
    ("a note behind", "0000001D four bytes\n0000002A", "0000001d0000002a"),
    ("a short group before its size", "0000000F 4 bytes\n0009 2 bytes\n61626364", "0000000f000961626364"),
    ("groups of two with a note", "00 00 00 1d 00 00 00 2a length", "0000001d0000002a"),
    ("a size behind groups of two", "00 01 02 03 04 05 06 07 08 09 10 bytes", "00010203040506070809"),
    ("letters only before a note", "FFFFFFFF none\n0000001D", "ffffffff0000001d"),
    ("a table", "| 0000001D | 4 | length |\n| 0000002A | 4 | label |", "0000001d0000002a"),
    ("a colon behind the group", "0000001D: length\n0000002A, label", "0000001d0000002a"),
    ("a label in brackets", "[5 INSERT  ] 0000001D 0000002A", "0000001d0000002a"),
    ("a label full of hex", "[2025-03-23 c8 00000000] 0000001D\n[12] 0000002A", "0000001d0000002a"),
    ("a label without a space", "[7]0000001D 0000002A", "0000001d0000002a"),
    ("a row behind a note", "read 5: 00 00 00 1d 00 00 00 2a", "0000001d0000002a"),
    ("a row stuck to a note", "第五次读取：0000001D 0000002A", "0000001d0000002a"),
    ("stuck to foreign prose", "0000001D 长度0000002A 标识\n00000001", "0000001d0000002a00000001"),
    ("stuck to a bracket or clause", "0000001D (x);0000002A y\n00000001", "0000001d0000002a00000001"),
    ("stuck to a word in the other case", "0000001D the id6C2C2063 rest\n00000001", "0000001d6c2c206300000001"),
    ("comments", "# 00000001\n0000001D\n// 00000002\n  # 00000003\n0000002A", "0000001d0000002a"),
    ("0x and commas", "0x00, 0x00, 0x00, 0x1d,\n0x2a, 0xff", "0000001d2aff"),
    ("0x without spaces", "0x00,0x00,0x00,0x1d,0x2a,0xff", "0000001d2aff"),
    ("0x of words", "0x0000001D 0x0000002A", "0000001d0000002a"),
    ("0x before a note", "0x0000001D length\n0x0000002A label", "0000001d0000002a"),
    ("an array in C", "unsigned char a[] = {\n  0x00, 0x1d, 0x2a, 0x07\n};\nunsigned int n = 4;", "001d2a07"),
    ("an array on one line", "[0x00, 0x00, 0x1d, 0x2a, 0x07, 0x09, 0x00, 0x01]", "00001d2a07090001"),
    ("escapes", r"\x00\x00\x1d\x2a", "00001d2a"),
    ("escapes in quotes", r"data = b'\x00\x00\x1d\x2a\x00\x00\x00\x07'", "00001d2a00000007"),
    ("commas", "00,00,00,1d,00,2a", "0000001d002a"),
]


@pytest.mark.parametrize(("text", "data"), [d[1:] for d in DATA], ids=[d[0] for d in DATA])
def test_data_is_read(text: str, data: str) -> None:
    assert spelled(text) == data


# Each stands between two lines of data of a text in upper case with groups of eight.
NOTE_LINES = [
    "10 start the session",
    "1 create 2 drop 10 stop",
    "cd /opt/db/etc",
    "add a bad decade of feed",
    "c8 stands for the schema",
    "7D5 --> 2005",
    "user 7D5 is 2005 in decimal",
    "create table t(a varchar(10), b decimal(12345678))",
    "insert into t values(15,'abcabcab','12345678');",
    'insert into t values(15, 87654321, "ABCDEF12")',
    "2025-03-23 10:57:19 +0800",
    "20250323 loaded",
    "loaded on 20250323",
    "at 20250323105719 exactly",
    "1742727439 seconds",
    "time 1742727439 in seconds",
    "position 0x0B01746018 and 11:0x1746018",
    "session 0fe857e0-a025-4e9c-b2d5-0c6cc0f96973",
    "commit 0fe857e0aa",
    "CDC_REC_0000001D is not one",
    "ratio 0.12345678 or 12345678.5 or 1,234,567",
    "room B0000001Dx",
    "http://host/00000012/0000001D",
    "记录号 c9 对应为超时，房间 2005，共 66 行",
]


@pytest.mark.parametrize("note", NOTE_LINES)
def test_what_prose_speaks_of_is_no_data(note: str) -> None:
    assert spelled(f"0000001D\n{note}\n0000002A\n") == "0000001d0000002a"
    assert spelled(f"0000001D see {note}\n0000002A\n") == "0000001d0000002a"


def test_the_characters_beside_groups_are_no_data() -> None:
    """A dump without offsets: what stands beside the groups is their bytes once more."""
    text = "3132 3334 3536 3738 2000 4344  12345678 .CD\n2142 4344 2030 3132 3334 3536 3720  !BCD 01234567 \n"
    assert spelled(text) == "313233343536373820004344" + "2142434420303132333435363720"
    text = "31323334 35363738 0000013B |12345678...;|\n0000013B 30303030 30303030 : ...;00000000\n"
    assert spelled(text) == "31323334353637380000013b" + "0000013b3030303030303030"


def test_trail_bytes_of_gbk_are_no_digits() -> None:
    """Every character here ends in an ASCII letter or digit of its own."""
    prose = bytes.fromhex("8141 8242 8343 81308130 8146 8230C335")
    assert spelled(b"0000001D " + prose + b"\n0000002A\n" + prose + b"00000007\n") == "0000001d0000002a00000007"
    assert spelled(b"0000001D " + prose + b"0000002A x\n") == "0000001d0000002a"


def test_latin_1_notes_are_notes() -> None:
    assert spelled("0000001D L\u00e4nge\n0000002A \u00a7\n".encode("latin-1")) == "0000001d0000002a"


def test_one_line_in_utf_8_that_is_damaged_leaves_the_others_as_they_are() -> None:
    assert spelled("0000001D \u957f\u5ea6".encode() + b"\xff\n" + "\u957f0000002A x".encode()) == "0000001d0000002a"


# Halves of bytes


@pytest.mark.parametrize(
    ("text", "data", "offset"),
    [
        ("0000001D0000002A\n0000001D000002A\n00000007\n", "0000001d0000002a0000001d00000200000007", 31),
        ("0000001D 000002A 00000007", "0000001d00000200000007", 15),
        ("0000001D 0000002A 0", "0000001d0000002a", 18),
        ("0000001 4 bytes\n0000002A 4 bytes", "0000000000002a", 6),
        ("[1] 000001D00\n[2] 000002A00\n", "000001d0000002a0", 12),
        ("000001D00\nprose\n000002A00\n", "000001d0000002a0", 8),
    ],
)
def test_a_digit_without_a_partner_costs_one_byte_of_its_line(text: str, data: str, offset: int) -> None:
    source = source_of(text.encode())
    assert source.read(0, source.length).tobytes().hex() == data
    assert source.problem is not None
    assert source.problem.endswith(f"no second digit and are not a byte, the first at offset {offset}")
    assert_places_hold_the_digits(source, text.encode())


# Places and lines


def test_places_run_from_the_first_digit_to_the_last() -> None:
    text = b"[1 A] 0000 001D note\r\n0000002A\r\n"
    source = source_of(text)
    offset, end = source.places(np.array([0, 1, 3, 0, 4, 8, 8]), np.array([4, 3, 5, 8, 4, 8, 99]))
    assert [text[a:b] for a, b in zip(offset.tolist(), end.tolist(), strict=True)] == [
        b"0000 001D",
        b"00 00",
        b"1D note\r\n00",
        text[6:-2],
        b"",
        b"",
        b"",
    ]
    assert (offset[4], offset[5]) == (text.index(b"0000002A"), len(text) - 2)
    assert offset.dtype == end.dtype == np.int64


def test_every_line_with_data_begins_somewhere() -> None:
    source = source_of(b"# reads\n[1 A] 0000001D 00\n\nprose\n0000002A x\n[3 B] 00000007\n")
    assert source.line_starts is not None
    assert source.line_starts.tolist() == [0, 5, 9]
    assert source.read_starts is None


def test_a_byte_that_begins_on_one_line_and_ends_on_the_next_belongs_to_the_first() -> None:
    source = source_of(b"0000001D0\n000002A00\n")
    assert source.line_starts is not None
    assert source.line_starts.tolist() == [0, 5]
    assert [int(x[0]) for x in source.places(np.array([4]), np.array([5]))] == [8, 11]


def test_a_text_without_data_has_no_bytes_and_no_places() -> None:
    source = source_of(b"nothing\n")
    assert (source.length, source.read(0, 9).size) == (0, 0)
    assert [x.tolist() for x in source.places(np.array([0]), np.array([1]))] == [[0], [0]]


# Round trips


def spell(data: bytes, width: int, per_line: int, case: str, separator: str, newline: str) -> str:
    digits = getattr(data.hex(), case)()
    groups = [digits[i : i + width] for i in range(0, len(digits), width)]
    rows = [separator.join(groups[i : i + per_line]) for i in range(0, len(groups), per_line)]
    return newline.join(rows)


@given(
    data=st.binary(min_size=16, max_size=200),
    width=st.integers(1, 40),
    per_line=st.integers(1, 20),
    case=st.sampled_from(["upper", "lower"]),
    separator=st.sampled_from([" ", "  ", "\t"]),
    newline=st.sampled_from(["\n", "\r\n", "\r"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16-le"]),
)
def test_groups_of_any_form_come_back(
    data: bytes, width: int, per_line: int, case: str, separator: str, newline: str, encoding: str
) -> None:
    # Lines of a few digits each may be anything; and a date is a date.
    assume(width * per_line >= 16 and not data.hex().startswith(("19", "20")))
    mark = b"\xff\xfe" if encoding == "utf-16-le" else b""
    text = mark + spell(data, width, per_line, case, separator, newline).encode(encoding)
    source = source_of(text)
    assert source.read(0, source.length).tobytes() == data
    assert_places_hold_the_digits(source, text, "utf-16-le" if mark else "latin-1")


@given(reads=st.lists(st.binary(min_size=8, max_size=60), min_size=1, max_size=8), width=st.sampled_from([2, 4, 8, 16]))
def test_reads_with_labels_and_notes_come_back_line_by_line(reads: list[bytes], width: int) -> None:
    rows = [f"[{i} READ {len(read)}] " + spell(read, width, 999, "upper", " ", "") for i, read in enumerate(reads)]
    text = "# 抓取 00000018\n" + "\n第 10 次\n".join(rows)
    source = source_of(text.encode())
    assert source.read(0, source.length).tobytes() == b"".join(reads)
    assert source.line_starts is not None
    assert source.line_starts.tolist() == np.cumsum([0, *map(len, reads)])[:-1].tolist()


@given(data=st.binary(min_size=16, max_size=100), per_line=st.integers(2, 20))
def test_pasted_code_comes_back(data: bytes, per_line: int) -> None:
    prefixed = [f"0x{byte:02x}" for byte in data]
    rows = [", ".join(prefixed[i : i + per_line]) for i in range(0, len(prefixed), per_line)]
    assert spelled("const char a[] = {\n" + ",\n".join(rows) + "\n};\n") == data.hex()
    escaped = [f"\\x{byte:02x}" for byte in data]
    rows = ["".join(escaped[i : i + 8]) for i in range(0, len(escaped), 8)]
    assert spelled("\n".join(f'    "{row}"' for row in rows)) == data.hex()


@given(data=st.binary(max_size=400), cut=st.integers(0, 400), junk=st.binary(max_size=8))
def test_any_bytes_are_survived(data: bytes, cut: int, junk: bytes) -> None:
    notes = NOTES.encode()
    for text in (data, notes[:cut] + junk + notes[cut + len(junk) :], notes[: 3 * cut] + data):
        source = source_of(text)
        assert 2 * source.length <= len(text)
        if text[:2] not in (b"\xff\xfe", b"\xfe\xff"):
            assert_places_hold_the_digits(source, text)


# The real capture


@pytest.mark.samples
@pytest.mark.parametrize("encoding", ["utf-8", "gbk", "utf-16"])
def test_the_real_reads_spelled_in_other_forms_are_the_same(samples: Path, tmp_path: Path, encoding: str) -> None:
    real = open_source(samples / "gbase8s" / "seed_reads_with_stale.hex")
    assert isinstance(real, TextSource)
    data = real.read(0, real.length).tobytes()
    assert real.line_starts is not None
    bounds = [*real.line_starts.tolist(), len(data)]
    for width in (2, 4, 8, 16):
        path = tmp_path / f"groups of {width}"
        rows = [f"{data[a:b].hex(' ', width // 2)} 读取\n" for a, b in itertools.pairwise(bounds)]
        path.write_bytes("".join(rows).encode(encoding))
        again = open_source(path)
        assert (again.shape, again.read(0, again.length).tobytes()) == ("hex", data)
        assert again.line_starts is not None
        assert again.line_starts.tolist() == real.line_starts.tolist()
