"""The stream of records as files: raw binary, hex text, dumps, reads with stale rests; compressed or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

import numpy as np

from cdcwb_synth import dumps, reads
from cdcwb_synth.compressed import ENDINGS, opened
from cdcwb_synth.dumps import Bytes, Ints, Pieces
from cdcwb_synth.options import Options
from cdcwb_synth.truth_files import Places

__all__ = ["write_files"]

_ENDINGS: Final = {"binary": "bin", "buffers": "bin", "hex": "hex", "reads": "hex", "xxd": "xxd", "hexdump": "txt"}
_COPIED: Final = 16 << 20
_NAMES: Final = {
    1: "BEGINTX", 2: "COMMTX", 3: "RBTX", 40: "INSERT", 41: "DELETE", 42: "UPDBEF", 43: "UPDAFT", 62: "DISCARD",
    119: "TRUNCATE", 200: "TABSCHEM", 201: "TIMEOUT", 202: "ERROR",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _File:
    """One written file: its bytes of the stream, and where they are in it."""

    name: str
    start: int
    stop: int
    pieces: Pieces


def write_files(stream: Path, starts: Ints, options: Options, seed: int, folder: Path, first_file: int = 0) -> Places:
    """Writes the records of ``stream`` (each begins at one of ``starts``; the last of them is the stream's end) into
    files in ``folder``, named so that natural order (2 before 10) is stream order; the first has the number
    ``first_file``, from 0. Returns where every record is.
    """
    data: Bytes = np.memmap(stream, np.uint8, "r") if int(starts[-1]) else np.zeros(0, np.uint8)
    rng = Random(f"{seed} {options.shape}")
    column: Callable[[Ints], Ints]
    match options.shape:
        case "binary":
            column, digits, write = (lambda c: c), 1, _write_binary
        case "hex":
            column, digits, write = dumps.grouped(options.group), 2, _write_text
        case "xxd":
            column, digits, write = dumps.grouped(2), 2, _write_text
        case "hexdump":
            column, digits, write = (lambda c: 3 * c + (c >= 8)), 2, _write_text
        case "buffers":
            column, digits, write = (lambda c: c), 1, _write_reads
        case _:
            column, digits, write = dumps.grouped(options.group), 2, _write_reads
    files = list(write(data, starts, options, rng, folder, first_file))
    return _places(files, starts, column, digits)


def _places(files: list[_File], starts: Ints, column: Callable[[Ints], Ints], digits: int) -> Places:
    piece_start = np.concatenate([f.pieces.start for f in files])
    piece_offset = np.concatenate([f.pieces.offset for f in files])
    is_repeat = np.concatenate([f.pieces.is_repeat for f in files])

    def stands(at: Ints) -> tuple[Ints, Ints]:
        """First and last place (exclusive) of the digits of the bytes ``at``."""
        piece = np.searchsorted(piece_start, at, "right") - 1
        inside = np.where(is_repeat[piece], 0, column(at - piece_start[piece]))
        first = piece_offset[piece] + inside
        return first, first + np.where(is_repeat[piece], 1, digits)

    stops = np.array([f.stop for f in files], np.int64)
    file_index = np.searchsorted(stops, starts[:-1], "right").astype(np.int32)
    last = np.minimum(starts[1:], stops[file_index]) - 1
    offset, end = stands(starts[:-1])[0], stands(last)[1]
    return Places([f.name for f in files], file_index, offset, end - offset)


def _name(index: int, options: Options) -> str:
    return f"stream-{index + 1}.{_ENDINGS[options.shape]}{ENDINGS[options.compression]}"


def _cuts(starts: Ints, options: Options, rng: Random) -> list[tuple[int, int]]:
    """The stream's bytes that go into each file: whole records, or with a cut inside the last one."""
    total = int(starts[-1])
    ends = []
    previous = 0
    for number in range(1, options.files):
        record = int(np.searchsorted(starts, total * number // options.files))
        record = max(record, previous + 1)  # every file has the beginning of a record
        if record >= len(starts) - 1:
            break
        start, stop = int(starts[record]), int(starts[record + 1])
        if options.cut_records:
            # one cut in four lies within the sixteen bytes that every header begins with
            most = min(16, stop - start) if rng.random() < 0.25 else stop - start
            start += rng.randrange(1, most)
        ends.append(start)
        previous = record
    return list(zip([0, *ends], [*ends, total], strict=True))


def _single(start: int, offset: int = 0) -> Pieces:
    return Pieces(np.array([start], np.int64), np.array([offset], np.int64), np.zeros(1, bool))


def _write_binary(
    data: Bytes, starts: Ints, options: Options, rng: Random, folder: Path, number: int
) -> Iterator[_File]:
    for index, (start, stop) in enumerate(_cuts(starts, options, rng), number):
        name = _name(index, options)
        with opened(folder / name, options.compression) as put:
            for at in range(start, stop, _COPIED):
                put(data[at : min(stop, at + _COPIED)].tobytes())
        yield _File(name, start, stop, _single(start))


def _write_text(data: Bytes, starts: Ints, options: Options, rng: Random, folder: Path, number: int) -> Iterator[_File]:
    for index, (start, stop) in enumerate(_cuts(starts, options, rng), number):
        name, part = _name(index, options), np.asarray(data[start:stop])
        if options.shape == "xxd":
            texts, pieces = dumps.xxd(part)
        elif options.shape == "hexdump":
            texts, pieces = dumps.hexdump(part)
        else:
            texts, pieces = dumps.hex_lines(part, options.group, options.line_bytes, rng if options.notes else None)
        with opened(folder / name, options.compression) as put:
            for text in texts:
                put(text)
        yield _File(name, start, stop, Pieces(pieces.start + start, pieces.offset, pieces.is_repeat))


def _write_reads(
    data: Bytes, starts: Ints, options: Options, rng: Random, folder: Path, number: int
) -> Iterator[_File]:
    """One line (hex) or one buffer (binary) for every read, stale rest included. A line is as long as the longest
    read so far, rounded up to four bytes."""
    waiting = reads.plan(
        data,
        starts,
        buffer_size=options.buffer_size,
        files=options.files,
        cut_records=options.cut_records,
        ghosts=options.ghosts,
        rng=rng,
    )
    index, count, has_more = number, 0, True
    while has_more:
        name, at, has_more = _name(index, options), 0, False
        begins: list[int] = []
        offsets: list[int] = []
        first = last = 0
        with opened(folder / name, options.compression) as put:
            for read in waiting:
                count += 1
                text, lead = _rendered(read, count, options)
                first = first if begins else read.start
                begins.append(read.start)
                offsets.append(at + lead)
                put(text)
                at, last = at + len(text), read.stop
                if read.ends_file:
                    has_more = True
                    break
        pieces = Pieces(np.array(begins, np.int64), np.array(offsets, np.int64), np.zeros(len(begins), bool))
        yield _File(name, first, last, pieces)
        index += 1


def _rendered(read: reads.Read, count: int, options: Options) -> tuple[bytes, int]:
    """A read as written in the file, and the number of bytes there before its first digit."""
    if options.shape == "buffers":
        return read.content, 0
    shown = min(len(read.content), (read.used + 3) // 4 * 4)
    label = f"[{count} {_NAMES.get(read.name, '?'):<8}] ".encode() if options.notes else b""
    digits = dumps.hex_digits(np.frombuffer(read.content[:shown], np.uint8), options.group)
    return label + digits + b"\n", len(label)
