"""The tables of small captures are the same, whether the readers make them in this process or Spark does."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cdcwb
import cdcwb_synth as synth
from cdcwb import local_tables
from cdcwb.analysis.summary import summarize
from cdcwb.local_tables import LocalTables
from cdcwb.model import TABLES
from cdcwb.tables import Live
from tests.made import MAIN

DATA = Path(__file__).parents[2] / "data"

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture(scope="module", params=MAIN)
def disorder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture of which pieces are missing, there twice, and cut."""
    folder = tmp_path_factory.mktemp(request.param)
    synth.generate(request.param, changes=300, seed=7, to=folder)
    chance = random.Random(3)
    for file in sorted(path for path in (folder / "capture").rglob("*") if path.is_file() and path.suffix != ".json"):
        content = file.read_bytes()
        if len(content) < 4_000:
            continue
        at = sorted(chance.sample(range(1_000, len(content) - 1_000), 4))
        pieces = [content[start:end] for start, end in zip([0, *at], [*at, len(content)], strict=True)]
        file.write_bytes(pieces[0] + pieces[1] + pieces[1] + pieces[3][: len(pieces[3]) // 2] + pieces[4])
    return folder / "capture"


def rows(table: pa.Table) -> list[str]:
    """The rows of a table in an order of their own; the entries of maps have none."""
    maps = {field.name for field in table.schema if pa.types.is_map(field.type)}
    return sorted(
        repr({name: sorted(map(repr, value)) if name in maps and value else value for name, value in row.items()})
        for row in table.to_pylist()
    )


def stored(folder: Path, name: str) -> pa.Table:
    table = pq.ParquetDataset(folder / name).read()
    return table.select(TABLES[name].names).cast(TABLES[name])


def saved_both_ways(path: Path, to: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
    """Checks that a capture saved without Spark has every row that Spark gives."""
    cdcwb.load(path, **options).save(to / "small")
    facts = summarize(cdcwb.load(path, **options))
    monkeypatch.setattr(local_tables, "AT_MOST", 0)
    cdcwb.load(path, **options).save(to / "spark")
    for name in TABLES:
        assert rows(stored(to / "small", name)) == rows(stored(to / "spark", name)), name
    assert summarize(cdcwb.load(to / "spark")) == facts
    assert (to / "small" / "cdcwb.json").read_text() == (to / "spark" / "cdcwb.json").read_text()


@pytest.mark.oldest
@pytest.mark.parametrize("format", MAIN)
def test_the_data_of_the_project(format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved_both_ways(DATA / format, tmp_path, monkeypatch)


def test_captures_with_pieces_missing_and_repeated(
    disorder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved_both_ways(disorder, tmp_path, monkeypatch)


def test_problems_do_not_depend_on_where_changes_are_assembled(disorder: Path) -> None:
    capture = cdcwb.load(disorder, split_size=20_000)
    expected = rows(capture.problems.toArrow())
    assert len(expected) > 4
    assert rows(LocalTables(cast(Live, capture._tables)).table("problems")) == expected


def test_changes_that_undo_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synth.generate("goldengate", changes=200, seed=5, to=tmp_path, undo=0.3)
    saved_both_ways(tmp_path / "capture", tmp_path, monkeypatch)
    outcomes = stored(tmp_path / "small", "changes")["outcome"].to_pylist()
    assert outcomes.count("undone") > 5


@pytest.mark.parametrize("format", ["gbase8s", "qlik-kafka"])
def test_keys_that_an_option_names(format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved_both_ways(DATA / format, tmp_path, monkeypatch, keys="shop.customer:customer_id")
    keys = {
        tuple(name for name, _ in row["key"])
        for row in stored(tmp_path / "small", "changes").to_pylist()
        if row["table_name"] == "customer" and row["schema_name"] == "shop" and row["key"] is not None
    }
    assert keys == {("customer_id",)}
