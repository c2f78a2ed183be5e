"""The files of a capture and what is in them: listing, natural order, compression, and bytes behind every shape.

A *source* is one file as wire bytes. A binary file is a view on a memory map. A compressed one is unpacked into a temporary
file first, which has no name and is gone when the source is closed. Hex text and dumps are read into wire bytes, each of
which knows its place in the text. Shapes are told by content, never by the name of a file.
"""

from __future__ import annotations

import difflib
import mmap
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Protocol
from urllib.parse import unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats.compressed import compression_of, unpack
from cdcwb.formats.digits import Digits, TextSource
from cdcwb.formats.dumps import read_dump, recognise
from cdcwb.formats.hextext import read_hex
from cdcwb.formats.textlines import Bytes, Ints, Text

__all__ = ["SHAPES", "BinarySource", "Source", "list_files", "natural_key", "open_source"]

SHAPES: Final = ("auto", "binary", "hex", "xxd", "hexdump")
"""The values of the option ``shape``."""

_SAMPLE: Final = 1 << 16
_CONTROL: Final = np.zeros(256, np.bool_)
_CONTROL[[*range(0x20), 0x7F]] = True
_CONTROL[list(b"\t\n\v\f\r\x1b")] = False
_DIGITS: Final = re.compile(r"([0-9]+)")
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")


class Source(Protocol):
    """One input file as wire bytes.

    ``path``; ``shape``: binary, hex, xxd or hexdump; ``compression``: gzip, zstd or None; ``size``: bytes of the
    decompressed file (of what was looked at of it, where there is a limit); ``length``: wire bytes; ``line_starts``: for
    texts the wire index of the first byte of every line that holds data, None for binary; ``read_starts``: for dumps the
    wire indices where offsets begin anew (the first is 0), None where nothing tells; ``data_share``: digits that are data
    per character that is no white space (1.0 for binary files, 0.0 for a text without any); ``evidence``: why this shape,
    in a sentence; ``problem``: what is wrong with the file as such (cut off, damaged, lines missing), None where all is well.
    """

    path: str
    shape: str
    compression: str | None
    size: int
    length: int
    line_starts: Ints | None
    read_starts: Ints | None
    data_share: float
    evidence: str
    problem: str | None

    def read(self, start: int, stop: int) -> Bytes:
        """The wire bytes from ``start`` to ``stop``, clipped to ``length``; read-only."""
        ...

    def places(self, start: NDArray[Any], stop: NDArray[Any]) -> tuple[Ints, Ints]:
        """Where wire ranges stand in the decompressed file: (first byte, behind the last byte), both int64."""
        ...

    def close(self) -> None:
        """Let the bytes go."""
        ...


class BinarySource:
    """A file whose bytes are the wire bytes: a :class:`Source`."""

    shape = "binary"
    line_starts: Ints | None = None
    read_starts: Ints | None = None

    def __init__(
        self,
        path: str,
        data: Bytes,
        *,
        compression: str | None = None,
        evidence: str = "",
        problem: str | None = None,
        data_share: float = 1.0,
    ) -> None:
        self.path = path
        self.compression = compression
        self.size = self.length = int(data.size)
        self.evidence = evidence
        self.problem = problem
        self.data_share = data_share
        self._data = data

    def read(self, start: int, stop: int) -> Bytes:
        """The bytes from ``start`` to ``stop``, clipped to ``length``; a view on the memory map."""
        start = min(max(start, 0), self.length)
        return self._data[start : min(max(stop, start), self.length)]

    def places(self, start: NDArray[Any], stop: NDArray[Any]) -> tuple[Ints, Ints]:
        """The ranges themselves, clipped to the file."""
        first = np.clip(np.asarray(start, np.int64), 0, self.length)
        return first, np.clip(np.asarray(stop, np.int64), first, self.length)

    def close(self) -> None:
        """Let the memory map go (it ends with the last view on it)."""
        self._data = self._data[:0].copy()
        self.length = 0

    def __enter__(self) -> BinarySource:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def natural_key(path: str) -> tuple[tuple[tuple[int | str, ...], str], ...]:
    """A sort key that orders paths part by part, and numbers within a part by value: a2 before a10, a/b before a-1/b."""
    parts = path.split(os.sep)
    return tuple((tuple(int(t) if t.isdecimal() else t for t in _DIGITS.split(part.casefold())), part) for part in parts)


