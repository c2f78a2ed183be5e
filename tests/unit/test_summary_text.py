"""The summary that people read: one true sentence, then the numbers, and nothing in it that a terminal would obey."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import cdcwb
from cdcwb.analysis.summary import summarize
from cdcwb.analysis.summary_text import summary_lines, verdict


def facts(**changed: Any) -> dict[str, Any]:
    """What is known of a healthy capture of two transactions, apart from what is ``changed``."""
    healthy = {
        "format": "gbase8s",
        "committed_only": False,
        "files": [file(0, "a.bin", 1_200)],
        "unit": "byte",
        "bytes": 1_200,
        "rows": 0,
        "ledger": "closes",
        "record_bytes": 1_100,
        "filler_bytes": 100,
        "malformed_bytes": 0,
        "malformed_rows": 0,
        "events": 6,
        "events_by_kind": {"begin": 2, "change": 2, "commit": 2},
        "events_by_record_type": {"CDC_REC_INSERT": 2},
        "changes": 2,
        "changes_by_operation": {"INSERT": 2},
        "changes_by_outcome": {"committed": 2},
        "transactions": 2,
        "transactions_by_outcome": {"committed": 2},
        "transactions_by_completeness": {"complete": 2},
        "open_transactions": 0,
        "incomplete_transactions": 0,
        "first_time": "2025-03-23T10:57:19.000000Z",
        "last_time": "2025-03-23T10:57:20.500000Z",
        "first_position": "0A",
        "last_position": "0F",
        "restart_position": "0F",
        "highest_commit": None,
        "changed_at": None,
        "tables": [{"table": "111", "versions": 1, "changes": 2, "changes_by_operation": {"INSERT": 2}}],
        "table_versions": 1,
        "problems": 0,
        "problems_by_severity": {},
        "problems_by_code": [],
        "detected": [],
        "healthy": True,
    }
    return {**healthy, **changed}


def file(
    index: int, name: str, size: int, ledger: str | None = "closes", rows: int | None = None, events: int = 6
) -> dict[str, Any]:
    return {
        "file": name,
        "file_index": index,
        "size": size,
        "shape": "hex",
        "compression": "gzip",
        "unit": "byte" if rows is None else "row",
        "rows": rows,
        "events": events,
        "ledger": ledger,
    }


def code(severity: str, name: str, count: int, *places: dict[str, Any]) -> dict[str, Any]:
    return {"severity": severity, "code": name, "title": "a title", "count": count, "places": list(places)}


CONTINUITY: dict[str, Any] = {
    "tables": 14,
    "checked": 12,
    "compared": 9,
    "breaks": 0,
    "kinds": {},
    "unchecked": "",
    "contradictions": 0,
    "places": [],
    "checked_text": "continuity of 12 of 14 tables (2 have no key)",
}


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({}, "Healthy: 1 check passed: every byte; all 2 transactions are complete and there are no problems."),
        (
            {"transactions": 1, "transactions_by_completeness": {"complete": 1}},
            "Healthy: 1 check passed: every byte; the transaction is complete and there are no problems.",
        ),
        (
            {"transactions": 0, "transactions_by_completeness": {}, "problems": 3, "ledger": None},
            "Healthy: there is nothing worse than 3 remarks.",
        ),
        (
            {"transactions_by_completeness": {"complete": 1, "no_begin": 1}},
            "Healthy: 1 check passed: every byte; 1 of 2 transactions is complete and there are no problems.",
        ),
        (
            {"transactions_by_completeness": {"unknown": 2}},
            "byte; whether the 2 transactions are complete is not known and there are no problems.",
        ),
        (
            {"files": [file(0, "a.csv", 9), file(1, "a.parquet", 9, rows=6)]},
            "Healthy: 1 check passed: every byte and row; all 2 transactions are complete and there are no problems.",
        ),
        (
            {"counters": {"contradictions": 0, "transactions": 2, "places": []}, "continuity": CONTINUITY},
            (
                "Healthy: 3 checks passed: every byte, counters, continuity of 12 of 14 tables (2 have no key); "
                "all 2 transactions are complete and there are no problems."
            ),
        ),
        (
            {"continuity": CONTINUITY | {"checked": 0}},
            (
                "Healthy: 1 check passed: every byte, not continuity (no table has a key); "
                "all 2 transactions are complete and there are no problems."
            ),
        ),
        (
            {"positions": {"contradictions": 0, "records": 9, "places": []}, "continuity": CONTINUITY},
            (
                "Healthy: 3 checks passed: every byte, positions, continuity of 12 of 14 tables (2 have no key); "
                "all 2 transactions are complete and there are no problems."
            ),
        ),
        (
            {"healthy": False, "positions": {"contradictions": 2, "records": 9, "places": []}},
            "Issues found: 2 positions out of order.",
        ),
        (
            {
                "healthy": False,
                "counters": {"contradictions": 2, "transactions": 2, "places": []},
                "continuity": CONTINUITY | {"contradictions": 2, "breaks": 3, "kinds": {"gap": 2, "repeat": 1}},
            },
            "Issues found: 2 contradictions of counters and 3 breaks in the continuity of rows (gap 2, repeat 1).",
        ),
        (
            {"files": [], "unit": "row"},
            "Healthy: 1 check passed: every row; all 2 transactions are complete and there are no problems.",
        ),
        (
            {"healthy": False, "problems_by_severity": {"warning": 1, "error": 2, "info": 7}},
            "Issues found: 2 errors and 1 warning.",
        ),
        (
            {"healthy": False, "malformed_bytes": 1, "bytes": 1_000_000, "open_transactions": 1},
            "Issues found: 1 byte (under 0.1 %) that are not a record and 1 of 2 transactions open.",
        ),
        (
            {"healthy": False, "malformed_rows": 1, "rows": 4, "incomplete_transactions": 2},
            "Issues found: 1 row (25.0 %) that are not a record and 2 of 2 transactions incomplete.",
        ),
        ({"healthy": False, "ledger": "open: a.bin has 3 bytes in no event"}, "bytes unaccounted for."),
    ],
)
def test_one_sentence_says_whether_it_is_healthy_and_why_not(changed: dict[str, Any], sentence: str) -> None:
    assert verdict(facts(**changed)).endswith(sentence)


def test_files_that_are_mostly_malformed_are_what_is_wrong_first() -> None:
    whole, rest = file(0, "/in/a.bin", 1_200), file(2, "/in/c.parquet", 9, rows=4)
    dump = {**file(1, "/in/b\x1b.txt", 2_000), "malformed": 1_500}
    wrong = {"healthy": False, "malformed_bytes": 1_500, "bytes": 3_200}
    said = r"b\x1b.txt is mostly malformed (75.0 % of its bytes) and 1,500 bytes (46.9 %) that are not a record."
    assert verdict(facts(files=[{**whole, "malformed": 600}, dump], **wrong)) == f"Issues found: {said}"
    more = f"2 files that are mostly malformed, the first: {said}"
    assert verdict(facts(files=[whole, dump, {**rest, "malformed": 3}], **wrong)) == f"Issues found: {more}"
    assert "mostly" not in verdict(facts(files=[whole, {**rest, "malformed": 2}], **wrong))


def test_the_numbers_stand_below_the_sentence() -> None:
    sentence, blank, *lines = summary_lines(facts())
    assert sentence == verdict(facts())
    assert blank == ""
    assert lines[:11] == [
        "format            gbase8s",
        "files             1 (hex in gzip)",
        "bytes             1,200 (1.2 kB): records 1,100, filler 100, malformed 0",
        "accounted for     every byte",
        "events            6: begin 2, change 2, commit 2",
        "record types      CDC_REC_INSERT 2",
        "changes           2: INSERT 2; committed 2",
        "transactions      2: committed 2; complete 2",
        "time              2025-03-23 10:57:19 UTC to 2025-03-23 10:57:20.500000 UTC (1.5 s)",
        "positions         0A to 0F",
        "restart position  0F",
    ]
    assert lines[11:] == [
        "",
        "files",
        "  a.bin  1,200 bytes, 6 events, all accounted for",
        "",
        "tables (1)",
        "  111  1 version, 2 changes: INSERT 2",
    ]


def test_it_is_said_why_times_are_not_known() -> None:
    why = "null in 1 file: printed times have no zone"
    lines = summary_lines(facts(first_time=None, last_time=None, changed_at=why))
    assert f"changed_at        {why}" in lines
    assert not any(line.startswith("time ") for line in lines)


def test_files_that_are_counted_in_rows_have_no_ledger_of_bytes() -> None:
    files = [file(0, "a.parquet", 900, rows=6), file(1, "b.parquet", 300, rows=0, events=0)]
    lines = summary_lines(facts(files=files, unit="row", rows=6, record_bytes=0, filler_bytes=0))
    assert lines[4:7] == [
        "bytes             1,200 (1.2 kB)",
        "rows              6, as many events",
        "accounted for     every row",
    ]
    assert "  a.parquet  900 bytes, 6 rows, 6 events, all accounted for" in lines
    assert "  b.parquet  300 bytes, no rows, no events, all accounted for" in lines
    lost = summary_lines(facts(files=[file(0, "a.parquet", 9, "1 row in no event", rows=7)], unit="row", rows=7))
    assert "rows              7, but 6 events" in lost
    part = summary_lines(facts(files=[file(0, "a.parquet", 9, None, rows=7)], unit="row", rows=7, ledger=None))
    assert not any(line.startswith("rows") for line in part)  # its events cannot be as many
    table = summary_lines(facts(files=[], unit="row"))
    assert not any(line.startswith(("files", "bytes", "rows")) for line in table)
    named = summary_lines(facts(files=[file(0, "stock__ct", 0, rows=6) | {"shape": "rows"}], unit="row", rows=6))
    assert not any(line.startswith(("files", "bytes")) for line in named)
    assert "rows              6, as many events" in named
    assert "  stock__ct  6 rows, 6 events, all accounted for" in named


def test_changes_outside_of_transactions_are_counted_as_such() -> None:
    loaded = facts(changes=5, changes_by_operation={"REFRESH": 3, "INSERT": 2})
    assert "changes           5: REFRESH 3, INSERT 2; committed 2; 3 in no transaction" in summary_lines(loaded)


def test_a_change_without_an_operation_is_in_no_count_of_operations(tmp_path: Path) -> None:
    message = {"magic": "atMSG", "type": "DT", "message": {"data": {"id": 1}, "headers": {}}}
    (tmp_path / "a.jsonl").write_text(json.dumps(message))
    found = summarize(cdcwb.load(tmp_path / "a.jsonl", table="shop.t"))
    (table,) = found["tables"]
    assert (found["changes"], found["changes_by_operation"]) == (1, {})
    assert (table["changes"], table["changes_by_operation"]) == (1, {})


def test_what_is_unknown_is_named() -> None:
    table = {"table": "shop.t", "versions": 1, "changes": 2, "changes_by_operation": {"INSERT": 1}}
    known = {"transactions": 1, "contradictions": 0, "numbers": 2, "places": []}
    states = {"transactions_by_completeness": {"unknown": 2}, "counters": known}
    lines = summary_lines(facts(changes=3, changes_by_operation={"INSERT": 1}, tables=[table], **states))
    assert "changes           3: not given 2, INSERT 1; committed 2; 1 in no transaction" in lines
    assert "  shop.t  1 version, 2 changes: INSERT 1, not given 1" in lines
    assert "transactions      2: committed 2; completeness unknown 2" in lines
    assert "counters          no contradictions in 1 transaction with numbered events and 2 numbered records" in lines


def test_what_is_left_out_is_counted_and_what_is_wrong_is_kept() -> None:
    files = [file(index, f"f{index}", 10) for index in range(30)]
    files[25]["ledger"] = "2 bytes in no event"
    tables = [
        {"table": f"t{index:02}", "versions": 1, "changes": index, "changes_by_operation": {"INSERT": index}}
        for index in range(50)
    ]
    lines = summary_lines(facts(files=files, tables=tables))
    assert "  f25  10 bytes, 6 events, 2 bytes in no event" in lines
    assert "  … and 18 more files" in lines
    assert "  t49  1 version, 49 changes: INSERT 49" in lines
    assert not any(line.startswith("  t29 ") for line in lines)
    assert "  … and 30 more tables" in lines


def test_problems_are_grouped_by_code_with_their_first_places() -> None:
    place = {"file": "a.bin", "offset": 20_355, "length": 41, "sentence": "no record", "transaction_id": "7"}
    nowhere = {"file": None, "offset": None, "length": None, "sentence": "no end", "transaction_id": None}
    codes = [
        code("error", "malformed", 5, place, place, place),
        code("warning", "open_transaction", 2, nowhere, nowhere | {"transaction_id": "26@0A"}),
    ]
    lines = summary_lines(facts(problems=7, problems_by_code=codes, healthy=False))
    at = lines.index("problems (7)")
    assert lines[at + 1 :] == [
        "  error  malformed: a title, 5",
        *["      a.bin at 20,355: no record"] * 3,
        "      … and 2 more places",
        "  warning  open_transaction: a title, 2",
        "      no end",
        "      transaction 26@0A: no end",
    ]


def test_detected_settings_show_their_evidence_unless_they_were_given() -> None:
    rows = [
        {"scope": "capture", "setting": "a", "value": "1", "evidence": "seen", "overridden": False},
        {"scope": "table 7", "setting": "b", "value": "2", "evidence": "seen", "overridden": True},
    ]
    lines = summary_lines(facts(detected=rows))
    assert lines[lines.index("detected") + 1 :] == ["  a = 1  (seen)", "  table 7: b = 2  (given as an option)"]


def test_nothing_in_it_commands_a_terminal() -> None:
    hostile = "\x1b[2J\u202e\n"
    place = {"file": hostile, "offset": 0, "length": 1, "sentence": hostile, "transaction_id": None}
    unplaced = place | {"file": None, "transaction_id": hostile}
    detected = {"scope": hostile, "setting": "a", "value": hostile, "evidence": hostile, "overridden": False}
    lines = summary_lines(
        facts(
            files=[file(0, hostile, 1, f"{hostile} open")],
            ledger=hostile,
            events_by_record_type={hostile: 1},
            tables=[{"table": hostile, "versions": 1, "changes": 0, "changes_by_operation": {}}],
            problems_by_code=[code("error", "value", 2, place, unplaced)],
            detected=[detected],
            first_position=hostile,
            last_position=hostile,
        )
    )
    assert {"\x1b", "\u202e", "\n"}.isdisjoint("".join(lines))
