"""Is everything here that cdcwb needs, and how to get what is not. Looks only: starts no JVM, takes under a second."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

__all__ = [
    "JAVA_HINT",
    "JAVA_VERSIONS",
    "Check",
    "Java",
    "Program",
    "cores",
    "examine",
    "find_browser",
    "find_java",
    "find_program",
    "java_at",
    "java_missing",
    "memory_bytes",
    "memory_limit",
]


JAVA_VERSIONS = (17, 21)
"""The Java versions that Spark 4 supports."""

JAVA_HINT = (
    "install openjdk-17-jre-headless (Debian, Ubuntu), openjdk@17 (Homebrew) or openjdk=21 (conda), "
    "or point JAVA_HOME at one"
)
"""How to get Java, in one line."""

_JVM_FOLDERS = (
    "usr/lib/jvm/*",
    "usr/java/*",
    "opt/java/*",
    "Library/Java/JavaVirtualMachines/*/Contents/Home",
    "opt/homebrew/opt/openjdk@*/libexec/openjdk.jdk/Contents/Home",
    "usr/local/opt/openjdk@*/libexec/openjdk.jdk/Contents/Home",
)
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime: its home folder, its full version (``17.0.19``) and what led to it (``JAVA_HOME``, ``PATH``)."""

    home: Path
    version: str
    found_by: str

    @property
    def major(self) -> int:
        """The number people call it by: 17 of ``17.0.19``, 8 of ``1.8.0_392``."""
        numbers = [int(number) for number in re.findall(r"\d+", self.version)]
        return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]

    @property
    def usable(self) -> bool:
        """Whether Spark 4 supports it."""
        return self.major in JAVA_VERSIONS


@dataclass(frozen=True, slots=True)
class Program:
    """A program on PATH and the version it prints (``unknown`` where it prints none)."""

    path: Path
    version: str

    @property
    def major(self) -> str:
        """The first number of the version."""
        return self.version.partition(".")[0]


def java_at(home: Path, found_by: str) -> Java | None:
    """The Java runtime whose home folder is ``home``; None where there is none.

    The version is read from the file ``release`` that a JDK carries; only without one is ``java -version`` run.
    """
    program = home / "bin" / "java"
    if not os.access(program, os.X_OK):
        return None
    try:
        release = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        release = ""
    found = re.search(r'^JAVA_VERSION="(\d[^"]*)"', release, re.MULTILINE)
    if found is None:
        found = re.search(r'version "(\d[^"]*)"', _output([str(program), "-version"]))
    return Java(home, found[1], found_by) if found else None


def find_java(environ: Mapping[str, str] = os.environ) -> tuple[Java | None, list[Java]]:
    """The Java that Spark will run on (None: none is usable), and every one seen on the way, for a message.

    Looked at in this order: ``JAVA_HOME``, the Python environment itself (conda puts one there), ``java`` on PATH, the
    usual folders. The first usable one wins, so a ``JAVA_HOME`` that names an unsupported version does no harm.
    """
    seen: list[Java] = []
    for home, found_by in _java_homes(environ):
        java = java_at(home, found_by)
        if java is None or any(java.home.samefile(other.home) for other in seen):
            continue
        seen.append(java)
        if java.usable:
            return java, seen
    return None, seen


