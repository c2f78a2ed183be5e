"""Which transaction a record belongs to, however transactions interleave and wherever a stream is cut."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcwb.formats.gbase8s.transactions import Found, Open, assign

BEGIN, COMMIT, ROLLBACK, INSERT, DISCARD = 1, 2, 3, 40, 62

Record = tuple[int, int, int]
"""Record number, transaction id, sequence number."""


def columns(records: Sequence[Record]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    types, numbers, positions = zip(*records, strict=True) if records else ((), (), ())
    return np.array(types, np.int64), np.array(numbers, np.int64), np.array(positions, np.uint64)


def names(records: Sequence[Record], open_before: dict[int, str] | None = None) -> list[str]:
    """The transaction of every record."""
    types, numbers, positions = columns(records)
    found = Found.among(types, numbers)
    by_index = assign(found, positions, {} if open_before is None else open_before)
    return [by_index[at] for at in found.index]


def scanned(*windows: Sequence[Record], start: int = 0) -> Open:
    """What windows of records show, the first at offset ``start``, each record one byte long."""
    found = Open()
    for records in windows:
        at = np.arange(start, start + len(records))
        found.add(*columns(records), at, at + 1)
        start += len(records)
    return found


def test_a_transaction_is_named_by_its_id_and_the_position_of_its_begin() -> None:
    assert (
        names([(BEGIN, 39, 0xB01746018), (INSERT, 39, 0xB01746050), (COMMIT, 39, 0xB017460A0)])
        == ["39@0000000B01746018"] * 3
    )


def test_transactions_interleave() -> None:
    records = [(BEGIN, 1, 16), (BEGIN, 2, 17), (INSERT, 1, 18), (INSERT, 2, 19), (COMMIT, 2, 20), (INSERT, 1, 21)]
    one, two = f"1@{16:016X}", f"2@{17:016X}"
    assert names(records) == [one, two, one, two, two, one]


@pytest.mark.parametrize("end", [COMMIT, ROLLBACK])
def test_an_id_that_is_used_again_is_another_transaction(end: int) -> None:
    records = [(BEGIN, 1, 16), (end, 1, 17), (BEGIN, 1, 18), (end, 1, 19)]
    assert names(records) == [f"1@{16:016X}"] * 2 + [f"1@{18:016X}"] * 2


def test_without_a_begin_the_position_of_the_first_record_stands_in() -> None:
    assert names([(INSERT, 1, 16), (INSERT, 1, 17), (COMMIT, 1, 18)]) == [f"1@~{16:016X}"] * 3
    assert names([(COMMIT, 1, 18)]) == [f"1@~{18:016X}"]


def test_a_begin_that_follows_no_end_begins_another_transaction() -> None:
    records = [(BEGIN, 1, 16), (INSERT, 1, 17), (BEGIN, 1, 18), (INSERT, 1, 19)]
    assert names(records) == [f"1@{16:016X}"] * 2 + [f"1@{18:016X}"] * 2


def test_what_follows_an_end_without_a_begin_is_another_transaction() -> None:
    records = [(BEGIN, 1, 16), (COMMIT, 1, 17), (INSERT, 1, 18), (COMMIT, 1, 19)]
    assert names(records) == [f"1@{16:016X}"] * 2 + [f"1@~{18:016X}"] * 2


def test_ids_and_positions_may_be_as_large_as_they_can() -> None:
    records = [(BEGIN, -(2**31), 2**64 - 1), (COMMIT, 2**31 - 1, 2**63)]
    assert names(records) == ["-2147483648@FFFFFFFFFFFFFFFF", "2147483647@~8000000000000000"]


def test_an_undo_belongs_to_its_transaction_though_its_position_is_lower() -> None:
    records = [(BEGIN, 1, 16), (INSERT, 1, 40), (DISCARD, 1, 30), (INSERT, 1, 50), (COMMIT, 1, 60)]
    assert names(records) == [f"1@{16:016X}"] * 5


def test_what_is_open_is_handed_on_and_closed_where_it_ends() -> None:
    now: dict[int, str] = {}
    names([(BEGIN, 1, 16), (BEGIN, 2, 17), (INSERT, 3, 18)], now)
    assert now == {1: f"1@{16:016X}", 2: f"2@{17:016X}", 3: f"3@~{18:016X}"}
    assert names([(INSERT, 2, 19), (COMMIT, 1, 20), (ROLLBACK, 3, 21)], now) == [
        f"2@{17:016X}",
        f"1@{16:016X}",
        f"3@~{18:016X}",
    ]
    assert now == {2: f"2@{17:016X}"}


def test_no_records_change_nothing() -> None:
    now = {1: "1@0000000000000010"}
    assert names([], now) == []
    assert now == {1: "1@0000000000000010"}
    assert scanned([]).after(now) == now


# a few ids, so that they are used again, and every kind of record in any order, begins and ends missing included
STREAMS = st.lists(
    st.tuples(st.sampled_from((BEGIN, COMMIT, ROLLBACK, INSERT, INSERT, DISCARD)), st.integers(1, 4)), max_size=40
).map(lambda pairs: [(kind, number, 16 + at) for at, (kind, number) in enumerate(pairs)])


@given(STREAMS, st.lists(st.integers(0, 40), max_size=5))
def test_a_stream_gives_the_same_transactions_however_it_is_cut(records: list[Record], cuts: list[int]) -> None:
    whole_open: dict[int, str] = {}
    whole = names(records, whole_open)
    edges = [0, *sorted(min(cut, len(records)) for cut in cuts), len(records)]
    # each piece is read with what the ones before it leave open, found without knowing what was open before them
    found: list[str] = []
    now: dict[int, str] = {}
    for first, last in pairwise(edges):
        middle = (first + last) // 2
        piece = scanned(records[first:middle], records[middle:last])
        after = dict(now)
        found += names(records[first:last], after)
        now = piece.after(now)
        assert now == after
    assert found == whole
    assert now == whole_open


@given(
    STREAMS.flatmap(lambda records: st.tuples(st.just(records), st.permutations(records))),
    st.booleans(),
    st.lists(st.integers(0, 40), min_size=1, max_size=5),
)
def test_no_record_of_what_crosses_a_border_is_inside(
    streams: tuple[list[Record], list[Record]], repeats: bool, cuts: list[int]
) -> None:
    records = streams[0] + streams[1] if repeats else streams[0]  # a client that starts again gets records once more
    edges = [0, *sorted(min(cut, len(records)) for cut in cuts), len(records)]
    now: dict[int, str] = {}
    highest = -1
    for first, last in pairwise(edges):
        middle = (first + last) // 2
        piece = scanned(records[first:middle], records[middle:last], start=first)
        after = dict(now)
        of_records = names(records[first:last], after)
        inner = piece.inner(first, last, highest)
        if inner is not None:
            head, tail = (at - first for at in inner)
            crossing = {*now.values(), *after.values()}
            assert not crossing.intersection(of_records[head:tail])
            # the rest is read on its own, and names only what began there as the whole split does
            began = {*after.values()} - {*now.values()}
            alone = names(records[inner[1] : last], {})
            assert [name in began and name for name in alone] == [name in began and name for name in of_records[tail:]]
            assert not crossing.difference(began).intersection(of_records[tail:])
        now, highest = after, max(highest, piece.high)


def test_what_is_inside_is_left_out_where_names_are_clear() -> None:
    records = [(INSERT, 1, 16), (COMMIT, 1, 17), (BEGIN, 2, 18), (COMMIT, 2, 19), (BEGIN, 3, 20), (INSERT, 3, 21)]
    assert scanned(records, start=100).inner(100, 106, 10) == (102, 104)
    assert scanned(records).inner(0, 6, 18) is None  # a begin at the position of an earlier one
    assert scanned([*records, (BEGIN, 1, 17)]).inner(0, 7, 10) is None  # positions that fall
    assert scanned([*records, (INSERT, 2, 22)]).inner(0, 7, 10) is None  # a transaction without its begin
    assert scanned(records[:1], records[4:]).inner(0, 3, 10) is None  # nothing is inside
