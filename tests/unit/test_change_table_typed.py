"""Typed columns, tables of rows as captures, and single rows taken apart."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdcwb import model
from cdcwb.errors import CaptureError
from cdcwb.formats import get_format, inspect
from cdcwb.formats.columns import TableColumn, parsed, replicate_type
from cdcwb.formats.dissector import EVERYTHING, Field, RowFormat, TableRequest, Wanted
from cdcwb.formats.table_rows import arrow_type
from tests.local import allows, plan_of, read

FORMAT = "qlik-change-table"
SEQUENCE = "2026020304050678{:019d}"


def table_of(folder: Path, request: TableRequest, **options: Any) -> pa.Table:
    form, plan = get_format(FORMAT), plan_of(folder, FORMAT, **options)
    schema = form.table_schema(plan, request)
    batches = [batch for split in range(len(plan.splits)) for batch in form.read_table(plan, split, request)]
    return pa.Table.from_batches(batches, schema=schema)


# --- types ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "precision", "scale", "kind"),
    [
        ("INT1", None, None, pa.int8()),
        ("INT4", 0, 0, pa.int32()),
        ("UINT2", None, None, pa.int32()),
        ("UINT8", None, None, pa.decimal128(20, 0)),
        ("REAL8", None, None, pa.float64()),
        ("NUMERIC", 10, 2, pa.decimal128(10, 2)),
        ("NUMERIC", 39, 2, pa.string()),
        ("NUMERIC", 5, 7, pa.string()),
        ("NUMERIC", None, None, pa.string()),
        ("DATE", None, None, pa.date32()),
        ("TIME", None, None, pa.string()),
        ("DATETIME", 0, 0, pa.timestamp("us")),
        ("BYTES", None, None, pa.binary()),
        ("BOOLEAN", None, None, pa.bool_()),
        ("WSTRING", None, None, pa.string()),
        ("int4", None, None, pa.int32()),
        ("GEOMETRY", None, None, pa.string()),
        (None, None, None, pa.string()),
    ],
)
def test_types_of_side_files(name: str | None, precision: Any, scale: Any, kind: pa.DataType) -> None:
    assert replicate_type(TableColumn(1, "A", name, None, precision, scale)) == kind


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        (pa.uint8(), pa.int16()),
        (pa.uint32(), pa.int64()),
        (pa.uint64(), pa.decimal128(20, 0)),
        (pa.timestamp("ns", tz="UTC"), pa.timestamp("us", tz="UTC")),
        (pa.decimal128(9, 2), pa.decimal128(9, 2)),
        (pa.binary(16), pa.binary()),
        (pa.list_(pa.int64()), pa.string()),
    ],
)
def test_types_of_parquet(source: pa.DataType, kind: pa.DataType) -> None:
    assert arrow_type(source) == kind


@pytest.mark.parametrize(
    ("kind", "texts", "values"),
    [
        (pa.int32(), ["1", "-2", " 3 ", "x", "", "2147483648", "1.0", None], [1, -2, 3, None, None, None, None, None]),
        (
            pa.decimal128(5, 2),
            ["1.5", "-123.45", "1234.5", "1.234", "1.50000", "1e2", "", None],
            [Decimal("1.50"), Decimal("-123.45"), None, None, Decimal("1.50"), None, None, None],
        ),
        (
            pa.date32(),
            ["2026-02-03", "2026-02-30", "2026-2-3", "0000-00-00", None],
            [date(2026, 2, 3), None, None, None, None],
        ),
        (
            pa.timestamp("us"),
            ["2026-02-03 04:05:06.1234567", "2026-02-03T04:05:06Z", "2026-02-03", "soon", None],
            [datetime(2026, 2, 3, 4, 5, 6, 123456), datetime(2026, 2, 3, 4, 5, 6), None, None, None],
        ),
        (pa.bool_(), ["true", "F", "1", "0", "yes", None], [True, False, True, False, None, None]),
        (pa.binary(), ["0a0B", "0xff", "zz", "", None], [b"\x0a\x0b", b"\xff", None, b"", None]),
        (pa.float64(), ["1.5", "1e3", "NaN?", None], [1.5, 1000.0, None, None]),
        (pa.string(), ["x", "", None], ["x", "", None]),
    ],
)
def test_texts_become_values_or_null(kind: pa.DataType, texts: list[str | None], values: list[Any]) -> None:
    found = parsed(pa.array(texts, pa.string()), kind)
    assert found.type == kind
    assert found.to_pylist() == values


# --- tables -----------------------------------------------------------------------------------------------------------


def test_without_types_all_is_text(tmp_path: Path) -> None:
    (tmp_path / "shop.stock__ct.csv").write_text("header__change_oper,ID,QTY\nI,1,2.5\nD,1,\nB,3,4\nT,,\n")
    table = table_of(tmp_path, TableRequest("stock"))
    assert table.schema.field("after").type == pa.struct([("ID", pa.string()), ("QTY", pa.string())])
    assert table.column("before").to_pylist() == [None, {"ID": "1", "QTY": None}, {"ID": "3", "QTY": "4"}, None]
    assert table.column("after").to_pylist() == [{"ID": "1", "QTY": "2.5"}, None, None, None]
    assert table.column("operation").to_pylist() == ["INSERT", "DELETE", "UPDATE", "TRUNCATE"]


def test_parquet_columns_keep_their_types(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "header__change_oper": ["I"],
            "N": pa.array([7], pa.int64()),
            "U": pa.array([2**64 - 1], pa.uint64()),
            "P": pa.array([Decimal("1.50")], pa.decimal128(9, 2)),
            "AT": pa.array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("ns", tz="UTC")),
            "B": pa.array([b"\x01"], pa.binary()),
            "L": pa.array([[1, None]], pa.list_(pa.int64())),
            "D": pa.array(["a"]).dictionary_encode(),
        }
    )
    pq.write_table(rows, tmp_path / "t__ct.parquet")
    (row,) = table_of(tmp_path, TableRequest("t", images="after")).column("after").to_pylist()
    assert row == {
        "N": 7,
        "U": Decimal(2**64 - 1),
        "P": Decimal("1.50"),
        "AT": datetime(2026, 1, 1, tzinfo=UTC),
        "B": b"\x01",
        "L": '["1",null]',
        "D": "a",
    }


def test_requests_that_cannot_be_met_name_what_there_is(tmp_path: Path) -> None:
    (tmp_path / "shop.stock__ct.csv").write_text("header__change_oper,ID\nI,1\n")
    with pytest.raises(CaptureError, match=r"Did you mean 'shop.stock'"):
        table_of(tmp_path, TableRequest("shop.stocks"))
    with pytest.raises(CaptureError, match=r"no column 'IDS'.* There are: ID"):
        table_of(tmp_path, TableRequest("stock", ("IDS",)))
    with pytest.raises(CaptureError, match="before, after or both"):
        table_of(tmp_path, TableRequest("stock", images="none"))
    with pytest.raises(CaptureError, match="in_force or latest"):
        table_of(tmp_path, TableRequest("stock", schema="oldest"))
    assert table_of(tmp_path, TableRequest("stock", ("ID",), "after", "latest")).column("after").to_pylist() == [
        {"ID": "1"}
    ]


def test_columns_of_all_versions_are_there(tmp_path: Path) -> None:
    (tmp_path / "t__ct").mkdir()
    (tmp_path / "t__ct" / "1.csv").write_text("header__change_oper,A\nI,1\n")
    (tmp_path / "t__ct" / "2.csv").write_text("header__change_oper,A,B\nI,1,2\n")
    table = table_of(tmp_path, TableRequest("t", images="after"))
    assert table.column("after").to_pylist() == [{"A": "1", "B": None}, {"A": "1", "B": "2"}]
    latest = table_of(tmp_path, TableRequest("t", images="after", schema="latest"))
    assert latest.column("after").to_pylist() == table.column("after").to_pylist()


# --- tables of rows ---------------------------------------------------------------------------------------------------


def capture(
    table: pa.Table, name: str = "shop.stock__ct", **options: Any
) -> tuple[RowFormat, Any, list[list[pa.RecordBatch]]]:
    """A table in two partitions, with its plan."""
    form: Any = get_format(FORMAT)
    numbered = table.append_column("_row", pa.array(range(table.num_rows)))
    middle = (table.num_rows + 1) // 2
    parts = [numbered.slice(0, middle).to_batches(max_chunksize=3), numbered.slice(middle).to_batches(max_chunksize=3)]

    def run(function: Any) -> list[bytes]:
        function = pickle.loads(pickle.dumps(function))
        return [function(iter(part)) for part in parts]

    return form, form.plan_from_text(form.plan_rows(name, table.schema, run, options).to_text()), parts


def rows_of(table: pa.Table, wanted: Wanted = EVERYTHING, **options: Any) -> list[dict[str, Any]]:
    form, plan, parts = capture(table, **options)
    batches = [batch for part in parts for batch in form.read_rows(plan, iter(part), wanted)]
    for batch in batches:
        batch.validate(full=True)
    return pa.Table.from_batches(batches, schema=model.EVENTS).to_pylist()


TABLE = pa.table(
    {
        "HEADER__CHANGE_SEQ": [SEQUENCE.format(number) for number in (1, 2, 2, 3)],
        "HEADER__CHANGE_OPER": ["I", "B", "U", "D"],
        "HEADER__CHANGE_MASK": pa.array([b"\xf0", b"", b"\x20", b"\x10"], pa.binary()),
        "HEADER__TIMESTAMP": pa.array(
            [datetime(2026, 2, 3, 4, 5, 6, 7, UTC)] * 3 + [datetime(1970, 1, 1, tzinfo=UTC)],
            pa.timestamp("us", tz="UTC"),
        ),
        "ID": pa.array([1, 1, 1, 1], pa.int64()),
        "PRICE": pa.array(["1.50", "1.50", "1.75", None]).cast(pa.decimal128(9, 2)),
        "DAY": pa.array([date(2026, 2, 3)] * 4),
        "NOTE": ["a", None, "", "b"],
    }
)


def test_a_table_of_rows_is_a_capture() -> None:
    rows = rows_of(TABLE)
    assert [(row["file"], row["offset"], row["length"], row["offset_unit"]) for row in rows] == [
        ("shop.stock__ct", number, 1, "row") for number in range(4)
    ]
    assert [(row["kind"], row["operation"]) for row in rows] == [
        ("change", "INSERT"),
        ("before", "UPDATE"),
        ("after", "UPDATE"),
        ("change", "DELETE"),
    ]
    assert [row["changed_columns"] for row in rows] == [["ID", "PRICE", "DAY", "NOTE"], [], ["PRICE"], ["ID"]]
    assert [row["change_mask"] for row in rows] == ["F0", "", "20", "10"]
    assert dict(rows[0]["after"]) == {"ID": "1", "PRICE": "1.50", "DAY": "2026-02-03", "NOTE": "a"}
    assert dict(rows[3]["before"]) == {"ID": "1", "PRICE": None, "DAY": "2026-02-03", "NOTE": "b"}
    assert [row["changed_at"] for row in rows][2:] == [datetime(2026, 2, 3, 4, 5, 6, 7, UTC), None]
    assert {(row["schema_name"], row["table_name"], row["table_version"]) for row in rows} == {
        ("shop", "stock", "shop.stock@1")
    }
    assert {str(row["key"]) for row in rows} == {"[('ID', '1')]"}
    assert {row["raw"] for row in rows} == {None}
    assert {str(row["problems"]) for row in rows} == {"None"}


def test_rows_keep_to_the_filters() -> None:
    whole = rows_of(TABLE)
    for wanted in (
        Wanted(images=False),
        Wanted(timed=True),
        Wanted(kinds=frozenset({"after"})),
        Wanted(tables=frozenset({"x"})),
    ):
        found = rows_of(TABLE, wanted)
        assert [row["offset"] for row in found] == [row["offset"] for row in whole if allows(wanted, row)]
        assert wanted.images or all(row["after"] is None for row in found)


def test_rows_have_a_plan_with_evidence() -> None:
    form, plan, _ = capture(TABLE)
    found = {row["setting"]: row["value"] for row in plan.detected}
    assert (found["mask_order"], found["mask_offset"], found["keys"]) == ("little", "4", "ID")
    assert plan.facts["records"] == 4
    (version,) = form.table_versions(plan).to_pylist()
    assert [(column["name"], column["type"]) for column in version["columns"]][:2] == [
        ("ID", "int64"),
        ("PRICE", "decimal128(9, 2)"),
    ]
    assert form.problems(plan) == []
    assert [entry["shape"] for entry in form.files(plan)] == ["rows"]


def test_rows_become_typed_columns() -> None:
    form, plan, parts = capture(TABLE)
    request = TableRequest("shop.stock", ("PRICE", "DAY"))
    batches = [batch for part in parts for batch in form.read_table_rows(plan, iter(part), request)]
    table = pa.Table.from_batches(batches, schema=form.table_schema(plan, request))
    assert table.column("after").to_pylist()[:3] == [
        {"PRICE": Decimal("1.50"), "DAY": date(2026, 2, 3)},
        None,
        {"PRICE": Decimal("1.75"), "DAY": date(2026, 2, 3)},
    ]


def test_ddl_history_may_be_a_table_of_rows() -> None:
    details = '{"columns": {"ID": {"action": "ADD", "type": "INT4", "ordinal": 1}}}'
    table = pa.table(
        {
            "TABLE_OWNER": ["SHOP"],
            "TABLE_NAME": ["STOCK"],
            "CHANGE_SEQ": [SEQUENCE.format(1)],
            "TABLE_VERSION": pa.array([1], pa.int32()),
            "DDL_TYPE": ["CREATE_TABLE"],
            "DETAILS": [details],
        }
    )
    form, plan, _ = capture(table, "attrep_ddl_history")
    (version,) = form.table_versions(plan).to_pylist()
    assert (version["table_version"], version["origin"], version["columns"][0]["name"]) == ("SHOP.STOCK@1", "DDL", "ID")
    (row,) = rows_of(table, name="attrep_ddl_history")
    assert (row["kind"], row["operation"], row["table_name"]) == ("control", "DDL", "STOCK")


def test_rows_that_are_none_of_its_own_are_not_recognised() -> None:
    form: Any = get_format(FORMAT)
    assert form.recognise_rows(TABLE.schema).confidence > 0.9
    assert (
        form.recognise_rows(
            pa.schema([("key", pa.binary()), ("value", pa.binary()), ("timestamp", pa.string())])
        ).confidence
        == 0
    )
    with pytest.raises(CaptureError, match="without columns"):
        capture(pa.table({}))


def test_other_columns_than_planned_are_refused() -> None:
    form, plan, _ = capture(TABLE)
    batches: Iterator[pa.RecordBatch] = iter(pa.table({"ID": [1], "_row": [0]}).to_batches())
    with pytest.raises(CaptureError, match="expected the columns HEADER__CHANGE_SEQ"):
        list(form.read_rows(plan, batches, EVERYTHING))


# --- one row ----------------------------------------------------------------------------------------------------------

HEADER = "header__change_seq,header__change_oper,header__change_mask,header__partition_name,ID,NAME\n"
ROW = f'{SEQUENCE.format(41)},U,a0,20260203T000000_20260204T000000,1,"a ""b"""\n'


