"""The notebook ``transactions``, run once over a generated capture: its facts are the truth.

The truth stands beside the capture: more than 5,000 transactions, so that the picture has to leave some out and say so.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import cdcwb_synth as synth
from cdcwb.errors import OptionError, UnknownFormatError
from cdcwb.report import execute, notebook_path, read_facts, run_report
from cdcwb.report.html import SIZE_LIMIT
from cdcwb.report.show import FIGURE_MIME

CHANGES = 9_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture of many small transactions: some rolled back, some undone in part, three without end, two without
    begin."""
    return synth.generate(
        "gbase8s",
        changes=CHANGES,
        seed=20250323,
        to=tmp_path_factory.mktemp("capture") / "made",
        files=2,
        transaction_size=1.4,
        concurrency=6,
        open_transactions=3,
        missing_begins=2,
        rate=20.0,
    )


@pytest.fixture(scope="module")
def notebook(folder: Path) -> Any:
    labels = json.dumps({"labels": str(folder / "labels.json")})
    return execute(notebook_path("transactions"), {"path": str(folder / "capture"), "options": labels})


@pytest.fixture(scope="module")
def facts(notebook: Any) -> dict[str, Any]:
    return read_facts(notebook)


@pytest.fixture(scope="module")
def transactions(folder: Path) -> list[dict[str, Any]]:
    return pq.read_table(folder / "truth" / "transactions.parquet").to_pylist()


@pytest.fixture(scope="module")
def changes(folder: Path) -> list[dict[str, Any]]:
    columns = ["transaction_id", "operation", "outcome"]
    return pq.read_table(folder / "truth" / "changes.parquet", columns=columns).to_pylist()


@pytest.fixture(scope="module")
def text(notebook: Any) -> str:
    """Everything that the notebook shows as HTML."""
    data = [output.get("data", {}) for cell in notebook["cells"] for output in cell.get("outputs", ())]
    return "\n".join(item.get("text/html", "") for item in data)


def figures(notebook: Any) -> list[dict[str, Any]]:
    data = [output.get("data", {}) for cell in notebook["cells"] for output in cell.get("outputs", ())]
    return [item[FIGURE_MIME] for item in data if FIGURE_MIME in item]


def microseconds(row: dict[str, Any]) -> int | None:
    if row["began_at"] is None or row["ended_at"] is None:
        return None
    return round((row["ended_at"] - row["began_at"]).total_seconds() * 1_000_000)


def test_transactions_are_counted_by_outcome_and_completeness(facts: Any, transactions: Any) -> None:
    outcomes = Counter(row["outcome"] for row in transactions)
    assert facts["transactions"] == len(transactions) > 5000
    for outcome in ("committed", "rolled_back", "open"):
        assert facts[f"transactions_{outcome}"] == outcomes[outcome] > 0
    completeness = Counter(row["completeness"] for row in transactions)
    for value in ("complete", "no_begin", "no_end"):
        assert facts[f"transactions_{value}"] == completeness[value] > 0


def test_changes_are_counted_by_operation_and_outcome(facts: Any, changes: Any) -> None:
    assert facts["changes"] == facts["transaction_changes"] == len(changes) == CHANGES
    assert facts["changes_by_operation"] == Counter(row["operation"] for row in changes)
    assert facts["changes_by_outcome"] == Counter(row["outcome"] for row in changes)


def test_bytes_and_bounds_are_those_of_the_truth(facts: Any, transactions: Any, folder: Path) -> None:
    assert facts["transaction_bytes"] == sum(row["bytes"] for row in transactions)
    assert facts["bytes"] == sum(file.stat().st_size for file in (folder / "capture").iterdir())
    times = [t for row in transactions for t in (row["began_at"], row["ended_at"]) if t is not None]
    assert facts["first_time"] == min(times).isoformat()
    assert facts["last_time"] == max(times).isoformat()
    assert facts["whole_seconds"] is True
    assert facts["ledger"] == "closes"


def test_the_longest_and_the_largest_are_those_of_the_truth(facts: Any, transactions: Any) -> None:
    assert facts["longest_us"] == max(m for row in transactions if (m := microseconds(row)) is not None)
    last = max(t for row in transactions for t in (row["began_at"], row["ended_at"]) if t is not None)
    lasted = {
        row["transaction_id"]: round(((row["ended_at"] or last) - row["began_at"]).total_seconds() * 1_000_000)
        for row in transactions
        if row["began_at"] is not None and (row["ended_at"] is not None or row["outcome"] == "open")
    }
    assert [us for _, us in facts["longest_transactions"]] == sorted(lasted.values(), reverse=True)[:10]
    assert all(lasted[name] == us for name, us in facts["longest_transactions"])
    sizes = {row["transaction_id"]: row["bytes"] for row in transactions}
    assert [number for _, number in facts["largest_transactions"]] == sorted(sizes.values(), reverse=True)[:10]
    assert all(sizes[name] == number for name, number in facts["largest_transactions"])


def test_open_transactions_are_listed_before_rolled_back_ones(facts: Any, transactions: Any) -> None:
    outcome = {row["transaction_id"]: row["outcome"] for row in transactions}
    listed = [outcome[name] for name in facts["unfinished_transactions"]]
    opened = sum(value == "open" for value in outcome.values())
    assert listed == ["open"] * opened + ["rolled_back"] * (30 - opened)


