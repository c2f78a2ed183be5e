"""The notebook ``continuity``: its facts are the breaks of a stream, and thresholds judge them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdcwb.errors import OptionError
from cdcwb.report import execute, notebook_path, read_facts, run_suite
from cdcwb.report.facts import headline
from cdcwb.report.kernel import Kernel

SOURCE = {"version": "2.7.0.Final", "connector": "postgresql", "name": "a", "db": "d", "snapshot": "false"}
KEYS = {"keys": ["shop.orders:id"]}


def update(lsn: int, before: int | None, after: int | None) -> str:
    images = {
        name: None if value is None else {"id": 1, "v": value}
        for name, value in zip(("before", "after"), (before, after), strict=True)
    }
    source = {**SOURCE, "schema": "shop", "table": "orders", "txId": lsn, "lsn": lsn, "ts_ms": 1_700_000_000_000 + lsn}
    operation = "c" if before is None else "d" if after is None else "u"
    return json.dumps({**images, "source": source, "op": operation, "ts_ms": 1_700_000_000_500, "transaction": None})


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """A late change, an UPDATE after a DELETE, and one whose predecessor is missing."""
    rows = [
        update(10, None, 1),
        update(30, 2, 3),
        update(20, 1, 2),
        update(40, 3, None),
        update(50, 3, 4),
        update(60, 7, 8),
    ]
    path = tmp_path / "orders.jsonl"
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path


def run(kernel: Kernel, path: Path, **parameters: Any) -> Any:
    given = {"path": str(path), "options": json.dumps(KEYS), **parameters}
    return execute(notebook_path("continuity"), given, lambda _: None, kernel)


def test_its_facts_are_the_breaks_and_its_page_begins_with_them(kernel: Kernel, orders: Path) -> None:
    notebook = run(kernel, orders)
    facts = read_facts(notebook)
    assert facts["continuity_kinds"] == {"gap": 1, "revived": 1, "late": 1}
    assert facts["wrong_rows_by_rule"]["no_deletes"] == 0
    html = "\n".join(
        output.get("data", {}).get("text/html", "") for cell in notebook["cells"] for output in cell.get("outputs", ())
    )
    sentence = "3 breaks in the continuity of rows: gap 1, late 1, revived 1"
    assert headline(facts) == sentence
    assert f'<p class="cdcwb-answer">{sentence}</p>' in html
    assert "cdcwb inspect" in html


def test_a_table_without_a_key_is_named(kernel: Kernel, orders: Path) -> None:
    facts = read_facts(run(kernel, orders, options="{}"))
    assert headline(facts).startswith("Nothing compared: no table has a key; the option keys=")


def test_a_row_needs_its_table(kernel: Kernel, orders: Path) -> None:
    with pytest.raises(OptionError, match="table and key: give both, or neither"):
        run(kernel, orders, key='{"id": "1"}')


def test_thresholds_judge_breaks(kernel: Kernel, orders: Path, tmp_path: Path) -> None:
    conditions = ["continuity_breaks > 0", "continuity_kinds.repeat > 0", "counter_contradictions > 0"]
    suite = run_suite(
        orders, tmp_path / "reports", options=KEYS, names=["continuity"], fail_if=conditions, kernel=kernel
    )
    assert suite.judgement.broken == ["continuity_breaks > 0: it is 3 (08_continuity)"]
    assert suite.judgement.unknown == []
