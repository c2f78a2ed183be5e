"""Parts of an order that runs through a whole table, and what the command refuses before a JVM is started."""

from __future__ import annotations

import random
from bisect import bisect_right
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from cdcwb.analysis.frames import from_start, part_of
from cdcwb.cli import main
from cdcwb.spark import session


def test_a_row_is_in_the_part_behind_the_last_bound_that_is_not_above_it() -> None:
    chance = random.Random(5)
    rows = [(chance.choice([-3, 0, 0, 9]), chance.randrange(50)) for _ in range(400)]
    bounds = sorted(set(chance.sample(rows, 12)))
    found = part_of([np.array([row[place] for row in rows]) for place in (0, 1)], bounds)
    assert found.tolist() == [bisect_right(bounds, row) for row in rows]


def test_texts_are_keys_as_numbers_are() -> None:
    rows = [("b", 1), ("a", 7), ("", 0), ("bb", 0), ("\u4e2d", 3)]
    keys = [np.array([text for text, _ in rows], dtype=object), np.array([number for _, number in rows])]
    assert part_of(keys, [("a", 7), ("b", 2)]).tolist() == [1, 1, 0, 2, 2]
    assert part_of(keys, []).tolist() == [0] * 5


def test_arrays_begin_where_their_buffers_do() -> None:
    table = pa.table({"a": ["x", "y", "z"], "b": pa.array([1, 2, 3], pa.int32())})
    schema = pa.schema([("b", pa.int64()), ("a", pa.string())])
    (batch,) = from_start(table.slice(1), schema)
    assert (batch.schema, [column.offset for column in batch.columns]) == (schema, [0, 0])
    assert batch.to_pylist() == [{"b": 2, "a": "y"}, {"b": 3, "a": "z"}]
    assert list(from_start(table.slice(3), schema)) == []


HEAD = "record_id,table_key,status,event_type,event_time,perpetrator,table_name,column_name,old_value,new_value\n"


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(session, "get_spark", lambda: pytest.fail("a JVM is started for nothing"))
    path = tmp_path / "log.csv"
    path.write_text(HEAD + "1,idu=1,N,4,2026-03-01 10:00:00,,usr,,,\n")
    return path


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--to", "no/where.xml"], "there is no folder"),
        (["--to", "log.csv"], "one file of all documents ends in .xml or .xds"),
        (["--to", "x.xml", "--decisions", "x.json"], "expected a file that ends in .jsonl"),
        (["--to", "x.xml", "--batch-size", "129"], "expected 1 to 128"),
        (["--to", "x.xml", "--as-of", "2026-01-01"], "only with future_events=true"),
        (["--to", "x.xml", "-o", "precedense=log"], "Did you mean 'precedence'?"),
        (["--to", "x.xml", "-o", "delimeter=;"], "Did you mean 'delimiter'?"),
        (["--to", "x.xml", "--driver-user", "a", "-o", "driver_user=b"], "is given twice"),
        (["--to", "x.xml", "--snapshot", "usr=a.csv", "--snapshot", "usr=b.csv"], "two snapshots of table 'usr'"),
        (["--to", "x.xml", "--snapshot", "usr=missing.csv"], "missing.csv"),
    ],
)
def test_what_cannot_be_used_is_said_before_a_jvm_is_started(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, log: Path, given: list[str], said: str
) -> None:
    monkeypatch.chdir(log.parent)
    assert main(["xds", str(log), *given]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
