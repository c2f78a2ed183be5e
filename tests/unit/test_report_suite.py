"""A suite of reports, with notebooks that are not run: what is checked before, and what is left behind."""

from __future__ import annotations

import json
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdcwb.cli import main
from cdcwb.errors import CaptureError, OptionError
from cdcwb.report import notebooks, run_suite, suite
from cdcwb.report.html import PageInfo
from cdcwb.report.runner import Given, Report, ReportRequest

DATA = Path(__file__).parents[2] / "data"
FACTS: dict[str, dict[str, Any]] = {
    "transactions": {"title": "Transactions", "verdict": "One is open.", "healthy": False, "open_transactions": 1},
    "change_masks": {"title": "Masks", "problems": 2, "changes_by_operation": {"INSERT": 3}},
}


class Made:
    """What stands in the place of notebooks: the facts they would record, and what they were given."""

    def __init__(self, folder: Path) -> None:
        self.given: list[tuple[str, list[Given], dict[str, Any]]] = []
        self.failing: tuple[str, ...] = ()
        self.redacted: tuple[str, ...] = ()
        self.wanted: list[ReportRequest] = []
        for name in (*FACTS, "explore", "start_here"):
            title = [{"cell_type": "markdown", "source": f"# {name.capitalize()}"}]
            (folder / f"{name}.ipynb").write_text(json.dumps({"cells": title}))

    def keep(self, wanted: ReportRequest, *_: Any) -> list[Given]:
        self.redacted = wanted.redact
        self.wanted.append(wanted)
        return [("/kept", "auto", {})]

    def make(
        self,
        notebook: Path,
        wanted: ReportRequest,
        opened: list[Given],
        target: Path,
        given: dict[str, Any],
        *rest: Any,
    ) -> Report:
        self.given.append((notebook.stem, opened, given))
        if notebook.stem in self.failing:
            raise CaptureError("the notebook stopped")
        target.parent.mkdir(exist_ok=True, parents=True)
        content: Any = json.loads(notebook.read_text()) | {"metadata": {}}
        report = Report(
            target, FACTS[notebook.stem], content, PageInfo(wanted.name, datetime.now(UTC), notebook.stem, "1")
        )
        report.write(rest[-1])
        target.with_suffix(".json").write_text(json.dumps(FACTS[notebook.stem]))
        return report


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Made:
    folder = tmp_path / "notebooks"
    folder.mkdir()
    faked = Made(folder)
    there = {path.stem: path for path in sorted(folder.iterdir())}
    parameters = {"transactions": ["path", "format", "options", "tables", "time_zone"]}
    monkeypatch.setattr(suite, "notebooks", lambda: there)
    monkeypatch.setattr(suite, "notebook_path", lambda name: there[name])
    monkeypatch.setattr(suite, "parameters_of", lambda path: parameters.get(path.stem, ["path", "format", "options"]))
    kinds = {"healthy": "truth", "open_transactions": "number", "problems": "number", "changes_by_operation": "counts"}
    monkeypatch.setattr(suite, "declared_facts", lambda _: kinds)
    monkeypatch.setattr(suite, "check_capture", lambda *_: None)
    monkeypatch.setattr(suite, "keep", faked.keep)
    monkeypatch.setattr(suite, "make_report", faked.make)
    return faked


def test_the_suite_is_every_notebook_that_is_about_a_capture_and_needs_no_one() -> None:
    assert set(suite.members()) == set(notebooks()) - {"start_here", "explore"}
    assert "transactions" in suite.members()
    assert set(suite.members(["explore"])) == {"explore"}


def test_every_notebook_opens_what_was_kept_and_gets_the_parameters_it_has(made: Made, tmp_path: Path) -> None:
    said: list[str] = []
    run_suite(tmp_path, tmp_path / "out", parameters={"tables": ["a"]}, say=said.append)
    kept: list[Given] = [("/kept", "auto", {})]
    assert made.given == [("change_masks", kept, {}), ("transactions", kept, {"tables": ["a"]})]
    assert "change_masks has no parameter 'tables' and goes without" in said


