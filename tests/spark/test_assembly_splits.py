"""Changes and transactions that are put together in splits are those that Spark puts together of all events, wherever
the borders of splits lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
import pytest

import cdcwb
import cdcwb_synth as synth
from cdcwb import Capture
from cdcwb.tables import Live
from tests.spark.test_assembly import write_stories

DATA = Path(__file__).parents[2] / "data" / "gbase8s"

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture(scope="module")
def disorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Undos, rollbacks, moved rows, ids that are used again, transactions without begin or end, bytes that are none."""
    folder = tmp_path_factory.mktemp("made")
    synth.generate("gbase8s", changes=1_500, seed=7, to=folder / "made", files=3)
    for number, file in enumerate(sorted((folder / "made" / "capture").iterdir())):
        content = bytearray(file.read_bytes())
        content[5_000 + 100 * number : 5_030 + 100 * number] = bytes(range(30))
        file.write_bytes(content[300:])
    return folder / "made" / "capture"


def rows(capture: Capture, name: str, images: bool = True) -> list[dict[str, Any]]:
    frame = getattr(capture, name) if images or name != "changes" else capture.change_headers
    found: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return sorted(
        found, key=lambda row: (row.get("transaction_id") or "", row.get("file_index", 0), row.get("offset", 0))
    )


def both(path: Path, **options: Any) -> list[list[dict[str, Any]]]:
    capture = cdcwb.load(path, **options)
    return [rows(capture, name) for name in ("changes", "transactions")]


def same(path: Path, sizes: list[int]) -> None:
    """Changes and transactions with splits of these sizes are those that Spark puts together of all events."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Live, "assembles_in_splits", False)
        expected = both(path)
    assert all(len(some) > 5 for some in expected)
    for size in sizes:
        assert both(path, split_size=size) == expected, size


def test_stories_cut_at_every_record(tmp_path: Path) -> None:
    same(write_stories(tmp_path), [100, 1 << 20])


def test_a_capture_with_everything_that_happens(disorder: Path) -> None:
    same(disorder, [20_000, 1 << 25])


def test_the_data_of_the_project() -> None:
    same(DATA, [2_000])


def test_without_images_changes_are_the_same_but_for_their_values(disorder: Path) -> None:
    imaged, headers = (rows(cdcwb.load(disorder, split_size=50_000), "changes", images) for images in (True, False))
    same = (
        "position",
        "kind",
        "operation",
        "outcome",
        "commit_position",
        "committed_at",
        "source_events",
        "table_name",
    )
    assert [[row[name] for name in same] for row in imaged] == [[row[name] for name in same] for row in headers]
    assert all(row["after"] is None and row["before"] is None for row in headers)


@pytest.mark.parametrize(("format", "options"), [("gbase8s", {}), ("goldengate", {"lobs": False, "undo": 0})])
def test_changes_of_transactions_in_several_splits_are_not_shuffled(
    format: str, options: dict[str, Any], tmp_path: Path
) -> None:
    long: dict[str, Any] = {"transaction_size": 300, "concurrency": 1}
    synth.generate(format, changes=1_500, seed=5, to=tmp_path, overwrite=True, **long, **options)
    capture = cdcwb.load(tmp_path / "capture", split_size=30_000)
    tables = cast(Live, capture._tables)
    assert tables._shares
    assert len(tables.plan.splits) > 3
    assert "Exchange" not in capture.changes._jdf.queryExecution().executedPlan().toString()
    (truth,) = (tmp_path / "truth").glob("changes.parquet")
    assert capture.changes.count() == pq.read_table(truth).num_rows
