"""Copies the messages of topics to Parquet files, byte for byte.

The messages of a partition are in ``DIR/<topic>-<partition>/<first offset>.parquet``, named like Kafka's log segments,
with the columns of Spark's Kafka source. Files are written atomically, and the next run begins where they end, so a run
that was killed is continued without loss or duplicates.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from cdcwb.errors import CaptureError
from cdcwb.formats.containers.kafka_rows import PARTITION
from cdcwb.live import FILE_BYTES, PATIENCE
from cdcwb.live.addresses import Point, Topics
from cdcwb.live.kafka import MESSAGES, Client, Range, as_batch, connected
from cdcwb.words import count
from cdcwb.writing import locked, naming, remove, try_lock, user_cache, written

_BUFFERED: Final = 32 << 20  # bytes of messages in memory, of all partitions together
_UNUSED: Final = 30 * 86_400  # seconds after which topics are removed from the cache

Progress = Callable[[int, int], None]
"""Called with the number of offsets read, and the number to read."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The result of a run: the numbers of ``messages`` and ``bytes`` (keys, values and headers), the ``ranges`` read by
    partition, and whether an existing folder was ``continued``."""

    messages: int
    bytes: int
    ranges: list[Range]
    continued: bool


def record(
    topics: Topics,
    folder: str | os.PathLike[str],
    start: Point = "earliest",
    end: Point = "latest",
    settings: Mapping[str, str] | None = None,
    progress: Progress = lambda _done, _total: None,
    file_bytes: int = FILE_BYTES,
    patience: float = PATIENCE,
) -> Recorded:
    """Writes the messages of topics from ``start`` until ``end`` (excluded) into a folder; an existing folder is
    continued where its files end.

    Raises SourceDownError if the cluster does not answer, or sends nothing for ``patience`` seconds; messages that
    arrived are stored. Raises CaptureError if the messages that would follow those of the folder were deleted, or the
    folder is of another cluster.
    """
    target = Path(folder).absolute()
    with connected(topics, settings or {}, patience) as client, ExitStack() as stack:
        cluster, partitions = client.partitions()
        stack.enter_context(_alone(target))  # a cluster that does not answer leaves no folder
        asked = client.ranges(partitions, start, end)
        wanted = [_continued(target, cluster, partition, client) for partition in asked]
        writers = {part[:2]: _Writer(target / part.name, cluster, part, file_bytes) for part in wanted}
        total = sum(part.end - part.start for part in wanted)
        try:
            for arrived, complete in client.fetch(wanted):
                for message in arrived:
                    writers[message.topic(), message.partition()].add(message)
                for partition in complete:
                    writers[partition].close()
                if sum(writer.held for writer in writers.values()) >= _BUFFERED:
                    for writer in writers.values():
                        writer.flush()
                progress(sum(writer.next - writer.range.start for writer in writers.values()), total)
        finally:  # completes the files also after an error
            for writer in writers.values():
                writer.close()
        messages, size = (sum(getattr(writer, name) for writer in writers.values()) for name in ("messages", "bytes"))
        continued = any(part.start > first.start for part, first in zip(wanted, asked, strict=True))
        return Recorded(messages, size, wanted, continued)


def cached(topics: Topics, start: Point, end: Point, settings: Mapping[str, str]) -> Path:
    """A folder in the user's cache (``CDCWB_CACHE``) with the messages of topics from ``start`` until ``end``. Only new
    ones are read from the cluster; if they do not continue those of the folder, all are read again. Folders that were
    not used for thirty days are removed. Raises as :func:`record`."""
    cache = user_cache("topics")
    identity = json.dumps([topics.url, start, end], default=str)
    folder = cache / blake2b(identity.encode(), digest_size=16).hexdigest()
    with naming(cache):
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(cache):
            for other in cache.iterdir():
                if other != folder and time.time() - other.stat().st_mtime > _UNUSED:
                    shutil.rmtree(other, ignore_errors=True)
            try:
                record(topics, folder, start, end, settings)
            except _DiscontinuedError:
                shutil.rmtree(folder)
                record(topics, folder, start, end, settings)
            with suppress(FileNotFoundError):
                os.utime(folder)
    return folder


# --- folders ----------------------------------------------------------------------------------------------------------


class _DiscontinuedError(CaptureError):
    """The messages of a topic do not continue those of a folder."""


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Holds the lock of a folder, which is made if it is missing, and removes the incomplete files of a killed run.
    Raises CaptureError if another run has it, and where the block cannot write."""
    with naming(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with try_lock(folder) as has_lock:
            if not has_lock:
                raise CaptureError("another run is writing to this folder", path=str(folder))
            for part in folder.glob("*/.cdcwb-*.part"):
                remove(part)
            yield


def _continued(folder: Path, cluster: str, wanted: Range, client: Client) -> Range:
    """The part of a range that the folder does not have yet. Raises CaptureError if it cannot be continued."""
    files = sorted((folder / wanted.name).glob("*.parquet"))
    if not files:
        return wanted
    first, then, name = int(files[0].stem), _end_of(files[-1], cluster), wanted.name
    available = client.ranges([wanted[:2]], "earliest", "latest")[0]
    reason = None
    if available.end < then:
        ends = f"{name} ends at offset {count(available.end)}"
        reason = f"{ends}, but the folder has it up to {count(then)}: the topic was created anew"
    elif available.start > then:
        gap = f"offsets {count(then)} to {count(available.start - 1)}"
        reason = f"{gap} of {name} were deleted before they were captured"
    elif wanted.start < first and wanted.start < wanted.end:
        reason = f"the folder has {name} from offset {count(first)} on, and the range begins at {count(wanted.start)}"
    if reason is not None:
        raise _DiscontinuedError(f"{reason}; capture into another folder", path=str(folder))
    return wanted._replace(start=then, end=max(then, wanted.end))


def _end_of(path: Path, cluster: str) -> int:
    """The offset that follows a file. Raises CaptureError for a file of another cluster, or of another origin."""
    try:
        facts = json.loads((pq.read_metadata(path).metadata or {})[PARTITION])
        same, end = facts["cluster"] == cluster, int(facts["end"])
    except (OSError, KeyError, ValueError, pa.ArrowException):
        raise CaptureError(
            "not a file that cdcwb capture wrote; capture into an empty folder", path=str(path)
        ) from None
    if not same:
        raise _DiscontinuedError("was captured from another cluster; capture into another folder", path=str(path))
    return end


class _Writer:
    """Writes the messages of one partition into files of about ``file_bytes``. ``next`` is the offset that is read
    next, ``held`` the number of bytes in memory."""

    def __init__(self, folder: Path, cluster: str, wanted: Range, file_bytes: int) -> None:
        self.range, self.next = wanted, wanted.start
        self.messages = self.bytes = self.held = self._in_file = 0
        self._folder, self._cluster, self._file_bytes = folder, cluster, file_bytes
        self._waiting: list[Any] = []
        self._open = ExitStack()
        self._file: pq.ParquetWriter | None = None

    def add(self, message: Any) -> None:
        """Adds a message to the buffer."""
        self._waiting.append(message)
        self.next = message.offset() + 1
        size = len(message) + len(message.key() or b"")
        size += sum(len(name) + len(value or b"") for name, value in message.headers() or ())
        self.messages += 1
        self.bytes += size
        self.held += size
        if self._in_file + self.held >= self._file_bytes:
            self.close()

    def flush(self) -> None:
        """Writes the buffer."""
        if not self._waiting:
            return
        if self._file is None:
            self._folder.mkdir(exist_ok=True)
            path = self._folder / f"{self._waiting[0].offset():020}.parquet"
            part = self._open.enter_context(written(path))
            self._file = self._open.enter_context(pq.ParquetWriter(part, MESSAGES, compression="zstd"))
        self._file.write_batch(as_batch(self._waiting))
        self._in_file += self.held
        self._waiting, self.held = [], 0

    def close(self) -> None:
        """Completes the file, if one is open."""
        self.flush()
        if self._file is None:
            return
        facts = {"cluster": self._cluster, "topic": self.range.topic, "partition": self.range.partition}
        self._file.add_key_value_metadata({PARTITION: json.dumps(facts | {"end": self.next})})
        self._file, self._in_file = None, 0
        self._open.close()
