"""One table of a Kafka capture as typed columns."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import cdcwb_synth as synth
from cdcwb.errors import CaptureError
from cdcwb.formats import get_format
from cdcwb.formats.containers.avro_values import to_text
from cdcwb.formats.dissector import TableRequest
from tests.kafka import (
    AFTER,
    BEFORE,
    FORMAT,
    STOCK,
    WRITTEN,
    avro_envelope,
    avro_record,
    data_schema,
    enveloped,
    framed,
    metadata,
    record,
    write,
)
from tests.local import plan_of, read

PLAIN: dict[str, Any] = {"operation": "INSERT", "changeMask": None, "columnMask": None}


def table(path: Path, name: str = "shop.stock", request: dict[str, Any] | None = None, **options: Any) -> pa.Table:
    """The rows of a table, read in the parts that ``split_size`` makes."""
    form = get_format(FORMAT)
    plan = plan_of(path, FORMAT, **options)
    wanted = TableRequest(name, **(request or {}))
    batches = [batch for split in range(len(plan.splits)) for batch in form.read_table(plan, split, wanted)]
    return pa.Table.from_batches(batches, schema=form.table_schema(plan, wanted))


def images(found: pa.Table, name: str = "after") -> list[Any]:
    found.validate(full=True)
    return list(found.column(name).to_pylist())


# --- types ------------------------------------------------------------------------------------------------------------

JSON_TYPES: list[tuple[Any, Any, pa.DataType, Any]] = [
    ("INT1", -128, pa.int8(), -128),
    ("INT2", 32767, pa.int16(), 32767),
    ("INT4", -(1 << 31), pa.int32(), -(1 << 31)),
    ("INT4", "14", pa.int32(), 14),
    ("INT8", (1 << 63) - 1, pa.int64(), (1 << 63) - 1),
    ("UINT1", 255, pa.int16(), 255),
    ("UINT2", 65535, pa.int32(), 65535),
    ("UINT4", 4294967295, pa.int64(), 4294967295),
    ("UINT8", "18446744073709551615", pa.decimal128(20, 0), Decimal(18446744073709551615)),
    ("REAL4", 1.5, pa.float32(), 1.5),
    ("REAL8", 0.1, pa.float64(), 0.1),
    ("REAL8", "1e300", pa.float64(), 1e300),
    ("BOOLEAN", True, pa.bool_(), True),
    ("BOOLEAN", "false", pa.bool_(), False),
    ({"type": "NUMERIC", "precision": 9, "scale": 2}, "-1234567.89", pa.decimal128(9, 2), Decimal("-1234567.89")),
    ({"type": "NUMERIC", "precision": 9, "scale": 2}, 14.5, pa.decimal128(9, 2), Decimal("14.50")),
    ({"type": "NUMERIC", "precision": 38, "scale": 0}, "9" * 38, pa.decimal128(38, 0), Decimal("9" * 38)),
    ({"type": "NUMERIC", "precision": 50, "scale": 10}, "9" * 40, pa.string(), "9" * 40),
    ("NUMERIC", "1.10", pa.string(), "1.10"),
    ("DATE", "1993-11-25", pa.date32(), dt.date(1993, 11, 25)),
    ("DATETIME", "2026-02-03 04:05:06.123456", pa.timestamp("us"), dt.datetime(2026, 2, 3, 4, 5, 6, 123456)),
    ("TIMESTAMP", "2026-02-03T04:05:06", pa.timestamp("us"), dt.datetime(2026, 2, 3, 4, 5, 6)),
    ("TIME", "04:05:06", pa.string(), "04:05:06"),
    ("BYTES", "00FFa0", pa.binary(), b"\x00\xff\xa0"),
    ("BLOB", "", pa.binary(), b""),
    ("STRING", "", pa.string(), ""),
    ("CLOB", "quartz", pa.string(), "quartz"),
    ("SOMETHING", 5, pa.string(), "5"),
]


@pytest.mark.parametrize(("kind", "value", "arrow", "found"), JSON_TYPES)
def test_json_values_have_the_types_of_their_metadata(
    tmp_path: Path, kind: Any, value: Any, arrow: pa.DataType, found: Any
) -> None:
    messages = [enveloped(record({"id": at, "v": one}, **PLAIN)) for at, one in enumerate([value, None, value])]
    rows = table(write(tmp_path, metadata({"id": "INT4", "v": kind}), *messages))
    assert rows.schema.field("after").type.field("v").type == arrow
    assert images(rows) == [{"id": 0, "v": found}, {"id": 1, "v": None}, {"id": 2, "v": found}]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("INT4", "x"),
        ("INT4", 1 << 31),
        ("INT1", "1.5"),
        ("BOOLEAN", "maybe"),
        ({"type": "NUMERIC", "precision": 9, "scale": 2}, "1.555"),
        ({"type": "NUMERIC", "precision": 3, "scale": 2}, "1234"),
        ("DATE", "1993-02-30"),
        ("DATETIME", "yesterday"),
        ("BYTES", "no hex"),
        ("REAL8", ""),
    ],
)
def test_values_that_are_none_of_their_type_are_null_and_the_others_are_not(
    tmp_path: Path, kind: Any, value: Any
) -> None:
    good = {"BOOLEAN": True, "DATE": "1993-11-25", "DATETIME": "2026-02-03 04:05:06", "BYTES": "FF"}
    right = good.get(kind, 1) if isinstance(kind, str) else 1
    messages = [enveloped(record({"id": 0, "v": one}, **PLAIN)) for one in (right, value, right)]
    path = write(tmp_path, metadata({"id": "INT4", "v": kind}), *messages)
    found = [row["v"] for row in images(table(path))]
    assert found[1] is None
    assert found[0] == found[2] is not None
    texts = read(path, format=FORMAT, **WRITTEN).column("after").to_pylist()
    assert dict(texts[2])["v"] == str(value), "the text stands in events"


AVRO_TYPES: list[tuple[Any, Any, pa.DataType, Any]] = [
    ("int", 7, pa.int32(), 7),
    ("long", 1 << 62, pa.int64(), 1 << 62),
    ("float", 1.5, pa.float32(), 1.5),
    ("double", 0.1, pa.float64(), 0.1),
    ("boolean", True, pa.bool_(), True),
    ("string", "quartz", pa.string(), "quartz"),
    ("bytes", b"\x00\xff", pa.binary(), b"\x00\xff"),
    ({"type": "fixed", "name": "F", "size": 2}, b"\x00\xff", pa.binary(), b"\x00\xff"),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", pa.string(), "B"),
    ({"type": "int", "logicalType": "date"}, dt.date(1993, 11, 25), pa.date32(), dt.date(1993, 11, 25)),
    ({"type": "int", "logicalType": "time-millis"}, dt.time(4, 5, 6, 123000), pa.string(), "04:05:06.123"),
    ({"type": "long", "logicalType": "time-micros"}, dt.time(4, 5, 6, 123456), pa.string(), "04:05:06.123456"),
    (
        {"type": "long", "logicalType": "timestamp-micros"},
        dt.datetime(2026, 2, 3, 4, 5, 6, 123456, tzinfo=dt.UTC),
        pa.timestamp("us"),
        dt.datetime(2026, 2, 3, 4, 5, 6, 123456),
    ),
    (
        {"type": "long", "logicalType": "timestamp-millis"},
        dt.datetime(2026, 2, 3, 4, 5, 6, 123000, tzinfo=dt.UTC),
        pa.timestamp("us"),
        dt.datetime(2026, 2, 3, 4, 5, 6, 123000),
    ),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        Decimal("-14.50"),
        pa.decimal128(9, 2),
        Decimal("-14.50"),
    ),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 2},
        Decimal("14.50"),
        pa.string(),
        "14.50",
    ),
]


@pytest.mark.parametrize(("kind", "value", "arrow", "found"), AVRO_TYPES)
def test_avro_values_have_the_types_of_their_schema(
    tmp_path: Path, kind: Any, value: Any, arrow: pa.DataType, found: Any
) -> None:
    schema = data_schema({"id": "int", "v": kind})
    messages = [
        avro_envelope(avro_record(schema, {"id": at, "v": one}, **PLAIN), None, messageSchema=schema)
        for at, one in enumerate([value, None, value])
    ]
    rows = table(write(tmp_path, *messages))
    assert rows.schema.field("after").type.field("v").type == arrow
    assert images(rows) == [{"id": 0, "v": found}, {"id": 1, "v": None}, {"id": 2, "v": found}]


def test_avro_values_have_the_types_of_their_metadata_where_there_is_some(tmp_path: Path) -> None:
    columns = {"id": "int", "day": "string", "price": "string", "n": "long"}
    schema = data_schema(columns)
    described = metadata(
        {"id": "INT4", "day": "DATE", "price": {"type": "NUMERIC", "precision": 9, "scale": 2}, "n": "UINT1"}
    )
    described["message"]["dataSchema"] = schema
    rows = [{"id": 1, "day": "1993-11-25", "price": "1.5", "n": 255}, {"id": 2, "day": "x", "price": "", "n": 1 << 40}]
    path = write(tmp_path, described, *(avro_envelope(avro_record(schema, row, **PLAIN)) for row in rows))
    assert images(table(path)) == [
        {"id": 1, "day": dt.date(1993, 11, 25), "price": Decimal("1.50"), "n": 255},
        {"id": 2, "day": None, "price": None, "n": None},
    ]


# --- rows and images --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["json", "avro"])
def test_a_deleted_row_is_the_before_image_wherever_it_stands(tmp_path: Path, form: str) -> None:
    nothing = {"id": None, "name": None}
    pairs = [(AFTER, None), (None, AFTER), (AFTER, {"id": 8, "name": "x"}), (nothing, AFTER), (nothing, None)]
    given = PLAIN | {"operation": "DELETE"}
    messages: list[Any] = [enveloped(record(*pair, **given)) for pair in pairs]
    if form == "avro":
        messages = [avro_envelope(avro_record(STOCK, *pair, **given)) for pair in pairs]
    described = metadata({"id": "INT4", "name": "STRING"})
    described["message"]["dataSchema"] = STOCK
    rows = table(write(tmp_path, described, *messages))
    assert images(rows) == [None] * 5
    assert images(rows, "before") == [AFTER, AFTER, AFTER, AFTER, nothing]
    assert rows.column("operation").to_pylist() == ["DELETE"] * 5


def test_rows_stand_in_capture_order_with_what_events_say_of_them(tmp_path: Path) -> None:
    messages = [
        enveloped(record({"id": at, "name": f"n{at}"}, BEFORE if at % 2 else None, operation="UPDATE", changeMask=None))
        for at in range(7)
    ]
    other = [metadata({"id": "INT4"}, "AB", table="other"), enveloped(record({"id": 1}, **PLAIN), "AB")]
    path = write(tmp_path, metadata({"id": "INT4", "name": "STRING"}), *messages[:3], *other, None, b"{", *messages[3:])
    rows = table(path, **WRITTEN)
    assert [row["id"] for row in images(rows)] == list(range(7))
    assert [row is not None for row in images(rows, "before")] == [False, True] * 3 + [False]
    events = read(path, format=FORMAT, **WRITTEN)
    same = ["file_index", "offset", "kind", "operation", "position", "transaction_id", "table_version"]
    chosen = pa.array([name == "stock" and kind == "change" for name, kind in zip(
        events.column("table_name").to_pylist(), events.column("kind").to_pylist(), strict=True)])  # fmt: skip
    assert rows.select(same).equals(events.filter(chosen).select(same))
    assert table(path, split_size=64, **WRITTEN).equals(rows)


def test_columns_and_images_can_be_chosen(tmp_path: Path) -> None:
    path = write(tmp_path, metadata({"id": "INT4", "name": "STRING"}), enveloped(record(AFTER, BEFORE)))
    rows = table(path, request={"columns": ("name",), "images": "after"})
    assert rows.schema.names[-1] == "after"
    assert "before" not in rows.schema.names
    assert images(rows) == [{"name": "quartz"}]
    assert images(table(path, request={"columns": ("name", "id")}), "before") == [{"name": None, "id": 7}]
    assert images(table(path, "stock", {"images": "before"}), "before") == [BEFORE]


def registry_of(folder: Path, **schemas: str) -> str:
    (folder / "registry").mkdir()
    for number, text in schemas.items():
        (folder / "registry" / f"{number[1:]}.avsc").write_text(text)
    return str(folder / "registry")


def test_columns_of_several_versions_stand_side_by_side(tmp_path: Path) -> None:
    other = data_schema({"id": "long", "price": "double"})
    registry = registry_of(tmp_path, _1=STOCK, _2=other, _3=data_schema({"x": "int"}, "com.attunity.queue.msg.t.s.o"))
    path = write(
        tmp_path,
        framed(1, avro_record(STOCK, AFTER, **PLAIN)),
        framed(2, avro_record(other, {"id": 1 << 40, "price": 1.5}, **PLAIN)),
        framed(3, avro_record(data_schema({"x": "int"}), {"x": 1}, **PLAIN)),
        framed(1, avro_record(STOCK, AFTER, **PLAIN)),
    )
    rows = table(path, registry=registry)
    kinds = {field.name: field.type for field in rows.schema.field("after").type}
    assert kinds == {"id": pa.string(), "name": pa.string(), "price": pa.float64()}, "a column that was retyped is text"
    assert images(rows) == [
        {"id": "7", "name": "quartz", "price": None},
        {"id": str(1 << 40), "name": None, "price": 1.5},
        {"id": "7", "name": "quartz", "price": None},
    ]
    newest = table(path, request={"schema": "latest"}, registry=registry)
    assert images(newest) == [{"id": 7, "price": None}, {"id": 1 << 40, "price": 1.5}, {"id": 7, "price": None}]
    only = table(path, request={"columns": ("price",)}, registry=registry)
    assert images(only) == [{"price": None}, {"price": 1.5}, {"price": None}], "a row without the column is a row"


def test_a_retyped_column_of_json_keeps_its_text(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        metadata({"id": "INT4", "day": "DATE"}),
        metadata({"id": "INT4", "day": "STRING"}, "AB"),
        enveloped(record({"id": 1, "day": "1993-11-25"}, **PLAIN)),
        enveloped(record({"id": 1, "day": "a day"}, **PLAIN), "AB"),
    )
    assert images(table(path)) == [{"id": 1, "day": "1993-11-25"}, {"id": 1, "day": "a day"}]
    assert images(table(path, request={"schema": "latest"}))[1] == {"id": 1, "day": "a day"}


def test_tables_that_are_not_there_and_columns_that_are_not_there_name_the_nearest(tmp_path: Path) -> None:
    path = write(tmp_path, metadata({"id": "INT4", "name": "STRING"}), enveloped(record(AFTER, BEFORE)))
    for request, sentence in [
        (("stok", {}), "there is no table 'stok'. There are: shop.stock."),
        (("shop.stok", {}), "there is no table 'shop.stok'. Did you mean 'shop.stock'? There are: shop.stock."),
        (
            ("stock", {"columns": ("nam",)}),
            "table 'stock' has no column 'nam'. Did you mean 'name'? There are: id, name.",
        ),
        (("stock", {"images": "all"}), "images: expected before, after or both, found 'all'"),
        (("stock", {"schema": "newest"}), "schema: expected in_force or latest, found 'newest'"),
    ]:
        with pytest.raises(CaptureError) as caught:
            table(path, *request)
        assert str(caught.value) == sentence
    with pytest.raises(CaptureError, match="There are: none"):
        table(write(tmp_path, record(AFTER)), "stock")


# --- against events ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("json-envelope", {"container": "lines"}),
        ("avro-envelope", {"container": "kcat"}),
        ("avro-envelope", {"container": "avro", "logical": False}),
        ("confluent", {"container": "parquet"}),
    ],
)
def test_typed_values_are_those_of_events(tmp_path: Path, form: str, options: dict[str, Any]) -> None:
    given = {"tables": 2, "schema_changes": 4, "all_types_share": 0.3, "column_mask": 0.2, "layout": "stream"} | options
    synth.generate(FORMAT, changes=60, seed=9, to=tmp_path, form=form, **given)
    beside = {"registry": str(tmp_path / "registry")} if form == "confluent" else {}
    path = tmp_path / "capture"
    events = read(path, format=FORMAT, **beside).to_pylist()
    names = {(row["schema_name"], row["table_name"]) for row in events if row["kind"] == "change"}
    assert len(names) == 3
    for schema, name in names:
        rows = table(path, f"{schema}.{name}", **beside)
        wanted = [row for row in events if row["kind"] == "change" and row["table_name"] == name]
        assert rows.column("offset").to_pylist() == [row["offset"] for row in wanted]
        for image in ("before", "after"):
            column = rows.column(image).combine_chunks()
            assert column.is_valid().to_pylist() == [row[image] is not None for row in wanted]
            texts = {one.name: to_text(column.field(one.name)).to_pylist() for one in column.type}
            kinds = {one.name: one.type for one in column.type}
            for at, row in enumerate(wanted):
                for label, text in dict(row[image] or ()).items():
                    assert _same(texts[label][at], text, kinds[label]), (label, kinds[label])


def _same(found: str | None, text: str | None, kind: pa.DataType) -> bool:
    """Is the text of a typed value that of the event, which is the source's own spelling?"""
    if found is None or text is None or pa.types.is_string(kind):
        return found == text
    if pa.types.is_floating(kind):
        return float(found) == pytest.approx(float(text))
    if pa.types.is_decimal(kind):
        return Decimal(found) == Decimal(text)
    if pa.types.is_timestamp(kind):
        return dt.datetime.fromisoformat(found) == dt.datetime.fromisoformat(text)
    return found.lower() == text.lower()
