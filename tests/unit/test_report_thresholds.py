"""Thresholds over facts: a small language that is read, never run."""

from __future__ import annotations

from typing import Any

import pytest

from cdcwb.errors import OptionError
from cdcwb.report.thresholds import check_facts, judge, parse_thresholds

FACTS: dict[str, Any] = {
    "open_transactions": 3,
    "problems": 0,
    "share": 0.25,
    "healthy": False,
    "tone": "bad",
    "longest_us": None,
    "drift_findings": [{"rule": "add"}, {"rule": "drop"}],
    "problems_by_severity": {"error": 2},
    "detected": {"capture charset": "utf-8"},
    "last_position": "20260203080000820000000000000000001",
}


def broken(text: str, facts: dict[str, Any] = FACTS) -> bool:
    said = judge(parse_thresholds([text]), {"02_transactions": facts})
    return bool(said.broken)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("open_transactions > 0", True),
        ("open_transactions>3", False),
        ("open_transactions >= 3", True),
        ("open_transactions < 3", False),
        ("open_transactions <= 3", True),
        ("open_transactions == 3", True),
        ("  open_transactions   !=   3  ", False),
        ("problems > -1", True),
        ("share >= .25", True),
        ("share > 2.5e-1", False),
        ("healthy == false", True),
        ("healthy != false", False),
        ("tone == bad", True),
        ("tone == 'bad'", True),
        ('tone != "good"', True),
        ("tone < good", True),
        ("longest_us == null", True),
        ("longest_us != null", False),
        ("last_position > 20260203080000820000000000000000000", True),
        ("last_position == '20260203080000820000000000000000001'", True),
    ],
)
def test_a_threshold_is_broken_where_it_holds(text: str, holds: bool) -> None:
    assert broken(text) is holds


def test_a_list_counts_by_its_length() -> None:
    assert broken("drift_findings > 1")
    assert not broken("drift_findings > 2")
    assert broken("problems_by_severity == 1")


def test_one_of_several_counts_is_named_behind_a_point_and_is_0_where_it_is_not_there() -> None:
    assert broken("problems_by_severity.error == 2")
    assert broken("problems_by_severity.warning == 0")
    assert broken("detected.capture charset == utf-8")


def test_what_is_not_known_breaks_nothing_and_is_said() -> None:
    said = judge(parse_thresholds(["longest_us > 5"]), {"n": FACTS})
    assert said.broken == []
    assert said.unknown == ["longest_us > 5: longest_us is not known"]


def test_all_that_are_broken_are_named_with_their_value_and_notebook() -> None:
    texts = ["open_transactions > 0", "problems > 0", "drift_findings > 0"]
    reports = {"01_capture": {"open_transactions": 3}, "02_transactions": FACTS}
    assert judge(parse_thresholds(texts), reports).broken == [
        "open_transactions > 0: it is 3 (01_capture, 02_transactions)",
        "drift_findings > 0: it is 2 in number (02_transactions)",
    ]


def test_an_unknown_fact_names_the_nearest_and_those_there_are() -> None:
    kinds = {"open_transactions": "number", "problems": "number"}
    first, second = check_facts(parse_thresholds(["open_transaction > 0", "other > 0"]), kinds)
    assert first == (
        "open_transaction > 0: there is no fact 'open_transaction'. Did you mean 'open_transactions'? "
        "There are: open_transactions, problems."
    )
    assert "there is no fact 'other'" in second


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("tone > 3", "tone is 'bad', a text, which is not compared so with 3"),
        ("problems == none", "problems is 0, a number, which is not compared so with 'none'"),
        ("healthy > 0", "healthy is false, true or false, which is not compared so with 0"),
        ("healthy > true", "healthy is false"),
        ("problems > null", "problems is 0, a number, which is not compared so with null"),
    ],
)
def test_a_comparison_that_makes_no_sense_is_said_and_breaks_nothing(text: str, sentence: str) -> None:
    said = judge(parse_thresholds([text]), {"n": FACTS})
    assert said.broken == []
    assert sentence in said.unknown[0]


def test_a_count_by_a_value_that_does_not_exist_is_refused_before_any_report_is_made() -> None:
    texts = ["problems_by_severity.eror > 0", "problems_by_severity.error > 0", "problems_by_severity.info > 9"]
    (wrong,) = check_facts(parse_thresholds(texts), {"problems_by_severity": "counts"})
    assert wrong.startswith("problems_by_severity.eror > 0: severity has no value 'eror'. Did you mean 'error'? There")


@pytest.mark.parametrize(
    "text",
    [
        *("", "problems", "problems >", "> 0", "problems = 0", "problems => 0", "1 > 0", "x > 0 and y > 0"),
        *("problems > __import__('os')", "problems > 'x", "a.b() > 0 0", "problems >> 0", "problems > 0; x"),
    ],
)
def test_what_is_no_threshold_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="fail-if: expected a comparison such as open_transactions > 0, found"):
        parse_thresholds([text])


def test_every_text_that_is_no_threshold_is_named_at_once() -> None:
    with pytest.raises(OptionError) as caught:
        parse_thresholds(["problems", "changes > 0", "x ="])
    assert "'problems'" in str(caught.value)
    assert "'x ='" in str(caught.value)
    assert "changes" not in str(caught.value)
