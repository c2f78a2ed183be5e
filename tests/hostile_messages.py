"""A capture of messages in which names of customers, a table and a file are HTML that would run or load something."""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["LOADS", "RUNS", "hostile"]

RUNS = "<script>document.title='owned'</script>"
LOADS = '"><img src=x onerror="document.title=\'owned\'">'

_MESSAGES = Path(__file__).parents[1] / "data" / "qlik-kafka"


def hostile(folder: Path) -> Path:
    """A capture of messages in which names of customers, a table and a file are markup."""
    folder.mkdir()
    for path in _MESSAGES.iterdir():
        text = path.read_text(encoding="utf-8")
        for word, instead in (("Edda Grauwinkel", RUNS), ("Zeno Østerby", LOADS), ('"Hollin"', json.dumps(LOADS))):
            written = instead if instead.startswith('"\\') else json.dumps(instead)[1:-1]
            text = text.replace(word, written)
        name = path.name.replace("customer", f"customer{LOADS.replace('/', '')}")
        (folder / name).write_text(text, encoding="utf-8")
    return folder
