"""One table as typed columns: the same values as the text maps of ``events``, in types that lose nothing."""

from __future__ import annotations

import datetime as dt
import math
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import cdcwb_synth as synth
from cdcwb.errors import CaptureError
from cdcwb.formats.dissector import TableRequest
from cdcwb.formats.gbase8s.events import read_table, typed_schema
from tests import wire
from tests.local import plan_of, read


def typed(
    path: Path,
    name: str,
    columns: tuple[str, ...] | None = None,
    images: str = "both",
    schema: str = "in_force",
    **options: Any,
) -> pa.Table:
    """The rows of one table, as the splits of a plan give them."""
    plan, request = plan_of(path, **options), TableRequest(name, columns, images, schema)
    batches = [batch for split in range(len(plan.splits)) for batch in read_table(plan, split, request)]
    return pa.Table.from_batches(batches, schema=typed_schema(plan, request))


def _same(value: Any, text: str | None, kind: pa.DataType) -> bool:
    """Is a typed value what the text of the map says?"""
    if text is None or value is None:
        return text is value
    if pa.types.is_integer(kind):
        return value == int(text)
    if pa.types.is_decimal(kind):
        return (value, -value.as_tuple().exponent) == (Decimal(text), kind.scale)
    if pa.types.is_float32(kind):
        return struct.pack(">f", value) == struct.pack(">f", float(text)) or (math.isnan(value) and text == "nan")
    if pa.types.is_floating(kind):
        return value == float(text) or (math.isnan(value) and text == "nan")
    if pa.types.is_boolean(kind):
        return value is (text == "true")
    if pa.types.is_date(kind):
        return value == dt.date.fromisoformat(text)
    if pa.types.is_timestamp(kind):
        whole, _, fraction = text.partition(".")
        pieces = [int(piece) for piece in whole.replace("T", "-").replace(":", "-").split("-")]
        return value == dt.datetime(*pieces, microsecond=int(fraction.ljust(6, "0") or 0))
    if pa.types.is_binary(kind):
        return value.hex() == text
    return value == text


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """600 changes; a third of them to the table of all column types, in extreme values and NULLs."""
    to = tmp_path_factory.mktemp("made")
    return synth.generate("gbase8s", changes=600, seed=5, to=to, all_types_share=0.35, null_share=0.2, schema_changes=4)


def _tables(made: Path) -> list[str]:
    return sorted({name for name in read(made / "capture").column("table_name").to_pylist() if name})


def test_typed_columns_are_the_text_maps_for_every_column_type(made: Path) -> None:
    events = {(row["file_index"], row["offset"]): row for row in read(made / "capture").to_pylist()}
    kinds, compared = set(), 0
    for name in _tables(made):
        table = typed(made / "capture", name, split_size=30_000)
        of_table = [row for row in events.values() if row["table_name"] == name and row["kind"] != "schema"]
        assert table.num_rows == sum(row["operation"] != "TRUNCATE" for row in of_table)
        types = {field.name: field.type for field in table.schema.field("after").type}
        kinds |= set(types.values())
        for row in table.to_pylist():
            event = events[row["file_index"], row["offset"]]
            for column in ("kind", "operation", "position", "transaction_id", "table_version"):
                assert row[column] == event[column]
            for image in ("before", "after"):
                if event[image] is None:
                    assert row[image] is None
                    continue
                texts = dict(event[image])
                for column, value in row[image].items():
                    assert _same(value, texts.get(column), types[column]), (name, column, value, texts.get(column))
                    compared += 1
    assert compared > 10_000
    assert {str(kind).partition("(")[0].partition("[")[0] for kind in kinds} == {
        "int16",
        "int32",
        "int64",
        "double",
        "float",
        "bool",
        "date32",
        "timestamp",
        "decimal128",
        "string",
        "binary",
    }


