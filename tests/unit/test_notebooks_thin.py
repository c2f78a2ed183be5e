"""The notebooks have no plumbing: parameters, one cell that opens the page, and a call below each heading."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from cdcwb.views import pages

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("0[0-8]*.ipynb"))
THIN = [pytest.param(path, id=path.stem) for path in NOTEBOOKS]
LINES = 5


def cells_of(path: Path) -> list[dict[str, Any]]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [{**cell, "source": "".join(cell["source"])} for cell in cells]


def code_of(path: Path) -> list[str]:
    """The code below the parameters."""
    cells = [cell for cell in cells_of(path) if cell["cell_type"] == "code"]
    return [cell["source"] for cell in cells if "parameters" not in cell["metadata"].get("tags", ())]


@pytest.mark.parametrize("path", THIN)
def test_a_cell_has_few_lines_defines_nothing_and_records_nothing(path: Path) -> None:
    for code in code_of(path):
        assert len([line for line in code.splitlines() if line.strip()]) <= LINES, code
        for node in ast.walk(ast.parse(code)):
            assert not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda), code
            assert not (isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "record"), code


@pytest.mark.parametrize("path", [one for one in THIN if not one.id.startswith(("00", "07"))])
def test_the_cell_that_opens_the_page_is_folded_and_the_others_call_a_panel_below_a_heading(path: Path) -> None:
    (opening,) = [cell for cell in cells_of(path) if cell["metadata"].get("jupyter", {}).get("source_hidden")]
    found = re.search(r"^page = (\w+)\.open\(", opening["source"], re.MULTILINE)
    assert found
    panels = getattr(pages, found[1]).panels()
    _, *calls = code_of(path)
    called = [code.removeprefix("page.").split("(")[0] for code in calls]
    assert calls
    assert [f"page.{name}" for name in called] == [code.split("(")[0] for code in calls]
    assert set(called) <= set(panels)
    kinds = [cell["cell_type"] for cell in cells_of(path)][3:]
    assert kinds == ["markdown", "code"] * len(calls)
    assert all(re.search(r"^##", cell["source"], re.MULTILINE) for cell in cells_of(path)[3::2])
