"""A class name means one thing in the package: only the roles that every format has are defined more than once."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
ROLES: Final = {
    "FirstPass",  # what the first pass of a format finds in a split
    "Options",  # the checked options of a capture
    "Plan",  # how a capture is read
    "Split",  # a unit of reading, one per task
    "Version",  # one version of a table
}
REPEATED: Final = {"Drift", "Page", "Step", "Stretch", "_Counted", "_Found", "_Move"}
"""Names that still have several meanings. The list only gets shorter."""


def test_a_class_name_that_is_not_a_role_of_formats_is_defined_once() -> None:
    modules: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "cdcwb").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                modules[node.name].append(str(path.relative_to(ROOT)))
    found = {name: places for name, places in modules.items() if len(places) > 1}
    assert {name: places for name, places in found.items() if name not in ROLES | REPEATED} == {}
