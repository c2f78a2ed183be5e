"""Lag by hop: the times of each format that has more than one, clocks that disagree, and the worst transactions."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import cdcwb
from cdcwb.analysis.lag import lag
from cdcwb.report.thresholds import judge, parse_thresholds

DATA = Path(__file__).resolve().parents[2] / "data"
BEGIN = datetime(2026, 11, 28, 10, tzinfo=UTC)
MS = int(BEGIN.timestamp() * 1000)


def figures(capture: Any) -> dict[str, tuple[int, int, int]]:
    """For each hop: how many are known, how many are below 0, and p50 in milliseconds."""
    return {row["hop"]: (row["known"], row["negative"], row["p50_us"] // 1000) for row in lag(capture, None).hops}


def debezium(number: int, captured: int, broker: int | None = None, **more: Any) -> str:
    """A change of the transaction ``number``, made ``number`` seconds after the begin; the other times are in ms."""
    source = {"version": "2.7.0.Final", "connector": "postgresql", "name": "a", "db": "d", "snapshot": "false"}
    source |= {"schema": "shop", "table": "orders", "txId": number, "lsn": 100 + number, "ts_ms": MS + 1000 * number}
    value = {"before": None, "after": {"id": number}, "source": source, "op": "c", **more}
    value |= {"ts_ms": MS + 1000 * number + captured, "transaction": None}
    if broker is None:
        return f"{json.dumps(value)}\n"
    return f"CreateTime:{MS + 1000 * number + broker}\t{json.dumps(value)}\n"


def saved(folder: Path, lines: list[str], name: str = "messages.txt") -> Any:
    (folder / name).write_text("".join(lines), encoding="utf-8")
    return cdcwb.load(folder / name)


def test_debezium_has_the_times_of_source_connector_and_broker(tmp_path: Path) -> None:
    found = lag(saved(tmp_path, [debezium(n, captured=100 * n, broker=100 * n + 7) for n in range(1, 21)]), None)
    rows = {row["hop"]: row for row in found.hops}
    assert [*rows] == ["capture", "broker", "total"]
    assert (rows["capture"]["p50_us"], rows["capture"]["p95_us"], rows["capture"]["p99_us"]) == (
        1_000_000,
        1_900_000,
        2_000_000,
    )
    assert (rows["broker"]["p50_us"], rows["broker"]["most_us"]) == (7_000, 7_000)
    assert rows["total"]["most_us"] == 2_007_000
    assert found.blame is not None
    assert found.blame["hop"] == "capture"
    assert found.facts["p95_us_by_hop"] == {"capture": 1_900_000, "broker": 7_000, "total": 1_907_000}


def test_the_worst_transactions_are_those_of_the_slowest_changes(tmp_path: Path) -> None:
    found = lag(saved(tmp_path, [debezium(n, captured=(n * 7) % 31, broker=40) for n in range(1, 30)]), None)
    slowest = [(row["transaction_id"], row["capture"], row["broker"], row["blame"]) for row in found.worst[:2]]
    assert [row[:1] for row in slowest] == [("1",), ("2",)]  # each of them took 40 ms in all: in capture order
    assert slowest[0] == ("1", 7_000, 33_000, "broker")
    assert found.worst[0]["at"] == BEGIN + timedelta(seconds=1)
    assert len(found.worst) == 20


@pytest.mark.parametrize("transactions", [19, 20])
def test_the_table_of_the_worst_transactions_says_that_there_may_be_more(tmp_path: Path, transactions: int) -> None:
    capture = saved(tmp_path, [debezium(n, captured=7, broker=40) for n in range(1, transactions + 1)])
    notes = [getattr(block, "text", "") for block in capture.view.transactions.lag().blocks]
    assert ("Only the 20 transactions with the greatest lag are listed." in notes) == (transactions == 20)


def test_lags_over_time_are_those_of_their_bins(tmp_path: Path) -> None:
    found = lag(saved(tmp_path, [debezium(n, captured=10 if n < 30 else 5_000) for n in range(60)]), None)
    bins = {row["at"]: row["p95_us"] for row in found.over_time}
    assert len(bins) > 20
    assert {us for at, us in bins.items() if at < BEGIN + timedelta(seconds=28)} == {10_000}
    assert {us for at, us in bins.items() if at >= BEGIN + timedelta(seconds=30)} == {5_000_000}


def test_a_lag_below_0_shows_clocks_that_disagree_with_their_bound(tmp_path: Path) -> None:
    capture = saved(tmp_path, [debezium(n, captured=-250 if n % 2 else -90, broker=40) for n in range(10)])
    assert figures(capture)["capture"] == (10, 10, -250)
    answer = capture.view.transactions.lag()
    texts = " ".join(getattr(block, "text", "") for block in answer.blocks)
    assert (
        "10 lags from source to capture below 0: the clocks disagree. That of the capture is at least 0.25 s" in texts
    )
    assert answer.facts["lag_negative_by_hop"] == {"capture": 10}
    assert answer.facts["lag_negative"] == 0  # from the source to the broker


def test_rows_of_a_snapshot_and_placeholders_for_a_time_are_left_out(tmp_path: Path) -> None:
    lines = [debezium(1, captured=100), debezium(2, captured=200).replace('"op": "c"', '"op": "r"')]
    lines += [debezium(3, captured=300).replace(str(MS + 3000), "0", 1)]
    assert figures(saved(tmp_path, lines)) == {"capture": (1, 0, 100)}


def test_canal_has_the_time_of_the_binlog_and_its_own(tmp_path: Path) -> None:
    row = {"data": [{"id": "1"}], "database": "shop", "es": MS, "id": 1, "isDdl": False, "mysqlType": {"id": "int"}}
    row |= {"old": None, "pkNames": ["id"], "sql": "", "sqlType": {"id": 4}, "table": "orders", "ts": MS + 437}
    assert figures(saved(tmp_path, [json.dumps(row | {"type": "INSERT"}) + "\n"])) == {"capture": (1, 0, 437)}


def test_maxwell_and_qlik_have_those_of_source_and_broker(tmp_path: Path) -> None:
    row = {"database": "shop", "table": "orders", "type": "insert", "ts": MS // 1000, "xid": 1, "commit": True}
    line = f"CreateTime:{MS + 1500}\t{json.dumps(row | {'data': {'id': 1}})}\n"
    assert figures(saved(tmp_path, [line])) == {"broker": (1, 0, 1500)}
    assert figures(cdcwb.load(DATA / "qlik-kafka"))["broker"][:2] == (327, 0)


@pytest.mark.parametrize("name", ["op_ts", "blank", "xml"])
def test_goldengate_has_the_times_of_the_operation_and_of_the_formatter(tmp_path: Path, name: str) -> None:
    times = {"op_ts": "2026-11-28 10:00:00.250000", "current_ts": "2026-11-28T10:00:04.000000"}
    if name == "blank":
        times["current_ts"] = times["current_ts"].replace("T", " ")
    row = {"table": "SHOP.ORDERS", "op_type": "I", **times, "pos": "00000000000000000881", "after": {"ID": 1}}
    text, file = json.dumps(row), "messages.json"
    if name == "xml":
        file = "messages.xml"
        stamps = f"ts='{times['op_ts']}' current_ts='{times['current_ts']}'"
        text = f"<operation table='SHOP.ORDERS' type='I' {stamps} pos='00000000000000000881' numCols='1'>"
        text += "<col name='ID' index='0'><before missing='true'/><after><![CDATA[1]]></after></col></operation>"
    assert figures(saved(tmp_path, [f"{text}\n"], file)) == {"capture": (1, 0, 3750)}
    assert figures(cdcwb.load(tmp_path, time_zone="+08:00")) == {"capture": (1, 0, 3750)}


def test_a_time_that_does_not_exist_takes_no_time_from_other_records(tmp_path: Path) -> None:
    row = {"table": "SHOP.ORDERS", "op_type": "I", "op_ts": "2026-11-28 10:00:00", "after": {"ID": 1}}
    times = ("2026-11-28 10:00:02", "2026-11-31 10:00:00", "2026-11-28:10:00:03")
    lines = [f"{json.dumps(row | {'current_ts': time, 'pos': str(n)})}\n" for n, time in enumerate(times)]
    assert figures(saved(tmp_path, lines, "messages.json")) == {"capture": (2, 0, 2000)}


def heartbeat(at: int, broker: int) -> str:
    """A heartbeat of Debezium: its value has nothing but the time of the connector."""
    return f"CreateTime:{MS + at + broker}\t{json.dumps({'ts_ms': MS + at})}\n"


def test_heartbeats_count_for_the_hop_to_the_broker(tmp_path: Path) -> None:
    lines = [debezium(n, captured=100, broker=107) for n in (1, 2)]
    lines += [heartbeat(1000 * n, broker=60) for n in range(3, 9)]
    assert figures(saved(tmp_path, lines)) == {"capture": (2, 0, 100), "broker": (8, 0, 60), "total": (2, 0, 107)}


def test_lags_are_facts_with_thresholds(tmp_path: Path) -> None:
    capture = saved(tmp_path, [debezium(n, captured=-250 if n == 3 else 90_000, broker=90_040) for n in range(1, 20)])
    reports = {"02_transactions": capture.view.transactions.lag().facts}
    texts = ["lag_p95_us > 60000000", "lag_negative_by_hop.capture > 0", "lag_p99_us_by_hop.broker > 95000000"]
    assert judge(parse_thresholds(texts), reports).broken == [
        "lag_p95_us > 60000000: it is 90040000 (02_transactions)",
        "lag_negative_by_hop.capture > 0: it is 1 (02_transactions)",
    ]


@pytest.mark.parametrize("name", ["goldengate", "gbase8s", "qlik-change-table", "sqlserver-ct", "idm-event-log"])
def test_formats_with_one_time_have_no_hop_and_say_so(name: str) -> None:
    answer = cdcwb.load(DATA / name).view.transactions.lag()
    (note,) = answer.blocks
    assert note.text.startswith(f"Records of {name} have one time")
    assert answer.facts["lag_p95_us"] is None
