"""The tools that the benchmark compares with cdcwb read as many rows as it does."""

from __future__ import annotations

from pathlib import Path

import pytest

import cdcwb_synth as synth
from benchmarks import alternatives

_INSTALLED = [
    (name, tool)
    for name, case in alternatives.CASES.items()
    for tool in case.others
    if "Spark" not in tool and "DuckDB" not in tool  # which the benchmark alone uses, and checks itself
]


@pytest.mark.parametrize(("name", "tool"), _INSTALLED)
def test_an_alternative_reads_as_many_rows_as_cdcwb(name: str, tool: str, tmp_path: Path) -> None:
    if tool == "awk" and alternatives.awk() is None:
        pytest.skip("awk was not found")
    case = alternatives.CASES[name]
    synth.generate(case.format, changes=300, seed=1, to=tmp_path / "made", **case.options)
    capture = tmp_path / "made" / "capture"
    rows = alternatives.cdcwb_local(case, capture)()
    assert rows > 200
    assert case.others[tool][0](case, capture)() == rows
