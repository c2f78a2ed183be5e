"""cdcwb and what people would use instead, on the captures that ``cdcwb synth`` makes by default:
``python -m benchmarks.alternatives [--changes N] [--rounds N] [CASE …]``, or ``make bench-alternatives``.

Every tool is a short function that prepares its work and returns it; the work decodes the complete capture and returns
the number of rows, which has to be that of cdcwb. Each tool has a process of its own. Schemas and lists of files, which
cdcwb finds in its first pass, are given to the others and not measured.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.captures import CACHE
from benchmarks.end_to_end import report, watched
from benchmarks.live import ENVELOPE, TASK
from benchmarks.measure import processor_seconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["CASES", "Case", "awk", "main", "measure"]

_SEED: Final = 20250323
_AWK: Final = r"""
/^TransInd/ { place = substr($0, 23, 2) }
/^[0-9][0-9][0-9][0-9]\// { time = $1 " " $2; operation = $3; size = $5; rba = $7 }
/^Name:/ { print time, operation, $2, size, rba, place }
"""
"""Six fields of each record of Logdump text."""
Work = Callable[[], int]
"""Decodes a capture; returns the number of rows."""


# --- cdcwb ------------------------------------------------------------------------------------------------------------


def cdcwb_spark(case: Case, capture: Path) -> Work:
    """All changes, or all events, through Spark, the first pass included."""
    import cdcwb
    from cdcwb.spark.session import get_spark

    spark = get_spark("benchmark")

    def work() -> int:
        loaded = cdcwb.load(str(capture), case.format, spark=spark, **_registry(capture))
        if case.table == "changes":
            return _written(loaded.changes)
        return _written(loaded.events.filter("kind <> 'filler' AND NOT record_type <=> 'Metadata'"))

    return work


def cdcwb_local(case: Case, capture: Path) -> Work:
    """All events in this process without Spark, the first pass included."""
    from tests.local import read

    def work() -> int:
        events = read(capture, format=case.format, **_registry(capture))
        if case.table == "events":
            left_out = pc.or_kleene(pc.equal(events["kind"], "filler"), pc.equal(events["record_type"], "Metadata"))
            return len(events) - int(pc.sum(left_out).as_py() or 0)
        return int(pc.sum(pc.is_in(events["kind"], pa.array(["change", "after"]))).as_py())

    return work


# --- Spark's own functions --------------------------------------------------------------------------------------------


def spark_from_json(case: Case, capture: Path) -> Work:
    """from_json with the schema that Spark infers for each topic; the value is the last field of a line."""
    from pyspark.sql import functions as F

    from cdcwb.spark.session import get_spark

    spark = get_spark("benchmark")
    frames = []
    for files in _topics(capture).values():
        values = spark.read.text(files).select(F.element_at(F.split("value", "\t"), -1).alias("value"))
        schema = spark.read.json(values.rdd.map(lambda row: row.value)).schema
        frames.append(values.select(F.from_json("value", schema).alias("m")).select("m.*").filter(case.is_change))
    return lambda: sum(map(_written, frames))


def spark_from_avro(case: Case, capture: Path) -> Work:
    """from_avro, once for each version of a table."""
    import pyspark
    from pyspark.sql import functions as F
    from pyspark.sql.avro.functions import from_avro

    from cdcwb.spark.session import get_spark

    spark = get_spark("benchmark", packages=[f"org.apache.spark:spark-avro_2.13:{pyspark.__version__}"])
    confluent, frames = bool(_registry(capture)), []
    for topic, files in _topics(capture).items():
        rows = spark.read.parquet(*files).select("value")
        if confluent:
            key, value = "cast(conv(hex(substring(value, 2, 4)), 16, 10) as string)", F.expr("substring(value, 6)")
        else:
            rows = rows.select(from_avro(F.expr("substring(value, 6)"), ENVELOPE).alias("m")).filter("m.type = 'DT'")
            key, value = "m.messageSchemaId", F.col("m.message")
        for identifier, schema in _schemas(capture, topic).items():
            frames.append(rows.filter(f"{key} = '{identifier}'").select(from_avro(value, schema).alias("message")))
    return lambda: sum(map(_written, frames))


def _written(frame: DataFrame) -> int:
    """Computes all columns of all rows; returns the number of rows."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    rows = Observation()
    frame.observe(rows, F.count(F.lit(1)).alias("rows")).write.format("noop").mode("overwrite").save()
    return int(rows.get["rows"])


