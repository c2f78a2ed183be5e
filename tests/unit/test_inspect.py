"""One record by its place: what ``inspect`` says is what ``events`` say, in every shape, without a JVM."""

from __future__ import annotations

import gzip
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import cdcwb_synth as synth
from cdcwb.errors import CaptureError, UnknownFormatError
from cdcwb.formats import identify, inspect, records
from cdcwb.formats.source import LocalFile
from tests import wire
from tests.local import read

# a table, a transaction with one row, an error, and bytes that are no record
STREAM = [
    wire.goods(),
    wire.begin(5, 0x10),
    wire.insert(5, 0x50, 3, "elm"),
    wire.commit(5, 0x90),
    wire.error(-83713),
    b"\xaa" * 9,
    wire.timeout(),
]
STARTS = [sum(map(len, STREAM[:at])) for at in range(len(STREAM) + 1)]
KINDS = ["schema", "begin", "change", "commit", "error", "malformed", "heartbeat"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "stream.bin"
    path.write_bytes(b"".join(STREAM))
    return path


def said(file: Path, offset: int, **options: Any) -> tuple[str, int, int]:
    """Kind, offset and length of what holds a place."""
    found = inspect(file, offset, **options)
    return str(found.event["kind"]), found.offset, found.length


def test_every_byte_is_in_one_record_or_gap(file: Path) -> None:
    for at, (first, last) in enumerate(pairwise(STARTS)):
        for offset in (first, (first + last) // 2, last - 1):
            assert said(file, offset) == (KINDS[at], first, last - first)


def test_a_record_is_taken_apart(file: Path) -> None:
    found = inspect(file, STARTS[2] + 40)
    assert found.file == str(file)
    assert found.record == STREAM[2]
    assert found.event["after"] == {"n": "3", "goods": "elm"}
    assert found.note == "decoded with table version 131@1"
    goods = next(field for field in found.field.walk() if field.name == "goods")
    assert (goods.value, goods.raw) == ("elm", b"\0\3elm")
    assert found.field.at(len(STREAM[2]) - 1) is not None


def test_what_is_no_record_says_why(file: Path) -> None:
    found = inspect(file, STARTS[5])
    assert (found.record, found.field.raw) == (STREAM[5], STREAM[5])
    assert found.note.startswith("a record header was expected")
    assert found.event == {"kind": "malformed", "reason": found.note}


@pytest.mark.parametrize("offset", [-1, STARTS[-1], STARTS[-1] + 1, 1 << 40])
def test_a_place_outside_the_file_is_an_error_that_names_it(file: Path, offset: int) -> None:
    with pytest.raises(CaptureError, match=f"the file has {STARTS[-1]} bytes") as caught:
        inspect(file, offset)
    assert (caught.value.path, caught.value.offset) == (str(file), offset)


def test_what_is_no_capture_is_not_inspected(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("nothing of the kind")
    with pytest.raises(UnknownFormatError, match="no record header"):
        inspect(other, 0)
    (tmp_path / "more.txt").write_text("nor this")
    with pytest.raises(CaptureError, match="expected one file, found 2"):
        inspect(tmp_path, 0)
    with pytest.raises(CaptureError, match=r"nowhere\.bin"):
        inspect(tmp_path / "nowhere.bin", 0)


def test_a_place_between_the_digits_of_a_record_is_in_that_record(tmp_path: Path) -> None:
    digits = STREAM[1].hex(" ", 4)
    text = f"first note\n{STREAM[0].hex(' ', 4)}\n{digits[:17]} the transaction begins\n{digits[18:]}\nlast note\n"
    file = tmp_path / "prose.txt"
    file.write_text(text)
    first, begin = text.index("00"), text.index(digits[:17])
    end = text.index("\nlast")
    assert said(file, text.index("the transaction")) == ("begin", begin, end - begin)
    assert said(file, begin + 8) == ("begin", begin, end - begin)
    # and what stands before, between and behind records is in none
    assert said(file, 0) == ("filler", 0, first)
    assert said(file, begin - 1) == ("filler", begin - 1, 1)
    assert said(file, len(text) - 1) == ("filler", end, len(text) - end)


SHAPES: list[dict[str, Any]] = [
    {"shape": "binary"},
    {"shape": "binary", "compression": "gzip"},
    {"shape": "hex"},
    {"shape": "hex", "notes": True, "compression": "zstd"},
    {"shape": "xxd"},
    {"shape": "hexdump"},
    {"shape": "reads"},
    {"shape": "buffers"},
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: " ".join(map(str, shape.values())))
def test_it_agrees_with_events_in_every_shape(tmp_path: Path, shape: dict[str, Any]) -> None:
    synth.generate("gbase8s", changes=15, seed=3, to=tmp_path, schema_changes=3, tables=2, all_types=False, **shape)
    (file,) = (tmp_path / "capture").iterdir()
    rows = read(file).to_pylist()
    assert len(rows) > 20
    for row in rows:
        for offset in {row["offset"], row["offset"] + row["length"] - 1}:
            found = inspect(file, offset)
            assert (found.offset, found.length, found.event["kind"]) == (row["offset"], row["length"], row["kind"])
            if row["record_type"] is None:
                continue
            assert found.record == row["raw"]
            for name in ("record_type", "operation", "position", "problems"):
                assert found.event[name] == row[name]
            for name in ("before", "after", "headers"):
                assert found.event[name] == (None if row[name] is None else dict(row[name]))


def test_a_record_that_goes_on_in_another_file_is_found_from_both(tmp_path: Path) -> None:
    # the table's schema stands in the first file only, and one record in two
    data = b"".join(STREAM[:4])
    cut = STARTS[2] + 20
    first, second = tmp_path / "part-9.bin", tmp_path / "part-10.bin"
    first.write_bytes(data[:cut])
    second.write_bytes(data[cut:])
    found = inspect(second, 3)
    assert (found.file, found.record) == (str(first), STREAM[2])
    assert found.event["after"] == {"n": "3", "goods": "elm"}
    third = tmp_path / "part-11.bin"
    third.write_bytes(wire.insert(6, 0xF0, 4, "oak"))
    later = inspect(third, 0)
    assert later.event["after"] == {"n": "4", "goods": "oak"}
    assert str(first) in later.note


def test_a_place_far_into_a_large_file_is_found_without_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the schema that is in force there stands between what is looked at of the beginning and the record
    monkeypatch.setattr(records, "HEAD", 1000)
    stream = [wire.goods()]
    stream += [wire.insert(5, 0x1000 + n, n, "elm") for n in range(200)]
    stream.append(wire.schema("number integer, product varchar(40,0)", 4, 1, 1))
    stream += [wire.insert(5, 0x2000 + n, n, "oak") for n in range(10)]
    file = tmp_path / "long.bin"
    file.write_bytes(b"".join(stream))
    at = sum(map(len, stream[:-5]))
    found = inspect(file, at + 7)
    assert (found.offset, found.record) == (at, stream[-5])
    assert found.event["after"] == {"number": "5", "product": "oak"}
    assert inspect(file, sum(map(len, stream[:101]))).event["after"] == {"n": "100", "goods": "elm"}


def test_options_are_heeded(file: Path) -> None:
    found = inspect(file, STARTS[2], prefix_width=1)
    assert found.event["problems"][0]["code"] == "size_words"
    other = {"schemas": {131: "m integer, product varchar(40,0)"}}
    bare = file.with_name("bare.bin")
    bare.write_bytes(STREAM[2])
    (file.with_name("alone")).mkdir()
    alone = file.with_name("alone") / "bare.bin"
    alone.write_bytes(STREAM[2])
    assert inspect(alone, 0).note == "no table schema of label 131 was seen"
    assert inspect(alone, 0, **other).event["after"] == {"m": "3", "product": "elm"}
    with pytest.raises(CaptureError, match="Did you mean 'schemas'"):
        inspect(file, 0, scheams="x")


def test_a_capture_is_recognised_from_its_first_bytes(tmp_path: Path) -> None:
    data = b"".join(STREAM)
    for name, content, shape, compression in (
        ("a.bin", data, "binary", None),
        ("b.dat", gzip.compress(data), "binary", "gzip"),
        ("c", data.hex(" ", 4).encode(), "hex", None),
    ):
        file = tmp_path / name
        file.write_bytes(content)
        found = identify(file)
        assert (found.format, found.shape, found.compression) == ("gbase8s", shape, compression)
        assert found.confidence > 0.9
        assert (found.files, found.bytes) == (1, len(content))
        assert any("record headers" in sentence for sentence in found.evidence)
    with pytest.raises(UnknownFormatError, match="Did you mean 'gbase8s'"):
        identify(tmp_path, format="gbase8")


def test_a_large_capture_is_read_in_part_or_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # 60 MB in two files, most of it one table
    rows = b"".join(wire.insert(5, 0x50 + n, n, "x" * 100) for n in range(2000))
    for number in range(2):
        with (tmp_path / f"part-{number}.bin").open("wb") as out:
            out.write(wire.goods())
            for _ in range(100):
                out.write(rows)
    sizes: list[int] = []
    read = LocalFile.read

    def counted(self: LocalFile, start: int, stop: int) -> Any:
        sizes.append(stop - start)
        return read(self, start, stop)

    monkeypatch.setattr(LocalFile, "read", counted)
    last = tmp_path / "part-1.bin"
    assert identify(tmp_path).files == 2
    assert sum(sizes) < 4 << 20
    sizes.clear()
    assert inspect(last, last.stat().st_size - 5).event["after"]["n"] == "1999"
    assert sum(sizes) <= last.stat().st_size
