"""A Spark session for little data."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["one_compiler", "quick_session"]


def one_compiler() -> None:
    """The JVM's second compiler costs more than it saves over little data, as in the kernels of reports."""
    os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m")


def quick_session() -> SparkSession:
    """The session that cdcwb makes, with few shuffle partitions. Compiling a query takes longer than running it over
    little data, so the newest PySpark interprets queries here; the oldest one compiles them."""
    import pyspark

    from cdcwb.spark.session import get_spark

    session = get_spark("cdcwb-tests")
    session.conf.set("spark.sql.shuffle.partitions", "2")
    if not pyspark.__version__.startswith("4.0."):
        session.conf.set("spark.sql.codegen.wholeStage", "false")
        session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    return session