# --- loops in Python --------------------------------------------------------------------------------------------------


def python_json(case: Case, capture: Path) -> Work:
    """json.loads of the last field of each line."""

    def work() -> int:
        count = 0
        for files in _topics(capture).values():
            for file in files:
                with Path(file).open("rb") as lines:
                    messages = (json.loads(line.rpartition(b"\t")[2]) for line in lines)
                    count += sum(map(_is_change, messages))
        return count

    return work


def _is_change(message: Any) -> bool:
    if message is None:  # a tombstone
        return False
    return message.get("type") == "DT" or message.get("payload", {}).get("op") is not None


def fastavro_loop(case: Case, capture: Path) -> Work:
    """fastavro.schemaless_reader on each message."""
    from fastavro import parse_schema, schemaless_reader

    envelope, confluent = parse_schema(json.loads(ENVELOPE)), bool(_registry(capture))
    topics = _topics(capture)
    known = {topic: {key: parse_schema(json.loads(text)) for key, text in _schemas(capture, topic).items()}
             for topic in topics}  # fmt: skip

    def work() -> int:
        count = 0
        for topic, files in topics.items():
            for value in (one.as_py() for file in files for one in pq.read_table(file, columns=["value"])["value"]):
                if confluent:
                    key, message = str(int.from_bytes(value[1:5], "big")), value[5:]
                else:
                    outer: Any = schemaless_reader(io.BytesIO(value[5:]), envelope, None)
                    if outer["type"] != "DT":
                        continue
                    key, message = outer["messageSchemaId"], outer["message"]
                schemaless_reader(io.BytesIO(message), known[topic][key], None)
                count += 1
        return count

    return work


# --- tables of text ---------------------------------------------------------------------------------------------------


def pandas_csv(case: Case, capture: Path) -> Work:
    """pandas.read_csv of each file, types inferred; a before image is a row of its own and does not count."""
    import pandas as pd

    def rows(file: str) -> int:
        frame = pd.read_csv(file)
        return len(frame) - int((frame.get("header__operation", pd.Series()) == "BEFOREIMAGE").sum())

    return lambda: sum(rows(file) for files in _csv_files(capture).values() for file in files)


def duckdb_csv(case: Case, capture: Path) -> Work:
    """DuckDB's read_csv of all files of a folder, types inferred."""
    import duckdb

    connection = duckdb.connect(config={"threads": 2})

    def rows(files: list[str]) -> int:
        found = connection.sql(f"FROM read_csv({files}, union_by_name = true, header = true)").to_arrow_table()
        if "header__operation" not in found.column_names:
            return len(found)
        return len(found) - int(pc.sum(pc.equal(found["header__operation"], "BEFOREIMAGE")).as_py() or 0)

    return lambda: sum(map(rows, _csv_files(capture).values()))


def awk() -> str | None:
    """The awk of this machine: mawk, which is the fastest, before the others."""
    return next(filter(None, map(shutil.which, ("mawk", "gawk", "awk"))), None)


def _run_awk(path: Path, listing: Path) -> None:
    """Writes six fields of each record of a file to ``listing``. Raises SystemExit without awk."""
    program = awk()
    if program is None:
        raise SystemExit("no awk was found")
    with listing.open("wb") as out:
        subprocess.run([program, _AWK, str(path)], stdout=out, check=True, env={**os.environ, "LC_ALL": "C"})


