"""Damage for mutation tests: seeded, of every kind, bounded."""

from __future__ import annotations

from random import Random

import pytest

from cdcwb_synth.mutate import KINDS, mutate

DATA = bytes.fromhex("000000280000000000000042000000010000000b01746018000000270000000067dfe90f000007d5") * 5


def test_the_same_seed_does_the_same_damage() -> None:
    assert mutate(DATA, Random(3)) == mutate(DATA, Random(3))
    assert len({mutate(DATA, Random(seed)) for seed in range(100)}) > 90


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("data", [b"", b"x", DATA[:3], DATA[:15], DATA])
def test_every_kind_works_on_any_bytes(kind: str, data: bytes) -> None:
    for seed in range(200):
        assert len(KINDS[kind](data, Random(seed))) <= len(data) + 3 * 4096


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_does_damage(kind: str) -> None:
    assert sum(KINDS[kind](DATA, Random(seed)) != DATA for seed in range(100)) > 60


def test_length_fields_become_extreme() -> None:
    results = [KINDS["length"](DATA, Random(seed)) for seed in range(300)]
    for field in (0, 4):
        assert any(result[at + field : at + field + 4] == b"\xff" * 4 for result in results for at in range(0, 200, 40))
    assert {len(result) for result in results} == {len(DATA)}
