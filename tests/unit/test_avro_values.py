"""Literal bytes in, exact values out, for each Avro type; and the bytes that are no value, with the reason.

Every case goes through the column-wise decoder and through the walk of one value, among rows that are well.
"""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cdcwb.errors import MalformedRecordError, OptionError, TruncatedRecordError
from cdcwb.formats.containers.avro import Decoder, anatomy
from cdcwb.formats.containers.avro_schema import parse_schema
from cdcwb.formats.containers.avro_values import to_text
from cdcwb.formats.dissector import Field
from cdcwb.model import Problem
from tests.avro import decode_one

UTC = dt.UTC
DATE = {"type": "int", "logicalType": "date"}
ENUM = {"type": "enum", "name": "operation", "symbols": ["INSERT", "UPDATE", "DELETE", "REFRESH"]}
PAIR = {"type": "record", "name": "Pair", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}]}
INTS = {"type": "array", "items": "int"}
MAP = {"type": "map", "values": "long"}


def logical(kind: str, name: str) -> dict[str, Any]:
    return {"type": kind, "logicalType": name}


def decimal(precision: int, scale: int, size: int | None = None) -> dict[str, Any]:
    made = {"logicalType": "decimal", "precision": precision, "scale": scale}
    return made | ({"type": "bytes"} if size is None else {"type": "fixed", "name": "F", "size": size})


