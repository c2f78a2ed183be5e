"""Questions about concurrency, latency, the order of positions and contents, asked of a few rows made by hand.

The truth of the transactions: A from 0 to 10 s, B from 10 to 20 s (not open beside A), C from 12 to 18 s, D begins and
ends at 15 s, E is open since 16 s, F was open when the capture began and ended at 5 s, G ends before it begins, H was
rolled back without a time of its end, I has no time at all. The capture ends at 20 s.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdcwb import model
from cdcwb.analysis import concurrency, contents, integrity, transactions
from cdcwb.analysis.positions import Repeated, missing_numbers, positions, repeated
from cdcwb.analysis.transaction_filter import check_transaction_filter
from tests.changes import Frames, at, change, frame, tables, version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.oldest


def transaction(name: str, began: float | None, ended: float | None, **facts: Any) -> dict[str, Any]:
    number = ord(name) - ord("A") + 1
    begin = f"{number * 0x100000:016X}"
    return {
        "transaction_id": f"{name}@{begin}",
        "begin_position": begin,
        "end_position": None if facts.get("outcome") == "open" else f"{number * 0x100000 + 0x80000:016X}",
        "began_at": None if began is None else at(began),
        "ended_at": None if ended is None else at(ended),
        "outcome": "committed",
        "completeness": "complete",
        "changes": [("INSERT", number)],
        "tables": ["shop.orders"],
        "bytes": number * 100,
        "user": "scott" if number % 2 else "adam",
    } | facts


TRANSACTIONS = [
    transaction("A", 0, 10),
    transaction("B", 10, 20, end_position=f"{0x580000:016X}"),
    transaction("C", 12, 18),
    transaction("D", 15, 15),
    transaction("E", 16, None, outcome="open", completeness="no_end"),
    transaction("F", None, 5, completeness="no_begin", begin_position=None, transaction_id=f"F@~{0x90:016X}")
    | {"end_position": f"{0x180001:016X}"},
    transaction("G", 9, 7, end_position=f"{0x780000:016X}"),
    transaction("H", 3, None, outcome="rolled_back"),
    transaction("I", None, None, outcome="rolled_back"),
]


def captured(spark: SparkSession, folder: Path, rows: list[dict[str, Any]], **other: Any) -> Any:
    return tables(spark, folder, transactions=rows, **other)


@pytest.fixture(scope="module")
def capture(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return captured(spark, tmp_path_factory.mktemp("concurrency"), TRANSACTIONS)


# --- concurrency -----------------------------------------------------------------------------------------------------


def steps(found: concurrency.Concurrency) -> list[tuple[Any, int]]:
    return [(step["at"], step["open"]) for step in found.steps]


def test_a_transaction_is_open_from_its_begin_until_just_before_its_end(capture: Any) -> None:
    found = concurrency.over_time(capture, at(0), at(20))
    assert steps(found) == [
        *((at(0), 2), (at(5), 1)),  # A and F, then A; at 10 B takes the place of A
        *((at(12), 2), (at(16), 3), (at(18), 2), (at(20), 0)),
    ]
    assert (found.most, found.at, found.until) == (3, at(16), at(18))
    assert found.exact


def test_what_has_no_extent_in_time_is_counted_and_not_drawn(capture: Any) -> None:
    found = concurrency.over_time(capture, at(0), at(20))
    assert (found.counted, found.instants, found.backwards, found.one_time, found.no_time) == (5, 1, 1, 1, 1)
    assert found.average == pytest.approx((10 + 10 + 6 + 4 + 5) / 20)


def test_in_few_pieces_a_step_is_the_most_of_its_piece(capture: Any) -> None:
    found = concurrency.over_time(capture, at(0), at(20), pieces=2)
    assert steps(found) == [(at(0), 2), (at(12), 3), (at(20), 0)]
    assert (found.most, found.at, found.until) == (3, at(16), at(18))
    assert not found.exact


def test_a_single_transaction_is_open_alone(spark: SparkSession, tmp_path: Path) -> None:
    one = captured(spark, tmp_path, [transaction("A", 1, 2)])
    found = concurrency.over_time(one, at(1), at(2))
    assert steps(found) == [(at(1), 1), (at(2), 0)]
    assert (found.most, found.at, found.until, found.average) == (1, at(1), at(2), 1.0)


def test_transactions_of_one_instant_are_never_open(spark: SparkSession, tmp_path: Path) -> None:
    same = captured(spark, tmp_path, [transaction("A", 1, 1), transaction("B", 1, 1)])
    found = concurrency.over_time(same, at(1), at(1))
    assert (found.steps, found.most, found.at, found.average, found.instants) == ([], 0, None, None, 2)


def test_an_open_transaction_at_the_end_of_the_capture_lasts_no_time(spark: SparkSession, tmp_path: Path) -> None:
    rows = [transaction("A", 0, 2), transaction("E", 2, None, outcome="open")]
    found = concurrency.over_time(captured(spark, tmp_path, rows), at(0), at(2))
    assert (found.most, found.counted, found.instants) == (1, 1, 1)


def test_without_transactions_or_times_nothing_is_open(spark: SparkSession, tmp_path: Path) -> None:
    empty = captured(spark, tmp_path, [])
    assert concurrency.over_time(empty, None, None).steps == []
    assert concurrency.in_log(empty) == concurrency.InLog(0, None, None, 0)
    assert concurrency.over_time(captured(spark, tmp_path, [transaction("I", None, None)]), None, None).no_time == 1


def test_in_the_log_every_begin_and_end_has_a_place_of_its_own(capture: Any) -> None:
    # F, which was open before, and A; later B with C, with D and with E, and E with each of the others: never three
    found = concurrency.in_log(capture)
    assert (found.most, found.position, found.transaction_id) == (2, f"{0x100000:016X}", f"A@{0x100000:016X}")
    assert found.counted == 9


def test_the_most_in_the_log_is_found_whatever_the_pieces_are(spark: SparkSession, tmp_path: Path) -> None:
    rows = []
    for number in range(40):
        begin, end = 0x9000 + number * 0x10000, 0x9000 + (number + number % 5) * 0x10000 + 0x8000
        place = {"begin_position": f"{begin:016X}", "end_position": f"{end:016X}"}
        rows.append(transaction("A", 0, 1) | place | {"transaction_id": f"{number}@{begin:016X}"})
    events = sorted([(row["begin_position"], 1) for row in rows] + [(row["end_position"], -1) for row in rows])
    level, most, where = 0, 0, ""
    for position, delta in events:
        level += delta
        if level > most:
            most, where = level, position
    found = concurrency.in_log(captured(spark, tmp_path, rows))
    assert (found.most, found.position, found.counted) == (most, where, 40)
    assert found.transaction_id is not None
    assert found.transaction_id.endswith(where)


# --- latency ---------------------------------------------------------------------------------------------------------


def waiting(number: int, seconds: float | None, table: str = "shop.orders", **facts: Any) -> dict[str, Any]:
    """A change at second 100, committed so many seconds later."""
    times = {"changed_at": at(100), "committed_at": None if seconds is None else at(100 + seconds)}
    return change(number, "INSERT", table, **times, **facts)


CHANGES = [
    *[waiting(number, number, "shop.slow") for number in range(1, 100)],
    waiting(100, 0.000_001),
    waiting(101, 0),
    waiting(102, -2),
    waiting(103, None),  # of a full load, or never committed
    change(104, "INSERT", "shop.orders", changed_at=None, committed_at=at(5)),
]


@pytest.fixture(scope="module")
def waits(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = tables(spark, tmp_path_factory.mktemp("latency"), transactions=TRANSACTIONS, changes=CHANGES)
    made.format = "goldengate"
    return made


def test_the_latency_of_changes_is_told_in_shares_of_a_hundred(waits: Any) -> None:
    found, _ = transactions.latency(waits)
    assert (found.known, found.all, found.negative) == (102, 103, 1)
    assert (found.least_us, found.most_us) == (-2_000_000, 99_000_000)
    ranked = sorted([-2_000_000, 0, 1, *[number * 1_000_000 for number in range(1, 100)]])
    assert [found.p50_us, found.p95_us, found.p99_us] == [ranked[50], ranked[96], ranked[100]]


def test_every_latency_is_in_one_bin(waits: Any) -> None:
    found, _ = transactions.latency(waits)
    bins = {row["bin"]: row["count"] for row in found.bins if row["count"]}
    assert bins == {"below 0": 1, "0": 1, "1 µs": 1, "1 s": 1, "2 s": 3, "5 s": 5, "10 s": 10, "20 s": 30, "50 s": 50}
    edges = [row["from_us"] for row in found.bins[1:]]
    assert edges == sorted(edges)
    assert set(edges) <= set(transactions.EDGES)


def test_the_slowest_table_comes_first(waits: Any) -> None:
    found, _ = transactions.latency(waits)
    assert [(row["table"], row["known"], row["most_us"]) for row in found.tables] == [
        ("shop.slow", 99, 99_000_000),
        ("shop.orders", 3, 1),
    ]


def test_transactions_take_from_begin_to_end(waits: Any) -> None:
    _, found = transactions.latency(waits)
    assert (found.known, found.all, found.negative) == (5, 9, 1)
    assert (found.least_us, found.p50_us, found.most_us) == (-2_000_000, 6_000_000, 10_000_000)
    assert found.tables == []


def test_a_format_whose_changes_bear_no_time_tells_of_transactions_only(waits: Any) -> None:
    made = Frames(**vars(waits) | {"format": "gbase8s"})
    changes, found = transactions.latency(made)
    assert changes == transactions.Latency()
    assert found.known == 5


def test_without_transactions_nothing_waits(spark: SparkSession, tmp_path: Path) -> None:
    empty = tables(spark, tmp_path, transactions=[], changes=[])
    empty.format = "idm-event-log"
    assert transactions.latency(empty) == (transactions.Latency(), transactions.Latency())


# --- order of positions ----------------------------------------------------------------------------------------------


def event(file: int, offset: int, position: int | None, **facts: Any) -> dict[str, Any]:
    return (
        dict.fromkeys(model.EVENTS.names)
        | {"format": "idm-event-log", "file": f"/in/f{file}", "file_index": file, "offset": offset, "length": 10}
        | {"offset_unit": "byte", "record_type": "X", "kind": "change", "table_name": "t"}
        | {"position": None if position is None else f"{position:016X}", "transaction_id": f"t{offset}"}
        | facts
    )


def order_of(spark: SparkSession, folder: Path, rows: list[dict[str, Any]]) -> Any:
    events = frame(spark, folder, "events", rows)
    files = [{"file_index": number, "file": f"/in/f{number}"} for number in range(2)]
    made = Frames(spark=spark, format=rows[0]["format"], headers=events, events=events, files=files)
    return positions(made), repeated(made)


def streams_of(spark: SparkSession, folder: Path, rows: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    order, twice = order_of(spark, folder, rows)
    assert twice.positions == 0
    return [(row["stream"], row["records"], row["steps_back"]) for row in order.streams]


def test_steps_back_are_found_across_files_with_the_record_before(spark: SparkSession, tmp_path: Path) -> None:
    rows = [event(0, 0, 1), event(0, 10, 5), event(0, 20, 9), event(1, 0, 6), event(1, 10, 7), event(1, 20, 10)]
    order, twice = order_of(spark, tmp_path, rows)
    (stream,) = order.streams
    assert (stream["stream"], stream["records"], stream["steps_back"], stream["behind"]) == ("", 6, 1, 2)
    assert (stream["first"], stream["last"]) == (f"{1:016X}", f"{10:016X}")
    (place,) = order.places
    assert (place["file"], place["offset"], place["number"]) == ("/in/f1", 0, f"{6:016X}")
    assert (place["earlier_file"], place["earlier_offset"], place["earlier_number"]) == ("/in/f0", 20, f"{9:016X}")
    assert twice == Repeated()


def test_a_position_that_stands_twice_is_no_step_back_but_is_told(spark: SparkSession, tmp_path: Path) -> None:
    rows = [event(0, 0, 1), event(0, 10, 1, kind="filler", transaction_id=None), event(1, 0, 2), event(1, 10, 1)]
    order, twice = order_of(spark, tmp_path, rows)
    assert (order.total("steps_back"), order.total("behind")) == (1, 1)
    assert (twice.positions, twice.surplus) == (1, 2)
    (place,) = twice.places
    assert (place["records"], place["earlier_file"], place["earlier_offset"]) == (3, "/in/f0", 0)
    assert (twice.duplicates, place["what"]) == (1, "same position"), "a filler is not a copy of a change"
    assert (place["file"], place["offset"], place["kind"]) == ("/in/f0", 10, "filler")


def test_records_with_one_position_are_duplicates_where_they_say_the_same(spark: SparkSession, tmp_path: Path) -> None:
    rows = [
        event(0, 0, 1, raw=b"one"),
        event(0, 10, 1, raw=b"one"),
        event(0, 20, 2, raw=b"one"),
        event(0, 30, 2, raw=b"two"),
        event(0, 40, 3, headers=[("table", "a"), ("pos", None)]),
        event(0, 50, 3, headers=[("table", "a"), ("pos", None)]),
        event(0, 60, 4, raw=b"one"),
        event(0, 70, 4, raw=b"one", table_name="u"),
    ]
    _, twice = order_of(spark, tmp_path, rows)
    assert (twice.positions, twice.surplus, twice.duplicates) == (4, 4, 2)
    assert [(place["earlier_offset"], place["offset"], place["what"]) for place in twice.places] == [
        (20, 30, "same position"),
        (60, 70, "same position"),
        (0, 10, "duplicate"),
        (40, 50, "duplicate"),
    ]


def test_what_a_position_does_not_mean_is_not_compared(spark: SparkSession, tmp_path: Path) -> None:
    table = {"format": "qlik-change-table", "schema_name": "shop"}
    rows = [
        event(0, 0, 8),
        event(0, 10, 2, kind="undo"),
        event(0, 20, 0, kind="heartbeat"),
        event(0, 30, None),
        event(0, 40, 9),
    ]
    assert streams_of(spark, tmp_path / "log", rows) == [("", 2, 0)]
    rows = [
        event(1, 0, 20, **table, kind="before"),
        event(1, 10, 20, **table, kind="after"),
        event(1, 20, 21, **table),
    ]
    assert streams_of(spark, tmp_path / "change tables", rows) == [("shop.t", 2, 0)]


def test_partitions_and_change_tables_rise_each_on_their_own(spark: SparkSession, tmp_path: Path) -> None:
    kafka = [
        event(0, number * 10, position, format="qlik-kafka", headers=[("kafka.partition", str(partition))])
        for number, (position, partition) in enumerate([(5, 0), (1, 1), (6, 0), (2, 1), (4, 0)])
    ]
    ct = [
        event(1, 0, 9, format="qlik-change-table", table_name="a"),
        event(1, 10, 3, format="qlik-change-table", table_name="b"),
        event(1, 20, 1, format="qlik-change-table", table_name="b", kind="control"),
    ]
    partitions = [("/in/f0, partition 0", 3, 1), ("/in/f0, partition 1", 2, 0)]
    assert streams_of(spark, tmp_path / "topic", kafka) == partitions
    assert streams_of(spark, tmp_path / "change tables", ct) == [("/in/f1", 1, 0), ("a", 1, 0), ("b", 1, 0)]


def test_numbers_that_are_missing_are_counted_where_a_source_numbers(spark: SparkSession, tmp_path: Path) -> None:
    def message(number: int) -> dict[str, Any]:
        headers = [("kafka.partition", "3"), ("kafka.offset", str(number))]
        return event(0, number, None, format="qlik-kafka", headers=headers)

    log = [event(1, number, None, format="idm-event-log") | {"position": f"{number:019d}"} for number in (1, 2, 9)]

    def missing(*rows: dict[str, Any]) -> list[dict[str, Any]]:
        name = rows[0]["format"]
        files = [{"file_index": number, "file": f"/in/f{number}"} for number in range(3)]
        headers = frame(spark, tmp_path / name, "events", list(rows))
        return missing_numbers(Frames(spark=spark, format=name, headers=headers, files=files))

    assert missing(*log) == [{"stream": "", "numbering": "record_id", "first": 1, "last": 9, "there": 3, "missing": 6}]
    assert missing(*map(message, (4, 5, 8, 8))) == [
        {"stream": "/in/f0, partition 3", "numbering": "offset", "first": 4, "last": 8, "there": 3, "missing": 2}
    ]
    assert missing(event(2, 0, 7, format="gbase8s")) == []


def test_gaps_are_the_problems_that_tell_of_them(spark: SparkSession, tmp_path: Path) -> None:
    problem = {"severity": "warning", "code": "gap", "sentence": "1 of 4 is missing"}
    rows = [problem | {"file": "b", "offset": 1}, problem | {"file": "a", "offset": 9}, problem | {"code": "clock"}]
    made = Frames(problems=frame(spark, tmp_path, "problems", rows))
    assert [(row["file"], row["offset"]) for row in integrity.gaps(made)] == [("a", 9), ("b", 1)]


# --- contents --------------------------------------------------------------------------------------------------------


def test_changes_are_counted_over_time_and_by_table(spark: SparkSession, tmp_path: Path) -> None:
    rows = [
        change(0, "INSERT", "shop.orders"),
        change(1, "UPDATE", "shop.orders"),
        change(60, "INSERT", "shop.lines", changed_at=at(59)),
        change(7, "REFRESH", "shop.orders", committed_at=None, position=None),
        change(8, "TRUNCATE", "", table_name=None),
    ]
    made = tables(spark, tmp_path)
    made.change_headers = frame(spark, tmp_path, "changes", rows)
    found = contents.over_time(made, at(0), at(59))
    assert found.width_us == 500_000
    assert [(row["began_at"], row["operation"], row["changes"]) for row in found.rows] == [
        (at(0), "INSERT", 1),
        (at(1), "UPDATE", 1),
        (at(8), "TRUNCATE", 1),
        (at(59), "INSERT", 1),
    ]
    assert found.without_time == {"REFRESH": 1}
    orders, *others = contents.tables(made)
    assert (orders["table"], orders["changes"]) == ("shop.orders", 3)
    assert orders["operations"] == [("INSERT", 1), ("REFRESH", 1), ("UPDATE", 1)]
    assert (orders["first_time"], orders["last_time"]) == (at(0), at(1))
    assert (orders["first_position"], orders["last_position"]) == (f"{0:016X}", f"{1:016X}")
    assert [row["table"] for row in others] == ["(no table)", "shop.lines"]


def test_without_times_changes_are_counted_all_the_same(spark: SparkSession, tmp_path: Path) -> None:
    rows = [change(0, "INSERT", committed_at=None), change(1, "DELETE", committed_at=None)]
    made = tables(spark, tmp_path)
    made.change_headers = frame(spark, tmp_path, "changes", rows)
    found = contents.over_time(made, None, None)
    assert found.rows == []
    assert found.without_time == {"INSERT": 1, "DELETE": 1}
    assert contents.tables(made)[0]["first_time"] is None


def test_the_ledger_adds_up_what_became_of_each_file(spark: SparkSession, tmp_path: Path) -> None:
    rows = [
        event(0, 0, 1),
        event(0, 10, None, kind="filler", length=3),
        event(0, 13, None, kind="malformed", length=7),
        event(1, 0, 1, offset_unit="row", length=1),
    ]
    files = [
        {"file": "/in/f0", "file_index": 0, "unit": "byte", "size": 20},
        {"file": "/in/f1", "file_index": 1, "unit": "row", "size": 99, "rows": 2},
        {"file": "/in/f2", "file_index": 2, "unit": "byte", "size": 5},
    ]
    made = Frames(headers=frame(spark, tmp_path, "events", rows), files=files)
    names = ("file", "understood", "filler", "malformed", "none")
    assert [tuple(row[name] for name in names) for row in contents.ledger(made, files)] == [
        ("/in/f0", 10, 3, 7, 0),
        ("/in/f1", 1, 0, 0, 1),
        ("/in/f2", 0, 0, 0, 5),
    ]


def test_versions_of_a_table_stand_together_in_the_order_in_which_they_came(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [
        version("shop.b", 1, ["id"], first_event={"file_index": 0, "offset": 0, "length": 5}),
        version("shop.a", 1, ["id", "x"], first_event={"file_index": 0, "offset": 7, "length": 5}),
        version("shop.b", 2, ["id", "y"], first_event={"file_index": 1, "offset": 2, "length": 5}),
        version("shop.b", 3, ["id", "y", "z"], origin="registry"),
    ]
    made = tables(spark, tmp_path, table_versions=rows)
    made.files = [{"file": "/in/f0", "file_index": 0}, {"file": "/in/f1", "file_index": 1}]
    assert [(row["table"], row["names"], row["file"], row["offset"]) for row in contents.versions(made)] == [
        ("shop.a", ["id", "x"], "/in/f0", 7),
        ("shop.b", ["id", "y", "z"], None, None),
        ("shop.b", ["id"], "/in/f0", 0),
        ("shop.b", ["id", "y"], "/in/f1", 2),
    ]


# --- only some transactions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "fitting"),
    [
        ({}, "ABCDEFGHI"),
        ({"users": ["scott"]}, "ACEGI"),
        ({"users": ["nobody"]}, ""),
        ({"outcomes": ["open", "rolled_back"]}, "EHI"),
        ({"least_changes": 8}, "HI"),
        ({"least_bytes": 850}, "I"),
        ({"least_seconds": 6}, "ABC"),
        ({"least_seconds": 4}, "ABCE"),  # E is open for the last four seconds of the capture
        ({"least_seconds": 4, "users": ["adam"], "outcomes": ["committed"]}, "B"),
    ],
)
def test_only_transactions_that_fit_are_looked_at(wanted: dict[str, Any], fitting: str) -> None:
    rows = pa.RecordBatch.from_pylist(TRANSACTIONS, model.TRANSACTIONS)
    found = rows.filter(check_transaction_filter(**wanted).condition(at(20)).mask(rows))
    assert "".join(sorted(name[0] for name in found["transaction_id"].to_pylist())) == fitting
