"""Checks of the installation, for ``cdcwb doctor``. They start no JVM and take under a second."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata

from cdcwb import machine

_LEAST_MEMORY = 4 << 30  # bytes: 1.6 GiB of heap for the JVM, a few hundred MiB for each of two workers


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
    return [*_packages(), _java(), _memory(), *_browser()]


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


def _java() -> Check:
    java, runtimes = machine.find_java()
    needed = " or ".join(map(str, machine.JAVA_VERSIONS))
    if java is not None:
        return Check("Java", True, f"{java.version} in {java.home} (by {java.found_by})", needed)
    installed = ", ".join(f"{other.version} in {other.home}" for other in runtimes) or "none"
    return Check("Java", False, installed, needed, machine.JAVA_HINT)


def _memory() -> Check:
    total, needed = machine.memory_bytes(), f"{_gib(_LEAST_MEMORY)} or more"
    return _check("memory", total >= _LEAST_MEMORY, _gib(total), needed, "small captures only", optional=True)


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
