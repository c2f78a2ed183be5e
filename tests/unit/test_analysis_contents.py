"""What needs no Spark of the questions about a capture's contents, and the choice of transactions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from cdcwb.analysis import contents
from cdcwb.analysis.transaction_filter import TransactionFilter, check_transaction_filter, narrowed
from cdcwb.errors import OptionError
from cdcwb.report.opening import check_parameters, look_at, open_capture
from cdcwb.times import TimeAxis, micros

DATA = Path(__file__).parents[2] / "data"
BY_FILE = {"/in/my file.bin": ("gbase8s", {"labels": "l.json", "cut": True}), "/in/b": ("goldengate", {})}


def test_the_command_that_shows_a_record_can_be_pasted_into_a_shell() -> None:
    said = contents.command("/in/my file.bin", 41, BY_FILE)
    assert said == "cdcwb inspect '/in/my file.bin' --offset 41 --format gbase8s -o labels=l.json -o cut=true"
    assert contents.command("/in/b", 0, BY_FILE) == "cdcwb inspect /in/b --offset 0 --format goldengate"
    assert contents.command("/elsewhere", 3, BY_FILE) == "cdcwb inspect /elsewhere --offset 3"


def test_a_file_without_events_is_counted_in_its_unit() -> None:
    files = [{"file_index": 0, "size": 1178, "rows": 0, "unit": "row"}, {"file_index": 1, "size": 9, "unit": "byte"}]
    counted = contents.ledger(SimpleNamespace(answers={"events": []}), files)
    assert [entry["none"] for entry in counted] == [0, 9]


def test_no_place_is_no_command() -> None:
    assert contents.command(None, None, BY_FILE) is None
    assert contents.command("/in/b", None, BY_FILE) is None


def test_each_file_is_read_as_its_capture_was() -> None:
    capture = SimpleNamespace(format="gbase8s", files=[{"file": "/a/1"}, {"file": "/a/2"}])
    assert contents.readers(capture, {"charset": "gb18030"}) == {
        "/a/1": ("gbase8s", {"charset": "gb18030"}),
        "/a/2": ("gbase8s", {"charset": "gb18030"}),
    }


def test_files_are_named_below_the_folder_that_all_are_in() -> None:
    assert contents.short_names(["/x/y/a.bin", "/x/y/b/c.bin"]) == ["a.bin", "b/c.bin"]
    assert contents.short_names(["/x/part-1/a", "/x/part-2/a"]) == ["part-1/a", "part-2/a"]
    assert contents.short_names(["/x/y/a.bin"]) == ["a.bin"]
    assert contents.short_names([]) == []


SUMMARY = {
    "bytes": 100,
    "rows": 0,
    "unit": "byte",
    "record_bytes": 90,
    "filler_bytes": 8,
    "malformed_bytes": 2,
    "malformed_rows": 0,
    "ledger": "closes",
}


def test_the_sentence_about_the_ledger_says_whether_it_closes_and_what_is_in_it() -> None:
    assert contents.ledger_sentence(SUMMARY) == (
        "All bytes are accounted for, each in exactly one event: 90 bytes decoded, 8 bytes of filler, "
        "2 unparsed (2.00%)."
    )
    opened = contents.ledger_sentence(SUMMARY | {"ledger": "open: a.bin has 3 bytes in no event"})
    assert opened.startswith("Not all bytes are accounted for: a.bin has 3 bytes in no event; 90 bytes decoded")
    assert contents.ledger_sentence(SUMMARY | {"ledger": None}).startswith("Only a part of the capture is shown")
    rows = SUMMARY | {"unit": "row", "rows": 7, "malformed_rows": 1, "malformed_bytes": 0}
    assert "7 rows, 1 row of them unparsed" in contents.ledger_sentence(rows)


def test_a_record_is_dissected_by_a_command_that_names_its_format() -> None:
    assert contents.command("/in/b", 7, BY_FILE) == "cdcwb inspect /in/b --offset 7 --format goldengate"
    assert contents.command(None, None, BY_FILE) is None


def test_bins_are_round_and_cover_the_end() -> None:
    first = datetime(2026, 2, 3, tzinfo=UTC)
    widths = [TimeAxis(first, first + timedelta(microseconds=extent)).bins(121)[1] for extent in (0, 119, 120)]
    assert widths == [1, 1, 2]
    assert TimeAxis(first, first).bins(121, least_us=1_000_000) == (micros(first), 1_000_000)


def test_without_wishes_everything_fits() -> None:
    assert check_transaction_filter() == TransactionFilter()
    assert TransactionFilter().limits == []


def test_wishes_are_understood_and_told_in_words() -> None:
    wanted = check_transaction_filter(["7", "scott"], ["rolled back", "open", "OPEN"], 2, 1000, 1.5)
    assert wanted == TransactionFilter(("7", "scott"), ("rolled_back", "open"), 2, 1000, 1_500_000)
    assert wanted.limits == [
        "transactions of 7 or scott",
        "outcome rolled back or open",
        "at least 2 changes",
        "at least 1 kB",
        "lasting at least 1.5 s",
    ]


def test_lists_and_numbers_given_as_text_are_understood() -> None:
    wanted = check_transaction_filter('["7", "scott"]', '["rolled back"]', "2", "1000", "1.5")
    assert wanted == TransactionFilter(("7", "scott"), ("rolled_back",), 2, 1000, 1_500_000)
    assert check_transaction_filter([2012], "") == TransactionFilter(("2012",))
    with pytest.raises(OptionError, match=r"users: .*; least_changes: expected a whole number from 0 on, found '1.5'"):
        check_transaction_filter('["x"', "[]", "1.5")


def test_all_wrong_wishes_are_named_in_one_message_with_the_nearest_outcome() -> None:
    with pytest.raises(OptionError) as caught:
        check_transaction_filter("scott", ["comitted", "open"], -1, True, float("nan"))
    said = str(caught.value)
    assert "users: expected a list of texts such as [\"x\"], found 'scott'" in said
    assert "there is no outcome 'comitted'. Did you mean 'committed'? There are: committed, rolled_back, open" in said
    assert "least_changes: expected a whole number from 0 on, found -1" in said
    assert "least_bytes: expected a whole number from 0 on, found True" in said
    assert "least_seconds: expected a number from 0 on, found nan" in said


def test_a_page_of_some_transactions_is_about_these_and_what_they_hold() -> None:
    asked = check_parameters(str(DATA / "gbase8s"))
    capture = open_capture(asked)
    page = look_at(capture, capture, asked)
    part = narrowed(page, check_transaction_filter(least_changes=20, outcomes=["committed"]))
    names = ["transaction_id", "outcome", "changes"]
    rows = page.capture.rows("transactions", names).table().to_pylist()
    matching = {
        row["transaction_id"]: sum(number for _, number in row["changes"])
        for row in rows
        if row["outcome"] == "committed" and sum(number for _, number in row["changes"]) >= 20
    }
    assert 1 < len(matching) < len(rows)
    assert part.summary["transactions"] == len(matching)
    assert part.summary["changes"] == sum(matching.values())
    for table in ("transactions", "changes", "problems"):
        ids = part.capture.rows(table, ["transaction_id"]).table()["transaction_id"].to_pylist()
        assert {*ids} <= {*matching}
    assert part.asked.limits == ["outcome committed", "at least 20 changes"]
    assert narrowed(page, TransactionFilter()) is page
