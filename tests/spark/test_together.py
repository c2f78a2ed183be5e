"""Several captures looked at as one: nothing of theirs is lost, and nothing of two is taken for one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

import cdcwb
from cdcwb import model
from cdcwb.analysis.summary import summarize
from cdcwb.analysis.together import Together
from cdcwb.analysis.transactions import overview
from cdcwb.errors import OptionError
from cdcwb.report.opening import check_parameters, open_page
from tests.saved_capture import open_saved

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("spark")

DATA = Path(__file__).parents[2] / "data"
NAMES = ("qlik-kafka", "goldengate")


@pytest.fixture(scope="module")
def captures(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, cdcwb.Capture]:
    folder = tmp_path_factory.mktemp("saved")
    return {name: open_saved(DATA / name, folder / name) for name in NAMES}


@pytest.fixture(scope="module")
def both(captures: dict[str, cdcwb.Capture]) -> Together:
    return Together(captures)


def test_every_row_of_every_table_is_there(captures: dict[str, cdcwb.Capture], both: Together) -> None:
    for name in model.TABLES:
        rows = getattr(both, name)
        assert rows.columns == model.TABLES[name].names
        assert rows.count() == sum(getattr(capture, name).count() for capture in captures.values()), name
    assert [one["file_index"] for one in both.files] == list(range(len(both.files)))


def test_what_two_captures_call_the_same_is_told_apart(captures: dict[str, cdcwb.Capture], both: Together) -> None:
    def names(capture: Any) -> set[str]:
        rows = capture.changes.select(F.concat_ws(".", "schema_name", "table_name")).distinct()
        return {row[0] for row in rows.collect()}

    assert names(captures["qlik-kafka"]) & names(captures["goldengate"])
    assert names(both) == {f"{name}.{table}" for name in NAMES for table in names(captures[name])}
    for table, column in (("transactions", "transaction_id"), ("changes", "position"), ("problems", "table")):
        found = getattr(both, table).where(F.col(column).isNotNull()).select(column).distinct().count()
        apart = [getattr(one, table).where(F.col(column).isNotNull()) for one in captures.values()]
        assert found == sum(one.select(column).distinct().count() for one in apart), (table, column)


def test_places_lead_to_the_files_they_are_in(both: Together) -> None:
    files = {one["file_index"]: one["file"] for one in both.files}
    rows = both.changes.select("file", "file_index", "offset", "source_events").collect()
    for row in rows:
        assert files[row.file_index] == row.file
        assert (row.file_index, row.offset) in {(event.file_index, event.offset) for event in row.source_events}


def test_questions_are_answered_of_all_of_them(captures: dict[str, cdcwb.Capture], both: Together) -> None:
    single = [summarize(capture) for capture in captures.values()]
    facts = summarize(both)  # type: ignore[arg-type]
    for name in ("events", "changes", "transactions", "open_transactions", "problems", "bytes", "table_versions"):
        assert facts[name] == sum(one[name] for one in single), name
    assert facts["format"] == model.SEVERAL
    assert len(facts["tables"]) == sum(len(one["tables"]) for one in single)
    assert overview(both)["transactions"] == facts["transactions"]


def test_none_is_too_few() -> None:
    with pytest.raises(OptionError, match="there is no capture"):
        Together({})


def test_a_page_opens_several_and_narrows_each(tmp_path: Path) -> None:
    first, second = (str(DATA / name) for name in NAMES)
    page = open_page(check_parameters(first, tables=["shop.orders"], others=[second]))
    assert list(page.captures) == list(NAMES)
    assert {row["table"] for row in page.summary["tables"]} == {f"{name}.shop.orders" for name in NAMES}
    assert page.summary["changes"] == page.capture.changes.count() > 0
    assert page.health.what.startswith("Captures of 13 files")
