"""What makes Spark's Python workers quicker between tasks."""

from __future__ import annotations

import gc
import sys
from functools import cache

__all__ = ["spare_collector"]


def spare_collector() -> None:
    """Keeps what is loaded out of the garbage collector's way; to be called in a worker, in every task.

    A worker of Spark collects garbage after each task, over all objects that it has: with the libraries that decode
    captures that takes 30 to 100 ms, which is more than a small task does. What is loaded never becomes garbage, so it
    is set aside, once for every time that modules came in.
    """
    _set_aside(len(sys.modules))


@cache
def _set_aside(modules: int) -> None:
    gc.collect()
    gc.freeze()
