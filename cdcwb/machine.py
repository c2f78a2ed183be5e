"""Detection of memory, cores, Java and a browser of this machine; starts no JVM and imports no Spark."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

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
    """A Java runtime: home folder, full version (``17.0.19``), and how it was found (``JAVA_HOME``, ``PATH``)."""

    home: Path
    version: str
    found_by: str

    @property
    def major(self) -> int:
        """The major version: 17 of ``17.0.19``, 8 of ``1.8.0_392``."""
        numbers = [int(number) for number in re.findall(r"\d+", self.version)]
        return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]

    @property
    def usable(self) -> bool:
        """Whether Spark 4 supports it."""
        return self.major in JAVA_VERSIONS


@dataclass(frozen=True, slots=True)
class Program:
    """A program on PATH and the version it prints (``unknown`` if it prints none)."""

    path: Path
    version: str

    @property
    def major(self) -> str:
        """The first number of the version."""
        return self.version.partition(".")[0]


def java_at(home: Path, found_by: str) -> Java | None:
    """The Java runtime whose home folder is ``home``; None if there is none.

    The version is read from the JDK's file ``release``; ``java -version`` is run only without one.
    """
    program = home / "bin" / "java"
    if not os.access(program, os.X_OK):
        return None
    try:
        release = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        release = ""
    version = re.search(r'^JAVA_VERSION="(\d[^"]*)"', release, re.MULTILINE)
    if version is None:
        version = re.search(r'version "(\d[^"]*)"', _output([str(program), "-version"]))
    return Java(home, version[1], found_by) if version else None


def find_java(environ: Mapping[str, str] = os.environ) -> tuple[Java | None, list[Java]]:
    """The Java that Spark will run on (None: none is usable), and all runtimes that were examined, for a message.

    The order is: ``JAVA_HOME``, the Python environment (conda installs Java there), ``java`` on PATH, the standard
    folders. The first usable runtime is taken, so a ``JAVA_HOME`` of an unsupported version does no harm.
    """
    runtimes: list[Java] = []
    for home, found_by in _java_homes(environ):
        java = java_at(home, found_by)
        if java is None or any(java.home.samefile(other.home) for other in runtimes):
            continue
        runtimes.append(java)
        if java.usable:
            return java, runtimes
    return None, runtimes


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
    """Chromium (or Chrome) and chromedriver, for the browser tests; None for a program that is not on PATH."""
    browsers = (find_program(name) for name in _BROWSERS)
    return next((browser for browser in browsers if browser), None), find_program("chromedriver")


def find_program(name: str) -> Program | None:
    """The program ``name`` (or a path to one) with the version it prints; None if it cannot be found."""
    path = shutil.which(name)
    if path is None:
        return None
    version = re.search(r"\d+(\.\d+)+", _output([path, "--version"]))
    return Program(Path(path), version[0] if version else "unknown")


def _output(command: list[str]) -> str:
    """Standard output and error of a command; empty if it cannot be run or takes more than a minute."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


def cores() -> int:
    """The number of processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_bytes() -> int:
    """Bytes of memory that this process may use: the machine's, or the limit of a control group (a container)."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = memory_limit()
    return total if limit is None else min(total, limit)


def memory_limit(groups: Path = Path("/proc/self/cgroup"), mounts: Path = Path("/sys/fs/cgroup")) -> int | None:
    """The lowest memory limit, in bytes, of the control groups of this process; None if none is set.

    ``groups`` lists the process's groups and ``mounts`` is where they are mounted, in version 1 or 2. The limits of
    parent groups apply too. In a container the group's path may be missing, and only the root exists.
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
                if text.isdecimal():  # "max": no limit; version 1 writes a number near 2**63
                    limits.append(int(text))
    return min(limits, default=None)


def java_missing(runtimes: list[Java]) -> str:
    """The message that no usable Java is installed, with the ``runtimes`` that are, and how to install one."""
    supported = " or ".join(map(str, JAVA_VERSIONS))
    installed = ", ".join(f"Java {java.version} in {java.home}" for java in runtimes) or "none"
    return f"Spark needs Java {supported} and there is {installed}: {JAVA_HINT}"
