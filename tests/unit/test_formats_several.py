"""A folder of several captures is refused by the names of what is in it; one capture of many folders is not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cdcwb.errors import UnknownFormatError
from cdcwb.formats import identify

DATA = Path(__file__).parents[2] / "data"


def test_captures_of_different_formats_in_one_folder_are_named() -> None:
    with pytest.raises(UnknownFormatError) as caught:
        identify(DATA)
    said = str(caught.value)
    assert "several captures of different formats in this folder, name one of them: gbase8s (gbase8s), " in said
    for name in ("goldengate", "idm-event-log", "qlik-change-table", "qlik-kafka"):
        assert f"{name} ({name})" in said
    assert str(DATA) in said
    assert "snapshot" not in said


def test_a_format_that_is_named_is_believed() -> None:
    assert identify(DATA, "gbase8s").format == "gbase8s"


@pytest.mark.parametrize("name", ["gbase8s", "goldengate", "idm-event-log", "qlik-change-table", "qlik-kafka"])
def test_each_of_them_is_a_capture(name: str) -> None:
    assert identify(DATA / name).format == name


def test_folders_of_one_format_and_files_that_are_none_are_one_capture(tmp_path: Path) -> None:
    (tmp_path / "monday").mkdir()
    shutil.copy(DATA / "gbase8s" / "stream-1.bin", tmp_path / "monday" / "stream-1.bin")
    (tmp_path / "tuesday").mkdir()
    shutil.copy(DATA / "gbase8s" / "stream-2.bin", tmp_path / "tuesday" / "stream-2.dat")
    (tmp_path / "wednesday").mkdir()
    (tmp_path / "wednesday" / "readme.txt").write_text("nothing was recorded on this day\n")
    assert identify(tmp_path).format == "gbase8s"
