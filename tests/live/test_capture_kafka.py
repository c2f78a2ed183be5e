"""``cdcwb capture``: what a topic holds, byte for byte, whatever happens on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import cdcwb
from cdcwb.cli import main
from cdcwb.errors import CaptureError, SourceDownError
from cdcwb.live.addresses import Topics
from cdcwb.live.topics import record
from tests.live.broker import Broker
from tests.live.topics import FORMS, SLOWLY, assert_equals_truth, assert_says_that_it_is_down, make

SCRIPT = Path(__file__).parents[2] / "docs" / "examples" / "cdcwb-topic.sh"
WAITS = 120.0  # seconds after which a state that does not come is a failure


def rows(folder: Path) -> list[dict[str, Any]]:
    """The messages of a capture, in the order of partitions and offsets."""
    return [row for path in sorted(folder.rglob("*.parquet")) for row in pq.read_table(path).to_pylist()]


def offsets(folder: Path) -> dict[tuple[str, int], list[int]]:
    found: dict[tuple[str, int], list[int]] = {}
    for row in rows(folder):
        found.setdefault((row["topic"], row["partition"]), []).append(row["offset"])
    return found


def assert_whole(folder: Path, messages: int) -> None:
    """Nothing twice, nothing missing, in order."""
    found = offsets(folder)
    assert {one: numbers for one, numbers in found.items() if numbers != list(range(len(numbers)))} == {}
    assert sum(map(len, found.values())) == messages


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("form", FORMS)
def test_a_capture_equals_the_truth(broker: Broker, tmp_path: Path, form: str) -> None:
    prefix = f"capture-{FORMS[form]['form']}."
    made = make(broker, tmp_path / "made", prefix, 20_000, partitions=2, tables=3, **FORMS[form])
    target = tmp_path / "taken"
    assert main(["capture", made.url, "--to", str(target), "--file-size", "200000"]) == 0
    assert_whole(target, made.messages)
    assert len(list(target.rglob("*.parquet"))) > len(offsets(target)), "partitions have several files"
    capture = cdcwb.load(target, **made.options)
    assert assert_equals_truth(capture, made, prefix) > 15_000
    assert capture.select_events("offset_unit").distinct().collect() == [("message",)]
    assert capture.events.count() == made.messages


def test_a_message_is_captured_with_all_that_kafka_knows_of_it(broker: Broker, tmp_path: Path) -> None:
    broker.create("exact", 2)
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    sent = [
        {"value": b"\x00\xff\xfe", "key": b"\x80", "headers": [("a", b"\x01"), ("a", None), ("b", b"x")]},
        {"value": None, "key": b"gone"},
        {"value": b"", "key": None},
        {"value": b'{"a": 1}', "key": b""},
    ]
    times = [int((at + timedelta(minutes=number)).timestamp() * 1000) for number in range(len(sent))]
    broker.send({"topic": "exact", "partition": 1, "timestamp": t, **m} for t, m in zip(times, sent, strict=True))
    assert main(["capture", f"kafka://{broker.address}/exact", "--to", str(tmp_path / "taken")]) == 0
    found = rows(tmp_path / "taken")
    assert [(row["topic"], row["partition"], row["offset"]) for row in found] == [("exact", 1, n) for n in range(4)]
    assert [row["value"] for row in found] == [one["value"] for one in sent]
    assert [row["key"] for row in found] == [one["key"] for one in sent]
    assert found[0]["headers"] == [{"key": name, "value": value} for name, value in sent[0]["headers"]]
    assert [int(row["timestamp"].timestamp() * 1000) for row in found] == times
    assert {row["timestampType"] for row in found} == {0}


def test_ranges_by_offset_and_time(broker: Broker, tmp_path: Path) -> None:
    broker.create("ranges", 1)
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    stamps = [int((at + timedelta(minutes=number)).timestamp() * 1000) for number in range(10)]
    broker.send({"topic": "ranges", "partition": 0, "value": b"{}", "timestamp": stamp} for stamp in stamps)
    wanted = {
        ("3", "7"): range(3, 7),
        ("2026-03-01T12:02:30Z", "2026-03-01T12:05"): range(3, 5),
        ("8", "latest"): range(8, 10),
        ("9", "3"): range(0),
        ("2027-01-01", "latest"): range(0),
        ("0", "99"): range(10),
    }
    for number, ((start, end), found) in enumerate(wanted.items()):
        target = tmp_path / str(number)
        url = f"kafka://{broker.address}/ranges"
        assert main(["capture", url, "--from", start, "--until", end, "--to", str(target)]) == 0
        assert [row["offset"] for row in rows(target)] == list(found), (start, end)


def test_a_capture_that_is_started_again_continues_where_it_ended(broker: Broker, tmp_path: Path) -> None:
    broker.create("more", 1)
    topics = Topics.parse(f"kafka://{broker.address}/more")
    total = 0
    for count in (5, 0, 7):
        broker.send({"topic": "more", "partition": 0, "value": b"{}"} for _ in range(count))
        total += count
        done = record(topics, tmp_path)
        assert (done.messages, done.continued) == (count, total > count)
    assert_whole(tmp_path, total)
    record(topics, tmp_path / "later", 3)
    with pytest.raises(CaptureError, match="has more-0 from offset 3 on, and the range begins at 0"):
        record(topics, tmp_path / "later", 0, 5)


def test_a_capture_that_was_killed_continues_without_loss_or_repetition(broker: Broker, tmp_path: Path) -> None:
    made = make(broker, tmp_path / "made", "killed.", 20_000, partitions=2)
    target = tmp_path / "taken"
    command = [sys.executable, "-m", "cdcwb.cli", "capture", made.url, "--to", str(target), "--file-size", "100000"]
    config = tmp_path / "client.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in SLOWLY.items()))
    kills = 0
    for most in (0, 8, 16):
        process = subprocess.Popen([*command, "--client-config", str(config)])
        until = time.monotonic() + WAITS
        while len(list(target.glob("*/*.parquet"))) <= most and process.poll() is None:
            assert time.monotonic() < until
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
    assert kills == 3
    assert 0 < len(rows(target)) < made.messages
    assert main(command[3:]) == 0
    assert_whole(target, made.messages)
    assert not list(target.rglob("*.part"))


def test_a_broker_that_is_killed_and_comes_back_is_no_loss(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "broker")
    broker.start()
    try:
        made = make(broker, tmp_path / "made", "shaken.", 8_000, partitions=2)
        topics = Topics.parse(made.url)
        back = threading.Thread(target=broker.start)
        seen: list[int] = []

        def shake(read: int, total: int) -> None:
            if not seen:
                broker.kill()
                back.start()
            seen.append(read)

        done = record(topics, tmp_path / "taken", settings=SLOWLY, progress=shake)
        back.join()
        assert seen[0] < done.messages == made.messages
        assert_whole(tmp_path / "taken", made.messages)

        # one that stays away: what has arrived is kept, and the next run has the rest
        gone: list[int] = []

        def leave(read: int, total: int) -> None:
            if not gone:
                broker.kill()
            gone.append(read)

        with pytest.raises(SourceDownError, match="no message arrived for 8 s; run it again to continue"):
            record(topics, tmp_path / "again", settings=SLOWLY, progress=leave, patience=8)
        kept = len(rows(tmp_path / "again"))
        assert 0 < kept < made.messages
        broker.start()
        assert record(topics, tmp_path / "again").messages == made.messages - kept
        assert_whole(tmp_path / "again", made.messages)
    finally:
        broker.kill()


def test_a_cluster_that_is_down_has_its_own_exit_code_and_one_sentence(
    broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = "kafka://127.0.0.1:1/orders"
    assert main(["capture", url, "--to", str(tmp_path / "taken"), "--wait", "0.5"]) == 5
    assert_says_that_it_is_down(capsys.readouterr().err, url)
    broker.create("orders-2026")
    assert main(["capture", f"kafka://{broker.address}/orders-2025", "--to", str(tmp_path / "taken")]) == 2
    assert "there is no topic 'orders-2025'. Did you mean 'orders-2026'?" in capsys.readouterr().err


def test_a_topic_that_lost_messages_or_was_created_anew_is_not_continued(broker: Broker, tmp_path: Path) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    broker.create("kept", 1)
    topics = Topics.parse(f"kafka://{broker.address}/kept")
    broker.send({"topic": "kept", "partition": 0, "value": b"{}"} for _ in range(5))
    record(topics, tmp_path)
    broker.send({"topic": "kept", "partition": 0, "value": b"{}"} for _ in range(5))
    admin = AdminClient(broker.client)
    (deleted,) = admin.delete_records([TopicPartition("kept", 0, 8)]).values()
    deleted.result(30)
    with pytest.raises(CaptureError, match="offsets 5 to 7 of kept-0 were deleted before they were captured"):
        record(topics, tmp_path)
    assert len(rows(tmp_path)) == 5
    (path,) = tmp_path.glob("*/*.parquet")
    table, facts = pq.read_table(path), json.loads(pq.read_metadata(path).metadata[b"cdcwb.partition"])
    wrong = {"was captured from another cluster": {"cluster": "another"}, "the topic was created anew": {"end": 99}}
    for sentence, told in wrong.items():
        pq.write_table(table.replace_schema_metadata({"cdcwb.partition": json.dumps(facts | told)}), path)
        with pytest.raises(CaptureError, match=sentence):
            record(topics, tmp_path)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("tls", [pytest.param(False, id="PLAIN"), pytest.param(True, id="SCRAM, through TLS")])
def test_a_password_is_in_no_output(tls: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    word = "planted-word-7319"
    broker = Broker(tmp_path / "server", {"reader": word}, tls)
    broker.start()
    try:
        made = make(broker, tmp_path / "made", "locked.", 500, tables=1, all_types=False, partitions=1)
        out = tmp_path / "out"
        out.mkdir()
        config = tmp_path / "client.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in broker.client.items()))
        given = ["--client-config", str(config)]
        assert main(["capture", made.url, "--to", str(out / "taken"), *given, "--json"]) == 0
        capture = cdcwb.load(made.url, client_config=str(config))
        capture.save(out / "saved")
        texts = [repr(one) for one in (capture.facts, capture.files, capture.detected.collect(), capture)]
        capture.events.explain(True)
        assert capture.events.count() == made.messages
        if tls:
            trusting = config.read_text()
            other = Broker(tmp_path / "other", broker.users, tls)  # is not started: its certificate is another one
            config.write_text(trusting.replace(str(broker.authority), str(other.authority)))
            assert main(["capture", made.url, "--to", str(out / "none"), *given, "--wait", "10"]) in (2, 5)
            assert "certificate" in capfd.readouterr().err
            config.write_text(trusting)
        config.write_text(config.read_text().replace(word, f"{word}-wrong"))
        assert main(["capture", made.url, "--to", str(out / "none"), *given, "--wait", "10"]) == 2
        for url in (made.url.replace("//", f"//reader:{word}@"), f"{made.url.partition('^')[0]}x?password={word}"):
            assert main(["capture", url, "--to", str(out / "none")]) == 2
            with pytest.raises(CaptureError) as refused:
                cdcwb.load(url)
            texts.append(str(refused.value))
        shown = capfd.readouterr()
        assert "uthentication failed" in shown.err
        texts += [
            shown.out,
            shown.err,
            *(path.read_bytes().decode("latin-1") for path in out.rglob("*") if path.is_file()),
        ]
        assert [text for text in texts if word in text] == []
    finally:
        broker.kill()
    assert (out / "saved" / "cdcwb.json").exists()


def test_the_scheduled_script_reports_and_catches_up(broker: Broker, tmp_path: Path) -> None:
    """docs/examples/cdcwb-topic.sh, with the paths and the cluster of the test."""
    made = make(broker, tmp_path / "made", "timer.", 300, partitions=1, tables=1, all_types=False)
    command = tmp_path / "bin" / "cdcwb"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m cdcwb.cli "$@"\n')
    command.chmod(0o755)
    script = SCRIPT.read_text(encoding="utf-8").replace("/var/lib", str(tmp_path))

    def run(url: str) -> subprocess.CompletedProcess[str]:
        text = script.replace(r"kafka://broker:9092/^shop\..*", url).replace(
            '"$messages"\n', '"$messages" --wait 1\n', 1
        )
        environment = {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}"}
        return subprocess.run(["sh", "-c", text], env=environment, capture_output=True, text=True, check=False)

    down = run(made.url.replace(broker.address, "127.0.0.1:1"))
    assert down.returncode == 5
    assert down.stderr.count("\n") == 1
    report = tmp_path / "cdcwb" / "reports" / "shop" / "01_capture.json"
    done = run(made.url)
    assert done.returncode == 0, done.stderr
    events = json.loads(report.read_text())["events"]
    topic = str(cdcwb.load(tmp_path / "cdcwb" / "saved" / "shop").events.first().headers["kafka.topic"])
    broker.send([{"topic": topic, "partition": 0, "value": b"{}"}])
    again = run(made.url)
    assert again.returncode in (0, 4), again.stderr
    assert json.loads(report.read_text())["events"] == events + 1 == made.messages + 1
