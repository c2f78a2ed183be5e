"""What the Publisher does with the rows of an event log: objects that are gone, order, documents, and each reason."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from cdcwb.xds import DECISIONS, EVENT, Snapshot
from tests.xds_rows import DAY, USR, decided, published, row, said

# --- objects that are gone --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["N", "S", "W", "E", "F"])
def test_a_delete_that_was_processed_before_counts(status: str) -> None:
    (reason, _) = said(row(8), row(4, status=status))
    assert reason == "the object is gone: record 2 deletes it later"


def test_a_polling_cycle_may_have_no_limit() -> None:
    """As in versions of the driver before 4.8."""
    assert decided(row(1, new_value="x"), row(4), query_limit=10**30) == ["published", "published"]


def test_a_delete_by_the_driver_counts_and_one_that_cannot_happen_does_not() -> None:
    assert decided(row(5), row(4, perpetrator="drv"), driver_user="drv") == ["no_effect", "skipped"]
    assert decided(row(5), row(4, status="X")) == ["published", "skipped"]
    assert decided(row(5), row(4, column_name="\x01")) == ["published", "invalid"]
    future = {"future_events": True, "as_of": "1970-01-02"}
    assert decided(row(5, event_us=0), row(4, event_us=9 * DAY), **future) == ["published", "waiting"]


def test_an_insert_after_the_delete_brings_nothing_back() -> None:
    assert decided(row(6), row(4), row(5)) == ["no_effect", "published", "published"]


def test_late_reading_of_insert_updates_and_delete_leaves_the_delete() -> None:
    found = published(row(5), row(6), row(6), row(4))
    assert found.decisions["decision"].to_pylist() == ["no_effect"] * 3 + ["published"]
    assert [event["verb"] for event in found.events.to_pylist()] == ["delete"]


# --- order, cycles, events, documents ---------------------------------------------------------------------------------


def test_rows_are_published_by_record_id_or_by_event_time() -> None:
    rows = [
        row(1, record_id="30", event_us=1, table_key="idu=3", new_value="c"),
        row(1, record_id="4", event_us=2, table_key="idu=4", new_value="d"),
        row(1, record_id="5", event_us=1, table_key="idu=5", new_value="e"),
    ]
    associations = published(*rows).events["association"].to_pylist()
    assert associations == ["idu=4,table=usr", "idu=5,table=usr", "idu=3,table=usr"]
    later = published(*rows, future_events=True).events["association"].to_pylist()
    assert later == ["idu=5,table=usr", "idu=3,table=usr", "idu=4,table=usr"]


def test_rows_that_follow_each_other_are_one_event_and_others_are_not() -> None:
    found = published(
        row(1, new_value="a"),
        row(1, new_value="b", column_name="lname"),
        row(2, new_value="c"),
        row(3, new_value="d"),
        row(2, status="S"),
        row(2, new_value="e", column_name="lname"),
        row(2, new_value="f", table_key="idu=2"),
        row(2, new_value="g"),
    )
    assert found.decisions["event"].to_pylist() == [1, 1, 2, 2, None, 2, 3, 4]
    assert found.events["verb"].to_pylist() == ["add", "modify", "modify", "modify"]


def test_documents_hold_so_many_events_and_end_with_their_polling_cycle() -> None:
    rows = [row(1, new_value="a", table_key=f"idu={n}") for n in range(7)]
    found = published(*rows, batch_size=2, query_limit=3)
    assert found.decisions["document"].to_pylist() == [1, 1, 2, 3, 3, 4, 5]
    assert found.events["document"].to_pylist() == [1, 1, 2, 3, 3, 4, 5]
    whole = published(*[row(1, new_value="a")] * 4, query_limit=2)
    assert whole.decisions["event"].to_pylist() == [1, 1, 2, 2]


def test_rows_without_effect_are_polled_all_the_same() -> None:
    found = published(row(2), row(2), row(1, new_value="a"), row(1, new_value="b"), query_limit=3, batch_size=9)
    assert found.decisions["document"].to_pylist() == [None, None, 1, 2]


# --- every reason -----------------------------------------------------------------------------------------------------

REASONS: list[tuple[dict[str, Any], dict[str, Any], str, str]] = [
    (row(1, new_value="x"), {}, "published", "published in document 1"),
    (
        row(1, new_value="x", perpetrator="idmdrv"),
        {"driver_user": "IDMDRV"},
        "published",
        "published in document 1; perpetrator 'idmdrv' differs from the driver's user 'IDMDRV' in upper and lower case",
    ),
    (
        row(1, new_value="x", perpetrator="IDMDRV"),
        {"driver_user": "IDMDRV", "allow_loopback": True},
        "published",
        "published in document 1",
    ),
    (row(1, status="S"), {}, "skipped", "status 'S': processed before"),
    (row(1, status="W"), {}, "skipped", "status 'W': processed before, with a warning"),
    (row(1, status="E"), {}, "skipped", "status 'E': processed before, with an error"),
    (row(1, status="F"), {}, "skipped", "status 'F': processed before, with a fatal error"),
    (row(1, status="X"), {}, "skipped", "status 'X': only 'N' is processed"),
    (row(1, status="n"), {}, "skipped", "status 'n' is not exactly 'N'"),
    (row(1, status="N "), {}, "skipped", "status 'N ' is not exactly 'N'"),
    (row(1, status=None), {}, "skipped", "status is NULL: only 'N' is processed"),
    (row(1, status="\x1b[1m"), {}, "skipped", "status '\\x1b[1m': only 'N' is processed"),
    (
        row(1, perpetrator="IDMDRV"),
        {"driver_user": "IDMDRV"},
        "skipped",
        "perpetrator 'IDMDRV' is the driver's user (loopback)",
    ),
    (
        row(1, event_us=DAY),
        {"future_events": True, "as_of": "1970-01-01"},
        "waiting",
        "waiting until 1970-01-02T00:00:00Z",
    ),
    (
        row(1, event_us=DAY + 1_500_000),
        {"future_events": True, "as_of": "1970-01-02T00:00:01.4999Z"},
        "waiting",
        "waiting until 1970-01-02T00:00:01.5Z",
    ),
    (row(2), {}, "no_effect", "old_value and new_value are both NULL: there is nothing to write"),
    (
        row(6, table_key="idu=9"),
        {},
        "no_effect",
        "the object is gone: the snapshot of table 'usr' has no such row",
    ),
    (row(8, column_name="idu"), {}, "no_effect", "column 'idu' is part of the key: there is nothing to write"),
    (
        row(5),
        {"snapshot": None},
        "needs_snapshot",
        "the values are in table 'usr' alone, and no snapshot of it is given",
    ),
    (
        row(5, table_name="hr.dept"),
        {},
        "needs_snapshot",
        "the values are in table 'hr.dept' alone, and no snapshot of it is given",
    ),
    (
        row(6, table_name="a\nb\u202e", table_key="k=1"),
        {},
        "needs_snapshot",
        r"the values are in table 'a\x0ab\u202e' alone, and no snapshot of it is given",
    ),
    (row(7, column_name="nick"), {}, "needs_snapshot", "the snapshot of table 'usr' has no column 'nick'"),
    (
        row(6, table_key="id=1"),
        {},
        "needs_snapshot",
        "the snapshot of table 'usr' does not have the columns of this table_key",
    ),
    (
        row(6),
        {"snapshot": Snapshot.of({"usr": pa.table({"idu": [1]})})},
        "no_effect",
        "table 'usr' has no column but its key: there is nothing to write",
    ),
    (
        row(6),
        {"snapshot": Snapshot.of({"usr": pa.table({"idu": [1], "fname": ["\x00"]})})},
        "invalid",
        "a value in the snapshot of table 'usr' holds a character XML cannot hold",
    ),
    (
        row(1, new_value="x", event_time="yesterday"),
        {"future_events": True},
        "invalid",
        "event_time 'yesterday' cannot be read, and rows are ordered by it",
    ),
    (
        row(1, new_value="x"),
        {"future_events": True},
        "invalid",
        "event_time is NULL, and rows are ordered by it",
    ),
    (
        row(1, new_value="x", record_id="12", repeated=True),
        {},
        "invalid",
        "record_id 12 is in an earlier row already",
    ),
]


@pytest.mark.parametrize(("one", "settings", "decision", "reason"), REASONS, ids=[case[3][:40] for case in REASONS])
def test_each_decision_has_its_reason(
    one: dict[str, Any], settings: dict[str, Any], decision: str, reason: str
) -> None:
    (found,) = published(one, **settings).decisions.to_pylist()
    assert (found["decision"], found["reason"]) == (decision, reason)


@pytest.mark.parametrize(
    ("one", "column"),
    [
        (row(1, record_id="0"), "record_id"),
        (row(1, record_id="1.5"), "record_id"),
        (row(9), "event_type"),
        (row(None), "event_type"),
        (row(1, table_name=""), "table_name"),
        (row(1, table_name=None), "table_name"),
        (row(1, table_key=None), "table_key"),
        (row(1, table_key="idu=<1>"), "table_key"),
        *[(row(kind, column_name=None), "column_name") for kind in (1, 2, 3, 7, 8)],
        *[(row(kind, column_name=""), "column_name") for kind in (1, 2, 3, 7, 8)],
        *[(row(kind, new_value="\x01"), "new_value") for kind in (1, 2, 3)],
        (row(2, old_value="\ufffe"), "old_value"),
        (row(4, table_key="idu=\x0b"), "table_key"),
        (row(4, table_name="u\x0bsr"), "table_name"),
    ],
)
def test_a_row_that_breaks_a_rule_is_invalid_and_says_which(one: dict[str, Any], column: str) -> None:
    (found,) = published(one).decisions.to_pylist()
    assert found["decision"] == "invalid"
    assert column in found["reason"]


@pytest.mark.parametrize(
    "one",
    [row(1, new_value="x", old_value="\x01"), row(3, new_value="x", old_value="\x01"), row(5, new_value="\x01")],
    ids=["1", "3", "5"],
)
def test_values_that_are_not_written_may_hold_anything(one: dict[str, Any]) -> None:
    assert decided(one) == ["published"]


@pytest.mark.parametrize(
    ("status", "decision"),
    [("N", "invalid"), (None, "invalid"), ("", "invalid"), (" ", "invalid"), ("S", "skipped"), ("x", "skipped")],
)
def test_a_row_without_a_number_is_skipped_only_where_its_status_says_so(status: str | None, decision: str) -> None:
    assert decided(row(1, record_id="none", status=status)) == [decision]


def test_selection_comes_before_validity_and_validity_before_waiting() -> None:
    future = {"future_events": True, "as_of": "1970-01-01", "driver_user": "drv"}
    broken = {"table_key": "?", "event_us": DAY}
    assert decided(row(1, status="S", perpetrator="drv", **broken), **future) == ["skipped"]
    assert decided(row(1, perpetrator="drv", **broken), **future) == ["skipped"]
    assert decided(row(1, **broken), **future) == ["invalid"]
    assert decided(row(2, event_us=DAY), **future) == ["waiting"]


def test_as_of_is_compared_to_the_microsecond() -> None:
    moment = dt.datetime(1970, 1, 1, 0, 0, 0, 5, tzinfo=dt.UTC)
    found = [decided(row(1, event_us=us), future_events=True, as_of=moment)[0] for us in (4, 5, 6)]
    assert found == ["published", "published", "waiting"]


@pytest.mark.parametrize("snapshot", [None, USR])
def test_an_empty_log_has_no_decisions_and_no_events(snapshot: Snapshot | None) -> None:
    found = published(snapshot=snapshot)
    assert (found.decisions.schema, found.events.schema) == (DECISIONS, EVENT)
    assert found.decisions.num_rows == found.events.num_rows == 0
