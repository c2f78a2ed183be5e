"""Files of a capture that are text, one after another."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Final

from cdcwb.synth.compressed import ENDINGS, opened
from cdcwb.synth.goldengate.truth import Place, Truth

__all__ = ["TextFiles"]

_BUFFERED: Final = 1 << 20


class TextFiles:
    """Writes into ``folder``, and tells the truth the names of the files."""

    def __init__(self, folder: Path, truth: Truth, compression: str) -> None:
        self._folder, self._truth, self._compression = folder, truth, compression
        self._stack = ExitStack()
        self._parts: list[bytes] = []
        self._pending = 0
        self.number = -1
        self.at = 0

    def start(self, name: str) -> None:
        """Go on in a new file."""
        self.close()
        name += ENDINGS[self._compression]
        self.number = self._truth.file(name)
        self._put = self._stack.enter_context(opened(self._folder / name, self._compression))
        self.at = 0

    def add(self, data: bytes) -> Place:
        """Write bytes; returns where they are."""
        place = Place(self.number, self.at, len(data))
        self._parts.append(data)
        self._pending += len(data)
        self.at += len(data)
        if self._pending > _BUFFERED:
            self._flush()
        return place

    def _flush(self) -> None:
        self._put(b"".join(self._parts))
        self._parts.clear()
        self._pending = 0

    def close(self) -> None:
        """Complete the file."""
        if self._parts:
            self._flush()
        self._stack.close()
        self._stack = ExitStack()
