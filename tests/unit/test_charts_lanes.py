"""Lanes: bars of one lane never overlap, and there are no more lanes than needed."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cdcwb.charts.spans import assign_lanes

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30)).map(lambda s: (s[0], s[0] + s[1])), max_size=60)


def test_spans_that_follow_each_other_share_a_lane() -> None:
    assert assign_lanes([(0, 10), (10, 20), (20, 21)]) == [0, 0, 0]


def test_the_lowest_free_lane_is_taken_and_the_longer_span_goes_first() -> None:
    assert assign_lanes([(0, 2), (0, 10), (3, 5), (4, 6)]) == [1, 0, 1, 2]


def test_no_spans_need_no_lane() -> None:
    assert assign_lanes([]) == []


@given(SPANS)
def test_spans_of_a_lane_never_overlap(spans: list[tuple[int, int]]) -> None:
    lanes = assign_lanes(spans)
    for lane in set(lanes):
        these = sorted(span for span, mine in zip(spans, lanes, strict=True) if mine == lane)
        assert all(before[1] <= after[0] for before, after in pairwise(these))


@given(SPANS)
def test_there_are_as_many_lanes_as_spans_over_the_busiest_point(spans: list[tuple[int, int]]) -> None:
    busiest = max((sum(start <= at < end for start, end in spans) for at, _ in spans), default=0)
    assert len(set(assign_lanes(spans))) == busiest
