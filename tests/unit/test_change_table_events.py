"""Literal rows in, exact events out: operations, times, partitions, widths, NULL, control tables."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from cdcwb.errors import CaptureError, MalformedRecordError
from cdcwb.formats.dissector import Wanted
from tests.local import ledger, plan_of, read

FORMAT = "qlik-change-table"
SEQUENCE = "20260203040506780000000000000000041"


def events(folder: Path, files: dict[str, bytes | str], **options: Any) -> list[dict[str, Any]]:
    """The events of files, header lines left out; the ledger closes."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    table = read(folder, format=FORMAT, **options)
    closed = ledger(table)
    for path, size in closed.items():
        assert size == len(gzip.decompress(Path(path).read_bytes()) if path.endswith("gz") else Path(path).read_bytes())
    rows = table.to_pylist()
    for row in rows:
        for name in ("headers", "before", "after", "key"):
            row[name] = None if row[name] is None else dict(row[name])
    return [row for row in rows if row["headers"] != {"reason": "header line"}]


def one(folder: Path, header: str, row: str, **options: Any) -> dict[str, Any]:
    """The event of one row of SHOP.STOCK, whose header columns and values are given; the data column is ID."""
    names = ",".join(f"header__{name}" for name in header.split())
    (event,) = events(folder, {"SHOP.STOCK__ct/1.csv": f"{names},ID\n{row},7\n"}, **options)
    return event


def codes(row: dict[str, Any]) -> list[str]:
    return [problem["code"] for problem in row["problems"] or []]


# --- operations -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("letter", "name", "record_type", "kind", "operation", "image", "problems"),
    [
        ("I", "INSERT", "I", "change", "INSERT", "after", []),
        ("U", "UPDATE", "U", "after", "UPDATE", "after", []),
        ("B", "BEFOREIMAGE", "B", "before", "UPDATE", "before", []),
        ("D", "DELETE", "D", "change", "DELETE", "before", []),
        ("", "TRUNCATE", "TRUNCATE", "change", "TRUNCATE", None, []),
        ("I", "TRUNCATE", "I", "change", "TRUNCATE", None, []),  # whose letter nobody knows
        ("T", "TRUNCATE", "T", "change", "TRUNCATE", None, []),
        ("", "BEFOREIMAGE", "BEFOREIMAGE", "before", "UPDATE", "before", []),
        ("", "BEFORE-IMAGE", "BEFORE-IMAGE", "before", "UPDATE", "before", []),
        ("D", "", "D", "change", "DELETE", "before", []),
        ("I", "DELETE", "I", "change", "INSERT", "after", ["value"]),  # the letter counts
        ("D", "MERGE", "D", "change", "DELETE", "before", ["value"]),
        ("X", "UPDATE", "X", "after", "UPDATE", "after", ["value"]),
        ("X", "", "X", "change", "UNKNOWN(X)", "after", ["value"]),
        ("", "MERGE", "MERGE", "change", "UNKNOWN(MERGE)", "after", ["value"]),
        ("", "", None, "change", "UNKNOWN()", "after", ["value"]),
    ],
)
def test_letter_and_operation_say_what_a_row_does(
    tmp_path: Path,
    letter: str,
    name: str,
    record_type: str | None,
    kind: str,
    operation: str,
    image: str | None,
    problems: list[str],
) -> None:
    row = one(tmp_path, "change_oper operation", f"{letter},{name}")
    assert (row["record_type"], row["kind"], row["operation"]) == (record_type, kind, operation)
    assert {side for side in ("before", "after") if row[side] is not None} == ({image} if image else set())
    if image:
        assert row[image] == {"ID": "7"}
    assert codes(row) == problems


@pytest.mark.parametrize(
    ("header", "value", "operation"),
    [
        ("change_oper", "T", "TRUNCATE"),
        ("change_oper", "B", "UPDATE"),
        ("operation", "INSERT", "INSERT"),
        ("change_seq", SEQUENCE, "UNKNOWN()"),
    ],
)
def test_one_of_the_two_is_enough_and_none_is_unknown(tmp_path: Path, header: str, value: str, operation: str) -> None:
    row = one(tmp_path, header, value)
    assert row["operation"] == operation
    assert codes(row) == []