def test_the_types_are_those_of_the_columns(made: Path) -> None:
    plan = plan_of(made / "capture")
    everything = next(version for version in plan.shared.versions if "c_smallfloat" in version.text)
    schema = typed_schema(plan, TableRequest(str(everything.label)))
    types = {field.name: field.type for field in schema.field("before").type}
    assert types["c_smallint"] == pa.int16()
    assert types["id"] == pa.int32()
    assert types["c_serial8"] == pa.int64()
    assert types["c_decimal_32_16"] == pa.decimal128(32, 16)
    assert types["c_money_16"] == pa.decimal128(16, 2)
    assert types["c_floating"] == pa.string(), "a floating decimal has no scale of its own"
    assert types["c_year_fraction5"] == pa.timestamp("us"), "a DATETIME has no zone"
    assert types["c_year_day"] == pa.date32()
    assert types["c_hour_fraction5"] == pa.string(), "a partial DATETIME is no moment"
    assert types["i_day3_second"] == pa.string()
    assert types["l_blob"] == pa.binary()
    assert schema.names == [
        "file_index",
        "offset",
        "kind",
        "operation",
        "position",
        "transaction_id",
        "table_version",
        "before",
        "after",
    ]


def test_only_the_columns_asked_for_are_there_in_the_order_asked(made: Path) -> None:
    whole = typed(made / "capture", "101")
    part = typed(made / "capture", "101", ("city", "customer_id"))
    assert [field.name for field in part.schema.field("after").type] == ["city", "customer_id"]
    for image in ("before", "after"):
        for some, all_of_them in zip(part.column(image).to_pylist(), whole.column(image).to_pylist(), strict=True):
            wanted = ("city", "customer_id")
            assert some == (all_of_them and {name: all_of_them[name] for name in wanted})


def test_images_are_both_or_one(made: Path) -> None:
    both = typed(made / "capture", "101")
    for image, other in (("before", "after"), ("after", "before")):
        one = typed(made / "capture", "101", images=image)
        assert image in one.column_names
        assert other not in one.column_names
        assert one.column(image).equals(both.column(image))


# --- versions ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def versions(tmp_path: Path) -> Path:
    """A table that gets a second version: a number becomes wider, a text becomes a number, a column goes, one comes."""
    file = tmp_path / "stream.bin"
    first = wire.schema("n smallint, code char(4), gone integer", 10, 3, 0)
    second = wire.schema("n bigint, code integer, added date", 16, 3, 0)
    file.write_bytes(
        first
        + wire.row(40, 5, 0x10, struct.pack(">h4si", 7, b"12  ", 1))
        + wire.row(40, 5, 0x20, struct.pack(">h4si", 8, b"oak ", 1))
        + second
        + wire.row(40, 5, 0x30, struct.pack(">qii", 2**40, 34, 45_000))
    )
    return file


def test_a_row_has_the_columns_of_the_version_in_force_at_its_place(versions: Path) -> None:
    table = typed(versions, "131")
    assert table.schema.field("after").type == pa.struct(
        [("n", pa.int64()), ("code", pa.string()), ("gone", pa.int32()), ("added", pa.date32())]
    )
    assert table.column("after").to_pylist() == [
        {"n": 7, "code": "12", "gone": 1, "added": None},
        {"n": 8, "code": "oak", "gone": 1, "added": None},
        {"n": 2**40, "code": "34", "gone": None, "added": dt.date(2023, 3, 16)},
    ]
    assert table.column("table_version").to_pylist() == ["131@1", "131@1", "131@2"]


def test_the_latest_version_gives_columns_and_types_to_all_rows(versions: Path) -> None:
    table = typed(versions, "131", schema="latest")
    assert table.schema.field("after").type == pa.struct(
        [("n", pa.int64()), ("code", pa.int32()), ("added", pa.date32())]
    )
    assert table.column("after").to_pylist() == [
        {"n": 7, "code": 12, "added": None},
        {"n": 8, "code": None, "added": None},
        {"n": 2**40, "code": 34, "added": dt.date(2023, 3, 16)},
    ]


