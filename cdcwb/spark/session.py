"""The Spark session of cdcwb: the running one, or a new local one with settings for this machine.

Settings in ``PYSPARK_SUBMIT_ARGS``, in ``spark-defaults.conf`` or of ``spark-submit`` override those chosen here.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from subprocess import Popen
from traceback import walk_tb
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit
from urllib.request import getproxies

from cdcwb import machine
from cdcwb.errors import CaptureError, MissingDependencyError, SourceDownError
from cdcwb.spark.daemon import use_interpreter

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession


STOPPED: Final = "the Spark session of this capture was stopped: load the capture again"

_RUNTIME: Final = {"spark.sql.session.timeZone": "UTC", "spark.sql.execution.arrow.pyspark.enabled": "true"}
"""Settings that cdcwb needs in any session, new or running."""

_JAVA_OPTIONS: Final = " ".join(
    [
        # Half the time of G1 for the many short jobs of a report, and no slower in long ones (2 cores).
        "-XX:+UseParallelGC",
        f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}",
    ]
)
_BATCHES: Final = {
    "spark.sql.execution.arrow.maxBytesPerBatch": f"{2**31 - 1}b",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
}
"""Rows go to Python in batches of 2,000. Without a limit in bytes (64 MB by default since Spark 4.1) their size is not
measured after every row, which took four fifths of the time to send an event."""

_CHATTER: Final = b"WARNING: Using incubator modules: jdk.incubator.vector"
"""A line that the JVM prints at every start of Spark, and that cannot be switched off."""

_ECHOES: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Python loggers that write every exception of a query to standard error as well, with the JVM's stack."""


def get_spark(app_name: str = "cdcwb", packages: Sequence[str] = ()) -> SparkSession:
    """The running Spark session, classic or Connect; if there is none, a new one named ``app_name``. A new one loads
    ``packages`` (Maven coordinates) unless its configuration names packages.

    A running session keeps its settings, except two that cdcwb needs and that can change at run time: time zone UTC,
    and Arrow. A new one is local unless ``MASTER``, ``SPARK_REMOTE`` or Spark's configuration sets another master; it
    runs its workers with this Python, listens on the loopback address only, has no web page, and logs only errors.

    Raises MissingDependencyError when a JVM has to be started and no usable Java is found, or it does not start, or
    without the packages of Spark Connect; SourceDownError when the server of ``SPARK_REMOTE`` does not answer.
    """
    session = running_session()
    if session is None:
        before_start()
        session = _start(app_name, packages)
        if LOG_LEVEL is not None:
            with suppress(AttributeError):  # a remote session has no context
                session.sparkContext.setLogLevel(LOG_LEVEL)
    return _set_up(session)


LOG_LEVEL: str | None = None
"""The level of a new session's log; None: as it is configured. The command line sets it."""


def before_start() -> None:
    """Called before a session is started. The command line replaces it to show that."""


def _set_up(session: SparkSession) -> SparkSession:
    for key, value in _RUNTIME.items():
        if session.conf.isModifiable(key):
            session.conf.set(key, value)
    return session


