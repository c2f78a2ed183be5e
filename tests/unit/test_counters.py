"""Counters of transactions: what came too much."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import cdcwb
from cdcwb.analysis.counters import counters
from cdcwb.analysis.summary import summarize
from cdcwb.analysis.summary_text import verdict

ROOT = Path(__file__).parents[2]


def begin(transaction: str) -> dict[str, Any]:
    return {
        "status": "BEGIN",
        "id": transaction,
        "event_count": None,
        "data_collections": None,
        "ts_ms": 1_700_000_000_000,
    }


def end(transaction: str, count: int) -> dict[str, Any]:
    tables = [{"data_collection": "shop.orders", "event_count": count}]
    return begin(transaction) | {"status": "END", "event_count": count, "data_collections": tables}


def event(lsn: int, number: int, transaction: str = "7:100") -> dict[str, Any]:
    source = {"version": "2.7.0.Final", "connector": "postgresql", "name": "a", "ts_ms": 1_700_000_000_000, "db": "d"}
    source |= {"snapshot": "false", "schema": "shop", "table": "orders", "txId": 7, "lsn": lsn}
    order = {"id": transaction, "total_order": number, "data_collection_order": number}
    after = {"id": lsn, "v": "x"}
    return {
        "before": None,
        "after": after,
        "source": source,
        "op": "c",
        "ts_ms": 1_700_000_000_500,
        "transaction": order,
    }


def captured(tmp_path: Path, *messages: dict[str, Any]) -> Any:
    path = tmp_path / "topic.jsonl"
    path.write_text("".join(f"{json.dumps(message)}\n" for message in messages), encoding="utf-8")
    return cdcwb.load(path, keys=["shop.orders:id"])


def found(tmp_path: Path, *messages: dict[str, Any]) -> list[str]:
    result = counters(captured(tmp_path, *messages))
    assert result.contradictions == len(result.listed)
    return [row["sentence"] for row in result.listed]


def test_numbers_that_agree_are_no_contradiction(tmp_path: Path) -> None:
    messages = [begin("7:100"), event(101, 1), event(102, 2), end("7:110", 2)]
    assert found(tmp_path, *messages) == []
    assert summarize(captured(tmp_path, *messages))["counters"]["transactions"] == 1


def test_a_transaction_that_begins_again_is_one_contradiction_and_its_count_another(tmp_path: Path) -> None:
    messages = [
        begin("7:100"),
        event(101, 1),
        event(102, 2),
        begin("7:100"),
        event(103, 1),
        event(104, 2),
        end("7:110", 2),
    ]
    assert found(tmp_path, *messages) == [
        "it begins 2 times; 2 numbers of its events came again with other records",
        "its end counts 2 events, 4 came",
    ]
    facts = summarize(captured(tmp_path, *messages))
    assert facts["healthy"] is False
    assert verdict(facts) == "Issues found: 2 contradictions of counters."


def test_what_an_end_counts_of_a_table_and_the_numbers_of_its_events_are_compared(tmp_path: Path) -> None:
    of_others = end("7:110", 2) | {"data_collections": [{"data_collection": "d.shop.orders", "event_count": 1}]}
    assert found(tmp_path, begin("7:100"), event(101, 1), event(102, 2), of_others) == [
        "its end counts 1 event of shop.orders, 2 came"
    ]
    second = event(102, 2)
    second["transaction"]["data_collection_order"] = 1
    assert found(tmp_path, begin("7:100"), event(101, 1), second, end("7:110", 2)) == [
        "1 number of its events of shop.orders came again with other records"
    ]


def test_an_event_that_is_delivered_twice_is_no_other_record(tmp_path: Path) -> None:
    assert found(tmp_path, begin("7:100"), event(101, 1), event(101, 1), event(102, 2), end("7:110", 2)) == []


def test_no_event_follows_the_one_that_is_marked_as_the_last(tmp_path: Path) -> None:
    def inserted(number: int, is_last: bool) -> dict[str, Any]:
        headers = {"operation": "INSERT", "transactionId": "4D", "changeSequence": f"20260203040506{number:021}"}
        return {
            "data": {"id": number},
            "headers": headers | {"transactionEventCounter": number, "transactionLastEvent": is_last},
        }

    assert found(tmp_path, inserted(1, True), inserted(2, False)) == ["event 1 is marked as its last, event 2 came"]
    assert found(tmp_path, inserted(1, False), inserted(2, True), inserted(2, True)) == []


def test_an_end_without_a_begin_is_one_where_the_first_event_is_there(tmp_path: Path) -> None:
    sentence = "its first event and its end are in the capture, its begin is not"
    assert found(tmp_path, event(101, 1), event(102, 2), end("7:110", 2)) == [sentence]
    assert found(tmp_path, event(102, 2), end("7:110", 2)) == []  # it began before the capture


@pytest.mark.parametrize(
    "path", sorted(path for path in (ROOT / "data").iterdir() if path.is_dir() and "." not in path.name)
)
def test_the_captures_of_data_have_none(path: Path) -> None:
    assert counters(cdcwb.load(path)).contradictions == 0
