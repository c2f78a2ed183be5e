"""The columns, the tree and the errors of one value, and fastavro agree: on made-up schemas and values, and on values
that are damaged; with the loop compiled and interpreted."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal
from itertools import count
from typing import Any
from uuid import UUID

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cdcwb.errors import MalformedRecordError
from cdcwb.formats.containers import avro
from cdcwb.formats.containers.avro import Decoder, anatomy
from cdcwb.formats.containers.avro_schema import Schema, parse_schema
from cdcwb.formats.containers.avro_values import to_text
from cdcwb.formats.kernels import interpreted
from tests.avro import decode_one

UNHURRIED = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
UTC = dt.UTC

# --- schemas and values -----------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.text("aé€😀", min_size=60, max_size=90)
INTS = st.integers(-(1 << 31), (1 << 31) - 1) | st.integers(-70, 70)
LONGS = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-9000, 9000)
FIRST, LAST = dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)


def millis(moments: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return moments.map(lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000))


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": INTS,
    "long": LONGS,
    "float": st.floats(width=32),
    "double": st.floats(),
    "bytes": st.binary(max_size=20) | st.binary(min_size=64, max_size=70),
    "string": TEXTS,
    "date": st.dates(),
    "time-millis": millis(st.times()),
    "time-micros": st.times(),
    "timestamp-millis": millis(st.datetimes(timezones=st.just(UTC))),
    "timestamp-micros": st.datetimes(timezones=st.just(UTC)),
    "local-timestamp-millis": millis(st.datetimes()),
    "local-timestamp-micros": st.datetimes(),
    "uuid": st.uuids(),
}
LOGICAL = {
    "date": "int",
    "time-millis": "int",
    "time-micros": "long",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
    "uuid": "string",
}
PRIMITIVES = [name for name in VALUES if name not in LOGICAL]


@st.composite
def decimals(draw: st.DrawFn) -> dict[str, Any]:
    precision = draw(st.sampled_from([1, 2, 9, 18, 19, 20, 37, 38, 39, 60, 76]))
    kind = {"logicalType": "decimal", "precision": precision, "scale": draw(st.integers(0, precision))}
    return {"type": "bytes", **kind}


@st.composite
def schemas(draw: st.DrawFn, depth: int = 3, names: Any = None, blank: bool = True, logical: bool = True) -> Any:
    """A schema; ``blank``: it may be one whose values take no bytes; ``logical``: with logical types, which arrays,
    maps and unions of several types do not show."""
    names = names or count()
    kinds = ["primitive", "primitive", "enum", "fixed", *(["logical", "decimal", "fixed decimal"] if logical else [])]
    if depth:
        kinds += ["nullable", "nullable", "nullable", "record", "union", "array", "map"]
    kind = draw(st.sampled_from(kinds))
    name = f"N{next(names)}"
    if kind == "primitive":
        return draw(st.sampled_from(PRIMITIVES if blank else PRIMITIVES[1:]))
    if kind == "logical":
        logical = draw(st.sampled_from(sorted(LOGICAL)))
        return {"type": LOGICAL[logical], "logicalType": logical}
    if kind == "decimal":
        return draw(decimals())
    if kind == "enum":
        return {"type": "enum", "name": name, "symbols": ["A", "B", "C", "D"][: draw(st.integers(1, 4))]}
    if kind == "fixed":
        return {"type": "fixed", "name": name, "size": draw(st.integers(not blank, 20))}
    if kind == "fixed decimal":
        size = draw(st.integers(1, 40))
        precision = draw(st.integers(1, min(76, max(1, int(0.30103 * (8 * size - 1))))))
        made = {"type": "fixed", "name": name, "size": size, "logicalType": "decimal"}
        return made | {"precision": precision, "scale": draw(st.integers(0, precision))}
    if kind == "nullable":
        inner = draw(
            schemas(depth - 1, names, True, logical).filter(lambda one: one != "null" and not isinstance(one, list))
        )
        return ["null", inner] if draw(st.booleans()) else [inner, "null"]
    if kind == "union":
        members = draw(
            st.lists(st.sampled_from(["null", "boolean", "long", "double", "bytes"]), unique=True, max_size=3)
        )
        for _ in range(draw(st.integers(1, 2))):
            members.append(draw(named(depth - 1, names)))
        return draw(st.permutations(members))
    if kind == "array":
        return {"type": "array", "items": draw(schemas(depth - 1, names, False, False))}
    if kind == "map":
        return {"type": "map", "values": draw(schemas(depth - 1, names, True, False))}
    return draw(records(depth - 1, names, not blank, logical))


@st.composite
def named(draw: st.DrawFn, depth: int, names: Any) -> Any:
    """A type of which a union may have several."""
    name = f"U{next(names)}"
    kind = draw(st.sampled_from(["record", "enum", "fixed"]))
    if kind == "enum":
        return {"type": "enum", "name": name, "symbols": [f"{name}_A", f"{name}_B"]}
    if kind == "fixed":
        return {"type": "fixed", "name": name, "size": 3 + int(name[1:])}
    return draw(records(depth, names, 0, False))


@st.composite
def records(draw: st.DrawFn, depth: int, names: Any, least: int = 0, logical: bool = True) -> Any:
    name = f"R{next(names)}"
    inner = draw(st.lists(schemas(depth, names, not least, logical), min_size=least, max_size=5))
    return {"type": "record", "name": name, "fields": [{"name": f"{name}_{n}", "type": t} for n, t in enumerate(inner)]}


def values(schema: Any) -> st.SearchStrategy[Any]:
    """Values that fastavro writes with a schema."""
    if isinstance(schema, str):
        return VALUES[schema]
    if isinstance(schema, list):
        return st.one_of([values(member) for member in schema])
    kind = schema["type"]
    if schema.get("logicalType") == "decimal":
        most = 10 ** schema["precision"] - 1
        whole = st.integers(-most, most) | st.integers(-min(most, 300), min(most, 300))
        return whole.map(lambda number: Decimal(f"{number}E-{schema['scale']}"))
    if "logicalType" in schema:
        return VALUES[schema["logicalType"]]
    if kind == "enum":
        return st.sampled_from(schema["symbols"])
    if kind == "fixed":
        return st.binary(min_size=schema["size"], max_size=schema["size"])
    if kind == "array":
        return st.lists(values(schema["items"]), max_size=4) | st.lists(
            values(schema["items"]), min_size=18, max_size=22
        )
    if kind == "map":
        return st.dictionaries(TEXTS, values(schema["values"]), max_size=4)
    return st.fixed_dictionaries({one["name"]: values(one["type"]) for one in schema["fields"]})


def written(schema: Schema, value: Any) -> bytes:
    source = io.BytesIO()
    fastavro.schemaless_writer(source, fastavro.parse_schema(json.loads(schema.text)), value)
    return source.getvalue()


@st.composite
def captures(draw: st.DrawFn, most: int = 6) -> tuple[Any, Schema, list[bytes]]:
    """A record's schema as JSON and parsed, and values of it."""
    made = draw(records(3, count(), least=1))
    schema = parse_schema(json.dumps(made))
    return made, schema, [written(schema, value) for value in draw(st.lists(values(made), min_size=1, max_size=most))]


