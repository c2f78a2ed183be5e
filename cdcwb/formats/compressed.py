"""Files compressed with gzip or zstd, recognised by their first bytes and unpacked in small steps.

A damaged or truncated file is unpacked up to the damage, to the byte, with a sentence about it. Several consecutive
gzip members or zstd frames are one file.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any, Final

import zstandard

from cdcwb.errors import CaptureError

__all__ = ["compression_of", "too_large", "unpack"]

_GZIP: Final = b"\x1f\x8b\x08"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_SKIPPABLE: Final = b"\x2a\x4d\x18"  # after a first byte of 0x50 to 0x5F
_STEP: Final = 1024  # bytes fed at a time: at most 1 MiB comes out of gzip, 32 MiB of zstd
_READ: Final = 1 << 20

_Decoder = Any  # zlib's and zstandard's decompression objects: decompress(bytes), eof, unused_data


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
    new: Callable[[], _Decoder] = _gzip if kind == "gzip" else _zstd
    left, room = limit, allowed
    decoder, begin, offset, fresh = new(), 0, 0, True  # of the member: its start; of the file: bytes fed
    for piece in _pieces(packed):
        while piece:
            if fresh and not piece.strip(b"\0"):  # tapes and block devices pad with zeros
                offset += len(piece)
                break
            if fresh and begin and compression_of(piece) != kind:
                return f"the {kind} data ends at offset {offset:,} of the compressed file; other bytes follow"
            fresh = False
            try:
                out = decoder.decompress(piece)
            except (zlib.error, zstandard.ZstdError) as error:
                out = _before_damage(packed, new, begin, offset, piece)
                write(out if left is None else out[:left])
                return f"the {kind} data is damaged near offset {offset:,} of the compressed file ({error})"
            if left is not None:
                out = out[:left]
                left -= len(out)
            room -= len(out)
            if room < 0:
                raise too_large(f"the {kind} data inflates", allowed)
            write(out)
            if left == 0:
                return None
            rest = decoder.unused_data if decoder.eof else b""
            offset += len(piece) - len(rest)
            piece = rest
            if decoder.eof:
                decoder, begin, fresh = new(), offset, True
    return None if fresh else f"the {kind} data is cut off at offset {offset:,} of the compressed file"


def too_large(what: str, limit: int) -> CaptureError:
    """The error for something that inflates to more bytes than are allowed."""
    option = f"the option inflate_limit (inflate_limit={2 * limit >> 30 or 1}GB) raises the limit"
    return CaptureError(f"{what} to more than {limit:,} bytes, the limit; {option}")


def _gzip() -> _Decoder:
    return zlib.decompressobj(wbits=31)


def _zstd() -> _Decoder:
    return zstandard.ZstdDecompressor().decompressobj()


def _pieces(packed: IO[bytes]) -> Iterator[bytes]:
    packed.seek(0)
    while block := packed.read(_READ):
        for at in range(0, len(block), _STEP):
            yield block[at : at + _STEP]


def _before_damage(packed: IO[bytes], new: Callable[[], _Decoder], begin: int, offset: int, piece: bytes) -> bytes:
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
