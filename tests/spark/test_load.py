"""A capture as Spark tables: exactly the model's columns, and row for row what the generator says is true."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import cdcwb
import cdcwb_synth as synth
from cdcwb import model
from cdcwb.errors import CaptureError
from tests.saved_capture import write_saved
from tests.spark.tables import assert_truth, conforms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("spark")

# What happens in each, in words; then the generator's options and the reader's.
WORKLOADS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "interleaved transactions, rollbacks, undos followed by more work, a schema change": ({}, {}),
    "small splits, records cut at file ends": ({"files": 3, "cut_records": True}, {"split_size": 20_000}),
    "begins missing, ends missing, halves of updates reversed or apart": (
        {"missing_begins": 3, "open_transactions": 4, "reversed_updates": 0.3, "split_updates": 0.2},
        {"split_size": 30_000},
    ),
    "big-endian size words, one-byte prefixes, GB18030, many transactions at once": (
        {"byte_order": "big", "prefix_width": 1, "charset": "gb18030", "concurrency": 40},
        {"charset": "gb18030"},
    ),
    "reads of a fixed buffer with stale tails": ({"shape": "buffers"}, {}),
    "a read per line of hex text, with stale tails": ({"shape": "reads"}, {}),
}


@pytest.mark.parametrize("workload", WORKLOADS)
def test_changes_transactions_and_versions_equal_the_truth(tmp_path: Path, workload: str) -> None:
    made, read = WORKLOADS[workload]
    synth.generate("gbase8s", changes=1500, seed=21, to=tmp_path, **made)
    changes, _ = assert_truth(tmp_path, **read)
    assert changes == 1500


@pytest.mark.full
def test_two_million_events_in_eight_files_equal_the_truth(tmp_path: Path) -> None:
    synth.generate("gbase8s", changes=1_290_000, seed=8, to=tmp_path, files=8, cut_records=True)
    assert cdcwb.load(tmp_path / "capture").facts["records"] >= 2_000_000
    changes, _ = assert_truth(tmp_path)
    assert changes == 1_290_000


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """600 changes in one file, two transactions without end."""
    return synth.generate("gbase8s", changes=600, seed=4, to=tmp_path_factory.mktemp("small"), open_transactions=2)


@pytest.fixture(scope="module")
def damaged(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with eleven bytes of noise behind the first table schema."""
    data = next((small / "capture").iterdir()).read_bytes()
    first = 36 + int.from_bytes(data[4:8], "big")
    file = tmp_path_factory.mktemp("damaged") / "stream.bin"
    file.write_bytes(data[:first] + b"not records" + data[first:])
    return file


@pytest.mark.oldest
@pytest.mark.parametrize("table", model.TABLES)
def test_every_table_has_exactly_the_columns_of_the_model(small: Path, table: str) -> None:
    assert conforms(getattr(cdcwb.load(small / "capture"), table), table)


@pytest.mark.oldest
def test_a_saved_capture_opens_with_the_same_tables(small: Path, tmp_path: Path) -> None:
    capture = cdcwb.load(small / "capture")
    saved = cdcwb.load(capture.save(tmp_path / "saved"))
    for table in model.TABLES:
        before, after = getattr(capture, table), getattr(saved, table)
        assert conforms(after, table)
        texts = [sorted(map(str, frame.collect())) for frame in (before, after)]
        assert texts[0] == texts[1]
    assert (saved.format, saved.files, saved.facts) == (capture.format, capture.files, capture.facts)
    with pytest.raises(CaptureError, match="load the files it was saved from"):
        saved.table("101")
    with pytest.raises(CaptureError, match="not overwritten"):
        capture.save(tmp_path / "saved")


@pytest.mark.oldest
def test_open_transactions_are_problems_with_their_name(small: Path) -> None:
    capture = cdcwb.load(small / "capture")
    found = capture.problems.filter("code = 'open_transaction'").collect()
    expected = {row.transaction_id for row in capture.transactions.filter("outcome = 'open'").collect()}
    assert {row.transaction_id for row in found} == expected
    assert len(expected) == 2
    assert capture.facts["open_transactions"] == 2
    begins = sorted(name.partition("@")[2] for name in expected)
    assert capture.facts["restart_position"] == begins[0]


