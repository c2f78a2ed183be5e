"""The format of docs/dissectors.md, installed as a package of its own and used."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "tests" / "example_format"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which the example is installed."""
    source, target = tmp_path_factory.mktemp("source") / "it", tmp_path_factory.mktemp("installed")
    shutil.copytree(EXAMPLE, source)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "--target", str(target), str(source)], check=True)
    return target


def python(installed: Path, *arguments: str) -> str:
    """What a process prints that has the example installed."""
    paths = os.pathsep.join([str(ROOT), str(installed)])
    made = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": paths},
        check=False,
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    return made.stdout


def cdcwb(installed: Path, *arguments: str) -> str:
    return python(installed, "-m", "cdcwb.cli", *arguments)


PARCELS = """{"event":"registered","at":"2026-03-01T08:00:00Z","seq":1,"tx":"a","parcel":{"id":1,"town":"Elm"}}
{"event":"moved","at":"2026-03-01T08:00:01Z","seq":2,"tx":"a","parcel":{"id":1,"town":"Öak"},"was":{"town":"Elm"}}
{"event":"moved","at":"2026-03-01T08:00:02Z","seq":3,"tx":"b","parcel":{"town":null}}
{"event":"lost","at":"2026-03-01T08:00:03Z","seq":4,"tx":"b","parcel":{"id":1,"town":"Öak"}}
"""


def test_a_format_of_messages_passes_the_checks_of_every_format(installed: Path, tmp_path: Path) -> None:
    topic = tmp_path / "parcels.json"
    topic.write_text(PARCELS, encoding="utf-8")
    found = json.loads(cdcwb(installed, "identify", str(topic), "--json"))
    assert (found["format"], found["files"]) == ("parcel-events", 1)
    facts = json.loads(cdcwb(installed, "summary", str(topic), "--json"))
    assert (facts["format"], facts["changes_by_operation"]) == (
        "parcel-events",
        {"DELETE": 1, "INSERT": 1, "UPDATE": 1},
    )
    assert [(row["code"], row["count"]) for row in facts["problems_by_code"]] == [("malformed", 1)]
    shown = cdcwb(installed, "inspect", str(topic), "--offset", str(PARCELS.encode().index(b'"lost"')))
    assert "event = lost  (what happened to the parcel)" in shown
    assert "town = Öak  (a column)" in shown
    code = (
        "import sys; from cdcwb.testing import check_format as c; print(c('parcel-events', sys.argv[1:], mutations=50))"
    )
    assert "events=4, changes=3, transactions=2" in python(installed, "-c", code, str(topic))


PRICES = """chg_no,chg_what,chg_at,chg_batch,id,price
1,new,2026-03-01T08:00:00Z,a,1,3.50
2,old,2026-03-01T08:00:01Z,a,1,3.50
2,now,2026-03-01T08:00:01Z,a,1,3.60
3,lost,2026-03-01T08:00:02Z,b,1,3.60
4,gone,2026-03-01T08:00:03Z,b,1,3.60
"""


def test_a_format_of_table_rows_passes_too(installed: Path, tmp_path: Path) -> None:
    table = tmp_path / "shop.prices.csv"
    table.write_text(PRICES, encoding="utf-8")
    facts = json.loads(cdcwb(installed, "summary", str(table), "--json"))
    assert (facts["format"], facts["changes_by_operation"]) == ("price-table", {"DELETE": 1, "INSERT": 1, "UPDATE": 1})
    assert [(row["code"], row["count"]) for row in facts["problems_by_code"]] == [("malformed", 1)]
    assert [row["table"] for row in facts["tables"]] == ["shop.prices"]
    shown = cdcwb(installed, "inspect", str(table), "--offset", str(PRICES.index("2,now")))
    assert "chg_what = now  (what happened to the row)" in shown
    assert "price = 3.60  (column 2 of the table)" in shown
    code = (
        "import sys; from cdcwb.testing import check_format as c; print(c('price-table', sys.argv[1:], mutations=50))"
    )
    assert "events=6, changes=3, transactions=2, problems=1" in python(installed, "-c", code, str(table))


def test_the_cookbook_has_the_code_that_is_tested() -> None:
    cookbook = (ROOT / "docs" / "dissectors.md").read_text(encoding="utf-8")
    for file in ("parcel_events.py", "price_table.py", "pyproject.toml"):
        assert (EXAMPLE / file).read_text(encoding="utf-8").rstrip() in cookbook
