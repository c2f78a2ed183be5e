"""Generated event logs: what stands in the files, read by nothing but csv, json, openpyxl and pyarrow, is what the
truth says, and what the truth decides follows from the rules one by one."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcwb import model
from cdcwb_synth import FORMAT_OPTIONS, SynthError, generate
from cdcwb_synth.catalogue import Table, TableVersion
from cdcwb_synth.idm_event_log import damage, keys, times
from cdcwb_synth.idm_event_log.contents import Current
from cdcwb_synth.idm_event_log.documents import EVENT, events
from cdcwb_synth.idm_event_log.options import EventLogOptions
from cdcwb_synth.idm_event_log.publisher import Driver, publish
from cdcwb_synth.idm_event_log.rows import LogRow, Place
from cdcwb_synth.idm_event_log.tables import Watched
from cdcwb_synth.idm_event_log.triggers import styles
from cdcwb_synth.idm_event_log.truth import DECISIONS
from cdcwb_synth.values import Column, Type
from tests.synth_idm import content, facts, fields, settings, snapshot, stored, truth

WORKLOADS: dict[str, dict[str, Any]] = {
    "CSV as it comes": {},
    "CSV in the older order, two files, much damage": {
        "container": "csv_older_order", "files": 2, "damaged_share": 0.15, "compression": "gzip",
    },
    "TSV without a header, a word for NULL, rows in no order": {
        "container": "tsv", "header": False, "null_text": "NULL", "shuffle": 100, "special_keys": 0.4,
    },
    "SQL, several rows a statement, short cycles": {
        "container": "sql", "sql_rows": 7, "query_limit": 60, "batch_size": 4, "special_values": 0.4, "files": 2,
    },
    "SQL without a list of columns, Sybase's times": {
        "container": "sql", "header": False, "time_form": "sybase", "loopback_share": 0.4, "missing_snapshots": 2,
    },
    "JSON lines, rows due by their time, tables that change": {
        "container": "jsonl", "future_events": True, "future_share": 0.3, "schema_changes": 3, "compression": "zstd",
    },
    "Parquet, typed, DB2's times, the whole log a cycle": {
        "container": "parquet", "damaged_share": 0, "time_form": "db2", "precedence": "log", "naming": "qualified",
        "snapshot": "parquet", "query_limit": 100,
    },
    "Excel, every type, no snapshot, the driver's own": {
        "container": "xlsx", "all_types": True, "snapshot": "none", "allow_loopback": True, "interleaved_share": 0.5,
    },
    "Parquet as text, mixed styles alone, type 5 modifies": {
        "container": "parquet", "field_share": 0, "field_query_share": 0, "row_query_share": 0, "type5": "modify",
        "damaged_share": 0.05, "spelling_share": 0.2, "snapshot": "parquet", "special_keys": 0, "fraction": 0,
    },
}  # fmt: skip
Made = Callable[[str], Path]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The capture of a workload, made once."""
    known: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in known:
            to = tmp_path_factory.mktemp("made")
            known[name] = generate("idm-event-log", changes=400, seed=7, to=to, **WORKLOADS[name])
        return known[name]

    return make


every_workload = pytest.mark.parametrize("workload", WORKLOADS)


# --- files ------------------------------------------------------------------------------------------------------------


@every_workload
def test_every_row_has_its_decision_at_its_place(made: Made, workload: str) -> None:
    folder = made(workload)
    rows, decisions = stored(folder), truth(folder, "decisions")
    assert len(rows) == len(decisions) == facts(folder)["rows"] > 1000
    for row, told in zip(rows, decisions, strict=True):
        assert (told["file_index"], told["offset"]) == (row.file, row.offset)
        assert (told["record_id"], told["event_type"]) == (row.number, row.kind)
        assert [told[name] for name in ("table_name", "table_key", "column_name")] == [
            row[name] for name in ("table_name", "table_key", "column_name")
        ]
    assert Counter(one["decision"] for one in decisions) == facts(folder)["decisions"]


@pytest.mark.parametrize("workload", [name for name in WORKLOADS if "Excel" not in name and "Parquet" not in name])
def test_rows_cover_their_files_but_for_headers_and_comments(made: Made, workload: str) -> None:
    folder, options = made(workload), WORKLOADS[workload]
    rows = stored(folder)
    for number, name in enumerate(facts(folder)["files"]):
        data, at = content(folder / "capture" / name), 0
        for row in (row for row in rows if row.file == number):
            between = data[at : row.offset].decode()
            assert re.fullmatch(r"(-- .*\n|record_id.*\n)?" if not at else "", between)
            at = row.offset + row.length
        assert at == len(data)
        is_named = options.get("header", True) and "older" not in options.get("container", "")
        assert data.startswith((b"record_id", b"-- rows", b"{")) == (is_named or "SQL" in workload)


