"""Standard input as a capture: copied to a temporary file, which is removed at the end of the process and whose path
is replaced in all output."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from cdcwb.errors import CaptureError

__all__ = ["NAME", "is_spool", "named", "remove", "spool", "spool_path"]

NAME: Final = "standard input"
"""What pages, tables and messages call the file; commands call it ``-``."""

_FILE: Final = "standard-input"
_PIECE: Final = 8 << 20

_spool: list[str] = []
"""The path of the file, while there is one."""


def spool() -> str:
    """Copies standard input to a temporary file that only this user can read, and returns its path; :func:`remove`
    deletes it.

    Raises CaptureError if standard input is closed, a terminal or empty, or if it cannot be copied.
    """
    source = None if sys.stdin is None else sys.stdin.buffer
    if source is None:
        raise CaptureError("standard input is closed; pipe a capture into the command, or name a file")
    if source.isatty():
        raise CaptureError("standard input is a terminal; pipe a capture into the command, or name a file")
    try:
        folder = tempfile.mkdtemp(prefix="cdcwb-")
        _spool[:] = [str(Path(folder, _FILE).absolute())]
        with Path(_spool[0]).open("xb") as file:
            shutil.copyfileobj(source, file, _PIECE)
            length = file.tell()
    except OSError as error:
        room = f"{tempfile.gettempdir()} ({error.strerror}); TMPDIR names another folder for temporary files"
        raise CaptureError(f"standard input cannot be copied to {room}") from None
    if not length:
        raise CaptureError("standard input is empty; pipe a capture into the command, or name a file")
    return _spool[0]


def spool_path() -> str | None:
    """The path of the file that holds standard input; None if it was not read."""
    return _spool[0] if _spool else None


def is_spool(path: str | os.PathLike[str]) -> bool:
    """Whether this is the file that holds standard input."""
    return _spool == [os.fspath(path)]


def named(text: str) -> str:
    """A text with the path of the temporary file replaced: by ``-`` in commands, else by :data:`NAME`."""
    if not _spool or _spool[0] not in text:
        return text
    path = re.escape(_spool[0])
    return re.sub(rf"(?<![\w/])(cdcwb [a-z]+ ){path}", r"\1-", text).replace(_spool[0], NAME)


def remove() -> None:
    """Removes the file, if there is one."""
    for path in _spool:
        shutil.rmtree(Path(path).parent, ignore_errors=True)
    _spool.clear()