def parsed(schema: Schema) -> Any:
    """The schema for fastavro, which refuses a damaged UUID that is a text all the same."""
    return fastavro.parse_schema(json.loads(schema.text.replace('"logicalType": "uuid"', '"doc": "uuid"')))


def read(schema: Schema, value: bytes) -> Any:
    """What fastavro reads."""
    return fastavro.schemaless_reader(io.BytesIO(value), parsed(schema), None)


def same(schema: Any, found: Any, expected: Any) -> bool:
    """Is a value from an Arrow column the one that fastavro read?"""
    if isinstance(schema, list):
        if expected is None or found is None:
            return found is expected
        others = [member for member in schema if member != "null"]
        return same(others[0], found, expected) if len(others) == 1 else isinstance(found, str)
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind in ("float", "double"):
        return repr(found) == repr(expected)
    if kind == "record":
        inner = {one["name"]: one["type"] for one in schema["fields"]}
        return list(found) == list(expected) == list(inner) and all(
            same(inner[name], found[name], expected[name]) for name in inner
        )
    if kind in ("array", "map"):
        return found.startswith("[" if kind == "array" else "{") and same_items(json.loads(found), expected)
    if isinstance(expected, UUID):
        return UUID(found) == expected
    return type(found) is type(expected) and found == expected


def same_items(found: Any, expected: Any) -> bool:
    """Has what the text of an array or map holds the shape of what fastavro read? Texts are compared elsewhere."""
    if isinstance(expected, dict):
        return list(found) == list(expected) and all(same_items(found[name], expected[name]) for name in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(same_items, found, expected))
    return (found is None) == (expected is None) and (found == expected or not isinstance(expected, str))


