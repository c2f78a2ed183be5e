"""Generated Kafka captures: what stands in the files, read by json and fastavro, is what the truth says."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cdcwb import model
from cdcwb_synth import generate
from tests.synth_qlik import Message, bits, decoded, messages, text, truth

WORKLOADS: dict[str, dict[str, Any]] = {
    "JSON with the envelope in lines": {},
    "JSON of 2018 as documents, gzip, columns that were not captured": {
        "generation": "2018", "container": "documents", "compression": "gzip", "column_mask": 0.5,
    },
    "JSON without envelope on a console, tombstones, names in an added column": {
        "form": "json", "container": "console", "tombstone_share": 0.5, "naming": "column",
    },
    "JSON, one stream out of order, late metadata, kcat, deleted rows in beforeData": {
        "metadata": "late", "layout": "stream", "container": "kcat", "delete_row": "beforeData", "repeat_schemas": 2,
    },
    "JSON with external ids, names in the headers, metadata beside": {
        "generation": "external", "metadata": "separate", "naming": "headers", "compression": "zstd",
    },
    "Avro with the envelope and little-endian masks": {
        "form": "avro-envelope", "container": "kcat", "mask_order": "little", "column_mask": 0.3,
        "tombstone_share": 0.4,
    },
    "Avro with the envelope in containers, deleted rows in beforeData": {
        "form": "avro-envelope", "container": "avro", "delete_row": "beforeData", "compression": "gzip",
    },
    "Avro of 2018 without logical types, names in the message, base64 lines": {
        "form": "avro-envelope", "generation": "2018", "logical": False, "naming": "message", "encoding": "base64",
    },
    "Confluent framing in kcat, external ids": {"form": "confluent", "container": "kcat", "generation": "external"},
    "Confluent framing in Parquet, tombstones, no large objects": {
        "form": "confluent", "container": "parquet", "tombstone_share": 0.4, "compression": "zstd", "lobs": False,
    },
    "Confluent framing in containers of bytes, deflated": {
        "form": "confluent", "container": "avro", "tombstone_share": 0.4, "compression": "gzip", "naming": "key",
    },
    "lost and repeated messages": {
        "lost_share": 0.1, "duplicate_share": 0.1, "layout": "stream", "shuffle": 50, "container": "kcat",
    },
    "one message a file": {"form": "confluent", "container": "message", "refresh_rows": 2, "partitions": 2},
}  # fmt: skip
Made = Callable[..., Path]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The capture with some options, made once."""
    known: dict[str, Path] = {}

    def make(**options: Any) -> Path:
        name = json.dumps(options, sort_keys=True)
        if name not in known:
            to = tmp_path_factory.mktemp("made")
            known[name] = generate("qlik-kafka", changes=400, seed=7, to=to, schema_changes=7, **options)
        return known[name]

    return make


def described(folder: Path) -> dict[str, dict[str, Any]]:
    """The metadata messages by schema id."""
    found = {}
    for part in ("capture", "metadata"):
        if (folder / part).exists():
            for one in messages(folder, part):
                if (one.value is not None and b'"MD"' in one.value[:60]) or (one.value or b"")[5:8] == b"\x04MD":
                    body = decoded(one.value, {})["body"]
                    found[body["schemaId"]] = body
    return found


def images(one: dict[str, Any]) -> tuple[str, Any, Any, Any]:
    """Operation, row, row before, and headers of a data message."""
    body = one["body"]
    return body["headers"]["operation"], body["data"], body["beforeData"], body["headers"]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_message_is_what_the_truth_says(made: Made, workload: str) -> None:
    options = WORKLOADS[workload]
    folder = made(**options)
    rows = {(row["file"], row["offset"]): row for row in truth(folder, "changes")}
    versions = {row["table_version"]: row for row in truth(folder, "table_versions")}
    known = described(folder)
    schemas = {name: body["dataSchema"] for name, body in known.items()}
    counts: Counter[str] = Counter()
    for message in messages(folder):
        if message.value is None:
            counts["tombstone"] += 1
            continue
        one = decoded(message.value, schemas, folder / "registry")
        if one["type"] == "MD":
            counts["metadata"] += 1
            continue
        row = rows.pop((message.file, message.offset))
        counts[row["operation"]] += 1
        check(row, message, one, versions, options)
    assert not rows
    assert set(counts) >= {"INSERT", "UPDATE", "DELETE", "REFRESH"}
    assert bool(counts["tombstone"]) == ("tombstone_share" in options)
    form, mode = options.get("form", "json-envelope"), options.get("metadata")
    assert bool(counts["metadata"]) == (form.endswith("envelope") and mode != "separate")
    assert len(known) == (len(versions) if form.endswith("envelope") else 0)


