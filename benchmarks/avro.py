"""The column-wise Avro decoder against ``fastavro.schemaless_reader``: ``python -m benchmarks.avro``.

The messages are data messages as Replicate writes them with a schema registry: 30 columns that may all be null, both
images, and the headers.
"""

from __future__ import annotations

import argparse
import datetime as dt
import io
import json
import random
import statistics
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from benchmarks.measure import in_turn, on_one_core, ratio
from cdcwb.formats.arrays import MapBuilder, TextPool
from cdcwb.formats.containers.avro import Decoder
from cdcwb.formats.containers.avro_schema import parse_schema
from cdcwb.formats.containers.avro_values import to_text

__all__ = ["COLUMNS", "PEER", "PROMISES", "SCHEMA", "difference", "messages", "works"]

Work = Callable[[], int]

PEER = "fastavro.schemaless_reader"

PROMISES = {"typed columns": 6, "text maps of both images": 3, "headers only": 20}
"""How many times as fast as the peer each has to be."""

_BATCH = 8192  # messages that come to the decoder at once

COLUMNS: dict[str, Any] = {
    **{f"code_{n}": "string" for n in range(1, 4)},
    **{f"name_{n}": "string" for n in range(1, 6)},
    "remark": "string",
    "uuid": "string",
    **{f"int_{n}": "int" for n in range(1, 6)},
    **{f"long_{n}": "long" for n in range(1, 4)},
    **{f"double_{n}": "double" for n in range(1, 4)},
    **{
        f"decimal_{n}": {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 2}
        for n, precision in enumerate((10, 18, 38), 1)
    },
    **{f"date_{n}": {"type": "int", "logicalType": "date"} for n in range(1, 4)},
    **{f"time_{n}": {"type": "long", "logicalType": "timestamp-micros"} for n in range(1, 4)},
}
"""The 30 columns and their types; every one may be null."""

_TEXTS = ("operation", "changeSequence", "timestamp", "streamPosition", "transactionId")

SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "DataRecord",
        "namespace": "com.attunity.queue.msg.bench-task.SALES.ORDERS",
        "fields": [
            {
                "name": "data",
                "type": {
                    "type": "record",
                    "name": "Data",
                    "fields": [{"name": name, "type": ["null", kind]} for name, kind in COLUMNS.items()],
                },
            },
            {"name": "beforeData", "type": ["null", "Data"], "default": None},
            {
                "name": "headers",
                "type": {
                    "type": "record",
                    "name": "Headers",
                    "namespace": "com.attunity.queue.msg",
                    "fields": [
                        {
                            "name": "operation",
                            "type": {
                                "type": "enum",
                                "name": "operation",
                                "symbols": ["INSERT", "UPDATE", "DELETE", "REFRESH"],
                            },
                        },
                        *({"name": name, "type": "string"} for name in _TEXTS[1:]),
                        {"name": "changeMask", "type": ["null", "bytes"]},
                        {"name": "columnMask", "type": ["null", "bytes"]},
                        {"name": "transactionEventCounter", "type": ["null", "long"]},
                        {"name": "transactionLastEvent", "type": ["null", "boolean"]},
                    ],
                },
            },
        ],
    }
)


# --- messages ---------------------------------------------------------------------------------------------------------


def messages(count: int, seed: int = 20250323) -> list[bytes]:
    """Updates with both images; one value in eight is null."""
    chance = random.Random(seed)
    schema = fastavro.parse_schema(json.loads(SCHEMA))
    found = []
    for number in range(count):
        before = {name: _value(chance, name) for name in COLUMNS}
        after = before | {name: _value(chance, name) for name in chance.sample(list(COLUMNS), 4)}
        source = io.BytesIO()
        fastavro.schemaless_writer(source, schema, _message(number, before, after))
        found.append(source.getvalue())
    return found


def _message(number: int, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    moment = dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.UTC) + dt.timedelta(milliseconds=7 * number)
    headers = {
        "operation": "UPDATE",
        "changeSequence": f"{moment:%Y%m%d%H%M%S}{moment.microsecond // 10_000:02}{number:019}",
        "timestamp": f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1_000:03}",
        "streamPosition": f"000dac8c:{number:08x}:0002",
        "transactionId": f"{number // 5:032X}",
        "changeMask": b"\x0a\x80\x00\x11",
        "columnMask": b"\x3f\xff\xff\xff",
        "transactionEventCounter": number % 5 + 1,
        "transactionLastEvent": number % 5 == 4,
    }
    return {"data": after, "beforeData": before, "headers": headers}


def _value(chance: random.Random, name: str) -> Any:
    kind = name.partition("_")[0]
    if chance.random() < 0.125:
        return None
    if kind in ("code", "name", "remark", "uuid"):
        least, most = {"code": (2, 8), "name": (5, 30), "remark": (20, 120), "uuid": (36, 36)}[kind]
        letters = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJ0123456789"
        return "".join(chance.choices(letters, k=chance.randint(least, most)))
    if kind == "int":
        return chance.choice((chance.randrange(60), chance.randrange(10_000), chance.randrange(-(1 << 31), 1 << 31)))
    if kind == "long":
        return chance.choice((chance.randrange(1_000_000), chance.randrange(1 << 40)))
    if kind == "double":
        return chance.choice((round(chance.random() * 1_000, 2), chance.random()))
    if kind == "decimal":
        return Decimal(chance.randrange(10 ** chance.choice((5, 9)))).scaleb(-2)
    moment = dt.datetime(2000, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=chance.randrange(800_000_000))
    return moment.date() if kind == "date" else moment + dt.timedelta(microseconds=chance.randrange(1_000_000))


