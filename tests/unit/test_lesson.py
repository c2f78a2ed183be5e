"""What the notebook for beginners shows of a capture: chosen by rules that fit any capture, and true."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cdcwb.analysis import lesson as module
from cdcwb.analysis.lesson import FORMATS, NOT_CAPTURED, Lesson, captures_of, open_lesson
from cdcwb.errors import CaptureError
from cdcwb.model import Kind
from cdcwb_synth import generate

DATA = Path(__file__).parents[2] / "data"


def truth(made: Path, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(made / "truth" / f"{name}.parquet").to_pylist()
    return rows


@pytest.fixture(scope="module", params=FORMATS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A format and a capture of it that nobody looked at."""
    folder = tmp_path_factory.mktemp("made") / "made"
    return request.param, generate(request.param, changes=150, seed=77, to=folder, tables=4)


@pytest.fixture(scope="module")
def taught(made: tuple[str, Path]) -> Lesson:
    return open_lesson(made[1] / "capture", made[0], {})


def test_the_chosen_record_is_an_update_and_its_columns_are_those_that_changed(
    made: tuple[str, Path], taught: Lesson
) -> None:
    event = taught.chosen()
    assert event is not None
    assert event["operation"] == "UPDATE"
    of_change = {
        (part["file_index"], part["offset"]): row for row in truth(made[1], "changes") for part in row["source_events"]
    }
    real = of_change[event["file_index"], event["offset"]]
    changed = {row["column"] for row in taught.compared(event) if row["changed"]}
    expected = set(real["changed_columns"] or ())
    if made[0] == "goldengate":  # which does not say it: what is there beside the key
        expected = dict(real["after"]).keys() - dict(real["key"]).keys()
    assert changed == expected if made[0] != "idm-event-log" else changed <= expected
    assert changed
    after = {row["column"]: row["after"] for row in taught.compared(event)}
    for name, value in dict(real["after"] or ()).items():
        if after[name] != NOT_CAPTURED:
            assert after[name] == ("NULL" if value is None else value)


def test_the_story_is_all_of_one_committed_transaction_in_order(made: tuple[str, Path], taught: Lesson) -> None:
    story = taught.story()
    if made[0] == "idm-event-log":
        assert len({(e["table_name"], e["headers"]["table_key"], e["changed_at"]) for e in story}) == 1
        assert len(story) >= 3
        return
    (name,) = {event["transaction_id"] for event in story}
    (real,) = [row for row in truth(made[1], "transactions") if row["transaction_id"] == name]
    assert real["outcome"] == "committed"
    rows = [event for event in story if event["kind"] in (Kind.CHANGE, Kind.AFTER)]
    assert len(rows) == sum(number for _, number in real["changes"])
    assert [row["position"] for row in rows] == sorted(row["position"] for row in rows)
    assert len(taught.told(story)) == len(story)


def test_a_mask_is_drawn_where_there_is_one(made: tuple[str, Path], taught: Lesson) -> None:
    event = taught.chosen()
    assert event is not None
    mask = taught.mask(event)
    assert (mask is not None) == made[0].startswith("qlik")
    if mask is not None:
        assert tuple(bit.column for bit in mask.bits if bit.is_set) == tuple(event["changed_columns"])


def test_a_record_is_taken_apart_without_spark(taught: Lesson) -> None:
    event = taught.chosen()
    assert event is not None
    found = taught.inspect(event)
    assert found.offset == event["offset"]
    assert b"".join(leaf.raw for leaf in found.field.walk() if not leaf.children) == found.field.raw


def test_captures_are_the_folders_named_for_their_format(tmp_path: Path) -> None:
    for name in ("goldengate", "gbase8s", "else", "idm-event-log.snapshot"):
        (tmp_path / name).mkdir()
    assert list(captures_of(tmp_path)) == ["gbase8s", "goldengate"]
    assert captures_of(tmp_path / "nowhere") == {}


def test_a_large_capture_is_not_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 1_000)
    with pytest.raises(CaptureError, match="139 kB are too many"):
        open_lesson(DATA / "gbase8s", "gbase8s")


def test_what_is_no_capture_of_the_format_says_so(tmp_path: Path) -> None:
    (tmp_path / "noise.bin").write_bytes(bytes(range(256)) * 20)
    with pytest.raises(CaptureError):
        open_lesson(tmp_path, "gbase8s")
