"""``Capture.state`` and ``Capture.history`` of generated captures of every format, against a plain reading of the
truth."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import cdcwb
import cdcwb_synth as synth
from cdcwb.analysis.keys import FACTS, KnownTable, known_tables
from cdcwb.analysis.replay import TableReplay
from cdcwb.cli import main
from cdcwb.errors import OptionError
from tests.replayed import by_hand, changes_of
from tests.saved_capture import open_saved

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdcwb.capture import Capture

STORY = {"tables": 3, "all_types": False, "rate": 5.0, "transaction_size": 3.0}
MADE: dict[str, dict[str, Any]] = {
    "gbase8s": {"rollback_share": 0.1, "undo_share": 0.3, "reversed_updates": 0.2, "truncates": 1},
    "qlik-kafka": {"schema_changes": 3, "refresh_rows": 6, "truncates": 0, "column_mask": 0.3},
    "qlik-change-table": {"schema_changes": 3, "refresh_rows": 6, "truncates": 1},
    "goldengate": {"schema_changes": 2, "truncates": 1},
    "idm-event-log": {"truncates": 0},
}
KEYS = {"101": ("customer_id",), "102": ("order_id",), "103": ("line_id",)}


@dataclass(frozen=True)
class Made:
    """A generated capture, its folder, and what is known of its tables."""

    folder: Path
    capture: Capture
    known: dict[str, KnownTable]

    def key(self, table: str) -> tuple[str, ...]:
        return KEYS.get(table, ())


@pytest.fixture(scope="module", params=list(MADE))
def made(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("row") / "made"
    synth.generate(request.param, changes=450, seed=77, to=folder, **STORY, **MADE[request.param])
    options = {"keys": [f"{table}:{names[0]}" for table, names in KEYS.items()]} if request.param == "gbase8s" else {}
    capture = open_saved(folder / "capture", folder / "saved", **options)
    return Made(folder, capture, known_tables(capture.rows("changes", FACTS)))


def replayed(made: Made, table: str, **until: Any) -> dict[Any, Any]:
    rows = TableReplay(made.capture, made.known[table], **until).rows().table().to_pylist()
    return {tuple(sorted(row["key"])): dict(row["row"]) for row in rows}


def busy(made: Made, most: int) -> list[str]:
    known = made.known.values()
    return [one.table for one in sorted(known, key=lambda one: -one.keyed) if one.keyed][:most]


def test_tables_stand_as_in_the_truth_at_several_positions_and_times(made: Made) -> None:
    counted = [row for row in changes_of(made.folder) if row["outcome"] in (None, "committed") and row["position"]]
    positions = sorted({row["commit_position"] or row["position"] for row in counted})
    times = sorted(time for row in counted if (time := row["committed_at"] or row["changed_at"]) is not None)
    tables = busy(made, 2)
    assert len(tables) == 2
    ends: list[dict[str, Any]] = [{}, {"position": positions[len(positions) // 3]}, {"time": times[len(times) // 2]}]
    ends.append({"position": positions[len(positions) * 3 // 4], "time": times[len(times) * 2 // 3]})
    for table in tables:
        found = [replayed(made, table, **until) for until in ends]
        wanted = [by_hand(made.folder, table, **until, key=made.key(table)) for until in ends]
        assert found == wanted
        assert len({len(rows) for rows in wanted}) > 1


def test_the_number_of_rows_over_time_ends_at_the_number_of_rows(made: Made) -> None:
    for table in busy(made, 2):
        known = made.known[table]
        assert known.first is not None
        steps = TableReplay(made.capture, known).growth(known.first, 1_000_000)
        assert steps[-1][1] == len(by_hand(made.folder, table, key=made.key(table)))
        ends = [end for end, _ in steps if end is not None]
        assert ends == sorted(ends)
        middle = ends[len(ends) // 2]
        before = [rows for end, rows in steps if end is None or end <= middle]
        microsecond = (middle - known.first).resolution
        assert before[-1] == len(by_hand(made.folder, table, time=middle - microsecond, key=made.key(table)))


def touching(made: Made, table: str, key: tuple[tuple[str, str | None], ...]) -> list[dict[str, Any]]:
    """The true changes of a row, in the order of the log."""
    found = []
    for row in changes_of(made.folder):
        label = ".".join(part for part in (row["schema_name"], row["table_name"]) if part)
        images = [dict(row[name] or ()) for name in ("key", "before", "after")]
        if label == table and any(all(image.get(name) == value for name, value in key) for image in images):
            found.append(row)
    return sorted(found, key=lambda row: (row["position"] or "", row["file_index"], row["offset"]))


def busiest(made: Made, table: str) -> tuple[tuple[str, str | None], ...]:
    """The key with the most changes, of those that no update gives or takes and that lie on one side of a TRUNCATE."""
    names, counted, moved = made.known[table].keys[0], Counter[Any](), set[Any]()
    for row in changes_of(made.folder):
        label = ".".join(part for part in (row["schema_name"], row["table_name"]) if part)
        if label != table or row["operation"] == "TRUNCATE":
            continue
        image = dict(row["key"] or ()) or dict(row["after"] or row["before"])
        if not set(names) <= set(image):
            continue
        key = tuple((name, image[name]) for name in names)
        counted[key] += 1
        before = dict(row["before"] or ())
        former = tuple((name, before.get(name, image[name])) for name in names)
        if former != key:
            moved |= {former, key}
    return next(key for key, _ in counted.most_common() if key not in moved)


def test_the_life_of_a_row_is_that_of_the_truth(made: Made) -> None:
    table = busy(made, 1)[0]
    key = busiest(made, table)
    wanted = touching(made, table, key)
    rows = made.capture.history(table, dict(key)).collect()
    found = [row for row in rows if row["operation"] != "TRUNCATE"]
    names = ("operation", "position", "transaction_id", "outcome", "file_index", "offset")
    assert [tuple(row[name] for name in names) for row in found] == [
        tuple(row[name] for name in names) for row in wanted
    ]
    assert len(found) > 2
    for row, true in zip(found, wanted, strict=True):
        told = {one["column"]: (one["old"], one["new"]) for one in row["differences"]}
        before, after = dict(true["before"] or ()), dict(true["after"] or ())
        if true["operation"] == "UPDATE":
            assert {name for name, (old, new) in told.items() if old != new} >= {
                name for name in after if name in before and before[name] != after[name]
            }
        assert all(new == after.get(name) for name, (_, new) in told.items())


def test_the_command_tells_the_same(made: Made, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    table = busy(made, 1)[0]
    key = busiest(made, table)
    wanted = touching(made, table, key)
    arguments = ["history", str(made.folder / "capture"), "--table", table, "--json"]
    for name, value in key:
        arguments += ["--key", f"{name}={value}"]
    target = tmp_path / "life.jsonl"
    assert main([*arguments, "--to", str(target)]) == 0
    capsys.readouterr()
    found = [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in found if row["operation"] != "TRUNCATE"]
    assert [(row["operation"], row["position"]) for row in rows] == [
        (row["operation"], row["position"]) for row in wanted
    ]
    events = [
        [(one["file_index"], one["offset"], one["length"]) for one in row["source_events"]]
        for row in wanted
        if row["source_events"]
    ]
    if events:
        files = {one["file"]: one["file_index"] for one in made.capture.files}
        places = [[(files[p["file"]], p["offset"], p["length"]) for p in row["places"]] for row in rows]
        assert places == events


def test_a_filter_holds_for_rows_and_their_life(made: Made) -> None:
    table = busy(made, 1)[0]
    times = [time for row in changes_of(made.folder) if (time := row["committed_at"] or row["changed_at"]) is not None]
    part = made.capture.filter(time_to=sorted(times)[len(times) // 2])
    key = dict(busiest(made, table))
    assert part.history(table, key).count() <= made.capture.history(table, key).count()
    with pytest.raises(OptionError, match=f"there is no table '{table}-not'"):
        made.capture.filter(tables=[f"{table}-not"]).state(table)


def test_a_capture_without_images_says_so(spark: SparkSession, tmp_path: Path) -> None:
    folder = synth.generate("gbase8s", changes=20, seed=1, to=tmp_path / "made", all_types=False)
    capture = cdcwb.load(folder / "capture", spark=spark, images=False)
    with pytest.raises(OptionError, match="images=False"):
        capture.state("101")
    with pytest.raises(OptionError, match="images=False"):
        capture.history("101", {"customer_id": "1"})
