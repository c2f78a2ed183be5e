"""A field of a record, or a value of its row, as a clause of the filter."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcwb.errors import OptionError
from cdcwb.explore.model import Explorer
from tests.explore_captures import DATA, saved

UPDATES = 'table == "customer" and operation == "UPDATE"'
AFTER = 'table == "customer" and kind == "after"'
FORMATS = ("gbase8s", "goldengate", "qlik-kafka", "qlik-change-table", "idm-event-log", "debezium")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {name: saved(DATA / name, tmp_path_factory.mktemp(name) / "saved") for name in FORMATS}


def at(explorer: Explorer, *names: str) -> int:
    """The number of the field below these others."""
    fields = list(explorer.record().field.walk())
    number = 0
    for name in names:
        number = next(place for place in range(number + 1, len(fields)) if fields[place].name == name)
    return number


def chosen(explorer: Explorer, line: str) -> Explorer:
    explorer.apply(line)
    assert explorer.shown
    return explorer


@pytest.mark.parametrize(
    ("name", "line", "field", "clause"),
    [
        ("gbase8s", 'type == "CDC_REC_UPDAFT" and table contains "reading"', ("celsius",), "after.celsius == "),
        ("gbase8s", 'type == "CDC_REC_UPDAFT"', ("sequence_number",), 'position == "0000000B'),
        ("gbase8s", 'type == "CDC_REC_UPDAFT"', ("transaction_id",), 'transaction == "'),
        ("gbase8s", 'kind == "after"', ("record_number",), 'type == "CDC_REC_UPDAFT"'),
        ("gbase8s", 'type == "CDC_REC_UPDBEF"', ("row", "reading_id"), "before.reading_id == "),
        ("goldengate", 'type == "FieldComp"', ("data", "full_name", "value"), 'after.full_name == "Gesa Brook"'),
        ("goldengate", 'type == "FieldComp"', ("LOGCSN", "value"), "csn == "),
        ("goldengate", 'type == "FieldComp"', ("TRANID",), 'transaction == "5.0.1000"'),
        ("goldengate", 'type == "FieldComp"', ("name", "table"), 'table == "shop.customer"'),
        ("qlik-kafka", UPDATES, ("data", "full_name"), 'after.full_name == "Z'),
        ("qlik-kafka", UPDATES, ("beforeData", "full_name"), 'before.full_name == "Y'),
        ("qlik-kafka", UPDATES, ("changeSequence", "time"), 'position == "2026'),
        ("qlik-kafka", UPDATES, ("timestamp",), 'time == "2026-02-03T08:00:25.87'),
        ("qlik-change-table", AFTER, ("header__transaction_id",), 'transaction == "0'),
        ("qlik-change-table", AFTER, ("header__timestamp",) * 2 + ("city",), 'after.city == "'),
        ("idm-event-log", 'operation == "UPDATE"', ("old_value",), 'before.is_member == "false"'),
        ("idm-event-log", 'operation == "UPDATE"', ("new_value",), 'after.is_member == "true"'),
        ("idm-event-log", 'operation == "UPDATE"', ("table_name",), 'table == "customer"'),
    ],
)  # fmt: skip
def test_a_field_is_the_header_or_the_value_that_it_holds(
    name: str, line: str, field: tuple[str, ...], clause: str, made: dict[str, Path]
) -> None:
    explorer = chosen(Explorer.open(made[name]), line)
    row = explorer.chosen
    only, others = explorer.terms(at(explorer, *field))
    assert only.startswith(clause)
    assert others == only.replace(" == ", " != ", 1)
    explorer.add(only)
    assert explorer.filter == f"{line} and {only}"
    explorer.advance()
    assert row in [explorer.row_at(place) for place in range(explorer.shown)]


@pytest.mark.parametrize(
    ("name", "line", "image", "column", "clause"),
    [
        ("gbase8s", 'kind == "before" and table == "shop.orders"', "after", "state", 'after.state == "'),
        ("gbase8s", 'kind == "after" and table == "shop.orders"', "before", "placed_at", 'before.placed_at == "2025-'),
        ("gbase8s", 'table == "everything" and operation == "INSERT"', "after", "c_int", "after.c_int == null"),
        ("goldengate", 'type == "FieldComp"', "key", "customer_id", 'key.customer_id == "3"'),
        ("goldengate", 'table == "orders" and operation == "INSERT"', "after", "placed_at", "after.placed_at == "),
        ("qlik-change-table", 'table == "customer" and kind == "before"', "after", "since", 'after.since == "20'),
    ],
)  # fmt: skip
def test_a_value_of_either_half_is_a_clause(
    name: str, line: str, image: str, column: str, clause: str, made: dict[str, Path]
) -> None:
    explorer = chosen(Explorer.open(made[name]), line)
    row = explorer.chosen
    only, _ = explorer.terms(image=image, column=column)
    assert only.startswith(clause)
    explorer.add(only)
    explorer.advance()
    assert row in [explorer.row_at(place) for place in range(explorer.shown)]


def test_a_field_that_filters_do_not_know_says_so(made: dict[str, Path]) -> None:
    explorer = chosen(Explorer.open(made["gbase8s"]), 'type == "CDC_REC_UPDAFT"')
    for field in (0, at(explorer, "packetization_scheme"), 10_000):
        with pytest.raises(OptionError, match="filters have no name for this field"):
            explorer.terms(field)
    with pytest.raises(OptionError, match="filters have no name for this field"):
        explorer.terms(image="after", column="nothing")
