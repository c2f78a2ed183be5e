"""What is declared about dependencies agrees with itself and with what the code imports."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PACKAGES = ("cdcwb", "cdcwb_synth")
OURS = {"cdcwb", "cdcwb-synth", "tests", "benchmarks", "scripts"}
COMPARED = {"duckdb", "polars"}
"""What only the comparisons of the benchmarks use; ``make bench-alternatives`` installs it beside the environments."""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
NOT_PYTHON = {"python", "openjdk", "pip"}
IMPORTED_AS = {"xdist": "pytest-xdist", "yaml": "pyyaml"}
ON_CONDA = {"python-confluent-kafka": "confluent-kafka"}


def requirements(texts: list[str]) -> dict[str, Requirement]:
    """By normalised name; what names cdcwb itself is a group of extras."""
    parsed = [Requirement(text) for text in texts]
    return {canonicalize_name(one.name): one for one in parsed if one.name != "cdcwb"}


RUNTIME = requirements(PROJECT["dependencies"])
EVERYTHING = RUNTIME | requirements([text for extra in EXTRAS.values() for text in extra])


def pins(file: str) -> dict[str, Version]:
    """The versions that a constraints file pins, by normalised name."""
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    found = [re.fullmatch(r"([\w.-]+)==([\w.]+)", line) for line in lines if line and not line.startswith("#")]
    assert all(found), "each line pins one version"
    return {canonicalize_name(match[1]): Version(match[2]) for match in found if match}


def test_conda_and_pip_get_the_same_names_and_ranges() -> None:
    listed = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
    conda = requirements([text for text in listed if isinstance(text, str)])
    assert {ON_CONDA.get(name, name): str(one.specifier) for name, one in conda.items() if name not in NOT_PYTHON} == {
        name: str(one.specifier) for name, one in EVERYTHING.items()
    }
    assert str(conda["python"].specifier) == PROJECT["requires-python"]


def test_the_extra_dev_holds_all_the_others() -> None:
    (everything,) = (Requirement(text) for text in EXTRAS["dev"])
    assert everything.extras == set(EXTRAS) - {"dev"}


def test_every_dependency_is_pinned_inside_its_range() -> None:
    pinned = pins("constraints.txt")
    assert set(EVERYTHING) <= set(pinned)
    assert [
        f"{one} is pinned to {pinned[name]}" for name, one in EVERYTHING.items() if pinned[name] not in one.specifier
    ] == []


def test_every_pin_installs_on_the_oldest_python() -> None:
    """Some packages want a later 3.11 than Debian has."""
    (oldest,) = (one.version for one in SpecifierSet(PROJECT["requires-python"]) if one.operator == ">=")
    ranges = {name: metadata.metadata(name)["Requires-Python"] or "" for name in pins("constraints.txt")}
    assert {name: text for name, text in ranges.items() if f"{oldest}.0" not in SpecifierSet(text)} == {}


def test_the_oldest_versions_are_the_lower_ends_of_their_ranges() -> None:
    for name, version in pins("constraints-oldest.txt").items():
        (lowest,) = (one.version for one in RUNTIME[name].specifier if one.operator == ">=")
        assert version in RUNTIME[name].specifier
        assert version.release[:2] == (*Version(lowest).release, 0)[:2]


def imported(folder: str) -> Iterator[str]:
    """The packages that the modules of a folder import, by the name they are installed by."""
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            names = [node.module] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                first = (name or "").partition(".")[0]
                if first not in sys.stdlib_module_names:
                    yield IMPORTED_AS.get(first, canonicalize_name(first))


def test_the_package_imports_what_it_declares_and_nothing_else() -> None:
    """py4j is PySpark's own, in the one range that it works with; JupyterLab is an extra of one command."""
    used = {name for package in PACKAGES for name in imported(package)}
    assert used - OURS - {"py4j", "jupyterlab"} == set(RUNTIME)


@pytest.mark.parametrize("folder", ["tests", "benchmarks"])
def test_tests_and_benchmarks_import_nothing_that_is_not_declared(folder: str) -> None:
    assert set(imported(folder)) - OURS - COMPARED <= set(EVERYTHING)


def test_every_package_is_shipped() -> None:
    """setuptools is given a list, which has to follow the folders; the notebooks are shipped inside the package."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    folders = {path.parent.relative_to(ROOT) for name in PACKAGES for path in (ROOT / name).rglob("*.py")}
    assert set(settings["packages"]) == {".".join(folder.parts) for folder in folders} | {"cdcwb.notebooks"}
    assert settings["package-dir"] == {"cdcwb.notebooks": "notebooks"}
