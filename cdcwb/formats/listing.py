"""The files of a path, in natural order."""

from __future__ import annotations

import difflib
import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from cdcwb.errors import CaptureError
from cdcwb.formats.source import SCHEMES, files_below, forget, is_remote, url_of

__all__ = ["list_files", "natural_key"]

_DIGITS: Final = re.compile(r"([0-9]+)")
_LOGIN: Final = re.compile(r"//[^/]*@")
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")

Key = tuple[tuple[tuple[int | str, ...], str], ...]


def natural_key(path: str) -> Key:
    """A sort key that orders paths part by part, and numbers in a part by value: a2 before a10, a/b before a-1/b."""
    return tuple((_by_value(part.casefold()), part) for part in Path(path).parts)


def _by_value(name: str) -> tuple[int | str, ...]:
    # Texts and numbers alternate, so that a number is never compared with a text.
    return tuple(int(token) if i % 2 else token for i, token in enumerate(_DIGITS.split(name)))


def list_files(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    """The files of a capture as absolute paths and URLs (:mod:`cdcwb.formats.source`), in natural order.

    A folder means all files below it; names that begin with ``.`` or ``_`` (``_SUCCESS``) are left out there. A file
    that is reached twice, also by a symbolic link, is listed once.

    Raises CaptureError for a path that does not exist or cannot be read, and for a folder without files.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise CaptureError("no path was given")
    urls = [url_of(str(path)) for path in given if is_remote(path)]
    if urls:
        forget()
    away = [file for url in urls for file in files_below(url)]
    found: dict[Path, Path] = {}  # resolved file -> path
    for path in (_local(path) for path in given if not is_remote(path)):
        for file in _below(path) if path.is_dir() else [path]:
            _check(file)
            real = file.resolve()
            if real not in found or file == real:
                found[real] = file
    return sorted([*map(str, found.values()), *dict.fromkeys(away)], key=natural_key)


def _local(path: str | os.PathLike[str]) -> Path:
    name = os.fspath(path)
    if name.lower().startswith("jdbc:"):  # which may have a password
        sentence = "expected files; `cdcwb capture URL --table SCHEMA.TABLE --to DIR` copies tables to files"
        raise CaptureError(sentence, path=":".join([*name.split(":")[:2], "…"]))
    url = _URL.match(name)
    if url and url[1].lower() == "file":
        name = unquote(urlsplit(name).path)
    elif url:
        shown = _LOGIN.sub("//", name)
        if url[1].lower() == "kafka":
            sentence = "expected files; `cdcwb capture URL --to DIR` copies the messages of topics to files"
            raise CaptureError(sentence, path=shown)
        supported = f"{', '.join(SCHEMES)} and file are supported"
        raise CaptureError(f"{url[1]}:// is not supported ({supported}); copy the files here", path=shown)
    if not name:
        raise CaptureError("the path is empty")
    return Path(os.path.normpath(Path(name).absolute()))


def _below(folder: Path) -> Iterator[Path]:
    """All files below a folder, including symbolic links to folders, each folder once."""
    seen: set[Path] = set()
    some = False

    def failed(error: OSError) -> None:
        raise CaptureError(f"the folder cannot be read ({error.strerror})", path=str(error.filename)) from error

    for parent, folders, names in os.walk(folder, onerror=failed, followlinks=True):
        real = Path(parent).resolve()
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = [name for name in folders if name[0] not in "._"]
        for name in names:
            path = Path(parent, name)
            if name[0] not in "._" and (path.is_file() or path.is_symlink()):  # sockets and pipes are not captures
                some = True
                yield path
    if not some:
        raise CaptureError("the folder holds no files", path=str(folder))


def _check(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        what = "the symbolic link points to nothing" if path.is_symlink() else "there is no such file or folder"
        raise CaptureError(what + _nearest(path), path=str(path)) from None
    except OSError as error:
        raise CaptureError(f"cannot be read ({error.strerror})", path=str(path)) from error
    if not stat.S_ISREG(mode):
        raise CaptureError("is neither a file nor a folder", path=str(path))
    if not os.access(path, os.R_OK):
        raise CaptureError("cannot be read (permission denied)", path=str(path))


def _nearest(path: Path) -> str:
    try:
        near = difflib.get_close_matches(path.name, (other.name for other in path.parent.iterdir()), n=1)
    except OSError:
        return ""
    return f"; did you mean {near[0]}?" if near and near[0] != path.name else ""
