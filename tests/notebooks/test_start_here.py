"""The notebook for beginners, executed: its tables are those of the captures, and the text reads the right lines."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nbformat
import pytest

from cdcwb.errors import CaptureError
from cdcwb.opening import open_small
from cdcwb.report import execute, notebook_path, notebooks, read_facts
from cdcwb.report.html import PageInfo, page
from cdcwb.report.kernel import Kernel
from tests.expected import expected
from tests.made import DATA
from tests.walkthrough import RECORDS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def executed(kernel: Kernel) -> Any:
    return execute(notebook_path("start_here"), {"path": str(DATA)}, lambda _: None, kernel)


@pytest.fixture(scope="module")
def tables(executed: Any) -> dict[str, list[list[str]]]:
    """The last table of each section: its lines, as texts."""
    found: dict[str, list[list[str]]] = {}
    name = ""
    for cell in executed["cells"]:
        if cell["cell_type"] == "markdown" and (heading := re.match(r"## (.+)", cell["source"])):
            name = heading[1]
        for output in cell.get("outputs", ()):
            html = output.get("data", {}).get("text/html", "")
            if 'class="dataframe"' in html:
                lines = re.findall(r"<tr[^>]*>(.*?)</tr>", html, re.DOTALL)
                found[name] = [re.findall(r"<t[hd]>(.*?)</t[hd]>", line, re.DOTALL) for line in lines]
    return found


def updates(name: str, table: str | None = None) -> list[dict[str, Any]]:
    """The updates of a capture in the order of positions, read without Spark."""
    small = open_small(DATA / name)
    assert small is not None
    rows = [row for row in small.table("changes").to_pylist() if row["operation"] == "UPDATE"]
    rows = [row for row in rows if table in (None, row["table_name"])]
    return sorted(rows, key=lambda row: (row["position"], row["offset"]))


def columns_of(table: list[list[str]], name: str) -> list[str]:
    at = table[0].index(name)
    return [line[at] for line in table[1:]]


@pytest.mark.parametrize(
    ("title", "name", "table", "lines"),
    [
        ("GBase 8s", "gbase8s", None, 3),
        ("Qlik Replicate on Kafka", "qlik-kafka", "customer", 8),
        ("Qlik change tables", "qlik-change-table", "customer", 5),
        ("Oracle GoldenGate trails", "goldengate", None, 5),
        ("Oracle GoldenGate exports", "goldengate-export", None, 3),
        ("Debezium", "debezium", None, 5),
        ("SQL Server change tables", "sqlserver-ct", "customer", 8),
        ("Maxwell", "maxwell", None, 5),
        ("Canal", "canal", None, 14),
    ],
)
def test_the_table_of_a_lesson_is_that_of_its_capture(
    tables: dict[str, list[list[str]]], title: str, name: str, table: str | None, lines: int
) -> None:
    shown = columns_of(tables[title], "changed_columns")
    assert shown == [f"[{', '.join(row['changed_columns'])}]" for row in updates(name, table)[:lines]]


def test_the_lines_that_the_text_speaks_of_are_in_the_tables(tables: dict[str, list[list[str]]]) -> None:
    assert tables["GBase 8s"][2][:5] == ["1", "customer", "[rating]", "None", "619"]
    assert columns_of(tables["Qlik change tables"], "change_mask")[2] == "1A00"
    assert columns_of(tables["Maxwell"], "changed_columns")[0] == "[since]"
    assert columns_of(tables["Change data capture"], "operation")[-1] == "DELETE"
    assert columns_of(tables["Change data capture"], "changed_columns")[2] == "[rating]"
    positions = columns_of(tables["Canal"], "position")
    assert positions[-1] == positions[-2]
    counts = dict(line[1:4:2] for line in tables["Identity Manager event log"][1:])
    assert list(counts) == list("12345678")
    assert expected("idm-event-log")["changes"] < sum(map(int, counts.values()))


def test_the_page_has_text_code_records_and_answers(executed: Any) -> None:
    html = page(executed, PageInfo("data", datetime.now(UTC), "00_start_here", "1"))
    assert html.count('<div class="cdcwb-bytes">') == len(RECORDS) == 10
    assert html.count("<details>") == html.count("<summary>Answer</summary>") == 12
    assert html.count("cdcwb.load(f&#34;{data}/") == 11
    assert "check_parameters" not in html
    heads = re.findall(r"<h2 id=\"[^\"]+\">([^<]+)</h2>", html)
    assert heads[:3] == ["I have files: which page do I need?", "Change data capture", "How to read a change mask"]
    assert heads[-1] == "All formats side by side"
    inside = set(re.findall(r'<a href="#([^"]+)"', html))
    assert inside <= set(re.findall(r' id="([^"]+)"', html))
    assert read_facts(executed) == {}


def test_the_notebook_is_saved_without_outputs() -> None:
    cells = nbformat.read(notebook_path("start_here"), as_version=4).cells
    assert all(not cell.outputs and cell.execution_count is None for cell in cells if cell.cell_type == "code")


def test_links_lead_to_notebooks_and_documents_that_are_there() -> None:
    places = set(re.findall(r"\]\((\.\./[^)#]+)", notebook_path("start_here").read_text(encoding="utf-8")))
    linked = {Path(place).name for place in places if place.endswith(".ipynb")}
    assert linked == {path.name for name, path in notebooks().items() if name != "start_here"}
    documents = {place for place in places if place.endswith(".md")}
    assert [place for place in documents if not (ROOT / "notebooks" / place).is_file()] == []
    assert {f"../docs/formats/{path.name}" for path in (ROOT / "docs" / "formats").iterdir()} <= documents


def test_a_folder_without_the_captures_is_named(tmp_path: Path, kernel: Kernel) -> None:
    with pytest.raises(CaptureError, match="qlik-kafka"):
        execute(notebook_path("start_here"), {"path": str(tmp_path)}, lambda _: None, kernel)
