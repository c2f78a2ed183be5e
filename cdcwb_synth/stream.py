"""The records of a capture one after another, on their way into files of some shape."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["Stream"]

_BUFFERED: Final = 4 << 20


class Stream:
    """Records joined in one temporary file, with where each begins and to which transaction it belongs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("wb")
        self._parts: list[bytes] = []
        self._pending = 0
        self._size = 0
        self._starts = array("q")
        self._owners = array("i")

    def append(self, record: bytes, owner: int) -> int:
        """Add a record of the transaction ``owner`` (-1: of none) and return its number, from 0."""
        self._starts.append(self._size)
        self._owners.append(owner)
        self._size += len(record)
        self._parts.append(record)
        self._pending += len(record)
        if self._pending >= _BUFFERED:
            self._flush()
        return len(self._starts) - 1

    def _flush(self) -> None:
        self._file.write(b"".join(self._parts))
        self._parts.clear()
        self._pending = 0

    def close(self) -> None:
        """Writes the rest; nothing can be added afterwards. A second call does nothing."""
        if not self._file.closed:
            self._flush()
            self._file.close()

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def size(self) -> int:
        """Bytes of all records."""
        return self._size

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """Where each record begins, and at last where the stream ends (int64, one more than there are records)."""
        return np.append(np.frombuffer(self._starts, np.int64), np.int64(self._size))

    @property
    def owners(self) -> npt.NDArray[np.int32]:
        """The transaction of each record, -1 where there is none."""
        return np.frombuffer(self._owners, np.int32)
