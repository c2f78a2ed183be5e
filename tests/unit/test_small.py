"""Small captures are read, saved and indexed in this process; no session of Spark is started."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cdcwb import load, model
from cdcwb.errors import CaptureError
from cdcwb.index.source import open_source
from cdcwb.opening import open_small
from tests.expected import counted, expected
from tests.made import DATA, IN_DATA


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for Spark fails."""
    monkeypatch.setitem(sys.modules, "cdcwb.spark.session", None)


@pytest.mark.parametrize("format", IN_DATA)
def test_counts_are_those_that_are_expected(format: str) -> None:
    capture = open_small(DATA / format)
    assert capture is not None
    assert counted(capture) == expected(format)


@pytest.mark.parametrize("format", IN_DATA)
def test_a_saved_capture_has_every_table_and_goes_on(format: str, tmp_path: Path) -> None:
    capture = load(DATA / format)
    saved = capture.save(tmp_path / "saved")
    for name, schema in model.TABLES.items():
        expected = capture.rows(name, schema.names).table().cast(schema)
        assert pq.ParquetDataset(saved / name).read(columns=schema.names).cast(schema).equals(expected)
    about = json.loads((saved / "cdcwb.json").read_text())
    assert about["format"] == format
    assert {entry["file"] for entry in capture.files} <= set(about["continue"]["files"])
    with pytest.raises(CaptureError, match="already exists"):
        capture.save(tmp_path / "saved")


@pytest.mark.parametrize("format", IN_DATA)
def test_an_index_has_every_record_and_every_change(format: str, tmp_path: Path) -> None:
    capture = open_small(DATA / format)
    assert capture is not None
    source = open_source(DATA / format, folder=tmp_path)
    assert source.index.records == capture.table("events").num_rows
    assert len(source.changes) == capture.table("changes").num_rows


_FORKED = """
import os, sys
from cdcwb import load
rows = load(sys.argv[1]).rows("changes", ["after"])
if os.fork() == 0:
    sys.exit()
os.wait()
print(len(rows.table()))
"""


def test_a_forked_process_that_ends_leaves_the_files_of_its_parent() -> None:
    run = [sys.executable, "-c", _FORKED, str(DATA / "gbase8s")]
    assert int(subprocess.run(run, capture_output=True, text=True, check=True).stdout) > 0