def check(
    row: dict[str, Any], message: Message, one: dict[str, Any], versions: dict[str, Any], options: dict[str, Any]
) -> None:
    operation, data, other, heads = images(one)
    version = versions[row["table_version"]]
    names = [column["name"] for column in version["columns"]]
    single = {c["name"] for c in version["columns"] if c["type"] in ("REAL4", "float")} & set(names)
    is_avro = options.get("form") in ("avro-envelope", "confluent")
    if operation == "DELETE" and options.get("delete_row") == "beforeData":
        assert data is None or set(data.values()) == {None}
        data, other = other, None
    assert row["length"] == message.length
    assert row["offset_unit"] == ("row" if options.get("container") in ("avro", "parquet") else "byte")
    assert (row["record_type"], row["operation"], row["kind"]) == (one["type"], operation, "change")
    assert one["id"] in (row["table_version"], None)
    # positions and times
    sequence = heads.get("changeSequence", heads.get("change_seq")) or None
    assert row["position"] == sequence
    assert row["transaction_id"] == (heads.get("transactionId") or None)
    counter = heads.get("transactionEventCounter")
    assert row["event_no"] == (None if counter is None else int(counter))
    assert row["last_in_transaction"] == heads.get("transactionLastEvent")
    moment = heads.get("timestamp", heads.get("ts")) or None
    assert (row["changed_at"] and row["changed_at"].isoformat(timespec="milliseconds")[:23]) == moment
    digits = row["committed_at"] and f"{row['committed_at']:%Y%m%d%H%M%S}{row['committed_at'].microsecond // 10000:02d}"
    assert digits == (sequence and sequence[:16])
    assert row["outcome"] == ("committed" if sequence else None)
    # masks
    order = options.get("mask_order", "big")
    changed, present = ((None if heads.get(n) is None else bits(heads[n], order)) for n in ("changeMask", "columnMask"))
    for mask, column in (("changeMask", "change_mask"), ("columnMask", "column_mask")):
        value = heads.get(mask)
        assert row[column] == (value.hex().upper() if isinstance(value, bytes) else value)
    assert row["present_columns"] == (None if present is None else [names[bit] for bit in sorted(present)])
    if changed is not None:
        assert row["changed_columns"] == [names[bit] for bit in sorted(changed)]
        assert row["change_source"] == "mask"
    elif other is not None:
        assert row["changed_columns"] == [name for name in names if data[name] != other[name]]
        assert row["change_source"] == "images"
    else:
        assert (row["changed_columns"], row["change_source"]) == (None, None)

    # images
    def image(values: dict[str, Any] | None) -> list[tuple[str, str | None]] | None:
        if values is None:
            return None
        assert list(values) == names
        texts = [(n, spelled(v, n in single, is_avro)) for n, v in values.items()]
        if present is None:
            return texts
        assert all(v is None for bit, (_, v) in enumerate(texts) if bit not in present)
        return [pair for bit, pair in enumerate(texts) if bit in present]

    is_delete = operation == "DELETE"
    assert row["after"] == (None if is_delete else image(data))
    assert row["before"] == (image(data) if is_delete else image(other))
    keyed = [c["name"] for c in version["columns"] if c["key_position"]]
    assert row["key"] == ([(n, spelled(data[n], False, is_avro)) for n in keyed] or None)
    assert (version["schema_name"], version["table_name"]) == (row["schema_name"], row["table_name"])
    for name, value in heads.items():
        spelt = value.hex().upper() if isinstance(value, bytes) else text(value)
        assert dict(row["headers"])[name] == spelt
    for name, value in message.facts.items():
        wanted = (
            f"{datetime.fromtimestamp(int(value) / 1000, UTC):%FT%T.%f}"[:23] + "Z" if name == "timestamp" else value
        )
        assert dict(row["headers"])[f"kafka.{name}"] == wanted
    assert row["source_events"] == [{k: row[k] for k in ("file_index", "offset", "length")}]


