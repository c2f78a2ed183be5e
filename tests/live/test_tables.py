"""Tables of PostgreSQL and MariaDB as captures: what is in them equals what is in files with the same rows."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import cdcwb
import cdcwb_synth as synth
from cdcwb.analysis.xds import publish_log
from cdcwb.cli import main
from cdcwb.xds import Settings, Snapshot
from tests.live.databases import PASSWORD, Database
from tests.live.rows import create, insert, statements

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdcwb.capture import Capture

pytestmark = pytest.mark.usefixtures("spark")

SAME = (
    *("operation", "position", "transaction_id", "schema_name", "table_name", "key", "before", "after"),
    *("changed_columns", "changed_at", "outcome"),
)
LOG_TYPES = {"record_id": "bigint", "event_type": "smallint", "event_time": "timestamp(3)"}


def told(capture: Capture, table: str | None = None) -> list[str]:
    """What changes say, wherever they were read from."""
    changes = capture.changes if table is None else capture.changes.where(f"table_name = '{table}'")
    found = sorted(map(str, changes.select(*SAME).toArrow().to_pylist()))
    return [one.replace("'-0.0'", "'0.0'") for one in found]  # MariaDB has no negative zero


def assert_same(found: list[str], expected: list[str]) -> None:
    """Lists of texts are equal; the first difference is shown around its place."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        if one != other:
            place = next(number for number, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1])
            assert one[max(0, place - 80) : place + 80] == other[max(0, place - 80) : place + 80]
    assert found == expected


# --- change tables ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def change_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Generated change tables and DDL history as files."""
    folder = tmp_path_factory.mktemp("made")
    synth.generate(
        *("qlik-change-table",),
        changes=2000,
        seed=5,
        to=folder,
        tables=2,
        container="parquet",
        dfm=False,
        schema_changes=0,
    )
    for load in folder.glob("capture/*/LOAD*"):
        load.unlink()
    return folder / "capture"


@pytest.fixture(scope="module")
def change_names(server: Database, change_tables: Path) -> list[str]:
    """The same in a database: the names of the tables."""
    found = []
    for folder in sorted(change_tables.iterdir()):
        if not (files := sorted(folder.iterdir())):
            continue
        if folder.name.startswith("attrep"):
            text = pa.csv.ConvertOptions(strings_can_be_null=True)
            table = pa.concat_tables([pa.csv.read_csv(path, convert_options=text) for path in files])
            table = table.cast(pa.schema([(name, pa.string()) for name in table.column_names]))
        else:
            table = pa.concat_tables([pq.read_table(path) for path in files])
        table = table.take(pa.array(range(len(table)))[::-1])  # the order of rows in a database says nothing
        create(server, folder.name, table, header__change_seq="varchar(35)")
        found.append(folder.name)
    return found


