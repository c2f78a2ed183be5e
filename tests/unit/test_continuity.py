"""The continuity of rows: what was lost, repeated, reordered or revived, and what only looks like it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import cdcwb
from cdcwb.analysis import row_breaks
from cdcwb.analysis.continuity import breaks, continuity, continuity_lines
from cdcwb.cli.__main__ import main
from tests.changes import Tables, change, version

ROOT = Path(__file__).parents[2]
T = "shop.orders"
KEYS = {
    "gbase8s": "customer:customer_id orders:order_id order_line:line_id reading:reading_id stock_move:move_id",
    "sqlserver-ct": "customer:customer_id orders:order_id order_line:line_id",
}


def insert(number: int, v: str | None, key: str = "1", **facts: Any) -> dict[str, Any]:
    return change(number, "INSERT", T, key={"id": key}, after={"id": key, "v": v}, **facts)


def update(number: int, old: str | None, new: str | None, key: str = "1", **facts: Any) -> dict[str, Any]:
    images = {"before": {"id": key, "v": old}, "after": {"id": key, "v": new}}
    return change(number, "UPDATE", T, key={"id": key}, **{**images, **facts})


def delete(number: int, v: str | None, key: str = "1", **facts: Any) -> dict[str, Any]:
    return change(number, "DELETE", T, key={"id": key}, before={"id": key, "v": v}, **facts)


def read(number: int, v: str | None, key: str = "1", **facts: Any) -> dict[str, Any]:
    nowhere = {"position": None, "commit_position": None, "transaction_id": None, "outcome": None}
    return change(number, "REFRESH", T, key={"id": key}, after={"id": key, "v": v}, **{**nowhere, **facts})


def at(number: int, position: int) -> dict[str, Any]:
    """A change at another position than that of its place in the capture."""
    return {"position": f"{position:016X}", "commit_position": f"{position:016X}"}


def found(changes: Iterable[dict[str, Any]], *versions: dict[str, Any]) -> list[tuple[str, int, int | None]]:
    """The breaks of changes: kind, number of the change and of the earlier one."""
    capture = Tables(changes=list(changes), table_versions=list(versions))
    capture.files = [{"file_index": 0, "file": "capture.bin"}]
    rows = breaks(capture).table().sort_by("offset").to_pylist()
    listed = continuity(capture).listed
    assert [(row["kind"], row["offset"]) for row in listed] == [(row["kind"], row["offset"]) for row in rows]
    return [
        (row["kind"], row["offset"] // 100, None if row["earlier_offset"] is None else row["earlier_offset"] // 100)
        for row in rows
    ]


def test_each_change_begins_where_the_one_before_ended() -> None:
    assert found([insert(1, "1"), update(2, "1", "2"), update(3, "2", None), delete(4, None), insert(5, "7")]) == []


def test_a_missing_version_is_a_gap_that_names_both_records() -> None:
    assert found([insert(1, "1"), update(2, "1", "2"), update(4, "3", "4"), delete(5, "4")]) == [("gap", 4, 2)]
    assert found([insert(1, "1"), insert(3, "2"), delete(4, "2")]) == [("gap", 3, 1)]
    assert found([insert(1, "1"), delete(3, "9")]) == [("gap", 3, 1)]


def test_two_columns_that_swap_their_values_are_another_version() -> None:
    images = {"before": {"id": "1", "v": "0", "w": "1"}, "after": {"id": "1", "v": "0", "w": "2"}}
    first = change(1, "INSERT", T, key={"id": "1"}, after={"id": "1", "v": "1", "w": "0"})
    assert found([first, change(2, "UPDATE", T, key={"id": "1"}, **images)]) == [("gap", 2, 1)]


def test_a_row_that_is_older_than_the_capture_is_no_break() -> None:
    assert found([update(1, "1", "2"), update(2, "2", "3")]) == []
    assert found([delete(1, "1"), insert(2, "1")]) == []


def test_a_change_that_comes_again_is_a_repeat_and_changes_nothing() -> None:
    rows = [insert(1, "1"), update(2, "1", "2"), update(3, "2", "3")]
    again = [update(4, "1", "2", **at(4, 2), transaction_id="t2"), update(5, "2", "3", **at(5, 3), transaction_id="t3")]
    assert found([*rows, *again, update(6, "3", "4")]) == [("repeat", 4, 2), ("repeat", 5, 3)]
    other = [update(4, "1", "2", transaction_id="t2")]  # the source read its log again, with other positions
    assert found([*rows, *other, delete(6, "3")]) == [("repeat", 4, 2)]


def test_a_value_that_comes_back_is_no_repeat() -> None:
    assert found([insert(1, "1"), update(2, "1", "2"), update(3, "2", "1"), update(4, "1", "2")]) == []


def test_an_update_after_the_delete_revives_the_row() -> None:
    assert found([insert(1, "1"), delete(2, "1"), update(3, "1", "2"), update(4, "2", "3")]) == [("revived", 3, 2)]


def test_a_delete_of_what_is_not_there_is_a_phantom() -> None:
    assert found([insert(1, "1"), delete(2, "1"), delete(3, "1")]) == [("phantom", 3, 2)]


def test_a_read_of_an_older_version_is_stale_and_the_newer_one_stays() -> None:
    rows = [read(1, "1"), update(2, "1", "2"), update(3, "2", "3"), read(4, "2"), update(5, "3", "4")]
    assert found(rows) == [("stale", 4, 3)]


def test_a_read_of_a_version_that_no_change_brought_is_a_gap_and_heals_the_row() -> None:
    assert found([read(1, "1"), update(2, "1", "2"), read(3, "9"), update(4, "9", "3")]) == [("gap", 3, 2)]
    assert found([read(1, "1"), read(2, "1"), update(3, "1", "2")]) == []


def test_a_full_load_in_another_file_is_in_no_order_with_changes() -> None:
    assert found([update(1, "1", "2"), update(2, "2", "3"), read(3, "1", file_index=1), update(4, "3", "4")]) == []


def test_a_change_that_arrives_after_later_ones_is_late_by_so_many() -> None:
    rows = [
        insert(1, "1"),
        update(2, "2", "3", **at(2, 20)),
        update(3, "3", "4", **at(3, 30)),
        update(4, "1", "2", **at(4, 10)),
    ]
    assert found([*rows, update(5, "4", "5", **at(5, 40))]) == [("late", 4, 3)]
    capture = Tables(changes=rows)
    assert continuity(capture).listed[0]["distance"] == 2


def test_what_both_orders_show_is_not_late() -> None:
    rows = [
        insert(1, "1"),
        update(2, "2", "3", **at(2, 20)),
        update(3, "1", "2", **at(3, 10)),
        delete(4, "3", **at(4, 30)),
    ]
    revived = [update(5, "3", "9", **at(5, 40))]
    assert found([*rows, *revived]) == [("late", 3, 2), ("revived", 5, 4)]


def test_an_order_of_arrival_that_contradicts_nothing_is_no_break() -> None:
    assert found([insert(1, "1"), update(2, "1", "1", **at(2, 20)), update(3, "1", "1", **at(3, 10))]) == []


def test_only_captured_columns_are_compared() -> None:
    rows = [
        change(1, "INSERT", T, key={"id": "1"}, after={"id": "1", "v": "1", "w": "x"}),
        change(2, "UPDATE", T, key={"id": "1"}, before={"v": "1"}, after={"v": "2"}),
        change(3, "UPDATE", T, key={"id": "1"}, after={"id": "1", "w": "y"}),
        change(4, "DELETE", T, key={"id": "1"}, before={"id": "1"}),
    ]
    assert found(rows) == []
    assert found([*rows[:3], change(4, "DELETE", T, key={"id": "1"}, before={"id": "1", "v": "1"})]) == [("gap", 4, 3)]
    unknown = change(3, "UPDATE", T, key={"id": "1"})
    assert (
        found([*rows[:2], unknown, change(4, "UPDATE", T, key={"id": "1"}, before={"v": "8"}, after={"v": "9"})]) == []
    )


def test_a_value_that_the_connector_could_not_deliver_is_not_compared(tmp_path: Path) -> None:
    source = {"version": "2.7.0.Final", "connector": "postgresql", "name": "a", "db": "d", "snapshot": "false"}
    source |= {"schema": "shop", "table": "orders"}
    images = [("c", None, "1", "long"), ("u", "1", "2", "?"), ("u", "2", "3", "?"), ("u", "7", "8", "?")]
    lines = []
    for number, (op, before, after, big) in enumerate(images, 1):
        value = big.replace("?", "__debezium_unavailable_value")
        old, new = ({"id": 1, "v": v, "big": value} if v else None for v in (before, after))
        about = {"ts_ms": 1_700_000_000_000 + number, "txId": number, "lsn": number}
        lines.append(json.dumps({"before": old, "after": new, "source": source | about, "op": op, "transaction": None}))
    (tmp_path / "orders.jsonl").write_text("\n".join(lines), encoding="utf-8")
    rows = continuity(cdcwb.load(tmp_path / "orders.jsonl", keys=[f"{T}:id"])).listed
    assert [(row["kind"], row["columns"], int(row["position"], 16)) for row in rows] == [("gap", ["v"], 4)]


def test_a_new_snapshot_begins_what_is_known_anew_where_it_contradicts() -> None:
    again = [read(1, "1"), update(2, "1", "2"), read(3, "2"), update(4, "2", "3")]
    assert found(again) == []
    assert found([read(1, "1"), delete(2, "1"), read(3, "1"), update(4, "1", "2")]) == [
        ("stale", 3, 2),
        ("revived", 4, 2),
    ]
    assert found([read(1, "1"), delete(2, "1"), read(3, "5"), update(4, "5", "2")]) == [("gap", 3, 2)]


def test_null_and_the_empty_text_are_different_values() -> None:
    assert found([insert(1, None), update(2, "", "2")]) == [("gap", 2, 1)]
    assert found([insert(1, ""), update(2, "", "2"), update(3, "2", "20"), update(4, "20", "2")]) == []


def test_a_change_of_the_key_ends_one_row_and_begins_another() -> None:
    moved = change(
        2,
        "UPDATE",
        T,
        key={"id": "9"},
        before={"id": "1", "v": "1"},
        after={"id": "9", "v": "1"},
        changed_columns=["id"],
    )
    assert found([insert(1, "1"), moved, update(3, "1", "2", key="9"), insert(4, "5")]) == []
    assert found([insert(1, "1"), moved, update(3, "1", "2")]) == [("revived", 3, 2)]
    assert found([insert(1, "1"), moved, update(3, "7", "2", key="9")]) == [("gap", 3, 2)]


@pytest.mark.parametrize("outcome", ["rolled_back", "undone", "undo"])
def test_changes_that_were_taken_back_do_not_count(outcome: str) -> None:
    assert found([insert(1, "1"), update(2, "1", "8", outcome=outcome), update(3, "1", "2")]) == []


def test_a_change_without_its_commit_counts() -> None:
    assert found([insert(1, "1"), update(2, "1", "2", outcome="open", commit_position=None), update(3, "2", "3")]) == []


def test_a_truncate_deletes_the_rows_of_its_table() -> None:
    emptied = change(2, "TRUNCATE", T)
    assert found([insert(1, "1"), emptied, insert(3, "2"), update(4, "2", "3")]) == []
    assert found([insert(1, "1"), emptied, update(3, "1", "2")]) == [("revived", 3, 1)]
    assert found([insert(1, "1"), change(2, "TRUNCATE", "shop.other"), update(3, "1", "2")]) == []


def test_a_row_that_is_read_after_a_truncate_begins_anew() -> None:
    truncate = change(2, "TRUNCATE", T)
    assert found([truncate, read(3, "5"), update(4, "5", "6")]) == []
    assert found([insert(1, "1"), truncate, read(3, "5"), update(4, "5", "6")]) == [("gap", 3, 1)]


def test_a_column_of_another_type_is_not_compared_across_versions() -> None:
    old, new = ({"name": "v", "type": kind} for kind in ("int", "decimal"))
    versions = [version(T, number, [column], first_position=f"{number}") for number, column in ((1, old), (2, new))]
    rows = [insert(1, "1"), update(2, "1.00", "2.00", table_version=f"{T}@2")]
    assert found(rows, *versions) == []
    assert found([*rows, update(3, "3.00", "4.00", table_version=f"{T}@2")], *versions) == [("gap", 3, 2)]


def test_several_inserts_of_other_columns_make_one_row() -> None:
    parts = [change(n, "INSERT", T, key={"id": "1"}, after={name: "x"}) for n, name in enumerate("ab", 1)]
    assert found(parts) == []
    late = change(3, "UPDATE", T, key={"id": "1"}, before={"a": "y"}, after={"a": "z"})
    assert found([*parts, late]) == [("gap", 3, 2)]


def test_a_sentence_names_both_records_and_the_columns() -> None:
    capture = Tables(changes=[insert(1, "1"), update(2, "5", "6")], table_versions=[version(T, 1, ["id", "v"])])
    capture.files = [{"file_index": 0, "file": "folder/capture.bin"}]
    (row,) = continuity(capture).listed
    assert row["sentence"] == (
        "shop.orders, id=1: the UPDATE at 200 of capture.bin, position 0000000000000002 does not begin where the "
        "INSERT at 100 of capture.bin, position 0000000000000001 left the row (in v): a version between them is "
        "missing."
    )
    assert (row["columns"], dict(row["key"])) == (["v"], {"id": "1"})


def test_keys_with_signs_of_their_text_are_read_back() -> None:
    key = {"a,b": "x=1\\", "c": None}
    capture = Tables(changes=[change(n, "DELETE", T, key=key) for n in (1, 2)])
    assert dict(continuity(capture).listed[0]["key"]) == key


def test_tables_without_a_key_are_named_and_an_inferred_key_is_marked() -> None:
    rows = [change(n, "INSERT", T, after={"id": str(n), "v": "1"}) for n in range(1, 25)]
    rows.append(change(30, "UPDATE", T, before={"id": "7", "v": "2"}, after={"id": "7", "v": "3"}))
    rows.append(change(31, "INSERT", "shop.few", after={"id": "1"}))
    result = continuity(Tables(changes=rows))
    assert result.verdict == "1 break: gap 1 (continuity of 1 of 2 tables (1 has no key))"
    assert result.tables[1]["inferred"] == "id is unique in 24 inserted rows"
    assert "inferred key: id is unique in 24 inserted rows" in "\n".join(continuity_lines(result))
    assert [row["offset"] for row in breaks(Tables(changes=rows)).table().to_pylist()] == [3000]


def test_where_no_table_has_a_key_the_result_says_that_nothing_was_checked_and_what_to_do() -> None:
    result = continuity(Tables(changes=[change(n, "INSERT", T, after={"id": str(n)}) for n in (1, 2)]))
    first, _, table = continuity_lines(result)
    assert first == "Nothing was checked: no table has a key; the option keys=schema.table:column names one."
    assert table == "shop.orders  2 changes without a key; not checked"
    nothing = "Nothing was checked: there are no changes of rows with a table name."
    for rows in [], [change(1, "UPDATE", schema_name=None, table_name=None, before={"v": "1"}, after={"v": "2"})]:
        assert continuity_lines(continuity(Tables(changes=rows)))[0] == nothing


def test_a_row_with_very_many_changes_is_followed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_breaks, "_WINDOW", 10)
    rows = [insert(1, "1"), *(update(n, str(n - 1), str(n)) for n in range(2, 200))]
    assert found(rows) == []
    del rows[100], rows[150]
    assert found(rows) == [("gap", 102, 100), ("gap", 153, 151)]


def test_numbers_are_of_changes_and_rows() -> None:
    facts = continuity(Tables(changes=[insert(1, "1"), update(2, "1", "2"), insert(3, "1", key="2")])).facts
    assert facts == {"tables": 1, "checked": 1, "compared": 1, "breaks": 0, "kinds": {}}


def options(format: str) -> dict[str, Any]:
    return {"keys": [f"shop.{one}" for one in KEYS[format].split()]} if format in KEYS else {}


@pytest.mark.parametrize(
    "path", sorted(path for path in (ROOT / "data").iterdir() if (path.is_dir() and "." not in path.name))
)
def test_in_the_captures_of_data_nothing_is_found_but_what_is_there(path: Path) -> None:
    result = continuity(cdcwb.load(path, **options(path.name)))
    expected = {"qlik-kafka": {"repeat": 1}}  # one change of order_line comes twice (data/README.md)
    assert result.kinds == expected.get(path.name, {})
    assert result.facts["compared"] > 20
    if path.name in KEYS:
        assert {table["table"] for table in result.tables} - set(result.checked) <= {"shop.everything"}


def test_the_command_prints_breaks_and_gives_them_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    os.chdir(ROOT)
    assert main(["continuity", "data/qlik-kafka", "--strict"]) == 1
    out = capsys.readouterr().out
    assert "1 break: repeat 1 (continuity of 5 tables)." in out
    assert main(["continuity", "data/qlik-kafka", "--json", "--table", "shop.orders"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["tables"], facts["breaks"], facts["of_tables"][0]["table"]) == (1, 0, "shop.orders")
