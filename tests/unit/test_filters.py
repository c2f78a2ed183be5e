"""Filters of rows of tables: what a comparison finds in a batch, and how SQL is answered."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cdcwb import load, model
from cdcwb.filters import KINDS, FilterError, columns_of, holds, parse
from cdcwb.formats import get_format
from cdcwb.formats.arrays import are_named
from cdcwb.formats.dissector import TableRequest, Wanted
from tests.local import plan_of, read

NOON = dt.datetime(2025, 3, 23, 12, tzinfo=dt.UTC)
EVENTS: list[dict[str, Any]] = [
    {"kind": "begin", "file": "/a/s-1.bin", "offset": 0, "headers": {"csn": "17"}},
    {
        "kind": "change",
        "file": "/a/s-1.bin",
        "offset": 80,
        "operation": "UPDATE",
        "changed_at": NOON,
        "schema_name": "shop",
        "table_name": "orders",
        "last_in_transaction": True,
        "changed_columns": ["state", "total"],
        "before": {"state": "NEW"},
        "after": {"state": None, "total": "9.50"},
    },
    {
        "kind": "change",
        "file": "/a/s-2.bin",
        "offset": 0,
        "operation": "INSERT",
        "table_name": "log",
        "changed_columns": [],
        "after": {"text": "x"},
        "headers": {"csn": "n/a"},
        "problems": [{"code": "value", "detail": "text: expected"}, {"code": "gap", "detail": ""}],
    },
]
TRANSACTIONS: list[dict[str, Any]] = [
    {"transaction_id": "1", "outcome": "committed", "completeness": "complete", "tables": ["shop.orders", "log"]},
    {"transaction_id": "2", "outcome": "open", "completeness": "no_end", "tables": [], "began_at": NOON, "bytes": 70},
]


def rows(line: str, table: list[dict[str, Any]], schema: pa.Schema) -> list[int]:
    understood = parse(line)
    assert understood is not None
    assert understood.names <= columns_of(schema.names)
    batch = pa.RecordBatch.from_pylist(table, schema)
    return np.flatnonzero(pickle.loads(pickle.dumps(understood)).mask(partial(holds, batch=batch))).tolist()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('operation == "UPDATE"', [1]),
        ('operation != "UPDATE"', [0, 2]),
        ("operation == null", [0]),
        ('table == "shop.orders"', [1]),
        ('table in ("orders", "log")', [1, 2]),
        ('schema == "shop"', [1]),
        ('file == "s-2.bin" or file == "/a/s-2.bin"', [2]),
        ("offset > 10", [1]),
        ("offset < 99999999999999999999999", [0, 1, 2]),
        ('time >= "2025-03-23T13:00:00+01:00"', [1]),
        ("time == null", [0, 2]),
        ('last_in_transaction == "true"', [1]),
        ('changed_columns == "total"', [1]),
        ('changed_columns matches "^st"', [1]),
        ("changed_columns == null", [0]),
        ('problem == "value, gap"', [2]),
        ("problem == null", [0, 1]),
        ("csn == 17", [0]),
        ('csn == "n/a"', [2]),
        ("after.total == 9.5", [1]),
        ("after.total != null", [1]),
        ("after.state == null", [1]),
        ("after.state == missing", [2]),
        ('before.state == "NEW" and not after.state == "NEW"', [1]),
        ('after.text == "x"', []),  # reported as a problem
        ('not after.text == "x"', [0, 1, 2]),
    ],
)
def test_rows_of_events_for_which_a_filter_holds(line: str, expected: list[int]) -> None:
    assert rows(line, EVENTS, model.EVENTS) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('table == "orders"', [0]),
        ('table contains "shop"', [0]),
        ('completeness != "complete"', [1]),
        ('began_at <= "2025-03-23T12:00Z" and bytes == 70', [1]),
        ('transaction_id == "2"', [1]),
    ],
)
def test_rows_of_transactions_for_which_a_filter_holds(line: str, expected: list[int]) -> None:
    assert rows(line, TRANSACTIONS, model.TRANSACTIONS) == expected


def test_no_table_is_named_by_an_empty_text() -> None:
    labels = pa.array(["orders", "shop.orders", "a.", ".a", None])
    assert are_named(labels, [""]).to_pylist() == [False] * 5
    assert are_named(labels, ["orders", "a"]).to_pylist() == [True, True, False, True, False]


def test_values_of_typed_columns_are_compared_as_text_would_be() -> None:
    image = pa.struct([("total", pa.decimal128(9, 2)), ("day", pa.date32()), ("at", pa.timestamp("us"))])
    values = [{"after": {"total": 9, "day": NOON.date(), "at": NOON.replace(tzinfo=None)}}, {"after": None}]
    schema = pa.schema([("after", image)])
    for line in ("after.total == 9.00", 'after.at == "2025-03-23 12:00:00.000000"', 'after.day < "2025-03-24"'):
        assert rows(line, values, schema) == [0], line
    assert rows("after.none == null", values, schema) == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("table = 'x'", "at character 7: '=' means nothing here; write == to compare"),
        ("table contains '\udcff'", "at character 17: expected text in UTF-8"),
        ("outcome <> 'open'", "at character 9: '<>' means nothing here; write != to compare"),
        ("user IS NULL", "found 'IS'; write == null or != null"),
        ("user is not null", "write == null or != null"),
        ("table LIKE 'a%'", "found 'LIKE'; write contains, or matches and a regular expression"),
        ("offset between 1 and 2", "found 'between'; write >= and <="),
        ("after['a'] == 'x'", "'[' means nothing here; write a list in parentheses: in (…), and a value of a row as"),
        ("size(changed_columns) > 1", "there is no column 'size'"),
        ("severity in ('error', 'warn')", "severity has no value 'warn'. Did you mean 'warning'?"),
        ("completeness != 'whole'", "completeness has no value 'whole'. There are: complete, no_begin,"),
        ("operation == 'UNKNOWN(9)' and code == 'maks'", "code has no value 'maks'. Did you mean 'mask'?"),
    ],
)
def test_sql_and_values_that_do_not_exist_are_answered_with_the_right_spelling(line: str, said: str) -> None:
    with pytest.raises(FilterError) as wrong:
        parse(line)
    assert said in str(wrong.value)


def test_a_number_may_have_any_number_of_digits() -> None:
    for line in ("offset < " + "9" * 5000, "after.total < 0x" + "f" * 5000):
        assert parse(line) is not None


def test_every_column_of_the_tables_has_a_kind() -> None:
    assert {KINDS[name] for name in ("time", "began_at", "committed_at")} == {"time"}
    assert {KINDS[name] for name in ("offset", "bytes", "event_no")} == {"number"}
    assert {KINDS[name] for name in ("table", "problem", "changed_columns")} == {"text"}
    assert not {"headers", "raw", "before", "after", "key", "source_events", "changes"} & KINDS.keys()


def test_a_table_has_the_same_names_wherever_it_is_asked_for(tmp_path: Path) -> None:
    tables = [("shop", "a.b"), ("a", "b"), ("shop", "b"), ("x.y", "t")]  # as in MongoDB, and in a container of Oracle
    messages = [{"database": schema, "table": table, "type": "insert", "ts": 1, "data": {}} for schema, table in tables]
    (tmp_path / "topic.jsonl").write_text("\n".join(map(json.dumps, messages)))
    capture, form, plan = load(tmp_path), get_format("maxwell"), plan_of(tmp_path, "maxwell")
    for name, rows in {"a.b": 2, "b": 3, "shop.a.b": 1, "shop.b": 1, "t": 1, "y.t": 1, "x.y.t": 1}.items():
        assert len(capture.filter([name]).rows("changes", ["operation"]).table()) == rows, name
        capture.selection.update(tables=[name])
        assert capture.view.bench.selected.mask().sum() == rows, name
        assert read(tmp_path, Wanted(tables=frozenset([name])), "maxwell").num_rows == rows, name
        assert sum(batch.num_rows for batch in form.read_table(plan, 0, TableRequest(name))) == rows, name
