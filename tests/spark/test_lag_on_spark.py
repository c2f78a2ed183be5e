"""Lag by hop, asked of Spark: the same figures as in this process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import cdcwb
from cdcwb.analysis.lag import lag
from cdcwb.model import EVENTS
from tests.changes import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
DATA = Path(__file__).resolve().parents[2] / "data"


@pytest.mark.parametrize("name", ["debezium", "goldengate-export", "qlik-kafka"])
def test_spark_finds_the_same_lags(spark: SparkSession, name: str) -> None:
    events = cdcwb.load(DATA / name).rows("events", EVENTS.names).table().to_pylist()
    here: Any = Tables(events=events)
    there: Any = Tables(spark, events=events)
    here.format = there.format = name
    local, distributed = lag(here, None), lag(there, None)
    assert local.hops
    assert local.worst
    assert (distributed.hops, distributed.over_time) == (local.hops, local.over_time)
    assert distributed.worst == local.worst
    assert distributed.facts == local.facts
