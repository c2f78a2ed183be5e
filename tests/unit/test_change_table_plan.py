"""What is found out before rows are read: tables, side files, versions, DDL history, options, whose capture it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdcwb.errors import OptionError
from cdcwb.formats import get_format
from cdcwb.formats.files import list_files
from cdcwb.formats.qlik_change_table.layout import from_path, side_file, without_suffix
from cdcwb.formats.qlik_change_table.probing import read_side_file
from tests.local import plan_of, read

FORMAT = "qlik-change-table"
SEQUENCE = "2026020304050678{:019d}"


def write(folder: Path, files: dict[str, Any]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, (str, bytes)) else json.dumps(content)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def describe(
    columns: list[tuple[str, str, int]], version: int = 1, table: str = "STOCK__ct", **more: Any
) -> dict[str, Any]:
    """A side file: name, type and place in the key of each column."""
    described = [
        {"ordinal": place, "name": name, "type": kind, "length": 9, "precision": 5, "scale": 2, "primaryKeyPos": key}
        for place, (name, kind, key) in enumerate(columns, 1)
    ]
    data = {"sourceSchema": "DBO", "sourceTable": "STOCK", "targetSchema": "SHOP", "targetTable": table}
    task = {"name": "load", "replicationServer": "host"}
    return {"taskInfo": task, "dataInfo": data | {"tableVersion": version, "columns": described}} | more


def versions(folder: Path, **options: Any) -> list[dict[str, Any]]:
    return get_format(FORMAT).table_versions(plan_of(folder, FORMAT, **options)).to_pylist()


def names(version: dict[str, Any]) -> list[str]:
    return [column["name"] for column in version["columns"]]


def problems(folder: Path, **options: Any) -> list[tuple[str, str]]:
    return [(row["code"], row["sentence"]) for row in plan_of(folder, FORMAT, **options).problems]


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "label", "suffixed"),
    [
        ("/x/SHOP.STOCK__ct/20260203-040506789.csv.gz", "SHOP.STOCK", True),
        ("/x/SHOP.STOCK__CT/20260203-040506789.csv", "SHOP.STOCK", True),
        ("/x/SHOP.STOCK__ct/20260203T040000_20260203T050000/1.csv", "SHOP.STOCK", True),
        ("/x/SHOP.STOCK__ct_20260203-040506789.csv", "SHOP.STOCK", True),
        ("/x/stock__ct.parquet", "stock", True),
        ("/x/shop.stock__ct.parquet/part-00000-ab-c000.snappy.parquet", "shop.stock", True),
        ("/x/SHOP.STOCK/LOAD1.csv.gz", "SHOP.STOCK", False),
        ("/x/SHOP.STOCK/LOAD00000001.csv", "SHOP.STOCK", False),
        ("/x/SHOP.STOCK_LOAD1.csv", "SHOP.STOCK", False),
        ("/x/SHOP.STOCK/20260203-040506789.csv", "SHOP.STOCK", False),
        ("/x/attrep_ddl_history/part-00000-x.parquet", "attrep_ddl_history", False),
        ("/x/UNLOADED.csv", "UNLOADED", False),
        ("/x/a.b.c__ct.csv", "a.b.c", True),
    ],
)
def test_tables_are_named_by_file_or_folder(path: str, label: str, suffixed: bool) -> None:
    place = from_path(path, "__ct")
    assert (place.name.label, place.suffixed) == (label, suffixed)


def test_the_suffix_is_an_option(tmp_path: Path) -> None:
    write(tmp_path, {"SHOP.STOCK_changes/1.csv": "header__change_oper,A\nI,1\n"})
    assert [row["table_name"] for row in versions(tmp_path, suffix="_changes")] == ["STOCK"]
    assert [row["table_name"] for row in versions(tmp_path)] == ["STOCK_changes"]
    assert without_suffix("__ct", "__ct") is None
    assert without_suffix("a__ct", "") is None


def test_a_given_table_is_that_of_all_rows(tmp_path: Path) -> None:
    write(tmp_path, {"1.csv": "header__change_oper,A\nI,1\n"})
    rows = read(tmp_path, format=FORMAT, table="SHOP.STOCK").to_pylist()
    assert {(row["schema_name"], row["table_name"]) for row in rows} == {("SHOP", "STOCK")}


def test_where_a_table_s_name_is_from_is_told(tmp_path: Path) -> None:
    write(tmp_path, {"A.B__ct/1.csv": "header__change_oper,A\nI,1\n", "C__ct.csv": "header__change_oper,A\nI,1\n"})
    write(
        tmp_path,
        {
            "x/1.csv": "header__change_oper,A\nI,1\n",
            "x/1.dfm": describe([("header__change_oper", "STRING", 0), ("A", "INT4", 0)]),
        },
    )
    found = {row["value"]: row["evidence"] for row in plan_of(tmp_path, FORMAT).detected if row["setting"] == "table"}
    assert found == {
        "A.B": "the folder's name 'A.B__ct' (1.csv)",
        "C": "the file's name 'C__ct' (C__ct.csv)",
        "SHOP.STOCK": "the side file's table 'STOCK__ct' (1.csv)",
    }


def test_side_files_are_found_by_name(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"a.dfm": "{}", "a.csv.gz": "", "b.c.dfm": "{}", "b.c.csv": "", "d.csv": "", "e.DFM": "{}", "e.json": ""},
    )
    found = {name: side_file(str(tmp_path / name)) for name in ("a.csv.gz", "b.c.csv", "d.csv", "e.json")}
    assert {name: path and Path(path).name for name, path in found.items()} == {
        "a.csv.gz": "a.dfm",
        "b.c.csv": "b.c.dfm",
        "d.csv": None,
        "e.json": "e.DFM",
    }


def test_side_files_are_no_data(tmp_path: Path) -> None:
    columns = [("header__change_oper", "STRING", 0), ("A", "INT4", 1)]
    write(
        tmp_path,
        {"SHOP.STOCK__ct/1.csv": "I,1\n", "SHOP.STOCK__ct/1.dfm": describe(columns), "SHOP.STOCK__ct/2.dfm": "{"},
    )
    plan = plan_of(tmp_path, FORMAT)
    assert [Path(entry.path).name for entry in plan.files] == ["1.csv"]
    assert plan.files[0].rows == 1
    assert not plan.files[0].probe.header


# --- versions ---------------------------------------------------------------------------------------------------------

FIRST = [("header__change_oper", "STRING", 0), ("ID", "INT4", 1), ("NAME", "STRING", 0)]
SECOND = [*FIRST, ("QTY", "NUMERIC", 0)]


def test_each_row_has_the_version_that_its_file_came_with(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "SHOP.STOCK/LOAD1.csv": "ID,NAME\n1,a\n",
            "SHOP.STOCK/LOAD1.dfm": describe(FIRST[1:], table="STOCK"),
            "SHOP.STOCK__ct/1.csv": "header__change_oper,ID,NAME\nI,1,a\n",
            "SHOP.STOCK__ct/1.dfm": describe(FIRST),
            "SHOP.STOCK__ct/2.csv": "header__change_oper,ID,NAME,QTY\nI,2,b,3\n",
            "SHOP.STOCK__ct/2.dfm": describe(SECOND, version=2),
            "SHOP.STOCK__ct/3.csv": "header__change_oper,ID,NAME\nI,3,c\n",
        },
    )
    one, two = versions(tmp_path)
    assert (one["table_version"], two["table_version"]) == ("SHOP.STOCK@1", "SHOP.STOCK@2")
    assert (names(one), names(two)) == (["ID", "NAME"], ["ID", "NAME", "QTY"])
    assert one["columns"][0] == {
        "ordinal": 1,
        "name": "ID",
        "type": "INT4",
        "length": 9,
        "precision": 5,
        "scale": 2,
        "key_position": 1,
        "nullable": None,
    }
    assert (one["origin"], one["first_event"]) == ("side file", None)
    assert dict(two["lineage"]) == {
        "server": "host",
        "task": "load",
        "source_schema": "DBO",
        "source_table": "STOCK",
        "version": "2",
    }
    assert json.loads(two["schema_text"])["dataInfo"]["tableVersion"] == 2
    rows = [row for row in read(tmp_path, format=FORMAT).to_pylist() if row["kind"] == "change"]
    assert [row["table_version"] for row in rows] == [f"SHOP.STOCK@{number}" for number in (1, 1, 2, 1)]
    assert [dict(row["key"]) for row in rows] == [{"ID": number} for number in "1123"]


def test_files_that_nothing_shows_to_be_of_a_full_load_are_a_problem(tmp_path: Path) -> None:
    change = "header__change_seq,header__change_oper,id\n1,I,7\n"
    folder = write(tmp_path, {"boat__ct/1.csv": change, "boat.csv": "id\n1\n", "mast/LOAD1.csv": "id\n1\n"})
    assert problems(folder) == []
    (folder / "notes.csv").write_text("who,what\nAnn,paint\n")
    (found,) = problems(folder)
    assert (found[0], "the table of notes.csv" in found[1]) == ("inferred", True)


def test_without_a_side_file_the_header_line_is_the_version(tmp_path: Path) -> None:
    write(tmp_path, {"t__ct/1.csv": "header__change_oper,B,A\nI,1,2\n", "t__ct/2.csv": "header__change_oper,B\nI,1\n"})
    one, two = versions(tmp_path)
    assert (names(one), names(two)) == (["B", "A"], ["B"])
    assert one["origin"] == "inferred"
    assert one["schema_text"] == "header__change_oper,B,A"
    assert one["first_event"] == {"file_index": 0, "offset": 0, "length": 24}
    assert one["columns"][0]["type"] is None


def test_a_header_line_may_bear_types(tmp_path: Path) -> None:
    text = "header__change_oper:STRING(1),Position:DECIMAL(38,0),Color:VARCHAR(10)\nI,1,red\n"
    write(tmp_path, {"t__ct.csv": text})
    (one,) = versions(tmp_path)
    facts = [
        (column["name"], column["type"], column["length"], column["precision"], column["scale"])
        for column in one["columns"]
    ]
    assert facts == [("Position", "DECIMAL", None, 38, 0), ("Color", "VARCHAR", 10, None, None)]
    assert dict(read(tmp_path, format=FORMAT).to_pylist()[1]["after"]) == {"Position": "1", "Color": "red"}


def test_parquet_brings_its_types(tmp_path: Path) -> None:
    table = pa.table({"header__change_oper": ["I"], "ID": [1], "P": pa.array(["1.5"]).cast(pa.decimal128(9, 2))})
    pq.write_table(table, tmp_path / "t__ct.parquet")
    (one,) = versions(tmp_path)
    assert [(column["type"], column["precision"], column["scale"]) for column in one["columns"]] == [
        ("int64", None, None),
        ("decimal128(9, 2)", 9, 2),
    ]


def test_the_header_line_counts_where_the_side_file_names_other_columns(tmp_path: Path) -> None:
    write(tmp_path, {"t__ct/1.csv": "header__change_oper,name,ID,NEW\nI,a,1,2\n", "t__ct/1.dfm": describe(SECOND)})
    (one,) = versions(tmp_path)
    assert [(column["name"], column["type"]) for column in one["columns"]] == [
        ("name", "STRING"),
        ("ID", "INT4"),
        ("NEW", None),
    ]
    assert problems(tmp_path) == [
        ("schema_mismatch", "expected the side file's columns in the header line, which differ in new, qty")
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "the JSON text is cut off after byte 1"),
        ("[1]", "expected a JSON object, found list"),
        ("[" * 100_000, "nested too deeply"),
        ('{"dataInfo": {"columns": 3}}', "dataInfo.columns: expected an array"),
        ('{"dataInfo": {"columns": [3]}}', "dataInfo.columns: expected an object with a name"),
        ('{"formatInfo": {"options": {"quoteChar": "ab"}}}', "expected one byte as quote"),
        ('{"formatInfo": {"options": {"fieldDelimiter": "\\n"}}}', "cannot be distinguished from"),
        ("\xff", "can't decode byte 0xff"),
    ],
)
def test_a_side_file_that_is_not_understood_is_told(tmp_path: Path, text: str, problem: str) -> None:
    write(tmp_path, {"t__ct/1.csv": "header__change_oper,A\nI,1\n", "t__ct/1.dfm": text.encode("latin-1")})
    ((code, sentence),) = problems(tmp_path)
    assert code == "schema_text"
    assert problem in sentence
    assert read_side_file(str(tmp_path / "t__ct" / "1.dfm"), "utf-8").problem == sentence
    assert read(tmp_path, format=FORMAT).num_rows == 2


def test_another_number_of_rows_than_the_side_file_says_is_told(tmp_path: Path) -> None:
    for number, (count, code) in enumerate([(1, "schema_mismatch"), (2, None), (3, "truncated")]):
        where = tmp_path / str(number)
        side = describe(FIRST, fileInfo={"recordCount": count})
        write(where, {"t__ct/1.csv": "header__change_oper,ID,NAME\nI,1,a\nI,2,b\n", "t__ct/1.dfm": side})
        found = problems(where)
        assert found == ([] if code is None else [(code, f"expected {count} rows by the side file, found 2")])


# --- DDL history ------------------------------------------------------------------------------------------------------

DDL = "SERVER_NAME,TASK_NAME,TABLE_OWNER,TABLE_NAME,CHANGE_SEQ,TIMESTAMP,TABLE_VERSION,DDL_TYPE,DETAILS\n"


def ddl(table: str, number: int, kind: str, columns: dict[str, Any] | None, new: str | None = None) -> str:
    details = {"owner": "SHOP", "table": table, "tableNewName": new, "version": number, "columns": columns}
    quoted = json.dumps(details).replace('"', '""')
    return f'h,t,SHOP,{table},{SEQUENCE.format(number)},2026-02-03 04:05:06,{number},{kind},"{quoted}"\n'


def changed(
    action: str, ordinal: int, new: str | None = None, kind: str | None = "STRING", key: int = 0
) -> dict[str, Any]:
    return {
        "columnNewName": new,
        "action": action,
        "type": kind,
        "length": 5,
        "primaryKeyPosition": key,
        "nullable": True,
        "ordinal": ordinal,
    }


def test_ddl_history_becomes_table_versions(tmp_path: Path) -> None:
    rows = [
        ddl("STOCK", 1, "CREATE_TABLE", {"ID": changed("ADD", 1, kind="INT4", key=1), "NOTE": changed("ADD", 2)}),
        ddl("STOCK", 2, "ALTER_TABLE", {"note": changed("ALTER", 2, "REMARK"), "BIN": changed("ADD", 2)}),
        ddl("STOCK__ct", 2, "ALTER_TABLE", {"BIN": changed("ADD", 9)}),
        ddl("STOCK", 3, "ALTER_TABLE", {"BIN": changed("DROP", 2)}),
        ddl("STOCK", 4, "TRUNCATE_TABLE", None),
        ddl("STOCK", 5, "ALTER_TABLE", None, new="GOODS"),
        ddl("GOODS", 6, "ALTER_TABLE", {"ID": changed("ALTER", 1, kind="INT8", key=1)}),
    ]
    write(tmp_path, {"attrep_ddl_history.csv": DDL + "".join(rows)})
    found = versions(tmp_path)
    assert [(row["table_version"], names(row)) for row in found] == [
        ("SHOP.STOCK@1", ["ID", "NOTE"]),
        ("SHOP.STOCK@2", ["ID", "BIN", "REMARK"]),
        ("SHOP.STOCK@3", ["ID", "REMARK"]),
        ("SHOP.GOODS@1", ["ID", "REMARK"]),
        ("SHOP.GOODS@2", ["ID", "REMARK"]),
    ]
    assert {row["origin"] for row in found} == {"DDL"}
    assert [column["type"] for column in found[-1]["columns"]] == ["INT8", "STRING"]
    assert found[-1]["columns"][0]["key_position"] == 1
    first = len(DDL)
    assert found[0]["first_event"] == {"file_index": 0, "offset": first, "length": len(rows[0].encode())}
    assert dict(found[1]["lineage"]) == {"version": "2", "change_seq": SEQUENCE.format(2)}
    assert json.loads(found[1]["schema_text"])["version"] == 2
    assert problems(tmp_path) == []


def test_ddl_history_goes_on_from_the_versions_of_side_files(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "SHOP.STOCK__ct/1.csv": "header__change_oper,ID,NAME\nI,1,a\n",
            "SHOP.STOCK__ct/1.dfm": describe(FIRST),
            "attrep_ddl_history.csv": DDL
            + ddl("STOCK", 1, "CREATE_TABLE", {"ID": changed("ADD", 1)})
            + ddl("STOCK", 2, "ALTER_TABLE", {"QTY": changed("ADD", 3)}),
        },
    )
    one, two = versions(tmp_path)
    assert (one["origin"], names(one), dict(one["lineage"])["change_seq"]) == (
        "side file",
        ["ID", "NAME"],
        SEQUENCE.format(1),
    )
    assert (two["origin"], names(two)) == ("DDL", ["ID", "NAME", "QTY"])


def test_a_ddl_whose_version_before_is_not_known_is_told(tmp_path: Path) -> None:
    write(tmp_path, {"attrep_ddl_history.csv": DDL + ddl("STOCK", 7, "ALTER_TABLE", {"BIN": changed("ADD", 3)})})
    assert [names(row) for row in versions(tmp_path)] == [["BIN"]]
    assert problems(tmp_path) == [
        ("no_schema", "table version SHOP.STOCK@1: the preceding version is unknown; only the changes are listed")
    ]


@pytest.mark.parametrize("details", ["{", "[]", '"x"', '{"columns": 3}', '{"columns": {"A": 3}}', "[" * 50_000])
def test_details_that_are_not_understood_are_told(tmp_path: Path, details: str) -> None:
    quoted = details.replace('"', '""')
    row = f'h,t,SHOP,STOCK,{SEQUENCE.format(1)},2026-02-03 04:05:06,1,ALTER_TABLE,"{quoted}"\n'
    write(tmp_path, {"attrep_ddl_history.csv": DDL + row})
    ((code, sentence),) = problems(tmp_path)
    assert code == "schema_text"
    assert sentence.startswith("DETAILS")
    assert versions(tmp_path) == []


# --- options ----------------------------------------------------------------------------------------------------------


def test_options_are_to_be_detected_or_given() -> None:
    parse = get_format(FORMAT).parse_options  # type: ignore[attr-defined]
    assert parse({"mask_order": "auto", "mask_offset": "auto", "header": "auto", "delimiter": "auto"}) == parse({})
    assert parse({"delimiter": "0x01", "quote": "none", "escape": "\\", "null": "empty"}).tokens == {
        "delimiter": b"\x01",
        "quote": b"",
        "escape": b"\\",
        "null": b"",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mask_ordr": "big"}, "Did you mean 'mask_order'"),
        ({"mask_order": "middle"}, "expected one of auto, big, little"),
        ({"mask_offset": "-1"}, "at least 0"),
        ({"mask_text": "octal"}, "expected one of"),
        ({"charset": "utf-16"}, "does not include ASCII"),
        ({"charset": "nothing"}, "unknown character set"),
        ({"delimiter": "none"}, "expected a text"),
        ({"quote": "''"}, "expected one byte"),
        ({"mode": "LAX"}, "PERMISSIVE"),
        ({"header": "maybe"}, "true or false"),
        ({"keys": "nothing"}, "schema.table:c1"),
        ({"split_size": 3}, "at least 64"),
        ({"delimiter": "€", "charset": "latin-1"}, "not in the character set"),
    ],
)
def test_wrong_options_say_what_is_wrong(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        get_format(FORMAT).check_options(options)


def test_options_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    write(tmp_path, {"t__ct.csv": "header__change_oper,A\nI,1\n"})
    with pytest.raises(OptionError, match="cannot be distinguished from"):
        plan_of(tmp_path, FORMAT, delimiter='"')


def test_a_header_line_can_be_denied(tmp_path: Path) -> None:
    side = describe(FIRST)
    write(tmp_path, {"t__ct/1.csv": "header__change_oper,ID,NAME\nI,1,a\n", "t__ct/1.dfm": side})
    assert [row["kind"] for row in read(tmp_path, format=FORMAT).to_pylist()] == ["filler", "change"]
    assert [row["kind"] for row in read(tmp_path, format=FORMAT, header="false").to_pylist()] == ["change", "change"]


# --- whose capture it is ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "sure"),
    [
        ({"t.csv": "header__change_seq,ID\n"}, True),
        ({"t.csv": "HEADER__CHANGE_OPER,ID\n"}, True),
        ({"t.csv": "x_change_seq,x_change_oper,ID\n"}, True),
        ({"t.json": '{"header__change_oper": "I", "A": 1}\n'}, True),
        ({"t.json": '[{"header__change_mask": "I", "A": 1}]'}, True),
        ({"SHOP.STOCK/LOAD1.csv": "ID\n1\n", "SHOP.STOCK__ct/1.csv": "header__change_oper,ID\n"}, True),
        ({"LOAD1.csv": "ID\n1\n", "LOAD1.dfm": '{"dataInfo": {"columns": [{"name": "ID"}]}}'}, True),
        ({"x.csv": "TASK_NAME,TABLE_OWNER,TABLE_NAME,ERROR_TIME,STATEMENT,ERROR\n"}, True),
        ({"t.csv": "ID,NAME\n1,a\n"}, False),
        ({"LOAD1.csv": "ID,NAME\n1,a\n"}, False),
        ({"t.csv": "id,operation,timestamp\n1,INSERT,now\n"}, False),
        ({"t.csv": "header__foo,header__bar\n"}, False),
        (
            {"t.json": '{"magic": "atMSG", "type": "DT", "message": {"data": {}, "headers": {}}}\n'},
            False,
        ),
        (
            {"t.json": '{"task_name": "t", "op": "F", "stream_position": "", "change_seq": "", "data": []}\n'},
            False,
        ),
        ({"t.json": '{"a": 1}\n'}, False),
        ({"t.bin": bytes(range(256)) * 10}, False),
        ({"t.bin": b""}, False),
        ({"t.parquet": b"PAR1 and no more"}, False),
        ({"t.dfm": "{}"}, False),
        ({"t.txt": "0011 2233\n" * 50}, False),
    ],
)
def test_it_is_sure_of_its_own_and_of_nothing_else(tmp_path: Path, files: dict[str, Any], sure: bool) -> None:
    write(tmp_path, files)
    found = get_format(FORMAT).recognise(list_files(str(tmp_path)), {})
    assert found.confidence > 0.85 if sure else found.confidence == 0
    assert found.evidence


def test_recognition_passes_over_options_of_other_formats(tmp_path: Path) -> None:
    write(tmp_path, {"t.csv": "header__change_seq,ID\n"})
    form = get_format(FORMAT)
    assert form.recognise([str(tmp_path / "t.csv")], {"byte_order": "little"}).confidence > 0.9
    assert form.recognise([str(tmp_path / "t.csv")], {"charset": "utf-16"}).confidence == 0


# --- halves of updates ------------------------------------------------------------------------------------------------


def test_halves_in_two_files_are_shared_even_if_the_table_changed_between_them(tmp_path: Path) -> None:
    names, sequence = "header__change_seq,header__change_oper,A", SEQUENCE.format(7)
    files = {"t__ct/1.csv": f"{names}\n{sequence},B,1\n", "t__ct/2.csv": f"{names},B\n{sequence},U,2,3\n"}
    plan = plan_of(write(tmp_path, files), FORMAT)
    form: Any = get_format(FORMAT)
    assert [form.halved(plan, split).shared for split in range(2)] == [((sequence, sequence),)] * 2
