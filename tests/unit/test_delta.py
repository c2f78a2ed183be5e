"""What can be said of captures in Delta tables without Spark: their states, and what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyspark
import pytest

from cdcwb.cli import main
from cdcwb.errors import MissingDependencyError, OptionError
from cdcwb.model import TABLES
from cdcwb.saved import SAVED, STATES, delta_at, read_description, write_description
from cdcwb.spark.session import check_delta, delta_package

TIMES = ("2026-03-01T06:00:00+00:00", "2026-03-02T06:00:00+00:00", "2026-03-03T06:00:00+00:00")


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """Three states of a capture."""
    for state, saved_at in enumerate(TIMES):
        delta = {"state": state, "saved_at": saved_at, "tables": dict.fromkeys(TABLES, 2 * state)}
        write_description(tmp_path, "gbase8s", [], {"records": state}, {}, delta)
    return tmp_path


@pytest.mark.parametrize(
    ("as_of", "state"),
    [
        ({}, 2),
        ({"versionAsOf": 0}, 0),
        ({"versionAsOf": "1"}, 1),
        ({"timestampAsOf": TIMES[1]}, 1),
        ({"timestampAsOf": "2026-03-03 05:59:59"}, 1),
        ({"timestampAsOf": "2030-01-01"}, 2),
    ],
)
def test_a_state_is_opened_by_version_or_time(shared: Path, as_of: dict[str, Any], state: int) -> None:
    about = read_description(shared, as_of)
    assert (about["delta"]["state"], about["facts"]) == (state, {"records": state})


@pytest.mark.parametrize(
    ("as_of", "sentence"),
    [
        ({"versionAsOf": 3}, "option versionAsOf: expected a version from 0 to 2, found '3'"),
        ({"versionAsOf": "-1"}, "option versionAsOf: expected a version from 0 to 2, found '-1'"),
        ({"timestampAsOf": "2026-02-01"}, "option timestampAsOf: expected a time from 2026-03-01T06:00:00"),
        ({"timestampAsOf": "noon"}, "timestampAsOf: expected a time such as"),
        ({"versionAsOf": 1, "timestampAsOf": TIMES[0]}, "expected one of the options versionAsOf and timestampAsOf"),
    ],
)
def test_a_state_that_is_none(shared: Path, as_of: dict[str, Any], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        read_description(shared, as_of)


def test_what_was_written_and_not_made_the_newest_is_no_state(shared: Path) -> None:
    (shared / SAVED).write_bytes((shared / STATES / "1.json").read_bytes())
    assert read_description(shared, {"timestampAsOf": "2030-01-01"})["delta"]["state"] == 1
    with pytest.raises(OptionError, match="from 0 to 1"):
        read_description(shared, {"versionAsOf": 2})


def test_parquet_keeps_no_states(tmp_path: Path) -> None:
    write_description(tmp_path, "gbase8s", [], {}, {})
    assert delta_at(tmp_path) is None
    assert json.loads((tmp_path / SAVED).read_text())["version"] == 3
    with pytest.raises(OptionError, match="option versionAsOf: only a capture saved as delta"):
        read_description(tmp_path, {"versionAsOf": 0})


def test_a_session_without_delta_lake_is_told_what_to_add(monkeypatch: pytest.MonkeyPatch) -> None:
    session = cast(Any, SimpleNamespace(conf=SimpleNamespace(get=lambda _, default: default)))
    monkeypatch.setattr(pyspark, "__version__", "4.0.0")
    with pytest.raises(MissingDependencyError, match="this Spark session has no Delta Lake") as found:
        check_delta(session)
    assert f"spark.jars.packages={delta_package()}" in found.value.advice
    monkeypatch.setattr(pyspark, "__version__", "4.3.0")
    with pytest.raises(MissingDependencyError, match=r"no Delta Lake is known for PySpark 4\.3: install PySpark 4\.0"):
        check_delta(session)


def test_files_are_joined_of_delta_tables_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture = Path(__file__).parents[2] / "data" / "gbase8s"
    assert main(["save", str(capture), "--to", str(tmp_path / "new"), "--compact"]) == 2
    assert "--compact is for --as delta" in capsys.readouterr().err
