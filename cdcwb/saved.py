"""Which folder holds a saved capture, and what its description says."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from cdcwb.errors import CaptureError
from cdcwb.formats import Paths
from cdcwb.formats.source import fetched, forget, is_file, is_remote, url_of
from cdcwb.standard_input import named

__all__ = [
    "FOLLOWED",
    "GENERATIONS",
    "SAVED",
    "STATUS",
    "VERSION",
    "followed_by",
    "hold",
    "is_free",
    "read_description",
    "replacing",
    "saved_among",
    "saved_at",
    "saved_format",
    "write_description",
]

SAVED: Final = "cdcwb.json"
"""The file that tells a saved capture from a folder of raw files."""

VERSION: Final = 3
"""What is written into it."""

FOLLOWED: Final = "follow.json"
"""The file that tells a folder into which a topic is followed; the newest of its saved captures is opened."""

STATUS: Final = "status.json"
"""The file beside it that says how far behind it is."""

GENERATIONS: Final = "generations"

_READ: Final = (1, 2, 3)  # versions that are opened; the first does not say what is needed to go on


def saved_at(path: Paths) -> Path | None:
    """The folder of a saved capture; None where ``path`` is none. Of a remote one it is a temporary copy; of a topic
    that is followed it is what was saved last. Raises CaptureError where nothing was yet."""
    if not isinstance(path, (str, os.PathLike)):
        return None
    if is_remote(path):
        forget()
        return fetched(path) if is_file(f"{url_of(str(path))}/{SAVED}") else None
    if (Path(path) / SAVED).is_file():
        return Path(path).absolute()
    if not (Path(path) / FOLLOWED).is_file():
        return None
    newest = json.loads((Path(path) / FOLLOWED).read_text(encoding="utf-8"))["generation"]
    if newest is None:
        raise CaptureError("no message has arrived yet of the topic that is followed into this folder", path=str(path))
    return Path(path).absolute() / GENERATIONS / str(newest)


def followed_by(folder: Path) -> Path | None:
    """The folder into which the topic is followed that a saved capture is of; None where it is of none."""
    above = folder.parent.parent
    return above if folder.parent.name == GENERATIONS and (above / FOLLOWED).is_file() else None


def hold(folder: Path, reader: object) -> None:
    """Keeps a saved capture of a topic that is followed from being removed, as long as its reader is there. Nothing
    is done for other ones, and where the file system has no locks."""
    if followed_by(folder) is None:
        return
    file = (folder / SAVED).open("rb")
    weakref.finalize(reader, file.close)
    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)


def is_free(folder: Path) -> bool:
    """Does nobody :func:`hold` it?"""
    try:
        with (folder / SAVED).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


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


def write_description(
    folder: Path, format: str, files: list[dict[str, Any]], facts: dict[str, Any], goes_on: dict[str, Any]
) -> None:
    """Writes :data:`SAVED` into a folder of tables. ``goes_on``: what it needs to be continued."""
    about = {"version": VERSION, "format": format, "files": files, "facts": facts, "continue": goes_on}
    (folder / SAVED).write_text(named(json.dumps(about, indent=1)), encoding="utf-8")


@contextmanager
def replacing(directory: str | os.PathLike[str], overwrite: bool) -> Iterator[Path]:
    """An empty folder, which becomes ``directory`` when the block ends well, and is removed otherwise.

    Raises CaptureError if there is something at ``directory``; with ``overwrite`` a saved capture there is replaced.
    """
    if is_remote(directory):
        sentence = "captures are saved to local folders; save to one and copy it there"
        raise CaptureError(sentence, path=str(directory))
    target = Path(directory).expanduser().absolute()  # the JVM may have another working directory
    replaces = overwrite and (target / SAVED).is_file()
    if target.exists() and not replaces and (not target.is_dir() or any(target.iterdir())):
        raise CaptureError("already exists; not overwritten. overwrite=True replaces a saved capture", path=str(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    beside, old = (Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent)) for _ in range(2))
    try:
        yield beside
        beside.chmod(0o755)
        if target.exists():
            target.rename(old)
        try:
            beside.rename(target)
        except OSError:
            old.rename(target)
            raise
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        with suppress(OSError):  # it holds something only where it could not be put back
            old.rmdir()