def test_containers_hold_the_same_rows(tmp_path: Path) -> None:
    """Excel aside, which has neither empty texts nor control characters."""
    held = {}
    for container in ("csv", "tsv", "csv_older_order", "sql", "jsonl", "parquet"):
        folder = generate(
            "idm-event-log", changes=400, seed=4, to=tmp_path / container, container=container,
            damaged_share=0.1, special_keys=0.3, special_values=0.3,
        )  # fmt: skip
        held[container] = [row.values for row in stored(folder)]
    assert held["csv"] == held["tsv"] == held["csv_older_order"] == held["sql"] == held["jsonl"] == held["parquet"]
    texts = "".join(text for row in held["csv"] for text in row.values() if text)
    assert set(texts) >= set(",;'\"=\\<>&\r\n\t+")
    assert set(texts) & set(damage._CHARACTERS)
    assert any(text == "" for row in held["csv"] for text in row.values())


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    for container in ("xlsx", "parquet", "sql"):
        made = [
            generate("idm-event-log", changes=60, seed=5, to=tmp_path / f"{container}{turn}", container=container)
            for turn in (0, 1)
        ]
        first, second = (
            {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()} for folder in made
        )
        assert first == second


def test_numbers_are_numbers_where_a_container_has_them(tmp_path: Path) -> None:
    folder = generate("idm-event-log", changes=40, seed=5, to=tmp_path, container="parquet", damaged_share=0)
    schema = pq.read_schema(folder / "capture" / "eventlog.parquet")
    assert (schema.field("record_id").type, schema.field("event_type").type) == (pa.int64(), pa.int32())


# --- what is logged ---------------------------------------------------------------------------------------------------


def test_a_log_of_fields_replayed_gives_the_tables(tmp_path: Path) -> None:
    folder = generate(
        "idm-event-log", changes=800, seed=8, to=tmp_path, rows_before=0, damaged_share=0, spelling_share=0,
        truncates=0, field_query_share=0, row_query_share=0, mixed_share=0, special_keys=0.3, special_values=0.3,
    )  # fmt: skip
    replayed: dict[str, dict[Any, dict[str, str | None]]] = defaultdict(lambda: defaultdict(dict))
    for row in stored(folder):
        objects, key = replayed[row["table_name"] or ""], keys.parsed(row["table_key"] or "")
        if row.kind == 4:
            del objects[key]
            continue
        assert row["column_name"] is not None
        if row.kind in (2, 3):
            assert objects[key].get(row["column_name"]) == row["old_value"]
        else:
            assert row["old_value"] is None
        objects[key][row["column_name"]] = row["new_value"]
    assert len(replayed) == 5
    for name, path in snapshot(folder).items():
        head, *lines = [values for _, _, values in fields(path.read_bytes())]
        names = facts(folder)["keys"][name]
        assert head[: len(names)] == names
        found = {}
        for values in lines:
            row_ = dict(zip([str(one) for one in head], values, strict=True))
            found[tuple((column, row_.pop(column)) for column in names)] = row_
        assert found.keys() == replayed[name].keys()
        assert all(
            value == replayed[name][key].get(column) for key, cells in found.items() for column, value in cells.items()
        )


def test_styles_are_shared_out_by_their_weights() -> None:
    given_styles = styles({"field": 0.5, "row": 0.3, "mixed": 0.2, "none": 0.0}, 10)
    assert Counter(given_styles) == {"field": 5, "row": 3, "mixed": 2}
    assert given_styles[0] == "field"


def test_a_table_is_logged_in_its_style(made: Made) -> None:
    kinds: dict[str | None, set[int]] = defaultdict(set)
    for row in stored(made("CSV as it comes")):
        if row.kind and row["table_name"]:
            kinds[row["table_name"]].add(row.kind)
    assert [
        kinds[name] <= allowed
        for name, allowed in {
            "customer": {1, 2, 3, 4}, "orders": {4, 5, 6}, "stock_move": {4, 7, 8}, "order_line": {*range(1, 9)},
        }.items()
    ] == [True] * 4  # fmt: skip
    assert kinds["order_line"] > {1, 5, 7}


def test_a_view_keeps_the_prefix_of_its_key(made: Made) -> None:
    assert facts(made("CSV as it comes"))["keys"]["view_reading"] == ["pk_reading_id"]
    (head, *_) = fields(snapshot(made("CSV as it comes"))["view_reading"].read_bytes())
    assert head[2][0] == "pk_reading_id"


