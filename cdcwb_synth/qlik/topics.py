"""The way of messages through topics and partitions into files.

Kafka keeps the order of one partition only. In files of their own partitions are apart; in one stream a reader gets
runs of one partition after another, so that messages of different partitions overtake each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

from cdcwb_synth.parts import WHOLE, Part
from cdcwb_synth.qlik.containers import Sink, file_ending, sink
from cdcwb_synth.qlik.options import KafkaOptions
from cdcwb_synth.qlik.rendering import Message

__all__ = ["Topics"]

Placed = Callable[[Message, int, int, int], None]
"""Called for every message that is in a file: message, number of the file, offset and length there."""


class _Lane:
    """A partition: its next offset, the messages that nobody has fetched, and the file that it is written to."""

    __slots__ = ("file", "name", "offset", "waiting")

    def __init__(self, name: str) -> None:
        self.name = name
        self.offset = 0
        self.waiting: deque[Message] = deque()
        self.file: tuple[int, Sink] | None = None


class Topics:
    """Topics whose partitions are written to files below ``folder``. ``new_file`` gives a file of some name its number,
    ``placed`` gets the place of every message. Each ``part`` of a capture has partitions of its own."""

    def __init__(
        self, options: KafkaOptions, folder: Path, seed: int, new_file: Callable[[str], int], placed: Placed,
        part: Part = WHOLE,
    ) -> None:  # fmt: skip
        self._options, self._folder = options, folder
        self._new_file, self._placed = new_file, placed
        self._rng = Random(f"{seed} {folder.name} topics")
        self._lanes: dict[tuple[str, int], _Lane] = {}
        self._first = part.number * options.partitions
        self._stream = _Lane(f"messages{part.suffix}")  # whose file is that of all lanes, if they go into one
        self._is_stream = options.layout == "stream"
        self._is_single = options.container == "message"
        self._waiting = 0

    def send(
        self, topic: str, key: bytes | None, value: bytes | None, time: int, note: Any = None, *, arrives: bool = True
    ) -> None:
        """Send a record at a ``time`` (milliseconds since 1970); its partition is that of its key. One that does not
        arrive takes its offset all the same."""
        partition = self._first + crc32(key or b"") % self._options.partitions
        lane = self._lanes.get((topic, partition))
        if lane is None:
            lane = self._lanes[topic, partition] = _Lane(f"{topic}-{partition}")
        offset = lane.offset
        lane.offset += 1
        if not arrives:
            return
        message = Message(topic, partition, offset, time, key, value, note)
        if not self._is_stream:
            self._write(message, lane)
            return
        lane.waiting.append(message)
        self._waiting += 1
        while self._waiting > self._options.shuffle:
            self._fetch()

    def _fetch(self) -> None:
        """What a reader gets at once: a run of one partition."""
        filled = [lane for lane in self._lanes.values() if lane.waiting]
        lane = filled[int(self._rng.random() * len(filled))]
        most = 1 + int(self._rng.random() * (1 + self._options.shuffle // 8))
        for _ in range(min(len(lane.waiting), most)):
            self._write(lane.waiting.popleft(), lane)
            self._waiting -= 1

    def _write(self, message: Message, lane: _Lane) -> None:
        if self._is_single:
            number, file = self._opened(f"{lane.name}/{message.offset}")
            offset, length = file.add(message)
            file.close()
        else:
            kept = self._stream if self._is_stream else lane
            if kept.file is None:
                kept.file = self._opened(kept.name)
            number, file = kept.file
            offset, length = file.add(message)
        self._placed(message, number, offset, length)

    def _opened(self, name: str) -> tuple[int, Sink]:
        """A new file, and its number."""
        name = f"{name}.{file_ending(self._options)}"
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return self._new_file(name), sink(path, self._options)

    def close(self) -> None:
        """Write what is still on its way, and complete the files."""
        while self._waiting:
            self._fetch()
        for lane in (self._stream, *self._lanes.values()):
            if lane.file is not None:
                lane.file[1].close()
                lane.file = None
