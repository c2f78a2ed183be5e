"""Redaction of a capture that Spark saves and reads."""

from __future__ import annotations

from pathlib import Path

import pytest

import cdcwb
from cdcwb.report.redact import save_captures

pytestmark = pytest.mark.usefixtures("spark")

DATA = Path(__file__).parents[2] / "data" / "gbase8s"


def test_a_capture_that_spark_saved_is_redacted_and_spark_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {row["full_name"] for row in _customers(cdcwb.load(DATA))}
    monkeypatch.setenv("CDCWB_LOCAL_LIMIT", "0")
    (saved,) = save_captures([(str(DATA), "auto", {})], ["customer.full_name"], str(tmp_path), str(tmp_path))
    rows = _customers(cdcwb.load(saved))
    assert len(rows) > 100
    assert all(row["city"] is None or not row["city"].startswith("[redacted]") for row in rows)
    names = {row["full_name"] for row in rows}
    assert all(name is None or name.startswith("[redacted] ") for name in names)
    assert len(names) == len(known)


def _customers(capture: cdcwb.Capture) -> list[dict[str, str | None]]:
    changes = capture.changes.filter("table_name = 'customer'").select("after").collect()
    return [row["after"] for row in changes if row["after"] is not None]
