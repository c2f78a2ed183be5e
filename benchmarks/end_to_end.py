"""The whole way on ``local[2]``: files -> ``cdcwb.load`` -> ``events`` -> Parquet, with the memory of every process.

It runs in a process of its own, so that its memory is that of a user's program; the processes below it are watched from
outside, by the peak of their resident memory that Linux keeps (``VmHWM``).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.captures import CACHE
from benchmarks.measure import below

__all__ = ["MASTER", "EndToEnd", "Watch", "measure", "report", "watched"]

MASTER = "local[2]"
_MARK = "measured: "
_EVERY = 0.1  # seconds


@dataclass(frozen=True, slots=True)
class EndToEnd:
    """Seconds of each round for half of the capture and for all of it, of which ``planning`` the first pass takes; and
    the peak memory in bytes of each process."""

    half: list[float]
    whole: list[float]
    planning: list[float]
    start: float
    parquet_bytes: int
    memory: dict[str, int]


def measure(half: list[str], whole: list[str], events: dict[str, int], rounds: int) -> EndToEnd:
    """Writes both captures as Parquet, in turn. ``events``: how many rows each must have."""
    task = {"half": half, "whole": whole, "events": events, "rounds": rounds}
    command = [sys.executable, "-m", "benchmarks.end_to_end", json.dumps(task)]
    (result,), memory = watched(command, f"the run on {MASTER}")
    return EndToEnd(**result, memory=memory)


def watched(command: list[str], name: str) -> tuple[list[Any], dict[str, int]]:
    """Runs a command on two cores of Spark; returns what it reports (:func:`report`), and :meth:`Watch.peaks`. Raises
    SystemExit where it fails or reports nothing; ``name``: of the run."""
    environ = {**os.environ, "MASTER": MASTER}
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as child:
        watch = Watch(child.pid)
        watch.start()
        output, _ = child.communicate()
        watch.stop()
    results = [json.loads(line.removeprefix(_MARK)) for line in output.splitlines() if line.startswith(_MARK)]
    if child.returncode or not results:
        raise SystemExit(f"{name} failed with exit code {child.returncode}")
    return results, watch.peaks()


def report(result: Any) -> None:
    """Prints a result for the process that runs this one (:func:`watched`)."""
    print(_MARK + json.dumps(result), flush=True)


# --- memory -----------------------------------------------------------------------------------------------------------


class Watch(threading.Thread):
    """Looks at a process and all below it, ten times a second, until it is stopped."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self._root = root
        self._peak: dict[int, tuple[str, int]] = {}
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(_EVERY):
            for process in below(self._root):
                seen = _role_and_peak(process, self._root)
                if seen is not None:
                    self._peak[process] = max(seen, self._peak.get(process, seen), key=lambda one: one[1])

    def stop(self) -> None:
        self._done.set()
        self.join()

    def peaks(self) -> dict[str, int]:
        """Role -> peak; workers are numbered in the order in which they were started."""
        out: dict[str, int] = {}
        for _, (role, peak) in sorted(self._peak.items()):
            if role == "Python worker":
                role += f" {sum(name.startswith(role) for name in out) + 1}"
            out[role] = max(peak, out.get(role, 0))  # a JVM that prepares the start of the other is gone at once
        return out


def _role_and_peak(process: int, root: int) -> tuple[str, int] | None:
    folder = Path(f"/proc/{process}")
    try:
        lines = (folder / "status").read_text().splitlines()
        command = (folder / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    status = dict(line.split(":", 1) for line in lines)
    if "VmHWM" not in status:  # a zombie
        return None
    if process == root:
        role = "driver (Python)"
    elif command[0].endswith(b"java"):
        role = "JVM"
    elif b"python" in command[0]:
        role = "Python worker"
    else:
        return None
    return role, int(status["VmHWM"].split()[0]) * 1024


# --- in the process that is watched -----------------------------------------------------------------------------------


def _run(task: dict[str, Any]) -> dict[str, Any]:
    import pyarrow.dataset

    begin = time.perf_counter()
    from cdcwb.spark.session import get_spark

    get_spark("cdcwb-bench")
    result: dict[str, Any] = {"start": time.perf_counter() - begin, "half": [], "whole": [], "planning": []}
    target = CACHE / "end-to-end"
    for round_ in range(-1, task["rounds"]):  # the first warms up: the JVM compiles, workers start
        for name in ("half", "whole"):
            if round_ < 0 and name == "whole":
                continue
            shutil.rmtree(target, ignore_errors=True)
            seconds, planning = _write(task[name], target)
            if round_ >= 0:
                result[name].append(seconds)
                if name == "whole":
                    result["planning"].append(planning)
            rows = pyarrow.dataset.dataset(target, format="parquet").count_rows()
            if rows != task["events"][name]:
                raise SystemExit(f"{rows} rows were written, {task['events'][name]} are in the capture")
    result["parquet_bytes"] = sum(path.stat().st_size for path in target.rglob("*.parquet"))
    shutil.rmtree(target)
    return result


def _write(files: list[str], target: Path) -> tuple[float, float]:
    """Seconds for all of it, and for the first pass alone."""
    import cdcwb

    begin = time.perf_counter()
    capture = cdcwb.load(files)
    planned = time.perf_counter()
    capture.events.write.parquet(str(target))
    end = time.perf_counter()
    return end - begin, planned - begin


if __name__ == "__main__":
    report(_run(json.loads(sys.argv[1])))
