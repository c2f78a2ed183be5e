"""SQL Server's change tables: what rows mean, and what is read of generated ones."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cdcwb_synth as synth
from cdcwb import model
from cdcwb.formats import get_format
from cdcwb.opening import open_small

MADE: dict[str, dict[str, Any]] = {
    "change tables": {"schema_changes": 4},
    "the function, with old rows": {"rows": "all update old", "commit_times": False},
    "the function": {"rows": "all"},
    "Parquet": {"container": "parquet", "schema_changes": 2},
}
KEYS = {
    "changes": ("file_index", "offset"),
    "transactions": ("transaction_id",),
    "table_versions": ("table_version",),
}
UNKNOWN = {"changes": ("file", "problems"), "transactions": (), "table_versions": ("schema_text", "lineage")}


def small(path: Path, format: str = "auto", **options: Any) -> Any:
    found = open_small([str(path)], format, options)
    assert found is not None
    return found


def rows(table: pa.Table, name: str) -> list[dict[str, Any]]:
    table = table.select([column for column in model.TABLES[name].names if column not in UNKNOWN[name]])
    return table.sort_by([(key, "ascending") for key in KEYS[name]]).to_pylist()


@pytest.mark.parametrize("name", MADE)
def test_what_is_read_equals_the_truth(name: str, tmp_path: Path) -> None:
    folder = synth.generate("sqlserver-ct", changes=120, seed=5, to=tmp_path / "made", **MADE[name])
    capture = small(folder / "capture")
    assert capture.format == "sqlserver-ct"
    for table in KEYS:
        found = rows(capture.table(table), table)
        true = rows(pq.read_table(folder / "truth" / f"{table}.parquet"), table)
        assert len(found) == len(true) > 3
        for row, expected in zip(found, true, strict=True):
            assert row == expected, table
    assert capture.table("problems").num_rows == 0


# --- facts ------------------------------------------------------------------------------------------------------------

NAMES = "__$start_lsn,__$end_lsn,__$seqval,__$operation,__$update_mask,id,a,b,c,d,e,f,g,h,__$command_id"
COMMIT, LSN = "00000027000000F40004", "00000027000000F40003"


def table(folder: Path, *records: str, names: str = NAMES, file: str = "dbo_Orders_CT.csv") -> Path:
    path = folder / file
    path.write_text("\n".join([names, *records]) + "\n", encoding="utf-8")
    return path


def record(
    operation: int, mask: str, *, commit: str = COMMIT, lsn: str = LSN, command: int = 1, text: str = "x"
) -> str:
    values = ",".join(["1", *[text] * 8])
    return f"0x{commit},,0x{lsn},{operation},{mask},{values},{command}"


def events(path: Path, **options: Any) -> list[dict[str, Any]]:
    return [row for row in small(path, **options).table("events").to_pylist() if row["kind"] != "filler"]


@pytest.mark.parametrize(
    ("mask", "columns"),
    [
        ("0x0001", ["id"]),
        ("0x0100", ["h"]),
        ("0x0105", ["id", "b", "h"]),
        ("0080", ["g"]),
        ("0x01FF", ["id", "a", "b", "c", "d", "e", "f", "g", "h"]),
        ("0x0000", []),
    ],
)
def test_the_last_byte_of_a_mask_has_the_first_columns(tmp_path: Path, mask: str, columns: list[str]) -> None:
    (event,) = events(table(tmp_path, record(4, mask)))
    assert event["changed_columns"] == columns
    assert (event["change_mask"], event["problems"]) == (mask, None)


@pytest.mark.parametrize(
    ("mask", "found"),
    [
        ("0x0200", "expected no bit beyond the 9 captured columns, found '0x0200'"),
        ("0x05", "expected 2 bytes for the 9 captured columns, found '0x05'"),
        ("0x000005", "expected 2 bytes for the 9 captured columns, found '0x000005'"),
        ("yes!", "expected hexadecimal digits, found 'yes!'"),
    ],
)
def test_a_mask_that_does_not_fit_the_columns_is_a_problem(tmp_path: Path, mask: str, found: str) -> None:
    (event,) = events(table(tmp_path, record(4, mask)))
    assert [(one["code"], one["detail"]) for one in event["problems"]] == [("mask", f"__$update_mask: {found}")]


def test_the_mask_of_an_insert_or_a_delete_says_nothing(tmp_path: Path) -> None:
    found = events(table(tmp_path, record(2, "0x01FF"), record(1, "0x01FF", command=2)))
    assert [(row["operation"], row["changed_columns"]) for row in found] == [("INSERT", None), ("DELETE", None)]
    assert [(row["before"] is None, row["after"] is None) for row in found] == [(True, False), (False, True)]


def test_positions_are_in_the_order_of_commit_command_and_log_record(tmp_path: Path) -> None:
    later = "00000027000001000001"
    rows = [
        record(2, "0x01FF", command=2, lsn="00000027000000F40001"),
        record(2, "0x01FF", command=10, lsn="00000027000000F30001"),
        record(2, "0x01FF", commit=later, lsn="00000026000000010001"),
    ]
    found = [row["position"] for row in events(table(tmp_path, *rows))]
    assert found == sorted(found)
    assert found[0] == f"{COMMIT}/0000000002/00000027000000F40001"
    assert {row["transaction_id"] for row in events(table(tmp_path, *rows))} == {COMMIT, later}


def test_both_rows_of_an_update_are_one_change_however_far_apart(tmp_path: Path) -> None:
    between = [record(2, "0x01FF", lsn=f"{at:020X}", command=2) for at in range(300)]
    path = table(tmp_path, record(3, "0x0002", text="old"), *between, record(4, "0x0002", text="new"))
    changes = small(path).table("changes").to_pylist()
    assert len(changes) == 301
    (update,) = [row for row in changes if row["operation"] == "UPDATE"]
    assert (dict(update["before"])["a"], dict(update["after"])["a"]) == ("old", "new")
    assert (update["changed_columns"], update["change_source"]) == (["a"], "mask")


def test_an_update_without_the_row_before_is_a_change(tmp_path: Path) -> None:
    capture = small(table(tmp_path, record(4, "0x0002")))
    (change,) = capture.table("changes").to_pylist()
    assert (change["operation"], change["before"], change["outcome"]) == ("UPDATE", None, "committed")
    assert capture.table("problems").num_rows == 0


def test_a_deferred_update_is_two_changes_and_is_counted(tmp_path: Path) -> None:
    capture = small(table(tmp_path, record(1, "0x01FF"), record(2, "0x01FF", command=2)), split_size=64)
    assert [row["operation"] for row in capture.table("changes").to_pylist()] == ["DELETE", "INSERT"]
    (found,) = [row for row in capture.table("detected").to_pylist() if row["setting"] == "deferred updates"]
    assert found["value"] == "1"
    assert capture.table("problems").num_rows == 0


def test_net_changes_have_fewer_header_columns(tmp_path: Path) -> None:
    names = "__$start_lsn,__$operation,__$update_mask,id,name"
    path = table(tmp_path, f"0x{COMMIT},5,,1,x", f"0x{COMMIT},1,,2,y", names=names, file="net.csv")
    found = events(path)
    assert [(row["kind"], row["operation"], row["position"]) for row in found] == [
        ("after", "UPDATE", COMMIT),
        ("change", "DELETE", COMMIT),
    ]
    assert [row["problems"] for row in found] == [None, None]


@pytest.mark.parametrize(
    ("wrong", "code", "sentence"),
    [
        (
            "0x1234,,0x00,2,0x03,1,1",
            "malformed",
            "__$start_lsn: expected 10 bytes in hexadecimal digits, found '0x1234'",
        ),
        (",,0x00,2,0x03,1,1", "malformed", "__$start_lsn: expected 10 bytes in hexadecimal digits, found NULL"),
        (f"0x{COMMIT},,0x{LSN},7,0x01,1,1", "value", "__$operation: expected 1 to 5, found '7'"),
        (f"0x{COMMIT},,?,2,0x01,1,1", "value", "__$seqval: expected 10 bytes in hexadecimal digits, found '?'"),
        (f"0x{COMMIT},,0x{LSN},2,0x01,1,x/9", "value", "__$command_id: expected a number, found 'x/9'"),
    ],
)
def test_a_row_that_is_wrong_has_a_sentence(tmp_path: Path, wrong: str, code: str, sentence: str) -> None:
    names = "__$start_lsn,__$end_lsn,__$seqval,__$operation,__$update_mask,id,__$command_id"
    (event,) = events(table(tmp_path, wrong, names=names))
    assert event["problems"] == [{"code": code, "detail": sentence}]
    assert (event["kind"] == "malformed") == (code == "malformed")
    assert event["raw"] == wrong.encode() + b"\n"


def test_the_time_is_that_of_a_joined_column_in_the_zone_of_the_server(tmp_path: Path) -> None:
    names = "__$start_lsn,__$operation,id,tran_end_time,seen"
    path = table(tmp_path, f"0x{COMMIT},2,1,2026-07-01 10:00:00.123,2026-07-01 09:00:00", names=names)
    (event,) = events(path)
    assert f"{event['changed_at']:%H:%M:%S.%f}" == "10:00:00.123000"
    assert dict(event["after"]) == {"id": "1", "seen": "2026-07-01 09:00:00"}
    (event,) = events(path, time_zone="Europe/Berlin", time_column="seen")
    assert f"{event['changed_at']:%H:%M:%S}" == "07:00:00"
    assert dict(event["after"]) == {"id": "1", "tran_end_time": "2026-07-01 10:00:00.123"}


@pytest.mark.parametrize(
    ("time", "zone", "moment", "problem"),
    [
        ("2026-07-01T10:00:00+05:00", "Europe/Berlin", "2026-07-01 05:00:00+00:00", None),
        ("2026-10-25 02:30:00", "Europe/Berlin", "2026-10-25 00:30:00+00:00", "time_zone"),
        ("9999-12-31 23:00:00", "-05:00", "None", "time_range"),
    ],
)
def test_a_time_with_a_zone_has_that_one_and_one_in_doubt_is_a_problem(
    tmp_path: Path, time: str, zone: str, moment: str, problem: str | None
) -> None:
    (event,) = events(
        table(tmp_path, f"0x{COMMIT},2,1,{time}", names="__$start_lsn,__$operation,id,tran_end_time"), time_zone=zone
    )
    assert (str(event["changed_at"]), [one["code"] for one in event["problems"] or ()]) == (
        moment,
        [problem] * bool(problem),
    )


# --- tables, versions and containers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "options", "label"),
    [
        ("dbo_Orders_CT.csv", {}, "dbo.Orders"),
        ("cdc.dbo_Order_Lines_CT.csv", {}, "dbo.Order_Lines"),
        ("fn_cdc_get_all_changes_dbo_Orders.csv", {}, "dbo.Orders"),
        ("dbo_Orders_CT/part-00000.csv", {}, "dbo.Orders"),
        ("dbo_Orders_v2_CT.csv", {}, "dbo.Orders_v2"),
        ("dbo_Orders_v2_CT.csv", {"table": "dbo_Orders_v2=dbo.Orders"}, "dbo.Orders"),
        ("stage_in_Items_CT.csv", {"table": "stage_in.Items"}, "stage_in.Items"),
        ("orders.csv", {}, "orders"),
    ],
)
def test_the_table_is_that_of_the_capture_instance(
    tmp_path: Path, file: str, options: dict[str, str], label: str
) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (event,) = events(table(tmp_path, record(4, "0x0001"), file=file), **options)
    assert ".".join(filter(None, (event["schema_name"], event["table_name"]))) == label


def test_two_capture_instances_are_two_versions_even_if_both_have_the_change(tmp_path: Path) -> None:
    table(tmp_path, record(3, "0x0002"), record(4, "0x0002"))
    more = [one.replace(",x,1", ",x,new,1") for one in (record(3, "0x0002"), record(4, "0x0002"))]
    table(tmp_path, *more, names=NAMES.replace(",h,", ",h,i,"), file="dbo_Orders_v2_CT.csv")
    capture = small(tmp_path)
    assert [row["table_version"] for row in capture.table("changes").to_pylist()] == ["dbo.Orders@1", "dbo.Orders@2"]
    versions = capture.table("table_versions").to_pylist()
    assert [len(row["columns"]) for row in versions] == [9, 10]
    assert {row["table_name"] for row in versions} == {"Orders"}


def test_json_in_base64_and_parquet_in_bytes_are_the_same_rows(tmp_path: Path) -> None:
    binary = {"__$start_lsn": COMMIT, "__$seqval": LSN, "__$update_mask": "000002"}
    others = {"__$operation": 4, **{f"c{at}": at for at in range(20)}, "__$command_id": 1}
    row = {name: base64.b64encode(bytes.fromhex(digits)).decode() for name, digits in binary.items()} | others
    (tmp_path / "j").mkdir()
    (tmp_path / "j" / "dbo_Orders_CT.json").write_text(json.dumps([row]))
    (tmp_path / "p").mkdir()
    typed = pa.table(
        {**{name: [bytes.fromhex(digits)] for name, digits in binary.items()}, **{k: [v] for k, v in others.items()}}
    )
    pq.write_table(typed, tmp_path / "p" / "dbo_Orders_CT.parquet")
    (one,), (two,) = (events(tmp_path / name) for name in "jp")
    for column in ("position", "operation", "changed_columns", "after", "transaction_id", "problems", "table_name"):
        assert one[column] == two[column], column
    assert one["changed_columns"] == ["c1"]


def test_the_tree_of_a_row_has_the_meaning_of_each_header_column(tmp_path: Path) -> None:
    found = get_format("sqlserver-ct").inspect(str(table(tmp_path, record(3, "0x0105"))), len(NAMES) + 1, {})
    fields = {field.name: field for field in found.field.children}
    assert fields["__$operation"].meaning == "operation: UPDATE, the row before"
    assert fields["__$update_mask"].meaning == "columns that changed: id, b and h"
    assert (fields["b"].value, fields["b"].meaning) == ("x", "column 3 of the table")
    assert found.note == "table version dbo.Orders@1"


def test_a_table_of_another_kind_is_not_claimed(tmp_path: Path) -> None:
    path = table(tmp_path, "1,2", names="id,name", file="people.csv")
    assert get_format("sqlserver-ct").recognise([str(path)], {}).confidence == 0
    (event,) = small(path, format="sqlserver-ct").table("events").to_pylist()
    assert (event["kind"], event["length"]) == ("malformed", path.stat().st_size)


def test_a_parquet_file_without_rows_is_a_version_without_changes(tmp_path: Path) -> None:
    schema = pa.schema([("__$start_lsn", pa.binary()), ("__$operation", pa.int32()), ("id", pa.int64())])
    pq.write_table(schema.empty_table(), tmp_path / "dbo_Orders_CT.parquet")
    capture = small(tmp_path)
    assert [capture.table(name).num_rows for name in ("events", "changes", "table_versions")] == [0, 0, 1]
