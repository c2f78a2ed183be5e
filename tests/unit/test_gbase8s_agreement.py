"""The fast reader and the readable dissection say the same of every record, clean or damaged, and the ledger always
closes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from cdcwb import synth
from cdcwb.formats.base import Wanted
from cdcwb.formats.gbase8s.dissect import event
from cdcwb.formats.gbase8s.versions import Versions
from cdcwb.synth.mutate import mutate
from tests.local import ledger, plan_of, read

SAYS = (
    "record_type",
    "kind",
    "operation",
    "position",
    "commit_position",
    "changed_at",
    "before",
    "after",
    "headers",
    "problems",
)


def _as_dict(value: Any) -> Any:
    return dict(value) if isinstance(value, list) and value and isinstance(value[0], tuple) else value


def check(path: Path, **options: Any) -> tuple[int, int]:
    """Compares every event of a capture with the reference; returns the numbers of events and of malformed ones."""
    table = read(path, **options)
    plan = plan_of(path, **options)
    closed = ledger(table)
    for entry in plan.files:
        assert closed.get(entry.path, 0) == entry.size
    versions = Versions(plan, {})
    malformed = 0
    for row in table.to_pylist():
        if row["record_type"] is None:
            malformed += row["kind"] == "malformed"
            assert row["kind"] in ("malformed", "filler", "fragment")
            assert row["problems"] or row["headers"], "every gap has a reason"
            continue
        version = row["table_version"]
        schema = versions.schema(*map(int, version.split("@"))) if version else None
        expected = event(row["raw"], schema, plan.settings)
        for name in SAYS:
            found = dict(row[name]) if name in ("before", "after", "headers") and row[name] is not None else row[name]
            assert found == expected[name], (name, row["file"], row["offset"])
    return table.num_rows, malformed


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All record types and column types, a few thousand events."""
    to = tmp_path_factory.mktemp("everything")
    return synth.generate("gbase8s", changes=1500, seed=11, to=to, errors=3, schema_changes=2, reversed_updates=0.05)


def test_reader_and_dissection_agree_on_every_record_and_column_type(everything: Path) -> None:
    events, malformed = check(everything / "capture")
    assert events > 2000
    assert malformed == 0


@pytest.mark.parametrize("charset", ["gb18030", "gbk", "iso-8859-1"])
@pytest.mark.parametrize(("byte_order", "prefix_width"), [("little", 1), ("big", 2)])
def test_they_agree_in_other_character_sets_byte_orders_and_prefixes(
    tmp_path: Path, charset: str, byte_order: str, prefix_width: int
) -> None:
    synth.generate(
        "gbase8s", changes=400, seed=5, to=tmp_path, charset=charset, byte_order=byte_order, prefix_width=prefix_width
    )
    assert check(tmp_path / "capture", charset=charset)[1] == 0
    detected = {row["setting"]: row["value"] for row in plan_of(tmp_path / "capture", charset=charset).detected}
    assert detected["byte_order"] == byte_order
    assert detected["prefix_width"] == str(prefix_width)


def test_they_agree_where_the_character_set_is_the_wrong_one(tmp_path: Path) -> None:
    synth.generate("gbase8s", changes=300, seed=6, to=tmp_path, charset="gb18030")
    check(tmp_path / "capture")
    check(tmp_path / "capture", charset="ascii")


def test_headers_only_are_the_same_events_without_images(everything: Path) -> None:
    whole = read(everything / "capture")
    bare = read(everything / "capture", Wanted(images=False))
    same = [name for name in whole.column_names if name not in ("before", "after", "raw", "problems")]
    assert bare.select(same).equals(whole.select(same))
    for name in ("before", "after", "raw"):
        assert bare.column(name).null_count == bare.num_rows


@pytest.mark.parametrize("split_size", [64, 1000, 65_536])
def test_splits_change_nothing(everything: Path, split_size: int) -> None:
    assert read(everything / "capture", split_size=split_size).equals(read(everything / "capture"))


def _mutants(data: bytes, seed: int, count: int, folder: Path) -> None:
    rng = random.Random(seed)
    for number in range(count):
        start = rng.randrange(max(1, len(data) - 6000))
        piece = data[: rng.randrange(400, 4000)] if rng.random() < 0.6 else data[:900] + data[start : start + 3000]
        file = folder / "mutant.bin"
        file.write_bytes(mutate(piece, rng))
        options = {"split_size": rng.choice((64, 500, 1 << 20)), "reads": rng.choice(("auto", "none"))}
        try:
            check(file, **options)
        except Exception as reason:
            raise AssertionError(f"mutant {number} of seed {seed} with {options}") from reason


def test_they_agree_on_damaged_captures_and_nothing_is_lost(everything: Path, tmp_path: Path) -> None:
    data = next((everything / "capture").iterdir()).read_bytes()
    _mutants(data, 1, 400, tmp_path)


@pytest.mark.full
def test_ten_thousand_damaged_captures(everything: Path, tmp_path: Path) -> None:
    data = next((everything / "capture").iterdir()).read_bytes()
    for seed in range(20):
        _mutants(data, 100 + seed, 500, tmp_path)


def test_records_before_and_behind_damage_are_still_read(tmp_path: Path) -> None:
    synth.generate("gbase8s", changes=200, seed=3, to=tmp_path)
    file = next((tmp_path / "capture").iterdir())
    clean = read(file)
    data = bytearray(file.read_bytes())
    victim = clean.column("offset").to_pylist()[150]
    data[victim + 4 : victim + 8] = b"\xff\xff\xff\xff"
    file.write_bytes(data)
    damaged = read(file)
    positions = clean.column("position").to_pylist()
    assert damaged.column("position").to_pylist() == [*positions[:150], None, *positions[151:]]
    assert damaged.column("kind").to_pylist()[150] == "malformed"
    ledger(damaged)
