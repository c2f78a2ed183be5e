"""The nightly script of docs/scheduling.md, run with a stand-in for cdcwb that writes down what it is asked."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from cdcwb.cli.app import cli
from cdcwb.report.thresholds import parse_thresholds

DOCS = Path(__file__).parents[2] / "docs"
SCRIPT = DOCS / "examples" / "cdcwb-night.sh"

STAND_IN = """#!/bin/sh
printf '%s\\n' "$@" > "$ASKED/$(ls "$ASKED" | wc -l)"
while [ "$1" != --to ]; do shift; done
mkdir -p "$2"
exit "${ANSWER:-0}"
"""


def night(folder: Path, answer: int = 0) -> tuple[int, list[list[str]]]:
    """Runs the script below a folder; its exit code and the commands that it gave."""
    asked = folder / f"asked-{len(list(folder.glob('asked-*')))}"
    asked.mkdir()
    command = folder / "bin" / "cdcwb"
    command.parent.mkdir(exist_ok=True)
    command.write_text(STAND_IN, encoding="utf-8")
    command.chmod(0o755)
    script = SCRIPT.read_text(encoding="utf-8").replace("/var/lib", str(folder))
    environment = {"PATH": f"{command.parent}:{os.environ['PATH']}", "ASKED": str(asked), "ANSWER": str(answer)}
    done = subprocess.run(["sh", "-c", script], env=environment, check=False, capture_output=True, text=True)
    assert done.stderr == ""
    found = sorted(asked.iterdir(), key=lambda path: int(path.name))
    return done.returncode, [path.read_text(encoding="utf-8").splitlines() for path in found]


def test_the_first_night_saves_the_folder_and_the_others_go_on(tmp_path: Path) -> None:
    landing, kept = str(tmp_path / "cdc" / "shop"), tmp_path / "cdcwb" / "kept" / "shop"
    code, (save, report) = night(tmp_path)
    assert code == 0
    first = save[3]
    assert save == ["save", landing, "--to", first]
    assert Path(first).parent == kept
    assert report[:3] == ["report", "all", first]
    assert (kept / "latest").resolve() == Path(first)
    (kept / "latest").unlink()
    earlier = Path(first).rename(kept / "20260101T000000Z")
    (kept / "latest").symlink_to(earlier)
    _, (save, report) = night(tmp_path)
    assert save == ["save", str(earlier), landing, "--to", save[4]]
    assert report[2] == save[4] == str((kept / "latest").resolve())


def test_what_fails_is_not_kept(tmp_path: Path) -> None:
    code, commands = night(tmp_path, answer=2)
    assert (code, len(commands)) == (2, 1)
    assert not (tmp_path / "cdcwb" / "kept" / "shop" / "latest").exists()


def test_its_commands_are_commands(tmp_path: Path) -> None:
    _, (save, report) = night(tmp_path)
    given = cli.commands["save"].make_context("save", save[1:]).params
    assert (given["paths"], given["target"]) == ((save[1],), save[3])
    told = cli.commands["report"].make_context("report", report[1:]).params
    assert [one.fact for one in parse_thresholds(told["fail_if"])] == ["open_transactions"]


def test_the_page_links_the_script() -> None:
    assert f"(examples/{SCRIPT.name})" in (DOCS / "scheduling.md").read_text(encoding="utf-8")
