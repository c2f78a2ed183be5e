"""Generated captures of all formats: what is read equals the truth, which shares no code with the readers; and what
happens in them, and which options there are, is as described."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdcwb import model
from cdcwb.opening import open_small
from cdcwb_synth import FORMAT_OPTIONS, FORMATS, SynthError, generate
from cdcwb_synth.catalogue import KINDS, reshape, tables
from cdcwb_synth.model import Operation
from cdcwb_synth.options import Options
from cdcwb_synth.workload import Change, Committed, Workload
from tests.unit.test_synth_generate import content

# What happens in each, in words; then the format and the generator's options.
MADE: dict[str, tuple[str, dict[str, Any]]] = {
    "records cut at the ends of files, begins and ends missing, halves reversed or apart": (
        "gbase8s",
        {"files": 3, "cut_records": True, "missing_begins": 3, "open_transactions": 4, "reversed_updates": 0.3,
         "split_updates": 0.2, "errors": 3, "truncates": 0},
    ),
    "big-endian, prefixes of one byte, GB18030": (
        "gbase8s", {"byte_order": "big", "prefix_width": 1, "charset": "gb18030", "concurrency": 40},
    ),
    "reads of a fixed buffer": ("gbase8s", {"shape": "buffers", "buffer_size": 512}),
    "a read a line, with notes": ("gbase8s", {"shape": "reads", "notes": True, "group": 0, "files": 2}),
    "JSON with the envelope, a clock that is set back": ("qlik-kafka", {"clock_back": 2}),
    "JSON as a console prints it, tombstones": (
        "qlik-kafka", {"form": "json", "container": "console", "tombstone_share": 0.3},
    ),
    "late metadata, one stream out of order": (
        "qlik-kafka", {"metadata": "late", "layout": "stream", "container": "kcat"},
    ),
    "external ids, names in the messages": (
        "qlik-kafka", {"form": "json", "generation": "external", "naming": "message", "delete_row": "beforeData"},
    ),
    "little-endian masks, columns that were not captured": (
        "qlik-kafka",
        {"form": "avro-envelope", "container": "kcat", "mask_order": "little", "column_mask": 0.2},
    ),
    "Avro in containers, compressed, texts instead of logical types": (
        "qlik-kafka", {"form": "avro-envelope", "container": "avro", "logical": False, "compression": "zstd"},
    ),
    "messages in Base64": ("qlik-kafka", {"form": "avro-envelope", "container": "lines", "encoding": "base64"}),
    "lost and repeated messages": (
        "qlik-kafka", {"lost_share": 0.05, "duplicate_share": 0.05, "layout": "stream", "shuffle": 2000},
    ),
    "Confluent's framing, every type": (
        "qlik-kafka", {"form": "confluent", "container": "parquet", "all_types_share": 0.5},
    ),
    "change tables, repeated sequences, unknown times": (
        "qlik-change-table", {"repeat_sequences": 0.05, "unknown_times": 0.1, "schema_changes": 0},
    ),
    "change tables in Parquet": ("qlik-change-table", {"container": "parquet", "schema_changes": 0, "truncates": 0}),
    "change tables in JSON": ("qlik-change-table", {"container": "json", "schema_changes": 0, "truncates": 0}),
    "three trail files, prompts, in Seoul": (
        "goldengate", {"trail_files": 3, "restarts": 2, "prompts": 0.2, "zone": "Asia/Seoul"},
    ),
    "12c, pairs, full deletes, long bodies": (
        "goldengate",
        {"style": "12c", "updates": "pairs", "deletes": "full", "long_varchars": 120, "pane": ":"},
    ),
    "11g, no definitions": ("goldengate", {"style": "11g", "lobs": False, "all_types": False}),
    "unified updates, white space collapsed": (
        "goldengate", {"updates": "unified", "unified_prefix": 2, "collapsed": True, "line_end": "crlf"},
    ),
    "Extract broke off": ("goldengate", {"tokens": "last", "abends": 3, "trail_files": 2}),
    "every switch": ("goldengate", {"switches": ",".join(
        ("ghdr", "detail", "data", "ggstoken", "tokendetail", "usertoken", "headertoken", "headerdetail", "fileheader",
         "metadata")), "capture_files": "trail", "byte_order": "big"}),
    "changes that were taken back": ("goldengate", {"undo": 0.1, "tokens": "first"}),
    "JSON of rows, wrapped, documents": (
        "goldengate", {"form": "json", "json_form": "row", "connect": True, "container": "documents"},
    ),
    "JSON as bytes literals": (
        "goldengate", {"form": "json", "is_missing": True, "before": "empty", "container": "bytes_literal"},
    ),
    "FORMATXML of pairs": ("goldengate", {"form": "formatxml", "updates": "pairs"}),
    "an event log with much damage": (
        "idm-event-log", {"damaged_share": 0.15, "special_keys": 0.3, "interleaved_share": 0.3},
    ),
    "an event log as SQL": ("idm-event-log", {"container": "sql", "files": 2, "special_values": 0.4}),
    "an event log as JSON, tables that change": ("idm-event-log", {"container": "jsonl", "schema_changes": 3}),
    "an event log in Excel, every type": ("idm-event-log", {"container": "xlsx", "all_types": True}),
    "Debezium without schemas": ("debezium", {"form": "json", "container": "lines", "connector": "oracle"}),
    "Debezium without transactions": ("debezium", {"transactions": False, "container": "kcat"}),
    "Debezium in Avro": ("debezium", {"form": "avro", "container": "kcat", "connector": "sqlserver"}),
    "Maxwell": ("maxwell", {"refresh_rows": 3, "schema_changes": 2}),
    "Canal": ("canal", {"schema_changes": 2}),
}  # fmt: skip
KEYS = {
    "changes": ("file_index", "offset", "record_type"),
    "transactions": ("transaction_id",),
    "table_versions": ("table_version",),
}
UNKNOWN = {"changes": ("file", "problems"), "transactions": (), "table_versions": ("schema_text", "lineage")}


def rows(table: pa.Table, name: str) -> list[dict[str, Any]]:
    """The rows of a table, their maps sorted, without what the truth does not know."""
    table = table.select([column for column in model.TABLES[name].names if column not in UNKNOWN[name]])
    table = table.sort_by([(key, "ascending") for key in KEYS[name]])
    maps = [field.name for field in table.schema if pa.types.is_map(field.type)]
    return [row | {one: row[one] and sorted(row[one], key=repr) for one in maps} for row in table.to_pylist()]


@pytest.mark.parametrize("name", MADE)
def test_what_is_read_equals_the_truth(tmp_path: Path, name: str) -> None:
    format, made = MADE[name]
    folder = generate(format, changes=300, seed=11, to=tmp_path, **made)
    options = {"registry": str(tmp_path / "registry")} if (tmp_path / "registry").exists() else {}
    options |= {"time_zone": "UTC"} if format == "goldengate" and "zone" not in made else {}
    options |= {"charset": made["charset"]} if "charset" in made else {}
    capture = open_small(folder / "capture", options=options)
    assert capture is not None
    for table in KEYS:
        found = rows(capture.table(table), table)
        true = rows(pq.read_table(folder / "truth" / f"{table}.parquet"), table)
        assert len(found) == len(true)
        for row, expected in zip(found, true, strict=True):
            assert row == expected, table
    assert capture.table("changes").num_rows > 200


@pytest.mark.parametrize("format", FORMATS)
def test_the_same_seed_gives_the_same_bytes(tmp_path: Path, format: str) -> None:
    first, second, other = (
        content(generate(format, changes=60, seed=seed, to=tmp_path / name))
        for seed, name in ((7, "a"), (7, "b"), (8, "c"))
    )
    assert first == second
    assert first["truth/changes.parquet"] != other["truth/changes.parquet"]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("changes", [0, 1, 5])
def test_small_numbers_of_changes_make_a_capture(tmp_path: Path, format: str, changes: int) -> None:
    options: dict[str, Any] = {name: 0 for name in ("refresh_rows", "rows_before") if name in FORMAT_OPTIONS[format]}
    folder = generate(format, changes=changes, seed=1, to=tmp_path, schema_changes=0, truncates=0, **options)
    told = json.loads((folder / "synth.json").read_text())
    for name, counted in (("changes", "captured_changes"), ("transactions", "transactions")):
        truth = pq.read_table(folder / "truth" / f"{name}.parquet")
        assert truth.schema.equals(model.TABLES[name])
        assert truth.num_rows == told[counted]
    assert told["file_bytes"] == sum(p.stat().st_size for p in (folder / "capture").rglob("*") if p.is_file())


@pytest.mark.parametrize("format", FORMATS)
def test_every_option_is_described_and_taken_as_text(tmp_path: Path, format: str) -> None:
    known = FORMAT_OPTIONS[format]
    assert all(meaning for _, meaning in known.values())
    given: dict[str, Any] = {name: str(default) for name, (default, _) in known.items()}
    folder = generate(format, changes=5, seed=1, to=tmp_path, **given)
    told = json.loads((folder / "synth.json").read_text())["options"]
    assert told == {name: default for name, (default, _) in known.items()}


@pytest.mark.parametrize(
    ("format", "options", "message"),
    [
        ("qlik-kafka", {"fom": "json"}, "unknown option 'fom'; did you mean 'form'"),
        ("qlik-kafka", {"reversed_updates": 0.1}, "unknown option 'reversed_updates'"),
        ("qlik-kafka", {"form": "avro"}, "did you mean 'avro-envelope'"),
        ("qlik-kafka", {"form": "json", "metadata": "mixed"}, "has no metadata messages"),
        ("qlik-kafka", {"form": "avro-envelope", "container": "avro", "metadata": "none"}, "without metadata"),
        ("qlik-kafka", {"form": "confluent"}, "is binary: container is one of"),
        ("qlik-kafka", {"container": "parquet", "encoding": "base64"}, "so encoding is raw"),
        ("qlik-kafka", {"container": "documents", "tombstone_share": 0.1}, "cannot hold tombstones"),
        ("qlik-kafka", {"schema_kinds": "add,remove"}, "'remove' is not one of add, drop"),
        ("qlik-kafka", {"schema_kinds": "add,add"}, "names add twice"),
        ("qlik-kafka", {"tables": 300}, "as many open files"),
        ("qlik-kafka", {"start": "noon"}, "no ISO 8601 time"),
        ("qlik-change-table", {"dfm": False, "delimiter": ";"}, "nothing tells delimiter"),
        ("qlik-change-table", {"delimiter": "ab"}, "delimiter is one character"),
        ("qlik-change-table", {"null_value": 'a"b'}, "hold no quote"),
        ("qlik-change-table", {"suffix": ""}, "not empty"),
        ("qlik-change-table", {"tables": 500}, "at most 400"),
        ("goldengate", {"switches": "ghdr,detial"}, "switches: 'detial' is not one of"),
        ("goldengate", {"zone": "Mars/Olympus"}, "no time zone"),
        ("goldengate", {"unified_prefix": 3}, "2 or 4"),
        ("goldengate", {"undo": 0.1, "form": "json"}, "undo is 0"),
        ("goldengate", {"trail": "./dirdat/"}, "first letters"),
        ("goldengate", {"style": "11g", "switches": "ghdr"}, "only detail"),
        ("goldengate", {"switches": "detail,metadata"}, "nobody can tell"),
        ("goldengate", {"long_varchars": 3}, "at least 16"),
        ("idm-event-log", {"processed_share": 0.9, "future_share": 0.9}, "more than 1"),
        ("idm-event-log", {"container": "jsonl", "header": False}, "header is true"),
        ("idm-event-log", {"container": "xlsx", "compression": "gzip"}, "compression is none"),
        ("idm-event-log", {"container": "sql", "null_text": "x"}, "null_text is empty"),
        ("idm-event-log", {"null_text": ","}, "holds no quote"),
        ("debezium", {"form": "avro"}, "form avro is binary"),
        ("qlik-kafak", {}, "did you mean 'qlik-kafka'"),
    ],
)
def test_unusable_options_say_what_is_wrong(tmp_path: Path, format: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SynthError, match=message):
        generate(format, changes=1, seed=1, to=tmp_path / "made", **options)
    assert not (tmp_path / "made").exists()


# --- what happens -----------------------------------------------------------------------------------------------------


def _keyed(row: dict[str, Any]) -> tuple[str, str, str | None, str | None]:
    """The first column of an image (the key) before and after, by operation and table."""
    ends = [None if row[name] is None else row[name][0][1] for name in ("before", "after")]
    return row["operation"], row["table_name"], ends[0], ends[1]


def test_every_format_has_the_same_changes(tmp_path: Path) -> None:
    """The committed changes of gbase8s, in commit order, are those of Qlik; a change table leaves out what changes
    nothing, and Kafka has no truncates."""
    told = {}
    for format in ("gbase8s", "qlik-kafka", "qlik-change-table"):
        more: dict[str, Any] = {"table_names": True} if format == "gbase8s" else {"refresh_rows": 0}
        folder = generate(
            format, changes=1200, seed=5, to=tmp_path / format, schema_changes=0, truncates=3, rollback_share=0.2,
            undo_share=0.4, open_transactions=3, **more,
        )  # fmt: skip
        told[format] = pq.read_table(folder / "truth" / "changes.parquet").to_pylist()
    committed = [row for row in told.pop("gbase8s") if row["outcome"] == "committed"]
    committed.sort(key=lambda row: (row["commit_position"], row["position"]))
    assert 600 < len(committed) < 1100
    for format, found in told.items():
        found.sort(key=lambda row: row["position"])
        assert {row["outcome"] for row in found} == {"committed"}
        is_kafka = format == "qlik-kafka"
        wanted = [
            _keyed(row)
            for row in committed
            if (row["operation"] != "TRUNCATE" if is_kafka else row["changed_columns"] != [])
        ]
        assert [_keyed(row) for row in found] == wanted


def test_nothing_that_was_taken_back_is_delivered() -> None:
    """Each change is delivered once, and only if its transaction committed."""
    options = Options.parse({"undo_share": 0.8, "rollback_share": 0.3, "transaction_size": 15})
    workload = Workload(options, 800, 3, loaded=2)
    items = list(workload.history(workload.events()))
    committed = [item for item in items if isinstance(item, Committed)]
    loaded = [item for item in items if isinstance(item, Change)]
    assert len(loaded) == 12
    assert sum(len(item.changes) for item in committed) < 600
    assert all(a.at <= b.at for a, b in pairwise(committed))
    live = {(item.version.table.name, item.after[0]) for item in loaded if item.after is not None}
    for change in (change for item in committed for change in item.changes):
        name = change.version.table.name
        if change.operation is Operation.TRUNCATE:
            live = {one for one in live if one[0] != name}
        if change.before is not None:
            live.remove((name, change.before[0]))
        if change.after is not None:
            assert (name, change.after[0]) not in live
            live.add((name, change.after[0]))


def test_every_kind_of_schema_change_does_what_its_name_says() -> None:
    version = tables(1, 0, False)[0]
    key = version.table.key
    for _ in range(4):
        for kind in KINDS:
            before, version = version, reshape(version, kind)
            old, new = [c.name for c in before.columns], [c.name for c in version.columns]
            assert version.number == before.number + 1
            assert new[0] == old[0] == key
            assert len(set(new)) == len(new)
            match kind:
                case "add":
                    assert (new[:-1], version.origin[-1]) == (old, None)
                case "drop":
                    assert len(new) == len(old) - 1
                    assert set(new) < set(old)
                case "rename":
                    assert sum(a != b for a, b in zip(old, new, strict=True)) == 1
                    assert version.origin == tuple(range(len(new)))
                case "retype":
                    assert new == old
                    assert sum(a != b for a, b in zip(before.columns, version.columns, strict=True)) == 1
                case "reorder":
                    assert sorted(new) == sorted(old)
                    assert new != old
                case "swap":
                    assert len(new) == len(old)
                    assert len(set(new) - set(old)) == len(set(old) - set(new)) == 1


def test_rows_follow_their_table_through_its_versions(tmp_path: Path) -> None:
    """A row that is updated or deleted has the values that it got, whatever was done to its columns since."""
    folder = generate(
        "qlik-kafka", changes=2500, seed=6, to=tmp_path, schema_changes=30, rollback_share=0, undo_share=0, truncates=0
    )
    truth = pq.read_table(folder / "truth" / "changes.parquet").to_pylist()
    live: dict[tuple[str, str], dict[str, str | None]] = {}
    survived = 0
    for row in sorted(truth, key=lambda row: row["position"] or ""):
        before, after = ({} if row[n] is None else dict(row[n]) for n in ("before", "after"))
        key = row["key"][0][0]
        if before:
            known = live.pop((row["table_name"], before[key] or ""))
            same = [name for name in before if name in known]
            assert {name: before[name] for name in same} == {name: known[name] for name in same}
            survived += set(before) != set(known)
        if after:
            live[row["table_name"], after[key] or ""] = after
    assert survived > 20
