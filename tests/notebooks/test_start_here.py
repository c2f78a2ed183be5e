"""The notebook for beginners: on ``data/`` every expected number comes out, and it goes on where captures are missing
or are not what they were."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from cdcwb.report import execute, notebook_path, notebooks, read_facts, run_report
from cdcwb.report.kernel import Kernel

ROOT = Path(__file__).parents[2]
DATA = ROOT / "data"
CAPTURES = ["gbase8s", "qlik-kafka", "qlik-change-table", "goldengate", "idm-event-log", "debezium"]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """The page that is read, and the facts beside it."""
    page = tmp_path_factory.mktemp("report") / "start.html"
    facts = run_report("start_here", DATA, page, say=lambda _: None)
    text = page.read_text(encoding="utf-8")
    assert json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))["agrees"] is True
    return text[text.index("<main") : text.index("</main>")], facts


def run(folder: Path, kernel: Kernel) -> tuple[str, dict[str, Any]]:
    """All that the notebook put out over a folder, and its facts."""
    executed = execute(notebook_path("start_here"), {"path": str(folder)}, lambda _: None, kernel)
    outputs = [output for cell in executed["cells"] for output in cell.get("outputs", ())]
    texts = [str(output["data"].get("text/html", "")) for output in outputs if "data" in output]
    return "\n".join(texts), read_facts(executed)


def test_every_expected_number_comes_out(report: tuple[str, dict[str, Any]]) -> None:
    facts = report[1]
    assert facts["captures"] == CAPTURES
    assert facts["agrees"] is True
    assert facts["tone"] == "good"
    expected = json.loads((DATA / "expected.json").read_text(encoding="utf-8"))
    number = sum(len(value) if isinstance(value, dict) else 1 for one in expected.values() for value in one.values())
    assert len(facts["expected"]) == number
    assert [row for row in facts["expected"] if row[2] != row[3]] == []
    assert ["gbase8s", "changes_by_outcome.undone", 38, 38] in facts["expected"]
    assert facts["verdict"] == f"All {number} expected numbers of 6 captures agree with what is counted."


def test_the_page_shows_each_format_whole(report: tuple[str, dict[str, Any]]) -> None:
    html, facts = report
    assert html.count('<div class="cdcwb-bytes">') == 6
    assert html.count('<ol class="cdcwb-traps">') == 6
    assert {name: len(found) for name, found in facts["traps"].items()} == dict.fromkeys(CAPTURES, 6)
    assert [title for found in facts["traps"].values() for title, example in found if example is None] == []
    assert html.count('<figure class="chart"') == 3  # one transaction, two masks
    assert facts["pictured"][0] == "gbase8s"
    assert len(facts["shown_records"]["gbase8s"]) == facts["pictured"][2]


def test_the_records_are_chosen_by_rule_and_what_they_changed_is_true(report: tuple[str, dict[str, Any]]) -> None:
    facts = report[1]
    for name, (file, offset, _, rule) in facts["chosen"].items():
        assert (DATA / name / file).stat().st_size > offset
        assert "first" in rule
    file, offset, *_ = facts["chosen"]["qlik-kafka"]
    line = (DATA / "qlik-kafka" / file).read_bytes()[offset:].split(b"\n", 1)[0]
    message = json.loads(line[line.index(b'{"magic"') :])["message"]
    differ = [name for name, value in message["data"].items() if message["beforeData"][name] != value]
    assert facts["changed_columns"]["qlik-kafka"] == differ


def test_the_general_part_comes_first_and_the_self_check_last(report: tuple[str, dict[str, Any]]) -> None:
    html, facts = report
    heads = re.findall(r"<h2 id=\"[^\"]+\">([^<]+)</h2>", html)
    assert heads[0] == "I have files: which page do I need?"
    assert heads[1] == "Why change data capture"
    assert heads[-1] == "Self-check: expected and actual numbers"
    assert facts["example"][0] == "qlik-kafka"
    assert [line["target_sentence"] for line in facts["example"][1]][-1] == "no row"
    assert len(facts["example"][1]) == 5
    counted = {row["format_code"]: row for row in facts["delivery"]}
    assert counted["qlik-kafka"] == {
        "format_code": "qlik-kafka",
        "snapshot": 40,
        "changes": 327,
        "again": 1,
        "back": 8,
    }
    names = dict(facts["positions"])
    assert {name.split(",")[0] for name in names} >= {"LSN", "SCN", "CSN", "offset"}
    assert None not in names.values()


def test_the_lesson_of_one_format_is_a_page_of_its_own(tmp_path: Path) -> None:
    page = tmp_path / "goldengate.html"
    facts = run_report("start_here", DATA, page, "goldengate", say=lambda _: None)
    html = page.read_text(encoding="utf-8")
    assert "<h1>Oracle GoldenGate: a trail, printed</h1>" in html
    heads = re.findall(r"<h2 id=\"[^\"]+\">([^<]+)</h2>", html)
    assert heads[0] == "The bytes of one record"
    assert heads[-1] == "Oracle GoldenGate: expected and actual numbers"
    assert html.count('<div class="cdcwb-bytes">') == 1
    assert "GBase" not in html[html.index("<main") :]
    assert facts["captures"] == ["goldengate"]
    assert facts["agrees"] is True


def test_links_lead_to_notebooks_and_documents_that_are_there_and_a_report_has_none(
    report: tuple[str, dict[str, Any]],
) -> None:
    assert re.findall(r'<a\b[^>]*href="([^"#]+)"', report[0]) == []
    places = set(re.findall(r"\]\((\.\./[^)#]+)", notebook_path("start_here").read_text(encoding="utf-8")))
    linked = {Path(place).name for place in places if place.endswith(".ipynb")}
    assert linked == {path.name for name, path in notebooks().items() if name != "start_here"}
    assert [place for place in places if place.endswith(".md") and not (ROOT / "notebooks" / place).is_file()] == []
    assert {f"../docs/formats/{name}.md" for name in CAPTURES} <= places


def test_missing_captures_are_said_and_the_others_shown(tmp_path: Path, kernel: Kernel) -> None:
    for name in ("qlik-change-table", "goldengate", "idm-event-log", "debezium"):
        shutil.copytree(DATA / name, tmp_path / name)
    shutil.copy(DATA / "expected.json", tmp_path)
    html, facts = run(tmp_path, kernel)
    assert facts["captures"] == ["qlik-change-table", "goldengate", "idm-event-log", "debezium"]
    assert facts["agrees"] is True
    assert facts["verdict"].endswith("Missing: gbase8s and qlik-kafka.")
    assert facts["chosen"]["gbase8s"] is None
    assert facts["traps"]["qlik-kafka"] is None
    assert facts["pictured"][0] == "qlik-change-table"
    for name in ("gbase8s", "qlik-kafka"):
        assert f"There is no folder &#x27;{name}&#x27; in" in html
    assert html.count('<div class="cdcwb-bytes">') == 4


def test_a_capture_that_was_changed_disagrees_and_the_row_says_which(tmp_path: Path, kernel: Kernel) -> None:
    shutil.copytree(DATA / "gbase8s", tmp_path / "gbase8s")
    shutil.copy(DATA / "gbase8s.labels.json", tmp_path)
    shutil.copy(DATA / "expected.json", tmp_path)
    last = tmp_path / "gbase8s" / "stream-3.bin"
    data = last.read_bytes()
    last.write_bytes(data[: len(data) // 2])
    html, facts = run(tmp_path, kernel)
    assert facts["agrees"] is False
    assert facts["tone"] == "bad"
    differ = {row[1]: row[2:] for row in facts["expected"] if row[2] != row[3]}
    assert differ["bytes"] == [139_275, 139_275 - (len(data) - len(data) // 2)]
    assert differ["changes"][1] < 900
    assert "tables" not in differ
    assert re.search(
        r"<td class=\"text\">changes</td><td class=\"number\">900</td><td class=\"number\">\d+</td><td>no<", html
    )
    assert "gbase8s: bytes in its files: expected 139,275, found" in facts["verdict"]