def decoded(schema: Schema, given: list[bytes], fields: tuple[str, ...] | None = None) -> Any:
    found = Decoder(schema, fields).decode(pa.array(given, pa.binary()))
    found.column.validate()
    assert len(found.column) == len(found.ok) == len(given)
    assert found.column.null_count == np.count_nonzero(~found.ok)
    check_layout(found.column)
    return found


def check_layout(array: pa.Array) -> None:
    """Arrays count from the beginning of their buffers, and what is inside a null record is null, but for items."""
    assert array.offset == 0
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_list(kind) or pa.types.is_map(kind):
        assert len(array) == 0 or np.frombuffer(array.buffers()[1], dtype=np.int32, count=1)[0] == 0
    if pa.types.is_struct(kind):
        for place, child in enumerate(array.flatten()):
            inner = array.field(place)
            assert inner.null_count == child.null_count
            check_layout(inner)


# --- undamaged --------------------------------------------------------------------------------------------------------


@given(captures(), st.sampled_from([1, 5]))
@UNHURRIED
def test_the_decoder_reads_what_fastavro_reads(capture: tuple[Any, Schema, list[bytes]], times: int) -> None:
    made, schema, given_values = capture
    found = decoded(schema, given_values * times)
    assert found.ok.all()
    for row, value in zip(found.column.to_pylist(), given_values * times, strict=True):
        expected = read(schema, value)
        assert same(made, row, expected), (row, expected)


@given(captures(), st.data())
@UNHURRIED
def test_wanted_fields_alone_are_those_of_the_whole(
    capture: tuple[Any, Schema, list[bytes]], data: st.DataObject
) -> None:
    made, schema, given_values = capture
    paths = [one["name"] for one in made["fields"]]
    for one in made["fields"]:
        (kind, *more) = [t for t in one["type"] if t != "null"] if isinstance(one["type"], list) else [one["type"]]
        if not more and isinstance(kind, dict) and kind["type"] == "record":
            paths += [f"{one['name']}.{inner['name']}" for inner in kind["fields"]]
    wanted = tuple(data.draw(st.lists(st.sampled_from(paths), unique=True)))
    whole = decoded(schema, given_values).column
    part = decoded(schema, given_values, wanted)
    assert part.ok.all()
    assert {name.partition(".")[0] for name in wanted} == set(part.column.type.names)
    for name in part.column.type.names:
        found, expected = part.column.field(name), whole.field(name)
        if name in wanted:
            assert repr(found.to_pylist()) == repr(expected.to_pylist())
            continue
        inner = [path.partition(".")[2] for path in wanted if path.startswith(f"{name}.")]
        assert set(found.type.names) == set(inner)
        for one, other in zip(found.to_pylist(), expected.to_pylist(), strict=True):
            assert repr(one) == repr(other and {key: other[key] for key in one})


