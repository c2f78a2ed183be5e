"""A disk that is full, or a folder that vanishes, is one sentence that names what could not be written."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cdcwb.cli import main
from cdcwb.errors import CaptureError
from cdcwb.explore import explore
from cdcwb_synth import generate


@contextmanager
def no_room(size: int = 20_000) -> Iterator[None]:
    """No file of this process can be larger; Spark's are not limited."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("full")
    made = generate("gbase8s", changes=600, seed=1, to=folder / "made", all_types=False) / "capture"
    assert main(["save", str(made), "--to", str(folder / "saved")]) == 0  # kernels are compiled, and stored
    return made


def refused(command: list[str], to: Path, capsys: pytest.CaptureFixture[str], temporary: bool = False) -> None:
    to.parent.mkdir()
    with no_room():
        assert main([*command, "--to", str(to)]) == 2
    error = [line for line in capsys.readouterr().err.splitlines() if line.startswith("cdcwb: ")]
    if temporary:
        assert [line.partition(": ")[2].partition(": ")[2] for line in error] == ["cannot be written (File too large)"]
        assert error[0].startswith(f"cdcwb: {tempfile.gettempdir()}/cdcwb-")
    else:
        assert error == [f"cdcwb: {to}: cannot be written (File too large)"]
    assert list(to.parent.rglob("*")) == [], "nothing is left"


def test_save(capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused(["save", str(capture)], tmp_path / "full" / "saved", capsys)


def test_synth(tmp_path: Path) -> None:
    to = tmp_path / "made"
    command = [
        sys.executable,
        "-m",
        "cdcwb.cli",
        "synth",
        "gbase8s",
        "--changes",
        "900",
        "--seed",
        "1",
        "--to",
        str(to),
    ]
    with no_room():
        run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert f"cdcwb: {to}: cannot be written (File too large)" in run.stderr


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_export(capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused(["export", str(capture), "--view", "events"], tmp_path / "full" / "events.jsonl", capsys)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_xds(capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused(["xds", str(capture), "--infer-keys"], tmp_path / "full" / "documents.xml", capsys, temporary=True)


def test_bookmarks(capture: Path, tmp_path: Path) -> None:
    assert main(["save", str(capture), "--to", str(tmp_path / "saved")]) == 0
    explorer = explore(tmp_path / "saved").explorer
    with no_room(), pytest.raises(CaptureError, match=r"marks.json: cannot be written \(File too large\)"):
        explorer.mark("long " * 10_000)
    shutil.rmtree(tmp_path / "saved")
    with pytest.raises(CaptureError, match=r"marks.json: cannot be written \(No such file or directory\)"):
        explorer.mark("short")


def test_notebooks(capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with no_room(100):
        assert main(["open", str(capture), "--no-lab", "--to", str(tmp_path / "notebooks")]) == 2
    assert f"cdcwb: {tmp_path / 'notebooks'}/" in (error := capsys.readouterr().err)
    assert "cannot be written (File too large)" in error


def test_a_target_below_a_file(capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    for command in (["save", str(capture)], ["synth", "gbase8s", "--changes", "5", "--seed", "1"]):
        assert main([*command, "--to", str(tmp_path / "file" / "x")]) == 2
        assert str(tmp_path / "file") in capsys.readouterr().err
