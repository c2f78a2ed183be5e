"""Generated Logdump text: what stands in the files, read line by line, is what the truth says."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow.parquet as pq
import pytest

from cdcwb import model
from cdcwb_synth import generate
from tests.synth_goldengate import (
    OPERATIONS,
    Record,
    Story,
    content,
    facts,
    image,
    julian,
    paths,
    records,
    stories,
    truth,
    utc,
    walk,
)

NO_TEXT = "ghdr,detail,data,ggstoken,tokendetail,headertoken,headerdetail,fileheader"
WORKLOADS: dict[str, dict[str, Any]] = {
    "21c with every switch but user tokens": {},
    "21c, big-endian, user tokens, a file for each of three trail files, tokens on the last record": {
        "byte_order": "big", "switches": NO_TEXT + ",metadata,usertoken", "trail_files": 3, "capture_files": "trail",
        "tokens": "last",
    },
    "12c in Seoul, pairs, full deletes, restarts, tokens on the first record": {
        "style": "12c", "zone": "Asia/Seoul", "updates": "pairs", "deletes": "full", "restarts": 4, "abends": 4,
        "tokens": "first", "transaction_size": 5,
    },
    "21c, unified updates, prompts and notes, split bodies, two trail files, restarts": {
        "updates": "unified", "prompts": 0.3, "long_varchars": 300, "trail_files": 2, "restarts": 3, "abends": 2,
        "all_types_share": 0.3,
    },
    "12c, split bodies, unified with two bytes, big-endian, a colon before the characters, glued prompts": {
        "style": "12c", "updates": "unified", "unified_prefix": 2, "long_varchars": 200, "byte_order": "big",
        "pane": ":", "switches": "ghdr,detail,data,ggstoken,tokendetail,metadata", "prompts": 0.5,
        "all_types_share": 0.2,
    },
    "11g, names instead of definitions, gzip": {
        "style": "11g", "byte_order": "big", "compression": "gzip", "long_varchars": 500, "all_types_share": 0.2,
    },
    "11g, pairs, key changes as plain updates, CRLF": {
        "style": "11g", "updates": "pairs", "pk_updates": 0, "line_end": "crlf",
    },
    "collapsed white space, zstd, Berlin": {"collapsed": True, "compression": "zstd", "zone": "Europe/Berlin"},
    "records taken back": {"undo": 0.3, "deletes": "full", "trail_files": 2},
    "bodies cut": {"reclen": 60, "lobs": False, "updates": "pairs"},
    "no column lines": {"switches": "ghdr,ggstoken,tokendetail,metadata", "prompts": 0.2},
    "column lines without bytes": {"switches": "ghdr,detail,ggstoken,tokendetail,metadata,headertoken"},
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
            known[name] = generate("goldengate", changes=500, seed=7, to=to, schema_changes=5, truncates=4, **options)
        return known[name]

    return make


def read(folder: Path) -> list[Record]:
    return [one for one in records(folder) if isinstance(one, Record)]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_byte_is_of_a_record_or_of_a_filler_that_is_counted(made: Made, workload: str) -> None:
    folder = made(**WORKLOADS[workload])
    sizes = [len(content(path)) for path in paths(folder)]
    told, counts = facts(folder), Counter[str]()
    at, number, bytes_ = 0, 0, 0
    for one in records(folder):
        file, start, stop = (one.file, one.start, one.stop) if isinstance(one, Record) else one
        if file != number:
            assert at == sizes[number]
            at, number = 0, file
        assert (file, start) == (number, at)
        assert stop > start
        at = stop
        if isinstance(one, Record):
            counts[one.operation] += 1
        else:
            counts["fillers"] += 1
            bytes_ += stop - start
    assert at == sizes[-1]
    assert number == len(sizes) - 1
    assert {name: told[name] for name in counts} == counts
    assert told["filler_bytes"] == bytes_
    assert told["records"] == sum(counts.values()) - counts["fillers"]
    assert told["files"] == [path.name for path in paths(folder)]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_header_says_what_its_record_has(made: Made, workload: str) -> None:
    options = WORKLOADS[workload]
    folder, order = made(**options), options.get("byte_order", "little")
    zone = ZoneInfo(options.get("zone", "UTC"))
    found = read(folder)
    for record in found:
        if record.operation == "FileHeader":
            assert record.rba == 0
            shown = min(record.length, options.get("reclen") or record.length)
            assert len(record.body) == shown
            assert record.body[8:16] == b"GG\r\nTL\n\r"
            continue
        assert record.number("RecLength") == record.length
        assert record.values["IO Time"] == record.time
        if record.operation != "Metadata":
            assert len(record.body) == min(record.length, options.get("reclen") or record.length)
        if record.parts:
            inner = sum(4 + length for name, length in record.parts.items() if name in "HDTU")
            assert record.parts["G"] == record.parts["Z"] == 8 + inner
            assert record.parts.get("D", 0) == record.length
        if record.ghdr:
            check_header(record, order)
            there = datetime.strptime(record.time[:-8], "%Y/%m/%d %H:%M:%S").replace(tzinfo=zone)
            assert utc(record).astimezone(zone).replace(tzinfo=None, microsecond=0) == there.replace(tzinfo=None)
            assert record.time[-7:].replace(".", "") == f"{julian(record) % 1_000_000:06d}"


def check_header(record: Record, order: Any) -> None:
    raw = record.ghdr
    assert len(raw) == record.parts["H"]
    assert (chr(raw[0]), raw[1], raw[2]) == ("E", record.number("Partition"), record.number("UndoFlag"))
    assert chr(raw[3]) == record.values["BeforeAfter"] == "AB"[record.is_before]
    assert int.from_bytes(raw[4:6], order) == record.length
    assert (raw[6], raw[7]) == (record.number("IOType"), record.number("OrigNode"))
    assert int.from_bytes(raw[16:20], order) == record.number("AuditPos")
    if "AuditRBA" in record.values:
        assert int.from_bytes(raw[24:28], order) == record.number("AuditRBA")
    else:
        indexes = [int.from_bytes(raw[at : at + 2], order) for at in (24, 26)]
        assert indexes == [record.number("DDR index"), record.number("TDR index")]
    assert raw[28] == record.number("TransInd")
    assert "NY"[raw[32]] == record.values["Continued"]
    assert raw[33] == record.number("RecCount")
    assert not any(raw[34:])  # Logdump blanks what follows


@pytest.mark.parametrize(
    "workload", [name for name in WORKLOADS if "metadata" in WORKLOADS[name].get("switches", "metadata")]
)
def test_the_next_record_stands_behind_the_length_of_this_one(made: Made, workload: str) -> None:
    found = sorted(read(made(**WORKLOADS[workload])), key=lambda one: one.position)
    assert found
    for one, other in pairwise(found):
        if other.trail != one.trail:
            assert other.rba == 0 or other.operation == "Metadata"
        elif one.operation == "FileHeader":
            assert other.rba == one.length + 8
        elif one.parts:
            assert other.rba == one.rba + one.parts["G"]
        else:
            assert other.rba > one.rba + one.length


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_change_is_what_the_truth_says(made: Made, workload: str) -> None:
    options = WORKLOADS[workload]
    folder = made(**options)
    found = read(folder)
    versions = {row["table_version"]: row for row in truth(folder, "table_versions")}
    rows = {(row["file_index"], row["offset"]): row for row in truth(folder, "changes")}
    ends: dict[str, Record] = {}
    told = list(stories(found))
    for story in told:
        ends[story.transaction] = story.records[-1]
    in_force: dict[tuple[str, int], str] = {}
    metadata = iter([r for r in sorted(found, key=lambda one: one.position) if r.operation == "Metadata"])
    waiting = next(metadata, None)
    counts: Counter[str] = Counter()
    for story in told:
        while waiting is not None and waiting.position < story.head.position:
            if waiting.number("TDR index"):
                check_definition(waiting, versions, in_force)
            waiting = next(metadata, None)
        row = rows.pop((story.head.file, story.head.start))
        counts[row["operation"]] += 1
        counts[row["outcome"]] += 1
        check(row, story, versions, in_force, ends, options)
    assert not rows
    assert {"INSERT", "UPDATE", "DELETE", "TRUNCATE", "DDL", "committed"} <= set(counts)
    assert ("rolled_back" in counts) == ("abends" in options)
    assert ({"undo", "undone"} <= set(counts)) == ("undo" in options)
    assert counts["undo"] == counts["undone"]


def check_definition(record: Record, versions: dict[str, Any], in_force: dict[tuple[str, int], str]) -> None:
    """A Metadata record says of its columns what the truth does."""
    trail, index = record.trail.rpartition("/")[2], record.number("TDR index")
    same = [v for v in versions.values() if v["table_version"].partition("#")[0] == f"{index}@{trail}"]
    text = "\n".join(record.text)
    row = next(v for v in same if v["first_event"] == record.place or v["schema_text"] == text)
    in_force[trail, index] = row["table_version"]
    assert row["schema_text"] == text
    start = next(at for at, line in enumerate(record.text) if line.startswith("Columns:"))
    lines = record.text[start + 1 : record.text.index("End of definition")]
    assert len(lines) == int(record.text[start].split()[1]) == len(row["columns"])
    for line, column in zip(lines, row["columns"], strict=True):
        name, *numbers = line.split()
        assert len(numbers) == 23
        assert (name, numbers[0], numbers[1]) == (column["name"], column["type"].split()[0], str(column["length"]))
        assert (numbers[3], numbers[5]) == (str(column["scale"]), str(int(column["nullable"])))
        assert int(numbers[16]) == (column["key_position"] is not None)
    assert f"{row['schema_name']}.{row['table_name']}" == record.text[0].split()[-1]


def check(
    row: dict[str, Any], story: Story, versions: dict[str, Any], in_force: dict[tuple[str, int], str],
    ends: dict[str, Record], options: dict[str, Any],
) -> None:  # fmt: skip
    head, end = story.head, ends[story.transaction]
    order, limit = options.get("byte_order", "little"), options.get("reclen", 0)
    assert (row["record_type"], row["operation"]) == (head.operation, OPERATIONS[head.operation])
    assert row["position"] == head.position
    assert row["transaction_id"] == story.transaction
    assert row["source_events"] == [one.place for one in story.records]
    assert row["length"] == head.stop - head.start
    assert row["last_in_transaction"] == (head.number("TransInd") in (2, 3))
    aborted = story.outcome == "rolled_back"
    assert row["commit_position"] == (None if aborted else end.position)
    if head.ghdr:
        assert row["changed_at"] == utc(head)
        assert row["committed_at"] == (None if aborted else utc(end))
    headers = row["headers"]
    assert {name: headers[name] for name in head.values} == head.values
    assert headers["Trail"] == head.trail
    if head.operation == "DDLOP":
        assert b",C1='ALTER TABLE shop." in head.body or limit
        assert row["before"] is row["after"] is row["key"] is None
        assert row["outcome"] == "committed"
        return
    assert headers["Name"] == head.name == f"{row['schema_name']}.{row['table_name']}"
    if head.number("UndoFlag"):
        assert row["outcome"] == "undo"
    else:
        assert row["outcome"] in (story.outcome, "undone")
    version = versions[row["table_version"]]
    defined = version["origin"] == "record"
    if defined:
        assert in_force[head.trail.rpartition("/")[2], head.index] == row["table_version"]
    before, after = images(story, version, order, options, defined)
    assert (row["before"], row["after"]) == (before, after)
    if defined:
        names = [column["name"] for column in version["columns"] if column["key_position"]]
        own = before if story.records[0] is head else None
        shown = next((one for one in (own, after) if one and set(names) <= one.keys()), None)
        assert row["key"] == (None if shown is None else {name: shown[name] for name in names})
    else:
        assert row["key"] is None
    counted = len(story.records) - story.records.index(head)
    assert headers.get("fragments") == (str(counted) if counted > 1 else None)


def switches(options: dict[str, Any]) -> list[str]:
    """What is printed."""
    listed: list[str] = options.get("switches", NO_TEXT + ",metadata").split(",")
    return listed


def large_objects(
    behind: Sequence[Record], body: bytes, version: dict[str, Any], order: Any, is_told: bool
) -> dict[int, bytes]:
    """The large objects of a change by column, from the records behind its head. ``is_told``: each says its column;
    else they are those of the columns that the definition calls so and that are not NULL, in order."""
    chains: list[list[Record]] = [[]]
    for one in behind:
        if one.operation == "LargeObject":
            chains[-1].append(one)
            assert len(one.body) <= 2000
            if one.values["Continued"] == "N":
                assert len(chains[-1]) == one.number("RecCount")
                chains.append([])
    assert not chains.pop()
    if is_told:
        for chain in chains:
            told = [one.fragment for one in chain]
            assert [fragment and fragment[1:] for fragment in told] == [(k + 1, len(chain)) for k in range(len(chain))]
            assert len({fragment and fragment[0] for fragment in told}) == 1
        columns = [chain[0].fragment[0] for chain in chains if chain[0].fragment]
    elif chains:
        lines = version["schema_text"].split("\n")
        rows = lines[-1 - len(version["columns"]) : -1]
        are_lobs = {at for at, line in enumerate(rows) if line.split()[22] == "1"}
        columns = [index for index, data in walk(body, order) if index in are_lobs and data != b"\xff\xff"]
    else:
        columns = []
    joined = [b"".join(one.body for one in chain) for chain in chains]
    return dict(zip(columns, joined, strict=True))


def images(
    story: Story, version: dict[str, Any], order: Any, options: dict[str, Any], defined: bool
) -> tuple[Any, Any]:
    """Both images of a change, from its records."""
    head = story.head
    behind = story.records[story.records.index(head) + 1 :]
    body = head.body + b"".join(one.body for one in behind if one.operation != "LargeObject")
    lobs = large_objects(behind, body, version, order, "detail" in switches(options))
    names = version["columns"]
    if head.operation == "GGSPurgedata":
        assert body == b""
        return None, None
    before = after = None
    if head.operation == "Insert":
        after = image(body, names, order, lobs, defined)
        assert len(after) == len(names) or options.get("reclen") or not defined
    elif head.operation == "Delete":
        before = image(body, names, order, lobs, defined)
    elif head.operation == "FieldComp":
        after = image(body, names, order, lobs, defined)
        if head is not story.records[0]:
            before = image(story.records[0].body, names, order, None, defined)
            assert options.get("reclen") or list(before) == [name for name in after if name in before]
    else:
        width = 2 if head.operation == "GGSPKUpdate" else options.get("unified_prefix", 4)
        middle = width + int.from_bytes(body[:width], order)
        before = image(body[width:middle], names, order, None, defined)
        after = image(body[middle:], names, order, lobs, defined)
        if "detail" in switches(options):
            assert head.halves[0] == ("Before", middle)
            assert head.halves[1:] in ([("After", head.length - middle)], [("After", len(body) - middle)], [])
    if "data" in switches(options) and head.length == len(head.body):
        check_column_lines(head, order)
    return before, after


def check_column_lines(head: Record, order: Any) -> None:
    """The column lines, put together, are the record's body, or the beginning of it where it goes on elsewhere."""
    shown = b"".join(i.to_bytes(2, order) + size.to_bytes(2, order) + data for _, i, size, data in head.columns)
    if head.halves:
        assert head.columns[0][3] in head.body
    elif head.values["Continued"] == "Y":
        assert head.body.startswith(shown)
        assert len(head.body) - len(shown) <= 4
    else:
        assert shown == head.body


