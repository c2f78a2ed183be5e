"""Named facts in the outputs of a notebook, so that a test, the index page or a script reads numbers instead of
text."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final

MIME: Final = "application/vnd.cdcwb.facts+json"
KINDS: Final = {
    "number": "a number",
    "text": "a text",
    "truth": "true or false",
    "list": "a list",
    "counts": "counts by name",
    "values": "values by name",
}
"""The kinds of facts; any fact may be null."""

_EXACT: Final = 1 << 53


def record(facts: Mapping[str, Any]) -> None:
    """Store facts in the output of the notebook cell that runs now.

    Values may be whatever JSON holds, times (stored as ISO 8601) and missing values of any library (stored as null).
    Numbers that a browser would round (from 2^53 on) are stored as text.
    """
    from IPython.display import display

    display({MIME: stored(facts), "text/plain": ""}, raw=True)  # text: nbconvert warns without


def stored(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts in the form in which :func:`record` stores them."""
    return {str(name): _plain(value) for name, value in facts.items()}


def read_facts(notebook: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    """All facts that an executed notebook (a file, or its contents) recorded, in order.

    Several panels may record the same fact. Raises ValueError if their values differ.
    """
    content: Any = notebook
    if isinstance(notebook, str | Path):
        content = json.loads(Path(notebook).read_text(encoding="utf-8"))
    facts: dict[str, Any] = {}
    for cell in content["cells"]:
        for output in cell.get("outputs", ()):
            for name, value in output.get("data", {}).get(MIME, {}).items():
                if facts.setdefault(name, value) != value:
                    raise ValueError(f"the fact '{name}' has two values: {facts[name]!r} and {value!r}")
    return facts


def declared_facts(notebook: Path) -> dict[str, str]:
    """The facts that a notebook records, with their kinds (:data:`KINDS`).

    The metadata ``cdcwb.facts`` of the notebook declares them: names separated by blanks, for each kind.
    """
    content = json.loads(notebook.read_text(encoding="utf-8"))
    declared: dict[str, str] = content["metadata"].get("cdcwb", {}).get("facts", {})
    return {name: kind for kind, names in declared.items() for name in names.split()}


def flat(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts in one level: counts by name become separate facts (``changes_by_operation.INSERT``), lists stay."""
    level: dict[str, Any] = {}
    for name, value in facts.items():
        is_level = isinstance(value, Mapping)
        level |= flat({f"{name}.{key}": item for key, item in value.items()}) if is_level else {name: value}
    return level


def _plain(value: Any) -> Any:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):  # pandas.NA, NaT
        return None
    if isinstance(value, str | bool):
        return value
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # numpy
        return _plain(value.tolist())
    if isinstance(value, int):
        return value if abs(value) < _EXACT else str(value)
    number = float(value)
    return None if math.isnan(number) else number


def headline(facts: Mapping[str, Any]) -> str:
    """The answer of a page in one sentence without a full stop: the fact ``headline``; the verdict on the capture's
    health if the page has no answer of its own."""
    return str(facts.get("headline") or facts.get("verdict") or "made").removesuffix(".")
