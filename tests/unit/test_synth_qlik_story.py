"""What both Qlik formats tell of a workload: only committed work, in commit order, the same story as gbase8s; and how
options are refused."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cdcwb_synth import FORMAT_OPTIONS, SynthError, generate
from cdcwb_synth.catalogue import KINDS, reshape, tables
from cdcwb_synth.events import Load
from cdcwb_synth.history import Committed, history
from cdcwb_synth.model import Operation
from cdcwb_synth.qlik.options import KafkaOptions
from cdcwb_synth.qlik.sequence import ChangeSequence
from cdcwb_synth.workload import Workload
from tests.synth_qlik import truth

FORMATS = ("qlik-kafka", "qlik-change-table")


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize(
    ("format", "options"),
    [
        ("qlik-kafka", {"layout": "stream", "lost_share": 0.1, "duplicate_share": 0.1, "metadata": "late"}),
        ("qlik-kafka", {"form": "confluent", "container": "parquet", "column_mask": 0.3, "tombstone_share": 0.3}),
        ("qlik-kafka", {"container": "console", "compression": "gzip", "metadata": "separate"}),
        ("qlik-change-table", {"compression": "gzip", "unknown_times": 0.2, "repeat_sequences": 0.2}),
        ("qlik-change-table", {"container": "parquet", "partition_minutes": 1, "rate": 2}),
    ],
)
def test_the_same_seed_gives_the_same_bytes(tmp_path: Path, format: str, options: dict[str, Any]) -> None:
    first, second, other = (
        files(generate(format, changes=150, seed=seed, to=tmp_path / name, **options))
        for seed, name in ((3, "a"), (3, "b"), (4, "c"))
    )
    assert first == second
    assert first["truth/changes.parquet"] != other["truth/changes.parquet"]


def _keyed(row: dict[str, Any]) -> tuple[str, str, str | None, str | None]:
    """An image's first column (the key) before and after, by operation and table."""
    ends = [None if row[name] is None else row[name][0][1] for name in ("before", "after")]
    return row["operation"], row["table_name"], ends[0], ends[1]


def test_every_format_tells_the_same_story(tmp_path: Path) -> None:
    """The committed changes of gbase8s, in commit order, are those of Qlik; a change table leaves out what changes
    nothing, and Kafka has no truncates."""
    told = {}
    for format in ("gbase8s", *FORMATS):
        more: dict[str, Any] = {"table_names": True} if format == "gbase8s" else {"refresh_rows": 0}
        folder = generate(
            format, changes=1200, seed=5, to=tmp_path / format, schema_changes=0, truncates=3, rollback_share=0.2,
            undo_share=0.4, open_transactions=3, **more,
        )  # fmt: skip
        told[format] = truth(folder, "changes")
        assert json.loads((folder / "synth.json").read_text())["changes"] == 1200
    committed = [row for row in told["gbase8s"] if row["outcome"] == "committed"]
    committed.sort(key=lambda row: (row["commit_position"], row["position"]))
    assert len(committed) < 1100
    for format in FORMATS:
        told[format].sort(key=lambda row: row["position"])
        assert {row["outcome"] for row in told[format]} == {"committed"}
        is_kafka = format == "qlik-kafka"
        wanted = [
            _keyed(row)
            for row in committed
            if (row["operation"] != "TRUNCATE" if is_kafka else row["changed_columns"] != [])
        ]
        assert [_keyed(row) for row in told[format]] == wanted


