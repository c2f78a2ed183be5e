"""One table as typed columns in Spark: the types, the values, and only what is asked for."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import types as T

import cdcwb
import cdcwb_synth as synth
from cdcwb.errors import CaptureError

if TYPE_CHECKING:
    from cdcwb import Capture

pytestmark = [pytest.mark.oldest, pytest.mark.usefixtures("spark")]


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    """400 changes, a third of them to the table of all types, in two files."""
    to = tmp_path_factory.mktemp("made")
    synth.generate("gbase8s", changes=400, seed=23, to=to, files=2, cut_records=True, all_types_share=0.3)
    return cdcwb.load(to / "capture", labels=str(to / "labels.json"), split_size=40_000)


def test_every_column_type_has_a_type_of_spark(capture: Capture) -> None:
    fields = {field.name: field.dataType for field in capture.table("shop.everything").schema["after"].dataType.fields}
    assert fields["c_smallint"] == T.ShortType()
    assert fields["id"] == T.IntegerType()
    assert fields["c_int8"] == T.LongType()
    assert fields["c_float"] == T.DoubleType()
    assert fields["c_real"] == T.FloatType()
    assert fields["c_boolean"] == T.BooleanType()
    assert fields["c_date"] == T.DateType()
    assert fields["c_year_second"] == T.TimestampNTZType()
    assert fields["c_decimal_32_15"] == T.DecimalType(32, 15)
    assert fields["c_varchar"] == fields["c_floating"] == fields["i_day3_second"] == T.StringType()
    assert fields["l_blob"] == T.BinaryType()


def test_values_are_those_of_the_text_maps(capture: Capture) -> None:
    columns = ["id", "c_decimal_5_2", "c_date", "c_nvarchar", "c_boolean"]
    frame = capture.table("everything", columns)
    typed = {(row.file_index, row.offset): row for row in frame.collect()}
    events = capture.events.filter("table_name = 'everything' and kind in ('change', 'before', 'after')")
    events = events.filter("operation <> 'TRUNCATE'").select("file_index", "offset", "before", "after").collect()
    assert typed.keys() == {(row.file_index, row.offset) for row in events}
    assert len(events) > 100
    for row in events:
        for image in ("before", "after"):
            texts, values = row[image], typed[row.file_index, row.offset][image]
            if texts is None:
                assert values is None
                continue
            assert values.asDict() == {
                "id": int(texts["id"]),
                "c_decimal_5_2": texts["c_decimal_5_2"] and Decimal(texts["c_decimal_5_2"]),
                "c_date": texts["c_date"] and dt.date.fromisoformat(texts["c_date"]),
                "c_nvarchar": texts["c_nvarchar"],
                "c_boolean": {"true": True, "false": False, None: None}[texts["c_boolean"]],
            }


def test_only_what_is_asked_for_is_there(capture: Capture) -> None:
    frame = capture.table("customer", ["city", "customer_id"], images="after")
    assert frame.columns == [
        "file_index",
        "offset",
        "kind",
        "operation",
        "position",
        "transaction_id",
        "table_version",
        "after",
    ]
    assert frame.schema["after"].dataType.names == ["city", "customer_id"]
    assert frame.filter("after.customer_id is not null").count() == frame.filter("after is not null").count() > 0


def test_sums_are_exact(capture: Capture) -> None:
    total = capture.table("orders", ["total"], images="after").selectExpr("sum(after.total) as total").first().total
    texts = capture.events.filter("table_name = 'orders' and after['total'] is not null").selectExpr("after['total'] t")
    assert total == sum(Decimal(row.t) for row in texts.collect())


def test_the_latest_version_gives_one_set_of_columns(capture: Capture) -> None:
    changed = next(row for row in capture.table_versions.collect() if row.table_version.endswith("@2"))
    latest = capture.table(changed.table_name, schema="latest")
    assert latest.schema["after"].dataType.names == [column.name for column in changed.columns]
    assert latest.count() == capture.table(changed.table_name).count()


def test_a_wrong_name_is_an_error_before_anything_runs(capture: Capture) -> None:
    with pytest.raises(CaptureError, match=r"no table 'custmer'.* Did you mean 'customer'"):
        capture.table("custmer")
    with pytest.raises(CaptureError, match=r"no column 'citty'\. Did you mean 'city'"):
        capture.table("customer", ["citty"])
