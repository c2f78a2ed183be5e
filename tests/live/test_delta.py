"""Captures in Delta tables equal those saved as Parquet, whatever was appended to them and in how many steps."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import cdcwb
from cdcwb import delta, model
from cdcwb.cli import main
from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats.files import list_files
from cdcwb.saved import delta_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from cdcwb import Capture

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture(autouse=True)
def _with_delta(spark: SparkSession) -> None:
    """The session of this folder, which has Delta Lake."""


@pytest.fixture(scope="module")
def stream() -> list[str]:
    """Files of a stream whose transactions go on from one to the next."""
    return list_files(str(DATA / "gbase8s"))


@pytest.fixture(scope="module")
def shared(spark: SparkSession, stream: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first of them, saved; then all, appended to it."""
    folder = tmp_path_factory.mktemp("shared") / "capture"
    cdcwb.load(stream[:1]).save(folder, as_="delta")
    cdcwb.load([folder, *stream]).save(folder)
    return folder


def rows(capture: Capture, table: str) -> list[str]:
    """The rows of a table in an order of their own, maps by name."""
    return sorted(
        repr([_plain(value) for value in row.values()]) for row in getattr(capture, table).toArrow().to_pylist()
    )


def _plain(value: Any) -> Any:
    return sorted(value, key=repr) if isinstance(value, list) and value and isinstance(value[0], tuple) else value


def assert_same(found: Capture, wanted: Capture) -> None:
    for table in model.TABLES:
        assert rows(found, table) == rows(wanted, table), table
    assert (found.format, found.files, found.facts) == (wanted.format, wanted.files, wanted.facts)


def versions(folder: Path) -> dict[str, int]:
    return dict(state_of(folder)["tables"])


def state_of(folder: Path) -> dict[str, Any]:
    about = delta_at(folder)
    assert about is not None
    return dict(about["delta"])


@pytest.mark.full
@pytest.mark.parametrize("name", ["qlik-kafka", "qlik-change-table", "goldengate", "idm-event-log", "debezium"])
def test_every_format_equals_parquet(name: str, tmp_path: Path) -> None:
    """Of change tables half of the files are saved first, and the others come between them: all have other numbers."""
    files = list_files(str(DATA / name))
    if name == "qlik-change-table":
        cdcwb.load(files[::2]).save(tmp_path / "delta", as_="delta")
        cdcwb.load([tmp_path / "delta", *files]).save(tmp_path / "delta")
    else:
        cdcwb.load(files).save(tmp_path / "delta", as_="delta")
    assert_same(cdcwb.load(tmp_path / "delta"), cdcwb.load(cdcwb.load(files).save(tmp_path / "parquet")))


def test_what_commits_later_moves_from_open_to_its_day(spark: SparkSession, shared: Path, stream: list[str]) -> None:
    before, after = (
        {(row.file_index, row.offset): row._commit_day for row in days.collect()}
        for days in (
            spark.read.format("delta").option("versionAsOf", version).load(str(shared / "changes"))
            for version in (0, versions(shared)["changes"])
        )
    )
    moved = {place for place, day in before.items() if day == "open" and after.get(place, "open") != "open"}
    assert moved
    history = spark.sql(f"DESCRIBE HISTORY delta.`{shared / 'changes'}`").collect()
    merge = next(row for row in history if row.operation == "MERGE")
    assert int(merge.operationMetrics["numTargetRowsUpdated"]) >= len(moved)
    assert int(merge.operationMetrics["numTargetRowsCopied"]) < len(before)
    assert merge.version == versions(shared)["changes"] == 1
    assert_same(cdcwb.load(shared), cdcwb.load(stream))


def test_the_same_files_again_change_nothing(shared: Path, stream: list[str]) -> None:
    before = shared.joinpath("cdcwb.json").read_bytes()
    cdcwb.load([shared, *stream]).save(shared)
    assert shared.joinpath("cdcwb.json").read_bytes() == before


def test_earlier_states_are_loaded_by_version_and_time(shared: Path, stream: list[str]) -> None:
    saved_at = json.loads((shared / "states" / "0.json").read_text())["delta"]["saved_at"]
    first = cdcwb.load(stream[:1])
    assert_same(cdcwb.load(shared, versionAsOf=0), first)
    assert rows(cdcwb.load(shared, timestampAsOf=saved_at), "changes") == rows(first, "changes")


