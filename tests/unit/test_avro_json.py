"""Messages that a tool decoded from Avro and printed in Avro's JSON encoding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdcwb.errors import OptionError
from cdcwb.formats import identify, inspect
from tests.local import plan_of, read

SPACE = "com.attunity.queue.msg"
COLUMNS = [f"c{number:02}" for number in range(1, 13)]


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}


def schema() -> str:
    """A DataRecord's, whose last column is a decimal."""
    kinds: list[Any] = [
        "int",
        *["string"] * 10,
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    ]
    columns = [{"name": name, "type": ["null", kind]} for name, kind in zip(COLUMNS, kinds, strict=True)]
    data = {"type": "record", "name": "Data", "fields": columns}
    headers = [
        {"name": "operation", "type": {"type": "enum", "name": "operation", "symbols": ["INSERT", "UPDATE", "DELETE"]}},
        {"name": "changeSequence", "type": "string"},
        {"name": "changeMask", "type": ["null", "bytes"]},
        {"name": "columnMask", "type": ["null", "bytes"]},
        {"name": "transactionLastEvent", "type": ["null", "boolean"]},
    ]
    fields = [
        {"name": "data", "type": ["null", data]},
        {"name": "beforeData", "type": ["null", "Data"]},
        {"name": "headers", "type": {"type": "record", "name": "Headers", "namespace": SPACE, "fields": headers}},
    ]
    return json.dumps({"type": "record", "name": "DataRecord", "namespace": f"{SPACE}.t.shop.tea", "fields": fields})


def image(values: dict[str, Any]) -> dict[str, Any]:
    """A row as a branch of a union, in which all columns that are not given are NULL."""
    row = dict.fromkeys(COLUMNS) | {
        name: {"int" if name == "c01" else "bytes" if name == "c12" else "string": value}
        for name, value in values.items()
    }
    return {f"{SPACE}.t.shop.tea.Data": row}


def message(operation: str, mask: str, after: dict[str, Any], before: dict[str, Any] | None = None) -> dict[str, Any]:
    """As kafka-avro-console-consumer prints it; masks are texts of a character for each byte."""
    headers = {
        "operation": operation,
        "changeSequence": "20260203080000000000000000000000001",
        "changeMask": {"bytes": mask},
        "columnMask": {"bytes": "\xff\x0f"},
        "transactionLastEvent": {"boolean": True},
    }
    return {"data": image(after), "beforeData": before and image(before), "headers": headers}


ROWS = [
    message("INSERT", "\xff\x0f", {"c01": 1, "c03": "Assam", "c12": "\x01\xe3"}),
    message("UPDATE", "\x04\x00", {"c01": 1, "c03": "Kenya"}, {"c01": 1, "c03": "Assam"}),
]


def written(folder: Path, *messages: Any) -> Path:
    """A file with a message a line."""
    path = folder / "tea.txt"
    path.write_text("".join(json.dumps(one) + "\n" for one in messages))
    return path


def test_the_types_of_unions_are_no_columns_and_the_order_of_masks_is_voted_on(tmp_path: Path) -> None:
    path = written(tmp_path, *ROWS)
    assert identify(path).format == "qlik-kafka"
    insert, update = read(path, format="qlik-kafka").to_pylist()
    nulls = dict.fromkeys(COLUMNS)
    assert dict(insert["after"]) == nulls | {"c01": "1", "c03": "Assam", "c12": "01e3"}
    assert dict(update["before"]) == nulls | {"c01": "1", "c03": "Assam"}
    assert update["changed_columns"] == ["c03"]
    assert update["change_mask"] == "0400"
    assert update["last_in_transaction"] is True
    detected = {row["setting"]: row["value"] for row in plan_of(path, format="qlik-kafka").detected}
    assert detected["encoding"] == "avro-json"
    assert detected["mask_order"] == "little"


def test_a_schema_is_refused(tmp_path: Path) -> None:
    (tmp_path / "schema.avsc").write_text(schema())
    for name, sentence in (("schema.avsc", "leave the option out"), ("none.avsc", r"none\.avsc")):
        with pytest.raises(OptionError, match=rf"option avro_schema: .*{sentence}"):
            plan_of(written(tmp_path, *ROWS), format="qlik-kafka", avro_schema=str(tmp_path / name))


def test_keys_and_payloads_that_a_tool_decoded_are_read_alike(tmp_path: Path) -> None:
    wrapped = [
        {"topic": "tea", "partition": 0, "offset": at, "key": {"id": {"long": 7}}, "payload": one}
        for at, one in enumerate(ROWS)
    ]
    path = written(tmp_path, *wrapped)
    rows = read(path, format="qlik-kafka").to_pylist()
    assert [row["changed_columns"] for row in rows] == [COLUMNS, ["c03"]]
    assert '{"id":7}' in dict(rows[0]["headers"]).values()
    tree = inspect(path, rows[1]["offset"])
    assert tree.field.name


def test_several_lines_a_message_and_the_option_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "tea.json"
    path.write_text("\n".join(json.dumps(one, indent=2) for one in ROWS))
    assert [row["change_mask"].upper() for row in read(path, format="qlik-kafka").to_pylist()] == ["FF0F", "0400"]
    assert [
        row["change_mask"].upper() for row in read(path, format="qlik-kafka", encoding="avro-json").to_pylist()
    ] == [
        "FF0F",
        "0400",
    ]


def test_a_tombstone_may_come_first(tmp_path: Path) -> None:
    path = tmp_path / "tea.txt"
    path.write_text("null\n" + "".join(json.dumps(one) + "\n" for one in ROWS))
    rows = read(path, format="qlik-kafka").to_pylist()
    assert [row["changed_columns"] for row in rows] == [None, COLUMNS, ["c03"]]
