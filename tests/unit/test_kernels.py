"""Kernels give the same compiled and uncompiled, and what was compiled is kept as long as its sources are the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from cdcwb.cli import kernels as ahead
from cdcwb.formats.kernels import forget_unused, interpreted, kernel

LIMIT = 10


@kernel
def digit(byte: int) -> int:
    return byte - 48 if 48 <= byte < 48 + LIMIT else -1


@kernel
def number(text: np.ndarray, start: int, stop: int) -> int:
    value = np.int64(0)
    for at in range(start, stop):
        found = digit(np.int64(text[at]))
        if found < 0:
            return -1
        value = value * 10 + found
    return value


@pytest.mark.parametrize(("text", "expected"), [(b"2024", 2024), (b"", 0), (b"12x", -1), (b"255255255", 255255255)])
def test_a_kernel_gives_the_same_compiled_and_uncompiled(text: bytes, expected: int) -> None:
    data = np.frombuffer(text, np.uint8)
    assert number(data, 0, len(text)) == expected
    with interpreted():
        assert number(data, 0, len(text)) == expected


SCRIPT = textwrap.dedent("""
    import sys
    import numpy as np
    from demo.loops import twice
    print(twice(np.int64(21)), sum(twice.compiled.stats.cache_hits.values()), "numba" in sys.modules)
""")
LOOPS = "from cdcwb.formats.kernels import kernel\n\n\n@kernel\ndef twice(value):\n    return value * FACTOR\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "demo"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "loops.py").write_text("from demo.factor import FACTOR\n" + LOOPS, encoding="utf-8")
    (folder / "factor.py").write_text("FACTOR = 2\n", encoding="utf-8")
    return folder


def run(package: Path, **environment: str) -> list[str]:
    path = os.pathsep.join([str(package.parent), str(Path(__file__).parents[2])])
    told = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **environment}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=told, check=True, capture_output=True, text=True)
    return done.stdout.split()


def test_compiled_kernels_are_shared_by_all_with_the_same_sources(package: Path, tmp_path: Path) -> None:
    assert run(package) == ["42", "0", "True"]
    assert run(package) == ["42", "1", "True"]
    other = shutil.copytree(package, tmp_path / "elsewhere" / "demo", ignore=shutil.ignore_patterns("__pycache__"))
    assert run(other) == ["42", "1", "True"]


def test_kernels_that_come_with_a_package_are_used_wherever_it_is_copied(package: Path, tmp_path: Path) -> None:
    assert run(package, CDCWB_KERNELS="beside")[:2] == ["42", "0"]
    other = shutil.copytree(package, tmp_path / "elsewhere" / "demo")
    assert run(other, XDG_CACHE_HOME=str(tmp_path / "nothing")) == ["42", "1", "True"]


def test_kernels_are_compiled_where_the_cache_cannot_be_read(package: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert run(package, XDG_CACHE_HOME=str(tmp_path / "file"))[0] == "42"


def test_kernels_of_sources_that_are_no_longer_used_are_removed(package: Path, tmp_path: Path) -> None:
    run(package)
    (used,) = (tmp_path / "cache" / "cdcwb" / "kernels").iterdir()
    unused = shutil.copytree(used, used.with_name("unused"))
    os.utime(unused, (0, 0))
    forget_unused()
    assert used.is_dir()
    assert not unused.exists()


def test_a_changed_source_beside_the_kernel_is_noticed(package: Path) -> None:
    run(package)
    (package / "factor.py").write_text("FACTOR = 3\n", encoding="utf-8")
    assert run(package)[:2] == ["63", "0"]


def test_uncompiled_kernels_import_no_compiler(package: Path) -> None:
    code = SCRIPT.replace(", sum(twice.compiled.stats.cache_hits.values())", "")
    path = os.pathsep.join([str(package.parent), str(Path(__file__).parents[2])])
    told = {**os.environ, "PYTHONPATH": path, "CDCWB_COMPILED": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=told, check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["42", "False"]


def test_kernels_of_all_formats_are_compiled_ahead(capfd: pytest.CaptureFixture[str]) -> None:
    assert ahead.main()
    assert capfd.readouterr().err == ""
