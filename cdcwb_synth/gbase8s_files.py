"""A stream of records as files: raw binary, plain hex with or without notes, ``xxd``, ``hexdump -C``, and reads into
one buffer whose unused rest still holds what earlier reads left; compressed or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cdcwb_synth.files import ENDINGS, ByteFile

Ints = npt.NDArray[np.int64]

_ENDINGS: Final = {"binary": "bin", "buffers": "bin", "hex": "hex", "reads": "hex", "xxd": "xxd", "hexdump": "txt"}
_COPIED: Final = 16 << 20
_PRINTED: Final = bytes(b if 32 <= b < 127 else ord(".") for b in range(256))
_NAMES: Final = {
    1: "BEGINTX", 2: "COMMTX", 3: "RBTX", 40: "INSERT", 41: "DELETE", 42: "UPDBEF", 43: "UPDAFT", 62: "DISCARD",
    119: "TRUNCATE", 200: "TABSCHEM", 201: "TIMEOUT", 202: "ERROR",
}  # fmt: skip
_NOTES: Final = (
    "the next lines follow at once",
    "说明:以下为记录内容",
    "4字节 记录标题的字节数",
    "<- user id 7D5, that is 2005",
    "记录号 c8 对应 CDC_REC_TABSCHEM",
    "the column is varchar(10)",
)
"""Remarks of the kind that people write between the digits; some hold words that look like digits."""


@dataclass(slots=True)
class Dump:
    """Bytes in a file, and where they are. Piece ``i`` begins with the byte ``starts[i]``, whose first digit is at
    ``offsets[i]``; the n-th byte of a piece is ``column(n)`` further and has ``digits`` digits. ``repeats`` are pieces
    without digits: their bytes are those of the line before, and a ``*`` is at their offset."""

    column: Callable[[Any], Any]
    digits: int
    parts: list[bytes] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    repeats: list[bool] = field(default_factory=list)
    size: int = 0

    def add(self, part: bytes) -> None:
        """Adds text that holds no bytes."""
        self.parts.append(part)
        self.size += len(part)

    def line(self, start: int, text: bytes, lead: int, *, repeats: bool = False) -> None:
        """Adds a piece whose first digit follows ``lead`` characters."""
        self.starts.append(start)
        self.offsets.append(self.size + lead)
        self.repeats.append(repeats)
        self.add(text)

    @property
    def text(self) -> bytes:
        """What is in the file."""
        return b"".join(self.parts)


def _grouped(group: int) -> Callable[[Any], Any]:
    return lambda column: 2 * column + (column // group if group else 0)


def _digits(data: bytes, group: int) -> bytes:
    """Upper-case hex digits, a blank after every ``group`` bytes (0: none)."""
    return (data.hex(" ", -group) if group else data.hex()).upper().encode()


def _hex_lines(data: bytes, group: int, width: int, notes: Random | None) -> Dump:
    """Plain hex, ``width`` bytes a line in groups of ``group`` bytes. ``notes``: remarks after and between lines."""
    dump = Dump(_grouped(group), 2)
    for start in range(0, len(data), width):
        text = _digits(data[start : start + width], group)
        if notes is not None:
            if notes.random() < 0.1:
                dump.add(f"{notes.choice(_NOTES)}\n".encode())
            if notes.random() < 0.1:
                text += f"  {notes.choice(_NOTES)}".encode()
        dump.line(start, text + b"\n", 0)
    return dump


def xxd(data: bytes) -> Dump:
    """As ``xxd`` prints it: ``00000000: 0000 0024 …  ...$``, sixteen bytes a line."""
    dump = Dump(_grouped(2), 2)
    for start in range(0, len(data), 16):
        line = data[start : start + 16]
        text = f"{start:08x}: {line.hex(' ', -2):<39}  {line.translate(_PRINTED).decode('ascii')}\n"
        dump.line(start, text.encode(), 10)
    return dump


def hexdump(data: bytes) -> Dump:
    """As ``hexdump -C`` prints it; lines that equal the one before are left out and replaced by a ``*``."""
    dump = Dump(lambda column: 3 * column + (column >= 8), 2)
    before = b""
    for start in range(0, len(data), 16):
        line = data[start : start + 16]
        if line == before:
            if not dump.repeats[-1]:
                dump.add(b"*\n")
            dump.line(start, b"", -2, repeats=True)
            continue
        shown = line.translate(_PRINTED).decode("ascii")
        text = f"{start:08x}  {line[:8].hex(' '):<23}  {line[8:].hex(' '):<23}  |{shown}|\n"
        dump.line(start, text.encode(), 10)
        before = line
    if data:
        dump.add(f"{len(data):08x}\n".encode())
    return dump


def write_files(
    stream: Path, starts: Ints, options: Any, seed: int, folder: Path
) -> tuple[list[str], Callable[[Ints], tuple[Ints, Ints, Ints]]]:
    """Writes the records of ``stream`` (each begins at one of ``starts``; the last of them is the stream's end) into
    files in ``folder``, named so that natural order (2 before 10) is stream order. Returns their names, and the
    function that gives index of the file, offset and length of records by their numbers. A record that is continued in
    the next file has the place of its first part.
    """
    data: Any = np.memmap(stream, np.uint8, "r") if int(starts[-1]) else np.zeros(0, np.uint8)
    rng = Random(f"{seed} {options.shape}")
    names, stops, dumps = [], [], []
    make = _read_files if options.shape in ("reads", "buffers") else _cut_files
    for number, (stop, dump) in enumerate(make(data, starts, options, rng), 1):
        names.append(f"stream-{number}.{_ENDINGS[options.shape]}{ENDINGS[options.compression]}")
        file = ByteFile(folder / names[-1], options.compression)
        for part in dump.parts:
            file.put(part)
        if options.shape == "binary":
            for at in range(dump.starts[0], stop, _COPIED):
                file.put(data[at : min(stop, at + _COPIED)].tobytes())
        file.close()
        dump.parts = []
        stops.append(stop)
        dumps.append(dump)
    return names, _locator(starts, np.array(stops, np.int64), dumps)


def _locator(starts: Ints, stops: Ints, dumps: list[Dump]) -> Callable[[Ints], tuple[Ints, Ints, Ints]]:
    piece_starts = np.concatenate([np.array(dump.starts, np.int64) for dump in dumps])
    offsets = np.concatenate([np.array(dump.offsets, np.int64) for dump in dumps])
    repeats = np.concatenate([np.array(dump.repeats, bool) for dump in dumps])

    def places(at: Ints) -> tuple[Ints, Ints]:
        """First and last offset (exclusive) of the digits of the bytes ``at``."""
        piece = np.searchsorted(piece_starts, at, "right") - 1
        first = offsets[piece] + np.where(repeats[piece], 0, dumps[0].column(at - piece_starts[piece]))
        return first, first + np.where(repeats[piece], 1, dumps[0].digits)

    def locate(records: Ints) -> tuple[Ints, Ints, Ints]:
        file = np.searchsorted(stops, starts[records], "right")
        last = np.minimum(starts[records + 1], stops[file]) - 1
        offset = places(starts[records])[0]
        return file, offset, places(last)[1] - offset

    return locate


def _cut_files(data: Any, starts: Ints, options: Any, rng: Random) -> Iterator[tuple[int, Dump]]:
    """For each file where its bytes end in the stream, and what is in it: whole records, or with a cut inside the last
    one. One cut in four is within the sixteen bytes that every header begins with."""
    total, ends, previous = int(starts[-1]), list[int](), 0
    for number in range(1, options.files):
        record = int(np.searchsorted(starts, total * number // options.files))
        record = max(record, previous + 1)  # every file has the beginning of a record
        if record >= len(starts) - 1:
            break
        start, stop = int(starts[record]), int(starts[record + 1])
        if options.cut_records:
            start += rng.randrange(1, min(16, stop - start) if rng.random() < 0.25 else stop - start)
        ends.append(start)
        previous = record
    for start, stop in zip([0, *ends], [*ends, total], strict=True):
        match options.shape:
            case "binary":  # which is copied
                dump = Dump(lambda column: column, 1, starts=[0], offsets=[0], repeats=[False])
            case "hex":
                notes = rng if options.notes else None
                dump = _hex_lines(data[start:stop].tobytes(), options.group, options.line_bytes, notes)
            case shape:
                dump = (xxd if shape == "xxd" else hexdump)(data[start:stop].tobytes())
        dump.starts = [start + at for at in dump.starts]
        yield stop, dump


# --- reads ------------------------------------------------------------------------------------------------------------

_ALONE: Final = 201  # TIMEOUT: nothing else was there to be read
_FLUSH: Final = 0.35
_CHANCE: Final = 0.8


class _Read(NamedTuple):
    """``start:stop`` are the stream's bytes that this read got; ``content`` is the complete buffer afterwards, ``used``
    how much of it was ever written; ``name`` is its first record's number; ``ends_file``: the recorder continues in a
    new file."""

    start: int
    stop: int
    content: bytes
    used: int
    name: int
    ends_file: bool


def _read_files(data: Any, starts: Ints, options: Any, rng: Random) -> Iterator[tuple[int, Dump]]:
    """One line (hex) or one buffer (binary) for every read, stale rest included. A line is as long as the longest read
    so far, rounded up to four bytes."""
    is_binary = options.shape == "buffers"
    column, digits = ((lambda column: column), 1) if is_binary else (_grouped(options.group), 2)
    dump, stop = Dump(column, digits), 0
    for count, read in enumerate(_reads(data, starts, options, rng), 1):
        shown, label = read.content, b""
        if not is_binary:
            label = f"[{count} {_NAMES.get(read.name, '?'):<8}] ".encode() if options.notes else b""
            shown = label + _digits(shown[: (read.used + 3) // 4 * 4], options.group) + b"\n"
        dump.line(read.start, shown, len(label))
        stop = read.stop
        if read.ends_file:
            yield stop, dump
            dump = Dump(column, digits)
    if dump.parts or not stop:
        yield stop, dump


def _reads(data: Any, starts: Ints, options: Any, rng: Random) -> Iterator[_Read]:
    """The reads that deliver the stream ``data``, whose records begin at ``starts``, into one buffer.

    A read holds one record or several; when more is waiting than fits, it is full and ends inside a record, which the
    next one continues (``docs/formats/gbase8s.md §1.2``). Bytes after the end of a read are stale; stale rests begin
    with a whole old record now and then (a ghost). No record but an idle marker is where it would equal, byte for byte,
    what was there before: nobody could tell it from a stale one. With ``cut_records`` a file ends with a full read that
    ends inside a record; where the stream is too short for that there are fewer files.
    """
    buffer_size, cut_records, files = options.buffer_size, options.cut_records, options.files
    content, used = bytearray(buffer_size), 0
    old: dict[int, int] = {}  # where whole old records begin and end
    total = int(starts[-1])
    ends = [total * i // files for i in range(1, files)]
    begin = length = 0  # of the read that is being filled
    records: list[tuple[int, int]] = []  # whole records in it
    name, follows_alone = 0, False

    def emit(ends_file: bool) -> _Read:
        nonlocal begin, length, records, used, old
        content[:length] = data[begin : begin + length].tobytes()
        used = max(used, length)
        old = {a: b for a, b in old.items() if a >= length} | dict(records)
        read = _Read(begin, begin + length, bytes(content), used, name, ends_file)
        if ends_file:
            del ends[0]
        begin, length, records = begin + length, 0, []
        return read

    for start, stop in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        record = data[start:stop].tobytes()
        number = int.from_bytes(record[12:16], "big")
        is_due = bool(ends) and start >= ends[0]
        if length:
            equals_old = length < buffer_size and record.startswith(content[length : length + len(record)])
            must = number == _ALONE or follows_alone or equals_old
            # a second undo of one savepoint is, byte for byte, the first one
            would_equal = data[begin : begin + len(record)].tobytes() == record
            # a ghost: the read would end, or one with this record alone would, where an old record begins
            is_chance = length in old or len(record) in old
            wish = rng.random() < (_CHANCE if is_chance else _FLUSH)
            fits = length + len(record) <= buffer_size
            may = not would_equal and not (is_due and cut_records)
            if must or (may and wish) or (may and not fits and not cut_records and rng.random() < 0.5):
                yield emit(is_due and not cut_records)
        if not length:
            name = number
        if length + len(record) <= buffer_size:
            records.append((length, length + len(record)))
        length += len(record)
        while length > buffer_size:
            rest, length = length - buffer_size, buffer_size
            yield emit(bool(ends) and cut_records and begin + length >= ends[0])
            length, name = rest, number
        follows_alone = number == _ALONE
    if length:
        yield emit(False)