def test_a_change_table_without_header_columns_has_unknown_operations(tmp_path: Path) -> None:
    (row,) = events(tmp_path, {"SHOP.STOCK__ct/1.csv": "ID,NAME\n1,a\n"})
    assert (row["kind"], row["operation"], row["after"]) == ("change", "UNKNOWN()", {"ID": "1", "NAME": "a"})


def test_a_full_load_is_refresh(tmp_path: Path) -> None:
    rows = events(
        tmp_path,
        {"SHOP.STOCK/LOAD1.csv": "ID,NAME\n1,a\n", "SHOP.STOCK__ct/1.csv": "header__change_oper,ID,NAME\nI,2,b\n"},
    )
    said = [(row["record_type"], row["operation"], row["table_name"], row["table_version"]) for row in rows]
    assert said == [("LOAD", "REFRESH", "STOCK", "SHOP.STOCK@1"), ("I", "INSERT", "STOCK", "SHOP.STOCK@1")]
    assert rows[0]["headers"] is None


# --- header columns ---------------------------------------------------------------------------------------------------


def test_header_columns_stand_anywhere_in_any_case(tmp_path: Path) -> None:
    (row,) = events(
        tmp_path,
        {"shop.stock__CT/1.csv": f"ID,HEADER__OPERATION,NAME,Header__Change_Seq,header__x\n7,INSERT,a,{SEQUENCE},x\n"},
    )
    assert row["position"] == SEQUENCE
    assert row["after"] == {"ID": "7", "NAME": "a"}
    assert row["headers"] == {"HEADER__OPERATION": "INSERT", "Header__Change_Seq": SEQUENCE, "header__x": "x"}


@pytest.mark.parametrize(
    ("names", "options", "prefix"),
    [
        ("hdr_change_seq,hdr_change_oper,ID", {}, "hdr_"),
        ("CT_CHANGE_SEQ,CT_OPERATION,ID", {}, "CT_"),
        ("change_seq,change_oper,operation,ID", {}, "none"),
        ("x_change_seq,x_change_oper,ID", {"prefix": "x_"}, "x_"),
    ],
)
def test_another_prefix_is_found_by_known_names(
    tmp_path: Path, names: str, options: dict[str, str], prefix: str
) -> None:
    values = {"oper": "I", "operation": "INSERT", "seq": SEQUENCE, "ID": "7"}
    text = ",".join(values[name.lower().rpartition("_")[2] if name != "ID" else name] for name in names.split(","))
    row, *_ = events(tmp_path, {"t__ct.csv": f"{names}\n{text}\n"}, **options)
    assert (row["position"], row["operation"], row["after"]) == (SEQUENCE, "INSERT", {"ID": "7"})
    detected = {found["setting"]: found for found in plan_of(tmp_path, FORMAT, **options).detected}
    assert detected["prefix"]["value"] == prefix
    assert detected["prefix"]["overridden"] == bool(options)


def test_an_ordinary_column_is_no_header_column(tmp_path: Path) -> None:
    (row,) = events(tmp_path, {"t__ct.csv": "header__change_oper,operation,timestamp\nI,cut,soon\n"})
    assert row["after"] == {"operation": "cut", "timestamp": "soon"}
    assert row["changed_at"] is None


@pytest.mark.parametrize(
    ("name", "width"),
    [("change_oper", 1), ("operation", 12), ("transaction_id", 32), ("change_seq", 35), ("stream_position", 128)],
)
def test_values_longer_than_documented_are_kept_and_told(tmp_path: Path, name: str, width: int) -> None:
    fine, wide = "x" * width, "x" * (width + 1)
    row = one(tmp_path, f"{name} new", f"{wide},I")
    assert row["headers"][f"header__{name}"] == wide
    found = [problem["detail"] for problem in row["problems"] if problem["code"] == "width"]
    assert found == [f"{name}: expected at most {width} byte{'s' if width > 1 else ''}, found {width + 1}"]
    assert "width" not in codes(one(tmp_path, f"{name} new", f"{fine},I"))


def test_masks_longer_than_documented_are_told(tmp_path: Path) -> None:
    row = one(tmp_path, "change_mask", "00" * 128 + "02")
    assert [problem["detail"] for problem in row["problems"]] == ["change_mask: expected at most 128 bytes, found 129"]
    assert row["changed_columns"] == ["ID"]
    assert codes(one(tmp_path, "change_mask", "00" * 127 + "02")) == []


