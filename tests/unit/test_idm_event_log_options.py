"""Options are checked, and say which column is which."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cdcwb.errors import OptionError
from cdcwb.formats.dissector import get_format
from cdcwb.formats.idm_event_log.detect import LogOptions, assign, find_null_text
from cdcwb.formats.idm_event_log.layout import COLUMNS, OLDER_ORDER
from tests.event_logs import ordered, rows

FORMAT: Any = get_format("idm-event-log")
SAMPLE = rows(30)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"colums": "x"}, "Did you mean 'columns'?"),
        ({"columns": {"record": "ID"}}, "unknown option 'record' for columns"),
        ({"columns": "record_id=ID,table_key=ID"}, "found 'ID' for two columns"),
        ({"columns": "status,status"}, "is neither a=x,b=y nor a JSON file"),
        ({"columns": "record_id=ID", "sort_column_names_by": "byte"}, "only one of them"),
        ({"sort_column_names_by": "bytes"}, "expected one of none, byte, ignore_case"),
        ({"charset": "utf-16"}, "save as utf-8"),
        ({"time_zone": "Mars/Olympus"}, "option time_zone: expected an IANA name"),
        ({"delimiter": "none"}, "option delimiter: expected a text"),
        ({"quote": "''"}, "expected one byte"),
        ({"backslash": "maybe"}, "expected true or false"),
        ({"split_size": 1}, "at least 64"),
        ({"keys": "usr:idu"}, "unknown option 'keys' for idm-event-log"),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(OptionError, match=re.escape(sentence)):
        FORMAT.parse_options(given)


def test_options_that_are_auto_are_not_given() -> None:
    found = FORMAT.parse_options(
        {"columns": "auto", "header": "AUTO", "sheet": "", "null_text": "none", "schema": "indirect"}
    )
    assert (found.columns, found.header, found.sheet, found.null_text, found.schema) == (
        *(None, None, None, ""),
        "indirect",
    )
    assert found.names == {"null_text", "schema"}


def told(labels: Any, named: bool, sample: Any, **options: Any) -> dict[str, str]:
    """Vendor's name -> the label of its column."""
    found = assign(labels, named, sample, FORMAT.parse_options(options))
    return {name: labels[place] for name, place in found.places.items()}


def test_names_tell_in_any_case_and_order() -> None:
    labels = ["Table", "EVENT TYPE", "Table_Key", "extra", "new-value"]
    assert told(labels, True, []) == {
        "table_name": "Table",
        "event_type": "EVENT TYPE",
        "table_key": "Table_Key",
        "new_value": "new-value",
    }


@pytest.mark.parametrize("order", [COLUMNS, OLDER_ORDER])
@pytest.mark.parametrize("named", [True, False])
def test_content_tells_the_two_published_orders_apart(order: tuple[str, ...], named: bool) -> None:
    labels = [f"c{place}" for place in range(10)]
    found = assign(labels, named, ordered(SAMPLE, order), LogOptions())
    assert tuple(sorted(found.places, key=lambda name: found.places[name])) == order
    assert found.how == "position"
    assert found.confidence > 0.95
    word = "newer order, with status at 3" if order == COLUMNS else "older order, with status at 2"
    assert word in found.evidence


def test_other_columns_are_none() -> None:
    found = assign(["id", "name"], True, [("1", "x")], LogOptions())
    assert (found.how, found.confidence) == ("nothing", 0.0)
    ten = assign([f"c{place}" for place in range(10)], False, [tuple("abcdefghij")] * 5, LogOptions())
    assert ten.how == "nothing"


def test_the_option_columns_maps_names() -> None:
    labels = ["ID", "KEYTXT", "KIND", "T", "COL"]
    expected = {"record_id": "ID", "table_key": "KEYTXT", "event_type": "KIND"}
    assert told(labels, True, [], columns="record_id=id,table_key=KEYTXT,event_type=KIND") == expected
    assert told(labels, True, [], columns=expected) == expected
    with pytest.raises(OptionError, match=r"no column 'KEYTEXT'. Did you mean 'KEYTXT'\?"):
        told(labels, True, [], columns="table_key=KEYTEXT")
    with pytest.raises(OptionError, match="a name of its own for each column, found 'ID' for two columns"):
        told(labels, True, [], columns="record_id=ID,table_key=ID")


def test_sorted_names_give_positions() -> None:
    names = [f"{letter}_{name}" for letter, name in zip("abcDEFGHIJ", COLUMNS, strict=True)]
    shuffled = sorted(names, key=lambda name: name[2:])
    sample = ordered(SAMPLE, [name[2:] for name in shuffled])
    found = told(shuffled, True, sample, sort_column_names_by="ignore_case")
    assert found == {name[2:]: name for name in names}
    by_byte = told(shuffled, True, [], sort_column_names_by="byte")
    assert by_byte["record_id"] == "D_event_type"  # upper case goes first
    with pytest.raises(OptionError, match="expected 10 columns, found 2"):
        told(["a", "b"], True, [], sort_column_names_by="byte")
    with pytest.raises(OptionError, match="no names here"):
        told(shuffled, False, sample, sort_column_names_by="byte")


@pytest.mark.parametrize("text", ["NULL", "(null)", r"\N"])
def test_a_text_stands_for_null_where_only_null_can_stand(text: str) -> None:
    places = {"event_type": 0, "column_name": 1, "old_value": 2}
    found = find_null_text([("1", "fname", text), ("4", text, text), ("2", "fname", text)], places)
    assert found is not None
    assert found[0] == text
    assert find_null_text([("2", "fname", text), ("1", "fname", "Jack")], places) is None
