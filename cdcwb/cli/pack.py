"""The command pack: the archive for the executors of a Spark cluster (docs/clusters.md).

``lib/`` in it is a folder for PYTHONPATH with cdcwb, the packages it depends on, and its kernels, compiled for any
processor of this architecture. PySpark is not in it: executors have that of their Spark.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import click

from cdcwb.cli.console import print_lines, safe, working
from cdcwb.cli.options import Target
from cdcwb.errors import CaptureError, MissingDependencyError

if TYPE_CHECKING:
    from importlib.metadata import Distribution

__all__ = ["pack"]

_OWN: Final = ("cdcwb", "cdcwb_synth")
_OF_SPARK: Final = ("pyspark", "py4j")
_ANY_PROCESSOR: Final = {"NUMBA_CPU_NAME": "generic"}
_AT_START: Final = f'''"""Read when Python starts: numba uses the kernels of this archive on every processor."""
import os

for name, value in {_ANY_PROCESSOR}.items():
    os.environ.setdefault(name, value)
'''


@click.command()
@click.option(
    "--to",
    "target",
    metavar="FILE.tar.gz",
    type=Target("FILE.tar.gz"),
    required=True,
    help="The archive; one that exists is replaced.",
)
def pack(target: str) -> None:
    """Pack cdcwb, its dependencies and its compiled loops for the executors of a Spark cluster."""
    import tarfile

    archive = Path(target).expanduser().absolute()
    if not archive.name.endswith((".tar.gz", ".tgz")):
        raise CaptureError("expected a name that ends with .tar.gz: Spark unpacks archives by it", path=target)
    archive.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=archive.parent, prefix=f".{archive.name}-") as scratch:
        lib, packed = Path(scratch, "lib"), Path(scratch, archive.name)
        with working("collecting packages") as step:
            _collect(lib)
            step("compiling loops and packing")
            compiler = _start_compiler(lib)
            with tarfile.open(packed, "w:gz", compresslevel=6, dereference=True) as tar:
                for entry in sorted(lib.iterdir()):
                    if entry.name not in _OWN:
                        tar.add(entry, f"lib/{entry.name}")
                _finish(compiler)
                for name in _OWN:
                    tar.add(lib / name, f"lib/{name}")
        packed.replace(archive)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    size = f"{archive.stat().st_size / 1_000_000:.0f} MB"
    print_lines([safe(f"{target}: {size}, for executors with Python {version} on {os.uname().machine}")])


def _collect(lib: Path) -> None:
    """Fills the folder: cdcwb, which may be an editable install, is copied, files of other packages are linked."""
    own = Path(__file__).parents[2]
    for name in _OWN:
        shutil.copytree(own / name, lib / name, ignore=shutil.ignore_patterns("__pycache__"))
    (lib / "sitecustomize.py").write_text(_AT_START, encoding="utf-8")
    for package in _dependencies("cdcwb"):
        if package.name == "cdcwb":
            _add_metadata(package, lib / "cdcwb.dist-info")
            continue
        for file in package.files or ():
            source, target = Path(str(file.locate())), lib / file
            if ".." in file.parts or not source.is_file():
                continue  # commands, and deleted files
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(source)


def _add_metadata(package: Distribution, folder: Path) -> None:
    """Writes the metadata of cdcwb: in a checkout it may be that of an old installation, without formats."""
    from cdcwb.formats import FORMATS

    folder.mkdir()
    text = package.read_text("METADATA") or package.read_text("PKG-INFO") or ""
    (folder / "METADATA").write_text(text, encoding="utf-8")
    own = (f"{name} = {one.value}" for name, one in FORMATS.items() if one.dist and one.dist.name == package.name)
    (folder / "entry_points.txt").write_text("\n".join(["[cdcwb.formats]", *own, ""]), encoding="utf-8")


def _of_formats() -> Iterator[str]:
    """The names of the packages that have formats."""
    from cdcwb.formats import FORMATS

    yield from (entry.dist.name for entry in FORMATS.values() if entry.dist is not None)


def _dependencies(root: str) -> Iterator[Distribution]:
    """A package and its dependencies, without those that come with Spark. Raises MissingDependencyError."""
    from importlib.metadata import PackageNotFoundError, distribution

    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    done: set[tuple[str, str]] = set()
    seen = {canonicalize_name(name) for name in _OF_SPARK}
    waiting = [Requirement(name) for name in {root: None, **dict.fromkeys(_of_formats())}]
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        extras = {extra for extra in ("", *wanted.extras) if (name, extra) not in done}
        if name in _OF_SPARK or not extras:
            continue
        done |= {(name, extra) for extra in extras}
        try:
            package = distribution(name)
        except PackageNotFoundError:
            raise MissingDependencyError(
                f"{name} is not installed, so it cannot be packed: pip install {name}"
            ) from None
        if name not in seen:
            seen.add(name)
            yield package
        for requirement in map(Requirement, package.requires or ()):
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(requirement)


def _start_compiler(lib: Path) -> subprocess.Popen[str]:
    """Starts a process that compiles the kernels in the folder, using only packed packages."""
    command = [sys.executable, "-S", "-m", "cdcwb.cli.kernels"]  # -S: without the packages of this environment
    environ = {**os.environ, **_ANY_PROCESSOR, "CDCWB_KERNELS": "beside", "PYTHONPATH": str(lib)}
    return subprocess.Popen(command, cwd=lib, env=environ, stderr=subprocess.PIPE, text=True)


def _finish(compiler: subprocess.Popen[str]) -> None:
    """Waits for it. Raises MissingDependencyError if it cannot read a format."""
    _, output = compiler.communicate()
    if compiler.returncode:
        reason = (output.strip() or "no reason given").splitlines()[-1]
        raise MissingDependencyError(f"the packed packages do not work on their own: {reason}")
