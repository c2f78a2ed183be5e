"""The notebook ``replay_and_reconcile``: 1,000 planted differences are found, nothing else; its facts are the truth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import cdcwb_synth as synth
from cdcwb.errors import OptionError
from cdcwb.report import execute, notebook_path, read_facts
from cdcwb.report.kernel import Kernel
from cdcwb.report.show import FIGURE_MIME
from tests.planted import RULES, Planted, plant
from tests.replayed import by_hand

EACH = 250
COMPARED = ("missing", "extra", "different", "late")


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """10,000 changes in a gbase8s source and in messages of Qlik, with 250 differences of every kind."""
    return plant(tmp_path_factory.mktemp("planted"), changes=10_000, seed=41, each=EACH)


@pytest.fixture(scope="module")
def compared(planted: Planted, kernel: Kernel) -> Any:
    parameters = {"path": str(planted.source), "target": str(planted.target), "rules": json.dumps(RULES)}
    return execute(notebook_path("replay_and_reconcile"), parameters, kernel=kernel)


@pytest.fixture(scope="module")
def alone_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trail, some of whose updates move rows to another key."""
    folder = tmp_path_factory.mktemp("alone") / "made"
    return synth.generate("goldengate", changes=900, seed=8, to=folder, tables=3, all_types=False, truncates=0)


@pytest.fixture(scope="module")
def alone(alone_in: Path, kernel: Kernel) -> Any:
    parameters = {"path": str(alone_in / "capture"), "table": "orders"}
    return execute(notebook_path("replay_and_reconcile"), parameters, kernel=kernel)


def text_of(notebook: Any) -> str:
    data = [output.get("data", {}) for cell in notebook["cells"] for output in cell.get("outputs", ())]
    return "\n".join(item.get("text/html", "") for item in data)


def charts_of(notebook: Any) -> int:
    return sum(FIGURE_MIME in out.get("data", {}) for cell in notebook["cells"] for out in cell.get("outputs", ()))


def test_a_thousand_planted_differences_are_found_and_nothing_else(compared: Any, planted: Planted) -> None:
    facts = read_facts(compared)
    assert sum(getattr(planted, name) for name in COMPARED) == 4 * EACH == 1000
    assert {name: facts[f"reconcile_{name}"] for name in COMPARED} == dict.fromkeys(COMPARED, EACH)
    assert planted.changes > 8_000
    assert facts["reconcile_same"] == planted.changes - planted.missing - planted.different


def test_each_missing_or_extra_change_has_a_reason(compared: Any) -> None:
    facts = read_facts(compared)
    missing, extra = (facts[f"reconcile_{what}_by_reason"] for what in ("missing", "extra"))
    assert sum(missing.values()) == sum(extra.values()) == EACH
    assert set(missing) <= {"unexplained", "no_op_update"}
    # every second one is the change before it once more, which may be an update that changes nothing
    assert extra["duplicate"] + extra.get("no_op_update", 0) == extra["unexplained"] == EACH // 2
    assert "the same change of the row is in the same capture again" in text_of(compared)


def test_they_are_found_in_their_columns(compared: Any, planted: Planted) -> None:
    facts = read_facts(compared)
    found = {(table, column): different for table, column, different, _ in facts["reconcile_columns"]}
    assert found == planted.columns
    assert sum(found.values()) == EACH
    assert all(compared > different for *_, different, compared in facts["reconcile_columns"])


def test_the_page_shows_them_in_both_captures(compared: Any) -> None:
    text = text_of(compared)
    assert "200 of 1,000 shown" in text
    assert "the source names no key; the target&#x27;s is taken: customer_id" in text
    assert charts_of(compared) == 5
    assert "stream-1.bin" in text
    assert "shop.customer-" in text


def test_without_a_second_capture_nothing_is_compared_and_the_page_says_how_to(alone: Any) -> None:
    facts = read_facts(alone)
    assert all(facts[f"reconcile_{name}"] is None for name in (*COMPARED, "same"))
    assert facts["reconcile_missing_by_reason"] is facts["reconcile_extra_by_reason"] is None
    assert facts["reconcile_columns"] == []
    assert "--with PATH" in text_of(alone)
    assert "nothing to compare with" not in text_of(alone)


def test_the_replayed_table_is_that_of_the_truth(alone: Any, alone_in: Path) -> None:
    facts = read_facts(alone)
    wanted = by_hand(alone_in, "shop.orders")
    assert facts["replay_table"] == "shop.orders"
    assert facts["replay_rows"] == len(wanted)
    assert facts["replay_partial"] == 0
    assert "the row with the most changes" in text_of(alone)
    assert facts["history_changes"] > 1


def test_a_row_is_named_by_its_key(alone_in: Path, kernel: Kernel) -> None:
    wanted = by_hand(alone_in, "shop.orders")
    key = min(wanted)
    parameters = {"path": str(alone_in / "capture"), "table": "shop.orders", "key": json.dumps(dict(key))}
    facts = read_facts(execute(notebook_path("replay_and_reconcile"), parameters, kernel=kernel))
    assert facts["history_key"] == ", ".join(f"{name}={value}" for name, value in key)
    assert facts["history_changes"] >= 1


def test_everything_that_is_wrong_is_said_in_one_message(alone_in: Path, kernel: Kernel) -> None:
    parameters = {
        "path": str(alone_in / "capture"),
        "table": "shop.order",
        "time": "noon",
        "key": "nothing",
        "rules": '{"toleranze": 1}',
    }
    with pytest.raises(OptionError) as caught:
        execute(notebook_path("replay_and_reconcile"), parameters, kernel=kernel)
    said = str(caught.value)
    for part in ("Did you mean 'shop.orders'", "'noon'", "key: expected", "'toleranze'", "'tolerance'"):
        assert part in said, part
    assert "\n" not in said