@pytest.mark.parametrize(
    ("text", "good"),
    [
        (SEQUENCE, True),
        ("", True),
        (SEQUENCE[:34], False),
        (SEQUENCE + "1", False),
        ("2026020304050678000000000000000004x", False),
        ("20261303040506780000000000000000041", False),
        ("20260230040506780000000000000000041", False),
        ("20260203240506780000000000000000041", False),
        ("00000203040506780000000000000000041", False),
        ("2.0260203040506780000000000000E+34", False),
        ("٢٠260203040506780000000000000000041", False),
        ("99991231235959999999999999999999999", True),
        ("00010101000000000000000000000000000", True),
    ],
)
def test_change_sequences_are_digits_with_a_time_in_front(tmp_path: Path, text: str, good: bool) -> None:
    row = one(tmp_path, "change_seq change_oper", f"{text},I")
    assert row["position"] == (text or None)
    assert ("value" in codes(row)) == (not good)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2021-10-08 13:12:31.320000", datetime(2021, 10, 8, 13, 12, 31, 320000, UTC)),
        ("2021-10-08 13:12:31", datetime(2021, 10, 8, 13, 12, 31, 0, UTC)),
        ("2021-10-08 13:12:31.3", datetime(2021, 10, 8, 13, 12, 31, 300000, UTC)),
        ("2021-10-08 13:12:31.1234567", datetime(2021, 10, 8, 13, 12, 31, 123456, UTC)),
        ("2021-10-08T13:12:31.123456789Z", datetime(2021, 10, 8, 13, 12, 31, 123456, UTC)),
        ("2021-10-08T15:12:31+02:00", datetime(2021, 10, 8, 13, 12, 31, 0, UTC)),
        ("1970-01-01 00:00:00", None),
        ("1970-01-01 00:00:00.000000", None),
        ("", None),
    ],
)
def test_times_have_any_number_of_digits_and_the_default_is_none(
    tmp_path: Path, text: str, time: datetime | None
) -> None:
    row = one(tmp_path, "timestamp change_oper", f"{text},I")
    assert row["changed_at"] == time
    assert row["headers"]["header__timestamp"] == (text or None)
    assert codes(row) == []


@pytest.mark.parametrize("text", ["soon", "2021-13-08 13:12:31", "2021-10-08", "20211008", "0000-00-00 00:00:00"])
def test_what_is_no_time_is_told(tmp_path: Path, text: str) -> None:
    row = one(tmp_path, "timestamp change_oper", f"{text},I")
    assert row["changed_at"] is None
    assert codes(row) == ["time_range"]


@pytest.mark.parametrize(
    ("sequence", "name", "begin", "problems"),
    [
        ("20170313T150000", "20170313T123000_20170313T170000", "2017-03-13T12:30:00", []),
        ("20170313T123000", "20170313T123000_20170313T170000", "2017-03-13T12:30:00", []),
        ("20170313T170000", "20170313T123000_20170313T170000", "2017-03-13T12:30:00", ["partition"]),
        ("20170313T122959", "20170313T123000_20170313T170000", "2017-03-13T12:30:00", ["partition"]),
        ("20170313T150000", "today", None, ["value"]),
        ("20170313T150000", "20171313T123000_20170313T170000", None, ["value"]),
        ("20170313T150000", "", None, []),
    ],
)
def test_partitions_are_taken_apart_and_changes_outside_told(
    tmp_path: Path, sequence: str, name: str, begin: str | None, problems: list[str]
) -> None:
    digits = sequence.replace("T", "") + "00" + "0" * 19
    row = one(tmp_path, "change_seq change_oper partition_name", f"{digits},I,{name}")
    assert codes(row) == problems
    assert row["headers"]["partition_begin"] == begin
    assert row["headers"]["partition_end"] == ("2017-03-13T17:00:00" if begin else None)
    assert row["headers"]["header__partition_name"] == (name or None)


def test_transactions_and_stream_positions_stand_as_they_are(tmp_path: Path) -> None:
    row = one(tmp_path, "transaction_id stream_position change_oper", f"{'0' * 31}A,000dac8c:000fc98a:0002,I")
    assert row["transaction_id"] == "0" * 31 + "A"
    assert row["headers"]["header__stream_position"] == "000dac8c:000fc98a:0002"
    assert (row["event_no"], row["last_in_transaction"], row["commit_position"]) == (None, None, None)