def test_shares_are_about_what_was_asked_for(tmp_path: Path) -> None:
    shares: dict[str, Any] = {
        "null_user_share": 0.3, "loopback_share": 0.2, "processed_share": 0.1, "odd_status_share": 0.05,
        "gap_share": 0.1, "damaged_share": 0.08, "special_keys": 0.5, "future_share": 0.2,
    }  # fmt: skip
    folder = generate(
        "idm-event-log", changes=3000, seed=9, to=tmp_path, field_share=0, field_query_share=0, mixed_share=0, **shares
    )
    rows = stored(folder)
    count = len(rows)
    numbers = sorted(row.number for row in rows if row.number)
    gaps = sum(later - one > 1 for one, later in pairwise(numbers))
    end = "2025-03-23 08:04"  # 3,000 changes take a quarter of a minute
    users, statuses = Counter(row["perpetrator"] for row in rows), Counter(row["status"] for row in rows)
    found = {
        "null_user_share": users[None] / count / 0.8,  # the driver's own are not without a user
        "loopback_share": (users["IDM_DRIVER"] + users["idm_driver"]) / count,
        "processed_share": sum(statuses[letter] for letter in "SWEF") / count,
        "odd_status_share": sum(statuses[text] for text in ("X", "n", "P", "N ", "s", "")) / count,
        "gap_share": gaps / count,
        "damaged_share": sum(one["decision"] == "invalid" for one in truth(folder, "decisions")) / count / 0.6,
        "special_keys": sum('"' in (row["table_key"] or "") for row in rows) / count,
        "future_share": sum(end < (row["event_time"] or "") < "s" for row in rows) / count,
    }
    assert users["idm_driver"] > 0
    assert found == {name: pytest.approx(share, rel=0.35) for name, share in shares.items()}


@pytest.mark.parametrize("kind", damage.KINDS)
def test_every_kind_of_damage_is_one(kind: str) -> None:
    from random import Random

    rng = Random(3)
    for number in range(40):
        row = LogRow(1 + number % 3, "usr", "idu=1", "fname", "Jack", "John")
        row.record_id, row.event_time, row.time = "5", "2026-02-03 08:00:00", 1_770_105_600_000_000
        before = row.texts()
        assert damage.damage(row, [kind], rng, ["4"]) == kind
        after = row.texts()
        assert sum(one != other for one, other in zip(before, after, strict=True)) == 1
        (one,) = publish([row], Driver("U", False, 2**60, 1, 100, "cycle", "add"), None)
        is_harmless = kind == "repeated" or (kind == "character" and row.old_value != "Jack" and row.event_type != "2")
        assert (one.decision == "invalid") is not is_harmless


def test_times_are_written_as_databases_do() -> None:
    at = datetime(2026, 2, 3, 20, 5, 9, 123456, UTC)
    second = 1_770_149_109_000_000
    assert times.writer("odbc", 9)(at) == ("2026-02-03 20:05:09.123456000", second + 123_456)
    assert times.writer("odbc", 0)(at) == ("2026-02-03 20:05:09", second)
    assert times.writer("db2", 6)(at) == ("2026-02-03-20.05.09.123456", second + 123_456)
    assert times.writer("sybase", 9)(at) == ("Feb  3 2026  8:05:09:123PM", second + 123_000)
    assert times.writer("sybase", 3)(at.replace(hour=0))[0] == "Feb  3 2026 12:05:09:123AM"


# --- table_key --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pairs", "text"),
    [
        ([("idu", "1")], "idu=1"),
        ([("pkey1", "value1"), ("pkey2", "value2")], "pkey1=value1+pkey2=value2"),
        ([("pkey", ", ; ' + \" = \\ < >")], r'pkey=", ; ' + "'" + r' + \" = \\ < >"'),
        ([("idu", " 1")], "idu= 1"),
    ],
)
def test_keys_are_those_of_the_guide(pairs: list[tuple[str, str]], text: str) -> None:
    assert keys.written(pairs) == text
    assert keys.parsed(text) == tuple(pairs)


@given(st.dictionaries(st.text("abc_ é", min_size=1), st.text(",;'+\"=\\<>ab ü\n")))
def test_any_key_is_read_back_as_it_was_written(pairs: dict[str, str]) -> None:
    if pairs:
        assert keys.parsed(keys.written([*pairs.items()])) == tuple(pairs.items())


@pytest.mark.parametrize("text", [text for text in damage._KEYS if text is not None])
def test_a_damaged_key_is_none(text: str) -> None:
    assert keys.parsed(text) is None


# --- decisions --------------------------------------------------------------------------------------------------------

DRIVER = Driver("IDM", False, None, 1, 1000, "cycle", "add")


def log(*rows: tuple[Any, ...]) -> list[LogRow]:
    """Rows of the table usr from (event_type, idu, column, old value, new value); record ids from 1."""
    made = []
    for number, (kind, key, *more) in enumerate(rows, 1):
        row = LogRow(kind, "usr", f"idu={key}", *more)
        row.record_id, row.event_time, row.time, row.perpetrator = str(number), "2026-02-03 08:00:00", 0, "web"
        row.place = Place(0, number, 1)
        made.append(row)
    return made


def usr(**rows: tuple[str | None, ...]) -> dict[str, Current]:
    """The table usr with fname, lname and photo; ``_1`` is the row with idu 1."""
    columns = (
        Column("idu", Type.INTEGER), Column("fname", Type.VARCHAR), Column("lname", Type.VARCHAR),
        Column("photo", Type.LOB),
    )  # fmt: skip
    watched = Watched(
        TableVersion(Table("indirect", "usr", 1, "idu"), 1, columns), 9, EventLogOptions(compound_tables=0, views=0), 1
    )
    found = {frozenset({("idu", name[1:])}): values for name, values in rows.items()}
    return {"usr": Current(watched, [(name[1:],) for name in rows], found)}


