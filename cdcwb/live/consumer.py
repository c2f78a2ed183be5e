"""Ranges of partitions, read with librdkafka: the messages, or Arrow batches of them.

Partitions are assigned; no consumer group is joined, and no offset committed. Offsets that have no message (removed by
compaction, or the markers and messages of transactions) are passed over.
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

_AT_ONCE: Final = 4000  # messages that are taken from the client, unless they are large
_FIRST: Final = 100
_TAKEN: Final = 8 << 20  # bytes of them, about
_WAITS: Final = 0.1  # seconds in which so many messages have to arrive
_NO_TIME: Final = -1  # the timestampType of a message without a timestamp

Partition = tuple[str, int]


def fetch(
    client: Client, ranges: Sequence[Range], patience: float = PATIENCE
) -> Iterator[tuple[list[Any], list[Partition]]]:
    """The messages of some ranges as they arrive, those of a partition in the order of their offsets; and the
    partitions that are complete with them.

    Raises SourceDownError if nothing arrives for ``patience`` seconds, CaptureError for messages that were deleted
    meanwhile, or that the cluster refuses to send.
    """
    from confluent_kafka import KafkaError, TopicPartition

    consumer, heard = client.consumer, time.monotonic()
    left = {(one.topic, one.partition): one.end for one in ranges if one.start < one.end}
    position = {(one.topic, one.partition): one.start for one in ranges}
    missing = sum(end - position[one] for one, end in left.items())
    messages = size = 0
    consumer.assign([TopicPartition(*one, position[one]) for one in left])
    while left:
        at_once = max(1, min(_AT_ONCE, _TAKEN * messages // max(size, 1))) if messages else _FIRST
        arrived: list[Any] = consumer.consume(max(1, min(at_once, missing)), _WAITS)
        some, complete = [], []
        for message in arrived:
            one = (message.topic(), message.partition())
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    complete.append(one)
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                    raise CaptureError(
                        f"offset {count(position[one])} of {one[0]}-{one[1]} was deleted before it was read",
                        path=client.topics.url,
                    )
                elif not error.retriable() and error.code() >= 0:
                    raise client.failed("the cluster refuses to send messages", error)
            elif one in left:
                position[one] = message.offset() + 1
                if position[one] <= left[one]:
                    some.append(message)
                    size += len(message)
                if position[one] >= left[one]:
                    complete.append(one)
        complete = [one for one in dict.fromkeys(complete) if left.pop(one, None) is not None]
        if complete:
            consumer.incremental_unassign([TopicPartition(*one) for one in complete])
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
    for one in MESSAGES:
        values: Any
        if one.name in ("topic", "partition"):
            arrays.append(pa.repeat(pa.scalar(getattr(messages[0], one.name)(), one.type), rows))
            continue
        if one.name in ("key", "value", "offset"):
            values = [getattr(message, one.name)() for message in messages]
        elif one.name == "headers":
            values = [_headers(message) for message in messages]
        else:
            times = [message.timestamp() for message in messages]
            is_time = one.name == "timestamp"
            values = [(at if kind else None) if is_time else kind - 1 if kind else _NO_TIME for kind, at in times]
        arrays.append(pa.array(values, one.type))
    return pa.RecordBatch.from_arrays(arrays, schema=MESSAGES)


def _headers(message: Any) -> list[dict[str, Any]] | None:
    headers = message.headers()
    return [{"key": name, "value": value} for name, value in headers] if headers else None