def list_files(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    """The files of a capture as absolute paths, in natural order.

    A folder stands for all files below it, in all its folders; names that begin with ``.`` or ``_`` (``_SUCCESS``) are left
    out there. A file that is reached twice, also by a symbolic link, is listed once.

    Raises CaptureError for a path that does not exist or cannot be read, and for a folder without files.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise CaptureError("no path was given")
    found: dict[str, str] = {}  # what the file really is: how it was reached
    for path in map(_local, given):
        for name in [path] if not os.path.isdir(path) else list(_below(path)):
            _check(name)
            real = os.path.realpath(name)
            if real not in found or name == real:
                found[real] = name
    return sorted(found.values(), key=natural_key)


def _local(path: str | os.PathLike[str]) -> str:
    name = os.fspath(path)
    scheme = _URL.match(name)
    if scheme and scheme[1].lower() == "file":
        name = unquote(urlsplit(name).path)
    elif scheme and not os.path.exists(name):
        raise CaptureError(f"{scheme[1]}:// is not read; copy the files here or mount their file system", path=name)
    if not name:
        raise CaptureError("the path is empty")
    return os.path.abspath(name)


def _below(folder: str) -> Iterator[str]:
    """All files below a folder; folders behind symbolic links too, each once."""
    seen: set[str] = set()
    some = False

    def failed(error: OSError) -> None:
        raise CaptureError(f"the folder cannot be read ({error.strerror})", path=str(error.filename)) from error

    for parent, folders, names in os.walk(folder, onerror=failed, followlinks=True):
        real = os.path.realpath(parent)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted((f for f in folders if f[0] not in "._"), key=natural_key)
        for name in sorted((n for n in names if n[0] not in "._"), key=natural_key):
            path = os.path.join(parent, name)
            if os.path.islink(path) or stat.S_ISREG(os.lstat(path).st_mode):  # sockets and pipes are no captures
                some = True
                yield path
    if not some:
        raise CaptureError("the folder holds no files", path=folder)


def _check(path: str) -> None:
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        what = "the symbolic link points to nothing" if os.path.islink(path) else "there is no such file or folder"
        raise CaptureError(what + _nearest(path), path=path) from None
    except OSError as error:
        raise CaptureError(f"cannot be read ({error.strerror})", path=path) from error
    if not stat.S_ISREG(mode):
        raise CaptureError("is neither a file nor a folder", path=path)
    if not os.access(path, os.R_OK):
        raise CaptureError("cannot be read (permission denied)", path=path)


def _nearest(path: str) -> str:
    try:
        near = difflib.get_close_matches(os.path.basename(path), os.listdir(os.path.dirname(path)), n=1)
    except OSError:
        return ""
    return f"; did you mean {near[0]}?" if near else ""


def open_source(path: str | os.PathLike[str], shape: str = "auto", limit: int | None = None) -> Source:
    """Open one file as wire bytes.

    ``shape`` is one of :data:`SHAPES`; ``auto`` decides by content. With a ``limit`` only so many bytes of the decompressed
    file are looked at, and ``size`` and ``length`` speak of them.

    Raises CaptureError for a file that cannot be read or is a kind of text that is not read, OptionError for an unknown shape.
    """
    if shape not in SHAPES:
        near = difflib.get_close_matches(shape, SHAPES, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise OptionError(f"shape={shape!r} is unknown, it must be one of {', '.join(SHAPES)}{hint}")
    name = os.fspath(path)
    try:
        data, compression, problem = _bytes(name, limit)
        return _source(name, data, shape, compression, problem)
    except CaptureError as error:
        error.path = error.path or name
        raise
    except OSError as error:
        raise CaptureError(f"cannot be read ({error.strerror or error})", path=name) from error


def _bytes(path: str, limit: int | None) -> tuple[Bytes, str | None, str | None]:
    """The decompressed bytes of a file as a memory map, its compression, and what is wrong with that."""
    with Path(path).open("rb") as file:
        compression = compression_of(file.read(4))
        if compression is None:
            return _mapped(file, limit), None, None
        with tempfile.TemporaryFile(prefix="cdcwb-") as plain:
            problem = unpack(file, compression, plain.write, limit)
            plain.flush()
            return _mapped(plain, None), compression, problem


def _mapped(file: IO[bytes], limit: int | None) -> Bytes:
    size = os.fstat(file.fileno()).st_size
    if limit is not None:
        size = min(size, limit)
    if not size:
        return np.empty(0, np.uint8)
    return np.frombuffer(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ), np.uint8)


def _source(path: str, data: Bytes, shape: str, compression: str | None, problem: str | None) -> Source:
    as_binary, evidence = (shape == "binary", "") if shape != "auto" else _is_binary(data)
    if shape != "auto":
        evidence = f"shape={shape} was given"
    if as_binary:
        return BinarySource(path, data, compression=compression, evidence=evidence, problem=problem)

    def text_source(digits: Digits, found: str, why: str) -> TextSource:
        return TextSource(
            path,
            text,
            digits,
            shape=found,
            size=int(data.size),
            compression=compression,
            evidence=evidence if shape != "auto" else why,
            problem=problem,
        )

    text = Text(data)
    if shape != "hex":
        style = recognise(text, None if shape == "auto" else shape)
        if style is not None:
            kind = "a colon" if style.shape == "xxd" else "white space"
            why = f"lines of an offset, {kind} and hex columns, in which each offset is the one before plus its bytes"
            return text_source(read_dump(text, style), style.shape, why)
        if shape != "auto":
            raise CaptureError(f"is no {shape} dump: no lines with offsets that add up")
    spelled = text_source(read_hex(text), "hex", "")
    share = f"{spelled.data_share:.0%} of the characters are hex digits in groups"
    spelled.evidence = spelled.evidence or f"text in which {share}"
    doubtful = bool(evidence) and shape == "auto"
    if shape == "hex" or (spelled.data_share >= 0.5 if doubtful else spelled.length >= 16 or spelled.data_share >= 0.5):
        return spelled
    what = evidence or "a text without a capture in hex digits; its characters are taken as they are"
    return BinarySource(
        path, data, compression=compression, evidence=what, problem=problem, data_share=1.0 if doubtful else 0.0
    )


def _is_binary(data: Bytes) -> tuple[bool, str]:
    """Whether the first bytes are those of a binary file, and why; a reason with False means that they may be."""
    head = data[:_SAMPLE]
    if not head.size:
        return True, "the file is empty"
    if _is_utf16(head):
        return False, ""
    whole = head.tobytes()
    control = int(np.count_nonzero(_CONTROL[head]))
    if not control:
        return False, ""
    reason = f"{control:,} of the first {head.size:,} bytes are control characters, which no text has"
    # Three zero bytes in a row are in every header; a damaged text may have a stray one.
    return b"\0\0\0" in whole or control > head.size // 50, reason


def _is_utf16(head: Bytes) -> bool:
    """A byte order mark, and what follows looks like text: a binary file may begin with these two bytes too."""
    mark = head[:2].tobytes()
    if mark not in (b"\xff\xfe", b"\xfe\xff"):
        return False
    units = head[: head.size & ~1].view("<u2" if mark == b"\xff\xfe" else ">u2")[1:]
    plain = np.count_nonzero((units >= 0x20) & (units < 0x7F)) + np.count_nonzero(np.isin(units, (9, 10, 13)))
    return bool(units.size and plain >= units.size // 5 and not np.count_nonzero(units < 9))
