"""JSON and XML exports are a format of their own, and are opened under the name ``goldengate`` too."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import cdcwb_synth as synth
from cdcwb.errors import OptionError, UnknownFormatError
from cdcwb.formats import examine, identify, inspect, row_format
from cdcwb.opening import check_capture, open_small

LOGDUMP = Path(__file__).parents[2] / "data" / "goldengate" / "logdump-000000041.txt"


@pytest.fixture(scope="module", params=["json", "formatxml"])
def exports(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("exports")
    return synth.generate("goldengate", changes=40, seed=3, to=to, form=request.param) / "capture"


@pytest.mark.parametrize("format", ["auto", "goldengate", "goldengate-export"])
def test_exports_are_opened_under_both_names(exports: Path, format: str) -> None:
    assert identify(exports, format).format == "goldengate-export"
    assert {one.format for one in examine(exports, format).files} == {"goldengate-export"}
    small = open_small(exports, format, {"time_zone": "UTC"})
    assert small is not None
    assert set(small.table("events")["format"].to_pylist()) == {"goldengate-export"}
    first = small.table("events").slice(0, 1).to_pylist()[0]
    assert inspect(first["file"], first["offset"], format).event["format"] == "goldengate-export"


@pytest.mark.parametrize("format", ["auto", "goldengate"])
def test_logdump_text_is_goldengate(format: str) -> None:
    assert identify(LOGDUMP, format).format == "goldengate"


@pytest.mark.parametrize("format", ["auto", "goldengate"])
def test_text_and_exports_are_not_one_capture(exports: Path, tmp_path: Path, format: str) -> None:
    folder = shutil.copytree(exports, tmp_path / "both")
    shutil.copy(LOGDUMP, folder / "logdump.txt")
    count = f"{len(list(exports.iterdir()))} file"
    with pytest.raises(UnknownFormatError) as found:
        check_capture(folder, format)
    assert f"goldengate-export ({count}" in found.value.message
    assert "goldengate (1 file)" in found.value.message


def test_a_file_that_few_messages_show_is_an_export(tmp_path: Path) -> None:
    message = '{"table":"A.B","op_type":"I","after":{"ID":1}}\n'
    (tmp_path / "few.json").write_text('{"x":1}\n{"x":2}\n{"x":3}\n' + message, encoding="utf-8")
    assert identify(tmp_path, "goldengate").format == "goldengate-export"


def test_options_are_those_of_the_files(exports: Path) -> None:
    check_capture(exports, "goldengate", {"time_zone": "UTC", "container": "lines"})
    with pytest.raises(OptionError, match="unknown option 'byte_order' for goldengate-export"):
        check_capture(exports, "goldengate", {"byte_order": "big"})
    with pytest.raises(OptionError, match="unknown option 'container' for goldengate"):
        check_capture(LOGDUMP, "goldengate", {"container": "lines"})


def test_rows_are_those_of_exports() -> None:
    assert row_format("goldengate").name == "goldengate-export"
    with pytest.raises(UnknownFormatError, match="the format gbase8s has no tables of rows"):
        row_format("gbase8s")
