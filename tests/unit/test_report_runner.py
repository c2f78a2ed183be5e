"""Finding notebooks, and what becomes of their failures. None is run here."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest

from cdcwb import errors
from cdcwb.report import __main__ as command
from cdcwb.report import execute, notebook_path, notebooks, run_report, suite
from cdcwb.report.facts import KINDS, declared_facts
from cdcwb.report.kernel import Kernel, OwnKernelManager
from cdcwb.report.runner import _executed, _understood, parameters_of
from cdcwb.report.thresholds import Judgement

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
def test_every_parameter_has_a_plain_type_a_default_and_an_explanation(name: str, path: Path) -> None:
    import papermill

    found = papermill.inspect_notebook(path)
    assert list(parameters_of(path)) == list(found)
    assert ({"path"} if name == suite.LESSON else {"path", "format", "options"}) <= set(found)
    assert {parameter["inferred_type_name"] for parameter in found.values()} <= {"str", "int", "float", "bool", "list"}
    assert all(parameter["help"] and parameter["default"] for parameter in found.values())


@pytest.mark.parametrize(("name", "path"), NOTEBOOKS)
def test_every_fact_that_a_cell_names_is_declared_with_its_kind(name: str, path: Path) -> None:
    declared = declared_facts(path)
    assert set(declared.values()) <= set(KINDS)
    content = json.loads(path.read_text(encoding="utf-8"))
    named = set()
    for cell in content["cells"]:
        for node in ast.walk(ast.parse("".join(cell["source"]))) if cell["cell_type"] == "code" else ():
            if not isinstance(node, ast.Call):
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called == "begin":
                named |= {keyword.arg for keyword in node.keywords if keyword.arg is not None}
            elif called == "record" and isinstance(node.args[0], ast.Dict):
                named |= {key.value for key in node.args[0].keys if isinstance(key, ast.Constant)}
    assert named <= set(declared)
    texts = content["metadata"]["cdcwb"]["facts"].values()
    assert len(declared) == sum(len(names.split()) for names in texts), "a name is declared twice"


def test_a_parameter_that_the_notebook_does_not_have_is_refused_before_it_runs() -> None:
    with pytest.raises(
        errors.OptionError, match=r"unknown parameter 'table' of 02_transactions. Did you mean 'tables'\?"
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
        (
            "UnknownFormatError",
            "in: two formats:\ncdcwb summary a\ncdcwb summary b",
            errors.UnknownFormatError,
            "in: two formats:\ncdcwb summary a\ncdcwb summary b",
        ),
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


def test_every_folder_of_data_is_a_capture(tmp_path: Path) -> None:
    for name in ("b", "a", ".hidden"):
        (tmp_path / name).mkdir()
    (tmp_path / "README.md").touch()
    (tmp_path / "b.labels.json").write_text("{}")
    assert command.find_captures(tmp_path) == [
        ("a", tmp_path / "a"),
        ("b", tmp_path / "b"),
    ]


def test_the_command_fails_with_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--data", str(tmp_path)]) == 2
    assert command.main(["transcations"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0] == f"there is no folder with captures in '{tmp_path}'"
    assert said[1].startswith("there is no report 'transcations'. Did you mean 'transactions'?")
    assert len(said) == 2


def test_a_file_in_the_place_of_the_folder_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "data" / "one").mkdir(parents=True)
    assert command.main(["--data", str(tmp_path / "data"), "--to", str(tmp_path / "file" / "reports")]) == 2
    assert capsys.readouterr().err == f"'{tmp_path / 'file'}' is a file; nothing can be written below it\n"


def test_what_tables_held_is_no_capture_of_its_own(tmp_path: Path) -> None:
    for name in ("log", "log.snapshot", "other.snapshot"):
        (tmp_path / name).mkdir()
    assert [name for name, _ in command.find_captures(tmp_path)] == ["log", "other.snapshot"]


def test_a_capture_that_cannot_be_read_does_not_keep_the_others_from_their_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fake(path: Path, to: Path, **_: Any) -> suite.Suite:
        if path.name == "a":
            raise errors.CaptureError("cannot be read", path="a")
        to.mkdir(parents=True)
        (to / "02_transactions.html").write_text("report")
        facts = {"title": "Transactions", "tone": "good", "transactions": 5, "bytes": 2000}
        entry = suite.entry_of("02_transactions", str(path), "02_transactions.html", facts)
        return suite.Suite({"02_transactions": facts}, {"03_change_masks": "it broke"}, [entry], Judgement())

    for name in "ab":
        (tmp_path / "data" / name).mkdir(parents=True)
    monkeypatch.setattr(command, "run_suite", fake)
    out = tmp_path / "out"
    assert command.main(["transactions", "--data", str(tmp_path / "data"), "--to", str(out)]) == 2
    assert "not made: a: cannot be read" in capsys.readouterr().err
    index = (out / "index.html").read_text()
    assert 'href="b/02_transactions.html"' in index
    assert "1 report, 6 bytes" in index
    assert "a/02_transactions.html" not in index
    assert "Not made: a</p><p>a: cannot be read" in index
    assert "Not made: b, 03_change_masks</p><p>it broke" in index


def test_facts_are_not_written_over_the_page(tmp_path: Path) -> None:
    with pytest.raises(errors.OptionError, match="is where the facts would be; name the HTML file"):
        run_report("transactions", tmp_path, tmp_path / "x.json")


def test_a_process_that_ends_before_its_time_is_one_sentence_and_the_next_notebook_gets_a_new_one() -> None:
    with Kernel() as kernel:
        assert ran(kernel, "value = 7\nprint(value)") == "7\n"
        with pytest.raises(errors.CaptureError, match="the process of the notebook n ended unexpectedly"):
            ran(kernel, "import os\nos._exit(9)")
        assert ran(kernel, "print('again')") == "again\n"


def test_a_notebook_finds_nothing_of_the_one_before_but_what_modules_keep() -> None:
    with Kernel() as kernel:
        ran(kernel, "import json, os\njson.kept = os.getpid()\nvalue = 1\nos.chdir('/')")
        assert ran(kernel, "print('value' in globals(), 'json' in globals())") == "False False\n"
        assert ran(kernel, "import json, os\nprint(json.kept == os.getpid(), os.getcwd() == '/')") == "True False\n"


def ran(kernel: Kernel, code: str) -> str:
    """What a notebook of one cell printed."""

    content = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    content.metadata.kernelspec = {"name": "python3", "language": "python", "display_name": "Python 3"}
    outputs = _executed(content, {}, "n", False, kernel).cells[0].outputs
    return "".join(output.text for output in outputs)
