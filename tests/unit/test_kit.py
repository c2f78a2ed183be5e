"""The checks of :mod:`cdcwb.testing`: every format passes them, and they find what is wrong."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cdcwb.formats.dissector import FORMATS, Wanted
from cdcwb.formats.files import list_files
from cdcwb.formats.gbase8s import GBase8s
from cdcwb.testing import check_format
from tests.made import generate

TWENTY = (64, 80, 100, 128, 150, 200, 256, 300, 400, 512, 700, 1000, 1500, 2000, 3000, 4096, 5000, 7000, 9000, 20_000)
"""Target sizes of splits."""


def capture(format: str, to: Path, changes: int, **options: Any) -> list[str]:
    return list_files(str(generate(format, changes=changes, seed=3, to=to / "it", **options) / "capture"))


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_passes(format: str, tmp_path: Path) -> None:
    found = check_format(format, capture(format, tmp_path, 30), sizes=(200, 1000), mutations=10)
    assert min(found.events, found.changes, found.trees) > 2
    assert found.read + found.refused == 10


def test_gbase8s_passes_at_twenty_sizes_of_splits(tmp_path: Path) -> None:
    options = {"files": 3, "cut_records": True, "schema_changes": 3, "undo_share": 0.3}
    found = check_format("gbase8s", capture("gbase8s", tmp_path, 150, **options), sizes=TWENTY, mutations=20)
    assert found.transactions > 10


def test_goldengate_passes_at_twenty_sizes_of_splits_with_lines_lost_and_doubled(tmp_path: Path) -> None:
    paths = capture(
        "goldengate", tmp_path, 25, trail_files=2, capture_files="trail", transaction_size=4, all_types_share=0.2
    )
    chance = random.Random(5)
    for path in map(Path, paths):
        lines = path.read_bytes().splitlines(keepends=True)
        for at in sorted(chance.sample(range(len(lines)), 12), reverse=True):
            lines[at : at + 1] = [] if chance.random() < 0.5 else lines[at : at + 2]
        path.write_bytes(b"".join(lines))
    found = check_format("goldengate", paths, sizes=[8 * size for size in TWENTY], mutations=20)
    assert found.transactions > 5


@pytest.mark.full
@pytest.mark.parametrize("format", ["gbase8s", "goldengate"])
def test_two_thousand_damaged_captures(format: str, tmp_path: Path) -> None:
    found = check_format(format, capture(format, tmp_path, 40), sizes=(), mutations=2000)
    assert found.read > 1900


class _Losing(GBase8s):
    """Loses the last event."""

    def read(self, plan: Any, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        for batch in super().read(plan, split, wanted):
            yield batch.slice(0, len(batch) - 1)


class _Dividing(GBase8s):
    """Gives events that depend on the size of splits."""

    def read(self, plan: Any, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        for batch in super().read(plan, split, wanted):
            number = pa.repeat(str(len(plan.splits)), len(batch))
            yield batch.set_column(
                batch.schema.get_field_index("change_mask"), batch.schema.field("change_mask"), number
            )


class _Falling(GBase8s):
    """Ends in an error of Python's for damaged bytes."""

    def read(self, plan: Any, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        for batch in super().read(plan, split, wanted):
            if "malformed" in batch["kind"].to_pylist():
                raise ZeroDivisionError
            yield batch


@pytest.mark.parametrize(
    ("wrong", "error", "sentence"),
    [
        (_Losing, AssertionError, "the last event ends at"),
        (_Dividing, AssertionError, "row 0 of events differs"),
        (_Falling, ZeroDivisionError, None),
    ],
)
def test_what_is_wrong_is_found(
    wrong: type, error: type[Exception], sentence: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cdcwb.formats
    import cdcwb.testing

    for module in (cdcwb.testing, cdcwb.formats):
        monkeypatch.setattr(module, "get_format", lambda _name: wrong())
    with pytest.raises(error, match=sentence):
        check_format("gbase8s", capture("gbase8s", tmp_path, 10), sizes=(300,), mutations=40)
