"""The reduced samples of topics as people keep them: what each is, as its reading says."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.compute as pc
import pytest

from cdcwb.errors import UnknownFormatError
from cdcwb.formats import identify
from tests.limits import run
from tests.local import read

pytestmark = pytest.mark.samples

Row = dict[str, Any]

FIRST, SECOND, THIRD = "0000000000011170", "00000000000111D4", "0000000000011238"


class Reading(NamedTuple):
    """What a file holds. ``operations``: a letter for each change (Insert, Update, Delete, Refresh), ``-`` for a
    tombstone. ``facts``: columns of the events with their values, each of one event or of all."""

    operations: str
    facts: dict[str, list[Any] | Any]
    problems: frozenset[str] = frozenset()
    format: str = "debezium"


INN = {"schema_name": "front", "table_name": "room"}
PLACED = INN | {"position": [FIRST, SECOND, THIRD], "transaction_id": ["310", "311", "312"]}
ONE = INN | {"position": FIRST, "transaction_id": "310", "changed_at": datetime(2025, 11, 24, 16, 0, 0, 250_000, UTC)}
ROOM = {"room_no": "12", "guest": "Ondine", "rate": "95"}
DEPOSIT = {"room_no": "5", "guest": "Ondine", "deposit": "Dzw="}
SEA = {"room_no": "12", "rate": "95", "note": "sea view"}
RATES = '["95.00","109.98",null]'
DEARER = ROOM | {"rate": "110"}
IMAGES = {"before": [None, ROOM, DEARER], "after": [ROOM, DEARER, None]}
KEYED = PLACED | IMAGES | {"key": {"room_no": "12"}}
IN_KAFKA = KEYED | {"kafka.offset": ["0", "1", "2", "3"], "kafka.partition": "0"}

READINGS = {
    "kafka/array-of-decimals.jsonl": Reading("I", ONE | {"after": {"room_no": "12", "rates": RATES}}),
    "kafka/avro-json-console.log": Reading("IUD-", KEYED),
    "kafka/change-table-semicolon.csv": Reading(
        "IU",
        {"after": [SEA, SEA | {"rate": "110"}], "changed_columns": [["room_no", "rate", "note"], ["rate"]]},
        format="qlik-change-table",
    ),
    "kafka/cloudevent-json.jsonl": Reading("I", ONE | {"after": ROOM}),
    "kafka/console-session.log": Reading("I", ONE | {"after": ROOM}),
    "kafka/consumer-record-log.log": Reading("IUD-", IN_KAFKA | {"kafka.topic": "inn.front.room"}),
    "kafka/kafka-ui-export.json": Reading("IUD-", IN_KAFKA | {"kafka.timestamp": "2025-11-24T16:00:00.400Z"}),
    "kafka/kcat-K-empty-tombstone.log": Reading("D-", INN | {"key": {"room_no": "12"}}),
    "kafka/kcat-Z-null-tombstone.log": Reading("D-", INN | {"key": {"room_no": "12"}}),
    "kafka/lambda-msk-event.json": Reading("IUD", IN_KAFKA | {"kafka.timestamp": "2025-11-24T16:00:00.400Z"}),
    "kafka/python-dicts.log": Reading("IUD", PLACED | IMAGES),
    "kafka/flattened-only.jsonl": Reading(
        "IUD",
        {
            "table_name": "room",
            "position": [FIRST, SECOND, THIRD],
            "before": [None, None, DEPOSIT | {"deposit": "ASw="}],
            "after": [DEPOSIT, DEPOSIT | {"deposit": "ASw="}, None],
        },
    ),
    "kafka/key-line-value-line.log": Reading("IUD", KEYED),
    "kafka/no-table-word.jsonl": Reading("I", {"table_name": None, "after": ROOM}, frozenset({"no_schema"})),
    "kafka/payload-only.jsonl": Reading("IUD", PLACED | IMAGES),
    "kafka/postgres-08-no-connector.jsonl": Reading("I", ONE | {"after": ROOM}),
    "kafka/postgres-09-ts-usec.jsonl": Reading("I", ONE | {"after": ROOM}),
    "kafka/schema-elided.json": Reading("U", INN | {"before": ROOM, "after": DEARER}, frozenset({"json_syntax"})),
    "kafka/sink-debezium-json.jsonl": Reading(
        "IUD", IMAGES | {"schema_name": "inn", "table_name": "room", "position": None, "changed_at": None}
    ),
    "kafka/sink-no-source.jsonl": Reading("IUD", IMAGES | {"table_name": None}, frozenset({"no_schema"})),
    "kafka/source-time-zero.jsonl": Reading(
        "RU", INN | {"changed_at": [None, datetime(2025, 11, 24, 16, 1, 0, 250_000, UTC)]}
    ),
    "kafka/toast-int-array.jsonl": Reading("U", ONE | {"after": {"room_no": "12"}, "present_columns": ["room_no"]}),
    "kafka/vitess-keyspace.jsonl": Reading("I", {"schema_name": "lodging", "table_name": "room", "after": ROOM}),
    "kafka/yugabyte-cells.jsonl": Reading(
        "U", INN | {"after": {"room_no": "12", "rate": "110"}, "present_columns": ["room_no", "rate"]}
    ),
    "trust/json-schema-framing.parquet": Reading(
        "II", {"schema_name": "public", "table_name": "t", "after": {"id": "1"}}
    ),
}

REFUSALS = {
    "kafka/kafka-python-records.log": ("records as kafka-python prints them", "take the topic with kcat -J"),
    "kafka/csv-key-value.csv": ("messages in delimited text are not read", "kcat -J, or as Parquet"),
    "kafka/flattened-plain.jsonl": ("no format recognises the keys", "room_no, guest and deposit"),
}


def events_of(path: Path, format: str) -> Iterator[Row]:
    """The changes and tombstones of a file; maps are dictionaries, and headers are columns."""
    table = read(path, format=format)
    kinds = table.column("kind")
    assert not pc.any(pc.equal(kinds, "malformed")).as_py()
    for row in table.filter(pc.is_in(kinds, pc.cast(["change", "after", "tombstone"], kinds.type))).to_pylist():
        maps = {name: dict(row[name]) for name in ("key", "before", "after", "headers") if row[name] is not None}
        yield row | maps | maps.get("headers", {})


@pytest.mark.parametrize("name", READINGS)
def test_a_sample_is_read_as_its_reading_says(samples: Path, name: str) -> None:
    reading, path = READINGS[name], samples / "reduced" / name
    assert identify(path).format == reading.format
    rows = list(events_of(path, reading.format))
    assert "".join((row["operation"] or "-")[0] for row in rows) == reading.operations
    changes = [row for row in rows if row["operation"]]
    for column, wanted in reading.facts.items():
        found = [row.get(column) for row in (rows if column.startswith(("key", "kafka.")) else changes)]
        is_each = isinstance(wanted, list) and column != "present_columns"
        assert found == (wanted[: len(found)] if is_each else [wanted] * len(found)), column
    assert {problem["code"] for row in rows for problem in row["problems"] or ()} == reading.problems


@pytest.mark.parametrize("name", REFUSALS)
@pytest.mark.parametrize("command", ["identify", "summary"])
def test_a_sample_that_is_not_read_is_named_with_its_remedy(samples: Path, name: str, command: str) -> None:
    path = samples / "reduced" / name
    with pytest.raises(UnknownFormatError):
        identify(path)
    code, said = run([command, str(path)])
    assert code == 2
    assert all(words in said for words in REFUSALS[name])


def test_every_sample_has_its_reading(samples: Path) -> None:
    found = {f"kafka/{path.name}" for path in (samples / "reduced" / "kafka").iterdir() if path.suffix != ".txt"}
    assert found == {name for name in READINGS | REFUSALS if name.startswith("kafka/")}
