"""JSON messages read together are what they are when each is parsed."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cdcwb.formats.containers.kafka_rows import Where, from_arrow
from cdcwb.formats.dissector import Wanted
from cdcwb.formats.qlik_kafka import decode
from cdcwb.formats.qlik_kafka.events import events_of
from cdcwb.formats.qlik_kafka.versions import Settings, Versions, from_metadata
from tests.reference.qlik_json import parse_messages

METADATA: dict[str, Any] = {
    "schemaId": "s1",
    "lineage": {"schema": "shop", "table": "stock"},
    "tableStructure": {
        "tableColumns": {
            "a": {"ordinal": 1, "type": "INT4", "primaryKeyPosition": 1},
            "b": {"ordinal": 2, "type": "STRING"},
            "c": {"ordinal": 3, "type": "STRING"},
        }
    },
}
PLAIN = ["null", "true", "false", "0", "7", "-7", "12345678", "123456789", "1234567890123456", "1.50", "-0.0", "1e5"]
PLAIN += ["1E+10", "-2.5e-3", '""', '"x"', '"null"', '"a:b,c"', '"é😀"', '" "', "123456789012345678", '"{}"', '"\x7f"']
ODD = ["1234567890123456789", "18446744073709551616"]
ODD += ["123456789012345678901234567890", '":"', '":x"', '"\\u0041"']
ODD += ['"\\ud800"', '"\\n"', "{}", "[]", '{"a": 1}', "[1, null]", " 1", "1 ", '"x" ', "1e999", '"\\\\"']
BROKEN = ["01", "-01", "1.", ".5", "+1", "-", "--1", "1e", "nul", "nulll", "True", "NaN", '"', '"x', 'x"', '"a"b"', ""]
BROKEN += ['"\x01"', '"\t"', "1,", '1,"z":2', "}", '"x"}', "1 2", "null null", "tru", "0x1", "1_0", '"\x00"', "\udcff"]


def message(rng: Random, values: list[str], style: int) -> str:
    """One message; the styles differ in their form, their keys and their blanks."""
    comma, colon = (", ", ": ") if style % 2 else (",", ":")

    def put(pairs: dict[str, str]) -> str:
        return "{" + comma.join(f'"{name}"{colon}{value}' for name, value in pairs.items()) + "}"

    number = rng.randrange(10)
    headers = {
        "operation": rng.choice(['"UPDATE"', '"INSERT"', '"DELETE"', '"REFRESH"', "null"]),
        "changeSequence": f'"2026020304050600{number:019}"',
        "timestamp": f'"2026-02-03T04:05:0{number}.123"',
        "transactionId": rng.choice(['"0A"', '""', "5"]),
        "changeMask": rng.choice(['"02"', '"07"', '"zz"', "null"]),
        "columnMask": '"07"',
        "transactionEventCounter": rng.choice(["1", '"2"', "x" if rng.random() < 0.01 else "3"]),
        "transactionLastEvent": rng.choice(["true", "false"]),
    }
    image = {name: rng.choice(values) for name in "abc"}
    before = put({name: rng.choice(values) for name in "abc"}) if style < 4 else "null"
    body = {"data": put(image), "beforeData": before, "headers": put(headers)}
    if style in (2, 3):
        return put(body if style == 2 else {"table": '"other"', "x": rng.choice(values), **body})
    schema = rng.choice(['"s1"', '"s1"', '"gone"', "null"]) if style == 4 else '"s1"'
    envelope = {"magic": '"atMSG"', "type": '"DT"', "headers": "null", "messageSchemaId": schema}
    return put({**envelope, "messageSchema": "null", "message": put(body)})


def read(values: list[bytes]) -> pa.RecordBatch:
    batch = pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary())})
    batch = batch.append_column("_row", pa.array(np.arange(len(values))))
    messages = from_arrow(batch)
    versions = Versions([from_metadata(METADATA)])
    return events_of(messages, Where("rows", 0, "row"), Settings(), versions, Wanted())


def both(values: list[bytes], monkeypatch: pytest.MonkeyPatch) -> pa.RecordBatch:
    """The events, which have to be the same when each message is parsed."""
    found = read(values)
    with monkeypatch.context() as patch:
        patch.setattr(decode, "decode_json", parse_messages)
        expected = read(values)
    assert found.to_pylist() == expected.to_pylist()
    found.validate(full=True)
    return found


@pytest.mark.parametrize("style", range(6))
def test_plain_messages_are_the_same(style: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(style)
    values = [message(rng, PLAIN, style).encode() for _ in range(120)]
    both(values, monkeypatch)


@pytest.mark.parametrize("seed", range(24))
def test_any_values_among_them_are_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(seed)
    choice = PLAIN * rng.choice([1, 5, 20]) + ODD + BROKEN * (seed % 2)
    styles = [rng.randrange(6) for _ in range(rng.choice([1, 1, 3]))]
    values = [message(rng, choice, rng.choice(styles)).encode("utf-8", "surrogateescape") for _ in range(120)]
    if seed % 3:
        values = [value.decode("utf-8", "replace").encode() for value in values]
    both(values, monkeypatch)


@pytest.mark.parametrize("seed", range(24))
def test_damaged_messages_among_them_are_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(seed)
    values = [bytearray(message(rng, PLAIN, seed % 6).encode()) for _ in range(60)]
    for value in rng.sample(values, 25):
        at = rng.randrange(len(value))
        match rng.randrange(3):
            case 0:
                value[at] = rng.choice(b'"\\{}[]:, x0\n')
            case 1:
                del value[at : at + rng.choice([1, 1, 2, 9])]
            case _:
                value[at:at] = bytes([rng.choice(b'"\\{}[]:, x0')])
    both([bytes(value) for value in values], monkeypatch)


def test_a_quote_that_stands_in_a_value_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(1)
    values = [message(rng, ['"plain"'], 0).encode() for _ in range(40)]
    values[20] = values[20].replace(b'"plain"', b'"pl"in"', 1)
    found = both(values, monkeypatch)
    assert [number for number, kind in enumerate(found.column("kind").to_pylist()) if kind == "malformed"] == [20]


def test_of_keys_that_repeat_the_last_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b'{"headers":{"operation":"INSERT"},"data":{"a":1,"a":2}}'
    found = both([text] * 30, monkeypatch)
    assert found.column("after").to_pylist() == [[("a", "2")]] * 30
