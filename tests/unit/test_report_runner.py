"""Finding notebooks, and what becomes of their failures. None is run here."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdcwb import errors
from cdcwb.report import __main__ as command
from cdcwb.report import execute, notebook_path, notebooks, run_report
from cdcwb.report.kernel import OwnKernelManager
from cdcwb.report.runner import _understood

NOTEBOOKS = sorted(notebooks().items())


def test_a_notebook_is_found_with_and_without_its_number() -> None:
    assert notebook_path("transactions").name == "02_transactions.ipynb"
    assert notebook_path("02_transactions") == notebook_path("transactions.ipynb") == notebook_path("transactions")


def test_an_unknown_report_names_the_nearest_and_those_there_are() -> None:
    with pytest.raises(
        errors.OptionError,
        match=r"there is no report 'transaction'. Did you mean 'transactions'\? There are: .*transactions",
    ):
        notebook_path("transaction")


@pytest.mark.parametrize(("name", "path"), NOTEBOOKS)
def test_notebooks_are_committed_without_outputs(name: str, path: Path) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    code = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    assert code
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in code)


@pytest.mark.parametrize(("name", "path"), NOTEBOOKS)
def test_notebooks_define_nothing_longer_than_five_lines(name: str, path: Path) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    for cell in content["cells"]:
        if cell["cell_type"] == "code":
            for node in ast.walk(ast.parse("".join(cell["source"]))):
                if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
                    assert node.end_lineno is not None
                    assert node.end_lineno - node.lineno < 5


@pytest.mark.parametrize(("name", "path"), NOTEBOOKS)
def test_every_parameter_has_a_plain_type_a_default_and_an_explanation(name: str, path: Path) -> None:
    import papermill

    found = papermill.inspect_notebook(path)
    assert {"path", "format", "options"} <= set(found)
    assert {parameter["inferred_type_name"] for parameter in found.values()} <= {"str", "int", "bool", "list"}
    assert all(parameter["help"] and parameter["default"] for parameter in found.values())


def test_a_parameter_that_the_notebook_does_not_have_is_refused_before_it_runs() -> None:
    with pytest.raises(
        errors.OptionError, match=r"'table' is no parameter of 02_transactions. Did you mean 'tables'\?"
    ):
        execute(notebook_path("transactions"), {"table": "x"}, say=lambda _: None)


def test_a_folder_is_no_html_file(tmp_path: Path) -> None:
    with pytest.raises(errors.OptionError, match="is a folder; name the HTML file"):
        run_report("transactions", tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "kind", "sentence"),
    [
        ("OptionError", "path: there is no file 'x'", errors.OptionError, "path: there is no file 'x'"),
        ("CaptureError", "a.bin at offset 3: bad", errors.CaptureError, "a.bin at offset 3: bad"),
        (
            "PythonException",
            "Job aborted\n  cdcwb.errors.MalformedRecordError: a.bin at offset 7: no record\n  at java.lang",
            errors.MalformedRecordError,
            "a.bin at offset 7: no record",
        ),
        ("KeyError", "'x'\nmore", errors.CaptureError, "the notebook n stopped with KeyError: 'x'"),
        ("Final", "x", errors.CaptureError, "the notebook n stopped with Final: x"),
    ],
)
def test_a_failure_in_a_notebook_is_one_sentence_of_ours(name: str, value: str, kind: type, sentence: str) -> None:
    error = _understood(SimpleNamespace(ename=name, evalue=value), "n")
    assert type(error) is kind
    assert str(error) == sentence


def test_the_kernel_is_this_interpreter_and_listens_on_no_port() -> None:
    import sys

    manager = OwnKernelManager(kernel_name="python3")
    assert manager.kernel_spec.argv[0] == sys.executable
    assert manager.transport == "ipc"


def test_every_folder_of_data_is_a_capture_and_brings_its_labels(tmp_path: Path) -> None:
    for name in ("b", "a", ".hidden"):
        (tmp_path / name).mkdir()
    (tmp_path / "README.md").touch()
    (tmp_path / "b.labels.json").write_text("{}")
    assert command.find_captures(tmp_path) == [
        ("a", tmp_path / "a", {}),
        ("b", tmp_path / "b", {"labels": str(tmp_path / "b.labels.json")}),
    ]


def test_the_command_fails_with_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--data", str(tmp_path)]) == 2
    assert command.main(["transcations"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0] == f"there is no folder with captures in '{tmp_path}'"
    assert said[1].startswith("there is no report 'transcations'. Did you mean 'transactions'?")
    assert len(said) == 2


def test_one_failed_report_does_not_keep_the_others_from_being_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fake(name: str, path: Path, to: Path, **_: Any) -> dict[str, Any]:
        if path.name == "a":
            raise errors.CaptureError("cannot be read", path="a")
        to.parent.mkdir(exist_ok=True)
        to.write_text("report")
        return {"title": "Transactions", "tone": "good", "transactions": 5, "bytes": 2000}

    for name in "ab":
        (tmp_path / "data" / name).mkdir(parents=True)
    monkeypatch.setattr(command, "run_report", fake)
    out = tmp_path / "out"
    assert command.main(["transactions", "--data", str(tmp_path / "data"), "--to", str(out)]) == 2
    assert "not made: a: cannot be read" in capsys.readouterr().err
    index = (out / "index.html").read_text()
    assert "transactions_b.html" in index
    assert "2 kB" in index
    assert "transactions_a.html" not in index
