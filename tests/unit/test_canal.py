"""Canal's flat messages: several rows in one, what each field becomes, and that damage loses nothing."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cdcwb
from cdcwb.analysis.history import RowHistory
from cdcwb.analysis.replay import state
from cdcwb.analysis.xds_changes import page_of
from cdcwb.cli import main
from cdcwb.explore.follow import FollowedRows
from cdcwb.explore.model import Explorer
from cdcwb.formats import identify, inspect
from cdcwb.index.selected import Selected
from cdcwb.index.selected_capture import SelectedCapture
from cdcwb.index.selection import Selection
from cdcwb.index.source import open_source
from cdcwb.opening import open_small
from cdcwb.testing import check_format
from cdcwb.xds.settings import Settings

DATA: list[dict[str, Any]] = [
    {"id": "1", "name": "elm", "w": "5.10"},
    {"id": "2", "name": None, "w": "1.00"},
    {"id": "3", "name": "öak", "w": ""},
]
MESSAGE: dict[str, Any] = {
    "data": DATA, "database": "shop", "es": 1589373560000, "id": 9, "isDdl": False,
    "mysqlType": {"id": "int", "name": "varchar(20)", "w": "decimal(10,2)"}, "old": None, "pkNames": ["id"], "sql": "",
    "sqlType": {"id": 4, "name": 12, "w": 3}, "table": "items", "ts": 1589373560798, "type": "INSERT",
}  # fmt: skip
UPDATE = {**MESSAGE, "type": "UPDATE", "data": DATA[:2], "old": [{"w": "5.00"}, {"name": "ash", "w": "1.00"}]}
STATEMENT = {**MESSAGE, "data": None, "isDdl": True, "type": "ALTER", "sql": "ALTER TABLE items ADD x int"}


def small(path: Path, **options: Any) -> Any:
    found = open_small([str(path)], "auto", options)
    assert found is not None
    return found


def topic(folder: Path, *messages: Any) -> Path:
    """A file with a message a line."""
    path = folder / "canal.jsonl"
    path.write_text("\n".join(json.dumps(one, ensure_ascii=False) for one in messages) + "\n", encoding="utf-8")
    return path


def rows(folder: Path, *messages: Any) -> Path:
    """A Parquet file with a message a row."""
    values = [json.dumps(one).encode() for one in messages]
    pq.write_table(pa.table({"value": pa.array(values, pa.binary())}), folder / "rows.parquet")
    return folder / "rows.parquet"


def changes(path: Path, **options: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = small(path, **options).table("changes").to_pylist()
    for row in rows:
        row |= {image: None if row[image] is None else dict(row[image]) for image in ("key", "before", "after")}
    return rows


def test_a_message_with_several_rows_is_as_many_changes(tmp_path: Path) -> None:
    path = topic(tmp_path, MESSAGE, UPDATE)
    assert identify(path).format == "canal"
    found = changes(path)
    assert [row["operation"] for row in found] == ["INSERT"] * 3 + ["UPDATE"] * 2
    assert [row["after"] for row in found[:3]] == DATA
    assert [row["key"] for row in found] == [{"id": one} for one in ("1", "2", "3", "1", "2")]
    assert found[3]["before"] == {"id": "1", "name": "elm", "w": "5.00"}
    assert [row["changed_columns"] for row in found[3:]] == [["w"], ["name"]]
    assert found[0]["changed_at"] == datetime(2020, 5, 13, 12, 39, 20, tzinfo=UTC)


def test_every_row_has_its_own_bytes_of_the_message(tmp_path: Path) -> None:
    path = topic(tmp_path, MESSAGE, UPDATE)
    data = path.read_bytes()
    rows = small(path).table("events").to_pylist()
    parts = [data[row["offset"] : row["offset"] + row["length"]] for row in rows]
    assert b"".join(parts) == data
    for row, part in zip(rows, parts, strict=True):
        assert json.dumps(dict(row["after"]), ensure_ascii=False).encode() in part
        assert row["raw"] == part.rstrip(b"\n")
        shown = inspect(path, row["offset"])
        assert (shown.offset, shown.event["offset"]) == (
            (0, row["offset"]) if row in rows[:3] else (rows[3]["offset"], row["offset"])
        )


def test_the_explorer_shows_every_row_with_the_bytes_of_its_message(tmp_path: Path) -> None:
    for path in (topic(tmp_path, MESSAGE, UPDATE), rows(tmp_path, MESSAGE, UPDATE)):
        explorer = Explorer.open(path)
        for number, event in enumerate(small(path).table("events").to_pylist()):
            record = explorer.records.read(number)
            assert record.event["after"] == dict(event["after"])
            assert (record.event["offset"], record.event["raw"]) == (event["offset"], event["raw"])
            assert json.loads(record.data or b"") == (MESSAGE if number < 3 else UPDATE)


def test_each_row_of_a_message_is_found_as_a_record_of_its_own(tmp_path: Path) -> None:
    source = open_source(rows(tmp_path, {**MESSAGE, "data": [DATA[0], 7, DATA[2]]}, UPDATE))
    index, changed = source.index, source.changes
    assert changed.record.tolist() == [0, 2, 3, 4]
    assert index.in_turn(np.array([0, 0, 0]), np.array([0, 1, 1])).tolist() == [2, 3, 4]  # a batch begins in a message
    explorer = Explorer(source)
    explorer.apply("before.name == 'ash'")
    explorer.advance()
    assert [explorer.row_at(number) for number in range(explorer.shown)] == [4]
    followed = FollowedRows(source)
    keys = [followed.keys_of("shop.items", number) for number in range(5)]
    assert keys == [["id=1"], [], ["id=3"], ["id=1"], ["id=2"]]
    selected = SelectedCapture(source, Selected(changed, Selection(columns=["name"])))
    assert [dict(one) for one in selected.rows("changes", ["after"]).table()["after"].to_pylist()] == [DATA[1]]


def test_a_break_is_that_of_its_row_alone(tmp_path: Path) -> None:
    second = {**UPDATE, "id": 10, "old": [{}, {"name": "ash"}]}  # of the first row nothing is missing
    for path in (topic(tmp_path, MESSAGE, second), rows(tmp_path, MESSAGE, second)):
        page = cdcwb.load(path).view.continuity
        shown = [page.chain(table="shop.items", key=f"id={one}").frame for one in (1, 2)]
        assert [list(one["broken"].notna()) for one in shown] == [[False, False], [False, True]]


def test_a_document_is_shown_with_the_values_of_its_row(tmp_path: Path) -> None:
    for path in (topic(tmp_path, MESSAGE), rows(tmp_path, MESSAGE)):
        capture = cdcwb.load(path)
        (document,) = page_of(capture, capture, Settings()).documents(1)
        assert [row["new_value"] for row in document["rows"]] == ["1", "elm", "5.10"]


@pytest.mark.parametrize(("followed", "changes"), [(10, 2), (0, 1)])
def test_rows_of_a_message_can_take_the_keys_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, followed: int, changes: int
) -> None:
    monkeypatch.setattr("cdcwb.analysis.replay._MOST_MOVES", followed)
    moved = {**UPDATE, "id": 10, "data": [row | {"id": str(int(row["id"]) + 1)} for row in reversed(DATA)]}
    moved["old"] = [{"id": row["id"]} for row in reversed(DATA)]
    for path in (topic(tmp_path, MESSAGE, moved), rows(tmp_path, MESSAGE, moved)):
        capture = cdcwb.load(path)
        states = state(capture, "shop.items").table().to_pylist()
        assert sorted((dict(row["key"])["id"], dict(row["row"])["name"], row["changes"]) for row in states) == [
            ("2", "elm", changes), ("3", None, changes), ("4", "öak", changes),
        ]  # fmt: skip
        shown = RowHistory.of(capture, "shop.items", {"id": "4"}).shown
        assert [(one["operation"], one["image"]["name"]) for one in shown] == [("INSERT", "öak"), ("UPDATE", "öak")]


def test_inspect_shows_the_problems_of_all_rows_of_a_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = rows(tmp_path, MESSAGE, {**UPDATE, "old": [{"w": "5.00"}, None]})
    assert main(["inspect", str(path), "--offset", "1"]) == 0
    assert "problem value: old: expected an object for each row in data" in capsys.readouterr().out


def test_rows_of_a_dataframe_or_of_base64_are_the_same(tmp_path: Path) -> None:
    values = [json.dumps(one).encode() for one in (MESSAGE, UPDATE)]
    rows(tmp_path, MESSAGE, UPDATE)
    (tmp_path / "lines.txt").write_bytes(b"".join(base64.b64encode(value) + b"\n" for value in values))
    expected = [(row["operation"], row["before"], row["after"]) for row in changes(topic(tmp_path, MESSAGE, UPDATE))]
    for name, options in (("rows.parquet", {}), ("lines.txt", {"encoding": "base64"})):
        found = changes(tmp_path / name, **options)
        assert [(row["operation"], row["before"], row["after"]) for row in found] == expected, name
    assert [row["length"] for row in changes(tmp_path / "rows.parquet")] == [1, 0, 0, 1, 0]


def test_a_delete_has_the_rows_before(tmp_path: Path) -> None:
    found = changes(topic(tmp_path, {**MESSAGE, "type": "DELETE"}))
    assert [(row["before"], row["after"]) for row in found] == [(row, None) for row in DATA]


def test_the_message_gives_types_and_key(tmp_path: Path) -> None:
    (version,) = small(topic(tmp_path, MESSAGE)).table("table_versions").to_pylist()
    found = [(one["name"], one["type"], one["key_position"]) for one in version["columns"]]
    assert found == [("id", "int", 1), ("name", "varchar(20)", None), ("w", "decimal(10,2)", None)]


def test_statements_are_ddl_and_a_truncate_is_a_change(tmp_path: Path) -> None:
    truncate = {**STATEMENT, "type": "TRUNCATE", "sql": "TRUNCATE TABLE items"}
    query = {**STATEMENT, "type": "QUERY", "table": "", "sql": "CREATE DATABASE shop"}
    update = {**STATEMENT, "type": "QUERY", "isDdl": False, "sql": "UPDATE items SET w = 1"}
    rows = small(topic(tmp_path, MESSAGE, STATEMENT, truncate, query, update)).table("events").to_pylist()[3:]
    assert [(row["kind"], row["operation"], row["table_name"]) for row in rows] == [
        ("schema", "DDL", "items"), ("change", "TRUNCATE", "items"), ("schema", "DDL", None),
        ("control", None, "items"),
    ]  # fmt: skip
    assert dict(rows[0]["headers"])["sql"] == "ALTER TABLE items ADD x int"


def test_one_gtid_is_one_transaction(tmp_path: Path) -> None:
    path = topic(tmp_path, *({**MESSAGE, "gtid": gtid} for gtid in ("u:1-5", "u:1-5", "u:1-6", "")))
    found = small(path).table("transactions").to_pylist()
    assert [(row["transaction_id"], dict(row["changes"])) for row in found] == [
        ("u:1-5", {"INSERT": 6}), ("u:1-6", {"INSERT": 3}),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("odd", "column", "expected"),
    [
        ({"es": 1655812326}, "changed_at", datetime(2022, 6, 21, 11, 52, 6, tzinfo=UTC)),
        ({"es": None}, "changed_at", None),
        ({"es": 10**17}, "changed_at", None),
        ({"id": 9}, "position", "0" * 19 + "9"),
        ({"id": 0}, "position", None),
        ({"id": "a"}, "position", None),
        ({"_tidb": {"commitTs": 429918007904436226}}, "position", "00429918007904436226"),
        ({"database": None, "table": None}, "table_name", None),
    ],
)
def test_variants_of_fields(tmp_path: Path, odd: dict[str, Any], column: str, expected: Any) -> None:
    assert changes(topic(tmp_path, {**MESSAGE, **odd}))[0][column] == expected


def test_a_watermark_is_a_heartbeat(tmp_path: Path) -> None:
    mark = {**STATEMENT, "type": "TIDB_WATERMARK", "isDdl": False, "_tidb": {"watermarkTs": 429918007904436226}}
    (row,) = small(topic(tmp_path, mark)).table("events").to_pylist()
    assert (row["kind"], row["position"]) == ("heartbeat", "00429918007904436226")


@pytest.mark.parametrize("old", [None, [], [{"w": "1"}], [{"w": "1"}, None]])
def test_an_update_without_its_old_row_has_no_row_before(tmp_path: Path, old: Any) -> None:
    capture = small(topic(tmp_path, {**UPDATE, "old": old}))
    last = capture.table("changes").to_pylist()[-1]
    assert (last["before"], last["after"][0]) == (None, ("id", "2"))
    assert last["problems"][0]["code"] == "value"


@pytest.mark.parametrize(
    "damaged",
    [
        {**MESSAGE, "type": "UPSERT"}, {**MESSAGE, "data": []}, {**MESSAGE, "data": [1]}, {**MESSAGE, "data": None},
        {**MESSAGE, "type": ["INSERT"]}, {**MESSAGE, "es": "now"}, {**MESSAGE, "data": {"id": 1}}, 7, None,
        {**MESSAGE, "mysqlType": 4, "data": DATA[:1]},
    ],
)  # fmt: skip
def test_what_is_not_a_message_of_canal_is_a_problem_with_its_place(tmp_path: Path, damaged: Any) -> None:
    path = topic(tmp_path, STATEMENT, damaged, STATEMENT)
    rows = small(path).table("events").to_pylist()
    assert [row["kind"] for row in rows] == ["schema", "tombstone" if damaged is None else "malformed", "schema"]


def test_it_passes_the_checks_of_every_format(tmp_path: Path) -> None:
    path = topic(tmp_path, MESSAGE, UPDATE, STATEMENT, {**MESSAGE, "type": "?"}, {**UPDATE, "gtid": "u:1-7"})
    made = check_format("canal", [path], mutations=60)
    assert (made.events, made.changes, made.transactions, made.problems) == (9, 7, 1, 1)