def spelled(value: Any, is_single: bool, is_avro: bool) -> str | None:
    return text(value, is_single and is_avro)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_transactions_are_those_of_the_changes(made: Made, workload: str) -> None:
    options = WORKLOADS[workload]
    folder = made(**options)
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in truth(folder, "changes"):
        if row["transaction_id"] is not None:
            groups.setdefault(row["transaction_id"], []).append(row)
    told = {row["transaction_id"]: row for row in truth(folder, "transactions")}
    assert told.keys() == groups.keys()
    seen = Counter(one["completeness"] for one in told.values())
    for name, rows in groups.items():
        one, numbers = told[name], sorted({row["event_no"] for row in rows} - {None})
        last = [row for row in rows if row["last_in_transaction"]]
        assert dict(one["changes"]) == Counter(row["operation"] for row in rows)
        assert one["bytes"] == sum(row["length"] for row in rows)
        assert one["begin_position"] == min(row["position"] for row in rows)
        assert one["began_at"] == min(row["changed_at"] for row in rows)
        assert one["ended_at"] == rows[0]["committed_at"]
        labels = {f"{r['schema_name']}.{r['table_name']}".removeprefix("None.") for r in rows}
        assert one["tables"] == sorted(labels - {"None"})
        if options.get("generation") == "2018":
            wanted, end = "unknown", max(row["position"] for row in rows)
        else:
            end = last[0]["position"] if last else None
            whole = last and numbers == list(range(1, last[0]["event_no"] + 1))
            wanted = "complete" if whole else "no_begin" if numbers[0] > 1 else "gaps" if last else "no_end"
        assert (one["completeness"], one["end_position"]) == (wanted, end)
        commits = {row["commit_position"] for row in rows}
        assert commits == {None if wanted == "unknown" else end}
    if "lost_share" in options:
        assert set(seen) == {"complete", "no_begin", "no_end", "gaps"}


def test_messages_come_twice_or_never_only_where_asked_for(made: Made) -> None:
    plain, other = made(), made(lost_share=0.1, duplicate_share=0.1)
    numbers = [
        Counter((r["transaction_id"], r["event_no"]) for r in truth(f, "changes") if r["event_no"])
        for f in (plain, other)
    ]
    assert set(numbers[0].values()) == {1}
    assert set(numbers[1].values()) == {1, 2}
    assert set(numbers[1]) < set(numbers[0])


def test_order_holds_in_a_partition_and_nowhere_else(made: Made) -> None:
    folder = made(container="kcat", layout="stream", topic="all", naming="key", shuffle=300)
    (path,) = (folder / "capture").iterdir()
    sequences: dict[str, list[str]] = {}
    for message in messages(folder):
        one = decoded(message.value or b"", {})
        if one["type"] == "DT":
            sequences.setdefault(message.facts["partition"], []).append(one["body"]["headers"]["changeSequence"])
    assert path.name == "messages.json"
    assert set(sequences) == {"0", "1", "2"}
    everything = [
        decoded(m.value or b"", {})["body"].get("headers", {}).get("changeSequence", "") for m in messages(folder)
    ]
    assert all(seen == sorted(seen) for seen in sequences.values())
    assert [s for s in everything if s] != sorted(s for s in everything if s)


def test_late_metadata_comes_after_some_of_its_messages(made: Made) -> None:
    folder = made(metadata="late", partitions=1)
    late = 0
    for row in truth(folder, "table_versions"):
        rows = [r for r in truth(folder, "changes") if r["table_version"] == row["table_version"]]
        late += any(r["offset"] < row["first_event"]["offset"] for r in rows)
        assert any(r["offset"] > row["first_event"]["offset"] for r in rows) or len(rows) <= 4
    assert late >= 6


def test_metadata_beside_stands_in_a_folder_of_its_own(made: Made) -> None:
    folder = made(metadata="separate", form="avro-envelope", container="kcat")
    assert {decoded(m.value or b"", {})["type"] for m in messages(folder, "metadata")} == {"MD"}
    for row in truth(folder, "table_versions"):
        assert (row["origin"], row["first_event"]) == ("side file", None)


