"""Which transaction a record belongs to, however transactions interleave and wherever a stream is cut."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcwb.formats.gbase8s.first_pass import assign, fold

BEGIN, COMMIT, ROLLBACK, INSERT, DISCARD = 1, 2, 3, 40, 62

Record = tuple[int, int, int]
"""Record number, transaction id, sequence number."""


def columns(records: Sequence[Record]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    types, numbers, positions = zip(*records, strict=True) if records else ((), (), ())
    return np.array(types, np.int64), np.array(numbers, np.int64), np.array(positions, np.uint64)


def names(records: Sequence[Record], open_before: dict[int, str] | None = None) -> list[str]:
    """The transaction of every record."""
    found, index = assign(*columns(records), {} if open_before is None else open_before)
    return [found[at] for at in index]


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
    assert fold(now, {}, set()) == now


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
        opened: dict[int, str] = {}
        settled: set[int] = set()
        for some in (records[first : (first + last) // 2], records[(first + last) // 2 : last]):
            assign(*columns(some), opened, settled)
        after = dict(now)
        found += names(records[first:last], after)
        now = fold(now, opened, settled)
        assert now == after
    assert found == whole
    assert now == whole_open
