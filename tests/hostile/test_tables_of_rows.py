"""Event logs and change tables as tables of rows: no file crashes the reader or keeps it busy for longer than its size
explains."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.limits import Ran, run_each

COLUMNS = (
    *("record_id", "table_key", "status", "event_type", "event_time", "perpetrator", "table_name"),
    *("column_name", "old_value", "new_value"),
)
ROW = ("1", "idu=1", "N", "1", "2025-01-02 03:04:05", "ann", "usr", "name", "", "x")
LOG = ",".join(COLUMNS) + "\n" + ",".join(ROW) + "\n"
HEADERS = (
    *("header__change_seq", "header__change_oper", "header__change_mask", "header__stream_position"),
    *("header__operation", "header__transaction_id", "header__timestamp"),
)
CHANGE = ("20250102030405000000000000000000001", "I", "03", "p", "INSERT", "aa", "2025-01-02 03:04:05.000000", "1", "x")
CHANGES = ",".join((*HEADERS, "id", "name")) + "\n" + ",".join(CHANGE) + "\n"
DDL = "server_name,task_name,table_owner,table_name,change_seq,timestamp,table_version,ddl_type,details\n"


def ddl(*details: str) -> str:
    """A DDL history with these details."""
    rows = (
        f's,t,S,T,{at},2025-01-02 03:04:05,{at},ALTER_TABLE,"{one.replace(chr(34), 2 * chr(34))}"\n'
        for at, one in enumerate(details, 1)
    )
    return DDL + "".join(rows)


def json_log(*values: str) -> str:
    """Rows of an event log as JSON, with these new values."""
    rows = [json.dumps(dict(zip(COLUMNS, ROW, strict=True)))] * 3
    return "\n".join([*rows, *(rows[0].replace('"x"', one) for one in values), *rows]) + "\n"


def columns_of(count: int) -> str:
    """Added columns, as details of DDL."""
    return json.dumps({"columns": {f"c{at}": {"action": "ADD", "ordinal": 1} for at in range(count)}})


READ: dict[str, dict[str, str]] = {
    "nested values": {"log.jsonl": json_log("[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"a":' * 3_000)},
    "large numbers": {"log.jsonl": json_log("9" * 6_000, "1e999999999", "9" * 100_000 + ".1")},
    "half of a pair": {"log.jsonl": json_log('"\\ud800"')},
    "keys of many columns": {"log.csv": LOG + LOG.split("\n")[1].replace("idu=1", "+".join(["a=1"] * 100_000)) + "\n"},
    "a key of many distinct columns": {
        "log.csv": LOG + LOG.split("\n")[1].replace("idu=1", "+".join(f"c{at:06}=1" for at in range(100_000))) + "\n"
    },
    "delimiters": {"log.csv": LOG + "," * 100_000 + "\n"},
    "a quote without an end": {"log.csv": LOG + '1,"' + "x,y\n" * 10_000},
    "times": {"log.csv": LOG + LOG.split("\n")[1].replace("2025", "9" * 30) + "\n"},
    "half a pair in a side file": {
        "S.T__ct.csv": CHANGES,
        "S.T__ct.dfm": '{"dataInfo": {"targetSchema": "\\ud800", "targetTable": "\\ud800", "columns": [{"name":'
        ' "\\ud800", "ordinal": 1, "type": "\\ud800"}]}, "taskInfo": {"name": "\\ud800"}}',
    },
    "a nested side file": {"S.T__ct.csv": CHANGES, "S.T__ct.dfm": "[" * 1_000_000},
    "half a pair in DDL": {
        "S.T__ct.csv": CHANGES,
        "attrep_ddl_history.csv": ddl(
            '{"columns": {"\\ud800": {"action": "ADD", "ordinal": 1}}}', '{"tableNewName": "\\ud800"}', "[" * 100_000
        ),
    },
    "DDL of many columns": {"S.T__ct.csv": CHANGES, "attrep_ddl_history.csv": ddl(*[columns_of(8_000)] * 3)},
}
REFUSED = {
    "columns of one name": {"log.csv": LOG.replace("old_value", "record_id")},
    "more columns than a table has": {"log.csv": ",".join(f"c{at}" for at in range(200_000)) + "\n1\n"},
    "equal names": {"log.csv": ",".join(["a"] * 200_000) + "\n1\n"},
    "names without letters": {"log.csv": ",".join(["("] * 200_000) + "\n" + CHANGES},
}


@pytest.fixture(scope="module")
def summaries(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Ran]:
    """The summaries of captures with these files."""
    folder = tmp_path_factory.mktemp("rows")
    commands: list[list[str | Path]] = []
    for at, files in enumerate((READ | REFUSED).values()):
        capture = folder / str(at)
        capture.mkdir()
        for name, text in files.items():
            (capture / name).write_text(text)
        commands.append(["summary", capture, "--json"])
    return dict(zip(READ | REFUSED, run_each(commands), strict=True))


@pytest.mark.parametrize("name", READ)
def test_what_is_valid_is_read(name: str, summaries: Mapping[str, Ran]) -> None:
    assert summaries[name].is_read, summaries[name].error
    assert summaries[name].facts["events"] >= 2


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_table_is_refused(name: str, summaries: Mapping[str, Ran]) -> None:
    assert summaries[name].code == 2
    assert summaries[name].error.startswith("cdcwb: ")
    assert "Traceback" not in summaries[name].error


def test_a_parquet_file_with_a_column_twice_is_read_or_refused(tmp_path: Path) -> None:
    cases = {
        "log.parquet": (COLUMNS, ROW),
        "S.T__ct.parquet": ((*HEADERS, "id", "name"), CHANGE),
        "messages.parquet": (("key", "value"), ('{"a": 1}', '{"payload": {"op": "c", "after": {"a": 1}}}')),
    }
    commands: list[list[str | Path]] = []
    for name, (columns, values) in cases.items():
        arrays = [pa.array([value]) for value in (*values, values[0])]
        pq.write_table(pa.Table.from_arrays(arrays, names=[*columns, columns[0]]), tmp_path / name)
        commands.append(["summary", tmp_path / name, "--json"])
    commands.append([*commands[-1], "--format", "debezium"])
    log, changes, *messages = run_each(commands)
    assert log.is_read
    assert changes.is_read
    assert all(found.code == 2 or found.is_read for found in messages)


def test_a_look_at_a_file_is_a_look_at_its_beginning(tmp_path: Path) -> None:
    texts = {"one line": b"x" * 20_000_000, "blanks": b" " * 20_000_000, "rows": (b"," * 20_000 + b"\n") * 500}
    commands: list[list[str | Path]] = []
    for name, text in texts.items():
        (tmp_path / name).write_bytes(text)
        commands.append(["identify", tmp_path / name])
    assert all(found.code == 2 and "Traceback" not in found.error for found in run_each(commands, seconds=30))
