"""``-``: standard input in the place of a capture, standard output in the place of a file."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cdcwb import standard_input
from cdcwb.cli.app import cli, main
from cdcwb.cli.console import standard_output
from cdcwb_synth import generate

COMMAND = [sys.executable, "-m", "cdcwb.cli"]


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = generate("gbase8s", changes=20, seed=3, to=tmp_path_factory.mktemp("made"))
    (file,) = (made / "capture").iterdir()
    return file


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """The folder in which standard input is kept for as long as the command runs."""
    folder = tmp_path / "spool"
    folder.mkdir()
    return folder


def run(spool: Path, *arguments: str | Path, stdin: Any = subprocess.DEVNULL, **more: Any) -> Any:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        env={**os.environ, "TMPDIR": str(spool)},
        capture_output=True,
        text=True,
        check=False,
        **({"stdin": stdin} | more),
    )


def test_identify_and_inspect_read_standard_input_and_leave_nothing(capture: Path, spool: Path) -> None:
    for command in (("identify", "{}"), ("identify", "{}", "--json"), ("inspect", "{}", "--offset", "0", "--json")):
        with capture.open("rb") as file:
            done = run(spool, *(one.format("-") for one in command), stdin=file)
        plain = run(spool, *(one.format(capture) for one in command))
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == plain.stdout.replace(str(capture), "standard input")
        assert list(spool.iterdir()) == []


def test_what_a_command_says_of_standard_input_names_it_and_can_be_run_again(spool: Path, tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(bytes(range(256)) * 8)
    with (tmp_path / "x.bin").open("rb") as file:
        done = run(spool, "identify", "-", stdin=file)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("cdcwb: standard input: no format recognises this binary file")
    assert str(spool) not in done.stderr
    assert list(spool.iterdir()) == []


WITHOUT_FILES = ("capture", "doctor", "follow", "open", "pack", "synth")


@pytest.mark.parametrize("name", [name for name in cli.commands if name not in WITHOUT_FILES])
def test_empty_standard_input_is_one_sentence_for_every_command(name: str, spool: Path, tmp_path: Path) -> None:
    given = {
        "inspect": ("-", "--offset", "0"),
        "export": ("-", "--view", "changes", "--to", tmp_path / "x.csv"),
        "history": ("-", "--table", "a", "--key", "b=1"),
        "xds": ("-", "--to", tmp_path / "x.xml"),
        "report": ("transactions", "-", "--to", tmp_path / "x.html"),
        "save": ("-", "--to", tmp_path / "x"),
    }
    done = run(spool, name, *given.get(name, ("-",)))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "cdcwb: standard input is empty; pipe a capture into the command, or name a file\n"
    assert list(spool.iterdir()) == []


def test_a_terminal_is_not_waited_for(spool: Path) -> None:
    _, terminal = pty.openpty()
    done = run(spool, "identify", "-", stdin=terminal, timeout=60)
    assert done.returncode == 2
    assert done.stderr == "cdcwb: standard input is a terminal; pipe a capture into the command, or name a file\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("summary", "-", "-"), "standard input (-) is given twice; it holds one capture"),
        (("summary", "-", "x"), "standard input (-) is one complete capture; give it without other paths"),
        (("report", "capture", "-", "--with", "-", "--to", "x.html"), "standard input (-) is given twice"),
    ],
)
def test_standard_input_is_one_capture(arguments: tuple[str, ...], said: str, capture: Path, spool: Path) -> None:
    with capture.open("rb") as file:
        done = run(spool, *arguments, stdin=file)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"cdcwb: {said}")


def test_a_command_that_is_ended_by_a_signal_leaves_no_copy_of_its_input(spool: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(spool)}
    with subprocess.Popen([*COMMAND, "identify", "-"], stdin=subprocess.PIPE, env=environment) as command:
        while not list(spool.glob("*/standard-input")):  # it goes on reading until its input is closed
            time.sleep(0.01)
            assert command.poll() is None
        command.send_signal(signal.SIGTERM)
        assert command.wait(60) == 128 + signal.SIGTERM
    assert list(spool.iterdir()) == []


def test_a_command_on_a_page_reads_standard_input_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standard_input, "_spool", ["/tmp/cdcwb-1/standard-input"])
    text = "a /tmp/cdcwb-1/standard-input at 5: cdcwb inspect /tmp/cdcwb-1/standard-input --offset 5"
    assert standard_input.named(text) == "a standard input at 5: cdcwb inspect - --offset 5"


def test_data_on_a_terminal_commands_it_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with standard_output() as out:
        out.write('a,b\r\n"\x1b]0;x\u202e",1\r\n'.encode())
    assert capsys.readouterr().out == 'a,b\n"\\x1b]0;x\\u202e",1\n'


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("save", "x", "--to", "-"), "this command cannot write to standard output; name a new folder"),
        (("xds", "x", "--to", "-"), "name FILE.xml or a new folder"),
        (("report", "capture", "x", "--to", "-"), "name FILE.html, or with all a folder"),
        (("synth", "gbase8s", "--changes", "1", "--seed", "1", "--to", "-"), "name a folder"),
        (("export", "x", "--view", "changes", "--to", "-", "--as", "parquet"), "'parquet' is not one of jsonl, csv"),
        (("export", "x", "--view", "changes", "--to", "x.csv", "--as", "csv"), "--as is for standard output"),
    ],
)
def test_what_needs_a_file_or_a_folder_says_so(arguments: tuple[str, ...], said: str, spool: Path) -> None:
    done = run(spool, *arguments, cwd=spool)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr.splitlines()[0]
    assert list(spool.iterdir()) == []


@pytest.mark.parametrize("command", ["xds", "open", "history"])
def test_results_are_written_to_this_machine(capture: Path, capsys: Any, command: str) -> None:
    name, *options = command.split()
    assert main([name, *options, str(capture), "--to", "s3://bucket/result.json"]) == 2
    assert "s3://bucket/result.json: results are written to this machine" in capsys.readouterr().err
