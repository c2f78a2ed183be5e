"""Bookmarks and notes on records, and saved filters: small files in a saved capture that are written atomically."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from cdcwb.errors import CaptureError
from cdcwb.writing import locked, naming, written

__all__ = ["FILTERS", "MARKS", "Filters", "Marks", "marks_of"]

MARKS: Final = "marks.json"
FILTERS: Final = "filters.json"
_VERSION: Final = 1
_SAID: Final = ("file", "offset", "length", "type", "table", "position", "transaction")

Place = tuple[str, int]
"""The path of the file in the capture, and the offset of a record."""


def marks_of(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The bookmarks of a saved capture, by file and offset: note, marked_at (ISO 8601), file, offset, length, type,
    table, position and transaction. None without bookmarks.

    ``path`` is the folder of the capture or the file itself. Raises CaptureError for a file with other content.
    """
    location = Path(path)
    return Marks(location / MARKS if location.is_dir() else location).rows() if location.exists() else []


class Marks:
    """The bookmarks of a capture; with ``path`` None they are in memory only."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._marks: dict[Place, dict[str, Any]] = {}
        self._load()

    def _load(self) -> None:
        if self.path is not None and self.path.exists():
            rows = _read(self.path, "marks")
            if not all(isinstance(row.get("file"), str) and isinstance(row.get("offset"), int) for row in rows):
                raise CaptureError("a bookmark has no file and offset", path=str(self.path))
            self._marks = {(row["file"], row["offset"]): row for row in rows}

    def note(self, location: Place) -> str | None:
        """The note on a record: empty for a bookmark without text, None without a bookmark."""
        mark = self._marks.get(location)
        return None if mark is None else str(mark.get("note", ""))

    def set(self, location: Place, note: str, about: dict[str, Any]) -> None:
        """Sets or replaces the bookmark of a record; ``about`` describes the record for reports."""
        now = dt.datetime.now(dt.UTC).replace(microsecond=0).isoformat()
        facts = {name: about.get(name) for name in _SAID if about.get(name) is not None}
        facts |= {"file": location[0], "offset": location[1], "note": note, "marked_at": now}
        with _held(self.path):
            self._load()  # another process may have written
            self._marks[location] = facts
            self._keep()

    def remove(self, location: Place) -> None:
        """Removes a bookmark if it exists."""
        with _held(self.path):
            self._load()
            self._marks.pop(location, None)
            self._keep()

    def rows(self) -> list[dict[str, Any]]:
        """All bookmarks, by file and offset."""
        return [self._marks[location] for location in sorted(self._marks)]

    def __len__(self) -> int:
        return len(self._marks)

    def _keep(self) -> None:
        if self.path is not None:
            _write(self.path, "marks", self.rows())


class Filters:
    """Saved filters by name; with ``path`` None they are in memory only."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._filters: dict[str, str] = {}
        self._load()

    def _load(self) -> None:
        if self.path is not None and self.path.exists():
            self._filters = {str(row.get("name")): str(row.get("text")) for row in _read(self.path, "filters")}

    def save(self, name: str, text: str) -> None:
        """Saves a filter, replacing one with the same name."""
        with _held(self.path):
            self._load()
            self._filters[name] = text
            self._keep()

    def remove(self, name: str) -> None:
        """Removes a filter."""
        with _held(self.path):
            self._load()
            self._filters.pop(name, None)
            self._keep()

    def rows(self) -> list[dict[str, str]]:
        """All filters: name and text."""
        return [{"name": name, "text": self._filters[name]} for name in sorted(self._filters)]

    def _keep(self) -> None:
        if self.path is not None:
            _write(self.path, "filters", self.rows())


def _read(path: Path, name: str) -> list[dict[str, Any]]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        rows = content[name]
    except (OSError, ValueError, KeyError, TypeError) as reason:
        raise CaptureError(f"holds no {name} of the explorer ({reason})", path=str(path)) from None
    if content.get("version") != _VERSION:
        raise CaptureError(f"written in version {content.get('version')}; this one reads {_VERSION}", path=str(path))
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise CaptureError(f"holds no {name} of the explorer", path=str(path))
    return rows


def _write(path: Path, name: str, rows: list[dict[str, Any]]) -> None:
    with written(path) as part:
        part.write_text(json.dumps({"version": _VERSION, name: rows}, indent=1) + "\n", encoding="utf-8")
        if path.exists():
            part.chmod(path.stat().st_mode & 0o777)


@contextmanager
def _held(path: Path | None) -> Iterator[None]:
    """Holds off other processes while a file is read, changed and written."""
    if path is None:
        yield
        return
    with naming(path), locked(path.parent):
        yield