def test_what_drop_malformed_drops_leaves_its_problem(damaged: Path) -> None:
    kept, dropped = cdcwb.load(damaged), cdcwb.load(damaged, mode="DROPMALFORMED")
    assert kept.events.filter("kind = 'malformed'").count() == 1
    assert dropped.events.filter("kind = 'malformed'").count() == 0
    assert dropped.events.count() == kept.events.count() - 1
    for capture in (kept, dropped):
        (problem,) = capture.problems.filter("code = 'malformed'").collect()
        assert problem.length == 11
        assert problem.first_bytes == b"not records".hex()
        assert problem.file == str(damaged)


def test_fail_fast_stops_at_the_first_bad_bytes(spark: SparkSession, damaged: Path) -> None:
    with pytest.raises(CaptureError, match="a record header was expected") as caught:
        cdcwb.load(damaged, mode="FAILFAST")
    assert caught.value.path == str(damaged)
    assert caught.value.offset is not None
    cdcwb.register(spark)
    frame = spark.read.format("cdcwb-gbase8s").option("mode", "FAILFAST").load(str(damaged))
    with pytest.raises(Exception, match="a record header was expected"):
        frame.count()


@pytest.mark.oldest
def test_headers_only_keep_everything_but_values(small: Path) -> None:
    whole, bare = cdcwb.load(small / "capture"), cdcwb.load(small / "capture", images=False)
    same = [name for name in model.EVENTS.names if name not in ("before", "after", "raw", "problems")]
    assert bare.events.select(same).collect() == whole.events.select(same).collect()
    assert bare.events.filter("raw is not null or before is not null or after is not null").count() == 0
    assert bare.transactions.count() == whole.transactions.count()


@pytest.mark.oldest
def test_keys_are_taken_from_the_option(small: Path) -> None:
    capture = cdcwb.load(small / "capture", keys=["101:customer_id"])
    rows = capture.changes.filter("table_name = '101' and operation <> 'TRUNCATE'").collect()
    assert rows
    for row in rows:
        image = row.after if row.after is not None else row.before
        assert row.key == {"customer_id": image["customer_id"]}
    assert capture.changes.filter("table_name <> '101' and key is not null").count() == 0


@pytest.mark.oldest
def test_saving_to_a_relative_path_follows_the_working_directory(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The JVM keeps the directory that it was started in."""
    monkeypatch.chdir(tmp_path)
    cdcwb.load(small / "capture").save("kept")
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {*model.TABLES, "cdcwb.json"}
    assert cdcwb.load("kept").transactions.count() > 0


def test_a_key_column_that_a_table_does_not_have_is_an_error(small: Path) -> None:
    with pytest.raises(CaptureError, match=r"table '101' has no column 'customer'\. Did you mean 'customer_id'"):
        cdcwb.load(small / "capture", keys="101:customer")


@pytest.mark.oldest
def test_files_without_content_are_a_capture_without_rows(tmp_path: Path) -> None:
    (tmp_path / "empty.bin").write_bytes(b"")
    capture = cdcwb.load(tmp_path, format="gbase8s")
    for table in ("events", "changes", "transactions", "table_versions", "problems"):
        assert getattr(capture, table).count() == 0


def test_a_capture_that_an_earlier_version_saved_has_the_names_of_today(spark: SparkSession, tmp_path: Path) -> None:
    saved = write_saved(tmp_path / "saved", changes=300, transactions=20)
    about = json.loads((saved / "cdcwb.json").read_text())
    (saved / "cdcwb.json").write_text(json.dumps({**about, "version": 2}))
    (path,) = (saved / "transactions").glob("*.parquet")
    rows = pq.read_table(path)
    before = pc.replace_substring(rows["completeness"].cast("string"), "complete", "whole")
    assert "whole" in before.to_pylist()
    place = rows.schema.get_field_index("completeness")
    pq.write_table(rows.set_column(place, "completeness", before), path)
    capture = cdcwb.load(saved)
    found = {row["completeness"] for row in capture.transactions.collect()}
    assert "complete" in found
    assert "whole" not in found
    assert set(capture.view.bench.changes.transactions.texts["completeness"]) == found
