"""Work in other processes of this machine: results and errors are those of a call, and nothing is left running."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from cdcwb import load, local_tables, machine, pool
from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats.files import list_files
from cdcwb.formats.options import as_moment
from cdcwb.model import TABLES
from cdcwb.opening import open_small

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(machine, "cores", lambda: 2)
    yield
    while pool._waiting:
        pool._waiting.pop().end()


def test_results_are_in_the_order_of_the_tasks() -> None:
    assert pool.run(len, ["a", "bb", "", "cccc"] * 5) == [1, 2, 0, 4] * 5


def test_an_error_has_its_class_and_its_text() -> None:
    with pytest.raises(OptionError, match="found 'never'"):
        pool.run(moment_of, ["2025-01-01", "never"])


def moment_of(text: str) -> str:
    return str(as_moment("start", text))


def test_a_process_that_ends_is_a_sentence_and_the_next_call_has_others() -> None:
    with pytest.raises(CaptureError, match="a process of cdcwb that read a part of the capture has ended"):
        pool.run(os._exit, [1, 1])
    assert pool.run(len, ["a", "bb"]) == [1, 2]


def test_a_process_that_ended_while_it_waited_leaves_no_pipe_open() -> None:
    pool.run(abs, [-1, -2])
    ended = [*pool._waiting]
    for worker in ended:
        worker._process.kill()
        worker._process.wait()
    assert pool.run(abs, [-3, -4]) == [3, 4]
    assert all(worker._process.stdin.closed and worker._process.stdout.closed for worker in ended)


def test_a_script_needs_no_guard_and_leaves_no_process(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
            import os
            from cdcwb import machine, pool
            machine.cores = lambda: 2
            print(len({*pool.run(str, [1, 2])}), *{one._process.pid for one in pool._waiting})
        """)
    )
    said = subprocess.check_output([sys.executable, script], text=True, cwd=Path(__file__).parents[2])
    count, *started = said.split()
    assert (count, len(started)) == ("2", 2)
    for _ in range(100):
        if not any(Path(f"/proc/{pid}").exists() for pid in started):
            return
        time.sleep(0.1)
    raise AssertionError("a process is still there")


def test_a_limit_that_is_no_number_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDCWB_LOCAL_LIMIT", "0.5 GB")
    with pytest.raises(OptionError, match=r"CDCWB_LOCAL_LIMIT: expected a number of MB, found '0\.5 GB'"):
        local_tables.is_small([DATA / "gbase8s"])
    monkeypatch.setenv("CDCWB_LOCAL_LIMIT", "0")
    assert not local_tables.is_small([DATA / "gbase8s"])


def rows(table: pa.Table) -> list[str]:
    """The rows of a table in an order of their own; the entries of maps have none."""
    maps = {field.name for field in table.schema if pa.types.is_map(field.type)}
    return sorted(
        repr({name: sorted(map(repr, value)) if name in maps and value else value for name, value in row.items()})
        for row in table.to_pylist()
    )


@pytest.mark.parametrize("format", ["gbase8s", "qlik-change-table", "idm-event-log", "debezium"])
def test_tables_are_those_that_one_process_reads(format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = open_small(DATA / format, options={"split_size": "20000"})
    assert alone is not None
    expected = {name: rows(alone.table(name)) for name in TABLES}
    monkeypatch.setattr(local_tables, "IN_PROCESS", 0)
    several = open_small(list_files(DATA / format), options={"split_size": "20000"})
    assert several is not None
    for name in TABLES:
        assert rows(several.table(name)) == expected[name], name
    capture = load(list_files(DATA / format), split_size="20000")
    capture.save(tmp_path / "saved")
    found = load(tmp_path / "saved").rows("changes", ["position", "operation", "after"]).table()
    assert len(found) == len(expected["changes"])
    read = (
        load(list_files(DATA / format), split_size="20000").rows("changes", ["position", "operation", "after"]).table()
    )
    assert rows(read) == rows(found)
