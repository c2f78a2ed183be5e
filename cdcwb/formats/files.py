"""The bytes of a file, from any compression and shape.

A *source* is one file as wire bytes. Of a binary file the bytes that are read are copied, of a remote one they are
transferred (:mod:`cdcwb.formats.source`). A compressed one is unpacked into a temporary file first, which has no name
and is removed when the source is closed. Hex text and dumps are converted to wire bytes with their locations in the
text. Shapes are detected from the content, not from the name of a file.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from cdcwb.errors import CaptureError
from cdcwb.formats.compressed import compression_of, unpack
from cdcwb.formats.containers.hex_text import SHAPES as TEXT_SHAPES
from cdcwb.formats.containers.hex_text import Bytes, Ints, TextSource, read_text
from cdcwb.formats.listing import list_files, natural_key
from cdcwb.formats.options import as_choice
from cdcwb.formats.source import LocalFile, TemporaryCopy, became_shorter, inflate_limit, open_file, opened

__all__ = ["SHAPES", "BinarySource", "Source", "in_file", "list_files", "natural_key", "open_source"]

SHAPES: Final = ("auto", "binary", *TEXT_SHAPES)
"""The values of the option ``shape``."""

_HEAD: Final = 1 << 16  # bytes that distinguish a binary file from a text
_HEADER: Final = 16  # minimum wire bytes for reading a text as hex
_MOSTLY: Final = 0.5
_CONTROL: Final = np.zeros(256, np.bool_)
_CONTROL[[*range(0x20), 0x7F]] = True
_CONTROL[list(b"\t\n\v\f\r\x1b")] = False

Content = LocalFile | TemporaryCopy


class Source(Protocol):
    """One input file as wire bytes.

    * ``path``
    * ``shape``: binary, hex, xxd or hexdump; ``evidence``: a sentence
    * ``compression``: gzip, zstd or None
    * ``size``: bytes of the decompressed file (of the examined part, if there is a limit)
    * ``length``: wire bytes
    * ``line_starts``: for texts the wire index of the first byte of every line with data; None for binary
    * ``read_starts``: for dumps the wire indices at which offsets restart, the first being 0; None if unknown
    * ``data_share``: data digits per character except white space; 1.0 for binary files, 0.0 for a text without data
      digits
    * ``problem``: the problem of the file itself (truncated, damaged, lines missing); None without one
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

    def view(self, start: int, stop: int) -> Bytes:
        """All wire bytes before ``stop``, clipped to ``length``; those before ``start`` must not be used; read-only."""
        ...

    def mapped(self) -> Bytes:
        """All wire bytes, as a memory map of a temporary file: they need no memory; read-only."""
        ...

    def places(self, start: NDArray[Any], stop: NDArray[Any]) -> tuple[Ints, Ints]:
        """The locations of wire ranges in the decompressed file: (first byte, end), both int64."""
        ...

    def close(self) -> None:
        """Let the bytes go."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


class BinarySource:
    """A file whose bytes are the wire bytes; see :class:`Source`."""

    def __init__(
        self,
        path: str,
        content: Content,
        *,
        size: int,
        compression: str | None,
        evidence: str,
        problem: str | None,
        data_share: float = 1.0,
    ) -> None:
        self.path = path
        self.shape = "binary"
        self.compression = compression
        self.size = self.length = size
        self.line_starts: Ints | None = None
        self.read_starts: Ints | None = None
        self.data_share = data_share
        self.evidence = evidence
        self.problem = problem
        self._content: Content | None = content

    def read(self, start: int, stop: int) -> Bytes:
        """The bytes from ``start`` to ``stop``, clipped to ``length``; read-only. Raises CaptureError if they cannot be
        read, or the file became shorter."""
        start = min(max(start, 0), self.length)
        stop = min(max(stop, start), self.length)
        return np.empty(0, np.uint8) if self._content is None else self._content.read(start, stop)

    def view(self, start: int, stop: int) -> Bytes:
        """All bytes before ``stop``, clipped to ``length``, at their offsets in the file; those before ``start`` must
        not be used. Raises as :meth:`read`."""
        stop = min(stop, self.length)
        return np.empty(0, np.uint8) if self._content is None else self._content.view(min(start, stop), stop)

    def mapped(self) -> Bytes:
        """All bytes, as a memory map of a temporary file: they need no memory. Raises as :meth:`read`."""
        if isinstance(self._content, LocalFile):
            self._content = self._content.copied()
        return self.read(0, self.length)

    def places(self, start: NDArray[Any], stop: NDArray[Any]) -> tuple[Ints, Ints]:
        """The ranges themselves, clipped to the file."""
        first = np.clip(np.asarray(start, np.int64), 0, self.length)
        return first, np.clip(np.asarray(stop, np.int64), first, self.length)

    def close(self) -> None:
        """Releases the file; of a temporary one the bytes end with the last view on them."""
        self._content = None
        self.length = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def open_source(
    path: str | os.PathLike[str], shape: str = "auto", limit: int | None = None, size: int | None = None
) -> Source:
    """Opens one file as wire bytes.

    ``shape`` is one of :data:`SHAPES`; ``auto`` decides by content. With a ``limit`` only this many bytes of the
    decompressed file are examined, and ``size`` and ``length`` refer to them. ``size``: bytes that the decompressed
    file had when it was examined. Raises CaptureError for a file that cannot be read, is shorter than that or has an
    unsupported kind of text, OptionError for an unknown shape.
    """
    shape = as_choice("shape", shape, SHAPES)
    name = os.fspath(path)
    with in_file(name):
        try:
            content, compression, problem = _content(name, limit)
            if size is not None and content.size < size:
                raise became_shorter(name, size, content.size)
            return _source(name, shape, content, limit, compression, problem)
        except OSError as error:
            raise CaptureError(f"cannot be read ({error.strerror or error})") from error


@contextmanager
def in_file(path: str) -> Iterator[None]:
    """Adds the name of this file to errors without one."""
    try:
        yield
    except CaptureError as error:
        error.path = error.path or path
        raise


def _content(path: str, limit: int | None) -> tuple[Content, str | None, str | None]:
    """The decompressed bytes of a file, its compression, and the problem of that."""
    with open_file(path) as file:
        compression = compression_of(file.read(4))
        if compression is None:
            return opened(path), None, None
        with tempfile.TemporaryFile(prefix="cdcwb-") as plain:
            problem = unpack(file, compression, plain.write, limit, inflate_limit(path))
            plain.flush()
            return TemporaryCopy(plain, os.fstat(plain.fileno()).st_size), compression, problem


def _source(
    path: str, shape: str, content: Content, limit: int | None, compression: str | None, problem: str | None
) -> Source:
    given = None if shape == "auto" else f"shape={shape} was given"
    size = content.size if limit is None else min(content.size, limit)

    def binary(evidence: str, data_share: float = 1.0) -> Source:
        return BinarySource(
            path,
            content,
            size=size,
            compression=compression,
            evidence=given or evidence,
            problem=problem,
            data_share=data_share,
        )

    doubt = None if given else _control_characters(content.read(0, min(size, _HEAD)))
    if shape == "binary" or not size or (doubt is not None and doubt.sure):
        return binary(doubt.evidence if doubt else "the file is empty")
    found = read_text(content.read(0, size), None if shape == "auto" else shape)
    if found is None and shape != "auto":
        missing = "it has no groups of hex digits" if shape == "hex" else "no offset continues the line before"
        raise CaptureError(f"is not {shape} output: {missing}")
    if found is not None and (given or found.shape != "hex" or _is_mostly_data(found, doubt)):
        found.path, found.size, found.compression = path, size, compression
        found.evidence = given or found.evidence
        found.problem = "; ".join(filter(None, (problem, found.problem))) or None
        return found
    if doubt is not None:
        return binary(doubt.evidence)
    return binary("text without a capture in hex digits; its bytes are read as they are", data_share=0.0)


def _is_mostly_data(text: TextSource, doubt: _Doubt | None) -> bool:
    return text.data_share >= _MOSTLY or (doubt is None and text.length >= _HEADER)


class _Doubt(NamedTuple):
    """Why a file may be binary."""

    evidence: str
    sure: bool


def _control_characters(head: Bytes) -> _Doubt | None:
    """Evidence from its first bytes that a file is not text; None without any.

    Three zero bytes in a row are in every binary header, while a damaged text may have a stray one.
    """
    found = int(np.count_nonzero(_CONTROL[head]))
    if not found or _is_utf16(head):
        return None
    evidence = f"{found:,} of the first {head.size:,} bytes are control characters, which no text has"
    return _Doubt(evidence, found > head.size // 50 or b"\0\0\0" in head.tobytes())


def _is_utf16(head: Bytes) -> bool:
    """A byte order mark, and what follows looks like text: a binary file may begin with these two bytes too."""
    mark = head[:2].tobytes()
    if mark not in (b"\xff\xfe", b"\xfe\xff"):
        return False
    units = head[: head.size & ~1].view("<u2" if mark == b"\xff\xfe" else ">u2")[1:]
    plain = np.count_nonzero((units >= 0x20) & (units < 0x7F)) + np.count_nonzero(np.isin(units, (9, 10, 13)))
    return bool(units.size and plain >= units.size // 5 and not np.count_nonzero(units < 9))
