"""Which folder holds a saved capture, and what its description says."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

from cdcwb.errors import CaptureError
from cdcwb.formats import Paths

__all__ = ["SAVED", "VERSION", "read_description", "saved_among", "saved_at", "saved_format"]

SAVED: Final = "cdcwb.json"
"""The file that tells a saved capture from a folder of raw files."""

VERSION: Final = 3
"""What is written into it."""

_READ: Final = (1, 2, 3)  # versions that are opened; the first does not say what is needed to go on


def saved_at(path: Paths) -> Path | None:
    """The folder of a saved capture; None where ``path`` is none."""
    if isinstance(path, (str, os.PathLike)) and (Path(path) / SAVED).is_file():
        return Path(path).absolute()
    return None


def saved_among(path: Paths) -> tuple[Path | None, list[Any]]:
    """The saved capture among some paths, None where there is none, and the other paths. Raises CaptureError for a
    second one."""
    paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    found = [folder for one in paths if (folder := saved_at(one)) is not None]
    if len(found) > 1:
        raise CaptureError(
            f"{found[0]} is a saved capture too; files can be appended to one saved capture only", path=str(found[1])
        )
    return found[0] if found else None, [one for one in paths if saved_at(one) is None]


def saved_format(path: Paths) -> str | None:
    """The format of a saved capture; None where ``path`` is none. Raises CaptureError where it cannot be opened."""
    folder = saved_at(path)
    return None if folder is None else str(read_description(folder)["format"])


def read_description(folder: Path) -> dict[str, Any]:
    """What :data:`SAVED` says. Raises CaptureError where that is no description, or of a version that is not read."""
    try:
        facts: dict[str, Any] = json.loads((folder / SAVED).read_text(encoding="utf-8"))
        version = facts["version"]
    except (OSError, ValueError, KeyError, TypeError) as reason:
        raise CaptureError(f"not the description of a saved capture ({reason})", path=str(folder / SAVED)) from None
    if version not in _READ:
        raise CaptureError(f"saved in version {version}; this one reads version {VERSION}", path=str(folder))
    return facts
