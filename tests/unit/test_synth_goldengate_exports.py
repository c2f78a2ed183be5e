"""Generated JSON and XML of GoldenGate: what stands in the files, read by json and an XML parser, is what the truth
says; and how options are refused."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from cdcwb_synth import SynthError, generate
from tests.synth_goldengate import content, facts, paths, truth

JSON: dict[str, dict[str, Any]] = {
    "operations in lines": {},
    "operations as documents, pairs, full deletes, companions": {
        "container": "documents", "updates": "pairs", "deletes": "full", "is_missing": True, "before": "absent",
    },
    "operations wrapped, as literals, unified, tokens on the last record": {
        "container": "bytes_literal", "connect": True, "updates": "unified", "tokens": "last", "before": "empty",
    },
    "rows, a file for each of three trail files, gzip": {
        "json_form": "row", "trail_files": 3, "capture_files": "trail", "compression": "gzip",
    },
    "rows with companions, zstd": {"json_form": "row", "is_missing": True, "compression": "zstd", "abends": 3},
}  # fmt: skip
XML: dict[str, dict[str, Any]] = {
    "new values only": {},
    "pairs and full deletes": {"updates": "pairs", "deletes": "full"},
    "unified, a file for each trail file": {"updates": "unified", "trail_files": 2, "capture_files": "trail"},
}
OPERATIONS = {"I": "INSERT", "U": "UPDATE", "D": "DELETE", "T": "TRUNCATE"}
Made = Callable[..., Path]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The capture with some options, made once."""
    known: dict[str, Path] = {}

    def make(**options: Any) -> Path:
        name = json.dumps(options, sort_keys=True)
        if name not in known:
            to = tmp_path_factory.mktemp("made")
            known[name] = generate("goldengate", changes=500, seed=7, to=to, truncates=4, **options)
        return known[name]

    return make


def documents(folder: Path, options: dict[str, Any]) -> Iterator[tuple[int, int, int, dict[str, Any]]]:
    """File, offset, length and message."""
    decoder = json.JSONDecoder(parse_int=str, parse_float=str)
    for number, path in enumerate(paths(folder)):
        at = 0
        data = content(path)
        if options.get("container") == "documents":
            text = data.decode()
            place = 0
            while place < len(text):
                found, end = decoder.raw_decode(text, place)
                assert text[end] == "\n"
                size = len(text[place : end + 1].encode())
                yield number, at, size, found
                place, at = end + 1, at + size
            continue
        for line in data.splitlines(keepends=True):
            inner = line
            if options.get("container") == "bytes_literal":
                assert line.startswith(b"Received message: b'")
                inner = ast.literal_eval(line.decode("ascii").partition(": ")[2])
            found = decoder.decode(inner.decode())
            yield number, at, len(line), found["payload"] if options.get("connect") else found
            at += len(line)


def image(members: dict[str, Any] | None, is_missing: bool) -> dict[str, Any] | None:
    """An image without companions."""
    if not members or not is_missing:
        return members or None
    names = [name for name in members if not name.endswith("_isMissing")]
    assert len(members) == 2 * len(names)
    missing = {name for name in names if members[f"{name}_isMissing"]}
    assert {members[name] for name in missing} <= {None}
    return {name: members[name] for name in names if name not in missing}


@pytest.mark.parametrize("workload", JSON)
def test_every_message_is_what_the_truth_says(made: Made, workload: str) -> None:
    options = JSON[workload]
    folder = made(form="json", **options)
    rows = {(row["file_index"], row["offset"]): row for row in truth(folder, "changes")}
    is_missing, is_row = options.get("is_missing", False), options.get("json_form") == "row"
    seen = set()
    for file, offset, length, one in documents(folder, options):
        row = rows.pop((file, offset))
        seen.add(row["operation"])
        assert (row["length"], row["record_type"]) == (length, one["op_type"])
        assert row["source_events"] == [{"file_index": file, "offset": offset, "length": length}]
        assert row["operation"] == OPERATIONS[one["op_type"]]
        assert row["position"] == one["pos"]
        assert re.fullmatch("[0-9]{20}", one["pos"])
        assert f"{row['schema_name']}.{row['table_name']}" == one["table"]
        assert f"{row['changed_at']:%Y-%m-%d %H:%M:%S.%f}" == one["op_ts"]
        assert row["transaction_id"] == one["tokens"].get("6")
        if is_row:
            columns = {name: value for name, value in one.items() if name not in row["headers"] and name != "tokens"}
            is_delete = one["op_type"] == "D"
            found = image(columns, is_missing)
            before, after = (found, None) if is_delete else (None, found)
        else:
            absent = {"absent": "none", "null": None, "empty": {}}[options.get("before", "null")]
            for half in ("before", "after"):
                assert one.get(half, "none") == absent or one[half]
            before, after = (image(one.get(half), is_missing) for half in ("before", "after"))
        assert (row["before"], row["after"]) == (before, after)
        key = next((i for i in (after, before) if i and set(one["primary_keys"]) <= i.keys()), None)
        assert row["key"] == (None if key is None else {name: key[name] for name in one["primary_keys"]})
    assert not rows
    assert seen == set(OPERATIONS.values())
    assert facts(folder)["files"] == [path.name for path in paths(folder)]


