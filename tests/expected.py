"""What has to be counted in the captures of ``data/``: the numbers of ``expected.json`` and of a capture."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from cdcwb.local_tables import LocalTables
from tests.made import DATA

__all__ = ["counted", "expected"]


def expected(name: str) -> dict[str, Any]:
    """The numbers of a capture in ``expected.json``."""
    numbers: dict[str, Any] = json.loads((DATA / "expected.json").read_text(encoding="utf-8"))[name]
    return numbers


def counted(capture: LocalTables) -> dict[str, Any]:
    """The same numbers, counted in the tables of a capture."""
    events, changes, transactions, versions = (
        capture.table(name).to_pylist() for name in ("events", "changes", "transactions", "table_versions")
    )
    malformed = [row for row in events if row["kind"] == "malformed" and row["offset_unit"] == "byte"]
    return {
        "bytes": sum(file["size"] for file in capture.files),
        "malformed_bytes": sum(row["length"] for row in malformed),
        "tables": len({(row["schema_name"], row["table_name"]) for row in versions}),
        "table_versions": len(versions),
        "changes": len(changes),
        "changes_by_operation": _by(changes, "operation"),
        "changes_by_outcome": _by(changes, "outcome"),
        "transactions": len(transactions),
        "transactions_by_outcome": _by(transactions, "outcome"),
        "transactions_by_completeness": _by(transactions, "completeness"),
    }


def _by(rows: list[dict[str, Any]], column: str) -> dict[str, int]:
    return dict(Counter(row[column] for row in rows if row[column] is not None))
