"""A live view, Spark's tables, the command line and a plain count over the tables give one number for one selection."""

from __future__ import annotations

import csv
import datetime as dt
import json
import struct
from pathlib import Path
from typing import Any

import pytest

import cdcwb
from cdcwb.report.answer import Document
from cdcwb.views.pages import CapturePage, EventLog, Masks, Transactions
from tests import wire
from tests.answers.tables import rows
from tests.answers.test_event_log_statements import NAMES, event
from tests.debezium import POSTGRESQL, change, line
from tests.limits import run

pytestmark = pytest.mark.spark

DATA = Path(__file__).resolve().parents[2] / "data"
FORMATS = ("gbase8s", "qlik-kafka", "qlik-change-table", "goldengate", "debezium", "idm-event-log")
TABLES = {"transactions": ["transaction_id"], "problems": ["code"]}
Rows = list[dict[str, Any]]


class Plain:
    """The tables as lists, and what of them is selected, by the rules that the documentation states."""

    def __init__(self, path: Path) -> None:
        self.events, self.changes, self.transactions, self.problems = (
            rows(path, name) for name in ("events", "changes", "transactions", "problems")
        )
        self.ended = {one["transaction_id"]: one["ended_at"] or one["began_at"] for one in self.transactions}

    def time(self, row: dict[str, Any]) -> dt.datetime | None:
        own = row["changed_at"] or row.get("committed_at")
        time: dt.datetime | None = own or self.ended.get(row["transaction_id"])
        return time

    def selected(self, first: dt.datetime | None, end: dt.datetime | None, tables: list[str]) -> dict[str, int]:
        def in_range(time: dt.datetime | None) -> bool:
            return time is not None and (first is None or time >= first) and (end is None or time < end)

        def is_open(one: dict[str, Any]) -> bool:
            start, last = one["began_at"] or one["ended_at"], one["ended_at"] or one["began_at"]
            if start is None or (end is not None and start >= end):
                return False
            return first is None or (one["ended_at"] is None and one["outcome"] == "open") or last >= first

        def named(row: dict[str, Any]) -> bool:
            label = ".".join(filter(None, (row["schema_name"], row["table_name"])))
            return not tables or label in tables or row["table_name"] in tables

        is_timed = first is not None or end is not None
        changes = [row for row in self.changes if named(row) and (not is_timed or in_range(self.time(row)))]
        with_table = {row["transaction_id"] for row in self.changes if named(row)}
        transactions = [
            one
            for one in self.transactions
            if (not is_timed or is_open(one)) and (not tables or one["transaction_id"] in with_table)
        ]
        numbers = {"changes": len(changes), "transactions": len(transactions)}
        if not tables:
            known = {one["transaction_id"] for one in transactions}
            records = {(row["file"], row["offset"]) for row in self.events if in_range(self.time(row))}
            numbers["problems"] = sum(
                not is_timed or one["transaction_id"] in known or (one["file"], one["offset"]) in records
                for one in self.problems
            )
        return numbers


@pytest.fixture(scope="module", params=FORMATS)
def both(request: pytest.FixtureRequest) -> tuple[Path, Plain, cdcwb.Capture]:
    path = DATA / request.param
    return path, Plain(path), cdcwb.load(str(path))