def driver_memory(total: int) -> int:
    """MiB of heap for the JVM on a machine with ``total`` bytes: two fifths, at least 1 GiB and at most 8 GiB.

    The rest is for the Python workers, one a core, and for the files' pages. Spark spills to disk beyond it.
    """
    return min(max(total * 2 // 5 >> 20, 1024), 8192)


def running_session() -> SparkSession | None:
    """The session of this thread, classic or Connect; None if there is none. Raises CaptureError if its JVM was
    killed."""
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    context = SparkContext._active_spark_context
    if context is not None and _is_stopped(context):
        context.stop()  # it was stopped in the JVM only, as by a cluster
    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


def running_tasks() -> tuple[int, int | None]:
    """The number of finished tasks of the running Spark stages, and their total (None: unknown)."""
    pyspark = sys.modules.get("pyspark")
    if pyspark is None:
        return 0, None
    context = pyspark.SparkContext._active_spark_context
    if context is None:
        return 0, None
    try:
        tracker = context.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    except Exception:  # the session is being stopped; progress is optional
        return 0, None
    completed = sum(stage.numCompletedTasks for stage in stages if stage is not None)
    total = sum(stage.numTasks for stage in stages if stage is not None)
    return (completed, total) if total else (0, None)


def on_cluster() -> bool:
    """Whether the running session has other machines, or a new one would; starts none."""
    session = running_session() if "pyspark" in sys.modules else None
    if session is not None:
        return not (session.conf.get("spark.master", "") or "").startswith("local")
    environ = os.environ
    if environ.get("SPARK_REMOTE") or "PYSPARK_GATEWAY_PORT" in environ:
        return True
    master = _given_settings().get("spark.master") or environ.get("MASTER") or "local"
    return not master.startswith("local")


def usable(session: SparkSession) -> SparkSession:
    """The session, or if it was stopped, the one that is running instead. Raises CaptureError if none is running."""
    context = getattr(session, "_sc", None)
    stopped = getattr(session, "is_stopped", False)  # of a remote session, which has no context
    if not stopped and (context is None or not _is_stopped(context)):
        return session
    other = running_session()
    if other is None:
        raise CaptureError(STOPPED)
    return _set_up(other)


def _is_stopped(context: SparkContext) -> bool:
    from py4j.protocol import Py4JError

    try:
        return context._jsc is None or bool(context._jsc.sc().isStopped())
    except (Py4JError, OSError):
        raise CaptureError(
            "Spark's Java process has ended, perhaps because memory was short: restart the kernel, or the program"
        ) from None


def _start(app_name: str, packages: Sequence[str]) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    for name in _ECHOES:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_not_of_py4j)
    environ = os.environ
    connect = environ.get("SPARK_REMOTE") or environ.get("SPARK_API_MODE", "").lower() == "connect"
    if connect or "PYSPARK_GATEWAY_PORT" in environ:  # a server or spark-submit decides; the JVM is running already
        environ.setdefault("PYSPARK_PYTHON", sys.executable)
        _reach(environ.get("SPARK_REMOTE", ""))
        try:
            return SparkSession.builder.appName(app_name).getOrCreate()
        except ImportError:
            needed = "Spark Connect needs packages that are not installed: pip install 'cdcwb[connect]'"
            raise MissingDependencyError(needed) from None

    configured = _given_settings()
    configured.setdefault("spark.app.name", app_name)
    configured.setdefault("spark.master", environ.get("MASTER") or "local[*]")
    if configured["spark.master"].startswith("local"):
        use_interpreter()
    else:
        environ.setdefault("PYSPARK_PYTHON", sys.executable)
    own = _own_settings(configured["spark.master"])
    if packages and {"--packages", "--jars"}.isdisjoint(shlex.split(environ.get("PYSPARK_SUBMIT_ARGS", ""))):
        own["spark.jars.packages"] = ",".join(packages)
    conf = SparkConf(loadDefaults=False).setAll(list({**own, **configured}.items()))
    # a stopped session leaves its JVM running
    gateway = None if SparkContext._gateway else _start_jvm(conf, resolves="spark.jars.packages" in own)
    SparkContext(conf=conf, gateway=gateway)
    return SparkSession.builder.getOrCreate()


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """False for the stack traces that Py4J logs when a call is interrupted; it raises the exceptions too."""
    return "py4j" not in Path(record.pathname).parts


def _reach(remote: str) -> None:
    """Raises SourceDownError if nothing answers at the address of a Spark Connect server (``sc://host:15002``); Spark's
    own client would retry for ten minutes."""
    address = urlsplit(remote)
    if address.scheme != "sc" or getproxies():
        return
    try:
        socket.create_connection((address.hostname, address.port or 15002), timeout=10).close()
    except OSError as reason:
        server = remote.partition("/;")[0]  # the rest may contain a token
        raise SourceDownError(f"the Spark Connect server does not answer: {reason}", path=server) from None


def _own_settings(master: str) -> dict[str, str]:
    """The default settings of a session on ``master``."""
    settings = {"spark.ui.showConsoleProgress": "false", "spark.driver.extraJavaOptions": _JAVA_OPTIONS, **_BATCHES}
    if master.startswith("local"):
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": str(max(16, 8 * machine.cores())),
        }
        if sys.platform == "linux":  # rows from Python are a quarter faster than through loopback; since Spark 4.1
            settings["spark.python.unix.domain.socket.enabled"] = "true"
        if "SPARK_DRIVER_MEMORY" not in os.environ:
            settings["spark.driver.memory"] = f"{driver_memory(machine.memory_bytes())}m"
    return settings


