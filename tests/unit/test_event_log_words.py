"""What the page on an event log says: figures that add up, and sentences that claim no more than was given."""

from __future__ import annotations

from typing import Any

import pytest

from cdcwb.analysis import event_log_page as words
from cdcwb.analysis.event_log_page import evenly
from cdcwb.xds import Settings


def facts(**decisions: int) -> dict[str, Any]:
    told = {f"decisions_{name}": number for name, number in decisions.items()}
    return {"rows": sum(decisions.values()), "objects": 3, "documents": 2, "events": 2} | told


def test_cards_leave_out_decisions_that_nothing_met() -> None:
    cards = words.cards(facts(published=2, skipped=1, waiting=0, needs_snapshot=4))
    assert [(title, value) for title, value, _ in cards] == [
        ("rows", "7"),
        ("published", "2"),
        ("documents", "2"),
        ("skipped", "1"),
        ("needs a snapshot", "4"),
    ]


@pytest.mark.parametrize(
    ("published", "skipped", "share"),
    [(0, 5, "0% of them"), (5, 0, "100% of them"), (1, 9999, "1% of them"), (9999, 1, "99% of them"), (0, 0, "")],
)
def test_a_share_is_not_rounded_to_none_or_all(published: int, skipped: int, share: str) -> None:
    assert words.cards(facts(published=published, skipped=skipped))[1][2] == share


def test_what_was_not_given_is_said() -> None:
    nothing = " ".join(words.setting_sentences(Settings(), []))
    assert "no row counts as the driver's own" in nothing
    assert "query-back rows need one" in nothing
    given = " ".join(words.setting_sentences(Settings(driver_user="drv", allow_loopback=True), ["usr", "orders"]))
    assert "user is drv. Its changes are published too" in given
    assert "orders and usr" in given


def test_the_matrix_adds_up_down_and_across() -> None:
    counts: list[dict[str, Any]] = [
        {"event_type": 1, "decision": "published", "rows": 5},
        {"event_type": 1, "decision": "skipped", "rows": 2},
        {"event_type": None, "decision": "invalid", "rows": 1},
    ]
    lines, headings = words.matrix(counts, "event_type")
    assert list(headings.values()) == ["event type", "all", "published", "skipped", "invalid"]
    assert [(line["kind"], line["rows"]) for line in lines] == [
        ("1 insert field", 7),
        ("none of the eight", 1),
        ("all", 8),
    ]
    assert lines[0]["invalid"] is None
    assert lines[-1]["published"] == 5


def test_each_category_that_is_used_has_a_sentence() -> None:
    counts = [{"event_type": kind, "decision": "published", "rows": 2} for kind in (1, 3, 6, None)]
    used = words.categories_used(counts)
    assert [(row["category"], row["types"], row["rows"]) for row in used] == [
        ("per field", "1, 2, 3", 4),
        ("per row, query-back", "5, 6", 2),
    ]
    assert all(row["sentence"] for row in used)
    every = words.categories_used([{"event_type": kind, "decision": "published", "rows": 1} for kind in range(1, 9)])
    assert [row["types"] for row in every] == ["1, 2, 3", "4", "5, 6", "7, 8"]


def test_a_list_that_is_cut_has_some_of_every_kind() -> None:
    records = [{"decision": "skipped", "n": n} for n in range(9)] + [{"decision": "invalid", "n": 9}]
    cut = evenly(records, "decision", ("skipped", "invalid"), 4)
    assert [(record["decision"], record["n"]) for record in cut] == [
        ("skipped", 0),
        ("skipped", 1),
        ("skipped", 2),
        ("invalid", 9),
    ]
    assert evenly(records, "decision", ("skipped", "invalid"), 99) == records


def test_settings_and_files_are_told_in_full() -> None:
    rows = words.setting_rows(Settings(types={"photo": "octet"}), {"usr": "/tmp/usr.csv"})
    told = {row["setting"]: row["value"] for row in rows}
    assert told["types"] == "photo: octet"
    assert told["driver_user"] == "not given"
    assert told["allow_loopback"] == "no"
    assert told["batch_size"] == "1"
    assert told["snapshot usr"] == "/tmp/usr.csv"
