"""Captures at the limits of what is read: many files, long and many transactions, wide and many tables, large values.

``python -m benchmarks.limits [--format NAME] [CASE …]`` makes the capture of each case once, loads it on ``local[2]``
in a process of its own, reads all of ``changes`` and ``transactions``, and prints rows, seconds by the clock and of the
processors, the peak memory of each process and the size of the plan.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import cdcwb_synth as synth
from benchmarks.captures import CACHE
from benchmarks.end_to_end import report, watched
from benchmarks.measure import processor_seconds
from cdcwb.formats import FORMATS
from cdcwb.formats.files import list_files

__all__ = ["CASES", "SMALL_FILES", "long_transaction", "measure"]

SMALL_FILES: dict[str, dict[str, Any]] = {
    "gbase8s": {"files": 10_000},
    "goldengate": {"trail_files": 10_000, "capture_files": "trail", "transaction_size": 2.0},
    "qlik-kafka": {},
    "qlik-change-table": {"file_rows": 2, "dfm": False},
    "idm-event-log": {"files": 10_000},
    "debezium": {},
}
"""Options of the generator for ten thousand files or about as many, of formats that have them; the messages of others
are dealt out to files."""

_MESSAGES = ("qlik-kafka", "debezium")
_OF_MESSAGES = ("value", "partitions")  # cases that are made of messages unless a format is given
_VALUE = 64 << 20
_WORD = re.compile(rb'(?<=[",])([A-Z][a-z]{3,})(?=[",])')  # a whole value


def _synth(name: str, folder: Path, changes: int, **options: Any) -> None:
    synth.generate(name, changes=changes, seed=1, to=folder, overwrite=True, **options)


def small_files(name: str, folder: Path, files: int = 10_000) -> None:
    """About so many files of a few changes each."""
    _synth(name, folder, files * 2, **SMALL_FILES[name])
    if name in _MESSAGES:
        for source in list_files(folder / "capture"):
            lines = Path(source).read_bytes().splitlines(keepends=True)
            for number, some in enumerate(np.array_split(np.arange(len(lines)), files // 10)):
                Path(f"{source}.{number}.txt").write_bytes(b"".join(lines[at] for at in some.tolist()))
            Path(source).unlink()


def long_transaction(name: str, folder: Path, changes: int = 5_000_000) -> None:
    """One transaction with so many changes of gbase8s: a generated one whose first insert is repeated with sequence
    numbers that continue. Of other formats a fifth as many changes in a few transactions."""
    if name != "gbase8s":
        _synth(name, folder, changes // 5, transaction_size=changes / 20, concurrency=1)
        return
    one: dict[str, Any] = {"tables": 1, "all_types": False, "concurrency": 1, "transaction_size": 1e9}
    none = dict.fromkeys(("update_share", "delete_share", "empty_share", "rollback_share", "undo_share"), 0)
    _synth(name, folder, 50, **one, **none, open_transactions=0, truncates=0, schema_changes=0)
    (file,) = list_files(folder / "capture")
    data = Path(file).read_bytes()
    at, before, last = 0, b"", b""
    row = np.empty(0, np.uint8)
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big") + int.from_bytes(data[at + 4 : at + 8], "big")
        record, kind = data[at : at + size], int.from_bytes(data[at + 12 : at + 16], "big")
        if kind == 40 and not len(row):
            row = np.frombuffer(record, np.uint8)
        elif kind in (1, 200) and not len(row):
            before += record
        elif kind == 2:
            last = record
            break
        at += size
    first = int.from_bytes(row[16:24].tobytes(), "big")
    with Path(file).open("wb") as out:
        out.write(before)
        for begin in range(0, changes, 100_000):
            count = min(100_000, changes - begin)
            rows = np.tile(row, (count, 1))
            rows[:, 16:24] = (first + 64 * np.arange(begin, begin + count)).astype(">u8").view(np.uint8).reshape(-1, 8)
            out.write(rows.tobytes())
        end = (first + 64 * (changes + 1)).to_bytes(8, "big")
        out.write(last[:16] + end + last[24:])


def large_value(name: str, folder: Path, size: int = _VALUE) -> None:
    """A value of so many bytes in a small capture of text: a word of one value in the largest file is repeated."""
    _synth(name, folder, 200, tables=2, all_types=False)
    file = Path(max(list_files(folder / "capture"), key=os.path.getsize))
    begin, word, end = _WORD.split(file.read_bytes(), maxsplit=1)
    file.write_bytes(begin + word * (size // len(word)) + end)


def _generated(changes: int, **options: Any) -> Callable[[str, Path], None]:
    return lambda name, folder: _synth(name, folder, changes, **options)


CASES: Mapping[str, Callable[[str, Path], None]] = {
    "files": small_files,
    "transaction": long_transaction,
    "open": _generated(400_000, concurrency=100_000, transaction_size=4),
    "columns": _generated(5_000, columns=1024, tables=1, all_types=False),
    "tables": _generated(40_000, tables=10_000, all_types=False),
    "value": large_value,
    "partitions": _generated(100_000, tables=1, partitions=200),
}
"""How the capture of each case is made: the format and a folder, which gets a folder ``capture``."""


def measure(capture: Path) -> dict[str, Any]:
    """What a process that loads and reads the capture says of itself, with ``memory``, the peak of every process in
    bytes, by role."""
    command = [sys.executable, "-m", "benchmarks.limits", "--measure", str(capture)]
    (result,), memory = watched(command, f"{capture}: the run")
    return {**result, "memory": memory}


def _read(folder: str) -> dict[str, Any]:
    import cdcwb
    from cdcwb.spark.session import get_spark

    spark = get_spark("cdcwb-limits")
    spark.range(2).count()
    seconds: dict[str, float] = {}
    began, cpu = time.monotonic(), processor_seconds()
    capture = cdcwb.load(folder, spark=spark)
    seconds["load"] = time.monotonic() - began
    rows: dict[str, int] = {}
    for table in ("changes", "transactions"):
        begin = time.monotonic()
        getattr(capture, table).write.format("noop").mode("overwrite").save()
        seconds[table] = time.monotonic() - begin
    processor = processor_seconds() - cpu
    for table in ("changes", "transactions"):
        rows[table] = getattr(capture, table).count()
    plan = getattr(capture._tables, "text", "")
    return {"rows": rows, "seconds": seconds, "processor": processor, "plan": len(plan)}


def rows_of(case: str, name: str, found: Mapping[str, Any]) -> Iterator[str]:
    """The row of a table in Markdown."""
    memory = found["memory"]
    workers = [size for role, size in memory.items() if role.startswith("Python worker")]
    seconds = found["seconds"]
    cells = [case, name, *(f"{rows:,}" for rows in found["rows"].values())]
    cells += [f"{seconds[part]:.1f}" for part in ("load", "changes", "transactions")] + [f"{found['processor']:.0f}"]
    peaks = (memory.get("driver (Python)", 0), memory.get("JVM", 0), max(workers, default=0))
    cells += [f"{size >> 20:,}" for size in peaks]
    yield f"| {' | '.join(cells)} | {found['plan'] / 1000:,.0f} |"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.limits", description=__doc__)
    parser.add_argument(
        "--format", choices=FORMATS, action="append", help="default: gbase8s, or qlik-kafka; may be repeated"
    )
    parser.add_argument("--measure", metavar="CAPTURE", help=argparse.SUPPRESS)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"default: all of {', '.join(CASES)}")
    given = parser.parse_args()
    if given.measure:
        report(_read(given.measure))
        return
    print(
        "| case | format | changes | transactions | load s | changes s | transactions s | processor s "
        "| driver MiB | JVM MiB | worker MiB | plan kB |"
    )
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for case in given.cases or CASES:
        for name in given.format or ["qlik-kafka" if case in _OF_MESSAGES else "gbase8s"]:
            folder = CACHE / f"limit-{case}-{name}"
            if not (folder / "made").exists():
                CASES[case](name, folder)
                (folder / "made").touch()
            for row in rows_of(case, name, measure(folder / "capture")):
                print(row, flush=True)


if __name__ == "__main__":
    main()