def selections(plain: Plain) -> list[dict[str, Any]]:
    """Times before, inside and after the capture, and tables."""
    times = sorted(filter(None, map(plain.time, plain.changes)))
    tables = sorted({row["table_name"] for row in plain.changes if row["table_name"]})
    third, half, most = (times[len(times) * part // 12] for part in (4, 6, 10))
    return [
        {},
        {"time_from": third},
        {"time_to": half},
        {"time_from": third, "time_to": most},
        {"time_from": half, "time_to": half + dt.timedelta(seconds=1)},
        {"time_from": times[-1]},
        {"time_to": times[0]},
        {"tables": [tables[0]]},
        {"tables": tables[:2], "time_from": half},
        {"tables": tables, "time_from": third, "time_to": most},
    ]


def test_numbers_are_the_same_everywhere(both: tuple[Path, Plain, cdcwb.Capture]) -> None:
    path, plain, capture = both
    on_spark = (3, 8) if path.name == "gbase8s" else (8,)  # its rows have no times
    for number, chosen in enumerate(selections(plain)):
        first, end, tables = chosen.get("time_from"), chosen.get("time_to"), chosen.get("tables", [])
        expected = plain.selected(first, end, tables)
        capture.selection.reset()
        capture.selection.update(**chosen)
        views = capture.view
        live = {
            "changes": sum(sum(operations.values()) for operations in views.capture.tables().facts["tables"].values()),
            "transactions": views.transactions.timeline().facts["transactions"],
            "problems": views.capture.problems().facts["problems"],
        }
        assert {name: live[name] for name in expected} == expected, ("live", chosen)
        if number in on_spark:
            part = capture.selected()
            assert {name: getattr(part, name).count() for name in expected} == expected, ("spark", chosen)


def test_the_command_line_counts_like_the_views(both: tuple[Path, Plain, cdcwb.Capture]) -> None:
    path, plain, _capture = both
    for chosen in selections(plain)[3:4]:
        options = ["--from", chosen["time_from"].isoformat(), "--until", chosen["time_to"].isoformat()]
        code, text = run(["summary", str(path), "--json", *options])
        assert code == 0, text
        facts = json.loads(text)
        found = {"changes": facts["changes"], "problems": facts["problems"]}
        found["transactions"] = facts["transactions"]
        assert found == plain.selected(chosen["time_from"], chosen["time_to"], [])


def test_a_brush_over_the_demo_keeps_what_was_open_then() -> None:
    """A rolled-back transaction has no time at its end, and changes of it have none of their own."""
    first, end = (dt.datetime(2025, 3, 23, 8, 1, 39, tzinfo=dt.UTC), dt.datetime(2025, 3, 23, 8, 2, 37, tzinfo=dt.UTC))
    capture, plain = cdcwb.load(str(DATA / "gbase8s")), Plain(DATA / "gbase8s")
    capture.selection.update(time_from=first, time_to=end)
    assert capture.view.transactions.timeline().facts["transactions_rolled_back"] > 0
    lasting = [
        (one["began_at"], one["ended_at"] or dt.datetime.max.replace(tzinfo=dt.UTC))
        for one in plain.transactions
        if one["ended_at"] or one["outcome"] == "open"
    ]
    moments = [time for time, _ in lasting if first <= time < end] + [first]
    most = max(sum(begin <= time < last for begin, last in lasting) for time in moments)
    once = capture.view.transactions.concurrency()
    assert once.facts["concurrency_most"] == most
    shown = [axis.range for axis in (once.figure.layout.xaxis, capture.view.capture.over_time().figure.layout.xaxis)]
    assert shown[0] == shown[1]


# --- more than a page lists, and nothing ------------------------------------------------------------------------------


def debezium(folder: Path, *changes: tuple[Any, Any], **source: Any) -> cdcwb.Capture:
    """A capture of changes of one table, given by their images; ``source``: of all of them."""
    lines = []
    for number, (before, after) in enumerate(changes):
        op = "c" if before is None else "u"
        made = change(op, before, after, {**POSTGRESQL, "lsn": 100 + number, "txId": 100 + number, **source})
        lines.append(line(made, {"id": (before or after)["id"]}))
    folder.mkdir(exist_ok=True)
    (folder / "messages.txt").write_bytes(b"".join(lines))
    return cdcwb.load(str(folder))


def notes(answer: Any) -> list[str]:
    return [block.text for block in answer.blocks if isinstance(block, Document)]


def test_numbers_count_also_what_a_page_does_not_list(tmp_path: Path) -> None:
    moves = debezium(tmp_path / "moves", *(({"id": n}, {"id": 100 + n}) for n in range(60)))
    for page in (moves.view.masks, Masks.of(moves)):
        (answer,) = page.keys().answers().values() if page is moves.view.masks else [page.keys()]
        assert (answer.facts["key_changes"], answer.tables[0].count, len(answer.tables[0].rows)) == (60, 60, 50)

    stream = wire.schema("n integer", 4, 1, 0)
    for number in range(1, 61):
        at = 0x100 * number
        stream += wire.begin(number, at) + wire.row(40, number, at + 1, struct.pack(">i", number))
        stream += wire.discard(number, at + 1) + wire.commit(number, at + 2)
    (tmp_path / "stream.bin").write_bytes(stream)
    undone = Transactions.of(cdcwb.load(str(tmp_path / "stream.bin"))).undone()
    assert (len(undone.facts["undone_changes"]), undone.tables[0].count, len(undone.tables[0].rows)) == (60, 60, 50)

    rows = [
        event(2 * n + k, 6, f"id={n}" if k else f"id= {n}", perpetrator=f"user {n}") for n in range(60) for k in (0, 1)
    ]
    with (tmp_path / "0.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, NAMES)
        writer.writeheader()
        writer.writerows(rows)
    page = EventLog.of(cdcwb.load(str(tmp_path / "0.csv")))
    assert page.spellings().facts["key_spellings"] == page.spellings().tables[0].count == 60
    assert page.users().tables[0].count == 60


def test_charts_of_masks_say_what_they_leave_out(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(70)]
    capture = debezium(
        tmp_path, *(({"id": 1} | dict.fromkeys(names, n), {"id": 1} | dict.fromkeys(names, n + 1)) for n in (0, 1))
    )
    page = Masks.of(capture)
    most = ", 60 of 70 columns, those that change most:"
    assert notes(page.values()) == [f"public.orders{most}"]
    assert notes(page.together())[-1] == "200 of 2,016 pairs of columns: the most frequent."


def test_changes_without_a_table_or_known_columns_contradict_no_other_number(tmp_path: Path) -> None:
    capture = debezium(tmp_path / "a", (None, {"id": 1}), ({"id": 1}, {"id": 1}), table=None, schema=None)
    assert json.loads(run(["summary", str(tmp_path / "a"), "--json"])[1])["tables"] == []
    (tables,) = capture.view.capture.tables().answers().values()
    assert tables.headline == "2 changes of no tables, most of (no table): 2"
    assert "(no table)" not in capture._repr_html_()
    for page in (capture.view.history(), capture.view.replay()):
        assert page.overview().facts["headline"].endswith(": no change names a table")
    capture.selection.update(tables=["(no table)"])
    part, numbers = capture.selected(), {"changes": ["operation"], **TABLES}
    assert [part.rows(name, columns).fold(len, sum) for name, columns in numbers.items()] == [2, 2, 2]
    assert capture.view.capture.problems().facts["problems"] == 2
    (answer,) = capture.view.masks.over_time().answers().values()
    assert answer.headline == "1 update of no tables changes no columns; 1 no-op update"

    (tmp_path / "log.csv").write_text(f"{','.join(NAMES)}\n1,id=1,N,6,2026-03-01 10:00:00,,usr,,,\n")
    log = cdcwb.load(str(tmp_path / "log.csv"))
    (answer,) = log.view.masks.over_time().answers().values()
    assert answer.headline == Masks.of(log).overview().facts["headline"]
    assert [table.none for table in Masks.of(log).values().tables] == ["No update has an image after the change."]


def test_sentences_hold_for_one_and_for_none(tmp_path: Path) -> None:
    page = Transactions.of(debezium(tmp_path / "one", ({"id": 1}, {"id": 2})))
    assert notes(page.latency())[-1].startswith("No change has a time of its own and one of its commit")
    assert notes(page.unfinished())[0].startswith("Of 1 transaction it is not known whether an event is missing")
    stream = wire.schema("n integer", 4, 1, 0) + wire.begin(1, 0x18) + wire.row(40, 1, 0x20, b"\0\0\0\7")
    (tmp_path / "stream.bin").write_bytes(stream)
    once = Transactions.of(cdcwb.load(str(tmp_path / "stream.bin"))).concurrency()
    assert "Not counted: 1 transaction with begin and end at one time." in notes(once)

    untimed = dict.fromkeys(("ts_ms", "ts_us", "ts_ns"))
    gap = debezium(tmp_path / "gap", (None, {"id": 1, "v": 1}), ({"id": 1, "v": 2}, {"id": 1, "v": 3}), **untimed)
    continuity = gap.view.continuity
    assert notes(continuity.over_time()) == ["Without a time, so not in the chart: 1 break."]

    (tmp_path / "empty.txt").write_bytes(b"")
    capture = cdcwb.load(str(tmp_path / "empty.txt"), format="debezium")
    (cards,) = (text for text in notes(CapturePage.of(capture).overview()) if text.startswith("format: "))
    assert "files: 1 (0 bytes)" in cards
    assert "no records" in capture._repr_html_()
    assert "()" not in cards
    (tmp_path / "log.csv").write_text(f"{','.join(NAMES)}\n1,id=1,N,6,2026-03-01 10:00:00,,usr,,,\n")
    assert notes(EventLog.of(cdcwb.load(str(tmp_path / "log.csv"))).documents()) == ["There are no documents."]


@pytest.mark.parametrize(
    "chosen",
    [
        {"columns": ["note"]},
        {"tables": ["shop.orders"], "operations": ["DELETE"]},
        {"tables": ["shop.orders"], "operations": ["UPDATE"], "columns": ["state"]},
        {"outcomes": ["undone"]},
        {"outcomes": ["rolled_back", "open"]},
        {"tables": ["shop.orders"], "outcomes": ["undone", "committed"], "position_from": "0000000B03FF6230"},
    ],
)
def test_one_change_fits_all_fields_of_a_selection_in_tables_and_views(chosen: dict[str, Any]) -> None:
    capture = cdcwb.load(str(DATA / "gbase8s"))
    capture.selection.update(**chosen)
    part, views = capture.selected(), capture.view
    live = views.transactions.timeline().facts["transactions"], views.capture.problems().facts["problems"]
    assert live == tuple(part.rows(table, names).fold(len, sum) for table, names in TABLES.items())
    assert live[0] > 0


def test_a_filter_by_changed_columns_keeps_their_transactions() -> None:
    facts = json.loads(run(["summary", str(DATA / "gbase8s"), "--where", 'changed_columns == "note"', "--json"])[1])
    assert facts["changes"] >= facts["transactions"] > 0


def test_a_name_with_a_control_character_is_one_column(tmp_path: Path) -> None:
    capture = debezium(tmp_path, ({"id": 1, "a\x1fb": 1}, {"id": 1, "a\x1fb": 2}))
    assert capture.view.masks.over_time().facts["columns_changed"] == 1
