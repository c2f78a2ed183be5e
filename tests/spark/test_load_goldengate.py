"""GoldenGate captures as Spark tables: row for row what the generator says is true, in every style and export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import cdcwb
import cdcwb_synth as synth
from tests.spark.tables import assert_truth

pytestmark = pytest.mark.usefixtures("spark")

UNKNOWN = ("schema_text", "lineage")
"""Of a table version: records say more than the truth knows."""

# What an analyst holds, in words; then the generator's options, the reader's, and what it must find wrong.
CAPTURES: dict[str, tuple[dict[str, Any], dict[str, Any], set[str]]] = {
    "everything that 21c prints, over three trail files, in pieces": (
        {"changes": 1000, "trail_files": 3, "restarts": 2, "prompts": 0.2, "zone": "Asia/Seoul"},
        {"split_size": 300_000},
        {"note"},
    ),
    "a file for each trail file, printed in a zone with summer time, compressed": (
        {
            "trail_files": 3,
            "capture_files": "trail",
            "zone": "Europe/Berlin",
            "compression": "gzip",
            "byte_order": "big",
        },
        {},
        set(),
    ),
    "12c: halves of updates, full deletes, segments of long bodies": (
        {"style": "12c", "updates": "pairs", "deletes": "full", "long_varchars": 120, "pane": ":"},
        {"split_size": 100_000},
        set(),
    ),
    "unified updates with a prefix of two bytes": ({"updates": "unified", "unified_prefix": 2}, {}, set()),
    "11g: names in every record and no definitions": (
        {"style": "11g", "lobs": False, "all_types": False, "switches": "ghdr,detail,data,ggstoken,tokendetail"},
        {"time_zone": "UTC"},
        set(),
    ),
    "as mails leave it: white space collapsed, lines end in CR LF": (
        {"collapsed": True, "line_end": "crlf", "changes": 300},
        {},
        set(),
    ),
    "tokens on last records only, Extract broke off": (
        {"tokens": "last", "abends": 3, "trail_files": 2},
        {},
        set(),
    ),
    "changes that were taken back": ({"undo": 0.1}, {}, set()),
    "JSON, operation modelled": ({"form": "json"}, {"time_zone": "UTC"}, set()),
    "JSON, row modelled, wrapped by Kafka Connect, documents": (
        {"form": "json", "json_form": "row", "connect": True, "container": "documents"},
        {"time_zone": "UTC"},
        set(),
    ),
    "JSON logged as Python's bytes literals, with what is missing said": (
        {"form": "json", "is_missing": True, "before": "empty", "container": "bytes_literal"},
        {"time_zone": "UTC"},
        set(),
    ),
    "FORMATXML": ({"form": "formatxml", "updates": "pairs"}, {"time_zone": "UTC"}, set()),
}


def _generate(to: Path, options: dict[str, Any]) -> None:
    options = {"changes": 400, "all_types_share": 0.05, "truncates": 1, **options}
    synth.generate("goldengate", seed=17, to=to, **options)


@pytest.mark.parametrize("capture", CAPTURES)
def test_a_capture_equals_the_truth(tmp_path: Path, capture: str) -> None:
    made, read, wrong = CAPTURES[capture]
    _generate(tmp_path, made)
    changes, problems = assert_truth(tmp_path, unknown=UNKNOWN, **read)
    assert changes > 0
    assert problems == wrong


def test_the_json_of_a_trail_stands_at_the_positions_of_its_records(tmp_path: Path) -> None:
    for form in ("logdump", "json"):
        _generate(tmp_path / form, {"form": form, "changes": 200, "lobs": False})
    rows = "operation in ('INSERT', 'UPDATE', 'DELETE')"
    records = cdcwb.load(tmp_path / "logdump" / "capture").changes.filter(rows).alias("r")
    messages = cdcwb.load(tmp_path / "json" / "capture").changes.filter(rows).alias("m")
    joined = records.join(messages, F.col("r.position") == F.col("m.position"), "full")
    assert joined.count() > 100
    same = "r.operation <=> m.operation and r.table_name <=> m.table_name and r.file <> m.file"
    assert joined.filter(f"not ({same})").count() == 0


def test_exports_are_opened_under_the_name_of_the_trail_too(tmp_path: Path, spark: SparkSession) -> None:
    _generate(tmp_path, {"form": "json", "changes": 60, "trail_files": 2, "capture_files": "trail"})
    first, *others = sorted((tmp_path / "capture").iterdir())
    cdcwb.register(spark)
    source = spark.read.format("cdcwb-goldengate").option("time_zone", "UTC").load(str(tmp_path / "capture"))
    assert {row.format for row in source.select("format").distinct().collect()} == {"goldengate-export"}
    saved = cdcwb.load(first, "goldengate", time_zone="UTC").save(tmp_path / "saved")
    continued = cdcwb.load([saved, *others], "goldengate", time_zone="UTC")
    assert (continued.format, continued.events.count()) == ("goldengate-export", source.count())
    messages = spark.read.text(str(first)).select("value")
    assert cdcwb.load(messages, "goldengate").format == "goldengate-export"


@pytest.mark.full
@pytest.mark.parametrize("style", ["21c", "12c", "11g"])
def test_half_a_million_records_of_three_trail_files_equal_the_truth(tmp_path: Path, style: str) -> None:
    options: dict[str, Any] = {
        "changes": 400_000, "style": style, "trail_files": 3, "restarts": 5, "schema_changes": 6,
        "transaction_size": 12.0, "all_types_share": 0.01, "zone": "America/New_York",
    }  # fmt: skip
    if style == "11g":
        options |= {"lobs": False, "all_types": False}
    _generate(tmp_path, options)
    changes, _ = assert_truth(tmp_path, unknown=UNKNOWN, time_zone="America/New_York")
    assert changes > 300_000