JOHN = ("John", "Doe", "u7s=")


def decisions(
    rows: list[LogRow], driver: Driver = DRIVER, tables: dict[str, Current] | None = None
) -> list[tuple[str | None, int | None]]:
    """What becomes of rows: the decision, and the record in its place or the event it is in."""
    return [
        (one.decision, one.overridden_by if one.decision == "overridden" else one.event)
        for one in publish(rows, driver, tables)
    ]


@pytest.mark.parametrize(
    ("weak", "strong"),
    [(1, 5), (7, 5), (2, 6), (3, 6), (8, 6), (1, 7), (2, 8), (3, 8)],
)
def test_query_back_takes_precedence_both_ways_round(weak: int, strong: int) -> None:
    column = "fname" if strong in (7, 8) else None
    weaker, stronger = (weak, 1, "fname", "a", "b"), (strong, 1, column)
    tables = usr(_1=JOHN)
    assert decisions(log(weaker, stronger), tables=tables) == [("overridden", 2), ("published", 1)]
    assert decisions(log(stronger, weaker), tables=tables) == [("published", 1), ("overridden", 1)]


@pytest.mark.parametrize("first", range(1, 9))
@pytest.mark.parametrize("second", range(1, 9))
def test_nothing_else_takes_precedence(first: int, second: int) -> None:
    over = {(1, 5), (7, 5), (2, 6), (3, 6), (8, 6), (1, 7), (2, 8), (3, 8)}
    rows = log(*[(kind, 1, *(("fname", "a", "b") if kind in (1, 2, 3, 7, 8) else ())) for kind in (first, second)])
    found = [decision for decision, _ in decisions(rows, tables=usr(_1=JOHN))]
    gone = second == 4 and first >= 5
    assert found == [
        "no_effect" if gone else "overridden" if (first, second) in over else "published",
        "overridden" if (second, first) in over else "published",
    ]


def test_precedence_needs_the_same_column_object_cycle_and_segment() -> None:
    tables = usr(_1=JOHN, _2=JOHN)
    two, eight = (2, 1, "fname", "a", "b"), (8, 1, "fname")
    assert decisions(log(two, (8, 1, "lname")), tables=tables)[0][0] == "published"
    assert decisions(log(two, (8, 2, "fname")), tables=tables)[0][0] == "published"
    assert decisions(log(two, (4, 1), eight), tables=tables)[0][0] == "published"
    short = Driver("IDM", False, None, 1, 1, "cycle", "add")
    assert decisions(log(two, eight), short, tables) == [("published", 1), ("published", 2)]
    widened = Driver("IDM", False, None, 1, 1, "log", "add")
    assert decisions(log(two, eight), widened, tables) == [("overridden", 2), ("published", 1)]


def test_a_row_is_named_before_a_field_and_the_first_before_others() -> None:
    rows = log((8, 1, "fname"), (2, 1, "fname", "a", "b"), (6, 1), (6, 1))
    assert decisions(rows, tables=usr(_1=JOHN)) == [
        ("overridden", 3), ("overridden", 3), ("published", 1), ("published", 1),
    ]  # fmt: skip


def test_query_back_of_what_is_gone_has_no_effect_and_overrides_nothing() -> None:
    rows = log((1, 1, "fname", None, "Jack"), (5, 1), (6, 1), (4, 1), (5, 1))
    assert [one for one, _ in decisions(rows, tables=usr(_1=JOHN))] == [
        "published", "no_effect", "no_effect", "published", "published",
    ]  # fmt: skip
    assert [one for one, _ in decisions(rows[:3], tables=usr())] == ["published", "no_effect", "no_effect"]
    assert [one for one, _ in decisions(rows[:3])] == ["overridden", "needs_snapshot", "needs_snapshot"]


@pytest.mark.parametrize(
    ("change", "is_gone"),
    [({"status": "S"}, True), ({"status": "X"}, False), ({"perpetrator": "IDM"}, True), ({"record_id": "0"}, False)],
)
def test_a_delete_that_was_processed_or_is_the_drivers_own_counts(change: dict[str, str], is_gone: bool) -> None:
    rows = log((6, 1), (4, 1))
    for name, value in change.items():
        setattr(rows[1], name, value)
    assert (decisions(rows, tables=usr(_1=JOHN))[0][0] == "no_effect") is is_gone


