"""Rows of one key come together, in memory or by way of temporary files."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from cdcwb import dataset
from cdcwb.dataset import Batches, Rows, text_hashes

SCHEMA = pa.schema([("table", pa.string()), ("key", pa.string()), ("number", pa.int64())])


def rows_of(count: int) -> Rows:
    def read() -> Iterator[pa.RecordBatch]:
        for start in range(0, count, 100):
            numbers = range(start, start + 100)
            keys = [None if number % 17 == 0 else str(number * 7 % 31) for number in numbers]
            yield pa.record_batch(
                [[f"t{number % 3}" for number in numbers], keys, [-number for number in numbers]], SCHEMA
            )

    return Rows(read, SCHEMA)


def runs(rows: Rows) -> dict[tuple[str, str | None], list[int]]:
    """The numbers of each key; a key that comes in two runs is an error."""
    found: dict[tuple[str, str | None], list[int]] = {}
    last = None
    for row in rows.by_key(["table", "key"], ["number"], lambda batches: batches, SCHEMA).table().to_pylist():
        key = row["table"], row["key"]
        assert key == last or key not in found
        found.setdefault(key, []).append(row["number"])
        last = key
    return found


def test_files_give_the_same_rows_of_each_key_in_the_same_order(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = runs(rows_of(2000))
    assert all(numbers == sorted(numbers) for numbers in expected.values())
    monkeypatch.setattr(dataset, "_IN_MEMORY", 5000)
    assert runs(rows_of(2000)) == expected


def test_temporary_files_are_gone_when_the_rows_were_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dataset, "_IN_MEMORY", 5000)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    seen: list[int] = []

    def look(batches: Batches) -> Batches:
        seen.append(len(list(tmp_path.iterdir())))
        yield from batches

    assert rows_of(1000).by_key(["table", "key"], [], look, SCHEMA).table().num_rows == 1000
    assert set(seen) == {1}
    assert not list(tmp_path.iterdir())
    assert next(rows_of(1000).by_key(["table", "key"], [], look, SCHEMA).batches()).num_rows  # and is given up
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("cut", [lambda texts: texts, lambda texts: texts.slice(1)])
def test_equal_texts_have_equal_hashes_wherever_they_are(cut: Callable[[pa.Array], pa.Array]) -> None:
    texts = cut(pa.array(["", "a", None, "ab", "ba", "a", "", "x" * 5000, "y" + "x" * 4999]))
    hashes = dict(zip(texts.to_pylist(), text_hashes(texts).tolist(), strict=True))
    assert len(set(hashes.values())) == len(hashes)
    assert hashes["a"] == text_hashes(pa.array(["a"])).tolist()[0]
    assert hashes[None] == 0


@pytest.mark.parametrize("keys", [["a"], ["a", "b"]])
@pytest.mark.parametrize("collide", [False, True])
def test_a_column_is_looked_up_by_key_also_where_texts_have_one_hash(
    keys: list[str], collide: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if collide:
        monkeypatch.setattr(dataset, "text_hashes", lambda texts: np.zeros(len(texts), np.uint64))
    source = random.Random(1)
    values = {(f"{source.randrange(99)}", source.randrange(3)): n for n in range(80)}
    if len(keys) == 1:
        values = {(a, 0): n for (a, _), n in values.items()}
    other = pa.table({"a": [a for a, _ in values], "b": [b for _, b in values], "value": [*values.values()]})
    asked = [(None if n % 7 == 0 else f"{source.randrange(120)}", source.randrange(3)) for n in range(200)]
    rows = pa.table(
        {"a": [a for a, _ in asked], "b": [b for _, b in asked]}, pa.schema([("a", pa.string()), ("b", pa.int64())])
    )
    found = Rows(lambda: iter(rows.to_batches(64)), rows.schema).with_column_of(
        Rows(lambda: iter(other.to_batches()), other.schema), keys, "value"
    )
    expected = [values.get((a, b if len(keys) > 1 else 0)) if a is not None else None for a, b in asked]
    assert found.table()["value"].to_pylist() == expected
