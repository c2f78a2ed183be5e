"""Saved captures: one of any size, made up, with transactions that overlap, sets of changed columns and changes without
a time; and a small one as its readers give it, whose tables Spark reads sooner than its files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdcwb import model
from cdcwb.capture import Capture, load
from cdcwb.opening import SAVED, VERSION

__all__ = ["open_saved", "write_saved"]

_START: Final = 1_770_000_000_000_000  # 2026-02-02
_COLUMNS: Final = ("state", "amount", "note", "changed_by", "city", "rating", "since", "discount")
_TABLES: Final = ("orders", "customer", "order_line", "stock_move", "reading", "audit")
_OPERATIONS: Final = ("INSERT", "UPDATE", "DELETE")
_USERS: Final = ("ana", "ben", "chen", "batch")


def open_saved(path: Path, to: Path, **options: Any) -> Capture:
    """Save a small capture into ``to`` without Spark, and open that."""
    return load(load(path, **options).save(to))


def write_saved(folder: Path, changes: int, transactions: int, seed: int = 1) -> Path:
    """Write the tables of a saved capture into ``folder``: ``changes`` in ``transactions``, over a day or less."""
    chance = np.random.default_rng(seed)
    span = min(86_400_000_000, transactions * 1_000_000)
    began = np.sort(chance.integers(0, span, transactions)) + _START
    lasted = (chance.exponential(2_000_000, transactions) * chance.choice([1, 1, 1, 30], transactions)).astype(np.int64)
    ended = began + lasted
    outcome = chance.choice(3, transactions, p=[0.93, 0.05, 0.02])
    owner = np.sort(chance.integers(0, transactions, changes))
    at = began[owner] + (chance.random(changes) * lasted[owner]).astype(np.int64)
    kinds = np.concatenate([np.zeros(transactions), np.ones(changes), np.full(transactions, 2)]).astype(np.int8)
    times, owners = (
        np.concatenate([began, at, ended]),
        np.concatenate([np.arange(transactions), owner, np.arange(transactions)]),
    )
    kept = ~((kinds == 2) & (outcome[owners] == 2))  # an open one has no commit
    order = np.lexsort((kinds, times))
    order = order[kept[order]]
    place = np.full(len(times), -1)
    place[order] = np.arange(len(order))
    names = pa.array([f"tx{number:07}" for number in range(transactions)])
    record = place[transactions : transactions + changes]
    shown = _Changes(chance, changes, at, owner, outcome, record)
    folder.mkdir(parents=True)
    event = kinds[order]
    of_change = np.where(event == 1, order - transactions, -1)
    _write(
        folder,
        "events",
        model.EVENTS,
        _events(event, times[order], names.take(pa.array(owners[order])), shown, of_change),
    )
    _write(folder, "changes", model.CHANGES, shown.rows(names, np.where(outcome[owner] == 0, ended[owner], -1)))
    _write(
        folder,
        "transactions",
        model.TRANSACTIONS,
        _transactions(chance, names, began, ended, outcome, owner, place, changes),
    )
    _write(folder, "problems", model.PROBLEMS, _problems(chance, len(order), names))
    for name in ("table_versions", "detected"):
        _write(folder, name, model.TABLES[name], {})
    files = [{"file": "made-up.bin", "file_index": 0, "size": len(order) * 100, "shape": "binary", "compression": None}]
    about = {"version": VERSION, "format": "qlik-kafka", "files": files, "facts": {}}
    (folder / SAVED).write_text(json.dumps(about), encoding="utf-8")
    return folder


class _Changes:
    def __init__(self, chance: np.random.Generator, n: int, at: Any, owner: Any, outcome: Any, record: Any) -> None:
        self.owner, self.record = owner, record
        self.outcome = outcome[owner]
        self.at = pa.array(at, pa.timestamp("us", tz="UTC"), mask=chance.random(n) < 0.01)
        self.operation = pa.array(_OPERATIONS).take(pa.array(chance.choice(3, n, p=[0.3, 0.6, 0.1])))
        self.table = pa.array(_TABLES).take(pa.array(np.minimum(chance.geometric(0.4, n) - 1, len(_TABLES) - 1)))
        sets = [sorted(chance.choice(_COLUMNS, chance.integers(0, 5), replace=False)) for _ in range(60)]
        changed = pa.array([*sets, None], pa.list_(pa.string())).take(pa.array(chance.integers(0, 61, n)))
        is_update = np.array(self.operation) == "UPDATE" if n else np.zeros(0, bool)
        self.changed = pa.array(changed.to_pylist(), mask=~is_update) if n < 10_000 else changed

    def rows(self, names: pa.Array, committed: Any) -> dict[str, Any]:
        n = len(self.record)
        struct = model.CHANGES.field("source_events").type.value_type
        source = pa.StructArray.from_arrays(
            [
                pa.array(np.zeros(n), struct[0].type),
                pa.array(self.record * 100, struct[1].type),
                pa.array(np.full(n, 100), struct[2].type),
            ],
            fields=list(struct),
        )
        offsets = pa.array(np.arange(n + 1, dtype=np.int32))
        return {
            "file_index": np.zeros(n, np.int32),
            "file": ["made-up.bin"] * n,
            "offset": self.record * 100,
            "length": np.full(n, 100),
            "operation": self.operation,
            "schema_name": ["shop"] * n,
            "table_name": self.table,
            "transaction_id": names.take(pa.array(self.owner)),
            "position": _positions(self.record),
            "changed_at": self.at,
            "committed_at": pa.array(committed, pa.timestamp("us", tz="UTC"), mask=committed < 0),
            "changed_columns": self.changed,
            "change_source": ["mask"] * n,
            "outcome": pa.array(["committed", "rolled_back", "open"]).take(pa.array(self.outcome)),
            "source_events": pa.ListArray.from_arrays(offsets, source),
        }


def _positions(records: Any) -> pa.Array:
    return pc.utf8_lpad(pa.array(np.asarray(records, np.int64)).cast(pa.string()), 16, "0")


def _events(kind: Any, times: Any, names: pa.Array, shown: _Changes, of_change: Any) -> dict[str, Any]:
    n = len(kind)
    change = pa.array(np.maximum(of_change, 0), mask=of_change < 0)
    return {
        "format": ["qlik-kafka"] * n,
        "file": ["made-up.bin"] * n,
        "file_index": np.zeros(n, np.int32),
        "offset": np.arange(n) * 100,
        "length": np.full(n, 100),
        "offset_unit": ["byte"] * n,
        "record_type": pa.array(["begin", "data", "commit"]).take(pa.array(kind)),
        "kind": pa.array(["begin", "change", "commit"]).take(pa.array(kind)),
        "operation": shown.operation.take(change),
        "schema_name": ["shop"] * n,
        "table_name": shown.table.take(change),
        "transaction_id": names,
        "position": _positions(np.arange(n)),
        "changed_at": pa.array(times, pa.timestamp("us", tz="UTC")),
    }


def _transactions(
    chance: np.random.Generator,
    names: pa.Array,
    began: Any,
    ended: Any,
    outcome: Any,
    owner: Any,
    place: Any,
    changes: int,
) -> dict[str, Any]:
    n = len(names)
    counts = np.bincount(owner, minlength=n)
    offsets = pa.array(np.arange(n + 1, dtype=np.int32))
    end = place[n + changes :]
    return {
        "transaction_id": names,
        "begin_position": _positions(place[:n]),
        "end_position": pa.array(_positions(end).to_pylist(), mask=outcome == 2),
        "began_at": pa.array(began, pa.timestamp("us", tz="UTC")),
        "ended_at": pa.array(ended, pa.timestamp("us", tz="UTC"), mask=outcome == 2),
        "outcome": pa.array(["committed", "rolled_back", "open"]).take(pa.array(outcome)),
        "completeness": pa.array(["complete", "no_end"]).take(pa.array((outcome == 2).astype(int))),
        "changes": pa.MapArray.from_arrays(offsets, pa.array(["UPDATE"] * n), pa.array(counts)),
        "tables": [["shop.orders"]] * n,
        "bytes": counts * 100 + 200,
        "user": pa.array([*_USERS, None]).take(pa.array(chance.integers(0, 5, n))),
    }


def _problems(chance: np.random.Generator, records: int, names: pa.Array) -> dict[str, Any]:
    n = min(500, records // 10)
    return {
        "severity": ["warning"] * n,
        "code": pa.array(["gap", "clock"]).take(pa.array(chance.integers(0, 2, n))),
        "sentence": [f"problem {number}" for number in range(n)],
        "file": ["made-up.bin"] * n,
        "offset": np.sort(chance.integers(0, records, n)) * 100,
        "length": np.full(n, 100),
        "transaction_id": pa.array(
            names.take(pa.array(chance.integers(0, len(names), n))).to_pylist(), mask=chance.random(n) < 0.5
        ),
    }


def _write(folder: Path, name: str, schema: pa.Schema, columns: dict[str, Any]) -> None:
    size = len(next(iter(columns.values()))) if columns else 0
    arrays = []
    for field in schema:
        values = columns.get(field.name)
        found = (
            pa.nulls(size, field.type)
            if values is None
            else pa.array(values)
            if not isinstance(values, pa.Array)
            else values
        )
        arrays.append(found.cast(field.type))
    (folder / name).mkdir()
    pq.write_table(
        pa.Table.from_arrays(arrays, schema=schema), folder / name / "part-00000.parquet", row_group_size=1 << 17
    )
