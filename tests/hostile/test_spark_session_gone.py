"""A Spark session that was never started, or that was stopped: the explorer does without it, and so does a small
capture; a large one says so in one sentence, or continues in the session that is running instead."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parents[2] / "data"


def output_of(script: str, *arguments: str, **environment: str) -> Any:
    """The last line that a script prints, in a process of its own."""
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


FOLLOWED = """
import json, sys
from cdcwb.explore import explore
from pyspark import SparkContext
explorer = explore(sys.argv[1]).explorer
explorer.apply('table == "shop.customer" and operation == "UPDATE"')
explorer.follow_row()
print(json.dumps([explorer.filter, explorer.shown, explorer.note, SparkContext._active_spark_context is None]))
"""


def test_a_row_is_followed_without_spark() -> None:
    text, shown, note, without_spark = output_of(FOLLOWED, str(DATA / "qlik-kafka"), JAVA_HOME="/nowhere", PATH="")
    assert without_spark
    assert text.startswith('table == "shop.customer" and row == "customer_id=')
    assert shown > 1
    assert note == ""


def test_a_row_is_followed_without_spark_by_an_inferred_key() -> None:
    text, shown, note, without_spark = output_of(FOLLOWED, str(DATA / "gbase8s"), JAVA_HOME="/nowhere", PATH="")
    assert without_spark
    assert "customer_id=" in text
    assert shown > 1
    assert note.startswith("The key of shop.customer is inferred, as no change has one: customer_id is unique in ")


STOPPED = """
import json, sys
from pathlib import Path
import cdcwb
from cdcwb.analysis.export import export
from cdcwb.analysis.summary import summarize
from cdcwb import local_tables, tables
from cdcwb.spark.session import get_spark

local_tables.AT_MOST, tables.MOST_ROWS, tables.MOST_IMAGES = 0, -1, -1  # as if they were large
folder = Path(sys.argv[2])
live = cdcwb.load(sys.argv[1], keys="shop.customer:customer_id")
opened = live.view.drift()
saved = cdcwb.load(live.save(folder / "saved"))
rows = cdcwb.load(live.spark.read.option("header", True).csv(sys.argv[3]), "idm-event-log")
part = live.filter(tables=["shop.customer"])
for capture in (live, saved):
    capture.spark
live.spark.stop()


def outcome(action):
    try:
        action()
        return "no error"
    except Exception as reason:
        return f"{type(reason).__name__}: {reason}"


actions = {}
for name, capture in (("live", live), ("saved", saved), ("filtered", part)):
    for table in ("events", "headers", "changes", "transactions", "table_versions", "problems", "detected"):
        actions[f"{name} {table}"] = lambda c=capture, t=table: getattr(c, t)
    actions[f"{name} history"] = lambda c=capture: c.history("shop.customer", {"customer_id": "1"})
    actions[f"{name} state"] = lambda c=capture: c.state("shop.customer")
    actions[f"{name} summary"] = lambda c=capture: summarize(c)
    actions[f"{name} export"] = lambda c=capture: export(c, "changes", folder / "changes.jsonl")
    actions[f"{name} reconcile"] = lambda c=capture: c.view.reconcile(live)
actions["live table"] = lambda: live.table("shop.customer")
actions["filtered save"] = lambda: part.save(folder / "part")
actions["latency"] = lambda: live.view.transactions.latency()
actions["drift"] = lambda: live.view.drift()
actions["opened page"] = lambda: opened.overview()
actions["rows"] = lambda: rows.changes
stopped = {name: outcome(action) for name, action in actions.items()}
get_spark()
again = {
    "live": live.changes.count(),
    "saved": saved.changes.count(),
    "latency": outcome(live.view.transactions.latency),
    "opened page": outcome(opened.overview),
    "rows": outcome(lambda: rows.changes),
}
print(json.dumps([stopped, again]))
"""


SMALL = """
import json, sys
import cdcwb
from cdcwb.analysis.summary import summarize
live = cdcwb.load(sys.argv[1])
opened = live.view.drift()
live.spark.stop()
facts = [summarize(live)["changes"], bool(opened.overview().facts), bool(live.view.transactions.overview().facts)]
print(json.dumps([*facts, live.rows("changes", ["operation"]).table().num_rows]))
"""


@pytest.mark.spark
def test_a_small_capture_answers_after_spark_was_stopped() -> None:
    assert output_of(SMALL, str(DATA / "gbase8s")) == [900, True, True, 900]


@pytest.mark.spark
def test_after_spark_was_stopped_every_table_and_page_says_so_and_continues_in_the_next_session(tmp_path: Path) -> None:
    log = DATA / "idm-event-log" / "eventlog.csv"
    stopped, again = output_of(STOPPED, str(DATA / "gbase8s"), str(tmp_path), str(log))
    sentence = "CaptureError: the Spark session of this capture was stopped: load the capture again"
    assert {name: found for name, found in stopped.items() if found != sentence} == {}
    assert again["live"] == again["saved"] > 0
    assert again["latency"] == "no error"
    assert again["opened page"] == "CaptureError: the Spark session of this page was stopped: make the page again"
    assert again["rows"] == sentence
    assert not (tmp_path / "part").exists()


KILLED = """
import json, os, signal, sys
import cdcwb
from cdcwb import local_tables
from cdcwb.spark.session import get_spark
local_tables.AT_MOST = 0  # as if it were large
spark = get_spark()
capture = cdcwb.load(sys.argv[1])
os.kill(spark.sparkContext._gateway.proc.pid, signal.SIGKILL)
spark.sparkContext._gateway.proc.wait()
outcomes = []
for action in (lambda: capture.changes, lambda: cdcwb.load(sys.argv[1]), lambda: capture.view.transactions.latency()):
    try:
        outcomes.append(repr(action()))
    except cdcwb.CaptureError as reason:
        outcomes.append(str(reason))
print(json.dumps(outcomes), flush=True)
os._exit(0)  # PySpark would report a lost process
"""


@pytest.mark.spark
def test_a_killed_jvm_is_one_sentence() -> None:
    found = output_of(KILLED, str(DATA / "gbase8s"))
    sentence = "Spark's Java process has ended, perhaps because memory was short: restart the kernel, or the program"
    assert found == [sentence] * 3
