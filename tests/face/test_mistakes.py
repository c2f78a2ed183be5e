"""The answer to a mistake is one sentence on standard error that names what is wrong, where, and the cure. Nothing else
is printed, and no file is left behind."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import cdcwb
from tests.face.cases import DATA
from tests.face.mistakes import MISTAKES, ON_A_CAPTURE, Mistake
from tests.limits import outputs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERY = [
    pytest.param(mistake, id=f"{format}: {mistake.name}", marks=[pytest.mark.spark] if mistake.spark else [])
    for format, mistakes in MISTAKES.items()
    for mistake in mistakes
]


@pytest.mark.parametrize("mistake", EVERY)
def test_a_mistake(
    mistake: Mistake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if mistake.spark:
        request.getfixturevalue("spark")
    monkeypatch.chdir(tmp_path)
    Path("data").symlink_to(DATA)
    for name, content in mistake.files.items():
        Path(name).parent.mkdir(exist_ok=True)
        if name.endswith("/"):
            Path(name).mkdir()
        else:
            Path(name).write_bytes(content)
    for command in mistake.first:
        assert outputs(shlex.split(command))[0] == 0
    for name, content in mistake.spoiled.items():
        Path(name).unlink()
        if content is not None:
            Path(name).write_bytes(content)
    before = tree(tmp_path)
    if isinstance(mistake.command, str):
        code, out, err = outputs(shlex.split(mistake.command))
        assert (code, out) == (mistake.code, ""), err
        assert err.startswith("cdcwb: ")
        text = err.removeprefix("cdcwb: ")
    else:
        with pytest.raises(cdcwb.CaptureError) as raised:
            mistake.command()
        text = str(raised.value)
    check_text(text, mistake.says, mistake.then)
    assert tree(tmp_path) == before


@pytest.mark.spark
def test_a_mistake_with_a_loaded_capture(spark: SparkSession) -> None:
    capture = cdcwb.load(DATA / "gbase8s")
    for name, (call, says) in ON_A_CAPTURE.items():
        with pytest.raises(cdcwb.CaptureError) as raised:
            call(capture)
        assert name
        check_text(str(raised.value), says, ())
    with pytest.raises(AttributeError, match=r"'timelin'; there are: .*timeline"):
        _ = capture.view.transactions.timelin


def check_text(text: str, says: Sequence[str], then: Sequence[str]) -> None:
    """A first line with some parts, and further lines only where they are expected, with theirs."""
    assert "Traceback" not in text
    first, *rest = [line for line in text.splitlines() if not line.startswith("Try '")]
    assert [part for part in says if part not in first] == [], text
    assert [part for part in then if part not in "\n".join(rest)] == [], text
    assert bool(rest) is bool(then), text


def tree(folder: Path) -> list[tuple[str, tuple[str, ...]]]:
    """The files and folders below a folder."""
    return sorted((path, tuple(sorted([*folders, *files]))) for path, folders, files in os.walk(folder))
