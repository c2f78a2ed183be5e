"""Files that are written compressed or not; the same content gives the same bytes."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import zstandard

__all__ = ["ENDINGS", "opened"]

ENDINGS: Final = {"none": "", "gzip": ".gz", "zstd": ".zst"}
"""What the name of a compressed file ends with."""


@contextmanager
def opened(path: Path, compression: str) -> Iterator[Callable[[bytes], object]]:
    """The function that writes to a file; a compressed one has no time stamp, so that the same content gives the same
    bytes."""
    with path.open("wb") as file:
        if compression == "gzip":
            with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
                yield packed.write
        elif compression == "zstd":
            with zstandard.ZstdCompressor().stream_writer(file) as packed:
                yield packed.write
        else:
            yield file.write
