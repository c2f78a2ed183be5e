"""A capture is healthy only where its format fits: what a forced format cannot read is a problem, and so is text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.limits import run

DATA = Path(__file__).parents[2] / "data"
CHANGES = """header__change_seq;header__change_oper;header__change_mask;id;name
20260101000000000000000000000000001;I;03;1;Ann Bell
20260101000000000000000000000000002;U;02;1;Ann Carr
"""


def summary(*arguments: str | Path) -> dict[str, Any]:
    code, text = run(["summary", *map(str, arguments), "--json"])
    assert code == 0, text
    facts: dict[str, Any] = json.loads(text)
    return facts


def sentences(facts: dict[str, Any]) -> str:
    return "\n".join(place["sentence"] for one in facts["problems_by_code"] for place in one["places"])


def test_a_forced_format_that_does_not_fit_is_never_healthy() -> None:
    facts = summary(DATA / "gbase8s", "--format", "debezium")
    assert not facts["healthy"]
    assert facts["changes"] == 0
    assert facts["malformed_bytes"] == facts["bytes"]
    assert run(["summary", str(DATA / "gbase8s"), "--format", "debezium", "--strict"])[0] == 1
    _, text = run(["summary", str(DATA / "gbase8s"), "--format", "debezium"])
    assert "3 files that are mostly malformed" in text


@pytest.mark.parametrize("arguments", [(), ("--format", "qlik-change-table")])
def test_a_change_table_with_semicolons_has_its_columns(arguments: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "person__ct.csv").write_text(CHANGES, encoding="utf-8")
    facts = summary(tmp_path, *arguments)
    assert facts["changes_by_operation"] == {"INSERT": 1, "UPDATE": 1}
    assert facts["healthy"]
    (delimiter,) = [row for row in facts["detected"] if row["setting"] == "delimiter"]
    assert "a semicolon splits" in delimiter["evidence"]


def test_an_operation_that_no_column_tells_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "person__ct.csv").write_text(CHANGES.replace(";", ",").replace(",U,", ",Q,"), encoding="utf-8")
    facts = summary(tmp_path)
    assert facts["changes_by_operation"] == {"INSERT": 1, "UNKNOWN(Q)": 1}
    assert not facts["healthy"]
    assert "expected an operation" in sentences(facts)


@pytest.mark.parametrize("comment", ["# a heading", "-- two messages", "Processed a total of 2 messages", ""])
def test_among_messages_only_comments_and_prompts_are_no_problem(comment: str, tmp_path: Path) -> None:
    first, second = (DATA / "debezium" / "messages.txt").read_text(encoding="utf-8").splitlines()[:2]
    file = tmp_path / "messages.txt"
    file.write_text(f"{first}\n{comment}\n{second}\n", encoding="utf-8")
    assert summary(file)["healthy"]
    file.write_text(f"{first}\nThe payment was rejected by the bank\n{second}\n", encoding="utf-8")
    facts = summary(file)
    assert facts["changes"] == 2
    assert facts["events_by_kind"]["filler"] == 1
    assert not facts["healthy"]
    assert "found the text 'The payment was rejected by the bank'" in sentences(facts)


def test_prose_among_statements_of_sql_is_a_problem(tmp_path: Path) -> None:
    columns = "record_id, table_key, status, event_type, event_time, perpetrator, table_name, column_name, old_value"
    row = f"INSERT INTO log ({columns}, new_value) VALUES (1, 'id=1', 'N', 5, '2026-01-01', 'a', 'p', 'n', NULL, 'x');"
    (tmp_path / "log.sql").write_text(f"BEGIN\n{row}\nEND;\n/\nThe payment was rejected\n{row}\n", encoding="utf-8")
    facts = summary(tmp_path)
    assert facts["events_by_kind"]["malformed"] == 1
    assert "found 'The payment was rejected'" in sentences(facts)


@pytest.mark.spark
def test_the_summary_of_a_table_says_where_records_of_it_could_be(tmp_path: Path) -> None:
    stream = bytearray((DATA / "gbase8s" / "stream-1.bin").read_bytes())
    (tmp_path / "whole.bin").write_bytes(stream)
    stream[29_738:29_738] = b"\xff" * 40  # before a record
    (tmp_path / "damaged.bin").write_bytes(stream)
    errors = {name: summary(tmp_path / f"{name}.bin", "--table", "104") for name in ("whole", "damaged")}
    assert errors["damaged"]["unassigned_errors"] == errors["whole"]["unassigned_errors"] + 1
    assert not errors["damaged"]["healthy"]
    _, text = run(["summary", str(tmp_path / "damaged.bin"), "--table", "104"])
    assert "elsewhere that name no table, where records of these could be" in text
