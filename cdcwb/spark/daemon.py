"""The process that forks Spark's Python workers, in sessions that cdcwb starts: it runs instead of ``pyspark.daemon``.

Spark closes the socket of a worker that it no longer needs: as soon as it has the rows it wants (``limit``, ``head``),
and after a minute without work, those that plan a read and look up data sources among them. The worker notices when it
next writes. Since SPARK-54344 PySpark's own daemon raises that error again, to end the worker, and prints a traceback
although nothing failed. Here such a worker ends without a traceback. Every other failure is reported as before.

``spark.python.daemon.module`` names the daemon of the workers that run tasks only, so a session starts
:data:`INTERPRETER` instead of Python. It imports as little as PySpark's daemon: threads do not survive a fork.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from socket import socket
from typing import Final

INTERPRETER: Final = Path(__file__).with_name("python.sh")
"""A script that runs Python with its arguments, with this module instead of ``pyspark.daemon``."""
_PYTHON: Final = "CDCWB_PYTHON"


def use_interpreter() -> None:
    """Sets the interpreter of the workers of a local JVM that starts later, unless the user has set it."""
    usable = os.name == "posix" and os.access(INTERPRETER, os.X_OK)
    named = os.environ.setdefault("PYSPARK_PYTHON", str(INTERPRETER) if usable else sys.executable)
    if named == str(INTERPRETER):  # perhaps inherited from a process that runs another Python
        os.environ[_PYTHON] = sys.executable


def main() -> None:
    """Runs PySpark's daemon until Spark closes its standard input."""
    from pyspark import daemon

    run_task = daemon.worker

    def worker(sock: socket, authenticated: bool) -> int:
        """Runs one task. Returns an exit code; anything but 0 ends the worker once the socket is closed."""
        try:
            return int(run_task(sock, authenticated))
        except (BrokenPipeError, ConnectionResetError):
            return 1

    daemon.worker = worker
    daemon.manager()


if __name__ == "__main__":
    main()
