"""A topic that is written to, followed, and opened in JupyterLab: `make demo-live`, ended with Ctrl-C.

    python -m scripts.demo_live [MESSAGES A SECOND] [arguments of `cdcwb open`]

Everything is in a temporary folder, and the broker listens on the loopback address only.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

import click
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Producer

import cdcwb_synth as synth
from cdcwb.live.following import Following
from tests.live.broker import Broker

_CHANGES: Final = 100_000
_COLUMNS: Final = ("topic", "partition", "key", "value", "timestamp")


def main() -> int:
    """Runs until JupyterLab ends."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    rate, more = float(sys.argv[1]) if sys.argv[1:] else 50.0, sys.argv[2:]
    with tempfile.TemporaryDirectory(prefix="cdcwb-live-", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        click.echo("starting a broker …")
        broker, stop = Broker(folder / "broker"), Event()
        broker.start()
        try:
            synth.generate(
                "qlik-kafka", changes=_CHANGES, seed=1, to=folder / "made", container="parquet", partitions=2
            )
            messages = _messages(folder / "made" / "capture")
            for topic in {row["topic"] for row in messages}:
                broker.create(topic, 2)
            writer = Thread(target=_write, args=(broker, messages, rate, stop), daemon=True)
            writer.start()
            url = f"kafka://{broker.address}/^.*"
            click.echo(f"{rate:g} messages a second are written to {url}, and followed into {folder / 'topic'}")
            following = Following(folder / "topic", [url, "--format", "qlik-kafka", "--every", "2"], {})
            try:
                following.wait(120)
                command = [sys.executable, "-m", "cdcwb.cli", "open", str(folder / "topic")]
                return _run([*command, "--to", str(folder / "notebooks"), *more])
            finally:
                following.stop()
        finally:
            stop.set()
            broker.stop()


def _run(command: list[str]) -> int:
    """Runs a command until it ends; Ctrl-C and SIGTERM end it too."""
    with subprocess.Popen(command) as running:
        try:
            return running.wait()
        except KeyboardInterrupt:
            running.terminate()
            return running.wait()


def _messages(folder: Path) -> list[dict[str, Any]]:
    """The messages of a generated capture in the order of their times."""
    tables = [pq.read_table(path, columns=list(_COLUMNS)) for path in sorted(folder.rglob("*.parquet"))]
    return pa.concat_tables(tables).sort_by("timestamp").to_pylist()


def _write(broker: Broker, messages: list[dict[str, Any]], rate: float, stop: Event) -> None:
    """Writes messages, so many a second, with the time of now."""
    producer = Producer(broker.client)
    for row in _at_rate(messages, rate, stop):
        producer.produce(row["topic"], row["value"], row["key"], row["partition"])
        producer.poll(0)
    producer.flush(10)


def _at_rate(messages: list[dict[str, Any]], rate: float, stop: Event) -> Iterator[dict[str, Any]]:
    began = time.monotonic()
    for number, row in enumerate(messages):
        early = began + number / rate - time.monotonic()
        if stop.wait(max(early, 0)) if early > 0 else stop.is_set():
            return
        yield row


if __name__ == "__main__":
    sys.exit(main())
