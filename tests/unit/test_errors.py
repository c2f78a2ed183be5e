"""The exceptions: they survive pickling, and the tree drawn in the docstring is the tree there is."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

from cdcwb import errors
from cdcwb.errors import CaptureError

ALL = [error for _, error in inspect.getmembers(errors, inspect.isclass) if issubclass(error, CaptureError)]


@pytest.mark.parametrize("error", ALL)
@pytest.mark.parametrize(
    "place",
    [
        {},
        {"path": "a.bin"},
        {"path": "a.bin", "advice": ("do this",)},
        {"path": "a.bin", "offset": 0, "needed": 40, "available": 12},
    ],
    ids=len,
)
def test_an_error_survives_pickling_with_all_it_carries(error: type[CaptureError], place: dict) -> None:
    before = error("the header is cut off", **place)
    after = pickle.loads(pickle.dumps(before))
    assert type(after) is error
    assert str(after) == str(before)
    assert vars(after) == vars(before)
    assert {name: value for name, value in vars(after).items() if value not in (None, ())} == {
        "message": "the header is cut off",
        **place,
    }


def test_a_message_names_the_place_and_the_bytes() -> None:
    error = errors.TruncatedRecordError("the header is cut off", path="a.bin", offset=7, needed=40, available=12)
    assert str(error) == "a.bin at offset 7: the header is cut off (needed 40 bytes, 12 are there)"


def test_advice_stands_below_the_sentence_line_by_line() -> None:
    error = errors.CaptureError("it is not read:", path="a.bin", advice=("first", "second"))
    assert str(error) == "a.bin: it is not read:\nfirst\nsecond"
    assert error.sentence == "a.bin: it is not read:"


def test_a_truncated_record_is_an_end_of_file_too() -> None:
    with pytest.raises(EOFError):
        raise errors.TruncatedRecordError("the header is cut off")


def test_the_tree_in_the_docstring_is_the_tree_there_is() -> None:
    """Every line `├── Name` stands four columns deeper than its parent."""
    drawn, above = {}, {}
    for indent, name in re.findall(r"^ {4}((?:[│├└ ]{1}[─ ]{2} )*)(\w+Error)\b", errors.__doc__ or "", re.MULTILINE):
        depth = len(indent) // 4
        above[depth] = name
        drawn[name] = above.get(depth - 1)
    real = {error.__name__: error.__bases__[0].__name__ for error in ALL}
    assert drawn == {**real, "CaptureError": None}


def test_all_names_every_public_error() -> None:
    assert sorted(errors.__all__) == sorted(error.__name__ for error in ALL)
