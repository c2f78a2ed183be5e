"""Changes and transactions that are put together in splits are those that Spark puts together of all events, wherever
the borders of splits lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


def test_most_transactions_cross_no_border(disorder: Path) -> None:
    capture = cdcwb.load(disorder, split_size=50_000)
    plan, form = capture._tables.plan, capture._tables.format  # type: ignore[union-attr]
    crossing = [form.crossing(plan, split) for split in range(len(plan.splits))]  # type: ignore[attr-defined]
    names = set().union(*crossing)
    whole = [row for row in rows(capture, "transactions") if row["transaction_id"] not in names]
    assert len(plan.splits) > 3
    assert 0 < len(names) < len(whole)
