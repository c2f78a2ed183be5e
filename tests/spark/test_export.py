"""A view as one file: what stands in it, in which order, and that it appears whole or not at all.

The capture here is made up row by row, so that it holds what no small capture does: every kind of missing value, text
that a CSV reader stumbles over, files in natural order, rows in many partitions.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdcwb import model
from cdcwb.analysis.export import export, write_stream
from cdcwb.dataset import Rows, schema_of
from cdcwb.errors import OptionError
from cdcwb.spark_rows import SparkRows
from tests.limits import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOSTILE = 'a,"b"\r\nc\td \u2028 \x00\x1b[31m <script> 中文 😀 '
FIRST = datetime(1, 1, 1, tzinfo=UTC)
LAST = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
SUMMER_TIME_ENDS = datetime(2024, 10, 27, 1, 30, 0, 5, tzinfo=UTC)  # a local time that happens twice in Berlin


def row(table: str, **values: Any) -> dict[str, Any]:
    return {**dict.fromkeys(model.TABLES[table].names), **values}


def event(file_index: int, offset: int, **values: Any) -> dict[str, Any]:
    return row("events", file=f"a{file_index}", file_index=file_index, offset=offset, length=1, **values)


COLUMNS = [{"ordinal": 1, "name": "c1", "type": "integer", "length": 4}]
EVENTS = [
    event(0, 0, raw=b"\x00\xff", before={"c1": None, "c2": ""}, after={}, problems=[{"code": "value", "detail": None}]),
    event(
        0, 1, raw=b"", headers={HOSTILE: HOSTILE}, changed_columns=["a", None], present_columns=[], table_name=HOSTILE
    ),
    event(0, 9, changed_at=FIRST, table_name=""),
    event(0, 10, changed_at=LAST, table_name=" blanks "),
    event(2, 3, changed_at=SUMMER_TIME_ENDS, event_no=2**62, last_in_transaction=False),
    event(10, 0, table_name='"'),
]


@dataclass
class MadeUp:
    """What :func:`export` needs of a capture. Without a session its rows are read in this process, in another order."""

    spark: SparkSession | None
    tables: dict[str, list[dict[str, Any]]]
    files: list[dict[str, Any]]

    def rows(self, view: str, columns: Sequence[str]) -> Rows:
        """See :meth:`cdcwb.Capture.rows`."""
        schema = schema_of(view, columns)
        table = pa.Table.from_pylist(self.tables[view], schema=model.TABLES[view]).select(list(columns)).cast(schema)
        if self.spark is None:
            return Rows(lambda: reversed(table.to_batches(2)), schema)
        return SparkRows(self.spark.createDataFrame(table).repartition(7), schema)  # no order is kept by chance


@pytest.fixture(scope="module", params=["this process", "Spark"])
def capture(spark: SparkSession, request: pytest.FixtureRequest) -> MadeUp:
    files = [{"file": f"a{index}", "file_index": index} for index in range(11)]
    rows = {
        "events": EVENTS,
        "changes": [
            row("changes", file_index=1, offset=5, source_events=[{"file_index": 1, "offset": 1, "length": 4}]),
            row("changes", file_index=0, offset=7, committed_at=LAST, key={"id": "1"}),
        ],
        "transactions": [
            row("transactions", transaction_id="7@0B", begin_position="0B", changes={"INSERT": 2**60}, tables=[]),
            row("transactions", transaction_id="8@~0A", changes={}),
            row("transactions", transaction_id="6@0C", begin_position="0C", bytes=5, user="root"),
        ],
        "table_versions": [
            row("table_versions", table_version="2@1", first_event={"file_index": 0, "offset": 9, "length": 1}),
            row("table_versions", table_version="1@2", first_event={"file_index": 10, "offset": 0, "length": 1}),
            row("table_versions", table_version="1@1", first_event={"file_index": 2, "offset": 0}, columns=COLUMNS),
            row("table_versions", table_version="3@1", origin="side file"),
        ],
        "problems": [
            row("problems", file="a10", offset=1, code="value", sentence="b"),
            row("problems", file="a2", offset=10, code="value", sentence="b"),
            row("problems", file="a2", offset=9, code="value", sentence="b"),
            row("problems", file="a2", offset=9, code="value", sentence="a"),
            row("problems", code="open_transaction", sentence="of the capture"),
        ],
        "detected": [
            row("detected", scope="table 1", setting="b", value="1", overridden=False),
            row("detected", scope="capture", setting="b", value="1", overridden=True),
            row("detected", scope="capture", setting="a", value="1", overridden=False),
        ],
    }
    return MadeUp(spark if request.param == "Spark" else None, rows, files)


def text(value: Any) -> Any:
    """A value as jsonl is promised to have it."""
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return value.hex() if isinstance(value, bytes) else value


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    assert data == b"" or data.endswith(b"\n")
    return [json.loads(line) for line in data.decode().split("\n")[:-1]]


@pytest.fixture(params=["UTC", "Europe/Berlin"])
def any_zone(request: pytest.FixtureRequest, spark: SparkSession) -> Any:
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield
    spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.oldest
@pytest.mark.usefixtures("any_zone")
def test_jsonl_has_every_column_of_every_row_in_capture_order(capture: MadeUp, tmp_path: Path) -> None:
    export(capture, "events", tmp_path / "x.jsonl")
    wanted = [{name: text(value) for name, value in event.items()} for event in EVENTS]
    assert read_jsonl(tmp_path / "x.jsonl") == wanted


def test_jsonl_columns_stand_in_the_order_of_the_model(capture: MadeUp, tmp_path: Path) -> None:
    for view, schema in model.TABLES.items():
        export(capture, view, tmp_path / "x.jsonl")
        assert [list(line) for line in read_jsonl(tmp_path / "x.jsonl")] == [schema.names] * len(capture.tables[view])


def test_structs_keep_their_null_fields(capture: MadeUp, tmp_path: Path) -> None:
    export(capture, "table_versions", tmp_path / "x.jsonl")
    (line,) = [line for line in read_jsonl(tmp_path / "x.jsonl") if line["columns"]]
    assert list(line["columns"][0]) == [field.name for field in model.COLUMN]
    assert line["columns"][0]["precision"] is None


@pytest.mark.oldest
@pytest.mark.usefixtures("any_zone")
def test_parquet_has_the_values_and_exactly_the_schema_of_the_model(capture: MadeUp, tmp_path: Path) -> None:
    for view, schema in model.TABLES.items():
        export(capture, view, tmp_path / "x.parquet")
        table = pq.read_table(tmp_path / "x.parquet")
        assert table.schema.equals(schema, check_metadata=False)
        assert {f.name: f.metadata[b"comment"] for f in table.schema} == {
            f.name: f.metadata[b"comment"] for f in schema
        }
        if view == "events":
            wanted = pa.Table.from_pylist(EVENTS, schema=schema)
            assert table.to_pylist() == wanted.to_pylist()


@pytest.mark.oldest
@pytest.mark.usefixtures("any_zone")
def test_csv_is_read_back_by_an_rfc_4180_reader(capture: MadeUp, tmp_path: Path) -> None:
    export(capture, "events", tmp_path / "x.csv")
    with (tmp_path / "x.csv").open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file, strict=True)
    assert head == model.EVENTS.names
    for got, event in zip(rows, EVENTS, strict=True):
        for name, cell in zip(head, got, strict=True):
            value = event[name]
            if isinstance(value, dict | list):
                assert json.loads(cell) == value
            elif isinstance(value, bool):
                assert cell == str(value).lower()
            else:
                assert cell == ("" if value is None else str(text(value)))


def test_csv_tells_null_from_empty_text(capture: MadeUp, tmp_path: Path) -> None:
    export(capture, "events", tmp_path / "x.csv")
    lines = (tmp_path / "x.csv").read_bytes().split(b"\r\n")
    (empty,) = [line for line in lines if b"0001-01-01" in line]
    assert empty.startswith(b',a0,0,9,1,,,,,,,,,,0001-01-01T00:00:00.000000Z,,"",,')


CELLS = {
    "=1+1": "'=1+1",
    "+cmd|' /C calc'!A0": "'+cmd|' /C calc'!A0",
    "-2+3": "'-2+3",
    "@SUM(A1)": "'@SUM(A1)",
    "\t=1": "'\t=1",
    "\r=1": "'\r=1",
    "-1\n": "'-1\n",
    "+": "'+",
    "-12.5": "-12.5",
    "+3": "+3",
    "-1e-5": "-1e-5",
    "-.5": "-.5",
    "a=b": "a=b",
    "'=1": "'=1",
}


@pytest.mark.usefixtures("spark")
def test_text_that_a_spreadsheet_would_run_is_neutral_in_csv_unless_it_is_to_be_exact(tmp_path: Path) -> None:
    source = {"db": "shop", "connector": "mysql", "ts_ms": 1}
    events = [{"op": "c", "before": None, "after": {"id": 1}, "source": source | {"table": text}} for text in CELLS]
    path = tmp_path / "messages.json"
    path.write_text("".join(f"{json.dumps(one)}\n" for one in events), encoding="utf-8")
    for target, options in (("x.csv", []), ("exact.csv", ["--exact"]), ("x.jsonl", [])):
        code, said = run(["export", str(path), "--view", "changes", "--to", str(tmp_path / target), *options])
        assert code == 0, said

    def tables(target: str) -> list[str]:
        with (tmp_path / target).open(encoding="utf-8", newline="") as file:
            return [line["table_name"] for line in csv.DictReader(file, strict=True)]

    assert tables("x.csv") == list(CELLS.values())
    assert tables("exact.csv") == list(CELLS)
    assert [line["table_name"] for line in read_jsonl(tmp_path / "x.jsonl")] == list(CELLS)


@pytest.mark.oldest
@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_a_stream_has_the_bytes_of_the_file(capture: MadeUp, tmp_path: Path, kind: str) -> None:
    export(capture, "events", tmp_path / f"x.{kind}")
    out = io.BytesIO()
    write_stream(capture, "events", kind, out)
    assert out.getvalue() == (tmp_path / f"x.{kind}").read_bytes()


@pytest.mark.parametrize(
    ("view", "orders"),
    [
        ("changes", {"file_index": [0, 1]}),
        ("transactions", {"transaction_id": ["8@~0A", "7@0B", "6@0C"]}),
        ("table_versions", {"table_version": ["3@1", "2@1", "1@1", "1@2"]}),
        (
            "problems",
            {
                "file": [None, "a2", "a2", "a2", "a10"],
                "offset": [None, 9, 9, 10, 1],
                "sentence": ["of the capture", "a", "b", "b", "b"],
            },
        ),
        ("detected", {"setting": ["a", "b", "b"], "scope": ["capture", "capture", "table 1"]}),
    ],
)
def test_rows_come_in_the_documented_order(
    capture: MadeUp, tmp_path: Path, view: str, orders: dict[str, list[Any]]
) -> None:
    export(capture, view, tmp_path / "x.jsonl")
    lines = read_jsonl(tmp_path / "x.jsonl")
    assert {column: [line[column] for line in lines] for column in orders} == orders


@pytest.mark.oldest
@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_many_parts_are_joined_in_order(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    many = [event(index % 11, index // 11 * 100, raw=b"x" * 20) for index in range(5_000)]
    files = [{"file": f"a{index}", "file_index": index} for index in range(11)]
    spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
    spark.conf.set("spark.sql.files.maxRecordsPerFile", "300")
    try:
        size = export(MadeUp(spark, {"events": many}, files), "events", tmp_path / f"x.{kind}")
    finally:
        spark.conf.unset("spark.sql.adaptive.coalescePartitions.enabled")
        spark.conf.unset("spark.sql.files.maxRecordsPerFile")
    target = tmp_path / f"x.{kind}"
    assert size == target.stat().st_size
    if kind == "jsonl":
        places = [(line["file_index"], line["offset"]) for line in read_jsonl(target)]
    elif kind == "csv":
        with target.open(newline="") as file:
            places = [(int(line["file_index"]), int(line["offset"])) for line in csv.DictReader(file)]
    else:
        places = [(line["file_index"], line["offset"]) for line in pq.read_table(target).to_pylist()]
    assert places == sorted((line["file_index"], line["offset"]) for line in many)


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_a_view_without_rows_is_a_file_without_rows(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    export(MadeUp(spark, {"problems": []}, []), "problems", tmp_path / f"x.{kind}")
    if kind == "parquet":
        assert pq.read_table(tmp_path / "x.parquet").num_rows == 0
    else:
        head = (",".join(model.PROBLEMS.names) + "\r\n") if kind == "csv" else ""
        assert (tmp_path / f"x.{kind}").read_bytes() == head.encode()


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_a_file_appears_whole_or_not_at_all(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    class Failing(MadeUp):
        def rows(self, view: str, columns: Sequence[str]) -> Rows:
            rows = super().rows(view, columns)
            assert isinstance(rows, SparkRows)
            lost = rows.frame.selectExpr("* except (length)", "cast(raise_error('lost') as bigint) as length")
            return SparkRows(lost.select(*columns), rows.schema)

    target = tmp_path / f"x.{kind}"
    target.write_bytes(b"of yesterday")
    with pytest.raises(Exception, match="lost"):
        export(Failing(spark, {"events": EVENTS}, []), "events", target)
    assert target.read_bytes() == b"of yesterday"
    assert list(tmp_path.iterdir()) == [target]


def test_nothing_is_left_beside_the_file(capture: MadeUp, tmp_path: Path) -> None:
    export(capture, "events", tmp_path / "x.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["x.parquet"]


def test_awkward_folder_names_do(capture: MadeUp, tmp_path: Path) -> None:
    folder = tmp_path / "a b%20 {c,d} [e] *中'"
    folder.mkdir()
    export(capture, "detected", folder / "x y.jsonl")
    export(capture, "detected", folder / "x y.parquet")
    assert sorted(path.name for path in folder.iterdir()) == ["x y.jsonl", "x y.parquet"]
    assert len(read_jsonl(folder / "x y.jsonl")) == 3


def test_a_file_of_the_capture_is_not_written_over(capture: MadeUp, tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_bytes(b"captured")
    capture = MadeUp(capture.spark, capture.tables, [{"file": str(source), "file_index": 0}])
    with pytest.raises(OptionError, match="belongs to the capture"):
        export(capture, "events", source)
    assert source.read_bytes() == b"captured"


def test_an_unknown_view_names_the_nearest(capture: MadeUp, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"no view 'event'\. Did you mean 'events'"):
        export(capture, "event", tmp_path / "x.csv")
