"""The rules of the event log's columns, each with the sentence that says what was expected and what was found."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcwb.formats.idm_event_log.decode import numbers_of, xml_unfit
from cdcwb.formats.idm_event_log.events import TypedLog, check, fatal, missing
from cdcwb.formats.idm_event_log.layout import COLUMNS, EVENT_TYPES, LOG, PUBLISHER_NEEDS, STATUSES
from cdcwb.model import Operation, Problem
from tests.reference.idm_rows import whole_number

GOOD = {
    "record_id": "1",
    "table_key": "idu=1",
    "status": "N",
    "event_type": "2",
    "event_time": "2024-01-02 03:04:05",
    "perpetrator": None,
    "table_name": "usr",
    "column_name": "fname",
    "old_value": "Jack",
    "new_value": "John",
}


def log_of(*rows: dict[str, str | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([GOOD | row for row in rows], schema=LOG)


def said_of(
    absent: frozenset[str] = frozenset(), zone: str | None = None, /, **values: str | None
) -> list[tuple[str, str, bool]]:
    """Code, sentence and fatality of what is found in a good row with these values."""
    found = check(TypedLog(log_of({}, values, {}), absent, zone))
    assert {finding.row for finding in found} <= {1}
    return [(str(finding.code), finding.sentence, finding.fatal) for finding in found]


def test_a_good_row_breaks_no_rule() -> None:
    assert said_of() == []
    assert said_of(perpetrator="scott", old_value=None) == []
    for number in EVENT_TYPES:
        assert said_of(event_type=str(number)) == []
    for letter in STATUSES:
        assert said_of(status=letter) == []


@pytest.mark.parametrize("number", [4, 5, 6])
def test_a_row_event_needs_no_column(number: int) -> None:
    assert said_of(event_type=str(number), column_name=None, old_value=None, new_value=None) == []


@pytest.mark.parametrize("number", [1, 2, 3, 7, 8])
@pytest.mark.parametrize(("column", "found"), [(None, "NULL"), ("", "''")])
def test_a_field_event_needs_its_column(number: int, column: str | None, found: str) -> None:
    sentence = f"column_name: expected the column of an event of type {number}, found {found}"
    assert said_of(event_type=str(number), column_name=column) == [("log_rule", sentence, True)]


@pytest.mark.parametrize(
    ("text", "found"),
    [(None, "NULL"), ("", "''"), ("0", "'0'"), ("-1", "'-1'"), ("x", "'x'"), ("1.5", "'1.5'"),
     ("9223372036854775808", "'9223372036854775808'"), ("\x1b", r"'\\x1b'")],
)  # fmt: skip
def test_a_record_id_is_a_positive_whole_number(text: str | None, found: str) -> None:
    sentence = f"record_id: expected a positive whole number of at most 19 digits, found {found}"
    assert said_of(record_id=text) == [("log_rule", sentence, True)]


@pytest.mark.parametrize("text", ["7", " 7 ", "007", "7.0000000000", "+7", "9223372036854775807"])
def test_a_number_may_be_padded(text: str) -> None:
    assert said_of(record_id=text) == []


@pytest.mark.parametrize(
    ("text", "found"), [(None, "NULL"), ("0", "'0'"), ("9", "'9'"), ("N", "'N'"), ("1e0", "'1e0'")]
)
def test_an_event_type_is_one_of_eight(text: str | None, found: str) -> None:
    sentence = f"event_type: expected a number from 1 to 8, found {found}"
    assert said_of(event_type=text) == [("log_rule", sentence, True)]


@pytest.mark.parametrize(
    ("text", "found"),
    [(None, "NULL"), ("", "''"), ("X", "'X'"), ("n", "'n'; N is another status"), ("N ", "'N '; N is another status")],
)
def test_a_status_is_case_sensitive_and_one_of_five(text: str | None, found: str) -> None:
    assert said_of(status=text) == [("log_status", f"status: expected N, S, W, E or F, found {found}", False)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "a time, found NULL"),
        ("", "a time such as 2024-01-02 03:04:05.123456, found ''"),
        ("soon", "a time such as 2024-01-02 03:04:05.123456, found 'soon'"),
    ],
)
def test_an_event_time_is_a_time(text: str | None, expected: str) -> None:
    assert said_of(event_time=text) == [("log_rule", f"event_time: expected {expected}", False)]


def test_an_event_time_that_the_zone_has_twice_is_told() -> None:
    ((code, sentence, is_fatal),) = said_of(frozenset(), "Europe/Berlin", event_time="2024-10-27 02:30:00")
    assert (code, is_fatal) == ("time_zone", False)
    assert "that Europe/Berlin has once, found '2024-10-27 02:30:00'" in sentence


@pytest.mark.parametrize(("text", "found"), [(None, "NULL"), ("", "''")])
def test_a_table_has_a_name(text: str | None, found: str) -> None:
    sentence = f"table_name: expected the name of a table or view, found {found}"
    assert said_of(table_name=text) == [("log_rule", sentence, True)]


def test_a_key_is_there_and_as_the_grammar_has_it() -> None:
    assert said_of(table_key=None) == [("table_key", "table_key: expected column=value, found NULL", True)]
    ((code, sentence, is_fatal),) = said_of(table_key="photo=qqo=")
    assert (code, is_fatal) == ("table_key", True)
    assert "at character 9, found '='" in sentence
    assert sentence.endswith("of 'photo=qqo='")
    ((_, sentence, _),) = said_of(table_key="")
    assert sentence == "table_key: expected a column name at character 0, found the end of ''"


def test_a_padded_number_in_a_key_is_told_and_published() -> None:
    sentence = "table_key: expected no blanks around names and numbers, found 'idu= 1'; "
    sentence += "without them it is the key of another object"
    assert said_of(table_key="idu= 1") == [("table_key", sentence, False)]
    assert said_of(table_key="name=John Smith") == []
    assert said_of(table_key="name=AB  ") == []


@pytest.mark.parametrize("character", ["\x00", "\x0b", "\x1f", "\ufffe", "\uffff"])
@pytest.mark.parametrize(
    ("column", "number"),
    [("table_name", 6), ("column_name", 7), ("new_value", 1), ("new_value", 2), ("new_value", 3), ("old_value", 2)],
)
def test_a_character_that_xml_cannot_hold_is_told_where_it_would_be_written(
    character: str, column: str, number: int
) -> None:
    sentence = f"{column}: expected characters that XML 1.0 allows, found U+{ord(character):04X} at character 1"
    found = said_of(event_type=str(number), **{column: f"é{character}"})
    assert found == [("xml_character", sentence, True)]


@pytest.mark.parametrize(
    ("column", "number"),
    [("old_value", 1), ("old_value", 3), ("old_value", 6), ("new_value", 4), ("new_value", 8), ("perpetrator", 2)],
)
def test_a_value_that_is_not_written_may_hold_any_character(column: str, number: int) -> None:
    assert said_of(event_type=str(number), **{column: "\x00"}) == []


def test_characters_that_xml_can_hold_are_no_problem() -> None:
    fine = "\t\n\r \x7f\x85\ud7ff\ue000\ufffd\U00010000\U0010ffff﷐<&>"
    assert said_of(old_value=fine, new_value=fine, table_name=fine, column_name=fine) == []


def test_a_broken_row_is_told_all_that_is_wrong_in_the_order_of_the_columns() -> None:
    found = check(TypedLog(log_of(dict.fromkeys(COLUMNS), {}, {"status": "x", "record_id": "0"})))
    assert [finding.row for finding in found] == [0] * 6 + [2] * 2
    told = [finding.sentence.partition(":")[0] for finding in found]
    assert told == [
        "record_id", "table_key", "status", "event_type", "event_time", "table_name", "record_id", "status",
    ]  # fmt: skip


def test_columns_that_a_source_lacks_are_told_once_and_where_a_row_needs_them() -> None:
    lacking = frozenset({"event_time", "old_value"})
    assert said_of(lacking, event_time=None, old_value=None) == []
    assert missing(lacking) == [
        (Problem.LOG_RULE, "expected a column event_time, found none: the event log has ten columns"),
        (Problem.LOG_RULE, "expected a column old_value, found none: the Publisher does not start without it"),
    ]
    ((_, sentence, is_fatal),) = [*{*said_of(frozenset({"column_name"}), column_name=None)}]
    assert sentence.endswith("found no such column")
    assert is_fatal
    assert missing(frozenset()) == []
    assert set(PUBLISHER_NEEDS) == {"column_name", "old_value", "new_value"}


def test_the_eight_types_are_those_of_the_guide() -> None:
    assert [one.number for one in EVENT_TYPES.values()] == list(range(1, 9)) == list(EVENT_TYPES)
    assert [number for number, one in EVENT_TYPES.items() if one.per_field] == [1, 2, 3, 7, 8]
    assert [number for number, one in EVENT_TYPES.items() if one.query_back] == [5, 6, 7, 8]
    assert [number for number, one in EVENT_TYPES.items() if one.operation is Operation.INSERT] == [1, 5, 7]
    assert {one.verb for one in EVENT_TYPES.values() if one.operation is Operation.UPDATE} == {"modify"}


def test_typed_columns_are_null_where_there_is_no_value() -> None:
    said = TypedLog(log_of({}, {"record_id": "x", "event_type": "9", "event_time": "x"}, {"event_type": "8"}))
    assert said.record_id.to_pylist() == [1, None, 1]
    assert said.event_type.to_pylist() == [2, None, 8]
    assert said.event_us.to_pylist() == [1_704_164_645_000_000, None, 1_704_164_645_000_000]


numbers_printed = st.from_regex(r"[ \t]?[+-]?0{0,3}\d{0,21}(\.0{0,3}|\.5)?[ \n]?", fullmatch=True) | st.text(max_size=4)


@given(st.lists(st.none() | numbers_printed, max_size=8))
def test_numbers_at_once_are_what_they_are_one_by_one(texts: list[str | None]) -> None:
    assert numbers_of(pa.array(texts, pa.string())).to_pylist() == [whole_number(text) for text in texts]


odd = st.none() | st.sampled_from(["", "1", "5", "idu=1", "idu= 1", "a=<", "N", "x", "\x00", "a\uffffb", "2024-01-01"])


@given(st.lists(st.fixed_dictionaries(dict.fromkeys(COLUMNS, odd)), max_size=6))
def test_rows_that_cannot_be_published_are_those_with_a_fatal_finding(rows: list[dict[str, str | None]]) -> None:
    log = log_of(*rows)
    expected = np.zeros(len(rows), np.bool_)
    expected[[finding.row for finding in check(TypedLog(log)) if finding.fatal]] = True
    assert fatal(TypedLog(log)).tolist() == expected.tolist()


@given(st.lists(st.none() | st.text(st.characters(codec="utf-8"), max_size=4) | st.just("\uffff"), max_size=8))
def test_characters_are_judged_as_xml_1_0_does(texts: list[str | None]) -> None:
    def fits(code: int) -> bool:
        return code in (0x9, 0xA, 0xD) or 0x20 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or code >= 0x10000

    expected = [text is not None and not all(fits(ord(character)) for character in text) for text in texts]
    assert xml_unfit(pa.array(texts, pa.string())).tolist() == expected
