"""What has to be known before a capture can be read in pieces: files, settings, table schemas, splits and what crosses
them.

A plan is made once, by ``load`` from a first pass that runs in Spark, or by the data source itself; it travels to the
workers as one text. Everything in it is small: it grows with the number of files, splits, schema texts and transactions
that are open at a split's start, never with the number of records.
"""

from __future__ import annotations

import base64
import bisect
import json
import zlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from cdcwb.formats.files import Source, open_source
from cdcwb.formats.gbase8s.framing import Bytes, Ints
from cdcwb.formats.gbase8s.layout import Settings

__all__ = ["FileEntry", "Plan", "SplitEntry", "Stream", "Version"]


@dataclass(slots=True)
class FileEntry:
    """One file of a capture. ``size``: bytes of the decompressed file; ``length``: wire bytes in it."""

    path: str
    shape: str
    compression: str | None
    size: int
    length: int
    problem: str | None = None  # what is wrong with the file as a whole (a compressed one that is cut off)


@dataclass(slots=True)
class Version:
    """One schema text of one label. ``first_*``: the place of the TABSCHEM that brought it, in its decompressed file;
    -1 for a side file. Counts are those of the header, None for a side file."""

    label: int
    number: int
    text: str
    fixed_bytes: int | None
    fixed_columns: int | None
    variable_columns: int | None
    origin: str
    file_index: int = -1
    offset: int = -1
    length: int = -1


@dataclass(slots=True)
class SplitEntry:
    """A run of the stream, ``[start, stop)`` in wire bytes over all files: the segments that begin in it.

    ``open_before``: transactions open at its start (id -> name). ``in_force``: label -> number of the version in force
    there. ``closes``: indices of the text files whose notes (text between the digits of records) belong to this split.
    ``reach``: no byte of the stream from there on says anything about it; -1 where that is not known.
    """

    start: int
    stop: int
    open_before: dict[int, str] = field(default_factory=dict)
    in_force: dict[int, int] = field(default_factory=dict)
    closes: list[int] = field(default_factory=list)
    reach: int = -1


@dataclass(slots=True)
class Plan:
    """How a capture is read. ``mode`` is ``stream`` (records follow each other), ``reads`` (read buffers with known
    starts) or ``inferred`` (read buffers whose starts follow from their unframed tails)."""

    files: list[FileEntry]
    mode: str
    buffer_size: int | None
    settings: Settings
    versions: list[Version]
    splits: list[SplitEntry]
    labels: dict[int, tuple[str | None, str]]
    detected: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def to_text(self) -> str:
        """The plan as one line of ASCII text, to travel in an option."""
        return base64.b64encode(zlib.compress(json.dumps(asdict(self)).encode())).decode("ascii")

    @classmethod
    def from_text(cls, text: str) -> Plan:
        """The plan that :meth:`to_text` wrote."""
        raw = json.loads(zlib.decompress(base64.b64decode(text)))
        return cls(
            files=[FileEntry(**entry) for entry in raw["files"]],
            mode=raw["mode"],
            buffer_size=raw["buffer_size"],
            settings=Settings(**raw["settings"]),
            versions=[Version(**entry) for entry in raw["versions"]],
            splits=[
                SplitEntry(
                    entry["start"],
                    entry["stop"],
                    {int(number): name for number, name in entry["open_before"].items()},
                    {int(label): number for label, number in entry["in_force"].items()},
                    entry["closes"],
                    entry["reach"],
                )
                for entry in raw["splits"]
            ],
            labels={int(label): (names[0], names[1]) for label, names in raw["labels"].items()},
            detected=raw["detected"],
            facts=raw["facts"],
        )

    def stream(self) -> Stream:
        """The files of the plan as one run of wire bytes; close it after use."""
        return Stream(self.files)


class Stream:
    """The files of a capture as one run of wire bytes, in which a record may begin in one file and end in another.

    A file is opened when its bytes are first asked for. ``boundaries`` are the places where each file but the first
    begins.
    """

    def __init__(self, files: list[FileEntry]) -> None:
        self.files = files
        self.starts = [0]
        for entry in files:
            self.starts.append(self.starts[-1] + entry.length)
        self.length = self.starts[-1]
        self.boundaries: Ints = np.array(self.starts[1:-1], dtype=np.int64)
        self._open: dict[int, Source] = {}

    def source(self, index: int) -> Source:
        """The opened file of that index."""
        if index not in self._open:
            self._open[index] = open_source(self.files[index].path, self.files[index].shape)
        return self._open[index]

    def file_at(self, place: int) -> int:
        """Index of the file that holds the wire byte at ``place``."""
        return bisect.bisect_right(self.starts, place, hi=len(self.files)) - 1

    def read(self, start: int, stop: int) -> Bytes:
        """The wire bytes ``[start, stop)``, clipped to the stream; over file ends they are joined."""
        stop = min(stop, self.length)
        parts: list[Bytes] = []
        while start < stop:
            index = self.file_at(start)
            first = self.starts[index]
            end = min(stop, self.starts[index + 1])
            parts.append(self.source(index).read(start - first, end - first))
            start = end
        if not parts:
            return np.empty(0, dtype=np.uint8)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def read_starts(self, buffer_size: int | None) -> Ints:
        """Where reads begin: at each file's start and its lines, dump restarts or multiples of the buffer size."""
        starts: list[int] = []
        for index, entry in enumerate(self.files):
            first = self.starts[index]
            starts.append(first)
            starts += [first + int(at) for at in reads_in_file(self.source(index), entry.length, buffer_size)]
        return np.unique(np.array(starts, dtype=np.int64))

    def close(self) -> None:
        """Closes every file that was opened."""
        for source in self._open.values():
            source.close()
        self._open.clear()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def reads_in_file(source: Source, length: int, buffer_size: int | None) -> Iterable[int]:
    """Where reads begin in one file, in wire bytes: multiples of the buffer size, else dump restarts, else lines."""
    if buffer_size is not None:
        return range(buffer_size, length, buffer_size)
    restarts = getattr(source, "read_starts", None)
    if restarts is not None and len(restarts) > 1:
        return list(restarts)
    return [] if source.line_starts is None or source.shape != "hex" else list(source.line_starts)
