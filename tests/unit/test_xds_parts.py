"""Publishing part by part: the same decisions and documents as at once; parts of an order, complete keys, totals."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from cdcwb.analysis.xds import counted, publish_rows
from cdcwb.dataset import Rows, complete_keys
from cdcwb.xds import ROWS, Settings
from tests.published_logs import SETTINGS, check_published, some_log


def in_batches(table: pa.Table, size: int) -> Rows:
    return Rows(lambda: iter(table.combine_chunks().to_batches(size)), table.schema)


@pytest.mark.parametrize("with_tables", [False, True], ids=["without", "snapshot"])
@pytest.mark.parametrize("name", SETTINGS)
def test_parts_publish_what_is_published_at_once(name: str, with_tables: bool) -> None:
    log = some_log(len(name), 3000)
    check_published(log, in_batches(log, 700), name, with_tables)


def test_an_empty_log_is_published() -> None:
    published = publish_rows(in_batches(ROWS.empty_table(), 1), Settings.parse({}))
    assert (len(published.decisions.table()), len(published.documents.table())) == (0, 0)
    assert (published.summary.documents, published.summary.events, published.summary.decisions) == (0, 0, {})


TABLE = pa.table(
    {
        "key": random.Random(1).choices(["a", "b", None, "\u4e2d"], k=999),
        "number": random.Random(2).choices(range(90), k=999),
    }
)


@pytest.mark.parametrize("size", [1, 40, 998, 10_000])
def test_parts_are_ranges_of_the_order(size: int) -> None:
    rows, parts = in_batches(TABLE, 100).in_parts(["key", "number"], size)
    found = sorted(rows.table().to_pylist(), key=lambda r: (r["key"] is not None, r["key"], r["number"]))
    numbers = [row["part"] for row in found]
    assert numbers == sorted(numbers)
    assert max(numbers) < parts <= max(1, len(TABLE) // size + 1)
    assert (size < 500) == (parts > 2)
    by_value: dict[tuple[str, int], set[int]] = {}
    for row in found:
        by_value.setdefault((row["key"], row["number"]), set()).add(row["part"])
    assert all(len(of_value) == 1 for of_value in by_value.values())


@pytest.mark.parametrize("size", [1, 30, 5000])
def test_keys_are_complete(size: int) -> None:
    ordered = in_batches(TABLE, 7).sorted(["key"])
    batches = [*complete_keys(in_batches(ordered.table(), 7).batches(), ["key"], size)]
    keys = [set(batch["key"].to_pylist()) for batch in batches]
    assert sum(map(len, batches)) == len(TABLE)
    assert sum(map(len, keys)) == 4  # no key is in two batches
    assert len(batches) == (1 if size > len(TABLE) else 4)


def test_totals_and_first_rows_of_each_value() -> None:
    rows = in_batches(TABLE, 100)
    of_key: dict[str | None, list[int]] = {}
    for row in TABLE.to_pylist():
        of_key.setdefault(row["key"], []).append(row["number"])
    found = counted(rows, ["key"], number="max")
    assert {row["key"]: (row["rows"], row["number"]) for row in found} == {
        k: (len(n), max(n)) for k, n in of_key.items()
    }
    first = rows.first([("number", "descending")], 3, ["key"]).to_pylist()
    expected = [(key, number) for key, numbers in of_key.items() for number in sorted(numbers)[-3:]]
    assert sorted(map(repr, expected)) == sorted(repr((row["key"], row["number"])) for row in first)
