"""Listing, compression and shapes of files: what `cdcwb.formats.files` promises."""

from __future__ import annotations

import gzip
import os
import socket
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import zstandard

from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats import get_format
from cdcwb.formats.files import Source, list_files, natural_key, open_source

# An idle marker: 24 bytes of header, nothing behind it.
TIMEOUT = bytes.fromhex("00000018 00000000 00000042 000000C9 0000000000000000")


def put(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(TIMEOUT)


def names(found: list[str], folder: Path) -> list[str]:
    return [str(Path(path).relative_to(folder)) for path in found]


def content(source: Source) -> bytes:
    return source.read(0, source.length).tobytes()


def opened(folder: Path, data: bytes, shape: str = "auto", limit: int | None = None, name: str = "capture") -> Source:
    path = folder / name
    path.write_bytes(data)
    return open_source(path, shape, limit)


# Listing


def test_numbers_in_names_count_by_value(tmp_path: Path) -> None:
    put(tmp_path, "a10", "a2", "a1", "b1")
    assert names(list_files(tmp_path), tmp_path) == ["a1", "a2", "a10", "b1"]


def test_the_whole_path_below_a_folder_counts_part_by_part(tmp_path: Path) -> None:
    put(tmp_path, "day10/read1", "day2/read10", "day2/read9", "day2-late/read1", "day2/sub/read1")
    assert names(list_files(tmp_path), tmp_path) == [
        "day2/read9",
        "day2/read10",
        "day2/sub/read1",
        "day2-late/read1",
        "day10/read1",
    ]


@pytest.mark.parametrize(
    ("smaller", "greater"),
    [
        ("a2", "a10"),
        ("a", "a1"),
        ("1", "a"),
        ("a1b2", "a1b10"),
        ("A3", "b2"),
        ("x/2", "x/10"),
        ("a02", "a2"),
        ("1a", "1b"),
    ],
)
def test_natural_order(smaller: str, greater: str) -> None:
    assert natural_key(smaller) < natural_key(greater)
    assert sorted([greater, smaller], key=natural_key) == [smaller, greater]


def test_hidden_files_and_folders_are_left_out_of_a_folder(tmp_path: Path) -> None:
    put(tmp_path, "part-0", "_SUCCESS", ".part-0.crc", "_temporary/part-1", ".git/part-2", "x/part-3")
    assert names(list_files(tmp_path), tmp_path) == ["part-0", "x/part-3"]


def test_copies_that_editors_keep_are_left_out_of_a_folder(tmp_path: Path) -> None:
    put(tmp_path, "a.txt", "a.txt~", "#a.txt#", ".#a.txt", ".a.txt.swp", "a.bak", "#b", "old~/a.txt")
    assert names(list_files(tmp_path), tmp_path) == ["#b", "a.bak", "a.txt"]


def test_a_hidden_file_that_is_named_is_read(tmp_path: Path) -> None:
    put(tmp_path, "_part")
    assert names(list_files(tmp_path / "_part"), tmp_path) == ["_part"]


def test_several_paths_are_in_one_order_and_nothing_is_listed_twice(tmp_path: Path) -> None:
    put(tmp_path, "b/1", "a/10", "a/2", "c")
    given = [tmp_path / "c", str(tmp_path / "b"), tmp_path / "a", tmp_path / "a" / "2"]
    assert names(list_files(given), tmp_path) == ["a/2", "a/10", "b/1", "c"]


def test_paths_come_out_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "sub/a")
    monkeypatch.chdir(tmp_path / "sub")
    assert list_files("../sub/./a") == [str(tmp_path / "sub" / "a")]
    assert list_files(f"file://{tmp_path}/sub/a") == [str(tmp_path / "sub" / "a")]


def test_a_link_to_a_listed_file_adds_nothing(tmp_path: Path) -> None:
    put(tmp_path, "read1", "read2")
    (tmp_path / "latest").symlink_to("read2")
    assert names(list_files(tmp_path), tmp_path) == ["read1", "read2"]


