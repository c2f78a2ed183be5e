"""Rows as lines of JSON and of CSV: programs read back what was written."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from cdcwb.analysis.line_text import csv_lines, json_lines

TEXTS = [
    "",
    "plain",
    'a "quoted", one',
    "back\\slash",
    "line\nend\r\n",
    "\x00\x1b\x07\b\f\t",
    "größe 数 \U0001f600",
    None,
]
SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("number", pa.int64()),
        ("flag", pa.bool_()),
        ("raw", pa.binary()),
        ("at", pa.timestamp("us", "UTC")),
        ("names", pa.list_(pa.string())),
        ("image", pa.map_(pa.string(), pa.string())),
        ("event", pa.struct([("file_index", pa.int32()), ("name", pa.string())])),
        ("problems", pa.list_(pa.struct([("code", pa.string()), ("detail", pa.string())]))),
    ]
)


def rows() -> list[dict[str, object]]:
    made = []
    for number, text in enumerate(TEXTS):
        made.append(
            {
                "text": text,
                "number": -(2**60) + number,
                "flag": bool(number % 2),
                "raw": None if text is None else text.encode(),
                "at": datetime(2025, 3, 23, 10, 57, 19, number, UTC),
                "names": [name for name in TEXTS[:number] if name is not None] if number else None,
                "image": [(f"c{text}", text), ("none", None)] if number != 1 else [],
                "event": {"file_index": number, "name": text} if number != 2 else None,
                "problems": [{"code": "value", "detail": text}] * number,
            }
        )
    return [*made, dict.fromkeys(SCHEMA.names)]


def batch() -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows(), SCHEMA)


def in_json(row: dict[str, object]) -> dict[str, object]:
    at, raw, image = row["at"], row["raw"], row["image"]
    return row | {
        "at": at.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if isinstance(at, datetime) else None,
        "raw": raw.hex() if isinstance(raw, bytes) else None,
        "image": dict(image) if isinstance(image, list) else None,
    }


@pytest.mark.parametrize("start", [0, 3])
def test_json_is_read_back(start: int) -> None:
    lines = json_lines(batch().slice(start)).to_pylist()
    assert [json.loads(line) for line in lines] == [in_json(row) for row in rows()[start:]]
    assert not any("\n" in line for line in lines)
    assert '"\\u0000\\u001B\\u0007\\b\\f\\t"' in "".join(json_lines(batch()).to_pylist())


def test_csv_is_read_back() -> None:
    lines = csv_lines(batch()).to_pylist()
    table = list(csv.reader(io.StringIO("\r\n".join(lines), newline="")))
    assert [row[0] for row in table] == [text or "" for text in TEXTS] + [""]
    assert lines[0].startswith('"",'), "an empty text is no NULL"
    assert lines[-1] == "," * (len(SCHEMA) - 1)
    for found, row in zip(table, rows(), strict=True):
        assert [found[1], found[2]] == [
            "" if row[name] is None else str(row[name]).lower() for name in ("number", "flag")
        ]
        assert [json.loads(text) if text else None for text in found[5:]] == [
            in_json(row)[name] for name in SCHEMA.names[5:]
        ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("=1+1", "'=1+1"),
        ("-12.5", "-12.5"),
        ("+a", "'+a"),
        ("@x", "'@x"),
        ("\tx", "'\tx"),
        ("1e5", "1e5"),
        ("-1e5", "-1e5"),
    ],
)
def test_a_formula_has_an_apostrophe_unless_exact(text: str, shown: str) -> None:
    rows = pa.RecordBatch.from_pydict({"text": [text]})
    assert csv_lines(rows).to_pylist() == [shown]
    assert csv_lines(rows, exact=True).to_pylist() == [text]
