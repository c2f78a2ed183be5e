"""``cdcwb history`` and the parameters of ``cdcwb report``, without Spark: what is printed, and what is handed on."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import cdcwb.report
from cdcwb.analysis.history import difference_text, key_text, parse_key, value_text
from cdcwb.cli import main
from cdcwb.cli.read import _print, json_line

HOSTILE = "\x1b[31mred\u202e\n<b>"
CHANGE: dict[str, Any] = {
    "table": "shop.orders",
    "operation": "UPDATE",
    "outcome": "undone",
    "position": "0000000B03FE05C0",
    "commit_position": None,
    "transaction_id": "28@0000000B03FE0000",
    "user": HOSTILE,
    "change_mask": "1F80",
    "column_mask": None,
    "table_version": "102@1",
    "changed_at": datetime(2025, 3, 23, 8, 0, 4, 5, tzinfo=UTC),
    "committed_at": None,
    "at": datetime(2025, 3, 23, 8, 0, 4, 5, tzinfo=UTC),
    "taken_back": True,
    "differences": [
        {"column": "state", "old": "NEW", "new": "PAID", "old_known": True, "told": "NEW -> PAID"},
        {"column": HOSTILE, "old": None, "new": HOSTILE, "old_known": False, "told": f"not captured -> {HOSTILE}"},
    ],
    "places": [{"file": "stream-1.bin", "offset": 3927, "length": 74}],
}


def test_a_change_is_printed_with_everything_that_is_known_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    _print("orders", {"order_id": "7"}, [CHANGE])
    text = capsys.readouterr().out
    for part in (
        "shop.orders, order_id=7: 1 change",
        "UPDATE, 2025-03-23 08:00:04.000005 UTC, undone by a rollback to a savepoint",
        "28@0000000B03FE0000",
        "0000000B03FE05C0",
        "102@1",
        "1F80",
        "stream-1.bin, offset 3927, length 74",
        "NEW -> PAID",
        "not captured -> ",
    ):
        assert part in text


def test_captured_text_cannot_move_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    _print(HOSTILE, {HOSTILE: HOSTILE}, [CHANGE])
    _print(HOSTILE, {HOSTILE: HOSTILE}, [])
    for text in (capsys.readouterr().out, json_line(CHANGE)):
        assert "\x1b" not in text
        assert "\u202e" not in text


def test_a_change_is_one_line_of_json_that_holds_it_whole() -> None:
    line = json_line(CHANGE)
    assert "\n" not in line
    found = json.loads(line)
    assert found["user"] == found["differences"][1]["new"] == HOSTILE
    assert found["changed_at"] == "2025-03-23T08:00:04.000005Z"
    assert found["differences"][1] == {"column": HOSTILE, "old": None, "new": HOSTILE, "old_known": False}
    assert found["places"] == CHANGE["places"]
    assert json.loads(json_line(CHANGE | {"user": "a ,  \n b"}))["user"] == "a ,  \n b"


def test_null_and_what_is_not_captured_are_not_taken_for_text() -> None:
    assert [value_text(value) for value in (None, "NULL", "", " x", "x", "not captured")] == [
        "NULL",
        "'NULL'",
        "''",
        "' x'",
        "x",
        "'not captured'",
    ]
    unknown = {"old": None, "new": "b", "old_known": False}
    assert difference_text("UPDATE", unknown) == "not captured -> b"
    assert difference_text("UPDATE", unknown | {"old_known": True}) == "NULL -> b"
    assert difference_text("INSERT", unknown) == "b"
    assert difference_text("DELETE", {"old": "a", "new": None, "old_known": True}) == "a"
    assert key_text({"id": "42", "other": None}) == "id=42, other=NULL"


def test_a_key_is_read_from_json_and_from_pairs() -> None:
    assert parse_key('{"id": 42, "at": 1.50, "is": true, "no": null}') == {
        "id": "42",
        "at": "1.50",
        "is": "true",
        "no": None,
    }
    assert parse_key("id=42, other=x=y") == {"id": "42", "other": "x=y"}
    for wrong in ("id", "=4", "{", "id=1,,", "id=1,id=2"):
        with pytest.raises(ValueError, match="key: expected"):
            parse_key(wrong)


@pytest.mark.parametrize("missing", ["--table", "--key"])
def test_a_row_needs_a_table_and_a_key(capsys: pytest.CaptureFixture[str], missing: str) -> None:
    given = {"--table": "shop.orders", "--key": "id=1"}
    arguments = [part for name, value in given.items() if name != missing for part in (name, value)]
    assert main(["history", "data/gbase8s", *arguments]) == 2
    assert missing in capsys.readouterr().err


def test_a_column_of_the_key_has_one_value(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "nowhere", "--table", "t", "--key", "id=1", "--key", "id=2"]) == 2
    assert "key: a column is named twice" in capsys.readouterr().err


def test_a_target_that_is_no_jsonl_is_refused_before_anything_is_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ["history", "nowhere", "--table", "t", "--key", "id=1", "--to", str(tmp_path / "life.csv")]
    assert main(arguments) == 2
    assert ".jsonl" in capsys.readouterr().err


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The parameters that a report is asked for."""
    asked: dict[str, Any] = {}

    def run_report(*arguments: Any, **_: Any) -> dict[str, Any]:
        asked.update(arguments[5])
        return {"verdict": "All is well.", "healthy": True}

    monkeypatch.setattr(cdcwb.report, "run_report", run_report)
    return asked


def test_the_capture_to_compare_with_and_parameters_of_its_own_reach_the_notebook(
    handed: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["report", "replay_and_reconcile", "here", "--to", "x.html", "--with", "there"]
    arguments += [
        "-p",
        "table",
        "42",
        "-p",
        "rules",
        '{"late_after": 3}',
        "-p",
        "tables",
        '["a"]',
        "--parameter",
        "key",
        "id=7",
    ]
    assert main(arguments) == 0
    assert handed == {
        "target": str(tmp_path / "there"),
        "table": "42",
        "rules": '{"late_after": 3}',
        "tables": ["a"],
        "key": "id=7",
    }


def test_a_parameter_that_another_argument_says_is_refused(
    handed: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "transactions", "here", "--to", "x.html", "-p", "path", "/there"]) == 2
    assert "the argument PATH" in capsys.readouterr().err
    assert handed == {}
