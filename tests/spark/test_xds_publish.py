"""Publishing in Spark: the same decisions and documents as at once, wherever the rows are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cdcwb.spark_rows import SparkRows
from cdcwb.xds import ROWS
from tests.published_logs import SETTINGS, check_published, some_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.oldest
@pytest.mark.parametrize("with_tables", [False, True], ids=["without", "snapshot"])
@pytest.mark.parametrize("name", SETTINGS)
def test_spark_publishes_what_is_published_at_once(spark: SparkSession, name: str, with_tables: bool) -> None:
    log = some_log(len(name), 3000)
    check_published(log, SparkRows(spark.createDataFrame(log).repartition(5), ROWS), name, with_tables)
