"""The forms in which a generated capture is written down, and where the truth says that records stand in them."""

from __future__ import annotations

import gzip
import io
import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import zstandard

from cdcwb_synth import generate
from cdcwb_synth.gbase8s_files import hexdump, xxd

DATA = b"\x00\x00\x00\x28AB~\x7f" + bytes(40) + b"tail\xff"


def test_xxd_is_written_as_the_tool_writes_it() -> None:
    assert xxd(DATA).text.decode() == (
        "00000000: 0000 0028 4142 7e7f 0000 0000 0000 0000  ...(AB~.........\n"
        "00000010: 0000 0000 0000 0000 0000 0000 0000 0000  ................\n"
        "00000020: 0000 0000 0000 0000 0000 0000 0000 0000  ................\n"
        "00000030: 7461 696c ff                             tail.\n"
    )
    assert xxd(b"").text == b""


def test_hexdump_is_written_as_the_tool_writes_it() -> None:
    dump = hexdump(DATA)
    assert dump.text.decode() == (
        "00000000  00 00 00 28 41 42 7e 7f  00 00 00 00 00 00 00 00  |...(AB~.........|\n"
        "00000010  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|\n"
        "*\n"
        "00000030  74 61 69 6c ff                                    |tail.|\n"
        "00000035\n"
    )
    assert dump.repeats == [False, False, True, False]
    assert dump.text[dump.offsets[2] : dump.offsets[2] + 1] == b"*"
    assert hexdump(b"").text == b""


@pytest.mark.parametrize(
    ("group", "width", "line"), [(4, 8, r"([0-9A-F]{8} ){1}[0-9A-F]{8}"), (3, 8, r"([0-9A-F]{6} ){2}[0-9A-F]{4}"),
                                 (0, 7, r"[0-9A-F]{14}")],
)  # fmt: skip
def test_plain_hex_has_groups_and_lines_of_the_chosen_width(tmp_path: Path, group: int, width: int, line: str) -> None:
    plain = generate("gbase8s", changes=30, seed=6, to=tmp_path / "plain")
    options: dict[str, Any] = {"shape": "hex", "group": group, "line_bytes": width}
    *lines, last = (
        (generate("gbase8s", changes=30, seed=6, to=tmp_path / "hex", **options) / "capture" / "stream-1.hex")
        .read_text()
        .splitlines()
    )
    assert all(re.fullmatch(line, text) for text in lines)
    stream = (plain / "capture" / "stream-1.bin").read_bytes()
    assert bytes.fromhex("".join([*lines, last])) == stream


def test_remarks_are_beside_the_digits_and_never_among_them(tmp_path: Path) -> None:
    plain, noted = (
        generate("gbase8s", changes=200, seed=6, to=tmp_path / str(notes), shape="hex", notes=notes)
        for notes in (False, True)
    )
    digits, text = ((made / "capture" / "stream-1.hex").read_text() for made in (plain, noted))
    kept = [re.match(r"(?:[0-9A-F]{2,8} ?)+", line) for line in text.splitlines()]
    assert "\n".join(line[0].strip() for line in kept if line) + "\n" == digits
    assert sum(line is None for line in kept) > 10


def content(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(data)
    if path.suffix == ".zst":
        return zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)).read()
    return data


def digits(text: bytes, shape: str) -> bytes:
    """The bytes that a piece of text with only digits, line ends and dump columns holds."""
    if shape in ("binary", "buffers"):
        return text
    plain = text.decode()
    if shape == "xxd":  # a piece begins with digits, further lines with an address
        plain = "\n".join(re.sub(r"^[0-9a-f]{8}: ", "", line)[:39].split("  ")[0] for line in plain.split("\n"))
    return bytes.fromhex(plain)


SHAPES: list[dict[str, Any]] = [
    {"shape": "binary"},
    {"shape": "binary", "compression": "zstd"},
    {"shape": "hex"},
    {"shape": "hex", "group": 0, "line_bytes": 7, "compression": "gzip"},
    {"shape": "hex", "group": 3},
    {"shape": "buffers", "buffer_size": 512},
    {"shape": "buffers", "buffer_size": 3000},
    {"shape": "reads", "group": 4},
    {"shape": "reads", "group": 0, "buffer_size": 200},
]


