"""Ctrl-C, SIGTERM and SIGHUP end a command with one line, an exit code, and no files and processes that stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cdcwb_synth import generate
from tests.processes import started_by

CAPTURE = Path(__file__).parents[2] / "data" / "gbase8s"
WAIT = 120.0
ENDED = {
    signal.SIGINT: "cdcwb: interrupted",
    signal.SIGTERM: "cdcwb: ended by SIGTERM",
    signal.SIGHUP: "cdcwb: ended by SIGHUP",
}
COMMAND = (  # what runs in the background of a shell ignores Ctrl-C
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "signal.signal(signal.SIGHUP, signal.SIG_DFL);"  # ignored where nohup started the tests
    "from cdcwb.cli import main; sys.exit(main())"
)


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command whose temporary files are in ``folder``; ended by its process."""
    (folder / "tmp").mkdir()
    environment = {**os.environ, "TMPDIR": str(folder / "tmp"), "SPARK_LOCAL_DIRS": str(folder / "tmp")}
    command = [sys.executable, "-c", COMMAND, *arguments]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(WAIT)


def wait_until(condition: Callable[[], object]) -> None:
    until = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def end(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Sends a signal; the command and its children end, and its one line names the signal."""
    started = started_by(process.pid)
    process.send_signal(number)
    _, printed = process.communicate(timeout=WAIT)
    assert process.returncode == 128 + number
    assert printed.strip() == ENDED[number]
    wait_until(lambda: not any(map(is_running, started)))


@pytest.mark.parametrize("number", list(ENDED))
def test_a_command_without_spark_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    made = tmp_path / "made"
    with running(tmp_path, "synth", "gbase8s", "--changes", "50000000", "--seed", "1", "--to", str(made)) as command:
        wait_until(lambda: made.exists() and list(made.iterdir()))
        end(command, number)
    assert [*made.iterdir(), *(tmp_path / "tmp").iterdir()] == []


@pytest.mark.spark
def test_a_signal_while_the_jvm_starts_ends_it_too(tmp_path: Path) -> None:
    target = tmp_path / "changes.jsonl"
    in_spark = ("-o", "mode=DROPMALFORMED")
    with running(tmp_path, "export", str(CAPTURE), "--view", "changes", "--to", str(target), *in_spark) as command:
        wait_until(lambda: any("SparkSubmit" in line for line in started_by(command.pid).values()))
        end(command, signal.SIGTERM)
    assert [path.name for path in tmp_path.iterdir()] == ["tmp"]


@pytest.mark.spark
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_spark_works_is_one_line_and_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    made, target = tmp_path / "made", tmp_path / "saved"
    generate("gbase8s", changes=100_000, seed=1, to=made)
    with running(tmp_path, "save", str(made / "capture"), "--to", str(target), "-o", "mode=DROPMALFORMED") as command:
        wait_until(lambda: any("pyspark.worker" in line for line in started_by(command.pid).values()))
        end(command, number)
    wait_until(lambda: not list((tmp_path / "tmp").iterdir()))
    assert not target.exists()
