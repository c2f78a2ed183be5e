"""``cdcwb open`` makes a folder of notebooks for a capture, and never changes what somebody did in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

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
        "capture.view.explore()",
        "capture.view.drift()",
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


def test_without_jupyterlab_the_path_of_the_notebook_is_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["open", str(CAPTURE), "--page", "transactions", "--no-lab"]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'gbase8s-workbench' / '02_transactions.ipynb'}\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["no-such-capture"], "no-such-capture"),
        (["-"], "a capture is not read from standard input (-)"),
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
