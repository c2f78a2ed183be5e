"""Help texts, complete at any width of the terminal."""

from __future__ import annotations

import re

import click
import pytest
from click.testing import CliRunner

from cdcwb.cli.app import cli
from cdcwb.report import __main__ as reports

COMMANDS = [(), *((name,) for name in cli.commands)]


@pytest.mark.parametrize("width", [50, 80, 100, 200])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(("cdcwb", *command)))
def test_no_help_text_is_cut(command: tuple[str, ...], width: int) -> None:
    shown = CliRunner().invoke(cli, [*command, "--help"], terminal_width=width, max_content_width=width).output
    _usage, _, rest = shown.partition("\n\n")
    assert not re.search(r"…|\.\.\.", rest)
    text = "".join(rest.split())  # a line may end behind a hyphen
    own = cli.commands[command[0]] if command else cli
    helps = [own.help, *(option.help for option in own.params if isinstance(option, click.Option) and option.help)]
    helps += [] if command else [(one.help or "").partition(".")[0] for one in cli.commands.values()]
    for one in helps:
        assert "".join((one or "").split()) in text


def test_the_help_of_all_reports_is_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        reports.main(["--help"])
    assert "…" not in capsys.readouterr().out
