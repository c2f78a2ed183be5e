"""A Spark cluster on the loopback address, whose executors have cdcwb from the archive of docs/clusters.md alone.

The servers are those of the Spark that comes with PySpark. Their Python is an environment without any package. The
variable CDCWB_ARCHIVE names an archive that was packed before; without it one is packed, which takes two minutes.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import venv
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyspark
import pytest

from cdcwb import machine
from cdcwb.opening import open_small
from tests.made import MAIN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT: Final = Path(__file__).parents[2]
DATA: Final = ROOT / "data"
OF_PACKAGE: Final = ("cdcwb", "cdcwb_synth", "notebooks", "pyproject.toml", "README.md", "LICENSE")
PACKAGES: Final = f"cdcwb/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
HOME: Final = Path(pyspark.__file__).parent
HOST: Final = "127.0.0.1"
SETTINGS: Final = {
    "spark.driver.host": HOST,
    "spark.driver.bindAddress": HOST,
    "spark.executor.memory": "768m",
    "spark.executorEnv.NUMBA_CPU_NAME": "generic",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
}


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands of docs/clusters.md make of this checkout."""
    if "CDCWB_ARCHIVE" in os.environ:
        return Path(os.environ["CDCWB_ARCHIVE"])
    folder = tmp_path_factory.mktemp("pack")
    source, env, target = folder / "source", folder / "env", folder / "cdcwb.tar.gz"
    source.mkdir()
    for name in OF_PACKAGE:  # a copy, because setuptools writes beside the sources
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)
    venv.create(env, with_pip=True, symlinks=True)
    python = str(env / "bin" / "python")
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    install = [*pip, "install"]
    if shutil.which("uv"):
        install = ["uv", "pip", "install", "--quiet", "--compile-bytecode", "--python", python]
    compiled = {"CDCWB_KERNELS": "beside", "NUMBA_CPU_NAME": "generic"}
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | compiled
    for command in (
        [*install, "--constraint", str(ROOT / "constraints.txt"), str(source), "venv-pack"],
        [*pip, "uninstall", "--yes", "pyspark", "py4j"],
        [python, "-m", "cdcwb.cli.kernels"],
        [str(env / "bin" / "venv-pack"), "--quiet", "--prefix", str(env), "--output", str(target)],
    ):
        subprocess.run(command, env=environ, cwd=folder, check=True)
    shutil.rmtree(env)
    return target


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of the cluster: this version, and no package."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True)
    return folder / "bin" / "python3"


@dataclass
class Cluster:
    """A standalone master and its workers: room for two sessions, each with an executor of one core on every worker."""

    folder: Path
    python: Path
    url: str = f"spark://{HOST}"
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, program: str, *arguments: str, ready: str, **environ: str) -> re.Match[str]:
        """Starts a server, and waits until it has logged that it is ready."""
        log = self.folder / f"{name}.log"
        path = os.pathsep.join([str(self.python.parent), "/usr/bin", "/bin"])
        java, _ = machine.find_java()
        assert java is not None
        own = {"PATH": path, "JAVA_HOME": str(java.home), "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": HOST}
        with log.open("wb") as out:
            started = subprocess.Popen(
                [str(HOME / "bin" / program), *arguments], env=own | environ, stdout=out, stderr=out, cwd=self.folder
            )
        self.processes[name] = started
        for _ in range(2400):
            if found := re.search(ready, log.read_text(encoding="utf-8")):
                return found
            assert started.poll() is None, log.read_text(encoding="utf-8")[-2000:]
            time.sleep(0.1)
        raise AssertionError(f"{name} is not ready after four minutes: {log}")

    def start_worker(self, name: str) -> None:
        """A worker with a folder of its own."""
        found = [
            "--host",
            HOST,
            "--cores",
            "2",
            "--memory",
            "2g",
            "--webui-port",
            "0",
            "--work-dir",
            str(self.folder / name),
        ]
        worker = "org.apache.spark.deploy.worker.Worker"
        self.start(name, "spark-class", worker, *found, self.url, ready="Successfully registered with master")

    def stop(self) -> None:
        """Ends what was started, and nothing else."""
        for process in reversed(self.processes.values()):
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture(scope="session")
def cluster(bare: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    one = Cluster(tmp_path_factory.mktemp("cluster"), bare)
    try:
        master = ["org.apache.spark.deploy.master.Master", "--host", HOST, "--port", "0", "--webui-port", "0"]
        one.url += ":" + one.start("master", "spark-class", *master, ready=rf"spark://{HOST}:(\d+)")[1]
        for name in ("worker-1", "worker-2"):
            one.start_worker(name)
        yield one
    finally:
        one.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """The ends of the logs of servers and executors with a test that fails."""
    report = yield
    one = getattr(item, "funcargs", {}).get("cluster")
    if report.failed and one is not None:
        for log in sorted([*one.folder.glob("*.log"), *one.folder.rglob("stderr")]):
            text = log.read_text(encoding="utf-8", errors="replace")
            report.sections.append((str(log.relative_to(one.folder)), text[-2000:]))
    return report


@pytest.fixture(scope="module")
def spark(cluster: Cluster, archive: Path) -> Iterator[SparkSession]:
    """The session that cdcwb starts on the cluster, with the settings of docs/clusters.md."""
    from cdcwb.spark.session import get_spark

    settings = SETTINGS | {"spark.archives": f"{archive}#cdcwb", "spark.executorEnv.PYTHONPATH": PACKAGES}
    confs = [text for key, value in settings.items() for text in ("--conf", f"{key}={value}")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MASTER", cluster.url)
        patch.setenv("PYSPARK_PYTHON", "python3")
        patch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
        patch.setenv("PYSPARK_SUBMIT_ARGS", " ".join([*confs, "pyspark-shell"]))
        session = get_spark("cdcwb-cluster")
        yield session
        session.stop()


@pytest.fixture(scope="session")
def connect(cluster: Cluster, archive: Path) -> str:
    """The address of a Spark Connect server on the cluster."""
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    settings = SETTINGS | {
        "spark.archives": f"{archive}#cdcwb",
        "spark.executorEnv.PYTHONPATH": f"../{PACKAGES}",
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(port),
    }
    confs = [text for key, value in settings.items() for text in ("--conf", f"{key}={value}")]
    server = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", cluster.url]
    python = {"PYSPARK_PYTHON": "python3", "PYTHONPATH": f"../{PACKAGES}", "NUMBA_CPU_NAME": "generic"}
    cluster.start("connect", "spark-submit", *server, *confs, "spark-internal", ready="server started at", **python)
    return f"sc://{HOST}:{port}"


@pytest.fixture(scope="session", params=MAIN)
def format(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def rows(table: pa.Table) -> list[str]:
    """The rows of a table in an order of their own; the entries of maps have none."""
    maps = {field.name for field in table.schema if pa.types.is_map(field.type)}
    return sorted(
        repr({name: sorted(map(repr, value)) if name in maps and value else value for name, value in row.items()})
        for row in table.to_pylist()
    )


def local(path: Path, table: str = "changes") -> list[str]:
    """The rows of a table of a capture, read in this process and without Spark."""
    found = open_small(path)
    assert found is not None
    return rows(found.table(table))
