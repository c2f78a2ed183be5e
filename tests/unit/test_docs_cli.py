"""Every example of docs/cli.md, run from top to bottom: what is printed is what stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from cdcwb.cli import main
from cdcwb.cli.app import cli
from cdcwb.formats.goldengate.layout import SIGNATURE

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
EXAMPLES = [
    (lines[0], lines[1:])
    for block in re.findall(r"^```console\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    if (lines := part.splitlines())
]

RAW_TRAIL = b"G\0\1\x90" + b"0\0\1\x1c" + b"0\0\0\x08" + SIGNATURE + b"1\0\0\2\0\7" + bytes(374)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder with the captures that the examples read; what they write stays here."""
    made = tmp_path_factory.mktemp("docs")
    (made / "data").symlink_to(ROOT / "data")
    (made / "dirdat").mkdir()
    (made / "dirdat" / "lt000000012").write_bytes(RAW_TRAIL)
    (made / "manual.pdf").write_bytes(b"%PDF-1.7\n")
    (made / "people.csv").write_text("id,name,city\n1,Ann,Ulm\n2,Ben,Bonn\n")
    return made


def pattern(lines: list[str]) -> str:
    """The printed lines as a regular expression: ``…`` stands for any text, on a line of its own for any lines."""
    texts = [r"(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*") + r"\n" for line in lines]
    return "".join(texts)


@pytest.mark.parametrize(("command", "printed"), EXAMPLES, ids=[command for command, _ in EXAMPLES])
def test_an_example_prints_what_stands_there(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    command: str,
    printed: list[str],
) -> None:
    monkeypatch.chdir(folder)
    program, *arguments = shlex.split(command)
    if program == "cat":
        found = Path(*arguments).read_text(encoding="utf-8")
    else:
        assert program == "cdcwb"
        code = main(arguments)
        found = "".join(capsys.readouterr())
        assert code == (1 if "--strict" in arguments else 2 if found.startswith("cdcwb: ") else 0)
    assert re.fullmatch(pattern(printed), found), found


def test_there_is_an_example_of_every_command_that_prints() -> None:
    shown = {shlex.split(command)[1] for command, _ in EXAMPLES if command.startswith("cdcwb ")}
    assert shown == cli.commands.keys() - {"capture", "report", "doctor"}
