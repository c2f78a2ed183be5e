"""What ``detected`` shows of large files that cannot be split."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

import cdcwb_synth as synth
from cdcwb import opening
from cdcwb.formats import FORMATS
from cdcwb.formats.dissector import run_here
from cdcwb.formats.files import list_files
from cdcwb.local_tables import ReadingPlan
from tests.made import generate

ONE_FILE: dict[str, dict[str, Any]] = {
    "qlik-kafka": {"layout": "stream"},
    "qlik-change-table": {"file_rows": 100_000, "dfm": False},
}


def about_splits(path: Path) -> list[tuple[str, str]]:
    """Value and evidence of the rows about splits."""
    reading = opening.check_capture(str(path), options={"split_size": 60_000}).reading
    assert reading is not None
    rows = ReadingPlan(*opening._planned(reading, run_here)).detected_rows
    return [(row["value"], row["evidence"]) for row in rows if row["setting"] == "splits"]


@pytest.mark.parametrize("format", FORMATS)
def test_a_file_that_cannot_be_split_is_named(format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_LARGE", 80_000)
    options = ONE_FILE.get(format, {})
    made = generate(format, changes=1_500, seed=1, to=tmp_path / "made", **options) / "capture"
    assert about_splits(made) == []
    packed = tmp_path / "packed"
    for path in map(Path, list_files(str(made))):
        target = packed / f"{path.relative_to(made)}.gz"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(gzip.compress(path.read_bytes()))
    [(value, evidence)] = about_splits(packed)
    named = [one for one in list_files(str(packed)) if f" of {one} (gzip)" in evidence]
    assert named
    assert int(value) == len(list_files(str(packed)))
    monkeypatch.setattr(opening, "_LARGE", 64 << 20)
    assert about_splits(packed) == []


def test_digits_of_a_dump_are_one_task_and_many_files_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "_LARGE", 20_000)
    made = synth.generate("gbase8s", changes=800, seed=1, to=tmp_path / "made", shape="hex", files=4) / "capture"
    first, second, *more = sorted(list_files(str(made)))
    [(value, evidence)] = about_splits(made)
    sentences = evidence.split("; ")
    assert [one.partition(" of /")[2] for one in sentences[:2]] == [f"{one[1:]} (hex)" for one in (first, second)]
    assert (value, sentences[2:]) == ("4", [f"and so for {len(more)} more files"])
