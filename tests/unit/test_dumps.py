"""Dumps (xxd, hexdump -C, od): the offsets tell what is data, and the characters beside it never are."""

from __future__ import annotations

import gzip
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from cdcwb.errors import CaptureError
from cdcwb.formats.files import Source, open_source
from cdcwb.formats.hextext import Text, TextSource, lines, read_dump, recognise


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


def od(data: bytes, base: str = "x", shows: bool = True) -> str:
    form = {"x": "06x", "d": "07d", "o": "07o"}[base]
    out = []
    for row in starred(rows_of(data, 16), False):
        if row is None:
            out.append("*\n")
            continue
        at, part = row
        out.append(f"{at:{form}} {part.hex(' ').ljust(47)}" + (f"  >{characters(part)}<" if shows else "") + "\n")
    return "".join(out) + f"{len(data):{form}}\n"


def source_of(text: str | bytes) -> TextSource:
    data = text.encode() if isinstance(text, str) else text
    units = Text(np.frombuffer(data, np.uint8))
    style = recognise(units)
    assert style is not None, text
    digits = read_dump(units, style)
    return TextSource(
        "dump", units, digits, shape=style.shape, size=len(data), compression=None, evidence="", problem=None
    )


def content(source: Source) -> bytes:
    return source.read(0, source.length).tobytes()


def assert_places_hold_the_digits(source: TextSource, data: bytes) -> None:
    wire = source.read(0, source.length)
    offset, end = source.places(np.arange(source.length), np.arange(1, source.length + 1))
    for byte, low, high in zip(wire.tolist(), offset.tolist(), end.tolist(), strict=True):
        assert data[low:high] == b"*" or int(bytes([data[low], data[high - 1]]), 16) == byte


# What the programs print, character by character


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
OD = """\
000000 00 00 00 28 00 00 00 0f 00 00 00 42 00 00 00 28  >...(.......B...(<
000010 00 06 4f 64 65 6e 73 65 20 31 32 33 34 35 36 37  >..Odense 1234567<
000020 38 39 61 62 63 64                                >89abcd<
000026
"""
DATA = bytes.fromhex("00000028 0000000f 00000042 00000028 0006") + b"Odense 123456789abcd"


@pytest.mark.parametrize(("text", "shape"), [(XXD, "xxd"), (HEXDUMP, "hexdump"), (OD, "hexdump")])
@pytest.mark.parametrize("form", [str, str.upper, lambda text: text.replace("\n", "\r\n"), lambda text: text[:-1]])
def test_a_dump_gives_its_bytes_and_not_their_characters(text: str, shape: str, form) -> None:
    source = source_of(form(text))
    assert (source.shape, source.problem) == (shape, None)
    assert content(source) == DATA
    assert source.line_starts is not None
    assert source.read_starts is not None
    assert (source.line_starts.tolist(), source.read_starts.tolist()) == ([0, 16, 32], [0])
    offset, end = source.places(np.array([0, 30]), np.array([2, 34]))
    dump = form(text)
    assert dump[offset[0] : end[0]].replace(" ", "") == "0000"
    assert dump[offset[1] : end[1]].startswith(("36 37", "3637"))
    assert dump[offset[1] : end[1]].endswith(("38 39", "3839"))


def test_the_writers_of_these_tests_print_what_the_programs_print() -> None:
    assert xxd(DATA) == XXD
    assert hexdump(DATA) == HEXDUMP
    assert od(DATA) == OD


def test_notes_between_the_lines_are_notes() -> None:
    noted = "# 第 1 行 00000024\n" + XXD.replace("\n", "\n0000002A 备注\n") + "trailer 00000000\n"
    source = source_of(noted)
    assert content(source) == DATA


def test_lost_spacing_does_not_turn_characters_into_bytes() -> None:
    """A web page makes one space of several; the offsets still tell where the bytes end."""
    data = bytes(range(16)) + b"1234 5678 abcdef" + b"cafe" * 4 + b"1a"
    for written in (xxd(data), hexdump(data).replace("|", "")):
        collapsed = "\n".join(" ".join(line.split()) for line in written.splitlines())
        assert content(source_of(collapsed)) == data


