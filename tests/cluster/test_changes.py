"""What a cluster gives whose executors have nothing of cdcwb but the archive of docs/clusters.md."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tarfile
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import cdcwb
import cdcwb_synth as synth
from tests.cluster.conftest import DATA, PACKAGES, Cluster, local, rows
from tests.made import MAIN

COMPILED = textwrap.dedent("""
    import gc, sys
    from cdcwb.opening import open_small
    from cdcwb.formats.kernels import CompiledKernel

    for path in sys.argv[1:]:
        open_small(path).table("changes")
    used = [one for one in gc.get_objects() if isinstance(one, CompiledKernel) and "compiled" in vars(one)]
    print(sum(sum(one.compiled.stats.cache_hits.values()) for one in used))
    print([one.__name__ for one in used if one.compiled.stats.cache_misses])
""")


def test_the_python_of_the_cluster_has_no_cdcwb(bare: Path) -> None:
    code = "from importlib.util import find_spec; print(*map(find_spec, ('cdcwb', 'numpy', 'numba', 'pyspark')))"
    assert subprocess.check_output([bare, "-c", code], cwd="/", env={}, text=True).split() == ["None"] * 4


@pytest.fixture(scope="module")
def unpacked(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The archive in a folder that only its owner could change."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="tar")  # its Python is a link to an absolute path
    folders = [folder for folder, _, _ in os.walk(folder)]
    for one in folders:
        Path(one).chmod(0o555)
    yield folder / Path(PACKAGES).relative_to("cdcwb")
    for one in folders:
        Path(one).chmod(0o755)


def test_the_archive_compiles_nothing_where_nothing_can_be_written(unpacked: Path, bare: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o555)
    before = sorted(path for path in unpacked.rglob("*.nb*"))
    captures = [str(DATA / name) for name in MAIN]
    environ = {
        "PYTHONPATH": str(unpacked),
        "NUMBA_CPU_NAME": "generic",
        "HOME": str(home),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    said = subprocess.check_output([bare, "-c", COMPILED, *captures], env=environ, cwd="/", text=True)
    hits, compiled = said.splitlines()
    assert (int(hits) > 10, compiled) == (True, "[]")
    assert sorted(path for path in unpacked.rglob("*.nb*")) == before
    assert list(home.iterdir()) == []


def test_changes_of_every_format_are_those_read_here(format: str, spark: SparkSession) -> None:
    assert rows(cdcwb.load(DATA / format, spark=spark).changes.toArrow()) == local(DATA / format)


def test_a_worker_that_is_killed_in_the_middle_changes_nothing(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    path = synth.generate("gbase8s", changes=20_000, seed=5, to=tmp_path) / "capture"
    expected = local(path)
    capture = cdcwb.load(path, spark=spark, split_size=100_000)
    tracker = spark.sparkContext.statusTracker()
    killed: list[int] = []

    def kill() -> None:
        """Kills a worker and its executor, once some tasks of a job are done and others are not."""
        while not killed:
            for stage in map(tracker.getStageInfo, tracker.getActiveStageIds()):
                if stage is not None and 1 < stage.numCompletedTasks < stage.numTasks - 3:
                    executor = executor_of(cluster.processes["worker-1"].pid)
                    os.kill(cluster.processes["worker-1"].pid, signal.SIGKILL)
                    os.kill(executor, signal.SIGKILL)
                    killed.append(executor)
                    return
            time.sleep(0.01)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    found = rows(capture.changes.toArrow())
    assert len(killed) == 1, "the worker has to be killed while tasks are running"
    cluster.processes["worker-1"].wait()
    cluster.start_worker("worker-3")
    assert found == expected


def executor_of(worker: int) -> int:
    """The process of the executor that a worker has started."""
    children = [path.read_text() for path in Path(f"/proc/{worker}/task").glob("*/children")]
    (executor, *_) = " ".join(children).split()
    return int(executor)


CLIENT = textwrap.dedent("""
    import sys
    from pathlib import Path

    import pyarrow.parquet as pq
    import pyspark

    import cdcwb

    target, *captures = map(Path, sys.argv[1:])
    for path in captures:
        capture = cdcwb.load(path)
        for name in ("changes", "problems"):
            pq.write_table(getattr(capture, name).toArrow(), target / f"{path.name}.{name}")
    print(type(capture.spark).__module__, pyspark.SparkContext._gateway)
""")


def test_spark_connect_gives_the_same_to_a_client_without_java(connect: str, tmp_path: Path) -> None:
    of_drivers = ("JAVA_HOME", "MASTER", "PYSPARK_PYTHON", "PYSPARK_SUBMIT_ARGS")
    environ = {name: value for name, value in os.environ.items() if name not in of_drivers}
    environ |= {"SPARK_REMOTE": connect, "PATH": str(tmp_path)}
    captures = [str(DATA / name) for name in MAIN]
    client = [sys.executable, "-c", CLIENT, str(tmp_path), *captures]
    done = subprocess.run(client, env=environ, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("pyspark.sql.connect.session None\n", 0), done.stderr
    for name in MAIN:
        for table in ("changes", "problems"):
            assert rows(pq.read_table(tmp_path / f"{name}.{table}")) == local(DATA / name, table), (name, table)
