"""Which transaction a record belongs to, however transactions interleave and wherever a stream is cut."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcwb.formats.transactions import (
    AFTER,
    BEFORE,
    BEGIN,
    CHANGE,
    COMMIT,
    OTHER,
    ROLLBACK,
    UNDO,
    Ending,
    OpenTransactions,
    Run,
    TransactionSpans,
    assign,
    crossings,
)

Record = tuple[int, int, int]
"""Code of the kind, transaction id, sequence number."""


def columns(records: Sequence[Record]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    types, numbers, positions = zip(*records, strict=True) if records else ((), (), ())
    return np.array(types, np.int64), np.array(numbers, np.int64), np.array(positions, np.uint64)


def names(records: Sequence[Record], open_before: dict[int, str] | None = None) -> list[str]:
    """The transaction of every record."""
    types, numbers, positions = columns(records)
    found = TransactionSpans.among(types, numbers)
    by_index = assign(found, positions, {} if open_before is None else open_before)
    return [by_index[at] for at in found.index]


def summary(*windows: Sequence[Record]) -> list[OpenTransactions]:
    """That of windows of records; the table of a change is its id modulo 2, its time ten times its position."""
    found = []
    for records in windows:
        types, numbers, positions = columns(records)
        tables, times = positions.astype(np.int64) % 2, 10 * positions.astype(np.int64)
        found.append(OpenTransactions.of(types, numbers, tables, positions, times))
    return found


def test_a_transaction_is_named_by_its_id_and_the_position_of_its_begin() -> None:
    assert (
        names([(BEGIN, 39, 0xB01746018), (CHANGE, 39, 0xB01746050), (COMMIT, 39, 0xB017460A0)])
        == ["39@0000000B01746018"] * 3
    )


def test_transactions_interleave() -> None:
    records = [(BEGIN, 1, 16), (BEGIN, 2, 17), (CHANGE, 1, 18), (CHANGE, 2, 19), (COMMIT, 2, 20), (CHANGE, 1, 21)]
    one, two = f"1@{16:016X}", f"2@{17:016X}"
    assert names(records) == [one, two, one, two, two, one]


@pytest.mark.parametrize("end", [COMMIT, ROLLBACK])
def test_an_id_that_is_used_again_is_another_transaction(end: int) -> None:
    records = [(BEGIN, 1, 16), (end, 1, 17), (BEGIN, 1, 18), (end, 1, 19)]
    assert names(records) == [f"1@{16:016X}"] * 2 + [f"1@{18:016X}"] * 2


def test_without_a_begin_the_position_of_the_first_record_stands_in() -> None:
    assert names([(CHANGE, 1, 16), (CHANGE, 1, 17), (COMMIT, 1, 18)]) == [f"1@~{16:016X}"] * 3
    assert names([(COMMIT, 1, 18)]) == [f"1@~{18:016X}"]


def test_a_begin_that_follows_no_end_begins_another_transaction() -> None:
    records = [(BEGIN, 1, 16), (CHANGE, 1, 17), (BEGIN, 1, 18), (CHANGE, 1, 19)]
    assert names(records) == [f"1@{16:016X}"] * 2 + [f"1@{18:016X}"] * 2


def test_what_follows_an_end_without_a_begin_is_another_transaction() -> None:
    records = [(BEGIN, 1, 16), (COMMIT, 1, 17), (CHANGE, 1, 18), (COMMIT, 1, 19)]
    assert names(records) == [f"1@{16:016X}"] * 2 + [f"1@~{18:016X}"] * 2


def test_ids_and_positions_may_be_as_large_as_they_can() -> None:
    records = [(BEGIN, -(2**31), 2**64 - 1), (COMMIT, 2**31 - 1, 2**63)]
    assert names(records) == ["-2147483648@FFFFFFFFFFFFFFFF", "2147483647@~8000000000000000"]


def test_an_undo_belongs_to_its_transaction_though_its_position_is_lower() -> None:
    records = [(BEGIN, 1, 16), (CHANGE, 1, 40), (UNDO, 1, 30), (CHANGE, 1, 50), (COMMIT, 1, 60)]
    assert names(records) == [f"1@{16:016X}"] * 5


def test_what_is_open_is_handed_on_and_closed_where_it_ends() -> None:
    now: dict[int, str] = {}
    names([(BEGIN, 1, 16), (BEGIN, 2, 17), (CHANGE, 3, 18)], now)
    assert now == {1: f"1@{16:016X}", 2: f"2@{17:016X}", 3: f"3@~{18:016X}"}
    assert names([(CHANGE, 2, 19), (COMMIT, 1, 20), (ROLLBACK, 3, 21)], now) == [
        f"2@{17:016X}",
        f"1@{16:016X}",
        f"3@~{18:016X}",
    ]
    assert now == {2: f"2@{17:016X}"}


def test_no_records_change_nothing() -> None:
    now = {1: "1@0000000000000010"}
    assert names([], now) == []
    assert now == {1: "1@0000000000000010"}
    assert crossings([summary([])], of_table)[1] == {}


# a few ids, so that they are used again, and every kind of record in any order, begins and ends missing included
STREAMS = st.lists(
    st.tuples(
        st.sampled_from((BEGIN, COMMIT, ROLLBACK, CHANGE, BEFORE, AFTER, BEFORE, AFTER, UNDO)),
        st.integers(1, 3),
        st.integers(0, 9),
    ),
    max_size=40,
).map(lambda drawn: [(kind, key, 16 * at + low) for at, (kind, key, low) in enumerate(drawn, start=1)])


@given(STREAMS, st.lists(st.integers(0, 40), max_size=5))
def test_borders_of_splits_are_those_of_a_plain_loop(records: list[Record], cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(records)) for cut in cuts), len(records)]
    still_open: dict[int, str] = {}
    named = names(records, still_open)
    splits = [
        summary(records[first : (first + last) // 2], records[(first + last) // 2 : last])
        for first, last in pairwise(edges)
    ]
    found, found_open = crossings(splits, of_table)
    assert found_open == still_open
    for border, (first, last) in zip(found, pairwise(edges), strict=True):
        assert border.open_before == open_at(records, named, first)
        assert border.begun == {name for name in border.open_before.values() if "~" not in name}
        endings = {name: ending(records[last:], named[last:], name) for name in open_at(records, named, last).values()}
        assert border.endings == {name: one for name, one in endings.items() if one != Ending()}
        before, after = of_tables(records[:first], named[:first]), of_tables(records[last:], named[last:])
        here = set(named[first:last])
        assert border.before == {(n, *of_table(t)): run(mine[::-1]) for (n, t), mine in before.items() if n in here}
        names_after = open_at(records, named, last).values()
        assert border.after == {(n, *of_table(t)): run(mine) for (n, t), mine in after.items() if n in names_after}


def of_table(number: int) -> tuple[None, str]:
    """The name of a table."""
    return None, str(number)


def run(kinds: list[int]) -> Run:
    """The first run of some changes."""
    number = 0
    while number < len(kinds) and kinds[number] != CHANGE and (not number or kinds[number] != kinds[number - 1]):
        number += 1
    return Run(kinds[0], number)


def open_at(records: list[Record], named: list[str], at: int) -> dict[int, str]:
    """The names of the transactions that are open before a record, by id."""
    now: dict[int, str] = {}
    for (kind, key, _), name in zip(records[:at], named, strict=False):
        now[key] = name
        if kind in (COMMIT, ROLLBACK):
            del now[key]
    return now


def ending(records: list[Record], named: list[str], name: str) -> Ending:
    mine = [record for record, its in zip(records, named, strict=True) if its == name]
    undo = min((f"{position:016X}" for kind, _, position in mine if kind == UNDO), default=None)
    ends = [(kind, f"{at:016X}", 10 * at, undo) for kind, _, at in mine if kind in (COMMIT, ROLLBACK)]
    return Ending(*ends[0]) if ends else Ending(OTHER, None, None, undo)


def of_tables(records: list[Record], named: list[str]) -> dict[tuple[str, int], list[int]]:
    """The changes of each transaction and table."""
    found: dict[tuple[str, int], list[int]] = {}
    for (kind, _, position), name in zip(records, named, strict=True):
        if kind >= CHANGE:
            found.setdefault((name, position % 2), []).append(kind)
    return found
