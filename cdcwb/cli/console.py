"""Output to the terminal: escaped text, JSON for programs, progress on standard error, and errors as one sentence and
an exit code, without a stack trace for input that cannot be used.

Captured data is hostile. Text from a capture (values, table names, file names) is printed only after :func:`safe` or
:func:`to_json`, so that no control sequence in it can move the cursor, change colours or the title of the terminal, or
reorder text. rich's markup is never used.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from typing import IO, Any, Final, Protocol
from urllib.parse import unquote

from cdcwb.errors import CaptureError
from cdcwb.spark.session import running_tasks
from cdcwb.words import visible

FINE: Final = 0
PROBLEMS: Final = 1
"""The capture has problems, and ``--strict`` was given."""
UNUSABLE: Final = 2
"""The input or the arguments cannot be used."""
INTERNAL: Final = 3
"""An error in cdcwb; the stack trace is shown."""
DOWN: Final = 5
"""A live source does not answer; the same command may succeed later. 4 is that of an exceeded threshold."""

# Control and invisible characters, without those that json.dumps escapes by itself.
_UNSAFE_IN_JSON: Final = re.compile(
    "[\x7f-\x9f\u061c\u200b-\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)

QUIET_SECONDS: Final = 2.0
"""Seconds until a progress line appears."""


def safe(text: object) -> str:
    r"""``text`` on one line with control characters, and those that reorder text, as escapes (``\x1b``,
    ``\u202e``)."""
    return visible(str(text), sys.maxsize)


def jsonable(value: Any) -> Any:
    """``value`` as JSON values: times as ``2025-03-23T10:57:19.000000Z``, bytes as lower-case hex, tuples as lists."""
    if isinstance(value, datetime):
        utc = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        return utc.isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, dict):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [jsonable(item) for item in value]
    return value


def to_json(value: Any, indent: int | None = 2) -> str:
    """``value`` as JSON text in Unicode that is also safe to print on a terminal."""
    text = json.dumps(jsonable(value), ensure_ascii=False, indent=indent, allow_nan=False)
    return _UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def print_json(value: Any) -> None:
    """Write ``value`` as JSON to standard output, in UTF-8 whatever the locale."""
    sys.stdout.flush()
    sys.stdout.buffer.write(to_json(value).encode() + b"\n")
    sys.stdout.flush()


def print_lines(lines: list[str]) -> None:
    """Writes lines to standard output; the caller has escaped them (:func:`safe`)."""
    encoding = sys.stdout.encoding or "utf-8"
    for line in lines:
        text = line.rstrip().encode(encoding, "backslashreplace").decode(encoding)
        sys.stdout.write(text + "\n")


def print_rows(head: Sequence[str], rows: Sequence[Sequence[str]], marked: Collection[int] = ()) -> None:
    """Writes a table to standard output: on a terminal it fits the width, and ``marked`` rows are red; elsewhere
    every row is one line, with two blanks between columns. The caller has escaped the cells (:func:`safe`)."""
    if not sys.stdout.isatty():
        table = [head, *rows]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        print_lines(["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in table])
        return

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in head:
        grid.add_column(name, overflow="fold", no_wrap=name != head[-1])
    for number, row in enumerate(rows):
        grid.add_row(*map(Text, row), style="bold red" if number in marked else "")
    Console(markup=False, highlight=False, emoji=False).print(grid)


@contextmanager
def standard_output() -> Iterator[IO[bytes]]:
    """Standard output as a binary file; on a terminal every line is escaped (:func:`safe`)."""
    sys.stdout.flush()
    if not sys.stdout.isatty():
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with tempfile.TemporaryFile() as held:
        yield held
        held.seek(0)
        for line in held:
            print_lines([safe(line.decode().rstrip("\r\n"))])


class Step(Protocol):
    """The function that :func:`working` yields, to report the present step and its progress."""

    def __call__(self, text: str, done: int | None = None, total: int | None = None) -> None:
        """Shows ``text``, and ``done`` of ``total`` if they are given."""


@contextmanager
def working(text: str) -> Iterator[Step]:
    """Shows the present step, the progress of Spark and the elapsed time on standard error, after two seconds.

    Shows nothing if standard error is not a terminal.
    """
    if not sys.stderr.isatty():
        yield lambda _text, _done=None, _total=None: None
        return

    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True, markup=False, highlight=False),
        transient=True,
    )
    task = bar.add_task(safe(text), total=None)
    counted = False  # True: the steps report their own progress; else Spark's tasks are counted
    finished = threading.Event()

    def step(text: str, done: int | None = None, total: int | None = None) -> None:
        nonlocal counted
        counted = total is not None
        bar.update(task, description=safe(text), completed=done, total=total)

    def watch() -> None:
        if finished.wait(QUIET_SECONDS):
            return
        bar.start()
        while not finished.wait(0.3):
            if not counted:
                completed, total = running_tasks()
                bar.update(task, completed=completed, total=total)

    watcher = threading.Thread(target=watch, daemon=True, name="cdcwb-progress")
    watcher.start()
    try:
        yield step
    finally:
        finished.set()
        watcher.join()
        bar.stop()


# --- errors -----------------------------------------------------------------------------------------------------------

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
