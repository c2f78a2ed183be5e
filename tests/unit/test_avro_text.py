"""Every value becomes one text that loses nothing (cdcwb.model), whichever way it came into the array."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcwb.formats.containers.avro import Decoder
from cdcwb.formats.containers.avro_schema import parse_schema
from cdcwb.formats.containers.avro_values import float_text, to_text

TEXTS: list[tuple[pa.Array, list[str | None]]] = [
    (pa.array([None, 5, -(2**31)], pa.int32()), [None, "5", "-2147483648"]),
    (pa.array([0, 8191, None], pa.int64()), ["0", "8191", None]),
    (pa.array([2**63 - 1]), ["9223372036854775807"]),
    (pa.array([None, None], pa.int64()), [None, None]),
    (pa.array([1.0, -0.0, 0.0, 0.1, None]), ["1.0", "-0.0", "0.0", "0.1", None]),
    (
        pa.array([1e16, 1e15, 1e-4, 1e-5, 123456789012.5]),
        ["1e+16", "1000000000000000.0", "0.0001", "1e-05", "123456789012.5"],
    ),
    (pa.array([float("nan"), float("inf"), float("-inf"), 5e-324]), ["nan", "inf", "-inf", "5e-324"]),
    (pa.array([0.1, 16777216.0, 1e16, 3.0e-5], pa.float32()), ["0.1", "16777216.0", "1e+16", "3e-05"]),
    (pa.array([True, None, False]), ["true", None, "false"]),
    (pa.array([b"\x00\xab", None, b""]), ["00ab", None, ""]),
    (pa.array([None], pa.binary()), [None]),
    (pa.array(["x", None, ""]), ["x", None, ""]),
    (pa.nulls(2), [None, None]),
    (pa.array([0, None, -719162, 2932896], pa.date32()), ["1970-01-01", None, "0001-01-01", "9999-12-31"]),
    (pa.array([86_399_999, 0], pa.time32("ms")), ["23:59:59.999", "00:00:00.000"]),
    (pa.array([86_399_999_999, None], pa.time64("us")), ["23:59:59.999999", None]),
    (pa.array([None, 1, -1], pa.timestamp("ms")), [None, "1970-01-01T00:00:00.001", "1969-12-31T23:59:59.999"]),
    (pa.array([0, None], pa.timestamp("us", "UTC")), ["1970-01-01T00:00:00.000000", None]),
    (pa.array([Decimal("-1.50"), None], pa.decimal128(5, 2)), ["-1.50", None]),
    (
        pa.array([Decimal("1E-20"), Decimal(0), Decimal(-3)], pa.decimal128(30, 20)),
        ["0." + "0" * 19 + "1", "0." + "0" * 20, "-3." + "0" * 20],
    ),
    (pa.array([Decimal("1E-20"), None], pa.decimal256(60, 30)), ["0." + "0" * 19 + "1" + "0" * 10, None]),
    (pa.array([[1, None], [], None], pa.list_(pa.int32())), ['["1",null]', "[]", None]),
    (
        pa.array([[("k", 1.5), ("l", None)], [], None], pa.map_(pa.string(), pa.float64())),
        ['{"k":"1.5","l":null}', "{}", None],
    ),
    (
        pa.array([{"a": "x", "b": None}, None], pa.struct([("a", pa.string()), ("b", pa.int32())])),
        ['{"a":"x","b":null}', None],
    ),
    (pa.array([{}, None], pa.struct([])), ["{}", None]),
    (pa.array([{'q"': 'a"b\\c\n\x01é'}]), ['{"q\\"":"a\\"b\\\\c\\n\\u0001é"}']),
    (pa.array([[{"a": [b"\x01"]}]]), ['[{"a":["01"]}]']),
]


@pytest.mark.parametrize(
    ("array", "texts"), TEXTS, ids=lambda value: str(value.type) if isinstance(value, pa.Array) else ""
)
def test_each_type_has_its_text(array: pa.Array, texts: list[str | None]) -> None:
    found = to_text(array)
    assert found.type == pa.string()
    assert found.to_pylist() == texts
    found.validate(full=True)
    around = pa.concat_arrays([array, array, array])[len(array) : 2 * len(array)]
    assert to_text(around).to_pylist() == texts
    assert to_text(array[:0]).to_pylist() == []
    assert to_text(array[1:]).to_pylist() == texts[1:]


def test_texts_count_from_the_beginning_of_their_buffers() -> None:
    for array, _ in TEXTS:
        if len(array) > 1:
            offsets = to_text(array[1:]).buffers()[1]
            assert np.frombuffer(offsets, dtype=np.int32, count=1)[0] == 0


def test_a_union_has_the_text_of_its_member() -> None:
    kind = {"type": "array", "items": ["null", "int", "string", {"type": "array", "items": "double"}]}
    schema = parse_schema(json.dumps(kind))
    value = bytes.fromhex(
        "08" + "0202" + "04" + "0a" + b'a"\xc3\xa9b'.hex() + "00" + "0602" + "000000000000f03f" + "00" + "00"
    )
    found = Decoder(schema).decode(pa.array([value]))
    assert found.column.field("value").to_pylist() == ['["1","a\\"éb",null,["1.0"]]']
    assert found.rows() == [{"value": [1, 'a"éb', None, [1.0]]}]


@given(st.lists(st.floats() | st.floats(1e-6, 1e18) | st.integers(-(10**17), 10**17).map(float), max_size=30))
def test_floats_are_written_as_python_writes_them(numbers: list[float]) -> None:
    assert to_text(pa.array(numbers, pa.float64())).to_pylist() == [repr(number) for number in numbers]


@given(st.lists(st.floats(width=32) | st.integers(-(10**17), 10**17).map(lambda n: float(np.float32(n))), max_size=30))
def test_floats_of_four_bytes_have_the_fewest_digits_that_read_back(numbers: list[float]) -> None:
    texts = to_text(pa.array(numbers, pa.float32())).to_pylist()
    assert texts == [float_text(number, single=True) for number in numbers]
    for text, number in zip(texts, numbers, strict=True):
        assert np.float32(text).tobytes() == np.float32(number).tobytes() or number != number
        digits = text.partition("e")[0].replace(".", "").strip("-0")
        assert len(digits) <= 9 or not np.isfinite(number)


@given(st.data())
def test_decimals_are_written_in_full(data: Any) -> None:
    precision = data.draw(st.integers(1, 76))
    scale = data.draw(st.integers(0, precision))
    most = 10**precision - 1
    whole = data.draw(st.lists(st.integers(-most, most) | st.integers(-min(most, 200), min(most, 200)), max_size=20))
    kind = pa.decimal128 if precision <= 38 else pa.decimal256
    given_values = [Decimal(f"{number}E-{scale}") for number in whole]
    assert to_text(pa.array(given_values, kind(precision, scale))).to_pylist() == [f"{one:f}" for one in given_values]