# --- values -----------------------------------------------------------------------------------------------------------


def test_null_is_an_empty_field_without_quotes(tmp_path: Path) -> None:
    (row,) = events(tmp_path, {"t__ct.csv": 'header__change_oper,A,B,C,D\nI,,"",NULL,"a ""b"""\n'})
    assert row["after"] == {"A": None, "B": "", "C": "NULL", "D": 'a "b"'}


def side_file(options: dict[str, str], columns: list[str], **data: Any) -> str:
    described = [
        {"ordinal": at, "name": name, "type": "STRING", "primaryKeyPos": 0} for at, name in enumerate(columns, 1)
    ]
    info = {"targetSchema": "SHOP", "targetTable": "STOCK__ct", "tableVersion": 1, "columns": described} | data
    return json.dumps({"formatInfo": {"format": "delimited", "options": options}, "dataInfo": info})


def test_a_side_file_says_how_text_is_written(tmp_path: Path) -> None:
    options = {
        "fieldDelimiter": "0x01",
        "recordDelimiter": "0x02",
        "nullValue": "@",
        "quoteChar": "'",
        "escapeChar": "\\",
    }
    columns = ["header__change_oper", "A", "B", "C"]
    text = "I\x01@\x01'@'\x01'it\\'s'\x02I\x01\x01''\x01a\nb\x02"
    rows = events(tmp_path, {"x/2026.csv": text, "x/2026.dfm": side_file(options, columns)})
    assert [row["after"] for row in rows] == [{"A": None, "B": "@", "C": "it's"}, {"A": "", "B": "", "C": "a\nb"}]
    assert {(row["schema_name"], row["table_name"]) for row in rows} == {("SHOP", "STOCK")}


