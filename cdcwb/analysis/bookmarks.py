"""Bookmarks and notes on records, and saved filters: small files in a saved capture that are written atomically."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from cdcwb.errors import CaptureError
from cdcwb.writing import locked, naming, written

BOOKMARKS: Final = "marks.json"
FILTERS: Final = "filters.json"
_VERSION: Final = 1
_ABOUT: Final = ("file", "offset", "length", "type", "table", "position", "transaction")

Location = tuple[str, int]
"""The path of the file in the capture, and the offset of a record."""


def bookmarks_of(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The bookmarks of a saved capture, by file and offset: note, marked_at (ISO 8601), file, offset, length, type,
    table, position and transaction. None without bookmarks.

    ``path`` is the folder of the capture or the file itself. Raises CaptureError for a file with other content.
    """
    location = Path(path)
    return Bookmarks(location / BOOKMARKS if location.is_dir() else location).rows() if location.exists() else []


class _StoredRows:
    """Rows of a JSON file by key; with ``path`` None they are in memory only."""

    name: str

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._rows: dict[Any, dict[str, Any]] = {}
        self._load()

    def _key(self, row: dict[str, Any]) -> Any:
        raise NotImplementedError

    def _load(self) -> None:
        if self.path is None or not self.path.exists():
            return
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
            rows = content[self.name]
        except (OSError, ValueError, KeyError, TypeError) as reason:
            raise CaptureError(f"holds no {self.name} of the explorer ({reason})", path=str(self.path)) from None
        if content.get("version") != _VERSION:
            sentence = f"written in version {content.get('version')}; this one reads {_VERSION}"
            raise CaptureError(sentence, path=str(self.path))
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise CaptureError(f"holds no {self.name} of the explorer", path=str(self.path))
        self._rows = {self._key(row): row for row in rows}

    @contextmanager
    def _changed(self) -> Iterator[dict[Any, dict[str, Any]]]:
        """The rows, to change them. Other processes, which may have written, are held off until they are stored."""
        with ExitStack() as stack:
            if self.path is not None:
                stack.enter_context(naming(self.path))
                stack.enter_context(locked(self.path.parent))
            self._load()
            yield self._rows
            if self.path is not None:
                with written(self.path) as part:
                    text = json.dumps({"version": _VERSION, self.name: self.rows()}, indent=1)
                    part.write_text(f"{text}\n", encoding="utf-8")
                    if self.path.exists():
                        part.chmod(self.path.stat().st_mode & 0o777)

    def remove(self, key: Any) -> None:
        """Removes the row of a key if it exists."""
        with self._changed() as rows:
            rows.pop(key, None)

    def rows(self) -> list[dict[str, Any]]:
        """All rows, by key."""
        return [self._rows[key] for key in sorted(self._rows)]

    def __len__(self) -> int:
        return len(self._rows)


class Bookmarks(_StoredRows):
    """The bookmarks of a capture, by file and offset."""

    name = "marks"

    def _key(self, row: dict[str, Any]) -> Location:
        if not isinstance(row.get("file"), str) or not isinstance(row.get("offset"), int):
            raise CaptureError("a bookmark has no file and offset", path=str(self.path))
        return row["file"], row["offset"]

    def note(self, location: Location) -> str | None:
        """The note on a record: empty for a bookmark without text, None without a bookmark."""
        bookmark = self._rows.get(location)
        return None if bookmark is None else str(bookmark.get("note", ""))

    def set(self, location: Location, note: str, about: dict[str, Any]) -> None:
        """Sets or replaces the bookmark of a record; ``about`` describes the record for reports."""
        now = dt.datetime.now(dt.UTC).replace(microsecond=0).isoformat()
        facts = {name: about.get(name) for name in _ABOUT if about.get(name) is not None}
        facts |= {"file": location[0], "offset": location[1], "note": note, "marked_at": now}
        with self._changed() as rows:
            rows[location] = facts


class SavedFilters(_StoredRows):
    """Saved filters, by name: name and text."""

    name = "filters"

    def _key(self, row: dict[str, Any]) -> str:
        row |= {"name": str(row.get("name")), "text": str(row.get("text"))}
        return str(row["name"])

    def save(self, name: str, text: str) -> None:
        """Saves a filter, replacing one with the same name."""
        with self._changed() as rows:
            rows[name] = {"name": name, "text": text}