@pytest.mark.parametrize("workload", WORKLOADS)
def test_transactions_add_up(made: Made, workload: str) -> None:
    options = WORKLOADS[workload]
    folder = made(**options)
    rows = {row["transaction_id"]: row for row in truth(folder, "transactions")}
    assert len(rows) == len(truth(folder, "transactions"))
    changes: dict[str, list[dict[str, Any]]] = {}
    for change in truth(folder, "changes"):
        changes.setdefault(change["transaction_id"], []).append(change)
    assert rows.keys() == changes.keys()
    found = read(folder)
    aborts = {}
    for one, other in pairwise(sorted((r for r in found if r.operation != "Metadata"), key=lambda r: r.position)):
        if other.operation == "RestartAbend":
            aborts[one.position] = other
    for name, row in rows.items():
        own = changes[name]
        counts = Counter(change["operation"] for change in own)
        assert row["changes"] == counts
        tables = {f"{change['schema_name']}.{change['table_name']}" for change in own if change["table_name"]}
        assert row["tables"] == sorted(tables)
        size = sum(event["length"] for change in own for event in change["source_events"])
        if row["outcome"] == "rolled_back":
            end = next(r for r in found if r.position == row["end_position"])
            assert end.operation == "RestartAbend"
            size += end.stop - end.start
        else:
            assert row["outcome"] == "committed"
            assert {row["end_position"]} == {change["commit_position"] for change in own}
        assert row["bytes"] == size
        assert row["completeness"] == "complete"
        assert row["began_at"] <= row["ended_at"]
        assert row["begin_position"] <= min(change["position"] for change in own)


