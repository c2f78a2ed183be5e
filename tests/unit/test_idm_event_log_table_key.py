"""Keys of the event log: the grammar both ways, its errors, repairs, and columns of keys at once."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from cdcwb.formats.idm_event_log.decode import (
    BLANKS,
    SPECIAL,
    TableKeyError,
    escape_value,
    parse,
    parse_column,
    same_objects,
)

GUIDE = r'''pkey=", ; ' + \" = \\ < >"'''


def format_key(pairs: Iterable[tuple[str, str]]) -> str:
    """The key of these columns and values."""
    return "+".join(f"{name}={escape_value(value)}" for name, value in pairs)


names = st.text(st.characters(exclude_characters=SPECIAL, codec="utf-8"), min_size=1, max_size=6).filter(
    lambda name: name.strip(BLANKS) != ""
)
values = st.text(st.characters(codec="utf-8"), max_size=8) | st.text(SPECIAL + " a1", max_size=6)
pairs = st.lists(st.tuples(names, values), min_size=1, max_size=4, unique_by=lambda pair: pair[0])
damaged = st.text("ab1 =+\"\\,'\té", max_size=14)
keys = pairs.map(format_key) | damaged | st.sampled_from(["idu=1", "a=1+b=2", "a=1+a=2", "", "idu= 1", GUIDE])


def padded(text: str) -> bool:
    return bool(parse_column(pa.array([text])).padded[0])


def same_object(text: str) -> str:
    found: str = same_objects(pa.array([text]))[0].as_py()
    return found


def error_of(text: str) -> TableKeyError:
    with pytest.raises(TableKeyError) as caught:
        parse(text)
    return caught.value


# --- the grammar ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("idu=1", (("idu", "1"),)),
        ("pk_empno=1", (("pk_empno", "1"),)),
        ("pkey1=value1+pkey2=value2", (("pkey1", "value1"), ("pkey2", "value2"))),
        (GUIDE, (("pkey", ", ; ' + \" = \\ < >"),)),
        ('a=""', (("a", ""),)),
        ('a="x"+b=y', (("a", "x"), ("b", "y"))),
        ("name=John Smith", (("name", "John Smith"),)),
        ("a=ü\n", (("a", "ü\n"),)),
    ],
)
def test_keys_of_the_guide_are_read_with_their_quotes_undone(text: str, expected: tuple[tuple[str, str], ...]) -> None:
    assert parse(text) == expected


def test_blanks_belong_to_what_they_stand_beside_so_the_key_is_another() -> None:
    assert parse("idu= 1") == (("idu", " 1"),)
    assert parse("idu= 1") != parse("idu=1")
    assert parse(" idu =1 ") == ((" idu ", "1 "),)


@pytest.mark.parametrize(
    ("text", "position", "expected", "found"),
    [
        ("", 0, "a column name", "the end"),
        ("=1", 0, "a column name", "'='"),
        (" =1", 0, "a column name", "blanks alone"),
        ("idu", 3, "=", "the end"),
        ("id;u=1", 2, "=", "';'"),
        ("idu=", 4, "a value", "the end"),
        ("idu=<1>", 4, "a value", "'<'"),
        ("idu=1+", 6, "a column name", "the end"),
        ("idu=1+2", 7, "=", "the end"),
        ("idu=1,2", 5, "+ or the end", "','"),
        ("photo=qqo=", 9, "+ or the end", "'='"),
        ("ü=1;", 3, "+ or the end", "';'"),
        ('a="x', 4, "a closing double quote", "the end"),
        ('a="x"y', 5, "+ or the end", "'y'"),
        ('a="x" +b=1', 5, "+ or the end", "' '"),
        (r'a="\n"', 4, "a double quote or \\", "'n'"),
        ('a="\\', 4, "a double quote or \\", "the end"),
        ('a= "x"', 3, "+ or the end", "'\"'"),
        ("a=1+b=2+a=3", 8, "a column that is not in the key yet", "'a' again"),
    ],
)
def test_an_error_says_where_it_is_what_was_expected_and_what_was_found(
    text: str, position: int, expected: str, found: str
) -> None:
    error = error_of(text)
    assert (error.position, error.found) == (position, found)
    assert error.expected.startswith(expected)
    assert str(error) == f"expected {error.expected} at character {position}, found {found}"


def test_an_error_pickles() -> None:
    error = error_of("idu=<1>")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.args, str(again)) == (TableKeyError, error.args, str(error))


def is_key(text: str) -> bool:
    try:
        return bool(parse(text))
    except TableKeyError:
        return False


def can_become_a_key(beginning: str) -> bool:
    return any(is_key(beginning + rest) for rest in ("", "x", "=x", "zz=x", '"', '""'))


@given(damaged)
def test_an_error_stands_at_the_first_character_that_no_key_has_there(text: str) -> None:
    assume(not is_key(text))
    error = error_of(text)
    assert can_become_a_key(text[: error.position])
    if error.found.startswith(("'", '"')) and not error.found.endswith("again"):
        assert error.found == repr(text[error.position])
        assert not can_become_a_key(text[: error.position + 1])


@given(pairs)
@example([("a", SPECIAL)])
@example([("a", ""), ("b", " "), ("c", '\\"'), ("d", "\x00\uffff")])
def test_every_text_comes_back_from_a_key(given_pairs: list[tuple[str, str]]) -> None:
    assert parse(format_key(given_pairs)) == tuple(given_pairs)


@given(values)
def test_quotes_stand_only_where_they_are_needed(value: str) -> None:
    needed = value == "" or any(character in SPECIAL for character in value)
    assert escape_value(value).startswith('"') == needed


# --- repairs and spellings --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["idu=1", "IDU=1", "idu= 1", "Idu =1", 'idu="1"', 'idu=" 1 "', "idu=1 "])
def test_spellings_of_one_key_are_one_object(text: str) -> None:
    assert same_object(text) == "idu=1"


def test_the_order_of_columns_makes_no_other_object_but_the_value_does() -> None:
    assert same_object("b=2+A=1") == same_object("a=1+B=2") == "a=1+b=2"
    assert same_object("idu=a") != same_object("idu=A")
    assert same_object("idu=01") != same_object("idu=1")


def test_what_is_no_key_is_an_object_of_its_own() -> None:
    assert same_object(' a="x ') == 'a="x'
    assert same_object("photo=qqo=") == "photo=qqo="


@pytest.mark.parametrize(
    ("text", "expected"),
    [("idu= 1", True), ("idu =1", True), ("a=1+ b=2", True), ('idu="1 "', True), ("idu=1", False), ("name=AB ", False),
     ("name=A B", False), ("idu=<", False)],
)  # fmt: skip
def test_blanks_are_told_of_names_and_numbers_alone(text: str, expected: bool) -> None:
    assert padded(text) is expected


# --- columns ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.none() | keys, max_size=12), st.integers(0, 3))
@example(["a=1+a=2", "a=1+b=2", None, "x", "a=1"], 0)
@example([" a=1", "é=ü+b=ö", "a=1+b", "a==1", "+", "a=1++b=2"], 1)
def test_a_column_of_keys_says_what_each_key_says(texts: list[str | None], skipped: int) -> None:
    column = pa.array(["x=0"] * skipped + texts, pa.string()).slice(skipped)
    found = parse_column(column)
    found.pairs.validate(full=True)
    assert len(found.pairs) == len(texts)
    for row, text in enumerate(texts):
        error = None if text is None or is_key(text) else error_of(text)
        expected = None if text is None or error is not None else list(parse(text))
        assert found.pairs[row].as_py() == expected
        assert found.padded[row] == (text is not None and padded(text))
        assert (found.errors[row].args if row in found.errors else None) == (None if error is None else error.args)


@given(st.lists(st.none() | keys, max_size=12), st.integers(0, 3))
@example(["İDU=1", "ſ=1", "A =\t1", "a= ", None], 1)
def test_a_column_of_objects_says_what_each_key_is(texts: list[str | None], skipped: int) -> None:
    column = pa.array(["x=0"] * skipped + texts, pa.string()).slice(skipped)
    assert same_objects(column).to_pylist() == [None if text is None else same_object(text) for text in texts]


@pytest.mark.samples
def test_the_published_keys_are_keys_but_for_the_template(samples: Path) -> None:
    lines = (samples / "idm" / "table-keys.txt").read_text(encoding="utf-8").splitlines()
    found = {line: same_object(line) for line in lines if line and not line.startswith("#")}
    assert len(found) == 6
    broken = [line for line in found if line.endswith("<PK_EMPLOYEE>")]
    for line in found:
        if line in broken:
            assert error_of(line).position == line.index("<")
        else:
            assert format_key(parse(line)) == line
    assert parse("idu= 1") == (("idu", " 1"),)
    assert found["idu= 1"] == found["idu=1"]
