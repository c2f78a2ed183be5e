"""A consumer of a Kafka cluster: partitions, ranges of offsets, and their messages.

Uses ``confluent-kafka`` (librdkafka): no JVM is started. Partitions are assigned; no consumer group is joined, and no
offset is committed. Offsets without a message (removed by compaction, or used by the markers and messages of
transactions) are skipped.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from cdcwb.errors import CaptureError, OptionError, SourceDownError
from cdcwb.live import PATIENCE
from cdcwb.live.addresses import Point, Topics, hidden
from cdcwb.words import count

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError


MESSAGES: Final = pa.schema(
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
"""The columns of messages, as Spark's Kafka connector names them."""

_ANSWERS: Final = 15.0  # seconds in which a cluster answers
_PAUSE: Final = 0.2  # seconds before it is asked again
_AT_ONCE: Final = 4000  # most messages of one poll
_FIRST: Final = 100  # messages of the first poll
_TAKEN: Final = 8 << 20  # approximate bytes of one poll
_WAITS: Final = 0.1  # timeout of one poll, in seconds

_READ: Final = {
    "group.id": "cdcwb",  # required, and never used
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "queued.max.messages.kbytes": "32768",
    "fetch.queue.backoff.ms": "20",  # until a full queue is looked at again
    "log_level": "0",  # failures are reported as errors
}

Partition = tuple[str, int]


