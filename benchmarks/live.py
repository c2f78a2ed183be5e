"""One topic, read in turn by cdcwb and by Spark's own functions, to the same typed columns: ``make bench-live``.

A broker is started, and generated data messages of one table are written to a topic in each form: Avro with the schema
registry's framing, Avro in Qlik's envelope, JSON. Each job reads a whole topic through Spark's Kafka connector, on two
cores, to a sink that lets the rows go: the columns of both images with their types, operation, change sequence and
transaction. ``from_avro`` and ``from_json`` are given the schema, which cdcwb finds in the messages or the registry;
``no decoding`` reads the messages and does nothing with them. Seconds are by the clock, the broker's work included.

It needs the broker's jars (``scripts/live_jars.sh``) and Spark's Avro package, so it runs on the oldest supported
PySpark: ``make bench-live``.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyspark

import cdcwb
import cdcwb_synth as synth
from benchmarks import avro
from benchmarks.measure import ratio
from cdcwb.spark.session import get_spark
from tests.live.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

WANTED: Final = {"confluent": 1.5, "confluent, 30 columns": 1.5, "avro-envelope": 1.5, "json-envelope": 0.9}
"""How many times as fast as Spark's own function cdcwb has to be. The table has 7 columns, or 30."""

TASK: Final = re.compile(r"com\.attunity\.queue\.msg\.[^.\"]+\.")
"""The beginning of the namespace of a data message's schema, up to the name of the task."""
ENVELOPE: Final = json.dumps(
    {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "type", "type": "string"},
            {"name": "headers", "type": ["null", {"type": "map", "values": "string"}]},
            {"name": "messageSchemaId", "type": ["null", "string"]},
            {"name": "messageSchema", "type": ["null", "string"]},
            {"name": "message", "type": "bytes"},
        ],
    }
)
Job = Callable[[], None]


def main() -> int:
    """Measures and prints; 4 with ``--check`` where a rate is not reached."""
    given = argparse.ArgumentParser(prog="python -m benchmarks.live", description=(__doc__ or "").split("\n")[0])
    given.add_argument("--changes", type=int, default=400_000)
    given.add_argument("--rounds", type=int, default=5)
    given.add_argument("--check", action="store_true", help="exit with code 4 if a rate is not reached")
    options = given.parse_args()
    packages = [
        f"org.apache.spark:{name}_2.13:{pyspark.__version__}" for name in ("spark-sql-kafka-0-10", "spark-avro")
    ]
    spark = get_spark("benchmark", packages=packages)
    reached = True
    with tempfile.TemporaryDirectory(prefix="cdcwb-live-", ignore_cleanup_errors=True) as place:
        broker = Broker(Path(place, "broker"))
        broker.start()
        try:
            for form in WANTED:
                reached &= _measure(spark, broker, Path(place, form), form, options.changes, options.rounds)
        finally:
            broker.stop()
    return 4 if options.check and not reached else 0


