"""The sentence with which each report, index entry and line of the command begins."""

from __future__ import annotations

from typing import Any

import pytest

from cdcwb.report import notebooks
from cdcwb.report.facts import declared_facts, headline
from cdcwb.views import pages
from cdcwb.views.pages.page import Page

PAGES: dict[str, type[Page]] = {
    "change_masks": pages.Masks,
    "continuity": pages.ContinuityPage,
    "event_log_xds": pages.EventLog,
    "replay_and_reconcile": pages.Replay,
    "schema_drift": pages.Drift,
    "transactions": pages.Transactions,
}
TRANSACTIONS: dict[str, Any] = {
    "changes": 900,
    "transactions": 132,
    "transactions_committed": 125,
    "transactions_rolled_back": 6,
    "transactions_open": 1,
    "transactions_complete": 131,
    "transactions_unknown": 0,
    "longest_transactions": [["23@0B", 90_000_000], ["24@0C", 1]],
    "longest_us": 90_000_000,
}
COMMITTED = "125 of 132 transactions committed, 6 rolled back and 1 still open"
NO_TRANSACTIONS: dict[str, Any] = {**TRANSACTIONS, "transactions": 0, "longest_transactions": []}
MASKS: dict[str, Any] = {
    "updates": 64,
    "updates_tables": 3,
    "updates_not_told": 0,
    "updates_idle": 5,
    "columns_changed": 18,
    "mask_disagreements": 0,
}
DRIFT: dict[str, Any] = {
    "drift_findings_by_rule": {"column_renamed": 1},
    "drift_details": [
        ["column_renamed", "shop.orders", "state_v2", "state", "state_v2", "0042", "2026-02-03T08:02:05.123456+00:00"]
    ],
    "versions": [["shop.orders", "1", 5, "0001"], ["shop.orders", "2", 5, "0042"], ["shop.customer", "1", 5, "0001"]],
    "rows_without_version": [],
}
XDS: dict[str, Any] = {
    "format": "goldengate",
    "is_event_log": False,
    "documents": 144,
    "decisions_published": 144,
    "decisions_left_out": 6,
}
LOG: dict[str, Any] = {
    "is_event_log": True,
    "documents": 201,
    "decisions_published": 557,
    "decisions_skipped": 30,
    "decisions_invalid": 0,
    "decisions_needs_snapshot": 88,
}
CONTINUITY: dict[str, Any] = {
    "continuity_tables": 3,
    "continuity_checked": 3,
    "continuity_compared": 120,
    "continuity_breaks": 0,
    "continuity_kinds": {},
    "continuity_unchecked": "",
    "counter_contradictions": 0,
}
BROKEN: dict[str, Any] = {"continuity_breaks": 3, "continuity_kinds": {"gap": 1, "repeat": 2}}
REPLAY: dict[str, Any] = {
    "replay_table": "shop.customer",
    "replay_rows": 51,
    "replay_partial": 0,
    "history_key": "customer_id=18",
    "history_changes": 5,
    **dict.fromkeys(f"reconcile_{name}" for name in ("missing", "extra", "different", "late", "same")),
}
HISTORY_FIRST = ["INSERT", "2026-02-03T08:00:00.250000+00:00"]
HISTORY: dict[str, Any] = {
    "history_table": "shop.orders",
    "history_key": "order_id=17",
    "history_changes": 5,
    "history_first": HISTORY_FIRST,
    "history_last": ["DELETE", "2026-02-03T08:01:00+00:00"],
    "history_taken_back": 0,
}
COMPARED: dict[str, Any] = {
    **REPLAY,
    "reconcile_missing": 8,
    "reconcile_extra": 2,
    "reconcile_different": 0,
    "reconcile_late": 3,
    "reconcile_same": 319,
}