def test_a_change_table_that_is_loaded_equals_its_files(
    database: Database, change_tables: Path, change_names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for name in change_names:
        found = cdcwb.load(database.url, dbtable=name)
        if name.startswith("attrep"):
            assert found.events.where("kind = 'control'").count() > 0
            continue
        files = cdcwb.load(change_tables / name)
        assert_same(told(found), told(files))
        row = found.detected.where("setting = 'ids'").collect()[0]
        assert row.value.count(" to ") == 1
        assert name in row.evidence
    assert main(["summary", database.url, "-o", f"dbtable={change_names[-1]}"]) == 0
    assert "qlik-change-table" in capsys.readouterr().out


TYPES = {
    "postgresql": {
        "exact": ("numeric", "'12345678901234567890123456789012345678901234567890.50'"),
        "money": ("numeric(12, 3)", "1.5"),
        "local": ("timestamp", "'2025-03-30 02:30:00.089'"),
        "moment": ("timestamptz", "'2025-03-30 02:30:00.089+02'"),
        "never": ("timestamp", "'infinity'"),
        "day": ("date", "'2025-03-30'"),
        "clock": ("time", "'10:11:12.5'"),
        "bytes": ("bytea", r"'\x00ff'"),
        "flag": ("boolean", "true"),
        "small": ("real", "1.1"),
        '"Mixed case"': ("text", "'x'"),
        "nothing": ("timestamp", "NULL"),
    },
    "mariadb": {
        "exact": ("decimal(65, 20)", "'123456789012345678901234567890123456789012345.50'"),
        "money": ("numeric(12, 3)", "1.5"),
        "local": ("datetime(3)", "'2025-03-30 02:30:00.089'"),
        "moment": ("timestamp(3)", "'2025-03-30 05:30:00.089'"),
        "never": ("datetime", "'0000-00-00 00:00:00'"),
        "day": ("date", "'2025-03-30'"),
        "clock": ("time(1)", "'10:11:12.5'"),
        "bytes": ("varbinary(9)", "x'00ff'"),
        "flag": ("boolean", "12"),
        "small": ("float", "1.1"),
        "`Mixed case`": ("text", "'x'"),
        "nothing": ("datetime", "NULL"),
    },
}
"""Columns: their types and values. The server of MariaDB is five hours ahead of UTC."""

WRITTEN = """
import sys
import pyarrow.parquet as pq
from cdcwb.live.jdbc import JdbcTable
from cdcwb.spark.session import get_spark

table = JdbcTable.take(sys.argv[1], {"dbtable": "typed"})
frame, _ = table.rows(get_spark(packages=table.packages))
pq.write_table(frame.toArrow(), sys.argv[2])
"""


def test_values_are_exact_whatever_zone_the_jvm_has(database: Database, tmp_path: Path) -> None:
    columns = TYPES[database.name]
    names = ", ".join(f"{name} {kind}" for name, (kind, _) in columns.items())
    database.run(
        *(["SET sql_mode = ''"] if database.name == "mariadb" else []),
        "DROP TABLE IF EXISTS typed",
        f"CREATE TABLE typed (record_id bigint, {names})",
        f"INSERT INTO typed VALUES (1, {', '.join(value for _, value in columns.values())})",
    )
    berlin = {**os.environ, "JAVA_TOOL_OPTIONS": "-Duser.timezone=Europe/Berlin"}  # where 02:30 does not exist that day
    done = subprocess.run(
        [sys.executable, "-c", WRITTEN, database.url, str(tmp_path / "typed.parquet")],
        env=berlin, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-1000:]
    table = pq.read_table(tmp_path / "typed.parquet")
    is_mariadb = database.name == "mariadb"
    assert {name: (str(table.schema.field(name).type), table[name][0].as_py()) for name in table.column_names[1:]} == {
        "exact": (
            "string",
            f"123456789012345678901234567890123456789012345.5{'0' * 19}"
            if is_mariadb
            else "12345678901234567890123456789012345678901234567890.50",
        ),
        "money": ("decimal128(12, 3)", Decimal("1.500")),
        "local": ("timestamp[us]", datetime(2025, 3, 30, 2, 30, 0, 89_000)),
        "moment": ("timestamp[us, tz=UTC]", datetime(2025, 3, 30, 0, 30, 0, 89_000, tzinfo=UTC)),
        "never": ("timestamp[us]", None if is_mariadb else datetime(9999, 12, 31, 23, 59, 59, 999_999)),
        "day": ("date32[day]", date(2025, 3, 30)),
        "clock": ("string", "10:11:12.5"),
        "bytes": ("binary", b"\x00\xff"),
        "flag": ("int8", 12) if is_mariadb else ("bool", True),
        "small": ("float", pa.scalar(1.1, pa.float32()).as_py()),
        "Mixed case": ("string", "x"),
        "nothing": ("timestamp[us]", None),
    }


# --- an event log -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A generated event log and its parent tables as files."""
    folder = tmp_path_factory.mktemp("log")
    synth.generate(
        *("idm-event-log",), changes=2000, seed=6, to=folder, tables=3, container="parquet", damaged_share=0.0
    )
    return folder


def in_types(table: pa.Table) -> pa.Table:
    """The rows of an event log with the types that a database gives them."""
    time_ = pc.strptime(pc.utf8_slice_codeunits(table["event_time"], 0, 19), "%Y-%m-%d %H:%M:%S", "us")
    millis = pc.cast(pc.utf8_slice_codeunits(table["event_time"], 20, 23), pa.int64())
    exact = pc.add(time_, pc.multiply(millis, 1000).cast(pa.duration("us")))
    typed = {"record_id": table["record_id"].cast(pa.int64()), "event_type": table["event_type"].cast(pa.int16())}
    typed["event_time"] = exact
    return pa.table({name: typed.get(name, table[name]) for name in table.column_names})


@pytest.fixture(scope="module")
def snapshots(server: Database, log: Path) -> dict[str, Path]:
    """The event log and its parent tables in the database: the files of the parent tables by name."""
    table = in_types(pq.read_table(log / "capture" / "eventlog.parquet"))
    create(server, "eventlog", table, **(LOG_TYPES if server.name == "postgresql" else {"event_time": "datetime(3)"}))
    files = {path.stem: path for path in sorted((log / "truth" / "snapshot").iterdir())}
    for name, path in files.items():
        text = pa.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
        names = pa.csv.open_csv(path).schema.names
        text.column_types = dict.fromkeys(names, pa.string())
        text.null_values = [""]
        create(
            server,
            name,
            pa.csv.read_csv(path, parse_options=pa.csv.ParseOptions(newlines_in_values=True), convert_options=text),
        )
    return files


def documents(capture: Capture, snapshot: Snapshot) -> list[str]:
    published = publish_log(capture, Settings.parse({"driver_user": "IDM_DRIVER"}), snapshot)
    xml: list[str] = published.documents.table().sort_by("document")["xml"].to_pylist()
    return xml


def test_an_event_log_equals_its_file(
    database: Database, log: Path, snapshots: dict[str, Path], tmp_path: Path, spark: SparkSession
) -> None:
    expected = cdcwb.load(log / "capture")
    loaded = cdcwb.load(database.url, "idm-event-log", dbtable="eventlog")
    wanted = told(expected)
    assert len(wanted) > 1000
    assert_same(told(loaded), wanted)
    read = Snapshot.read(snapshots)
    xml = documents(expected, read)
    assert len(xml) > 500
    assert_same(documents(loaded, read), xml)


# --- what is new ------------------------------------------------------------------------------------------------------


def events(first: int, last: int) -> pa.Table:
    """Rows of an event log: a statement for each record_id, which inserts one field."""
    number = range(first, last + 1)
    return pa.table(
        {
            "record_id": pa.array(number, pa.int64()),
            "table_key": pa.array([f"id={one}" for one in number], pa.string()),
            "status": pa.array(["N" for _ in number], pa.string()),
            "event_type": pa.array([1 for _ in number], pa.int16()),
            "event_time": pa.array([1_740_000_000_000_000 + one * 1_000_000 for one in number], pa.timestamp("us")),
            "perpetrator": pa.array([None for _ in number], pa.string()),
            "table_name": pa.array(["customer" for _ in number], pa.string()),
            "column_name": pa.array(["city" for _ in number], pa.string()),
            "old_value": pa.array([None for _ in number], pa.string()),
            "new_value": pa.array([str(one) for one in number], pa.string()),
        }
    )


def sequence(number: int) -> str:
    """A change_seq: 16 digits of the time, 19 of a counter."""
    return f"2025032308{number // 60:02}{number % 60:02}00{number:019}"


def updates(*numbers: int) -> pa.Table:
    """Rows of a change table: the halves of an update for each number."""
    halves = [(number, half) for number in numbers for half in ("B", "U")]
    return pa.table(
        {
            "header__change_seq": [sequence(number) for number, _ in halves],
            "header__change_oper": [half for _, half in halves],
            "header__change_mask": pa.array([b"" if half == "B" else b"\x00\x01" for _, half in halves]),
            "header__transaction_id": [f"{number:032X}" for number, _ in halves],
            "header__timestamp": pa.array(
                [1_742_716_800_000_000 + n * 1_000_000 for n, _ in halves], pa.timestamp("us")
            ),
            "id": pa.array([number for number, _ in halves], pa.int32()),
            "city": [f"{half} of {number}" for number, half in halves],
        }
    )


def as_insert(database: Database, name: str, table: pa.Table) -> str:
    """The statement that adds rows, to be sent in a session."""
    return statements(database, name, table)[0]


@pytest.mark.parametrize("kind", ["bigint", "numeric(20)", "unbounded"])
def test_new_rows_are_read_from_an_id_on(database: Database, kind: str) -> None:
    if kind == "unbounded":
        kind = "decimal(50)" if database.name == "mariadb" else "numeric"
    create(database, "growing", events(1, 120_000), record_id=kind)
    capture = cdcwb.load(database.url, dbtable="growing")
    insert(database, "growing", events(120_001, 120_010))
    assert capture.events.count() == 120_000, "the range does not grow"
    assert capture.detected.where("setting = 'ids'").collect()[0].value == "1 to 120000"
    more = cdcwb.load(database.url, "idm-event-log", dbtable="growing", start=120_001)
    ids = [row.after["city"] for row in more.changes.orderBy("position").collect()]
    assert ids == [str(number) for number in range(120_001, 120_011)]
    assert cdcwb.load(database.url, dbtable="growing", start="100", end="200").events.count() == 100
    assert cdcwb.load(database.url, "idm-event-log", dbtable="growing", start=130_000).events.count() == 0


def test_rows_are_in_the_order_of_ids_whatever_order_they_were_committed_in(database: Database, tmp_path: Path) -> None:
    create(database, "shop.late__ct", updates(*range(1, 11)), header__change_seq="varchar(35)")
    with database.session() as first, database.session() as second:
        first.send("BEGIN", as_insert(database, "shop.late__ct", updates(11, 12)))
        second.send("BEGIN", as_insert(database, "shop.late__ct", updates(13, 14)), "COMMIT")
        assert cdcwb.load(database.url, dbtable="shop.late__ct").events.count() == 24
        first.send("COMMIT")
    pq.write_table(updates(*range(1, 15)), tmp_path / "late__ct.parquet")
    found = cdcwb.load(database.url, dbtable="shop.late__ct")
    assert_same(
        told(found), [one.replace("'schema_name': None", "'schema_name': 'shop'") for one in told(cdcwb.load(tmp_path))]
    )
    assert found.problems.where("severity != 'info'").count() == 0


# --- what goes wrong --------------------------------------------------------------------------------------------------


def test_what_goes_wrong_is_one_sentence(
    database: Database, tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    create(database, "plain", pa.table({"a": [1], "b": ["x"]}))
    create(database, "one", events(1, 3))
    for options, expected in (
        (("dbtable=plain",), "plain is not a change table, a control table or an event log: expected"),
        (("dbtable=nowhere",), "the database refuses ("),
        (("dbtable=one", "id_column=number"), "one has no column 'number'; there are record_id"),
        ((), "expected the option dbtable"),
        (("dbtable=one", "start=2026-01-01"), "start: expected an id"),
    ):
        assert main(["summary", database.url, *(word for one in options for word in ("-o", one))]) == 2
        assert expected in capsys.readouterr().err
    try:
        database.stop()
        assert main(["summary", database.url, "-o", "dbtable=one"]) == 5
        told_ = capsys.readouterr().err
        assert "the database does not answer" in told_
        assert len(told_.strip().splitlines()) == 1
    finally:
        database.start()


def test_no_output_has_the_password(
    database: Database,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    create(database, "secret", events(1, 30))
    command = ["summary", database.url, "-o", "dbtable=secret"]
    assert main(command) == 0
    assert main([*command, "--json"]) == 0
    capture = cdcwb.load(database.url, dbtable="secret")
    capture.save(tmp_path / "saved")
    said = [repr(capture), str(capture.facts), str(capture.files), str(capture.detected.collect())]
    assert main(["summary", str(tmp_path / "saved")]) == 0
    path = tmp_path / "given"  # a file with a login that is refused
    path.write_text(f"user=reader\npassword=not-{PASSWORD}\n")
    for name in ("CDCWB_JDBC_USER", "CDCWB_JDBC_PASSWORD"):
        monkeypatch.delenv(name)
    assert main([*command, "-o", f"client_config={path}"]) == 2
    refused = capsys.readouterr()
    assert "the database refuses" in refused.err
    for url in (f"{database.url}?password={PASSWORD}", database.url.replace("//", f"//reader:{PASSWORD}@")):
        assert main(["capture", url, "--to", str(tmp_path / "taken")]) == 2
        assert main(["summary", url, "-o", "dbtable=secret"]) == 2
        assert main(["identify", url]) == 2
    path.unlink()
    after = capsys.readouterr()
    said += [refused.out, refused.err, after.out, after.err]
    assert [text for text in said if PASSWORD in text] == []
    files = [one for one in tmp_path.rglob("*") if one.is_file()]
    assert len(files) > 5
    assert [one for one in files if PASSWORD.encode() in one.read_bytes()] == []
