"""The README tells the truth: its commands, files and numbers exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from cdcwb.cli.app import cli

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    cdcwb (.+?)(?: {2,}#.*)?$", TEXT, re.MULTILINE)


def test_the_readme_shows_every_command() -> None:
    assert {command.split()[0] for command in COMMANDS} == set(cli.commands)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme_is_understood(command: str) -> None:
    name, *arguments = shlex.split(command)
    assert isinstance(cli.commands[name].make_context(name, arguments), click.Context)


def test_what_the_readme_names_is_there() -> None:
    linked = re.findall(r"\]\(([\w./-]+)\)", TEXT)
    given = re.findall(r"\bdata/[\w./-]*\w", "\n".join(COMMANDS))
    assert linked
    assert given
    assert [name for name in linked + given if not (ROOT / name).exists()] == []


def test_the_targets_of_the_readme_are_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):.*##", makefile, re.MULTILINE))
    assert set(re.findall(r"^    make (\S+)|`make (\S+)`", TEXT, re.MULTILINE)) <= {(name, "") for name in targets} | {
        ("", name) for name in targets
    }
