"""Files that inflate to more than a limit are refused; the option ``inflate_limit`` raises it."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import openpyxl
import pytest
import zstandard

from cdcwb.cli.app import main
from cdcwb_synth import generate
from tests.event_logs import COLUMNS

ROW = ["1", "id=1", "N", "5", "2025-03-23 08:00:00", "dba", "person", "name", None, "x"]


def workbook(path: Path, *rows: list[str | None]) -> Path:
    made = openpyxl.Workbook()
    for row in (COLUMNS, *rows):
        made.active.append(row)
    made.save(path)
    return path


def with_sheet(path: Path, text: str) -> Path:
    """A workbook with another text in its sheet."""
    with zipfile.ZipFile(workbook(path)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["xl/worksheets/sheet1.xml"] = re.sub(
        rb"</sheetData>", text.encode() + b"</sheetData>", parts["xl/worksheets/sheet1.xml"]
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


# Measures the command from a small process: one forked from this one begins with all of its memory.
MEASURED = """
import resource, subprocess, sys
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
code = subprocess.run(sys.argv[2:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


def limited(*command: str | Path, seconds: int = 30) -> subprocess.CompletedProcess[str]:
    """A command that may not use more processor time than this, nor more than 700 MB of memory."""
    arguments = [sys.executable, "-c", MEASURED, str(seconds), sys.executable, "-m", "cdcwb.cli", *map(str, command)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert int(done.stderr.splitlines()[-1]) < 700_000
    return done


def test_a_workbook_whose_parts_inflate_to_too_much_is_refused_and_the_option_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cell = f'<row r="2"><c r="A2" t="inlineStr"><is><t>{"x" * (80 << 20)}</t></is></c></row>'
    file = with_sheet(tmp_path / "log.xlsx", cell)
    assert file.stat().st_size < 1 << 20
    assert main(["summary", str(file)]) == 2
    assert "the Excel workbook inflates to more than 67,108,864 bytes, the limit; the option inflate_limit" in (
        capsys.readouterr().err
    )


def test_rows_of_a_workbook_with_a_cell_in_the_last_column_only_take_neither_memory_nor_time(tmp_path: Path) -> None:
    rows = "".join(f'<row r="{row}"><c r="XFD{row}"><v>1</v></c></row>' for row in range(2, 1_502))
    done = limited("summary", with_sheet(tmp_path / "log.xlsx", rows), "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["ledger"] == "closes"
    assert answer["malformed_rows"] == 1_500


def test_a_row_number_beyond_those_of_a_sheet_ends_it(tmp_path: Path) -> None:
    row = '<row r="99999999999"><c r="A99999999999"><v>1</v></c></row>'
    done = limited("summary", with_sheet(tmp_path / "log.xlsx", row), "--json", "--format", "idm-event-log")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ledger"] == "closes"


def test_an_undamaged_event_log_in_excel_is_accounted_for_row_by_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = workbook(tmp_path / "log.xlsx", ROW, [], ["2", *ROW[1:]])
    assert main(["summary", str(file), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["ledger"] == "closes"
    assert answer["files"][0]["rows"] == 4
    assert answer["events_by_kind"] == {"change": 2, "filler": 2}


PACK: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "zst": zstandard.compress}


@pytest.mark.parametrize("suffix", PACK)
def test_a_compressed_file_may_inflate_to_the_limit_and_not_to_more(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = generate("gbase8s", changes=20, seed=5, to=tmp_path / "made")
    (plain,) = (made / "capture").iterdir()
    file = tmp_path / f"stream.bin.{suffix}"
    file.write_bytes(PACK[suffix](plain.read_bytes()))
    size = plain.stat().st_size
    assert main(["inspect", str(file), "--offset", "0", "-o", f"inflate_limit={size - 1}"]) == 2
    sentence = f"data inflates to more than {size - 1:,} bytes, the limit; the option inflate_limit"
    assert sentence in capsys.readouterr().err
    assert main(["inspect", str(file), "--offset", "0", "-o", f"inflate_limit={size}"]) == 0
    assert main(["inspect", str(file), "--offset", "0", "-o", "inflate_limit=1.5 MiB"]) == 0


def test_a_limit_that_is_no_size_is_an_error_of_the_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = workbook(tmp_path / "log.xlsx", ROW)
    assert main(["identify", str(file), "-o", "inflate_limit=much"]) == 2
    assert "option inflate_limit: expected a size such as 64GB, found 'much'" in capsys.readouterr().err
