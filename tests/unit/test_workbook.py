"""``cdcwb open`` makes a folder of notebooks for a capture, and never changes what somebody did in it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import nbformat
import pytest

from cdcwb import machine
from cdcwb.cli import main
from cdcwb.errors import OptionError
from cdcwb.report import notebooks
from cdcwb.views.workbook import WORKBENCH, make_workbook
from tests.explore_captures import DATA

CAPTURE = DATA / "gbase8s"


def code_of(place: Path) -> list[str]:
    cells = nbformat.read(place, as_version=4).cells
    return [cell.source for cell in cells if cell.cell_type == "code"]


def parameters_of(place: Path) -> dict[str, Any]:
    (cell,) = [one for one in code_of(place) if one.startswith("# this capture")]
    found: dict[str, Any] = {}
    exec(cell, found)
    return {name: found[name] for name in ("path", "format", "options")}


def test_every_notebook_is_about_the_capture(tmp_path: Path) -> None:
    begin = make_workbook(CAPTURE, tmp_path / "made", "gbase8s", {"charset": "gb18030", "note": 'a "quoted" 中'})
    assert begin == tmp_path / "made" / WORKBENCH
    names = {path.name for path in notebooks().values()} - {"00_start_here.ipynb"}
    assert {path.name for path in (tmp_path / "made").glob("*.ipynb")} == names | {WORKBENCH}
    for place in (tmp_path / "made").glob("*.ipynb"):
        found = parameters_of(place)
        assert (found["path"], found["format"]) == (str(CAPTURE), "gbase8s")
        assert json.loads(found["options"]) == {"charset": "gb18030", "note": 'a "quoted" 中'}


def test_the_workbench_is_a_few_lines_and_calls_views(tmp_path: Path) -> None:
    code = code_of(make_workbook(CAPTURE, tmp_path / "made"))
    assert all(len([line for line in cell.splitlines() if line]) <= 5 for cell in code)
    assert [cell for cell in code if cell.startswith("capture.view")] == [
        "capture.view.capture()",
        "capture.view.transactions()",
        "capture.view.masks()",
    ]
    for cell in code:
        compile(cell, "cell", "exec")


def test_notebooks_stay_as_they_were_left(tmp_path: Path) -> None:
    begin = make_workbook(CAPTURE, tmp_path / "made")
    begin.write_text(begin.read_text().replace("capture.view.masks()", "capture.view.problems()"))
    (tmp_path / "made" / "02_transactions.ipynb").unlink()
    assert make_workbook(CAPTURE, tmp_path / "made") == begin
    assert "capture.view.problems()" in code_of(begin)
    assert (tmp_path / "made" / "02_transactions.ipynb").exists()


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.txt").write_text("mine")
    with pytest.raises(OptionError, match="already exists: name another folder with --to"):
        make_workbook(CAPTURE, other)
    make_workbook(CAPTURE, tmp_path / "made")
    with pytest.raises(OptionError, match=r"was made for .*gbase8s: name another folder"):
        make_workbook(DATA / "goldengate", tmp_path / "made")
    assert [path.name for path in other.iterdir()] == ["mine.txt"]


def test_jupyterlab_is_opened_at_the_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[list[str]] = []
    heaps: list[str] = []

    class Server:
        def __init__(self, command: list[str], env: dict[str, str]) -> None:
            started.append(command)
            self.waits = 0
            assert ("CDCWB_VIEWS" in env) == ("voila" in command)
            heaps.append(env["SPARK_DRIVER_MEMORY"])

        def __enter__(self) -> Server:
            return self

        def __exit__(self, *_raised: object) -> None: ...

        def wait(self) -> int:
            self.waits += 1
            if self.waits == 1 and "voila" in started[-1]:
                raise KeyboardInterrupt
            return 3 if "voila" in started[-1] else 0

    monkeypatch.delenv("CDCWB_VIEWS", raising=False)
    monkeypatch.delenv("SPARK_DRIVER_MEMORY", raising=False)
    monkeypatch.setattr(machine, "memory_bytes", lambda: 8 << 30)
    monkeypatch.setattr(subprocess, "Popen", Server)
    monkeypatch.chdir(tmp_path)
    assert main(["open", str(CAPTURE), "--page", "transactions"]) == 0
    folder = tmp_path / "gbase8s-workbench"
    assert capsys.readouterr().out == f"{folder / '02_transactions.ipynb'}\n"
    (command,) = started
    assert command[1:3] == ["-m", "jupyterlab"]
    assert f"--ServerApp.root_dir={folder}" in command
    assert "--LabApp.default_url=/lab/tree/02_transactions.ipynb" in command
    assert main(["open", str(CAPTURE), "--no-lab"]) == 0
    assert len(started) == 1
    monkeypatch.setenv("SPARK_DRIVER_MEMORY", "3g")
    assert main(["open", str(CAPTURE), "--browser"]) == 0  # ended with Ctrl-C
    assert heaps == ["1024m", "3g"]
    assert started[1][1:] == ["-m", "voila", str(folder / WORKBENCH)]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["no-such-capture"], "no-such-capture"),
        (["-"], "standard input cannot be read again when the notebooks run: save it first"),
        ([str(CAPTURE), "--page", "transaction"], "Did you mean 'transactions'?"),
        ([str(CAPTURE), "-o", "charst=gb18030"], "charset"),
    ],
)
def test_what_cannot_be_opened_makes_nothing(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["open", *arguments, "--no-lab"]) == 2
    assert sentence in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
