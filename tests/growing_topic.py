"""A topic that grows without a broker, and what follows it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import cdcwb_synth as synth
from cdcwb.capture import Capture, planner
from cdcwb.formats.containers.kafka_rows import PARTITION
from cdcwb.live import follow as module
from cdcwb.live.follow import Follower
from cdcwb.live.kafka import Topics
from cdcwb.live.recorder import Recorded
from cdcwb.saved import read_description, saved_at
from cdcwb.tables import Saved

__all__ = ["URL", "Growing", "Topic", "follower"]

URL: Final = "kafka://127.0.0.1:9092/^made.*"


class Topic:
    """Messages of a generated capture, of which ever more are there: a stand-in for a broker."""

    def __init__(self, files: list[Path]) -> None:
        whole = [pq.read_table(path) for path in files]
        self.partitions = [
            table.filter((pc.field("topic") == one["topic"]) & (pc.field("partition") == one["partition"]))
            for table in whole
            for one in table.group_by(["topic", "partition"]).aggregate([]).to_pylist()
        ]
        self.there = [0 for _ in self.partitions]

    def grow(self, share: float) -> None:
        """So much of each partition is there."""
        self.there = [round(share * table.num_rows) for table in self.partitions]

    def record(self, _topics: Topics, folder: Path, *_points: Any, **_options: Any) -> Recorded:
        """Writes what came, as :func:`cdcwb.live.recorder.record` does."""
        written = 0
        for table, there in zip(self.partitions, self.there, strict=True):
            first = table.slice(0, 1).to_pylist()[0]
            place = folder / f"{first['topic']}-{first['partition']}"
            done = sum(pq.read_metadata(path).num_rows for path in place.glob("*.parquet"))
            rows = table.slice(done, max(there - done, 0))
            if rows.num_rows:
                place.mkdir(parents=True, exist_ok=True)
                facts = {"cluster": "", "topic": first["topic"], "partition": first["partition"], "end": there}
                rows = rows.replace_schema_metadata({PARTITION: json.dumps(facts)})
                pq.write_table(rows, place / f"{rows['offset'][0].as_py():020}.parquet")
                written += rows.num_rows
        return Recorded(written, 0, [], True)


def follower(folder: Path, **options: Any) -> Follower:
    about = {"format": "auto", "options": options}
    return Follower(Topics.parse(URL), folder, planner("auto", options), about)


class Growing:
    """A followed topic of which ever more messages are there, and a capture of it that was opened early."""

    def __init__(self, place: Path, patch: pytest.MonkeyPatch) -> None:
        synth.generate(
            "qlik-kafka",
            changes=300,
            seed=3,
            to=place / "made",
            container="parquet",
            form="json-envelope",
            tables=2,
            partitions=2,
            all_types=False,
        )
        self.topic = Topic(sorted((place / "made" / "capture").rglob("*.parquet")))
        patch.setattr(module, "record", self.topic.record)
        self.folder = place / "followed"
        self.follower: Follower = follower(self.folder)

    def grow(self, share: float) -> int:
        """So much is there and in the tables; how many messages came."""
        self.topic.grow(share)
        with self.follower._held():
            return self.follower.step().messages

    def open(self) -> Capture:
        newest = saved_at(self.folder)
        assert newest is not None
        return Capture(Saved(None, newest, read_description(newest)))  # type: ignore[arg-type]
