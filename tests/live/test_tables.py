"""Tables of PostgreSQL and MariaDB as captures: what is in them equals what is in files with the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import cdcwb
import cdcwb_synth as synth
from cdcwb.analysis.xds import publish_log
from cdcwb.cli import main
from cdcwb.live.tables import read_snapshot
from cdcwb.xds import Settings, Snapshot
from tests.live.databases import Database
from tests.live.rows import create

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
    return sorted(map(str, changes.select(*SAME).toArrow().to_pylist()))


def rows(folder: Path) -> list[dict[str, Any]]:
    """The captured rows of a table, in the order of files and rows."""
    return [row for path in sorted(folder.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


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


def test_captured_change_tables_equal_their_files(
    database: Database, change_tables: Path, change_names: list[str], tmp_path: Path
) -> None:
    tables = [word for name in change_names for word in ("--table", name)]
    assert main(["capture", database.url, *tables, "--to", str(tmp_path / "taken")]) == 0
    found, expected = cdcwb.load(tmp_path / "taken"), cdcwb.load(change_tables)
    assert found.format == expected.format == "qlik-change-table"
    assert told(found) == told(expected)
    assert len(told(found)) > 1500
    assert found.transactions.count() == expected.transactions.count()
    versions = [one.table_versions.selectExpr("table_name", "columns.name AS names") for one in (found, expected)]
    assert sorted(versions[0].distinct().collect()) == sorted(versions[1].distinct().collect())


def test_a_change_table_that_is_loaded_equals_its_files(
    database: Database, change_tables: Path, change_names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for name in change_names:
        found = cdcwb.load(database.url, dbtable=name)
        if name.startswith("attrep"):
            assert found.events.where("kind = 'control'").count() > 0
            continue
        files = cdcwb.load(change_tables / name)
        assert told(found) == told(files)
        row = found.detected.where("setting = 'ids'").collect()[0]
        assert row.value.count(" to ") == 1
        assert name in row.evidence
    assert main(["summary", database.url, "-o", f"dbtable={change_names[-1]}"]) == 0
    assert "qlik-change-table" in capsys.readouterr().out


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
    return [row.xml for row in published.documents.orderBy("document").collect()]


def test_an_event_log_equals_its_file(
    database: Database, log: Path, snapshots: dict[str, Path], tmp_path: Path, spark: SparkSession
) -> None:
    taken = tmp_path / "taken"
    words = [word for name in snapshots for word in ("--snapshot", name)]
    assert main(["capture", database.url, "--table", "eventlog", *words, "--to", str(taken)]) == 0
    expected = cdcwb.load(log / "capture")
    loaded = cdcwb.load(database.url, "idm-event-log", dbtable="eventlog")
    captured = cdcwb.load(taken)
    wanted = told(expected)
    assert len(wanted) > 1000
    assert told(loaded) == wanted
    assert told(captured) == wanted
    xml = documents(expected, Snapshot.read(snapshots))
    assert len(xml) > 500
    live = read_snapshot(database.url, list(snapshots), spark=spark)
    assert documents(loaded, live) == xml
    files = {path.stem: path for path in (tmp_path / "taken.snapshot").iterdir()}
    assert documents(captured, Snapshot.read(files)) == xml