def test_stars_stand_for_lines_like_the_one_before() -> None:
    data = b"begin-of-a-line:" + bytes(100) + b"deadbeef" * 10 + bytes(64)
    written = hexdump(data)
    assert written.count("*\n") == 3
    source = source_of(written)
    assert content(source) == data
    assert_places_hold_the_digits(source, written.encode())
    star = written.index("*\n")
    offset, end = source.places(np.array([32, 40, 20]), np.array([33, 90, 60]))
    assert (int(offset[0]), int(end[0])) == (star, star + 1)
    assert (int(offset[1]), int(end[1])) == (star, star + 1)
    assert written[offset[2] : end[2]].endswith("00  |................|\n*")


def test_a_star_out_of_proportion_is_left_out_and_said_so() -> None:
    written = "00000000  " + "00 " * 16 + "\n*\n7fffffff0\n"
    source = source_of(written)
    assert source.length == 16
    assert source.problem is not None
    assert source.problem == (
        "the * at offset 59 would repeat 34,359,738,336 bytes, which is implausible; it is ignored"
    )


def test_missing_lines_are_said_so() -> None:
    kept = xxd(bytes(range(160))).splitlines(keepends=True)
    source = source_of("".join(kept[:3] + kept[5:]))
    assert content(source) == bytes(range(48)) + bytes(range(80, 160))
    assert source.problem == "by the offsets of the dump 32 bytes are missing after the line at offset 136"


@pytest.mark.parametrize("write", [xxd, hexdump, od])
def test_a_new_read_begins_where_the_offsets_do(write) -> None:
    reads = [bytes(range(40)), b"short", bytes(range(100, 132))]
    written = "".join(f"read {i}, 24 bytes\n{write(read)}" for i, read in enumerate(reads))
    source = source_of(written)
    assert content(source) == b"".join(reads)
    assert source.read_starts is not None
    assert source.read_starts.tolist() == [0, 40, 45]
    assert source.problem is None


def test_offsets_in_other_number_bases_are_understood() -> None:
    data = bytes(range(256)) * 2
    for written in (od(data, "d"), od(data, "o"), od(data, "o", shows=False), od(data, "x", shows=False)):
        assert content(source_of(written)) == data


def test_a_dump_of_one_line_is_one() -> None:
    assert content(source_of("00000000: 0000 0018 0000\n")) == bytes.fromhex("000000180000")
    assert content(source_of(xxd(b"cafe 1234", start=0x1F0))) == b"cafe 1234"


@pytest.mark.parametrize(
    ("dump", "sentence"),
    [
        (
            "00000000: 28000000 0f000000 42000000  ...(.......B\n0000000c: 65736e64  dnse\n",
            r"little-endian order \(xxd -e\)",
        ),
        (
            "00000000: 00000000 00101000  .(\n00000002: 00000000 00001111  ..\n00000004: 01100001  a\n",
            r"bits \(xxd -b\)",
        ),
        (
            "".join(f"{16 * i:07x} 0000 2800 0000 0f00 0000 4200 0000 2800\n" for i in range(4)) + "0000040\n",
            "2-byte words in the byte order of the machine",
        ),
        (
            "".join(f"{16 * i:06x} 28000000 0f000000 42000000 28000000\n" for i in range(4)) + "000040\n",
            "4-byte words in the byte order of the machine",
        ),
    ],
)
def test_dumps_that_do_not_show_bytes_in_order_are_refused(dump: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "dump"
    path.write_text(dump)
    with pytest.raises(CaptureError, match=f"dump: a dump of .*{sentence}"):
        open_source(path)


@pytest.mark.parametrize(
    "text",
    [
        "00000024 0000001D 00000042 000000C8\n" * 4,
        "00000000 00000000 00000000 00000000\n" * 9,
        "00000000 00000018\n00000004 00000019\n",
        "12:30 meeting\n13:45 0000: 00\n",
        "6E746567\n65722C20\n63322076\n",
        "# only notes\n*\n",
        "",
    ],
)
def test_other_hex_is_no_dump(text: str) -> None:
    assert recognise(Text(np.frombuffer(text.encode(), np.uint8))) is None


# Round trips

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


@given(data=DUMPED, write=st.sampled_from([hexdump, od]), encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))
def test_dumps_with_stars_come_back(data: bytes, write, encoding: str) -> None:
    source = source_of(write(data).encode(encoding))
    assert (source.shape, content(source), source.problem) == ("hexdump", data, None)


