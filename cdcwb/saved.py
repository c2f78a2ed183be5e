"""The folder of a saved capture and its description, ``cdcwb.json``."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from cdcwb.errors import CaptureError
from cdcwb.formats import Paths
from cdcwb.formats.source import fetched, forget, is_file, is_remote, url_of
from cdcwb.writing import exchange, naming, put, remove, try_lock

__all__ = [
    "SAVED",
    "VERSION",
    "read_description",
    "replacing",
    "restore",
    "saved_among",
    "saved_at",
    "saved_format",
    "write_description",
]

SAVED: Final = "cdcwb.json"
"""The file by which a saved capture is recognised."""

VERSION: Final = 3
"""The version that is written into it."""

_NEW: Final = ".saving"
"""The end of the name of a folder next to a saved capture that will replace it."""

_OLD: Final = ".replaced"
"""The end of the name of a saved capture that is being replaced."""

_READ: Final = (1, 2, 3)  # versions that can be opened; the first lacks what appending files needs
_COUNTS: Final = ("records", "messages", "bytes", "groups")  # in facts
_MOST_BYTES: Final = 1 << 28  # of the description
_LONGEST_PATH: Final = 4096


def saved_at(path: Paths) -> Path | None:
    """The folder of a saved capture; None if ``path`` is not one. For a remote capture this is a temporary copy."""
    if not isinstance(path, (str, os.PathLike)):
        return None
    if is_remote(path):
        forget()
        url = url_of(str(path))
        return fetched(url) if is_file(f"{url}/{SAVED}") else None
    if not os.path.lexists(path):
        restore(Path(os.path.realpath(path)))
    if (Path(path) / SAVED).is_file():
        return Path(path).absolute()
    return None


def saved_among(path: Paths) -> tuple[Path | None, list[Any]]:
    """The saved capture among some paths (None if there is none), and the other paths. Raises CaptureError for a
    second one."""
    paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    folders = [folder for item in paths if (folder := saved_at(item)) is not None]
    if len(folders) > 1:
        raise CaptureError(
            f"{folders[0]} is a saved capture too; files can be appended to one saved capture only",
            path=str(folders[1]),
        )
    return folders[0] if folders else None, [item for item in paths if saved_at(item) is None]


def saved_format(path: Paths) -> str | None:
    """The format of a saved capture; None if ``path`` is not one. Raises CaptureError if it cannot be opened."""
    folder = saved_at(path)
    return None if folder is None else str(read_description(folder)["format"])


def read_description(folder: Path) -> dict[str, Any]:
    """The content of :data:`SAVED`. Raises CaptureError if it is not a description, or of an unsupported version."""
    facts = _read(folder / SAVED)
    if facts["version"] not in _READ:
        raise CaptureError(f"saved in version {facts['version']}; this one reads version {VERSION}", path=str(folder))
    stored = facts.get("continue") or {"not": ""}
    wanted = [(facts, "format", str), (facts, "files", list), (facts, "facts", dict)]
    if "not" not in stored:
        of_stored = {"format": str, "files": list, "options": dict, "splits": list}
        wanted += [(stored, name, kind) for name, kind in of_stored.items()]
    wrong = [name for holder, name, kind in wanted if not isinstance(holder.get(name), kind)]
    if wrong:
        why = f"not the description of a saved capture ({wrong[0]!r} is missing)"
        raise CaptureError(why, path=str(folder / SAVED))
    return facts


def _object(file: Path) -> dict[str, Any]:
    """The JSON object in a file of a saved capture. Raises CaptureError if there is none."""
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise ValueError(f"more than {_MOST_BYTES:,} bytes")
        content = json.loads(file.read_text(encoding="utf-8"))
        _check(isinstance(content, dict), "the content")
    except (OSError, ValueError, RecursionError) as reason:
        raise CaptureError(f"not the description of a saved capture ({reason})", path=str(file)) from None
    return dict(content)


def _read(file: Path) -> dict[str, Any]:
    """The content of :data:`SAVED`. It may come from anyone: what is read of it is checked."""
    facts = _object(file)
    try:
        _check(type(facts.get("version")) is int, "version")
        if facts["version"] in _READ:
            _check_facts(facts)
    except ValueError as reason:
        raise CaptureError(f"not the description of a saved capture ({reason})", path=str(file)) from None
    return facts


def _check(holds: bool, name: str) -> None:
    if not holds:
        raise ValueError(f"{name} is missing, or is not what cdcwb writes")


def _check_facts(facts: dict[str, Any]) -> None:
    """Raises ValueError unless all values have the form in which :func:`write_description` writes them."""
    _check(isinstance(facts.get("format"), str), "format")
    _check(isinstance(facts.get("facts"), dict), "facts")
    for name in _COUNTS:
        _check(_is_number(facts["facts"].get(name) or 0), name)
    files = facts.get("files")
    _check(isinstance(files, list) and all(isinstance(entry, dict) for entry in files), "files")
    for entry in facts["files"]:
        _check(_is_path(entry.get("file")), "the path of a file")
        _check(_is_number(entry.get("file_index")) and entry["file_index"] < 1 << 31, "file_index")
        for name in ("size", "rows"):
            _check(entry.get(name) is None or _is_number(entry[name]), name)
        _check(not any(isinstance(value, (list, dict)) for value in entry.values()), "files")
    _check(len({entry["file_index"] for entry in facts["files"]}) == len(facts["files"]), "file_index")
    stored = facts.get("continue")
    _check(stored is None or isinstance(stored, dict), "continue")
    if stored and "not" in stored:
        _check(isinstance(stored["not"], str), "not")
    elif stored:
        _check(isinstance(stored.get("files"), list) and all(map(_is_path, stored["files"])), "continue: files")
        _check(isinstance(stored.get("format"), str), "continue: format")
        _check(isinstance(stored.get("options"), dict), "continue: options")
        splits = stored.get("splits")
        _check(isinstance(splits, list) and all(isinstance(marks, list) for marks in splits), "splits")
        _check(all(isinstance(mark, str) for marks in stored["splits"] for mark in marks), "splits")


def _is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _is_path(value: Any) -> bool:
    """Whether this can be the path or the URL of a file."""
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_PATH or "\0" in value:
        return False
    return ".." not in value.split("/") and not re.search("[\ud800-\udc7f\udd00-\udfff]", value)


def write_description(
    folder: Path,
    format: str,
    files: list[dict[str, Any]],
    facts: dict[str, Any],
    continuation: dict[str, Any],
) -> None:
    """Writes :data:`SAVED` into a folder of tables. ``continuation``: what appending files needs
    (:meth:`cdcwb.planned.Planned.continuation`)."""
    about = {"version": VERSION, "format": format, "files": files, "facts": facts, "continue": continuation}
    (folder / SAVED).write_text(json.dumps(about, indent=1), encoding="utf-8")


@contextmanager
def replacing(directory: str | os.PathLike[str], overwrite: bool) -> Iterator[Path]:
    """A new empty folder. It is renamed to ``directory`` when the block succeeds, and removed if it fails. Its
    permissions, and those of all files in it, are those of the umask.

    Raises CaptureError if ``directory`` exists and is not empty, before the block and after it; with ``overwrite`` a
    saved capture is replaced, at once where the file system can exchange two folders. What an earlier process left
    next to it is removed.
    """
    if is_remote(directory):
        advice = "save to a local folder and copy it there, or write tables: capture.changes.write.parquet(URL)"
        raise CaptureError(f"captures are saved to local folders only; {advice}", path=url_of(str(directory)))
    target = Path(os.path.realpath(Path(directory).expanduser()))  # the JVM may have another working directory
    with naming(target):
        restore(target)
        replaces = overwrite and _is_saved(target)
        if target.exists() and not replaces and (not target.is_dir() or any(target.iterdir())):
            advice = "overwrite=True (--overwrite) replaces a saved capture"
            raise CaptureError(f"already exists; not overwritten. {advice}", path=str(target))
        empty = target.stat() if target.exists() and not replaces else None
        target.parent.mkdir(parents=True, exist_ok=True)
        new, handle = _made_beside(target)
        try:
            yield new
            mode = new.stat().st_mode & 0o777
            for path in new.rglob("*"):  # Spark's files have a mode of their own
                path.chmod(mode if path.is_dir() else mode & 0o666)
            _put(new, target, overwrite, empty)
        finally:
            remove(new)
            if handle is not None:
                os.close(handle)


def _is_saved(folder: Path) -> bool:
    return (folder / SAVED).is_file() and not folder.is_symlink()


def _made_beside(target: Path) -> tuple[Path, int | None]:
    """A new folder next to another one, and the handle with its lock (None: there are no locks)."""
    while True:
        new = target.with_name(f".{target.name}.{secrets.token_hex(4)}{_NEW}")
        new.mkdir()
        try:
            handle = try_lock(new)
        except OSError:
            return new, None
        if handle is not None:  # else another process took it for one that was left
            return new, handle


def _put(new: Path, target: Path, overwrite: bool, empty: os.stat_result | None) -> None:
    """Renames a complete saved capture to its target. ``empty``: the empty folder that was there before."""
    with suppress(FileExistsError):
        put(new, target)
        return
    with suppress(OSError):  # rename replaces no folder but an empty one
        if empty is not None and os.path.samestat(empty, target.lstat()):
            new.rename(target)
            return
    if not (overwrite and _is_saved(target)):
        raise CaptureError("was created by someone else during the save; not overwritten", path=str(target))
    if exchange(new, target):
        if not _is_saved(new):  # replaced at the last moment
            exchange(new, target)
            raise CaptureError("was replaced by someone else during the save; not overwritten", path=str(target))
        return
    handle = None
    with suppress(OSError):
        handle = try_lock(target)
    old = new.with_suffix(_OLD)
    target.rename(old)  # if this process ends here, restore() finds it
    try:
        put(new, target)
    except OSError:
        put(old, target)
        raise
    finally:
        if handle is not None:
            os.close(handle)
    (old / SAVED).unlink(missing_ok=True)  # what is incomplete is not restored
    remove(old)


def restore(target: Path) -> None:
    """Removes what ended processes left next to a saved capture. If one ended where it replaced the capture, on a
    file system that cannot exchange two folders, the old one is restored."""
    name = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{8}}({re.escape(_NEW)}|{re.escape(_OLD)})")
    beside = target.parent.iterdir() if target.parent.is_dir() else ()
    for path in [path for path in beside if name.fullmatch(path.name)]:
        with suppress(OSError):
            handle = try_lock(path)
            if handle is None:
                continue  # a process writes it
            try:
                if path.suffix == _OLD and _is_saved(path) and not os.path.lexists(target):
                    put(path, target)
                else:
                    remove(path)
            finally:
                os.close(handle)
