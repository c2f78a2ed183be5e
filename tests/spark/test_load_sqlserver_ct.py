"""SQL Server's change tables on Spark: as DataFrames, and with the rows of updates in several files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import cdcwb
import cdcwb_synth as synth
from cdcwb.formats.files import list_files
from cdcwb.opening import open_small


def changes(capture: Any) -> list[dict[str, Any]]:
    names = ("operation", "position", "changed_columns", "before", "after", "changed_at", "transaction_id")
    rows = capture.changes.select(*names).toArrow().to_pylist()
    return sorted(rows, key=lambda row: (row["position"], row["operation"]))


def test_a_dataframe_is_the_change_table(spark: SparkSession, tmp_path: Path) -> None:
    options = {"tables": 1, "all_types": False, "container": "parquet"}
    made = synth.generate("sqlserver-ct", changes=60, seed=4, to=tmp_path, **options)
    (file,) = list_files(str(made / "capture"))
    frame = spark.read.parquet(file).repartition(3)
    capture = cdcwb.load(frame, name=Path(file).stem, order_by="__$start_lsn,__$command_id,__$operation")
    assert capture.format == "sqlserver-ct"
    assert changes(capture) == changes(cdcwb.load(file, spark=spark))
    typed = capture.table("shop.customer", columns=["full_name"]).toArrow()
    assert typed.num_rows == capture.events.count()
    assert [row["table_name"] for row in capture.table_versions.collect()] == ["customer"]


@pytest.mark.parametrize("rows_per_file", [1, 7])
def test_the_rows_of_an_update_may_be_in_several_files(spark: SparkSession, tmp_path: Path, rows_per_file: int) -> None:
    options = {"tables": 1, "all_types": False, "deferred_share": 0.0}
    made = synth.generate("sqlserver-ct", changes=60, seed=4, to=tmp_path / "made", **options)
    (file,) = list_files(str(made / "capture"))
    header, *rows = Path(file).read_text(encoding="utf-8").splitlines(keepends=True)
    assert not any(row.count('"') % 2 for row in rows)
    folder = tmp_path / "shop_customer_CT"
    folder.mkdir()
    for number, first in enumerate(range(0, len(rows), rows_per_file)):
        (folder / f"part-{number}.csv").write_text(
            header + "".join(rows[first : first + rows_per_file]), encoding="utf-8"
        )
    whole, parts = open_small(file), open_small(folder)
    assert whole is not None
    assert parts is not None
    expected = whole.table("changes").to_pylist()
    found = changes(cdcwb.load(folder, spark=spark))
    here = sorted(parts.table("changes").to_pylist(), key=lambda row: str(row["position"]))
    columns = ("position", "operation", "before", "after", "changed_columns", "transaction_id")
    assert [[row[name] for name in columns] for row in here] == [[row[name] for name in columns] for row in found]
    assert parts.table("transactions").num_rows == whole.table("transactions").num_rows
    assert [row["position"] for row in found] == sorted(row["position"] for row in expected)
    assert (
        sum(row["before"] is not None and row["after"] is not None for row in found)
        == sum(row["before"] is not None and row["after"] is not None for row in expected)
        > 5
    )
    assert isinstance(cdcwb.load(folder, spark=spark).problems.toArrow(), pa.Table)
