"""Bytes as text, the ways in which people write captures down: plain hex, ``xxd`` and ``hexdump -C``.

Every writer takes the bytes of one file and gives the text and where each piece of it stands (:class:`Pieces`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["NOTES", "Bytes", "Ints", "Pieces", "grouped", "hex_digits", "hex_lines", "hexdump", "xxd"]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

_LOWER: Final = np.frombuffer("".join(f"{b:02x}" for b in range(256)).encode(), np.uint8).reshape(256, 2)
_UPPER: Final = np.frombuffer("".join(f"{b:02X}" for b in range(256)).encode(), np.uint8).reshape(256, 2)
_PRINTED: Final = np.array([b if 32 <= b < 127 else ord(".") for b in range(256)], np.uint8)
_CHUNK: Final = 1 << 16  # lines that are formatted together

NOTES: Final = (
    "the next lines follow at once",
    "说明:以下为记录内容",
    "4字节 记录标题的字节数",
    "<- user id 7D5, that is 2005",
    "记录号 c8 对应 CDC_REC_TABSCHEM",
    "the column is varchar(10)",
)
"""Remarks of the kind that people write between the digits; some hold words that look like digits."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """The location of bytes in a text. Piece ``i`` begins with byte ``start[i]``, whose first digit is at
    ``offset[i]``; ``is_repeat`` pieces have no digits: their bytes are those of the line before, and a ``*`` is at
    ``offset[i]``."""

    start: Ints
    offset: Ints
    is_repeat: npt.NDArray[np.bool_]


def hex_digits(data: Bytes, group: int) -> bytes:
    """``data`` as upper-case hex digits, a blank after every ``group`` bytes (0: none)."""
    text: str = data.tobytes().hex().upper()
    if not group:
        return text.encode()
    return " ".join(text[i : i + 2 * group] for i in range(0, len(text), 2 * group)).encode()


def grouped(group: int) -> Callable[[Ints], Ints]:
    """Where the first digit of the n-th byte of a line stands, counted from the line's first digit."""
    return lambda column: 2 * column + (column // group if group else 0)


def _lines(data: Bytes, width: int, render: Callable[[Bytes, int], bytes]) -> Iterator[tuple[int, int, bytes]]:
    """(first byte, line length, text of several lines) for the whole lines of ``data``, then for the rest."""
    whole = len(data) // width * width
    for start in range(0, whole, width * _CHUNK):
        rows = data[start : min(whole, start + width * _CHUNK)].reshape(-1, width)
        text = render(rows, start)
        yield start, len(text) // len(rows), text
    if whole < len(data):
        text = render(data[whole:].reshape(1, -1), whole)
        yield whole, len(text), text


def _assemble(parts: Iterator[tuple[int, int, bytes]], width: int, lead: int) -> tuple[list[bytes], Pieces]:
    texts: list[bytes] = []
    starts, offsets, at = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
    for first, length, text in parts:
        lines = np.arange(len(text) // length, dtype=np.int64)
        starts.append(first + width * lines)
        offsets.append(at + lead + length * lines)
        texts.append(text)
        at += len(text)
    start = np.concatenate(starts)
    return texts, Pieces(start, np.concatenate(offsets), np.zeros(len(start), bool))


def hex_lines(data: Bytes, group: int, width: int, notes: Random | None) -> tuple[list[bytes], Pieces]:
    """Plain hex, ``width`` bytes a line in groups of ``group`` bytes. ``notes``: remarks after and between lines."""

    def render(rows: Bytes, start: int) -> bytes:
        count, size = rows.shape
        columns = grouped(group)(np.arange(size, dtype=np.int64))
        line = np.full((count, int(columns[-1]) + 3), ord(" "), np.uint8)
        digits = _UPPER[rows]
        line[:, columns], line[:, columns + 1] = digits[..., 0], digits[..., 1]
        line[:, -1] = ord("\n")
        return line.tobytes()

    texts, pieces = _assemble(_lines(data, width, render), width, 0)
    if notes is None:
        return texts, pieces
    out, offsets, at = [], [], 0
    for line in b"".join(texts).splitlines():
        if notes.random() < 0.1:
            remark = f"{notes.choice(NOTES)}\n".encode()
            out.append(remark)
            at += len(remark)
        offsets.append(at)
        if notes.random() < 0.1:
            line += f"  {notes.choice(NOTES)}".encode()
        out.append(line + b"\n")
        at += len(line) + 1
    return out, Pieces(pieces.start, np.array(offsets, np.int64), pieces.is_repeat)


def _addresses(start: int, count: int, width: int) -> Bytes:
    """Eight hex digits for each of ``count`` lines of ``width`` bytes from ``start`` on."""
    numbers = (start + width * np.arange(count, dtype=np.int64)).astype(">u4")
    return _LOWER[numbers.view(np.uint8).reshape(-1, 4)].reshape(-1, 8)


def xxd(data: Bytes) -> tuple[list[bytes], Pieces]:
    """As ``xxd`` prints it: ``00000000: 0000 0024 …  ...$``, sixteen bytes a line."""
    columns = 10 + grouped(2)(np.arange(16, dtype=np.int64))

    def render(rows: Bytes, start: int) -> bytes:
        count, size = rows.shape
        line = np.full((count, 51 + size + 1), ord(" "), np.uint8)
        line[:, :8], line[:, 8] = _addresses(start, count, 16), ord(":")
        digits = _LOWER[rows]
        line[:, columns[:size]], line[:, columns[:size] + 1] = digits[..., 0], digits[..., 1]
        line[:, 51 : 51 + size] = _PRINTED[rows]
        line[:, -1] = ord("\n")
        return line.tobytes()

    return _assemble(_lines(data, 16, render), 16, 10)


def hexdump(data: Bytes) -> tuple[list[bytes], Pieces]:
    """As ``hexdump -C`` prints it; lines that equal the one before are left out and replaced by a ``*``."""
    cells = np.arange(16, dtype=np.int64)
    columns = 10 + 3 * cells + (cells >= 8)

    def render(rows: Bytes, start: int) -> bytes:
        count, size = rows.shape
        line = np.full((count, 60 + size + 3), ord(" "), np.uint8)
        line[:, :8] = _addresses(start, count, 16)
        digits = _LOWER[rows]
        line[:, columns[:size]], line[:, columns[:size] + 1] = digits[..., 0], digits[..., 1]
        line[:, 60] = line[:, -2] = ord("|")
        line[:, 61 : 61 + size] = _PRINTED[rows]
        line[:, -1] = ord("\n")
        return line.tobytes()

    texts, _ = _assemble(_lines(data, 16, render), 16, 10)
    whole = data[: len(data) // 16 * 16].reshape(-1, 16)
    repeats = np.zeros((len(data) + 15) // 16, bool)
    repeats[1 : len(whole)] = (whole[1:] == whole[:-1]).all(axis=1)
    out, offsets, at, was_repeat = [], [], 0, False
    for line, is_repeat in zip(b"".join(texts).splitlines(keepends=True), repeats.tolist(), strict=True):
        if is_repeat:
            if not was_repeat:
                out.append(b"*\n")
                at += 2
            offsets.append(at - 2)
        else:
            offsets.append(at + 10)
            out.append(line)
            at += len(line)
        was_repeat = is_repeat
    if len(data):
        out.append(f"{len(data):08x}\n".encode())
    return out, Pieces(16 * np.arange(len(repeats), dtype=np.int64), np.array(offsets, np.int64), repeats)
