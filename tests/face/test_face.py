"""What users see is as it was: ``make face`` writes ``tests/face/expected`` anew where a change is meant."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.face.cases import CASES, IN_DATA
from tests.face.face import answers_of, check, expected, face_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ON_SPARK = {"gbase8s-big-endian-gzip", "goldengate-11g"}  # compressed files are not computed in this process
EVERY = [pytest.param(name, marks=[pytest.mark.spark] if name in ON_SPARK else []) for name in CASES]


@pytest.mark.parametrize("name", EVERY)
def test_commands_tables_and_trees(name: str, tmp_path: Path) -> None:
    check(name, face_of(CASES[name], tmp_path))


@pytest.mark.spark
@pytest.mark.parametrize("name", IN_DATA)
def test_live_views_histories_and_documents(name: str, tmp_path: Path, spark: SparkSession) -> None:
    check(f"{name}-answers", answers_of(CASES[name], tmp_path))


@pytest.mark.parametrize("name", IN_DATA)
def test_a_live_view_and_its_report_have_the_same_facts(name: str) -> None:
    """Those that both have; the tests above, and that of all reports, hold that they are those of today."""
    live, reports = expected(f"{name}-answers")["live"], expected(f"{name}-reports")
    pages = {"capture": "01_capture", "transactions": "02_transactions", "masks": "03_change_masks"}
    pages |= {"event_log": "05_event_log_xds"} if name == "idm-event-log" else {}
    for page, stem in pages.items():
        both = live[page].keys() & reports[stem].keys()
        assert len(both) > 1, page
        assert {fact: live[page][fact] for fact in both} == {fact: reports[stem][fact] for fact in both}, page