@pytest.mark.parametrize(
    ("change", "decision"),
    [
        ({"status": "S"}, "skipped"), ({"status": "n"}, "skipped"), ({"status": "N "}, "skipped"),
        ({"status": None}, "skipped"), ({"perpetrator": "IDM"}, "skipped"), ({"perpetrator": "idm"}, "published"),
        ({"perpetrator": None}, "published"), ({"record_id": "x"}, "invalid"), ({"record_id": None}, "invalid"),
        ({"record_id": "x", "status": "S"}, "skipped"), ({"record_id": "x", "status": None}, "invalid"),
        ({"event_type": "9"}, "invalid"), ({"event_type": "9", "status": "E"}, "skipped"),
        ({"table_name": ""}, "invalid"), ({"table_key": "1"}, "invalid"), ({"column_name": None}, "invalid"),
        ({"new_value": "\x01"}, "invalid"), ({"old_value": "\x01"}, "invalid"), ({"event_time": "soon"}, "published"),
        ({"event_type": "3", "old_value": "\x01"}, "published"), ({"old_value": None}, "published"),
        ({"old_value": None, "new_value": None}, "no_effect"),
        ({"event_type": "1", "old_value": None, "new_value": None}, "published"),
    ],
)  # fmt: skip
def test_a_row_is_decided_by_what_it_says(change: dict[str, str | None], decision: str) -> None:
    (row,) = log((2, 1, "fname", "Jack", "John"))
    for name, value in change.items():
        setattr(row, name, value)
    assert decisions([row])[0][0] == decision


def test_a_record_id_that_was_there_before_is_invalid_wherever_it_comes_first() -> None:
    rows = log((4, 1), (4, 2), (4, 3))
    rows[0].record_id, rows[0].status, rows[2].record_id = "3", "S", "3"
    assert decisions(rows) == [("skipped", None), ("published", 1), ("invalid", None)]


def test_rows_of_the_future_wait_and_others_are_in_the_order_of_their_time() -> None:
    rows = log((4, 1), (4, 2), (4, 3), (4, 4))
    for row, time in zip(rows, (30, 20, 20, 40), strict=True):
        row.time = time
    driver = Driver("IDM", False, 30, 2, 1000, "cycle", "add")
    found = publish(rows, driver, None)
    assert [(one.decision, one.event, one.document) for one in found] == [
        ("published", 3, 2), ("published", 1, 1), ("published", 2, 1), ("waiting", None, None),
    ]  # fmt: skip
    rows[0].time = None
    assert decisions(rows, driver)[0][0] == "invalid"


def test_documents_hold_so_many_events_and_never_two_cycles() -> None:
    rows = log(*[(4, number) for number in range(7)])
    found = publish(rows, Driver("IDM", False, None, 2, 3, "cycle", "add"), None)
    assert [one.document for one in found] == [1, 1, 2, 3, 3, 4, 5]


# --- events -----------------------------------------------------------------------------------------------------------


def told(rows: list[LogRow], driver: Driver = DRIVER, tables: dict[str, Current] | None = None) -> list[Any]:
    """The events of rows: verb, and the attributes as (name, remove all, remove, add)."""
    known = tables if tables is not None else usr(_1=JOHN)
    found = [*events(publish(rows, driver, known), driver, known, "indirect", {"photo"})]
    assert all(one["association"].endswith(",table=usr,schema=indirect") for one in found)
    assert all((a["type"] == "octet") == (a["name"] == "photo") for one in found for a in one["attrs"])
    return [(one["verb"], [(a["name"], a["remove_all"], a["remove"], a["add"]) for a in one["attrs"]]) for one in found]


def test_events_are_those_of_the_guide() -> None:
    """docs/formats/idm-event-log.md §5: Jack Frost becomes John Doe."""
    assert told(log((1, 1, "fname", None, "Jack"), (1, 1, "lname", None, "Frost"), (1, 1, "photo", None, "qqo="))) == [
        ("add", [("fname", False, None, "Jack"), ("lname", False, None, "Frost"), ("photo", False, None, "qqo=")])
    ]
    assert told(log((2, 1, "fname", "Jack", "John"), (2, 1, "photo", "qqo=", "u7s="))) == [
        ("modify", [("fname", False, "Jack", "John"), ("photo", False, "qqo=", "u7s=")])
    ]
    assert told(log((3, 1, "fname", "Jack", "John"))) == [("modify", [("fname", True, None, "John")])]
    assert told(log((4, 1))) == [("delete", [])]
    names = ("fname", "lname", "photo")
    added = [(name, False, None, value) for name, value in zip(names, JOHN, strict=True)]
    replaced = [(name, True, None, value) for name, value in zip(names, JOHN, strict=True)]
    assert told(log((5, 1))) == [("add", added)]
    assert told(log((5, 1)), Driver("IDM", False, None, 1, 1000, "cycle", "modify")) == [("modify", replaced)]
    assert told(log((6, 1))) == [("modify", replaced)]
    assert told(log((7, 1, "lname"))) == [("add", added[1:2])]
    assert told(log((8, 1, "lname"))) == [("modify", replaced[1:2])]


def test_null_is_written_where_something_can_be_taken_away_alone() -> None:
    nobody = usr(_1=(None, "Doe", None))
    assert told(log((1, 1, "fname", None, None))) == [("add", [])]
    assert told(log((2, 1, "fname", None, "b"), (2, 1, "lname", "a", None))) == [
        ("modify", [("fname", False, None, "b"), ("lname", False, "a", None)])
    ]
    assert told(log((3, 1, "fname", "a", None))) == [("modify", [("fname", True, None, None)])]
    assert told(log((5, 1)), tables=nobody) == [("add", [("lname", False, None, "Doe")])]
    assert told(log((7, 1, "fname")), tables=nobody) == [("add", [])]
    assert told(log((8, 1, "fname")), tables=nobody) == [("modify", [("fname", True, None, None)])]


