"""At any split size a capture has the same rows in every table, whatever is wrong with it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import cdcwb_synth as synth
from tests import wire
from tests.answers.tables import tables

DATA = Path(__file__).resolve().parents[2] / "data"
SIZES = {
    "gbase8s": 2_000,
    "qlik-kafka": 20_000,
    "qlik-change-table": 3_000,
    "goldengate": 20_000,
    "debezium": 30_000,
    "idm-event-log": 2_000,
}
"""Splits so small that what belongs together is in several, by format."""
MADE: dict[str, dict[str, Any]] = {
    "gbase8s": {"files": 3, "undo_share": 0.3, "missing_begins": 1, "open_transactions": 2, "rollback_share": 0.2},
    "goldengate": {"updates": "pairs", "undo": 0.3, "abends": 2, "restarts": 2, "trail_files": 3, "lobs": True},
}
TABLES = ("events", "changes", "transactions", "problems")


def disorder(path: Path, seed: int) -> None:
    """Some lines of each file, or pieces of 400 bytes, are missing or there twice, and one is cut."""
    chance = random.Random(seed)
    for file in sorted(one for one in path.rglob("*") if one.is_file() and one.suffix != ".json"):
        data = file.read_bytes()
        is_text = file.suffix != ".bin"
        parts = data.splitlines(keepends=True) if is_text else [data[at : at + 400] for at in range(0, len(data), 400)]
        if len(parts) < 20:
            continue
        kept = [part for part in parts[5:] for _ in range(chance.choice([0, 2, *[1] * 18]))]
        kept[9] = kept[9][:40] + b"\n" * is_text
        file.write_bytes(b"".join(parts[:5] + kept))


def ordered(found: dict[str, list[dict[str, Any]]]) -> dict[str, list[str]]:
    return {
        name: sorted(json.dumps(row, default=str, sort_keys=True) for row in rows if name in TABLES)
        for name, rows in found.items()
    }


@pytest.mark.parametrize("format", SIZES)
def test_the_data_of_the_project(format: str) -> None:
    small = tables(DATA / format, "-o", f"split_size={SIZES[format]}")
    assert ordered(small) == ordered(tables(DATA / format))


def in_disorder(format: str, folder: Path) -> Path:
    synth.generate(format, changes=200, seed=7, to=folder, **MADE.get(format, {}))
    disorder(folder / "capture", seed=3)
    return folder / "capture"


@pytest.mark.parametrize("format", SIZES)
def test_a_capture_in_disorder(format: str, tmp_path: Path) -> None:
    path = in_disorder(format, tmp_path)
    expected = ordered(tables(path))
    assert len(expected["changes"]) > 50
    assert len(expected["problems"]) > 2
    for size in (SIZES[format], 7 * SIZES[format]):
        assert ordered(tables(path, "-o", f"split_size={size}")) == expected, size


def test_a_trail_that_lost_record_lines(tmp_path: Path) -> None:
    synth.generate("goldengate", changes=300, seed=11, to=tmp_path, **MADE["goldengate"])
    disorder(tmp_path / "capture", seed=5)
    small = tables(tmp_path / "capture", "-o", "split_size=20000")
    assert ordered(small)["problems"] == ordered(tables(tmp_path / "capture"))["problems"]


@pytest.mark.parametrize("named", ["131=shop.goods,132=shop.goods", "131=132"])
def test_two_labels_of_one_table(named: str, tmp_path: Path) -> None:
    """Two sessions may give a table different labels."""
    halves = [(42, 132), (43, 132), (42, 131), (43, 131)]
    rows = [wire.insert(5, 0x20 * at, at, "elm", label, number) for at, (number, label) in enumerate(halves, 2)]
    path = tmp_path / "a.bin"
    path.write_bytes(b"".join([wire.goods(131), wire.goods(132), wire.begin(5, 0x10), *rows, wire.commit(5, 0xF0)]))
    names = ("-o", f"labels={named}")
    expected = ordered(tables(path, *names))
    assert len(expected["changes"]) == 2
    assert ordered(tables(path, *names, "-o", "split_size=64")) == expected


def test_a_transaction_that_is_delivered_again(tmp_path: Path) -> None:
    """The first delivery has no end; a rollback to a savepoint of the second one is not about it."""
    first = [wire.goods(), wire.begin(5, 0x10), wire.insert(5, 0x20, 1, "elm", number=42)]
    again = [*first, wire.insert(5, 0x30, 2, "elm", number=43), wire.discard(5, 0x20), wire.commit(5, 0x40)]
    path = tmp_path / "a.bin"
    path.write_bytes(b"".join([*first, *again]))
    whole = tables(path)
    assert [row["outcome"] for row in whole["changes"]] == ["open", "undone"]
    assert ordered(tables(path, "-o", "split_size=64")) == ordered(whole)