# --- what cannot be decoded -------------------------------------------------------------------------------------------


def test_bytes_that_are_no_value_are_null_and_never_a_number(tmp_path: Path) -> None:
    # sign 5, a digit over 99, a truth value of 2, a day too late: each would read as a number in hexadecimal
    file = tmp_path / "stream.bin"
    bad = [bytes.fromhex("00050000000100000000"), bytes.fromhex("906400"), b"\0\2", bytes.fromhex("12345678")]
    good = [bytes.fromhex("00010000000500000000"), bytes.fromhex("c10c22"), b"\0\1", bytes.fromhex("0000afc8")]
    file.write_bytes(
        wire.schema("a int8, b decimal(4,2), c boolean, d date", 19, 4, 0)
        + b"".join(wire.row(40, 5, 0x10 + n, b"".join(row)) for n, row in enumerate((good, bad, good)))
    )
    fine = {"a": 5, "b": Decimal("12.34"), "c": True, "d": dt.date(2023, 3, 16)}
    assert typed(file, "131").column("after").to_pylist() == [fine, dict.fromkeys("abcd"), fine]


def test_what_is_whole_of_a_broken_row_is_kept(tmp_path: Path) -> None:
    # the second row ends inside its text, the third stands in a header with four bytes more
    file = tmp_path / "stream.bin"
    cut = wire.row(40, 5, 0x20, struct.pack(">i", 2), [b"\0\5elm"])
    longer = wire.row(40, 5, 0x30, struct.pack(">i", 3), [wire.varchar("oak")], extra=b"\1\2\3\4")
    file.write_bytes(wire.goods() + wire.insert(5, 0x10, 1, "ash") + cut + longer + wire.insert(5, 0x40, 4, "yew"))
    assert typed(file, "131").column("after").to_pylist() == [
        {"n": 1, "goods": "ash"},
        {"n": 2, "goods": "0005656c6d"},
        {"n": 3, "goods": "oak"},
        {"n": 4, "goods": "yew"},
    ]


def test_columns_behind_an_unknown_type_are_not_offered(tmp_path: Path) -> None:
    file = tmp_path / "stream.bin"
    row = wire.row(40, 5, 0x10, struct.pack(">i", 1) + b"????????" + struct.pack(">i", 2))
    file.write_bytes(wire.schema("n integer, what json, m integer", 16, 3, 0) + row)
    assert typed(file, "131").column("after").to_pylist() == [{"n": 1}]
    with pytest.raises(CaptureError, match="has no column 'm'"):
        typed(file, "131", ("m",))


# --- names ------------------------------------------------------------------------------------------------------------


def test_a_wrong_name_is_an_error_that_names_what_there_is(made: Path) -> None:
    labels = {"101": "shop.customer", "102": "shop.orders"}
    with pytest.raises(CaptureError, match=r"no table 'custmer'.*Did you mean 'customer'.*shop\.customer"):
        typed(made / "capture", "custmer", labels=labels)
    with pytest.raises(CaptureError, match=r"no column 'citty'\. Did you mean 'city'"):
        typed(made / "capture", "customer", ("citty",), labels=labels)
    with pytest.raises(CaptureError, match="expected before, after or both, found 'neither'"):
        typed(made / "capture", "101", images="neither")
    with pytest.raises(CaptureError, match="expected in_force or latest, found 'oldest'"):
        typed(made / "capture", "101", schema="oldest")


def test_a_table_is_named_with_its_schema_or_without(made: Path) -> None:
    labels = {"101": "shop.customer", "102": "old.customer"}
    by_label = typed(made / "capture", "101")
    assert typed(made / "capture", "shop.customer", labels=labels).equals(by_label)
    both = typed(made / "capture", "customer", ("customer_id",), labels=labels)
    assert both.num_rows == by_label.num_rows + typed(made / "capture", "102").num_rows
