"""What the tables of a capture cost on ``local[2]``: processor seconds of the JVM and of Python together, ``load``
included, on the captures that ``cdcwb synth`` makes by default.

It runs in a process of its own. Each table is read once before anything is counted, then all in turn.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import cdcwb_synth as synth
from benchmarks.captures import CACHE
from benchmarks.end_to_end import report, watched
from benchmarks.measure import processor_seconds

__all__ = ["CHANGES", "FORMATS", "PROMISES", "TABLES", "measure"]

CHANGES = 200_000
FORMATS = ("gbase8s", "qlik-kafka", "qlik-change-table", "goldengate", "idm-event-log")
TABLES = ("events", "changes", "transactions", "problems")
PROMISES = {
    **{(format, "changes"): 2.0 if format in ("qlik-kafka", "idm-event-log") else 1.5 for format in FORMATS},
    **{(format, "transactions"): 0.8 for format in FORMATS},
    **{(format, "problems"): 1.5 for format in FORMATS},
}
"""How many times what ``events`` cost a table of a format costs at most."""

_SEED = 20250323


def measure(format: str, changes: int, rounds: int) -> dict[str, list[float]]:
    """Processor seconds of each table in each round."""
    folder = CACHE / f"default-{format}-{changes}"
    if not (folder / "synth.json").exists():
        print(f"generating {folder.name}, once", file=sys.stderr, flush=True)
        synth.generate(format, changes=changes, seed=_SEED, to=folder, overwrite=True)
    task = {"format": format, "path": str(folder / "capture"), "rounds": rounds}
    command = [sys.executable, "-m", "benchmarks.tables", json.dumps(task)]
    (taken,), _ = watched(command, f"the run on the tables of {format}")
    return dict(taken)


def _run(task: dict[str, Any]) -> dict[str, list[float]]:
    import cdcwb

    cdcwb.load(task["path"], task["format"])  # starts Spark
    taken: dict[str, list[float]] = {name: [] for name in TABLES}
    for round_ in range(-1, task["rounds"]):  # the first warms up: the JVM compiles, workers start
        for name in TABLES:
            before = processor_seconds()
            getattr(cdcwb.load(task["path"], task["format"]), name).write.format("noop").mode("overwrite").save()
            if round_ >= 0:
                taken[name].append(processor_seconds() - before)
    return taken


if __name__ == "__main__":
    report(_run(json.loads(sys.argv[1])))
