"""``-``: standard output in the place of a file; standard input is not a capture."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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
    """The folder for temporary files."""
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


WITHOUT_FILES = ("capture", "doctor", "follow", "open", "synth")


@pytest.mark.parametrize("name", [name for name in cli.commands if name not in WITHOUT_FILES])
def test_standard_input_is_not_a_capture_for_any_command(name: str, spool: Path, tmp_path: Path) -> None:
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
    assert done.stderr == "cdcwb: a capture is not read from standard input (-); write it to a file and name that\n"


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


def test_closed_streams_are_no_error_and_their_numbers_go_to_no_file(capture: Path, tmp_path: Path) -> None:
    closed = ["sh", "-c", '"$@" <&- >&- 2>&-', "sh", *COMMAND]
    assert subprocess.run([*closed, "summary", str(capture)], check=False).returncode == 0
    assert subprocess.run([*closed, "save", str(capture), "--to", str(tmp_path / "saved")], check=False).returncode == 0
    assert (tmp_path / "saved" / "cdcwb.json").exists()
