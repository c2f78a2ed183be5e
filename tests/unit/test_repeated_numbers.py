"""Numbers that come again with another record: offsets of messages, change sequences, and record ids of event logs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cdcwb
from cdcwb.analysis.counters import counters
from cdcwb.analysis.positions import UNIQUE, missing_numbers, repeated
from cdcwb.analysis.summary import summarize
from cdcwb.analysis.summary_text import summary_lines, verdict
from cdcwb_synth import generate

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "continuity.md"
MADE: dict[str, dict[str, Any]] = {
    "qlik-kafka": {"tables": 1, "all_types": False, "partitions": 1, "duplicate_share": 0},
    "qlik-change-table": {"tables": 1, "all_types": False},
    "sqlserver-ct": {"tables": 1, "deferred_share": 0},
}


def other_value(text: str) -> str:
    """The record with another value in its last digit of three or more that follow one another."""
    end = max(at for at in range(len(text)) if text[at : at + 3].isdigit() and len(text[at : at + 3]) == 3)
    return f"{text[: end + 2]}{(int(text[end + 2]) + 1) % 10}{text[end + 3 :]}"


def planted(format: str, folder: Path, change: Callable[[str], str]) -> tuple[Any, str, int, int]:
    """A generated capture whose file ends with a copy of its last change, which ``change`` makes; the file, the offset
    of the record and that of the copy."""
    generate(format, changes=60, seed=3, to=folder, **MADE[format])
    files = sorted((path for path in (folder / "capture").rglob("*") if path.suffix in (".txt", ".csv")), key=str)
    path = max(files, key=lambda one: one.stat().st_size)
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    wanted = '"operation":"INSERT"' if format == "qlik-kafka" else ",INSERT," if "change-table" in format else ",2,0x"
    line = next(line for line in reversed(lines) if wanted in line)
    path.write_text(text + change(line), encoding="utf-8")
    first = len("".join(lines[: lines.index(line)]).encode())
    return cdcwb.load(folder / "capture"), str(path), first, len(text.encode())


def with_other_value(format: str) -> Callable[[str], str]:
    def change(line: str) -> str:
        if format == "qlik-kafka":
            head, data, rest = line.partition('"data":{')
            image, brace, rest = rest.partition("}")
            return head + data + other_value(image) + brace + rest
        columns = line.rstrip("\n").split(",")
        at = 9 if format == "qlik-change-table" else 7
        return ",".join([*columns[:at], "2001-02-03", *columns[at + 1 :]]) + "\n"

    return change


@pytest.mark.parametrize("format", MADE)
def test_a_number_that_comes_again_with_another_record_is_a_contradiction_that_names_both(
    tmp_path: Path, format: str
) -> None:
    capture, file, first, again = planted(format, tmp_path, with_other_value(format))
    found = counters(capture)
    assert found.numbers > 40
    own = [row for row in found.listed if "another record" in row["sentence"]]
    assert {(row["file"], row["offset"]) for row in own} == {(file, again)}
    name = Path(file).name
    for row in own:
        assert row["sentence"].endswith(
            f"comes again with another record: the INSERT at {again} of {name} is not the INSERT at {first} of {name}"
        )
    assert any(row["sentence"].startswith(UNIQUE[format]) for row in own)
    facts = summarize(capture)
    assert not facts["healthy"]
    assert "contradiction" in verdict(facts)
    assert any("comes again with another record" in line for line in summary_lines(facts))


@pytest.mark.parametrize("format", MADE)
def test_an_identical_repeat_is_no_contradiction(tmp_path: Path, format: str) -> None:
    capture, *_ = planted(format, tmp_path, lambda line: line)
    assert [row for row in counters(capture).listed if "another record" in row["sentence"]] == []
    found = repeated(capture)
    assert (found.positions, found.surplus, found.duplicates) == (1, 1, 1)


def debezium(offset: int, value: int, topic: str = "shop.orders") -> str:
    source = {"version": "2.7.0.Final", "connector": "postgresql", "name": "a", "ts_ms": 1_700_000_000_000, "db": "d"}
    source |= {"snapshot": "false", "schema": "shop", "table": "orders", "txId": value, "lsn": value}
    event = {"before": None, "after": {"id": value, "v": "x"}, "source": source, "op": "c", "ts_ms": 1_700_000_000_500}
    return json.dumps({"topic": topic, "partition": 0, "offset": offset, "payload": json.dumps(event)}) + "\n"


def test_offsets_of_a_partition_are_compared_over_files(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(debezium(0, 100) + debezium(1, 101) + debezium(3, 103), encoding="utf-8")
    (tmp_path / "b.jsonl").write_text(debezium(3, 103) + debezium(4, 104), encoding="utf-8")
    capture = cdcwb.load(tmp_path)
    found = counters(capture)
    assert (found.numbers, found.contradictions) == (5, 0)
    assert [(row["there"], row["missing"]) for row in missing_numbers(capture)] == [(4, 1)]
    (tmp_path / "b.jsonl").write_text(debezium(3, 203) + debezium(3, 303, "shop.customers"), encoding="utf-8")
    found = counters(cdcwb.load(tmp_path))
    begin = len(debezium(0, 100) + debezium(1, 101))
    (row,) = found.listed
    number, _, records = row["sentence"].partition(" comes again with another record: ")
    assert number == "offset 3 of shop.orders, partition 0"
    assert records == f"the INSERT at 0 of b.jsonl is not the INSERT at {begin} of a.jsonl"


def test_record_ids_are_compared_by_the_reader() -> None:
    capture = cdcwb.load(ROOT / "data" / "idm-event-log")
    assert counters(capture).numbers == 0
    assert repeated(capture).positions == 2
    sentences = [row["sentence"] for row in capture.rows("problems", ["sentence"]).table().to_pylist()]
    assert sum("expected a record_id that no other row has" in one for one in sentences) == 2


@pytest.mark.parametrize(
    "path", sorted(one for one in (ROOT / "data").iterdir() if one.is_dir() and "." not in one.name)
)
def test_the_captures_of_data_have_none(path: Path) -> None:
    assert repeated(cdcwb.load(path)).contradictions == 0


def test_the_docs_name_the_numbers_of_each_format() -> None:
    table = DOCS.read_text(encoding="utf-8").partition("| format | bytes | counters |")[2].partition("\n\n")[0]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("| `")]
    checked = {row[0].strip("`"): row[2] for row in cells}
    for format, name in UNIQUE.items():
        assert all(f"`{one}`" in checked[format] for one in name.split(" and "))
    assert {format for format, text in checked.items() if "offsets" in text} == {"qlik-kafka", "debezium", "maxwell"}
