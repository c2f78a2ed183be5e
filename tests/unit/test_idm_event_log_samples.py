"""The rows that the vendor's documentation prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcwb.errors import UnknownFormatError
from cdcwb.formats import identify, inspect
from tests.local import ledger, plan_of, read

pytestmark = pytest.mark.samples

FORMAT = "idm-event-log"


def test_the_rows_of_the_documentation(samples: Path) -> None:
    path = samples / "idm" / "doc-eventlog-rows.csv"
    found = identify(path)
    assert (found.format, found.shape, found.confidence > 0.95) == (FORMAT, "csv", True)
    table = read(path, format=FORMAT)
    assert ledger(table) == {str(path): path.stat().st_size}
    rows = [row for row in table.to_pylist() if row["kind"] == "change"]
    assert [int(row["position"]) for row in rows] == list(range(1, 12))
    assert [row["operation"] for row in rows] == [*["INSERT"] * 3, *["UPDATE"] * 6, "DELETE", "INSERT"]
    assert [row["record_type"] for row in rows] == list("11122233345")
    assert {tuple(row["key"]) for row in rows} == {(("idu", "1"),)}
    assert [row["changed_columns"] for row in rows] == [*[["fname"], ["lname"], ["photo"]] * 3, None, None]
    assert [row["before"] for row in rows[:4]] == [None, None, None, [("fname", "Jack")]]
    assert [row["after"] for row in rows[5:7]] == [[("photo", "u7s=")], [("fname", "John")]]
    assert rows[9]["before"] == [("idu", "1")]
    assert all(row["problems"] is None for row in rows)


def test_what_was_filled_in_is_said(samples: Path) -> None:
    plan = plan_of(samples / "idm" / "doc-eventlog-rows.csv", FORMAT)
    said = [(row["setting"], row["value"]) for row in plan.detected]
    assert ("columns", "record_id is the number of the row") in said
    assert ("columns", "status is N") in said
    assert ("null_text", "'NULL' and empty, without quotes") in said
    assert plan.facts["records"] == 11


def test_a_row_of_the_documentation_is_taken_apart(samples: Path) -> None:
    seen = inspect(samples / "idm" / "doc-eventlog-rows.csv", 340)
    assert seen.record == b"5,usr,idu=1,NULL,NULL,NULL\n"
    assert seen.event["position"] == "0000000000000000011"
    named = {child.name: child.value for child in seen.field.children if not child.quiet}
    assert named["table_key"] == "idu=1"
    assert named["old_value"] is None


def test_documents_and_notes_are_no_logs(samples: Path) -> None:
    for path in sorted((samples / "idm").iterdir()):
        if path.name == "doc-eventlog-rows.csv":
            continue
        try:
            assert identify(path).format != FORMAT, path.name
        except UnknownFormatError:
            continue
