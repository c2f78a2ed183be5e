"""The index of records: every record in capture order with what it is, made again when the capture is another."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdcwb import model
from cdcwb.errors import OptionError
from cdcwb.explore.model import Explorer
from cdcwb.explore.records import find
from cdcwb.index.record_index import RecordIndex, build_index, open_index, records_of
from cdcwb.index.source import IndexedCapture, open_source
from cdcwb.index.store import Store
from tests.explore_captures import DATA, saved

SEQUENCE = "20260203080013070000000000000000024"
FORMATS = ("gbase8s", "goldengate", "qlik-kafka", "qlik-change-table", "debezium")


def events_of(folder: Path) -> list[dict[str, Any]]:
    rows = [row for path in (folder / "events").iterdir() for row in pq.ParquetFile(path).read().to_pylist()]
    return sorted(rows, key=lambda row: (row["file_index"], row["offset"]))


@pytest.mark.parametrize("name", FORMATS)
def test_the_index_says_of_every_record_what_the_events_say(name: str, tmp_path: Path) -> None:
    folder = saved(DATA / name, tmp_path / "saved", parts=3)
    index = open_source(folder).index
    events = events_of(folder)
    assert index.records == len(events)
    pairs = {"kind": "kind", "operation": "operation", "type": "record_type", "transaction": "transaction_id"}
    pairs |= {"schema": "schema_name", "version": "table_version", "time": "changed_at", "event_no": "event_no"}
    pairs |= {"position": "position", "offset": "offset", "length": "length", "file": "file"}
    for column, source in pairs.items():
        found = [index.columns[column].value(row) for row in range(index.records)]
        assert found == [event[source] for event in events], column
    assert [index.unit_of(row) for row in range(3)] == [event["offset_unit"] for event in events[:3]]


@pytest.mark.parametrize("name", FORMATS)
def test_every_problem_is_at_its_record(name: str, tmp_path: Path) -> None:
    folder = saved(DATA / name, tmp_path / "saved", parts=2)
    index = open_source(folder).index
    expected = {
        row: [(one["code"], one["detail"]) for one in event["problems"]]
        for row, event in enumerate(events_of(folder))
        if event["problems"]
    }
    assert expected
    for row, problems in expected.items():
        assert {(one["code"], one["sentence"]) for one in index.problems_of(row)} >= set(problems)
    assert set(expected) <= set(index.problem_rows.tolist())


def test_the_index_is_made_once_and_again_when_the_capture_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = saved(DATA / "gbase8s", tmp_path / "saved")
    monkeypatch.setenv("CDCWB_CACHE", str(tmp_path))

    def files() -> dict[str, int]:
        open_source(folder)
        return {path.name: path.stat().st_ino for path in (tmp_path / "index").iterdir()}

    made = files()
    assert len(made) == 1
    assert files() == made
    about = folder / "cdcwb.json"
    about.write_text(json.dumps(json.loads(about.read_text()), indent=2))
    assert len(files()) == 2


def test_indexes_that_were_not_used_for_longest_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDCWB_CACHE", str(tmp_path))
    table = {"numbers": pa.table({"n": np.arange(1000)})}
    for origin, age in (("first", 30), ("second", 10), ("third", 20)):
        Store(origin).write("records", table)
        newest = max((tmp_path / "index").iterdir(), key=lambda path: path.stat().st_mtime)
        os.utime(newest, (1_000_000 - age, 1_000_000 - age))
    monkeypatch.setattr("cdcwb.index.store.MOST_BYTES", 30_000)
    mapped = Store("first").read("records")
    assert mapped is not None
    os.utime(newest, (0, 0))
    Store("fourth").write("records", table)
    assert [Store(origin).read("records") is not None for origin in ("first", "second", "third")] == [True, True, False]


def test_a_place_is_held_by_the_record_that_begins_before_it(tmp_path: Path) -> None:
    index = open_source(saved(DATA / "gbase8s", tmp_path / "saved")).index
    assert index.at(0, 0) == 0
    assert index.at(0, index.number("offset", 5) - 1) == 4
    second = index.at(1, 10)
    assert second is not None
    assert (index.number("file_index", second), index.number("offset", second)) == (1, 0)
    places = index.exactly(np.array([0, 1, 0]), np.array([index.number("offset", 7), 0, 1]))
    assert places.tolist() == [7, second, -1]


@pytest.mark.parametrize(
    ("name", "text", "column", "value"),
    [
        ("gbase8s", "lsn 0000000B03FE0050", "position", "0000000B03FE0050"),
        ("gbase8s", "b03fe0050", "position", "0000000B03FE0050"),
        ("gbase8s", "offset 2850", "offset", 2842),
        ("gbase8s", "stream-2.bin offset 0x10", "file", "stream-2.bin"),
        ("gbase8s", "record 1,000", "record", 1000),
        ("gbase8s", "28@0000000B03FE0528", "transaction", "28@0000000B03FE0528"),
        ("goldengate", "csn 1332810", "csn", 1332810),
        ("goldengate", "1332810", "csn", 1332810),
        ("qlik-kafka", f"change_seq {SEQUENCE}", "position", SEQUENCE),
        ("qlik-change-table", "20260203080002320000000000000000010", "type", "I"),
    ],
)
def test_a_place_can_be_gone_to(name: str, text: str, column: str, value: Any, tmp_path: Path) -> None:
    index = open_source(saved(DATA / name, tmp_path / "saved")).index
    found = index.columns[column].value(find(index, text, 0))
    assert found == value or str(found).endswith(f"/{value}")


def test_a_number_may_be_of_any_size(tmp_path: Path) -> None:
    index = open_source(saved(DATA / "goldengate", tmp_path / "saved")).index
    with pytest.raises(OptionError, match="no record has a csn of 99999999999999999999 or higher"):
        find(index, "csn 99999999999999999999", 0)


def test_a_position_that_no_record_has_gives_the_next_higher_one(tmp_path: Path) -> None:
    index = open_source(saved(DATA / "gbase8s", tmp_path / "saved")).index
    positions = [value for row in range(index.records) if (value := index.columns["position"].value(row))]
    missing = "0000000B03FE0051"
    found = index.columns["position"].value(find(index, missing, 0))
    assert found == min(value for value in positions if value >= missing)


def test_a_time_gives_the_first_record_at_or_after_it(tmp_path: Path) -> None:
    index = open_source(saved(DATA / "goldengate", tmp_path / "saved")).index
    row = find(index, "2026-07-14T06:30:11", 0)
    times = [value for n in range(index.records) if (value := index.columns["time"].value(n)) is not None]
    assert index.columns["time"].value(row) == min(
        value for value in times if value.isoformat() >= "2026-07-14T06:30:11"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected a target, such as record, offset or position"),
        ("csn 5", "no record of this capture has a csn. There are: record, offset"),
        ("record 1453", "there are 1,452 records, no record 1,453"),
        ("nowhere", "no record has 'nowhere' as record"),
        ("ofset 5", "'ofset' is not something to go to. Did you mean 'offset'?"),
        ("offset x", "expected a whole number, found 'x'"),
        ("time soon", "expected a time such as"),
        ("steam-2.bin offset 1", "the capture has no file 'steam-2.bin'. Did you mean 'stream-2.bin'?"),
        ("lsn FFFFFFFFFFFFFFFF", "no record has a position of FFFFFFFFFFFFFFFF or higher"),
        ("²", "no record has '²' as record"),
        ("9" * 5000, "no record has a position of 999"),
    ],
)
def test_a_place_that_is_none_is_said_with_those_there_are(text: str, said: str, tmp_path: Path) -> None:
    index = open_source(saved(DATA / "gbase8s", tmp_path / "saved")).index
    with pytest.raises(OptionError, match="^" + said.replace(".", r"\.").replace("?", r"\?")):
        find(index, text, 0)


# --- size -------------------------------------------------------------------------------------------------------------

TABLES = 40


def large(folder: Path, records: int) -> RecordIndex:
    """An index of so many records, in four files."""
    rows = np.arange(records)
    a_file = records // 4 + 1
    operations = pa.array(["INSERT", "UPDATE", "DELETE"])
    events = pa.table(
        {
            "file_index": pa.array((rows // a_file).astype(np.int32)),
            "offset": pa.array(rows % a_file * 80),
            "length": pa.array(np.full(records, 80)),
            "offset_unit": pa.array(np.full(records, "byte")),
            "kind": pa.array(np.full(records, "change")),
            "operation": operations.take(pa.array(rows % 3)),
            "record_type": operations.take(pa.array(rows % 3)),
            "position": pa.array(np.char.zfill((rows * 56 + 10**9).astype("U16"), 16)),
            "commit_position": pa.nulls(records, pa.string()),
            "transaction_id": pa.array((rows // 8).astype("U10")),
            "event_no": pa.nulls(records, pa.int64()),
            "changed_at": pa.array(rows * 1000, pa.timestamp("us", "UTC")),
            "schema_name": pa.array(np.full(records, "shop")),
            "table_name": pa.array([f"t{n}" for n in range(TABLES)]).take(pa.array(rows % TABLES)),
            "table_version": pa.array(np.full(records, "1")),
        }
    )
    pq.write_table(events, folder / "part-0.parquet")
    files = [{"file": f"/stream-{n}.bin", "file_index": n} for n in range(4)]
    nothing = pa.Table.from_pylist([], model.PROBLEMS), pa.Table.from_pylist([], model.TABLE_VERSIONS)
    about = {"format": "gbase8s", "files": files}
    build_index(Store(str(folder)), records_of([folder / "part-0.parquet"]), about, *nothing)
    index = open_index(Store(str(folder)))
    assert index is not None
    return index


def paged(index: RecordIndex) -> tuple[float, float]:
    """The slowest page and the slowest filter, in seconds of this process; a page is asked for in the middle of what a
    filter found."""
    explorer = Explorer(IndexedCapture(index, None, {}, [], lambda: pytest.fail("the capture was opened")))
    pages, filters = [], []
    for text in (
        "",
        'operation == "UPDATE"',
        'table == "shop.t7" and operation == "DELETE"',
        'transaction == "1234"',
        'position >= "0000001000000560"',
        'time >= "1970-01-01T00:01:00Z" and not table in ("t1", "t2")',
    ):
        started = time.process_time()
        explorer.apply(text)
        applied = time.process_time()
        assert explorer.page(explorer.shown // 2, 50)
        filters.append(applied - started)
        pages.append(time.process_time() - applied)
    return max(pages), max(filters)


def test_a_page_of_a_large_capture_opens_no_capture(tmp_path: Path) -> None:
    paged(large(tmp_path, 500_000))


@pytest.mark.full
def test_a_page_of_ten_million_events_takes_less_than_200_ms(tmp_path: Path) -> None:
    page, filtering = paged(large(tmp_path, 10_000_000))
    assert page < 0.2
    assert filtering < 1.0
