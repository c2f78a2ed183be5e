"""Garbage collection in Spark's Python workers."""

from __future__ import annotations

import gc
import sys
from functools import cache

__all__ = ["spare_collector"]


def spare_collector() -> None:
    """Excludes loaded modules from garbage collection; to be called in a worker, in every task.

    A Spark worker collects garbage after each task, over all its objects: with the libraries that decode captures this
    takes 30 to 100 ms, more than a small task. Loaded modules never become garbage, so they are frozen whenever new
    ones were imported.
    """
    _set_aside(len(sys.modules))


@cache
def _set_aside(modules: int) -> None:
    gc.collect()
    gc.freeze()
