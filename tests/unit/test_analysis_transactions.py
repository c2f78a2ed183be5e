"""Questions about transactions: answers for parts, merged in any order, are what a plain loop over all finds."""

from __future__ import annotations

import random
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from math import ceil
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcwb.analysis import concurrency
from cdcwb.analysis import transactions as ask
from cdcwb.analysis.change_counts import added
from cdcwb.dataset import Rows
from cdcwb.index.changes import TransactionIndex
from cdcwb.model import TRANSACTIONS, Completeness
from cdcwb.times import micros, time_of

Row = dict[str, Any]
T = TypeVar("T")

START = datetime(2026, 2, 2, 10, tzinfo=UTC)
LACKING = ("no_begin", "no_end", "gaps")
SOME = st.integers(0, 2**32).map(random.Random)  # how rows are cut, and in which order the answers are merged


def time(longest_us: int) -> st.SearchStrategy[datetime | None]:
    return st.none() | st.integers(0, longest_us).map(lambda us: START + timedelta(microseconds=us))


@st.composite
def transactions(draw: st.DrawFn) -> list[Row]:
    scale = draw(st.sampled_from([4, 40, 4_000_000_000]))
    texts = st.text("0123456789ABCDEF", min_size=1, max_size=2)
    rows = draw(
        st.lists(
            st.fixed_dictionaries(
                {
                    "began_at": time(scale),
                    "ended_at": time(scale),
                    "outcome": st.sampled_from(["committed", "rolled_back", "open"]),
                    "completeness": st.sampled_from([*map(str, Completeness)]),
                    "begin_position": st.none() | texts,
                    "end_position": st.none() | texts,
                    "changes": st.dictionaries(st.sampled_from(["INSERT", "UPDATE"]), st.integers(0, 3)).map(
                        lambda one: [*one.items()]
                    ),
                    "tables": st.just(["shop.orders"]),
                    "bytes": st.integers(0, 3),
                    "user": st.none() | st.sampled_from(["ana", "ben"]),
                }
            ),
            max_size=25,
        )
    )
    behind = draw(st.lists(st.sampled_from(["", "~A1", "~00"]), min_size=len(rows), max_size=len(rows)))
    return [{"transaction_id": f"{n % 7}{n}{behind[n]}"} | row for n, row in enumerate(rows)]


def cut(rows: list[Row], how: random.Random) -> list[pa.RecordBatch]:
    batch = pa.RecordBatch.from_pylist(rows, TRANSACTIONS)
    edges = sorted({0, len(rows), *(how.randrange(len(rows) + 1) for _ in range(3))})
    return [batch.slice(low, high - low) for low, high in pairwise(edges)]


def fold(parts: Sequence[Any], partial: Callable[[Any], T], merge: Callable[[Sequence[T]], T], how: random.Random) -> T:
    answers = [partial(part) for part in parts]
    how.shuffle(answers)
    while len(answers) > 2:
        number = how.randrange(1, len(answers))
        answers = [merge(answers[:number]), *answers[number:]] if number > 1 else answers[1:] + answers[:1]
    return merge(answers)


def took(row: Row, until: datetime | None = None) -> int | None:
    end = row["ended_at"] or (until if row["outcome"] == "open" else None)
    return None if row["began_at"] is None or end is None else (end - row["began_at"]) // timedelta(microseconds=1)


def first_position(row: Row) -> str | None:
    return row["begin_position"] or row["transaction_id"].partition("~")[2] or None


@given(transactions(), SOME)
def test_the_overview_counts_every_transaction(rows: list[Row], how: random.Random) -> None:
    found = fold(cut(rows, how), lambda batch: ask.overview_of(TransactionIndex(batch)), ask.merged_overviews, how)
    times = [row[name] for row in rows for name in ("began_at", "ended_at") if row[name] is not None]
    positions = [one for row in rows for one in (first_position(row), row["end_position"]) if one is not None]
    outcomes, states = Counter(row["outcome"] for row in rows), Counter(row["completeness"] for row in rows)
    assert found == {
        "transactions": len(rows),
        **{f"transactions_{name}": outcomes[name] for name in ("committed", "rolled_back", "open")},
        **{f"transactions_{name}": states[name] for name in Completeness},
        "transactions_unfinished": sum(row["outcome"] != "committed" or row["completeness"] in LACKING for row in rows),
        "transactions_without_time": sum(row["began_at"] is row["ended_at"] is None for row in rows),
        "transactions_with_user": sum(row["user"] is not None for row in rows),
        "transaction_changes": sum(number for row in rows for _, number in row["changes"]),
        "transaction_bytes": sum(row["bytes"] for row in rows),
        "first_time": min(times, default=None),
        "last_time": max(times, default=None),
        "first_position": min(positions, default=None),
        "last_position": max(positions, default=None),
        "longest_us": max((one for row in rows if (one := took(row)) is not None), default=None),
        "whole_seconds": all(one.microsecond == 0 for one in times),
    }


