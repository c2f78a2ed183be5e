"""The continuity of rows, asked of Spark: the same breaks as in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cdcwb.analysis.continuity import breaks, continuity
from tests.changes import Tables, change

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
T = "shop.orders"


def test_spark_finds_the_same_breaks(spark: SparkSession) -> None:
    rows = []
    for key in range(1, 30):
        images = [{"id": str(key), "v": str(v)} for v in range(4)]
        number = 10 * key
        rows.append(change(number, "INSERT", T, after=images[0]))
        rows.append(change(number + 1, "UPDATE", T, before=images[key % 3], after=images[3]))
        rows.append(change(number + 2, "DELETE", T, before=images[3]))
    rows.append(change(500, "TRUNCATE", T))
    local, distributed = Tables(changes=rows), Tables(spark, changes=rows)
    here, there = continuity(local), continuity(distributed)
    assert here.kinds == {"gap": 20}
    assert (there.facts, there.tables, there.listed) == (here.facts, here.tables, here.listed)
    assert breaks(distributed).table().num_rows == 20
