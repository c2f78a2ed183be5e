"""Whether a capture is healthy, in two sentences."""

from __future__ import annotations

from typing import Any

import pytest

from cdcwb.analysis.summary_text import Tone, health

HEALTHY: dict[str, Any] = {
    "format": "gbase8s",
    "files": [{"file": "a", "unit": "byte"}, {"file": "b", "unit": "byte"}],
    "bytes": 12_400_000,
    "ledger": "closes",
    "unit": "byte",
    "rows": 0,
    "malformed_bytes": 0,
    "malformed_rows": 0,
    "events": 12_468,
    "changes": 10_000,
    "changes_by_operation": {"INSERT": 10_000},
    "tables": [{"table": "orders"}],
    "transactions": 1234,
    "transactions_by_completeness": {"complete": 1234},
    "open_transactions": 0,
    "incomplete_transactions": 0,
    "first_time": "2025-03-23T10:57:19.000000Z",
    "last_time": "2025-03-23T11:02:07.500000Z",
    "problems": 0,
    "problems_by_severity": {},
    "problems_by_code": [],
    "healthy": True,
}


def test_what_the_capture_is_takes_one_sentence() -> None:
    assert health(HEALTHY).what == (
        "A gbase8s capture of 2 files (12.4 MB) with 10,000 changes to 1 table in 1,234 transactions, "
        "from 2025-03-23 10:57:19 to 2025-03-23 11:02:07 UTC."
    )
    loaded = {"changes_by_operation": {"INSERT": 9_960, "REFRESH": 40}, "first_time": None}
    assert health(HEALTHY | loaded).what == (
        "A gbase8s capture of 2 files (12.4 MB) with 9,960 changes to 1 table in 1,234 transactions "
        "and 40 rows of a full load."
    )
    table = health(HEALTHY | {"files": [], "bytes": 0, "unit": "row"})
    assert table.what.startswith("A gbase8s capture of 12,468 rows with 10,000 changes")
    nothing = {
        "changes": 0,
        "changes_by_operation": {},
        "tables": [],
        "transactions": 0,
        "first_time": None,
        "last_time": None,
    }
    assert health(HEALTHY | nothing).what == (
        "A gbase8s capture of 2 files (12.4 MB) with no changes in no transactions."
    )


@pytest.mark.parametrize(
    ("facts", "tone"),
    [
        ({}, Tone.GOOD),
        ({"problems": 3, "problems_by_severity": {"info": 3}}, Tone.GOOD),
        ({"healthy": False, "problems": 1, "problems_by_severity": {"warning": 1}}, Tone.WARNING),
        ({"healthy": False, "problems": 1, "problems_by_severity": {"error": 1}}, Tone.BAD),
        ({"healthy": False, "malformed_bytes": 1}, Tone.BAD),
        ({"healthy": False, "malformed_rows": 1}, Tone.BAD),
        ({"healthy": False, "incomplete_transactions": 1}, Tone.WARNING),
        ({"healthy": False, "ledger": "open: a has 3 bytes in no event"}, Tone.BAD),
        ({"ledger": None}, Tone.GOOD),  # a part of a capture was looked at
    ],
)
def test_the_tone_is_that_of_the_worst(facts: dict[str, Any], tone: Tone) -> None:
    found = health(HEALTHY | facts)
    assert found.tone == tone
    assert found.verdict.startswith("Healthy" if tone is Tone.GOOD else "Issues found")
