"""What is asked of a selection is what a plain count over the changes gives."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cdcwb
from cdcwb.analysis import contents, masks
from cdcwb.analysis import transactions as ask
from cdcwb.analysis.change_counts import first_by_table
from cdcwb.filters import NO_TABLE
from cdcwb.index.changes import READ, described
from cdcwb.index.columns import NO_TIME
from cdcwb.index.selected import TIME, Selected
from cdcwb.index.selected_capture import SelectedCapture
from cdcwb.index.selection import Selection
from cdcwb.index.source import IndexedCapture, open_source, source_of
from cdcwb.model import CHANGES
from cdcwb.times import time_of
from tests.saved_capture import write_saved

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_saved(tmp_path_factory.mktemp("made") / "capture", changes=1500, transactions=200)


@pytest.fixture(scope="module")
def source(folder: Path) -> IndexedCapture:
    return open_source(folder)


@pytest.fixture(scope="module")
def rows(folder: Path) -> Rows:
    """The changes, with the user and a name for the table."""
    transactions = _table(folder, "transactions")
    users = {one["transaction_id"]: one["user"] for one in transactions}
    ends = {one["transaction_id"]: one["ended_at"] or one["began_at"] for one in transactions}
    found = [
        {
            **row,
            "table": f"{row['schema_name']}.{row['table_name']}",
            "user": users[row["transaction_id"]],
            "at": row["changed_at"] or row["committed_at"] or ends[row["transaction_id"]],
        }
        for row in _table(folder, "changes")
    ]
    return sorted(found, key=lambda row: (row["file_index"], row["offset"]))


def _table(folder: Path, name: str) -> Rows:
    found: Rows = pq.ParquetDataset(folder / name).read().to_pylist()
    return found


FIELDS: list[dict[str, Any]] = [
    {},
    {"tables": ["shop.orders"]},
    {"tables": ["customer", "shop.audit"], "operations": ["UPDATE"]},
    {"users": ["ana", "ben"], "outcomes": ["committed"]},
    {"columns": ["city"], "time_from": "2026-02-02T03:00:00"},
    {"text": "TX00001"},
]


def fits(row: dict[str, Any], selection: Selection) -> bool:
    chosen = selection.chosen()
    tests = {
        "tables": lambda value: row["table"] in value or row["table_name"] in value,
        "operations": lambda value: row["operation"] in value,
        "users": lambda value: row["user"] in value,
        "outcomes": lambda value: row["outcome"] in value,
        "columns": lambda value: not set(value).isdisjoint(row["changed_columns"] or ()),
        "time_from": lambda value: row["at"] is not None and row["at"] >= value,
        "text": lambda value: value.lower() in row["transaction_id"],
    }
    return all(tests[name](value) for name, value in chosen.items())


Case = tuple[Selected, Rows, SelectedCapture]


@pytest.fixture(params=range(len(FIELDS)), ids=lambda number: "+".join(FIELDS[number]) or "everything")
def case(request: pytest.FixtureRequest, source: IndexedCapture, rows: Rows) -> Case:
    selection = Selection(**FIELDS[request.param])
    selected = Selected(source.changes, selection)
    return selected, [row for row in rows if fits(row, selection)], SelectedCapture(source, selected)


def test_the_index_holds_every_change_at_its_record(source: IndexedCapture, rows: Rows) -> None:
    changes, places = source.changes, source.index
    assert len(changes) == len(rows)
    for number, row in enumerate(rows):
        assert places.number("offset", int(changes.record[number])) == row["offset"]
        assert changes.texts["table"][changes.codes["table"][number]] == row["table"]
        code = changes.set[number]
        assert (changes.sets[code] if code >= 0 else None) == row["changed_columns"]
        assert (changes.at[number] == NO_TIME) == (row["at"] is None)
        assert changes.bytes[number] == 100


def test_the_selected_changes_are_those_that_fit(case: Case) -> None:
    selected, rows, _ = case
    records, changes = selected.changes.record_index, selected.changes
    offsets = [records.number("offset", int(record)) for record in changes.record[selected.mask()]]
    assert offsets == [row["offset"] for row in rows]


def test_every_value_is_counted_as_if_its_field_were_not_set(source: IndexedCapture, rows: Rows) -> None:
    selection = Selection(tables=["shop.orders"], operations=["UPDATE"])
    found = Selected(source.changes, selection).facets()
    of_updates = Counter(row["table"] for row in rows if row["operation"] == "UPDATE")
    assert {name: number for name, number in found["tables"] if number} == of_updates
    of_orders = Counter(row["operation"] for row in rows if row["table"] == "shop.orders")
    assert dict(found["operations"]) == of_orders
    both = [row for row in rows if row["table"] == "shop.orders" and row["operation"] == "UPDATE"]
    assert dict(found["columns"]) == Counter(name for row in both for name in row["changed_columns"] or ())


def test_changes_over_time_are_all_there(case: Case, rows: Rows, source: IndexedCapture) -> None:
    selected, *_ = case
    found = contents.over_time(SelectedCapture(source, selected.by(selected.selection.chosen(TIME))))
    others = Selection(**{name: value for name, value in selected.selection.values().items() if "time" not in name})
    wanted = [row for row in rows if fits(row, others)]
    assert found.without_time == Counter(row["operation"] for row in wanted if row["at"] is None)
    expected: Counter[tuple[datetime, str]] = Counter()
    width = timedelta(microseconds=found.width_us)
    starts = sorted({row["began_at"] for row in found.rows})
    for row in wanted:
        if row["at"] is not None:
            began = starts[0] + (row["at"] - starts[0]) // width * width
            expected[began, row["operation"]] += 1
    assert {(row["began_at"], row["operation"]): row["changes"] for row in found.rows} == expected


def test_transactions_are_open_at_a_selected_time_and_have_a_change_that_fits_the_rest(
    case: Case, rows: Rows, folder: Path
) -> None:
    selected, _, capture = case
    chosen = selected.selection.chosen()
    others = Selection(**{name: value for name, value in chosen.items() if "time" not in name})
    ids = {row["transaction_id"] for row in rows if fits(row, others)}
    known = _table(folder, "transactions")
    wanted = known if not others.chosen() else [one for one in known if one["transaction_id"] in ids]
    if "time_from" in chosen:
        wanted = [one for one in wanted if one["ended_at"] is None or one["ended_at"] >= chosen["time_from"]]
    facts = ask.overview(capture)
    assert facts["transactions"] == len(wanted)
    assert facts["transactions_committed"] == sum(one["outcome"] == "committed" for one in wanted)
    end = max(time for one in known for time in (one["began_at"], one["ended_at"]) if time is not None)
    lasted = {one["transaction_id"]: (one["ended_at"] or end) - one["began_at"] for one in wanted}
    top = ask.ranked(capture, 5, until=end)
    assert [row["lasted_us"] for row in top] == [
        one // timedelta(microseconds=1) for one in sorted(lasted.values(), reverse=True)[:5]
    ]
    assert all(row["changes_total"] == row["changes"][0][1] for row in top)


def test_the_transactions_of_a_window_reach_into_it(source: IndexedCapture) -> None:
    transactions = source.changes.transactions
    window = (time_of(transactions.began[100]), time_of(transactions.began[110]))
    found = transactions.records(ask.reaching(transactions, np.arange(200), window))
    end = time_of(transactions.until)
    expected = {
        row["transaction_id"]
        for row in transactions.records(np.arange(200))
        if row["began_at"] <= window[1] and (row["ended_at"] or end) >= window[0]
    }
    assert {row["transaction_id"] for row in found} == expected


def test_columns_are_counted_by_table(case: Case) -> None:
    _, rows, capture = case
    updates = [row for row in rows if row["operation"] == "UPDATE" and row["changed_columns"] is not None]
    expected = Counter((row["table"], name) for row in updates for name in row["changed_columns"])
    changed = masks.changed(capture)
    found = changed.changed_columns()
    assert {(row["table"], row["column"]): row["changed"] for row in found} == expected
    by_table = Counter(row["table"] for row in updates)
    assert all(row["updates"] == by_table[row["table"]] for row in found)
    pairs = Counter(
        (row["table"], *pair) for row in updates for pair in combinations(sorted(row["changed_columns"]), 2)
    )
    told = changed.together(limit=10_000)
    assert {(row["table"], row["column"], row["other"]): row["together"] for row in told} == pairs
    timed = Counter((row["table"], name) for row in updates if row["at"] for name in row["changed_columns"])
    summed: Counter[tuple[str, str]] = Counter()
    if (axis := masks.axis(capture)) is not None:
        for cell in masks.over_time(capture, axis)[0]:
            summed[cell["table"], cell["column"]] += cell["changed"]
    assert summed == timed


def test_images_of_selected_changes_are_read(case: Case) -> None:
    """Columns that the index lacks are those of the capture, limited to the same changes."""
    _, rows, capture = case
    found = capture.rows("changes", ("offset", "after")).table().to_pylist()
    assert sorted(row["offset"] for row in found) == [row["offset"] for row in rows]
    images = {row["offset"]: row["after"] for row in rows}
    assert {row["offset"]: row["after"] for row in found} == images


def test_tables_are_told_with_their_first_change(case: Case) -> None:
    selected, rows, capture = case
    found = contents.tables(capture)
    first = first_by_table(capture.headers)
    assert {row["table"]: row["changes"] for row in found} == Counter(row["table"] for row in rows)
    for row in found:
        mine = [one for one in rows if one["table"] == row["table"]]
        assert (
            selected.changes.record_index.number("offset", int(capture.headers.record[first[row["table"]]]))
            == mine[0]["offset"]
        )
        assert dict(row["operations"]) == Counter(one["operation"] for one in mine)
        assert (row["first_position"], row["last_position"]) == (mine[0]["position"], mine[-1]["position"])
        assert row["first_time"] == min((one["at"] for one in mine if one["at"]), default=None)


def test_an_index_of_nothing_answers(tmp_path: Path) -> None:
    source = open_source(write_saved(tmp_path / "capture", changes=0, transactions=1))
    selected = Selected(source.changes, Selection(text="x"))
    capture = SelectedCapture(source, selected)
    assert contents.over_time(capture) == contents.OverTime()
    assert contents.tables(capture) == []
    assert masks.axis(capture) is None
    assert selected.transactions().tolist() == []
    assert selected.problems() == []


# --- what only images tell --------------------------------------------------------------------------------------------

DATA = Path(__file__).resolve().parents[2] / "data"


@pytest.mark.parametrize(
    "name",
    [
        *("gbase8s", "qlik-kafka", "qlik-change-table", "goldengate", "goldengate-export"),
        *("debezium", "idm-event-log", "sqlserver-ct", "maxwell", "canal"),
    ],
)
def test_questions_about_masks_need_no_images(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sources of changed columns, counts of values and NULL, changes of keys, and masks are those that a report
    counts over the same part, and the index answers them alone."""
    capture = cdcwb.load(DATA / name)
    source = source_of(capture)
    selected = Selected(source.changes, capture.selection)
    tables = [name for name in source.changes.texts["table"] if name != NO_TABLE]
    fields = [
        {},
        {"operations": ["UPDATE"]},
        {"tables": tables[:1]},
        {"outcomes": ["committed"]},
        {"tables": tables[1:]},
    ]
    for chosen in fields:
        capture.selection.reset()
        capture.selection.update(**chosen)
        report, live = capture.selected(), SelectedCapture(source, selected)
        monkeypatch.setattr(live, "_read", lambda columns: pytest.fail(f"{columns} are read"))
        changed = masks.changed(report)
        assert masks.changed(live) == changed
        assert masks.change_sources(live) == masks.change_sources(report)
        assert masks.columns(live, changed) == masks.columns(report, changed)
        assert masks.key_changes(live) == masks.key_changes(report)
        assert masks.masks(live) == masks.masks(report)