@pytest.mark.parametrize("workload", XML)
def test_every_element_is_what_the_truth_says(made: Made, workload: str) -> None:
    folder = made(form="formatxml", **XML[workload])
    rows = {(row["file_index"], row["offset"]): row for row in truth(folder, "changes")}
    pairs = 0
    for number, path in enumerate(paths(folder)):
        data = content(path)
        stops = [at.end() for at in re.finditer(rb"</dbupdate>\n(?:</transaction>\n|  )", data)]
        starts = [0, *stops[:-1]]
        assert stops[-1] == len(data)
        root = ElementTree.fromstring(b"<trail>" + data + b"</trail>")
        elements = [(one, place) for one in root for place in enumerate(one, 1)]
        assert len(elements) == len(starts)
        waiting = None
        for (transaction, (place, element)), start, stop in zip(elements, starts, stops, strict=True):
            columns = {one.get("name"): None if one.get("status") == "null" else one.text or "" for one in element[0]}
            event = {"file_index": number, "offset": start, "length": stop - start}
            if element.get("image") == "before":
                waiting = event, columns
                continue
            row = rows.pop((number, start))
            assert row["operation"].lower() == row["record_type"] == element.get("type")
            tokens = {one.get("name"): one.text for one in element[1]}
            assert row["transaction_id"] == tokens["TK-XID"]
            assert (row["event_no"], row["last_in_transaction"]) == (place, place == len(transaction))
            assert f"{row['changed_at']:%Y-%m-%d:%H:%M:%S.%f}" == transaction.get("timestamp")
            assert row["source_events"] == [*([waiting[0]] if waiting else []), event]
            pairs += waiting is not None
            before = columns if row["operation"] == "DELETE" else waiting and waiting[1]
            assert row["before"] == before
            assert row["after"] == (None if row["operation"] == "DELETE" else columns)
            keys = [one.get("name") for one in element[0] if one.get("key") == "true"]
            assert row["key"] == {name: columns[name] for name in keys}
            waiting = None
    assert not rows
    assert pairs or not XML[workload]


@pytest.mark.parametrize("form", ["json", "formatxml"])
def test_transactions_of_exports_add_up(made: Made, form: str) -> None:
    folder = made(form=form, updates="pairs")
    changes: dict[str, list[dict[str, Any]]] = {}
    for change in truth(folder, "changes"):
        changes.setdefault(change["transaction_id"], []).append(change)
    rows = truth(folder, "transactions")
    assert {row["transaction_id"] for row in rows} == set(changes)
    for row in rows:
        own = changes[row["transaction_id"]]
        assert sum(row["changes"].values()) == len(own)
        assert row["bytes"] == sum(event["length"] for change in own for event in change["source_events"])
        assert row["completeness"] == ("unknown" if form == "json" else "complete")


@pytest.mark.parametrize(
    "options",
    [
        {"trail_files": 3, "prompts": 0.2, "restarts": 2, "abends": 2, "undo": 0.1, "compression": "gzip"},
        {"form": "json", "container": "documents"},
        {"form": "formatxml", "updates": "unified"},
    ],
)
def test_the_same_seed_gives_the_same_bytes(tmp_path: Path, options: dict[str, Any]) -> None:
    def files(name: str, seed: int) -> dict[str, bytes]:
        folder = generate("goldengate", changes=150, seed=seed, to=tmp_path / name, **options)
        return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}

    first, second, other = files("a", 3), files("b", 3), files("c", 4)
    assert first == second
    assert first["truth/changes.parquet"] != other["truth/changes.parquet"]


@pytest.mark.parametrize("form", ["logdump", "json", "formatxml"])
def test_a_story_without_changes_is_told(tmp_path: Path, form: str) -> None:
    folder = generate("goldengate", changes=0, seed=1, to=tmp_path, form=form, schema_changes=0)
    assert truth(folder, "changes") == []
    assert len(paths(folder)) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"style": "19c"}, "style"),
        ({"switches": "ghdr,detial"}, "switches: 'detial' is not one of"),
        ({"zone": "Mars/Olympus"}, "no time zone"),
        ({"reclen": 100}, "lobs is false"),
        ({"unified_prefix": 3}, "2 or 4"),
        ({"undo": 0.1, "form": "json"}, "undo is 0"),
        ({"trail": "./dirdat/"}, "first letters"),
        ({"style": "11g", "switches": "ghdr"}, "only detail"),
        ({"switches": "detail,metadata"}, "nobody can tell"),
        ({"long_varchars": 3}, "at least 16"),
        ({"update_share": 0.7, "delete_share": 0.7}, "more than 1"),
    ],
)
def test_unusable_options_say_what_is_wrong(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SynthError, match=message):
        generate("goldengate", changes=1, seed=1, to=tmp_path, **options)
