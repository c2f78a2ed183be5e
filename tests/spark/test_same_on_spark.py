"""Pages about a capture have the same content whether this process answers or Spark does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import cdcwb
from cdcwb import local_tables
from cdcwb.analysis import frames
from cdcwb.cli import main
from cdcwb.report.answer import Answer
from cdcwb.views.pages import CapturePage, Drift, EventLog, Masks, Transactions
from cdcwb.views.pages.page import Page

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = Path(__file__).parents[2] / "data"
PAGES: tuple[type[Page], ...] = (CapturePage, Transactions, Masks, Drift, EventLog)
FEW = ("gbase8s", "qlik-change-table")
CAPTURES = [
    pytest.param(folder.name, PAGES, marks=[] if folder.name in FEW else [pytest.mark.slow])
    for folder in sorted(DATA.iterdir())
    if folder.is_dir() and "." not in folder.name
]


def content(path: Path, pages: tuple[type[Page], ...]) -> dict[str, Any]:
    """The facts and the tables of all panels of the pages, by page and panel."""
    found: dict[str, Any] = {}
    for kind in pages:
        page = kind.of(cdcwb.load(path))
        for name in page.panels():
            sheet = getattr(page, name)()
            assert isinstance(sheet, Answer)
            tables = [frame.to_dict("records") for frame in sheet.frames]
            found[f"{kind.__name__}.{name}"] = {"facts": sheet.facts, "tables": tables}
    return found


@pytest.mark.parametrize(("name", "pages"), [*CAPTURES, ("idm-event-log", (EventLog,))])
def test_a_page_is_the_same_if_spark_answers(
    name: str, pages: tuple[type[Page], ...], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = content(DATA / name, pages)
    monkeypatch.setattr(local_tables, "AT_MOST", 0)
    monkeypatch.setattr(frames, "MOST_LOCAL", 0)  # not from the tables that Spark stored either
    capture = cdcwb.load(DATA / name)
    assert capture.local_rows("changes", ()) is None
    there = content(DATA / name, pages)
    for panel, expected in here.items():
        assert there[panel] == expected, panel


@pytest.mark.parametrize(
    ("name", "options"), [("idm-event-log", ["-o", "query_limit=50"]), ("gbase8s", ["--infer-keys"])]
)
def test_documents_are_the_same_if_spark_publishes(
    name: str, options: list[str], spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def written(folder: str) -> list[bytes]:
        (tmp_path / folder).mkdir()
        paths = [tmp_path / folder / file for file in ("documents.xml", "decisions.jsonl")]
        to = ["--to", str(paths[0]), "--decisions", str(paths[1])]
        assert main(["xds", str(DATA / name), "--batch-size", "3", *to, *options]) == 0
        return [path.read_bytes() for path in paths]

    here = written("here")
    monkeypatch.setattr(local_tables, "AT_MOST", 0)
    assert written("there") == here