def _images(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    schema = pa.schema([CHANGES.field(name) for name in READ])
    return pa.RecordBatch.from_pylist([{"file_index": 0, "offset": n, **row} for n, row in enumerate(rows)], schema)


def test_the_index_has_which_columns_of_an_image_are_null() -> None:
    images: list[Any] = [{"a": "1", "b": None}, {"a": None}, {}, None, {"a": "1", "b": "2"}]
    rows = described(_images([{"operation": "UPDATE", "after": image} for image in images]))
    assert rows["columns"].to_pylist() == ["a\x1fb", "a", "", None, "a\x1fb"]
    assert rows["nulls"].to_pylist() == ["01", "1", "", None, "00"]


def test_a_key_has_changed_where_both_images_have_it_and_it_was_and_is_not_null() -> None:
    def update(old: dict[str, Any] | None, new: dict[str, Any] | None, operation: str = "UPDATE") -> dict[str, Any]:
        return {"operation": operation, "key": {"a": "1", "b": "2"}, "before": old, "after": new}

    rows = [
        update({"a": "0", "b": "2"}, {"a": "1", "b": "2"}),
        update({"a": "1", "b": "2"}, {"a": "1", "b": "2"}),
        update({"a": None, "b": "1"}, {"a": "1", "b": "2"}),
        update({"b": "1"}, {"a": "1", "b": "2"}),
        update(None, {"a": "1", "b": "2"}),
        update({"a": "0", "b": "1"}, {"a": "1", "b": "2"}, "INSERT"),
        update({"a": "0", "b": "1"}, {"b": "2", "a": "1"}),
    ]
    found = described(_images(rows))
    assert found["old_key"].to_pylist() == ["a=0, b=2", None, None, None, None, None, "a=0, b=1"]
    assert found["new_key"].to_pylist() == ["a=1, b=2", None, None, None, None, None, "a=1, b=2"]
