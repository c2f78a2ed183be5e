"""What docs/clusters.md promises where no cluster is needed to show it; tests/cluster has the rest."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdcwb.capture import Capture
from cdcwb.errors import CaptureError, MissingDependencyError, SourceDownError
from cdcwb.spark.session import get_spark

GUIDE = Path(__file__).parents[2] / "docs" / "clusters.md"


def test_the_guide_has_the_commands_and_settings_that_the_tests_of_clusters_use() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    tests = (Path(__file__).parents[1] / "cluster" / "conftest.py").read_text(encoding="utf-8")
    packages = "cdcwb/lib/python3.11/site-packages"
    settings = {
        "archives": "cdcwb.tar.gz#cdcwb",
        "executorEnv.PYTHONPATH": packages,
        "executorEnv.NUMBA_CPU_NAME": "generic",
    }
    for setting, value in settings.items():
        assert f"spark.{setting}={value}" in text
        assert f'"spark.{setting}"' in tests
    assert f"spark.executorEnv.PYTHONPATH=../{packages}" in text
    for words in (
        ["venv-pack", "--prefix", "--output"],
        ["uninstall", "--yes", "pyspark", "py4j"],
        ["cdcwb.cli.kernels"],
    ):
        assert all(word in text and f'"{word}"' in tests for word in words)
    assert "CDCWB_KERNELS=beside NUMBA_CPU_NAME=generic" in text
    assert '"CDCWB_KERNELS": "beside", "NUMBA_CPU_NAME": "generic"' in tests


def test_a_server_that_does_not_answer_is_one_sentence_without_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:1/;token=secret")
    monkeypatch.setattr("cdcwb.spark.session.getproxies", dict)
    with pytest.raises(
        SourceDownError, match=r"^sc://127\.0\.0\.1:1: the Spark Connect server does not answer: "
    ) as down:
        get_spark()
    assert "secret" not in str(down.value)


def test_missing_packages_of_spark_connect_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:1")
    monkeypatch.setattr("cdcwb.spark.session._reach", lambda remote: None)
    for name in [name for name in sys.modules if name.startswith("pyspark.sql.connect")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "grpc", None)
    # pyspark ends the process where it takes it for one of its own doctests, as it takes a worker of the tests
    monkeypatch.setattr(sys.modules["__main__"], "__file__", __file__, raising=False)
    with pytest.raises(MissingDependencyError, match=r"pip install 'cdcwb\[connect\]'"):
        get_spark()


def test_tables_that_workers_wrote_elsewhere_are_no_saved_capture(tmp_path: Path) -> None:
    elsewhere = SimpleNamespace(write=SimpleNamespace(parquet=lambda _path: None))
    capture = Capture(cast("Any", SimpleNamespace(small=None, frame=lambda _name: elsewhere)))
    with pytest.raises(
        CaptureError, match="workers do not write to this machine; name a folder that all machines share"
    ):
        capture.save(tmp_path / "saved")
    assert list(tmp_path.iterdir()) == []
