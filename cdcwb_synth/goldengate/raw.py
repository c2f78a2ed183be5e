"""Trail files as Extract writes them, by what is known of their layout (``docs/formats/goldengate.md §11``)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from cdcwb_synth.goldengate.columns import Layout, Order
from cdcwb_synth.goldengate.logdump import Printer
from cdcwb_synth.goldengate.options import GoldenGateOptions
from cdcwb_synth.goldengate.records import Shown, header_bytes, token_bytes, user_bytes
from cdcwb_synth.goldengate.text_files import TextFiles
from cdcwb_synth.goldengate.truth import Place, Truth
from cdcwb_synth.instants import EPOCH

__all__ = ["RawFiles"]

_NAME = 34  # where the name of the table begins in a header


class RawFiles:
    """Hears of a trail and writes its files."""

    def __init__(self, options: GoldenGateOptions, folder: Path, truth: Truth) -> None:
        self._order: Order = options.order
        self._truth = truth
        self._files = TextFiles(folder, truth, options.compression)
        self.printer = _Headers(options)

    def new_file(self, sequence: int, path: str, header: bytes, at: int) -> None:
        """A new file of the trail."""
        self._files.start(path.rpartition("/")[2])
        self._record("F", header, "FileHeader")

    def record(self, shown: Shown) -> Place:
        """Write a record."""
        one = shown.record
        name = b"" if one.layout is None else one.layout.full_name.encode() + b"\0"
        header = header_bytes(shown, self._order)
        content = self._token("H", header[:_NAME] + name.ljust(len(header) - _NAME, b"\0"))
        for letter, part in (
            ("D", one.body),
            ("T", token_bytes(one.tokens, self._order)),
            ("U", user_bytes(one.user_tokens)),
        ):
            content += self._token(letter, part) if part else b""
        return self._record("G", content, one.name)

    def defined(self, layout: Layout, key: str, text: str, place: Place) -> None:
        """A definition came: nobody knows how it is written, so trails have names."""
        raise AssertionError(key)

    def close(self) -> None:
        """Complete the files."""
        self._files.close()

    def _token(self, letter: str, content: bytes) -> bytes:
        return bytes((ord(letter), 0)) + len(content).to_bytes(2, self._order) + content

    def _record(self, letter: str, content: bytes, name: str) -> Place:
        length = (len(content) + 8).to_bytes(2, self._order)
        self._truth.facts["records"] += 1
        self._truth.facts[name] += 1
        return self._files.add(bytes((ord(letter), 0)) + length + content + b"Z\0" + length)


class _Headers(Printer):
    def time(self, at: int) -> str:
        """The time in UTC, as ISO 8601."""
        return (EPOCH + timedelta(microseconds=at)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
