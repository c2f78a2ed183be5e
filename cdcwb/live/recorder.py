"""``cdcwb capture`` of topics: copies the messages of each partition to Parquet files, byte for byte.

The messages of a partition are in ``DIR/<topic>-<partition>/<first offset>.parquet``, named like Kafka's log segments,
with the columns of Spark's Kafka source. Files are written atomically, and the next run begins where they end, so a run
that was killed is continued without loss or duplicates.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from cdcwb.errors import CaptureError
from cdcwb.formats.containers.kafka_rows import PARTITION
from cdcwb.live import FILE_BYTES, PATIENCE
from cdcwb.live.consumer import MESSAGES, as_batch, fetch
from cdcwb.live.kafka import Client, Point, Range, Topics, connected, partitions, ranges
from cdcwb.words import count
from cdcwb.writing import naming

__all__ = ["PART", "Progress", "Recorded", "locked", "record"]

_BUFFERED: Final = 32 << 20  # bytes of messages in memory, of all partitions together
_GROUP: Final = 32 << 20  # approximate bytes of a row group of merged files
PART: Final = ".part"
"""The suffix of incomplete files, whose names begin with a dot."""

Progress = Callable[[int, int], None]
"""Called with the number of offsets read, and the number to read."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The result of a run: the numbers of ``messages`` and ``bytes`` (keys and values), the ``ranges`` read by
    partition, whether an existing folder was ``continued``, and the number of messages ``left`` for another run."""

    messages: int
    bytes: int
    ranges: list[Range]
    continued: bool
    left: int = 0


def record(
    topics: Topics,
    folder: str | os.PathLike[str],
    start: Point = "earliest",
    end: Point = "latest",
    settings: Mapping[str, str] | None = None,
    progress: Progress = lambda _done, _total: None,
    file_bytes: int = FILE_BYTES,
    patience: float = PATIENCE,
    most: int | None = None,
) -> Recorded:
    """Writes the messages of topics from ``start`` until ``end`` (excluded) into a folder; an existing folder is
    continued where its files end. ``most``: read at most about this many messages, from all partitions in proportion.

    Raises SourceDownError if the cluster does not answer, or sends nothing for ``patience`` seconds; messages that
    arrived are stored. Raises CaptureError if the messages that would follow those of the folder were deleted, or the
    folder is of another cluster.
    """
    target = Path(folder)
    with connected(topics, settings or {}, patience) as client, ExitStack() as stack:
        cluster, partitions_of_topics = partitions(client)
        stack.enter_context(locked(target))  # a cluster that does not answer leaves no folder
        asked = ranges(client, partitions_of_topics, start, end)
        known = [_continued(target, cluster, partition, client) for partition in asked]
        wanted = _cut(known, most)
        writers = {w[:2]: _Writer(target, cluster, w, file_bytes) for w in wanted}
        try:
            for some, complete in fetch(client, wanted, patience):
                for message in some:
                    writers[message.topic(), message.partition()].add(message)
                for partition in complete:
                    writers[partition].close()
                _spill(writers.values())
                progress(
                    sum(partition.next - partition.range.start for partition in writers.values()),
                    sum(map(_length, wanted)),
                )
        finally:  # completes the files also after an error
            for writer in writers.values():
                writer.close()
        before = any(w.start > first.start for w, first in zip(wanted, asked, strict=True))
        left = sum(map(_length, known)) - sum(map(_length, wanted))
        messages, size = (sum(getattr(w, name) for w in writers.values()) for name in ("messages", "bytes"))
        return Recorded(messages, size, wanted, before, left)


def _length(of: Range) -> int:
    return of.end - of.start


def _spill(writers: Collection[_Writer]) -> None:
    """Writes the largest buffers, until half of the memory is free again."""
    held = sum(each.held for each in writers)
    if held < _BUFFERED:
        return
    for writer in sorted(writers, key=lambda each: -each.held):
        held -= writer.held
        writer.flush()
        if held < _BUFFERED // 2:
            return


def _cut(wanted: list[Range], most: int | None) -> list[Range]:
    """The ranges shortened in proportion to about ``most`` messages, at least one message each."""
    total = sum(map(_length, wanted))
    if most is None or total <= most:
        return wanted
    return [item._replace(end=item.start + -(-_length(item) * most // total)) for item in wanted]


# --- folders ----------------------------------------------------------------------------------------------------------


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Locks the folder, which is made if it is missing, against a second run, and removes the incomplete files of a
    killed run. The lock ends with the process. Raises CaptureError, also where the block cannot write."""
    with naming(folder.absolute()), ExitStack() as stack:
        folder.mkdir(parents=True, exist_ok=True)
        held = stack.enter_context((folder / ".lock").open("w"))
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CaptureError("another run is writing to this folder", path=str(folder)) from None
        for left in folder.glob(f"*/.*{PART}"):
            left.unlink()
        yield


