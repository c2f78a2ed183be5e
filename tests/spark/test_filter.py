"""A part of a capture, by table, transaction, time and condition: its tables show the rows that belong to it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import cdcwb
import cdcwb_synth as synth
from cdcwb.dataset import Rows, total
from cdcwb.errors import OptionError
from tests.spark.tables import truth_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cdcwb import Capture

pytestmark = [pytest.mark.oldest, pytest.mark.usefixtures("spark")]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """500 changes in two and a half seconds; two transactions are open at the end, and one has no begin."""
    to = tmp_path_factory.mktemp("made")
    return synth.generate(
        "gbase8s", changes=500, seed=14, to=to, table_names=True, open_transactions=2, missing_begins=1
    )


@pytest.fixture(scope="module")
def capture(made: Path) -> Capture:
    """Its names are in ``capture.labels.json``, where they are found."""
    return cdcwb.load(made / "capture")


@pytest.fixture(scope="module")
def changes(made: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = truth_table(made, "changes").to_pylist()
    return rows


@pytest.fixture(scope="module")
def transactions(made: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = truth_table(made, "transactions").to_pylist()
    return rows


def positions(frame: DataFrame) -> list[str]:
    """Changes have positions of their own."""
    return sorted(row.position for row in frame.select("position").collect())


def names(frame: DataFrame) -> set[str]:
    return {row.transaction_id for row in frame.select("transaction_id").collect()}


def expected(rows: Iterable[dict[str, Any]]) -> list[str]:
    found = sorted(row["position"] for row in rows)
    assert found, "a test that expects nothing holds nothing"
    return found


def test_a_table_is_named_with_its_schema_or_without(
    capture: Capture, changes: list[dict[str, Any]], transactions: list[dict[str, Any]]
) -> None:
    of_customer = expected(row for row in changes if row["table_name"] == "customer")
    for name in ("customer", "shop.customer"):
        part = capture.filter(tables=[name])
        assert positions(part.changes) == of_customer
    assert names(part.transactions) == {
        row["transaction_id"] for row in transactions if "shop.customer" in row["tables"]
    }
    assert {row.table_name for row in part.table_versions.collect()} == {"customer"}
    assert {row.kind for row in part.events.select("kind").distinct().collect()} <= {
        "schema",
        "change",
        "before",
        "after",
    }
    both = capture.filter(tables=["customer", "shop.orders"])
    assert positions(both.changes) == expected(row for row in changes if row["table_name"] in ("customer", "orders"))


def test_transactions_are_named(capture: Capture, changes: list[dict[str, Any]]) -> None:
    wanted = sorted({row["transaction_id"] for row in changes})[3:6]
    part = capture.filter(transactions=wanted)
    assert positions(part.changes) == expected(row for row in changes if row["transaction_id"] in wanted)
    assert names(part.transactions) == names(part.events) == set(wanted)


def _ended(row: dict[str, Any]) -> dt.datetime | None:
    """When a transaction ended, or began where the end has no time or is missing."""
    moment: dt.datetime | None = row["ended_at"] or row["began_at"]
    return moment


def _is_open(row: dict[str, Any], first: dt.datetime | None, last: dt.datetime | None = None) -> bool:
    """Whether a transaction is open at a time from ``first`` until just before ``last``."""
    start, end = row["began_at"] or row["ended_at"], _ended(row)
    if start is None or end is None or (last is not None and start >= last):
        return False
    return first is None or (row["ended_at"] is None and row["outcome"] == "open") or end >= first


def test_a_time_window_has_changes_by_their_time_and_transactions_that_are_open_then(
    capture: Capture, changes: list[dict[str, Any]], transactions: list[dict[str, Any]]
) -> None:
    ends = {row["transaction_id"]: _ended(row) for row in transactions}
    moments = sorted({moment for moment in ends.values() if moment})
    first, last = moments[1], moments[-1]
    inside = {name for name, moment in ends.items() if moment and first <= moment < last}
    assert 0 < len(inside) < len(ends)
    part = capture.filter(time_from=first, time_to=last.isoformat())
    assert names(part.transactions) == {r["transaction_id"] for r in transactions if _is_open(r, first, last)}
    assert positions(part.changes) == expected(row for row in changes if row["transaction_id"] in inside)
    for window in ((first, None), (None, first)):
        part = capture.filter(time_from=window[0], time_to=window[1])
        assert names(part.transactions) == {r["transaction_id"] for r in transactions if _is_open(r, *window)}


def test_a_time_has_the_zone_that_it_says_or_utc(capture: Capture, transactions: list[dict[str, Any]]) -> None:
    moments = sorted({moment for row in transactions if (moment := _ended(row))})
    moment = moments[len(moments) // 2]
    same = [
        moment,
        moment.replace(tzinfo=None).isoformat(" "),
        moment.astimezone(dt.timezone(dt.timedelta(hours=8))).isoformat(),
    ]
    found = [names(capture.filter(time_from=one).transactions) for one in same]
    assert found[0] == {row["transaction_id"] for row in transactions if _is_open(row, moment)}
    assert found[1:] == found[:1] * 2


def test_a_condition_keeps_rows_and_what_belongs_to_their_transactions(
    capture: Capture, changes: list[dict[str, Any]]
) -> None:
    part = capture.filter(where='operation == "DELETE" and before.city != null')
    found = [row for row in changes if row["operation"] == "DELETE" and dict(row["before"]).get("city")]
    assert positions(part.changes) == expected(found)
    assert names(part.transactions) == {row["transaction_id"] for row in found}


def test_a_condition_may_name_what_only_changes_have(capture: Capture, changes: list[dict[str, Any]]) -> None:
    part = capture.filter(where='outcome == "undone"')
    undone = [row for row in changes if row["outcome"] == "undone"]
    assert positions(part.changes) == expected(undone)
    assert names(part.events) == {row["transaction_id"] for row in undone}


WINDOW = {"time_from": "2025-03-23T08:00:02Z", "time_to": "2025-03-23T08:00:09Z"}


@pytest.mark.parametrize(
    "filters",
    [
        {"where": 'operation == "DELETE" and before.city != null'},
        {"where": 'outcome == "undone"'},
        {"where": 'kind == "rollback"'},
        {"where": 'completeness != "complete" and table == "customer"'},
        {"where": 'changed_columns == "city" or csn != null'},
        WINDOW,
        {"tables": ["customer", "shop.orders"], **WINDOW, "where": 'operation != "INSERT"'},
    ],
)
def test_a_filter_gives_the_same_rows_in_this_process_and_in_spark(capture: Capture, filters: dict[str, Any]) -> None:
    part = capture.filter(**filters)
    columns = {"events": "position", "changes": "position", "transactions": "transaction_id", "problems": "sentence"}
    counts: list[int] = []
    for name, column in columns.items():
        here = part.rows(name, [column])
        assert isinstance(here, Rows) or name == "events"
        frame = getattr(part, name).select(column)
        found = here.table()[column].to_pylist()
        assert sorted(found, key=str) == sorted((row[0] for row in frame.collect()), key=str)
        counts.append(len(found))
        assert len(found) < capture.rows(name, [column]).fold(len, total) or name == "problems"
    assert sum(counts) > 0


def test_filters_add_up_in_one_call_or_in_several(capture: Capture, changes: list[dict[str, Any]]) -> None:
    some = sorted({row["transaction_id"] for row in changes})[:20]
    wanted = expected(
        row
        for row in changes
        if row["table_name"] == "customer" and row["transaction_id"] in some and row["operation"] == "INSERT"
    )
    at_once = capture.filter(tables=["customer"], transactions=some, where='operation == "INSERT"')
    assert positions(at_once.changes) == wanted
    one_by_one = capture.filter(tables=["customer"]).filter(transactions=some).filter(where='operation == "INSERT"')
    assert positions(one_by_one.changes) == wanted
    assert positions(capture.filter().changes) == positions(capture.changes)


def test_a_typed_table_is_filtered_too(capture: Capture, changes: list[dict[str, Any]]) -> None:
    some = sorted({row["transaction_id"] for row in changes if row["table_name"] == "customer"})[:5]
    part = capture.filter(transactions=some).table("shop.customer", ["city"], images="after")
    rows = [row for row in changes if row["table_name"] == "customer" and row["transaction_id"] in some]
    assert names(part) <= set(some)
    after = [row.after.city for row in part.collect() if row.after is not None]
    assert sorted(map(str, after)) == sorted(
        str(dict(row["after"])["city"]) for row in rows if row["after"] is not None
    )


def test_a_wrong_condition_or_time_is_an_error_that_says_why(capture: Capture) -> None:
    with pytest.raises(OptionError, match=r"no column 'operaton'\. Did you mean 'operation'"):
        capture.filter(where='operaton == "DELETE"')
    with pytest.raises(OptionError, match="where: at character 11: '=' means nothing here; write == to compare"):
        capture.filter(where="operation = 'DELETE'")
    with pytest.raises(OptionError, match=r"where: at character 1: no table has a column 'cty'. Did you mean 'city'"):
        capture.filter(where="after.cty == null")
    with pytest.raises(OptionError, match="where: no table has the columns completeness and kind together"):
        _ = capture.filter(where='completeness == "gaps" and kind == "begin"').changes
    with pytest.raises(OptionError, match=r"time_from: expected a time such as .* found 'yesterday'"):
        capture.filter(time_from="yesterday")
    with pytest.raises(OptionError, match="time_to: "):
        capture.filter(time_to="2025-13-01")


def test_what_was_detected_and_the_facts_are_those_of_the_capture(capture: Capture) -> None:
    part = capture.filter(tables=["customer"])
    assert part.detected.collect() == capture.detected.collect()
    assert (part.facts, part.files) == (capture.facts, capture.files)


def test_typed_rows_keep_their_columns_where_other_tables_decide(capture: Capture) -> None:
    part = capture.filter(where='outcome == "open"').table("shop.customer", ["city"], images="after")
    rows = part.select("transaction_id", "after.city").collect()
    open_ones = names(capture.transactions.where("outcome = 'open'"))
    every = capture.table("shop.customer", ["city"], images="after").select("transaction_id", "after.city").collect()
    assert sorted(map(str, rows)) == sorted(str(row) for row in every if row.transaction_id in open_ones)
    assert rows