def awk_records(case: Case, capture: Path) -> Work:
    """awk, which prints six fields of each record as a line."""
    (file,) = capture.iterdir()

    def work() -> int:
        listing = capture.parent / "listing"
        _run_awk(file, listing)
        return listing.read_bytes().count(b"\n")

    return work


# --- files and schemas ------------------------------------------------------------------------------------------------


def _topics(capture: Path) -> dict[str, list[str]]:
    """The files of each topic, whose names end in the number of the partition."""
    topics: dict[str, list[str]] = {}
    for file in sorted(capture.iterdir()):
        topics.setdefault(file.stem.rpartition("-")[0], []).append(str(file))
    return topics


def _csv_files(capture: Path) -> dict[str, list[str]]:
    """The CSV files of each folder, the history of DDL left out."""
    folders: dict[str, list[str]] = {}
    for file in sorted(capture.rglob("*.csv")):
        if file.parent.name != "attrep_ddl_history":
            folders.setdefault(file.parent.name, []).append(str(file))
    return folders


def _registry(capture: Path) -> dict[str, str]:
    folder = capture.parent / "registry"
    return {"registry": str(folder)} if folder.is_dir() else {}


def _schemas(capture: Path, topic: str) -> dict[str, str]:
    """The schemas of the data messages of a topic by identifier, from the registry or from the metadata messages."""
    if _registry(capture):
        texts = {file.stem: file.read_text() for file in (capture.parent / "registry").glob("*.avsc")}
        found = {key: text for key, text in texts.items() if '"DataRecord"' in text}
        return {key: TASK.sub("", text) for key, text in found.items() if json.loads(text)["namespace"].endswith(topic)}
    values = [one.as_py() for file in _topics(capture)[topic] for one in pq.read_table(file)["value"]]
    metadata = [value for value in values if value.startswith(b"atMSG\x04MD")]
    begin = b'{"type":"record","name":"DataRecord"'
    return {one[11:43].decode(): TASK.sub("", one[one.index(begin) :].decode()) for one in metadata}


# --- cases ------------------------------------------------------------------------------------------------------------

Tool = tuple[Callable[["Case", Path], Work], str]
"""What prepares the work, and what it does not do."""
_EVENTS: Final = "events only, which are not paired or sorted into a table of changes"
_MESSAGES: Final = "no lists of changed columns, transactions, problems or byte offsets"
_AVRO_LACKS: Final = f"{_MESSAGES}; versions of a table are not merged; schemas are given"
_JSON_LACKS: Final = f"{_MESSAGES}; decimals, dates and bytes stay as they are in JSON"
_TABLES: Final = "an update stays two rows; no lists of changed columns, transactions, problems or byte offsets"
_LOG: Final = "lines only: no operations, keys, transactions, problems or byte offsets"
_AVRO: Final[dict[str, Tool]] = {
    "Spark from_avro": (spark_from_avro, _AVRO_LACKS),
    "fastavro": (fastavro_loop, f"{_AVRO_LACKS}; no columns"),
}
_JSON: Final[dict[str, Tool]] = {
    "Spark from_json": (spark_from_json, f"{_JSON_LACKS}; the schema is given"),
    "json.loads": (python_json, f"{_JSON_LACKS}; no columns"),
}


@dataclass(frozen=True)
class Case:
    """A capture and the tools that read it. ``table``: what cdcwb reads. ``is_change``: the filter in Spark SQL."""

    format: str
    others: dict[str, Tool]
    options: dict[str, str] = field(default_factory=dict)
    table: str = "changes"
    is_change: str = "type = 'DT'"

    @property
    def tools(self) -> dict[str, Tool]:
        local = _EVENTS if self.table == "changes" else ""
        return {"cdcwb": (cdcwb_spark, ""), "cdcwb, no Spark": (cdcwb_local, local), **self.others}


