"""The text of the notebook ``start_here``, by its sections, and the records that it shows."""

from __future__ import annotations

import json
import re
from typing import Final

from cdcwb.report import notebook_path

__all__ = ["CODE", "RECORDS", "SECTIONS"]

_CELLS: Final = json.loads(notebook_path("start_here").read_text(encoding="utf-8"))["cells"]


def _sections(kind: str) -> dict[str, str]:
    """The sources of the cells of a kind below each heading of the second level."""
    sections: dict[str, str] = {}
    name = ""
    for cell in _CELLS:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown" and (heading := re.match(r"## (.+)", source)):
            name = heading[1]
        if cell["cell_type"] == kind:
            sections[name] = f"{sections.get(name, '')}\n{source}"
    return sections


SECTIONS: Final = _sections("markdown")
CODE: Final = _sections("code")
RECORDS: Final = [
    (file, int(offset))
    for code in CODE.values()
    for file, offset in re.findall(r'show\.dissection\(f"\{data\}/([^"]+)", (\d+)\)', code)
]
"""File and offset of the record of each lesson."""
