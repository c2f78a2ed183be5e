"""JSON messages in one Spark job on one core: cdcwb's reader, Spark's ``from_json``, and Python's ``json``.

Each job reads the same file of data messages (30 columns, with before images) and hands headers and both images on as
maps of text to a sink that lets them go. ``select_events`` decodes just these; ``events`` masks, times, positions and
the bytes of messages besides, which Spark takes in though nobody looks at them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa

from benchmarks.captures import CACHE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["PEERS", "make_messages", "measure", "works"]

PEERS = ("from_json", "Python's json")
COLUMNS = 30
_MARK = "measured: "
_MAP = pa.map_(pa.string(), pa.string())
_SCHEMA = pa.schema([("headers", _MAP), ("before", _MAP), ("after", _MAP)])


def make_messages(count: int, seed: int = 4) -> Path:
    """A file of so many UPDATE messages, one a line."""
    path = CACHE / f"qlik-json-{count}-{seed}.jsonl"
    if path.exists():
        return path
    CACHE.mkdir(parents=True, exist_ok=True)
    rng = Random(seed)
    part = path.with_suffix(".part")
    with part.open("w", encoding="utf-8") as file:
        for number in range(count):
            before = {f"column_{at:02}": _value(rng, at) for at in range(COLUMNS)}
            changed = rng.sample(range(COLUMNS), 3)
            after = {**before, **{f"column_{at:02}": _value(rng, at) for at in changed}}
            mask = sum(1 << at for at in range(COLUMNS) if after[f"column_{at:02}"] != before[f"column_{at:02}"])
            headers = {
                "operation": "UPDATE",
                "changeSequence": f"20260203040506{number % 100:02}{number:019}",
                "timestamp": f"2026-02-03T04:05:{number % 60:02}.123",
                "streamPosition": f"00000000.{number:08x}.00000001.0000.02.0000:154.6963.16",
                "transactionId": f"{number // 8:032X}",
                "changeMask": f"{mask:08X}",
                "columnMask": "3FFFFFFF",
                "transactionEventCounter": number % 8 + 1,
                "transactionLastEvent": number % 8 == 7,
            }
            message = {"data": after, "beforeData": before, "headers": headers}
            envelope = {
                "magic": "atMSG", "type": "DT", "headers": None, "messageSchemaId": None, "messageSchema": None,
                "message": message,
            }  # fmt: skip
            file.write(json.dumps(envelope, separators=(",", ":")) + "\n")
    part.rename(path)
    return path


def _value(rng: Random, at: int) -> object:
    if rng.random() < 0.05:
        return None
    kind = at % 5
    if kind == 0:
        return rng.randrange(1 << 31)
    if kind == 1:
        return f"{rng.randrange(10**9)}.{rng.randrange(100):02}"
    if kind == 2:
        return f"20{rng.randrange(10, 30)}-0{rng.randrange(1, 10)}-1{rng.randrange(10)} 10:20:30.123456"
    return "".join(rng.choice("abcdefghijklmnop ") for _ in range(8 + at))


def works(spark: SparkSession, path: Path) -> dict[str, Callable[[], int]]:
    """The jobs; each gives the number of messages."""
    import cdcwb

    capture = cdcwb.load(path, format="qlik-kafka", spark=spark)
    count = sum(1 for _ in path.open("rb"))

    def run(frame: DataFrame) -> Callable[[], int]:
        def work() -> int:
            frame.write.format("noop").mode("overwrite").save()
            return count

        return work

    return {
        "cdcwb select_events": run(capture.select_events("headers", "before", "after")),
        "cdcwb events": run(capture.events.select("headers", "before", "after")),
        "from_json": run(_from_json(spark, path)),
        "Python's json": run(_with_json(spark, path)),
    }


def _from_json(spark: SparkSession, path: Path) -> DataFrame:
    from pyspark.sql import functions as F

    image = "map<string,string>"
    message = f"struct<message: struct<data: {image}, beforeData: {image}, headers: {image}>>"
    parsed = spark.read.text(str(path)).select(F.from_json("value", message).alias("m"))
    return parsed.select("m.message.headers", "m.message.beforeData", "m.message.data")


def _with_json(spark: SparkSession, path: Path) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            maps: list[list[object]] = [[], [], []]
            for line in batch.column(0).to_pylist():
                message = json.loads(line)["message"]
                for at, name in enumerate(("headers", "beforeData", "data")):
                    image = message[name]
                    maps[at].append(None if image is None else [(key, _text(value)) for key, value in image.items()])
            yield pa.RecordBatch.from_arrays([pa.array(one, _MAP) for one in maps], schema=_SCHEMA)

    return spark.read.text(str(path)).mapInArrow(read, from_arrow_schema(_SCHEMA))


def _text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def measure(count: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of each job in each round, in turn, by the clock: in a process of its own that keeps to one core."""
    command = [sys.executable, "-m", "benchmarks.qlik_json", str(count), str(rounds)]
    done = subprocess.run(
        command, env={**os.environ, "MASTER": "local[1]"}, capture_output=True, text=True, check=False
    )
    found = [line for line in done.stdout.splitlines() if line.startswith(_MARK)]
    if done.returncode or not found:
        raise SystemExit(f"the run on one core failed with exit code {done.returncode}: {done.stderr[-2000:]}")
    taken: dict[str, list[float]] = json.loads(found[0].removeprefix(_MARK))
    return taken


def _main(count: int, rounds: int) -> None:
    from benchmarks.measure import on_one_core

    path = make_messages(count)
    with on_one_core():  # the JVM, which is started in here, and Python's workers keep to it as well
        from cdcwb.spark.session import get_spark

        jobs = works(get_spark("benchmark"), path)
        taken: dict[str, list[float]] = {name: [] for name in jobs}
        for number in range(rounds + 2):  # the first two warm the JVM up
            for name, job in jobs.items():
                begin = time.perf_counter()
                job()
                if number > 1:
                    taken[name].append(time.perf_counter() - begin)
    sys.stdout.write(f"{_MARK}{json.dumps(taken)}\n")


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]))