CASES: Final = {
    "Qlik JSON": Case("qlik-kafka", _JSON),
    "Qlik Avro": Case("qlik-kafka", _AVRO, {"form": "avro-envelope", "container": "parquet"}),
    "Confluent Avro": Case("qlik-kafka", _AVRO, {"form": "confluent", "container": "parquet"}),
    "Debezium JSON": Case("debezium", _JSON, is_change="payload.op IS NOT NULL"),
    "change tables": Case(
        "qlik-change-table", {"pandas read_csv": (pandas_csv, _TABLES), "DuckDB read_csv": (duckdb_csv, _TABLES)}
    ),
    "event log": Case(
        "idm-event-log",
        {"pandas read_csv": (pandas_csv, _LOG), "DuckDB read_csv": (duckdb_csv, _LOG)},
        table="events",
    ),
    "Logdump": Case(
        "goldengate",
        {"awk": (awk_records, "six fields as text: no images, tokens, transactions or problems")},
        table="events",
    ),
}


# --- the table --------------------------------------------------------------------------------------------------------


def _capture(case: Case, changes: int) -> Path:
    import cdcwb_synth as synth

    folder = CACHE / "-".join(["alternatives", case.format, *case.options.values(), str(changes)])
    if not (folder / "synth.json").exists():
        synth.generate(case.format, changes=changes, seed=_SEED, to=folder, overwrite=True, **case.options)
    return folder / "capture"


def _run(name: str, tool: str, changes: int, rounds: int) -> None:
    """Prints rows, seconds by the clock and processor seconds of each round; the first round warms up."""
    case = CASES[name]
    work = case.tools[tool][0](case, _capture(case, changes))
    for round_ in range(-1, rounds):
        clock, processor = time.perf_counter(), processor_seconds()
        rows = work()
        taken = [rows, time.perf_counter() - clock, processor_seconds() - processor]
        if round_ >= 0:
            report(taken)


def measure(name: str, changes: int, rounds: int) -> Iterator[str]:
    """The rows of the table in Markdown. Raises SystemExit where a tool reads another number of rows than cdcwb."""
    case = CASES[name]
    _capture(case, changes)
    expected = None
    for tool, (_, lacks) in case.tools.items():
        if "DuckDB" in tool and find_spec("duckdb") is None:
            print("DuckDB is not installed and is left out; run make bench-alternatives", file=sys.stderr)
            continue
        command = [sys.executable, "-m", "benchmarks.alternatives", "--run", json.dumps([name, tool, changes, rounds])]
        results, peaks = watched(command, f"{name}, {tool}")
        rows, clock, processor = (statistics.median(one) for one in zip(*results, strict=True))
        expected = expected or rows
        if rows != expected:
            raise SystemExit(f"{name}: {tool} reads {rows:,} rows, cdcwb {expected:,}")
        memory = sum(peaks.values()) / 2**20
        yield (f"| {name} | {tool} | {rows:,} | {rows / clock:,.0f} | {rows / processor:,.0f} | {processor:.2f} | "
               f"{memory:,.0f} | {lacks} |")  # fmt: skip


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.alternatives", description="cdcwb and alternatives")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--changes", type=int, default=200_000, help="of each capture (default: 200,000)")
    parser.add_argument("--rounds", type=int, default=1, help="measured rounds of each tool (default: 1)")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"default: all of {', '.join(CASES)}")
    options = parser.parse_args()
    if options.run:
        _run(*json.loads(options.run))
        return
    if unknown := set(options.cases) - set(CASES):
        parser.error(f"unknown case {', '.join(sorted(unknown))}; the cases are {', '.join(CASES)}")
    print("| capture | read by | rows | rows/s, clock | rows/s, processor | processor s | MiB | not done |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |")
    for name in options.cases or CASES:
        for row in measure(name, options.changes, options.rounds):
            print(row, flush=True)


if __name__ == "__main__":
    main()
