"""A notebook run by hand, with parameters that it can and cannot use."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

from cdcwb.report import notebook_path

ROOT = Path(__file__).parents[2]


def test_a_wrong_parameter_is_one_sentence_without_a_traceback_and_papermill_fails(tmp_path: Path) -> None:
    given = ["-p", "path", "/nowhere", "-p", "tables", '["shop.orders"]', "-p", "least_changes", "few"]
    command = [sys.executable, "-m", "papermill", str(notebook_path("transactions")), str(tmp_path / "run.ipynb")]
    done = subprocess.run(
        [*command, *given, "--no-progress-bar"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    sentence = (
        "OptionError: path: there is no file or folder '/nowhere'; "
        "least_changes: expected a whole number from 0 on, found 'few'"
    )
    assert done.stderr.rstrip().endswith(sentence)
    cells = json.loads((tmp_path / "run.ipynb").read_text())["cells"]
    errors = [one for cell in cells for one in cell.get("outputs", ()) if one["output_type"] == "error"]
    assert [one["traceback"] for one in errors] == [[sentence]]


def test_a_notebook_shows_our_exceptions_as_sentence_and_advice(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = "from cdcwb.errors import OptionError\nraise OptionError('no \\x1b[2J', path='a', advice=('do b',))"
    InteractiveShell().run_cell(code)
    assert capsys.readouterr().out == "OptionError: a: no \\x1b[2J\ndo b\n"
