"""Which two versions are compared, and what a wrong name is told."""

from __future__ import annotations

import pytest

from cdcwb.analysis.drift import chosen
from cdcwb.analysis.version_order import Version
from cdcwb.errors import OptionError


def version(table: str, number: int, name: str) -> Version:
    facts = {"columns": [], "origin": "record", "lineage": {}, "first_position": f"{number:04}", "changes": 3}
    return Version(table=table, table_version=name, number=number, **facts)


KNOWN = [
    version("shop.customer", 1, "AA11"),
    version("shop.customer", 2, "AB22"),
    version("shop.orders", 1, "BB11"),
    version("shop.orders", 2, "BB22"),
    version("shop.orders", 3, "CC33"),
    version("web.orders", 1, "DD11"),
]


def names(table: str = "", old: str = "", new: str = "") -> tuple[str, str] | None:
    _, found = chosen(KNOWN, table, old, new)
    return None if found is None else (found[0].table_version, found[1].table_version)


def test_without_names_no_two_versions_are_chosen() -> None:
    assert names() is None
    assert names("shop.orders") is None


@pytest.mark.parametrize(
    ("table", "old", "new", "wanted"),
    [
        ("shop.orders", "BB11", "CC33", ("BB11", "CC33")),
        ("shop.orders", "CC33", "BB11", ("CC33", "BB11")),
        ("", "BB11", "CC33", ("BB11", "CC33")),
        ("shop.orders", "1", "3", ("BB11", "CC33")),
        ("shop.orders", "2", "", ("BB22", "CC33")),
        ("", "", "BB22", ("BB11", "BB22")),
        ("customer", "", "2", ("AA11", "AB22")),
        ("", "AB2", "AA11", ("AB22", "AA11")),
    ],
)
def test_versions_are_named_in_full_by_their_beginning_or_by_number(
    table: str, old: str, new: str, wanted: tuple[str, str]
) -> None:
    assert names(table, old, new) == wanted


@pytest.mark.parametrize(
    ("table", "old", "new", "words"),
    [
        ("shop.order", "", "", ["table: there is no 'shop.order'", "Did you mean 'shop.orders'?", "web.orders"]),
        ("orders", "", "", ["table: 'orders' is the name of several: shop.orders, web.orders"]),
        ("shop.orders", "BB12", "", ["old_version: there is no 'BB12'", "There are: BB11, BB22, CC33"]),
        ("", "", "AA11", ["new_version: 'AA11' is the first of shop.customer"]),
        ("", "CC33", "", ["old_version: 'CC33' is the last of shop.orders"]),
        ("shop.orders", "AA11", "ZZ", ["old_version: there is no 'AA11'", "new_version: there is no 'ZZ'"]),
        ("nothing", "ZZ", "YY", ["table: there is no", "old_version: there is no", "new_version: there is no"]),
        ("", "AA11", "CC33", ["new_version: there is no 'CC33'", "There are: AA11, AB22"]),
    ],
)
def test_everything_that_is_wrong_with_a_choice_is_said_in_one_message(
    table: str, old: str, new: str, words: list[str]
) -> None:
    with pytest.raises(OptionError) as raised:
        chosen(KNOWN, table, old, new)
    assert [word for word in words if word not in str(raised.value)] == []


def test_the_tables_whose_steps_are_shown_are_one_or_all() -> None:
    assert chosen(KNOWN, "", "", "")[0] == {"shop.customer", "shop.orders", "web.orders"}
    assert chosen(KNOWN, "customer", "", "")[0] == {"shop.customer"}


def test_a_name_that_does_not_show_is_escaped_in_the_message() -> None:
    with pytest.raises(OptionError, match=r"\\x1b"):
        chosen(KNOWN, "\x1b[31m", "", "")