def _given_settings(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The settings that a new JVM gets from ``spark-defaults.conf`` and ``PYSPARK_SUBMIT_ARGS``."""
    settings: dict[str, str] = {}
    home = environ.get("SPARK_HOME")
    folder = environ.get("SPARK_CONF_DIR") or (home and f"{home}/conf")
    defaults = Path(folder, "spark-defaults.conf") if folder else None
    if defaults and defaults.is_file():
        for line in defaults.read_text(encoding="utf-8").splitlines():
            if line.strip() and not line.lstrip().startswith("#"):
                key, *rest = re.split(r"\s*[=:\s]\s*", line.strip(), maxsplit=1)
                settings[key] = "".join(rest)
    arguments = shlex.split(environ.get("PYSPARK_SUBMIT_ARGS", ""))
    flags = {"--master": "spark.master", "--driver-memory": "spark.driver.memory", "--name": "spark.app.name"}
    flags |= {"--driver-java-options": "spark.driver.extraJavaOptions"}
    for flag, value in pairwise(arguments):
        if flag in ("--conf", "-c"):
            key, _, text = value.partition("=")
            settings[key] = text
        elif flag in flags:
            settings[flags[flag]] = value
    return settings


def _start_jvm(conf: SparkConf, resolves: bool = False) -> JavaGateway:
    """Starts the driver's JVM on a Java that Spark supports, without its start messages on standard error.
    ``resolves``: it resolves packages first, and shows each step."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    java, seen = machine.find_java()
    if java is None:
        raise MissingDependencyError(machine.java_missing(seen))
    os.environ["JAVA_HOME"] = str(java.home)
    reading, writing = os.pipe()
    held: list[bytes] = []
    started = threading.Event()
    listener = threading.Thread(target=_listen, args=(reading, held, started), name="cdcwb-jvm", daemon=True)
    listener.start()
    try:
        gateway: JavaGateway = launch_gateway(conf, {"stdout": writing, "stderr": writing})
    except PySparkRuntimeError as error:
        failure = str(error)
    except BaseException as ended:  # it would wait forever: the folder that it reports its port in is removed
        for frame, _ in walk_tb(ended.__traceback__):
            if isinstance(process := frame.f_locals.get("proc"), Popen):
                process.kill()
        raise
    else:
        if resolves:
            held.clear()
        started.set()
        return gateway
    finally:
        os.close(writing)
    listener.join(timeout=5)
    lines = [line.decode(errors="replace").strip() for line in held]
    unresolved = [line for line in lines if "unresolved dependency" in line] if resolves else []
    reason = " ".join(unresolved[:3] or lines[:3]) or failure
    raise MissingDependencyError(f"Java {java.version} did not start: {reason}", path=str(java.home))


def _listen(reading: int, held: list[bytes], started: threading.Event) -> None:
    """Reads lines from the descriptor ``reading`` until its other ends are closed, and drops the start messages.

    The rest is held back until the JVM has ``started``, and then written to standard error. Uses raw
    descriptors: a buffered file would be locked by this thread while the interpreter shuts down.
    """
    rest = b""
    while piece := os.read(reading, 1 << 16):
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line.strip() and line.rstrip() != _CHATTER:
                held.append(line)
        if held and started.is_set():
            with suppress(OSError):  # standard error may be closed; the pipe still has to be read
                os.write(2, b"\n".join([*held, b""]))
            held.clear()
    os.close(reading)