@given(
    reads=st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=6), write=st.sampled_from([xxd, hexdump])
)
def test_several_dumps_in_one_file_come_back(reads: list[bytes], write) -> None:
    source = source_of("\n".join(map(write, reads)))
    assert content(source) == b"".join(reads)
    assert source.read_starts is not None
    starts = [*source.read_starts.tolist(), source.length]
    assert [source.read(a, b).tobytes() for a, b in pairwise(starts)] == reads


@given(data=DUMPED, write=st.sampled_from([xxd, hexdump, od]), at=st.integers(0, 2000), junk=st.binary(max_size=6))
def test_a_damaged_dump_is_survived(data: bytes, write, at: int, junk: bytes) -> None:
    written = write(data).encode()
    damaged = written[:at] + junk + written[at + len(junk) :]
    units = Text(np.frombuffer(damaged, np.uint8))
    try:
        style = recognise(units)
    except CaptureError:
        return
    if style is not None:
        digits = read_dump(units, style)
        source = TextSource("x", units, digits, shape="", size=0, compression=None, evidence="", problem=None)
        assert source.length <= (16 << 20) + 65 * len(damaged)
        assert_places_hold_the_digits(source, damaged)


@pytest.mark.parametrize("size", [70, 200])
def test_a_dump_reads_the_same_in_pieces_of_any_size(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes(range(250)) + bytes(100) + b"abcd1234" * 30
    for write in (xxd, hexdump):
        written = (write(data) + write(data)).encode()
        units = Text(np.frombuffer(written, np.uint8))
        style = recognise(units)
        assert style is not None
        with monkeypatch.context() as patch:
            patch.setattr(lines, "PIECE", size)
            digits = read_dump(units, style)
        source = TextSource("x", units, digits, shape="", size=0, compression=None, evidence="", problem=None)
        assert content(source) == data * 2
        assert source.read_starts is not None
        assert source.read_starts.tolist() == [0, len(data)]


# The real capture


@pytest.mark.samples
@pytest.mark.parametrize("write", [xxd, hexdump, od])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
def test_the_real_capture_dumped_is_the_same(samples: Path, tmp_path: Path, write, pack) -> None:
    clean = (samples / "gbase8s" / "seed_stream_clean.bin").read_bytes()
    path = tmp_path / "capture"
    path.write_bytes(pack(write(clean).encode()))
    source = open_source(path)
    assert (content(source), source.problem) == (clean, None)
    assert (source.compression is None) == (pack is bytes)


@pytest.mark.samples
@pytest.mark.parametrize("write", [xxd, hexdump])
def test_the_real_reads_dumped_one_by_one_keep_their_bounds(samples: Path, tmp_path: Path, write) -> None:
    real = open_source(samples / "gbase8s" / "seed_reads_with_stale.hex")
    assert real.line_starts is not None
    bounds = [*real.line_starts.tolist(), real.length]
    path = tmp_path / "reads"
    path.write_text("".join(write(real.read(a, b).tobytes()) for a, b in pairwise(bounds)))
    source = open_source(path)
    assert content(source) == content(real)
    assert source.read_starts is not None
    assert source.read_starts.tolist() == real.line_starts.tolist()
