"""What differs between two versions of a table, and what Avro says of them."""

from __future__ import annotations

from typing import Any

import pytest

from cdcwb.analysis.versions import (
    Rule,
    avro_type,
    candidates,
    compatibility,
    differences,
    former_names,
    holds,
    reads,
    side_by_side,
)
from cdcwb.model import Severity


def column(name: str, kind: str | None = "INT4", **facts: Any) -> dict[str, Any]:
    nothing = dict.fromkeys(("length", "precision", "scale", "key_position", "nullable"))
    return {"ordinal": 0, "name": name, "type": kind, **nothing, **facts}


ID = column("id", key_position=1, nullable=False)
NAME = column("name", "STRING", length=40)
TOTAL = column("total", "NUMERIC", precision=8, scale=2)
OLD = [ID, NAME, TOTAL]


def rules(old: list[dict[str, Any]], new: list[dict[str, Any]], **asked: Any) -> list[tuple[str, str | None]]:
    return [(str(one.rule), one.column) for one in differences(old, new, **asked)]


def test_versions_that_are_the_same_differ_in_nothing() -> None:
    assert differences(OLD, [dict(one) for one in OLD]) == []
    assert compatibility(OLD, OLD).name == "full"


def test_a_column_more_is_added_and_one_less_is_dropped() -> None:
    assert rules(OLD, [*OLD, column("note", "STRING")]) == [("column_added", "note")]
    assert rules(OLD, OLD[:2]) == [("column_dropped", "total")]


def test_a_column_under_another_name_is_renamed_where_there_is_evidence_and_only_there() -> None:
    new = [ID, column("full_name", "STRING", length=40), TOTAL]
    assert candidates(OLD, new) == [("name", "full_name")]
    assert rules(OLD, new) == [("column_added", "full_name"), ("column_dropped", "name")]
    (found,) = differences(OLD, new, {("name", "full_name"): "the same values"})
    assert (found.rule, found.old, found.new, found.evidence) == (
        Rule.RENAMED,
        "name",
        "full_name",
        "the same values",
    )


def test_a_column_of_another_type_or_place_is_not_the_old_one() -> None:
    assert candidates(OLD, [ID, column("x", "INT8"), TOTAL]) == []
    assert candidates(OLD, [ID, TOTAL, column("full_name", "STRING", length=40)]) == []


@pytest.mark.parametrize(
    ("before", "after", "rule", "severity"),
    [
        (column("x", "INT4"), column("x", "INT8"), "column_retyped", Severity.INFO),
        (column("x", "INT8"), column("x", "INT4"), "column_retyped", Severity.ERROR),
        (column("x", "STRING", length=5), column("x", "STRING", length=9), "column_resized", Severity.INFO),
        (column("x", "STRING", length=9), column("x", "STRING", length=5), "column_resized", Severity.WARNING),
        (
            column("x", "NUMERIC", precision=8, scale=2),
            column("x", "NUMERIC", precision=9, scale=3),
            "column_resized",
            Severity.WARNING,
        ),
        (column("x", nullable=True), column("x", nullable=False), "nullability_changed", Severity.WARNING),
        (column("x", nullable=False), column("x", nullable=True), "nullability_changed", Severity.INFO),
    ],
)
def test_a_column_that_became_another(
    before: dict[str, Any], after: dict[str, Any], rule: str, severity: Severity
) -> None:
    (found,) = differences([ID, before], [ID, after])
    assert (str(found.rule), found.severity, found.column) == (rule, severity, "x")


def test_what_a_source_does_not_say_is_no_difference() -> None:
    assert differences([ID, column("x", None)], [ID, column("x", "INT4")]) == []
    assert differences([column("x", nullable=None)], [column("x", nullable=True)]) == []


def test_other_places_and_another_key_concern_the_table() -> None:
    assert rules(OLD, [ID, TOTAL, NAME]) == [("columns_reordered", None)]
    keyed = [{**ID, "key_position": None}, {**NAME, "key_position": 1}, TOTAL]
    assert ("key_changed", None) in rules(OLD, keyed)


def test_a_reader_needs_a_default_for_what_the_writer_does_not_have() -> None:
    more = compatibility(OLD, [*OLD, column("note", "STRING", nullable=False)])
    assert (more.name, more.forward) == ("forward", [])
    assert "no default" in more.backward[0]
    assert compatibility(OLD, [*OLD, column("note", "STRING")]).name == "full"


def test_a_wider_type_can_be_read_by_the_newer_reader_only() -> None:
    found = compatibility([column("x", "INT4")], [column("x", "INT8")])
    assert (found.name, found.forward) == ("backward", ["x: long cannot be read as int"])