def _batches(values: list[bytes]) -> list[pa.BinaryArray]:
    return [pa.array(values[first : first + _BATCH], pa.binary()) for first in range(0, len(values), _BATCH)]


# --- what is measured -------------------------------------------------------------------------------------------------


def works(values: list[bytes]) -> dict[str, Work]:
    """What is measured in turn: the peer, and what is held against it."""
    return {
        PEER: _by_fastavro(values),
        "typed columns": _typed(values),
        "text maps of both images": _image_texts(values),
        "headers only": _headers(values),
    }


def _by_fastavro(values: list[bytes]) -> Work:
    """One message after the other, as Python objects."""
    schema = fastavro.parse_schema(json.loads(SCHEMA))

    def work() -> int:
        for value in values:
            fastavro.schemaless_reader(io.BytesIO(value), schema, None)
        return len(values)

    return work


def _typed(values: list[bytes]) -> Work:
    """Everything as typed Arrow columns."""
    decoder, batches = Decoder(parse_schema(SCHEMA)), _batches(values)
    return lambda: sum(int(decoder.decode(batch).ok.sum()) for batch in batches)


def _headers(values: list[bytes]) -> Work:
    """The headers alone as typed Arrow columns."""
    decoder, batches = Decoder(parse_schema(SCHEMA), ("headers",)), _batches(values)
    return lambda: sum(int(decoder.decode(batch).ok.sum()) for batch in batches)


def _image_texts(values: list[bytes]) -> Work:
    """Both images as maps of text, the headers as typed columns: what ``events`` needs."""
    decoder, batches = Decoder(parse_schema(SCHEMA)), _batches(values)

    def work() -> int:
        found = 0
        for batch in batches:
            column = decoder.decode(batch).column
            for image in ("data", "beforeData"):
                found += len(_maps(column.field(image)))
        return found // 2

    return work


def _maps(image: pa.StructArray) -> pa.Array:
    pool = TextPool()
    maps = MapBuilder(len(image), pool)
    rows = np.flatnonzero(image.is_valid().to_numpy(zero_copy_only=False))
    places = [pool.add(to_text(image.field(place)))[rows] for place in range(image.type.num_fields)]
    maps.group(rows, image.type.names, np.stack(places, axis=1))
    return maps.build()


def difference(values: list[bytes]) -> str | None:
    """The first thing about which fastavro and the decoder disagree, or None; every value and text is compared."""
    schema = fastavro.parse_schema(json.loads(SCHEMA))
    decoder = Decoder(parse_schema(SCHEMA))
    for batch in _batches(values):
        column = decoder.decode(batch).column
        maps = {image: _maps(column.field(image)).to_pylist() for image in ("data", "beforeData")}
        for row, (value, found) in enumerate(zip(batch.to_pylist(), column.to_pylist(), strict=True)):
            expected: Any = fastavro.schemaless_reader(io.BytesIO(value), schema, None)
            if found != expected:
                return f"fastavro says {expected!r}, the decoder {found!r}"
            for image, texts in maps.items():
                written = {name: _text(one) for name, one in expected[image].items()}
                if dict(texts[row]) != written:
                    return f"fastavro's values are written {written!r}, the decoder's {texts[row]!r}"
    return None


def _text(value: Any) -> str | None:
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None).isoformat(timespec="microseconds")
    return None if value is None else str(value)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.avro", description="Measure the Avro decoder.")
    parser.add_argument("--messages", type=int, default=4 * _BATCH, help="how many messages are decoded")
    parser.add_argument("--rounds", type=int, default=5, help="how often everything is measured in turn (5)")
    options = parser.parse_args()
    values = messages(options.messages)
    found = difference(values[:2000])
    if found is not None:
        raise SystemExit(f"fastavro and the decoder disagree: {found}")
    with on_one_core():
        taken = in_turn(works(values), options.rounds)
    size = sum(map(len, values))
    print(f"One core, processor time: {len(values):,} messages of 30 columns, both images, {size / 1e6:.1f} MB")
    for name, seconds in taken.items():
        median = statistics.median(seconds)
        rates = f"{len(values) / median:>11,.0f} messages/s {size / median / 1e6:>7.1f} MB/s"
        print(f"  {name:<28} {median:>6.2f} s {rates}   ({min(seconds):.2f} to {max(seconds):.2f})")
    print("\nPromises")
    for name, wanted in PROMISES.items():
        times = ratio(taken[PEER], taken[name])
        print(f"  {name:<28} {times:>6.1f} times, at least {wanted:<3} {'holds' if times >= wanted else 'BROKEN'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