def test_linked_folders_are_followed_but_loops_end(tmp_path: Path) -> None:
    put(tmp_path, "outside/a", "capture/b")
    (tmp_path / "capture" / "more").symlink_to(tmp_path / "outside")
    (tmp_path / "capture" / "again").symlink_to(tmp_path / "capture")
    assert names(list_files(tmp_path / "capture"), tmp_path) == ["capture/b", "capture/more/a"]


def test_sockets_in_a_folder_are_no_captures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "a")
    monkeypatch.chdir(tmp_path)  # the name of a socket may not be long
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("s")
        assert names(list_files(tmp_path), tmp_path) == ["a"]
        with pytest.raises(CaptureError, match="neither a file nor a folder"):
            list_files(tmp_path / "s")


def test_what_cannot_be_listed_is_said_in_one_sentence(tmp_path: Path) -> None:
    put(tmp_path, "capture.bin", "hidden/_a")
    (tmp_path / "empty").mkdir()
    (tmp_path / "lost").symlink_to("nowhere")
    for path, sentence in [
        (tmp_path / "captur.bin", "there is no such file or folder; did you mean capture.bin?"),
        (tmp_path / "no" / "such", "there is no such file or folder"),
        (tmp_path / "empty", "the folder holds no files"),
        (tmp_path / "hidden", "the folder holds no files"),
        (tmp_path / "lost", "the symbolic link points to nothing"),
    ]:
        with pytest.raises(CaptureError) as error:
            list_files(path)
        assert str(error.value) == f"{path}: {sentence}"
    with pytest.raises(CaptureError, match="points to nothing"):
        list_files(tmp_path)
    with pytest.raises(CaptureError, match="no path was given"):
        list_files([])
    with pytest.raises(CaptureError, match="the path is empty"):
        list_files("")
    with pytest.raises(CaptureError, match=r"ftp:// is not supported \(s3, .* file are supported\)"):
        list_files("ftp://host/capture")


def test_a_file_that_may_not_be_read_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "a")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(CaptureError, match=r"a: cannot be read \(permission denied\)"):
        list_files(tmp_path)


# Binary files


def test_the_bytes_of_a_binary_file_are_read_only(tmp_path: Path) -> None:
    source = opened(tmp_path, TIMEOUT * 3)
    assert (source.shape, source.compression, source.size, source.length) == ("binary", None, 72, 72)
    assert source.evidence == "66 of the first 72 bytes are control characters, which no text has"
    assert (source.line_starts, source.read_starts, source.problem) == (None, None, None)
    view = source.read(24, 48)
    assert view.tobytes() == TIMEOUT
    assert not view.flags.writeable


def test_reads_and_places_are_clipped_to_the_file(tmp_path: Path) -> None:
    source = opened(tmp_path, TIMEOUT)
    assert source.read(20, 99).tobytes() == TIMEOUT[20:]
    assert source.read(-5, 2).tobytes() == TIMEOUT[:2]
    assert source.read(30, 40).size == source.read(9, 3).size == 0
    offset, end = source.places(np.array([0, 7, 20]), np.array([4, 9, 99]))
    assert offset.tolist() == [0, 7, 20]
    assert end.tolist() == [4, 9, 24]
    assert offset.dtype == end.dtype == np.int64


def test_an_empty_file_is_a_binary_one_of_no_bytes(tmp_path: Path) -> None:
    source = opened(tmp_path, b"")
    assert (source.shape, source.length, source.evidence) == ("binary", 0, "the file is empty")


def test_a_closed_source_lets_its_bytes_go(tmp_path: Path) -> None:
    for data in (TIMEOUT, TIMEOUT.hex().encode()):
        source = opened(tmp_path, data)
        assert source.length == 24
        source.close()
        assert source.read(0, 24).size == 0