def names(field: Field) -> list[tuple[str, str | None]]:
    return [(child.name, child.value) for child in field.children]


def test_a_row_is_taken_apart_down_to_the_bits(tmp_path: Path) -> None:
    path = tmp_path / "shop.stock__ct.csv"
    path.write_text(HEADER + ROW)
    found = inspect(path, len(HEADER) + 40, mask_order="little")
    assert (found.offset, found.length, found.record) == (len(HEADER), len(ROW), ROW.encode())
    assert found.event["changed_columns"] == ["NAME"]
    assert names(found.field)[1:] == [
        ("header__change_oper", "U"),
        ("header__change_mask", "a0"),
        ("header__partition_name", "20260203T000000_20260204T000000"),
        ("ID", "1"),
        ("NAME", 'a "b"'),
    ]
    sequence, _, mask, partition, *_ = found.field.children
    assert names(sequence)[:2] == [("time", "2026-02-03T04:05:06.78"), ("number", "41")]
    assert [bit for bit in names(mask) if bit[1] in ("changed", "not changed")] == [
        ("header__change_seq", "not changed"),
        ("header__change_oper", "not changed"),
        ("header__change_mask", "not changed"),
        ("header__partition_name", "not changed"),
        ("ID", "not changed"),
        ("NAME", "changed"),
    ]
    assert names(mask)[-2] == ("beyond the columns", "bits up to 7")
    assert mask.problem == "mask"
    assert names(partition)[:3:2] == [("begin", "2026-02-03T00:00:00"), ("end", "2026-02-04T00:00:00")]
    assert found.field.problem == "mask"
    assert found.field.at(5) == sequence.children[0]


