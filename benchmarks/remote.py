"""Bytes that are transferred from an S3 server on loopback to read a capture of each format.

``python -m benchmarks.remote [--size MB] [--split MB] [FORMAT …]`` prints a table: what is transferred to detect the
format, by the first pass, and to read all events, each as a share of the capture. Every task begins with nothing in
its cache, as if each had a process of its own. The command fails where a pass transfers more than 1.1 times the
capture, or all together more than 2.2 times.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import cdcwb_synth as synth
from benchmarks.captures import CACHE
from cdcwb.formats import FORMATS, source
from cdcwb.formats.dissector import EVERYTHING
from cdcwb.formats.files import list_files
from cdcwb.opening import check_capture
from tests.s3_server import ENVIRONMENT, Server, serving, upload

PER_PASS, IN_ALL = 1.1, 2.2
_SAMPLE = 2_000


def capture_of(name: str, size: int) -> Path:
    """A default capture of about so many bytes."""
    folder = CACHE / f"remote-{name}-{size}"
    if not (folder / "synth.json").exists():
        with tempfile.TemporaryDirectory() as beside:
            some = bytes_of(synth.generate(name, changes=_SAMPLE, seed=1, to=Path(beside) / "some") / "capture")
        synth.generate(name, changes=_SAMPLE * size // some, seed=1, to=folder, overwrite=True)
    return folder / "capture"


def bytes_of(folder: Path) -> int:
    """The bytes of the files of a folder."""
    return sum(Path(file).stat().st_size for file in list_files(folder))


class Passes(NamedTuple):
    """Bytes that are transferred by each pass over a capture, the number of its splits, and seconds."""

    detection: int
    first_pass: int
    reading: int
    splits: int
    seconds: float


def measure(server: Server, name: str, folder: Path, split: int) -> Passes:
    """Reads the capture in a folder from an S3 server; ``name``: of the bucket."""
    upload(server, name, folder)
    sent, began = [server.sent()], time.monotonic()

    def run(function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        results = []
        for task in tasks:
            source._open.clear()
            results.append(function(task))
        return results

    reading = check_capture(f"s3://{name}", options={"split_size": split}).reading
    assert reading is not None
    sent.append(server.sent())
    plan = reading.format.plan(reading.files, reading.options, run)
    sent.append(server.sent())
    run(lambda at: [0 for _ in reading.format.read(plan, at, EVERYTHING)], range(len(plan.splits)))
    sent.append(server.sent())
    transferred = [after - before for before, after in pairwise(sent)]
    return Passes(*transferred, len(plan.splits), time.monotonic() - began)


def main() -> int:
    """Prints the table; 1 where more is transferred than may be."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.remote", description=__doc__)
    parser.add_argument("--size", type=int, default=200, metavar="MB", help="of each capture (default: 200)")
    parser.add_argument("--split", type=int, default=64, metavar="MB", help="of each split (default: 64)")
    parser.add_argument("formats", nargs="*", metavar="FORMAT", help="default: all")
    given = parser.parse_args()
    worst = False
    print("| format | MB | splits | detection | first pass | reading | in all | seconds |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in given.formats or FORMATS:
        folder = capture_of(name, given.size * 1_000_000)
        size = bytes_of(folder)
        with tempfile.TemporaryDirectory() as beside:
            log = Path(beside, "requests")
            log.touch()
            with serving(log) as server:
                os.environ.update(ENVIRONMENT | {"AWS_ENDPOINT_URL": server.url})
                passes = measure(server, name, folder, given.split << 20)
        shares = [transferred / size for transferred in passes[:3]]
        worst |= max(shares) > PER_PASS or sum(shares) > IN_ALL
        cells = " | ".join(f"{share:.3f}" for share in [*shares, sum(shares)])
        print(f"| {name} | {size / 1e6:.1f} | {passes.splits} | {cells} | {passes.seconds:.1f} |", flush=True)
    return int(worst)


if __name__ == "__main__":
    sys.exit(main())
