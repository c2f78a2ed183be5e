"""Every container gives the same rows; every byte or row is in one event; damage stays where it is."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdcwb import model
from cdcwb.formats import get_format, identify, inspect
from cdcwb.formats.dissector import EVERYTHING, TableRequest, Wanted
from cdcwb.formats.idm_event_log.layout import COLUMNS
from tests.event_logs import CONTAINERS, as_csv, as_jsonl, as_sql, rows, write
from tests.local import ledger, plan_of, read
from tests.mutate import mutate

FORMAT = "idm-event-log"
BYTES = [name for name in CONTAINERS if name not in ("parquet", "xlsx")]


def headers(table: pa.Table) -> list[dict[str, str | None]]:
    """The columns of the log in the events that are rows."""
    return [dict(row["headers"]) for row in table.to_pylist() if row["kind"] in ("change", "control")]


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_gives_the_rows_that_went_in(tmp_path: Path, container: str) -> None:
    found = rows(60)
    if container == "xlsx":  # an empty text is an empty cell there
        found = [{name: value or None for name, value in row.items()} for row in found]
    path = write(tmp_path, container, found)
    table = read(path, format=FORMAT)
    assert headers(table) == found
    assert set(table.column("kind").to_pylist()) <= {"change", "filler"}
    assert identify(path).format == FORMAT


@pytest.mark.parametrize("container", BYTES)
def test_the_ledger_closes_for_every_container_of_bytes(tmp_path: Path, container: str) -> None:
    path = write(tmp_path, container, rows(40))
    table = read(path, format=FORMAT)
    assert ledger(table) == {str(path): path.stat().st_size}
    data = path.read_bytes()
    for row in table.to_pylist():
        assert row["raw"] == data[row["offset"] : row["offset"] + row["length"]]


@pytest.mark.parametrize("container", ["parquet", "xlsx"])
def test_every_row_of_a_container_of_rows_is_one_event(tmp_path: Path, container: str) -> None:
    path = write(tmp_path, container, rows(40))
    table = read(path, format=FORMAT)
    first = 1 if container == "xlsx" else 0  # the header line
    assert table.column("offset").to_pylist() == list(range(40 + first))
    assert set(table.column("offset_unit").to_pylist()) == {"row"}


@pytest.mark.parametrize("container", BYTES)
def test_splits_change_nothing(tmp_path: Path, container: str) -> None:
    path = write(tmp_path, container, rows(60))
    whole = read(path, format=FORMAT)
    for size in (64, 200, 1000):
        assert read(path, format=FORMAT, split_size=size).equals(whole)
    packed = path.with_name("packed")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    other = read(packed, format=FORMAT)
    assert other.drop_columns(["file"]).equals(whole.drop_columns(["file"]))


def test_a_record_that_is_none_is_malformed_and_the_others_are_not(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(as_csv(rows(20)) + b"too,few\n" + as_csv(rows(5), header=None))
    table = read(path, format=FORMAT)
    (bad,) = [row for row in table.to_pylist() if row["kind"] == "malformed"]
    assert bad["problems"] == [{"code": "malformed", "detail": "expected 10 fields, found 2"}]
    assert bad["raw"] == b"too,few\n"
    assert headers(table) == rows(20) + rows(5)


def test_text_that_is_not_in_the_character_set_is_a_problem_of_its_row(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(as_csv(rows(5)) + b"99,idu=1,N,1,2024-01-01 00:00:00,,usr,fname,,J\xe9r\xf4me\n")
    row = read(path, format=FORMAT).to_pylist()[-1]
    assert ("charset", "column new_value: expected text in utf-8, found bytes 4ae972f46d65") in [
        (one["code"], one["detail"]) for one in row["problems"]
    ]
    assert dict(row["after"]) == {"fname": "4ae972f46d65"}
    assert dict(read(path, format=FORMAT, charset="latin-1").to_pylist()[-1]["after"]) == {"fname": "Jérôme"}


def test_text_of_parquet_that_is_not_utf_8_is_a_problem_of_its_row(tmp_path: Path) -> None:
    path = write(tmp_path, "parquet", rows(3))
    table = pq.read_table(path)
    garbled = pa.array([b"idu=1", b"J\xe9", b"idu=3"]).view(pa.string())
    pq.write_table(table.set_column(table.schema.names.index("table_key"), "table_key", garbled), path)
    found = read(path, format=FORMAT).to_pylist()
    assert [[one["code"] for one in row["problems"] or ()] for row in found] == [[], ["table_key", "charset"], []]
    assert identify(path).format == FORMAT


def test_a_row_with_an_expression_in_a_dump_is_malformed(tmp_path: Path) -> None:
    path = tmp_path / "log.sql"
    statement = as_sql(rows(2)).replace(b"TIMESTAMP '2024-01-02 10:11:12.123456'", b"SYSDATE", 1)
    path.write_bytes(statement)
    (row,) = [one for one in read(path, format=FORMAT).to_pylist() if one["kind"] == "malformed"]
    assert b"SYSDATE" in row["raw"]
    reason = "event_time: expected a literal, found SYSDATE, which only the database can evaluate"
    assert row["problems"] == [{"code": "malformed", "detail": f"{reason}; export the table as CSV"}]


def test_what_is_not_wanted_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path, "csv", rows(50))
    table = read(path, Wanted(kinds=frozenset({"change"}), tables=frozenset({"i.usr"})), format=FORMAT)
    assert {(row["kind"], row["schema_name"]) for row in table.to_pylist()} == {("change", "i")}
    light = read(path, Wanted(images=False), format=FORMAT)
    assert light.column("raw").null_count == light.num_rows == light.column("after").null_count
    assert "new_value" not in dict(light.to_pylist()[3]["headers"])


def test_numbers_of_rows_stand_for_record_ids_that_are_not_there(tmp_path: Path) -> None:
    names = [name for name in COLUMNS if name != "record_id"]
    for number in (1, 2):
        (tmp_path / f"part{number}.csv").write_bytes(as_csv(rows(10, number), names, names) + b"\n")
    table = read(tmp_path, format=FORMAT, split_size=100)
    changes = [row for row in table.to_pylist() if row["kind"] == "change"]
    assert [int(row["position"]) for row in changes] == list(range(1, 21))
    assert "record_id" not in dict(changes[0]["headers"])


def test_rows_of_a_table_are_read_like_files(tmp_path: Path) -> None:
    form: Any = get_format(FORMAT)
    found = rows(30)
    schema = pa.schema([("_row", pa.int64()), *((name.upper(), pa.string()) for name in COLUMNS)])
    numbered = [{"_row": place, **{name.upper(): row[name] for name in COLUMNS}} for place, row in enumerate(found)]
    batches = pa.Table.from_pylist(numbered, schema).to_batches(max_chunksize=7)
    plain = pa.schema([one for one in schema if one.name != "_row"])
    assert form.recognise_rows(plain).confidence > 0.9
    plan = form.plan_from_text(form.plan_rows("log", plain, lambda look: [look(iter(batches))], {}).to_text())
    table = pa.Table.from_batches(form.read_rows(plan, iter(batches), EVERYTHING), model.EVENTS)
    assert headers(table) == found
    assert table.column("offset").to_pylist() == list(range(30))
    assert table.column("raw").null_count == 30
    assert plan.facts == {"records": 30, "behind": 0}
    request = TableRequest("usr")
    typed = pa.Table.from_batches(form.read_table_rows(plan, iter(batches), request))
    assert typed.schema == form.table_schema(plan, request)
    assert typed.num_rows == 30


def test_a_table_as_columns_has_the_values_of_its_maps(tmp_path: Path) -> None:
    path = write(tmp_path, "csv", rows(50))
    form, plan = get_format(FORMAT), plan_of(path, FORMAT)
    request = TableRequest("i.usr")
    typed = [row for batch in form.read_table(plan, 0, request) for row in batch.to_pylist()]
    events = [row for row in read(path, format=FORMAT).to_pylist() if row["schema_name"] == "i"]
    assert len(typed) == len(events) > 5
    for row, event in zip(typed, events, strict=True):
        for side in ("before", "after"):
            maps = None if event[side] is None else dict.fromkeys(row[side]) | dict(event[side])
            assert row[side] == maps


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_row_is_found_by_its_place_and_taken_apart(tmp_path: Path, container: str) -> None:
    path = write(tmp_path, container, rows(12))
    for event in read(path, format=FORMAT).to_pylist():
        seen = inspect(path, event["offset"] + event["length"] - 1, format=FORMAT)
        assert (seen.offset, seen.length, seen.record) == (event["offset"], event["length"], event["raw"] or b"")
        assert {**dict.fromkeys(model.EVENTS.names), **seen.event} == event
        leaves = [leaf for leaf in seen.field.walk() if not leaf.children]
        if seen.record:
            assert b"".join(leaf.raw for leaf in leaves) == seen.record
        if event["kind"] == "change":
            assert len([child for child in seen.field.children if not child.quiet]) >= len(COLUMNS)


# --- damage -----------------------------------------------------------------------------------------------------------


def _mutant(folder: Path, container: str, rng: random.Random, number: int) -> None:
    found = rows(rng.randint(3, 40), number)
    makers: dict[str, Any] = {"csv": as_csv, "sql": as_sql, "json": as_jsonl}
    data = makers[container](found) if container in makers else as_csv(found, COLUMNS, None)
    damaged = mutate(data, rng)
    path = folder / f"mutant.{container}"
    path.write_bytes(damaged)
    try:
        table = read(path, format=FORMAT)
    except Exception as error:
        if type(error).__name__ in ("CaptureError", "OptionError") and not _is_readable(damaged, data):
            return
        raise AssertionError(f"mutant {number} of {container}, in {path}") from error
    held = ledger(table)
    assert held == ({str(path): len(damaged)} if damaged else {})
    size = random.Random(number).choice([100, 700, 2000])
    assert read(path, format=FORMAT, split_size=size).equals(table), f"mutant {number} of {container}, {size}"
    for row in table.to_pylist():
        assert row["kind"] != "malformed" or row["problems"]


_HEAD = f"INSERT INTO indirect.eventlog ({', '.join(COLUMNS)}) VALUES (".encode()


def _is_readable(damaged: bytes, data: bytes) -> bool:
    """Is more than half of the log as it was, and is there a statement that says whose rows they are?"""
    if data.startswith(b"--") and _HEAD not in damaged:
        return False
    lines = set(data.split(b"\n"))
    same = sum(line in lines for line in damaged.split(b"\n"))
    return same > max(len(lines) // 2, 8)


@pytest.mark.parametrize("container", ["csv", "bare", "sql", "json"])
def test_damaged_logs_are_read_and_nothing_is_lost(tmp_path: Path, container: str) -> None:
    rng = random.Random(len(container))
    for number in range(60):
        _mutant(tmp_path, container, rng, number)


@pytest.mark.full
@pytest.mark.parametrize("container", ["csv", "bare", "sql", "json"])
@pytest.mark.parametrize("seed", range(5))
def test_thousands_of_damaged_logs(tmp_path: Path, container: str, seed: int) -> None:
    rng = random.Random(1000 + seed)
    for number in range(500):
        _mutant(tmp_path, container, rng, seed * 1000 + number)


@pytest.mark.parametrize("container", ["csv", "sql", "json"])
def test_good_rows_are_unaffected_by_damage_in_another(tmp_path: Path, container: str) -> None:
    found = rows(40, 7)
    makers: dict[str, Any] = {"csv": as_csv, "sql": as_sql, "json": as_jsonl}
    data = makers[container](found)
    clean = write(tmp_path / "clean", container, found)
    before = {row["position"]: row for row in read(clean, format=FORMAT).to_pylist() if row["kind"] == "change"}
    rng = random.Random(5)
    places = [row["offset"] for row in before.values()]
    for number in range(30):
        place = rng.randrange(places[8], len(data))
        damaged = bytearray(data)
        damaged[place] ^= 1 << rng.randrange(7)
        path = tmp_path / f"log.{container}"
        path.write_bytes(damaged)
        after = [row for row in read(path, format=FORMAT).to_pylist() if row["kind"] == "change"]
        same = sum({**row, "file": None} == {**before.get(row["position"], {}), "file": None} for row in after)
        assert same >= 40 - 4, f"damage {number} at {place}: {same} of 40 rows are as they were"
