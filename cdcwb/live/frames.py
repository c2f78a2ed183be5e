"""Ranges of topics as Spark DataFrames, through Spark's own connector (``spark-sql-kafka-0-10``)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cdcwb.errors import MissingDependencyError, OptionError
from cdcwb.formats.dissector import detected_row
from cdcwb.live.kafka import Point, Range, Topics
from cdcwb.words import count

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["connector", "detected_offsets", "messages"]

_OWN: Final = "kafka."  # prefix of properties that are passed to the connector unchanged
_SAME: Final = ("security.protocol", "isolation.level", "client.id", "client.rack", "ssl.key.password")
"""Properties that the Java client has with the same names and values; others are not passed to it."""
_LOGINS: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def connector() -> str:
    """The Maven coordinates of the connector for the installed PySpark."""
    import pyspark

    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"


def messages(spark: SparkSession, topics: Topics, ranges: Sequence[Range], settings: Mapping[str, str]) -> DataFrame:
    """The messages of these ranges: key, value, topic, partition, offset, timestamp, timestampType, headers. Every use
    reads the same offsets, in offset order within a partition.

    Raises MissingDependencyError in a session without the connector, OptionError for a configuration that the Java
    client cannot have.
    """
    from pyspark.errors import AnalysisException

    by_topic = {topic: list(some) for topic, some in groupby(ranges, key=lambda r: r.topic)}
    options = {
        "kafka.bootstrap.servers": topics.servers,
        "assign": json.dumps({topic: [r.partition for r in some] for topic, some in by_topic.items()}),
        "startingOffsets": json.dumps({t: {str(r.partition): r.start for r in some} for t, some in by_topic.items()}),
        "endingOffsets": json.dumps({t: {str(r.partition): r.end for r in some} for t, some in by_topic.items()}),
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
    }
    try:
        return spark.read.format("kafka").options(**(options | java_settings(settings))).load()
    except AnalysisException as reason:
        if "kafka" not in str(reason).lower() or "find" not in str(reason).lower():
            raise
        raise MissingDependencyError(
            "this Spark session has no Kafka connector: start it with spark.jars.packages set",
            advice=(f"spark.jars.packages={connector()}",),
        ) from None


def java_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """The configuration of the client (librdkafka's properties) as options of Spark's connector."""
    options = {f"{_OWN}{name}": settings[name] for name in _SAME if name in settings}
    if "security.protocol" in settings:
        options["kafka.security.protocol"] = settings["security.protocol"].upper()
    mechanism = (settings.get("sasl.mechanism") or settings.get("sasl.mechanisms") or "").upper()
    if mechanism:
        options["kafka.sasl.mechanism"] = mechanism
    if "sasl.username" in settings:
        login = _LOGINS.get(mechanism)
        if login is None:
            known = ", ".join(_LOGINS)
            raise OptionError(
                f"sasl.mechanism {mechanism or '(none)'} with a user name: expected one of {known}; give others as "
                "kafka.sasl.jaas.config and so on, which go to Spark's connector as they are"
            )
        name, password = (_quoted(settings.get(f"sasl.{field}", "")) for field in ("username", "password"))
        options["kafka.sasl.jaas.config"] = f"{login} required username={name} password={password};"
    if "ssl.ca.location" in settings:
        options |= {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": settings["ssl.ca.location"]}
    if "ssl.certificate.location" in settings:
        texts = {"certificate.chain": "certificate", "key": "key"}
        options["kafka.ssl.keystore.type"] = "PEM"
        options |= {f"kafka.ssl.keystore.{java}": _pem(settings, f"ssl.{own}.location") for java, own in texts.items()}
    if settings.get("ssl.endpoint.identification.algorithm") == "none":
        options["kafka.ssl.endpoint.identification.algorithm"] = ""
    return options | {name: value for name, value in settings.items() if name.startswith(_OWN)}


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _pem(settings: Mapping[str, str], name: str) -> str:
    try:
        return Path(settings.get(name, "")).expanduser().read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        raise OptionError(f"{name}: expected a PEM file", path=settings.get(name)) from None


def detected_offsets(ranges: Sequence[Range], start: Point, end: Point) -> list[dict[str, Any]]:
    """The offsets of a capture as rows of ``detected``, one for each partition."""
    overridden = not (start == "earliest" and end == "latest")
    rows = []
    for part in ranges:
        value = f"{count(part.start)} to {count(part.end - 1)}" if part.start < part.end else "none"
        evidence = f"from {start} until {end}, when the capture was opened"
        rows.append(detected_row("offsets", value, evidence, overridden, f"{part.topic}-{part.partition}"))
    return rows
