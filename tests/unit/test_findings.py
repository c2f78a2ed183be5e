"""Contradictions of counters and positions, and breaks of rows, listed as problems are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import cdcwb
from cdcwb import model
from cdcwb.analysis.integrity import findings, findings_by_code
from cdcwb.analysis.row_breaks import Break
from cdcwb.analysis.summary import summarize
from cdcwb.model import Problem, Severity


def maxwell(position: int, key: int, old: int | None, value: int) -> str:
    row = {"database": "shop", "table": "orders", "type": "insert" if old is None else "update"}
    row |= {"ts": 1_700_000_000, "xid": position, "commit": True, "xoffset": 0}
    row |= {"position": f"binlog.000001:{position}", "data": {"id": key, "v": value}, "primary_key_columns": ["id"]}
    row |= {} if old is None else {"old": {"v": old}}
    return f"Partition:0\tOffset:{position}\t{json.dumps(row)}\n"


@pytest.fixture
def capture(tmp_path: Path) -> Any:
    lines = [
        *(maxwell(100, 1, None, 1), maxwell(300, 1, 5, 6)),  # a gap
        *(maxwell(200, 2, None, 1), maxwell(400, 2, 1, 2)),  # a position out of order
        maxwell(400, 3, None, 1),  # an offset that another record has
    ]
    (tmp_path / "topic.txt").write_text("".join(lines), encoding="utf-8")
    return cdcwb.load(tmp_path / "topic.txt")


def test_they_have_the_columns_of_problems_and_name_both_records(capture: Any) -> None:
    rows = findings(capture)
    assert [row["code"] for row in rows] == ["row_gap", "position_order", "counter"]
    for row in rows:
        assert list(row) == model.PROBLEMS.names
        assert row["severity"] == "warning"
        assert row["sentence"].count(" of topic.txt") >= 2
        assert row["file"].endswith("topic.txt")
    assert [row["offset"] for row in rows] == sorted(row["offset"] for row in rows)
    assert rows[0]["table"] == "shop.orders"


def test_they_are_counted_in_the_summary_beside_the_problems(capture: Any) -> None:
    facts = summarize(capture)
    assert (facts["problems"], facts["healthy"]) == (0, False)
    counts = [(row["severity"], row["code"], row["count"], len(row["places"])) for row in facts["findings_by_code"]]
    assert counts == [
        ("warning", "row_gap", 1, 1),
        ("warning", "position_order", 1, 1),
        ("warning", "counter", 1, 1),
    ]
    json.dumps(facts)


def test_each_kind_of_break_is_a_code_of_problems() -> None:
    codes = {f"row_{kind}" for kind in Break}
    assert codes == {problem for problem in Problem if problem.startswith("row_") and problem != "row_size"}
    assert Problem.ROW_REPEAT.severity is Severity.INFO


def test_a_capture_without_contradictions_has_none(tmp_path: Path) -> None:
    (tmp_path / "topic.txt").write_text(maxwell(100, 1, None, 1) + maxwell(200, 1, 1, 2), encoding="utf-8")
    capture = cdcwb.load(tmp_path / "topic.txt")
    assert (findings(capture), findings_by_code(capture)) == ([], [])
    assert summarize(capture)["findings_by_code"] == []