@pytest.mark.parametrize(
    ("notebook", "facts", "sentence"),
    [
        (
            "transactions",
            TRANSACTIONS,
            f"{COMMITTED}; longest 1 min 30 s (transaction 23@0B)",
        ),
        (
            "transactions",
            {**TRANSACTIONS, "transactions_committed": 132, "transactions_rolled_back": 0, "transactions_open": 0},
            "All 132 transactions committed; 1 incomplete; longest 1 min 30 s (transaction 23@0B)",
        ),
        (
            "transactions",
            {**TRANSACTIONS, "longest_transactions": [["23@0B", str(10**16)]]},  # text, as facts from 2^53 on
            f"{COMMITTED}; longest 115,740 d 17 h 46 min 40 s (transaction 23@0B, still open)",
        ),
        (
            "transactions",
            {**TRANSACTIONS, "longest_us": None},
            f"{COMMITTED}; longest 1 min 30 s (transaction 23@0B, still open)",
        ),
        ("transactions", NO_TRANSACTIONS, "No transactions: none of 900 changes names one"),
        ("transactions", {**NO_TRANSACTIONS, "changes": 0}, "No transactions: there are no changes"),
        (
            "transactions",
            {**NO_TRANSACTIONS, "filters": ["at least 5 changes"]},
            "No transaction fits: at least 5 changes",
        ),
        ("change_masks", MASKS, "64 updates of 3 tables change 18 columns; 5 no-op updates"),
        (
            "change_masks",
            {**MASKS, "updates_not_told": 4, "updates_idle": 0},
            "64 updates of 3 tables change 18 columns; changed columns unknown for 4 updates",
        ),
        (
            "change_masks",
            {**MASKS, "updates_not_told": 64, "updates_idle": 0},
            "64 updates of 3 tables: neither masks nor before images show which columns changed",
        ),
        ("change_masks", {**MASKS, "updates": 0}, "No updates, so no change masks and no changed columns"),
        ("continuity", CONTINUITY, "No breaks: 120 changes compared with the version before, in 3 tables"),
        (
            "continuity",
            CONTINUITY | BROKEN | {"counter_contradictions": 1},
            "3 breaks in the continuity of rows: repeat 2, gap 1; 1 contradiction of counters",
        ),
        (
            "continuity",
            CONTINUITY | {"continuity_checked": 0, "continuity_unchecked": "no table has a key"},
            "Nothing compared: no table has a key",
        ),
        ("schema_drift", DRIFT, "1 column renamed: shop.orders.state → state_v2, at 2026-02-03 08:02:05 UTC"),
        (
            "schema_drift",
            {
                **DRIFT,
                "drift_findings_by_rule": {"column_retyped": 2, "column_added": 1},
                "drift_details": [["column_retyped", "a", "b", "int", "text", "0042", None]],
            },
            "2 column types changed and 1 column added: first a.b (int → text), at position 0042",
        ),
        (
            "schema_drift",
            {**DRIFT, "drift_findings_by_rule": {}, "drift_details": [], "rows_without_version": [["x", 1]]},
            "No schema change in 2 tables; 1 row without a table version",
        ),
        (
            "schema_drift",
            {**DRIFT, "drift_findings_by_rule": {}, "drift_details": [], "versions": []},
            "No table is described, so nothing shows schema changes",
        ),
        ("event_log_xds", XDS, "144 of 150 changes as 144 XDS documents; 6 left out"),
        (
            "event_log_xds",
            {**XDS, "format": "gbase8s", "documents": 0, "decisions_published": 0, "decisions_left_out": 9},
            (
                "No XDS documents: gbase8s captures name no key columns; "
                "give keys=schema.table:column+column or --infer-keys"
            ),
        ),
        (
            "event_log_xds",
            LOG,
            "557 of 675 rows published in 201 documents; 88 waiting for a snapshot of their table and 30 skipped",
        ),
        (
            "replay_and_reconcile",
            REPLAY,
            (
                "shop.customer has 51 rows after replay; row customer_id=18 has 5 changes; "
                "no second capture to compare with"
            ),
        ),
        (
            "replay_and_reconcile",
            {**REPLAY, "replay_rows": 1, "replay_partial": 1, "history_changes": None},
            "shop.customer has 1 row after replay, partly known; no second capture to compare with",
        ),
        (
            "replay_and_reconcile",
            {**REPLAY, "replay_rows": None, "history_changes": None},
            "Nothing to replay: no change names a key",
        ),
        (
            "replay_and_reconcile",
            COMPARED,
            "8 changes missing in the target; 2 extra in the target; 319 equal; 3 late",
        ),
        (
            "replay_and_reconcile",
            {
                **COMPARED,
                "reconcile_late": 0,
                "reconcile_missing_by_reason": {"no_op_update": 7, "duplicate": 1},
                "reconcile_extra_by_reason": {"after_end": 2},
            },
            (
                "8 changes missing in the target: 7 no-op updates, 1 duplicate; "
                "2 extra in the target: 2 after the end of the source; 319 equal"
            ),
        ),
        (
            "replay_and_reconcile",
            {**COMPARED, "reconcile_missing": 0, "reconcile_extra": 0, "reconcile_late": 0},
            "All 319 changes equal in both captures",
        ),
    ],
)
def test_a_report_begins_with_the_answer_to_its_own_question(
    notebook: str, facts: dict[str, Any], sentence: str
) -> None:
    assert PAGES[notebook].headline_of(facts) == sentence
    declared = declared_facts(notebooks()[notebook])
    assert {name for name in facts if not name.startswith("decisions_")} <= set(declared)


