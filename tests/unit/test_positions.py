"""The order of positions, in formats whose captures have the order of the log."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import cdcwb
from cdcwb.analysis import positions as module
from cdcwb.analysis.positions import STREAMS, positions
from cdcwb.analysis.summary import summarize
from cdcwb.analysis.summary_text import summary_lines, verdict
from tests.changes import Tables, change

DOCS = Path(__file__).parents[2] / "docs" / "continuity.md"


def steps(format: str, *events: dict[str, Any]) -> list[tuple[int, int]]:
    """The offsets of the records out of order, and of those before them."""
    rows = [
        {name: value for name, value in change(1, "INSERT").items() if name in cdcwb.model.EVENTS.names}
        | {"format": format, "offset": number, **event}
        for number, event in enumerate(events)
    ]
    capture: Any = Tables(events=rows)
    capture.format = format
    capture.files = [{"file_index": 0, "file": "folder/log.bin"}, {"file_index": 1, "file": "folder/next.bin"}]
    found = positions(capture)
    assert found.contradictions == len(found.listed)
    assert not found.listed or found.total("ordered")
    words = [row["sentence"].split() for row in found.listed]
    located = [(int(text[3]), int(text[10])) for text in words]
    assert located == [(row["offset"], row["earlier_offset"]) for row in found.listed]
    return located


def record(position: str, stream: str = "7@01", **facts: Any) -> dict[str, Any]:
    return {"position": position, "transaction_id": stream, **facts}


def test_positions_of_gbase8s_rise_in_a_transaction_and_from_commit_to_commit() -> None:
    interleaved = [record("01"), record("05"), record("02", "8@02"), record("06", "8@02")]
    assert steps("gbase8s", *interleaved) == []
    assert steps("gbase8s", *interleaved, record("04", "8@02"), record("07", "8@02")) == [(4, 3)]
    commits = [record(f"0{at}", f"{at}@", kind="commit") for at in (5, 9, 7)]
    assert steps("gbase8s", *commits) == [(2, 1)]
    undo = record("03", kind="undo")  # a DISCARD has the number of its savepoint
    assert steps("gbase8s", record("01"), record("05"), undo, record("06")) == []


def test_a_position_that_came_before_is_a_repeat() -> None:
    rows = [record(f"0{at}") for at in (1, 2, 3)]
    assert steps("gbase8s", *rows, *rows, record("04")) == []
    assert steps("gbase8s", rows[0], rows[2], *rows) == []


def test_trails_of_goldengate_rise_in_each_file_if_their_number_is_known() -> None:
    known = [record(f"00000000410000000{at}") for at in ("523", "920", "700")]
    assert steps("goldengate", *known) == [(2, 1)]
    assert steps("goldengate", known[1], known[0] | {"file_index": 1, "file": "next.bin"}) == []
    assert steps("goldengate", *(row | {"position": f"{0:010}{row['position'][10:]}"} for row in known)) == []


def headers(partition: str | None = "0", **more: str) -> list[tuple[str, str]]:
    named = {f"source.{name}": value for name, value in more.items()}
    return list(({} if partition is None else {"kafka.partition": partition} | {"kafka.topic": "t"} | named).items())


@pytest.mark.parametrize("format", ["qlik-kafka", "maxwell"])
def test_messages_are_compared_in_their_partition(format: str) -> None:
    first, second = record("09", headers=headers("0")), record("03", headers=headers("0"))
    assert steps(format, first, second) == [(1, 0)]
    assert steps(format, first, second | {"headers": headers("1")}) == []
    assert steps(format, *(row | {"headers": headers(None)} for row in (first, second))) == []


@pytest.mark.parametrize(("connector", "found"), [("mysql", [(1, 0)]), ("postgresql", []), ("oracle", [])])
def test_debezium_is_compared_where_transactions_do_not_interleave(connector: str, found: list[Any]) -> None:
    rows = [record(at, headers=headers(connector=connector, server_id="1")) for at in ("09", "03")]
    assert steps("debezium", *rows) == found
    other = headers(connector=connector, server_id="2")  # after a failover another server's binlog is read
    assert steps("debezium", rows[0], rows[1] | {"headers": other}) == []


@pytest.mark.parametrize("format", ["qlik-change-table", "sqlserver-ct", "idm-event-log", "canal", "goldengate-export"])
def test_other_formats_are_not_checked(format: str) -> None:
    assert steps(format, record("09"), record("03")) == []


def test_the_docs_name_the_formats_that_are_checked() -> None:
    table = DOCS.read_text(encoding="utf-8").partition("| format | bytes | counters |")[2].partition("\n\n")[0]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("| `")]
    checked = {row[0].strip("`") for row in cells if not row[3].startswith("no")}
    assert (checked, len(cells)) == (set(STREAMS), 10)


def maxwell(position: int) -> str:
    row = {"database": "shop", "table": "orders", "type": "insert", "ts": 1_700_000_000, "xid": position}
    row |= {"position": f"binlog.000001:{position}", "data": {"id": position}}
    row |= {"primary_key_columns": ["id"], "commit": True, "xoffset": 0}
    return f"Partition:0\t{json.dumps(row)}\n"


def test_healthy_names_the_check_and_a_position_out_of_order_is_an_issue(tmp_path: Path) -> None:
    path = tmp_path / "topic.txt"
    path.write_text("".join(map(maxwell, (100, 200, 300))), encoding="utf-8")
    facts = summarize(cdcwb.load(path))
    assert facts["positions"] == {"records": 3, "contradictions": 0, "places": []}
    assert verdict(facts).startswith(
        "Healthy: 4 checks passed: every byte, counters, positions, continuity of 1 table;"
    )
    path.write_text("".join(map(maxwell, (100, 300, 200))), encoding="utf-8")
    facts = summarize(cdcwb.load(path))
    assert not facts["healthy"]
    assert verdict(facts) == "Issues found: 1 position out of order."
    (line,) = (line for line in summary_lines(facts) if "which is later in the log" in line)
    later, earlier = (path.read_text(encoding="utf-8").index(f":{at}") for at in (200, 300))
    assert later > earlier
    assert line.strip().startswith("position binlog.000001:0000000200 at ")
    assert "of topic.txt follows position binlog.000001:0000000300 at " in line


def test_a_stream_may_come_in_many_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PLACES", 1000)
    rows = [record(f"{at + (3 if at % 10 == 5 else 0):04}") for at in range(200)]
    assert len(steps("gbase8s", *rows)) == 20


@pytest.mark.parametrize("back", [0.0, 0.02, 0.5])
def test_runs_of_records_have_the_totals_of_their_records(back: float) -> None:
    source = random.Random(int(100 * back))
    number, rows = 1000, list[dict[str, Any]]()
    for offset in range(200):
        number += -source.randrange(30) if source.random() < back else source.randrange(3)
        part = str(source.randrange(3))
        rows.append(record(f"{number:09}", headers=headers(part), file_index=offset // 70, offset=offset % 70))
    expected = {}
    for part in "012":
        own = [row["position"] for row in rows if row["headers"] == headers(part)]
        steps = sum(later < earlier for earlier, later in pairwise(own))
        behind = sum(one < max(own[:at], default="") for at, one in enumerate(own))
        expected[f"t, partition {part}"] = (len(own), steps, behind, min(own), max(own))
    source.shuffle(rows)
    events = [
        {name: value for name, value in change(1, "INSERT").items() if name in cdcwb.model.EVENTS.names}
        | {"format": "qlik-kafka", **row}
        for row in rows
    ]
    capture: Any = Tables(events=events)
    capture.format = "qlik-kafka"
    names = ("records", "steps_back", "behind", "first", "last")
    found = {row["stream"]: tuple(row[name] for name in names) for row in positions(capture).of_positions}
    assert found == expected
