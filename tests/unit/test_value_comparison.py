"""When values of two captures are the same, and which changes of a row belong together."""

from __future__ import annotations

import random
from datetime import timedelta
from decimal import Decimal

import pytest

from cdcwb.analysis.value_comparison import Change, Matched, Rules, canonical, match, read_rules, same
from cdcwb.errors import OptionError

T = "shop.orders"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("42", "42.00"),
        ("-0.50", "-.5"),
        ("1E+3", "1000"),
        ("2026-01-02 03:04:05", "2026-01-02T03:04:05.000000"),
        ("2026-01-02T03:04:05Z", "2026-01-02T04:04:05+01:00"),
        ("2026-01-02", "2026-01-02T00:00:00"),
        ("2026-01-02T03", "2026-01-02 03:00:00.000000"),
        ("paid", "paid   "),
        ("true", "1"),
        ("t", "true"),
        (None, None),
    ],
)
def test_a_value_that_is_written_in_two_ways_is_the_same(one: str | None, other: str | None) -> None:
    assert same(one, other)
    assert same(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("42", "43"),
        ("007", "7"),
        ("", None),
        ("0", None),
        ("1", "t"),
        ("2026-01-02T03:04:05.1", "2026-01-02T03:04:05.2"),
        ("paid", " paid"),
        ("", "0"),
        ("12:30", "12:31"),
    ],
)
def test_values_that_differ_are_not_the_same(one: str | None, other: str | None) -> None:
    assert not same(one, other)
    assert not same(other, one)


def test_numbers_may_differ_by_the_tolerance_and_no_more() -> None:
    assert same("10.00", "10.01", tolerance=Decimal("0.01"))
    assert not same("10.00", "10.011", tolerance=Decimal("0.01"))
    assert not same("10.00", "10.01", "text", Decimal("0.01"))


def test_as_text_a_number_is_its_digits_and_what_is_ignored_never_differs() -> None:
    assert not same("42", "42.0", "text")
    assert same("42", "anything", "ignore")
    assert same("007", "7", "number") is False
    assert canonical("YES", "boolean") == "true"


def test_floating_numbers_of_single_precision_are_the_same_in_their_shortest_and_their_long_form() -> None:
    assert same("22.86", "22.860000610351562", "float")
    assert not same("22.86", "22.860000610351562")
    assert not same("22.86", "22.86001", "float")
    assert same("-0.0", "0", "float")
    assert same("1e300", "1e300", "float")
    assert not same("1e300", "2e300", "float")
    assert same("NaN", "NaN", "float")


def test_rules_name_what_they_do_not_know() -> None:
    with pytest.raises(OptionError, match=r"'nummer'.*Did you mean 'number'"):
        Rules(types={"total": "nummer"})
    with pytest.raises(OptionError, match="from 0 on"):
        Rules(tolerance=Decimal(-1))


def test_rules_map_a_column_of_one_table_before_one_of_all_tables() -> None:
    rules = Rules(tables={T: "dw.orders"}, columns={"total": "amount", f"{T}.total": "sum"}, types={f"{T}.id": "text"})
    assert rules.table(T) == "dw.orders"
    assert rules.column(T, "total") == "sum"
    assert rules.column("shop.other", "total") == "amount"
    assert rules.kind(T, "id") == "text"
    assert rules.kind("shop.other", "id") == "auto"


def update(state: str, time: int | None = None) -> Change:
    return Change("UPDATE", {"id": "1", "state": state}, time)


def kinds(pairs: list[Matched]) -> list[str]:
    return [
        "missing"
        if p.target is None
        else "extra"
        if p.source is None
        else f"different {', '.join(p.columns)}"
        if p.columns
        else "same"
        for p in pairs
    ]


def test_a_change_that_is_missing_does_not_put_the_others_out_of_step() -> None:
    source = [update(s) for s in "abcdef"]
    assert kinds(match(source, source[:2] + source[3:], T, Rules())) == ["same"] * 2 + ["missing"] + ["same"] * 3