def test_the_same_query_back_is_written_once() -> None:
    assert len(told(log((6, 1), (6, 1)))[0][1]) == 3
    assert [a[0] for a in told(log((8, 1, "fname"), (8, 1, "photo"), (8, 1, "fname")))[0][1]] == ["fname", "photo"]
    assert len(told(log((2, 1, "fname", "a", "b"), (2, 1, "fname", "b", "c")))[0][1]) == 2


def test_rows_of_another_object_or_verb_part_events() -> None:
    one, other = (2, 1, "fname", "a", "b"), (2, 2, "fname", "a", "b")
    assert [verb for verb, _ in told(log(one, other, one))] == ["modify"] * 3
    assert [verb for verb, _ in told(log((1, 1, "fname", None, "a"), one, (3, 1, "lname", "a", "b"), (4, 1)))] == [
        "add", "modify", "delete",
    ]  # fmt: skip
    skipped = log(one, other, one)
    skipped[1].status = "S"
    assert len(told(skipped)) == 1


@every_workload
def test_events_are_made_of_the_published_rows(made: Made, workload: str) -> None:
    folder = made(workload)
    chosen = settings(folder)
    of_event = defaultdict(list)
    for row, one in zip(stored(folder), truth(folder, "decisions"), strict=True):
        assert (one["event"] is None) == (one["document"] is None) == (one["decision"] != "published")
        if one["event"]:
            of_event[one["event"]].append((row, one))
    found = truth(folder, "events")
    assert [one["event"] for one in found] == [*range(1, len(of_event) + 1)] == sorted(of_event)
    sizes = Counter(one["document"] for one in found)
    assert [*sizes] == [*range(1, len(sizes) + 1)]
    assert max(sizes.values()) <= chosen["batch_size"]
    for one in found:
        rows = of_event[one["event"]]
        row = rows[0][0]
        assert {(other["table_name"], other["table_key"]) for other, _ in rows} == {
            (row["table_name"], row["table_key"])
        }
        assert {decision["document"] for _, decision in rows} == {one["document"]}
        schema, _, table = f"{row['table_name']}".rpartition(".")
        assert one["class_name"] == table
        assert one["association"] == f"{row['table_key']},table={table},schema={schema or chosen['schema']}"
        verbs = {"add" if r.kind in (1, 5, 7) else "delete" if r.kind == 4 else "modify" for r, _ in rows}
        assert one["verb"] in verbs or (chosen["type5"] == "modify" and verbs <= {"add", "modify"})
        logged = [r["new_value"] for r, _ in rows if r.kind == 3 or (r.kind == 1 and r["new_value"] is not None)]
        assert not Counter(logged) - Counter(a["add"] for a in one["attrs"])
        for attr in one["attrs"]:
            assert not attr["remove_all"] or (one["verb"] == "modify" and attr["remove"] is None)
            assert attr["remove_all"] or attr["remove"] is not None or attr["add"] is not None


@every_workload
def test_decisions_keep_the_rules(made: Made, workload: str) -> None:
    """Each rule by itself, in the plainest words, against what the truth decided."""
    folder = made(workload)
    chosen, known = settings(folder), facts(folder)["snapshot"]
    rows, told_rows = stored(folder), truth(folder, "decisions")
    pairs = [*zip(rows, told_rows, strict=True)]
    if not chosen["future_events"]:
        in_order = [one["event"] for row, one in sorted(pairs, key=lambda p: p[0].number or 0) if one["event"]]
        assert in_order == sorted(in_order)
    live = ("published", "overridden", "needs_snapshot")
    by_number = {one["record_id"]: (row, one) for row, one in pairs if one["decision"] in live}
    for row, one in pairs:
        if one["decision"] not in ("skipped", "invalid"):
            assert row["status"] == "N"
            assert row["perpetrator"] != chosen["driver_user"] or chosen["allow_loopback"]
            assert None not in (row.number, row.kind, keys.parsed(row["table_key"] or ""))
        match one["decision"]:
            case "skipped":
                assert row["status"] != "N" or row["perpetrator"] == chosen["driver_user"]
            case "waiting":
                assert chosen["future_events"]
            case "needs_snapshot":
                assert row.kind in (5, 6, 7, 8)
                assert row["table_name"] not in known or row.kind in (7, 8)
            case "overridden":
                other, decided = by_number[one["overridden_by"]]
                assert (other["table_name"], other["table_key"]) == (row["table_name"], row["table_key"])
                assert (row.kind, other.kind) in {(1, 5), (7, 5), (2, 6), (3, 6), (8, 6), (1, 7), (2, 8), (3, 8)}
                assert other.kind in (5, 6) or other["column_name"] == row["column_name"]
                assert decided["decision"] in live
            case "no_effect":
                assert row.kind in (5, 6, 7, 8) or (row.kind == 2 and row["old_value"] is row["new_value"] is None)


