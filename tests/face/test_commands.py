"""Every option of the command line is used once, and does what ``make face`` wrote; so do methods of a capture."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.face.commands import CALLS, COMMANDS, LEFT_OUT, Command, call_of, command_of, long_options
from tests.face.face import differences, expected
from tests.limits import run

EVERY = [pytest.param(one, id=one.line[:80], marks=[pytest.mark.spark] if one.spark else []) for one in COMMANDS]


def test_every_option_is_used() -> None:
    commands = re.findall(r"^  ([a-z]+) ", run(["--help"])[1].partition("Commands:")[2], re.MULTILINE)
    lines = [f"{line} " for one in COMMANDS for line in (one.line, *one.first)]
    unused = [
        f"{command} {option}"
        for command in commands
        if command not in LEFT_OUT
        for option in long_options(command)
        if not any(line.startswith(f"{command} ") and f" {_SHORT.get(option, option)} " in line for line in lines)
    ]
    assert sorted(unused) == sorted(name for name in LEFT_OUT if " " in name)
    assert {name for name in LEFT_OUT if " " not in name} <= {*commands}
    assert {*expected("commands")} == {one.line for one in COMMANDS} | CALLS.keys()


_SHORT = {"--option": "-o", "--parameter": "-p"}


@pytest.mark.parametrize("command", EVERY)
def test_a_command(command: Command, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if command.spark:
        request.getfixturevalue("spark")
    assert [*differences(expected("commands")[command.line], command_of(command, tmp_path / "here"))] == []


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", CALLS)
def test_a_call(name: str, tmp_path: Path) -> None:
    assert [*differences(expected("commands")[name], call_of(name, tmp_path))] == []
