"""Maxwell's messages: what each field becomes, and that damage loses nothing."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cdcwb.formats import identify, inspect
from cdcwb.opening import open_small
from cdcwb.testing import check_format

ROW: dict[str, Any] = {"database": "shop", "table": "orders", "type": "insert", "ts": 1764320410, "data": {"id": 2}}


def small(path: Path, **options: Any) -> Any:
    found = open_small([str(path)], "auto", options)
    assert found is not None
    return found


def topic(folder: Path, *messages: Any) -> Path:
    """A file with a message a line; a text is a line as it is."""
    path = folder / "maxwell.jsonl"
    lines = [one if isinstance(one, str) else json.dumps(one, separators=(",", ":")) for one in messages]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def read(folder: Path, *messages: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = small(topic(folder, *messages)).table("events").to_pylist()
    for row in rows:
        row |= {image: None if row[image] is None else dict(row[image]) for image in ("key", "before", "after")}
    return rows


def test_a_topic_is_identified(tmp_path: Path) -> None:
    found = identify(topic(tmp_path, ROW, {**ROW, "type": "delete"}))
    assert (found.format, found.confidence) == ("maxwell", 0.98)


def test_columns_that_old_lacks_are_equal_before_and_after(tmp_path: Path) -> None:
    update = '{"database":"shop","table":"orders","type":"update","ts":1764320410,"data":{"id":2,"total":1.20,"note":null,"set":["a","b"]},"old":{"total":1.10,"note":""}}'  # noqa: E501
    path = topic(tmp_path, update)
    change = small(path).table("changes").to_pylist()[0]
    assert dict(change["before"]) == {"id": "2", "total": "1.10", "note": "", "set": '["a","b"]'}
    assert dict(change["after"]) == {"id": "2", "total": "1.20", "note": None, "set": '["a","b"]'}
    assert (change["changed_columns"], change["change_source"]) == (["total", "note"], "images")
    assert change["changed_at"] == datetime(2025, 11, 28, 9, 0, 10, tzinfo=UTC)


def test_a_column_that_only_old_has_became_null(tmp_path: Path) -> None:
    (change,) = small(topic(tmp_path, {**ROW, "type": "update", "old": {"note": "x"}})).table("changes").to_pylist()
    assert (dict(change["before"]), dict(change["after"])) == ({"id": "2", "note": "x"}, {"id": "2", "note": None})
    assert change["changed_columns"] == ["note"]


def test_an_empty_name_is_none(tmp_path: Path) -> None:
    events = read(tmp_path, {**ROW, "database": ""}, {**ROW, "table": ""})
    assert [(row["schema_name"], row["table_name"]) for row in events] == [(None, "orders"), ("shop", None)]


def test_a_delete_has_the_row_before(tmp_path: Path) -> None:
    row = read(tmp_path, {**ROW, "type": "delete"})[0]
    assert (row["operation"], row["before"], row["after"]) == ("DELETE", {"id": "2"}, None)


@pytest.mark.parametrize(
    ("numbers", "completeness"),
    [
        ([0, 1, None], "complete"),
        ([0, 2, None], "gaps"),
        ([1, None], "no_begin"),
        ([0, 1], "no_end"),
        ([None], "unknown"),
    ],
)
def test_a_transaction_is_complete_by_xoffset_and_commit(
    tmp_path: Path, numbers: list[int | None], completeness: str
) -> None:
    rows = [
        {**ROW, "xid": 7, "position": f"master.000006:{900 + 100 * at}"}
        | ({"commit": True} if number is None else {"xoffset": number})
        for at, number in enumerate(numbers)
    ]
    capture = small(topic(tmp_path, *rows))
    (found,) = capture.table("transactions").to_pylist()
    assert (found["transaction_id"], found["outcome"], found["completeness"]) == ("7", "committed", completeness)
    last = f"master.000006:{800 + 100 * len(numbers):010}"
    assert found["end_position"] == (last if numbers[-1] is None else None)
    positions = [row["position"] for row in capture.table("events").to_pylist()]
    assert positions == sorted(positions)


def test_rows_of_a_bootstrap_are_snapshot_reads_without_transaction(tmp_path: Path) -> None:
    kinds = ("bootstrap-start", "bootstrap-insert", "bootstrap-complete")
    capture = small(topic(tmp_path, *({**ROW, "type": kind, "xid": 3, "position": "m.1:5"} for kind in kinds)))
    assert [row["kind"] for row in capture.table("events").to_pylist()] == ["control", "change", "control"]
    (change,) = capture.table("changes").to_pylist()
    assert [change[name] for name in ("operation", "position", "transaction_id", "outcome")] == [
        "REFRESH",
        None,
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ('{"database":"shop","table":"orders","pk.id":4,"pk.part":"x"}', {"ID": "4", "part": "x"}),
        ('["shop","orders",[{"id":4},{"part":"x"}]]', {"ID": "4", "part": "x"}),
        ('{"database":"shop","table":"orders","_uuid":"6c4e"}', None),
        ("shop", None),
        ("[7]", None),
        ('["shop","orders",[7]]', None),
    ],
)
def test_the_key_of_a_message_gives_the_key_columns(tmp_path: Path, key: str, expected: Any) -> None:
    body = json.dumps({**ROW, "data": {"ID": 4, "part": "x"}})
    path = tmp_path / "console.txt"
    path.write_text(f"{key}\t{body}\n{key}\tnull\n", encoding="utf-8")
    change, tombstone = small(path).table("events").to_pylist()
    assert (change["key"] and dict(change["key"])) == expected
    assert tombstone["kind"] == "tombstone"
    assert tombstone["table_name"] == ("orders" if expected or "_uuid" in key else None)


def test_the_message_itself_may_name_its_key(tmp_path: Path) -> None:
    row = read(tmp_path, {**ROW, "primary_key": [2], "primary_key_columns": ["id"]})[0]
    assert row["key"] == {"id": "2"}


def test_ddl_gives_the_columns_with_their_types_and_keys(tmp_path: Path) -> None:
    columns = [{"type": "bigint", "name": "id", "signed": False}, {"type": "varchar", "name": "note"}]
    statement = {"type": "table-create", "database": "shop", "table": "orders", "ts": 1477053126000, "sql": "create …"}
    statement["def"] = {"table": "orders", "columns": columns, "primary-key": ["id"]}
    capture = small(topic(tmp_path, ROW, statement))
    event = capture.table("events").to_pylist()[1]
    assert (event["kind"], event["operation"], dict(event["headers"])["sql"]) == ("schema", "DDL", "create …")
    assert event["changed_at"] == datetime(2016, 10, 21, 12, 32, 6, tzinfo=UTC)
    (version,) = capture.table("table_versions").to_pylist()
    found = [(one["name"], one["type"], one["key_position"]) for one in version["columns"]]
    assert found == [("id", "bigint unsigned", 1), ("note", "varchar", None)]


def test_an_encrypted_row_is_a_change_without_images(tmp_path: Path) -> None:
    row = {name: value for name, value in ROW.items() if name != "data"} | {"encrypted": {"iv": "", "bytes": ""}}
    event = read(tmp_path, ROW, row)[1]
    assert (event["kind"], event["after"], event["problems"][0]["code"]) == ("change", None, "value")


@pytest.mark.parametrize(
    "damaged",
    [
        {**ROW, "type": "upsert"}, {**ROW, "data": [1]}, {**ROW, "data": None}, {**ROW, "ts": "now"},
        {**ROW, "ts": 1.5},
        {**ROW, "database": 3}, {**ROW, "type": ["insert"]}, {**ROW, "type": "update", "old": [1]}, [ROW], 7,
        {**ROW, "primary_key_columns": 5},
    ],
)  # fmt: skip
def test_what_is_not_a_message_of_maxwell_is_a_problem_with_its_place(tmp_path: Path, damaged: Any) -> None:
    path = topic(tmp_path, ROW, damaged, ROW)
    capture = small(path)
    assert [row["kind"] for row in capture.table("events").to_pylist()] == ["change", "malformed", "change"]
    (problem,) = capture.table("problems").to_pylist()
    assert (problem["code"], problem["offset"]) == ("malformed", len(json.dumps(ROW, separators=(",", ":"))) + 1)


@pytest.mark.parametrize(
    ("odd", "column"),
    [({"ts": 10**15}, "changed_at"), ({"xid": 1, "xoffset": 10**30}, "event_no"), ({"position": 5}, "position")],
)
def test_an_odd_field_costs_that_column_only(tmp_path: Path, odd: dict[str, Any], column: str) -> None:
    row = read(tmp_path, {**ROW, **odd})[0]
    assert (row["kind"], row[column], row["after"]) == ("change", None, {"id": "2"})


def test_fields_are_dissected_with_their_meaning(tmp_path: Path) -> None:
    path = topic(tmp_path, ROW, {**ROW, "xid": 99, "commit": True})
    found = {node.name: node for node in inspect(path, path.stat().st_size - 5).field.walk()}
    assert (found["xid"].value, found["xid"].meaning) == ("99", "id of the transaction")
    assert found["id"].meaning == "a column"


def test_it_passes_the_checks_of_every_format(tmp_path: Path) -> None:
    rows = [{**ROW, "xid": at // 3, "xoffset": at % 3} for at in range(9)]
    made = check_format("maxwell", [topic(tmp_path, *rows, {**ROW, "type": "?"})], mutations=60)
    assert (made.events, made.changes, made.transactions, made.problems) == (10, 9, 3, 4)
