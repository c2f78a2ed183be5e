"""Topics that are followed while they are written to: what was saved equals the truth, whatever ended meanwhile."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import cdcwb
import cdcwb_synth as synth
from cdcwb.cli import main
from cdcwb.errors import CaptureError, OptionError
from cdcwb.saved import saved_at
from tests.live.broker import Broker
from tests.live.topics import FORMS, Made, assert_equals_truth, assert_says_that_it_is_down, make

SCRIPT = Path(__file__).parents[2] / "docs" / "examples" / "cdcwb-topic.sh"

pytestmark = pytest.mark.usefixtures("spark")


def start(made: Made, folder: Path, *more: str) -> subprocess.Popen[bytes]:
    options = [text for name, value in made.options.items() for text in ("-o", f"{name}={value}")]
    command = [sys.executable, "-m", "cdcwb.cli", "follow", made.url, "--to", str(folder), *options, *more]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def kill_three_times(made: Made, folder: Path, seconds: float) -> None:
    """Follows, and is killed at any moment; then to the end."""
    chance = random.Random(17)
    for _ in range(3):
        process = start(made, folder, "--every", "0.2")
        time.sleep(2.0 + chance.random() * seconds)
        process.send_signal(signal.SIGKILL)
        process.wait()
    process = start(made, folder, "--once")
    assert process.wait(900) == 0


@pytest.mark.parametrize("form", FORMS)
def test_what_is_followed_equals_the_truth_after_three_kills(broker: Broker, tmp_path: Path, form: str) -> None:
    prefix = f"follow-{FORMS[form]['form']}."
    made = make(broker, tmp_path / "made", prefix, 4_000, partitions=2, tables=1, **FORMS[form])
    kill_three_times(made, tmp_path / "to", 3.0)
    assert assert_equals_truth(cdcwb.load(tmp_path / "to"), made, prefix) > 3_000


def test_messages_that_are_written_meanwhile_are_seen(broker: Broker, tmp_path: Path) -> None:
    """The table of another process grows; the broker is killed once."""
    made = tmp_path / "made"
    synth.generate("qlik-kafka", changes=3_000, seed=17, to=made, container="parquet", form="json-envelope", tables=1)
    first = min((made / "capture").rglob("*.parquet"))
    broker.send_files(made / "capture", "grows.")
    url = f"kafka://{broker.address}/^grows\\..*"
    whole = cdcwb.load(url)
    following = whole.follow(tmp_path / "to", every=0.2)
    try:
        status = following.wait(120)
        capture = cdcwb.load(tmp_path / "to")
        seen = capture.changes.count()
        assert capture.following is not None
        assert (status.behind, capture.following.messages) == (0, status.messages)
        assert not capture.refresh()
        writer = Thread(target=send_again, args=(broker, first))
        writer.start()
        writer.join()
        broker.kill()
        time.sleep(2)
        assert following.running
        broker.start()
        until = time.monotonic() + 120
        while not capture.refresh() and time.monotonic() < until:
            time.sleep(0.2)
        following.wait(120)
        capture.refresh()
        assert capture.events.count() == following.status.messages == cdcwb.load(url).events.count()
        assert capture.changes.count() > seen
        assert "running" in repr(following)
    finally:
        following.stop()
    assert not following.running
    assert "ended" in repr(following)
    with pytest.raises(OptionError, match="only a capture of topics can be followed"):
        capture.follow(tmp_path / "other")


def send_again(broker: Broker, path: Path) -> None:
    """Writes the messages of a file once more."""
    from tests.live.broker import _messages

    broker.send(_messages(path, "grows."))


def test_other_formats_are_followed(broker: Broker, tmp_path: Path) -> None:
    synth.generate("debezium", changes=300, seed=3, to=tmp_path / "debezium", container="parquet", all_types=False)
    broker.send_files(tmp_path / "debezium" / "capture", "followed-debezium.")
    synth.generate("goldengate", changes=300, seed=3, to=tmp_path / "goldengate", form="json", trail_files=1)
    broker.create("followed-goldengate.all", 1)
    paths = sorted((tmp_path / "goldengate" / "capture").iterdir())
    lines = [line for path in paths for line in path.read_bytes().splitlines()]
    names = ["operation", "position", "transaction_id", "table_name", "key", "before", "after", "outcome"]
    half = len(lines) // 2
    for name, some in (("goldengate", [lines[:half], lines[half:]]), ("debezium", [[]])):
        for part in some:
            broker.send({"topic": f"followed-{name}.all", "partition": 0, "value": line} for line in part)
            url = f"kafka://{broker.address}/^followed-{name}\\..*"
            assert main(["follow", url, "--to", str(tmp_path / "to" / name), "--once"]) == 0
        found, files = (cdcwb.load(tmp_path / place) for place in (f"to/{name}", f"{name}/capture"))
        assert found.format == files.format == name
        told = [sorted(map(str, one.changes.select(*names).toArrow().to_pylist())) for one in (found, files)]
        assert told[0] == told[1]
        assert len(told[0]) > 200
        told = [sorted(map(str, one.transactions.drop("bytes").toArrow().to_pylist())) for one in (found, files)]
        assert told[0] == told[1]


def test_a_cluster_that_is_down_and_a_folder_without_messages(
    broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = "kafka://127.0.0.1:1/orders"
    assert main(["follow", url, "--to", str(tmp_path / "to"), "--wait", "1"]) == 5
    assert_says_that_it_is_down(capsys.readouterr().err, url)
    broker.create("nothing-yet")
    assert main(["follow", f"kafka://{broker.address}/nothing-yet", "--to", str(tmp_path / "empty"), "--once"]) == 0
    with pytest.raises(CaptureError, match="no message has arrived yet"):
        saved_at(tmp_path / "empty")


def test_the_scheduled_script_reports_and_catches_up(broker: Broker, tmp_path: Path) -> None:
    """docs/examples/cdcwb-topic.sh, with the paths and the cluster of the test."""
    made = make(broker, tmp_path / "made", "timer.", 300, partitions=1, tables=1, all_types=False)
    command = tmp_path / "bin" / "cdcwb"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m cdcwb.cli "$@"\n')
    command.chmod(0o755)
    script = SCRIPT.read_text(encoding="utf-8").replace("/var/lib", str(tmp_path))

    def run(url: str) -> subprocess.CompletedProcess[str]:
        text = script.replace(r"kafka://broker:9092/^shop\..*", url).replace("--once", "--once --wait 1")
        environment = {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}"}
        return subprocess.run(["sh", "-c", text], env=environment, capture_output=True, text=True, check=False)

    down = run(made.url.replace(broker.address, "127.0.0.1:1"))
    assert down.returncode == 5
    assert down.stderr.count("\n") == 1
    done = run(made.url)
    assert done.returncode == 0, done.stderr
    facts = json.loads((tmp_path / "cdcwb" / "reports" / "shop" / "01_capture.json").read_text())
    topic = str(cdcwb.load(tmp_path / "cdcwb" / "kept" / "shop").events.first().headers["kafka.topic"])
    broker.send([{"topic": topic, "partition": 0, "value": b"{}"}])
    assert run(made.url).returncode in (0, 4)
    again = json.loads((tmp_path / "cdcwb" / "reports" / "shop" / "01_capture.json").read_text())
    assert again["events"] == facts["events"] + 1 == made.messages + 1


@pytest.mark.full
@pytest.mark.parametrize("form", FORMS)
def test_400_000_messages_followed_with_three_kills(broker: Broker, tmp_path: Path, form: str) -> None:
    options: dict[str, Any] = {"tables": 5, "all_types": False}
    prefix = f"follow-large-{FORMS[form]['form']}."
    made = make(broker, tmp_path / "made", prefix, 400_000, **options, **FORMS[form])
    kill_three_times(made, tmp_path / "to", 15.0)
    assert assert_equals_truth(cdcwb.load(tmp_path / "to"), made, prefix) > 350_000