def test_the_truth_has_the_columns_of_the_model(made: Made) -> None:
    folder = made()
    for table in ("changes", "transactions", "table_versions"):
        assert pq.read_schema(folder / "truth" / f"{table}.parquet").equals(model.TABLES[table])


def test_an_aborted_piece_of_a_transaction_is_written_again_whole(made: Made) -> None:
    folder = made(**WORKLOADS["12c in Seoul, pairs, full deletes, restarts, tokens on the first record"])
    rows = truth(folder, "changes")
    aborted = [row for row in rows if row["outcome"] == "rolled_back"]
    assert aborted
    again = Counter(row["transaction_id"] for row in rows)
    for row in aborted:
        name, _, first = row["transaction_id"].partition("@")
        assert again[name] > again[row["transaction_id"]]
        assert first <= row["position"]


def test_a_record_with_undo_flag_takes_back_the_latest_opposite_change_of_its_key(made: Made) -> None:
    rows = truth(made(**WORKLOADS["records taken back"]), "changes")
    rows.sort(key=lambda row: row["position"])
    opposite = {"INSERT": "DELETE", "DELETE": "INSERT", "UPDATE": "UPDATE"}
    undone = 0
    for at, row in enumerate(rows):
        if row["outcome"] != "undo":
            continue
        same = [
            one for one in rows[:at]
            if (one["transaction_id"], one["table_name"], one["key"], one["operation"])
            == (row["transaction_id"], row["table_name"], row["key"], opposite[row["operation"]])
        ]  # fmt: skip
        assert same[-1]["outcome"] == "undone"
        undone += 1
    assert undone > 20


