"""Files of a capture that are text, one after another."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from cdcwb_synth.compressed import ENDINGS
from cdcwb_synth.goldengate.truth import Place, Truth
from cdcwb_synth.sinks import ByteFile

__all__ = ["TextFiles"]

_BUFFERED: Final = 1 << 20


class TextFiles:
    """Writes into ``folder``, and tells the truth the names of the files."""

    def __init__(self, folder: Path, truth: Truth, compression: str) -> None:
        self._folder, self._truth, self._compression = folder, truth, compression
        self._file: ByteFile | None = None
        self.number = -1
        self.at = 0

    def start(self, name: str) -> None:
        """Continues in a new file."""
        self.close()
        name += ENDINGS[self._compression]
        self.number = self._truth.file(name)
        self._file = ByteFile(self._folder / name, self._compression, _BUFFERED)
        self.at = 0

    def add(self, data: bytes) -> Place:
        """Write bytes; returns where they are."""
        assert self._file is not None
        place = Place(self.number, *self._file.put(data))
        self.at += len(data)
        return place

    def close(self) -> None:
        """Complete the file."""
        if self._file is not None:
            self._file.close()
        self._file = None
