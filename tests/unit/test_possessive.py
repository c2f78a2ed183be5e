"""Patterns mean the same on every Python 3.11: no possessive group may lose its place."""

from __future__ import annotations

import re

import pytest

from tests.possessive import doubtful_groups

SURE = [
    r"[^']*+",
    r"'(?:[^']++|'')*+'",
    r"(?:ab)*+",
    r"(?:(?='')'')*+",
    r"(?:ab?c|(?!))*+",
    r"(?:(?:\](?!\]>)|<|(?!))[^\]]*+)*+",
    r"(?:ab?c)*",
]
DOUBTFUL = [
    r"(?:ab?c)*+",
    r"(?>(?:ab?c)+)",
    r"x(?:ab?c){1,3}+",
    r"(?:\](?!\]>))*+",
    r"(?:(?!\]\]>)\])?+",
    r"(?:\s*,\s*a)*+",
    r"(?:(?<=x)a)*+",
    r"(?:x|a(?:b|cd)e)*+",
    r"(?:ab?c|(?!)|d(?:e|f)g)*+",
]


@pytest.mark.parametrize("pattern", SURE)
def test_a_group_that_cannot_lose_its_place_is_none_of_them(pattern: str) -> None:
    assert doubtful_groups(pattern) == 0


@pytest.mark.parametrize("pattern", DOUBTFUL)
def test_a_group_that_fails_after_it_moved_is_doubtful(pattern: str) -> None:
    assert doubtful_groups(pattern) == 1
    assert doubtful_groups(pattern.encode()) == 1


def test_a_way_back_makes_a_group_right_on_this_python() -> None:
    assert re.match(r"(?:ab?c|(?!))*+", "aca").span() == (0, 2)  # type: ignore[union-attr]
    assert re.match(r"(?:\](?!\]>)[^\]]*+|(?!))*+", "]a]]]>").span() == (0, 3)  # type: ignore[union-attr]


def test_modules_of_the_package_are_refused_a_doubtful_pattern() -> None:
    asking = {"__name__": "cdcwb.imagined", "re": re}
    with pytest.raises(AssertionError, match=r"cdcwb\.imagined: a possessive group without"):
        exec('re.compile("(?:ab?c)*+")', asking)
    with pytest.raises(AssertionError, match=r"cdcwb\.imagined"):
        exec('re.sub("(?:ab?c)*+", "", "aca")', asking)
    exec('re.compile("(?:ab?c|(?!))*+")', asking)
