"""The axis of log positions: exact, in log order, and honest about its unit."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcwb.charts.spans import PositionScale

WORDS = st.lists(st.integers(0, 2**64 - 1).map(lambda n: f"{n:016X}"), min_size=1, max_size=30)


def test_distances_within_a_log_are_bytes_even_beyond_2_to_the_53() -> None:
    low, high = "FFFFFFFF00000000", "FFFFFFFF00000001"
    assert float(int(low, 16)) == float(int(high, 16))  # what a browser would make of them
    scale = PositionScale([low, high])
    assert (scale.at(low), scale.at(high)) == (0, 1)
    assert scale.unit == "bytes of log"


def test_the_next_log_stands_beside_the_one_before_instead_of_4_gib_away() -> None:
    scale = PositionScale(["0000000B00001000", "0000000B00002000", "0000000C00000018", "0000000C00001018"])
    assert scale.at("0000000B00002000") == 4096
    gap = scale.at("0000000C00000018") - 4096
    assert 0 < gap < 4096
    assert scale.at("0000000C00001018") == 4096 + gap + 4096
    assert scale.breaks == [4096 + gap / 2]


@pytest.mark.parametrize("positions", [["3", "10", "2"], ["0000000B00001000", "z"], ["0000000b00001000"]])
def test_positions_of_another_shape_stand_in_text_order(positions: list[str]) -> None:
    scale = PositionScale(positions)
    assert [scale.at(p) for p in sorted(positions)] == list(range(len(positions)))
    assert scale.unit == "order in the log"
    assert scale.breaks == []


def test_trail_files_stand_beside_each_other_in_bytes() -> None:
    positions = ["00000000070000001063", "00000000070000002063", "00000000080000000000", "00000000080000000500"]
    scale = PositionScale(positions)
    assert [scale.at(p) for p in positions[:2]] == [0, 1000]
    assert scale.at(positions[3]) - scale.at(positions[2]) == 500
    assert (scale.unit, scale.in_bytes, len(scale.breaks)) == ("bytes of trail", True, 1)
    assert scale.short(positions[1]) == ("trail 7", "2,063")


def sequence(number: int, time: str = "2026020308000122") -> str:
    return f"{time}{number:019}"


def test_ticks_show_the_time_of_a_sequence_and_the_end_of_its_number() -> None:
    one_day = PositionScale([sequence(17), sequence(12_345)])
    assert one_day.short(sequence(17)) == ("08:00:01.22", "…0017")
    assert one_day.short(sequence(12_345)) == ("08:00:01.22", "…2345")
    two_days = PositionScale([sequence(17), sequence(18, "2026020400000000")])
    assert two_days.days == "2026-02-03 to 2026-02-04"
    assert two_days.short(sequence(17)) == ("02-03 08:00:01.22", "…0017")
    assert PositionScale(["0000000B00001000"]).short("0000000B00001000") == ("0000000B00001000",)


@given(st.lists(st.integers(0, 10**19 - 1).map(sequence), min_size=1, max_size=30))
def test_an_axis_of_sequences_keeps_their_order_too(positions: list[str]) -> None:
    scale = PositionScale(positions)
    places = [scale.at(p) for p in sorted(set(positions))]
    assert all(a < b for a, b in pairwise(places))
    assert places[0] == 0
    assert places[-1] == scale.span < 2**53


@given(WORDS)
def test_the_axis_keeps_log_order_and_never_leaves_exact_numbers(positions: list[str]) -> None:
    scale = PositionScale(positions)
    places = [scale.at(p) for p in sorted(set(positions))]
    assert all(a < b for a, b in pairwise(places))
    assert places[0] == 0
    assert places[-1] == scale.span < 2**53


@given(WORDS)
def test_ticks_are_true_positions_at_their_own_place(positions: list[str]) -> None:
    scale = PositionScale(positions)
    places, texts = scale.ticks()
    assert 1 <= len(places) <= 5
    assert places == [scale.at(text) for text in texts] == sorted(set(places))


def test_without_positions_there_is_an_empty_axis() -> None:
    scale = PositionScale([None, None])
    assert (scale.span, scale.ticks()) == (0, ([], []))
