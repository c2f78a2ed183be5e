"""The examples of docs/scheduling.md: their commands are commands, their conditions are conditions."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cdcwb.cli.app import cli
from cdcwb.report.redact import check_names
from cdcwb.report.thresholds import parse_thresholds

DOCS = Path(__file__).parents[2] / "docs"
UNITS = sorted((DOCS / "examples").glob("cdcwb-report.*"))
TEXT = (DOCS / "scheduling.md").read_text(encoding="utf-8")


def settings(unit: Path) -> dict[str, str]:
    """The settings of a unit; none of them is given twice in the examples."""
    lines = [line for line in unit.read_text(encoding="utf-8").splitlines() if re.match(r"\w+=", line)]
    found = dict(line.split("=", 1) for line in lines)
    assert len(found) == len(lines)
    return found


def cron_line() -> list[str]:
    (block,) = re.findall(r"^```cron\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    (line,) = (line for line in block.splitlines() if re.match(r"[\d*]", line))
    return line.split(maxsplit=5)


def commands() -> list[list[str]]:
    """The commands of cron and of the service, in words."""
    (service,) = (unit for unit in UNITS if unit.suffix == ".service")
    in_cron = cron_line()[5]
    assert "%" not in in_cron
    exec_start = settings(service)["ExecStart"]
    assert "%" not in exec_start
    assert "$" not in exec_start
    return [shlex.split(in_cron.removesuffix(" >/dev/null")), shlex.split(exec_start)]


def parsed(words: list[str]) -> dict[str, Any]:
    """What the command's own parser makes of the words."""
    program, name, *arguments = words
    assert Path(program).is_absolute()
    assert Path(program).name == "cdcwb"
    context = cli.commands[name].make_context(name, arguments)
    return context.params


@pytest.mark.parametrize("words", commands(), ids=["cron", "systemd"])
def test_a_scheduled_command_is_understood(words: list[str]) -> None:
    given = parsed(words)
    assert words[1] == "report"
    assert given["name"] == "all"
    assert Path(given["path"]).is_absolute()
    assert Path(given["target"]).is_absolute()
    assert [threshold.fact for threshold in parse_thresholds(given["fail_if"])] == [
        "open_transactions",
        "problems_by_severity.error",
    ]
    assert check_names(given["redact"]) == []


def test_the_cron_line_runs_once_a_day() -> None:
    minute, hour, *others = cron_line()[:5]
    assert 0 <= int(minute) < 60
    assert 0 <= int(hour) < 24
    assert others == ["*", "*", "*"]


def test_the_timer_is_that_of_the_service_and_the_page_links_both() -> None:
    assert {unit.name for unit in UNITS} == {"cdcwb-report.service", "cdcwb-report.timer"}
    for unit in UNITS:
        assert f"(examples/{unit.name})" in TEXT
    timer = settings(next(unit for unit in UNITS if unit.suffix == ".timer"))
    assert timer["WantedBy"] == "timers.target"
    assert re.fullmatch(r"\*-\*-\* \d\d:\d\d", timer["OnCalendar"])


def test_the_reports_go_where_the_service_may_write() -> None:
    service = next(unit for unit in UNITS if unit.suffix == ".service")
    target = parsed(commands()[1])["target"]
    assert Path("/var/lib", settings(service)["StateDirectory"]) in Path(target).parents


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not there")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    for unit in [*UNITS, *(DOCS / "examples").glob("cdcwb-topic.[st][ei]*")]:  # the service and the timer
        text = re.sub(r"^ExecStart=/opt/cdcwb/\S+", "ExecStart=/bin/true", unit.read_text("utf-8"), flags=re.MULTILINE)
        (tmp_path / unit.name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", *sorted(map(str, tmp_path.iterdir()))],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_topics_are_captured_saved_and_reported_on_by_their_own_units() -> None:
    service, timer = (settings_of(DOCS / "examples" / f"cdcwb-topic.{kind}") for kind in ("service", "timer"))
    assert Path(service["ExecStart"][0]).name == "cdcwb-topic.sh"
    assert timer["OnUnitInactiveSec"] == ["10min"]
    script = (DOCS / "examples" / "cdcwb-topic.sh").read_text(encoding="utf-8")
    words = [shlex.split(line) for line in script.splitlines() if "cdcwb " in line and not line.startswith("#")]
    assert [line[line.index("cdcwb") + 1] for line in words] == ["capture", "save", "save", "report"]
    for name in ("sh", "service", "timer"):
        assert f"(examples/cdcwb-topic.{name})" in TEXT


def settings_of(unit: Path) -> dict[str, list[str]]:
    """The settings of a unit, each with all its values."""
    found: dict[str, list[str]] = {}
    for line in unit.read_text(encoding="utf-8").splitlines():
        if re.match(r"\w+=", line):
            name, value = line.split("=", 1)
            found.setdefault(name, []).append(value)
    return found