@given(transactions(), SOME, st.integers(0, 6))
def test_the_first_of_an_order_are_found(rows: list[Row], how: random.Random, limit: int) -> None:
    until = START + timedelta(seconds=1)
    wanted: dict[str, tuple[Any, list[Row]]] = {
        "longest": (
            lambda some: ask.longest(some, limit),
            sorted(rows, key=lambda row: (*_descending(took(row, until)), -row["bytes"], row["transaction_id"])),
        ),
        "largest": (
            lambda some: ask.ranked_by(some, limit, slice(None), -some.bytes, -some.changes),
            sorted(rows, key=lambda r: (-r["bytes"], -sum(n for _, n in r["changes"]), r["transaction_id"])),
        ),
        "unfinished": (
            lambda some: ask.first_unfinished(some, limit),
            sorted(
                (row for row in rows if row["outcome"] != "committed" or row["completeness"] in LACKING),
                key=lambda row: (
                    row["outcome"] != "open",
                    row["outcome"] != "open" and row["completeness"] not in LACKING,
                    first_position(row) or "",
                    row["transaction_id"],
                ),
            ),
        ),
    }
    for choose, expected in wanted.values():
        found = fold(cut(rows, how), *ask.chosen_by(choose, micros(until)), how)
        assert found["transaction_id"].to_pylist() == [row["transaction_id"] for row in expected[:limit]]


def _descending(value: int | None) -> tuple[bool, int]:
    return value is None, -(value or 0)


