"""The tables of every format are the same in this process and on Spark (:mod:`cdcwb.testing`)."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdcwb.formats.dissector import FORMATS
from cdcwb.formats.files import list_files
from cdcwb.testing import check_format
from tests.made import generate


@pytest.mark.parametrize("format", FORMATS)
def test_spark_gives_the_tables_of_this_process(format: str, tmp_path: Path, spark: SparkSession) -> None:
    files = list_files(str(generate(format, changes=30, seed=3, to=tmp_path) / "capture"))
    split = {"options": {"split_size": 2000}} if format == "gbase8s" else {}
    check_format(format, files, sizes=(), mutations=0, spark=spark, **split)
