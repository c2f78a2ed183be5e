"""Names that repeat: one rule for every format."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cdcwb.words import unique_names, unused_name

# Few names of few signs: equal names, and names that look like numbered ones, are the rule.
NAMES = st.lists(
    st.one_of(st.sampled_from(["", "a", "A", "a#2", "a#3", "a#2#2", "#2", "é"]), st.text("aA#23", max_size=4))
)


@given(NAMES, st.sets(st.text("a#2", max_size=4)))
@example(["a", "a", "a#2"], set())
@example(["", "", "#2"], {""})
def test_unique_names_are_all_different_and_none_of_them_is_taken(names: list[str], taken: set[str]) -> None:
    found = unique_names(names, taken)
    assert len(found) == len(names) == len(set(found))
    assert not taken.intersection(found)


@given(NAMES)
def test_the_first_of_each_name_keeps_it(names: list[str]) -> None:
    found = unique_names(names)
    assert [found[names.index(name)] for name in names] == names


@given(NAMES)
def test_a_name_that_repeats_gets_a_number_and_never_a_name_of_the_source(names: list[str]) -> None:
    seen: Counter[str] = Counter()
    for name, shown in zip(names, unique_names(names), strict=True):
        seen[name] += 1
        if seen[name] > 1:
            number = int(shown.removeprefix(f"{name}#"))
            assert number >= seen[name]
            assert shown not in names
        else:
            assert shown == name


@given(NAMES)
def test_names_that_are_unique_stay_and_the_same_input_gives_the_same_names(names: list[str]) -> None:
    found = unique_names(names)
    assert unique_names(found) == found
    assert unique_names(iter(names)) == found


@given(st.text("a#2", max_size=4), st.sets(st.text("a#2", max_size=4)))
def test_an_unused_name_is_the_one_of_a_list_of_one(name: str, taken: set[str]) -> None:
    assert (unused_name(name, taken),) == unique_names([name], taken)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], []),
        (["a", "a", "a"], ["a", "a#2", "a#3"]),
        (["a", "a", "a#2"], ["a", "a#3", "a#2"]),
        (["a#2", "a", "a"], ["a#2", "a", "a#3"]),
        (["a", "A", "a"], ["a", "A", "a#2"]),
        (["", ""], ["", "#2"]),
    ],
)
def test_names_get_the_least_number_that_is_free(names: list[str], expected: list[str]) -> None:
    assert list(unique_names(names)) == expected


def test_many_equal_names_are_numbered_in_time_in_proportion_to_their_count() -> None:
    assert unique_names(["a"] * 200_000)[-1] == "a#200000"
