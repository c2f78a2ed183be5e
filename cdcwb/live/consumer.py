"""Ranges of partitions, read with librdkafka: messages, or Arrow batches of them.

Partitions are assigned; no consumer group is joined, and no offset is committed. Offsets without a message (removed by
compaction, or used by the markers and messages of transactions) are skipped.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from cdcwb.errors import CaptureError
from cdcwb.live import PATIENCE
from cdcwb.live.kafka import Client, Range
from cdcwb.words import count

__all__ = ["MESSAGES", "as_batch", "fetch"]

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

_AT_ONCE: Final = 4000  # most messages of one poll
_FIRST: Final = 100  # messages of the first poll
_TAKEN: Final = 8 << 20  # approximate bytes of one poll
_WAITS: Final = 0.1  # timeout of one poll, in seconds
_NO_TIME: Final = -1  # the timestampType of a message without a timestamp

Partition = tuple[str, int]


def fetch(
    client: Client, ranges: Sequence[Range], patience: float = PATIENCE
) -> Iterator[tuple[list[Any], list[Partition]]]:
    """Yields the messages of some ranges as they arrive, in offset order within a partition, with the partitions that
    are complete after them.

    Raises SourceDownError if nothing arrives for ``patience`` seconds, CaptureError for messages that were deleted
    before they were read, or that the cluster refuses to send.
    """
    from confluent_kafka import KafkaError, TopicPartition

    consumer, heard = client.consumer, time.monotonic()
    left = {(part.topic, part.partition): part.end for part in ranges if part.start < part.end}
    position = {(part.topic, part.partition): part.start for part in ranges}
    missing = sum(end - position[partition] for partition, end in left.items())
    messages = size = 0
    consumer.assign([TopicPartition(*partition, position[partition]) for partition in left])
    while left:
        at_once = max(1, min(_AT_ONCE, _TAKEN * messages // max(size, 1))) if messages else _FIRST
        arrived: list[Any] = consumer.consume(max(1, min(at_once, missing)), _WAITS)
        some, complete = [], []
        for message in arrived:
            partition = (message.topic(), message.partition())
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    complete.append(partition)
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                    offset, name = count(position[partition]), f"{partition[0]}-{partition[1]}"
                    raise CaptureError(
                        f"offset {offset} of {name} was deleted before it was read", path=client.topics.url
                    )
                elif not error.retriable() and error.code() >= 0:
                    raise client.failed("the cluster refuses to send messages", error)
            elif partition in left:
                position[partition] = message.offset() + 1
                if position[partition] <= left[partition]:
                    some.append(message)
                    size += len(message)
                if position[partition] >= left[partition]:
                    complete.append(partition)
        complete = [partition for partition in dict.fromkeys(complete) if left.pop(partition, None) is not None]
        if complete:
            consumer.incremental_unassign([TopicPartition(*partition) for partition in complete])
        messages += len(some)
        missing = max(missing - len(some), 1)
        if some or complete:
            heard = time.monotonic()
            yield some, complete
        elif time.monotonic() - heard > patience:
            raise client.failed(f"no message arrived for {patience:.0f} s; run it again to continue", client.error)


def as_batch(messages: Sequence[Any]) -> pa.RecordBatch:
    """Messages of one partition as an Arrow batch of :data:`MESSAGES`."""
    rows = len(messages)
    arrays = []
    for field in MESSAGES:
        values: Any
        if field.name in ("topic", "partition"):
            arrays.append(pa.repeat(pa.scalar(getattr(messages[0], field.name)(), field.type), rows))
            continue
        if field.name in ("key", "value", "offset"):
            values = [getattr(message, field.name)() for message in messages]
        elif field.name == "headers":
            values = [_headers(message) for message in messages]
        else:
            times = [message.timestamp() for message in messages]
            is_time = field.name == "timestamp"
            values = [(at if kind else None) if is_time else kind - 1 if kind else _NO_TIME for kind, at in times]
        arrays.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=MESSAGES)


def _headers(message: Any) -> list[dict[str, Any]] | None:
    headers = message.headers()
    return [{"key": name, "value": value} for name, value in headers] if headers else None
