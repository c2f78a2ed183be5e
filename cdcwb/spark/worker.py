"""What Spark's Python workers need not do again in every task."""

from __future__ import annotations

import gc
import sys
from functools import cache
from pathlib import Path
from zipimport import zipimporter

__all__ = ["spare"]


def spare() -> None:
    """Avoids repeated work that takes longer than a small task; to be called in a worker, in every task.

    A Spark worker collects garbage after each task, over all its objects: with the libraries that decode captures this
    takes 30 to 100 ms. Loaded modules never become garbage, so they are frozen whenever new ones were imported.

    Before each task PySpark 4.0 drops what Python knows of its path; Python before 3.13 then reads the directory of
    PySpark's archive again, for each package in it: 100 ms. Now an archive is read again only if it has changed.
    """
    _keep_archives()
    _set_aside(len(sys.modules))


@cache
def _set_aside(modules: int) -> None:
    gc.collect()
    gc.freeze()


@cache
def _keep_archives() -> None:
    read = zipimporter.invalidate_caches
    known: dict[tuple[str, str], tuple[int, int] | None] = {}

    def invalidate_caches(importer: zipimporter) -> None:
        place, now = (importer.archive, importer.prefix), _state(importer.archive)
        if place not in known or known[place] != now:
            known[place] = now
            read(importer)

    setattr(zipimporter, "invalidate_caches", invalidate_caches)  # noqa: B010 (a method cannot be assigned to)


def _state(path: str) -> tuple[int, int] | None:
    try:
        about = Path(path).stat()
    except OSError:
        return None
    return about.st_mtime_ns, about.st_size
