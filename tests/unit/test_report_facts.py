"""Facts go into a notebook's outputs and come out as the same numbers."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cdcwb.report import read_facts, record
from cdcwb.report.facts import MIME, flat


def recorded(monkeypatch: pytest.MonkeyPatch, *groups: dict[str, Any]) -> dict[str, Any]:
    """A notebook whose only cell recorded these facts."""
    outputs: list[dict[str, Any]] = []

    def display(data: dict[str, Any], raw: bool) -> None:
        assert raw
        outputs.append({"output_type": "display_data", "data": json.loads(json.dumps(data, allow_nan=False))})

    monkeypatch.setattr("IPython.display.display", display)
    for group in groups:
        record(group)
    return {"cells": [{"cell_type": "markdown", "source": "# x"}, {"cell_type": "code", "outputs": outputs}]}


def test_facts_are_read_as_they_were_recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    notebook = recorded(monkeypatch, {"a": 1, "b": "x"}, {"c": [1, ["y", None]], "d": {"e": True}, "f": 0.5})
    expected = {"a": 1, "b": "x", "c": [1, ["y", None]], "d": {"e": True}, "f": 0.5}
    assert read_facts(notebook) == expected
    file = tmp_path / "run.ipynb"
    file.write_text(json.dumps(notebook), encoding="utf-8")
    assert read_facts(file) == read_facts(str(file)) == expected


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (pd.NA, None),
        (pd.NaT, None),
        (float("nan"), None),
        (np.int64(7), 7),
        (pd.Series([1, None], dtype="int64[pyarrow]"), [1, None]),
        (2**53 - 1, 2**53 - 1),
        (2**53, "9007199254740992"),
        (-(2**63), "-9223372036854775808"),
        (datetime(2025, 3, 23, 10, 57, 19, 25, tzinfo=UTC), "2025-03-23T10:57:19.000025+00:00"),
        ((1, 2), [1, 2]),
        (True, True),
    ],
)
def test_what_json_or_a_browser_cannot_hold_is_stored_without_loss(
    monkeypatch: pytest.MonkeyPatch, value: Any, stored: Any
) -> None:
    found = read_facts(recorded(monkeypatch, {"fact": value}))["fact"]
    assert found == stored
    assert type(found) is type(stored)


def test_one_name_cannot_stand_for_two_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_facts(recorded(monkeypatch, {"changes": 1}, {"changes": 1})) == {"changes": 1}
    with pytest.raises(ValueError, match="the fact 'changes' has two values: 1 and 2"):
        read_facts(recorded(monkeypatch, {"changes": 1}, {"changes": 2}))


def test_someone_without_our_viewer_sees_nothing_of_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    data = recorded(monkeypatch, {"a": 1, "b": 2})["cells"][1]["outputs"][0]["data"]
    assert set(data) == {MIME, "text/plain"}
    assert data["text/plain"] == ""


def test_counts_by_name_become_facts_of_their_own_and_lists_stay() -> None:
    facts = {"changes": 3, "by": {"INSERT": 2, "UPDATE": 1}, "none": {}, "deep": {"a": {"b": 1}}, "list": [{"a": 1}]}
    assert flat(facts) == {"changes": 3, "by.INSERT": 2, "by.UPDATE": 1, "deep.a.b": 1, "list": [{"a": 1}]}