@pytest.fixture
def copy(shared: Path, tmp_path: Path) -> Path:
    """The capture as it is after the first file, elsewhere: a folder of Delta tables can be copied."""
    folder = tmp_path / "copy"
    shutil.copytree(shared, folder)
    shutil.copy(folder / "states" / "0.json", folder / "cdcwb.json")
    return folder


@pytest.mark.full
def test_an_append_that_is_interrupted_changes_nothing(
    copy: Path, stream: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The tables of ``copy`` are those after an append of which only the description was not written."""
    first = cdcwb.load(copy)
    before = {table: rows(first, table) for table in model.TABLES}
    update = delta._update

    def interrupted(*given: Any) -> None:
        update(*given)
        # a reader while it goes on
        assert {table: rows(cdcwb.load(copy), table) for table in ("events", "changes")} == {
            table: before[table] for table in ("events", "changes")
        }
        if given[3] == "changes":
            raise KeyboardInterrupt

    monkeypatch.setattr(delta, "_update", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cdcwb.load([copy, *stream]).save(copy)
    monkeypatch.undo()
    assert {table: rows(cdcwb.load(copy), table) for table in model.TABLES} == before
    assert not [one for one in copy.iterdir() if one.name.startswith(".staging")]
    cdcwb.load([copy, *stream]).save(copy)
    for table in model.TABLES:  # who had it open still sees what it was
        assert rows(first, table) == before[table]
    assert_same(cdcwb.load(copy), cdcwb.load(stream))


def test_two_do_not_append_at_once(shared: Path, stream: list[str]) -> None:
    with delta._locked(shared), pytest.raises(CaptureError, match="another process saves to it"):
        cdcwb.load([shared, *stream]).save(shared)


def read_bytes(frame: DataFrame) -> tuple[int, int]:
    """How many files, and how many bytes, a scan reads."""
    scans = [node for node in _nodes(frame.select("before", "after")) if "FileSourceScan" in node.getClass().getName()]
    return tuple(sum(one.metrics().apply(name).value() for one in scans) for name in ("numFiles", "filesSize"))


def _nodes(frame: DataFrame) -> Iterator[Any]:
    query = frame._jdf.queryExecution()
    query.executedPlan().executeCollect()
    stack = [query.executedPlan()]
    while stack:
        node = stack.pop()
        yield node
        children = node.children()
        stack += [children.apply(at) for at in range(children.size())]
        if "AdaptiveSparkPlan" in node.getClass().getName():
            stack.append(node.executedPlan())


def test_filters_on_table_time_and_operation_skip_files(shared: Path) -> None:
    changes = cdcwb.load(shared).changes
    files, size = read_bytes(changes)
    for condition in ("table_name = 'orders'", "operation = 'DELETE'", "committed_at >= '2025-03-23T08:05:00'"):
        some, less = read_bytes(changes.where(condition))
        told = f"{condition}: {less} of {size} bytes in {some} of {files} files"
        assert 0 < some < files, told
        assert less < size, told
        assert changes.where(condition).count() > 0, told


@pytest.mark.full
def test_compaction_joins_files_and_keeps_rows(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "capture"
    shutil.copytree(shared, folder)
    before = {table: rows(cdcwb.load(folder), table) for table in model.TABLES}
    files = len(cdcwb.load(folder).changes.inputFiles())
    assert main(["save", str(folder), "--to", str(folder), "--compact"]) == 0
    assert "a saved gbase8s capture of" in capsys.readouterr().out
    assert len(cdcwb.load(folder).changes.inputFiles()) < files
    assert {table: rows(cdcwb.load(folder), table) for table in model.TABLES} == before
    state = state_of(folder)
    cdcwb.load(folder).save(folder, compact=True)
    assert state_of(folder) == state


@pytest.mark.full
def test_another_capture_needs_overwrite_and_stays_loadable(copy: Path, stream: list[str]) -> None:
    other = cdcwb.load(stream[1:])
    with pytest.raises(CaptureError, match="already exists; not overwritten"):
        other.save(copy, as_="delta")
    other.save(copy, overwrite=True)
    assert_same(cdcwb.load(copy), cdcwb.load(stream[1:]))
    assert_same(cdcwb.load(copy, versionAsOf=0), cdcwb.load(stream[:1]))


def test_a_table_format_that_is_not_written_is_an_error(stream: list[str], tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="as_: expected parquet or delta, found 'iceberg'"):
        cdcwb.load(stream).save(tmp_path / "new", as_="iceberg")
