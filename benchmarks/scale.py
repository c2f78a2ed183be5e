"""Does the cost grow with the capture? Reads ``changes`` of generated captures of 1, 4 and 16 times the size.

``python -m benchmarks.scale [--only FORMAT] [--sizes 1,4,16] [--changes N] [--check]`` generates the default capture of
every format in these sizes (``cdcwb synth``; kept in ``benchmarks/.cache``), reads each in a process of its
own on ``local[2]``, and prints for each: events, processor time per event of the JVM and of all Python processes, the
peak memory of every process, and the bytes that went through Spark's shuffle. A small capture is read three times
first, so that neither the start of Spark nor compilation counts. Results are also written to
``benchmarks/.cache/scale.json``; ``python -m scripts.scale_chart`` draws them. With ``--parquet`` the changes are
written to Parquet files, which are deleted again, and results are only printed; without it changes are only computed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.captures import CACHE
from benchmarks.copies import copied
from benchmarks.end_to_end import report, watched
from benchmarks.measure import processor_seconds_by_role
from cdcwb import machine
from cdcwb.formats import FORMATS

__all__ = ["CHANGES", "RESULTS", "generated", "growth", "measure", "per_event", "stages_of", "workers_of"]

RESULTS = CACHE / "scale.json"
"""Where the latest results of each format are."""

CHANGES: dict[str, int] = dict.fromkeys(FORMATS, 100_000) | {"gbase8s": 800_000}
"""Changes of the capture of size 1. 16 times as many are 20 million events of gbase8s."""

_WARM = 10_000  # changes of the capture that is read first
_WARM_SPLIT = 400_000  # bytes: it has several splits, so that the way through the shuffle is compiled too
_BROKEN = 4  # exit code where a size costs more
_MOST = 0.1  # what an event of a larger capture may cost more, as a share
_SEED = 20250323
_CORES = 2


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__.split("\n")[0])
    parser.add_argument("--only", choices=FORMATS, action="append", help="this format; may be repeated")
    parser.add_argument("--sizes", default="1,4,16", help="sizes, separated by commas (default: %(default)s)")
    parser.add_argument("--changes", type=int, help="changes of size 1 (default: 800,000 of gbase8s, else 100,000)")
    parser.add_argument("--rounds", type=int, default=1, help="times each capture is read; the median counts")
    parser.add_argument("--parquet", action="store_true", help="write the changes to Parquet files")
    parser.add_argument("--stages", action="store_true", help="print the stages of Spark as well")
    parser.add_argument(
        "--check", action="store_true", help="exit code 4 if an event of a larger capture costs over 10 %% more"
    )
    parser.add_argument("--measure", nargs=2, metavar=("CAPTURE", "WARM"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        report(_read(*given.measure, parquet=given.parquet))
        return 0
    try:
        sizes = sorted({int(size) for size in given.sizes.split(",")})
        if sizes[0] < 1:
            raise ValueError
    except ValueError:
        parser.error(f"--sizes are whole numbers from 1 on, separated by commas, not {given.sizes!r}")
    if given.rounds < 1 or (given.changes is not None and given.changes < 1):
        parser.error("--rounds and --changes are whole numbers from 1 on")
    print(f"{_CORES} of {machine.cores()} cores; {time.strftime('%Y-%m-%d')}\n")
    print(
        "| format | size | events | MB | seconds | µs per event | JVM | Python | to size 1 | busy | shuffled B/event "
        "| driver MiB | JVM MiB | workers MiB |\n" + "| --- " + "| ---: " * 13 + "|"
    )
    broken = False
    for name in given.only or FORMATS:
        found: dict[int, dict[str, Any]] = {}
        for size in sizes:
            one = found[size] = measure(name, size, given.changes or CHANGES[name], given.rounds, given.parquet)
            print(row_of(name, size, one, found[sizes[0]]), flush=True)
            if given.stages:
                print("\n".join(stages_of(one)), flush=True)
        broken |= growth(found) > _MOST
        if not given.parquet:
            results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
            results[name] = {str(size): one for size, one in found.items()}
            RESULTS.write_text(json.dumps(results, indent=1))
    return _BROKEN if given.check and broken else 0


def growth(found: Mapping[int, Mapping[str, Any]]) -> float:
    """How much more processor time an event costs than in the smallest capture, at most, as a share of it; 0 where
    events of larger captures cost less, because what each capture costs once is divided among more of them."""
    first = per_event(found[min(found)])
    return max(per_event(one) / first - 1 for one in found.values())


def measure(name: str, size: int, changes: int, rounds: int = 1, parquet: bool = False) -> dict[str, Any]:
    """Generates a capture if there is none yet, and reads it; returns events, bytes, seconds, processor seconds of the
    JVM and of Python, the stages of Spark, and with ``memory`` the peak of every process in bytes, by role. Of several
    rounds that with the median of processor seconds."""
    folder = generated(name, changes * size)
    warm = generated(name, _WARM)
    made = json.loads((folder / "synth.json").read_text())
    runs = sorted(
        (_measured(folder / "capture", warm / "capture", parquet) for _ in range(rounds)),
        key=lambda one: one["processor"]["JVM"] + one["processor"]["Python"],
    )
    run = runs[len(runs) // 2]
    if run["rows"] != made.get("captured_changes", made["changes"]):
        raise SystemExit(f"{folder}: {run['rows']} changes were read, {made['changes']} were generated")
    return run | {"events": made["records"], "bytes": made["file_bytes"], "files": len(made["files"])}


def generated(name: str, changes: int) -> Path:
    """The folder of a generated capture with its truth, made once. One of gbase8s of several times its size 1 consists
    of copies, and has no truth."""
    folder = CACHE / f"scale-{name}-{changes}"
    if not (folder / "synth.json").exists():
        copies, rest = divmod(changes, CHANGES[name])
        print(f"generating {folder.name}, once", file=sys.stderr, flush=True)
        if name == "gbase8s" and copies > 1 and not rest:
            copied(generated(name, CHANGES[name]), copies, folder)
            return folder
        given = ["--changes", str(changes), "--seed", str(_SEED)]
        command = [sys.executable, "-m", "cdcwb.cli", "synth", name, *given, "--to", str(folder)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder


def _measured(capture: Path, warm: Path, parquet: bool) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.scale", "--measure", str(capture), str(warm)]
    command += ["--parquet"] * parquet
    (result,), memory = watched(command, f"{capture}: the run")
    return {**result, "memory": memory}


def row_of(name: str, size: int, one: Mapping[str, Any], first: Mapping[str, Any]) -> str:
    """The row of a table in Markdown."""
    memory, processor, events = one["memory"], one["processor"], one["events"]
    workers = workers_of(one)[-_CORES:]
    run = sum(stage["run"] for stage in one["stages"])
    shuffled = sum(stage["shuffled"] for stage in one["stages"])
    cells = [
        name, str(size), f"{events:,}", f"{one['bytes'] / 1e6:,.0f}", f"{one['seconds']:.1f}",
        f"{per_event(one) * 1e6:.2f}", *(f"{processor[role] / events * 1e6:.2f}" for role in ("JVM", "Python")),
        f"{per_event(one) / per_event(first):.2f}", f"{run / one['seconds'] / _CORES:.0%}",
        f"{shuffled / events:.2f}",
        *(f"{memory.get(role, 0) >> 20:,}" for role in ("driver (Python)", "JVM")),
        ", ".join(f"{peak >> 20:,}" for peak in workers),
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def stages_of(one: Mapping[str, Any]) -> Iterator[str]:
    """The rows of a table of Spark's stages: tasks, their time, its share, and bytes written for a shuffle."""
    total = sum(stage["run"] for stage in one["stages"])
    yield "\n| stage | tasks | s of tasks | share | shuffled kB |\n| --- | ---: | ---: | ---: | ---: |"
    for stage in one["stages"]:
        share = stage["run"] / total if total else 0
        cells = [stage["name"], f"{stage['tasks']:,}", f"{stage['run']:.1f}", f"{share:.0%}"]
        yield f"| {' | '.join(cells)} | {stage['shuffled'] / 1000:,.1f} |"
    yield ""


