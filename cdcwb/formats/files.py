"""The files of a capture: which there are, in natural order, and the bytes of each, from any compression and shape.

A *source* is one file as wire bytes. Of a binary file the bytes that are read are copied, of a remote one they are
transferred (:mod:`cdcwb.formats.source`). A compressed one is unpacked into a temporary file first, which has no name
and is removed when the source is closed. Hex text and dumps are converted to wire bytes with their locations in the
text. Shapes are detected from the content, not from the name of a file.
"""

from __future__ import annotations

import codecs
import difflib
import os
import re
import stat
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import unquote

import numpy as np
import zstandard

from cdcwb.errors import CaptureError
from cdcwb.formats.containers.hex_text import SHAPES as TEXT_SHAPES
from cdcwb.formats.containers.hex_text import read_text
from cdcwb.formats.kernels import Bytes
from cdcwb.formats.options import as_choice
from cdcwb.formats.source import (
    SCHEMES,
    HeldBytes,
    LocalFile,
    Source,
    absolute,
    became_shorter,
    files_below,
    forget,
    inflate_limit,
    is_left_out,
    is_remote,
    mapped,
    open_file,
    opened,
    url_of,
)

# --- the files of a path ----------------------------------------------------------------------------------------------


_DIGITS: Final = re.compile(r"([0-9]+)")
_LOGIN: Final = re.compile(r"//[^/]*@")
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")

Key = tuple[tuple[tuple[int | str, ...], str], ...]


def natural_key(path: str) -> Key:
    """A sort key that orders paths part by part, and numbers in a part by value: a2 before a10, a/b before a-1/b."""
    return tuple((_by_value(part.casefold()), part) for part in Path(path).parts)


def _by_value(name: str) -> tuple[int | str, ...]:
    # Texts and numbers alternate, so that a number is never compared with a text.
    return tuple(int(token) if i % 2 else token for i, token in enumerate(_DIGITS.split(name)))