def test_long_transactions_go_on_in_the_next_trail_file(tmp_path: Path) -> None:
    folder = generate("goldengate", changes=600, seed=3, to=tmp_path, trail_files=5, transaction_size=40)
    rows = truth(folder, "transactions")
    over = [row for row in rows if row["begin_position"][:10] != row["end_position"][:10]]
    assert over
    assert facts(folder)["trail_files"] == 5


def test_json_positions_are_those_of_the_same_trail(made: Made) -> None:
    folder = made()
    logdump = {row["position"] for row in truth(folder, "changes") if row["operation"] != "DDL"}
    options = {"form": "json", "switches": json.loads((folder / "synth.json").read_text())["options"]["switches"]}
    assert {row["position"] for row in truth(made(**options), "changes")} == logdump


def test_printed_times_are_those_of_the_zone(tmp_path: Path) -> None:
    folder = generate(
        "goldengate", changes=50, seed=1, to=tmp_path, zone="Europe/Berlin", start="2025-10-26T00:30:00Z", rate=0.01
    )
    printed = [one.time[11:13] for one in read(folder)]
    assert {"02"} <= set(printed)
    moments = [utc(one) for one in read(folder) if one.ghdr]
    assert max(moments) > datetime(2025, 10, 26, 1, 0, tzinfo=UTC)
