"""Changes that are too many to look at one by one are counted in bins, which say the same; a few of them that are
selected are looked at one by one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from cdcwb.analysis import change_counts, indexed
from cdcwb.index.changes import WIDTHS, Changes, binned, counted, merged
from cdcwb.index.selected import Selected
from cdcwb.index.selection import Selection
from cdcwb.index.source import Source, open_source
from cdcwb.time_axis import time_of
from cdcwb.views.bench import Bench
from tests.saved_capture import write_saved

CHANGES, TRANSACTIONS = 4_000, 900
SELECTIONS: list[dict[str, Any]] = [
    {},
    {"tables": ["shop.orders"]},
    {"tables": ["customer", "shop.audit"], "operations": ["UPDATE"]},
    {"users": ["ana", "ben"], "outcomes": ["committed"]},
    {"columns": ["city"]},
]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    folder = write_saved(tmp_path_factory.mktemp("made") / "capture", CHANGES, TRANSACTIONS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cdcwb.index.changes.BINNED_ABOVE", CHANGES - 1)
        found = open_source(folder)
        _ = found.changes
    return found


@pytest.fixture(scope="module")
def bins(source: Source) -> Changes:
    assert source.changes.bins is not None
    return source.changes.bins


@pytest.fixture(params=SELECTIONS, ids=lambda fields: "+".join(fields) or "everything")
def pair(request: pytest.FixtureRequest, source: Source, bins: Changes) -> tuple[Selected, Selected]:
    """The same selection of single changes and of bins."""
    singles, counts = (Selected(changes, Selection(**request.param)) for changes in (source.changes, bins))
    return singles, counts


def test_bins_count_every_change_once(source: Source, bins: Changes) -> None:
    changes = source.changes
    assert len(bins) < CHANGES
    assert bins.number(np.ones(len(bins), np.bool_)) == CHANGES
    assert bins.bytes.sum() == changes.bytes.sum()
    assert bins.span == changes.span
    assert set(bins.record) <= set(changes.record)
    assert (np.diff(bins.record) > 0).all()


def test_what_is_selected_of_bins_is_what_is_selected_of_changes(pair: tuple[Selected, Selected]) -> None:
    single, binned_ = pair
    assert binned_.changes.number(binned_.mask()) == single.changes.number(single.mask())
    assert indexed.facets(binned_) == indexed.facets(single)
    assert indexed.over_time(binned_).without_time == indexed.over_time(single).without_time
    told = [indexed.tables(one.changes, one.mask()) for one in pair]
    assert told[0] == told[1]
    one, other = (change_counts.changed(part.changes, part.mask(), paired=True) for part in pair)
    assert one == other
    firsts = [indexed.first_of_sets(one.changes, one.mask()) for one in pair]
    assert firsts[0] == firsts[1]


def test_bins_of_charts_hold_whole_bins(pair: tuple[Selected, Selected]) -> None:
    """What a chart counts from times that are rounded is what it counts from exact ones."""
    single, binned_ = (indexed.over_time(one) for one in pair)
    assert binned_.width_us % pair[1].changes.width_us == 0
    if binned_.width_us == single.width_us:
        assert binned_.over_time == single.over_time
    assert sum(row["changes"] for row in binned_.over_time) == sum(row["changes"] for row in single.over_time)
    (one, *_), (other, *_) = (indexed.changed_over_time(part.changes, part.mask()) for part in pair)
    tables = {row["table"] for row in [*one, *other]}
    for table in tables:
        assert len({sum(row["changed"] for row in rows if row["table"] == table) for rows in (one, other)}) == 1


def test_counts_of_parts_make_the_count_of_all(source: Source) -> None:
    changes, width = source.changes, 1_000_000
    whole = counted(changes, 0, len(changes), width)
    edges = [0, 700, 701, 2_500, len(changes)]
    parts = [counted(changes, first, end, width) for first, end in pairwise(edges)]
    together = merged([merged(parts[:2], width), merged(parts[2:], width)], width)
    assert {name: one.tolist() for name, one in together.items()} == {name: one.tolist() for name, one in whole.items()}


def test_bins_grow_until_there_are_few_enough_rows(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdcwb.index.changes._CHUNK", 900)
    fine, narrow = binned(source.changes)
    coarse, wide = binned(source.changes, rows=1_000)
    assert narrow in WIDTHS
    assert wide > narrow
    assert len(coarse["record"]) < len(fine["record"])
    assert coarse["times"].sum() == fine["times"].sum() == CHANGES


# --- a page -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def bench(source: Source, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr("cdcwb.views.bench.source_of", lambda _capture: source)
    monkeypatch.setattr("cdcwb.views.bench.ONE_BY_ONE", 500)
    return Bench(None)  # type: ignore[arg-type]  # it is asked for its index alone


def test_a_page_says_that_it_shows_bins_and_a_narrow_time_shows_changes_one_by_one(
    bench: Bench, source: Source
) -> None:
    assert bench.binned.startswith("4,000 changes, counted in bins of ")
    assert bench.selected is bench.overview
    exact = np.sort(source.changes.at[source.changes.timed])
    first, end = (time_of(int(exact[place])) for place in (1_000, 1_300))
    bench.selection.update(time_from=first, time_to=end)
    assert bench.binned == ""
    assert bench.changes.number(bench.selected.mask()) == 300
    assert bench.selected.changes.width_us == 0
    rows = Selected(source.changes, bench.selection)
    assert bench.selected.transactions().tolist() == rows.transactions().tolist()
    bench.selection.update(time_to=first + timedelta(days=1))
    assert bench.binned
    bench.selection.reset()
    assert bench.selected is bench.overview


def test_positions_and_ids_are_looked_for_one_by_one(bench: Bench, source: Source) -> None:
    name = source.changes.transactions.rows["transaction_id"][17].as_py()
    bench.selection.update(transactions=[name])
    assert bench.binned == ""
    expected = Selected(source.changes, Selection(transactions=[name])).mask().sum()
    assert bench.changes.number(bench.selected.mask()) == expected > 0
    assert bench.selected.transactions().tolist() == [17]


def test_a_brush_in_bins_selects_those_that_reach_into_it(bench: Bench, source: Source) -> None:
    at = np.sort(source.changes.at[source.changes.timed])
    start, end = int(at[500]), int(at[2_000])
    bench.selection.update(time_from=time_of(start), time_to=time_of(end))
    assert bench.binned
    width = bench.changes.width_us
    wider = (at >= start // width * width) & (at < -(-end // width) * width)
    assert 1_500 < bench.changes.number(bench.selected.mask()) <= wider.sum()


FITS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "tables": lambda row: "shop.orders" in row["tables"],
    "operations": lambda row: "DELETE" in dict(row["changes"]),
    "outcomes": lambda row: row["outcome"] == "open",
    "users": lambda row: row["user"] == "ana",
}


@pytest.mark.parametrize(
    "fields", [{"tables": ["orders"]}, {"operations": ["DELETE"]}, {"outcomes": ["open"]}, {"users": ["ana"]}]
)
def test_transactions_of_bins_are_those_that_fit_by_themselves(bench: Bench, fields: dict[str, Any]) -> None:
    bench.selection.update(**fields)
    assert bench.binned
    rows = bench.changes.transactions.rows.to_pylist()
    (name,) = fields
    assert bench.selected.transactions().tolist() == [number for number, row in enumerate(rows) if FITS[name](row)]
