"""Captures for the explorer, saved as ``Capture.save`` does, but by the formats alone: nothing here starts Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cdcwb import model
from cdcwb.explore.model import Explorer
from cdcwb.formats import choose, list_files
from cdcwb.formats.dissector import EVERYTHING
from cdcwb.model import Problem
from cdcwb.saved import SAVED

__all__ = ["DATA", "explorer_of", "saved"]

DATA = Path(__file__).parents[1] / "data"


def saved(path: Path, to: Path, parts: int = 1, **options: Any) -> Path:
    """The capture at ``path`` as a folder that ``cdcwb.load`` would open; its events stand in ``parts`` files."""
    files = list_files(path)
    fmt, _ = choose(files, "auto", options)
    plan = fmt.plan(files, options, _here)
    batches = [batch for split in range(len(plan.splits)) for batch in fmt.read(plan, split, EVERYTHING)]
    events = pa.Table.from_batches(batches, schema=model.EVENTS)
    rows = [*_problems(events.select(["file", "offset", "length", "problems"]).to_pylist()), *fmt.problems(plan)]
    versions = [{**dict.fromkeys(model.TABLE_VERSIONS.names), **one} for one in fmt.table_versions(plan).to_pylist()]
    tables = {
        "problems": pa.Table.from_pylist(rows, model.PROBLEMS),
        "table_versions": pa.Table.from_pylist(versions, model.TABLE_VERSIONS),
        "detected": pa.Table.from_pylist(plan.detected, model.DETECTED),
    }
    for name, table in tables.items():
        (to / name).mkdir(parents=True)
        pq.write_table(table, to / name / "part-00000.parquet")
    (to / "events").mkdir()
    size = -(-len(events) // parts)
    for number in range(parts):
        # the last part comes first: Spark does not say in which order it reads files
        piece = events.slice((parts - 1 - number) * size, size)
        pq.write_table(piece, to / "events" / f"part-{number:05}.parquet", row_group_size=200)
    facts = {"version": 1, "format": fmt.name, "files": fmt.files(plan), "facts": {}}
    (to / SAVED).write_text(json.dumps(facts), encoding="utf-8")
    return to


def explorer_of(name: str, to: Path, **options: Any) -> Explorer:
    """The explorer of a saved copy of a capture in ``data/``."""
    return Explorer.open(saved(DATA / name, to / "saved", **options))


def _here(work: Callable[[Any], Any], tasks: Iterable[Any]) -> list[Any]:
    return [work(task) for task in tasks]


def _problems(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "severity": str(Problem(one["code"]).severity),
            "code": one["code"],
            "sentence": one["detail"],
            "file": event["file"],
            "offset": event["offset"],
            "length": event["length"],
        }
        for event in events
        for one in event["problems"] or ()
    ]