@given(captures(), st.integers(1, 3))
@UNHURRIED
def test_it_does_not_matter_how_values_are_put_together(capture: tuple[Any, Schema, list[bytes]], rows: int) -> None:
    _, schema, given_values = capture
    whole = decoded(schema, given_values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(avro, "_ROWS", rows)
        assert repr(decoded(schema, given_values).column.to_pylist()) == repr(whole.column.to_pylist())
    start = np.arange(len(given_values)) % 3
    longer = [b"xyz"[:size] + value for size, value in zip(start, given_values, strict=True)]
    behind = pa.array([b"before", *longer, b"after"])[1:-1]
    found = Decoder(schema).decode(behind, start)
    assert repr(found.column.to_pylist()) == repr(whole.column.to_pylist())


# --- damaged ----------------------------------------------------------------------------------------------------------


@st.composite
def damages(draw: st.DrawFn, value: bytes) -> bytes:
    at = draw(st.integers(0, len(value)))
    kind = draw(st.sampled_from(["cut", "change", "insert", "remove", "append", "other"]))
    byte = bytes([draw(st.sampled_from([0, 1, 2, 3, 4, 0x7F, 0x80, 0x81, 0xFE, 0xFF]) | st.integers(0, 255))])
    if kind == "cut":
        return value[:at]
    if kind == "change":
        return value[:at] + byte + value[at + 1 :]
    if kind == "insert":
        return value[:at] + byte * draw(st.sampled_from([1, 1, 1, 9, 11])) + value[at:]
    if kind == "remove":
        return value[:at] + value[at + 1 :]
    if kind == "append":
        return value + byte
    return draw(st.binary(max_size=40))


def refused(schema: Schema, value: bytes) -> bool:
    """Does fastavro refuse the value, or leave bytes over?"""
    source = io.BytesIO(value)
    try:
        fastavro.schemaless_reader(source, parsed(schema), None)
    except Exception:
        return True
    return source.tell() < len(value)


@given(captures(), st.data())
@UNHURRIED
def test_damaged_values_are_found_and_disturb_no_other(
    capture: tuple[Any, Schema, list[bytes]], data: st.DataObject
) -> None:
    made, schema, good = capture
    assume(any(good))
    mixed = [(value, True) for value in good for _ in range(5)]
    for _ in range(data.draw(st.integers(1, 12))):
        place = data.draw(st.integers(0, len(mixed)))
        mixed.insert(place, (data.draw(damages(data.draw(st.sampled_from(good)))), False))
    given_values = [value for value, _ in mixed]
    found = decoded(schema, given_values)
    rows = found.column.to_pylist()
    for row, (value, is_good) in enumerate(mixed):
        troubles = found.troubles.get(row, [])
        assert bool(found.ok[row]) == (not troubles), (row, value.hex(), troubles)
        assert bool(found.reason(row)) == bool(troubles)
        if is_good:
            assert found.ok[row]
        if found.ok[row]:
            assert not refused(schema, value)
            assert same(made, rows[row], read(schema, value))
            assert decode_one(schema, value)[1] == len(value)
        elif "expected the end" not in str(troubles[0]):
            with pytest.raises(MalformedRecordError):
                decode_one(schema, value)
    with interpreted():
        slow = decoded(schema, given_values)
    assert slow.ok.tolist() == found.ok.tolist()
    assert repr(slow.column.to_pylist()) == repr(rows)


@given(captures(most=2), st.data())
@UNHURRIED
def test_passing_over_damaged_fields_is_the_same_fast_and_slow(
    capture: tuple[Any, Schema, list[bytes]], data: st.DataObject
) -> None:
    """Of fields that are not wanted, only what tells where they end has to be right."""
    _, schema, good = capture
    wanted = tuple(name for name in schema.fields if data.draw(st.booleans()))
    given_values = [data.draw(damages(data.draw(st.sampled_from(good)))) for _ in range(10)]
    found = decoded(schema, given_values, wanted)
    whole = decoded(schema, given_values)
    for row, value in enumerate(given_values):
        troubles = found.troubles.get(row, [])
        assert bool(found.ok[row]) == (not troubles), (value.hex(), troubles)
        if whole.ok[row]:
            expected = whole.column[row].as_py()
            assert repr(found.column[row].as_py()) == repr(
                {name: expected[name] for name in wanted if name in expected}
            )


# --- anatomy ----------------------------------------------------------------------------------------------------------


@given(captures(most=2), st.data())
@UNHURRIED
def test_every_byte_of_any_value_is_in_one_leaf(capture: tuple[Any, Schema, list[bytes]], data: st.DataObject) -> None:
    _, schema, good = capture
    value = data.draw(damages(good[0])) if data.draw(st.booleans()) else good[0]
    start = data.draw(st.integers(0, 3))
    found = anatomy(schema, value, start)
    at = min(start, len(value))
    for one in found.walk():
        assert one.raw == value[one.offset : one.offset + one.length]
        if not one.children:
            assert one.offset == at
            at += one.length
        else:
            assert sum(child.length for child in one.children) == one.length
    assert at == len(value)
    is_ok = bool(Decoder(schema).decode(pa.array([value]), np.array([start])).ok[0])
    assert any(one.problem for one in found.walk()) != is_ok


@given(captures())
@UNHURRIED
def test_the_tree_shows_the_texts_of_the_columns(capture: tuple[Any, Schema, list[bytes]]) -> None:
    made, schema, given_values = capture
    column = decoded(schema, given_values).column
    for row, value in enumerate(given_values):
        tree = anatomy(schema, value)
        children = {child.name: child for child in tree.children}
        assert list(children) == [name for name in schema.fields if name in children]
        for one in made["fields"]:
            if one["name"] not in children:  # it has no bytes
                continue
            child = children[one["name"]]
            text = to_text(column.field(one["name"]))[row].as_py()
            kinds = one["type"] if isinstance(one["type"], list) else [one["type"]]
            if not any(isinstance(kind, dict) and kind["type"] == "record" for kind in kinds):
                assert child.value == text
