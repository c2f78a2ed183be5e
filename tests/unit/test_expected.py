"""Expected numbers beside actual ones: nothing is left out, and what differs is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cdcwb.analysis.expected import compare, read_expected, words
from cdcwb.analysis.summary_text import Tone
from cdcwb.errors import CaptureError
from cdcwb.report.lessons import Checked

DATA = Path(__file__).parents[2] / "data"


def test_counts_by_name_are_flat(tmp_path: Path) -> None:
    (tmp_path / "expected.json").write_text('{"a": {"changes": 3, "changes_by_operation": {"INSERT": 2, "DELETE": 1}}}')
    assert read_expected(tmp_path) == {
        "a": {"changes": 3, "changes_by_operation.INSERT": 2, "changes_by_operation.DELETE": 1}
    }


def test_without_a_file_nothing_is_expected(tmp_path: Path) -> None:
    assert read_expected(tmp_path) == {}


@pytest.mark.parametrize("text", ["[1]", "{", '{"a": 3}', '{"a": {"changes": "many"}}'])
def test_what_is_no_table_of_numbers_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "expected.json").write_text(text)
    with pytest.raises(CaptureError, match="no numbers by the names of captures"):
        read_expected(tmp_path)


def test_the_numbers_are_compared_both_ways_round() -> None:
    rows = compare({"changes": 3, "tables": 1}, {"changes": 3, "changes_by_operation.DDL": 1})
    assert [(row["quantity"], row["expected"], row["actual"], row["agrees"]) for row in rows] == [
        ("changes", 3, 3, True),
        ("tables", 1, 0, False),
        ("changes_by_operation.DDL", 0, 1, False),
    ]
    assert compare({}, {"changes": 3}) == []


def test_quantities_have_names_for_people() -> None:
    assert words("transactions_by_outcome.rolled_back") == "transactions: rolled back"
    assert words("malformed_bytes") == "bytes that are not a record"


def checked(actual: dict[str, int], missing: tuple[str, ...] = ()) -> Checked:
    return Checked({"gbase8s": compare({"changes": 3, "transactions": 1}, actual)}, list(missing), {})


def test_the_verdict_is_good_only_where_all_numbers_agree() -> None:
    good = checked({"changes": 3, "transactions": 1})
    assert (good.agrees, good.health.tone) == (True, Tone.GOOD)
    assert good.health.verdict == "All 2 expected numbers of 1 capture agree with what is counted."
    assert good.facts == [["gbase8s", "changes", 3, 3], ["gbase8s", "transactions", 1, 1]]
    bad = checked({"changes": 2, "transactions": 1})
    assert (bad.agrees, bad.health.tone) == (False, Tone.BAD)
    assert bad.health.verdict == "1 of 2 numbers disagree: gbase8s: changes: expected 3, found 2."


def test_what_is_not_there_is_said_and_is_no_disagreement() -> None:
    some = checked({"changes": 3, "transactions": 1}, missing=("goldengate", "qlik-kafka"))
    assert some.agrees
    assert some.health.verdict.endswith("Missing: goldengate and qlik-kafka.")
    none = Checked({"gbase8s": []}, [], {})
    assert not none.agrees
    assert none.health.verdict.startswith("Nothing to compare with: expected.json names no capture")


def test_a_capture_that_cannot_be_read_disagrees() -> None:
    broken = Checked({"gbase8s": compare({"changes": 3}, {})}, [], {"gbase8s": "the file is empty"})
    assert not broken.agrees
    assert "gbase8s cannot be read: the file is empty" in broken.health.verdict


def test_the_numbers_of_the_small_captures_are_those_of_their_readme() -> None:
    readme = (DATA / "README.md").read_text(encoding="utf-8")
    expected = json.loads((DATA / "expected.json").read_text(encoding="utf-8"))
    assert list(expected) == [
        "gbase8s",
        "qlik-kafka",
        "qlik-change-table",
        "goldengate",
        "idm-event-log",
        "debezium",
        "sqlserver-ct",
        "maxwell",
        "canal",
    ]
    stream, messages, rows, trail, log, events, tables, maxwell, canal = expected.values()
    assert maxwell["changes_by_operation"] == {"UPDATE": 32, "INSERT": 31, "DELETE": 8, "REFRESH": 6}
    assert "| rows | 31 inserts, 32 updates, 8 deletes, 6 rows of a bootstrap |" in readme
    assert maxwell["transactions_by_completeness"] == {"complete": 8, "unknown": 3, "gaps": 1}
    assert canal["changes_by_operation"] == {"INSERT": 26, "UPDATE": 25, "DELETE": 13}
    assert "| changes | 26 inserts, 25 updates, 13 deletes, in fewer messages" in readme
    assert (tables["changes"], tables["changes_by_operation"]["UPDATE"], tables["transactions"]) == (78, 29, 27)
    assert "29 pairs of 3 and 4 (UPDATE)" in readme
    assert stream["changes_by_operation"] == {"INSERT": 506, "UPDATE": 257, "DELETE": 136, "TRUNCATE": 1}
    assert "| changes | 900: 506 inserts, 257 updates, 136 deletes, 1 truncate |" in readme
    assert (stream["malformed_bytes"], stream["changes_by_outcome"]["undone"]) == (41, 38)
    assert stream["transactions_by_outcome"] == {"committed": 125, "rolled_back": 6, "open": 1}
    assert (messages["changes"], rows["changes"]) == (367, 362)
    assert messages["transactions_by_completeness"] == {"complete": 78, "gaps": 1, "no_begin": 1}
    assert (trail["changes"], trail["transactions_by_completeness"]["complete"]) == (150, 44)
    assert (log["changes"], log["transactions"]) == (302, 0)
    assert events["transactions_by_completeness"] == {"complete": 23, "gaps": 1, "no_end": 1}