def test_a_renamed_column_is_read_by_its_alias_which_only_the_newer_reader_can_know() -> None:
    old, new = [column("a", nullable=False)], [column("b", nullable=False)]
    assert compatibility(old, new).name == "none"
    found = compatibility(old, new, {"b": "a"})
    assert (found.name, found.forward) == (
        "backward",
        ["a: the reader's column has no default, and the writer has no such column"],
    )
    assert compatibility([column("a")], [column("b")], {"b": "a"}).name == "full"


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("serial", "int"),
        ("bigserial", "long"),
        ("int8", "long"),
        ("134 INT64", "long"),
        ("0 CHAR", "string"),
        ("varchar(60,0)", "string"),
        ("double precision", "double"),
        ("datetime year to second", "timestamp-micros (long)"),
        ("datetime hour to second", "string"),
        ("interval day(3) to second", "string"),
        ("timestamp[us, tz=UTC]", "timestamp-micros (long)"),
        ("date32[day]", "date (int)"),
        ("REAL4", "float"),
        ("BLOB", "bytes"),
    ],
)
def test_types_of_every_format_have_a_type_of_avro(kind: str, wanted: str) -> None:
    assert avro_type(column("x", kind)) == wanted


def test_a_type_that_nobody_knows_has_none() -> None:
    assert avro_type(column("x", "geometry")) is None
    assert avro_type(column("x", None)) is None
    (found,) = differences([column("x", "geometry")], [column("x", "INT4")])
    assert found.severity is Severity.ERROR


def test_decimals_are_read_only_with_the_same_precision_and_scale() -> None:
    assert reads(decimal(10, 2), decimal(10, 2)) is None
    assert "precision of decimals" in str(reads(decimal(10, 2), decimal(8, 2)))
    assert "scale of decimals" in str(reads(decimal(10, 3), decimal(10, 2)))
    assert "precision and scale" in str(reads(decimal(11, 3), decimal(10, 2)))
    assert reads("string", decimal(8, 2)) is not None


def test_a_decimal_with_more_digits_holds_every_old_value_all_the_same() -> None:
    assert holds(decimal(10, 2), decimal(8, 2)) is None
    assert holds(decimal(9, 3), decimal(8, 2)) is None
    assert "fewer digits" in str(holds(decimal(8, 3), decimal(8, 2)))
    assert "fewer digits" in str(holds(decimal(10, 1), decimal(8, 2)))
    assert holds("double", "int") is None
    assert holds("int", "double") is not None


def decimal(precision: int, scale: int) -> str:
    return f"decimal({precision},{scale})"


def test_a_type_that_names_its_sizes_is_resized_and_not_another_type() -> None:
    before = column("x", "decimal(8,2)", precision=8, scale=2)
    (wider,) = differences([before], [column("x", "decimal(10,2)", precision=10, scale=2)])
    (narrower,) = differences([before], [column("x", "decimal(6,2)", precision=6, scale=2)])
    assert (str(wider.rule), wider.severity) == ("column_resized", Severity.INFO)
    assert (str(narrower.rule), narrower.severity) == ("column_resized", Severity.WARNING)


def test_of_two_columns_that_are_gone_the_one_with_the_better_evidence_is_the_renamed_one() -> None:
    old, new = [ID, column("a"), column("b")], [ID, column("c")]
    assert candidates(old, new) == [("a", "c"), ("b", "c")]
    found = differences(old, new, {("b", "c"): "DDL", ("a", "c"): "looks"})
    assert former_names(found) == {"c": "b"}
    assert [(str(one.rule), one.column) for one in found] == [("column_renamed", "c"), ("column_dropped", "a")]


def test_a_version_of_thousands_of_columns_that_all_have_other_names_is_compared_place_by_place() -> None:
    old = [column(f"a{number}") for number in range(4000)]
    new = [column(f"b{number}") for number in range(4000)]
    assert candidates(old, new) == [(f"a{number}", f"b{number}") for number in range(4000)]
    assert len(differences(old, new)) == 8000


def test_a_name_that_a_version_has_twice_is_no_reason_to_fail() -> None:
    assert differences([ID, NAME, NAME], [ID, NAME]) == []
    assert len(list(side_by_side([ID, NAME, NAME], [NAME, ID], differences([ID, NAME, NAME], [NAME, ID])))) == 2


def test_two_versions_side_by_side_name_what_differs_in_each_column() -> None:
    old = [ID, column("a", "INT4"), column("b", "STRING", length=5), column("gone", "DATE"), column("z")]
    new = [ID, column("z"), column("c", "STRING", length=9), column("a", "INT8"), column("more", "DATE")]
    found = differences(old, new, {("b", "c"): "the same values"})
    rows = list(side_by_side(old, new, found))
    assert [(row["old_place"], row["old_name"], row["new_place"], row["new_name"], row["differs"]) for row in rows] == [
        (1, "id", 1, "id", ""),
        (5, "z", 2, "z", "place"),
        (3, "b", 3, "c", "renamed, resized"),
        (2, "a", 4, "a", "retyped, place"),
        (None, None, 5, "more", "added"),
        (4, "gone", None, None, "dropped"),
    ]
    assert (rows[2]["old_kind"], rows[2]["new_kind"]) == ("STRING, 5 bytes", "STRING, 9 bytes")


def test_a_key_that_moves_is_marked_in_its_columns() -> None:
    keyed = [{**ID, "key_position": None}, {**NAME, "key_position": 1}]
    rows = list(side_by_side([ID, NAME], keyed, differences([ID, NAME], keyed)))
    assert [row["differs"] for row in rows] == ["key", "key"]