@pytest.mark.parametrize("format", FORMATS)
def test_transactions_follow_one_another_and_share_the_time_of_their_commit(tmp_path: Path, format: str) -> None:
    folder = generate(format, changes=600, seed=8, to=tmp_path, concurrency=20)
    rows = sorted((r for r in truth(folder, "changes") if r["position"]), key=lambda row: row["position"])
    names = [row["transaction_id"] for row in rows]
    turns = sum(a != b for a, b in pairwise(names)) + 1
    assert turns == len(set(names))  # nobody comes between the changes of a transaction
    assert len({row["position"] for row in rows}) == len(rows)
    numbers = [int(row["position"][16:]) for row in rows]
    assert numbers == sorted(numbers)
    times = {name: {row["position"][:16] for row in rows if row["transaction_id"] == name} for name in names}
    assert {len(one) for one in times.values()} == {1}
    assert all(row["changed_at"] <= row["committed_at"].replace(microsecond=999_999) for row in rows)
    assert all(len(row["position"]) == 35 for row in rows)


@pytest.mark.parametrize("format", FORMATS)
def test_a_full_load_comes_first_and_can_be_left_out(tmp_path: Path, format: str) -> None:
    for count in (0, 7):
        rows = truth(generate(format, changes=200, seed=1, to=tmp_path / str(count), refresh_rows=count), "changes")
        loaded = [row for row in rows if row["operation"] == "REFRESH"]
        assert Counter(row["table_name"] for row in loaded) == dict.fromkeys({r["table_name"] for r in loaded}, count)
        assert len(loaded) == 6 * count
        for row in loaded:
            nothing = (
                "position",
                "commit_position",
                "transaction_id",
                "change_mask",
                "outcome",
                "committed_at",
                "before",
            )
            assert {row[name] for name in nothing} == {None}
    known = {(row["table_name"], dict(row["key"])[row["key"][0][0]]) for row in loaded}
    changed = {(row["table_name"], row["key"][0][1]) for row in rows if row["operation"] in ("UPDATE", "DELETE")}
    assert known & changed  # rows of the full load are changed later


@pytest.mark.parametrize("format", FORMATS)
def test_twelve_versions_of_five_tables_can_be_had(tmp_path: Path, format: str) -> None:
    folder = generate(format, changes=2000, seed=2, to=tmp_path, tables=5, all_types=False, schema_changes=7)
    versions = truth(folder, "table_versions")
    assert len(versions) == 12
    assert len({row["table_name"] for row in versions}) == 5
    used = {row["table_version"] for row in truth(folder, "changes")}
    assert used == {row["table_version"] for row in versions}


def test_every_kind_of_schema_change_does_what_its_name_says() -> None:
    first = tables(1, 0, False)[0]
    version = first
    for turn in range(4):
        for kind in KINDS:
            before = version
            version, origin = reshape(before, kind)
            old, new = [c.name for c in before.columns], [c.name for c in version.columns]
            assert version.number == before.number + 1
            assert tuple(origin) == version.origin
            assert new[0] == old[0] == first.table.key
            assert len(set(new)) == len(new)
            match kind:
                case "add":
                    assert (new[:-1], origin[-1]) == (old, None)
                case "drop":
                    assert len(new) == len(old) - 1
                    assert set(new) < set(old)
                case "rename":
                    assert sum(a != b for a, b in zip(old, new, strict=True)) == 1
                    assert origin == [*range(len(new))]
                case "retype":
                    assert new == old
                    assert sum(a != b for a, b in zip(before.columns, version.columns, strict=True)) == 1
                case "reorder":
                    assert sorted(new) == sorted(old)
                    assert new != old
                case "swap":
                    assert len(new) == len(old)
                    assert len(set(new) - set(old)) == len(set(old) - set(new)) == 1
            for column, place in zip(version.columns, origin, strict=True):
                same = place is not None and before.columns[place].name == column.name
                assert same or kind in ("add", "rename", "swap")
        assert turn >= 0


def test_rows_follow_their_table_through_its_versions(tmp_path: Path) -> None:
    """A row that is updated or deleted has the values that it got, whatever was done to its columns since."""
    folder = generate(
        "qlik-kafka", changes=2500, seed=6, to=tmp_path, schema_changes=30, rollback_share=0, undo_share=0,
        truncates=0, idle_updates=0,
    )  # fmt: skip
    rows = [row for row in truth(folder, "changes") if row["position"]]
    live: dict[tuple[str, str], dict[str, str | None]] = {}
    for row in truth(folder, "changes"):
        if row["operation"] == "REFRESH":
            live[row["table_name"], row["key"][0][1]] = dict(row["after"])
    survived = 0
    for row in sorted(rows, key=lambda row: row["position"]):
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