def test_options_override_the_side_file(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {
        "x/1.csv": "I;NULL;'a'\n",
        "x/1.dfm": side_file({"fieldDelimiter": ","}, ["header__change_oper", "A", "B"]),
    }
    (row,) = events(tmp_path, files, delimiter=";", null="NULL", quote="'")
    assert row["after"] == {"A": None, "B": "a"}


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_compressed_files_are_read(tmp_path: Path, pack: Any) -> None:
    (tmp_path / "t__ct").mkdir()
    (tmp_path / "t__ct" / "1.csv.gz").write_bytes(pack(b"header__change_oper,A\nI,1\n"))
    rows = read(tmp_path, format=FORMAT).to_pylist()
    assert [(row["offset"], row["length"]) for row in rows] == [(0, 22), (22, 4)]


def test_a_compressed_file_that_is_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    whole = b"header__change_oper,A\n" + b"".join(b"I,%d\n" % number for number in range(5000))
    (tmp_path / "t__ct.csv.gz").write_bytes(gzip.compress(whole)[:-2000])
    plan = plan_of(tmp_path, FORMAT)
    assert plan.files[0].problem is not None
    assert [row["code"] for row in plan.problems] == ["truncated"]
    assert 100 < read(tmp_path, format=FORMAT).num_rows < 5000


def test_bytes_in_another_character_set_are_told_and_kept_as_hex(tmp_path: Path) -> None:
    content = b"header__change_oper,A,B\nI,\xc4\xe3,b\n"
    (row,) = events(tmp_path, {"t__ct.csv": content})
    assert row["after"] == {"A": "c4e3", "B": "b"}
    assert row["problems"] == [{"code": "charset", "detail": "column A: expected text in utf-8, found bytes c4e3"}]
    (row,) = events(tmp_path, {"t__ct.csv": content}, charset="gb18030")
    assert (row["after"], row["problems"]) == ({"A": "你", "B": "b"}, None)


def test_names_that_repeat_are_told_apart(tmp_path: Path) -> None:
    (row,) = events(tmp_path, {"t__ct.csv": "header__change_oper,A,A,A\nI,1,2,3\n"})
    assert row["after"] == {"A": "1", "A#2": "2", "A#3": "3"}
    (row,) = events(tmp_path, {"t__ct.csv": "header__change_oper,A,A,A#2\nI,1,2,3\n"})
    assert row["after"] == {"A": "1", "A#3": "2", "A#2": "3"}


def test_a_byte_order_mark_belongs_to_the_header_line(tmp_path: Path) -> None:
    (row,) = events(tmp_path, {"t__ct.csv": b"\xef\xbb\xbfheader__change_oper,A\r\nI,1\r\n"})
    assert row["after"] == {"A": "1"}
    assert (row["offset"], row["length"], row["raw"]) == (26, 5, b"I,1\r\n")


def test_json_rows_lose_nothing(tmp_path: Path) -> None:
    first = (
        f'{{"header__change_oper": "I", "header__change_seq": "{SEQUENCE}", "A": 1.10, "B": 12345678901234567890, '
        '"C": null, "D": true, "E": {"x": [1, null]}, "F": "\\u00e9\\n"}\n'
    )
    second = '{"header__change_oper":"D","A":2}\n'
    rows = events(tmp_path, {"t__ct/1.json": first + second + "a heading\n{nonsense}\n\n"})
    assert rows[0]["after"] == {
        "A": "1.10",
        "B": "12345678901234567890",
        "C": None,
        "D": "true",
        "E": '{"x":[1,null]}',
        "F": "é\n",
    }
    assert rows[0]["position"] == SEQUENCE
    assert (rows[1]["operation"], rows[1]["before"]) == ("DELETE", {"A": "2"})  # a key that is missing is not captured
    assert [row["kind"] for row in rows[2:]] == ["malformed", "malformed", "filler"]


def test_a_json_array_of_rows_is_read(tmp_path: Path) -> None:
    content = json.dumps([{"header__change_oper": "I", "A": number} for number in range(3)], indent=2)
    rows = events(tmp_path, {"t__ct/1.json": content})
    assert [row["after"] for row in rows if row["kind"] == "change"] == [{"A": "0"}, {"A": "1"}, {"A": "2"}]


def test_parquet_rows_are_the_texts_of_their_types(tmp_path: Path) -> None:
    table = pa.table(
        {
            "header__change_seq": [SEQUENCE, None],
            "header__change_oper": ["I", "D"],
            "header__change_mask": pa.array([b"\x38", b"\x08"], pa.binary()),
            "ID": pa.array([1, 2], pa.int64()),
            "PRICE": pa.array(["1.50", "2.00"]).cast(pa.decimal128(10, 2)),
            "AT": pa.array([0, 1], pa.timestamp("us")),
        }
    )
    (tmp_path / "shop.stock__ct").mkdir()
    pq.write_table(table, tmp_path / "shop.stock__ct" / "part-00000-abc.snappy.parquet")
    rows = read(tmp_path, format=FORMAT).to_pylist()
    assert [(row["offset"], row["length"], row["offset_unit"], row["raw"]) for row in rows] == [
        (0, 1, "row", None),
        (1, 1, "row", None),
    ]
    assert dict(rows[0]["after"]) == {"ID": "1", "PRICE": "1.50", "AT": "1970-01-01T00:00:00.000000"}
    assert (rows[0]["change_mask"], rows[0]["changed_columns"]) == ("38", ["ID", "PRICE", "AT"])
    assert (rows[1]["changed_columns"], dict(rows[1]["key"])) == (["ID"], {"ID": "2"})
    assert rows[0]["table_name"] == "stock"


def test_damaged_parquet_is_no_end(tmp_path: Path) -> None:
    table = pa.table({"header__change_oper": ["I"] * 1000, "A": list(range(1000))})
    pq.write_table(table, tmp_path / "good__ct.parquet", row_group_size=500, compression="none")
    data = bytearray((tmp_path / "good__ct.parquet").read_bytes())
    data[4:60] = b"\xff" * 56
    (tmp_path / "page__ct.parquet").write_bytes(data)
    (tmp_path / "foot__ct.parquet").write_bytes(data[:-30])
    rows = read(tmp_path, format=FORMAT).to_pylist()
    units = {Path(row["file"]).stem: row["offset_unit"] for row in rows}
    assert units == {"good__ct": "row", "page__ct": "row", "foot__ct": "byte"}
    for name in ("good__ct", "page__ct"):
        assert sum(row["length"] for row in rows if Path(row["file"]).stem == name) == 1000
    bad = [row for row in rows if row["kind"] == "malformed"]
    assert [(Path(row["file"]).stem, row["offset"]) for row in bad] == [("foot__ct", 0), ("page__ct", 0)]


# --- modes ------------------------------------------------------------------------------------------------------------


def test_fail_fast_names_the_first_bytes_that_are_no_row(tmp_path: Path) -> None:
    (tmp_path / "a__ct.csv").write_text("header__change_oper,A\nI,1\n")
    (tmp_path / "b__ct.csv").write_text("header__change_oper,A\nI,1\nI\nI,2,3\n")
    with pytest.raises(MalformedRecordError, match="expected 2 fields, found 1") as caught:
        plan_of(tmp_path, FORMAT, mode="FAILFAST")
    assert caught.value.path == str(tmp_path / "b__ct.csv")
    assert caught.value.offset == 26
    rows = read(tmp_path, Wanted(drop_malformed=True), format=FORMAT, mode="DROPMALFORMED").to_pylist()
    assert {row["kind"] for row in rows} == {"filler", "change"}


def test_side_files_alone_are_no_capture(tmp_path: Path) -> None:
    (tmp_path / "1.dfm").write_text("{}")
    with pytest.raises(CaptureError, match="without the data files"):
        plan_of(tmp_path, FORMAT)


# --- control tables ---------------------------------------------------------------------------------------------------


def test_refused_changes_are_problems(tmp_path: Path) -> None:
    text = (
        "TASK_NAME,TABLE_OWNER,TABLE_NAME,ERROR_TIME,STATEMENT,ERROR\n"
        'load,SHOP,STOCK,2026-02-03 04:05:06.5,"INSERT INTO ""STOCK"" VALUES (1)",duplicate key\n'
    )
    (row,) = events(tmp_path, {"attrep_apply_exceptions.csv": text})
    assert (row["kind"], row["record_type"], row["operation"]) == ("control", "attrep_apply_exceptions", None)
    assert (row["schema_name"], row["table_name"]) == ("SHOP", "STOCK")
    assert row["changed_at"] == datetime(2026, 2, 3, 4, 5, 6, 500000, UTC)
    assert row["headers"]["ERROR"] == "duplicate key"
    assert row["problems"] == [
        {
            "code": "apply_exception",
            "detail": "the target rejected a change of SHOP.STOCK: duplicate key; "
            'the statement was INSERT INTO "STOCK" VALUES (1)',
        }
    ]


@pytest.mark.parametrize(
    ("name", "columns", "control"),
    [
        ("attrep_status", "server_name,task_name", "attrep_status"),
        ("ATTREP_HISTORY", "server_name,task_name", "attrep_history"),
        ("attrep_changes0123456789ABCDEF", "seq,col1,seg1", "attrep_changes0123456789abcdef"),
        (
            "export",
            "server_name,task_name,table_owner,table_name,suspend_reason,suspend_timestamp",
            "attrep_suspended_tables",
        ),
    ],
)
def test_control_tables_are_told_by_name_or_columns(tmp_path: Path, name: str, columns: str, control: str) -> None:
    values = ",".join("x" for _ in columns.split(","))
    (row,) = events(tmp_path, {f"{name}.csv": f"{columns}\n{values}\n"})
    assert (row["kind"], row["record_type"]) == ("control", control)
    assert row["headers"] == dict.fromkeys(columns.split(","), "x")
    assert (row["before"], row["after"]) == (None, None)


def test_ddl_history_rows_are_ddl_events_of_their_tables(tmp_path: Path) -> None:
    text = (
        "SERVER_NAME,TASK_NAME,TABLE_OWNER,TABLE_NAME,CHANGE_SEQ,TIMESTAMP,TABLE_VERSION,DDL_TYPE,DETAILS\n"
        f"s,t,SHOP,STOCK,{SEQUENCE},2026-02-03 04:05:06,2,ALTER_TABLE,{{}}\n"
        f"s,t,SHOP,STOCK,{SEQUENCE},2026-02-03 04:05:06,2,TRUNCATE_TABLE,\n"
    )
    rows = events(tmp_path, {"attrep_ddl_history.csv": text})
    said = [(row["kind"], row["operation"], row["position"], row["schema_name"], row["table_name"]) for row in rows]
    assert said == [
        ("control", "DDL", SEQUENCE, "SHOP", "STOCK"),
        ("control", "TRUNCATE", SEQUENCE, "SHOP", "STOCK"),
    ]
