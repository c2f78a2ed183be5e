"""Topics as a capture: what is in them equals what the generator says is true."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import cdcwb
import cdcwb_synth as synth
from cdcwb.cli import main
from cdcwb.errors import CaptureError
from cdcwb.live.addresses import Topics
from cdcwb.live.topics import record
from tests.live.broker import Broker
from tests.live.topics import FORMS, assert_equals_truth, make

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdcwb.capture import Capture

pytestmark = pytest.mark.usefixtures("spark")

FEW: dict[str, Any] = {"partitions": 2, "tables": 1}
SAME = ("operation", "position", "transaction_id", "table_name", "table_version", "key", "before", "after", "outcome")


def told(capture: Capture) -> list[str]:
    """What changes say, wherever they were read from."""
    return sorted(map(str, capture.changes.select(*SAME).toArrow().to_pylist()))


@pytest.mark.parametrize("form", FORMS)
def test_topics_equal_the_truth(broker: Broker, tmp_path: Path, form: str) -> None:
    prefix = f"load-{FORMS[form]['form']}."
    made = make(broker, tmp_path, prefix, 5_000, **FEW, **FORMS[form])
    capture = cdcwb.load(made.url, **made.options)
    assert assert_equals_truth(capture, made, prefix) > 4_000
    assert capture.events.count() == made.messages
    assert capture.select_events("offset_unit").distinct().collect() == [("message",)]


def test_metadata_may_have_a_topic_of_its_own_and_arrive_late(broker: Broker, tmp_path: Path) -> None:
    made = make(broker, tmp_path, "late.", 500, "separate", send_metadata=False, form="avro-envelope", **FEW)
    waiting = cdcwb.load(made.url)
    problems = waiting.events.where("exists(problems, one -> one.code = 'no_schema')")
    assert problems.where("raw is not null").count() == made.messages
    broker.send_files(tmp_path / "metadata", "late.")
    assert assert_equals_truth(cdcwb.load(made.url), made, "late.") > 400


def test_a_capture_keeps_the_offsets_that_it_was_loaded_with(broker: Broker, tmp_path: Path) -> None:
    start = datetime(2026, 3, 1, tzinfo=UTC)
    broker.create("growing", 2)
    number = 0

    def grow(count: int) -> None:
        nonlocal number
        for _ in range(count):
            body = {"operation": "INSERT", "changeSequence": f"{number:035}", "transactionId": "1"}
            value = json.dumps({"data": {"id": number}, "beforeData": None, "headers": body}).encode()
            stamp = int((start + timedelta(minutes=number)).timestamp() * 1000)
            broker.send([{"topic": "growing", "partition": number % 2, "value": value, "timestamp": stamp}])
            number += 1

    def ids(capture: Capture) -> list[int]:
        return sorted(int(row.id) for row in capture.changes.selectExpr("after['id'] as id").collect())

    grow(8)
    url = f"kafka://{broker.address}/growing"
    capture = cdcwb.load(url, start=1)
    assert ids(capture) == list(range(2, 8))
    grow(4)
    assert ids(capture) == list(range(2, 8))
    assert capture.events.count() == 6
    assert ids(cdcwb.load(url)) == list(range(12))
    assert ids(cdcwb.load(url, start=start + timedelta(minutes=3), end="2026-03-01T00:09")) == list(range(3, 9))

    with pytest.raises(CaptureError, match="there is no message in this range"):
        cdcwb.load(url, "qlik-kafka", start="latest")


def test_only_new_messages_are_read_into_the_cache(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    monkeypatch.setenv("CDCWB_CACHE", str(tmp_path / "cache"))
    made = make(broker, tmp_path / "made", "cached.", 200, partitions=1, tables=1, all_types=False)
    capture = cdcwb.load(made.url)
    (folder,) = (tmp_path / "cache" / "topics").iterdir()
    assert folder.parent.stat().st_mode & 0o77 == 0
    files = {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")}
    assert capture.events.count() == made.messages
    topic = str(capture.events.first().headers["kafka.topic"])
    broker.send([{"topic": topic, "partition": 0, "value": b"{}"}])
    assert cdcwb.load(made.url).events.count() == made.messages + 1
    now = {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")}
    assert len(now) == len(files) + 1
    assert now | files == now, "what was there is not read again"
    # a topic whose messages do not continue those of the cache is read anew
    broker.send([{"topic": topic, "partition": 0, "value": b"{}"} for _ in range(2)])
    end = max(row.offset for row in cdcwb.load(made.url).events.where("file like '%-0/%'").collect())
    broker.send([{"topic": topic, "partition": 0, "value": b"{}"} for _ in range(3)])
    admin = AdminClient(broker.client)
    (deleted,) = admin.delete_records([TopicPartition(topic, 0, end + 3)]).values()
    deleted.result(30)
    left = cdcwb.load(made.url, "qlik-kafka").events.where(f"headers['kafka.topic'] = '{topic}'")
    assert left.count() == 1
    old = folder.with_name("old")
    old.mkdir()
    os.utime(old, (0, 0))
    cdcwb.load(made.url, "qlik-kafka")
    assert [one.name for one in folder.parent.iterdir()] == [folder.name]


def test_a_dataframe_of_sparks_connector_is_a_capture(broker: Broker, tmp_path: Path, spark: SparkSession) -> None:
    made = make(broker, tmp_path / "made", "spark.", 200, partitions=2, tables=1, all_types=False)
    options = {"kafka.bootstrap.servers": broker.address, "subscribePattern": r"spark\..*", "includeHeaders": "true"}
    frame = spark.read.format("kafka").options(**options).load()
    assert told(cdcwb.load(frame)) == told(cdcwb.load(made.url))


def test_topics_of_other_formats(broker: Broker, tmp_path: Path) -> None:
    """Debezium's are detected as such; GoldenGate's JSON too."""
    synth.generate("debezium", changes=300, seed=3, to=tmp_path / "debezium", container="parquet", all_types=False)
    broker.send_files(tmp_path / "debezium" / "capture", "debezium.")
    synth.generate("goldengate", changes=300, seed=3, to=tmp_path / "goldengate", form="json", trail_files=1)
    broker.create("goldengate.all", 1)
    lines = [
        line
        for path in sorted((tmp_path / "goldengate" / "capture").iterdir())
        for line in path.read_bytes().splitlines()
    ]
    broker.send({"topic": "goldengate.all", "partition": 0, "value": line} for line in lines)
    for name in ("debezium", "goldengate"):
        url = f"kafka://{broker.address}/^{name}\\..*"
        files, topics = cdcwb.load(tmp_path / name / "capture"), cdcwb.load(url)
        assert topics.format == files.format == {"goldengate": "goldengate-export"}.get(name, name)
        assert told(topics) == told(files)
        assert topics.changes.count() > 200
        tables = [
            row.name
            for row in topics.changes.selectExpr("concat_ws('.', schema_name, table_name) name").distinct().collect()
        ]
        assert topics.table(tables[0]).count() == files.table(tables[0]).count() > 0
        record(Topics.parse(url), tmp_path / name / "taken")
        assert told(cdcwb.load(tmp_path / name / "taken")) == told(files)


def test_the_command_line_opens_topics(broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = make(broker, tmp_path / "made", "shown.", 200, partitions=1, tables=1, all_types=False)
    assert main(["summary", made.url, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["format"], facts["events"]) == ("qlik-kafka", made.messages)
    assert main(["export", made.url, "--view", "changes", "--to", str(tmp_path / "changes.jsonl")]) == 0
    assert len((tmp_path / "changes.jsonl").read_text().splitlines()) == facts["changes"]
    assert main(["summary", "kafka://127.0.0.1:1/orders"]) == 5
    assert "the cluster does not answer" in capsys.readouterr().err


@pytest.mark.full
@pytest.mark.parametrize("form", FORMS)
def test_400_000_messages_equal_the_truth_loaded_and_captured(broker: Broker, tmp_path: Path, form: str) -> None:
    prefix = f"large-{FORMS[form]['form']}."
    made = make(broker, tmp_path / "made", prefix, 400_000, tables=5, all_types=False, **FORMS[form])
    assert assert_equals_truth(cdcwb.load(made.url, **made.options), made, prefix) > 350_000
    record(Topics.parse(made.url), tmp_path / "taken")
    assert assert_equals_truth(cdcwb.load(tmp_path / "taken", **made.options), made, prefix) > 350_000
