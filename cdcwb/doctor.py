"""Checks of the installation, for ``cdcwb doctor``. They start no JVM and take under a second."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cdcwb import machine

__all__ = ["Check", "examine"]

_LEAST_MEMORY = 4 << 30  # bytes: 1.6 GiB of heap for the JVM, a few hundred MiB for each of two workers
_LEAST_DISK = 2 << 30  # bytes where Spark spills


@dataclass(frozen=True, slots=True)
class Check:
    """One check: whether it passed, what was found, what is needed, and how to install it.

    ``hint`` is empty if the check passed. ``optional``: captures are read and reports written without it too.
    """

    name: str
    ok: bool
    found: str
    needed: str
    hint: str = ""
    optional: bool = False


def examine() -> list[Check]:
    """Every check, in the order to read them."""
    return [
        *_packages(),
        _worker_python(),
        _java(),
        _spark_home(),
        _memory(),
        _disk(),
        Check("cores", True, str(machine.cores()), "1 or more; Spark uses them all"),
        _time_zones(),
        *_browser(),
    ]


def _check(name: str, ok: bool, actual: str, needed: str, hint: str, *, optional: bool = False) -> Check:
    return Check(name, ok, actual, needed, "" if ok else hint, optional)


def _packages() -> Iterator[Check]:
    """Checks Python and the required packages against the version ranges in cdcwb's metadata."""
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

    try:
        about = metadata.metadata("cdcwb")
    except metadata.PackageNotFoundError:
        yield Check("cdcwb", False, "not installed", "installed", "make env, or pip install -e .")
        return
    python, version = SpecifierSet(about["Requires-Python"] or ""), platform.python_version()
    yield _check("Python", python.contains(version, prereleases=True), version, str(python), "install a newer Python")
    yield Check("cdcwb", True, about["Version"], "installed")
    for text in metadata.requires("cdcwb") or []:
        wanted = Requirement(text)
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        try:
            installed = metadata.version(wanted.name)
        except metadata.PackageNotFoundError:
            installed = "missing"
        ok = installed != "missing" and wanted.specifier.contains(installed, prereleases=True)
        needed = ",".join(sorted(map(str, wanted.specifier), reverse=True))  # the lower end first
        yield _check(wanted.name, ok, installed, needed, f"pip install '{wanted.name}{needed}'")


def _worker_python() -> Check:
    """Checks that Spark's workers run the Python version of the driver; get_spark sets PYSPARK_PYTHON if unset."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    python = os.environ.get("PYSPARK_PYTHON")
    if python is None:
        return Check("PYSPARK_PYTHON", True, f"not set: workers run {sys.executable}", f"unset, or Python {own}")
    program = machine.find_program(python)
    same = program is not None and f"{program.version}.".startswith(f"{own}.")
    actual = f"{python} ({'not found' if program is None else program.version})"
    return _check("PYSPARK_PYTHON", same, actual, f"unset, or Python {own}", "unset PYSPARK_PYTHON")


def _java() -> Check:
    java, runtimes = machine.find_java()
    needed = " or ".join(map(str, machine.JAVA_VERSIONS))
    if java is not None:
        return Check("Java", True, f"{java.version} in {java.home} (by {java.found_by})", needed)
    installed = ", ".join(f"{other.version} in {other.home}" for other in runtimes) or "none"
    return Check("Java", False, installed, needed, machine.JAVA_HINT)


def _spark_home() -> Check:
    """Checks that SPARK_HOME does not replace PySpark's own Spark by that of another installation."""
    home = os.environ.get("SPARK_HOME")
    spec = find_spec("pyspark")
    own = Path(spec.origin).parent if spec is not None and spec.origin else None
    same = home is None or (own is not None and Path(home).resolve() == own.resolve())
    actual = home or "not set: the Spark of the package pyspark"
    return _check(
        "SPARK_HOME", same, actual, "unset", "unset SPARK_HOME, unless it is a Spark of PySpark's own version"
    )


def _memory() -> Check:
    total = machine.memory_bytes()
    return _check(
        "memory",
        total >= _LEAST_MEMORY,
        _gib(total),
        f"{_gib(_LEAST_MEMORY)} or more",
        "small captures only",
        optional=True,
    )


def _disk() -> Check:
    folder = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir()
    existing = next(path for path in (Path(folder), *Path(folder).absolute().parents) if path.exists())
    free = shutil.disk_usage(existing).free
    hint = "free some, or name another folder in SPARK_LOCAL_DIRS"
    return _check("disk", free >= _LEAST_DISK, f"{_gib(free)} free in {folder}", f"{_gib(_LEAST_DISK)} or more", hint)


def _time_zones() -> Check:
    try:
        ZoneInfo("Asia/Shanghai")
    except ZoneInfoNotFoundError:
        return Check("time zones", False, "no time zone database", "a time zone database", "pip install tzdata")
    return Check("time zones", True, f"here {time.tzname[0]}; cdcwb shows UTC everywhere", "a time zone database")


def _browser() -> Iterator[Check]:
    browser, driver = machine.find_browser()
    same = browser is not None and driver is not None and browser.major == driver.major
    for name, program in (("Chromium", browser), ("chromedriver", driver)):
        needed = "for the browser tests only" + ("" if name == "Chromium" else ", of Chromium's version")
        actual = "missing" if program is None else f"{program.version} in {program.path}"
        ok = program is not None and (same or name == "Chromium")
        yield _check(name, ok, actual, needed, "install chromium and chromium-driver (Debian)", optional=True)


def _gib(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB"
