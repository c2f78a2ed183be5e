"""What is asked of headers of changes is the same for all of them and for arbitrary parts, merged in any order; and it
is what a loop over the rows counts."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcwb import model
from cdcwb.analysis import change_counts as ask
from cdcwb.filters import NO_TABLE
from cdcwb.index.columns import Headers, headers_of
from cdcwb.times import micros

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NAMES = ("a", "b", "c", "d e", "é")
START, WIDTH = -7, 10

times = st.none() | st.integers(-100, 100).map(lambda n: EPOCH + timedelta(microseconds=n))
changes = st.fixed_dictionaries(
    {
        "operation": st.sampled_from(["INSERT", "UPDATE", "UPDATE", "DELETE", None]),
        "schema_name": st.sampled_from(["s", "t", "", None]),
        "table_name": st.sampled_from(["x", "y", None]),
        "position": st.none() | st.text("01", min_size=1, max_size=3),
        "changed_at": times,
        "committed_at": times,
        "changed_columns": st.none() | st.lists(st.sampled_from(NAMES), unique=True),
    }
)
Rows = list[dict[str, Any]]


@st.composite
def parts(draw: Any) -> tuple[Rows, list[Headers]]:
    """Changes, and the headers of arbitrary parts of them in any order."""
    rows: Rows = draw(st.lists(changes, max_size=40))
    cuts = sorted({0, len(rows), *draw(st.lists(st.integers(0, len(rows)), max_size=5))})
    pieces = [rows[a:b] for a, b in pairwise(cuts)]
    return rows, [headers_of(batch(piece)) for piece in draw(st.permutations(pieces))]


def batch(rows: Rows) -> pa.RecordBatch:
    names = list(rows[0]) if rows else ["operation"]
    return pa.RecordBatch.from_pylist(rows, pa.schema([model.CHANGES.field(name) for name in names]))


def table(row: dict[str, Any]) -> str:
    schema, name = row["schema_name"], row["table_name"]
    return NO_TABLE if name is None else name if schema is None else f"{schema}.{name}"


def when(row: dict[str, Any]) -> datetime | None:
    found: datetime | None = row["changed_at"] or row["committed_at"]
    return found


def bin_of(row: dict[str, Any]) -> int | None:
    at = when(row)
    return None if at is None else (micros(at) - START) // WIDTH


@given(parts())
def test_changes_over_time_are_those_that_a_loop_counts(made: tuple[Rows, list[Headers]]) -> None:
    rows, headers = made
    found = ask.added(ask.over_time(one, one.everything, START, WIDTH) for one in headers)
    assert found == Counter((bin_of(row), row["operation"] or "not given") for row in rows)
    timed, untimed = ask.over_time_rows(found, START, WIDTH)
    assert sum(row["changes"] for row in timed) + sum(untimed.values()) == len(rows)
    assert [row["began_at"] for row in timed] == sorted(row["began_at"] for row in timed)


@given(parts())
def test_tables_are_those_that_a_loop_finds(made: tuple[Rows, list[Headers]]) -> None:
    rows, headers = made
    found = ask.table_rows(ask.merge_tables([ask.by_table(one, one.everything) for one in headers]))
    assert [row["table"] for row in found] == [
        name for name, _ in sorted(Counter(map(table, rows)).items(), key=lambda one: (-one[1], one[0]))
    ]
    for row in found:
        mine = [one for one in rows if table(one) == row["table"]]
        assert dict(row["operations"]) == Counter(one["operation"] or "not given" for one in mine)
        known, positions = [at for one in mine if (at := when(one))], [p for one in mine if (p := one["position"])]
        assert (row["first_time"], row["last_time"]) == (min(known, default=None), max(known, default=None))
        assert row["first_position"] == min(positions, default=None)
        assert row["last_position"] == max(positions, default=None)


@given(parts())
def test_changed_columns_and_pairs_are_those_that_a_loop_counts(made: tuple[Rows, list[Headers]]) -> None:
    rows, headers = made
    found = ask.merge_changed([ask.changed(one, one.everything, paired=True) for one in headers])
    mine = [row for row in rows if row["operation"] == "UPDATE"]
    known = [(table(row), row["changed_columns"]) for row in mine if row["changed_columns"] is not None]
    assert found.updates == Counter(map(table, mine))
    assert found.known == Counter(name for name, _ in known)
    assert found.idle == Counter(name for name, columns in known if not columns)
    assert found.columns == Counter((name, column) for name, columns in known for column in columns)
    pairs = Counter((name, *pair) for name, columns in known for pair in combinations(sorted(columns), 2))
    assert found.pairs == pairs
    assert {(row["table"], row["column"], row["other"]): row["together"] for row in found.together()} == pairs
    when_changed = ask.added(ask.changed_over_time(one, one.everything, START, WIDTH) for one in headers)
    expected = Counter(
        (table(row), column, bin_of(row)) for row in mine if when(row) for column in row["changed_columns"] or ()
    )
    assert when_changed == expected


@given(parts(), st.randoms())
def test_only_what_is_selected_is_counted(made: tuple[Rows, list[Headers]], chance: Any) -> None:
    rows, _ = made
    if rows:
        headers, chosen = headers_of(batch(rows)), [chance.random() < 0.5 for _ in rows]
        headers.position = None
        mask, kept = np.array(chosen), [row for row, is_chosen in zip(rows, chosen, strict=True) if is_chosen]
        alone = headers_of(batch(kept)) if kept else None
        for question in (ask.over_time, ask.changed_over_time):
            found = question(headers, mask, START, WIDTH)
            assert found == (question(alone, alone.everything, START, WIDTH) if alone else Counter())
        assert ask.changed(headers, mask) == (ask.changed(alone, alone.everything) if alone else ask.Changed())
        names = {row["table"]: row["changes"] for row in ask.table_rows(ask.by_table(headers, mask))}
        assert names == Counter(map(table, kept))


def test_of_wide_updates_only_the_first_columns_by_name_are_paired() -> None:
    wide = [f"c{number:03}" for number in range(70)]
    row = dict.fromkeys(("schema_name", "position", "changed_at", "committed_at"))
    rows = [{**row, "operation": "UPDATE", "table_name": "t", "changed_columns": names} for names in (wide, wide[60:])]
    headers = headers_of(batch(rows * 3))
    found = ask.changed(headers, headers.everything, paired=True)
    assert len(found.columns) == 70
    assert found.columns["t", "c069"] == 6
    assert found.pairs["t", "c000", "c063"] == 3
    assert found.pairs["t", "c000", "c064"] == 0
    assert found.pairs["t", "c068", "c069"] == 3
    assert found.pairs["t", "c060", "c061"] == 6


@pytest.mark.parametrize("far", [0, 1 << 60])
def test_bins_that_are_far_apart_are_counted(far: int) -> None:
    row = dict.fromkeys(("schema_name", "position", "committed_at"))
    at = [EPOCH, EPOCH + timedelta(microseconds=1), EPOCH, EPOCH + timedelta(days=900_000)]
    many = [[f"c{number}"] for number in range(300)]
    rows = [
        {**row, "operation": "UPDATE", "table_name": f"t{number}", "changed_at": at[number % 4], "changed_columns": one}
        for number, one in enumerate(many)
    ]
    headers = headers_of(batch(rows))
    found = ask.changed_over_time(headers, headers.everything, -far, 1)
    expected = Counter((f"t{number}", one[0], micros(at[number % 4]) + far) for number, one in enumerate(many))
    assert found == expected
