"""The expected numbers of the captures in ``data/`` are those of their README."""

from __future__ import annotations

import json

from tests.made import DATA


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
        "goldengate-export",
    ]
    stream, messages, rows, trail, log, events, tables, maxwell, canal, exports = expected.values()
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
    assert exports["changes_by_operation"] == {"INSERT": 36, "UPDATE": 30, "DELETE": 8, "TRUNCATE": 1}
    assert "| messages | 36 of `op_type` I, 30 of U, 8 of D, 1 of T (TRUNCATE) |" in readme