def workers_of(one: Mapping[str, Any]) -> list[int]:
    """The peak memory of each Python worker in bytes, the largest last."""
    return sorted(peak for role, peak in one["memory"].items() if role.startswith("Python worker"))


def per_event(one: Mapping[str, Any]) -> float:
    """Seconds of all processors per event."""
    return float(sum(one["processor"].values()) / one["events"])


# --- in the process that is watched -----------------------------------------------------------------------------------


def _read(folder: str, warm: str, parquet: bool) -> dict[str, Any]:
    import cdcwb
    from cdcwb.spark.session import get_spark

    def write(capture: cdcwb.Capture) -> None:
        into = capture.changes.write.mode("overwrite")
        if parquet:
            into.parquet(target)
        else:
            into.format("noop").save()

    target = tempfile.mkdtemp(prefix="scale-", dir=CACHE)
    spark = get_spark("cdcwb-scale")
    for _ in range(3):
        write(cdcwb.load(warm, spark=spark, split_size=_WARM_SPLIT))
    seen = len(_stages(spark))
    before, began = processor_seconds_by_role(), time.monotonic()
    capture = cdcwb.load(folder, spark=spark)
    planned = time.monotonic()
    write(capture)
    ended, after = time.monotonic(), processor_seconds_by_role()
    stages = _stages(spark)[seen:]
    shutil.rmtree(target)
    plan = getattr(capture._tables, "text", "")
    return {
        "rows": capture.changes.count(),
        "seconds": ended - began,
        "load": planned - began,
        "processor": {role: after[role] - before[role] for role in after},
        "stages": stages,
        "plan": len(plan),
    }


def _stages(spark: Any) -> Sequence[dict[str, Any]]:
    """The stages of Spark that have run, in order: name, tasks, seconds of their tasks, bytes written for a shuffle."""
    jvm, gateway = spark._jvm, spark.sparkContext._gateway
    empty = gateway.new_array(jvm.double, 0)
    store = spark.sparkContext._jsc.sc().statusStore()
    listed = store.stageList(jvm.java.util.ArrayList(), False, False, empty, jvm.java.util.ArrayList())
    found = [listed.apply(at) for at in range(listed.size())]
    return [
        {
            "id": stage.stageId(),
            "name": f"{stage.stageId()}: {stage.name().split(' at ')[0]}",
            "tasks": stage.numCompleteTasks(),
            "run": stage.executorRunTime() / 1000,
            "shuffled": stage.shuffleWriteBytes(),
        }
        for stage in sorted(found, key=lambda one: (one.stageId(), one.attemptId()))
        if stage.numCompleteTasks()
    ]


if __name__ == "__main__":
    sys.exit(main())
