"""A file that somebody changes while it is read: an error that names it, or the complete answer; never a signal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tests.event_logs import COLUMNS
from tests.made import generate

# Runs `cdcwb summary` for some files, each several times in processes of its own. In each, at one of the audit events
# of Python (files that are opened, memory maps, imports …) after the file was first opened, the file becomes shorter.
SHORTEN = """
import json, os, shutil, sys, tempfile
import cdcwb.analysis.summary, cdcwb.local_tables
from cdcwb.cli.app import main
from cdcwb.formats import FORMATS, get_format

def run(file, at):
    events = -1
    def hook(event, arguments):
        nonlocal events
        if events >= 0 or (event == "open" and str(arguments[0]) == file):
            events += 1
            if events == at:
                os.truncate(file, os.path.getsize(file) // 3)
    sys.addaudithook(hook)
    code = main(["summary", file, "--json"])
    print(events, file=sys.stderr, flush=True)
    sys.stdout.flush()
    os._exit(code)

def forked(file, content, at):
    with open(file, "wb") as out:
        out.write(content)
    logs = [f"{file}.{number}.log" for number in (1, 2)]
    folder = tempfile.mkdtemp()
    child = os.fork()
    if not child:
        tempfile.tempdir = folder
        for number, log in enumerate(logs, 1):
            os.dup2(os.open(log, os.O_CREAT | os.O_TRUNC | os.O_WRONLY), number)
        run(file, at)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    shutil.rmtree(folder)
    return code, *(open(log, errors="replace").read() for log in logs)

for name in FORMATS:
    get_format(name)
for line in sys.stdin:
    file = json.loads(line)
    content = open(file, "rb").read()
    whole = forked(file, content, -1)
    total = int(whole[2].split()[-1])
    cuts = [forked(file, content, max(total * part // 8, 1)) for part in (1, 4)]
    print(json.dumps([whole, *cuts]), flush=True)
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, list[tuple[int, str, str]]]]:
    """Of each capture its file, and exit code, output and messages of the command, first for the complete file."""
    made = tmp_path_factory.mktemp("captures")
    files = {name: make(made / str(number)) for number, (name, make) in enumerate(CAPTURES.items())}
    jobs = "".join(f"{json.dumps(str(file))}\n" for file in files.values())
    done = subprocess.run([sys.executable, "-c", SHORTEN], input=jobs, capture_output=True, text=True, check=True)
    found = map(json.loads, done.stdout.splitlines())
    return dict(zip(files, zip(files.values(), found, strict=True), strict=True))


ROWS: list[list[str]] = [
    [*COLUMNS],
    *(
        [str(number), f"id={number // 3}", "N", "6", "2025-03-23 08:00:00", "dba", "person", f"c{number % 3}", "a", "b"]
        for number in range(1, 301)
    ),
]


def event_log(write: Callable[[Path], object], name: str) -> Callable[[Path], Path]:
    def make(to: Path) -> Path:
        to.mkdir()
        write(to / name)
        return to / name

    return make


def csv_log(file: Path) -> None:
    file.write_text("".join(",".join(row) + "\n" for row in ROWS))


def sql_log(file: Path) -> None:
    quoted = [", ".join(f"'{value}'" for value in row) for row in ROWS[1:]]
    head = f"INSERT INTO eventlog ({', '.join(ROWS[0])}) VALUES"
    file.write_text("".join(f"{head} ({row});\n" for row in quoted))


def excel_log(file: Path) -> None:
    made = openpyxl.Workbook()
    for row in ROWS:
        made.active.append(row)
    made.save(file)


def parquet_log(file: Path) -> None:
    columns = [pa.array(column) for column in zip(*ROWS[1:], strict=True)]
    pq.write_table(pa.table(columns, names=ROWS[0]), file)


def generated(name: str, to: Path, changes: int = 12, **options: Any) -> Path:
    made = generate(name, changes=changes, seed=5, to=to, **options) / "capture"
    return max((file for file in made.rglob("*.*") if file.is_file()), key=lambda file: file.stat().st_size)


def hex_text(to: Path) -> Path:
    file = generated("gbase8s", to)
    file.write_text(file.read_bytes().hex(" ", 4))
    return file


CAPTURES: dict[str, Callable[[Path], Path]] = {
    "gbase8s": lambda to: generated("gbase8s", to, 200),
    "gbase8s in hex": hex_text,
    "goldengate": lambda to: generated("goldengate", to, 4),
    "goldengate in XML": lambda to: generated("goldengate", to, form="formatxml"),
    "qlik-kafka": lambda to: generated("qlik-kafka", to),
    "qlik-change-table": lambda to: generated("qlik-change-table", to),
    "debezium": lambda to: generated("debezium", to, 2, refresh_rows=3),
    "debezium in Parquet": lambda to: generated("debezium", to, 2, container="parquet", refresh_rows=3),
    "event log in CSV": event_log(csv_log, "log.csv"),
    "event log in SQL": event_log(sql_log, "log.sql"),
    "event log in Excel": event_log(excel_log, "log.xlsx"),
    "event log in Parquet": event_log(parquet_log, "log.parquet"),
}


@pytest.mark.parametrize("name", CAPTURES)
def test_a_file_that_is_cut_while_it_is_read_is_an_error_that_names_it_or_the_complete_answer(
    name: str, answers: dict[str, tuple[Path, list[tuple[int, str, str]]]]
) -> None:
    file, ((code, output, _), *cut) = answers[name]
    whole = json.loads(output)
    assert code == 0
    assert whole["ledger"] == "closes"
    for code, output, messages in cut:
        assert code in (0, 2), messages
        if code == 2:
            assert file.name in messages
            assert "Traceback" not in messages
        else:
            found = json.loads(output)
            assert found["ledger"] == "closes"
            assert found["events"] == whole["events"] or cut_before_planning(found, whole)


def cut_before_planning(found: dict[str, Any], whole: dict[str, Any]) -> bool:
    """The answer is that of the shorter file, which says so."""
    return bool(found["bytes"] < whole["bytes"])


def test_a_pipe_in_the_place_of_a_captured_file_is_refused_and_does_not_wait(tmp_path: Path) -> None:
    pipe = tmp_path / "stream.bin"
    os.mkfifo(pipe)
    for command in (["summary", pipe], ["identify", pipe], ["inspect", pipe, "--offset", "0"]):
        arguments = [sys.executable, "-m", "cdcwb.cli", *map(str, command)]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 2
        assert "stream.bin" in done.stderr
