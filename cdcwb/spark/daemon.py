"""The process that forks Spark's Python workers, in sessions that cdcwb starts (``spark.python.daemon.module``).

Spark closes the socket of a worker as soon as it has the rows it wants (``limit``, ``head``, a first look at a table).
The worker notices when it writes the next ones. Since SPARK-54344 PySpark's own daemon raises that error again, to end
the worker, and prints a traceback although the query succeeded. Here such a worker ends without a traceback. Every
other failure is reported as before.

It runs as ``python -m cdcwb.spark.daemon pyspark.worker`` and imports as little as PySpark's: threads do not survive a
fork.
"""

from __future__ import annotations

from socket import socket

from pyspark import daemon

__all__ = ["main"]

_run_tasks = daemon.worker


def main() -> None:
    """Runs PySpark's daemon until Spark closes its standard input."""
    daemon.worker = _run_until_closed
    daemon.manager()


def _run_until_closed(sock: socket, authenticated: bool) -> int:
    """Runs one task in a worker. Returns its exit code; anything but 0 ends the worker once the socket is closed."""
    try:
        return int(_run_tasks(sock, authenticated))
    except (BrokenPipeError, ConnectionResetError):
        return 1


if __name__ == "__main__":
    main()
