"""Generated captures of Maxwell and Canal: what is read equals the truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cdcwb_synth as synth
from cdcwb import model
from cdcwb.capture import open_small

MADE: dict[str, tuple[str, dict[str, Any]]] = {
    "maxwell": ("maxwell", {"refresh_rows": 3, "schema_changes": 2}),
    "maxwell without DDL": ("maxwell", {"ddl": False}),
    "canal": ("canal", {"schema_changes": 2, "truncates": 1}),
    "canal, a row a message": ("canal", {"rows_of_message": 1, "gtid": False}),
}
KEYS = {
    "changes": ("file_index", "offset"),
    "transactions": ("transaction_id",),
    "table_versions": ("table_version",),
}
UNKNOWN = {"changes": ("file", "problems"), "transactions": (), "table_versions": ("schema_text", "lineage")}


def rows(table: pa.Table, name: str) -> list[dict[str, Any]]:
    table = table.select([column for column in model.TABLES[name].names if column not in UNKNOWN[name]])
    return table.sort_by([(key, "ascending") for key in KEYS[name]]).to_pylist()


@pytest.mark.parametrize("name", MADE)
def test_what_is_read_equals_the_truth(name: str, tmp_path: Path) -> None:
    format, options = MADE[name]
    folder = synth.generate(format, changes=120, seed=5, to=tmp_path / "made", **options)
    capture = open_small([str(folder / "capture")], "auto", {})
    assert capture is not None
    assert capture.format == format
    for table in KEYS:
        found = rows(capture.table(table), table)
        true = rows(pq.read_table(folder / "truth" / f"{table}.parquet"), table)
        assert len(found) == len(true)
        for row, expected in zip(found, true, strict=True):
            assert row == expected, table
    assert capture.table("changes").num_rows > 90
    assert capture.table("problems").num_rows == 0