def test_a_capture_is_kept_anew_if_the_process_that_kept_it_has_ended(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel: Any = SimpleNamespace(ended=False)

    def keep(wanted: ReportRequest, *_: Any) -> list[Given]:
        kernel.ended = False
        made.wanted.append(wanted)
        return [(f"/kept-{len(made.wanted)}", "auto", {})]

    def make(notebook: Path, *rest: Any) -> Report:
        report = made.make(notebook, *rest)
        if notebook.stem == "change_masks":
            kernel.ended = True
            raise CaptureError("the process ended")
        return report

    monkeypatch.setattr(suite, "keep", keep)
    monkeypatch.setattr(suite, "make_report", make)
    found = run_suite(tmp_path, tmp_path / "out", kernel=kernel)
    assert [opened[0][0] for _, opened, _ in made.given] == ["/kept-1", "/kept-2"]
    assert (list(found.facts), list(found.failed)) == (["transactions"], ["change_masks"])


def test_the_index_names_every_report_and_what_is_broken(made: Made, tmp_path: Path) -> None:
    found = run_suite(tmp_path, tmp_path / "out", fail_if=["open_transactions > 0", "problems > 5"])
    index = (tmp_path / "out" / "index.html").read_text()
    assert 'href="transactions.html"' in index
    assert 'href="change_masks.html"' in index
    assert "open_transactions &gt; 0: it is 1 (transactions)" in index
    assert "problems &gt; 5" not in index
    assert found.judgement.broken == ["open_transactions > 0: it is 1 (transactions)"]
    assert found.facts["transactions"]["open_transactions"] == 1


def mixed(folder: Path) -> Path:
    """A stream and a dump side by side, and a text that is neither."""
    folder.mkdir()
    shutil.copy(DATA / "gbase8s" / "stream-1.bin", folder)
    shutil.copy(DATA / "goldengate" / "logdump-000000041.txt", folder)
    shutil.copy(DATA / "goldengate" / "logdump-000000042.txt", folder)
    (folder / "notes.txt").write_text("two captures of one day\n")
    return folder


def links(page: Path) -> list[str]:
    return re.findall(r'<a href="([^#"]+)"', page.read_text())


def test_pages_of_a_suite_lead_to_each_other_and_to_nothing_else(made: Made, tmp_path: Path) -> None:
    run_suite(tmp_path, tmp_path / "out")
    assert links(tmp_path / "out" / "transactions.html") == ["index.html", "change_masks.html"]
    assert links(tmp_path / "out" / "change_masks.html") == ["index.html", "transactions.html"]
    assert len(list((tmp_path / "out").glob("*.js"))) == 1


def test_suites_side_by_side_share_one_file_of_scripts(made: Made, tmp_path: Path) -> None:
    for name in ("gbase8s", "goldengate"):
        run_suite(tmp_path, tmp_path / "out" / name, shared=tmp_path / "out")
    assert len(list((tmp_path / "out").rglob("*.js"))) == 1
    page = tmp_path / "out" / "gbase8s" / "transactions.html"
    assert links(page) == ["../index.html", "change_masks.html"]


def test_some_notebooks_alone_go_into_a_folder_as_well(made: Made, tmp_path: Path) -> None:
    assert set(run_suite(tmp_path, tmp_path / "out", names=["transactions"]).facts) == {"transactions"}


def test_files_of_different_formats_are_refused_with_how_to_open_each(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    folder = mixed(tmp_path / "in")
    with pytest.raises(CaptureError, match="the files are of different formats: goldengate") as caught:
        suite.check_wanted(folder, tmp_path / "out", "auto", None, None, [], [])
    assert f"cdcwb summary {folder / 'stream-1.bin'}" in str(caught.value)


def test_a_format_that_is_named_makes_one_suite_of_all_files(made: Made, tmp_path: Path) -> None:
    folder = mixed(tmp_path / "in")
    assert set(run_suite(folder, tmp_path / "out", "goldengate").facts) == set(FACTS)
    assert {one.captures[0][0] for one in made.wanted} == {str(folder)}


def test_a_notebook_that_fails_leaves_the_others_and_nothing_of_another_day(made: Made, tmp_path: Path) -> None:
    run_suite(tmp_path, tmp_path / "out")
    made.failing = ("transactions",)
    found = run_suite(tmp_path, tmp_path / "out")
    assert found.failed == {"transactions": "the notebook stopped"}
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        *(path.name for path in (tmp_path / "out").glob("cdcwb-*.js")),
        "change_masks.html",
        "change_masks.json",
        "index.html",
    ]
    assert "transactions.html" not in (tmp_path / "out" / "change_masks.html").read_text()
    assert "Not made: transactions" in (tmp_path / "out" / "index.html").read_text()


def test_everything_that_is_wrong_is_said_at_once_before_anything_runs(made: Made, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OptionError) as caught:
        run_suite(
            tmp_path / "none",
            tmp_path / "file",
            "gbase8",
            parameters={"table": ["a"], "time_zone": "Mars", "time_from": "noon"},
            redact=["SALARY"],
            fail_if=["problems"],
        )
    message = str(caught.value)
    for part in (
        f"'{tmp_path / 'file'}' is a file; name a folder",
        "unknown parameter 'table' of any notebook. Did you mean 'tables'? There are: tables, time_zone.",
        f"path: there is no file or folder '{tmp_path / 'none'}'",
        "format: there is no 'gbase8'. Did you mean 'gbase8s'?",
        "time_zone: expected an IANA name",
        "time_from: expected a time",
        "redact: expected a table and a column such as HR.EMP.SALARY, found 'SALARY'",
        "fail-if: expected a comparison such as open_transactions > 0, found 'problems'",
    ):
        assert part in message
    assert "\n" not in message
    assert made.given == []


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_broken_threshold_is_exit_code_4_with_the_reports_written(
    made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conditions = ("--fail-if", "open_transactions > 0", "--fail-if", "problems >= 2", "--fail-if", "problems > 2")
    code, out, err = run(capsys, "report", "all", tmp_path, "--to", tmp_path / "out", *conditions)
    assert code == 4
    assert err.splitlines() == [
        "cdcwb: threshold broken: open_transactions > 0: it is 1 (transactions)",
        "cdcwb: threshold broken: problems >= 2: it is 2 (change_masks)",
    ]
    assert "transactions.html: One is open\n" in out
    answers = [line.partition(": ")[2] for line in out.splitlines()]
    assert len(answers) == len(set(answers)) == 3  # of each report its own, and the number of reports
    assert f"{tmp_path / 'out'}: 2 reports, index.html" in out
    assert (tmp_path / "out" / "transactions.html").is_file()


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ((), 0, ""),
        (("--strict",), 1, ""),
        (("--fail-if", "open_transaction > 0"), 2, "Did you mean 'open_transactions'?"),
        (("--fail-if", "open_transaction > 0", "--fail-if", "problems > 0"), 2, "Did you mean 'open_transactions'?"),
        (("--fail-if", "healthy > 0"), 2, "healthy is true or false, which is not compared so with 0"),
        (("--fail-if", "changes_by_operation.DELETE > 0"), 0, ""),
        (("--fail-if", "problems"), 2, "fail-if: expected a comparison"),
        (("--redact", "SALARY"), 2, "redact: expected a table and a column"),
        (("--time-zone", "Mars"), 2, "time_zone: expected an IANA name"),
    ],
)
def test_how_a_suite_ends(
    made: Made,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    code: int,
    said: str,
) -> None:
    found, _, err = run(capsys, "report", "all", tmp_path, "--to", tmp_path / "out", *options)
    assert found == code
    assert said in err
    assert bool(err) is bool(said)