# --- changes ----------------------------------------------------------------------------------------------------------


@every_workload
def test_every_row_of_a_known_type_is_in_one_change(made: Made, workload: str) -> None:
    folder = made(workload)
    rows = {(row.file, row.offset): row for row in stored(folder)}
    seen: Counter[tuple[int, int]] = Counter()
    files = facts(folder)["files"]
    for change in truth(folder, "changes"):
        group = [rows[event["file_index"], event["offset"]] for event in change["source_events"]]
        seen.update((row.file, row.offset) for row in group)
        assert change["source_events"] == [row.place for row in group]
        assert group == sorted(group, key=lambda row: (row.file, row.offset))
        last = max(group, key=lambda row: (row.number or 0, row.file, row.offset))
        assert (change["file_index"], change["offset"], change["length"]) == (last.file, last.offset, last.length)
        assert change["file"] == files[last.file]
        assert change["headers"] == last.values
        assert change["position"] == (f"{last.number:019d}" if last.number else None)
        assert change["record_type"] == last["event_type"]
        kinds = {row.kind for row in group}
        operations = {"INSERT" if k in (1, 5, 7) else "DELETE" if k == 4 else "UPDATE" for k in kinds}
        assert operations == {change["operation"]}
        for name in ("table_name", "table_key", "perpetrator", "event_time"):
            assert len({row[name] for row in group}) == 1
        columns = [row["column_name"] for row in sorted(group, key=lambda row: row.number or 0)]
        assert len(columns) == len(set(columns))
        assert len(group) == 1 or not kinds & {4, 5, 6}
        named = [column for column in columns if column is not None]
        assert change["changed_columns"] == (named or None)
        assert change["change_source"] == ("log" if named else None)
        found = keys.parsed(last["table_key"] or "")
        assert change["key"] == (None if found is None else dict(found))
        after = {row["column_name"]: row["new_value"] for row in group if row.kind in (1, 2, 3) and row["column_name"]}
        before = {row["column_name"]: row["old_value"] for row in group if row.kind in (2, 3) and row["column_name"]}
        assert change["after"] == (after or None)
        assert change["before"] == (change["key"] if kinds == {4} else before or None)
        assert change["outcome"] is change["transaction_id"] is change["committed_at"] is None
    assert seen == Counter({place: 1 for place, row in rows.items() if row.kind})


@every_workload
def test_changes_cannot_be_joined_any_further(made: Made, workload: str) -> None:
    folder = made(workload)
    owners = {}
    for number, change in enumerate(truth(folder, "changes")):
        for event in change["source_events"]:
            owners[event["file_index"], event["offset"]] = number
    rows = sorted((row for row in stored(folder) if row.number), key=lambda row: (row.number, row.file, row.offset))
    joined = 0
    for row, later in pairwise(rows):
        apart = owners.get((row.file, row.offset)) != owners.get((later.file, later.offset))
        joined += not apart
        if not apart or {row.kind, later.kind} & {None, 4, 5, 6}:
            continue
        same = ("table_name", "table_key", "perpetrator", "event_time")
        group = [r["column_name"] for r in rows if owners.get((r.file, r.offset)) == owners[row.file, row.offset]]
        assert (
            any(row[name] != later[name] for name in same)
            or None in (row["table_name"], row["table_key"], *group, later["column_name"])
            or (row.kind in (1, 7)) != (later.kind in (1, 7))
            or later["column_name"] in group
        )
    assert joined > 100


@every_workload
def test_times_of_changes_are_those_of_the_text(made: Made, workload: str) -> None:
    forms = {"db2": "%Y-%m-%d-%H.%M.%S.%f", "sybase": "%b %d %Y %I:%M:%S:%f%p"}
    form = forms.get(WORKLOADS[workload].get("time_form", "odbc"), "%Y-%m-%d %H:%M:%S.%f")
    if not WORKLOADS[workload].get("fraction", 3):
        form = form.removesuffix(".%f")
    for change in truth(made(workload), "changes"):
        text = change["headers"]["event_time"]
        try:
            at = datetime.strptime(f"{text}+0000", f"{form}%z")
        except ValueError:
            assert change["changed_at"] is None
            assert text in damage._TIMES
        else:
            assert change["changed_at"] == at


@every_workload
def test_versions_of_tables_have_the_columns_that_the_rows_name(made: Made, workload: str) -> None:
    folder = made(workload)
    rows = [row for row in stored(folder) if row.kind and row["table_name"]]
    versions = {row["table_version"]: row for row in truth(folder, "table_versions")}
    assert versions.keys() == {f"{row['table_name']}@1" for row in rows}
    assert {change["table_version"] for change in truth(folder, "changes")} - {None} == versions.keys()
    for name, version in versions.items():
        own = [row for row in rows if f"{row['table_name']}@1" == name]
        columns = {column["name"] for column in version["columns"] if column["key_position"] is None}
        assert columns == {row["column_name"] for row in own} - {None}
        in_key = [column["name"].lower() for column in version["columns"] if column["key_position"]]
        assert in_key == facts(folder)["keys"].get(f"{own[0]['table_name']}", in_key)
        assert version["first_position"] == min(f"{row.number:019d}" for row in own if row.number)
        assert (version["origin"], version["first_event"]) == ("inferred", None)
        table = [part for part in (version["schema_name"], version["table_name"]) if part]
        assert f"{'.'.join(table)}@1" == name


