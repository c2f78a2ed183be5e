"""Messages of a range, from a stand-in for the client: gaps, ends, what goes wrong; Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError

from cdcwb.errors import CaptureError, SourceDownError
from cdcwb.live import kafka as module
from cdcwb.live.addresses import Topics
from cdcwb.live.kafka import MESSAGES, Client, Range, as_batch


class Message:
    """A message, or an error, of one partition."""

    def __init__(self, at: int = -1, topic: str = "t", error: int | None = None) -> None:
        self._at, self._topic, self._error = at, topic, error

    def error(self) -> KafkaError | None:
        return None if self._error is None else KafkaError(self._error)

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._at

    def key(self) -> bytes | None:
        return b"k" if self._at % 2 else None

    def value(self) -> bytes:
        return b"v" * self._at

    def timestamp(self) -> tuple[int, int]:
        return (1, 1_700_000_000_000) if self._at % 2 else (0, -1)

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return [("a", b"1"), ("a", None)] if self._at % 2 else None

    def __len__(self) -> int:
        return self._at


class Consumer:
    """Gives what it was told to, a list for each call; nothing afterwards."""

    def __init__(self, *answers: list[Message]) -> None:
        self.answers = list(answers)
        self.assigned: dict[tuple[str, int], int] = {}

    def assign(self, partitions: list[Any]) -> None:
        self.assigned = {(one.topic, one.partition): one.offset for one in partitions}

    def incremental_unassign(self, partitions: list[Any]) -> None:
        for one in partitions:
            del self.assigned[one.topic, one.partition]

    def consume(self, most: int, seconds: float) -> list[Message]:
        assert most > 0
        return self.answers.pop(0) if self.answers else []

    def poll(self, seconds: float) -> None:
        return None


def fetched(consumer: Consumer, *ranges: Range, patience: float = 0.0) -> Iterator[tuple[list[int], list[Any]]]:
    client = Client(Topics.parse("kafka://a:9092/t"), {}, patience)
    client.consumer = consumer  # type: ignore[assignment]
    for some, complete in client.fetch(ranges):
        yield [message.offset() for message in some], complete


def test_a_range_ends_at_its_last_offset_at_the_end_of_the_partition_or_behind_a_gap() -> None:
    last = Consumer([Message(3), Message(4), Message(5), Message(6)])
    assert list(fetched(last, Range("t", 0, 3, 6))) == [([3, 4, 5], [("t", 0)])]
    assert last.assigned == {}
    gap = Consumer([Message(3)], [Message(4), Message(9)])  # from 5 to 8: markers of transactions, or compacted
    assert list(fetched(gap, Range("t", 0, 3, 7))) == [([3], []), ([4], [("t", 0)])]
    end = Consumer([Message(3), Message(error=KafkaError._PARTITION_EOF)])
    assert list(fetched(end, Range("t", 0, 3, 7))) == [([3], [("t", 0)])]
    assert list(fetched(Consumer(), Range("t", 0, 3, 3))) == []


def test_each_partition_is_complete_by_itself() -> None:
    both = Consumer([Message(0), Message(1, "u")], [Message(2, "u"), Message(1)])
    ranges = Range("t", 0, 0, 2), Range("u", 0, 1, 2)
    assert list(fetched(both, *ranges)) == [([0, 1], [("u", 0)]), ([1], [("t", 0)])]


def test_what_goes_wrong() -> None:
    wanted = Range("t", 0, 0, 9)
    with pytest.raises(SourceDownError, match="no message arrived for 0 s"):
        list(fetched(Consumer([Message(0)]), wanted))
    lost = Consumer([Message(0), Message(1)], [Message(error=KafkaError._AUTO_OFFSET_RESET)])
    with pytest.raises(CaptureError, match="offset 2 of t-0 was deleted before it was read"):
        list(fetched(lost, wanted))
    with pytest.raises(CaptureError, match="the cluster refuses to send messages"):
        list(fetched(Consumer([Message(error=KafkaError.TOPIC_AUTHORIZATION_FAILED)]), wanted))
    passing = Consumer([Message(error=KafkaError._TRANSPORT)], [Message(at) for at in range(9)])
    assert [some for some, _ in fetched(passing, wanted, patience=5.0)] == [list(range(9))]


def test_large_messages_are_taken_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TAKEN", 100)
    asked = []

    class Asked(Consumer):
        def consume(self, most: int, seconds: float) -> list[Message]:
            asked.append(most)
            return super().consume(most, seconds)

    list(fetched(Asked([Message(50)], [Message(51), Message(99)]), Range("t", 0, 50, 100)))
    assert asked == [50, 2]


def test_batches_have_all_that_kafka_knows_of_a_message() -> None:
    some = [Message(1), Message(2)]
    whole = as_batch(some)
    assert whole.schema == MESSAGES
    rows = whole.to_pylist()
    assert [row["key"] for row in rows] == [b"k", None]
    assert [row["value"] for row in rows] == [b"v", b"vv"]
    assert [(row["topic"], row["partition"], row["offset"]) for row in rows] == [("t", 0, 1), ("t", 0, 2)]
    assert [(str(row["timestamp"]), row["timestampType"]) for row in rows] == [
        ("2023-11-14 22:13:20+00:00", 0),
        ("None", -1),
    ]
    assert rows[0]["headers"] == [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]