def test_a_report_that_could_not_be_made_is_exit_code_2_and_named(
    made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made.failing = ("transactions",)
    code, _, err = run(capsys, "report", "all", tmp_path, "--to", tmp_path / "out")
    assert (code, err) == (2, "cdcwb: transactions was not made: the notebook stopped\n")


def test_columns_are_handed_over_to_be_taken_out(
    made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "report", "all", tmp_path, "--to", tmp_path / "out", "--redact", "HR.EMP.SALARY", "--redact", "EMP.A")
    assert made.redacted == ("HR.EMP.SALARY", "EMP.A")


def test_one_report_has_thresholds_as_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}

    def fake(*arguments: Any) -> dict[str, Any]:
        given.update(zip(("redact", "fail_if"), arguments[-2:], strict=True))
        return FACTS["transactions"]

    monkeypatch.setattr("cdcwb.report.run_report", fake)
    options = ("--fail-if", "open_transactions > 0", "--redact", "HR.EMP.SALARY")
    code, _, err = run(capsys, "report", "transactions", tmp_path, "--to", tmp_path / "x.html", *options)
    assert (code, err) == (4, "cdcwb: threshold broken: open_transactions > 0: it is 1 (transactions)\n")
    assert given == {"redact": ("HR.EMP.SALARY",), "fail_if": ("open_transactions > 0",)}
