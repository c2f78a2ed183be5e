"""A capture says the same in every input shape, and every byte of every file is in one event."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import cdcwb_synth as synth
from cdcwb_synth.gbase8s_files import hexdump, xxd
from tests import wire
from tests.local import ledger, plan_of, read

# two schema changes, an error, all column types
WORKLOAD: dict[str, Any] = {"changes": 60, "seed": 31, "errors": 1, "schema_changes": 2, "tables": 3}

CONTENT = [
    "record_type",
    "kind",
    "operation",
    "position",
    "commit_position",
    "transaction_id",
    "changed_at",
    "table_version",
    "before",
    "after",
    "headers",
    "raw",
    "problems",
]


def content(table: pa.Table) -> pa.Table:
    """What the records of a capture say, without their places."""
    return table.filter(pc.is_valid(table.column("record_type"))).select(CONTENT)


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    """What the workload's records say when they stand in one binary file."""
    to = tmp_path_factory.mktemp("binary")
    table = read(synth.generate("gbase8s", to=to, **WORKLOAD) / "capture")
    assert table.num_rows > 90
    return content(table)


def check(folder: Path, truth: pa.Table, **options: Any) -> pa.Table:
    """Holds that the records are those of the truth and that the ledger of every file closes."""
    table, plan = read(folder, **options), plan_of(folder, **options)
    assert content(table).equals(truth)
    assert ledger(table) == {entry.path: entry.size for entry in plan.files}
    assert "malformed" not in table.column("kind").to_pylist()
    return table


FILES = [
    pytest.param({}, id="one file"),
    pytest.param({"files": 3}, id="three files"),
    pytest.param({"files": 3, "cut_records": True}, id="records cut over three files"),
]
SHAPES = [
    ("binary", {}),
    ("hex", {}),
    ("hex", {"group": 0, "line_bytes": 7}),
    ("hex", {"group": 2, "line_bytes": 30, "notes": True}),
    ("xxd", {}),
    ("hexdump", {}),
    ("reads", {}),
    ("reads", {"buffer_size": 200, "notes": True}),
    ("buffers", {}),
    ("buffers", {"buffer_size": 200}),
]


@pytest.mark.parametrize("files", FILES)
@pytest.mark.parametrize(("shape", "more"), SHAPES, ids=lambda value: str(value) if value else "")
def test_every_shape_says_the_same(
    tmp_path: Path, truth: pa.Table, shape: str, more: dict[str, Any], files: dict[str, Any]
) -> None:
    synth.generate("gbase8s", to=tmp_path, shape=shape, **WORKLOAD, **more, **files)
    table = check(tmp_path / "capture", truth)
    assert len(set(table.column("file").to_pylist())) == files.get("files", 1)


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
@pytest.mark.parametrize("shape", ["binary", "hex", "xxd", "hexdump", "reads", "buffers"])
def test_compression_changes_nothing_and_places_are_in_the_decompressed_file(
    tmp_path: Path, truth: pa.Table, shape: str, compression: str
) -> None:
    synth.generate("gbase8s", to=tmp_path / "plain", shape=shape, files=2, cut_records=True, **WORKLOAD)
    synth.generate(
        "gbase8s", to=tmp_path / "packed", shape=shape, files=2, cut_records=True, compression=compression, **WORKLOAD
    )
    plain, packed = read(tmp_path / "plain" / "capture"), check(tmp_path / "packed" / "capture", truth)
    places = ["file_index", "offset", "length", "kind"]
    assert packed.select(places).equals(plain.select(places))
    (detected,) = [row for row in plan_of(tmp_path / "packed" / "capture").detected if row["setting"] == "shape"]
    assert f"packed with {compression}" in detected["evidence"]


@pytest.mark.parametrize("dump", [xxd, hexdump])
def test_a_dump_of_read_buffers_says_the_same(tmp_path: Path, truth: pa.Table, dump: Any) -> None:
    synth.generate("gbase8s", to=tmp_path, shape="buffers", buffer_size=256, **WORKLOAD)
    (file,) = (tmp_path / "capture").iterdir()
    text = dump(file.read_bytes()).text
    file.write_bytes(text)
    table = check(tmp_path / "capture", truth)
    stale = [row for row in table.to_pylist() if row["kind"] == "filler" and row["raw"]]
    assert stale


def test_files_of_several_shapes_continue_one_stream(tmp_path: Path, truth: pa.Table) -> None:
    # the first part is binary, the second hex text, the third a dump; records are cut at their ends
    synth.generate("gbase8s", to=tmp_path, **WORKLOAD)
    (file,) = (tmp_path / "capture").iterdir()
    data = file.read_bytes()
    file.unlink()
    third = len(data) // 3
    (tmp_path / "capture" / "part-1.bin").write_bytes(data[:third])
    (tmp_path / "capture" / "part-2.txt").write_text(f"the second part\n{data[third : 2 * third].hex(' ', 4)}\n")
    (tmp_path / "capture" / "part-10.txt").write_bytes(xxd(data[2 * third :]).text)
    table = check(tmp_path / "capture", truth)
    assert table.column("kind").to_pylist().count("fragment") == 2


@pytest.mark.parametrize("split_size", [64, 1000])
def test_splits_change_no_shape(tmp_path: Path, truth: pa.Table, split_size: int) -> None:
    for shape in ("binary", "hex", "xxd", "buffers"):
        to = tmp_path / shape
        synth.generate("gbase8s", to=to, shape=shape, files=3, cut_records=True, **WORKLOAD)
        check(to / "capture", truth, split_size=split_size)