@given(transactions(), SOME, st.sampled_from([1, 3, 1_000_000]))
def test_every_transaction_with_a_begin_is_in_one_cell(rows: list[Row], how: random.Random, width: int) -> None:
    since = START + timedelta(microseconds=7)
    found = fold(
        cut(rows, how), lambda batch: ask.histogram_of(TransactionIndex(batch), micros(since), width), added, how
    )
    expected: Counter[tuple[int, str]] = Counter()
    for row in rows:
        if row["began_at"] is not None:
            band = {"rolled_back": "rolled back", "open": "open"}.get(row["outcome"])
            us = took(row)
            if us is None:
                known = "duration not known"
            else:
                known = ask.BANDS[bisect([0, 10**6, 10**7, 6 * 10**7, 6 * 10**8, 36 * 10**8], us)]
            expected[(micros(row["began_at"]) - micros(since)) // width, band or known] += 1
    assert found == expected


@given(transactions(), SOME, st.integers(1, 12))
def test_as_many_are_open_as_at_any_begin(rows: list[Row], how: random.Random, pieces: int) -> None:
    whole = TransactionIndex(pa.RecordBatch.from_pylist(rows, TRANSACTIONS))
    start, end = whole.span or (0, 0)
    width = max(1, -(-(end - start + 1) // pieces))
    local = Rows(lambda: iter(cut(rows, how)), TRANSACTIONS)
    capture = SimpleNamespace(rows=lambda _table, columns: local.select(columns))
    ends = [None if whole.span is None else time_of(time) for time in whole.span or (0, 0)]
    found = concurrency.over_time(capture, *ends, pieces=pieces)
    spans = []
    for row in rows:
        began, ended = row["began_at"], row["ended_at"]
        if began is None and row["completeness"] == "no_begin" and ended is not None:
            began = time_of(start)
        if ended is None and row["outcome"] == "open" and row["began_at"] is not None:
            ended = time_of(end)
        if began is not None and ended is not None and began < ended:
            spans.append((began, ended))
    times = sorted({one for span in spans for one in span})
    level = {one: sum(low <= one < high for low, high in spans) for one in times}
    changing = [one for before, one in zip([None, *times], times, strict=False) if level.get(before, 0) != level[one]]
    most = max(level.values(), default=0)
    assert (found.counted, found.most) == (len(spans), most)
    assert found.at == next((one for one in changing if level[one] == most), None)
    if found.at is not None:
        assert found.until == next(one for one in changing if one > found.at)
        busy = sum((high - low) / timedelta(microseconds=1) for low, high in spans)
        first, last = changing[0], changing[-1]
        assert found.average == pytest.approx(busy / ((last - first) / timedelta(microseconds=1)))
    of_piece: dict[int, list[int]] = {}
    for one in changing:
        of_piece.setdefault((micros(one) - start) // width, []).append(level[one])
    drawn = {(micros(step["at"]) - start) // width: step["open"] for step in reversed(found.steps)}
    assert drawn == {number: max(levels) for number, levels in of_piece.items()}
    assert found.exact == all(len(levels) == 1 for levels in of_piece.values())
    if found.exact:
        assert [(step["at"], step["open"]) for step in found.steps] == [(one, level[one]) for one in changing]


LATENCIES = st.lists(
    st.tuples(st.sampled_from([None, "a", "b"]), st.none() | st.integers(-100, 100) | st.integers(0, 10**13)),
    max_size=60,
)


def waiting(rows: list[tuple[str | None, int | None]]) -> pa.RecordBatch:
    at = pa.timestamp("us", tz="UTC")
    return pa.record_batch(
        {
            "table": pa.array([table for table, _ in rows], pa.string()),
            "began_at": pa.array([None if us is None else 10**15 for _, us in rows], pa.int64()).cast(at),
            "ended_at": pa.array([10**15 + (us or 0) for _, us in rows], pa.int64()).cast(at),
        }
    )


@pytest.mark.parametrize("kept", [ask.KEPT, 20])
@given(rows=LATENCIES, how=SOME)
def test_latencies_are_counted(kept: int, rows: list[tuple[str | None, int | None]], how: random.Random) -> None:
    edges = sorted({0, len(rows), *(how.randrange(len(rows) + 1) for _ in range(3))})
    parts = [waiting(rows[low:high]) for low, high in pairwise(edges)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ask, "KEPT", kept)
        answer = fold(parts, ask.counted_latencies, ask.merged_counts, how)
        found, again = ask.latencies(answer), ask.latencies(ask.counted_latencies(waiting(rows)))
    assert found == again, "in any order"
    for one, tables in zip(found, (("a", "b"), (None,)), strict=True):
        mine = [us for table, us in rows if table in tables]
        known = sorted(us for us in mine if us is not None)
        assert (one.all, one.known, one.negative) == (len(mine), len(known), sum(us < 0 for us in known))
        assert (one.least_us, one.most_us) == ((known[0], known[-1]) if known else (None, None))
        assert one.longer <= 2**-7
        assert kept == 20 or not one.longer
        for share, value in ((0.5, one.p50_us), (0.95, one.p95_us), (0.99, one.p99_us)):
            if known:
                exact = known[ceil(share * len(known)) - 1]
                assert value in known
                assert exact <= value <= exact + abs(exact) * one.longer
        bins = Counter(bisect(ask.EDGES, us) for us in known)
        assert [row["count"] for row in one.bins if row["count"]] == [bins[number] for number in sorted(bins)]
    assert {row["table"]: row["known"] for row in found[0].tables} == Counter(
        table for table, us in rows if table is not None and us is not None
    )


def test_the_memory_of_latencies_is_bounded() -> None:
    us = np.random.default_rng(1).integers(1, 10**10, 200_000)
    rows = waiting([("a", int(one)) for one in us])
    answer = ask.counted_latencies(rows)
    assert len(answer.rows) <= ask.KEPT
    changes, _ = ask.latencies(answer)
    ranked = np.sort(us)
    for share, value in ((0.5, changes.p50_us), (0.95, changes.p95_us), (0.99, changes.p99_us)):
        exact = int(ranked[ceil(share * len(ranked)) - 1])
        assert value is not None
        assert exact <= value < exact * 1.001
