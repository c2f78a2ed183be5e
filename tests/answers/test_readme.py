"""The examples of the README run, and show what it says. (Reports, topics, databases and stores have tests of their
own.)"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import cdcwb
from tests.limits import run

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    cdcwb (.+?)(?: {2,}#.*)?$", TEXT, re.MULTILINE)
ELSEWHERE = re.compile(r"(report|open|pack|capture) |.*://")
PYTHON = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.spark


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "data").symlink_to(ROOT / "data")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_commands_run_one_after_the_other(place: Path) -> None:
    commands = [command for command in COMMANDS if not ELSEWHERE.match(command)]
    assert len(commands) > 20
    outputs = {}
    for command in commands:
        code, outputs[command] = run(shlex.split(command))
        assert code == (1 if "--strict" in command else 0), (command, outputs[command])
    facts = json.loads(run(["summary", "data/gbase8s", "--json"])[1])
    told = re.search(r"(\d+) changes in (\d+) transactions", TEXT)
    assert told is not None
    assert (facts["changes"], facts["transactions"]) == (int(told[1]), int(told[2]))
    assert [entry["table"] for entry in facts["tables"] if entry["table"] == "shop.orders"]
    assert "shop.orders" in outputs["summary made/capture"]  # by its name, not its number
    assert len((place / "changes.jsonl").read_text().splitlines()) > 0
    assert len((place / "gaps.jsonl").read_text().splitlines()) > 0
    assert len((place / "cut.jsonl").read_text().splitlines()) > 0
    assert (place / "documents.xml").read_text().startswith("<nds ")


def test_the_lines_of_python_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    exec(compile(PYTHON[0], "README.md", "exec"), names)
    shown = capsys.readouterr().out
    assert "table_name" in shown
    names["spark"] = names["capture"].spark
    exec(compile(PYTHON[1], "README.md", "exec"), names)
    assert names["events"].count() == names["capture"].events.count()


def test_the_filter_of_the_explorer_finds_something(place: Path) -> None:
    (written,) = re.findall(r"searches their values \(`([^`]+)`\)", TEXT)
    for name in ("gbase8s", "qlik-kafka", "qlik-change-table"):
        explorer = cdcwb.load(place / "data" / name).view.explore().explorer
        explorer.apply(written)
        explorer.advance()
        assert 0 < explorer.shown < explorer.index.records, name