@pytest.mark.parametrize("files", [1, 4])
@pytest.mark.parametrize("options", SHAPES)
def test_records_stand_where_the_truth_says(tmp_path: Path, options: dict[str, Any], files: int) -> None:
    plain = generate("gbase8s", changes=500, seed=6, to=tmp_path / "plain")
    stream = (plain / "capture" / "stream-1.bin").read_bytes()
    made = generate("gbase8s", changes=500, seed=6, to=tmp_path / "made", files=files, cut_records=True, **options)
    told = json.loads((made / "synth.json").read_text())
    texts = [content(made / "capture" / name) for name in told["files"]]
    assert len(texts) == files
    cuts = 0
    for name, key in (("changes", "source_events"), ("table_versions", "first_event")):
        wanted, got = (pq.read_table(f / "truth" / f"{name}.parquet")[key].to_pylist() for f in (plain, made))
        for a, b in zip(wanted, got, strict=True):
            for x, y in zip(*((v if isinstance(v, list) else [v]) for v in (a, b)), strict=True):
                record = stream[x["offset"] : x["offset"] + x["length"]]
                part = digits(texts[y["file_index"]][y["offset"] : y["offset"] + y["length"]], options["shape"])
                assert record.startswith(part)
                cuts += part != record
    assert cuts <= files - 1
    if files == 1:
        assert cuts == 0


def test_binary_files_continue_one_stream_and_end_inside_records(tmp_path: Path) -> None:
    plain = generate("gbase8s", changes=500, seed=6, to=tmp_path / "plain")
    made = generate("gbase8s", changes=500, seed=6, to=tmp_path / "made", files=12, cut_records=True)
    parts = [(made / "capture" / f"stream-{i + 1}.bin").read_bytes() for i in range(12)]
    assert b"".join(parts) == (plain / "capture" / "stream-1.bin").read_bytes()
    assert sum(part[8:12] == b"\x00\x00\x00\x42" for part in parts) == 1  # only the first begins with a record
    whole = generate("gbase8s", changes=500, seed=6, to=tmp_path / "whole", files=12)
    for index in range(12):
        assert (whole / "capture" / f"stream-{index + 1}.bin").read_bytes()[8:12] == b"\x00\x00\x00\x42"


@pytest.mark.parametrize("files", [1, 3])
def test_dumps_give_the_stream_back(tmp_path: Path, files: int) -> None:
    plain = generate("gbase8s", changes=300, seed=2, to=tmp_path / "plain")
    made = generate("gbase8s", changes=300, seed=2, to=tmp_path / "xxd", shape="xxd", files=files, cut_records=True)
    data = b""
    for index in range(files):
        lines = (made / "capture" / f"stream-{index + 1}.xxd").read_text().splitlines()
        data += bytes.fromhex("".join(line[10:50] for line in lines))
    assert data == (plain / "capture" / "stream-1.bin").read_bytes()


def test_a_record_in_a_hexdump_begins_and_ends_at_its_digits(tmp_path: Path) -> None:
    plain = generate("gbase8s", changes=400, seed=2, to=tmp_path / "plain", all_types_share=0.5)
    made = generate("gbase8s", changes=400, seed=2, to=tmp_path / "dump", all_types_share=0.5, shape="hexdump")
    stream = (plain / "capture" / "stream-1.bin").read_bytes()
    text = (made / "capture" / "stream-1.txt").read_text()
    assert "\n*\n" in text
    places = zip(
        *(
            pq.read_table(f / "truth" / "changes.parquet", columns=["offset", "length"]).to_pylist()
            for f in (plain, made)
        ),
        strict=True,
    )
    for a, b in places:
        first, last = stream[a["offset"]], stream[a["offset"] + a["length"] - 1]
        end = b["offset"] + b["length"]
        assert text[b["offset"] : b["offset"] + 2] == f"{first:02x}"
        assert text[end - 2 : end] == f"{last:02x}" or text[end - 1] == "*"


def test_lines_of_reads_show_the_buffer_as_far_as_it_was_ever_filled(tmp_path: Path) -> None:
    made = generate("gbase8s", changes=300, seed=3, to=tmp_path / "made", shape="reads", notes=True, buffer_size=600)
    lines = (made / "capture" / "stream-1.hex").read_text().splitlines()
    assert all(re.match(r"\[\d+ [A-Z ]{8}\] [0-9A-F]{8}( [0-9A-F]{2,8})*$", line) for line in lines)
    sizes = [len(line.split("] ")[1].replace(" ", "")) // 2 for line in lines]
    assert sizes == sorted(sizes)
    assert sizes[-1] <= 600
    assert "[1 TABSCHEM]" in lines[0]