def test_a_clock_that_is_set_back_stands_still_while_numbers_rise(tmp_path: Path) -> None:
    folder = generate("qlik-kafka", changes=1500, seed=4, to=tmp_path / "back", clock_back=2, rate=100)
    rows = sorted((r for r in truth(folder, "changes") if r["position"]), key=lambda row: row["position"])
    runs: dict[str, dict[str, Any]] = {}
    for row in rows:
        runs.setdefault(row["position"][:16], {})[row["transaction_id"]] = row["changed_at"]
    spans = [(len(run), (max(run.values()) - min(run.values())).total_seconds()) for run in runs.values()]
    frozen = [(count, seconds) for count, seconds in spans if count >= 3 and seconds >= 2]
    assert len(frozen) == 2
    assert {row["committed_at"].microsecond % 10_000 for row in rows} == {0}
    plain = truth(generate("qlik-kafka", changes=1500, seed=4, to=tmp_path / "plain", rate=100), "changes")
    assert [row["changed_at"] for row in sorted(plain, key=lambda row: row["position"] or "")][-len(rows) :] == [
        row["changed_at"] for row in rows
    ]


def test_a_sequence_never_falls_and_goes_through_no_number() -> None:
    from datetime import UTC, datetime

    sequence = ChangeSequence(datetime(2026, 2, 3, 4, 5, 6, 789_999, UTC))
    assert sequence.take(42) == "20260203040506780000000000000000042"
    sequence.stamp(datetime(2026, 2, 3, 4, 5, 5, tzinfo=UTC))
    assert sequence.take() == "20260203040506780000000000000000043"
    sequence.stamp(datetime(2026, 12, 31, 23, 59, 59, 999_999, UTC))
    assert sequence.take() == "20261231235959990000000000000000044"


def test_nothing_that_was_taken_back_is_handed_over() -> None:
    """Against the workload's own events: each change is handed over once, and only if its transaction committed."""
    options = KafkaOptions.parse({"undo_share": 0.8, "rollback_share": 0.3, "transaction_size": 15})
    workload = Workload(options.workload, 800, 3, loaded=2)
    items = list(history(workload))
    committed = [item for item in items if isinstance(item, Committed)]
    assert sum(isinstance(item, Load) for item in items) == 12
    assert sum(len(item.changes) for item in committed) < 600
    assert all(a.at <= b.at for a, b in pairwise(committed))
    live: set[tuple[str, Any]] = {(i.version.table.name, i.row[0]) for i in items if isinstance(i, Load)}
    for change in (change for item in committed for change in item.changes):
        name = change.version.table.name
        if change.operation is Operation.TRUNCATE:
            live = {one for one in live if one[0] != name}
        if change.before is not None:
            live.remove((name, change.before[0]))
        if change.after is not None:
            assert (name, change.after[0]) not in live
            live.add((name, change.after[0]))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("changes", [0, 1, 5])
def test_small_numbers_of_changes_make_a_capture(tmp_path: Path, format: str, changes: int) -> None:
    folder = generate(format, changes=changes, seed=1, to=tmp_path, refresh_rows=0, schema_changes=0)
    told = json.loads((folder / "synth.json").read_text())
    assert len(truth(folder, "changes")) == told["captured_changes"] <= changes
    assert len(truth(folder, "transactions")) == told["transactions"]


