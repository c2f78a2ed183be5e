"""A selection is changed step by step, every step can be taken back, and it can be written down."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from cdcwb.errors import OptionError
from cdcwb.index.selection import Selection


def test_a_step_of_several_fields_is_taken_back_at_once() -> None:
    selection = Selection()
    seen: list[Any] = []
    selection.observe(lambda step: seen.append(step["new"]), "version")
    selection.update(tables=["shop.orders"], operations=["UPDATE"])
    selection.tables = ["shop.customer"]
    assert seen == [1, 2]
    selection.undo()
    assert (selection.tables, selection.operations) == (("shop.orders",), ("UPDATE",))
    selection.undo()
    assert selection.chosen() == {}
    selection.undo()
    assert selection.chosen() == {}
    selection.redo()
    selection.redo()
    assert selection.tables == ("shop.customer",)
    assert selection.steps == (2, 0)


def test_what_changes_nothing_is_no_step() -> None:
    selection = Selection(text="a")
    selection.update(text="a", tables=[])
    assert selection.steps == (0, 0)


def test_a_new_step_forgets_what_was_taken_back() -> None:
    selection = Selection()
    selection.update(text="a")
    selection.undo()
    selection.update(text="b")
    selection.redo()
    assert selection.text == "b"


def test_a_selection_is_python_and_parameters() -> None:
    selection = Selection(tables=["shop.orders"], time_from="2025-03-23T09:00:00+01:00", without_time=True)
    assert eval(repr(selection)).values() == selection.values()
    expected = {"tables": ["shop.orders"], "time_from": "2025-03-23T08:00:00+00:00", "without_time": True}
    assert selection.parameters() == expected
    assert selection.time_from == datetime(2025, 3, 23, 8, tzinfo=UTC)
    assert repr(Selection()) == "Selection()"


def test_values_are_toggled_one_by_one() -> None:
    selection = Selection()
    selection.toggle("operations", "UPDATE")
    selection.toggle("operations", "DELETE")
    selection.toggle("operations", "UPDATE")
    assert selection.operations == ("DELETE",)


def test_a_selection_is_kept_under_a_name() -> None:
    selection = Selection(text="late")
    selection.keep(" night ")
    selection.reset()
    assert selection.chosen() == {}
    selection.use("night")
    assert selection.kept == ["night"]
    assert selection.text == "late"
    with pytest.raises(OptionError, match="there is no selection 'nigth'"):
        selection.use("nigth")
    with pytest.raises(OptionError, match="needs a name"):
        selection.keep(" ")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"table": ["x"]}, "no field 'table'. Did you mean 'tables'"),
        ({"tables": [1]}, "tables: expected texts"),
        ({"time_from": "yesterday"}, "time_from: expected an ISO 8601 time, found 'yesterday'"),
        ({"text": 5}, "text"),
        ({"operations": ["update"]}, "operations: operation has no value 'update'. Did you mean 'UPDATE'?"),
        ({"outcomes": ["rolledback"]}, "outcomes: outcome has no value 'rolledback'. Did you mean 'rolled_back'?"),
    ],
)
def test_a_wrong_value_is_an_error_and_changes_nothing(fields: dict[str, Any], sentence: str) -> None:
    selection = Selection(operations=["UPDATE"])
    with pytest.raises(OptionError, match=sentence):
        selection.update(**{"outcomes": ["open"]} | fields)
    assert selection.parameters() == {"operations": ["UPDATE"]}


def test_a_record_is_looked_at_without_a_step() -> None:
    selection = Selection()
    selection.update(record=7)
    assert selection.record == 7
    assert selection.steps == (0, 0)