def test_a_shape_that_is_given_is_taken(tmp_path: Path, truth: pa.Table) -> None:
    synth.generate("gbase8s", to=tmp_path, shape="xxd", **WORKLOAD)
    check(tmp_path / "capture", truth, shape="xxd")
    (detected,) = [row for row in plan_of(tmp_path / "capture", shape="xxd").detected if row["setting"] == "shape"]
    assert (detected["value"], detected["overridden"]) == ("xxd", True)


# --- five reads written down in prose ---------------------------------------------------------------------------------

# A client with a buffer of 72 bytes reads the schema of table 133 (an id and a name), an idle marker twice, a begin, an
# insert and a commit. Somebody writes down what the buffer holds, word by word, with remarks, and says for the third
# read only that it is like the second. Everything behind a record is what earlier reads left there.
PLUMS = [
    wire.schema("id integer, name varchar(24,0)", 4, 1, 1, label=133),
    wire.timeout(),
    wire.begin(58, 0x2B018, at=1_751_330_096, user=2005),
    wire.insert(58, 0x2B050, 27, "damson plum", label=133),
    wire.commit(58, 0x2B0A0, at=1_751_330_097),
]

REMARKS = [
    " 4字节 记录头的字节数",
    " 4字节",
    " 4字节 分包方案号,一直是66",
    " 4字节 记录号 c8 对应的操作为 CDC_REC_TABSCHEM",
    " 4 字节 捕获表的标识",
    "",
    " 定长列的大小,建表语句为 create table plums(id int,name varchar(10))",
    " 4 字节 变长列数量",
    " 操作系统用户 7D5 --> 2005",
    "",
]


def _prose(reads: Sequence[tuple[bytes, int]]) -> str:
    """The reads as the author of an article writes them down: a word or two a line, remarks behind most of them."""
    lines = ["某数据库的 cdc 记录整理", "运行 cdc_opensess 函数,返回会话标识", "第一行整理如下"]
    for number, (content, used) in enumerate(reads):
        if number:
            lines.append(f"第{'二四五六'[number - 1]}列")
        words = [content[at : at + 4] for at in range(0, len(content), 4)]
        for at, word in enumerate(words):
            stale = 4 * at >= used
            remark = "" if stale else REMARKS[at % len(REMARKS)]
            if 4 * at < used <= 4 * at + 4:
                remark += " 后方的数据为上次 buffer 中的脏数据"
            lines.append(word.hex().upper() + remark)
        if number == 1:
            lines += ["第三列 同第二列 超时操作", "此时执行 insert into plums values(27,'damson plum');"]
    return "\n".join([*lines, "以上为一个简单的捕获流程"])


def _reads() -> Iterator[tuple[bytes, int]]:
    """Buffer contents and how many bytes of them each read brought."""
    content = bytearray(72)
    for record in PLUMS:
        content[: len(record)] = record
        yield bytes(content), len(record)


def test_a_capture_in_chinese_prose_is_read(tmp_path: Path) -> None:
    file = tmp_path / "article.txt"
    file.write_text(_prose(list(_reads())), encoding="utf-8")
    table = read(file)
    rows = [row for row in table.to_pylist() if row["kind"] != "filler"]
    assert [row["raw"] for row in rows] == PLUMS
    assert [row["kind"] for row in rows] == ["schema", "heartbeat", "begin", "change", "commit"]
    assert dict(rows[3]["after"]) == {"id": "27", "name": "damson plum"}
    assert {row["transaction_id"] for row in rows[2:]} == {"58@0000000C0002B018"}
    assert rows[4]["changed_at"].isoformat() == "2025-07-01T00:34:57+00:00"
    assert not any(row["problems"] for row in rows)
    assert ledger(table) == {str(file): file.stat().st_size}
    text = file.read_bytes()
    # a record owns everything from its first digit to its last, remarks included
    begin = rows[2]
    shown = text[begin["offset"] : begin["offset"] + begin["length"]]
    assert shown.startswith(b"00000028")
    assert shown.endswith(b"000007D5")
    assert "分包方案号".encode() in shown


def test_digits_that_adjoin_those_of_a_word_are_lost_and_the_rest_of_the_tail_is_stale(tmp_path: Path) -> None:
    lines = _prose(list(_reads())).split("\n")
    tails = [number + 1 for number, line in enumerate(lines) if "脏数据" in line]
    lines[tails[2]] = "7D5 --> 2005 对应该用户的id" + lines[tails[2]]
    file = tmp_path / "article.txt"
    file.write_text("\n".join(lines), encoding="utf-8")
    table = read(file).to_pylist()
    assert [row["raw"] for row in table if row["record_type"]] == PLUMS
    assert "malformed" not in {row["kind"] for row in table}
    problems = [problem["detail"] for row in table for problem in row["problems"] or ()]
    assert problems[2] == "stale bytes of the read buffer: they repeat some of an earlier read"


def test_the_same_reads_a_line_each_are_read(tmp_path: Path) -> None:
    file = tmp_path / "reads.txt"
    names = ("TABSCHEM", "TIMEOUT ", "BEGINTX ", "INSERT  ", "COMMTX  ")
    reads = zip(names, _reads(), strict=True)
    lines = [f"[{number} {name}] {held.hex(' ', 4)}" for number, (name, (held, _)) in enumerate(reads)]
    file.write_text("# five reads of a client\n" + "\n".join(lines) + "\n")
    table = read(file)
    assert [row["raw"] for row in table.to_pylist() if row["record_type"]] == PLUMS
    assert "malformed" not in table.column("kind").to_pylist()
    assert ledger(table) == {str(file): file.stat().st_size}
