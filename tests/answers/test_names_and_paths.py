"""A name that a capture does not have, and a path that does not exist, are errors; they never select everything."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cdcwb
from cdcwb.analysis.export import export
from cdcwb.errors import OptionError
from tests.limits import run

DATA = Path(__file__).resolve().parents[2] / "data"


@pytest.fixture(scope="module")
def capture() -> cdcwb.Capture:
    return cdcwb.load(str(DATA / "gbase8s"))


@pytest.mark.spark
@pytest.mark.parametrize("field", ["tables", "transactions"])
def test_an_empty_filter_is_refused(capture: cdcwb.Capture, field: str) -> None:
    with pytest.raises(OptionError, match=f"{field}: the list is empty"):
        capture.filter(**{field: []})


@pytest.mark.spark
@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"tables": ["shop.ordres"]}, "no table 'shop.ordres'. Did you mean 'shop.orders'"),
        ({"transactions": ["23"]}, "no transaction '23'. Did you mean 23@"),
    ],
)
def test_a_filter_by_an_unknown_name_is_refused(
    capture: cdcwb.Capture, fields: dict[str, list[str]], sentence: str
) -> None:
    with pytest.raises(OptionError, match=sentence):
        capture.filter(**fields)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"tables": ["shop.ordres"]}, "no table 'shop.ordres'. Did you mean 'shop.orders'"),
        ({"columns": ["stat"]}, "no column 'stat'. Did you mean 'state'"),
        ({"users": ["nobody"]}, "no user 'nobody'"),
        ({"transactions": ["23"]}, "no transaction '23'. Did you mean '23@"),
    ],
)
def test_a_selection_of_an_unknown_name_is_refused(
    capture: cdcwb.Capture, fields: dict[str, list[str]], sentence: str
) -> None:
    with pytest.raises(OptionError, match=sentence):
        capture.selection.update(**fields)
    assert not capture.selection.chosen()
    capture.selection.update(tables=["shop.orders"], columns=["state"])
    capture.selection.update(tables=[], columns=[])
    assert not capture.selection.chosen()


@pytest.mark.spark
def test_the_history_of_an_unknown_table_is_refused() -> None:
    code, text = run(["history", str(DATA / "qlik-kafka"), "--table", "shop.custmer", "--key", "customer_id=18"])
    assert code == 2
    assert "Did you mean 'shop.customer'" in text


def test_a_relative_path_is_not_looked_for_beside_the_package(tmp_path: Path) -> None:
    script = "from cdcwb.report import check_parameters; check_parameters('data/gbase8s')"
    environment = {**os.environ, "PYTHONPATH": str(DATA.parent)}
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert f"there is no file or folder '{tmp_path / 'data' / 'gbase8s'}'" in result.stderr


def test_a_path_may_begin_with_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    shutil.copytree(DATA / "debezium", tmp_path / "topics")
    cdcwb.load("~/topics").save("~/saved")
    saved = cdcwb.load("~/saved")
    assert saved.saved_in == tmp_path / "saved"
    export(saved, "problems", "~/problems.csv")
    assert (tmp_path / "problems.csv").exists()
    with pytest.raises(cdcwb.CaptureError, match="there is no such file or folder"):
        cdcwb.load("~nobody-of-this-name/topics")
