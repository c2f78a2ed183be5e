"""Transactions of a trail: TransInd as a state machine, also where it is cut into stretches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from cdcwb.formats.goldengate.plan.transactions import (
    Marks,
    Open,
    Summary,
    fold,
    fragments,
    position_text,
    runs,
    summarise,
)
from hypothesis import given
from hypothesis import strategies as st

ABEND, INSERT, UPDATE, LOB, FRAGMENT = 150, 5, 15, 116, 161


def marks(
    trans: Sequence[int],
    *,
    io: Sequence[int] | None = None,
    xid: Sequence[str | None] | None = None,
    goes_on: Sequence[int] | None = None,
    before: Sequence[int] | None = None,
    tables: Sequence[str] | None = None,
) -> Marks:
    """Records with these TransInd; -9 stands for RestartAbend, -1 for one that does not show its place."""
    count = len(trans)
    abort = np.array([one == -9 for one in trans], dtype=np.bool_)
    types = np.array(io if io is not None else [UPDATE] * count, dtype=np.int64)
    types[abort] = ABEND
    names = list(dict.fromkeys(tables or ["S.T"]))
    ids = [None if one is None else one.encode() for one in (xid or [None] * count)]
    return Marks(
        io=types,
        trans=np.array([-1 if one == -9 else one for one in trans], dtype=np.int64),
        member=~abort,
        abort=abort,
        goes_on=np.array(goes_on or [0] * count, dtype=np.bool_),
        half=np.isin(types, (UPDATE,)),
        before=np.array(before or [0] * count, dtype=np.bool_),
        table=np.array([names.index(one) for one in (tables or ["S.T"] * count)], dtype=np.int64),
        tables=names,
        csn=pa.nulls(count, pa.binary()),
        xid=pa.array(ids, pa.binary()),
        system=np.zeros(count, dtype=np.int8),
    )


def named(one: Marks, order: Sequence[int] | None = None, opened: bool = False) -> list[int]:
    """The run of each record."""
    found = runs(one, np.arange(len(one.io)) if order is None else np.array(order), opened)
    return found.of.tolist()


@pytest.mark.parametrize(
    ("trans", "of"),
    [
        ([3, 3], [1, 2]),
        ([0, 1, 1, 2, 3], [1, 1, 1, 1, 2]),
        ([0, 2, 0, 2], [1, 1, 2, 2]),
        ([1, 2, 3], [1, 1, 2]),
        ([2, 2], [1, 2]),
        ([0, 0, 2], [1, 2, 2]),
        ([0, 3, 1], [1, 2, 3]),
        ([0, 1, -9, 0, 2], [1, 1, 1, 2, 2]),
        ([-9, 3, -9], [-1, 1, -1]),
        ([0, -9, 1], [1, 1, 2]),
    ],
)
def test_trans_ind_opens_goes_on_and_closes(trans: list[int], of: list[int]) -> None:
    assert named(marks(trans)) == of


def test_what_is_open_before_goes_on_until_something_begins() -> None:
    assert named(marks([1, 2, 1, 3]), opened=True) == [0, 0, 1, 2]
    assert named(marks([0, 2]), opened=True) == [1, 1]
    found = runs(marks([-9, 1]), np.arange(2), True)
    assert found.of.tolist() == [0, 1]
    assert found.aborted.tolist() == [True, False]


def test_a_restart_that_gave_up_closes_what_is_open_as_void() -> None:
    found = runs(marks([0, 1, -9, 3]), np.arange(4), False)
    assert found.aborted.tolist() == [False, True, False]
    assert found.closed.tolist() == [False, True, True]


def test_records_of_unknown_place_go_together_by_their_token() -> None:
    one = marks([-1, -1, -1, -1, 3], xid=["a", "a", None, "b", None])
    found = runs(one, np.arange(5), False)
    assert found.index.tolist() == [0, 1, 3, 4]
    assert found.of.tolist() == [1, 1, 2, 3]


def test_the_order_is_that_of_the_trail() -> None:
    found = runs(marks([2, 0, 1]), np.array([1, 2, 0]), False)
    assert found.of.tolist() == [1, 1, 1]
    assert found.first.tolist() == [-1, 1]


def test_positions_sort_as_the_trail_does() -> None:
    assert position_text(7, 1063) == "00000000070000001063"
    assert position_text(7, 10**9) < position_text(8, 1)


def test_fragments_are_told_by_type_or_by_the_record_before() -> None:
    one = marks([0, 1, 1, 1, 2], io=[INSERT, LOB, UPDATE, FRAGMENT, UPDATE], goes_on=[0, 0, 1, 0, 0])
    assert fragments(one, np.arange(5), False).tolist() == [False, True, False, True, False]
    plain = marks([0, 1, 2], io=[INSERT] * 3, goes_on=[1, 1, 0])
    assert fragments(plain, np.arange(3), False).tolist() == [False, True, True]


def test_a_record_that_begins_a_transaction_or_is_of_another_table_continues_none() -> None:
    first = marks([0, 3], goes_on=[1, 0])
    assert fragments(first, np.arange(2), False).tolist() == [False, False]
    other = marks([0, 1], goes_on=[1, 0], tables=["S.A", "S.B"])
    assert fragments(other, np.arange(2), False).tolist() == [False, False]
    assert fragments(marks([1]), np.arange(1), True).tolist() == [True]


# --- stretches --------------------------------------------------------------------------------------------------------


def summary(one: Marks, first: int = 0) -> Summary:
    count = len(one.io)
    places = first + 100 * np.arange(count)
    return summarise(one, np.arange(count), places, places + 100, lambda index: str(first + index))


def test_ids_that_come_late_are_those_of_the_whole_transaction() -> None:
    pieces = [
        summary(marks([0, 1], xid=[None, None])),
        summary(marks([1, 1], xid=[None, None]), 10),
        summary(marks([1, 2, 3], xid=[None, "9.1.4", "9.1.5"]), 20),
    ]
    states = fold(pieces, [False, True, True])
    assert states[0].before is None
    whole = states[0].after
    assert whole is not None
    assert whole is states[1].before is states[1].after is states[2].before
    assert (whole.name, whole.first) == ("9.1.4", "0")
    assert states[2].after is None


def test_a_transaction_without_an_id_is_named_by_its_first_record() -> None:
    assert Open("00000000010000000500").name == "~00000000010000000500"
    assert Open("00000000010000000500", "1.2.3", aborted=True).name == "1.2.3@00000000010000000500"


def test_a_stretch_that_makes_it_void_says_so_to_those_before() -> None:
    states = fold([summary(marks([0, 1], xid=["7", None])), summary(marks([-9, 3]), 10)], [False, True])
    assert states[0].after is not None
    assert states[0].after.name == "7@0"


def test_where_a_trail_file_is_missing_nothing_goes_on() -> None:
    states = fold([summary(marks([0, 1])), summary(marks([1, 2]), 10)], [False, False])
    assert states[0].after is not None
    assert states[1].before is None


def test_a_before_half_waits_for_its_other_in_the_next_stretch() -> None:
    states = fold([summary(marks([0], before=[1])), summary(marks([2]), 10)], [False, True])
    assert states[1].half == "S.T"
    closed = fold([summary(marks([3], before=[1])), summary(marks([3]), 10)], [False, True])
    assert closed[1].half is None


def test_fragments_are_looked_for_in_the_stretches_that_follow() -> None:
    head = summary(marks([0], io=[INSERT]))
    middle = summary(marks([1, 1], io=[LOB, LOB], goes_on=[1, 1]), 1000)
    end = summary(marks([2, 3], io=[LOB, INSERT]), 2000)
    states = fold([head, middle, end], [False, True, True])
    assert states[0].follows == [(1, 1000, 1200), (2, 2000, 2100)]
    assert [one.head is not None for one in states] == [False, True, True]
    assert states[2].goes_on


def test_a_stretch_that_begins_with_a_head_keeps_its_own_fragments() -> None:
    alone = summary(marks([1], io=[INSERT]))
    rest = summary(marks([2], io=[LOB]), 500)
    states = fold([alone, rest], [False, True])
    assert states[0].follows == [(1, 500, 600)]


STEPS = st.lists(st.sampled_from([0, 1, 1, 2, 3, -9]), max_size=30)


@given(STEPS, st.lists(st.integers(0, 30), max_size=4), st.data())
def test_a_trail_that_is_cut_has_the_transactions_of_the_whole(
    trans: list[int], cuts: list[int], data: st.DataObject
) -> None:
    xid = [data.draw(st.sampled_from([None, None, "a"])) for _ in trans]
    whole = marks(trans, xid=xid)
    found = runs(whole, np.arange(len(trans)), False)
    expected = _names(whole, found.of.tolist(), found.first.tolist(), found.aborted.tolist())
    edges = sorted({0, len(trans), *(cut for cut in cuts if cut < len(trans))})
    spans = list(pairwise(edges))
    pieces = [_slice(whole, first, stop) for first, stop in spans]
    summaries = [summary(piece, first) for piece, (first, _) in zip(pieces, spans, strict=True)]
    states = fold(summaries, [at > 0 for at in range(len(spans))])
    out: list[str | None] = []
    for piece, (first, _), state in zip(pieces, spans, states, strict=True):
        there = runs(piece, np.arange(len(piece.io)), state.before is not None)
        names = _names(piece, None, there.first.tolist(), there.aborted.tolist(), there.of.tolist(), first)
        last = len(there.first) - 1
        for run in there.of.tolist():
            if run < 0:
                out.append(None)
            elif run == 0 and state.before is not None:
                out.append(state.before.name)
            elif run == last and not there.closed[run] and state.after is not None:
                out.append(state.after.name)
            else:
                out.append(names[run])
    assert out == expected


def _slice(one: Marks, first: int, stop: int) -> Marks:
    cut = slice(first, stop)
    arrays = {
        name: getattr(one, name)[cut]
        for name in ("io", "trans", "member", "abort", "goes_on", "half", "before", "table")
    }
    return replace(one, **arrays, csn=one.csn[cut], xid=one.xid[cut])


def _names(
    one: Marks,
    per_record: list[int] | None,
    first: list[int],
    aborted: list[bool],
    of: list[int] | None = None,
    base: int = 0,
) -> list[str | None]:
    """What each record's transaction (or, without ``per_record``, each run) is called."""
    runs_of = per_record if of is None else of
    assert runs_of is not None
    names: list[str | None] = []
    for run, begin in enumerate(first):
        members = [at for at, number in enumerate(runs_of) if number == run]
        ids = [one.xid[at].as_py().decode() for at in members if one.xid[at].is_valid and not one.abort[at]]
        names.append(Open(str(base + begin), ids[0] if ids else None, None, aborted[run]).name)
    return names if per_record is None else [None if run < 0 else names[run] for run in per_record]
