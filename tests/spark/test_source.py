"""The reader as a Spark data source."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import cdcwb
import cdcwb_synth as synth
from cdcwb.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.oldest


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """800 changes to five tables and one of all types, in two files."""
    return synth.generate("gbase8s", changes=800, seed=9, to=tmp_path_factory.mktemp("made"), files=2, cut_records=True)


def test_the_source_alone_gives_what_load_gives(spark: SparkSession, made: Path) -> None:
    cdcwb.register(spark)
    alone = spark.read.format("cdcwb-gbase8s").option("split_size", "10000").load(str(made / "capture"))
    loaded = cdcwb.load(made / "capture").events
    assert alone.schema == loaded.schema
    assert alone.orderBy("file_index", "offset").collect() == loaded.orderBy("file_index", "offset").collect()


def test_several_paths_are_one_capture(spark: SparkSession, made: Path) -> None:
    cdcwb.register(spark)
    first, second = sorted(map(str, (made / "capture").iterdir()))
    found = spark.read.format("cdcwb-gbase8s").load([first, second])
    assert found.count() == cdcwb.load([first, second]).events.count() == cdcwb.load(made / "capture").events.count()


def test_an_unknown_option_is_named_with_the_nearest(spark: SparkSession, made: Path) -> None:
    cdcwb.register(spark)
    with pytest.raises(Exception, match="Did you mean 'charset'"):
        spark.read.format("cdcwb-gbase8s").option("charest", "gbk").load(str(made / "capture")).count()


CONDITIONS = [
    "kind = 'commit'",
    "kind in ('before', 'after') and table_name = '102'",
    "table_name = '101' or kind = 'undo'",
    "changed_at >= timestamp'2025-03-23 08:00:01'",
    "kind = 'fragment'",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_filter_changes_no_answer(made: Path, condition: str) -> None:
    capture = cdcwb.load(made / "capture")
    everything = capture.events.collect()  # not filtered by the reader
    frame = capture.spark.createDataFrame(everything, capture.events.schema).filter(condition)
    assert capture.events.filter(condition).orderBy("file_index", "offset").collect() == (
        frame.orderBy("file_index", "offset").collect()
    )


def test_two_uses_of_one_frame_each_get_their_rows(made: Path) -> None:
    """Whatever Spark makes of filters: it hands those of one use to the other where a reader takes them."""
    events = cdcwb.load(made / "capture").events
    kinds = ("change", "begin")
    apart = [events.filter(f"kind = '{kind}'").count() for kind in kinds]
    together = events.filter("kind = 'change'").unionByName(events.filter("kind = 'begin'"))
    found = {row["kind"]: row["count"] for row in together.groupBy("kind").count().collect()}
    assert found == dict(zip(kinds, apart, strict=True))
    assert min(apart) > 0


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED", "FAILFAST"])
def test_columns_of_the_source_are_those_of_events(spark: SparkSession, made: Path, mode: str) -> None:
    cdcwb.register(spark)
    source = spark.read.format("cdcwb-gbase8s").option("mode", mode).option("columns", "after, kind,changed_columns")
    found = source.load(str(made / "capture"))
    assert found.columns == ["after", "kind", "changed_columns"]
    events = cdcwb.load(made / "capture").events.select(*found.columns)
    assert found.schema == events.schema
    assert found.collect() == events.collect()


def test_an_unknown_column_is_named_with_the_nearest(spark: SparkSession, made: Path) -> None:
    cdcwb.register(spark)
    with pytest.raises(Exception, match="Did you mean 'headers'"):
        spark.read.format("cdcwb-gbase8s").option("columns", "heders").load(str(made / "capture")).count()
    with pytest.raises(OptionError, match=r"events have no column 'heders'\. Did you mean 'headers'"):
        cdcwb.load(made / "capture").select_events("kind", "heders")


def test_some_columns_of_events_are_the_same_wherever_they_come_from(
    spark: SparkSession, made: Path, tmp_path: Path
) -> None:
    capture = cdcwb.load(made / "capture")
    rows = cdcwb.load(made / "capture", mode="DROPMALFORMED", images=False)
    saved = cdcwb.load(capture.save(tmp_path / "saved"))
    part = capture.filter(tables=["101"])
    for one in (
        capture,
        rows,
        saved,
        part,
        cdcwb.load([tmp_path / "saved", made / "capture"]),
    ):
        found = one.select_events("offset", "after", "changed_columns", "problems")
        assert found.columns == ["offset", "after", "changed_columns", "problems"]
        assert found.orderBy("offset").collect() == one.events.select(*found.columns).orderBy("offset").collect()
        assert found.count() > 100
