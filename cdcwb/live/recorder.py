"""A range of topics as files: the messages of each partition, byte for byte, as Parquet.

The messages of a partition are in ``DIR/<topic>-<partition>/<first offset>.parquet``, named as Kafka names its own
segments, with the columns that Spark gives to a topic. Files are written beside their place and renamed; what is there
says from where on the next run reads, so a run that ended in any way is continued without loss or repetition.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from cdcwb.errors import CaptureError
from cdcwb.formats.messages.rows import PARTITION
from cdcwb.live import FILE_BYTES, PATIENCE
from cdcwb.live.kafka import Client, Point, Range, Topics, connected, partitions, ranges
from cdcwb.words import count

__all__ = ["PART", "Progress", "Recorded", "locked", "record"]

_BUFFERED: Final = 32 << 20  # bytes of messages in memory, of all partitions together
_AT_ONCE: Final = 2000  # messages that are taken from the client, unless they are large
_FIRST: Final = 100
_TAKEN: Final = 8 << 20  # bytes of them, about
_WAITS: Final = 0.5
PART: Final = ".part"
"""What the names of files end with that are not complete; they begin with a dot."""

_NEVER: Final = -1  # the type of the time of a message without one
_SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", "UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)

Progress = Callable[[int, int], None]
"""Called with the number of offsets that were read, and of those to read."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a run did: ``messages`` and their ``bytes`` (keys and values), by partition the ``ranges`` that it read, and
    whether the folder had messages before; how many messages were ``left`` for another run."""

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
    """Writes the messages of topics from ``start`` to before ``end``, as they are now, into a folder; a folder that has
    some already is continued where they end. ``most``: leave what is more than about so many messages, of all
    partitions alike.

    Raises SourceDownError if the cluster does not answer, or sends nothing for ``patience`` seconds; what has arrived
    is kept. Raises CaptureError if messages that would follow those of the folder are no longer there, or the folder is
    of another cluster.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    with locked(target), connected(topics, settings or {}, patience) as client:
        cluster, found = partitions(client)
        asked = ranges(client, found, start, end)
        known = [_continued(target, cluster, one, client) for one in asked]
        wanted = _cut(known, most)
        lanes = [_Lane(target, cluster, one, file_bytes) for one in wanted if one.start < one.end]
        run = _Run({(lane.range.topic, lane.range.partition): lane for lane in lanes})
        run.read(client, progress, patience)
        before = any(one.start > first.start for one, first in zip(wanted, asked, strict=True))
        left = sum(one.end - now.end for one, now in zip(known, wanted, strict=True))
        return Recorded(run.messages, run.bytes, wanted, before, left)


