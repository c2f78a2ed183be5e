"""Saved captures: all tables as Parquet and a description, in a folder that is written atomically."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cdcwb import model
from cdcwb.errors import CaptureError
from cdcwb.formats.source import absolute, is_remote, url_of
from cdcwb.opening import SAVED, VERSION, is_saved
from cdcwb.tables import Tables
from cdcwb.writing import exchange, folder_beside, naming, put


def save(tables: Tables, directory: str | os.PathLike[str], overwrite: bool = False) -> Path:
    """Writes all tables as Parquet, with what opening them needs, into a new folder; returns its path. See
    :meth:`cdcwb.Capture.save`."""
    with _replacing(directory, overwrite) as folder:
        small = tables.small
        if small is None:
            for name in model.TABLES:
                tables.frame(name).write.parquet(str(folder / name))
            if not all((folder / name / "_SUCCESS").exists() for name in model.TABLES):
                sentence = "Spark's workers do not write to this machine; name a folder that all machines share"
                raise CaptureError(sentence, path=str(directory))
        else:
            for name in model.TABLES:
                small.write_table(name, folder)
        about = {"version": VERSION, "format": tables.format.name, "files": tables.files, "facts": tables.facts}
        text = json.dumps({**about, "continue": tables.continuation()}, indent=1)
        (folder / SAVED).write_text(text, encoding="utf-8")
    return Path(absolute(directory))


@contextmanager
def _replacing(directory: str | os.PathLike[str], overwrite: bool) -> Iterator[Path]:
    """A new empty folder. It is renamed to ``directory`` when the block succeeds, and removed if it fails. Its
    permissions, and those of all files in it, are those of the umask.

    Raises CaptureError if ``directory`` exists and is not empty, before the block and after it; with ``overwrite`` a
    saved capture is replaced at once, on file systems that can exchange two folders.
    """
    if is_remote(directory):
        advice = "save to a local folder and copy it there, or write tables: capture.changes.write.parquet(URL)"
        raise CaptureError(f"captures are saved to local folders only; {advice}", path=url_of(str(directory)))
    target = Path(os.path.realpath(absolute(directory)))  # the JVM may have another working directory
    with naming(target):
        replaces = overwrite and is_saved(target)
        exists = target.exists() or target.is_symlink()  # to itself
        if exists and not replaces and (not target.is_dir() or any(target.iterdir())):
            advice = "overwrite=True (--overwrite) replaces a saved capture"
            raise CaptureError(f"already exists; not overwritten. {advice}", path=str(target))
        target.parent.mkdir(parents=True, exist_ok=True)
        with folder_beside(target) as folder:
            new = folder / target.name
            new.mkdir()
            yield new
            mode = new.stat().st_mode & 0o777
            for path in new.rglob("*"):  # Spark's files have a mode of their own
                path.chmod(mode if path.is_dir() else mode & 0o666)
            _put(new, target, replaces)


def _put(new: Path, target: Path, replaces: bool) -> None:
    """Renames a complete saved capture to its target; with ``replaces`` to that of a saved capture, which then has the
    name ``new``."""
    if not replaces:
        try:
            put(new, target)
        except FileExistsError:
            sentence = "was created by someone else during the save; not overwritten"
            raise CaptureError(sentence, path=str(target)) from None
        return
    exchange(new, target)
    if not is_saved(new):  # replaced at the last moment
        exchange(new, target)
        raise CaptureError("was replaced by someone else during the save; not overwritten", path=str(target))
