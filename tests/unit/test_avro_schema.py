"""Schemas are read as they are met: names that Avro forbids, names that meet, types one level too deep."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from cdcwb.errors import CaptureError
from cdcwb.formats.containers.avro import Decoder
from cdcwb.formats.containers.avro_schema import Schema, parse_schema
from tests.avro import decode_one


def record(name: str, *fields: tuple[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields], **more}


def read(schema: Schema, *values: str) -> list[Any]:
    """The values that the decoder reads, which fastavro reads as well."""
    given = [bytes.fromhex(value) for value in values]
    found = Decoder(schema).decode(pa.array(given, pa.binary()))
    assert found.ok.all(), found.reason(0)
    rows = found.column.to_pylist()
    assert [decode_one(schema, value) for value in given] == [
        (row if schema.is_record else row["value"], len(value)) for row, value in zip(rows, given, strict=True)
    ]
    return rows


def parsed(schema: Any) -> Schema:
    return parse_schema(json.dumps(schema))


# docs/formats/qlik-kafka.md §4: the forms of 2018 and of the schema registry
HEADERS = record(
    "Headers",
    ("operation", {"type": "enum", "name": "operation", "symbols": ["INSERT", "UPDATE", "DELETE", "REFRESH"]}),
    ("changeSequence", {"type": "string"}),
    ("changeMask", [{"type": "null"}, {"type": "bytes"}]),
)
DATA = record("Data", ("id", [{"type": "null"}, {"type": "int"}]))


def data_record(**more: Any) -> dict[str, Any]:
    return record(
        "DataRecord", ("data", DATA), ("beforeData", [{"type": "null"}, "Data"]), ("headers", HEADERS), **more
    )


ROW = {
    "data": {"id": 5},
    "beforeData": {"id": None},
    "headers": {"operation": "UPDATE", "changeSequence": "2", "changeMask": b"\x01"},
}


@pytest.mark.parametrize(
    "namespace", [None, "", "com.attunity.queue.msg.loan.main", "com.attunity.queue.msg.chips-qa.TSTDTA.CINMAD"]
)
def test_names_of_the_wire_are_read(namespace: str | None) -> None:
    schema = parsed(data_record(**({} if namespace is None else {"namespace": namespace})))
    assert schema.fields == ("data", "beforeData", "headers")
    assert read(schema, "020a" + "0200" + "02" + "0232" + "020201") == [ROW]
    assert schema.root.name == ".".join(part for part in (namespace, "DataRecord") if part)


def test_defaults_of_any_kind_do_no_harm() -> None:
    fields = [
        {"name": "a", "type": [{"type": "null"}, {"type": "int"}], "default": None},
        {"name": "b", "type": ["int", "null"], "default": None},  # must be of the first type
        {"name": "c", "type": "int", "default": "x"},
    ]
    assert read(parsed({"type": "record", "name": "R", "fields": fields}), "000204") == [{"a": None, "b": None, "c": 2}]
    assert read(parsed({"type": "record", "name": "R", "fields": fields}), "00" + "0004" + "06") == [
        {"a": None, "b": 2, "c": 3}
    ]


@pytest.mark.parametrize("name", ["long", "string", "record", "array", "Columns", "Top"])
def test_a_record_may_be_named_like_anything(name: str) -> None:
    """Metadata messages have a record for each column, named like the column."""
    columns = record("Columns", (name, record(name, ("ordinal", "int"), ("type", "string"))), ("n", "long"))
    schema = parsed(
        record("Top", ("columns", columns), ("l", "long"), ("s", "string"), ("a", {"type": "array", "items": "long"}))
    )
    expected = {"columns": {name: {"ordinal": 1, "type": "x"}, "n": 2}, "l": 3, "s": "y", "a": '["4"]'}
    assert read(schema, "02" + "0278" + "04" + "06" + "0279" + "020800") == [expected]


def test_a_name_that_is_defined_twice() -> None:
    one, other = record("T", ("a", "int")), record("T", ("b", "string"))
    schema = parsed(record("Top", ("x", one), ("y", one), ("z", other), ("latest", "T")))
    assert read(schema, "02" + "04" + "0278" + "0279") == [
        {"x": {"a": 1}, "y": {"a": 2}, "z": {"b": "x"}, "latest": {"b": "y"}}
    ]


def test_the_same_definition_twice_is_one_type() -> None:
    fixed = {"type": "fixed", "name": "F", "size": 1}
    enum = {"type": "enum", "name": "E", "symbols": ["A"]}
    schema = parsed(record("Top", ("a", fixed), ("b", fixed), ("c", enum), ("d", enum)))
    assert read(schema, "6162" + "0000") == [{"a": b"a", "b": b"b", "c": "A", "d": "A"}]


def test_a_field_that_is_there_twice_is_numbered() -> None:
    schema = parsed(record("Top", ("a", "int"), ("a", "int"), ("a#2", "int"), ("a", "int")))
    assert read(schema, "02040608") == [{"a": 1, "a#3": 2, "a#2": 3, "a#4": 4}]


def test_names_without_a_namespace_are_found_from_inside_one() -> None:
    inner = record(
        "In", ("e", {"type": "enum", "name": "E", "namespace": "", "symbols": ["A", "B"]}), ("f", "E"), namespace="p.q"
    )
    schema = parsed(record("Top", ("i", inner), ("e", "E"), ("again", "p.q.In"), ("null", record("Null"))))
    assert read(schema, "00" + "02" + "02" + "0200") == [
        {"i": {"e": "A", "f": "B"}, "e": "B", "again": {"e": "B", "f": "A"}, "null": {}}
    ]


def test_symbols_of_any_spelling() -> None:
    schema = parsed({"type": "enum", "name": "my-enum", "symbols": ["a-b", "", "ü", "a-b"]})
    assert read(schema, "00", "02", "04", "06") == [{"value": text} for text in ("a-b", "", "ü", "a-b")]
    with pytest.raises(CaptureError, match="expected a list of symbols, found"):
        parsed({"type": "enum", "name": "e", "symbols": ["A", 5]})


def test_types_one_level_too_deep() -> None:
    kind = {"type": {"type": ["null", {"type": {"type": "array", "items": {"type": {"type": "int"}}}}]}}
    assert read(parsed(record("Top", ("a", kind))), "02020400") == [{"a": '["2"]'}]
    named = record("Top", ("f", {"type": "fixed", "name": "F", "size": 1}), ("g", {"type": "F"}))
    assert read(parsed(named), "6162") == [{"f": b"a", "g": b"b"}]


@pytest.mark.parametrize(
    ("kind", "arrow"),
    [
        ({"type": "bytes", "logicalType": "decimal"}, pa.binary()),
        ({"type": "bytes", "logicalType": "decimal", "precision": 0}, pa.binary()),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}, pa.binary()),
        ({"type": "bytes", "logicalType": "decimal", "precision": 10**9}, pa.binary()),
        ({"type": "bytes", "logicalType": "decimal", "precision": True}, pa.binary()),
        ({"type": "bytes", "logicalType": "decimal", "precision": 5}, pa.decimal128(5, 0)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 38}, pa.decimal128(38, 38)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 39, "scale": 2}, pa.decimal256(39, 2)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 77, "scale": 2}, pa.binary()),
        ({"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 5}, pa.binary()),
        ({"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 4}, pa.decimal128(4, 0)),
        ({"type": "fixed", "name": "F", "size": 12, "logicalType": "duration"}, pa.binary()),
        ({"type": "string", "logicalType": "date"}, pa.string()),
        ({"type": "int", "logicalType": "timestamp-micros"}, pa.int32()),
        ({"type": "long", "logicalType": "timestamp-nanos"}, pa.int64()),
        ({"type": "string", "logicalType": ["date"]}, pa.string()),
        (["null", "int"], pa.int32()),
        (["null"], pa.null()),
        (["long"], pa.int64()),
        (["null", "int", "string"], pa.string()),
        ({"type": "map", "values": ["null", "float"]}, pa.string()),
        ({"type": "array", "items": "boolean"}, pa.string()),
    ],
)
def test_each_type_has_its_arrow_type(kind: Any, arrow: pa.DataType) -> None:
    assert parsed(record("Top", ("f", kind))).root.arrow == pa.struct([("f", arrow)])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected JSON"),
        ("[", "expected JSON"),
        ("[" * 100_000, "found too many levels"),
        ("5", "top: expected a type, found 5"),
        ('{"name": "R"}', "top: expected a type, found {'name': 'R'}"),
        ('"nothing"', "top: expected a type that is already defined, found nothing"),
        ("nothing", "top: expected a type that is already defined, found nothing"),
        ('{"type": "record", "fields": []}', "top: expected a name of the record, found None"),
        ('{"type": "record", "name": "R", "fields": 5}', "top: expected a list of fields, found 5"),
        ('{"type": "record", "name": "R", "fields": [{"type": "int"}]}', "top: expected a field with a name"),
        (
            json.dumps(record("R", ("a", record("S", ("b", "int"), ("c", "T"))))),
            "a.c: expected a type that is already defined",
        ),
        (json.dumps(record("R", ("a", {"type": "array"}))), r"a\.\[\]: expected a type, found None"),
        (json.dumps(record("R", ("a", {"type": "map", "values": 1}))), r"a\.{}: expected a type, found 1"),
        ('{"type": "fixed", "name": "F", "size": -1}', "top: expected a number of bytes, found -1"),
        ('{"type": "fixed", "name": "F", "size": 1e3}', "top: expected a number of bytes, found 1000.0"),
        (
            json.dumps(record("N", ("v", "int"), ("next", ["null", "N"]))),
            "next: expected a type that is complete, found the record N inside itself",
        ),
        ('{"type": "array", "items": "null"}', "top: expected items that have bytes, found null"),
        (json.dumps({"type": "array", "items": record("R", ("a", "null"))}), "expected items that have bytes"),
        (r'{"type": "enum", "name": "E", "symbols": ["\ud800"]}', "surrogates not allowed"),
        (
            "[" * 66 + '"int"' + "]" * 66,
            "expected at most 64 types inside each other, and 50000 in all",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, said: str) -> None:
    with pytest.raises(CaptureError, match=f"the Avro schema cannot be read: .*{said}"):
        parse_schema(text)


def test_names_that_unfold_without_end_are_refused() -> None:
    kind: Any = record("R0", ("a", "int"), ("b", "int"))
    for number in range(1, 40):
        kind = record(f"R{number}", ("a", kind), ("b", f"R{number - 1}"))
    with pytest.raises(CaptureError, match="and 50000 in all with names written out, found more"):
        parsed(kind)


def test_a_thousand_columns_in_both_images() -> None:
    columns = record("Data", *((f"c{n}", ["null", "int"]) for n in range(1024)))
    schema = parsed(record("Top", ("data", columns), ("beforeData", ["null", "Data"])))
    row = read(schema, "0204" * 1024 + "02" + "00" * 1024)[0]
    assert set(row["data"].values()) == {2}
    assert set(row["beforeData"].values()) == {None}


def test_the_text_may_be_a_bare_name_or_have_a_byte_order_mark() -> None:
    assert (
        parse_schema(" long\n").root.arrow
        == parse_schema('\ufeff"long"').root.arrow
        == pa.struct([("value", pa.int64())])
    )
