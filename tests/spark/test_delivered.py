"""Changes, transactions and problems of streams of committed work and of event logs are the same, whether readers put
them together or Spark does of all events, wherever the borders of splits lie."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest

import cdcwb
import cdcwb_synth as synth
from cdcwb import Capture
from cdcwb.spark import committed
from cdcwb.tables import Live

DATA = Path(__file__).parents[2] / "data"
SMALL = {"qlik-kafka": 80_000, "debezium": 160_000, "qlik-change-table": 6_000, "idm-event-log": 8_000}
"""Splits so small that what belongs together lies in several, by format."""
TABLES = ("changes", "transactions", "problems")

Rows = dict[str, list[dict[str, Any]]]

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture(scope="module", params=SMALL)
def disorder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lines that are missing, that are there twice, in another order, and cut."""
    folder = tmp_path_factory.mktemp(request.param)
    synth.generate(request.param, changes=400, seed=11, to=folder)
    chance = random.Random(5)
    for file in sorted(path for path in (folder / "capture").rglob("*") if path.is_file()):
        lines = file.read_bytes().splitlines(keepends=True)
        if len(lines) < 10:
            continue
        lines = [line for line in lines for _ in range(chance.choice([0, 1, 1, 1, 1, 1, 1, 1, 1, 2]))]
        for number in chance.sample(range(len(lines) - 1), len(lines) // 10):
            lines[number], lines[number + 1] = lines[number + 1], lines[number]
        lines[3] = lines[3][:40] + b"\n"
        file.write_bytes(b"".join(lines))
        if request.param == "qlik-change-table" and chance.random() < 0.3:  # the same rows in another file, too
            (file.parent / f"9{file.name}").write_bytes(b"".join([lines[0], *lines[10:30]]))
    return folder / "capture"


def rows(capture: Capture, names: Sequence[str] = TABLES) -> Rows:
    """The rows of tables of a capture, in order."""
    found = {name: getattr(capture, name).toArrow().to_pylist() for name in names}
    keys = ("file", "offset", "transaction_id", "sentence")
    return {name: sorted(some, key=lambda row: repr([row.get(key) for key in keys])) for name, some in found.items()}


@cache
def by_spark(path: Path) -> Rows:
    """What Spark puts together of all events."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Live, "delivers_changes", False)
        patch.setattr(Live, "joins_rows", False)
        patch.setattr(Live, "reads_trail", False)
        return rows(cdcwb.load(path))


def test_a_capture_in_disorder(disorder: Path) -> None:
    expected = by_spark(disorder)
    assert {name for name, some in expected.items() if len(some) <= 5} <= {"transactions"}
    assert len(expected["transactions"]) > 5 or "idm" in str(disorder)
    small = next(size for format, size in SMALL.items() if format in str(disorder))
    assert rows(cdcwb.load(disorder, split_size=small)) == expected


@pytest.mark.parametrize("format", [*SMALL, "goldengate"])
def test_the_data_of_the_project(format: str) -> None:
    assert rows(cdcwb.load(DATA / format, split_size=30_000)) == by_spark(DATA / format)


@pytest.mark.parametrize(("tokens", "lobs", "undo"), [("last", False, 0), ("all", True, 0.3)])
def test_trails_of_halves_in_several_files(tokens: str, lobs: bool, undo: float, tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "updates": "pairs",
        "lobs": lobs,
        "undo": undo,
        "restarts": 2,
        "abends": 2,
        "trail_files": 3,
    }
    synth.generate("goldengate", changes=250, seed=8, to=tmp_path, tokens=tokens, capture_files="trail", **options)
    path = tmp_path / "capture"
    for file in sorted(path.iterdir()):  # some lines of each are missing
        lines = file.read_bytes().splitlines(keepends=True)
        file.write_bytes(b"".join(line for number, line in enumerate(lines) if number % 331 > 25))
    expected = by_spark(path)
    assert all(len(some) > 5 for some in expected.values())
    capture = cdcwb.load(path, split_size=20_000)
    tables = cast(Live, capture._tables)
    assert tables.reads_trail
    assert [bool(capture.facts[name]) for name in ("fragments", "undo_records")] == [lobs, undo > 0]
    assert rows(capture) == expected


@pytest.mark.parametrize("broadcast", [0, 1 << 30])
@pytest.mark.parametrize("disorder", ["qlik-kafka", "debezium"], indirect=True)
def test_ends_of_many_transactions_are_joined_as_those_of_few(
    disorder: Path, broadcast: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = cdcwb.load(disorder, split_size=50_000)
    assert cast(Live, few._tables)._ends is not None
    monkeypatch.setattr(committed, "_ENDS_AT_MOST", 0)
    monkeypatch.setattr(cdcwb.tables, "BROADCAST_AT_MOST", broadcast)
    many = cdcwb.load(disorder, split_size=50_000)
    assert cast(Live, many._tables)._ends is None
    expected = by_spark(disorder)["changes"]
    assert [rows(one, ["changes"])["changes"] for one in (few, many)] == [expected, expected]
