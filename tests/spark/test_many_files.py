"""Ten thousand small files: every change is read, and the plan is small."""

from __future__ import annotations

from pathlib import Path

import pytest

import cdcwb
from benchmarks.limits import SMALL_FILES, small_files
from tests.spark.tables import assert_same_rows, plain_rows, truth_table

pytestmark = pytest.mark.usefixtures("spark")

WHERE = ("file", "file_index", "offset", "length", "source_events")


@pytest.mark.full
@pytest.mark.parametrize("format", SMALL_FILES)
def test_changes_of_ten_thousand_files_equal_the_truth(tmp_path: Path, format: str) -> None:
    small_files(format, tmp_path)
    capture = cdcwb.load(tmp_path / "capture", format=format)
    assert len(capture.files) >= 1000
    assert len(capture._tables.text) < 100 * len(capture.files)
    if format in ("qlik-kafka", "debezium"):  # the generator knows the few files from which messages were dealt out
        found = capture.changes.drop("problems", *WHERE).toArrow()
        truth = truth_table(tmp_path, "changes").select(found.column_names)
        assert sorted(plain_rows(found.cast(truth.schema)), key=str) == sorted(plain_rows(truth), key=str)
        return
    inferred = ["key"] if format == "qlik-change-table" else []  # from the masks of DELETEs, without metadata
    assert assert_same_rows(capture.changes, tmp_path, "changes", ["problems", *inferred]) > 5000
