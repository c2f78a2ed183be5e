"""Searches in values: what each comparison finds in every format, and how a search goes on and ends."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdcwb.dataset import Rows
from cdcwb.explore.model import Explorer
from cdcwb.filters import FilterError, holds, parse, value_name
from cdcwb.index.source import IndexedCapture
from cdcwb.model import EVENTS
from tests.explore_captures import DATA, saved

FORMATS = ("gbase8s", "goldengate", "qlik-kafka", "qlik-change-table", "idm-event-log", "debezium")
Values = dict[str, Any]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {name: saved(DATA / name, tmp_path_factory.mktemp(name) / "saved", parts=2) for name in FORMATS}


def found(explorer: Explorer, line: str) -> list[int]:
    """The records that a filter finds, at the end of its search."""
    explorer.apply(line)
    explorer.advance()
    assert explorer.search is not None
    assert explorer.search.complete, explorer.search.wrong
    return [explorer.row_at(place) for place in range(explorer.shown)]


@cache
def changes(folder: Path) -> list[tuple[int, Values]]:
    """The records of changes as they were saved, with the images that they and their other halves have, one by one."""
    rows = pq.ParquetDataset(folder / "events").read().to_pylist()
    rows.sort(key=lambda one: (one["file_index"], one["offset"]))
    waiting: dict[Any, int] = {}
    images: dict[int, Values] = {}
    by_position = rows[0]["format"] == "qlik-change-table"
    for row, event in enumerate(rows):
        if event["kind"] not in ("change", "before", "after"):
            continue
        images[row] = {name: dict(event[name] or ()) for name in ("before", "after", "key")} | {"event": event}
        place = event["position"] if by_position else event["transaction_id"]
        shared = (place, event["schema_name"], event["table_name"])
        other = waiting.pop(shared, None)
        if event["kind"] == "change":
            continue
        if other is not None and rows[other]["kind"] != event["kind"]:
            for name in ("before", "after", "key"):
                images[row][name] = images[other][name] = images[row][name] or images[other][name]
        else:
            waiting[shared] = row
    if rows[0]["format"] == "idm-event-log":
        join_statements(rows, images)
    return list(images.items())


def join_statements(rows: list[Values], images: dict[int, Values]) -> None:
    """Give all rows of a statement of an event log the images of all."""
    log = [row for row, one in enumerate(rows) if one["kind"] in ("change", "control") and one["position"] is not None]
    log.sort(key=lambda row: (int(rows[row]["position"]), row))
    run: list[int] = []
    shared, columns = None, set[str]()
    for row in log:
        event = rows[row]
        header, own = dict(event["headers"]), event["changed_columns"] or []
        same = [event["operation"], *map(header.get, ("table_name", "table_key", "perpetrator", "event_time"))]
        joins = event["kind"] == "change" and len(own) == 1 and None not in same[1:3]
        if not joins or same != shared or own[0] in columns:
            run, columns = [], set()
        shared = same if joins else None
        run.append(row)
        columns |= set(own)
        if not joins:
            continue
        together = {image: dict[str, Any]() for image in ("before", "after")}
        for image, values in together.items():
            for one in run:
                values |= dict(rows[one][image] or ())
        for one in run:
            images[one] |= together


def number(text: str | None, otherwise: int) -> Decimal:
    """A value as a number."""
    try:
        return Decimal(otherwise if text is None else text)
    except InvalidOperation:
        return Decimal(otherwise)


CASES: dict[str, list[tuple[str, Callable[[Values], bool]]]] = {
    "gbase8s": [
        ('after.state == "DONE"', lambda one: one["after"].get("state") == "DONE"),
        ('after.state != "DONE"', lambda one: one["after"].get("state", "DONE") != "DONE"),
        (
            'before.state == "PAID" and after.state == "DONE"',
            lambda one: (one["before"].get("state"), one["after"].get("state")) == ("PAID", "DONE"),
        ),
        ("after.total > 1_000.50", lambda one: number(one["after"].get("total"), 0) > Decimal("1000.5")),
        ("after.total <= 0.02", lambda one: number(one["after"].get("total"), 1) <= Decimal("0.02")),
        ('after.since < "2021-06-01"', lambda one: "" < (one["after"].get("since") or "") < "2021-06-01"),
        (
            'after.placed_at >= "2025-03-23T08:01:00Z"',
            lambda one: (one["after"].get("placed_at") or "") >= "2025-03-23T08:01:00",
        ),
        ("after.rating == null", lambda one: one["after"].get("rating", "") is None),
        ("after.rating != null", lambda one: one["after"].get("rating") is not None),
        ('after.full_name contains "e"', lambda one: "e" in (one["after"].get("full_name") or "")),
        ("after.c_bigserial == 9223372036854775807", lambda one: one["after"].get("c_bigserial") == str(2**63 - 1)),
    ],
    "goldengate": [
        ('after.state == "DONE"', lambda one: one["after"].get("state") == "DONE"),
        ("after.total > 100", lambda one: number(one["after"].get("total"), 0) > 100),
        ("after.city == missing", lambda one: bool(one["after"]) and "city" not in one["after"]),
        ("key.customer_id == 3", lambda one: one["key"].get("customer_id") == "3"),
        (
            'after.placed_at == "2026-07-14 06:30:18" or after.place == "D.4"',
            lambda one: one["after"].get("placed_at") == "2026-07-14:06:30:18" or one["after"].get("place") == "D.4",
        ),
    ],
    "qlik-kafka": [
        ('before.city == "Hollin"', lambda one: one["before"].get("city") == "Hollin"),
        ("after.rating in (3794, 4903)", lambda one: one["after"].get("rating") in ("3794", "4903")),
        (
            "after.rating not in (3794, 4903)",
            lambda one: one["after"].get("rating", "3794") not in ("3794", "4903"),
        ),
        (
            'operation == "UPDATE" and not after.is_member == "true"',
            lambda one: one["event"]["operation"] == "UPDATE" and one["after"].get("is_member") != "true",
        ),
    ],
    "qlik-change-table": [
        ('before.state == "PAID"', lambda one: one["before"].get("state") == "PAID"),
        (
            'before.city != null and after.city matches "^H"',
            lambda one: one["before"].get("city") is not None and (one["after"].get("city") or "").startswith("H"),
        ),
        ("key.customer_id == 3", lambda one: one["key"].get("customer_id") == "3"),
    ],
    "debezium": [
        ('after.city == "Graben"', lambda one: one["after"].get("city") == "Graben"),
        ("after.total > 1000", lambda one: number(one["after"].get("total"), 0) > 1000),
        (
            'before.is_member == "true" and operation == "UPDATE"',
            lambda one: one["event"]["operation"] == "UPDATE" and one["before"].get("is_member") == "true",
        ),
        ('after.since < "2020-01-01"', lambda one: "" < (one["after"].get("since") or "") < "2020-01-01"),
        ("key.customer_id == 2", lambda one: one["key"].get("customer_id") == "2"),
    ],
    "idm-event-log": [
        (
            'after.discount == 354.44 and after.city == "Hollin"',
            lambda one: (one["after"].get("discount"), one["after"].get("city")) == ("354.44", "Hollin"),
        ),
        (
            'before.is_member == "false" and after.rating != null and time > "2026-11-09T07:15:06Z"',
            lambda one: (
                one["before"].get("is_member") == "false"
                and one["after"].get("rating") is not None
                and one["event"]["changed_at"].isoformat() > "2026-11-09T07:15:06"
            ),
        ),
        ('after.is_member == "true"', lambda one: one["after"].get("is_member") == "true"),
        ("after.discount >= 300", lambda one: number(one["after"].get("discount"), 0) >= 300),
        (
            'table == "customer" and (after.city == missing or after.city == "Hollin")',
            lambda one: (
                one["event"]["table_name"] == "customer"
                and bool(one["after"])
                and one["after"].get("city", "Hollin") == "Hollin"
            ),
        ),
    ],
}


@pytest.mark.parametrize(("name", "at"), [(name, at) for name in FORMATS for at in range(len(CASES[name]))])
def test_a_search_finds_exactly_the_changes_with_the_value(name: str, at: int, made: dict[str, Path]) -> None:
    line, fits = CASES[name][at]
    explorer = Explorer.open(made[name])
    expected = [row for row, one in changes(made[name]) if fits(one)]
    assert expected, "a case that finds nothing shows nothing"
    assert found(explorer, line) == expected


@pytest.mark.parametrize("name", FORMATS)
def test_the_files_give_what_the_saved_changes_give(name: str, made: dict[str, Path]) -> None:
    line = CASES[name][0][0]
    assert found(Explorer.open(DATA / name), line) == found(Explorer.open(made[name]), line)


@pytest.mark.parametrize("name", FORMATS)
def test_every_value_has_a_column(name: str, made: dict[str, Path]) -> None:
    explorer = Explorer.open(made[name])
    for _, one in changes(made[name]):
        for image in ("before", "after", "key"):
            # the event log has keys that are spelled otherwise than the columns
            assert {f"{image}.{column}".lower() for column in one[image]} <= explorer.kinds.keys()


def batch(values: list[str | None], problems: list[str | None] = []) -> pa.RecordBatch:  # noqa: B006
    rows = [
        {"after": {"x": value}, "problems": problem and [{"code": "value", "detail": problem}]}
        for value, problem in zip_longest(values, problems)
    ]
    return pa.RecordBatch.from_pylist(
        rows, pa.schema([EVENTS.field(name) for name in ("key", "before", "after", "problems")])
    )


@pytest.mark.parametrize(
    ("condition", "values", "expected"),
    [
        ("== 12.5", ["12.50", "12.5", " 12.5", "+12.5", "1.25e1", "12.51", None, "x"], [0, 1, 2, 3, 4]),
        ("!= 12.5", ["12.50", "12.51", None, "x"], [1, 2, 3]),
        ("> 9007199254740992", ["9007199254740993", "9007199254740992", "9007199254740991"], [0]),
        ("== 0.1", ["0.1", "0.10000000000000000001"], [0]),
        ("> 1e308", ["1e400", "1e308", "-1e400"], [0]),
        ("== 0x1F", ["31", "0x1F"], [0]),
        ("< 0", ["-1", "-0.0", "10", None], [0]),
        ('== "1"', ["1", "01", "1.0", None], [0]),
        ('< "b"', ["a", "B", "b", None], [0, 1]),
        ("!= null", ["", None], [0]),
        ('!= "a"', ["a", "b", None], [1, 2]),
        ("== 1", ["1", "01", "1.0", "one"], [0, 1, 2]),
        ('== "1"', ["1", "01", "1.0", "one"], [0]),
        ('== "2025-03-23"', ["2025-03-23", "2025-03-23 00:00:00.000000", "2025-03-23T00:00:01"], [0, 1]),
        (
            '>= "2025-03-23T08:00:00Z"',
            ["2025-03-23:08:00:00.000000001", "2025-03-23T08", "2025-03-23 09:00+02:00", "0000-00-00", "08:00", None],
            [0, 1],
        ),
    ],
)
def test_values_compare_as_the_operand_is(condition: str, values: list[str | None], expected: list[int]) -> None:
    understood = parse(f"after.x {condition}")
    assert understood is not None
    (one,) = understood.values
    assert np.flatnonzero(holds(one, batch(values))).tolist() == expected


def test_a_value_that_is_reported_as_a_problem_fits_nothing() -> None:
    for condition in ('== "6f"', '!= "a"', "!= null", "!= missing", "== missing"):
        understood = parse(f"after.x {condition}")
        assert understood is not None
        (one,) = understood.values
        for detail in ("column 3 x: expected text in utf-8, found other bytes", "x: expected a time"):
            assert holds(one, batch(["6f"], [detail])).tolist() == [False]
        for detail in ("column 3 xx: expected text", "y: expected a time, found a x: b"):
            assert holds(one, batch(["6f"], [detail])).tolist() == [condition != "== missing"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('after.stat == "x"', "at character 1: no table has a column 'stat'. Did you mean 'state'?"),
        ("after.state == x", "expected a text or a number, null or missing, for after.state, found 'x'"),
        ('after.total > "10"', 'at character 13: a number is written without quotes, found "10"'),
        ("after.total contains 1", "contains needs a text in quotes"),
        ("after.state > missing", "missing is compared with == or !="),
        ('after.state matches "("', "at character 13: expected a regular expression"),
        ("after. == 1", "'.' means nothing here; write the name of a column after before., after. or key."),
        ("state == 1", "there is no column 'state'"),
    ],
)
def test_a_wrong_search_says_where_and_what_was_expected(line: str, said: str, made: dict[str, Path]) -> None:
    explorer = Explorer.open(made["gbase8s"])
    with pytest.raises(FilterError) as wrong:
        explorer.apply(line)
    assert said in str(wrong.value)
    assert explorer.search is None


def test_a_name_is_written_in_any_case_and_in_quotes_where_it_has_to_be() -> None:
    kinds = {"after.order no": "text", "after.ID": "text", "after.b": "text", "after.B": "text"}
    assert parse('After."order no" == "x"', kinds).values[0].column == "after.order no"  # type: ignore[union-attr]
    assert parse('after.id == "x"', kinds).values[0].column == "after.ID"  # type: ignore[union-attr]
    assert parse('after.B == "x"', kinds).values[0].column == "after.B"  # type: ignore[union-attr]
    assert parse('after."no" == "x"', kinds).values[0].column == "after.no"  # type: ignore[union-attr]
    assert value_name("after", "order no", kinds) == 'after."order no"'
    assert value_name("after", "B", kinds) == "after.B"
    assert value_name("after", "no", kinds) == 'after."no"'


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """The changes come in batches of 20."""
    read = IndexedCapture.change_rows

    def few(source: IndexedCapture, columns: Sequence[str]) -> Rows:
        rows = read(source, columns)
        parts = (batch.slice(first, 20) for batch in rows.batches() for first in range(0, len(batch), 20))
        return Rows(lambda: parts, rows.schema)

    monkeypatch.setattr(IndexedCapture, "change_rows", few)


@pytest.mark.usefixtures("small_batches")
def test_results_come_one_after_the_other_and_a_cancelled_search_keeps_them(made: dict[str, Path]) -> None:
    explorer = Explorer.open(made["qlik-kafka"])
    expected = found(explorer, "after.customer_id > 0")
    explorer.apply("after.customer_id > 0 and record > 0")
    search = explorer.search
    assert search is not None
    assert (search.running, search.searched, explorer.shown) == (True, 0, 0)
    explorer.advance(0)  # one batch
    first = [explorer.row_at(place) for place in range(explorer.shown)]
    assert 0 < search.searched < search.total
    assert set(first) < set(expected)
    assert explorer.chosen in first
    explorer.cancel()
    explorer.advance()
    assert not search.running
    assert not search.complete
    assert explorer.shown == len(first)
    assert found(explorer, "after.customer_id > 0 and record > 0") == expected


def test_another_filter_ends_the_search(made: dict[str, Path]) -> None:
    explorer = Explorer.open(made["gbase8s"])
    explorer.apply("after.total > 0")
    search = explorer.search
    assert search is not None
    explorer.apply('kind == "commit"')
    shown = explorer.shown
    explorer.advance()
    assert not search.running
    assert not search.complete
    assert (explorer.search, explorer.shown) == (None, shown)
    explorer.back()
    assert explorer.filter == "after.total > 0"
    assert explorer.search is not search


def test_only_what_the_headers_leave_open_is_read(made: dict[str, Path]) -> None:
    explorer = Explorer.open(made["gbase8s"])
    explorer.apply('operation == "INSERT" and table == "shop.orders"')
    inserts = explorer.shown
    found(explorer, 'operation == "INSERT" and table == "shop.orders" and after.state == "DONE"')
    assert explorer.search is not None
    assert explorer.search.total == inserts
    commits = found(explorer, 'kind == "commit" or after.state == "DONE"')
    assert {explorer.columns["kind"].value(row) for row in commits} == {"commit", "change", "before", "after"}
    found(explorer, 'kind == "commit" and after.state == "DONE"')
    assert (explorer.search.total, explorer.shown) == (0, 0)


def test_a_search_in_files_that_are_gone_says_so(made: dict[str, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(made["gbase8s"], tmp_path / "saved")
    explorer = Explorer.open(folder)
    explorer.apply("after.total > 0")
    for file in (folder / "changes").iterdir():
        file.write_bytes(b"no table")
    explorer.advance()
    assert explorer.search is not None
    assert explorer.search.wrong is not None
    assert "not a table of a saved capture" in explorer.search.wrong
    assert (explorer.search.complete, explorer.shown) == (False, 0)