def test_metadata_describes_the_table_versions(made: Made) -> None:
    folder = made(repeat_schemas=2)
    sent = Counter(
        one["body"]["schemaId"]
        for one in (decoded(m.value or b"", {}) for m in messages(folder))
        if one["type"] == "MD"
    )
    known, rows = described(folder), truth(folder, "table_versions")
    assert max(sent.values()) == 3
    assert known.keys() == {row["table_version"] for row in rows}
    for row in rows:
        body = known[row["table_version"]]
        assert row["schema_text"] == body["dataSchema"]
        assert dict(row["lineage"]) == {name: str(value) for name, value in body["lineage"].items()}
        columns = body["tableStructure"]["tableColumns"]
        for column, (name, facts) in zip(row["columns"], columns.items(), strict=True):
            assert (column["name"], str(column["ordinal"]), column["type"]) == (name, facts["ordinal"], facts["type"])
            assert str(column["length"] or 0) == facts["length"]
            assert str(column["precision"] or 0) == facts["precision"]
            assert (str(column["scale"]) if column["type"] == "NUMERIC" else "0") == facts["scale"]
            assert str(column["key_position"] or 0) == facts["primaryKeyPosition"]
            assert column["nullable"] == facts["nullable"]
        using = [r["position"] for r in truth(folder, "changes") if r["table_version"] == row["table_version"]]
        assert row["first_position"] == min((p for p in using if p), default=None)


def test_a_registry_has_every_schema_once_and_names_hyphens(made: Made) -> None:
    folder = made(form="confluent", container="kcat")
    texts = {path.stem: path.read_text() for path in (folder / "registry").iterdir()}
    assert len(set(texts.values())) == len(texts)
    rows = truth(folder, "table_versions")
    for row in rows:
        schema = json.loads(texts[row["table_version"]])
        assert row["schema_text"] == texts[row["table_version"]]
        assert schema["namespace"] == f"com.attunity.queue.msg.shop-load.{row['schema_name']}.{row['table_name']}"
        assert row["origin"] == "registry"
        assert [c["name"] for c in row["columns"]] == [f["name"] for f in schema["fields"][0]["type"]["fields"]]
    keys = [name for name, one in texts.items() if json.loads(one)["name"] == "KeyRecord"]
    assert len(keys) == 6
    assert {row["table_version"] for row in rows} <= texts.keys() - set(keys)


def test_inferred_versions_are_numbered_in_the_order_of_the_capture(made: Made) -> None:
    folder = made(form="json", container="kcat")
    rows = sorted(
        truth(folder, "table_versions"), key=lambda r: (r["first_event"]["file_index"], r["first_event"]["offset"])
    )
    numbers: Counter[str] = Counter()
    for row in rows:
        label = f"{row['schema_name']}.{row['table_name']}"
        numbers[label] += 1
        assert row["table_version"] == f"{label}@{numbers[label]}"
        using = [r for r in truth(folder, "changes") if r["table_version"] == row["table_version"]]
        first = min(using, key=lambda r: (r["file_index"], r["offset"]))
        assert row["first_event"] == first["source_events"][0]
    assert max(numbers.values()) > 1


@pytest.mark.parametrize(
    ("naming", "container", "found"),
    [
        ("topic", "kcat", ("shop", "orders")),
        ("topic", "lines", (None, None)),
        ("key", "console", ("shop", "orders")),
        ("key", "lines", (None, None)),
        ("column", "lines", (None, "orders")),
        ("message", "lines", ("shop", "orders")),
        ("headers", "lines", ("shop", "orders")),
        ("none", "lines", (None, None)),
    ],
)
def test_a_tables_name_is_known_where_something_tells_it(
    made: Made, naming: str, container: str, found: tuple[str | None, str | None]
) -> None:
    folder = made(form="json", naming=naming, container=container)
    names = {(r["schema_name"], r["table_name"]) for r in truth(folder, "changes")}
    assert found in names
    assert len(names) == (6 if found[1] else 1)


def test_the_truth_has_exactly_the_columns_of_the_model(made: Made) -> None:
    folder = made()
    for name in ("changes", "transactions", "table_versions"):
        assert pq.read_schema(folder / "truth" / f"{name}.parquet").equals(model.TABLES[name])