def test_with_a_limit_only_the_beginning_counts(tmp_path: Path) -> None:
    assert content(opened(tmp_path, TIMEOUT * 9, limit=30)) == (TIMEOUT * 9)[:30]
    assert opened(tmp_path, gzip.compress(TIMEOUT * 9), limit=30).size == 30
    assert content(opened(tmp_path, TIMEOUT.hex().encode(), limit=36)) == TIMEOUT[:18]


# Compression


@pytest.mark.parametrize(("kind", "pack"), [("gzip", gzip.compress), ("zstd", zstandard.compress)])
def test_compression_is_told_by_content_and_several_members_are_one_file(tmp_path: Path, kind: str, pack) -> None:
    for data, whole in [
        (pack(TIMEOUT), TIMEOUT),
        (pack(TIMEOUT) + pack(b"") + pack(TIMEOUT * 2), TIMEOUT * 3),
        (pack(TIMEOUT) + b"\0" * 5000, TIMEOUT),
    ]:
        source = opened(tmp_path, data, name="capture.txt")
        assert (source.compression, source.shape, source.problem) == (kind, "binary", None)
        assert (source.size, content(source)) == (len(whole), whole)


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_texts_are_read_through_compression_and_places_count_decompressed_bytes(tmp_path: Path, pack) -> None:
    source = opened(tmp_path, pack(b"# idle\n" + TIMEOUT.hex(" ", 4).encode()))
    assert (source.shape, content(source)) == ("hex", TIMEOUT)
    assert [int(x[0]) for x in source.places(np.array([4]), np.array([8]))] == [16, 24]


def test_a_skippable_zstd_frame_in_front_is_skipped(tmp_path: Path) -> None:
    frame = bytes.fromhex("502A4D18 03000000") + b"abc"
    assert content(opened(tmp_path, frame + zstandard.compress(TIMEOUT))) == TIMEOUT


def noise(size: int) -> bytes:
    return np.random.default_rng(7).bytes(size)


@pytest.mark.parametrize(("kind", "pack"), [("gzip", gzip.compress), ("zstd", zstandard.compress)])
def test_a_file_that_was_cut_off_gives_what_is_there_and_says_so(tmp_path: Path, kind: str, pack) -> None:
    whole = noise(400_000)
    packed = pack(whole)
    source = opened(tmp_path, packed[:300_000], "binary")
    assert whole.startswith(content(source))
    assert source.length > 100_000
    assert source.problem == f"the {kind} data is cut off at offset 300,000 of the compressed file"


def test_what_stands_before_damage_comes_out_to_the_byte(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(b"abcd" * 100_000))
    packed[-8] ^= 1  # the checksum: everything before it is whole
    source = opened(tmp_path, bytes(packed), "binary")
    assert content(source) == b"abcd" * 100_000
    assert source.problem is not None
    assert source.problem.startswith("the gzip data is damaged near offset ")

    framed = zstandard.ZstdCompressor(write_checksum=True).compress(b"abcd" * 100_000)
    source = opened(tmp_path, framed[:-1] + bytes([framed[-1] ^ 1]), "binary")
    assert content(source) == b"abcd" * 100_000
    assert source.problem is not None
    assert source.problem.startswith("the zstd data is damaged near offset ")


def test_other_bytes_behind_a_compressed_file_are_reported(tmp_path: Path) -> None:
    packed = gzip.compress(TIMEOUT)
    source = opened(tmp_path, packed + b"more")
    assert content(source) == TIMEOUT
    assert source.problem == f"the gzip data ends at offset {len(packed)} of the compressed file; other bytes follow"


def test_unpacking_needs_little_memory_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    packed = gzip.compress(noise(1 << 20) * 48)
    path = tmp_path / "capture"
    path.write_bytes(packed)
    tracemalloc.start()
    try:
        source = open_source(path, "binary")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert source.length == 48 << 20
    assert peak < 8 << 20
    assert list(scratch.iterdir()) == []