def test_what_is_no_row_is_said_to_be_none(tmp_path: Path) -> None:
    path = tmp_path / "shop.stock__ct.csv"
    path.write_text(HEADER + "1,2\n\n")
    assert inspect(path, 3).note == "header line"
    damaged = inspect(path, len(HEADER) + 1)
    assert (damaged.event["kind"], damaged.field.problem, damaged.note) == (
        "malformed",
        "malformed",
        "expected 6 fields, found 2",
    )
    assert inspect(path, len(HEADER) + 4).note == "blank line"
    for place in (-1, len(HEADER) + 5):
        with pytest.raises(CaptureError, match=f"the file has {len(HEADER) + 5} bytes"):
            inspect(path, place, format=FORMAT)


def test_rows_of_json_and_parquet_are_taken_apart_too(tmp_path: Path) -> None:
    lines = tmp_path / "a__ct.json"
    lines.write_text('{"header__change_oper": "I", "A": 1}\n{"header__change_oper": "D", "A": [1, 2]}\n')
    found = inspect(lines, 50)
    assert (found.offset, names(found.field)) == (37, [("header__change_oper", "D"), ("A", "[1,2]")])
    array = tmp_path / "b__ct.json"
    array.write_text('[{"header__change_oper": "I", "A": 1},\n {"header__change_oper": "D", "A": 2}]')
    assert names(inspect(array, 60).field) == [("header__change_oper", "D"), ("A", "2")]
    pq.write_table(TABLE, tmp_path / "c__ct.parquet", row_group_size=2)
    row = inspect(tmp_path / "c__ct.parquet", 3)
    assert (row.offset, row.length, row.record) == (3, 1, b"")
    assert names(row.field)[4] == ("ID", "1")
    assert row.event["changed_columns"] == ["ID"]
    with pytest.raises(CaptureError, match="the file has 4 rows"):
        inspect(tmp_path / "c__ct.parquet", 4)