def test_undone_changes_are_those_of_the_truth(facts: Any, changes: Any) -> None:
    truth = Counter(row["transaction_id"] for row in changes if row["outcome"] == "undone")
    assert truth
    assert sorted(facts["undone_changes"].values()) == sorted(truth.values(), reverse=True)[:50][::-1]
    assert all(truth[name] == number for name, number in facts["undone_changes"].items())


def test_open_transactions_are_problems_and_so_is_a_missing_begin(facts: Any) -> None:
    assert facts["problem_codes"]["open_transaction"] == facts["transactions_no_end"]
    assert facts["problem_codes"]["no_begin"] == facts["transactions_no_begin"]
    assert facts["problems"] == sum(facts["problem_codes"].values())
    assert facts["tone"] == "warning"
    assert facts["healthy"] is False


def test_the_picture_says_what_it_leaves_out(notebook: Any, facts: Any, text: str) -> None:
    assert facts["timeline_shown"] == 5000
    assert f"5,000 of {facts['transactions']:,} transactions are bars" in text
    timeline = figures(notebook)[1]
    assert timeline["layout"]["meta"]["drawn"] == 5000
    drawn = [len(trace["base"]) for trace in timeline["data"] if trace["type"] == "bar" and trace["xaxis"] == "x2"]
    assert sum(drawn) == 5000
    legend = {str(trace["name"]).partition(" (")[0]: trace["name"] for trace in timeline["data"] if trace.get("name")}
    assert legend["rolled back"] == f"rolled back ({facts['transactions_rolled_back']:,})", "none is left out"
    assert legend["open"] == f"open ({facts['transactions_open']:,})"
    assert legend["committed"].endswith(f" of {facts['transactions_committed']:,} as bars)")


def test_the_heatmap_leaves_nothing_out(notebook: Any, facts: Any, transactions: Any, folder: Path) -> None:
    began = pq.read_table(folder / "truth" / "transactions.parquet")["began_at"]
    assert facts["histogram_transactions"] == len(transactions) - pc.sum(pc.is_null(began)).as_py()
    heatmap = figures(notebook)[0]["data"][0]
    assert heatmap["type"] == "heatmap"
    cells = [round(10**cell) for row in heatmap["z"] for cell in row if cell is not None]
    assert sum(cells) == facts["histogram_transactions"]


def test_log_positions_stay_text_in_the_whole_notebook(notebook: Any) -> None:
    positions = re.findall(r"[0-9A-F]{16}", json.dumps(figures(notebook)))
    assert positions
    assert re.search(r"[\[,:]\s*\d{17,}", json.dumps(figures(notebook))) is None


def test_what_was_detected_is_told_with_its_evidence(facts: Any, text: str) -> None:
    assert facts["detected"]["capture byte_order"] == "little"
    assert facts["detected"]["capture prefix_width"] == "2"
    assert "little-endian" in text


def test_nothing_is_shown_as_a_bare_trace_or_warning(notebook: Any) -> None:
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
    assert {output["output_type"] for output in outputs} == {"display_data"}


def test_the_notebook_with_its_outputs_stays_small_enough_to_keep(notebook: Any) -> None:
    assert len(json.dumps(notebook).encode()) < 3_500_000


def test_a_report_of_a_part_says_so_and_keeps_its_tables(folder: Path, tmp_path: Path, transactions: Any) -> None:
    first = min(row["began_at"] for row in transactions if row["began_at"] is not None)
    kept = tmp_path / "kept"
    page = tmp_path / "part.html"
    said: list[str] = []
    facts = run_report(
        "transactions",
        folder / "capture",
        page,
        parameters={"tables": ["101"], "time_to": (first.replace(second=30)).isoformat(), "folder": str(kept)},
        say=said.append,
    )
    assert 0 < facts["transactions"] < 5000
    assert facts["ledger"] is None
    html = page.read_text()
    assert "Only a part is shown: tables 101; to 2025-03-23T08:00:30+00:00." in html
    assert len(html.encode()) < SIZE_LIMIT
    assert sorted(path.name for path in kept.iterdir()) == [
        "changes.parquet",
        "problems.parquet",
        "transactions.parquet",
    ]
    assert pq.read_table(kept / "transactions.parquet").num_rows == facts["transactions"]
    assert re.fullmatch(r".*part\.html: [\d.]+ MB in \d+ s", said[-1])


def test_wrong_parameters_end_in_one_sentence_that_names_them_all() -> None:
    with pytest.raises(OptionError) as caught:
        execute(notebook_path("transactions"), {"path": "/nowhere", "time_from": "noon"}, say=lambda _: None)
    assert str(caught.value).startswith(
        "path: there is no file or folder '/nowhere'; time_from: expected a time such as"
    )
    assert "\n" not in str(caught.value)


def test_a_parameter_is_a_text_whatever_it_holds(tmp_path: Path) -> None:
    trap = tmp_path / "ran"
    path = f"/no'\\\"\n{{x}}\nopen({str(trap)!r}, 'w') #"
    with pytest.raises(OptionError, match=r"path: there is no file or folder '/no'.*\\x0a\{x\}\\x0aopen\("):
        execute(notebook_path("transactions"), {"path": path}, say=lambda _: None)
    assert not trap.exists()


def test_what_is_no_capture_leaves_no_report_and_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear all, this is no capture.\n" * 50)
    page = tmp_path / "report.html"
    with pytest.raises(UnknownFormatError, match="no format recognises") as caught:
        run_report("transactions", tmp_path / "letter.txt", page, say=lambda _: None)
    assert "\n" not in caught.value.sentence
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]