def list_files(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    """The files of a capture as absolute paths and URLs (:mod:`cdcwb.formats.source`), in natural order.

    A folder means all files below it but those that are left out (:func:`cdcwb.formats.source.is_left_out`). A file
    that is reached twice, also by a symbolic link, is listed once.

    Raises CaptureError for a path that does not exist or cannot be read, and for a folder without files.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise CaptureError("no path was given")
    urls = [url_of(str(path)) for path in given if is_remote(path)]
    if urls:
        forget()
    away = [file for url in urls for file in files_below(url)]
    found: dict[Path, Path] = {}  # resolved file -> path
    for path in (_local(path) for path in given if not is_remote(path)):
        for file in _below(path) if path.is_dir() else [path]:
            _check(file)
            real = file.resolve()
            if real not in found or file == real:
                found[real] = file
    return sorted([*map(str, found.values()), *dict.fromkeys(away)], key=natural_key)


def _local(path: str | os.PathLike[str]) -> Path:
    name = os.fspath(path)
    if name.lower().startswith("jdbc:"):  # which may have a password
        sentence = "expected files; summary, export and save open a table of a database with -o dbtable=SCHEMA.TABLE"
        raise CaptureError(sentence, path=":".join([*name.split(":")[:2], "…"]))
    url = _URL.match(name)
    if url and url[1].lower() == "file":
        name = unquote("".join(name.partition("://")[2].partition("/")[1:]))
    elif url:
        shown = _LOGIN.sub("//", name)
        if url[1].lower() == "kafka":
            sentence = "expected files; `cdcwb capture URL --to DIR` copies the messages of topics to files"
            raise CaptureError(sentence, path=shown)
        supported = f"{', '.join(SCHEMES)} and file are supported"
        raise CaptureError(f"{url[1]}:// is not supported ({supported}); copy the files here", path=shown)
    if not name:
        raise CaptureError("the path is empty")
    return Path(os.path.normpath(absolute(name)))


def _below(folder: Path) -> Iterator[Path]:
    """All files below a folder, including symbolic links to folders, each folder once."""
    seen: set[Path] = set()
    some = False

    def failed(error: OSError) -> None:
        raise CaptureError(f"the folder cannot be read ({error.strerror})", path=str(error.filename)) from error

    for parent, folders, names in os.walk(folder, onerror=failed, followlinks=True):
        real = Path(parent).resolve()
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = [name for name in folders if not is_left_out(name)]
        for name in names:
            path = Path(parent, name)
            if not is_left_out(name) and (path.is_file() or path.is_symlink()):  # sockets and pipes are not captures
                some = True
                yield path
    if not some:
        raise CaptureError("the folder holds no files", path=str(folder))


def _check(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        what = "the symbolic link points to nothing" if path.is_symlink() else "there is no such file or folder"
        raise CaptureError(what + _nearest(path), path=str(path)) from None
    except OSError as error:
        raise CaptureError(f"cannot be read ({error.strerror})", path=str(path)) from error
    if not stat.S_ISREG(mode):
        raise CaptureError("is neither a file nor a folder", path=str(path))
    if not os.access(path, os.R_OK):
        raise CaptureError("cannot be read (permission denied)", path=str(path))


def _nearest(path: Path) -> str:
    try:
        near = difflib.get_close_matches(path.name, (other.name for other in path.parent.iterdir()), n=1)
    except OSError:
        return ""
    return f"; did you mean {near[0]}?" if near and near[0] != path.name else ""


# --- compressed files -------------------------------------------------------------------------------------------------


_GZIP: Final = b"\x1f\x8b\x08"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_SKIPPABLE: Final = b"\x2a\x4d\x18"  # after a first byte of 0x50 to 0x5F
_STEP: Final = 1024  # bytes fed at a time: at most 1 MiB comes out of gzip, 32 MiB of zstd
_READ: Final = 1 << 20


def compression_of(head: bytes) -> str | None:
    """``gzip``, ``zstd`` or None, by the first bytes of a file; four are enough."""
    if head.startswith(_GZIP):
        return "gzip"
    if head.startswith(_ZSTD) or (head[1:4] == _SKIPPABLE and head[:1] and head[0] >> 4 == 5):
        return "zstd"
    return None


def unpack(
    packed: IO[bytes], kind: str, write: Callable[[bytes], object], limit: int | None, allowed: int
) -> str | None:
    """Unpacks a file and writes its content in pieces, at most ``limit`` bytes (None: all). Returns None, or a sentence
    about damage with its offset in the compressed file. Raises CaptureError for more than ``allowed`` bytes.
    """
    new: Callable[[], Any] = {  # objects with decompress(bytes), eof and unused_data
        "gzip": lambda: zlib.decompressobj(wbits=31),
        "zstd": lambda: zstandard.ZstdDecompressor().decompressobj(),
    }[kind]
    most, done = allowed + 1 if limit is None else limit, 0
    decoder, begin, offset, fresh = new(), 0, 0, True  # of the member: its start; of the file: bytes fed
    packed.seek(0)
    for piece in iter(partial(packed.read, _STEP), b""):
        while piece:
            if fresh and not piece.strip(b"\0"):  # tapes and block devices pad with zeros
                offset += len(piece)
                break
            if fresh and begin and compression_of(piece) != kind:
                return f"the {kind} data ends at offset {offset:,} of the compressed file; other bytes follow"
            fresh = False
            try:
                out = decoder.decompress(piece)[: most - done]
            except (zlib.error, zstandard.ZstdError) as error:
                out = _before_damage(packed, new, begin, offset, piece)
                write(out[: most - done])
                return f"the {kind} data is damaged near offset {offset:,} of the compressed file ({error})"
            done += len(out)
            if done > allowed:
                raise too_large(f"the {kind} data inflates", allowed)
            write(out)
            if done == most:
                return None
            rest = decoder.unused_data if decoder.eof else b""
            offset += len(piece) - len(rest)
            piece = rest
            if decoder.eof:
                decoder, begin, fresh = new(), offset, True
    return None if fresh else f"the {kind} data is cut off at offset {offset:,} of the compressed file"


UTF16: Final = "utf-16"
"""What :attr:`Source.compression` is for a text in UTF-16 with a byte order mark; its bytes are then those of UTF-8."""
_LOOK: Final = 1 << 12  # bytes that show a text in UTF-16


def _transcode(text: IO[bytes], write: Callable[[bytes], object], limit: int | None) -> str | None:
    """Writes a text in UTF-16 in UTF-8, at most ``limit`` bytes (None: all). Returns None, or a sentence about
    damage."""
    text.seek(0)
    decoder, left = codecs.getincrementaldecoder("utf-16")("surrogatepass"), sys.maxsize if limit is None else limit
    while left > 0 and (block := text.read(_READ)):
        out = decoder.decode(block).encode("utf-8", "surrogatepass")
        write(out[:left])
        left -= len(out)
    return "the text in UTF-16 ends within a character" if limit is None and decoder.getstate()[0] else None


def too_large(what: str, limit: int) -> CaptureError:
    """The error for something that inflates to more bytes than are allowed."""
    option = f"the option inflate_limit (inflate_limit={2 * limit >> 30 or 1}GB) raises the limit"
    return CaptureError(f"{what} to more than {limit:,} bytes, the limit; {option}")


def _before_damage(packed: IO[bytes], new: Callable[[], Any], begin: int, offset: int, piece: bytes) -> bytes:
    """The content of a piece before its damage: unpacks the member again up to the piece, then byte by byte."""
    decoder = new()
    packed.seek(begin)
    for at in range(begin, offset, _STEP):
        decoder.decompress(packed.read(min(_STEP, offset - at)))
    out = bytearray()
    try:
        for byte in piece:
            out += decoder.decompress(bytes((byte,)))
    except (zlib.error, zstandard.ZstdError):
        pass
    return bytes(out)


# --- bytes of a file --------------------------------------------------------------------------------------------------


SHAPES: Final = ("auto", "binary", *TEXT_SHAPES)
"""The values of the option ``shape``."""

_HEAD: Final = 1 << 16  # bytes that distinguish a binary file from a text
_HEADER: Final = 16  # minimum wire bytes for reading a text as hex
_MOSTLY: Final = 0.5
_CONTROL: Final = np.zeros(256, np.bool_)
_CONTROL[[*range(0x20), 0x7F]] = True
_CONTROL[list(b"\t\n\v\f\r\x1b")] = False

Content = LocalFile | HeldBytes


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
    """The decompressed bytes of a file, its compression, and the problem of that. A text in UTF-16 is as if it were
    compressed."""
    with open_file(path) as file:
        head = file.read(_LOOK)
        compression = compression_of(head)
        is_utf16 = compression is None and _is_utf16(np.frombuffer(head, np.uint8))
        if compression is None and not is_utf16:
            return opened(path), None, None
        with tempfile.TemporaryFile(prefix="cdcwb-") as plain:
            if is_utf16:
                compression, problem = UTF16, _transcode(file, plain.write, limit)
            else:
                problem = unpack(file, str(compression), plain.write, limit, inflate_limit(path))
            plain.flush()
            return HeldBytes(mapped(plain, os.fstat(plain.fileno()).st_size)), compression, problem


def _source(
    path: str, shape: str, content: Content, limit: int | None, compression: str | None, problem: str | None
) -> Source:
    given = None if shape == "auto" else f"shape={shape} was given"
    size = content.size if limit is None else min(content.size, limit)
    head = content.read(0, 0 if given else min(size, _HEAD))
    controls = int(np.count_nonzero(_CONTROL[head]))
    doubt = (
        f"{controls:,} of the first {head.size:,} bytes are control characters, which no text has" if controls else ""
    )
    # three zero bytes in a row are in every binary header, while a damaged text may have a stray one
    is_binary = controls > head.size // 50 or (controls and b"\0\0\0" in head.tobytes())
    found, evidence = Source(content, size), doubt or "the file is empty"
    if shape != "binary" and size and not is_binary:
        text = read_text(content.read(0, size), None if shape == "auto" else shape)
        if text is None and shape != "auto":
            missing = "it has no groups of hex digits" if shape == "hex" else "no offset continues the line before"
            raise CaptureError(f"is not {shape} output: {missing}")
        evidence = doubt or "text without a capture in hex digits; its bytes are read as they are"
        has_data = text is not None and (text.data_share >= _MOSTLY or (not doubt and text.length >= _HEADER))
        if text is not None and (given or text.shape != "hex" or has_data):
            found, evidence = text, text.evidence
    found.path, found.size, found.compression, found.evidence = path, size, compression, given or evidence
    found.problem = "; ".join(filter(None, (problem, found.problem))) or None
    return found


def _is_utf16(head: Bytes) -> bool:
    """A byte order mark, and what follows looks like text: a binary file may begin with these two bytes too."""
    mark = head[:2].tobytes()
    if mark not in (b"\xff\xfe", b"\xfe\xff"):
        return False
    units = head[: head.size & ~1].view("<u2" if mark == b"\xff\xfe" else ">u2")[1:]
    plain = np.count_nonzero((units >= 0x20) & (units < 0x7F)) + np.count_nonzero(np.isin(units, (9, 10, 13)))
    return bool(units.size and plain >= units.size // 5 and not np.count_nonzero(units < 9))
