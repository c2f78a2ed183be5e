"""The parameters of a page on an event log, understood: the settings of its publication and the files of a snapshot."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cdcwb.errors import OptionError
from cdcwb.words import visible
from cdcwb.xds import Settings

__all__ = ["read_settings", "snapshot_files"]


def read_settings(
    driver_user: str = "", as_of: str = "", batch_size: int = 0, settings: str | Mapping[str, Any] = "{}"
) -> Settings:
    """The settings of a publication as a notebook's parameters have them; empty and 0: not given.

    ``settings`` is a JSON object of the others. With ``as_of`` rows are ordered by event_time. Raises OptionError.
    """
    others = _object("settings", settings)
    given = {"driver_user": driver_user, "as_of": as_of, "batch_size": batch_size}
    given = {name: value for name, value in given.items() if value not in ("", 0, None)}
    for name in given:
        if name in others:
            raise OptionError(f"'{name}' is given twice, on its own and in settings")
    if "as_of" in given:
        given["future_events"] = others.get("future_events", True)
    return Settings.parse(others | given)


def snapshot_files(snapshot: str | Mapping[str, str], path: str) -> dict[str, str]:
    """The files of a snapshot by the names of their tables.

    ``snapshot``: a JSON object, or a folder with a file (or folder) for each table; empty: none; ``auto``: the folder
    ``NAME.snapshot`` beside the capture at ``path``, where there is one. Raises OptionError.
    """
    if snapshot == "auto":
        beside = Path(path).parent / f"{Path(path).name}.snapshot"
        return _files_of(beside) if beside.is_dir() else {}
    if isinstance(snapshot, Mapping) or str(snapshot).lstrip().startswith("{"):
        return {name: str(file) for name, file in _object("snapshot", snapshot).items()}
    if not snapshot:
        return {}
    folder = Path(snapshot).expanduser()
    if not folder.is_dir():
        raise OptionError(f"snapshot: expected a JSON object or a folder, found {visible(repr(snapshot))}")
    return _files_of(folder)


def _files_of(folder: Path) -> dict[str, str]:
    files: dict[str, str] = {}
    for file in sorted(folder.iterdir()):
        if file.name.startswith((".", "_")):
            continue
        table = file.name if file.is_dir() else file.name.removesuffix(file.suffix)
        if table in files:
            raise OptionError(f"snapshot: '{visible(file)}' is a second file of table '{visible(table)}'")
        files[table] = str(file.absolute())
    return files


def _object(name: str, text: str | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(text, Mapping):
        return dict(text)
    try:
        found = json.loads(text or "{}")
    except (TypeError, ValueError) as error:
        raise OptionError(f"{name}: expected a JSON object, found {visible(repr(text))} ({error})") from None
    if not isinstance(found, dict):
        raise OptionError(f"{name}: expected a JSON object, found {visible(repr(text))}")
    return found
