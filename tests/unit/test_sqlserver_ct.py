"""SQL Server's change tables: what rows mean, and what is read of generated ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cdcwb_synth as synth
from cdcwb import model
from cdcwb.capture import open_small

MADE: dict[str, dict[str, Any]] = {
    "change tables": {"schema_changes": 4},
    "the function, with old rows": {"rows": "all update old", "commit_times": False},
    "the function": {"rows": "all"},
    "Parquet": {"container": "parquet", "schema_changes": 2},
}
KEYS = {
    "changes": ("file_index", "offset"),
    "transactions": ("transaction_id",),
    "table_versions": ("table_version",),
}
UNKNOWN = {"changes": ("file", "problems"), "transactions": (), "table_versions": ("schema_text", "lineage")}


def small(*paths: Any, **options: Any) -> Any:
    found = open_small([str(path) for path in paths], options=options)
    assert found is not None
    return found


def rows(table: pa.Table, name: str) -> list[dict[str, Any]]:
    table = table.select([column for column in model.TABLES[name].names if column not in UNKNOWN[name]])
    return table.sort_by([(key, "ascending") for key in KEYS[name]]).to_pylist()


@pytest.mark.parametrize("name", MADE)
def test_what_is_read_equals_the_truth(name: str, tmp_path: Path) -> None:
    folder = synth.generate("sqlserver-ct", changes=120, seed=5, to=tmp_path / "made", **MADE[name])
    capture = small(folder / "capture")
    assert capture.format == "sqlserver-ct"
    for table in KEYS:
        found = rows(capture.table(table), table)
        true = rows(pq.read_table(folder / "truth" / f"{table}.parquet"), table)
        assert len(found) == len(true) > 3
        for row, expected in zip(found, true, strict=True):
            assert row == expected, table
    assert capture.table("problems").num_rows == 0
