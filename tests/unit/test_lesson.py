"""What the notebook for beginners shows of a capture: chosen by rules that fit any capture, and true."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cdcwb.analysis import lesson as module
from cdcwb.analysis.lesson import (
    FORMATS,
    NOT_CAPTURED,
    Lesson,
    captures_of,
    delivery,
    open_lesson,
    positions,
    row_to_target,
)
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
    assert len(taught.change_rows(story)) == len(story)


def test_a_row_is_followed_from_insert_to_delete_and_a_target_that_applies_it_has_what_the_truth_has(
    made: tuple[str, Path], taught: Lesson
) -> None:
    lines = row_to_target(taught)
    if made[0] in ("gbase8s", "idm-event-log"):  # no keys; a row of the log has one column
        assert lines == []
        return
    history = taught.history()
    assert 3 <= len(lines) == len(history) <= 5
    assert lines[0]["source_sentence"].startswith("INSERT INTO ")
    states = taught.applied(history)
    if made[0] != "goldengate":  # which has before images as an option
        for event, state in zip(history[1:], states, strict=False):
            before = event["before"] or {}
            assert before.items() <= (state or {}).items()
    if history[-1]["operation"] == "DELETE":
        assert states[-1] is None
        assert lines[-1]["target_sentence"] == "no row"


def test_what_is_delivered_is_counted_as_the_truth_has_it(made: tuple[str, Path], taught: Lesson) -> None:
    found = delivery(taught)
    operations = [row["operation"] for row in truth(made[1], "changes")]
    assert found["snapshot"] == operations.count("REFRESH")
    if made[0] != "idm-event-log":  # where a change is several rows
        assert found["changes"] - found["again"] == len(operations) - operations.count("REFRESH")


def test_every_kind_of_position_has_an_example_in_the_small_captures() -> None:
    rows = positions({name: open_lesson(path, name) for name, path in captures_of(DATA).items()})
    assert [row["name"] for row in rows if row["value"] is None] == []
    lsn = next(row for row in rows if row["name"].startswith("LSN"))
    assert lsn["value"] == "0000000B03FE0050 (log 11, byte 0x3FE0050)"
    assert positions({})[0]["value"] is None


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
