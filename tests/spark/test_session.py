"""The session: the running one is used as it is, a new one is local, in UTC, and says nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession

from cdcwb.spark.session import get_spark

pytestmark = pytest.mark.oldest


def run(code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run ``code`` in a Python of its own, with no session, on one core."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "MASTER": "local[1]", "SPARK_DRIVER_MEMORY": "1g", **environ},
    )


def test_the_running_session_is_used(spark: SparkSession) -> None:
    assert get_spark() is spark


def test_the_running_session_is_used_from_another_thread(spark: SparkSession) -> None:
    found: list[SparkSession] = []
    thread = threading.Thread(target=lambda: found.append(get_spark()))
    thread.start()
    thread.join()
    assert found[0].sparkContext is spark.sparkContext


def test_the_running_session_keeps_its_settings_but_for_what_cdcwb_needs(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Shanghai")
    spark.conf.set("spark.sql.shuffle.partitions", "7")
    try:
        get_spark()
        assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
        assert spark.conf.get("spark.sql.shuffle.partitions") == "7"
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        spark.conf.set("spark.sql.shuffle.partitions", "4")


def test_times_are_utc(spark: SparkSession) -> None:
    rows = spark.sql("select timestamp '2025-03-23 10:57:19' at").toArrow().to_pylist()
    assert rows == [{"at": datetime(2025, 3, 23, 10, 57, 19, tzinfo=UTC)}]


def test_a_new_session_is_local_and_quiet_and_what_the_user_has_set_wins() -> None:
    done = run(
        """
        from cdcwb.spark.session import get_spark
        spark = get_spark("mine")
        context = spark.sparkContext
        print(spark.range(3).mapInArrow(lambda batches: batches, "id long").count())
        print(context.master, context.appName, context.uiWebUrl, context.getConf().get("spark.driver.host"))
        print(spark.conf.get("spark.sql.shuffle.partitions"), context.getConf().get("spark.driver.memory"))
        try:
            spark.sql("select nothing from range(3)")
        except Exception as error:
            print(type(error).__name__)

        def fail(batches):
            raise ValueError("in a worker")
            yield

        try:
            spark.range(3).mapInArrow(fail, "id long").collect()
        except Exception as error:
            print(type(error).__name__)
        spark.stop()
        print(get_spark().sparkContext.appName)
        """,
        PYSPARK_SUBMIT_ARGS="--conf spark.sql.shuffle.partitions=3 --driver-memory 700m pyspark-shell",
    )
    expected = "3\nlocal[1] mine None 127.0.0.1\n3 700m\nAnalysisException\nPythonException\ncdcwb\n"
    assert (done.stderr, done.stdout) == ("", expected)
    assert done.returncode == 0


def test_a_query_that_ends_early_prints_nothing() -> None:
    """Spark closes the sockets of workers that have more rows than it wants."""
    done = run(
        """
        import pyarrow as pa
        from cdcwb.spark.session import get_spark

        def more(batches):
            for batch in batches:
                for first in range(2000):
                    yield pa.RecordBatch.from_pydict({"id": [first] * 1000, "text": ["x" * 200] * 1000})

        spark = get_spark()
        for _ in range(3):
            print(len(spark.range(3).mapInArrow(more, "id long, text string").head(3)))
        """
    )
    assert (done.stderr, done.stdout) == ("", "3\n3\n3\n")


def test_a_jvm_that_does_not_start_says_why_in_one_line() -> None:
    done = run(
        """
        from cdcwb.errors import MissingDependencyError
        from cdcwb.spark.session import get_spark
        try:
            get_spark()
        except MissingDependencyError as error:
            print(error)
        """,
        SPARK_DRIVER_MEMORY="9000000g",
    )
    assert done.stdout.count("\n") == 1
    assert "did not start" in done.stdout
    assert "heap" in done.stdout
    assert done.stderr == ""