def micros(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


VALUES: list[tuple[Any, str, Any, str | None]] = [
    ("null", "", None, None),
    ("boolean", "00", False, "false"),
    ("boolean", "01", True, "true"),
    ("int", "00", 0, "0"),
    ("int", "01", -1, "-1"),
    ("int", "7F", -64, "-64"),
    ("int", "8001", 64, "64"),
    ("int", "feffffff0f", 2147483647, "2147483647"),
    ("int", "ffffffff0f", -2147483648, "-2147483648"),
    ("int", "8000", 0, "0"),  # two bytes where one would do
    ("int", "82808080808080808000", 1, "1"),
    ("long", "feffffffffff7f", 281474976710655, "281474976710655"),
    ("long", "80808080808080 01".replace(" ", ""), 281474976710656, "281474976710656"),
    ("long", "8080808080808080 01".replace(" ", ""), 36028797018963968, "36028797018963968"),
    ("long", "feffffffffffffffff01", 9223372036854775807, "9223372036854775807"),
    ("long", "ffffffffffffffffff01", -9223372036854775808, "-9223372036854775808"),
    ("float", "0000c03f", 1.5, "1.5"),
    ("float", "cdcccc3d", 0.10000000149011612, "0.1"),
    ("float", "0000807f", float("inf"), "inf"),
    ("double", "000000000000f03f", 1.0, "1.0"),
    ("double", "9a9999999999b93f", 0.1, "0.1"),
    ("double", "0000000000000080", -0.0, "-0.0"),
    ("double", "8cb5781daf154444", 7.418e20, None),
    ("double", "000000000000f87f", float("nan"), "nan"),
    ("double", "000000000000f0ff", float("-inf"), "-inf"),
    ("string", "00", "", ""),
    ("string", "0a6162c3a9 7a".replace(" ", ""), "abéz", "abéz"),
    ("string", "8201" + "78" * 65, "x" * 65, "x" * 65),
    ("bytes", "00", b"", ""),
    ("bytes", "0600AbFF", b"\x00\xab\xff", "00abff"),
    ({"type": "fixed", "name": "F", "size": 3}, "616263", b"abc", "616263"),
    ({"type": "fixed", "name": "F", "size": 0}, "", b"", ""),
    (ENUM, "00", "INSERT", "INSERT"),
    (ENUM, "06", "REFRESH", "REFRESH"),
    (DATE, "00", dt.date(1970, 1, 1), "1970-01-01"),
    (DATE, "01", dt.date(1969, 12, 31), "1969-12-31"),
    (DATE, "f3e457", dt.date(1, 1, 1), "0001-01-01"),
    (DATE, "c082e602", dt.date(9999, 12, 31), "9999-12-31"),
    (logical("int", "time-millis"), "00", dt.time(0), "00:00:00.000"),
    (logical("int", "time-millis"), "feefb252", dt.time(23, 59, 59, 999_000), "23:59:59.999"),
    (logical("long", "time-micros"), "02", dt.time(0, 0, 0, 1), "00:00:00.000001"),
    (logical("long", "timestamp-millis"), "01", micros("1969-12-31T23:59:59.999+00:00"), "1969-12-31T23:59:59.999"),
    (
        logical("long", "timestamp-micros"),
        "02",
        micros("1970-01-01T00:00:00.000001+00:00"),
        "1970-01-01T00:00:00.000001",
    ),
    (logical("long", "local-timestamp-millis"), "00", micros("1970-01-01T00:00:00"), "1970-01-01T00:00:00.000"),
    (logical("long", "local-timestamp-micros"), "00", micros("1970-01-01T00:00:00"), "1970-01-01T00:00:00.000000"),
    (decimal(4, 2), "02ff", Decimal("-0.01"), "-0.01"),
    (decimal(4, 2), "0404e2", Decimal("12.50"), "12.50"),
    (decimal(4, 2), "00", Decimal("0.00"), "0.00"),
    (decimal(4, 2), "0400ff", Decimal("2.55"), "2.55"),
    (decimal(20, 0), "1000ffffffffffffff", Decimal(72057594037927935), "72057594037927935"),
    (decimal(20, 0), "1200ffffffffffffffff", Decimal(18446744073709551615), "18446744073709551615"),
    (decimal(20, 0), "12ff0000000000000000", Decimal(-18446744073709551616), "-18446744073709551616"),
    (decimal(4, 2), "22" + "ff" * 17, Decimal("-0.01"), "-0.01"),  # more bytes than it needs, and than 16
    (decimal(20, 10), "0201", Decimal("0.0000000001"), "0.0000000001"),
    (decimal(60, 1), "2000" + "ff" * 15, Decimal(f"{2**120 - 1}E-1"), f"{(2**120 - 1) // 10}.{(2**120 - 1) % 10}"),
    (decimal(77, 1), "0203", b"\x03", "03"),  # more digits than Arrow's decimals have: bytes
    (decimal(4, 2, 3), "fffff6", Decimal("-0.10"), "-0.10"),
    (
        logical("string", "uuid"),
        "48" + b"6f1c0a52-1111-4222-8333-444455556666".hex(),
        "6f1c0a52-1111-4222-8333-444455556666",
        None,
    ),
    (
        logical("string", "uuid"),
        "40" + b"6F1C0A52111142228333444455556666".hex(),
        "6F1C0A52111142228333444455556666",
        None,
    ),
    (["null", "int"], "00", None, None),
    (["null", "int"], "0206", 3, "3"),
    (["int", "null"], "0006", 3, "3"),
    (["int", "null"], "02", None, None),
    (["null", "int"], "820006", 3, "3"),  # an index of two bytes
    (["null", "int", "string"], "00", None, None),
    (["null", "int", "string"], "0206", "3", "3"),
    (["null", "int", "string"], "040278", "x", "x"),
    (["string"], "000278", "x", "x"),
    (PAIR, "020278", {"a": 1, "b": "x"}, '{"a":"1","b":"x"}'),
    (["null", PAIR], "02020222", {"a": 1, "b": '"'}, '{"a":"1","b":"\\""}'),
    ({"type": "record", "name": "None", "fields": []}, "", {}, "{}"),
    *(
        (kind, raw, text, text)
        for kind, raw, text in (
            (INTS, "00", "[]"),
            (INTS, "04020400", '["1","2"]'),
            (INTS, "0202020400", '["1","2"]'),  # two blocks
            (INTS, "0304020400", '["1","2"]'),  # count -2, 2 bytes
            ({"type": "array", "items": INTS}, "040202000000", '[["1"],[]]'),
            ({"type": "array", "items": PAIR}, "0202027800", '[{"a":"1","b":"x"}]'),
            (
                {"type": "array", "items": ["null", "double", "bytes"]},
                "080402ff0002000000000000f03f040000",
                '["ff",null,"1.0",""]',
            ),
            ({"type": "array", "items": ENUM}, "020400", '["DELETE"]'),
            ({"type": "array", "items": "boolean"}, "02010" + "0", '["true"]'),
            (MAP, "00", "{}"),
            (MAP, "0202610200", '{"a":"1"}'),
            (MAP, "0402610202620400", '{"a":"1","b":"2"}'),
            (MAP, "0402610202610400", '{"a":"2"}'),  # the last of a key counts
            (["null", MAP], "0200", "{}"),
        )
    ),
    (["null", MAP], "00", None, None),
]


@pytest.mark.parametrize(("kind", "raw", "value", "text"), VALUES)
def test_bytes_mean_exactly_this_value(kind: Any, raw: str, value: Any, text: str | None) -> None:
    schema = parse_schema(json.dumps({"type": "record", "name": "Top", "fields": [{"name": "f", "type": kind}]}))
    data = bytes.fromhex(raw)
    found = Decoder(schema).decode(pa.array([data] * 3, pa.binary()))
    assert found.ok.tolist() == [True] * 3
    column = found.column.field("f")
    shown = column.to_pylist()
    if isinstance(value, float):
        assert [repr(one) for one in shown] == [repr(column.type.to_pandas_dtype()(value).item())] * 3 or text is None
    else:
        assert shown == [value] * 3
    assert text is None or to_text(column).to_pylist() == [text] * 3
    trees = anatomy(schema, data).children
    assert trees or not data
    for tree in trees:
        assert tree.problem is None
        if tree.value is not None:
            assert tree.value == to_text(column)[0].as_py()


BAD: list[tuple[Any, str, str, Problem]] = [
    ("boolean", "", "f: expected 1 byte of boolean, found 0, at byte 1", Problem.TRUNCATED),
    ("boolean", "02", "f: expected a byte 0 or 1, found 2", Problem.VALUE),
    ("int", "", "f: expected int, found the end of the value, at byte 1", Problem.TRUNCATED),
    ("int", "8080", "f: expected int, found the end of the value, at byte 1", Problem.TRUNCATED),
    ("int", "8080808010", "f: expected an int of 32 bits, found 2147483648", Problem.VALUE),
    (
        "long",
        "ff" * 10 + "01",
        "f: expected long, found a number of more than 64 bits, at byte 1",
        Problem.MALFORMED,
    ),
    (
        "long",
        "ff" * 9 + "02",
        "f: expected long, found a number of more than 64 bits, at byte 1",
        Problem.MALFORMED,
    ),
    ("float", "000000", "f: expected 4 bytes of float, found 3, at byte 1", Problem.TRUNCATED),
    ("string", "0461", "f: expected 2 bytes of string, found 1, at byte 1", Problem.TRUNCATED),
    ("string", "03616263", "f: expected string, found the number -2, at byte 1", Problem.MALFORMED),
    ("string", "04c328", "f: expected UTF-8, found c328 at byte 0 of the text", Problem.CHARSET),
    ("string", "06eda080", "f: expected UTF-8, found eda080 at byte 0 of the text", Problem.CHARSET),
    (
        "bytes",
        "feffffffffffffffff01",
        "f: expected 9,223,372,036,854,775,807 bytes of bytes, found 0, at byte 1",
        Problem.TRUNCATED,
    ),
    (
        "bytes",
        "ffffffffffffffffff01",
        "f: expected bytes, found the number -9223372036854775808, at byte 1",
        Problem.MALFORMED,
    ),
    (
        {"type": "fixed", "name": "F", "size": 3},
        "6162",
        "f: expected 3 bytes of fixed F in 3 bytes, found 2, at byte 1",
        Problem.TRUNCATED,
    ),
    (ENUM, "08", "f: expected the number of one of 4 symbols, from 0 on, found 4", Problem.VALUE),
    (ENUM, "01", "f: expected the number of one of 4 symbols, from 0 on, found -1", Problem.VALUE),
    (
        DATE,
        "c282e602",
        "f: expected a date of the years 1 to 9999 in days since 1970, found 2932897",
        Problem.TIME_RANGE,
    ),
    (
        logical("int", "time-millis"),
        "01",
        "f: expected a time of day in milliseconds, found -1",
        Problem.VALUE,
    ),
    (
        decimal(4, 2),
        "042710",
        "f: expected an unscaled number of at most 4 digits, found 10000",
        Problem.VALUE,
    ),
    (
        decimal(20, 2),
        "12" + "7f" * 9,
        f"f: expected an unscaled number of at most 20 digits, found {int('7f' * 9, 16)}",
        Problem.VALUE,
    ),
    (
        decimal(20, 2),
        "1280" + "00" * 8,
        f"f: expected an unscaled number of at most 20 digits, found {-(1 << 71)}",
        Problem.VALUE,
    ),
    (
        ["null", "int"],
        "0406",
        "f: expected union of null, int, found the number 2, at byte 1",
        Problem.MALFORMED,
    ),
    (
        ["null", "int"],
        "0106",
        "f: expected union of null, int, found the number -1, at byte 1",
        Problem.MALFORMED,
    ),
    (PAIR, "02", "f.b: expected string, found the end of the value, at byte 2", Problem.TRUNCATED),
    (INTS, "0402", "f: expected array of int, found what cannot be read (it is cut off), at byte 1", Problem.TRUNCATED),
    (
        MAP,
        "020461",
        "f: expected map of long, found what cannot be read (Expected 2 bytes, read 1), at byte 1",
        Problem.TRUNCATED,
    ),
    ("null", "00", "the value: expected the end of the value, found 1 more byte, at byte 1", Problem.MALFORMED),
]


@pytest.mark.parametrize(("kind", "raw", "reason", "code"), BAD)
def test_bytes_that_are_no_value_are_named(kind: Any, raw: str, reason: str, code: Problem) -> None:
    fields = [{"name": "before", "type": "boolean"}, {"name": "f", "type": kind}]
    schema = parse_schema(json.dumps({"type": "record", "name": "Top", "fields": fields}))
    data = b"\x01" + bytes.fromhex(raw)
    found = Decoder(schema).decode(pa.array([data, data, data], pa.binary()))
    assert found.ok.tolist() == [False] * 3
    assert found.column.null_count == 3
    assert [found.reason(row) for row in range(3)] == [reason] * 3
    assert [trouble.code for trouble in found.troubles[1]] == [code]
    tree = anatomy(schema, data)
    assert [leaf.problem for leaf in tree.walk() if leaf.problem and not leaf.children] in ([code], [])
    assert code in [one.problem for one in tree.walk()]
    if "more byte" in reason:
        assert decode_one(schema, data) == ({"before": True, "f": None}, 1)
    else:
        with pytest.raises(TruncatedRecordError if code == Problem.TRUNCATED else MalformedRecordError) as caught:
            decode_one(schema, data)
        assert caught.value.message == reason


# --- shapes -----------------------------------------------------------------------------------------------------------


def test_a_schema_need_not_be_a_record() -> None:
    schema = parse_schema('"string"')
    found = Decoder(schema).decode(pa.array([b"\x02x", b"\x00", b"\x04x"]))
    assert found.column.to_pylist() == [{"value": "x"}, {"value": ""}, None]
    assert schema.fields == ("value",)
    assert schema.root.arrow == pa.struct([("value", pa.string())])
    assert decode_one(schema, b"\x02xyz") == ("x", 2)
    tree = anatomy(schema, b"\x02x")
    assert (tree.name, tree.children[0].value) == ("value", "x")
    union = parse_schema('["null", {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}]')
    assert Decoder(union).decode(pa.array([b"\x00", b"\x02\x04"])).column.to_pylist() == [
        {"value": None},
        {"value": {"a": 2}},
    ]


def test_no_values_give_an_empty_column() -> None:
    schema = parse_schema(json.dumps(PAIR))
    found = Decoder(schema).decode(pa.array([], pa.binary()))
    assert found.column.type == schema.root.arrow
    assert (len(found.column), len(found.ok)) == (0, 0)


def test_nulls_are_no_values() -> None:
    with pytest.raises(ValueError, match="expected values without nulls, found 1"):
        Decoder(parse_schema(json.dumps(PAIR))).decode(pa.array([b"\x02\x00", None]))


def test_bytes_in_front_are_skipped_and_counted() -> None:
    schema = parse_schema(json.dumps(PAIR))
    values = pa.array([b"\0\0\0\0\7\x02\x02x", b"\x02\x02y", b"\0\0\0", b"\0\0\0\0\7\x02"])
    found = Decoder(schema).decode(values, np.array([5, 0, 5, 5]))
    assert found.column.to_pylist() == [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, None, None]
    assert found.reason(2) == "the value: expected 5 bytes at the beginning, found 3, at byte 0"
    assert found.reason(3) == "b: expected string, found the end of the value, at byte 6"
    tree = anatomy(schema, values[0].as_py(), 5)
    assert [(child.name, child.offset, child.value) for child in tree.children] == [("a", 5, "1"), ("b", 6, "x")]


def test_wanted_fields_are_named_with_or_without_dots() -> None:
    fields = [
        {"name": "data", "type": PAIR},
        {"name": "beforeData", "type": ["null", "Pair"]},
        {"name": "with.dot", "type": "int"},
        {"name": "many", "type": ["null", "int", "Pair"]},
    ]
    schema = parse_schema(json.dumps({"type": "record", "name": "Top", "fields": fields}))
    values = pa.array([bytes.fromhex("020278 020402790600".replace(" ", ""))])
    wanted = {
        ("data",): {"data": {"a": 1, "b": "x"}},
        ("beforeData.b", "data.a"): {"data": {"a": 1}, "beforeData": {"b": "y"}},
        ("data.a", "data"): {"data": {"a": 1, "b": "x"}},
        ("data", "data.a"): {"data": {"a": 1, "b": "x"}},
        ("with.dot",): {"with.dot": 3},
        (): {},
    }
    for names, expected in wanted.items():
        found = Decoder(schema, names).decode(values)
        assert found.column.to_pylist() == [expected]
        assert found.column.type == Decoder(schema, names).root.arrow
    for name, said in {
        "dat": "no field 'dat'. There are: data, beforeData, with.dot, many.",
        "data.c": "no field 'c'",
        "many.a": "no field 'a'",
        "with.dot.x": "no field 'with.dot.x'",
    }.items():
        with pytest.raises(OptionError, match=said.replace(".", r"\.").replace("?", r"\?")):
            Decoder(schema, (name,))


def test_fields_that_are_not_wanted_need_not_be_right() -> None:
    fields = [{"name": "a", "type": "boolean"}, {"name": "b", "type": "string"}, {"name": "c", "type": "int"}]
    schema = parse_schema(json.dumps({"type": "record", "name": "Top", "fields": fields}))
    values = pa.array([b"\x07\x02\xff\x06", b"\x01\x02\xff", b"\x01\x05\xff\xff\x06"])
    found = Decoder(schema, ("c",)).decode(values)
    assert found.column.to_pylist() == [{"c": 3}, None, None]
    assert [found.reason(row) for row in range(3)] == [
        "",
        "c: expected int, found the end of the value, at byte 3",
        "b: expected string, found the number -3, at byte 1",
    ]


def test_the_tree_names_every_part() -> None:
    fields = [{"name": "s", "type": ["null", "string"]}, {"name": "m", "type": MAP}, {"name": "n", "type": "int"}]
    schema = parse_schema(json.dumps({"type": "record", "name": "x.Top", "fields": fields}))

    def shown(field: Field) -> Any:
        inner = [shown(child) for child in field.children]
        return (field.name, field.raw.hex(), field.value, *([inner] if inner else []))

    tree = anatomy(schema, bytes.fromhex("020278" + "010602610a00" + "80"))
    assert tree.problem == Problem.TRUNCATED
    assert [shown(child) for child in tree.children] == [
        ("s", "020278", "x", [("union index", "02", "1"), ("length", "02", "1"), ("text", "78", "x")]),
        ("m", "010602610a00", '{"a":"5"}'),
        ("undecoded", "80", None),
    ]
    tree = anatomy(schema, bytes.fromhex("00" + "00" + "00" + "abcd"))
    assert [shown(child) for child in tree.children] == [
        ("s", "00", None, [("union index", "00", "0")]),
        ("m", "00", "{}"),
        ("n", "00", "0"),
        ("trailing bytes", "abcd", None),
    ]
    tree = anatomy(schema, bytes.fromhex("04" + "00" + "00"))
    assert [(child.name, child.raw.hex(), child.problem) for child in tree.children] == [
        ("undecoded", "040000", Problem.MALFORMED)
    ]
    assert tree.children[0].meaning == "s: expected union of null, string, found the number 2, at byte 0"


def test_a_field_may_be_named_like_a_part() -> None:
    schema = parse_schema(json.dumps({"type": "record", "name": "Top", "fields": [{"name": "key", "type": "string"}]}))
    (key,) = anatomy(schema, b"\x02x").children
    assert [(part.name, part.meaning) for part in key.children] == [
        ("length", "bytes of string that follow"),
        ("text", "string"),
    ]


# --- hostile ----------------------------------------------------------------------------------------------------------


def top(kind: Any) -> Decoder:
    return Decoder(parse_schema(json.dumps(kind)))


def zigzag(number: int) -> bytes:
    bits, made = number << 1 if number >= 0 else (~number << 1) | 1, b""
    while bits > 0x7F:
        made, bits = made + bytes([bits & 0x7F | 0x80]), bits >> 7
    return made + bytes([bits])


@pytest.mark.parametrize("count", [100, 10**9, 2**62, -(2**62), -(2**63), 2**63 - 1])
def test_counts_beyond_the_value_are_found_at_once(count: int) -> None:
    for items in ("int", "string", "double", PAIR):
        decoder = top({"type": "array", "items": items})
        given = [zigzag(count) + (zigzag(7) if count < 0 else b"") + b"\x00" * 20, b"\x00"]
        found = decoder.decode(pa.array(given))
        assert found.ok.tolist() == [False, True]


def test_a_fixed_of_gigabytes_takes_no_memory() -> None:
    decoder = top(["null", {"type": "fixed", "name": "F", "size": (1 << 31) - 1}])
    found = decoder.decode(pa.array([b"\x02abc", b"\x00"] * 100))
    assert found.ok.tolist() == [False, True] * 100
    assert found.column.nbytes < 10_000


def test_many_columns_of_parked_rows_stay_in_the_buffer() -> None:
    fields = [{"name": f"c{n}", "type": {"type": "fixed", "name": f"F{n}", "size": 500}} for n in range(300)]
    inner = {"type": "record", "name": "Inner", "fields": fields}
    kind = {
        "type": "record",
        "name": "Top",
        "fields": [{"name": "i", "type": ["null", inner]}, {"name": "j", "type": "int"}],
    }
    whole = b"\x02" + bytes(300 * 500) + b"\x06"
    found = top(kind).decode(pa.array([whole, b"\x00\x08", whole[:-9], whole, b"\x00", b""]))
    assert found.ok.tolist() == [True, True, False, True, False, False]
    assert found.column.field("j").to_pylist()[:2] == [3, 4]
    ints = {"type": "record", "name": "Ints", "fields": [{"name": f"c{n}", "type": "long"} for n in range(2000)]}
    found = top(ints).decode(pa.array([b"\x00" * 2000, b"\xff" * 9 + b"\x01", b"", b"\xfe\x01" * 2000]))
    assert found.ok.tolist() == [True, False, False, True]
    assert found.column[3].as_py()["c1999"] == 127


def test_a_long_array_among_short_ones() -> None:
    decoder = top(INTS)
    long = zigzag(5000) + b"".join(zigzag(number) for number in range(5000)) + b"\x00"
    values = [b"\x00", b"\x02\x02\x00"] * 40
    values.insert(7, long)
    found = decoder.decode(pa.array(values))
    assert found.ok.all()
    assert found.column[7].as_py()["value"] == json.dumps([str(one) for one in range(5000)], separators=(",", ":"))
    assert found.column[8].as_py()["value"] == '["1"]'
    assert [found.rows()[row]["value"] for row in (7, 8)] == [list(range(5000)), [1]]


def test_many_rows_for_the_slow_path() -> None:
    decoder = top({"type": "record", "name": "Top", "fields": [{"name": "d", "type": decimal(30, 1)}]})
    long, short = zigzag(20) + bytes(19) + b"\x07", b"\x02\x07"
    found = decoder.decode(pa.array([long, short, long + b"x"] * 300))
    assert found.ok.tolist() == [True, True, False] * 300
    assert found.column.to_pylist() == [{"d": Decimal("0.7")}, {"d": Decimal("0.7")}, None] * 300


def test_an_enum_without_symbols_has_no_value() -> None:
    empty = {"type": "enum", "name": "E", "symbols": []}
    found = top({"type": "record", "name": "Top", "fields": [{"name": "e", "type": ["null", empty]}]}).decode(
        pa.array([b"\x00", b"\x02\x00"])
    )
    assert found.ok.tolist() == [True, False]


def test_arrays_in_records_are_objects_with_lists() -> None:
    data = {
        "type": "record",
        "name": "Data",
        "fields": [{"name": "tags", "type": ["null", INTS]}, {"name": "m", "type": MAP}],
    }
    fields = [{"name": "after", "type": ["null", data]}, {"name": "x", "type": "int"}]
    schema = parse_schema(json.dumps({"type": "record", "name": "Top", "fields": fields}))
    values = pa.array([b"\x02\x02\x02\x04\x00\x02\x02a\x0a\x00\x06", b"\x00\x08", b"\x02\x02\x02"])
    found = Decoder(schema).decode(values)
    assert found.column.to_pylist() == [
        {"after": {"tags": '["2"]', "m": '{"a":"5"}'}, "x": 3},
        {"after": None, "x": 4},
        None,
    ]
    assert found.rows() == [{"after": {"tags": [2], "m": {"a": 5}}, "x": 3}, {"after": None, "x": 4}, None]
    assert Decoder(schema, ("x",)).decode(values).column.to_pylist() == [{"x": 3}, {"x": 4}, None]


# --- values with errors in rows that are kept -------------------------------------------------------------------------


def test_a_value_alone_may_have_the_error() -> None:
    fields = [{"name": "d", "type": ["null", DATE]}, {"name": "t", "type": "string"}, {"name": "m", "type": MAP}]
    schema = parse_schema(json.dumps({"type": "record", "name": "Top", "fields": fields}))
    late = zigzag(2932897)
    values = [
        b"\x02" + late + b"\x02x" + b"\x00",
        b"\x00" + b"\x02\xff" + b"\x00",
        b"\x00" + b"\x02x" + b"\x02\x02\xff\x00\x00",
        b"\x02" + late + b"\x02",
        b"\x02\x00" + b"\x02x" + b"\x00",
    ]
    assert Decoder(schema).decode(pa.array(values)).ok.tolist() == [False, False, False, False, True]
    found = Decoder(schema, strict=False).decode(pa.array(values))
    assert found.ok.tolist() == [True, True, False, False, True]
    assert found.column.to_pylist() == [
        {"d": None, "t": "x", "m": "{}"},
        {"d": None, "t": None, "m": "{}"},
        None,
        None,
        {"d": dt.date(1970, 1, 1), "t": "x", "m": "{}"},
    ]
    assert {row: [(one.path, one.code) for one in some] for row, some in found.troubles.items()} == {
        0: [("d", Problem.TIME_RANGE)],
        1: [("t", Problem.CHARSET)],
        2: [("m", Problem.MALFORMED)],
        3: [("t", Problem.TRUNCATED)],
    }
    assert str(found.troubles[0][0]) == "d: expected a date of the years 1 to 9999 in days since 1970, found 2932897"
