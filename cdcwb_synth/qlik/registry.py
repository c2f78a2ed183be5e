"""A schema registry: the same text has the same id, and every id a file ``<id>.avsc`` (``docs/formats/qlik-kafka.md
§2.3``)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["Registry"]

_FIRST: Final = 41


class Registry:
    """Schemas by their ids, written into ``folder``, which is made with the first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ids: dict[str, int] = {}

    def register(self, text: str) -> int:
        """The id of a schema."""
        if text not in self._ids:
            self._folder.mkdir(exist_ok=True)
            self._ids[text] = _FIRST + len(self._ids)
            (self._folder / f"{self._ids[text]}.avsc").write_text(text, encoding="utf-8")
        return self._ids[text]
