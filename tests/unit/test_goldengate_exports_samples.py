"""The real JSON and XML exports of public sources, one file each, with the values that stand in them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from tests.goldengate_exports import check_fields, rows, sure, table_of
from tests.local import ledger

pytestmark = pytest.mark.samples

JSON = (
    "json-op-delete-ismissing-tokens.json",
    "json-op-insert-ismissing-tokens.json",
    "json-op-update-empty-before-object.json",
    "json-op-update-kafka-python-bytes-repr.txt",
    "json-row-modeled-insert-update.json.txt",
)
ODD = (
    "json-flink-ogg-data.txt",
    "json-op-oracle-docs-iudt-trailing-comma.json",
    "json-op-update-after-only-no-before.json",
)
"""Exports in which something is wrong."""
XML = (
    "xml-oggbd-operation-insert.xml",
    "formatxml-databus-DifferentOperations.xml",
    "formatxml-databus-nullfields.xml",
)


def events(samples: Path, name: str, **options: str) -> list[dict[str, Any]]:
    path = str(samples / "goldengate" / name)
    assert ledger(table_of(path, split_size=100)) == {path: Path(path).stat().st_size}
    return rows(path, **options)


@pytest.mark.parametrize("name", JSON + XML)
def test_every_export_is_recognised_and_read_without_a_problem(samples: Path, name: str) -> None:
    assert sure(str(samples / "goldengate" / name)) > 0.9
    for row in events(samples, name):
        assert (row["kind"] in ("change", "before", "after", "filler"), row["problems"]) == (True, None)
        assert row["changed_at"] is None


def test_nothing_else_is_taken_for_an_export(samples: Path) -> None:
    for path in sorted((samples / "goldengate").iterdir()):
        assert (sure(str(path)) > 0) == (path.name in JSON + XML + ODD), path.name


@pytest.mark.parametrize("name", JSON + XML)
def test_every_byte_of_a_record_stands_in_its_tree(samples: Path, name: str) -> None:
    kind = "json" if name in JSON else "xml"
    for row in events(samples, name):
        tree = check_fields(row["raw"], kind)
        assert b"".join(node.raw for node in tree.walk() if not node.children) == row["raw"]
        assert not [node for node in tree.walk() if node.problem]


def test_a_delete_with_missing_columns(samples: Path) -> None:
    (row,) = events(samples, "json-op-delete-ismissing-tokens.json")
    key = {"CUST_CODE": "DAVE", "ORDER_DATE": "1993-11-03:07:51:35", "PRODUCT_CODE": "PLANE", "ORDER_ID": "600"}
    assert (row["operation"], row["before"], row["after"], row["key"]) == ("DELETE", key, None, key)
    assert (row["position"], row["transaction_id"]) == ("00000000000000004338", "9.0.80330")
    assert (row["schema_name"], row["table_name"]) == ("GG", "TCUSTORD")
    assert row["headers"]["L"] == row["headers"]["csn"] == "206080450"
    assert row["headers"]["R"] == "AADPkvAAEAAEqLzAAC"


def test_an_insert_whose_transaction_is_not_told(samples: Path) -> None:
    (row,) = events(samples, "json-op-insert-ismissing-tokens.json")
    assert (row["operation"], row["before"], row["transaction_id"]) == ("INSERT", None, None)
    assert row["after"] == {
        "CUST_CODE": "WILL",
        "ORDER_DATE": "1994-09-30:15:33:00",
        "PRODUCT_CODE": "CAR",
        "ORDER_ID": "144",
        "PRODUCT_PRICE": "17520",
        "PRODUCT_AMOUNT": "3",
        "TRANSACTION_ID": "100",
    }


def test_an_update_with_an_empty_before_object(samples: Path) -> None:
    (row,) = events(samples, "json-op-update-empty-before-object.json", time_zone="+08:00")
    assert (row["schema_name"], row["table_name"], row["before"], row["key"]) == (None, "ZBZZZ", None, None)
    assert (row["after"]["ID"], row["after"]["PROPERTY_02"], len(row["after"])) == ("1461242", None, 11)
    assert row["position"] == "00002564940142073691"
    assert row["changed_at"] == dt.datetime(2023, 7, 20, 13, 45, 34, 860817, dt.UTC)


def test_a_message_that_was_logged_as_a_bytes_literal(samples: Path) -> None:
    (row,) = events(samples, "json-op-update-kafka-python-bytes-repr.txt")
    image = {"ID": "110", "PARTY_TYPE_CODE": "ORGANIZATION", "NAME": "政府机构", "SHORTCUT": "测试集群"}
    assert (row["before"], row["after"], row["key"]) == (image, image, {"ID": "110"})
    assert (row["schema_name"], row["table_name"], row["position"]) == ("DEMO", "PARTY", "00000000000000004205")


def test_a_position_of_too_many_digits(samples: Path) -> None:
    rows = events(samples, "json-flink-ogg-data.txt")
    assert [row["operation"][0] for row in rows] == list("IIIUIIUUD")
    for row in rows:
        pos = row["headers"]["pos"]
        assert (len(pos), row["kind"], row["position"]) == (23, "change", pos[3:])
        (problem,) = row["problems"]
        assert (problem["code"], f"found '{pos}'" in problem["detail"]) == ("header_value", True)


def test_a_truncate_with_a_comma_too_many(samples: Path) -> None:
    rows = events(samples, "json-op-oracle-docs-iudt-trailing-comma.json")
    assert [row["operation"] for row in rows] == ["INSERT", "UPDATE", "DELETE", "TRUNCATE"]
    assert [row["kind"] for row in rows] == ["change"] * 4
    assert [row["problems"] and row["problems"][0]["code"] for row in rows] == [None] * 3 + ["json_syntax"]
    assert (rows[3]["position"], rows[3]["before"], rows[3]["after"]) == ("00000000000000005480", None, None)


def test_a_message_whose_last_bracket_is_cut_off(samples: Path) -> None:
    (row,) = events(samples, "json-op-update-after-only-no-before.json")
    (problem,) = row["problems"]
    assert (row["kind"], row["after"], problem["code"]) == ("malformed", None, "truncated")


def test_messages_that_model_rows(samples: Path) -> None:
    first, second = events(samples, "json-row-modeled-insert-update.json.txt")
    assert (first["operation"], second["operation"]) == ("INSERT", "UPDATE")
    assert first["table_name"] == "OrderTable"
    assert first["schema_name"] == "it.agilelab.bigdata.wasp.consumers.spark.strategies.cdc.table"
    assert first["after"] == {
        "CUST_CODE": "WILL",
        "ORDER_DATE": "1994-09-30:15:33:00",
        "PRODUCT_CODE": "CAR",
        "ORDER_ID": "144",
        "PRODUCT_PRICE": "17520.0",
        "PRODUCT_AMOUNT": "3.0",
        "TRANSACTION_ID": "100",
    }
    assert (second["position"], second["key"]["ORDER_ID"]) == ("00000000000000002891", "765")


def test_an_operation_as_xml_joins_the_same_operation_as_json(samples: Path) -> None:
    prolog, row = events(samples, "xml-oggbd-operation-insert.xml")
    (json,) = events(samples, "json-op-insert-ismissing-tokens.json")
    assert (prolog["kind"], prolog["length"]) == ("filler", 39)
    for column in ("operation", "position", "schema_name", "table_name", "table_version"):
        assert row[column] == json[column]
    assert row["after"] == {**json["after"], "PRODUCT_PRICE": "17520.00"}
    assert (row["before"], row["headers"]["R"]) == (None, "AADPkvAAEAAEqL2AAA")


def test_transactions_of_formatxml(samples: Path) -> None:
    rows = events(samples, "formatxml-databus-DifferentOperations.xml")
    assert [row["kind"] for row in rows] == ["change", "before", "after", "before", "after"]
    assert [row["transaction_id"] for row in rows] == ["1.9.1730", *["10.17.16227"] * 2, *["6.30.760"] * 2]
    assert [row["headers"]["csn"] for row in rows] == ["242679030635", *["6201021"] * 2, *["6201023"] * 2]
    assert [row["event_no"] for row in rows] == [1, 1, 2, 1, 2]
    assert [row["last_in_transaction"] for row in rows] == [True, False, True, False, True]
    assert rows[0]["after"]["X1"] == rows[2]["after"]["X1"] == "<xml>test</xml>"
    assert rows[1]["before"]["GG_MODI_TS"] == "2013-02-05:23:50:24.163082000"
    assert (rows[1]["after"], rows[2]["before"]) == (None, None)
    assert [row["key"]["ID"] for row in rows] == ["492441", "2", "2", "2", "2"]


def test_a_null_column_of_formatxml(samples: Path) -> None:
    insert, update = events(samples, "formatxml-databus-nullfields.xml", time_zone="+08:00")
    assert (insert["after"]["X1"], update["after"]["X1"]) == (None, "<xml>test</xml>")
    assert (update["kind"], update["before"]) == ("change", None)
    assert insert["changed_at"] == dt.datetime(2013, 2, 6, 15, 49, 23, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("datastreams-qual-table", [("change", "INSERT", "LAMP"), ("change", "UPDATE", "LAMP")]),
        (
            "datastreams-schema-records",
            [("schema", None, "LAMP"), ("schema", None, "LAMP"), ("change", "INSERT", "LAMP")],
        ),
        ("no-table", [("change", "INSERT", None), ("change", "UPDATE", None), ("change", "DELETE", None)]),
        ("op-flattened", [("change", "UPDATE", "STONE"), ("change", "DELETE", "STONE")]),
        ("transaction-metadata-beside-changes", [("change", "INSERT", "LAMP"), ("control", None, None)]),
    ],
)
def test_messages_of_other_releases_and_programs(
    samples: Path, name: str, expected: list[tuple[str, str | None, str | None]]
) -> None:
    found = events(samples, f"../reduced/trail/json-{name}.json")
    assert [(one["kind"], one["operation"], one["table_name"]) for one in found] == expected
    assert [one["problems"] for one in found] == [None] * len(expected)