def _java_homes(environ: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    if environ.get("JAVA_HOME"):
        yield Path(environ["JAVA_HOME"]), "JAVA_HOME"
    yield Path(sys.prefix, "lib", "jvm"), "the Python environment"
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if on_path:
        yield Path(on_path).resolve().parent.parent, "PATH"
    for pattern in _JVM_FOLDERS:
        for home in sorted(Path("/").glob(pattern), reverse=True):
            yield home, f"/{pattern.partition('*')[0]}"


def find_browser() -> tuple[Program | None, Program | None]:
    """Chromium (or Chrome) and chromedriver, which the browser tests drive; None for what is not on PATH."""
    browsers = (find_program(name) for name in _BROWSERS)
    return next((browser for browser in browsers if browser), None), find_program("chromedriver")


def find_program(name: str) -> Program | None:
    """The program ``name`` (or a path to one) with the version it prints; None where there is none to run."""
    path = shutil.which(name)
    if path is None:
        return None
    found = re.search(r"\d+(\.\d+)+", _output([path, "--version"]))
    return Program(Path(path), found[0] if found else "unknown")


def _output(command: list[str]) -> str:
    """What a command prints, on either stream; empty where it cannot be run or says nothing for a minute."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


def cores() -> int:
    """Processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_bytes() -> int:
    """Bytes of memory this process may use: the machine's, or less where a control group (a container) sets a limit."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = memory_limit()
    return total if limit is None else min(total, limit)


def memory_limit(groups: Path = Path("/proc/self/cgroup"), mounts: Path = Path("/sys/fs/cgroup")) -> int | None:
    """The lowest memory limit, in bytes, of the control groups this process is in; None where none is set.

    ``groups`` lists the process's groups and ``mounts`` is where they are mounted, in version 1 or 2. A group is bound
    by its parents' limits too, and in a container its path may not be there at all, only the root.
    """
    try:
        lines = groups.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    limits: list[int] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, name = mounts, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = mounts / "memory", "memory.limit_in_bytes"
        else:
            continue
        group = root / path.lstrip("/")
        for folder in (group, *group.parents):
            if folder.is_relative_to(root) and (folder / name).is_file():
                text = (folder / name).read_text(encoding="utf-8").strip()
                if text.isdecimal():  # "max" where there is no limit; version 1 writes a number near 2**63
                    limits.append(int(text))
    return min(limits, default=None)


def java_missing(seen: list[Java]) -> str:
    """One line that says that no usable Java is there, which ones were ``seen``, and how to get one."""
    supported = " or ".join(map(str, JAVA_VERSIONS))
    found = ", ".join(f"Java {java.version} in {java.home}" for java in seen) or "none"
    return f"Spark needs Java {supported} and there is {found}: {JAVA_HINT}"


# --- doctor -----------------------------------------------------------------------------------------------------------

_LEAST_MEMORY = 4 << 30  # bytes: 1.6 GiB of heap for the JVM, a few hundred MiB for each of two workers
_LEAST_DISK = 2 << 30  # bytes where Spark spills


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at: whether it will do, what is there, what is needed, and how to get it.

    ``hint`` is empty where all is well. Without an ``optional`` thing captures are read and reports written as well.
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
        Check("cores", True, str(cores()), "1 or more; Spark uses them all"),
        _time_zones(),
        *_browser(),
    ]


def _check(name: str, ok: bool, found: str, needed: str, hint: str, *, optional: bool = False) -> Check:
    return Check(name, ok, found, needed, "" if ok else hint, optional)


def _packages() -> Iterator[Check]:
    """Python and the packages cdcwb needs, against the ranges it was installed with."""
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
            found = metadata.version(wanted.name)
        except metadata.PackageNotFoundError:
            found = "missing"
        ok = found != "missing" and wanted.specifier.contains(found, prereleases=True)
        needed = ",".join(sorted(map(str, wanted.specifier), reverse=True))  # the lower end first
        yield _check(wanted.name, ok, found, needed, f"pip install '{wanted.name}{needed}'")


def _worker_python() -> Check:
    """Spark's workers must run the Python version of the driver; get_spark sets PYSPARK_PYTHON where it is not set."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    given = os.environ.get("PYSPARK_PYTHON")
    if given is None:
        return Check("PYSPARK_PYTHON", True, f"not set: workers run {sys.executable}", f"unset, or Python {own}")
    program = find_program(given)
    same = program is not None and f"{program.version}.".startswith(f"{own}.")
    found = f"{given} ({'not found' if program is None else program.version})"
    return _check("PYSPARK_PYTHON", same, found, f"unset, or Python {own}", "unset PYSPARK_PYTHON")


def _java() -> Check:
    java, seen = find_java()
    needed = " or ".join(map(str, JAVA_VERSIONS))
    if java is not None:
        return Check("Java", True, f"{java.version} in {java.home} (by {java.found_by})", needed)
    found = ", ".join(f"{other.version} in {other.home}" for other in seen) or "none"
    return Check("Java", False, found, needed, JAVA_HINT)


def _spark_home() -> Check:
    """A SPARK_HOME of some other installation replaces the Spark that came with PySpark, of whatever version."""
    given = os.environ.get("SPARK_HOME")
    spec = find_spec("pyspark")
    own = Path(spec.origin).parent if spec is not None and spec.origin else None
    same = given is None or (own is not None and Path(given).resolve() == own.resolve())
    found = given or "not set: the Spark of the package pyspark"
    return _check("SPARK_HOME", same, found, "unset", "unset SPARK_HOME, unless it is a Spark of PySpark's own version")


def _memory() -> Check:
    total = memory_bytes()
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
    place = next(path for path in (Path(folder), *Path(folder).absolute().parents) if path.exists())
    free = shutil.disk_usage(place).free
    hint = "free some, or name another folder in SPARK_LOCAL_DIRS"
    return _check("disk", free >= _LEAST_DISK, f"{_gib(free)} free in {folder}", f"{_gib(_LEAST_DISK)} or more", hint)


def _time_zones() -> Check:
    try:
        ZoneInfo("Asia/Shanghai")
    except ZoneInfoNotFoundError:
        return Check("time zones", False, "no time zone database", "a time zone database", "pip install tzdata")
    return Check("time zones", True, f"here {time.tzname[0]}; cdcwb shows UTC everywhere", "a time zone database")


def _browser() -> Iterator[Check]:
    browser, driver = find_browser()
    same = browser is not None and driver is not None and browser.major == driver.major
    for name, program in (("Chromium", browser), ("chromedriver", driver)):
        needed = "for the browser tests only" + ("" if name == "Chromium" else ", of Chromium's version")
        found = "missing" if program is None else f"{program.version} in {program.path}"
        ok = program is not None and (same or name == "Chromium")
        yield _check(name, ok, found, needed, "install chromium and chromium-driver (Debian)", optional=True)


def _gib(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB"
