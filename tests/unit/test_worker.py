"""Spark's workers: what is loaded is out of the garbage collector's way, archives are not read again, and their daemon
forks without threads."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.serializers import read_int

from cdcwb.spark.daemon import INTERPRETER, use_interpreter

SCRIPT = """
import gc
from cdcwb.spark.worker import spare
spare()
first = gc.get_freeze_count()
assert first > 1000, first
spare()
assert gc.get_freeze_count() == first  # nothing was loaded in between
import wave
spare()
assert gc.get_freeze_count() > first
assert len(gc.get_objects()) < first / 4
"""


def test_what_is_loaded_is_set_aside_once_for_every_time_that_modules_came_in() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


ARCHIVES = """
import importlib, sys, zipfile, zipimport
from cdcwb.spark.worker import spare
spare()

def write(*names):
    with zipfile.ZipFile(sys.argv[1], "w") as archive:
        for name in names:
            archive.writestr(f"inside/{name}.py", "")

write("__init__", "first")
sys.path.insert(0, sys.argv[1])
import inside.first
importlib.invalidate_caches()
read, reads = zipimport._read_directory, []
zipimport._read_directory = lambda path: reads.append(path) or read(path)
importlib.invalidate_caches()
assert not reads
write("__init__", "first", "second")
importlib.invalidate_caches()
assert reads
import inside.second
"""


def test_an_archive_on_the_path_is_read_again_only_if_it_has_changed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ARCHIVES, str(tmp_path / "modules.zip")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


DAEMON = """
import sys
import cdcwb.spark.daemon
assert not {"numpy", "pyarrow", "pandas"} & set(sys.modules)
"""


def test_the_daemon_loads_no_library_that_starts_threads() -> None:
    done = subprocess.run([sys.executable, "-c", DAEMON], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", ["pyspark.worker", "pyspark.sql.worker.lookup_data_sources"])
def test_a_worker_whose_socket_is_closed_ends_without_a_traceback(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Spark does after a minute without work: the worker cannot even report that its input has ended."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    use_interpreter()
    assert os.environ["PYSPARK_PYTHON"] == str(INTERPRETER)
    folder = tempfile.TemporaryDirectory(prefix="cdcwb-")  # that of pytest is too long for the name of a socket
    settings = {
        "PYTHON_UNIX_DOMAIN_ENABLED": "true",
        "PYTHON_WORKER_FACTORY_SOCK_DIR": folder.name,
        "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1",
        "SPARK_REUSE_WORKER": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    daemon = subprocess.Popen(
        [INTERPRETER, "-m", "pyspark.daemon", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **settings},
    )
    assert daemon.stdout is not None
    with socket.socket(socket.AF_UNIX) as spark:
        spark.connect(daemon.stdout.read(read_int(daemon.stdout)))
        worker = read_int(spark.makefile("rb"))
    with suppress(ProcessLookupError):
        while True:
            os.kill(worker, 0)
            time.sleep(0.01)
    _, printed = daemon.communicate()
    folder.cleanup()
    assert printed == b""
