"""Streams that can be read in full and are not to be trusted: what is wrong with each is found, and nothing else."""

from __future__ import annotations

from pathlib import Path

import cdcwb
from cdcwb.analysis.continuity import continuity
from cdcwb.analysis.counters import counters
from cdcwb.analysis.summary import summarize

KEYS = ["public.t:id"]


def breaks_of(path: Path) -> list[tuple[str, str | None, str | None]]:
    """The kind of each break, and the operations of both records."""
    listed = continuity(cdcwb.load(path, keys=KEYS)).listed
    return [(row["kind"], row["operation"], row["earlier_operation"]) for row in listed]


def test_an_update_that_arrives_after_the_next_is_late_and_one_after_the_delete_revives(samples: Path) -> None:
    path = samples / "reduced" / "trust" / "late-and-revived.jsonl"
    assert breaks_of(path) == [("late", "UPDATE", "UPDATE"), ("revived", "UPDATE", "DELETE")]
    late, _ = continuity(cdcwb.load(path, keys=KEYS)).listed
    assert [int(late[name], 16) for name in ("position", "earlier_position")] == [110, 120]


def test_a_read_of_an_older_version_is_stale_and_a_missing_version_is_a_gap(samples: Path) -> None:
    path = samples / "reduced" / "trust" / "stale-snapshot-read.jsonl"
    assert breaks_of(path) == [("stale", "REFRESH", "UPDATE"), ("gap", "UPDATE", "UPDATE")]
    assert "in v" in continuity(cdcwb.load(path, keys=KEYS)).listed[1]["sentence"]


def test_a_transaction_that_begins_again_contradicts_its_counters_twice(samples: Path) -> None:
    path = samples / "reduced" / "trust" / "transaction-restarted.jsonl"
    begins, end = (row["sentence"] for row in counters(cdcwb.load(path)).listed)
    assert begins == "it begins 2 times; 2 numbers of its events came again with other records"
    assert end == "its end counts 2 events, 4 came"


def test_none_of_them_is_healthy(samples: Path) -> None:
    folder = samples / "reduced" / "trust"
    facts = {path.stem: summarize(cdcwb.load(path, keys=KEYS)) for path in sorted(folder.glob("*.jsonl"))}
    assert {name: fact["healthy"] for name, fact in facts.items()} == dict.fromkeys(facts, False)
    assert len(facts) == 3