class Range(NamedTuple):
    """The messages of a partition with offsets from ``start`` to before ``end``."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def name(self) -> str:
        """``topic-partition``, as Kafka names the folder of its segments."""
        return f"{self.topic}-{self.partition}"


@dataclass(slots=True)
class Client:
    """A consumer of a cluster's topics that answers within so many seconds, and the last error that it reported."""

    topics: Topics
    settings: Mapping[str, str] = field(repr=False)
    patience: float = PATIENCE
    consumer: Consumer = field(init=False)
    error: KafkaError | None = None

    @property
    def answers(self) -> float:
        """The seconds within which the cluster has to answer."""
        return min(self.patience, _ANSWERS)

    def failure(self, what: str, error: KafkaError | None = None) -> CaptureError:
        """``what`` failed and why: SourceDownError for a cluster that is down, CaptureError for one that refuses."""
        from confluent_kafka import KafkaError

        self.consumer.poll(0)  # takes errors that wait to be reported
        refusals = {KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED}
        refusals |= {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
        is_refused = self.error is not None and self.error.code() in refusals
        cause = self.error if is_refused or error is None else error
        reason = "" if cause is None else f" ({hidden(cause.str(), self.settings).rstrip('. ')})"
        is_down = cause is None or cause.code() < 0  # the client's own codes: no connection, time is up
        kind = SourceDownError if is_down and not is_refused else CaptureError
        return kind(f"{what}{reason}", path=self.topics.url)

    def partitions(self) -> tuple[str, list[Partition]]:
        """The id of the cluster, and the partitions of its topics that are meant. Raises SourceDownError if it does not
        answer, CaptureError for topics that do not exist."""
        from confluent_kafka import KafkaException

        try:
            metadata = self.consumer.list_topics(timeout=self.answers)
        except KafkaException as reason:
            raise self.failure("the cluster does not answer", reason.args[0]) from None
        names = self.topics.select([name for name, topic in metadata.topics.items() if topic.error is None])
        numbers = {name: sorted(metadata.topics[name].partitions) for name in names}
        return str(metadata.cluster_id or ""), [(name, number) for name in names for number in numbers[name]]

    def ranges(self, partitions: Sequence[Partition], start: Point, end: Point) -> list[Range]:
        """The current offsets of each partition from ``start`` to ``end``, limited to those that the cluster still has,
        with ``end`` at least ``start``. A time is the first message at or after it."""
        from confluent_kafka import KafkaException

        try:
            limits = {partition: self._limits(partition) for partition in partitions}
            first, last = (self._offsets(limits, point) for point in (start, end))
        except KafkaException as reason:
            raise self.failure("the offsets of its partitions cannot be read", reason.args[0]) from None
        return [Range(*partition, first[partition], max(first[partition], last[partition])) for partition in partitions]

    def _limits(self, partition: Partition) -> tuple[int, int]:
        """The first offset of a partition and the one after its last; retries while a leader is being elected."""
        from confluent_kafka import KafkaError, KafkaException, TopicPartition

        until = time.monotonic() + self.answers
        while True:
            try:
                limits = self.consumer.get_watermark_offsets(
                    TopicPartition(*partition), timeout=self.answers, cached=False
                )
            except KafkaException as reason:
                in_election = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
                if reason.args[0].code() not in in_election or time.monotonic() > until:
                    raise
                time.sleep(_PAUSE)
                continue
            if limits is None:
                raise self.failure("the cluster does not answer")
            return limits

    def _offsets(self, limits: Mapping[Partition, tuple[int, int]], point: Point) -> dict[Partition, int]:
        from confluent_kafka import TopicPartition

        offsets: dict[Partition, int] = {}
        if isinstance(point, datetime):
            moment = point.replace(tzinfo=UTC) if point.tzinfo is None else point
            asked = [TopicPartition(*partition, max(int(moment.timestamp() * 1000), 0)) for partition in limits]
            answers = self.consumer.offsets_for_times(asked, timeout=self.answers)
            offsets = {(one.topic, one.partition): one.offset for one in answers if one.offset >= 0}
        elif isinstance(point, int):
            offsets = dict.fromkeys(limits, point)
        elif point == "earliest":
            offsets = dict.fromkeys(limits, 0)
        # a partition without an offset has no message so late: its end
        return {one: min(max(offsets.get(one, high), low), high) for one, (low, high) in limits.items()}

    def fetch(self, ranges: Sequence[Range]) -> Iterator[tuple[list[Any], list[Partition]]]:
        """Yields the messages of some ranges as they arrive, in offset order within a partition, with the partitions
        that are complete after them.

        Raises SourceDownError if nothing arrives for :attr:`patience` seconds, CaptureError for messages that were
        deleted before they were read, or that the cluster refuses to send.
        """
        from confluent_kafka import TopicPartition

        left = {part[:2]: part.end for part in ranges if part.start < part.end}
        position = {part[:2]: part.start for part in ranges}
        missing = sum(end - position[partition] for partition, end in left.items())
        messages = size = 0
        heard = time.monotonic()
        self.consumer.assign([TopicPartition(*partition, position[partition]) for partition in left])
        while left:
            at_once = max(1, min(_AT_ONCE, _TAKEN * messages // max(size, 1))) if messages else _FIRST
            arrived: list[Any] = self.consumer.consume(max(1, min(at_once, missing)), _WAITS)
            wanted, complete = [], []
            for message in arrived:
                partition = (message.topic(), message.partition())
                if message.error() is not None:
                    if self._is_end(message.error(), partition, position):
                        complete.append(partition)
                elif partition in left:
                    position[partition] = message.offset() + 1
                    if position[partition] <= left[partition]:
                        wanted.append(message)
                        size += len(message)
                    if position[partition] >= left[partition]:
                        complete.append(partition)
            complete = [partition for partition in dict.fromkeys(complete) if left.pop(partition, None) is not None]
            if complete:
                self.consumer.incremental_unassign([TopicPartition(*partition) for partition in complete])
            messages += len(wanted)
            missing = max(missing - len(wanted), 1)
            if wanted or complete:
                heard = time.monotonic()
                yield wanted, complete
            elif time.monotonic() - heard > self.patience:
                what = f"no message arrived for {self.patience:.0f} s; run it again to continue"
                raise self.failure(what, self.error)

    def _is_end(self, error: KafkaError, partition: Partition, position: Mapping[Partition, int]) -> bool:
        """Whether an error is the end of a partition. Raises CaptureError for one that does not pass by itself."""
        from confluent_kafka import KafkaError

        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            at = f"offset {count(position[partition])} of {partition[0]}-{partition[1]}"
            raise CaptureError(f"{at} was deleted before it was read", path=self.topics.url)
        if error.code() >= 0 and not error.retriable():
            raise self.failure("the cluster refuses to send messages", error)
        return bool(error.code() == KafkaError._PARTITION_EOF)


@contextmanager
def connected(topics: Topics, settings: Mapping[str, str], patience: float = PATIENCE) -> Iterator[Client]:
    """A client of the cluster. Raises OptionError for a property that librdkafka does not know."""
    from confluent_kafka import Consumer, KafkaException

    client = Client(topics, settings, patience)

    def note(error: KafkaError) -> None:
        client.error = error

    try:
        client.consumer = Consumer({**_READ, **settings, "bootstrap.servers": topics.servers, "error_cb": note})
    except KafkaException as reason:
        text = hidden(reason.args[0].str(), settings)
        raise OptionError(f"the Kafka client refuses its configuration: {text}") from None
    try:
        yield client
    finally:
        client.consumer.close()


def as_batch(messages: Sequence[Any]) -> pa.RecordBatch:
    """Messages as an Arrow batch of :data:`MESSAGES`."""
    kinds, times = zip(*(message.timestamp() for message in messages), strict=True)
    columns = [
        *([getattr(message, name)() for message in messages] for name in MESSAGES.names[:5]),
        [at if kind else None for kind, at in zip(kinds, times, strict=True)],
        [kind - 1 for kind in kinds],  # -1: without a timestamp
        [[{"key": name, "value": value} for name, value in message.headers() or ()] or None for message in messages],
    ]
    return pa.record_batch([pa.array(*pair) for pair in zip(columns, MESSAGES.types, strict=True)], schema=MESSAGES)