def test_what_is_not_told_is_where_the_options_say(tmp_path: Path) -> None:
    beside = generate("qlik-kafka", changes=30, seed=1, to=tmp_path / "a", metadata="separate")
    registry = generate("qlik-kafka", changes=30, seed=1, to=tmp_path / "b", form="confluent", container="avro")
    assert {path.name for path in beside.iterdir()} == {"capture", "metadata", "truth", "synth.json"}
    assert {path.name for path in registry.iterdir()} == {"capture", "registry", "truth", "synth.json"}
    again = generate("qlik-kafka", changes=30, seed=1, to=tmp_path / "a", overwrite=True)
    assert {path.name for path in again.iterdir()} == {"capture", "truth", "synth.json"}


@pytest.mark.parametrize(
    ("format", "options", "message"),
    [
        ("qlik-kafka", {"fom": "json"}, "unknown option 'fom'; did you mean 'form'"),
        ("qlik-kafka", {"reversed_updates": 0.1}, "unknown option 'reversed_updates'"),
        ("qlik-kafka", {"shape": "hex"}, "unknown option 'shape'"),
        ("qlik-kafka", {"form": "avro"}, "did you mean 'avro-envelope'"),
        ("qlik-kafka", {"container": "line"}, "did you mean 'lines'"),
        ("qlik-kafka", {"form": "json", "metadata": "mixed"}, "has no metadata messages"),
        ("qlik-kafka", {"form": "avro-envelope", "container": "avro", "metadata": "none"}, "without metadata"),
        ("qlik-kafka", {"form": "confluent"}, "is binary: container is one of"),
        ("qlik-kafka", {"container": "parquet", "encoding": "hex"}, "so encoding is raw"),
        ("qlik-kafka", {"container": "documents", "tombstone_share": 0.1}, "cannot hold tombstones"),
        ("qlik-kafka", {"schema_kinds": "add,remove"}, "'remove' is not one of add, drop"),
        ("qlik-kafka", {"schema_kinds": "add,add"}, "names add twice"),
        ("qlik-kafka", {"schema_kinds": " "}, "names none"),
        ("qlik-kafka", {"console_parts": "key,tpoic"}, "'tpoic' is not one of"),
        ("qlik-kafka", {"tables": 300}, "as many open files"),
        ("qlik-kafka", {"start": "noon"}, "no ISO 8601 time"),
        ("qlik-kafka", {"update_share": 0.9, "delete_share": 0.9}, "more than 1"),
        ("qlik-change-table", {"form": "json"}, "unknown option 'form'"),
        ("qlik-change-table", {"headers": "change_seq,change_op"}, "'change_op' is not one of"),
        ("qlik-change-table", {"headers": "change_seq,timestamp"}, "what a row is"),
        ("qlik-change-table", {"headers": "change_oper"}, "which before image"),
        ("qlik-change-table", {"headers": "change_seq,change_oper,partition_name"}, "partition_minutes is more than 0"),
        ("qlik-change-table", {"mask": "binary"}, "holds text"),
        ("qlik-change-table", {"dfm": False, "header_line": False}, "names the columns"),
        ("qlik-change-table", {"dfm": False, "delimiter": ";"}, "nothing tells delimiter"),
        ("qlik-change-table", {"delimiter": "ab"}, "delimiter is one character"),
        ("qlik-change-table", {"null_value": 'a"b'}, "hold no quote"),
        ("qlik-change-table", {"suffix": ""}, "not empty"),
        ("qlik-change-table", {"tables": 500}, "at most 400"),
        ("qlik-kafak", {}, "did you mean 'qlik-kafka'"),
    ],
)
def test_unusable_options_say_what_is_wrong(tmp_path: Path, format: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SynthError, match=message):
        generate(format, changes=1, seed=1, to=tmp_path / "made", **options)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("format", FORMATS)
def test_every_option_is_described_and_taken_as_text(tmp_path: Path, format: str) -> None:
    known = FORMAT_OPTIONS[format]
    assert all(meaning for _, meaning in known.values())
    given = {name: str(default) for name, (default, _) in known.items()}
    folder = generate(format, changes=5, seed=1, to=tmp_path, **given)
    told = json.loads((folder / "synth.json").read_text())["options"]
    assert told == {name: default for name, (default, _) in known.items()}
