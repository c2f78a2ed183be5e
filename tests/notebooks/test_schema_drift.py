"""The notebook ``schema_drift`` over generated captures and those in ``data/``: what it finds is what the truth says.

One process runs them all, as ``cdcwb report all`` does.
"""

from __future__ import annotations

import json
from collections import Counter
from html import escape
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import cdcwb_synth as synth
from cdcwb.errors import OptionError
from cdcwb.report import execute, notebook_path, read_facts
from cdcwb.report.facts import headline
from cdcwb.report.kernel import Kernel
from cdcwb.report.show import FIGURE_MIME
from tests.drift_truth import drift_truth, merged, truth_versions
from tests.reports import DATA

DRIFTING: dict[str, dict[str, Any]] = {
    "gbase8s": {"schema_changes": 7, "tables": 3},
    "qlik-kafka": {"schema_changes": 6, "tables": 2},
    "qlik-change-table": {"schema_changes": 6, "tables": 2},
    "goldengate": {"schema_changes": 6, "tables": 2, "trail_files": 2},
}
SEED = 61
RULES = {"column_added", "column_dropped", "column_renamed", "column_changed", "columns_reordered"}


@pytest.fixture(scope="module", params=DRIFTING)
def drifted(request: pytest.FixtureRequest, kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A capture in which columns are added, dropped, renamed, retyped, change places, and are dropped and added at
    once; of gbase8s one in which they are added, widened and dropped. And what the notebook says of it."""
    folder = tmp_path_factory.mktemp("drift") / "made"
    made = synth.generate(
        request.param,
        changes=1200,
        seed=SEED,
        to=folder,
        all_types=False,
        truncates=0,
        concurrency=1,
        **DRIFTING[request.param],
    )
    return made, run(kernel, made / "capture")


def run(kernel: Kernel, path: Path, **parameters: Any) -> Any:
    return execute(notebook_path("schema_drift"), {"path": str(path), **parameters}, lambda _: None, kernel)


def text_of(notebook: Any) -> str:
    data = [output.get("data", {}) for cell in notebook["cells"] for output in cell.get("outputs", ())]
    return "\n".join(item.get("text/html", "") for item in data)


def charts_of(notebook: Any) -> list[Any]:
    data = [output.get("data", {}) for cell in notebook["cells"] for output in cell.get("outputs", ())]
    return [item[FIGURE_MIME] for item in data if FIGURE_MIME in item]


def test_every_change_of_columns_is_found_at_its_first_position_and_nothing_else(drifted: Any) -> None:
    made, notebook = drifted
    facts = read_facts(notebook)
    wanted = drift_truth(made)
    assert merged(facts["drift_findings"]) == wanted
    assert sum(facts["drift_findings_by_rule"].values()) == len(wanted) >= 5
    kinds = {rule for rule, *_ in wanted}
    assert kinds == (RULES - {"column_renamed", "columns_reordered"} if made_by(made) == "gbase8s" else RULES)
    assert facts["rows_without_version"] == facts["versions_mixed"] == []


def made_by(made: Path) -> str:
    return str(pq.read_table(made / "truth" / "changes.parquet", columns=["format"]).column(0)[0])


def test_versions_have_as_many_changes_as_the_truth_and_begin_where_it_says(drifted: Any) -> None:
    made, notebook = drifted
    named = pq.read_table(made / "truth" / "changes.parquet", columns=["table_version"]).column(0).to_pylist()
    counts = Counter(named)
    truth = Counter(
        (table, counts[row["table_version"]], row["first_position"])
        for table, rows in truth_versions(made).items()
        for row in rows
    )
    assert Counter((table, changes, first) for table, _, changes, first in read_facts(notebook)["versions"]) == truth


def test_a_bar_is_drawn_for_every_version_with_rows_and_every_step_is_shown(drifted: Any) -> None:
    made, notebook = drifted
    facts = read_facts(notebook)
    (chart,) = charts_of(notebook)
    drawn = [name for trace in chart["data"] for name in (hover[1] for hover in trace["customdata"])]
    assert set(drawn) == {name for _, name, changes, _ in facts["versions"] if changes}
    steps = sum(len(rows) - 1 for rows in truth_versions(made).values())
    assert len(facts["compatibility"]) == steps >= 5
    assert {fit for *_, fit in facts["compatibility"]} <= {"full", "backward", "forward", "none"}


@pytest.mark.parametrize("format", ["goldengate", "idm-event-log"])
def test_without_drift_nothing_is_found(format: str, kernel: Kernel, tmp_path: Path) -> None:
    made = synth.generate(format, changes=500, seed=62, to=tmp_path / "made", schema_changes=0, all_types=False)
    notebook = run(kernel, made / "capture")
    facts = read_facts(notebook)
    assert facts["drift_findings"] == facts["compatibility"] == []
    assert facts["drift_findings_by_rule"] == {}
    assert "No drift: " in text_of(notebook)
    assert "No table has more than one version" in text_of(notebook)
    assert ("does not describe its tables" in text_of(notebook)) is (format == "idm-event-log")


FOUND: dict[str, list[list[Any]]] = {
    "gbase8s": [["column_added", "shop.stock_move", "d_v2"]],
    "qlik-kafka": [["column_renamed", "shop.orders", "state_v2"], ["column_added", "shop.customer", "d_v2"]],
    "qlik-change-table": [["column_renamed", "shop.orders", "state_v2"], ["column_added", "shop.customer", "d_v2"]],
    "goldengate": [["column_added", "shop.customer", "d_v2"]],
    "idm-event-log": [],
}


@pytest.mark.parametrize("name", FOUND)
def test_the_captures_in_data_drift_as_their_readme_says(name: str, kernel: Kernel) -> None:
    labels = json.dumps({"labels": str(DATA / "gbase8s.labels.json")} if name == "gbase8s" else {})
    notebook = run(kernel, DATA / name, options=labels)
    facts = read_facts(notebook)
    wanted = FOUND[name]
    assert [[rule, table, column] for rule, table, column, _ in facts["drift_findings"]] == wanted
    without = {"goldengate": [], "idm-event-log": [["(no table)", 1]]}
    assert facts["rows_without_version"] == without.get(name, [])
    evidence = {"qlik-kafka": "12 of 12 rows that both versions show", "qlik-change-table": "DDL at 2026020308020190"}
    assert evidence.get(name, "") in text_of(notebook)
    assert f'<p class="cdcwb-answer">{escape(headline(facts))}</p>' in text_of(notebook)
    assert facts["verdict"] not in text_of(notebook)


def test_any_two_versions_are_compared_and_wrong_names_are_all_told_at_once(kernel: Kernel) -> None:
    path = DATA / "qlik-change-table"
    notebook = run(kernel, path, table="orders", old_version="2", new_version="1")
    html = text_of(notebook)
    (fit,) = read_facts(notebook)["compatibility"]
    assert fit[:3] == ["shop.orders", "shop.orders@2", "shop.orders@1"]
    assert "version 2 (shop.orders@2) to version 1 (shop.orders@1)" in html
    with pytest.raises(OptionError, match=r"there is no 'shop\.order'.*old_version: there is no 'x'.*new_version"):
        run(kernel, path, table="shop.order", old_version="x", new_version="y")