def _files(folder: Path, topic: str, partition: int) -> list[Path]:
    return sorted((folder / f"{topic}-{partition}").glob("*.parquet"))


def _continued(folder: Path, cluster: str, wanted: Range, client: Client) -> Range:
    """The part of a range that the folder does not have yet. Raises CaptureError if it cannot be continued."""
    files = _files(folder, wanted.topic, wanted.partition)
    if not files:
        return wanted
    first, then = int(files[0].stem[:20]), _end_of(files[-1], cluster)
    name, available = f"{wanted.topic}-{wanted.partition}", ranges(client, [wanted[:2]], "earliest", "latest")[0]
    elsewhere = "; capture into another folder"
    if available.end < then:
        raise CaptureError(
            f"{name} ends at offset {count(available.end)}, but the folder has it up to {count(then)}: the topic was "
            f"created anew{elsewhere}",
            path=str(folder),
        )
    if available.start > then:
        raise CaptureError(
            f"offsets {count(then)} to {count(available.start - 1)} of {name} were deleted before they were captured"
            f"{elsewhere}",
            path=str(folder),
        )
    if wanted.start < first and wanted.start < wanted.end:
        raise CaptureError(
            f"the folder has {name} from offset {count(first)} on, and the range begins at {count(wanted.start)}"
            f"{elsewhere}",
            path=str(folder),
        )
    return wanted._replace(start=then, end=max(then, wanted.end))


def _end_of(path: Path, cluster: str) -> int:
    """The offset that follows a file. Raises CaptureError for a file of another cluster, or of another origin."""
    try:
        metadata = pq.read_metadata(path).metadata or {}
        facts = json.loads(metadata[PARTITION])
        same, end = facts["cluster"] == cluster, int(facts["end"])
    except (OSError, KeyError, ValueError, pa.ArrowException):
        raise CaptureError(
            "not a file that cdcwb capture wrote; capture into an empty folder", path=str(path)
        ) from None
    if not same:
        raise CaptureError("was captured from another cluster; capture into another folder", path=str(path))
    return end


# --- files ------------------------------------------------------------------------------------------------------------


class _Writer:
    """Writes the messages of one partition into files."""

    def __init__(self, folder: Path, cluster: str, wanted: Range, file_bytes: int) -> None:
        self.range = wanted
        self.next = wanted.start  # the offset that is read next
        self.messages = self.bytes = 0
        self.held = 0  # bytes in memory
        self._folder = folder / f"{wanted.topic}-{wanted.partition}"
        self._cluster, self._file_bytes = cluster, file_bytes
        self._waiting: list[Any] = []
        self._writer: pq.ParquetWriter | None = None
        self._path = self._folder
        self._written = 0

    def add(self, message: Any) -> None:
        """Adds a message to the buffer."""
        self._waiting.append(message)
        self.next = message.offset() + 1
        size = len(message) + len(message.key() or b"")
        size += sum(len(name) + len(value or b"") for name, value in message.headers() or ())
        self.messages += 1
        self.bytes += size
        self.held += size
        if self.held >= self._file_bytes:
            self.flush()

    def flush(self) -> None:
        """Writes the buffer."""
        if not self._waiting:
            return
        if self._writer is None:
            self._folder.mkdir(exist_ok=True)
            self._path = self._folder / f"{self._waiting[0].offset():020}.parquet"
            self._writer = pq.ParquetWriter(self._folder / f".{self._path.name}{PART}", MESSAGES, compression="zstd")
        self._writer.write_batch(as_batch(self._waiting))
        self._written += self.held
        self._waiting, self.held = [], 0
        if self._written >= self._file_bytes:
            self.close()

    def close(self) -> None:
        """Completes the file, if one is open."""
        self.flush()
        if self._writer is None:
            return
        writer, self._writer, self._written = self._writer, None, 0
        facts = {
            "cluster": self._cluster,
            "topic": self.range.topic,
            "partition": self.range.partition,
            "end": self.next,
        }
        writer.add_key_value_metadata({PARTITION: json.dumps(facts)})
        writer.close()
        part = self._folder / f".{self._path.name}{PART}"
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(self._path)