def test_a_change_that_is_there_twice_is_extra_once() -> None:
    source = [update(s) for s in "abc"]
    pairs = match(source, [source[0], source[1], source[1], source[2]], T, Rules())
    assert sorted(kinds(pairs)) == ["extra", "same", "same", "same"]


def test_a_change_with_another_value_differs_in_that_column_alone() -> None:
    source = [update("a"), update("b"), update("c")]
    assert kinds(match(source, [source[0], update("x"), source[2]], T, Rules())) == ["same", "different state", "same"]


def test_changes_of_different_operations_are_never_put_together() -> None:
    assert sorted(kinds(match([update("a")], [Change("DELETE", {}, None)], T, Rules()))) == ["extra", "missing"]


def test_columns_that_one_side_did_not_capture_are_not_compared() -> None:
    assert kinds(match([update("a")], [Change("UPDATE", {"id": "1.0"}, None)], T, Rules())) == ["same"]


def test_of_two_equal_changes_the_one_nearer_in_time_is_taken() -> None:
    pairs = match([update("a", 10**9)], [update("a", 0), update("a", 10**9)], T, Rules())
    assert [p.target.time for p in pairs if p.source is not None and p.target is not None] == [10**9]


def test_planted_differences_are_found_and_nothing_else() -> None:
    rng = random.Random(8)
    for _ in range(300):
        source = [update(f"{rng.random():.9f}") for _ in range(rng.randrange(1, 12))]
        target, wanted = [], []
        for change in source:
            what = rng.choice(["same"] * 6 + ["missing", "different state"])
            wanted.append(what)
            if what != "missing":
                target.append(update(f"{rng.random():.9f}") if what != "same" else change)
        found = kinds(match(source, target, T, Rules()))
        assert found.count("same") == wanted.count("same")
        # a change that is missing beside one that differs cannot be told apart from the two swapped
        assert found.count("missing") == wanted.count("missing")
        assert found.count("different state") == wanted.count("different state")
        assert "extra" not in found


def test_late_is_a_span_of_time() -> None:
    assert Rules(late_after=timedelta(seconds=5)).late_after == timedelta(seconds=5)


def test_rules_are_read_from_json() -> None:
    text = '{"tables": {"101": "shop.customer"}, "columns": {"a": "b"}, "types": {"a": "float"}, "tolerance": 0.01}'
    rules = read_rules(text)
    assert (rules.table("101"), rules.column("101", "a"), rules.kind("101", "a")) == ("shop.customer", "b", "float")
    assert rules.tolerance == Decimal("0.01")
    assert read_rules("") == read_rules("{}") == Rules()


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("30", timedelta(seconds=30)),
        ("1.5", timedelta(seconds=1.5)),
        ('"30s"', timedelta(seconds=30)),
        ('"5 min"', timedelta(minutes=5)),
        ('"250 ms"', timedelta(milliseconds=250)),
        ('"1 h"', timedelta(hours=1)),
        ("null", None),
    ],
)
def test_a_span_of_time_in_rules_is_seconds_or_has_a_unit(text: str, span: timedelta | None) -> None:
    assert read_rules(f'{{"late_after": {text}}}').late_after == span


def test_everything_that_is_wrong_with_rules_is_said_at_once() -> None:
    text = '{"tabels": {}, "columns": [], "types": {"a": "flaot"}, "tolerance": "much", "late_after": "soon"}'
    with pytest.raises(OptionError) as caught:
        read_rules(text)
    said = str(caught.value)
    for part in ("'tabels'", "'tables'", "columns: expected an object", "'flaot'", "'float'", "'much'", "'soon'"):
        assert part in said
    for text in ("[]", "{", "3"):
        with pytest.raises(OptionError, match="expected a JSON object"):
            read_rules(text)