def test_the_truth_has_exactly_the_columns_of_the_model(made: Made) -> None:
    folder = made("CSV as it comes") / "truth"
    for name, schema in {
        "changes": model.CHANGES, "table_versions": model.TABLE_VERSIONS, "decisions": DECISIONS, "events": EVENT,
    }.items():  # fmt: skip
        assert pq.read_schema(folder / f"{name}.parquet").equals(schema)
    assert {path.name for path in folder.iterdir()} == {
        "changes.parquet", "table_versions.parquet", "decisions.parquet", "events.parquet", "settings.json",
        "facts.json", "snapshot",
    }  # fmt: skip


# --- snapshots, settings, options -------------------------------------------------------------------------------------


def test_snapshots_hold_the_same_in_every_form(tmp_path: Path) -> None:
    options: dict[str, Any] = {"changes": 200, "seed": 6, "all_types": True, "tables": 7, "special_keys": 0}
    as_text = generate("idm-event-log", to=tmp_path / "csv", **options)
    typed = generate("idm-event-log", to=tmp_path / "parquet", snapshot="parquet", **options)
    texts, tables = snapshot(as_text), snapshot(typed)
    assert texts.keys() == tables.keys()
    kinds: set[str] = set()
    for name, path in texts.items():
        table = pq.read_table(tables[name])
        with path.open(newline="", encoding="utf-8") as file:
            assert next(csv.reader(file)) == table.column_names
        lines = [values for _, _, values in fields(path.read_bytes())][1:]
        kinds.update(str(kind) for kind in table.schema.types)
        for column, values in zip(table.columns, zip(*lines, strict=True), strict=True):
            assert [as_plain(value) for value in column.to_pylist()] == [*values]
    assert kinds == {"int64", "string", "binary"}
    for name in ("events", "changes"):
        assert truth(as_text, name) == truth(typed, name)


def as_plain(value: Any) -> str | None:
    import base64

    return base64.b64encode(value).decode() if isinstance(value, bytes) else None if value is None else str(value)


def test_settings_are_those_of_the_options(tmp_path: Path) -> None:
    folder = generate(
        "idm-event-log", changes=20, seed=1, to=tmp_path, future_events=True, as_of="2025-03-23T10:00:00+01:00",
        driver_user="DRV", batch_size=3, query_limit=9, precedence="log", type5="modify", naming="qualified",
    )  # fmt: skip
    assert settings(folder) == {
        "driver_user": "DRV", "allow_loopback": False, "future_events": True, "as_of": "2025-03-23T09:00:00.000000Z",
        "batch_size": 3, "query_limit": 9, "precedence": "log", "type5": "modify", "types": {"photo": "octet"},
    }  # fmt: skip
    told_options = json.loads((folder / "synth.json").read_text())
    assert told_options["options"].keys() == FORMAT_OPTIONS["idm-event-log"].keys()
    assert told_options["records"] == facts(folder)["rows"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"field_share": 0, "field_query_share": 0, "row_query_share": 0, "mixed_share": 0}, "no style"),
        ({"processed_share": 0.6, "future_share": 0.6}, "add up"),
        ({"as_of": "2026-01-01T00:00:00Z"}, "with future_events alone"),
        ({"as_of": "soon", "future_events": True}, "ISO 8601"),
        ({"container": "jsonl", "header": False}, "header is true"),
        ({"container": "xlsx", "compression": "gzip"}, "compression is none"),
        ({"container": "sql", "null_text": "NULL"}, "null_text is empty"),
        ({"null_text": "a,b"}, "no quote"),
        ({"time_form": "db2", "fraction": 9}, "at most 6"),
        ({"container": "xls"}, "did you mean 'xlsx'"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(SynthError, match=message):
        generate("idm-event-log", changes=1, seed=1, to=tmp_path, **options)


def test_every_decision_can_be_had(tmp_path: Path) -> None:
    folder = generate(
        "idm-event-log", changes=400, seed=2, to=tmp_path, future_events=True, missing_snapshots=1, query_limit=500
    )
    assert facts(folder)["decisions"].keys() == {
        "published", "skipped", "invalid", "waiting", "no_effect", "overridden", "needs_snapshot",
    }  # fmt: skip


@pytest.mark.parametrize("changes", [0, 1])
@pytest.mark.parametrize("container", ["csv", "sql", "jsonl", "parquet", "xlsx"])
def test_a_log_may_be_empty(changes: int, container: str, tmp_path: Path) -> None:
    folder = generate("idm-event-log", changes=changes, seed=2, to=tmp_path, container=container, files=2)
    assert len(stored(folder)) == facts(folder)["rows"]