def _cut(wanted: list[Range], most: int | None) -> list[Range]:
    """Ranges that have so many messages together at most, and at least one each that has any."""
    whole = sum(one.end - one.start for one in wanted)
    if most is None or whole <= most:
        return wanted
    return [one._replace(end=one.start + -(-(one.end - one.start) * most // whole)) for one in wanted]


# --- what a folder has ------------------------------------------------------------------------------------------------


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the folder, so that no second run writes to it, and takes away what a run that was killed left unfinished.
    The lock ends with the process."""
    with (folder / ".lock").open("w") as held:
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
    """What of a partition is still to be read."""
    files = _files(folder, wanted.topic, wanted.partition)
    if not files:
        return wanted
    first, then = int(files[0].stem), _end_of(files[-1], cluster)
    name, there = f"{wanted.topic}-{wanted.partition}", ranges(client, [wanted[:2]], "earliest", "latest")[0]
    elsewhere = "; capture into another folder"
    if there.end < then:
        raise CaptureError(
            f"{name} ends at offset {count(there.end)}, but the folder has it up to {count(then)}: the topic was "
            f"created anew{elsewhere}",
            path=str(folder),
        )
    if there.start > then:
        raise CaptureError(
            f"offsets {count(then)} to {count(there.start - 1)} of {name} were deleted before they were captured"
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


# --- a run ------------------------------------------------------------------------------------------------------------


class _Lane:
    """The messages of one partition on their way into files."""

    def __init__(self, folder: Path, cluster: str, wanted: Range, file_bytes: int) -> None:
        self.range = wanted
        self.next = wanted.start  # the offset that is read next
        self.held = 0  # bytes in memory
        self._folder = folder / f"{wanted.topic}-{wanted.partition}"
        self._cluster, self._file_bytes = cluster, file_bytes
        self._rows: list[tuple[Any, ...]] = []
        self._writer: pq.ParquetWriter | None = None
        self._path = self._folder
        self._written = 0

    def add(self, message: Any) -> int:
        """Takes a message of confluent-kafka; returns its bytes."""
        key, value = message.key(), message.value()
        kind, at = message.timestamp()
        headers = message.headers()
        told = None if not headers else [{"key": name, "value": one} for name, one in headers]
        self._rows.append((key, value, message.offset(), at if kind else None, kind - 1 if kind else _NEVER, told))
        self.next = message.offset() + 1
        size = len(key or b"") + len(value or b"") + sum(len(name) + len(one or b"") for name, one in headers or ())
        self.held += size
        if self.held >= self._file_bytes:
            self.flush()
        return size

    def flush(self) -> None:
        """Writes what is in memory."""
        if not self._rows:
            return
        keys, values, offsets, times, kinds, headers = zip(*self._rows, strict=True)
        if self._writer is None:
            self._folder.mkdir(exist_ok=True)
            self._path = self._folder / f"{offsets[0]:020}.parquet"
            self._writer = pq.ParquetWriter(self._folder / f".{self._path.name}{PART}", _SCHEMA, compression="zstd")
        same = len(keys)
        columns = [
            *(keys, values, [self.range.topic] * same, [self.range.partition] * same),
            *(offsets, times, kinds, headers),
        ]
        arrays = [pa.array(items, one.type) for items, one in zip(columns, _SCHEMA, strict=True)]
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA))
        self._written += self.held
        self._rows, self.held = [], 0
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


@dataclass
class _Run:
    """Reads partitions until each is at its end."""

    lanes: dict[tuple[str, int], _Lane]
    messages: int = 0
    bytes: int = 0
    open: set[tuple[str, int]] = field(init=False)

    def read(self, client: Client, progress: Progress, patience: float) -> None:
        """Reads all of it; whatever ends it, what has arrived is in complete files then."""
        from confluent_kafka import TopicPartition

        self.open = set(self.lanes)
        total = sum(lane.range.end - lane.range.start for lane in self.lanes.values())
        client.consumer.assign([TopicPartition(*one, lane.range.start) for one, lane in self.lanes.items()])
        heard = time.monotonic()
        try:
            while self.open:
                some = client.consumer.consume(self._at_once, _WAITS)
                for message in some:
                    self._take(message, client)
                if some:
                    heard = time.monotonic()
                    self._spill()
                    progress(sum(lane.next - lane.range.start for lane in self.lanes.values()), total)
                elif time.monotonic() - heard > patience:
                    raise client.failed(
                        f"no message arrived for {patience:.0f} s; run it again to continue", client.error
                    )
        finally:
            for lane in self.lanes.values():
                lane.close()

    @property
    def _at_once(self) -> int:
        """How many messages to take, by the size of those that came."""
        if not self.messages:
            return _FIRST
        return max(1, min(_AT_ONCE, _TAKEN * self.messages // max(self.bytes, 1)))

    def _take(self, message: Any, client: Client) -> None:
        from confluent_kafka import KafkaError

        one = (str(message.topic()), int(message.partition()))
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                self._finish(one, client)
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                lane = self.lanes[one]
                raise CaptureError(
                    f"offset {count(lane.next)} of {one[0]}-{one[1]} was deleted before it was captured; capture into "
                    "another folder",
                    path=client.topics.url,
                )
            elif not error.retriable() and error.code() >= 0:
                raise client.failed("the cluster refuses to send messages", error)
            return
        if one not in self.open:
            return
        lane = self.lanes[one]
        if message.offset() < lane.range.end:
            self.bytes += lane.add(message)
            self.messages += 1
        if lane.next >= lane.range.end or message.offset() >= lane.range.end:
            self._finish(one, client)

    def _finish(self, one: tuple[str, int], client: Client) -> None:
        from confluent_kafka import TopicPartition

        if one in self.open:
            self.open.discard(one)
            client.consumer.incremental_unassign([TopicPartition(*one)])
            self.lanes[one].close()

    def _spill(self) -> None:
        """Writes the largest buffers, until half of the memory is free again."""
        held = sum(lane.held for lane in self.lanes.values())
        if held < _BUFFERED:
            return
        for lane in sorted(self.lanes.values(), key=lambda one: -one.held):
            held -= lane.held
            lane.flush()
            if held < _BUFFERED // 2:
                return
