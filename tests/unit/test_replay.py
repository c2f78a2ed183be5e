"""The rows of a table at a position of the log, and their number over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import cdcwb
import cdcwb_synth as synth
from cdcwb import model
from cdcwb.analysis.images import maps_of
from cdcwb.analysis.keys import FACTS, known_tables
from cdcwb.analysis.replay import TableReplay, state
from cdcwb.dataset import Rows
from cdcwb.errors import OptionError
from tests.changes import Tables, at, change, version

T = "shop.orders"
COLUMNS = ["id", "state", "note"]


def made(number: int, operation: str, **facts: Any) -> dict[str, Any]:
    image = facts.get("after") or facts.get("before") or {}
    return change(number, operation, T, key={"id": image.get("id", "1")}, **facts)


def rows(changes: list[dict[str, Any]], **asked: Any) -> dict[str, Any]:
    capture = Tables(changes=changes, table_versions=[version(T, 1, COLUMNS)])
    found = state(capture, T, **asked).table().to_pylist()
    return {dict(row["key"])["id"]: row | {name: dict(row[name]) for name in ("key", "row")} for row in found}


def test_a_row_is_what_its_last_changes_left() -> None:
    changes = [
        made(1, "INSERT", after={"id": "1", "state": "new", "note": None}),
        made(2, "UPDATE", before={"id": "1", "state": "new"}, after={"id": "1", "state": "paid"}),
        made(3, "INSERT", after={"id": "2", "state": "new", "note": "x"}),
        made(4, "DELETE", before={"id": "2", "state": "new", "note": "x"}),
    ]
    found = rows(changes)
    assert set(found) == {"1"}
    assert found["1"]["row"] == {"id": "1", "state": "paid", "note": None}
    assert (found["1"]["partial"], found["1"]["changes"], found["1"]["position"]) == (False, 2, f"{2:016X}")


def test_a_position_or_a_time_ends_the_reading() -> None:
    changes = [
        made(1, "INSERT", after={"id": "1", "state": "new", "note": None}),
        made(2, "UPDATE", after={"id": "1", "state": "paid"}),
        made(3, "DELETE", before={"id": "1"}),
    ]
    assert rows(changes, position=f"{2:016X}")["1"]["row"]["state"] == "paid"
    assert rows(changes, time=at(1.5))["1"]["row"]["state"] == "new"
    assert rows(changes, position=f"{0:016X}") == {}


def test_commits_decide_the_order_and_what_is_not_committed_does_not_count() -> None:
    changes = [
        made(1, "UPDATE", after={"id": "1", "state": "late"}, commit_position=f"{9:016X}"),
        made(2, "UPDATE", after={"id": "1", "state": "early"}, commit_position=f"{3:016X}"),
        made(4, "UPDATE", after={"id": "1", "state": "never"}, outcome="rolled_back"),
        made(5, "UPDATE", after={"id": "1", "state": "nor"}, outcome="open", commit_position=None),
    ]
    found = rows(changes)
    assert found["1"]["row"]["state"] == "late"
    assert rows(changes, position=f"{3:016X}")["1"]["row"]["state"] == "early"


def test_a_row_whose_beginning_is_not_there_is_partial_unless_an_image_has_it_all() -> None:
    changes = [
        made(1, "UPDATE", after={"id": "1", "state": "paid"}),
        made(2, "UPDATE", after={"id": "2", "state": "paid", "note": None}),
        made(3, "REFRESH", after={"id": "3", "state": "old"}, outcome=None, commit_position=None, position=None),
    ]
    found = rows(changes)
    assert {key: row["partial"] for key, row in found.items()} == {"1": True, "2": False, "3": False}


def test_a_row_that_comes_back_knows_nothing_of_its_former_life() -> None:
    changes = [
        made(1, "INSERT", after={"id": "1", "state": "new", "note": "first"}),
        made(2, "DELETE", before={"id": "1"}),
        made(3, "INSERT", after={"id": "1", "state": "again"}),
    ]
    assert rows(changes)["1"]["row"] == {"id": "1", "state": "again"}


def test_inserts_of_columns_that_the_row_does_not_have_add_up() -> None:
    changes = [
        made(1, "INSERT", after={"state": "new"}),
        made(2, "INSERT", after={"note": "x"}),
        made(3, "UPDATE", before={"note": "x"}, after={"note": "y"}),
    ]
    found = rows(changes)["1"]
    assert (found["row"], found["changes"], found["partial"]) == ({"state": "new", "note": "y"}, 3, False)
    again = rows([*changes, made(4, "INSERT", after={"note": "z"})])["1"]
    assert (again["row"], again["changes"]) == ({"note": "z"}, 1)
    unknown = rows([*changes, made(4, "INSERT")])["1"]
    assert (unknown["row"], unknown["changes"]) == ({}, 1)  # an event log may name no column of a row that it inserts


@pytest.mark.parametrize("size", [1, 3, 1 << 16])
def test_rows_are_those_of_a_loop_over_their_changes(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdcwb.dataset._BATCH", size)
    random = Random(size)
    changes, expected = [], {}
    for number in range(600):
        key, operation = str(random.randrange(40)), random.choice(["INSERT", "INSERT", "INSERT", "UPDATE", "DELETE"])
        image = {name: str(number) for name in random.sample("abcd", random.choice([0, 1, 1, 2]))}
        changes.append(change(number, operation, T, key={"id": key}, after=None if operation == "DELETE" else image))
        row = expected.pop(key, {})
        if operation == "DELETE":
            continue
        is_more = operation == "UPDATE" or (image and row.keys().isdisjoint(image))
        expected[key] = {**row, **image} if is_more else image
    assert {key: row["row"] for key, row in rows(changes).items()} == expected


def test_an_update_of_the_key_ends_one_row_and_begins_another() -> None:
    changes = [
        made(1, "INSERT", after={"id": "1", "state": "new", "note": "x"}),
        made(2, "UPDATE", before={"id": "1", "state": "new", "note": "x"}, after={"id": "7", "state": "moved"}),
    ]
    found = rows(changes)
    assert set(found) == {"7"}
    assert found["7"]["row"] == {"id": "7", "state": "moved", "note": "x"}


def moved(number: int, old: str, new: str, **after: Any) -> dict[str, Any]:
    """An update of the key whose image before holds the key alone."""
    return change(number, "UPDATE", T, key={"id": new}, before={"id": old}, after={"id": new, **after})


def test_a_row_keeps_what_it_was_under_every_key_it_had() -> None:
    changes = [
        made(1, "INSERT", after={"id": "1", "state": "new", "note": "first"}),
        made(2, "INSERT", after={"id": "5", "state": "new", "note": "fifth"}),
        moved(3, "1", "2", state="moved"),
        made(4, "INSERT", after={"id": "1", "state": "new", "note": "another"}),
        moved(5, "2", "3"),
        made(6, "UPDATE", after={"id": "3", "state": "at last"}),
        made(7, "DELETE", before={"id": "5"}),
        moved(8, "1", "5"),
        moved(9, "3", "1"),
    ]
    found = rows(changes)
    assert {key: row["row"] for key, row in found.items()} == {
        "1": {"id": "1", "state": "at last", "note": "first"},
        "5": {"id": "5", "state": "new", "note": "another"},
    }
    assert not any(row["partial"] for row in found.values())
    assert found["1"]["key"] == {"id": "1"}
    early = rows(changes, position=f"{4:016X}")
    assert {key: row["row"]["note"] for key, row in early.items()} == {"1": "another", "2": "first", "5": "fifth"}


def test_a_move_to_a_key_that_is_taken_replaces_the_row() -> None:
    changes = [
        made(1, "INSERT", after={"id": "1", "state": "new", "note": "first"}),
        made(2, "INSERT", after={"id": "2", "state": "old", "note": "second"}),
        moved(3, "1", "2"),
    ]
    found = rows(changes)
    assert {key: row["row"] for key, row in found.items()} == {"2": {"id": "2", "state": "new", "note": "first"}}


def test_the_number_of_rows_falls_to_none_with_a_truncate() -> None:
    changes = [
        made(1, "REFRESH", after={"id": "9"}, outcome=None, commit_position=None, position=None, committed_at=None),
        made(2, "INSERT", after={"id": "1"}),
        made(3, "INSERT", after={"id": "2"}),
        moved(4, "2", "3"),
        change(5, "TRUNCATE", T),
        made(7, "INSERT", after={"id": "1"}),
        made(8, "DELETE", before={"id": "1"}),
    ]
    table = Tables(changes=changes)
    known = known_tables(table.rows("changes", FACTS))[T]
    assert (known.moves, len(known.truncates), known.changes, known.keyed) == (1, 1, 7, 6)
    steps = TableReplay(table, known).growth(at(0), 1_000_000)
    assert steps == [(None, 1), (at(3), 2), (at(4), 3), (at(6), 0), (at(8), 1), (at(9), 0)]


def test_a_truncate_empties_the_table() -> None:
    changes = [
        made(1, "INSERT", after={"id": "1", "state": "new"}),
        change(2, "TRUNCATE", T),
        made(3, "INSERT", after={"id": "2", "state": "new"}),
    ]
    assert set(rows(changes)) == {"2"}
    assert set(rows(changes, position=f"{1:016X}")) == {"1"}


def test_what_cannot_be_answered_is_said() -> None:
    capture = Tables(changes=[change(1, "INSERT", T, after={"id": "1"})])
    with pytest.raises(OptionError, match=r"keys=shop\.orders:c1\+c2"):
        state(capture, T)
    with pytest.raises(OptionError, match=r"Did you mean 'shop\.orders'"):
        state(capture, "shop.order")


def test_the_state_of_generated_tables_is_what_a_reading_of_the_truth_gives(tmp_path: Path) -> None:
    folder = synth.generate("qlik-kafka", changes=800, seed=12, to=tmp_path / "made", schema_changes=0)
    capture = cdcwb.load(folder / "capture")
    truth = pq.read_table(folder / "truth" / "changes.parquet").to_pylist()
    truth.sort(key=lambda row: (row["commit_position"] or "", row["position"] or "", row["file_index"], row["offset"]))
    for table in ("orders", "stock_move"):
        wanted: dict[Any, dict[str, Any]] = {}
        for row in truth:
            if row["table_name"] != table:
                continue
            key = tuple(sorted(row["key"] or ()))
            if row["operation"] == "TRUNCATE":
                wanted.clear()
            elif row["operation"] == "DELETE":
                wanted.pop(key, None)
            else:
                former = tuple((name, dict(row["before"] or row["key"]).get(name, value)) for name, value in key)
                known = wanted.pop(former, {}) if row["operation"] == "UPDATE" else {}
                wanted[key] = {**known, **dict(row["after"])}
        rows = state(capture, table).table().to_pylist()
        assert {tuple(sorted(row["key"])): dict(row["row"]) for row in rows} == wanted
        assert not any(row["partial"] for row in rows)


class Many:
    """The changes of a table with this many rows, of which a million are changed in turn; nothing is stored."""

    CHANGES = 1_000_000

    def __init__(self, keys: int) -> None:
        self.keys = keys

    def rows(self, table: str, columns: Sequence[str]) -> Rows:
        """See :meth:`cdcwb.Capture.rows`."""
        schema = pa.schema([model.TABLES[table].field(name).remove_metadata() for name in columns])
        size = 50_000 if table == "changes" else self.CHANGES
        return Rows(lambda: (self._batch(number, size, schema) for number in range(self.CHANGES // size)), schema)

    def _batch(self, number: int, size: int, schema: pa.Schema) -> pa.RecordBatch:
        if "offset" not in schema.names:
            return pa.RecordBatch.from_pylist([], schema)
        numbers = np.arange(number * size, (number + 1) * size)
        ids = pa.array(numbers % self.keys).cast(pa.string())
        position = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 16, "0")
        known = {"table_name": pa.repeat("orders", size), "outcome": pa.repeat("committed", size), "offset": numbers}
        known |= {"operation": np.where(numbers < self.keys, "INSERT", "UPDATE"), "commit_position": position}
        known |= {"key": maps_of(np.full(size, 1), pa.repeat("id", size), ids), "position": position}
        known |= {"after": known["key"], "file_index": pa.repeat(0, size)}
        columns = [pa.array(known[field.name]) if field.name in known else pa.nulls(size) for field in schema]
        return pa.RecordBatch.from_arrays(
            [column.cast(field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
        )


@pytest.mark.full
@pytest.mark.parametrize("keys", [1, 1_000_000])
def test_a_row_with_a_million_changes_and_a_million_rows_take_little_memory(keys: int) -> None:
    capture = Many(keys)
    known = known_tables(capture.rows("changes", FACTS))["orders"]
    assert (known.changes, known.keyed) == (Many.CHANGES, Many.CHANGES)
    begin = pa.total_allocated_bytes()
    replayed = TableReplay(capture, known).shown()
    assert (replayed.rows, replayed.shown[0]["changes"]) == (keys, Many.CHANGES // keys)
    assert pa.total_allocated_bytes() - begin < 10_000_000  # nothing stays
    assert pa.default_memory_pool().max_memory() < 1_500_000_000


def test_what_is_known_of_a_row_is_reduced_from_batch_to_batch() -> None:
    sizes = []

    def counted(batch: pa.RecordBatch) -> pa.RecordBatch:
        sizes.append(batch.num_rows)
        return batch.slice(max(batch.num_rows - 1, 0))

    schema = pa.schema([("key", pa.string()), ("n", pa.int64())])
    one_key = pa.RecordBatch.from_pydict({"key": ["a"] * 200_000, "n": list(range(200_000))}, schema)
    rows = Rows(lambda: iter([one_key]), schema).reduce_by_key(["key"], ["n"], counted)
    assert rows.table().to_pylist() == [{"key": "a", "n": 199_999}]
    assert len(sizes) > 2
    assert max(sizes) <= (1 << 16) + 1