# Shapes


def test_an_unknown_shape_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"option shape: expected one of auto, .*found 'hexdmp'\. Did you mean"):
        opened(tmp_path, TIMEOUT, "hexdmp")


def test_a_given_shape_is_obeyed(tmp_path: Path) -> None:
    text = TIMEOUT.hex().encode()
    assert content(opened(tmp_path, text, "binary")) == text
    source = opened(tmp_path, text, "hex")
    assert (content(source), source.evidence) == (TIMEOUT, "shape=hex was given")
    with pytest.raises(CaptureError, match="capture: is not xxd output: no offset continues the line before"):
        opened(tmp_path, text, "xxd")


def test_a_file_that_is_gone_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"gone: cannot be read \(No such file or directory\)"):
        open_source(tmp_path / "gone")


@pytest.mark.parametrize(
    "prose",
    [
        b"Meeting notes, 2025-03-23: nothing to report.\n",
        b'{"op": "U", "before": {"id": 7}, "after": {"id": 8, "note": "decade"}}\n' * 9,
        b"id,name,amount\n10,Ada,20.50\n12,Bob,3.25\n",
        "备注：会议在 10 点开始，房间 2005。\n".encode(),
        b"<row id='4711'><v>facade</v></row>\n",
    ],
)
def test_a_text_without_hex_is_taken_as_it_is(tmp_path: Path, prose: bytes) -> None:
    source = opened(tmp_path, prose)
    assert (source.shape, content(source)) == ("binary", prose)
    assert source.evidence.startswith("text without a capture in hex digits")


def test_a_capture_of_mostly_text_is_binary_all_the_same(tmp_path: Path) -> None:
    record = bytes.fromhex("00000028 00001F42 00000042 00000028") + bytes(24) + b"\x1f\x40" + b"cafe" * 2000
    assert opened(tmp_path, record * 3).shape == "binary"


def test_a_stray_zero_byte_does_not_make_a_hex_text_binary(tmp_path: Path) -> None:
    text = TIMEOUT.hex(" ", 4).encode() + b"\n"
    source = opened(tmp_path, text * 20 + b"\0" + text * 20)
    assert (source.shape, content(source)) == ("hex", TIMEOUT * 40)


def test_a_binary_file_may_begin_like_a_utf_16_text(tmp_path: Path) -> None:
    assert opened(tmp_path, b"\xff\xfe" + TIMEOUT * 9).shape == "binary"


def test_a_text_in_utf_32_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="capture: is not hex output: it has no groups of hex digits"):
        opened(tmp_path, TIMEOUT.hex().encode("utf-32"), "hex")


# The real capture


@pytest.mark.samples
def test_no_other_sample_is_taken_for_a_hex_capture(samples: Path) -> None:
    paths = [path for path in list_files(samples) if "/reduced/" not in path]
    found = {Path(path).name for path in paths if get_format("gbase8s").recognise([path], {}).confidence}
    assert found == {"seed_reads_with_stale.hex", "seed_stream_clean.bin"}


@pytest.mark.samples
def test_the_real_stream_is_binary_and_its_reads_are_hex_text(samples: Path) -> None:
    clean = open_source(samples / "gbase8s" / "seed_stream_clean.bin")
    assert (clean.shape, clean.length) == ("binary", 220)
    reads = open_source(samples / "gbase8s" / "seed_reads_with_stale.hex")
    assert (reads.shape, reads.length, reads.problem) == ("hex", 328, None)
    assert reads.line_starts is not None
    assert reads.line_starts.tolist() == [0, 68, 136, 200, 264]
    stream, at = content(clean), 0
    for start in reads.line_starts.tolist():
        length = int.from_bytes(stream[at : at + 4], "big") + int.from_bytes(stream[at + 4 : at + 8], "big")
        assert reads.read(start, start + length).tobytes() == stream[at : at + length]
        at += length
    assert at == 220
