"""The real files of a file target: two full loads and two files of changes, each with its side file."""

from __future__ import annotations

import gzip
import shutil
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cdcwb.formats import get_format, identify, inspect
from cdcwb.formats.dissector import EVERYTHING, TableRequest
from tests.local import ledger, plan_of, read

pytestmark = pytest.mark.samples

FORMAT = "qlik-change-table"


@pytest.fixture
def folder(samples: Path, tmp_path: Path) -> Path:
    """The files in the folders and under the names that their side files speak of."""
    for path in sorted((samples / "qlik").glob("17-*")):
        table, _, name = path.name.removeprefix("17-ct-file-").rpartition("_")
        where = tmp_path / table
        where.mkdir(exist_ok=True)
        shutil.copy(path, where / name)
    return tmp_path


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    return [row for row in table.to_pylist() if row["kind"] != "filler"]


def test_every_row_is_read_with_the_values_that_stand_in_it(samples: Path) -> None:
    files = sorted(map(str, (samples / "qlik").glob("17-*")))
    form = get_format(FORMAT)
    plan = form.plan(files, {}, lambda function, tasks: [function(task) for task in tasks])
    table = pa.Table.from_batches(
        [batch for split in range(len(plan.splits)) for batch in form.read(plan, split, EVERYTHING)]
    )
    closed = ledger(table)
    assert closed == {path: Path(path).stat().st_size for path in files if path.endswith(".csv")}
    rows = rows_of(table)
    said = [(row["record_type"], row["kind"], row["operation"], row["position"], row["changed_at"]) for row in rows]
    first, second = "20210915031230320000000000000000041", "20210915031231320000000000000000041"
    assert said == [
        ("LOAD", "change", "REFRESH", None, None),
        ("LOAD", "change", "REFRESH", None, None),
        ("LOAD", "change", "REFRESH", None, None),
        ("I", "change", "INSERT", first, datetime(2021, 10, 8, 13, 12, 31, 320000, UTC)),
        ("U", "after", "UPDATE", second, datetime(2021, 10, 8, 13, 12, 31, 320000, UTC)),
        ("U", "after", "UPDATE", first, datetime(2021, 10, 8, 14, 12, 31, 320000, UTC)),
        ("I", "change", "INSERT", second, datetime(2021, 10, 8, 15, 12, 31, 320000, UTC)),
    ]
    assert [dict(row["after"])["SAMPLE_NAME"] for row in rows] == [
        "Sample 1 🔥",
        "Sample 2",
        "Sample 3",
        "Sample 4 🔥🔥🔥🔥",
        "Sample 2 🔥🔥",
        "Sample 4 🔥🔥🔥🔥",
        "Sample 5 🔥🔥🔥🔥🔥",
    ]
    assert dict(rows[3]["after"]) == {
        "SAMPLE_ID": "4",
        "SAMPLE_NAME": "Sample 4 🔥🔥🔥🔥",
        "EDW_INSERTED_DTM": "2021-12-01 11:20:30.4444444",
        "EDW_UPDATED_DTM": "2021-12-01 11:20:31.4444444",
    }
    assert dict(rows[3]["headers"]) == {
        "header__change_seq": first,
        "header__change_oper": "I",
        "header__timestamp": "2021-10-08 13:12:31.320000",
    }
    for row in rows:
        assert (row["schema_name"], row["table_name"], row["table_version"]) == ("EDW", "SAMPLE", "EDW.SAMPLE@1")
        assert row["problems"] is None
        assert row["before"] is None
        assert row["changed_columns"] is None
        assert dict(row["key"]) == {"SAMPLE_ID": dict(row["after"])["SAMPLE_ID"]}


def test_folders_and_compression_change_nothing(folder: Path) -> None:
    plain = rows_of(read(folder, format=FORMAT))
    for path in list(folder.rglob("*.csv")):
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    packed = rows_of(read(folder, format=FORMAT))
    assert [{**row, "file": row["file"] + ".gz"} for row in plain] == packed
    assert len(plain) == 7


def test_side_files_give_one_version_with_its_key(folder: Path) -> None:
    form, plan = get_format(FORMAT), plan_of(folder, FORMAT)
    (version,) = form.table_versions(plan).to_pylist()
    assert (version["table_version"], version["origin"], version["first_event"]) == ("EDW.SAMPLE@1", "side file", None)
    facts = [
        (column["ordinal"], column["name"], column["type"], column["length"], column["key_position"])
        for column in version["columns"]
    ]
    assert facts == [
        (1, "SAMPLE_ID", "INT4", 10, 1),
        (2, "SAMPLE_NAME", "STRING", 100, None),
        (3, "EDW_INSERTED_DTM", "DATETIME", None, None),
        (4, "EDW_UPDATED_DTM", "DATETIME", None, None),
    ]
    assert dict(version["lineage"])["version"] == "1"
    assert form.problems(plan) == []
    assert [entry["role"] for entry in form.files(plan)] == ["load", "load", "changes", "changes"]


def test_typed_columns_have_the_types_of_the_side_file(folder: Path) -> None:
    form, plan = get_format(FORMAT), plan_of(folder, FORMAT)
    request = TableRequest("EDW.SAMPLE", images="after")
    schema = form.table_schema(plan, request)
    assert [one.type for one in schema.field("after").type] == [
        pa.int32(),
        pa.string(),
        pa.timestamp("us"),
        pa.timestamp("us"),
    ]
    table = pa.Table.from_batches(
        [batch for split in range(len(plan.splits)) for batch in form.read_table(plan, split, request)], schema=schema
    )
    assert [row["SAMPLE_ID"] for row in table.column("after").to_pylist()] == [1, 2, 3, 4, 2, 4, 5]
    assert table.column("after").to_pylist()[0]["EDW_INSERTED_DTM"] == datetime.combine(
        date(2021, 12, 1), time(11, 20, 30, 444444)
    )


def test_it_is_recognised_and_one_row_is_taken_apart(folder: Path) -> None:
    found = identify(folder)
    assert found.format == FORMAT
    assert found.confidence > 0.9
    (path, *_) = sorted((folder / "EDW.SAMPLE__ct").glob("*.csv"))
    one = inspect(path, 120)
    assert (one.offset, one.length) == (112, 151)
    sequence = one.field.children[0]
    assert [(part.name, part.value) for part in sequence.children[:2]] == [
        ("time", "2021-09-15T03:12:30.32"),
        ("number", "41"),
    ]
    assert one.field.children[4].value == "Sample 4 🔥🔥🔥🔥"