def _measure(spark: SparkSession, broker: Broker, folder: Path, form: str, changes: int, rounds: int) -> bool:
    """One form. Returns whether the rate was reached."""
    topic, count = _wide(broker, folder, changes // 2) if "30" in form else _made(broker, folder, form, changes)
    jobs = _jobs(spark, broker.address, form, topic, folder)
    taken: dict[str, list[float]] = {name: [] for name in jobs}
    for number in range(rounds + 2):  # the first two warm the JVM and Python's workers up
        for name, job in jobs.items():
            began = time.perf_counter()
            job()
            if number > 1:
                taken[name].append(time.perf_counter() - began)
    mine, peer, none = taken.values()
    name = list(jobs)[1]
    times = ratio(peer, mine)
    share = statistics.median(one / other for one, other in zip(mine, none, strict=True))
    rates = ", ".join(f"{job} {count / statistics.median(seconds):,.0f}/s" for job, seconds in taken.items())
    verdict = "reached" if times >= WANTED[form] else "NOT reached"
    sys.stdout.write(
        f"{form}, {count:,} messages: {rates}\n"
        f"  {times:.2f} times as fast as {name} (wanted: {WANTED[form]:.1f}, {verdict}); "
        f"{share:.2f} times the seconds of no decoding\n"
    )
    sys.stdout.flush()
    return times >= WANTED[form]


def _made(broker: Broker, folder: Path, form: str, changes: int) -> tuple[str, int]:
    """A topic of generated messages, and how many they are."""
    more: dict[str, Any] = {"tables": 1, "all_types": False, "schema_changes": 0, "refresh_rows": 0, "partitions": 4}
    more |= {"container": "parquet", "tombstone_share": 0, "duplicate_share": 0}
    if form != "confluent":
        more["metadata"] = "separate"
    synth.generate("qlik-kafka", changes=changes, seed=1, to=folder, form=form, **more)
    count = broker.send_files(folder / "capture", f"{form}.")
    if (folder / "metadata").is_dir():
        broker.send_files(folder / "metadata", f"{form}.")
    return f"{form}.shop.customer", count


def _wide(broker: Broker, folder: Path, count: int) -> tuple[str, int]:
    """A topic of messages with 30 columns."""
    (folder / "registry").mkdir(parents=True)
    (folder / "registry" / "1.avsc").write_text(avro.SCHEMA, encoding="utf-8")
    broker.create("wide.SALES.ORDERS", 4)
    framed = (b"\0\0\0\0\1" + value for value in avro.messages(count))
    broker.send({"topic": "wide.SALES.ORDERS", "partition": at % 4, "value": value} for at, value in enumerate(framed))
    return "wide.SALES.ORDERS", count


def _jobs(spark: SparkSession, server: str, form: str, topic: str, folder: Path) -> dict[str, Job]:
    """cdcwb, Spark's own function, and no decoding. Raises SystemExit where the first two do not give the same rows."""
    prefix, _, table = topic.partition(".")
    registry = {"registry": str(folder / "registry")} if (folder / "registry").is_dir() else {}
    capture = cdcwb.load(_messages(spark, server, "subscribePattern", rf"{prefix}\..*"), "qlik-kafka", **registry)
    rows = capture.table(table).select("operation", "position", "transaction_id", "before", "after")
    plain = _messages(spark, server, "subscribe", topic).select("value")
    name = "from_json" if form == "json-envelope" else "from_avro"
    peer = _peer(plain, form, folder, rows.schema["after"].dataType)
    mine, other = (one.select(*map(_total, ("operation", "before", "after"))).first() for one in (rows, peer))
    if mine != other:
        raise SystemExit(f"{form}: cdcwb and {name} do not give the same rows: {mine}, {other}")
    return {"cdcwb": _to_nothing(rows), name: _to_nothing(peer), "no decoding": _to_nothing(plain)}


def _messages(spark: SparkSession, server: str, option: str, topics: str) -> DataFrame:
    """The messages of topics through Spark's connector."""
    options = {"kafka.bootstrap.servers": server, option: topics, "includeHeaders": "true"}
    return spark.read.format("kafka").options(**options).load()


def _peer(plain: DataFrame, form: str, folder: Path, image: Any) -> DataFrame:
    """The same columns by Spark's own functions. ``image``: the type that JSON is read as."""
    from pyspark.sql import functions as F
    from pyspark.sql.avro.functions import from_avro

    if form == "json-envelope":
        headers = "struct<operation: string, changeSequence: string, transactionId: string>"
        shape = f"struct<data: {image.simpleString()}, beforeData: {image.simpleString()}, headers: {headers}>"
        parsed = F.from_json(F.col("value").cast("string"), f"struct<message: {shape}>")
        found = plain.select(parsed.alias("found")).select("found.message.*")
    elif form == "avro-envelope":
        outer = from_avro(F.expr("substring(value, 6)"), ENVELOPE)
        inner = plain.select(outer.alias("found")).select(F.col("found.message").alias("value"))
        found = inner.select(from_avro("value", _schema(folder)).alias("found")).select("found.*")
    else:
        parsed = from_avro(F.expr("substring(value, 6)"), _schema(folder))
        found = plain.select(parsed.alias("found")).select("found.*")
    is_delete = F.col("headers.operation") == "DELETE"  # whose row is in data
    return found.select(
        F.col("headers.operation").alias("operation"),
        F.col("headers.changeSequence").alias("position"),
        F.col("headers.transactionId").alias("transaction_id"),
        F.when(is_delete, F.col("data")).otherwise(F.col("beforeData")).alias("before"),
        F.when(~is_delete, F.col("data")).alias("after"),
    )


def _schema(folder: Path) -> str:
    """The schema of the data messages, which the registry has, or the end of the metadata message; without the name of
    the task, in which Spark does not take the hyphen."""
    import pyarrow.parquet as pq

    registry = sorted((folder / "registry").glob("*.avsc"))
    if registry:
        return TASK.sub("", registry[0].read_text(encoding="utf-8"))
    (path,) = (folder / "metadata").glob("*.parquet")
    value: bytes = pq.read_table(path)["value"][0].as_py()
    return TASK.sub("", value[value.index(b'{"type":"record","name":"DataRecord"') :].decode())


def _total(name: str) -> Column:
    """A number that differs where the values of a column do."""
    from pyspark.sql import functions as F

    return F.sum(F.xxhash64(F.col(name).cast("string")).cast("decimal(38, 0)")).alias(name)


def _to_nothing(frame: DataFrame) -> Job:
    return lambda: frame.write.format("noop").mode("overwrite").save()


if __name__ == "__main__":
    raise SystemExit(main())
