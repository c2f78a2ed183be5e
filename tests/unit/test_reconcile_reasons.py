"""Why a change is missing or extra: every reason, in changes of one row whose truth is known."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from cdcwb.analysis.value_comparison import (
    Change,
    Losses,
    Reason,
    Rules,
    changed_columns,
    match,
    reason_words,
    reasons,
    tally_words,
)

T = "shop.orders"
SPANS = ((0, 1_000), (0, 1_000))
NOTHING = Losses()


def made(operation: str, state: str | None, time: int | None, position: str | None = None, **was: str) -> Change:
    """A change of one row at a time; ``was``: the old state, where it is captured."""
    image = {} if operation == "DELETE" else {"id": "1", "state": state}
    row: dict[str, Any] = {"position": position}
    if was:
        row |= {"was": {"state": was["was"]}, "changed": [] if was["was"] == state else ["state"]}
    return Change(operation, image, time, row)


def found(
    source: list[Change],
    target: list[Change],
    rules: Rules | None = None,
    spans: Any = SPANS,
    losses: tuple[Losses, Losses] = (NOTHING, NOTHING),
) -> list[Any]:
    """What is missing or extra, with its reason."""
    rules = rules or Rules()
    pairs = match(source, target, T, rules)
    whys = list(zip(pairs, reasons(pairs, T, rules, spans, losses), strict=True))
    assert all((why is None) == (pair.source is not None and pair.target is not None) for pair, why in whys)
    return [("missing" if pair.target is None else "extra", str(why)) for pair, why in whys if why]


INSERT = made("INSERT", "new", 1)
PAID = made("UPDATE", "paid", 2, was="new")
SENT = made("UPDATE", "sent", 3, was="paid")
GONE = made("DELETE", None, 4)


def test_an_update_whose_list_of_changed_columns_is_empty_changes_nothing() -> None:
    idle = made("UPDATE", "new", 2, was="new")
    assert found([INSERT, idle], [INSERT]) == [("missing", "no_op_update")]
    assert found([INSERT], [INSERT, idle]) == [("extra", "no_op_update")]


def test_without_old_values_the_change_before_shows_that_an_update_changes_nothing() -> None:
    again = made("UPDATE", "new", 2)
    assert found([INSERT, again], [INSERT]) == [("missing", "no_op_update")]
    assert found([again], []) == [("missing", "unexplained")]


COMPRESSED = [made("UPDATE", "paid", 2, "02"), made("UPDATE", "sent", 3, "03")]


@pytest.mark.parametrize(
    ("once", "twice"),
    [
        ([INSERT, PAID], [INSERT, INSERT, PAID]),
        ([INSERT, PAID], [INSERT, PAID, PAID]),
        ([INSERT, PAID, SENT], [INSERT, PAID, SENT, PAID, SENT]),  # a part of the log was read again
        ([INSERT, GONE], [INSERT, GONE, GONE]),
        ([INSERT, *COMPRESSED], [INSERT, *COMPRESSED, *COMPRESSED]),
    ],
)
def test_the_same_change_of_a_row_again_is_a_duplicate(once: list[Change], twice: list[Change]) -> None:
    number = len(twice) - len(once)
    assert found(once, twice) == [("extra", "duplicate")] * number
    assert found(twice, once) == [("missing", "duplicate")] * number


def test_a_row_that_comes_back_to_a_value_or_is_inserted_again_has_no_duplicate() -> None:
    back = made("UPDATE", "new", 3, was="paid")
    toggled = [INSERT, PAID, back, made("UPDATE", "paid", 4, was="new")]
    assert found(toggled, [INSERT, PAID, back]) == [("missing", "unexplained")]
    assert found([INSERT, GONE, INSERT], [INSERT, GONE]) == [("missing", "unexplained")]


def test_a_change_that_the_other_capture_has_elsewhere_is_out_of_order_or_late() -> None:
    swapped = [INSERT, made("UPDATE", "sent", 3), made("UPDATE", "paid", 500)]
    straight = [INSERT, made("UPDATE", "paid", 2), made("UPDATE", "sent", 3)]
    assert sorted(found(straight, swapped)) == [("extra", "out_of_order"), ("missing", "out_of_order")]
    rules = Rules(late_after=timedelta(microseconds=100))
    assert sorted(found(straight, swapped, rules)) == [("extra", "late"), ("missing", "late")]


def test_what_is_beyond_the_other_capture_is_told_by_its_time() -> None:
    spans = ((10, 30), (15, 20))
    source = [made("INSERT", "a", 12), made("UPDATE", "b", 17), made("UPDATE", "c", 25)]
    expected = [("missing", "before_start"), ("missing", "unexplained"), ("missing", "after_end")]
    assert found(source, [], spans=spans) == expected
    assert found([], [made("INSERT", "a", 9)], spans=spans) == [("extra", "before_start")]
    assert found([made("INSERT", "a", None)], [], spans=spans) == [("missing", "unexplained")]
    assert found(source, [], spans=((None, None), (None, None))) == [("missing", "unexplained")] * 3


def test_the_columns_that_a_change_sets_have_their_old_values() -> None:
    (column,) = changed_columns(PAID)
    assert column == {"column": "state", "old": "new", "new": "paid", "old_known": True}
    assert [(one["column"], one["new"], one["old_known"]) for one in changed_columns(INSERT)] == [
        ("id", "1", False),
        ("state", "new", False),
    ]
    assert changed_columns(GONE) == []


def test_every_reason_has_words() -> None:
    assert all(reason.meaning for reason in Reason)
    assert tally_words({"no_op_update": 7, "duplicate": 1}, "missing") == "7 no-op updates, 1 duplicate"
    assert tally_words({"out_of_order": 1, "unexplained": 2}, "extra") == "2 unexplained, 1 out of order"
    assert reason_words("after_end", "missing") == "after the end of the target"
    assert reason_words("before_start", "extra") == "before the start of the source"


def keyed(time: int | None, key: str = "26", transaction: str | None = None) -> Change:
    """An insert of a row at a time."""
    row = {"position": None, "key": f"id={key}", "transaction": transaction}
    return Change("INSERT", {"id": key, "state": "new"}, time, row)


@pytest.mark.parametrize(
    ("unparsed", "reason"),
    [
        (b'{"id":26,"state":"n', "unreadable"),
        (b"id=26;", "unreadable"),
        (b'{"id":27,"at":"2026-02-03', "unexplained"),  # with another key
        (b"\x00\x01", "unexplained"),
    ],
)
def test_a_change_whose_key_is_among_the_unparsed_bytes_of_the_other_capture_is_explained_by_them(
    unparsed: bytes, reason: str
) -> None:
    losses = Losses((b"other", unparsed))
    assert found([], [keyed(20)], losses=(losses, NOTHING)) == [("extra", reason)]
    assert found([keyed(20)], [], losses=(NOTHING, losses)) == [("missing", reason)]
    assert found([], [keyed(20)], losses=(NOTHING, losses)) == [("extra", "unexplained")], "its own bytes are no reason"


def test_a_change_of_a_transaction_that_lacks_events_in_the_other_capture_is_explained_by_the_gap() -> None:
    losses = Losses(transactions=frozenset(["7.1"]))
    assert found([], [keyed(20, transaction="7.1")], losses=(losses, NOTHING)) == [("extra", "transaction_gap")]
    assert found([], [keyed(20, transaction="7.2")], losses=(losses, NOTHING)) == [("extra", "unexplained")]
    assert tally_words({"unreadable": 1, "transaction_gap": 2}, "extra") == (
        "2 transaction gaps, 1 unreadable in the source"
    )