def test_files_beside_tell_how_masks_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "t__ct"
    folder.mkdir()
    (folder / "1.csv").write_text(
        "header__change_oper,header__change_mask,A,B,C,D,E,F,G,H,I\nI,fc07,1,2,3,4,5,6,7,8,9\n"
    )
    (folder / "2.csv").write_text("header__change_oper,header__change_mask,A,B,C,D,E,F,G,H,I\nU,04,1,2,3,4,5,6,7,8,9\n")
    found = inspect(folder / "2.csv", 62)
    assert found.event["changed_columns"] == ["A"]
    assert found.note == "table version t@1 (inferred); masks are little-endian, data columns from bit 2 on"


def test_side_files_are_not_inspected(tmp_path: Path) -> None:
    (tmp_path / "1.dfm").write_text("{}")
    with pytest.raises(CaptureError, match="describes another file"):
        inspect(tmp_path / "1.dfm", 0, format=FORMAT)


def test_places_far_into_a_file_are_found_as_by_reading_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cdcwb.formats.containers import tables as parts

    monkeypatch.setattr(parts, "_NEAR", 500)
    path = tmp_path / "t__ct.csv"
    body = "".join(f'I,{number},"line\nwith ""quotes"", {number}"\n' for number in range(300))
    path.write_text("header__change_oper,ID,TEXT\n" + body)
    rows = [row for row in read(tmp_path, format=FORMAT).to_pylist() if row["kind"] == "change"]
    for row in rows[::37]:
        found = inspect(path, row["offset"] + row["length"] - 1)
        assert (found.offset, found.length) == (row["offset"], row["length"])
