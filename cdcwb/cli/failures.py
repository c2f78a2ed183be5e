"""Errors as one sentence and an exit code, without a stack trace for input that cannot be used.

Exceptions of Spark's worker processes arrive as text. The sentence is extracted here.
"""

from __future__ import annotations

import re
import sys
from typing import Final
from urllib.parse import unquote

from cdcwb.cli.console import safe
from cdcwb.errors import CaptureError

__all__ = ["DOWN", "FINE", "INTERNAL", "PROBLEMS", "UNUSABLE", "of_source", "sentence"]

FINE: Final = 0
PROBLEMS: Final = 1
"""The capture has problems, and ``--strict`` was given."""
UNUSABLE: Final = 2
"""The input or the arguments cannot be used."""
INTERNAL: Final = 3
"""An error in cdcwb; the stack trace is shown."""
DOWN: Final = 5
"""A live source does not answer; the same command may succeed later. 4 is that of an exceeded threshold."""

_UNREADABLE: Final = re.compile(r"\[(?:FAILED_READ_FILE|CANNOT_READ_FILE_FOOTER)\S*\].*?file:/*(?P<path>/.+?\.parquet)")
_FROM_WORKER: Final = re.compile(r"^(?:pyspark\.errors\.\S+: .*?)?cdcwb\.errors\.\w+: (?P<sentence>.+)$", re.MULTILINE)


def of_source(failure: Exception) -> Exception:
    """The error of a database driver in Spark as a CaptureError; any other error unchanged."""
    if "pyspark" not in sys.modules or isinstance(failure, CaptureError):
        return failure
    from cdcwb.live.jdbc import failure as of_database

    return of_database(failure) or failure


def sentence(failure: BaseException) -> str | None:
    """One sentence for an error that the user can correct; None for an error in cdcwb."""
    if isinstance(failure, CaptureError):
        return "\n".join(map(safe, (failure.sentence, *failure.advice)))
    if isinstance(failure, OSError):
        reason = failure.strerror or str(failure)
        return safe(f"{failure.filename}: {reason}" if failure.filename is not None else reason)
    if isinstance(failure, MemoryError):
        return "this machine does not have enough memory"
    if type(failure).__module__.startswith(("pyspark.", "py4j.")) and (file := _UNREADABLE.search(str(failure))):
        return safe(f"{unquote(file['path'])}: not a table of a saved capture, or damaged")
    errors = sys.modules.get("pyspark.errors")  # no Spark failure without Spark
    if errors is not None and isinstance(failure, errors.PySparkException):
        raised = _FROM_WORKER.search(str(failure))
        return safe(raised["sentence"].strip()) if raised else None
    return None
