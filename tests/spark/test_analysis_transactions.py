"""Questions about transactions, asked of a few that are made by hand.

The truth: six transactions. Two committed (10 s and 400 bytes; 1 microsecond and 9,000 bytes), one of a clock that
went backwards, one rolled back without the time of its end, one open since 100 s before the capture ends, and one
without begin whose first record is at …0500. Three changes of the second were undone.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdcwb import model
from cdcwb.analysis import integrity
from cdcwb.analysis import transactions as ask
from cdcwb.analysis.frames import TableSnapshot
from cdcwb.errors import OptionError
from cdcwb.times import TimeAxis
from tests.changes import Frames

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.oldest

START = datetime(2025, 3, 23, 10, 0, 0, tzinfo=UTC)
END = START + timedelta(seconds=100)
BIG = 2**62 + 1  # does not survive a float


def at(seconds: float | None) -> datetime | None:
    return None if seconds is None else START + timedelta(microseconds=round(seconds * 1e6))


def transaction(number: int, began: float | None, ended: float | None, outcome: str, **other: Any) -> dict[str, Any]:
    begin = f"{number * 0x100:016X}"
    return {
        "transaction_id": f"{number}@{begin}",
        "begin_position": begin,
        "end_position": None if outcome == "open" else f"{number * 0x100 + 0xFF:016X}",
        "began_at": at(began),
        "ended_at": at(ended),
        "outcome": outcome,
        "completeness": "no_end" if outcome == "open" else "complete",
        "changes": [("INSERT", 2), ("UPDATE", 1)],
        "tables": ["shop.orders"],
        "bytes": 100,
        "user": "7",
    } | other


TRANSACTIONS = [
    transaction(1, 0, 10, "committed", bytes=400),
    transaction(2, 20, 20.000001, "committed", bytes=9000, changes=[("INSERT", BIG)]),
    transaction(3, 30, 26, "committed"),
    transaction(4, 40, None, "rolled_back", changes=[], tables=[]),
    transaction(6, 0, None, "open"),
    transaction(5, None, 100, "open", completeness="no_begin", begin_position=None)
    | {"transaction_id": "5@~0000000000000500", "end_position": "00000000000005FF"},
]


def change(transaction_id: str, operation: str, outcome: str, position: str, table: str = "orders") -> dict[str, Any]:
    texts = {"format": "gbase8s", "file": "a", "operation": operation, "outcome": outcome, "position": position}
    place = {"file_index": 0, "offset": 0, "length": 1, "schema_name": "shop", "table_name": table}
    return dict.fromkeys(model.CHANGES.names) | texts | place | {"transaction_id": transaction_id}


CHANGES = [
    change("2@0000000000000200", "INSERT", "undone", "0000000000000210"),
    change("2@0000000000000200", "UPDATE", "undone", "0000000000000230", "lines"),
    change("2@0000000000000200", "INSERT", "undone", "0000000000000220"),
    change("2@0000000000000200", "INSERT", "committed", "0000000000000240"),
    change("1@0000000000000100", "INSERT", "undone", "0000000000000110"),
]


def problem(
    severity: str, code: str, sentence: str, file: str | None, offset: int | None, **other: Any
) -> dict[str, Any]:
    row = {"severity": severity, "code": code, "sentence": sentence, "file": file, "offset": offset}
    return dict.fromkeys(model.PROBLEMS.names) | row | other


PROBLEMS = [
    problem("info", "lob_not_in_stream", "one", "a", 1),
    problem("warning", "charset", "second", "a", BIG, transaction_id="2@0000000000000200"),
    problem("warning", "charset", "of no place", None, None, transaction_id="2@0000000000000200"),
    problem("warning", "charset", "first", "a", 5, transaction_id="1@0000000000000100"),
    problem("error", "malformed", "bytes", "b", 0),
]


@pytest.fixture(scope="module")
def capture(spark: SparkSession) -> Frames:
    def frame(rows: list[dict[str, Any]], schema: pa.Schema) -> Any:
        return spark.createDataFrame(pa.Table.from_pylist(rows, schema=schema))

    return Frames(
        spark=spark,
        format="gbase8s",
        stored=False,
        transactions=frame(TRANSACTIONS, model.TRANSACTIONS),
        changes=frame(CHANGES, model.CHANGES),
        change_headers=frame(CHANGES, model.CHANGES),
        problems=frame(PROBLEMS, model.PROBLEMS),
    )


def ids(found: list[dict[str, Any]]) -> list[int]:
    return [int(row["transaction_id"].partition("@")[0]) for row in found]


def test_the_overview_counts_every_transaction(capture: Any) -> None:
    assert ask.overview(capture) == {
        "transactions": 6,
        "transactions_committed": 3,
        "transactions_rolled_back": 1,
        "transactions_open": 2,
        "transactions_complete": 4,
        "transactions_no_begin": 1,
        "transactions_no_end": 1,
        "transactions_gaps": 0,
        "transactions_unknown": 0,
        "transactions_unfinished": 3,
        "transactions_without_time": 0,
        "transactions_with_user": 6,
        "transaction_changes": BIG + 3 * 4,
        "transaction_bytes": 9800,
        "first_time": START,
        "last_time": END,
        "first_position": "0000000000000100",
        "last_position": "0000000000000600",
        "longest_us": 10_000_000,
        "whole_seconds": False,
    }


def test_an_empty_capture_has_an_overview_of_zeros_and_unknowns(capture: Any) -> None:
    nothing = Frames(transactions=capture.transactions.limit(0))
    facts = ask.overview(nothing)
    assert facts["transactions"] == facts["transaction_bytes"] == 0
    assert facts["first_time"] is facts["last_position"] is facts["longest_us"] is None


def test_the_longest_come_first_and_an_open_one_lasts_until_the_end(capture: Any) -> None:
    longest = ask.timeline(capture, 4, until=END)
    assert ids(longest) == [6, 1, 2, 3]
    assert [row["lasted_us"] for row in longest] == [100_000_000, 10_000_000, 1, -4_000_000]
    assert longest[0]["duration_us"] is None  # it has not ended


def test_without_a_known_end_an_open_transaction_has_no_duration(capture: Any) -> None:
    found = [row for row in ask.timeline(capture) if row["lasted_us"] is not None]
    assert ids(found) == [1, 2, 3]


def test_the_timeline_holds_the_longest_and_leaves_nothing_out_below_its_limit(capture: Any) -> None:
    assert ids(ask.timeline(capture, until=END)) == [6, 1, 2, 3, 4, 5]
    assert ids(ask.timeline(capture, 2, until=END)) == [6, 1]


def test_the_first_position_of_a_transaction_without_begin_is_that_of_its_first_record(capture: Any) -> None:
    found = {row["transaction_id"]: row["first_position"] for row in ask.timeline(capture)}
    assert found["5@~0000000000000500"] == "0000000000000500"
    assert found["1@0000000000000100"] == "0000000000000100"


def test_the_largest_have_the_most_bytes_and_keep_every_digit(capture: Any) -> None:
    largest = ask.largest(capture, 2)
    assert [(row["bytes"], row["changes_total"]) for row in largest] == [(9000, BIG), (400, 3)]


def test_unfinished_transactions_begin_with_the_open_ones(capture: Any) -> None:
    assert ids(ask.unfinished(capture)) == [5, 6, 4]
    assert ids(ask.unfinished(capture, 1)) == [5]


def test_committed_transactions_that_are_not_whole_are_unfinished_and_say_what_is_missing(
    spark: SparkSession, capture: Any
) -> None:
    gap = problem("warning", "gap", "1 of 4 is missing", None, None, transaction_id="8@0000000000000800")
    other = problem("warning", "value", "not about what is missing", "a", 5, transaction_id="8@0000000000000800")
    more = [
        transaction(7, 0, 1, "committed", completeness="unknown"),
        transaction(8, 0, 1, "committed", completeness="gaps"),
        transaction(9, 0, 1, "committed", completeness="no_end", end_position=None),
    ]

    def frame(rows: list[dict[str, Any]], schema: pa.Schema) -> Any:
        return spark.createDataFrame(pa.Table.from_pylist(rows, schema=schema))

    lacking = Frames(
        transactions=frame(TRANSACTIONS + more, model.TRANSACTIONS),
        problems=frame([*PROBLEMS, gap, other], model.PROBLEMS),
    )
    assert [(row["transaction_id"][0], row["missing"]) for row in ask.unfinished(lacking)] == [
        ("5", "no begin"),
        ("6", "no end"),
        ("8", "1 of 4 is missing"),
        ("9", "no end"),
        ("4", None),
    ]
    assert ask.overview(lacking)["transactions_unfinished"] == 5


def test_every_transaction_with_a_begin_is_in_one_cell_of_the_histogram(capture: Any) -> None:
    cells, width = ask.histogram(capture, TimeAxis(START, END), bins=10)
    assert width == 15_000_000
    found = {(row["began_at"], row["row"]): row["transactions"] for row in cells}
    assert found == {
        (at(0), "10 s to 1 min"): 1,
        (at(0), "open"): 1,
        (at(15), "under 1 s"): 1,
        (at(30), "ends before it begins"): 1,
        (at(30), "rolled back"): 1,
    }
    assert {row for _, row in found} <= set(ask.BANDS)


def test_bins_are_never_narrower_than_the_clock_can_tell(capture: Any) -> None:
    axis = TimeAxis(START, START + timedelta(seconds=1))
    assert ask.histogram(capture, axis)[1] == 10_000
    assert ask.histogram(capture, axis, least_us=1_000_000)[1] == 1_000_000
    everything = TimeAxis(datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
    assert ask.histogram(capture, everything)[1] > 0


def test_changes_are_counted_by_operation_and_outcome(capture: Any) -> None:
    found = {(row["operation"], row["outcome"]): row["changes"] for row in ask.changes(capture)}
    assert found == {("INSERT", "committed"): 1, ("INSERT", "undone"): 3, ("UPDATE", "undone"): 1}


def test_undone_changes_are_found_with_their_span_and_tables(capture: Any) -> None:
    assert ask.undone(capture)[:1] == [
        {
            "transaction_id": "2@0000000000000200",
            "changes": 3,
            "first_position": "0000000000000210",
            "last_position": "0000000000000230",
            "tables": ["shop.lines", "shop.orders"],
        }
    ]


def test_problems_are_told_worst_first_with_the_first_of_each(capture: Any) -> None:
    found = [
        (r["code"], r["problems"], r["transactions"], r["sentence"], r["offset"]) for r in integrity.by_code(capture)
    ]
    assert found == [
        ("malformed", 1, 0, "bytes", 0),
        ("charset", 3, 2, "first", 5),
        ("lob_not_in_stream", 1, 0, "one", 1),
    ]


def test_places_of_problems_keep_every_digit_of_their_offset(capture: Any) -> None:
    found = [(row["sentence"], row["offset"]) for row in integrity.worst(capture, 4)]
    assert found == [("bytes", 0), ("of no place", None), ("first", 5), ("second", BIG)]


def test_a_snapshot_never_replaces_what_spark_did_not_write(capture: Any, tmp_path: Path) -> None:
    (tmp_path / "changes.parquet").write_text("mine")
    with pytest.raises(
        OptionError, match=r"changes.parquet' already exists and is not a table that Spark wrote; name another folder"
    ):
        TableSnapshot(capture, tmp_path)
