"""`cdcwb open`: JupyterLab is one process with the command, listens on loopback, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from cdcwb.cli import main
from tests.processes import started_by

CAPTURE = Path(__file__).parents[2] / "data" / "gbase8s"
TOKEN = "token-of-the-test"
WAIT = 60.0
INTERRUPTIBLE = (  # what runs in the background of a shell ignores Ctrl-C
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "signal.signal(signal.SIGHUP, signal.SIG_DFL);"  # ignored where nohup started the tests
    "from cdcwb.cli import main; sys.exit(main())"
)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def exists(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@contextmanager
def opened(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """`cdcwb open`, until it answers on loopback; ended by its process."""
    more = ["--no-browser", "--port", str(port), "--ip", "127.0.0.1", "--allow-root", "--to", str(folder / "pages")]
    command = [sys.executable, "-c", INTERRUPTIBLE, "open", str(CAPTURE), *more]
    command += ["--", f"--IdentityProvider.token={TOKEN}"]
    places = {f"JUPYTER_{name}_DIR": str(folder / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    environment = {**os.environ, **places, "IPYTHONDIR": str(folder / "ipython")}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        until = time.monotonic() + WAIT
        while True:
            try:
                asked(port, "api")
                break
            except (URLError, ConnectionError):
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < until, (folder / "log").read_text()
                time.sleep(0.1)
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(WAIT)


def asked(port: int, path: str, method: str = "GET") -> dict[str, object]:
    request = Request(f"http://127.0.0.1:{port}/{path}", method=method, headers={"Authorization": f"token {TOKEN}"})
    with urlopen(request, timeout=WAIT) as answer:
        return dict(json.loads(answer.read()))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_to_the_command_ends_jupyterlab_its_kernels_and_its_files(
    number: signal.Signals, tmp_path: Path
) -> None:
    port = free_port()
    with opened(tmp_path, port) as command:
        if number == signal.SIGTERM:
            asked(port, "api/kernels", "POST")
        running = started_by(command.pid)
        assert len(running) >= (number == signal.SIGTERM)
        assert [line for line in running.values() if TOKEN in line] == []
        written = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "log"]
        secret = [path for path in written if TOKEN in path.read_text(errors="replace")]
        assert [path for path in secret if path.stat().st_mode & 0o077] == []
        command.send_signal(number)
        assert command.wait(WAIT) == 0
    until = time.monotonic() + WAIT
    while left := [pid for pid in running if exists(pid)]:
        assert time.monotonic() < until, left
        time.sleep(0.1)
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", port))
    assert [path for path in secret if path.exists()] == []
    assert "cdcwb/cli" not in (tmp_path / "log").read_text()  # no stack trace


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def refused(arguments: list[str], workplace: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["open", str(CAPTURE), *arguments]) == 2
    assert list(workplace.iterdir()) == []
    printed = capsys.readouterr()
    assert printed.out == ""
    (line, *_) = lines = printed.err.splitlines()
    assert len(lines) == 1
    return line


def test_a_second_capture_is_refused(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(["another"], workplace, capsys) == "cdcwb: expected one capture, found also 'another'"
