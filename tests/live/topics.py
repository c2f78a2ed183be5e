"""Generated topics on a broker, and captures of them held against the truth."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cdcwb_synth as synth
from tests.live.broker import Broker
from tests.spark.tables import assert_same_rows, truth_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cdcwb.capture import Capture

__all__ = ["FORMS", "SLOWLY", "Made", "assert_equals_truth", "assert_says_that_it_is_down", "make"]

FORMS: dict[str, dict[str, Any]] = {
    "JSON with the envelope": {"form": "json-envelope"},
    "Avro with the envelope": {"form": "avro-envelope"},
    "Confluent framing": {"form": "confluent", "lobs": False},
}

SLOWLY = {"queued.min.messages": "200", "max.partition.fetch.bytes": "20000", "message.max.bytes": "20000"} | {
    "fetch.max.bytes": "60000"
}
"""A client that holds few messages, so that a broker that is killed is missed at once."""


@dataclass(frozen=True)
class Made:
    """A generated capture, and the topics with its messages. ``options``: those of the reader."""

    folder: Path
    url: str
    messages: int
    options: dict[str, Any]


def make(
    broker: Broker,
    folder: Path,
    prefix: str,
    changes: int,
    metadata: str = "auto",
    send_metadata: bool = True,
    **options: Any,
) -> Made:
    """Generates messages, and writes them to topics whose names begin with a prefix; metadata messages have a topic of
    their own if ``metadata`` is ``separate``, which can be left for later."""
    synth.generate("qlik-kafka", changes=changes, seed=17, to=folder, container="parquet", metadata=metadata, **options)
    count = broker.send_files(folder / "capture", prefix)
    if metadata == "separate" and send_metadata:
        count += broker.send_files(folder / "metadata", prefix)
    reader = {"registry": str(folder / "registry")} if options.get("form") == "confluent" else {}
    return Made(folder, f"kafka://{broker.address}/^{prefix}.*", count, reader)


def assert_equals_truth(capture: Capture, made: Made, prefix: str) -> int:
    """Holds that changes, transactions and table versions are those of the truth; returns the number of changes.

    The truth is of files, one for each partition, whose rows are the offsets.
    """
    truth = truth_table(made.folder, "changes").select(["file_index", "file"]).to_pylist()
    files = sorted({(row["file_index"], Path(row["file"]).stem) for row in truth})
    found = _placed(capture.changes.drop("problems"), capture, {name: index for index, name in files}, prefix)
    count = assert_same_rows(found, made.folder, "changes")
    assert_same_rows(capture.transactions, made.folder, "transactions")
    return count


def assert_says_that_it_is_down(error: str, url: str) -> None:
    """Holds that standard error is one sentence: the cluster does not answer."""
    assert error.startswith(f"cdcwb: {url}: the cluster does not answer")
    assert error.count("\n") == 1


def _placed(changes: DataFrame, capture: Capture, indices: dict[str, int], prefix: str) -> DataFrame:
    """Changes with the places that the truth has: files by partition, their numbers, rows."""
    from pyspark.sql import functions as F

    places = capture.events.select("file_index", "file").distinct().collect()
    names = {row.file_index: _partition(row.file).removeprefix(prefix) for row in places}
    numbers = F.create_map(*[F.lit(one) for index, name in names.items() for one in (index, indices.get(name, -1))])
    files = F.create_map(*[F.lit(one) for index, name in names.items() for one in (index, f"{name}.parquet")])
    events = F.transform(
        "source_events",
        lambda one: F.struct(
            numbers[one["file_index"]].alias("file_index"), one["offset"].alias("offset"), one["length"].alias("length")
        ),
    )
    headers = F.transform_values(
        "headers",
        lambda name, text: F.when(name == "kafka.topic", F.regexp_replace(text, f"^{prefix}", "")).otherwise(text),
    )
    return (
        changes.withColumn("file", files[F.col("file_index")])
        .withColumn("file_index", numbers[F.col("file_index")].cast("int"))
        .withColumn("source_events", events)
        .withColumn("headers", headers)
        .withColumn("offset_unit", F.lit("row"))
    )


def _partition(file: str) -> str:
    """The topic and partition of a file: its name, or that of its folder."""
    path = Path(file)
    return path.parent.name if path.suffix == ".parquet" else file