def test_names_in_an_answer_command_no_terminal() -> None:
    longest = [["\x1b]0;x\u202e", 1]]
    assert r"\x1b]0;x\u202e" in pages.Transactions.headline_of({**TRANSACTIONS, "longest_transactions": longest})


def test_a_report_without_an_answer_of_its_own_begins_with_the_health() -> None:
    assert headline({"verdict": "Healthy: no problems."}) == "Healthy: no problems"
    assert headline({"verdict": "Healthy: no problems.", "headline": "No changes"}) == "No changes"
    assert headline({}) == "made"


@pytest.mark.parametrize(
    ("notebook", "facts", "meant"),
    [
        ("transactions", TRANSACTIONS, "warning"),
        ("transactions", TRANSACTIONS | {"transactions_complete": 132, "transactions_open": 0}, "good"),
        ("transactions", TRANSACTIONS | {"transactions_complete": 130, "transactions_open": 0}, "warning"),
        ("transactions", NO_TRANSACTIONS, "good"),
        ("change_masks", MASKS, "good"),
        ("change_masks", MASKS | {"updates_not_told": 1}, "warning"),
        ("change_masks", MASKS | {"updates_not_told": 1, "mask_disagreements": 2}, "bad"),
        ("schema_drift", DRIFT | {"drift_findings_by_severity": {"warning": 1}}, "warning"),
        ("schema_drift", DRIFT | {"drift_findings_by_severity": {"info": 1}}, "good"),
        ("schema_drift", DRIFT | {"drift_findings_by_severity": {"error": 1, "info": 1}}, "bad"),
        ("event_log_xds", XDS, "warning"),
        ("event_log_xds", XDS | {"decisions_left_out": 0}, "good"),
        ("event_log_xds", LOG, "warning"),
        ("event_log_xds", LOG | {"decisions_invalid": 1}, "bad"),
        ("replay_and_reconcile", REPLAY, "good"),
        ("replay_and_reconcile", COMPARED | {"reconcile_different": 1}, "bad"),
        ("replay_and_reconcile", COMPARED | {"reconcile_missing_by_reason": {"no_op_update": 7, "late": 1}}, "warning"),
        ("replay_and_reconcile", COMPARED | {"reconcile_extra_by_reason": {"unexplained": 1}}, "bad"),
        ("replay_and_reconcile", COMPARED | {"reconcile_missing": 0, "reconcile_extra": 0}, "warning"),
        ("continuity", CONTINUITY, "good"),
        ("continuity", CONTINUITY | {"continuity_checked": 2}, "warning"),
        ("continuity", CONTINUITY | {"continuity_breaks": 2, "continuity_kinds": {"repeat": 2}}, "warning"),
        ("continuity", CONTINUITY | BROKEN, "bad"),
        ("continuity", CONTINUITY | {"counter_contradictions": 1}, "bad"),
    ],
)
def test_an_answer_is_meant_as_the_worst_that_it_says(notebook: str, facts: dict[str, Any], meant: str) -> None:
    assert PAGES[notebook].tone_of(facts) == meant


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        (
            {},
            "5 changes, inserted at 2026-02-03 08:00:00 UTC, now deleted at 2026-02-03 08:01:00 UTC",
        ),
        (
            {"history_last": ["UPDATE", None], "history_taken_back": 2},
            "5 changes, inserted at 2026-02-03 08:00:00 UTC, last change, 2 rolled back or undone",
        ),
        (
            {"history_changes": 1, "history_last": HISTORY_FIRST},
            "1 change, inserted at 2026-02-03 08:00:00 UTC",
        ),
        ({"history_changes": 0}, "no changes in this capture"),
    ],
)
def test_the_history_of_a_row_begins_with_its_changes_and_what_became_of_it(
    facts: dict[str, Any], sentence: str
) -> None:
    assert pages.History.headline_of(HISTORY | facts) == f"shop.orders order_id=17: {sentence}"


def test_a_history_without_a_key_says_why() -> None:
    assert pages.History.headline_of(HISTORY | {"history_changes": None}) == (
        "No row to follow: no change of shop.orders has a key"
    )
    assert pages.History.headline_of(HISTORY | {"history_changes": None, "history_table": None}) == (
        "No row to follow: there are no changes"
    )
