"""A worker of Spark whose socket is closed ends without a traceback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress

import pytest
from pyspark.serializers import read_int

from cdcwb.spark.daemon import INTERPRETER, use_interpreter


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
